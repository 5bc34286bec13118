"""Images against Pillow, OpenCV and TensorFlow, and what is given with an image against its pixels."""

import io
from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tensorflow as tf
from making import digests
from PIL import Image

import bushel
from bushel import transforms as t
from bushel.building.recipe import read_recipe
from bushel.data.columns import BytesColumn
from bushel.errors import SchemaMismatch
from bushel.pixels.codecs import decode_pixels

DRAW = t.Draw(seed=3, epoch=0, record=5)
SIZES = [(96, 128, 48, 64), (97, 131, 40, 61), (60, 90, 224, 224), (31, 200, 64, 64), (1, 5, 3, 2)]


def noise(height: int, width: int, channels: int = 3) -> Any:
    """Smooth enough for rounding inside a library not to pile up, rough enough for kernels to differ."""
    draw = np.random.default_rng(height * width)
    return draw.integers(0, 256, (height, width, channels), np.uint8)


def encoded(pixels: Any, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(out, form, **options)
    return out.getvalue()


def every_kind() -> list[bytes]:
    exif = Image.Exif()
    exif[0x0112] = 6
    return [
        encoded(noise(40, 60), "JPEG"),
        encoded(noise(60, 40), "JPEG", exif=exif.tobytes()),
        encoded(Image.fromarray(noise(31, 50)).convert("L"), "JPEG"),
        encoded(Image.fromarray(noise(31, 50)).convert("CMYK"), "JPEG"),
        encoded(noise(33, 20)),
        encoded(noise(33, 20, 4)),
        encoded(Image.fromarray(noise(33, 20)).convert("LA")),
        encoded(Image.fromarray(noise(33, 20)).quantize(30)),
        encoded(Image.fromarray(noise(16, 16)[..., 0].astype(np.uint16) * 257)),
        encoded(noise(30, 30), "WEBP"),
        encoded(noise(30, 30), "GIF"),
        encoded(noise(500, 700), "JPEG"),
    ]


@pytest.mark.parametrize(
    "step",
    [
        t.resize_encoded("image", 24, 20),
        t.resize_encoded("image", 24, 20, fit="pad", fill=9, kernel="area", quality=80),
        t.resize_encoded("image", 24, 20, fit="crop", form="jpeg", antialias=False),
        t.resize_encoded("image", 24, 20, fit="fit", form="png", kernel="bicubic"),
        t.resize_encoded("image", 24, 20, scaled=True),
        t.reencode("image", "jpeg"),
        t.reencode("image", "png"),
        t.reencode("image", "jpeg", 70),
    ],
)
def test_a_block_of_images_is_encoded_again_as_each_alone(step: Any) -> None:
    images = every_kind()
    samples = [
        {"image": data, "image/height": 1, "image/width": 2, "image/channels": 3, "image/format": "x"}
        for data in images
    ]
    columns = {
        "image": BytesColumn.of(images),
        "image/format": BytesColumn.of(["x"] * len(images)),
        "image/height": np.full(len(images), 1),
        "image/width": np.full(len(images), 2),
        "image/channels": np.full(len(images), 3),
    }
    counted: Counter[str] = Counter()
    found = step.apply_counted(columns, counted)
    alone: Counter[str] = Counter()
    for row, sample in enumerate(samples):
        wanted = step.apply(sample, t.Draw(0, 0, 0, 0, alone))
        assert found["image"][row] == wanted["image"]
        assert found["image/format"][row].decode() == wanted["image/format"]
        for name in ("height", "width", "channels"):
            assert found[f"image/{name}"][row] == wanted[f"image/{name}"]
    assert counted == alone


@pytest.mark.parametrize("workers", [1, 2])
def test_a_build_that_resizes_refuses_only_what_is_damaged(tmp_path: Path, workers: int) -> None:
    for number, data in enumerate([*every_kind(), every_kind()[0][:-60]]):
        (tmp_path / "photos" / "a").mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / "a" / f"{number:02}.img.jpg").write_bytes(data)
    source = bushel.sources.images(tmp_path / "photos", verify="none")
    steps = [t.resize_encoded("image", 16, 16)]
    with pytest.warns(bushel.BushelWarning, match="1 sample of 13 refused"):
        bushel.build(source, tmp_path / "out", transforms=steps, run=bushel.Run(workers=workers))
    rows = bushel.read(tmp_path / "out" / "train-00000-of-00001.tfrecord", ["image", "key"])
    for data, key in zip(rows["image"], rows["key"], strict=True):
        given = every_kind()[int(key.decode()[2:4])]
        assert data == steps[0].apply({"image": given}, DRAW)["image"]


