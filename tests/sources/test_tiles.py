"""Tiles of images: grids, TIFFs of many kinds read part by part, and memory that stays flat."""

import io
import pickle
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from gather import blocks_of, keys_of, listed, read_all
from making import digests
from PIL import Image

import bushel
from bushel import sources
from bushel.errors import FileProblem
from bushel.pixels.codecs import decode_pixels
from bushel.sources.image_tiles import TiffReader

NOISE = np.random.default_rng(0).integers(0, 256, (150, 230, 3), np.uint8)


def write_tiff(
    path: Path,
    pixels: Any,
    tile: int = 64,
    *,
    compression: int = 8,
    predictor: int = 1,
    order: str = "<",
    big: bool = False,
) -> Path:
    """A tiled TIFF, from the specification; compression 1 is none, 8 deflate, 7 a JPEG a tile."""
    height, width, channels = pixels.shape
    bits = pixels.dtype.itemsize * 8
    parts = []
    for top in range(0, height, tile):
        for left in range(0, width, tile):
            part = np.zeros((tile, tile, channels), pixels.dtype)
            inner = pixels[top : top + tile, left : left + tile]
            part[: inner.shape[0], : inner.shape[1]] = inner
            if compression == 7:
                parts.append(simplejpeg.encode_jpeg(part, 95, "RGB", "444"))
                continue
            if predictor == 2:
                part = np.concatenate([part[:, :1], np.diff(part, axis=1)], axis=1)
            data = part.astype(part.dtype.newbyteorder(order)).tobytes()
            parts.append(zlib.compress(data) if compression == 8 else data)
    colours = 6 if compression == 7 else 2 if channels > 2 else 1
    kind, offset = (16, "Q") if big else (4, "I")
    head = 16 if big else 8
    offsets = np.cumsum([head, *(len(part) for part in parts)])
    tags: list[tuple[int, int, list[int]]] = [
        (256, 4, [width]),
        (257, 4, [height]),
        (258, 3, [bits] * channels),
        (259, 3, [compression]),
        (262, 3, [colours]),
        (277, 3, [channels]),
        (284, 3, [1]),
        (317, 3, [predictor]),
        (322, 3, [tile]),
        (323, 3, [tile]),
        (324, kind, offsets[:-1].tolist()),
        (325, 4, [len(part) for part in parts]),
    ]
    if channels == 4:
        tags.append((338, 3, [2]))
    if compression == 7:
        tags.append((530, 3, [1, 1]))
    directory = int(offsets[-1])
    size = 20 if big else 12
    more_at = directory + (8 if big else 2) + size * len(tags) + (8 if big else 4)
    entries, more = b"", b""
    for tag, type_, values in sorted(tags):
        data = struct.pack(f"{order}{len(values)}{ {3: 'H', 4: 'I', 16: 'Q'}[type_] }", *values)
        if len(data) > (8 if big else 4):
            more += data
            data = struct.pack(f"{order}{offset}", more_at + len(more) - len(data))
        entries += struct.pack(f"{order}HH{offset}", tag, type_, len(values)) + data.ljust(8 if big else 4, b"\0")
    magic = b"II" if order == "<" else b"MM"
    start = struct.pack(f"{order}HHHQ", 43, 8, 0, directory) if big else struct.pack(f"{order}HI", 42, directory)
    count = struct.pack(f"{order}{'Q' if big else 'H'}", len(tags))
    path.write_bytes(magic + start + b"".join(parts) + count + entries + struct.pack(f"{order}{offset}", 0) + more)
    return path


def pasted(source: Any, shape: tuple[int, ...]) -> Any:
    """The image put together again from its tiles, and how many lay over each pixel."""
    canvas, seen = np.zeros(shape, np.uint8), np.zeros(shape[:2], int)
    for block in blocks_of(source):
        assert not block.refused
        for row in range(len(block.rows)):
            pixels = decode_pixels(block.columns["image"][row])
            top, left = int(block.columns["image/top"][row]), int(block.columns["image/left"][row])
            inner = pixels[: shape[0] - top, : shape[1] - left]
            assert pixels.shape[:2] == (source.grid.height, source.grid.width)
            canvas[top : top + inner.shape[0], left : left + inner.shape[1]] = inner
            seen[top : top + inner.shape[0], left : left + inner.shape[1]] += 1
    return canvas, seen


