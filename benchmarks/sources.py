"""How fast each source reads, next to the library whose format it is; both deliver every value as arrays or bytes.

python benchmarks/sources.py                  all, at full size
python benchmarks/sources.py csv flac         only these
python benchmarks/sources.py --scale 0.1 --rounds 3

`ratio` is the time of the library divided by ours: the rounds alternate, and the best of each counts. `of cores` is the
same for the time of processors, which a busy machine changes less. `open` is what it takes to open the source on top
(types, names, sizes), which the libraries do while they read. `peak` is the memory that reading takes, RssAnon beyond
what was taken before, in a process of its own; `peak x4` the same for four times as much data.
"""

import argparse
import io
import json
import multiprocessing
import os
import resource
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from table import settings, show

from bushel import sources

Make = Callable[[Path, int], Path]
CASES: dict[str, "Case"] = {}
RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    rows: int  # at full size
    make: Make
    ours: Callable[[Path], Any]  # opens the source
    theirs: Callable[[Path], Iterator[Any]]  # reads everything
    library: str


def case(name: str, rows: int, library: str, ours: Callable[[Path], Any]) -> Callable[[Any], Any]:
    """Declare a pair of functions, made by a class: `make` and `theirs`."""

    def register(pair: Any) -> Any:
        CASES[name] = Case(rows, pair.make, ours, pair.theirs, library)
        return pair

    return register


def table(rows: int) -> dict[str, Any]:
    words = np.array(["setosa", "versicolor", "virginica"])
    return {
        **{f"x{number}": RANDOM.normal(size=rows).astype(np.float32) for number in range(8)},
        **{f"n{number}": RANDOM.integers(0, 10**6, rows) for number in range(4)},
        "species": words[RANDOM.integers(0, 3, rows)],
        "note": np.array([f"row {number} of many" for number in range(rows)]),
    }


def columns_of(found: Any) -> Iterator[Any]:
    """Arrow's columns as arrays; text stays in Arrow's own buffers, as it stays in one buffer here."""
    for name in found.column_names:
        column = found[name]
        yield column.to_numpy() if column.type not in ("string", "large_string") else column.combine_chunks()


@case("csv", 400_000, "pyarrow.csv", sources.table)
class Csv:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import pyarrow as pa
        from pyarrow import csv

        csv.write_csv(pa.table(table(rows)), folder / "rows.csv")
        return folder / "rows.csv"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        from pyarrow import csv

        yield from columns_of(csv.read_csv(path))


@case("csv (pandas)", 400_000, "pandas", sources.table)
class CsvByPandas:
    make = Csv.make

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import pandas as pd

        frame = pd.read_csv(path)
        yield from (frame[name].to_numpy() for name in frame)


@case("json lines", 200_000, "pyarrow.json", sources.table)
class JsonLines:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import pyarrow as pa

        lines = (json.dumps(row) for row in pa.table(table(rows)).to_pylist())
        (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
        return folder / "rows.jsonl"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        from pyarrow import json as arrow_json

        yield from columns_of(arrow_json.read_json(path))


@case("parquet", 1_000_000, "pyarrow.parquet", sources.table)
class Parquet:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(table(rows)), folder / "rows.parquet", row_group_size=100_000)
        return folder / "rows.parquet"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import pyarrow.parquet as pq

        yield from columns_of(pq.read_table(path))


@case("arrow", 1_000_000, "pyarrow.ipc", sources.table)
class Arrow:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import pyarrow as pa

        found = pa.table(table(rows))
        with pa.ipc.new_file(folder / "rows.arrow", found.schema) as file:
            file.write_table(found, max_chunksize=100_000)
        return folder / "rows.arrow"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import pyarrow as pa

        with path.open("rb") as file:
            yield from columns_of(pa.ipc.open_file(file).read_all())


@case("excel", 20_000, "openpyxl", sources.excel)
class Excel:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import openpyxl

        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet("rows")
        found = table(rows)
        sheet.append(list(found))
        for row in zip(*(column.tolist() for column in found.values()), strict=True):
            sheet.append(row)
        book.save(folder / "rows.xlsx")
        return folder / "rows.xlsx"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import openpyxl

        rows = openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
        next(rows)
        yield from (np.array(column) for column in zip(*rows, strict=True))


