"""Progress on stderr: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from bushel.parallel import Timing

__all__ = ["Step", "print_timings", "show_progress"]

_EVERY = 10.0  # seconds between lines of a log


class Step(NamedTuple):
    """The state of a run."""

    stage: str
    done: int
    of: int  # 0 while unknown
    text: str  # rates, losses and the like
    line: str = ""  # for a log; empty: `text`
    is_end: bool = False  # always worth a line


@contextmanager
def show_progress(step_of: Callable[..., Step]) -> Iterator[Callable[..., None]]:
    """A handler for reports of progress; `step_of` turns a report into text."""
    if not sys.stderr.isatty():
        yield _Lines(step_of)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def show(*report: Any) -> None:
            step = step_of(*report)
            if step.stage not in tasks:
                for stage in [stage for stage in tasks if stage == "plan"]:
                    bar.remove_task(tasks.pop(stage))
                tasks[step.stage] = bar.add_task(step.stage, total=step.of or None, text=step.text)
            bar.update(tasks[step.stage], completed=step.done, total=step.of or None, text=step.text)

        yield show


class _Lines:
    """A line every ten seconds, and one at the end of each stage."""

    def __init__(self, step_of: Callable[..., Step]) -> None:
        self.step_of = step_of
        self.last = time.monotonic()

    def __call__(self, *report: Any) -> None:
        is_due = time.monotonic() - self.last > _EVERY
        step = self.step_of(*report)
        if is_due or step.is_end:
            self.last = time.monotonic()
            click.echo(step.line or f"{step.stage}: {step.text}", err=True)


def print_timings(timings: Mapping[str, Timing]) -> None:
    """Show how long each stage took, and how many cores it kept busy."""
    click.echo()
    for name, timing in timings.items():
        click.echo(f"{name:12}{timing}")
