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
from bushel.data.roles import take_account
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


def test_every_command_gives_the_same_answers(dataset: tuple[str, Path]) -> None:
    _, folder = dataset
    account = bushel.info(folder).account
    assert account is not None
    files, manifest, _ = list_data([folder], [])
    checked = read_data(files, manifest=manifest)
    assert checked.account == account
    assert open_all([folder])[0].account == account
    said = CliRunner().invoke(cli, ["info", str(folder), "--json"])
    assert json.loads(said.stdout)["account"]["label"] == account.label
    opened = open_dataset(folder)
    if account.label is not None:
        train = next(iter(opened.splits.values()))
        target = choose_target(Splits(opened, train, None, None))
        kinds = {"binary": "classification", "multi_class": "classification"}
        assert (target.label, kinds.get(target.kind, target.kind)) == (account.label, account.task)


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
        assert "label: 'grade' (the dataset says so; --label COL names another), classification" in said
        assert "date or time: 'day' (the schema says so)" in said