@case("sqlite", 300_000, "sqlite3", sources.sql)
class Sqlite:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        found = table(rows)
        with sqlite3.connect(folder / "rows.db") as database:
            database.execute(f"CREATE TABLE rows ({', '.join(found)})")
            values = zip(*(column.tolist() for column in found.values()), strict=True)
            database.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(found))})", values)
        return folder / "rows.db"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        rows = sqlite3.connect(path).execute("SELECT * FROM rows").fetchall()
        yield from (np.array(column) for column in zip(*rows, strict=True))


def pictures(rows: int) -> dict[str, Any]:
    return {"x": RANDOM.integers(0, 256, (rows, 28, 28), dtype=np.uint8), "y": RANDOM.integers(0, 10, rows)}


@case("hdf5", 100_000, "h5py", sources.arrays)
class Hdf5:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import h5py

        with h5py.File(folder / "arrays.h5", "w") as file:
            for name, values in pictures(rows).items():
                file.create_dataset(name, data=values, chunks=(1000, *values.shape[1:]), compression="gzip")
        return folder / "arrays.h5"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import h5py

        with h5py.File(path) as file:
            yield from (file[name][:] for name in file)


@case("npz", 200_000, "numpy", lambda path: sources.arrays(path, types={"x": "uint8"}))
class Npz:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        np.savez(folder / "arrays.npz", **pictures(rows))
        return folder / "arrays.npz"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        with np.load(path) as file:
            yield from (file[name] for name in file)


@case("npz, compressed", 100_000, "numpy", lambda path: sources.arrays(path, types={"x": "uint8"}))
class CompressedNpz:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        np.savez_compressed(folder / "arrays.npz", **pictures(rows))
        return folder / "arrays.npz"

    theirs = Npz.theirs


def sounds(folder: Path, rows: int, suffix: str) -> Path:
    import soundfile

    time = np.arange(32_000) / 16_000
    for number in range(rows):
        path = folder / "sounds" / f"{number % 4}" / f"{number}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        voice = np.sin(2 * np.pi * RANDOM.uniform(90, 900) * time) * np.hanning(len(time)) * 0.5
        soundfile.write(path, voice + RANDOM.normal(size=len(time)) * 0.01, 16_000)
    return folder / "sounds"


def heard(path: Path) -> Iterator[Any]:
    import soundfile

    for file in sorted(path.rglob("*.*")):
        yield soundfile.read(file, dtype="int16")[0]


@case("wav", 1000, "soundfile", sources.audio)
class Wav:
    make = staticmethod(lambda folder, rows: sounds(folder, rows, "wav"))
    theirs = staticmethod(heard)


@case("flac", 500, "soundfile", sources.audio)
class Flac:
    make = staticmethod(lambda folder, rows: sounds(folder, rows, "flac"))
    theirs = staticmethod(heard)


@case("ogg", 300, "soundfile", sources.audio)
class Ogg:
    make = staticmethod(lambda folder, rows: sounds(folder, rows, "ogg"))
    theirs = staticmethod(heard)


