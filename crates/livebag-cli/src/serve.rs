//! `livebag serve`: recordings, finished or running, for whoever asks over the network.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use livebag::{Clock, ReaderNotice, Recorder};
use livebag_net::limits::PORT_DEFAULT;
use livebag_net::zenoh::{ZenohOptions, ZenohServer, robot_name};
use livebag_net::{
    Catalog, KeepFresh, Secrets, Server, ServerOptions, TOKEN_FILE_BYTES_MAX, TlsFiles, small_file,
};

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::record::control;
use crate::text;

/// Recorders are told of readers at most so often.
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);
/// Recorders that wait to be told.
const NOTICES_MAX: usize = 64;

/// Serve recordings over HTTP, finished or being written: queries, pictures, and whole MCAP files that
/// Foxglove, PlotJuggler and others open by their address.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag serve run1\n  \
    livebag serve /data/runs --listen 127.0.0.1:8080\n  \
    livebag serve /data/runs --listen 0.0.0.0:8767 --tls-cert cert.pem --tls-key key.pem --token-file token\n  \
    livebag serve /data/runs --zenoh --robot r2\n  \
    livebag query http://127.0.0.1:8767/run1 latest --last 1s\n  \
    curl 'http://127.0.0.1:8767/v1/bags/run1/message?topic=/camera&format=jpeg' > now.jpg\n  \
    open in Foxglove or PlotJuggler: http://127.0.0.1:8767/bags/run1.mcap\n\n\
The API: /openapi.json. Access and TLS: docs/security.md.")]
pub struct Args {
    /// Containers, or folders that have some; those that appear later are served too.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Address to listen at: 127.0.0.1:8767, [::1]:0, 0.0.0.0; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8767", value_parser = address)]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    zenoh: ZenohServe,
    /// Print the addresses as one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// Taking part in Zenoh.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ZenohArgs {
    /// Zenoh's own configuration (JSON5): TLS, access control, routers [default: a peer of this
    /// machine alone]
    #[arg(long, value_name = "FILE", global = true)]
    pub zenoh_config: Option<PathBuf>,
    /// Zenoh endpoint to listen at: tcp/127.0.0.1:7448, tls/0.0.0.0:7448. With endpoints given, peers are
    /// not looked for by multicast.
    #[arg(long, value_name = "ENDPOINT", global = true)]
    pub zenoh_listen: Vec<String>,
    /// Zenoh endpoint to connect to.
    #[arg(long, value_name = "ENDPOINT", global = true)]
    pub zenoh_connect: Vec<String>,
}

impl ZenohArgs {
    /// For a session.
    pub fn options(&self) -> ZenohOptions {
        ZenohOptions {
            config: self.zenoh_config.clone(),
            listen: self.zenoh_listen.clone(),
            connect: self.zenoh_connect.clone(),
        }
    }
}

/// Answering by Zenoh too.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ZenohServe {
    /// Answer over Zenoh, too, as livebag/ROBOT/NAME/TOPIC.
    #[arg(long)]
    pub zenoh: bool,
    /// This robot's name on Zenoh [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub robot: Option<String>,
    #[command(flatten)]
    pub session: ZenohArgs,
}

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

/// Who may ask, and how it is kept secret.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Access {
    /// Certificate chain, PEM. Beyond this machine recordings are served only with TLS and a token.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A file with the token that every request must carry (openssl rand -base64 24 > token).
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Let web pages of this origin ask too (https://viewer.example); Foxglove's may.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
}

/// `127.0.0.1:8767`, `0.0.0.0`, `[::1]:0`, `localhost:80`.
///
/// # Errors
/// With a sentence that says what would be right.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse().ok();
    let parsed = parsed.or_else(|| text.parse().ok().map(|ip| SocketAddr::new(ip, PORT_DEFAULT)));
    let resolved = parsed.or_else(|| text.to_socket_addrs().ok()?.next());
    let resolved = resolved.or_else(|| (text, PORT_DEFAULT).to_socket_addrs().ok()?.next());
    resolved.ok_or_else(|| {
        format!("`{text}` is no address of this machine: expected something like 127.0.0.1:8767")
    })
}

impl Access {
    /// The options of a server at `listen`.
    ///
    /// # Errors
    /// If the token cannot be read or used, or one of certificate and key is missing.
    pub fn options(&self, listen: Vec<SocketAddr>) -> Result<ServerOptions, CliError> {
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
        Ok(ServerOptions { listen, tls, secrets, ..ServerOptions::default() })
    }
}

/// The text of a file with a token.
///
/// # Errors
/// If it cannot be read.
pub fn read_token(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::file("reading", path, source);
    let mode = path.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        say!(
            "livebag: warning: others on this machine may read {} (chmod 600 {0})",
            path.display()
        );
    }
    let bytes = small_file(path, TOKEN_FILE_BYTES_MAX).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| {
        CliError::failed(format!(
            "{} is no text: one line with the token is expected",
            path.display()
        ))
    })
}

/// Serves until it is interrupted.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let options = args.access.options(args.listen.clone())?;
    let interrupt = Interrupt::watch()?;
    let fresh = Arc::new(Messenger::start(options.clock.clone())?);
    let catalog = Catalog::new(&args.directories, options.clock.clone(), Some(fresh))?;
    let count = catalog.bags().len();
    let catalog = Arc::new(catalog);
    let _zenoh = args.zenoh.start(&catalog)?;
    let server = Server::start(catalog, options)?;
    let urls = server.urls();
    if args.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::json!({ "urls": urls, "bags": count }))?;
        out.flush()?;
    }
    for url in &urls {
        say!("livebag: serving {} at {url} (Ctrl-C ends)", text::plural(count, "recording"));
    }
    while !interrupt.wait(Duration::from_secs(3600)) {}
    Ok(Outcome::Done)
}

/// Serves what `recorder` writes into `directory`, until it is dropped.
///
/// # Errors
/// If that address may not or cannot be listened at.
pub fn beside(
    recorder: &Recorder,
    directory: &Path,
    options: ServerOptions,
    zenoh: &ZenohServe,
) -> Result<(Server, Option<ZenohServer>), CliError> {
    struct Beside(ReaderNotice);
    impl KeepFresh for Beside {
        fn is_read(&self, _container: &Path) {
            self.0.is_read();
        }
    }
    let fresh: Arc<dyn KeepFresh> = Arc::new(Beside(recorder.reader_notice()));
    let catalog = Catalog::new(&[directory.to_owned()], options.clock.clone(), Some(fresh))?;
    let name = catalog.bags().first().map_or_else(String::new, |bag| bag.name().to_owned());
    let catalog = Arc::new(catalog);
    let zenoh = zenoh.start(&catalog)?;
    let server = Server::start(catalog, options)?;
    for url in server.urls() {
        say!("livebag: answering queries at {url}/{name} ({url}/bags/{name}.mcap as one file)");
    }
    Ok((server, zenoh))
}

/// Tells the recorders of other processes that they are read, on a thread of its own: a recorder that
/// hangs must not hold an answer up.
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
}
