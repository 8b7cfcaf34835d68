//! The ROS 2 network that a verb takes part in.

use std::path::PathBuf;
use std::sync::Arc;

use livebag_ros2::network::{Network, NetworkError};
use serde::{Deserialize, Serialize};

use crate::outcome::CliError;

/// Which network, and how it is joined. Missing options follow ROS 2's environment variables.
#[derive(clap::Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "ROS 2 network")]
pub struct NetworkArgs {
    /// Join a ROS 2 network: zenoh (like rmw_zenoh), dds (like all DDS-based rmw)
    #[arg(long, value_name = "NETWORK")]
    pub ros2: Option<String>,
    /// Its domain [default: ROS_DOMAIN_ID, or 0]
    #[arg(long, value_name = "N", requires = "ros2")]
    pub domain: Option<u32>,
    /// Name of livebag's node there.
    #[arg(long, value_name = "NAME", requires = "ros2")]
    #[arg(hide_short_help = true)]
    pub node_name: Option<String>,
    /// With dds: the network interface, by name or address [default: CYCLONEDDS_URI, or all with multicast]
    #[arg(long, value_name = "INTERFACE", requires = "ros2")]
    #[arg(hide_short_help = true)]
    pub interface: Option<String>,
    /// Zenoh's own configuration (JSON5) [default: ZENOH_SESSION_CONFIG_URI, or a peer that connects to
    /// the router of this machine]
    #[arg(long, value_name = "FILE")]
    #[arg(hide_short_help = true)]
    pub zenoh_config: Option<String>,
    /// Zenoh endpoint to listen at.
    #[arg(long, value_name = "ENDPOINT")]
    #[arg(hide_short_help = true)]
    pub zenoh_listen: Vec<String>,
    /// Zenoh endpoint to connect to: tcp/robot:7447
    #[arg(long, value_name = "ENDPOINT")]
    #[arg(hide_short_help = true)]
    pub zenoh_connect: Vec<String>,
}

impl From<NetworkError> for CliError {
    fn from(error: NetworkError) -> Self {
        match error {
            NetworkError::Name { .. } => Self::usage(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl NetworkArgs {
    /// Joins the network that is asked for, as the node `node` unless it is called otherwise; `None` if there is none.
    ///
    /// # Errors
    /// If there is no such network, or it cannot be joined.
    pub fn join(&self, node: &str) -> Result<Option<Arc<dyn Network>>, CliError> {
        let Some(network) = &self.ros2 else { return Ok(None) };
        let node = self.node_name.as_deref().unwrap_or(node);
        let network = match network.as_str() {
            "zenoh" => {
                if self.interface.is_some() {
                    return Err(CliError::usage("--interface is for --ros2 dds"));
                }
                self.zenoh(node)?
            }
            "dds" => self.dds(node)?,
            other => {
                return Err(CliError::usage(format!("--ros2: `{other}` is not one of zenoh, dds")));
            }
        };
        Ok(Some(network))
    }

    #[cfg(feature = "ros2-zenoh")]
    fn zenoh(&self, node: &str) -> Result<Arc<dyn Network>, CliError> {
        use livebag_ros2::network::{ZenohNetwork, ZenohOptions};
        let mut options = ZenohOptions::from_environment()?;
        if let Some(config) = &self.zenoh_config {
            options.config = Some(PathBuf::from(config));
        }
        options.listen.extend(self.zenoh_listen.iter().cloned());
        options.connect.extend(self.zenoh_connect.iter().cloned());
        options.domain = self.domain.unwrap_or(options.domain);
        Ok(Arc::new(ZenohNetwork::join(&options, node)?))
    }

    #[cfg(not(feature = "ros2-zenoh"))]
    fn zenoh(&self, _node: &str) -> Result<Arc<dyn Network>, CliError> {
        Err(crate::absent::error("ros2-zenoh"))
    }

    #[cfg(feature = "ros2-dds")]
    fn dds(&self, node: &str) -> Result<Arc<dyn Network>, CliError> {
        use livebag_ros2::network::dds::{DdsNetwork, DdsOptions};
        let mut options =
            DdsOptions::from_env(|name| std::env::var(name).ok()).map_err(CliError::usage)?;
        options.domain = self.domain.unwrap_or(options.domain);
        options.interface = self.interface.clone().or(options.interface);
        let network = DdsNetwork::join(&options, node)?;
        if let Some(advice) = network.advice() {
            say!("livebag: warning: {advice}");
        }
        Ok(Arc::new(network))
    }

    #[cfg(not(feature = "ros2-dds"))]
    fn dds(&self, _node: &str) -> Result<Arc<dyn Network>, CliError> {
        Err(crate::absent::error("ros2-dds"))
    }

    /// Zenoh's configuration file.
    pub fn zenoh_config(&self) -> Option<PathBuf> {
        self.zenoh_config.as_ref().map(PathBuf::from)
    }
}
