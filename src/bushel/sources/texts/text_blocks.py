"""Text files in blocks of whole lines, decompressed, as UTF-8."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, NamedTuple, TypeVar, cast

import numpy as np

from bushel import _native
from bushel.errors import FileProblem
from bushel.parallel import Helpers, do_all, map_in_threads
from bushel.storage import open_to_read, openable
from bushel.storage.file_kinds import CODECS, inflated

__all__ = ["TextBlock", "TextFile", "bad_byte", "detect_encoding"]

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
# Where the last whole row in some bytes ends; 0 if there is none.
Cut = Callable[[bytes], int]


class TextBlock(NamedTuple):
    """Some whole rows: where they begin in the (decompressed) file, and their text as UTF-8."""

    start: int
    stop: int
    text: bytes


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
        found, bom = detect_encoding(head)
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
        start = max(start, self.bom if self.is_seekable else 0)
        with self._opened() as stream:
            if start and self.is_seekable:
                stream.seek(start)
            at, carried = start, b""
            while True:
                left = max(size, len(carried))  # do not join a long row piece by piece
                left = left if stop is None else min(left, stop - at - len(carried))
                piece = stream.read(left) if left > 0 else b""
                text = carried + piece
                end = cut(text) if piece else len(text)
                if end:
                    yield TextBlock(at, at + end, self._as_utf8(text[:end], at))
                if not piece:
                    break
                at, carried = at + end, text[end:]
                if len(carried) > LONGEST_ROW:
                    what = f"no row ends within {LONGEST_ROW >> 20} MiB of byte {at}"
                    raise FileProblem(self.path, what, help=["In a CSV file: is a quote opened and never closed?"])

    def spans(self, cut: Cut, start: int) -> Iterator[tuple[int, int]]:
        """Where spans of several blocks begin and end."""
        if cut is cut_at_newline:
            yield from self._spans_of_lines(max(start, self.bom))
            return
        begin = stop = max(start, self.bom)
        for block in self.blocks(cut, start):
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
        return block.text or next(self.blocks(len, block.start, block.stop, block.stop - block.start)).text

    def _opened(self) -> IO[bytes]:
        if self.is_seekable:
            return open_to_read(self.path)
        raw = open_to_read(self.path) if self.compression is None else _inflating(self.path, self.compression)
        if self.encoding == "utf-8":
            raw.read(self.bom)
            return raw
        raw.read(self.bom)
        return cast("IO[bytes]", _Transcoded(raw, self))

    def _as_utf8(self, text: bytes, at: int) -> bytes:
        if self.encoding in ("utf-8", "ascii") or not self.is_seekable:
            return text
        try:
            return text.decode(self.encoding).encode()
        except UnicodeDecodeError as error:
            line = self._line_at(at) + text[: error.start].count(b"\n")
            raise bad_byte(self.path, line + 1, text[error.start], self.encoding) from None

    def _line_at(self, at: int) -> int:
        with open_to_read(self.path) as file:
            lines = 0
            while at > 0 and (piece := file.read(min(BLOCK_BYTES, at))):
                lines += piece.count(b"\n")
                at -= len(piece)
        return lines


def look_through(
    file: TextFile, cut: Cut, start: int, look: Callable[[TextBlock], R], helpers: Helpers
) -> Iterator[tuple[TextBlock, R]]:
    """Each block from `start` on, with what `look` finds in it, in order.

    Helpers read blocks of a large file themselves, and return what they found without the text.
    """
    if not file.is_seekable or file.path.stat().st_size < LARGE_FILE:
        yield from map_in_threads(look, file.blocks(cut, start))
        return
    spans = file.spans(cut, start)
    if helpers is None:
        yield from map_in_threads(look, (block for span in spans for block in file.blocks(cut, *span)))
        return
    for found in do_all(helpers, partial(_look_at, file, cut, look), list(spans)):
        yield from found


def _look_at(
    file: TextFile, cut: Cut, look: Callable[[TextBlock], R], span: tuple[int, int]
) -> list[tuple[TextBlock, R]]:
    return [(block._replace(text=b""), look(block)) for block in file.blocks(cut, *span)]


def detect_encoding(head: bytes) -> tuple[str, int]:
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


def bad_byte(path: Path, line: int, byte: int, encoding: str) -> FileProblem:
    """The error for text that is not in its encoding."""
    help = ["If it is text in another encoding, name it: --set encoding=cp1252 is common for Western European text."]
    return FileProblem(path, f"line {line}: byte 0x{byte:02x} is not {encoding.upper()}", help=help)


def is_utf8(text: bytes) -> bool:
    """Whether bytes are UTF-8; other threads can run meanwhile."""
    return _native.first_not_utf8(np.array([0, len(text)]), text) == 1


def check_utf8(path: Path, text: bytes, line: int) -> None:
    """Raise an error for bytes that are not UTF-8; `line` is the number of lines before the text."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise bad_byte(path, line + text[: error.start].count(b"\n") + 1, text[error.start], "utf-8") from None


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
                raise bad_byte(self.file.path, self.lines + before + 1, byte, self.file.encoding) from None
            self.lines += decoded.count(b"\n")
            self.ready += decoded
            if not piece:
                break
        out, self.ready = self.ready[:size], self.ready[size:]
        return out

    def close(self) -> None:
        self.raw.close()
        super().close()


def cut_at_newline(text: bytes) -> int:
    """Where the last whole line ends."""
    return text.rfind(b"\n") + 1
