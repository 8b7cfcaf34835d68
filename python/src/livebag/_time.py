"""Moments and spans of time, as callers give them."""

from __future__ import annotations

import datetime
from typing import Any, Union

MAX_NANOS = 2**64 - 1
#: Nanoseconds since 1970, seconds since 1970, a datetime, or a time of ROS, NumPy or pandas.
Moment = Union[int, float, datetime.datetime, Any]
#: Seconds.
Span = Union[int, float, datetime.timedelta]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def nanos(moment: Moment) -> int:
    """Nanoseconds since 1970 of a moment.

    An ``int`` is nanoseconds, a ``float`` seconds since 1970. A ``datetime`` without a zone is local
    time, as Python has it. Times of ROS (``rospy.Time``, ``rclpy.time.Time``), ``numpy.datetime64``
    and ``pandas.Timestamp`` do as well.

    >>> nanos(1_700_000_000_000_000_000) == nanos(1.7e9)
    True
    >>> nanos(datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc))
    1000000000
    """
    given: Any = moment
    if isinstance(given, bool):
        raise TypeError("a time is an int (nanoseconds), a float (seconds) or a datetime, not a bool")
    if isinstance(given, float):
        value = _of_seconds(given)
    elif hasattr(given, "to_nsec"):  # rospy.Time
        value = given.to_nsec()
    elif isinstance(getattr(given, "nanoseconds", None), int):  # rclpy.time.Time
        value = given.nanoseconds
    elif isinstance(getattr(given, "value", None), int):  # pandas.Timestamp
        value = given.value
    elif isinstance(given, datetime.datetime):
        whole = given.astimezone(datetime.timezone.utc) - _EPOCH
        value = (whole.days * 86_400 + whole.seconds) * 1_000_000_000 + whole.microseconds * 1_000
    elif type(given).__name__ == "datetime64":
        value = int(given.astype("datetime64[ns]").astype("int64"))
    elif type(given).__name__.startswith("float"):  # numpy.float64 and its like
        value = _of_seconds(float(given))
    elif hasattr(given, "__index__"):
        value = given.__index__()
    else:
        raise TypeError(
            "a time is an int (nanoseconds since 1970), a float (seconds since 1970) or a datetime, "
            f"not {type(given).__name__}"
        )
    return min(max(value, 0), MAX_NANOS)


def nanos_or_none(moment: Moment | None) -> int | None:
    """Nanoseconds of a moment; None for one that is not given. 0 is a time."""
    return None if moment is None else nanos(moment)


def span_nanos(span: Span) -> int:
    """Nanoseconds of a span: seconds as a number, or a ``timedelta``.

    >>> span_nanos(0.5) == span_nanos(datetime.timedelta(milliseconds=500)) == 500_000_000
    True
    """
    seconds = span.total_seconds() if isinstance(span, datetime.timedelta) else float(span)
    if not seconds >= 0:
        raise ValueError(f"a span of time is at least 0 seconds, this one is {seconds}")
    return min(_of_seconds(seconds), MAX_NANOS)


def _of_seconds(seconds: float) -> int:
    """Seconds as nanoseconds; a float cannot tell them apart around 1970 + 50 years, microseconds it
    can."""
    if seconds != seconds:
        raise ValueError("a time cannot be NaN")
    if abs(seconds) == float("inf"):
        return MAX_NANOS if seconds > 0 else 0
    whole = int(seconds)
    return whole * 1_000_000_000 + round((seconds - whole) * 1e9)
