"""One TFRecord file: what it and its records are, judging by their bytes, and its records in chunks."""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.errors import CorruptRecord, Fault, FileProblem, quantity
from bushel.parallel import iterate_ahead
from bushel.records.deflated import header_size, is_header, next_start, plain_header_size
from bushel.storage import describe_os_error, open_in_order, read_inside, status_of
from bushel.storage.file_kinds import SHARD_CODECS, Compression, kind_of_bytes, what_is

__all__ = [
    "ELWC",
    "Chunk",
    "Compression",
    "OnFault",
    "RecordFile",
    "Skipped",
    "leave_out_empty",
    "not_examples",
    "open_file",
    "parse_elwc",
    "refuse_others",
    "words_for",
]


OnFault: TypeAlias = Literal["raise", "skip"]
Extents: TypeAlias = NDArray[np.uint64]  # offset of the header, length of the data

HEADER, FOOTER = 12, 4
CHUNK_BYTES = 4 << 20
_RAW_BYTES = 1 << 16  # read at a time from a compressed file
_STEP_BYTES = 1 << 18  # inflated at a time: small enough to stay in the cache
MAX_RECORD = (1 << 31) - 1
_CODECS: tuple[Compression, ...] = ("gzip", "zlib")
_HEAD_BYTES = 512
_SEARCHED_BYTES = 1 << 20  # for a whole record, in a compressed file that does not begin with one


@dataclass(frozen=True)
class Chunk:
    """Some whole records of a file, in memory. Only their headers have been read."""

    memory: Any
    extents: Extents
    first: int  # number of the first record in the file
    base: int  # offset of memory in the file, or in its inflated bytes

    def offset(self, row: int) -> int:
        """Where a record is in the file, or in its inflated bytes."""
        return self.base + int(self.extents[row, 0])

    def copied(self) -> Chunk:
        """The same records in memory that nobody else writes to, so that what was verified stays true."""
        if isinstance(self.memory, bytes):
            return self
        start, stop = int(self.extents[0, 0]), int(self.extents[-1].sum()) + HEADER + FOOTER
        data = bytes(memoryview(self.memory)[start:stop])
        return Chunk(data, self.extents - np.array([start, 0], np.uint64), self.first, self.base + start)

    def payload(self, row: int) -> memoryview:
        """The data of one record."""
        start, length = (int(n) for n in self.extents[row])
        return memoryview(self.memory)[start + HEADER : start + HEADER + length]


@dataclass(frozen=True)
class Skipped:
    """What was skipped, and why."""

    path: str
    record: int
    offset: int
    length: int  # in bytes, including framing
    fault: Fault


# Takes a fault; returns to skip it, or raises.
FaultHandler: TypeAlias = Callable[[Skipped], None]
ReadAgain: TypeAlias = Callable[[int, int], memoryview]  # bytes of a file, from and to


def raise_fault(skipped: Skipped) -> None:
    """The policy that skips nothing."""
    raise CorruptRecord(skipped.path, record=skipped.record, offset=skipped.offset, fault=skipped.fault)


