"""Gradient-boosted trees: fitted by scikit-learn, stored as arrays, evaluated by NumPy."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel import contract
from bushel.cli import cli
from bushel.feeding.preparation import Input, Preparation, Problem, Target
from bushel.feeding.trees import load_trees, save_trees, table_rows
from bushel.training import Options, train
from bushel.training.tree_models import Booster

pytest.importorskip("sklearn")

CLASSES = ["no", "maybe", "yes"]


def rows_of_a_table(count: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Numbers with gaps, words with a rare one, and codes; and what follows from them."""
    generator = np.random.default_rng(seed)
    numbers = generator.normal(size=(count, 3)).astype(np.float32)
    numbers[generator.random(numbers.shape) < 0.2] = np.nan
    words = generator.choice([b"red", b"green", b"blue", b"odd"], count, p=[0.4, 0.3, 0.29, 0.01]).astype(object)
    codes = generator.integers(0, 6, count)
    signal = np.nan_to_num(numbers[:, 0]) + (words == b"red") + 0.5 * (codes % 2) + 0.1 * generator.normal(size=count)
    return {"numbers": numbers, "word": words, "code": codes}, signal


def problem(target: Target) -> Problem:
    inputs = (
        Input(name="numbers", kind="number", shape=(3,), has_missing=True),
        Input(name="word", kind="category", dtype="string", values=["red", "green", "blue", "odd"]),
        Input(name="code", kind="category", dtype="int64", values=list(range(6))),
    )
    return Problem(Preparation(("numbers", "word", "code"), inputs=inputs), target)


@pytest.mark.parametrize("kind", ["binary", "multi_class", "multi_label", "regression"])
def test_numpy_predicts_what_scikit_learn_predicts(kind: Any, tmp_path: Path) -> None:
    arrays, signal = rows_of_a_table(800, 0)
    labels: Any = np.digitize(signal, [0.3] if kind == "binary" else [0.0, 0.9])
    target = Target(kind=kind, label="y", classes=CLASSES[: 2 if kind == "binary" else 3])
    if kind == "multi_label":
        labels = np.stack([signal > 0, signal > 1, signal > 100], axis=1).astype(np.float32)  # nobody has the last one
    if kind == "regression":
        labels, target = np.stack([signal, -signal], axis=1), Target(kind="regression", label="y", width=2)
    booster = Booster(problem(target), Options(model="trees"), records=800)
    rows = booster.begin(arrays, labels)
    booster.boost(rows, labels, None, rounds=20)
    save_trees(booster.model, tmp_path / "model.npz")
    trees = load_trees(tmp_path / "model.npz")

    fresh, _ = rows_of_a_table(500, 1)
    fresh["word"][:5], fresh["code"][5:10] = b"never seen", 77
    scores = trees(fresh)
    table = table_rows(trees.inputs, fresh)
    assert np.isnan(table).any()
    for number, (estimator, known) in enumerate(booster.fitted):
        if estimator is None:
            assert (scores[:, number] == -30).all()
            continue
        theirs = estimator.decision_function(table) if known else estimator.predict(table)
        ours = scores if target.is_classes else scores[:, number]
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=1e-5, atol=1e-5)


def test_a_class_that_train_lacks_is_never_predicted() -> None:
    arrays, signal = rows_of_a_table(200, 0)
    labels = np.where(signal > 0.5, 2, 0)
    booster = Booster(
        problem(Target(kind="multi_class", label="y", classes=CLASSES)), Options(model="trees"), records=200
    )
    booster.boost(booster.begin(arrays, labels), labels, None, rounds=10)
    answers = booster.predictor.ask(arrays)
    assert (answers[:, 1] < 1e-6).all()
    assert ((answers.argmax(axis=1) == labels).mean()) > 0.9


