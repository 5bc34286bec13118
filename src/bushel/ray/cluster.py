"""A Ray cluster: finding it, keeping it quiet, and asking its nodes what they see."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bushel import __version__
from bushel.errors import BushelError, FileProblem, missing_package
from bushel.parallel import available_cores
from bushel.storage import fixed_part, local_paths, paths_below

__all__ = ["Node", "connect", "disconnect", "look", "nodes", "require_ray", "signals"]

OBJECT_STORE = 256 << 20  # of a cluster that is started here: tasks return a few kilobytes
_PATIENCE = 60.0  # seconds to wait for the answer of a node
TURN = 0.5  # seconds that Ray is left alone with a signal
_NOTICED = 3.0  # seconds after which a node that did not answer is asked again
_KNOCK = 10.0  # seconds for a cluster to be found
_NONE_RUNNING = "no Ray cluster is running on this machine"
_SAMPLED = 8  # files of a source that each node checks


class _Signals:
    """Ctrl-C and SIGTERM while a cluster is in use: they wait for Ray's own code, which does not survive them."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._depth = 0
        self._came = 0

    def take(self) -> None:
        """Handle both from here on, even if Ray has put handlers of its own in place."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.signal(number, self._handle)
                self._before.setdefault(number, before)

    def give_back(self) -> None:
        """Handle them as before."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            self._before.clear()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let them wait until the end of this, which should come soon."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._pass_on()

    def _handle(self, number: int, _: Any) -> None:
        self._came = number
        if not self._depth:
            self._pass_on()

    def _pass_on(self) -> None:
        number, self._came = self._came, 0
        if not number:
            return
        handler = self._before.get(number)
        if callable(handler):
            handler(number, None)
        elif handler == signal.SIG_DFL:
            raise SystemExit(128 + number)


signals = _Signals()


def require_ray(purpose: str) -> Any:
    """Ray, or the error that says how to install it."""
    # Telemetry, and a warning about accelerators that are not used, are decided when Ray is imported.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if find_spec("ray") is None:
        raise missing_package("Ray", extra="ray", purpose=purpose)
    import ray

    return ray


def connect(address: str | None, *, workers: int | None, purpose: str) -> bool:
    """Join the cluster at an address; without one, the running cluster, or a new one on this machine only.

    Returns whether this opened a connection that must be closed: a program that uses Ray keeps its own.
    """
    ray = require_ray(purpose)
    if ray.is_initialized():
        return False
    try:
        with _without_handler():
            _join(ray, address, workers)
    except (ConnectionError, RuntimeError, ValueError, AssertionError, OSError) as error:
        with suppress(Exception):
            ray.shutdown()
        raise _no_connection(address, error) from None
    _quieten(enabled=False)
    return True


def _join(ray: Any, address: str | None, workers: int | None) -> None:
    logging.getLogger("ray").setLevel(logging.ERROR)
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
    if address != "local" and (found := _find(address)) is not None:
        _knock(found)
        ray.init(address=found, **options)
        return
    options |= {
        "num_cpus": workers or available_cores(),
        "object_store_memory": OBJECT_STORE,
        "include_dashboard": False,
    }
    ray.init(address="local", **options)


@contextmanager
def _without_handler() -> Iterator[None]:
    """Keep Ray from putting a handler of SIGTERM in place of the present one, in the middle of `ray.init`."""
    from ray._private import utils

    kept = getattr(utils, "set_sigterm_handler", None)
    utils.set_sigterm_handler = lambda *_: None
    try:
        yield
    finally:
        if kept is not None:
            utils.set_sigterm_handler = kept


def _find(address: str | None) -> str | None:
    """The address of a cluster; None if none was requested and none is running."""
    from ray._private.services import canonicalize_bootstrap_address

    if address not in (None, "auto"):
        return address
    try:
        found: str | None = canonicalize_bootstrap_address("auto")
    except ConnectionError:
        found = None
    if found is None and address is not None:
        raise ConnectionError(_NONE_RUNNING)
    return found


