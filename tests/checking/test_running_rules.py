"""Rules about what a run wrote down: what belongs to one training is compared, and each fault is found."""

from pathlib import Path
from typing import Any

import pytest

import bushel
from bushel.checking.collect.facts import Data
from bushel.checking.collect.one_pass import list_data
from bushel.checking.findings import find_rule
from bushel.checking.rules.keras_expectations import Pair, metric_misfit, misfits
from bushel.checking.running import Execution
from bushel.checking.script.followed_script import read_script


def seen(folder: Path, *events: dict[str, Any], text: str = "model.fit(train, validation_data=val)\n") -> Execution:
    script = folder / "train.py"
    script.write_text(text)
    return Execution(read_script(script), folder, folder, script, list(events))


def look(high: float, **facts: Any) -> dict[str, Any]:
    image = {"shape": [8, 4], "min": 0.0, "max": high, "mean": high / 2, "std": high / 3}
    return {"inputs": {"": image}, "labels": {}, "batches": 4, "records": 32, "complete": True, **facts}


def fit(number: int, train: dict[str, Any], val: dict[str, Any] | None, **model: Any) -> dict[str, Any]:
    arguments = {"callbacks": [], "steps_per_epoch": None, "validation_steps": None, "epochs": 1}
    known = {"number": number, "layers": [], "weights": 2, "trainable": 2, "trainable_parameters": 100, **model}
    return {"kind": "fit", "train": train, "val": val, "same": False, "model": known, "arguments": arguments,
            "place": None}  # fmt: skip


def evaluate(number: int, data: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "evaluate", "model": number, "data": data, "place": None}


def found(rule: str, run: Execution) -> list[str]:
    return [finding.message for finding in find_rule(rule).run(run)]


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([fit(1, look(1), look(1)), fit(2, look(255), look(255))], 0),  # two models, each prepared in its own way
        ([fit(1, look(1), look(255))], 1),
        ([fit(1, look(1), None), fit(2, look(255), None), evaluate(2, look(255))], 0),
        ([fit(1, look(1), None), fit(2, look(255), None), evaluate(1, look(255))], 1),
        ([fit(1, look(255), None), fit(1, look(1), None), evaluate(1, look(1))], 0),  # the last stage counts
        ([fit(1, look(1), None), evaluate(2, look(255))], 0),
    ],
)
def test_data_is_compared_within_one_training(events: list[dict[str, Any]], count: int, tmp_path: Path) -> None:
    assert len(found("EXE060", seen(tmp_path, *events))) == count


def test_a_temperature_has_no_classes_to_forget(tmp_path: Path) -> None:
    sorted_by_class = look(1, classes_per_batch=[1, 1, 1, 1], label_counts={"0": 16, "1": 16}, sizes={"8": 4})
    assert found("EXE020", seen(tmp_path, fit(1, sorted_by_class, None)))
    assert not found("EXE020", seen(tmp_path, fit(1, sorted_by_class, None, trainable_parameters=1)))


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("model.fit(train)\n", [{"kind": "called_again", "place": None}]),
        ("model.fit(train)\n", [{"kind": "predict", "place": ["train.py", 2, ""], "model": 1}] * 3),
        ("# Monte Carlo dropout\nmodel.fit(train)\n", []),
    ],
)
def test_a_model_that_answers_again_and_again_draws_on_purpose(
    text: str, events: list[dict[str, Any]], tmp_path: Path
) -> None:
    call = {"kind": "call", "place": None, "random_layers": ["Dropout"], "tape": False, "training": True}
    (plain,) = find_rule("EXE051").run(seen(tmp_path, call))
    assert plain.severity == "warning"
    (meant,) = find_rule("EXE051").run(seen(tmp_path, call, *events, text=text))
    assert meant.severity == "info"


