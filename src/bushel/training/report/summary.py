"""What a run says at its end, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bushel.printing import text_table
from bushel.training.run_folder import Trained

__all__ = ["json_of", "metric_lines"]


def json_of(trained: Trained) -> dict[str, Any]:
    """The shape that `train --json` prints."""
    return {
        "run": str(trained.folder),
        "verdict": msgspec.to_builtins(trained.verdict),
        "metrics": trained.metrics,
        "findings": [finding.to_json() for finding in trained.findings],
        "seconds": trained.seconds,
    }


def metric_lines(trained: Trained) -> Iterator[str]:
    """A table of the metrics of each split."""
    names = list(dict.fromkeys(name for values in trained.metrics.values() for name in values))
    if not names:
        return
    rows = [["split", *(name.replace("_", " ") for name in names)]]
    for split, values in trained.metrics.items():
        rows.append([split, *(f"{values[name]:.4g}" if name in values else "-" for name in names)])
    yield from text_table(rows[0], rows[1:])
    yield ""
