"""What files hold: one pass over their records, and the schema that follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bushel import _native
from bushel.data.schema import (
    BYTES_KIND,
    FLOAT_KIND,
    INT_KIND,
    Encoding,
    Feature,
    FeatureStatistics,
    RecordKind,
    Schema,
)
from bushel.errors import Fault
from bushel.records.files import RecordFile, Skipped, open_file
from bushel.storage import AnyPath, as_path, list_files
from bushel.storage.file_kinds import CORE_IMAGES

__all__ = ["FileInfo", "Info", "infer_schema", "info", "probe_schema", "schema_of"]

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
    """What files hold, in all."""

    files: list[FileInfo]
    records: int
    bytes: int
    schema: Schema
    faults: list[Skipped]


def infer_schema(paths: AnyPath | Iterable[AnyPath]) -> Schema:
    """Tell names, types, shapes, presence and encodings from all records of the files; see `Schema.statistics`."""
    return info(paths).schema


def info(paths: AnyPath | Iterable[AnyPath]) -> Info:
    """Look at every record of the files once, checksums included. Damage is counted, not raised."""
    survey = _native.Survey()
    files: list[FileInfo] = []
    faults: list[Skipped] = []
    for path in list_files(paths):
        file = open_file(path)
        records, found = _survey_file(file, survey)
        files.append(
            FileInfo(path=str(path), bytes=file.size, records=records, compression=file.compression, faults=len(found))
        )
        faults.extend(found)
    result = survey.result()
    return Info(
        files=files,
        records=sum(file.records for file in files),
        bytes=sum(file.bytes for file in files),
        schema=schema_of(result, other_bytes=sum(fault.fault is Fault.MALFORMED for fault in faults)),
        faults=[fault for fault in faults if not (fault.fault is Fault.MALFORMED and not result["features"])],
    )


def probe_schema(path: AnyPath, *, records: int = 1024) -> Schema:
    """Tell a schema from the first records of one file; what later ones hold may differ."""
    survey = _native.Survey()
    for chunk in open_file(as_path(path)).chunks(on_fault=lambda _: None):
        survey.add(chunk.memory, chunk.extents[:records], True)
        break
    return schema_of(survey.result(), other_bytes=0)


def _survey_file(file: RecordFile, survey: _native.Survey) -> tuple[int, list[Skipped]]:
    """How many records are intact, and what is wrong with the others."""
    records = 0
    faults: list[Skipped] = []
    for chunk in file.chunks(on_fault=faults.append):
        bad = survey.add(chunk.memory, chunk.extents, True)
        for row, fault, _ in bad:
            length = int(chunk.extents[row, 1]) + 16
            faults.append(Skipped(str(file.path), chunk.first + row, chunk.offset(row), length, Fault(fault)))
        # What is intact but no Example is a record all the same.
        records += len(chunk.extents) - sum(fault != Fault.MALFORMED for _, fault, _ in bad)
    return records, faults


def schema_of(result: dict[str, Any], *, other_bytes: int) -> Schema:
    """The schema, with statistics, that a survey's result shows."""
    known = [fact for fact in result["features"] if sum(fact["kinds"][1:])]  # others never held anything
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
    lines = "".join(f"    {feature!r}: {_tf_feature(f)},\n" for feature, f in features.items())
    return f"{name} = {{\n{lines}}}\n"


def _tf_feature(feature: Feature) -> str:
    dtype = {BYTES_KIND: "tf.string", FLOAT_KIND: "tf.float32", INT_KIND: "tf.int64"}[feature.kind]
    is_fixed = feature.is_one_value or not feature.is_ragged
    if feature.sequence and is_fixed:
        shape = [] if feature.is_one_value else list(feature.shape)
        return f"tf.io.FixedLenSequenceFeature({shape}, {dtype})"
    if is_fixed and feature.required:
        shape = [] if feature.is_one_value else list(feature.shape)
        comment = f"  # tf.io.decode_raw(..., tf.{feature.dtype})" if feature.encoding == "raw" else ""
        return f"tf.io.FixedLenFeature({shape}, {dtype}){comment}"
    return f"tf.io.RaggedFeature({dtype})"
