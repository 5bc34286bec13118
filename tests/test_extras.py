"""The base install does what it says without any optional package, and each that is missing says what installs it."""

import json
import re
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import DATA

from bushel import _native

ROOT = DATA.parents[1]

# The packages of extras, as they are imported.
OPTIONAL = (
    *("pyarrow", "obstore", "av", "imblearn", "sklearn", "openpyxl", "h5py", "tokenizers", "pandas", "ray"),
    *("tensorflow", "keras", "torch", "jax", "onnx", "onnxruntime", "tf2onnx", "ai_edge_litert", "grain"),
    *("starlette", "uvicorn", "simplejpeg"),
)

# Runs the calls below in a process that has none of them; a call ends with what it gives, or with what it raises.
PROGRAM = f"""
import json, shutil, sys, warnings
warnings.simplefilter("ignore")
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *others: None if name.split(".")[0] in {OPTIONAL!r} else find(name, *others)
from pathlib import Path
import numpy as np
from click.testing import CliRunner
import bushel
from bushel import sources, transforms as t
from bushel.cli import cli

here, old = Path(sys.argv[1]), sys.argv[2]
one = bushel.Run(workers=1)

def command(*arguments):
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exit_code == 2:
        raise RuntimeError(done.stderr.splitlines()[-1].removeprefix("bushel: "))

found = {{}}
for name, code in json.load(sys.stdin).items():
    shutil.rmtree(here / "n", ignore_errors=True)
    try:
        exec(code, {{**globals()}})
        found[name] = "works"
    except Exception as error:
        found[name] = str(error).splitlines()[0]
print(json.dumps(found))
"""


