#![allow(clippy::all, clippy::disallowed_methods, unsafe_code, missing_docs)]
use livebag::{Recorder, RecorderOptions, Topic};
use std::time::{Duration, Instant};

fn usage() -> (i64, i64) {
    unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut u);
        (u.ru_minflt, u.ru_nivcsw + u.ru_nvcsw)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mode = args[1].as_str();
    let bytes: usize = args[2].parse().unwrap();
    let seconds: f64 = args[3].parse().unwrap();
    let dir = &args[4];
    let count = (seconds * 1000.0) as usize;
    let data = vec![1u8; bytes];
    let path = std::path::Path::new(dir).join("probe");
    let _ = std::fs::remove_dir_all(&path);
    let mut recorder = None;
    let mut writer = None;
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    if mode == "rec" {
        let r = Recorder::create(&path, RecorderOptions::default()).unwrap();
        writer = Some(
            r.topic(Topic {
                name: "/submit".into(),
                type_name: "std_msgs/msg/UInt8MultiArray".into(),
                message_encoding: "cdr".into(),
                schema_encoding: "ros2msg".into(),
                schema: b"uint8[] data\n".to_vec(),
                ..Topic::default()
            })
            .unwrap(),
        );
        recorder = Some(r);
        std::thread::sleep(Duration::from_millis(100));
    } else {
        let k: usize = mode.parse().unwrap();
        blocks = (0..k).map(|_| vec![1u8; bytes]).collect();
    }
    let start = Instant::now();
    let mut all: Vec<(u64, i64, i64, usize)> = Vec::with_capacity(count);
    let offset = std::env::var("OFFSET_US").ok().map_or(0, |v| v.parse::<u64>().unwrap());
    for i in 0..count {
        let due = Duration::from_micros(1000 * i as u64 + offset);
        let now = start.elapsed();
        if due > now {
            std::thread::sleep(due - now);
        }
        let before = usage();
        let t = Instant::now();
        if let Some(w) = &writer {
            w.write(1, i as u64 + 1, &data).unwrap();
        } else {
            let k = blocks.len();
            blocks[i % k].copy_from_slice(&data);
            std::hint::black_box(&blocks[i % k]);
        }
        let nanos = t.elapsed().as_nanos() as u64;
        let after = usage();
        all.push((nanos, after.0 - before.0, after.1 - before.1, i));
    }
    drop(writer);
    if let Some(r) = recorder {
        r.finish().unwrap();
    }
    let _ = std::fs::remove_dir_all(&path);
    if std::env::var("RAW").is_ok() {
        for a in all.iter().skip(1000).take(100) {
            println!("{a:?}");
        }
    }
    let mut sorted: Vec<u64> = all.iter().map(|a| a.0).collect();
    sorted.sort();
    let p = |q: f64| sorted[((sorted.len() - 1) as f64 * q) as usize] as f64 / 1e3;
    let slow: Vec<_> = all.iter().filter(|a| a.0 > 20_000).collect();
    println!(
        "{mode} {bytes}: min {:.1} p50 {:.1} p90 {:.1} p95 {:.1} p99 {:.1} p99.9 {:.1} max {:.1}; slow {} of {}: faulted {}, switched {}, neither {}; faults in all {}",
        sorted[0] as f64 / 1e3,
        p(0.5),
        p(0.9),
        p(0.95),
        p(0.99),
        p(0.999),
        p(1.0),
        slow.len(),
        all.len(),
        slow.iter().filter(|a| a.1 > 0).count(),
        slow.iter().filter(|a| a.2 > 0).count(),
        slow.iter().filter(|a| a.1 == 0 && a.2 == 0).count(),
        all.iter().map(|a| a.1).sum::<i64>()
    );
}
