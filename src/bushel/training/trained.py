"""What came out of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bushel.checking import Finding
from bushel.training.verdict import Verdict

__all__ = ["Trained"]


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a run; everything is in its folder too."""

    folder: Path
    verdict: Verdict
    findings: list[Finding]
    metrics: dict[str, dict[str, float]]  # by split
    history: list[dict[str, Any]]
    seconds: dict[str, float]
