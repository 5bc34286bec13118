"""A server that speaks enough of S3 to read from, as slow as a real store: so much per connection, so long per request.

    python benchmarks/limited_store.py FOLDER --port 9000 --megabytes 50 --milliseconds 30

Each folder in FOLDER is a bucket. It counts what it is asked for: GET /-/counts answers requests and bytes by kind, and
starts again from zero. With --made-up N, the bucket `made-up` has a folder `flat` with the names of N images, each of
which has the bytes of the file `made-up` in FOLDER.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PIECE = 256 << 10
MADE_UP = "made-up"


class Server(ThreadingHTTPServer):
    """Serves the files of a folder."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path, port: int, megabytes: float, milliseconds: float, made_up: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.folder, self.made_up = folder, made_up
        self.bytes_per_second, self.wait = megabytes * 1e6, milliseconds / 1000
        self.counts: Counter[str] = Counter()
        self.lock = Lock()

    def count(self, what: str, size: int = 0) -> None:
        """Note a request and the bytes of its answer."""
        with self.lock:
            self.counts.update({f"{what} requests": 1, f"{what} bytes": size})


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """An object, a range of one, or a listing."""
        place = urlsplit(self.path)
        if place.path == "/-/counts":
            with self.server.lock:
                counts = dict(self.server.counts)
                self.server.counts.clear()
            self._answer(200, json.dumps(counts).encode())
            return
        time.sleep(self.server.wait)
        asked = {name: values[0] for name, values in parse_qs(place.query, keep_blank_values=True).items()}
        bucket, _, name = unquote(place.path).lstrip("/").partition("/")
        if not name:
            self._list(bucket, asked)
            return
        self._send(self._file(bucket, name), is_head=False)

    def do_HEAD(self) -> None:
        """What is known of an object."""
        time.sleep(self.server.wait)
        bucket, _, name = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        self._send(self._file(bucket, name), is_head=True)

    def _file(self, bucket: str, name: str) -> Path:
        is_made_up = bucket == MADE_UP and name.endswith(".jpg")
        return self.server.folder / MADE_UP if is_made_up else self.server.folder / bucket / name

    def _send(self, path: Path, *, is_head: bool) -> None:
        if not path.is_file():
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        size = path.stat().st_size
        start, stop = self._range(size)
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("ETag", tag_of(path))
        self.send_header("Last-Modified", format_datetime(_time_of(path), usegmt=True))
        if self.headers.get("Range"):
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()
        self.server.count("HEAD" if is_head else _kind_of(path), 0 if is_head else self._stream(path, start, stop))

    def _range(self, size: int) -> tuple[int, int]:
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if found is None:
            return 0, size
        return int(found[1]), min(int(found[2] or size - 1) + 1, size)

    def _stream(self, path: Path, start: int, stop: int) -> int:
        """Send bytes, no faster than a connection is; how many were taken."""
        self.wfile.flush()
        begin, sent = time.monotonic(), 0
        with path.open("rb") as file:
            while start + sent < stop:
                try:
                    sent += self.connection.sendfile(file, start + sent, min(PIECE, stop - start - sent))
                except (BrokenPipeError, ConnectionResetError):
                    break
                ahead = begin + sent / self.server.bytes_per_second - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)
        return sent

    def _list(self, bucket: str, asked: dict[str, str]) -> None:
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        most, after = int(asked.get("max-keys", 1000)), asked.get("continuation-token") or asked.get("start-after", "")
        if bucket == MADE_UP:
            count = self.server.made_up if prefix in ("", "flat/") else 0
            self._answer_list(*made_up_page(after, most, count, self.server.folder / MADE_UP))
            return
        names, folders = names_of(self.server.folder / bucket, prefix, delimiter)
        names = names[bisect_right(names, after) :]
        page = names[:most]
        body = "".join(_entry(self.server.folder / bucket / name, name) for name in page)
        body += "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        self._answer_list(body, page[-1] if len(names) > most else None)

    def _answer_list(self, body: str, last: str | None) -> None:
        """A page, and its last name if there are more."""
        body += f"<IsTruncated>{'true' if last else 'false'}</IsTruncated>"
        if last:
            body += f"<NextContinuationToken>{escape(last)}</NextContinuationToken>"
        data = f"<ListBucketResult>{body}</ListBucketResult>".encode()
        self.server.count("LIST", len(data))
        self._answer(200, data, "application/xml")

    def _answer(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", kind)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@lru_cache(maxsize=64)  # nothing is written while it serves, and a listing takes many requests
def names_of(top: Path, prefix: str, delimiter: str) -> tuple[list[str], list[str]]:
    """The files whose names begin with a prefix, and with a delimiter the folders."""
    folder = top / prefix.rpartition("/")[0]
    found = list(folder.iterdir() if delimiter else folder.rglob("*")) if folder.is_dir() else []
    files = sorted(str(path.relative_to(top)) for path in found if path.is_file())
    folders = sorted(f"{path.relative_to(top)}/" for path in found if path.is_dir()) if delimiter else []
    return [name for name in files if name.startswith(prefix)], [name for name in folders if name.startswith(prefix)]


def made_up_page(after: str, most: int, count: int, file: Path) -> tuple[str, str | None]:
    """Names that nobody wrote, each with the facts of one file; and the last of them if there are more."""
    first = bisect_right(range(count), after, key=made_up_name)
    facts = _entry(file, "").partition("</Key>")[2]
    page = [made_up_name(number) for number in range(first, min(first + most, count))]
    body = "".join(f"<Contents><Key>{name}</Key>{facts}" for name in page)
    return body, page[-1] if first + most < count else None


def made_up_name(number: int) -> str:
    return f"flat/img_{number:09d}.jpg"


def _kind_of(path: Path) -> str:
    return {".idx": "index", ".json": "manifest"}.get(path.suffix, "data")


def tag_of(path: Path) -> str:
    """The entity tag of a file: another one when it changes."""
    status = path.stat()
    return f'"{hashlib.md5(f"{path.name}{status.st_size}{status.st_mtime_ns}".encode()).hexdigest()}"'


def _time_of(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _entry(path: Path, name: str) -> str:
    when = _time_of(path).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    facts = f"<Size>{path.stat().st_size}</Size><ETag>{escape(tag_of(path))}</ETag><LastModified>{when}</LastModified>"
    return f"<Contents><Key>{escape(name)}</Key>{facts}</Contents>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--megabytes", type=float, default=50, help="per second and connection")
    parser.add_argument("--milliseconds", type=float, default=30, help="before each answer")
    parser.add_argument("--made-up", type=int, default=0, help="names in the folder made-up/flat")
    options = parser.parse_args()
    Server(options.folder, options.port, options.megabytes, options.milliseconds, options.made_up).serve_forever()


if __name__ == "__main__":
    main()
