//! Makes recordings for the page's tests and pictures: a simulated drive with losses at known times.
//!
//! `make_drive DIR SECONDS` records a drive that ended a minute ago, at once. `make_drive DIR live` records one at
//! its own pace until its input ends. Lines of its input: `stall TOPIC`, `lose TOPIC COUNT` (missing in the
//! source's sequence), `go TOPIC`. `live-slow` has a tenth of the pictures and clouds, to run for hours.
//! `make_drive DIR hour` and `make_drive DIR flood`: see `hour.rs` and `flood.rs`.
//!
//! Lost in a finished drive, seconds after its start, always the same: `/camera_front/image` 12 messages from 10,
//! `/imu/data` 60 from 22; and 7 of `/tf` without a place in time. `/gps/fix` is silent from 14 to 18.

mod flood;
mod hour;

use std::collections::BTreeMap;
use std::error::Error;
use std::f64::consts::TAU;
use std::io::BufRead;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use livebag::{Clock, NewMessage, Overflow, Recorder, RecorderOptions, Topic, TopicWriter};
use livebag_format::cdr::{
    ImageHeader, PointField, PointsHeader, image_prefix, points_prefix, points_suffix,
};
use livebag_format::definitions;

type Outcome<T> = Result<T, Box<dyn Error>>;

const SECOND: u64 = 1_000_000_000;
/// Interval of polls for due messages, in a live drive.
const TICK: Duration = Duration::from_millis(5);
const WIDTH: usize = 480;
const HEIGHT: usize = 270;
const RINGS: usize = 32;
const STEPS: usize = 300;
const QOS: &str = "- history: 1\n  depth: 10\n  reliability: 1\n  durability: 2\n";

/// A topic: its name, its type, its rate, and what its messages hold.
struct Sensor {
    name: &'static str,
    type_name: &'static str,
    hertz: f64,
    message: fn(&mut Cdr, u64, f64),
}

const SENSORS: [Sensor; 9] = [
    Sensor {
        name: "/camera_front/image",
        type_name: "sensor_msgs/msg/Image",
        hertz: 10.0,
        message: front,
    },
    Sensor {
        name: "/camera_rear/image",
        type_name: "sensor_msgs/msg/Image",
        hertz: 5.0,
        message: rear,
    },
    Sensor {
        name: "/lidar/points",
        type_name: "sensor_msgs/msg/PointCloud2",
        hertz: 10.0,
        message: points,
    },
    Sensor { name: "/imu/data", type_name: "sensor_msgs/msg/Imu", hertz: 200.0, message: imu },
    Sensor { name: "/odom", type_name: "nav_msgs/msg/Odometry", hertz: 50.0, message: odometry },
    Sensor { name: "/gps/fix", type_name: "sensor_msgs/msg/NavSatFix", hertz: 5.0, message: fix },
    Sensor { name: "/tf", type_name: "tf2_msgs/msg/TFMessage", hertz: 50.0, message: transform },
    Sensor { name: "/rosout", type_name: "rcl_interfaces/msg/Log", hertz: 2.0, message: log },
    Sensor {
        name: "/diagnostics",
        type_name: "diagnostic_msgs/msg/DiagnosticArray",
        hertz: 1.0,
        message: diagnostics,
    },
];

/// Messages that never came: topic, second, count.
const LOST: [(&str, u64, u64); 2] = [("/camera_front/image", 10, 12), ("/imu/data", 22, 60)];
/// A silence, in seconds.
const SILENT: (&str, u64, u64) = ("/gps/fix", 14, 18);
/// Lost at an unknown time.
const UNPLACED: (&str, u64) = ("/tf", 7);

