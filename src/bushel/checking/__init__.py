"""Finding what is wrong with data, pipeline and model before training, with proof and a fix."""

from bushel.checking.checker import Report, check, explain
from bushel.checking.collect.facts import Data, ReadingPlan
from bushel.checking.findings import Finding, Location, Rule, all_rules, rule

__all__ = ["Data", "Finding", "Location", "ReadingPlan", "Report", "Rule", "all_rules", "check", "explain", "rule"]


def __getattr__(name: str) -> object:
    if name == "Plan":
        raise AttributeError("bushel.checking.Plan is now bushel.checking.ReadingPlan")
    raise AttributeError(f"module 'bushel.checking' has no attribute {name!r}")
