//! `livebag record`: from streams into a container.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use livebag::{
    Account, Clock, Container, RecordError, Recorder, RecorderOptions, Selector, Status,
};
use livebag_bags::{Sqlite3Options, make_rosbag2};
use livebag_format::Visible;
use livebag_format::container::ClockJumps;
use livebag_format::rosbag2::MetadataVersion;
use livebag_ros2::Follower;
use livebag_ros2::network::Network;
use serde::Serialize;

use crate::interrupt::{Interrupt, SignalOrders};
use crate::outcome::{CliError, Outcome};
use crate::report::{self, Lost, TopicReport};
use crate::{parse, serve, text};

pub mod graph;
mod names;
mod progress;
mod pushing;
mod rosbag2;
mod settings;
mod stats;
mod values;
mod waiting;

use crate::control::{self, ControlSocket, Controlled, Keyboard};
use crate::push_view::PushView;
use names::Wanted;
use progress::Progress;
use pushing::{PushReport, Pushing};
use settings::Settings;
use waiting::Waiting;

/// Interval at which commands are polled.
const LOOK: Duration = Duration::from_millis(50);
/// The same while it closes.
const LOOK_CLOSING: Duration = Duration::from_millis(10);
/// Interval at which the recorder's counts are polled.
const SHOW: Duration = Duration::from_millis(200);

/// Record streams or ROS 2 topics
///
/// Record streams, or the topics of a ROS 2 network, into a container, until Ctrl-C or for a given time.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag record -a                             # every stream, until Ctrl-C\n  \
    livebag record camera_front /imu -o run1 --duration 60\n  \
    livebag record -a -d 60 --max-total-size 100GB -o run2\n  \
    livebag record --ros2 dds -a --domain 7 -o run3")]
#[command(after_long_help = "Examples:\n  \
    livebag record -a\n  \
    livebag record camera_front camera_rear /imu -o run1 --duration 60\n  \
    livebag record -e '^/camera' --exclude-regex depth -o run2\n  \
    livebag record -a -d 60 --max-total-size 100GB -o run3\n  \
    livebag record -a --throttle /diagnostics=1 -o run4\n  \
    livebag record -a --snapshot-mode --max-cache-size 4GiB -o incidents\n  \
    livebag record -a --storage sqlite3 --preset resilient -o run5\n  \
    livebag record --ros2 dds -a --domain 7 -o run6\n  \
    livebag record --ros2 zenoh -t /imu /camera/image --storage mcap -o run7\n  \
    livebag record -a -d 60 --push s3://fleet/robot7 -o run8\n  \
    livebag record -a -d 60 --print-profile > recording.yaml\n  \
    livebag record --profile recording.yaml\n\n\
Signals: INT, TERM and HUP close the recording; 3 s later, one more discards and counts the messages waiting \
in memory, and after 3 s more, another ends the process. USR1 begins a new split, USR2 takes a snapshot. \
`livebag ctl DIR` has the same commands and more.\n\n\
Exit codes: 0 nothing lost, 1 failed or ended early, 2 wrong usage, 3 finished, but messages were lost, \
a named topic had no message, or --push did not succeed.\n\n\
Environment:\n  \
    LIVEBAG_STORAGE  how bytes reach the disk: io_uring (default) or pwrite, with ,buffered \
appended to use the page cache\n  \
    LIVEBAG_INTERRUPT_GRACE  seconds in which a second SIGINT, SIGTERM or SIGHUP is ignored (default 3)")]
pub struct Args {
    /// Read settings from a YAML file; the command line overrides them.
    #[arg(long, value_name = "FILE", display_order = 900)]
    profile: Option<PathBuf>,
    /// Print the settings as a profile, and record nothing.
    #[arg(long, display_order = 900)]
    print_profile: bool,
    /// While recording, print counts by topic and cause as JSON lines on standard output, at this interval.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = interval, hide_short_help = true, display_order = 900)]
    stats: Option<Duration>,
    /// Print the final summary as one JSON object.
    #[arg(long, display_order = 900)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    rosbag2: rosbag2::Rosbag2Names,
}

