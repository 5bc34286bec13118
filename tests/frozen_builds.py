"""Small builds, each into the folder `out` of the current folder, from sources that it makes there.

They use public names alone, and source paths are relative, so that neither a move of modules nor the place of a
temporary folder can change what they write.
"""

import csv
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support import DATA, example, write_records

import bushel
from bushel import Balance, Constraint, Feature, Run, Schema, sources
from bushel import transforms as t

IMAGES = DATA / "frozen_images"
ONE = Run(workers=1)
ANIMALS = ["bird", "cat", "dog"]
WORDS = ["apple", "pear", "plum", "quince", "fig", "Äpfel"]


def fill_csv(path: str, rows: range) -> str:
    """Rows whose numbers are exact in binary, so that sums do not depend on the order of additions."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "age", "height", "city", "label"])
        for n in rows:
            blank_or_age = "" if n % 11 == 0 else n % 64
            writer.writerow([f"p{n}", blank_or_age, n * 0.25, f"Zürich {n % 4}", ANIMALS[n * 7 % 11 % 3]])
    return path


def fill_lines(path: str, rows: list[dict[str, Any]]) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")
    return path


def from_csv(run: Run = ONE) -> None:
    source = sources.table(fill_csv("people.csv", range(120)), key="id")
    bushel.build(source, "out", split="80/10/10", shards=3, run=run)


def from_json_lines(run: Run = ONE) -> None:
    rows = [{"n": n, "tags": WORDS[: n % 4], "x": [n / 2, -n / 4], "label": n % 3} for n in range(40)]
    bushel.build(fill_lines("rows.jsonl", rows), "out", split="80/20", seed=5, run=run)


def from_parquet(run: Run = ONE) -> None:
    columns = {
        "n": pa.array(range(50), pa.int32()),
        "x": pa.array([None if n % 7 == 0 else n / 8 for n in range(50)], pa.float32()),
        "list": pa.array([list(range(n % 3)) for n in range(50)], pa.list_(pa.int64())),
        "label": pa.array([ANIMALS[n % 3] for n in range(50)]),
    }
    pq.write_table(pa.table(columns), "rows.parquet", row_group_size=20)
    bushel.build("rows.parquet", "out", split="70/30", order="source", run=run)


def from_text(run: Run = ONE) -> None:
    for n in range(30):
        path = Path("texts") / ANIMALS[n % 2] / f"{n:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(WORDS[(n * k) % 6] for k in range(1, 3 + n % 5)) + ".\n", encoding="utf-8")
    chain = [t.clean("text"), t.tokenise("text", size=6, length=5, out="ids"), t.tfidf("text", ngrams=(1, 2), size=12)]
    bushel.build(sources.text("texts"), "out", transforms=chain, split="80/20", run=run)


def from_lines_of_text(run: Run = ONE) -> None:
    Path("lines.txt").write_text("".join(f"{WORDS[n % 6]} {n}\n" for n in range(25)), encoding="utf-8")
    bushel.build(sources.text("lines.txt"), "out", transforms=[t.hash_ngrams("text", size=64)], run=run)


def scaled(run: Run = ONE) -> None:
    source = sources.table(
        fill_csv("people.csv", range(96)), key="id", columns=["id", "age", "height", "city", "label"]
    )
    chain = [
        t.fill("age", by="median", indicator=True),
        t.min_max("age"),
        t.standardise("height"),
        t.one_hot("city"),
    ]
    bushel.build(source, "out", transforms=chain, split="75/25", run=run)


def from_images(run: Run = ONE) -> None:
    shutil.copytree(IMAGES, "photos")
    chain = [t.resize_encoded("image", 6, 5, form="png")]
    bushel.build("photos", "out", transforms=chain, split={"train": 0.75, "val": 0.25}, exact=True, run=run)


def from_images_as_they_are(run: Run = ONE) -> None:
    shutil.copytree(IMAGES, "photos")
    bushel.build(sources.images("photos"), "out", shard_size=2000, run=run)


def from_series(run: Run = ONE) -> None:
    lines = ["time,engine,heat,load,label"]
    for engine in "abcd":
        lines += [f"{n},{engine},{n * 0.5},{n % 8},{int(n > 20)}" for n in range(40) if n != 17]
    Path("log.csv").write_text("\n".join(lines) + "\n")
    source = sources.series("log.csv", time="time", series="engine", length=8, stride=4, gap=1.5, times=True)
    bushel.build(source, "out", transforms=[t.standardise("values")], split="50/50", exact=True, run=run)


def from_coco(run: Run = ONE) -> None:
    Path("coco/images").mkdir(parents=True)
    for n in range(4):
        shutil.copy(next((IMAGES / "leaf").glob(f"{n}.*")), Path("coco/images"))
    names = sorted(path.name for path in Path("coco/images").iterdir())
    document = {
        "images": [{"id": n, "file_name": name, "width": 12, "height": 8 + n} for n, name in enumerate(names)],
        "annotations": [
            {"id": n, "image_id": n % 3, "category_id": 1 + n % 2, "bbox": [n, 1, 4, 3], "iscrowd": 0, "area": 12}
            for n in range(6)
        ],
        "categories": [{"id": 1, "name": "leaf"}, {"id": 2, "name": "stalk"}],
    }
    Path("coco/annotations.json").write_text(json.dumps(document))
    bushel.build(sources.coco("coco/annotations.json"), "out", run=run)


def as_gzip(run: Run = ONE) -> None:
    bushel.build(fill_csv("people.csv", range(60)), "out", compression="gzip", shards=2, run=run)


def as_zlib(run: Run = ONE) -> None:
    bushel.build(fill_csv("people.csv", range(60)), "out", compression="zlib", order="source", run=run)


def appended(run: Run = ONE) -> None:
    bushel.build(sources.table(fill_csv("people.csv", range(50)), key="id"), "out", split="80/20", run=run)
    more = sources.table(fill_csv("more.csv", range(40, 90)), key="id")
    bushel.build(more, "out", run=Run(workers=run.workers, append=True))


def uneven() -> dict[str, Any]:
    n = np.arange(80)
    return {"x": np.stack([n, n / 2], axis=1).astype(np.float32), "label": (n % 10 == 0).astype(np.int64)}


def oversampled(run: Run = ONE) -> None:
    bushel.build(uneven(), "out", balance="oversample", split="80/20", shards=2, run=run)


def undersampled(run: Run = ONE) -> None:
    bushel.build(uneven(), "out", balance=Balance(method="undersample", ratio=0.5), run=run)


def augmented(run: Run = ONE) -> None:
    shutil.copytree(IMAGES, "photos")
    for path in sorted(Path("photos/stone").iterdir())[1:]:
        path.unlink()
    for path in Path("photos").rglob("*.jpg"):
        shutil.copy(IMAGES / path.parent.name / "1.png", path.with_suffix(".png"))
        path.unlink()
    augment = [{"transform": "random_flip", "feature": "image"}, {"transform": "brightness", "feature": "image"}]
    bushel.build("photos", "out", balance=Balance(method="oversample", augment=augment), run=run)


def jittered(run: Run = ONE) -> None:
    augment = [{"transform": "jitter", "feature": "x", "std": 0.5}]
    bushel.build(uneven(), "out", balance=Balance(method="oversample", augment=augment), seed=3, run=run)


def stratified(run: Run = ONE) -> None:
    bushel.build(fill_csv("people.csv", range(90)), "out", split="60/20/20", stratify="label", exact=True, run=run)


def grouped(run: Run = ONE) -> None:
    source = sources.table(fill_csv("people.csv", range(90)), key="id")
    bushel.build(source, "out", split="60/40", group="city", seed=11, run=run)


def sparse(run: Run = ONE) -> None:
    rows = np.arange(40)[:, None] * np.arange(30) % 97
    data = {"x": np.where(rows < 12, rows, 0).astype(np.float32), "label": np.arange(40) % 2}
    bushel.build(data, "out", transforms=[t.sparse("x")], run=run)


def write_clips(path: str) -> None:
    schema = Schema(
        record="sequence_example",
        features={
            "label": Feature(dtype="int64"),
            "frame": Feature(dtype="uint8", shape=(2, 2), encoding="raw", sequence=True),
            "pose": Feature(dtype="float32", shape=(3,), sequence=True),
            "word": Feature(dtype="str", sequence=True),
        },
    )
    with bushel.Writer(path, schema=schema) as writer:
        for n in range(12):
            steps = range(1 + n % 4)
            writer.write(
                {
                    "label": n,
                    "frame": [np.full((2, 2), step, np.uint8) for step in steps],
                    "pose": [np.full(3, step + n / 2, np.float32) for step in steps],
                    "word": [WORDS[step] for step in steps],
                }
            )


def sequence_examples(run: Run = ONE) -> None:
    write_clips("clips.tfrecord")
    bushel.build(sources.records("clips.tfrecord"), "out", split="50/50", run=run)


def multi_label(run: Run = ONE) -> None:
    rows = [{"n": n, "label": ANIMALS[: n % 4]} for n in range(30)]
    bushel.build(fill_lines("rows.jsonl", rows), "out", split="80/20", run=run)


def regression(run: Run = ONE) -> None:
    n = np.arange(48)
    bushel.build((np.stack([n, -n], axis=1).astype(np.float32), n / 16), "out", split="75/25", run=run)


def refusing(run: Run = ONE) -> None:
    shutil.copytree(IMAGES, "photos")
    whole = Path("photos/leaf/1.png").read_bytes()
    Path("photos/leaf/1.png").write_bytes(whole[: len(whole) // 2])
    Path("photos/stone/9.png").write_bytes(b"no image")
    bushel.build(sources.images("photos"), "out", split="50/50", run=Run(workers=run.workers, max_bad=3))


def constrained(run: Run = ONE) -> None:
    limits = {"height": Constraint(min=1.0, max=14.0), "city": Constraint(values=["Zürich 0", "Zürich 1", "Zürich 2"])}
    source = sources.table(fill_csv("people.csv", range(64)), key="id")
    bushel.build(source, "out", constraints=limits, run=Run(workers=run.workers, max_bad="50%"))


def made_up() -> Iterator[dict[str, Any]]:
    for n in range(30):
        yield {"n": n, "x": np.full((2, 2), n, np.float32), "words": WORDS[: n % 3], "label": ANIMALS[n % 3]}
    yield {"n": "no number", "x": np.zeros((2, 2), np.float32), "words": [], "label": "cat"}


def from_iterable(run: Run = ONE) -> None:
    bushel.build(sources.iterable(made_up), "out", split="80/20", run=run)


def from_list(run: Run = ONE) -> None:
    samples = [{"key": f"k{n}", "raw": bytes(range(n)), "label": n % 2} for n in range(20)]
    bushel.build(sources.iterable(samples, key="key"), "out", run=run)


def from_records(run: Run = ONE) -> None:
    records = [
        example({"id": [n], "x": [n / 4, 1.0], "s": [WORDS[n % 6].encode()], "label": [n % 2]}) for n in range(30)
    ]
    write_records(Path("old.tfrecord"), records)
    bushel.build(sources.records("old.tfrecord", key="id"), "out", split="80/20", run=run)


def from_tar(run: Run = ONE) -> None:
    with tarfile.open("a.tar", "w") as archive:
        for n, image in enumerate(sorted(IMAGES.rglob("*.*g"))):
            files = {
                image.suffix[1:]: image.read_bytes(),
                "cls": str(n % 2).encode(),
                "txt": f"caption {n}".encode(),
                "json": json.dumps({"width": 12, "score": n / 2}).encode(),
            }
            for suffix, data in files.items():
                info = tarfile.TarInfo(f"d/{n:03}.{suffix}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    bushel.build(sources.webdataset("a.tar"), "out", run=run)


def write_every_kind(path: Path, **options: Any) -> None:
    schema = Schema.of(
        boxes=Feature(dtype="float32", shape=(None, 4)),
        grid=Feature(dtype="float32", shape=(2, 3)),
        label=Feature(dtype="int64"),
        maybe=Feature(dtype="int64", required=False),
        name=Feature(dtype="str"),
        raw=Feature(dtype="float64", shape=(3,)),
        wave=Feature(dtype="int16", shape=(None, 2), encoding="raw"),
    )
    with bushel.Writer(path, schema=schema, **options) as writer:
        for n in range(15):
            sample = {
                "boxes": np.arange(n % 3 * 4, dtype=np.float32).reshape(-1, 4),
                "grid": np.full((2, 3), n / 2, np.float32),
                "label": n % 5,
                "name": f"record {n} é",
                "raw": np.array([n, n / 3, 1e300]),
                "wave": np.arange(n % 4 * 2, dtype=np.int16).reshape(-1, 2) - n,
            }
            writer.write(sample if n % 2 else {**sample, "maybe": -n})


def written(run: Run = ONE) -> None:
    """Files of a Writer, with a schema beside them where they need one, and indexes that carry values."""
    out = Path("out")
    out.mkdir()
    write_every_kind(out / "every.tfrecord")
    write_clips("out/clips.tfrecord")
    with bushel.Writer(out / "plain.tfrecord") as writer:
        writer.write({"id": "a", "x": [1.0, 2.5], "n": -3})
        writer.write_batch({"id": ["b", "c"], "x": np.ones((2, 2), np.float32), "n": np.array([4, 1 << 40])})
    bushel.write_index(out / "every.tfrecord", label="label", key="name", lengths=["boxes"])
    bushel.write_index(out / "plain.tfrecord", key="id", values=["n", "id"])


def written_compressed(run: Run = ONE) -> None:
    Path("out").mkdir()
    write_every_kind(Path("out/every.tfrecord.gz"), compression="gzip")
    write_every_kind(Path("out/every.zlib.tfrecord"), compression="zlib")
    bushel.write_index("out/every.tfrecord.gz", label="label")


BUILDS: dict[str, Callable[[Run], None]] = {
    build.__name__: build
    for build in (
        from_csv,
        from_json_lines,
        from_parquet,
        from_text,
        from_lines_of_text,
        scaled,
        from_images,
        from_images_as_they_are,
        from_series,
        from_coco,
        as_gzip,
        as_zlib,
        appended,
        oversampled,
        undersampled,
        augmented,
        jittered,
        stratified,
        grouped,
        sparse,
        sequence_examples,
        multi_label,
        regression,
        refusing,
        constrained,
        from_iterable,
        from_list,
        from_records,
        from_tar,
        written,
        written_compressed,
    )
}

# Packages whose encoders or decoders make some of the bytes, so that another version may make others.
CODECS = {
    "from_images": ("pillow", "libjpeg-turbo", "libdeflate"),
    "augmented": ("libdeflate",),
    "as_gzip": ("isal",),
    "as_zlib": ("isal",),
    "written_compressed": ("isal",),
}
