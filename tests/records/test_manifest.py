import json
from pathlib import Path

import pytest

import bushel
from bushel.data.categories import Label
from bushel.data.schema import Feature, Schema
from bushel.errors import FileProblem, FormatError, MissingName
from bushel.records.index import load_index
from bushel.records.manifest import Manifest, ShardEntry, SplitEntry, read_manifest, write_manifest
from bushel.records.scan import SkippedRecords

SHARD = ShardEntry(path="train-00000-of-00001.tfrecord", records=3, bytes=90, sha256="a" * 64, digest="b" * 64)
MANIFEST = Manifest(
    splits={
        "train": SplitEntry(shards=[SHARD, SHARD], label_counts={"cat": 2, "dog": 1}),
        "val": SplitEntry(shards=[]),
    },
    schema=Schema.of(x=Feature(dtype="float32", shape=(2,)), label=Feature(dtype="int64")),
    label=Label(feature="label", task="classification", names=["cat", "dog"]),
    compression="gzip",
    statistics={"normalize": {"mean": [0.5]}},
    recipe={"source": {"kind": "images"}},
    seed=7,
    versions={"bushel": "0.1.0"},
)


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.json"]


def test_the_file_names_its_format_first(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert (tmp_path / "dataset.json").read_text().startswith('{\n  "format": 1,')


def test_a_split_adds_up_its_shards() -> None:
    split = MANIFEST.split("train")
    assert (split.records, split.bytes) == (6, 180)


def test_a_split_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(MissingName, match="data: no split 'trian'; did you mean 'train'"):
        MANIFEST.split("trian", where="data")


def test_a_folder_without_manifest_is_no_finished_dataset(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"there is no dataset\.json, so this is not a finished dataset"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"format": 2}', "dataset of format 2; this bushel reads format 1"),
        ("{}", "not a manifest: Object missing required field `format`"),
        ("nonsense", "not a manifest: JSON is malformed"),
        ('{"format": 1, "splits": 3}', "not a manifest: Expected `object`, got `int` - at `$.splits`"),
    ],
)
def test_a_manifest_that_cannot_be_read_says_why(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(FormatError) as caught:
        read_manifest(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'dataset.json'}: {what}")


def test_an_unknown_format_is_refused_whatever_else_it_holds(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text('{"format": 99, "splits": "of another shape"}')
    with pytest.raises(FormatError, match="Install the bushel that wrote it, or a later one"):
        read_manifest(tmp_path)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A dataset of three splits."""
    bushel.build([{"x": n} for n in range(60)], tmp_path / "data", split="80/10/10", run=bushel.Run(workers=1))
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["../../../ESCAPED", "/abs/NAME", "a/b", "..", "", "a\x1b[31m", "a\\b", "nul"])
def test_a_split_that_cannot_be_the_name_of_a_file_is_refused_when_the_manifest_is_read(
    shards: Path, name: str
) -> None:
    manifest = json.loads((shards / "dataset.json").read_text())
    manifest["splits"] = {name: manifest["splits"]["train"]}
    (shards / "dataset.json").write_text(json.dumps(manifest))
    for reading in (read_manifest, bushel.open, lambda path: bushel.export_dataset(path, shards.parent / "out")):
        with pytest.raises(FormatError, match="is not the name of a split: it cannot be the name of a file") as caught:
            reading(shards)
        assert "\x1b" not in str(caught.value)
    assert sorted(path.name for path in shards.parent.iterdir()) == ["data"]


def test_reading_a_folder_misses_no_shard_of_its_manifest(shards: Path) -> None:
    (shard,) = shards.glob("train-*")
    shard.rename(shards.parent / "elsewhere")
    for reading in (bushel.scan, bushel.payloads, bushel.read):
        with pytest.raises(FileProblem, match="there is no such file, and the manifest names it"):
            list(reading(shards))
        with pytest.warns(SkippedRecords, match="1 file not as the manifest says; the first: .*train-00000"):
            assert len(list(reading(shards, on_fault="skip"))) > 0
    assert len(list(bushel.scan(shards / "val-*"))) > 0


def test_a_shard_that_ends_with_another_record_than_the_manifest_says_is_noticed(shards: Path) -> None:
    (shard,) = shards.glob("train-*")
    index = load_index(shard)
    assert index is not None
    with shard.open("r+b") as file:
        file.truncate(int(index.offsets[7]))
    with pytest.raises(FileProblem, match=r"has \d+ bytes, and the manifest says [\d,]+") as caught:
        list(bushel.scan(shards))
    assert f"bushel repair {shard} OUT" in str(caught.value)
    with pytest.warns(SkippedRecords, match="1 file not as the manifest says"):
        assert len(bushel.read(shards, on_fault="skip")["x"]) < 60


def test_a_manifest_without_splits_and_one_that_is_a_link_elsewhere_are_refused(tmp_path: Path) -> None:
    bushel.build([{"x": n} for n in range(4)], tmp_path / "data")
    path = tmp_path / "data" / "dataset.json"
    whole = path.read_text()
    path.write_text(json.dumps(json.loads(whole) | {"splits": {}}))
    with pytest.raises(bushel.FormatError, match=r"dataset\.json: splits: there is none"):
        bushel.open(tmp_path / "data")
    (tmp_path / "other.json").write_text(whole)
    path.unlink()
    path.symlink_to("../other.json")
    with pytest.raises(bushel.FormatError, match="is a link that leaves the folder"):
        bushel.open(tmp_path / "data")


def test_files_beside_the_shards_of_a_dataset_that_lead_elsewhere_are_not_read(tmp_path: Path) -> None:
    bushel.build([{"x": n} for n in range(4)], tmp_path / "data")
    bushel.build([{"secret": n} for n in range(4)], tmp_path / "other")
    (tmp_path / "data" / "zz.tfrecord").symlink_to("../other/train-00000-of-00001.tfrecord")
    for read in (bushel.info, bushel.infer_schema, bushel.write_index):
        with pytest.raises(bushel.FileProblem, match=r"zz\.tfrecord: is a link that leaves the folder"):
            read(tmp_path / "data")
