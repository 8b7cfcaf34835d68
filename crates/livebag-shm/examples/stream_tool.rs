//! The conformance tool of `docs/stream-layout.md`, section 7, and of `docs/cycle-layout.md`, section 5.
//! The C++ side has the same one.
//!
//! ```sh
//! cargo run -p livebag-shm --example stream_tool -- write demo --slots 4 --payload 921600 --frames 100 --hz 30
//! cargo run -p livebag-shm --example stream_tool -- read demo --frames 100
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use livebag_shm::{Cycle, FrameMeta, OpenError, ReadError, Reader, StreamOptions, Wait, Writer};

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("stream_tool: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Vec<String>) -> Result<bool, Box<dyn Error>> {
    let options = Options::parse(&arguments)?;
    match options.verb.as_str() {
        "write" => write(&options),
        "read" => read(&options),
        "cycle" => compute(&options),
        "readers" => readers(&options),
        verb => Err(format!("{verb:?} is none of write, read, cycle, readers").into()),
    }
}

struct Options {
    verb: String,
    name: String,
    slots: u32,
    payload_bytes: usize,
    frames: u64,
    hz: f64,
    checksum: bool,
    slow: Duration,
    way: String,
    timeout: Duration,
    board: String,
    cycles: u64,
    weight: u32,
    label: String,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, Box<dyn Error>> {
        let [verb, name, rest @ ..] = arguments else {
            return Err(
                "usage: stream_tool write|read|cycle|readers NAME [OPTIONS]; see docs/stream-layout.md"
                    .into(),
            );
        };
        let mut options = Options {
            verb: verb.clone(),
            name: name.clone(),
            slots: 4,
            payload_bytes: 4096,
            frames: 100,
            hz: 0.0,
            checksum: false,
            slow: Duration::ZERO,
            way: String::new(),
            timeout: Duration::from_secs(30),
            board: String::new(),
            label: String::new(),
            cycles: 0,
            weight: 1,
        };
        let mut rest = rest.iter();
        while let Some(option) = rest.next() {
            if option == "--checksum" {
                options.checksum = true;
                continue;
            }
            let value = rest.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--slots" => options.slots = value.parse()?,
                "--payload" => options.payload_bytes = value.parse()?,
                "--frames" => options.frames = value.parse()?,
                "--hz" => options.hz = value.parse()?,
                "--slow-us" => options.slow = Duration::from_micros(value.parse()?),
                "--label" => options.label.clone_from(value),
                "--board" => options.board.clone_from(value),
                "--cycles" => options.cycles = value.parse()?,
                "--weight" => options.weight = value.parse()?,
                "--way" => options.way.clone_from(value),
                "--timeout-s" => options.timeout = Duration::from_secs(value.parse()?),
                _ => return Err(format!("{option} is no option of stream_tool").into()),
            }
        }
        Ok(options)
    }
}

