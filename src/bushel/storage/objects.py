"""Objects as paths and as files: what `s3://bucket/name` is to the rest of bushel."""

from __future__ import annotations

import fnmatch
import glob
import io
import os
import re
import stat
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PosixPath
from threading import Lock
from typing import IO, Any
from urllib.parse import unquote

from bushel.errors import FileProblem
from bushel.parallel import REQUESTS, Ahead, iterate_ahead
from bushel.storage import stores
from bushel.storage.stores import Key, Status

__all__ = ["ObjectFile", "ObjectPath", "parse_object", "take_parked"]

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$", re.DOTALL)
_FLATTENED = re.compile(rf"^({'|'.join(stores.SCHEMES)}):/([^/].*)$", re.DOTALL)  # what `Path` makes of it
# What signs the address of an object for whoever has it.
_SIGNED = re.compile(r"[?&](X-Amz-|X-Goog-|AWSAccessKeyId=|Signature=|sig=|se=|sv=)", re.IGNORECASE)


FIRST_BYTES = 1 << 18  # bytes of a read that may be the only one
SMALL_BYTES = 4 << 20  # left of an object that one request fetches
REQUEST_BYTES = 160 << 20  # of one request: a shard of the usual size; a larger object comes with several at once
_REQUESTS = 4
_AHEAD = 8  # pieces of a request that wait to be read


class _Stream:
    """The rest of an object from some offset on, as it comes in."""

    def __init__(self, key: Key, start: int, status: Status) -> None:
        self.at = start
        ends = ((begin, min(begin + REQUEST_BYTES, status.size)) for begin in range(start, status.size, REQUEST_BYTES))
        self._waiting = (iterate_ahead(stores.stream(key, *extent, status), _AHEAD) for extent in ends)
        self._coming: deque[Ahead[memoryview]] = deque()

    def next(self) -> memoryview:
        """The piece that begins at `at`."""
        while True:
            while len(self._coming) < _REQUESTS and (request := next(self._waiting, None)) is not None:
                request.start()
                self._coming.append(request)
            piece = next(self._coming[0], None)
            if piece is not None:
                self.at += len(piece)
                return piece
            self._coming.popleft()

    def close(self) -> None:
        """Ask for no more."""
        for request in self._coming:
            request.close(wait=False)