/// The interval of `--stats`, which is easily given the name of a stream.
fn interval(text: &str) -> Result<Duration, String> {
    parse::duration_above_zero(text)
        .map_err(|why| format!("{why}; --stats takes the next word: write --stats=1"))
}

/// Printed at the end.
#[derive(Serialize)]
struct Summary {
    path: String,
    /// How bytes reached the disk, and why not by a better way.
    storage: Storage,
    /// What ended the recording early.
    failure: Option<String>,
    /// From the first poll of the streams to the end.
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
    message_count: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    message_bytes_per_s: f64,
    lost: Lost,
    /// Where every message is that was published.
    account: Account,
    /// Splits that retention has removed.
    removed_splits: u64,
    /// Requested names that never appeared, or that had no message, and topics that were refused.
    missing: Vec<String>,
    /// How often the wall clock was set while recording, and by how much at most.
    clock_jumps: ClockJumps,
    topics: Vec<TopicReport>,
    /// What became of `--push`; null without.
    push: Option<PushReport>,
}

#[derive(Serialize, Default)]
struct Storage {
    method: String,
    reasons: Vec<String>,
}

/// Options of a recording, checked.
struct Plan {
    settings: Settings,
    selectors: Vec<Selector>,
    wanted: Wanted,
    options: RecorderOptions,
    directory: PathBuf,
    metadata_version: Option<MetadataVersion>,
    stop_after: Option<Duration>,
    server: Option<serve::Options>,
    database: Option<Sqlite3Options>,
}

impl Plan {
    fn new(settings: Settings) -> Result<Self, CliError> {
        let selectors = match settings.network.ros2.is_some() && !settings.graph.with_streams {
            false => settings.selectors()?,
            // At least something of the network.
            true if settings.graph.chooses() => Vec::new(),
            true => settings.selectors().map(|_| Vec::new())?,
        };
        let wanted = Wanted::new(&settings.wanted_names(), settings.owners())?;
        let mut options = settings.options()?;
        let metadata_version = settings.metadata_version()?;
        let directory = match &settings.output {
            Some(directory) if directory.is_empty() => {
                return Err(CliError::usage("--output is empty: give the folder to make"));
            }
            Some(directory) => PathBuf::from(directory),
            None => PathBuf::from(text::recording_name(options.clock.wall_nanos())),
        };
        if metadata_version.is_some() {
            // rosbag2 names its files by their directory.
            let name = directory.file_name().unwrap_or(directory.as_os_str());
            options.one_file = Some(name.to_string_lossy().into_owned());
        }
        if settings.push.is_some() && !cfg!(feature = "bucket") {
            return Err(crate::absent::error("bucket"));
        }
        let keeps = options.retention;
        let limits =
            [keeps.splits_max.is_some(), keeps.bytes_max.is_some(), keeps.age_max.is_some()];
        let has_limits =
            limits.contains(&true) || keeps.low_space == livebag::LowSpace::DeleteOldest;
        if settings.delete_pushed && has_limits && metadata_version.is_some() {
            return Err(CliError::usage(
                "--delete-pushed removes splits while recording only from containers: files of \
                 --storage mcap and sqlite3 are pushed at the end. Leave away --max-bag-files, \
                 --max-total-size, --max-age and --low-free-space-action, or --storage",
            ));
        }
        let (stop_after, server) = (settings.stop_after()?, settings.server_options()?);
        let database = settings.database()?;
        if database.is_some() && server.is_some() {
            return Err(CliError::usage(
                "--serve answers from containers, which --storage sqlite3 does not make: record \
                 with --storage container or mcap",
            ));
        }
        Ok(Self {
            settings,
            selectors,
            wanted,
            options,
            directory,
            metadata_version,
            stop_after,
            server,
            database,
        })
    }

    /// Creates the recording.
    fn create(&self) -> Result<(Recorder, Storage), CliError> {
        let options = self.options.clone();
        Ok(match self.database.clone() {
            Some(database) => (
                livebag_bags::record_sqlite(&self.directory, options, database)?,
                Storage { method: "sqlite3".into(), reasons: Vec::new() },
            ),
            None => {
                let recorder = Recorder::create(&self.directory, options)?;
                let storage = storage_of(&recorder);
                (recorder, storage)
            }
        })
    }

