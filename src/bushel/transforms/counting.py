"""What transforms cut, left out or did not know: noted where it happens, and told by whoever runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["counting", "note"]

_noted: ContextVar[Counter[str] | None] = ContextVar("noted", default=None)


def note(what: str, count: int = 1) -> None:
    """Count what a transform changed in a way that loses something; nothing happens where nobody counts."""
    noted = _noted.get()
    if noted is not None and count:
        noted[what] += count


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count what transforms note in here."""
    counted: Counter[str] = Counter()
    token = _noted.set(counted)
    try:
        yield counted
    finally:
        _noted.reset(token)
