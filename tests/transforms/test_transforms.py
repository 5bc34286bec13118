"""Transforms: values against TensorFlow's, and randomness that belongs to the record."""

import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image

import bushel
from bushel import Order, Workers
from bushel import transforms as t
from bushel.transforms import Draw, augment

DRAW = Draw(seed=1, epoch=0, record=5)


def encoded(format: str, *, size: tuple[int, int] = (40, 60), seed: int = 0) -> bytes:
    small = np.random.default_rng(seed).integers(0, 255, (4, 6, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(small).resize(size[::-1], Image.Resampling.BICUBIC).save(file, format, lossless=True)
    return file.getvalue()


def pixels(dtype: Any = np.uint8) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (20, 30, 3)).astype(dtype)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "GIF"])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_format_become_pixels(format: str, channels: Any) -> None:
    data = encoded(format)
    image = t.decode_image("image", channels=channels).apply({"image": data}, DRAW)["image"]
    assert image.shape == (40, 60, channels)
    assert image.dtype == np.uint8
    mode = "RGB" if channels == 3 else "L"
    expected = np.asarray(Image.open(io.BytesIO(data)).convert(mode)).reshape(40, 60, channels)
    assert np.abs(image.astype(int) - expected).max() <= (4 if format == "JPEG" else 0)


def test_a_large_jpeg_is_decoded_smaller_when_that_is_allowed() -> None:
    data = encoded("JPEG", size=(400, 600))
    shape = t.decode_image("image", at_least=(100, 100)).apply({"image": data}, DRAW)["image"].shape
    assert shape == (100, 150, 3)
    assert t.decode_image("image").apply({"image": data}, DRAW)["image"].shape == (400, 600, 3)
    assert t.decode_image("image", at_least=(300, 300)).apply({"image": data}, DRAW)["image"].shape == (400, 600, 3)


@pytest.mark.parametrize("data", [b"\xff\xd8\xff\xe0 not a JPEG", b"no image at all", encoded("PNG")[:60]])
def test_what_is_no_image_is_said(data: bytes) -> None:
    with pytest.raises(bushel.SchemaMismatch, match=r"^the image cannot be decoded: .* - at image"):
        t.decode_image("image").apply({"image": data}, DRAW)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(20, 30), (7, 11), (64, 64), (1, 1)])
def test_resizing_gives_the_values_of_tensorflow(antialias: bool, size: tuple[int, int]) -> None:
    import tensorflow as tf

    expected = tf.image.resize(pixels(), size, antialias=antialias).numpy()
    floats = t.resize("image", *size, antialias=antialias, dtype="float32").apply({"image": pixels()}, DRAW)["image"]
    np.testing.assert_allclose(floats, expected, atol=0.02)
    from_floats = t.resize("image", *size, antialias=antialias).apply({"image": pixels(np.float32)}, DRAW)["image"]
    np.testing.assert_allclose(from_floats, expected, atol=0.02)
    whole = t.resize("image", *size, antialias=antialias).apply({"image": pixels()}, DRAW)["image"]
    assert whole.dtype == np.uint8
    assert np.abs(whole - expected).max() <= 0.52


RANDOM = [
    t.random_flip("image"),
    t.random_flip("image", vertical=True),
    t.random_crop("image", 10, 12),
    t.random_resized_crop("image", 16, 16),
    t.random_shift("image"),
    t.brightness("image"),
    t.contrast("image"),
    t.saturation("image"),
    t.hue("image"),
    t.rotate("image"),
    t.cutout("image", 8),
]


@pytest.mark.parametrize("transform", RANDOM, ids=lambda transform: type(transform).__name__)
def test_the_same_record_of_the_same_epoch_changes_the_same_way(transform: Any) -> None:
    def images(epoch: int, step: int = 0) -> list[np.ndarray]:
        return [transform.apply({"image": pixels()}, Draw(7, epoch, record, step))["image"] for record in range(8)]

    first = images(0)
    assert all(np.array_equal(a, b) for a, b in zip(first, images(0), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, images(1), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, images(0, step=1), strict=True))
    assert not all(np.array_equal(first[0], image) for image in first)
    assert all(image.dtype == np.uint8 for image in first)


@pytest.mark.parametrize("transform", RANDOM, ids=lambda transform: type(transform).__name__)
def test_the_sample_given_is_left_as_it_was(transform: Any) -> None:
    image = pixels()
    sample = {"image": image, "label": 1}
    transform.apply(sample, DRAW)
    assert sample["image"] is image
    assert np.array_equal(image, pixels())


@pytest.mark.parametrize("transform", [*RANDOM, t.decode_image(), t.resize("x", 2, 3), t.mixup("x", "y", 3)])
def test_a_transform_is_a_value_that_says_its_name(transform: Any) -> None:
    fields = msgspec.to_builtins(transform)
    assert msgspec.convert(fields, type(transform)) == transform
    assert fields["type"].islower()
    with pytest.raises(AttributeError):
        transform.feature = "other"


