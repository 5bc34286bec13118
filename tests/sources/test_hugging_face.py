"""Datasets of Hugging Face on disk, in the files that `datasets` writes."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gather import keys_of, listed, read_all
from PIL import Image

from bushel.errors import BushelError, FileProblem
from bushel.sources import huggingface

FEATURES = {
    "image": {"_type": "Image"},
    "label": {"_type": "ClassLabel", "names": ["cat", "dog"]},
    "text": {"_type": "Value", "dtype": "string"},
}


def png(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("L", (4, 6), shade).save(out, "PNG")
    return out.getvalue()


def rows(count: int, extra: bytes | None = None) -> pa.Table:
    images: list[dict[str, Any]] = [{"bytes": png(i), "path": None} for i in range(count)]
    if extra is not None:
        images[-1]["bytes"] = extra
    columns = {"image": images, "label": [i % 2 for i in range(count)], "text": [f"t{i}" for i in range(count)]}
    metadata = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    return pa.table(columns).replace_schema_metadata(metadata)


def save_to_disk(folder: Path, table: pa.Table, files: int = 1) -> Path:
    """What `Dataset.save_to_disk` writes: streams of Arrow's, and a state that names them."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05}-of-{files:05}.arrow" for i in range(files)]
    step = -(-len(table) // files)
    for i, name in enumerate(names):
        with pa.ipc.new_stream(str(folder / name), table.schema) as stream:
            stream.write_table(table.slice(i * step, step), max_chunksize=2)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    return folder


def test_a_saved_dataset(tmp_path: Path) -> None:
    source = huggingface(save_to_disk(tmp_path / "d", rows(5), files=2))
    assert source.split is None
    assert source.schema()["label"].dtype == "str"
    columns, refused = read_all(source)
    assert not refused
    assert columns["image"] == [png(i) for i in range(5)]
    assert columns["image/height"] == [6] * 5
    assert columns["label"] == [b"cat", b"dog", b"cat", b"dog", b"cat"]
    assert columns["text"] == [b"t0", b"t1", b"t2", b"t3", b"t4"]
    assert set(columns) == set(source.schema())
    assert listed(source, "label") == columns["label"]
    assert keys_of(source)[:4] == [
        "data-00000-of-00002.arrow:0",
        "data-00000-of-00002.arrow:1",
        "data-00000-of-00002.arrow:2",
        "data-00001-of-00002.arrow:0",
    ]


def test_splits_of_a_saved_dict(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "d" / "train", rows(3))
    save_to_disk(tmp_path / "d" / "test", rows(2))
    (tmp_path / "d" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    source = huggingface(tmp_path / "d", columns=["text"])
    assert source.split == "split"
    assert listed(source, "split") == [b"train"] * 3 + [b"test"] * 2
    assert set(read_all(source)[0]) == {"text"}
    assert len(set(keys_of(source))) == 5


def test_parquet_files_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(rows(2, extra=b"broken"), tmp_path / "data" / "train-00000-of-00001.parquet")
    source = huggingface(tmp_path)
    assert listed(source, "split") == [b"train"] * 2
    columns, refused = read_all(source)
    assert columns["label"] == [b"cat"]
    assert [(r.row, r.stage) for r in refused] == [(1, "decode")]


@pytest.mark.parametrize("state", ['{"_data_files": [{"filename": "../x.arrow"}]}', "[" * 50_000, "{}", "[]"])
def test_a_saved_dataset_names_no_file_outside_its_folder(tmp_path: Path, state: str) -> None:
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data" / "train" / "state.json").write_text(state)
    for folder in (tmp_path / "data", tmp_path / "data" / "train"):
        (tmp_path / "data" / "dataset_dict.json").write_text('{"splits": ["train"]}')
        with pytest.raises(BushelError, match="names a file outside its folder|is not what `save_to_disk` writes"):
            huggingface(folder)
    (tmp_path / "data" / "dataset_dict.json").write_text('{"splits": ["../data/train"]}')
    with pytest.raises(FileProblem, match="names a split that has no folder"):
        huggingface(tmp_path / "data")


def test_a_folder_without_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="there is no Hugging Face dataset in this folder"):
        huggingface(tmp_path)
    with pytest.raises(FileProblem, match="there is no such folder"):
        huggingface(tmp_path / "gone")
    save_to_disk(tmp_path / "d", rows(1))
    (tmp_path / "d" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(FileProblem, match=r"there is no such file\n  Was the dataset saved whole\?"):
        huggingface(tmp_path / "d")


def test_what_the_package_itself_writes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}).cast_column(
        "label", datasets.ClassLabel(names=["no", "yes"])
    )
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(str(tmp_path / "d"))
    source = huggingface(tmp_path / "d")
    assert read_all(source)[0] == {"text": [b"a", b"b"] * 2, "label": [b"yes", b"no"] * 2}
    assert len(set(keys_of(source))) == 4


def test_sounds_are_the_bytes_of_their_files(tmp_path: Path) -> None:
    features = {"audio": {"_type": "Audio"}, "label": {"_type": "Value", "dtype": "string"}}
    table = pa.table({"audio": [{"bytes": b"RIFF", "path": "a.wav"}], "label": ["cat"]})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    source = huggingface(save_to_disk(tmp_path / "saved", table.replace_schema_metadata(metadata)))
    assert read_all(source)[0] == {"audio": [b"RIFF"], "audio/path": [b"a.wav"], "label": [b"cat"]}
