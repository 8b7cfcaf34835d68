//! Options for joining the network, and the corresponding Cyclone DDS settings.

use std::fmt::Write;

use crate::limits::{DDS_RECEIVE_BUFFER_BYTES, DDS_UNACKNOWLEDGED_BYTES, SAMPLE_BYTES_MAX};

/// Domains have separate ports, up to this one (RTPS 2.5, 9.6.2.3).
pub const DOMAIN_MAX: u32 = 232;

/// Which nodes are searched for (`ROS_AUTOMATIC_DISCOVERY_RANGE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscoveryRange {
    /// Those that multicast reaches.
    #[default]
    Subnet,
    /// Those of this machine.
    Localhost,
    /// None, not even the peers that are named.
    Off,
}

/// How a DDS network is joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdsOptions {
    /// The domain; nodes of others are not seen. 0 to 232.
    pub domain: u32,
    /// Network interface, by name or address; chosen by Cyclone DDS if there is none.
    pub interface: Option<String>,
    /// Which nodes are searched for.
    pub range: DiscoveryRange,
    /// Addresses or host names of machines on which nodes are searched for, beyond the reach of multicast.
    pub peers: Vec<String>,
    /// Whether multicast is used; without it, nodes are found only through `peers`.
    pub has_multicast: bool,
    /// Receive buffer to ask the kernel for, bytes. It gives at most `net.core.rmem_max`.
    pub receive_buffer_bytes: usize,
    /// Whether topics of DDS that are not ROS 2's are shown and may be used, by their own names.
    pub has_foreign_topics: bool,
    /// Further settings of Cyclone DDS, as `CYCLONEDDS_URI` has them: addresses of files or XML,
    /// separated by commas. They come last, and win.
    pub settings: Option<String>,
}

impl Default for DdsOptions {
    fn default() -> Self {
        Self {
            domain: 0,
            interface: None,
            range: DiscoveryRange::Subnet,
            peers: Vec::new(),
            has_multicast: true,
            receive_buffer_bytes: DDS_RECEIVE_BUFFER_BYTES,
            has_foreign_topics: false,
            settings: None,
        }
    }
}

