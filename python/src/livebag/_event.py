"""Named moments and time ranges of a recording."""

from __future__ import annotations

from typing import NamedTuple


class Event(NamedTuple):
    """A named moment or time range of a recording; of a moment both times are the same."""

    #: What it is called.
    name: str
    #: A few words more, or nothing.
    text: str
    #: First log time, nanoseconds since 1970.
    from_time: int
    #: Last log time, nanoseconds since 1970.
    to_time: int
