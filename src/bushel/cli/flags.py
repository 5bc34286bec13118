"""Flags that several commands share, how `--help` groups them, and progress on stderr."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from datetime import time as clock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from bushel.cli.output import say
from bushel.plugins import load_plugin, plugins
from bushel.spellings import american_of

if TYPE_CHECKING:
    from bushel.building.engines import Engine
    from bushel.parallel import Timing
    from bushel.sources.protocol import Option

__all__ = [
    "Flag",
    "Grouped",
    "ProgressState",
    "add_flags",
    "engine_flags",
    "flag",
    "flags",
    "given_flags",
    "json_flag",
    "make_engine",
    "option_flag",
    "parse_size",
    "paths_argument",
    "print_timings",
    "settings",
    "show_progress",
    "toml_value",
    "trust_flag",
]

Command = TypeVar("Command", bound=Callable[..., Any])
_EVERY = 10.0  # seconds between lines of a log


class Flag(click.Option):
    """An option in a group of `--help`; rare ones are only shown by `--help-all`."""

    def __init__(self, *args: Any, group: str = "Options", rare: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self.rare = rare


def flag(*names: str, group: str = "Options", rare: bool = False, **settings: Any) -> Callable[[Command], Command]:
    """Declare a flag of a command, in both spellings where there are two."""
    return click.option(*_in_both_spellings(names), cls=Flag, group=group, rare=rare, **settings)


def _in_both_spellings(names: Sequence[str]) -> Iterator[str]:
    # The British one comes first: click names the parameter after it.
    for name in names:
        yield name
        if name.startswith("--") and (other := american_of(name[2:].replace("-", "_"))):
            yield f"--{other.replace('_', '-')}"


_NUMBERS = {"N": int, "R": float, "RATE": float, "SHARE": float, "SECONDS": float}


def flags(group: str, usual: Mapping[str, str] | None = None, *, rare: Mapping[str, str] | None = None) -> list[Any]:
    """Declare flags by their usage, with help.

    `--label COL` takes text, `--seed N` a number, `--order a|b` one of these words, `--strict` nothing;
    `--rename A=B...` is repeatable.
    """
    return [
        _written(spec, help, group=group, rare=specs is rare)
        for specs in (usual, rare)
        for spec, help in (specs or {}).items()
    ]


def _written(spec: str, help: str, **more: Any) -> Callable[[Command], Command]:
    name, _, value = spec.partition(" ")
    if not value:
        return flag(name, is_flag=True, help=help, **more)
    if value.endswith("..."):
        return flag(name, metavar=value[:-3], multiple=True, help=f"{help}; repeatable", **more)
    words = value.split("|")
    if len(words) > 1 and all(word.islower() for word in words):
        return flag(name, type=click.Choice(words), help=help, **more)
    return flag(name, metavar=value, type=_NUMBERS.get(value, str), help=help, **more)


def option_flag(option: Option, **settings: Any) -> Callable[[Command], Command]:
    """The flag of an option that is declared elsewhere, with its type, choices and help from there."""
    words: Any = click.Choice(option.choices) if option.choices and option.plain_type is str else option.plain_type
    kind = {"is_flag": True} if words is bool else {"type": words}
    has_default = option.default not in (None, False, ()) and not option.is_required
    help = re.sub(r" \(default: (.*)\)$", r"  [default: \1]", option.help)
    help += f"  [default: {option.default}]" if has_default and "default" not in help else ""
    return flag(
        f"--{option.name.replace('_', '-')}",
        option.name,
        **{"help": help, "metavar": _metavar(words), **kind, **settings},
    )


def _metavar(words: Any) -> str | None:
    return {int: "N", float: "X", str: "NAME"}.get(words) if isinstance(words, type) else None


def add_flags(flags: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """Declare several flags of a command, in their order."""

    def add(command: Command) -> Command:
        for declare in reversed(flags):
            command = declare(command)
        return command

    return add


class Grouped(click.Command):
    """A command whose `--help` shows the usual flags in groups, and whose `--help-all` shows all of them."""

    def __init__(self, *args: Any, more_help: Callable[[], Mapping[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.more_help = more_help
        show_all = Flag(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help="Show all options"
        )
        show_all.group = "Help"
        self.params.append(show_all)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The flag `--help`, in the group of `--help-all`."""
        found = super().get_help_option(ctx)
        if found is not None:
            found.help = "Show the usual options"
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags by group; the rare ones only for `--help-all`."""
        shows_all = ctx.meta.get("help_all", False)
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            row = option.get_help_record(ctx)
            is_shown = shows_all or not getattr(option, "rare", False)
            if row is not None and isinstance(option, click.Option) and is_shown:
                groups.setdefault(getattr(option, "group", "Help"), []).append(row)
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl(rows)
        if shows_all and self.more_help is not None:
            with formatter.section("Options of sources, for --set NAME=VALUE"):
                formatter.write_dl([*self.more_help().items()])


def _show_all(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        ctx.meta["help_all"] = True
        say(ctx.get_help())
        ctx.exit()


paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH…")


def _trust(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> None:
    from bushel.transforms import trust

    try:
        trust(*names)
    except ValueError as error:
        raise click.UsageError(f"--trust {error}") from None


trust_flag = flag(
    "--trust",
    multiple=True,
    metavar="MODULE:CLASS",
    callback=_trust,
    expose_value=False,
    help="Let files run this custom transform; repeatable",
    group="Run",
    rare=True,
)
json_flag = flag("--json", "as_json", is_flag=True, help="Print JSON", group="Run")


def given_flags(ctx: click.Context) -> dict[str, Any]:
    """The values from the command line, without defaults."""
    given = click.core.ParameterSource.COMMANDLINE
    return {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name) == given}


def parse_size(text: str, name: str) -> tuple[int, int]:
    """Height and width from text such as 224x224."""
    height, _, width = text.partition("x")
    if not height.isdecimal() or not width.isdecimal() or not int(height) or not int(width):
        raise click.UsageError(f"--{name} must be HEIGHTxWIDTH such as 224x224, got {text!r}")
    if int(height) * int(width) > _MOST_PIXELS:
        raise click.UsageError(f"--{name} must be at most {_MOST_PIXELS:,} pixels, got {text!r}")
    return int(height), int(width)


_MOST_PIXELS = 100_000_000  # an image of 300 MB; more is probably a typo


def toml_value(text: str) -> Any:
    """A value in TOML syntax, otherwise text."""
    import msgspec

    try:
        value = msgspec.toml.decode(f"value = {text}")["value"]
    except msgspec.DecodeError:
        return text
    return text if isinstance(value, date | clock) else value  # options take dates as text


def settings(texts: Sequence[str]) -> dict[str, Any]:
    """The values of `--set NAME=VALUE`; `OUTER.INNER=VALUE` sets one value of a table."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set must be NAME=VALUE, got {text!r}")
        *outer, last = name.split(".")
        place = found
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = toml_value(value)
    return found