def run_without(folder: Path, calls: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(DATA / "version01")],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extras")
    for number in range(6):
        place = folder / "photos" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), number * 40, np.uint8)).save(place / f"{number}.png")
    (folder / "texts" / "a").mkdir(parents=True)
    (folder / "texts" / "a" / "1.txt").write_text("hello")
    (folder / "lines.txt").write_text("one\ntwo\n")
    (folder / "rows.csv").write_text("x,label\n1,a\n2,b\n")
    (folder / "labels.csv").write_text("file,label\na/0.png,x\n")
    (folder / "boxes.csv").write_text("filename,xmin,ymin,xmax,ymax,class\n0.png,0,0,1,1,a\n")
    with closing(sqlite3.connect(folder / "rows.sqlite")) as database:
        database.executescript("create table t (x int, label text); insert into t values (1, 'a'), (2, 'b')")
    (folder / "rows.jsonl").write_text('{"x": 1}\n')
    (folder / "lines.txt.bz2").write_bytes(b"BZh9")
    (folder / "table.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "arrays.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (folder / "sounds").mkdir()
    (folder / "sounds" / "a.mp3").write_bytes(b"ID3")
    (folder / "videos").mkdir()
    (folder / "videos" / "a.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "script.py").write_text("import tensorflow as tf\n")
    return folder


BASE = {
    "images": 'bushel.build(here / "photos", here / "o1", split="50/50", run=one)',
    "arrays": 'bushel.build({"x": np.eye(4), "label": ["a", "b"] * 2, "s": ["a", None] * 2}, here / "o2", run=one)',
    "samples": 'bushel.build([{"x": 1, "t": "a"}, {"x": 2, "t": "b"}], here / "o3", run=one)',
    "texts": 'bushel.build(here / "texts", here / "o4", run=one)',
    "lines": 'bushel.build(here / "lines.txt", here / "o5", run=one)',
    "sqlite": 'bushel.build(here / "rows.sqlite", here / "o10", run=one)',
    "records": 'bushel.build(here / "o1", here / "o6", run=one)',
    "read": 'bushel.open(here / "o1")["train"][0]',
    "batches": 'next(iter(bushel.batches(bushel.open(here / "o1")["train"], batch_size=2)))',
    "raw": 'next(iter(bushel.batches(here / "photos", batch_size=2)))',
    "info": 'command("info", here / "o1")',
    "cat": 'command("cat", here / "o1")',
    "schema": 'command("schema", here / "o1", "--pbtxt")',
    "check": 'command("check", here / "o1")',
    "script": 'command("check", "--script", here / "script.py")',
    "repair": 'command("repair", here / "o1", here / "o7")',
    "bench": 'command("bench", here / "o1", "--split", "train", "--seconds", "0.1")',
    "export": 'command("export", here / "o1", here / "o8", "--format", "jsonl")',
    "tfds": 'command("export", here / "o1", here / "o9", "--format", "tfds")',
    "report": 'command("report", here / "o1", "-o", here / "report.html")',
    "version": 'command("--version")',
    "doctor": 'command("doctor")',
    "trees predict": 'list(bushel.predict(old + "/trees", old + "/dataset", split="val"))',
}


JPEGS = {
    "build": """
resized = t.resize_encoded("image", 5, 5, scaled=True)
bushel.build(here / "jpegs", here / "j1", transforms=[resized], run=one)
""",
    "read": """
train = bushel.open(here / "j1")["train"]
batch = next(iter(bushel.batches(train, batch_size=4, transforms=[t.decode_image("image")])))
assert batch["image"].shape == (4, 5, 5, 3)
""",
    "refuse": """
reasons = [json.loads(line)["reason"] for line in (here / "j1" / "_quarantine.jsonl").read_text().splitlines()]
assert reasons == ["the JPEG cannot be decoded: premature end of JPEG file"], reasons
""",
    "rare": """
from bushel.pixels.codecs import decode_pixels
assert decode_pixels((here / "cmyk.jpg").read_bytes()).shape == (4, 4, 3)
""",
}


def test_jpegs_need_only_the_core_or_else_simplejpeg(folder: Path) -> None:
    place = folder / "jpegs" / "a"
    place.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(4):
        Image.fromarray(rng.integers(0, 255, (24, 24, 3), np.uint8)).save(place / f"{number}.jpg")
    Image.new("CMYK", (4, 4)).save(folder / "cmyk.jpg")
    whole = (place / "0.jpg").read_bytes()
    (place / "cut.jpg").write_bytes(whole[: len(whole) // 2] + whole[-2:])
    found = run_without(folder, JPEGS)
    if _native.codecs()["jpeg"]:
        assert found == dict.fromkeys(JPEGS, "works")
    else:
        needed = 'a bushel that was compiled without libjpeg-turbo needs simplejpeg: pip install "bushel[jpeg]"'
        assert found["rare"] == needed


def test_the_base_does_all_of_this_alone(folder: Path) -> None:
    found = run_without(folder, BASE)
    assert found == dict.fromkeys(BASE, "works")


NEEDS = {
    "csv": ('sources.table(here / "rows.csv")', "reading tables needs pyarrow", "tables"),
    "json": ('bushel.build(here / "rows.jsonl", here / "n", run=one)', "reading tables needs pyarrow", "tables"),
    "csv command": ('command("build", here / "rows.csv", here / "n")', "reading tables needs pyarrow", "tables"),
    "raw csv": ('bushel.batches(here / "rows.csv", batch_size=2)', "reading tables needs pyarrow", "tables"),
    "labels": (
        'bushel.build(sources.images(here / "photos", labels=here / "labels.csv"), here / "n", run=one)',
        "reading tables needs pyarrow",
        "tables",
    ),
    "boxes": ('bushel.build(here / "boxes.csv", here / "n", run=one)', "reading tables needs pyarrow", "tables"),
    "bz2": ('bushel.build(here / "lines.txt.bz2", here / "n", run=one)', "reading bz2 needs pyarrow", "tables"),
    "parquet": ('command("export", old + "/dataset", here / "n")', "export --format parquet needs pyarrow", "tables"),
    "arrow": ('bushel.open(old + "/dataset")["train"].to_arrow()', "to_arrow needs pyarrow", "tables"),
    "excel": ('bushel.build(here / "table.xlsx", here / "n", run=one)', "reading Excel files needs openpyxl", "excel"),
    "hdf5": ('bushel.build(here / "arrays.h5", here / "n", run=one)', "reading HDF5 files needs h5py", "hdf5"),
    "sounds": ('bushel.build(here / "sounds", here / "n", run=one)', "reading audio needs PyAV", "audio"),
    "videos": ('bushel.build(here / "videos", here / "n", run=one)', "reading video needs PyAV", "video"),
    "s3": ('bushel.open("s3://bucket/data")', "s3:// needs obstore", "stores"),
    "gs": ('command("info", "gs://bucket/data")', "gs:// needs obstore", "stores"),
    "az": ('bushel.build(here / "photos", "az://bucket/data", run=one)', "az:// needs obstore", "stores"),
    "smote": (
        'bushel.build({"x": np.eye(40), "label": ["a"] * 30 + ["b"] * 10}, here / "n", balance="smote", run=one)',
        "balance by smote needs imbalanced-learn",
        "balance",
    ),
    "tokens": (
        'bushel.build({"text": ["a"] * 4}, here / "n", run=one, '
        'transforms=[t.tokenise_file(file=str(here / "tokenizer.json"), length=4)])',
        "tokenise_file needs tokenizers",
        "text",
    ),
    "train": ('bushel.train(old + "/dataset", out=here / "n")', "bushel train needs Keras", "tensorflow"),
    "train command": (
        'command("train", old + "/dataset", "--out", here / "n")',
        "bushel train needs Keras",
        "tensorflow",
    ),
    "trees": (
        'command("train", old + "/dataset", "--out", here / "n", "--model", "trees", "--columns", "x")',
        "--model trees needs scikit-learn",
        "trees",
    ),
    "model": (
        'command("check", old + "/dataset", "--model", old + "/network/model.keras")',
        "checking a model needs Keras",
        "tensorflow",
    ),
    "parsing": (
        "import bushel.tensorflow as b; b.parse_fn(bushel.open(old + '/dataset').schema)",
        "bushel.tensorflow needs TensorFlow",
        "tensorflow",
    ),
    "tf.data": (
        "import bushel.tensorflow as b; b.dataset(old + '/dataset', 'train', batch_size=2)",
        "bushel.tensorflow needs TensorFlow",
        "tensorflow",
    ),
    "view": ('command("view", old + "/dataset", "--no-browser")', "bushel view needs starlette and uvicorn", "view"),
    "torch": ("import bushel.torch", "bushel.torch needs torch", "torch"),
    "jax": ("import bushel.jax", "bushel.jax needs JAX", "jax"),
    "ray": ('command("build", here / "photos", here / "n", "--engine", "ray")', "--engine ray needs Ray", "ray"),
    "ray data": ("import bushel.ray as b; b.dataset(old + '/dataset')", "bushel.ray.dataset needs Ray", "ray"),
}


def test_what_is_missing_says_the_line_that_installs_it(folder: Path) -> None:
    found = run_without(folder, {name: code for name, (code, _, _) in NEEDS.items()})
    assert found == {name: f'{what}: pip install "bushel[{extra}]"' for name, (_, what, extra) in NEEDS.items()}


def test_a_run_that_needs_a_framework_says_so(folder: Path) -> None:
    network, data = 'old + "/network"', 'old + "/dataset"'
    calls = {
        "predict": f'command("predict", {network}, {data}, "--split", "val")',
        "evaluate": f'command("train", "--evaluate", {network}, {data})',
        "resume": f'command("train", "--resume", "--out", {network}, "--epochs", "3")',
    }
    for name in ("savedmodel", "onnx", "litert"):
        calls[name] = f'command("export", {network}, here / "n", "--format", "{name}")'
    for said in run_without(folder, calls).values():
        assert re.search(r'needs \S+.*: pip install "bushel\[(tensorflow|onnx|litert)\]"$', said), said


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return found


def test_every_extra_that_is_named_exists() -> None:
    extras = project()["project"]["optional-dependencies"]
    named = {
        extra
        for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
        for found in re.findall(r'bushel\[([\w,]+)\]|extra="(\w+)"', path.read_text())
        for part in found
        for extra in part.split(",")
        if extra
    }
    assert named <= extras.keys()
    whole = re.search(r"\[(.*)\]", extras["all"][0])
    assert whole is not None
    assert set(whole[1].split(",")) == extras.keys() - {"all", "cuda12", "cuda13"}


def test_the_version_is_the_same_everywhere() -> None:
    import bushel

    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert bushel.__version__ == project()["project"]["version"] == cited[1]
