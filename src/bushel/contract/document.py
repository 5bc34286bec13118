"""`contract.json`: its fields, and reading and writing it, arrays bit for bit. FORMAT.md names every field."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import math
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged, SparseRow
from bushel.data.samples import Sample
from bushel.data.schema import Schema
from bushel.errors import BushelError, FileProblem, FormatError, understood
from bushel.feeding import preparation as feeding
from bushel.feeding.preparation import (
    Input,
    LayoutStep,
    OutputKind,
    Preparation,
    Problem,
    Target,
    TargetKind,
    as_array,
    output_kind,
)
from bushel.reading.layout import Dense, Pad, Sparse
from bushel.storage import AnyPath, as_path, open_to_read, write_whole
from bushel.transforms import Fittable, Transform
from bushel.transforms.by_name import describe_transforms, make_from_data
from bushel.transforms.fitted import keep, restore

LARGEST = 4 << 20  # bytes of an array that is kept in full; of a larger one, only the digest is


class StoredArray(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An array: its little-endian bytes in C order, deflated, as base64; `sha256` is of the bytes before deflating."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str
    data: str | None = None  # None if only the digest is kept


class StoredValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a sample; exactly one of these fields is set."""

    number: int | float | bool | None = None
    text: str | None = None
    bytes: str | None = None  # base64
    array: StoredArray | None = None
    list: tuple[StoredValue, ...] | None = None
    sparse: tuple[StoredArray, StoredArray, int] | None = None  # places, values, size


def store_array(array: NDArray[Any], *, largest: int = LARGEST) -> StoredArray:
    """An array as JSON holds it."""
    array = np.asarray(array)
    data = little_endian(array).tobytes()
    kept = base64.b64encode(zlib.compress(data, 6)).decode() if len(data) <= largest else None
    return StoredArray(dtype=array.dtype.name, shape=array.shape, sha256=_digest(data), data=kept)


def load_array(stored: StoredArray) -> NDArray[Any] | None:
    """The array that was stored; None if only its digest was kept. Damage is a ValueError."""
    if stored.data is None:
        return None
    dtype = np.dtype(stored.dtype)
    size = math.prod(stored.shape) * dtype.itemsize
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(stored.data, validate=True), size + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"a stored array is damaged: {error}") from None
    if len(data) != size or _digest(data) != stored.sha256:
        raise ValueError("a stored array is damaged: its digest does not match")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(stored.shape)


def store_bytes(data: bytes) -> StoredArray:
    """A file as JSON holds it."""
    return store_array(np.frombuffer(data, np.uint8), largest=1 << 62)


def load_bytes(stored: StoredArray) -> bytes:
    """The file that was stored. Damage is a ValueError."""
    array = load_array(stored)
    if array is None:
        raise ValueError("a stored file is damaged: its data is missing")
    return array.tobytes()


def is_same(array: NDArray[Any], stored: StoredArray) -> bool:
    """Whether an array is, bit for bit, the one that was stored."""
    same_kind = array.dtype.name == stored.dtype and array.shape == stored.shape
    return same_kind and _digest(little_endian(array).tobytes()) == stored.sha256


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """The same values with the byte order that is stored."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def store_sample(sample: Sample) -> dict[str, StoredValue]:
    """A sample as JSON holds it."""
    return {name: _store(value) for name, value in sample.items()}


def _store(value: Any) -> StoredValue:
    if isinstance(value, bytes):
        return StoredValue(bytes=base64.b64encode(value).decode())
    if isinstance(value, str):
        return StoredValue(text=value)
    if isinstance(value, list | tuple):
        return StoredValue(list=tuple(_store(inner) for inner in value))
    if isinstance(value, SparseRow):
        places, values = (store_array(part, largest=1 << 62) for part in (value.places, value.values))
        return StoredValue(sparse=(places, values, value.size))
    if isinstance(value, np.ndarray | np.generic):
        return StoredValue(array=store_array(np.asarray(value), largest=1 << 62))
    return StoredValue(number=value)


def load_sample(stored: Mapping[str, StoredValue]) -> Sample:
    """The sample that was stored. Damage is a ValueError."""
    return {name: _load(value) for name, value in stored.items()}


def _load(value: StoredValue) -> Any:
    if value.array is not None:
        return load_array(value.array)
    if value.bytes is not None:
        try:
            return base64.b64decode(value.bytes, validate=True)
        except binascii.Error as error:
            raise ValueError(f"stored bytes are damaged: {error}") from None
    if value.sparse is not None:
        places, values, size = value.sparse
        return SparseRow(np.asarray(load_array(places)), np.asarray(load_array(values)), size)
    if value.list is not None:
        return [_load(inner) for inner in value.list]
    return value.text if value.text is not None else value.number


FORMAT = 1
CONTRACT_NAME = "contract.json"
_LAYOUTS: dict[str, type[LayoutStep]] = {"pad": Pad, "sparse": Sparse, "dense": Dense}


class Golden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record, and exactly what the model saw."""

    record: str  # SPLIT:NUMBER
    sample: dict[str, StoredValue]  # the features that are read
    inputs: dict[str, StoredValue]  # one row, without the batch's axis
    label: StoredValue | None = None
    outputs: dict[str, StoredArray] = {}  # of the model, one row


