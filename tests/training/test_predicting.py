"""`bushel predict`: what a trained model says of files, prepared as in training."""

import json
import os
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from pictures import encode_image, photo

import bushel
from bushel import contract
from bushel import transforms as t
from bushel.cli import cli
from bushel.feeding.preparation import output_kind, probabilities

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, their dataset, and the run of a model of two classes: light and dark."""
    import keras

    root = tmp_path_factory.mktemp("predicting")
    for number in range(12):
        name = ("dark", "light")[number % 2]
        (root / "photos" / name).mkdir(parents=True, exist_ok=True)
        pixels = photo(number, 20, 30) // 4 + (0 if name == "dark" else 190)
        (root / "photos" / name / f"{number}.jpg").write_bytes(encode_image(pixels, "jpeg"))
    bushel.build(root / "photos", root / "data", split="80/20")
    model = keras.Sequential(
        [keras.Input((16, 16, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(2, activation="softmax")]
    )
    model.layers[-1].set_weights([np.array([[-20.0, 20.0]] * 3), np.array([30.0, -30.0])])
    transforms = (t.decode_image("image"), t.resize("image", 16, 16, dtype="float32"), t.normalise("image"))
    made = contract.make(
        bushel.open(root / "data"),
        contract.Preparation(("image",), transforms),
        outputs=lambda x: model(x, training=False),
    )
    (root / "run").mkdir()
    contract.write(made, root / "run" / "contract.json")
    model.save(root / "run" / "model.keras")
    return root


def test_every_picture_is_told_by_its_class(run: Path) -> None:
    found = list(bushel.predict(run / "run", run / "photos", batch_size=5))
    assert len(found) == 12
    assert all(prediction.label == Path(prediction.name).parent.name for prediction in found)
    assert all(sum(prediction.scores.values()) == pytest.approx(1, abs=1e-4) for prediction in found)


def test_a_raw_file_and_its_record_have_the_same_prediction(run: Path) -> None:
    val = bushel.open(run / "data")["val"]
    of_records = list(bushel.predict(run / "run", run / "data", split="val", batch_size=1))
    for row, prediction in enumerate(of_records):
        (of_file,) = bushel.predict(run / "run", run / "photos" / val[row]["key"])
        assert of_file.scores == prediction.scores


def test_outputs_of_the_golden_inputs_are_those_of_training(run: Path) -> None:
    assert contract.verify(run / "run", model=run / "run" / "model.keras") == []


def test_logits_and_probabilities_come_out_the_same() -> None:
    logits = np.array([[1.0, 2.0, -1.0], [30.0, 0.0, 0.0]])
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities("multi_class", logits, "logits"), shares, rtol=1e-5)
    np.testing.assert_allclose(probabilities("multi_class", shares, "probabilities"), shares, rtol=1e-5)
    np.testing.assert_allclose(probabilities("binary", np.array([[0.25]]), "probabilities"), [[0.75, 0.25]])
    np.testing.assert_allclose(probabilities("binary", np.array([[-2.0]]), "logits"), [[0.880797, 0.119203]], rtol=1e-5)
    np.testing.assert_allclose(probabilities("regression", np.array([[7.0]]), "numbers"), [[7.0]])


def test_outputs_of_a_model_that_does_not_say_are_told_by_their_looks() -> None:
    assert output_kind("multi_class", np.array([[0.2, 0.8], [0.5, 0.5]])) == "probabilities"
    assert output_kind("multi_class", np.array([[0.2, 0.9], [0.5, 0.5]])) == "logits"
    assert output_kind("binary", np.array([[0.2], [-0.1]])) == "logits"
    assert output_kind("regression", np.array([[0.2]])) == "numbers"


def test_a_model_of_another_number_of_classes_is_told(run: Path, tmp_path: Path) -> None:
    changed = msgspec.structs.replace(contract.read(run / "run"), classes=["a", "b", "c"])
    contract.write(changed, tmp_path / "contract.json")
    (tmp_path / "model.keras").write_bytes((run / "run" / "model.keras").read_bytes())
    with pytest.raises(bushel.SchemaMismatch, match="gives 2 numbers per sample, and the contract names 3 classes"):
        list(bushel.predict(tmp_path, run / "photos"))


def test_text_beside_numbers_is_fed_to_one_model(tmp_path: Path) -> None:
    import keras
    import tensorflow as tf

    rows = "\n".join(f"{number},{'ab'[number % 2]},{number * 0.5}" for number in range(20))
    (tmp_path / "rows.csv").write_text(f"size,kind,label\n{rows}\n")
    bushel.build(tmp_path / "rows.csv", tmp_path / "data")
    size, kind = keras.Input((), name="size"), keras.Input((), name="kind", dtype="string")
    code = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")(kind)
    number = keras.layers.Reshape((1,))(size)
    out = keras.layers.Dense(1)(keras.layers.Concatenate()([number, code]))
    model = keras.Model({"size": size, "kind": kind}, out)
    (tmp_path / "run").mkdir()
    made = contract.make(
        bushel.open(tmp_path / "data"),
        contract.Preparation(("size", "kind")),
        outputs=lambda x: model({name: tf.convert_to_tensor(part) for name, part in x.items()}),
    )
    contract.write(msgspec.structs.replace(made, task="regression"), tmp_path / "run" / "contract.json")
    model.save(tmp_path / "run" / "model.keras")
    found = list(bushel.predict(tmp_path / "run", tmp_path / "rows.csv"))
    assert len(found) == 20
    assert all(isinstance(prediction.value, float) for prediction in found)
    assert contract.verify(tmp_path / "run", model=tmp_path / "run" / "model.keras") == []
    assert {f.rule for f in bushel.check(model=tmp_path / "run" / "model.keras") if f.rule.startswith("SRV")} == set()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on images that all have one size, so that its contract holds no resize."""
    from bushel.training import Options, train

    root = tmp_path_factory.mktemp("small")
    for number in range(40):
        name = ("dark", "light")[number % 2]
        (root / "photos" / name).mkdir(parents=True, exist_ok=True)
        pixels = photo(number, 8, 8) // 4 + (0 if name == "dark" else 190)
        (root / "photos" / name / f"{number}.png").write_bytes(encode_image(pixels, "png"))
    bushel.build(root / "photos", root / "data", split="80/20")
    train(root / "data", Options(epochs=1, tensorboard=False), out=root / "run")
    return root


