"""Tables of messages: their columns, and the engines that read them."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, ClassVar

from ._errors import Error, Unsupported

if TYPE_CHECKING:
    import daft
    import polars
    import pyarrow
    import pyarrow.compute
    import ray.data

#: What becomes of the bytes of images and point clouds.
_IMAGES = ("list", "bytes", "tensor")


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is made of decoded messages, in this order: `images`, `filter`, `columns`."""

    columns: tuple[str, ...] | None
    filter: pyarrow.compute.Expression | None
    images: str

    def __post_init__(self) -> None:
        if self.images not in _IMAGES:
            raise ValueError(f"images is one of {', '.join(_IMAGES)}, not {self.images!r}")

    def keeping(self, columns: Iterable[str] | None) -> Shape:
        """The same with these columns only; None for all."""
        return self if columns is None else dataclasses.replace(self, columns=tuple(columns))

    def where(self, condition: pyarrow.compute.Expression | None) -> Shape:
        """The same with a further condition."""
        if condition is None:
            return self
        both = condition if self.filter is None else self.filter & condition
        return dataclasses.replace(self, filter=both)

    def apply(
        self, decoded: Iterable[pyarrow.RecordBatch], constants: Mapping[str, str]
    ) -> Iterator[pyarrow.RecordBatch]:
        """Batches of rows that are left, with `constants` as first columns."""
        import pyarrow

        for batch in decoded:
            fields = [_text_field(name) for name in constants] + [field for field in batch.schema]
            arrays = [pyarrow.repeat(pyarrow.scalar(text, "string"), batch.num_rows) for text in constants.values()]
            arrays += batch.columns
            whole = pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))
            whole = _with_images(whole, self.images)
            if self.filter is not None:
                table = pyarrow.Table.from_batches([whole]).filter(self.filter)
                rest = table.combine_chunks().to_batches()
                whole = rest[0] if rest else whole.slice(0, 0)
            if self.columns is not None:
                whole = _select(whole, self.columns)
            if whole.num_rows:
                yield whole

    def schema(
        self,
        decoded: pyarrow.Schema,
        constants: Sequence[str],
        first: Callable[[], pyarrow.RecordBatch | None],
    ) -> pyarrow.Schema:
        """Of what `apply` gives. `first` gives a batch: only one tells the shape of tensors."""
        import pyarrow

        empty = pyarrow.schema([_text_field(name) for name in constants] + list(decoded)).empty_table()
        batch = pyarrow.RecordBatch.from_arrays([column.combine_chunks() for column in empty.columns],
                                                schema=empty.schema)
        if self.images == "tensor" and _is_image(batch.schema):
            sample = first()
            if sample is None:
                raise Unsupported("the shape of the images is unknown: there is none")
            batch = next(iter(dataclasses.replace(self, filter=None, columns=None).apply(
                [sample], {name: "" for name in constants})))
        else:
            batch = _with_images(batch, self.images)
        return (batch if self.columns is None else _select(batch, self.columns)).schema


def _text_field(name: str) -> pyarrow.Field:
    import pyarrow

    return pyarrow.field(name, pyarrow.string(), nullable=False)


def _select(batch: pyarrow.RecordBatch, columns: Sequence[str]) -> pyarrow.RecordBatch:
    missing = [name for name in columns if name not in batch.schema.names]
    if missing:
        raise Unsupported(f"there is no column {missing[0]}; columns are: {', '.join(batch.schema.names)}")
    return batch.select(list(columns))


def _is_bytes(schema: pyarrow.Schema) -> bool:
    import pyarrow

    at = schema.get_field_index("data")
    if at < 0 or not pyarrow.types.is_list(schema.field(at).type):
        return False
    return bool(pyarrow.types.is_uint8(schema.field(at).type.value_type))


def _is_image(schema: pyarrow.Schema) -> bool:
    return _is_bytes(schema) and {"height", "width", "encoding", "step"} <= set(schema.names)


def _with_images(batch: pyarrow.RecordBatch, images: str) -> pyarrow.RecordBatch:
    import pyarrow

    if images == "list" or not _is_bytes(batch.schema):
        return batch
    at = batch.schema.get_field_index("data")
    if images == "tensor" and _is_image(batch.schema):
        field, column = _tensor(batch)
    else:
        data = batch.column(at)
        # The same bytes under another name: a list of bytes and a binary value have one layout in memory.
        _, offsets, *_ = data.buffers()
        column = pyarrow.Array.from_buffers(
            pyarrow.binary(), len(data), [None, offsets, data.values.buffers()[1]], offset=data.offset
        )
        field = pyarrow.field("data", pyarrow.binary(), nullable=False)
    return batch.set_column(at, field, column)


