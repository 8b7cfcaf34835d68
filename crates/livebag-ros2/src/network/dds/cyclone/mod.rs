//! Cyclone DDS, safely: domains, participants, readers, writers, and what discovery finds.
//!
//! Entities are numbers that Cyclone checks at each call, so that a wrong or deleted one is an error
//! and no danger. The unsafe parts are in `blob` and `cache`: memory that both sides access.

#![expect(unsafe_code, reason = "calls into Cyclone DDS, which is C")]

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cyclors::{
    DDS_BUILTIN_TOPIC_DCPSPUBLICATION, DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION, dds_entity_t,
    dds_return_t, ddsi_sertype,
};

use crate::limits::{DISCOVERED_AT_ONCE, LOG_LINES_MAX, NAME_BYTES_MAX, USER_DATA_BYTES_MAX};
use crate::network::EndpointId;
use crate::qos::Qos;

mod blob;
mod cache;
mod policies;

pub use blob::{ENCAPSULATION_BYTES, is_encoded};
pub use cache::{Taken, Taker};
use policies::Policies;

/// What Cyclone refused, in words.
#[derive(Debug)]
pub struct Refusal(String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What Cyclone returned: an error (below zero), or a value.
fn checked(doing: &str, returned: dds_return_t) -> Result<i32, Refusal> {
    if returned >= 0 {
        return Ok(returned);
    }
    // SAFETY: it is a static string.
    let reason = unsafe { CStr::from_ptr(cyclors::dds_strretcode(returned)) };
    Err(Refusal(format!("Cyclone DDS cannot {doing}: {}", reason.to_string_lossy())))
}

fn c_string(text: &str) -> Result<CString, Refusal> {
    CString::new(text).map_err(|_| Refusal("a name has a zero byte".to_owned()))
}

/// What Cyclone logged last, in place of its writing to standard error.
static LOG: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

unsafe extern "C" fn keep_log(_: *mut c_void, line: *const cyclors::dds_log_data_t) {
    // SAFETY: Cyclone's line lives for this call, and its message ends with a zero.
    let text = unsafe {
        let line = &*line;
        if line.message.is_null() { return } else { CStr::from_ptr(line.message) }
    };
    let text = text.to_bytes();
    let text = String::from_utf8_lossy(&text[..text.len().min(NAME_BYTES_MAX)]).trim().to_owned();
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    if log.len() >= LOG_LINES_MAX {
        log.pop_front();
    }
    log.push_back(text);
}

fn said() -> String {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.drain(..).collect::<Vec<_>>().join("; ")
}

/// An entity of Cyclone's, deleted with all that it has when dropped.
#[derive(Debug)]
struct Entity(dds_entity_t);

impl Drop for Entity {
    fn drop(&mut self) {
        // SAFETY: Cyclone checks the number. Deleting waits until the entity's callbacks have ended.
        unsafe { cyclors::dds_delete(self.0) };
    }
}

/// The domains of this process. Its settings are those of the first participant.
static DOMAINS: Mutex<Option<HashMap<u32, (Entity, usize)>>> = Mutex::new(None);

/// A share in a domain.
#[derive(Debug)]
struct Domain(u32);

impl Domain {
    fn join(id: u32, settings: &str) -> Result<Self, Refusal> {
        let settings = c_string(settings)?;
        let mut domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
        let domains = domains.get_or_insert_with(HashMap::new);
        if let Some((_, shares)) = domains.get_mut(&id) {
            *shares += 1;
            return Ok(Self(id));
        }
        // SAFETY: the function is static and needs no data.
        unsafe { cyclors::dds_set_log_sink(Some(keep_log), ptr::null_mut()) };
        said();
        // SAFETY: the string ends with a zero and is copied.
        let entity = unsafe { cyclors::dds_create_domain(id, settings.as_ptr()) };
        let entity = checked("make the domain", entity)
            .map_err(|refusal| Refusal(format!("{refusal} ({})", said())))?;
        domains.insert(id, (Entity(entity), 1));
        Ok(Self(id))
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let mut domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(domains) = domains.as_mut() else { return };
        if let Some((_, shares)) = domains.get_mut(&self.0) {
            *shares -= 1;
            if *shares == 0 {
                domains.remove(&self.0);
            }
        }
    }
}

/// A topic's names in DDS.
#[derive(Clone, Copy, Debug)]
pub struct TopicNames<'a> {
    /// Its name.
    pub topic: &'a str,
    /// Its type's.
    pub type_name: &'a str,
    /// Whether its type has a key; those of ROS 2 had none before Jazzy.
    pub is_keyed: bool,
}

