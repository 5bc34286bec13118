"""Known records, followed through every pipeline of a program up to the model and the loss: what of them arrives."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from bushel.checking.program.account import CodePlace, Role

Slot: TypeAlias = Literal["input", "target", "weight"]
Change: TypeAlias = Literal["scale", "scale of records", "scale of columns", "channels", "axes", "values"]


class TracedFeature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature of the file, and where a change of it shows."""

    name: str
    values: int  # that differ in the known records
    is_bytes: bool  # texts, images and the like
    reaches: list[Slot] = []


class AbsentFeature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature that a pipeline parses and no record has; `default` stands in for it."""

    name: str
    default: str
    reaches: list[Slot]  # where it would show if a record had it
    place: CodePlace | None = None


class TracedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One input, target or weight, over the rows that the known records became."""

    slot: Slot
    name: str
    shape: list[int]
    dtype: str
    differing: int  # rows
    is_random: bool  # it changes from pass to pass
    features: list[str] = []  # a change of which changes it
    commonest: float = 0.0  # the share of the most frequent one of whole numbers other than 0
    smoother: list[int] | None = None  # the shape in which the same pixels make smoother images, if one is
    places: list[CodePlace] = []  # the lines that compute it, the last one first


class LabelPair(msgspec.Struct, frozen=True, array_like=True):
    """A label in the file, what the loss gets for it, and of how many known records."""

    stored: str
    arrives: str
    records: int


class TracedLabel(msgspec.Struct, frozen=True, kw_only=True):
    """The one feature that decides what the loss gets, and how."""

    feature: str
    pairs: list[LabelPair]

    def stored(self) -> set[str]:
        """The labels in the file."""
        return {pair.stored for pair in self.pairs}

    def arriving(self) -> set[str]:
        """The labels that arrive."""
        return {pair.arrives for pair in self.pairs}

    def meanings(self) -> dict[str, str]:
        """What arrives for each label in the file, of those that always arrive as the same one."""
        found: dict[str, set[str]] = {}
        for pair in self.pairs:
            found.setdefault(pair.stored, set()).add(pair.arrives)
        return {stored: next(iter(arriving)) for stored, arriving in found.items() if len(arriving) == 1}


class TracedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The same records, prepared in another way for training."""

    slot: Slot
    name: str
    change: Change
    factor: float = 1.0  # that makes what arrives in training of what arrives here
    offset: float = 0.0
    example: list[float] = []  # one value in training, and the same one here


class TracedUse(msgspec.Struct, frozen=True, kw_only=True):
    """What arrives of `records` known records where a pipeline is used."""

    role: Role
    model: int | None
    place: CodePlace | None
    places: list[CodePlace] = []  # the links of the pipeline, the last one first
    records: int = 0
    rows: int = 0
    features: list[TracedFeature] = []
    absent: list[AbsentFeature] = []
    parts: list[TracedPart] = []
    label: TracedLabel | None = None
    differences: list[TracedDifference] = []
    misplaced: int = 0  # rows away from its input at which the label of a record arrives
    is_mixed: bool = False  # a change of one record changes other rows
    strangers: float = 0.0  # the share of samples that are made of records which are no neighbours in the file
    reordered_at: CodePlace | None = None  # the link that takes neighbours apart
    problem: str = ""  # why it was not followed

    def part(self, slot: Slot) -> TracedPart | None:
        """The only part in a slot."""
        found = [part for part in self.parts if part.slot == slot]
        return found[0] if len(found) == 1 else None

    @property
    def is_row_per_record(self) -> bool:
        """Whether each record became one row."""
        return bool(self.records) and self.rows == self.records
