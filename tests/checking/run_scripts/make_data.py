"""The records that the scripts of this folder read: small, and of every kind that they need."""

from pathlib import Path

import numpy as np
import tensorflow as tf


def _bytes(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _ints(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.reshape(values, -1).tolist()))


def _floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=np.reshape(values, -1).tolist()))


def _write(folder, split, records, *, shards=2, compression=""):
    folder.mkdir(parents=True, exist_ok=True)
    suffix = ".tfrecord.gz" if compression else ".tfrecord"
    parts = np.array_split(np.arange(len(records)), shards)
    for number, part in enumerate(parts):
        path = folder / f"{split}-{number:05}-of-{shards:05}{suffix}"
        with tf.io.TFRecordWriter(str(path), options=compression or None) as writer:
            for index in part:
                writer.write(records[index])


def _example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def digits(root, *, name="digits", compression=""):
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(3).permutation(len(found.target))[:760]
    records = []
    for index in order:
        pixels = np.kron(np.clip(found.images[index] * 16, 0, 255), np.ones((4, 4))).astype(np.uint8)
        image = tf.io.encode_png(np.repeat(pixels[..., None], 3, axis=2)).numpy()
        records.append(_example(image=_bytes(image), label=_ints(found.target[index]), id=_ints(index)))
    _write(root / name, "train", records[:600], compression=compression)
    _write(root / name, "val", records[600:], shards=1, compression=compression)


def sensors(root, *, name="sensors", is_sorted=False):
    draw = np.random.default_rng(5)
    centres = draw.normal(0, 2, (5, 16))
    labels = draw.integers(0, 5, 700)
    if is_sorted:
        labels[:560] = np.sort(labels[:560])
    rows = centres[labels] + draw.normal(0, 1, (700, 16))
    records = [
        _example(x=_floats(row), label=_ints(label), target=_floats(row[:3].sum() + draw.normal()))
        for row, label in zip(rows, labels, strict=True)
    ]
    _write(root / name, "train", records[:560])
    _write(root / name, "val", records[560:], shards=1)


def reviews(root):
    draw = np.random.default_rng(7)
    records = []
    for _ in range(400):
        label = int(draw.integers(0, 2))
        length = int(draw.integers(4, 30))
        tokens = draw.integers(1, 200, length) + (200 if label else 0) * (draw.random(length) < 0.4)
        text = " ".join(f"w{token}" for token in tokens)
        records.append(_example(tokens=_ints(tokens), label=_ints(label), text=_bytes(text.encode())))
    _write(root / "reviews", "train", records[:320])
    _write(root / "reviews", "val", records[320:], shards=1)


def clips(root):
    draw = np.random.default_rng(11)
    records = []
    for _ in range(200):
        label = int(draw.integers(0, 3))
        frames = draw.normal(label, 1, (int(draw.integers(5, 12)), 8))
        lists = tf.train.FeatureLists(feature_list={"frames": tf.train.FeatureList(feature=[_floats(f) for f in frames])})
        context = tf.train.Features(feature={"label": _ints(label), "length": _ints(len(frames))})
        records.append(tf.train.SequenceExample(context=context, feature_lists=lists).SerializeToString())
    _write(root / "clips", "train", records[:160], shards=1)
    _write(root / "clips", "val", records[160:], shards=1)


def make(root):
    """Write everything below a folder."""
    root = Path(root)
    digits(root)
    digits(root, name="digits_gz", compression="GZIP")
    sensors(root)
    sensors(root, name="sensors_sorted", is_sorted=True)
    reviews(root)
    clips(root)


if __name__ == "__main__":
    import sys

    make(sys.argv[1])
