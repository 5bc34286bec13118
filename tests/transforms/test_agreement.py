"""Each operation on images against another library that does it: at most 1 of 255 apart, or the same bytes."""

import io
from collections.abc import Callable
from typing import Any

import cv2
import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance

from bushel import transforms as t

NOISE = np.random.default_rng(11).integers(0, 256, (41, 60, 4), np.uint8)
SMOOTH = cv2.GaussianBlur(NOISE, (0, 0), 2)
GREY = SMOOTH[..., 0]


def saved(image: Any, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(out, form, **options)
    return out.getvalue()


def on_white(pixels: Any) -> Any:
    alpha = pixels[..., 3:] / 255
    return np.rint(pixels[..., :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)


def opencv(data: bytes, flags: int = cv2.IMREAD_COLOR_RGB) -> Any:
    found = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if flags == cv2.IMREAD_UNCHANGED and found.ndim == 3:
        found = found[..., [2, 1, 0, 3][: found.shape[2]]]
    return found.reshape(*found.shape[:2], -1)


def apply(step: Any, pixels: Any, record: int = 5) -> Any:
    return step.apply({"image": pixels}, t.Draw(3, 0, record))["image"]


def furthest(one: Any, other: Any) -> float:
    assert np.shape(one) == np.shape(other)
    return float(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)).max())


COLOURS, ALPHA = SMOOTH[..., :3], SMOOTH
PALETTE = Image.fromarray(COLOURS).quantize(40)
FILES = {
    "JPEG": saved(COLOURS, "JPEG", quality=92),
    "JPEG 4:4:4": saved(COLOURS, "JPEG", quality=92, subsampling=0),
    "JPEG progressive": saved(COLOURS, "JPEG", quality=92, progressive=True),
    "JPEG grey": saved(GREY, "JPEG"),
    "PNG": saved(COLOURS, "PNG"),
    "PNG grey": saved(GREY, "PNG"),
    "PNG RGBA": saved(ALPHA, "PNG"),
    "PNG palette": saved(PALETTE, "PNG"),
    "PNG one bit": saved(Image.fromarray(GREY).convert("1"), "PNG"),
    "WebP": saved(COLOURS, "WEBP", quality=90),
    "WebP lossless": saved(COLOURS, "WEBP", lossless=True),
    "BMP": saved(COLOURS, "BMP"),
    "BMP grey": saved(GREY, "BMP"),
    "BMP palette": saved(PALETTE, "BMP"),
    "TIFF": saved(COLOURS, "TIFF"),
    "TIFF grey": saved(GREY, "TIFF"),
    "TIFF LZW": saved(COLOURS, "TIFF", compression="tiff_lzw"),
    "TIFF RGBA": saved(ALPHA, "TIFF"),
    "TIFF palette": saved(PALETTE, "TIFF"),
}


@pytest.mark.parametrize("kind", FILES)
def test_colours_are_those_that_opencv_decodes(kind: str) -> None:
    wanted = on_white(ALPHA) if kind.endswith("RGBA") else opencv(FILES[kind])  # which drops alpha
    assert furthest(apply(t.decode_image("image"), FILES[kind]), wanted) <= 1


@pytest.mark.parametrize("kind", ["JPEG", "JPEG grey", "PNG", "PNG grey", "PNG RGBA", "PNG palette"])
def test_grey_is_that_which_tensorflow_decodes(kind: str) -> None:
    found = apply(t.decode_image("image", channels=1), FILES[kind])
    is_jpeg = kind.startswith("JPEG")
    wanted = (tf.io.decode_jpeg if is_jpeg else tf.io.decode_png)(FILES[kind], channels=1).numpy()
    if not is_jpeg:  # libpng rounds down, and has coefficients of its own
        colours = on_white(ALPHA) if kind == "PNG RGBA" else Image.open(io.BytesIO(FILES[kind])).convert("RGB")
        wanted = np.asarray(Image.fromarray(np.asarray(colours)).convert("L"))[..., None]
    assert furthest(found, wanted) <= 1


def test_the_first_frame_of_a_gif_is_that_of_tensorflow() -> None:
    data = saved(PALETTE, "GIF", save_all=True, append_images=[Image.fromarray(255 - COLOURS).quantize(40)])
    frames = tf.io.decode_gif(data).numpy()
    assert len(frames) == 2
    assert np.array_equal(apply(t.decode_image("image"), data), frames[0])


