"""Compressed shards that can be read at random: groups of records, each inflated without what is before it.

A full flush of deflate ends a group. It leaves an ordinary stream for every reader, and a place to start from.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.storage.file_kinds import SHARD_CODECS, Compression

__all__ = [
    "Compressor",
    "find_starts",
    "header_size",
    "inflate_group",
    "is_header",
    "next_start",
    "plain_header_size",
    "valid_starts",
]

LEVEL = 2
_HELD_BYTES = 1 << 20  # collected before they are compressed
# A group has about so many compressed bytes. Smaller ones are read at random sooner and compress worse: with these,
# text and numbers take 5 to 7 % more than without flushes, and JPEGs less than 2 % (benchmarks/compressed.py).
_GROUP_COMPRESSED = 16 << 10
_GROUP_MOST = 128 << 10  # inflated
_MOST_INFLATED = (1 << 31) + _GROUP_MOST  # what a group of others may have: a record is no longer than 2^31 - 1 bytes
_WORTH_IT = 0.98  # of the size: a group that compresses worse is stored
_STORED_MOST = 0xFFFF  # bytes of one block
_EMPTY = b"\0\0\0\xff\xff"  # a stored block without bytes, which a flush writes
_END = b"\x03\0"  # the last block, which is empty
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # no name, no time
_ZLIB_HEADER = b"\x78\x01"
_MARK = re.compile(rb"\x00\x00\xff\xff")  # the end of an empty stored block, which a flush writes
_HEADER, _FRAMING = 12, 16
_RAW = -zlib.MAX_WBITS


class Compressor:
    """Framed records as a compressed stream with a full flush after each group of records.

    The bytes depend on the records alone, and not on how they are handed over.
    """

    def __init__(self, compression: Compression) -> None:
        from isal import isal_zlib

        self._is_gzip = compression == "gzip"
        self._deflate = isal_zlib.compressobj(LEVEL, wbits=_RAW)
        self._full_flush = isal_zlib.Z_FULL_FLUSH
        self._sum: Any = isal_zlib.crc32 if self._is_gzip else isal_zlib.adler32
        self._checksum = self._sum(b"")
        self._held = bytearray()
        self._wanted = _HELD_BYTES  # bytes to hold before records are looked for
        self._taken = self._given = 0
        self._starts: list[tuple[int, int]] = []

    @property
    def starts(self) -> NDArray[np.uint64]:
        """Where each group begins: in the inflated bytes, and in the file."""
        return np.array(self._starts, np.uint64).reshape(-1, 2)

    def compress(self, data: Any) -> bytes:
        """Take bytes of framed records; return compressed bytes that are ready."""
        self._held += memoryview(data)
        return self._compress_groups(is_last=False) if len(self._held) >= self._wanted else b""

    def flush(self) -> bytes:
        """The end of the stream."""
        groups = self._compress_groups(is_last=True)
        if self._is_gzip:
            trailer = self._checksum.to_bytes(4, "little") + (self._taken & 0xFFFFFFFF).to_bytes(4, "little")
        else:
            trailer = self._checksum.to_bytes(4, "big")
        return (groups or self._begin()) + _END + trailer

    def _compress_groups(self, *, is_last: bool) -> bytes:
        """Compress all groups that are known to be complete: a record follows them."""
        memory = bytes(self._held)
        extents, _, _ = _native.scan(memory, 0, len(memory), len(memory))
        ends = (extents[:, 0] + extents[:, 1]).astype(np.int64) + _FRAMING
        begin, out = 0, []
        while begin < len(memory):
            end = _group_end(ends, begin, self._most)
            is_open = end == (int(ends[-1]) if len(ends) else 0)
            if is_open and not is_last:
                break
            end = len(memory) if is_open else end  # bytes that are no record go with the last group
            out.append(self._compress_group(memory[begin:end]))
            begin = end
        del self._held[:begin]
        self._wanted = max(_HELD_BYTES, 2 * len(self._held))
        return b"".join(out)

    @property
    def _most(self) -> int:
        """How many bytes a group may have, by how well the records before it were compressed."""
        ratio = self._given / self._taken if self._taken else 1.0
        return int(min(_GROUP_MOST, max(_GROUP_COMPRESSED, _GROUP_COMPRESSED / max(ratio, 1e-3))))

    def _compress_group(self, group: bytes) -> bytes:
        header = self._begin()
        self._starts.append((self._taken, self._given))
        data = bytes(self._deflate.compress(group) + self._deflate.flush(self._full_flush))
        if len(data) > _WORTH_IT * len(group):  # JPEGs, for instance: storing them is read many times as fast
            data = _stored(group)
        self._checksum = self._sum(group, self._checksum)
        self._taken += len(group)
        self._given += len(data)
        return header + data

    def _begin(self) -> bytes:
        """The header of the stream, once."""
        header = b"" if self._given else _GZIP_HEADER if self._is_gzip else _ZLIB_HEADER
        self._given += len(header)
        return header


def _stored(data: bytes) -> bytes:
    """Deflate blocks that hold bytes as they are (RFC 1951, 3.2.4)."""
    pieces = []
    for at in range(0, len(data), _STORED_MOST):
        piece = data[at : at + _STORED_MOST]
        size = len(piece).to_bytes(2, "little")
        pieces += [b"\0", size, bytes(byte ^ 0xFF for byte in size), piece]
    return b"".join([*pieces, _EMPTY])


def _group_end(ends: NDArray[np.int64], begin: int, most: int) -> int:
    """Where a group ends that begins here: as many records as it may have, and one at least."""
    if not len(ends):
        return 0
    first = int(np.searchsorted(ends, begin, side="right"))
    last = max(first, int(np.searchsorted(ends, begin + most, side="right")) - 1)
    return int(ends[min(last, len(ends) - 1)])


def inflate_group(data: Any, size: int) -> bytes:
    """So many bytes of a group, of which `data` are the compressed bytes; fewer, if they are damaged."""
    from isal import isal_zlib

    error: Any = isal_zlib.error
    try:
        return bytes(isal_zlib.decompressobj(wbits=_RAW).decompress(data, size))
    except error:
        return _inflate_to_damage(bytes(data), size)


def _inflate_to_damage(data: bytes, size: int) -> bytes:
    """The bytes before the damage, which is approached in smaller and smaller steps."""
    inflate, step, out = zlib.decompressobj(wbits=_RAW), 1 << 14, bytearray()
    while step and len(out) < size and data:
        before = inflate.copy()
        try:
            piece = inflate.decompress(data, min(step, size - len(out)))
        except zlib.error:
            inflate, step = before, step // 16
            continue
        if not piece:
            break
        out += piece
        data = inflate.unconsumed_tail
    return bytes(out)


def find_starts(memory: Any, compression: Compression, offsets: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
    """Where groups begin in a file without an index, whose records are at `offsets`; None if it has no groups."""
    view = memoryview(memory)
    places = [header_size(bytes(view[:4096]), SHARD_CODECS[compression].window_bits)]
    places += [found.end() for found in _MARK.finditer(view) if _begins_with_record(view[found.end() :])]
    if len(places) == 1:
        return None
    starts, inflated = [], 0
    for begin, end in zip(places, [*places[1:], len(view)], strict=True):
        size = len(inflate_group(view[begin:end], _MOST_INFLATED))
        if size:  # a flush may leave two marks, with nothing between them
            starts.append((inflated, begin))
            inflated += size
    found = np.array(starts, np.uint64)
    return found if valid_starts(found, offsets, len(view)) else None


def valid_starts(starts: NDArray[np.uint64], offsets: NDArray[np.uint64], size: int) -> bool:
    """Whether groups begin where records do, one after the other, and the first with the first record."""
    if not len(starts) or not len(offsets):
        return len(starts) == len(offsets)
    rows = np.minimum(np.searchsorted(offsets, starts[:, 0]), len(offsets) - 1)
    ascend = bool((starts[1:] > starts[:-1]).all()) and starts[0, 0] == 0
    return ascend and bool((offsets[rows] == starts[:, 0]).all()) and int(starts[-1, 1]) < size


def next_start(data: Any, begin: int = 0) -> int | None:
    """Where the first group begins at or after a place; None if none does."""
    found = (match.end() for match in _MARK.finditer(data, begin) if _begins_with_record(data[match.end() :]))
    return next(found, None)


def _begins_with_record(data: Any) -> bool:
    """Whether a deflated stream that needs nothing before it begins here, with the header of a record."""
    try:
        return is_header(zlib.decompressobj(wbits=_RAW).decompress(data[:512], _HEADER))
    except zlib.error:
        return False


def is_header(head: bytes) -> bool:
    """Whether bytes begin with the header of a record."""
    if len(head) < _HEADER:
        return False
    crc = _native.crc32c(head[:8])
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(head[8:12], "little")


def plain_header_size(bits: int) -> int:
    """How long the header of a stream is as bushel and TensorFlow write it."""
    return 2 if bits <= zlib.MAX_WBITS else 10


def header_size(head: bytes, bits: int) -> int:
    """How long the header of a zlib or gzip stream is (RFC 1950, RFC 1952)."""
    if bits <= zlib.MAX_WBITS:
        return 2
    if len(head) < 10:
        return len(head)
    flags, size = head[3], 10
    if flags & 4:  # extra fields
        size += 2 + int.from_bytes(head[size : size + 2], "little")
    for mark in (8, 16):  # a name, a comment: each ends with a zero
        if flags & mark:
            size = head.find(b"\0", size) + 1 or len(head)
    return size + 2 * bool(flags & 2)
