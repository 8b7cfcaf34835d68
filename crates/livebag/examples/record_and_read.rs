//! Records this machine's streams for ten seconds, and reads the newest second of the recording while it grows.
//!
//! ```sh
//! cargo run -p livebag-shm --example camera &
//! cargo run -p livebag --example record_and_read -- run1
//! ```

use std::path::PathBuf;
use std::time::Duration;

use livebag::{Container, Query, Recorder, RecorderOptions, Selector, Span};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "run1".to_owned()));
    let recorder = Recorder::create(&path, RecorderOptions::default())?;
    recorder.follow(Selector::all())?;
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        // Any process can do this. `peek` never repairs or changes anything.
        let container = Container::peek(&path)?;
        let newest = Query { topics: Vec::new(), span: Span::Latest(Duration::from_secs(1)) };
        let mut cursor = container.query(&newest)?;
        let (mut messages, mut bytes) = (0, 0);
        while let Some((_, message)) = cursor.next()? {
            messages += 1;
            bytes += message.data.len();
        }
        println!("the newest second: {messages} messages, {bytes} bytes");
    }
    let status = recorder.finish()?;
    for topic in &status.topics {
        println!("{}: {} messages, {} lost", topic.name, topic.messages, topic.lost.total());
    }
    Ok(())
}
