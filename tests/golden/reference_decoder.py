"""A slow decoder of Example and SequenceExample that agrees with protobuf on every case of odd_cases.json.

Its use is as an oracle: it states each rule once, needs neither TensorFlow nor protobuf, and gives values in the form
that make_golden.py describes. Where two protobuf implementations differ, `Rules` says which one to follow.
"""

import math
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

DELIMITED, START_GROUP, END_GROUP = 2, 3, 4
KINDS = {1: "bytes", 2: "float", 3: "int64"}

MAX_VARINT = 10
MAX_SHORT_VARINT = 5
MAX_LENGTH = 2**31 - 1
MAX_DEPTH = 100


class Rules(NamedTuple):
    utf8_keys: bool = True
    entries_with_unknown_fields: bool = True
    tags_above_32_bits: bool = False
    field_0_in_groups: bool = False
    replaced_values: bool = True  # the value of a key that comes again later must be well-formed too
    messages_in_depth: bool = True  # the messages around a group count in its depth


UPB = Rules(entries_with_unknown_fields=False, field_0_in_groups=True)
CPP = Rules(tags_above_32_bits=True)
LENIENT = Rules(utf8_keys=False)
BUSHEL = Rules(utf8_keys=False, replaced_values=False, messages_in_depth=False)


class Malformed(Exception):
    pass


class Field(NamedTuple):
    number: int
    wire_type: int
    value: int | bytes


def read_varint(data: bytes, at: int, *, longest: int) -> tuple[int, int]:
    value = 0
    for i in range(longest):
        if at + i >= len(data):
            raise Malformed("ends inside a varint")
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & (2**64 - 1), at + i + 1
    raise Malformed("varint too long")


def read_tag(data: bytes, at: int, rules: Rules) -> tuple[int, int, int]:
    tag, at = read_varint(data, at, longest=MAX_SHORT_VARINT)
    if tag >= 2**32 and not rules.tags_above_32_bits:
        raise Malformed("tag above 32 bits")
    tag &= 2**32 - 1
    return tag >> 3, tag & 7, at


