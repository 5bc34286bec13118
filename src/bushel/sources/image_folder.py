"""Images in class folders, or with a table of labels beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import (
    BytesColumn,
    Column,
    Ragged,
    cut,
    is_spooled,
    load_columns,
    spool_columns,
    steps,
    take,
    write_columns,
)
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.sources.file_labels import find_label_files, has_lists, label_feature, label_files, read_label_files
from bushel.sources.folders import (
    ClassFolder,
    FileList,
    FolderSource,
    as_keys,
    classes_of,
    digest_of,
    images_or_bare,
    told_by_folders,
    walk,
)
from bushel.sources.image_checks import (
    MAX_PIXELS,
    Allow,
    CheckedImages,
    HowVerified,
    ImageCheck,
    KeepBytes,
    allowed,
)
from bushel.sources.protocol import Block, Listing, Reads, Refused, check_values, fingerprint_of, recipe_table
from bushel.storage import AnyPath, as_path, open_named, read_each, read_together
from bushel.storage.file_kinds import kind_of_bytes

__all__ = ["ImageSource", "images"]


_BLOCK_BYTES = 4 << 20
_BLOCK_ROWS = 512
_READERS = 4  # threads that wait together for files that are not in memory yet


def images(
    folder: AnyPath,
    labels: Annotated[
        AnyPath | Mapping[str, str] | None, "CSV or JSON lines file with a column of file names and one of labels"
    ] = None,
    *,
    class_folder: Annotated[
        ClassFolder, "Which folder of a path names the class (none: there are no classes)"
    ] = "first",
    label_column: Annotated[str | None, "Column of `labels` that holds the label"] = None,
    verify: HowVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
    max_pixels: Annotated[int, "Refuse larger images as decompression bombs"] = MAX_PIXELS,
    helpers: Helpers = None,
) -> ImageSource:
    """Take a sample from each image below a folder.

    The class is the name of the first folder (`class_folder="last"` or `"path"` takes another), below `train`, `val`
    and `test` if those are the folders at the top. Or `labels` gives it: a CSV or JSON lines file with a column of file
    names, or a dict by file name; `label_column` names the column if it is not clear. Images are decoded to
    check them, and turned upright unless `keep_bytes`. CMYK, 16-bit and animated images are refused unless
    `allow` names them; images of more than `max_pixels` are refused as decompression bombs.
    """
    given = locals()
    check_values(images, given)
    check = ImageCheck(verify, keep_bytes, allowed(allow), max_pixels)
    recipe = recipe_table(images, str(folder), given | {"allow": check.allow}, first=("verify",))
    source = ImageSource(
        path=str(folder),
        class_folder=class_folder,
        recipe=recipe,
        given_labels=recipe.get("labels"),
        label_column=label_column,
        check=check,
    )
    source.look(helpers)
    if not len(source.files):
        counted = source.files.counted
        found = ", ".join(f"{count} {what}" for what, count in counted.items()) or "it is empty"
        raise FileProblem(folder, f"there are no images in this folder: {found}")
    return source


def _but_other_files(folder: Path, found: FileList) -> FileList:
    """The images among files; files without a suffix are identified by their first bytes."""
    others = []
    for some in steps(len(found)):
        for row, name in enumerate(cut(found.paths, some.start, some.stop), some.start):
            if b"." not in name.rpartition(b"/")[2]:
                with open_named(folder / os.fsdecode(name)) as file:
                    kind = kind_of_bytes(file.read(16))
                if kind is None or kind.source != "images":
                    others.append(row)
    return found.but(others, "files that are not images") if others else found


@dataclass(eq=False, kw_only=True)
class ImageSource(FolderSource):
    """Samples from image files; reads at random, in one partition."""

    reads: ClassVar[Reads] = "random"
    takes = "images"
    given_labels: dict[str, str] | str | None
    label_column: str | None
    check: ImageCheck

    def find_files(self, helpers: Helpers = None) -> FileList:
        """Look for the images; in another process, they must be the same as when the source was pickled."""
        found = _but_other_files(as_path(self.path), walk(as_path(self.path), images_or_bare, helpers))
        if self.spooled is not None and digest_of(found) != self.digest:
            raise FileProblem(self.path, "has changed since it was listed")
        return found

    @cached_property
    def labels(self) -> dict[str, str] | str | list[str] | None:
        """The given labels, or the label file found in a folder that has no classes of its own, such as `images`."""
        is_flat = len(self.files.folders) == 1 and not self.files.folders[0]
        if self.given_labels is None and (is_flat or (self.class_folder != "none" and not self._has_classes)):
            return find_label_files(as_path(self.path), self.files) or None
        return self.given_labels

    @property
    def _has_classes(self) -> bool:
        labels = classes_of(self.files.folders.to_list(), self.class_folder).labels
        folder = self.files.folder
        used = {number for some in steps(len(folder)) for number in np.unique(folder[some]).tolist()}
        return len({labels[number] for number in used} - {None}) > 1

    @cached_property
    def label_table(self) -> tuple[dict[str, Column], dict[str, int]] | None:
        """Label and split of each image from the labels, and what was left out."""
        if self.labels is None:
            return None
        return read_label_files(self.labels, as_path(self.path), self.files.paths, self.label_column)

    @cached_property
    def listed(self) -> dict[str, Column]:
        """Label and split, if known. In another process, as they were when the source was pickled."""
        if self.spooled is not None and (self.spooled / "listed" / "columns.json").exists():
            return load_columns(self.spooled / "listed")
        stated = told_by_folders(self.files, self.class_folder)
        if self.label_table is not None:
            return {name: column for name, column in stated.items() if name == "split"} | self.label_table[0]
        return stated

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """The image, its size, its label and its key."""
        features = self.check.features("image")
        if "label" in self.listed:
            features["label"] = label_feature(self.listed["label"])
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
        """Read and check the requested images, in that order."""
        assert partition == 0
        return self._blocks(rows, decodes=True)

    def read_undecoded(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """The same for a reader that decodes all of every image itself: those of most kinds are not decoded before."""
        assert partition == 0
        return self._blocks(rows, decodes=self.check.verify != "decode")

    def _blocks(self, rows: NDArray[np.int64] | None, *, decodes: bool) -> Iterator[Block]:
        wanted = np.arange(len(self.files)) if rows is None else np.asarray(rows, np.int64)
        start = 0
        while start < len(wanted):
            sizes = np.cumsum(self.files.sizes[wanted[start : start + _BLOCK_ROWS]])
            stop = start + max(1, int(np.searchsorted(sizes, _BLOCK_BYTES)))
            yield self._block(wanted[start:stop], decodes=decodes)
            start = stop

    def _block(self, rows: NDArray[np.int64], *, decodes: bool = True) -> Block:
        label = self.listed.get("label")
        has_labels = not isinstance(label, Ragged) or label.present is None or bool(label.present[rows].all())
        read = self._read_at_once(rows) if has_labels else None
        if read is None:
            return self._block_one_by_one(rows)
        checked = self.check.check_all(read, "image", decodes=decodes)
        bad = [Refused(int(rows[row]), "decode", reason) for row, reason in sorted(checked.bad.items())]
        block = self._block_of(rows[checked.rows], checked, bad)
        return block if decodes else replace(block, decoded=partial(self._block, rows))

    def _read_at_once(self, rows: NDArray[np.int64]) -> BytesColumn | None:
        """The files one after the other; None if they are in a store, or if one cannot be read or has changed size."""
        paths, sizes = self.files.paths.take(rows), np.ascontiguousarray(self.files.sizes[rows])
        names = (paths.offsets, paths.data)
        data = read_together(as_path(self.path), names, sizes, threads=_READERS)
        return None if data is None else BytesColumn(np.concatenate([[0], np.cumsum(sizes)]), data)

    def _block_of(self, kept: NDArray[np.int64], checked: CheckedImages, left: Sequence[Refused]) -> Block:
        label = self.listed.get("label")
        columns = dict(checked.columns)
        if label is not None:
            picked = take(label, kept)
            columns["label"] = picked.values if isinstance(picked, Ragged) and not has_lists(label) else picked
        columns["key"] = as_keys(self.files.paths.take(kept))
        return Block(kept, columns, [*left], checked.counted)

    def _block_one_by_one(self, rows: NDArray[np.int64]) -> Block:
        refused: dict[int, tuple[str, str]] = {}
        payload: list[bytes] = []
        for row, (_, read) in enumerate(read_each(as_path(os.fsdecode(path)) for path in self._paths(rows))):
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
        checked = self.check.check_all(BytesColumn.of([payload[row] for row in usable]), "image")
        refused |= {usable[row]: ("decode", reason) for row, reason in checked.bad.items()}
        left = [Refused(int(rows[row]), *why) for row, why in sorted(refused.items())]
        return self._block_of(rows[[usable[row] for row in checked.rows]], checked, left)

    def _paths(self, rows: NDArray[np.int64]) -> Sequence[bytes]:
        picked = self.files.paths.take(rows)
        text, ends = picked.data.tobytes(), picked.offsets.tolist()
        folder = os.fsencode(self.path) + b"/"
        return [folder + text[start:end] for start, end in pairwise(ends)]

    def _no_label(self) -> str:
        return "it is not in a class folder" if self.labels is None else "the table of labels does not list it"

    def locate(self, partition: int, row: int) -> str:
        """The path of the file."""
        assert partition == 0
        return str(self.file_at(row))

    def fingerprint(self) -> str:
        """Names, sizes and times of all images, and the options."""
        labels = label_files(self.labels) if self.labels else []
        return fingerprint_of(labels, self.describe(), self.digest)

    def spool(self, folder: Path | None = None) -> None:
        """Write what was listed to files that other processes can map, in `folder` or in a temporary folder."""
        if not is_spooled(self.spooled, folder):
            listed, files = self.listed, self.files
            self.spooled = spool_columns(files.columns(), folder)
            write_columns(self.spooled / "listed", listed)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("label_table", None)
        return state | {"digest": self.digest, "labels": self.labels}
