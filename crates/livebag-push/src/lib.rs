//! Recordings copied into object stores and folders: resumable, verified, committed last.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use livebag_push::{PushOptions, Target, TargetOptions, push};
//!
//! let target = Target::open("s3://fleet/robot7", &TargetOptions::default())?;
//! let pushed = push("run1".as_ref(), &target, &PushOptions::default(), &mut |_| ControlFlow::Continue(()))?;
//! println!("{}: {} bytes sent", pushed.address, pushed.sent_bytes);
//! # Ok::<(), livebag_push::PushError>(())
//! ```
//!
//! A push visits the modules in this order: `recording` lists the files, `target` opens the store
//! (`http` sends requests at the rate of `pace`, `folder` writes to a folder), `journal` remembers what
//! was sent, and `push` sends, verifies (`digest`) and commits. `removal` frees the robot's disk afterwards.

mod limits;

mod error;
mod recording;

mod folder;
mod http;
mod pace;
mod target;

mod digest;
mod fingerprint;
mod journal;
mod push;
mod removal;

pub use error::PushError;
pub use fingerprint::fingerprint;
pub use livebag_bucket::{BucketError, GIVE_UP_AFTER_DEFAULT, StoreFailure};
pub use push::{PushOptions, PushProgress, Pushed, push, was_pushed};
pub use recording::last_closed_split;
pub use removal::{finish_removal, finish_removals};
pub use target::{Target, TargetOptions};