class Contract(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What a model was trained on, and how its inputs were made."""

    schema: Schema  # of the features that are read, including the label
    inputs: dict[str, Input]  # in the order of the model's input dict
    prepared_by: dict[str, Any]  # a `Preparation`, described
    golden: list[Golden] = []
    label: str | None = None
    task: str | None = None
    classes: list[str] = []  # by code
    label_values: list[int | str] | None = None  # what records hold, by code, if that is not the code itself
    label_counts: list[int] = []  # records of each class in the train split
    label_width: int = 1  # numbers to be predicted, of a regression
    gives: OutputKind | None = None  # what the model's outputs are; None: judged by the golden outputs
    raw: Schema | None = None  # the schema of the source of the dataset, before its transforms
    statistics: dict[str, Any] = {}  # what the transforms of the build learned, by their id
    files: dict[str, StoredArray] = {}  # the files of these transforms
    vocabularies: dict[str, str] = {}  # SHA-256 by the file in _artifacts, or by the number and field of a transform
    build: dict[str, Any] = {}  # the recipe of the dataset: how raw files became samples
    data: str = ""  # digest of the dataset's manifest
    versions: dict[str, str] = {}
    format: int = FORMAT

    @cached_property
    def preparation(self) -> Preparation:
        """The steps from a raw sample, or a record, to the model's input."""
        build = make_from_data(self.build.get("transforms", ()))
        build = restore(build, self.statistics, lambda name: load_bytes(self.files[name]))
        inputs = tuple(msgspec.structs.replace(given, name=name) for name, given in self.inputs.items())
        return msgspec.structs.replace(_load_preparation(self.prepared_by), build=tuple(build), inputs=inputs)

    @cached_property
    def problem(self) -> Problem:
        """What the model is fed, and what it predicts."""
        return Problem(self.preparation, self.target)

    @cached_property
    def target(self) -> Target:
        """What the model predicts, and how labels are encoded."""
        kind = self.task or ("classification" if self.classes else "regression")
        if kind == "classification":
            kind = "binary" if len(self.classes) == 2 else "multi_class"
        return Target(
            kind=cast("TargetKind", kind),
            label=self.label or "label",
            classes=self.classes,
            values=self.label_values,
            width=self.label_width,
            counts=self.label_counts,
        )

    @cached_property
    def output_kind(self) -> OutputKind:
        """What the model's outputs are; if the contract does not say, judging by the golden outputs."""
        kept = [load_array(stored) for golden in self.golden for stored in golden.outputs.values()]
        outputs = [array.reshape(-1) for array in kept if array is not None]
        if self.gives is not None or not outputs or len({len(array) for array in outputs}) > 1:
            return self.gives or output_kind(self.task, np.zeros((0, 1)))
        return output_kind(self.task, np.stack(outputs))

    def samples(self) -> list[Sample]:
        """The samples of the golden inputs."""
        return [load_sample(golden.sample) for golden in self.golden]


def prepare(contract: Contract, samples: Sequence[Sample], *, built: bool = False) -> dict[str, Any]:
    """Raw samples as the model takes them: the columns of a batch, one row per sample, without the label.

    They go through the transforms of the build, with what those learned, and then through those of reading. With
    `built=True` the samples are records of a dataset, which have been through the build already.

    >>> contract.prepare(contract.read("runs/cats"), [{"image": open("cat.jpg", "rb").read()}])["image"].shape
    (1, 160, 160, 3)
    """
    steps = contract.preparation
    records = samples if built else [feeding.to_record(steps, sample, contract.label) for sample in samples]
    return feeding.prepare_samples(steps, contract.schema, records)


def arrange(contract: Contract, columns: Mapping[str, Any]) -> Any:
    """The columns of a batch as the argument of the model: its only input, or a dict of all."""
    return feeding.arrange({name: as_array(name, columns[name]) for name in contract.inputs})


def store_preparation(preparation: Preparation) -> dict[str, Any]:
    """The steps of reading as plain values; those of the build are in the recipe."""
    layout = [{"layout": type(step).__name__.lower(), **msgspec.structs.asdict(step)} for step in preparation.layout]
    learned = keep(preparation.steps)
    files = {name: msgspec.to_builtins(store_bytes(data)) for name, data in learned.files.items()}
    described = describe_transforms([_unfitted(transform) for transform in preparation.steps])
    more = {"statistics": learned.statistics, "files": files}
    return {"features": list(preparation.features), "transforms": described, "layout": layout} | {
        name: value for name, value in more.items() if value
    }


def _unfitted(transform: Transform) -> Transform:
    """The transform without what it learned, which is stored separately."""
    if not isinstance(transform, Fittable):
        return transform
    if isinstance(transform, msgspec.Struct):
        return msgspec.structs.replace(transform, fitted=None)
    changed: Any = dataclasses.replace(transform, fitted=None)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]


