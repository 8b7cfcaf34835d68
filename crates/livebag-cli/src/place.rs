//! Where a recording is: on this machine, on a server, or with robots.

use std::path::{Path, PathBuf};

use livebag::Clock;
use livebag_net::remote::{Address, RemoteServer};
use livebag_net::tell::{BagInfo, BagRow};
use livebag_net::zenoh::{Found, ZenohAddress, ZenohAsker, ZenohError};

use crate::outcome::CliError;
use crate::query::Trust;
use crate::serve::ZenohArgs;

/// What an argument that names recordings means.
pub enum Place {
    /// Files of this machine.
    Here(PathBuf),
    /// A server, and perhaps one of its recordings.
    Server(Address),
    /// Recordings on Zenoh.
    Robots(ZenohAddress),
}

impl Place {
    /// Tells addresses from paths. A folder of that name is meant where there is one.
    ///
    /// # Errors
    /// If an address is none.
    pub fn of(argument: &Path) -> Result<Self, CliError> {
        match argument.to_str() {
            Some(text) if Address::is_one(text) => Ok(Self::Server(Address::parse(text)?)),
            Some(text) if ZenohAddress::is_one(text) && !argument.exists() => {
                Ok(Self::Robots(ZenohAddress::parse(text)?))
            }
            _ => Ok(Self::Here(argument.to_owned())),
        }
    }
}

/// A recording of somebody else, and where it is.
pub struct Told<T> {
    /// Its address.
    pub address: String,
    /// What is told of it; `None` if it is announced and does not answer.
    pub told: Option<T>,
}

/// What a server's recordings are in a list.
///
/// # Errors
/// If the server does not answer, or has no such recording.
pub fn rows(address: &Address, trust: &Trust) -> Result<Vec<Told<BagRow>>, CliError> {
    let server = RemoteServer::new(address, trust.options()?)?;
    let rows = match &address.bag {
        Some(name) => vec![server.bag(name)?.row],
        None => server.bags()?,
    };
    let told =
        |row: BagRow| Told { address: format!("{}/{}", address.base, row.name), told: Some(row) };
    Ok(rows.into_iter().map(told).collect())
}

/// What the recordings on Zenoh hold.
///
/// # Errors
/// If none is announced, or Zenoh refuses.
pub fn robots(address: &ZenohAddress, zenoh: &ZenohArgs) -> Result<Vec<Told<BagInfo>>, CliError> {
    let asker = ZenohAsker::open(&zenoh.options(), Clock::system())?;
    let found = asker.find(address)?;
    if found.is_empty() {
        return Err(ZenohError::Nobody(address.to_string()).into());
    }
    let infos = asker.infos(&found)?;
    let told = |(found, told): (&Found, _)| Told { address: found.to_string(), told };
    Ok(found.iter().zip(infos).map(told).collect())
}
