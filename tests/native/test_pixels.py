"""Images decoded and changed by the core are those that simplejpeg, Pillow and NumPy make."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from bushel import _native
from bushel._native import Change, Outcome, Painting
from bushel.pixels.codecs import KERNELS, Kernel, decode_without_core, encode_pixels, resize_pixels, to_channels
from bushel.pixels.headers import parse_header
from bushel.transforms import augment
from bushel.transforms.interface import Draw

simplejpeg = pytest.importorskip("simplejpeg")
pytestmark = pytest.mark.skipif(
    not all(_native.codecs().values()), reason="bushel was compiled without decoders of images"
)


def picture(height: int, width: int, channels: int = 3) -> NDArray[np.uint8]:
    rng = np.random.default_rng(height * width + channels)
    y, x = np.mgrid[:height, :width]
    waves = [127 + 100 * np.sin(x / 7 + c) * np.cos(y / 5 - c) for c in range(channels)]
    return np.clip(np.stack(waves, -1) + rng.normal(0, 20, (height, width, channels)), 0, 255).astype(np.uint8)


def saved(pixels: NDArray[np.uint8] | Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    if not isinstance(pixels, Image.Image):
        pixels = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    pixels.save(file, form, **options)
    return file.getvalue()


def column(images: Sequence[bytes]) -> tuple[NDArray[np.int64], bytes]:
    offsets = np.zeros(len(images) + 1, np.int64)
    np.cumsum([len(image) for image in images], out=offsets[1:])
    return offsets, b"".join(images)


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


SIZES = [(1, 1), (7, 9), (16, 16), (33, 47), (65, 130)]
JPEGS = [
    *(
        saved(picture(*size, channels), "JPEG", quality=quality, subsampling=sampling, progressive=progressive)
        for size, channels, quality, sampling, progressive in itertools.product(
            SIZES, (1, 3), (30, 95), (0, 1, 2), (False, True)
        )
    ),
    *(simplejpeg.encode_jpeg(picture(*size), 85, "RGB", kind) for size in SIZES for kind in ("411", "440")),
    *(saved(picture(20, 31), "JPEG", exif=turned(orientation)) for orientation in range(10)),
]
PALETTE = Image.fromarray(picture(40, 50)).quantize(200)
PNGS = [
    *(saved(picture(*size, channels), "PNG") for size in SIZES for channels in (1, 2, 3, 4)),
    *(saved(picture(20, 31), "PNG", exif=turned(orientation)) for orientation in range(10)),
    saved(PALETTE, "PNG"),
    saved(PALETTE, "PNG", transparency=bytes(range(200))),
]


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")  # Pillow's, of what it does rightly
@pytest.mark.parametrize("channels", [None, 1, 3, 4])
@pytest.mark.parametrize("at_least", [None, (10, 10), (20, 30)])
def test_pixels_are_those_of_simplejpeg_and_pillow(channels: int | None, at_least: tuple[int, int] | None) -> None:
    files = [*JPEGS, *PNGS]
    images, refused = _native.decode_each(*column(files), channels or 0, Painting(at_least=at_least or (0, 0)))
    assert refused == []
    for image, data in zip(images, files, strict=True):
        assert np.array_equal(image, decode_without_core(data, channels, at_least=at_least))


def test_headers_tell_the_size_that_an_image_has_when_it_is_upright() -> None:
    files = [*JPEGS, *PNGS]
    for header, data in zip(_native.image_headers(*column(files)), files, strict=True):
        codec, height, width, channels, orientation, bits, is_animated = header.tolist()
        assert (height, width) == decode_without_core(data).shape[:2]
        assert codec == (1 if data[:2] == b"\xff\xd8" else 2)
        told = parse_header(data)
        assert (channels, bits, orientation, is_animated) == told[3:7]


def test_a_part_is_exactly_that_part_of_the_whole_image() -> None:
    rng = np.random.default_rng(0)
    kinds = [saved(picture(200, 230), "JPEG", subsampling=s, progressive=p) for s in (0, 1, 2) for p in (False, True)]
    kinds += [simplejpeg.encode_jpeg(picture(200, 230), 85, "RGB", kind) for kind in ("411", "440")]
    for data in [*kinds, saved(picture(200, 230), "PNG"), saved(picture(200, 230), "JPEG", exif=turned(6))]:
        whole = decode_without_core(data, 3)
        for _ in range(20):
            height, width = (int(rng.integers(1, side + 1)) for side in whole.shape[:2])
            top, left = (int(rng.integers(0, whole.shape[i] - (height, width)[i] + 1)) for i in (0, 1))
            out = np.zeros((1, height, width, 3), np.uint8)
            moves = np.array([[top, left, height, width, height, width, 0, 0]], np.int32)
            assert _native.decode_images(*column([data]), out, Painting(), moves) == []
            assert np.array_equal(out[0], whole[top : top + height, left : left + width])


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
@pytest.mark.parametrize(("rounds", "planes", "scaled"), list(itertools.product((False, True), repeat=3)))
@pytest.mark.parametrize("kernel", ["bilinear", "area", "bicubic"])
def test_all_in_one_go_is_the_same_as_step_by_step(
    dtype: str, rounds: bool, planes: bool, scaled: bool, kernel: Kernel
) -> None:
    rng = np.random.default_rng(0)
    for number, form in enumerate(("JPEG", "PNG") * 6):
        tall, wide, height, width = (int(side) for side in rng.integers(1, 80, 4))
        channels, flips, antialias = (1, 3)[number % 2], number % 4, number % 3 == 0
        data = saved(picture(tall, wide, channels), form)
        part = (tall // 3, wide // 4, tall - tall // 2 - tall // 3 or 1, wide - wide // 4)
        pixels = decode_without_core(data, channels)[part[0] : part[0] + part[2], part[1] : part[1] + part[3]]
        middle = np.dtype(np.uint8 if rounds or dtype == "uint8" else np.float32)
        expected = resize_pixels(pixels, height, width, middle, antialias=antialias, kernel=kernel)
        expected = expected[:: -1 if flips & 2 else 1, :: -1 if flips & 1 else 1]
        mean, std = ([100.0] * channels, [57.3] * channels) if scaled and dtype != "uint8" else ([], [])
        if mean:
            expected = (expected.astype(np.float32) - np.float32(100)) / np.float32(57.3)
        expected = (expected.transpose(2, 0, 1) if planes else expected).astype(dtype)
        out = np.zeros((1, *expected.shape), dtype)
        painting = Painting(
            planes=planes,
            rounds=middle == np.uint8,
            kernel=KERNELS[kernel],
            antialias=antialias,
            mean=mean,
            std=std,
        )
        moves = np.array([[*part, height, width, 0, 0]], np.int32)
        assert _native.decode_images(*column([data]), out, painting, moves, np.array([flips], np.uint8)) == []
        assert np.array_equal(out[0], expected)


def test_bfloat16_is_the_upper_half_of_float32_rounded() -> None:
    image = picture(9, 9)
    exact, out = np.zeros((1, 5, 7, 3), np.float32), np.zeros((1, 5, 7, 3), np.uint16)
    _native.paint_images([image], exact, Painting(rounds=False))
    _native.paint_images([image], out, Painting(rounds=False))
    back = (out.astype(np.uint32) << 16).view(np.float32)
    assert np.abs(back - exact).max() <= 0.5
    assert not np.array_equal(back, exact)


def test_a_batch_is_the_same_with_any_number_of_threads() -> None:
    files = [*JPEGS, *PNGS]
    batches = [np.zeros((len(files), 24, 24, 3), np.float32) for _ in range(3)]
    for threads, out in zip((1, 2, 7), batches, strict=True):
        assert _native.decode_images(*column(files), out, Painting(rounds=False), threads=threads) == []
    assert np.array_equal(batches[0], batches[1])
    assert np.array_equal(batches[0], batches[2])


def test_rows_that_cannot_be_decoded_are_named_and_the_others_are_not_harmed() -> None:
    good, wide = saved(picture(20, 20), "JPEG"), np.zeros((4, 4), np.uint16)
    files = [good, good[: len(good) // 2], saved(Image.fromarray(wide), "PNG"), b"", saved(picture(4, 4), "WEBP"), good]
    out = np.zeros((len(files), 20, 20, 3), np.uint8)
    refused = _native.decode_images(*column(files), out, Painting())
    assert refused[0] == (1, Outcome.DAMAGED, "Premature end of JPEG file")
    assert [(row, outcome) for row, outcome, _ in refused[1:]] == [(row, Outcome.OTHER) for row in (2, 3, 4)]
    assert np.array_equal(out[0], decode_without_core(good, 3))
    assert np.array_equal(out[5], out[0])


def test_an_image_of_more_pixels_than_allowed_is_refused() -> None:
    out = np.zeros((2, 4, 4, 3), np.uint8)
    files = [saved(picture(20, 20), "JPEG"), saved(picture(20, 20), "PNG")]
    refused = _native.decode_images(*column(files), out, Painting(most_pixels=399))
    assert [outcome for _, outcome, _ in refused] == [Outcome.TOO_LARGE] * 2
    assert _native.decode_images(*column(files), out, Painting(most_pixels=400)) == []


def test_mangled_jpegs_never_give_other_pixels_than_simplejpeg() -> None:
    rng = np.random.default_rng(5)
    files = [saved(picture(40, 50), "JPEG", progressive=p) for p in (False, True)]
    kinds = {"same": 0, "refused": 0}
    for number in range(600):
        data = bytearray(files[number % 2])
        data[int(rng.integers(3, len(data)))] ^= 1 << int(rng.integers(8))
        data = data[: int(rng.integers(3, len(data)))] if number % 3 == 0 else data
        (image,), _ = _native.decode_each(*column([bytes(data)]), 3, Painting(upright=False))
        try:
            expected = decode_without_core(bytes(data), 3, upright=False)
        except (ValueError, OSError, SyntaxError):
            assert image is None
            kinds["refused"] += 1
        else:
            assert image is None or np.array_equal(image, expected)
            kinds["same"] += image is not None
    assert min(kinds.values()) > 100


@pytest.mark.parametrize("quality", [50, 95, 96])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_jpeg_has_the_bytes_that_simplejpeg_writes(quality: int, channels: int) -> None:
    for size in SIZES:
        pixels = picture(*size, channels)
        colours, sampling = ("GRAY", "Gray") if channels == 1 else ("RGB", "420")
        expected = simplejpeg.encode_jpeg(pixels, quality, colours, sampling, fastdct=False)
        assert _native.encode_jpeg(pixels, quality) == expected


def test_an_image_that_cannot_be_a_jpeg_says_so() -> None:
    for size, shown in (((1, 65_501), "65501x1"), ((0, 4), "4x0")):
        with pytest.raises(ValueError, match=f"^an image of {shown} pixels cannot be a JPEG: a side has 1 to 65,500$"):
            encode_pixels(np.zeros((*size, 3), np.uint8), "jpeg")


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_png_has_the_pixels_it_was_made_of_and_is_no_larger_than_pillows(channels: int) -> None:
    for size in [*SIZES, (224, 224)]:
        for pixels in (picture(*size, channels), np.full((*size, channels), 7, np.uint8)):
            made = _native.encode_png(pixels)
            with Image.open(io.BytesIO(made)) as image:
                image.verify()
            assert np.array_equal(decode_without_core(made, channels), pixels)
            assert len(made) <= 1.03 * len(saved(pixels, "PNG")) + 40


def test_images_are_made_again_as_step_by_step() -> None:
    files = [*JPEGS[::7], *PNGS, b"none", b"\x89PNG\r\n\x1a\n"]
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, (len(files), 2)).astype(np.int32)
    codecs = rng.integers(0, 3, len(files)).astype(np.uint8)
    painting = Painting(antialias=True)
    data, offsets, channels, refused = _native.remake_images(*column(files), painting, sizes, codecs, 90)
    given = zip(files, sizes.tolist(), codecs.tolist(), strict=True)
    for row, (file, size, codec) in enumerate(given):
        made = bytes(data[offsets[row] : offsets[row + 1]])
        if codec == 0 or row >= len(files) - 2:
            assert made == b""
            continue
        pixels = resize_pixels(decode_without_core(file), *size, np.dtype(np.uint8), antialias=True)
        pixels = to_channels(pixels, 3) if codec == 1 and pixels.shape[2] == 4 else pixels
        assert made == (
            _native.encode_jpeg(np.ascontiguousarray(pixels), 90) if codec == 1 else _native.encode_png(pixels)
        )
        assert channels[row] == pixels.shape[2]
    assert {row for row, _, _ in refused} == {row for row in range(len(files) - 2, len(files)) if codecs[row]}


def test_images_that_do_not_decode_to_the_end_are_refused() -> None:
    whole = [saved(picture(60, 70), form) for form in ("JPEG", "PNG")]
    files = [*whole, *(data[: len(data) // 2] for data in whole), b"none", *(bytearray(data) for data in whole)]
    files[-2][-80] ^= 0xFF
    files[-1][-80] ^= 0xFF
    rows = np.array([6, 0, 1, 2, 3, 5])
    assert {row for row, _, _ in _native.verify_images(*column(files), rows)} >= {2, 3, 6}
    assert not {row for row, _, _ in _native.verify_images(*column(files), rows)} & {0, 1, 4}
    assert {row for row, _, _ in _native.verify_images(*column(whole), np.arange(2), 4199)} == {0, 1}
    with pytest.raises(ValueError, match="rows must be of the column"):
        _native.verify_images(*column(files), np.array([7]))


def changed(image: NDArray[Any], change: Change, numbers: Sequence[float]) -> NDArray[Any]:
    out = np.zeros((1, *image.shape), image.dtype)
    step = (change, np.array([numbers], np.float64))
    assert _native.paint_images([image], out, Painting(rounds=image.dtype == np.uint8), steps=[step]) == []
    return out[0]


def hue_matrix(angle: float) -> NDArray[Any]:
    cosine, sine = math.cos(angle), math.sin(angle)
    turn = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]], np.float32)
    return np.linalg.inv(augment._TO_YIQ) @ turn @ augment._TO_YIQ


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_steps_give_the_values_of_the_transforms(dtype: str) -> None:
    for record in range(30):
        draw, size = Draw(3, 1, record), (17 + record, 17 if record == 0 else 40 - record)
        image, middle = picture(*size).astype(dtype), [int(u * s) for u, s in zip(draw.uniforms(2), size, strict=True)]
        steps: list[tuple[Any, Change, Sequence[float]]] = [
            (augment.Brightness("i"), Change.BRIGHTNESS, [255 * draw.between(-0.2, 0.2)]),
            (augment.Contrast("i"), Change.CONTRAST, [draw.between(0.8, 1.2)]),
            (augment.Saturation("i"), Change.SATURATION, [draw.between(0.8, 1.2)]),
            (augment.Hue("i"), Change.HUE, hue_matrix(2 * math.pi * draw.between(-0.05, 0.05)).reshape(-1).tolist()),
            (augment.Rotate("i", 180, 7), Change.ROTATE, [draw.between(-180, 180), 7]),
            (
                augment.RandomShift("i", 0.3),
                Change.SHIFT,
                [
                    int(u * (2 * round(0.3 * s) + 1)) - round(0.3 * s)
                    for u, s in zip(draw.uniforms(2), size, strict=True)
                ],
            ),
            (
                augment.Cutout("i", 9, 5),
                Change.CUTOUT,
                [middle[0] - 4, middle[1] - 4, middle[0] + 5, middle[1] + 5, 5],
            ),
        ]
        for transform, change, numbers in steps:
            expected = transform.apply({"i": image}, draw)["i"]
            found = changed(image, change, numbers)
            assert np.abs(found.astype(np.float64) - expected).max() <= (0 if dtype == "uint8" else 1e-3), change


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_mixed_rows_are_those_of_mixup_and_cutmix(dtype: str) -> None:
    batch = np.stack([picture(8, 9 + 0 * i) // (i + 1) for i in range(6)]).astype(dtype)
    columns, draw = {"i": batch, "l": np.arange(6)}, Draw(1, 2, 3)
    partners, shares = augment._partners(6, 0.2, draw)
    mixed = np.zeros(batch.shape, np.float32)
    _native.mix_images(batch, partners, shares, mixed)
    assert np.array_equal(mixed, augment.Mixup("i", "l", 6).apply_batch(columns, draw)["i"])
    partners, shares = augment._partners(6, 1.0, draw)
    boxes = []
    for share, (down, across) in zip(shares, draw.generator(salt=1).random((6, 2)), strict=True):
        tall, wide = int(8 * math.sqrt(1 - share)), int(9 * math.sqrt(1 - share))
        boxes.append((int(down * (8 - tall + 1)), int(across * (9 - wide + 1)), tall, wide))
    pasted = np.zeros_like(batch)
    _native.paste_images(batch, partners, np.array(boxes, np.int64), pasted)
    assert np.array_equal(pasted, augment.Cutmix("i", "l", 6).apply_batch(columns, draw)["i"])
