//! New messages of a recording, as its recorder commits them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Container, ContainerState, Follow, Topic};

use super::answer::{Answer, Entry};
use super::{Args, Wanted, lines};
use crate::control;
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::{select, text};

/// Looks between two notices to the recorder that it is read: it commits sooner then.
const LOOKS_PER_NOTICE: u32 = 20;

/// Gives messages until the recording ends or the command is interrupted.
pub fn run(args: &Args, last: Option<Duration>, wanted: &Wanted) -> Result<Outcome, CliError> {
    check(wanted)?;
    let path = &args.bag;
    let bag = Container::open(path)?;
    if bag.state() != ContainerState::Live && last.is_none() {
        say!(
            "livebag: {} is not being recorded ({}): nothing will come",
            path.display(),
            bag.state()
        );
        return Ok(Outcome::Done);
    }
    let mut answer = Following::begin(path, bag, last, wanted)?;
    // A line at a time: nothing waits in a buffer while nothing comes.
    let mut out = std::io::stdout().lock();
    match (wanted.json, wanted.decode) {
        (true, true) => lines::write_decoded(&mut answer, wanted.array_items, &mut out)?,
        (true, false) => lines::write(&mut answer, &mut out)?,
        _ => print(&mut answer, &mut out)?,
    }
    Ok(super::outcome(answer.damaged(), &args.bag))
}

/// Refuses options that make no sense for an endless answer.
pub fn check(wanted: &Wanted) -> Result<(), CliError> {
    if wanted.output.is_some() || wanted.count {
        return Err(CliError::usage(
            "follow prints messages as they come: -o and --count are for the other questions",
        ));
    }
    Ok(())
}

/// A line for each message.
pub fn print(answer: &mut dyn Answer, out: &mut impl Write) -> Result<(), CliError> {
    while let Some(entry) = answer.next()? {
        let name = livebag_format::visible(&answer.topic(entry.topic).name).into_owned();
        let (time, bytes) = (text::time(entry.log_time_nanos), text::bytes(entry.bytes as f64));
        writeln!(out, "{time}  {bytes:>8}  {name}")?;
    }
    Ok(())
}

struct Following {
    path: PathBuf,
    follow: Follow,
    profile: String,
    current: Vec<u8>,
    looks: u32,
    interrupt: Interrupt,
}

impl Following {
    fn begin(
        path: &Path,
        bag: Container,
        last: Option<Duration>,
        wanted: &Wanted,
    ) -> Result<Self, CliError> {
        let known = || bag.topics().iter().map(|topic| topic.topic().name.as_str());
        let mut names = Vec::new();
        for name in &wanted.topics {
            match select::full_name(name, known) {
                Ok(name) => names.push(name),
                // It may appear while the recording continues.
                Err(error) if bag.state() == ContainerState::Live => {
                    say!("livebag: waiting for {name}: {error}");
                    names.push(name.clone());
                }
                Err(error) => return Err(error),
            }
        }
        let profile = bag.profile().to_owned();
        let follow = Follow::begin(bag, names, last)?;
        let follow = if wanted.decode { follow } else { follow.without_data() };
        Ok(Self {
            path: path.to_owned(),
            follow,
            profile,
            current: Vec::new(),
            looks: 0,
            interrupt: Interrupt::watch()?,
        })
    }
}

impl Answer for Following {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        loop {
            if let Some(message) = self.follow.next() {
                self.current = message.data;
                return Ok(Some(Entry {
                    topic: message.topic,
                    log_time_nanos: message.log_time_nanos,
                    publish_time_nanos: message.publish_time_nanos,
                    sequence: message.sequence,
                    bytes: message.data_bytes.into(),
                }));
            }
            if self.looks.is_multiple_of(LOOKS_PER_NOTICE) {
                control::notify_read(&self.path);
            }
            self.looks = self.looks.wrapping_add(1);
            if self.follow.has_ended() || self.interrupt.wait(Follow::INTERVAL) {
                return Ok(None);
            }
            self.follow.look()?;
        }
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        Ok(Some(&self.current))
    }

    fn topic(&self, at: usize) -> &Topic {
        self.follow.container().topics()[at].topic()
    }

    fn profile(&self) -> &str {
        &self.profile
    }

    fn damaged(&self) -> u64 {
        self.follow.damaged()
    }
}