impl<'a> TopicNames<'a> {
    /// Those of a topic without a key.
    pub const fn new(topic: &'a str, type_name: &'a str) -> Self {
        Self { topic, type_name, is_keyed: false }
    }
}

/// Whether the endpoint's topic has a key (RTPS 2.5, 9.3.1.2: the last byte is its kind).
pub fn is_keyed(id: &EndpointId) -> bool {
    matches!(id[15] & 0x3f, 0x02 | 0x07)
}

/// This process, or a part of it, in a domain.
#[derive(Debug)]
pub struct Participant {
    entity: Entity,
    id: EndpointId,
    // Last: goes when the participant has gone.
    _domain: Domain,
}

impl Participant {
    /// Joins domain `id`. `settings` are Cyclone's own, as `CYCLONEDDS_URI` has them.
    pub fn join(id: u32, settings: &str, user_data: &[u8]) -> Result<Self, Refusal> {
        let domain = Domain::join(id, settings)?;
        let policies = Policies::new().user_data(user_data);
        // SAFETY: the policies live for the call and are copied.
        let entity = unsafe { cyclors::dds_create_participant(id, policies.raw(), ptr::null()) };
        let entity = Entity(checked("take part in the domain", entity)?);
        let id = id_of(entity.0)?;
        Ok(Self { entity, id, _domain: domain })
    }

    /// Its identity.
    pub fn id(&self) -> EndpointId {
        self.id
    }

    fn topic(self: &Arc<Self>, names: &TopicNames<'_>) -> Result<Topic, Refusal> {
        let (name, type_name) = (c_string(names.topic)?, c_string(names.type_name)?);
        let mut sertype = blob::sertype(&type_name, names.is_keyed);
        // SAFETY: all pointers live for the call. Cyclone takes the type over, and puts the one in
        // its place that it has, if it is equal; if it fails, the type stays ours.
        let entity = unsafe {
            cyclors::dds_create_topic_sertype(
                self.entity.0,
                name.as_ptr(),
                &mut sertype,
                ptr::null(),
                ptr::null(),
                ptr::null(),
            )
        };
        match checked("make the topic", entity) {
            Ok(entity) => {
                let participant = Arc::clone(self);
                Ok(Topic { entity: Entity(entity), sertype, _participant: participant })
            }
            Err(refusal) => {
                // SAFETY: see above.
                unsafe { cyclors::ddsi_sertype_unref(sertype) };
                Err(refusal)
            }
        }
    }

    /// Reads a topic.
    pub fn read(
        self: &Arc<Self>,
        names: &TopicNames<'_>,
        qos: &Qos,
        user_data: &[u8],
        taker: Arc<dyn Taker>,
    ) -> Result<Reader, Refusal> {
        let topic = self.topic(names)?;
        let policies = Policies::new().reader(qos).user_data(user_data);
        let cache = cache::Cache::raw(taker);
        // SAFETY: the policies live for the call and are copied. The reader owns the cache. If creation fails, Cyclone
        // does not report how far it got, and the few bytes are leaked.
        let entity = unsafe {
            cyclors::dds_create_reader_rhc(
                self.entity.0,
                topic.entity.0,
                policies.raw(),
                ptr::null(),
                cache,
            )
        };
        let entity = Entity(checked("make the reader", entity)?);
        Ok(Reader { id: id_of(entity.0)?, entity, _topic: topic })
    }

    /// Writes a topic.
    pub fn write(
        self: &Arc<Self>,
        names: &TopicNames<'_>,
        qos: &Qos,
        user_data: &[u8],
    ) -> Result<Writer, Refusal> {
        let topic = self.topic(names)?;
        let policies = Policies::new().writer(qos).user_data(user_data);
        // SAFETY: the policies live for the call and are copied.
        let entity = unsafe {
            cyclors::dds_create_writer(self.entity.0, topic.entity.0, policies.raw(), ptr::null())
        };
        let entity = Entity(checked("make the writer", entity)?);
        Ok(Writer { id: id_of(entity.0)?, entity, topic, written: Mutex::new(0) })
    }