def test_a_writer_that_stays_open_is_reported_once_for_its_line(tmp_path: Path) -> None:
    left = {"kind": "left_open", "path": "a.tfrecord", "records": 3, "place": [str(tmp_path / "train.py"), 1, ""]}
    assert found("EXE017", seen(tmp_path, left, left)) == ["'a.tfrecord' is never closed: 3 records were written to it"]


def test_records_that_an_earlier_fit_trained_on_are_no_measure(tmp_path: Path) -> None:
    first, second = fit(1, look(1), look(1)), fit(1, look(1), look(1))
    assert not found("EXE026", seen(tmp_path, first, second | {"before": [2, 100]}))
    (message,) = found("EXE026", seen(tmp_path, first, second | {"before": [90, 100]}))
    assert message.startswith("90 of 100 records that the model is measured on were trained on by an earlier fit")


OVERLAP = {"val": 100, "train": 400, "shared": 0, "windows": 0}
ROWS = {"": {"shape": [8, 4], "min": 0.0, "max": 1.0, "std": 0.3, "integers": False}}


@pytest.mark.parametrize(
    ("overlap", "distinct", "words"),
    [
        ({"windows": 2}, 32, None),  # of two parts of one series, those at the border
        ({"windows": 90}, 32, "windows of validation overlap"),
        ({"shared": 10}, 32, None),
        ({"shared": 10}, 20, "repeated before they were split"),
    ],
)
def test_windows_and_copies_on_both_sides_of_a_split(
    overlap: dict[str, int], distinct: int, words: str | None, tmp_path: Path
) -> None:
    train = look(1, distinct=distinct, inputs=ROWS)
    messages = found("EXE026", seen(tmp_path, fit(1, train, look(1)) | {"overlap": OVERLAP | overlap}))
    assert [words in message for message in messages] == [True] if words else messages == []


def test_tables_that_are_standardised_apart(tmp_path: Path) -> None:
    one, other = look(1, standard=True, records=1000), look(1, standard=True, records=200)
    assert found("EXE060", seen(tmp_path, fit(1, one, other)))
    assert not found("EXE060", seen(tmp_path, fit(1, one, other | {"standard": False})))


def test_a_loss_that_is_larger_for_right_answers(tmp_path: Path) -> None:
    event, outputs = fit(1, look(1), None, last={"activation": "sigmoid"}), {"shape": [8, 1]}
    assert found("EXE047", seen(tmp_path, event | {"probe": {"judged": [0.9, 0.1], "outputs": outputs}}))
    assert not found("EXE047", seen(tmp_path, event | {"probe": {"judged": [0.1, 0.9], "outputs": outputs}}))
    distance = fit(1, look(1), None, last={"activation": None})
    assert not found("EXE047", seen(tmp_path, distance | {"probe": {"judged": [0.9, 0.1], "outputs": outputs}}))


@pytest.mark.parametrize(
    ("loss", "activation", "low", "high", "fits"),
    [
        ("mean_squared_error", "sigmoid", -1.0, 1.0, False),
        ("mean_squared_error", "tanh", -1.0, 1.0, True),
        ("mean_absolute_error", "sigmoid", 3.0, 61.0, False),
        ("mean_squared_error", "none", 3.0, 61.0, True),
        ("binary_crossentropy", "sigmoid", 0.0, 1.0, True),
        ("binary_crossentropy", "sigmoid", 0.0, 255.0, False),
    ],
)
def test_targets_outside_of_what_the_last_layer_can_give(
    loss: str, activation: str, low: float, high: float, fits: bool
) -> None:
    pair = Pair(loss, False, activation, 4, "amounts", low, high)
    assert (list(misfits(pair)) == []) is fits


