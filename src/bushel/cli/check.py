"""`check`, `explain` and `doctor`: what is wrong with data, pipeline and model, and what this machine has."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from bushel import __version__
from bushel.cli.flags import (
    Grouped,
    ProgressState,
    engine_flags,
    flag,
    json_flag,
    make_engine,
    print_timings,
    show_progress,
    trust_flag,
)
from bushel.cli.output import say, say_coloured, say_data

__all__ = ["check", "doctor", "explain"]


_WHAT, _HOW, _RULES, _OUTPUT = "What to check", "How it is used", "Rules", "Output"


def _ids(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [id for value in values for id in value.split(",") if id.strip()]


@click.command(cls=Grouped)
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@trust_flag
@flag("--rules", multiple=True, metavar="FILE", help="Python file with custom rules; repeatable", group=_RULES)
@flag("--trust-settings", is_flag=True, help="Apply the bushel.toml of a data folder", group=_RULES)
@flag("--against", multiple=True, metavar="PATH", help="Another split to compare with; repeatable", group=_WHAT)
@flag(
    "--script", metavar="FILE", help="Training script to analyse (.py, .ipynb or package); it is not run", group=_WHAT
)
@flag("--run", is_flag=True, help="Also run the script for a few batches, in a copy of its folder", group=_WHAT)
@flag("--run-args", default="", metavar="ARGS", help="Command line that the script runs with", group=_WHAT)
@flag(
    "--run-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Processor time that the run may take  [default: 180]",
    group=_WHAT,
)
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

    Exit: 0 nothing found, 1 findings at --fail-on or above, 2 could not check, or not to the end (--run-limit).
    """
    if not (paths or script or model or options["contract"]):
        raise click.UsageError("give at least one PATH, --script, --model or --contract")
    import bushel
    from bushel.checking import ReadingPlan
    from bushel.checking import findings as check_settings
    from bushel.errors import quantity
    from bushel.storage import as_path, refuse_in_dataset

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
        refuse_in_dataset(as_path(write_baseline), paths)
        check_settings.write_baseline(write_baseline, report.findings)
        say(f"{quantity(len(report.findings), 'finding')} written to {write_baseline}", err=True)
        sys.exit(2 if report.is_cut_off else 0)
    _print(report, form)
    if timings and form is None:
        print_timings(report.timings)
    sys.exit(2 if report.is_cut_off else 1 if report.fails(fail_on) else 0)


def _print(report: Any, form: str | None) -> None:
    from bushel.checking import finding_formats as formats

    if form == "json":
        say_data(json.dumps(formats.to_json(report.findings, report.checked), indent=2, default=_plain))
    elif form == "sarif":
        say_data(json.dumps(formats.to_sarif(report.findings), indent=2))
    elif form == "junit":
        say_data(formats.to_junit(report.findings, report.rules))
    elif form == "github":
        for line in formats.to_github(report.findings):
            say(line)
    else:
        colour = sys.stdout.isatty()
        for finding in report.findings:
            for line in formats.finding_lines(finding, colour=colour):
                say_coloured(line)
            say()
        for line in report.checked.get("replaced", []):
            say(f"note: {line}")
        for line in report.checked.get("not_followed", []):
            say(f"note: not followed: {line}")
        if report.checked.get("not_probed"):
            say(f"note: not probed: {report.checked['not_probed']}")
        say(formats.summary(report.findings, report.checked))


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
            say(f"{known.id}  {known.name:40} {known.page.what.splitlines()[0]}")
    else:
        say(bushel.explain(rule))


_NAMESAKE = re.compile(r'(?P<name>[\w.-]+).*extra == "(?P=name)"')
_REQUIREMENT = re.compile(
    r'(?P<name>[\w.-]+)(?:\[[\w,]*\])?(?:>=(?P<least>[\d.]+))?(?:.*extra == "(?P<extra>[\w-]+)")?'
)
_ALSO = ("jax", "torch")  # which bushel feeds, and does not install
_LOW = 1 << 30  # bytes
# Addresses are worth knowing; of everything else only that it is set, because it may be a secret.
_SHOWN = ("BUSHEL_", "RAY_ADDRESS", "AWS_ENDPOINT_URL", "KERAS_BACKEND", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
_NAMED = ("AWS_", "AZURE_", "GOOGLE_")
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "KEY")  # words in the names of settings


