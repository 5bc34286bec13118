"""Sources in object stores: what is built from them has the bytes of what is built from the same files here."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from test_building_objects import digests

import bushel
from bushel.storage import ObjectPath, as_path


def upload(folder: Path, url: str) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            target = as_path(f"{url}/{file.relative_to(folder).as_posix()}")
            assert isinstance(target, ObjectPath)
            target.put(file)


def picture(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 255, (12, 10, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def image_folders(folder: Path) -> str:
    for number in range(30):
        place = folder / ("cat", "dog", "eel/small")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.png").write_bytes(picture(number))
    (folder / "cat" / ".hidden.png").write_bytes(b"x")
    (folder / "cat" / "notes.md").write_text("x")
    (folder / "dog" / "broken.png").write_bytes(picture(1)[:60])
    return ""


def texts(folder: Path) -> str:
    for number in range(12):
        place = folder / ("good", "bad")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(f"text {number}")
    return ""


def lines(folder: Path) -> str:
    (folder / "a.txt").write_text("".join(f"line {i}\n" for i in range(500)))
    return "a.txt"


def rows_csv(folder: Path) -> str:
    (folder / "a.csv").write_text("x,y\n" + "".join(f"{i},{i * 0.5}\n" for i in range(800)))
    return "a.csv"


def rows_csv_gz(folder: Path) -> str:
    (folder / "a.csv.gz").write_bytes(gzip.compress(("x,y\n" + "".join(f"{i},n{i}\n" for i in range(300))).encode()))
    return "a.csv.gz"


def rows_jsonl(folder: Path) -> str:
    for part in range(3):
        text = "".join(json.dumps({"x": i, "t": f"t{i}"}) + "\n" for i in range(part * 100, part * 100 + 100))
        (folder / f"part-{part}.jsonl").write_text(text)
    return "part-*.jsonl"


def rows_parquet(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": list(range(500)), "t": [f"t{i}" for i in range(500)]}), folder / "a.parquet")
    return "a.parquet"


def arrays(folder: Path) -> str:
    np.savez(folder / "a.npz", x=np.arange(200.0, dtype=np.float32).reshape(100, 2), label=np.arange(100) % 3)
    return "a.npz"


def tars(folder: Path) -> str:
    with tarfile.open(folder / "a.tar", "w") as archive:
        for number in range(10):
            for name, data in ((f"{number}.png", picture(number)), (f"{number}.cls", str(number % 2).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return "a.tar"


def records(folder: Path) -> str:
    bushel.build({"x": np.arange(300), "label": np.arange(300) % 5}, folder / "data", split="70/30", shards=3)
    return "data"


def compressed_records(folder: Path) -> str:
    bushel.build({"x": np.arange(300)}, folder / "data", compression="gzip", shards=2)
    return "data"


@pytest.mark.parametrize(
    "make",
    [
        image_folders,
        texts,
        lines,
        rows_csv,
        rows_csv_gz,
        rows_jsonl,
        rows_parquet,
        arrays,
        tars,
        records,
        compressed_records,
    ],
    ids=lambda make: make.__name__,
)
def test_the_same_shards_from_a_store_into_a_store(bucket: str, tmp_path: Path, make: Callable[[Path], str]) -> None:
    (tmp_path / "raw").mkdir()
    name = make(tmp_path / "raw")
    upload(tmp_path / "raw", f"{bucket}/raw")
    options: dict[str, Any] = {"shards": 2}
    here = bushel.build(str(tmp_path / "raw" / name), tmp_path / "here", **options)
    there = bushel.build(f"{bucket}/raw/{name}".rstrip("/"), f"{bucket}/there", **options)
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")
    assert (here.samples, here.refused) == (there.samples, there.refused)
    assert here.manifest.counted == there.manifest.counted
    recipe = as_path(f"{bucket}/there/recipe.toml").read_text()
    assert f"{bucket}/raw" in recipe


def test_a_recipe_in_a_store_makes_the_same_dataset_again(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    upload_name = rows_csv(tmp_path / "raw")
    upload(tmp_path / "raw", f"{bucket}/raw")
    bushel.build(f"{bucket}/raw/{upload_name}", f"{bucket}/data", split="50/50")
    bushel.build_recipe(f"{bucket}/data/recipe.toml", f"{bucket}/again")
    assert digests(f"{bucket}/data") == digests(f"{bucket}/again")


def test_a_refused_image_is_named_by_its_place_in_the_store(bucket: str, tmp_path: Path) -> None:
    image_folders(tmp_path / "raw")
    upload(tmp_path / "raw", f"{bucket}/raw")
    bushel.build(f"{bucket}/raw", f"{bucket}/data")
    refused = json.loads(as_path(f"{bucket}/data/_quarantine.jsonl").read_text())
    assert refused["source"] == f"{bucket}/raw/dog/broken.png"
    found = bushel.provenance(f"{bucket}/data", "train", 3)
    assert found.source == f"{bucket}/raw/{found.key}"


def test_a_source_that_changed_is_not_continued_with(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    name = rows_csv(tmp_path / "raw")
    upload(tmp_path / "raw", f"{bucket}/raw")
    first = bushel.sources.table(f"{bucket}/raw/{name}").fingerprint()
    as_path(f"{bucket}/raw/{name}").write_bytes(b"x,y\n1,2\n")
    assert bushel.sources.table(f"{bucket}/raw/{name}").fingerprint() != first
