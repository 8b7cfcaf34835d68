//! Shared-memory streams in native sensor layouts: one writer, any number of readers, no torn frame.
