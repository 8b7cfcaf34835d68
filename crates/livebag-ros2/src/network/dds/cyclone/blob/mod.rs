//! Messages of any type: a "type" of Cyclone DDS that takes them as bytes.
//!
//! Cyclone's own reading function (`dds_takecdr`) returns no sequence number, so losses could not be counted. Here the
//! message is made from the packets that it came in, which have its writer's number.

#![expect(unsafe_code, reason = "Cyclone DDS calls these functions through tables of pointers")]

use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;
use std::ptr;

use cyclors::{
    ddsi_keyhash, ddsi_rdata, ddsi_serdata, ddsi_serdata_init, ddsi_serdata_kind,
    ddsi_serdata_kind_SDK_DATA, ddsi_serdata_kind_SDK_KEY, ddsi_serdata_ops, ddsi_sertype,
    ddsi_sertype_fini, ddsi_sertype_init_flags, ddsi_sertype_ops, ddsi_sertype_v0, ddsrt_iovec_t,
};

use crate::limits::SAMPLE_BYTES_MAX;

/// The encapsulation: identifier (2 bytes) and options (2).
pub const ENCAPSULATION_BYTES: usize = 4;
/// Bits of the options that say how many bytes were added to make the length a multiple of four
/// (DDS-XTypes 1.3, 7.6.3.1.2).
pub(super) const PADDING_BITS: u8 = 0b11;

/// Whether it begins as an encoded message does: CDR, PL_CDR, CDR2, D_CDR2 and PL_CDR2, each in both
/// byte orders (RTPS 2.5, 10.2; DDS-XTypes 1.3, 7.6.3.1.2).
pub fn is_encoded(message: &[u8]) -> bool {
    matches!(message.first_chunk::<ENCAPSULATION_BYTES>(), Some([0, 0..=3 | 6..=11, _, _]))
}

/// One message. Its first part is Cyclone's.
#[repr(C)]
pub(super) struct Blob {
    pub(super) common: ddsi_serdata,
    /// The writer's count.
    pub(super) sequence: u64,
    /// The bytes on the wire; padded to a multiple of four if this process writes them.
    pub(super) bytes: Vec<u8>,
    /// Bytes of padding that this process added.
    pub(super) padding: usize,
    /// Whether it breaks a bound, and is there to be counted only.
    pub(super) is_refused: bool,
}

impl Blob {
    fn boxed(sertype: *const ddsi_sertype, kind: ddsi_serdata_kind, bytes: Vec<u8>) -> Box<Self> {
        // SAFETY: `ddsi_serdata` is integers and pointers, for which zeros are values.
        let common = unsafe { std::mem::zeroed() };
        let mut this = Box::new(Self { common, sequence: 0, bytes, padding: 0, is_refused: false });
        // SAFETY: the pointers are to a live object and to the type that Cyclone, or the caller, has.
        unsafe {
            ddsi_serdata_init(&mut this.common, sertype, kind);
            // Every message has the same key, none. As documented at `ddsi_serdata_init`, the type adds the rest of the
            // hash.
            this.common.hash = (*sertype).serdata_basehash;
        }
        this
    }

    fn into_raw(self: Box<Self>) -> *mut ddsi_serdata {
        Box::into_raw(self).cast()
    }

    /// Takes away the padding that the message's options tell of.
    fn trim(&mut self) {
        let len = self.bytes.len();
        let Some(&[_, _, _, options]) = self.bytes.first_chunk::<ENCAPSULATION_BYTES>() else {
            return;
        };
        let padding = usize::from(options & PADDING_BITS);
        if padding > 0 && len.is_multiple_of(4) && len >= ENCAPSULATION_BYTES + padding {
            self.bytes.truncate(len - padding);
            self.bytes[3] &= !PADDING_BITS;
        }
    }

    /// Pads the length to a multiple of four, as DDSI requires, and stores the padding in the options.
    fn pad(&mut self) {
        self.padding = self.bytes.len().wrapping_neg() % 4;
        if self.padding > 0 && self.bytes.len() >= ENCAPSULATION_BYTES {
            self.bytes.resize(self.bytes.len() + self.padding, 0);
            self.bytes[3] = (self.bytes[3] & !PADDING_BITS) | self.padding as u8;
        }
    }

    /// Whether it can be a message at all.
    fn is_plausible(&self) -> bool {
        is_encoded(&self.bytes) && self.bytes.len() <= SAMPLE_BYTES_MAX
    }
}

