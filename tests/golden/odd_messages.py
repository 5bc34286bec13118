"""What protobuf and TensorFlow do with odd Example and SequenceExample bytes.

    python odd_messages.py > table.md       also writes odd_cases.json beside this script

Each message is built byte by byte. Four readers see it: Python protobuf (upb), the C++ protobuf inside TensorFlow,
tf.io.parse_example and tf.io.parse_sequence_example (an Example is read there as a context: both messages have
Features as field 1).

odd_cases.json: [{"name", "message", "note", "hex", "protobuf", "cpp"}], where "protobuf" is {"error": true} or the
value in the form that make_golden.py describes. "cpp" is there only where C++ protobuf gives something else.
"""

import json
import os
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import google.protobuf
import tensorflow as tf
from google.protobuf.message import DecodeError

from make_golden import VALUES

VARINT, FIXED64, DELIMITED, START_GROUP, END_GROUP, FIXED32 = range(6)
BYTES_LIST, FLOAT_LIST, INT64_LIST = 1, 2, 3
KEY, VALUE = 1, 2
UNKNOWN = 15

# Nested messages and groups that protobuf follows below the outermost message.
DEPTH_LIMIT = 100

REFUSED = "refused"
CRASH = "segmentation fault"
DTYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}


# A bytes value longer than its list ends the process in TensorFlow 2.21 when parse_sequence_example reads it as VarLen
# (tensorflow/tensorflow#120631): these are not run.
CRASHING = {"overrun: bytes value past list", "sequence: overrun: bytes value past list"}


class Case(NamedTuple):
    name: str
    hex: str
    note: str
    message: str = "example"
    key: bytes = b"a"
    kinds: tuple[str, ...] = ("int64",)


