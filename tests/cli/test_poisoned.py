"""Every command on a dataset, a run and a recipe that try to run code, to write and to read elsewhere."""

import base64
import hashlib
import json
import marshal
import os
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from looking import page_of

import bushel
from bushel.cli import cli

ESCAPE = "\x1b]0;taken over\x07\x1b[2K\x1b[1A\u202e"  # sets a title, removes the line above, reverses what follows


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder in which `data`, `run` and `recipe.toml` are poisoned; what runs would leave `ran` in it."""
    rows = [{"x": float(i), "label": ("a", "b" + ESCAPE, "=1+1")[i % 3]} for i in range(30)]
    bushel.build(rows, tmp_path / "data", run=bushel.Run(workers=1))
    manifest = json.loads((tmp_path / "data" / "dataset.json").read_text())
    manifest.setdefault("recipe", {})["transforms"] = [popen(tmp_path)]
    (tmp_path / "data" / "dataset.json").write_text(json.dumps(manifest))
    (tmp_path / "data" / "rules.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "data" / "bushel.toml").write_text('[check]\nrules = ["rules.py"]\n')
    (tmp_path / "run").mkdir()
    contract = {
        "format": 1,
        "schema": manifest["schema"],
        "prepared_by": {"features": ["x"], "transforms": [popen(tmp_path)]},
        "inputs": {},
        "build": {"transforms": [popen(tmp_path)]},
    }
    (tmp_path / "run" / "contract.json").write_text(json.dumps(contract))
    (tmp_path / "rows.csv").write_text("x,label\n1,a\n2,b\n")
    (tmp_path / "recipe.toml").write_text(
        f'source = {{kind = "table", path = "{tmp_path}/rows.csv"}}\nout = "{tmp_path}/out"\n'
        f'[[transforms]]\ntransform = "subprocess:Popen"\nargs = "touch {tmp_path}/ran"\nshell = true\n'
    )
    poisoned_model(tmp_path)
    return tmp_path


def poisoned_model(folder: Path) -> None:
    """`model.keras` and `model.h5`, each with a layer that is code."""
    code = compile(f"open({str(folder / 'ran')!r}, 'w')", "poison", "eval")
    function = {"code": base64.b64encode(marshal.dumps(code)).decode(), "defaults": None, "closure": None}
    first = {"batch_shape": [None, 1], "dtype": "float32", "name": "x"}
    poison = {"function": {"class_name": "__lambda__", "config": function}, "output_shape": [1], "name": "poison"}
    layers = [
        {"module": "keras.layers", "class_name": "InputLayer", "config": first},
        {"module": "keras.layers", "class_name": "Lambda", "config": poison},
    ]
    model = {"module": "keras", "class_name": "Sequential", "config": {"name": "model", "layers": layers}}
    with h5py.File(folder / "model.h5", "w") as file:
        file.attrs["model_config"] = json.dumps(model)
        file.attrs["keras_version"] = "3.5.0"
        file.create_group("model_weights").attrs["layer_names"] = []
    with zipfile.ZipFile(folder / "model.keras", "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.5.0"}))
        archive.writestr("config.json", json.dumps(model))
        archive.write(folder / "model.h5", "model.weights.h5")


def popen(folder: Path) -> dict[str, Any]:
    return {"transform": "subprocess:Popen", "args": f"touch {folder}/ran", "shell": True}


COMMANDS = [
    ["info", "data"],
    ["schema", "data"],
    ["cat", "data"],
    ["check", "data"],
    ["check", "data", "--trust-settings"],
    ["check", "data", "--contract", "run"],
    ["index", "data/train-00000-of-00001.tfrecord"],
    ["bench", "data", "--seconds", "0.1"],
    ["repair", "data/train-00000-of-00001.tfrecord", "fixed.tfrecord"],
    ["report", "data", "-o", "report.html"],
    ["report", "run", "-o", "report.html"],
    ["export", "data", "rows", "--format", "jsonl"],
    ["export", "data", "described", "--format", "tfds"],
    ["export", "run", "served", "--format", "savedmodel"],
    ["build", "recipe.toml"],
    ["build", "data", "again"],
    ["predict", "run", "rows.csv"],
    ["train", "data", "--out", "runs", "--epochs", "1", "--no-preflight"],
    ["train", "data", "--out", "runs", "--epochs", "1", "--no-preflight", "--model", "model.keras"],
    ["check", "data", "--model", "model.keras"],
    ["check", "data", "--model", "model.h5"],
]


INSIDE = [
    ["check", "*.tfrecord"],
    ["check", "train-00000-of-00001.tfrecord"],
    ["check", "./train-*"],
    ["check", "dataset.json"],
    ["check", "../elsewhere/*.tfrecord", "--against", "."],
    ["check", "../elsewhere", "--against", "*.tfrecord"],
    ["check", "../elsewhere/x.tfrecord"],
    ["check", "../elsewhere", "--contract", "contract.json"],
    ["explain", "ORD001"],
    ["train", ".", "--out", "../runs", "--epochs", "1", "--label", "label"],
    ["export", ".", "../rows", "--format", "jsonl"],
    ["info", "."],
]


@pytest.mark.parametrize("arguments", INSIDE, ids=" ".join)
def test_no_command_runs_what_is_in_the_folder_of_the_data_when_it_is_started_there(
    place: Path, arguments: list[str]
) -> None:
    data = place / "data"
    (place / "elsewhere").mkdir()
    shutil.copy(data / "train-00000-of-00001.tfrecord", place / "elsewhere" / "x.tfrecord")
    for name in ("numpy", "msgspec", "click", "keras", "tensorflow", "av", "pyarrow", "json", "sitecustomize"):
        (data / f"{name}.py").write_text(f"open({str(place / 'ran')!r}, 'w')")
    done = subprocess.run([sys.executable, "-m", "bushel", *arguments], cwd=data, capture_output=True, check=False)
    assert done.returncode in (0, 1, 2), done.stderr.decode()
    assert not (place / "ran").exists()


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_command_runs_what_data_names(place: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "bushel", *arguments]
    ran = subprocess.run(command, cwd=place, capture_output=True, timeout=300, check=False)
    assert not (place / "ran").exists()
    assert ran.returncode in (0, 1, 2), ran.stderr.decode()
    assert b"Traceback" not in ran.stderr
    assert not re.search("[\x1b\x07\u202e]", (ran.stdout + ran.stderr).decode())
    if any("model." in argument for argument in arguments):
        assert b"Lambda" in ran.stderr, ran.stderr


def test_the_page_runs_nothing_that_data_names(place: Path) -> None:
    page = page_of(place / "data")
    assert page.ask("overview")
    assert page.ask("records", split="train")["records"]
    assert not (place / "ran").exists()


def test_what_is_not_trusted_is_named_with_the_way_to_allow_it(place: Path) -> None:
    found = CliRunner().invoke(cli, ["build", str(place / "recipe.toml")])
    assert found.exit_code == 2
    assert "transform 'subprocess:Popen' is not one of bushel's: a file may not run it unless you" in found.output
    assert "--trust subprocess:Popen" in found.output
    refused = CliRunner().invoke(cli, ["build", "--trust", "subprocess:Popen", str(place / "recipe.toml")])
    assert "there is no such transform" in refused.output  # it is a class, but no transform
    assert not (place / "ran").exists()


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("path", "/etc/hostname", "path must be in the folder of the dataset"),
        ("path", "../rows.csv", "path must be in the folder of the dataset"),
        ("path", "a\0b", "path must be the name of a file"),
        ("path", "x" * 300, "path must be the name of a file"),
        ("path", "link.tfrecord", "is a link that leaves the folder of the dataset"),
        ("records", -1, "records must be a count, got -1"),
        ("bytes", -5, "bytes must be the size of a file, got -5"),
    ],
)
def test_a_shard_that_cannot_be_is_refused_with_its_field(place: Path, field: str, value: Any, why: str) -> None:
    (place / "data" / "link.tfrecord").symlink_to(place / "rows.csv")
    manifest = json.loads((place / "data" / "dataset.json").read_text())
    manifest["splits"]["train"]["shards"][0][field] = value
    (place / "data" / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(bushel.FormatError, match=r"dataset.json: splits.train.shards\[0\]: ") as caught:
        bushel.open(place / "data")
    assert why in str(caught.value)


def test_a_manifest_that_is_nested_without_end_is_refused(place: Path) -> None:
    (place / "data" / "dataset.json").write_text('{"format": 1, "recipe": ' + '{"a":' * 50_000 + "1" + "}" * 50_001)
    with pytest.raises(bushel.FormatError, match="not a manifest"):
        bushel.open(place / "data")


def test_a_transform_that_the_program_made_needs_no_permission(tmp_path: Path) -> None:
    module = tmp_path / "shouting.py"
    module.write_text(
        "import dataclasses\n@dataclasses.dataclass\nclass Shout:\n    feature: str\n"
        "    def apply(self, sample, draw):\n        return {**sample, self.feature: sample[self.feature] * 2}\n"
        "    def features(self, features):\n        return features\n"
    )
    code = (
        "import bushel, shouting\n"
        "bushel.build([{'x': float(i)} for i in range(8)], 'data', transforms=[shouting.Shout('x')],"
        " run=bushel.Run(workers=1))\n"
        "print(bushel.open('data').transforms())\n"
    )
    made = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Shout(feature='x')" in made.stdout, made.stderr
    ask = "import bushel; print(bushel.open('data').transforms())"
    asked = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "UntrustedTransform" in asked.stderr
    allow = "import bushel; bushel.transforms.trust('shouting:Shout'); print(bushel.open('data').transforms())"
    allowed = subprocess.run([sys.executable, "-c", allow], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Shout(feature='x')" in allowed.stdout, allowed.stderr
    shutil.rmtree(tmp_path / "data")


class _Touch:
    """What leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickles_in_the_journal_of_a_folder_that_came_from_elsewhere_are_not_loaded(tmp_path: Path) -> None:
    rows = [{"x": float(i), "key": str(i)} for i in range(30)]
    bushel.build(rows[:20], tmp_path / "data", run=bushel.Run(workers=1))
    poison = pickle.dumps(_Touch(tmp_path / "ran"))
    for folder in (tmp_path / "data", tmp_path / "other"):
        for name in ("fits/all.pickle", "fits/fit-00-000000.pickle", "plan/made.pickle", "job-1.pickle"):
            (folder / "_journal" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "_journal" / name).write_bytes(poison)
    scale = [bushel.transforms.standardise("x")]
    bushel.build(rows, tmp_path / "data", run=bushel.Run(workers=1, append=True))
    bushel.build(rows, tmp_path / "other", transforms=scale, run=bushel.Run(workers=1))
    assert not (tmp_path / "ran").exists()
    assert len(list(bushel.scan(tmp_path / "other"))) == 30


