"""What was seen while a script was followed: the material of the PIP rules."""

from __future__ import annotations

import ast
import fnmatch
import glob
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from bushel.checking.collect.facts import Data, FeatureFacts, FileFacts, ReadingPlan
from bushel.checking.script.known_values import (
    Alternatives,
    ChainCall,
    Files,
    KnownValue,
    ScriptDataset,
    ScriptWriter,
    Tensor,
)
from bushel.checking.script.script_text import Script


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
