"""What the header of an image says is what is decoded: size and channels, for all formats."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bushel.data.columns import BytesColumn
from bushel.pixels.codecs import decode_pixels
from bushel.pixels.headers import BadImage, parse_header, read_headers
from bushel.sources.image_checks import UNUSUAL, ImageCheck

SIZE = (7, 5)


def picture(mode: str) -> Image.Image:
    shades = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 4), np.uint8)
    return Image.fromarray(shades, "RGBA").convert(mode)


def encoded(mode: str, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture(mode).save(out, form, **options)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(colour: int, bits: int, *, transparent: bool) -> bytes:
    """A PNG of one colour type and depth, with a transparent colour if asked for."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = b"\0" * (1 + (SIZE[0] * samples * bits + 7) // 8)
    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", *SIZE, bits, colour, 0, 0, 0))]
    if colour == 3:
        parts.append(chunk(b"PLTE", bytes(range(6))))
    if transparent:
        parts.append(chunk(b"tRNS", b"\0" if colour == 3 else b"\0\1" * samples))
    parts += [chunk(b"IDAT", zlib.compress(row * SIZE[1])), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def bmp(bits: int, *, size: int = 40, grey: bool = False, alpha: int | None = None) -> bytes:
    """A BMP of Windows, or of OS/2 if its header has 12 bytes."""
    colours = 1 << bits if bits <= 8 else 0
    step = 3 if size == 12 else 4
    levels = (0, 255) if colours == 2 else range(colours)
    palette = b"".join(bytes([level, level if grey else 7, level, 0][:step]) for level in levels)
    rows = b"\0" * ((SIZE[0] * bits + 31) // 32 * 4 * SIZE[1])
    if size == 12:
        header = struct.pack("<IHHHH", 12, *SIZE, 1, bits)
    else:
        header = struct.pack("<IiiHHIIiiII", size, *SIZE, 1, bits, 0 if alpha is None else 3, len(rows), 0, 0, 0, 0)
        masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, alpha or 0)
        header += masks.ljust(size - 40, b"\0") if size > 40 else b""
    start = 14 + len(header) + len(palette)
    return struct.pack("<2sIHHI", b"BM", start + len(rows), 0, 0, start) + header + palette + rows


def gif(screen: tuple[int, int], *, transparent: bool) -> bytes:
    """A GIF whose picture has 7 x 5 pixels, on a screen of another size."""
    data = encoded("P", "GIF", transparency=0) if transparent else encoded("P", "GIF")
    return data[:6] + struct.pack("<HH", *screen) + data[10:]


PNGS = {
    f"png of colour type {colour}, {bits} bits{', transparent' * transparent}": png(
        colour, bits, transparent=transparent
    )
    for colour, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items()
    for bits in depths
    for transparent in ((False, True) if colour in (0, 2, 3) else (False,))
}
BMPS = {
    **{f"bmp of {bits} bits, grey: {grey}": bmp(bits, grey=grey) for bits in (1, 8) for grey in (True, False)},
    **{f"bmp of OS/2, {bits} bits": bmp(bits, size=12) for bits in (1, 4, 8, 24)},
    "bmp of OS/2 in grey": bmp(8, size=12, grey=True),
    "bmp of 4 bits": bmp(4),
    "bmp of 16 bits": bmp(16),
    "bmp of 24 bits": bmp(24),
    "bmp of 32 bits": bmp(32),
    "bmp of 32 bits with masks": bmp(32, size=56, alpha=0),
    "bmp of 32 bits with alpha": bmp(32, size=56, alpha=0xFF000000),
}
OTHERS = {
    **{f"jpeg {mode}": encoded(mode, "JPEG") for mode in ("L", "RGB", "CMYK")},
    **{
        f"webp {mode}": encoded(mode, "WEBP", lossless=lossless)
        for mode in ("RGB", "RGBA")
        for lossless in (True, False)
    },
    **{f"tiff {mode}": encoded(mode, "TIFF") for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")},
    "big tiff": encoded("RGB", "TIFF", big_tiff=True),
    "gif": gif(SIZE, transparent=False),
    "transparent gif": gif(SIZE, transparent=True),
    "gif larger than its screen": gif((3, 2), transparent=False),
    "gif smaller than its screen": gif((30, 20), transparent=False),
}


@pytest.mark.parametrize("name", [*PNGS, *BMPS, *OTHERS])
def test_the_header_and_the_decoder_agree_on_size_and_channels(name):
    data = (PNGS | BMPS | OTHERS)[name]
    pixels = decode_pixels(data)
    header = parse_header(data)
    assert (header.height, header.width, header.channels) == pixels.shape
    core = read_headers(BytesColumn.of([data]))
    if core.is_known[0]:
        assert (core.height[0], core.width[0], core.channels[0]) == pixels.shape
    checked = ImageCheck(allow=tuple(UNUSUAL)).check_all(BytesColumn.of([data]), "image")
    assert not checked.bad
    assert [int(checked.columns[f"image/{what}"][0]) for what in ("height", "width", "channels")] == [*pixels.shape]


@pytest.mark.parametrize("name", ["jpeg CMYK", "tiff CMYK"])
def test_cmyk_is_refused_in_every_format(name):
    with pytest.raises(BadImage, match="is in CMYK"):
        ImageCheck().check(OTHERS[name])


def test_a_tiff_with_smaller_copies_is_not_animated_and_one_with_pages_is():
    out = io.BytesIO()
    picture("RGB").save(out, "TIFF", save_all=True, append_images=[picture("RGB").resize((3, 2))])
    data = out.getvalue()
    assert parse_header(data).is_animated
    out = io.BytesIO()
    small = picture("RGB").resize((3, 2))
    small.encoderinfo = {"tiffinfo": {254: 1}}
    picture("RGB").save(out, "TIFF", save_all=True, append_images=[small])
    assert not parse_header(out.getvalue()).is_animated


def test_a_damaged_header_of_every_length_is_refused_and_never_crashes():
    for data in (PNGS | BMPS | OTHERS).values():
        for end in range(min(len(data), 120)):
            try:
                parse_header(data[:end])
            except BadImage:
                continue
