//! The state of the wireless link to an asker, where there is one.
//!
//! What an asker's own acknowledgements show is a better measure of a link than anything a radio tells, and
//! `auto` has it within a few round trips. A radio knows one thing sooner: that the link has become worse
//! since its speed was measured last. So the speed that is remembered from an answer before is believed as
//! far as the quality is still what it was.
//!
//! Read are texts of the kernel: `/proc/net/wireless` (of drivers that have wireless extensions; see
//! `Documentation/networking` and wireless-tools), `/proc/net/route` and `/proc/net/ipv6_route`.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::limits::ROUTES_BYTES_MAX;

/// Where the kernel's texts come from.
pub trait NetworkTexts {
    /// A file below `/proc/net`; empty if there is none.
    fn text(&self, name: &str) -> String;
}

/// This machine's.
pub struct Proc;

impl NetworkTexts for Proc {
    fn text(&self, name: &str) -> String {
        let mut bytes = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "what the kernel says of networks")]
        let file = File::open(format!("/proc/net/{name}"));
        let read = file.and_then(|file| file.take(ROUTES_BYTES_MAX).read_to_end(&mut bytes));
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(),
        }
    }
}

/// The quality of the wireless link that leads to `peer`, on the scale of its driver; `None` if it is
/// reached in another way, or nothing is known.
pub fn quality_to(peer: IpAddr, texts: &dyn NetworkTexts) -> Option<f64> {
    if peer.is_loopback() {
        return None;
    }
    let wireless = texts.text("wireless");
    // Most machines have none, and need not look for routes.
    qualities(&wireless).next()?;
    let interface = match peer.to_canonical() {
        IpAddr::V4(peer) => route_v4(peer, &texts.text("route")),
        IpAddr::V6(peer) => route_v6(peer, &texts.text("ipv6_route")),
    }?;
    qualities(&wireless).find(|(name, _)| *name == interface).map(|(_, quality)| quality)
}

/// How much of a speed is left that was measured at one quality, at another.
pub fn left_of_speed(then: Option<f64>, now: Option<f64>) -> f64 {
    match (then, now) {
        (Some(then), Some(now)) if then > 0.0 => (now / then).clamp(WORST, 1.0),
        _ => 1.0,
    }
}

/// A link that is there carries something.
const WORST: f64 = 0.05;

/// Interfaces and their link quality: two lines of head, then ` wlan0: 0000   54.  -56.  -256 …`.
fn qualities(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().skip(2).filter_map(|line| {
        let (interface, rest) = line.split_once(':')?;
        let quality = rest.split_whitespace().nth(1)?.trim_end_matches('.').parse().ok()?;
        Some((interface.trim(), quality))
    })
}

/// Flag of a route that is in use, and of one that refuses (`RTF_UP`, `RTF_REJECT`, linux/route.h).
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

/// The interface of the narrowest route, of those the one of the least metric. Columns of `/proc/net/route`:
/// Iface Destination Gateway Flags RefCnt Use Metric Mask …, addresses as the machine has them in memory.
fn route_v4(peer: Ipv4Addr, text: &str) -> Option<String> {
    let peer = u32::from(peer);
    let route = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(cells.get(at)?, 16).ok();
        let address = |at: usize| hex(at).map(|raw| u32::from_be_bytes(raw.to_ne_bytes()));
        let (destination, flags, mask) = (address(1)?, hex(3)?, address(7)?);
        let metric: u32 = cells.get(6)?.parse().ok()?;
        let is_usable = flags & UP != 0 && flags & REJECT == 0 && peer & mask == destination;
        let rank = (mask.leading_ones(), std::cmp::Reverse(metric));
        let interface = (*cells.first()?).to_owned();
        is_usable.then_some((rank, interface))
    };
    best(text.lines().skip(1).filter_map(route))
}

/// The same of `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric,
/// references, uses, flags, interface; all but the last hexadecimal.
fn route_v6(peer: Ipv6Addr, text: &str) -> Option<String> {
    let peer = u128::from(peer);
    let route = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(cells.get(at)?, 16).ok();
        let destination = u128::from_str_radix(cells.first()?, 16).ok()?;
        let (length, metric, flags) = (hex(1)?, hex(5)?, hex(8)?);
        let mask = u128::MAX.checked_shl(128u32.checked_sub(length)?).unwrap_or(0);
        let is_usable = flags & UP != 0 && flags & REJECT == 0 && peer & mask == destination;
        let interface = (*cells.get(9)?).to_owned();
        is_usable.then_some(((length, std::cmp::Reverse(metric)), interface))
    };
    best(text.lines().filter_map(route))
}