    /// Begins to push, if that is wanted.
    fn begin_push(&self) -> Option<Pushing> {
        let target = self.settings.push.as_ref()?;
        let settings = &self.settings;
        let options = [
            ("--max-rate", &settings.push_max_rate),
            ("--first", &settings.push_first),
            ("--robot", &settings.robot),
        ];
        let words = |(option, value): (&str, &Option<String>)| {
            value.as_ref().map(|value| format!("{option}={value}"))
        };
        let options = options.into_iter().filter_map(words).collect();
        // Files of other formats get their names when the recording is closed.
        let has_splits = self.metadata_version.is_none() && self.database.is_none();
        let deletes = self.settings.delete_pushed;
        Some(Pushing::begin(&self.directory, target, options, deletes, has_splits))
    }

    fn records_streams(&self) -> bool {
        self.settings.network.ros2.is_none() || self.settings.graph.with_streams
    }

    /// Summary of the closed recording, which becomes a rosbag2 bag first if it is to be one.
    fn summary(
        &self,
        status: &Status,
        storage: Storage,
        failure: Option<String>,
        elapsed_s: f64,
    ) -> Result<Summary, CliError> {
        let missing: Vec<_> =
            self.wanted.missing(status).into_iter().chain(refused(status)).collect();
        let directory = &self.directory;
        if self.database.is_some() {
            // SQLite would have to count, and does not know the losses.
            return summary_of_status(status, directory, storage, failure, elapsed_s, missing);
        }
        if let Some(version) = self.metadata_version
            && failure.is_none()
        {
            make_rosbag2(&Container::open(directory)?, version)?;
        }
        if status.topics.iter().any(|topic| topic.refused.is_some())
            && failure.is_none()
            && Container::peek(directory).is_err()
        {
            // A reader opens the files of all splits, which are more than the recorder had open.
            return summary_of_status(status, directory, storage, failure, elapsed_s, missing);
        }
        summary(directory, storage, failure.clone(), elapsed_s, missing).map_err(|error| {
            // A disk that is gone cannot be read either.
            let Some(failure) = failure else { return error };
            CliError::failed(format!(
                "the recording ended early: {failure}; and {error}. When the disk is back, \
                 `livebag recover {}` keeps what it has",
                directory.display()
            ))
        })
    }
}

/// A sentence for each reason why topics were refused.
fn refused(status: &Status) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for topic in &status.topics {
        if let Some(reason) = &topic.refused {
            // Files have a reason for each topic, as each has its own path.
            let names = by_reason.entry(reason.to_string()).or_default();
            names.push(Visible(&topic.name).to_string());
        }
    }
    let sentence = |(reason, names): (&String, &Vec<String>)| {
        let count = text::plural(names.len(), "topic");
        format!("{count} not recorded, or only in part: {}: {reason}", names.join(", "))
    };
    by_reason.iter().map(sentence).collect()
}

