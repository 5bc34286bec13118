"""The code in docs/sources.md runs, and prints what it says."""

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from clips import make_clip
from PIL import Image

import bushel

PAGE = Path(__file__).parents[2] / "docs" / "sources.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("photos/cat", "flat", "reviews/pos"):
        Path(name).mkdir(parents=True)
    for name in ("photos/cat/1.jpg", "flat/1.jpg", "flat/2.jpg"):
        Image.new("RGB", (8, 8)).save(name)
    Path("photos/.DS_Store").touch()
    Path("photos/notes.txt").touch()
    Path("labels.csv").write_text("file,label\n1.jpg,cat\n2.jpg,dog\n")
    Path("rows.csv").write_text("id,age,city,species\na,1,Rome,cat\nb,,Oslo,dog\n")
    Path("shots.csv").write_text("photo,label\nflat/1.jpg,cat\n")
    Path("reviews/pos/1.txt").write_text("good")
    Path("lines.txt").write_text("a\nb\n")
    np.save("x.npy", np.arange(3))
    annotated_images()
    make_clip(Path("clips/a.mp4"), 8)
    rows = [f"a,{n / 50},{n},walk" for n in range(200)]
    Path("logs.csv").write_text("\n".join(["id,t,ax,activity", *rows]))
    with bushel.Writer("theirs.tfrecord") as writer:
        writer.write({"x": 1, "name": "a"})
    data = io.BytesIO()
    Image.new("RGB", (8, 8)).save(data, "JPEG")
    with tarfile.open("shard-000.tar", "w") as archive:
        info = tarfile.TarInfo("001.jpg")
        info.size = len(data.getvalue())
        archive.addfile(info, io.BytesIO(data.getvalue()))


def annotated_images() -> None:
    for name in ("coco/images/1.jpg", "voc/1.jpg", "yolo/1.jpg"):
        Path(name).parent.mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(name)
    image = {"id": 1, "file_name": "1.jpg", "height": 8, "width": 8}
    Path("coco/annotations.json").write_text(json.dumps({"images": [image], "annotations": [], "categories": []}))
    Path("voc/1.xml").write_text("<annotation><filename>1.jpg</filename></annotation>")
    Path("yolo/1.txt").write_text("0 0.5 0.5 0.1 0.1")
    Path("boxes.csv").write_text("filename,xmin,ymin,xmax,ymax,class\nflat/1.jpg,1,2,3,4,cat\n")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_the_page_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"print\(.*\) +# (.*)", code)
