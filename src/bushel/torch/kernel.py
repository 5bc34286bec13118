"""The kernel that paints images on a GPU, in Triton's language. Loaded when first used."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["paint_images"]


@triton.jit  # type: ignore[untyped-decorator]
def paint_images(  # type: ignore[no-untyped-def]  # the compiler of kernels reads annotations, and knows its own only
    out,
    table,  # per image: address, values of a row, top, left, height, width, new height and width, where, flips
    scale,  # means, then standard deviations
    height,
    width,
    fill,
    CHANNELS: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
    IS_ROUNDED: tl.constexpr,  # noqa: N803
    IS_SCALED: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    """Crop, resize, place, flip, round, scale and cast; bilinear, with the centres of pixels at half coordinates."""
    row = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_inside = pixel < height * width
    own = table + row * COLUMNS
    source = tl.load(own).to(tl.pointer_type(tl.uint8))
    stride = tl.load(own + 1)
    top, left = tl.load(own + 2), tl.load(own + 3)
    tall, wide = tl.load(own + 4).to(tl.int32), tl.load(own + 5).to(tl.int32)
    to_tall, to_wide = tl.load(own + 6).to(tl.int32), tl.load(own + 7).to(tl.int32)
    flips = tl.load(own + 10)
    y = pixel // width - tl.load(own + 8).to(tl.int32)
    x = pixel % width - tl.load(own + 9).to(tl.int32)
    is_there = is_inside & (y >= 0) & (y < to_tall) & (x >= 0) & (x < to_wide)
    y = tl.where((flips & 2) != 0, to_tall - 1 - y, y)
    x = tl.where((flips & 1) != 0, to_wide - 1 - x, x)

    down = tl.maximum((y.to(tl.float32) + 0.5) * (tall.to(tl.float32) / to_tall.to(tl.float32)) - 0.5, 0.0)
    across = tl.maximum((x.to(tl.float32) + 0.5) * (wide.to(tl.float32) / to_wide.to(tl.float32)) - 0.5, 0.0)
    upper, nearer = tl.minimum(down.to(tl.int32), tall - 1), tl.minimum(across.to(tl.int32), wide - 1)
    lower, farther = tl.minimum(upper + 1, tall - 1), tl.minimum(nearer + 1, wide - 1)
    low, far = down - upper.to(tl.float32), across - nearer.to(tl.float32)
    first, second = (top + upper) * stride, (top + lower) * stride
    near, next_to = (left + nearer) * CHANNELS, (left + farther) * CHANNELS
    for channel in tl.static_range(CHANNELS):
        a = tl.load(source + first + near + channel, mask=is_there, other=0).to(tl.float32)
        b = tl.load(source + first + next_to + channel, mask=is_there, other=0).to(tl.float32)
        c = tl.load(source + second + near + channel, mask=is_there, other=0).to(tl.float32)
        d = tl.load(source + second + next_to + channel, mask=is_there, other=0).to(tl.float32)
        value = (a * (1 - far) + b * far) * (1 - low) + (c * (1 - far) + d * far) * low
        value = tl.where(is_there, value, fill)
        if IS_ROUNDED:
            value = tl.floor(value + 0.5)
        if IS_SCALED:
            value = (value - tl.load(scale + channel)) / tl.load(scale + CHANNELS + channel)
        place = (row * height * width + pixel) * CHANNELS + channel
        tl.store(out + place, value.to(out.dtype.element_ty), mask=is_inside)
