"""What is known of a table before it is read: types of its columns over all of it, and parts to read on their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bushel.sources.protocol import Refused

__all__ = ["Field", "Part", "Piece", "Survey", "TableFile", "part_bytes"]

PART_BYTES = 64 << 20  # no part of a file need have more
_LEAST_BYTES = 8 << 20  # nor less: each is a task, and leaves files
_PARTS = 8


def part_bytes(size: int) -> int:
    """How much of a file of this size a part has at least: so much that workers share a small file too.

    A function of the file alone: parts are the same for any number of workers.
    """
    return min(PART_BYTES, max(_LEAST_BYTES, size // _PARTS))


class Part(NamedTuple):
    """What is read on its own: row groups, batches or bytes [first, last) of one file."""

    first: int
    last: int
    first_row: int  # its number in the file
    rows: int


class Field(NamedTuple):
    """One column: its Arrow type, and whether some row lacks it."""

    type: Any
    has_missing: bool


@dataclass(frozen=True)
class Survey:
    """One file, looked through."""

    fields: dict[str, Field]  # structs as `outer/inner`
    parts: tuple[Part, ...]
    details: dict[str, Any] = field(default_factory=dict)  # what the format needs to read the parts
    captured: dict[str, list[list[Any]]] = field(default_factory=dict)  # by column and part, arrays that are known


class Piece(NamedTuple):
    """Some rows of a part: Arrow arrays by name, the numbers of the rows in the part, and rows that are not there."""

    arrays: dict[str, Any]
    rows: NDArray[np.int64]
    refused: list[Refused]


class TableFile(Protocol):
    """One file of a format."""

    def survey(self) -> Survey:
        """Look through the file."""
        ...

    def read(self, survey: Survey, part: Part, names: list[str]) -> Iterator[Piece]:
        """The columns named, in pieces of bounded size."""
        ...
