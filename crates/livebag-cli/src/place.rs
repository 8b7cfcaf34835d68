//! Where a recording is: on this machine, in an object store, on a server, or with robots.

use std::path::{Path, PathBuf};

use livebag::Clock;
use livebag_net::remote::{Address, RemoteOptions, RemoteServer};
use livebag_net::tell::{BagRow, RecordingInfo};
use livebag_net::zenoh::{Found, ZenohAddress, ZenohAsker, ZenohError};

pub use crate::below::missing;
use crate::outcome::CliError;
use crate::serve::ZenohArgs;
use crate::stored;

/// Access to a server.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Trust {
    /// A file with the server's token [default: the token in LIVEBAG_TOKEN]
    #[arg(long, value_name = "FILE", global = true)]
    #[arg(help_heading = "Servers and robots")]
    token_file: Option<PathBuf>,
    /// Trusted certificates, PEM [default: those of this machine]
    #[arg(long, value_name = "FILE", global = true)]
    #[arg(help_heading = "Servers and robots", hide_short_help = true)]
    ca_cert: Option<PathBuf>,
}

impl Trust {
    /// For a server.
    ///
    /// # Errors
    /// If the token cannot be read.
    pub fn options(&self) -> Result<RemoteOptions, CliError> {
        let token = match &self.token_file {
            Some(path) => Some(crate::serve::read_token(path)?.trim().to_owned()),
            None => std::env::var("LIVEBAG_TOKEN").ok(),
        };
        Ok(RemoteOptions { token, ca_certificates: self.ca_cert.clone() })
    }
}

/// What an argument that names recordings means.
pub enum Place {
    /// Files of this machine.
    Here(PathBuf),
    /// The address of an object store.
    Stored(PathBuf),
    /// A server, and perhaps one of its recordings.
    Server(Address),
    /// Recordings on Zenoh.
    Robots(ZenohAddress),
}

impl Place {
    /// Tells addresses from paths. If a folder has that name, it means the folder.
    ///
    /// # Errors
    /// If an address is none, or a path does not exist.
    pub fn of(argument: &Path) -> Result<Self, CliError> {
        match argument.to_str() {
            Some(_) if stored::is_address(argument) => Ok(Self::Stored(argument.to_owned())),
            Some(text) if Address::is_one(text) => Ok(Self::Server(Address::parse(text)?)),
            Some(text) if ZenohAddress::is_one(text) && !argument.exists() => {
                Ok(Self::Robots(ZenohAddress::parse(text)?))
            }
            _ => match argument.symlink_metadata() {
                Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                    Err(missing(argument, source))
                }
                _ => Ok(Self::Here(argument.to_owned())),
            },
        }
    }
}

/// A remote recording, and its address.
pub struct Told<T> {
    /// Its address.
    pub address: String,
    /// Its description; `None` if it is announced and does not answer.
    pub told: Option<T>,
}

/// The list of a server's recordings.
///
/// # Errors
/// If the server does not answer, or has no such recording.
pub fn rows(address: &Address, trust: &Trust) -> Result<Vec<Told<BagRow>>, CliError> {
    let server = RemoteServer::new(address, trust.options()?)?;
    let rows = match &address.recording {
        Some(name) => vec![server.recording(name)?.row],
        None => server.recordings()?,
    };
    let told =
        |row: BagRow| Told { address: format!("{}/{}", address.base, row.name), told: Some(row) };
    Ok(rows.into_iter().map(told).collect())
}

/// The contents of the recordings on Zenoh.
///
/// # Errors
/// If none is announced, or Zenoh fails.
pub fn robots(
    address: &ZenohAddress,
    zenoh: &ZenohArgs,
) -> Result<Vec<Told<RecordingInfo>>, CliError> {
    let asker = ZenohAsker::open(&zenoh.options(), Clock::system())?;
    let found = asker.find(address)?;
    if found.is_empty() {
        return Err(ZenohError::Nobody(address.to_string()).into());
    }
    let infos = asker.infos(&found)?;
    let told = |(found, told): (&Found, _)| Told { address: found.to_string(), told };
    Ok(found.iter().zip(infos).map(told).collect())
}
