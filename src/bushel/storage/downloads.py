"""Files at http(s):// addresses, several at a time: with retries, limits, and no way into a private network."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bushel.errors import readable_size

__all__ = ["Downloads", "NotDownloaded", "is_url"]

_AGENT = "bushel"
_WAIT = 0.5  # seconds before the second try; twice as long before each further one
_LONGEST_WAIT = 30.0
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_SLOWEST = 15  # times the timeout that a whole file may take


class NotDownloaded(Exception):
    """Why a file could not be downloaded."""


def is_url(text: str) -> bool:
    """Whether text is an address of the web."""
    return text.lower().startswith(("http://", "https://"))


@dataclass(frozen=True)
class Downloads:
    """How files are downloaded. A value."""

    private: bool = False  # addresses of private networks and of this machine are allowed
    folder: str | None = None  # where files are kept, so that none is downloaded twice
    timeout: float = 20.0  # seconds without a byte
    tries: int = 3
    max_bytes: int = 64 << 20
    threads: int = 16

    def fetch_all(self, urls: Sequence[str]) -> Iterator[bytes | NotDownloaded]:
        """The content of each address, in order, or why there is none."""
        with ThreadPoolExecutor(min(self.threads, max(1, len(urls)))) as pool:
            yield from pool.map(self._fetch_or_say, urls)

    def _fetch_or_say(self, url: str) -> bytes | NotDownloaded:
        try:
            return self.fetch(url)
        except NotDownloaded as error:
            return error

    def fetch(self, url: str) -> bytes:
        """The content of an address: kept, or downloaded. Raises `NotDownloaded`."""
        kept = self._kept(url)
        if kept is not None and kept.is_file():
            return kept.read_bytes()
        data = self._try(url)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            temporary = kept.with_name(f"{kept.name}.{os.getpid()}-{id(data)}.part")
            temporary.write_bytes(data)
            temporary.replace(kept)
        return data

    def _kept(self, url: str) -> Path | None:
        if self.folder is None:
            return None
        name = hashlib.sha256(url.encode()).hexdigest()
        return Path(self.folder) / name[:2] / name

    def _try(self, url: str) -> bytes:
        wait = _WAIT
        for number in range(self.tries):
            try:
                return self._download(url)
            except urllib.error.HTTPError as error:
                with error:
                    what = f"{error.code} {str(error.reason).lower()}"
                    if "infinite loop" in what:
                        what = f"it is redirected in a circle, or more than {_Redirects.max_redirections} times"
                    wait = _retry_after(error) or wait
                if error.code not in _TRY_AGAIN:
                    raise NotDownloaded(what) from None
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, _Private):
                    raise NotDownloaded(str(reason)) from None
                what = _words(reason)
            if number + 1 < self.tries:
                time.sleep(min(wait, _LONGEST_WAIT))
                wait *= 2
        raise NotDownloaded(f"{what} ({self.tries} tries)")

    def _download(self, url: str) -> bytes:
        try:
            quoted = urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")
            request = urllib.request.Request(quoted, headers={"User-Agent": _AGENT})
            with self._opener().open(request, timeout=self.timeout) as answer:
                data = self._content(answer)
                stated = answer.headers.get("Content-Length")
        except (ValueError, UnicodeError) as error:
            raise NotDownloaded(f"the address is not valid: {error}") from None
        if len(data) > self.max_bytes:
            raise NotDownloaded(f"it has more than {readable_size(self.max_bytes)}")
        if stated is not None and stated.isdigit() and len(data) < int(stated):
            raise http.client.IncompleteRead(data, int(stated) - len(data))
        return data

    def _content(self, answer: Any) -> bytes:
        """What a server sends, up to one byte too many. One that sends a byte now and then is not waited for."""
        until = time.monotonic() + _SLOWEST * self.timeout
        data = bytearray()
        while len(data) <= self.max_bytes and (piece := answer.read1(1 << 16)):
            data += piece
            if time.monotonic() > until:
                raise NotDownloaded(f"it was not complete after {_SLOWEST * self.timeout:.0f} seconds")
        return bytes(data)

    def _opener(self) -> urllib.request.OpenerDirector:
        """An opener that knows no file:// nor ftp://, and checks the address of every connection it makes."""
        opener = urllib.request.OpenerDirector()
        for handler in (
            _Http(self.private),
            _Https(self.private),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.UnknownHandler(),
            _Redirects(),
        ):
            opener.add_handler(handler)
        return opener


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5


class _Private(OSError):
    """An address that may not be reached."""


def _connect(host: str, port: int, timeout: Any, *, private: bool) -> socket.socket:
    """Connect to an address that was checked: a name cannot change its address in between."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, place in found:
        address = ipaddress.ip_address(str(place[0]).partition("%")[0])
        if not private and not address.is_global:
            raise _Private(f"{host} is a private address, which the option private allows")
    error: OSError = OSError("it has no address")
    for *_, place in found:
        try:
            return socket.create_connection((str(place[0]), port), timeout)
        except OSError as failed:
            error = failed
    raise error


class _Connection(http.client.HTTPConnection):
    private = False

    def connect(self) -> None:
        """Connect to a checked address."""
        self.sock = _connect(self.host, self.port, self.timeout, private=self.private)


class _SafeConnection(http.client.HTTPSConnection):
    private = False

    def connect(self) -> None:
        """Connect to a checked address, and check the certificate for the name."""
        plain = _connect(self.host, self.port, self.timeout, private=self.private)
        self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self.host)


def _made(kind: Any, private: bool) -> Callable[..., Any]:
    def make(host: str, **settings: Any) -> Any:
        connection = kind(host, **settings)
        connection.private = private
        return connection

    return make


class _Http(urllib.request.HTTPHandler):
    def __init__(self, private: bool) -> None:
        super().__init__()
        self.private = private

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open an http:// address."""
        return self.do_open(_made(_Connection, self.private), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, private: bool) -> None:
        super().__init__()
        self.private = private

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open an https:// address."""
        return self.do_open(_made(_SafeConnection, self.private), req)


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    stated = error.headers.get("Retry-After", "") if error.headers else ""
    return float(stated) if stated.isdigit() else None


def _words(reason: Any) -> str:
    if isinstance(reason, TimeoutError | socket.timeout):
        return "no answer in time"
    if isinstance(reason, http.client.IncompleteRead):
        return "the connection ended early"
    text = str(getattr(reason, "strerror", None) or reason)
    return text[:1].lower() + text[1:]
