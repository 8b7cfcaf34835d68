"""Moments and spans of time, as callers give them."""

from __future__ import annotations

import datetime
import re
from typing import Any, Union

MAX_NANOS = 2**64 - 1
#: Nanoseconds since 1970, seconds since 1970, a datetime, a time of ROS, NumPy or pandas, or a text.
Moment = Union[int, float, str, datetime.datetime, Any]
#: Seconds, a timedelta, or a text: `1s`, `500ms`, `2m30s`.
Span = Union[int, float, str, datetime.timedelta]
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9,
          "h": 3600 * 10**9, "d": 86_400 * 10**9}
_PART = r"(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|µs|ms|min|s|m|h|d)"
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?\s*([Zz]|[+-]\d\d:\d\d)")
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
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
    if isinstance(given, str):
        value = text_nanos(given, None)
    elif isinstance(given, float):
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
    """Nanoseconds of a span: seconds as a number, a ``timedelta``, or a text.

    >>> span_nanos(0.5) == span_nanos(datetime.timedelta(milliseconds=500)) == span_nanos("500ms")
    True
    >>> span_nanos("2m30s"), span_nanos("1.5")
    (150000000000, 1500000000)
    """
    if isinstance(span, str):
        return min(_text_span(span), MAX_NANOS)
    seconds = span.total_seconds() if isinstance(span, datetime.timedelta) else float(span)
    if not seconds >= 0:
        raise ValueError(f"a span of time is at least 0 seconds, this one is {seconds}")
    return min(_of_seconds(seconds), MAX_NANOS)


def _of_seconds(seconds: float) -> int:
    """Seconds as nanoseconds; around 1970 + 50 years a float has a precision of microseconds, not nanoseconds."""
    if seconds != seconds:
        raise ValueError("a time cannot be NaN")
    if abs(seconds) == float("inf"):
        return MAX_NANOS if seconds > 0 else 0
    whole = int(seconds)
    return whole * 1_000_000_000 + round((seconds - whole) * 1e9)


def _decimal(text: str, unit_nanos: int) -> int:
    """`1.5` of a unit, exactly."""
    whole, _, fraction = text.partition(".")
    digits = fraction[:18]
    scale: int = 10 ** len(digits)
    return int(whole or 0) * unit_nanos + int(digits or 0) * unit_nanos // scale


def _text_span(text: str) -> int:
    bare = text.strip()
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", bare):
        return _decimal(bare, 10**9)
    if not re.fullmatch(rf"(?:{_PART}\s*)+", bare):
        raise ValueError(f"{text!r} is not a span of time: expected something like 1s, 500ms, 2m30s or 1.5 (seconds)")
    parts = re.finditer(_PART, bare)
    return sum(_decimal(part[1], _UNITS[part[2]]) for part in parts)


def text_nanos(text: str, span: tuple[int, int] | None) -> int:
    """Nanoseconds since 1970 of a moment given as text, as in the command. Times after the start and times of day need
    the first and last time of the recording.

    >>> text_nanos("2023-11-14T22:13:20.5Z", None) == text_nanos("1700000000.5", None)
    True
    >>> text_nanos("1700000000123456789", None)
    1700000000123456789
    >>> text_nanos("+1.5s", (10, 20)), text_nanos("90s", (10, 20))
    (1500000010, 90000000010)
    """
    bare = text.strip()
    if bare.isdecimal():
        return int(bare)
    if re.fullmatch(r"\d+\.\d*", bare):
        return _decimal(bare, 10**9)
    dated = _DATE.fullmatch(bare)
    if dated:
        day, clock, fraction, zone = dated.groups()
        zone = "+00:00" if zone in "Zz" else zone
        return nanos(datetime.datetime.fromisoformat(f"{day}T{clock}{zone}")) + _fraction(fraction)
    clock_time = _TIME_OF_DAY.fullmatch(bare)
    try:
        if span is None:
            raise ValueError
        if clock_time:
            return _on_its_day(clock_time, span)
        return span[0] + _text_span(bare[1:] if bare.startswith("+") else bare)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: expected nanoseconds since 1970 (a whole number), seconds since 1970 with a "
            "decimal point, RFC 3339 with a zone (2023-11-14T22:13:20Z), and of a recording a time of day (21:29:38) "
            "or a time after its start (+1.5s, 90s)"
        ) from None


def _fraction(digits: str | None) -> int:
    return int((digits or "").ljust(9, "0"))


def _on_its_day(found: re.Match[str], span: tuple[int, int]) -> int:
    """A time of day in the machine's zone, on the day the recording began, or on the next if that is in it."""
    hour, minute, second, fraction = found.groups()
    began = datetime.datetime.fromtimestamp(span[0] // 10**9)
    first = began.replace(hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0)
    days = [nanos(first + datetime.timedelta(days=days)) + _fraction(fraction) for days in (0, 1)]
    return days[1] if days[0] < span[0] and days[1] <= span[1] else days[0]
