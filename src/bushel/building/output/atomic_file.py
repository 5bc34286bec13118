"""Bytes to a file that gets its name when it is complete."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from bushel.storage import describe_os_error, give_name, whole_path
from bushel.storage.compression import SHARD_CODECS, Compression

__all__ = ["Sink", "compressor"]

_BUFFER = 1 << 20
_LARGE = 1 << 16
_COMPRESSION_LEVEL = 2


class Sink:
    """Collects small writes, and writes them in a thread, so that the next records are encoded in the meantime."""

    def __init__(self, path: Path, compression: Compression | None) -> None:
        self.path = path
        self._temporary = whole_path(path)
        try:
            self._file: IO[bytes] | None = self._temporary.open("wb", buffering=0)
        except OSError as error:
            raise describe_os_error(path, error) from None
        self._compress = compressor(compression)
        self._thread = ThreadPoolExecutor(1)
        self._under_way: Future[None] | None = None
        self._pending: list[Any] = []
        self._pending_bytes = 0

    def write(self, data: Any) -> None:
        """Add bytes. What is given must not change afterwards."""
        if self._file is None:
            raise ValueError(f"{self.path}: the writer is closed")
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._wait()
        pending = self._pending
        self._pending, self._pending_bytes = [], 0
        if pending:
            self._under_way = self._thread.submit(self._put, pending)

    def _wait(self) -> None:
        """Wait for the bytes given before, and raise if they could not be written."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        try:
            under_way.result()
        except OSError as error:
            raise describe_os_error(self.path, error) from None

    def _put(self, pieces: list[Any]) -> None:
        # Small pieces are joined: one system call for many records.
        are_large = sum(len(piece) for piece in pieces) >= _LARGE * len(pieces)
        for data in pieces if are_large else [b"".join(pieces)]:
            self._put_all(data if self._compress is None else self._compress.compress(data))

    def _put_all(self, data: Any) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]

    def close(self) -> None:
        """Write what is left, and give the file its name."""
        if self._file is None:
            return
        try:
            self._flush()
            self._wait()
            if self._compress is not None:
                self._put_all(self._compress.flush())
            self._file.close()
            give_name(self._temporary, self.path)
        except OSError as error:
            raise describe_os_error(self.path, error) from None
        self._file = None
        self._thread.shutdown()

    def __del__(self) -> None:
        # No thread is waited for: the garbage collector may run this where the threading module holds its locks.
        if getattr(self, "_file", None) is not None:
            self._temporary.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what was written."""
        self._thread.shutdown(cancel_futures=True)
        if self._file is not None:
            self._file.close()
            self._file = None
        self._temporary.unlink(missing_ok=True)


class _Compressor:
    """A compressed stream. What the codec makes of bytes depends on how they are cut, so they are always cut alike."""

    def __init__(self, compression: Compression) -> None:
        from isal import isal_zlib

        self._deflate = isal_zlib.compressobj(_COMPRESSION_LEVEL, wbits=SHARD_CODECS[compression].window_bits)
        self._held = bytearray()

    def compress(self, data: Any) -> bytes:
        """Take bytes; return what they, or those before, became."""
        self._held += memoryview(data)
        whole = len(self._held) // _BUFFER * _BUFFER
        blocks = [bytes(self._held[start : start + _BUFFER]) for start in range(0, whole, _BUFFER)]
        del self._held[:whole]
        return b"".join([self._deflate.compress(block) for block in blocks])

    def flush(self) -> bytes:
        """The end of the stream."""
        return bytes(self._deflate.compress(bytes(self._held)) + self._deflate.flush())


def compressor(compression: Compression | None) -> _Compressor | None:
    """What compresses a stream, or None."""
    return None if compression is None else _Compressor(compression)
