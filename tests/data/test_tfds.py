"""Folders of TensorFlow Datasets, made and read by itself: both ways, and with descriptions that lie."""

import json
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import example, run, write_records

import bushel
from bushel import BushelError, Feature, FileProblem, FormatError, Schema, SchemaMismatch
from bushel.data.columns import Ragged
from bushel.data.tf_descriptions import read_described

NAMES = ["cat", "ant", "bee"]  # not in the order of letters


@pytest.fixture(scope="module")
def tfds() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow_datasets

        yield tensorflow_datasets


def sample(number: int) -> dict[str, Any]:
    noise = np.random.default_rng(number)
    return {
        "image": noise.integers(0, 255, (10 + number % 3, 12, 3), dtype=np.uint8),
        "mask": noise.integers(0, 3, (8, 8, 1), dtype=np.uint8),
        "label": NAMES[number % 3],
        "matrix": noise.random((3, 7), dtype=np.float32),
        "flag": bool(number % 2),
        "byte": np.arange(4, dtype=np.uint8) + number,
        "wide": number / 3,
        "big": np.uint64(2**63 + number),
        "raw": noise.random((2, 2)),
        "zipped": noise.random((2, 2), dtype=np.float32),
        "free": noise.integers(0, 9, (1 + number % 2, 2, 3), dtype=np.int32),
        "name": f"nö {number}",
        "nested": {"a": number, "b": {"c": f"c{number}"}},
        "tokens": list(range(number % 4)),
        "pairs": noise.random((3, 2), dtype=np.float32),
        "objects": [{"bbox": (0.0, 0.1, 0.5, 0.6), "kind": at % 2} for at in range(number % 3)],
        "ragged": [[1, 2], [], [3]][: number % 4],
        "frames": noise.integers(0, 255, (number % 3, 8, 8, 3), dtype=np.uint8),
        "sound": noise.integers(-9, 9, (10 + number,)),
        "maybe": None if number % 2 else number,
        "words": [f"w{at}" for at in range(number % 3)],
        "spoken": {"en": "hi", "de": "hallo"},
        "plain": np.array([b"\xff", b"b"], dtype=object),
    }


