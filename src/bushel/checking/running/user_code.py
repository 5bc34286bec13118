"""The user's code: where in it something happens, and its loops, which end after a few steps of training."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType
from typing import Any, TextIO

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


MOST_STEPS = 40  # of one loop
LEAST_STEPS = 6
MOST_EPOCHS = 2
STEP_SECONDS = 4.0  # for the steps of one loop, after the least number of them
READING_SECONDS = 20.0  # for a loop that only reads


class StepCount:
    """How many steps were taken so far."""

    def __init__(self) -> None:
        self.count = 0
        self.ended = 0  # loops and fits that were cut short or have come to their end
        self.cut: list[int] = []  # lines of loops that only read, and were cut all the same

    def take(self) -> None:
        """Count a step."""
        self.count += 1


steps = StepCount()


class _Watch:
    """One entry into one loop."""

    def __init__(self, line: int, total: int | None = None) -> None:
        self.line = line
        self.total = total
        self.begun = time.process_time()
        self.taken = self.rounds = 0
        self.before = (steps.count, steps.ended)
        self.steps_took_part = False

    def goes_on(self) -> bool:
        """Whether there is to be another iteration."""
        count, ended = self.before
        if steps.ended > ended:
            self.rounds += 1
        elif steps.count > count:
            self.taken += 1
        self.before = (steps.count, steps.ended)
        spent = time.process_time() - self.begun
        is_over = (
            self.rounds >= MOST_EPOCHS
            or self.taken >= MOST_STEPS
            or (self.taken >= LEAST_STEPS and spent > STEP_SECONDS)
        )
        if not is_over and spent > READING_SECONDS:
            steps.cut.append(self.line)
            is_over = True
        if is_over:
            self.close()
        return not is_over

    def close(self) -> None:
        """The loop has ended."""
        if self.taken or self.rounds:
            steps.ended += 1


def _note_again(iterable: Any) -> None:
    """A loop that goes on with an iterator over records which another round of it has used."""
    known = getattr(iterable, "__dict__", {})
    batches, _, made_at = known.get("_bushel") or (0, 0, None)
    if made_at is not None:
        known["_bushel_rounds"] = known.get("_bushel_rounds", 0) + 1
        if known["_bushel_rounds"] == 2:
            seen.tell("used_up", place=user_place(), made_at=made_at, asked=None, batches=batches)


active: list[_Watch] = []  # `for` loops around what runs now


def _loop(iterable: Iterable[Any], line: int) -> Iterator[Any]:
    watch = _Watch(line, len(iterable) if isinstance(iterable, range | list | tuple) else None)
    active.append(watch)
    _note_again(iterable)
    iterator = iter(iterable)
    try:
        while watch.goes_on():
            try:
                item = next(iterator)
            except StopIteration:
                watch.goes_on()
                watch.close()
                return
            yield item
    finally:
        if watch in active:
            active.remove(watch)
        close = getattr(iterator, "close", None)
        if close is not None and iterator is not iterable:  # made here, so that nobody else goes on with it
            close()


class _Transformer(ast.NodeTransformer):
    def __init__(self) -> None:
        self.count = 0

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if _yields(node):
            return node
        call = ast.Call(ast.Name("__bushel_loop__", ast.Load()), [node.iter, ast.Constant(node.lineno)], [])
        node.iter = ast.copy_location(call, node.iter)
        return node

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        if _yields(node):
            return node
        self.count += 1
        name = f"bushel_watch_{self.count}"
        watch = ast.Call(ast.Name("__bushel_while__", ast.Load()), [ast.Constant(node.lineno)], [])
        begin = ast.Assign([ast.Name(name, ast.Store())], watch)
        goes_on = ast.Call(ast.Attribute(ast.Name(name, ast.Load()), "goes_on", ast.Load()), [], [])
        node.test = ast.copy_location(ast.BoolOp(ast.And(), [goes_on, node.test]), node.test)
        return [ast.copy_location(begin, node), node]


def _yields(node: ast.AST) -> bool:
    """Whether steps may be taken by whoever consumes what a loop yields."""
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))


def compile_watched(text: str | bytes, name: str) -> CodeType:
    """Compile code with its loops watched; lines stay what they are."""
    tree = _Transformer().visit(ast.parse(text, name))
    return compile(ast.fix_missing_locations(tree), name, "exec", dont_inherit=True)


class _Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        return compile_watched(data, str(path))

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder:
    """Modules of the user's own, with their loops watched."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        if spec.origin is None or not is_user_file(spec.origin):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install_loops() -> None:
    """Watch the loops of all modules that are imported from here on."""
    builtins.__bushel_loop__ = _loop  # type: ignore[attr-defined]
    builtins.__bushel_while__ = _Watch  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder)
