"""Write the seed corpus of the fuzz targets of images: one folder each for JPEGs and PNGs, all of them tiny.

python make_image_seeds.py [FOLDER]        default: fuzz_seeds beside this script
"""

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "fuzz_seeds"
    for kind, files in (("jpeg", jpegs()), ("png", pngs())):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / kind / name).write_bytes(data)


def picture(mode: str, height: int = 9, width: int = 11) -> Image.Image:
    rng = np.random.default_rng(height)
    y, x = np.mgrid[:height, :width]
    channels = [(x * (9 - c) + y * (5 + c) + rng.integers(0, 20, x.shape)) % 256 for c in range(4)]
    picture = Image.fromarray(np.stack(channels, -1).astype(np.uint8))
    return picture.quantize(16) if mode == "P" else picture.convert(mode)


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def jpegs() -> dict[str, bytes]:
    colours = saved(picture("RGB"), "JPEG", quality=60)
    frame = colours.index(b"\xff\xc0") + 5
    return {
        "colours": colours,
        "grey": saved(picture("L"), "JPEG"),
        "whole_chroma": saved(picture("RGB"), "JPEG", subsampling=0),
        "half_chroma": saved(picture("RGB"), "JPEG", subsampling=1),
        "progressive": saved(picture("RGB", 24, 24), "JPEG", progressive=True),
        "optimised": saved(picture("RGB", 24, 24), "JPEG", optimize=True),
        "restarts": saved(picture("RGB", 24, 24), "JPEG", restart_marker_blocks=1),
        "four_channels": saved(picture("CMYK"), "JPEG"),
        "turned": saved(picture("RGB"), "JPEG", exif=EXIF),
        "exif_garbage": saved(picture("RGB"), "JPEG", exif=EXIF[:8] + b"\xff" * 30),
        "profile_garbage": saved(picture("RGB"), "JPEG", icc_profile=b"\0" * 50),
        "cut": colours[: len(colours) * 2 // 3],
        "no_end": colours[:-2],
        "huge": colours[:frame] + struct.pack(">HH", 60000, 60000) + colours[frame + 4 :],
        "no_height": colours[:frame] + struct.pack(">HH", 0, 11) + colours[frame + 4 :],
        "no_tables": colours[:20] + colours[colours.index(b"\xff\xc0") :],
    }


def pngs() -> dict[str, bytes]:
    colours = saved(picture("RGB"), "PNG")
    body = colours.index(b"IDAT") - 4
    flipped = bytearray(colours)
    flipped[-20] ^= 1
    return {
        "colours": colours,
        "grey": saved(picture("L"), "PNG"),
        "grey_alpha": saved(picture("LA"), "PNG"),
        "alpha": saved(picture("RGBA"), "PNG"),
        "palette": saved(picture("P"), "PNG", bits=8),
        "palette_clear": saved(picture("P"), "PNG", bits=8, transparency=bytes(range(16))),
        "palette_small": saved(picture("P"), "PNG", bits=4),
        "one_bit": saved(picture("1"), "PNG"),
        "clear_colour": saved(picture("RGB"), "PNG", transparency=(1, 2, 3)),
        "sixteen_bits": saved(picture("I;16"), "PNG"),
        "turned": saved(picture("RGB"), "PNG", exif=EXIF[6:]),
        "animated": saved(picture("L"), "PNG", save_all=True, append_images=[picture("L").rotate(90)]),
        "profile_garbage": saved(picture("RGB"), "PNG", icc_profile=b"\0" * 50),
        "wrong_checksum": bytes(flipped),
        "cut": colours[: len(colours) * 2 // 3],
        "huge": colours[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)) + colours[body:],
        "no_size": colours[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 11, 8, 2, 0, 0, 0)) + colours[body:],
        "interlaced": colours[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 11, 9, 8, 2, 0, 0, 1)) + colours[body:],
    }


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


if __name__ == "__main__":
    main()
