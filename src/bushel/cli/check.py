"""`check` and `explain`."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from bushel.cli.options import engine_options, make_engine


def _ids(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [id for value in values for id in value.split(",") if id.strip()]


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@click.option("--against", multiple=True, metavar="PATH", help="Another split, to compare with; may be repeated.")
@click.option("--script", metavar="FILE", help="The pipeline's code (.py or .ipynb): parsed, never run.")
@click.option("--model", metavar="FILE", help="A Keras model (.keras, .h5).")
@click.option("--contract", metavar="RUN", help="The run of a trained model, or its contract.json.")
@click.option("--batch-size", type=click.IntRange(min=1), help="The batch that training will use.")
@click.option("--shuffle-buffer", type=click.IntRange(min=0), help="The shuffle buffer that training will use.")
@click.option("--label", help="The label's feature.  [default: the manifest's, or one named label]")
@click.option("--group", help="A feature whose values must not be in two splits.")
@click.option("--probe", is_flag=True, help="Train the model for a few steps on one batch.")
@click.option("--select", multiple=True, callback=_ids, metavar="IDS", help="Only these rules: ids or how they begin.")
@click.option("--ignore", multiple=True, callback=_ids, metavar="IDS", help="Not these rules.")
@click.option(
    "--fail-on",
    type=click.Choice(["info", "warning", "error"]),
    default="error",
    show_default=True,
    help="Exit 1 from here.",
)
@click.option("--baseline", metavar="FILE", help="Do not report what this file lists.")
@click.option("--write-baseline", metavar="FILE", help="Write what is found now to this file, and exit 0.")
@engine_options
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--sarif", "form", flag_value="sarif", help="Print SARIF 2.1.0.")
@click.option("--junit", "form", flag_value="junit", help="Print JUnit XML.")
@click.option("--github", "form", flag_value="github", help="Print GitHub annotations.")
def check(
    paths: tuple[str, ...],
    against: tuple[str, ...],
    script: str | None,
    model: str | None,
    batch_size: int | None,
    shuffle_buffer: int | None,
    form: str | None,
    fail_on: Any,
    write_baseline: str | None,
    engine: str,
    address: str | None,
    **options: Any,
) -> None:
    """Find what is wrong with data, pipeline and model, with proof and a fix.

    \b
      bushel check data/
      bushel check 'train-*.tfrecord' --against 'val-*.tfrecord'
      bushel check data/ --script train.py
      bushel check data/ --model model.keras --probe
      bushel check new/ --contract runs/cats
      bushel check data/ --engine ray

    PATH is a dataset, TFRecord files, or a pattern. Nothing is written into a dataset. Known findings are
    suppressed, with a reason, in bushel.toml here or in the dataset.

    Exit: 0 nothing found, 1 findings at --fail-on or above, 2 could not check.
    """
    if not (paths or script or model or options["contract"]):
        raise click.UsageError("give at least one PATH, --script, --model or --contract")
    import bushel
    from bushel.checking import Plan
    from bushel.checking.report import settings as check_settings

    with _progress_bar() as progress:
        report = bushel.check(
            list(paths) or None,
            against=list(against),
            script=script,
            model=model,
            plan=Plan(batch_size, shuffle_buffer),
            progress=progress,
            engine=make_engine(engine, address),
            **options,
        )
    if write_baseline:
        check_settings.write_baseline(write_baseline, report.findings)
        click.echo(f"{len(report.findings)} findings written to {write_baseline}", err=True)
        sys.exit(0)
    _print(report, form)
    sys.exit(1 if report.fails(fail_on) else 0)


def _print(report: Any, form: str | None) -> None:
    from bushel.checking.report import formats
    from bushel.checking.report import formats as terminal

    if form == "json":
        click.echo(json.dumps(formats.to_json(report.findings, report.checked), indent=2, default=_plain))
    elif form == "sarif":
        click.echo(json.dumps(formats.to_sarif(report.findings), indent=2))
    elif form == "junit":
        click.echo(formats.to_junit(report.findings, report.rules))
    elif form == "github":
        for line in formats.to_github(report.findings):
            click.echo(line)
    else:
        colour = sys.stdout.isatty()
        for finding in report.findings:
            for line in terminal.finding_lines(finding, colour=colour):
                click.echo(line)
            click.echo()
        for line in report.checked.get("not_followed", []):
            click.echo(f"note: not followed: {line}")
        if report.checked.get("not_probed"):
            click.echo(f"note: not probed: {report.checked['not_probed']}")
        click.echo(terminal.summary(report.findings, report.checked))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


@contextlib.contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """A bar with rate and time left on a terminal; nothing in a log of less than ten seconds."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        console = Console(stderr=True)
        with Progress(
            "checking",
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as bar:
            task = bar.add_task("checking", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > 10:
            last = time.monotonic()
            click.echo(f"checking: {done / max(total, 1):.0%} of {total / 2**20:,.0f} MiB", err=True)

    yield tell


@click.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """Print the page of a rule: what, why it hurts, example, fix, when to ignore, reports.

    \b
      bushel explain ORD001
      bushel explain                 the list of all rules

    Exit: 0 printed, 2 there is no such rule.
    """
    import bushel
    from bushel.checking import all_rules

    if rule is None:
        for known in all_rules():
            click.echo(f"{known.id}  {known.name:40} {known.page.what.splitlines()[0]}")
    else:
        click.echo(bushel.explain(rule))