def _knock(address: str) -> None:
    """Find out whether a cluster answers: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"an address is as HOST:PORT, ray://HOST:PORT, auto or local; got {address!r}")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK):
        pass


def _no_connection(address: str | None, error: Exception) -> BushelError:
    text = str(error)
    if "ersion mismatch" in text:
        lines = [line.strip().partition(": ") for line in text.splitlines()]
        versions = [version for name, _, version in lines if name in ("Ray", "Python")]
        if len(versions) >= 4:
            theirs, mine = f"Ray {versions[0]}, Python {versions[1]}", f"Ray {versions[2]}, Python {versions[3]}"
            return BushelError(f"the cluster has {theirs}, and here is {mine}", help=["Install the same versions."])
    help = ["Start one with `ray start --head`, or leave out --address to use this machine alone."]
    if text == _NONE_RUNNING:
        return BushelError(text, help=help)
    where = address or os.environ.get("RAY_ADDRESS") or "this machine"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else _first_line(error)
    return BushelError(f"there is no Ray cluster at {where}: {reason[:1].lower()}{reason[1:]}", help=help)


def disconnect() -> None:
    """Close the connection that `connect` opened, and stop a cluster that it started."""
    import ray

    ray.shutdown()
    _quieten(enabled=True)


def _quieten(*, enabled: bool) -> None:
    # Ray prints node events on stdout, where results go, whatever `log_to_driver` says.
    from ray._private import worker

    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = enabled


@dataclass(frozen=True)
class Node:
    """A node that does tasks."""

    id: str
    name: str
    cpus: float
    memory: float


def nodes() -> list[Node]:
    """The nodes that are alive and have a CPU."""
    import ray

    return [
        Node(
            id=node["NodeID"],
            name=_name(node),
            cpus=node["Resources"].get("CPU", 0),
            memory=node["Resources"].get("memory", 0),
        )
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]


def _name(node: Mapping[str, Any]) -> str:
    name, host = node["NodeName"], node["NodeManagerHostname"]
    return name if name == host else f"{name} ({host})"


def look(reads: Sequence[Path], writes: Sequence[Path], versions: Mapping[str, str]) -> None:
    """Ask every node whether it has these versions, sees the same files as this machine, and can write to folders."""
    import ray

    expected = {"python": ".".join(map(str, sys.version_info[:3])), "bushel": __version__, **versions}
    seen = _as_seen_here(reads)
    tokens = [folder / f".seen-{uuid.uuid4().hex}" for folder in writes]
    for token in tokens:
        token.write_text(token.name)
    stored = [str(fixed_part(path)) for path in reads if not local_paths([path])]
    ask = ray.remote(num_cpus=0, max_retries=1)(
        _question(list(expected), [path for path, _ in seen], stored, [str(token.absolute()) for token in tokens])
    )
    try:
        for node, answer in _answers(ask):
            _judge(node, answer, expected, seen)
            _judge_stores(node, stored, answer)
            _judge_writing(node, writes, answer)
    finally:
        for token in tokens:
            token.unlink(missing_ok=True)


def _answers(ask: Any) -> list[tuple[Node, Any]]:
    """What the nodes answer. One that died a moment ago, which Ray has not noticed yet, is left out."""
    answers, lost = _asked(ask, nodes())
    if lost:
        time.sleep(_NOTICED)
        more, lost = _asked(ask, [node for node in nodes() if node.id in {each.id for each in lost}])
        answers += more
    if not answers:
        raise BushelError("no node of the Ray cluster answers", help=["`ray status` shows what they do."])
    for node in lost:
        said = f"node {node.name} does not answer, and is left out: the others do its tasks"
        warnings.warn(said, ClusterNote, stacklevel=2)
    return answers


def _asked(ask: Any, there: Sequence[Node]) -> tuple[list[tuple[Node, Any]], list[Node]]:
    """The nodes that answer, with what they answer, and those that are lost."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    with signals.held():
        asked = {
            ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote(): node
            for node in there
        }
    silent, deadline = list(asked), time.monotonic() + _PATIENCE
    while silent and time.monotonic() < deadline:
        with signals.held():
            _, silent = ray.wait(silent, num_returns=len(silent), timeout=TURN)
    if silent:
        raise BushelError(f"node {asked[silent[0]].name} does not answer", help=["`ray status` shows what it does."])
    answers, lost = [], []
    for ref, node in asked.items():
        try:
            with signals.held():
                answers.append((node, ray.get(ref)))
        except ray.exceptions.RayTaskError as error:
            raise BushelError(f"node {node.name} did not answer: {str(error).splitlines()[-1]}") from None
        except ray.exceptions.RayError:
            lost.append(node)
    return answers, lost


class ClusterNote(UserWarning):
    """What a program should know about the cluster while it waits."""