fn fill(sequence: u64, payload: &mut [u8]) {
    let start = sequence.wrapping_mul(FACTOR);
    for (index, chunk) in payload.chunks_mut(8).enumerate() {
        let word = start.wrapping_add(index as u64).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

fn is_right(sequence: u64, payload: &[u8]) -> bool {
    let start = sequence.wrapping_mul(FACTOR);
    payload.chunks(8).enumerate().all(|(index, chunk)| {
        *chunk == start.wrapping_add(index as u64).to_le_bytes()[..chunk.len()]
    })
}

fn write(options: &Options) -> Result<bool, Box<dyn Error>> {
    let stream = StreamOptions::bytes(options.payload_bytes)
        .slots(options.slots)
        .type_name("livebag/Pattern")
        .checksum(options.checksum);
    let mut writer = Writer::create(&options.name, &stream)?;
    let first = writer.next_sequence();
    let meta = FrameMeta::bytes().frame_id("pattern");
    let mut data = vec![0; options.payload_bytes];
    let mut last = first - 1;
    for _ in 0..options.frames {
        if options.way == "loan" {
            let mut loan = writer.loan();
            fill(loan.sequence(), &mut loan[..options.payload_bytes]);
            last = loan.publish(&meta, options.payload_bytes)?;
        } else {
            fill(writer.next_sequence(), &mut data);
            last = writer.publish(&meta, &data)?;
        }
        if options.hz > 0.0 {
            sleep(Duration::from_secs_f64(1.0 / options.hz));
        }
    }
    let (name, published) = (&options.name, options.frames);
    println!(
        r#"{{"tool":"write","name":"{name}","published":{published},"first_sequence":{first},"last_sequence":{last}}}"#
    );
    Ok(true)
}

/// Lists the stream's readers.
fn readers(options: &Options) -> Result<bool, Box<dyn Error>> {
    let reader = Reader::open(&options.name)?;
    let all = reader.readers();
    let tell = |one: &livebag_shm::ReaderInfo| {
        format!(
            r#"{{"pid":{},"label":"{}","taken":{},"lapped":{},"last_sequence":{},"behind":{}}}"#,
            one.pid, one.label, one.taken, one.lapped, one.last_sequence, one.behind
        )
    };
    let list: Vec<_> = all.iter().flatten().map(tell).collect();
    let (name, shown) = (&options.name, all.is_some());
    println!(
        r#"{{"tool":"readers","name":"{name}","shown":{shown},"readers":[{}]}}"#,
        list.join(",")
    );
    Ok(true)
}

/// That many cycles, then one that lasts until a line is given.
fn compute(options: &Options) -> Result<bool, Box<dyn Error>> {
    let mut cycle = match options.board.as_str() {
        "" => Cycle::join(&options.name)?,
        board => Cycle::join_on(board, &options.name)?,
    };
    for _ in 0..options.cycles {
        cycle.begin(1);
        cycle.end();
    }
    cycle.begin(options.weight);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    cycle.end();
    let (name, cycles) = (&options.name, options.cycles + 1);
    println!(r#"{{"tool":"cycle","name":"{name}","cycles":{cycles}}}"#);
    std::io::stdin().read_line(&mut line)?;
    Ok(true)
}

#[derive(Default)]
struct Tally {
    delivered: u64,
    torn: u64,
    lapped: u64,
    last_sequence: u64,
}

impl Tally {
    fn take(&mut self, sequence: u64, payload: &[u8]) {
        self.delivered += 1;
        self.torn += u64::from(!is_right(sequence, payload));
        self.last_sequence = sequence;
    }
}

fn read(options: &Options) -> Result<bool, Box<dyn Error>> {
    // Turns of a millisecond, so that no clock is needed.
    let mut turns_left = options.timeout.as_millis();
    let mut reader = loop {
        match Reader::open(&options.name) {
            Ok(reader) => break reader,
            Err(error) if error.is_transient() && turns_left > 0 => {
                let _: OpenError = error;
                turns_left -= 1;
                sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    };
    let mut tally = Tally::default();
    reader.seek(1);
    if !options.label.is_empty() {
        reader = reader.labelled(&options.label);
    }
    while tally.last_sequence < options.frames && turns_left > 0 {
        let is_idle = match options.way.as_str() {
            "" | "next" => follow(&mut reader, options, &mut tally),
            way => newest(&mut reader, way, options, &mut tally)?,
        };
        if is_idle {
            turns_left -= 1;
            reader.wait(Wait::Futex, tally.last_sequence, Duration::from_millis(1));
        }
    }
    let (name, Tally { delivered, torn, lapped, last_sequence }) = (&options.name, &tally);
    println!(
        r#"{{"tool":"read","name":"{name}","delivered":{delivered},"torn":{torn},"lapped":{lapped},"last_sequence":{last_sequence}}}"#
    );
    Ok(*torn == 0 && *last_sequence >= options.frames)
}

/// Every frame in order; true when there was none.
fn follow(reader: &mut Reader, options: &Options, tally: &mut Tally) -> bool {
    let next = reader.next();
    tally.lapped += next.lapped + next.damaged;
    tally.last_sequence += next.lapped + next.damaged;
    let Some(frame) = next.frame else { return next.lapped == 0 };
    let mut payload = vec![0; frame.payload_bytes()];
    let mut is_whole = frame.copy_to(&mut payload);
    if !options.slow.is_zero() {
        // A copy that takes long: its second half is made after the nap.
        sleep(options.slow);
        is_whole &= frame.copy_to(&mut payload);
    }
    if is_whole && frame.verify_checksum() {
        tally.take(frame.sequence(), &payload);
    } else {
        tally.lapped += 1;
        tally.last_sequence = frame.sequence();
    }
    false
}

/// The newest frame; true when there was none.
fn newest(
    reader: &mut Reader,
    way: &str,
    options: &Options,
    tally: &mut Tally,
) -> Result<bool, Box<dyn Error>> {
    let mut payload = Vec::new();
    let result = match way {
        "receive" => reader.receive(&mut payload, Wait::Futex, Duration::from_millis(1)),
        "copy" => reader.copy_latest(&mut payload),
        way => return Err(format!("{way:?} is none of next, copy, receive").into()),
    };
    sleep(options.slow);
    match result {
        Ok(Some(header)) if header.sequence > tally.last_sequence => {
            tally.take(header.sequence, &payload);
            Ok(false)
        }
        Ok(_) => Ok(true),
        Err(ReadError::Overtaken { .. }) => {
            tally.lapped += 1;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