/// A message of this process, ready to be written. Cyclone takes over one count of it.
///
/// # Safety
/// `sertype` must be one that [`sertype`] made, or Cyclone's equal of it, and live.
pub(super) unsafe fn message(
    sertype: *const ddsi_sertype,
    data: &[u8],
    sequence: u64,
) -> *mut ddsi_serdata {
    let mut bytes = Vec::with_capacity(data.len() + 3);
    bytes.extend_from_slice(data);
    let mut blob = Blob::boxed(sertype, ddsi_serdata_kind_SDK_DATA, bytes);
    blob.pad();
    blob.sequence = sequence;
    blob.into_raw()
}

/// The type called `name`. Readers and writers match only if both have a key or both have none; which
/// fields it is made of does not matter here, since nothing is kept by key.
pub(super) fn sertype(name: &CStr, is_keyed: bool) -> *mut ddsi_sertype {
    let flags = if is_keyed { 0 } else { cyclors::DDSI_SERTYPE_FLAG_TOPICKIND_NO_KEY };
    // SAFETY: `ddsi_sertype` is integers and pointers, for which zeros are values.
    let sertype = Box::into_raw(Box::new(unsafe { std::mem::zeroed::<ddsi_sertype>() }));
    // SAFETY: it is live and not yet shared; the tables are static; the name is copied.
    unsafe {
        ddsi_sertype_init_flags(sertype, name.as_ptr(), &TYPE_OPS.0, &MESSAGE_OPS, flags);
    }
    sertype
}

/// Tables of functions, with one unused pointer among them.
struct TypeOps(ddsi_sertype_ops);

// SAFETY: it is read only, and its one data pointer is null.
unsafe impl Sync for TypeOps {}

static TYPE_OPS: TypeOps = TypeOps(ddsi_sertype_ops {
    version: Some(ddsi_sertype_v0),
    arg: ptr::null_mut(),
    free: Some(free_type),
    zero_samples: Some(zero_samples),
    realloc_samples: Some(realloc_samples),
    free_samples: Some(free_samples),
    equal: Some(types_equal),
    hash: Some(hash_type),
    type_id: None,
    type_map: None,
    type_info: None,
    derive_sertype: None,
    get_serialized_size: None,
    serialize_into: None,
});

pub(super) static MESSAGE_OPS: ddsi_serdata_ops = ddsi_serdata_ops {
    eqkey: Some(keys_equal),
    get_size: Some(size),
    from_ser: Some(from_packets),
    from_ser_iov: Some(from_memory),
    from_keyhash: Some(from_keyhash),
    from_sample: None,
    to_ser: Some(copy_out),
    to_ser_ref: Some(lend),
    to_ser_unref: Some(give_back),
    to_sample: Some(to_sample),
    to_untyped: Some(to_untyped),
    untyped_to_sample: Some(untyped_to_sample),
    free: Some(free),
    print: Some(print),
    get_keyhash: Some(get_keyhash),
    from_loaned_sample: None,
    from_psmx: None,
};

unsafe extern "C" fn free_type(sertype: *mut ddsi_sertype) {
    // SAFETY: it was made by `sertype`, and there are no other users.
    unsafe {
        ddsi_sertype_fini(sertype);
        drop(Box::from_raw(sertype));
    }
}

// Cyclone asks for samples in the application's form for loans, keys and filters; none is used.
unsafe extern "C" fn zero_samples(_: *const ddsi_sertype, _: *mut c_void, _: usize) {}

unsafe extern "C" fn realloc_samples(
    samples: *mut *mut c_void,
    _: *const ddsi_sertype,
    _: *mut c_void,
    _: usize,
    count: usize,
) {
    for index in 0..count {
        // SAFETY: there are `count` pointers to be set.
        unsafe { samples.add(index).write(ptr::null_mut()) };
    }
}

unsafe extern "C" fn free_samples(
    _: *const ddsi_sertype,
    _: *mut *mut c_void,
    _: usize,
    _: cyclors::dds_free_op_t,
) {
}

// Asked only for types of the same name and tables.
unsafe extern "C" fn types_equal(_: *const ddsi_sertype, _: *const ddsi_sertype) -> bool {
    true
}

unsafe extern "C" fn hash_type(_: *const ddsi_sertype) -> u32 {
    0
}

unsafe extern "C" fn keys_equal(_: *const ddsi_serdata, _: *const ddsi_serdata) -> bool {
    true
}

unsafe extern "C" fn size(message: *const ddsi_serdata) -> u32 {
    // SAFETY: messages with this table are `Blob`s.
    let blob = unsafe { &*message.cast::<Blob>() };
    blob.bytes.len() as u32
}

