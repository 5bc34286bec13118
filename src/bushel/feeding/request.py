"""What a user asks of an adapter: which records, which features, and what to do with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.schema import IMAGE_ENCODINGS, Schema
from bushel.errors import FileProblem, MissingName, SchemaMismatch
from bushel.feeding.preparation import arrange
from bushel.reading import Batch, Bucket, Dataset, Feed, Order, Pack, Split, Workers
from bushel.reading import open as open_dataset
from bushel.reading.pipeline import Settings
from bushel.reading.raw import fit_to
from bushel.storage import AnyPath

__all__ = [
    "Data",
    "Fields",
    "Request",
    "fields_of",
    "is_metadata",
    "open_split",
    "probe",
    "request_of",
    "row_weights",
]

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
    settings: Settings
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


def request_of(split: Split, settings: Settings, label: str | None) -> Request:
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
