"""What was seen of the data, in the words that rules use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bushel.checking.findings import Location
from bushel.data.roles import Account
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, INT_KIND, Schema
from bushel.data.splits import ALL, TRAIN, find, split_of_file
from bushel.data.tf_descriptions import Declared
from bushel.errors import FileProblem
from bushel.records.files import Skipped
from bushel.records.manifest import Manifest
from bushel.storage import AnyPath, as_path
from bushel.storage.file_kinds import CORE_IMAGES

KIND_NAMES = {BYTES_KIND: "bytes", FLOAT_KIND: "float32", INT_KIND: "int64"}
FORMATS = ("other", *CORE_IMAGES)
MISSING = np.iinfo(np.int64).min

T = TypeVar("T")
Place = tuple[int, int]  # number of the file, number of the record in it


@dataclass(frozen=True)
class ReadingPlan:
    """How the data is going to be read, where that is known."""

    batch_size: int | None = None
    shuffle_buffer: int | None = None
    classes: int | None = None  # of the model's head
    said_by: str | None = None  # the script's line, for help
    is_regression: bool = False  # whether integer labels are numbers to be predicted


@dataclass
class FileFacts:
    """One file."""

    number: int
    path: Path
    split: str
    size: int = 0
    compression: str | None = None
    records: int = 0
    faults: list[Skipped] = field(default_factory=list)
    unstable: list[Skipped] = field(default_factory=list)
    problem: FileProblem | None = None
    stale_index: FileProblem | None = None
    labels: dict[int, int] = field(default_factory=dict)
    quantiles: dict[str, tuple[float, float, int]] = field(default_factory=dict)  # of sizes: half, 90 %, how many

    def digest(self) -> str:
        """The SHA-256 of all its bytes."""
        with self.path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()


class FeatureFacts:
    """One feature over all records that were looked at. `seen` is what the core counted."""

    def __init__(self, seen: dict[str, Any], total: int) -> None:
        self.seen = seen
        self.total = total
        self.name: str = seen["name"]
        self.records: int = seen["records"]
        self.is_list: bool = seen["sequence"]

    @property
    def kind(self) -> int:
        """The kind of list that most records hold."""
        return max((BYTES_KIND, FLOAT_KIND, INT_KIND), key=lambda kind: self.seen["kinds"][kind])

    @property
    def dtype(self) -> str:
        """The kind in words."""
        return KIND_NAMES[self.kind]

    @property
    def min(self) -> float:
        """The smallest finite value."""
        return float(self.seen["min"])

    @property
    def max(self) -> float:
        """The largest finite value."""
        return float(self.seen["max"])

    @property
    def mean(self) -> float:
        """Of the finite values."""
        return float(self.seen["sum"] / self.seen["finite"]) if self.seen["finite"] else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation of the finite values."""
        if not self.seen["finite"]:
            return 0.0
        variance = self.seen["squares"] / self.seen["finite"] - self.mean**2
        return float(np.sqrt(max(variance, 0.0)))

    @property
    def is_number(self) -> bool:
        """Whether values are numbers of which some are finite."""
        return self.kind != BYTES_KIND and self.seen["finite"] > 0

    @property
    def lengths(self) -> dict[int, int]:
        """How many records hold so many values; at most 64 different ones."""
        return {length: count for length, (count, _, _) in self.seen["lengths"][0].items()}

    @property
    def length(self) -> int | None:
        """How many values each record holds, if it is always the same number."""
        low, high = self.seen["min_count"], self.seen["max_count"]
        return int(low) if low == high else None

    @property
    def values_known(self) -> bool:
        """Whether the number of values was counted for every record."""
        return not self.seen["lengths"][1]

    @property
    def sizes(self) -> dict[int, int]:
        """How many bytes values have so many bytes; at most 64 different ones."""
        return {size: count for size, (count, _, _) in self.seen["sizes"][0].items()}

    @property
    def size(self) -> int | None:
        """How many bytes each value has, if it is always the same number."""
        low, high = self.seen["min_size"], self.seen["max_size"]
        return int(low) if low == high else None

    @property
    def formats(self) -> dict[str, int]:
        """Formats of bytes values, by their first bytes."""
        return {name: count for name, count in zip(FORMATS, self.seen["formats"], strict=True) if count}

    @property
    def is_image(self) -> bool:
        """Whether most values are encoded images."""
        images = sum(count for name, count in self.formats.items() if name != "other")
        return images > 0 and images >= self.seen["formats"][0]

    @property
    def is_text(self) -> bool:
        """Whether nearly all values are text."""
        return self.kind == BYTES_KIND and self.seen["texts"] > 0 and self.seen["texts"] >= 9 * self.seen["not_text"][0]

    @property
    def distinct(self) -> dict[Any, int] | None:
        """How often each value occurs, of a feature with one value a record; None if there are more than 64."""
        counts, full = self.seen["scalars"]
        if full or not counts:
            return None
        return {self._value(bits): count for bits, (count, _, _) in counts.items()}

    def _value(self, bits: int) -> Any:
        if self.kind == BYTES_KIND:
            return self.seen["texts_by_hash"].get(bits, bits)
        if self.kind == FLOAT_KIND:
            return float(np.uint64(bits).view(np.float64))
        return int(np.uint64(bits).view(np.int64))


