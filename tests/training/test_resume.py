"""A run that was killed ends as if it had not been."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel.cli import cli
from bushel.training import Options, train
from bushel.training.run_folder import CHECKPOINT

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

MODEL = """
import keras

def build_model(problem):
    inputs = {given.name: keras.Input(given.shape, dtype=given.dtype, name=given.name) for given in problem.inputs}
    x = keras.layers.BatchNormalization()(inputs["x"])
    x = keras.layers.Dense(32, "relu")(x)
    x = keras.layers.Dropout(0.3)(x)
    return keras.Model(inputs, keras.layers.Dense(problem.outputs, "softmax")(x))
"""
OPTIONS: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 4,
    "checkpoint_every": 5,
    "schedule": "cosine",
    "warmup": 0.1,
    "early_stopping": 3,
    "class_weights": "balanced",
    "augment": "jitter=0.05",
    "preflight": False,
}
ARGUMENTS = (
    *("--epochs", "4", "--batch-size", "4", "--checkpoint-every", "5", "--schedule", "cosine", "--warmup", "0.1"),
    *("--early-stopping", "3", "--class-weights", "balanced", "--augment", "jitter=0.05", "--no-preflight"),
)


def state_of(folder: Path) -> dict[str, Any]:
    with np.load(folder / CHECKPOINT) as file:
        state: dict[str, Any] = json.loads(file["state"].tobytes())
    return state


def command_of(data: Path, model: str, out: Path) -> list[str]:
    return [sys.executable, "-m", "bushel", "train", str(data), "--model", model, "--out", str(out), *ARGUMENTS]


def kill_in_the_second_epoch(
    data: Path, model: str, out: Path, more: tuple[str, ...] = (), backend: str = "tensorflow"
) -> dict[str, Any]:
    """Begin a run as a user does, and end it with SIGKILL after a checkpoint inside an epoch."""
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [*command_of(data, model, out), *more]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    try:
        while time.monotonic() < deadline and process.poll() is None:
            if (out / CHECKPOINT).exists():
                state = state_of(out)
                if state["epoch"] == 1 and state["feed"]["position"] > 0:
                    break
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return state_of(out)


def test_a_run_killed_inside_an_epoch_and_resumed_ends_with_the_same_weights(table: Path, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(MODEL)
    model = f"{tmp_path / 'my.py'}:build_model"
    options = Options(model=model, **OPTIONS)
    train(table, options, out=tmp_path / "whole")
    killed = kill_in_the_second_epoch(table, model, tmp_path / "killed")
    assert killed["epoch"] >= 1
    assert not killed["is_over"]
    assert killed["feed"]["position"] > 0
    trained = train(table, options, out=tmp_path / "killed", resume=True)
    whole, resumed = (keras.models.load_model(tmp_path / name / "model.keras") for name in ("whole", "killed"))
    assert len(whole.weights) == 8
    for one, other in zip(whole.weights, resumed.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=one.path)
    for one, other in zip(whole.optimizer.variables, resumed.optimizer.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=one.path)
    timed = ("samples_per_second", "waiting")
    before = json.loads((tmp_path / "whole" / "history.json").read_text())
    after = [{k: v for k, v in row.items() if k not in timed} for row in trained.history]
    assert after == [{k: v for k, v in row.items() if k not in timed} for row in before]


def weights_in(run: Path) -> dict[str, Any]:
    """The arrays of a saved model by name, read without Keras, which runs on one backend here."""
    found: dict[str, Any] = {}
    with (
        zipfile.ZipFile(run / "model.keras") as archive,
        h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file,
    ):
        file.visititems(lambda name, node: found.update({name: node[()]}) if isinstance(node, h5py.Dataset) else None)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_killed_run_resumes_to_the_same_weights_on_the_other_backends(
    tmp_path: Path, backend: str, precision: str
) -> None:
    pytest.importorskip(backend)
    x = np.random.default_rng(0).normal(size=(240, 4)).astype(np.float32)
    bushel.build({"x": x, "label": (x[:, :2] > 0).sum(axis=1)}, tmp_path / "data", split="70/30")
    (tmp_path / "my.py").write_text(MODEL)
    model = f"{tmp_path / 'my.py'}:build_model"
    more = ("--mixed-precision", precision) if precision != "float32" else ()
    environment = {**os.environ, "KERAS_BACKEND": backend}
    whole = [*command_of(tmp_path / "data", model, tmp_path / "whole"), *more]
    done = subprocess.run(whole, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: it has not learned enough yet
    killed = kill_in_the_second_epoch(tmp_path / "data", model, tmp_path / "killed", more, backend)
    assert not killed["is_over"]
    assert killed["feed"]["position"] > 0
    resume = [*command_of(tmp_path / "data", model, tmp_path / "killed"), *more, "--resume"]
    done = subprocess.run(resume, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: it has not learned enough yet
    one, other = weights_in(tmp_path / "whole"), weights_in(tmp_path / "killed")
    assert len(one) > 8
    assert one.keys() == other.keys()
    tolerance = 1e-5 if backend == "jax" else 0  # XLA adds in another order where cores are busy
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, rtol=tolerance, atol=tolerance, err_msg=name)


def test_a_run_with_other_options_is_not_gone_on_with(table: Path, tmp_path: Path) -> None:
    train(table, Options(epochs=2, preflight=False), out=tmp_path / "run")
    with pytest.raises(bushel.FileProblem, match="was started with options epochs 2, not 1"):
        train(table, Options(epochs=1), out=tmp_path / "run", resume=True)
    with pytest.raises(bushel.FileProblem, match="was started with options batch_size 32, not 8"):
        train(table, Options(epochs=2, batch_size=8), out=tmp_path / "run", resume=True)
    with pytest.raises(bushel.FileProblem, match="there is a run in this folder already"):
        train(table, Options(epochs=2), out=tmp_path / "run")
    with pytest.raises(bushel.FileProblem, match="there is no checkpoint"):
        train(table, Options(epochs=2), out=tmp_path / "other", resume=True)
    assert not (tmp_path / "other").exists()


def test_a_resumed_run_takes_data_and_options_from_the_run_and_may_have_more_epochs(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun = ("--epochs", "2", "--batch-size", "16", "--learning-rate", "0.003", "--columns", "x", "--no-preflight")
    CliRunner().invoke(cli, ["train", str(table), "--out", "run", *begun])
    train(table, Options(epochs=4, batch_size=16, learning_rate=0.003, columns=("x",), preflight=False), out="whole")
    done = CliRunner().invoke(cli, ["train", "--out", "run", "--resume", "--epochs", "4"])
    assert "epoch 4/4" in done.stderr
    assert "epoch 2/4" not in done.stderr
    whole, resumed = (keras.models.load_model(tmp_path / name / "model.keras") for name in ("whole", "run"))
    for one, other in zip(whole.weights, resumed.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=one.path)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["epochs"] == 4
    assert len(train(out="run", resume=True).history) == 4


def test_without_data_and_without_a_run_there_is_nothing_to_train_on(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["train", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "DATA is missing: a dataset, or TFRecord files" in done.stderr


def test_a_checkpoint_that_is_damaged_is_one_clear_line(table: Path, tmp_path: Path) -> None:
    options = Options(epochs=1, preflight=False)
    train(table, options, out=tmp_path / "run")
    whole = (tmp_path / "run" / CHECKPOINT).read_bytes()
    (tmp_path / "run" / CHECKPOINT).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(bushel.FormatError, match="not a checkpoint"):
        train(table, options, out=tmp_path / "run", resume=True)
