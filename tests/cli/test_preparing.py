"""The options of `bushel build` that prepare samples, as a user types them."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from making import digests

import bushel
from bushel.building.recipe import read_recipe
from bushel.cli import cli

PEOPLE = "\n".join(
    ["age,city,bought", *(f"{'' if n % 9 == 0 else n % 60},{'ab'[n % 2]},{n % 3 // 2}" for n in range(200))]
)


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["build", "people.csv", "data", *arguments, "--workers", "1"])
    return done.exit_code, done.output


def test_options_stand_for_transforms_and_the_recipe_holds_them(people):
    options = ["--label", "bought", "--fill", "age=median", "--standardise", "age", "--one-hot", "city"]
    others = ["--transform", "clip:age,low=-2,high=2", "--transform", "bucketise:age,edges=[-1, 0,1]"]
    assert run(*options, *others)[0] == 0
    tables = read_recipe(people / "data" / "recipe.toml").transforms
    assert [(table["transform"], table["feature"]) for table in tables] == [
        ("fill", "age"),
        ("standardise", "age"),
        ("one_hot", "city"),
        ("clip", "age"),
        ("bucketise", "age"),
    ]
    assert tables[3]["low"] == -2
    assert tables[4]["edges"] == [-1, 0, 1]
    assert bushel.open("data")["train"][0]["city"].tolist() in ([0, 1], [1, 0])
    done = CliRunner().invoke(cli, ["build", "data/recipe.toml", "again", "--workers", "1"])
    assert done.exit_code == 0
    assert digests(people / "data") == digests(people / "again")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--standardise", "aeg"], "bushel: transform standardise: no feature 'aeg'; did you mean 'age'?"),
        (["--fill", "age"], "Error: --fill must be COL=VALUE, got 'age'"),
        (["--fill", "age=abc"], "bushel: the samples probed hold values of different types: int64, str - at age"),
        (["--transform", "clipp:age,low=0"], "got 'clipp'; did you mean 'clip'?"),
        (["--transform", "clip:age,lo=0"], "bushel: transform clip: there is no field 'lo'; did you mean 'low'?"),
        (["--transform", "one_hot:city,unknown=nil"], "one_hot: unknown must be one of refuse, zero; got 'nil'"),
        (["--transform", "clip"], "Error: --transform must be NAME:COL,KEY=VALUE; got 'clip'"),
        (["--log", "age,,city"], "Error: --log must be names such as A,B; got 'age,,city'"),
        (["--standardise", "city"], "bushel: expected numbers, got str - at city"),
    ],
)
def test_options_that_are_wrong_say_so_in_a_line_and_leave_nothing(people, options, message):
    code, output = run(*options)
    assert code == 2
    assert message in output
    assert not (people / "data").exists()
