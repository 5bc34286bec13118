"""What files hold: one pass over their records, the schema that follows from it, and what each feature costs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.categories import Label
from bushel.data.columns import count_of
from bushel.data.roles import Account
from bushel.data.samples import Sample
from bushel.data.schema import (
    BYTES_KIND,
    FLOAT_KIND,
    IMAGE_ENCODINGS,
    INT_KIND,
    Encoding,
    Feature,
    FeatureStatistics,
    RecordKind,
    Schema,
    name_context,
    read_sidecar,
)
from bushel.errors import Fault, quantity
from bushel.pixels.headers import BadImage, parse_header
from bushel.records.files import CHUNK_BYTES, RecordFile, Skipped, leave_out_empty, open_file
from bushel.records.manifest import SplitEntry, has_manifest, read_manifest, record_files
from bushel.records.record_roles import account_of
from bushel.records.scan import read, scan
from bushel.storage import AnyPath, as_path
from bushel.storage.file_kinds import CORE_IMAGES

_FORMATS = ("list", *CORE_IMAGES)
_KIND_NAMES = {BYTES_KIND: "bytes", FLOAT_KIND: "float32", INT_KIND: "int64"}


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One file."""

    path: str
    bytes: int
    records: int  # intact ones
    compression: str | None
    faults: int


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """What all files hold together."""

    files: list[FileInfo]
    records: int
    bytes: int
    schema: Schema
    faults: list[Skipped]
    disagreements: list[str] = []  # what a manifest says otherwise of the files
    account: Account | None = None  # what the features are taken for


def infer_schema(paths: AnyPath | Iterable[AnyPath]) -> Schema:
    """Infer names, types, shapes, presence and encodings from all records of the files; see `Schema.statistics`."""
    return info(paths).schema


def info(paths: AnyPath | Iterable[AnyPath]) -> Info:
    """Read every record of the files once and verify checksums. Damage is counted, not raised."""
    survey = _native.Survey()
    files: list[FileInfo] = []
    faults: list[Skipped] = []
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    listed = [file for path in given for file in record_files(path)]
    held = set(leave_out_empty(listed))
    for path in listed:
        if path not in held:
            files.append(FileInfo(path=str(path), bytes=0, records=0, compression=None, faults=0))
            continue
        file = open_file(path)
        records, found = _survey_file(file, survey)
        files.append(
            FileInfo(path=str(path), bytes=file.size, records=records, compression=file.compression, faults=len(found))
        )
        faults.extend(found)
    result = survey.result()
    schema = schema_of(result, other_bytes=sum(fault.fault is Fault.MALFORMED for fault in faults))
    schema = _as_declared(schema, _declared(given))
    manifest = next((read_manifest(path) for path in given if has_manifest(path)), None)
    return Info(
        files=files,
        records=sum(file.records for file in files),
        bytes=sum(file.bytes for file in files),
        schema=schema,
        account=account_of([as_path(file.path) for file in files], schema, manifest) if schema.features else None,
        faults=[fault for fault in faults if not (fault.fault is Fault.MALFORMED and not result["features"])],
        disagreements=[line for path in given if has_manifest(path) for line in _disagreements(as_path(path), files)],
    )


def _as_declared(found: Schema, declared: Schema | None) -> Schema:
    """What was found in records, in the types and shapes that a manifest declares, where the records agree."""
    if declared is None:
        return found
    features = dict(found.features)
    for name, seen in found.statistics.items():
        stated = declared.features.get(name)
        if stated is not None and stated.kind == features[name].kind and _agrees(stated, seen):
            form = features[name].encoding  # a source may state "image" where all are PNGs
            form = form if stated.encoding == "image" and form in IMAGE_ENCODINGS else stated.encoding
            features[name] = msgspec.structs.replace(stated, required=features[name].required, encoding=form)
    return msgspec.structs.replace(found, features=features)


def _agrees(feature: Feature, seen: FeatureStatistics) -> bool:
    if len(seen.kinds) > 1:
        return False
    if feature.is_one_value:
        return seen.min_length == seen.max_length == 1
    step = count_of(tuple(size for size in feature.shape if size is not None)) or 1
    if feature.is_ragged:
        return seen.max_length % step == 0
    return seen.min_length == seen.max_length == step


