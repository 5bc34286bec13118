"""`contract.json`: its fields, how a run makes it, reading and writing it, arrays bit for bit. FORMAT.md has all."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import importlib.metadata
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import __version__
from bushel.data.columns import BytesColumn, Ragged, SparseRow
from bushel.data.samples import Sample, sample_at
from bushel.data.schema import Schema
from bushel.errors import BushelError, FileProblem, FormatError, MissingName, understood
from bushel.feeding import preparation as feeding
from bushel.feeding.preparation import (
    Input,
    LayoutStep,
    OutputKind,
    Preparation,
    Problem,
    Resizing,
    Target,
    TargetKind,
    as_array,
    output_kind,
)
from bushel.reading import Dataset, Split, Workers, batches
from bushel.reading.layout import Dense, Pad, Sparse
from bushel.records.manifest import MANIFEST_NAME, Manifest, artifacts_folder
from bushel.storage import AnyPath, as_path, open_to_read, read_named, write_whole
from bushel.transforms import Draw, Fittable, Transform, decode_image, resize
from bushel.transforms.by_name import describe_transforms, make_from_data
from bushel.transforms.chain import keep, restore
from bushel.transforms.interface import declared

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


_COLOURS = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_CODECS = ("numpy", "pillow", "simplejpeg")
_LOOKED_AT = 100_000  # labels to search for golden inputs of several classes


def make(
    data: Dataset,
    preparation: Preparation,
    *,
    split: str = "train",
    label: str | None = None,
    golden: int = 4,
    outputs: Callable[[Any], Any] | None = None,
    target: Target | None = None,
    gives: OutputKind | None = None,
) -> Contract:
    """Make the contract of a model that was trained on `data` with this preparation.

    The golden inputs are read by `batches`, as in training, from records of as many classes as possible. `outputs` is
    called with the model's input of one row, and its result is stored too; `gives` says whether these are logits,
    probabilities or numbers. `target` is what the model predicts; by default the label of the manifest.
    """
    chosen = data[split]
    label = target.label if target else label or (chosen.label if chosen.label in chosen.schema else None)
    for name in (*preparation.features, *([label] if label else ())):
        if name not in chosen.schema:
            raise MissingName("feature", name, chosen.schema, where=data.where)
    _refuse_chance(preparation, chosen)
    rows = _golden_rows(chosen, label, golden)
    columns = [name for name in (*preparation.features, label) if name is not None]
    feed = batches(
        chosen if chosen.is_sequential else chosen.select(rows),
        batch_size=1,
        columns=list(dict.fromkeys(columns)),
        transforms=preparation.steps,
        layout=preparation.layout,
        workers=Workers(threads=1, ahead=1),
    )
    with feed:
        seen = [{name: as_array(name, column) for name, column in batch.items()} for batch in islice(feed, len(rows))]
    contract = _described(data, preparation, chosen.schema.select(list(dict.fromkeys(columns))), label)
    inputs = _inputs(preparation, seen, label)
    contract = msgspec.structs.replace(contract, inputs=inputs, gives=gives)
    if target is not None:
        contract = msgspec.structs.replace(
            contract,
            task=target.kind,
            classes=target.classes,
            label_values=target.values,
            label_counts=target.counts,
            label_width=target.width,
        )
    goldens = [_golden(contract, chosen, row, batch, outputs) for row, batch in zip(rows.tolist(), seen, strict=True)]
    return msgspec.structs.replace(contract, golden=goldens)


class _NoChance(Draw):
    """Refuses any draw: a random transform would make a different tensor of the same bytes each time."""

    def generator(self, salt: int = 0) -> np.random.Generator:  # noqa: ARG002
        raise _Drawn

    def uniforms(self, count: int) -> list[float]:  # noqa: ARG002
        raise _Drawn


class _Drawn(Exception):
    pass


def _refuse_chance(preparation: Preparation, split: Split) -> None:
    sample = sample_at(split[:1], split.schema.features, 0)
    for number, step in enumerate(preparation.steps):
        try:
            sample = step.apply(sample, _NoChance(0, 0, 0, number))
        except _Drawn:
            raise ValueError(f"transforms of a contract must not change samples at random, got {step!r}") from None


def _golden_rows(split: Split, label: str | None, count: int) -> Any:
    """Records spread over the split, one of each class before a second of any."""
    count = min(max(count, 1), len(split))
    if split.is_sequential:  # compressed shards are read from their beginning
        return np.arange(count)
    spread = np.linspace(0, len(split) - 1, count).astype(np.int64)
    feature = split.schema.features.get(label) if label else None
    if feature is None or feature.dtype != "int64" or feature.shape != ():
        return spread
    values = np.asarray(split.select(np.arange(min(len(split), _LOOKED_AT))).values(str(label)))
    _, first = np.unique(values, return_index=True)
    rows = np.concatenate([first[np.linspace(0, len(first) - 1, min(len(first), count)).astype(np.int64)], spread])
    return np.array(list(dict.fromkeys(rows.tolist()))[:count], np.int64)


def _described(data: Dataset, preparation: Preparation, schema: Schema, label: str | None) -> Contract:
    """Everything except the inputs and the golden inputs."""
    manifest = data.manifest
    known = manifest.label if manifest and manifest.label and manifest.label.feature == label else None
    described = store_preparation(preparation)
    return Contract(
        schema=msgspec.structs.replace(schema, statistics={}),
        inputs={},
        prepared_by=described,
        label=label,
        task=known.task if known else None,
        classes=list(known.names) if known else [],
        raw=manifest.raw if manifest else None,
        statistics=dict(manifest.statistics) if manifest else {},
        files=_files(data),
        vocabularies={**_artifacts(data), **_word_lists(described)},
        build=dict(manifest.recipe) if manifest else {},
        data=_digest_of(data),
        versions={"bushel": __version__, **_versions(), **_codecs(manifest)},
    )


def _codecs(manifest: Manifest | None) -> dict[str, str]:
    return {f"build/{name}": version for name, version in manifest.versions.items()} if manifest else {}


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in _CODECS}


def _digest_of(data: Dataset) -> str:
    path = as_path(data.where) / MANIFEST_NAME
    return hashlib.sha256(read_named(path)).hexdigest() if data.manifest and path.is_file() else ""


def _artifacts(data: Dataset) -> dict[str, str]:
    """The digest of every file that fitting left next to the data."""
    if data.manifest is None or not (folder := artifacts_folder(data.where, data.manifest)).is_dir():
        return {}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(read_named(path)).hexdigest() for path in files}


def fingerprints_of(statistics: Mapping[str, Any]) -> dict[str, str]:
    """A digest of what each transform learned, including its files, by the transform's id."""
    return {name: hashlib.sha256(_canonical(entry)).hexdigest() for name, entry in statistics.items()}


