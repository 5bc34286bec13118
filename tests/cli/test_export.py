"""`bushel export` writes datasets in the formats of others, and says what it did by its exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import bushel
from bushel.cli import cli


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["export", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture
def data(tmp_path: Path) -> Path:
    samples = [{"x": n, "text": f"text {n}", "label": ("cat", "dog")[n % 2]} for n in range(40)]
    bushel.build(samples, tmp_path / "data", split="80/20")
    return tmp_path / "data"


def test_a_dataset_becomes_parquet_unless_told_otherwise(data: Path, tmp_path: Path) -> None:
    code, output = run(data, tmp_path / "out")
    assert code == 0
    assert f"exported: {tmp_path / 'out'}" in output
    assert {path.name for path in (tmp_path / "out").glob("*.parquet")} == {
        "train-00000-of-00001.parquet",
        "val-00000-of-00001.parquet",
    }
    assert run(data, tmp_path / "out")[0] == 2  # it is not empty
    assert run(data, tmp_path / "out", "--overwrite", "--format", "jsonl")[0] == 0


def test_a_condition_chooses_records_of_one_split(data: Path, tmp_path: Path) -> None:
    code, output = run(data, tmp_path / "out", "--split", "train", "--where", "label == 'cat'", "--json")
    assert code == 0
    count = len(bushel.open(data)["train"].filter("label == 'cat'"))
    assert json.loads(output[output.index("{") :])["records"] == {"train": count}
    code, output = run(data, tmp_path / "no", "--where", "label == 'cat'")
    assert code == 2
    assert "split must be one of train, val" in output
    code, output = run(data, tmp_path / "no", "--split", "train", "--where", "lable == 'cat'")
    assert (code, "did you mean 'label'?" in output) == (2, True)


def test_damaged_records_are_exit_2_or_counted_and_exit_1(data: Path, tmp_path: Path) -> None:
    [path] = bushel.open(data)["train"].paths
    whole = bytearray(path.read_bytes())
    whole[40] ^= 0xFF
    path.write_bytes(bytes(whole))
    assert run(data, tmp_path / "out")[0] == 2
    code, output = run(data, tmp_path / "out", "--skip-damaged")
    assert code == 1
    assert "1 damaged record left out" in output


def test_raw_files_are_exported_without_a_build(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,label\n1,a\n2,b\n")
    assert run(tmp_path / "rows.csv", tmp_path / "out", "--format", "jsonl")[0] == 0
    [path] = (tmp_path / "out").glob("*.jsonl")
    assert sorted(json.loads(line)["label"] for line in path.read_text().splitlines()) == ["a", "b"]


def test_wrong_formats_and_missing_data_are_exit_2(data: Path, tmp_path: Path) -> None:
    code, output = run(data, tmp_path / "out", "--format", "csv")
    assert code == 2
    assert "--format of a dataset must be one of parquet, webdataset, jsonl, folder, tfds; got 'csv'" in output
    assert run(tmp_path / "nothing", tmp_path / "out")[0] == 2
