"""The account of a program: what it is given, by whatever means, and how that is known."""

from bushel.checking.program.account import (
    CodePlace,
    DeliveredColumn,
    DeliveredData,
    DeliveredPart,
    FollowedStep,
    TriedOptimizer,
)
from bushel.checking.program.traced import TracedDifference, TracedLabel, TracedPart, TracedUse

__all__ = [
    "CodePlace",
    "DeliveredColumn",
    "DeliveredData",
    "DeliveredPart",
    "FollowedStep",
    "TracedDifference",
    "TracedLabel",
    "TracedPart",
    "TracedUse",
    "TriedOptimizer",
]