impl DdsOptions {
    /// What ROS 2's variables and `CYCLONEDDS_URI` say: `variable` gives the value of one.
    ///
    /// # Errors
    /// If a value is none that ROS 2 knows; in words.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut options = Self::default();
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if let Some(domain) = variable("ROS_DOMAIN_ID") {
            options.domain = domain
                .trim()
                .parse()
                .ok()
                .filter(|&domain| domain <= DOMAIN_MAX)
                .ok_or_else(|| format!("ROS_DOMAIN_ID is `{domain}`, not 0 to {DOMAIN_MAX}"))?;
        }
        match variable("ROS_AUTOMATIC_DISCOVERY_RANGE").as_deref().map(str::trim) {
            None | Some("SUBNET" | "SYSTEM_DEFAULT") => {}
            Some("LOCALHOST") => options.range = DiscoveryRange::Localhost,
            Some("OFF") => options.range = DiscoveryRange::Off,
            Some(range) => {
                return Err(format!(
                    "ROS_AUTOMATIC_DISCOVERY_RANGE is `{range}`, not SUBNET, LOCALHOST, OFF or \
                     SYSTEM_DEFAULT"
                ));
            }
        }
        if variable("ROS_LOCALHOST_ONLY").is_some_and(|value| value.trim() == "1") {
            options.range = DiscoveryRange::Localhost;
        }
        if let Some(peers) = variable("ROS_STATIC_PEERS") {
            let peers = peers.split(';').map(str::trim).filter(|peer| !peer.is_empty());
            options.peers = peers.map(str::to_owned).collect();
        }
        options.settings = variable("CYCLONEDDS_URI");
        Ok(options)
    }

    /// Cyclone DDS' settings.
    pub(super) fn to_settings(&self) -> String {
        let mut general = String::new();
        let mut discovery = String::new();
        let interface = match (&self.interface, self.range) {
            (Some(interface), _) => Some(interface.as_str()),
            // Cyclone DDS refuses an interface that is named twice.
            (None, DiscoveryRange::Localhost) if !self.settings_name_interface() => {
                Some("127.0.0.1")
            }
            (None, _) => None,
        };
        if let Some(interface) = interface {
            let key = match interface.parse::<std::net::IpAddr>() {
                Ok(_) => "address",
                Err(_) => "name",
            };
            let _ = write!(
                general,
                "<Interfaces><NetworkInterface {key}=\"{}\"/></Interfaces>",
                escaped(interface)
            );
        }
        let has_multicast = self.has_multicast && self.range == DiscoveryRange::Subnet;
        if !has_multicast {
            general.push_str("<AllowMulticast>false</AllowMulticast>");
        }
        if !has_multicast || !self.peers.is_empty() {
            // Ports that peers can guess.
            discovery.push_str("<ParticipantIndex>auto</ParticipantIndex>");
        }
        let mut peers: Vec<_> = self.peers.iter().map(|peer| escaped(peer)).collect();
        if self.range == DiscoveryRange::Off {
            peers.clear();
        }
        if self.range == DiscoveryRange::Localhost {
            peers.push("127.0.0.1".to_owned());
        }
        let add_localhost = self.range != DiscoveryRange::Off;
        let _ = write!(discovery, "<Peers AddLocalhost=\"{add_localhost}\">");
        for peer in peers {
            let _ = write!(discovery, "<Peer Address=\"{peer}\"/>");
        }
        discovery.push_str("</Peers>");
        let own = format!(
            "<CycloneDDS><Domain><General>{general}<MaxMessageSize>65500B</MaxMessageSize>\
             <FragmentSize>64000B</FragmentSize></General><Discovery>{discovery}</Discovery>\
             <Internal><SocketReceiveBufferSize max=\"{}B\"/><MaxSampleSize>{SAMPLE_BYTES_MAX}B\
             </MaxSampleSize><Watermarks><WhcHigh>{DDS_UNACKNOWLEDGED_BYTES}B</WhcHigh>\
             </Watermarks></Internal></Domain></CycloneDDS>",
            self.receive_buffer_bytes
        );
        match &self.settings {
            Some(settings) => format!("{own},{settings}"),
            None => own,
        }
    }

    /// Whether `CYCLONEDDS_URI` itself, no file that it names, chooses interfaces.
    fn settings_name_interface(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.contains("<NetworkInterface"))
    }

    /// What should be changed on this machine so that large messages arrive, if the kernel gives
    /// less receive buffer than was asked for: `rmem_max_bytes` at most.
    pub fn advice(&self, rmem_max_bytes: usize) -> Option<String> {
        (rmem_max_bytes < self.receive_buffer_bytes).then(|| {
            format!(
                "the kernel gives a receive buffer of at most {} KiB (net.core.rmem_max), {} KiB \
                 were requested: bursts of large best-effort messages may be lost. To allow it: \
                 sudo sysctl -w net.core.rmem_max={}",
                rmem_max_bytes >> 10,
                self.receive_buffer_bytes >> 10,
                self.receive_buffer_bytes
            )
        })
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("DDS, domain {}", self.domain);
        let _ = match self.range {
            DiscoveryRange::Localhost => write!(text, ", this machine alone"),
            DiscoveryRange::Off => write!(text, ", discovering nobody"),
            DiscoveryRange::Subnet if !self.has_multicast => write!(text, ", without multicast"),
            DiscoveryRange::Subnet => write!(text, ", nodes found by multicast"),
        };
        if let Some(interface) = &self.interface {
            let _ = write!(text, ", on {interface}");
        }
        if !self.peers.is_empty() {
            let _ = write!(text, ", peers {}", self.peers.join(", "));
        }
        if self.settings.is_some() {
            text.push_str(", with settings of CYCLONEDDS_URI");
        }
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<DdsOptions, String> {
        DdsOptions::from_env(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_variables_of_ros_are_followed() {
        assert_eq!(from(&[]).unwrap(), DdsOptions::default());
        let options = from(&[
            ("ROS_DOMAIN_ID", "42"),
            ("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST"),
            ("ROS_STATIC_PEERS", "10.0.0.1; robot.local ;"),
            ("CYCLONEDDS_URI", "file:///etc/cyclone.xml"),
        ])
        .unwrap();
        assert_eq!(options.domain, 42);
        assert_eq!(options.range, DiscoveryRange::Localhost);
        assert_eq!(options.peers, ["10.0.0.1", "robot.local"]);
        let settings = options.to_settings();
        assert!(settings.contains("<AllowMulticast>false</AllowMulticast>"), "{settings}");
        assert!(settings.contains("<Peer Address=\"robot.local\"/>"), "{settings}");
        assert!(settings.ends_with("</CycloneDDS>,file:///etc/cyclone.xml"), "{settings}");
        let off = DdsOptions { range: DiscoveryRange::Off, ..options };
        assert!(!off.to_settings().contains("<Peer "), "OFF means nobody");
        let local = from(&[("ROS_LOCALHOST_ONLY", "1")]).unwrap();
        assert!(local.to_settings().contains("address=\"127.0.0.1\""));
        let xml = "<Interfaces><NetworkInterface name='lo'/></Interfaces>";
        let both = from(&[("ROS_LOCALHOST_ONLY", "1"), ("CYCLONEDDS_URI", xml)]).unwrap();
        assert_eq!(both.to_settings().matches("<NetworkInterface").count(), 1);
        for (name, value) in [
            ("ROS_DOMAIN_ID", "233"),
            ("ROS_DOMAIN_ID", "x"),
            ("ROS_AUTOMATIC_DISCOVERY_RANGE", "near"),
        ] {
            assert!(from(&[(name, value)]).unwrap_err().contains(value));
        }
    }

    #[test]
    fn a_small_receive_buffer_is_told_with_its_cure() {
        let options = DdsOptions::default();
        assert_eq!(options.advice(options.receive_buffer_bytes), None);
        assert!(options.advice(212_992).unwrap().contains("sysctl -w net.core.rmem_max="));
    }

    #[test]
    fn what_users_write_cannot_leave_its_place_in_the_settings() {
        let options = DdsOptions {
            interface: Some("eth0\"/><x>".to_owned()),
            peers: vec!["<&>".to_owned()],
            ..DdsOptions::default()
        };
        let settings = options.to_settings();
        assert!(
            settings.contains("eth0&quot;/&gt;&lt;x&gt;") && settings.contains("&lt;&amp;&gt;")
        );
    }
}
