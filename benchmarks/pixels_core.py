"""How fast images that are in memory become rows of a batch, beside bare libjpeg and decoding in Python.

    python benchmarks/pixels_core.py                          all sizes, 1 thread and as many as there are cores
    python benchmarks/pixels_core.py --only jpeg256 --threads 1 2 4 8 16

For each kind of image, in turns on the same bytes, best of several rounds:
  bare     libjpeg-turbo in C++ that only decodes, not resized, into memory that it writes over again and again
  core     one call that decodes and resizes a batch in the core's own threads
  calls    the same calls for quarters of a batch, from as many Python threads
  python   simplejpeg or Pillow, and the core's resize, image by image from as many Python threads

Images are float32 where they are resized and uint8 where they are not; `jpeg256u` is uint8 and resized. Whether core
and python give the same values is checked first. Ratios are of the same run.
"""

import argparse
import ctypes
import io
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bushel import _native
from bushel.pixels.codecs import decode_without_core, resize_pixels

Run = Callable[[int], None]


@dataclass(frozen=True)
class Kind:
    """Images of one kind, and what becomes of them."""

    form: str
    height: int
    width: int
    channels: int
    target: int | None  # None: as they are
    dtype: str
    count: int


KINDS = {
    "jpeg32": Kind("JPEG", 32, 32, 3, None, "uint8", 4096),
    "jpeg128": Kind("JPEG", 128, 128, 3, 112, "float32", 1024),
    "jpeg256": Kind("JPEG", 256, 256, 3, 224, "float32", 512),
    "jpeg256u": Kind("JPEG", 256, 256, 3, 224, "uint8", 512),
    "jpeg500": Kind("JPEG", 375, 500, 3, 224, "float32", 256),
    "png28": Kind("PNG", 28, 28, 1, None, "uint8", 8192),
    "png32": Kind("PNG", 32, 32, 3, None, "uint8", 4096),
    "png256": Kind("PNG", 256, 256, 3, 224, "float32", 256),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--rounds", type=int, default=7, help="take the best of so many [default: %(default)s]")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the images [default: %(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE too")
    options = parser.parse_args()
    print(f"decoders: {_native.codecs()}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="bushel-benchmarks-") as folder:
        bare = compiled(Path(folder))
        print(f"{'kind':10}{'threads':>8}{'bytes':>8}{'bare':>10}{'core':>10}{'calls':>10}{'python':>10}", end="")
        print(f"{'core/bare':>11}{'core/python':>13}")
        for name in options.only:
            rows += measure(name, bare, options)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2))


def compiled(folder: Path) -> Any:
    """The loop around bare libjpeg; None where there is no compiler or no library."""
    source, library = Path(__file__).with_name("bare_libjpeg.cpp"), folder / "bare.so"
    command = ["c++", "-std=c++20", "-O3", "-shared", "-fPIC", "-pthread"]
    made = subprocess.run([*command, str(source), "-o", str(library), "-ljpeg"], check=False, capture_output=True)
    if made.returncode:
        print(f"bare libjpeg is left out: {made.stderr.decode().strip().splitlines()[-1]}")
        return None
    return ctypes.CDLL(str(library)).bare_decode


def measure(name: str, bare: Any, options: Any) -> list[dict[str, Any]]:
    kind = KINDS[name]
    images = pictures(kind, max(8, round(kind.count * options.scale)))
    runs, out = runs_of(kind, images, bare)
    check(kind, images, out, runs)
    rows = []
    for threads in options.threads:
        best = {who: float("inf") for who in runs}
        for _ in range(options.rounds):
            for who, run in runs.items():
                begin = time.perf_counter()
                run(threads)
                best[who] = min(best[who], time.perf_counter() - begin)
        speed = {who: len(images) / seconds for who, seconds in best.items()}
        size = sum(map(len, images)) // len(images)
        rows.append({"kind": name, "threads": threads, "bytes": size, **{w: round(s) for w, s in speed.items()}})
        cells = "".join(f"{speed[who]:>10,.0f}" if who in speed else f"{'':>10}" for who in WHO)
        share = f"{speed['core'] / speed['bare']:>11.2f}" if "bare" in speed else f"{'':>11}"
        print(f"{name:10}{threads:>8}{size:>8,}{cells}{share}{speed['core'] / speed['python']:>13.2f}", flush=True)
    return rows


