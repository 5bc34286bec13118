"""How fast a folder of JPEGs becomes small JPEGs in TFRecords, beside the scripts that people write.

    python benchmarks/prepare_images.py                     10,000 photos of 512 x 384 to 224 x 224, with both kernels
    python benchmarks/prepare_images.py --count 1000 --kernels area --rounds 5

Rivals, on as many processes:
  copied   Pool.map of cv2.resize that returns float arrays, all of them held; then JPEG and tf.train.Example
  pool     workers that return JPEG bytes through imap_unordered; a process that writes tf.train.Example

All read the same files, resize with the same kernel, and store JPEGs of the same quality, of which the number, the size
and the difference in pixels are compared. Imports are not timed, starting processes is. bushel also plans, indexes and
reads back what it wrote. Ratios are of the same run.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from build import Memory

from bushel.parallel import available_cores

SIZE, QUALITY = 224, 90
KERNELS = {"area": "INTER_AREA", "bilinear": "INTER_LINEAR"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="take the best of so many, in turns")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--folder", type=Path, default=Path("/tmp/bushel-bench-prepare"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE too")
    parser.add_argument("--run", nargs=4, metavar=("WHO", "PHOTOS", "OUT", "KERNEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        who, photos, out, kernel = options.run
        print(*RUNS[who](Path(photos), Path(out), kernel, options.workers))
        return
    photos = make_photos(options.folder / f"photos-{options.count}", options.count)
    for path in photos.rglob("*.jpg"):
        path.read_bytes()  # so that the first does not pay for the disk
    found = {kernel: compare(photos, kernel, options) for kernel in options.kernels}
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))


def compare(photos: Path, kernel: str, options: Any) -> dict[str, Any]:
    print(f"\n== {options.count:,} photos to {SIZE} x {SIZE}, {kernel}, {options.workers} processes")
    seconds: dict[str, float] = {}
    used: dict[str, float] = {}
    memory: dict[str, int] = {}
    for _ in range(options.rounds):
        for who in RUNS:
            took, cost, most = measure(who, photos, options.folder / f"out-{who}", kernel, options.workers)
            seconds[who] = min(took, seconds.get(who, took))
            used[who] = min(cost, used.get(who, cost))
            memory[who] = max(most, memory.get(who, 0))
    for who, took in seconds.items():
        each = f"{1000 * used[who] / options.count:.2f} ms of processor an image"
        print(f"   {who:8} {options.count / took:8,.0f} images/s   {each}   {memory[who] / 1e6:6,.0f} MB of memory")
    facts = same_output(options.folder, options.count)
    ratios = {who: seconds[who] / seconds["bushel"] for who in ("copied", "pool")}
    print(f"   bushel / copied {ratios['copied']:.2f} (at least 2)   bushel / pool {ratios['pool']:.2f} (at least 1.2)")
    for who, told in facts.items():
        print(f"   {who}: {told['mean_bytes']:,.0f} bytes an image, {told['difference']:.2f} levels from bushel's")
    return {"seconds": seconds, "processor": used, "memory": memory, "ratios": ratios, "output": facts}


def measure(who: str, photos: Path, out: Path, kernel: str, workers: int) -> tuple[float, float, int]:
    """Seconds and processor seconds that a process says it took, and the memory of all its processes."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, __file__, "--workers", str(workers), "--run", who, photos, out, kernel]
    with Memory() as watched:
        done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    took, used = map(float, done.stdout.split()[-2:])
    return took, used, watched.most


