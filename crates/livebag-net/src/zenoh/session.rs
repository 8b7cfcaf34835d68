//! How this process takes part in Zenoh.

use livebag_format::endpoint;
use zenoh::Wait;
use zenoh::config::Config;

use super::{ZenohError, ZenohOptions, failed};

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
            // Given endpoints exclude all others.
            let set = config.insert_json5("scouting/multicast/enabled", "false");
            set.map_err(|error| wrong("scouting/multicast/enabled", error.to_string()))?;
        }
        Ok(config)
    }
}

/// Every endpoint is on this machine or encrypted.
fn check_endpoints(config: &Config) -> Result<(), ZenohError> {
    let parsed = |key: &str| {
        let json = config.get_json(key).ok()?;
        serde_json::from_str::<serde_json::Value>(&json).ok()
    };
    let mode = parsed("mode");
    for key in ["listen/endpoints", "connect/endpoints"] {
        let found = endpoint::endpoints(&parsed(key).unwrap_or_default(), mode.as_ref());
        if let Some(endpoint) = found.into_iter().find(|found| !endpoint::is_guarded(found)) {
            return Err(ZenohError::Open { endpoint });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_others_reach_must_be_encrypted() {
        assert!(check_endpoints(&ZenohOptions::default().configured().unwrap()).is_ok());
        let open = ZenohOptions { listen: vec!["tcp/0.0.0.0:0".into()], ..Default::default() };
        assert!(matches!(open.open(), Err(ZenohError::Open { .. })));
        // Zenoh's own defaults listen on every interface.
        assert!(check_endpoints(&Config::default()).is_err());
    }
}