fn main() -> Outcome<()> {
    let usage = "usage: make_drive DIR SECONDS|live|live-slow|hour|flood";
    let mut args = std::env::args().skip(1);
    let (directory, mode) = (args.next().ok_or(usage)?, args.next().ok_or(usage)?);
    match mode.as_str() {
        "hour" => return hour::record(Path::new(&directory)),
        "flood" => return flood::record(Path::new(&directory)),
        _ => {}
    }
    let options = RecorderOptions {
        profile: "ros2".into(),
        overflow: Overflow::Block,
        count_gaps: true,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(Path::new(&directory), options)?;
    let topics = SENSORS.iter().map(|sensor| recorder.topic(topic(sensor)));
    let mut drive = Drive {
        topics: topics.map(|writer| Ok(Source::new(writer?))).collect::<Outcome<_>>()?,
        message: Cdr::default(),
        start_nanos: Clock::system().wall_nanos(),
        large_every: if mode == "live-slow" { 10 } else { 1 },
    };
    match mode.as_str() {
        "live" | "live-slow" => drive.live(&commands()?)?,
        seconds => drive.at_once(seconds.parse()?)?,
    }
    recorder.finish()?;
    Ok(())
}

fn topic(sensor: &Sensor) -> Topic {
    Topic {
        name: sensor.name.into(),
        type_name: sensor.type_name.into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: definitions::schema(sensor.type_name).unwrap_or_default().into_bytes(),
        metadata: BTreeMap::from([("offered_qos_profiles".into(), QOS.into())]),
    }
}

/// Progress of a publisher.
struct Source {
    writer: TopicWriter,
    /// Its next message, which may never be written.
    next: u64,
    sequence: u64,
    is_stalled: bool,
}

impl Source {
    fn new(writer: TopicWriter) -> Self {
        Self { writer, next: 0, sequence: 0, is_stalled: false }
    }
}

struct Drive {
    topics: Vec<Source>,
    message: Cdr,
    start_nanos: u64,
    /// Of pictures and clouds one in so many is published.
    large_every: u64,
}

impl Drive {
    /// All of it, with the losses.
    fn at_once(&mut self, seconds: u64) -> Outcome<()> {
        self.start_nanos -= (seconds + 60) * SECOND;
        for tick in 0..seconds * 200 {
            self.publish_until(tick * SECOND / 200, &|name, nanos| {
                let lost = LOST.iter().find(|(topic, second, count)| {
                    let hertz = SENSORS.iter().find(|s| s.name == *topic).map_or(1.0, |s| s.hertz);
                    let end = second * SECOND + (*count as f64 / hertz * 1e9) as u64;
                    *topic == name && (second * SECOND..end).contains(&nanos)
                });
                let (silent, from, to) = SILENT;
                match lost {
                    Some(_) => Fate::Lost,
                    None if silent == name && (from * SECOND..to * SECOND).contains(&nanos) => {
                        Fate::Never
                    }
                    None => Fate::Written,
                }
            })?;
        }
        let at =
            SENSORS.iter().position(|sensor| sensor.name == UNPLACED.0).ok_or("no such topic")?;
        self.topics[at].writer.lost_in_transport(UNPLACED.1);
        Ok(())
    }

    /// At its own pace, until the commands end.
    fn live(&mut self, commands: &Receiver<String>) -> Outcome<()> {
        let clock = Clock::system();
        loop {
            match commands.try_recv() {
                Ok(line) => self.obey(&line)?,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
            }
            let nanos = clock.wall_nanos().saturating_sub(self.start_nanos);
            self.publish_until(nanos, &|_, _| Fate::Written)?;
            clock.sleep(TICK);
        }
    }

    fn obey(&mut self, line: &str) -> Outcome<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, name, ..] = words[..] else {
            return Err(format!("not a command: {line}").into());
        };
        let at = SENSORS.iter().position(|sensor| sensor.name == name).ok_or("no such topic")?;
        let source = &mut self.topics[at];
        match what {
            "stall" => source.is_stalled = true,
            "go" => source.is_stalled = false,
            "lose" => source.sequence += words.get(2).ok_or("how many?")?.parse::<u64>()?,
            _ => return Err(format!("not a command: {line}").into()),
        }
        Ok(())
    }

    fn publish_until(&mut self, nanos: u64, fate: &dyn Fn(&str, u64) -> Fate) -> Outcome<()> {
        for (sensor, source) in SENSORS.iter().zip(&mut self.topics) {
            loop {
                let due = (source.next as f64 / sensor.hertz * 1e9) as u64;
                if due > nanos {
                    break;
                }
                source.next += 1;
                let is_large = ["/camera_front/image", "/camera_rear/image", "/lidar/points"]
                    .contains(&sensor.name);
                let is_left_out = is_large && !source.next.is_multiple_of(self.large_every);
                let is_silent = source.is_stalled || is_left_out;
                let fate = if is_silent { Fate::Never } else { fate(sensor.name, due) };
                if fate == Fate::Never {
                    continue;
                }
                source.sequence += 1;
                if fate == Fate::Lost {
                    continue;
                }
                let time = self.start_nanos + due;
                self.message.begin();
                (sensor.message)(&mut self.message, time, due as f64 / 1e9);
                source.writer.write_message(NewMessage {
                    log_time_nanos: Some(time),
                    publish_time_nanos: Some(time),
                    sequence: source.sequence,
                    data: &self.message.0,
                })?;
            }
        }
        Ok(())
    }
}