engine_flags = add_flags(
    [
        flag(
            "--engine",
            metavar="local|ray|NAME",
            default="local",
            help="Run on this machine, on a Ray cluster, or on the engine of a plug-in  [default: local]",
            group="Run",
        ),
        flag(
            "--address",
            metavar="ADDR",
            help="Ray cluster: auto, HOST:PORT, ray://HOST:10001 or local  [default: a running one, else local]",
            group="Run",
            rare=True,
        ),
    ]
)


def make_engine(engine: str, address: str | None, workers: int | None = None) -> Engine | None:
    """The engine that the flags name; None for the local one. One of a plug-in is made of address and workers."""
    if engine == "local":
        if address is not None:
            raise click.UsageError("--address needs --engine ray")
        return None
    if engine != "ray":
        if (added := load_plugin("engines", engine)) is None:
            names = ", ".join(["local", "ray", *plugins("engines")])
            raise click.UsageError(f"--engine must be one of {names}; got {engine!r}")
        return cast("Engine", added(address, workers=workers))
    import bushel.ray
    from bushel.ray.cluster import require_ray

    require_ray("--engine ray")
    return bushel.ray.engine(address, workers=workers)


class ProgressState(NamedTuple):
    """The state of a run."""

    stage: str
    done: int
    of: int  # 0 while unknown
    text: str  # rates, losses and the like
    line: str = ""  # for a log; empty: `text`
    is_end: bool = False  # always worth a line


@contextmanager
def show_progress(step_of: Callable[..., ProgressState]) -> Iterator[Callable[..., None]]:
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

    def __init__(self, step_of: Callable[..., ProgressState]) -> None:
        self.step_of = step_of
        self.last = time.monotonic()

    def __call__(self, *report: Any) -> None:
        is_due = time.monotonic() - self.last > _EVERY
        step = self.step_of(*report)
        if is_due or step.is_end:
            self.last = time.monotonic()
            say(step.line or f"{step.stage}: {step.text}", err=True)


def print_timings(timings: Mapping[str, Timing]) -> None:
    """Show how long each stage took, and how many cores it kept busy."""
    say()
    for name, timing in timings.items():
        say(f"{name:12}{timing}")
