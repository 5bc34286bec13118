"""Keeping every intact record of damaged files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from bushel import _native
from bushel.building.output.writer import Sink
from bushel.errors import Fault, FileProblem
from bushel.records.files import Chunk, RecordFile, Skipped, open_file
from bushel.storage import AnyPath, as_path, list_files

__all__ = ["Lost", "Repaired", "repair"]


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a file that hold no intact record: [begin, end) of its inflated bytes."""

    begin: int
    end: int
    record: int  # number of the first record lost
    fault: Fault


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept of one file, and what was lost."""

    path: str
    out: str
    kept: int
    lost: list[Lost]

    @property
    def bytes_lost(self) -> int:
        """How many bytes are in no intact record."""
        return sum(lost.end - lost.begin for lost in self.lost)


def repair(paths: AnyPath | Iterable[AnyPath], out: AnyPath) -> list[Repaired]:
    """Copy every intact record of the files to `out`: a file for a single file, otherwise a folder with one file each.

    Bad data is skipped exactly; after a bad header, reading resumes where both checksums match. Nothing is ever
    overwritten.
    """
    files = list_files(paths)
    out = as_path(out)
    into_folder = len(files) > 1 or out.is_dir()
    targets = [out / path.name if into_folder else out for path in files]
    for path, target in zip(files, targets, strict=True):
        if target.exists():
            raise FileProblem(target, "exists already", help=[f"Choose another place for what is kept of {path}."])
    if len(set(targets)) < len(targets):
        raise FileProblem(out, "two of the files have the same name and would become one")
    if into_folder:
        out.mkdir(parents=True, exist_ok=True)
    return [_repair_file(open_file(path), target) for path, target in zip(files, targets, strict=True)]


def _repair_file(file: RecordFile, target: Path) -> Repaired:
    faults: list[Skipped] = []
    kept = 0
    sink = Sink(target, file.compression)
    try:
        for chunk in map(Chunk.copied, file.chunks(on_fault=faults.append)):
            bad = {row: fault for row, fault, _ in _native.verify(chunk.memory, chunk.extents, 1)}
            for row, fault in bad.items():
                length = int(chunk.extents[row, 1]) + 16
                faults.append(Skipped(str(file.path), chunk.first + row, chunk.offset(row), length, Fault(fault)))
            _copy_intact(chunk, set(bad), sink)
            kept += len(chunk.extents) - len(bad)
        sink.close()
    except BaseException:
        sink.discard()
        raise
    return Repaired(path=str(file.path), out=str(target), kept=kept, lost=_joined(faults))


def _copy_intact(chunk: Chunk, bad: set[int], sink: Sink) -> None:
    """Records follow each other, so everything between two bad ones is one piece."""
    memory = memoryview(chunk.memory)
    start = int(chunk.extents[0, 0])
    for row in (*sorted(bad), None):
        end = int(chunk.extents[-1].sum()) + 16 if row is None else int(chunk.extents[row, 0])
        if end > start:
            sink.write(memory[start:end])
        if row is not None:
            start = end + int(chunk.extents[row, 1]) + 16


def _joined(faults: list[Skipped]) -> list[Lost]:
    lost: list[Lost] = []
    for fault in sorted(faults, key=lambda fault: fault.offset):
        end = fault.offset + fault.length
        if lost and lost[-1].end == fault.offset and lost[-1].fault == fault.fault:
            lost[-1] = msgspec.structs.replace(lost[-1], end=end)
        else:
            lost.append(Lost(begin=fault.offset, end=end, record=fault.record, fault=fault.fault))
    return lost
