"""What adapters to frameworks stand on: what a user asks for, and where each loop over it begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.schema import IMAGE_ENCODINGS, Schema
from bushel.errors import FileProblem, MissingName, SchemaMismatch, quantity
from bushel.feeding.preparation import arrange
from bushel.reading import Batch, Bucket, Dataset, Feed, Order, Pack, Split, Workers
from bushel.reading import open as open_dataset
from bushel.reading.pipeline import FeedSettings
from bushel.reading.raw import fit_to
from bushel.storage import AnyPath

Data: TypeAlias = AnyPath | Iterable[AnyPath] | Dataset | Split | Any

_ABOUT_IMAGES = (
    "height",
    "width",
    "channels",
    "format",
    "filename",
    "source_id",
    "key/sha256",
    "top",
    "left",
    "timestamp",
)
_PROBED = 16  # records that are tried to see what transforms make of them


@dataclass(frozen=True)
class Request:
    """The records of a split, how they are read, and which feature is the label."""

    split: Split
    settings: FeedSettings
    label: str | None

    @property
    def columns(self) -> Sequence[str]:
        """The features that are read."""
        assert self.settings.columns is not None
        return self.settings.columns

    @property
    def is_weighted(self) -> bool:
        """Whether a batch may hold filler rows, so that each row needs a weight."""
        return self.settings.order.uneven != "drop" or self.settings.on_fault == "replace"

    @property
    def rows(self) -> int | None:
        """How many rows every batch has; None if not all have the same number."""
        order, size = self.settings.order, self.settings.batch_size
        if self.settings.on_fault == "skip":
            return None
        is_even = len(self.split) % (size * order.world) == 0 and not self.is_packed
        return size if self.settings.drop_last or is_even else None

    @property
    def is_packed(self) -> bool:
        """Whether several records share a row, so that the number of batches is not known."""
        return any(isinstance(step, Pack) for step in self.settings.layout)


@dataclass(frozen=True)
class Fields:
    """How the columns of a batch become what a model takes: the features, the label, and a weight for each row."""

    features: tuple[str, ...]
    label: str | None
    is_weighted: bool

    def arrange(self, columns: dict[str, Any], weight: Any = None) -> Any:
        """The only feature, or a dict of all; then the label and the weights, if any."""
        x = arrange({name: columns[name] for name in self.features})
        if self.label is None:
            return x
        pair = (x, columns[self.label])
        return (*pair, weight) if self.is_weighted else pair


def fields_of(request: Request, columns: Iterable[str]) -> Fields:
    """How these columns are arranged."""
    names = tuple(columns)
    if request.label is not None and request.label not in names:
        raise SchemaMismatch("the transforms leave no label", at=request.label)
    return Fields(tuple(name for name in names if name != request.label), request.label, request.is_weighted)


def request_of(split: Split, settings: FeedSettings, label: str | None) -> Request:
    """Choose the features: those named, or all except those that only describe a record."""
    schema, columns = split.schema, settings.columns
    split.wanted(columns)
    if label is not None and label not in schema:
        raise MissingName("feature", label, schema, where=split.paths[0])
    if label is not None and columns is not None and label not in columns:
        columns = [*columns, label]
    names = [name for name in schema if not is_metadata(name, schema)] if columns is None else list(columns)
    label = label or (split.label if split.label in names else None)
    if not len(split):
        raise FileProblem(split.paths[0], f"the split {split.name!r} has no records")
    fitted = fit_to(split, settings.transforms, settings.order.seed)
    request = Request(split, msgspec.structs.replace(settings, columns=names, transforms=fitted), label)
    if request.is_weighted and label is None:
        raise ValueError(
            "label must be given where rows may fill up a batch (uneven or on_fault other than the default), "
            "because their weights come after it; got None"
        )
    return request


def is_metadata(name: str, schema: Schema) -> bool:
    """Whether a feature only describes a record, as `key`, `image/height` and `audio/rate` do."""
    if name == "key" or name.removesuffix("/rate").removesuffix("/seconds") in set(schema) - {name}:
        return True
    for suffix in _ABOUT_IMAGES:
        image = name.removesuffix(f"/{suffix}")
        if image != name and any(
            other in schema and schema[other].encoding in (*IMAGE_ENCODINGS, "raw")
            for other in (image, f"{image}/encoded")
        ):
            return True
    return False


def open_split(data: Data, split: str | None, schema: Schema | None = None) -> Split:
    """The split that is meant."""
    if isinstance(data, Split):
        if split is not None or schema is not None:
            raise ValueError(f"split and schema must be left out for a split that is open, got {split or schema!r}")
        return data
    opened = data if isinstance(data, Dataset) else open_dataset(data, schema=schema)
    return opened.choose(split)


def row_weights(batch: Batch) -> NDArray[np.float32]:
    """1 for each real row, 0 for filler."""
    return np.ones(len(batch.rows), np.float32) if batch.real is None else batch.real.astype(np.float32)


def probe(request: Request) -> Batch:
    """The first few records as a batch, to see what transforms and layout make of them, or why they fail."""
    settings = request.settings
    small = msgspec.structs.replace(
        settings,
        batch_size=min(settings.batch_size, _PROBED),
        order=Order(seed=settings.order.seed),
        epochs=1,
        layout=tuple(step for step in settings.layout if not isinstance(step, Bucket)),
        drop_last=False,
        workers=Workers(threads=1, ahead=1),
    )
    with Feed(request.split, small) as feed:
        batch = next(iter(feed), None)
    if batch is None:
        raise FileProblem(request.split.paths[0], "no record of the split can be read")
    return batch


def digest_of(split: Split) -> int:
    """A number that tells the records of a split from those of another, wherever its files are."""
    files = (
        [(Path(shard.path).name, shard.bytes, shard.sha256) for shard in split.promised]
        if split.promised is not None
        else [(shard.path.name, shard.size, "") for shard in split.shards.shards]
    )
    chosen = b"" if split.rows is None else split.rows.tobytes()
    return _native.xxh64(repr(files).encode() + chosen) >> 33  # 31 bits, which every framework stores


def run_identity(request: Request) -> dict[str, int]:
    """What must stay the same for a number of batches to mean the same place in the data."""
    settings = request.settings
    return {
        "batch_size": settings.batch_size,
        "ranks": settings.order.world,
        "seed": settings.order.seed,
        "records": len(request.split),
        "dataset": digest_of(request.split),
    }


class Loops:
    """Loops over a split, one after the other: each reads the next epochs, or goes on where a state was taken."""

    def __init__(self, split: Split, epochs: int | None) -> None:
        self._split = split
        self._epochs = epochs
        self._digest = digest_of(split)
        self._next_epoch = 0  # where the next loop begins, unless a state was loaded
        self._loaded: dict[str, int] | None = None
        self._is_resumed = False  # inside the loop that the state was taken in, even if nothing is left of it
        self._state: dict[str, int] | None = None  # after the last batch returned

    @property
    def turn(self) -> int | None:
        """Whose turn it is after the state that was loaded, if several processes took turns."""
        return self._loaded["turn"] if self._loaded and self._loaded["turns"] > 1 else None

    def begin(self, feed: Feed) -> None:
        """Go where the next loop begins."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None and self._is_through(loaded) and not self._is_resumed:
            self._next_epoch, loaded = loaded["epoch"], None
        if loaded is not None and loaded["turns"] not in (1, feed.settings.turns):
            workers = quantity(feed.settings.turns, "worker")
            raise ValueError(f"state must be of a DataLoader with {workers}, got one with {loaded['turns']}")
        feed.restore(self._beginning(feed) if loaded is None else loaded)
        self._state = self.state_of(feed)
        began = self._state["epoch"] + 1 if self._epochs is None else self._state["pass"] + self._epochs
        self._next_epoch = began

    def end(self) -> None:
        """Note that a loop came to its end."""
        self._state = None

    def note(self, state: dict[str, int]) -> None:
        """Note where reading stands after the batch that is returned now."""
        self._state = state

    def state_of(self, feed: Feed) -> dict[str, int]:
        """Where a feed stands."""
        return {**feed.state(), "turn": feed.turn, "turns": feed.settings.turns, "dataset": self._digest}

    def state(self, feed: Feed) -> dict[str, int]:
        """Where reading stands after the last batch returned."""
        begin = {**self.state_of(feed), **self._beginning(feed), "turn": feed.settings.turn}
        return dict(self._loaded or self._state or begin)

    def load(self, feed: Feed, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; refuses one of another dataset."""
        given = {name: int(value) for name, value in state.items()}
        if (found := given.get("dataset")) != self._digest:
            where = f"{self._split.paths[0].parent} ({self._split.name})"
            raise ValueError(
                f"state must be of the dataset that is read, {where}; it is of another: "
                f"digest {found}, not {self._digest}"
            )
        feed.restore(given)
        self._loaded, self._state, self._is_resumed = given, None, False

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, unless a state inside of it was loaded."""
        if epoch < 0:
            raise ValueError(f"epoch must be at least 0, got {epoch}")
        self._next_epoch = epoch * (self._epochs or 1)
        loaded = self._loaded
        if loaded is not None:
            self._is_resumed = self._next_epoch == loaded["pass"]
            self._loaded = loaded if self._next_epoch in (loaded["pass"], loaded["epoch"]) else None

    def _beginning(self, feed: Feed) -> dict[str, int]:
        epoch = self._next_epoch
        return {**feed.state(), "epoch": epoch, "position": 0, "bin": 0, "pass": epoch}

    def _is_through(self, state: dict[str, int]) -> bool:
        return self._epochs is not None and state["epoch"] >= state["pass"] + self._epochs
