"""From a dataset to an evaluated model in a folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel.cli import cli
from bushel.feeding.preparation import Input, Preparation, Problem, Target
from bushel.training import Listener, Options, train
from bushel.training.models import ready_model

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")

QUICK = {"tensorboard": False}


def history(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "history.json").read_text())
    return [
        {name: value for name, value in row.items() if name not in ("samples_per_second", "waiting")} for row in rows
    ]


def test_training_loads_nothing_that_writes_records_and_no_framework() -> None:
    code = "import sys, bushel.training; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.startswith("bushel.building")]
    assert not {"tensorflow", "keras", "torch", "jax"} & set(loaded)


def test_images_become_a_model_its_metrics_and_a_verdict(digits: Path, tmp_path: Path) -> None:
    said: list[Any] = []
    listener = Listener(progress=said.append)
    trained = train(digits, Options(epochs=8, batch_size=16), out=tmp_path / "run", listener=listener)
    assert trained.verdict.learned
    assert trained.verdict.metric == "accuracy"
    assert trained.verdict.summary.startswith("It learned: accuracy 0.")
    assert trained.verdict.advantages["constant"]["low"] > 0.5
    assert trained.metrics["test"]["accuracy"] > 0.85
    assert {"loss", "accuracy", "balanced_accuracy", "f1", "top_5"} == set(trained.metrics["val"])
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"model.keras", "metrics.json", "metrics.csv", "history.json", "history.csv", "logs", "run.json"} <= written
    assert [row["epoch"] for row in trained.history] == list(range(1, 9))
    assert said[-1].is_end_of_epoch
    assert 0 <= said[-1].waiting < 1
    model = keras.models.load_model(tmp_path / "run" / "model.keras")
    assert model.input_shape == (None, 8, 8, 1)
    assert model.output_shape == (None, 10)


def test_few_images_pass_filters_that_are_saved_but_not_trained(tmp_path: Path) -> None:
    label = np.arange(80) % 2
    down, across = np.meshgrid(np.arange(16) % 4 < 2, np.arange(24) % 4 < 2, indexing="ij")
    stripes = np.where(label[:, None, None], down, across)[..., None]
    pictures = np.random.default_rng(0).normal(100, 60, (80, 16, 24, 3)) + 100 * stripes
    columns = {"x": np.clip(pictures, 0, 255).astype(np.uint8), "label": label}
    bushel.build(columns, tmp_path / "data", split="60/20/20", label="label")
    trained = train(tmp_path / "data", Options(epochs=2, preflight=False, **QUICK), out=tmp_path / "run")
    (filters,) = _fixed_filters(keras.models.load_model(tmp_path / "run" / "model.keras"))
    patterns = filters.reshape(48, -1).T
    np.testing.assert_allclose(patterns @ patterns.T, np.kron([[1, -1], [-1, 1]], np.eye(48)), atol=1e-5)
    assert trained.metrics["test"]["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("shape", "records", "filters"),
    [
        ((16, 16, 1), 4999, [(4, 4, 1, 32)]),
        ((70, 200, 3), 50, [(4, 4, 3, 96)]),
        ((33, 17, 2), 50, [(4, 4, 2, 64)]),
        ((16, 16, 1), 5000, []),
        ((15, 64, 3), 50, []),
    ],
)
def test_only_few_images_that_are_not_tiny_pass_fixed_filters(
    shape: tuple[int, int, int], records: int, filters: list[tuple[int, ...]]
) -> None:
    given = Input(name="x", kind="image", shape=shape, dtype="uint8")
    target = Target(kind="multi_class", label="label", classes=["a", "b", "c"])
    model = ready_model(Problem(Preparation(("x",), inputs=(given,)), target), cast("Any", range(records)))
    assert [found.shape for found in _fixed_filters(model)] == filters
    assert model.output_shape == (None, 3)


def _fixed_filters(model: Any) -> list[np.ndarray]:
    fixed = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D) and not layer.trainable]
    return [layer.get_weights()[0] for layer in fixed]


def test_numbers_categories_and_what_is_missing_are_learned_together(table: Path, tmp_path: Path) -> None:
    trained = train(table, Options(epochs=12, **QUICK), out=tmp_path / "run")
    assert trained.verdict.learned
    assert next(iter(trained.metrics.values()))["accuracy"] > 0.85
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    kinds = {given["name"]: given["kind"] for given in run["preparation"]["inputs"]}
    assert kinds == {"colour": "category", "size": "number", "x": "number"}
    assert run["task"]["classes"] == ["maybe", "no", "yes"]


def test_nothing_is_written_into_the_dataset(table: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    train(table, Options(epochs=1), out=tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before


def test_the_same_seed_gives_the_same_losses_and_another_does_not(table: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(table, Options(epochs=2, seed=seed, **QUICK), out=tmp_path / name)
    assert history(tmp_path / "a") == history(tmp_path / "b")
    assert history(tmp_path / "a") != history(tmp_path / "c")


def arrays(folder: Path, **columns: Any) -> Path:
    bushel.build(columns, folder, split="70/30")
    return folder


def test_a_regression_is_measured_by_its_error_in_the_labels_own_unit(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    data = arrays(tmp_path / "data", x=x, label=(1000 + 100 * x[:, 0]).astype(np.float32))
    trained = train(data, Options(epochs=15, learning_rate=0.01, **QUICK), out=tmp_path / "run")
    assert trained.verdict.metric == "mae"
    assert trained.verdict.learned
    assert trained.metrics["val"]["mae"] < 30
    assert trained.verdict.baselines["constant"]["value"] > 60


def test_several_labels_a_record_are_measured_by_auc(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    rows = (
        {"x": x[i], "label": [n for n, v in zip("abc", x[i], strict=False) if v > 0] or ["none"]} for i in range(500)
    )
    bushel.build(rows, tmp_path / "data", split="70/30")
    trained = train(tmp_path / "data", Options(epochs=10, **QUICK), out=tmp_path / "run")
    assert trained.verdict.metric == "auc"
    assert trained.metrics["val"]["auc"] > 0.9
    assert {"f1", "accuracy"} <= set(trained.metrics["val"])


def test_two_classes_have_one_output_and_an_auc(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    data = arrays(tmp_path / "data", x=x, label=(x[:, 0] > 0).astype(np.int64))
    trained = train(data, Options(epochs=8, **QUICK), out=tmp_path / "run")
    assert trained.metrics["val"]["auc"] > 0.95
    assert keras.models.load_model(tmp_path / "run" / "model.keras").output_shape == (None, 1)


def test_token_sequences_of_different_lengths_are_padded_and_learned(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = []
    for i in range(400):
        words = generator.integers(10, 60, generator.integers(3, 20))
        rows.append({"tokens": [*words.tolist(), 2 + i % 2], "label": i % 2})
    bushel.build(iter(rows), tmp_path / "data", split="70/30")
    trained = train(tmp_path / "data", Options(epochs=12, learning_rate=0.005, **QUICK), out=tmp_path / "run")
    assert trained.metrics["val"]["accuracy"] > 0.9


def test_texts_are_learned_with_a_vocabulary_inside_the_model(tmp_path: Path) -> None:
    words = ["plain", "river", "stone", "cloud", "grass", "light"]
    generator = np.random.default_rng(0)
    rows = []
    for i in range(300):
        text = [*generator.choice(words, 9), "good" if i % 2 else "bad"]
        generator.shuffle(text)
        rows.append({"text": f"{' '.join(text)} {i}.", "label": "yes" if i % 2 else "no"})
    bushel.build(iter(rows), tmp_path / "data", split="70/30")
    trained = train(tmp_path / "data", Options(epochs=8, learning_rate=0.005), out=tmp_path / "run")
    assert trained.metrics["val"]["accuracy"] > 0.9
    model = keras.models.load_model(tmp_path / "run" / "model.keras")
    assert float(model(tf.constant(["a good river"]))[0, 0]) > 0.5 > float(model(tf.constant(["a bad river"]))[0, 0])


def test_series_and_clips_are_learned(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    label = np.arange(200) % 2
    series = generator.normal(size=(200, 32, 2)).astype(np.float32)
    series[label == 1] *= 3
    trained = train(
        arrays(tmp_path / "series", x=series, label=label), Options(epochs=8, **QUICK), out=tmp_path / "of_series"
    )
    assert trained.metrics["val"]["accuracy"] > 0.9
    clips = generator.integers(0, 128, (120, 3, 8, 8, 1)).astype(np.uint8)
    clips[label[:120] == 1] += 100
    trained = train(
        arrays(tmp_path / "clips", clip=clips, label=label[:120]), Options(epochs=8, **QUICK), out=tmp_path / "of_clips"
    )
    run = json.loads((tmp_path / "of_clips" / "run.json").read_text())
    assert run["preparation"]["inputs"][0]["kind"] == "clip"
    assert trained.metrics["val"]["accuracy"] > 0.9


def test_sparse_rows_are_learned(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = []
    for i in range(300):
        places = sorted({*generator.integers(10, 200, 8).tolist(), i % 2})
        rows.append({"tfidf/indices": places, "tfidf/values": [1.0] * len(places), "label": i % 2})
    bushel.build(iter(rows), tmp_path / "data", split="70/30")
    trained = train(tmp_path / "data", Options(epochs=10, **QUICK), out=tmp_path / "run")
    assert trained.metrics["val"]["accuracy"] > 0.9


def test_uneven_classes_count_alike_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(900, 4)).astype(np.float32)
    label = (x[:, 0] + 0.5 * generator.normal(size=900) > 1.8).astype(int)
    with pytest.warns(bushel.BushelWarning, match="times as many"):
        bushel.build({"x": x, "label": label}, tmp_path / "data", split="70/30", stratify="label")
    notes: list[str] = []
    options = Options(epochs=8, preflight=False)
    alike = train(tmp_path / "data", options, out=tmp_path / "alike", listener=Listener(note=notes.append))
    assert notes[0].startswith("the classes are uneven, so rare ones weigh more in training")
    each = train(tmp_path / "data", Options(epochs=8, preflight=False, class_weights="none"), out=tmp_path / "each")
    assert alike.metrics["val"]["balanced_accuracy"] > each.metrics["val"]["balanced_accuracy"] + 0.1


def test_the_epoch_with_the_best_score_is_kept_or_the_lowest_loss_where_val_is_also_the_judge(tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    x = generator.normal(size=(320, 6)).astype(np.float32)
    label = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
    wrong = generator.random(320) < 0.2  # a model that becomes sure of itself pays for these
    label[wrong] = 1 - label[wrong]
    part = np.repeat(["train", "val", "test"], [120, 120, 80])
    columns = {"x": x, "label": label, "part": part}
    bushel.build(columns, tmp_path / "three", split="part", label="label")
    bushel.build(
        {name: values[:240] for name, values in columns.items()}, tmp_path / "two", split="part", label="label"
    )
    told: dict[str, Any] = {"preflight": False, "learning_rate": 0.02, **QUICK}
    kept = {}
    for name in ("two", "three"):
        trained = train(tmp_path / name, Options(epochs=12, **told), out=tmp_path / f"run {name}")
        kept[name] = json.loads((tmp_path / f"run {name}" / "metrics.json").read_text())["best_epoch"] - 1
    window = 75 // trained.history[0]["step"]
    accuracies = [row["val_accuracy"] for row in trained.history]
    smooth = [np.mean(accuracies[max(0, end - window) : end]) for end in range(1, len(accuracies) + 1)]
    scores = [(score, -row["val_loss"]) for score, row in zip(smooth, trained.history, strict=True)]
    losses = [row["val_loss"] for row in trained.history]
    assert kept == {"two": losses.index(min(losses)), "three": scores.index(max(scores))}
    assert kept["two"] != kept["three"]
    assert trained.metrics["val"]["accuracy"] == pytest.approx(accuracies[kept["three"]])
    stopped = train(tmp_path / "three", Options(epochs=40, early_stopping=3, **told), out=tmp_path / "stopped")
    assert len(stopped.history) < 40
    said = json.loads((tmp_path / "stopped" / "metrics.json").read_text())["stopped"]
    assert said.startswith("no better accuracy or loss of the validation split in 3 epochs; the best was epoch ")


def test_a_label_that_is_different_in_every_record_is_refused(tmp_path: Path) -> None:
    rows = [{"id": f"row {n}", "x": float(n % 3)} for n in range(60)]
    bushel.build(iter(rows), tmp_path / "data", split="80/20")
    done = CliRunner().invoke(cli, ["train", str(tmp_path / "data"), "--label", "id", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2, done.output
    assert "the label is different in every record of train, so there is nothing to learn - at id" in done.output
    assert not (tmp_path / "run").exists()


def test_training_ends_when_the_score_is_perfect_and_more_epochs_are_not_advised(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    data = {"x": (labels * 8 + rng.normal(size=300)).astype(np.float32), "label": labels}
    bushel.build(data, tmp_path / "data", split="60/20/20")
    done = CliRunner().invoke(cli, ["train", str(tmp_path / "data"), "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert "of the validation split is perfect" in metrics["stopped"]
    assert "more --epochs may help" not in done.output


def test_more_epochs_are_advised_unless_the_last_one_was_perfect(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    for name, noise in (("perfect", 1), ("not", 10)):
        data = {"x": (labels * 20 + noise * rng.normal(size=300)).astype(np.float32), "label": labels}
        bushel.build(data, tmp_path / name, split="60/20/20")
        run = tmp_path / f"{name}-run"
        rate = "0.01" if name == "perfect" else "0.0001"
        done = CliRunner().invoke(
            cli, ["train", str(tmp_path / name), "--out", str(run), "--epochs", "3", "--learning-rate", rate]
        )
        last = json.loads((run / "history.json").read_bytes())[-1]
        assert (last["val_accuracy"] == 1) is (name == "perfect")
        assert ("more --epochs may help" in done.output) is (name == "not")


def test_early_stopping_waits_while_train_still_improves_and_validation_has_not_risen(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from bushel.training.loop.loop import Training

    def is_improving(losses: list[float], validation: list[float]) -> bool:
        history = [{"loss": a, "val_loss": b} for a, b in zip(losses, validation, strict=True)]
        state = SimpleNamespace(history=history, best_loss=min(validation))
        return Training._is_improving(SimpleNamespace(state=state, loss_error=0.02), 8)  # type: ignore[arg-type]

    falling = [0.7 - 0.02 * at for at in range(8)]
    assert is_improving(falling, [0.69] * 8)
    assert not is_improving([0.7, 0.69] * 4, [0.69] * 8)
    assert not is_improving(falling, [0.6, *[0.69] * 7])