/// Records.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let mut settings = args.settings.clone();
    if let Some(profile) = &args.profile {
        settings = settings.over_profile(profile)?;
    }
    for notice in args.rosbag2.apply(&mut settings)? {
        say!("livebag: {notice}");
    }
    if let Some(notice) = settings.all_wins() {
        say!("livebag: warning: {notice}");
    }
    if args.print_profile {
        settings.options()?;
        write!(std::io::stdout().lock(), "{}", settings.to_profile()?)?;
        return Ok(Outcome::Done);
    }
    let mut plan = Plan::new(settings)?;
    let interrupt = Interrupt::watch_recording()?;
    let orders = SignalOrders::watch()?;
    let clock = plan.options.clock.clone();
    let (mut follower, network) = follow(&plan.settings, &clock)?.unzip();
    let (recorder, storage) = plan.create()?;
    announce(&storage, &plan.directory, plan.options.cache_bytes_max);
    let mut pushing = plan.begin_push();
    let push = pushing.as_ref().map(Pushing::view);
    let socket = control_socket(&plan.directory);
    let zenoh = plan.settings.zenoh();
    let server = match plan.server.take() {
        Some(options) => {
            Some(serve::beside(&recorder, push.clone(), &plan.directory, options, &zenoh)?)
        }
        None => None,
    };
    for selector in std::mem::take(&mut plan.selectors) {
        recorder.follow(selector)?;
    }
    let keyboard = match plan.settings.disable_keyboard_controls {
        true => None,
        false => Keyboard::listen(),
    };
    if keyboard.is_some() {
        say!("livebag: {}", Keyboard::HELP);
    }
    let began = clock.monotonic_nanos();
    let takes_unnamed =
        plan.records_streams() && (plan.settings.all || plan.settings.has_patterns());
    let mut watch = Watch {
        recording: Controlled {
            recorder: &recorder,
            is_ring: plan.options.snapshot.is_some(),
            push,
        },
        follower: follower.as_mut(),
        look_interval: plan.settings.graph.interval(),
        pushing: pushing.as_mut(),
        interrupt: &interrupt,
        orders: &orders,
        socket: socket.as_ref(),
        keyboard: keyboard.as_ref(),
        stats: args.stats,
        clock: clock.clone(),
        waiting: Waiting::new(network, takes_unnamed, plan.settings.owners()),
    };
    let mut progress = Progress::begin(clock.clone(), &plan.directory);
    watch.until(plan.stop_after, &mut progress, &mut plan.wanted)?;
    drop((socket, keyboard, server));
    for notice in follower.map(|follower| follower.finish(&recorder)).unwrap_or_default() {
        say!("livebag: warning: {notice}");
    }
    let elapsed_s = (clock.monotonic_nanos() - began) as f64 / 1e9;
    plan.wanted.look(&recorder.status());
    for notice in plan.settings.without_effect(&recorder.status()) {
        say!("livebag: warning: {notice}");
    }
    let (status, finished) = close(recorder, &interrupt, progress);
    let failure = match finished {
        Ok(()) => None,
        Err(RecordError::Failed(failure)) => Some(failure.to_string()),
        Err(error) => return Err(error.into()),
    };
    let mut summary = plan.summary(&status, storage, failure, elapsed_s)?;
    summary.push = pushing.map(|pushing| pushing.finish(&interrupt));
    conclude(&summary, args.json)
}

/// Closes the recording and shows how that goes; what waits is given up only if that is asked for.
fn close(
    recorder: Recorder,
    interrupt: &Interrupt,
    mut progress: Progress,
) -> (Status, Result<(), RecordError>) {
    recorder.close();
    // The signal that ended it.
    interrupt.wait_for_next(Duration::ZERO);
    let mut is_abandoned = false;
    while !recorder.has_closed() {
        let is_asked_again = interrupt.wait_for_next(LOOK_CLOSING);
        if interrupt.abandons() && !is_abandoned {
            is_abandoned = true;
            recorder.abandon();
        }
        progress.show_closing(&recorder.status(), is_asked_again, interrupt);
    }
    progress.end();
    recorder.finish_with_status()
}

/// A network, and what follows its topics.
type Joined = (Follower, Arc<dyn Network>);

/// Joins the network that is asked for.
fn follow(settings: &Settings, clock: &Clock) -> Result<Option<Joined>, CliError> {
    let options = match settings.network.ros2 {
        Some(_) => settings.graph.options(settings, clock.clone())?,
        None => return Ok(None),
    };
    let Some(network) = settings.network.join("livebag_recorder")? else { return Ok(None) };
    say!("livebag: {}", network.describe());
    let follower = Follower::begin(network.clone(), options);
    follower.map(|follower| Some((follower, network))).map_err(|error| {
        CliError::failed(format!(
            "starting a thread that asks nodes for their types failed: {error}"
        ))
    })
}

