//! Where messages come from when they do not come through a [`TopicWriter`](crate::TopicWriter).

mod selector;
mod stream;

pub use selector::{Selector, SelectorError, pattern};
pub(crate) use stream::{Encoder, First, StreamSource};
pub use stream::{around_frame, stream_topic};
