"""Images painted by the kernel for GPUs, run by the interpreter of Triton: the values of the core, but for rounding."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["TRITON_INTERPRET"] = "1"  # read when the kernel is defined, which is when it is first used

import torch

import bushel
import bushel.torch
from bushel import Order
from bushel import transforms as t
from bushel.torch.images import divide
from bushel.torch.loading import Delivery, Loader, Transfer
from bushel.torch.tensors import Form
from bushel.transforms.by_name import BUILT_IN
from tests.pictures import encode_image, photo

DECODE = t.decode_image("image")
CHAINS: dict[str, list[Any]] = {
    "resize": [DECODE, t.resize("image", 17, 23)],
    "enlarge": [DECODE, t.resize("image", 70, 90)],
    "letterbox": [DECODE, t.resize("image", 24, 24, fit="pad", fill=7)],
    "fitted": [DECODE, t.resize("image", 24, 20, fit="crop")],
    "augmented": [DECODE, t.random_resized_crop("image", 20, 24), t.random_flip("image", vertical=True)],
    "centre": [DECODE, t.center_crop("image", 20, 24)],
    "cropped": [DECODE, t.random_crop("image", 16, 16), t.random_flip("image")],
    "scaled": [
        DECODE,
        t.resize("image", 16, 16),
        t.random_flip("image"),
        t.normalise("image", [120, 110, 100], [60, 55, 50]),
    ],
    "colours": [
        DECODE,
        t.resize("image", 16, 16),
        t.brightness("image"),
        t.contrast("image"),
        t.saturation("image"),
        t.hue("image"),
        t.normalise("image", 127.5, 127.5),
    ],
    "half": [
        DECODE,
        t.resize("image", 16, 16, dtype="float32"),
        t.normalise("image", 127.5, 127.5),
        t.cast("image", "float16"),
    ],
    "grey": [t.decode_image("image", channels=1), t.resize("image", 16, 16)],
}


def test_a_gpu_does_what_is_declared_and_refuses_the_rest() -> None:
    done = {type(step) for steps in CHAINS.values() for step in steps}
    assert done == {kind for kind in BUILT_IN.values() if "cuda" in kind.engines}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """JPEGs of several sizes, and two images that no GPU decodes."""
    images = [encode_image(photo(number, 40 + number, 50 - number), "jpeg") for number in range(6)]
    images += [encode_image(photo(number, 33, 44), kind) for number, kind in ((6, "png"), (7, "webp"))]
    bushel.build({"image": images, "label": np.arange(8)}, tmp_path / "data")
    return tmp_path / "data"


def on_device(path: Path, transforms: list[Any], **options: Any) -> Loader:
    """A loader that does on the CPU what it would do on a GPU."""
    plain = bushel.torch.loader(path, "train", **{"batch_size": 4, "transforms": transforms, **options})
    settings, images = divide(plain._request.settings)
    request = type(plain._request)(plain._request.split, settings, plain._request.label)
    return Loader(request, Delivery(Form(), "cpu", 2, images))


@pytest.mark.parametrize("chain", CHAINS)
def test_pixels_are_those_of_the_cpu(pictures: Path, chain: str) -> None:
    order = Order(shuffle=True, seed=2)
    usual = bushel.torch.loader(pictures, "train", batch_size=4, transforms=CHAINS[chain], order=order)
    painted = on_device(pictures, CHAINS[chain], order=order)
    for (image, label), (same, other) in zip(usual, painted, strict=True):
        assert label.tolist() == other.tolist()
        assert image.shape == same.shape
        assert image.dtype == same.dtype
        step = 1 if image.dtype == torch.uint8 else 1 / 50
        apart = (image.float() - same.float()).abs()
        assert apart.max() <= 2 * step
        assert apart.mean() <= 0.1 * step
    assert painted.report().fallbacks == 2
    assert "2 images decoded on the CPU, because the GPU could not" in str(painted.report())


class TestRefusals:
    """What the GPU does not do is said before it is tried."""

    @pytest.mark.parametrize(
        ("transforms", "words"),
        [
            ([], "must come with transforms=.decode_image"),
            ([DECODE, t.noise("image", 3.0)], "does what the core does with images, and not"),
            (
                [DECODE, t.resize("image", 8, 8), t.mixup("image", "label", 8)],
                "must not come with transforms of whole batches",
            ),
        ],
    )
    def test_transforms_that_no_kernel_does(self, pictures: Path, transforms: list[Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            on_device(pictures, transforms)

    @pytest.mark.parametrize(
        ("transforms", "words"),
        [
            ([DECODE], "must give all images of 'image' one size"),
            ([DECODE, t.resize("image", 8, 8, antialias=True)], "antialias=False only"),
            ([DECODE, t.resize("image", 8, 8), t.rotate("image", 30)], "has no rotate"),
        ],
    )
    def test_settings_that_the_kernel_lacks(self, pictures: Path, transforms: list[Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            next(iter(on_device(pictures, transforms)))

    def test_a_gpu_is_needed(self, pictures: Path) -> None:
        with pytest.raises(ValueError, match="must come with a device that is a GPU, got device=None"):
            bushel.torch.loader(pictures, "train", batch_size=4, transforms=CHAINS["resize"], decode="cuda")


class TestDamage:
    """Images that no decoder knows."""

    @pytest.fixture
    def damaged(self, tmp_path: Path) -> Path:
        images = [encode_image(photo(number, 20, 30), "jpeg") for number in range(5)]
        images[2] = images[2][:60]
        with bushel.Writer(tmp_path / "train.tfrecord") as writer:
            for number, image in enumerate(images):
                writer.write({"image": image, "label": number})
        return tmp_path / "train.tfrecord"

    def test_they_are_errors_that_name_the_record(self, damaged: Path) -> None:
        with pytest.raises(bushel.SchemaMismatch, match="cannot be decoded") as caught:
            list(on_device(damaged, CHAINS["resize"]))
        assert "It is record 2 of" in caught.value.__notes__[0]

    def test_they_are_left_out_and_counted(self, damaged: Path) -> None:
        loader = on_device(damaged, CHAINS["resize"], on_fault="skip", label="label")
        assert [label.tolist() for _, label in loader] == [[0, 1, 3], [4]]
        assert loader.report().damaged == 1

    def test_they_are_replaced_without_a_weight(self, damaged: Path) -> None:
        loader = on_device(damaged, CHAINS["resize"], on_fault="replace", label="label")
        (_, label, weight), _ = list(loader)
        assert label.tolist() == [0, 1, 3, 3]
        assert weight.tolist() == [1, 1, 0, 1]


def test_other_transforms_keep_their_draws(tmp_path: Path) -> None:
    images = [encode_image(photo(number, 20, 30), "jpeg") for number in range(4)]
    bushel.build({"image": images, "x": np.ones((4, 3), np.float32)}, tmp_path / "data")
    chain = [DECODE, t.resize("image", 8, 8), t.jitter("x", 1.0)]
    usual = next(iter(bushel.torch.loader(tmp_path / "data", "train", batch_size=4, transforms=chain)))
    painted = next(iter(on_device(tmp_path / "data", chain)))
    assert usual["x"].tolist() == painted["x"].tolist()


def test_transfers_are_made_on_the_cpu_without_a_stream(pictures: Path) -> None:
    transfer = Transfer("cpu", Form(), False, None, lambda *_: pytest.fail("nothing is refused"))
    batch = next(bushel.batches(bushel.open(pictures)["train"], batch_size=2, columns=["label"]))
    assert transfer(batch).receive()["label"].tolist() == batch["label"].tolist()
    assert not transfer.is_cuda