def read_fixed(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - at:
        raise Malformed("field reaches past its parent")
    return data[at : at + size], at + size


def read_value(data: bytes, at: int, wire_type: int) -> tuple[int | bytes, int]:
    match wire_type:
        case 0:
            return read_varint(data, at, longest=MAX_VARINT)
        case 1:
            return read_fixed(data, at, 8)
        case 2:
            length, at = read_varint(data, at, longest=MAX_SHORT_VARINT)
            if length > MAX_LENGTH:
                raise Malformed("length above 2^31 - 1")
            return read_fixed(data, at, length)
        case 5:
            return read_fixed(data, at, 4)
        case _:
            raise Malformed("wire type that does not exist, or an end without a group")


def skip_group(data: bytes, at: int, number: int, depth: int, rules: Rules) -> int:
    """The offset after the end tag of a group whose start tag ends at `at`."""
    open_groups = [number]
    depth = depth if rules.messages_in_depth else 0
    while open_groups:
        if depth + len(open_groups) > MAX_DEPTH:
            raise Malformed("nested too deep")
        inner, wire_type, at = read_tag(data, at, rules)
        if wire_type == END_GROUP:
            if inner != open_groups.pop():
                raise Malformed("group ended by another number")
            continue
        if inner == 0 and not rules.field_0_in_groups:
            raise Malformed("field 0")
        if wire_type == START_GROUP:
            open_groups.append(inner)
        else:
            _, at = read_value(data, at, wire_type)
    return at


def fields(data: bytes, depth: int, rules: Rules) -> Iterator[Field]:
    """The fields of one message; a group is given as START_GROUP without its contents."""
    at = 0
    while at < len(data):
        number, wire_type, at = read_tag(data, at, rules)
        if number == 0:
            raise Malformed("field 0")
        if wire_type == START_GROUP:
            at = skip_group(data, at, number, depth, rules)
            yield Field(number, wire_type, b"")
        else:
            value, at = read_value(data, at, wire_type)
            yield Field(number, wire_type, value)


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def float_text(data: bytes) -> str:
    (value,) = struct.unpack("<f", data)
    return "nan" if math.isnan(value) else value.hex()


def packed_floats(data: bytes) -> list[str]:
    if len(data) % 4:
        raise Malformed("packed floats are not a multiple of 4 bytes")
    return [float_text(data[i : i + 4]) for i in range(0, len(data), 4)]


def packed_int64s(data: bytes) -> list[int]:
    values = []
    at = 0
    while at < len(data):
        value, at = read_varint(data, at, longest=MAX_VARINT)
        values.append(signed(value))
    return values


def list_values(kind: str, data: bytes, depth: int, rules: Rules) -> list:
    values = []
    for field in fields(data, depth, rules):
        match kind, field.number, field.wire_type:
            case "bytes", 1, 2:
                values.append(field.value.hex())
            case "float", 1, 5:
                values.append(float_text(field.value))
            case "float", 1, 2:
                values += packed_floats(field.value)
            case "int64", 1, 0:
                values.append(signed(field.value))
            case "int64", 1, 2:
                values += packed_int64s(field.value)
    return values


def feature(parts: list[bytes], depth: int, rules: Rules) -> list:
    """One Feature given in parts: lists of one kind add up, a list of another kind replaces what came before."""
    kind, values = None, []
    for part in parts:
        for field in fields(part, depth, rules):
            if field.wire_type != DELIMITED or field.number not in KINDS:
                continue
            if KINDS[field.number] != kind:
                kind, values = KINDS[field.number], []
            values += list_values(kind, field.value, depth + 1, rules)
    return [kind, values]


def feature_list(parts: list[bytes], depth: int, rules: Rules) -> list[list]:
    return [
        feature([field.value], depth + 1, rules)
        for part in parts
        for field in fields(part, depth, rules)
        if (field.number, field.wire_type) == (1, DELIMITED)
    ]


def map_entry(data: bytes, depth: int, rules: Rules) -> tuple[bytes, list[bytes], bool]:
    """The last key, every value in order, and whether there was any other field."""
    key, values, has_unknown = b"", [], False
    for field in fields(data, depth, rules):
        match field.number, field.wire_type:
            case 1, 2:
                key = field.value
                if rules.utf8_keys:
                    require_utf8(key)
            case 2, 2:
                values.append(field.value)
            case _:
                has_unknown = True
    return key, values, has_unknown


def require_utf8(key: bytes) -> None:
    try:
        key.decode()
    except UnicodeDecodeError:
        raise Malformed("key is not UTF-8") from None


def map_values(parts: list[bytes], depth: int, rules: Rules, read: Callable[[list[bytes], int, Rules], list]) -> dict:
    """A map given in parts: a later entry replaces an earlier one with the same key."""
    found = {}
    for part in parts:
        for field in fields(part, depth, rules):
            if (field.number, field.wire_type) != (1, DELIMITED):
                continue
            key, values, has_unknown = map_entry(field.value, depth + 1, rules)
            if rules.replaced_values:
                read(values, depth + 2, rules)
            if not has_unknown or rules.entries_with_unknown_fields:
                found[key] = values
    return {key.hex(): read(found[key], depth + 2, rules) for key in sorted(found)}


def parts_of(data: bytes, number: int, rules: Rules) -> list[bytes]:
    return [field.value for field in fields(data, 0, rules) if (field.number, field.wire_type) == (number, DELIMITED)]


def decode(message: str, data: bytes, rules: Rules) -> dict:
    try:
        features = map_values(parts_of(data, 1, rules), 1, rules, feature)
        if message == "example":
            return {"features": features}
        return {"context": features, "lists": map_values(parts_of(data, 2, rules), 1, rules, feature_list)}
    except Malformed:
        return {"error": True}
