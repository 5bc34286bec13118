import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support import DATA, example, flip, run, sequence_example, write_records

import bushel
from bushel.cli import cli

JPEG = b"\xff\xd8\xff\xe0" + bytes(60)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    records = [example({"x": [i / 2, 1.0], "label": [i], "name": [b"n%d" % i], "image": [JPEG]}) for i in range(3)]
    return write_records(tmp_path / "a.tfrecord", records)


def test_info_shows_records_types_and_ranges(path: Path) -> None:
    done = call("info", path)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("3 records in 1 file, ")
    assert lines[0].endswith("not compressed")
    assert lines[1] == "records are Example"
    rows = {line.split()[0]: " ".join(line.split()) for line in lines[3:] if line}
    assert rows["label"].startswith("label int64 all 0 to 2")
    assert rows["x"].startswith("x float32[2] all 0 to 1")
    assert rows["image"].startswith("image bytes (jpeg) all 64 bytes")


def test_info_in_json_is_all_of_it(path: Path) -> None:
    found = json.loads(call("info", path, "--json").stdout)
    assert found["records"] == 3
    assert found["faults"] == []
    assert found["schema"]["features"]["x"] == {"dtype": "float32", "shape": [2]}
    assert found["files"][0]["path"] == str(path)


def test_info_of_damage_exits_1_and_names_each_place(path: Path) -> None:
    flip(path, 20)
    done = call("info", path)
    assert done.exit_code == 1
    assert f"damage: {path}: record 0 at byte 0: checksum of the data does not match" in done.stdout
    assert "To keep the rest: bushel repair" in done.stdout
    as_json = call("info", path, "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["faults"][0]["record"] == 0


def test_cat_prints_one_json_line_a_record(path: Path) -> None:
    lines = call("cat", path, "-n", 2, "--full").stdout.splitlines()
    assert len(lines) == 2
    first = json.loads(lines[0])
    assert (first["label"], first["name"], first["x"]) == (0, "n0", [0.0, 1.0])
    assert first["image"].startswith("/9j/")


def test_cat_picks_columns_and_shortens_on_demand(path: Path) -> None:
    assert [json.loads(line) for line in call("cat", path, "--columns", "label").stdout.splitlines()] == [
        {"label": i} for i in range(3)
    ]
    assert "64 bytes" in call("cat", path, "--short", "-n", 1).stdout


def test_cat_refuses_a_column_that_no_record_has(path: Path, tmp_path: Path) -> None:
    done = call("cat", path, "-n", "1", "--columns", "label,lable")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"bushel: {path}: no feature 'lable'; did you mean 'label'?")
    late = write_records(tmp_path / "b.tfrecord", [example({"seldom": [1]})])
    assert call("cat", path, late, "-n", "1", "--columns", "seldom").stdout == "{}\n"


