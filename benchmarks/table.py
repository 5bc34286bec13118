"""Results as a plain table on stdout and, when asked, as JSON."""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("bushel", "tensorflow", "tensorflow-cpu", "tfrecord", "protobuf", "crc32c", "numpy")


@dataclass(frozen=True)
class Target:
    """What a number must reach, and what it would be good to reach."""

    least: float
    aim: float

    def judge(self, number: float) -> dict[str, object]:
        """Make the cells that follow the number."""
        reached = "aim" if number >= self.aim else "least" if number >= self.least else "no"
        return {"at least": self.least, "aim": self.aim, "reached": reached}


@dataclass(frozen=True)
class Limit:
    """What a number must stay below."""

    below: float

    def judge(self, number: float) -> dict[str, object]:
        """Make the cells that follow the number."""
        return {"below": self.below, "kept": "yes" if number < self.below else "no"}


def settings(**options: object) -> dict[str, object]:
    """Gather what a reader needs to judge the numbers: the machine, the versions and the options."""
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _version(name))},
        **options,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def share(part: float | None) -> str | None:
    """Write a share as percent."""
    return None if part is None else f"{part:.0%}"


def show(title: str, facts: dict[str, object], rows: list[dict[str, object]], *, json_path: Path | None) -> None:
    """Print the heading and the rows; their keys are the columns, and None is a dash."""
    print(title)
    print("  " + " · ".join(f"{name} {fact}" for name, fact in facts.items()))
    print()
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(_aligned(line, widths)).rstrip())
    if json_path is not None:
        json_path.write_text(json.dumps({"title": title, "settings": facts, "rows": rows}, indent=2) + "\n")


def _aligned(line: list[str], widths: list[int]) -> Iterable[str]:
    first, *rest = zip(line, widths, strict=True)
    yield first[0].ljust(first[1])
    yield from (cell.rjust(width) for cell, width in rest)


def _cell(content: object) -> str:
    if content is None:
        return "-"
    if not isinstance(content, float):
        return f"{content:,}" if isinstance(content, int) else str(content)
    if content >= 1000:
        return f"{content:,.0f}"
    return f"{content:.1f}" if content >= 10 else f"{content:.2g}" if content < 1 else f"{content:.2f}"
