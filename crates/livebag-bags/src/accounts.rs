//! What a recording's recorder has counted, carried into copies.

use std::collections::BTreeMap;

use livebag::{ACCOUNT_KEY, Account, REMOVED_KEY};
use livebag_format::Topic;
use livebag_format::rosbag2::BagMetadata;

use super::MessageSource;

/// Before a topic's name: the key of its losses. Alone: messages are missing, and it is not known how many.
const LOST_KEY: &str = "livebag.lost";

/// Whether a key of rosbag2's custom data is one of these, which hold for the whole recording only.
pub(super) fn is_account(key: &str) -> bool {
    key.starts_with(ACCOUNT_KEY) || key.starts_with(LOST_KEY) || key == REMOVED_KEY
}

fn account(text: &str) -> Option<Account> {
    serde_json::from_str(text).ok()
}

/// What a bag's custom data tell, if they tell it of every topic.
pub(super) fn of_bag(bag: &BagMetadata, topics: &[Topic]) -> Option<Vec<Account>> {
    let told =
        |topic: &Topic| account(bag.custom_data.get(&format!("{ACCOUNT_KEY}{}", topic.name))?);
    topics.iter().map(told).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

/// Whether a bag's custom data tell of missing messages.
pub(super) fn lacks_messages(bag: &BagMetadata) -> bool {
    bag.custom_data.iter().any(|(key, value)| {
        let account = key.starts_with(ACCOUNT_KEY).then(|| account(value)).flatten();
        key.starts_with(LOST_KEY) || account.is_some_and(|account| lacks(&account))
    })
}

/// Whether messages are missing that were published.
pub(super) fn lacks(account: &Account) -> bool {
    account.lost.total() > 0 || account.damaged > 0 || !account.is_complete()
}

/// The accounts of topics that are joined: each with its place among `count`.
pub(super) fn joined(of: impl Iterator<Item = (usize, Account)>, count: usize) -> Vec<Account> {
    let mut all = vec![Account::default(); count];
    of.for_each(|(place, account)| all[place].add(&account));
    all
}

/// Says that messages are missing, and that it is not known how many.
fn lost_unknown() -> (String, String) {
    (LOST_KEY.to_owned(), "it is not known how many".to_owned())
}

/// Replaces what custom data tell of losses by that messages are missing.
pub(super) fn forget(custom_data: &mut BTreeMap<String, String>) {
    custom_data.retain(|key, _| !is_account(key));
    custom_data.extend([lost_unknown()]);
}

/// The custom data of a copy.
pub(super) fn to_custom_data(source: &dyn MessageSource) -> BTreeMap<String, String> {
    let Some(accounts) = source.accounts() else {
        return source.lacks_messages().then(lost_unknown).into_iter().collect();
    };
    let topics = source.topics().iter().zip(&accounts);
    let told = |(topic, account): (&Topic, &Account)| {
        Some((format!("{ACCOUNT_KEY}{}", topic.name), serde_json::to_string(account).ok()?))
    };
    topics.filter_map(told).collect()
}
