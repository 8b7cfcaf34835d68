use super::*;

/// rosbag2's shape; `parameters` and `more` are keys of ours.
fn document(more: &str, parameters: &str) -> String {
    format!(
        "{ROOT}:\n  benchmark_node:\n    ros__parameters:\n      benchmark:\n        \
         summary_result_file: \"results.csv\"\n        bag_root_folder: \"/tmp/there\"\n        \
         repeat_each: 2 # comment\n        no_transport: True\n        preserve_bags: False\n\
         {more}        parameters:\n          max_cache_size: [0, 100000000]\n          \
         max_bag_size: [0]\n          compression: [\"\", \"zstd\"]\n          \
         compression_queue_size: [1]\n          compression_threads: [0]\n{parameters}"
    )
}

fn parse(more: &str, parameters: &str) -> Result<Benchmark, String> {
    let parsed = Benchmark::parse("dir/b.yaml", "b", &document(more, parameters));
    parsed.map_err(|error| error.to_string())
}

#[test]
fn the_shape_that_rosbag2_ships_is_read() {
    let config = "          storage_config_file: [\"\", \"storage_resilient.yaml\", fastwrite]\n";
    let benchmark = parse("", config).unwrap();
    assert_eq!((benchmark.repeat_each, benchmark.no_transport), (2, true));
    assert_eq!(benchmark.bag_root, PathBuf::from("/tmp/there"));
    let p = &benchmark.parameters;
    assert_eq!(p.storage, StorageId::ALL);
    assert_eq!(p.cache_bytes, [0, 100_000_000]);
    assert_eq!(p.compression, ["", "zstd"]);
    assert_eq!(p.config[1], Config::Preset("resilient".to_owned()));
    let storage = "          storage_id: [mcap, livebag]\n";
    let named = parse("        producers_cpu_affinity: []\n", storage).unwrap();
    assert_eq!(named.parameters.storage, [StorageId::Mcap, StorageId::Livebag]);
}

#[test]
fn storage_config_files_are_found_beside_the_benchmark() {
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(
        folder.path().join("mine.yaml"),
        "write:\n  pragmas: [\"journal_mode = WAL\"]\n",
    )
    .unwrap();
    let file = folder.path().join("b.yaml").display().to_string();
    let config = "          storage_config_file: [mine.yaml]\n";
    let benchmark = Benchmark::parse(&file, "b", &document("", config)).unwrap();
    let config = &benchmark.parameters.config[0];
    assert_eq!(config.label(), "mine.yaml");
    use super::super::settings::{Settings, resolve};
    let settings = resolve(StorageId::Sqlite3, config, "", 0).unwrap().unwrap();
    let Settings::Sqlite3(settings) = settings else { panic!("{settings:?}") };
    assert_eq!(settings.pragmas, ["journal_mode = WAL"]);
    assert!(resolve(StorageId::Mcap, config, "", 0).unwrap().is_err());
}

#[test]
fn what_is_wrong_is_named_with_file_and_key() {
    let parameter = |line: &str| parse("", &format!("          {line}\n"));
    let key = |line: &str| parse(&format!("        {line}\n"), "");
    let cases = [
        (parameter("storage_id: [rosbag]"), "storage_id[0]: expected livebag, mcap or sqlite3"),
        (parameter("storage_id: []"), "at least one item"),
        (parameter("storage_id: mcap"), "storage_id: expected a list: [a, b], found \"mcap\""),
        (parameter("storage_config_file: [nowhere.yaml]"), "a file that is there"),
        (parameter("compresion: [zstd]"), "the key compresion is not known; known are storage_id"),
        (key("producers_cpu_affinity: [9999]"), "a processor that may be used here"),
        (key("delete_bags: true"), "the key delete_bags is not known"),
    ];
    for (parsed, words) in cases {
        let error = parsed.unwrap_err();
        assert!(error.contains(words) && error.contains("dir/b.yaml"), "{words}: {error}");
    }
    let text = document("", "").replace("results.csv", "../results.csv");
    let error = Benchmark::parse("b.yaml", "b", &text).unwrap_err().to_string();
    assert!(error.contains("a file name without a folder"), "{error}");
    let text = document("", "").replace("repeat_each: 2", "repeat_each: 0");
    let error = Benchmark::parse("b.yaml", "b", &text).unwrap_err().to_string();
    assert!(error.contains("repeat_each: expected a whole number of at least 1"), "{error}");
    let error = Benchmark::parse("b.yaml", "b", &format!("{ROOT}: {{}}")).unwrap_err().to_string();
    assert!(error.contains("the key benchmark_node is missing"), "{error}");
}
