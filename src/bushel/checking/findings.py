"""Rules and their findings: what a rule declares of itself, what it reports, and what is left out of a report."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from bushel.errors import FormatError, MissingName
from bushel.plugins import load_all
from bushel.storage import AnyPath, data_folders, is_data, write_whole

Severity: TypeAlias = Literal["info", "warning", "error"]
Confidence: TypeAlias = Literal["proven", "likely", "hint"]
# How a fact is known: computed over all records (or the whole model), seen to happen, or read in code.
Known: TypeAlias = Literal["computed", "seen", "read"]

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

    Rules give no `rule` and `name`, and a `severity` only where it differs from the rule's own. *Proven* means that the
    fact was computed over all records or seen to happen, and that no name, comment or guess took part: a rule may claim
    less, and what is only read in code is at most likely, whatever the rule claims.
    """

    message: str
    severity: Severity | None = None
    confidence: Confidence = "proven"
    locations: list[Location] = []
    evidence: dict[str, Any] = {}
    help: list[str] = []
    rule: str = ""
    name: str = ""
    known: Known | None = None  # where it is not how all facts of the rule's subject are known

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
            "known": self.known,
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


def load_settings(data: Iterable[Any], *, trust_settings: bool = False, rules: Iterable[AnyPath] = ()) -> CheckSettings:
    """Join the settings of the working folder and, if they are trusted, of the data; load the rules that are trusted.

    `data` is everything that was given and is not code.

    A dataset comes from somebody else: Python that its folder names never runs, and what it leaves out of a report
    does so only with `trust_settings`. A working folder that is in the data is part of it.
    """
    for name in rules:
        _load_rules(Path(name), said_by=Path(name))
    joined = CheckSettings()
    folders = data_folders(data)
    here = Path.cwd().resolve()
    is_in_data = is_data(here, folders)
    for folder in [Path(), *(folder for folder in folders if folder != here)]:
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


Subject: TypeAlias = Literal["data", "script", "model", "probe", "run", "contract", "execution"]
# Of the pass over the data.
Aspect: TypeAlias = Literal[
    "values", "contents", "rows", "neighbours", "images", "near_images", "sounds", "texts", "near_texts"
]
Need: TypeAlias = Literal[Subject, Aspect, "records", "digests"]
Moment: TypeAlias = Literal["before", "during"]  # of training; rules about a run are all asked after it

ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
# What the pass over the data must collect for a rule that needs this. `records` are read in any case.
_ASPECTS_OF: dict[Need, tuple[Aspect, ...]] = {
    **{aspect: (aspect,) for aspect in ASPECTS},
    "data": ASPECTS,
    "contents": ("contents", "rows"),
    "near_images": ("images", "near_images"),
    "script": ("values",),
    "model": ("values", "images"),
    "probe": ("values", "images"),
    "contract": ("values",),
}
_LAST = 1000


class Family(NamedTuple):
    """Rules about one thing. Where a rule does not say it itself: its rank, and when `bushel train` asks it."""

    title: str
    rank: int = _LAST
    when: tuple[Moment, ...] = ()


# A custom rule may use any other prefix. The lower the rank, the more other findings does a finding explain.
FAMILIES = {
    "FIL": Family("files", 0, ("before",)),
    "SCH": Family("schema", 10, ("before",)),
    "TFX": Family("schema.pbtxt", 20),
    "VAL": Family("values", 50, ("before",)),
    "IMG": Family("images"),
    "AUD": Family("sound"),
    "TXT": Family("text"),
    "LBL": Family("labels", 30, ("before",)),
    "ORD": Family("order", 60, ("before",)),
    "SPL": Family("splits", when=("before",)),
    "PIP": Family("pipeline code"),
    "MDL": Family("model", 80, ("before",)),
    "TRN": Family("training probes", 150, ("before",)),
    "RUN": Family("a run of `bushel train`", 150),
    "SRV": Family("serving contract"),
    "EXE": Family("a script that was run"),
    "KER": Family("Keras 3"),
}

SECTIONS = ("Why", "Example", "Fix", "Ignore")


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


# One by one, two by two because they are alike, or each beside the records that contradict its label.
Evidence: TypeAlias = Literal["records", "pairs", "neighbours"]