    /// Watches which endpoints come and go.
    pub fn discover(&self) -> Result<Discovery, Refusal> {
        // SAFETY: the numbers are checked.
        let waitset =
            Entity(checked("wait", unsafe { cyclors::dds_create_waitset(self.entity.0) })?);
        let builtin = [DDS_BUILTIN_TOPIC_DCPSPUBLICATION, DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION];
        let mut readers = Vec::new();
        for (index, topic) in builtin.into_iter().enumerate() {
            // SAFETY: the numbers are checked; no policies and no listener.
            let entity = unsafe {
                cyclors::dds_create_reader(self.entity.0, topic, ptr::null(), ptr::null())
            };
            let entity = Entity(checked("read discovery", entity)?);
            // SAFETY: as above.
            checked("read discovery", unsafe {
                cyclors::dds_set_status_mask(
                    entity.0,
                    1 << cyclors::dds_status_id_DDS_DATA_AVAILABLE_STATUS_ID,
                )
            })?;
            // SAFETY: as above.
            checked("read discovery", unsafe {
                cyclors::dds_waitset_attach(waitset.0, entity.0, index as isize)
            })?;
            readers.push(entity);
        }
        // SAFETY: as above. The waitset wakes for itself, too: that is how it is ended.
        checked("wait", unsafe { cyclors::dds_waitset_attach(waitset.0, waitset.0, 2) })?;
        Ok(Discovery { readers, waitset })
    }
}

fn id_of(entity: dds_entity_t) -> Result<EndpointId, Refusal> {
    let mut guid = cyclors::dds_builtintopic_guid { v: [0; 16] };
    // SAFETY: the guid is ours and is filled.
    checked("tell an identity", unsafe { cyclors::dds_get_guid(entity, &mut guid) })?;
    Ok(guid.v)
}

struct Topic {
    entity: Entity,
    /// Lives as long as the topic,
    sertype: *mut ddsi_sertype,
    /// which goes with its participant.
    _participant: Arc<Participant>,
}

// SAFETY: a type is read only once it is registered, and its counts are atomic.
unsafe impl Send for Topic {}
// SAFETY: as above.
unsafe impl Sync for Topic {}

/// Reads a topic until dropped.
pub struct Reader {
    id: EndpointId,
    entity: Entity,
    _topic: Topic,
}

