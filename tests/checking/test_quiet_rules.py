"""Correct scripts that look like faulty ones: what reading cannot prove is information at most."""

from pathlib import Path

import pytest

import bushel

READ = """
import tensorflow as tf
from tensorflow import keras
SPEC = {"x": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
def parse(record):
    row = tf.io.parse_single_example(record, SPEC)
    return row["x"], row["label"]
records = tf.data.TFRecordDataset("sensors/train-00000-of-00001.tfrecord")
train = records.map(parse).shuffle(2000).batch(32)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(5, activation="softmax")])
"""
PICTURES = """
import tensorflow as tf
from tensorflow import keras
SPEC = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
def parse(record):
    row = tf.io.parse_single_example(record, SPEC)
    image = tf.image.resize(tf.io.decode_jpeg(row["image"], channels=3), (36, 36)) / 255.0
    return image, row["label"]
train = tf.data.TFRecordDataset(tf.io.gfile.glob("photos/train-*.tfrecord")).map(parse).shuffle(400)
"""
LOOP = """
optimizer, loss_fn = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy()
def step(x, y, metric):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    metric.update_state(loss)
"""
CORRECT = [
    (
        "a metric made in each epoch",
        READ + LOOP + "for epoch in range(3):\n    mean = keras.metrics.Mean()\n    for x, y in train:\n"
        "        step(x, y, mean)\n    print(mean.result())\n",
    ),
    (
        "metrics reset in a loop over them",
        READ + LOOP + "mean, other = keras.metrics.Mean(), keras.metrics.Mean()\nfor epoch in range(3):\n"
        "    for metric in (other, mean):\n        metric.reset_state()\n    for x, y in train:\n"
        "        step(x, y, mean)\n        step(x, y, other)\n    print(mean.result(), other.result())\n",
    ),
    (
        "metrics reset by a function that cannot be followed",
        READ + LOOP + "from loops import everything\nmean = keras.metrics.Mean()\nfor epoch in range(3):\n"
        "    for metric in everything():\n        metric.reset_state()\n    for x, y in train:\n"
        "        step(x, y, mean)\n    print(mean.result())\n",
    ),
    (
        "a buffer behind a filter",
        READ.replace(
            "records.map(parse)",
            "records.map(parse).filter(lambda x, y: tf.strings.to_hash_bucket_fast("
            "tf.strings.as_string(x[0]), 10) > 1)",
        ).replace("shuffle(2000)", "shuffle(100)")
        + "model.compile('adam', 'sparse_categorical_crossentropy')\nmodel.fit(train)\n",
    ),
    (
        "mixup of whole records",
        READ + "other = records.map(parse).shuffle(2000).batch(32)\n"
        "mixed = tf.data.Dataset.zip((train, other)).map(lambda a, b: (a[0] / 2 + b[0] / 2, a[1]))\n",
    ),
    (
        "sides shuffled with one seed",
        READ + "xs = records.map(lambda r: parse(r)[0]).shuffle(99, seed=1)\n"
        "ys = records.map(lambda r: parse(r)[1]).shuffle(99, seed=1)\npairs = tf.data.Dataset.zip((xs, ys))\n",
    ),
    (
        "noise that is to be taken out",
        PICTURES + "def noisy(image, label):\n    return image + tf.random.normal([36, 36, 3], stddev=0.1), image\n"
        "val = tf.data.TFRecordDataset(tf.io.gfile.glob('photos/val-*.tfrecord')).map(parse).map(noisy).batch(8)\n"
        "net = keras.Sequential([keras.layers.Conv2D(3, 3, padding='same')])\nnet.compile('adam', 'mse')\n"
        "net.fit(train.map(noisy).batch(8), validation_data=val)\n",
    ),
    (
        "layers adapted one by one out of a dict",
        READ + "layers = {name: keras.layers.Normalization(name=name) for name in ('a', 'b')}\n"
        "for name, layer in layers.items():\n    layer.adapt(train.map(lambda x, y: x))\n",
    ),
    (
        "adapted to train only where that is asked for",
        READ + "from settings import FIRST\nnormal = keras.layers.Normalization()\ndef load(split):\n"
        "    data = tf.data.TFRecordDataset(f'sensors/{split}-00000-of-00001.tfrecord').map(parse).batch(32)\n"
        "    if FIRST == split:\n        normal.adapt(data.map(lambda x, y: x))\n    return data\n"
        "load('val')\nload('train')\n",
    ),
    (
        "a random crop to the size of the model",
        PICTURES + "def crop(image, label):\n"
        "    return tf.image.stateless_random_crop(image, [32, 32, 3], tf.random.uniform([2], maxval=9,"
        " dtype=tf.int32)), label\n"
        "net = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Flatten(), keras.layers.Dense(4)])\n"
        "net.compile('adam', keras.losses.SparseCategoricalCrossentropy(from_logits=True))\n"
        "net.fit(train.map(crop).batch(8))\n",
    ),
    (
        "pixels scaled in the branch of the picture",
        PICTURES.replace(" / 255.0", "")
        + "a, b = keras.Input((36, 36, 3), name='image'), keras.Input((1,), name='size')\n"
        "x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(a))\n"
        "out = keras.layers.Dense(4)(keras.layers.Concatenate()([keras.layers.Dense(2)(b), x]))\n"
        "net = keras.Model([a, b], out)\n"
        "net.compile('adam', keras.losses.SparseCategoricalCrossentropy(from_logits=True))\n"
        "net.fit(train.map(lambda i, y: ({'image': i, 'size': tf.ones([1])}, y)).batch(8))\n",
    ),
    (
        "batches of one for a stateful layer",
        "import keras\nimport tensorflow as tf\n"
        "net = keras.Sequential([keras.layers.LSTM(8, stateful=True), keras.layers.Dense(1)])\n"
        "net.compile('adam', 'mse')\ndata = tf.data.TFRecordDataset('sensors/train-00000-of-00001.tfrecord')\n"
        "for epoch in range(2):\n    net.fit(data.map(lambda r: tf.ones([3, 1])).batch(1), shuffle=False)\n"
        "    net.layers[0].reset_states()\n",
    ),
    (
        "a mean over the global batch",
        READ + "strategy = tf.distribute.MirroredStrategy()\nopt = keras.optimizers.Adam()\n"
        "loss_fn = keras.losses.SparseCategoricalCrossentropy()\ndef step(x, y):\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = loss_fn(y, model(x, training=True)) / strategy.num_replicas_in_sync\n"
        "    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))\n"
        "for x, y in strategy.experimental_distribute_dataset(train):\n    strategy.run(step, args=(x, y))\n",
    ),
    (
        "windows that are batched",
        READ + "rows = records.map(lambda r: parse(r)[0][0]).batch(24, drop_remainder=True).shuffle(50).batch(8)\n",
    ),
    (
        "labels that get numbers before the split",
        "from sklearn.model_selection import train_test_split\nfrom sklearn.preprocessing import LabelEncoder\n"
        "from table import x, names\nnumbers = LabelEncoder()\ny = numbers.fit_transform(names)\n"
        "a, b, c, d = train_test_split(x, y)\n",
    ),
    (
        "attention over time, which has one score for each step",
        READ + "class Pool(keras.layers.Layer):\n    def __init__(self):\n        super().__init__()\n"
        "        self.score = keras.layers.Dense(1)\n    def call(self, h):\n"
        "        return tf.reduce_sum(h * tf.nn.softmax(self.score(h), axis=1), axis=1)\n"
        "start = keras.Input((16, 4))\nnet = keras.Model(start, Pool()(start))\n",
    ),
    (
        "two views of one image",
        PICTURES + "def view(image):\n    return tf.image.resize(tf.image.random_crop(image, (28, 28, 3)), (36, 36))\n"
        "pairs = train.map(lambda image, label: (view(image), view(image))).batch(8)\n"
        "net = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(8)])\n"
        "net.compile('adam', keras.losses.SparseCategoricalCrossentropy(from_logits=True))\nnet.fit(pairs)\n",
    ),
    (
        "writers in a list, which are closed in a loop",
        READ + "writers = [tf.io.TFRecordWriter(f'out-{i}.tfrecord') for i in range(4)]\n"
        "for i, record in enumerate(records):\n    writers[i % 4].write(record.numpy())\n"
        "for writer in writers:\n    writer.close()\n",
    ),
    (
        "records that the script writes itself",
        READ + "with tf.io.TFRecordWriter('vectors.tfrecord') as writer:\n    writer.write(b'')\n"
        "def parse_own(record):\n    spec = {'vector': tf.io.FixedLenFeature([24], tf.float32)}\n"
        "    return tf.io.parse_single_example(record, spec)['vector']\n"
        "own = tf.data.TFRecordDataset('vectors.tfrecord').map(parse_own).batch(32)\n",
    ),
    (
        "a few predictions of a shuffled set",
        READ + "model.compile('adam', 'sparse_categorical_crossentropy')\nmodel.predict(train.take(1))\n",
    ),
]


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in CORRECT])
def test_what_is_not_proven_is_information_at_most(code: str, corpus: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(code)
    data = corpus / ("photos" if "photos/" in code else "sensors")
    found = bushel.check(data, script=script, select=["PIP", "KER"])
    assert [f"{f.rule} {f.message}" for f in found if f.severity != "info"] == []


OTHER = """
import tensorflow as tf
from tensorflow import keras
def parse(record):
    row = tf.io.parse_single_example(record, {"pixels": tf.io.FixedLenFeature([4], tf.float32),
                                              "label": tf.io.FixedLenFeature([], tf.int64)})
    return row["pixels"], row["label"]
first = tf.data.TFRecordDataset("PATH").map(parse).shuffle(99).batch(8)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(first)
"""


@pytest.mark.parametrize("name", ["other/train.tfrecord", "missing/train.tfrecord"])
def test_only_records_that_are_not_elsewhere_are_compared_with_the_data(
    name: str, corpus: Path, tmp_path: Path
) -> None:
    with bushel.Writer(tmp_path / "train.tfrecord") as writer:
        writer.write({"x": 1.0})
    (tmp_path / "other").mkdir()
    (tmp_path / "train.tfrecord").rename(tmp_path / "other" / "train.tfrecord")
    script = tmp_path / "train.py"
    script.write_text(OTHER.replace("PATH", name))
    found = {f.rule for f in bushel.check(corpus / "sensors", script=script, select=["PIP"]) if f.severity != "info"}
    assert found & {"PIP023", "PIP051"} == (set() if name.startswith("other") else {"PIP023", "PIP051"})


HALF = """
import tensorflow as tf
def parse(record):
    row = tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([2], tf.float32),
                                              "label": tf.io.FixedLenFeature([], tf.int64, default_value=0)})
    return row["x"], row["label"]
train = tf.data.TFRecordDataset("train.tfrecord").map(parse).shuffle(99).batch(8)
model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(train)
"""


@pytest.mark.parametrize("every", [1, 10])
def test_a_default_for_labels_that_some_records_lack_is_a_warning(every: int, tmp_path: Path) -> None:
    schema = bushel.Schema.of(
        x=bushel.Feature(dtype="float32", shape=[2]), label=bushel.Feature(dtype="int64", required=False)
    )
    with bushel.Writer(tmp_path / "train.tfrecord", schema=schema) as writer:
        for number in range(80):
            has_label = every == 1 or number % every
            writer.write({"x": [number, 1.0], **({"label": number % 2} if has_label else {})})
    script = tmp_path / "train.py"
    script.write_text(HALF)
    found = bushel.check(tmp_path / "train.tfrecord", script=script, select=["PIP026"])
    assert [finding.severity for finding in found] == ([] if every == 1 else ["warning"])
