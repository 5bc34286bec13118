"""Write the seed corpus of the fuzz targets: one folder for each kind of data.

python make_seeds.py [FOLDER]        default: fuzz_seeds beside this script
"""

import math
import sys
from pathlib import Path

import make_golden as golden
from odd_messages import CASES

LARGEST = 400

ODD_EXAMPLES = [
    "value before key",
    "duplicate key",
    "value twice in one entry",
    "list twice in one Feature",
    "two kinds in one Feature",
    "features repeated, other keys",
    "int64 packed, two chunks",
    "int64 unpacked then packed",
    "float unpacked",
    "group with fields in list",
    "unknown fixed64 first in Feature",
    "length of key: 5 bytes",
    "tag of key: 8a 80 00",
    "varint packed: 10 bytes, last 7f",
]

ODD_SEQUENCES = [
    "FeatureList twice in one entry",
    "step without kind",
    "steps of different kinds",
    "step with two kinds",
]


def file_name(case_name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in case_name.lower()).replace("__", "_")


def example_seeds() -> dict[str, bytes]:
    every_kind = {
        "f": golden.float_feature([0.5, -0.0, math.inf]),
        "i": golden.int64_feature([0, -1, golden.INT64_MAX]),
        "s": golden.bytes_feature([b"", b"\xff\x00", b"text"]),
    }
    empty = {"f": golden.float_feature([]), "i": golden.int64_feature([]), "s": golden.bytes_feature([])}
    return {
        "no_features": b"",
        "int64": golden.example({"x": golden.int64_feature([1])}),
        "int64_extremes": golden.example({"x": golden.int64_feature([golden.INT64_MIN, golden.INT64_MAX])}),
        "float": golden.example({"x": golden.float_feature([1.5])}),
        "bytes": golden.example({"x": golden.bytes_feature([b"abc"])}),
        "bytes_two_byte_length": golden.example({"x": golden.bytes_feature([bytes(300)])}),
        "every_kind": golden.example(every_kind),
        "empty_lists": golden.example(empty),
        "mixed": golden.mixed_record(7),
    } | odd_seeds(ODD_EXAMPLES)


def sequence_seeds() -> dict[str, bytes]:
    records = {f"sequence_{i}": record for i, record in enumerate(golden.sequence_records())}
    return records | odd_seeds([f"sequence: {name}" for name in ODD_SEQUENCES])


def odd_seeds(names: list[str]) -> dict[str, bytes]:
    by_name = {case.name: case for case in CASES}
    return {file_name(name.removeprefix("sequence: ")): bytes.fromhex(by_name[name].hex) for name in names}


def record_seeds() -> dict[str, list[bytes]]:
    return {
        "none": [],
        "one_empty": [b""],
        "three_raw": [b"", b"a", bytes(range(40))],
        "two_examples": [golden.mixed_record(1), golden.mixed_record(2)],
        "one_sequence": golden.sequence_records()[:1],
    }


def text_seeds() -> dict[str, bytes]:
    return {"mixed": "Don't stop, café 日本 😀 ".encode() + b"\xff\xc3 a\xc2\xa0b"}


def json_seeds() -> dict[str, bytes]:
    return {
        "cut": b'{"a": "cut',
        "escapes": rb'{"t": "\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00 and more than sixteen bytes"}' + b"\n",
        "flat": b'{"text": "a b", "label": -12}\n\n \t\r\n{ "text" :"" ,"label":0 }\r\n{"text":"c","label":7}',
        "integers": b'{"a": 999999999999999999, "b": -999999999999999999}\n{"a": 0, "b": 1}\n',
        "nested": b'[[[[[[[[{"a": [[[[1]]]]}]]]]]]]]\n',
        "odd_text": b'{"a\\u0000b": "\\ud800", "": "\xff\xfe"}\n',
        "other_names": b'{"a": 1}\n{"b": 1}\n',
        "other_values": b'{"a": 1, "b": [1, {"c": null}], "d": 1.5e3}\n',
    }


def write_seeds(folder: Path, seeds: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, payload in seeds.items():
        assert len(payload) < LARGEST
        (folder / name).write_bytes(payload)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "fuzz_seeds"
    write_seeds(folder / "example", example_seeds())
    write_seeds(folder / "sequence", sequence_seeds())
    write_seeds(folder / "texts", text_seeds())
    write_seeds(folder / "json", json_seeds())
    (folder / "records").mkdir(exist_ok=True)
    for name, records in record_seeds().items():
        golden.write_records(folder / "records" / name, None, records)
    golden.write_records(folder / "records" / "two_examples.gz", "gzip", record_seeds()["two_examples"])


if __name__ == "__main__":
    main()