def _disagreements(folder: Path, files: Sequence[FileInfo]) -> list[str]:
    """In words, where files are others than the manifest of their folder says."""
    manifest = read_manifest(folder)
    known = {file.path: file for file in files}
    found = []
    for name, split in manifest.splits.items():
        for shard in split.shards:
            file = known.pop(path := str(folder / shard.path), None)
            if file is None:
                found.append(f"{path} is not there")
            elif file.bytes != shard.bytes or (file.records != shard.records and not file.faults):
                is_, stated = (f"{quantity(x.records, 'record')} in {quantity(x.bytes, 'byte')}" for x in (file, shard))
                found.append(f"{path} has {is_}, and the manifest says {stated}")
        if not found and manifest.label is not None and split.label_counts:
            found += _other_counts(name, split, manifest.label, folder)
    inside = [path for path in known if as_path(path).parent == folder]
    return [*found, *(f"{path} is not in the manifest" for path in inside)]


def _other_counts(name: str, split: SplitEntry, label: Label, folder: Path) -> list[str]:
    """Whether classes have other numbers of records than the manifest says, by the labels in the records."""
    paths = [folder / shard.path for shard in split.shards if shard.records]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damage is reported
        column: Any = read(paths, [label.feature], on_fault="skip")[label.feature] if paths else np.empty(0)
    values = np.asarray(getattr(column, "values", column)).reshape(-1)
    codes, counts = np.unique(values, return_counts=True)
    classes = dict(enumerate(label.names)) if label.names else {}
    real = {str(classes.get(int(code), int(code))): int(n) for code, n in zip(codes, counts, strict=True)}
    other = [key for key in {**split.label_counts, **real} if split.label_counts.get(key, 0) != real.get(key, 0)]
    return [
        f"{name} has {quantity(real.get(key, 0), 'record')} of {key!r}, and the manifest says "
        f"{split.label_counts.get(key, 0):,}"
        for key in other[:3]
    ]


def probe_schema(path: AnyPath, *, records: int = 1024) -> Schema:
    """Infer a schema from the first intact records of one file; later ones may differ."""
    survey, intact = _native.Survey(), 0
    for chunk in open_file(as_path(path)).chunks(on_fault=lambda _: None):
        extents = chunk.extents[: records - intact]
        intact += len(extents) - len(survey.add(chunk.memory, extents, True))
        if intact == records or (intact and chunk.offset(-1) >= CHUNK_BYTES):
            break
    return schema_of(survey.result(), other_bytes=0)


def has_records(paths: Iterable[Path]) -> bool:
    """Whether there is an intact record in some files."""
    for path in paths:
        for chunk in open_file(path).chunks(on_fault=lambda _: None):
            if len(chunk.extents) > len(_native.verify(chunk.memory, chunk.extents, 1)):
                return True
    return False


def _survey_file(file: RecordFile, survey: _native.Survey) -> tuple[int, list[Skipped]]:
    """How many records are intact, and what is wrong with the others."""
    records = 0
    faults: list[Skipped] = []
    for chunk in file.chunks(on_fault=faults.append):
        bad = survey.add(chunk.memory, chunk.extents, True)
        for row, fault, _ in bad:
            length = int(chunk.extents[row, 1]) + 16
            faults.append(Skipped(str(file.path), chunk.first + row, chunk.offset(row), length, Fault(fault)))
        # An intact record that is not an Example is still a record.
        records += len(chunk.extents) - sum(fault != Fault.MALFORMED for _, fault, _ in bad)
    return records, faults


def schema_of(result: dict[str, Any], *, other_bytes: int) -> Schema:
    """The schema, with statistics, that follows from the result of a survey."""
    known = [fact for fact in result["features"] if sum(fact["kinds"][1:])]  # the others never held a value
    lists = {fact["name"] for fact in known if fact["sequence"]}
    known = [fact if fact["sequence"] else {**fact, "name": name_context(fact["name"], lists)} for fact in known]
    facts = sorted(known, key=lambda fact: (fact["sequence"], fact["name"]))
    features = {fact["name"]: _feature_of(fact, result["records"]) for fact in facts}
    statistics = {fact["name"]: _statistics_of(fact, result["records"]) for fact in facts}
    record: RecordKind = "sequence_example" if result["with_lists"] else "example"
    if not features and (other_bytes or result["records"] > 0):
        record = "bytes"
    return Schema(features=features, record=record, statistics=statistics)


