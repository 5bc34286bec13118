"""A script as rules see it: its text, places in it, edits that correct it, and what was seen while it was followed."""

from __future__ import annotations

import ast
import bisect
import fnmatch
import glob
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from bushel.checking.collect.facts import Data, FeatureFacts, FileFacts, ReadingPlan
from bushel.checking.findings import Confidence, Finding, Known, Location, Severity
from bushel.checking.program import FollowedStep
from bushel.checking.script.known_values import (
    Alternatives,
    ChainCall,
    Files,
    KnownValue,
    ScriptDataset,
    ScriptWriter,
    Tensor,
)
from bushel.errors import FileProblem
from bushel.storage import AnyPath

CELL = "# %%"


@dataclass
class Script:
    """One file of code. The code cells of a notebook are joined, and places in them name the cell."""

    path: Path
    text: str
    tree: ast.Module
    cells: list[tuple[int, int]] = field(default_factory=list)  # first line, number of the cell
    is_fragment: bool = False  # bodies were left out

    @cached_property
    def raw(self) -> bytes:
        """The text as bytes: columns of nodes count them."""
        return self.text.encode()

    @cached_property
    def nodes(self) -> set[int]:
        """The nodes of its tree, to tell whether one is among them."""
        return {id(node) for node in ast.walk(self.tree)}

    @cached_property
    def line_starts(self) -> list[int]:
        """The byte at which each line begins."""
        return [0, *(found.end() for found in re.finditer(rb"\n", self.raw))]

    def span(self, node: Any) -> tuple[int, int]:
        """The bytes of a node."""
        starts = self.line_starts
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def statement_lines(self, byte: int) -> tuple[int, int]:
        """The first and the last line of the statement around a byte; of a block, those of its head."""
        line = bisect.bisect_right(self.line_starts, byte)
        found = (line, line)
        for node in ast.walk(self.tree):  # outer statements come first
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                body = getattr(node, "body", None)
                last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
                if line <= max(last, node.lineno):
                    found = (node.lineno, max(last, node.lineno))
        return found

    def block_of(self, node: Any) -> ast.AST:
        """The function, loop or branch whose statements a node is among."""
        found: ast.AST = self.tree
        for block in ast.walk(self.tree):  # outer ones come first
            bodies = [getattr(block, name, None) or [] for name in ("body", "orelse", "finalbody")]
            for body in bodies if isinstance(block, ast.stmt) else ():
                if isinstance(body, list) and body and body[0].lineno <= node.lineno <= (body[-1].end_lineno or 0):
                    found = body[0]
        return found

    def imported_as(self, module: str, default: str) -> str:
        """The name that an import gives a module here: `tf` of `tensorflow`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    whole = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
                    if whole == module and (alias.asname or "." not in alias.name):
                        return alias.asname or alias.name
        return default

    def location(self, node: Any = None, *, line: int | None = None, column: int | None = None) -> Location:
        """Where a node begins, or the place given."""
        line = line if line is not None else node.lineno
        column = column if column is not None or node is None else node.col_offset + 1
        name = str(self.path)
        for first, number in reversed(self.cells):
            if line >= first:
                return Location(file=f"{name}:cell {number}", line=line - first + 1, column=column)
        return Location(file=name, line=line, column=column)

    def line(self, number: int) -> str:
        """The text of one line."""
        return self.text.splitlines()[number - 1].strip()

    def code_of(self, node: ast.AST) -> str:
        """The text of one node, in one line."""
        return " ".join((ast.get_source_segment(self.text, node) or "").split())


def read_script(path: AnyPath) -> Script:
    """Parse a script or a notebook; raises `FileProblem` if it is not Python."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise FileProblem(path, f"the script cannot be read: {reason}") from None
    cells: list[tuple[int, int]] = []
    if path.suffix == ".ipynb":
        text, cells = _join_cells(path, text)
    try:
        whole, bodies = _with_bodies(text)
        return Script(path, whole, ast.parse(whole), cells, is_fragment=bodies > 0)
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise FileProblem(path, f"the script is not Python: {line}{getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):  # the parser raises either
        raise FileProblem(path, "the script is nested too deeply to be followed") from None


def _with_bodies(text: str) -> tuple[str, int]:
    """Code in which functions and blocks that hold only comments do nothing, and how many there are.

    People leave such bodies out when they ask; the lines stay what they are.
    """
    lines, count = text.splitlines(), 0
    while True:
        try:
            ast.parse("\n".join(lines) + "\n")
        except IndentationError as error:
            known = re.search(r"expected an indented block after .* on line (\d+)", error.msg)
            head = int(known[1]) - 1 if known is not None else len(lines)
            end = next((n for n in range(head, (error.lineno or 0)) if _ends_head(lines[n])), None)
            if end is None:
                return text, 0
            code, mark, comment = lines[end].partition("#")
            lines[end] = f"{code.rstrip()} ...{f'  {mark}{comment}' if mark else ''}"
            count += 1
        except (SyntaxError, ValueError):
            return text, 0
        else:
            return ("\n".join(lines) + "\n", count) if count else (text, 0)


def _ends_head(line: str) -> bool:
    return line.partition("#")[0].rstrip().endswith(":")


def _join_cells(path: Path, text: str) -> tuple[str, list[tuple[int, int]]]:
    try:
        notebook = json.loads(text)
        scripts = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(notebook["cells"], 1)
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileProblem(path, f"not a notebook: {error}") from None
    lines: list[str] = []
    cells = []
    for number, script in scripts:
        lines.append(CELL)
        cells.append((len(lines) + 1, number))
        # Lines for the shell and for IPython are not Python; they keep their place as comments.
        is_magic = script.lstrip().startswith("%%")
        lines.extend(
            "# " + line if is_magic or line.lstrip().startswith(("%", "!", "?")) else line
            for line in script.splitlines()
        )
    return "\n".join(lines) + "\n", cells


class Placed(Protocol):
    """Anything of a script with one place: an event, a use, a call of a chain, a layer, a writer."""

    @property
    def node(self) -> ast.AST | None:
        """What stands there."""

    @property
    def script(self) -> Script:
        """The file that it is in."""


@dataclass(frozen=True)
class At:
    """One node of a script."""

    node: Any
    script: Script


def placed(scripts: Iterable[Script], node: ast.AST | None) -> At | None:
    """A node in the one of several files that it is in."""
    return next((At(node, script) for script in scripts if node is not None and id(node) in script.nodes), None)


@dataclass(frozen=True)
class Edit:
    """Text that takes the place of the bytes from `start` to `end`."""

    script: Script
    start: int
    end: int
    text: str = ""


def replaced(script: Script, node: ast.AST, text: str) -> Edit:
    """Other text for a node."""
    return Edit(script, *script.span(node), text)


def _link_span(link: ChainCall) -> tuple[int, int]:
    """From the dot to the closing bracket of one call of a chain, with the line break before the dot."""
    function = link.node.func
    start = link.script.span(function.value)[1] if isinstance(function, ast.Attribute) else 0
    return start, link.script.span(link.node)[1]


def removed(link: ChainCall) -> Edit:
    """A chain without one of its calls."""
    return Edit(link.script, *_link_span(link))


def inserted_before(link: ChainCall, text: str) -> Edit:
    """One more call before one of a chain."""
    start = _link_span(link)[0]
    return Edit(link.script, start, start, text)


def moved(link: ChainCall, *, before: ChainCall) -> list[Edit]:
    """One call of a chain moved before another; nothing if they stand in two files or blocks."""
    if link.script is not before.script or link.script.block_of(link.node) is not link.script.block_of(before.node):
        return []
    start, end = _link_span(link)
    return [removed(link), inserted_before(before, link.script.raw[start:end].decode())]


def appended(script: Script, node: ast.AST, text: str) -> Edit:
    """Text right after a node."""
    end = script.span(node)[1]
    return Edit(script, end, end, text)


def with_keyword(script: Script, call: ast.Call, name: str, value: str) -> Edit:
    """A call with a keyword argument: one that it has gets the value."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return replaced(script, keyword.value, value)
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if arguments:
        return appended(script, arguments[-1], f", {name}={value}")
    end = script.span(call)[1] - 1
    return Edit(script, end, end, f"{name}={value}")


def with_argument(script: Script, call: ast.Call, position: int, name: str, value: str) -> Edit:
    """A call with another value for an argument that is given by its place or its name."""
    if len(call.args) > position:
        return replaced(script, call.args[position], value)
    return with_keyword(script, call, name, value)


def without_keyword(script: Script, call: ast.Call, name: str) -> list[Edit]:
    """A call without one of its keyword arguments and the comma before it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            start, end = script.span(keyword)
            before = script.raw[:start].rstrip()
            if before.endswith(b","):
                return [Edit(script, len(before) - 1, end)]
            after = re.match(rb"\s*,\s*", script.raw[end:])
            return [Edit(script, start, end + (after.end() if after else 0))]
    return []


def at(
    where: Placed,
    message: str,
    *edits: Edit,
    help: str | None = None,
    also: Placed | None = None,
    severity: Severity | None = None,
    confidence: Confidence = "proven",
    known: Known | None = None,
    **evidence: Any,
) -> Finding:
    """A finding at one place of a script. `help` says what to do where the edits do not show it.

    `also` is the other one of two places that contradict each other. `known` is how, where not from code alone.
    """
    script = where.script
    line, _ = _place_of(where)
    shown: dict[str, Any] = {"code": script.line(line)}
    said = [help] if help is not None else []
    if _is_python(edits):
        first, last, text = _corrected(edits)
        shown |= {"corrected": text, "lines": [script.location(line=n).line for n in (first, last)]}
        lines = shown["lines"]
        is_one = lines[0] == lines[1] and "\n" not in text
        said = [f"change it to: {text}" if is_one else f"replace lines {lines[0]} to {lines[1]} with the lines above"]
    return Finding(
        message,
        severity=severity,
        confidence=confidence,
        locations=[_location(place) for place in (where, also) if place is not None and place.node is not None],
        evidence={**shown, **{name: value for name, value in evidence.items() if value is not None}},
        help=said,
        known=known,
    )


def _place_of(where: Placed) -> tuple[int, int]:
    """Line and column; of a call of a chain, those of its name."""
    node: Any = where.node
    if isinstance(where, ChainCall) and isinstance(node.func, ast.Attribute):
        name: Any = node.func
        return name.end_lineno, name.end_col_offset - len(name.attr) + 1
    return node.lineno, node.col_offset + 1


def _location(where: Placed) -> Location:
    line, column = _place_of(where)
    return where.script.location(line=line, column=column)


def place_text(where: Placed) -> str:
    """Where something else stands, as evidence."""
    return str(_location(where))


def _is_python(edits: tuple[Edit, ...]) -> bool:
    """Whether a script with these edits is Python still: what stands between links of a chain may be anything."""
    if not edits or any(edit.script is not edits[0].script for edit in edits):
        return False
    first, last, text = _corrected(edits)
    lines = edits[0].script.text.splitlines()
    indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
    lines[first - 1 : last] = textwrap.indent(text, indent).splitlines()
    try:
        ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return False
    return True


def _edited(text: bytes, edits: tuple[Edit, ...], begin: int) -> bytes:
    """Text, which begins at a byte of the script, after these edits."""
    for edit in sorted(edits, key=lambda edit: (-edit.start, -edit.end)):
        text = text[: edit.start - begin] + edit.text.encode() + text[edit.end - begin :]
    return text


def _corrected(edits: tuple[Edit, ...]) -> tuple[int, int, str]:
    """The first and the last line of the statements that edits change, and their text afterwards."""
    script = edits[0].script
    places = [script.statement_lines(edit.start) for edit in edits]
    first, last = min(first for first, _ in places), max(last for _, last in places)
    begin, end = script.line_starts[first - 1], script.line_starts[last] if last < len(script.line_starts) else None
    text = _edited(script.raw[begin:end], edits, begin)
    # A statement of which nothing is left does nothing: `ds = ds`.
    lines = re.sub(r"^[ \t]*(\w+) = \1[ \t]*\n", "", text.decode(), flags=re.MULTILINE)
    return first, last, textwrap.dedent(lines).strip("\n")


@dataclass(frozen=True)
class Event:
    """One thing that was seen at one place."""

    kind: str
    node: ast.AST
    script: Script
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Use:
    """A dataset that is handed to a model."""

    role: str  # train, eval, predict
    dataset: KnownValue
    node: ast.AST
    script: Script
    model: KnownValue | None = None
    keywords: dict[str, KnownValue] = field(default_factory=dict)

    def options(self) -> list[ScriptDataset]:
        """The datasets that it may be."""
        if isinstance(self.dataset, Alternatives):
            return [option for option in self.dataset.options if isinstance(option, ScriptDataset)]
        return [self.dataset] if isinstance(self.dataset, ScriptDataset) else []


@dataclass
class Trace:
    """A script that was followed, over the data that it reads."""

    script: Script
    data: Data | None = None
    events: list[Event] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    datasets: list[ScriptDataset] = field(default_factory=list)
    writers: list[ScriptWriter] = field(default_factory=list)
    not_followed: list[str] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)  # all files that were followed
    places: set[Any] = field(default_factory=set)  # of events
    done: set[tuple[str, int]] = field(default_factory=set)  # methods of what a call made, by that call's node

    def add(self, kind: str, node: ast.AST, script: Script, **info: Any) -> None:
        """Note an event once for each place, and `key`."""
        place = (kind, node.lineno, node.col_offset, str(script.path), info.get("key"))  # type: ignore[attr-defined]
        if place not in self.places:
            self.places.add(place)
            self.events.append(Event(kind, node, script, info))

    def of(self, kind: str) -> Iterator[Event]:
        """Events of one kind, in the order in which they were met."""
        return (event for event in self.events if event.kind == kind)

    def used(self, *roles: str) -> Iterator[tuple[Use, ScriptDataset]]:
        """Datasets that are used in one of these ways."""
        for use in self.uses:
            if use.role in roles:
                yield from ((use, dataset) for dataset in use.options())

    def note(self, node: ast.AST, script: Script, what: str) -> None:
        """Report what could not be followed."""
        place = script.location(node)
        text = f"{place.file}:{place.line}: {what}"
        if text not in self.not_followed:
            self.not_followed.append(text)

    def steps(self) -> list[FollowedStep]:
        """The uses of data, those that could be followed and those that could not."""
        lines = [getattr(event.node, "lineno", None) for event in self.of("not-followed")]
        why = "reading could not follow it"
        lost = [FollowedStep(what="the data of a fit", line=line, problem=why) for line in lines]
        return [*(FollowedStep(what=use.role) for use in self.uses), *dict.fromkeys(lost)]

    def chains(self) -> Iterator[ScriptDataset]:
        """Every pipeline that was built, longest first, each link looked at once."""
        seen: set[tuple[int, ...]] = set()
        for dataset in sorted(self.datasets, key=lambda d: -len(d.links)):
            key = tuple(id(link.node) for link in dataset.links)
            if not any(known[: len(key)] == key for known in seen):
                seen.add(key)
                yield dataset

    def links(self, name: str) -> Iterator[tuple[ScriptDataset, int, ChainCall]]:
        """Each link of a name once, in the longest chain that it is part of, with its place there."""
        seen: set[int] = set()
        for dataset in self.chains():
            for place, link in enumerate(dataset.links):
                if link.name == name and id(link.node) not in seen:
                    seen.add(id(link.node))
                    yield dataset, place, link

    def plan(self, given: ReadingPlan) -> ReadingPlan:
        """How the script reads the data, where the caller does not say it."""
        if given.batch_size is not None and given.shuffle_buffer is not None:
            return given
        for use, dataset in self.used("train"):
            shuffles = [link for link in dataset.links if link.name == "shuffle"]
            batches = [link for link in dataset.links if link.name == "batch"]
            buffers = [link.number(0, "buffer_size") for link in shuffles]
            if dataset.is_opaque or None in buffers or dataset.files is None:
                continue
            place = use.script.location(shuffles[0].node) if shuffles else use.script.location(use.node)
            batch = batches[-1].number(0, "batch_size") if batches else None
            return ReadingPlan(
                given.batch_size or batch,
                given.shuffle_buffer if given.shuffle_buffer is not None else max((b or 0 for b in buffers), default=0),
                given.classes,
                f"{place.file}:{place.line}",
            )
        return given


