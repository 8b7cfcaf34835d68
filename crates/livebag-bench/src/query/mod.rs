//! `query`: open a finished recording and read one topic, whole or a range of it.
//!
//! The same messages lie in a livebag container, in a chunked MCAP without compression (the `mcap`
//! crate's writer and default chunk size), and in a ROS 1 bag (chunks of 768 KiB, rosbag's default).
//! Every reader opens the recording anew, reads each message and looks at one byte in each page of
//! it. `cold`: the files' pages have been dropped from the page cache before.
//!
//! livebag and the `mcap` crate read both ways: in place (`livebag`, `mcap-chunked`: mapped files) and
//! with `pread`. `floor` is what the device needs for the messages' bytes alone, by direct reads.

mod data;
pub mod matrix;
mod readers;
mod ros1_writer;
mod write;
