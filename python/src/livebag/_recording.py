"""Recordings of any kind, open for reading."""

from __future__ import annotations

import collections.abc
import datetime
import functools
import html
import operator
import os
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import _livebag
from ._errors import DecodeError, Error, NoTopic, Unsupported, visible
from ._event import Event
from ._follow import follow
from ._livebag import Account, Attachment, Channel, Message, Messages
from ._time import MAX_NANOS, Moment, Span, nanos, span_nanos, text_nanos

if TYPE_CHECKING:
    import pandas
    import pyarrow

#: Channel, messages, bytes, first and last log time, account.
Row = tuple[Channel, int, int, Optional[int], Optional[int], Optional[Account]]
Sums = Callable[[], list[Row]]
#: Bytes of a topic that is being written; None where the row tells.
Sizes = Callable[[str], Optional[int]]
Core = Union[_livebag.Recording, _livebag.RemoteRecording, _livebag.RobotsRecording]
Names = Union[str, Iterable[str], None]

#: Kinds that tell their counts without a look at every message.
_COUNTED = ("livebag container", "livebag server", "livebag robots")
#: Schemes of object stores.
_STORES = ("s3", "s3a", "gs", "az", "azure", "abfs")
#: Where `auto` begins to look, and what it aims to read at once.
_AUTO_NANOS = 1_000_000
_AUTO_BYTES = 8 << 20


def open(
    path: str | os.PathLike[str],
    *,
    mapped: bool | None = None,
    token: str | None = None,
    ca_certificates: str | os.PathLike[str] | None = None,
    zenoh_config: str | os.PathLike[str] | None = None,
    zenoh_listen: Iterable[str] = (),
    zenoh_connect: Iterable[str] = (),
) -> Recording:
    """Opens a recording for reading and gives a :class:`Recording`.

    ``path`` is a livebag container (finished, or still being written), an MCAP file, a rosbag2
    directory or database, or a ROS 1 bag; its contents tell which. Or it is the address of a container, an
    MCAP file or a ROS 1 bag in an object store: ``s3://BUCKET/PREFIX/NAME``, ``gs://…``, ``az://…``, with the
    credentials of the environment; only what is needed is fetched. Or it is the address of a recording on a server (``livebag serve``, ``livebag record --serve``): ``http://HOST:PORT/NAME``. Or it is
    ``zenoh/ROBOT/NAME``, with ``*`` for any: recordings of robots that serve with ``--zenoh``, those that
    are there now, merged. Of several, topics are called ``/ROBOT/TOPIC``. If a robot stops answering half-way, a
    ``RuntimeWarning`` and the iterator's ``lost`` name it.

    ``mapped``: unless it is False, messages of 64 KiB and more of a finished, uncompressed container on this machine
    are mapped instead of read, if a request covers 2 MiB or more. A view of an image or a cloud then costs no copy;
    views keep the file mapped. ``data`` is a copy, made when asked for, or with ``mapped=True`` a ``memoryview`` of the
    file. livebag never changes a finished container. If another program truncates the file while a view is used, the
    kernel kills this process (SIGBUS), as with ``numpy.memmap``: if that can happen, use ``mapped=False``.

    ``token``, ``ca_certificates``: a server's token (default: the environment's ``LIVEBAG_TOKEN``), and a PEM file of
    certificates to trust instead of the machine's.

    ``zenoh_config``, ``zenoh_listen``, ``zenoh_connect``: a file with Zenoh's own configuration, and
    endpoints (``tls/router:7447``); by default a peer on this machine only, found by multicast.

    Raises :class:`livebag.NotFound` where there is nothing, :class:`livebag.Unsupported` where there is
    something else.
    """
    text = str(os.fspath(path))
    scheme, mark, _ = text.partition("://")
    if mark and scheme.lower() in ("http", "https"):
        token = token or os.environ.get("LIVEBAG_TOKEN") or None
        trusted = None if ca_certificates is None else os.fspath(ca_certificates)
        return Recording(_livebag.RemoteRecording.open(text, token, trusted))
    if mark and scheme.lower() in _STORES:
        return Recording(_livebag.Recording.open(text, mapped), mapped)
    if mark and scheme.isalnum():
        raise Unsupported(f"{text}: addresses of servers begin with http:// or https://, not {scheme}://")
    # If a folder has that name, it means the folder.
    if (text == "zenoh" or text.startswith("zenoh/")) and not os.path.exists(text):
        config = None if zenoh_config is None else os.fspath(zenoh_config)
        listen, connect = _endpoints(zenoh_listen), _endpoints(zenoh_connect)
        return Recording(_livebag.RobotsRecording.open(text, config, listen, connect))
    return Recording(_livebag.Recording.open(path, mapped), mapped)


