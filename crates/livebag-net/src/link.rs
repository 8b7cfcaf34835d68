//! A connection, and how fast its client takes data.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::limits::{
    GOODPUT_ADDRESSES_MAX, GOODPUT_INTERVAL, GOODPUT_MEMORY, GOODPUT_WINDOW, GOODPUT_WINDOW_SHORT,
    PROGRESS_BYTES_MIN,
};
use crate::wireless::left_of_speed;

/// One end of a TCP connection, as seen by the code that builds its answers.
pub struct Link {
    socket: OwnedFd,
    peer: IpAddr,
    /// Bytes given to the kernel.
    written: AtomicU64,
    by_reference: bool,
}

/// The kernel's data about a connection (`struct tcp_info` of `linux/tcp.h`, Linux 4.6).
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkState {
    /// Bytes given to the kernel that the peer's kernel has not got.
    pub unacked_bytes: u64,
    /// Bytes that it has got.
    pub acked_bytes: u64,
    /// Smoothed round-trip time.
    pub round_trip: Duration,
}

impl Link {
    /// The link of a connection.
    ///
    /// # Errors
    /// If there are no more file descriptors.
    pub fn new(stream: &TcpStream, peer: IpAddr) -> io::Result<Self> {
        let socket = stream.as_fd().try_clone_to_owned()?;
        Ok(Self { socket, peer, written: AtomicU64::new(0), by_reference: false })
    }

    /// Declares whether bytes are passed from their memory straight to the kernel without being read by this process:
    /// over TLS it reads them, to encrypt them.
    pub fn sent_by_reference(mut self, yes: bool) -> Self {
        self.by_reference = yes;
        self
    }

    /// Whether parts of mapped files may be sent over it: of a file that was cut the kernel gives
    /// `EFAULT`, where a look of this process' own would end it.
    pub fn takes_references(&self) -> bool {
        self.by_reference
    }

    /// The peer's address.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// How the connection is doing.
    pub fn state(&self) -> LinkState {
        let written = self.written.load(Ordering::Relaxed);
        let info = tcp_info(self.socket.as_raw_fd()).unwrap_or([0; TCP_INFO_BYTES]);
        let u32_at = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().expect("8 bytes"));
        // A connection's SYN counts as a byte.
        let acked_bytes = u64_at(TCPI_BYTES_ACKED).saturating_sub(1);
        LinkState {
            unacked_bytes: written.saturating_sub(acked_bytes),
            acked_bytes,
            round_trip: Duration::from_micros(u32_at(TCPI_RTT).into()),
        }
    }
}

/// The part of `struct tcp_info` that is needed.
const TCP_INFO_BYTES: usize = 168;
/// Offset of `tcpi_rtt`, microseconds.
const TCPI_RTT: usize = 68;
/// Offset of `tcpi_bytes_acked`.
const TCPI_BYTES_ACKED: usize = 120;

