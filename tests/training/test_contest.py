"""The default model of a table is the best of a network, a linear model and trees on the validation split."""

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli import cli
from bushel.training import Options
from bushel.training.contest import beats
from bushel.training.run import Listener
from bushel.training.verdict.metrics import Interval


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
    assert said.startswith("the model is trees, by accuracy on ")
    assert "--model network" in said
    assert trained.metrics["test"]["accuracy"] > 0.8
    assert (tmp_path / "run" / "model.npz").is_file()
    assert not (tmp_path / "run" / "model.keras").exists()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["model"] == "trees"
    assert said in json.loads((tmp_path / "run" / "metrics.json").read_text())["notes"]
    report = (tmp_path / "run" / "report.html").read_text()
    assert "the model is trees" in report
    assert "Models compared" in report
    compared = json.loads((tmp_path / "run" / "metrics.json").read_text())["candidates"]
    assert compared["chosen"] == "trees"
    assert {"network", "trees"} <= set(compared["scores"])
    done = CliRunner().invoke(cli, ["predict", str(tmp_path / "run"), str(data), "--split", "test"])
    assert done.exit_code == 0, done.output


def test_a_linear_model_is_chosen_where_it_is_better(tmp_path: Path) -> None:
    data = build(tmp_path / "data", plane())
    trained, notes = notes_of(data, tmp_path / "run", Options())
    said = next(note for note in notes if note.startswith("the model is"))
    assert said.startswith("the model is linear, by mean absolute error on ")
    own, _ = notes_of(data, tmp_path / "linear", Options(model="linear"))
    assert own.metrics["val"] == trained.metrics["val"]
    assert (tmp_path / "run" / "model.keras").is_file()
    assert "a linear model" not in trained.verdict.summary
    before = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [row["penalty"] for row in before[:3]] == [1.0, 0.1, 0.01]
    done = CliRunner().invoke(cli, ["train", "--resume", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "run" / "history.json").read_text()) == before


def test_texts_of_any_script_get_the_terms_that_tell_them_apart(tmp_path: Path) -> None:
    """Words that never come again are told apart by what they end with, and Chinese has no spaces."""
    generator = np.random.default_rng(0)
    label = np.arange(300) % 2
    stems = ["".join(generator.choice(list("abcdefgh"), 6)) for _ in range(300)]
    ends = {"latin": (["ing", "ed"], " and "), "chinese": (["我们", "你好"], "的")}
    for script, (endings, joined) in ends.items():
        letters = dict(zip("abcdefgh", "天地人山水火木金", strict=True)) if script == "chinese" else {}
        made = ["".join(letters.get(letter, letter) for letter in stem) for stem in stems]
        texts = [f"{a}{joined}{b}{endings[y]}" for a, b, y in zip(made, made[1:] + made[:1], label, strict=True)]
        data = build(tmp_path / script / "data", {"text": texts, "label": label})
        trained, _ = notes_of(data, tmp_path / script / "run", Options(model="linear"))
        assert trained.metrics["test"]["accuracy"] > 0.95, script
        found = next(bushel.predict(tmp_path / script / "run", data, split="test"))
        assert found.probability is not None
        assert found.probability > 0.5


def test_a_small_val_split_leaves_the_choice_to_records_of_train(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    values = generator.normal(size=(120, 3))
    label = (values[:, 0] + generator.normal(size=120) > 0).astype(int)
    data = build(tmp_path / "data", {f"x{at}": values[:, at] for at in range(3)} | {"label": label})
    trained, notes = notes_of(data, tmp_path / "run", Options())
    said = next(note for note in notes if note.startswith("the model is"))
    assert "on 72 records of train, cross-validated: " in said
    again, _ = notes_of(data, tmp_path / "again", Options())
    assert again.metrics == trained.metrics


def test_without_scikit_learn_the_choice_is_among_the_others_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "sklearn" else there(name, *more)
    )
    trained, notes = notes_of(build(tmp_path / "data", plane(80)), tmp_path / "run", Options())
    assert 'trees were not tried, because scikit-learn is missing: pip install "bushel[trees]"' in notes
    assert trained.verdict.learned
    compared = json.loads((tmp_path / "run" / "metrics.json").read_text())["candidates"]
    assert "trees" not in compared["scores"]


def picture(seed: int) -> bytes:
    data = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (16, 16, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


def test_boxes_and_masks_are_refused_in_one_line_and_never_taken_for_several_labels(tmp_path: Path) -> None:
    sides = ("xmin", "ymin", "xmax", "ymax")
    boxed: list[dict[str, Any]] = [
        {"image": picture(at), "class": np.arange(1 + at % 2)}
        | {f"bbox/{side}": np.full(1 + at % 2, 0.1 + number / 5, np.float32) for number, side in enumerate(sides)}
        for at in range(12)
    ]
    masked: list[dict[str, Any]] = [{"image": picture(at), "mask": picture(at + 50)} for at in range(12)]
    cases = {"class": (boxed, "bushel has no detector"), "mask": (masked, "bushel has no model for segmentation")}
    for label, (rows, words) in cases.items():
        bushel.build(iter(rows), tmp_path / label, split="70/30")
        done = CliRunner().invoke(
            cli, ["train", str(tmp_path / label), "--label", label, "--out", str(tmp_path / "run")]
        )
        assert done.exit_code == 2, done.output
        assert words in done.output
        assert "bushel.torch.loader" in done.output
        assert "multi-label" not in done.output


OF_NETWORKS = [Options(epochs=1), Options(model="network", epochs=1), Options(optimiser="sgd", epochs=1)]


@pytest.mark.parametrize("options", OF_NETWORKS)
def test_a_user_who_says_how_a_network_is_trained_gets_a_network(tmp_path: Path, options: Options) -> None:
    _, notes = notes_of(build(tmp_path / "data", squares(100)), tmp_path / "run", options)
    assert not [note for note in notes if note.startswith("the model is")]
    assert (tmp_path / "run" / "model.keras").is_file()


def around(value: float) -> Interval:
    return Interval(value, value - 0.04, value + 0.04)


def test_a_tie_goes_to_the_first() -> None:
    assert not beats(around(0.90), around(0.90))
    assert not beats(around(0.902), around(0.90))
    assert beats(around(0.95), around(0.90))
    assert not beats(around(0.95), around(0.90), is_more_better=False)
    assert beats(around(0.5), around(float("nan")))
    assert not beats(around(float("nan")), around(0.5))
