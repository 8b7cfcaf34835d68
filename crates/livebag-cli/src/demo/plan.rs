//! Chooses the load for this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Clock, Disk, KernelDisk};

use super::Args;
use super::sensor::{CAMERA_HZ, CAMERA_SLOTS, FRAME_BYTES, IMU_HZ, LIDAR_HZ, SCAN_BYTES};
use crate::outcome::CliError;
use crate::{doctor, text};

/// Cameras of the demonstration, where the machine carries them.
const CAMERAS: u32 = 8;
/// Maximum bytes that the demonstration leaves on the disk …
const RECORDING_BYTES_MAX: f64 = 20e9;
/// … and minimum free space afterwards.
const FREE_BYTES_MIN: f64 = 2e9;
/// A shorter recording shows nothing: rather fewer cameras.
const SECONDS_MIN: f64 = 3.0;
/// Part of the disk's measured speed that is made use of.
const SPEED_USED: f64 = 0.9;
/// Part of the free shared memory that is made use of.
const MEMORY_USED: f64 = 0.5;

const CAMERA_BYTES_PER_S: f64 = FRAME_BYTES as f64 * CAMERA_HZ;
const LIDAR_BYTES_PER_S: f64 = SCAN_BYTES as f64 * LIDAR_HZ;
const IMU_BYTES_PER_S: f64 = 316.0 * IMU_HZ;

/// One publishing process.
#[derive(Clone, Debug)]
pub struct Sensor {
    /// Its arguments behind `demo-sensor`.
    pub arguments: Vec<String>,
    /// The topic that it publishes.
    pub topic: String,
    pub bytes_per_s: f64,
}

/// The chosen load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The container.
    pub directory: PathBuf,
    pub sensors: Vec<Sensor>,
    pub duration: Duration,
    /// The choices and their reasons, as sentences.
    pub notes: Vec<String>,
    /// FullHD cameras among the sensors.
    pub cameras: u32,
    /// How fast the disk was seen to write.
    pub disk_bytes_per_s: f64,
}

/// Measured properties of the machine.
#[derive(Clone, Copy, Debug)]
struct Machine {
    disk_bytes_per_s: f64,
    free_bytes: f64,
    shared_memory_bytes: f64,
}

impl Plan {
    pub fn make(args: &Args, clock: &Clock) -> Result<Self, CliError> {
        let asked = args.duration();
        let directory = directory(args, clock)?;
        let parent = match directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let machine = Machine::look(parent)?;
        let prefix = format!("demo-{}", std::process::id());
        let (mut sensors, cameras, mut notes) = match &args.real {
            Some(bag) => (replayed(bag, &prefix)?, 0, Vec::new()),
            None => {
                let (cameras, note) = choose_cameras(args.cameras, &machine);
                (simulated(cameras, &prefix), cameras, vec![note])
            }
        };
        let fitted = fit(&mut sensors, asked, machine.free_bytes).ok_or_else(|| {
            CliError::failed(format!(
                "{} has {} free, too little for a demonstration: free some space, or name another \
                 place with -o",
                parent.display(),
                text::bytes(machine.free_bytes)
            ))
        })?;
        let (duration, dropped, note) = fitted;
        notes.extend(note);
        Ok(Self {
            directory,
            sensors,
            duration,
            notes,
            cameras: cameras - dropped.min(cameras),
            disk_bytes_per_s: machine.disk_bytes_per_s,
        })
    }

    pub fn bytes_per_s(&self) -> f64 {
        bytes_per_s(&self.sensors)
    }
}

/// The container to make; the default one's folder is made, too.
fn directory(args: &Args, clock: &Clock) -> Result<PathBuf, CliError> {
    if let Some(directory) = args.output() {
        return Ok(directory);
    }
    let build = Path::new("build");
    std::fs::create_dir_all(build).map_err(|source| CliError::file("making", build, source))?;
    let name = text::recording_name(clock.wall_nanos());
    Ok(build.join(name.replacen("livebag_", "demo-", 1)))
}

impl Machine {
    fn look(parent: &Path) -> Result<Self, CliError> {
        let disk = KernelDisk::for_reading();
        let free = |path: &Path| {
            disk.free_bytes(path)
                .map(|bytes| bytes as f64)
                .map_err(|source| CliError::file("looking for free space in", path, source))
        };
        let (free_bytes, shared_memory_bytes) = (free(parent)?, free(Path::new("/dev/shm"))?);
        let disk_bytes_per_s = doctor::disk_bytes_per_s(parent)
            .map_err(|source| CliError::file("measuring the disk in", parent, source))?;
        Ok(Self { disk_bytes_per_s, free_bytes, shared_memory_bytes })
    }
}

/// How many cameras, and why.
fn choose_cameras(asked: Option<u32>, machine: &Machine) -> (u32, String) {
    let speed = text::bytes_per_second(machine.disk_bytes_per_s);
    let carried = (machine.disk_bytes_per_s * SPEED_USED - LIDAR_BYTES_PER_S) / CAMERA_BYTES_PER_S;
    let in_memory =
        machine.shared_memory_bytes * MEMORY_USED / (FRAME_BYTES as f64 * f64::from(CAMERA_SLOTS));
    let wanted = asked.unwrap_or(CAMERAS);
    let fitting = wanted.min(in_memory as u32);
    let cameras = match asked {
        Some(_) => fitting,
        None => fitting.min(carried.max(1.0) as u32),
    };
    let rate = text::bytes_per_second(f64::from(cameras) * CAMERA_BYTES_PER_S);
    let chosen = format!("{} at 30 Hz ({rate})", text::plural(cameras as usize, "FullHD camera"));
    let why = if cameras == wanted && asked.is_some() {
        format!("as asked; the disk writes {speed}")
    } else if cameras == wanted {
        format!("which the disk carries: it writes {speed}")
    } else if cameras == fitting {
        format!("not {wanted}: /dev/shm has too little room for their frames")
    } else {
        format!("not {wanted}: the disk writes {speed}, of which a tenth is left to others")
    };
    (cameras, format!("{chosen}, {why}"))
}