class ObjectFile(io.RawIOBase):
    """An object that is open for reading. If it is read in order, the next bytes are fetched in advance.

    `in_order` means that all of it will be read, so that the first bytes come with the others.
    """

    def __init__(self, key: Key, status: Status, *, in_order: bool = False) -> None:
        super().__init__()
        self._in_order = in_order
        self.name = str(key)
        self.size = status.size
        self.key, self.etag, self._status = key, status.etag, status
        self._at = 0
        self._read_to = -1  # where the last read ended
        self._held, self._held_at = memoryview(b""), 0
        self._stream: _Stream | None = None

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to another offset."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, except at the end."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Everything that is left."""
        return self.read(-1)

    def read(self, size: int | None = -1) -> bytes:
        """Read this many bytes; fewer only at the end."""
        stop = self.size if size is None or size < 0 else min(self._at + size, self.size)
        pieces = []
        while self._at < stop:
            pieces.append(self._piece(stop))
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        """What is left, as it comes in: offsets and bytes."""
        while self._at < self.size:
            yield self._at, self._piece(self.size)

    def forget(self) -> None:
        """Read on with bytes that are requested again."""
        self._held = memoryview(b"")
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def read_again(self, start: int, stop: int) -> memoryview:
        """Request bytes again."""
        return stores.get(self.key, start, stop, self.etag)

    def _piece(self, stop: int) -> memoryview:
        """Bytes from the current offset to `stop`, or fewer; moves the offset to their end."""
        if not self._held_at <= self._at < self._held_at + len(self._held):
            self._held_at, self._held = self._at, self._fetch(stop)
        piece = self._held[self._at - self._held_at : stop - self._held_at]
        self._at += len(piece)
        self._read_to = self._at
        return piece

    def _fetch(self, stop: int) -> memoryview:
        if self._stream is not None and self._stream.at != self._at:
            self._stream.close()
            self._stream = None
        left = self.size - self._at
        if self._stream is None:
            reads_on = self._in_order or self._at == self._read_to or stop - self._at > FIRST_BYTES
            if left <= SMALL_BYTES and reads_on:
                return stores.get(self.key, self._at, self.size, self.etag)
            if not reads_on:
                return stores.get(self.key, self._at, self._at + min(left, FIRST_BYTES), self.etag)
            self._stream = _Stream(self.key, self._at, self._status)
        return self._stream.next()

    def close(self) -> None:
        """Stop fetching."""
        self.forget()
        super().close()

    def put_back(self) -> None:
        """Keep the file for the next reader from its beginning: the request for its bytes is under way."""
        with _parking:
            old, _parked[:] = list(_parked), [self]
        for other in old:
            if other is not self:
                other.close()


_parked: list[ObjectFile] = []  # at most one: the last one opened, which is most likely read next
_parking = Lock()


def take_parked(path: ObjectPath) -> ObjectFile | None:
    """The file that was put back last, if it is this one, at its beginning."""
    with _parking:
        parked = _parked.pop() if _parked else None
    if parked is None:
        return None
    if (parked.key, parked.etag) == (path.key, path.status().etag) and not parked.closed:
        parked.seek(0)
        return parked
    parked.close()
    return None


class ObjectPath(PosixPath):
    """A path in an object store, which stands in for a `Path` wherever bushel lists, reads and writes.

    Folders are what names have in common up to a `/`: they need not be made, and disappear with their last object.
    """

    known: Status | None = None  # from a listing, so that it need not be requested

    def __str__(self) -> str:
        scheme, *rest = self.parts
        return f"{scheme}//{'/'.join(rest)}"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __fspath__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:
        return _restored, (tuple(self.parts), self.known)

    @property
    def key(self) -> Key:
        """Scheme, bucket and name."""
        scheme, bucket, *names = self.parts
        return Key(scheme.rstrip(":"), bucket, "/".join(names))

    def status(self) -> Status:
        """Size, entity tag and time. Raises FileNotFoundError if there is no such object."""
        if self.known is None:
            key = self.key
            if not key.name:
                raise FileNotFoundError(2, "is a bucket, not an object", str(self))
            self.known = stores.head(key)
        return self.known

    def fresh(self) -> ObjectPath:
        """The same path, with nothing known about the object."""
        return type(self)(*self.parts)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As of a file: size and time of an object; a folder has neither."""
        try:
            status = self.status()
            size, time, mode = status.size, status.mtime_ns, stat.S_IFREG | 0o444
        except FileNotFoundError:
            if not self.is_dir():
                raise
            size, time, mode = 0, 0, stat.S_IFDIR | 0o555
        seconds = time // 1_000_000_000
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, seconds, seconds, seconds), {"st_mtime_ns": time})

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object, or one below."""
        return self.is_file() or self.is_dir()

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object of this name."""
        try:
            self.status()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there are objects below."""
        if self.known is not None:
            return False
        try:
            return next(stores.list_all(self.key), None) is not None or not self.key.name
        except FileNotFoundError:
            return False

    def iterdir(self) -> Generator[ObjectPath, None, None]:
        """Objects and folders directly below; each object keeps what the listing says about it."""
        objects, folders = stores.list_folder(self.key)
        yield from (self._of(found) for found in objects)
        yield from (self._named(name) for name in folders)

    def below(self) -> Iterator[ObjectPath]:
        """All objects below, however deep, in the order of their names."""
        return (self._of(found) for found in stores.list_all(self.key))

    def children(self, names: Sequence[str]) -> Iterator[ObjectPath]:
        """The objects right below; if many are known by name, from several listings at a time."""
        if len(names) <= stores.PAGE or not stores.starts_anywhere(self.key):
            return self.iterdir()
        ordered, prefix = sorted(names), f"{self.key.name}/" if self.key.name else ""
        parts = [ordered[begin : begin + stores.PAGE] for begin in range(0, len(ordered), stores.PAGE)]

        def listed(part: list[str]) -> list[ObjectPath]:
            found = stores.list_all(self.key, after=prefix + part[0][:-1], until=prefix + part[-1])
            return [self._of(one) for one in found if "/" not in one.name[len(prefix) :]]

        with ThreadPoolExecutor(REQUESTS) as pool:
            return iter([path for paths in pool.map(listed, parts) for path in paths])

    def _of(self, found: stores.Found) -> ObjectPath:
        path = self._named(found.name)
        path.known = found.status
        return path

    def _named(self, name: str) -> ObjectPath:
        return type(self)(*self.parts[:2], *name.split("/"))

    def glob(self, pattern: str, **_: Any) -> Generator[ObjectPath, None, None]:
        """The objects below that a pattern matches."""
        yield from (self / pattern).matching()

    def rglob(self, pattern: str, **_: Any) -> Generator[ObjectPath, None, None]:
        """The objects at any depth that a pattern matches."""
        yield from (self / "**" / pattern).matching()

    def matching(self) -> list[ObjectPath]:
        """The objects that this path names as a pattern: `*` within a name, `**` over folders."""
        fixed = next((i for i, part in enumerate(self.parts) if glob.has_magic(part)), len(self.parts))
        if fixed < 2:
            raise FileProblem(self, "the name of a bucket cannot be a pattern")
        root, rest = type(self)(*self.parts[:fixed]), self.parts[fixed:]
        found = root.iterdir() if len(rest) == 1 and rest[0] != "**" else root.below()
        pattern = re.compile("".join(_regex_of(part, is_last=part is rest[-1]) for part in rest))
        return [
            path
            for path in found
            if path.known is not None and pattern.fullmatch("/".join(path.parts[fixed:])) is not None
        ]

    def open(  # type: ignore[override]
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open to read, with reading ahead; `bushel.storage.write_whole` writes."""
        if mode not in ("r", "rb", "rt"):
            raise ValueError(f"mode must be one that reads, got {mode!r}: an object is written whole")
        raw = ObjectFile(self.key, self.status())
        if mode == "rb":
            return raw if buffering == 0 else io.BufferedReader(raw)  # type: ignore[return-value]
        return io.TextIOWrapper(io.BufferedReader(raw), encoding, errors, newline)

    def read_bytes(self) -> bytes:
        """All of it."""
        return stores.get_all(self.key)

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        """All of it, as text."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        """Write it whole."""
        self.known = None
        stores.put(self.key, bytes(data))
        return len(data)

    def write_text(
        self, data: str, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> int:
        """Write it whole, as text."""
        return self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))

    def put(self, file: Path) -> Status:
        """Upload a file, in parts if it is large; the object appears when all of it is uploaded."""
        self.known = None
        return stores.put(self.key, file)

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove it; a missing one is not an error."""
        self.known = None
        stores.delete(self.key, [self.key.name])

    def remove_below(self, *keep: Path) -> None:
        """Remove everything below, except for some objects and what is below them."""
        stores.delete(self.key, [path.key.name for path in self.below() if not any(map(path.is_relative_to, keep))])

    def copy_to(self, other: ObjectPath) -> None:
        """Copy it inside its bucket."""
        stores.copy(self.key, other.key.name, self.status())

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: folders are not made."""

    def rmdir(self) -> None:
        """Nothing: a folder without objects is not there."""

    def absolute(self) -> ObjectPath:
        """It always is."""
        return self

    def resolve(self, strict: bool = False) -> ObjectPath:
        """There are no links."""
        return self


def _restored(parts: tuple[str, ...], known: Status | None) -> ObjectPath:
    path = ObjectPath(*parts)
    path.known = known
    return path


def _regex_of(part: str, *, is_last: bool) -> str:
    if part == "**":
        return ".*" if is_last else "(?:.*/)?"
    within = fnmatch.translate(part).replace(".*", "[^/]*").removeprefix("(?s:").removesuffix(r")\Z")
    return f"(?:{within})" if is_last else f"(?:{within})/"


def parse_object(path: str | os.PathLike[str]) -> ObjectPath | None:
    """The object that a path names; None if the path is on this machine."""
    if isinstance(path, ObjectPath):
        return path
    text = os.fspath(path)
    if (found := _SCHEME.match(text)) is None:
        found = None if isinstance(path, str) else _FLATTENED.match(text)
        # Data may bring a folder that is called so, and what is found in it is no address.
        if found is not None and os.path.lexists(f"{found[1]}:"):
            return None
    if found is None:
        return None
    scheme, rest = found[1].lower(), found[2]
    bucket = rest.split("/")[0]
    if "@" in bucket:
        raise ValueError(f"a path must not hold credentials; got {scheme}://…@{bucket.rpartition('@')[2]}")
    if _SIGNED.search(rest):
        raise ValueError(f"a path must not hold credentials; got {scheme}://{rest.partition('?')[0]}?…")
    if scheme == "file":
        raise ValueError(f"a file on this machine is named by its path alone, without file://; got {text!r}")
    if scheme not in stores.SCHEMES:
        known = ", ".join(f"{name}://" for name in stores.SCHEMES)
        raise ValueError(f"a path must be on this machine or begin with one of {known}; got {scheme}://…")
    if not bucket or glob.has_magic(bucket):
        raise ValueError(f"a path must name a bucket, as in {scheme}://bucket/name; got {text!r}")
    stores.require(scheme)
    stores.cache_limit()
    rest = unquote(rest) if scheme.startswith("http") else rest
    return ObjectPath(f"{scheme}:", *(part for part in rest.split("/") if part))
