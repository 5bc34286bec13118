"""Pipeline code, parsed and followed over what the data really holds, never run."""

from __future__ import annotations

from bushel.checking.collect.facts import Data
from bushel.checking.script.followed_script import Script, Trace
from bushel.checking.script.followed_script import read_script as parse
from bushel.checking.script.interpreter import Interpreter

__all__ = ["follow", "parse"]


def follow(script: Script, data: Data | None) -> Trace:
    """Follow a script as far as it can be followed."""
    trace = Trace(script, data)
    try:
        Interpreter(trace).run(script)
    except RecursionError:
        trace.not_followed.append(f"{script.path}: expressions or calls are nested too deeply")
    return trace
