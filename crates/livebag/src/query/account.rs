//! Where every message is that was published while a container was recorded.

use livebag_format::Account;

use super::{Container, ContainerError, ContainerTopic};

impl Container {
    /// The account of each topic, in the order of [`Container::topics`]; of a live container as its recorder last wrote
    /// it, about a second ago.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn accounts(&self) -> Result<Vec<Account>, ContainerError> {
        let mut removed = self.manifest.removed.topics.clone();
        let mut account = |topic: &ContainerTopic| {
            // Two topics may have one name: the first one gets the removed messages of both.
            let at = removed.iter().position(|removed| removed.name == topic.topic.name);
            let removed = at.map(|at| removed.swap_remove(at)).unwrap_or_default();
            let mut lost = topic.lost;
            lost.add(&removed.lost);
            Ok(Account {
                recorded: topic.message_count()?,
                removed: removed.messages,
                damaged: topic.damaged + topic.missing()?,
                repeated: topic.repeated + removed.repeated,
                skipped: topic.skipped + removed.skipped,
                lost,
                unknown_since_nanos: self.unknown_since_nanos(),
            })
        };
        self.topics.iter().map(&mut account).collect()
    }

    /// The account of all topics together.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn account(&self) -> Result<Account, ContainerError> {
        let mut sum =
            Account { unknown_since_nanos: self.unknown_since_nanos(), ..Account::default() };
        self.accounts()?.iter().for_each(|account| sum.add(account));
        // Older versions counted removed messages only for all topics together.
        let removed = &self.manifest.removed;
        let is_by_topic = removed.topics.iter().any(|topic| topic.messages > 0);
        if !is_by_topic && removed.messages > 0 {
            sum.removed = removed.messages;
            sum.repeated = sum.repeated.saturating_add(removed.repeated);
            sum.lost.add(&removed.lost);
        }
        Ok(sum)
    }
}
