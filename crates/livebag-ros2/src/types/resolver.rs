//! Finds definitions; nodes are asked on a separate thread, since a node may be slow.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::{
    Definition, Described, Installed, SERVICE_SUFFIX, SERVICE_TYPE, is_right, of_this_machine,
    request,
};
use crate::limits::{CALL_TIMEOUT, TYPES_ASKED_MAX};
use crate::network::{Network, NetworkError, ServiceRequest};

/// A type whose definition is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Its name: `sensor_msgs/msg/Image`.
    pub type_name: String,
    /// Its hash, if known.
    pub type_hash: Option<String>,
    /// A node that publishes it; empty if unknown.
    pub node: String,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is one, or it is certain that there is none.
    Here(Definition),
    /// A node has been asked; [`TypeResolver::answers`] will tell.
    Asked,
}

/// Finds definitions.
pub struct TypeResolver {
    installed: Installed,
    requests: Option<SyncSender<Wanted>>,
    answers: Arc<Mutex<Vec<(Wanted, Definition)>>>,
    /// Questions under way: many topics of one type ask once. At most [`TYPES_ASKED_MAX`], plus the one being
    /// requested.
    asked: Mutex<BTreeSet<Wanted>>,
    /// Requests still in the queue are dropped. It synchronises nothing else, so it needs no order.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TypeResolver {
    /// Begins.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn begin(network: Arc<dyn Network>, installed: Installed) -> io::Result<Self> {
        let (requests, wanted) = sync_channel(TYPES_ASKED_MAX);
        let answers = Arc::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (answers, is_over) = (Arc::clone(&answers), is_over.clone());
            let builder = std::thread::Builder::new().name("livebag-types".into());
            builder.spawn(move || ask_all(&*network, &wanted, &answers, &is_over))?
        };
        let asked = Mutex::default();
        Ok(Self {
            installed,
            requests: Some(requests),
            answers,
            asked,
            is_over,
            thread: Some(thread),
        })
    }

    /// A definition of this machine's, or a question to the node.
    pub fn find(&self, wanted: &Wanted) -> Answer {
        let told = wanted.type_hash.as_deref();
        if let Some(definition) = of_this_machine(&self.installed, &wanted.type_name, told) {
            return Answer::Here(definition);
        }
        let unknown = |why: &str| {
            let text = format!(
                "there is no definition of {}{why}: its messages are recorded as they are, but \
                 nothing can decode them; source the ROS workspace that has it (AMENT_PREFIX_PATH)",
                wanted.type_name
            );
            Answer::Here(Definition::unknown(told, text))
        };
        if wanted.node.is_empty() || told.is_none() {
            return unknown(" here, and its node cannot be asked (Humble's have no such service)");
        }
        let Some(requests) = &self.requests else { return unknown("") };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.contains(wanted) {
            return Answer::Asked;
        }
        match requests.try_send(wanted.clone()) {
            Ok(()) => {
                asked.insert(wanted.clone());
                Answer::Asked
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                unknown(" here, and too many nodes are being asked already")
            }
        }
    }

    /// What nodes have answered since the last time.
    pub fn answers(&self) -> Vec<(Wanted, Definition)> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = std::mem::take(&mut *answers);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().for_each(|(wanted, _)| {
            asked.remove(wanted);
        });
        answers
    }
}

impl Drop for TypeResolver {
    fn drop(&mut self) {
        // The thread ends when no requests can come; at most one call is waited for.
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn ask_all(
    network: &dyn Network,
    wanted: &Receiver<Wanted>,
    answers: &Mutex<Vec<(Wanted, Definition)>>,
    is_over: &AtomicBool,
) {
    // A node that is silent once is not waited for again: others' types wait behind it.
    let mut silent = BTreeSet::new();
    while let Ok(wanted) = wanted.recv() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let definition = match silent.contains(&wanted.node) {
            true => missing(&wanted, "it did not answer before"),
            false => ask(network, &wanted).unwrap_or_else(|error| {
                if matches!(error, NetworkError::NoAnswer { .. }) && silent.len() < TYPES_ASKED_MAX
                {
                    silent.insert(wanted.node.clone());
                }
                missing(&wanted, &error.to_string())
            }),
        };
        answers.lock().unwrap_or_else(PoisonError::into_inner).push((wanted, definition));
    }
}

/// Asks a type's node.
fn ask(network: &dyn Network, wanted: &Wanted) -> Result<Definition, NetworkError> {
    let told = wanted.type_hash.as_deref();
    let name = format!("{}{SERVICE_SUFFIX}", wanted.node);
    let service = ServiceRequest { name: &name, type_name: SERVICE_TYPE, type_hash: None };
    let asked = request(&wanted.type_name, told.unwrap_or_default());
    let answered = network.call(&service, &asked, CALL_TIMEOUT)?;
    let described = match Described::parse(&wanted.type_name, &answered) {
        Ok(described) => described,
        Err(why) => return Ok(missing(wanted, &why)),
    };
    let is_right = |text: &&String| is_right(&wanted.type_name, text, told);
    Ok(match described.texts.iter().find(is_right) {
        Some(text) => Definition::found(&wanted.type_name, text.clone(), told),
        None => missing(wanted, "what it describes has another hash than the one it tells"),
    })
}

/// There is none, and why.
fn missing(wanted: &Wanted, why: &str) -> Definition {
    let warning = format!(
        "there is no definition of {}: {} was asked, but {why}. Its messages are recorded as they are, \
         but nothing can decode them; source the ROS workspace that has it (AMENT_PREFIX_PATH)",
        wanted.type_name, wanted.node
    );
    Definition::unknown(wanted.type_hash.as_deref(), warning)
}
