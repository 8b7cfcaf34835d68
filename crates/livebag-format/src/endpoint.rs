//! Endpoints of Zenoh (`tcp/127.0.0.1:7447`, `tls/robot:7447#…`): which of them others can use.
//!
//! One rule for all that takes part in Zenoh: what other machines reach must be encrypted.

use std::net::IpAddr;

use serde_json::Value;

/// Whether only this machine, or those with a key, can connect at an endpoint, or be connected to.
///
/// ```
/// use livebag_format::endpoint::is_guarded;
/// assert!(is_guarded("tcp/127.0.0.1:7447") && is_guarded("tls/0.0.0.0:7447"));
/// assert!(!is_guarded("tcp/0.0.0.0:7447"));
/// ```
pub fn is_guarded(endpoint: &str) -> bool {
    let Some((protocol, address)) = endpoint.split_once('/') else { return false };
    if matches!(protocol, "tls" | "quic" | "unixsock-stream" | "unixpipe" | "vsock") {
        return true;
    }
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The endpoints of a value of Zenoh's configuration: a list, or a list for each mode. `mode` is
/// the configuration's, as JSON; Zenoh's own default is a peer.
pub fn endpoints(value: &Value, mode: Option<&Value>) -> Vec<String> {
    let mode = mode.and_then(Value::as_str).unwrap_or("peer");
    let mut found = Vec::new();
    collect(value, mode, &mut found);
    found
}

fn collect(value: &Value, mode: &str, found: &mut Vec<String>) {
    match value {
        Value::String(endpoint) => found.push(endpoint.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, mode, found)),
        Value::Object(by_mode) => {
            if let Some(value) = by_mode.get(mode) {
                collect(value, mode, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_reach_must_be_encrypted() {
        for good in [
            "tcp/127.0.0.1:7447",
            "tcp/127.9.9.9:7447#iface=lo",
            "tcp/localhost:0",
            "tcp/[::1]:0",
            "udp/[::1]:0",
            "tls/0.0.0.0:7447",
            "quic/robot:1",
            "unixsock-stream//tmp/x",
        ] {
            assert!(is_guarded(good), "{good}");
        }
        for bad in [
            "tcp/0.0.0.0:7447",
            "tcp/[::]:0",
            "udp/10.0.0.1:5",
            "ws/robot:80",
            "tcp/localhost.evil:1",
            "tcp/evil:1#127.0.0.1:1",
            "TLS/0.0.0.0:1",
            "x",
            "",
        ] {
            assert!(!is_guarded(bad), "{bad}");
        }
    }

    #[test]
    fn endpoints_are_a_list_or_one_for_each_mode() {
        let by_mode = json!({"router": ["tcp/a:1"], "peer": ["tcp/b:1", "tcp/c:1"]});
        assert_eq!(endpoints(&by_mode, None), ["tcp/b:1", "tcp/c:1"]);
        assert_eq!(endpoints(&by_mode, Some(&Value::Null)), ["tcp/b:1", "tcp/c:1"]);
        assert_eq!(endpoints(&by_mode, Some(&json!("router"))), ["tcp/a:1"]);
        assert_eq!(endpoints(&json!(["tcp/a:1"]), Some(&json!("client"))), ["tcp/a:1"]);
        assert_eq!(endpoints(&json!(5), None), [""; 0]);
    }
}
