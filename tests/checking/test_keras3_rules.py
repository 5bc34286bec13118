"""KER: what Keras 3 removed or moved is found by reading the script."""

import functools
from pathlib import Path

import pytest

import bushel
from bushel.checking.script.keras_calls import REMOVED_NAMES
from bushel.checking.script_rules import keras3_rules

HEAD = "import keras\n\nmodel = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])\n"

MOVED = [
    ("KER001", "metric = keras.metrics.Mean()\nmetric.reset_states()\n", 5),
    ("KER002", 'model.compile("adam", "mse", ["mae"])\n', 4),
    ("KER003", 'model.save("saved_model")\n', 4),
    ("KER003", 'model.save_weights("checkpoint")\n', 4),
]
RIGHT = 'model.compile("adam", "mse", metrics=["mae"])\nmodel.save("model.keras")\nmodel.save_weights("a.weights.h5")\n'


@pytest.mark.parametrize(("rule", "code", "line"), MOVED)
def test_what_keras_3_no_longer_takes_is_found_at_its_line(rule: str, code: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + code)
    report = bushel.check(script=tmp_path / "train.py", select=["KER"])
    assert [(finding.rule, finding.locations[0].line) for finding in report] == [(rule, line)]


def test_what_keras_3_takes_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + RIGHT)
    assert not list(bushel.check(script=tmp_path / "train.py", select=["KER"]))


def test_what_is_said_to_be_gone_is_not_in_the_keras_that_is_installed() -> None:
    tf = pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras")
    still_in_tf_keras = {"keras.backend.set_value", "keras.backend.get_value"}
    for name in keras3_rules.NAMES.keys() - still_in_tf_keras:
        with pytest.raises(AttributeError):
            functools.reduce(getattr, name.split("."), tf)
    rooms = (keras, keras.layers, keras.utils, keras.models, keras.backend, tf.keras.preprocessing.image)
    for name in REMOVED_NAMES:
        assert not any(hasattr(room, name) for room in rooms), name
    for name in keras3_rules.METHODS:
        assert not any(hasattr(kind, name) for kind in (keras.Model, keras.Sequential, keras.metrics.Metric)), name


def test_the_generator_of_images_is_still_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from tensorflow.keras.preprocessing.image import ImageDataGenerator\n"
        "images = ImageDataGenerator(rescale=1 / 255)\n"
    )
    assert not list(bushel.check(script=tmp_path / "train.py", select=["KER", "PIP050"]))
