//! What `ros2 bag record` calls otherwise: its names are taken, each for the setting that does the same,
//! or answered with what livebag has instead.

use super::settings::Settings;
use super::values::wrong;
use crate::outcome::CliError;

/// Options of `ros2 bag record` that have another name, or no meaning, here.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Names of ros2 bag record")]
pub struct Rosbag2Names {
    /// none, file or message: livebag compresses chunks instead (--compression).
    #[arg(long, value_name = "MODE", hide_short_help = true)]
    compression_mode: Option<String>,
    /// The same as --compression.
    #[arg(long, value_name = "FORMAT", hide_short_help = true, conflicts_with = "compression")]
    compression_format: Option<String>,
    /// No effect: --max-cache-size limits the memory.
    #[arg(long, value_name = "N", hide_short_help = true)]
    compression_queue_size: Option<String>,
    /// No effect: compressing threads run at a lower priority than recording ones.
    #[arg(long, value_name = "N", hide_short_help = true, allow_hyphen_values = true)]
    compression_threads_priority: Option<String>,
    /// Refused: use --compression, --compression-level, --checksum and --preset.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    storage_config_file: Option<String>,
    /// No effect: livebag always prints warnings and errors.
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
    /// Only cdr: messages are recorded as they are published.
    #[arg(short = 'f', long, value_name = "FORMAT", hide_short_help = true)]
    serialization_format: Option<String>,
    /// No effect: the cache is limited in bytes (--max-cache-size).
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    max_cache_duration: Option<String>,
    /// The same as --repeat-latched; livebag repeats one message of a topic.
    #[arg(long, value_name = "TOPIC[=DEPTH]", num_args = 1.., hide_short_help = true)]
    repeat_transient_local: Vec<String>,
    /// Refused: list the topics with --repeat-latched, or --rule 'RE:latched'.
    #[arg(long, hide_short_help = true)]
    repeat_all_transient_local: bool,
    /// Refused: topics are recorded once they appear.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    static_topics_path: Option<String>,
    /// No effect: --stats prints counts while recording.
    #[arg(long = "stats_max_publishing_rate", value_name = "HZ", hide_short_help = true)]
    stats_max_publishing_rate: Option<String>,
    /// Refused: --min-free-space takes bytes (10GB).
    #[arg(long, value_name = "PERCENT", hide_short_help = true)]
    min_free_space_percent: Option<String>,
}

impl Rosbag2Names {
    /// Puts the requested options into `settings`; the notices list options with another meaning.
    ///
    /// # Errors
    /// If something is asked for that livebag does not do.
    pub fn apply(&self, settings: &mut Settings) -> Result<Vec<String>, CliError> {
        self.refuse()?;
        let mut notices = Vec::new();
        self.compress(settings, &mut notices)?;
        for topic in &self.repeat_transient_local {
            let (name, depth) = topic.split_once('=').unwrap_or((topic, "1"));
            if depth != "1" {
                notices.push(format!("{name}: the newest message is repeated, not {depth}"));
            }
            settings.repeat_latched.push(name.to_owned());
        }
        let without_effect = [
            (
                "--compression-queue-size",
                &self.compression_queue_size,
                "--max-cache-size bounds what waits",
            ),
            (
                "--compression-threads-priority",
                &self.compression_threads_priority,
                "compression never runs before recording",
            ),
            ("--log-level", &self.log_level, "livebag has no log levels"),
            (
                "--max-cache-duration",
                &self.max_cache_duration,
                "--max-cache-size bounds what waits",
            ),
            (
                "--stats_max_publishing_rate",
                &self.stats_max_publishing_rate,
                "--stats prints counts while recording",
            ),
        ];
        let given = without_effect.iter().filter(|(_, value, _)| value.is_some());
        notices.extend(given.map(|(name, _, why)| format!("{name} has no effect: {why}")));
        Ok(notices)
    }

    fn refuse(&self) -> Result<(), CliError> {
        let refused = [
            (
                "--storage-config-file",
                self.storage_config_file.is_some(),
                "livebag takes --compression, --compression-level, --checksum or --preset instead",
            ),
            (
                "--repeat-all-transient-local",
                self.repeat_all_transient_local,
                "name the topics with --repeat-latched, or give --rule 'RE:latched'",
            ),
            (
                "--static-topics-path",
                self.static_topics_path.is_some(),
                "livebag subscribes to a topic when it appears; leave the option out",
            ),
            (
                "--min-free-space-percent",
                self.min_free_space_percent.is_some(),
                "give bytes with --min-free-space (10GB)",
            ),
        ];
        if let Some((name, _, why)) = refused.iter().find(|(_, is_given, _)| *is_given) {
            return Err(wrong(name, why));
        }
        match self.serialization_format.as_deref() {
            None | Some("" | "cdr") => Ok(()),
            Some(other) => Err(wrong(
                "--serialization-format",
                format!("`{other}` is not cdr, and messages are recorded as they are published"),
            )),
        }
    }

    fn compress(&self, settings: &mut Settings, notices: &mut Vec<String>) -> Result<(), CliError> {
        let format = self.compression_format.as_deref().filter(|format| !format.is_empty());
        let mode = self.compression_mode.as_deref().map(str::to_ascii_lowercase);
        let wanted = match (mode.as_deref(), format) {
            (None, format) => format,
            (Some("none"), None) => None,
            (Some("none"), Some(_)) => {
                return Err(wrong("--compression-format", "needs no --compression-mode none"));
            }
            (Some("file" | "message"), format) => {
                Some(format.or(settings.compression.as_deref()).unwrap_or("zstd"))
            }
            (Some(other), _) => {
                return Err(wrong(
                    "--compression-mode",
                    format!("`{other}` is not one of none, file, message"),
                ));
            }
        };
        let Some(wanted) = wanted.map(str::to_owned) else { return Ok(()) };
        if let Some(mode) = mode {
            notices.push(format!(
                "--compression-mode {mode}: livebag compresses chunks, so files stay seekable \
                 (--compression {wanted})"
            ));
        }
        settings.compression = Some(wanted);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_message_compression_become_compression_of_chunks() {
        for mode in ["file", "MESSAGE"] {
            let names =
                Rosbag2Names { compression_mode: Some(mode.into()), ..Rosbag2Names::default() };
            let mut settings = Settings::default();
            let notices = names.apply(&mut settings).expect("it is understood");
            assert_eq!(settings.compression.as_deref(), Some("zstd"));
            assert!(notices[0].contains("--compression zstd"), "{notices:?}");
        }
    }

    #[test]
    fn what_livebag_does_not_do_is_answered_with_what_it_does() {
        let file = Some("storage.yaml".into());
        let names = Rosbag2Names { storage_config_file: file, ..Rosbag2Names::default() };
        let error = names.apply(&mut Settings::default()).expect_err("refused").to_string();
        assert!(error.contains("--compression-level"), "{error}");
    }
}
