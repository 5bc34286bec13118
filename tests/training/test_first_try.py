"""Every task trains at the first try, with default options; what cannot be trained is one clear line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel import contract
from bushel.checking.rules.model_rules import look_at_model
from bushel.checking.rules.probe_rules import probe_size
from bushel.cli import cli
from bushel.training import Listener, Options, train

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

ROWS = 120


def inputs(kind: str) -> tuple[list[dict[str, Any]], Any]:
    """Samples of a kind, and the number that their labels follow from."""
    signal = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
    if kind == "numbers":
        return [{"a": float(x[0]), "b": float(x[1]), "c": float(x[2])} for x in signal], signal
    if kind == "vectors":
        return [{"x": x} for x in signal], signal
    pixels = np.clip(128 + 40 * signal, 0, 255).astype(np.uint8)
    return [{"image": np.broadcast_to(x, (8, 8, 3)).copy()} for x in pixels], signal


def labels(task: str, signal: Any) -> list[Any]:
    if task == "regression":
        return [float(10 * x[0]) for x in signal]
    if task == "multi_label":
        return [[name for name, value in zip("abc", x, strict=True) if value > -0.5] or ["none"] for x in signal]
    names = ("low", "high") if task == "binary" else ("low", "middle", "high")
    edges = np.quantile(signal[:, 0], np.linspace(0, 1, len(names) + 1)[1:-1])
    return [names[int(np.searchsorted(edges, x[0]))] for x in signal]


@pytest.mark.parametrize("kind", ["numbers", "vectors", "images"])
@pytest.mark.parametrize("task", ["binary", "multi_class", "multi_label", "regression"])
def test_every_task_trains_on_every_kind_of_input_with_default_options(kind: str, task: str, tmp_path: Path) -> None:
    samples, signal = inputs(kind)
    rows = [{**sample, "y": label} for sample, label in zip(samples, labels(task, signal), strict=True)]
    bushel.build(iter(rows), tmp_path / "data", split="70/30", label="y")
    trained = train(tmp_path / "data", Options(epochs=2, batch_size=16), out=tmp_path / "run")
    assert trained.history, trained.verdict.summary
    assert contract.read(tmp_path / "run").target.kind == task
    again = bushel.evaluate(tmp_path / "run", tmp_path / "data", split="val")
    assert again.metrics == pytest.approx(trained.metrics["val"], rel=1e-4)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples, signal = inputs("vectors")
    rows = [{**sample, "y": label} for sample, label in zip(samples, labels("binary", signal), strict=True)]
    folder = tmp_path_factory.mktemp("vectors")
    bushel.build(iter(rows), folder / "data", split="70/30", label="y")
    return folder / "data"


def test_a_prediction_of_a_model_with_logits_does_not_depend_on_its_batch(vectors: Path, tmp_path: Path) -> None:
    def build_model() -> Any:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.layers[0].set_weights([np.array([[3.0], [0.0], [0.0]]), np.array([0.5])])
        return model

    train(vectors, Options(epochs=1, model=build_model, learning_rate=1e-6, preflight=False), out=tmp_path / "run")
    assert contract.read(tmp_path / "run").gives == "logits"
    together = list(bushel.predict(tmp_path / "run", vectors, split="val", batch_size=64))
    alone = list(bushel.predict(tmp_path / "run", vectors, split="val", batch_size=1))
    assert [prediction.label for prediction in alone] == [prediction.label for prediction in together]
    probabilities = [prediction.probability for prediction in together]
    assert [prediction.probability for prediction in alone] == pytest.approx(probabilities, rel=1e-4)


def head(units: int, activation: str | None = None) -> Any:
    def build_model() -> Any:
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(units, activation)])

    return build_model


def test_bytes_that_are_no_text_are_left_out_with_a_note(tmp_path: Path) -> None:
    samples, signal = inputs("vectors")
    rows = [
        {**sample, "blob": b"\xff\xfe\xfd", "y": label}
        for sample, label in zip(samples, labels("binary", signal), strict=True)
    ]
    bushel.build(iter(rows), tmp_path / "data", split="70/30", label="y")
    notes: list[str] = []
    train(tmp_path / "data", Options(epochs=1), out=tmp_path / "run", listener=Listener(note=notes.append))
    assert "'blob' is left out: it holds bytes that are neither text nor known to be images" in notes


def test_a_head_that_does_not_fit_is_a_finding(tmp_path: Path) -> None:
    samples, signal = inputs("vectors")
    rows = [{**sample, "y": label} for sample, label in zip(samples, labels("multi_class", signal), strict=True)]
    bushel.build(iter(rows), tmp_path / "data", split="70/30", label="y")
    trained = train(tmp_path / "data", Options(epochs=1, model=head(2, "softmax")), out=tmp_path / "run")
    assert trained.verdict.summary == "Not trained: the output has 2 units, and multi-class needs 3"
    assert trained.verdict.causes[0]["rule"] == "MDL003"
    with pytest.raises(bushel.SchemaMismatch, match="the output has 2 units, and multi-class needs 3"):
        train(tmp_path / "data", Options(epochs=1, model=head(2, "softmax"), preflight=False), out=tmp_path / "run")


def test_a_softmax_over_one_unit_is_a_finding(vectors: Path, tmp_path: Path) -> None:
    trained = train(vectors, Options(epochs=1, model=head(1, "softmax")), out=tmp_path / "run")
    assert trained.verdict.causes[0]["rule"] == "MDL002"
    assert "a softmax over one unit is always 1" in trained.verdict.summary


@pytest.mark.parametrize(("unknown", "severity", "epochs"), [(1, "warning", 1), (3, "error", 0)])
def test_few_records_of_a_class_that_train_lacks_do_not_stop_training(
    unknown: int, severity: str, epochs: int, tmp_path: Path
) -> None:
    samples, signal = inputs("vectors")
    names = labels("binary", signal)
    names[-unknown:] = ["other"] * unknown
    parts = ["train"] * 70 + ["val"] * (ROWS - 70)
    rows = [{**sample, "y": name, "part": part} for sample, name, part in zip(samples, names, parts, strict=True)]
    bushel.build(iter(rows), tmp_path / "data", split="part", label="y")
    trained = train(tmp_path / "data", Options(epochs=1), out=tmp_path / "run")
    assert [finding.severity for finding in trained.findings if finding.rule == "LBL004"] == [severity]
    assert len(trained.history) == epochs


def test_the_command_prints_each_finding_in_full_once(vectors: Path, tmp_path: Path) -> None:
    layers = "keras.Input(problem.input_shape), keras.layers.Dense(1, 'softmax')"
    code = f"import keras\n\ndef net(problem):\n    return keras.Sequential([{layers}])\n"
    (tmp_path / "net.py").write_text(code)
    flags = ["--model", f"{tmp_path / 'net.py'}:net", "--epochs", "1", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(cli, ["train", str(vectors), *flags])
    assert done.exit_code == 1
    assert "length: 1 epoch of 3 steps" in done.output
    assert done.output.count("use one unit per class, or sigmoid if there are two classes") == 1
    found = "error[MDL002] loss-does-not-fit-output: a softmax over one unit is always 1\n"
    assert done.output.count(found) == 2
    assert f"\nlikely cause 1:\n{found}" in done.stdout


def test_a_model_with_several_outputs_is_one_clear_line(vectors: Path, tmp_path: Path) -> None:
    def two_outputs() -> Any:
        x = keras.Input((3,))
        return keras.Model(x, [keras.layers.Dense(1)(x), keras.layers.Dense(1)(x)])

    with pytest.raises(bushel.SchemaMismatch, match="the model has 2 outputs; bushel trains models with one"):
        train(vectors, Options(epochs=1, model=two_outputs), out=tmp_path / "run")


def test_a_start_that_failed_does_not_block_the_next(vectors: Path, tmp_path: Path) -> None:
    assert not train(vectors, Options(epochs=1, model=head(1, "softmax")), out=tmp_path / "run").history
    assert train(vectors, Options(epochs=1), out=tmp_path / "run").history
    with pytest.raises(bushel.FileProblem, match="there is a run in this folder already"):
        train(vectors, Options(epochs=1), out=tmp_path / "run")


def without_leak(found: list[Any]) -> list[str]:
    """The rules of findings, but for the one that says, rightly, that one number decides the labels of these toys."""
    return [finding.rule for finding in found if finding.rule != "LBL009"]


@pytest.mark.parametrize(
    "options",
    [
        {"optimiser": "sgd"},
        {"optimiser": "lion"},
        {"learning_rate": 1e-5},
        {"warmup": 0.9, "schedule": "cosine"},
    ],
)
def test_what_a_model_can_learn_does_not_depend_on_its_optimiser(
    vectors: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    found: list[Any] = []
    train(vectors, Options(epochs=1, **options), out=tmp_path / "run", listener=Listener(finding=found.append))
    assert without_leak(found) == []


def test_a_frozen_body_with_a_head_that_learns_is_no_finding(vectors: Path, tmp_path: Path) -> None:
    def build_model() -> Any:
        body = keras.layers.Dense(32, "relu", trainable=False)
        return keras.Sequential([keras.Input((3,)), body, keras.layers.Dense(1, "sigmoid")])

    found: list[Any] = []
    train(vectors, Options(epochs=1, model=build_model), out=tmp_path / "run", listener=Listener(finding=found.append))
    assert without_leak(found) == []


def test_equal_inputs_with_different_labels_are_no_fault_of_the_model(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = (np.arange(240) % 4).astype(np.float32)
    labels = np.where(generator.random(240) < 0.25, 1 - (x > 1), x > 1).astype(int)
    bushel.build({"x": x, "label": labels}, tmp_path / "data", split="70/30")
    found: list[Any] = []
    train(tmp_path / "data", Options(epochs=1), out=tmp_path / "run", listener=Listener(finding=found.append))
    assert not {"TRN002", "TRN003"} & {finding.rule for finding in found}


def test_a_model_too_large_to_be_tried_is_said_and_the_size_of_a_probe_follows_from_the_model_alone() -> None:
    small = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    large = keras.Sequential([keras.Input((64, 64, 3)), keras.layers.Conv2D(32, 3), keras.layers.Conv2D(32, 3)])
    larger = keras.Sequential([keras.Input((224, 224, 3)), keras.layers.Conv2D(256, 3), keras.layers.Conv2D(256, 3)])
    assert probe_size(small, 32) == (32, 120)
    assert probe_size(large, 32) == (11, 120)
    assert probe_size(larger, 32)[1] == 0


def applied(preprocess: Any) -> Any:
    """A body that stands for MobileNetV2 by its name, as TensorFlow's guide to transfer learning uses it."""
    inputs = keras.Input((16, 16, 3))
    x = keras.layers.RandomFlip("horizontal")(inputs)
    body = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(4, 3)], name="mobilenetv2_1.00_16")
    body.trainable = False
    x = keras.layers.GlobalAveragePooling2D()(body(preprocess(x) if preprocess else x))
    return keras.Model(inputs, keras.layers.Dense(1)(x))


