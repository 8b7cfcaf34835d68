#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| livebag_bags::fuzzing::database(bytes));