impl Reader {
    /// Writers whose messages it takes.
    pub fn writers(&self) -> usize {
        // SAFETY: without a place for them, they are counted only.
        let count =
            unsafe { cyclors::dds_get_matched_publications(self.entity.0, ptr::null_mut(), 0) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Its identity.
    pub fn id(&self) -> EndpointId {
        self.id
    }
}

/// Writes a topic until dropped.
pub struct Writer {
    id: EndpointId,
    entity: Entity,
    topic: Topic,
    /// Messages written, which is the last one's sequence number. Held while one is written, so that readers in this
    /// process get the sequence number that others read from the packets.
    written: Mutex<u64>,
}

impl Writer {
    /// Its identity.
    pub fn id(&self) -> EndpointId {
        self.id
    }

    /// Writes a message, and waits while reliable readers are behind.
    pub fn write(&self, data: &[u8]) -> Result<(), Refusal> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the type lives as long as the topic. `dds_writecdr` takes the message over.
        let returned = unsafe {
            let message = blob::message(self.topic.sertype, data, *written + 1);
            cyclors::dds_writecdr(self.entity.0, message)
        };
        checked("write", returned)?;
        *written += 1;
        Ok(())
    }

    /// Readers that take its messages.
    pub fn readers(&self) -> usize {
        // SAFETY: without a place for them, they are counted only.
        let count =
            unsafe { cyclors::dds_get_matched_subscriptions(self.entity.0, ptr::null_mut(), 0) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Waits until all have acknowledged; whether they have.
    pub fn wait_for_acknowledgements(&self, within: Duration) -> bool {
        let within = i64::try_from(within.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: the number is checked.
        unsafe { cyclors::dds_wait_for_acks(self.entity.0, within) >= 0 }
    }
}

/// An endpoint that discovery found, or that has gone.
#[derive(Debug)]
pub struct Discovered {
    /// Its identity.
    pub id: EndpointId,
    /// Whether it writes.
    pub is_writer: bool,
    /// Its description; none if it has gone.
    pub there: Option<Described>,
}

/// What an endpoint announces of itself.
#[derive(Debug)]
pub struct Described {
    /// Its participant.
    pub participant: EndpointId,
    /// The topic's name, as DDS has it.
    pub topic: String,
    /// The type's name, as DDS has it.
    pub type_name: String,
    /// Its policies.
    pub qos: Qos,
    /// Its user data.
    pub user_data: Vec<u8>,
}

/// What discovery finds.
pub struct Discovery {
    readers: Vec<Entity>,
    waitset: Entity,
}

impl Discovery {
    /// Waits until there is a change, and passes it on; endpoints with invalid names are passed to `refuse`. Whether to
    /// go on: not after [`Self::end`].
    pub fn wait(&self, mut take: impl FnMut(Discovered), mut refuse: impl FnMut()) -> bool {
        let mut attached = [0_isize; 3];
        // SAFETY: there are three places.
        let count = unsafe {
            cyclors::dds_waitset_wait(
                self.waitset.0,
                attached.as_mut_ptr(),
                attached.len(),
                i64::MAX,
            )
        };
        let Ok(count) = usize::try_from(count) else { return false };
        let woken = &attached[..count.min(attached.len())];
        if woken.contains(&2) {
            return false;
        }
        for &index in woken {
            let is_writer = index == 0;
            if let Some(reader) = usize::try_from(index).ok().and_then(|at| self.readers.get(at)) {
                while take_discovered(reader, is_writer, &mut take, &mut refuse) {}
            }
        }
        true
    }

    /// Makes [`Self::wait`] return.
    pub fn end(&self) {
        // SAFETY: the number is checked.
        unsafe { cyclors::dds_waitset_set_trigger(self.waitset.0, true) };
    }
}

/// Whether there may be more.
fn take_discovered(
    reader: &Entity,
    is_writer: bool,
    take: &mut impl FnMut(Discovered),
    refuse: &mut impl FnMut(),
) -> bool {
    const AT_ONCE: usize = DISCOVERED_AT_ONCE;
    let mut samples = [ptr::null_mut::<c_void>(); AT_ONCE];
    // SAFETY: it is integers, for which zeros are values.
    let mut infos: [cyclors::dds_sample_info; AT_ONCE] = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for that many; null pointers ask for memory of Cyclone's.
    let count = unsafe {
        cyclors::dds_take(
            reader.0,
            samples.as_mut_ptr(),
            infos.as_mut_ptr(),
            AT_ONCE,
            AT_ONCE as u32,
        )
    };
    let Ok(count) = usize::try_from(count) else { return false };
    for (&sample, info) in samples.iter().zip(&infos).take(count) {
        // SAFETY: this is what these topics' samples are, until they are given back.
        let sample = unsafe { &*sample.cast::<cyclors::dds_builtintopic_endpoint>() };
        let is_there =
            info.valid_data && info.instance_state == cyclors::dds_instance_state_DDS_IST_ALIVE;
        let id = sample.key.v;
        if !is_there {
            take(Discovered { id, is_writer, there: None });
            continue;
        }
        // SAFETY: a valid sample's strings and policies are Cyclone's until it is given back.
        match unsafe { describe(sample) } {
            Some(there) => take(Discovered { id, is_writer, there: Some(there) }),
            None => refuse(),
        }
    }
    if count > 0 {
        // SAFETY: these are the samples that were lent.
        unsafe { cyclors::dds_return_loan(reader.0, samples.as_mut_ptr(), count as i32) };
    }
    count == AT_ONCE
}

/// # Safety
/// The sample must be valid and lent.
unsafe fn describe(sample: &cyclors::dds_builtintopic_endpoint) -> Option<Described> {
    // SAFETY: as the caller promises.
    unsafe {
        Some(Described {
            participant: sample.participant_key.v,
            topic: name(sample.topic_name)?,
            type_name: name(sample.type_name)?,
            qos: policies::qos(sample.qos),
            user_data: policies::user_data(sample.qos, USER_DATA_BYTES_MAX),
        })
    }
}

/// # Safety
/// The text must be null or end with a zero.
unsafe fn name(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    if text.len() > NAME_BYTES_MAX {
        return None;
    }
    String::from_utf8(text.to_vec()).ok()
}
