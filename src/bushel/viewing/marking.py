"""Marks that people put on records as they look: kept in a file of their choice, and found again by record."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec

from bushel.errors import BushelError
from bushel.records.index import sha256_of
from bushel.sources.marked import Mark, add_mark, last_marks
from bushel.storage import AnyPath, as_path
from bushel.viewing.opened import OpenedSplit

__all__ = ["Marks"]

_SHOWN = 500


class Marks:
    """The marks that count, and the file that they are in."""

    def __init__(self, path: AnyPath | None) -> None:
        self.path = None if path is None else Path(path)
        self._found = last_marks(self.path) if self.path is not None and self.path.exists() else {}
        self._digests: dict[str, str] = {}
        self._lock = threading.Lock()

    def to_json(self) -> dict[str, Any]:
        """The last of them."""
        found = list(self._found.values())
        return {
            "path": str(self.path) if self.path else "",
            "count": len(found),
            "marks": [msgspec.to_builtins(mark) for mark in found[-_SHOWN:]],
        }

    def put(self, part: OpenedSplit, row: int, mark: Mark) -> dict[str, Any]:
        """Put a mark on a record; it goes to the file at once. `mark` says all but where the record is."""
        if self.path is None:
            raise BushelError("no file for marks was chosen: start with --marks FILE")
        place, key = part.place(row), part.key_of(row)
        made = msgspec.structs.replace(
            mark,
            key=key,
            sha256=place.sha256 or ("" if key else self._digest(place.shard)),
            record=place.record,
            shard=Path(place.shard).name,
            split=part.name,
            row=row,
        )
        with self._lock:
            add_mark(self.path, made)
            self._found.pop(made.place, None)
            if made.mark != "none":
                self._found[made.place] = made
        return {"mark": "" if made.mark == "none" else made.mark, "label": made.label, "count": len(self._found)}

    def of(self, part: OpenedSplit, row: int) -> dict[str, str]:
        """The mark of a record, as the page shows it; empty if there is none."""
        mark = self._of(part, row)
        return {"mark": mark.mark, "label": mark.label} if mark is not None else {"mark": "", "label": ""}

    def rows(self, part: OpenedSplit, kind: str = "") -> list[int]:
        """Records with a mark (of one kind), as far as the marks say where they are."""
        said = {mark.row for mark in self._found.values() if mark.split == part.name and 0 <= mark.row < len(part)}
        marks = {row: self._of(part, row) for row in sorted(said)}
        return [row for row, mark in marks.items() if mark is not None and kind in ("", mark.mark)]

    def _of(self, part: OpenedSplit, row: int) -> Mark | None:
        if not self._found:
            return None
        place, key = part.place(row), part.key_of(row)
        digest = place.sha256
        if not key and not digest and any(mark.shard == Path(place.shard).name for mark in self._found.values()):
            digest = self._digest(place.shard)  # reads the file, so only of one that a mark names
        return self._found.get((key, "", -1) if key else ("", digest, place.record))

    def _digest(self, shard: str) -> str:
        """The SHA-256 of a file, computed once."""
        if shard not in self._digests:
            self._digests[shard] = sha256_of(as_path(shard))
        return self._digests[shard]
