"""What reaches a model and its loss, whatever carries it: one description for arrays, datasets and generators."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Carrier: TypeAlias = Literal["arrays", "tf.data", "PyDataset", "generator"]
Role: TypeAlias = Literal["train", "val", "evaluate", "predict"]


class CodePlace(msgspec.Struct, frozen=True, array_like=True):
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""


class DeliveredColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table, over the rows that were looked at."""

    index: int
    low: float
    high: float
    mean: float
    deviation: float
    values: int  # that differ; at most `MOST_VALUES` are counted
    is_whole: bool  # whole numbers only

    @property
    def size(self) -> float:
        """How large its values are, of either sign."""
        return max(abs(self.low), abs(self.high))


MOST_VALUES = 40


class DeliveredPart(msgspec.Struct, frozen=True, kw_only=True):
    """One input or one target."""

    name: str
    shape: list[int]
    dtype: str
    columns: list[DeliveredColumn] = []  # of tables; empty for images, texts and sequences


class FollowedStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a program does with data or a model; `problem` says why it was not followed."""

    what: str
    line: int | None = None
    problem: str = ""

    def __str__(self) -> str:
        where = f" in line {self.line}" if self.line is not None else ""
        return f"{self.what}{where}" + (f" ({self.problem})" if self.problem else "")


class TriedOptimizer(msgspec.Struct, frozen=True, kw_only=True):
    """The mean loss over some real batches after some steps, with the script's optimizer and with a reference."""

    steps: int
    begin: float
    end: float
    end_with_adam: float
    rate_with_adam: float


class DeliveredData(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is trained or measured on, as measured over `rows` rows: all of them if it is `complete`."""

    role: Role
    carrier: Carrier
    inputs: list[DeliveredPart]
    targets: list[DeliveredPart]
    rows: int
    complete: bool
    places: list[CodePlace] = []  # where it is made, the last line first
