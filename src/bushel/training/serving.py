"""`serve`: a trained model that answers over HTTP on this machine, within limits. The contract checks every request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.contract import verify
from bushel.contract.raw_samples import RawSample, raw_bytes, raw_rows
from bushel.errors import missing_package, reason_of
from bushel.feeding.preparation import Input
from bushel.local_server import BodyTooLong, bind, make_server, read_body, why_foreign
from bushel.storage import AnyPath
from bushel.training.predicting import TrainedModel, open_run, predict_raw

__all__ = ["PORT", "Limits", "ServedModel", "serve"]

Array = NDArray[Any]

PORT = 8758
_MOST_COMING = 8  # bodies on their way, for each request that may wait
_FAR = 6.0  # standard deviations from the mean of training, beyond which a number is unlike those of training
_ENOUGH = 30  # rows from which their mean is compared with that of training


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may cost."""

    bytes: int = 16 << 20  # of a body
    rows: int = 1000
    pixels: int = 25_000_000  # of an image
    seconds: float = 30.0  # for a body to come, and for its prediction
    waiting: int = 16  # requests at a time

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")


class RefusedRequest(Exception):
    """A request that is not answered: the status, and why in one line."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Drift:
    """How many rows were unlike those of training, by input."""

    def __init__(self, inputs: Iterable[Input]) -> None:
        self.inputs = {given.name: given for given in inputs}
        self.rows = 0
        self.unlike: dict[str, int] = {}
        self.sums: dict[str, Array] = {}  # by input, of all rows, in standard deviations from the mean of training

    def add(self, arrays: Mapping[str, Array]) -> None:
        """Count the rows of a batch."""
        self.rows += len(next(iter(arrays.values())))
        for name, given in self.inputs.items():
            is_unlike = self._unlike(given, np.asarray(arrays[name]))
            if is_unlike is not None and is_unlike.any():
                self.unlike[name] = self.unlike.get(name, 0) + int(is_unlike.sum())

    def _unlike(self, given: Input, rows: Array) -> NDArray[np.bool_] | None:
        """Which rows are unlike those of training; None for kinds of inputs that cannot be compared."""
        flat = rows.reshape(len(rows), -1)
        if given.kind == "category":
            known = [value.encode() if isinstance(value, str) else value for value in given.values]
            return np.array([any(value not in known for value in row) for row in flat.tolist()], bool)
        if given.kind == "tokens":
            return np.asarray((((flat < 0) | (flat >= given.size)) & (flat != given.pad)).any(axis=1))
        if given.kind not in ("number", "series") or not given.mean:
            return None
        away = (rows.astype(np.float64) - given.mean) / np.maximum(given.std, 1e-12)
        away = away.reshape(len(rows), -1)
        self.sums[given.name] = self.sums.get(given.name, 0.0) + np.nan_to_num(away).sum(axis=0)
        is_missing = np.isnan(away).any(axis=1) & (not given.has_missing)
        return np.asarray((np.abs(np.nan_to_num(away)) > _FAR).any(axis=1) | is_missing)

    def to_json(self) -> dict[str, Any]:
        """Rows unlike those of training by input, and by how many standard deviations the mean has moved at most."""
        moved = (
            {} if self.rows < _ENOUGH else {name: np.abs(sums / self.rows).max() for name, sums in self.sums.items()}
        )
        return {
            "rows": self.rows,
            "unlike": dict(self.unlike),
            "moved": {name: round(float(value), 3) for name, value in moved.items()},
        }


class _WatchedModel(TrainedModel):
    """A model that counts how far what it is fed is from what it was trained on."""

    @cached_property
    def drift(self) -> Drift:
        """All rows since the start."""
        return Drift(self.contract.preparation.inputs)

    def _call(self, x: Any) -> NDArray[Any]:
        self.drift.add(x if isinstance(x, dict) else {self.contract.preparation.names[0]: x})
        return super()._call(x)


class ServedModel:
    """A model that is being served."""

    def __init__(self, run: AnyPath, *, host: str, port: int, limits: Limits) -> None:
        opened = open_run(run)
        self.run_name = opened.path.parent.resolve().name
        self.model = _WatchedModel(opened.contract, opened.path)
        self.limits = limits
        self.differences = [str(found) for found in verify(opened.contract, model=self.model.model)]
        self.counts = {"requests": 0, "refused": 0, "predicted_rows": 0, "refused_rows": 0}
        self.is_local = host in ("127.0.0.1", "localhost")
        self._waiting = self._coming = 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="predict")  # one at a time: the model uses all cores
        self._socket = bind(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])

    @property
    def link(self) -> str:
        """The address of the server."""
        return f"http://{self.host}:{self.port}"

    def run(self) -> None:
        """Serve until it is interrupted."""
        make_server(self.app()).run([self._socket])

    def app(self) -> Any:
        """The server as an ASGI application."""
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route

        def answer(value: Any, status: int = 200) -> Response:
            return Response(msgspec.json.encode(value) + b"\n", status, media_type="application/json")

        async def health(request: Request) -> Response:
            return await guarded(request, self._health)

        async def predict(request: Request) -> Response:
            return await guarded(request, self._predict)

        async def guarded(request: Request, respond: Callable[[Request], Any]) -> Response:
            self.counts["requests"] += 1
            try:
                self._refuse_foreign(request)
                return answer(await respond(request))
            except RefusedRequest as refused:
                self.counts["refused"] += 1
                return answer({"error": refused.why}, refused.status)
            except Exception as error:  # input is untrusted: whatever it breaks, the server goes on
                self.counts["refused"] += 1
                return answer({"error": reason_of(error).splitlines()[0]}, 500)

        async def unknown(_: Request, error: Exception) -> Response:
            status = error.status_code if isinstance(error, HTTPException) else 500
            return answer({"error": "there is GET /health and POST /predict"}, status)

        routes = [Route("/health", health, methods=["GET"]), Route("/predict", predict, methods=["POST"])]
        return Starlette(routes=routes, exception_handlers={HTTPException: unknown})

    def _refuse_foreign(self, request: Any) -> None:
        """Refuse requests that a page of another site makes, by its origin or by a name that points to this machine."""
        if self.is_local and why_foreign(request.headers) is not None:
            raise RefusedRequest(403, f"this server is for this machine only: ask it as {self.link}")

    async def _health(self, _: Any) -> dict[str, Any]:
        target = self.model.contract.target
        return {
            "status": "ok" if not self.differences else "differs",
            "run": self.run_name,
            "task": target.kind,
            "classes": target.classes,
            "inputs": {given.name: given.kind for given in self.model.contract.preparation.inputs},
            "differences": self.differences,
            **self.counts,
            "drift": self.model.drift.to_json(),
        }

    async def _predict(self, request: Any) -> dict[str, Any]:
        read = self._reader(request.headers.get("content-type", "").partition(";")[0].strip().lower())
        body = await self._body(request)  # before a place is taken: a slow client keeps nobody out
        if self._waiting >= self.limits.waiting:
            raise RefusedRequest(503, f"{self._waiting} requests are waiting: ask again later")
        self._waiting += 1
        try:
            work = asyncio.get_running_loop().run_in_executor(self._worker, self._work, partial(read, body))
            async with asyncio.timeout(self.limits.seconds):
                return await work
        except TimeoutError:
            raise RefusedRequest(503, f"the prediction took longer than {self.limits.seconds:g} seconds") from None
        finally:
            self._waiting -= 1

    async def _body(self, request: Any) -> bytes:
        if self._coming >= _MOST_COMING * self.limits.waiting:
            raise RefusedRequest(503, f"{self._coming} bodies are on their way: ask again later")
        self._coming += 1
        try:
            return await read_body(request, most=self.limits.bytes, seconds=self.limits.seconds)
        except BodyTooLong:
            raise RefusedRequest(413, f"a request may have {self.limits.bytes:,} bytes") from None
        except TimeoutError:
            raise RefusedRequest(408, f"the body did not come within {self.limits.seconds:g} seconds") from None
        finally:
            self._coming -= 1

    def _reader(self, kind: str) -> Callable[[bytes], list[RawSample]]:
        """How a body of this content type becomes samples."""
        if kind == "application/json":
            return self._rows
        if kind.startswith("image/") or kind == "application/octet-stream":
            return partial(self._file, "image")
        if kind == "text/plain":
            return partial(self._file, "text")
        raise RefusedRequest(415, f"send application/json, image/* or text/plain, not {kind[:60] or 'nothing'!r}")

    def _file(self, kind: str, body: bytes) -> list[RawSample]:
        return [raw_bytes(self.model.contract, body, kind, max_pixels=self.limits.pixels)]

    def _rows(self, body: bytes) -> list[RawSample]:
        try:
            given = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RefusedRequest(400, f"this is not JSON: {error}") from None
        rows = given.get("rows") if isinstance(given, dict) else given
        if not isinstance(rows, list) or not rows:
            raise RefusedRequest(400, 'send a list of rows, or {"rows": [...]}, with at least one row')
        if len(rows) > self.limits.rows:
            raise RefusedRequest(413, f"a request may have {self.limits.rows:,} rows, and this one has {len(rows):,}")
        return raw_rows(self.model.contract, rows, max_pixels=self.limits.pixels)

    def _work(self, read: Callable[[], list[RawSample]]) -> dict[str, Any]:
        """Predict in the only thread that does, so that counts need no locks."""
        before = dict(self.model.drift.unlike)
        found = list(predict_raw(self.model, read()))
        bad = [prediction for prediction in found if prediction.why is not None]
        self.counts["predicted_rows"] += len(found) - len(bad)
        self.counts["refused_rows"] += len(bad)
        if len(bad) == len(found):
            raise RefusedRequest(422, f"{bad[0].name}: {bad[0].why}")
        unlike = {name: count - before.get(name, 0) for name, count in self.model.drift.unlike.items()}
        return {"predictions": found, "unlike": {name: count for name, count in unlike.items() if count}}


def serve(run: AnyPath, *, host: str = "127.0.0.1", port: int = PORT, limits: Limits | None = None) -> ServedModel:
    """Load a trained model, and prepare to serve it; `run()` of the result serves until it is interrupted.

    The golden inputs of the contract are predicted first, and what differs from training is in `differences`.

    >>> bushel.serve("runs/cats").run()
    """
    if not all(find_spec(name) for name in ("starlette", "uvicorn")):
        raise missing_package("starlette and uvicorn", extra="view", purpose="bushel serve")
    return ServedModel(run, host=host, port=port, limits=limits or Limits())
