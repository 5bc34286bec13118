"""One account of what a model is fed: raw samples, records and predictions go through the same steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import contract
from bushel import transforms as t
from bushel.training import Options, train

keras = pytest.importorskip("keras")
datasets = pytest.importorskip("sklearn.datasets")

COLUMNS = ("alcohol", "magnesium", "flavanoids", "proline", "hue")  # of very different sizes


def wines() -> tuple[list[dict[str, Any]], list[int]]:
    found = datasets.load_wine()
    places = [found.feature_names.index(name) for name in COLUMNS]
    rows = [dict(zip(COLUMNS, row[places].tolist(), strict=True)) for row in found.data]
    return rows, found.target.tolist()


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scikit-learn's wines as a table, its dataset, whose build standardises the columns, and a run on it."""
    folder = tmp_path_factory.mktemp("wine")
    rows, kinds = wines()
    lines = [",".join(map(str, [*row.values(), kind])) for row, kind in zip(rows, kinds, strict=True)]
    (folder / "wine.csv").write_text("\n".join([",".join([*COLUMNS, "kind"]), *lines]))
    steps = [t.standardise(name) for name in COLUMNS]
    bushel.build(folder / "wine.csv", folder / "data", transforms=steps, label="kind")
    train(folder / "data", Options(epochs=20, batch_size=8, tensorboard=False), out=folder / "run")
    return folder


def test_raw_rows_are_prepared_as_predict_prepares_them(wine: Path) -> None:
    rows, kinds = wines()
    run = contract.read(wine / "run")
    model = keras.models.load_model(wine / "run" / "model.keras")
    outputs = np.asarray(model(contract.arrange(run, contract.prepare(run, rows)), training=False))
    predicted = list(bushel.predict(wine / "run", wine / "wine.csv"))
    assert [str(code) for code in outputs.argmax(axis=1)] == [prediction.label for prediction in predicted]
    assert (outputs.argmax(axis=1) == kinds).mean() > 0.9


def test_records_went_through_the_transforms_of_the_build_already(wine: Path) -> None:
    run = contract.read(wine / "run")
    train_split = bushel.open(wine / "data")["train"]
    prepared = contract.prepare(run, [train_split[row] for row in range(len(train_split))], built=True)
    of_raw = contract.prepare(run, wines()[0])
    for name in COLUMNS:
        assert set(prepared[name].tolist()) <= set(of_raw[name].tolist())