@pytest.mark.parametrize(
    ("pair", "help"),
    [
        (Pair("mean_squared_error", False, "softmax", 1, "amounts", 3.0, 61.0), "use no activation"),
        (Pair("binary_crossentropy", False, "softmax", 1, "numbers", 0, 1), "use sigmoid"),
        (Pair("sparse_categorical_crossentropy", False, "none", 1, "amounts", 0.1, 9.5), "use mean_squared_error"),
        (Pair("categorical_crossentropy", False, "softmax", 10, "one_hot", depth=10, empty=0.1), "number the classes"),
        (Pair("categorical_crossentropy", False, "softmax", 10, "rows", depth=10), "use sigmoid and binary"),
    ],
)
def test_help_fits_what_the_labels_are(pair: Pair, help: str) -> None:
    assert any(misfit.help.startswith(help) for misfit in misfits(pair))


@pytest.mark.parametrize(
    ("name", "pair", "help"),
    [
        ("accuracy", Pair("mean_squared_error", activation="none", units=1, labels="amounts"), 'use metrics=["mae"]'),
        ("accuracy", Pair("", activation="none", units=5, labels="rows"), "use BinaryAccuracy"),
        ("CategoricalAccuracy", Pair("", activation="softmax", units=5, labels="numbers"), "use SparseCategorical"),
        ("Accuracy", Pair("", activation="softmax", units=5, labels="numbers"), 'use metrics=["accuracy"]'),
    ],
)
def test_the_metric_that_is_advised_is_another_one(name: str, pair: Pair, help: str) -> None:
    found = metric_misfit(name, pair)
    assert found is not None
    assert found.help.startswith(help)


@pytest.mark.parametrize(
    ("name", "low", "high", "fits"),
    [
        ("MobileNetV2", -1, 1, True),
        ("MobileNetV2", -124, 151, False),
        ("VGG16", 0, 1, False),
        ("VGG16", -124, 151, True),
    ],
)
def test_images_in_the_range_of_another_network(name: str, low: float, high: float, fits: bool, tmp_path: Path) -> None:
    image = {"shape": [8, 64, 64, 3], "min": low, "max": high}
    frozen = {"class": "Functional", "name": name.lower(), "is_model": True, "trainable": False, "weights": 9,
              "builtin": True}  # fmt: skip
    event = fit(1, look(1, inputs={"": image}), None, name="sequential", layers=[frozen])
    weights = {"kind": "weights", "name": name, "place": None}
    assert (found("EXE030", seen(tmp_path, weights, event)) == []) is fits