def _load_preparation(stored: Mapping[str, Any]) -> Preparation:
    """The preparation that was stored. Raises ValueError if it cannot be understood."""
    layout = []
    for table in stored.get("layout", ()):
        fields = dict(table)
        kind = _LAYOUTS.get(str(fields.pop("layout", "")))
        if kind is None:
            raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}; got {table!r}")
        layout.append(msgspec.convert(fields, kind))
    files = msgspec.convert(stored.get("files", {}), dict[str, StoredArray])
    made = make_from_data(stored.get("transforms", ()))
    transforms = restore(made, stored.get("statistics", {}), lambda name: load_bytes(files[name]))
    return Preparation(tuple(stored["features"]), tuple(transforms), tuple(layout))


def read(path: AnyPath) -> Contract:
    """Read the contract of a run: its folder, or the file itself."""
    path = as_path(path)
    if path.is_dir():
        if not (path / CONTRACT_NAME).is_file():
            raise FileProblem(path, f"there is no {CONTRACT_NAME} in this folder, so this is not a finished run")
        path = path / CONTRACT_NAME
    with open_to_read(path) as file:
        text = file.read()
    with understood(path, "not a contract"):
        version = msgspec.json.decode(text, type=_Version).format
        if version != FORMAT:
            raise FormatError(
                path,
                f"contract of format {version}; this bushel reads format {FORMAT}",
                help=["Install the bushel that wrote it, or a later one."],
            )
        contract = msgspec.json.decode(text, type=Contract)
        for name in contract.prepared_by["features"]:
            if name not in contract.schema:
                raise ValueError(f"prepared_by.features names {name!r}, which its schema does not have")
        try:
            _ = contract.preparation, contract.samples()  # made now, so that an error in them names the file
        except FormatError:
            raise
        except BushelError as error:
            raise FormatError(path, f"not a contract: {error}") from None
    return contract


class _Version(msgspec.Struct):
    format: int


def write(contract: Contract, path: AnyPath) -> None:
    """Write a contract, completely or not at all."""
    fields = {"format": FORMAT, **msgspec.to_builtins(contract)}
    with write_whole(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(fields), indent=1) + b"\n")


def row_value(column: Any, row: int) -> Any:
    """One row of a model's input: an array, bytes, or a list of them."""
    value = column[row]
    if isinstance(value, BytesColumn | Ragged):
        return value.to_list()
    return np.asarray(value) if not isinstance(value, bytes | list) else value