def photo(side: int = 256) -> bytes:
    from PIL import Image

    coarse = RANDOM.integers(0, 256, (side // 16, side // 16, 3)).astype(np.uint8)
    image = Image.fromarray(np.kron(coarse, np.ones((16, 16, 1), np.uint8)))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90)
    return out.getvalue()


@case("webdataset", 3000, "tarfile and json", lambda path: sources.webdataset(path, verify="headers"))
class Tars:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        images = [photo() for _ in range(50)]
        with tarfile.open(folder / "shard-000.tar", "w") as tar:
            for number in range(rows):
                told = json.dumps({"width": 256, "source": f"camera {number % 7}"}).encode()
                for suffix, data in (("jpg", images[number % 50]), ("cls", b"%d" % (number % 10)), ("json", told)):
                    member = tarfile.TarInfo(f"{number:06d}.{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        return folder / "shard-000.tar"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        with tarfile.open(path, "r|") as tar:  # as the webdataset package reads
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                data = file.read()
                yield json.loads(data) if member.name.endswith("json") else data


@case("hugging face", 500_000, "datasets", sources.huggingface)
class HuggingFace:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import datasets

        found = {name: values.tolist() for name, values in table(rows).items()}
        datasets.Dataset.from_dict(found).save_to_disk(str(folder / "saved"))
        return folder / "saved"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import datasets

        for batch in datasets.load_from_disk(str(path)).with_format("numpy").iter(10_000):
            yield from batch.values()


@case("images", 1500, "Pillow", sources.images)
class Images:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        images = [photo() for _ in range(50)]
        for number in range(rows):
            path = folder / "photos" / f"{number % 4}" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(images[number % 50])
        return folder / "photos"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        from PIL import Image

        for file in sorted(path.rglob("*.jpg")):
            data = file.read_bytes()
            with Image.open(io.BytesIO(data)) as image:
                image.load()  # as verify="decode" does
            yield data


@case("video", 6, "PyAV", lambda path: sources.video(path, frames=8, form="jpeg"))
class Video:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import av

        (folder / "clips" / "a").mkdir(parents=True)
        for number in range(rows):
            with av.open(str(folder / "clips" / "a" / f"{number}.mp4"), "w") as container:
                stream = container.add_stream("mpeg4", rate=24)
                stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
                base = np.kron(RANDOM.integers(0, 256, (15, 20, 3)), np.ones((16, 16, 1))).astype(np.uint8)
                for shift in range(96):
                    frame = av.VideoFrame.from_ndarray(np.roll(base, 2 * shift, axis=1), format="rgb24")
                    container.mux(stream.encode(frame))
                container.mux(stream.encode(None))
        return folder / "clips"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import av
        import simplejpeg

        for file in sorted(path.rglob("*.mp4")):
            with av.open(str(file)) as container:
                for frame in container.decode(video=0):
                    yield simplejpeg.encode_jpeg(frame.to_ndarray(format="rgb24"), 90, colorsubsampling="420")


@case("text files", 5000, "open", sources.text)
class Texts:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        for number in range(rows):
            path = folder / "texts" / f"{number % 4}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("the quick brown fox jumps over the lazy dog\n" * 30)
        return folder / "texts"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        yield from (file.read_text(encoding="utf-8") for file in sorted(path.rglob("*.txt")))


@case("tfrecord", 200_000, "tf.data", sources.records)
class Records:
    @staticmethod
    def make(folder: Path, rows: int) -> Path:
        import bushel

        with bushel.Writer(folder / "rows.tfrecord") as writer:
            for start in range(0, rows, 10_000):
                count = min(10_000, rows - start)
                x = RANDOM.normal(size=(count, 16)).astype(np.float32)
                writer.write_batch({"x": x, "y": RANDOM.integers(0, 10, count)})
        return folder / "rows.tfrecord"

    @staticmethod
    def theirs(path: Path) -> Iterator[Any]:
        import tensorflow as tf

        spec = {"x": tf.io.FixedLenFeature([16], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
        found = tf.data.TFRecordDataset(str(path)).batch(1024).map(lambda records: tf.io.parse_example(records, spec))
        for batch in found.as_numpy_iterator():
            yield from batch.values()


def opened(one: Case, path: Path) -> Any:
    source = one.ours(path)
    source.schema()
    return source


def read_ours(source: Any) -> int:
    """Read everything, as a build with one worker does; the number of rows."""
    rows = 0
    for partition in range(source.partitions()):
        wanted = None
        if source.reads == "random":
            wanted = np.arange(len(source.list(partition, []).keys))
        for block in source.read(partition, wanted):
            assert not block.refused, block.refused[:1]
            rows += len(block.rows)
    return rows


class Took(NamedTuple):
    seconds: float
    cores: float  # seconds of processors, of all threads


def timed(call: Callable[[], Any]) -> tuple[Took, Any]:
    begun, worked = time.perf_counter(), time.process_time()
    result = call()
    return Took(time.perf_counter() - begun, time.process_time() - worked), result


def best(takes: list[Took]) -> Took:
    return Took(min(took.seconds for took in takes), min(took.cores for took in takes))


def drain(values: Iterator[Any]) -> None:
    for _ in values:
        pass


def compare(name: str, options: argparse.Namespace, folder: Path) -> dict[str, object]:
    one = CASES[name]
    rows = max(4, round(one.rows * options.scale))
    path = one.make(folder, rows)
    ours: list[Took] = []
    theirs: list[Took] = []
    opening: list[Took] = []
    for _ in range(options.rounds):
        took, source = timed(lambda: opened(one, path))
        opening.append(took)
        read_in, _ = timed(lambda source=source: read_ours(source))
        # Arrays are loaded when they are opened, so opening counts.
        before = took if name.startswith(("hdf5", "npz")) else Took(0, 0)
        ours.append(Took(read_in.seconds + before.seconds, read_in.cores + before.cores))
        theirs.append(timed(lambda: drain(one.theirs(path)))[0])
    read = read_ours(one.ours(path))
    peaks = [peak_of(name, folder, rows * times) for times in (1, 4)] if options.memory else [None, None]
    return {
        "source": name,
        "library": one.library,
        "rows": read,
        "ours/s": round(read / best(ours).seconds),
        "library/s": round(read / best(theirs).seconds),
        "ratio": round(best(theirs).seconds / best(ours).seconds, 2),
        "of cores": round(best(theirs).cores / max(best(ours).cores, 1e-4), 2),
        "open s": round(best(opening).seconds, 3),
        "peak MB": peaks[0],
        "peak x4 MB": peaks[1],
    }


def peak_of(name: str, folder: Path, rows: int) -> int:
    """What reading takes in a process of its own."""
    below = folder / f"of_{rows}"
    below.mkdir()
    path = CASES[name].make(below, rows)
    command = [sys.executable, __file__, "--child", name, str(path)]
    return round(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def anonymous_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0.0


def watch(name: str, path: Path) -> None:
    """Print the most memory that reading took, in MiB."""
    CASES[name].ours(path)  # imports what it needs
    before, most, done = anonymous_megabytes(), [0.0], threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            most[0] = max(most[0], anonymous_megabytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    read_ours(CASES[name].ours(path))
    done.set()
    watcher.join()
    print(max(0.0, max(most[0], anonymous_megabytes()) - before))


def build_sounds(suffix: str, options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """A build of sound files on two cores, next to two processes that read with soundfile and write TFRecords."""
    import bushel

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    files = max(8, round(3000 * options.scale))
    path = sounds(folder, files, suffix)
    half = sorted(path.rglob("*.*"))
    ours, theirs = [], []
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(write_sounds, [[], []], [folder / "a", folder / "b"]))  # imports take no part
        for number in range(options.rounds):
            before = cores_used()
            took, _ = timed(lambda number=number: bushel.build(path, folder / f"out{number}"))
            ours.append(Took(took.seconds, cores_used() - before))
            outs = [folder / "a", folder / "b"]
            took, used = timed(lambda outs=outs: list(pool.map(write_sounds, [half[::2], half[1::2]], outs)))
            theirs.append(Took(took.seconds, sum(used)))
    return {
        "build of": suffix,
        "files": files,
        "ours/s": round(files / best(ours).seconds),
        "two processes/s": round(files / best(theirs).seconds),
        "ratio": round(best(theirs).seconds / best(ours).seconds, 2),
        "of cores": round(best(theirs).cores / best(ours).cores, 2),
    }


def cores_used() -> float:
    """Seconds of processors, of this process and of the workers that have ended."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def write_sounds(files: list[Path], out: Path) -> float:
    """Read files with soundfile and write them as Examples; the seconds of the processor that it took."""
    import soundfile
    import tensorflow as tf

    begun = time.process_time()
    with tf.io.TFRecordWriter(str(out)) as writer:
        for file in files:
            samples, rate = soundfile.read(file, dtype="int16")
            values = {"audio": samples.tobytes(), "label": file.parent.name.encode(), "key": file.name.encode()}
            features = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v])) for name, v in values.items()}
            features["rate"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[rate]))
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)} [default: all]")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="measure no memory")
    parser.add_argument("--build", action="store_true", help="build sound files, next to two processes with soundfile")
    parser.add_argument("--json", type=Path, help="write the table here too")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        watch(options.child[0], Path(options.child[1]))
        return
    if unknown := sorted(set(options.names) - set(CASES)):
        parser.error(f"there is no source {unknown[0]!r} here")
    rows = []
    for suffix in ("wav", "flac") if options.build else ():
        with tempfile.TemporaryDirectory() as folder:
            rows.append(build_sounds(suffix, options, Path(folder)))
    for name in options.names or ([] if options.build else CASES):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(compare(name, options, Path(folder)))
            print(rows[-1], file=sys.stderr, flush=True)
    facts = settings(scale=options.scale, rounds=options.rounds)
    show("Reading each source, next to its own library", facts, rows, json_path=options.json)


if __name__ == "__main__":
    main()
