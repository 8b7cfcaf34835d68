//! One publishing process of the demonstration, behind the hidden verb `demo-sensor`.
//!
//! It names its streams on standard output, one a line, then says `ready` once the first frame is
//! out. It ends when its standard input does: with the demonstration, however that ends.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Subcommand;
use livebag::{Clock, PlayOptions, Stamp, StreamOutput};
use livebag_shm::{FrameMeta, PointField, PointsLayout, StreamOptions, Writer};

use crate::outcome::{CliError, Outcome};

mod scene;

use scene::{Camera, HEIGHT, Lidar, RINGS, STEPS, WIDTH, imu_message};

/// Bytes of a camera's frame.
pub const FRAME_BYTES: usize = scene::FRAME_BYTES;
/// Bytes of a LiDAR's scan.
pub const SCAN_BYTES: usize = scene::SCAN_BYTES;
/// Frames per second.
pub const CAMERA_HZ: f64 = 30.0;
/// Scans per second.
pub const LIDAR_HZ: f64 = 10.0;
/// Samples per second.
pub const IMU_HZ: f64 = 200.0;
/// A quarter of a second, in which the recorder may be kept from running.
pub const CAMERA_SLOTS: u32 = 8;
/// Longest sleep: bounds how late the end is seen.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Publish one of the demonstration's sensors.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Camera { prefix: String, number: u32 },
    Lidar { prefix: String },
    Imu { prefix: String },
    Replay { prefix: String, bag: PathBuf, topic: String },
}

/// Publishes until standard input ends.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let stop = stop_with_parent()?;
    match &args.what {
        What::Camera { prefix, number } => camera(prefix, *number, &stop),
        What::Lidar { prefix } => lidar(prefix, &stop),
        What::Imu { prefix } => imu(prefix, &stop),
        What::Replay { prefix, bag, topic } => replay(prefix, bag, topic, &stop),
    }?;
    Ok(Outcome::Done)
}

/// Set when standard input ends.
fn stop_with_parent() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let wait = move || {
        // Nothing is ever sent; an error ends it as well.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new()
        .name("livebag-parent".into())
        .spawn(wait)
        .map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
    Ok(stop)
}

fn say(lines: &[&str]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

fn create(name: &str, options: StreamOptions) -> Result<Writer, CliError> {
    Writer::create(name, &options.remove_on_drop(true))
        .map_err(|error| CliError::failed(error.to_string()))
}

/// Calls `publish` at `hz` until `stop` is set, by an absolute schedule. A sensor that is late by two periods skips the
/// frames in between, as a camera does.
fn pace(
    hz: f64,
    stop: &AtomicBool,
    mut publish: impl FnMut(&Clock) -> Result<(), livebag_shm::PublishError>,
) -> Result<(), CliError> {
    let clock = Clock::system();
    let period_nanos = (1e9 / hz) as u64;
    let mut due_nanos = clock.monotonic_nanos();
    let mut is_first = true;
    while !stop.load(Ordering::Relaxed) {
        let now_nanos = clock.monotonic_nanos();
        if now_nanos < due_nanos {
            clock.sleep(Duration::from_nanos(due_nanos - now_nanos).min(SLEEP_MAX));
            continue;
        }
        publish(&clock).map_err(|error| CliError::failed(error.to_string()))?;
        if std::mem::take(&mut is_first) {
            say(&["ready"])?;
        }
        due_nanos += period_nanos;
        let late_nanos = clock.monotonic_nanos().saturating_sub(due_nanos);
        if late_nanos > 2 * period_nanos {
            due_nanos += late_nanos / period_nanos * period_nanos;
        }
    }
    Ok(())
}

fn camera(prefix: &str, number: u32, stop: &AtomicBool) -> Result<(), CliError> {
    let name = format!("{prefix}.camera_{number}");
    let options = StreamOptions::image(WIDTH as u32, HEIGHT as u32, 3)
        .topic(&format!("/camera_{number}/image"))
        .slots(CAMERA_SLOTS);
    let mut writer = create(&name, options)?;
    say(&[&name])?;
    let meta = FrameMeta::image(WIDTH as u32, HEIGHT as u32, WIDTH as u32 * 3, "rgb8")
        .frame_id(&format!("camera_{number}_optical"));
    let mut camera = Camera::new(number, CAMERA_SLOTS);
    // Cameras that are not synchronised.
    Clock::system().sleep(Duration::from_secs_f64(f64::from(number % 8) / CAMERA_HZ / 8.0));
    pace(CAMERA_HZ, stop, |_| {
        let mut loan = writer.loan();
        let sequence = loan.sequence();
        camera.draw(sequence, loan.payload_mut());
        loan.publish(&meta, FRAME_BYTES).map(drop)
    })
}

fn lidar(prefix: &str, stop: &AtomicBool) -> Result<(), CliError> {
    let name = format!("{prefix}.lidar");
    let options = StreamOptions::points((RINGS * STEPS) as u32, 16).topic("/lidar/points").slots(8);
    let mut writer = create(&name, options)?;
    say(&[&name])?;
    let mut layout = PointsLayout::xyz(STEPS as u32, 16);
    layout.height = RINGS as u32;
    layout.fields.push(PointField::new("intensity", 12, PointField::FLOAT32));
    let meta = FrameMeta::points(layout).frame_id("lidar");
    let scene = Lidar::new();
    pace(LIDAR_HZ, stop, |_| {
        let mut loan = writer.loan();
        let sequence = loan.sequence();
        scene.draw(sequence, loan.payload_mut());
        loan.publish(&meta, SCAN_BYTES).map(drop)
    })
}

fn imu(prefix: &str, stop: &AtomicBool) -> Result<(), CliError> {
    let name = format!("{prefix}.imu");
    let options = StreamOptions::message("sensor_msgs/msg/Imu", 512).topic("/imu/data").slots(256);
    let mut writer = create(&name, options)?;
    say(&[&name])?;
    pace(IMU_HZ, stop, |clock| {
        let nanos = clock.wall_nanos();
        let message = imu_message(nanos, writer.next_sequence());
        writer.publish(&FrameMeta::bytes().publish_time_nanos(nanos), &message).map(drop)
    })
}

fn replay(prefix: &str, bag: &Path, topic: &str, stop: &AtomicBool) -> Result<(), CliError> {
    let options = PlayOptions {
        repeat: true,
        topics: vec![topic.to_owned()],
        lead_in: Duration::ZERO,
        ..PlayOptions::default()
    };
    let mut player =
        livebag_bags::open_player(&[bag], options, &mut StreamOutput::new(prefix, Stamp::Now))?;
    let names: Vec<_> = player.topics().iter().map(|topic| topic.name().to_owned()).collect();
    say(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut is_ready = false;
    let mut refused = None;
    let control = player.control();
    player.run(&mut |status| {
        if stop.load(Ordering::Relaxed) {
            control.stop();
        }
        if !is_ready && status.messages > 0 {
            is_ready = true;
            refused = say(&["ready"]).err();
        }
    })?;
    for warning in player.warnings() {
        say!("livebag: warning: {warning}");
    }
    refused.map_or(Ok(()), Err)
}
