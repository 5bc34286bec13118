"""The contract of a run: golden inputs, made again from a file, and compared with what serving makes of them."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import write_clips, write_every_kind
from pictures import encode_image, photo

import bushel
from bushel import Feature, FormatError, Pad, Schema, contract
from bushel import transforms as t
from bushel.contract.document import load_array, load_sample, store_array

SIDE = 24
TO_MODEL = (
    t.decode_image("image"),
    t.resize("image", SIDE, SIDE, dtype="float32"),
    t.normalise("image", mean=0.0, std=255.0),
)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset built from a folder of 3 classes x 6 pictures, wider than high."""
    folder = tmp_path_factory.mktemp("photos")
    for number in range(18):
        name = ("bee", "ant", "cat")[number % 3]
        (folder / name).mkdir(exist_ok=True)
        kind = ("jpeg", "png")[number % 2]
        (folder / name / f"{number}.{kind}").write_bytes(encode_image(photo(number, 40, 56), kind))
    out = folder.parent / "data"
    bushel.build(folder, out)
    return out


@pytest.fixture
def of_photos(photos: Path) -> contract.Contract:
    preparation = contract.Preparation(features=("image",), transforms=TO_MODEL)
    return contract.make(bushel.open(photos), preparation)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records with a feature of every kind."""
    return write_every_kind(tmp_path_factory.mktemp("everything") / "everything.tfrecord", 20, shortest=1)


def test_golden_inputs_are_the_bits_that_batches_gives(photos: Path, of_photos: contract.Contract) -> None:
    train = bushel.open(photos)["train"]
    for golden in of_photos.golden:
        row = int(golden.record.removeprefix("train:"))
        (batch,) = bushel.batches(train.select([row]), batch_size=1, transforms=TO_MODEL)
        stored = golden.inputs["image"].array
        assert stored is not None
        assert np.asarray(load_array(stored)).tobytes() == batch["image"][0].tobytes()
        assert load_sample(golden.sample)["image"] == train[row]["image"]


def test_a_contract_says_what_a_server_must_know(of_photos: contract.Contract) -> None:
    assert (of_photos.classes, of_photos.task, of_photos.label) == (["ant", "bee", "cat"], "classification", "label")
    image = of_photos.inputs["image"]
    assert (image.dtype, image.shape, image.channels) == ("float32", (SIDE, SIDE, 3), "RGB")
    assert image.resize is not None
    assert (image.resize.kernel, image.resize.antialias) == ("bilinear", False)
    assert image.min is not None
    assert image.max is not None
    assert 0 <= image.min < image.max <= 1
    assert of_photos.versions["bushel"] == bushel.__version__


def test_golden_inputs_are_of_several_classes(of_photos: contract.Contract) -> None:
    labels = [load_sample({"label": golden.label})["label"] for golden in of_photos.golden if golden.label]
    assert len(labels) == 4
    assert {int(label) for label in labels} == {0, 1, 2}


def test_a_contract_is_the_same_after_it_was_written_and_read(tmp_path: Path, of_photos: contract.Contract) -> None:
    contract.write(of_photos, tmp_path / "contract.json")
    again = contract.read(tmp_path)
    assert again == of_photos
    assert again.preparation == of_photos.preparation
    assert contract.verify(tmp_path) == []


@pytest.mark.parametrize("transforms", [(), (t.cast("grid", "float32"),)], ids=["as stored", "through samples"])
def test_every_kind_of_feature_is_prepared_from_samples_as_from_records(everything: Path, transforms: Any) -> None:
    features = ("boxes", "grid", "maybe", "name", "pair", "raw", "tokens", "wave", "words")
    preparation = contract.Preparation(features, transforms, (Pad("tokens", length=5), Pad("wave", multiple=2)))
    made = contract.make(bushel.open(everything), preparation, split="all", golden=8)
    assert contract.verify(made) == []
    assert set(made.inputs) == {*features, "tokens/mask", "wave/mask"}


def test_steps_of_a_sequence_example_are_prepared_from_samples_as_from_records(tmp_path: Path) -> None:
    preparation = contract.Preparation(("frame", "pose", "time"), (), (Pad("pose", length=4),))
    made = contract.make(bushel.open(write_clips(tmp_path / "clips.tfrecord", 6)), preparation, split="all")
    assert contract.verify(made) == []


@pytest.mark.parametrize("step", [t.random_flip("image"), t.brightness("image"), t.jitter("image", std=1.0)])
def test_what_changes_samples_at_random_is_refused(photos: Path, step: Any) -> None:
    preparation = contract.Preparation(("image",), (t.decode_image("image"), step))
    with pytest.raises(ValueError, match="must not change samples at random, got"):
        contract.make(bushel.open(photos), preparation)


def test_what_mixes_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="must not mix the rows of a batch"):
        contract.Preparation(("image",), (t.mixup("image", "label", 3),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="layout must keep one row per sample"):
        contract.Preparation(("tokens",), (), (bushel.Pack("tokens", 8),))  # type: ignore[arg-type]


def decoded(sample: dict[str, Any]) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(sample["image"])).convert("RGB"))


def right(sample: dict[str, Any]) -> Any:
    return t.normalise("image").apply(
        t.resize("image", SIDE, SIDE, dtype="float32").apply(
            t.decode_image("image").apply(sample, t.Draw(0, 0, 0)), t.Draw(0, 0, 0)
        ),
        t.Draw(0, 0, 0),
    )["image"]


def fitted(sample: dict[str, Any], fit: Any) -> Any:
    from bushel.transforms import apply_all

    steps = (t.decode_image("image"), t.resize("image", SIDE, SIDE, dtype="float32", fit=fit), t.normalise("image"))
    return apply_all(steps, sample)["image"]


def pillow(kernel: str) -> Callable[[dict[str, Any]], Any]:
    from PIL import Image

    def prepare(sample: dict[str, Any]) -> Any:
        resized = Image.fromarray(decoded(sample)).resize((SIDE, SIDE), Image.Resampling[kernel])
        return np.asarray(resized, np.float32) / np.float32(255)

    return prepare


def test_a_server_that_prepares_the_same_is_told_so(of_photos: contract.Contract) -> None:
    assert contract.verify(of_photos, right, classes=["ant", "bee", "cat"]) == []
    assert contract.verify(of_photos, lambda sample: {"image": right(sample)[None]}) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: right(x)[..., ::-1], "the channels are in the order BGR; the model saw RGB"),
        (lambda x: right(x) * 255, "(its values are those times 255)"),
        (lambda x: right(x) / 255, "(its values are those times 0.003922)"),
        (lambda x: right(x) * 2 - 1, "(its values are those times 2 - 1)"),
        (lambda x: (right(x) - [0.4, 0.5, 0.6]) / 0.2, "one for each channel"),
        (lambda x: right(x)[..., ::-1] * 255, "times 255), and the channels are in the order BGR"),
        (
            lambda x: right(x).transpose(2, 0, 1),
            "has shape [3, 24, 24]; the model saw [24, 24, 3]: channels come first",
        ),
        (lambda x: right(x)[::-1], "the image is upside down"),
        (lambda x: right(x)[:, ::-1], "the image is mirrored, left to right"),
        (lambda x: np.rot90(right(x)), "turned by a quarter turn anticlockwise: is its EXIF rotation applied?"),
        (lambda x: right(x).astype(np.float64), "is float64; the model saw the same values as float32"),
        (lambda x: right(x)[:20], "has shape [20, 24, 3]; the model saw [24, 24, 3]"),
        (lambda x: right(x) * np.nan, "values that are NaN or infinite; the model saw none"),
        (lambda _: "text", "holds <U4; the model saw float32"),
        (lambda x: {"picture": right(x)}, "is missing; there is picture"),
        (lambda x: fitted(x, "pad"), "the image is padded to its size; the model saw it stretched to its size"),
        (lambda x: fitted(x, "crop"), "the image is cut to its shape; the model saw it stretched to its size"),
        (pillow("BICUBIC"), "the kernel is Pillow's bicubic; the model saw bilinear without antialias"),
        (pillow("NEAREST"), "the kernel is Pillow's nearest; the model saw bilinear without antialias"),
        (pillow("LANCZOS"), "the kernel is Pillow's lanczos; the model saw bilinear without antialias"),
        (pillow("BILINEAR"), "the kernel is Pillow's bilinear; the model saw bilinear without antialias"),
        (
            lambda x: (
                right(x) + np.float32(1e-4) * np.sin(np.arange(SIDE * SIDE * 3)).reshape(SIDE, SIDE, 3).astype("f4")
            ),
            "as small as another decoder, kernel or rounding makes it",
        ),
    ],
)
def test_a_server_that_prepares_otherwise_is_told_how(of_photos: contract.Contract, wrong: Any, words: str) -> None:
    found = contract.verify(of_photos, wrong)
    assert len(found) == len(of_photos.golden)
    for difference in found:
        assert words in str(difference), str(difference)
        assert difference.at.startswith("image of train:")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda ids: [0] * (8 - len(ids)) + ids, "the padding comes before the values; the model saw it after them"),
        (lambda ids: ids + [-1] * (8 - len(ids)), "it is padded with -1; the model saw 0"),
        (lambda ids: [i + 2 for i in ids] + [2] * (8 - len(ids)), "(its values are those times 1 + 2)"),
        (
            lambda ids: [100 - i * i for i in ids] + [0] * (8 - len(ids)),
            "every number stands for another, as with another",
        ),
        (
            lambda ids: ids + [0] * (12 - len(ids)),
            "has shape [12]; the model saw [8]: it is padded to another length",
        ),
    ],
)
def test_token_ids_of_another_kind_are_told_apart(tmp_path: Path, wrong: Any, words: str) -> None:
    with bushel.Writer(tmp_path / "a.tfrecord", schema=Schema.of(ids=Feature(dtype="int64", shape=(None,)))) as writer:
        for ids in ([7, 3, 5], [9, 2], [4, 4, 8, 1]):
            writer.write({"ids": ids})
    preparation = contract.Preparation(("ids",), (), (Pad("ids", length=8, mask=False),))
    made = contract.make(bushel.open(tmp_path / "a.tfrecord"), preparation, split="all")
    found = contract.verify(made, lambda sample: np.array(wrong(sample["ids"].tolist())))
    assert len(found) == 3
    assert all(words in str(difference) for difference in found), [str(difference) for difference in found]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (["cat", "bee", "ant"], "the same 3 classes in another order: 0 is 'cat', and was 'ant' in training"),
        (["none", "ant", "bee", "cat"], "every code is moved by 1: 'none' comes first, and was not there in training"),
        (["ant", "bee"], "lacks 'cat'"),
        (["ant", "bee", "cat", "dog"], "has 'dog' that training had not"),
    ],
)
def test_other_classes_are_told(of_photos: contract.Contract, classes: list[str], words: str) -> None:
    (difference,) = contract.verify(of_photos, classes=classes)
    assert str(difference) == f"classes: {words}"


def test_outputs_of_another_model_are_told(photos: Path) -> None:
    preparation = contract.Preparation(("image",), TO_MODEL)
    made = contract.make(bushel.open(photos), preparation, outputs=lambda x: x.mean(axis=(1, 2)))
    assert contract.verify(made, model=lambda x: x.mean(axis=(1, 2))) == []
    found = contract.verify(made, model=lambda x: 1 - x.mean(axis=(1, 2)))
    assert len(found) == 4
    assert "is it the same model?" in str(found[0])


def test_a_tensor_too_large_to_keep_is_compared_by_its_digest(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_array, "__kwdefaults__", {"largest": 64})
    made = contract.make(bushel.open(photos), contract.Preparation(("image",), TO_MODEL))
    assert all(golden.inputs["image"].array.data is None for golden in made.golden if golden.inputs["image"].array)
    assert contract.verify(made) == []
    assert "order BGR" in str(contract.verify(made, lambda sample: right(sample)[..., ::-1])[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-400], "not a contract: "),
        (lambda text: "[]", "not a contract: "),
        (lambda text: text.replace('"format": 1', '"format": 9'), "contract of format 9; this bushel reads format 1"),
        (lambda text: text.replace('"transform": "resize"', '"transform": "resiz"'), "did you mean 'resize'?"),
        (
            lambda text: text.replace('"antialias"', '"antialas"'),
            "no field 'antialas'; did you mean 'antialias'?",
        ),
        (lambda text: text.replace('"bytes": "', '"bytes": "!', 1), "stored bytes are damaged"),
        (lambda text: text.replace('"features"', '"feature"'), "not a contract: "),
    ],
)
def test_a_damaged_contract_is_one_line(
    tmp_path: Path, of_photos: contract.Contract, change: Callable[[str], str], words: str
) -> None:
    path = tmp_path / "contract.json"
    contract.write(of_photos, path)
    path.write_text(change(path.read_text()))
    with pytest.raises(FormatError) as caught:
        contract.read(path)
    assert words in caught.value.message
    assert caught.value.message.startswith(f"{path}: ")


def test_a_golden_tensor_that_was_tampered_with_is_told(tmp_path: Path, of_photos: contract.Contract) -> None:
    contract.write(of_photos, tmp_path / "contract.json")
    fields = json.loads((tmp_path / "contract.json").read_text())
    fields["golden"][0]["inputs"]["image"]["array"]["data"] = fields["golden"][1]["inputs"]["image"]["array"]["data"]
    fields["golden"][0]["inputs"]["image"]["array"]["sha256"] = fields["golden"][1]["inputs"]["image"]["array"][
        "sha256"
    ]
    (tmp_path / "contract.json").write_text(json.dumps(fields))
    assert len(contract.verify(tmp_path)) == 1


def test_a_folder_without_a_contract_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(
        bushel.FileProblem, match=r"there is no contract\.json in this folder, so this is not a finished run"
    ):
        contract.read(tmp_path)


def test_a_sample_without_a_feature_names_the_nearest(of_photos: contract.Contract) -> None:
    with pytest.raises(bushel.MissingName, match="no feature 'image'; did you mean 'images'"):
        contract.prepare(of_photos, [{"images": b""}])


def test_verifying_needs_no_framework_and_nothing_that_writes(tmp_path: Path, of_photos: contract.Contract) -> None:
    contract.write(of_photos, tmp_path / "contract.json")
    code = (
        "import sys, bushel; found = bushel.contract.verify(sys.argv[1]); "
        "print(len(found), *(n for n in sys.modules if n.split('.')[0] in ('tensorflow', 'keras', 'torch', 'jax') "
        "or n.startswith('bushel.building')))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
