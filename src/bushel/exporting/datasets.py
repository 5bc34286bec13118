"""Export of a dataset: part by part, streamed, and continued where it stopped."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import Column, need_arrow
from bushel.data.schema import Schema
from bushel.data.tfds import why_no_form
from bushel.errors import BushelError, FileProblem, quantity
from bushel.exporting.formats import (
    Content,
    Part,
    write_description,
    write_folder,
    write_jsonl,
    write_parquet,
    write_tfds,
    write_webdataset,
)
from bushel.parallel import Ahead, available_cores
from bushel.reading import Dataset, Split, open
from bushel.storage import AnyPath, as_path, write_whole

__all__ = ["FORMATS", "Exported", "Format", "export_dataset"]

Format: TypeAlias = Literal["parquet", "webdataset", "jsonl", "folder", "tfds"]
FORMATS: dict[str, Callable[[Path, Part, Content, Iterator[dict[str, Column]]], Counter[str]]] = {
    "parquet": write_parquet,
    "webdataset": write_webdataset,
    "jsonl": write_jsonl,
    "folder": write_folder,
    "tfds": write_tfds,
}
EXPORT_NAME = "_export.json"  # written last: if it exists, the export is complete
_JOURNAL = "_exporting"
_PART_RECORDS = 10_000  # of a selection, which has no shards of its own
_BLOCK_BYTES = 16 << 20
_BLOCK_RECORDS = 4096


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What an export wrote."""

    path: str
    format: str
    records: dict[str, int]  # by split
    resumed: int = 0  # parts that an earlier run had written
    skipped: int = 0  # damaged records
    notes: dict[str, int] = {}  # what the format cannot hold as it was, by kind
    schema: Schema | None = None
    classes: list[str] = []


def export_dataset(
    data: Dataset | Split | AnyPath | Any,
    out: AnyPath,
    *,
    format: Format = "parquet",
    overwrite: bool = False,
    on_fault: Literal["raise", "skip"] = "raise",
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write a dataset, a split, or anything that `bushel.open` opens, in the format of others.

    >>> bushel.export_dataset("data", "tables", format="parquet")

    Each shard becomes one file (`train-00000-of-00008.parquet`), or files in a folder of its split. Labels are written
    by class name. An export that was stopped continues when it is started again.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}; got {format!r}")
    if format == "parquet":
        need_arrow("export --format parquet")
    splits = _splits(data)
    folder = as_path(out)
    content = Content(splits[0].schema, splits[0].label, tuple(splits[0].classes))
    if format == "tfds" and (why := why_no_form(content.schema)) is not None:
        raise BushelError(f"TensorFlow Datasets has no form for these records: {why}")
    parts = [part for split in splits for part in _parts(split)]
    journal = _begin(folder, _identity(splits, format), overwrite=overwrite)
    export = _Export(folder, journal, format, {split.name: split for split in splits}, content, on_fault)
    return export.run(parts, progress)


def _splits(data: Any) -> list[Split]:
    if isinstance(data, Split):
        return [data]
    opened = data if isinstance(data, Dataset) else open(data)
    found = [split for split in opened.splits.values() if len(split)]
    if not found:
        raise BushelError(f"{opened.where}: there are no records to export")
    return found


def _parts(split: Split) -> list[Part]:
    """The shards of a split, or pieces of a selection."""
    whole = split.rows is None and len(split.shards.shards) > 0
    edges = split.shards.first.tolist() if whole else [*range(0, len(split), _PART_RECORDS), len(split)]
    pairs = [(begin, end) for begin, end in pairwise(edges) if end > begin]
    return [Part(split.name, number, len(pairs), *pair) for number, pair in enumerate(pairs)]


def _identity(splits: Sequence[Split], format: str) -> str:
    """What must not change between the runs of one export."""
    digest = hashlib.blake2b(format.encode(), digest_size=16)
    for split in splits:
        digest.update(f"\0{split.name}\0{len(split)}\0{sorted(split.schema)}".encode())
        for path in split.paths:
            status = path.stat() if path.exists() else None
            digest.update(f"\0{path.name}\0{status.st_size if status else 0}".encode())
        if split.rows is not None:
            digest.update(np.ascontiguousarray(split.rows).data)
    return digest.hexdigest()


