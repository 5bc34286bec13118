"""What the table of docs/sources.md says to type for what people have works as it stands."""

import json
import re
import shlex
import sqlite3
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel import sources
from bushel.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "sources.md"
RANDOM = np.random.default_rng(0)
ROWS = [(n / 4, n, ("setosa", "virginica")[n % 2]) for n in range(20)]


def lines() -> dict[str, str]:
    table = PAGE.read_text().partition("| what you have | line |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| (.+?) \| `(.+)` \|$", table, re.MULTILINE))


def image(path: Path, mode: str = "RGB", side: int = 24) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RANDOM.integers(0, 256, (side, side, 4), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)


def photos() -> None:
    for number in range(6):
        image(Path(f"photos/{'cat' if number % 2 else 'dog'}/{number}.png"), "RGBA")


def flat() -> None:
    for number in range(4):
        image(Path(f"flat/{number}.jpg"))
    Path("labels.csv").write_text("file,label\n" + "".join(f"{n}.jpg,{'ab'[n % 2]}\n" for n in range(4)))


def digits_by_name() -> None:
    for number in range(4):
        Path("digits").mkdir(exist_ok=True)
        with wave.open(f"digits/{number % 2}_anna_{number}.wav", "wb") as file:
            file.setparams((1, 2, 8000, 400, "NONE", ""))
            file.writeframes(RANDOM.integers(-99, 99, 400).astype(np.int16).tobytes())


def boxes() -> None:
    image(Path("a.jpg"))
    Path("boxes.csv").write_text("filename,xmin,ymin,xmax,ymax,class\na.jpg,1,2,9,8,cat\na.jpg,3,3,20,20,dog\n")


def segments() -> None:
    for number in range(3):
        image(Path(f"segments/images/{number}.jpg"))
        Path("segments/masks").mkdir(exist_ok=True)
        Image.fromarray(RANDOM.integers(0, 3, (24, 24), dtype=np.uint8)).save(f"segments/masks/{number}.png")


def labelled() -> None:
    image(Path("labelled/a.png"))
    shape = {"label": "cat", "points": [[1, 2], [9, 8]], "shape_type": "rectangle"}
    Path("labelled/a.json").write_text(json.dumps({"imagePath": "a.png", "shapes": [shape]}))


def coco() -> None:
    image(Path("coco/images/a.jpg"))
    told = {"images": [{"id": 1, "file_name": "a.jpg", "width": 24, "height": 24}]}
    box = {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 9, 8], "area": 72, "iscrowd": 0}
    content = {**told, "annotations": [box], "categories": [{"id": 3, "name": "cat"}]}
    Path("coco/annotations.json").write_text(json.dumps(content))


def rows(suffix: str = "csv", header: str = "width,height,species\n") -> None:
    Path(f"rows.{suffix}").write_text(header + "".join(f"{a},{b},{c}\n" for a, b, c in ROWS))


def plain() -> None:
    Path("plain.data").write_text("".join(f"{a},{b},{c}\n" for a, b, c in ROWS))


def excel() -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [("width", "height", "species"), *ROWS]:
        book.active.append(row)
    book.save("rows.xlsx")


def database() -> Any:
    with sqlite3.connect("rows.db") as connection:
        connection.execute("CREATE TABLE flowers (width, height, species)")
        connection.executemany("INSERT INTO flowers VALUES (?, ?, ?)", ROWS)
        connection.execute("CREATE TABLE bees (name)")
    return {"connection": connection}


def digits() -> dict[str, Any]:
    x, y = RANDOM.integers(0, 256, (12, 8, 8), dtype=np.uint8), np.arange(12) % 3
    np.savez("mnist.npz", x_train=x, y_train=y, x_test=x[:4], y_test=y[:4])
    return {"load_data": lambda: ((x, y), (x[:4], y[:4]))}


def hdf5() -> None:
    with pytest.importorskip("h5py").File("arrays.h5", "w") as file:
        file["x"], file["label"] = RANDOM.normal(size=(10, 4)), np.arange(10) % 2


