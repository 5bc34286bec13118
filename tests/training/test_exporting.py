"""A run exported for programs without bushel: it answers as in training, from raw samples, Examples and tensors."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel.cli import cli
from bushel.training import Options, train
from bushel.training.exporting import export_run

pytest.importorskip("tensorflow")

QUICK = Options(epochs=1, preflight=False, tensorboard=False)


@pytest.fixture(scope="module")
def digits_run(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "digits"
    train(digits, QUICK, out=out)
    return out


@pytest.fixture(scope="module")
def numbers_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers of which some are missing, and codes, to a number: trees."""
    pytest.importorskip("sklearn")
    generator, folder = np.random.default_rng(0), tmp_path_factory.mktemp("numbers")
    x = generator.normal(size=300)
    rows = [{"code": i % 4, "y": float(v + i % 4), **({"x": float(v)} if i % 5 else {})} for i, v in enumerate(x)]
    bushel.build(iter(rows), folder / "data", split="80/20", label="y")
    train(folder / "data", Options(model="trees", epochs=3), out=folder / "run")
    return folder / "run"


def ask_without_bushel(code: str, *arguments: str) -> Any:
    """What a program prints as JSON that never imports bushel."""
    check = "\nassert not any(name.split('.')[0] == 'bushel' for name in sys.modules)"
    program = "import json, sys\n" + code + check
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_saved_model_takes_bytes_of_images_and_answers_like_predict(
    digits: Path, digits_run: Path, tmp_path: Path
) -> None:
    exported = export_run(digits_run, tmp_path / "served")
    assert [(signature.name, signature.is_verified) for signature in exported.signatures] == [
        ("serving_default", True),
        ("examples", True),
        ("tensors", True),
    ]
    assert exported.signatures[0].inputs == {"image": "string ['N']"}
    image = sorted((digits.parent / "images").rglob("*.png"))[7]
    code = (
        "import tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "found = serve(image=tf.constant([open(sys.argv[2], 'rb').read()] * 3))\n"
        "print(json.dumps([found['label'][2].numpy().decode(), found['probabilities'][2].numpy().tolist()]))"
    )
    label, shares = ask_without_bushel(code, str(tmp_path / "served"), str(image))
    (expected,) = bushel.predict(digits_run, image)
    assert label == expected.label
    assert max(shares) == pytest.approx(expected.probability, abs=1e-4)
    about = json.loads((tmp_path / "served" / "export.json").read_text())
    assert about["classes"] == [str(digit) for digit in range(10)]


