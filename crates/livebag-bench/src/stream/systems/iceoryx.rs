//! iceoryx2 at its best for the newest frame: a subscriber buffer of one that overflows safely, no
//! history, uninitialised loans, and its event service where readers sleep.

use core::mem::MaybeUninit;

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher as Port;
use iceoryx2::port::subscriber::Subscriber as SubscriberPort;
use iceoryx2::prelude::*;

use super::{Arrival, Publisher, Subscriber, take};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::frame;
use crate::stream::{RunOptions, WaitWay, Way};

const SYSTEM: &str = "iceoryx2";

/// iceoryx2's text of an error is its `Debug`: its `Display` is only the variant's name.
fn failed<E: std::fmt::Debug>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system(SYSTEM, doing)(&format!("{e:?}"))
}

type Frames =
    iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, [u8], ()>;
type Events = iceoryx2::service::port_factory::event::PortFactory<ipc::Service>;

struct Services {
    // The node must outlive what was made from it.
    _node: Node<ipc::Service>,
    frames: Frames,
    events: Events,
}

fn services(options: &RunOptions) -> Result<Services> {
    set_log_level(LogLevel::Error);
    let readers = options.readers.max(1) as usize;
    let node = NodeBuilder::new()
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()
        .map_err(failed("creating a node"))?;
    let name: ServiceName = options.name.as_str().try_into().map_err(failed("naming a service"))?;
    let page = Alignment::new(4096).ok_or_else(|| failed("aligning a payload")("4096"))?;
    let frames = node
        .service_builder(&name)
        .publish_subscribe::<[u8]>()
        .payload_alignment(page)
        .enable_safe_overflow(true)
        .history_size(0)
        .subscriber_max_buffer_size(1)
        .subscriber_max_borrowed_samples(1)
        .max_publishers(1)
        .max_subscribers(readers)
        .max_nodes(readers + 1)
        .open_or_create()
        .map_err(failed("opening publish-subscribe"))?;
    let events = node
        .service_builder(&name)
        .event()
        .max_notifiers(1)
        .max_listeners(readers)
        .max_nodes(readers + 1)
        .event_id_max_value(0)
        .disable_notifier_created_event()
        .disable_notifier_dropped_event()
        .disable_notifier_dead_event()
        .open_or_create()
        .map_err(failed("opening an event service"))?;
    Ok(Services { _node: node, frames, events })
}

/// Sends frames and, where readers sleep, an event after each.
pub struct IceoryxPublisher {
    port: Port<ipc::Service, [u8], ()>,
    notifier: Option<Notifier<ipc::Service>>,
    payload_bytes: usize,
    _services: Services,
}

impl IceoryxPublisher {
    /// Creates both services.
    pub fn create(options: &RunOptions) -> Result<Self> {
        let services = services(options)?;
        let port = services
            .frames
            .publisher_builder()
            .initial_max_slice_len(options.payload_bytes)
            .max_loaned_samples(1)
            .create()
            .map_err(failed("creating a publisher"))?;
        let notifier = (options.wait == WaitWay::Futex)
            .then(|| services.events.notifier_builder().create())
            .transpose()
            .map_err(failed("creating a notifier"))?;
        let payload_bytes = options.payload_bytes;
        Ok(Self { port, notifier, payload_bytes, _services: services })
    }

    fn notify(&self) -> Result<()> {
        if let Some(notifier) = &self.notifier {
            notifier.notify().map_err(failed("notifying"))?;
        }
        Ok(())
    }
}

impl Publisher for IceoryxPublisher {
    fn publish_copy(&mut self, frame: &[u8]) -> Result<()> {
        let loan = self.port.loan_slice_uninit(frame.len()).map_err(failed("loaning"))?;
        loan.write_from_slice(frame).send().map_err(failed("sending"))?;
        self.notify()
    }

    #[expect(unsafe_code, reason = "loan_slice_uninit is iceoryx2's fastest loan")]
    fn publish_loan(&mut self, fill: &mut dyn FnMut(&mut [u8])) -> Result<u64> {
        let mut loan =
            self.port.loan_slice_uninit(self.payload_bytes).map_err(failed("loaning"))?;
        let memory: &mut [MaybeUninit<u8>] = loan.payload_mut();
        // SAFETY: `memory` is mapped and writable for its whole length, `u8` has no invalid
        // values, and shared memory from the kernel always has some.
        let memory = unsafe {
            std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), memory.len())
        };
        fill(memory);
        let sent_nanos = clock::monotonic_nanos();
        frame::stamp(memory, sent_nanos);
        // SAFETY: `fill` has written every byte.
        let loan = unsafe { loan.assume_init() };
        loan.send().map_err(failed("sending"))?;
        self.notify()?;
        Ok(sent_nanos)
    }
}

/// Receives the newest frame.
pub struct IceoryxSubscriber {
    port: SubscriberPort<ipc::Service, [u8], ()>,
    listener: Option<Listener<ipc::Service>>,
    way: Way,
    buffer: Vec<u8>,
    _services: Services,
}

impl IceoryxSubscriber {
    /// Opens both services.
    pub fn open(options: &RunOptions) -> Result<Self> {
        let services = services(options)?;
        let port = services
            .frames
            .subscriber_builder()
            .buffer_size(1)
            .create()
            .map_err(failed("creating a subscriber"))?;
        let listener = (options.wait == WaitWay::Futex)
            .then(|| services.events.listener_builder().create())
            .transpose()
            .map_err(failed("creating a listener"))?;
        let buffer = vec![1; options.payload_bytes];
        Ok(Self { port, listener, way: options.way, buffer, _services: services })
    }
}

impl Subscriber for IceoryxSubscriber {
    fn receive(&mut self, timeout_nanos: u64) -> Result<Option<Arrival>> {
        let deadline = clock::monotonic_nanos() + timeout_nanos;
        loop {
            if let Some(sample) = self.port.receive().map_err(failed("receiving"))? {
                let (content, arrived_nanos) = take(self.way, sample.payload(), &mut self.buffer);
                return Ok(Some(Arrival { content, arrived_nanos, valid: true }));
            }
            let left = deadline.saturating_sub(clock::monotonic_nanos());
            if left == 0 {
                return Ok(None);
            }
            match &self.listener {
                Some(listener) => {
                    listener
                        .timed_wait(|_| {}, core::time::Duration::from_nanos(left))
                        .map_err(failed("waiting for an event"))?;
                }
                None => std::hint::spin_loop(),
            }
        }
    }
}
