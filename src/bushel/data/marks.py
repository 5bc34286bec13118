"""Marks that people put on records: a file of JSON lines, of which the last line on a record counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from bushel.errors import FormatError
from bushel.storage import AnyPath, as_path

__all__ = ["Kind", "Mark", "add_mark", "last_marks", "read_marks"]

Kind: TypeAlias = Literal["drop", "label", "look", "none"]  # `none` takes an earlier mark back


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One mark. A record is known by its key, or without one by the SHA-256 of its file and its number there."""

    mark: Kind
    key: str = ""
    sha256: str = ""
    record: int = -1
    feature: str = "label"  # that `label` is about
    label: str = ""  # the right one
    shard: str = ""  # for people: the file, the split and the record's number in it
    split: str = ""
    row: int = -1

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells the record from others."""
        return (self.key, "", -1) if self.key else ("", self.sha256, self.record)


def read_marks(path: AnyPath) -> Iterator[Mark]:
    """Every line of a file of marks, in order."""
    with as_path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                mark = msgspec.json.decode(line, type=Mark)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise FormatError(path, f"line {number} is not a mark: {error}") from None
            if not mark.key and not (mark.sha256 and mark.record >= 0):
                raise FormatError(path, f"line {number} says neither a key nor a file and its record")
            yield mark


def last_marks(path: AnyPath) -> dict[tuple[str, str, int], Mark]:
    """The marks that count, by the records that they are on."""
    found = {mark.place: mark for mark in read_marks(path)}
    return {place: mark for place, mark in found.items() if mark.mark != "none"}


def add_mark(path: Path, mark: Mark) -> None:
    """Add a line to a file of marks, which is made if it is not there."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(mark) + b"\n")
