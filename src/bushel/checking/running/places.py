"""Where in the user's code something happens."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TextIO

__all__ = ["Place", "Seen", "is_user_file", "seen", "user_place", "user_places"]

Place = tuple[str, int, str]  # file, line, function

_NOT_THEIRS = (
    f"{os.sep}site-packages{os.sep}",
    f"{os.sep}dist-packages{os.sep}",
    f"{os.sep}bushel{os.sep}checking{os.sep}",
)


@dataclass
class Seen:
    """What the child writes down, line by line, so that a crash loses nothing."""

    file: TextIO | None = None
    roots: tuple[str, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)
    said: set[str] = field(default_factory=set)

    def tell(self, kind: str, **facts: Any) -> None:
        """Write one observation."""
        if self.file is None:
            return
        line = json.dumps({"kind": kind, **facts}, default=_plain)
        with self.lock:
            self.file.write(line + "\n")
            self.file.flush()

    def tell_once(self, kind: str, **facts: Any) -> None:
        """The same, once for the same facts."""
        key = json.dumps([kind, facts], default=_plain, sort_keys=True)
        if key not in self.said:
            self.said.add(key)
            self.tell(kind, **facts)


def _plain(value: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        return value.item()
    return str(value)


seen = Seen()


def is_user_file(name: str) -> bool:
    """Whether a file is part of what is checked."""
    return name.startswith(seen.roots) and not any(part in name for part in _NOT_THEIRS)


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def user_places() -> list[Place]:
    """The user's frames, innermost first; functions that AutoGraph rewrote are reported by their own lines."""
    found: list[Place] = []
    rewritten = False
    for frame in _frames():
        name = frame.f_code.co_filename
        rewritten = rewritten or "__autograph_generated_file" in name
        if is_user_file(name):
            found.append((name, frame.f_lineno, frame.f_code.co_name))
    if rewritten:
        from tensorflow.python.util import tf_stack

        mapped = [(f.filename, f.lineno, f.name) for f in tf_stack.extract_stack() if is_user_file(f.filename)]
        if mapped:
            return mapped[::-1]
    return found


def user_place() -> Place | None:
    """The innermost line of the user's code that is being run."""
    for frame in _frames():
        name = frame.f_code.co_filename
        if "__autograph_generated_file" in name:
            found = user_places()
            return found[0] if found else None
        if is_user_file(name):
            return (name, frame.f_lineno, frame.f_code.co_name)
    return None
