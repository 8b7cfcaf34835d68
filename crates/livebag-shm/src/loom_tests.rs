//! loom runs the crate's own slot and wake protocols through every interleaving of small models:
//! `RUSTFLAGS="--cfg loom" cargo test -p livebag-shm --release`.
