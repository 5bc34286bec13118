"""SRV: the contract of a trained model beside data, this machine and a model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pictures import encode_image, photo

import bushel
from bushel import contract
from bushel import transforms as t
from bushel.checking import all_rules
from bushel.cli import cli

TO_MODEL = (t.decode_image("image"), t.resize("image", 16, 16, dtype="float32"), t.normalise("image"))


def rules(report: Any) -> set[str]:
    return {finding.rule for finding in report if finding.rule.startswith("SRV")}


def photos(folder: Path, classes: tuple[str, ...] = ("ant", "bee")) -> Path:
    for number in range(12):
        (folder / classes[number % len(classes)]).mkdir(parents=True, exist_ok=True)
        place = folder / classes[number % len(classes)] / f"{number}.jpg"
        place.write_bytes(encode_image(photo(number, 20, 30), "jpeg"))
    bushel.build(folder, folder.parent / f"{folder.name}-data")
    return folder.parent / f"{folder.name}-data"


def agreed(data: Path, path: Path, *features: str, transforms: Any = (), split: str = "train", **more: Any) -> Path:
    path.mkdir()
    made = contract.make(bushel.open(data), contract.Preparation(features, transforms), split=split, **more)
    contract.write(made, path / "contract.json")
    return path


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Path, Path]:
    data = photos(tmp_path / "photos")
    return data, agreed(data, tmp_path / "run", "image", transforms=TO_MODEL)


def test_data_and_machine_of_training_give_nothing(trained: tuple[Path, Path]) -> None:
    data, run = trained
    report = bushel.check(data, contract=run)
    assert rules(report) == set()
    assert report.checked["contract"] == str(run / "contract.json")
    assert rules(bushel.check(contract=run / "contract.json")) == set()


def test_srv001_golden_inputs_that_come_out_differently(trained: tuple[Path, Path]) -> None:
    _, run = trained
    fields = json.loads((run / "contract.json").read_text())
    fields["prepared_by"]["transforms"][1]["antialias"] = True  # as another machine's kernel would
    fields["versions"]["pillow"] = "1.0"
    (run / "contract.json").write_text(json.dumps(fields))
    (finding,) = bushel.check(contract=run)
    assert finding.rule == "SRV001"
    assert finding.message.startswith("4 of 4 golden inputs differ from training: image of train:")
    assert finding.help[0].endswith("here, and was 1.0 in training")


def test_srv002_classes_of_another_order(tmp_path: Path, trained: tuple[Path, Path]) -> None:
    _, run = trained
    (finding,) = bushel.check(photos(tmp_path / "new", ("aardvark", "ant", "bee")), contract=run, select=["SRV"])
    assert finding.rule == "SRV002"
    assert "every code is moved by 1: 'aardvark' comes first" in finding.message


def test_srv003_a_feature_that_is_missing_or_of_another_form(tmp_path: Path, trained: tuple[Path, Path]) -> None:
    _, run = trained
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write({"picture": b"x", "label": 1})
    with bushel.Writer(tmp_path / "b.tfrecord") as writer:
        writer.write({"image": [0.5] * 12, "label": 1})
    with bushel.Writer(tmp_path / "c.tfrecord") as writer:
        writer.write({"image": b"no image", "label": 1})
    said = {}
    for name in "abc":
        (finding,) = bushel.check(tmp_path / f"{name}.tfrecord", contract=run, select=["SRV003"])
        said[name] = finding.message
    assert said["a"] == "'image' is missing; the model was trained on bytes (image)"
    assert said["b"] == "'image' holds float32; the model was trained on bytes (image)"
    assert said["c"].startswith("records cannot be prepared as in training: the image cannot be decoded")


def test_srv004_statistics_that_were_fitted_again(tmp_path: Path) -> None:
    from checking_centring import Centred

    for name, shift in (("old", 0), ("new", 100)):
        rows = "\n".join(f"{number + shift},{'ab'[number % 2]}" for number in range(20))
        (tmp_path / f"{name}.csv").write_text(f"x,label\n{rows}\n")
        bushel.build(tmp_path / f"{name}.csv", tmp_path / name, transforms=[Centred("x")])
    run = agreed(tmp_path / "old", tmp_path / "run", "x")
    assert rules(bushel.check(tmp_path / "old", contract=run)) == set()
    (finding,) = bushel.check(tmp_path / "new", contract=run, select=["SRV"])
    assert finding.rule == "SRV004"
    assert "learnt of 'x' is not what it learnt in training" in finding.message


def test_srv005_inputs_that_were_scaled_before_they_were_stored(tmp_path: Path) -> None:
    for name, scale in (("old", 255), ("new", 1)):
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            for number in range(20):
                x = np.random.default_rng(number).random(12) * scale
                writer.write({"x": x.astype(np.float32), "label": number % 2})
    run = agreed(tmp_path / "old.tfrecord", tmp_path / "run", "x", transforms=(t.normalise("x"),), split="all")
    assert rules(bushel.check(tmp_path / "old.tfrecord", contract=run)) == set()
    (finding,) = bushel.check(tmp_path / "new.tfrecord", contract=run, select=["SRV"])
    assert (finding.rule, finding.severity, finding.confidence) == ("SRV005", "warning", "likely")


@pytest.mark.parametrize("scale", [100, 0.01])
def test_single_numbers_100_times_too_large_or_small_are_found(scale: float, tmp_path: Path) -> None:
    for name, factor in (("old", 1.0), ("new", scale)):
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            for number in range(40):
                x = np.random.default_rng(number).normal(50, 10, 3) * factor
                writer.write({"a": np.float32(x[0]), "b": x[1:].astype(np.float32), "label": number % 2})
    run = agreed(tmp_path / "old.tfrecord", tmp_path / "run", "a", "b", split="all")
    assert rules(bushel.check(tmp_path / "old.tfrecord", contract=run)) == set()
    (finding,) = bushel.check(tmp_path / "new.tfrecord", contract=run, select=["SRV"])
    assert finding.rule == "SRV005"
    assert {place.feature for place in finding.locations if place.feature} == {"a", "b"}
    assert finding.message.endswith("; 1 more of 2 inputs also differ")


def test_numbers_of_many_scales_and_missing_ones_are_no_other_range(tmp_path: Path) -> None:
    schema = bushel.Schema.of(
        x=bushel.Feature(dtype="float32"),
        y=bushel.Feature(dtype="float32", required=False),
        label=bushel.Feature(dtype="int64"),
    )
    with bushel.Writer(tmp_path / "a.tfrecord", schema=schema) as writer:
        for number in range(40):
            writer.write({"x": 10.0 ** (number % 9), "label": number % 2, **({"y": 1.0} if number % 3 == 0 else {})})
    run = agreed(tmp_path / "a.tfrecord", tmp_path / "run", "x", "y", split="all")
    assert rules(bushel.check(tmp_path / "a.tfrecord", contract=run)) == set()


def test_srv006_a_model_that_answers_otherwise(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        for number in range(20):
            writer.write({"x": np.random.default_rng(number).random(4).astype(np.float32), "label": number % 2})

    def model(seed: int) -> Any:
        keras.utils.set_random_seed(seed)
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation="softmax")])

    first = model(1)
    run = agreed(tmp_path / "a.tfrecord", tmp_path / "run", "x", split="all", outputs=first)
    first.save(run / "model.keras")
    report = bushel.check(tmp_path / "a.tfrecord", model=run / "model.keras")
    assert rules(report) == set()
    assert report.checked["contract"] == str(run / "contract.json")  # found beside the model
    model(2).save(run / "model.keras")
    (finding,) = bushel.check(model=run / "model.keras", select=["SRV"])
    assert finding.rule == "SRV006"
    assert "is it the same model?" in finding.message


def test_the_command_takes_a_run_and_refuses_what_is_none(trained: tuple[Path, Path], tmp_path: Path) -> None:
    data, run = trained
    done = CliRunner().invoke(cli, ["check", str(data), "--contract", str(run), "--select", "SRV"])
    assert (done.exit_code, done.stdout) == (0, "nothing found in 12 records, 1 file\n")
    refused = CliRunner().invoke(cli, ["check", str(data), "--contract", str(tmp_path)])
    assert refused.exit_code == 2
    assert "there is no contract.json in this folder" in refused.stderr


def test_checking_a_contract_writes_nothing_beside_the_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with bushel.Writer(tmp_path / "data" / "a.tfrecord") as writer:
        for number in range(5):
            writer.write({"x": [float(number)] * 3})
    run = agreed(tmp_path / "data" / "a.tfrecord", tmp_path / "run", "x", split="all")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.tfrecord").write_bytes((tmp_path / "data" / "a.tfrecord").read_bytes())
    bushel.check(tmp_path / "other", contract=run)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["b.tfrecord"]


def test_every_rule_about_contracts_has_a_test_named_after_it() -> None:
    named = {name.split("_")[1].upper() for name in globals() if name.startswith("test_srv")}
    assert {rule.id for rule in all_rules() if rule.subject == "contract"} == named