fn simulated(cameras: u32, prefix: &str) -> Vec<Sensor> {
    let sensor = |arguments: &[&str], topic: &str, bytes_per_s| Sensor {
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        topic: topic.to_owned(),
        bytes_per_s,
    };
    let mut sensors: Vec<_> = (1..=cameras)
        .map(|number| {
            let topic = format!("/camera_{number}/image");
            let number = number.to_string();
            sensor(&["camera", prefix, &number], &topic, CAMERA_BYTES_PER_S)
        })
        .collect();
    sensors.push(sensor(&["lidar", prefix], "/lidar/points", LIDAR_BYTES_PER_S));
    sensors.push(sensor(&["imu", prefix], "/imu/data", IMU_BYTES_PER_S));
    sensors
}

/// One process for every topic of a recording.
fn replayed(bag: &Path, prefix: &str) -> Result<Vec<Sensor>, CliError> {
    let path = bag.to_str().ok_or_else(|| {
        CliError::usage(format!("{} is no path in UTF-8: rename it", bag.display()))
    })?;
    let mut sensors: Vec<Sensor> = Vec::new();
    for (topic, survey) in livebag_bags::survey_play(bag)? {
        // More than one message come at the recorded rate, which is not known here.
        let bytes_per_s = survey.message_bytes_max as f64 * CAMERA_HZ;
        if survey.messages == 0 {
            continue;
        }
        match sensors.iter_mut().find(|sensor| sensor.topic == topic.name) {
            Some(sensor) => sensor.bytes_per_s += bytes_per_s,
            None => sensors.push(Sensor {
                arguments: ["replay", prefix, path, &topic.name].map(str::to_owned).into(),
                topic: topic.name,
                bytes_per_s,
            }),
        }
    }
    if sensors.is_empty() {
        return Err(CliError::failed(format!("{} has no messages to publish", bag.display())));
    }
    Ok(sensors)
}

fn bytes_per_s(sensors: &[Sensor]) -> f64 {
    sensors.iter().map(|sensor| sensor.bytes_per_s).sum()
}

/// Shortens the recording, or leaves sensors out from the first on, until it fits the disk. Gives
/// the duration, the number of sensors left out, and what to say; `None` if nothing fits.
fn fit(
    sensors: &mut Vec<Sensor>,
    asked: Duration,
    free_bytes: f64,
) -> Option<(Duration, u32, Option<String>)> {
    let room_bytes = RECORDING_BYTES_MAX.min(free_bytes - FREE_BYTES_MIN);
    let asked_s = asked.as_secs_f64();
    let least_s = asked_s.min(SECONDS_MIN);
    let mut dropped = 0;
    while room_bytes / bytes_per_s(sensors) < least_s {
        if sensors.len() <= 1 {
            return None;
        }
        sensors.remove(0);
        dropped += 1;
    }
    if room_bytes < 0.0 {
        return None;
    }
    let fitting_s = room_bytes / bytes_per_s(sensors);
    let seconds = if fitting_s < asked_s { fitting_s.floor().max(least_s) } else { asked_s };
    let note = (dropped > 0 || seconds < asked_s).then(|| {
        let without = match dropped {
            0 => String::new(),
            _ => format!(" and {} fewer", text::plural(dropped as usize, "sensor")),
        };
        format!(
            "{seconds:.0} s in place of {asked_s:.0} s{without}, because the recording must not \
             exceed {} ({} are free)",
            text::bytes(room_bytes),
            text::bytes(free_bytes)
        )
    });
    Some((Duration::from_secs_f64(seconds), dropped, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(disk_bytes_per_s: f64, shared_memory_bytes: f64) -> Machine {
        Machine { disk_bytes_per_s, free_bytes: 1e12, shared_memory_bytes }
    }

    #[test]
    fn as_many_cameras_as_the_machine_carries() {
        assert_eq!(choose_cameras(None, &machine(3e9, 8e9)).0, 8);
        assert_eq!(choose_cameras(None, &machine(1e9, 8e9)).0, 4);
        assert_eq!(choose_cameras(None, &machine(1e6, 8e9)).0, 1);
        assert_eq!(choose_cameras(Some(6), &machine(1e6, 8e9)).0, 6, "asked is asked");
        let (cameras, why) = choose_cameras(None, &machine(3e9, 2e8));
        assert!(cameras < 8 && why.contains("/dev/shm"), "{cameras}: {why}");
    }

    #[test]
    fn the_recording_fits_the_disk() {
        let ten = Duration::from_secs(10);
        let mut sensors = simulated(8, "p");
        let (duration, dropped, note) = fit(&mut sensors, ten, 1e12).unwrap();
        assert_eq!((duration, dropped, note), (ten, 0, None));
        let (duration, dropped, note) = fit(&mut sensors, ten * 10, 1e12).unwrap();
        assert_eq!((duration.as_secs(), dropped), (13, 0));
        assert!(note.unwrap().contains("13 s in place of 100 s"));
        let (duration, dropped, note) = fit(&mut sensors, ten, 4e9).unwrap();
        assert_eq!((duration.as_secs(), dropped, sensors.len()), (3, 5, 5));
        assert!(note.unwrap().contains("5 sensors fewer"));
        assert!(fit(&mut sensors, ten, 1e9).is_none());
    }
}
