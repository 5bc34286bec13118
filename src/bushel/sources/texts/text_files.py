"""Text: files in class folders, or one file with one sample per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, take
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem
from bushel.parallel import Helpers
from bushel.sources.folders import ClassFolder, FolderSource, as_keys
from bushel.sources.memory.values import number_keys
from bushel.sources.options import check_values, recipe_table
from bushel.sources.protocol import Block, Listing, Reads, Refused, fingerprint_of
from bushel.sources.tables.table_columns import Part, part_bytes
from bushel.sources.texts.text_blocks import TextFile, cut_at_newline, detect_encoding
from bushel.storage import AnyPath, as_path

__all__ = ["LineSource", "TextFolderSource", "text"]

_BLOCK_ROWS = 512


def text(
    path: AnyPath,
    *,
    encoding: Annotated[str | None, "Text encoding (default: UTF-8, or what a byte order mark tells)"] = None,
    class_folder: Annotated[
        ClassFolder, "Which folder of a path names the class (none: there are no classes)"
    ] = "first",
    helpers: Helpers = None,
) -> TextFolderSource | LineSource:
    """Take a sample from each text file below a folder, or from each line of one file.

    In a folder, `.txt`, `.text` and `.md` files and those without a suffix are text, and folders give classes and
    splits as for `images`. The encoding is UTF-8, or what a byte order mark tells, or the one declared; text that is
    not in it is refused with its line.
    """
    given = locals()
    check_values(text, given)
    recipe = recipe_table(text, str(path), given)
    if as_path(path).is_dir():
        source = TextFolderSource(path=str(path), class_folder=class_folder, recipe=recipe, encoding=encoding)
        source.look(helpers)
        if not len(source.files):
            raise FileProblem(path, "there are no text files in this folder")
        return source
    lines = LineSource(str(path), encoding, recipe)
    if not lines.partitions():
        raise FileProblem(path, "is empty: there is no line in it")
    return lines


def _why_not_text(data: bytes, encoding: str) -> tuple[str, str]:
    """The text of some bytes, or where they are not valid in their encoding."""
    try:
        return data.decode(encoding), ""
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return "", f"line {line}: byte 0x{data[error.start]:02x} is not {encoding.upper()}"


@dataclass(eq=False, kw_only=True)
class TextFolderSource(FolderSource):
    """Samples from text files; reads at random, in one partition."""

    reads: ClassVar[Reads] = "random"
    takes = "text"
    encoding: str | None

    def partitions(self) -> int:
        """One."""
        return 1

    def schema(self) -> Schema:
        """Text, label and key."""
        names = ["text", *(["label"] if "label" in self.listed else []), "key"]
        return Schema(features={name: Feature(dtype="str") for name in names})

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are paths relative to the folder."""
        assert partition == 0
        keys = as_keys(self.files.paths)
        there = self.listed | {"key": keys}
        found = {name: there[name] for name in columns if name in there}
        return Listing(keys, found, self.files.sizes, self.files.counted)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """Read and decode the requested files, in that order."""
        assert partition == 0
        wanted = np.arange(len(self.files)) if rows is None else np.asarray(rows, np.int64)
        for start in range(0, len(wanted), _BLOCK_ROWS):
            yield self._block(wanted[start : start + _BLOCK_ROWS])

    def _block(self, rows: NDArray[np.int64]) -> Block:
        label = self.listed.get("label")
        texts: list[str] = []
        kept: list[int] = []
        refused: list[Refused] = []
        for number in rows.tolist():
            stage, found, why = self._text(number)
            if not why and isinstance(label, Ragged) and label.present is not None and not label.present[number]:
                stage, why = "read", "it is not in a class folder"
            if why:
                refused.append(Refused(number, stage, why))
                continue
            texts.append(found)
            kept.append(number)
        numbers = np.array(kept, np.int64)
        columns: dict[str, Column] = {"text": BytesColumn.of(texts)}
        if label is not None:
            picked = take(label, numbers)
            columns["label"] = picked.values if isinstance(picked, Ragged) else picked
        columns["key"] = as_keys(self.files.paths.take(numbers))
        return Block(numbers, columns, refused)

    def _text(self, row: int) -> tuple[str, str, str]:
        """Stage, text, and what is wrong."""
        try:
            data = self.file_at(row).read_bytes()
        except OSError as error:
            return "read", "", (error.strerror or str(error)).lower()
        found, bom = detect_encoding(data[:4096])
        encoding = self.encoding or found
        if encoding == found:
            data = data[bom:]
        return ("decode", *_why_not_text(data, encoding))

    def locate(self, partition: int, row: int) -> str:
        """The path of the file."""
        assert partition == 0
        return str(self.file_at(row))


