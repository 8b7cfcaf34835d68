//! What `livebag serve` and `livebag record --serve` do.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use livebag::{Clock, ReaderNotice, Recorder};
use livebag_net::zenoh::{ZenohServer, robot_name};
use livebag_net::{
    Catalog, KeepFresh, RecorderStatus, RecorderTopic, Secrets, Server, TlsFiles, Viewer,
};

pub use livebag_net::ServerOptions as Options;

#[cfg(feature = "bucket")]
use super::bucket::start as list_store;
use super::{Access, Args, ZenohServe, index, read_token};
use crate::control;
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::push_view::PushView;
use crate::{stored, text};

/// Shortest interval between two notices of readers to one recorder.
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);
/// Recorders to which a notice is due.
const NOTICES_MAX: usize = 64;

impl ZenohServe {
    /// Answers by Zenoh, if that is wanted.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn start(&self, catalog: &Arc<Catalog>) -> Result<Option<ZenohServer>, CliError> {
        if !self.zenoh {
            return Ok(None);
        }
        let robot = self.robot.clone().unwrap_or_else(robot_name);
        let options = self.session.options();
        let server = ZenohServer::start(catalog.clone(), &robot, &options, Clock::system())?;
        say!("livebag: answering by Zenoh as {} (livebag query zenoh/{0}/NAME …)", server.robot());
        Ok(Some(server))
    }
}

impl Access {
    /// The options of a server at `listen`.
    ///
    /// # Errors
    /// If the token cannot be read or used, or one of certificate and key is missing.
    pub fn options(&self, listen: Vec<SocketAddr>) -> Result<Options, CliError> {
        let mut secrets = Secrets::default().with_origins(&self.allow_origin);
        if let Some(path) = &self.token_file {
            let wrong = |why: String| CliError::failed(format!("{}: {why}", path.display()));
            secrets = secrets.with_token(&read_token(path)?).map_err(wrong)?;
        }
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
            }
            (None, None) => None,
            _ => {
                return Err(CliError::usage("--tls-cert and --tls-key belong together: give both"));
            }
        };
        Ok(Options { listen, tls, secrets, ..Options::default() })
    }
}

/// Serves until it is interrupted.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let mut options = args.access.options(args.listen.clone())?;
    options.viewer = args
        .viewer
        .as_deref()
        .map(|folder| Viewer::open(folder).map_err(CliError::usage))
        .transpose()?;
    let interrupt = Interrupt::watch()?;
    let fresh = Arc::new(Messenger::start(options.clock.clone())?);
    let (addresses, directories): (Vec<_>, Vec<_>) =
        args.directories.iter().cloned().partition(|path| stored::is_address(path));
    let plan = match directories.is_empty() {
        true => None,
        false => Some(index::plan(&directories, args.index_dir.as_deref())?),
    };
    let mut count = plan.as_ref().map_or(0, index::Plan::count);
    let roots = plan.as_ref().map_or_else(Vec::new, |plan| plan.roots.clone());
    let catalog = Arc::new(Catalog::new(&roots, options.clock.clone(), Some(fresh))?);
    let mut listings = Vec::new();
    for address in &addresses {
        let (listing, found) = list_store(address, &catalog)?;
        listings.push(listing);
        count += found;
    }
    let _index = plan.map(|plan| plan.start(catalog.clone())).transpose()?;
    let zenoh = args.zenoh.start(&catalog)?;
    options.robots = zenoh.as_ref().map(ZenohServer::others);
    let server = Server::start(catalog, options)?;
    let urls = server.urls();
    if args.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::json!({ "urls": urls, "bag_count": count }))?;
        out.flush()?;
    }
    for url in &urls {
        say!("livebag: serving {} at {url} (Ctrl-C ends)", text::plural(count, "recording"));
    }
    while !interrupt.wait(Duration::from_secs(3600)) {}
    Ok(Outcome::Done)
}

#[cfg(not(feature = "bucket"))]
fn list_store(_address: &Path, _catalog: &Catalog) -> Result<((), usize), CliError> {
    Err(crate::absent::error("bucket"))
}

/// Serves what `recorder` writes into `directory`, and how pushing it goes, until it is dropped.
///
/// # Errors
/// If that address may not or cannot be listened at.
pub fn beside(
    recorder: &Recorder,
    push: Option<PushView>,
    directory: &Path,
    mut options: Options,
    zenoh: &ZenohServe,
) -> Result<(Server, Option<ZenohServer>), CliError> {
    struct Beside(ReaderNotice, Option<PushView>);
    impl KeepFresh for Beside {
        fn is_read(&self, _container: &Path) {
            self.0.is_read();
        }

        fn status(&self, _container: &Path) -> Option<RecorderStatus> {
            let status = (self.0.status(), self.0.cache_bytes_max());
            let push = self.1.as_ref().map(PushView::status);
            Some(RecorderStatus { push, ..status.into() })
        }
    }
    let fresh: Arc<dyn KeepFresh> = Arc::new(Beside(recorder.reader_notice(), push));
    let catalog = Catalog::new(&[directory.to_owned()], options.clock.clone(), Some(fresh))?;
    let name = catalog.bags().first().map_or_else(String::new, |bag| bag.name().to_owned());
    let catalog = Arc::new(catalog);
    let zenoh = zenoh.start(&catalog)?;
    options.robots = zenoh.as_ref().map(ZenohServer::others);
    let server = Server::start(catalog, options)?;
    for url in server.urls() {
        say!("livebag: answering queries at {url}/{name} ({url}/bags/{name}.mcap as one file)");
    }
    Ok((server, zenoh))
}

/// Notifies the recorders of other processes of readers, on a separate thread: a recorder that hangs must not delay an
/// answer.
struct Messenger {
    sender: SyncSender<PathBuf>,
    clock: Clock,
    told: Mutex<Vec<(PathBuf, u64)>>,
}

impl Messenger {
    fn start(clock: Clock) -> Result<Self, CliError> {
        let (sender, receiver) = sync_channel::<PathBuf>(NOTICES_MAX);
        let work = move || {
            while let Ok(container) = receiver.recv() {
                control::notify_read(&container);
            }
        };
        let thread = std::thread::Builder::new().name("livebag-notice".into()).spawn(work);
        thread.map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
        Ok(Self { sender, clock, told: Mutex::default() })
    }
}

impl KeepFresh for Messenger {
    fn is_read(&self, container: &Path) {
        let now = self.clock.monotonic_nanos();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|(_, time)| now.saturating_sub(*time) < NOTICE_INTERVAL.as_nanos() as u64);
        if told.len() < NOTICES_MAX && !told.iter().any(|(known, _)| known == container) {
            told.push((container.to_owned(), now));
            match self.sender.try_send(container.to_owned()) {
                // Told a second later.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }

    fn status(&self, container: &Path) -> Option<RecorderStatus> {
        let answer = control::status(container)?;
        let topic = |topic: control::TopicAnswer| RecorderTopic {
            name: topic.name,
            lost: topic.account.lost,
            is_gone: topic.writer_gone,
        };
        Some(RecorderStatus {
            paused: answer.paused,
            splits: answer.splits.into(),
            cache_bytes: answer.cache_bytes,
            cache_bytes_max: None,
            slot_bytes: Some(answer.slot_bytes),
            push: answer.push,
            lost: answer.account.lost,
            topics: answer.topics.into_iter().map(topic).collect(),
        })
    }
}