def _feature_of(fact: dict[str, Any], records: int) -> Feature:
    kind = _main_kind(fact)
    encoding = _encoding_of(fact) if kind == BYTES_KIND else "list"
    dtype = _KIND_NAMES[kind]
    if kind == BYTES_KIND and encoding == "list" and fact["text"] and fact["max_size"] > 0:
        dtype = "str"
    low, high = fact["min_count"], fact["max_count"]
    shape: tuple[int | None, ...] = (None,) if low != high else () if low == 1 else (low,)
    return Feature(
        dtype=dtype, shape=shape, encoding=encoding, sequence=fact["sequence"], required=fact["records"] == records
    )


def _main_kind(fact: dict[str, Any]) -> int:
    kinds = fact["kinds"]
    return max((BYTES_KIND, FLOAT_KIND, INT_KIND), key=lambda kind: kinds[kind])


def _encoding_of(fact: dict[str, Any]) -> Encoding:
    counts = fact["formats"]
    found = [name for name, count in zip(_FORMATS, counts, strict=True) if count]
    if len(found) == 1:
        return found[0]
    return "image" if found and counts[0] == 0 else "list"


def _statistics_of(fact: dict[str, Any], records: int) -> FeatureStatistics:
    kind = _main_kind(fact)
    seen = sum(fact["kinds"][1:])
    low: float | int | None = None
    high: float | int | None = None
    if kind == INT_KIND and fact["values"]:
        low, high = fact["min_int"], fact["max_int"]
    elif kind == FLOAT_KIND and fact["finite"]:
        low, high = fact["min_float"] + 0.0, fact["max_float"] + 0.0  # -0.0 reads oddly
    has_sizes = kind == BYTES_KIND and fact["values"] > 0
    return FeatureStatistics(
        records=fact["records"],
        of=records,
        kinds={_KIND_NAMES[k]: fact["kinds"][k] for k in _KIND_NAMES if fact["kinds"][k]},
        min_length=fact["min_count"] if seen else 0,
        max_length=fact["max_count"],
        mean_length=fact["values"] / seen if seen else 0.0,
        min_steps=fact["min_steps"] if fact["sequence"] and fact["records"] else None,
        max_steps=fact["max_steps"] if fact["sequence"] and fact["records"] else None,
        min=low,
        max=high,
        nans=fact["nans"],
        infinities=fact["infinities"],
        min_size=fact["min_size"] if has_sizes else None,
        max_size=fact["max_size"] if has_sizes else None,
        bytes_per_record=fact["wire_bytes"] / records if records else 0.0,
    )


def tf_description(schema: Schema) -> str:
    """A `feature_description` for `tf.io.parse_example`, to paste."""
    if schema.record == "sequence_example":
        context = {name: f for name, f in schema.features.items() if not f.sequence}
        lists = {name: f for name, f in schema.features.items() if f.sequence}
        return (
            _tf_dict("context_features", context)
            + "\n"
            + _tf_dict("sequence_features", lists)
            + "\n# tf.io.parse_sequence_example(records, context_features, sequence_features)\n"
        )
    return _tf_dict("feature_description", schema.features) + "\n# tf.io.parse_example(records, feature_description)\n"


def _tf_dict(name: str, features: dict[str, Feature]) -> str:
    lines = "".join(f"    {feature!r}: {_tf_feature(f)},{_tf_comment(f)}\n" for feature, f in features.items())
    return f"{name} = {{\n{lines}}}\n"


def _tf_feature(feature: Feature) -> str:
    dtype = {BYTES_KIND: "tf.string", FLOAT_KIND: "tf.float32", INT_KIND: "tf.int64"}[feature.kind]
    is_fixed = feature.is_one_value or not feature.is_ragged
    if feature.sequence and is_fixed:
        shape = [] if feature.is_one_value else list(feature.shape)
        return f"tf.io.FixedLenSequenceFeature({shape}, {dtype})"
    if is_fixed and feature.required:
        shape = [] if feature.is_one_value else list(feature.shape)
        return f"tf.io.FixedLenFeature({shape}, {dtype})"
    return f"tf.io.RaggedFeature({dtype})"