def test_trees_with_words_and_gaps_are_served_from_columns(table: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    train(table, Options(model="trees", epochs=2), out=tmp_path / "run")
    exported = export_run(tmp_path / "run", tmp_path / "served")
    assert all(signature.is_verified for signature in exported.signatures)
    code = (
        "import tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "found = serve(x=tf.constant([[1.0, 0, 0, 0]] * 2), colour=tf.constant(['red', 'never seen']),"
        " size=tf.constant([1.0, float('nan')]))\n"
        "print(json.dumps(found['probabilities'].numpy().tolist()))"
    )
    served = ask_without_bushel(code, str(tmp_path / "served"))
    rows = [
        {"x": np.array([1, 0, 0, 0], np.float32), "colour": "red", "size": 1.0},
        {"x": np.array([1, 0, 0, 0], np.float32), "colour": "never seen"},
    ]
    bushel.build(iter(rows), tmp_path / "asked", run=bushel.Run(workers=1))
    predicted = [float(answer.probability or 0) for answer in bushel.predict(tmp_path / "run", tmp_path / "asked")]
    assert sorted(map(max, served)) == pytest.approx(sorted(predicted), abs=1e-4)  # a build shuffles


def test_texts_are_served_as_texts_and_refused_by_other_formats(tmp_path: Path) -> None:
    rows = [{"text": f"the {'good' if i % 2 else 'bad'} cat number {i} sat", "label": i % 2} for i in range(120)]
    bushel.build(iter(rows), tmp_path / "data", split="80/20")
    train(tmp_path / "data", QUICK, out=tmp_path / "run")
    exported = export_run(tmp_path / "run", tmp_path / "served")
    assert exported.signatures[0].inputs == {"text": "string ['N']"}
    assert all(signature.is_verified for signature in exported.signatures)
    for format in ("onnx", "litert"):
        result = CliRunner().invoke(cli, ["export", str(tmp_path / "run"), str(tmp_path / "no"), "--format", format])
        assert result.exit_code == 2
        assert "has no operations for text, and this is fed as text - at text" in result.output
        assert not (tmp_path / "no").exists()


def test_onnx_takes_pixels_and_scales_inside(digits: Path, digits_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("tf2onnx")
    pytest.importorskip("onnxruntime")
    exported = export_run(digits_run, tmp_path / "onnx", format="onnx")
    (signature,) = exported.signatures
    assert signature.is_verified
    assert signature.inputs == {"image": "uint8 ['N', 8, 8, 1]"}
    assert exported.notes == ["ONNX cannot hold decoding of images: do this before you call the model"]
    image = sorted((digits.parent / "images").rglob("*.png"))[7]
    np.save(tmp_path / "pixels.npy", pixels(image))
    code = (
        "import numpy as np, onnxruntime\n"
        "session = onnxruntime.InferenceSession(sys.argv[1] + '/model.onnx')\n"
        "(found,) = session.run(['probabilities'], {'image': np.load(sys.argv[2])})\n"
        "print(json.dumps(found.tolist()))"
    )
    ((*shares,),) = ask_without_bushel(code, str(tmp_path / "onnx"), str(tmp_path / "pixels.npy"))
    (expected,) = bushel.predict(digits_run, image)
    assert max(shares) == pytest.approx(expected.probability, abs=1e-4)


def pixels(path: Path) -> np.ndarray:
    from PIL import Image

    with Image.open(io.BytesIO(path.read_bytes())) as image:
        return np.asarray(image.convert("L"))[None, ..., None]


@pytest.mark.parametrize("format", ["onnx", "litert"])
def test_trees_of_numbers_are_exported_in_every_format(numbers_run: Path, tmp_path: Path, format: Any) -> None:
    if format == "onnx":
        pytest.importorskip("tf2onnx")
        pytest.importorskip("onnxruntime")
    exported = export_run(numbers_run, tmp_path / "out", format=format)
    (signature,) = exported.signatures
    assert signature.is_verified
    assert signature.outputs == ["value"]


def test_litert_answers_batches_of_any_size(digits_run: Path, tmp_path: Path) -> None:
    exported = export_run(digits_run, tmp_path / "lite", format="litert")
    assert exported.signatures[0].is_verified  # with as many rows as there are golden inputs
    assert (tmp_path / "lite" / "model.tflite").is_file()


def test_a_model_that_answers_differently_is_not_exported(digits_run: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(digits_run, tmp_path / "run")
    contract = json.loads((tmp_path / "run" / "contract.json").read_text())
    first, second = (golden["outputs"] for golden in contract["golden"][:2])
    contract["golden"][0]["outputs"], contract["golden"][1]["outputs"] = second, first
    (tmp_path / "run" / "contract.json").write_text(json.dumps(contract))
    result = CliRunner().invoke(cli, ["export", str(tmp_path / "run"), str(tmp_path / "served")])
    assert result.exit_code == 2, result.output
    assert "answers the golden inputs with up to" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_wrong_arguments_are_refused_in_one_line(digits: Path, digits_run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["export", str(digits_run), str(tmp_path / "out"), "--format", "pickle"])
    assert result.exit_code == 2
    assert "--format of a run must be one of savedmodel, onnx, litert; got 'pickle'" in result.output
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    result = CliRunner().invoke(cli, ["export", str(digits_run), str(tmp_path / "full")])
    assert result.exit_code == 2
    assert "there is something already" in result.output
    assert (tmp_path / "full" / "mine").exists()
    with pytest.raises(bushel.FileProblem, match="this is not a finished run"):
        export_run(digits, tmp_path / "out")
