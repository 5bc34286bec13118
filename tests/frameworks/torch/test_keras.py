"""Keras without TensorFlow: `bushel.keras.dataset` on its other backends."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bushel

# A model of eight weights that a fit must find: the label is a sum of the features.
SCRIPT = """
import sys
import numpy as np
import keras
import bushel

train = bushel.keras.dataset(sys.argv[1], batch_size=64, order=bushel.Order(shuffle=True, seed=0))
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input([8]), keras.layers.Dense(1, use_bias=False)])
model.compile("sgd", "mse")
if sys.argv[2] == "fit":
    before = model.evaluate(train, verbose=0)
    model.optimizer.learning_rate = 0.05
    model.fit(train, epochs=6, verbose=0, shuffle=False)
    assert model.evaluate(train, verbose=0) < before / 100
print(keras.backend.backend(), model.predict(train, verbose=0).shape)
"""


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """1,000 records whose label is the sum of the first four of eight numbers."""
    x = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    with bushel.Writer(tmp_path / "train.tfrecord") as writer:
        writer.write_batch({"x": x, "label": x[:, :4].sum(axis=1)})
    return tmp_path / "train.tfrecord"


@pytest.mark.parametrize("backend", ["numpy", "jax", "torch"])
def test_other_backends_take_the_same_batches(sums: Path, backend: str) -> None:
    task = "evaluate" if backend == "numpy" else "fit"  # Keras trains nothing on NumPy
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(sums), task],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout.split("\n")[0] == f"{backend} (1000, 1)", done.stderr
