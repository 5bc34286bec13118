"""Tasks on a Ray cluster."""

from __future__ import annotations

import os
import pickle
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bushel.errors import BushelError, Stopped, quantity, readable_size
from bushel.parallel import SharedFolder
from bushel.ray import cluster

__all__ = ["ActorCounters", "RayEngine", "engine", "start_counting"]


_NAMESPACE = "bushel"
_INTERVAL = 0.5  # seconds between two reports, if there are few workers
_A_SECOND = 1000  # reports per second that the actor keeps up with


class _Counts:
    """The actor: four counts per task of the current stage, as last reported."""

    def __init__(self) -> None:
        self.stage = ""
        self.counts = np.zeros((1, 4), np.int64)

    def begin(self, stage: str, tasks: int) -> None:
        self.stage, self.counts = stage, np.zeros((max(tasks, 1), 4), np.int64)

    def take(self, stage: str, reported: dict[int, list[int]]) -> None:
        if stage == self.stage:
            for slot, counts in reported.items():
                self.counts[slot] = counts

    def total(self, stage: str) -> list[int]:
        found: list[int] = self.counts.sum(axis=0).tolist()
        return found if stage == self.stage else [0, 0, 0, 0]


def start_counting() -> tuple[str, Any]:
    """Start an actor on the machine of the build, so that no lost node ends it; returns its name and its handle."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name = f"progress-{uuid.uuid4().hex}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    kind = ray.remote(num_cpus=0)(_Counts)
    return name, kind.options(name=name, namespace=_NAMESPACE, scheduling_strategy=here).remote()


class _Reporter:
    """One per worker: a thread that reports the counts of the current tasks."""

    def __init__(self, name: str, stage: str, interval: float) -> None:
        import ray

        self.stage = stage
        self.interval = interval
        self.actor = ray.get_actor(name, namespace=_NAMESPACE)
        self.done: set[int] = set()
        self.is_over = False
        self.counts: dict[int, NDArray[np.int64]] = {}
        self.lock = threading.Lock()
        threading.Thread(target=self._report_often, daemon=True).start()

    def _report_often(self) -> None:
        while not self.is_over:
            time.sleep(self.interval)
            with suppress(Exception):  # the build may be over
                self.report()

    def report(self) -> Any:
        with self.lock:
            reported = {slot: counts.tolist() for slot, counts in self.counts.items()}
            for slot in self.done:
                self.counts.pop(slot, None)
            self.done.clear()
        return self.actor.take.remote(self.stage, reported) if reported else None


_reporters: dict[str, _Reporter] = {}


@dataclass(frozen=True)
class ActorCounters:
    """Counts of one stage in an actor, by its name."""

    name: str
    stage: str
    interval: float = _INTERVAL
    actor: Any = None  # the build has it

    @classmethod
    def make(cls, name: str, actor: Any, tasks: int, *, workers: int) -> ActorCounters:
        """Have an actor of `start_counting` count another stage."""
        stage = uuid.uuid4().hex
        actor.begin.remote(stage, tasks)
        return cls(name, stage, max(_INTERVAL, workers / _A_SECOND), actor)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorCounters, (self.name, self.stage, self.interval)

    def begin(self, slot: int) -> NDArray[np.int64]:
        """Counts in this worker's memory, reported now and then."""
        counts = np.zeros(4, np.int64)
        with suppress(Exception):  # a task must not fail because of progress
            if self.stage not in _reporters:
                for past in _reporters.values():
                    past.is_over = True
                _reporters.clear()
                _reporters[self.stage] = _Reporter(self.name, self.stage, self.interval)
            reporter = _reporters[self.stage]
            with reporter.lock:
                reporter.counts[slot] = counts
                reporter.done.discard(slot)
        return counts

    def end(self, slot: int) -> None:
        """Report the last counts; immediately if there are few workers, so that the end of a stage is exact."""
        import ray

        reporter = _reporters.get(self.stage)
        if reporter is not None:
            with reporter.lock:
                reporter.done.add(slot)
            if self.interval <= _INTERVAL:
                with suppress(Exception):
                    ray.get(reporter.report(), timeout=5)

    def total(self) -> tuple[int, int, int, int]:
        """As last reported."""
        import ray

        try:
            with cluster.signals.held():
                samples, written, refused, reading = ray.get(self.actor.total.remote(self.stage), timeout=5)
        except (ray.exceptions.RayError, AttributeError):
            return 0, 0, 0, 0
        return samples, written, refused, reading


