"""Rows for Daft."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ._errors import Error

if TYPE_CHECKING:
    import daft

    from ._rows import Rows


def data_frame(rows: Rows) -> daft.DataFrame:
    """See :meth:`livebag.Dataset.to_daft`."""
    try:
        import daft
        import daft.io.source
    except ImportError as error:
        raise Error("data frames of Daft need the package daft: pip install 'livebag[daft]'") from error
    frame: daft.DataFrame = _source(rows).read()
    return frame


def _source(rows: Rows) -> Any:
    import daft
    import pyarrow
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch

    def converted(schema: pyarrow.Schema) -> Any:
        return daft.Schema.from_pyarrow_schema(schema)

    class LivebagTask(DataSourceTask):  # type: ignore[misc, unused-ignore]
        """Runs where Daft wants."""

        def __init__(self, task: Any, names: list[str] | None, limit: int | None, schema: pyarrow.Schema) -> None:
            self._task, self._names, self._limit, self._schema = task, names, limit, schema

        @property
        def schema(self) -> Any:
            return converted(self._schema)

        async def read(self) -> AsyncIterator[Any]:
            for batch in self._task.batches(self._task.shape.keeping(self._names), self._limit):
                yield RecordBatch.from_arrow_record_batches([batch], batch.schema)

    class CountTask(DataSourceTask):  # type: ignore[misc, unused-ignore]
        """One row."""

        def __init__(self, batch: pyarrow.RecordBatch) -> None:
            self._batch = batch

        @property
        def schema(self) -> Any:
            return converted(self._batch.schema)

        async def read(self) -> AsyncIterator[Any]:
            yield RecordBatch.from_arrow_record_batches([self._batch], self._batch.schema)

    class LivebagSource(DataSource):  # type: ignore[misc, unused-ignore]
        """Tasks of about equal size, however many recordings there are."""

        def __init__(self) -> None:
            self._rows = rows
            self._whole = rows.schema()

        @property
        def name(self) -> str:
            return "livebag"

        def _counted(self) -> int | None:
            """Rows, if the indexes tell."""
            counts = [None if task.shape.filter is not None else task.count for task in self._rows.tasks()]
            known = [count for count in counts if count is not None]
            return sum(known) if len(known) == len(counts) else None

        def supports_count_pushdown(self) -> bool:
            return self._counted() is not None

        @property
        def schema(self) -> Any:
            return converted(self._whole)

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Any]:
            if pushdowns.aggregation is not None:
                # Daft gives this only to sources that support it, and sums up what it is given.
                (name,) = pushdowns._to_pypushdowns().aggregation_required_column_names()
                yield CountTask(pyarrow.record_batch({name: pyarrow.array([self._counted()], "uint64")}))
                return
            names = pushdowns.columns
            # Daft applies its filter to what it is given: a limit before that would cut too early.
            limit = pushdowns.limit if pushdowns.filters is None else None
            if names is not None:
                needed = pushdowns.filter_required_column_names()
                names = [name for name in self._whole.names if name in names or name in needed]
            schema = self._whole
            if names is not None:
                schema = pyarrow.schema([self._whole.field(name) for name in names])
            for task in self._rows.tasks():
                yield LivebagTask(task, names, limit, schema)

    return LivebagSource()
