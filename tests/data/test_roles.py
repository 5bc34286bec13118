"""What data is taken for: the same by every command, by values first, and never by a name against them."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.checking.collect.one_pass import list_data, read_data
from bushel.cli import cli
from bushel.data.roles import Account, take_account
from bushel.data.schema import Schema
from bushel.reading.dataset import open as open_dataset
from bushel.training.inputs.choose import choose_target
from bushel.training.inputs.splits import Splits
from bushel.viewing.opened import open_all

ROWS = 60
DRAW = np.random.default_rng(3)


def encoded(pixels: Any, form: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def photo(row: int) -> bytes:
    return encoded(DRAW.integers(0, 255, (16, 16, 3), np.uint8), "JPEG")


def titanic(row: int) -> dict[str, Any]:
    ticket = ("First", "Second", "Third")[row % 3]
    return {"name": f"Smith, Mr. {row}", "age": float(row % 40), "class": ticket, "alive": row * 7 % 11 % 2}


def segmented(row: int) -> dict[str, Any]:
    return {"picture": photo(row), "where": encoded((DRAW.random((16, 16)) > 0.7).astype(np.uint8)), "target": row % 4}


# In the manner of datasets of others: what one record holds, the label, its task, and what some features are.
DATASETS: dict[str, tuple[Callable[[int], dict[str, Any]], str | None, str | None, dict[str, str]]] = {
    "titanic": (titanic, "class", "classification", {"name": "text", "age": "number", "alive": "category"}),
    "mnist": (lambda row: {"image": photo(row), "label": row % 10}, "label", "classification", {"image": "image"}),
    "tfds": (
        lambda row: {"image": photo(row), "label": row % 3, "file_name": f"cat/{row}.jpg"},
        *("label", "classification", {"file_name": "address"}),
    ),
    "object detection": (
        lambda row: {
            "image/encoded": photo(row),
            "image/height": 16,
            "image/source_id": f"{row:06d}",
            **{f"image/object/bbox/{side}": [0.25, 0.5] for side in ("xmin", "xmax", "ymin", "ymax")},
            "image/class/label": row % 5,
            "image/class/text": "abcde"[row % 5] * 3,
        },
        "image/class/label",
        "classification",
        {
            "image/encoded": "image",
            "image/height": "about an image",
            "image/object/bbox/xmin": "boxes",
            "image/class/text": "name of the label",
        },
    ),
    "segmentation": (segmented, "target", "classification", {"picture": "image", "where": "mask"}),
    "bert": (
        lambda row: {"input_ids": list(range(row % 5 + 9)), "token_type_ids": [0] * (row % 5 + 9), "label_id": row % 2},
        *("label_id", "classification", {"input_ids": "tokens", "token_type_ids": "series"}),
    ),
    "news": (
        lambda row: {
            "text": f"a rather long headline number {row} about the city",
            "category": row % 4,
            "id": 90 - row,
        },
        *("category", "classification", {"text": "text", "id": "id"}),
    ),
    "houses": (
        lambda row: {
            "y": 1000.0 + row,
            "rooms": row % 6,
            "postcode": 10_000 + row * 37 % 501,
            "sold": f"2021-03-{row % 28 + 1:02d}",
        },
        *("y", "regression", {"rooms": "category", "postcode": "count", "sold": "date or time"}),
    ),
    "patients": (
        lambda row: {"patient_id": row // 4, "pressure": 100 + row % 30, "visit": row, "target": row % 2},
        *("target", "classification", {"patient_id": "group", "visit": "row number"}),
    ),
    "links": (
        lambda row: {"url": f"https://example.org/{row}", "clicks": row * 13 % 700, "lang": "en"},
        *(None, None, {"url": "address", "lang": "constant", "clicks": "count"}),
    ),
    "parts": (
        lambda row: {"x": float(row), "split": "train", "label": "ab"[row % 2]},
        *("label", "classification", {"split": "split"}),
    ),
    "speech": (
        lambda row: {"audio": DRAW.normal(size=2000).astype(np.float32), "label": row % 3, "speaker": f"s{row % 6}"},
        *("label", "classification", {"audio": "sound", "speaker": "group"}),
    ),
}


@pytest.fixture(scope="module", params=DATASETS)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("foreign")
    make = DATASETS[request.param][0]
    with bushel.Writer(folder / "train.tfrecord") as writer:
        for row in range(ROWS):
            writer.write(make(row))
    return request.param, folder


def test_each_feature_is_what_a_person_would_say(dataset: tuple[str, Path]) -> None:
    name, folder = dataset
    _, label, task, kinds = DATASETS[name]
    account = bushel.info(folder).account
    assert account is not None
    assert (account.label, account.task) == (label, task)
    assert {feature: account.kind_of(feature) for feature in kinds} == kinds
    assert all(role.why for role in account.roles.values())


@pytest.fixture(scope="module")
def rebuilt(dataset: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The same records, after a build that was told the label."""
    name, folder = dataset
    label = DATASETS[name][1]
    out = tmp_path_factory.mktemp("rebuilt") / "out"
    asked = ["--label", label] if label is not None else []
    done = CliRunner().invoke(cli, ["build", str(folder), str(out), *asked, "--order", "source"])
    assert done.exit_code == 0, done.output
    return done.stdout, out


