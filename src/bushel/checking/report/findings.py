"""What a check reports."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, TypeAlias

import msgspec

__all__ = ["Confidence", "Finding", "Location", "Severity", "at_least", "count_of_things", "encodable"]

Severity: TypeAlias = Literal["info", "warning", "error"]
Confidence: TypeAlias = Literal["proven", "likely", "hint"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Where: in a file of records, in a feature, or in a script. A cell of a notebook is part of its file's name."""

    file: str | None = None
    record: int | None = None
    byte: int | None = None
    feature: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.file or ""]
        if self.line is not None:
            parts[0] += f":{self.line}:{self.column}"
        if self.record is not None:
            parts.append(f"record {self.record}" + (f" at byte {self.byte}" if self.byte is not None else ""))
        elif self.byte:
            parts.append(f"byte {self.byte}")
        if self.feature is not None:
            parts.append(f"feature {self.feature!r}")
        return ", ".join(part for part in parts if part)


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong: the fact, the proof, and apart from them what to do.

    Rules give no `rule` and `name`, and a `severity` only where it differs from the rule's own.
    """

    message: str
    severity: Severity | None = None
    confidence: Confidence = "proven"
    locations: list[Location] = []
    evidence: dict[str, Any] = {}
    help: list[str] = []
    rule: str = ""
    name: str = ""

    @property
    def fingerprint(self) -> str:
        """The same for the same fault in the next run, though counts and line numbers have moved."""
        first = self.locations[0] if self.locations else Location()
        parts = (self.rule, first.file, first.feature, self.evidence.get("code"), self.evidence.get("subject"))
        return hashlib.sha256("|".join(str(part) for part in parts).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The shape that `check --json` prints."""
        return {
            "rule": self.rule,
            "name": self.name,
            "severity": self.severity,
            "confidence": self.confidence,
            "message": self.message,
            "locations": msgspec.to_builtins(self.locations),
            "evidence": self.evidence,
            "help": self.help,
        }


def encodable(value: Any) -> Any:
    """The same with bytes that are no UTF-8 as escapes: names of features come from anywhere."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    if isinstance(value, Location):
        return msgspec.structs.replace(value, file=encodable(value.file), feature=encodable(value.feature))
    return value


def at_least(severity: Severity | None, floor: Severity) -> bool:
    """Whether a severity reaches another."""
    return severity is not None and SEVERITIES.index(severity) >= SEVERITIES.index(floor)


def count_of_things(count: int, thing: str, things: str | None = None) -> str:
    """A number and its noun: 1 record, 2,000 records."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"