def _endpoints(endpoints: Iterable[str]) -> list[str]:
    return [endpoints] if isinstance(endpoints, str) else list(endpoints)


def _open_again(path: Any, mapped: bool | None) -> Recording:
    return open(path, mapped=mapped)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    storage: str = "container",
    compression: str = "none",
) -> int:
    """Copies any recording into a new directory ``target`` and gives the number of its messages.

    ``storage``: ``container``, or a rosbag2 bag as ``mcap`` (with ``compression`` ``none``, ``lz4`` or
    ``zstd``) or ``sqlite3``. Unreadable parts of the source are reported as warnings. Ctrl-C leaves no target.
    """
    is_there = os.path.lexists(target)
    try:
        count, told = _livebag.convert(source, target, storage, compression)
    except KeyboardInterrupt:
        # A part must not be taken for the whole.
        if not is_there:
            shutil.rmtree(target, ignore_errors=True)
        raise
    for text in told:
        warnings.warn(text, stacklevel=2)
    return count


class Topic:
    """A topic of a recording, as it was when it was asked for."""

    def __init__(self, channels: list[Channel], sums: Sums, live_size: Sizes) -> None:
        self._channels = channels
        self._sums = sums
        self._live_size = live_size

    @property
    def name(self) -> str:
        """Topic name, e.g. ``/camera/image``."""
        return self._channels[0].name

    @property
    def type_name(self) -> str:
        """Type name, e.g. ``sensor_msgs/msg/Image``."""
        return self._channels[0].type_name

    @property
    def channels(self) -> list[Channel]:
        """The recording's data about it. More than one where publishers differed in definition or QoS."""
        return list(self._channels)

    def _rows(self) -> list[Row]:
        return [row for row in self._sums() if row[0].name == self.name]

    @property
    def count(self) -> int:
        """Messages."""
        return sum(row[1] for row in self._rows())

    @property
    def size(self) -> int:
        """Bytes of all messages. Of a recording that is being written they are summed up when asked for."""
        return self._live_size(self.name) or sum(row[2] for row in self._rows())

    @property
    def start_time(self) -> int | None:
        """First log time, ns; None without messages."""
        return min((row[3] for row in self._rows() if row[3] is not None), default=None)

    @property
    def end_time(self) -> int | None:
        """Last log time, ns; None without messages."""
        return max((row[4] for row in self._rows() if row[4] is not None), default=None)

    @property
    def lost(self) -> int | None:
        """Messages that were published and are not in the recording; None where it does not tell."""
        account = self.account
        return None if account is None else sum(account.lost.values())

    @property
    def account(self) -> Account | None:
        """Where every message is that was published; None where the recording does not tell."""
        return _sum(row[5] for row in self._rows())

    @property
    def rate(self) -> float | None:
        """Messages per second; None for fewer than two."""
        start, end, count = self.start_time, self.end_time, self.count
        if start is None or end is None or end == start:
            return None
        return (count - 1) * 1e9 / (end - start)

    def __repr__(self) -> str:
        return f"<livebag.Topic {visible(self.name)} ({visible(self.type_name)})>"


