//! A reader's cache that keeps nothing, but hands each message over.

#![expect(unsafe_code, reason = "Cyclone DDS calls these functions through tables of pointers")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use cyclors::{dds_return_t, ddsi_serdata, ddsi_serdata_kind_SDK_DATA};

use super::blob::{Blob, MESSAGE_OPS, PADDING_BITS};
use crate::network::EndpointId;

/// A message as it came.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The encoded message, with its encapsulation; without the padding that its options tell of.
    pub data: &'a [u8],
    /// When it was published, nanoseconds since the Unix epoch; `None` if unknown.
    pub publish_time_nanos: Option<u64>,
    /// Its publisher's count, from 1 on; 0 if unknown.
    pub sequence: u64,
    /// Its publisher.
    pub publisher: EndpointId,
}

/// A receiver of messages, called by Cyclone's threads or a publishing thread of this process. It must not wait, and
/// must not delete its own reader.
pub trait Taker: Send + Sync {
    /// A message.
    fn take(&self, message: &Taken<'_>);
    /// A message that is no message: without encapsulation, or too large.
    fn refuse(&self);
    /// Something of a publisher's that has a number, and is no message: the end of an instance.
    fn pass(&self, _publisher: EndpointId, _sequence: u64) {}
    /// A publisher has gone.
    fn gone(&self, _publisher: EndpointId) {}
}

/// A reader's cache that keeps nothing (`struct dds_rhc` of dds_rhc.h). Messages are passed on at once, so none can be
/// lost here. A slow [`Taker`] would delay Cyclone's thread and, with it, reliable publishers.
#[repr(C)]
pub(super) struct Cache {
    ops: *const CacheOps,
    taker: Arc<dyn Taker>,
}

#[repr(C)]
struct CacheOps {
    store:
        unsafe extern "C" fn(*mut Cache, *const WriterInfo, *mut ddsi_serdata, *mut c_void) -> bool,
    unregister_writer: unsafe extern "C" fn(*mut Cache, *const WriterInfo),
    relinquish_ownership: unsafe extern "C" fn(*mut Cache, u64),
    free: unsafe extern "C" fn(*mut Cache),
    peek: CacheRead,
    read: CacheRead,
    take: CacheRead,
    add_condition: unsafe extern "C" fn(*mut Cache, *mut c_void) -> bool,
    remove_condition: unsafe extern "C" fn(*mut Cache, *mut c_void),
    associate: unsafe extern "C" fn(*mut Cache, *mut c_void) -> dds_return_t,
}

const _: () = assert!(size_of::<CacheOps>() == 80 && size_of::<WriterInfo>() == 16);

type CacheRead =
    unsafe extern "C" fn(*mut Cache, i32, u32, u64, *mut c_void, *mut c_void, *mut c_void) -> i32;

/// The beginning of `struct ddsi_writer_info` (ddsi_rhc.h): the writer's GUID in the machine's order.
#[repr(C)]
pub(super) struct WriterInfo {
    pub(super) guid: [u32; 4],
}

impl WriterInfo {
    /// The GUID as it is on the wire.
    fn id(&self) -> EndpointId {
        let mut id = [0; 16];
        for (bytes, word) in id.chunks_exact_mut(4).zip(self.guid) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        id
    }
}

static CACHE_OPS: CacheOps = CacheOps {
    store,
    unregister_writer,
    relinquish_ownership,
    free: free_cache,
    peek: read_nothing,
    read: read_nothing,
    take: read_nothing,
    add_condition,
    remove_condition,
    associate,
};

impl Cache {
    /// A cache whose messages go to `taker`. The reader that it is given to owns it.
    pub(super) fn raw(taker: Arc<dyn Taker>) -> *mut cyclors::dds_rhc {
        Box::into_raw(Box::new(Self { ops: &CACHE_OPS, taker })).cast()
    }
}

pub(super) unsafe extern "C" fn store(
    cache: *mut Cache,
    writer: *const WriterInfo,
    message: *mut ddsi_serdata,
    _: *mut c_void,
) -> bool {
    // SAFETY: the cache belongs to the reader and lives as long; the other two live for this call. Messages of another
    // table cannot arrive, since the reader's type has ours; one would be ignored.
    let (cache, writer, common) = unsafe { (&*cache, &*writer, &*message) };
    if !ptr::eq(common.ops, &MESSAGE_OPS) {
        return true;
    }
    // SAFETY: messages with this table are `Blob`s.
    let blob = unsafe { &*message.cast::<Blob>() };
    // A panic must not unwind into C.
    let told = catch_unwind(AssertUnwindSafe(|| tell(&*cache.taker, blob, writer.id())));
    if told.is_err() {
        let _ = catch_unwind(AssertUnwindSafe(|| cache.taker.refuse()));
    }
    true
}

fn tell(taker: &dyn Taker, blob: &Blob, publisher: EndpointId) {
    if blob.common.kind != ddsi_serdata_kind_SDK_DATA {
        return if blob.sequence > 0 {
            taker.pass(publisher, blob.sequence)
        };
    }
    if blob.is_refused {
        // It was counted when it arrived, and is not lost.
        if blob.sequence > 0 {
            taker.pass(publisher, blob.sequence);
        }
        return taker.refuse();
    }
    let unpadded;
    let data = match blob.padding {
        0 => blob.bytes.as_slice(),
        padding => {
            let mut copy = blob.bytes[..blob.bytes.len() - padding].to_vec();
            copy[3] &= !PADDING_BITS;
            unpadded = copy;
            &unpadded
        }
    };
    taker.take(&Taken {
        data,
        publish_time_nanos: u64::try_from(blob.common.timestamp.v).ok(),
        sequence: blob.sequence,
        publisher,
    });
}

unsafe extern "C" fn unregister_writer(cache: *mut Cache, writer: *const WriterInfo) {
    // SAFETY: the cache is the reader's; the writer lives for this call.
    let (cache, writer) = unsafe { (&*cache, &*writer) };
    let _ = catch_unwind(AssertUnwindSafe(|| cache.taker.gone(writer.id())));
}

unsafe extern "C" fn relinquish_ownership(_: *mut Cache, _: u64) {}

pub(super) unsafe extern "C" fn free_cache(cache: *mut Cache) {
    // SAFETY: it was boxed by `raw`, and the reader has gone.
    let cache = unsafe { Box::from_raw(cache) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(cache)));
}

unsafe extern "C" fn read_nothing(
    _: *mut Cache,
    _: i32,
    _: u32,
    _: u64,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
) -> i32 {
    0
}

unsafe extern "C" fn add_condition(_: *mut Cache, _: *mut c_void) -> bool {
    true
}

unsafe extern "C" fn remove_condition(_: *mut Cache, _: *mut c_void) {}

unsafe extern "C" fn associate(_: *mut Cache, _: *mut c_void) -> dds_return_t {
    0
}
