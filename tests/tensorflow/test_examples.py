"""The examples run as they stand."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("keras")

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = (
    *("keras_fit", "gradient_tape", "foreign_tfrecords", "image_classifier", "imbalanced_table", "sensor_windows"),
    *("text_classifier", "two_machines"),
)


@pytest.mark.filterwarnings("ignore:.*compressed shards cannot be read at random")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_and_reaches_what_it_promises(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name != "gradient_tape":
        pytest.importorskip("sklearn")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
