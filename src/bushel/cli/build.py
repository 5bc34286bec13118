"""`build`: raw files to a dataset."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from bushel.cli.build_options import (
    balance_of,
    image_transforms,
    media_options,
    preparing_options,
    source_options,
    source_table,
    text_options,
    text_tables,
    transform_tables,
)
from bushel.cli.info import json_option, print_savings
from bushel.cli.options import Headed, engine_options, make_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bushel.building import Built, Outline, Recipe, Run
    from bushel.building.progress import Progress

_OF_SOURCE = ("key", "columns", "rename", "types", "verify", "keep_bytes")
_OF_RUN = ("workers", "max_bad", "strict", "check", "append", "overwrite")
_HEADINGS = {
    "split": "Splits",
    "label": "Samples",
    "seed": "Shards",
    "require": "Numbers and categories",
    "balance": "Classes out of balance",
    "text": "Text",
    "verify": "Images",
    "images": "Images with boxes, and tiles",
    "windows": "Sensor series and video",
    "workers": "The run",
}


@click.command(cls=Headed, headings=_HEADINGS)
@click.argument("source", metavar="SOURCE")
@click.argument("out", metavar="OUT", required=False)
@click.option("--split", metavar="80/10/10", help="Train, val and test shares, or the column that says.  [all train]")
@click.option("--exact", is_flag=True, help="Splits of exact counts; later samples then move old ones.")
@click.option("--stratify", metavar="COL", help="Give each class of COL the same shares.")
@click.option("--group", metavar="COL", help="Keep samples with the same COL in one split.")
@click.option("--label", metavar="COL", help="What is to be predicted.  [label]")
@click.option("--key", metavar="COL", help="What tells samples apart.  [path or row number]")
@click.option("--columns", metavar="A,B", help="Take these columns only.")
@click.option("--rename", metavar="OLD=NEW", multiple=True, help="Name a column otherwise; may be repeated.")
@click.option("--type", "types", metavar="COL=DTYPE", multiple=True, help="The type of a column; may be repeated.")
@click.option("--constrain", metavar="COL:min=0,max=9", multiple=True, help="Refuse other values; may be repeated.")
@source_options
@click.option("--limit", type=int, metavar="N", help="A trial: N samples only.")
@click.option("--seed", type=int, metavar="N", help="Of splits and order.  [0]")
@click.option("--order", type=click.Choice(["shuffled", "source"]), help="Of samples.  [shuffled]")
@click.option("--shard-size", metavar="128M", help="About how large a shard is.  [128M]")
@click.option("--shards", type=int, metavar="N", help="How many shards the largest split has, instead.")
@click.option("--compression", type=click.Choice(["gzip", "zlib"]), help="Of shards.  [none]")
@preparing_options
@text_options
@media_options
@click.option("--workers", type=int, metavar="N", help="Processes.  [cores]")
@click.option("--max-bad", metavar="0.1%|N", help="How many samples may be refused.  [all, with exit code 1]")
@click.option("--strict", is_flag=True, help="Stop at the first sample that is refused.")
@click.option("--no-check", "check", is_flag=True, default=True, flag_value=False, help="Do not read shards back.")
@click.option("--append", is_flag=True, help="Add samples whose keys the dataset OUT does not have.")
@click.option("--overwrite", is_flag=True, help="Replace the dataset OUT, when all is built.")
@engine_options
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be built, and stop.")
@json_option
@click.pass_context
def build(ctx: click.Context, /, source: str, out: str | None, only_plan: bool, as_json: bool, **_: Any) -> None:
    """Turn raw files into a sharded TFRecord dataset.

    \b
      bushel build photos/ data/ --split 80/10/10        one class per folder
      bushel build rows.csv data/ --label species        one sample per row
      bushel build data/recipe.toml again/               the same dataset again
      bushel build rows/ data/ --engine ray              on a Ray cluster, with the same bytes

    SOURCE is a folder of images or texts, a table, arrays, TFRecords, or a recipe.toml. OUT is a folder to create,
    or one in which a build was stopped: the same command continues it.

    Writes OUT/dataset.json last: if it is there, the dataset is complete.

    Exit: 0 built, 1 samples were refused (see --max-bad), 2 wrong arguments or unreadable input.
    """
    import bushel
    from bushel.errors import TooManyRefused

    recipe = _recipe(ctx, source)
    if only_plan:
        _show_plan(bushel.plan(None, recipe, workers=ctx.params["workers"]), as_json=as_json)
        return
    if out is None and recipe.out is None:
        raise click.UsageError("give OUT, the folder to write")
    with _progress() as handler:
        try:
            built = bushel.build_recipe(recipe, out, run=_run(ctx, handler))
        except TooManyRefused as error:
            click.echo(f"bushel: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("bushel: stopped; what is done is kept, and the same command continues", err=True)
            sys.exit(130)
    _show_built(built, as_json=as_json)
    sys.exit(0 if built.is_acceptable else 1)


def _given(ctx: click.Context) -> dict[str, Any]:
    """What stands on the command line, as against what is there by default."""
    given = click.core.ParameterSource.COMMANDLINE
    return {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name) == given}


def _recipe(ctx: click.Context, source: str) -> Recipe:
    import msgspec

    from bushel.building.recipe import Recipe, parse_size, read_recipe

    given = _given(ctx)
    recipe = read_recipe(source) if source.endswith(".toml") else Recipe(source={"path": source})
    table = {**recipe.source, **{name: _source_option(name, given[name]) for name in _OF_SOURCE if name in given}}
    table |= source_table(given)
    changes = {
        name: given[name] for name in Recipe.__struct_fields__ if name in given and name not in ("source", "out")
    }
    if "shard_size" in changes:
        changes["shard_size"] = parse_size(changes["shard_size"])
    changes["balance"] = balance_of(given, recipe.balance)
    if tables := [*image_transforms(given, table), *transform_tables(given), *text_tables(given)]:
        changes["transforms"] = [*recipe.transforms, *tables]
    if "constrain" in given:
        changes["constraints"] = recipe.constraints | dict(map(_constraint, given["constrain"]))
    return msgspec.structs.replace(recipe, source=table, **changes)


def _source_option(name: str, value: Any) -> Any:
    if name == "columns":
        return value.split(",")
    if name in ("rename", "types"):
        return dict(_pair(text, name) for text in value)
    return value


def _pair(text: str, name: str) -> tuple[str, str]:
    before, equals, after = text.partition("=")
    if not equals:
        raise click.UsageError(f"--{name.removesuffix('s')} must be as OLD=NEW, got {text!r}")
    return before, after


def _constraint(text: str) -> tuple[str, Any]:
    import msgspec

    from bushel.building import Constraint
    from bushel.errors import nearest

    name, _, rules = text.rpartition(":")
    fields: dict[str, Any] = {}
    for rule in rules.split(","):
        key, _, value = rule.partition("=")
        if key not in Constraint.__struct_fields__:
            close = nearest(key, Constraint.__struct_fields__)
            hint = f"; did you mean {close!r}?" if close else f" ({', '.join(Constraint.__struct_fields__)})"
            raise click.UsageError(f"--constrain {text}: there is no rule {key!r}{hint}")
        fields[key] = value.split("|") if key == "values" else value
    try:
        return name, msgspec.convert(fields, Constraint, strict=False)
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"--constrain {text}: {error}") from None


def _run(ctx: click.Context, handler: Callable[[Progress], None]) -> Run:
    from bushel.building import Run

    params = ctx.params
    engine = make_engine(params["engine"], params["address"], params["workers"])
    return Run(**{name: params[name] for name in _OF_RUN}, engine=engine, progress=handler)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal, a line now and then in a log."""
    shown: AbstractContextManager[Any] = _bar() if sys.stderr.isatty() else nullcontext(_Lines())
    with shown as handler:
        yield handler


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description:5}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rates]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def show(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bar.add_task(progress.stage, total=progress.of or None, rates="")
            if "plan" in tasks and progress.stage != "plan":  # made, whatever it took
                bar.remove_task(tasks.pop("plan"))
            rates = _rates(progress).removeprefix(", ") if progress.of else f"{progress.seconds:.0f} s"
            bar.update(tasks[progress.stage], completed=progress.samples, total=progress.of or None, rates=rates)

        yield show


class _Lines:
    """Plain lines, one every ten seconds and one at the end of a stage."""

    def __init__(self) -> None:
        self.said = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        is_over = 0 < progress.of <= progress.samples and progress.seconds > 10
        if is_over or time.monotonic() - self.said > 10:
            self.said = time.monotonic()
            if not progress.of:
                click.echo(f"{progress.stage}: {progress.seconds:.0f} s", err=True)
                return
            share = progress.samples / max(progress.of, 1)
            click.echo(
                f"{progress.stage}: {progress.samples:,} of {progress.of:,} samples ({share:.0%}){_rates(progress)}",
                err=True,
            )


def _rates(progress: Progress) -> str:
    from bushel.errors import readable_size

    seconds = max(progress.seconds, 1e-3)
    refused = f", {progress.refused:,} refused" if progress.refused else ""
    return f", {progress.samples / seconds:,.0f}/s, {readable_size(progress.bytes / seconds)}/s{refused}"


def _show_plan(outline: Outline, *, as_json: bool) -> None:
    from bushel.errors import quantity, readable_size

    if as_json:
        _print_json(outline)
        return
    time_needed = f"about {outline.seconds:,.0f} s" if outline.seconds >= 1 else "less than a second"
    click.echo(f"{quantity(outline.samples, 'sample')}, about {readable_size(outline.bytes)}, {time_needed}\n")
    rows = [
        (name, f"{facts['samples']:,}", f"{facts['shards']:,}", f"about {readable_size(facts['bytes'])}")
        for name, facts in outline.splits.items()
    ]
    _print_table(("split", "samples", "shards", "bytes"), rows)
    _print_classes(outline.classes)
    _print_counted(outline.counted)
    for problem in outline.problems:
        click.echo(f"problem: {problem}")


def _show_built(built: Built, *, as_json: bool) -> None:
    from bushel.errors import quantity, readable_size

    if as_json:
        _print_json(built)
        return
    rate = f"{built.samples / built.seconds:,.0f} samples/s, {readable_size(built.bytes / built.seconds)}/s"
    shards = sum(len(split.shards) for split in built.manifest.splits.values())
    added = f", {built.records:,} of them new" if built.manifest.generation else ""
    total = sum(split.records for split in built.manifest.splits.values())
    made = f"{quantity(total, 'record')}{added} in {quantity(shards, 'shard')}"
    click.echo(f"{built.path}: {made}, {built.seconds:.1f} s ({rate})\n")
    rows = [
        (name, f"{split.records:,}", f"{len(split.shards):,}", readable_size(split.bytes))
        for name, split in built.manifest.splits.items()
    ]
    _print_table(("split", "records", "shards", "bytes"), rows)
    label = built.manifest.label
    weights = label.class_weights if label else {}
    counts = {name: split.label_counts for name, split in built.manifest.splits.items()}
    numbers = built.manifest.recipe.get("source", {}).get("classes") or {}  # of annotated objects, by their names
    _print_classes(counts, weights, {str(number): f"{number} {name}" for name, number in numbers.items()})
    _print_costs(built.path)
    _print_counted(built.manifest.counted)
    for problem in built.problems:
        click.echo(f"problem: {problem}")
    if built.narrowed:
        said = ", ".join(f"{name} (by up to {by:.2g})" for name, by in list(built.narrowed.items())[:5])
        more = f" and {len(built.narrowed) - 5} more" if len(built.narrowed) > 5 else ""
        click.echo(f"note: floats narrowed to float32: {said}{more}")
    if built.refused:
        _print_refused(built)


def _print_refused(built: Built) -> None:
    from bushel.building.output.quarantine import QUARANTINE_NAME, read_quarantine
    from bushel.errors import quantity
    from bushel.storage import as_path

    path = as_path(built.path) / QUARANTINE_NAME
    share = built.refused / max(built.samples, 1)
    click.echo(f"refused: {built.refused:,} of {quantity(built.samples, 'sample')} ({share:.2%}), each named in {path}")
    reasons = Counter(f"{entry.stage}: {entry.reason}" for entry in read_quarantine(path))
    for reason, count in reasons.most_common(3):
        click.echo(f"  {quantity(count, 'time')}: {reason}")
    if len(reasons) > 3:
        click.echo(f"  and {quantity(len(reasons) - 3, 'more reason')}")


def _print_classes(
    counts: dict[str, dict[str, int]], weights: dict[str, float] | None = None, names: dict[str, str] | None = None
) -> None:
    classes = list(dict.fromkeys(name for split in counts.values() for name in split))
    if not classes:
        return
    click.echo()
    shown = classes if len(classes) <= 20 else classes[:19]
    rows = [(name, *(f"{split.get(name, 0):,}" for split in counts.values())) for name in shown]
    head = ("class", *counts)
    if weights:
        rows = [(*row, f"{weights[row[0]]:.3g}" if row[0] in weights else "-") for row in rows]
        head = (*head, "weight")
    rows = [((names or {}).get(row[0], row[0]), *row[1:]) for row in rows]
    _print_table(head, rows)
    if len(shown) < len(classes):
        click.echo(f"and {len(classes) - len(shown):,} more classes")


def _print_costs(path: str) -> None:
    """What features cost, from a look at some records, and what would be saved."""
    import bushel
    from bushel.errors import readable_size

    spent = bushel.costs(path)
    shown = spent.features[:8]
    click.echo()
    _print_table(
        ("feature", "bytes/record", "share"), [(c.feature, readable_size(c.bytes), f"{c.share:.1%}") for c in shown]
    )
    if len(shown) < len(spent.features):
        click.echo(f"and {len(spent.features) - len(shown):,} more features")
    print_savings(spent)


def _print_counted(counted: dict[str, int]) -> None:
    if counted:
        click.echo("\nnote: " + "; ".join(f"{what}: {count:,}" for what, count in counted.items()))


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from bushel.printing import text_table

    for line in text_table(head, rows):
        click.echo(line)


def _print_json(value: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
