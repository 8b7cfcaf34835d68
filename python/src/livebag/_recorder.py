"""Recording from Python."""

from __future__ import annotations

import os
import time
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import _livebag, _views
from ._errors import visible
from ._event import Event
from ._time import Moment, Span, nanos, nanos_or_none, span_nanos


class TopicStatus(typing.NamedTuple):
    """State of a topic while it is being recorded."""

    name: str
    type_name: str
    messages: int
    """Messages on the disk and in the time index."""
    bytes: int
    lost: int
    """Messages that were offered and are not in the recording."""
    skipped: int
    """Messages left out on purpose: while paused."""
    account: _livebag.Account
    """Where every message is that was published."""


class Recorder:
    """A recording in progress: streams of this machine, messages of this program, or both.

    >>> import tempfile, pathlib, numpy as np, livebag
    >>> run = pathlib.Path(tempfile.mkdtemp()) / "run"
    >>> with Recorder(run) as recorder:
    ...     depth = recorder.topic("/depth", "sensor_msgs/msg/Image")
    ...     depth.write_image(np.zeros((2, 3), np.uint16), encoding="16UC1")
    >>> livebag.open(run).topics["/depth"].count
    1

    Any process can read a written message a moment later with :func:`livebag.open`. Leaving the block closes the
    container; :class:`livebag.RecordingError` says if that, or the recording, did not go well.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        streams: str | Iterable[str] | None = None,
        *,
        regex: str | None = None,
        exclude: str | None = None,
        overflow: str = "block",
        cache_bytes: int | None = None,
        profile: str = "ros2",
        metadata: Mapping[str, Mapping[str, str]] | None = None,
        split_bytes: int | None = None,
        split_duration: Span | None = None,
        splits_max: int | None = None,
        total_bytes_max: int | None = None,
        start_paused: bool = False,
        compression: str = "none",
        checksum: bool = False,
        schedule: str = "immediate",
        one_file: str | None = None,
    ) -> None:
        """Begins a recording in the new directory ``path``.

        ``streams``: names of streams or their topics, or ``"all"``; ``regex`` chooses by a pattern
        instead, ``exclude`` leaves out. ``overflow``: the action of a full queue for messages of this program:
        ``block``, ``drop-newest`` (raises :class:`livebag.QueueFull`), ``drop-oldest``. ``split_bytes``,
        ``split_duration`` (seconds): when a new split begins; ``splits_max``, ``total_bytes_max``: which old ones go.
        ``compression``: ``none``, ``lz4``, ``zstd``. ``schedule``: ``immediate`` or ``cycle-aware``. ``one_file``: a
        name for one MCAP file of all topics, as rosbag2 has it. ``metadata``: names with dicts of texts that the
        recording carries.
        """
        settings = {
            "cache_bytes": cache_bytes,
            "overflow": overflow,
            "profile": profile,
            "metadata": {name: dict(values) for name, values in (metadata or {}).items()},
            "split_bytes": split_bytes,
            "split_nanos": None if split_duration is None else span_nanos(split_duration),
            "splits_max": splits_max,
            "total_bytes_max": total_bytes_max,
            "start_paused": start_paused,
            "compression": compression,
            "checksum": checksum,
            "schedule": schedule,
            "one_file": one_file,
        }
        self.path = path
        self._final: Any = None
        self._core = _livebag.Recorder(path, settings)
        if streams is not None or regex is not None:
            self.follow(streams, regex=regex, exclude=exclude)

    def follow(
        self, streams: str | Iterable[str] | None = "all", *, regex: str | None = None, exclude: str | None = None
    ) -> None:
        """Records these streams as well, those of now and those to come."""
        names = None if streams in (None, "all") else [streams] if isinstance(streams, str) else list(streams)
        self._core.follow(names, regex, exclude)

    def topic(
        self,
        name: str,
        type_name: str,
        *,
        schema: str | bytes = b"",
        encoding: str = "cdr",
        schema_encoding: str = "ros2msg",
        metadata: Mapping[str, str] | None = None,
    ) -> TopicWriter:
        """Adds a topic that this program writes; gives a :class:`TopicWriter`.

        Of a common ROS 2 type the definition may be left out. For JSON: ``encoding="json"`` and
        ``schema_encoding="jsonschema"`` or ``""``.
        """
        schema = schema.encode() if isinstance(schema, str) else bytes(schema)
        schema_encoding = schema_encoding if schema or encoding == "cdr" else ""
        core = self._core.topic(name, type_name, encoding, schema_encoding, schema, dict(metadata or {}))
        return TopicWriter(core, name, type_name)

    def pause(self) -> None:
        """Stops recording messages; they count as skipped, not as lost."""
        self._core.pause()

    def resume(self) -> None:
        """Takes messages again."""
        self._core.resume()

    def split(self) -> None:
        """Begins a new split now."""
        self._core.split()

    def event(self, name: str, text: str = "", *, start: Moment | None = None, end: Moment | None = None) -> Event:
        """Names the present moment, or log times from ``start`` to ``end`` (default: now), with a few words
        of ``text``. The event is on the disk when this returns; ``run.events`` lists it."""
        if start is None and end is not None:
            raise ValueError("an event that has an end has a start: give both, or neither for the present moment")
        span = None
        if start is not None:
            span = (nanos(start), time.time_ns() if end is None else nanos(end))
        return Event(*self._core.event(name, text, span))

    @property
    def topics(self) -> dict[str, TopicStatus]:
        """How it goes: :class:`TopicStatus` by topic name. After closing, how it went."""
        told = self._final if self._final is not None else self._core.status()
        return {status[0]: TopicStatus(*status) for status in told[0]}

    @property
    def failure(self) -> str | None:
        """What ended the recording early, if anything."""
        failure: str | None = self._final[1] if self._final is not None else self._core.status()[1]
        return failure

    def close(self) -> None:
        """Records messages published until now, and closes the container. Again: nothing happens."""
        if self._final is None:
            self._final = ([], None)
            self._final = self._core.finish()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        topics = self.topics.values()
        messages, lost = sum(topic.messages for topic in topics), sum(topic.lost for topic in topics)
        state = "recording" if self._final is None else "closed"
        return f"<livebag.Recorder {str(self.path)!r}, {state}: {len(topics)} topics, {messages} messages, {lost} lost>"


class TopicWriter:
    """The way in for one topic's messages, made by :meth:`Recorder.topic`. From any thread."""

    def __init__(self, core: _livebag.TopicWriter, name: str, type_name: str) -> None:
        self._core = core
        self.name = name
        self.type_name = type_name

    def write(
        self,
        data: bytes | bytearray | memoryview,
        *,
        log_time: Moment | None = None,
        publish_time: Moment | None = None,
        sequence: int = 0,
    ) -> None:
        """Records an encoded message.

        ``log_time``: None for now; those of a topic never decrease, an earlier one is raised.
        ``publish_time``: when its source stamped it; None for the log time.
        """
        log, stamp = nanos_or_none(log_time), nanos_or_none(publish_time)
        self._core.write(data if isinstance(data, bytes) else bytes(data), log, stamp, sequence)

    def write_image(
        self,
        image: np.ndarray[Any, Any],
        *,
        encoding: str | None = None,
        frame_id: str = "",
        stamp: Moment | None = None,
        log_time: Moment | None = None,
        sequence: int = 0,
    ) -> None:
        """Records an array `(height, width[, channels])` as a ``sensor_msgs/msg/Image``.

        ``encoding``: ROS's name of the pixels; without it OpenCV's (``8UC3``). ``stamp``: the header's;
        None for the log time, or now.
        """
        height, width, _, encoding, pixel_bytes = _views.image_layout(image, encoding)
        stamp = self._stamp(stamp, log_time)
        step = width * pixel_bytes
        prefix = _livebag.image_prefix(stamp, frame_id, height, width, encoding, False, step, height * step)
        pixels = np.ascontiguousarray(image, image.dtype.newbyteorder("<"))
        self.write(b"".join((prefix, pixels.data)), log_time=log_time, publish_time=stamp, sequence=sequence)

    def write_points(
        self,
        points: np.ndarray[Any, Any],
        *,
        frame_id: str = "",
        is_dense: bool = True,
        stamp: Moment | None = None,
        log_time: Moment | None = None,
        sequence: int = 0,
    ) -> None:
        """Records a structured array, `(width,)` or `(height, width)`, as a
        ``sensor_msgs/msg/PointCloud2``."""
        points = np.ascontiguousarray(points)
        fields = _views.point_fields(points.dtype)
        height, width = points.shape if points.ndim == 2 else (1, points.size)
        step = points.dtype.itemsize
        stamp = self._stamp(stamp, log_time)
        arguments = (stamp, frame_id, height, width, fields, step, width * step, points.nbytes)
        prefix = _livebag.points_prefix(*arguments)
        data = b"".join((prefix, points.tobytes(), bytes([is_dense])))
        self.write(data, log_time=log_time, publish_time=stamp, sequence=sequence)

    @staticmethod
    def _stamp(stamp: Moment | None, log_time: Moment | None) -> int:
        moment = log_time if stamp is None else stamp
        return time.time_ns() if moment is None else nanos(moment)

    def __repr__(self) -> str:
        return f"<livebag.TopicWriter {visible(self.name)} ({visible(self.type_name)})>"
