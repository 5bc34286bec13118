"""Shuffled batches beside the formats made to replace TFRecord: python benchmarks/loaders.py [--records N].

Each reads the same samples (64 floats and a label) from its own files with the settings its documentation recommends,
in a process of its own, twice; the second run counts. All must give every sample once. A rival that is not installed
is named and left out. To install all: pip install grain array_record webdataset mosaicml-streaming tfrecord
"""

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 256
SHARDS = 4
WORKERS = 2


def samples(records: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).normal(size=(records, 64)).astype(np.float32), np.arange(records)


def shards(records: int) -> list[tuple[np.ndarray, np.ndarray]]:
    x, label = samples(records)
    return list(zip(np.array_split(x, SHARDS), np.array_split(label, SHARDS), strict=True))


def write_tfrecord(folder: Path, records: int) -> None:
    import bushel

    for number, (x, label) in enumerate(shards(records)):
        with bushel.Writer(folder / f"data-{number}.tfrecord") as writer:
            writer.write_batch({"x": x, "label": label})


def read_bushel(folder: Path) -> Iterable[Any]:
    import bushel

    data = bushel.open(sorted(folder.glob("*.tfrecord")))["all"]
    for batch in bushel.batches(data, batch_size=BATCH, order=bushel.Order(shuffle=True, seed=1)):
        yield batch["x"], batch["label"]


def read_tfrecord(folder: Path) -> Iterable[Any]:
    """Its generator in one thread, with its shuffle queue; batches are stacked here, as its loader would."""
    import random

    from tfrecord.iterator_utils import shuffle_iterator
    from tfrecord.reader import tfrecord_loader

    random.seed(1)
    description = {"x": "float", "label": "int"}
    pending = []
    for path in sorted(folder.glob("*.tfrecord")):
        for sample in shuffle_iterator(tfrecord_loader(str(path), None, description), 1024):
            pending.append(sample)
            if len(pending) == BATCH:
                yield stacked(pending)
                pending = []
    if pending:
        yield stacked(pending)


def stacked(pending: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([sample["x"] for sample in pending]), np.concatenate([sample["label"] for sample in pending])


def write_arrayrecord(folder: Path, records: int) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    for number, (x, label) in enumerate(shards(records)):
        writer = ArrayRecordWriter(str(folder / f"data-{number}.arrayrecord"), "group_size:1")
        for row in range(len(x)):
            writer.write(x[row].tobytes() + label[row].tobytes())
        writer.close()


def read_grain(folder: Path) -> Iterable[Any]:
    """A MapDataset with its global shuffle, and read threads as `to_iter_dataset` sets them by default."""
    import grain

    def parse(record: bytes) -> dict[str, np.ndarray]:
        return {"x": np.frombuffer(record, np.float32, 64), "label": np.frombuffer(record, np.int64, 1, 256)[0]}

    source = grain.sources.ArrayRecordDataSource([str(path) for path in sorted(folder.glob("*.arrayrecord"))])
    data = grain.MapDataset.source(source).shuffle(seed=1).map(parse).batch(BATCH, drop_remainder=False)
    for batch in data.to_iter_dataset():
        yield batch["x"], batch["label"]


def write_webdataset(folder: Path, records: int) -> None:
    import webdataset

    for number, (x, label) in enumerate(shards(records)):
        with webdataset.TarWriter(str(folder / f"data-{number}.tar")) as writer:
            for row in range(len(x)):
                writer.write({"__key__": f"{label[row]:09d}", "x.npy": x[row], "label.cls": int(label[row])})


def read_webdataset(folder: Path) -> Iterable[Any]:
    """Shards shuffled, a buffer of 1,000 samples, batches made in the workers of its loader."""
    import webdataset

    paths = [str(path) for path in sorted(folder.glob("*.tar"))]
    data = webdataset.WebDataset(paths, shardshuffle=SHARDS, seed=1, workersplitter=webdataset.split_by_worker)
    data = data.shuffle(1000).decode().to_tuple("x.npy", "label.cls").batched(BATCH)
    yield from webdataset.WebLoader(data, batch_size=None, num_workers=WORKERS)


def write_streaming(folder: Path, records: int) -> None:
    from streaming import MDSWriter

    x, label = samples(records)
    with MDSWriter(out=str(folder / "mds"), columns={"x": "ndarray:float32:64", "label": "int"}) as writer:
        for row in range(len(x)):
            writer.write({"x": x[row], "label": int(label[row])})


def read_streaming(folder: Path) -> Iterable[Any]:
    """Local shards, its default shuffle, in the workers of PyTorch's loader."""
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    data = StreamingDataset(local=str(folder / "mds"), shuffle=True, shuffle_seed=1, batch_size=BATCH)
    for batch in DataLoader(data, batch_size=BATCH, num_workers=WORKERS):
        yield batch["x"].numpy(), batch["label"].numpy()


RIVALS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "bushel": (write_tfrecord, read_bushel, ("bushel",)),
    "tfrecord (vahidk)": (write_tfrecord, read_tfrecord, ("tfrecord",)),
    "grain + ArrayRecord": (write_arrayrecord, read_grain, ("grain", "array_record")),
    "webdataset": (write_webdataset, read_webdataset, ("webdataset",)),
    "MosaicML streaming": (write_streaming, read_streaming, ("mosaicml-streaming",)),
}


def run_one(name: str, folder: Path, records: int) -> None:
    """Write once, read twice, check, and print the rate of the second time."""
    write, read, _ = RIVALS[name]
    write(folder, records)
    x, _ = samples(records)
    for _ in range(2):
        begin = time.perf_counter()
        batches = list(read(folder))
        seconds = time.perf_counter() - begin
        labels = np.concatenate([np.asarray(label).reshape(-1) for _, label in batches])
        values = np.concatenate([np.asarray(row) for row, _ in batches])
        assert np.array_equal(np.sort(labels), np.arange(records)), f"{name} did not give every sample once"
        assert np.array_equal(values, x[labels]), f"{name} gave other values"
    print(records / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        with tempfile.TemporaryDirectory() as folder:
            run_one(arguments.one, Path(folder), arguments.records)
        return
    print(f"{arguments.records:,} samples of 64 floats, {SHARDS} shards, batches of {BATCH}, shuffled")
    ours = 0.0
    for name, (_, _, packages) in RIVALS.items():
        try:
            versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
        except importlib.metadata.PackageNotFoundError as error:
            print(f"{name:<22} not installed ({error})")
            continue
        command = [sys.executable, __file__, "--one", name, "--records", str(arguments.records)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name:<22} failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        rate = float(done.stdout.split()[-1])
        ours = ours or rate
        settings = (RIVALS[name][1].__doc__ or "Threads as by default.").strip()
        print(f"{name:<22} {rate:>12,.0f} /s   bushel is {ours / rate:6.1f}x   [{versions}] {settings}", flush=True)


if __name__ == "__main__":
    main()
