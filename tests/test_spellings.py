"""American spellings name the same things as the British ones: in Python, in recipes and on the command line."""

from pathlib import Path

import click
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel import transforms
from bushel.cli import cli
from bushel.spellings import AMERICAN, american_of, british
from bushel.training import Options
from bushel.transforms.by_name import BUILT_IN, describe_transforms, make_transforms

OF_TRANSFORMS = {american: name for american, name in AMERICAN.items() if name in BUILT_IN}


@pytest.mark.parametrize(("american", "name"), OF_TRANSFORMS.items())
def test_a_transform_has_both_spellings(american: str, name: str) -> None:
    assert getattr(transforms, american) is getattr(transforms, name)
    assert american_of(name) == american


def test_every_british_transform_and_option_is_in_the_table() -> None:
    british_ends = ("ise", "ise_file", "iser", "colour")
    names = {*BUILT_IN, *Options.__struct_fields__}
    found = {name for name in names if name.endswith(british_ends) and name != "noise"}
    assert found == set(AMERICAN.values())


def test_a_recipe_may_have_either_spelling_and_is_written_with_one() -> None:
    made = make_transforms([{"transform": "normalize", "feature": "x", "mean": 0, "std": 255}])
    assert made == [transforms.normalise("x", 0, 255)]
    assert describe_transforms(made)[0]["transform"] == "normalise"


def build(out: Path, *options: str) -> Path:
    rows = out.parent / "rows.csv"
    rows.write_text("x,text\n" + "".join(f"{n},word {n % 3}\n" for n in range(40)))
    done = CliRunner().invoke(cli, ["build", str(rows), str(out), "--seed", "1", *options])
    assert done.exit_code == 0, done.output
    return out


def test_the_command_line_builds_the_same_with_either_spelling(tmp_path: Path) -> None:
    ours = build(tmp_path / "a", "--standardise", "x", "--tokenise", "word", "--transform", "bucketise:x,edges=[0.0]")
    theirs = build(tmp_path / "b", "--standardize", "x", "--tokenize", "word", "--transform", "bucketize:x,edges=[0.0]")
    shards = [next(folder.glob("*.tfrecord")).read_bytes() for folder in (ours, theirs)]
    assert shards[0] == shards[1]
    recipes = [msgspec.toml.decode((folder / "recipe.toml").read_bytes())["transform"] for folder in (ours, theirs)]
    assert recipes[0] == recipes[1]


def test_train_takes_optimizer_as_a_flag_and_as_a_setting(tmp_path: Path) -> None:
    labels = np.arange(60) % 2
    bushel.build({"x": labels.astype(np.float32), "label": labels}, tmp_path / "data", split="80/20")
    for name, given in (("flag", ["--optimizer", "sgd"]), ("set", ["--set", "optimizer=sgd"])):
        run = tmp_path / name
        CliRunner().invoke(cli, ["train", str(tmp_path / "data"), "--epochs", "1", "--out", str(run), *given])
        assert msgspec.json.decode((run / "run.json").read_bytes())["options"]["optimiser"] == "sgd"


def test_a_flag_keeps_its_british_name_for_the_code() -> None:
    command = cli.get_command(click.Context(cli), "build")
    assert command is not None
    flag = next(option for option in command.params if "--standardize" in option.opts)
    assert flag.name == "standardise"
    assert british("standardize") == "standardise"
    assert british("resize") == "resize"