def _first_line(error: Exception) -> str:
    """The first meaningful line, after the trace that Ray's client adds."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if lines[0].endswith(":") else lines[0]


def _as_seen_here(paths: Sequence[Path]) -> list[tuple[str, tuple[int, int]]]:
    """Files, and a few of those in folders and patterns, with size and time; missing ones are reported elsewhere."""
    import glob
    from itertools import islice

    found: list[Path] = []
    for path in local_paths(paths):
        if path.is_dir():
            found += [path, *_some(list(islice(paths_below(path), 10_000)))]
        elif path.exists():
            found.append(path)
        elif glob.has_magic(str(path)):
            found += _some(sorted(Path(name) for name in glob.iglob(str(path), recursive=True)))
    return [(str(path.absolute()), _facts(path)) for path in dict.fromkeys(found)]


def _some(paths: list[Path]) -> list[Path]:
    return paths[:: max(1, len(paths) // _SAMPLED)][:_SAMPLED]


def _facts(path: Path) -> tuple[int, int]:
    status = path.stat()
    return (-1, 0) if path.is_dir() else (status.st_size, int(status.st_mtime))


def _question(names: list[str], reads: list[str], stored: list[str], tokens: list[str]) -> Any:
    """The question to a node. It is sent as code, so that a node without bushel can answer too."""

    def answer() -> dict[str, Any]:
        import contextlib
        import importlib.metadata
        import os
        import platform

        versions = {}
        for name in names:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = "none"
        versions["python"] = platform.python_version()
        try:
            import bushel

            versions["bushel"] = bushel.__version__
        except ImportError:
            versions["bushel"] = "none"
        with contextlib.suppress(ImportError, AttributeError):  # another bushel, which is reported as such
            from bushel import _native

            for library in filter(None, _native.codecs().values()):  # of the core, and no packages
                name, _, version = library.rpartition(" ")
                versions[name] = version
        seen = []
        for path in reads:
            try:
                status = os.stat(path)  # noqa: PTH116
                is_folder = os.path.isdir(path)  # noqa: PTH112
                seen.append((-1, 0) if is_folder else (status.st_size, int(status.st_mtime)))
                if not os.access(path, os.R_OK):
                    seen[-1] = (-3, 0)
            except OSError:
                seen.append((-2, 0))
        if versions["bushel"] == "none":
            return {"versions": versions, "seen": seen, "stored": [], "written": []}

        def fault_of(path: str, is_written: bool) -> str:
            """Why a node cannot use a path; empty if it can."""
            from bushel.storage import as_path

            try:
                found = as_path(path)
                if not is_written:
                    return "" if found.exists() else "it is not there"
                if found.read_text() != found.name:
                    return "another folder is there"
                beside = found.with_name(f"{found.name}-{os.getpid()}-{os.urandom(4).hex()}")
                beside.write_text("x")
                beside.unlink()
            except Exception as error:
                said = str(error).splitlines()[0].removeprefix(f"{path}: ")
                return said if not isinstance(error, OSError) else (error.strerror or said).lower()
            return ""

        return {
            "versions": versions,
            "seen": seen,
            "stored": [fault_of(path, False) for path in stored],
            "written": [fault_of(path, True) for path in tokens],
        }

    return answer


def _judge(
    node: Node,
    answer: Mapping[str, Any],
    expected: Mapping[str, str],
    seen: Sequence[tuple[str, tuple[int, int]]],
) -> None:
    for name, version in expected.items():
        theirs = answer["versions"].get(name)
        if theirs == "none":
            raise BushelError(f"node {node.name} has no {name}, and here is {version}", help=["Install it there too."])
        if theirs != version:
            raise BushelError(
                f"node {node.name} has {name} {theirs}, and here is {version}",
                help=["The same versions write the same bytes: install one of them everywhere."],
            )
    for (path, here), there in zip(seen, answer["seen"], strict=True):
        if tuple(there) != here:
            what = {-2: "does not see it", -3: "has no permission to read it"}.get(there[0], "sees another file there")
            raise FileProblem(path, f"node {node.name} {what}", help=["Sources must be at the same path on all nodes."])


_CREDENTIALS = "All nodes need the store's credentials, region and endpoint, each in its own environment."


def _judge_stores(node: Node, stored: Sequence[str], answer: Mapping[str, Any]) -> None:
    for path, fault in zip(stored, answer["stored"], strict=True):
        if fault:
            raise FileProblem(path, f"node {node.name} does not see it: {fault}", help=[_CREDENTIALS])


def _judge_writing(node: Node, writes: Sequence[Path], answer: Mapping[str, Any]) -> None:
    """Check the folder of a build, and the store that it goes to, if any."""
    for folder, fault in zip(writes, answer["written"], strict=True):
        if not fault:
            continue
        if not local_paths([folder]):
            raise FileProblem(folder.parent, f"node {node.name} cannot write here: {fault}", help=[_CREDENTIALS])
        goes_on = len(local_paths(writes)) < len(writes)
        help = "BUSHEL_WORK must name" if goes_on else "OUT must be"
        place = folder.parent.parent if goes_on else folder.parent
        raise FileProblem(
            place,
            f"node {node.name} cannot write here",
            help=[f"{help} a folder that all nodes share, at the same path."],
        )
