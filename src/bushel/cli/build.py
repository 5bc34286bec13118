"""`build`: raw files to a dataset."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from bushel.cli.build_flags import BUILD_FLAGS, balance_of, changes_of, help_on_sources, paths_given, why_missing
from bushel.cli.file_commands import print_savings
from bushel.cli.flags import (
    Grouped,
    ProgressState,
    add_flags,
    engine_flags,
    flag,
    given_flags,
    json_flag,
    make_engine,
    print_timings,
    show_progress,
    trust_flag,
)
from bushel.cli.output import say, say_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bushel.building import Built, Outline, Recipe
    from bushel.building.engines import BuildProgress
    from bushel.data.roles import Account
    from bushel.records.manifest import Manifest

_OF_RUN = ("workers", "max_bad", "strict", "check", "append", "overwrite")


@click.command(cls=Grouped, more_help=help_on_sources)
@click.argument("source", metavar="SOURCE")
@click.argument("out", metavar="OUT", required=False)
@trust_flag
@add_flags(BUILD_FLAGS)
@flag("--plan", "only_plan", is_flag=True, help="Show what would be built, and stop", group="Run")
@flag("--inside", is_flag=True, help="Refuse links and paths that lead out of SOURCE", group="Run", rare=True)
@flag("--no-check", "check", flag_value=False, default=True, help="Do not read shards back", group="Run", rare=True)
@flag(
    "--timings",
    is_flag=True,
    help="Show how long each stage took, and how many cores it kept busy",
    group="Run",
    rare=True,
)
@engine_flags
@json_flag
@click.pass_context
def build(
    ctx: click.Context, /, source: str, out: str | None, only_plan: bool, timings: bool, as_json: bool, **_: Any
) -> None:
    """Turn raw files into a sharded TFRecord dataset.

    \b
      bushel build photos/ data/ --split 80/10/10        one class per folder
      bushel build rows.csv data/ --label species        one sample per row
      bushel build data/recipe.toml again/               the same dataset again
      bushel build rows/ data/ --engine ray              on a Ray cluster, with the same bytes

    SOURCE is a folder of images, texts or videos, a table (CSV, JSON lines, Parquet, Arrow), NumPy arrays, TFRecords,
    or a recipe.toml. OUT is the folder to create; if a build into it was interrupted, the same command continues it.

    Writes OUT/dataset.json last: if it is there, the dataset is complete.

    Exit: 0 built, 1 samples were refused (see --max-bad), 2 wrong arguments or unreadable input.
    """
    import bushel
    from bushel.building import Run
    from bushel.errors import BushelWarning, TooManyRefused, WaitingWarning

    recipe, params = _recipe(ctx, source), ctx.params
    inside = _folders_named(ctx, source) if params["inside"] else False
    if only_plan:
        with _explained(recipe):
            Run(inside=inside).check_inside(recipe.source, recipe.transforms)
            outline = bushel.plan(None, recipe, workers=params["workers"], inside=params["inside"])
        _show_plan(outline, as_json=as_json)
        return
    if out is None and recipe.out is None:
        raise click.UsageError("give OUT, the folder to write")
    engine = make_engine(params["engine"], params["address"], params["workers"])
    with show_progress(_step) as progress:
        run = Run(**{name: params[name] for name in _OF_RUN}, inside=inside, engine=engine, progress=progress)
        try:
            with warnings.catch_warnings(), _explained(recipe):
                warnings.simplefilter("ignore", BushelWarning)  # it is printed with the rest
                warnings.simplefilter("always", WaitingWarning)
                built = bushel.build_recipe(recipe, out, run=run)
        except TooManyRefused as error:
            say(f"bushel: {error.on_command_line}", err=True)
            sys.exit(1)
        except KeyboardInterrupt as stopped:
            say(f"bushel: stopped{stopped}", err=True)
            sys.exit(130)
    _show_built(built, as_json=as_json)
    if timings and not as_json:
        print_timings(built.timings)
    sys.exit(0 if built.is_acceptable else 1)


@contextmanager
def _explained(recipe: Recipe) -> Iterator[None]:
    """Add to a name that is missing which option took it away."""
    from bushel.errors import MissingName

    try:
        yield
    except MissingName as error:
        if why := why_missing(error.name, recipe.source):
            error.help = (why, *error.help)[:2]
        raise


def _recipe(ctx: click.Context, source: str) -> Recipe:
    """The recipe that a file holds, or that a path stands for, changed by what is on the command line."""
    import msgspec

    from bushel.building.recipe import Recipe, parse_size, read_recipe

    given = given_flags(ctx)
    within = _folders_named(ctx, source) if given.get("inside") else ()
    recipe = read_recipe(source, within=within) if source.endswith(".toml") else Recipe(source={"path": source})
    table = dict(recipe.source)
    changes = changes_of(given, table)
    changes |= {
        name: given[name] for name in Recipe.__struct_fields__ if name in given and name not in ("source", "out")
    }
    if "shard_size" in changes:
        changes["shard_size"] = parse_size(changes["shard_size"])
    changes["balance"] = balance_of(given, recipe.balance)
    if "transforms" in changes:
        changes["transforms"] = [*recipe.transforms, *changes["transforms"]]
    if "constraints" in changes:
        changes["constraints"] = recipe.constraints | changes["constraints"]
    return msgspec.structs.replace(recipe, source=table, **changes)


def _folders_named(ctx: click.Context, source: str) -> list[str]:
    """What the command line names: SOURCE and files in options. The paths of a recipe begin in the working folder."""
    return ["." if source.endswith(".toml") else source, *paths_given(given_flags(ctx))]


def _step(progress: BuildProgress) -> ProgressState:
    from bushel.errors import readable_size

    seconds = max(progress.seconds, 1e-3)
    if not progress.of:
        return ProgressState(progress.stage, progress.samples, 0, f"{progress.seconds:.0f} s")
    refused = f", {progress.refused:,} refused" if progress.refused else ""
    rates = f"{progress.samples / seconds:,.0f}/s, {readable_size(progress.bytes / seconds)}/s{refused}"
    done = f"{progress.samples:,} of {progress.of:,} samples ({progress.samples / progress.of:.0%})"
    is_end = progress.of <= progress.samples and progress.seconds > 10
    line = f"{progress.stage}: {done}, {rates}"
    return ProgressState(progress.stage, progress.samples, progress.of, rates, line, is_end=is_end)


def _show_plan(outline: Outline, *, as_json: bool) -> None:
    from bushel.errors import quantity, readable_size

    if as_json:
        _print_json(outline)
        return
    _print_account(outline.kind, outline.account, outline.counted)
    time_needed = f"about {outline.seconds:,.0f} s" if outline.seconds >= 1 else "less than a second"
    say(f"{quantity(outline.samples, 'sample')}, about {readable_size(outline.bytes)}, {time_needed}\n")
    rows = [
        (name, f"{facts['samples']:,}", f"{facts['shards']:,}", f"about {readable_size(facts['bytes'])}")
        for name, facts in outline.splits.items()
    ]
    _print_table(("split", "samples", "shards", "bytes"), rows)
    _print_classes(outline.classes)
    for problem in outline.problems:
        say(f"problem: {problem}")


def _show_built(built: Built, *, as_json: bool) -> None:
    from bushel.data.categories import are_numbers
    from bushel.errors import quantity, readable_size
    from bushel.records.manifest import why_not_described

    if as_json:
        _print_json(built)
        return
    if not built.samples and built.problems:
        say(f"{built.path}: nothing was added")
        for problem in built.problems:
            say(f"problem: {problem}")
        return
    if not built.samples and not built.manifest.generation:
        say(f"{built.path}: nothing to do: this recipe built it, and its source has not changed since")
        return
    kind = str(built.manifest.recipe.get("source", {}).get("kind", ""))
    _print_account(kind, built.account, built.manifest.counted)
    rate = f"{built.samples / built.seconds:,.0f} samples/s, {readable_size(built.bytes / built.seconds)}/s"
    shards = sum(len(split.shards) for split in built.manifest.splits.values())
    added = f", {built.records:,} of them new" if built.manifest.generation else ""
    total = sum(split.records for split in built.manifest.splits.values())
    made = f"{quantity(total, 'record')}{added} in {quantity(shards, 'shard')}"
    say(f"{built.path}: {made}, {built.seconds:.1f} s ({rate})\n")
    rows = [
        (name, f"{split.records:,}", f"{len(split.shards):,}", readable_size(split.bytes))
        for name, split in built.manifest.splits.items()
    ]
    _print_table(("split", "records", "shards", "bytes"), rows)
    label = built.manifest.label
    weights = label.class_weights if label else {}
    counts = {name: split.label_counts for name, split in built.manifest.splits.items()}
    numbers = built.manifest.recipe.get("source", {}).get("classes") or {}  # of annotated objects, by their names
    if label is not None and are_numbers(label, counts):
        say(f"\nnote: {label.feature!r} holds numbers rather than classes")
    else:
        _print_classes(counts, weights, {str(number): f"{number} {name}" for name, number in numbers.items()})
    _print_costs(built.path)
    if built.manifest.label is None:
        _print_no_label(built.manifest)
    for problem in built.problems:
        say(f"problem: {problem}")
    if built.narrowed:
        said = ", ".join(f"{name} (by up to {by:.2g})" for name, by in list(built.narrowed.items())[:5])
        more = f" and {len(built.narrowed) - 5} more" if len(built.narrowed) > 5 else ""
        say(f"note: floats narrowed to float32: {said}{more}")
    if why := why_not_described(built.manifest):
        say(f"note: TensorFlow Datasets cannot read this folder: {why}")
    if built.refused:
        _print_refused(built)


def _print_account(kind: str, account: Account | None, counted: dict[str, int]) -> None:
    """What the source and its columns were taken for, and why; what was left out or changed."""
    if account is not None:
        say(f"taken for: {kind or 'samples'} (--kind KIND reads another); column types: --type COL=DTYPE")
        for line in account.describe():
            say(f"  {line}")
    for what, count in counted.items():
        say(f"note: {count:,} {what}")
    if account is not None or counted:
        say()


def _print_no_label(manifest: Manifest) -> None:
    """Say that nothing is marked as what to predict, and what it may be."""
    from bushel.data.roles import likely_label

    features = (manifest.raw or manifest.schema).features
    if likely := likely_label(features):
        say(f"note: no label: there is no column 'label'; is it {likely!r}? Then: --label {likely} --overwrite")
    elif manifest.recipe.get("source", {}).get("kind") == "webdataset":
        say("note: no label: no sample has a .cls file; if folders in the tar name classes, unpack it: `tar -xf FILE`")
    elif "image" in features:
        say("note: no label: put the images of a class into a folder of its name, or use --set labels=FILE.csv")
    else:
        say("note: no label: there is no column 'label', and --label COL names none")


def _print_refused(built: Built) -> None:
    from bushel.building.output.journal import QUARANTINE_NAME, read_quarantine
    from bushel.errors import quantity
    from bushel.storage import as_path

    path = as_path(built.path) / QUARANTINE_NAME
    share = built.refused / max(built.samples, 1)
    say(f"refused: {built.refused:,} of {quantity(built.samples, 'sample')} ({share:.2%}), each named in {path}")
    reasons = Counter(f"{entry.stage}: {entry.reason}" for entry in read_quarantine(path))
    for reason, count in reasons.most_common(3):
        say(f"  {quantity(count, 'time')}: {reason}")
    if len(reasons) > 3:
        say(f"  and {quantity(len(reasons) - 3, 'more reason')}")


def _print_classes(
    counts: dict[str, dict[str, int]], weights: dict[str, float] | None = None, names: dict[str, str] | None = None
) -> None:
    classes = list(dict.fromkeys(name for split in counts.values() for name in split))
    if not classes:
        return
    say()
    shown = classes if len(classes) <= 20 else classes[:19]
    rows = [(name, *(f"{split.get(name, 0):,}" for split in counts.values())) for name in shown]
    head = ("class", *counts)
    if weights:
        rows = [(*row, f"{weights[row[0]]:.3g}" if row[0] in weights else "-") for row in rows]
        head = (*head, "weight")
    rows = [((names or {}).get(row[0], row[0]), *row[1:]) for row in rows]
    _print_table(head, rows)
    if len(shown) < len(classes):
        say(f"and {len(classes) - len(shown):,} more classes")


def _print_costs(path: str) -> None:
    """What features cost, from a look at some records, and what would be saved."""
    import bushel
    from bushel.errors import quantity, readable_size

    spent = bushel.costs(path)
    shown = spent.features[:8]
    say()
    _print_table(
        ("feature", "bytes/record", "share"), [(c.feature, readable_size(c.bytes), f"{c.share:.1%}") for c in shown]
    )
    if len(shown) < len(spent.features):
        say(f"and {quantity(len(spent.features) - len(shown), 'more feature')}")
    print_savings(spent)


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from bushel.printing import text_table

    for line in text_table(head, rows):
        say(line)


def _print_json(value: Any) -> None:
    import msgspec

    say_data(msgspec.json.format(msgspec.json.encode(value), indent=2))
