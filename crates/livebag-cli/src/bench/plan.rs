//! Which runs there are: the cross product of a benchmark's parameters.

use super::benchmark::{Benchmark, Config, StorageId};
use super::producers::Producers;
use super::settings::{self, Settings};
use crate::outcome::CliError;
use crate::text;

/// Publishing takes this long in all runs of `--quick` together, and at most this long in one.
const QUICK_SECONDS_ALL: f64 = 12.0;
const QUICK_SECONDS_EACH: f64 = 3.0;
/// What one run of `--quick` writes at most: a slow disk must take it in time, too.
const QUICK_BYTES_EACH: f64 = 1e9;

/// One combination of parameters.
#[derive(Clone, Debug)]
pub struct Combination {
    /// The storage.
    pub storage: StorageId,
    /// Bytes of each half of the cache.
    pub cache_bytes: u64,
    /// Bytes at which a file is split; 0 for never.
    pub bag_bytes: u64,
    /// `zstd` or nothing.
    pub compression: String,
    /// Messages that wait for compression, as the benchmark has it.
    pub compression_queue: u64,
    /// Compressing threads, as the benchmark has them.
    pub compression_threads: u64,
    /// Name of the storage's settings.
    pub config: String,
    /// The combination's settings.
    pub settings: Settings,
}

impl Combination {
    /// Distinguishes it from others of its storage, in words: `cache 100 MB, fastwrite`.
    pub fn parameters(&self) -> String {
        let mut words = vec![match self.cache_bytes {
            0 if self.storage == StorageId::Livebag => "producers wait".to_owned(),
            0 => "no cache".to_owned(),
            bytes => format!("cache {}", text::bytes(bytes as f64)),
        }];
        if !self.config.is_empty() {
            words.push(self.config.clone());
        }
        if !self.compression.is_empty() {
            words.push(self.compression.clone());
        }
        if self.compression_threads > 0 {
            words.push(text::plural(self.compression_threads as usize, "thread"));
        }
        if self.compression_queue != 1 {
            words.push(format!("queue {}", self.compression_queue));
        }
        if self.bag_bytes > 0 {
            words.push(format!("split at {}", text::bytes(self.bag_bytes as f64)));
        }
        words.join(", ")
    }
}

/// The combinations to run, and those left out.
#[derive(Debug)]
pub struct Plan {
    /// The combinations to run, with the storages of one set of parameters next to each other.
    pub combinations: Vec<Combination>,
    /// Why others are not.
    pub left_out: Vec<String>,
}

impl Plan {
    /// Every combination that has a meaning.
    pub fn new(benchmark: &Benchmark) -> Result<Self, CliError> {
        let mut plan = Plan { combinations: Vec::new(), left_out: Vec::new() };
        let p = &benchmark.parameters;
        for cache_bytes in &p.cache_bytes {
            for bag_bytes in &p.bag_bytes {
                for config in &p.config {
                    for storage in &p.storage {
                        plan.add(benchmark, *storage, *cache_bytes, *bag_bytes, config)?;
                    }
                }
            }
        }
        if plan.combinations.is_empty() {
            let why = plan.left_out.join("; ");
            return Err(CliError::failed(format!(
                "no combination of parameters can be run: {why}"
            )));
        }
        Ok(plan)
    }

    /// The combinations in the order of this repeat, counted from 1: forwards, backwards, and so on.
    pub fn in_turn(&self, repeat: u64) -> impl Iterator<Item = &Combination> {
        let count = self.combinations.len();
        let at = move |index| if repeat % 2 == 1 { index } else { count - 1 - index };
        (0..count).map(move |index| &self.combinations[at(index)])
    }

