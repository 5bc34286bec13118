"""A training loop of one's own, stopped in the middle of an epoch and resumed: the same weights as if it had not been.

python examples/gradient_tape.py        needs: pip install "bushel[tensorflow]"
"""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

import bushel
from bushel import Order
from bushel.tensorflow import dataset

STEPS = 40  # two epochs of 16 batches, and a half


def write_sums(path: Path) -> None:
    """Eight numbers, and a label that is a sum of four of them."""
    x = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    with bushel.Writer(path) as writer:
        writer.write_batch({"x": x, "label": x[:, :4].sum(axis=1)})


@tf.function
def train_step(weights: tf.Variable, x: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(x, weights) - label) ** 2)
    weights.assign_sub(0.05 * tape.gradient(loss, weights))
    return loss


def train(path: Path, weights: tf.Variable, *, begin: int, end: int) -> float:
    """Take the steps `begin` to `end` of a run; the data goes on where step `begin` was."""
    batches = dataset(path, batch_size=64, order=Order(shuffle=True, seed=0), epochs=None, skip=begin)
    loss = float("nan")
    for x, label in batches.take(end - begin):
        loss = float(train_step(weights, x, label))
    return loss


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-loop-") as name:
        path = Path(name) / "sums.tfrecord"
        write_sums(path)
        whole = tf.Variable(tf.zeros([8]))
        print(f"loss after {STEPS} steps: {train(path, whole, begin=0, end=STEPS):.6f}")

        resumed = tf.Variable(tf.zeros([8]))
        train(path, resumed, begin=0, end=23)  # in the second epoch
        print(f"the same, stopped after 23: {train(path, resumed, begin=23, end=STEPS):.6f}")
        assert (whole.numpy() == resumed.numpy()).all()
        print("weights:", np.round(whole.numpy(), 2))


if __name__ == "__main__":
    main()
