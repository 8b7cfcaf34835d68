//! Prints the libraries' log on standard error.

struct StandardError;

impl log::Log for StandardError {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        // Not the log of the network libraries.
        metadata.level() <= log::Level::Warn && metadata.target().starts_with("livebag")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            say!("livebag: {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// From now on, to the end of the process.
pub fn to_standard_error() {
    if log::set_logger(&StandardError).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}
