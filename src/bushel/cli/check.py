"""`check` and `explain`."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from bushel.cli.flags import (
    Grouped,
    ProgressState,
    engine_flags,
    flag,
    make_engine,
    print_timings,
    show_progress,
    trust_flag,
)

__all__ = ["check", "explain"]

_WHAT, _HOW, _RULES, _OUTPUT = "What to check", "How it is used", "Rules", "Output"


def _ids(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [id for value in values for id in value.split(",") if id.strip()]


@click.command(cls=Grouped)
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@trust_flag
@flag("--rules", multiple=True, metavar="FILE", help="Python file with custom rules; repeatable", group=_RULES)
@flag("--trust-settings", is_flag=True, help="Apply the bushel.toml of a data folder", group=_RULES)
@flag("--against", multiple=True, metavar="PATH", help="Another split to compare with; repeatable", group=_WHAT)
@flag("--script", metavar="FILE", help="Code of the pipeline (.py, .ipynb or a package): parsed", group=_WHAT)
@flag("--run", is_flag=True, help="Also run the script for a few batches, in a copy of its folder", group=_WHAT)
@flag("--run-args", default="", metavar="ARGS", help="Command line that the script runs with", group=_WHAT)
@flag("--model", metavar="FILE", help="Keras model (.keras, .h5)", group=_WHAT)
@flag("--contract", metavar="RUN", help="Run of a trained model, or its contract.json", group=_WHAT)
@flag("--schema", metavar="FILE", help="TFX schema (schema.pbtxt) that the data should follow", group=_WHAT)
@flag("--probe", is_flag=True, help="Train the model for a few steps on one batch", group=_WHAT)
@flag("--label", metavar="COL", help="Label  [default: the manifest's, or one named label]", group=_HOW)
@flag("--group", metavar="COL", help="Feature whose values must not be in two splits", group=_HOW)
@flag("--batch-size", type=click.IntRange(min=1), metavar="N", help="Batch size that training will use", group=_HOW)
@flag(
    "--shuffle-buffer",
    type=click.IntRange(min=0),
    metavar="N",
    help="Shuffle buffer that training will use",
    group=_HOW,
)
@flag(
    "--select",
    multiple=True,
    callback=_ids,
    metavar="IDS",
    help="Run only these rules: ids or prefixes",
    group=_RULES,
)
@flag("--ignore", multiple=True, callback=_ids, metavar="IDS", help="Do not run these rules", group=_RULES)
@flag(
    "--fail-on",
    type=click.Choice(["info", "warning", "error"]),
    default="error",
    help="Exit 1 on findings of this severity or higher  [default: error]",
    group=_RULES,
)
@flag("--baseline", metavar="FILE", help="Do not report the findings that this file lists", group=_RULES)
@flag("--write-baseline", metavar="FILE", help="Write all findings to this file, and exit 0", group=_RULES)
@flag(
    "--timings",
    is_flag=True,
    help="Show how long each stage took, and how many cores it kept busy",
    group=_OUTPUT,
    rare=True,
)
@engine_flags
@flag("--json", "form", flag_value="json", help="Print JSON", group=_OUTPUT)
@flag("--sarif", "form", flag_value="sarif", help="Print SARIF 2.1.0", group=_OUTPUT)
@flag("--junit", "form", flag_value="junit", help="Print JUnit XML", group=_OUTPUT)
@flag("--github", "form", flag_value="github", help="Print GitHub annotations", group=_OUTPUT)
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
    timings: bool,
    **options: Any,
) -> None:
    """Find what is wrong with data, pipeline and model, with proof and a fix.

    \b
      bushel check data/
      bushel check 'train-*.tfrecord' --against 'val-*.tfrecord'
      bushel check data/ --script train.py
      bushel check data/ --script train.py --run --run-args "--epochs 3"
      bushel check data/ --model model.keras --probe
      bushel check new/ --contract runs/cats
      bushel check data/ --schema schema.pbtxt
      bushel check data/ --engine ray

    PATH is a dataset, TFRecord files, or a pattern. Nothing is written into a dataset. To suppress known findings, list
    them with a reason in bushel.toml, here or (with --trust-settings) in the dataset.

    Exit: 0 nothing found, 1 findings at --fail-on or above, 2 could not check.
    """
    if not (paths or script or model or options["contract"]):
        raise click.UsageError("give at least one PATH, --script, --model or --contract")
    import bushel
    from bushel.checking import ReadingPlan
    from bushel.checking import findings as check_settings

    with show_progress(_step) as progress:
        report = bushel.check(
            list(paths) or None,
            against=list(against),
            script=script,
            model=model,
            plan=ReadingPlan(batch_size, shuffle_buffer),
            progress=progress,
            engine=make_engine(engine, address),
            **options,
        )
    if write_baseline:
        check_settings.write_baseline(write_baseline, report.findings)
        click.echo(f"{len(report.findings)} findings written to {write_baseline}", err=True)
        sys.exit(0)
    _print(report, form)
    if timings and form is None:
        print_timings(report.timings)
    sys.exit(1 if report.fails(fail_on) else 0)


def _print(report: Any, form: str | None) -> None:
    from bushel.checking import finding_formats as formats

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
            for line in formats.finding_lines(finding, colour=colour):
                click.echo(line)
            click.echo()
        for line in report.checked.get("replaced", []):
            click.echo(f"note: {line}")
        for line in report.checked.get("not_followed", []):
            click.echo(f"note: not followed: {line}")
        if report.checked.get("not_probed"):
            click.echo(f"note: not probed: {report.checked['not_probed']}")
        click.echo(formats.summary(report.findings, report.checked))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _step(done: int, total: int) -> ProgressState:
    share = f"{done / max(total, 1):.0%} of {total / 2**20:,.0f} MiB"
    return ProgressState("checking", done >> 20, total >> 20, share)


@click.command(cls=Grouped)
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """Explain a rule of check, and how to fix what it finds.

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
