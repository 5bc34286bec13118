"""Paths of which a script says only a part: what is known of them is used, and the rest is not guessed."""

from pathlib import Path

import numpy as np
import pytest

import bushel

HEAD = """
import argparse, os, sys
from pathlib import Path
import tensorflow as tf

args = argparse.ArgumentParser().parse_args()
root = args.data


def parse(record):
    features = {"x": tf.io.FixedLenFeature([8], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
    parsed = tf.io.parse_single_example(record, features)
    return parsed["x"], parsed["label"]

"""
TAIL = """
ds = ds.shuffle(10_000).map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(ds)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    random = np.random.default_rng(0)
    for split, count in (("train", 400), ("val", 100)):
        for shard in range(2):
            with bushel.Writer(
                tmp_path / "data" / f"{split}-{shard:05}-of-00002.tfrecord.gz", compression="gzip"
            ) as writer:
                for number in range(count // 2):
                    writer.write({"x": random.normal(size=8).astype(np.float32), "label": number % 4})
    return tmp_path / "data"


def found(data: Path, reads: str) -> dict[str, str]:
    script = data.parent / "train.py"
    script.write_text(HEAD + reads + TAIL)
    report = bushel.check(data, script=script)
    return {finding.rule: finding.message for finding in report if finding.severity != "info"}


READS = [
    'ds = tf.data.TFRecordDataset(tf.io.gfile.glob(f"{root}/train-*.tfrecord.gz"){gzip})',
    'ds = tf.data.TFRecordDataset(tf.io.gfile.glob(root + "/train-*.tfrecord.gz"){gzip})',
    'ds = tf.data.TFRecordDataset(tf.io.gfile.glob(os.path.join(root, "train-*.tfrecord.gz")){gzip})',
    'ds = tf.data.TFRecordDataset(tf.io.gfile.glob(str(Path(root) / "train-*.tfrecord.gz")){gzip})',
    'ds = tf.data.TFRecordDataset([f"{root}/train-{i:05}-of-00002.tfrecord.gz" for i in range(2)]{gzip})',
    'ds = tf.data.TFRecordDataset(f"{root}/{sys.argv[1]}-00000-of-00002.tfrecord.gz"{gzip})',
]


@pytest.mark.parametrize("reads", READS)
def test_a_path_whose_folder_is_not_known_is_compared_by_its_name(data: Path, reads: str) -> None:
    assert "PIP022" in found(data, reads.replace("{gzip}", ""))  # compressed, and not said
    assert found(data, reads.replace("{gzip}", ', compression_type="GZIP"')) == {}


def test_a_misspelt_name_behind_an_unknown_folder_is_found(data: Path) -> None:
    said = found(data, 'ds = tf.data.TFRecordDataset(tf.io.gfile.glob(f"{root}/trian-*.tfrecord.gz"), "GZIP")')
    assert "did you mean 'train-" in said["PIP021"]


def test_a_pattern_behind_an_unknown_folder_that_is_not_expanded_is_found(data: Path) -> None:
    assert "PIP020" in found(data, 'ds = tf.data.TFRecordDataset(f"{root}/train-*.tfrecord.gz", "GZIP")')


def test_a_name_that_is_not_known_is_not_guessed(data: Path) -> None:
    assert found(data, 'ds = tf.data.TFRecordDataset(f"{root}/{args.name}", "GZIP")') == {}
    assert found(data, 'ds = tf.data.TFRecordDataset(f"{root}/{args.name}.records", "GZIP")') == {}
    assert found(data, 'ds = tf.data.TFRecordDataset(args.files, "GZIP")') == {}
