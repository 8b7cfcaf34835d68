//! Names that have not appeared one second after the start, and streams that cannot be read, as they appear: printed
//! while there is time to fix it.

use std::collections::BTreeSet;
use std::sync::Arc;

use livebag::{Status, stream_topic};
use livebag_format::Visible;
use livebag_ros2::network::Network;
use livebag_shm::{Owners, Reader};

use super::names::{Unreadable, Wanted};
use crate::select::similar;

/// When it is printed.
const AFTER_NANOS: u64 = 1_000_000_000;
/// Maximum names of existing streams to list; others are counted.
const LISTED_MAX: usize = 8;

/// Says each once.
pub struct Waiting {
    is_said: bool,
    network: Option<Arc<dyn Network>>,
    /// Where all streams are chosen, or some by pattern or type, so that one that cannot be read may be meant.
    unreadable: Option<Unreadable>,
    owners: Owners,
}

impl Waiting {
    pub fn new(network: Option<Arc<dyn Network>>, takes_unnamed: bool, owners: Owners) -> Self {
        let unreadable = takes_unnamed.then(|| Unreadable::new(owners));
        Self { is_said: false, network, unreadable, owners }
    }

    /// The sentences to say now.
    pub fn look(&mut self, elapsed_nanos: u64, wanted: &Wanted, status: &Status) -> Vec<String> {
        let refusals = self.unreadable.as_mut().map(Unreadable::look).unwrap_or_default();
        let refusals = refusals.iter().map(|why| format!("warning: not recorded: {why}"));
        let mut notices: Vec<String> = refusals.collect();
        if self.is_said || elapsed_nanos < AFTER_NANOS {
            return notices;
        }
        self.is_said = true;
        let here = self.here();
        notices.extend(wanted.unseen().map(|(name, refusal)| match refusal {
            Some(refusal) => format!("warning: {refusal}"),
            None => self.waiting_for(name, &here),
        }));
        let gone = status.topics.iter().filter(|topic| topic.writer_gone);
        notices.extend(gone.map(|topic| {
            format!(
                "warning: {}: its writer is gone; nothing comes until it is back",
                Visible(&topic.name)
            )
        }));
        if status.topics.is_empty() && notices.is_empty() {
            notices.push(self.nothing(&here));
        }
        notices
    }

    /// Names of what could be recorded here.
    fn here(&self) -> BTreeSet<String> {
        if let Some(network) = &self.network {
            let endpoints = network.endpoints().into_iter();
            return endpoints.map(|endpoint| endpoint.name).collect();
        }
        let names = livebag_shm::list().unwrap_or_default();
        let topic = |name: &String| {
            Some(stream_topic(Reader::open_of(name, self.owners).ok()?.info()).name)
        };
        names.iter().filter_map(topic).collect()
    }

    fn kind(&self) -> &'static str {
        if self.network.is_some() { "topics there" } else { "streams here" }
    }

    fn waiting_for(&self, name: &str, here: &BTreeSet<String>) -> String {
        let meant = similar(name, here.iter().map(String::as_str))
            .map_or_else(String::new, |meant| format!("; did you mean {}?", Visible(meant)));
        format!("waiting for {}; {}: {}{meant}", Visible(name), self.kind(), listed(here))
    }

    fn nothing(&self, here: &BTreeSet<String>) -> String {
        match &self.network {
            Some(network) => format!(
                "waiting for topics: no requested topic is published in this network yet \
                 ({}); {}: {}",
                network.describe(),
                self.kind(),
                listed(here)
            ),
            None => format!(
                "waiting for streams: no requested stream exists yet; {}: {}",
                self.kind(),
                listed(here)
            ),
        }
    }
}

fn listed(here: &BTreeSet<String>) -> String {
    if here.is_empty() {
        return "none".into();
    }
    let mut names: Vec<_> =
        here.iter().take(LISTED_MAX).map(|name| Visible(name).to_string()).collect();
    if here.len() > LISTED_MAX {
        names.push(format!("{} more", here.len() - LISTED_MAX));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_met_with_the_name_that_was_meant() {
        let here = ["/cam", "/imu", "/lidar/points"].map(str::to_owned).into();
        let similar = |name, here: &BTreeSet<String>| {
            similar(name, here.iter().map(String::as_str)).map(str::to_owned)
        };
        assert_eq!(similar("/camm", &here), Some("/cam".into()));
        assert_eq!(similar("lidar/point", &here), Some("/lidar/points".into()));
        assert_eq!(similar("/odometry", &here), None);
        assert_eq!(listed(&here), "/cam, /imu, /lidar/points");
        assert_eq!(listed(&BTreeSet::new()), "none");
        assert_eq!(listed(&["/a\x1b[2J".to_owned()].into()), "/a\\u{1b}[2J");
    }
}