def test_colours_keep_their_meaning() -> None:
    grey = np.full((4, 4, 3), 100, np.uint8)
    assert np.abs(t.hue("image", 0.5).apply({"image": grey}, DRAW)["image"].astype(int) - 100).max() <= 1
    assert np.array_equal(t.saturation("image", 0.9).apply({"image": grey}, DRAW)["image"], grey)
    assert np.array_equal(t.contrast("image", 0.9).apply({"image": grey}, DRAW)["image"], grey)
    bright = t.brightness("image", 0.5).apply({"image": grey.astype(np.float32)}, DRAW)["image"]
    assert bright.dtype == np.float32
    assert len(np.unique(bright)) == 1


def test_a_crop_larger_than_the_image_is_said() -> None:
    with pytest.raises(
        bushel.SchemaMismatch, match="the image is 20 x 30, smaller than the crop of 24 x 24 - at image"
    ):
        t.random_crop("image", 24, 24).apply({"image": pixels()}, DRAW)
    assert t.center_crop("image", 10, 10).apply({"image": pixels()}, DRAW)["image"].shape == (10, 10, 3)


def test_bytes_where_pixels_must_be_say_what_to_do() -> None:
    with pytest.raises(bushel.SchemaMismatch) as caught:
        t.resize("image", 8, 8).apply({"image": b"..."}, DRAW)
    assert str(caught.value) == (
        "expected pixels (height, width, channels), got bytes - at image\n"
        "  Decode it first: transforms.decode_image('image')"
    )


def test_series_are_jittered_scaled_and_cut() -> None:
    series = np.arange(100, dtype=np.float32)
    assert np.std(t.jitter("x", 0.5).apply({"x": series}, DRAW)["x"] - series) == pytest.approx(0.5, abs=0.2)
    scaled = t.scale("x", 0.1).apply({"x": series}, DRAW)["x"]
    assert 0.9 <= scaled[99] / 99 <= 1.1
    part = t.window("x", 10).apply({"x": series}, DRAW)["x"]
    assert np.array_equal(np.diff(part), np.ones(9))
    assert t.window("x", 10, random=False).apply({"x": series}, DRAW)["x"][0] == 45
    with pytest.raises(bushel.SchemaMismatch, match="the series has 100 steps, fewer than 101 - at x"):
        t.window("x", 101).apply({"x": series}, DRAW)


def test_numbers_are_cast_and_normalised() -> None:
    sample = {"x": np.array([0, 255], np.uint8)}
    assert t.normalise("x").apply(sample, DRAW)["x"].tolist() == [0.0, 1.0]
    assert t.normalise("x", (0.0, 5.0), (1.0, 2.0)).apply(sample, DRAW)["x"].tolist() == [0.0, 125.0]
    assert t.cast("x", "int16").apply(sample, DRAW)["x"].dtype == np.int16
    with pytest.raises(ValueError, match="std must be above 0, got 0"):
        t.normalise("x", std=0)


