"""Pictures for tests, made and encoded without the package under test."""

import io
from typing import Any

import numpy as np


def photo(number: int, height: int, width: int) -> Any:
    """Pixels of a smooth picture with some noise, as photographs are."""
    from PIL import Image

    generator = np.random.default_rng(number)
    small = generator.integers(0, 255, (6, 6, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    return np.clip(smooth + generator.integers(-9, 9, smooth.shape), 0, 255).astype(np.uint8)


def encode_image(pixels: Any, kind: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()
