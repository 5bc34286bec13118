"""Write the golden TFRecord files, and golden.json which says what is in them.

    python make_golden.py [FOLDER]        default: the folder of this script

Everything comes from TensorFlow and protobuf, nothing from the package under test.

golden.json: {"versions": {...}, "files": {name: file}}, where a file is

    compression   null, "gzip" or "zlib"
    message       "example", "sequence" or "raw"
    size, sha256  of the file on disk
    records       [{"offset", "length", "hex" or "sha256", "value"}]

An offset counts in the uncompressed stream. Payloads above 2 kB are given by their SHA-256. A value is

    Example           {"features": FEATURES}
    SequenceExample   {"context": FEATURES, "lists": {key: [feature, ...]}}

where FEATURES is {key: feature}, a feature is [kind, values], kind is "bytes", "float", "int64" or null (no list was
set), keys and bytes are hex, and floats are float.hex() or "nan".
"""

import gzip
import hashlib
import json
import math
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import google.protobuf
import tensorflow as tf

HEADER = 12
FOOTER = 4
LARGEST_HEX = 2048

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
SMALLEST_DENORMAL = 2.0**-149
LARGEST_FLOAT = (2 - 2.0**-23) * 2.0**127

INT64_LISTS = [
    [0],
    [1],
    [-1],
    [INT64_MAX],
    [INT64_MIN],
    [0, 1, -1, INT64_MAX, INT64_MIN],
    [127, 128, 16383, 16384, 2**31 - 1, 2**31, 2**32, 2**62],
    list(range(200)),
    [],
]

FLOAT_LISTS = [
    [0.0],
    [-0.0],
    [math.inf],
    [-math.inf],
    [math.nan],
    [SMALLEST_DENORMAL],
    [-SMALLEST_DENORMAL],
    [LARGEST_FLOAT],
    [0.0, -0.0, 1.5, math.inf, math.nan, SMALLEST_DENORMAL, 0.1],
    [i / 8 for i in range(100)],
    [],
]

BYTES_LISTS = [
    [b""],
    [b"a"],
    [b"\xff\xfe\x80"],
    [b"one", b"", b"three", b"\x00"],
    [bytes(i % 256 for i in range(300))],
    [b"x" * 127, b"y" * 128],
    [],
]

RAW_RECORDS = [
    b"",
    b"\x00",
    b"this is no protobuf\n",
    b'{"label": 3}',
    b"\xff" * 300,
    bytes(range(256)),
    bytes(16),
]


def int64_feature(values: list[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def float_feature(values: list[float]) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def bytes_feature(values: list[bytes]) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(features: dict[str, tf.train.Feature]) -> bytes:
    message = tf.train.Example(features=tf.train.Features(feature=features))
    return message.SerializeToString(deterministic=True)


def sequence_example(context: dict[str, tf.train.Feature], lists: dict[str, list[tf.train.Feature]]) -> bytes:
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature=context),
        feature_lists=tf.train.FeatureLists(
            feature_list={key: tf.train.FeatureList(feature=steps) for key, steps in lists.items()}
        ),
    )
    return message.SerializeToString(deterministic=True)


def mixed_record(i: int) -> bytes:
    return example(
        {
            "label": int64_feature([i % 3]),
            "name": bytes_feature([f"sample {i}".encode()]),
            "weights": float_feature([i / 4 + j for j in range(i % 5)]),
        }
    )


def sequence_records() -> list[bytes]:
    context = {"id": int64_feature([7]), "name": bytes_feature([b"first"])}
    ragged = [int64_feature([1, 2, 3]), int64_feature([]), int64_feature([-4])]
    frames = [bytes_feature([b"f0"]), bytes_feature([b"\xff\x00"])]
    scores = [float_feature([0.5]), float_feature([-0.0, math.inf])]
    return [
        sequence_example(context, {"frames": frames, "tokens": ragged}),
        sequence_example(context, {"frames": [], "tokens": ragged}),
        sequence_example(context, {"scores": scores, "tokens": [int64_feature([])]}),
        sequence_example(context, {}),
        sequence_example({}, {"frames": frames, "tokens": []}),
        sequence_example({}, {"tokens": [tf.train.Feature(), int64_feature([5])]}),
        b"",
    ]


