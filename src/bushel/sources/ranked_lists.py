"""Lists of examples with their context (ExampleListWithContext), as ranking has them: one sample per list."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from bushel.errors import FileProblem
from bushel.records.messages import parse_elwc
from bushel.records.scan import payloads
from bushel.sources.options import check_values, recipe_table
from bushel.sources.protocol import as_given
from bushel.sources.tables.row_sources import RowSource
from bushel.storage import AnyPath, list_files

__all__ = ["elwc"]


def elwc(
    path: AnyPath, *, key: Annotated[str | None, "Feature of the context that tells lists apart"] = None
) -> RowSource:
    """Take a sample from each ExampleListWithContext of TFRecord files: its context, and a list of each feature."""
    given = locals()
    check_values(elwc, given)
    files = list_files(path)
    return RowSource(partial(_read, files), files, recipe_table(elwc, as_given(path), given), key)


def _read(files: list[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for number, data in enumerate(payloads(file)):
            found = parse_elwc(data)
            if found is None:
                raise FileProblem(file, f"record {number} is not an ExampleListWithContext")
            yield _sample(*found)


def _sample(context: dict[str, Any], examples: list[dict[str, Any]]) -> dict[str, Any]:
    """One value, or a list, of each feature of the context; lists of those of the examples, which must have all."""
    sample = {name: values[0] if len(values) == 1 else values for name, values in context.items()}
    for name in dict.fromkeys(name for example in examples for name in example):
        values = [example.get(name) for example in examples]
        there = [value for value in values if value is not None]
        if len(there) < len(values) or len({len(value) for value in there}) > 1:
            raise ValueError(f"{name} must have as many values in every example of a list")
        plain = [value[0] if len(value) == 1 else list(value) for value in there]
        sample[name if name not in context else f"list/{name}"] = (
            plain if isinstance(values[0], list) else np.asarray(plain)
        )
    return sample