#[expect(unsafe_code, reason = "no library gives the fields that came after Linux 4.1")]
fn tcp_info(socket: i32) -> io::Result<[u8; TCP_INFO_BYTES]> {
    let mut info = [0u8; TCP_INFO_BYTES];
    let mut bytes = TCP_INFO_BYTES as libc::socklen_t;
    // SAFETY: `info` is writable memory of `bytes` bytes, and `bytes` is writable itself; the kernel writes at most
    // that, and any bytes are valid.
    let done = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if done == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

/// Counts written bytes, and closes a connection whose peer takes next to nothing.
pub struct MeteredStream {
    stream: TcpStream,
    link: Arc<Link>,
    /// While a write waits: the next check for progress.
    deadline: Option<Pin<Box<Sleep>>>,
    /// `written` when the deadline was set.
    mark: u64,
    progress_timeout: Duration,
}

impl MeteredStream {
    /// Meters a connection, whose peer is given up after `progress_timeout` next to nothing.
    pub fn new(stream: TcpStream, link: Arc<Link>, progress_timeout: Duration) -> Self {
        Self { stream, link, deadline: None, mark: 0, progress_timeout }
    }

    fn note(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = written {
            if let Ok(count) = result {
                let now =
                    self.link.written.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
                if now - self.mark >= PROGRESS_BYTES_MIN {
                    self.deadline = None;
                }
            }
            return Poll::Ready(result);
        }
        let (link, patience) = (&self.link, self.progress_timeout);
        let deadline = self.deadline.get_or_insert_with(|| {
            self.mark = link.written.load(Ordering::Relaxed);
            Box::pin(tokio::time::sleep(patience))
        });
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader takes nothing")))
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The kernel has all of it. The next answer may come much later and starts anew.
        self.deadline = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The speed of a link while it is kept busy, over the last [`GOODPUT_WINDOW`].
#[derive(Default)]
pub struct Goodput {
    /// Time in nanoseconds, bytes that the peer has got by then.
    samples: VecDeque<(u64, u64)>,
    /// When the link last got work, and the bytes the peer had by then.
    burst: Option<(u64, u64)>,
    /// The earlier estimate.
    prior: Option<f64>,
}

impl Goodput {
    /// Starts with the known speed of the link, in bytes a second.
    pub fn new(prior: Option<f64>) -> Self {
        Self { prior, ..Self::default() }
    }

    /// Adds a measurement of the link, which has been busy since the last one.
    pub fn sample(&mut self, now_nanos: u64, acked_bytes: u64) {
        let window = GOODPUT_WINDOW.as_nanos() as u64;
        while self.samples.len() > 2
            && self.samples.front().is_some_and(|(time, _)| now_nanos - time > window)
        {
            self.samples.pop_front();
        }
        self.samples.push_back((now_nanos, acked_bytes));
        self.burst.get_or_insert((now_nanos, acked_bytes));
    }

    /// Everything has arrived: from now on the link has nothing to do, which says nothing of its speed.
    /// A burst that was too short to be measured was at least this fast.
    pub fn pause(&mut self, now_nanos: u64, acked_bytes: u64) {
        if let Some(measured) = self.measured() {
            self.prior = Some(measured);
        }
        if let Some((since, before)) = self.burst.take() {
            let bytes = acked_bytes.saturating_sub(before);
            let nanos = now_nanos.saturating_sub(since).max(GOODPUT_INTERVAL.as_nanos() as u64);
            let at_least = bytes as f64 * 1e9 / nanos as f64;
            if bytes >= TELLING_BYTES {
                self.prior = Some(self.prior.map_or(at_least, |prior| prior.max(at_least)));
            }
        }
        self.samples.clear();
    }

    /// The speed over the whole window, or over its end if that is slower.
    pub fn measured(&self) -> Option<f64> {
        let last = self.samples.back()?;
        let since = |first: &(u64, u64)| {
            let (nanos, bytes) = (last.0 - first.0, last.1 - first.1);
            // A shorter time measures how the kernel batches.
            (nanos >= TELLING_NANOS).then(|| bytes as f64 * 1e9 / nanos as f64)
        };
        let whole = since(self.samples.front()?).filter(|speed| *speed > 0.0)?;
        let short = GOODPUT_WINDOW_SHORT.as_nanos() as u64;
        let end = self.samples.iter().rev().find(|(time, _)| last.0 - time >= short);
        let end = end.and_then(since).unwrap_or(whole);
        // A standstill may end in a moment; it counts as a twentieth.
        Some(whole.min(end.max(whole / 20.0)))
    }

    /// Bytes a second that arrive; `None` if nothing is known.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.measured().or(self.prior)
    }
}

/// Shortest time over which a speed can be measured.
const TELLING_NANOS: u64 = 20_000_000;
/// Fewest bytes of a burst that measure it: fewer measure how TCP starts.
const TELLING_BYTES: u64 = 32 << 10;

/// The speed of the links to addresses asked from lately.
#[derive(Default)]
pub struct KnownLinks(Mutex<HashMap<IpAddr, Known>>);

struct Known {
    bytes_per_second: f64,
    /// Of the wireless link, where there is one.
    quality: Option<f64>,
    /// When it was measured, on the clock's monotonic time.
    nanos: u64,
}

impl KnownLinks {
    /// Bytes a second, if measured recently; fewer if the wireless link is worse now.
    pub fn speed(&self, peer: IpAddr, quality: Option<f64>, now_nanos: u64) -> Option<f64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&peer)?;
        (now_nanos.saturating_sub(known.nanos) < GOODPUT_MEMORY.as_nanos() as u64)
            .then(|| known.bytes_per_second * left_of_speed(known.quality, quality))
    }

    /// Remembers a speed, and the quality of the wireless link at which it was measured.
    pub fn learn(&self, peer: IpAddr, speed: f64, quality: Option<f64>, now_nanos: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= GOODPUT_ADDRESSES_MAX && !all.contains_key(&peer) {
            all.retain(|_, known| {
                now_nanos.saturating_sub(known.nanos) < GOODPUT_MEMORY.as_nanos() as u64
            });
        }
        if all.len() < GOODPUT_ADDRESSES_MAX || all.contains_key(&peer) {
            all.insert(peer, Known { bytes_per_second: speed, quality, nanos: now_nanos });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_that_of_the_last_window() {
        let mut goodput = Goodput::new(None);
        assert_eq!(goodput.bytes_per_second(), None);
        // 1 MB/s for a second, then 10 MB/s for a second.
        for step in 0..100u64 {
            goodput.sample(step * 10_000_000, step * 10_000);
        }
        assert!((goodput.bytes_per_second().unwrap() - 1e6).abs() < 1e4);
        for step in 0..100u64 {
            goodput.sample(1_000_000_000 + step * 10_000_000, 1_000_000 + step * 100_000);
        }
        assert!((goodput.bytes_per_second().unwrap() - 1e7).abs() < 1e5);
        goodput.pause(2_000_000_000, 11_000_000);
        goodput.sample(9_000_000_000, 11_000_000);
        assert!((goodput.bytes_per_second().unwrap() - 1e7).abs() < 1e5, "time off does not count");
    }

    #[test]
    fn a_link_that_becomes_slower_is_known_soon() {
        let mut goodput = Goodput::new(None);
        let mut bytes = 0;
        for step in 0..200u64 {
            // 25 MB/s, then 1.25 MB/s.
            bytes += if step < 125 { 50_000 } else { 2_500 };
            goodput.sample(step * 2_000_000, bytes);
            if step == 124 {
                assert!((goodput.bytes_per_second().unwrap() - 2.5e7).abs() < 1e6);
            }
            if step >= 124 + 32 {
                assert!(goodput.bytes_per_second().unwrap() < 1.5e6, "64 ms later");
            }
        }
    }

    #[test]
    fn a_link_that_is_never_busy_for_long_is_known_by_its_bursts() {
        let mut goodput = Goodput::new(None);
        goodput.sample(0, 0);
        goodput.pause(5_000_000, 1000);
        assert_eq!(goodput.bytes_per_second(), None, "a kilobyte tells nothing");
        goodput.sample(10_000_000, 1000);
        goodput.pause(20_000_000, 301_000);
        assert_eq!(goodput.bytes_per_second(), Some(3e7));
    }

    #[test]
    fn links_are_forgotten_and_bounded() {
        let links = KnownLinks::default();
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..2 * GOODPUT_ADDRESSES_MAX as u32 {
            links.learn(address(number), 5.0, None, 1);
        }
        assert_eq!(links.speed(address(3), None, 1000), Some(5.0));
        assert_eq!(links.speed(address(GOODPUT_ADDRESSES_MAX as u32 + 3), None, 1000), None);
        let later = GOODPUT_MEMORY.as_nanos() as u64 + 2;
        assert_eq!(links.speed(address(3), None, later), None);
        links.learn(address(u32::MAX), 8.0, Some(60.0), later);
        assert_eq!(links.speed(address(u32::MAX), Some(60.0), later), Some(8.0));
        assert_eq!(links.speed(address(u32::MAX), Some(30.0), later), Some(4.0), "a weaker radio");
    }
}
