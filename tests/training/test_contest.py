"""The default model of a table is the best of a network, a linear model and trees on the validation split."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel.cli import cli
from bushel.training import Options
from bushel.training.contest import Score, beats
from bushel.training.run import Listener


def build(folder: Path, columns: dict[str, Any]) -> Path:
    rows = len(columns["label"])
    part = np.where(np.arange(rows) % 5 < 3, "train", np.where(np.arange(rows) % 5 == 3, "val", "test"))
    bushel.build({**columns, "part": part}, folder, label="label", split="part")
    return folder


def squares(rows: int = 700) -> dict[str, Any]:
    """Classes that alternate like the fields of a chess board: trees find them, a linear model does not."""
    places = np.random.default_rng(0).uniform(0, 3, (rows, 2))
    return {"x": places[:, 0], "y": places[:, 1], "label": (places.astype(int).sum(axis=1) % 2).astype(int)}


def plane(rows: int = 150) -> dict[str, Any]:
    """A target that is linear in many noisy columns, for few rows."""
    generator = np.random.default_rng(1)
    values = generator.normal(size=(rows, 12))
    return {f"x{at}": values[:, at] for at in range(12)} | {
        "label": values @ np.arange(12.0) + generator.normal(size=rows)
    }


def notes_of(data: Path, out: Path, options: Options) -> tuple[Any, list[str]]:
    notes: list[str] = []
    return bushel.train(data, options, out=out, listener=Listener(note=notes.append)), notes


def test_trees_are_chosen_where_they_are_better_and_work_like_any_model(tmp_path: Path) -> None:
    data = build(tmp_path / "data", squares())
    trained, notes = notes_of(data, tmp_path / "run", Options())
    said = next(note for note in notes if note.startswith("the model is"))
    assert said.startswith("the model is trees, by accuracy on val: network ")
    assert "--model network or --model linear overrules this" in said
    assert trained.metrics["test"]["accuracy"] > 0.8
    assert (tmp_path / "run" / "model.npz").is_file()
    assert not (tmp_path / "run" / "model.keras").exists()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["model"] == "trees"
    assert said in json.loads((tmp_path / "run" / "metrics.json").read_text())["notes"]
    assert "the model is trees" in (tmp_path / "run" / "report.html").read_text()
    done = CliRunner().invoke(cli, ["predict", str(tmp_path / "run"), str(data), "--split", "test"])
    assert done.exit_code == 0, done.output


def test_a_linear_model_is_chosen_where_it_is_better(tmp_path: Path) -> None:
    data = build(tmp_path / "data", plane())
    trained, notes = notes_of(data, tmp_path / "run", Options())
    said = next(note for note in notes if note.startswith("the model is"))
    assert not said.startswith("the model is trees")
    own, _ = notes_of(data, tmp_path / "linear", Options(model="linear"))
    assert own.metrics["val"]["mae"] >= trained.metrics["val"]["mae"] - 1e-6
    assert (tmp_path / "run" / "model.keras").is_file()


OF_NETWORKS = [Options(epochs=1), Options(model="network", epochs=1), Options(optimiser="sgd", epochs=1)]


@pytest.mark.parametrize("options", OF_NETWORKS)
def test_a_user_who_says_how_a_network_is_trained_gets_a_network(tmp_path: Path, options: Options) -> None:
    _, notes = notes_of(build(tmp_path / "data", squares(100)), tmp_path / "run", options)
    assert not [note for note in notes if note.startswith("the model is")]
    assert (tmp_path / "run" / "model.keras").is_file()


def test_a_linear_model_of_texts_is_refused(tmp_path: Path) -> None:
    texts = [f"word{number % 7} and some more words {number}" for number in range(60)]
    data = build(tmp_path / "data", {"text": texts, "label": np.arange(60) % 2})
    done = CliRunner().invoke(cli, ["train", str(data), "--model", "linear", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "a linear model does not take text" in done.output


def test_a_tie_goes_to_the_first() -> None:
    assert not beats(Score(0.90, 0.02), Score(0.90, 0.02))
    assert not beats(Score(0.902, 0.02), Score(0.90, 0.02))
    assert beats(Score(0.95, 0.02), Score(0.90, 0.02))
    assert beats(Score(0.5, 0.02), Score(float("nan"), 0.0))
    assert not beats(Score(float("nan"), 0.0), Score(0.5, 0.02))
