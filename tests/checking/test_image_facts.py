"""What the core sees of images is what Pillow sees of them."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bushel import _native
from bushel.checking.collect.image_and_sound_facts import _look_at, _look_in_core
from bushel.data.columns import BytesColumn


def photo(height: int, width: int) -> Image.Image:
    rng = np.random.default_rng(height * width)
    coarse = rng.integers(0, 255, (max(2, height // 16), max(2, width // 16), 3)).astype(np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return Image.fromarray(np.clip(np.asarray(smooth) + rng.normal(0, 4, (height, width, 3)), 0, 255).astype(np.uint8))


def encoded(image: Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def lying() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(photo(90, 60), "JPEG", exif=exif.tobytes())


@pytest.mark.skipif(not all(_native.codecs().values()), reason="bushel was compiled without decoders of images")
def test_plain_images_look_to_the_core_as_they_look_to_pillow() -> None:
    sizes = [(16, 20), (28, 28), (100, 150), (375, 500), (700, 333)]
    plain = [encoded(photo(*size), format) for size in sizes for format in ("JPEG", "PNG")]
    plain += [encoded(photo(60, 90).convert("L"), format) for format in ("JPEG", "PNG")] + [lying()]
    seen = _look_in_core(BytesColumn.of(plain), np.arange(len(plain)))
    for row, data in enumerate(plain):
        here, there = seen[row], _look_at(data)
        assert here[:5] == there[:5]
        assert abs(here.mean - there.mean) < 1
        assert abs(here.deviation - there.deviation) < 1
        assert np.abs(np.subtract(here.colour, there.colour)).max(initial=0) < 1


def test_what_is_unusual_or_damaged_is_left_to_pillow() -> None:
    whole = encoded(photo(40, 50), "JPEG")
    clear = photo(40, 50).convert("RGBA")
    others = [b"", b"text", whole[: len(whole) // 2], encoded(clear, "PNG"), encoded(clear.convert("P"), "PNG")]
    others += [encoded(photo(9, 9).convert("CMYK"), "JPEG"), encoded(photo(9, 9), "WEBP")]
    assert _look_in_core(BytesColumn.of([*others, whole]), np.arange(len(others))) == {}