def test_a_schedule_that_multiplies_what_it_has_multiplied(tmp_path: Path) -> None:
    def scheduled(rates: list[float]) -> list[str]:
        event = fit(1, look(1), None, optimizer={"class": "Adam", "rate": 1e-3, "place": ["train.py", 1, ""]})
        event["arguments"]["callbacks"] = [{"class": "LearningRateScheduler", "place": None, "rates": rates}]
        return found("EXE038", seen(tmp_path, event))

    assert not scheduled([1e-3 * 0.9**epoch for epoch in range(20)])
    assert scheduled([1e-3 * 0.1 ** (epoch * (epoch + 1) // 2) for epoch in range(20)])


PLACE = ["train.py", 1, ""]


@pytest.mark.parametrize(
    ("rule", "event"),
    [
        ("EXE046", {"kind": "link", "id": 1, "name": "map", "place": PLACE, "wraps": [PLACE], "inputs": []}),
        ("EXE048", {"kind": "of_one", "name": "softmax", "axis": -1, "place": PLACE}),
        ("EXE054", {"kind": "never_cleared", "place": PLACE}),
        ("EXE055", {"kind": "not_scaled", "place": PLACE}),
    ],
)
def test_what_is_written_down_once_is_reported_once(rule: str, event: dict[str, Any], tmp_path: Path) -> None:
    assert found(rule, seen(tmp_path)) == []
    assert len(found(rule, seen(tmp_path, event, event))) == 1


def test_layers_that_no_model_uses_are_reported_of_whole_runs(tmp_path: Path) -> None:
    event, end = {"kind": "unused_layer", "place": PLACE}, {"kind": "end"}
    assert found("EXE053", seen(tmp_path, event)) == []
    assert len(found("EXE053", seen(tmp_path, event, end))) == 1


def test_a_model_that_is_compiled_before_every_fit(tmp_path: Path) -> None:
    first, again = fit(1, look(1), None), fit(1, look(1), None) | {"compiled": True}
    assert len(found("EXE067", seen(tmp_path, first, again))) == 1
    slower = fit(1, look(1), None, optimizer={"rate": 1e-5}) | {"compiled": True}
    assert found("EXE067", seen(tmp_path, first, slower)) == []


def test_a_metric_that_goes_on_from_training_to_validation(tmp_path: Path) -> None:
    metric = {"class": "Mean", "place": None, "updates": 4, "resets": 1, "results": [], "mixed_at": PLACE}
    assert len(found("EXE052", seen(tmp_path, {"kind": "metrics", "metrics": [metric]}))) == 1
    assert found("EXE052", seen(tmp_path, {"kind": "metrics", "metrics": [metric | {"mixed_at": None}]})) == []


def test_outputs_that_depend_on_the_other_records_of_a_batch(tmp_path: Path) -> None:
    event = fit(1, look(1), None)
    assert found("EXE049", seen(tmp_path, event | {"probe": {"outputs": {"mixes": True}}}))
    assert not found("EXE049", seen(tmp_path, event | {"probe": {"outputs": {"mixes": False}}}))


@pytest.mark.parametrize(("spread", "count"), [(0.9, 1), (40.0, 0)])
def test_images_that_are_moved_farther_than_they_differ(spread: float, count: int, tmp_path: Path) -> None:
    link = {"kind": "link", "id": 1, "name": "map", "place": PLACE, "function": None, "random": "each time"}
    image = {"shape": [8, 32, 32, 3], "min": -60.0, "max": 62.0, "spread": spread}
    event = fit(1, look(1, inputs={"": image}, chain=[1]), None, name="net")
    assert len(found("EXE030", seen(tmp_path, link, event))) == count


@pytest.mark.parametrize(("name", "count"), [("val.tfrecord", 1), ("train.tfrecord", 0)])
def test_training_that_reads_the_files_of_validation(name: str, count: int, tmp_path: Path) -> None:
    for split in ("train", "val"):
        with bushel.Writer(tmp_path / f"{split}.tfrecord") as writer:
            writer.write({"x": 1.0})
    files, _, _ = list_data([tmp_path], [])
    link = {"kind": "link", "id": 1, "name": "TFRecordDataset", "place": PLACE, "callers": [], "random": None,
            "files": [str(tmp_path / name)], "function": None, "inputs": []}  # fmt: skip
    run = seen(tmp_path, link, fit(1, look(1, chain=[1]), None))
    run.data = Data(files, {}, {})
    assert len(found("EXE026", run)) == count


def test_what_was_frozen_after_compile_is_reported_where_it_was_frozen(tmp_path: Path) -> None:
    event = fit(1, look(1), None) | {"unfrozen": [2, 4], "changed_at": [str(tmp_path / "train.py"), 1, ""]}
    (finding,) = find_rule("EXE063").run(seen(tmp_path, event))
    assert [place.line for place in finding.locations] == [1]


def test_pixels_on_both_sides_of_0_and_on_one(tmp_path: Path) -> None:
    def pixels(low: float, high: float, mean: float) -> dict[str, Any]:
        return look(1, inputs={"": {"shape": [8, 32, 32, 3], "min": low, "max": high, "mean": mean, "std": 0.4}})

    standard, unit, noisy = pixels(-2.1, 3.0, 0.0), pixels(0.0, 1.0, 0.4), pixels(-0.2, 1.2, 0.4)
    assert found("EXE060", seen(tmp_path, fit(1, standard, unit)))
    assert not found("EXE060", seen(tmp_path, fit(1, standard, standard), fit(2, noisy, unit)))