@pytest.mark.parametrize("mixing", [t.mixup("image", "label", 4), t.cutmix("image", "label", 4)])
def test_mixed_labels_are_the_shares_of_what_was_mixed(mixing: Any) -> None:
    images = np.repeat(np.arange(4, dtype=np.float32), 100).reshape(4, 10, 10, 1) / 3
    out = mixing.apply_batch({"image": images, "label": np.arange(4)}, DRAW)
    assert out["label"].shape == (4, 4)
    np.testing.assert_allclose(out["label"].sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(out["image"].mean(axis=(1, 2, 3)), out["label"] @ (np.arange(4) / 3), atol=1e-5)
    assert np.array_equal(out["label"], mixing.apply_batch({"image": images, "label": np.arange(4)}, DRAW)["label"])


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_mixed_values_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(1)
    images, labels = rng.integers(0, 256, (9, 20, 30, 3)).astype(dtype), np.arange(9) % 4
    columns = {"image": images, "label": labels}
    partner, share = augment._partners(9, 0.2, DRAW)
    blend = share.reshape(-1, 1, 1, 1)
    mixed = t.mixup("image", "label", 4).apply_batch(columns, DRAW)["image"]
    np.testing.assert_allclose(mixed, images * blend + images[partner] * (1 - blend), atol=1e-3)
    partner, share = augment._partners(9, 1.0, DRAW)
    places = DRAW.generator(salt=1).random((9, 2))
    pasted = images.copy()
    for row in range(9):
        tall, wide = (int(side * np.sqrt(1 - share[row])) for side in (20, 30))
        top, left = int(places[row, 0] * (21 - tall)), int(places[row, 1] * (31 - wide))
        pasted[row, top : top + tall, left : left + wide] = images[partner[row], top : top + tall, left : left + wide]
    made = t.cutmix("image", "label", 4).apply_batch(columns, DRAW)["image"]
    assert made.dtype == images.dtype
    assert np.array_equal(made, pasted)
    grey = t.cutmix("image", "label", 4).apply_batch({"image": images[..., 0], "label": labels}, DRAW)["image"]
    assert np.array_equal(grey, pasted[..., 0])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    with bushel.Writer(tmp_path / "photos.tfrecord") as writer:
        for number in range(30):
            data = encoded("JPEG", seed=number) if number != 13 else b"\xff\xd8\xff broken"
            writer.write({"image": data, "label": number % 3, "number": number})
    return tmp_path / "photos.tfrecord"


STEPS: list[Any] = [
    t.decode_image("image"),
    t.random_resized_crop("image", 16, 16),
    t.random_flip("image"),
    t.brightness("image"),
    t.mixup("image", "label", 3),
]


def feed(path: Path, **changes: Any) -> Any:
    arguments = {"batch_size": 8, "order": Order(shuffle=True, seed=2), "transforms": STEPS, "on_fault": "replace"}
    return bushel.batches(bushel.open(path)["all"], **{**arguments, **changes})


def test_augmented_batches_are_the_same_for_any_number_of_threads_and_after_resume(photos: Path) -> None:
    alone = list(feed(photos, workers=Workers(threads=1)))
    for workers in (Workers(threads=2), Workers(threads=8), Workers(processes=2)):
        for one, other in zip(alone, feed(photos, workers=workers), strict=True):
            assert np.array_equal(one["image"], other["image"])
            assert np.array_equal(one["label"], other["label"])
    begun = feed(photos)
    next(begun)
    resumed = feed(photos)
    resumed.restore(begun.state())
    assert np.array_equal(next(resumed)["image"], alone[1]["image"])


def test_an_image_that_cannot_be_decoded_is_a_fault_like_any_other(photos: Path) -> None:
    with pytest.raises(bushel.SchemaMismatch, match=r"the image cannot be decoded") as caught:
        list(feed(photos, on_fault="raise"))
    assert f"It is record 13 of {photos}." in str(caught.value)
    skipping = feed(photos, on_fault="skip")
    numbers = [number for batch in skipping for number in batch["number"].tolist()]
    assert sorted(numbers) == [number for number in range(30) if number != 13]
    report = skipping.report()
    assert report.damaged == 1
    assert report.faults[0].record == 13
    replacing = feed(photos, on_fault="replace")
    kept = list(replacing)
    assert [len(batch["number"]) for batch in kept] == [8, 8, 8, 6]
    assert sum(int((~batch.real).sum()) for batch in kept if batch.real is not None) == 1
    assert replacing.report().filled == 1


def test_boxes_and_masks_are_shifted_with_their_image() -> None:
    image, mask = pixels()[:, :, :1].copy(), np.zeros(pixels().shape[:2], np.uint8)
    height, width = mask.shape
    mask[height // 4 : height // 2, width // 4 : width // 2] = 1
    sample = {"image": image * 0 + mask[..., None] * 200, "mask": mask}
    for corner, value in (("xmin", 0.25), ("ymin", 0.25), ("xmax", 0.5), ("ymax", 0.5)):
        sample[f"image/object/bbox/{corner}"] = np.array([value], np.float32)
    for record in range(20):
        moved = t.random_shift("image", 0.2, masks=("mask",)).apply(sample, Draw(3, 0, record))
        np.testing.assert_array_equal(moved["image"][..., 0] // 200, moved["mask"])
        rows, columns = np.nonzero(moved["mask"])
        found = [moved[f"image/object/bbox/{corner}"][0] for corner in ("ymin", "xmin", "ymax", "xmax")]
        expected = (rows.min() / height, columns.min() / width, (rows.max() + 1) / height, (columns.max() + 1) / width)
        np.testing.assert_allclose(found, expected, atol=1 / min(height, width))


def test_parts_and_cycles_of_dates_are_numbers_and_missing_dates_stay_missing() -> None:
    stamps = np.array(["2024-02-29T06:30:00", "2025-01-01"], "datetime64[us]").astype(np.int64)
    step = t.date_parts("d", parts=("year", "month", "day", "weekday", "hour", "minute", "days"), since="2024-02-28")
    made = step.apply_columns({"d": stamps})["d"]
    assert made[0].tolist() == pytest.approx([2024, 2, 29, 3, 6, 30, 1 + 6.5 / 24])
    assert made[1].tolist() == pytest.approx([2025, 1, 1, 2, 0, 0, 308])
    cycles = t.date_parts("d", parts=(), cycles=("year", "week", "day"), out="c").apply_columns({"d": stamps})
    angle = 2 * np.pi * 2 / 7  # Wednesday
    assert cycles["c"][1].tolist() == pytest.approx([0, 1, np.sin(angle), np.cos(angle), 0, 1], abs=1e-6)
    assert cycles["d"] is stamps
    assert step.apply({}, DRAW) == {}
    filled = t.date_parts("d", parts=("year",), cycles=("day",), fill_nan=True).apply({}, DRAW)
    assert np.isnan(filled["d"]).tolist() == [True, True, True]
    with pytest.raises(ValueError, match="parts must be among year, month, .*; got 'dayz'"):
        t.date_parts("d", parts=("dayz",))  # type: ignore[arg-type]
