"""A proxy before a store that fails now and then: answers 500 and 503, answers late, cuts bodies short, hangs up."""

import asyncio
import re
import threading
from collections import Counter

FAULTS = ("500", "503", "slow", "short", "reset")


# What S3 answers where it does not let somebody in, as its manual gives them.
REFUSALS = {
    "AccessDenied": (403, "Access Denied"),
    "InvalidAccessKeyId": (403, "The AWS Access Key Id you provided does not exist in our records."),
    "SignatureDoesNotMatch": (403, "The request signature we calculated does not match the signature you provided."),
    "ExpiredToken": (400, "The provided token has expired."),
    "PermanentRedirect": (301, "The bucket you are attempting to access must be addressed using another endpoint."),
    "AuthorizationHeaderMalformed": (400, "The authorization header is malformed; expecting 'eu-west-1'"),
}


def refusal(code: str) -> bytes:
    status, words = REFUSALS[code]
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{words}</Message></Error>'
    return (
        f"HTTP/1.1 {status} No\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )


class FlakyProxy:
    """Passes requests on to a server of this machine, and lets a share of them go wrong."""

    def __init__(self, port: int, share: float) -> None:
        self.behind = port
        self.share = share
        self.faults: tuple[str, ...] = FAULTS
        self._due = 0.0
        self.port = 0
        self.requests = 0
        self.done: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> "FlakyProxy":
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        server.close()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after another."""
        try:
            while await self._pass_on(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head, body = await _message(reader)
        if not head:
            return False
        self.requests += 1
        fault = self._next_fault()
        self.done[fault] += 1
        if fault == "reset":
            return False
        if fault in ("500", "503"):
            writer.write(f"HTTP/1.1 {fault} Sorry\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return True
        if fault in REFUSALS:
            writer.write(refusal(fault))
            await writer.drain()
            return True
        answer_head, answer = await self._ask(head, body)
        if fault == "slow":
            await asyncio.sleep(0.5)
        is_head = head.startswith(b"HEAD")
        if fault == "tag":
            answer_head, count = re.subn(rb'(?im)^(etag: *"?)\w{6}', rb"\g<1>000000", answer_head)
            self.done["tags"] += count * head.startswith(b"GET")
        if fault == "short" and len(answer) > 1 and not is_head:
            writer.write(answer_head + answer[: len(answer) // 2])
            await writer.drain()
            return False
        writer.write(answer_head + (b"" if is_head else answer))
        await writer.drain()
        return True

    def _next_fault(self) -> str:
        """The faults in turn, evenly spread over the requests."""
        self._due += self.share
        if self._due < 1:
            return ""
        self._due -= 1
        return self.faults[sum(self.done[fault] for fault in self.faults) % len(self.faults)]

    async def _ask(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.behind, limit=1 << 26)
        try:
            writer.write(head + body)
            await writer.drain()
            return await _message(reader, has_body=not head.startswith(b"HEAD"))
        finally:
            writer.transport.abort()


async def _message(reader: asyncio.StreamReader, has_body: bool = True) -> tuple[bytes, bytes]:
    """Head and body of a request or an answer; an empty head where the connection ended."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b"", b""
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if not has_body:
        return head, b""
    if fields.get(b"expect", b"").lower() == b"100-continue":
        raise ConnectionError("nobody expects this here")
    if b"content-length" in fields:
        return head, await reader.readexactly(int(fields[b"content-length"]))
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        return head, await _chunked(reader)
    return head, b""


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        pieces.append(line + await reader.readexactly(size + 2))
        if size == 0:
            return b"".join(pieces)
