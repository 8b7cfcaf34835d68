//! Object stores: what everything that reads or writes buckets needs.
//!
//! An [`Address`] names a bucket and a prefix. [`open_store`] finds the credentials (`profile`) and opens it. A
//! [`BucketError`] says what a store's failure means and what to do about it.

mod address;
mod error;
mod limits;
mod profile;
mod store;

pub use address::{Address, path_below};
pub use error::{
    BucketError, StoreFailure, is_damaged_on_the_way, is_forgotten, is_lost_on_the_way,
};
pub use limits::{CONNECT, GIVE_UP_AFTER_DEFAULT, STALL};
pub use store::{Store, open_store, runtime};
