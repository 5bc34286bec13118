"""Samples that were refused: where each came from, at which stage, and why. One JSON line per sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from bushel.storage import temporary_path, write_whole

__all__ = ["QUARANTINE_NAME", "Quarantine", "Quarantined", "join_quarantines", "read_quarantine"]

QUARANTINE_NAME = "_quarantine.jsonl"


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """One sample that is not in the dataset."""

    source: str
    key: str
    split: str
    stage: str  # read, decode, transform, schema
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.stage}: {self.reason}"


class Quarantine:
    """The refused samples of one task, written as they come; the file appears when the task is done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._temporary = temporary_path(path)
        self._file: IO[bytes] | None = None

    def add(self, refused: Quarantined) -> None:
        """Write one down."""
        if self._file is None:
            self._file = self._temporary.open("wb")
        self._file.write(msgspec.json.encode(refused) + b"\n")
        self.count += 1

    def close(self) -> None:
        """Give the file its name, if anything was refused. A task that is repeated writes it again."""
        if self._file is not None:
            self._file.close()
            self._temporary.replace(self.path)
        else:
            self.path.unlink(missing_ok=True)


def read_quarantine(path: Path) -> Iterator[Quarantined]:
    """Every refused sample of a dataset, or of a task."""
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                yield msgspec.json.decode(line, type=Quarantined)


def join_quarantines(parts: Iterable[Path], into: Path, *, keep: bool) -> None:
    """Join the files of all tasks, after what is in the target if that is to be kept."""
    before = into.read_bytes() if keep and into.exists() else b""
    with write_whole(into) as file:
        file.write(before)
        for path in parts:
            if path.exists():
                file.write(path.read_bytes())