/// A packet as Cyclone received it (`struct ddsi_rmsg` of ddsi_radmin.h); its bytes follow.
#[repr(C)]
struct Packet {
    references: u32,
    last_chunk: *mut c_void,
    trace: bool,
    chunk: [u64; 3],
}

/// A part of a message within a packet (`struct ddsi_rdata` of the same file).
#[repr(C)]
struct Fragment {
    packet: *const Packet,
    next: *const Fragment,
    /// First byte of the message that it has, and the one after its last.
    start: u32,
    end: u32,
    /// Places within the packet, in bytes.
    submessage_offset: u16,
    payload_offset: u16,
    keyhash_offset: u16,
}

// Cyclone's layout on machines of 64 bits.
const _: () = assert!(size_of::<Packet>() == 48);
const _: () = assert!(offset_of!(Fragment, next) == 8 && offset_of!(Fragment, start) == 16);
const _: () = assert!(
    offset_of!(Fragment, submessage_offset) == 24
        && offset_of!(Fragment, payload_offset) == 26
        && offset_of!(Fragment, keyhash_offset) == 28
);

/// Place of the writer's sequence number within a DATA or DATA_FRAG submessage: two times 32 bits,
/// high first, which Cyclone has put into this machine's byte order (RTPS 2.5, 9.4.5.4).
const SEQUENCE_OFFSET: usize = 16;

unsafe extern "C" fn from_packets(
    sertype: *const ddsi_sertype,
    kind: ddsi_serdata_kind,
    fragments: *const ddsi_rdata,
    size: usize,
) -> *mut ddsi_serdata {
    let is_refused = size > SAMPLE_BYTES_MAX;
    let mut bytes = Vec::with_capacity(if is_refused { 0 } else { size + 3 });
    let mut next = fragments.cast::<Fragment>();
    // SAFETY: Cyclone passes a chain of fragments in the order of their bytes, which lie in packets that it keeps until
    // this function returns. They may overlap, and leave no gap.
    let sequence = unsafe { sequence_of(next) };
    while !next.is_null() && bytes.len() < size && !is_refused {
        // SAFETY: as above.
        let fragment = unsafe { &*next };
        let (start, end) = (fragment.start as usize, (fragment.end as usize).min(size));
        if end > bytes.len() && start <= bytes.len() {
            let skipped = bytes.len() - start;
            // SAFETY: `end - start` bytes of the message lie at the payload's offset.
            let part = unsafe {
                let payload = payload(fragment.packet).add(fragment.payload_offset.into());
                std::slice::from_raw_parts(payload.add(skipped), end - start - skipped)
            };
            bytes.extend_from_slice(part);
        }
        next = fragment.next;
    }
    let is_whole = bytes.len() == size;
    let mut blob = Blob::boxed(sertype, kind, bytes);
    blob.sequence = sequence;
    blob.is_refused = is_refused || !is_whole || !blob.is_plausible();
    blob.trim();
    blob.into_raw()
}

/// Where a packet's bytes are.
///
/// # Safety
/// `packet` must be one that Cyclone received and keeps.
unsafe fn payload(packet: *const Packet) -> *const u8 {
    // SAFETY: they follow it in the same allocation.
    unsafe { packet.add(1).cast() }
}

/// # Safety
/// `fragment` must be null or one that Cyclone keeps.
unsafe fn sequence_of(fragment: *const Fragment) -> u64 {
    if fragment.is_null() {
        return 0;
    }
    // SAFETY: the submessage is in the packet, aligned to four bytes, and Cyclone has checked it.
    unsafe {
        let packet = payload((*fragment).packet);
        let at = packet.add(usize::from((*fragment).submessage_offset) + SEQUENCE_OFFSET);
        let high = at.cast::<u32>().read_unaligned();
        let low = at.add(4).cast::<u32>().read_unaligned();
        u64::from(high) << 32 | u64::from(low)
    }
}

unsafe extern "C" fn from_memory(
    sertype: *const ddsi_sertype,
    kind: ddsi_serdata_kind,
    parts_count: usize,
    parts: *const ddsrt_iovec_t,
    size: usize,
) -> *mut ddsi_serdata {
    let is_refused = size > SAMPLE_BYTES_MAX;
    let mut bytes = Vec::with_capacity(if is_refused { 0 } else { size + 3 });
    for index in 0..parts_count {
        // SAFETY: Cyclone has `parts_count` parts, each with its length.
        let part = unsafe {
            let part = &*parts.add(index);
            std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len)
        };
        let room = size.min(SAMPLE_BYTES_MAX) - bytes.len();
        bytes.extend_from_slice(&part[..part.len().min(room)]);
    }
    let mut blob = Blob::boxed(sertype, kind, bytes);
    blob.is_refused = is_refused || !blob.is_plausible();
    blob.trim();
    blob.into_raw()
}