def answers(folder: Path) -> dict[str, tuple[str | None, dict[str, str]]]:
    """The label and the kinds of features, as each command has them."""
    found: dict[str, tuple[str | None, dict[str, str]]] = {}

    def take(command: str, account: Account | None) -> None:
        assert account is not None
        found[command] = (account.label, {name: role.kind for name, role in account.roles.items()})

    take("info", bushel.info(folder).account)
    files, manifest, _ = list_data([folder], [])
    take("check", read_data(files, manifest=manifest).account)
    opened = open_all([folder])[0]
    take("view", opened.account)
    return found


def said(command: str, folder: Path, *more: str) -> str:
    done = CliRunner().invoke(cli, [command, str(folder), *more])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_command_gives_the_same_answers(dataset: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = dataset
    account = bushel.info(folder).account
    assert account is not None
    assert len({repr(answer) for answer in answers(folder).values()}) == 1
    assert json.loads(said("info", folder, "--json"))["account"]["label"] == account.label
    assert all(line in said("schema", folder) for line in account.describe())
    exported = bushel.export_dataset(folder, tmp_path / "out", format="jsonl")
    assert exported.label == (account.label or "")
    report = Path(bushel.write_report([folder], tmp_path / "report.html")).read_text()
    assert all(f"<td>{role.kind}</td>" in report for role in account.roles.values())
    if account.label is not None:
        assert f"<td>{account.label}</td>" in report
        assert trained_on(folder) == (account.label, account.task)


def trained_on(folder: Path) -> tuple[str, str]:
    opened = open_dataset(folder)
    target = choose_target(Splits(opened, next(iter(opened.splits.values())), None, None))
    kinds = {"binary": "classification", "multi_class": "classification"}
    return target.label, kinds.get(target.kind, target.kind)


def test_a_build_is_described_by_every_command_as_the_build_did(dataset: tuple[str, Path], rebuilt: Any) -> None:
    name, _ = dataset
    _, label, task, kinds = DATASETS[name]
    said_first, out = rebuilt
    assert said_first.startswith("taken for: records")
    assert (f"label: {label!r} (it was asked for" if label else "label: none") in said_first
    for answer in answers(out).values():
        assert answer[0] == label
        assert {feature: answer[1][feature] for feature in kinds} == kinds
    if label is not None:
        assert trained_on(out) == (label, task)


def test_a_dataset_that_was_built_without_a_label_has_none_for_any_command(tmp_path: Path) -> None:
    lines = [f"{row},{('First', 'Second', 'Third')[row % 3]}" for row in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,class", *lines]) + "\n")
    out = tmp_path / "out"
    assert "label: none" in said("build", tmp_path / "rows.csv", str(out))
    assert {label for label, _ in answers(out).values()} == {None}
    with pytest.raises(bushel.BushelError, match="label"):
        trained_on(out)


def test_lists_under_a_usual_name_are_labels_and_pictures_are_not() -> None:
    rows = [{"labels": np.array([row % 3, 7]), "target": photo(row)} for row in range(30)]
    account = take_account(Schema(features={}), rows)
    assert (account.label, account.task) == ("labels", "multi_label")


def test_codes_are_categories_for_data_validation_and_numbers_are_not(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "train.tfrecord") as writer:
        for row in range(60):
            writer.write({"grade": row % 3, "visits": row * 31 % 997, "label": row % 2})
    blocks = said("schema", tmp_path, "--pbtxt").split("feature {")[1:]
    assert [("is_categorical" in block) for block in blocks] == [True, True, False]


def test_a_column_that_goes_with_the_label_is_not_hidden_as_its_name() -> None:
    rows = [{"survived": row % 2, "sex": ("male", "female")[row % 2]} for row in range(40)]
    assert take_account(Schema(features={}), rows, label="survived").kind_of("sex") == "category"


def test_what_a_user_says_wins() -> None:
    rows = [{"label": row % 2, "grade": row % 3, "site": row % 4} for row in range(40)]
    account = take_account(Schema(features={}), rows, label="grade", group="label")
    assert (account.label, account.kind_of("label")) == ("grade", "group")
    assert account.why == "it was asked for"


def test_build_and_its_plan_say_what_was_taken_for_what(tmp_path: Path) -> None:
    lines = [f"{row},{row % 3},2021-03-{row % 28 + 1:02d}" for row in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["amount,grade,day", *lines]) + "\n")
    for more in (["--plan"], [str(tmp_path / "out")]):
        said = CliRunner().invoke(cli, ["build", str(tmp_path / "rows.csv"), *more, "--label", "grade"]).stdout
        assert "taken for: table (--kind KIND reads another)" in said
        assert "label: 'grade' (it was asked for; --label COL names another), classification" in said
        assert "date or time: 'day' (the schema says so)" in said


def test_a_plan_says_of_every_feature_what_the_built_dataset_says(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6), (number * 20, 0, 0)).save(folder / f"{number}.png")
    rows = "".join(f"r{number},{number * 0.5},{'ab'[number % 2]}\n" for number in range(40))
    (tmp_path / "rows.csv").write_text("name,size,label\n" + rows)
    for name in ("photos", "rows.csv"):
        planned = bushel.plan(tmp_path / name).account
        bushel.build(tmp_path / name, tmp_path / f"built-{name}", run=bushel.Run(workers=1))
        built = bushel.info(tmp_path / f"built-{name}").account
        assert planned is not None
        assert built is not None
        assert {one: role.kind for one, role in planned.roles.items()} == {
            one: role.kind for one, role in built.roles.items() if one in planned.roles
        }