@dataclass(frozen=True)
class LineSource:
    """Samples from the lines of one file; reads in sequence, a part of the file at a time."""

    path: str
    encoding: str | None
    recipe: dict[str, Any]
    reads: Reads = "sequence"
    split: str | None = None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Ranges of bytes, and the number of lines in each."""
        file = self._open()
        parts: list[Part] = []
        row = 0
        least = part_bytes(file.path.stat().st_size)
        for block in file.blocks(cut_at_newline):
            rows = block.text.count(b"\n") + (not block.text.endswith(b"\n"))
            if parts and (not file.is_seekable or parts[-1].last - parts[-1].first < least):
                parts[-1] = parts[-1]._replace(last=block.stop, rows=parts[-1].rows + rows)
            else:
                parts.append(Part(block.start, block.stop, row, rows))
            row += rows
        return tuple(parts)

    def _open(self) -> TextFile:
        return TextFile.open(as_path(self.path), self.encoding)

    def partitions(self) -> int:
        """Parts of 8 to 64 MB."""
        return len(self.parts)

    def schema(self) -> Schema:
        """The text."""
        return Schema(features={"text": Feature(dtype="str")})

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys are the numbers of the lines."""
        assert columns is not None
        part = self.parts[partition]
        return Listing(number_keys(part.first_row, part.rows), {})

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """All lines of a part, in order; lines that are empty or not text are refused."""
        if rows is not None:
            raise ValueError("rows must be None: lines are read in sequence")
        file, part = self._open(), self.parts[partition]
        start, stop = (part.first, part.last) if file.is_seekable else (0, None)
        first = 0
        for block in file.blocks(cut_at_newline, start, stop):
            lines = split_lines(block.text)
            bad = self._bad_lines(block.text, lines, part.first_row + first)
            kept = np.setdiff1d(np.arange(len(lines)), list(bad)) if bad else np.arange(len(lines))
            refused = [Refused(first + row, *why) for row, why in sorted(bad.items())]
            yield Block(kept + first, {"text": lines.take(kept) if bad else lines}, refused)
            first += len(lines)

    def _bad_lines(self, data: bytes, lines: BytesColumn, first: int) -> dict[int, tuple[str, str]]:
        bad = {int(row): ("read", "the line is empty") for row in np.flatnonzero(lines.lengths == 0)}
        try:
            data.decode()
        except UnicodeDecodeError:
            for row, line in enumerate(lines):
                if why := _why_not_text(line, "utf-8")[1]:
                    bad[row] = ("decode", f"line {first + row + 1}{why.removeprefix('line 1')}")
        return bad

    def locate(self, partition: int, row: int) -> str:
        """The file and the number of the line, counted from 1."""
        return f"{self.path}: line {self.parts[partition].first_row + row + 1}"

    def fingerprint(self) -> str:
        """Name, size and time of the file, and the options."""
        return fingerprint_of([self.path], self.describe())

    def describe(self) -> dict[str, Any]:
        """The path and options."""
        return dict(self.recipe)


def split_lines(data: bytes) -> BytesColumn:
    """Lines of some text without their ends, as one column."""
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if not data.endswith(b"\n"):
        data += b"\n"
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == ord("\n"))
    offsets = np.zeros(len(ends) + 1, np.int64)
    offsets[1:] = ends - np.arange(len(ends))
    return BytesColumn(offsets, values[values != ord("\n")])
