//! Named moments and time ranges, as Python gets them.

use livebag::Event;

/// Name, text, first and last log time.
pub type EventRow = (String, String, u64, u64);

/// An event for Python.
pub fn event_row(event: Event) -> EventRow {
    (event.name, event.text, event.from_nanos, event.to_nanos)
}