def matched_files(trace: Trace, files: Files | None) -> list[FileFacts]:
    """The files of the data whose names the script's patterns match."""
    if trace.data is None or files is None or not files.patterns:
        return []
    found: dict[int, FileFacts] = {}
    for pattern in files.patterns:
        path = PurePosixPath(pattern.replace("\\", "/"))
        named = [file for file in trace.data.files if fnmatch.fnmatchcase(file.path.name, path.name)]
        inside = [file for file in named if fnmatch.fnmatchcase(file.path.parent.name, path.parent.name)]
        found |= {file.number: file for file in inside or named}
    return list(found.values())


def is_of_data(trace: Trace, files: Files | None) -> bool:
    """Whether files may be those that are checked: not others that are here, and not what the script writes."""
    if trace.data is None or files is None or not files.patterns or any(one[:1] == "*" for one in files.patterns):
        return True
    bases = [Path(), trace.script.path.parent]
    found = {Path(name).resolve() for base in bases for one in files.patterns for name in glob.glob(str(base / one))}
    if found:
        return any(Path(str(file.path)).resolve() in found for file in trace.data.files)
    return not trace.writers or bool(matched_files(trace, files))


def facts_of(trace: Trace, tensor: Tensor | None) -> FeatureFacts | None:
    """What the data holds of the feature that a tensor was parsed from."""
    if trace.data is None or tensor is None or tensor.feature is None or not is_of_data(trace, tensor.files):
        return None
    return trace.data.features.get(tensor.feature)


def known_of(files: Files | None) -> Known:
    """How something is known that was computed from the records of the files that a script names."""
    return "read" if files is not None and files.is_guessed else "computed"


def exists_on_disk(trace: Trace, pattern: str) -> bool:
    """Whether a pattern names something from here, or from the script's folder."""
    if "://" in pattern:
        return True
    places = [Path(), trace.script.path.parent]
    return any(glob.glob(str(place / pattern)) for place in places)


def records_of(trace: Trace, files: Files | None) -> int | None:
    """How many records the files hold; None if that is not known."""
    matched = matched_files(trace, files)
    if files is not None and files.is_guessed and len({file.split for file in matched}) > 1:
        return None  # which of the splits is meant is what is not known
    return sum(file.records for file in matched) if matched else None
