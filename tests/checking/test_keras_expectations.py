"""What losses and metrics of Keras take, against what they are given."""

import pytest

from bushel.checking.rules.keras_expectations import Pair, metric_misfit, misfits


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