def resized(pixels: Any, height: int, width: int, **options: Any) -> Any:
    return t.resize("image", height, width, **options).apply({"image": pixels}, DRAW)["image"]


def largest(one: Any, other: Any) -> float:
    return float(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)).max())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_resizing_agrees_with_tensorflow(size: Any, kernel: Any, antialias: bool) -> None:
    pixels = noise(*size[:2])
    wanted = tf.image.resize(pixels, size[2:], method=kernel, antialias=antialias)
    found = resized(pixels, *size[2:], kernel=kernel, antialias=antialias, dtype="float32")
    assert largest(found, wanted) <= 1e-2 if kernel == "bilinear" else largest(found, wanted) <= 0.5
    assert largest(resized(pixels, *size[2:], kernel=kernel, antialias=antialias), np.clip(wanted, 0, 255)) <= 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", ["bilinear", "bicubic"])
def test_antialiased_resizing_agrees_with_pillow(size: Any, kernel: str) -> None:
    """Of floats, since Pillow rounds and clips bytes between the two directions."""
    pixels = noise(*size[:2])
    how = getattr(Image.Resampling, kernel.upper())
    channels = [Image.fromarray(channel.astype(np.float32)) for channel in np.moveaxis(pixels, 2, 0)]
    wanted = np.stack([np.asarray(channel.resize(size[3:1:-1], how)) for channel in channels], axis=2)
    assert largest(resized(pixels, *size[2:], kernel=kernel, antialias=True, dtype="float32"), wanted) <= 1e-2
    smooth = cv2.GaussianBlur(pixels, (0, 0), 4)
    wanted = np.asarray(Image.fromarray(smooth).resize(size[3:1:-1], how))
    assert largest(resized(smooth, *size[2:], kernel=kernel, antialias=True), wanted) <= 1


@pytest.mark.parametrize("size", [size for size in SIZES if size[0] >= size[2] and size[1] >= size[3]])
def test_areas_agree_with_opencv(size: Any) -> None:
    pixels = noise(*size[:2])
    wanted = cv2.resize(pixels, size[3:1:-1], interpolation=cv2.INTER_AREA)
    assert largest(resized(pixels, *size[2:], kernel="area"), wanted.reshape(*size[2:], 3)) <= 1


@pytest.mark.parametrize("size", SIZES)
def test_bilinear_without_antialias_agrees_with_opencv(size: Any) -> None:
    pixels = noise(*size[:2])
    wanted = cv2.resize(pixels, size[3:1:-1], interpolation=cv2.INTER_LINEAR)
    assert largest(resized(pixels, *size[2:]), wanted.reshape(*size[2:], 3)) <= 1


@pytest.mark.parametrize("size", [(96, 128, 64, 64), (128, 96, 64, 64), (50, 50, 64, 32), (300, 20, 40, 40)])
def test_padding_agrees_with_tensorflow(size: Any) -> None:
    pixels = noise(*size[:2])
    wanted = tf.image.resize_with_pad(pixels, *size[2:])
    assert largest(resized(pixels, *size[2:], fit="pad"), wanted) <= 1
    inner = resized(pixels, *size[2:], fit="fit")
    assert inner.shape[0] <= size[2]
    assert inner.shape[1] <= size[3]
    assert size[2] == inner.shape[0] or size[3] == inner.shape[1]
    assert (resized(pixels * 0, *size[2:], fit="pad", fill=9) == 9).sum() == (
        size[2] * size[3] - inner[..., 0].size
    ) * 3