def varint(value: int, width: int = 1) -> bytes:
    """The varint of value, padded with zero groups to at least `width` bytes."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    groups += [0] * (width - len(groups))
    return bytes([group | 0x80 for group in groups[:-1]] + [groups[-1]])


def tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def delimited(field: int, payload: bytes) -> bytes:
    return tag(field, DELIMITED) + varint(len(payload)) + payload


def group(field: int, payload: bytes = b"") -> bytes:
    return tag(field, START_GROUP) + payload + tag(field, END_GROUP)


def nested_groups(depth: int) -> bytes:
    return tag(UNKNOWN, START_GROUP) * depth + tag(UNKNOWN, END_GROUP) * depth


ONE = b"\x01"
TWO = b"\x02"
FLOAT_ONE = b"\x00\x00\x80\x3f"
FLOAT_TWO = b"\x00\x00\x00\x40"
ZERO_VALUES = {VARINT: b"\x00", FIXED64: bytes(8), DELIMITED: b"\x00", FIXED32: bytes(4)}
WIRE_NAMES = {VARINT: "varint", FIXED64: "fixed64", DELIMITED: "bytes", FIXED32: "fixed32"}


def int64_list(packed: bytes) -> bytes:
    return delimited(INT64_LIST, delimited(1, packed))


def float_list(packed: bytes) -> bytes:
    return delimited(FLOAT_LIST, delimited(1, packed))


def bytes_list(*values: bytes) -> bytes:
    return delimited(BYTES_LIST, b"".join(delimited(1, value) for value in values))


def entry(key: bytes, feature: bytes) -> bytes:
    return delimited(1, delimited(KEY, key) + delimited(VALUE, feature))


def example(*entries: bytes) -> bytes:
    return delimited(1, b"".join(entries))


def of_feature(feature: bytes) -> bytes:
    return example(entry(b"a", feature))


def of_entry(payload: bytes) -> bytes:
    return example(delimited(1, payload))


def of_int64_list(payload: bytes) -> bytes:
    return of_feature(delimited(INT64_LIST, payload))


def of_float_list(payload: bytes) -> bytes:
    return of_feature(delimited(FLOAT_LIST, payload))


EXAMPLE_LEVELS = ("Example", "Features", "entry", "Feature", "list")
SEQUENCE_LEVELS = ("SequenceExample", "FeatureLists", "entry", "FeatureList", "Feature", "list")

Splice = Callable[[bytes], bytes]


def spliced_example(level: str, splice: Splice) -> bytes:
    """An Example {a: int64 [1]} whose message at one level went through `splice`."""

    def at(name: str, payload: bytes) -> bytes:
        return splice(payload) if name == level else payload

    feature = at("Feature", delimited(INT64_LIST, at("list", delimited(1, ONE))))
    pair = at("entry", delimited(KEY, b"a") + delimited(VALUE, feature))
    return at("Example", delimited(1, at("Features", delimited(1, pair))))


def spliced_sequence(level: str, splice: Splice) -> bytes:
    """A SequenceExample {a: [int64 [1]]} whose message at one level went through `splice`."""

    def at(name: str, payload: bytes) -> bytes:
        return splice(payload) if name == level else payload

    feature = at("Feature", delimited(INT64_LIST, at("list", delimited(1, ONE))))
    pair = at("entry", delimited(KEY, b"a") + delimited(VALUE, at("FeatureList", delimited(1, feature))))
    return at("SequenceExample", delimited(2, at("FeatureLists", delimited(1, pair))))


def before(junk: bytes) -> Splice:
    return lambda payload: junk + payload


def after(junk: bytes) -> Splice:
    return lambda payload: payload + junk


def plain_cases() -> Iterator[Case]:
    def case(name: str, message: bytes, note: str, **rest: object) -> Case:
        return Case(name, message.hex(), note, **rest)

    yield case("zero bytes", b"", "an Example without features")
    yield case("features empty", delimited(1, b""), "field present, nothing in it")
    yield case("plain int64", of_feature(int64_list(ONE)), "the reference")
    yield case("plain float", of_feature(float_list(FLOAT_ONE)), "the reference", kinds=("float",))
    yield case("plain bytes", of_feature(bytes_list(b"x")), "the reference", kinds=("bytes",))
    yield case(
        "features repeated, other keys",
        example(entry(b"a", int64_list(ONE))) + example(entry(b"b", int64_list(TWO))),
        "also: two Examples concatenated",
    )
    yield case(
        "features repeated, same key",
        example(entry(b"a", int64_list(ONE))) + example(entry(b"a", int64_list(TWO))),
        "also: two Examples concatenated",
    )
    yield case("trailing zero byte", of_feature(int64_list(ONE)) + b"\x00", "a tag of field 0")
    yield case("trailing two zero bytes", of_feature(int64_list(ONE)) + b"\x00\x00", "field 0, varint 0")
    yield case(
        "sequence read as Example",
        example(entry(b"a", int64_list(ONE)))
        + delimited(2, delimited(1, delimited(KEY, b"s") + delimited(VALUE, delimited(1, int64_list(TWO))))),
        "feature_lists is an unknown field here",
    )


def key_cases() -> Iterator[Case]:
    one = delimited(VALUE, int64_list(ONE))
    two = delimited(VALUE, int64_list(TWO))

    def case(name: str, message: bytes, note: str, **rest: object) -> Case:
        return Case(name, message.hex(), note, **rest)

    keys = {
        "key not UTF-8": b"\xff",
        "key overlong UTF-8": b"\xc0\x80",
        "key surrogate": b"\xed\xa0\x80",
        "key above U+10FFFF": b"\xf4\x90\x80\x80",
        "key cut UTF-8": b"\xe2\x82",
        "key with NUL": b"\x00",
        "key two-byte UTF-8": "é".encode(),
        "key four-byte UTF-8": "😀".encode(),
    }
    for name, key in keys.items():
        yield case(name, example(entry(key, int64_list(ONE))), key.hex(" "), key=key)
    yield case("value before key", of_entry(one + delimited(KEY, b"a")), "")
    yield case("entry without value", of_entry(delimited(KEY, b"a")), "")
    yield case("entry without key", of_entry(one), "key is the empty string", key=b"")
    yield case("entry with empty key", of_entry(delimited(KEY, b"") + one), "", key=b"")
    yield case(
        "entry without key, then entry with empty key",
        example(delimited(1, one), entry(b"", int64_list(TWO))),
        "[1], then [2]",
        key=b"",
    )
    yield case("entry empty", of_entry(b""), "neither key nor value", key=b"")
    yield case("key twice in one entry", of_entry(delimited(KEY, b"b") + delimited(KEY, b"a") + one), "b, then a")
    yield case(
        "key twice in one entry, first not UTF-8",
        of_entry(delimited(KEY, b"\xff") + delimited(KEY, b"a") + one),
        "ff, then a",
    )
    yield case("value twice in one entry", of_entry(delimited(KEY, b"a") + one + two), "[1], then [2]")
    yield case("value twice around the key", of_entry(one + delimited(KEY, b"a") + two), "[1], then [2]")
    yield case(
        "value twice in one entry, other kind",
        of_entry(delimited(KEY, b"a") + one + delimited(VALUE, float_list(FLOAT_TWO))),
        "int64 [1], then float [2]",
        kinds=("int64", "float"),
    )
    yield case(
        "value twice in one entry, second empty",
        of_entry(delimited(KEY, b"a") + one + delimited(VALUE, b"")),
        "[1], then a Feature of 0 bytes",
    )
    yield case("duplicate key", example(entry(b"a", int64_list(ONE)), entry(b"a", int64_list(TWO))), "[1], then [2]")
    yield case(
        "duplicate key, other kind",
        example(entry(b"a", int64_list(ONE)), entry(b"a", float_list(FLOAT_TWO))),
        "int64 [1], then float [2]",
        kinds=("int64", "float"),
    )
    yield case("duplicate key, second empty", example(entry(b"a", int64_list(ONE)), entry(b"a", b"")), "")
    yield case(
        "duplicate key, second without value",
        example(entry(b"a", int64_list(ONE)), delimited(1, delimited(KEY, b"a"))),
        "",
    )
    yield case(
        "duplicate key, first malformed",
        example(entry(b"a", delimited(INT64_LIST, b"\x0a\x05\x01")), entry(b"a", int64_list(TWO))),
        "the first list ends early",
    )


def kind_cases() -> Iterator[Case]:
    one, two = int64_list(ONE), int64_list(TWO)
    both = ("int64", "float")

    def case(name: str, feature: bytes, note: str, **rest: object) -> Case:
        return Case(name, of_feature(feature).hex(), note, **rest)

    yield case("Feature empty", b"", "no kind")
    yield case("bytes list empty", delimited(BYTES_LIST, b""), "", kinds=("bytes",))
    yield case("float list empty", delimited(FLOAT_LIST, b""), "", kinds=("float",))
    yield case("int64 list empty", delimited(INT64_LIST, b""), "")
    yield case("list twice in one Feature", one + two, "int64 [1], then int64 [2]")
    yield case(
        "float list twice in one Feature",
        float_list(FLOAT_ONE) + float_list(FLOAT_TWO),
        "[1], then [2]",
        kinds=("float",),
    )
    yield case(
        "bytes list twice in one Feature", bytes_list(b"x") + bytes_list(b"y"), "[x], then [y]", kinds=("bytes",)
    )
    yield case("list twice, second empty", one + delimited(INT64_LIST, b""), "[1], then []")
    yield case("two kinds in one Feature", one + float_list(FLOAT_TWO), "int64 [1], then float [2]", kinds=both)
    yield case("two kinds, second empty", one + delimited(FLOAT_LIST, b""), "int64 [1], then float []", kinds=both)
    yield case("two kinds, back again", one + float_list(FLOAT_TWO) + two, "int64, float, int64", kinds=both)
    yield case("list as unknown field of Feature", delimited(4, delimited(1, ONE)), "field 4 of Feature")
    yield case("unknown field holding a list", delimited(4, one), "field 4 of Feature, with an int64_list in it")
    yield case(
        "list nested in a list",
        delimited(INT64_LIST, delimited(1, delimited(1, ONE))),
        "the inner bytes are read as packed varints",
    )


def packing_cases() -> Iterator[Case]:
    def int64(name: str, payload: bytes, note: str) -> Case:
        return Case(name, of_int64_list(payload).hex(), note)

    def floats(name: str, payload: bytes, note: str) -> Case:
        return Case(name, of_float_list(payload).hex(), note, kinds=("float",))

    unpacked_one = tag(1, VARINT) + ONE
    unpacked_float = tag(1, FIXED32) + FLOAT_ONE
    yield int64("int64 packed, two chunks", delimited(1, ONE) + delimited(1, TWO), "")
    yield int64("int64 packed, chunk empty", delimited(1, b""), "")
    yield int64("int64 packed, second chunk empty", delimited(1, ONE) + delimited(1, b""), "")
    yield int64("int64 unpacked", unpacked_one + tag(1, VARINT) + TWO, "")
    yield int64("int64 unpacked then packed", unpacked_one + delimited(1, TWO), "")
    yield int64("int64 packed then unpacked", delimited(1, TWO) + unpacked_one, "")
    yield floats("float packed, two chunks", delimited(1, FLOAT_ONE) + delimited(1, FLOAT_TWO), "")
    yield floats("float packed, chunk empty", delimited(1, b""), "")
    yield floats("float unpacked", unpacked_float + tag(1, FIXED32) + FLOAT_TWO, "")
    yield floats("float unpacked then packed", unpacked_float + delimited(1, FLOAT_TWO), "")
    yield floats("float packed then unpacked", delimited(1, FLOAT_TWO) + unpacked_float, "")
    yield floats("float packed, 3 bytes", delimited(1, FLOAT_ONE[:3]), "not a multiple of 4")
    yield floats("float packed, 5 bytes", delimited(1, FLOAT_ONE + b"\x00"), "not a multiple of 4")
    yield floats("float packed, 6 then 2 bytes", delimited(1, FLOAT_ONE + b"\x00\x00") + delimited(1, b"\x00\x40"), "")
    yield int64("int64 packed, chunk ends inside a varint", delimited(1, b"\x01\x80"), "")
    yield int64(
        "int64 packed, varint goes on past the chunk",
        delimited(1, b"\x01\x80") + tag(1, VARINT) + ONE,
        "the next byte would complete it",
    )


def varint_cases() -> Iterator[Case]:
    values = {
        "80 00": b"\x80\x00",
        "81 80 80 80 80 00": varint(1, width=6),
        "zero in 10 bytes": varint(0, width=10),
        "one in 10 bytes": varint(1, width=10),
        "-1 in 10 bytes": b"\xff" * 9 + b"\x01",
        "10 bytes, last 02": b"\x80" * 9 + b"\x02",
        "10 bytes, last 7f": b"\xff" * 9 + b"\x7f",
        "10 bytes, last 7e": b"\xff" * 9 + b"\x7e",
        "11 bytes, last 00": varint(0, width=11),
        "11 bytes, ff ten times, then 01": b"\xff" * 10 + b"\x01",
        "20 bytes": varint(0, width=20),
    }
    for name, value in values.items():
        packed = of_int64_list(delimited(1, value))
        unpacked = of_int64_list(tag(1, VARINT) + value)
        unknown = spliced_example("Example", before(tag(UNKNOWN, VARINT) + value))
        yield Case(f"varint packed: {name}", packed.hex(), "")
        yield Case(f"varint unpacked: {name}", unpacked.hex(), "")
        yield Case(f"varint of an unknown field: {name}", unknown.hex(), "")


def length_cases() -> Iterator[Case]:
    features = example(entry(b"a", int64_list(ONE)))[2:]
    size = len(features)
    lengths = {
        "2 bytes": varint(size, width=2),
        "5 bytes": varint(size, width=5),
        "6 bytes": varint(size, width=6),
        "10 bytes": varint(size, width=10),
        "11 bytes": varint(size, width=11),
        "2^31 - 1": varint(2**31 - 1),
        "2^31": varint(2**31),
        "2^32 - 1": varint(2**32 - 1),
        "2^32 + the true length": varint(2**32 + size),
        "2^63 + the true length": varint(2**63 + size),
        "2^64 - 1": varint(2**64 - 1),
    }
    for name, length in lengths.items():
        yield Case(f"length of Features: {name}", (tag(1, DELIMITED) + length + features).hex(), "")
    for name in ("2 bytes", "5 bytes", "6 bytes", "2^32 + the true length"):
        key_length = {"2^32 + the true length": varint(2**32 + 1)}.get(name) or varint(1, width=int(name[0]))
        one = delimited(VALUE, int64_list(ONE))
        yield Case(f"length of key: {name}", of_entry(tag(KEY, DELIMITED) + key_length + b"a" + one).hex(), "")
        packed = tag(1, DELIMITED) + key_length + ONE
        yield Case(f"length of packed list: {name}", of_int64_list(packed).hex(), "")
        skipped = tag(UNKNOWN, DELIMITED) + key_length + b"x"
        yield Case(f"length of unknown field: {name}", spliced_example("Example", before(skipped)).hex(), "")


def tag_cases() -> Iterator[Case]:
    features = example(entry(b"a", int64_list(ONE)))[1:]
    tags = {
        "8a 00": varint(10, width=2),
        "8a 80 00": varint(10, width=3),
        "5 bytes": varint(10, width=5),
        "6 bytes": varint(10, width=6),
        "10 bytes": varint(10, width=10),
        "11 bytes": varint(10, width=11),
        "bit 32 set": varint(2**32 + 10),
        "bit 34 set": varint(2**34 + 10),
        "bit 35 set": varint(2**35 + 10),
        "bit 63 set": varint(2**63 + 10),
        "field 2^29 - 1": varint((2**29 - 1) << 3 | DELIMITED),
        "field 2^29": varint(2**29 << 3 | DELIMITED),
        "field 2^29 + 1": varint((2**29 + 1) << 3 | DELIMITED),
    }
    for name, number in tags.items():
        yield Case(f"tag of Features: {name}", (number + features).hex(), "")
    for name in ("8a 00", "8a 80 00", "5 bytes", "6 bytes", "bit 32 set"):
        feature = tags[name] + delimited(VALUE, int64_list(ONE))[1:]
        replaced = example(delimited(1, tags[name] + b"\x01a" + delimited(VALUE, int64_list(ONE))))
        yield Case(f"tag of key: {name}", replaced.hex(), "")
        yield Case(f"tag of packed list: {name}", of_int64_list(tags[name] + b"\x01\x01").hex(), "")
        yield Case(f"tag of bytes list: {name}", of_feature(feature).hex(), "", kinds=("bytes",))
    for wire_type, value in ZERO_VALUES.items():
        junk = tag(0, wire_type) + value
        for level in EXAMPLE_LEVELS:
            name = f"field 0 as {WIRE_NAMES[wire_type]} in {level}"
            yield Case(name, spliced_example(level, before(junk)).hex(), "")
    yield Case("field 0, tag 80 00", spliced_example("Example", before(b"\x80\x00\x00")).hex(), "")
    yield Case("field 0 as group", spliced_example("Example", before(group(0))).hex(), "")


def wire_type_cases() -> Iterator[Case]:
    one = delimited(VALUE, int64_list(ONE))
    pair = delimited(KEY, b"a") + one
    for wire_type, value in ZERO_VALUES.items():
        wire = WIRE_NAMES[wire_type]
        if wire_type != DELIMITED:
            wrong = tag(1, wire_type) + value
            yield Case(f"Example.features as {wire}", (wrong + of_entry(pair)).hex(), "then the true one")
            yield Case(f"Features.feature as {wire}", example(wrong + delimited(1, pair)).hex(), "then the true one")
            yield Case(f"key as {wire}", of_entry(wrong + one).hex(), "and no other key", key=b"")
            yield Case(f"key as {wire}, then the key", of_entry(wrong + pair).hex(), "")
            wrong_value = tag(VALUE, wire_type) + value
            yield Case(f"value as {wire}", of_entry(delimited(KEY, b"a") + wrong_value).hex(), "and no other value")
            wrong_list = tag(INT64_LIST, wire_type) + value
            yield Case(f"int64_list as {wire}", of_feature(wrong_list).hex(), "")
            yield Case(f"int64_list as {wire}, then the list", of_feature(wrong_list + int64_list(ONE)).hex(), "")
            yield Case(
                f"int64_list, then float_list as {wire}",
                of_feature(int64_list(ONE) + tag(FLOAT_LIST, wire_type) + value).hex(),
                "",
            )
            bytes_value = of_feature(delimited(BYTES_LIST, wrong + delimited(1, b"x")))
            yield Case(f"bytes value as {wire}", bytes_value.hex(), "then the value x", kinds=("bytes",))
        if wire_type in (FIXED32, FIXED64):
            payload = tag(1, wire_type) + value + delimited(1, ONE)
            yield Case(f"int64 value as {wire}", of_int64_list(payload).hex(), "then packed [1]")
        if wire_type in (VARINT, FIXED64):
            payload = tag(1, wire_type) + value + delimited(1, FLOAT_ONE)
            yield Case(f"float value as {wire}", of_float_list(payload).hex(), "then packed [1]", kinds=("float",))
    for wire_type in (6, 7):
        for level in EXAMPLE_LEVELS:
            junk = tag(UNKNOWN, wire_type)
            yield Case(f"wire type {wire_type} in {level}", spliced_example(level, before(junk)).hex(), "")
        yield Case(f"Example.features as wire type {wire_type}", (tag(1, wire_type) + of_entry(pair)).hex(), "")


def unknown_cases() -> Iterator[Case]:
    for level in EXAMPLE_LEVELS:
        for wire_type, value in ZERO_VALUES.items():
            junk = tag(UNKNOWN, wire_type) + value
            wire = WIRE_NAMES[wire_type]
            yield Case(f"unknown {wire} first in {level}", spliced_example(level, before(junk)).hex(), "")
            yield Case(f"unknown {wire} last in {level}", spliced_example(level, after(junk)).hex(), "")
    for wire_type, value in ZERO_VALUES.items():
        cut = tag(UNKNOWN, wire_type) + (b"\x01" if wire_type == DELIMITED else value[:-1])
        wire = WIRE_NAMES[wire_type]
        yield Case(f"unknown {wire} cut short, last in Example", spliced_example("Example", after(cut)).hex(), "")
        yield Case(f"unknown {wire} cut short, last in entry", spliced_example("entry", after(cut)).hex(), "")
    odd_entry = delimited(KEY, b"a") + delimited(VALUE, int64_list(TWO)) + delimited(UNKNOWN, b"")
    yield Case(
        "duplicate key, unknown field in the second entry",
        example(entry(b"a", int64_list(ONE)), delimited(1, odd_entry)).hex(),
        "[1], then [2]",
    )
    yield Case(
        "key not UTF-8, unknown field in the entry",
        of_entry(delimited(KEY, b"\xff") + delimited(VALUE, int64_list(ONE)) + delimited(UNKNOWN, b"")).hex(),
        "",
        key=b"\xff",
    )
    yield Case(
        "unknown bytes reaching past its parent",
        (spliced_example("entry", after(tag(UNKNOWN, DELIMITED) + b"\x02")) + delimited(UNKNOWN, b"")).hex(),
        "the bytes are there, but belong to Example",
    )


def group_cases() -> Iterator[Case]:
    mismatched = tag(UNKNOWN, START_GROUP) + tag(UNKNOWN + 1, END_GROUP)
    for level in EXAMPLE_LEVELS:
        junks = {
            "group": group(UNKNOWN),
            "group with fields": group(UNKNOWN, tag(1, VARINT) + b"\x05" + delimited(2, b"xy")),
            "group of a known field number": group(1),
            "group left open": tag(UNKNOWN, START_GROUP),
            "end group unmatched": tag(UNKNOWN, END_GROUP),
            "end group of a known field number": tag(1, END_GROUP),
            "group with mismatched end": mismatched,
        }
        for name, junk in junks.items():
            place = after if "open" in name or "end" in name else before
            yield Case(f"{name} in {level}", spliced_example(level, place(junk)).hex(), "")
    whole = of_feature(int64_list(ONE))
    yield Case("known fields inside a group", group(UNKNOWN, whole).hex(), "a whole Example in the group")
    yield Case("group with malformed bytes field", group(UNKNOWN, delimited(1, b"\xff\xff")).hex(), "")
    yield Case("group with bytes field past its end", (tag(UNKNOWN, START_GROUP) + b"\x0a\x05\x7c").hex(), "")
    yield Case("group ended as field 0", (tag(UNKNOWN, START_GROUP) + tag(0, END_GROUP)).hex(), "")
    yield Case("group with field 0", group(UNKNOWN, b"\x00\x00").hex(), "")
    yield Case("group with wire type 6", group(UNKNOWN, tag(1, 6)).hex(), "")
    yield Case("groups crossed", b"\x7b\x73\x7c\x74".hex(), "15 { 14 { } }, ends swapped")
    yield Case(
        "group closed outside its parent",
        (spliced_example("entry", after(tag(UNKNOWN, START_GROUP))) + tag(UNKNOWN, END_GROUP)).hex(),
        "opened in the entry, closed in Example",
    )
    yield Case("group end with overlong tag", (tag(UNKNOWN, START_GROUP) + b"\xfc\x00" + whole).hex(), "")
    for depth, level in enumerate(EXAMPLE_LEVELS):
        for count in (DEPTH_LIMIT - depth, DEPTH_LIMIT - depth + 1):
            junk = nested_groups(count)
            yield Case(f"{count} nested groups in {level}", spliced_example(level, before(junk)).hex(), "")
    yield Case("10000 nested groups in Example", nested_groups(10_000).hex(), "")


def overrun_cases() -> Iterator[Case]:
    """A child whose length reaches past its parent, though the bytes are there."""
    filler = delimited(UNKNOWN, b"\x00" * 8)
    feature = delimited(INT64_LIST, delimited(1, ONE))
    key = delimited(KEY, b"a")

    def longer(field: int, payload: bytes) -> bytes:
        return tag(field, DELIMITED) + varint(len(payload) + 2) + payload

    parts = {
        "packed list past list": delimited(INT64_LIST, longer(1, ONE)),
        "list past Feature": longer(INT64_LIST, delimited(1, ONE)),
    }
    for name, odd in parts.items():
        yield Case(f"overrun: {name}", (example(entry(b"a", odd)) + filler).hex(), "")
    yield Case("overrun: Feature past entry", (of_entry(key + longer(VALUE, feature)) + filler).hex(), "")
    yield Case("overrun: key past entry", (of_entry(delimited(VALUE, feature) + longer(KEY, b"a")) + filler).hex(), "")
    yield Case("overrun: entry past Features", (example(longer(1, key + delimited(VALUE, feature))) + filler).hex(), "")
    yield Case("overrun: Features past Example", longer(1, delimited(1, key + delimited(VALUE, feature))).hex(), "")
    yield Case(
        "overrun: bytes value past list",
        (of_feature(delimited(BYTES_LIST, longer(1, b"x"))) + filler).hex(),
        "",
        kinds=("bytes",),
    )
    yield Case(
        "overrun: unpacked float past list", (of_float_list(b"\x0d\x00\x00") + filler).hex(), "", kinds=("float",)
    )
    yield Case("overrun: tag past list", (of_int64_list(delimited(1, ONE) + b"\x8a") + filler).hex(), "")


def sequence_of(feature_list: bytes, key: bytes = b"a") -> bytes:
    return delimited(2, delimited(1, delimited(KEY, key) + delimited(VALUE, feature_list)))


def steps(*features: bytes) -> bytes:
    return b"".join(delimited(1, feature) for feature in features)


def sequence_cases() -> Iterator[Case]:
    one, two = int64_list(ONE), int64_list(TWO)
    both = ("int64", "float")

    def case(name: str, message: bytes, note: str, **rest: object) -> Case:
        return Case(f"sequence: {name}", message.hex(), note, message="sequence", **rest)

    def pair(feature_list: bytes) -> bytes:
        return delimited(1, delimited(KEY, b"a") + delimited(VALUE, feature_list))

    yield case("zero bytes", b"", "")
    yield case("plain", sequence_of(steps(one, two)), "the reference")
    yield case("Example read as SequenceExample", of_feature(one), "features becomes context")
    yield case("context and list of one key", of_feature(two) + sequence_of(steps(one)), "")
    yield case("feature_lists empty", delimited(2, b""), "")
    yield case("feature list without steps", sequence_of(b""), "")
    yield case("entry without value", delimited(2, delimited(1, delimited(KEY, b"a"))), "")
    yield case("entry without key", delimited(2, delimited(1, delimited(VALUE, steps(one)))), "", key=b"")
    yield case("value before key", delimited(2, delimited(1, delimited(VALUE, steps(one)) + delimited(KEY, b"a"))), "")
    yield case("duplicate key", delimited(2, pair(steps(one)) + pair(steps(two))), "[[1]], then [[2]]")
    yield case("duplicate key, second empty", delimited(2, pair(steps(one)) + pair(b"")), "[[1]], then []")
    yield case(
        "FeatureList twice in one entry",
        delimited(2, delimited(1, delimited(KEY, b"a") + delimited(VALUE, steps(one)) + delimited(VALUE, steps(two)))),
        "[[1]], then [[2]]",
    )
    yield case("feature_lists repeated, same key", sequence_of(steps(one)) + sequence_of(steps(two)), "")
    yield case("feature_lists repeated, other keys", sequence_of(steps(one)) + sequence_of(steps(two), b"b"), "")
    yield case("feature_lists before context", sequence_of(steps(one)) + of_feature(two), "")
    yield case("step without kind", sequence_of(steps(b"", one)), "an empty Feature, then [1]")
    yield case("only steps without kind", sequence_of(steps(b"", b"")), "")
    yield case("step with empty list", sequence_of(steps(delimited(INT64_LIST, b""), one)), "[], then [1]")
    yield case("steps of different kinds", sequence_of(steps(one, float_list(FLOAT_TWO))), "", kinds=both)
    yield case("step with list twice", sequence_of(steps(one + two)), "[1], then [2] in one step")
    yield case("step with two kinds", sequence_of(steps(one + float_list(FLOAT_TWO))), "", kinds=both)
    yield case("step as varint", sequence_of(tag(1, VARINT) + b"\x05" + steps(one)), "then the step [1]")
    yield case("key not UTF-8", sequence_of(steps(one), b"\xff"), "", key=b"\xff")
    yield case(
        "step unpacked", sequence_of(steps(delimited(INT64_LIST, tag(1, VARINT) + ONE + tag(1, VARINT) + TWO))), ""
    )
    past = steps(delimited(BYTES_LIST, tag(1, DELIMITED) + b"\x03x"))
    yield case("overrun: bytes value past list", sequence_of(past) + delimited(UNKNOWN, bytes(8)), "", kinds=("bytes",))
    for level in SEQUENCE_LEVELS:
        junks = {
            "unknown varint": tag(UNKNOWN, VARINT) + b"\x05",
            "unknown bytes": delimited(UNKNOWN, b"x"),
            "group": group(UNKNOWN),
            "field 0": b"\x00\x00",
        }
        for name, junk in junks.items():
            yield case(f"{name} in {level}", spliced_sequence(level, before(junk)), "")
        depth = DEPTH_LIMIT - SEQUENCE_LEVELS.index(level)
        for count in (depth, depth + 1):
            yield case(f"{count} nested groups in {level}", spliced_sequence(level, before(nested_groups(count))), "")


def truncated_cases() -> Iterator[Case]:
    whole = example(entry(b"a", int64_list(b"\x01\x80\x01")), entry(b"b", bytes_list(b"xy"))) + delimited(UNKNOWN, b"z")
    for size in range(1, len(whole)):
        yield Case(f"cut: first {size} of {len(whole)} bytes", whole[:size].hex(), "")
    sequence = of_feature(int64_list(ONE)) + sequence_of(steps(int64_list(ONE), float_list(FLOAT_ONE)))
    for size in range(1, len(sequence)):
        note = "context is whole" if size == len(of_feature(int64_list(ONE))) else ""
        name = f"sequence: cut: first {size} of {len(sequence)} bytes"
        yield Case(name, sequence[:size].hex(), note, message="sequence")


SECTIONS = {
    "Whole messages": plain_cases,
    "Keys and map entries": key_cases,
    "Kinds and lists": kind_cases,
    "Packed and unpacked": packing_cases,
    "Varint values": varint_cases,
    "Lengths": length_cases,
    "Tags": tag_cases,
    "Wire types": wire_type_cases,
    "Unknown fields": unknown_cases,
    "Groups": group_cases,
    "Lengths past the parent": overrun_cases,
    "SequenceExample": sequence_cases,
    "Truncated": truncated_cases,
}

CASES = [case for make in SECTIONS.values() for case in make()]


def protobuf_value(case: Case) -> dict:
    try:
        return VALUES[case.message](bytes.fromhex(case.hex))
    except DecodeError:
        return {"error": True}


WIRE_FIELDS = {
    "example": ("tensorflow.Example", {"features": 1}),
    "sequence": ("tensorflow.SequenceExample", {"context": 1, "feature_lists": 2}),
}


def cpp_value(case: Case) -> dict:
    """What C++ protobuf reads: decode_proto with sanitize=True parses there and serialises again."""
    name, fields = WIRE_FIELDS[case.message]
    try:
        sizes, values = tf.io.decode_proto(
            bytes.fromhex(case.hex), name, list(fields), [tf.string] * len(fields), sanitize=True
        )
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError):
        return {"error": True}
    parts = [
        delimited(field, part)
        for field, size, found in zip(fields.values(), sizes.numpy(), values, strict=True)
        for part in found.numpy()[:size]
    ]
    return VALUES[case.message](b"".join(parts))


def values_read(read: Callable[[], object]) -> list | str:
    # An error that quotes bytes which are not UTF-8 reaches Python as UnicodeDecodeError.
    try:
        return read()
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
        return REFUSED


def example_readings(payload: bytes, key: bytes, dtype: tf.DType, count: int) -> dict[str, list | str]:
    """The values of one key as every kind of parse spec gives them."""
    varlen, ragged = tf.io.VarLenFeature(dtype), tf.io.RaggedFeature(dtype)
    batch = {
        "VarLen": lambda: tf.io.parse_example([payload], {key: varlen})[key].values,
        "Ragged": lambda: tf.io.parse_example([payload], {key: ragged})[key].values,
        "single VarLen": lambda: tf.io.parse_single_example(payload, {key: varlen})[key].values,
    }
    readings = {name: values_read(lambda read=read: read().numpy().tolist()) for name, read in batch.items()}
    found = readings["VarLen"]
    fixed = tf.io.FixedLenFeature([len(found) if found and found != REFUSED else count], dtype)
    dense = {
        "FixedLen": lambda: tf.io.parse_example([payload], {key: fixed})[key][0],
        "single FixedLen": lambda: tf.io.parse_single_example(payload, {key: fixed})[key],
    }
    readings |= {name: values_read(lambda read=read: read().numpy().tolist()) for name, read in dense.items()}
    return readings


def nested_steps(sparse: tf.SparseTensor) -> list[list]:
    nested: list[list] = [[] for _ in range(int(sparse.dense_shape[1]))]
    for (_, step, _), value in zip(sparse.indices.numpy(), sparse.values.numpy(), strict=True):
        nested[step].append(value)
    return tf.nest.map_structure(lambda value: getattr(value, "tolist", lambda: value)(), nested)


def context_readings(case: Case, dtype: tf.DType) -> dict[str, list | str]:
    payload = bytes.fromhex(case.hex)

    def read(spec: object) -> list:
        context = tf.io.parse_sequence_example([payload], context_features={case.key: spec})[0]
        return context[case.key].values.numpy().tolist()

    return {
        "VarLen": CRASH if case.name in CRASHING else values_read(lambda: read(tf.io.VarLenFeature(dtype))),
        "Ragged": values_read(lambda: read(tf.io.RaggedFeature(dtype))),
    }


def list_readings(case: Case, dtype: tf.DType) -> dict[str, list | str]:
    payload = bytes.fromhex(case.hex)

    def read(spec: object) -> tf.SparseTensor | tf.RaggedTensor | tf.Tensor:
        return tf.io.parse_sequence_example([payload], sequence_features={case.key: spec})[1][case.key]

    fixed = tf.io.FixedLenSequenceFeature([1], dtype, allow_missing=True)
    return {
        "VarLen": CRASH
        if case.name in CRASHING
        else values_read(lambda: nested_steps(read(tf.io.VarLenFeature(dtype)))),
        "Ragged": values_read(lambda: read(tf.io.RaggedFeature(dtype))[0].to_list()),
        "FixedLenSequence": values_read(lambda: read(fixed)[0].numpy().tolist()),
    }


def value_text(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(value_text(each) for each in value) + "]"
    if isinstance(value, bytes):
        return repr(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def readings_text(readings: dict[str, list | str], *, lenient: tuple[str, ...] = ()) -> str:
    """One text if all agree, else each group of readers that does.

    A `lenient` reader asks for a fixed number of values: its refusal of an empty reading says nothing new.
    """
    empty = next(iter(readings.values())) in ([], [[]])
    texts = {
        name: value_text(values)
        for name, values in readings.items()
        if not (name in lenient and empty and values in (REFUSED, []))
    }
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    ordered = sorted(texts, key=lambda name: texts[name])
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in groupby(ordered, key=texts.get))


def by_kind(case: Case, read: Callable[[tf.DType], str]) -> str:
    texts = {kind: read(DTYPES[kind]) for kind in case.kinds}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"as {kind}: {text}" for kind, text in texts.items())


def parse_example_text(case: Case, value: dict) -> str:
    if case.message == "sequence":
        return ""
    payload = bytes.fromhex(case.hex)
    _, values = value.get("features", {}).get(case.key.hex(), [None, []])
    fixed = ("FixedLen", "single FixedLen")
    return by_kind(
        case,
        lambda dtype: readings_text(example_readings(payload, case.key, dtype, len(values) or 1), lenient=fixed),
    )


def parse_sequence_text(case: Case) -> str:
    readings = context_readings if case.message == "example" else list_readings
    return by_kind(case, lambda dtype: readings_text(readings(case, dtype)))


def json_value_text(kind: str | None, values: list) -> str:
    if kind is None:
        return "no kind"
    shown = {"bytes": bytes.fromhex, "float": float.fromhex, "int64": int}[kind]
    return f"{kind} {value_text([shown(value) for value in values])}"


def key_text(key_hex: str) -> str:
    return repr(bytes.fromhex(key_hex).decode())


def protobuf_text(value: dict) -> str:
    if "error" in value:
        return REFUSED
    features = value.get("features", value.get("context", {}))
    parts = [f"{key_text(key)}: {json_value_text(*feature)}" for key, feature in features.items()]
    for key, listed in value.get("lists", {}).items():
        parts.append(f"{key_text(key)}: steps [{', '.join(json_value_text(*step) for step in listed)}]")
    return "; ".join(parts) or "nothing"


def hex_text(text: str) -> str:
    if not text:
        return "none"
    return f"`{text}`" if len(text) <= 64 else f"`{text[:16]}…{text[-40:]}` ({len(text) // 2} bytes)"


class Row(NamedTuple):
    case: Case
    protobuf: dict
    cpp: dict
    example: str
    sequence: str


def read_case(case: Case) -> Row:
    value = protobuf_value(case)
    return Row(case, value, cpp_value(case), parse_example_text(case, value), parse_sequence_text(case))


def protobuf_cell(row: Row) -> str:
    upb, cpp = protobuf_text(row.protobuf), protobuf_text(row.cpp)
    return upb if upb == cpp else f"{upb}; **C++: {cpp}**"


def row_text(row: Row) -> str:
    note = f" ({row.case.note})" if row.case.note else ""
    cells = [row.case.name + note, hex_text(row.case.hex), protobuf_cell(row), row.example, row.sequence]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(rows: list[Row]) -> str:
    head = "| case | bytes | protobuf | parse_example | parse_sequence_example |\n|---|---|---|---|---|"
    return "\n".join([head, *map(row_text, rows)])


def is_refused_by_all(row: Row) -> bool:
    return {protobuf_cell(row), row.example or REFUSED, row.sequence} == {REFUSED}


def section_text(title: str, rows: list[Row]) -> str:
    if title != "Truncated":
        return table(rows)
    others = [row for row in rows if not is_refused_by_all(row)]
    return f"{len(rows)} cuts; all readers refuse all but these {len(others)}.\n\n{table(others)}"


def case_json(row: Row) -> str:
    case = row.case
    described = {"name": case.name, "message": case.message, "note": case.note, "hex": case.hex}
    described["protobuf"] = row.protobuf
    if row.cpp != row.protobuf:
        described["cpp"] = row.cpp
    return json.dumps(described, ensure_ascii=False)


def main() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    sections = {title: [read_case(case) for case in make()] for title, make in SECTIONS.items()}
    lines = ",\n".join(case_json(row) for rows in sections.values() for row in rows)
    (Path(__file__).parent / "odd_cases.json").write_text(f"[\n{lines}\n]\n")
    print(f"protobuf {google.protobuf.__version__}, TensorFlow {tf.__version__}, {len(CASES)} cases.")
    for title, rows in sections.items():
        print(f"\n## {title}\n\n{section_text(title, rows)}")


if __name__ == "__main__":
    main()
