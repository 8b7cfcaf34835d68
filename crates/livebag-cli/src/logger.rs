//! What the libraries log goes to standard error.

struct StandardError;

impl log::Log for StandardError {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        // Not what the networks' libraries have to say.
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
