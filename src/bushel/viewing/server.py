"""The local page: served on 127.0.0.1, protected by a token, limited to what was opened; and in notebooks."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from importlib.resources import files
from importlib.util import find_spec
from os import PathLike
from typing import Any

import msgspec

from bushel.errors import BushelError, missing_package, reason_of
from bushel.local_server import BodyTooLong, bind, make_server, read_body, why_foreign
from bushel.printing import escape
from bushel.reading.dataset import Split
from bushel.storage import AnyPath
from bushel.viewing.opened import open_splits
from bushel.viewing.showing import CannotShow
from bushel.viewing.viewer import Viewer, open_viewer

__all__ = ["PORT", "make_app", "make_token", "serve"]

PORT = 8757
_PAGES = ("", "browse", "record", "compare", "quarantine", "duplicates", "labels", "batches", "run", "runs")
_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_FRAMES = "http://localhost:* http://127.0.0.1:* vscode-webview:"  # where notebooks show a page in a cell
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; frame-ancestors "
)
_MOST_POSTED = 1 << 20  # bytes
_POST_SECONDS = 30.0
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def make_token() -> str:
    """A secret that nobody guesses."""
    return secrets.token_urlsafe(24)


def require_server() -> None:
    """Say what is missing before anything is opened."""
    if not all(find_spec(name) for name in ("starlette", "uvicorn")):
        raise missing_package("starlette and uvicorn", extra="view", purpose="bushel view")


class _Guard:
    """Lets through what comes from this machine's own names with the token, and forbids the page everything else.

    The token is part of the path, so that links work in a frame of a notebook, which gets no cookies.
    """

    def __init__(self, app: App, token: str, *, in_frames: bool) -> None:
        self._app, self._in_frames = app, in_frames
        self._prefix = f"/{token}/"
        policy = _POLICY + (_FRAMES if in_frames else "'none'")
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if (refusal := self._refusal(scope["path"], headers)) is not None:
            await self._refuse(send, *refusal)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._headers]
            await send(message)

        inner = {**scope, "path": scope["path"][len(self._prefix) - 1 :], "raw_path": b""}
        await self._app(inner, receive, send_with_headers)

    def _refusal(self, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        if (foreign := why_foreign(headers, in_frames=self._in_frames)) is not None:
            return foreign
        if not secrets.compare_digest(path[: len(self._prefix)].encode(), self._prefix.encode()):
            return 403, "The link needs its token. Use the one that `bushel view` printed."
        return None

    async def _refuse(self, send: Send, status: int, why: str) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8"), *self._headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": why.encode()})


def make_app(viewer: Viewer, token: str, *, in_frames: bool = False) -> App:
    """The page as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    assets = {entry.name: entry.read_bytes() for entry in files("bushel.viewing").joinpath("page").iterdir()}

    def page(_: Request) -> Response:
        return Response(
            assets["index.html"], media_type="text/html; charset=utf-8", headers={"cache-control": "no-store"}
        )

    def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in assets or name.rpartition(".")[2] not in _KINDS:
            return Response("There is no such file.", status_code=404, media_type="text/plain")
        headers = {"cache-control": "no-cache"}
        return Response(assets[name], media_type=_KINDS[name.rpartition(".")[2]], headers=headers)

    def answer(request: Request) -> Response:
        name, given = request.path_params["name"], dict(request.query_params)
        if name not in viewer.answers:
            return _json({"error": f"there is no {name}"}, 404)
        try:
            found = viewer.answers[name](given)
        except CannotShow as error:
            return _json({"error": error.message}, 422)
        except LookupError as error:
            return _json({"error": str(error).splitlines()[0]}, 404)
        except (BushelError, ValueError, OSError) as error:
            return _json({"error": str(error)}, 400)
        except Exception as error:  # data is untrusted: whatever it breaks is shown, and the page goes on
            return _json({"error": reason_of(error)}, 500)
        if isinstance(found, Iterator):
            return StreamingResponse(found, media_type="application/x-ndjson", headers={"cache-control": "no-store"})
        if isinstance(found, tuple):
            return _file(found[0], found[1], request.headers.get("if-none-match"))
        return _json(found)

    def _file(data: bytes, kind: str, known: str | None) -> Response:
        """A file that the browser keeps, and asks whether it is still the same."""
        headers = {"cache-control": "private, no-cache", "etag": f'"{hashlib.sha256(data).hexdigest()[:32]}"'}
        if known == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    async def post(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _json({"error": "send JSON"}, 415)
        try:
            body = await read_body(request, most=_MOST_POSTED, seconds=_POST_SECONDS)
        except BodyTooLong:
            return _json({"error": "that is too long"}, 413)
        except TimeoutError:
            return _json({"error": "it did not come in time"}, 408)
        from starlette.concurrency import run_in_threadpool

        name = request.path_params["name"]
        if name not in viewer.changes:
            return _json({"error": f"there is no {name} to change"}, 404)
        try:
            given = msgspec.json.decode(body, type=dict[str, Any])
            return _json(await run_in_threadpool(viewer.changes[name], given))
        except (msgspec.MsgspecError, BushelError, ValueError, LookupError, OSError) as error:
            return _json({"error": str(error)}, 400)

    def _json(value: Any, status: int = 200) -> Response:
        return Response(_encoded(value), status, media_type="application/json", headers={"cache-control": "no-store"})

    routes = [
        *(Route(f"/{name}", page) for name in _PAGES),
        Route("/page/{name}", asset),
        Route("/api/{name}", answer, methods=["GET"]),
        Route("/api/{name}", post, methods=["POST"]),
    ]
    return _Guard(Starlette(routes=routes), token, in_frames=in_frames)


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a name that is not UTF-8
        from bushel.checking.findings import encodable

        return msgspec.json.encode(encodable(msgspec.to_builtins(value)))


class ServedPage:
    """A page that is being served in the background."""

    def __init__(self, viewer: Viewer, *, port: int, token: str, in_frames: bool = False) -> None:
        self.viewer = viewer
        self.token = token
        self._server = make_server(make_app(viewer, token, in_frames=in_frames))
        self._socket = bind("127.0.0.1", port, tries=10)
        self.port: int = self._socket.getsockname()[1]

    @property
    def link(self) -> str:
        """The address of the page, with its token."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def run(self) -> None:
        """Serve until it is interrupted."""
        self._server.run([self._socket])

    def start(self) -> ServedPage:
        """Serve in the background, for as long as this process lives."""
        threading.Thread(target=self.run, daemon=True).start()
        return self

    def stop(self) -> None:
        """End it."""
        self._server.should_exit = True


def serve(viewer: Viewer, *, port: int = PORT, token: str | None = None, in_frames: bool = False) -> ServedPage:
    """Prepare to serve; `run` or `start` begins."""
    require_server()
    return ServedPage(viewer, port=port, token=token or make_token(), in_frames=in_frames)


class ShownSplit:
    """A split that is being shown: notebooks display the page, and other places the link to it."""

    def __init__(self, served: ServedPage, height: int) -> None:
        self._served = served
        self._height = height

    @property
    def link(self) -> str:
        """The address of the page, with its token."""
        return self._served.link

    def stop(self) -> None:
        """End it."""
        self._served.stop()

    def __repr__(self) -> str:
        return self.link

    def _repr_html_(self) -> str:
        link = escape(self.link + "browse")
        return (
            f'<iframe src="{link}" width="100%" height="{self._height}" style="border:1px solid #8884" title="records">'
            f'</iframe><p><a href="{link}" target="_blank" rel="noopener">Open in a tab</a></p>'
        )


def view(data: Split | AnyPath | Iterable[AnyPath], *, marks: AnyPath | None = None, height: int = 640) -> ShownSplit:
    """Show a split, a selection of its records, or whatever paths name, in the cell of a notebook.

    It is served in the background, to this machine only, until `stop` is called or the process ends.

    >>> bushel.view(train.filter("label == 'cat'"))
    """
    require_server()
    if isinstance(data, Split):
        if data.is_raw:
            raise BushelError("raw data cannot be viewed: build it first (bushel.build)")
        viewer = Viewer([open_splits([data], str(data.paths[0].parent))], marks=marks)
    else:
        viewer = open_viewer([data] if isinstance(data, str | PathLike) else list(data), marks=marks)
    return ShownSplit(serve(viewer.start(), port=0, in_frames=True).start(), height)