def test_alpha_is_that_which_others_see() -> None:
    found = apply(t.decode_image("image", channels=4), FILES["PNG RGBA"])
    assert np.array_equal(found, opencv(FILES["PNG RGBA"], cv2.IMREAD_UNCHANGED))
    assert np.array_equal(apply(t.decode_image("image", channels=4), FILES["TIFF RGBA"]), ALPHA)
    lossless = saved(ALPHA, "WEBP", lossless=True, exact=True)
    assert np.array_equal(apply(t.decode_image("image", channels=4), lossless), ALPHA)
    clear = saved(PALETTE, "PNG", transparency=3)
    found = apply(t.decode_image("image", channels=4), clear)
    assert np.array_equal(found, tf.io.decode_png(clear, channels=4).numpy())
    assert set(found[..., 3].reshape(-1).tolist()) == {0, 255}
    full = apply(t.decode_image("image", channels=4), FILES["JPEG"])
    assert (full[..., 3] == 255).all()


def test_cmyk_is_converted_as_others_do() -> None:
    """OpenCV for the JPEG, in which inks are stored inverted; for the TIFF the product of what inks let through."""
    inks = Image.frombytes("CMYK", (60, 41), SMOOTH.tobytes())
    jpeg = saved(inks, "JPEG", quality=95)
    assert furthest(apply(t.decode_image("image"), jpeg), opencv(jpeg)) <= 2
    light = 255 - SMOOTH.astype(float)
    wanted = light[..., :3] * light[..., 3:] / 255
    assert furthest(apply(t.decode_image("image"), saved(inks, "TIFF")), wanted) <= 1


@pytest.mark.parametrize("size", [(20, 30), (30, 20), (100, 100), (41, 7)])
@pytest.mark.parametrize("kernel", ["bilinear", "bicubic"])
def test_fitting_is_pillows_resizing_to_the_largest_size_that_fits(size: Any, kernel: Any) -> None:
    found = apply(t.resize("image", *size, fit="fit", kernel=kernel, antialias=True), COLOURS)
    share = min(size[0] / 41, size[1] / 60)
    inner = (max(1, int(41 * share + 1e-9)), max(1, int(60 * share + 1e-9)))
    wanted = Image.fromarray(COLOURS).resize(inner[::-1], getattr(Image.Resampling, kernel.upper()))
    assert furthest(found, np.asarray(wanted)) <= 1


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WebP", "BMP", "TIFF", "PNG grey", "PNG RGBA"])
def test_resizing_encoded_images_is_what_pillow_makes_of_them(kind: str) -> None:
    made = apply(t.resize_encoded("image", 20, 30, form="png"), FILES[kind])
    with Image.open(io.BytesIO(FILES[kind])) as image:
        channels = [np.asarray(band, np.float32) for band in image.split()]
    wanted = np.stack([np.asarray(Image.fromarray(c).resize((30, 20), Image.Resampling.BILINEAR)) for c in channels], 2)
    assert furthest(opencv(made, cv2.IMREAD_UNCHANGED), wanted) <= 1
    raw = apply(t.resize_encoded("image", 20, 30, form="raw"), FILES[kind])
    assert raw.dtype == np.uint8
    assert np.array_equal(raw, opencv(made, cv2.IMREAD_UNCHANGED))


@pytest.mark.parametrize("size", [(41, 60), (40, 59), (20, 30), (21, 31), (1, 1)])
def test_the_middle_is_that_of_keras_and_tensorflow(size: Any) -> None:
    found = apply(t.center_crop("image", *size), COLOURS)
    assert np.array_equal(found, tf.image.resize_with_crop_or_pad(COLOURS, *size).numpy())
    assert np.array_equal(found, keras.layers.CenterCrop(*size, dtype="uint8")(COLOURS[None]).numpy()[0])


def test_a_random_crop_is_a_part_anywhere() -> None:
    seen = set()
    for record in range(300):
        found = apply(t.random_crop("image", 39, 58), NOISE[..., :3], record)
        places = [
            (top, left)
            for top in range(3)
            for left in range(3)
            if np.array_equal(found, tf.image.crop_to_bounding_box(NOISE[..., :3], top, left, 39, 58).numpy())
        ]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) == 9


def test_numbers_of_channels_are_converted_as_opencv_does() -> None:
    for channels, code in ((1, cv2.COLOR_RGB2GRAY), (4, cv2.COLOR_RGB2RGBA)):
        wanted = cv2.cvtColor(np.ascontiguousarray(COLOURS), code).reshape(41, 60, -1)
        assert furthest(apply(t.convert_colour("image", channels), COLOURS), wanted) <= 1
    grey = apply(t.convert_colour("image", 3), GREY[..., None])
    assert np.array_equal(grey, cv2.cvtColor(GREY, cv2.COLOR_GRAY2RGB))
    assert furthest(apply(t.convert_colour("image", 3), ALPHA), on_white(ALPHA)) <= 1


