"""What records hold: features, their types, shapes and encodings."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from bushel.errors import FormatError, nearest
from bushel.storage import AnyPath, as_path, read_named, write_whole
from bushel.storage.file_kinds import IMAGES

__all__ = ["Encoding", "Feature", "FeatureStatistics", "Schema", "SchemaDifference", "sidecar_path"]

RecordKind: TypeAlias = Literal["example", "sequence_example", "bytes"]
Shape: TypeAlias = tuple[int | None, ...]

# Kinds of list on the wire, by the field numbers of Feature.
NO_KIND, BYTES_KIND, FLOAT_KIND, INT_KIND = range(4)

LIST_DTYPES = {"bytes": BYTES_KIND, "str": BYTES_KIND, "float32": FLOAT_KIND, "int64": INT_KIND}
IMAGE_ENCODINGS = (*IMAGES, "image")  # "image" if a feature holds several formats
if TYPE_CHECKING:
    Encoding: TypeAlias = str
else:  # what msgspec accepts
    Encoding = Literal[("list", "raw", *IMAGE_ENCODINGS, "sparse")]
RAW_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


# What values of a list may be in memory, if that is not the type of the list.
_READ_AS = {
    "int64": ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"),
    "float32": ("float16", "float64"),
}


CONTEXT = " (context)"  # behind the name of a feature of the context that shares it with a feature list; as in the core


class FeatureStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found about a feature when a schema was inferred."""

    records: int  # that have it
    of: int  # how many were looked at
    kinds: dict[str, int] = {}  # lists of each type; more than one is a fault of the data
    min_length: int = 0  # values in one record, or in one step of a sequence
    max_length: int = 0
    mean_length: float = 0.0
    min_steps: int | None = None
    max_steps: int | None = None
    min: float | int | None = None
    max: float | int | None = None
    nans: int = 0
    infinities: int = 0
    min_size: int | None = None  # bytes in one value
    max_size: int | None = None
    bytes_per_record: float = 0.0

    @property
    def presence(self) -> float:
        """The share of records that have the feature."""
        return self.records / self.of if self.of else 0.0