def test_schema_says_that_it_passed_over_damage(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    done = call("schema", path)
    assert done.exit_code == 0
    assert done.stderr.startswith(f"bushel: 1 damaged place skipped, the first: {path}: record 2 at byte ")
    path.write_bytes(whole[:30])
    done = call("schema", path)
    assert (done.exit_code, done.stdout) == (2, "")


def test_cat_of_other_bytes_prints_them(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [b"no protobuf", b"\xff\xfe"])
    assert [json.loads(line) for line in call("cat", path).stdout.splitlines()] == [
        {"record": "no protobuf"},
        {"record": "//4="},
    ]


def test_cat_of_a_sequence_prints_its_steps(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [sequence_example({"id": [7]}, {"s": [[1, 2], [3]]})])
    assert json.loads(call("cat", path).stdout) == {"id": 7, "s": [[1, 2], [3]]}


def test_cat_of_damage_exits_2_unless_told_to_skip(path: Path) -> None:
    flip(path, 20)
    done = call("cat", path)
    assert done.exit_code == 2
    assert f"bushel: {path}: record 0 at byte 0: checksum of the data does not match" in done.stderr
    skipping = run("cat", path, "--skip-bad")
    assert skipping.returncode == 0
    assert len(skipping.stdout.splitlines()) == 2
    assert skipping.stderr.startswith("note: 1 record skipped")


def test_schema_prints_words_json_or_a_parse_spec(path: Path) -> None:
    assert "float32[2]" in call("schema", path).stdout
    assert json.loads(call("schema", path, "--json").stdout)["features"]["label"] == {"dtype": "int64"}
    assert "'x': tf.io.FixedLenFeature([2], tf.float32)," in call("schema", path, "--tf").stdout


@pytest.mark.parametrize("command", ["info", "cat", "schema"])
def test_names_that_are_not_utf8_or_not_printable_can_be_shown(tmp_path: Path, command: str) -> None:
    path = write_records(tmp_path / "a", [example({"\udcff": [1], "line\nbreak": [2], "é": [b"\x1b[31m"]})])
    done = run(command, path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    if command != "cat":
        as_json = run(command, path, "--json")
        assert as_json.returncode == 0, as_json.stderr
        json.loads(as_json.stdout)


@pytest.mark.parametrize("file", sorted(path.name for path in DATA.glob("*.tfrecord*") if path.stat().st_size))
def test_every_golden_file_can_be_looked_at(file: str) -> None:
    for command in ("info", "cat", "schema"):
        done = call(command, DATA / file)
        # A file of raw bytes may hold what is no Example beside what looks like one.
        assert done.exit_code in (0, 1, 2) if "raw" in file or "like" in file else done.exit_code == 0, done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(
    "data", [b"\0", b"\0" * 100, bytes(range(256)), b"\x1f\x8b", b"\x1f\x8b" + bytes(30), b"\x78\x9c"]
)
@pytest.mark.parametrize("command", ["info", "cat", "schema", "index"])
def test_hostile_bytes_are_one_clear_line(tmp_path: Path, command: str, data: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    done = call(command, path)
    assert done.exit_code in (1, 2) or command == "schema"
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    rows = [{"x": float(i), "label": "ab"[i % 2]} for i in range(40)]
    bushel.build(rows, tmp_path / "data", label="label", shards=2, run=bushel.Run(workers=1))
    return tmp_path / "data"


def change(folder: Path, **fields: Any) -> None:
    manifest = json.loads((folder / "dataset.json").read_text())
    manifest["splits"]["train"]["shards"][0] |= {name: n for name, n in fields.items() if name in ("records", "bytes")}
    manifest["splits"]["train"] |= {name: value for name, value in fields.items() if name == "label_counts"}
    (folder / "dataset.json").write_text(json.dumps(manifest))


def test_info_of_a_dataset_that_is_as_its_manifest_says(labelled: Path) -> None:
    done = call("info", labelled)
    assert done.exit_code == 0
    assert "\ntrain: 40 records in 2 shards: a 20, b 20" in done.stdout
    assert "manifest" not in done.stdout


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"records": 2_000_000},
            "has 20 records in {size} bytes, and the manifest says 2,000,000 records in {size} bytes",
        ),
        ({"bytes": 5}, "has 20 records in {size} bytes, and the manifest says 20 records in 5 bytes"),
        ({"label_counts": {"a": 39, "b": 1}}, "train has 20 records of 'a', and the manifest says 39"),
    ],
)
def test_info_prints_no_count_of_a_manifest_as_a_fact_where_files_say_otherwise(
    labelled: Path, changed: dict[str, Any], said: str
) -> None:
    first = labelled / "train-00000-of-00002.tfrecord"
    change(labelled, **changed)
    done = call("info", labelled)
    assert done.exit_code == 1
    assert said.format(size=first.stat().st_size) in done.stdout
    assert "\nby the manifest, train: " in done.stdout
    assert json.loads(call("info", labelled, "--json").stdout)["disagreements"]


def test_info_names_a_shard_that_is_missing_and_one_that_the_manifest_does_not_know(labelled: Path) -> None:
    (labelled / "train-00001-of-00002.tfrecord").rename(labelled / "more.tfrecord")
    done = call("info", labelled)
    assert done.exit_code == 1
    assert "train-00001-of-00002.tfrecord is not there" in done.stdout
    assert "more.tfrecord is not in the manifest" in done.stdout


def test_files_beside_the_shards_of_a_dataset_are_not_read(tmp_path: Path) -> None:
    bushel.build({"x": [1, 2, 3, 4, 5]}, tmp_path / "data")
    (tmp_path / "data" / "bushel.toml").write_text("[check]\n")
    (tmp_path / "data" / "notes.txt").write_text("seen")
    done = CliRunner().invoke(cli, ["info", str(tmp_path / "data")])
    assert (done.exit_code, done.output.splitlines()[0].startswith("5 records in 1 file")) == (0, True)