def filler(length: int) -> bytes:
    return (b"0123456789abcdef" * (length // 16 + 1))[:length]


def golden_files() -> Iterator[tuple[str, str, str | None, list[bytes]]]:
    """Yield the name, message, compression and records of each file."""
    mixed = [mixed_record(i) for i in range(20)]
    yield "empty_file.tfrecord", "raw", None, []
    yield "empty_file.tfrecord.gz", "raw", "gzip", []
    yield "empty.tfrecord", "example", None, [b""]
    yield "int64.tfrecord", "example", None, [example({"x": int64_feature(v)}) for v in INT64_LISTS]
    yield "float.tfrecord", "example", None, [example({"x": float_feature(v)}) for v in FLOAT_LISTS]
    yield "bytes.tfrecord", "example", None, [example({"x": bytes_feature(v)}) for v in BYTES_LISTS]
    yield "no_kind.tfrecord", "example", None, [example({}), example({"x": tf.train.Feature()})]
    yield "mixed.tfrecord", "example", None, mixed
    yield "mixed.tfrecord.gz", "example", "gzip", mixed
    yield "mixed.zlib.tfrecord", "example", "zlib", mixed
    yield "sequence.tfrecord", "sequence", None, sequence_records()
    yield "raw_bytes.tfrecord", "raw", None, RAW_RECORDS
    # Plain files whose first length, little-endian, starts like a compressed stream: 78 01, 78 9c and 1f 8b.
    yield "zlib_like.tfrecord", "raw", None, [filler(0x0178), b"second"]
    yield "zlib_like_default.tfrecord", "raw", None, [filler(0x9C78), b"second"]
    yield "gzip_like.tfrecord", "raw", None, [filler(0x8B1F), b"second"]


def write_records(path: Path, compression: str | None, records: list[bytes]) -> None:
    with tf.io.TFRecordWriter(str(path), options=(compression or "").upper()) as writer:
        for record in records:
            writer.write(record)


def decompressed(path: Path, compression: str | None) -> bytes:
    data = path.read_bytes()
    if compression == "gzip":
        return gzip.decompress(data)
    if compression == "zlib":
        return zlib.decompress(data)
    return data


def record_offsets(stream: bytes) -> list[int]:
    offsets = []
    at = 0
    while at < len(stream):
        offsets.append(at)
        (length,) = struct.unpack_from("<Q", stream, at)
        at += HEADER + length + FOOTER
    assert at == len(stream)
    return offsets


def float_text(value: float) -> str:
    return "nan" if math.isnan(value) else value.hex()


def feature_value(feature: tf.train.Feature) -> list:
    """[kind, values] of one feature, as JSON holds it."""
    match feature.WhichOneof("kind"):
        case "bytes_list":
            return ["bytes", [value.hex() for value in feature.bytes_list.value]]
        case "float_list":
            return ["float", [float_text(value) for value in feature.float_list.value]]
        case "int64_list":
            return ["int64", list(feature.int64_list.value)]
        case _:
            return [None, []]


def features_value(features: tf.train.Features) -> dict[str, list]:
    return {key.encode().hex(): feature_value(features.feature[key]) for key in sorted(features.feature)}


def example_value(payload: bytes) -> dict:
    return {"features": features_value(tf.train.Example.FromString(payload).features)}


def sequence_value(payload: bytes) -> dict:
    message = tf.train.SequenceExample.FromString(payload)
    lists = message.feature_lists.feature_list
    return {
        "context": features_value(message.context),
        "lists": {key.encode().hex(): [feature_value(step) for step in lists[key].feature] for key in sorted(lists)},
    }


VALUES = {"example": example_value, "sequence": sequence_value}


def describe_record(message: str, offset: int, payload: bytes) -> dict:
    described = {"offset": offset, "length": len(payload)}
    if len(payload) > LARGEST_HEX:
        described["sha256"] = hashlib.sha256(payload).hexdigest()
    else:
        described["hex"] = payload.hex()
    if message in VALUES:
        described["value"] = VALUES[message](payload)
    return described


def describe_file(path: Path, message: str, compression: str | None) -> dict:
    data = path.read_bytes()
    dataset = tf.data.TFRecordDataset(str(path), compression_type=(compression or "").upper())
    payloads = list(dataset.as_numpy_iterator())
    offsets = record_offsets(decompressed(path, compression))
    return {
        "compression": compression,
        "message": message,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "records": [describe_record(message, *pair) for pair in zip(offsets, payloads, strict=True)],
    }


def golden_json(described: dict) -> str:
    """One record per line: short enough to read, and a changed record is a changed line."""
    versions = {"tensorflow": tf.__version__, "protobuf": google.protobuf.__version__}
    files = []
    for name, file in described.items():
        records = ",\n".join("    " + json.dumps(record) for record in file["records"])
        head = json.dumps({key: value for key, value in file.items() if key != "records"})
        body = f"\n{records}\n  " if records else ""
        files.append(f'  {json.dumps(name)}: {head[:-1]}, "records": [{body}]}}')
    return f'{{"versions": {json.dumps(versions)},\n "files": {{\n' + ",\n".join(files) + "\n}}\n"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    described = {}
    for name, message, compression, records in golden_files():
        write_records(folder / name, compression, records)
        described[name] = describe_file(folder / name, message, compression)
        assert len(described[name]["records"]) == len(records)
    text = golden_json(described)
    assert json.loads(text)["files"] == described
    (folder / "golden.json").write_text(text)


if __name__ == "__main__":
    main()
