"""Shares of splits, as people write them: of 1, in percent, or as small ratios."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

__all__ = ["shares_of_one"]


def shares_of_one(shares: Mapping[str, Fraction], given: Any, option: str = "split") -> dict[str, Fraction]:
    """The shares, summing to one: 0.8 and 0.2, 80 and 20, or 4 and 1. Slips of the pen (80/30) are errors."""
    if any(share <= 0 for share in shares.values()):
        raise ValueError(f"{option} must give each part more than 0, got {given!r}")
    total = sum(shares.values(), Fraction(0))
    largest = max(shares.values())
    wanted = 1 if largest < 1 else 100 if largest >= 10 else total  # ratios such as 8/1/1 are of what they sum to
    if abs(total - wanted) > wanted / Fraction(10**6):
        raise ValueError(f"{option} must sum to {float(wanted):g}, got {given!r}, which sums to {float(total):g}")
    return {name: share / total for name, share in shares.items()}