def test_a_small_table_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier as Boosting
    from threadpoolctl import threadpool_info

    seen: list[int] = []
    fit = Boosting.fit

    def watched(self: Any, *given: Any, **more: Any) -> Any:
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return fit(self, *given, **more)

    monkeypatch.setattr(Boosting, "fit", watched)
    arrays, signal = rows_of_a_table(200, 0)
    target = Target(kind="binary", label="y", classes=CLASSES[:2])
    booster = Booster(problem(target), Options(model="trees"), records=200)
    labels = (signal > 0.3).astype(int)
    booster.boost(booster.begin(arrays, labels), labels, None, rounds=2)
    assert set(seen) == {1}


def test_rows_are_sorted_into_bins_once_and_the_trees_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper as Bins

    seen: list[int] = []
    fit = Bins.fit

    def watched(self: Any, *given: Any, **more: Any) -> Any:
        seen.append(len(given[0]))
        return fit(self, *given, **more)

    monkeypatch.setattr(Bins, "fit", watched)
    arrays, signal = rows_of_a_table(400, 0)
    labels, weights = (signal > 0.3).astype(int), np.linspace(0.5, 2, 400)
    made = []
    for steps in ([6], [2, 4, 6]):
        target = Target(kind="binary", label="y", classes=CLASSES[:2])
        booster = Booster(problem(target), Options(model="trees"), records=400)
        rows = booster.begin(arrays, labels)
        for rounds in steps:
            booster.boost(rows, labels, weights, rounds=rounds)
        made.append(booster.model.forest)
    assert seen == [400, 400]
    for name in ("feature", "threshold", "value", "level_sets"):
        np.testing.assert_array_equal(getattr(made[0], name), getattr(made[1], name))


def test_trees_learn_a_table_with_default_options(table: Path, tmp_path: Path) -> None:
    trained = train(table, Options(model="trees"), out=tmp_path / "run")
    assert trained.verdict.learned, trained.verdict.summary
    assert trained.metrics["val"]["accuracy"] > 0.9
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"model.npz", "contract.json", "report.html", "metrics.json", "history.csv", "run.json"} <= files
    assert not files & {"model.keras", "logs"}
    assert "boosting with a rate of 0.05" in (tmp_path / "run" / "report.html").read_text()
    assert trained.history[-1]["step"] == 10 * len(trained.history)

    again = bushel.evaluate(tmp_path / "run", table, split="val")
    assert again.metrics == pytest.approx(trained.metrics["val"])
    answers = list(bushel.predict(tmp_path / "run", table, split="val"))
    labels = [bushel.open(table)["val"][i]["label"] for i in range(len(answers))]
    names = bushel.read_manifest(table).label.names  # type: ignore[union-attr]
    hits = [answer.label == names[int(label)] for answer, label in zip(answers, labels, strict=True)]
    assert np.mean(hits) == pytest.approx(trained.metrics["val"]["accuracy"])
    assert contract.verify(tmp_path / "run", model=tmp_path / "run" / "model.npz") == []


def test_the_same_trees_grow_from_the_same_seed(table: Path, tmp_path: Path) -> None:
    for name in "ab":
        train(table, Options(model="trees", epochs=2, preflight=False), out=tmp_path / name)
    assert (tmp_path / "a" / "model.npz").read_bytes() == (tmp_path / "b" / "model.npz").read_bytes()


