"""Many recordings as one table."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from ._livebag import stored_recordings
from ._errors import DecodeError, Error, NoTopic, NotFound, Unsupported, visible
from ._rows import Rows, Shape, limited
from ._recording import Recording, Topic, open
from ._time import MAX_NANOS, Moment

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.compute

    from ._align import Aligned

Path = Union[str, "os.PathLike[str]"]

#: Files that are recordings by themselves.
_SUFFIXES = (".mcap", ".db3", ".bag")
#: A folder that holds one of these is a recording.
_MANIFESTS = ("container.yaml", "metadata.yaml")
#: Object stores.
_STORE = re.compile(r"(s3a?|gs|az|azure|abfs)://")
#: What `livebag push` keeps beside the recordings.
_CATALOGUE = "_livebag"


class Member(NamedTuple):
    """A recording of a dataset."""

    #: Unique.
    name: str
    #: What :func:`livebag.open` takes.
    address: str
    #: As far as a catalogue knows them.
    robot: str | None = None
    topics: frozenset[str] | None = None


def dataset(
    where: Path | Iterable[Path],
    topics: str | Iterable[str] | None = None,
    *,
    from_: Moment | None = None,
    to: Moment | None = None,
    robots: str | Iterable[str] | None = None,
    filter: pyarrow.compute.Expression | None = None,
    columns: Iterable[str] | None = None,
    images: str = "list",
    skip_failures: bool = False,
) -> Dataset:
    """Many recordings as one table, a row per message: :class:`Dataset`. Nothing but time indexes is read until rows
    are asked for.

    ``where``: a folder with recordings at any depth, a recording of any kind that :func:`livebag.open` takes, a prefix
    in an object store (``s3://bucket/prefix``) with recordings below it, or several of these. Where ``livebag push``
    has written a catalogue, it says which recordings there are, and only those with the topics are opened.

    ``topics``: names, with ``*`` and ``?`` for any characters; None for all. All must have one definition, since they
    make one table. Recordings without these topics have no rows.

    ``from_``, ``to``: log times, both included, as in :meth:`Recording.read_messages`. Texts like ``"+10s"`` and
    ``timedelta`` count from the beginning of each recording.

    ``robots``: names, with ``*`` and ``?``. A recording's robot is that of the catalogue, or else its own custom data
    ``robot``; recordings without one are left out.

    ``filter``: rows to keep, e.g. ``pyarrow.compute.field("angular_velocity.z") > 1``. ``columns``: those to keep.

    ``images``: what becomes of the bytes of images and point clouds (a field ``data`` of bytes): ``"list"`` as any other
    sequence; ``"bytes"`` a binary column without copying; ``"tensor"`` for ``sensor_msgs/msg/Image`` an Arrow tensor
    of shape (height, width, channels) in the column ``image`` instead of ``data``.

    ``skip_failures``: a recording that is missing or damaged is named in a ``RuntimeWarning`` and in
    ``dataset.failures``, and the rest is read. Otherwise it is an error.
    """
    shape = Shape(None if columns is None else tuple(columns), filter, images)
    members = _members(where, skip_failures)
    return Dataset(members, _names(topics), (from_, to), shape, skip_failures, _names(robots))


def _names(names: str | Iterable[str] | None) -> list[str] | None:
    return [names] if isinstance(names, str) else None if names is None else list(names)


def _members(where: Path | Iterable[Path], skip_failures: bool) -> list[Member]:
    """The recordings. Their names are unique."""
    several = [where] if isinstance(where, (str, os.PathLike)) else list(where)
    found: list[Member] = []
    for place in several:
        text = os.fspath(place)
        if os.path.basename(text.rstrip("/")) == _CATALOGUE:
            text = os.path.dirname(text.rstrip("/"))
        if _STORE.match(text):
            found += _stored(text, skip_failures)
        elif "://" in text or not os.path.isdir(text) or _is_recording(text):
            found.append(Member(os.path.basename(text.rstrip("/")) or text, text))
        else:
            below = _catalogued(text) or [Member(os.path.relpath(path, text), path) for path in _below(text)]
            if not below:
                raise NotFound(f"{text}: there is no recording in this folder, nor in the folders in it")
            found += below
    if not found:
        raise NotFound("no recording was named")
    counts: dict[str, int] = {}
    for member in found:
        counts[member.name] = counts.get(member.name, 0) + 1
    unique = {member.address: member for member in found}
    # Those of one name are called by their addresses.
    return [
        member if counts[member.name] == 1 else member._replace(name=member.address) for member in unique.values()
    ]


def _stored(place: str, skip_failures: bool) -> list[Member]:
    """Recordings at an address in an object store."""
    place = place.rstrip("/")
    itself = Member(os.path.basename(place), place)
    if place.endswith(_SUFFIXES):
        return [itself]
    try:
        listed = _listed(place)
    except Error:
        if not skip_failures:
            raise
        # Opening it will say why it is left out.
        listed = []
    return listed or [itself]


def _catalogued(folder: str) -> list[Member]:
    """Recordings of a folder that was pushed to."""
    if not os.path.isdir(os.path.join(folder, _CATALOGUE)):
        return []
    try:
        return _listed(folder.rstrip("/"))
    except Unsupported:
        # A build without object stores reads no catalogues.
        return []


def _listed(place: str) -> list[Member]:
    members = []
    for address, robot, topics in stored_recordings(place):
        name = address[len(place) + 1 :] if address.startswith(f"{place}/") else os.path.basename(address)
        members.append(Member(name, address, robot, None if topics is None else frozenset(topics)))
    return members


def _is_recording(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, manifest)) for manifest in _MANIFESTS)


def _below(folder: str) -> Iterator[str]:
    """Recordings in a folder, at any depth, in order of name."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        warnings.warn(f"{folder} is left out: {error.strerror}", RuntimeWarning, stacklevel=4)
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if _is_recording(entry.path):
                yield entry.path
            elif not entry.name.startswith("."):
                yield from _below(entry.path)
        elif entry.name.endswith(_SUFFIXES) and entry.is_file():
            yield entry.path


@dataclasses.dataclass(frozen=True)
class Task:
    """Messages of one topic of one recording, from one log time to another: what one worker reads. Can be pickled."""

    #: The recording's name in the column ``recording``.
    recording: str
    #: What :func:`livebag.open` takes.
    address: str
    topic: str
    #: First and last log time, both included, ns.
    start: int
    end: int
    #: From the time index; None for recordings without one.
    count: int | None
    #: Bytes of the messages, estimated.
    size: int | None
    shape: Shape
    skip_failures: bool = False

    def batches(self, shape: Shape | None = None, limit: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Its rows, decoded."""
        shape = shape or self.shape
        yield from limited(shape.apply(self._decoded(), self._constants()), limit)

    def _constants(self) -> dict[str, str]:
        return {"recording": self.recording, "topic": self.topic}

    def _decoded(self) -> Iterator[pyarrow.RecordBatch]:
        try:
            with open(self.address) as recording:
                yield from batches(recording, self.topic, self.start, self.end)
        except (Error, OSError) as error:
            if not self.skip_failures:
                raise
            text = f"{self.recording}, {self.topic}: the rest of this part is left out: {error}"
            warnings.warn(visible(text), RuntimeWarning, stacklevel=2)


def batches(recording: Recording, topic: str, start: int, end: int) -> Iterator[pyarrow.RecordBatch]:
    """A topic's messages, decoded."""
    import pyarrow

    columns = recording.arrow_stream(topic, start, end)
    reader = pyarrow.RecordBatchReader.from_stream(columns)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pyarrow.ArrowException, OSError) as error:
            if columns.interruption is not None:
                raise columns.interruption from None
            raise DecodeError(columns.failure or str(error)) from error
        yield batch


@dataclasses.dataclass
class _Found:
    """What was learnt of one topic of one recording."""

    recording: str
    address: str
    topic: str
    type_name: str
    start: int
    end: int
    #: First and last log time, messages, bytes of each stretch.
    ranges: list[tuple[int, int, int, int]] | None


class Dataset(Rows):
    """Many recordings as one table; made by :func:`livebag.dataset`.

    Columns: ``recording`` (its name), ``topic``, ``log_time``, ``publish_time``, and a column for each field of the
    message (:meth:`Recording.to_arrow`).

    >>> import tempfile, pathlib, livebag, numpy as np
    >>> drives = pathlib.Path(tempfile.mkdtemp())
    >>> for drive in range(2):
    ...     with livebag.Recorder(drives / f"drive{drive}") as recorder:
    ...         heights = recorder.topic("/height", "std_msgs/msg/Float64")
    ...         for k in range(3):  # CDR: four bytes of encapsulation, then the number
    ...             heights.write(b"\\0\\1\\0\\0" + np.float64(drive + k / 2).tobytes(), log_time=(k + 1) * 10**9)
    >>> heights = livebag.dataset(drives, "/height")
    >>> heights.count(), heights.recordings
    (6, ['drive0', 'drive1'])
    >>> heights.to_arrow()["data"].to_pylist()
    [0.0, 0.5, 1.0, 1.0, 1.5, 2.0]
    """

    def __init__(
        self,
        members: list[Member],
        topics: list[str] | None,
        times: tuple[Moment | None, Moment | None],
        shape: Shape,
        skip_failures: bool,
        robots: list[str] | None = None,
    ) -> None:
        self._members = members
        self._robots = robots
        #: Names of recordings that turned out to be of other robots, and these.
        self._of_others: dict[str, str | None] = {}
        self._only = topics
        self._times = times
        self._shape = shape
        self._skip_failures = skip_failures
        #: By bytes of a task.
        self._plans: dict[int, list[_Found]] = {}
        self._whole_schema: pyarrow.Schema | None = None
        #: Recordings that could not be opened, with the reason.
        self.failures: dict[str, str] = {}

    def _is_wanted(self, name: str) -> bool:
        if self._only is None:
            return True
        other = name[1:] if name.startswith("/") else f"/{name}"
        return any(
            fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(other, pattern) for pattern in self._only
        )

    def _is_wanted_robot(self, robot: str | None) -> bool:
        return self._robots is None or any(fnmatch.fnmatchcase(robot or "", pattern) for pattern in self._robots)

    def _plan(self, size: int) -> list[_Found]:
        """Looks at every recording once."""
        if size in self._plans:
            return self._plans[size]
        found: list[_Found] = []
        known: dict[tuple[str, str, bytes], pyarrow.Schema] = {}
        others: set[str] = set()
        self.failures = {}
        self._of_others = {}
        for name, address, robot, topics in self._members:
            of_one: list[tuple[_Found, pyarrow.Schema]] = []
            if robot is not None and not self._is_wanted_robot(robot):
                self._of_others[name] = robot
                continue
            if topics is not None and not any(map(self._is_wanted, topics)):
                others |= topics
                continue
            try:
                with open(address) as recording:
                    robot = robot or _robot_of(recording)
                    if not self._is_wanted_robot(robot):
                        self._of_others[name] = robot
                        continue
                    start, end = recording._moment(self._times[0], 0), recording._moment(self._times[1], MAX_NANOS)
                    for topic in recording.topics.values():
                        if not self._is_wanted(topic.name):
                            others.add(topic.name)
                            continue
                        schema = _schema_of(recording, topic, known)
                        ranges = recording._ranges(topic.name, start, end, size)
                        about = _Found(name, address, topic.name, topic.type_name, start, end, ranges)
                        of_one.append((about, schema))
            except (Error, OSError) as error:
                if not self._skip_failures:
                    raise
                self.failures[name] = str(error)
                warnings.warn(visible(f"{name} is left out: {error}"), RuntimeWarning, stacklevel=3)
                continue
            for about, schema in of_one:
                if self._whole_schema is None:
                    self._whole_schema = schema
                first = found[0] if found else about
                if schema != self._whole_schema:
                    raise Unsupported(
                        f"{about.topic} of {name} ({about.type_name}) and {first.topic} of {first.recording} "
                        f"({first.type_name}) have different definitions, which make no one table: choose topics of "
                        "one type"
                    )
                found.append(about)
        if len(self._of_others) == len(self._members):
            there = ", ".join(sorted({robot for robot in self._of_others.values() if robot})) or "not known"
            raise NotFound(f"no recording is of the robots {', '.join(self._robots or [])}; robots are: {there}")
        if not found and not self.failures:
            there = ", ".join(map(visible, sorted(others))) or "none"
            raise NoTopic(f"no recording has the topic {', '.join(self._only or [])}; topics are: {there}")
        self._plans[size] = found
        return found

    @property
    def recordings(self) -> list[str]:
        """Names of all recordings of these robots, also of those without these topics."""
        if self._robots is not None:
            self._plan(self.TASK_BYTES)
        return [member.name for member in self._members if member.name not in self._of_others]

    def topics(self) -> dict[str, str]:
        """The topics' names and types."""
        return {found.topic: found.type_name for found in self._plan(self.TASK_BYTES)}

    def time_range(self) -> tuple[int, int] | None:
        """First and last log time of all rows before ``filter``, ns; None without rows. For containers from the time
        index; others are read."""
        times: list[int] = []
        for found in self._plan(self.TASK_BYTES):
            if found.ranges is not None:
                times += [edge for start, end, _, _ in found.ranges for edge in (start, end)]
                continue
            with open(found.address) as recording:
                for message in recording.read_messages(found.topic, found.start, found.end):
                    times.append(message.log_time)
        return (min(times), max(times)) if times else None

    def count(self) -> int:
        """Rows. Without ``filter`` and for containers from the time indexes alone; it then counts damaged messages, too,
        which rows leave out."""
        if self._shape.filter is None:
            counts = [task.count for task in self.tasks()]
            known = [count for count in counts if count is not None]
            if len(known) == len(counts):
                return sum(known)
        return sum(batch.num_rows for batch in self._like(self._shape.keeping(("log_time",))).to_batches())

    def _like(self, shape: Shape) -> Dataset:
        return Dataset(self._members, self._only, self._times, shape, self._skip_failures, self._robots)

    def _of_topic(self, topic: str) -> Dataset:
        """The same recordings and times, and one topic's messages as they are."""
        shape = Shape(None, None, "list")
        return Dataset(self._members, [topic], self._times, shape, self._skip_failures, self._robots)

    def _decoded_schema(self) -> pyarrow.Schema:
        self._plan(self.TASK_BYTES)
        if self._whole_schema is None:
            raise NoTopic(f"no recording could be opened: {self.failures}")
        return self._whole_schema

    def schema(self) -> pyarrow.Schema:
        """Names and types of the columns. No message is read, unless ``images="tensor"``: the first."""
        return self._shape.schema(
            self._decoded_schema(), ("recording", "topic"), lambda: next(iter(self._first()), None)
        )

    def _first(self) -> Iterator[pyarrow.RecordBatch]:
        for task in self.tasks():
            yield from task._decoded()

    def tasks(self, size: int = Rows.TASK_BYTES) -> list[Task]:
        """What workers read, each about ``size`` bytes of messages; of recordings without a time index, all messages of
        a topic."""
        tasks: list[Task] = []
        for found in self._plan(size):
            about = (found.recording, found.address, found.topic)
            if found.ranges is None:
                tasks.append(Task(*about, found.start, found.end, None, None, self._shape, self._skip_failures))
                continue
            for start, end, count, part in found.ranges:
                tasks.append(Task(*about, start, end, count, part, self._shape, self._skip_failures))
        return tasks

    def align(
        self, base: str, others: Mapping[str, str], *, tolerance: Any = None
    ) -> Aligned:
        """Joins topics in time: a row for each message of the topic ``base``, with the columns of others beside it.

        ``others``: how each topic is joined. ``"nearest"``: the message whose log time is nearest, of two the earlier.
        ``"hold"``: the newest message at or before. ``"window 100ms"``: all messages of the 100 ms until then, as lists.
        ``tolerance`` (seconds, or ``"50ms"``): with ``nearest`` and ``hold`` messages farther away count as none, which
        are nulls. Of several messages of one time the last counts. Columns of others are named with their topic:
        ``/odom.pose.pose.position.x``, ``/odom.log_time``.

        ``topics`` of the dataset are not used; ``filter`` and ``columns`` are applied to the joined rows.
        """
        from ._align import Aligned

        return Aligned(self, base, others, tolerance)


def _schema_of(
    recording: Recording, topic: Topic, known: dict[tuple[str, str, bytes], pyarrow.Schema]
) -> pyarrow.Schema:
    """By definition, since a thousand drives have few."""
    import pyarrow

    first = topic.channels[0]
    key = (first.type_name, first.message_encoding, bytes(first.schema))
    if len(topic.channels) > 1 or key not in known:
        # Raises for several definitions, and for what makes no table.
        known[key] = pyarrow.RecordBatchReader.from_stream(recording.arrow_stream(topic.name, 1, 0)).schema
    return known[key]


def _robot_of(recording: Recording) -> str | None:
    """Where a recording names its robot, as catalogues have it."""
    metadata = recording.metadata
    return metadata.get("custom_data", {}).get("robot") or metadata.get("robot", {}).get("name")
