"""Files that say of themselves what is not so are refused in one line, with their name, before they cost anything."""

import itertools
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import bushel
from bushel.cli import cli


def build(source: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["build", str(source), str(out), "--workers", "1", *options])


def refused(source: Path, *options: str) -> str:
    """The line by which a source is refused."""
    done = build(source, source.parent / "out", *options)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    return done.output.splitlines()[0]


def write_arrow(path: Path, columns: dict[str, Any], patch: Callable[[bytes], bytes] = bytes) -> Path:
    table = pa.table(columns)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    path.write_bytes(patch(path.read_bytes()))
    return path


@pytest.mark.parametrize("last", [7, 200, 2**30, 2**31 - 1])
def test_offsets_past_the_end_of_an_arrow_file_are_refused(tmp_path: Path, last: int) -> None:
    def lie(data: bytes) -> bytes:
        return data.replace(struct.pack("<4i", 0, 2, 4, 6), struct.pack("<4i", 0, 2, 4, last), 1)

    path = write_arrow(tmp_path / "r.arrow", {"a": ["ab", "cd", "ef"], "label": [1, 2, 3]}, lie)
    assert refused(path).startswith(f"bushel: {path}: cannot be read as Arrow: ")


@pytest.mark.parametrize("code", [-7, 999_999])
def test_codes_without_a_value_in_an_arrow_file_are_refused(tmp_path: Path, code: int) -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([0, code], pa.int32()), pa.array(["x"]), safe=False)
    path = write_arrow(tmp_path / "r.arrow", {"a": codes, "label": [1, 2]})
    assert refused(path).startswith(f"bushel: {path}: cannot be read as Arrow: ")


def test_views_and_runs_of_arrow_are_read(tmp_path: Path) -> None:
    columns = {
        "text": pa.array(["a" * 40, "b" * 40, None], pa.string_view()),
        "data": pa.array([b"a" * 40, b"b", b"c"], pa.binary_view()),
        "run": pc.run_end_encode(pa.array([1, 1, 2])),
    }
    bushel.build(write_arrow(tmp_path / "r.arrow", columns), tmp_path / "out", order="source")
    found = bushel.open(tmp_path / "out")["train"][:]
    assert found["run"].tolist() == [1, 1, 2]  # type: ignore[union-attr]
    assert found["data"].to_list() == [b"a" * 40, b"b", b"c"]  # type: ignore[union-attr]
    assert len(found["text"].to_list()) == 3  # type: ignore[union-attr]


def test_a_footer_of_parquet_that_promises_other_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "label": ["a", "b", "c"]}), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"\x16\x06", b"\x16\x7e"))
    assert refused(path) == f"bushel: {path}: its footer promises 63 rows where there are 3"


def test_names_that_differ_from_row_to_row_are_refused_before_a_cell_is_made_of_each(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(json.dumps({f"c{row}_{n}": 1 for n in range(20)}) for row in range(1000)))
    assert refused(path) == f"bushel: {path}: has 20,000 different names, and a row has 20.0 of them on average"


def test_rows_that_fill_a_share_of_many_columns_are_built(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(json.dumps({f"c{n}": n for n in range(row % 7, 3000, 7)}) for row in range(60)))
    bushel.build(path, tmp_path / "out", run=bushel.Run(workers=1))
    assert len(bushel.open(tmp_path / "out").schema.features) == 3000


def test_values_of_no_size_are_refused(tmp_path: Path) -> None:
    path, header = tmp_path / "x.npy", b"{'descr': '<U0', 'fortran_order': False, 'shape': (100000000,)}"
    header += b" " * ((64 - (10 + len(header) + 1) % 64) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert "cannot be read as an array: values of no size" in refused(path)


def test_hdf5_that_is_cut_or_holds_references_is_refused_by_name_and_lists_are_lists(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["label"] = [1, 2]
        file.create_dataset("a", (2,), h5py.ref_dtype)
    assert refused(path) == f"bushel: {path}: 'a' holds neither numbers nor texts: object"
    path.write_bytes(path.read_bytes()[:1000])
    assert refused(path).startswith(f"bushel: {path}: cannot be read as HDF5: ")
    with h5py.File(tmp_path / "lists.h5", "w") as file:
        lists = file.create_dataset("x", (2,), h5py.vlen_dtype(np.int32))
        lists[0], lists[1] = [1, 2, 3], [4]
    bushel.build(tmp_path / "lists.h5", tmp_path / "lists", order="source")
    assert [one.tolist() for one in bushel.open(tmp_path / "lists")["train"][:]["x"]] == [[1, 2, 3], [4]]


def photo(folder: Path) -> Path:
    (folder / "images").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folder / "images" / "1.png")
    return folder


@pytest.mark.parametrize("number", [2**40, 2**70])
def test_the_number_of_a_class_does_not_decide_how_much_memory_is_taken(tmp_path: Path, number: int) -> None:
    coco = {
        "images": [{"id": 1, "file_name": "1.png", "width": 8, "height": 8}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 3], "area": 9, "iscrowd": 0}],
        "categories": [{"id": number, "name": "x"}, {"id": 1, "name": "y"}],
    }
    (photo(tmp_path / "coco") / "annotations.json").write_text(json.dumps(coco))
    assert f"the class 'x' has the number {number:,}" in refused(tmp_path / "coco")
    labels = photo(tmp_path / "yolo") / "labels"
    labels.mkdir()
    (labels / "1.txt").write_text("2000000000 .5 .5 .1 .1\n")
    assert "has the number 2,000,000,001" in refused(tmp_path / "yolo")


