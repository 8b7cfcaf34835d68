"""Topics joined in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._dataset import Dataset, Task, batches
from ._errors import NoTopic
from ._recording import Recording, open
from ._rows import Rows, Shape, limited
from ._time import MAX_NANOS, Span, span_nanos

if TYPE_CHECKING:
    import numpy
    import pyarrow

#: Bytes of messages of other topics that are joined at once.
_JOIN_BYTES = 128 << 20
_KINDS = ("nearest", "hold", "window")


@dataclasses.dataclass(frozen=True)
class Join:
    """How a topic is joined."""

    topic: str
    kind: str
    #: Of windows their length, else how far away a message may be; None: any distance. Nanoseconds.
    span: int | None
    #: Of the topic's messages.
    schema: pyarrow.Schema

    def fields(self) -> list[pyarrow.Field]:
        """Columns of the joined rows."""
        import pyarrow

        def column(field: pyarrow.Field) -> pyarrow.Field:
            kind = pyarrow.list_(field.with_name("item")) if self.kind == "window" else field.type
            return pyarrow.field(f"{self.topic}.{field.name}", kind, nullable=self.kind != "window")

        return [column(field) for field in self.schema]

    def needed(self, recording: Recording, first: int, last: int) -> tuple[int, int]:
        """First and last log time of the messages that rows from `first` to `last` may be joined with."""
        span = MAX_NANOS if self.span is None else self.span
        low, high = max(first - span, 0), min(last + span, MAX_NANOS) if self.kind == "nearest" else last
        if self.span is None:
            # Of an index the neighbours are known; else the topic is read from its beginning.
            before, after = recording._around(self.topic, first), recording._around(self.topic, last)
            if before is not None and before[0] is not None:
                low = before[0]
            elif before is not None:
                low = first
            if self.kind == "nearest" and after is not None:
                high = last if after[1] is None else after[1]
        return low, high

    def columns(self, table: pyarrow.Table, base: numpy.ndarray) -> list[pyarrow.Array]:
        """The messages of `table` that belong to each of these log times."""
        import numpy
        import pyarrow

        times = table.column("log_time").cast("int64").to_numpy()
        if self.kind == "window":
            begins = numpy.searchsorted(times, base - (self.span or 0), side="right")
            ends = numpy.searchsorted(times, base, side="right")
            counts = ends - begins
            offsets = numpy.concatenate([[0], numpy.cumsum(counts)])
            places = numpy.arange(offsets[-1]) - numpy.repeat(offsets[:-1] - begins, counts)
            taken = table.take(pyarrow.array(places))
            offsets = pyarrow.array(offsets, "int32")
            return [
                pyarrow.ListArray.from_arrays(offsets, _one(column), type=field.type)
                for column, field in zip(taken.columns, self.fields())
            ]
        place = numpy.searchsorted(times, base, side="right") - 1
        if len(times) and self.kind == "nearest":
            before, after = numpy.maximum(place, 0), numpy.minimum(place + 1, len(times) - 1)
            # Of several messages of one time the last, as before.
            after = numpy.searchsorted(times, times[after], side="right") - 1
            is_after = (place < 0) | (numpy.abs(times[after] - base) < numpy.abs(base - times[before]))
            place = numpy.where(is_after, after, before)
        is_none = place < 0
        if len(times) and self.span is not None:
            is_none |= numpy.abs(times[numpy.maximum(place, 0)] - base) > self.span
        taken = table.take(pyarrow.array(numpy.maximum(place, 0), mask=is_none))
        return [_one(column) for column in taken.columns]


def _one(column: Any) -> Any:
    import pyarrow

    combined = column.combine_chunks()
    if isinstance(combined, pyarrow.ChunkedArray):
        return pyarrow.concat_arrays(combined.chunks)
    return combined


@dataclasses.dataclass(frozen=True)
class AlignedTask:
    """What one worker joins: messages of the base topic, and the others' of that time. Can be pickled."""

    base: Task
    joins: tuple[Join, ...]
    shape: Shape

    @property
    def count(self) -> int | None:
        """Rows before the filter, if known."""
        return self.base.count

    @property
    def size(self) -> int | None:
        """Bytes of the base topic's messages, estimated."""
        return self.base.size

    def batches(self, shape: Shape | None = None, limit: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Its rows."""
        shape = shape or self.shape
        yield from limited(shape.apply(self._joined(), {"recording": self.base.recording}), limit)

    def _joined(self) -> Iterator[pyarrow.RecordBatch]:
        with open(self.base.address) as recording:
            for batch in self.base._decoded():
                yield from self._join(recording, batch)

    def _join(self, recording: Recording, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
        import numpy
        import pyarrow

        base = batch.column("log_time").cast("int64").to_numpy()
        ends = int(base.min()), int(base.max())
        spans = [join.needed(recording, *ends) if join.topic in recording.topics else None for join in self.joins]
        sizes = [_bytes(recording, join.topic, span) for join, span in zip(self.joins, spans) if span]
        if sum(sizes) > _JOIN_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from self._join(recording, batch.slice(0, half))
            yield from self._join(recording, batch.slice(half))
            return
        arrays, fields = list(batch.columns), list(batch.schema)
        for join, span in zip(self.joins, spans):
            there = list(batches(recording, join.topic, *span)) if span else []
            table = pyarrow.Table.from_batches(there, join.schema)
            arrays += join.columns(table, base.astype(numpy.int64))
            fields += join.fields()
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))


def _bytes(recording: Recording, topic: str, span: tuple[int, int]) -> int:
    """What an index knows of the bytes."""
    ranges = recording._ranges(topic, *span, _JOIN_BYTES) or []
    return sum(size for *_, size in ranges)


class Aligned(Rows):
    """A topic with others joined in time; made by :meth:`livebag.Dataset.align`. Each task joins by itself, a part of
    one recording at a time."""

    def __init__(self, of: Dataset, base: str, others: Mapping[str, str], tolerance: Span | None) -> None:
        self._base = of._of_topic(base)
        self._shape = of._shape
        names = [base, *others]
        if len(set(names)) < len(names):
            raise ValueError(f"{base} cannot be joined with itself")
        joins = []
        for topic, how in others.items():
            kind, _, span = how.partition(" ")
            if kind not in _KINDS or (kind == "window") != bool(span):
                raise ValueError(f"a topic is joined by 'nearest', 'hold' or 'window 100ms', not {how!r}")
            length = span_nanos(span) if span else None if tolerance is None else span_nanos(tolerance)
            one = of._of_topic(topic)
            known = one.topics()
            if not known:
                raise NoTopic(f"no recording has the topic {topic}")
            joins.append(Join(next(iter(known)), kind, length, one._decoded_schema()))
        self._joins = tuple(joins)

    def schema(self) -> pyarrow.Schema:
        """Names and types of the columns: ``recording``, the base topic's, and the others' with their topic's name."""
        import pyarrow

        fields = list(self._base._decoded_schema())
        for join in self._joins:
            fields += join.fields()

        def first() -> pyarrow.RecordBatch | None:
            return next((batch for task in self.tasks() for batch in task._joined()), None)

        return self._shape.schema(pyarrow.schema(fields), ("recording",), first)

    def count(self) -> int:
        """Rows: those of the base topic that ``filter`` leaves."""
        if self._shape.filter is None:
            return self._base.count()
        return sum(batch.num_rows for batch in self.to_batches())

    def tasks(self, size: int = Rows.TASK_BYTES) -> list[AlignedTask]:
        """What workers read, each about ``size`` bytes of the base topic."""
        return [AlignedTask(task, self._joins, self._shape) for task in self._base.tasks(size)]
