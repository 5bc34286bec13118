"""EXE001 to EXE003: scripts that cannot be run, do not end, or raise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.running.causes import cause_of
from bushel.checking.running.execution import Event, Execution, Spot

__all__: list[str] = []

MISSING_HERE = ("ModuleNotFoundError", "NotDownloaded", "URLError", "gaierror", "ConnectionError", "HTTPError")


def is_of_this_machine(run: Execution, error: Event) -> bool:
    """Whether an error says more about where the script is checked than about the script."""
    if error.get("ours"):
        return True
    if error["type"] in MISSING_HERE or "no network while a script is checked" in error["message"]:
        return not _is_own_module(run, error)
    if error["type"] in ("FileNotFoundError", "NotFoundError", "NotADirectoryError"):
        return True
    if error["type"] in ("PermissionError", "PermissionDeniedError") or "Permission denied" in error["message"]:
        return True
    return any(True for _ in run.of("cut")) and error["doing"] == "script"


def _is_own_module(run: Execution, error: Event) -> bool:
    name = (error.get("name") or "").split(".")[0]
    return error["type"] == "ModuleNotFoundError" and (run.root / f"{name}.py").exists()


@rule("EXE001", "could-not-be-run", severity="warning", needs="execution", rank=0)
def could_not_be_run(run: Execution) -> Iterator[Finding]:
    """The script did not run to where it trains.

    Why: what was not run was not checked.
    Example: a package that is not installed, an argument that is missing, a file that is not here.
    Fix: install what is missing, give arguments with `--run-args`, or check where the files are.
    Ignore: where the script is to be checked by reading alone: leave `--run` out.
    Reports: none collected.
    """
    error = run.failure
    if error is not None and is_of_this_machine(run, error):
        first = error["message"].strip().splitlines()[0] if error["message"].strip() else error["type"]
        yield run.found(
            f"the script could not be run further: {error['type']}: {first}",
            *error["frames"][::-1][:2],
            help="install or provide what is missing here, or give other arguments with --run-args",
        )
    for event in run.of("exit"):
        yield run.found(
            f"the script ended itself with exit code {event['code']}",
            event["place"],
            help='give the arguments that it needs with --run-args "…"',
            output=run.output[-300:].strip() or None,
        )
    if not any(True for _ in run.of("ready")) and not run.stopped:
        yield run.found("TensorFlow could not be started", output=run.output[-500:].strip() or None)
    elif run.rc not in (0, None) and not run.stopped and error is None:
        yield run.found(
            f"the process that ran the script was killed or crashed (exit {run.rc})",
            _last_stage(run),
            output=run.output[-300:].strip() or None,
        )


@rule("EXE002", "stopped-at-limit", severity="warning", needs="execution", rank=0)
def stopped_at_limit(run: Execution) -> Iterator[Finding]:
    """The script was ended because it took too long or too much memory.

    Why: what came after was not checked.
    Example: a cache or shuffle buffer that holds all of a large dataset.
    Fix: check it with a part of the data, or make what it does before training smaller.
    Ignore: where preparation takes long and is known to.
    Reports: none collected.
    """
    if run.stopped is None:
        return
    at = next((event["place"] for event in run.of("stopped")), None) or _last_stage(run)
    limit = f"{run.limits.seconds:.0f} s" if run.stopped == "time" else f"{run.limits.bytes / 2**30:.0f} GB of memory"
    yield run.found(
        f"the script was ended at the limit of {limit}",
        at,
        help="give it a part of the data, or look at what takes long",
    )


def _last_stage(run: Execution) -> Spot:
    last = [event for event in run.of("stage", "link") if event.get("place")]
    return last[-1]["place"] if last else None


@rule("EXE003", "raises", needs="execution", rank=1)
def raises(run: Execution) -> Iterator[Finding]:
    """The script raises an error within its first batches.

    Why: training ends before it has begun.
    Example: a feature that the records do not hold; a reshape to another number of values.
    Fix: what the finding says; the line is that of the user's code from which the error comes.
    Ignore: where the error is that of an environment that is not the one in which training runs.
    Reports: none collected.
    """
    error = run.failure
    if error is None or is_of_this_machine(run, error):
        return
    cause = cause_of(run, error)
    yield run.found(
        cause.message,
        *cause.spots,
        help=cause.help,
        error=f"{error['type']}: {_one_line(error['message'])}"[:300],
    )


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def is_definition(node: ast.AST) -> bool:
    """Whether a node is a function."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