@dataclass(frozen=True)
class RecordFile:
    """A TFRecord file whose compression is known."""

    path: Path
    compression: Compression | None
    size: int

    def chunks(self, *, on_fault: FaultHandler = raise_fault, max_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """All records, some at a time; memory is bounded by `max_bytes` or the largest record."""
        if self.compression is not None:
            yield from _cut_into_chunks(self, iterate_ahead(_inflated(self, max_bytes)), max_bytes, on_fault)
            return
        with open_in_order(self.path) as opened:
            pieces = (_Stretch(data, base, base + len(data) == self.size) for base, data in opened.pieces())
            for chunk in _cut_into_chunks(self, pieces, max_bytes, on_fault, opened.read_again):
                yield chunk if opened.read_again is None else _verified(chunk, opened.read_again)

    def chunks_between(self, begin: int, end: int, first: int, *, max_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """The records between two bytes of an uncompressed file on disk; the first of them has this number.

        Raises `CorruptRecord` unless the headers lead from one byte to the other.
        """
        with open_in_order(self.path) as opened:
            memory = next(memory for _, memory in opened.pieces())[:end]
            while begin < end:
                extents, code, following = _native.scan(memory, begin, 1 << 20, max_bytes)
                if len(extents):
                    yield Chunk(memory, extents, first, 0)
                first, begin = first + len(extents), following
                if code != Fault.NONE:
                    raise_fault(Skipped(str(self.path), first, begin, end - begin, Fault(code)))


@dataclass(frozen=True)
class _Stretch:
    memory: Any
    base: int
    is_last: bool
    fault: Fault | None = None  # why there is no more, if it is not the end
    goes_on: bool = False  # after the fault: the next stretch begins with a record


def _inflated(file: RecordFile, max_bytes: int) -> Iterator[_Stretch]:
    """The inflated file, in pieces; the unread end of one begins the next (see `_cut_into_chunks`)."""
    assert file.compression is not None
    is_first = True
    with open_in_order(file.path) as opened:
        stream = _Inflater(cast("IO[bytes]", opened), file.compression)
        base = 0
        while True:
            data = stream.read(max_bytes)
            if stream.fault is not None and is_first and opened.read_again is not None:
                is_first = False  # bytes from a store are requested twice before they count as damaged
                opened.forget()
                opened.seek(0)
                stream = _Inflater(cast("IO[bytes]", opened), file.compression)
                _skip(stream, base)
                continue
            is_last, fault = len(data) < max_bytes, stream.fault
            goes_on = is_last and fault is not None and stream.resume()
            yield _Stretch(data, base, is_last and not goes_on, fault, goes_on)
            base += len(data)
            if is_last and not goes_on:
                break


def _skip(stream: _Inflater, size: int) -> None:
    while size > 0 and (data := stream.read(min(size, CHUNK_BYTES))):
        size -= len(data)


def _verified(chunk: Chunk, read_again: ReadAgain) -> Chunk:
    """The chunk; if it does not verify, with its bytes requested again."""
    if not _native.verify(chunk.memory, chunk.extents, 1):
        return chunk
    start, stop = int(chunk.extents[0, 0]), int(chunk.extents[-1].sum()) + HEADER + FOOTER
    data = read_again(chunk.base + start, chunk.base + stop)
    return Chunk(data, chunk.extents - np.array([start, 0], np.uint64), chunk.first, chunk.base + start)


class _Inflater:
    """A compressed file as a stream of bytes. It ends where it cannot be inflated; `fault` says why."""

    def __init__(self, file: IO[bytes], compression: Compression) -> None:
        from isal import isal_zlib

        self.file = file
        self.fault: Fault | None = None
        self._bits = SHARD_CODECS[compression].window_bits
        self._make: Callable[[], Any] = lambda: isal_zlib.decompressobj(wbits=self._bits)
        self._error: Any = isal_zlib.error
        self._inflate = self._make()
        self._raw = file.read(_RAW_BYTES)
        self._skipped = 0  # bytes of a header that is damaged, before what can be inflated
        if not is_header(_inflated_head(self._raw, self._bits)) and _is_deflated(self._raw, compression):
            self._skipped = plain_header_size(SHARD_CODECS[compression].window_bits)
            self._inflate, self._raw = isal_zlib.decompressobj(wbits=-zlib.MAX_WBITS), self._raw[self._skipped :]
        self._stream_at = 0  # where the current stream begins in the file: there may be several, one after the other
        self._given = 0  # bytes of it inflated so far
        self._is_resumed = False  # in the middle of a stream, whose header and checksum are out of reach
        self._doubted_at = 0  # where the damage is in the file, or shortly before it
        self._done = False

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        pieces, left = [], size
        while left > 0 and not self._done:
            piece = self._step(left)
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _step(self, max_length: int) -> bytes:
        if self._inflate.eof and (self._skipped or self._is_resumed):
            self.fault, self._done = None if self._is_resumed else Fault.COMPRESSED_STREAM, True
            return b""
        if self._inflate.eof:
            self._begin_next_stream()
        elif not self._raw:
            self._raw = self.file.read(_RAW_BYTES)
            self.fault = None if self._raw else Fault.TRUNCATED_STREAM
        if not self._raw:
            self._done = True
            return b""
        try:
            piece: bytes = self._inflate.decompress(self._raw, min(max_length, _STEP_BYTES))
        except self._error:
            self.fault, self._done = Fault.COMPRESSED_STREAM, True
            return self._rescue(max_length)
        self._raw = b"" if self._inflate.eof else self._inflate.unconsumed_tail
        self._given += len(piece)
        return piece

    def _begin_next_stream(self) -> None:
        self._raw = self._inflate.unused_data.lstrip(b"\0")
        while not self._raw and (more := self.file.read(_RAW_BYTES)):
            self._raw = more.lstrip(b"\0")  # padding, as tapes and gzip itself leave it
        self._stream_at = self.file.tell() - len(self._raw)
        self._given = 0
        self._inflate = self._make()

    def _rescue(self, max_length: int) -> bytes:
        """The bytes between the last one returned and the damage: a step that fails returns nothing.

        Header and trailer of the stream are left out. A wrong checksum at the end costs none of the bytes before it.
        """
        self.file.seek(self._stream_at)
        raw = self.file.read(_RAW_BYTES)
        raw = raw if self._is_resumed else raw[self._skipped or header_size(raw, self._bits) :]
        inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        out = bytearray()
        seen, step = 0, _RAW_BYTES
        while step and len(out) < max_length and not inflate.eof and (raw := raw or self.file.read(_RAW_BYTES)):
            before = inflate.copy()
            try:
                piece = inflate.decompress(raw, step)
            except zlib.error:
                inflate, step = before, step // 16  # approach the damage in smaller steps
                continue
            out += piece[max(0, self._given - seen) :]
            seen += len(piece)
            raw = inflate.unconsumed_tail
        self._doubted_at = self.file.tell() - len(raw)
        return bytes(out[:max_length])

    def resume(self) -> bool:
        """After damage, go on with the next group of records, if there is one."""
        from isal import isal_zlib

        if self.fault is not Fault.COMPRESSED_STREAM or (place := self._next_start()) is None:
            return False
        self.file.seek(place)
        self._inflate, self._raw = isal_zlib.decompressobj(wbits=-zlib.MAX_WBITS), b""
        self.fault, self._done, self._is_resumed = None, False, True
        self._stream_at, self._given = place, 0
        return True

    def _next_start(self) -> int | None:
        """Where the next group begins after the damage."""
        at = self._doubted_at
        self.file.seek(at)
        held = self.file.read(_SEARCHED_BYTES)
        while held:
            if (found := next_start(held)) is not None and found < len(held):
                return at + found
            more = self.file.read(_SEARCHED_BYTES)
            if not more:
                return None
            at, held = at + max(0, len(held) - _HEAD_BYTES), held[-_HEAD_BYTES:] + more
        return None


def _inflated_head(data: bytes, bits: int) -> bytes:
    """What the first bytes of a stream inflate to; nothing if they do not."""
    try:
        return zlib.decompressobj(wbits=bits).decompress(data[:_HEAD_BYTES], _HEAD_BYTES)
    except zlib.error:
        return b""


def _is_deflated(data: bytes, compression: Compression) -> bool:
    """Whether a record follows a plain header, whatever the header says: it may be damaged."""
    return is_header(_inflated_head(data[plain_header_size(SHARD_CODECS[compression].window_bits) :], -zlib.MAX_WBITS))


def _cut_into_chunks(
    file: RecordFile,
    pieces: Iterator[_Stretch],
    max_bytes: int,
    on_fault: FaultHandler,
    read_again: ReadAgain | None = None,
) -> Iterator[Chunk]:
    first, doubted, searched = 0, -1, 0
    held: list[Any] = []  # pieces of an incomplete record, joined when it is complete: a large one is copied once
    wanted = 0  # bytes of it so far
    for piece in pieces:
        held.append(piece.memory)
        size = sum(map(len, held))
        if size < wanted and not piece.is_last and piece.fault is None:
            continue
        base = piece.base + len(piece.memory) - size
        memory, held, wanted, at = _join(held), [], 0, 0
        while at < size or piece.fault is not None:
            extents, code, end = _native.scan(memory, at, 1 << 20, max_bytes)
            is_astray = code == Fault.LENGTH_CRC and read_again is None
            inside = _inside_last(memory, extents, end, searched - base) if is_astray else end
            if inside < end:  # bytes of the last record are missing, and its length reaches into the next ones
                searched = base + end
                extents, (at, _) = extents[:-1], extents[-1].tolist()
            if len(extents):
                yield Chunk(memory, extents, first, base)
                first += len(extents)
            if inside < end:
                on_fault(Skipped(str(file.path), first, base + at, inside - at, Fault.DATA_CRC))
                at, first = inside, first + 1
                continue
            at, fault = end, Fault(code)
            is_cut = fault in (Fault.TRUNCATED_HEADER, Fault.TRUNCATED_DATA) or at == size
            if is_cut and piece.fault is not None:
                on_fault(Skipped(str(file.path), first, base + at, size - at, piece.fault))
                first += 1
                break
            if fault is Fault.NONE:
                continue
            if is_cut and not piece.is_last:
                held = [bytes(memoryview(memory)[at:])]
                wanted = _framed_size(held[0])
                break
            if read_again is not None and doubted != base + at:
                doubted = base + at
                again = read_again(base + at, base + size)
                if again != memoryview(memory)[at:]:
                    memory = b"".join((memoryview(memory)[:at], again))
                    continue
            following = _behind(memory, at, fault)
            on_fault(Skipped(str(file.path), first, base + at, following - at, fault))
            at, first = following, first + 1


def _inside_last(memory: Any, extents: Extents, end: int, searched: int) -> int:
    """Where a record begins inside the last one, which is damaged if so; `end` if there is none.

    No byte is searched twice: headers could be made so that each leads to the next, and the search would not end.
    """
    if not len(extents) or int(extents[-1, 0]) < searched or not _native.verify(memory, extents[-1:], 1):
        return end
    return _native.resynchronise(memory, int(extents[-1, 0]) + 1)


def _join(pieces: list[Any]) -> Any:
    """All pieces as one. Each is released once it is copied: a record of 1 GiB must not take two."""
    if len(pieces) < 3:
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    joined = bytearray()
    for number, piece in enumerate(pieces):
        joined += piece
        pieces[number] = b""
    return joined


def _framed_size(record: bytes) -> int:
    """How many bytes a record has, by its first bytes."""
    return HEADER + (int.from_bytes(record[:8], "little") + FOOTER if len(record) >= HEADER else 0)


def _behind(memory: Any, at: int, fault: Fault) -> int:
    """Where to continue after a record whose end is not known."""
    if fault is Fault.TOO_LARGE:
        length = int.from_bytes(memoryview(memory)[at : at + 8], "little")
        return min(at + HEADER + length + FOOTER, len(memory))
    return _native.resynchronise(memory, at + 1)


# As in flowers-07-230.tfrec, the 8th shard, which has 230 records. A single number is that of a shard: part-3.tfrecord.
_COUNT_IN_NAME = re.compile(r"\d.*(?<!-of)-([1-9]\d*)\.tfrec$")


def open_file(path: Path) -> RecordFile:
    """Find out what a file is by its bytes: the checksum of its first length, then signatures of compressed streams.

    Raises `FileProblem` for a file that is something else, and says what.
    """
    try:
        file = open_in_order(path)
        try:
            head = file.read(_HEAD_BYTES)
            if not head:
                return _empty(path)
            if is_header(head):
                return RecordFile(path, None, file.size)
            return RecordFile(path, _compression_of(path, cast("IO[bytes]", file), head), file.size)
        finally:
            file.put_back()
    except FileProblem:
        raise
    except OSError as error:
        raise describe_os_error(path, error) from None


def _empty(path: Path) -> RecordFile:
    """A file of 0 bytes: a shard without samples, if the index next to it says so."""
    promise = _promise_of(path)
    if promise is not None and promise[1] == 0:
        return RecordFile(path, None, 0)
    said = f", and {promise[0]} says that it holds {quantity(promise[1], 'record')}" if promise else ""
    raise FileProblem(path, f"is empty: 0 bytes{said}", help=["Was its writer closed?"])


def _promise_of(path: Path) -> tuple[str, int] | None:
    """Whether its index or its name says how many records a file holds, and how many that is; None if neither does."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        index = read_inside(path.parent, f"_index/{path.name}.idx")
        header = json.loads(index[16 : 16 + int.from_bytes(index[12:16], "little")])  # the layout is in FORMAT.md
        return "its index", int(header["records"])
    found = _COUNT_IN_NAME.search(path.name)
    return None if found is None else ("its name", int(found[1]))


def leave_out_empty(files: Sequence[Path]) -> list[Path]:
    """Files without those of 0 bytes of which nothing promises records: TensorFlow reads nothing from them either.

    Beam, Spark and TFDS write such shards when there are more shards than records. If all files are like that, they
    stay, and whoever opens them is told.
    """
    left = [path for path in files if status_of(path).size or _promise_of(path) is not None]
    return left or list(files)


def _compression_of(path: Path, file: IO[bytes], head: bytes) -> Compression | None:
    compression: Compression | None = None
    if head.startswith(SHARD_CODECS["gzip"].magic):
        compression = "gzip"
    elif len(head) > 1 and head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0:
        compression = "zlib"
    else:
        compression = next((name for name in _CODECS if _is_deflated(head, name)), None)
    if compression is not None:
        file.seek(0)
        inflated = _Inflater(file, compression).read(_HEAD_BYTES)
        if is_header(inflated) or (not inflated and compression == "gzip"):
            return compression
        file.seek(0)
        more = _Inflater(file, compression).read(_SEARCHED_BYTES)
        if _native.resynchronise(more, 0) < len(more):  # its beginning is damaged
            return compression
        if inflated and compression == "gzip":
            inside = what_is(inflated) or "no TFRecord"
            raise FileProblem(path, f"is not a TFRecord file: it is {inside}, compressed with gzip")
    if (what := what_is(head)) is not None:
        raise FileProblem(path, f"is not a TFRecord file: it is {what}", help=_advice(what))
    return None  # damaged, or something unknown: reading it reports the fault


def _advice(what: str) -> list[str]:
    if what == "a Git LFS pointer":
        return ["The data itself was not fetched: git lfs pull"]
    if what == "an HTML page":
        return ["A download probably got an error page instead of the file."]
    return []


ELWC = "ExampleListWithContext messages"
_LOOKED_AT = 16  # records
_LENGTH_DELIMITED = 2


def not_examples(path: Path) -> str | None:
    """What the records of a file are, if they are not Examples or SequenceExamples; None if they are, or are none."""
    first = list(islice(_payloads(path), _LOOKED_AT))
    if not first:
        return None
    if any(_is_plain_message(data) for data in first):
        return None
    return words_for(first)


def words_for(records: list[bytes]) -> str:
    """What records that are not Examples are, in words."""
    if any(b"brain.Event:" in data for data in records):
        return "TensorBoard events"
    if all(parse_elwc(data) is not None for data in records):
        return ELWC
    if all(map(_is_prediction_log, records)):
        return "serving logs (PredictionLog)"
    kinds = {kind_of_bytes(data) for data in records}
    kind = kinds.pop()
    if not kinds and kind is not None:
        return f"files: {kind.what} each"
    return "text" if all(what_is(data[:512]) in ("plain text", "JSON text") for data in records) else "other bytes"


def refuse_others(path: Path) -> None:
    """Raise for a file whose records are not Examples, in the same words everywhere."""
    if (what := not_examples(path)) is not None:
        help = [f"To print them: bushel cat {path}"]
        if what == ELWC:
            help = [f"To make Examples of them, with the context and the list of each: bushel build {path} OUT"]
        raise FileProblem(path, f"its records are not Examples but {what}", help=help)


def parse_elwc(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The features of the context and of each example of an ExampleListWithContext; None if it is none."""
    context: dict[str, Any] = {}
    examples: list[dict[str, Any]] = []
    fields = _fields(data)
    if not fields:
        return None
    for number, kind, value in fields:
        if number not in (1, 2) or kind != _LENGTH_DELIMITED or not _is_example(value):
            return None
        features: dict[str, Any] = _native.parse(value)[0]  # type: ignore[index]
        if number == 1:
            examples.append(features)
        else:
            context = features
    return (context, examples) if examples or context else None


def _payloads(path: Path) -> Iterator[bytes]:
    for chunk in open_file(path).chunks(on_fault=lambda _: None):
        for row in range(len(chunk.extents)):
            yield bytes(chunk.payload(row))


def _is_plain_message(data: bytes) -> bool:
    """Whether it is an Example or SequenceExample: it holds features, or nothing at all."""
    if _is_example(data):
        return True
    message: Any = _native.parse(data)
    if message is None:
        return False
    features, lists = message
    return bool(features or lists) and parse_elwc(data) is None


def _fields(data: bytes) -> list[tuple[int, int, bytes]]:
    """Number, wire type and bytes of each field of a message; none if it is not one."""
    found: list[tuple[int, int, bytes]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            begin = at
            _, at = _varint(data, at)
        elif kind in (1, 5):
            begin, at = at, at + (8 if kind == 1 else 4)
        elif kind == _LENGTH_DELIMITED:
            size, begin = _varint(data, at)
            at = begin + size
        else:
            return []
        if at > len(data) or at < begin or not tag >> 3:
            return []
        found.append((tag >> 3, kind, data[begin:at]))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    return 0, len(data) + 1


def _is_example(data: bytes) -> bool:
    """Whether these are the bytes of an Example: one field of features, each with a name and a list."""
    outer = _fields(data)
    if not data:
        return True
    return len(outer) == 1 and outer[0][:2] == (1, _LENGTH_DELIMITED) and _are_features(outer[0][2])


def _are_features(data: bytes) -> bool:
    entries = _fields(data)
    if data and not entries:
        return False
    for number, kind, entry in entries:
        inner = {field[0]: field for field in _fields(entry)}
        if number != 1 or kind != _LENGTH_DELIMITED or not set(inner) <= {1, 2} or 1 not in inner:
            return False
        lists = _fields(inner[2][2]) if 2 in inner else []
        if any(field not in (1, 2, 3) or wire != _LENGTH_DELIMITED for field, wire, _ in lists):
            return False
    return True


def _is_prediction_log(data: bytes) -> bool:
    numbers = {number for number, _, _ in _fields(data)}
    return 1 in numbers and bool(numbers & {2, 3, 4, 5, 6}) and numbers <= set(range(1, 7))
