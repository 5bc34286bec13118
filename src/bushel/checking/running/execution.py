"""A run of a script as rules see it: what the child wrote down, at places of the user's own files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bushel.checking.collect.facts import Data
from bushel.checking.report.findings import Confidence, Finding, Location, Severity
from bushel.checking.script.source import Source, read_source
from bushel.errors import BushelError

Event = dict[str, Any]
Spot = Sequence[Any] | None  # file, line and function, as the child says it


@dataclass
class Execution:
    """What was seen while a script ran for a few batches."""

    source: Source
    root: Path
    copy: Path
    entry: Path
    events: list[Event]
    output: str = ""
    data: Data | None = None
    rc: int | None = 0
    stopped: str | None = None
    seconds: float = 0.0
    limits: Any = None
    sources: dict[str, Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The copy is gone when rules look: texts of all files are read from the originals.
        self.sources[str(self.entry)] = self.source

    def of(self, *kinds: str) -> Iterator[Event]:
        """Observations of some kinds, in the order in which they were made."""
        return (event for event in self.events if event["kind"] in kinds)

    @cached_property
    def links(self) -> dict[int, Event]:
        """Links of pipelines by their number."""
        return {event["id"]: event for event in self.of("link")}

    @cached_property
    def fits(self) -> list[Event]:
        """Calls of `fit`."""
        return list(self.of("fit"))

    @cached_property
    def loop(self) -> Event | None:
        """What custom loops did, if there are some."""
        return next((event for event in self.of("loops") if event["gradients"] or event["applied"]), None)

    @property
    def has_trained(self) -> bool:
        """Whether it came to where it trains."""
        return bool(self.fits) or self.loop is not None

    @property
    def is_whole(self) -> bool:
        """Whether it ran to its end, with no error and no limit in the way."""
        return self.failure is None and self.stopped is None and any(True for _ in self.of("end"))

    @cached_property
    def has_stand_ins(self) -> bool:
        """Whether data that is not the user's took part."""
        return any(True for _ in self.of("stand_in"))

    @property
    def failure(self) -> Event | None:
        """The error that ended the run."""
        return next(self.of("error"), None)

    def chain(self, look: Event | None) -> list[Event]:
        """The links that lead to a dataset, sources first."""
        return [self.links[id] for id in (look or {}).get("chain", ()) if id in self.links]

    def data_of(self, *roles: str) -> Iterator[tuple[str, Event]]:
        """Looks at datasets by what they were used for: train, val, evaluate."""
        seen: set[tuple[str, Any]] = set()
        for role, look in self._all_data():
            key = (role, look.get("link") or id(look))
            if role in roles and key not in seen:
                seen.add(key)
                yield role, look

    def _all_data(self) -> Iterator[tuple[str, Event]]:
        for fit in self.fits:
            yield from ((role, fit[role]) for role in ("train", "val") if fit.get(role))
        for event in self.of("evaluate"):
            if event.get("data"):
                yield "evaluate", event["data"]
        if self.loop is not None:
            yield from (("train", look) for look in self.loop["train"])
            yield from (("val", look) for look in self.loop["val"])

    def original(self, name: str) -> Path:
        """The user's own file for one of the copy, named as the user names it."""
        path = Path(name)
        if path == self.entry:
            return self.source.path
        for base in (self.copy, self.root):
            if path.is_relative_to(base):
                depth = len(self.source.path.resolve().relative_to(self.root).parts)
                given = self.source.path
                top = given.parents[depth - 1] if len(given.parents) >= depth else self.root
                return top / path.relative_to(base)
        return path

    def source_of(self, name: str) -> Source | None:
        """The text of a file of the user's."""
        if name not in self.sources:
            try:
                self.sources[name] = read_source(self.original(name))
            except BushelError:
                return None
        return self.sources[name]

    def location(self, spot: Spot) -> Location | None:
        """A place in the user's own file, or in a cell of the notebook."""
        if not spot:
            return None
        source = self.source_of(spot[0])
        if source is None:
            return Location(file=str(self.original(spot[0])), line=spot[1], column=1)
        text = source.text.splitlines()[spot[1] - 1 : spot[1]]
        column = len(text[0]) - len(text[0].lstrip()) + 1 if text else 1
        return source.location(line=spot[1], column=column)

    def code(self, spot: Spot) -> str | None:
        """The text of a line."""
        source = self.source_of(spot[0]) if spot else None
        lines = source.text.splitlines() if source else []
        return lines[spot[1] - 1].strip() if spot and spot[1] <= len(lines) else None

    def nodes(self, spot: Spot) -> Iterator[ast.AST]:
        """The nodes of the innermost statement at a place; of a block, those of its head."""
        source = self.source_of(spot[0]) if spot else None
        if source is None or not spot:
            return
        found: ast.stmt | None = None
        for node in ast.walk(source.tree):
            if isinstance(node, ast.stmt) and node.lineno <= spot[1] <= (node.end_lineno or node.lineno):
                found = node if found is None or node.lineno >= found.lineno else found
        if found is not None:
            yield found
            yield from (node for node in ast.walk(found) if node is not found)

    def lines_in(self, function: Spot, pattern: str) -> list[Spot]:
        """The lines of a function, and of those that it calls in the same file, that match a pattern."""
        source = self.source_of(function[0]) if function else None
        if source is None or not function:
            return []
        known = {n.name: n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef)}
        begun = [n for n in ast.walk(source.tree) if isinstance(n, _FUNCTIONS) and _first_line(n) == function[1]]
        pending: list[ast.AST] = [*begun[:1]]
        bodies: list[ast.AST] = []
        while pending and len(bodies) < 20:
            node = pending.pop()
            bodies.append(node)
            called = {n.func for n in ast.walk(node) if isinstance(n, ast.Call)}
            names = {
                n.id if isinstance(n, ast.Name) else n.attr for n in called if isinstance(n, ast.Name | ast.Attribute)
            }
            pending += [known[name] for name in names if name in known and known[name] not in bodies]
        numbers = {n for body in bodies for n in range(body.lineno, (body.end_lineno or 0) + 1)}  # type: ignore[attr-defined]
        lines = source.text.splitlines()
        return [(function[0], n, "") for n in sorted(numbers) if re.search(pattern, lines[n - 1].partition("#")[0])]

    def lines_of(self, pattern: str) -> list[Spot]:
        """The first lines of the script that match a pattern."""
        lines = self.source.text.splitlines()
        found = [n for n, line in enumerate(lines, 1) if re.search(pattern, line.partition("#")[0])]
        return [(str(self.entry), n, "") for n in found[:2]]

    def around(self, spot: Spot, pattern: str) -> list[Spot]:
        """The lines of the function around a place that match a pattern."""
        source = self.source_of(spot[0]) if spot else None
        if source is None or not spot:
            return []
        inside = [
            node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.FunctionDef | ast.With | ast.For)
            and node.lineno <= spot[1] <= (node.end_lineno or 0)
        ]
        if not inside:
            return []
        node = max(inside, key=lambda one: (isinstance(one, ast.FunctionDef), one.lineno))
        lines = source.text.splitlines()
        numbers = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        return [(spot[0], n, "") for n in numbers if re.search(pattern, lines[n - 1].partition("#")[0])]

    def made_before(self, spot: Spot) -> list[Spot]:
        """The statements before a place that make or change something that is named there, the last one first."""
        statement = next(self.nodes(spot), None)
        source = self.source_of(spot[0]) if spot else None
        if not isinstance(statement, ast.stmt) or source is None or not spot:
            return []
        names = _names_in(statement)
        around = [
            node for node in ast.walk(source.tree)
            if isinstance(node, ast.FunctionDef) and node.lineno <= statement.lineno <= (node.end_lineno or 0)
        ]  # fmt: skip
        scope: ast.AST = max(around, key=lambda node: node.lineno, default=source.tree)
        earlier = [
            node.lineno for node in ast.walk(scope)
            if isinstance(node, ast.Assign | ast.Expr) and node.lineno < statement.lineno and _makes(node) & names
        ]  # fmt: skip
        return [(spot[0], line, "") for line in sorted(earlier)[::-1]]

    def definitions(self, spot: Spot) -> list[Spot]:
        """Where the script gives a value to the constants that are named on a line."""
        source = self.source_of(spot[0]) if spot else None
        if source is None or not spot:
            return []
        named = {n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name) and n.lineno == spot[1]}
        return [
            (spot[0], node.lineno, "") for node in source.tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and _makes(node) & named
        ]  # fmt: skip

    def keyword(self, spot: Spot, *names: str) -> Spot:
        """The line of a keyword of the call at a place; the place itself if there is none."""
        for node in self.nodes(spot):
            if isinstance(node, ast.keyword) and node.arg in names and spot:
                return (spot[0], node.value.lineno, "")
        return spot

    def found(
        self,
        message: str,
        *spots: Spot,
        help: str | list[str] = "",
        severity: Severity | None = None,
        confidence: Confidence = "proven",
        **evidence: Any,
    ) -> Finding:
        """A finding at places of the user's code."""
        known = [(spot, place) for spot in spots if (place := self.location(spot)) is not None]
        locations = list(dict.fromkeys(place for _, place in known))
        if not locations:
            locations = [Location(file=str(self.source.path), line=1, column=1)]
        code = self.code(known[0][0]) if known else None
        shown = {name: value for name, value in evidence.items() if value is not None}
        return Finding(
            message,
            severity=severity,
            confidence=confidence,
            locations=locations,
            evidence=({"code": code} if code else {}) | shown,
            help=[help] if isinstance(help, str) and help else list(help),
        )

    def summary(self) -> dict[str, Any]:
        """How the run went, as JSON."""
        return {
            "seconds": round(self.seconds, 1),
            "stopped": self.stopped,
            "exit": self.rc,
            "fits": len(self.fits),
            "sandbox": {name: value for event in self.of("sandbox") for name, value in event.items() if name != "kind"},
            "output": self.output,
        }

    def notes(self) -> list[str]:
        """What was replaced or left out, in words."""
        lines = [
            f"{event['was']} is not here: {event['by'][0]}{_more(event['count'])} was read in its place"
            for event in self.of("replaced")
        ]
        lines += [f"argument {event['name']} was not given: {event['value']}" for event in self.of("argument")]
        lines += [
            f"the weights of {event['name']} are not here: random ones took their place" for event in self.of("weights")
        ]
        return lines + [event["text"] for event in self.of("note")]


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _makes(node: ast.Assign | ast.Expr) -> set[str]:
    """The names that a statement gives a value; of a call such as `model.add(...)`, the one that it is called on."""
    if isinstance(node, ast.Assign):
        return {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    called = node.value.func if isinstance(node.value, ast.Call) else None
    return {called.value.id} if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else set()


def _first_line(node: Any) -> int:
    """The line at which Python says that a function begins: that of its first decorator."""
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(one.lineno for one in decorators)]))


def _more(count: int) -> str:
    return f" and {count - 1} more files" if count > 2 else " and 1 more file" if count == 2 else ""