    fn add(
        &mut self,
        benchmark: &Benchmark,
        storage: StorageId,
        cache_bytes: u64,
        bag_bytes: u64,
        config: &Config,
    ) -> Result<(), CliError> {
        let p = &benchmark.parameters;
        for compression in &p.compression {
            for queue in &p.compression_queue {
                for threads in &p.compression_threads {
                    match settings::resolve(storage, config, compression, *threads)? {
                        Ok(settings) => self.combinations.push(Combination {
                            storage,
                            cache_bytes,
                            bag_bytes,
                            compression: compression.clone(),
                            compression_queue: *queue,
                            compression_threads: *threads,
                            config: config.label().to_owned(),
                            settings,
                        }),
                        Err(why) if !self.left_out.contains(&why) => self.left_out.push(why),
                        Err(_) => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// The benchmark for a first look: once each, only the first value of whatever is not a storage or
/// its settings.
pub fn quick_benchmark(mut benchmark: Benchmark) -> Benchmark {
    benchmark.repeat_each = 1;
    let p = &mut benchmark.parameters;
    p.cache_bytes.truncate(1);
    p.bag_bytes.truncate(1);
    p.compression.truncate(1);
    p.compression_queue.truncate(1);
    p.compression_threads.truncate(1);
    benchmark
}

/// The producers for a quick benchmark with this many runs.
pub fn quick_producers(producers: Producers, runs: usize) -> Producers {
    let seconds = (QUICK_SECONDS_ALL / runs as f64)
        .min(QUICK_SECONDS_EACH)
        .min(QUICK_BYTES_EACH / producers.bytes_per_second())
        .min(producers.seconds());
    producers.lasting(seconds)
}

#[cfg(test)]
mod tests {
    use super::super::profiles;
    use super::*;

    fn benchmark() -> Benchmark {
        let mut benchmark = Benchmark::default();
        benchmark.parameters.cache_bytes = vec![0, 100];
        benchmark.parameters.config = ["fastwrite", "resilient"]
            .map(|name| Config::Preset(name.to_owned()))
            .into_iter()
            .chain([Config::Usual])
            .collect();
        benchmark.parameters.compression = vec![String::new(), "zstd".to_owned()];
        benchmark
    }

    #[test]
    fn the_cross_product_leaves_out_what_has_no_meaning_and_says_so() {
        let plan = Plan::new(&benchmark()).unwrap();
        let count = |storage| plan.combinations.iter().filter(|c| c.storage == storage).count();
        // Two caches; livebag in three ways with and without zstd, SQLite in two ways, MCAP in one
        // with and without zstd and in one that has no chunks to compress.
        assert_eq!(count(StorageId::Livebag), 12);
        assert_eq!(count(StorageId::Sqlite3), 4);
        assert_eq!(count(StorageId::Mcap), 6);
        assert_eq!(plan.combinations[0].parameters(), "producers wait, fastwrite");
        let forth: Vec<_> = plan.in_turn(1).map(Combination::parameters).collect();
        let back: Vec<_> = plan.in_turn(2).map(Combination::parameters).collect();
        assert!(forth.iter().eq(back.iter().rev()) && forth != back);
        let said = |what: &str| plan.left_out.iter().any(|why| why.contains(what));
        assert!(said("fastwrite is not for storage sqlite3"), "{:?}", plan.left_out);
        assert!(said("resilient is not for storage mcap"), "{:?}", plan.left_out);

        let mut nothing = benchmark();
        nothing.parameters.storage = vec![StorageId::Sqlite3];
        nothing.parameters.config.truncate(1);
        assert!(Plan::new(&nothing).unwrap_err().to_string().contains("fastwrite"));
    }

    #[test]
    fn a_quick_run_is_small() {
        let benchmark = quick_benchmark(benchmark());
        let plan = Plan::new(&benchmark).unwrap();
        assert_eq!(plan.combinations.len(), 3 + 2 + 2);
        let producers = profiles::producers("automotive").unwrap();
        let quick = quick_producers(producers, plan.combinations.len());
        assert!(quick.bytes() < 1_100_000_000 && quick.seconds() <= 3.0);
        let short = profiles::producers("low_pubs").unwrap().lasting(0.5);
        assert_eq!(quick_producers(short, 1).seconds(), 0.5);
    }
}
