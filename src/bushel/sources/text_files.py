"""Samples from text: files in blocks of whole lines, decompressed, as UTF-8."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, take
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem
from bushel.parallel import Helpers, Nearby, do_all, map_in_threads
from bushel.sources.folders import ClassFolder, FileList, FolderSource, as_keys, files_of, walk_or_take
from bushel.sources.in_memory import number_keys
from bushel.sources.protocol import Block, Listing, Reads, Refused, Source, check_values, fingerprint_of, recipe_table
from bushel.sources.tables.table_files import Part, part_bytes
from bushel.storage import AnyPath, as_path, open_to_read, openable, read_named
from bushel.storage.file_kinds import CODECS, inflated

__all__ = ["LineSource", "TextBlock", "TextFile", "TextFolderSource", "text"]

BLOCK_BYTES = 1 << 20  # small enough for caches, so that memory is reused
LONGEST_ROW = 128 << 20
LARGE_FILE = 48 << 20  # bytes of a file that helpers scan together
_SPAN_BYTES = 8 << 20  # bytes that one helper scans
_COMPRESSED = {codec.magic: name for name, codec in CODECS.items() if codec.is_text}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
R = TypeVar("R")
Text: TypeAlias = bytes | memoryview
# Where the last whole row in some bytes ends; 0 if there is none.
Cut = Callable[[Text], int]
_BLOCK_ROWS = 512


class TextBlock(NamedTuple):
    """Some whole rows: where they begin in the (decompressed) file, and their text as UTF-8."""

    start: int
    stop: int
    text: Any  # bytes, or a view of some


@dataclass(frozen=True)
class TextFile:
    """A text file whose encoding is known."""

    path: Path
    encoding: str = "utf-8"
    compression: str | None = None
    bom: int = 0  # bytes at the start that are not text

    @classmethod
    def open(cls, path: Path, encoding: str | None = None) -> TextFile:
        """Find the compression by the first bytes, and the encoding by a byte order mark, unless it is declared."""
        with open_to_read(path) as file:
            head = file.read(4096)
        compression = _COMPRESSED.get(head[:2])
        if compression is not None:
            with _inflating(path, compression) as stream:
                head = stream.read(4096)
        found, bom = _detect_encoding(head)
        if encoding is None:
            return cls(path, found, compression, bom)
        try:
            name = codecs.lookup(encoding).name
        except LookupError:
            raise ValueError(f"encoding must be one that Python knows, such as 'utf-8'; got {encoding!r}") from None
        is_same = found == name or name in ("utf-8-sig", "utf-16", "utf-32")
        return cls(path, found if is_same and bom else name, compression, bom if is_same else 0)

    @cached_property
    def is_seekable(self) -> bool:
        """Whether rows can be found in the bytes of the file itself, so that reading may begin anywhere."""
        return self.compression is None and not self.encoding.startswith(("utf-16", "utf-32"))

    def blocks(self, cut: Cut, start: int = 0, stop: int | None = None, size: int = BLOCK_BYTES) -> Iterator[TextBlock]:
        """Blocks of whole rows from `start`, where a row must begin, to `stop`, where one must end."""
        for block in self.passing_blocks(cut, start, stop, size):
            yield block._replace(text=bytes(block.text))

    def passing_blocks(
        self, cut: Cut, start: int = 0, stop: int | None = None, size: int = BLOCK_BYTES
    ) -> Iterator[TextBlock]:
        """The same without copies: the text of a block is valid until the next one is requested."""
        at = max(start, self.bom if self.is_seekable else 0)
        carried, buffer = 0, bytearray(size + size // 8)
        with self._opened() as stream:
            if at and self.is_seekable:
                stream.seek(at)
            while True:
                left = max(size, carried)  # do not join a long row piece by piece
                left = left if stop is None else max(0, min(left, stop - at - carried))
                if carried + left > len(buffer):
                    buffer = buffer[:carried] + bytearray(left + size // 8)
                came = _read_into(stream, memoryview(buffer)[carried : carried + left])
                text = memoryview(buffer)[: carried + came]
                end = cut(text) if came else len(text)
                if end:
                    yield TextBlock(at, at + end, self._as_utf8(text[:end], at))
                if not came:
                    break
                at, carried = at + end, len(text) - end
                if carried > LONGEST_ROW:
                    what = f"no row ends within {LONGEST_ROW >> 20} MiB of byte {at}"
                    raise FileProblem(self.path, what, help=["In a CSV file: is a quote opened and never closed?"])
                if end:
                    text[:carried] = bytes(text[end:])

    def spans(self, cut: Cut, start: int) -> Iterator[tuple[int, int]]:
        """Where spans of several blocks begin and end."""
        if cut is cut_at_newline:
            yield from self._spans_of_lines(max(start, self.bom))
            return
        begin = stop = max(start, self.bom)
        for block in self.passing_blocks(cut, start):
            stop = block.stop
            if stop - begin >= _SPAN_BYTES:
                yield begin, stop
                begin = stop
        if stop > begin:
            yield begin, stop

    def _spans_of_lines(self, begin: int) -> Iterator[tuple[int, int]]:
        """Lines end at newlines, so what lies between need not be read."""
        size = self.path.stat().st_size
        with open_to_read(self.path) as file:
            while begin < size:
                stop = min(begin + _SPAN_BYTES, size)
                file.seek(stop)
                while stop < size and (piece := file.read(1 << 16)):
                    end = piece.find(b"\n") + 1
                    stop += end or len(piece)
                    if end:
                        break
                yield begin, stop
                begin = stop

    def text_of(self, block: TextBlock) -> bytes:
        """The text of a block, read again if the block was scanned elsewhere."""
        return bytes(block.text) or next(self.blocks(len, block.start, block.stop, block.stop - block.start)).text

    def _opened(self) -> IO[bytes]:
        if self.is_seekable:
            return open_to_read(self.path)
        raw = open_to_read(self.path) if self.compression is None else _inflating(self.path, self.compression)
        if self.encoding == "utf-8":
            raw.read(self.bom)
            return raw
        raw.read(self.bom)
        return cast("IO[bytes]", _Transcoded(raw, self))

    def _as_utf8(self, given: memoryview, at: int) -> Text:
        if self.encoding in ("utf-8", "ascii") or not self.is_seekable:
            return given
        text = bytes(given)
        try:
            return text.decode(self.encoding).encode()
        except UnicodeDecodeError as error:
            line = self._line_at(at) + text[: error.start].count(b"\n")
            raise _bad_byte(self.path, line + 1, text[error.start], self.encoding) from None

    def _line_at(self, at: int) -> int:
        with open_to_read(self.path) as file:
            lines = 0
            while at > 0 and (piece := file.read(min(BLOCK_BYTES, at))):
                lines += piece.count(b"\n")
                at -= len(piece)
        return lines


Seen: TypeAlias = list[tuple[TextBlock, R]]  # blocks without their text, and what is in them


def look_through(
    file: TextFile,
    cut: Cut,
    start: int,
    looks: tuple[Callable[[TextBlock], R], Callable[[TextFile, tuple[int, int]], Seen[R] | None]],
    helpers: Helpers,
) -> Iterator[tuple[TextBlock, R]]:
    """Each block from `start` on without its text, with what is found in it, in order.

    Of the two `looks`, the first finds everything in a block. The second is fast, since the core reads a span and looks
    at all of its blocks, but it gives up on what is not simple. Threads use it before helpers of this machine, which
    take longer to start, are given the rest.
    """
    look, glance = looks
    if not file.is_seekable or file.path.stat().st_size < LARGE_FILE:
        yield from map_in_threads(look, file.blocks(cut, start))
        return
    spans = list(file.spans(cut, start))
    seen = 0
    if helpers is None or isinstance(helpers, Nearby):
        look_at = partial(_look_at, file, cut, look if helpers is None else None, glance)
        with closing(map_in_threads(look_at, spans)) as all_seen:
            for _, found in all_seen:
                if found is None:
                    break
                seen += 1
                yield from found
    for found in do_all(helpers, partial(_look_at, file, cut, look, None), spans[seen:]):
        yield from found or ()


def _look_at(
    file: TextFile,
    cut: Cut,
    look: Callable[[TextBlock], R] | None,
    glance: Callable[[TextFile, tuple[int, int]], Seen[R] | None] | None,
    span: tuple[int, int],
) -> Seen[R] | None:
    """What is in the blocks of a span: at a glance if that is enough, otherwise with a closer look, if there is one."""
    if glance is not None and (seen := glance(file, span)) is not None:
        return seen
    if look is None:
        return None
    return [(block._replace(text=b""), look(block)) for block in file.passing_blocks(cut, *span, BLOCK_BYTES)]


def survey_span(file: TextFile, span: tuple[int, int], survey: Callable[[int, int, int, int], Any]) -> Any:
    """What the core finds in a span of a file on this machine, if it is UTF-8; None if it finds nothing."""
    if file.encoding not in ("utf-8", "ascii"):
        return None
    with open_to_read(file.path) as stream:
        return survey(stream.fileno(), *span, BLOCK_BYTES) if isinstance(stream, io.FileIO) else None


def _read_into(stream: IO[bytes], room: memoryview) -> int:
    """Fill the room from a stream; returns how many bytes came."""
    if not room:
        return 0
    if isinstance(stream, io.FileIO):
        return stream.readinto(room) or 0
    piece = stream.read(len(room))
    room[: len(piece)] = piece
    return len(piece)


def _detect_encoding(head: bytes) -> tuple[str, int]:
    """The encoding according to the first bytes of a file, and the length of its byte order mark."""
    for bom, encoding in _BOMS:
        if head.startswith(bom):
            return encoding, len(bom)
    # ASCII text in UTF-16 without a mark has zeros in every other byte.
    even, odd = head[0:512:2], head[1:512:2]
    if len(head) >= 4 and len(odd) * 0.7 < odd.count(0) and not even.count(0):
        return "utf-16-le", 0
    if len(head) >= 4 and len(even) * 0.7 < even.count(0) and not odd.count(0):
        return "utf-16-be", 0
    return "utf-8", 0


def _bad_byte(path: Path, line: int, byte: int, encoding: str) -> FileProblem:
    """The error for text that is not in its encoding."""
    help = ["If it is text in another encoding, name it: --set encoding=cp1252 is common for Western European text."]
    return FileProblem(path, f"line {line}: byte 0x{byte:02x} is not {encoding.upper()}", help=help)


def is_utf8(text: Text) -> bool:
    """Whether bytes are UTF-8; other threads can run meanwhile."""
    return _native.first_not_utf8(np.array([0, len(text)]), text) == 1


def check_utf8(path: Path, text: bytes, line: int) -> None:
    """Raise an error for bytes that are not UTF-8; `line` is the number of lines before the text."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise _bad_byte(path, line + text[: error.start].count(b"\n") + 1, text[error.start], "utf-8") from None