T = TypeVar("T")
R = TypeVar("R")

_RETRIES = 5  # retries of a task whose worker or node was lost
_AHEAD = 4  # tasks submitted per CPU, so that nodes never wait for the next one
_LONG = 10.0  # seconds without a result, after which a note says that tasks are waiting
_TOGETHER = 8  # tasks per submission, if there are many: scheduling one costs a fraction of a millisecond


def engine(address: str | None = None, *, workers: int | None = None) -> RayEngine:
    """Where a build or a check runs: `bushel.build(..., run=bushel.Run(engine=bushel.ray.engine("auto")))`.

    `address` is what `ray.init` takes: `auto`, `host:port`, `ray://host:10001`. Without one, the cluster that is
    running here is used, or else this machine alone, with `workers` processes.
    """
    return RayEngine(address, workers)


class RayEngine:
    """A cluster, joined when it is first needed. Ray replaces lost workers and nodes."""

    is_remote = True

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self.address = address
        self.workers = workers
        self._is_ours = False
        self._is_joined = False
        self._counting: tuple[str, Any] | None = None

    def join(self) -> None:
        """Join the cluster, if not done yet."""
        if not self._is_joined:
            cluster.signals.take()
            try:
                with cluster.signals.held():
                    self._is_ours = cluster.connect(self.address, workers=self.workers, purpose="--engine ray")
                    self._is_joined = True
                    cluster.signals.take()
            except BaseException:
                self.close()
                raise
            if not cluster.nodes():
                self.close()
                raise BushelError(
                    "the Ray cluster has no node with a CPU", help=["Add one with `ray start --address`."]
                )

    def look(self, reads: Sequence[Path], writes: Sequence[SharedFolder], versions: Mapping[str, str]) -> None:
        """Ask every node whether it sees what it will need."""
        self.join()
        if writes and self._counting is None:
            with cluster.signals.held():
                self._counting = start_counting()  # it has started when the plan is made
        cluster.look(reads, writes, versions)

    def counters(self, path: Path, tasks: int) -> ActorCounters:  # noqa: ARG002
        """Counts that workers report to an actor."""
        self.join()
        with cluster.signals.held():
            if self._counting is None:
                self._counting = start_counting()
            return ActorCounters.make(*self._counting, tasks, workers=self._cpus(0))

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, memory: int = 0) -> Iterator[R]:
        """Do the tasks on all nodes; a few more than there are CPUs are submitted at a time."""
        import ray

        self.join()
        if not tasks:
            return
        mark = f"begun-{uuid.uuid4().hex}"
        with cluster.signals.held():
            cpus = self._cpus(memory)
            here, shared = str(Path.cwd()), ray.put(work)
            do = ray.remote(num_cpus=1, max_retries=_RETRIES, memory=memory or None)(_do)
        given: list[Any] = []
        left, begun = 0, time.monotonic()
        is_waiting = True  # for the first task, and nothing was said of it
        try:
            while left < len(tasks) or given:
                with cluster.signals.held():
                    while left < len(tasks) and len(given) < _AHEAD * cpus:
                        together = _together(len(tasks) - left, cpus)
                        given.append(do.remote(here, mark, shared, list(tasks[left : left + together])))
                        left += together
                    done, given = _finished(given)
                    answers = [ray.get(ref) for ref in done]
                    is_waiting = is_waiting and not done
                    if is_waiting and time.monotonic() - begun > _LONG:
                        is_waiting = not _report_waiting(mark, len(given))
                for results, error in answers:
                    yield from results
                    if error is not None:
                        raise error
        except ray.exceptions.RayError as error:
            raise _in_words(error) from None
        finally:
            with cluster.signals.held():
                for ref in given:
                    ray.cancel(ref, force=True)

    def _cpus(self, memory: int) -> int:
        """How many tasks of this size the cluster does at a time; an error if no node has room, as Ray would wait."""
        there = cluster.nodes()
        if not there:
            raise BushelError("the Ray cluster has no node left with a CPU")
        largest = max(node.memory for node in there)
        if memory > largest:
            raise BushelError(
                f"a task takes about {readable_size(memory)}, and the largest node gives {readable_size(largest)}",
                help=["Smaller shards take less: --shard-size."],
            )
        fitting = [min(node.cpus, node.memory // memory if memory else node.cpus) for node in there]
        return max(1, int(sum(fitting)))

    def cpu_seconds(self) -> None:
        """Unknown: nodes are not asked."""

    def close(self) -> None:
        """Leave the cluster, unless the program had joined it before."""
        self._counting = None
        try:
            with cluster.signals.held():
                if self._is_joined and self._is_ours:
                    cluster.disconnect()
        finally:
            self._is_joined = self._is_ours = False
            cluster.signals.give_back()


def _together(left: int, cpus: int) -> int:
    """How many tasks a worker gets at once: one near the end, so that all workers finish at about the same time."""
    return max(1, min(_TOGETHER, left // (2 * _AHEAD * cpus)))


def _finished(given: list[Any]) -> tuple[list[Any], list[Any]]:
    """What is done, and the rest; waits a little for the first."""
    import ray

    ray.wait(given, num_returns=1, timeout=cluster.TURN)
    done, rest = ray.wait(given, num_returns=len(given), timeout=0)
    return done, rest


def _report_waiting(mark: str, count: int) -> bool:
    """Say why nothing is done, if no task has begun and no CPU is free: it would look like a hang.

    Returns whether there is nothing more to say. While a CPU is free, a task may just be starting.
    """
    import ray
    from ray.experimental import internal_kv

    with suppress(Exception):  # it is only a note
        if internal_kv._internal_kv_exists(mark, namespace=_NAMESPACE):
            return True
        free, there = (found.get("CPU", 0) for found in (ray.available_resources(), ray.cluster_resources()))
        if free >= 1:
            return False
        said = f"{free:g} of the {there:g} CPUs of the Ray cluster are free"
        wait = f"{quantity(count, 'task')} of this program wait for other programs to end (`ray status` shows more)"
        warnings.warn(f"{said}: {wait}", cluster.ClusterNote, stacklevel=2)
        return True
    return False


def _do(folder: str, mark: str, work: Callable[[T], R], tasks: Sequence[T]) -> tuple[list[R], BaseException | None]:
    """Do tasks in a worker, until one fails. Errors are given back: Ray would wrap them."""
    _note_begun(mark)
    done: list[R] = []
    with _working_in(folder):
        for task in tasks:
            try:
                done.append(work(task))
            except Exception as error:  # whatever it is, the build decides
                return done, _portable(error)
    return done, None


@lru_cache(maxsize=1)
def _note_begun(mark: str) -> None:
    """Let the program know that its tasks have begun; once in each worker."""
    from ray.experimental import internal_kv

    with suppress(Exception):  # it is only for a note
        internal_kv._internal_kv_put(mark, b"1", namespace=_NAMESPACE)


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    """Change to the working folder of the program, if it exists here: paths may be relative."""
    before = os.getcwd()  # noqa: PTH109
    with suppress(OSError):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _portable(error: Exception) -> Exception:
    """The error with the name of the node, in a form that can be pickled."""
    import socket

    where = f"On node {socket.gethostname()}."
    if isinstance(error, BushelError):
        error.help = (*error.help[:1], where)
    elif isinstance(error, OSError):
        error.add_note(where)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return BushelError(f"{type(error).__name__}: {error}", help=[where])
    return error


def _in_words(error: Exception) -> BushelError:
    import ray

    again = "Run the same command again"
    if isinstance(error, ray.exceptions.OutOfMemoryError | ray.exceptions.WorkerCrashedError):
        return Stopped(
            f"workers were killed {quantity(_RETRIES + 1, 'time')} over one task, most likely because memory ran out",
            help=[f"{again}, with smaller --shard-size or nodes with more memory."],
        )
    lines = str(error).strip().splitlines() or [type(error).__name__]
    said = lines[-1] if isinstance(error, ray.exceptions.RayTaskError) else lines[0]  # after the trace of the worker
    return Stopped(f"the Ray cluster failed: {said}", help=[f"{again}."])
