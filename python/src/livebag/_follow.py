"""New messages of a recording that is being written."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Union

from . import _livebag
from ._time import MAX_NANOS

if TYPE_CHECKING:
    from ._livebag import Message

    Core = Union[_livebag.Recording, _livebag.RemoteRecording, _livebag.RobotsRecording]
#: Seconds between two looks, at a recording here and elsewhere.
_LOOK, _LOOK_REMOTE = 0.05, 0.25


class _Given:
    """Messages of a topic returned so far."""

    def __init__(self, from_nanos: int) -> None:
        #: Log time of the newest message given, and how many of that time were.
        self.time, self.count = from_nanos, 0
        #: Messages and last log time when it was asked last.
        self.seen: tuple[int, int] | None = None


def follow(
    core: Core, names: list[str] | None, last_nanos: int | None, timeout_nanos: int | None
) -> Iterator[Message]:
    """Messages from now on, or from ``last_nanos`` before the newest."""
    sums = _sums(core, names)
    newest = max((end for _, end in sums.values()), default=0)
    given: dict[str, _Given] = {}
    for name, (count, end) in sums.items():
        if last_nanos is not None:
            given[name] = _Given(max(newest - last_nanos, 0))
        else:
            given[name] = topic = _Given(end)
            topic.count = sum(1 for _ in core.messages([name], end, end)) if count else 0
    return _follow(core, names, given, timeout_nanos)


def _follow(
    core: Core, names: list[str] | None, given: dict[str, _Given], timeout_nanos: int | None
) -> Iterator[Message]:
    look = _LOOK if isinstance(core, _livebag.Recording) else _LOOK_REMOTE
    waiting_since = time.monotonic_ns()
    while True:
        # Before the counts: messages in between are found by another poll.
        is_over = core.state != "live"
        new = []
        for name, seen in _sums(core, names).items():
            topic = given.setdefault(name, _Given(0))
            if seen[0] and seen != topic.seen:
                topic.seen = seen
                new.append(_new(core, name, topic))
        is_idle = True
        for message in heapq.merge(*new, key=lambda message: message.log_time):
            is_idle = False
            yield message
        if not is_idle:
            waiting_since = time.monotonic_ns()
            continue
        if is_over or (timeout_nanos is not None and time.monotonic_ns() - waiting_since >= timeout_nanos):
            return
        time.sleep(look)


def _sums(core: Core, names: list[str] | None) -> dict[str, tuple[int, int]]:
    """Messages and last log time by topic."""
    sums: dict[str, tuple[int, int]] = {}
    for channel, count, _, _, end, _ in core.summaries():
        if names is None or any(_is_same(name, channel.name) for name in names):
            before = sums.get(channel.name, (0, 0))
            sums[channel.name] = (before[0] + count, max(before[1], end or 0))
    return sums


def _is_same(name: str, other: str) -> bool:
    return name.lstrip("/") == other.lstrip("/")


def _new(core: Core, name: str, topic: _Given) -> Iterator[Message]:
    # Those of the newest time given come again, before any others of that time.
    for message in _from(core, name, topic.time, topic.count):
        if message.log_time == topic.time:
            topic.count += 1
        else:
            topic.time, topic.count = message.log_time, 1
        yield message


def _from(core: Core, name: str, began: int, passed: int) -> Iterator[Message]:
    for message in core.messages([name], began, MAX_NANOS):
        if message.log_time == began and passed:
            passed -= 1
        else:
            yield message