WHO = ("bare", "core", "calls", "python")


def runs_of(kind: Kind, images: list[bytes], bare: Any) -> tuple[dict[str, Run], np.ndarray]:
    offsets = np.zeros(len(images) + 1, np.int64)
    np.cumsum([len(image) for image in images], out=offsets[1:])
    data = b"".join(images)
    size = (kind.target, kind.target) if kind.target else (kind.height, kind.width)
    shape, dtype = (len(images), *size, kind.channels), np.dtype(kind.dtype)
    memory: Any = _native.Pool(1).empty(int(np.prod(shape)) * dtype.itemsize)  # aligned, as batches are
    out = memory.view(dtype).reshape(shape)
    out[...] = 0
    painting = _native.Painting(rounds=kind.dtype == "uint8")

    def core(threads: int) -> None:
        refused = _native.decode_images(offsets, data, out, painting, threads=threads)
        assert not refused, refused[:1]

    def calls(threads: int) -> None:
        cuts = np.linspace(0, len(images), 4 * threads + 1).astype(int)

        def one(i: int) -> None:
            begin, end = cuts[i], cuts[i + 1]
            _native.decode_images(offsets[begin : end + 1].copy(), data, out[begin:end], painting)

        spread(one, 4 * threads, threads)

    def python(threads: int) -> None:
        def one(i: int) -> None:
            pixels = decode_without_core(images[i], kind.channels)
            out[i] = resize_pixels(pixels, *out.shape[1:3], out.dtype) if kind.target else pixels

        spread(one, len(images), threads)

    def alone(threads: int) -> None:
        bare(data, offsets.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), ctypes.c_int64(len(images)), threads)

    runs: dict[str, Run] = {"core": core, "calls": calls, "python": python}
    return ({"bare": alone, **runs} if bare is not None and kind.form == "JPEG" else runs), out


def spread(work: Callable[[int], None], count: int, threads: int) -> None:
    if threads == 1:
        for i in range(count):
            work(i)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: [work(i) for i in part], np.array_split(np.arange(count), threads)))


def check(kind: Kind, images: list[bytes], out: np.ndarray, runs: dict[str, Run]) -> None:
    """Refuse to measure what gives other values."""
    runs["python"](1)
    expected = out.copy()
    out[...] = 0
    runs["core"](1)
    assert np.array_equal(out, expected), f"core and python differ for {len(images)} {kind.form}"


def pictures(kind: Kind, count: int) -> list[bytes]:
    """As large, and as hard to pack, as photos are: light and shade at every scale, and a little noise."""
    made = []
    for number in range(min(count, 64)):
        rng = np.random.default_rng(number)
        image = np.zeros((kind.height, kind.width, kind.channels), np.float32)
        for cells in (2, 4, 8, 16, 32, 64):
            coarse = rng.normal(0, 60 / cells**0.5, (cells, cells, kind.channels)).astype(np.float32)
            image += _native.resize_floats(coarse, kind.height, kind.width, False, _native.Kernel.BICUBIC)
        image += 128 + rng.normal(0, 2, image.shape)
        pixels = np.clip(image, 0, 255).astype(np.uint8)
        file = io.BytesIO()
        options = {"quality": 90} if kind.form == "JPEG" else {}
        Image.fromarray(pixels[..., 0] if kind.channels == 1 else pixels).save(file, kind.form, **options)
        made.append(file.getvalue())
    return [made[number % len(made)] for number in range(count)]


if __name__ == "__main__":
    main()