def _canonical(entry: Any) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(entry), order="deterministic")


def _files(data: Dataset) -> dict[str, StoredArray]:
    """The files that go with what the build's transforms learned."""
    if data.manifest is None:
        return {}
    folder = artifacts_folder(data.where, data.manifest)
    names = [name for entry in data.manifest.statistics.values() for name in entry.get("artifacts", {})]
    return {name: store_bytes(read_named(folder / name)) for name in names}


def _word_lists(described: Mapping[str, Any]) -> dict[str, str]:
    """The digest of every list of words that a transform carries."""
    found: dict[str, str] = {}
    for number, table in enumerate(described["transforms"]):
        for field, value in _fields_within(table):
            if isinstance(value, list | tuple) and len(value) > 1 and all(isinstance(word, str) for word in value):
                text = "\n".join(value).encode()
                found[f"{number}:{table['transform']}.{field}"] = hashlib.sha256(text).hexdigest()
    return found


def _fields_within(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        found += (
            _fields_within(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
        )
    return found


def _inputs(preparation: Preparation, seen: list[dict[str, Any]], label: str | None) -> dict[str, Input]:
    names = dict.fromkeys(name for batch in seen for name in batch if name != label)  # a row may lack a feature
    chosen = {given.name: given for given in preparation.inputs}
    return {
        name: _measured(
            chosen.get(name, Input(name=name)),
            [row_value(batch[name], 0) for batch in seen if name in batch],
            preparation,
        )
        for name in names
        if not chosen or name in chosen
    }


def _measured(given: Input, values: list[Any], preparation: Preparation) -> Input:
    """An input, with what its golden rows show."""
    if not all(isinstance(value, np.ndarray) for value in values):
        is_one = all(isinstance(value, bytes) for value in values)
        return msgspec.structs.replace(given, dtype="string", shape=() if is_one else (None,))
    shapes = [value.shape for value in values]
    rank = len(shapes[0])
    shape = tuple(shapes[0][axis] if len({shape[axis] for shape in shapes}) == 1 else None for axis in range(rank))
    filled = [value for value in values if value.size]
    channels, resized = _image_facts(given.name, preparation)
    return msgspec.structs.replace(
        given,
        dtype=values[0].dtype.name,
        shape=shape,
        min=min((float(value.min()) for value in filled), default=None),
        max=max((float(value.max()) for value in filled), default=None),
        channels=channels if rank == 3 else None,
        resize=resized,
    )


def _image_facts(name: str, preparation: Preparation) -> tuple[str | None, Resizing | None]:
    """The colours of an image, and the kernel it was resized with, by its transforms."""
    channels = resized = None
    for step in preparation.steps:
        if declared(step).feature != name:
            continue
        if isinstance(step, decode_image):
            channels = _COLOURS[step.channels]
        if isinstance(step, resize):
            resized = Resizing(
                height=step.height, width=step.width, kernel=step.kernel, antialias=step.antialias, fit=step.fit
            )
    return channels, resized


def _golden(
    contract: Contract, split: Split, row: int, batch: dict[str, Any], outputs: Callable[[Any], Any] | None
) -> Golden:
    sample = split[row]
    kept = {name: sample[name] for name in contract.preparation.features if name in sample}
    inputs = {name: row_value(batch[name], 0) for name in contract.inputs if name in batch}
    label = None if contract.label is None else batch.get(contract.label)
    return Golden(
        record=f"{split.name}:{row}",
        sample=store_sample(kept),
        inputs={name: _store_input(value) for name, value in inputs.items()},
        label=None if label is None else _store_input(row_value(label, 0)),
        outputs={} if outputs is None else _store_outputs(outputs(arrange(contract, batch))),
    )


def _store_input(value: Any) -> StoredValue:
    if isinstance(value, np.ndarray):
        return StoredValue(array=store_array(value))
    return store_sample({"": value})[""]


def _store_outputs(outputs: Any) -> dict[str, Any]:
    named = outputs if isinstance(outputs, Mapping) else {"output": outputs}
    return {name: store_array(np.asarray(value)[0]) for name, value in named.items()}
