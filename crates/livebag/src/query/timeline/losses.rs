//! Where messages were lost: at gaps in the source's sequence.
//!
//! A gap shows how many messages are missing between two, and nothing else: not why, and not whether they were lost or
//! left out on purpose. Sequences of several publishers on one topic have gaps of no meaning. So gaps are used only if
//! they are not larger than the counted losses, and have a cause only if there was a single one.

use livebag_format::container::Losses;
use livebag_format::index::IndexEntry;

use super::summary::Summary;
use super::{ContainerTopic, TimeBins};

/// How much older than a live topic's newest message a gap is, of which the manifest surely tells.
const TOLD_AFTER_NANOS: u64 = 3_000_000_000;

/// Why messages are not in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// Missing in the source's sequence when they reached livebag.
    Transport,
    /// Dropped because the topic's queue was full.
    Queue,
    /// Overwritten in the stream's slot before the device had them.
    Lapped,
    /// Refused by the disk.
    Disk,
}

impl LossCause {
    const ALL: [Self; 4] = [Self::Transport, Self::Queue, Self::Lapped, Self::Disk];

    /// As it is called in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Queue => "queue",
            Self::Lapped => "lapped",
            Self::Disk => "disk",
        }
    }

    fn of(self, losses: &mut Losses) -> &mut u64 {
        match self {
            Self::Transport => &mut losses.transport,
            Self::Queue => &mut losses.queue,
            Self::Lapped => &mut losses.lapped,
            Self::Disk => &mut losses.disk,
        }
    }

    /// The only one that there was, if there was one. A disk that fails ends the recording: the refused messages come
    /// after the last message, unless nothing else was lost.
    fn only(mut losses: Losses) -> Option<Self> {
        let (disk, others) = (Self::Disk, &Self::ALL[..3]);
        let mut there = others.iter().filter(|cause| *cause.of(&mut losses) > 0);
        match (there.next(), there.next()) {
            (Some(cause), None) => Some(*cause),
            (None, _) => (losses.disk > 0).then_some(disk),
            _ => None,
        }
    }
}

/// Messages lost between two that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSpan {
    /// Log time of the last message before.
    pub from_nanos: u64,
    /// Log time of the first message after.
    pub to_nanos: u64,
    /// How many.
    pub count: u64,
    /// Why; `None` if there was more than one cause at the time.
    pub cause: Option<LossCause>,
}

/// A message's place in time and in the sequence.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub log_time_nanos: u64,
    pub sequence: u64,
}

/// A gap in the sequence.
#[derive(Clone, Copy)]
pub(super) struct Gap {
    from_nanos: u64,
    to_nanos: u64,
    count: u64,
    /// In which split it was noticed.
    segment: usize,
}

/// From one message to the next.
pub(super) struct Step {
    pub from: Place,
    pub to: Place,
}

impl Step {
    /// Messages missing in between; unknown if a sequence begins anew.
    pub fn gap(&self, segment: usize) -> Gap {
        let missing = self.to.sequence.saturating_sub(self.from.sequence).saturating_sub(1);
        let (from_nanos, to_nanos) = (self.from.log_time_nanos, self.to.log_time_nanos);
        Gap { from_nanos, to_nanos, count: missing, segment }
    }
}

/// Goes from message to message.
pub(super) struct Steps {
    last: Option<Place>,
}

impl Steps {
    pub fn after(last: Option<Place>) -> Self {
        Self { last }
    }

    pub fn last(&self) -> Option<Place> {
        self.last
    }

    /// The step to this message. A repeated message of an earlier split at the head of this one is skipped.
    pub fn to(&mut self, entry: &IndexEntry) -> Option<Step> {
        if entry.repeated {
            return None;
        }
        let to = Place { log_time_nanos: entry.log_time_nanos, sequence: entry.sequence };
        self.last.replace(to).map(|from| Step { from, to })
    }
}

fn joins(kept: &mut Gap, gap: &Gap, shift: u32) -> bool {
    let is_near =
        kept.segment == gap.segment && kept.from_nanos >> shift == gap.from_nanos >> shift;
    if is_near {
        kept.to_nanos = kept.to_nanos.max(gap.to_nanos);
        kept.count = kept.count.saturating_add(gap.count);
    }
    is_near
}

