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
from bushel.sources.folders import files_of, walk
from bushel.storage import as_path, listing, scanner_of, stores
from bushel.storage.objects import ObjectPath


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


def photo(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(number))


def coco(folder: Path) -> str:
    for number in range(6):
        photo(folder / "images" / f"{number}.png", number)
    document = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 10, "height": 12} for n in range(6)],
        "annotations": [{"id": n, "image_id": n, "category_id": 1 + n % 2, "bbox": [1, 2, 3, 4]} for n in range(6)],
        "categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}],
    }
    (folder / "annotations.json").write_text(json.dumps(document))
    return "annotations.json"


def voc(folder: Path) -> str:
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>6</xmax><ymax>7</ymax></bndbox>"
    (folder / "Annotations").mkdir()
    for number in range(20):
        photo(folder / "JPEGImages" / f"{number}.png", number)
        text = f"<annotation><filename>{number}.png</filename><object><name>dog</name>{box}</object></annotation>"
        (folder / "Annotations" / f"{number}.xml").write_text(text if number else text[:50])
    return ""


def yolo(folder: Path) -> str:
    (folder / "labels").mkdir()
    (folder / "data.yaml").write_text("names: [dog, cat]\n")
    for number in range(20):
        photo(folder / "images" / f"{number}.png", number)
        if number != 7:
            (folder / "labels" / f"{number}.txt").write_text(f"{number % 3} 0.5 0.5 0.2 0.2\n")
    return ""


def box_table(folder: Path) -> str:
    for number in range(6):
        photo(folder / "images" / f"{number}.png", number)
    rows = [f"{n},1,2,5,6,{'dog' if n % 2 else 'cat'}" for n in range(6)]
    (folder / "boxes.csv").write_text("\n".join(["filename,xmin,ymin,xmax,ymax,class", *rows]) + "\n")
    return "boxes.csv"


def videos(folder: Path) -> str:
    from clips import make_clip

    for number in range(3):
        make_clip(folder / ("run", "walk")[number % 2] / f"{number}.mp4", 20)
    (folder / "run" / "broken.mp4").write_bytes(b"no video")
    return ""


def slides(folder: Path) -> dict[str, Any]:
    pixels = np.random.default_rng(0).integers(0, 255, (70, 90, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "a.tif", "TIFF", compression="tiff_lzw")
    Image.fromarray(pixels[:50]).save(folder / "b.png")
    return {"kind": "tiles", "path": "", "height": 32, "width": 32}


def sensors(folder: Path) -> dict[str, Any]:
    rows = [f"{name},{n},{n * 0.5},{n % 3}" for name in "ab" for n in range(60)]
    (folder / "log.csv").write_text("\n".join(["id,t,x,what", *rows]) + "\n")
    return {"kind": "series", "path": "log.csv", "time": "t", "series": "id", "length": 8, "label": "what"}


def hugging_face(folder: Path) -> dict[str, Any]:
    rows_parquet(folder)
    return {"kind": "huggingface", "path": ""}


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
        coco,
        voc,
        yolo,
        box_table,
        videos,
        slides,
        sensors,
        hugging_face,
    ],
    ids=lambda make: make.__name__,
)
def test_the_same_shards_from_a_store_into_a_store(bucket: str, tmp_path: Path, make: Callable[[Path], Any]) -> None:
    (tmp_path / "raw").mkdir()
    made = make(tmp_path / "raw")
    told = made if isinstance(made, dict) else {"path": made}
    upload(tmp_path / "raw", f"{bucket}/raw")
    here, there = (
        bushel.build_recipe(bushel.Recipe(source=told | {"path": f"{root}/{told['path']}".rstrip("/")}, shards=2), out)
        for root, out in ((tmp_path / "raw", tmp_path / "here"), (f"{bucket}/raw", f"{bucket}/there"))
    )
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


def test_folders_of_a_store_are_listed_at_the_same_time_in_the_order_of_a_disk(bucket, tmp_path):
    names = ["b/2.png", "b/10.png", "a.png", "a/x/y/z.png", "a/x.png", "a-b/1.png", "a/x/1.png", "Z/1.png", ".no/1.png"]
    names += [f"many/{number:02d}/{number}.png" for number in range(70)]
    for name in names:
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_bytes(b"x")
    upload(tmp_path / "here", f"{bucket}/there")
    here, there = (walk(as_path(root), files_of("images")) for root in (tmp_path / "here", f"{bucket}/there"))
    assert len(here) == 78
    assert there.paths.to_list() == here.paths.to_list()
    assert there.folders.to_list() == here.folders.to_list()
    assert [there.folder.tolist(), there.sizes.tolist(), there.counted] == [
        here.folder.tolist(),
        here.sizes.tolist(),
        here.counted,
    ]


@pytest.mark.parametrize("prefix", ["", "a_long_beginning_"])
def test_a_large_folder_of_a_store_is_listed_in_parts_in_the_order_of_a_disk(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    names = [f"{number:03d}.png" for number in range(0, 300, 3)] + ["ä.png", "z#.png", "z{.png", "notes.md"]
    inside = ["05/x.png", "1/y/z.png", "zz/a.png", "zz/b.png"]
    for name in [*(prefix + name for name in names), *(prefix + name for name in inside)]:
        (place := tmp_path / "flat" / name).parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x" * (len(name) % 5))
    upload(tmp_path / "flat", f"{bucket}/flat")
    monkeypatch.setattr(stores, "PAGE", 5)  # so that few objects are many
    monkeypatch.setattr(listing, "_MANY", 1)
    monkeypatch.setattr(listing, "_CUTS", 8)
    parts = scanner_of(as_path(f"{bucket}/flat")).parts(b"")
    assert len(parts) > 8
    assert max(sum(map(len, part.pages())) for part in parts) < 30
    here, there = (walk(as_path(place), files_of("images")) for place in (tmp_path / "flat", f"{bucket}/flat"))
    assert list(there.paths) == list(here.paths)
    assert list(there.folders) == list(here.folders)
    assert np.array_equal(there.folder, here.folder)
    assert np.array_equal(there.sizes, here.sizes)
    assert there.counted == here.counted