class Feature(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One feature of a record.

    `dtype` is int64, float32, bytes or str if values are stored as lists, and any NumPy dtype if they are stored raw.
    In `shape`, None is a size that varies; `()` is one value. `sequence` features have one such value per step.
    `reads_as` is the NumPy dtype of values that are stored as int64 or float32 but were another type, such as bool.
    `meaning` is "date" if the numbers are microseconds since 1970 in UTC.
    `pixels` are height, width and channels of encoded images, as far as they are known and the same in all.
    """

    dtype: str
    shape: Shape = ()
    encoding: Encoding = "list"
    sequence: bool = False
    required: bool = True
    cast: bool = False  # values of other types are cast when written, lossy or not
    reads_as: str = ""
    pixels: Shape = ()
    meaning: Literal["", "date"] = ""

    def __post_init__(self) -> None:
        if self.encoding == "list" and self.dtype not in LIST_DTYPES:
            if self.dtype not in RAW_DTYPES:
                raise ValueError(f"dtype must be one of bytes, str, {', '.join(RAW_DTYPES)}; got {self.dtype!r}")
            msgspec.structs.force_setattr(self, "encoding", "raw")
        if self.encoding == "raw" and self.dtype not in RAW_DTYPES:
            raise ValueError(f"dtype of a raw feature must be one of {', '.join(RAW_DTYPES)}; got {self.dtype!r}")
        if any(size is not None and size < 0 for size in self.shape):
            raise ValueError(f"shape must not have sizes below 0, got {self.shape}")
        if self.shape.count(None) > 1:
            raise ValueError(f"shape must not have more than one size that varies, got {self.shape}")
        if self.encoding == "sparse":
            self._check_sparse()
        if self.reads_as and (self.encoding != "list" or self.reads_as not in _READ_AS.get(self.dtype, ())):
            raise ValueError(f"reads_as must be a type that {self.dtype} stores, got {self.reads_as!r}")
        if self.meaning == "date" and self.dtype != "int64":
            raise ValueError(f"dtype of dates must be int64, got {self.dtype!r}")

    def _check_sparse(self) -> None:
        if len(self.shape) != 1 or None in self.shape:
            raise ValueError(f"shape of a sparse feature must have one known size, got {self.shape}")
        if self.dtype not in ("float32", "int64"):
            raise ValueError(f"dtype of a sparse feature must be float32 or int64, got {self.dtype!r}")
        if self.sequence:
            raise ValueError("a sparse feature must not be a sequence")

    @property
    def kind(self) -> int:
        """The kind of list on the wire."""
        return LIST_DTYPES[self.dtype] if self.encoding == "list" else BYTES_KIND

    @property
    def value_dtype(self) -> str:
        """The type of its values in memory."""
        return self.reads_as or self.dtype

    @property
    def is_ragged(self) -> bool:
        """Whether the number of values varies from record to record."""
        return None in self.shape

    @property
    def is_one_value(self) -> bool:
        """Whether a record stores exactly one value: a scalar, a tensor of raw bytes, an encoded image."""
        return self.shape == () or self.encoding == "raw"

    def describe(self) -> str:
        """As text, such as `float32[64]` or `bytes (jpeg)`."""
        sizes = ",".join("?" if size is None else str(size) for size in self.shape)
        text = (self.meaning or self.value_dtype) + (f"[{sizes}]" if self.shape else "")
        if self.encoding != "list":
            pixels = "x".join("?" if size is None else str(size) for size in self.pixels)
            text += f" ({self.encoding}{f' {pixels}' if pixels else ''})"
        if self.sequence:
            text = f"sequence of {text}"
        return text if self.required else f"{text}, optional"


class SchemaDifference(msgspec.Struct, frozen=True):
    """One way in which two schemas differ."""

    feature: str
    what: str

    def __str__(self) -> str:
        return f"{self.feature}: {self.what}"


class Schema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The features of a dataset, by name."""

    features: dict[str, Feature]
    record: RecordKind = "example"
    statistics: dict[str, FeatureStatistics] = {}

    def __getitem__(self, name: str) -> Feature:
        return self.features[name]

    def __contains__(self, name: object) -> bool:
        return name in self.features

    def __iter__(self) -> Iterator[str]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    @classmethod
    def of(cls, **features: Feature) -> Schema:
        """Make a schema of features."""
        return cls(features=features, record=record_kind(features))

    def select(self, names: list[str]) -> Schema:
        """Keep only the features named."""
        return msgspec.structs.replace(
            self,
            features={name: self.features[name] for name in names},
            statistics={name: self.statistics[name] for name in names if name in self.statistics},
        )

    def to_json(self) -> bytes:
        """As JSON, which FORMAT.md describes."""
        return json_text({"format": 1, **msgspec.to_builtins(self)})

    @classmethod
    def from_json(cls, text: bytes, *, path: AnyPath = "schema") -> Schema:
        """Read what `to_json` wrote."""
        try:
            fields = msgspec.json.decode(text, type=dict[str, Any])
            if (version := fields.pop("format", None)) != 1:
                raise FormatError(path, f"schema of format {version!r}; this bushel reads format 1")
            return msgspec.convert(fields, cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FormatError(path, f"not a schema: {error}") from None

    def differences(self, other: Schema) -> list[SchemaDifference]:
        """What would have to change to turn this schema into `other`; empty if nothing would."""
        found = []
        if self.record != other.record:
            found.append(SchemaDifference("(record)", f"is {self.record}, the other is {other.record}"))
        for name in sorted({*self.features, *other.features}):
            if name not in other:
                close = nearest(name, [n for n in other if n not in self])
                found.append(SchemaDifference(name, "is missing" + (f"; renamed to {close!r}?" if close else "")))
            elif name not in self:
                close = nearest(name, [n for n in self if n not in other])
                found.append(SchemaDifference(name, "is extra" + (f"; renamed from {close!r}?" if close else "")))
            else:
                found.extend(SchemaDifference(name, what) for what in _feature_differences(self[name], other[name]))
        return found


def json_text(value: Any) -> bytes:
    """Indented JSON; names that are not UTF-8 as escaped surrogates, as in Python's json module."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(value), indent=2).encode() + b"\n"


def _feature_differences(one: Feature, other: Feature) -> Iterator[str]:
    for field in Feature.__struct_fields__:
        mine, theirs = getattr(one, field), getattr(other, field)
        if mine != theirs:
            yield f"{field} is {mine!r}, the other's is {theirs!r}"


def wire_features(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Features as they are in records, where a sparse one is two lists: indices and values."""
    found: dict[str, Feature] = {}
    for name, feature in features.items():
        if feature.encoding != "sparse":
            found[name] = feature
            continue
        found[f"{name}/indices"] = Feature(dtype="int64", shape=(None,), required=feature.required)
        found[f"{name}/values"] = Feature(dtype=feature.dtype, shape=(None,), required=feature.required)
    return found


def name_context(name: str, lists: Container[str]) -> str:
    """The name of a feature of the context: another one than on the wire if a feature list has that name."""
    return f"{name}{CONTEXT}" if name in lists else name


def record_kind(features: Mapping[str, Feature]) -> RecordKind:
    """Which message holds such features."""
    return "sequence_example" if any(feature.sequence for feature in features.values()) else "example"


def sidecar_path(path: AnyPath) -> Path:
    """The path of the schema next to a single file."""
    path = as_path(path)
    return path.with_name(path.name + ".schema.json")


def read_sidecar(path: AnyPath) -> Schema | None:
    """The schema next to a single file, if there is one."""
    beside = sidecar_path(path)
    try:
        return Schema.from_json(read_named(beside), path=beside)
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_sidecar(path: AnyPath, schema: Schema) -> None:
    """Write a schema next to a single file."""
    with write_whole(sidecar_path(path)) as file:
        file.write(schema.to_json())


def needs_sidecar(schema: Schema) -> bool:
    """Whether a file needs its schema to be read back as it was written."""
    return any(f.encoding in ("raw", "sparse") or len(f.shape) > 1 for f in schema.features.values())