@pytest.mark.parametrize(
    ("preprocess", "expected"),
    [
        (keras.applications.mobilenet_v2.preprocess_input, "0..255"),
        (None, "-1..1"),
        (lambda x: x * 2 - 1, "0..1"),
    ],
)
def test_the_range_of_a_model_is_what_its_body_needs_after_what_comes_before_it(preprocess: Any, expected: str) -> None:
    assert look_at_model(applied(preprocess), None).expects == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (keras.layers.Rescaling(1 / 255), "0..255"),
        (keras.layers.Rescaling(1 / 127.5, -1), "0..255"),
        (keras.layers.Rescaling(2.0, -1), "0..1"),
        (keras.layers.RandomFlip(), None),
    ],
)
def test_the_range_of_a_custom_model_is_measured_at_its_first_weights(before: Any, expected: str | None) -> None:
    model = keras.Sequential([keras.Input((8, 8, 3)), before, keras.layers.Conv2D(4, 3)])
    assert look_at_model(model, None).expects == expected


def test_ids_have_no_range() -> None:
    inputs = keras.Input((7,), dtype="int64")
    words = keras.layers.Embedding(50, 8)(keras.ops.minimum(inputs, 49))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(words)))
    assert look_at_model(model, None).expects is None


@pytest.mark.parametrize("span", [None, "0..255"])
def test_transfer_learning_with_preprocessing_inside_is_fed_pixels_as_they_are(tmp_path: Path, span: Any) -> None:
    samples, signal = inputs("images")
    rows = [{**sample, "y": label} for sample, label in zip(samples, labels("binary", signal), strict=True)]
    rows = [{**row, "image": np.repeat(np.repeat(row["image"], 2, 0), 2, 1)} for row in rows]
    bushel.build(iter(rows), tmp_path / "data", split="70/30", label="y")
    options = Options(epochs=1, model=applied(keras.applications.mobilenet_v2.preprocess_input), range=span)
    found: list[Any] = []
    train(tmp_path / "data", options, out=tmp_path / "run", listener=Listener(finding=found.append))
    given = contract.read(tmp_path / "run").inputs["image"]
    assert given.max is not None
    assert given.max > 2
    assert "MDL001" not in {finding.rule for finding in found}