/// If the filesystem has no sockets, recording continues without it.
fn control_socket(directory: &Path) -> Option<ControlSocket> {
    let made = ControlSocket::create(directory);
    made.inspect_err(|error| {
        say!("livebag: warning: `livebag ctl` will not reach this recorder: {error}");
    })
    .ok()
}

fn storage_of(recorder: &Recorder) -> Storage {
    recorder.method().map_or_else(Storage::default, |choice| Storage {
        method: choice.method.to_string(),
        reasons: choice.reasons.clone(),
    })
}

/// Says once where and how bytes go.
fn announce(storage: &Storage, directory: &Path, cache_bytes_max: u64) {
    say!(
        "livebag: recording into {} ({}); up to {} may wait in memory (--max-cache-size)",
        directory.display(),
        storage.method,
        text::bytes(cache_bytes_max as f64),
    );
    for reason in &storage.reasons {
        say!("livebag: {reason}");
    }
}

/// Everything that may tell the recording something while it runs.
struct Watch<'a> {
    recording: Controlled<'a>,
    follower: Option<&'a mut Follower>,
    /// Interval at which the network's graph is polled.
    look_interval: Duration,
    pushing: Option<&'a mut Pushing>,
    interrupt: &'a Interrupt,
    orders: &'a SignalOrders,
    socket: Option<&'a ControlSocket>,
    keyboard: Option<&'a Keyboard>,
    stats: Option<Duration>,
    clock: Clock,
    waiting: Waiting,
}

impl Watch<'_> {
    /// Runs the recording until it should end.
    fn until(
        &mut self,
        stop_after: Option<Duration>,
        progress: &mut Progress,
        wanted: &mut Wanted,
    ) -> Result<(), CliError> {
        let began = self.clock.monotonic_nanos();
        let end = stop_after.map(|time| began.saturating_add(time.as_nanos() as u64));
        let mut next_show = began;
        let mut next_stats = began;
        let mut next_look = began;
        loop {
            let now = self.clock.monotonic_nanos();
            if let Some(follower) = self.follower.as_mut().filter(|_| now >= next_look) {
                follower.look(self.recording.recorder);
                for notice in follower.take_notices() {
                    progress.say(&format!("livebag: warning: {notice}"));
                }
                next_look = now + self.look_interval.as_nanos() as u64;
            }
            let status = self.recording.recorder.status();
            let push = self.recording.push.as_ref().map(PushView::status);
            if now >= next_show {
                wanted.look(&status);
                for notice in self.waiting.look(now - began, wanted, &status) {
                    progress.say(&format!("livebag: {notice}"));
                }
                let notice = self.pushing.as_mut().and_then(|pushing| pushing.take_notice());
                if let Some(notice) = notice {
                    progress.say(&format!("livebag: warning: {notice}"));
                }
                if let Some(pushing) = &self.pushing {
                    self.recording.recorder.release_splits(pushing.split_count());
                }
                progress.show(&status, push.as_ref());
                next_show = now + SHOW.as_nanos() as u64;
            }
            if let Some(interval) = self.stats.filter(|_| now >= next_stats) {
                stats::print(&status, push, now - began)?;
                next_stats = now + interval.as_nanos() as u64;
            }
            let left = end.map(|end| end.saturating_sub(now));
            if status.failure.is_some() || left == Some(0) || self.follow_orders(status.paused) {
                break;
            }
            let pause = left.map_or(LOOK, |left| LOOK.min(Duration::from_nanos(left)));
            if self.interrupt.wait(pause) {
                break;
            }
        }
        Ok(())
    }

    /// Does what key, signal or socket ask for; whether the recording is to end.
    fn follow_orders(&self, is_paused: bool) -> bool {
        let key = self.keyboard.and_then(|keyboard| keyboard.look(is_paused));
        let mut stop = false;
        for order in self.orders.take().into_iter().chain(key) {
            let (answer, is_over) = control::follow(&self.recording, order);
            if let Some(error) = answer.error {
                complain!("livebag: {error}");
            }
            stop |= is_over;
        }
        stop || self.socket.is_some_and(|socket| socket.look(&self.recording))
    }
}

/// Counts of the whole recording.
struct Counts {
    account: Account,
    removed_splits: u64,
    clock_jumps: ClockJumps,
}

