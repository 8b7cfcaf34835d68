//! The quality of the wireless link to a client.
//!
//! `auto` measures a link by the client's acknowledgements. It remembers the speed of a returning client, and scales it
//! by the change in the quality of the wireless link.
//!
//! The kernel's texts are `/proc/net/wireless` (drivers with wireless extensions), `/proc/net/route` and
//! `/proc/net/ipv6_route`.

use std::cmp::Reverse;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::limits::ROUTES_BYTES_MAX;

/// Least part of a remembered speed that is believed: a link that is there carries something.
const WORST: f64 = 0.05;

/// A file of this machine below `/proc/net`; empty if there is none.
pub fn proc_net(name: &str) -> String {
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "what the kernel says of networks")]
    let file = File::open(format!("/proc/net/{name}"));
    let read = file.and_then(|file| file.take(ROUTES_BYTES_MAX).read_to_end(&mut bytes));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

/// The quality of the wireless link that leads to `peer`, on the scale of its driver. `None` if the peer is
/// reached in another way, or nothing is known. `text` reads a file below `/proc/net`.
pub fn quality_to(peer: IpAddr, text: impl Fn(&str) -> String) -> Option<f64> {
    // Two lines of head, then ` wlan0: 0000   54.  -56.  -256 …`.
    let wireless = text("wireless");
    let quality = |line: &str, interface: &str| {
        let rest = line.trim_start().strip_prefix(interface)?.strip_prefix(':')?;
        rest.split_whitespace().nth(1)?.trim_end_matches('.').parse().ok()
    };
    // Most machines have no radio, and their routes are not read.
    wireless.lines().nth(2).filter(|_| !peer.is_loopback())?;
    let interface = match peer.to_canonical() {
        IpAddr::V4(peer) => interface_to(peer.to_ipv6_mapped(), true, &text("route")),
        IpAddr::V6(peer) => interface_to(peer, false, &text("ipv6_route")),
    }?;
    wireless.lines().skip(2).find_map(|line| quality(line, &interface))
}

/// How much of a speed is left that was measured at one quality, at another.
pub fn left_of_speed(then: Option<f64>, now: Option<f64>) -> f64 {
    match (then, now) {
        (Some(then), Some(now)) if then > 0.0 => (now / then).clamp(WORST, 1.0),
        _ => 1.0,
    }
}

/// The interface of the narrowest route; of several, the one of the least metric.
///
/// Columns for IPv4: interface, destination, gateway, flags, references, uses, metric, mask, with addresses as
/// they are in memory. For IPv6: destination, its prefix, source, its prefix, next hop, metric, …, interface.
fn interface_to(peer: Ipv6Addr, is_v4: bool, text: &str) -> Option<String> {
    let route = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(cells.get(at)?, 16).ok();
        let v4 = |at| Some(Ipv4Addr::from(hex(at)?.to_ne_bytes()));
        let (destination, prefix_bits, metric, interface) = if is_v4 {
            let prefix_bits = 96 + u32::from(v4(7)?).leading_ones();
            (
                v4(1)?.to_ipv6_mapped().into(),
                prefix_bits,
                cells.get(6)?.parse().ok()?,
                cells.first()?,
            )
        } else {
            (u128::from_str_radix(cells.first()?, 16).ok()?, hex(1)?, hex(5)?, cells.get(9)?)
        };
        let mask = u128::MAX.checked_shl(128u32.checked_sub(prefix_bits)?).unwrap_or(0);
        let leads_there = u128::from(peer) & mask == destination & mask;
        leads_there.then(|| ((prefix_bits, Reverse(metric)), (*interface).to_owned()))
    };
    text.lines().filter_map(route).max_by_key(|(rank, _)| *rank).map(|(_, interface)| interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRELESS: &str = "\
Inter-| sta-|   Quality        |   Discarded packets               | Missed | WE
 face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon | 22
 wlan0: 0000   35.  -75.  -256        0      0      0      0     93        0
";
    const ROUTE: &str = "\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0100A8C0	0003	0	0	100	00000000	0	0	0
wlan0	00000000	0101A8C0	0003	0	0	600	00000000	0	0	0
wlan0	0001A8C0	00000000	0001	0	0	600	00FFFFFF	0	0	0
";
    const IPV6_ROUTE: &str = "\
fd000000000000010000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000258 00000001 00000000 00000001   wlan0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000003 00000000 00000003    eth0
";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_quality_is_that_of_the_interface_that_leads_there() {
        let texts = |name: &str| match name {
            "wireless" => WIRELESS.to_owned(),
            "route" => ROUTE.to_owned(),
            _ => IPV6_ROUTE.to_owned(),
        };
        let quality = |peer: &str| quality_to(peer.parse().unwrap(), texts);
        for by_radio in ["192.168.1.7", "::ffff:192.168.1.7", "fd00:0:0:1::5"] {
            assert_eq!(quality(by_radio), Some(35.0), "{by_radio}");
        }
        assert_eq!(quality("8.8.8.8"), None, "by the route of the least metric");
        for not_by_radio in ["2001:db8::1", "127.0.0.1"] {
            assert_eq!(quality(not_by_radio), None, "{not_by_radio}");
        }
    }

    #[test]
    fn texts_that_make_no_sense_tell_nothing() {
        for text in
            ["", "a\nb\n", "a\nb\nwlan0: 0000\n", "a\nb\n wlan0: x y z\n", "\u{fffd}\n\t\n:::\n"]
        {
            for peer in ["192.168.1.7", "fd00::1"] {
                assert_eq!(quality_to(peer.parse().unwrap(), |_| text.to_owned()), None);
            }
        }
        let long = "ffff 81 0 0 0 1 0 0 1 wlan0";
        assert_eq!(interface_to(Ipv6Addr::LOCALHOST, false, long), None, "129 bits are too many");
        // This machine's own can be read, whatever they are.
        let _ = quality_to([192, 168, 1, 7].into(), proc_net);
    }

    #[test]
    fn a_worse_link_is_believed_less_and_a_better_one_no_more() {
        assert_eq!(left_of_speed(Some(70.0), Some(35.0)), 0.5);
        assert_eq!(left_of_speed(Some(35.0), Some(70.0)), 1.0);
        assert_eq!(left_of_speed(Some(70.0), Some(0.0)), WORST);
        for (then, now) in [(None, Some(1.0)), (Some(70.0), None), (Some(0.0), Some(1.0))] {
            assert_eq!(left_of_speed(then, now), 1.0);
        }
    }
}
