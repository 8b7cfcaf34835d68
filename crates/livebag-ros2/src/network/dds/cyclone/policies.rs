//! ROS 2's QoS as the policies of Cyclone DDS, and back.

#![expect(unsafe_code, reason = "calls into Cyclone DDS, which is C")]

use std::ptr;

use cyclors::{
    DDS_LENGTH_UNLIMITED, dds_durability_kind_DDS_DURABILITY_TRANSIENT_LOCAL,
    dds_durability_kind_DDS_DURABILITY_VOLATILE, dds_history_kind_DDS_HISTORY_KEEP_ALL,
    dds_history_kind_DDS_HISTORY_KEEP_LAST, dds_liveliness_kind_DDS_LIVELINESS_AUTOMATIC,
    dds_liveliness_kind_DDS_LIVELINESS_MANUAL_BY_TOPIC, dds_qos_t,
    dds_reliability_kind_DDS_RELIABILITY_BEST_EFFORT,
    dds_reliability_kind_DDS_RELIABILITY_RELIABLE,
};

use crate::limits::PUBLISH_TIMEOUT;
use crate::qos::{Durability, History, Liveliness, Qos, Reliability};

/// DDS_INFINITY.
const FOREVER: i64 = i64::MAX;

/// Policies for an entity that is to be made.
pub(super) struct Policies(*mut dds_qos_t);

impl Policies {
    pub(super) fn new() -> Self {
        // SAFETY: it is freed when dropped.
        Self(unsafe { cyclors::dds_create_qos() })
    }

    pub(super) fn raw(&self) -> *const dds_qos_t {
        self.0
    }

    /// The entity's user data; a type's hash.
    pub(super) fn user_data(self, data: &[u8]) -> Self {
        if !data.is_empty() {
            // SAFETY: the bytes are copied.
            unsafe { cyclors::dds_qset_userdata(self.0, data.as_ptr().cast(), data.len()) };
        }
        self
    }

    /// Those of a reader. Its history has no effect, since its cache keeps nothing.
    pub(super) fn reader(self, qos: &Qos) -> Self {
        // Both encodings are taken, so that any writer matches.
        let encodings = [
            cyclors::DDS_DATA_REPRESENTATION_XCDR1 as i16,
            cyclors::DDS_DATA_REPRESENTATION_XCDR2 as i16,
        ];
        self.common(qos);
        // SAFETY: the policies are live; the numbers are copied.
        unsafe {
            history(self.0, qos.history);
            cyclors::dds_qset_data_representation(self.0, 2, encodings.as_ptr());
        }
        self
    }

    /// Those of a writer, as rmw_cyclonedds makes them. A reliable one that keeps the last messages drops the oldest
    /// for a new one, acknowledged or not; one that keeps all waits for slow readers.
    pub(super) fn writer(self, qos: &Qos) -> Self {
        self.common(qos);
        let encodings = [cyclors::DDS_DATA_REPRESENTATION_XCDR1 as i16];
        let (kind, depth) = kind_and_depth(qos.history);
        // SAFETY: as in `reader`.
        unsafe {
            history(self.0, qos.history);
            if qos.durability == Durability::TransientLocal {
                cyclors::dds_qset_durability_service(
                    self.0,
                    0,
                    kind,
                    depth,
                    DDS_LENGTH_UNLIMITED,
                    DDS_LENGTH_UNLIMITED,
                    DDS_LENGTH_UNLIMITED,
                );
            }
            cyclors::dds_qset_lifespan(self.0, duration(qos.lifespan_nanos));
            cyclors::dds_qset_data_representation(self.0, 1, encodings.as_ptr());
        }
        self
    }

    fn common(&self, qos: &Qos) {
        let reliability = match qos.reliability {
            Reliability::BestEffort => dds_reliability_kind_DDS_RELIABILITY_BEST_EFFORT,
            Reliability::Reliable => dds_reliability_kind_DDS_RELIABILITY_RELIABLE,
        };
        let durability = match qos.durability {
            Durability::Volatile => dds_durability_kind_DDS_DURABILITY_VOLATILE,
            Durability::TransientLocal => dds_durability_kind_DDS_DURABILITY_TRANSIENT_LOCAL,
        };
        let liveliness = match qos.liveliness {
            Liveliness::Automatic => dds_liveliness_kind_DDS_LIVELINESS_AUTOMATIC,
            Liveliness::ManualByTopic => dds_liveliness_kind_DDS_LIVELINESS_MANUAL_BY_TOPIC,
        };
        let timeout = PUBLISH_TIMEOUT.as_nanos() as i64;
        // SAFETY: the policies are live.
        unsafe {
            cyclors::dds_qset_reliability(self.0, reliability, timeout);
            cyclors::dds_qset_durability(self.0, durability);
            cyclors::dds_qset_deadline(self.0, duration(qos.deadline_nanos));
            cyclors::dds_qset_liveliness(self.0, liveliness, duration(qos.lease_nanos));
        }
    }
}