type Rank = (u32, std::cmp::Reverse<u32>);

fn best(routes: impl Iterator<Item = (Rank, String)>) -> Option<String> {
    routes.max_by_key(|(rank, _)| *rank).map(|(_, interface)| interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRELESS: &str = "\
Inter-| sta-|   Quality        |   Discarded packets               | Missed | WE
 face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon | 22
 wlan0: 0000   35.  -75.  -256        0      0      0      0     93        0
wlp2s0: 0000   70.  -31.  -256        0      0      0      0      0        0
";
    const ROUTE: &str = "\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0100A8C0	0003	0	0	100	00000000	0	0	0
wlan0	00000000	0101A8C0	0003	0	0	600	00000000	0	0	0
eth0	0000A8C0	00000000	0001	0	0	100	00FFFFFF	0	0	0
wlan0	0001A8C0	00000000	0001	0	0	600	00FFFFFF	0	0	0
eth0	0901A8C0	00000000	0201	0	0	0	FFFFFFFF	0	0	0
";
    const IPV6_ROUTE: &str = "\
fd000000000000010000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000258 00000001 00000000 00000001   wlan0
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001    eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000003 00000000 00000003    eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200      lo
";

    struct Texts(&'static str);

    impl NetworkTexts for Texts {
        fn text(&self, name: &str) -> String {
            match name {
                "wireless" => self.0,
                "route" => ROUTE,
                "ipv6_route" => IPV6_ROUTE,
                _ => "",
            }
            .to_owned()
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_quality_is_that_of_the_interface_that_leads_there() {
        let quality = |peer: &str| quality_to(peer.parse().unwrap(), &Texts(WIRELESS));
        assert_eq!(quality("192.168.1.7"), Some(35.0));
        assert_eq!(quality("::ffff:192.168.1.7"), Some(35.0));
        assert_eq!(quality("192.168.0.7"), None, "by wire");
        assert_eq!(quality("8.8.8.8"), None, "by the route of the least metric");
        assert_eq!(quality("192.168.1.9"), Some(35.0), "a route that refuses is none");
        assert_eq!(quality("fd00:0:0:1::5"), Some(35.0));
        assert_eq!(quality("2001:db8::1"), None);
        assert_eq!(quality("127.0.0.1"), None);
    }

    #[test]
    fn texts_that_make_no_sense_tell_nothing() {
        let peer = IpAddr::from([192, 168, 1, 7]);
        for text in ["", "a\nb\n", "a\nb\nwlan0: 0000\n", "a\nb\n wlan0: x y z\n", "a\nb\n:::\n"] {
            assert_eq!(quality_to(peer, &Texts(text)), None);
        }
        for text in ["", "x\nwlan0\n", "x\nwlan0 zz 0 1 0 0 0 0\n", "\u{fffd}\n\t\n"] {
            assert_eq!(route_v4(Ipv4Addr::LOCALHOST, text), None);
            assert_eq!(route_v6(Ipv6Addr::LOCALHOST, text), None);
        }
        let long = "ffff 81 0 0 0 1 0 0 1 wlan0";
        assert_eq!(route_v6(Ipv6Addr::LOCALHOST, long), None, "129 bits are too many");
        // This machine's own can be read, whatever they are.
        let _ = quality_to(peer, &Proc);
    }

    #[test]
    fn a_worse_link_is_believed_less_and_a_better_one_no_more() {
        assert_eq!(left_of_speed(Some(70.0), Some(35.0)), 0.5);
        assert_eq!(left_of_speed(Some(35.0), Some(70.0)), 1.0);
        assert_eq!(left_of_speed(Some(70.0), Some(0.0)), WORST);
        for unknown in [(None, None), (Some(70.0), None), (None, Some(1.0)), (Some(0.0), Some(1.0))]
        {
            assert_eq!(left_of_speed(unknown.0, unknown.1), 1.0);
        }
    }
}