def same_output(folder: Path, count: int, *names: str) -> dict[str, dict[str, float]]:
    """Compare what all, or those named, wrote: as many images, of the same size, and nearly the same pixels."""
    import bushel
    from bushel.pixels.codecs import decode_pixels

    written = {}
    for who in names or RUNS:
        columns = bushel.read(sorted((folder / f"out-{who}").glob("*.tfrecord")), ["image", "key"])
        written[who] = dict(zip(columns["key"], columns["image"], strict=True))
        assert len(written[who]) == count, f"{who} wrote {len(written[who])} of {count} images"
    keys = sorted(written["bushel"])[:: max(1, count // 200)]
    facts = {}
    for who, images in written.items():
        mean = float(np.mean([len(image) for image in images.values()]))
        apart = []
        for key in keys:
            mine, theirs = decode_pixels(written["bushel"][key]), decode_pixels(images[key])
            assert theirs.shape == (SIZE, SIZE, 3), f"{who} wrote an image of {theirs.shape}"
            apart.append(np.abs(mine.astype(int) - theirs).mean())
        facts[who] = {"mean_bytes": mean, "difference": float(np.mean(apart))}
        assert facts[who]["difference"] < 2, f"{who}: {facts[who]}"
        assert abs(mean / facts["bushel"]["mean_bytes"] - 1) < 0.03, f"{who}: {facts}"
    return facts


class Clock:
    """Seconds on the wall, and of all processors by this process and those that it has waited for."""

    def __init__(self) -> None:
        self.begun, self.used = time.perf_counter(), _processor_seconds()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.begun, _processor_seconds() - self.used


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def run_bushel(photos: Path, out: Path, kernel: str, workers: int) -> tuple[float, float]:
    import bushel
    from bushel import sources
    from bushel import transforms as t

    small = t.resize_encoded(
        "image", SIZE, SIZE, quality=QUALITY, form="jpeg", kernel=kernel, antialias=kernel == "area"
    )
    run, build = bushel.Run(workers=workers), bushel.build
    clock = Clock()
    build(sources.images(photos, verify="headers"), out, transforms=[small], run=run)
    return clock.read()


def run_copied(photos: Path, out: Path, kernel: str, workers: int) -> tuple[float, float]:
    """All results are held, as floats, in the process that then encodes and writes them."""
    from multiprocessing import Pool

    import cv2
    import tensorflow as tf

    clock = Clock()
    paths = sorted(photos.rglob("*.jpg"))
    with Pool(workers) as pool:
        arrays = pool.map(resize_to_floats, [(str(path), kernel) for path in paths])
        pool.close()
        pool.join()
    out.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(out / "train.tfrecord")) as writer:
        for path, array in zip(paths, arrays, strict=True):
            pixels = (array * 255).round().astype(np.uint8)
            data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()
            writer.write(example(data, str(path.relative_to(photos)), path.parent.name))
    return clock.read()


def run_pool(photos: Path, out: Path, kernel: str, workers: int) -> tuple[float, float]:
    """Workers return bytes, a few at a time, and nothing is held."""
    from multiprocessing import Pool

    import cv2  # noqa: F401 (workers have it from here)
    import tensorflow as tf

    clock = Clock()
    out.mkdir(parents=True)
    paths = [(str(path), kernel, str(path.relative_to(photos))) for path in sorted(photos.rglob("*.jpg"))]
    with Pool(workers) as pool, tf.io.TFRecordWriter(str(out / "train.tfrecord")) as writer:
        for data, key in pool.imap_unordered(resize_to_jpeg, paths, chunksize=32):
            writer.write(example(data, key, key.split("/")[0]))
        pool.close()
        pool.join()
    return clock.read()


RUNS = {"bushel": run_bushel, "copied": run_copied, "pool": run_pool}


def resize_to_floats(given: tuple[str, str]) -> Any:
    import cv2

    cv2.setNumThreads(1)
    path, kernel = given
    resized = cv2.resize(cv2.imread(path), (SIZE, SIZE), interpolation=getattr(cv2, KERNELS[kernel]))
    return resized.astype(np.float32) / 255


def resize_to_jpeg(given: tuple[str, str, str]) -> tuple[bytes, str]:
    import cv2

    cv2.setNumThreads(1)
    path, kernel, key = given
    resized = cv2.resize(cv2.imread(path), (SIZE, SIZE), interpolation=getattr(cv2, KERNELS[kernel]))
    return cv2.imencode(".jpg", resized, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes(), key


def example(data: bytes, key: str, label: str) -> bytes:
    import tensorflow as tf

    def of_bytes(value: bytes) -> Any:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def of_int(value: int) -> Any:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    features = {
        "image": of_bytes(data),
        "image/height": of_int(SIZE),
        "image/width": of_int(SIZE),
        "image/channels": of_int(3),
        "label": of_int(int(label.rpartition("-")[2])),
        "key": of_bytes(key.encode()),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def make_photos(folder: Path, count: int) -> Path:
    """JPEGs of 512 x 384 and about 50 kB in ten folders: 200 pictures, and a comment that tells copies apart."""
    if folder.exists():
        return folder
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for kind in range(10):
        (partial / f"class-{kind}").mkdir(parents=True)
    pictures = [picture(number) for number in range(min(count, 200))]
    for number in range(count):
        data, text = pictures[number % len(pictures)], f"{number:012d}".encode()
        comment = b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text
        (partial / f"class-{number % 10}" / f"{number:06d}.jpg").write_bytes(data[:2] + comment + data[2:])
    partial.rename(folder)
    return folder


def picture(number: int) -> bytes:
    """Shades, edges and noise, as photos have."""
    import cv2

    draw = np.random.default_rng(number)
    rough = draw.integers(0, 256, (12, 16, 3), np.uint8)
    shades = cv2.resize(rough, (512, 384), interpolation=cv2.INTER_CUBIC).astype(float)
    pixels = np.clip(shades + draw.normal(0, 6, shades.shape), 0, 255).astype(np.uint8)
    for _ in range(6):
        middle = tuple(int(side) for side in draw.integers(40, 340, 2))
        colour = tuple(int(level) for level in draw.integers(0, 256, 3))
        cv2.circle(pixels, middle, int(draw.integers(10, 60)), colour, -1, cv2.LINE_AA)
    return bytes(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())


if __name__ == "__main__":
    main()