KINDS: dict[str, Any] = {
    "tiled": lambda path: write_tiff(path, NOISE),
    "not compressed": lambda path: write_tiff(path, NOISE, compression=1),
    "predicted": lambda path: write_tiff(path, NOISE, predictor=2),
    "big-endian": lambda path: write_tiff(path, NOISE, order=">"),
    "BigTIFF": lambda path: write_tiff(path, NOISE, big=True),
    "RGBA": lambda path: write_tiff(path, np.dstack([NOISE, NOISE[..., :1]])),
    "grey": lambda path: write_tiff(path, NOISE[..., :1]),
    "16-bit": lambda path: write_tiff(path, NOISE.astype(np.uint16) * 256 + 9),
    "16-bit predicted": lambda path: write_tiff(path, NOISE.astype(np.uint16) * 256 + 9, predictor=2, order=">"),
    "strips": lambda path: Image.fromarray(NOISE).save(path, "TIFF"),
    "LZW strips": lambda path: Image.fromarray(NOISE).save(path, "TIFF", compression="tiff_lzw"),
    "PackBits strips": lambda path: Image.fromarray(NOISE).save(path, "TIFF", compression="packbits"),
    "16-bit strips": lambda path: Image.fromarray(NOISE[..., 0].astype(np.uint16) * 256).save(path, "TIFF"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edge", ["shift", "pad"])
def test_tiles_of_every_kind_of_tiff_make_the_image_again(tmp_path: Path, kind: str, edge: Any) -> None:
    KINDS[kind](tmp_path / "a.tif")
    reader = TiffReader(tmp_path / "a.tif")
    assert reader.is_by_parts
    channels = 1 if kind in ("grey", "16-bit strips") else 4 if kind == "RGBA" else 3
    wanted = np.dstack([NOISE, NOISE[..., :1]])[..., :channels]
    canvas, seen = pasted(sources.tiles(tmp_path / "a.tif", height=70, width=50, overlap=10, edge=edge), wanted.shape)
    assert (canvas == wanted).all()
    assert seen.min() >= 1
    reader.close()


def test_tiles_compressed_as_jpeg_are_decoded_one_by_one(tmp_path: Path) -> None:
    smooth = np.asarray(Image.fromarray(NOISE).resize((23, 15)).resize((230, 150), Image.Resampling.BICUBIC))
    write_tiff(tmp_path / "a.tif", smooth, compression=7)
    canvas, _ = pasted(sources.tiles(tmp_path / "a.tif", height=50), smooth.shape)
    assert np.abs(canvas.astype(int) - smooth).max() <= 12
    with Image.open(tmp_path / "a.tif") as image:
        assert np.abs(canvas.astype(int) - np.asarray(image.convert("RGB"))).max() <= 1


@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP", "WEBP"])
def test_other_formats_are_decoded_whole(tmp_path: Path, form: str) -> None:
    Image.fromarray(NOISE).save(tmp_path / "a.png", form, **({"lossless": True} if form == "WEBP" else {}))
    wanted = decode_pixels((tmp_path / "a.png").read_bytes())
    canvas, _ = pasted(sources.tiles(tmp_path / "a.png", height=64), NOISE.shape)
    assert (canvas == wanted).all()


def test_the_grid_and_its_edges(tmp_path: Path) -> None:
    Image.fromarray(NOISE).save(tmp_path / "a.png")
    shift = sources.tiles(tmp_path / "a.png", height=100, overlap=20)
    assert keys_of(shift) == ["a.png@0,0", "a.png@0,80", "a.png@0,130", "a.png@50,0", "a.png@50,80", "a.png@50,130"]
    drop = sources.tiles(tmp_path / "a.png", height=100, overlap=20, edge="drop")
    assert keys_of(drop) == ["a.png@0,0", "a.png@0,80"]
    pad = sources.tiles(tmp_path / "a.png", height=100, edge="pad", fill=7)
    assert keys_of(pad)[-1] == "a.png@100,200"
    columns, _ = read_all(pad)
    assert (decode_pixels(columns["image"][-1])[50:] == 7).all()
    small = read_all(sources.tiles(tmp_path / "a.png", height=300))[0]
    assert decode_pixels(small["image"][0]).shape == (300, 300, 3)
    _, refused = read_all(sources.tiles(tmp_path / "a.png", height=300, edge="drop"))
    assert [bad.reason for bad in refused] == ["no tile fits into its 230x150 pixels"]


def test_tiles_of_one_image_stay_in_one_split_for_any_number_of_workers(tmp_path: Path) -> None:
    for n in range(12):
        (tmp_path / "in" / "ab"[n % 2]).mkdir(parents=True, exist_ok=True)
        write_tiff(tmp_path / "in" / "ab"[n % 2] / f"{n}.tif", NOISE[n:])
    source = sources.tiles(tmp_path / "in", height=64, overlap=8)
    found = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        bushel.build(source, out, split="50/50", run=bushel.Run(workers=workers))
        found.append(digests(out))
    assert found[0] == found[1]
    images = {}
    for split in ("train", "val"):
        (shard,) = (tmp_path / "out1").glob(f"{split}-*")
        images[split] = {key.split(b"@")[0] for key in bushel.read(shard, ["key"])["key"]}
    assert images["train"]
    assert images["val"]
    assert not images["train"] & images["val"]
    assert set(listed(source, "label")) == {b"a", b"b"}


def _damaged(data: bytes) -> dict[str, bytes]:
    half = bytearray(data)
    half[8:2000] = bytes(1992)
    return {"cut": data[:200], "short": data[:-3000], "zeros": bytes(half), "empty": b"", "text": b"not an image"}


@pytest.mark.parametrize("how", ["cut", "short", "zeros", "empty", "text"])
def test_a_damaged_image_refuses_its_own_tiles(tmp_path: Path, how: str) -> None:
    write_tiff(tmp_path / "b.tif", NOISE)
    (tmp_path / "a.tif").write_bytes(_damaged((tmp_path / "b.tif").read_bytes())[how])
    columns, refused = read_all(sources.tiles(tmp_path, height=64))
    assert refused
    assert all(bad.stage == "decode" for bad in refused)
    assert sum(key.startswith(b"b.tif") for key in columns["key"]) == 12


def test_a_part_that_says_it_is_endless_is_not_inflated(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", NOISE)
    reader = TiffReader(path)
    bomb = zlib.compress(bytes(50_000_000))
    data = bytearray(path.read_bytes())
    at = reader.offsets[0]
    reader.close()
    part = bomb[: reader.sizes[0]]
    data[at : at + len(part)] = part
    path.write_bytes(data)
    columns, refused = read_all(sources.tiles(path, height=64))
    assert len(columns["image"]) + len(refused) == 12


def test_an_image_that_is_too_large_to_decode_whole_is_refused(tmp_path: Path) -> None:
    Image.new("L", (5000, 4000)).save(tmp_path / "a.png")
    _, refused = read_all(sources.tiles(tmp_path / "a.png", height=64, max_pixels=1_000_000))
    assert refused[0].reason == "5000x4000 pixels are more than the 1,000,000 that may be decoded at once"


def test_pickles_recipes_and_wrong_options(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a.tif", NOISE)
    source = sources.tiles(tmp_path, height=64, overlap=4, form="jpeg", quality=80)
    again, opened = pickle.loads(pickle.dumps(source)), sources.open_source(source.describe())
    assert read_all(again) == read_all(source) == read_all(opened)
    assert again.fingerprint() == source.fingerprint() == opened.fingerprint()
    for options, why in (
        ({"height": 0}, "height must be at least 1, got 0"),
        ({"height": 8, "overlap": 8}, "overlap must be from 0 to less than a tile's side, got 8"),
        ({"height": 8, "edge": "cut"}, "edge must be one of shift, pad, drop; got 'cut'"),
        ({"height": 8, "form": "gif"}, "form must be one of jpeg, png, webp; got 'gif'"),
    ):
        with pytest.raises(ValueError, match=why):
            sources.tiles(tmp_path, **options)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileProblem, match="there are no images in this folder"):
        sources.tiles(tmp_path / "empty", height=8)


MEASURE = """
import sys
from bushel import sources

def anonymous():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024

source = sources.tiles(sys.argv[1], height=512, overlap=32, form="jpeg", quality=50)
before = most = 0
count = 0
for block in source.read(0, None):
    before = before or anonymous()
    most = max(most, anonymous())
    count += len(block.rows)
print(count, before, most)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")
@pytest.mark.parametrize("kind", ["tiles", "strips"])
def test_a_large_tiff_is_never_loaded_whole(tmp_path: Path, kind: str) -> None:
    """8,192 x 8,192 x 3 are 201 MB of pixels."""
    shades = np.broadcast_to((np.arange(8192) >> 6).astype(np.uint8)[:, None, None], (8192, 8192, 3))
    if kind == "tiles":
        write_tiff(tmp_path / "a.tif", shades, 1024)
    else:
        Image.fromarray(np.ascontiguousarray(shades)).save(tmp_path / "a.tif", "TIFF", compression="tiff_adobe_deflate")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / "a.tif"], capture_output=True, text=True, check=True
    )
    count, before, most = map(int, done.stdout.split())
    assert count == 17 * 17
    assert most - before < 100 << 20
    assert most < 200 << 20


def test_the_small_file_of_one_part_is_a_tiff(tmp_path: Path) -> None:
    Image.fromarray(NOISE).save(tmp_path / "a.tif", "TIFF", compression="tiff_lzw")
    reader = TiffReader(tmp_path / "a.tif")
    data = reader._bytes(reader.offsets[0], reader.sizes[0])
    with Image.open(io.BytesIO(reader._small_file(data, reader.segment[0], 230))) as image:
        assert (np.asarray(image) == NOISE[: reader.segment[0]]).all()
    reader.close()
