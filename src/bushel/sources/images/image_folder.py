"""A folder of images."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, take
from bushel.data.mapped_columns import is_spooled, load_columns, spool_columns, write_columns
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem
from bushel.sources.folders import ClassFolder, FileList, as_keys, files_of, told_by_folders, walk
from bushel.sources.images.image_checks import MAX_PIXELS, CheckedImages, ImageCheck, Verify, allowed
from bushel.sources.images.label_files import find_label_file, read_label_file
from bushel.sources.protocol import Block, Listing, Refused, fingerprint_of
from bushel.storage import AnyPath, as_path, is_object
from bushel.storage.streams import in_background

__all__ = ["ImageSource", "images"]

_BLOCK_BYTES = 4 << 20
_BLOCK_ROWS = 512
_READERS = 4  # threads: files that are not in memory yet are waited for together


def images(
    folder: AnyPath,
    labels: AnyPath | Mapping[str, str] | None = None,
    *,
    class_folder: ClassFolder = "first",
    label_column: str | None = None,
    verify: Verify = "decode",
    keep_bytes: bool = False,
    allow: str | Sequence[str] = (),
    max_pixels: int = MAX_PIXELS,
) -> ImageSource:
    """Take a sample from each image below a folder.

    The class is the first folder's name (`class_folder="last"` or `"path"` takes another), below `train`, `val` and
    `test` if those are the folders at the top. Or `labels` says it: a CSV or JSONL file with a column of file names, or
    a dict by file name; `label_column` tells which column, where that is not clear. Images are decoded to see
    whether they can be, and turned upright unless `keep_bytes`; CMYK, 16-bit and animated ones are refused unless
    `allow` names them; more than `max_pixels` are taken for a decompression bomb.
    """
    check = ImageCheck(verify, keep_bytes, allowed(allow), max_pixels)
    source = ImageSource(str(folder), labels, class_folder, label_column, check)
    if not len(source.files):
        counted = source.files.counted
        said = ", ".join(f"{count} {what}" for what, count in counted.items()) or "it is empty"
        raise FileProblem(folder, f"there are no images in this folder: {said}")
    return source


class ImageSource:
    """Samples from image files; reads at random, in one partition."""

    reads: Literal["random", "sequence"] = "random"

    def __init__(
        self,
        folder: str,
        labels: AnyPath | Mapping[str, str] | None,
        class_folder: ClassFolder,
        label_column: str | None,
        check: ImageCheck,
    ) -> None:
        self.folder = folder
        self.given_labels: dict[str, str] | str | None = None
        if labels is not None:
            self.given_labels = dict(labels) if isinstance(labels, Mapping) else str(labels)
        self.class_folder = class_folder
        self.label_column = label_column
        self.check = check
        self.spooled: Path | None = None

    @cached_property
    def files(self) -> FileList:
        """The images there are. In another process, those that were there when the source was pickled."""
        if self.spooled is not None and (self.spooled / "columns.json").exists():
            return FileList(**load_columns(self.spooled), counted={})  # type: ignore[arg-type]
        found = walk(as_path(self.folder), files_of("images"))
        if self.spooled is not None and _digest(found) != self.digest:
            raise FileProblem(self.folder, "has changed since it was listed")
        return found

    @cached_property
    def digest(self) -> str:
        """Of names, sizes and times of all files."""
        return _digest(self.files)

    @cached_property
    def labels(self) -> dict[str, str] | str | None:
        """The labels that were given, or the file of labels that was found in a flat folder."""
        if self.given_labels is None and len(self.files.folders) == 1 and not self.files.folders[0]:
            return find_label_file(as_path(self.folder), self.files.paths)
        return self.given_labels

    @cached_property
    def label_table(self) -> tuple[dict[str, Column], dict[str, int]] | None:
        """Label and split of each image as the labels say them, and what was left out."""
        if self.labels is None:
            return None
        return read_label_file(self.labels, self.files.paths, self.label_column)

    @cached_property
    def listed(self) -> dict[str, Column]:
        """Label and split, where something says them. In another process, as they were when pickled."""
        if self.spooled is not None and (self.spooled / "listed" / "columns.json").exists():
            return load_columns(self.spooled / "listed")
        if self.label_table is not None:
            return self.label_table[0]
        return told_by_folders(self.files, self.class_folder)

    @property
    def split(self) -> str | None:
        """`split`, if folders or a file of labels say which images belong to it."""
        return "split" if "split" in self.listed else None

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """The image, what it says of itself, its label and its key."""
        features = self.check.features("image")
        if "label" in self.listed:
            label = self.listed["label"]
            values = label.values if isinstance(label, Ragged) else label
            is_text = isinstance(values, BytesColumn)
            is_float = isinstance(values, np.ndarray) and values.dtype.kind == "f"
            features["label"] = Feature(dtype="str" if is_text else "float32" if is_float else "int64")
        features["key"] = Feature(dtype="str")
        return Schema(features=features)

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are paths relative to the folder."""
        assert partition == 0
        keys = as_keys(self.files.paths)
        there = self.listed | {"key": keys}
        counted = self.files.counted | (self.label_table[1] if self.label_table else {})
        return Listing(keys, {name: there[name] for name in columns if name in there}, self.files.sizes, counted)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """Read and check the images asked for, in that order."""
        assert partition == 0
        wanted = np.arange(len(self.files)) if rows is None else np.asarray(rows, np.int64)
        start = 0
        while start < len(wanted):
            sizes = np.cumsum(self.files.sizes[wanted[start : start + _BLOCK_ROWS]])
            stop = start + max(1, int(np.searchsorted(sizes, _BLOCK_BYTES)))
            yield self._block(wanted[start:stop])
            start = stop

    def _block(self, rows: NDArray[np.int64]) -> Block:
        label = self.listed.get("label")
        has_labels = not isinstance(label, Ragged) or label.present is None or bool(label.present[rows].all())
        read = self._read_at_once(rows) if has_labels else None
        if read is None:
            return self._block_one_by_one(rows)
        checked = self.check.check_column(read, "image")
        bad = [Refused(int(rows[row]), "decode", reason) for row, reason in sorted(checked.bad.items())]
        return self._block_of(rows[checked.rows], checked, bad)

    def _read_at_once(self, rows: NDArray[np.int64]) -> BytesColumn | None:
        """The files one behind the other; None if one of them is in a store, cannot be read or has another size."""
        if is_object(as_path(self.folder)):
            return None
        paths, sizes = self.files.paths.take(rows), np.ascontiguousarray(self.files.sizes[rows])
        found: Any = _native.read_files(os.fsencode(self.folder), paths.offsets, paths.data, sizes, _READERS)
        data, faults = found
        if faults.any():
            return None
        return BytesColumn(np.concatenate([[0], np.cumsum(sizes)]), data)

    def _block_of(self, kept: NDArray[np.int64], checked: CheckedImages, left: Sequence[Refused]) -> Block:
        label = self.listed.get("label")
        columns = dict(checked.columns)
        if label is not None:
            picked = take(label, kept)
            columns["label"] = picked.values if isinstance(picked, Ragged) and picked.present is not None else picked
        columns["key"] = as_keys(self.files.paths.take(kept))
        return Block(kept, columns, [*left], checked.counted)

    def _block_one_by_one(self, rows: NDArray[np.int64]) -> Block:
        refused: dict[int, tuple[str, str]] = {}
        payload: list[bytes] = []
        for row, read in enumerate(_reads(self._paths(rows), self.files.sizes[rows].tolist())):
            try:
                payload.append(read())
            except OSError as error:
                refused[row] = ("read", (error.strerror or str(error)).lower())
                payload.append(b"")
        label = self.listed.get("label")
        if isinstance(label, Ragged) and label.present is not None:
            reason = self._no_label()
            refused |= dict.fromkeys(np.flatnonzero(~label.present[rows]).tolist(), ("read", reason))
        usable = [row for row in range(len(rows)) if row not in refused]
        checked = self.check.check_all((payload[row] for row in usable), "image")
        refused |= {usable[row]: ("decode", reason) for row, reason in checked.bad.items()}
        left = [Refused(int(rows[row]), *why) for row, why in sorted(refused.items())]
        return self._block_of(rows[[usable[row] for row in checked.rows]], checked, left)

    def _paths(self, rows: NDArray[np.int64]) -> Sequence[bytes]:
        picked = self.files.paths.take(rows)
        text, ends = picked.data.tobytes(), picked.offsets.tolist()
        folder = os.fsencode(self.folder) + b"/"
        return [folder + text[start:end] for start, end in pairwise(ends)]

    def _no_label(self) -> str:
        return "it is in no class folder" if self.labels is None else "the labels have none for it"

    def locate(self, partition: int, row: int) -> str:
        """The path of the file."""
        assert partition == 0
        return str(as_path(os.fsdecode(self._paths(np.array([row]))[0])))

    def fingerprint(self) -> str:
        """Names, sizes and times of all images, and the options."""
        labels = [self.labels] if isinstance(self.labels, str) else []
        return fingerprint_of(labels, self.describe(), self.digest)

    def describe(self) -> dict[str, Any]:
        """The folder and options."""
        options: dict[str, Any] = {
            "labels": self.given_labels,
            "class_folder": self.class_folder if self.class_folder != "first" else None,
            "label_column": self.label_column,
            "keep_bytes": self.check.keep_bytes or None,
            "allow": [*self.check.allow] or None,
            "max_pixels": self.check.max_pixels if self.check.max_pixels != MAX_PIXELS else None,
        }
        told = {name: value for name, value in options.items() if value is not None}
        return {"kind": "images", "path": self.folder, "verify": self.check.verify, **told}

    def __getstate__(self) -> dict[str, Any]:
        if not is_spooled(self.spooled):
            listed, files = self.listed, self.files
            self.spooled = spool_columns(files.columns())
            write_columns(self.spooled / "listed", listed)
        cached = ("files", "label_table", "listed")
        told = {name: value for name, value in self.__dict__.items() if name not in cached}
        return told | {"digest": self.digest, "labels": self.labels}


def _digest(files: FileList) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in (files.paths.data, files.paths.offsets, files.sizes, files.times):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _reads(paths: Sequence[bytes], sizes: Sequence[int]) -> Iterator[Callable[[], bytes]]:
    """What reads each file; objects of a store are on their way by then, several at a time."""
    if not paths or not is_object(as_path(os.fsdecode(paths[0]))):
        return (partial(_read_whole, path, size) for path, size in zip(paths, sizes, strict=True))
    return (future.result for future in [in_background(as_path(os.fsdecode(path)).read_bytes) for path in paths])


def _read_whole(path: bytes, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, size + 1)
        if len(data) == size:
            return data
        pieces = [data]  # changed since it was listed, or read in parts
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
