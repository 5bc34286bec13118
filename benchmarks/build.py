"""How fast a build is beside the script that people write, `cp` and bare decoding, and how much memory it takes.

    python benchmarks/build.py                 all questions, at a tenth of full size
    python benchmarks/build.py images --scale 1
    python benchmarks/build.py memory --scale 1

Ratios are of the same run on the same machine, and what is compared must have made the same samples. Data is made once,
in --folder, and kept, but for the 20 GB of `memory`.

Before each timing of images and tables as much memory is touched as the build takes: a virtual machine gives free
memory back to its host, and pays several times as much for its next use, whoever uses it. It does so during a run too:
writing 134 MB to the page cache took 35 ms or 180 ms here, and a build of images 4.1 s or 5.7 s; so the script and the
build of images take turns, and the best of each counts. Modules are compiled before, as pip does.
"""

import argparse
import compileall
import mmap
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel import Recipe, Run, sources
from bushel.parallel import available_cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", default=["images", "tables", "workers", "plan", "memory"])
    parser.add_argument("--scale", type=float, default=0.1, help="share of the full size")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/bushel-bench-build"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    compileall.compile_dir(str(Path(bushel.__file__).parent), quiet=2)
    for question in options.questions:
        print(f"\n== {question}, scale {options.scale:g}, {available_cores()} cores")
        QUESTIONS[question](options.folder, options.scale)


LARGEST = 6 << 30  # bytes that a build of full size takes of memory, most of it for files


def images(folder: Path, scale: float) -> None:
    touched = int(LARGEST * scale)
    count = int(100_000 * scale)
    photos = make_photos(folder / f"photos-{count}", count)
    size = sum(path.stat().st_size for path in photos.rglob("*.jpg"))
    warm(photos)
    script, headers = in_turns(
        count,
        {
            "usual script, not looking at images": lambda: usual_script(USUAL, folder, photos),
            "bushel, --verify headers": lambda: build(lambda: sources.images(photos, verify="headers"), folder),
        },
        touched=touched,
    )
    theirs = folder / "script.tfrecord"
    copy = timed("cp -r and sync", count, lambda: copy_and_sync(photos, folder / "copy"), touched=touched)
    cores = available_cores()
    bare = timed(f"bare decoding, {cores} processes", count, lambda: decode_all(photos, cores), touched=touched)
    decode = timed(
        "bushel, --verify decode",
        count,
        lambda: build(lambda: sources.images(photos, verify="decode"), folder),
        touched=touched,
    )
    same = check_same(SAME_IMAGES, theirs, folder / "out")
    print(f"   tf.data finds the same {same:,} samples in what both wrote")
    print(f"   {size / count / 1000:.1f} kB an image")
    ratio("headers / script (at least 1.5)", script / headers)
    ratio("headers / cp and sync (at least 0.6)", copy / headers)
    ratio("decode / bare decoding (at least 0.9)", bare / decode)


def tables(folder: Path, scale: float) -> None:
    touched = int(LARGEST * scale)
    rows = int(5_000_000 * scale)
    parquet, csv = make_tables(folder, rows)
    warm(folder)
    some = min(rows, 50_000)
    script = timed(
        f"usual script, {some:,} rows", some, lambda: usual_script(USUAL_TABLE, folder, csv, some), touched=touched
    )
    per_row = script / some
    for path, least in ((parquet, 30), (csv, 15)):
        seconds = timed(
            f"bushel, {path.suffix}, shuffled",
            rows,
            lambda path=path: build(lambda: sources.table(path), folder),
            touched=touched,
        )
        ratio(f"{path.suffix} / script (at least {least})", per_row * rows / seconds)
        same = check_same(SAME_ROWS, folder / "script.tfrecord", folder / "out")
        print(f"   tf.data finds the same {same:,} samples in what both wrote")


