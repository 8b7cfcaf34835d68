//! `livebag serve`: serves recordings, finished or live, over the network.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCompleter;
use livebag_net::limits::PORT_DEFAULT;
use livebag_net::zenoh::ZenohOptions;
use livebag_net::{TOKEN_FILE_BYTES_MAX, small_file};

use crate::complete;
use crate::outcome::CliError;

pub use serving::{Options, beside, run};

#[cfg(all(feature = "bucket", feature = "http"))]
mod bucket;
#[cfg(feature = "http")]
mod index;

#[cfg_attr(not(feature = "http"), path = "absent.rs")]
mod serving;

/// Default address of servers.
pub const LISTEN: &str = "127.0.0.1:8767";

/// Serve recordings over HTTP to viewers and programs
///
/// Serve recordings over HTTP, finished or being written: queries, pictures, and complete MCAP files that Foxglove,
/// PlotJuggler and others open by their address.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag serve run1\n  \
    livebag serve /data/runs --listen 127.0.0.1:8080\n  \
    livebag serve /data/runs --listen 0.0.0.0:8767 \\\n    \
      --tls-cert cert.pem --tls-key key.pem --token-file token\n  \
    livebag serve drive.mcap old_ros1.bag --index-dir /data/index\n  \
    livebag serve /data/runs --zenoh --robot r2\n  \
    livebag serve s3://fleet/robot7\n  \
    livebag query http://127.0.0.1:8767/run1 latest --last 1s\n  \
    curl 'http://127.0.0.1:8767/v1/bags/run1/message?topic=/imu&format=json'\n\n\
Foxglove and PlotJuggler open http://127.0.0.1:8767/bags/run1.mcap;\n\
live, as a Foxglove WebSocket: ws://127.0.0.1:8767/live/run1.\n\n\
The API: /openapi.json. Access and TLS: docs/security.md.")]
pub struct Args {
    /// Recordings, or folders that have some; also addresses in object stores (s3://BUCKET/PREFIX, gs://…, az://…), of
    /// which all containers below are served. Those that appear later are served too.
    #[arg(required = true, value_name = "DIR", add = ArgValueCompleter::new(complete::recordings))]
    directories: Vec<PathBuf>,
    /// Address to listen at: 127.0.0.1:8767, [::1]:0, 0.0.0.0; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN, value_parser = address)]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    access: Access,
    /// Serve the viewer in this folder (a static build of Lichtblick, say) at /viewer/, without the token.
    #[arg(long, value_name = "DIR")]
    viewer: Option<PathBuf>,
    #[command(flatten)]
    zenoh: ZenohServe,
    /// Folder for copies of MCAP files, rosbag2 and ROS 1 bags, which are needed to serve them; they are kept for the
    /// next time [default: a temporary folder, for up to 4 GB]
    #[arg(long, value_name = "DIR")]
    index_dir: Option<PathBuf>,
    /// Print the addresses as one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// Taking part in Zenoh.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ZenohArgs {
    /// Zenoh's own configuration (JSON5): TLS, access control, routers [default: a peer on this machine only]
    #[arg(long, value_name = "FILE", global = true)]
    #[arg(help_heading = "Zenoh", hide_short_help = true)]
    pub zenoh_config: Option<PathBuf>,
    /// Zenoh endpoint to listen at: tcp/127.0.0.1:7448, tls/0.0.0.0:7448. With endpoints given, there is no multicast
    /// scouting.
    #[arg(long, value_name = "ENDPOINT", global = true)]
    #[arg(help_heading = "Zenoh", hide_short_help = true)]
    pub zenoh_listen: Vec<String>,
    /// Zenoh endpoint to connect to.
    #[arg(long, value_name = "ENDPOINT", global = true)]
    #[arg(help_heading = "Zenoh", hide_short_help = true)]
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
    /// Also answer over Zenoh, as livebag/ROBOT/NAME/TOPIC.
    #[arg(long, help_heading = "Zenoh")]
    pub zenoh: bool,
    /// This robot's name on Zenoh [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    #[arg(help_heading = "Zenoh", hide_short_help = true)]
    pub robot: Option<String>,
    #[command(flatten)]
    pub session: ZenohArgs,
}

/// Access control and secrets.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Access {
    /// Certificate chain, PEM. Other machines are served only with TLS and a token.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    #[arg(help_heading = "Access")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    #[arg(help_heading = "Access")]
    pub tls_key: Option<PathBuf>,
    /// A file with the token that every request must have (openssl rand -base64 24 > token).
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = "Access")]
    pub token_file: Option<PathBuf>,
    /// Let web pages of this origin read, too (https://viewer.example); Foxglove's always may.
    #[arg(long, value_name = "ORIGIN")]
    #[arg(help_heading = "Access", hide_short_help = true)]
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