def _tf_comment(feature: Feature) -> str:
    """What is left to do after parsing."""
    if feature.encoding == "raw":
        return f"  # tf.io.decode_raw(..., tf.{feature.dtype})"
    if feature.reads_as:
        return f"  # tf.{'bitcast' if feature.reads_as == 'uint64' else 'cast'}(..., tf.{feature.reads_as})"
    return ""


_FILES, _RECORDS = 8, 128  # read, of each file
_MANY = 16  # from this many values on, another form may pay off
_ZEROS = 0.9
_ENOUGH = 10  # this many equal records mean something
_WORTH = 0.1, 0.02  # of the cost of the feature, and of all features
_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32")
_READ_AT = (512, 512)  # if the size at which images are read is unknown


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one feature."""

    feature: str
    bytes: float  # in a record
    share: float  # of all features


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """What could be saved on one feature."""

    feature: str
    what: str
    how: str
    bytes: float  # of a record, estimated
    share: float  # of all features


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """The costs of all features, the largest first."""

    looked_at: int  # records whose values were read
    bytes: float  # of all features, in a record
    features: list[Cost]
    savings: list[Saving]


def costs(
    paths: AnyPath | Iterable[AnyPath], *, schema: Schema | None = None, read_at: tuple[int, int] | None = None
) -> Costs:
    """Estimate what each feature of a dataset costs, and what could be saved, from some of its records.

    A `schema` with statistics makes costs exact; `read_at` is the height and width that a model reads images at.
    """
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    files = leave_out_empty([file for path in given for file in record_files(path)])
    declared = _declared(given) or read_sidecar(files[0])
    picked = files[:: max(1, -(-len(files) // _FILES))]
    known = schema if schema is not None and schema.statistics else _surveyed(picked)
    features = declared.features if declared else known.features
    spent = {name: sum(known.statistics[wire].bytes_per_record for wire in _wires(name, known)) for name in features}
    total = sum(spent.values()) or 1.0
    samples = _samples(picked, declared or known) if features else []
    savings = []
    for name, feature in features.items():
        if _describes_image(name, features):  # a build writes it for readers that do not decode
            continue
        values = [sample[name] for sample in samples if name in sample]
        found = _saving(feature, known.statistics.get(name), values, len(samples), spent[name], read_at)
        if found is not None and found[2] >= max(_WORTH[0] * spent[name], _WORTH[1] * total):
            what, how, saved = found
            savings.append(Saving(feature=name, what=what, how=how, bytes=saved, share=saved / total))
    by_cost = sorted(spent, key=lambda name: -spent[name])
    return Costs(
        looked_at=len(samples),
        bytes=sum(spent.values()),
        features=[Cost(feature=name, bytes=spent[name], share=spent[name] / total) for name in by_cost],
        savings=sorted(savings, key=lambda saving: -saving.bytes),
    )


def _declared(given: Sequence[AnyPath]) -> Schema | None:
    """The schema of a manifest: it knows raw tensors and sparse features, which cannot be seen from the bytes."""
    if len(given) != 1 or not has_manifest(given[0]):
        return None
    return read_manifest(given[0]).schema


def _surveyed(files: Sequence[Path]) -> Schema:
    survey = _native.Survey()
    for path in files:
        for chunk in open_file(path).chunks(on_fault=lambda _: None):
            survey.add(chunk.memory, chunk.extents[: 8 * _RECORDS], True)
            break
    return schema_of(survey.result(), other_bytes=0)


def _wires(name: str, known: Schema) -> list[str]:
    """The names of a feature in records: its own, or those of the two lists of a sparse one."""
    return [wire for wire in (name, f"{name}/indices", f"{name}/values") if wire in known.statistics]


def _samples(files: Sequence[Path], schema: Schema) -> list[Sample]:
    found: list[Sample] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damage is reported elsewhere
        for path in files:
            found += islice(scan(path, schema=schema, on_fault="skip"), _RECORDS)
    return found


def _describes_image(name: str, features: Mapping[str, Feature]) -> bool:
    image, _, what = name.rpartition("/")
    is_image = any(f in features and features[f].encoding in IMAGE_ENCODINGS for f in (image, f"{image}/encoded"))
    return is_image and what in ("channels", "format", "height", "width")


Found = tuple[str, str, float] | None


def _saving(
    feature: Feature,
    seen: FeatureStatistics | None,
    values: list[Any],
    samples: int,
    spent: float,
    read_at: tuple[int, int] | None,
) -> Found:
    """What makes a feature expensive, what to do about it, and the bytes per record that would save."""
    if not values:
        return None
    if len(values) == samples >= _ENOUGH and _is_constant(values, seen):
        return "constant", "dropping it", spent
    if feature.encoding in IMAGE_ENCODINGS:
        return _large_images(values, spent, read_at)
    if feature.kind == BYTES_KIND and feature.encoding != "raw":
        return None
    numbers = [np.asarray(value).reshape(-1) for value in values if isinstance(value, np.ndarray)]
    count = float(np.mean([array.size for array in numbers])) if numbers else 0.0
    if count < _MANY or feature.encoding == "sparse":
        return None
    flat = np.concatenate(numbers)
    return _zeros(flat, count, spent) or _pixels(flat, count, spent) or _narrow(flat, feature, count, spent)


def _is_constant(values: list[Any], seen: FeatureStatistics | None) -> bool:
    if seen is not None and seen.min is not None and seen.min != seen.max:
        return False
    first = values[0]
    return all(type(value) is type(first) and np.array_equal(value, first) for value in values[1:])


def _large_images(values: list[Any], spent: float, read_at: tuple[int, int] | None) -> Found:
    sizes = []
    frames = (data for value in values[:64] for data in ([value] if isinstance(value, bytes) else value))
    for data in islice(frames, 64):
        try:
            header = parse_header(data)
        except BadImage:
            continue
        sizes.append((header.height, header.width))
    if not sizes:
        return None
    height, width = (int(np.median([size[axis] for size in sizes])) for axis in (0, 1))
    tall, wide = read_at or _READ_AT
    left = tall * wide / max(1, height * width)
    if left > 0.25:
        return None
    said = f"read at {tall} x {wide}" if read_at else f"models seldom read more than {tall} x {wide}; --read-at says"
    return f"images of {height} x {width}, and {said}", f"--resize {tall}x{wide}", spent * (1 - left)


def _zeros(flat: NDArray[Any], count: float, spent: float) -> Found:
    share = float((flat == 0).mean())
    if share < _ZEROS:
        return None
    # An index takes about two bytes, and a value the same as before.
    sparse = count * (1 - share) * (2 + spent / count)
    return f"{share:.0%} of its values are 0", "transforms.sparse(...)", spent - sparse


def _pixels(flat: NDArray[Any], count: float, spent: float) -> Found:
    """Floats that are whole numbers from 0 to 255, or such numbers divided by 255."""
    if flat.dtype.kind != "f" or not flat.size or not np.isfinite(flat).all():
        return None
    low, high = float(flat.min()), float(flat.max())
    if low < 0 or high > 255:
        return None
    if (flat == np.rint(flat)).all() and high > 1:
        return f"{flat.dtype} that are whole numbers of 0 to 255", "transforms.cast(..., 'uint8')", spent - count
    scaled = flat.astype(np.float64) * 255
    if high <= 1 and np.abs(scaled - np.rint(scaled)).max() < 1e-3 and len(np.unique(np.rint(scaled))) > 2:
        how = "store uint8, and divide when reading: transforms.normalise"
        return f"{flat.dtype} that are uint8 divided by 255", how, spent - count
    return None


def _narrow(flat: NDArray[Any], feature: Feature, count: float, spent: float) -> Found:
    """Integers whose range fits fewer bytes than they take."""
    if flat.dtype.kind not in "iu":
        return None
    low, high = int(flat.min()), int(flat.max())
    fitting = (name for name in _INTEGERS if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    dtype = np.dtype(next(fitting, "int64"))
    what = f"{feature.dtype} of {low} to {high}, at {spent / count:.1f} bytes each"
    return what, f"transforms.cast(..., '{dtype.name}')", spent - count * dtype.itemsize
