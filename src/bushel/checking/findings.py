"""What a check reports, and what it does not: suppressions with their reason in `bushel.toml`, and baselines."""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.util
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from bushel.errors import FormatError
from bushel.storage import AnyPath, write_whole

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


SETTINGS_NAME = "bushel.toml"


class Suppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Findings that are known and accepted. Without a reason there is no suppression."""

    rule: str
    reason: str
    where: str = "*"  # pattern of a file's path or a feature's name

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("reason must say why the finding is accepted")

    def covers(self, finding: Finding) -> bool:
        """Whether all that a finding is about is accepted."""
        if not finding.rule.startswith(self.rule.upper()):
            return False
        if self.where == "*":
            return True
        names = [name for place in finding.locations for name in (place.file, place.feature) if name]
        return any(fnmatch.fnmatch(name, self.where) or Path(name).match(self.where) for name in names)


class CheckSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[check]` table."""

    select: list[str] = []
    ignore: list[str] = []
    rules: list[str] = []  # Python files with own rules, relative to the settings
    baseline: str | None = None
    suppress: list[Suppression] = []


class _File(msgspec.Struct, frozen=True):
    check: CheckSettings = CheckSettings()


def load_settings(
    data: Iterable[Path], *, trust_settings: bool = False, rules: Iterable[AnyPath] = ()
) -> CheckSettings:
    """Join the settings of the working folder and, if they are trusted, of the data; load the rules that are trusted.

    A dataset comes from somebody else: Python that its folder names never runs, and what it leaves out of a report
    does so only with `trust_settings`. A working folder that is in the data is part of it.
    """
    for name in rules:
        _load_rules(Path(name), said_by=Path(name))
    joined = CheckSettings()
    folders = [folder.resolve() for folder in data]
    is_in_data = any(Path.cwd().resolve().is_relative_to(folder) for folder in folders)
    for folder in dict.fromkeys([Path(), *data]):
        path = folder / SETTINGS_NAME
        if not path.is_file():
            continue
        is_of_data = is_in_data or folder != Path()
        if is_of_data and not trust_settings:
            warnings.warn(f"{path} comes with the data and is not applied; --trust-settings applies it", stacklevel=2)
            continue
        try:
            found = msgspec.toml.decode(path.read_bytes(), type=_File).check
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(path, f"the settings cannot be read: {error}") from None
        if is_of_data and found.rules:
            warnings.warn(f"{path} names Python files, which do not run: give them with --rules FILE", stacklevel=2)
        for name in () if is_of_data else found.rules:
            _load_rules(folder / name, said_by=path)
        joined = CheckSettings(
            select=joined.select + found.select,
            ignore=joined.ignore + found.ignore,
            baseline=joined.baseline or (str(folder / found.baseline) if found.baseline else None),
            suppress=joined.suppress + found.suppress,
        )
    return joined


def _load_rules(path: Path, *, said_by: Path) -> None:
    if not path.is_file():
        raise FormatError(said_by, f"rules names {path}, but there is no such file")
    spec = importlib.util.spec_from_file_location(f"bushel_rules_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _Baseline(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    findings: dict[str, str]  # fingerprint -> what it was, for people


def read_baseline(path: AnyPath) -> set[str]:
    """The fingerprints of old findings."""
    try:
        return set(msgspec.json.decode(Path(path).read_bytes(), type=_Baseline).findings)
    except msgspec.MsgspecError as error:
        raise FormatError(path, f"not a baseline: {error}") from None


def write_baseline(path: AnyPath, findings: Iterable[Finding]) -> None:
    """Write down what is found now, so that only what is new is reported from here on."""
    known = {finding.fingerprint: f"{finding.rule} {finding.message}" for finding in findings}
    text = msgspec.json.format(msgspec.json.encode(_Baseline(format=1, findings=known)), indent=2)
    with write_whole(path) as file:
        file.write(text + b"\n")
