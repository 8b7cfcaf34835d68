//! Object stores: what everything that reads or writes buckets needs.
//!
//! An [`Address`] names a bucket and a prefix. [`open_store`] finds the credentials (`profile`) and opens it. A
//! [`BucketError`] says what a store's failure means and what to do about it.
//!
//! A [`Bucket`] is a place whose recordings are read. A [`BucketDisk`] has the files of one of them: `livebag` reads it
//! as it reads a disk.

mod address;
mod bucket;
mod cache;
mod connection;
mod disk;
mod error;
mod limits;
mod profile;
mod store;

pub use address::{Address, path_below};
pub use bucket::Bucket;
pub use disk::BucketDisk;
pub use error::{
    BucketError, StoreFailure, is_damaged_on_the_way, is_forgotten, is_lost_on_the_way,
};
pub use limits::{CONNECT, GIVE_UP_AFTER_DEFAULT, STALL};
pub use store::{Store, open_store, runtime};

#[cfg(test)]
mod tests;