/// Adds a gap, if it is one.
pub(super) fn push(gaps: &mut Vec<Gap>, gap: Gap, shift: u32) {
    let is_new = gap.count > 0 && !gaps.last_mut().is_some_and(|last| joins(last, &gap, shift));
    if is_new {
        gaps.push(gap);
    }
}

/// Makes one of those that begin in one cell.
pub(super) fn join(gaps: &mut Vec<Gap>, shift: u32) {
    gaps.dedup_by(|gap, kept| joins(kept, gap, shift));
}

/// Which gaps of a topic are losses, and why.
pub(super) struct Placing {
    /// Gaps that end after this are not reported yet.
    until_nanos: u64,
    /// By split: the only cause there was.
    causes: Vec<Option<LossCause>>,
}

/// How many losses have a place.
pub(super) struct Placed {
    pub total: u64,
    by_cause: Losses,
}

impl Placed {
    /// Losses without a place, by cause.
    pub fn rest_of(mut self, lost: &Losses) -> Losses {
        let mut rest = *lost;
        for cause in LossCause::ALL {
            let placed = *cause.of(&mut self.by_cause);
            let rest = cause.of(&mut rest);
            *rest = rest.saturating_sub(placed);
        }
        rest
    }
}

impl Placing {
    pub fn new(topic: &ContainerTopic, summary: &Summary, is_live: bool) -> Self {
        let of_topic = topic.lost;
        let whole = LossCause::only(of_topic);
        let losses = |at: usize| topic.segments.get(at).map(|segment| segment.lost);
        let cause = |at: usize| {
            // Losses just before a split may have been counted there.
            let before = || LossCause::only(losses(at.checked_sub(1)?)?);
            let here = losses(at)?;
            if here.total() > 0 { LossCause::only(here) } else { before() }
        };
        let causes = (0..topic.segments.len()).map(|at| whole.or_else(|| cause(at))).collect();
        let until_nanos = believed_until(&summary.lost, &of_topic, summary.last, is_live);
        Self { until_nanos, causes }
    }

    fn is_loss(&self, gap: &Gap) -> bool {
        gap.to_nanos <= self.until_nanos
    }

    /// How many of all have a place.
    pub fn placed(&self, gaps: &[Gap]) -> Placed {
        let mut placed = Placed { total: 0, by_cause: Losses::default() };
        for gap in gaps.iter().filter(|gap| self.is_loss(gap)) {
            placed.total = placed.total.saturating_add(gap.count);
            if let Some(cause) = self.causes.get(gap.segment).copied().flatten() {
                *cause.of(&mut placed.by_cause) += gap.count;
            }
        }
        placed
    }

    /// The losses within the time of the bins.
    pub fn spans(&self, gaps: &[Gap], bins: TimeBins, out: &mut Vec<LossSpan>) {
        let mut near: Vec<Gap> = Vec::new();
        for gap in gaps.iter().filter(|gap| self.is_loss(gap)) {
            if gap.to_nanos >= bins.start_nanos() && gap.from_nanos <= bins.last_nanos() {
                push(&mut near, *gap, bins.shift);
            }
        }
        out.extend(near.iter().map(|gap| LossSpan {
            from_nanos: gap.from_nanos,
            to_nanos: gap.to_nanos,
            count: gap.count,
            cause: self.causes.get(gap.segment).copied().flatten(),
        }));
    }
}

/// The time until which gaps are losses. It is the end if no more is missing than was lost. For a live topic it is the
/// time up to which that holds, since the newest losses are not counted yet. Otherwise it is never.
fn believed_until(gaps: &[Gap], lost: &Losses, last: Option<Place>, is_live: bool) -> u64 {
    let most = lost.transport + lost.queue + lost.lapped + lost.disk;
    let missing = |gaps: &[Gap]| gaps.iter().fold(0u64, |sum, gap| sum.saturating_add(gap.count));
    if missing(gaps) <= most {
        return u64::MAX;
    }
    let newest = last.map_or(0, |last| last.log_time_nanos);
    let told = gaps.partition_point(|gap| gap.to_nanos < newest.saturating_sub(TOLD_AFTER_NANOS));
    if !is_live || missing(&gaps[..told]) > most {
        return 0;
    }
    let mut until = u64::MAX;
    let mut sum = missing(&gaps[..told]);
    for gap in &gaps[told..] {
        sum = sum.saturating_add(gap.count);
        if sum > most {
            until = until.min(gap.to_nanos.saturating_sub(1));
        }
    }
    until
}
