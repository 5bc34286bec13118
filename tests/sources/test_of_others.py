"""Files as other projects write them: TFX's folders, the Object Detection API's records, TF-Ranking's lists."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import field, run, write_records

import bushel


def feature(values: list[Any] | None, kind: type) -> tf.train.Feature:
    """As `dataset_util` of the Object Detection API and TFX write values: what is missing has no kind."""
    if values is None:
        return tf.train.Feature()
    if kind is bytes:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if kind is float:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


FLOATS = ("fare", "score", "xmin", "xmax", "ymin", "ymax")
TEXTS = ("city", "query", "filename", "source_id", "sha256", "encoded", "format", "text", "view")


def example(**values: list[Any] | None) -> bytes:
    kinds = dict.fromkeys(FLOATS, float) | dict.fromkeys(TEXTS, bytes)
    named = {
        name.replace("__", "/"): feature(value, kinds.get(name.rpartition("__")[2], int))
        for name, value in values.items()
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString())


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """What ExampleGen leaves: `examples/1/Split-train/data_tfrecord-00000-of-00001.gz`, and the same for eval."""
    for split, numbers in (("train", range(20)), ("eval", range(100, 108))):
        folder = tmp_path / "examples" / "1" / f"Split-{split}"
        folder.mkdir(parents=True)
        name = str(folder / "data_tfrecord-00000-of-00001.gz")
        with tf.io.TFRecordWriter(name, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
            for n in numbers:
                writer.write(example(age=[n], fare=[n / 2] if n % 3 else None, city=[b"Bern" if n % 2 else b"Basel"]))
    return tmp_path / "examples"


@pytest.mark.parametrize("below", [".", "1"])
def test_folders_of_tfx_are_splits(examples: Path, below: str) -> None:
    data = bushel.open(examples / below)
    assert {name: len(split) for name, split in data.splits.items()} == {"val": 8, "train": 20}
    assert sorted(data["train"].values("age").tolist()) == list(range(20))
    assert run("info", examples / below).stdout.startswith("28 records in 2 files")
    assert run("check", examples / below).returncode == 0


def test_a_build_keeps_the_splits_of_tfx(examples: Path, tmp_path: Path) -> None:
    bushel.build(examples, tmp_path / "out", run=bushel.Run(workers=1))
    data = bushel.open(tmp_path / "out")
    assert {name: sorted(split.values("age").tolist()) for name, split in data.splits.items()} == {
        "train": list(range(20)),
        "val": list(range(100, 108)),
    }


def test_one_split_of_tfx_opens_alone(examples: Path) -> None:
    assert {name: len(split) for name, split in bushel.open(examples / "1" / "Split-eval").splits.items()} == {"val": 8}


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.arange(300, dtype=np.uint16).astype(np.uint8).reshape(10, 10, 3)).save(out, "JPEG")
    return out.getvalue()


def test_records_of_the_object_detection_api_open_and_build(tmp_path: Path) -> None:
    """Fields and types as `create_pascal_tf_record.py` writes them; one image has no object."""
    records = [
        example(
            image__height=[10],
            image__width=[10],
            image__filename=[b"%d.jpg" % n],
            image__source_id=[b"%d.jpg" % n],
            image__key__sha256=[b"%064d" % n],
            image__encoded=[jpeg()],
            image__format=[b"jpeg"],
            image__object__bbox__xmin=[0.1] * count,
            image__object__bbox__xmax=[0.5] * count,
            image__object__bbox__ymin=[0.2] * count,
            image__object__bbox__ymax=[0.6] * count,
            image__object__class__text=[b"dog"] * count,
            image__object__class__label=[1] * count,
            image__object__difficult=[0] * count,
            image__object__view=[b"Frontal"] * count,
        )
        for n, count in enumerate((1, 3, 0, 2))
    ]
    path = write_records(tmp_path / "pascal_train.record-00000-of-00001", records)
    one = bushel.open(path)["train"][1]
    assert one["image/object/bbox/xmin"].tolist() == pytest.approx([0.1] * 3)
    assert one["image/object/class/text"] == ["dog"] * 3
    bushel.build(bushel.sources.records(path), tmp_path / "out", run=bushel.Run(workers=1))
    built = bushel.open(tmp_path / "out")["train"]
    assert sorted(len(built[n]["image/object/class/label"]) for n in range(4)) == [0, 1, 2, 3]
    assert built.schema["image/encoded"].encoding == "jpeg"
    resized = run("build", path, tmp_path / "small", "--resize", "8x8", "--workers", "1")
    assert resized.returncode == 0, resized.stderr
    assert resized.stderr == "note: 'image/encoded' is the only picture, so --resize and its like are about it\n"
    assert {bushel.open(tmp_path / "small")["train"][n]["image/width"] for n in range(4)} == {8}
    assert [f for f in bushel.check(tmp_path / "out").findings if f.severity == "error"] == []


def test_lists_of_tf_ranking_open_and_build(tmp_path: Path) -> None:
    """ExampleListWithContext: examples are field 1, the context is field 2, each a whole Example."""
    lists = [
        b"".join(field(1, example(score=[float(n * 10 + at)], relevance=[at])) for at in range(3))
        + field(2, example(query=[b"q%d" % n]))
        for n in range(4)
    ]
    path = write_records(tmp_path / "ranking.tfrecord", lists)
    batch = next(iter(bushel.batches(path, batch_size=4)))
    assert batch["relevance"].tolist() == [[0, 1, 2]] * 4
    bushel.build(path, tmp_path / "out", run=bushel.Run(workers=1))
    built = bushel.open(tmp_path / "out")["train"]
    found = {built[n]["query"]: built[n]["score"].tolist() for n in range(4)}
    assert found == {b"q%d" % n: [n * 10.0, n * 10 + 1.0, n * 10 + 2.0] for n in range(4)}