impl Drop for Policies {
    fn drop(&mut self) {
        // SAFETY: entities have copies.
        unsafe { cyclors::dds_delete_qos(self.0) };
    }
}

fn duration(nanos: u64) -> i64 {
    if nanos >= Qos::FOREVER { FOREVER } else { i64::try_from(nanos).unwrap_or(FOREVER) }
}

fn nanos(duration: i64) -> u64 {
    if duration == FOREVER { Qos::FOREVER } else { u64::try_from(duration).unwrap_or(0) }
}

fn kind_and_depth(history: History) -> (cyclors::dds_history_kind_t, i32) {
    match history {
        History::KeepAll => (dds_history_kind_DDS_HISTORY_KEEP_ALL, DDS_LENGTH_UNLIMITED),
        History::KeepLast(depth) => {
            let depth = i32::try_from(depth.max(1)).unwrap_or(i32::MAX);
            (dds_history_kind_DDS_HISTORY_KEEP_LAST, depth)
        }
    }
}

/// # Safety
/// The policies must be live.
unsafe fn history(policies: *mut dds_qos_t, history: History) {
    let (kind, depth) = kind_and_depth(history);
    // SAFETY: as the caller promises.
    unsafe { cyclors::dds_qset_history(policies, kind, depth) };
}

/// What discovered policies say. DDS does not tell an endpoint's history; where it is missing, it is
/// as by default.
///
/// # Safety
/// The policies must be null or live.
pub(super) unsafe fn qos(policies: *const dds_qos_t) -> Qos {
    let mut qos = Qos::default();
    if policies.is_null() {
        return qos;
    }
    let (mut kind, mut depth, mut time) = (0, 0, 0);
    // SAFETY: as the caller promises; each function fills its places, or says no.
    unsafe {
        if cyclors::dds_qget_reliability(policies, &mut kind, &mut time) {
            qos.reliability = match kind {
                kind if kind == dds_reliability_kind_DDS_RELIABILITY_RELIABLE => {
                    Reliability::Reliable
                }
                _ => Reliability::BestEffort,
            };
        }
        if cyclors::dds_qget_durability(policies, &mut kind) {
            qos.durability = match kind {
                kind if kind == dds_durability_kind_DDS_DURABILITY_VOLATILE => Durability::Volatile,
                _ => Durability::TransientLocal,
            };
        }
        if cyclors::dds_qget_history(policies, &mut kind, &mut depth) {
            qos.history = match kind {
                kind if kind == dds_history_kind_DDS_HISTORY_KEEP_ALL => History::KeepAll,
                _ => History::KeepLast(u32::try_from(depth).unwrap_or(1)),
            };
        }
        if cyclors::dds_qget_deadline(policies, &mut time) {
            qos.deadline_nanos = nanos(time);
        }
        if cyclors::dds_qget_lifespan(policies, &mut time) {
            qos.lifespan_nanos = nanos(time);
        }
        if cyclors::dds_qget_liveliness(policies, &mut kind, &mut time) {
            qos.liveliness = match kind {
                kind if kind == dds_liveliness_kind_DDS_LIVELINESS_AUTOMATIC => {
                    Liveliness::Automatic
                }
                _ => Liveliness::ManualByTopic,
            };
            qos.lease_nanos = nanos(time);
        }
    }
    qos
}

/// What an endpoint says freely, cut.
///
/// # Safety
/// The policies must be null or live.
pub(super) unsafe fn user_data(policies: *const dds_qos_t, bytes_max: usize) -> Vec<u8> {
    let (mut data, mut len) = (ptr::null_mut(), 0);
    // SAFETY: as the caller promises; the bytes are a copy for us to free.
    unsafe {
        if policies.is_null()
            || !cyclors::dds_qget_userdata(policies, &mut data, &mut len)
            || data.is_null()
        {
            return Vec::new();
        }
        let told = std::slice::from_raw_parts(data.cast::<u8>(), len.min(bytes_max)).to_vec();
        cyclors::dds_free(data);
        told
    }
}
