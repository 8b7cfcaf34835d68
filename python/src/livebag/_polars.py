"""Rows for Polars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._errors import Error

if TYPE_CHECKING:
    import polars

    from ._rows import Rows


def lazy_frame(rows: Rows) -> polars.LazyFrame:
    """See :meth:`livebag.Dataset.to_polars`."""
    try:
        import polars
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise Error("lazy frames need the package polars: pip install 'livebag[polars]'") from error

    def read(
        columns: list[str] | None, predicate: polars.Expr | None, limit: int | None, batch_size: int | None
    ) -> Iterator[polars.DataFrame]:
        # What the predicate looks at is read, too.
        wanted = columns
        if columns is not None and predicate is not None:
            wanted = [*columns, *(name for name in predicate.meta.root_names() if name not in columns)]
        for task in rows.tasks():
            for batch in task.batches(task.shape.keeping(wanted)):
                frame = polars.DataFrame(batch)
                if predicate is not None:
                    frame = frame.filter(predicate)
                if columns is not None:
                    frame = frame.select(columns)
                if limit is not None:
                    frame = frame.head(limit)
                    limit -= frame.height
                if frame.height:
                    yield frame
                if limit == 0:
                    return

    empty = polars.DataFrame(rows.schema().empty_table())
    return register_io_source(read, schema=empty.schema, is_pure=True)
