"""What a run can be told, and that a run so told goes on as if it had not been stopped."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import bushel
from bushel.training import Listener, Options, Trained, train
from bushel.training.setup import set_up

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")


class Stopped(Exception):
    """As if the machine had gone."""


def stop_in_the_second_epoch(progress: Any) -> None:
    if progress.epoch == 2 and progress.step == 4:
        raise Stopped


def written(folder: Path, **columns: Any) -> Path:
    folder.mkdir()
    rows = len(columns["label"])
    for split, part in (("train", slice(0, rows * 3 // 4)), ("val", slice(rows * 3 // 4, rows))):
        with bushel.Writer(folder / f"{split}-00000-of-00001.tfrecord") as writer:
            writer.write_batch({name: column[part] for name, column in columns.items()})
    return folder


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven classes around as many points; 201 rows to learn from, so that no batch size comes out even."""
    generator = np.random.default_rng(0)
    label = np.arange(268) % 7
    points = generator.normal(0, 3, (7, 6))
    x = (points[label] + generator.normal(0, 0.5, (268, 6))).astype(np.float32)
    return written(tmp_path_factory.mktemp("classes") / "data", x=x, label=label)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three labels a row, each the sign of a number."""
    x = np.random.default_rng(1).normal(size=(240, 5)).astype(np.float32)
    return written(tmp_path_factory.mktemp("several") / "data", x=x, label=(x[:, :3] > 0).astype(np.int64))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.random.default_rng(2).normal(size=(240, 5)).astype(np.float32)
    return written(tmp_path_factory.mktemp("numbers") / "data", x=x, label=(40 + 10 * x[:, 0] - 3 * x[:, 1]))


def weights_of(run: Path) -> list[Any]:
    model: Any = keras.models.load_model(run / "model.keras", compile=False)
    return list(model.get_weights())


def metrics_of(run: Path) -> Any:
    return json.loads((run / "metrics.json").read_text())


def history_of(run: Path) -> Any:
    return json.loads((run / "history.json").read_text())


def whole_and_resumed(data: Path, options: Options, folder: Path) -> Trained:
    """Train once without a stop and once with; both must end with the same weights, whatever was asked for."""
    trained = train(data, options, out=folder / "whole")
    with pytest.raises(Stopped):
        train(data, options, out=folder / "stopped", listener=Listener(progress=stop_in_the_second_epoch))
    train(data, options, out=folder / "stopped", resume=True)
    one, other = weights_of(folder / "whole"), weights_of(folder / "stopped")
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    return trained


def told(**more: Any) -> Options:
    return Options(epochs=3, batch_size=32, checkpoint_every=3, preflight=False, tensorboard=False, **more)


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_learns_and_resumes(classes: Path, tmp_path: Path, precision: Any) -> None:
    trained = whole_and_resumed(classes, told(precision=precision, learning_rate=0.02), tmp_path)
    assert trained.verdict.learned
    model: Any = keras.models.load_model(tmp_path / "whole" / "model.keras", compile=False)
    computed = {layer.compute_dtype for layer in model.layers if layer.weights}
    assert precision.removeprefix("mixed_") in computed
    assert keras.mixed_precision.dtype_policy().name == "float32"  # as it was before the run


def test_a_mirrored_strategy_learns_and_resumes(classes: Path, tmp_path: Path) -> None:
    trained = whole_and_resumed(classes, told(strategy="mirrored", learning_rate=0.02), tmp_path)
    assert trained.verdict.learned


PLAIN = """
import keras

def build_model(problem):
    inputs = keras.Input(problem.input_shape)
    return keras.Model(inputs, keras.layers.Dense(problem.outputs, "softmax")(inputs))