@pytest.mark.parametrize("size", [(96, 128, 64, 64), (128, 96, 64, 64), (50, 70, 64, 32)])
def test_cropping_to_fill_takes_the_middle(size: Any) -> None:
    pixels = noise(*size[:2])
    tall, wide, height, width = size
    part = (min(tall, round(wide * height / width)), min(wide, round(tall * width / height)))
    top, left = (tall - part[0]) // 2, (wide - part[1]) // 2
    middle = pixels[top : top + part[0], left : left + part[1]]
    wanted = cv2.resize(middle, (width, height), interpolation=cv2.INTER_LINEAR)
    assert largest(resized(pixels, height, width, fit="crop"), wanted) <= 1


def test_grey_agrees_with_pillow_and_comes_back() -> None:
    pixels = noise(40, 50)
    sample = {"image": pixels, "image/channels": 3}
    grey = t.convert_colour("image", 1).apply(sample, DRAW)
    assert largest(grey["image"][..., 0], np.asarray(Image.fromarray(pixels).convert("L"))) <= 1
    assert grey["image/channels"] == 1
    again = t.convert_colour("image", 4).apply(grey, DRAW)
    assert again["image"].shape == (40, 50, 4)
    assert (again["image"][..., 3] == 255).all()


def odd_formats() -> dict[str, tuple[bytes, Any]]:
    """Encoded images of each kind, and the RGB pixels that Pillow or OpenCV has of them."""
    colours = Image.fromarray(cv2.GaussianBlur(noise(40, 60), (0, 0), 3))
    grey, wide = colours.convert("L"), (np.arange(40 * 60, dtype=np.uint16).reshape(40, 60) * 27)
    paths: dict[str, tuple[bytes, Any]] = {}
    for form, options in (("JPEG", {"quality": 90}), ("PNG", {}), ("WEBP", {}), ("BMP", {}), ("TIFF", {}), ("GIF", {})):
        for name, image in (("rgb", colours), ("grey", grey)):
            data = encoded(image, form, **options)
            paths[f"{form} {name}"] = (data, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
    rgba = colours.convert("RGBA")
    rgba.putalpha(grey)
    on_white = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    paths["PNG rgba"] = (encoded(rgba), np.asarray(on_white.convert("RGB")))
    palette = colours.quantize(32)
    paths["PNG palette"] = (encoded(palette), np.asarray(palette.convert("RGB")))
    cmyk = encoded(colours.convert("CMYK"), "JPEG", quality=95)
    paths["JPEG cmyk"] = (cmyk, np.asarray(Image.open(io.BytesIO(cmyk)).convert("RGB")))
    paths["PNG 16-bit grey"] = (encoded(Image.fromarray(wide)), np.repeat((wide >> 8)[..., None], 3, 2))
    paths["TIFF 16-bit grey"] = (encoded(Image.fromarray(wide), "TIFF"), np.repeat((wide >> 8)[..., None], 3, 2))
    colour_16 = (np.asarray(colours).astype(np.uint16) << 8) + 77
    data = cv2.imencode(".png", colour_16[..., ::-1])[1].tobytes()
    paths["PNG 16-bit rgb"] = (data, colour_16 >> 8)
    frames = [colours, grey.convert("RGB")]
    moving = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    paths["GIF animated"] = (moving, np.asarray(Image.open(io.BytesIO(moving)).convert("RGB")))
    paths["PNG one bit"] = (encoded(grey.convert("1")), np.asarray(grey.convert("1").convert("RGB")))
    return paths


@pytest.mark.parametrize("kind", odd_formats())
def test_every_format_decodes_to_the_colours_that_others_see(kind: str) -> None:
    data, wanted = odd_formats()[kind]
    sample = {"image": data, "image/height": 1, "image/width": 1}
    found = t.decode_image("image").apply(sample, DRAW)
    assert found["image"].shape == (40, 60, 3)
    assert largest(found["image"], wanted) <= 1
    assert (found["image/height"], found["image/width"]) == (40, 60)
    assert t.decode_image("image", channels=1).apply({"image": data}, DRAW)["image"].shape == (40, 60, 1)
    small = t.resize_encoded("image", 20, 30).apply(sample, DRAW)
    assert decode_pixels(small["image"], 3).shape == (20, 30, 3)
    assert (small["image/height"], small["image/width"]) == (20, 30)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_is_applied(orientation: int, form: str) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    smooth = cv2.GaussianBlur(noise(40, 60), (0, 0), 3)
    data = encoded(smooth, form, exif=exif, **({"lossless": True} if form == "WEBP" else {}))
    with Image.open(io.BytesIO(data)) as image:
        wanted = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    found = t.decode_image("image").apply({"image": data}, DRAW)["image"]
    assert found.shape == wanted.shape
    assert largest(found, wanted) <= 1


CUT = encoded(noise(90, 90), "JPEG")[:900]


@pytest.mark.parametrize("data", [b"", b"nothing", encoded(noise(40, 40))[:200], CUT, CUT + b"\xff\xd9"])
def test_what_cannot_be_decoded_is_said_in_one_line(data: bytes) -> None:
    for step in (t.decode_image("image"), t.resize_encoded("image", 8, 8), t.reencode("image", "jpeg", 80)):
        with pytest.raises(SchemaMismatch, match="the image cannot be decoded"):
            step.apply({"image": data}, DRAW)


@pytest.mark.parametrize(("form", "magic"), [("jpeg", b"\xff\xd8"), ("png", b"\x89PNG"), ("webp", b"RIFF")])
def test_encoding_agrees_with_pillow_at_the_same_quality(form: str, magic: bytes) -> None:
    smooth = cv2.GaussianBlur(noise(64, 80), (0, 0), 2)
    sample = {"image": smooth, "image/height": 0, "image/channels": 0}
    made = t.encode_image("image", form, 97).apply(sample, DRAW)
    assert made["image"].startswith(magic)
    assert (made["image/height"], made["image/channels"]) == (64, 3)
    options = {"png": {}, "webp": {"quality": 97}, "jpeg": {"quality": 97, "subsampling": "4:2:0"}}[form]
    wanted = np.asarray(Image.open(io.BytesIO(encoded(smooth, form.upper(), **options))))
    assert largest(np.asarray(Image.open(io.BytesIO(made["image"]))), wanted) <= 1


@pytest.mark.parametrize("quality", [50, 80, 95])
def test_a_jpeg_of_the_fast_kind_is_as_near_to_its_image_as_pillows(quality: int) -> None:
    smooth = cv2.GaussianBlur(noise(128, 160), (0, 0), 2)
    mine = t.encode_image("image", "jpeg", quality).apply({"image": smooth}, DRAW)["image"]
    pillows = encoded(smooth, "JPEG", quality=quality, subsampling="4:2:0")
    errors = [np.abs(decode_pixels(data).astype(int) - smooth).mean() for data in (mine, pillows)]
    assert errors[0] == pytest.approx(errors[1], rel=0.03)
    assert len(mine) == pytest.approx(len(pillows), rel=0.02)


def test_bytes_stay_where_nothing_asks_for_a_change() -> None:
    data = encoded(noise(40, 40), "JPEG")
    sample = {"image": data, "image/height": 40}
    assert t.reencode("image", "jpeg").apply(sample, DRAW) is sample
    assert t.reencode("image", "jpeg", 95).apply(sample, DRAW)["image"] != data
    raw = t.reencode("image", "raw").apply(sample, DRAW)["image"]
    assert (raw == decode_pixels(data)).all()


def objects(**more: Any) -> dict[str, Any]:
    """An image that is black but for two white rectangles, with their boxes, areas and masks."""
    pixels = np.zeros((60, 120, 3), np.uint8)
    pixels[12:24, 20:50] = 255
    pixels[40:58, 90:118] = 255
    boxes = np.array([[20, 12, 50, 24], [90, 40, 118, 58]]) / [120, 60, 120, 60]
    masks = np.zeros((2, 60, 120), np.uint8)
    masks[0, 12:24, 20:50], masks[1, 40:58, 90:118] = 1, 1
    sample = {
        "image/encoded": pixels,
        "image/height": 60,
        "image/width": 120,
        "image/object/class/label": np.array([1, 2]),
        "image/object/class/text": ["cat", "dog"],
        "image/object/area": np.array([360.0, 504.0], np.float32),
        "image/object/mask": [encoded(mask) for mask in masks],
        "mask": (pixels[..., 0] > 0).astype(np.uint8),
    }
    for at, corner in enumerate(("xmin", "ymin", "xmax", "ymax")):
        sample[f"image/object/bbox/{corner}"] = boxes[:, at].astype(np.float32)
    return sample | more


MOVES = [
    t.resize("image/encoded", 30, 60, masks=("mask",)),
    t.resize("image/encoded", 90, 90, masks=("mask",)),
    t.resize("image/encoded", 120, 120, fit="pad", masks=("mask",)),
    t.resize("image/encoded", 60, 60, fit="crop", masks=("mask",)),
    t.resize("image/encoded", 100, 100, fit="fit", masks=("mask",)),
    t.center_crop("image/encoded", 40, 60, masks=("mask",)),
    t.random_crop("image/encoded", 50, 90, masks=("mask",)),
    t.random_flip("image/encoded", vertical=True, masks=("mask",)),
    t.random_resized_crop("image/encoded", 64, 64, area=(0.5, 1.0), masks=("mask",)),
]


@pytest.mark.parametrize("step", MOVES, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize("record", range(4))
def test_boxes_and_masks_follow_their_image(step: Any, record: int) -> None:
    made = step.apply(objects(), t.Draw(1, 0, record))
    image = made["image/encoded"]
    height, width = image.shape[:2]
    assert (made["image/height"], made["image/width"]) == (height, width)
    count = len(made["image/object/class/label"])
    assert {1: "cat", 2: "dog"}[made["image/object/class/label"][0]] == made["image/object/class/text"][0]
    corners = [made[f"image/object/bbox/{corner}"] for corner in ("xmin", "ymin", "xmax", "ymax")]
    seen = np.zeros((height, width), bool)
    for at in range(count):
        x1, y1, x2, y2 = (corner[at] for corner in corners)
        inside = (slice(round(y1 * height), round(y2 * height)), slice(round(x1 * width), round(x2 * width)))
        seen[inside] = True
        mask = np.asarray(Image.open(io.BytesIO(made["image/object/mask"][at])))
        assert mask.shape == (height, width)
        outside = mask.copy()
        outside[max(0, inside[0].start - 1) : inside[0].stop + 1, max(0, inside[1].start - 1) : inside[1].stop + 1] = 0
        assert not outside.any()
        area = (x2 - x1) * width * (y2 - y1) * height
        assert made["image/object/area"][at] == pytest.approx(area, rel=1e-3)
        assert abs(mask.sum() - area) <= 2 * (mask.shape[0] + mask.shape[1])
    white = image[..., 0] > 127
    assert (white & ~cv2.dilate(seen.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)).sum() == 0
    assert made["mask"].shape == (height, width)
    assert (made["mask"].astype(bool) ^ white).mean() < 0.05


def test_a_turned_image_keeps_its_objects_inside_their_boxes() -> None:
    for record in range(6):
        made = t.rotate("image/encoded", 30, masks=("mask",)).apply(objects(), t.Draw(1, 0, record))
        white = made["image/encoded"][..., 0] > 127
        covered = np.zeros_like(white)
        for x1, y1, x2, y2 in zip(
            *(made[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")), strict=True
        ):
            covered[int(y1 * 60) : int(np.ceil(y2 * 60)), int(x1 * 120) : int(np.ceil(x2 * 120))] = True
        assert not (white & ~covered).any()
        assert (made["mask"].astype(bool) ^ white).mean() < 0.03


def test_an_object_that_is_cut_off_goes_with_all_that_is_told_of_it() -> None:
    made = t.center_crop("image/encoded", 60, 60).apply(objects(), DRAW)
    assert made["image/object/class/text"] == ["cat"]
    assert made["image/object/class/label"].tolist() == [1]
    assert made["image/object/bbox/xmin"].tolist() == [0.0]
    assert made["image/object/area"][0] == pytest.approx(360 * 20 / 30)
    assert len(made["image/object/mask"]) == 1


def test_scaled_decoding_is_nearly_the_same_and_boxes_still_follow() -> None:
    smooth = cv2.GaussianBlur(noise(480, 640), (0, 0), 5)
    sample = objects(**{"image/encoded": encoded(smooth, "JPEG", quality=95), "image/object/mask": []})
    sample |= {name: value[:0] for name, value in sample.items() if name.startswith("image/object/")}
    plain = t.resize_encoded("image/encoded", 224, 224).apply(sample, DRAW)
    scaled = t.resize_encoded("image/encoded", 224, 224, scaled=True).apply(sample, DRAW)
    assert plain["image/encoded"] != scaled["image/encoded"]
    difference = np.abs(decode_pixels(plain["image/encoded"]).astype(int) - decode_pixels(scaled["image/encoded"]))
    assert difference.mean() < 1.5
    assert (scaled["image/height"], scaled["image/width"]) == (224, 224)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: t.resize("image", 0, 5), "height must be at least 1, got 0"),
        (lambda: t.resize("image", 5, 5, fit="squash"), "fit must be one of stretch, fit, pad, crop; got 'squash'"),
        (lambda: t.resize_encoded("image", 5, 5, kernel="x"), "kernel must be one of bilinear, area, bicubic; got 'x'"),
        (lambda: t.resize_encoded("image", 5, 5, form="gif"), "form must be one of jpeg, png, webp, raw; got 'gif'"),
        (lambda: t.encode_image("image", "jpeg", 0), "quality must be from 1 to 100, got 0"),
        (lambda: t.convert_colour("image", 2), "channels must be one of 1, 3, 4; got 2"),
    ],
)
def test_wrong_settings_are_one_clear_line(make: Any, why: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        make()
    assert str(caught.value) == why


def test_random_augmentation_at_build_gives_the_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    for n in range(24):
        (tmp_path / "in" / "ab"[n % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(40 + n, 50)).save(tmp_path / "in" / "ab"[n % 2] / f"{n}.jpg")
    steps = [
        t.decode_image("image"),
        t.random_resized_crop("image", 32, 32),
        t.random_flip("image"),
        t.brightness("image", 0.2),
        t.encode_image("image", "jpeg", 90),
    ]
    found = []
    for workers in (1, 2, 5):
        out = tmp_path / f"out{workers}"
        bushel.build(tmp_path / "in", out, transforms=steps, shards=3, run=bushel.Run(workers=workers))
        found.append(digests(out))
    assert found[0] == found[1] == found[2]
    columns = bushel.read(sorted((tmp_path / "out1").glob("train-*")))
    assert set(np.asarray(columns["image/height"]).tolist()) == {32}
    assert {decode_pixels(image).shape for image in columns["image"]} == {(32, 32, 3)}
    again = bushel.build_recipe(read_recipe(tmp_path / "out1" / "recipe.toml"), tmp_path / "again")
    assert again.refused == 0
    assert digests(tmp_path / "again") == found[0]


def test_pixels_that_are_kept_are_not_written_over_by_the_next_image() -> None:
    files = [encoded(noise(64, 64 + number), "JPEG") for number in range(20)]
    kept = [decode_pixels(data, 3) for data in files]
    for data, pixels in zip(files, kept, strict=True):
        assert np.array_equal(pixels, np.asarray(Image.open(io.BytesIO(data))))


@pytest.mark.parametrize(("byte", "chunk"), [(-13, "IDAT"), (-1, "IEND")])
@pytest.mark.parametrize("mode", ["RGB", "I;16", "P"])
def test_a_png_with_a_wrong_checksum_is_refused_and_only_it(mode: str, byte: int, chunk: str, tmp_path: Path) -> None:
    image = Image.new("RGB", (9, 7), (10, 200, 30)) if mode != "I;16" else Image.new("I;16", (9, 7), 40_000)
    written = io.BytesIO()
    (image.convert("P") if mode == "P" else image).save(written, "PNG")
    good = written.getvalue()
    bad = bytearray(good)
    bad[byte] ^= 1  # of the chunk of the pixels, or of the end of the file, which are the last 12 bytes
    with bushel.Writer(tmp_path / "pictures.tfrecord") as writer:
        for data in (good, bytes(bad), good):
            writer.write({"image": data})
    feed = bushel.batches(
        bushel.open(tmp_path / "pictures.tfrecord")["all"],
        batch_size=3,
        transforms=[bushel.transforms.decode_image("image")],
        on_fault="skip",
    )
    assert [batch.rows.tolist() for batch in feed] == [[0, 2]]
    assert f"the checksum of its chunk {chunk} does not match" in feed.report().faults[0].why