def test_an_image_of_another_size_is_resized_and_the_others_are_predicted_as_alone(small: Path, tmp_path: Path) -> None:
    (tmp_path / "wide.png").write_bytes(encode_image(photo(1, 12, 20), "png"))
    files = [small / "photos" / "dark" / "0.png", tmp_path / "wide.png", small / "photos" / "light" / "1.png"]
    found = list(bushel.predict(small / "run", files))
    assert [prediction.note for prediction in found] == [None, "resized to 8 x 8, the size of training", None]
    assert all(prediction.label in ("dark", "light") for prediction in found)
    (alone,) = bushel.predict(small / "run", files[0])
    assert alone.scores == pytest.approx(found[0].scores, abs=1e-5)


def test_a_missing_file_does_not_stop_the_others(run: Path) -> None:
    picture = next((run / "photos" / "light").iterdir())
    found = list(bushel.predict(run / "run", ["nowhere.jpg", picture]))
    assert [prediction.why for prediction in found] == ["there is no such file", None]
    assert found[1].label == "light"


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, ["predict", *map(str, arguments)])


def test_the_command_prints_a_line_a_file_and_says_which_it_could_not(run: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    picture = next((run / "photos" / "light").iterdir())
    done = command(run / "run", picture, tmp_path / "bad.jpg")
    assert done.stdout == f"{picture}\tlight 1.000\n"
    (why, summary) = done.stderr.splitlines()
    assert why.startswith(f"bushel: {tmp_path / 'bad.jpg'}: it is ")
    assert why.endswith(", not an image")
    assert summary == "1 of 2 could not be predicted"
    assert done.exit_code == 1
    as_json = command(run / "run", picture, "--json")
    assert json.loads(as_json.stdout)["label"] == "light"
    assert (as_json.exit_code, as_json.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "a.jpg"], "bushel: nowhere: there is no such file"),
        (["{run}/run", "nothing.jpg"], "bushel: nothing.jpg: there is no such file"),
        (["{run}/photos", "{run}/photos"], "there is no contract.json in this folder, so this is not a finished run"),
        (["{run}/run", "{run}/data"], "bushel: split must be one of train, val; got None"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_exit_2(run: Path, arguments: list[str], words: str) -> None:
    done = command(*(argument.format(run=run) for argument in arguments))
    assert done.exit_code == 2
    assert words in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("model", ["words", "tokens"])
def test_texts_without_words_are_fed_as_empty_and_leave_the_weights_finite(model: str, tmp_path: Path) -> None:
    from bushel.training import Options, train

    words = {"fruit": "apple pear plum fig", "tool": "bolt gear cog nail"}
    texts = {label: map(" ".join, permutations(known.split())) for label, known in words.items()}
    rows = [(text, label) for label in texts for text in texts[label]]
    rows = [*rows, ("***", "fruit"), ("", "tool"), ("  (o_o)  ", "fruit"), ("!?!", "tool")] * 2
    with (tmp_path / "rows.jsonl").open("w") as file:
        for at, (text, label) in enumerate(rows):
            file.write(json.dumps({"id": at, "text": text, "label": label}) + "\n")
    steps = (t.tokenise("text", size=20),) if model == "tokens" else ()
    source = bushel.sources.table(tmp_path / "rows.jsonl", key="id")
    bushel.build(source, tmp_path / "data", transforms=steps, label="label", split="80/20")
    train(tmp_path / "data", Options(epochs=2, tensorboard=False, ignore=("SPL001",)), out=tmp_path / "run")
    (tmp_path / "new.jsonl").write_text('{"text": "###"}\n{"text": "apple plum"}\n{"text": ""}\n')
    found = list(bushel.predict(tmp_path / "run", tmp_path / "new.jsonl"))
    assert [prediction.why for prediction in found] == [None] * 3
    assert all(np.isfinite(list(prediction.scores.values())).all() for prediction in found)
    assert found[1].label == "fruit"


def test_a_score_that_is_not_a_number_is_refused_by_name_and_exit_1(run: Path, tmp_path: Path) -> None:
    import keras

    model = keras.models.load_model(run / "run" / "model.keras")
    model.layers[-1].set_weights([np.full((3, 2), np.nan, np.float32), np.zeros(2, np.float32)])
    model.save(tmp_path / "model.keras")
    (tmp_path / "contract.json").write_bytes((run / "run" / "contract.json").read_bytes())
    picture = run / "photos" / "dark" / "0.jpg"
    done = CliRunner().invoke(cli, ["predict", str(tmp_path), str(picture)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{picture}: the model's output is not a number" in done.stderr
    with pytest.raises(bushel.BushelError, match="is not a number for 4 of 4 records"):
        bushel.evaluate(tmp_path, run / "data", split="val")
