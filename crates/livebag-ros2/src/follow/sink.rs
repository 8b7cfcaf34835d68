//! Where the messages of a network go.

use livebag::{NewMessage, RecordError, Recorder, Topic, TopicWriter};

/// Takes topics.
pub trait Sink {
    /// Makes the way in for a topic.
    ///
    /// # Errors
    /// Why it cannot be taken, in words; the others go on.
    fn open(&self, topic: Topic) -> Result<Box<dyn SinkTopic>, String>;
}

/// The way in for one topic. Called on the network's threads, one at a time: it must not wait.
pub trait SinkTopic: Send + Sync {
    /// Takes a message. It counts messages that it cannot accept.
    fn write(&self, message: &NewMessage<'_>);
    /// Counts messages that were lost on the way here.
    fn lost(&self, count: u64);
}

impl Sink for Recorder {
    fn open(&self, topic: Topic) -> Result<Box<dyn SinkTopic>, String> {
        let writer = self.topic_of_many(topic).map_err(|error: RecordError| error.to_string())?;
        Ok(Box::new(writer))
    }
}

impl SinkTopic for TopicWriter {
    fn write(&self, message: &NewMessage<'_>) {
        // What finds no room is counted by the queue.
        let _ = self.write_message(*message);
    }

    fn lost(&self, count: u64) {
        self.lost_in_transport(count);
    }
}