def test_a_model_that_ends_with_a_function_is_not_taken_for_one_with_logits(vectors: Path, tmp_path: Path) -> None:
    def build_model() -> Any:
        inputs = keras.Input((3,))
        model = keras.Model(inputs, keras.ops.softmax(keras.layers.Dense(2)(inputs)))
        model.compile("adam", "sparse_categorical_crossentropy")
        return model

    trained = train(vectors, Options(epochs=1, model=build_model), out=tmp_path / "run")
    assert trained.history, trained.verdict.summary
    assert contract.read(tmp_path / "run").gives == "probabilities"


def test_a_model_without_a_gradient_is_a_finding(vectors: Path, tmp_path: Path) -> None:
    def build_model() -> Any:
        inputs = keras.Input((3,))
        stopped = keras.ops.stop_gradient(keras.layers.Dense(1)(inputs))
        model = keras.Model(inputs, keras.ops.sigmoid(stopped))
        model.compile("adam", "binary_crossentropy")
        return model

    trained = train(vectors, Options(epochs=1, model=build_model), out=tmp_path / "run")
    assert trained.verdict.summary == "Not trained: no gradient of the loss reaches any weight"
    with pytest.raises(bushel.SchemaMismatch, match="no weight of the model gets a gradient of the loss"):
        train(vectors, Options(epochs=1, model=build_model, preflight=False), out=tmp_path / "run")