@click.command(cls=Grouped)
@json_flag
def doctor(as_json: bool) -> None:
    """Show what is installed and what this machine has, for a bug report.

    \b
      bushel doctor
      bushel doctor --json

    Nothing is written, and nothing is sent. Values of settings that may be secret are not shown.

    Exit: 0 all is well, 1 something is wrong.
    """
    from bushel.errors import quantity
    from bushel.plugins import all_plugins

    packages, wrong = _packages()
    disks, full = _disks()
    facts = {"bushel": _bushel(), "machine": _machine(), "disks": disks, "packages": packages, "settings": _settings()}
    if added := {f"{one.group}: {one.name}": f"{one.package} {one.version}" for one in all_plugins()}:
        facts["plug-ins"] = added
    problems = [*wrong, *full]
    if as_json:
        import msgspec

        say_data(msgspec.json.format(msgspec.json.encode({**facts, "problems": problems}), indent=2))
    else:
        for title, lines in facts.items():
            say(title)
            width = max((len(name) for name in lines), default=0)
            for name, value in lines.items():
                say(f"  {name:{width}}  {value}")
        for problem in problems:
            say(f"problem: {problem}")
        say(quantity(len(problems), "problem") if problems else "no problem found")
    sys.exit(1 if problems else 0)


def _bushel() -> dict[str, str]:
    from bushel import _native
    from bushel.pixels.codecs import CODEC_WORDS, decoders

    return {
        "version": __version__,
        "folder": str(Path(__file__).parents[1]),
        "core": str(_native.__file__),
        "decoders": CODEC_WORDS.format(**decoders()).removeprefix("images: "),
    }


def _machine() -> dict[str, str]:
    import platform

    from bushel.errors import readable_size
    from bushel.parallel import available_cores

    found = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}, {'-'.join(platform.libc_ver())}",
        "python": f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}",
        "cores": f"{available_cores()} of {os.cpu_count()}",
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory"] = readable_size(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return found


def _disks() -> tuple[dict[str, str], list[str]]:
    from bushel.errors import readable_size
    from bushel.storage.cache import the_cache

    folders = {
        "here": Path.cwd(),
        "temporary": Path(tempfile.gettempdir()),
        "cache": the_cache().folder,
        "memory": Path("/dev/shm"),
    }
    found, problems = {}, []
    for name, folder in folders.items():
        there = next((place for place in (folder, *folder.parents) if place.exists()), None)
        if there is None or (name == "memory" and there != folder):
            continue
        free = shutil.disk_usage(there).free
        found[name] = f"{readable_size(free)} free, {folder}"
        if free < _LOW and name != "memory":
            problems.append(f"{readable_size(free)} are free in {folder}; builds and caches need more")
    return found, problems


def _packages() -> tuple[dict[str, str], list[str]]:
    """The packages that bushel uses with their versions, or the line that installs them."""
    found: dict[str, str] = {}
    problems = []
    for name, least, extra in _requirements():
        version = _version(name)
        if version is None:
            found.setdefault(name, f'not installed: pip install "bushel[{extra}]"' if extra else "not installed")
            if not extra:
                problems.append(f"{name} is not installed: pip install {name}")
            continue
        found[name] = version
        if least and _numbers(version) < _numbers(least):
            problems.append(f'{name} {version} is too old: pip install --upgrade "{name}>={least}"')
    found |= {name: version for name in _ALSO if (version := _version(name))}
    return found, problems


def parts() -> tuple[dict[str, str], list[str]]:
    """The extras of which everything is installed, with versions, and the others."""
    extras: dict[str, dict[str, str | None]] = {}
    for name, _, extra in _requirements():
        if extra:
            extras.setdefault(extra, {})[name] = _version(name)
    there = {
        extra: ", ".join(f"{name} {version}" for name, version in found.items())
        for extra, found in sorted(extras.items())
        if None not in found.values()
    }
    return there, sorted(extras.keys() - there.keys())


def _requirements() -> Iterator[tuple[str, str, str]]:
    """The name, the least version, and the extra of each package that bushel declares."""
    import importlib.metadata

    try:
        declared = importlib.metadata.requires("bushel") or []
    except importlib.metadata.PackageNotFoundError:
        return
    # An extra that is named like its package comes first: torch is not installed by that of the CUDA decoders.
    for text in sorted(declared, key=lambda text: ("extra ==" in text, _NAMESAKE.match(text) is None)):
        if (parts := _REQUIREMENT.match(text)) is not None and parts["name"] != "bushel":
            yield parts["name"], parts["least"] or "", parts["extra"] or ""


def _version(name: str) -> str | None:
    import importlib.metadata

    names = (name, f"{name}-cpu") if name == "tensorflow" else (name,)
    for one in names:
        try:
            return importlib.metadata.version(one)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.split("+", maxsplit=1)[0])[:3]]


def _settings() -> dict[str, str]:
    secret = {name for name in os.environ if any(word in name.upper().split("_") for word in _SECRET)}
    shown = {name: value for name, value in os.environ.items() if name.startswith(_SHOWN) and name not in secret}
    known = {name: "set" for name in os.environ if name.startswith((*_NAMED, *_SHOWN))}
    return dict(sorted((known | shown).items()))
