//! Recordings of other makes, as `livebag`'s player reads them.

use std::path::Path;

use livebag::{
    Container, Output, PlayError, PlayOptions, PlaySource, Playable, Player, SourceError,
    SourceMessage, SourceTotals, TopicSurvey,
};
use livebag_format::Topic;

use crate::{MessageSource, open_foreign};

struct Foreign(Box<dyn MessageSource>);

impl PlaySource for Foreign {
    fn topics(&self) -> &[Topic] {
        self.0.topics()
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, SourceError> {
        Ok(self.0.next_message()?)
    }

    fn skip_before(&mut self, log_time_nanos: u64) {
        self.0.skip_before(log_time_nanos);
    }

    fn totals(&self) -> Option<SourceTotals> {
        self.0.totals()
    }

    fn lost_count(&self) -> u64 {
        self.0.lost_count()
    }

    fn warnings(&self) -> &[String] {
        self.0.warnings()
    }
}

/// Opens what [`open_foreign`] does, to be played.
///
/// # Errors
/// If it is not there, or cannot be read.
pub fn open_playable(path: &Path) -> Result<Playable, SourceError> {
    match path.exists() {
        true => Ok(playable(open_foreign(path)?)),
        false => Ok(Playable::Container(Container::open(path)?)),
    }
}

/// A source, to be played.
pub fn playable(source: Box<dyn MessageSource>) -> Playable {
    Playable::Source(Box::new(Foreign(source)))
}

/// A player of containers and of anything that [`open_foreign`] opens, played as one.
///
/// # Errors
/// As of [`Player::open`].
pub fn open_player(
    paths: &[impl AsRef<Path>],
    options: PlayOptions,
    output: &mut dyn Output,
) -> Result<Player, PlayError> {
    Player::open_with(paths, options, output, open_playable)
}

/// The topics of anything that can be played, with the number and size of their messages.
///
/// # Errors
/// If it cannot be read.
pub fn survey_play(path: &Path) -> Result<Vec<(Topic, TopicSurvey)>, PlayError> {
    livebag::survey_with(path, open_playable)
}