def iris() -> dict[str, Any]:
    return {"load_iris": pytest.importorskip("sklearn.datasets").load_iris}


def frame() -> dict[str, Any]:
    return {"table": pytest.importorskip("pandas").DataFrame(ROWS, columns=["width", "height", "species"])}


def hugging_face() -> dict[str, Any]:
    datasets = pytest.importorskip("datasets")
    values = {"text": [f"text {n}" for n in range(9)], "label": [n % 3 for n in range(9)]}
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["a", "b", "c"]))
    made = datasets.Dataset.from_dict(values, features=features)
    made.save_to_disk("saved")
    return {"dataset": made}


def tars() -> None:
    import tarfile

    flat()
    Path("shards").mkdir()
    with tarfile.open("shards/0.tar", "w") as tar:
        for number in range(4):
            tar.add(f"flat/{number}.jpg", f"{number}.jpg")


def reviews() -> None:
    for number in range(4):
        path = Path(f"reviews/{('bad', 'good')[number % 2]}/{number}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"review number {number}")


def sounds() -> None:
    pytest.importorskip("av")
    soundfile = pytest.importorskip("soundfile")
    for number in range(4):
        path = Path(f"sounds/{('low', 'high')[number % 2]}/{number}.wav")
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.sin(np.arange(12_000) * (0.1 + number % 2)), 8000)


def clips() -> None:
    av = pytest.importorskip("av")
    Path("clips/run").mkdir(parents=True)
    with av.open("clips/run/a.mp4", "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for _ in range(40):
            picture = RANDOM.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


def slides() -> None:
    image(Path("slides/a.png"), side=40)


def logs() -> None:
    rows = [f"{series},{at},{at * 0.5}" for series in "ab" for at in range(64)]
    Path("logs.csv").write_text("\n".join(["id,t,x", *rows]) + "\n")


def theirs() -> None:
    Path("theirs").mkdir()
    with bushel.Writer("theirs/part.tfrecord") as writer:
        for number in range(5):
            writer.write({"x": [float(number)] * 3, "label": number % 2})


def samples() -> dict[str, Any]:
    return {"samples": [{"x": [n, n + 1], "label": n % 2} for n in range(6)]}


MAKERS: dict[str, Callable[[], Any]] = {
    "photos": photos,
    "flat": flat,
    "digits": digits_by_name,
    "coco": coco,
    "labelled": labelled,
    "segments": segments,
    "boxes.csv": boxes,
    "rows.csv": rows,
    "plain.data": plain,
    "rows.xlsx": excel,
    "rows.db": database,
    "connection": database,
    "mnist.npz": digits,
    "load_data": digits,
    "arrays.h5": hdf5,
    "load_iris": iris,
    "table": frame,
    "dataset": hugging_face,
    "saved": hugging_face,
    "shards": tars,
    "reviews": reviews,
    "sounds": sounds,
    "clips": clips,
    "slides": slides,
    "logs.csv": logs,
    "theirs": theirs,
    "samples": samples,
}
ELSEWHERE = "urls.csv"  # test_downloads.py types it, with a server


def test_the_table_has_a_line_for_every_kind_of_source() -> None:
    assert len(lines()) > 25
    assert all(any(name in line for name in (*MAKERS, ELSEWHERE)) for line in lines().values())


@pytest.mark.parametrize("line", [line for line in lines().values() if ELSEWHERE not in line])
def test_the_line_works_as_it_stands(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (name,) = re.findall(r"bushel build '?([\w.]+)|\(\"(\w+)\"|\((?:sources\.sql\()?(\w+)", line)[:1]
    names = MAKERS[next(filter(None, name))]() or {}
    if line.startswith("bushel build"):
        done = CliRunner().invoke(cli, [*shlex.split(line)[1:], "--plan"])
        assert done.exit_code == 0, done.output
        assert "samples" in done.output
        return
    found = eval(line, {"bushel": bushel, "sources": sources, **names})
    if line.startswith("bushel.build"):
        assert (found.records > 4, found.refused) == (True, 0)
    else:
        assert len(next(found)["image"]) == 4
