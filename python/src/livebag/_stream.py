"""Streams in shared memory: one writer, any number of readers, no torn frame."""

from __future__ import annotations

import contextlib
import time
import typing
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from . import _livebag, _views
from ._errors import NotFound
from ._time import Moment, Span, nanos_or_none, span_nanos

Array = npt.NDArray[Any]
#: `Stream` has a method of that name.
Bytes = bytes
P = typing.TypeVar("P", bound="Publisher")


class StreamInfo(typing.NamedTuple):
    """A stream of this machine."""

    name: str
    topic: str
    type_name: str
    kind: str
    """`bytes`, `image` or `points`."""
    is_live: bool
    """Whether its writer is there."""


def streams() -> list[StreamInfo]:
    """The streams of this machine, as a list of :class:`StreamInfo`."""
    return [StreamInfo(*found) for found in _livebag.streams()]


def remove_stream(name: str) -> None:
    """Removes a stream whose writer has gone; its readers keep it open."""
    _livebag.remove_stream(name)


class Stream:
    """Makes streams and opens them.

    >>> import numpy as np
    >>> camera = Stream.image("doctest", 4, 2, encoding="rgb8", remove_on_close=True)
    >>> reader = Stream.open("doctest")
    >>> camera.publish(np.full((2, 4, 3), 7, np.uint8))
    1
    >>> int(reader.next(timeout=1).image[1, 2, 0])
    7
    >>> reader.close(), camera.close()
    (None, None)
    """

    def __init__(self) -> None:
        raise TypeError("use Stream.image, Stream.points, Stream.bytes, Stream.messages or Stream.open")

    @staticmethod
    def image(
        name: str, width: int, height: int, *, encoding: str = "rgb8", frame_id: str = "", **settings: Any
    ) -> ImagePublisher:
        """A stream of images of at most ``width`` by ``height`` pixels; see :class:`Publisher`.

        ``encoding`` is ROS's name of the pixels: ``rgb8``, ``bgr8``, ``mono8``, ``16UC1``, …
        """
        channels, dtype = _views.pixel_format(encoding)
        core = _livebag.Publisher.image(name, width, height, channels * dtype.itemsize, _settings(**settings))
        return ImagePublisher(core, frame_id, encoding)

    @staticmethod
    def points(
        name: str, points_max: int, dtype: npt.DTypeLike, *, frame_id: str = "", **settings: Any
    ) -> PointsPublisher:
        """A stream of clouds of at most ``points_max`` points of a structured ``dtype``; see
        :class:`Publisher`."""
        dtype = np.dtype(dtype)
        _views.point_fields(dtype)
        core = _livebag.Publisher.points(name, points_max, dtype.itemsize, _settings(**settings))
        return PointsPublisher(core, frame_id, dtype)

    @staticmethod
    def messages(
        name: str,
        bytes_max: int,
        type_name: str,
        *,
        schema: str | Bytes = b"",
        encoding: str = "cdr",
        schema_encoding: str = "ros2msg",
        **settings: Any,
    ) -> Publisher:
        """A stream of encoded messages of at most ``bytes_max`` bytes each.

        Of a common ROS 2 type the definition may be left out: recorders know it.
        """
        schema = schema.encode() if isinstance(schema, str) else schema
        made = _settings(**settings)
        core = _livebag.Publisher.bytes(name, bytes_max, type_name, encoding, schema_encoding, schema, made)
        return Publisher(core, "")

    @staticmethod
    def bytes(name: str, bytes_max: int, **settings: Any) -> Publisher:
        """A stream of bytes, recorded as ``std_msgs/msg/UInt8MultiArray``."""
        core = _livebag.Publisher.bytes(name, bytes_max, "", "", "", b"", _settings(**settings))
        return Publisher(core, "")

    @staticmethod
    def open(name: str, *, from_oldest: bool = False, timeout: Span = 0) -> StreamReader:
        """Opens a stream for reading, from the next frame on, or from the oldest one still there. Waits up
        to ``timeout`` seconds for a stream that is not there yet.

        Raises :class:`livebag.NotFound` if there is none with this name.
        """
        deadline = time.monotonic_ns() + span_nanos(timeout)
        while True:
            try:
                return StreamReader(_livebag.Reader(name, from_oldest))
            except NotFound:
                if time.monotonic_ns() >= deadline:
                    raise
                time.sleep(0.01)


def _settings(
    *,
    slots: int = 0,
    topic: str | None = None,
    group: str | None = None,
    checksum: bool = False,
    remove_on_close: bool = False,
) -> dict[str, Any]:
    return {
        "slots": slots,
        "topic": topic,
        "group": group,
        "checksum": checksum,
        "remove_on_close": remove_on_close,
    }


class Publisher:
    """The one writer of a stream, made by :class:`Stream`.

    Settings of all kinds: ``slots`` (frames that the stream holds; 0: a default for its kind), ``topic`` (its name in
    recordings; default: the stream's name), ``group`` (a group whose members may read it), ``checksum`` (each frame has
    a CRC-32C), ``remove_on_close``.

    It never waits for readers. Close it, or use it as a context manager; readers then see that it
    is gone.
    """

    def __init__(self, core: _livebag.Publisher, frame_id: str) -> None:
        self._core = core
        self.frame_id = frame_id

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._core.name

    @property
    def topic(self) -> str:
        """The topic that it is recorded as."""
        return self._core.topic

    @property
    def warnings(self) -> list[str]:
        """Requests that were not granted, each with a remedy."""
        return self._core.warnings

    def _room(self, count: int) -> Array:
        room = np.asarray(self._core.slot())
        if count > room.size:
            raise ValueError(f"the frame has {count} bytes, a slot of {self.name} holds {room.size}: make the stream larger")
        return room[:count]

    def publish(self, data: Any, *, stamp: Moment | None = None) -> int:
        """Publishes bytes (anything with the buffer protocol) and returns the frame's sequence.

        ``stamp``: when the source made it; None for now.
        """
        data = np.frombuffer(data, np.uint8)
        self._room(data.size)[:] = data
        return self._core.publish_bytes(data.size, self.frame_id, nanos_or_none(stamp))

    @contextlib.contextmanager
    def _lend(self, view: Array, publish: Callable[[], int]) -> Iterator[Array]:
        try:
            yield view
        except BaseException:
            self._core.abandon()
            raise
        finally:
            # Code that keeps it must not write into a frame that others read.
            view.flags.writeable = False
        publish()

    def close(self) -> None:
        """Ends the stream. Views that :meth:`loan` has given keep its memory until they go."""
        self._core.close()

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._core.closed

    def __enter__(self: P) -> P:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<livebag.{type(self).__name__} {self.name}>"