@dataclass(frozen=True)
class Smooth:
    """A transform that costs CPU."""

    rounds: int = 40

    def apply(self, sample: dict[str, Any], _draw: Any) -> dict[str, Any]:
        """Smooth the feature `x`."""
        values = np.asarray(sample["x"], np.float32)
        for _ in range(self.rounds):
            values = np.convolve(values, [0.25, 0.5, 0.25], mode="same").astype(np.float32)
        return {**sample, "x": values}


def workers(folder: Path, scale: float) -> None:
    rows = int(100_000 * scale)
    source = sources.arrays({"x": np.random.default_rng(0).normal(size=(rows, 256)).astype(np.float32)})
    seconds = {
        count: timed(
            f"transform, {count} worker{'s' * (count > 1)}",
            rows,
            lambda count=count: build(lambda: source, folder, workers=count, transforms=[Smooth()], shards=16),
        )
        for count in (1, 2)
    }
    ratio("two workers / one (at least 1.7)", seconds[1] / seconds[2])


def plan(folder: Path, scale: float) -> None:
    parquet, _ = make_tables(folder, int(10_000_000 * scale), csv=False)
    files = make_empty_files(folder / f"files-{int(1_000_000 * scale)}", int(1_000_000 * scale))
    for what, path in (("rows of Parquet", parquet), ("files in folders", files)):
        with Memory() as memory:
            count = 0

            def do(path: Path = path) -> None:
                nonlocal count
                count = bushel.plan(path, Recipe(split="80/10/10")).samples

            seconds = timed(f"plan, {what}", 1, do)
        print(f"   {count:,} samples, {seconds:.1f} s (at most 60), {memory.most / 1e6:.0f} MB (at most 1000)")


def memory(folder: Path, scale: float) -> None:
    rows, width = int(20e9 * scale / 4 / 25_000), 25_000
    path = folder / f"wide-{rows}.npy"
    if not path.exists():
        array = np.lib.format.open_memmap(path, "w+", np.float32, (rows, width))
        for begin in range(0, rows, 1000):
            array[begin : begin + 1000] = np.random.default_rng(begin).normal(size=array[begin : begin + 1000].shape)
        array.flush()
    with Memory() as watched:
        seconds = timed("bushel, 2 workers", rows, lambda: build(lambda: sources.arrays(path), folder, workers=2))
    path.unlink()
    size = rows * width * 4
    print(f"   {size / 1e9:.1f} GB at {size / seconds / 1e6:.0f} MB/s, {watched.most / 1e6:.0f} MB (at most 1000)")


QUESTIONS: dict[str, Callable[[Path, float], None]] = {
    "images": images,
    "tables": tables,
    "workers": workers,
    "plan": plan,
    "memory": memory,
}


