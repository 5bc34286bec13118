"""Faults that a run sees, in small scripts that really run: each is found at its line, and its mended form is quiet."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

import bushel
from bushel.checking import all_rules

pytestmark = pytest.mark.usefixtures("warm")


class Case(NamedTuple):
    """A script with a fault, and the replacement that mends it. The line of the fault ends in `# <-`."""

    rule: str
    code: str
    old: str
    new: str


START = """
import numpy as np
import tensorflow as tf
from tensorflow import keras
random = np.random.default_rng(0)
x = random.normal(size=(512, 6)).astype("float32")
y = (x[:, 0] + x[:, 1] > 0).astype("int64")
def net(units=1, activation="sigmoid"):
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(units, activation)])
"""
FITTED = START + 'model = net()\nmodel.compile("adam", "binary_crossentropy")\n'
IMAGES = (
    START
    + 'images = random.integers(0, 255, (256, 16, 16, 3)).astype("uint8")\nkinds = (images[:, 0, 0, 0] > 127) * 1\n'
)
CONVOLUTION = (
    "model = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(4, 3), keras.layers.Flatten(),\n"
    '                          keras.layers.Dense(1, "sigmoid")])\nmodel.compile("adam", "binary_crossentropy")\n'
)

CASES = {
    "NaN in arrays": Case(
        "EXE033", FITTED + "x[3, 2] = np.nan  # <-\nmodel.fit(x, y)\n", "x[3, 2] = np.nan", "x[3, 2] = 0"
    ),
    "dropout that stays on": Case(
        "EXE042",
        START + "class Block(keras.layers.Layer):\n    def __init__(self):\n        super().__init__()\n"
        "        self.drop = keras.layers.Dropout(0.5)  # <-\n    def call(self, given):\n"
        "        return self.drop(given, training=True)\n"
        'model = keras.Sequential([keras.Input((6,)), Block(), keras.layers.Dense(1, "sigmoid")])\n'
        'model.compile("adam", "binary_crossentropy")\nmodel.fit(x, y)\n',
        "given, training=True)",
        "given)",
    ),
    "mean off unsigned integers": Case(
        "EXE046",
        IMAGES + "def prepare(image, kind):\n    image = image - 127  # <-\n"
        "    return tf.cast(image, tf.float32) / 127, kind\n"
        "train = tf.data.Dataset.from_tensor_slices((images, kinds)).map(prepare).shuffle(256).batch(32)\n"
        + CONVOLUTION
        + "model.fit(train)\n",
        "image - 127",
        "tf.cast(image, tf.float32) - 127",
    ),
    "loss that is a score": Case(
        "EXE047",
        START + "def dice(true, given):\n    true = tf.cast(true, tf.float32)\n    both = tf.reduce_sum(true * given)\n"
        "    return 2 * both / (tf.reduce_sum(true) + tf.reduce_sum(given))  # <-\n"
        'model = net()\nmodel.compile("adam", dice)\nmodel.fit(x, y[:, None])\n',
        "return 2 *",
        "return 1 - 2 *",
    ),
    "softmax over one score": Case(
        "EXE048",
        START + "class Pool(keras.layers.Layer):\n    def call(self, given):\n"
        "        scores = tf.reduce_sum(given, axis=-1, keepdims=True)\n"
        "        return tf.reduce_sum(given * tf.nn.softmax(scores, axis=-1), axis=1)  # <-\n"
        'model = keras.Sequential([keras.Input((6, 4)), Pool(), keras.layers.Dense(1, "sigmoid")])\n'
        'model.compile("adam", "binary_crossentropy")\nmodel.fit(random.normal(size=(512, 6, 4)), y)\n',
        "axis=-1), axis=1)",
        "axis=1), axis=1)",
    ),
    "records that meet in a layer": Case(
        "EXE049",
        START + "class Centre(keras.layers.Layer):\n    def call(self, given):\n"
        "        return given - tf.reduce_mean(given, axis=0)  # <-\n"
        "model = keras.Sequential([keras.Input((6,)), Centre(), keras.layers.Dense(1)])\n"
        "x = x + (np.arange(512) % 8)[:, None]  # the mean of 4 rows is not that of 8\n"
        'model.compile("adam", "mse")\nmodel.fit(x, x.sum(axis=1))\n',
        "axis=0)",
        "axis=1, keepdims=True)",
    ),
    "layer that is left out": Case(
        "EXE053",
        START + "given = keras.Input((6,))\nhidden = keras.layers.Dense(8)(given)\n"
        "deep = keras.layers.Dense(4)(hidden)  # <-\n"
        'model = keras.Model(given, keras.layers.Dense(1, "sigmoid")(hidden))\n'
        'model.compile("adam", "binary_crossentropy")\nmodel.fit(x, y)\n',
        '"sigmoid")(hidden)',
        '"sigmoid")(deep)',
    ),
    "gradients that pile up": Case(
        "EXE054",
        START + "model, optimizer = net(), keras.optimizers.Adam()\nloss = keras.losses.BinaryCrossentropy()\n"
        "sums = [tf.Variable(tf.zeros_like(w)) for w in model.trainable_weights]\n"
        "for step in range(12):\n    rows = slice(step * 32, step * 32 + 32)\n    with tf.GradientTape() as tape:\n"
        "        value = loss(y[rows, None], model(x[rows], training=True))\n"
        "    for one, found in zip(sums, tape.gradient(value, model.trainable_weights)):\n"
        "        one.assign_add(found)  # <-\n"
        "    if step % 4 == 3:\n        optimizer.apply_gradients(zip(sums, model.trainable_weights))\n",
        "trainable_weights))\n",
        "trainable_weights))\n        for one in sums:\n            one.assign(tf.zeros_like(one))\n",
    ),
    "half precision that is not scaled": Case(
        "EXE055",
        "from tensorflow import keras\nkeras.mixed_precision.set_global_policy('mixed_float16')\n"
        + START
        + "model, optimizer = net(activation=None), keras.optimizers.Adam()\n"
        "optimizer = keras.optimizers.LossScaleOptimizer(optimizer)\n"
        "loss = keras.losses.BinaryCrossentropy(from_logits=True)\nfor step in range(8):\n"
        "    rows = slice(step * 32, step * 32 + 32)\n    with tf.GradientTape() as tape:\n"
        "        value = loss(y[rows, None], model(x[rows], training=True))\n"
        "        scaled = value\n"
        "    found = tape.gradient(scaled, model.trainable_weights)  # <-\n"
        "    optimizer.apply_gradients(zip(found, model.trainable_weights))\n",
        "scaled = value",
        "scaled = optimizer.scale_loss(value)",
    ),
    "label among the columns": Case(
        "EXE061",
        FITTED + "table = np.concatenate([x[:, :5], y[:, None]], axis=1)  # <-\nmodel.fit(table, y)\n",
        "y[:, None]",
        "x[:, 5:]",
    ),
    "unfrozen without compile": Case(
        "PIP057",
        FITTED + "model.layers[0].trainable = False\nmodel.compile('adam', 'binary_crossentropy')\nmodel.fit(x, y)\n"
        "model.layers[0].trainable = True\nmodel.fit(x, y)  # <-\n",
        "trainable = True\n",
        "trainable = True\nmodel.compile('adam', 'binary_crossentropy')\n",
    ),
    "no epoch is left": Case(
        "EXE064", FITTED + "model.fit(x, y, initial_epoch=5, epochs=5)  # <-\n", "epochs=5)", "epochs=10)"
    ),
    "one file for two caches": Case(
        "EXE065",
        FITTED + "def rows(start, stop, name):\n"
        "    part = tf.data.Dataset.from_tensor_slices((x[start:stop], y[start:stop]))\n"
        "    return part.shuffle(400).batch(32).cache(name)  # <-\n"
        "import os\nos.makedirs('kept')\nfor name in ('a', 'b'):\n"
        "    with tf.io.TFRecordWriter(name) as file:\n        file.write(b'1')\n"
        "one = tf.data.TFRecordDataset('a').map(lambda r: (x[:32], y[:32])).cache('kept/rows')\n"
        "two = tf.data.TFRecordDataset('b').map(lambda r: (x[32:64], y[32:64])).cache('kept/rows')  # <-\n"
        "model.fit(one, validation_data=two)\n",
        "y[32:64])).cache('kept/rows')",
        "y[32:64])).cache('kept/others')",
    ),
    "padding that counts as a label": Case(
        "EXE068",
        START + "words = random.integers(1, 50, (256, 12))\ntags = (words % 3).astype('int64')\n"
        "for row, length in enumerate(random.integers(4, 12, 256)):\n    words[row, length:] = tags[row, length:] = 0\n"
        "model = keras.Sequential([keras.Input((12,)), keras.layers.Embedding(50, 8),  # <-\n"
        "                          keras.layers.Dense(3, 'softmax')])\n"
        "model.compile('adam', 'sparse_categorical_crossentropy')\nmodel.fit(words, tags)\n",
        "Embedding(50, 8)",
        "Embedding(50, 8, mask_zero=True)",
    ),
    "predictions in another order": Case(
        "PIP006",
        FITTED + "test = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512).batch(32)  # <-\nmodel.fit(test)\n"
        "given = model.predict(test)\ntrue = np.concatenate([b for a, b in test])\n"
        "print((given[:, 0] > 0.5) == true)\n",
        ".shuffle(512)",
        ".shuffle(512, reshuffle_each_iteration=False)",
    ),
    "shuffled apart": Case(
        "PIP017",
        FITTED + "a = tf.data.Dataset.from_tensor_slices(x).shuffle(512)  # <-\n"
        "b = tf.data.Dataset.from_tensor_slices(y).shuffle(512)\n"
        "model.fit(tf.data.Dataset.zip((a, b)).batch(32))\n",
        ".shuffle(512)  # <-\nb = tf.data.Dataset.from_tensor_slices(y).shuffle(512)",
        "\nb = tf.data.Dataset.from_tensor_slices(y)",
    ),
    "accuracy of amounts": Case(
        "PIP037",
        START + "model = net(activation=None)\nmodel.compile('adam', 'mse', metrics=['accuracy'])  # <-\n"
        "model.fit(x, x.sum(axis=1))\n",
        "['accuracy']",
        "['mae']",
    ),
    "logits cut at a half": Case(
        "PIP037",
        START
        + "model = net(activation=None)\nmodel.compile('adam', keras.losses.BinaryCrossentropy(from_logits=True),\n"
        "              metrics=[keras.metrics.BinaryAccuracy()])  # <-\nmodel.fit(x, y)\n",
        "BinaryAccuracy()",
        "BinaryAccuracy(threshold=0.0)",
    ),
    "compiled before every fit": Case(
        "PIP058",
        START + "model = net()\nfor epoch in range(3):\n    model.compile('adam', 'binary_crossentropy')  # <-\n"
        "    model.fit(x, y)\n",
        "for epoch in range(3):\n    model.compile('adam', 'binary_crossentropy')  # <-\n",
        "model.compile('adam', 'binary_crossentropy')\nfor epoch in range(3):\n",
    ),
    "writer that stays open": Case(
        "PIP060",
        START + "writer = tf.io.TFRecordWriter('rows.tfrecord')  # <-\nfor row in x:\n"
        "    writer.write(row.tobytes())\nprint('written')\n",
        "print('written')",
        "writer.close()",
    ),
    "validation on another scale": Case(
        "PIP067",
        FITTED + "train = tf.data.Dataset.from_tensor_slices((x[:400] / 100, y[:400])).shuffle(400).batch(32)\n"
        "val = tf.data.Dataset.from_tensor_slices((x[400:], y[400:])).map(lambda a, b: (a * 1.0, b)).batch(32)  # <-\n"
        "model.fit(train, validation_data=val)\n",
        "a * 1.0",
        "a / 100",
    ),
    "predictions for data that is not scaled": Case(
        "PIP067",
        FITTED + "model.fit(x / 100, y)\nnew = random.normal(size=(64, 6))\nprint(model.predict(new))  # <-\n",
        "predict(new)",
        "predict(new / 100)",
    ),
    "each part by its own statistics": Case(
        "PIP067",
        FITTED + "table = x * [1, 5, 20, 2, 9, 3] + 4\ntrain, val = table[:400], table[400:]\n"
        "train, low, size = (train - train.mean(0)) / train.std(0), train.mean(0), train.std(0)\n"
        "val = (val - val.mean(0)) / val.std(0)  # <-\n"
        "model.fit(train, y[:400], validation_data=(val, y[400:]))\n",
        "(val - val.mean(0)) / val.std(0)",
        "(val - low) / size",
    ),
    "windows on both sides of a split": Case(
        "PIP018",
        START + "series = np.cumsum(random.normal(size=600)).astype('float32')\n"
        "windows = np.stack([series[i : i + 6] for i in range(590)])\nafter = series[6:596]\n"
        "order = np.arange(590)\norder = random.permutation(590)  # <-\n"
        "windows, after = windows[order], after[order]\nmodel = net(activation=None)\nmodel.compile('adam', 'mse')\n"
        "model.fit(windows[:450], after[:450], validation_data=(windows[450:], after[450:]))\n",
        "order = random.permutation(590)  # <-\n",
        "",
    ),
    "copies before the split": Case(
        "PIP018",
        FITTED + "order = random.permutation(1024) % 512\nx, y = x[order], y[order]  # <-\n"
        "model.fit(x[:800], y[:800], validation_data=(x[800:], y[800:]))\n",
        "random.permutation(1024) % 512",
        "np.tile(random.permutation(512)[:400], 2).tolist() + random.permutation(512)[400:].tolist()\n"
        "rows = random.permutation(512)\norder = np.concatenate([rows[:400], rows[:400], rows[400:]])",
    ),
    "schedule that multiplies its own product": Case(
        "PIP053",
        FITTED + "def schedule(epoch, rate):\n    return rate * 0.1**epoch  # <-\n"
        "model.fit(x, y, epochs=20, callbacks=[keras.callbacks.LearningRateScheduler(schedule)])\n",
        "rate * 0.1**epoch",
        "1e-3 * 0.9**epoch",
    ),
    "metric that goes on into validation": Case(
        "PIP056",
        START + "model, optimizer, loss = net(), keras.optimizers.Adam(), keras.losses.BinaryCrossentropy()\n"
        "train = tf.data.Dataset.from_tensor_slices((x[:400], y[:400, None])).batch(50)\n"
        "val = tf.data.Dataset.from_tensor_slices((x[400:], y[400:, None])).batch(50)\n"
        "accuracy = keras.metrics.BinaryAccuracy()\nfor epoch in range(2):\n    for rows, labels in train:\n"
        "        with tf.GradientTape() as tape:\n            given = model(rows, training=True)\n"
        "            value = loss(labels, given)\n"
        "        found = tape.gradient(value, model.trainable_weights)\n"
        "        optimizer.apply_gradients(zip(found, model.trainable_weights))\n"
        "        accuracy.update_state(labels, given)\n    print(accuracy.result())\n"
        "    for rows, labels in val:\n"
        "        accuracy.update_state(labels, model(rows, training=False))  # <-\n"
        "    print(accuracy.result())\n    accuracy.reset_state()\n",
        "    for rows, labels in val:\n",
        "    accuracy.reset_state()\n    for rows, labels in val:\n",
    ),
    "a rate at which nothing is learned": Case(
        "EXE041",
        START + "model = net()\nmodel.compile(keras.optimizers.SGD(1e-6), 'binary_crossentropy')  # <-\n"
        "model.fit(x, y)\n",
        "SGD(1e-6)",
        "SGD(0.1)",
    ),
    "outputs in a column less labels in a row": Case(
        "EXE049",
        START + "model, optimizer = net(activation=None), keras.optimizers.Adam()\n"
        "for rows, labels in tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1))).batch(32):\n"
        "    with tf.GradientTape() as tape:\n"
        "        value = tf.reduce_mean((model(rows, training=True) - labels) ** 2)  # <-\n"
        "    found = tape.gradient(value, model.trainable_weights)\n"
        "    optimizer.apply_gradients(zip(found, model.trainable_weights))\n",
        "- labels)",
        "- labels[:, None])",
    ),
    "records that meet in a custom loop": Case(
        "EXE049",
        START + "class Centre(keras.layers.Layer):\n    def call(self, given):\n"
        "        return given - tf.reduce_mean(given, axis=0)  # <-\n"
        "x = x + (np.arange(512) % 8)[:, None]\n"
        "model = keras.Sequential([keras.Input((6,)), Centre(), keras.layers.Dense(1)])\n"
        "optimizer, loss = keras.optimizers.Adam(), keras.losses.MeanSquaredError()\n"
        "for rows, labels in tf.data.Dataset.from_tensor_slices((x.astype('float32'), x.sum(axis=1))).batch(32):\n"
        "    with tf.GradientTape() as tape:\n"
        "        value = loss(labels[:, None], model(rows, training=True))\n"
        "    found = tape.gradient(value, model.trainable_weights)\n"
        "    optimizer.apply_gradients(zip(found, model.trainable_weights))\n",
        "axis=0)",
        "axis=1, keepdims=True)",
    ),
    "one column of billions": Case(
        "EXE070", FITTED + "x[:, 2] *= 3e9  # <-\nmodel.fit(x, y)\n", "x[:, 2] *= 3e9", "x[:, 2] *= 2"
    ),
    "targets of millions": Case(
        "EXE071",
        START + "targets = x.sum(axis=1) * 1e8 + random.normal(size=512)  # <-\nmodel = net(activation=None)\n"
        "model.compile('adam', 'mse')\nmodel.fit(x, targets)\n",
        "* 1e8",
        "* 2",
    ),
    "a linear model in many layers": Case(
        "EXE072",
        START + "model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(8),  # <-\n"
        "                          keras.layers.Dense(1, 'sigmoid')])\n"
        "model.compile('adam', 'binary_crossentropy')\nmodel.fit(x, y)\n",
        "keras.layers.Dense(8), keras.layers.Dense(8)",
        "keras.layers.Dense(8, 'relu'), keras.layers.Dense(8, 'relu')",
    ),
    "labels divided with the pixels": Case(
        "PIP043",
        START + "model = net(units=10, activation='softmax')\n"
        "model.compile('adam', 'sparse_categorical_crossentropy')  # <-\nmodel.fit(x, y / 255)\n",
        "y / 255",
        "y",
    ),
    "classes under a squared loss": Case(
        "PIP043",
        START + "model = net(units=2, activation='softmax')\nmodel.compile('adam', 'mse')  # <-\n"
        "model.fit(x, keras.utils.to_categorical(y))\n",
        "'mse'",
        "'categorical_crossentropy'",
    ),
    "one-hot rows of classes that begin at 1": Case(
        "PIP043",
        START + "model = net(units=2, activation='softmax')\nmodel.compile('adam', 'categorical_crossentropy')  # <-\n"
        "model.fit(x, tf.one_hot(y + 1, 2))\n",
        "y + 1",
        "y",
    ),
}
QUICK = {"loss that is a score", "records that meet in a layer", "label among the columns", "accuracy of amounts"}
ALL = [
    pytest.param(case, id=name, marks=[] if name in QUICK else [pytest.mark.scripts]) for name, case in CASES.items()
]


@pytest.mark.parametrize("case", ALL)
def test_the_fault_is_seen_at_its_line_and_the_mended_script_is_quiet(case: Case, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(case.code)
    marked = {number for number, line in enumerate(case.code.splitlines(), 1) if line.endswith("# <-")}
    report = bushel.check(script=script, run=True)
    found = [one for one in report if one.rule == case.rule and one.severity != "info"]
    assert found, [f"{one.rule} {one.severity} {one.message}" for one in report]
    assert {place.line for one in found for place in one.locations} & marked
    assert all(one.known == "seen" for one in found)
    assert case.old in case.code
    script.write_text(case.code.replace(case.old, case.new, 1))
    quiet = bushel.check(script=script, run=True)
    assert [f"{one.rule} {one.message}" for one in quiet if one.rule == case.rule and one.severity != "info"] == []


FROM_ONE = START + (
    "y = y + 1\n"
    'model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2, "softmax")])  # <-\n'
    'model.compile("adam", "sparse_categorical_crossentropy")\n'
)
CARRIERS = {
    "arrays": "model.fit(x, y)\n",
    "frames": "import pandas as pd\nmodel.fit(pd.DataFrame(x), pd.Series(y))\n",
    "tf.data": "model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(32))\n",
    "PyDataset": (
        "class Rows(keras.utils.PyDataset):\n    def __len__(self):\n        return 16\n    def __getitem__(self, i):\n"
        "        return x[i * 32 : i * 32 + 32], y[i * 32 : i * 32 + 32]\nmodel.fit(Rows())\n"
    ),
    "Sequence": (
        "class Rows(keras.utils.Sequence):\n    def __len__(self):\n        return 16\n    def __getitem__(self, i):\n"
        "        return x[i * 32 : i * 32 + 32], y[i * 32 : i * 32 + 32]\nmodel.fit(Rows())\n"
    ),
    "generator": (
        "def rows():\n    while True:\n        for i in range(16):\n"
        "            yield x[i * 32 : i * 32 + 32], y[i * 32 : i * 32 + 32]\n"
        "model.fit(rows(), steps_per_epoch=16)\n"
    ),
    "ImageDataGenerator": (
        "from tensorflow.keras.preprocessing.image import ImageDataGenerator\n"
        "images = random.normal(size=(512, 8, 8, 3))\nmodel = keras.Sequential([keras.Input((8, 8, 3)),\n"
        "    keras.layers.Flatten(), keras.layers.Dense(2, 'softmax')])  # <-\n"
        "model.compile('adam', 'sparse_categorical_crossentropy')\n"
        "model.fit(ImageDataGenerator().flow(images, y, batch_size=32), epochs=2)\n"
    ),
}
QUICK_CARRIERS = {"PyDataset", "generator"}


@pytest.mark.parametrize(
    "carrier", [pytest.param(one, marks=[] if one in QUICK_CARRIERS else [pytest.mark.scripts]) for one in CARRIERS]
)
def test_labels_are_looked_at_whatever_carries_them(carrier: str, tmp_path: Path) -> None:
    if carrier == "frames":
        pytest.importorskip("pandas")
    script = tmp_path / "train.py"
    code = FROM_ONE + CARRIERS[carrier]
    script.write_text(code)
    marked = {number for number, line in enumerate(code.splitlines(), 1) if line.endswith("# <-")}
    (found,) = [one for one in bushel.check(script=script, run=True) if one.severity == "error"]
    assert found.rule == "PIP051"
    assert found.message == "labels range from 1 to 2, but the last layer has 2 outputs"
    assert "label value of 2" in found.evidence["error"]  # what Keras raises is told with its cause
    assert {place.line for place in found.locations} & marked
    script.write_text(code.replace("y = y + 1\n", ""))
    assert [
        f"{one.rule} {one.message}" for one in bushel.check(script=script, run=True) if one.severity == "error"
    ] == []


def test_records_that_two_objects_of_a_class_give_are_compared(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(FITTED + CARRIERS["PyDataset"].replace("fit(Rows())", "fit(Rows(), validation_data=Rows())"))
    (found,) = [one for one in bushel.check(script=script, run=True) if one.severity == "error"]
    assert (found.rule, found.known) == ("PIP018", "seen")
    assert "512 of 512 records of validation are also trained on" in found.message


def test_every_rule_that_a_run_answers_has_a_real_run() -> None:
    here = Path(__file__).parent
    names = ("run_scripts/faults.py", "test_execution.py", "test_traced_records.py")
    texts = [(here / name).read_text() for name in names]
    named = set(re.findall(r"\b(?:EXE|PIP)\d{3}\b", "\n".join(texts))) | {case.rule for case in CASES.values()}
    assert {rule.id for rule in all_rules() if rule.subject == "execution" or rule.is_seen} <= named
