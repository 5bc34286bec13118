"""Images that the core paints a batch at a time are those that each transform makes of each sample."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pictures import photo
from PIL import Image

from bushel import _native
from bushel import transforms as t
from bushel._native import Outcome
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.samples import Sample, sample_at
from bushel.data.schema import Feature
from bushel.transforms.canvas import Canvas
from bushel.transforms.chain import Chain
from bushel.transforms.interface import Draw, Draws, PaintedTransform

FEATURES = {
    "image": Feature(dtype="bytes"),
    "label": Feature(dtype="int64"),
    "image/height": Feature(dtype="int64"),
    "tags": Feature(dtype="int64", shape=(None,)),
}


def encoded(pixels: Any, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **options)
    return file.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


IMAGES = [
    encoded(photo(0, 60, 80), "JPEG"),
    encoded(photo(1, 90, 70), "PNG"),
    encoded(photo(2, 64, 64), "WEBP", lossless=True),
    encoded(photo(3, 200, 300), "JPEG", exif=turned(6)),
    encoded(photo(4, 75, 61)[..., 0], "JPEG"),
    encoded(photo(5, 61, 75), "JPEG", progressive=True),
]
ODD = io.BytesIO()
Image.fromarray(photo(6, 66, 77)).convert("CMYK").save(ODD, "JPEG")
IMAGES.append(ODD.getvalue())


def columns_of(images: Sequence[bytes]) -> dict[str, Any]:
    count = len(images)
    return {
        "image": BytesColumn.of(images),
        "label": np.arange(count, dtype=np.int64),
        "image/height": np.zeros(count, np.int64),
        "tags": Ragged.of([[row] * (row % 3) for row in range(count)], np.int64),
    }


@dataclass(frozen=True)
class Darker:
    """A custom transform: the core knows nothing of it."""

    feature: str = "image"

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        return {**sample, self.feature: sample[self.feature] // 2}


CHAINS: dict[str, list[Any]] = {
    "stretched": [t.resize("image", 30, 40)],
    "floats": [t.resize("image", 30, 40, dtype="float32", antialias=True)],
    "padded": [t.resize("image", 50, 40, fit="pad", fill=7), t.random_flip("image")],
    "cropped": [t.resize("image", 50, 40, fit="crop", kernel="bicubic")],
    "for ImageNet": [
        t.random_resized_crop("image", 32, 24),
        t.random_flip("image", vertical=True),
        t.normalise("image", mean=(120.0, 110.0, 100.0), std=(58.0, 57.0, 56.0)),
    ],
    "resized and cut": [t.resize("image", 40, 40), t.center_crop("image", 32, 30), t.random_flip("image")],
    "cut and resized": [t.random_crop("image", 50, 45), t.resize("image", 30, 30), t.cast("image", "float16")],
    "flipped and cut": [t.random_flip("image", vertical=True), t.random_crop("image", 33, 44)],
    "flipped and resized": [t.random_flip("image"), t.resize("image", 33, 44)],
    "flipped twice": [t.random_crop("image", 33, 44), t.random_flip("image"), t.random_flip("image")],
    "cut twice": [t.center_crop("image", 50, 50), t.random_crop("image", 20, 30)],
    "resized twice": [t.resize("image", 40, 40), t.resize("image", 20, 20), t.random_flip("image")],
    "colours": [
        t.resize("image", 32, 32),
        t.brightness("image"),
        t.contrast("image"),
        t.saturation("image"),
        t.hue("image"),
        t.rotate("image", 30, fill=9),
        t.cutout("image", 9, fill=3),
        t.random_flip("image"),
        t.normalise("image"),
    ],
    "shifted": [t.resize("image", 40, 30), t.random_shift("image", 0.3), t.random_flip("image"), t.normalise("image")],
    "changed and cut": [t.resize("image", 40, 40), t.brightness("image"), t.random_crop("image", 20, 20)],
    "scaled and changed": [t.resize("image", 40, 40), t.cast("image", "float32"), t.contrast("image")],
    "custom in the middle": [
        t.resize("image", 40, 40),
        Darker(),
        t.random_resized_crop("image", 20, 20),
        t.normalise("image"),
    ],
    "custom before": [Darker(), t.random_resized_crop("image", 20, 20), t.random_flip("image")],
    "custom after": [t.random_resized_crop("image", 20, 20), Darker()],
}


def by_sample(chain: Chain, columns: dict[str, Any], records: Sequence[int], epoch: int) -> list[Sample]:
    rows = range(len(records))
    return [chain.apply(sample_at(columns, FEATURES, at), record=records[at], epoch=epoch) for at in rows]


def assert_same(chain: Chain, columns: dict[str, Any]) -> None:
    records = [11 + 3 * row for row in range(len(columns["image"]))]
    found = chain.apply_rows(columns, FEATURES, records, epoch=4)
    assert found.kept.tolist() == list(range(len(records)))
    for at, sample in enumerate(by_sample(chain, columns, records, 4)):
        image = found.columns["image"][at]
        assert image.dtype == sample["image"].dtype
        assert image.shape == sample["image"].shape
        most = 1 if np.abs(sample["image"]).max() > 10 else 1 / 50  # of 255, or of 255 / std
        assert np.abs(image.astype(np.float64) - sample["image"]).max() <= most
        for name in ("label", "image/height", "tags"):
            assert np.array_equal(found.columns[name][at], sample[name])


@pytest.mark.parametrize("name", CHAINS)
def test_a_batch_is_painted_as_each_sample_is_made(name: str) -> None:
    assert_same(Chain.of([t.decode_image("image"), *CHAINS[name]], seed=5), columns_of(IMAGES))


@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_decoding_has_the_same_choices(upright: bool, channels: int) -> None:
    decode = t.decode_image("image", channels=channels, upright=upright, at_least=(40, 30))
    assert_same(Chain.of([decode, t.random_resized_crop("image", 20, 30)]), columns_of(IMAGES))


def test_images_of_one_size_need_not_be_resized() -> None:
    columns = columns_of([encoded(photo(n, 28, 28)[..., 0], "PNG") for n in range(5)])
    assert_same(Chain.of([t.decode_image("image", channels=1), t.normalise("image")]), columns)


def test_pixels_in_a_batch_are_painted_as_well() -> None:
    columns = columns_of([b""] * 4) | {"image": np.stack([photo(number, 20, 30) for number in range(4)])}
    assert_same(Chain.of([t.resize("image", 7, 9), t.random_flip("image"), t.brightness("image")]), columns)


def test_without_decoders_in_the_core_others_decode_and_it_paints_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain.of([t.decode_image("image"), *CHAINS["for ImageNet"]])
    columns, records = columns_of(IMAGES), range(len(IMAGES))
    expected = chain.apply_rows(columns, FEATURES, records).columns["image"]

    def decode_none(offsets: Any, *_: Any) -> list[tuple[int, Outcome, str]]:
        return [(row, Outcome.OTHER, "") for row in range(len(offsets) - 1)]

    monkeypatch.setattr(_native, "decode_images", decode_none)
    assert np.array_equal(chain.apply_rows(columns, FEATURES, records).columns["image"], expected)


def test_images_that_cannot_be_used_are_left_out_with_the_words_of_the_transform() -> None:
    images = [IMAGES[0], IMAGES[0][:300], b"nothing", encoded(photo(1, 8, 90), "PNG"), IMAGES[1][:200], IMAGES[5]]
    chain, columns = Chain.of([t.decode_image("image"), t.center_crop("image", 40, 40)]), columns_of(images)
    refused: list[tuple[int, str]] = []
    rows = chain.apply_rows(columns, FEATURES, range(6), refuse=lambda at, error: refused.append((at, str(error))))
    assert rows.kept.tolist() == [0, 5]
    assert rows.columns["label"].tolist() == [0, 5]
    assert [at for at, _ in refused] == [1, 2, 3, 4]
    for at, words in refused:
        with pytest.raises(Exception, match=".") as caught:
            chain.apply(sample_at(columns, FEATURES, at))
        assert str(caught.value).split(" 0x")[0] == words.split(" 0x")[0]  # Pillow names an object of its own
    assert np.array_equal(rows.columns["image"][1], chain.apply(sample_at(columns, FEATURES, 5))["image"])


def test_an_image_that_cannot_be_used_raises_where_nobody_leaves_it_out() -> None:
    chain = Chain.of([t.decode_image("image"), t.resize("image", 4, 4)])
    with pytest.raises(Exception, match="the image cannot be decoded"):
        chain.apply_rows(columns_of([IMAGES[0], b"nothing"]), FEATURES, range(2))


def test_boxes_follow_images_in_a_batch() -> None:
    columns = columns_of(IMAGES[:2])
    for corner, value in (("xmin", 0.1), ("ymin", 0.2), ("xmax", 0.5), ("ymax", 0.6)):
        columns[f"image/object/bbox/{corner}"] = np.full((2, 1), value, np.float32)
    chain = Chain.of([t.decode_image("image"), t.resize("image", 20, 20), t.random_flip("image")], seed=2)
    rows = chain.apply_rows(columns, FEATURES, range(2))
    for at in range(2):
        alone = chain.apply(sample_at(columns, FEATURES, at), record=at)
        for name, value in alone.items():
            assert np.array_equal(rows.columns[name][at], value)


def test_rows_draw_what_each_record_draws() -> None:
    records = np.array([0, 1, 5, -3, 2**62], np.int64)
    draws = Draws(7, 3, records, 2)
    for at, record in enumerate(records.tolist()):
        draw = Draw(7, 3, record, 2)
        assert draws.uniforms(4)[at].tolist() == draw.uniforms(4)
        assert draws.between(-0.2, 0.3)[at] == draw.between(-0.2, 0.3)


def painted_at_once(steps: Sequence[Any]) -> int:
    canvas = Canvas(columns_of(IMAGES)["image"], "image")
    draws: Callable[[int], Draws] = lambda number: Draws(0, 0, np.arange(len(IMAGES)), number)  # noqa: E731
    return sum(isinstance(s, PaintedTransform) and s.paint(canvas, draws(number)) for number, s in enumerate(steps))


@pytest.mark.parametrize(
    "name", ["stretched", "padded", "for ImageNet", "resized and cut", "cut and resized", "colours"]
)
def test_usual_chains_are_painted_in_one_go(name: str) -> None:
    steps = [t.decode_image("image"), *CHAINS[name]]
    assert painted_at_once(steps) == len(steps)
