"""Small data for each page of the documentation: the files and datasets that its blocks name."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

import bushel

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))


def digits(count: int = 200) -> None:
    """A folder with a class per digit, and one broken file."""
    from sklearn.datasets import load_digits

    found = load_digits()
    for number, (pixels, label) in enumerate(zip(found.images[:count], found.target[:count], strict=True)):
        place = Path("photos") / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).resize((32, 32)).save(place / f"{number:04}.png")
    whole = Path("photos/0/0000.png").read_bytes()
    Path("photos/0/broken.png").write_bytes(whole[: len(whole) // 2])


def table() -> None:
    rows = [f"{n},{20 + n % 60},{['yes', 'no'][n % 2]},{['cat', 'dog'][n % 2]}" for n in range(60)]
    Path("rows.csv").write_text("\n".join(["id,age,answer,species", *rows]))


def coco() -> None:
    Path("coco/images").mkdir(parents=True)
    Image.new("RGB", (16, 16)).save("coco/images/1.jpg")
    image = {"id": 1, "file_name": "1.jpg", "height": 16, "width": 16}
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 8, 8], "area": 64, "iscrowd": 0}
    box["segmentation"] = [[1, 2, 9, 2, 9, 10, 1, 10]]
    kinds = [{"id": 1, "name": "cat"}]
    found = {"images": [image], "annotations": [box], "categories": kinds}
    Path("coco/annotations.json").write_text(json.dumps(found))


def slides() -> None:
    Path("slides").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    for number in range(4):
        Image.fromarray(noise).save(f"slides/{number}.png")


def clips() -> None:
    from clips import make_clip

    make_clip(Path("clips/a.mp4"), 40)


def logs() -> None:
    rows = [f"{series},{n / 50},{n % 100},walk" for series in "abcd" for n in range(200)]
    Path("logs.csv").write_text("\n".join(["id,t,ax,activity", *rows]))


def tars() -> None:
    Path("shards").mkdir()
    for name in ("shards/shard-000.tar", "shard-000.tar"):
        data = io.BytesIO()
        Image.new("RGB", (8, 8)).save(data, "JPEG")
        with tarfile.open(name, "w") as archive:
            for number in range(3):
                info = tarfile.TarInfo(f"{number:03}.jpg")
                info.size = len(data.getvalue())
                archive.addfile(info, io.BytesIO(data.getvalue()))


def sounds() -> None:
    for number in range(12):
        place = Path("sounds") / ("low" if number % 2 == 0 else "high")
        place.mkdir(parents=True, exist_ok=True)
        samples = 9000 * np.sin(np.arange(12_000) * (0.1 + 0.2 * (number % 2)))
        with wave.open(str(place / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(samples.astype("<i2").tobytes())


def reviews() -> None:
    words = ("a fine film that I liked", "dull and far too long", "what a story", "I left early")
    for number in range(80):
        place = Path("reviews") / ("pos" if number % 2 == 0 else "neg")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(f"{words[number % 4]} {number}")


def building() -> None:
    digits(120)
    Path("photos/0/broken.png").unlink()
    table()
    coco()
    slides()
    clips()
    logs()
    tars()
    np.savez("x.npz", x=np.zeros((20, 3), "float32"), label=np.arange(20) % 2)
    Path("old").mkdir()
    with bushel.Writer("old/theirs.tfrecord") as writer:
        writer.write_batch({"x": np.arange(50), "name": [f"n{number}" for number in range(50)]})


def built_digits() -> None:
    digits(400)
    Path("photos/0/broken.png").unlink()
    bushel.build("photos", "data", split="70/15/15")


def small_network() -> str:
    """A model that trains in a moment."""
    Path("net.py").write_text(
        "import keras\n\n\ndef build_model(problem):\n"
        "    inputs = keras.Input(problem.input_shape)\n"
        "    return keras.Model(inputs, keras.layers.Dense(problem.outputs)(keras.layers.Flatten()(inputs)))\n"
    )
    return "net.py:build_model"


def training() -> None:
    built_digits()
    small_network()
    rows = [{"size": float(n % 17), "colour": ("red", "blue")[n % 2], "label": int(n % 17 > 8)} for n in range(300)]
    bushel.build(iter(rows), "table", split="80/20")


def checks() -> None:
    built_digits()
    from bushel.training import Options

    bushel.train("data", Options(epochs=1, model=small_network()), out="run")
    Path("train.py").write_text(
        "import tensorflow as tf\n\nfiles = tf.io.gfile.glob('data/train-*.tfrecord')\n"
        "ds = tf.data.TFRecordDataset(files).shuffle(1000).batch(32)\n"
    )


def serving() -> None:
    built_digits()
    from bushel.training import Options

    bushel.train("data", Options(epochs=2, model=small_network()), out="runs/digits")


def tensorflow() -> None:
    from bushel import transforms as t

    built_digits()
    reviews()
    Path("reviews").rename("texts")
    bushel.build("texts", "reviews", split="80/20", transforms=[t.clean(lower=True, form="none"), t.tokenise(length=8)])


def preparing() -> None:
    digits(200)
    reviews()
    cities = ("Oslo", "Rome")
    rows = [f"{'' if n % 7 == 0 else 20 + n % 50},{cities[n % 2]},{int(n % 9 == 0)}" for n in range(300)]
    Path("people.csv").write_text("\n".join(["age,city,bought", *rows]))
    Path("scans/a").mkdir(parents=True)
    for number in range(4):
        Image.fromarray(np.full((32, 32), 257 * number, np.uint16)).save(f"scans/a/{number}.png")


def sources() -> None:
    coco()
    slides()
    clips()
    logs()
    tars()
    reviews()
    sounds()
    for name in ("photos/cat/1.jpg", "flat/1.jpg", "flat/2.jpg", "voc/1.jpg", "yolo/1.jpg", "labelled/1.jpg"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(name)
    Path("photos/.DS_Store").touch()
    Path("photos/notes.txt").touch()
    Path("labels.csv").write_text("file,label\n1.jpg,cat\n2.jpg,dog\n")
    Path("rows.csv").write_text("id,age,city,species\na,1,Rome,cat\nb,,Oslo,dog\n")
    Path("shots.csv").write_text("photo,label\nflat/1.jpg,cat\n")
    Path("lines.txt").write_text("a\nb\n")
    Path("urls.csv").write_text("url,label\nhttps://example.org/1.jpg,cat\n")
    Path("voc/1.xml").write_text("<annotation><filename>1.jpg</filename></annotation>")
    Path("yolo/1.txt").write_text("0 0.5 0.5 0.1 0.1")
    Path("labelled").mkdir(exist_ok=True)
    for name in ("segments/images/1.jpg", "segments/masks/1.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8)).save(name)
    Path("labelled/1.json").write_text('{"imagePath": "1.jpg", "shapes": []}')
    Path("boxes.csv").write_text("filename,xmin,ymin,xmax,ymax,class\nflat/1.jpg,1,2,3,4,cat\n")
    np.save("x.npy", np.arange(3))
    with bushel.Writer("theirs.tfrecord") as writer:
        writer.write({"x": 1, "name": "a"})


def check_scripts() -> None:
    built_digits()
    Path("train.py").write_text(
        "import argparse\n\nimport tensorflow as tf\n\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--epochs', type=int, default=1)\n"
        "parser.add_argument('--lr', type=float, default=0.001)\n"
        "parser.parse_args()\n"
        "records = tf.data.TFRecordDataset(tf.io.gfile.glob('data/train*.tfrecord'))\n"
        "print(next(iter(records.batch(4))).shape)\n"
    )


def viewing() -> None:
    built_digits()
    Path("marks.jsonl").write_text('{"mark":"drop","key":"3/0003.png"}\n')


def nothing() -> None:
    """The page needs no files, or makes them itself."""


def tfds() -> None:
    """A folder of TensorFlow Datasets, one of TFX with its schema, and a build."""
    built_digits()
    rows = [{"matrix": np.full((3, 7), n, np.float32), "label": ("rose", "tulip")[n % 2]} for n in range(30)]
    bushel.build(iter(rows), "flowers", split="80/20")
    bushel.export_dataset("flowers", "tfds/flowers/1.0.0", format="tfds")
    for split in ("train", "eval"):
        folder = Path("examples/1") / f"Split-{split}"
        folder.mkdir(parents=True)
        with bushel.Writer(folder / "data_tfrecord-00000-of-00001.gz", compression="gzip") as writer:
            writer.write_batch({"age": np.arange(20), "city": ["Bern", "Basel"] * 10})
    Path("schema.pbtxt").write_text('feature { name: "age" type: INT }\nfeature { name: "city" type: BYTES }\n')


SMALL_DATA: dict[str, Callable[[], None]] = {
    "README.md": lambda: digits(600),
    "docs/building.md": building,
    "docs/checks.md": checks,
    "docs/check-scripts.md": check_scripts,
    "docs/preparing.md": preparing,
    "docs/reading.md": built_digits,
    "docs/serving.md": serving,
    "docs/sources.md": sources,
    "docs/jax.md": built_digits,
    "docs/tensorflow.md": tensorflow,
    "docs/torch.md": built_digits,
    "docs/training.md": training,
    "docs/viewing.md": viewing,
    "docs/tfds.md": tfds,
    "docs/when-not-to-train.md": check_scripts,
}
