"""The registry: one rule is one function with its own page."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from bushel.checking.report.findings import Finding, Severity, encodable
from bushel.errors import MissingName

__all__ = ["Page", "Rule", "all_rules", "find_rule", "rule", "rules_as_they_were", "select"]

Needs: TypeAlias = Literal["data", "script", "model", "probe", "run", "contract"]

# A family for each part of what is checked; an own rule may use any other prefix.
FAMILIES = {
    "FIL": "files",
    "SCH": "schema",
    "VAL": "values",
    "IMG": "images",
    "TXT": "text",
    "LBL": "labels",
    "ORD": "order",
    "SPL": "splits",
    "PIP": "pipeline code",
    "MDL": "model",
    "TRN": "training probes",
    "RUN": "a run of `bushel train`",
    "SRV": "serving contract",
}

SECTIONS = ("Why", "Example", "Fix", "Ignore", "Reports")


@dataclass(frozen=True)
class Page:
    """What a rule's docstring says."""

    what: str
    sections: dict[str, str]

    @classmethod
    def of(cls, text: str) -> Page:
        """Split a docstring at lines that begin with a section's name and a colon."""
        pieces = re.split(rf"^({'|'.join(SECTIONS)}): ?", inspect.cleandoc(text), flags=re.MULTILINE)
        bodies = {name: _joined(body) for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
        return cls(_joined(pieces[0]), bodies)


def _joined(text: str) -> str:
    """Lines joined to sentences; lines that are indented are kept as they are."""
    out: list[str] = []
    for line in text.strip().splitlines():
        if out and line and not line.startswith(" ") and out[-1] and not out[-1].startswith(" "):
            out[-1] += f" {line}"
        else:
            out.append(line)
    return "\n".join(out)


@dataclass(frozen=True)
class Rule:
    """A check by its id, with what it takes."""

    id: str
    name: str
    check: Callable[[Any], Iterator[Finding]]
    severity: Severity
    needs: Needs

    @property
    def page(self) -> Page:
        """What `bushel explain` prints."""
        return Page.of(self.check.__doc__ or "")

    def run(self, subject: Any) -> Iterator[Finding]:
        """Its findings, with its id, name and severity filled in."""
        for finding in self.check(subject):
            yield Finding(
                message=encodable(finding.message),
                severity=finding.severity or self.severity,
                confidence=finding.confidence,
                locations=encodable(finding.locations),
                evidence=encodable(finding.evidence),
                help=encodable(finding.help),
                rule=self.id,
                name=self.name,
            )


_RULES: dict[str, Rule] = {}

Check: TypeAlias = Callable[[Any], Iterator[Finding]]


def rule(id: str, name: str, *, severity: Severity = "error", needs: Needs = "data") -> Callable[[Check], Check]:
    """Make a function a rule: it takes what is checked, and yields findings.

    >>> @bushel.checking.rule("ACME001", "no-negative-price", severity="warning")
    ... def no_negative_price(data):
    ...     '''Prices below 0.'''
    ...     if data.features["price"].min < 0:
    ...         yield Finding("a price is negative")
    """
    if not re.fullmatch(r"[A-Z]{3,}\d{3}", id):
        raise ValueError(f"id must be capital letters and three digits, as ACME001; got {id!r}")

    def register(check: Check) -> Check:
        known = _RULES.get(id)
        if known is not None and known.check.__qualname__ != check.__qualname__:
            raise ValueError(f"id must be a new one, got {id!r}, which is {known.name}")
        _RULES[id] = Rule(id, name, check, severity, needs)
        return check

    return register


@contextlib.contextmanager
def rules_as_they_were() -> Iterator[None]:
    """Forget afterwards what rules were registered inside: those that settings name are of one run."""
    before = dict(_RULES)
    try:
        yield
    finally:
        _RULES.clear()
        _RULES.update(before)


def all_rules() -> list[Rule]:
    """Every rule, those of the user included, by id."""
    importlib.import_module("bushel.checking.rules.catalogue")  # whose import registers bushel's own
    return sorted(_RULES.values(), key=lambda rule: rule.id)


def find_rule(id_or_name: str) -> Rule:
    """One rule by its id or its name."""
    rules = all_rules()
    for found in rules:
        if id_or_name.upper() == found.id or id_or_name.lower() == found.name:
            return found
    raise MissingName("rule", id_or_name, [name for r in rules for name in (r.id, r.name)], where="rules")


def select(wanted: Iterable[str], ignored: Iterable[str]) -> list[Rule]:
    """The rules whose ids begin with one of `wanted` (all, if there are none) and with none of `ignored`."""
    rules = all_rules()
    wanted, ignored = [_prefix(p, rules) for p in wanted], [_prefix(p, rules) for p in ignored]
    return [
        rule
        for rule in rules
        if (not wanted or rule.id.startswith(tuple(wanted))) and not rule.id.startswith(tuple(ignored))
    ]


def _prefix(text: str, rules: list[Rule]) -> str:
    prefix = text.strip().upper()
    if not prefix or not any(rule.id.startswith(prefix) for rule in rules):
        raise ValueError(f"select and ignore must be ids of rules or how they begin, as ORD or ORD001; got {text!r}")
    return prefix
