"""What was seen while a script was followed: the material of the PIP rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bushel.checking.collect.facts import Data, Plan
from bushel.checking.report.findings import Confidence, Finding, Location, Severity
from bushel.checking.script.source import Source
from bushel.checking.script.values import Alternatives, Dataset, Link, Value, Writer

__all__ = ["Event", "Trace", "Use"]


@dataclass(frozen=True)
class Event:
    """One thing that was seen at one place."""

    kind: str
    node: ast.AST
    source: Source
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Use:
    """A dataset that is handed to a model."""

    role: str  # train, eval, predict
    dataset: Value
    node: ast.AST
    source: Source
    model: Value | None = None
    keywords: dict[str, Value] = field(default_factory=dict)

    def options(self) -> list[Dataset]:
        """The datasets that it may be."""
        if isinstance(self.dataset, Alternatives):
            return [option for option in self.dataset.options if isinstance(option, Dataset)]
        return [self.dataset] if isinstance(self.dataset, Dataset) else []


@dataclass
class Trace:
    """A script that was followed, over the data that it reads."""

    source: Source
    data: Data | None = None
    events: list[Event] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    datasets: list[Dataset] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)
    not_followed: list[str] = field(default_factory=list)

    def add(self, kind: str, node: ast.AST, source: Source, **info: Any) -> None:
        """Note an event once for each place."""
        place = (kind, node.lineno, node.col_offset, str(source.path))  # type: ignore[attr-defined]
        known = {(e.kind, e.node.lineno, e.node.col_offset, str(e.source.path)) for e in self.of(kind)}  # type: ignore[attr-defined]
        if place not in known:
            self.events.append(Event(kind, node, source, info))

    def of(self, kind: str) -> Iterator[Event]:
        """Events of one kind, in the order in which they were met."""
        return (event for event in self.events if event.kind == kind)

    def used(self, *roles: str) -> Iterator[tuple[Use, Dataset]]:
        """Datasets that are used in one of these ways."""
        for use in self.uses:
            if use.role in roles:
                yield from ((use, dataset) for dataset in use.options())

    def note(self, node: ast.AST, source: Source, what: str) -> None:
        """Say what could not be followed."""
        place = source.location(node)
        text = f"{place.file}:{place.line}: {what}"
        if text not in self.not_followed:
            self.not_followed.append(text)

    def chains(self) -> Iterator[Dataset]:
        """Every pipeline that was built, longest first, each link looked at once."""
        seen: set[tuple[int, ...]] = set()
        for dataset in sorted(self.datasets, key=lambda d: -len(d.links)):
            key = tuple(id(link.node) for link in dataset.links)
            if not any(known[: len(key)] == key for known in seen):
                seen.add(key)
                yield dataset

    def links(self, name: str) -> Iterator[tuple[Dataset, int, Link]]:
        """Each link of a name once, in the longest chain that it is part of, with its place there."""
        seen: set[int] = set()
        for dataset in self.chains():
            for place, link in enumerate(dataset.links):
                if link.name == name and id(link.node) not in seen:
                    seen.add(id(link.node))
                    yield dataset, place, link

    def plan(self, given: Plan) -> Plan:
        """How the script reads the data, as far as nobody said otherwise."""
        if given.batch_size is not None and given.shuffle_buffer is not None:
            return given
        for use, dataset in self.used("train"):
            shuffles = [link for link in dataset.links if link.name == "shuffle"]
            batches = [link for link in dataset.links if link.name == "batch"]
            buffers = [link.number(0, "buffer_size") for link in shuffles]
            if dataset.is_opaque or None in buffers or dataset.files is None:
                continue
            place = use.source.location(shuffles[0].node) if shuffles else use.source.location(use.node)
            batch = batches[-1].number(0, "batch_size") if batches else None
            return Plan(
                given.batch_size or batch,
                given.shuffle_buffer if given.shuffle_buffer is not None else max((b or 0 for b in buffers), default=0),
                given.classes,
                f"{place.file}:{place.line}",
            )
        return given


def link_location(link: Link) -> tuple[Location, str]:
    """Where the name of a link stands, and the text of that line."""
    function = link.node.func
    if isinstance(function, ast.Attribute):
        line, column = function.end_lineno or link.node.lineno, (function.end_col_offset or 0) - len(function.attr) + 1
        return link.source.location(link.node, line=line, column=column), link.source.line(line)
    return link.source.location(link.node), link.source.line(link.node.lineno)


def link_text(link: Link) -> str:
    """A link as it stands in the source, in one line: `.name(...)`."""
    arguments = ", ".join(link.source.segment(a) for a in (*link.node.args, *link.node.keywords))
    return f".{link.name}({arguments})"


def at_link(
    link: Link,
    message: str,
    *,
    corrected: str | None = None,
    replaces: str | None = None,
    line: str | None = None,
    help: list[str] | None = None,
    severity: Severity | None = None,
    confidence: Confidence = "proven",
    **evidence: Any,
) -> Finding:
    """A finding at one call of a chain. `corrected` stands for `replaces`, or for the link."""
    place, code = link_location(link)
    corrected = line or corrected_line(code, replaces or link_text(link), corrected)
    return _finding(message, place, code, corrected, help, severity, confidence, evidence)


def at_node(
    node: ast.AST,
    source: Source,
    message: str,
    *,
    corrected: str | None = None,
    replaces: str | None = None,
    line: str | None = None,
    help: list[str] | None = None,
    severity: Severity | None = None,
    confidence: Confidence = "proven",
    **evidence: Any,
) -> Finding:
    """A finding at any place of a script. `corrected` stands for `replaces`, or for the node."""
    place, code = source.location(node), source.line(node.lineno)  # type: ignore[attr-defined]
    corrected = line or corrected_line(code, replaces or source.segment(node), corrected)
    return _finding(message, place, code, corrected, help, severity, confidence, evidence)


def wrapped(use: Use, link: str) -> str | None:
    """The call that uses a dataset, with one more link behind the dataset."""
    text = use.source.segment(use.node)
    first = use.node.args[0] if isinstance(use.node, ast.Call) and use.node.args else None
    if first is None:
        return f"{link} at the end of the dataset"
    name = use.source.segment(first)
    return text.replace(f"({name}", f"({name}{link}", 1)


def corrected_line(code: str, wrong: str, right: str | None) -> str | None:
    """The whole line with what is right in it, where what is wrong stands in one line; else only what is right."""
    if right is None:
        return None
    if wrong and wrong in code and "..." not in right:
        return code.replace(wrong, right, 1)
    return right or f"without {wrong}"


def _finding(
    message: str,
    place: Location,
    code: str,
    corrected: str | None,
    help: list[str] | None,
    severity: Severity | None,
    confidence: Confidence,
    evidence: dict[str, Any],
) -> Finding:
    shown = {"code": code} | ({"corrected": corrected} if corrected is not None else {})
    said = help if help is not None else ([f"change it to: {corrected}"] if corrected is not None else [])
    return Finding(
        message,
        severity=severity,
        confidence=confidence,
        locations=[place],
        evidence={**shown, **{name: value for name, value in evidence.items() if value is not None}},
        help=said,
    )
