"""Columns of few values, kept while a text table is looked through for its types.

Labels, splits and groups are such columns, and a plan lists them: kept, they need no second look at the file.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Capture", "few_values"]

_MOST_VALUES = 127  # so that a row takes one byte


def few_values(column: Any) -> Any | None:
    """A column of text or integers with its values by number, if there are few of them."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        return None
    # Most columns of many values show it in their first rows.
    if len(column.slice(0, 2 * _MOST_VALUES).unique()) > _MOST_VALUES:
        return None
    array = column.combine_chunks().dictionary_encode()
    if len(array.dictionary) > _MOST_VALUES:
        return None
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int8()), array.dictionary)


class Capture:
    """What was kept of a file: by column, by part, the blocks of the part."""

    def __init__(self, names: list[str]) -> None:
        self.names = set(names)
        self.parts: list[dict[str, list[Any]]] = []

    def add(self, part: int, block: dict[str, Any]) -> None:
        """Keep the columns of a block; one that it lacks is not kept at all."""
        self.names &= set(block)
        if part == len(self.parts):
            self.parts.append({})
        for name in self.names:
            self.parts[part].setdefault(name, []).append(block[name])

    def of_types(self, types: dict[str, Any]) -> dict[str, list[list[Any]]]:
        """Columns that had their final type in every block: others would be listed as something else."""
        found = {}
        for name in sorted(self.names):
            blocks = [block for part in self.parts for block in part[name]]
            if all(block.type.value_type == types[name] for block in blocks):
                found[name] = [part[name] for part in self.parts]
        return found
