"""Work on many files or folders: done here one after the other, or wherever a build says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias, TypeVar

__all__ = ["do_all", "is_spread", "spreading"]

T = TypeVar("T")
R = TypeVar("R")
Run: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]  # results in any order

_RUN: ContextVar[Run | None] = ContextVar("where work is done", default=None)


@contextmanager
def spreading(run: Run) -> Iterator[None]:
    """Have `do_all` do its work with `run`."""
    token = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(token)


def is_spread() -> bool:
    """Whether work is done elsewhere, so that it pays to cut it into parts."""
    return _RUN.get() is not None


def do_all(work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """Do the work on every part; the results are in the order of the parts."""
    run = _RUN.get()
    if run is None or len(parts) < 2:
        return [work(part) for part in parts]
    found: dict[int, R] = dict(run(partial(_numbered, work), list(enumerate(parts))))
    return [found[number] for number in range(len(parts))]


def _numbered(work: Callable[[T], R], part: tuple[int, T]) -> tuple[int, R]:
    return part[0], work(part[1])