// The end of an instance, identified only by its key's hash. That it has a number cannot be seen here.
unsafe extern "C" fn from_keyhash(
    sertype: *const ddsi_sertype,
    _: *const ddsi_keyhash,
) -> *mut ddsi_serdata {
    Blob::boxed(sertype, ddsi_serdata_kind_SDK_KEY, Vec::new()).into_raw()
}

unsafe extern "C" fn copy_out(
    message: *const ddsi_serdata,
    offset: usize,
    len: usize,
    into: *mut c_void,
) {
    // SAFETY: messages with this table are `Blob`s; Cyclone's memory has `len` bytes.
    unsafe {
        let bytes = &(*message.cast::<Blob>()).bytes;
        let part = bytes.get(offset..).unwrap_or_default();
        let there = part.len().min(len);
        ptr::copy_nonoverlapping(part.as_ptr(), into.cast(), there);
        ptr::write_bytes(into.cast::<u8>().add(there), 0, len - there);
    }
}

unsafe extern "C" fn lend(
    message: *const ddsi_serdata,
    offset: usize,
    len: usize,
    lent: *mut ddsrt_iovec_t,
) -> *mut ddsi_serdata {
    // SAFETY: messages with this table are `Blob`s. Cyclone requests parts within the size rounded up to four; messages
    // of this process have a multiple of four bytes, and the rest is never sent.
    unsafe {
        let bytes = &(*message.cast::<Blob>()).bytes;
        let offset = offset.min(bytes.len());
        let lent = &mut *lent;
        lent.iov_base = bytes.as_ptr().add(offset).cast_mut().cast();
        lent.iov_len = len.min(bytes.len() - offset);
        count_up(message.cast_mut())
    }
}

unsafe extern "C" fn give_back(message: *mut ddsi_serdata, _: *const ddsrt_iovec_t) {
    // SAFETY: `lend` has counted it.
    unsafe { count_down(message) };
}

/// Counts a reference to a message.
///
/// # Safety
/// The message must be live.
unsafe fn count_up(message: *mut ddsi_serdata) -> *mut ddsi_serdata {
    use std::sync::atomic::{AtomicU32, Ordering};
    // SAFETY: Cyclone changes the count atomically, too (ddsrt_atomic_inc32).
    let references = unsafe { AtomicU32::from_ptr(ptr::addr_of_mut!((*message).refc.v)) };
    references.fetch_add(1, Ordering::SeqCst);
    message
}

/// Gives a reference up.
///
/// # Safety
/// The reference must be the caller's.
pub(super) unsafe fn count_down(message: *mut ddsi_serdata) {
    use std::sync::atomic::{AtomicU32, Ordering};
    // SAFETY: as in `count_up`; the last release frees it.
    unsafe {
        let references = AtomicU32::from_ptr(ptr::addr_of_mut!((*message).refc.v));
        if references.fetch_sub(1, Ordering::SeqCst) == 1 {
            free(message);
        }
    }
}

unsafe extern "C" fn to_sample(
    _: *const ddsi_serdata,
    _: *mut c_void,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> bool {
    false
}

unsafe extern "C" fn untyped_to_sample(
    _: *const ddsi_sertype,
    _: *const ddsi_serdata,
    _: *mut c_void,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> bool {
    false
}

// The key of an instance, and there is one instance.
unsafe extern "C" fn to_untyped(message: *const ddsi_serdata) -> *mut ddsi_serdata {
    // SAFETY: the message and its type are live.
    unsafe {
        let mut blob = Blob::boxed((*message).type_, ddsi_serdata_kind_SDK_KEY, Vec::new());
        blob.common.type_ = ptr::null();
        blob.into_raw()
    }
}

unsafe extern "C" fn free(message: *mut ddsi_serdata) {
    // SAFETY: it is a boxed `Blob`, and there are no other users.
    drop(unsafe { Box::from_raw(message.cast::<Blob>()) });
}

unsafe extern "C" fn print(
    _: *const ddsi_sertype,
    _: *const ddsi_serdata,
    into: *mut c_char,
    size: usize,
) -> usize {
    if size > 0 {
        // SAFETY: there is room for `size` bytes.
        unsafe { into.write(0) };
    }
    0
}

unsafe extern "C" fn get_keyhash(_: *const ddsi_serdata, into: *mut ddsi_keyhash, _: bool) {
    // SAFETY: it is Cyclone's, to be filled.
    unsafe { (*into).value = [0; 16] };
}

#[cfg(test)]
mod tests;
