#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| livebag_ros2::fuzzing::discovery(bytes));