#[derive(PartialEq)]
enum Fate {
    Written,
    /// The source counted it, the recorder never got it.
    Lost,
    /// It was never published.
    Never,
}

/// The lines of the input.
fn commands() -> Outcome<Receiver<String>> {
    let (sender, receiver) = sync_channel(1);
    std::thread::Builder::new().name("commands".into()).spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// A message in plain CDR, little-endian.
#[derive(Default)]
struct Cdr(Vec<u8>);

impl Cdr {
    fn begin(&mut self) {
        self.0.clear();
        self.0.extend_from_slice(&[0, 1, 0, 0]);
    }

    fn aligned(&mut self, bytes: &[u8]) {
        while !(self.0.len() - 4).is_multiple_of(bytes.len()) {
            self.0.push(0);
        }
        self.0.extend_from_slice(bytes);
    }

    fn u32(&mut self, value: u32) {
        self.aligned(&value.to_le_bytes());
    }

    fn f64s(&mut self, values: &[f64]) {
        values.iter().for_each(|value| self.aligned(&value.to_le_bytes()));
    }

    fn text(&mut self, text: &str) {
        self.u32(text.len() as u32 + 1);
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    fn stamp(&mut self, nanos: u64) {
        self.u32((nanos / SECOND) as u32);
        self.u32((nanos % SECOND) as u32);
    }

    fn header(&mut self, nanos: u64, frame: &str) {
        self.stamp(nanos);
        self.text(frame);
    }
}

/// Radians that the road has turned.
fn heading(seconds: f64) -> f64 {
    0.4 * (seconds / 7.0).sin()
}

/// A road at dusk whose dashes come nearer, and a car ahead.
fn scene(out: &mut Cdr, time: u64, seconds: f64, is_front: bool) {
    let header = ImageHeader {
        stamp_nanos: time,
        frame_id: if is_front { "camera_front" } else { "camera_rear" },
        height: HEIGHT as u32,
        width: WIDTH as u32,
        encoding: "rgb8",
        is_bigendian: false,
        step: (WIDTH * 3) as u32,
    };
    out.0.clear();
    image_prefix(&header, (WIDTH * HEIGHT * 3) as u32, &mut out.0);
    let horizon = HEIGHT as f64 * 0.42;
    let moved = if is_front { seconds } else { -seconds } * 1.6;
    let bend = heading(seconds) * if is_front { 1.0 } else { -1.0 };
    for y in 0..HEIGHT {
        let depth = ((y as f64 - horizon) / (HEIGHT as f64 - horizon)).max(0.0);
        let far = 1.0 / (depth + 0.06);
        let middle = WIDTH as f64 * (0.5 + bend * (1.0 - depth).powi(2) * 0.5);
        let half = 16.0 + depth * WIDTH as f64 * 0.36;
        for x in 0..WIDTH {
            let side = (x as f64 - middle) / half;
            let rgb = if depth <= 0.0 {
                let sky = y as f64 / horizon;
                let hill = horizon
                    - 14.0
                    - 10.0 * ((x as f64 / 47.0 + bend * 3.0).sin() + (x as f64 / 19.0).cos() * 0.4);
                if y as f64 > hill {
                    [52.0, 66.0, 74.0]
                } else {
                    [92.0 + 120.0 * sky, 128.0 + 70.0 * sky, 172.0 + 10.0 * sky]
                }
            } else if side.abs() > 1.0 {
                let grass = if (far * 1.5 + moved * 2.0).rem_euclid(2.0) < 1.0 { 8.0 } else { 0.0 };
                [70.0 + grass, 92.0 + grass, 58.0]
            } else if side.abs() < 0.018 + 0.006 * depth && (far + moved).rem_euclid(1.6) < 0.8
                || (side.abs() - 0.95).abs() < 0.02
            {
                [214.0, 214.0, 205.0]
            } else {
                let shade = 70.0 + 18.0 * depth;
                [shade, shade + 1.0, shade + 4.0]
            };
            out.0.extend(rgb.map(|part: f64| part as u8));
        }
    }
    if is_front {
        car(&mut out.0, seconds, bend);
    }
}

/// The car ahead, nearer and farther away.
fn car(image: &mut [u8], seconds: f64, bend: f64) {
    let start = image.len() - WIDTH * HEIGHT * 3;
    let near = 0.22 + 0.16 * (seconds / 5.0).sin();
    let (width, height) = ((110.0 * near + 16.0) as usize, (78.0 * near + 12.0) as usize);
    let bottom = (HEIGHT as f64 * (0.46 + 0.5 * near)) as usize;
    let left = (WIDTH as f64 * (0.53 + bend * (1.0 - near).powi(2) * 0.42)) as usize;
    let brakes = (seconds / 5.0).cos() > 0.2;
    for y in bottom - height..bottom {
        for x in left..(left + width).min(WIDTH) {
            let (u, v) =
                ((x - left) as f64 / width as f64, (y + height - bottom) as f64 / height as f64);
            let rgb: [u8; 3] = match () {
                () if v > 0.86 && (0.14..0.86).contains(&u) => continue,
                () if v < 0.42 && (0.14..0.86).contains(&u) => [28, 36, 44],
                () if v < 0.3 && !(0.08..0.92).contains(&u) => continue,
                () if (0.5..0.64).contains(&v) && !(0.16..0.84).contains(&u) => {
                    if brakes {
                        [255, 56, 40]
                    } else {
                        [120, 24, 24]
                    }
                }
                () => [168, 176, 186],
            };
            image[start + (y * WIDTH + x) * 3..][..3].copy_from_slice(&rgb);
        }
    }
}

fn front(out: &mut Cdr, time: u64, seconds: f64) {
    scene(out, time, seconds, true);
}

fn rear(out: &mut Cdr, time: u64, seconds: f64) {
    scene(out, time, seconds, false);
}

/// The ground, two walls beside the road, and a car.
fn points(out: &mut Cdr, time: u64, seconds: f64) {
    let field = |name, offset| PointField { name, offset, datatype: 7, count: 1 };
    let fields = [field("x", 0), field("y", 4), field("z", 8), field("intensity", 12)];
    let header = PointsHeader {
        stamp_nanos: time,
        frame_id: "lidar",
        height: 1,
        width: (RINGS * STEPS) as u32,
        fields: &fields,
        is_bigendian: false,
        point_step: 16,
        row_step: (RINGS * STEPS * 16) as u32,
    };
    out.0.clear();
    points_prefix(&header, (RINGS * STEPS * 16) as u32, &mut out.0);
    for ring in 0..RINGS {
        let down = (-0.42 + 0.62 * ring as f64 / RINGS as f64).tan();
        for step in 0..STEPS {
            let turn = TAU * step as f64 / STEPS as f64 + ring as f64 * 0.003;
            let ground = if down < -0.02 { -1.8 / down } else { 70.0 };
            let wall = 9.0 / turn.sin().abs().max(0.05)
                * (1.0 + 0.05 * (turn.cos() * 9.0 + seconds * 2.0).sin());
            let ahead = 12.0 + 6.0 * (seconds / 5.0).sin();
            let car = if turn.cos() > 0.0
                && (turn.tan() * ahead).abs() < 1.0
                && (-1.8..-0.2).contains(&(ahead * down))
            {
                ahead / turn.cos()
            } else {
                90.0
            };
            let away = ground.min(wall).min(car).min(60.0);
            let intensity = if away == car {
                90.0
            } else if away == wall {
                40.0
            } else {
                12.0
            };
            for part in [away * turn.cos(), away * turn.sin(), away * down, intensity] {
                out.0.extend_from_slice(&(part as f32).to_le_bytes());
            }
        }
    }
    out.0.extend_from_slice(&points_suffix(true));
}

fn imu(out: &mut Cdr, time: u64, seconds: f64) {
    out.header(time, "imu");
    let turn = heading(seconds) / 2.0;
    out.f64s(&[0.0, 0.0, turn.sin(), turn.cos()]);
    out.f64s(&[0.0; 9]);
    // Noise that is always the same.
    let noise = |k: f64| (seconds * 977.0 * k).sin() * (seconds * 331.0 + k).cos();
    out.f64s(&[
        0.01 * noise(1.0),
        0.01 * noise(2.0),
        0.4 / 7.0 * (seconds / 7.0).cos() + 0.004 * noise(3.0),
    ]);
    out.f64s(&[0.0; 9]);
    out.f64s(&[
        1.2 * (seconds / 5.0).cos() + 0.15 * noise(4.0),
        0.8 * (seconds / 7.0).sin() + 0.1 * noise(5.0),
        9.81 + 0.2 * noise(6.0),
    ]);
    out.f64s(&[0.0; 9]);
}

fn odometry(out: &mut Cdr, time: u64, seconds: f64) {
    out.header(time, "odom");
    out.text("base_link");
    out.f64s(&[seconds * 9.0, 30.0 * (seconds / 11.0).sin(), 0.0, 0.0, 0.0, 0.0, 1.0]);
    out.f64s(&[0.0; 36]);
    out.f64s(&[
        9.0 + 1.5 * (seconds / 5.0).sin(),
        0.0,
        0.0,
        0.0,
        0.0,
        0.06 * (seconds / 7.0).cos(),
    ]);
    out.f64s(&[0.0; 36]);
}

fn fix(out: &mut Cdr, time: u64, seconds: f64) {
    out.header(time, "gps");
    out.0.push(0);
    out.aligned(&1_u16.to_le_bytes());
    out.f64s(&[48.137 + seconds * 8e-5, 11.575 + 2e-4 * (seconds / 11.0).sin(), 519.0]);
    out.f64s(&[0.0; 9]);
    out.0.push(0);
}

fn transform(out: &mut Cdr, time: u64, seconds: f64) {
    out.u32(1);
    out.header(time, "odom");
    out.text("base_link");
    out.f64s(&[seconds * 9.0, 30.0 * (seconds / 11.0).sin(), 0.0, 0.0, 0.0, 0.0, 1.0]);
}

fn log(out: &mut Cdr, time: u64, seconds: f64) {
    let (level, name, text) = match (seconds * 2.0) as u64 % 11 {
        3 => (
            30,
            "planner",
            format!("control loop took {:.0} ms, 50 ms are allowed", 53.0 + seconds % 9.0),
        ),
        7 => (40, "camera_front", "no frame for 200 ms".to_owned()),
        9 => (10, "localization", "particles resampled".to_owned()),
        step => (
            20,
            if step % 2 == 0 { "planner" } else { "localization" },
            format!("waypoint {} reached", (seconds / 2.0) as u64),
        ),
    };
    out.stamp(time);
    out.0.push(level);
    for text in [name, &text, "node.cpp", "run"] {
        out.text(text);
    }
    out.u32(120);
}

fn diagnostics(out: &mut Cdr, time: u64, seconds: f64) {
    let heat = 58.0 + 14.0 * (seconds / 8.0).sin();
    out.header(time, "");
    out.u32(2);
    for (name, level, text) in [
        (
            "lidar: temperature",
            u8::from(heat > 65.0) + u8::from(heat > 71.0),
            format!("{heat:.0} °C"),
        ),
        ("camera_front: rate", 0, "10 Hz".to_owned()),
    ] {
        out.0.push(level);
        out.text(name);
        out.text(&text);
        out.text("unit-1");
        out.u32(0);
    }
}