def test_trees_need_no_tensorflow(table: Path, tmp_path: Path) -> None:
    code = (
        "import sys, bushel\n"
        "from bushel.training import Options\n"
        f"bushel.train({str(table)!r}, Options(model='trees', epochs=1), out={str(tmp_path / 'run')!r})\n"
        f"assert list(bushel.predict({str(tmp_path / 'run')!r}, {str(table)!r}, split='val'))\n"
        "print([name for name in ('tensorflow', 'keras') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_numbers_and_uneven_classes_are_learned(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(900, 3))
    rows = [{"x": row.astype(np.float32), "y": float(row[0] * 3 + row[1] ** 2)} for row in x]
    bushel.build(iter(rows), tmp_path / "numbers", split="80/20", label="y")
    quick = Options(model="trees", preflight=False)
    trained = train(tmp_path / "numbers", quick, out=tmp_path / "a")
    assert trained.metrics["val"]["r2"] > 0.9

    rare = [{"x": row.astype(np.float32), "label": "rare" if row[0] > 1.6 else "usual"} for row in x]
    bushel.build(iter(rare), tmp_path / "rare", split="70/30")
    trained = train(tmp_path / "rare", quick, out=tmp_path / "b")
    assert trained.verdict.metric == "balanced_accuracy"
    assert trained.metrics["val"]["balanced_accuracy"] > 0.85


def test_labels_without_a_signal_are_not_learned(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = [{"x": generator.normal(size=4).astype(np.float32), "label": int(generator.integers(2))} for _ in range(400)]
    bushel.build(iter(rows), tmp_path / "data", split="70/30")
    assert not train(tmp_path / "data", Options(model="trees", epochs=8), out=tmp_path / "run").verdict.learned


def one_line_refusal(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["train", *arguments])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output


def test_images_and_texts_are_refused(digits: Path, tmp_path: Path) -> None:
    said = one_line_refusal(str(digits), "--model", "trees", "--out", str(tmp_path / "run"))
    assert "trees are for tables, and this is fed as image - at image" in said
    assert not (tmp_path / "run").exists()
    rows = [{"text": f"the {w} cat number {i} sat", "label": i % 2} for i in range(60) for w in ("big", "old")]
    bushel.build(iter(rows), tmp_path / "texts", split="80/20")
    said = one_line_refusal(str(tmp_path / "texts"), "--model", "trees", "--out", str(tmp_path / "run"))
    assert "trees are for tables, and this is fed as text - at text" in said


def test_columns_that_trees_do_not_take_are_left_out_with_a_note_unless_they_are_named(tmp_path: Path) -> None:
    rows = [
        {"text": f"the cat number {i} sat", "ticket": f"PC{i}", "size": i % 7 / 3, "label": int(i % 7 > 3)}
        for i in range(120)
    ]
    bushel.build(iter(rows), tmp_path / "data", split="80/20")
    given = ["train", str(tmp_path / "data"), "--model", "trees", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, done.output
    assert "'text' is left out: trees do not take text" in done.output
    assert re.search(
        r"note: 'ticket' is left out: (\d+) of \1 values are different, as with names and ids", done.output
    )
    said = one_line_refusal(*given[1:-1], str(tmp_path / "other"), "--columns", "text,size")
    assert "trees are for tables, and this is fed as text - at text" in said


def test_options_of_networks_are_refused(table: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run")]
    said = one_line_refusal(str(table), "--model", "trees", "--augment", "jitter", *out)
    assert "augment must be left out for trees, got 'jitter'" in said
    said = one_line_refusal(str(table), "--model", "trees", "--loss", "hinge", *out)
    assert "loss must be one of mean_squared_error, mean_absolute_error for trees that predict numbers" in said


def test_without_scikit_learn_the_command_to_install_it_is_named(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    said = one_line_refusal(str(table), "--model", "trees", "--out", str(tmp_path / "run"))
    assert '--model trees needs scikit-learn: pip install "bushel[trees]"' in said


def test_trees_that_are_resumed_are_those_of_one_longer_run(table: Path, tmp_path: Path) -> None:
    train(table, Options(model="trees", epochs=1, preflight=False), out=tmp_path / "run")
    longer = Options(model="trees", epochs=3, preflight=False)
    train(table, longer, out=tmp_path / "run", resume=True)
    train(table, longer, out=tmp_path / "once")
    first, second = (np.load(tmp_path / name / "model.npz") for name in ("run", "once"))
    assert sorted(first.files) == sorted(second.files)
    assert all(np.array_equal(first[name], second[name]) for name in first.files)
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [row["epoch"] for row in history] == [1, 2, 3]