@pytest.fixture(scope="module")
def everything(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a feature of each kind, written by TensorFlow Datasets: 8 records of train, 3 of validation."""
    kinds = tfds.features

    class Everything(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.2.0")

        def _info(self) -> Any:
            features = kinds.FeaturesDict(
                {
                    "image": kinds.Image(shape=(None, None, 3), encoding_format="png"),
                    "mask": kinds.LabeledImage(labels=3, shape=(8, 8, 1)),
                    "label": kinds.ClassLabel(names=NAMES),
                    "matrix": kinds.Tensor(shape=(3, 7), dtype=np.float32),
                    "flag": np.bool_,
                    "byte": kinds.Tensor(shape=(4,), dtype=np.uint8),
                    "wide": kinds.Scalar(np.float64),
                    "big": kinds.Scalar(np.uint64),
                    "raw": kinds.Tensor(shape=(2, 2), dtype=np.float64, encoding="bytes"),
                    "zipped": kinds.Tensor(shape=(2, 2), dtype=np.float32, encoding="zlib"),
                    "free": kinds.Tensor(shape=(None, None, 3), dtype=np.int32, encoding="bytes"),
                    "name": kinds.Text(),
                    "nested": {"a": np.int64, "b": {"c": kinds.Text()}},
                    "tokens": kinds.Sequence(np.int32),
                    "pairs": kinds.Sequence(kinds.Tensor(shape=(2,), dtype=np.float32), length=3),
                    "objects": kinds.Sequence(
                        {"bbox": kinds.BBoxFeature(), "kind": kinds.ClassLabel(names=["x", "y"])}
                    ),
                    "ragged": kinds.Sequence(kinds.Sequence(np.int64)),
                    "frames": kinds.Video(shape=(None, 8, 8, 3)),
                    "sound": kinds.Audio(sample_rate=16000),
                    "maybe": kinds.Scalar(np.int64, optional=True),
                    "words": kinds.Sequence(kinds.Text()),
                    "spoken": kinds.Translation(["en", "de"]),
                    "plain": kinds.Tensor(shape=(2,), dtype=np.str_),
                }
            )
            return tfds.core.DatasetInfo(builder=self, features=features, supervised_keys=("image", "label"))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples(range(8)), "validation": self._generate_examples(range(100, 103))}

        def _generate_examples(self, numbers: range) -> Any:
            for number in numbers:
                one = sample(number)
                one["objects"] = [{**each, "bbox": kinds.BBox(*each["bbox"])} for each in one["objects"]]
                yield number, one

    return made_by(tfds, Everything, tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def episodes(tfds: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes as RLDS lays them out: six of three to five steps."""
    kinds = tfds.features
    step = {
        "observation": {"image": kinds.Image(shape=(6, 6, 3)), "state": kinds.Tensor(shape=(4,), dtype=np.float64)},
        "action": kinds.Tensor(shape=(2,), dtype=np.float32),
        "reward": np.float32,
        "is_first": np.bool_,
        "language": kinds.Text(),
    }

    class Episodes(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("0.1.0")

        def _info(self) -> Any:
            features = kinds.FeaturesDict({"steps": kinds.Dataset(step), "episode_metadata": {"file": kinds.Text()}})
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            for episode in range(6):
                steps = [
                    {
                        "observation": {"image": np.full((6, 6, 3), at, np.uint8), "state": np.full(4, at / 2)},
                        "action": [at, episode],
                        "reward": float(at),
                        "is_first": at == 0,
                        "language": f"step {at}",
                    }
                    for at in range(3 + episode % 3)
                ]
                yield episode, {"steps": steps, "episode_metadata": {"file": f"f{episode}"}}

    return made_by(tfds, Episodes, tmp_path_factory.mktemp("rlds"))


def made_by(tfds: Any, builder: Any, folder: Path) -> Path:
    made = builder(data_dir=folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.download_and_prepare(download_config=tfds.download.DownloadConfig(try_download_gcs=False))
    return Path(made.data_dir)


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_values_have_the_types_and_shapes_that_they_were_given_with(everything: Path) -> None:
    train = bushel.open(everything)["train"]
    found = {one["nested/a"]: one for one in (train[number] for number in range(8))}
    assert sorted(found) == list(range(8))
    for number, one in found.items():
        wanted = sample(number)
        for name in ("matrix", "byte", "raw", "pairs", "sound"):
            assert one[name].dtype == np.asarray(wanted[name]).dtype, name
            assert one[name].tolist() == wanted[name].tolist(), name
        assert one["flag"] is wanted["flag"]
        assert one["big"] == wanted["big"]
        assert one["wide"] == np.float32(wanted["wide"])
        assert (one["name"], one["nested/b/c"]) == (wanted["name"], f"c{number}")
        assert (one["tokens"].dtype, one["tokens"].tolist()) == (np.int32, wanted["tokens"])
        assert one["objects/bbox"].shape == (number % 3, 4)
        assert one["objects/kind"].tolist() == [each["kind"] for each in wanted["objects"]]
        assert one["free/value"].reshape(one["free/shape"]).tolist() == wanted["free"].tolist()
        assert (one["words"], one["spoken/de"], one["plain"]) == (wanted["words"], "hallo", [b"\xff", b"b"])
        assert one.get("maybe") == wanted["maybe"]
        assert len(one["frames"]) == number % 3
        lengths = one["ragged/ragged_row_lengths_0"]
        assert [part.tolist() for part in np.split(one["ragged/ragged_flat_values"], np.cumsum(lengths))[:-1]] == (
            wanted["ragged"]
        )
        assert NAMES[one["label"]] == wanted["label"]


def test_splits_classes_and_counts_are_known_without_a_scan(everything: Path) -> None:
    data = bushel.open(everything)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 8, "validation": 3}
    assert "shards" not in data["train"].__dict__
    assert not (everything / "_index").exists()
    assert data.label is not None
    assert (data.label.feature, data.label.task, data.label.names) == ("label", "classification", NAMES)
    described = {name: feature.describe() for name, feature in data.schema.features.items()}
    assert described["matrix"] == "float32[3,7]"
    assert described["image"] == "bytes (png ?x?x3)"
    assert described["mask"] == "bytes (image 8x8x1)"
    assert described["frames"] == "bytes[?] (png 8x8x3)"
    assert described["flag"] == "bool"
    assert described["maybe"] == "int64, optional"


def test_the_folder_of_the_dataset_is_enough_if_it_has_one_version(everything: Path) -> None:
    assert len(bushel.open(everything.parent)["train"]) == 8
    assert bushel.info(everything.parent).disagreements == []
    assert [one["nested/a"] for one in bushel.scan(everything.parent)][:8] != []


def test_batches_hold_columns_of_those_types(everything: Path) -> None:
    with bushel.batches(bushel.open(everything)["train"], batch_size=4) as feed:
        batch = next(iter(feed))
    assert (batch["matrix"].shape, batch["flag"].dtype, batch["byte"].dtype) == ((4, 3, 7), np.bool_, np.uint8)
    assert isinstance(batch["objects/bbox"], Ragged)
    assert batch["objects/bbox"].values.shape[1:] == (4,)


def test_tensorflow_gets_those_types_too(everything: Path) -> None:
    import tensorflow as tf

    import bushel.tensorflow

    schema = bushel.open(everything).schema
    shard = str(next(everything.glob("*train*")))
    parse = bushel.tensorflow.parse_fn(schema, ["flag", "matrix", "big", "tokens", "byte"])
    parsed = next(iter(tf.data.TFRecordDataset(shard).batch(8).map(parse)))
    kinds = {name: value.dtype for name, value in parsed.items()}
    assert kinds == {
        "flag": tf.bool,
        "matrix": tf.float32,
        "big": tf.uint64,
        "tokens": tf.int32,
        "byte": tf.uint8,
    }
    assert parsed["matrix"].shape == (8, 3, 7)
    assert int(tf.reduce_min(tf.bitcast(parsed["big"], tf.int64))) == -(2**63)
    first = next(iter(bushel.tensorflow.dataset(everything, "train", batch_size=8, columns=["flag", "byte"])))
    assert (first["flag"].dtype, first["byte"].dtype) == (tf.bool, tf.uint8)


def test_episodes_open_with_their_steps(episodes: Path) -> None:
    train = bushel.open(episodes)["train"]
    found = {one["episode_metadata/file"]: one for one in (train[number] for number in range(6))}
    one = found["f4"]
    assert one["steps/action"].tolist() == [[at, 4] for at in range(4)]
    assert one["steps/is_first"].tolist() == [True, False, False, False]
    assert (one["steps/is_first"].dtype, one["steps/observation/state"].dtype) == (np.bool_, np.float64)
    assert one["steps/observation/state"].tolist() == [[at / 2] * 4 for at in range(4)]
    assert one["steps/language"] == [f"step {at}" for at in range(4)]
    assert len(one["steps/observation/image"]) == 4


def test_what_schema_prints_for_tensorflow_has_the_shapes_and_runs(everything: Path) -> None:
    import tensorflow as tf

    done = run("schema", everything, "--tf")
    assert "'matrix': tf.io.FixedLenFeature([3, 7], tf.float32)," in done.stdout
    assert "'byte': tf.io.FixedLenFeature([4], tf.int64),  # tf.cast(..., tf.uint8)" in done.stdout
    names: dict[str, Any] = {"tf": tf}
    exec(done.stdout, names)
    shard = str(next(everything.glob("*train*")))
    parsed = next(
        iter(
            tf.data.TFRecordDataset(shard).batch(8).map(lambda x: tf.io.parse_example(x, names["feature_description"]))
        )
    )
    assert parsed["matrix"].shape == (8, 3, 7)


def test_info_shows_splits_and_check_finds_no_error(everything: Path) -> None:
    shown = run("info", everything)
    assert shown.returncode == 0
    assert "train: 8 records in 1 shard" in shown.stdout
    assert "float32[3,7]" in shown.stdout
    report = bushel.check(everything)
    errors = [finding.message for finding in report.findings if finding.severity == "error"]
    assert errors == ["'plain': 11 of 22 values are not UTF-8 text"]


def test_a_build_takes_over_types_splits_and_names(everything: Path, tmp_path: Path) -> None:
    bushel.build(everything, tmp_path / "out", run=bushel.Run(workers=1))
    before, after = bushel.open(everything), bushel.open(tmp_path / "out")
    assert {name: len(split) for name, split in after.splits.items()} == {"train": 8, "val": 3}
    old = {one["name"]: one for one in (before["train"][number] for number in range(8))}
    for number in range(8):
        one = after["train"][number]
        wanted = old[one["name"]]
        assert after.label is not None
        assert after.label.names[one["label"]] == NAMES[wanted["label"]]
        for name in wanted.keys() - {"label"}:
            assert plain(one[name]) == plain(wanted[name]), name
            assert getattr(one[name], "dtype", None) == getattr(wanted[name], "dtype", None), name


def test_a_transform_ends_what_was_said_about_an_image(everything: Path, tmp_path: Path) -> None:
    steps = [bushel.transforms.resize_encoded("mask", height=4, width=4)]
    bushel.build(everything, tmp_path / "out", transforms=steps, run=bushel.Run(workers=1))
    schema = bushel.read_manifest(tmp_path / "out").schema
    assert schema["mask"].pixels == ()
    assert schema["frames"].pixels == (8, 8, 3)


# Written by bushel, read by TensorFlow Datasets.


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    noise = np.random.default_rng(0)
    for number in range(12):
        place = tmp_path / "photos" / NAMES[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 255, (9, 8 + number % 2, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.png")
    bushel.build(tmp_path / "photos", tmp_path / "data", split="80/20", shards=2, run=bushel.Run(workers=1))
    return tmp_path / "data"


def test_a_build_of_images_is_read_with_pixels_and_names(photos: Path, tfds: Any) -> None:
    builder = tfds.builder_from_directory(photos)
    data = bushel.open(photos)
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == {
        name: len(split) for name, split in data.splits.items()
    }
    assert builder.info.features["label"].names == sorted(NAMES)
    rows = list(tfds.as_numpy(builder.as_dataset("train")))
    assert [row["key"].decode() for row in rows] == [data["train"][n]["key"] for n in range(len(rows))]
    for row in rows:
        path = photos.parent / "photos" / row["key"].decode()
        assert row["image"].tolist() == np.asarray(Image.open(path)).tolist()
        assert builder.info.features["label"].int2str(row["label"]) == path.parent.name
    pixels, label = next(iter(tfds.as_numpy(builder.as_dataset("val", as_supervised=True))))
    assert (pixels.ndim, int(label) in (0, 1, 2)) == (3, True)


def test_a_build_of_arrays_is_read_with_types_and_shapes(tfds: Any, tmp_path: Path) -> None:
    schema = Schema.of(
        x=Feature(dtype="float32", shape=(3, 2)),
        n=Feature(dtype="int64"),
        words=Feature(dtype="str", shape=(None,)),
        pair=Feature(dtype="float32", shape=(None, 2)),
        text=Feature(dtype="str"),
        some=Feature(dtype="int64", required=False),
        few=Feature(dtype="str", required=False),
        tensor=Feature(dtype="uint8", shape=(2, 2), encoding="raw"),
        half=Feature(dtype="float16", shape=(2,), encoding="raw"),
        unsigned=Feature(dtype="uint64", shape=(2,), encoding="raw"),
        truth=Feature(dtype="bool", shape=(2,), encoding="raw"),
        rows=Feature(dtype="int16", shape=(None, 2), encoding="raw"),
        flag=Feature(dtype="int64", reads_as="bool"),
    )
    samples = [
        {
            "x": np.full((3, 2), n, np.float32),
            "n": n,
            "words": ["ä"] * n,
            "pair": np.ones((n, 2), np.float32),
            "text": f"t{n}",
            **({"some": n, "few": "x"} if n else {}),
            "tensor": np.full((2, 2), n, np.uint8),
            "half": np.array([n, 0.5], np.float16),
            "unsigned": np.array([n, 2**64 - 1], np.uint64),
            "truth": np.array([True, n > 0]),
            "rows": np.ones((n, 2), np.int16),
            "flag": n > 1,
        }
        for n in range(3)
    ]
    with bushel.Writer(tmp_path / "samples.tfrecord", schema=schema) as writer:
        for one in samples:
            writer.write(one)
    bushel.build(tmp_path / "samples.tfrecord", tmp_path / "out", run=bushel.Run(workers=1))
    builder = tfds.builder_from_directory(tmp_path / "out")
    rows = {int(row["n"]): row for row in tfds.as_numpy(builder.as_dataset("train"))}
    for n, row in rows.items():
        assert row["x"].tolist() == [[n, n]] * 3
        assert row["words"].tolist() == ["ä".encode()] * n
        assert row["pair"].shape == (n, 2)
        assert row["text"] == f"t{n}".encode()
        assert n == 0 or row["some"] == n  # it has a default of its own for what a record lacks
        assert (row["tensor"].dtype, row["tensor"].tolist()) == (np.uint8, [[n, n], [n, n]])
        assert (row["half"].dtype, row["half"].tolist()) == (np.float16, [n, 0.5])
        assert row["unsigned"].tolist() == [n, 2**64 - 1]
        assert row["truth"].tolist() == [True, n > 0]
        assert (row["rows"].dtype, row["rows"].shape) == (np.int16, (n, 2))
        assert row["flag"] == (n > 1)
        assert row["flag"].dtype == np.bool_


@pytest.mark.parametrize(
    ("feature", "why"),
    [
        (Feature(dtype="float32", shape=(9,), encoding="sparse"), "'x' is sparse"),
        (Feature(dtype="int64", sequence=True), "records are SequenceExamples"),
        (Feature(dtype="uint32", shape=(2,), encoding="raw"), "'x' is uint32[2] (raw)"),
    ],
)
def test_what_has_no_form_is_reported_and_not_written(feature: Feature, why: str, tmp_path: Path) -> None:
    schema = Schema.of(x=feature)
    value: Any = [1, 2] if feature.sequence else np.ones(2, np.uint32)
    if feature.encoding == "sparse":
        value = bushel.SparseRow(np.array([1]), np.ones(1, np.float32), 9)
    with bushel.Writer(tmp_path / "x.tfrecord", schema=schema) as writer:
        writer.write({"x": value})
    built = run("build", tmp_path / "x.tfrecord", tmp_path / "out")
    assert f"note: TensorFlow Datasets cannot read this folder: {why}\n" in built.stdout
    assert not (tmp_path / "out" / "features.json").exists()
    exported = run("export", tmp_path / "out", tmp_path / "again", "--format", "tfds")
    assert exported.stderr == f"bushel: TensorFlow Datasets has no form for these records: {why}\n"
    assert exported.returncode == 2


def test_appending_removes_the_description_and_export_writes_one(tfds: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,label\n1,x\n2,y\n")
    (tmp_path / "b.csv").write_text("n,label\n3,x\n")
    bushel.build(bushel.sources.table(tmp_path / "a.csv", key="n"), tmp_path / "out")
    assert (tmp_path / "out" / "dataset_info.json").exists()
    added = bushel.sources.table(tmp_path / "b.csv", key="n")
    bushel.build(added, tmp_path / "out", run=bushel.Run(append=True))
    left = sorted(path.name for path in (tmp_path / "out").glob("*.*") if "tfrecord" not in path.name)
    assert left == ["_quarantine.jsonl", "dataset.json", "recipe.toml"]
    bushel.export_dataset(tmp_path / "out", tmp_path / "tfds", format="tfds")
    builder = tfds.builder_from_directory(tmp_path / "tfds")
    assert sorted(int(row["n"]) for row in tfds.as_numpy(builder.as_dataset("train"))) == [1, 2, 3]
    assert builder.info.features["label"].names == ["x", "y"]


def test_shards_that_are_compressed_are_exported_for_it(photos: Path, tfds: Any, tmp_path: Path) -> None:
    bushel.build(photos, tmp_path / "zipped", compression="gzip", run=bushel.Run(workers=1))
    assert not (tmp_path / "zipped" / "dataset_info.json").exists()
    bushel.export_dataset(tmp_path / "zipped", tmp_path / "out", format="tfds")
    builder = tfds.builder_from_directory(tmp_path / "out")
    names = {builder.info.features["label"].int2str(row["label"]) for row in tfds.as_numpy(builder.as_dataset("train"))}
    assert names == set(NAMES)
    assert len(bushel.open(tmp_path / "out")["train"]) == len(bushel.open(photos)["train"])


# Descriptions by anybody.

TENSOR = {"pythonClassName": "x.Tensor", "tensor": {"dtype": "int64", "shape": {}}}


def described(folder: Path, features: Any = None, **info: Any) -> Path:
    folder.mkdir()
    write_records(folder / "d-train.tfrecord-00000-of-00001", [example({"n": [1]}), example({"n": [2]})])
    told = {"name": "d", "splits": [{"name": "train", "shardLengths": ["2"]}], **info}
    (folder / "dataset_info.json").write_text(json.dumps(told))
    inside = {"n": TENSOR} if features is None else features
    (folder / "features.json").write_text(json.dumps({"pythonClassName": "", "featuresDict": {"features": inside}}))
    return folder


def test_a_small_description_opens(tmp_path: Path) -> None:
    data = bushel.open(described(tmp_path / "d"))
    assert [data["train"][n]["n"] for n in range(2)] == [1, 2]


def test_files_of_older_versions_are_understood(tmp_path: Path) -> None:
    folder = described(tmp_path / "d")
    package = "tensorflow_datasets.core.features"
    old = {
        "type": f"{package}.features_dict.FeaturesDict",
        "content": {
            "n": {"type": f"{package}.class_label_feature.ClassLabel", "content": {"num_classes": 3}},
            "image": {
                "type": f"{package}.image_feature.Image",
                "content": {"shape": [28, 28, 1], "dtype": "uint8", "encoding_format": "png"},
            },
            "seen": {
                "type": f"{package}.sequence_feature.Sequence",
                "content": {
                    "feature": {
                        "type": f"{package}.tensor_feature.Tensor",
                        "content": {"shape": [2], "dtype": "bool", "encoding": "none"},
                    },
                    "length": None,
                },
            },
        },
    }
    (folder / "features.json").write_text(json.dumps(old))
    (folder / "n.labels.txt").write_text("one\ntwo\nthree\n")
    told = read_described(folder)
    assert {name: feature.describe() for name, feature in told.schema.features.items()} == {
        "n": "int64",
        "image": "bytes (png 28x28x1)",
        "seen": "bool[?,2]",
    }
    assert told.label is not None
    assert told.label.names == ["one", "two", "three"]


@pytest.mark.parametrize(
    "template", ["../{SPLIT}.tfrecord", "/etc/{SPLIT}", "{SPLIT}\n.tfrecord", "a\\{SPLIT}", "s3://x/{SPLIT}"]
)
def test_a_shard_elsewhere_is_refused(template: str, tmp_path: Path) -> None:
    splits = [{"name": "train", "shardLengths": ["2"], "filepathTemplate": template}]
    folder = described(tmp_path / "d", splits=splits)
    with pytest.raises(FormatError, match=r"splits.train.shards\[0\]: path must be"):
        bushel.open(folder)


@pytest.mark.parametrize(
    ("splits", "why"),
    [
        ([{"name": "train", "shardLengths": ["2"], "filepathTemplate": "{SPLIT.__class__}-{NUMBER}"}], "NUMBER"),
        ([{"name": "train", "shardLengths": ["1", "1"], "filepathTemplate": "x"}], "have the same name"),
        ([{"name": "train", "shardLengths": ["two"]}], "invalid literal"),
        ([{"name": "train", "shardLengths": ["2"]}] * 2, "text that occurs once"),
        ([{"name": 7, "shardLengths": ["2"]}], "text that occurs once"),
        ([], "no split has a shard"),
        ({"train": 2}, "indices"),
    ],
)
def test_splits_that_make_no_sense_are_refused(splits: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=why):
        bushel.open(described(tmp_path / "d", splits=splits))


def nested(depth: int) -> Any:
    return TENSOR if not depth else {"pythonClassName": "", "featuresDict": {"features": {"n": nested(depth - 1)}}}


@pytest.mark.parametrize(
    ("features", "why"),
    [
        ({"n": nested(100)}, "nested too deeply"),
        ({"n": {"tensor": {"dtype": "int64", "shape": {"dimensions": [2**40, 2**40]}}}}, "too large"),
        ({"n": {"tensor": {"dtype": "os.system", "shape": {}}}}, "no such dtype"),
        ({"n": {"tensor": {"shape": {}}}}, "dtype"),
        ({"n": 7}, "argument of type"),
        ({}, "none that bushel knows"),
    ],
)
def test_features_that_make_no_sense_are_refused(features: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=why):
        bushel.open(described(tmp_path / "d", features))


def test_json_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = described(tmp_path / "d")
    (folder / "features.json").write_text("[" * 100_000)
    with pytest.raises(FormatError, match=r"features.json: not JSON"):
        bushel.open(folder)
    (folder / "features.json").write_text("[]")
    with pytest.raises(FormatError, match="not a description by TensorFlow Datasets"):
        bushel.open(folder)


def test_records_in_other_files_than_tfrecords_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="in files of format array_record, not in TFRecords"):
        bushel.open(described(tmp_path / "d", fileFormat="array_record"))


def test_fewer_records_than_promised_are_reported(tmp_path: Path) -> None:
    folder = described(tmp_path / "d", splits=[{"name": "train", "shardLengths": ["3"]}])
    train = bushel.open(folder)["train"]
    assert len(train) == 3
    with pytest.raises(FileProblem, match="has 2 records, and the manifest says 3"):
        train.read(np.arange(2))
    assert bushel.info(folder).disagreements != []


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = described(tmp_path / "d", splits=[{"name": "test", "shardLengths": ["3"]}])
    with pytest.raises(FileProblem, match="d-test.tfrecord-00000-of-00001: there is no such file"):
        bushel.open(folder)["test"][0]


def test_a_value_that_does_not_fit_its_type_is_an_error(tmp_path: Path) -> None:
    folder = described(tmp_path / "d", {"n": {"tensor": {"dtype": "bool", "shape": {}}}})
    with pytest.raises(SchemaMismatch, match="2 does not fit bool, which the schema says"):
        bushel.open(folder)["train"][1]


def test_features_of_other_code_are_left_out_with_a_warning(tmp_path: Path) -> None:
    folder = described(tmp_path / "d", {"n": TENSOR, "own": {"pythonClassName": "os.system", "jsonFeature": {}}})
    with pytest.warns(bushel.BushelWarning, match="own: made by custom code, so it is left out"):
        data = bushel.open(folder)
    assert list(data.schema) == ["n"]


def test_a_name_that_leads_elsewhere_opens_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret.labels.txt").write_text("secret\n")
    label = {"pythonClassName": "", "classLabel": {"numClasses": "3"}}
    data = bushel.open(described(tmp_path / "d", {"../secret": label}))
    assert data.label is not None
    assert data.label.names == []


def test_a_file_of_names_that_is_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("one\ntwo\nthree\n")
    label = {"pythonClassName": "", "classLabel": {"numClasses": "3"}}
    folder = described(tmp_path / "d", {"n": label})
    (folder / "n.labels.txt").symlink_to("../secret")
    with pytest.raises(bushel.FileProblem, match=r"n.labels.txt: is a link that leaves the folder"):
        bushel.open(folder)


def test_an_error_of_bushel_is_all_that_a_broken_description_raises(tmp_path: Path) -> None:
    folder = described(tmp_path / "d")
    noise = np.random.default_rng(0)
    for name in ("features.json", "dataset_info.json"):
        whole = (folder / name).read_bytes()
        for _ in range(150):
            data = bytearray(whole)
            data[noise.integers(len(data))] = noise.integers(256)
            (folder / name).write_bytes(data)
            with suppress(BushelError):
                bushel.read_manifest(folder)
        (folder / name).write_bytes(whole)


@pytest.mark.slow
def test_a_model_is_trained_on_it_and_exports_its_contract(everything: Path, tmp_path: Path) -> None:
    from bushel.training import Options

    options = Options(epochs=1, columns=("matrix", "byte", "flag"), preflight=False)
    trained = bushel.train(everything, options, out=tmp_path / "run")
    assert (tmp_path / "run" / "contract.json").is_file()
    assert trained.history
    found = list(bushel.predict(tmp_path / "run", everything, split="validation"))
    assert {one.label for one in found} <= set(NAMES)
    assert len(found) == 3
