"""Transparent pictures: what they look like on a background, and pixels that are floats."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin

import bushel
from bushel import transforms as t
from bushel.pixels.codecs import decode_pixels, decode_wide, decode_without_core

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 7, 4), dtype=np.uint8)
RGBA = Image.fromarray(PIXELS)


def encoded(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


KINDS = {
    "rgba": encoded(RGBA),
    "grey": encoded(RGBA.convert("LA")),
    "palette": encoded(RGBA.quantize(16)),
    "one clear colour": encoded(RGBA.convert("RGB").quantize(16), transparency=3),
    "clear grey": encoded(RGBA.convert("L"), transparency=77),
    "webp": encoded(RGBA, "WEBP", lossless=True, exact=True),
    "gif": encoded(RGBA.convert("RGB").quantize(16), "GIF", transparency=3),
}


@pytest.mark.parametrize("data", KINDS.values(), ids=KINDS)
def test_what_is_transparent_shows_white(data: bytes) -> None:
    with Image.open(io.BytesIO(data)) as image:
        white = Image.new("RGBA", image.size, "white")
        seen = Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    for decode in (decode_pixels, decode_without_core):
        np.testing.assert_array_equal(decode(data, 3), np.asarray(seen))
        difference = decode(data, 1)[..., 0].astype(int) - np.asarray(seen.convert("L"))
        assert np.abs(difference).max() <= 1
    assert decode_pixels(data, 4).shape == (9, 7, 4)


def test_a_drawing_that_is_all_alpha_is_not_a_black_square() -> None:
    stamp = np.zeros((8, 8, 4), np.uint8)
    stamp[2:6, 2:6, 3] = 255
    sample = {"image": encoded(Image.fromarray(stamp))}
    assert decode_pixels(sample["image"], 3)[:, :, 0].tolist()[0] == [255] * 8
    red = t.decode_image(background=(255, 0, 0)).apply(sample, None)["image"]  # type: ignore[arg-type]
    assert red[0, 0].tolist() == [255, 0, 0]
    assert red[3, 3].tolist() == [0, 0, 0]


def test_background_must_be_a_colour() -> None:
    with pytest.raises(ValueError, match="background must be red, green and blue from 0 to 255"):
        t.decode_image(background=(300, 0, 0))


def test_a_build_that_stores_jpegs_puts_them_on_white(tmp_path: Path) -> None:
    (tmp_path / "stamps").mkdir()
    clear = np.zeros((16, 16, 4), np.uint8)
    for number in range(3):
        (tmp_path / "stamps" / f"{number}.png").write_bytes(encoded(Image.fromarray(clear)))
    steps = [t.resize_encoded("image", 8, 8, form="jpeg")]
    bushel.build(bushel.sources.images(tmp_path / "stamps"), tmp_path / "out", transforms=steps)
    found = bushel.open(tmp_path / "out")["train"][0]["image"]
    assert found[:2] == b"\xff\xd8"
    assert decode_pixels(found, 3).min() >= 253


def test_both_engines_of_tensorflow_see_the_background(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    from bushel.tensorflow import dataset

    with bushel.Writer(tmp_path / "x.tfrecord") as writer:
        for number in range(4):
            writer.write({"image": KINDS["rgba"], "label": number})
    for channels in (1, 3):
        steps = [t.decode_image(channels=channels)]  # type: ignore[arg-type]
        both = [
            np.asarray(next(iter(dataset(tmp_path / "x.tfrecord", batch_size=4, transforms=steps, engine=engine)))[0])
            for engine in ("native", "graph")
        ]
        np.testing.assert_array_equal(*both)


def floats(**tags: float) -> bytes:
    info = TiffImagePlugin.ImageFileDirectory_v2()
    for name, tag in (("low", 340), ("high", 341)):
        if name in tags:
            info.tagtype[tag] = 12
            info[tag] = tags[name]
    return encoded(Image.fromarray(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)), "TIFF", tiffinfo=info)


def test_a_tiff_of_floats_is_scaled_as_it_says_or_refused() -> None:
    scaled = decode_pixels(floats(low=0.0, high=1.0), 3)
    assert (scaled.min(), scaled.max(), scaled[0, 1, 0]) == (0, 255, 4)
    assert decode_wide(floats(low=0.0, high=2.0), 1).max() == 32768
    for decode in (decode_pixels, decode_wide):
        with pytest.raises(ValueError, match="its pixels are floats, and it does not say which are black and white"):
            decode(floats(), 3)
