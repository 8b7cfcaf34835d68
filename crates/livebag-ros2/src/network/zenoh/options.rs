//! How to take part in a ROS 2 network over Zenoh.

use std::path::PathBuf;

use livebag_format::endpoint;
use zenoh::config::Config;

use super::super::NetworkError;
use crate::limits::STALLED_MAX;

/// Where rmw_zenoh expects its router.
const ROUTER: &str = "tcp/localhost:7447";
/// Default address of sessions: for this machine only.
const LISTEN: &str = "tcp/localhost:0";

/// How to take part. The default is the same as rmw_zenoh's: a peer that connects to a router at `localhost:7447`, if
/// there is one, and listens on this machine; in addition, peers on this machine are found by multicast on the loopback
/// interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZenohOptions {
    /// Zenoh's own configuration (JSON5), as rmw_zenoh takes it.
    pub config: Option<PathBuf>,
    /// Settings on top of it: key (`scouting/multicast/enabled`) and JSON5 value.
    pub overrides: Vec<(String, String)>,
    /// Endpoints to listen at: `tls/0.0.0.0:7448`. With any of them or of `connect`, and without a configuration, there
    /// is no scouting.
    pub listen: Vec<String>,
    /// Endpoints to connect to: `tcp/robot:7447`.
    pub connect: Vec<String>,
    /// The ROS domain.
    pub domain: u32,
    /// Lets other machines connect without encryption.
    pub unencrypted: bool,
}

impl ZenohOptions {
    /// What rmw_zenoh's environment variables say: `ROS_DOMAIN_ID`, `ZENOH_SESSION_CONFIG_URI` (a
    /// file) and `ZENOH_CONFIG_OVERRIDE` (`key=value;key=value`).
    ///
    /// # Errors
    /// If one of them is not of that form.
    pub fn from_environment() -> Result<Self, NetworkError> {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, NetworkError> {
        let mut this = Self::default();
        if let Some(domain) = get("ROS_DOMAIN_ID") {
            this.domain = domain.trim().parse().map_err(|_| {
                refused(format!("expected a number in ROS_DOMAIN_ID, found `{domain}`"))
            })?;
        }
        this.config = get("ZENOH_SESSION_CONFIG_URI").map(PathBuf::from);
        let overrides = get("ZENOH_CONFIG_OVERRIDE").unwrap_or_default();
        for pair in overrides.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(refused(format!(
                    "expected `key=value;key=value` in ZENOH_CONFIG_OVERRIDE, found `{pair}`"
                )));
            };
            this.overrides.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(this)
    }

    /// Zenoh's configuration.
    pub(super) fn configured(&self) -> Result<Config, NetworkError> {
        let mut config = match &self.config {
            Some(path) => Config::from_file(path).map_err(|error| {
                refused(format!(
                    "expected Zenoh's configuration in {}: {}",
                    path.display(),
                    words(&error)
                ))
            })?,
            None => Config::default(),
        };
        // Zenoh's own default lets in everybody on every interface.
        if endpoints(&config, "listen") == endpoints(&Config::default(), "listen") {
            set(&mut config, "listen/endpoints", &format!("[\"{LISTEN}\"]"))?;
        }
        if self.config.is_none() {
            let is_alone = self.listen.is_empty() && self.connect.is_empty();
            set(&mut config, "mode", "\"peer\"")?;
            set(&mut config, "transport/shared_memory/mode", "\"init\"")?;
            set(&mut config, "scouting/multicast/interface", "\"lo\"")?;
            set(&mut config, "scouting/multicast/enabled", &is_alone.to_string())?;
            if is_alone {
                set(&mut config, "connect/endpoints", &format!("[\"{ROUTER}\"]"))?;
            }
            let stalled = STALLED_MAX.as_micros().to_string();
            let key = "transport/link/tx/queue/congestion_control/block/wait_before_close";
            set(&mut config, key, &stalled)?;
        }
        // Latched messages without a count are distinguished by their time.
        set(&mut config, "timestamping/enabled", "true")?;
        for (key, value) in &self.overrides {
            set(&mut config, key, value)?;
        }
        for (key, named) in [("listen", &self.listen), ("connect", &self.connect)] {
            if !named.is_empty() {
                let json = serde_json::json!(named).to_string();
                set(&mut config, &format!("{key}/endpoints"), &json)?;
            }
        }
        match endpoints(&config, "listen")
            .into_iter()
            .find(|endpoint| !endpoint::is_guarded(endpoint))
        {
            Some(endpoint) if !self.unencrypted => Err(refused(format!(
                "listening at {endpoint} would let other machines in without encryption; listen at \
                 tls/… or on this machine, connect to a router instead, or allow it"
            ))),
            _ => Ok(config),
        }
    }

    /// How peers are reached, in words.
    pub(super) fn described(config: &Config) -> String {
        let connect = endpoints(config, "connect");
        let by_multicast =
            config.get_json("scouting/multicast/enabled").is_ok_and(|value| value != "false");
        let mut words = Vec::new();
        if !connect.is_empty() {
            words.push(format!("connecting to {}", connect.join(", ")));
        }
        words.push(format!("listening at {}", endpoints(config, "listen").join(", ")));
        if by_multicast {
            words.push("peers found by multicast".to_owned());
        }
        words.join(", ")
    }
}

