"""Parts of scripts, as people show them when they ask: what is left out is not known, and reading goes on."""

import io
from pathlib import Path

import numpy as np
import pytest

import bushel

COMMENT_ONLY = """import tensorflow as tf

def parse(example):
    # parse the example here

dataset = tf.data.TFRecordDataset("train.tfrecord-*")
dataset = dataset.map(parse).batch(32)
for step in range(10):  # some steps
    # train here
model.fit(dataset, epochs=10)
"""
UNDEFINED = """import tensorflow as tf

def parse(example):
    features = tf.io.parse_single_example(example, feature_description)
    image = tf.io.decode_jpeg(features["image"])
    image = tf.reshape(image, [28, 28, 1])
    return image, features["label"]

dataset = tf.data.TFRecordDataset(filenames).map(parse).batch(BATCH)
model.fit(dataset)
"""
SORTED = """import tensorflow as tf

SPEC = {"x": tf.io.FixedLenFeature([2], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
def parse(example):
    features = tf.io.parse_single_example(example, SPEC)
    return features["x"], features["label"]

dataset = tf.data.TFRecordDataset("sorted.tfrecord").map(parse).batch(1).repeat()
model = ...
model.fit(dataset, steps_per_epoch=100, epochs=3)
"""


def loud(data: Path | None, folder: Path, code: str) -> list[tuple[str, int | None]]:
    script = folder / "question.py"
    script.write_text(code)
    found = bushel.check(data, script=script)
    return [(one.rule, one.locations[0].line) for one in found if one.severity == "error" and one.rule[:3] == "PIP"]


def test_bodies_that_hold_only_comments_do_nothing(tmp_path: Path) -> None:
    assert loud(None, tmp_path, COMMENT_ONLY) == [("PIP020", 6)]


def test_what_an_undefined_name_stands_for_is_not_known(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    data = tmp_path / "train.tfrecord"
    with bushel.Writer(data) as writer:
        for number in range(40):
            file = io.BytesIO()
            shape = (28 if number % 2 else 40, 28)
            image.fromarray(random.integers(0, 255, shape, dtype="uint8")).save(file, "JPEG")
            writer.write({"image": file.getvalue(), "label": number % 2})
    assert loud(data, tmp_path, UNDEFINED) == [("PIP029", 6)]


def test_a_value_that_is_left_out_keeps_nothing_from_being_read(tmp_path: Path) -> None:
    data = tmp_path / "sorted.tfrecord"
    with bushel.Writer(data) as writer:
        for number in range(400):
            writer.write({"x": [float(number), 1.0], "label": number // 100})
    assert loud(data, tmp_path, SORTED) == [("PIP012", 10)]


def test_a_name_that_nothing_defines_is_an_error_in_a_whole_script(tmp_path: Path) -> None:
    assert loud(None, tmp_path, "import tensorflow as tf\nrows = tf.data.Dataset.range(SIZE)\n") == [("PIP031", 2)]
    misspelt = "BATCH = 32\ndef make(rows):\n    # make\n\nmake(BATCHE)\n"
    assert loud(None, tmp_path, misspelt) == [("PIP031", 5)]


def test_code_that_is_not_python_is_refused_as_before(tmp_path: Path) -> None:
    (tmp_path / "question.py").write_text("def parse(x)\n    return x\n")
    with pytest.raises(bushel.BushelError, match="not Python: line 1"):
        bushel.check(script=tmp_path / "question.py")
