"""Records as streams of Arrow: batches of some megabytes, read ahead of need, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.arrow_columns import arrow_schema, record_batch, to_arrow
from bushel.data.columns import Column, byte_size, need_arrow
from bushel.data.schema import Schema
from bushel.parallel import map_in_threads

__all__ = ["RecordStream", "join_streams", "stream_batches"]

Ints: TypeAlias = NDArray[np.int64]

_FIRST_ROWS = 256  # from which the size of a row is known
_BATCH_BYTES = 4 << 20  # of a batch: the caches of a core hold it, and a dozen of them are ahead
_MOST_ROWS = 1 << 16


@dataclass(frozen=True)
class RecordStream:
    """The records of a split as Arrow."""

    schema: Schema
    classes: Mapping[str, Sequence[str]]  # names of codes, by feature
    rows: Ints
    read: Callable[[Ints], dict[str, Column]]
    in_order: bool  # whether records can only be read one after another

    @property
    def kind(self) -> Any:
        """The schema in Arrow."""
        return arrow_schema(self.schema, self.classes)

    def batches(self) -> Iterator[Any]:
        """The batches, one after another."""
        kind = self.kind
        first = self.read(self.rows[:_FIRST_ROWS])
        yield record_batch(first, kind, self.schema, self.classes)
        each = max(1, sum(map(byte_size, first.values())) // max(1, min(len(self.rows), _FIRST_ROWS)))
        step = min(_MOST_ROWS, max(1, _BATCH_BYTES // each))
        parts = (self.rows[at : at + step] for at in range(_FIRST_ROWS, len(self.rows), step))
        read = ((part, self.read(part)) for part in parts) if self.in_order else map_in_threads(self.read, parts)
        for _, columns in read:
            yield record_batch(columns, kind, self.schema, self.classes)

    def reader(self) -> Any:
        """What `pyarrow` reads from."""
        return need_arrow("a stream of Arrow").RecordBatchReader.from_batches(self.kind, self.batches())


def join_streams(streams: Mapping[str, RecordStream]) -> Any:
    """The records of all splits, one after another, with a column `split`, unless they have one."""
    pa = need_arrow("a stream of Arrow")
    kinds = [stream.kind for stream in streams.values()]
    kind = pa.unify_schemas(kinds, promote_options="permissive")
    is_named = "split" not in kind.names
    whole = kind.append(pa.field("split", pa.string())) if is_named else kind

    def batches() -> Iterator[Any]:
        for name, stream in streams.items():
            for batch in stream.batches():
                table = pa.table({"split": pa.array([name] * len(batch))}) if is_named else None
                yield _widened(batch, whole, table)

    return pa.RecordBatchReader.from_batches(whole, batches())


def _widened(batch: Any, kind: Any, named: Any) -> Any:
    """A batch of one split with the columns of all: nulls where it has none."""
    import pyarrow as pa

    found = {name: batch.column(name) for name in batch.schema.names}
    found |= {} if named is None else {"split": named.column("split").combine_chunks()}
    arrays = [found[field.name] if field.name in found else pa.nulls(len(batch), field.type) for field in kind]
    return pa.record_batch(arrays, schema=kind)


def stream_batches(batches: Iterable[Mapping[str, Any]]) -> Any:
    """Ready batches as Arrow, whose types are those of the first."""
    pa = need_arrow("a stream of Arrow")
    rest = iter(batches)
    tables = (to_arrow(batch, {}) for batch in rest)
    first = next(tables, pa.table({}))

    def made() -> Iterator[Any]:
        for table in chain([first], tables):
            yield from table.cast(first.schema).to_batches()

    return pa.RecordBatchReader.from_batches(first.schema, made())
