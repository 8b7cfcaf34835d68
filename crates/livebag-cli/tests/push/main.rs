//! Pushing to and reading from a real S3 server in this process, whose connections fail as the tests want.
#![expect(clippy::disallowed_methods, reason = "tests look at files as users do")]

mod catalogue;
mod deleting;
mod faults;
mod folder;
mod killed;
#[path = "../../../../tests/lacks_right.rs"]
mod lacks_right;
mod names;
mod reading;
mod recording;
mod run;
mod serving;
mod store;
mod watch;
mod whole;
