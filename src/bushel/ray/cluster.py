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
from bushel.parallel import SharedFolder, available_cores
from bushel.storage import Witness, sharing_help, witnesses

__all__ = ["Node", "connect", "disconnect", "look", "nodes", "require_ray", "signals"]

OBJECT_STORE = 256 << 20  # of a cluster that is started here: tasks return a few kilobytes
_PATIENCE = 60.0  # seconds to wait for the answer of a node
TURN = 0.5  # seconds that Ray is left alone with a signal
_NOTICED = 3.0  # seconds after which a node that did not answer is asked again
_KNOCK = 10.0  # seconds for a cluster to be found
_NONE_RUNNING = "no Ray cluster is running on this machine"


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


def look(reads: Sequence[Path], writes: Sequence[SharedFolder], versions: Mapping[str, str]) -> None:
    """Ask every node whether it has these versions, sees the same files as this machine, and can write to folders."""
    import ray

    expected = {"python": ".".join(map(str, sys.version_info[:3])), "bushel": __version__, **versions}
    seen = witnesses(reads)
    tokens = [write.folder / f".seen-{uuid.uuid4().hex}" for write in writes]
    for token in tokens:
        token.write_text(token.name)
    question = _question(list(expected), seen, [str(token.absolute()) for token in tokens])
    try:
        for node, answer in _answers(ray.remote(num_cpus=0, max_retries=1)(question)):
            _judge_versions(node, answer["versions"], expected)
            _judge_files(node, answer, seen, writes)
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


def _question(names: list[str], seen: Sequence[Witness], tokens: list[str]) -> Any:
    """The question to a node. It is sent as code, so that a node without bushel can answer too."""
    given, here = [(witness.path, witness.facts) for witness in seen], __version__

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
        if versions["bushel"] != here:
            return {"versions": versions, "seen": [], "written": []}
        from bushel.storage import Witness, as_path, fault_of_witness

        def fault_of_writing(path: str) -> str:
            """Why a node cannot write where this file is; empty if it can."""
            try:
                found = as_path(path)
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
            "seen": [fault_of_witness(Witness(*witness)) for witness in given],
            "written": [fault_of_writing(path) for path in tokens],
        }

    return answer


def _judge_versions(node: Node, found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    for name, version in expected.items():
        theirs = found.get(name)
        if theirs == "none":
            raise BushelError(f"node {node.name} has no {name}, and here is {version}", help=["Install it there too."])
        if theirs != version:
            raise BushelError(
                f"node {node.name} has {name} {theirs}, and here is {version}",
                help=["The same versions write the same bytes: install one of them everywhere."],
            )


def _judge_files(
    node: Node, answer: Mapping[str, Any], seen: Sequence[Witness], writes: Sequence[SharedFolder]
) -> None:
    for witness, fault in zip(seen, answer["seen"], strict=True):
        if fault:
            raise FileProblem(witness.path, f"node {node.name} {fault}", help=[sharing_help(witness.path)])
    for write, fault in zip(writes, answer["written"], strict=True):
        if fault:
            raise FileProblem(write.shown, f"node {node.name} cannot write here: {fault}", help=[write.help])
