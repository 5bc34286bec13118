"""What every test of a source does: list all of it, read all of it."""

from typing import Any

import numpy as np

from bushel.data.columns import concatenate
from bushel.sources import Block, Refused, Source


def keys_of(source: Source) -> list[str]:
    return [key.decode() for p in range(source.partitions()) for key in source.list(p, []).keys]


def listed(source: Source, name: str) -> list[Any]:
    out: list[Any] = []
    for partition in range(source.partitions()):
        out.extend(to_list(source.list(partition, [name]).columns[name]))
    return out


def blocks_of(source: Source) -> list[Block]:
    return [block for partition in range(source.partitions()) for block in read_partition(source, partition)]


def read_partition(source: Source, partition: int) -> list[Block]:
    rows = None
    if source.reads == "random":
        rows = np.arange(len(source.list(partition, []).keys))
    return list(source.read(partition, rows))


def read_all(source: Source) -> tuple[dict[str, Any], list[Refused]]:
    """Every column as Python values (missing ones None), and every refusal."""
    blocks = blocks_of(source)
    names = list(blocks[0].columns) if blocks else []
    columns = {name: to_list(concatenate([block.columns[name] for block in blocks])) for name in names}
    return columns, [refused for block in blocks for refused in block.refused]


def to_list(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray):
        return column.tolist()
    values = column.to_list()
    if getattr(column, "present", None) is not None:
        return [value[0] if value is not None and len(value) == 1 else value for value in values]
    return values
