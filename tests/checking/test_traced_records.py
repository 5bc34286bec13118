"""Records that are followed into the loss: what is lost or changed on the way is found, whatever did it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import bushel
from bushel.checking import Report

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.usefixtures("warm")

WORDS = ["red rose", "tall tulip", "wild iris", "white daisy", "small poppy", "blue aster"]
NAMES = ["rose", "tulip", "iris", "daisy"]


@pytest.fixture(scope="session")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records with raw pixels of 12 rows and 20 columns, a text, two measures, a number and a name of a class."""
    folder = tmp_path_factory.mktemp("flowers")
    draw = np.random.default_rng(0)
    across, down = np.meshgrid(np.arange(20), np.arange(12))
    number = 0
    for split, shards, count in (("train", 2, 96), ("val", 1, 64)):
        for shard in range(shards):
            with tf.io.TFRecordWriter(str(folder / f"{split}-{shard:05}-of-{shards:05}.tfrecord")) as file:
                for _ in range(count):
                    file.write(_record(draw, across, down, number))
                    number += 1
    return folder


def _record(draw: np.random.Generator, across: np.ndarray, down: np.ndarray, number: int) -> bytes:
    label = int(draw.integers(0, 4))
    wave = np.sin(across / (3 + label) + draw.uniform(0, 6)) + np.cos(down / 4 + draw.uniform(0, 6))
    pixels = np.stack([wave, wave * 0.5, -wave], axis=-1) * 60 + 128
    text = " ".join([WORDS[label], *(WORDS[one] for one in draw.integers(0, 6, draw.integers(1, 4)))])
    height, width = label + draw.normal(), draw.normal()
    features = {
        "pixels": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels.astype(np.uint8).tobytes()])),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
        "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[NAMES[label].encode()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "height": tf.train.Feature(float_list=tf.train.FloatList(value=[height])),
        "width": tf.train.Feature(float_list=tf.train.FloatList(value=[width])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


class Case(NamedTuple):
    """A script with a fault, what is said about it, and the replacement that mends it. Its line ends in `# <-`."""

    rule: str
    said: str
    code: str
    old: str
    new: str


START = """
import tensorflow as tf
from tensorflow import keras
SPEC = {
    "pixels": tf.io.FixedLenFeature([], tf.string),
    "text": tf.io.FixedLenFeature([], tf.string),
    "name": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
    "height": tf.io.FixedLenFeature([], tf.float32),
    "width": tf.io.FixedLenFeature([], tf.float32),
}
def records(split):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"flowers/{split}-*.tfrecord")))
def table(row):
    return tf.stack([row["height"], row["width"]])
def image(row):
    return tf.cast(tf.reshape(tf.io.decode_raw(row["pixels"], tf.uint8), [12, 20, 3]), tf.float32) / 255.0
def net(shape, units=4):
    return keras.Sequential([keras.Input(shape), keras.layers.Flatten(), keras.layers.Dense(16, "relu"),
                             keras.layers.Dense(units, "softmax")])
"""
FIT = (
    'train, val = rows("train").shuffle(200).batch(16), rows("val").batch(16)\n'
    'model.compile("adam", "sparse_categorical_crossentropy")\nmodel.fit(train, validation_data=val)\n'
)
TABLE = "model = net((2,))\n" + FIT
IMAGE = "model = net((12, 20, 3))\n" + FIT

CASES = {
    "label under a wrong name, with a default": Case(
        "PIP026",
        "no record has 'labels': every one gets 0, the default, as part of the target; did you mean 'label'?",
        START + "def parse(record):\n"
        '    asked = SPEC | {"labels": tf.io.FixedLenFeature([], tf.int64, 0)}  # <-\n'
        "    row = tf.io.parse_single_example(record, asked)\n"
        '    return table(row), row["labels"]\n'
        "def rows(split):\n    return records(split).map(parse)\n" + TABLE,
        'row["labels"]',
        'row["label"]',
    ),
    "measure under a wrong name, with a default": Case(
        "PIP026",
        "no record has 'hight': every one gets 0, the default, as part of the input; did you mean 'height'?",
        START + "def parse(record):\n"
        '    asked = SPEC | {"hight": tf.io.FixedLenFeature([], tf.float32, 0.0)}  # <-\n'
        "    row = tf.io.parse_single_example(record, asked)\n"
        '    return tf.stack([row["hight"], row["width"]]), row["label"]\n'
        "def rows(split):\n    return records(split).map(parse)\n" + TABLE,
        'row["hight"], row["width"]',
        'row["height"], row["width"]',
    ),
    "words that are not in the vocabulary": Case(
        "EXE074",
        "100% of the words of 'text' arrive as the same number: they are not in the vocabulary",
        START + 'words = keras.layers.StringLookup(mask_token="",\n'
        '    vocabulary=["Red", "Rose", "Tall", "Tulip", "Wild", "Iris", "White", "Daisy", "Small", "Poppy", "Blue"])\n'
        "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    text = row["text"]\n'
        '    return words(tf.strings.split(text)), row["label"]  # <-\n'
        "def rows(split):\n    return records(split).map(parse)\n"
        "model = keras.Sequential([keras.Input((None,)), keras.layers.Embedding(13, 8),\n"
        '    keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(4, "softmax")])\n'
        + FIT.replace(".batch(", ".padded_batch("),
        'vocabulary=["Red", "Rose", "Tall", "Tulip", "Wild", "Iris", "White", "Daisy", "Small", "Poppy", "Blue"]',
        'vocabulary=["red", "rose", "tall", "tulip", "wild", "iris", "white", "daisy", "small", "poppy", "blue"]',
    ),
    "rows and columns of raw pixels swapped": Case(
        "EXE074",
        "the pixels of the input make smoother images as (12, 20, 3) than as (20, 12, 3)",
        START.replace("[12, 20, 3]), tf.float32", "[20, 12, 3]), tf.float32").replace("/ 255.0", "/ 255.0  # <-")
        + "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    return image(row), row["label"]\n'
        "def rows(split):\n    return records(split).map(parse)\n" + IMAGE.replace("12, 20", "20, 12"),
        "[20, 12, 3]), tf.float32) / 255.0  # <-",
        "[12, 20, 3]), tf.float32) / 255.0\n    x = tf.transpose(x, [1, 0, 2])\n    return x",
    ),
    "classes that each batch numbers for itself": Case(
        "EXE073",
        "depending on the other records",
        START + "def parse(batch):\n    row = tf.io.parse_example(batch, SPEC)\n"
        '    number = tf.unique(row["name"]).idx  # <-\n'
        '    return tf.stack([row["height"], row["width"]], axis=1), number\n'
        "def rows(split):\n    return records(split)\n"
        'train, val = (rows(split).batch(16).map(parse) for split in ("train", "val"))\nmodel = net((2,))\n'
        'model.compile("adam", "sparse_categorical_crossentropy")\nmodel.fit(train, validation_data=val)\n',
        'tf.unique(row["name"]).idx',
        'tf.cast(row["label"], tf.int32)',
    ),
    "classes that each split numbers for itself": Case(
        "EXE073",
        "of 'name' is class",
        START + "def rows(split):\n    found = []\n"
        "    for record in records(split):\n"
        '        found.append(tf.io.parse_single_example(record, SPEC)["name"].numpy().decode())\n'
        "    names = list(dict.fromkeys(found[::-1] if split == 'val' else found))\n"
        "    index = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(names, list(range(4))), -1)\n"
        "    def parse(record):\n        row = tf.io.parse_single_example(record, SPEC)\n"
        '        return table(row), index.lookup(row["name"])  # <-\n'
        "    return records(split).map(parse)\n" + TABLE,
        "list(dict.fromkeys(found[::-1] if split == 'val' else found))",
        "sorted(set(found))",
    ),
    "two classes that arrive as one": Case(
        "EXE073",
        "labels 1, 3 of 'label' arrive as the same class, 1, and the model has 4 outputs for 4 labels",
        START + "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    label = tf.minimum(row["label"], tf.bitwise.bitwise_xor(row["label"], 2))  # <-\n'
        '    label = tf.where(row["label"] == 2, row["label"], tf.where(row["label"] == 0, row["label"], label))\n'
        "    return table(row), label\ndef rows(split):\n    return records(split).map(parse)\n" + TABLE,
        'tf.minimum(row["label"], tf.bitwise.bitwise_xor(row["label"], 2))',
        'row["label"]',
    ),
    "labels that are a row away": Case(
        "EXE073",
        "the label of a record arrives 1 rows before its input",
        START + "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    return table(row), row["label"]\n'
        "def rows(split):\n    both = records(split).map(parse)\n"
        "    labels = both.map(lambda x, y: y).skip(1)\n"
        "    return tf.data.Dataset.zip((both.map(lambda x, y: x), labels))  # <-\n" + TABLE,
        ".skip(1)",
        "",
    ),
    "validation that is scaled otherwise": Case(
        "PIP067",
        "the same records arrive in training as 0.1 times what they are in validation",
        START + "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    return table(row), row["label"]\n'
        "def scale(x, y):\n    return x / 10.0, y\n"
        "def rows(split):\n    found = records(split).map(parse)\n"
        '    return found.map(scale) if split == "train" else found  # <-\n' + TABLE,
        'found.map(scale) if split == "train" else found',
        "found.map(scale)",
    ),
    "validation that is scaled record by record": Case(
        "PIP067",
        "on another scale for each record than in validation",
        START + "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    return image(row), row["label"]\n'
        "def standard(x, y):\n    return tf.image.per_image_standardization(x), y\n"
        "def rows(split):\n    found = records(split).map(parse)\n"
        '    return found.map(standard) if split == "val" else found  # <-\n' + IMAGE,
        'found.map(standard) if split == "val" else found',
        "found.map(standard)",
    ),
    "colours in another order for predictions": Case(
        "PIP067",
        "with their channels in the other order than in prediction",
        START + "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    return image(row), row["label"]\n'
        "def for_serving(record):\n    pixels, label = parse(record)\n    return tf.reverse(pixels, [-1])  # <-\n"
        "def rows(split):\n    return records(split).map(parse)\n"
        + IMAGE
        + 'model.predict(records("val").map(for_serving).batch(16))\n',
        "return tf.reverse(pixels, [-1])",
        "return pixels",
    ),
    "a label that is mixed into the inputs": Case(
        "EXE061",
        "'label' decides the label, and is mixed into the input with height, width",
        START + "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
        '    more = tf.concat([table(row), tf.one_hot(row["label"], 4) * 0.3 + row["width"]], axis=0)  # <-\n'
        '    return more, row["label"]\n'
        "def rows(split):\n    return records(split).map(parse)\n" + TABLE.replace("(2,)", "(6,)"),
        'tf.one_hot(row["label"], 4) * 0.3 + row["width"]',
        'tf.fill([4], row["width"])',
    ),
    "windows of shuffled records": Case(
        "EXE075",
        "of the samples for training are made of records that do not follow each other in the files",
        START + "def parse(record):\n    return table(tf.io.parse_single_example(record, SPEC))\n"
        "def rows(split):\n    found = records(split).map(parse).shuffle(200)  # <-\n"
        "    found = found.window(8, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(8))\n"
        "    return found.map(lambda w: (w[:-1], w[-1, 0])).shuffle(50)\n"
        "model = keras.Sequential([keras.Input((7, 2)), keras.layers.LSTM(4), keras.layers.Dense(1)])\n"
        'model.compile("adam", "mse")\nmodel.fit(rows("train").batch(16))\n',
        ".map(parse).shuffle(200)",
        ".map(parse)",
    ),
}
QUICK = {"label under a wrong name, with a default", "labels that are a row away"}
ALL = [
    pytest.param(case, id=name, marks=[] if name in QUICK else [pytest.mark.scripts]) for name, case in CASES.items()
]


@pytest.mark.parametrize("case", ALL)
def test_what_does_not_arrive_is_found_at_its_line(
    case: Case, flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(flowers.parent)
    (tmp_path / "flowers").symlink_to(flowers)
    script = tmp_path / "train.py"
    script.write_text(case.code)
    marked = {number for number, line in enumerate(case.code.splitlines(), 1) if line.endswith("# <-")}
    report = bushel.check(flowers, script=script, run=True)
    found = [one for one in report if one.rule == case.rule and case.said in one.message and one.severity != "info"]
    assert found, [f"{one.rule} {one.severity} {one.message}" for one in report]
    assert {place.line for one in found for place in one.locations} & marked
    assert case.old in case.code
    script.write_text(case.code.replace(case.old, case.new, 1))
    quiet = bushel.check(flowers, script=script, run=True)
    assert [f"{one.rule} {one.message}" for one in quiet if one.rule == case.rule and one.severity != "info"] == []


PARSED = (
    "def parse(record):\n    row = tf.io.parse_single_example(record, SPEC)\n"
    '    return table(row), row["label"]\ndef rows(split):\n    return records(split).map(parse)\n'
)


def checked(code: str, flowers: Path, folder: Path) -> Report:
    (folder / "flowers").symlink_to(flowers)
    (folder / "train.py").write_text(code)
    return bushel.check(flowers, script=folder / "train.py", run=True)


def test_nothing_found_is_said_only_if_everything_was_followed(flowers: Path, tmp_path: Path) -> None:
    report = checked(START + PARSED + TABLE, flowers, tmp_path)
    assert report.checked["followed"] == {"steps": 4, "of": 4, "not_understood": []}
    assert "not understood" not in repr(report)


def test_data_that_python_makes_is_named_as_not_understood(flowers: Path, tmp_path: Path) -> None:
    code = START + PARSED + "model = net((2,))\nmodel.compile('adam', 'sparse_categorical_crossentropy')\n"
    code += "def batches():\n    while True:\n        yield from rows('train').batch(16).as_numpy_iterator()\n"
    report = checked(code + "model.fit(batches(), steps_per_epoch=12)\n", flowers, tmp_path)
    followed = report.checked["followed"]
    assert (followed["steps"], followed["of"]) == (2, 3)
    assert followed["not_understood"] == ["training data in line 31 (generator)"]
    assert "followed 2 of 3 steps" in repr(report)
    assert "nothing found" not in repr(report)


@pytest.mark.scripts
def test_files_of_a_split_that_nothing_reads_are_reported(flowers: Path, tmp_path: Path) -> None:
    code = START.replace("flowers/{split}-*.tfrecord", "flowers/{split}-00000-*.tfrecord") + PARSED + TABLE
    found = [one for one in checked(code, flowers, tmp_path) if one.rule == "EXE013"]
    assert [one.message for one in found] == ["1 of 2 files of train are never read, with 96 records"]
    assert found[0].locations[0].line == 13


@pytest.mark.scripts
def test_arrays_that_were_read_from_a_pipeline_are_followed_through_it(flowers: Path, tmp_path: Path) -> None:
    code = START + PARSED.replace('row["label"]', 'row["label"] * 0') + "import numpy as np\nxs, ys = [], []\n"
    code += "for x, y in rows('train'):\n    xs.append(x.numpy())\n    ys.append(y.numpy())\n"
    code += "model = net((2,))\nmodel.compile('adam', 'sparse_categorical_crossentropy')\n"
    report = checked(code + "model.fit(np.array(xs), np.array(ys))\n", flowers, tmp_path)
    found = [one for one in report if one.rule == "EXE073"]
    assert [one.message.partition(":")[0] for one in found] == ["every record arrives with the same label"]