class Topics(collections.abc.Mapping["str", "Topic"]):
    """The topics of a recording, by name, in the order of appearance."""

    def __init__(self, channels: list[Channel], sums: Sums, live_size: Sizes) -> None:
        by_name: dict[str, list[Channel]] = {}
        for channel in channels:
            by_name.setdefault(channel.name, []).append(channel)
        self._topics = {name: Topic(channels, sums, live_size) for name, channels in by_name.items()}

    def __getitem__(self, name: str) -> Topic:
        try:
            return self._topics[_full_name(name, self._topics)]
        except KeyError:
            there = ", ".join(map(visible, self._topics))
            raise NoTopic(f"no topic {name!r}; there are: {there}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def __repr__(self) -> str:
        return f"<livebag.Topics: {', '.join(map(visible, self._topics))}>"


class Recording:
    """A recording, open for reading; made by :func:`livebag.open`.

    In a live container every call sees the messages committed until then, a few tens of milliseconds after they were
    published.

    >>> import tempfile, pathlib, livebag, numpy as np
    >>> run = pathlib.Path(tempfile.mkdtemp()) / "run"
    >>> with livebag.Recorder(run) as recorder:
    ...     heights = recorder.topic("/height", "std_msgs/msg/Float64")
    ...     for k in range(3):  # CDR: four bytes of encapsulation, then the number
    ...         heights.write(b"\\0\\1\\0\\0" + np.float64(k / 2).tobytes(), log_time=(k + 1) * 10**9)
    >>> bag = livebag.open(run)
    >>> len(bag), list(bag.topics), bag.topics["/height"].rate
    (3, ['/height'], 1.0)
    >>> [message.log_time for message in bag.latest(1.5)]
    [2000000000, 3000000000]
    >>> bag.to_arrow("/height")["data"].to_pylist()
    [0.0, 0.5, 1.0]
    """

    def __init__(self, core: Core, mapped: bool | None = None) -> None:
        self._opened: Core | None = core
        self._mapped = mapped
        self._counted: list[Row] | None = None
        self._known: set[str] = set()

    @property
    def _core(self) -> Core:
        if self._opened is None:
            raise ValueError("the recording has been closed")
        return self._opened

    # --- Properties ---

    @property
    def path(self) -> Any:
        """Where it is."""
        return self._core.path

    @property
    def kind(self) -> str:
        """Its kind, in words: ``livebag container``, ``MCAP file``, …"""
        return self._core.kind

    @property
    def state(self) -> str:
        """``live`` while it is being written, else ``closed``, ``recovered`` or ``unrecovered``."""
        return self._core.state

    @property
    def is_live(self) -> bool:
        """Whether a recorder is writing it."""
        return self.state == "live"

    @property
    def metadata(self) -> dict[str, dict[str, str]]:
        """Names with dicts of texts stored in the recording."""
        return self._core.metadata

    @property
    def attachments(self) -> list[Attachment]:
        """Files stored in the recording (MCAP's attachments), with ``name``, ``media_type``, ``log_time``,
        ``create_time``, a length and ``data``, which is read on access and raises :class:`livebag.Damaged` if the
        checksum is wrong. Servers give none."""
        return self._core.attachments()

    @property
    def events(self) -> list[Event]:
        """Named moments and time ranges, in order of time, as they are now: :class:`Event`."""
        return [Event(*event) for event in self._core.events()]

    @property
    def warnings(self) -> list[str]:
        """Warnings, as sentences."""
        return self._core.warnings

    @property
    def topics(self) -> Topics:
        """The topics by name, as they are now: a mapping to :class:`Topic`.

        For recordings other than containers, the first access to counts and times reads every message.
        """
        return Topics(self._core.channels(), self._sums, self._live_size)

    def _live_size(self, topic: str) -> int | None:
        return self._core.live_size(topic) if isinstance(self._core, _livebag.Recording) else None

    def _sums(self) -> list[Row]:
        # Of a container this is a few system calls, and may have grown.
        if self.kind in _COUNTED:
            return self._core.summaries()
        if self._counted is None:
            self._counted = self._core.summaries()
        return self._counted

    def _time_range(self, topics: list[str] | None) -> tuple[int, int] | None:
        rows = [row for row in self._sums() if (topics is None or row[0].name in topics) and row[1]]
        if not rows:
            return None
        return min(row[3] or 0 for row in rows), max(row[4] or 0 for row in rows)

    @property
    def message_count(self) -> int:
        """Messages of all topics; the same as ``len(bag)``."""
        return sum(row[1] for row in self._sums())

    def __len__(self) -> int:
        return self.message_count

    def __bool__(self) -> bool:
        return True

    @property
    def account(self) -> Account | None:
        """Where every message is that was published, of all topics together; None where the recording does
        not tell."""
        return _sum(row[5] for row in self._sums())

    @property
    def start_time(self) -> int | None:
        """First log time, ns since 1970; None without messages."""
        span = self._time_range(None)
        return span[0] if span else None

    @property
    def end_time(self) -> int | None:
        """Last log time, ns since 1970; None without messages."""
        span = self._time_range(None)
        return span[1] if span else None

    @property
    def duration(self) -> float:
        """Seconds from the first message to the last."""
        span = self._time_range(None)
        return (span[1] - span[0]) / 1e9 if span else 0.0

    # --- Messages ---

    def _names(self, topics: Names) -> list[str] | None:
        if topics is None:
            return None
        names = [topics] if isinstance(topics, str) else list(topics)
        # On a server that is a separate request: known names need none.
        if any(name not in self._known for name in names):
            self._known = {channel.name for channel in self._core.channels()}
        return [_full_name(name, self._known) for name in names]

    def _name(self, topic: str) -> str:
        (name,) = self._names(topic) or [topic]
        return name

    def _moment(self, moment: Moment | None, otherwise: int) -> int:
        if moment is None:
            return otherwise
        if isinstance(moment, datetime.timedelta):
            return (self.start_time or 0) + span_nanos(moment)
        if isinstance(moment, str):
            try:
                return min(text_nanos(moment, None), MAX_NANOS)
            except ValueError:
                # Only some texts need the recording's times, for which a foreign one is read completely.
                return min(text_nanos(moment, self._time_range(None) or (0, 0)), MAX_NANOS)
        return nanos(moment)

    def read_messages(
        self, topics: Names = None, start_time: Moment | None = None, end_time: Moment | None = None
    ) -> Messages:
        """Iterates over messages, oldest first: :class:`Message` objects.

        ``topics``: names, or one name; None for all. ``start_time``, ``end_time``: log times, both
        included: an ``int`` in ns since 1970, a ``float`` in seconds since 1970, a ``datetime``, a time
        of ROS, a ``timedelta`` after the first message, or a text as in the command: ``"2023-11-14T22:13:20Z"``,
        ``"21:29:38"``, ``"+1.5s"``. ``imu`` means ``/imu``.

        A message can be taken apart as the rosbag API does::

            for topic, message, t in bag.read_messages(["/imu"]):
                print(t, message.decode().linear_acceleration.x)

        Raises :class:`livebag.NoTopic` for a topic that is not there.
        """
        start, end = self._moment(start_time, 0), self._moment(end_time, MAX_NANOS)
        return self._core.messages(self._names(topics), start, end)

    def __iter__(self) -> Messages:
        return self.read_messages()

    def history(
        self, start_time: Moment | None = None, end_time: Moment | None = None, topics: Names = None
    ) -> Messages:
        """The messages between two log times, both included; as :meth:`read_messages`."""
        return self.read_messages(topics, start_time, end_time)

    def latest(self, last: Span = 1.0, topics: Names = None) -> Messages:
        """The messages of the ``last`` seconds (or ``timedelta``, or ``"500ms"``) before the newest of these topics,
        oldest first; of robots' recordings before the newest of each."""
        topics = self._names(topics)
        if isinstance(self._core, _livebag.RobotsRecording):
            return self._core.latest(span_nanos(last), topics)
        span = self._time_range(topics)
        if span is None:
            # Raises if a topic does not exist.
            return self._core.messages(topics, 0, 0)
        return self._core.messages(topics, max(span[1] - span_nanos(last), 0), span[1])

    def follow(
        self, topics: Names = None, *, last: Span | None = None, timeout: Span | None = None
    ) -> Iterator[Message]:
        """New messages of a recording that is being written, here or on a server, as its recorder commits
        them: in order of log time within a topic. Ends with the recording, or after ``timeout`` seconds without a
        message.

        ``last``: starts this long before the newest message; default: with messages after this call. Topics that are
        not there yet are waited for.

        Raises :class:`livebag.Unsupported` for recordings that cannot grow.
        """
        if self.kind not in _COUNTED:
            raise Unsupported(f"a {self.kind} does not grow: only livebag containers are followed")
        span = None if last is None else span_nanos(last)
        return follow(self._core, self._names(topics), span, None if timeout is None else span_nanos(timeout))

    def auto(
        self, within: Span, topics: Names = None, decimate: collections.abc.Mapping[str, float] | None = None
    ) -> Iterator[Message]:
        """The newest messages, as many as can be read within this many seconds, newest first.

        For a recording on this machine the time starts with the first message requested, and includes the caller's own
        work. A server measures the speed of the connection, and stops in time; robots are asked for as much as arrives
        in time. ``decimate`` gives it the messages a second that are enough of a topic: ``{"/camera": 5}``.
        """
        topics = self._names(topics)
        if isinstance(self._core, (_livebag.RemoteRecording, _livebag.RobotsRecording)):
            rates = [f"{self._name(name)}:{rate}" for name, rate in (decimate or {}).items()]
            yield from self._core.newest(span_nanos(within) / 1e9, topics, rates)
            return
        if decimate:
            raise Unsupported("decimate is for recordings on a server or a robot")
        span = self._time_range(topics)
        if span is None:
            yield from self.latest(0, topics)
            return
        deadline = time.monotonic() + span_nanos(within) / 1e9
        (start, end), width = span, _AUTO_NANOS
        while end >= start:
            begin = max(start, end - width + 1)
            stretch: list[Message] = []
            for message in self._core.messages(topics, begin, end):
                stretch.append(message)
                if time.monotonic() >= deadline:
                    return
            size = sum(map(len, stretch))
            while stretch:
                yield stretch.pop()
                if time.monotonic() >= deadline:
                    return
            end = begin - 1
            width = width * 2 if size < _AUTO_BYTES else max(width // 2, 1)

    # --- For datasets ---

    def _ranges(self, topic: str, start: int, end: int, size: int) -> list[tuple[int, int, int, int]] | None:
        """Stretches of about `size` bytes: first and last log time, messages, bytes. None without a time index here."""
        return self._core.ranges(topic, start, end, size) if isinstance(self._core, _livebag.Recording) else None

    def _around(self, topic: str, time: int) -> tuple[int | None, int | None] | None:
        """The log times before and after. None without a time index here."""
        return self._core.around(topic, time) if isinstance(self._core, _livebag.Recording) else None

    # --- Tables ---

    def to_arrow(
        self, topic: str, start_time: Moment | None = None, end_time: Moment | None = None
    ) -> pyarrow.Table:
        """A topic's messages as a ``pyarrow.Table``.

        Columns ``log_time`` and ``publish_time``, then one for each field of the definition, named with
        dots (``header.stamp.sec``). Arrays of fixed length are fixed-size lists, sequences lists,
        structures within those structs, strings utf8. Messages of encoding cdr and ros1 are
        decoded, in Rust. For polars, duckdb and others see :meth:`arrow_stream`.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise Error("tables need the package pyarrow: pip install 'livebag[arrow]'") from error
        columns = self.arrow_stream(topic, start_time, end_time)
        reader = pyarrow.RecordBatchReader.from_stream(columns)
        try:
            # Batch by batch, so that Ctrl-C works in between.
            batches = list(reader)
        except (pyarrow.ArrowException, OSError) as error:
            if columns.interruption is not None:
                raise columns.interruption from None
            raise DecodeError(columns.failure or str(error)) from error
        return pyarrow.Table.from_batches(batches, reader.schema)

    def arrow_stream(
        self, topic: str, start_time: Moment | None = None, end_time: Moment | None = None
    ) -> _livebag.ColumnReader:
        """The same for any library that takes Arrow's C stream interface, a batch of at most 65,536
        messages at a time: ``polars.DataFrame(bag.arrow_stream("/imu"))``."""
        start, end = self._moment(start_time, 0), self._moment(end_time, MAX_NANOS)
        return self._core.columns(self._name(topic), start, end)

    def to_pandas(
        self, topic: str, start_time: Moment | None = None, end_time: Moment | None = None
    ) -> pandas.DataFrame:
        """A topic's messages as a ``pandas.DataFrame`` with the log time as its index.

        Arrays of fixed length become a column for each item: ``orientation_covariance[0]``, …
        """
        table = self.to_arrow(topic, start_time, end_time)
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise Error("data frames need the package pandas: pip install 'livebag[pandas]'") from error
        import pyarrow
        import pyarrow.compute

        names, columns = [], []
        for name, column in zip(table.column_names, table.columns):
            if pyarrow.types.is_fixed_size_list(column.type) and column.type.list_size <= 64:
                for item in range(column.type.list_size):
                    names.append(f"{name}[{item}]")
                    columns.append(pyarrow.compute.list_element(column, item))
            else:
                names.append(name)
                columns.append(column)
        return pyarrow.table(columns, names=names).to_pandas().set_index("log_time")

    # --- The rest ---

    def close(self) -> None:
        """Closes the files. Messages that were read stay."""
        self._opened = None

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes (multiprocessing, data loaders) open it for themselves.
        if not isinstance(self._core, _livebag.Recording):
            raise TypeError("a recording on a server is not handed to other processes: open it there again")
        return _open_again, (self.path, self._mapped)

    def _table(self) -> list[list[str]]:
        """Rows of name, type, messages, size, rate, lost; without counts if they are unknown and would need reading
        every message."""
        is_known = self.kind in _COUNTED or self._counted is not None
        rows = []
        for topic in self.topics.values():
            told = [visible(topic.name), visible(topic.type_name)]
            if is_known:
                rate = f"{topic.rate:.1f} Hz" if topic.rate else ""
                lost = "" if topic.lost is None else f"{topic.lost:,}"
                told += [f"{topic.count:,}", _size(topic.size), rate, lost]
            else:
                told += ["?", "?", "", ""]
            rows.append(told)
        return rows

    def __repr__(self) -> str:
        if self._opened is None:
            return "<livebag.Recording, closed>"
        rows = [["topic", "type", "messages", "size", "rate", "lost"], *self._table()]
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = (
            "  ".join(
                text.ljust(width) if column < 2 else text.rjust(width)
                for column, (text, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in rows
        )
        return "\n  ".join([f"<livebag.Recording {str(self.path)!r}: {self._about()}>", *lines])

    def _about(self) -> str:
        about = f"{self.kind}, {self.state}"
        if self.kind in _COUNTED or self._counted is not None:
            about += f", {self.message_count:,} messages in {self.duration:.1f} s"
        return about

    def _repr_html_(self) -> str:
        if self._opened is None:
            return f"<p>{html.escape(repr(self))}</p>"
        head = "".join(f"<th>{name}</th>" for name in ("topic", "type", "messages", "size", "rate", "lost"))
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align: {"left" if column < 2 else "right"}">{html.escape(text)}</td>'
                for column, text in enumerate(row)
            )
            + "</tr>"
            for row in self._table()
        )
        title = f"<b>{html.escape(str(self.path))}</b>: {html.escape(self._about())}"
        return f"<p>{title}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _full_name(name: str, known: collections.abc.Container[str]) -> str:
    """`imu` and `/imu` are the same, unless there are both."""
    other = name[1:] if name.startswith("/") else f"/{name}"
    return other if name not in known and other in known else name


def _sum(accounts: Iterable[Account | None]) -> Account | None:
    told = [account for account in accounts if account is not None]
    return functools.reduce(operator.add, told) if told else None


def _size(count: float) -> str:
    """Bytes in words.

    >>> _size(999), _size(1_290_000_000)
    ('999 B', '1.29 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return ""
