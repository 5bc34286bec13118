"""What is found before, while and after training, and what is said of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.checking.findings import all_rules
from bushel.checking.rules.run_rules import RunFacts
from bushel.feeding.preparation import Target
from bushel.training import Options, train
from bushel.training.predictions import Predictions
from bushel.training.verdict.intervals import score_interval
from bushel.training.verdict.metrics import METRICS, auc, bootstrap, metrics, wilson
from bushel.training.verdict.noise import estimate_noise, least_likely

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")


def found(**facts: Any) -> set[str]:
    base: dict[str, Any] = {"task": "multi_class", "label": "label", "classes": list("abcd"), "counts": [100] * 4}
    run = RunFacts(**{**base, **facts})
    return {finding.rule for rule in all_rules() if rule.subject == "run" for finding in rule.run(run)}


FALLING = [float(value) for value in np.linspace(1.4, 0.2, 60)]
SCORES: dict[str, Any] = {"constant_score": 0.25, "linear_score": 0.8, "linear_low": 0.4, "looked_at": 5}

FAILED: dict[str, Any] = {**SCORES, "is_learned": False, "score": 0.25, "gradients": {"kernel": 0.3}}
UNLIKE: dict[str, Any] = {"linear_score": 0.2, "linear_low": -0.1}  # train and the records that judge


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("RUN001", {"losses": [1.0, float("nan")]}, {"losses": [1.0, 0.9]}),
        ("RUN002", {"losses": [1.39] * 60, "guess_loss": 1.386}, {"losses": FALLING, "guess_loss": 1.386}),
        ("RUN003", {"predicted": 1, "share": 1.0}, {"predicted": 4, "share": 0.3}),
        (
            "RUN004",
            {"looked_at": 9, "constant": {"x": 9}, "spans": {"x": (1.0, 1.0)}},
            {"looked_at": 9, "constant": {"x": 1}, "spans": {"x": (0.0, 1.0)}},
        ),
        (
            "RUN005",
            {"classes_per_batch": 1.1, "batches": 20, "batch_size": 32},
            {"classes_per_batch": 3.9, "batches": 20, "batch_size": 32},
        ),
        ("RUN006", {"waiting": 0.4, "seconds": 60.0}, {"waiting": 0.4, "seconds": 1.0}),
        ("RUN007", {"counts": [400, 0, 0, 0]}, {"counts": [200, 200, 0, 0]}),
        ("RUN008", {"spans": {"x": (0.0, 0.004)}}, {"spans": {"x": (0.0, 0.004)}, "normalises": True}),
        (
            "RUN009",
            {**SCORES, "augmentation": "cutout=99", "score": 0.26, "augmented_score": 0.27},
            {**SCORES, "augmentation": "flip", "score": 0.9, "augmented_score": 0.7},
        ),
        (
            "RUN010",
            {**SCORES, "linear_low": -0.1, "linear_score": 0.26, "is_learned": False, "score": 0.2, "train_score": 0.9},
            {**SCORES, "is_learned": False, "score": 0.2, "train_score": 0.9},
        ),
        (
            "RUN010",
            {**FAILED, **UNLIKE, "train_score": 0.9},
            {**SCORES, "is_learned": False, "score": 0.2, "train_score": 0.9, "held_low": -0.1},
        ),
        ("RUN011", {**SCORES, "is_learned": False, "score": 0.25}, {**SCORES, "is_learned": True, "score": 0.9}),
        (
            "RUN012",
            {**SCORES, "is_learned": False, "score": 0.26, "train_score": 0.99},
            {**SCORES, "is_learned": False, "score": 0.26, "train_score": 0.3},
        ),
        (
            "RUN013",
            {**SCORES, "is_learned": True, "score": 0.5, "is_below_linear": True},
            {**SCORES, "is_learned": True, "score": 0.8},
        ),
        ("RUN014", {"gradients": {"kernel": None}}, {"gradients": {"kernel": 0.3}}),
        ("RUN015", {"gradients": {"kernel": 0.0, "bias": 0.2}}, {"gradients": {"kernel": 0.1, "bias": 0.0}}),
        ("RUN016", {**FAILED, "moved": 1e-6, "steps": 100}, {**FAILED, "moved": 0.2, "steps": 100}),
        ("RUN017", {**FAILED, "moved": 40.0}, {**FAILED, "moved": 0.2}),
        ("RUN018", {**FAILED, "dropout": 0.99}, {**FAILED, "dropout": 0.5}),
        ("RUN018", {**FAILED, "penalty": 1e-6, "losses": [900.0]}, {**FAILED, "penalty": 0.1, "losses": [1.5]}),
        ("RUN019", {**FAILED, "is_improving": True, "steps": 3}, {**FAILED, "is_improving": True, "steps": 3000}),
        ("RUN020", {**FAILED, **UNLIKE, "drift": 0.99}, {**FAILED, **UNLIKE, "drift": 0.55}),
        ("RUN021", {**FAILED, **UNLIKE, "held_low": 0.4}, {**FAILED, **UNLIKE, "held_low": -0.1}),
        ("RUN022", {**FAILED, "contradicting": 0.9}, {**FAILED, "contradicting": 0.01}),
        ("RUN023", {**FAILED, "records": 12}, {**FAILED, "records": 1200}),
        ("RUN024", {**FAILED, "counts": [990, 4, 3, 3], "share": 1.0}, {**FAILED, "share": 1.0}),
        (
            "RUN024",
            {**FAILED, "counts": [990, 4, 3, 3], "share": 0.6},
            {**FAILED, "counts": [990, 99, 3, 3], "share": 0.6},
        ),
        ("RUN025", {**FAILED, "cut": {"x": 0.9}}, {**FAILED, "cut": {"x": 0.1}}),
        ("RUN018", {**FAILED, "decay": 10.0}, {**FAILED, "decay": 0.004}),
        (
            "RUN026",
            {**FAILED, **UNLIKE, "train_score": 0.3, "neighbours_low": 0.3, "neighbours_score": 0.9},
            {**FAILED, **UNLIKE, "train_score": 0.95, "neighbours_low": 0.3, "neighbours_score": 0.9},
        ),
        ("RUN027", {"noise": 0.3, "noise_low": 0.25}, {"noise": 0.02, "noise_low": 0.0}),
        ("RUN028", {"alone": 0.9}, {"alone": 1e-7}),
        ("RUN029", {"reward": 1.8}, {"reward": 0.05}),
        ("RUN030", {**FAILED, "weighed": ("a", 0.999, 0.25)}, {**FAILED, "weighed": ("a", 0.3, 0.25)}),
    ],
)
def test_each_rule_about_runs_finds_its_fault_and_nothing_where_there_is_none(
    rule: str, bad: dict[str, Any], good: dict[str, Any]
) -> None:
    assert rule in found(**bad)
    assert rule not in found(**good)


def test_every_rule_about_runs_is_tested() -> None:
    mark = test_each_rule_about_runs_finds_its_fault_and_nothing_where_there_is_none.pytestmark[0]
    assert {case[0] for case in mark.args[1]} == {rule.id for rule in all_rules() if rule.subject == "run"}


def write(folder: Path, x: Any, label: Any) -> Path:
    bushel.build({"x": x.astype(np.float32), "label": label}, folder, split="70/30")
    return folder


def test_shuffled_labels_are_told_from_a_model_that_does_not_learn(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    data = write(tmp_path / "data", generator.normal(size=(400, 5)), generator.integers(0, 2, 400))
    trained = train(data, Options(epochs=6, tensorboard=False), out=tmp_path / "run")
    assert not trained.verdict.learned
    assert trained.verdict.summary.startswith("It did not learn: ")
    assert trained.verdict.causes[0]["rule"] == "RUN010"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "RUN010 labels-not-predictable" in page


def test_classes_that_are_rare_in_train_alone_are_blamed_not_the_inputs_of_the_other_split(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    label = np.concatenate([np.repeat([0, 1], [200, 4]), np.repeat([0, 1], 60)])
    x = generator.normal(size=(len(label), 4)).astype(np.float32)
    x[:, 0] += 2 * label
    part = np.repeat(["train", "val"], [204, 120])
    bushel.build({"x": x, "label": label, "part": part}, tmp_path / "data", split="part")
    options = Options(epochs=1, learning_rate=1e-5, class_weights="none", tensorboard=False)
    trained = train(tmp_path / "data", options, out=tmp_path / "run")
    causes = [cause["rule"] for cause in trained.verdict.causes]
    assert "RUN024" in causes
    assert not {"RUN020", "RUN010"} & set(causes)


def test_what_is_said_of_predictions_is_true_of_the_epoch_that_is_kept(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    data = write(tmp_path / "data", generator.normal(size=(200, 3)), generator.integers(0, 2, 200))

    def one_class_then_noise(problem: Any) -> Any:
        inputs = keras.Input(problem.input_shape)
        model = keras.Model(inputs, keras.layers.Dense(2, "softmax")(inputs))
        model.layers[-1].set_weights([np.zeros((3, 2)), np.array([0.5, 0.0])])
        rate = keras.optimizers.schedules.PiecewiseConstantDecay([5], [0.0, 500.0])  # none in the first epoch
        model.compile(keras.optimizers.SGD(rate), "sparse_categorical_crossentropy")
        return model

    options = Options(model=one_class_then_noise, epochs=2, preflight=False, tensorboard=False)
    trained = train(data, options, out=tmp_path / "run")
    (collapsed,) = [finding for finding in trained.findings if finding.rule == "RUN003"]
    assert collapsed.evidence["measured"] == 1
    assert collapsed.message.startswith("100% of the predictions are one class")


def test_a_good_start_that_training_leaves_as_it_is_was_not_learned(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    data = write(tmp_path / "data", x, (x[:, 0] > 0).astype(np.int64))

    def knows_it_already(problem: Any) -> Any:
        inputs = keras.Input(problem.input_shape)
        model = keras.Model(inputs, keras.layers.Dense(2, "softmax")(inputs))
        model.layers[-1].set_weights([np.array([[-3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]), np.zeros(2)])
        model.compile(keras.optimizers.SGD(1e-9), "sparse_categorical_crossentropy")
        return model

    trained = train(data, Options(model=knows_it_already, epochs=8, tensorboard=False), out=tmp_path / "run")
    assert trained.metrics["val"]["accuracy"] > 0.9
    assert not trained.verdict.learned
    assert trained.verdict.summary.startswith("It did not learn: accuracy ")
    assert trained.verdict.summary.endswith("; but training left the weights as they were")
    assert "RUN016" in {cause["rule"] for cause in trained.verdict.causes}


def test_predictions_that_are_not_numbers_are_no_comparison(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    bushel.build({"x": x, "label": x[:, 0]}, tmp_path / "data", split="70/30")

    def broken(problem: Any) -> Any:
        inputs = keras.Input(problem.input_shape)
        outputs = keras.layers.Dense(1)(inputs)
        return keras.Model(inputs, outputs + keras.ops.log(keras.ops.relu(outputs) * 0))

    options = Options(epochs=1, model=broken, preflight=False)
    trained = train(tmp_path / "data", options, out=tmp_path / "run")
    assert not trained.verdict.learned
    assert "because predictions are NaN" in trained.verdict.summary
    assert trained.verdict.causes[0]["rule"] == "RUN001"


def test_what_blocks_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(300, 5))
    data = write(tmp_path / "data", x, np.zeros(300, int))
    trained = train(data, Options(epochs=5), out=tmp_path / "run")
    assert trained.history == []
    assert trained.verdict.summary == "Not trained: all 200 records of train have the label '0'"
    assert trained.verdict.causes[0]["rule"] == "RUN007"
    assert not (tmp_path / "run" / "model.keras").exists()


def logits(problem: Any) -> Any:
    model = keras.Sequential([keras.Input(problem.input_shape), keras.layers.Dense(3)])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def test_a_loss_that_takes_logits_for_probabilities_blocks(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(300, 5))
    data = write(tmp_path / "data", x, np.arange(300) % 3)
    trained = train(data, Options(epochs=5, model=logits), out=tmp_path / "run")
    assert [cause["rule"] for cause in trained.verdict.causes] == ["MDL002"]
    again = train(data, Options(epochs=1, model=logits, ignore=("MDL", "TRN")), out=tmp_path / "other")
    assert len(again.history) == 1


def test_the_report_holds_all_it_shows(digits: Path, tmp_path: Path) -> None:
    train(digits, Options(epochs=2, preflight=False), out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<svg") >= 4
    assert "data:image/png;base64," in page
    for part in ("Curves", "Confusion", "Worst mistakes", "Where the time went", "a linear model"):
        assert part in page
    assert "<script" not in page
    assert "http" not in page


def test_a_finished_run_is_measured_on_other_records_as_in_training(digits: Path, tmp_path: Path) -> None:
    trained = train(digits, Options(epochs=2, preflight=False, range="-1..1"), out=tmp_path / "run")
    measured = bushel.evaluate(tmp_path / "run", digits, split="test")
    assert measured.metrics == pytest.approx(trained.metrics["test"], rel=1e-5)
    assert measured.score["low"] <= measured.score["value"] <= measured.score["high"]
    from bushel import contract

    assert contract.verify(tmp_path / "run", model=str(tmp_path / "run" / "model.keras")) == []
    assert contract.read(tmp_path / "run").classes == [str(digit) for digit in range(10)]


def test_wilson_and_auc_have_the_values_of_the_books() -> None:
    interval = wilson(8, 10)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.4902, 0.9433)
    assert auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])) == 0.75
    assert auc(np.array([0, 1]), np.array([0.5, 0.5])) == 0.5


def test_metrics_agree_with_scikit_learn() -> None:
    scores = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    labels, outputs = generator.integers(0, 7, 200), generator.dirichlet(np.ones(7), 200).astype(np.float32)
    task = Target(kind="multi_class", label="label", classes=list("abcdefg"), counts=[1] * 7)
    made = metrics(task, Predictions(labels, outputs, np.ones(200), np.arange(200)))
    said = outputs.argmax(axis=1)
    assert made["accuracy"] == pytest.approx(scores.accuracy_score(labels, said))
    assert made["balanced_accuracy"] == pytest.approx(scores.balanced_accuracy_score(labels, said))
    assert made["f1"] == pytest.approx(scores.f1_score(labels, said, average="macro"))
    assert made["top_5"] == pytest.approx(scores.top_k_accuracy_score(labels, outputs, k=5))


def test_a_bootstrap_holds_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    inside = 0
    for seed in range(60):
        hits = generator.random(200) < 0.7
        interval = bootstrap(lambda drawn, hits=hits: float(hits[drawn].mean()), 200, seed=seed, draws=200)
        inside += interval.low <= 0.7 <= interval.high
    assert inside >= 51  # 95 % of 60 are 57


def test_a_report_shows_errors_of_numbers_samples_the_model_and_the_best_epoch(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    bushel.build({"x": x, "y": x[:, 0] * 3}, tmp_path / "data", split="70/30", label="y")
    trained = train(tmp_path / "data", Options(epochs=3, preflight=False), out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    for part in (
        "predicted against true y",
        "residuals of y",
        "gradient norm by epoch",
        "learning rate by epoch",
        ">best: 3</text>",
        "Samples as they are fed",
        "parameters, ",
        "Largest errors",
    ):
        assert part in page
    assert all(row["gradient_norm"] > 0 for row in trained.history)


def test_a_report_of_two_classes_offers_thresholds_for_the_rarer_one(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    rows = [{"x": row, "label": "sick" if row[0] > 0.8 else "well"} for row in x]
    bushel.build(iter(rows), tmp_path / "data", split="70/30")
    train(tmp_path / "data", Options(epochs=2, preflight=False), out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The positive class is <strong>sick</strong>" in page
    assert "(best F1)" in page
    assert 'aria-label="ROC curve of sick: area ' in page
    assert "Calibration" in page


def test_lists_of_floats_are_several_numbers_and_each_has_its_chart(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    rows = [{"x": row, "y": row[:2] * 2} for row in x]
    bushel.build(iter(rows), tmp_path / "data", split="70/30", label="y")
    trained = train(tmp_path / "data", Options(epochs=1, preflight=False), out=tmp_path / "run")
    assert trained.verdict.metric == "mae"
    assert "residuals of y[1]" in (tmp_path / "run" / "report.html").read_text()


def test_a_run_that_preflight_stops_has_a_report_too(tmp_path: Path) -> None:
    rows = [{"x": float(i), "label": "only"} for i in range(60)]
    bushel.build(iter(rows), tmp_path / "data", split="70/30")
    trained = train(tmp_path / "data", Options(epochs=1), out=tmp_path / "run")
    assert trained.verdict.summary.startswith("Not trained")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "RUN007" in page
    assert "Samples as they are fed" in page
    assert "Curves" not in page


def test_pictures_are_shown_before_and_after_augmentation_with_texts_instead(digits: Path, tmp_path: Path) -> None:
    train(digits, Options(epochs=1, augment="cutout=3", preflight=False), out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count(', augmented">') == 8
    assert page.count(', as it is fed">') == 8
    assert 'alt=""' not in page
    assert "Most frequent confusions" in page


def chess_board(rows: int = 400) -> tuple[Any, Any]:
    x = np.random.default_rng(0).uniform(-1, 1, (rows, 2))
    return x, ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(int)


def test_a_linear_model_of_a_chess_board_is_too_weak_and_the_inputs_are_not_blamed(tmp_path: Path) -> None:
    data = write(tmp_path / "data", *chess_board())
    trained = train(data, Options(model="linear"), out=tmp_path / "run")
    causes = [cause["rule"] for cause in trained.verdict.causes]
    assert causes[0] == "RUN026"
    assert not {"TRN002", "TRN003", "RUN010"} & set(causes)


def over_the_batch() -> Any:
    outputs = keras.layers.Softmax(axis=0)(keras.layers.Dense(2)(inputs := keras.Input((2,))))
    return keras.Model(inputs, outputs)


def smoothed() -> Any:
    outputs = keras.layers.Dense(2, "softmax")(inputs := keras.Input((2,)))
    model = keras.Model(inputs, outputs)
    model.compile("adam", keras.losses.CategoricalCrossentropy(label_smoothing=0.99))
    return model


@pytest.mark.parametrize(("model", "rule"), [(over_the_batch, "RUN028"), (smoothed, "RUN029")])
def test_a_model_or_loss_that_cannot_learn_is_named_before_training(tmp_path: Path, model: Any, rule: str) -> None:
    x = np.random.default_rng(0).normal(size=(120, 2))
    data = write(tmp_path / "data", x, (x[:, 0] > 0).astype(int))
    trained = train(data, Options(model=model, epochs=1), out=tmp_path / "run")
    found_rules = [finding.rule for finding in trained.findings]
    assert found_rules[0] == rule


def test_wrong_labels_are_told_from_classes_that_overlap() -> None:
    generator = np.random.default_rng(0)
    target = Target(kind="binary", label="label", classes=["a", "b"], counts=[500, 500])
    truth = np.arange(1000) % 2
    flipped = np.where(generator.random(1000) < 0.3, 1 - truth, truth)
    sure = np.clip(0.7 + generator.normal(0, 0.05, 1000), 0.55, 0.95)
    outputs = np.stack([np.where(truth == 0, sure, 1 - sure), np.where(truth == 1, sure, 1 - sure)], axis=1)
    noisy = Predictions.of(target, flipped, outputs)
    noise = estimate_noise(noisy)
    assert noise is not None
    assert 0.2 < noise.low < 0.3 < 0.35 > noise.share
    assert (flipped != truth)[least_likely(noisy)].all()
    chance = generator.random(1000)
    overlapping = Predictions.of(
        target, (generator.random(1000) < chance).astype(int), np.stack([1 - chance, chance], 1)
    )
    assert estimate_noise(overlapping) is None
    clean = estimate_noise(Predictions.of(target, truth, outputs))
    assert clean is not None
    assert clean.share == 0


def test_an_interval_over_groups_is_wider_and_a_perfect_score_is_not_certain() -> None:
    metric = {one.name: one for one in METRICS}
    labels = np.arange(400) % 2
    right = np.repeat(np.arange(20) % 4 != 0, 20)  # whole groups are right or wrong
    outputs = np.eye(2)[np.where(right, labels, 1 - labels)]
    alone = score_interval(metric["accuracy"], labels, outputs)
    together = score_interval(metric["accuracy"], labels, outputs, groups=np.repeat(np.arange(20), 20))
    assert together.value == alone.value == 0.75
    assert together.high - together.low > 3 * (alone.high - alone.low)
    sure = np.eye(2)[labels]
    for name in ("accuracy", "balanced_accuracy", "auc"):
        found_interval = score_interval(metric[name], labels, sure)
        assert found_interval.value == 1
        assert 0.9 < found_interval.low < 1, name


def test_intervals_are_computed_over_the_groups_of_the_build(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    person = np.repeat(np.arange(30), 8)
    x = generator.normal(size=(240, 2)).astype(np.float32)
    columns = {"x": x, "person": person, "label": (x[:, 0] > 0).astype(int)}
    bushel.build(columns, tmp_path / "data", split="60/40", group="person")
    trained = train(tmp_path / "data", Options(model="trees", epochs=1), out=tmp_path / "run")
    notes = json.loads((tmp_path / "run" / "metrics.json").read_text())["notes"]
    assert [note for note in notes if "groups of 'person' (the build says so; --group none turns this off)" in note]
    assert trained.verdict.learned
