"""Every task trains at the first try, with default options; what cannot be trained is one clear line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import contract
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
    assert notes == ["'blob' is left out: it holds bytes that are neither text nor known to be images"]


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


def test_results_are_short_to_look_at(vectors: Path, tmp_path: Path) -> None:
    trained = train(vectors, Options(epochs=1), out=tmp_path / "run")
    assert repr(trained) == f"Trained({str(tmp_path / 'run')!r}: {trained.verdict.summary})"
    assert "<table>" in trained._repr_html_()
    found = bushel.evaluate(tmp_path / "run", vectors)
    assert repr(found).startswith("Evaluation(val: accuracy 0.")
    assert "<table>" in found._repr_html_()
    prediction = next(iter(bushel.predict(tmp_path / "run", vectors, split="val")))
    assert repr(prediction) == f"Prediction({prediction.name}: {prediction.label} ({prediction.probability:.3f}))"
