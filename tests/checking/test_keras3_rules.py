"""KER: what Keras 3 removed or moved is found by reading the script."""

from pathlib import Path

import pytest

import bushel

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
