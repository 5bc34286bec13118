"""Images of 16 bits a channel against OpenCV and Pillow: decoded, changed, stored, read again."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import bushel
from bushel import sources
from bushel import transforms as t
from bushel.errors import SchemaMismatch
from bushel.pixels.codecs import decode_pixels, decode_wide, encode_wide, is_wide
from bushel.sources.image_checks import ImageCheck
from bushel.transforms.chain import Chain

DRAW = t.Draw(seed=3, epoch=0, record=5)
WIDE = np.random.default_rng(7).integers(0, 65536, (40, 60, 4), np.uint16)
SMOOTH = cv2.GaussianBlur(WIDE, (0, 0), 3)
ORDER = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}


def by_opencv(pixels: Any, suffix: str = ".png", *options: int) -> bytes:
    swapped = pixels[..., ORDER[pixels.shape[2]]]
    return bytes(cv2.imencode(suffix, swapped, options)[1].tobytes())


def seen_by_opencv(data: bytes, flags: int = cv2.IMREAD_UNCHANGED) -> Any:
    found = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    found = found.reshape(*found.shape[:2], -1)
    return found[..., ORDER[found.shape[2]]]


def tiff(pixels: Any, colours: int, order: str = "<", planes: int = 1, **more: int) -> bytes:
    """A TIFF of one strip, or one a plane, from the specification. Colours: 1 grey, 2 RGB, 5 CMYK."""
    height, width, channels = pixels.shape
    raw = pixels.astype(pixels.dtype.newbyteorder(order))
    parts = [raw[..., at].tobytes() for at in range(channels)] if planes == 2 else [raw.tobytes()]
    tags: dict[int, tuple[int, list[int]]] = {
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [16] * channels),
        259: (3, [1]),
        262: (3, [colours]),
        273: (4, [0] * len(parts)),
        274: (3, [more.get("orientation", 1)]),
        277: (3, [channels]),
        278: (4, [height]),
        279: (4, [len(part) for part in parts]),
        284: (3, [planes]),
    }
    if "alpha" in more:
        tags[338] = (3, [more["alpha"]])
    at = 14 + 12 * len(tags)
    sizes = [len(values) * (2 if kind == 3 else 4) for kind, values in tags.values()]
    first = at + sum(size for size in sizes if size > 4)
    tags[273] = (4, [first + sum(len(part) for part in parts[:number]) for number in range(len(parts))])
    entries = behind = b""
    for tag, (kind, values) in sorted(tags.items()):
        data = struct.pack(f"{order}{len(values)}{'H' if kind == 3 else 'I'}", *values)
        if len(data) > 4:
            behind, data = behind + data, struct.pack(f"{order}I", at + len(behind))
        entries += struct.pack(f"{order}HHI", tag, kind, len(values)) + data.ljust(4, b"\0")
    magic = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IH", 8, len(tags))
    return magic + entries + bytes(4) + behind + b"".join(parts)


def png(pixels: Any, colour: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of 16 bits, from the specification, each row with another filter. Colour: 0 grey, 2 RGB, 4 grey, alpha."""
    height, width, channels = pixels.shape
    rows = pixels.astype(">u2").view(np.uint8).reshape(height, -1).astype(int)
    left, above, corner = np.zeros_like(rows), np.zeros_like(rows), np.zeros_like(rows)
    left[:, 2 * channels :], above[1:] = rows[:, : -2 * channels], rows[:-1]
    corner[1:, 2 * channels :] = rows[:-1, : -2 * channels]
    near = [np.abs(left + above - corner - part) for part in (left, above, corner)]
    paeth = np.where(
        (near[0] <= near[1]) & (near[0] <= near[2]), left, np.where(near[1] <= near[2], above, corner)
    )  # as the specification breaks ties
    guesses = [np.zeros_like(rows), left, above, (left + above) // 2, paeth]
    lines = b"".join(
        bytes([at % 5]) + (rows[at] - guesses[at % 5][at]).astype(np.uint8).tobytes() for at in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    made = ((b"IHDR", head), *chunks, (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in made
    )


FILES: dict[str, bytes] = {}
for name, count in (("grey", 1), ("rgb", 3), ("rgba", 4)):
    FILES[f"PNG {name}"] = by_opencv(WIDE[..., :count])
    for how, options in {
        "": [cv2.IMWRITE_TIFF_COMPRESSION, 1],
        " LZW": [cv2.IMWRITE_TIFF_COMPRESSION, 5, cv2.IMWRITE_TIFF_PREDICTOR, 2],
        " deflate": [cv2.IMWRITE_TIFF_COMPRESSION, 8, cv2.IMWRITE_TIFF_ROWSPERSTRIP, 7],
        " PackBits": [cv2.IMWRITE_TIFF_COMPRESSION, 32773],
    }.items():
        FILES[f"TIFF {name}{how}"] = by_opencv(WIDE[..., :count], ".tif", *options)
FILES["TIFF grey big-endian"] = tiff(WIDE[..., :1], 1, ">")
FILES["TIFF rgb big-endian"] = tiff(WIDE[..., :3], 2, ">")
FILES["PNG rgb, every filter"] = png(WIDE[..., :3], 2)


@pytest.mark.parametrize("kind", FILES)
def test_all_16_bits_are_those_that_opencv_sees(kind: str) -> None:
    wanted = seen_by_opencv(FILES[kind])
    assert wanted.dtype == np.uint16
    found = decode_wide(FILES[kind])
    assert found.dtype == np.uint16
    assert np.array_equal(found, wanted)
    assert is_wide(FILES[kind])
    assert np.array_equal(decode_pixels(FILES[kind]), wanted >> 8)
    sample = {"image": FILES[kind], "image/channels": 0}
    three = t.decode_image("image", dtype="uint16").apply(sample, DRAW)
    assert three["image"].shape == (40, 60, 3)
    assert three["image/channels"] == 3
    share = wanted[..., 3:] / 65535 if wanted.shape[-1] == 4 else 1.0
    on_white = np.broadcast_to(wanted[..., :3] * share + 65535 * (1 - share), (40, 60, 3))
    assert np.abs(three["image"] - on_white).max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_orientation_is_applied_to_16_bits(orientation: int, form: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = png(WIDE[..., :3], 2, (b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")))
    if form == "TIFF":
        data = tiff(WIDE[..., :3], 2, orientation=orientation)
    wanted = seen_by_opencv(data, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
    assert np.array_equal(decode_wide(data), wanted)
    if orientation > 1:
        upright, header = ImageCheck(allow=("16-bit",)).check(data)
        assert np.array_equal(seen_by_opencv(upright), wanted)
        assert (header.height, header.width, header.bits) == (*wanted.shape[:2], 16)


def test_rare_kinds_of_16_bits_agree_with_the_8_bits_of_pillow() -> None:
    """Of CMYK and alpha Pillow cuts first and computes then: their upper halves differ by 2, or 3 where
    half of the alpha is left."""
    premultiplied = WIDE.copy()
    premultiplied[..., :3] = premultiplied[..., :3].astype(float) * premultiplied[..., 3:] / 65535
    premultiplied[..., 3] |= 0x8000  # Pillow divides 8 bits by 8 bits: coarse where there is little alpha
    kinds = {
        "CMYK": (tiff(WIDE, 5), 3, 2),
        "not alpha": (tiff(WIDE, 2, alpha=0), 3, 0),
        "alpha": (tiff(WIDE, 2, ">", alpha=2), 4, 0),
        "premultiplied": (tiff(premultiplied, 2, alpha=1), 4, 3),
        "grey, alpha": (png(WIDE[..., :2], 4), 4, 0),
    }
    for kind, (data, channels, most) in kinds.items():
        found = decode_wide(data)
        assert found.shape == (40, 60, channels), kind
        assert np.abs((found >> 8).astype(int) - decode_pixels(data)).max() <= most, kind


def test_the_transparent_colour_of_a_png_is_alpha() -> None:
    for channels, colour in ((3, 2), (1, 0)):
        key = WIDE[3, 5, :channels]
        data = png(WIDE[..., :channels], colour, (b"tRNS", key.astype(">u2").tobytes()))
        found = decode_wide(data)
        assert found.shape == (40, 60, 4)
        assert found[3, 5, 3] == 0
        assert (found[..., 3] == 65535).sum() >= 40 * 60 - 2
        is_clear = found[..., 3:] == 0
        assert np.array_equal(decode_wide(data, channels), np.where(is_clear, 65535, WIDE[..., :channels]))


def test_8_bits_are_spread_over_the_whole_range_as_tensorflow_does() -> None:
    pixels = (WIDE[..., :3] >> 8).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    found = decode_wide(out.getvalue())
    assert np.array_equal(found, tf.io.decode_png(out.getvalue(), dtype=tf.uint16).numpy())
    assert (found.min(), found.max()) == (int(pixels.min()) * 257, int(pixels.max()) * 257)
    jpeg = by_opencv(pixels, ".jpg")
    assert np.array_equal(decode_wide(jpeg), decode_pixels(jpeg).astype(np.uint16) * 257)
    assert not is_wide(jpeg)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("pixels", [WIDE, SMOOTH, WIDE[:1, :1], WIDE[:, :1]], ids=["noise", "smooth", "one", "column"])
def test_a_png_of_16_bits_is_read_by_all(pixels: Any, channels: int) -> None:
    part = pixels[..., :channels]
    made = t.encode_image("image", "png").apply({"image": part}, DRAW)["image"]
    assert np.array_equal(seen_by_opencv(made), part)
    assert np.array_equal(decode_wide(made), part)
    assert np.array_equal(tf.io.decode_png(made, dtype=tf.uint16).numpy(), part)
    if pixels is SMOOTH:
        assert len(made) <= 1.1 * len(by_opencv(part))


@pytest.mark.parametrize("size", [(20, 30), (31, 47), (90, 100)])
@pytest.mark.parametrize("kernel", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_resizing_16_bits_agrees_with_tensorflow(size: Any, kernel: Any, antialias: bool) -> None:
    wanted = np.clip(tf.image.resize(WIDE[..., :3], size, method=kernel, antialias=antialias), 0, 65535)
    step = t.resize("image", *size, kernel=kernel, antialias=antialias)
    found = step.apply({"image": WIDE[..., :3]}, DRAW)["image"]
    assert found.dtype == np.uint16
    assert np.abs(found - wanted.astype(float)).max() <= (2 if kernel == "bilinear" else 257)  # 257: 1 of 255
    eight = t.resize("image", *size, kernel=kernel, antialias=antialias, dtype="uint8")
    assert np.array_equal(eight.apply({"image": WIDE[..., :3]}, DRAW)["image"], found >> 8)


@pytest.mark.parametrize("size", [(20, 30), (31, 47)])
def test_areas_of_16_bits_agree_with_opencv(size: Any) -> None:
    wanted = cv2.resize(WIDE[..., :3], size[::-1], interpolation=cv2.INTER_AREA)
    found = t.resize("image", *size, kernel="area").apply({"image": WIDE[..., :3]}, DRAW)["image"]
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_16_bits_are_cut_padded_turned_grey_and_normalised() -> None:
    sample: dict[str, Any] = {"image": WIDE[..., :3]}
    assert np.array_equal(t.center_crop("image", 20, 30).apply(sample, DRAW)["image"], WIDE[10:30, 15:45, :3])
    cropped = t.random_crop("image", 20, 30).apply(sample, DRAW)["image"]
    assert any(
        np.array_equal(cropped, WIDE[top : top + 20, left : left + 30, :3]) for top in range(21) for left in range(31)
    )
    padded = t.resize("image", 60, 60, fit="pad", fill=60_000).apply(sample, DRAW)["image"]
    assert (padded[:10] == 60_000).all()
    assert (padded[50:] == 60_000).all()
    grey = t.convert_colour("image", 1).apply(sample, DRAW)["image"]
    wanted = cv2.cvtColor(np.ascontiguousarray(WIDE[..., :3]), cv2.COLOR_RGB2GRAY)
    assert grey.dtype == np.uint16
    assert np.abs(grey[..., 0].astype(int) - wanted).max() <= 2  # of 65535
    assert (t.convert_colour("image", 4).apply(sample, DRAW)["image"][..., 3] == 65535).all()
    unit = t.normalise("image", 0, 65535).apply(sample, DRAW)["image"]
    assert unit.dtype == np.float32
    assert np.allclose(unit, WIDE[..., :3] / 65535, atol=1e-6)


@pytest.mark.parametrize(
    "step",
    [
        t.brightness("image", 0.4),
        t.contrast("image", 0.4),
        t.saturation("image", 0.4),
        t.hue("image", 0.2),
        t.rotate("image", 30, fill=0),
        t.random_flip("image"),
        t.random_resized_crop("image", 24, 24),
    ],
    ids=lambda step: type(step).__name__,
)
def test_augmenting_16_bits_is_augmenting_8_bits_more_finely(step: Any) -> None:
    wide = step.apply({"image": SMOOTH[..., :3]}, DRAW)["image"]
    eight = step.apply({"image": (SMOOTH[..., :3] >> 8).astype(np.uint8)}, DRAW)["image"]
    assert wide.dtype == np.uint16
    assert np.abs(wide / 257 - eight).max() <= 3


def test_masks_of_16_bits_follow() -> None:
    numbers = WIDE[..., :1]
    out = io.BytesIO()
    Image.fromarray(numbers[..., 0]).save(out, "PNG")
    sample = {"image": np.zeros((40, 60, 3), np.uint8), "mask": out.getvalue()}
    made = t.center_crop("image", 20, 30, masks=("mask",)).apply(sample, DRAW)
    assert np.array_equal(decode_wide(made["mask"]), numbers[10:30, 15:45])
    turned = t.rotate("image", 20, masks=("mask",)).apply(sample, DRAW)
    assert set(decode_wide(turned["mask"]).reshape(-1).tolist()) <= {0, *numbers.reshape(-1).tolist()}


def folder(path: Path) -> Path:
    for number in range(6):
        (path / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        (path / "ab"[number % 2] / f"{number}.png").write_bytes(by_opencv(np.roll(SMOOTH[..., :3], number, 0)))
    return path


def cut_in(dataset: Path) -> dict[str, int]:
    return {what: count for what, count in bushel.read_manifest(dataset).counted.items() if "bits" in what}


def test_a_build_keeps_16_bits_as_png_or_raw_and_reads_them_again(tmp_path: Path) -> None:
    source = sources.images(folder(tmp_path / "in"), allow=["16-bit"])
    for form in ("png", "raw"):
        step = t.resize_encoded("image", 20, 30, form=form, dtype="uint16")
        bushel.build(source, tmp_path / form, transforms=[step], shards=1)
        assert not cut_in(tmp_path / form)
        kept = bushel.open(tmp_path / form)
        decode = [] if form == "raw" else [t.decode_image("image", dtype="uint16")]
        (batch,) = bushel.batches(kept["train"], batch_size=6, transforms=decode)
        assert batch["image"].dtype == np.uint16
        assert batch["image"].shape == (6, 20, 30, 3)
        for sample, pixels in zip(kept["train"], batch["image"], strict=True):
            number = int(Path(sample["key"]).stem)
            wanted = t.resize("image", 20, 30, antialias=True).apply(
                {"image": np.roll(SMOOTH[..., :3], number, 0)}, DRAW
            )
            assert np.array_equal(pixels, wanted["image"])


def test_a_build_that_cuts_16_bits_says_how_many_images(tmp_path: Path) -> None:
    source = sources.images(folder(tmp_path / "in"), allow=["16-bit"])
    steps = {"resize": t.resize_encoded("image", 20, 30), "form": t.reencode("image", "webp")}
    for name, step in steps.items():
        bushel.build(source, tmp_path / name, transforms=[step])
        assert cut_in(tmp_path / name) == {"images cut from 16 to 8 bits (image)": 6}
    bushel.build(source, tmp_path / "kept", transforms=[t.reencode("image", "png")])
    assert not cut_in(tmp_path / "kept")


def test_raw_images_of_several_kinds_are_refused_in_one_line(tmp_path: Path) -> None:
    (folder(tmp_path / "in") / "a" / "grey.png").write_bytes(by_opencv(WIDE[..., :1]))
    source = sources.images(tmp_path / "in", allow=["16-bit"])
    for step in (t.resize_encoded("image", 20, 30, form="raw", dtype="uint16"), t.reencode("image", "raw")):
        with pytest.raises(SchemaMismatch, match=r"first size only, got \[.*, 1\] and \[.*, 3\] - at image"):
            bushel.build(source, tmp_path / "out", transforms=[step])


def test_repeats_for_balance_keep_their_16_bits() -> None:
    chain = Chain.of([t.brightness("image", 0.3), t.rotate("image", 20)])
    made = chain.vary({"image": FILES["PNG rgb"]})["image"]
    assert is_wide(made)
    assert (seen_by_opencv(made) & 255).any()


@pytest.mark.parametrize("kind", ["TIFF rgb", "TIFF rgb LZW", "TIFF grey", "PNG rgb", "PNG grey"])
def test_tiles_of_16_bits(tmp_path: Path, kind: str) -> None:
    (tmp_path / f"x.{kind[:3].lower()}").write_bytes(FILES[kind])
    wanted = seen_by_opencv(FILES[kind])
    source = sources.tiles(tmp_path, height=20, width=30, dtype="uint16")
    assert source.describe()["dtype"] == "uint16"
    for dtype in ("uint16", "uint8"):
        source = sources.tiles(tmp_path, height=20, width=30, dtype=dtype)
        (block,) = source.read(0, None)
        assert block.counted == ({"tiles cut from 16 to 8 bits": 4} if dtype == "uint8" else {})
        for row in range(4):
            top, left = int(block.columns["image/top"][row]), int(block.columns["image/left"][row])
            part = wanted[top : top + 20, left : left + 30]
            assert np.array_equal(seen_by_opencv(block.columns["image"][row]), part if dtype == "uint16" else part >> 8)


def test_what_cannot_hold_16_bits_is_said() -> None:
    with pytest.raises(SchemaMismatch, match="jpeg has 8 bits per channel, and the pixels are uint16"):
        t.encode_image("image", "jpeg").apply({"image": WIDE[..., :3]}, DRAW)
    with pytest.raises(ValueError, match="form must be png or raw for dtype='uint16', got 'webp'"):
        t.reencode("image", "webp", dtype="uint16")
    with pytest.raises(ValueError, match="dtype must be one of uint8, uint16; got 'float32'"):
        t.decode_image("image", dtype="float32")
    with pytest.raises(ValueError, match="form must be png for dtype='uint16', got 'jpeg'"):
        sources.tiles(".", height=9, form="jpeg", dtype="uint16")
    for data in (FILES["PNG rgb"][:200], tiff(WIDE[..., :3], 2)[:900], b"", tiff(WIDE[..., :3], 2, planes=2)):
        with pytest.raises(SchemaMismatch, match="the image cannot be decoded"):
            t.decode_image("image", dtype="uint16").apply({"image": data}, DRAW)
    with pytest.raises(SchemaMismatch, match="a plane for each channel can have 8 bits per channel only"):
        t.decode_image("image").apply({"image": tiff(WIDE[..., :3], 2, planes=2)}, DRAW)


def test_the_writer_takes_pixels_of_any_layout() -> None:
    assert np.array_equal(decode_wide(encode_wide(WIDE[::2, ::-1, :3])), WIDE[::2, ::-1, :3])
