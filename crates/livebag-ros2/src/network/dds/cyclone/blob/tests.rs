use std::sync::{Arc, Mutex};

use super::super::cache::{Cache, Taken, Taker, WriterInfo, free_cache, store};
use super::*;
use crate::network::EndpointId;

/// Received messages and their numbers; and how many were refused.
#[derive(Default)]
struct Seen(Mutex<(Vec<Message>, usize)>);

type Message = (Vec<u8>, u64, EndpointId);

impl Taker for Seen {
    fn take(&self, message: &Taken<'_>) {
        assert!(message.data[4..] != *b"panic", "a receiver may fail");
        let seen = (message.data.to_vec(), message.sequence, message.publisher);
        self.0.lock().unwrap().0.push(seen);
    }

    fn refuse(&self) {
        self.0.lock().unwrap().1 += 1;
    }
}

const WRITER: WriterInfo = WriterInfo { guid: [0x0102_0304, 5, 6, 7] };

/// Lets a message go through the cache, and gives it up.
fn stored(seen: &Arc<Seen>, message: *mut ddsi_serdata) {
    let cache = Cache::raw(Arc::clone(seen) as Arc<dyn Taker>).cast::<Cache>();
    // SAFETY: all three are live, and given up once each.
    unsafe {
        assert!(store(cache, &WRITER, message, ptr::null_mut()));
        free_cache(cache);
        count_down(message);
    }
}

/// A message as if it arrived in parts of `part` bytes, each in a separate packet.
fn received(sertype: *const ddsi_sertype, data: &[u8], part: usize) -> *mut ddsi_serdata {
    const SUBMESSAGE: usize = 32;
    const PAYLOAD: usize = 64;
    let parts: Vec<_> = data.chunks(part).collect();
    let packets: Vec<Vec<u64>> = parts
        .iter()
        .map(|part| {
            let mut bytes = vec![0_u8; size_of::<Packet>() + PAYLOAD];
            let number = size_of::<Packet>() + SUBMESSAGE + SEQUENCE_OFFSET;
            bytes[number..number + 4].copy_from_slice(&1_u32.to_ne_bytes());
            bytes[number + 4..number + 8].copy_from_slice(&9_u32.to_ne_bytes());
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.chunks(8).map(|word| u64::from_ne_bytes(*word.first_chunk().unwrap())).collect()
        })
        .collect();
    let mut next = ptr::null();
    let mut fragments = Vec::new();
    for (index, part_bytes) in parts.iter().enumerate().rev() {
        let start = (index * part) as u32;
        let fragment = Box::new(Fragment {
            packet: packets[index].as_ptr().cast(),
            next,
            start,
            end: start + part_bytes.len() as u32,
            submessage_offset: SUBMESSAGE as u16,
            payload_offset: PAYLOAD as u16,
            keyhash_offset: 0,
        });
        next = &raw const *fragment;
        fragments.push(fragment);
    }
    // SAFETY: the chain and its packets live for the call.
    unsafe { from_packets(sertype, ddsi_serdata_kind_SDK_DATA, next.cast(), data.len()) }
}

#[test]
fn messages_are_put_together_from_packets_with_their_number_and_writer() {
    let sertype = sertype(c"a::msg::dds_::T_", false);
    let seen = Arc::new(Seen::default());
    let mut data = vec![0, 1, 0, 0];
    data.extend((0..997).map(|at| at as u8));
    for part in [1, 7, 1000, 5000] {
        stored(&seen, received(sertype, &data, part));
    }
    let writer = [1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7];
    let (taken, refused) = &*seen.0.lock().unwrap();
    assert_eq!(*refused, 0);
    assert!(*taken == vec![(data, (1 << 32) + 9, writer); 4]);
    // SAFETY: the type has no other users.
    unsafe { cyclors::ddsi_sertype_unref(sertype) };
}

#[test]
fn padding_is_added_for_the_wire_and_taken_away_behind_it() {
    let sertype = sertype(c"a::msg::dds_::T_", false);
    for len in 4..24_usize {
        let seen = Arc::new(Seen::default());
        let data: Vec<_> = [0, 1, 0, 0].into_iter().chain(4..len as u8).collect();
        // SAFETY: the type is live; the message is given up by `stored`, the reference by us.
        let wire = unsafe {
            let own = message(sertype, &data, 3);
            let whole = size(own) as usize;
            let mut lent = ddsrt_iovec_t { iov_base: ptr::null_mut(), iov_len: 0 };
            let reference = lend(own, 0, whole, &mut lent);
            let wire = std::slice::from_raw_parts(lent.iov_base.cast::<u8>(), lent.iov_len);
            let mut copy = vec![0xff; whole];
            copy_out(own, 0, whole, copy.as_mut_ptr().cast());
            assert_eq!(wire, copy);
            give_back(reference, &lent);
            stored(&seen, own);
            copy
        };
        assert!(wire.len().is_multiple_of(4));
        stored(&seen, received(sertype, &wire, 8));
        let taken: Vec<_> = seen.0.lock().unwrap().0.iter().map(|one| one.0.clone()).collect();
        assert_eq!(taken, [data.clone(), data]);
    }
    // SAFETY: the type has no other users.
    unsafe { cyclors::ddsi_sertype_unref(sertype) };
}

#[test]
fn what_is_no_message_and_what_fails_is_counted() {
    let sertype = sertype(c"a::msg::dds_::T_", false);
    let seen = Arc::new(Seen::default());
    for odd in
        [&[][..], &[0], &[0, 1, 0], &[9, 9, 0, 0, 1, 2, 3, 4], &[0, 99, 0, 0], b"\0\x01\0\0panic"]
    {
        stored(&seen, received(sertype, odd, 4));
    }
    stored(&seen, received(sertype, &[0, 1, 0, 0, 5], 5));
    let (taken, refused) = &*seen.0.lock().unwrap();
    assert_eq!((taken.len(), *refused), (1, 6));
    // SAFETY: the type has no other users.
    unsafe { cyclors::ddsi_sertype_unref(sertype) };
}
