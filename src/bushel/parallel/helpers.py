"""Work on many parts, shared with helpers if there are any, such as the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

__all__ = ["Helpers", "do_all"]

T = TypeVar("T")
R = TypeVar("R")
# Does work on every part; the results may come in any order. None where there is nobody to share with.
Helpers: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]] | None


def do_all(helpers: Helpers, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """Do the work on every part; the results are in the order of the parts."""
    if helpers is None or len(parts) < 2:
        return [work(part) for part in parts]
    found: dict[int, R] = dict(helpers(partial(_numbered, work), list(enumerate(parts))))
    return [found[number] for number in range(len(parts))]


def _numbered(work: Callable[[T], R], part: tuple[int, T]) -> tuple[int, R]:
    return part[0], work(part[1])