def test_a_checkpoint_that_holds_objects_is_refused(tmp_path: Path) -> None:
    from bushel.training.run_folder import CHECKPOINT, load_checkpoint

    np.savez(tmp_path / "poison.npz", state=np.array([_Touch(tmp_path / "ran")], object))
    (tmp_path / "poison.npz").rename(tmp_path / CHECKPOINT)
    with pytest.raises(bushel.FormatError, match="not a checkpoint"):
        load_checkpoint(tmp_path, None, lambda _: None)
    assert not (tmp_path / "ran").exists()


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of gradient-boosted trees, with numbers and a category."""
    pytest.importorskip("sklearn")
    from bushel.training import Options, train

    folder = tmp_path_factory.mktemp("trees")
    rows = [{"x": float(i % 7), "word": "ab"[i % 2], "label": int(i % 7 > 3) ^ (i % 2)} for i in range(200)]
    bushel.build(iter(rows), folder / "data", split="80/20", run=bushel.Run(workers=1))
    train(folder / "data", Options(model="trees", epochs=1, preflight=False), out=folder / "run")
    return folder / "run"


def poisoned_trees(trees: Path, tmp_path: Path, **changes: Any) -> Path:
    """The same run with other arrays in its model."""
    shutil.copytree(trees, tmp_path / "run")
    with np.load(trees / "model.npz") as file:
        arrays = {name: file[name].copy() for name in file.files}
    for name, change in changes.items():
        arrays[name] = change(arrays[name])
    np.savez(tmp_path / "run" / "model.npz", **arrays)
    return tmp_path / "run"


def put(value: Any, at: int = 0) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"left": put(0)}, "a child is outside its tree or comes before its parent"),
        ({"right": put(2**31 - 1)}, "a child is outside its tree or comes before its parent"),
        ({"feature": put(99)}, "a split names a column that the inputs do not have"),
        ({"levels": put(10**6)}, "a split names levels that are not there|a split by levels is of a number"),
        ({"roots": put(5)}, "the roots are not in order"),
        ({"roots": put(-1, 1)}, "the roots are not in order"),
        ({"column": put(7)}, "a tree names a column that is not there"),
        ({"base": put(np.inf)}, "a value is not finite"),
        ({"threshold": put(np.nan)}, "a threshold is not a number"),
        ({"value": lambda array: array[:-1]}, "nodes have different numbers of fields"),
        ({"value": lambda array: array.astype(np.float16)}, "value is float16"),
        ({"level_sets": lambda array: array[:, :2]}, "level_sets must have 8 columns"),
        ({"base": lambda array: array[:0]}, "trees and columns do not fit"),
        ({"head": lambda _: np.frombuffer(b"[]", np.uint8)}, "Expected `object`"),
        (
            {"head": lambda _: np.frombuffer(b'{"inputs":[{"name":"x","width":1000000000000}]}', np.uint8)},
            "wrong width",
        ),
    ],
)
def test_trees_that_would_leave_their_arrays_are_refused(
    trees: Path, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    run = poisoned_trees(trees, tmp_path, **changes)
    with pytest.raises(bushel.FormatError, match=f"not trees that bushel stored: .*({why})"):
        list(bushel.predict(run, trees.parent / "data", split="val"))


def test_trees_that_hold_objects_or_are_compressed_are_refused(trees: Path, tmp_path: Path) -> None:
    run = poisoned_trees(trees, tmp_path, value=lambda _: np.array([_Touch(tmp_path / "ran")], object))
    with pytest.raises(bushel.FormatError, match="not trees that bushel stored"):
        list(bushel.predict(run, trees.parent / "data", split="val"))
    assert not (tmp_path / "ran").exists()
    np.savez_compressed(run / "model.npz", value=np.zeros(10_000_000))
    with pytest.raises(bushel.FormatError, match="its arrays are compressed"):
        list(bushel.predict(run, trees.parent / "data", split="val"))


def test_trees_with_a_flipped_byte_are_refused_or_evaluated(trees: Path, tmp_path: Path) -> None:
    shutil.copytree(trees, tmp_path / "run")
    whole = (trees / "model.npz").read_bytes()
    refused = 0
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        (tmp_path / "run" / "model.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert list(bushel.predict(tmp_path / "run", trees.parent / "data", split="val"))
        except bushel.FormatError:
            refused += 1
    assert refused > 30  # zip checks the sums of its entries


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """A dataset with a vocabulary in `_artifacts`, beside a file that is none of its business."""
    (tmp_path / "secret").write_text('{"tokens": ["s"], "counts": [1], "count": 1}')
    rows = [{"text": f"word{i % 3}"} for i in range(30)]
    bushel.build(rows, tmp_path / "data", transforms=[bushel.transforms.tokenise("text")], run=bushel.Run(workers=1))
    return tmp_path


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((folder / "dataset.json").read_text())
    change(manifest)
    (folder / "dataset.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "link", "a\0b", "pipe", ""])
def test_an_artifact_outside_the_folder_is_not_read(counted: Path, name: str) -> None:
    (counted / "data" / "_artifacts" / "link").symlink_to(counted / "secret")
    os.mkfifo(counted / "data" / "_artifacts" / "pipe")
    digest = hashlib.sha256((counted / "secret").read_bytes()).hexdigest()

    def point_outside(manifest: dict[str, Any]) -> None:
        manifest["statistics"]["0:tokenise"]["artifacts"] = {name: digest}

    change_manifest(counted / "data", point_outside)
    with pytest.raises(bushel.FileProblem, match="must be a file in this folder|is a pipe"):
        bushel.open(counted / "data").transforms()


@pytest.mark.parametrize("data", [b"", b"\0" * 50, b"[" * 100_000, b'{"tokens": 5, "counts": {}, "count": "x"}'])
def test_an_artifact_that_is_not_what_it_should_be_is_refused(counted: Path, data: bytes) -> None:
    (path,) = (counted / "data" / "_artifacts").glob("0-*")
    path.write_bytes(data)
    with pytest.raises(bushel.BushelError, match="SHA-256"):
        bushel.open(counted / "data").transforms()

    def accept(manifest: dict[str, Any]) -> None:
        manifest["statistics"]["0:tokenise"]["artifacts"] = {path.name: hashlib.sha256(data).hexdigest()}

    change_manifest(counted / "data", accept)
    with pytest.raises(bushel.BushelError, match=r"dataset.json|vocabulary"):
        bushel.open(counted / "data").transforms()


@pytest.mark.parametrize("named", ["absolute", "above", "link"])
def test_transforms_of_a_dataset_read_no_file_outside_it(counted: Path, named: str) -> None:
    (counted / "glove.txt").write_text("secret 1.0 2.0\n")
    (counted / "data" / "inside.txt").write_text("public 1.0 2.0\n")
    (counted / "data" / "link.txt").symlink_to(counted / "glove.txt")
    file = {"absolute": str(counted / "glove.txt"), "above": "../glove.txt", "link": "link.txt"}[named]
    tables = [
        {"transform": "embed", "feature": "text", "file": file},
        {"transform": "tokenise_file", "feature": "text", "file": str(counted / "secret")},
        {"transform": "embed", "feature": "text", "file": "inside.txt"},
    ]
    change_manifest(counted / "data", lambda manifest: manifest["recipe"].update(transforms=tables))
    outside, tokens, inside = bushel.open(counted / "data").transforms()
    assert tokens.fitted is None  # type: ignore[attr-defined]
    assert outside.sha256 is None  # type: ignore[attr-defined]
    if named == "absolute":
        with pytest.raises(bushel.FileProblem, match="is named by data but lies outside it"):
            bushel.transforms.apply_all([outside], {"text": "secret"})
        bushel.transforms.trust(file)
        outside = bushel.open(counted / "data").transforms()[0]
        assert bushel.transforms.apply_all([outside], {"text": "secret"})["text"].tolist() == [[1.0, 2.0]]
    assert bushel.transforms.apply_all([inside], {"text": "public"})["text"].tolist() == [[1.0, 2.0]]


def test_pipes_in_a_folder_of_data_keep_nobody_waiting(place: Path) -> None:
    data = place / "data"
    for pattern in ("_index/*.idx", "_index/*.keys", "_quarantine.jsonl", "bushel.toml"):
        for path in list(data.glob(pattern)) or [data / pattern]:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
    assert len(list(bushel.scan(data))) == 30
    assert sum(len(batch["x"]) for batch in bushel.batches(bushel.open(data)["train"], batch_size=8)) == 30
    for arguments in (["check", data], ["info", data], ["cat", data, "--record", "train:3"]):
        assert CliRunner().invoke(cli, [str(argument) for argument in arguments]).exit_code in (0, 1, 2)
    os.mkfifo(place / "rows.pipe.csv")
    found = CliRunner().invoke(cli, ["build", str(place / "rows.pipe.csv"), str(place / "out")])
    assert "is a pipe, which bushel does not read" in found.output


@pytest.mark.parametrize("offsets", [(-1, 2, 4), (0, 9999, 4), (0, 4, 2), (0, 2, 1 << 60)])
def test_keys_whose_places_lie_outside_their_file_are_refused(place: Path, offsets: tuple[int, ...]) -> None:
    (keys,) = (place / "data" / "_index").glob("*.keys")
    data = bytearray(keys.read_bytes())
    data[8:32] = np.array(offsets, np.int64).tobytes()
    keys.write_bytes(data)
    found = CliRunner().invoke(cli, ["cat", str(place / "data"), "--record", "train:1"])
    assert found.exit_code == 2
    assert "keys: is damaged, or ends early" in found.output


def test_an_array_that_claims_more_than_memory_is_one_line(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("a", (1 << 50,), "f4", chunks=(1 << 20,))
    found = CliRunner().invoke(cli, ["build", str(tmp_path / "large.h5"), str(tmp_path / "out")])
    assert found.exit_code == 2
    assert "large.h5: 'a' says that it has 4,503,599,627,370,496 bytes, and the file holds 0" in found.output


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("deep.ipynb", '{"cells":' + "[" * 100_000, "not a notebook"),
        ("deep.py", "x = " + "-" * 100_000 + "1", "the script is nested too deeply"),
        ("wide.py", "x = " + "(" * 5_000 + ")" * 5_000, "the script is not Python"),
    ],
)
def test_a_script_that_is_nested_without_end_is_refused(tmp_path: Path, name: str, text: str, why: str) -> None:
    (tmp_path / name).write_text(text)
    found = CliRunner().invoke(cli, ["check", "--script", str(tmp_path / name)])
    assert found.exit_code == 2
    assert why in found.output


def test_a_run_does_not_say_what_code_runs_when_it_is_continued(tmp_path: Path) -> None:
    rows = [{"x": float(n % 2), "label": n % 2} for n in range(60)]
    bushel.build(rows, tmp_path / "data", split="80/20", run=bushel.Run(workers=1))
    run = tmp_path / "run"
    began = [
        "train",
        str(tmp_path / "data"),
        "--out",
        str(run),
        "--model",
        "network",
        "--epochs",
        "1",
        "--no-preflight",
    ]
    assert CliRunner().invoke(cli, began).exit_code in (0, 3)
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef make(problem): pass\n")
    stated = json.loads((run / "run.json").read_text())
    stated["options"]["model"] = f"{evil}:make"
    (run / "run.json").write_text(json.dumps(stated))
    done = CliRunner().invoke(cli, ["train", "--out", str(run), "--resume", "--epochs", "2"])
    assert done.exit_code == 2
    assert f"To run that file: --model {evil}:make" in done.output
    assert not (tmp_path / "ran").exists()
    with pytest.raises(bushel.FileProblem, match="which is code"):
        bushel.train(None, None, out=run, resume=True)


def test_results_of_a_run_that_lead_elsewhere_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"format": 1}')
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").symlink_to("../secret.json")
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "run"), "-o", str(tmp_path / "r.html")])
    assert done.exit_code == 2
    assert "leaves the folder" in done.output


def test_a_baseline_is_not_written_into_the_data(place: Path) -> None:
    (place / "data" / "bushel.toml").unlink()
    before = (place / "data" / "dataset.json").read_bytes()
    written = str(place / "data" / "dataset.json")
    done = CliRunner().invoke(cli, ["check", str(place / "data"), "--write-baseline", written])
    assert done.exit_code == 2
    assert (place / "data" / "dataset.json").read_bytes() == before


def test_settings_of_a_script_that_are_a_pipe_are_not_waited_for(place: Path) -> None:
    (place / "train.py").write_text("import json\nsettings = json.load(open('settings.json'))\n")
    os.mkfifo(place / "settings.json")
    done = CliRunner().invoke(cli, ["check", str(place / "data"), "--script", str(place / "train.py")])
    assert done.exit_code in (0, 1), done.output