#: Bytes and channels of a pixel. Bayer patterns and YUV stay as they are: `images="bytes"`.
_PIXELS = {"rgb8": ("uint8", 3), "bgr8": ("uint8", 3), "rgba8": ("uint8", 4), "bgra8": ("uint8", 4),
           "mono8": ("uint8", 1), "8UC1": ("uint8", 1), "8UC3": ("uint8", 3), "8UC4": ("uint8", 4),
           "mono16": ("uint16", 1), "16UC1": ("uint16", 1), "32FC1": ("float32", 1)}


def _tensor(batch: pyarrow.RecordBatch) -> tuple[pyarrow.Field, pyarrow.Array]:
    """The images of a batch as a column of tensors."""
    import numpy
    import pyarrow

    kinds = {tuple(row[name] for name in ("height", "width", "encoding", "step", "is_bigendian"))
             for row in batch.select(["height", "width", "encoding", "step", "is_bigendian"]).to_pylist()}
    if len(kinds) != 1:
        raise Unsupported(f"images of different sizes or encodings make no tensors: {sorted(kinds)[:2]}; use "
                          "images='bytes'")
    (height, width, encoding, step, is_bigendian) = kinds.pop()
    if encoding not in _PIXELS:
        raise Unsupported(f"images of encoding {encoding} make no tensors: use images='bytes'")
    item, channels = _PIXELS[encoding]
    dtype = numpy.dtype(item)
    data = batch.column(batch.schema.get_field_index("data"))
    lengths = numpy.unique(numpy.diff(data.offsets.to_numpy()))
    row = width * channels * dtype.itemsize
    if list(lengths) != [height * step] or step < row:
        raise Unsupported(f"images whose length is not height times step make no tensors: {height}, {step}, {lengths}")
    start, stop = data.offsets[0].as_py(), data.offsets[-1].as_py()
    pixels = data.values.to_numpy()[start:stop].reshape(len(data), height, step)[:, :, :row]
    pixels = numpy.ascontiguousarray(pixels).view(dtype.newbyteorder(">" if is_bigendian else "<"))
    pixels = numpy.ascontiguousarray(pixels, dtype).reshape(len(data), height, width, channels)
    column = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(pixels)
    return pyarrow.field("image", column.type, nullable=False), column


def limited(batches: Iterator[pyarrow.RecordBatch], limit: int | None) -> Iterator[pyarrow.RecordBatch]:
    """At most `limit` rows of these."""
    if limit is None:
        yield from batches
        return
    for batch in batches if limit > 0 else ():
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return


class Rows(abc.ABC):
    """A table whose rows are read by tasks, on this machine or on many."""

    #: Bytes of messages that a task is about to have.
    TASK_BYTES: ClassVar[int] = 64 << 20

    @abc.abstractmethod
    def schema(self) -> pyarrow.Schema:
        """Names and types of the columns."""

    @abc.abstractmethod
    def count(self) -> int:
        """Rows."""

    @abc.abstractmethod
    def tasks(self, size: int = TASK_BYTES) -> Sequence[Any]:
        """What workers read, each about `size` bytes."""

    def to_batches(self) -> Iterator[pyarrow.RecordBatch]:
        """All rows as ``pyarrow.RecordBatch``, one task after the other, read on this machine."""
        for task in self.tasks():
            yield from task.batches()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow

        reader = pyarrow.RecordBatchReader.from_batches(self.schema(), self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """All rows as one ``pyarrow.Table``, in memory."""
        try:
            import pyarrow
        except ImportError as error:
            raise Error("tables need the package pyarrow: pip install 'livebag[arrow]'") from error
        return pyarrow.Table.from_batches(list(self.to_batches()), self.schema())

    def to_polars(self) -> polars.LazyFrame:
        """A lazy frame. Columns, filters and limits are given to the reader."""
        from ._polars import lazy_frame

        return lazy_frame(self)

    def to_ray(self, **options: Any) -> ray.data.Dataset:
        """A ``ray.data.Dataset``, which workers of the cluster read. Columns, filters and limits are given to them.
        ``options`` are those of ``ray.data.read_datasource``. Workers open the recordings by the same addresses."""
        from ._ray import ray_dataset

        return ray_dataset(self, options)

    def to_daft(self) -> daft.DataFrame:
        """A ``daft.DataFrame``. Columns, filters and limits are given to the reader; counts come from the index."""
        from ._daft import data_frame

        return data_frame(self)
