"""`bushel train` beside the same model fed by the pipeline that people write: python benchmarks/train.py [--steps 40].

MobileNetV2 of width 0.35 at 160 px, batches of 64, JPEG files of about 25 kB at 256 px. What must hold: at most 10 % of
the time spent waiting for data. Both are timed over the same number of steps after a few that compile; the
share of waiting is bushel's own measure, and samples/s are printed side by side as a ratio. `--images 20000` is the
size of the target; fewer images change nothing but the time that it takes to write them.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from tensorflow_feed import photo

import bushel
from bushel.feeding.preparation import arrange, encode_labels, inputs_of
from bushel.training import Options
from bushel.training.inputs.splits import feed_of
from bushel.training.setup import set_up

SIDE, BATCH, CLASSES, WARM = 160, 64, 10, 3


def write_photos(folder: Path, count: int) -> None:
    """A hundred different photographs, as often as it takes: reading decodes each one again."""
    generator = np.random.default_rng(0)
    different = [photo(generator) for _ in range(100)]
    schema = bushel.Schema.of(image=bushel.Feature(dtype="bytes", encoding="jpeg"), label=bushel.Feature(dtype="int64"))
    for split, share in (("train", count), ("val", BATCH)):
        with bushel.Writer(folder / f"{split}-00000-of-00001.tfrecord", schema=schema) as writer:
            for number in range(share):
                writer.write({"image": different[number % 100], "label": number % CLASSES})


def build_model() -> Any:
    inputs = keras.Input([SIDE, SIDE, 3])
    x = keras.layers.Rescaling(1 / 127.5, -1.0)(inputs)
    x = keras.applications.MobileNetV2([SIDE, SIDE, 3], 0.35, include_top=False, weights=None, pooling="avg")(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, "softmax")(x))


def by_bushel(folder: Path, steps: int) -> tuple[float, float]:
    """Samples/s and the share of time waiting, of the loop that `bushel train` runs."""
    options = Options(batch_size=BATCH, image_size=(SIDE, SIDE), range="0..255", deterministic=False, model=build_model)
    setup = set_up(folder, options)
    problem, target = setup.problem, setup.target
    with feed_of(setup.splits.train, problem, options, training=True) as feed:
        for number, batch in enumerate(feed):
            if number == WARM:
                begun, waited = time.perf_counter(), feed.report().waited
            x = arrange(inputs_of(problem.preparation, batch))
            setup.learner.train(x, encode_labels(target, batch[target.label]), None)
            if number == WARM + steps - 1:
                break
        took = time.perf_counter() - begun
        return steps * BATCH / took, (feed.report().waited - waited) / took


def by_the_usual_pipeline(folder: Path, steps: int) -> float:
    """The same steps fed record by record, as tutorials do."""
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record: Any) -> Any:
        parsed = tf.io.parse_single_example(record, spec)
        image = tf.io.decode_jpeg(parsed["image"], channels=3)
        return tf.image.resize(image, [SIDE, SIDE]), parsed["label"]

    files = tf.data.TFRecordDataset(str(folder / "train-00000-of-00001.tfrecord"))
    dataset = files.map(parse, tf.data.AUTOTUNE).shuffle(1000).repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = build_model()
    loss, metrics = "sparse_categorical_crossentropy", ["accuracy"]  # as bushel's loop has them
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=metrics, jit_compile=False)
    train = tf.function(lambda x, y: model.train_step((x, y)), autograph=False, reduce_retracing=True)
    iterator = iter(dataset)
    for _ in range(WARM):
        train(*next(iterator))
    begun = time.perf_counter()
    for _ in range(steps):
        float(train(*next(iterator))["loss"])
    return steps * BATCH / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bushel-train-") as name:
        folder = Path(name)
        write_photos(folder, given.images // BATCH * BATCH)  # a smaller last batch would be compiled for itself
        ours, theirs, shares = [], [], []
        for _ in range(given.rounds):
            rate, waiting = by_bushel(folder, given.steps)
            ours.append(rate)
            shares.append(waiting)
            print(f"  bushel {rate:.1f} samples/s, waiting {waiting:.1%}", flush=True)
            theirs.append(by_the_usual_pipeline(folder, given.steps))
            print(f"  usual  {theirs[-1]:.1f} samples/s", flush=True)
    print(f"{given.images:,} images, {given.steps} steps of {BATCH}, best of {given.rounds}")
    print(f"bushel train:       {max(ours):7.1f} samples/s, waiting {min(shares):.1%} of the time (at most 10 %)")
    print(
        f"the usual pipeline: {max(theirs):7.1f} samples/s; bushel train is {max(ours) / max(theirs):.2f} times as fast"
    )


if __name__ == "__main__":
    main()
