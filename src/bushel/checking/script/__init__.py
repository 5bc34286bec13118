"""Pipeline code, parsed and followed over what the data really holds, never run."""

from __future__ import annotations

from bushel.checking.collect.facts import Data
from bushel.checking.script.interpreter import Interpreter
from bushel.checking.script.source import Source
from bushel.checking.script.source import read_source as parse
from bushel.checking.script.trace import Trace

__all__ = ["follow", "parse"]


def follow(source: Source, data: Data | None) -> Trace:
    """Follow a script as far as it can be followed."""
    trace = Trace(source, data)
    try:
        Interpreter(trace).run(source)
    except RecursionError:
        trace.not_followed.append(f"{source.path}: expressions or calls are nested too deeply")
    return trace