@dataclass(frozen=True)
class Rule:
    """A check by its id, with all that it declares."""

    id: str
    name: str
    check: Callable[[Any], Iterator[Finding]]
    severity: Severity
    needs: tuple[Need, ...]
    rank: int  # the lower, the more other findings does it explain
    when: tuple[Moment, ...]
    silences: tuple[str, ...]  # rules whose findings about the same feature or file add nothing
    measured_by: str | None  # the rule by which a run answers the same question: its own, or another one
    causes: str | None  # a rule whose finding at the same line is a consequence of this one
    shows: Evidence  # how the records that it names belong together

    @property
    def is_seen(self) -> bool:
        """Whether a run answers the question, too."""
        return self.id in _SEEN

    @property
    def subject(self) -> Subject:
        """What its function is called with."""
        return next((subject for subject in _SUBJECTS if subject in self.needs), "data")

    @property
    def page(self) -> Page:
        """What `bushel explain` prints."""
        return Page.of(self.check.__doc__ or "")

    def run(self, subject: Any) -> Iterator[Finding]:
        """Its findings, with its id, name and severity filled in."""
        return (self.signed(finding) for finding in self.check(subject))

    def run_seen(self, execution: Any) -> Iterator[Finding]:
        """What a run saw of it."""
        for severity, check in _SEEN.get(self.id, ()):
            for finding in check(execution):
                yield self.signed(replace(finding, severity=finding.severity or severity, known="seen"))

    def signed(self, finding: Finding) -> Finding:
        """A finding with this rule's id, name and severity, and no more confidence than its fact allows."""
        known = finding.known or _KNOWN.get(self.subject, "computed")
        is_overstated = known == "read" and finding.confidence == "proven"
        return Finding(
            message=encodable(finding.message),
            severity=finding.severity or self.severity,
            confidence="likely" if is_overstated else finding.confidence,
            locations=encodable(finding.locations),
            evidence=encodable(finding.evidence),
            help=encodable(finding.help),
            rule=self.id,
            name=self.name,
            known=known,
        )


# What rules about these are told; of data, models and contracts everything is computed.
_KNOWN: dict[Subject, Known] = {"script": "read", "execution": "seen", "probe": "seen", "run": "seen"}
_SUBJECTS: tuple[Subject, ...] = ("execution", "script", "model", "probe", "run", "contract")
_RULES: dict[str, Rule] = {}
# By id: what a run sees of the rules that are also read in code, and how bad it is.
_SEEN: dict[str, list[tuple[Severity | None, Callable[[Any], Iterator[Finding]]]]] = {}

Check: TypeAlias = Callable[[Any], Iterator[Finding]]


def rule(
    id: str,
    name: str,
    *,
    severity: Severity = "error",
    needs: Need | tuple[Need, ...] = "data",
    rank: int | None = None,
    when: tuple[Moment, ...] | None = None,
    silences: tuple[str, ...] = (),
    measured_by: str | None = None,
    causes: str | None = None,
    shows: Evidence = "records",
) -> Callable[[Check], Check]:
    """Make a function a rule: it takes what is checked, and yields findings.

    >>> @bushel.checking.rule("ACME001", "no-negative-price", severity="warning")
    ... def no_negative_price(data):
    ...     '''Prices below 0.'''
    ...     if data.features["price"].min < 0:
    ...         yield Finding("a price is negative")
    """
    if not re.fullmatch(r"[A-Z]{3,}\d{3}", id):
        raise ValueError(f"id must be capital letters and three digits, such as ACME001; got {id!r}")
    family = FAMILIES.get(id[:-3], Family(id[:-3]))

    def register(check: Check) -> Check:
        known = _RULES.get(id)
        if known is not None and known.check.__qualname__ != check.__qualname__:
            raise ValueError(f"id must be a new one, got {id!r}, which is {known.name}")
        _RULES[id] = Rule(
            id=id,
            name=name,
            check=check,
            severity=severity,
            needs=needs if isinstance(needs, tuple) else (needs,),
            rank=family.rank if rank is None else rank,
            when=family.when if when is None else when,
            silences=silences,
            measured_by=measured_by,
            causes=causes,
            shows=shows,
        )
        return check

    return register


def seen(id: str, *, severity: Severity | None = None) -> Callable[[Check], Check]:
    """Make a function the answer of a run to a rule that is declared elsewhere: one rule, known in two ways."""

    def register(check: Check) -> Check:
        known = _SEEN.setdefault(id, [])
        known[:] = [(own, one) for own, one in known if one.__qualname__ != check.__qualname__]
        known.append((severity, check))
        return check

    return register


@contextlib.contextmanager
def rules_as_they_were() -> Iterator[None]:
    """Forget afterwards which rules were registered inside: those that settings name belong to one run."""
    before = dict(_RULES)
    try:
        yield
    finally:
        _RULES.clear()
        _RULES.update(before)


def all_rules() -> list[Rule]:
    """Every rule, custom ones included, by id."""
    rooms = tuple(f"bushel.checking.{room}" for room in ("rules", "script_rules", "running"))
    for room in rooms:  # importing a module registers its rules
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}."):
            if module.name.endswith("_rules"):
                importlib.import_module(module.name)
    list(load_all("rules"))
    return sorted(_RULES.values(), key=lambda rule: rule.id)


