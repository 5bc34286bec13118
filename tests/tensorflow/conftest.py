import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import write_clips, write_every_kind
from pictures import encode_image, photo

import bushel
from bushel import Feature, Ragged, Schema

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session")
def floats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 records of `x` (4 floats) and `label` in three shards."""
    folder = tmp_path_factory.mktemp("floats")
    x = np.arange(400, dtype=np.float32).reshape(100, 4)
    for shard, rows in enumerate(np.array_split(np.arange(100), 3)):
        with bushel.Writer(folder / f"train-{shard:05}-of-00003.tfrecord") as writer:
            writer.write_batch({"x": x[rows], "label": rows})
    return folder


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """50 records with a feature of every kind that Examples hold."""
    return write_every_kind(tmp_path_factory.mktemp("mixed") / "mixed.tfrecord", 50, shortest=0)


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 SequenceExamples."""
    return write_clips(tmp_path_factory.mktemp("clips") / "clips.tfrecord", 20)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 JPEG images of different sizes, with the features that describe them."""
    path = tmp_path_factory.mktemp("photos") / "photos.tfrecord"
    schema = Schema.of(
        image=Feature(dtype="bytes", encoding="jpeg"),
        label=Feature(dtype="int64"),
        key=Feature(dtype="str"),
        **{"image/height": Feature(dtype="int64"), "image/width": Feature(dtype="int64")},
    )
    with bushel.Writer(path, schema=schema) as writer:
        for number in range(24):
            height, width = 40 + number, 60 - number
            image = encode_image(photo(number, height, width), "JPEG")
            about = {"key": f"{number}.jpg", "image/height": height, "image/width": width}
            writer.write({"image": image, "label": number % 3, **about})
    return path


@pytest.fixture(scope="session")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 records of indices and values."""
    path = tmp_path_factory.mktemp("sparse") / "sparse.tfrecord"
    generator = np.random.default_rng(0)
    places = [np.flatnonzero(generator.random(20) < 0.2) for _ in range(30)]
    values = [generator.random(len(row)).astype(np.float32) for row in places]
    with bushel.Writer(path) as writer:
        writer.write_batch(
            {
                "tfidf/indices": Ragged.of(places, np.int64),
                "tfidf/values": Ragged.of(values, np.float32),
                "label": np.arange(30),
            }
        )
    return path


@pytest.fixture(scope="session")
def to_plain() -> Callable[[Any], Any]:
    """Tensors as Python values, whatever they are, to compare."""
    import tensorflow as tf

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        if isinstance(value, tuple):
            return tuple(plain(part) for part in value)
        if isinstance(value, tf.RaggedTensor):
            return value.to_list()
        if isinstance(value, tf.SparseTensor):
            return tf.sparse.to_dense(value).numpy().tolist()
        return value.numpy().tolist()

    return plain