def build(source: Callable[[], Any], folder: Path, *, workers: int | None = None, **options: Any) -> float:
    """Open a source and build from it; the seconds of that, without removing what was there."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    begun = time.perf_counter()
    bushel.build(source(), out, run=Run(workers=workers), **options)
    return time.perf_counter() - begun


def timed(what: str, count: int, do: Callable[[], float | None], *, touched: int = 0) -> float:
    """Seconds that it took, by its own account if it gives one; so many bytes of memory are touched before."""
    os.sync()
    touch(touched)
    begun = time.perf_counter()
    own = do()
    seconds = own or time.perf_counter() - begun
    print(f"   {what:45} {seconds:8.2f} s {count / seconds:12,.0f}/s", flush=True)
    return seconds


def in_turns(
    count: int, rivals: dict[str, Callable[[], float | None]], *, touched: int = 0, rounds: int = 2
) -> list[float]:
    """The best seconds of each: whoever comes next pays for memory that the host of this machine took back."""
    seconds = [[timed(what, count, do, touched=touched) for what, do in rivals.items()] for _ in range(rounds)]
    return [min(of_one) for of_one in zip(*seconds, strict=True)]


def touch(size: int) -> None:
    if not size:
        return
    with mmap.mmap(-1, size) as memory:
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1


def ratio(what: str, value: float) -> None:
    print(f"   {what:45} {value:8.2f} x", flush=True)


class Memory:
    """The most that this process and its children took: PSS less what is mapped from files."""

    def __enter__(self) -> "Memory":
        self.most, self._is_over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.1):
            self.most = max(self.most, sum(map(anonymous_pss, tree(os.getpid()))))


def tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def anonymous_pss(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines[1:]}
    return sizes.get("Pss_Anon", 0)


def make_photos(folder: Path, count: int) -> Path:
    """JPEGs of 256 x 256 and about 25 kB in ten folders: 2,000 pictures, and a comment that tells copies apart."""
    if folder.exists():
        return folder
    import simplejpeg

    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    rng = np.random.default_rng(0)
    waves = [np.add.outer(np.sin(np.arange(256) / (8 + i)), np.cos(np.arange(256) / (5 + i))) for i in range(10)]
    noise = rng.normal(0, 9, (512, 512, 3)).astype(np.float32)
    pictures: list[bytes] = []
    for number in range(min(count, 2000)):
        y, x = rng.integers(0, 256, 2)
        pixels = (waves[number % 10] * 60 + 128)[..., None] + noise[y : y + 256, x : x + 256]
        pictures.append(simplejpeg.encode_jpeg(np.clip(pixels, 0, 255).astype(np.uint8), quality=86, colorspace="RGB"))
    for kind in range(10):
        (partial / f"class-{kind}").mkdir(parents=True)
    for number in range(count):
        picture, text = pictures[number % len(pictures)], f"{number:012d}".encode()
        comment = b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text
        (partial / f"class-{number % 10}" / f"{number:06d}.jpg").write_bytes(picture[:2] + comment + picture[2:])
    partial.rename(folder)
    return folder


def make_tables(folder: Path, rows: int, *, csv: bool = True) -> tuple[Path, Path]:
    """Twenty columns: floats, integers, text and a label."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    parquet, text = folder / f"rows-{rows}.parquet", folder / f"rows-{rows}.csv"
    if parquet.exists() and (text.exists() or not csv):
        return parquet, text
    rng = np.random.default_rng(0)
    schema, step = None, 500_000
    for begin in range(0, rows, step):
        count = min(step, rows - begin)
        columns: dict[str, Any] = {f"f{i}": rng.normal(size=count).astype(np.float32) for i in range(12)}
        columns |= {f"i{i}": rng.integers(0, 1000, count) for i in range(6)}
        columns |= {"label": pa.array(np.array(["cat", "dog", "bird"])[rng.integers(0, 3, count)])}
        columns |= {"name": pa.array([f"row-{number}" for number in range(begin, begin + count)])}
        part = pa.table(columns)
        if schema is None:
            schema = part.schema
            writers = [pq.ParquetWriter(parquet, schema)]
            writers += [pyarrow.csv.CSVWriter(text, schema)] if csv else []
        for writer in writers:
            writer.write_table(part)
    for writer in writers:
        writer.close()
    return parquet, text


def make_empty_files(folder: Path, count: int) -> Path:
    if not folder.exists():
        for number in range(count):
            path = folder / f"class-{number % 100:02d}" / f"{number:07d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(JPEG)
    return folder


def smallest_jpeg() -> bytes:
    import simplejpeg

    return bytes(simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8), quality=50, colorspace="RGB"))


JPEG = smallest_jpeg()


