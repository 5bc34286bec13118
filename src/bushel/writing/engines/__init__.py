"""Where tasks are done: one small interface, so that a cluster is another implementation and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from bushel.writing.journal import Outcome
from bushel.writing.tasks import Task

__all__ = ["Engine"]


class Engine(Protocol):
    """Does tasks, in any order and on any number of workers. All of them see the dataset's folder."""

    def run(self, work: Callable[[Task], Outcome], tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Do `work` on every task; yield each outcome as it is there. The first error ends the run and is raised."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...