def _begin(folder: Path, identity: str, *, overwrite: bool) -> Path:
    """The journal of the export, new or of an earlier run of the same one."""
    journal = folder / _JOURNAL
    if folder.exists() and not folder.is_dir():
        raise FileProblem(folder, "is a file, not a folder")
    is_same = (journal / "identity").is_file() and (journal / "identity").read_text() == identity
    if folder.exists() and any(folder.iterdir()) and not is_same:
        if not overwrite:
            raise FileProblem(folder, "is not empty", help=["Choose another folder, or replace it: --overwrite"])
        shutil.rmtree(folder)
    journal.mkdir(parents=True, exist_ok=True)
    (journal / "identity").write_text(identity)
    return journal


@dataclass(frozen=True)
class _Export:
    folder: Path
    journal: Path
    format: str
    splits: dict[str, Split]
    content: Content
    on_fault: str

    def run(self, parts: Sequence[Part], progress: Callable[[int, int], None] | None) -> Exported:
        done = {part for part in parts if self._mark(part).is_file()}
        left = [part for part in parts if part not in done]
        total, written = sum(part.records for part in parts), sum(part.records for part in done)
        cores = available_cores()
        with Ahead(self._write, left, threads=cores, ahead=cores) as parts_written:  # an error waits for the others
            for part in parts_written:
                written += part.records
                if progress is not None:
                    progress(written, total)
        return self._finish(parts, len(done))

    def _mark(self, part: Part) -> Path:
        return self.journal / f"{part.name}.json"

    def _write(self, part: Part) -> Part:
        skipped: list[int] = []
        notes = FORMATS[self.format](self.folder, part, self.content, self._blocks(part, skipped))
        mark = {"notes": dict(notes), "skipped": len(skipped)}
        with write_whole(self._mark(part)) as file:
            file.write(msgspec.json.encode(mark))
        return part

    def _blocks(self, part: Part, skipped: list[int]) -> Iterator[dict[str, Column]]:
        split = self.splits[part.split]
        size = split.shards.record_bytes()
        step = max(1, min(_BLOCK_RECORDS, int(_BLOCK_BYTES / size))) if size and size != float("inf") else 256
        rows: NDArray[np.int64] = (
            np.arange(part.first, part.end) if split.rows is None else split.rows[part.first : part.end]
        )
        for at in range(0, len(rows), step):
            some = rows[at : at + step]
            if self.on_fault == "skip":
                usable = split.usable(some)
                skipped += np.setdiff1d(some, usable).tolist()
                some = usable
            if len(some):
                yield split.read(some)

    def _finish(self, parts: Sequence[Part], resumed: int) -> Exported:
        notes, skipped, records = Counter[str](), 0, Counter[str]()
        written: dict[Part, int] = {}
        for part in parts:
            mark = msgspec.json.decode(self._mark(part).read_bytes())
            notes.update(mark["notes"])
            skipped += mark["skipped"]
            written[part] = part.records - mark["skipped"]
            records[part.split] += written[part]
        if self.format == "tfds":
            write_description(self.folder, self.content, written)
        exported = Exported(
            path=str(self.folder),
            format=self.format,
            records=dict(records),
            resumed=resumed,
            skipped=skipped,
            notes=dict(notes),
            schema=self.content.schema,
            classes=list(self.content.classes),
        )
        with write_whole(self.folder / EXPORT_NAME) as file:
            file.write(msgspec.json.format(msgspec.json.encode(exported), indent=2))
        shutil.rmtree(self.journal)
        return exported


def summary_of(exported: Exported) -> list[str]:
    """What was exported, as lines for people."""
    lines = [f"{name}: {quantity(count, 'record')}" for name, count in exported.records.items()]
    lines += [f"note: {count:,} {what}" for what, count in exported.notes.items()]
    return lines + ([f"{quantity(exported.skipped, 'damaged record')} left out"] if exported.skipped else [])
