//! How this process takes part in Zenoh.

use std::net::IpAddr;
use std::path::PathBuf;

use zenoh::Wait;
use zenoh::config::Config;

use super::{ZenohError, failed};

/// How to take part. By default a peer of this machine alone, found by multicast on the loopback
/// interface; with endpoints, only by those.
#[derive(Clone, Debug, Default)]
pub struct ZenohOptions {
    /// Zenoh's own configuration (JSON5), for TLS, access control and routers.
    pub config: Option<PathBuf>,
    /// Endpoints to listen at: `tcp/127.0.0.1:7448`.
    pub listen: Vec<String>,
    /// Endpoints to connect to.
    pub connect: Vec<String>,
}

impl ZenohOptions {
    /// Opens a session.
    ///
    /// # Errors
    /// If the configuration cannot be used, or would let other machines in without encryption.
    pub fn open(&self) -> Result<zenoh::Session, ZenohError> {
        let config = self.configured()?;
        check_endpoints(&config)?;
        zenoh::open(config).wait().map_err(failed("opening a Zenoh session"))
    }

    fn configured(&self) -> Result<Config, ZenohError> {
        let wrong = |what: &str, why: String| ZenohError::Config { what: what.to_owned(), why };
        let mut config = match &self.config {
            Some(path) => Config::from_file(path)
                .map_err(|error| wrong(&path.display().to_string(), error.to_string()))?,
            None => {
                let mut config = Config::default();
                for (key, value) in [
                    ("mode", "\"peer\""),
                    ("listen/endpoints", "[\"tcp/127.0.0.1:0\"]"),
                    ("scouting/multicast/interface", "\"lo\""),
                    ("transport/shared_memory/mode", "\"init\""),
                ] {
                    let set = config.insert_json5(key, value);
                    set.map_err(|error| wrong(key, error.to_string()))?;
                }
                config
            }
        };
        for (key, endpoints) in
            [("listen/endpoints", &self.listen), ("connect/endpoints", &self.connect)]
        {
            if !endpoints.is_empty() {
                let json = serde_json::json!(endpoints).to_string();
                let set = config.insert_json5(key, &json);
                set.map_err(|error| wrong(key, error.to_string()))?;
            }
        }
        if self.config.is_none() && !(self.listen.is_empty() && self.connect.is_empty()) {
            // Who says where means nobody else.
            let set = config.insert_json5("scouting/multicast/enabled", "false");
            set.map_err(|error| wrong("scouting/multicast/enabled", error.to_string()))?;
        }
        Ok(config)
    }
}

/// Every endpoint is on this machine or encrypted.
fn check_endpoints(config: &Config) -> Result<(), ZenohError> {
    // Zenoh's own default.
    let mode = config.get_json("mode").ok().filter(|mode| mode != "null");
    let mode = mode.unwrap_or_else(|| "\"peer\"".to_owned());
    for key in ["listen/endpoints", "connect/endpoints"] {
        let Ok(json) = config.get_json(key) else { continue };
        let Ok(value) = serde_json::from_str::<serde_json::Value>(&json) else { continue };
        let mut endpoints = Vec::new();
        collect(&value, mode.trim_matches('"'), &mut endpoints);
        if let Some(endpoint) = endpoints.into_iter().find(|endpoint| !is_safe(endpoint)) {
            return Err(ZenohError::Open { endpoint });
        }
    }
    Ok(())
}

/// Endpoints are a list, or a list for each mode.
fn collect(value: &serde_json::Value, mode: &str, endpoints: &mut Vec<String>) {
    match value {
        serde_json::Value::String(endpoint) => endpoints.push(endpoint.clone()),
        serde_json::Value::Array(items) => {
            items.iter().for_each(|item| collect(item, mode, endpoints));
        }
        serde_json::Value::Object(by_mode) => {
            if let Some(value) = by_mode.get(mode) {
                collect(value, mode, endpoints);
            }
        }
        _ => {}
    }
}

fn is_safe(endpoint: &str) -> bool {
    let Some((protocol, address)) = endpoint.split_once('/') else { return false };
    match protocol {
        "tls" | "quic" | "unixsock-stream" | "unixpipe" | "vsock" => true,
        _ => {
            let address = address.split(['?', '#']).next().unwrap_or_default();
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_others_reach_must_be_encrypted() {
        for good in [
            "tcp/127.0.0.1:7447",
            "tcp/[::1]:0",
            "tls/0.0.0.0:7447",
            "quic/robot:1",
            "unixsock-stream//tmp/x",
        ] {
            assert!(is_safe(good), "{good}");
        }
        for bad in [
            "tcp/0.0.0.0:7447",
            "tcp/[::]:0",
            "udp/10.0.0.1:5",
            "ws/robot:80",
            "tcp/localhost.evil:1",
            "x",
        ] {
            assert!(!is_safe(bad), "{bad}");
        }
        assert!(check_endpoints(&ZenohOptions::default().configured().unwrap()).is_ok());
        let open = ZenohOptions { listen: vec!["tcp/0.0.0.0:0".into()], ..Default::default() };
        assert!(matches!(open.open(), Err(ZenohError::Open { .. })));
        // Zenoh's own defaults listen on every interface.
        assert!(check_endpoints(&Config::default()).is_err());
    }
}