impl Summary {
    fn new(
        directory: &Path,
        storage: Storage,
        failure: Option<String>,
        duration_s: f64,
        missing: Vec<String>,
        topics: Vec<TopicReport>,
        counts: Counts,
    ) -> Self {
        let bytes = topics.iter().map(|topic| topic.bytes).sum();
        let Counts { account, removed_splits, clock_jumps } = counts;
        Self {
            path: directory.display().to_string(),
            storage,
            failure,
            duration_s,
            message_count: topics.iter().map(|topic| topic.message_count).sum(),
            bytes,
            message_bytes_per_s: bytes as f64 / duration_s.max(1e-9),
            lost: (&account).into(),
            account,
            removed_splits,
            missing,
            clock_jumps,
            topics,
            push: None,
        }
    }
}

/// The recording as its recorder counted it.
fn summary_of_status(
    status: &Status,
    directory: &Path,
    storage: Storage,
    failure: Option<String>,
    duration_s: f64,
    missing: Vec<String>,
) -> Result<Summary, CliError> {
    let topics = report::topics_of(status, directory, duration_s)?;
    let clock_jumps = status.clock_jumps;
    let counts = Counts { account: status.account(), removed_splits: 0, clock_jumps };
    Ok(Summary::new(directory, storage, failure, duration_s, missing, topics, counts))
}

/// The recording on the disk now, as any reader finds it.
fn summary(
    directory: &Path,
    storage: Storage,
    failure: Option<String>,
    duration_s: f64,
    missing: Vec<String>,
) -> Result<Summary, CliError> {
    // What could not be closed just now is not to be recovered just now.
    let bag = Container::peek(directory)?;
    let topics = report::topics(&bag)?;
    let counts = Counts {
        account: bag.account()?,
        removed_splits: bag.removed().splits,
        clock_jumps: bag.clock_jumps(),
    };
    Ok(Summary::new(directory, storage, failure, duration_s, missing, topics, counts))
}

fn conclude(summary: &Summary, json: bool) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
    } else {
        write!(out, "{}", render(summary))?;
    }
    for event in report::events(&summary.topics, summary.clock_jumps) {
        say!("livebag: {event}");
    }
    for name in &summary.missing {
        say!("livebag: warning: {name}");
    }
    let unpushed = summary.push.as_ref().and_then(|push| push.failure(&summary.path));
    if let Some(unpushed) = &unpushed {
        complain!("livebag: {unpushed}");
    }
    if let Some(failure) = &summary.failure {
        complain!(
            "livebag: the recording ended early: {failure}; everything written before it is kept \
             and readable"
        );
        return Ok(Outcome::Failed);
    }
    let is_lossy = summary.lost.total() > 0 || !summary.missing.is_empty();
    // An empty recording is not what anybody asked for.
    let is_empty = summary.account.published() == 0;
    Ok(if is_lossy || is_empty || unpushed.is_some() { Outcome::Loss } else { Outcome::Done })
}

fn render(summary: &Summary) -> String {
    let mut out = String::new();
    if summary.topics.is_empty() {
        out.push_str("nothing appeared, nothing was recorded\n");
    } else {
        out.push_str(&report::table(&summary.topics));
    }
    let lost = summary.lost.painted();
    let removed = match summary.removed_splits {
        0 => String::new(),
        splits => format!(" ({} removed)", text::plural(splits as usize, "split")),
    };
    let beside = report::beside(&summary.account)
        .map_or_else(String::new, |beside| format!("also: {beside}{removed}\n"));
    out.push_str(&format!(
        "\n{}, {}, {} in {:.1} s ({}), {lost}\n{beside}{path}   (livebag info {path})\n",
        text::plural(summary.topics.len(), "topic"),
        text::messages(summary.message_count),
        text::bytes(summary.bytes as f64),
        summary.duration_s,
        text::bytes_per_second(summary.message_bytes_per_s),
        path = summary.push.as_ref().and_then(PushReport::only_place).unwrap_or(&summary.path),
    ));
    out
}