"""


def test_two_devices_share_each_batch_and_learn_what_one_does(classes: Path, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(PLAIN)
    model = f"{tmp_path / 'my.py'}:build_model"
    code = (
        "import sys, tensorflow as tf; from bushel.training import Options, train; "
        "cpu = tf.config.list_physical_devices('CPU')[0]; "
        "tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2); "
        "train(sys.argv[1], Options(epochs=3, batch_size=32, preflight=False, strategy='mirrored', "
        "tensorboard=False, model=sys.argv[3]), out=sys.argv[2])"
    )
    command = [sys.executable, "-c", code, str(classes), str(tmp_path / "two"), model]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    train(classes, told(strategy="mirrored", model=model), out=tmp_path / "one")
    for one, two in zip(weights_of(tmp_path / "one"), weights_of(tmp_path / "two"), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)


def test_sgd_lowers_its_rate_on_a_plateau_and_resumes(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)  # nothing to learn: the validation loss rises as records are learned by heart
    x, label = generator.normal(size=(268, 6)).astype(np.float32), generator.integers(0, 7, 268)
    data = written(tmp_path / "data", x=x, label=label)
    kept: dict[str, Any] = {"batch_size": 32, "checkpoint_every": 3, "preflight": False, "tensorboard": False}
    whole_and_resumed(data, Options(epochs=8, optimiser="sgd", schedule="plateau", learning_rate=0.5, **kept), tmp_path)
    rates = [[row["learning_rate"] for row in history_of(tmp_path / name)] for name in ("whole", "stopped")]
    assert rates[0] == rates[1]
    assert rates[0][0] == pytest.approx(0.5)
    assert rates[0][-1] < 0.2


def test_a_saved_model_is_trained_further_and_resumes(classes: Path, tmp_path: Path) -> None:
    inputs = keras.Input([6], name="x")
    model = keras.Model(inputs, keras.layers.Dense(7, "softmax")(keras.layers.Dense(16, "relu")(inputs)))
    model.compile(keras.optimizers.RMSprop(0.02), "sparse_categorical_crossentropy")
    model.save(tmp_path / "mine.keras")
    trained = whole_and_resumed(classes, told(model=str(tmp_path / "mine.keras")), tmp_path)
    assert trained.verdict.learned
    run = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert run["compiled"]["optimiser"] == "RMSprop"
    assert run["compiled"]["learning_rate"] == pytest.approx(0.02)


def test_a_file_that_is_no_model_is_one_clear_line(classes: Path, tmp_path: Path) -> None:
    (tmp_path / "junk.keras").write_text("junk")
    with pytest.raises(bushel.BushelError, match=r"junk\.keras: this is not a model saved by Keras$"):
        train(classes, told(model=str(tmp_path / "junk.keras")), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_more_than_five_classes_have_a_top_5(classes: Path, tmp_path: Path) -> None:
    train(classes, told(learning_rate=0.02), out=tmp_path / "run")
    measured = metrics_of(tmp_path / "run")["metrics"]["val"]
    assert measured["accuracy"] <= measured["top_5"] <= 1


def test_several_labels_a_record_resume(several: Path, tmp_path: Path) -> None:
    trained = whole_and_resumed(several, told(task="multi_label", learning_rate=0.02), tmp_path)
    assert trained.verdict.metric == "auc"
    assert trained.verdict.learned


def test_a_regression_is_told_by_its_mean_absolute_error_and_resumes(numbers: Path, tmp_path: Path) -> None:
    trained = whole_and_resumed(numbers, told(learning_rate=0.05), tmp_path)
    assert trained.verdict.metric == "mae"
    assert {"mae"} <= set(metrics_of(tmp_path / "whole")["metrics"]["val"])


def test_the_smaller_last_batch_is_not_compiled_for_itself(classes: Path, tmp_path: Path) -> None:
    traces: list[int] = []

    def build_model(problem: Any) -> Any:
        class Counting(keras.layers.Layer):  # type: ignore[name-defined, misc]
            def call(self, x: Any, training: bool = False) -> Any:
                if training and not tf.executing_eagerly():
                    traces.append(1)
                return x

        inputs = keras.Input(problem.input_shape)
        return keras.Model(inputs, keras.layers.Dense(problem.outputs, "softmax")(Counting()(inputs)))

    train(classes, told(model=build_model), out=tmp_path / "run")
    assert len(traces) == 1


@pytest.mark.slow
def test_encoded_frames_of_clips_are_decoded_and_learned(tmp_path: Path) -> None:
    from pictures import encode_image

    generator = np.random.default_rng(0)
    frame = bushel.Feature(dtype="bytes", encoding="jpeg", sequence=True)
    schema = bushel.Schema.of(image=frame, label=bushel.Feature(dtype="int64"))
    (tmp_path / "data").mkdir()
    for split, count in (("train", 48), ("val", 16)):
        with bushel.Writer(tmp_path / "data" / f"{split}-00000-of-00001.tfrecord", schema=schema) as writer:
            for number in range(count):
                light = 40 + 120 * (number % 2)
                pixels = np.clip(light + generator.normal(0, 20, (4, 32, 32, 3)), 0, 255).astype(np.uint8)
                frames = [encode_image(step, "jpeg") for step in pixels]
                writer.write({"image": frames, "label": number % 2})
    trained = train(tmp_path / "data", Options(epochs=4, batch_size=8, tensorboard=False), out=tmp_path / "run")
    assert trained.verdict.learned


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_loop_runs_on_the_other_backends_of_keras(classes: Path, tmp_path: Path, backend: str) -> None:
    pytest.importorskip(backend)
    command = [sys.executable, "-m", "bushel", "train", str(classes), "--out", str(tmp_path / "run"), "--epochs", "4"]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert metrics_of(tmp_path / "run")["verdict"]["learned"]
    predict = [sys.executable, "-m", "bushel", "predict", str(tmp_path / "run"), str(classes), "--split", "val"]
    done = subprocess.run(predict, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    command += ["--strategy", "mirrored", "--overwrite"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert f"strategy needs Keras on TensorFlow, and it runs on {backend}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_text_is_refused_with_a_way_out_on_the_other_backends(table: Path, tmp_path: Path, backend: str) -> None:
    pytest.importorskip(backend)
    command = [sys.executable, "-m", "bushel", "train", str(table), "--out", str(tmp_path / "run")]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert f"Keras on {backend} takes numbers, and 'colour' is text" in done.stderr
    assert "--encode colour" in done.stderr


def preprocess_input(x: Any) -> Any:
    """As a module of keras.applications has it."""
    return x / 127.5 - 1.0


def Tiny(*, include_top: bool, weights: str | None, input_shape: tuple[int, ...]) -> Any:  # noqa: N802
    """A network as keras.applications has them, but small."""
    assert not include_top
    inputs = keras.Input(input_shape)
    x = keras.layers.Conv2D(8, 3, activation="relu", name="first")(inputs)
    body = keras.Model(inputs, keras.layers.BatchNormalization(name="norm")(x), name="tiny")
    if weights is not None:
        body.load_weights(weights)
    return body


def test_a_pretrained_body_is_frozen_first_then_trained_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keras.applications, "Tiny", Tiny, raising=False)
    generator = np.random.default_rng(5)
    label = np.arange(160) % 2
    pictures = np.clip(generator.normal(90 + 60 * label[:, None, None, None], 20, (160, 8, 8, 3)), 0, 255)
    part = np.where(np.arange(160) < 120, "train", "val")
    columns = {"image": pictures.astype(np.uint8), "label": label, "part": part}
    bushel.build(columns, tmp_path / "data", split="part", label="label")
    body = Tiny(include_top=False, weights=None, input_shape=(8, 8, 3))
    body.save_weights(tmp_path / "body.weights.h5")
    notes: list[str] = []
    options = told(model="Tiny", weights=str(tmp_path / "body.weights.h5"), learning_rate=0.02)
    trained = whole_and_resumed(tmp_path / "data", options, tmp_path)
    rates = [row["learning_rate"] for row in trained.history]
    assert rates == pytest.approx([0.02, 0.001, 0.001])
    train(tmp_path / "data", options, out=tmp_path / "seen", listener=Listener(note=notes.append))
    assert "the pretrained layers are frozen for 1 of 3 epochs, then they are trained with a rate of 0.001" in notes
    only_head = msgspec.structs.replace(options, epochs=1)
    train(tmp_path / "data", only_head, out=tmp_path / "head")
    first, *_ = keras.models.load_model(tmp_path / "head" / "model.keras").get_layer("tiny").get_weights()
    np.testing.assert_array_equal(first, body.get_weights()[0])
    train(out=tmp_path / "head", resume=True, options=msgspec.structs.replace(options, epochs=6))
    with np.load(tmp_path / "head" / "checkpoint.npz") as file:
        assert json.loads(file["state"].tobytes())["is_unfrozen"]
        arrays = [file[name] for name in file.files if name.startswith("model/")]
    same = [array for array in arrays if array.shape == first.shape]
    assert len(same) == 1
    assert not np.array_equal(same[0], first)


def test_a_length_that_is_not_given_is_chosen_in_steps_and_so_is_the_patience(classes: Path) -> None:
    chosen = set_up(classes, Options(tensorboard=False)).options  # 201 rows: 7 steps
    assert (chosen.epochs, chosen.early_stopping, chosen.schedule) == (143, 43, "cosine")
    given = set_up(classes, Options(epochs=3, tensorboard=False)).options
    assert (given.epochs, given.early_stopping, given.schedule) == (3, None, "constant")
    kept = set_up(classes, Options(early_stopping=4, schedule="plateau", tensorboard=False)).options
    assert (kept.epochs, kept.early_stopping, kept.schedule) == (143, 4, "plateau")
