"""Rows for Ray Data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import Error

if TYPE_CHECKING:
    import ray.data

    from ._rows import Rows


def ray_dataset(rows: Rows, options: dict[str, Any]) -> ray.data.Dataset:
    """See :meth:`livebag.Dataset.to_ray`."""
    try:
        import ray.data
    except ImportError as error:
        raise Error("datasets of Ray need the package ray: pip install 'livebag[ray]'") from error
    found: ray.data.Dataset = ray.data.read_datasource(_datasource(rows), **options)
    return found


def _datasource(rows: Rows) -> Any:
    import pyarrow
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class LivebagDatasource(Datasource):  # type: ignore[misc, unused-ignore]
        """Tasks of about equal size, however many recordings there are."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
            self._projection_map: dict[str, str] | None = None
            self._tasks = rows.tasks()
            self._schema = rows.schema()

        def supports_projection_pushdown(self) -> bool:
            return True

        def supports_predicate_pushdown(self) -> bool:
            return True

        def estimate_inmemory_data_size(self) -> int | None:
            sizes = [task.size for task in self._tasks]
            return None if None in sizes else sum(sizes)

        def get_read_tasks(
            self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
        ) -> list[Any]:
            names = None if self._projection_map is None else list(self._projection_map)
            if names == []:
                # Rows are counted: a block without columns would have none.
                names = self._schema.names[:1]
            predicate = self.get_current_predicate()
            condition = None if predicate is None else predicate.to_pyarrow()
            schema = self._schema if names is None else pyarrow.schema([self._schema.field(name) for name in names])
            tasks = []
            for task in self._tasks:
                count = None if condition is not None or task.shape.filter is not None else task.count
                about = BlockMetadata(num_rows=count, size_bytes=task.size, input_files=None, exec_stats=None)
                # The condition may look at columns that are not kept.
                shape = task.shape.where(condition).keeping(names)
                tasks.append(ReadTask(_Read(task, shape, schema, per_task_row_limit), about, schema=schema,
                                      per_task_row_limit=per_task_row_limit))
            return tasks

    return LivebagDatasource()


class _Read:
    """What a worker calls."""

    def __init__(self, task: Any, shape: Any, schema: Any, limit: int | None) -> None:
        self._task, self._shape, self._schema, self._limit = task, shape, schema, limit

    def __call__(self) -> Any:
        import pyarrow

        is_empty = True
        for batch in self._task.batches(self._shape, self._limit):
            is_empty = False
            yield pyarrow.Table.from_batches([batch])
        if is_empty:
            yield self._schema.empty_table()