/// An error of Zenoh's without the place in its sources.
pub(super) fn words(error: &zenoh::Error) -> String {
    let text = error.to_string();
    text.split(" at /").next().unwrap_or_default().trim_end_matches('.').to_owned()
}

pub(super) fn refused(reason: String) -> NetworkError {
    NetworkError::Join { network: "Zenoh", reason }
}

fn set(config: &mut Config, key: &str, value: &str) -> Result<(), NetworkError> {
    config.insert_json5(key, value).map_err(|error| {
        refused(format!(
            "Zenoh's configuration cannot be set to {key} = {value}: {}",
            words(&error)
        ))
    })
}

/// The endpoints to `listen` at or `connect` to: a list, or a list for each mode.
fn endpoints(config: &Config, which: &str) -> Vec<String> {
    let parsed = |key: &str| {
        let json = config.get_json(key).ok()?;
        serde_json::from_str::<serde_json::Value>(&json).ok()
    };
    let value = parsed(&format!("{which}/endpoints")).unwrap_or_default();
    endpoint::endpoints(&value, parsed("mode").as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<ZenohOptions, NetworkError> {
        ZenohOptions::from_variables(|name| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_is_read_as_rmw_zenoh_reads_it() {
        assert_eq!(from(&[]).unwrap(), ZenohOptions::default());
        let options = from(&[
            ("ROS_DOMAIN_ID", "42"),
            ("ZENOH_SESSION_CONFIG_URI", "/etc/zenoh.json5"),
            ("ZENOH_CONFIG_OVERRIDE", "mode=\"client\"; connect/endpoints=[\"tcp/[::1]:1\"];"),
        ])
        .unwrap();
        assert_eq!(options.domain, 42);
        assert_eq!(options.config, Some("/etc/zenoh.json5".into()));
        assert!(options.configured().unwrap_err().to_string().contains("/etc/zenoh.json5"));
        let config = ZenohOptions { config: None, ..options }.configured().unwrap();
        assert_eq!(config.get_json("mode").unwrap(), "\"client\"");
        assert_eq!(endpoints(&config, "connect"), ["tcp/[::1]:1"]);
        for bad in [("ROS_DOMAIN_ID", "-1"), ("ZENOH_CONFIG_OVERRIDE", "mode")] {
            assert!(from(&[bad]).unwrap_err().to_string().contains(bad.0));
        }
        let unknown = from(&[("ZENOH_CONFIG_OVERRIDE", "colour=\"red\"")]).unwrap();
        assert!(unknown.configured().unwrap_err().to_string().contains("colour"));
    }

    #[test]
    fn only_this_machine_may_connect_unless_asked_for() {
        let config = ZenohOptions::default().configured().unwrap();
        assert_eq!(endpoints(&config, "listen"), [LISTEN]);
        assert_eq!(endpoints(&config, "connect"), [ROUTER]);
        let words = ZenohOptions::described(&config);
        assert!(words.contains(ROUTER) && words.contains("multicast"), "{words}");

        let open = |listen: &str, unencrypted| {
            let options =
                ZenohOptions { listen: vec![listen.into()], unencrypted, ..Default::default() };
            options.configured()
        };
        assert!(open("tcp/0.0.0.0:0", false).unwrap_err().to_string().contains("encryption"));
        for (listen, unencrypted) in [
            ("tcp/0.0.0.0:0", true),
            ("tcp/127.0.0.1:7447", false),
            ("udp/[::1]:0", false),
            ("tls/0.0.0.0:7447", false),
            ("unixsock-stream//tmp/x", false),
        ] {
            let config = open(listen, unencrypted).unwrap();
            assert_eq!(endpoints(&config, "connect"), [""; 0]);
            assert!(!ZenohOptions::described(&config).contains("multicast"));
        }
        // A router of another machine is connected to because it is named.
        let connect = vec!["tcp/10.0.0.1:7447".into()];
        assert!(ZenohOptions { connect, ..Default::default() }.configured().is_ok());
    }

    #[test]
    fn a_configuration_that_says_nothing_of_listening_listens_to_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zenoh.json5");
        let write = |text: &str| {
            #[expect(clippy::disallowed_methods, reason = "a test's file")]
            std::fs::write(&path, text).unwrap();
            ZenohOptions { config: Some(path.clone()), ..Default::default() }.configured()
        };
        assert_eq!(endpoints(&write("{mode: 'peer'}").unwrap(), "listen"), [LISTEN]);
        assert_eq!(endpoints(&write("{mode: 'client'}").unwrap(), "listen"), [""; 0]);
        assert!(write("{listen: {endpoints: ['tcp/[::]:7447']}}").is_err());
        assert!(write("{listen: {endpoints: {router: ['tcp/[::]:1'], peer: []}}}").is_ok());
        assert!(write("{").is_err());
    }
}