@dataclass
class SplitFacts:
    """One split."""

    name: str
    records: int
    features: dict[str, FeatureFacts]
    labels: NDArray[np.int64]  # of every record, in the order of the files; MISSING where there is none
    malformed: Any = None
    empty: Any = None
    signatures: Any = None
    groups: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @cached_property
    def coded_labels(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Labels as codes from 0 on, and what the codes stand for."""
        return encode_labels(self.labels)

    @cached_property
    def label_counts(self) -> dict[int, int]:
        """How many records each label has."""
        codes, values = self.coded_labels
        return dict(zip(values.tolist(), np.bincount(codes, minlength=len(values)).tolist(), strict=True))


_SPREAD = 1 << 20  # of labels that a table has room for


def encode_labels(labels: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Labels, without those that are missing, as codes from 0 on; and what the codes stand for, in order."""
    is_there = labels != MISSING
    known = labels if is_there.all() else labels[is_there]
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, -1)
    if high - low >= _SPREAD:
        found, inverse = np.unique(known, return_inverse=True)
        return inverse.astype(np.int32), found
    codes: NDArray[np.int32] = (known - low).astype(np.int32)
    values: NDArray[np.int64] = np.flatnonzero(np.bincount(codes))
    if len(values) <= high - low:  # there are gaps
        table = np.zeros(high - low + 1, np.int32)
        table[values] = np.arange(len(values))
        codes = table[codes]
    return codes, values + low


@dataclass
class Data:
    """All that was seen in one pass over the data."""

    files: list[FileFacts]
    splits: dict[str, SplitFacts]
    features: dict[str, FeatureFacts]  # over all splits
    plan: ReadingPlan = field(default_factory=ReadingPlan)
    manifest: Manifest | None = None
    schema: Schema | None = None  # declared by a manifest, or in a file next to the records
    declared: list[Declared] | None = None  # by a `schema.pbtxt`
    label: str | None = None
    label_is_integer: bool = False
    duplicates: Any = None
    rows: Any = None
    contents: Any = None  # some records, as what is compared of them
    left_out: dict[str, str] = field(default_factory=dict)  # what copies are compared without, and what it is
    looks: dict[str, Any] = field(default_factory=dict)  # of texts, by feature
    identity: set[str] = field(default_factory=set)  # features that tell records apart, labels and groups
    account: Account | None = None  # what each feature is taken for
    pictures: Any = None
    sounds: Any = None
    texts: Any = None
    boxes: Any = None
    tokens: dict[str, dict[str, int]] = field(default_factory=dict)
    label_pairs: dict[str, dict[str, set[int]]] = field(default_factory=dict)  # split -> class name -> codes
    missing_paths: list[FileProblem] = field(default_factory=list)
    digests: dict[int, Future[str]] = field(default_factory=dict)  # of files, as far as they are already looked for
    _shared: dict[str, Any] = field(default_factory=dict)
    _locks: dict[str, Lock] = field(default_factory=dict)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What several rules share: made for the first that asks, while the others wait."""
        with self._locks.setdefault(name, Lock()):
            if name not in self._shared:
                self._shared[name] = make()
        found: T = self._shared[name]
        return found

    @property
    def left_out_by_name(self) -> set[str]:
        """Features that copies are compared without because of what they are taken for, which may be wrong."""
        key = {"key"} if self.manifest is not None else set()  # which a build writes
        return {name for name in self.identity & set(self.features) if name != self.label} - key

    @property
    def records(self) -> int:
        """Intact ones, over all splits."""
        return sum(split.records for split in self.splits.values())

    @property
    def train(self) -> SplitFacts | None:
        """What is trained on: the split of that name, or all there is."""
        return self.splits.get(find(self.splits, TRAIN, ALL) or TRAIN)

    @cached_property
    def class_names(self) -> dict[int, str]:
        """The name of each class whose name is known."""
        if self.manifest is not None and self.manifest.label is not None and self.manifest.label.names:
            return dict(enumerate(self.manifest.label.names))
        codes: dict[int, str] = {}
        if self.label in self.features and not self.label_is_integer:
            texts = self.features[self.label].seen["texts_by_hash"]
            codes = {int(np.uint64(code).view(np.int64)): text for code, text in texts.items()}
        for pairs in self.label_pairs.values():
            for name, found in pairs.items():
                for code in found:
                    codes.setdefault(code, name)
        return codes

    def class_of(self, code: int) -> str:
        """A class by its name, or by its number where it has none."""
        return repr(self.class_names[code]) if code in self.class_names else str(code)

    def classes_of(self, codes: Iterable[int], most: int = 5) -> str:
        """Some classes, and how many more."""
        known = list(codes)
        more = f" and {len(known) - most:,} more" if len(known) > most else ""
        return ", ".join(self.class_of(code) for code in known[:most]) + more

    def by_class(self, counts: Mapping[int, Any]) -> dict[str, Any]:
        """Figures by the names of their classes, as evidence."""
        return {self.class_names.get(code, str(code)): figure for code, figure in counts.items()}

    def location(self, place: Place, feature: str | None = None) -> Location:
        """A place in words."""
        number, record = place
        return Location(file=str(self.files[number].path), record=record, feature=feature)

    def locations(self, places: Any, feature: str | None = None) -> list[Location]:
        """Those of the places that were kept."""
        return [self.location(tuple(place), feature) for place in places[1]]

    def files_of(self, split: str) -> list[FileFacts]:
        """The files of one split."""
        return [file for file in self.files if file.split == split]

    def examined(self) -> str:
        """How much was looked at."""
        return f"{self.records:,} of {self.records:,} records read"


def split_of(path: AnyPath) -> str:
    """The split that a file's name says, or its folder's; `all` if neither says one."""
    path = as_path(path)
    return split_of_file(path) or ALL
