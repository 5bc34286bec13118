"""The one way to serve over HTTP: to this machine's own names, with limits for connections, headers and bodies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from bushel.errors import BushelError

__all__ = ["BodyTooLong", "bind", "is_of_this_machine", "make_server", "read_body", "why_foreign"]

_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_CONNECTIONS = 256
_HEADER_SECONDS = 10.0  # from the connection, or from the last answer, until the next request has its headers


def is_of_this_machine(host: str) -> bool:
    """Whether a host header names this machine; the port does not matter, as a tunnel may have another one."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return name in _HOSTS


def why_foreign(headers: Mapping[str, str], *, in_frames: bool = False) -> tuple[int, str] | None:
    """Why a request may be one that a page of another site makes: a status and a sentence; None if it is not.

    The host header is checked, or any site could have its name point to this machine. `Origin: null` is what pages in
    sandboxes and files send; only the frame of a notebook may.
    """
    if not is_of_this_machine(headers.get("host", "")):
        return 421, "This server is only for this machine. Open it as http://127.0.0.1 or through an SSH tunnel."
    origin = headers.get("origin")
    if origin is None or (origin == "null" and in_frames) or is_of_this_machine(urlsplit(origin).netloc):
        return None
    return 403, "This request comes from another site."


def bind(host: str, port: int, *, tries: int = 1) -> socket.socket:
    """A socket at a port, or at one of the next ones if it is taken, that listens as soon as it is known."""
    why = "it is taken"
    for near in range(port, min(port + tries, 65536)):
        # With the protocol given, asyncio sends small answers at once: each thumbnail would wait 40 ms otherwise.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, near))
            found.listen(128)
        except OSError as error:
            found.close()
            why = (error.strerror or str(error)).lower()
            continue
        return found
    if tries > 1:
        raise BushelError(f"the ports from {port} to {port + tries - 1} are taken", help=["Choose another: --port N"])
    raise BushelError(
        f"cannot serve at {host}:{port}: {why}", help=["Choose another port; 0 takes any that is free."]
    ) from None


def make_server(app: Any) -> Any:
    """A server of uvicorn for an ASGI application, with limits."""
    import uvicorn

    config = uvicorn.Config(
        app,
        http=_protocol(),
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        lifespan="off",
        ws="none",
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


def _protocol() -> Any:
    """Uvicorn's protocol, which waits for ever for headers, with an end to that."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Timely(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_headers()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._due.cancel()
            self._wait_for_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._due.cancel()
            super().connection_lost(exc)

        def _wait_for_headers(self) -> None:
            self._due = self.loop.call_later(_HEADER_SECONDS, self._give_up)

        def _give_up(self) -> None:
            is_waiting = self.cycle is None or self.cycle.response_complete
            if is_waiting and not self.transport.is_closing():
                self.transport.close()

    return Timely


class BodyTooLong(Exception):
    """A body with more bytes than are allowed."""


async def read_body(request: Any, *, most: int, seconds: float) -> bytes:
    """The body of a request. Raises `BodyTooLong`, or TimeoutError if it does not come in time."""
    if int(request.headers.get("content-length", 0)) > most:
        raise BodyTooLong
    body = bytearray()
    async with asyncio.timeout(seconds):
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise BodyTooLong
    return bytes(body)
