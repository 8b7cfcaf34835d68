//! A wall clock that is set while recording: the status and the container tell, because log times jump there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, Container, Recorder, RecorderOptions, SimulatedDisk};

#[test]
fn a_clock_that_is_set_is_told() {
    let disk = SimulatedDisk::new(1);
    let clock = Clock::simulated(1_700_000_000_000_000_000);
    let options = RecorderOptions { clock: clock.clone(), ..RecorderOptions::default() };
    let recorder = Recorder::create_on(Arc::new(disk.clone()), Path::new("/run"), options).unwrap();
    // The recorder looks once a second, and compares with its first look. The wall clock stands still.
    while recorder.status().clock_jumps.count == 0 {
        clock.advance(Duration::from_secs(1));
        clock.jump(-1_000_000_000);
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let status = recorder.finish().unwrap();
    assert!(status.clock_jumps.max_nanos >= 1_000_000_000, "{:?}", status.clock_jumps);
    let container = Container::open_on(&disk, Path::new("/run")).unwrap();
    assert_eq!(container.clock_jumps(), status.clock_jumps);
}