def _inflating(path: Path, compression: str) -> IO[bytes]:
    return inflated(openable(path), compression)


class _Transcoded(io.RawIOBase):
    """Bytes in one encoding as UTF-8."""

    def __init__(self, raw: IO[bytes], file: TextFile) -> None:
        self.raw = raw
        self.file = file
        self.decoder = codecs.getincrementaldecoder(file.encoding)("strict")
        self.ready = b""
        self.lines = 0

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes of UTF-8; fewer only at the end."""
        while len(self.ready) < size:
            piece = self.raw.read(1 << 20)
            try:
                decoded = self.decoder.decode(piece, final=not piece).encode()
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(self.file.encoding, "ignore").count("\n")
                byte = error.object[error.start]
                raise _bad_byte(self.file.path, self.lines + before + 1, byte, self.file.encoding) from None
            self.lines += decoded.count(b"\n")
            self.ready += decoded
            if not piece:
                break
        out, self.ready = self.ready[:size], self.ready[size:]
        return out

    def close(self) -> None:
        self.raw.close()
        super().close()


def cut_at_newline(text: Text) -> int:
    """Where the last whole line ends."""
    length = 1 << 12
    while True:
        tail = bytes(text[-length:])
        end = tail.rfind(b"\n") + 1
        if end:
            return len(text) - len(tail) + end
        if len(tail) == len(text):
            return 0
        length *= 16


def text(
    path: AnyPath,
    *,
    encoding: Annotated[str | None, "Text encoding (default: UTF-8, or as the byte order mark says)"] = None,
    class_folder: Annotated[
        ClassFolder, "Which folder of a path names the class (none: there are no classes)"
    ] = "first",
    suffixes: Annotated[Sequence[str], "Suffixes of files in a folder that are text, besides .txt, .text and .md"] = (),
    helpers: Helpers = None,
) -> TextFolderSource | LineSource:
    """Take a sample from each text file below a folder, or from each line of one file.

    In a folder, `.txt`, `.text` and `.md` files, those without a suffix and those with one of `suffixes` are text, and
    folders give classes and splits as for `images`. The encoding is UTF-8, or as the byte order mark says, or the one
    declared; text that is not in it is refused with its line.
    """
    given = locals()
    check_values(text, given)
    recipe = recipe_table(text, str(path), given)
    if as_path(path).is_dir():
        more = tuple(suffix.lower() for suffix in suffixes)
        source = TextFolderSource(
            path=str(path), class_folder=class_folder, recipe=recipe, encoding=encoding, suffixes=more
        )
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


def _but_texts(suffixes: tuple[str, ...], name: bytes) -> str | None:
    """Leave out what is not text: by its suffix."""
    is_named = bool(suffixes) and name.lower().endswith(tuple(suffix.encode() for suffix in suffixes))
    return None if is_named else files_of("text")(name)


@dataclass(eq=False, kw_only=True)
class TextFolderSource(FolderSource):
    """Samples from text files; reads at random, in one partition."""

    reads: ClassVar[Reads] = "random"
    takes = "text"
    encoding: str | None
    suffixes: tuple[str, ...] = ()

    def find_files(self, helpers: Helpers = None) -> FileList:
        """Look for the texts."""
        return walk_or_take(as_path(self.path), partial(_but_texts, self.suffixes), helpers)

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
            data = read_named(self.file_at(row))
        except OSError as error:
            return "read", "", (error.strerror or str(error)).lower()
        found, bom = _detect_encoding(data[:4096])
        encoding = self.encoding or found
        if encoding == found:
            data = data[bom:]
        return ("decode", *_why_not_text(data, encoding))

    def locate(self, partition: int, row: int) -> str:
        """The path of the file."""
        assert partition == 0
        return str(self.file_at(row))


@dataclass(frozen=True)
class LineSource(Source):
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