def test_more_splits_than_a_dataset_has_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("split,a\n" + "".join(f"s{n},1\n" for n in range(300)))
    assert refused(path) == "bushel: 'split' has 300 values, and a dataset has at most 256 splits"


RECIPES = {
    '[source]\npath = "rows.csv"\nkind = 7': "kind must be the name of a source, got 7",
    "[source]\npath = 5": "path must be a path, or a list of them; got 5",
    ".".join(["a"] * 20_000) + " = 1": "a name has more than 100 parts",
    'label = "name:(a+)+$"\n[source]\nkind = "images"\npath = "."': "it repeats what repeats itself",
    'label = "name:(a|a)*$"\n[source]\nkind = "images"\npath = "."': "it repeats what repeats itself",
    '[source]\npath = "rows.csv"\n[[transform]]\ntransform = "bucketise"\nfeature = "a"\nbuckets = 999999999999': (
        "buckets must be 2 to 1,000,000, got 999,999,999,999"
    ),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_that_asks_for_what_never_ends_is_refused(
    tmp_path: Path, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photo(tmp_path)
    Path("rows.csv").write_text("a,label\n1,x\n2,y\n")
    Path("recipe.toml").write_text(recipe)
    assert RECIPES[recipe] in refused(Path("recipe.toml"))


def test_a_recipe_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.toml")
    assert refused(tmp_path / "r.toml") == f"bushel: {tmp_path / 'r.toml'}: is a pipe, which bushel does not read"


@pytest.mark.parametrize("path", ["s3://bucket/x.csv", "http://127.0.0.1:9/x.csv"])
def test_a_recipe_that_is_kept_inside_reaches_no_network(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipe.toml").write_text(f'[source]\npath = "{path}"')
    assert "is outside of the working folder, and --inside refuses that" in refused(Path("recipe.toml"), "--inside")


def test_a_file_of_a_transform_outside_is_refused_before_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "secret.txt")  # which would wait for ever, or be refused for what it is
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    Path("rows.csv").write_text("a,label\nw,x\nv,y\n")
    transform = '[[transform]]\ntransform = "embed"\nfeature = "a"\nfile = "../secret.txt"'
    Path("recipe.toml").write_text(f'[source]\npath = "rows.csv"\n{transform}')
    assert "../secret.txt: is outside of the working folder" in refused(Path("recipe.toml"), "--inside")


def test_what_the_boxes_of_createml_mean_is_decided_without_images_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere.png"
    os.mkfifo(outside)
    folder = tmp_path / "s"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "1.png")
    box = {"label": "cat", "coordinates": {"x": 3, "y": 3, "width": 2, "height": 2}}
    named = [{"image": str(outside), "annotations": [box]}, {"image": "1.png", "annotations": [box]}]
    (folder / "_annotations.createml.json").write_text(json.dumps(named))
    done = build(folder, tmp_path / "out", "--inside", "--max-bad", "1")
    assert "1 record " in done.output, done.output


def test_links_that_fan_out_are_refused_and_the_same_folder_under_two_names_is_read_twice(tmp_path: Path) -> None:
    folders = [tmp_path / "s" / f"d{n}" for n in range(12)]
    for folder in folders:
        folder.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folders[-1] / "1.png")
    for one, other in itertools.pairwise(folders):
        for name in "xyzwuv":
            (one / name).symlink_to(f"../{other.name}")
    assert "links lead to this folder more than 1,000 times" in refused(tmp_path / "s")
    (tmp_path / "two").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "two" / name).symlink_to(folders[-1])
    assert "2 records" in build(tmp_path / "two", tmp_path / "built").output


def test_a_folder_whose_name_looks_like_an_address_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no such host: whatever asked for it would fail."""
    monkeypatch.chdir(tmp_path)
    folder = Path("http:", "nowhere.invalid", "data")
    bushel.build([{"x": n} for n in range(4)], tmp_path / "d")
    folder.parent.mkdir(parents=True)
    (tmp_path / "d").rename(folder)
    for command in (["check", "**/*.tfrecord"], ["info", str(folder)], ["index", "*/*/*/*.tfrecord"]):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code in (0, 1), done.output
    assert len(bushel.open(folder)["train"]) == 4


def test_a_workbook_without_sheets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.xlsx"
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / "cut.xlsx", "w") as cut:
        for name in whole.namelist():
            data = whole.read(name)
            cut.writestr(name, data.replace(b"sheet1.xml", b"none.xml") if name.endswith(".rels") else data)
    assert refused(tmp_path / "cut.xlsx") == f"bushel: {tmp_path / 'cut.xlsx'}: has no sheet with cells"