class ImagePublisher(Publisher):
    """The writer of a stream of images."""

    def __init__(self, core: _livebag.Publisher, frame_id: str, encoding: str) -> None:
        super().__init__(core, frame_id)
        self.encoding = encoding

    def _view(self, height: int, width: int) -> Array:
        channels, dtype = _views.pixel_format(self.encoding)
        room = self._room(height * width * channels * dtype.itemsize)
        shape = (height, width) if channels == 1 else (height, width, channels)
        return room.view(dtype).reshape(shape)

    def _publish(self, height: int, width: int, stamp: Moment | None) -> int:
        channels, dtype = _views.pixel_format(self.encoding)
        step = width * channels * dtype.itemsize
        arguments = (height * step, height, width, step, self.encoding, self.frame_id, nanos_or_none(stamp))
        return self._core.publish_image(*arguments)

    def publish(self, image: Array, *, stamp: Moment | None = None) -> int:
        """Publishes an array `(height, width[, channels])` and returns the frame's sequence: one copy,
        into shared memory. ``stamp``: when the camera made it; None for now."""
        height, width, *_ = _views.image_layout(image, self.encoding)
        view = self._view(height, width)
        view[...] = image.reshape(view.shape)
        return self._publish(height, width, stamp)

    def loan(self, width: int, height: int, *, stamp: Moment | None = None) -> AbstractContextManager[Array]:
        """Lends the next frame's memory as an array, published when the block ends: nothing is copied.

        ::

            with camera.loan(1920, 1080) as image:
                grab_into(image)

        An exception in the block publishes nothing.
        """
        view = self._view(height, width)
        return self._lend(view, lambda: self._publish(height, width, stamp))


class PointsPublisher(Publisher):
    """The writer of a stream of point clouds."""

    def __init__(self, core: _livebag.Publisher, frame_id: str, dtype: np.dtype[Any]) -> None:
        super().__init__(core, frame_id)
        self.dtype = dtype
        self._fields = _views.point_fields(dtype)

    def _publish(self, count: int, is_dense: bool, stamp: Moment | None) -> int:
        size = count * self.dtype.itemsize
        arguments = (size, count, self.dtype.itemsize, self._fields, is_dense, self.frame_id, nanos_or_none(stamp))
        return self._core.publish_points(*arguments)

    def publish(self, points: Array, *, is_dense: bool = True, stamp: Moment | None = None) -> int:
        """Publishes a structured array of the stream's dtype and returns the frame's sequence."""
        points = np.asarray(points)
        if points.dtype != self.dtype:
            raise TypeError(f"the stream's points are {self.dtype}, these are {points.dtype}")
        view = self._room(points.size * self.dtype.itemsize).view(self.dtype)
        view[...] = points.reshape(-1)
        return self._publish(points.size, is_dense, stamp)

    def loan(self, count: int, *, is_dense: bool = True, stamp: Moment | None = None) -> AbstractContextManager[Array]:
        """Lends the next frame's memory as an array of ``count`` points, published when the block
        ends."""
        view = self._room(count * self.dtype.itemsize).view(self.dtype)
        return self._lend(view, lambda: self._publish(count, is_dense, stamp))


class StreamReader:
    """Reads a stream's frames, as complete copies. Made by :meth:`Stream.open`.

    Iterating gives every frame in order and ends when the writer has gone; frames overwritten before they were read are
    counted in :attr:`lapped`.
    """

    def __init__(self, core: _livebag.Reader) -> None:
        self._open: _livebag.Reader | None = core

    @property
    def _core(self) -> _livebag.Reader:
        if self._open is None:
            raise ValueError("the reader has been closed")
        return self._open

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._core.name

    @property
    def kind(self) -> str:
        """`bytes`, `image` or `points`."""
        return self._core.kind

    @property
    def channel(self) -> _livebag.Channel:
        """The type in a recording of the stream."""
        return self._core.channel

    @property
    def lapped(self) -> int:
        """Frames that were overwritten before they could be taken."""
        return self._core.lapped

    @property
    def is_live(self) -> bool:
        """Whether the writer is there."""
        return self._core.state == "live"

    def next(self, timeout: Span | None = None) -> _livebag.Frame | None:
        """The next frame in order, or None after ``timeout`` seconds (None: never) or when the writer
        has gone. Waits without holding Python's lock; Ctrl-C works."""
        return self._core.next(None if timeout is None else span_nanos(timeout))

    def latest(self) -> _livebag.Frame | None:
        """The newest frame, seen before or not; None if there is none yet."""
        return self._core.latest()

    def close(self) -> None:
        """Releases the stream's memory."""
        self._open = None

    def __iter__(self) -> Iterator[_livebag.Frame]:
        while (frame := self.next()) is not None:
            yield frame

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<livebag.StreamReader, closed>" if self._open is None else f"<livebag.StreamReader of {self.name}>"
