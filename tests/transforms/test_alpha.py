"""Transparent pictures: what they look like on a background, and pixels that are floats."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image, TiffImagePlugin

import bushel
from bushel import transforms as t
from bushel.cli import cli
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
    "clear grey": encoded(RGBA.convert("L"), transparency=int(np.asarray(RGBA.convert("L"))[0, 0])),
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


@pytest.mark.parametrize("data", KINDS.values(), ids=KINDS)
def test_a_build_puts_what_is_transparent_on_the_colour_that_was_asked_for(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "stamps" / "one").mkdir(parents=True)
    opaque = encoded(RGBA.convert("RGB"))
    for name, content in (("clear", data), ("opaque", opaque)):
        (tmp_path / "stamps" / "one" / name).write_bytes(content)
    step = t.on_background("image", (255, 136, 0))
    report = bushel.build(bushel.sources.images(tmp_path / "stamps"), tmp_path / "out", transforms=[step])
    with Image.open(io.BytesIO(data)) as image:
        orange = Image.new("RGBA", image.size, (255, 136, 0))
        seen = np.asarray(Image.alpha_composite(orange, image.convert("RGBA")).convert("RGB"))
    found = {sample["key"]: sample for sample in bushel.open(tmp_path / "out")["train"]}
    assert found["one/opaque"]["image"] == opaque
    with Image.open(io.BytesIO(found["one/clear"]["image"])) as image:
        assert (image.mode, found["one/clear"]["image/channels"]) == ("RGB", 3)
        if image.format == "PNG":
            np.testing.assert_array_equal(np.asarray(image), seen)
    assert report.manifest.counted["transparent images put on a background (image)"] == 1


def test_a_drawing_that_cannot_be_seen_on_its_background_is_counted(tmp_path: Path) -> None:
    (tmp_path / "logos" / "one").mkdir(parents=True)
    logo = np.full((16, 16, 4), 255, np.uint8)
    logo[:4, :, 3] = 0
    (tmp_path / "logos" / "one" / "a.png").write_bytes(encoded(Image.fromarray(logo)))
    for colour, unseen in (((255, 255, 255), 1), ((0, 0, 0), 0)):
        steps = [t.on_background("image", colour)]
        report = bushel.build(tmp_path / "logos", tmp_path / str(colour[0]), transforms=steps)
        assert report.manifest.counted.get("drawings that cannot be seen on this background (image)", 0) == unseen


def test_the_command_takes_a_background_by_name_as_html_has_it_or_as_numbers(tmp_path: Path) -> None:
    (tmp_path / "stamps" / "one").mkdir(parents=True)
    (tmp_path / "stamps" / "one" / "a.png").write_bytes(encoded(Image.fromarray(np.zeros((8, 8, 4), np.uint8))))
    for text, colour in (("white", [255] * 3), ("#ff8800", [255, 136, 0]), ("0,0,255", [0, 0, 255])):
        out = tmp_path / text.replace("#", "")
        arguments = ["build", tmp_path / "stamps", out, "--background", text, "--resize", "4x4"]
        done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output
        assert decode_pixels(bushel.open(out)["train"][0]["image"])[0, 0].tolist() == colour
        assert "1 transparent images put on a background" in done.output
    done = CliRunner().invoke(cli, ["build", str(tmp_path / "stamps"), str(tmp_path / "x"), "--background", "mauve"])
    assert done.exit_code == 2
    assert "--background must be a colour such as white, #ff8800 or 255,136,0; got 'mauve'" in done.output