def warm(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.read_bytes()


# What both scripts print is how long they took after TensorFlow was loaded.
USUAL = """
import os, random, sys, time
import tensorflow as tf
out, photos = sys.argv[1:]
begun = time.perf_counter()
paths = []
for top, _, names in os.walk(photos):
    paths += [(os.path.join(top, name), int(os.path.basename(top)[-1])) for name in names]
random.shuffle(paths)
with tf.io.TFRecordWriter(out) as writer:
    for path, label in paths:
        with open(path, "rb") as file:
            data = file.read()
        feature = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
print(time.perf_counter() - begun)
"""

USUAL_TABLE = """
import csv, sys, time
import tensorflow as tf
out, path, rows = sys.argv[1:]
begun = time.perf_counter()
labels = {"bird": 0, "cat": 1, "dog": 2}
with open(path) as file, tf.io.TFRecordWriter(out) as writer:
    for number, row in enumerate(csv.DictReader(file)):
        if number == int(rows):
            break
        feature = {}
        for name, value in row.items():
            if name == "label":
                feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[labels[value]]))
            elif name == "name":
                feature[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
            elif name[0] == "i":
                feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
            else:
                feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
        writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
print(time.perf_counter() - begun)
"""


def usual_script(script: str, folder: Path, *arguments: object) -> float:
    out = folder / "script.tfrecord"
    command = [sys.executable, "-c", script, str(out), *map(str, arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check_same(program: str, theirs: Path, ours: Path) -> int:
    """Whether TensorFlow reads the same samples from both; how many."""
    command = [sys.executable, "-c", SAME + program, str(theirs), str(ours)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the datasets differ:\n{done.stderr[-2000:]}")
    shutil.rmtree(ours)
    return int(done.stdout)


SAME = """
import glob, sys
import numpy as np
import tensorflow as tf
theirs, ours = [sys.argv[1]], sorted(glob.glob(sys.argv[2] + "/*.tfrecord"))
def parsed(files, **kinds):
    spec = {name: tf.io.FixedLenFeature([], kind) for name, kind in kinds.items()}
    data = tf.data.TFRecordDataset(files).batch(4096).map(lambda records: tf.io.parse_example(records, spec))
    return data.prefetch(2).as_numpy_iterator()
"""

# Labels of the script are the numbers in the names of folders, which are in order: so are bushel's codes.
SAME_IMAGES = """
import hashlib
def digests(files):
    return sorted(
        (hashlib.blake2b(image, digest_size=16).digest(), int(label))
        for batch in parsed(files, image=tf.string, label=tf.int64)
        for image, label in zip(batch["image"], batch["label"])
    )
one, other = digests(theirs), digests(ours)
assert one == other, (len(one), len(other))
print(len(one))
"""

SAME_ROWS = """
kinds = {f"f{i}": tf.float32 for i in range(12)} | {f"i{i}": tf.int64 for i in range(6)}
kinds |= {"label": tf.int64, "name": tf.string}
def rows(files, most):
    kept = []
    for batch in parsed(files, **kinds):
        numbers = np.array([int(name[4:]) for name in batch["name"]])
        keep = numbers < most
        kept.append({name: values[keep] for name, values in batch.items()} | {"number": numbers[keep]})
    columns = {name: np.concatenate([part[name] for part in kept]) for name in kept[0]}
    return {name: values[np.argsort(columns["number"])] for name, values in columns.items()}
one = rows(theirs, 2**62)
other = rows(ours, len(one["number"]))
assert one["number"].tolist() == other["number"].tolist() == list(range(len(one["number"])))
for name in kinds:
    assert (one[name] == other[name]).all(), name
print(len(one["number"]))
"""


def copy_and_sync(photos: Path, out: Path) -> None:
    subprocess.run(["cp", "-r", str(photos), str(out)], check=True)
    os.sync()
    shutil.rmtree(out)


def decode_all(photos: Path, processes: int) -> float:
    """As fast as these processes decode, from when all of them are ready."""
    paths = sorted(str(path) for path in photos.rglob("*.jpg"))
    command = [sys.executable, "-c", DECODE]
    crew = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(processes)]
    for process in crew:
        assert process.stdout is not None
        process.stdout.readline()
    begun = time.perf_counter()
    for number, process in enumerate(crew):
        assert process.stdin is not None
        process.stdin.write("\n".join(paths[number::processes]).encode())
        process.stdin.close()
    assert all(process.wait() == 0 for process in crew)
    return time.perf_counter() - begun


DECODE = """
import sys
import simplejpeg
print(flush=True)
for path in sys.stdin.read().split("\\n"):
    with open(path, "rb") as file:
        simplejpeg.decode_jpeg(file.read())
"""


if __name__ == "__main__":
    main()
