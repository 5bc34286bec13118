"""`bushel doctor`: what is installed here and what this machine has, to paste into a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from bushel import __version__
from bushel.cli.flags import Grouped, json_flag

__all__ = ["doctor"]

_NAMESAKE = re.compile(r'(?P<name>[\w.-]+).*extra == "(?P=name)"')
_REQUIREMENT = re.compile(
    r'(?P<name>[\w.-]+)(?:\[[\w,]*\])?(?:>=(?P<least>[\d.]+))?(?:.*extra == "(?P<extra>[\w-]+)")?'
)
_ALSO = ("jax", "torch")  # which bushel feeds, and does not install
_LOW = 1 << 30  # bytes
# Addresses are worth knowing; of everything else only that it is set, because it may be a secret.
_SHOWN = ("BUSHEL_", "RAY_ADDRESS", "AWS_ENDPOINT_URL", "KERAS_BACKEND", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
_NAMED = ("AWS_", "AZURE_", "GOOGLE_")


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

    packages, wrong = _packages()
    disks, full = _disks()
    facts = {"bushel": _bushel(), "machine": _machine(), "disks": disks, "packages": packages, "settings": _settings()}
    problems = [*wrong, *full]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode({**facts, "problems": problems}), indent=2))
    else:
        for title, lines in facts.items():
            click.echo(title)
            width = max((len(name) for name in lines), default=0)
            for name, value in lines.items():
                click.echo(f"  {name:{width}}  {value}")
        for problem in problems:
            click.echo(f"problem: {problem}")
        click.echo(quantity(len(problems), "problem") if problems else "no problem found")
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
    try:
        declared = importlib.metadata.requires("bushel") or []
    except importlib.metadata.PackageNotFoundError:
        return
    # An extra that is named like its package comes first: torch is not installed by that of the CUDA decoders.
    for text in sorted(declared, key=lambda text: ("extra ==" in text, _NAMESAKE.match(text) is None)):
        if (parts := _REQUIREMENT.match(text)) is not None and parts["name"] != "bushel":
            yield parts["name"], parts["least"] or "", parts["extra"] or ""


def _version(name: str) -> str | None:
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
    shown = {name: value for name, value in os.environ.items() if name.startswith(_SHOWN)}
    return dict(sorted((shown | {name: "set" for name in os.environ if name.startswith(_NAMED)} | shown).items()))