def test_normalising_agrees_with_keras() -> None:
    mean, std = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
    layer = keras.layers.Normalization(mean=mean, variance=np.square(std))
    found = apply(t.normalise("image", mean, std), COLOURS)
    assert found.dtype == np.float32
    assert furthest(found, layer(COLOURS.astype(np.float32)).numpy()) <= 1e-4
    assert furthest(apply(t.normalise("image"), COLOURS), tf.image.convert_image_dtype(COLOURS, tf.float32)) <= 1e-6


@pytest.mark.parametrize("kind", ["PNG", "PNG RGBA", "PNG grey", "TIFF", "BMP", "WebP lossless"])
def test_what_is_stored_without_loss_is_what_it_was(kind: str) -> None:
    wanted = opencv(FILES[kind], cv2.IMREAD_UNCHANGED)
    assert np.array_equal(apply(t.reencode("image", "raw"), FILES[kind]), wanted)
    assert np.array_equal(opencv(apply(t.reencode("image", "png"), FILES[kind]), cv2.IMREAD_UNCHANGED), wanted)


@pytest.mark.parametrize("form", ["jpeg", "webp"])
def test_what_is_encoded_with_loss_is_what_pillow_encodes(form: str) -> None:
    made = apply(t.reencode("image", form, 97), FILES["PNG"])
    options = {"jpeg": {"subsampling": "4:2:0"}, "webp": {}}[form]
    wanted = saved(COLOURS, form.upper(), quality=97, **options)
    assert furthest(opencv(made), opencv(wanted)) <= 1
    assert len(made) == pytest.approx(len(wanted), rel=0.02)


@pytest.mark.parametrize("size", [(20, 30), (17, 23), (100, 91)])
def test_masks_are_resized_to_the_nearest_pixel_as_pillow_and_opencv_do(size: Any) -> None:
    """Of sizes for which no two pixels are equally near."""
    step = t.resize("image", *size, masks=("mask",))
    mask = NOISE[..., 0]
    found = step.apply({"image": COLOURS, "mask": mask}, t.Draw(3, 0, 5))["mask"]
    assert np.array_equal(found, np.asarray(Image.fromarray(mask).resize(size[::-1], Image.Resampling.NEAREST)))
    assert np.array_equal(found, cv2.resize(mask, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT))


def test_flips_are_those_of_tensorflow() -> None:
    wanted = [
        COLOURS,
        tf.image.flip_left_right(COLOURS).numpy(),
        tf.image.flip_up_down(COLOURS).numpy(),
        tf.image.flip_up_down(tf.image.flip_left_right(COLOURS)).numpy(),
    ]
    seen = set()
    for record in range(40):
        found = apply(t.random_flip("image", vertical=True), COLOURS, record)
        seen |= {number for number, other in enumerate(wanted) if np.array_equal(found, other)}
    assert seen == {0, 1, 2, 3}


ADJUSTED: dict[str, tuple[Any, Callable[[float], Any]]] = {
    "brightness": (
        t.brightness("image", 0.3),
        lambda drawn: np.clip(tf.image.adjust_brightness(COLOURS.astype(np.float32), 255 * drawn * 0.3), 0, 255),
    ),
    "contrast": (
        t.contrast("image", 0.4),
        lambda drawn: np.clip(tf.image.adjust_contrast(COLOURS.astype(np.float32), 1 + drawn * 0.4), 0, 255),
    ),
    "saturation": (
        t.saturation("image", 0.4),
        lambda drawn: np.asarray(ImageEnhance.Color(Image.fromarray(COLOURS)).enhance(1 + drawn * 0.4)),
    ),
    "rotate": (
        t.rotate("image", 25, fill=7),
        lambda drawn: np.asarray(
            Image.fromarray(COLOURS).rotate(drawn * 25, Image.Resampling.BILINEAR, fillcolor=(7, 7, 7))
        ),
    ),
}


@pytest.mark.parametrize("name", ADJUSTED)
def test_augmentation_is_that_of_others_for_what_was_drawn(name: str) -> None:
    step, other = ADJUSTED[name]
    for record in range(4):
        drawn = t.Draw(3, 0, record).between(-1, 1)
        assert furthest(apply(step, COLOURS, record), other(drawn)) <= 1


def test_pixels_of_floats_are_turned_as_those_of_bytes() -> None:
    step = t.rotate("image", 25)
    assert furthest(apply(step, COLOURS.astype(np.float32)), apply(step, COLOURS)) <= 1