@pytest.mark.slow
def test_an_application_of_keras_is_trained_by_name_and_takes_weights(tmp_path: Path) -> None:
    samples, signal = inputs("images")
    rows = [{**sample, "y": label} for sample, label in zip(samples, labels("binary", signal), strict=True)]
    rows = [{**row, "image": np.repeat(np.repeat(row["image"], 4, 0), 4, 1)} for row in rows]
    bushel.build(iter(rows), tmp_path / "data", split="70/30", label="y")
    body = keras.applications.MobileNetV2(include_top=False, weights=None, input_shape=(32, 32, 3))
    body.save_weights(tmp_path / "body.weights.h5")
    options = Options(epochs=1, model="MobileNetV2", weights=str(tmp_path / "body.weights.h5"))
    assert train(tmp_path / "data", options, out=tmp_path / "run").history
    assert contract.read(tmp_path / "run").inputs["image"].max > 2  # type: ignore[operator]
    kept = keras.models.load_model(tmp_path / "run" / "model.keras")
    for one, other in zip(kept.get_layer(body.name).weights, body.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    with pytest.raises(bushel.FileProblem, match="there is no such model; did you mean 'MobileNetV2'"):
        train(tmp_path / "data", Options(model="MobileNetv2"), out=tmp_path / "other")


def test_a_test_of_few_records_is_not_enough_to_tell(tmp_path: Path) -> None:
    for split, count in (("train", 80), ("val", 20), ("test", 1)):
        with bushel.Writer(tmp_path / f"{split}.tfrecord") as writer:
            for number in range(count):
                writer.write({"x": [float(number % 2), 1.0], "label": number % 2})
    trained = train(tmp_path, Options(epochs=20, batch_size=8), out=tmp_path / "run")
    assert (trained.verdict.learned, trained.verdict.unclear) == (False, True)
    assert trained.verdict.summary.startswith("Too few records to tell whether it learned: accuracy ")
    assert " on 1 record; " in trained.verdict.summary


def test_results_are_short_to_look_at(vectors: Path, tmp_path: Path) -> None:
    trained = train(vectors, Options(epochs=1), out=tmp_path / "run")
    assert repr(trained) == f"Trained({str(tmp_path / 'run')!r}: {trained.verdict.summary})"
    assert "<table>" in trained._repr_html_()
    found = bushel.evaluate(tmp_path / "run", vectors)
    assert repr(found).startswith("Evaluation(val: accuracy 0.")
    assert "<table>" in found._repr_html_()
    prediction = next(iter(bushel.predict(tmp_path / "run", vectors, split="val")))
    assert repr(prediction) == f"Prediction({prediction.name}: {prediction.label} ({prediction.probability:.3f}))"