def find_rule(id_or_name: str) -> Rule:
    """One rule by its id or its name."""
    rules = all_rules()
    for found in rules:
        if id_or_name.upper() == found.id or id_or_name.lower() == found.name:
            return found
    raise MissingName("rule", id_or_name, [name for r in rules for name in (r.id, r.name)], where="rules")


def rules_for(subject: Subject, when: Moment | None = None, *, ignored: Iterable[str] = ()) -> list[Rule]:
    """The rules about one kind of thing; with `when`, those that `bushel train` asks at that moment."""
    unwanted = tuple(ignored)
    return [
        rule
        for rule in all_rules()
        if rule.subject == subject and (when is None or when in rule.when) and not rule.id.startswith(unwanted or "-")
    ]


def finding_of(check: Check, finding: Finding) -> Finding:
    """A finding of a rule that something else than its own function made."""
    return next(rule for rule in all_rules() if rule.check is check).signed(finding)


def aspects_needed(rules: Iterable[Rule]) -> frozenset[Aspect]:
    """What the pass over the data must collect for these rules."""
    return frozenset(aspect for rule in rules for need in rule.needs for aspect in _ASPECTS_OF.get(need, ()))


def causes_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that explain others first; of one rank, those that are proven first."""
    rules = {rule.id: rule for rule in all_rules()}

    def place(finding: Finding) -> tuple[bool, int, bool]:
        known = rules.get(finding.rule)
        # What is merely odd about the data is seldom why nothing is learned.
        is_aside = finding.severity != "error" and known is not None and known.subject == "data"
        return (is_aside, known.rank if known is not None else _LAST, finding.confidence != "proven")

    return sorted(findings, key=place)


def without_silenced(findings: Sequence[Finding]) -> list[Finding]:
    """Findings, less those that another one about the same feature or file makes superfluous."""
    rules = {rule.id: rule for rule in all_rules()}
    silent = {
        (other, about)
        for finding in findings
        if finding.rule in rules and finding.severity != "info"
        for other in rules[finding.rule].silences
        for about in _about(finding)
    }
    return [finding for finding in findings if not any((finding.rule, about) in silent for about in _about(finding))]


def weighed_by_run(findings: Sequence[Finding], was_seen: Callable[[Location], bool]) -> list[Finding]:
    """Findings, where what happened in a whole run outweighs what was read in code about the very same place.

    A place that the run did not come to says nothing, and what was computed over all records stays: the run draws a
    few of them.
    """
    rules = {rule.id: rule for rule in all_rules()}
    met = {finding.rule for finding in findings if finding.severity != "info" and finding.known == "seen"}

    def is_refuted(one: Finding) -> bool:
        measured = rules[one.rule].measured_by if one.rule in rules and one.known == "read" else None
        return measured is not None and measured not in met and all(map(was_seen, one.locations[:1]))

    return [replace(one, severity="info", confidence="hint") if is_refuted(one) else one for one in findings]


def joined_twins(findings: Sequence[Finding]) -> list[Finding]:
    """Findings, where what was read or computed about a line and seen to happen there is one finding."""
    rules = {rule.id: rule for rule in all_rules()}
    seen = [one for one in findings if one.known == "seen"]
    joined: list[Finding] = []
    used: list[Finding] = []
    for one in findings:
        known = rules.get(one.rule)
        ways = {known.causes, known.measured_by} | ({one.rule} if one.known != "seen" else set()) if known else set()
        twin = next((other for other in seen if other.rule in ways and _lines(one) & _lines(other)), None)
        if twin is not None:
            used.append(twin)
        joined.append(_joined_twin(one, twin) if twin is not None else one)
    return [one for one in joined if not any(one is other for other in used)]


def _joined_twin(said: Finding, happened: Finding) -> Finding:
    """One finding of two about one fault: what happened, and the correction that was read from the code."""
    worst = max(said.severity or "info", happened.severity or "info", key=SEVERITIES.index)
    is_error = said.rule != happened.rule  # one of a rule that says what was raised
    return replace(
        said,
        message=said.message if is_error else happened.message,
        severity=worst,
        confidence="proven" if "proven" in (said.confidence, happened.confidence) else happened.confidence,
        known="seen",
        locations=list(dict.fromkeys([*said.locations, *happened.locations])),
        evidence=happened.evidence | said.evidence,
        help=said.help if "corrected" in said.evidence or not happened.help else happened.help,
    )


def _lines(finding: Finding) -> set[tuple[str | None, int | None]]:
    return {(place.file, place.line) for place in finding.locations if place.line is not None}


def _about(finding: Finding) -> set[str]:
    return {name for place in finding.locations if (name := place.feature or place.file)}


def select(wanted: Iterable[str], ignored: Iterable[str]) -> list[Rule]:
    """The rules whose ids begin with one of `wanted` (with none given: all) and with none of `ignored`."""
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
        raise ValueError(f"select and ignore must be rule ids or their beginnings, such as ORD or ORD001; got {text!r}")
    return prefix
