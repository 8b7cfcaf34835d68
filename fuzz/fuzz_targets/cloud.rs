#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| livebag_net::fuzzing::cloud(bytes));
