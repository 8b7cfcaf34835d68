//! Where every published message is: the account of a topic, or of a whole recording.

use serde::{Deserialize, Serialize};

use crate::container::Losses;

/// Every message that was published is in exactly one of these counts:
///
/// `published = recorded + removed + damaged - repeated + skipped + lost + unknown`
///
/// It is shown alike everywhere: by `record`, `info`, `ctl`, `--stats`, servers, Python.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Told", into = "Told")]
pub struct Account {
    /// Messages in the recording.
    pub recorded: u64,
    /// Messages that were recorded, and removed with their splits by retention.
    pub removed: u64,
    /// Messages that were recorded, and that recovery could not prove, or whose files are gone or cut.
    pub damaged: u64,
    /// How many of those three were recorded before, and stood at the head of a split once more.
    pub repeated: u64,
    /// Messages left out on purpose: while paused, above the topic's rate, or dropped from a ring.
    pub skipped: u64,
    /// Messages lost, by cause.
    pub lost: Losses,
    /// Since when it is not known what else was published, nanoseconds since the Unix epoch: the recorder died
    /// then at the earliest. `None` if everything is known.
    pub unknown_since_nanos: Option<u64>,
}

impl Account {
    /// Messages published, as far as known: a lower bound.
    pub fn published(&self) -> u64 {
        let kept = self.recorded.saturating_add(self.removed).saturating_add(self.damaged);
        kept.saturating_sub(self.repeated)
            .saturating_add(self.skipped)
            .saturating_add(self.lost.total())
    }

    /// Whether nothing is unknown.
    pub fn is_complete(&self) -> bool {
        self.unknown_since_nanos.is_none()
    }

    /// Adds another topic's account.
    pub fn add(&mut self, other: &Self) {
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.removed = self.removed.saturating_add(other.removed);
        self.damaged = self.damaged.saturating_add(other.damaged);
        self.repeated = self.repeated.saturating_add(other.repeated);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.lost.add(&other.lost);
        let since = [self.unknown_since_nanos, other.unknown_since_nanos];
        self.unknown_since_nanos = since.into_iter().flatten().min();
    }
}

/// Losses by cause, for serialisation.
#[derive(Default, Serialize, Deserialize)]
struct ToldLosses {
    #[serde(flatten)]
    causes: Losses,
    /// `null` where it is not known: the recorder died.
    total: Option<u64>,
}

/// For serialisation, with derived values. `null` means unknown.
#[derive(Serialize, Deserialize)]
struct Told {
    published: Option<u64>,
    recorded: u64,
    #[serde(default)]
    removed: u64,
    #[serde(default)]
    damaged: u64,
    #[serde(default)]
    repeated: u64,
    #[serde(default)]
    skipped: u64,
    lost: ToldLosses,
    unknown: Option<u64>,
    #[serde(
        rename = "unknown_since_time",
        with = "crate::json_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    unknown_since_nanos: Option<u64>,
}

impl From<Account> for Told {
    fn from(account: Account) -> Self {
        let is_complete = account.is_complete();
        Self {
            published: is_complete.then(|| account.published()),
            recorded: account.recorded,
            removed: account.removed,
            damaged: account.damaged,
            repeated: account.repeated,
            skipped: account.skipped,
            lost: ToldLosses {
                causes: account.lost,
                total: is_complete.then(|| account.lost.total()),
            },
            unknown: is_complete.then_some(0),
            unknown_since_nanos: account.unknown_since_nanos,
        }
    }
}

impl From<Told> for Account {
    fn from(told: Told) -> Self {
        // Without a time it is not known since when.
        let since = told.unknown_since_nanos.or(told.unknown.is_none().then_some(0));
        Self {
            recorded: told.recorded,
            removed: told.removed,
            damaged: told.damaged,
            repeated: told.repeated,
            skipped: told.skipped,
            lost: told.lost.causes,
            unknown_since_nanos: since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account {
            recorded: 100,
            removed: 20,
            damaged: 1,
            repeated: 3,
            skipped: 7,
            lost: Losses { queue: 2, disk: 3, ..Losses::default() },
            unknown_since_nanos: None,
        }
    }

    #[test]
    fn the_equation_holds_in_what_is_told() {
        let told = serde_json::to_value(account()).unwrap();
        let of = |name: &str| told[name].as_u64().unwrap();
        let kept = of("recorded") + of("removed") + of("damaged") - of("repeated");
        let rest = of("skipped") + told["lost"]["total"].as_u64().unwrap() + of("unknown");
        assert_eq!(of("published"), kept + rest);
        assert_eq!(serde_json::from_value::<Account>(told).unwrap(), account());
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let unknown = Account { unknown_since_nanos: Some(5), ..account() };
        let told = serde_json::to_value(unknown).unwrap();
        assert!(told["published"].is_null() && told["unknown"].is_null(), "{told}");
        assert_eq!(serde_json::from_value::<Account>(told).unwrap(), unknown);
        let mut sum = account();
        sum.add(&unknown);
        assert_eq!(sum.unknown_since_nanos, Some(5));
        assert_eq!((sum.recorded, sum.lost.total()), (200, 10));
    }
}
