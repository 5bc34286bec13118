"""Counts of tasks on many machines: each worker tells an actor beside the build, now and then."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ActorCounters", "start_counting"]

_NAMESPACE = "bushel"
_INTERVAL = 0.5  # seconds between two tellings, where there are few workers
_A_SECOND = 1000  # tellings that the actor takes in without falling behind


class _Counts:
    """The actor: three counts a task of the stage at work, the last that were told."""

    def __init__(self) -> None:
        self.stage = ""
        self.counts = np.zeros((1, 3), np.int64)

    def begin(self, stage: str, tasks: int) -> None:
        self.stage, self.counts = stage, np.zeros((max(tasks, 1), 3), np.int64)

    def tell(self, stage: str, told: dict[int, list[int]]) -> None:
        if stage == self.stage:
            for slot, counts in told.items():
                self.counts[slot] = counts

    def total(self, stage: str) -> list[int]:
        found: list[int] = self.counts.sum(axis=0).tolist()
        return found if stage == self.stage else [0, 0, 0]


def start_counting() -> tuple[str, Any]:
    """Start an actor beside the build, where no lost node takes it along; its name, and the handle it lives by."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name = f"progress-{uuid.uuid4().hex}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    kind = ray.remote(num_cpus=0)(_Counts)
    return name, kind.options(name=name, namespace=_NAMESPACE, scheduling_strategy=here).remote()


class _Teller:
    """One a worker: a thread that tells what the tasks in hand have counted."""

    def __init__(self, name: str, stage: str, interval: float) -> None:
        import ray

        self.stage = stage
        self.interval = interval
        self.actor = ray.get_actor(name, namespace=_NAMESPACE)
        self.done: set[int] = set()
        self.is_over = False
        self.counts: dict[int, NDArray[np.int64]] = {}
        self.lock = threading.Lock()
        threading.Thread(target=self._tell_often, daemon=True).start()

    def _tell_often(self) -> None:
        while not self.is_over:
            time.sleep(self.interval)
            with suppress(Exception):  # the build may be over
                self.tell()

    def tell(self) -> Any:
        with self.lock:
            told = {slot: counts.tolist() for slot, counts in self.counts.items()}
            for slot in self.done:
                self.counts.pop(slot, None)
            self.done.clear()
        return self.actor.tell.remote(self.stage, told) if told else None


_tellers: dict[str, _Teller] = {}


@dataclass(frozen=True)
class ActorCounters:
    """Counts of one stage in an actor, by its name."""

    name: str
    stage: str
    interval: float = _INTERVAL
    actor: Any = None  # the build has it

    @classmethod
    def make(cls, name: str, actor: Any, tasks: int, *, workers: int) -> ActorCounters:
        """Have an actor that `start_counting` started count another stage."""
        stage = uuid.uuid4().hex
        actor.begin.remote(stage, tasks)
        return cls(name, stage, max(_INTERVAL, workers / _A_SECOND), actor)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorCounters, (self.name, self.stage, self.interval)

    def begin(self, slot: int) -> NDArray[np.int64]:
        """Counts in this worker's memory, told now and then."""
        counts = np.zeros(3, np.int64)
        with suppress(Exception):  # progress is not worth a task
            if self.stage not in _tellers:
                for past in _tellers.values():
                    past.is_over = True
                _tellers.clear()
                _tellers[self.stage] = _Teller(self.name, self.stage, self.interval)
            teller = _tellers[self.stage]
            with teller.lock:
                teller.counts[slot] = counts
                teller.done.discard(slot)
        return counts

    def end(self, slot: int) -> None:
        """Tell the last counts; at once where there are few workers, so that the end of a stage is exact."""
        import ray

        teller = _tellers.get(self.stage)
        if teller is not None:
            with teller.lock:
                teller.done.add(slot)
            if self.interval <= _INTERVAL:
                with suppress(Exception):
                    ray.get(teller.tell(), timeout=5)

    def total(self) -> tuple[int, int, int]:
        """As they were told last."""
        import ray

        try:
            samples, written, refused = ray.get(self.actor.total.remote(self.stage), timeout=5)
        except (ray.exceptions.RayError, AttributeError):
            return 0, 0, 0
        return samples, written, refused
