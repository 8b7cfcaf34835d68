//! A link that is slow and loses packets: the loopback interface of a network namespace of this process's
//! own, shaped by `tc` (tbf) and thinned by `nft`. Nothing of it leaves the namespace.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set in the process that runs inside.
const INSIDE: &str = "LIVEBAG_BENCH_NAMESPACE";
/// Bytes of a packet on it, as on an Ethernet.
const MTU: u32 = 1500;
/// Of each packet, headers of IPv4 and TCP with timestamps; and the bytes that tbf adds to the packet.
const HEADER_BYTES: f64 = 52.0;
const FRAME_BYTES: f64 = 14.0;
/// What waits before it at most, as in a radio.
const LATENCY_MS: u32 = 50;
/// Time at its rate that may pass at once; the kernel's timer needs some.
const BURST_MS: f64 = 4.0;

/// The namespace, from inside.
pub struct Namespace {
    /// Percentage of packets lost.
    pub loss_pct: u32,
}

/// Continues inside a namespace: there, reports its capabilities. Outside, this process is replaced by one that is
/// inside, if that is possible.
///
/// # Errors
/// Why it is not, in words.
pub fn enter(loss_pct: u32) -> Result<Namespace, String> {
    if std::env::var_os(INSIDE).is_none() {
        let unshare = ["--map-root-user", "--net", "--"];
        // Failures are detected while there is still an alternative.
        run("unshare", &[&unshare[..], &["true"]].concat())?;
        let itself = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut again = Command::new("unshare");
        again.args(unshare).arg(itself).args(std::env::args_os().skip(1)).env(INSIDE, "1");
        return Err(format!("unshare: {}", again.exec()));
    }
    run("ip", &["link", "set", "lo", "mtu", &MTU.to_string(), "up"])?;
    let mut this = Namespace { loss_pct };
    this.shape(10.0)?;
    if let Err(why) = lose(loss_pct) {
        eprintln!("livebag-bench: the link loses no packets: {why}");
        this.loss_pct = 0;
    }
    Ok(this)
}

impl Namespace {
    /// Gives the link a rate.
    ///
    /// # Errors
    /// If `tc` refuses.
    pub fn shape(&self, mbit: f64) -> Result<(), String> {
        let (rate, latency) = (format!("{mbit}mbit"), format!("{LATENCY_MS}ms"));
        let burst = ((mbit * 1e6 / 8.0 * BURST_MS / 1e3) as u64).max(16 << 10).to_string();
        let shape = ["qdisc", "replace", "dev", "lo", "root", "tbf", "rate", &rate];
        run("tc", &[&shape[..], &["burst", &burst, "latency", &latency]].concat())
    }

    /// Of the link's bits a second those that are an answer's.
    pub fn useful(&self) -> f64 {
        let headers = (f64::from(MTU) - HEADER_BYTES) / (f64::from(MTU) + FRAME_BYTES);
        headers * (1.0 - f64::from(self.loss_pct) / 100.0)
    }
}

fn lose(percent: u32) -> Result<(), String> {
    let chain = "{ type filter hook input priority 0; }";
    run("nft", &["add table inet link"])?;
    run("nft", &[&format!("add chain inet link in {chain}")])?;
    run("nft", &[&format!("add rule inet link in numgen random mod 100 < {percent} drop")])
}

/// Runs a command of the system to its end.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let ended = Command::new(program).args(arguments).output();
    let ended = ended.map_err(|error| format!("{program}: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), said.lines().next().unwrap_or_default()))
}
