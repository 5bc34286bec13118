"""Odd messages: bushel against a reference decoder that states each rule once, and against protobuf itself."""

import json
import math
import random
from typing import Any

import numpy as np
import pytest
import reference_decoder as reference
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from support import DATA, golden, write_records

import bushel
from bushel import _native

CASES = json.loads((DATA / "odd_cases.json").read_text())


def feature_value(values: Any) -> list[Any]:
    if values is None:
        return [None, []]
    if isinstance(values, list):
        return ["bytes", [value.hex() for value in values]]
    if values.dtype == np.float32:
        return ["float", ["nan" if math.isnan(value) else float(value).hex() for value in values]]
    return ["int64", values.tolist()]


def key_hex(key: str) -> str:
    return key.encode("utf-8", "surrogateescape").hex()


def parsed(data: bytes) -> dict[str, Any]:
    """What bushel makes of a message, as golden.json writes it."""
    message = _native.parse(data)
    if message is None:
        return {"error": True}
    features, lists = message
    return {
        "context": {key_hex(key): feature_value(values) for key, values in features.items()},
        "lists": {key_hex(key): [feature_value(step) for step in steps] for key, steps in lists.items()},
    }


def without_empty(value: dict[str, Any]) -> dict[str, Any]:
    """bushel takes a Feature of no kind for missing."""
    if "error" in value:
        return value
    context = value["context"] if "context" in value else value["features"]
    return {
        "context": {key: f for key, f in sorted(context.items()) if f[0] is not None},
        "lists": dict(sorted(value.get("lists", {}).items())),
    }


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_odd_message_is_read_as_the_rules_say(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    expected = without_empty(reference.decode(case["message"], data, reference.BUSHEL))
    found = parsed(data)
    if case["message"] == "example" and "error" not in found:
        found["lists"] = {}
    assert found == expected or without_empty(found) == expected


def test_the_rules_are_those_of_protobuf_but_for_the_leniencies_that_are_written_down() -> None:
    differing = {
        case["name"]
        for case in CASES
        if reference.decode(case["message"], bytes.fromhex(case["hex"]), reference.BUSHEL) != case["protobuf"]
    }
    allowed = (
        "key ",
        "key as",
        "value as",
        "unknown",
        "duplicate key, first malformed",
        "nested groups",
        "group",
        "field 0",
    )
    unexplained = {name for name in differing if not any(word in name for word in allowed)}
    assert unexplained == set()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_odd_message_reads_the_same_as_columns(case: dict[str, Any], tmp_path) -> None:
    data = bytes.fromhex(case["hex"])
    path = write_records(tmp_path / "a", [data])
    value = parsed(data)
    kinds = {step[0] for steps in value.get("lists", {}).values() for step in steps} - {None}
    if "error" in value or len(kinds) > 1:
        with pytest.raises(bushel.CorruptRecord):
            bushel.read(path)
        return
    columns = bushel.read(path)
    for key, (kind, values) in value["context"].items():
        name = bytes.fromhex(key).decode("utf-8", "surrogateescape")
        if name in (bytes.fromhex(key).decode("utf-8", "surrogateescape") for key in value["lists"]):
            continue
        row = columns[name][0]
        found = (
            row.to_list()
            if isinstance(row, bushel.BytesColumn)
            else [row]
            if isinstance(row, bytes)
            else np.atleast_1d(row)
        )
        assert feature_value(found if isinstance(found, list) else np.asarray(found)) == [kind, values]


def message_classes() -> tuple[Any, Any]:
    """Example and SequenceExample, without TensorFlow."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    repeated, optional = 3, 1
    types = {"double": 1, "float": 2, "int64": 3, "string": 9, "message": 11, "bytes": 12}

    def add(name: str, *fields: tuple[str, int, str, int, str]) -> Any:
        message = file.message_type.add(name=name)
        for field, number, kind, label, target in fields:
            message.field.add(name=field, number=number, type=types[kind], label=label, type_name=target or None)
        return message

    add("BytesList", ("value", 1, "bytes", repeated, ""))
    add("FloatList", ("value", 1, "float", repeated, ""))
    add("Int64List", ("value", 1, "int64", repeated, ""))
    feature = add(
        "Feature",
        ("bytes_list", 1, "message", optional, ".t.BytesList"),
        ("float_list", 2, "message", optional, ".t.FloatList"),
        ("int64_list", 3, "message", optional, ".t.Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    add("FeatureList", ("feature", 1, "message", repeated, ".t.Feature"))
    for name, field, value in (("Features", "feature", "Feature"), ("FeatureLists", "feature_list", "FeatureList")):
        entry = "FeatureEntry" if field == "feature" else "FeatureListEntry"
        outer = add(name, (field, 1, "message", repeated, f".t.{name}.{entry}"))
        nested = outer.nested_type.add(name=entry)
        nested.options.map_entry = True
        nested.field.add(name="key", number=1, type=types["string"], label=optional)
        nested.field.add(name="value", number=2, type=types["message"], label=optional, type_name=f".t.{value}")
    add("Example", ("features", 1, "message", optional, ".t.Features"))
    add(
        "SequenceExample",
        ("context", 1, "message", optional, ".t.Features"),
        ("feature_lists", 2, "message", optional, ".t.FeatureLists"),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return tuple(
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}"))
        for name in ("Example", "SequenceExample")
    )


_, SEQUENCE_EXAMPLE = message_classes()


def of_protobuf(feature: Any) -> list[Any]:
    match feature.WhichOneof("kind"):
        case "bytes_list":
            return ["bytes", [value.hex() for value in feature.bytes_list.value]]
        case "float_list":
            return ["float", ["nan" if math.isnan(v) else v.hex() for v in feature.float_list.value]]
        case "int64_list":
            return ["int64", list(feature.int64_list.value)]
    return [None, []]


def by_protobuf(data: bytes) -> dict[str, Any]:
    try:
        message = SEQUENCE_EXAMPLE.FromString(data)
    except (DecodeError, UnicodeDecodeError):
        return {"error": True}
    context, lists = message.context.feature, message.feature_lists.feature_list
    return {
        "context": {key.encode().hex(): of_protobuf(context[key]) for key in sorted(context)},
        "lists": {key.encode().hex(): [of_protobuf(step) for step in lists[key].feature] for key in sorted(lists)},
    }


def mutations(count: int) -> list[bytes]:
    chance = random.Random(0)
    seeds = [bytes.fromhex(case["hex"]) for case in CASES]
    seeds += [
        bytes.fromhex(record["hex"])
        for name, file in golden().items()
        if file["message"] != "raw"
        for record in file["records"]
        if "hex" in record
    ]
    seeds = [seed for seed in seeds if 0 < len(seed) < 200 and "error" not in by_protobuf(seed)]
    made = []
    for _ in range(count):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(6):
                case 0:
                    data[at:at] = bytes([chance.randrange(256)])
                case 1:
                    del data[at : at + chance.randint(1, 3)]
                case 2:
                    data[at:at] = chance.choice(seeds)[: chance.randint(1, 30)]
                case _ if at < len(data):
                    data[at] ^= chance.choice((1, 2, 8, 0x80, 0xFF))
        made.append(bytes(data))
    return made


def test_mutated_messages_are_read_as_protobuf_reads_them_or_both_refuse() -> None:
    read = refused = 0
    for data in mutations(30_000):
        found = parsed(data)
        protobuf = by_protobuf(data)
        assert protobuf == reference.decode("sequence", data, reference.UPB), data.hex()
        if without_empty(found) == without_empty(protobuf):
            read += "error" not in found
            refused += "error" in found
            continue
        # Where they differ it is one of the leniencies that FORMAT.md names, and nothing else.
        assert without_empty(found) == without_empty(reference.decode("sequence", data, reference.BUSHEL)), data.hex()
        if "error" in found:  # Python's protobuf skips field 0 in a group; C++'s refuses it, and so does bushel
            assert reference.decode("sequence", data, reference.CPP) == {"error": True}, data.hex()
    assert read > 3_000
    assert refused > 5_000


@given(data=st.binary(max_size=80))
def test_any_bytes_are_read_as_the_rules_say(data: bytes) -> None:
    assert without_empty(parsed(data)) == without_empty(reference.decode("sequence", data, reference.BUSHEL))


@given(data=st.binary(max_size=40))
def test_the_checksum_is_that_of_the_table_in_pure_python(data: bytes) -> None:
    from support import frame

    assert _native.frame(data) == frame(data)
