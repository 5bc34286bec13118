"""Where tasks are done: one small interface, so that a cluster is another implementation and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from bushel.building.progress import Counters

__all__ = ["Engine"]

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Does tasks, in any order and on any number of workers. All of them see the dataset's folder."""

    is_remote: bool  # workers may be on other machines: what they read must be where all see it

    def look(self, reads: Sequence[Path], writes: Sequence[Path], versions: Mapping[str, str]) -> None:
        """Refuse, by the node's name, workers that do not see or cannot write these, or have other versions."""
        ...

    def counters(self, path: Path, tasks: int) -> Counters:
        """How far so many tasks are; `path` is a file that may be used for it."""
        ...

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, memory: int = 0) -> Iterator[R]:
        """Do `work` on every task; yield each result as it is there. The first error ends the run and is raised.

        A task takes about `memory` bytes: no more are done at a time on one machine than it holds.
        """
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...
