"""Augmented images beside torch's own loaders: python benchmarks/torch_loaders.py [--records N] [--only NAME].

All give batches of 64 images of 224 px, cropped at random, resized and flipped, as uint8 tensors, from the same JPEGs
in their own format, shuffled, with as many workers as there are cores. Each runs in a process of its own, twice; the
second run counts. *Resumes* is the time to the first batch after the middle of an epoch; a loader without a state reads
up to there. *Memory* is the proportional set size of the process and its workers. A rival that is not installed is
named and left out. To install all: pip install torch webdataset mosaicml-streaming litdata grain psutil
"""

import argparse
import importlib.metadata
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH, SIDE, STORED = 64, 224, 256
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pictures(records: int) -> Iterator[tuple[bytes, int]]:
    """JPEGs of smooth shapes and some noise, of which a few repeat."""
    from PIL import Image

    made: list[bytes] = []
    for number in range(min(records, 128)):
        generator = np.random.default_rng(number)
        small = generator.integers(0, 255, (STORED // 10, STORED // 10, 3), dtype=np.uint8)
        image = np.asarray(Image.fromarray(small).resize((STORED, STORED), Image.Resampling.BICUBIC), np.int16)
        image = np.clip(image + generator.integers(-20, 20, image.shape, dtype=np.int16), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=85)
        made.append(file.getvalue())
    for number in range(records):
        yield made[number % len(made)], number


def augmented(data: bytes) -> Any:
    """What people write with Pillow: decode, crop at random, resize, flip."""
    import torch
    from PIL import Image

    random = np.random.default_rng()
    with Image.open(io.BytesIO(data)) as opened:
        image = opened.convert("RGB")
    area = image.width * image.height * random.uniform(0.08, 1.0)
    ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
    width = min(max(1, round((area * ratio) ** 0.5)), image.width)
    height = min(max(1, round((area / ratio) ** 0.5)), image.height)
    left, top = random.integers(0, image.width - width + 1), random.integers(0, image.height - height + 1)
    box = (int(left), int(top), int(left) + width, int(top) + height)
    pixels = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box))
    return torch.from_numpy(pixels[:, ::-1].copy() if random.random() < 0.5 else pixels.copy()).permute(2, 0, 1)


def write_bushel(folder: Path, records: int) -> None:
    import bushel

    for shard in range(4):
        with bushel.Writer(folder / f"train-{shard:05d}-of-00004.tfrecord") as writer:
            for image, label in pictures(records):
                if label % 4 == shard:
                    writer.write({"image": image, "label": label})


def read_bushel(folder: Path, skip: int) -> Iterator[Any]:
    import bushel.torch
    from bushel import transforms as t

    chain = [t.decode_image("image"), t.random_resized_crop("image", SIDE, SIDE), t.random_flip("image")]
    loader = bushel.torch.loader(
        sorted(folder.glob("*.tfrecord")),
        "train",
        batch_size=BATCH,
        label="label",
        order=bushel.Order(shuffle=True),
        transforms=chain,
    )
    if skip:
        loader.load_state_dict({**loader.state_dict(), "position": skip * BATCH})
    return iter(loader)


def write_folder(folder: Path, records: int) -> None:
    for image, label in pictures(records):
        (folder / f"{label:08d}.jpg").write_bytes(image)


class Folder:
    """What torchvision's ImageFolder does: a file per image, opened by number."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> Any:
        return augmented(self.files[number].read_bytes()), number


def read_folder(folder: Path, skip: int) -> Iterator[Any]:
    from torch.utils.data import DataLoader

    loaded = iter(DataLoader(Folder(folder), BATCH, shuffle=True, num_workers=CORES))
    for _ in range(skip):  # it has no state: what was read is read again
        next(loaded)
    return loaded


def write_webdataset(folder: Path, records: int) -> None:
    import webdataset as wds

    with wds.ShardWriter(str(folder / "shard-%05d.tar"), maxcount=-(-records // 4), verbose=0) as writer:
        for image, label in pictures(records):
            writer.write({"__key__": f"{label:08d}", "jpg": image, "cls": label})


def read_webdataset(folder: Path, skip: int) -> Iterator[Any]:
    import webdataset as wds
    from torch.utils.data import DataLoader

    files = [str(path) for path in sorted(folder.glob("*.tar"))]
    read = wds.WebDataset(files, shardshuffle=4, nodesplitter=None, empty_check=False).shuffle(1000)
    samples = read.to_tuple("jpg", "cls").map_tuple(augmented, int).batched(BATCH)
    loaded = iter(DataLoader(samples, batch_size=None, num_workers=min(CORES, 4)))
    for _ in range(skip):
        next(loaded)
    return loaded


def write_streaming(folder: Path, records: int) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns={"image": "bytes", "label": "int"}, size_limit="64mb") as writer:
        for image, label in pictures(records):
            writer.write({"image": image, "label": label})


def read_streaming(folder: Path, skip: int) -> Iterator[Any]:
    from streaming import StreamingDataLoader, StreamingDataset

    class Images(StreamingDataset):
        def __getitem__(self, number: int) -> Any:
            found = super().__getitem__(number)
            return augmented(found["image"]), found["label"]

    data = Images(local=str(folder), shuffle=True, batch_size=BATCH)
    loader = StreamingDataLoader(data, batch_size=BATCH, num_workers=CORES)
    if skip:
        loader.load_state_dict(data.state_dict(skip * BATCH, from_beginning=True))
    return iter(loader)


def write_litdata(folder: Path, records: int) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder), chunk_bytes="64MB")
    for image, label in pictures(records):
        writer[label] = {"image": image, "label": label}
    writer.done()
    writer.merge()


def read_litdata(folder: Path, skip: int) -> Iterator[Any]:
    from litdata import StreamingDataLoader, StreamingDataset

    class Images(StreamingDataset):
        def __getitem__(self, number: int) -> Any:
            found = super().__getitem__(number)
            return augmented(found["image"]), found["label"]

    loaded = iter(StreamingDataLoader(Images(str(folder), shuffle=True), batch_size=BATCH, num_workers=CORES))
    for _ in range(skip):
        next(loaded)
    return loaded


def read_grain(folder: Path, skip: int) -> Iterator[Any]:
    """Our source under grain's pipeline: its sampler and its threads, and what people write with Pillow."""
    import grain

    import bushel.grain

    source = bushel.grain.source(sorted(folder.glob("*.tfrecord")), "train")
    records = grain.MapDataset.source(source).shuffle(seed=0)
    ready = records.map(lambda sample: (augmented(sample["image"]).numpy(), sample["label"]))[skip * BATCH :].batch(
        BATCH
    )
    return iter(ready.to_iter_dataset(grain.ReadOptions(num_threads=CORES, prefetch_buffer_size=2 * CORES)))


# Name: the package that it needs, what writes its files, what reads them.
RIVALS: dict[str, tuple[str, Callable[[Path, int], None], Callable[[Path, int], Iterator[Any]]]] = {
    "bushel": ("bushel", write_bushel, read_bushel),
    "folder": ("torch", write_folder, read_folder),
    "webdataset": ("webdataset", write_webdataset, read_webdataset),
    "streaming": ("mosaicml-streaming", write_streaming, read_streaming),
    "litdata": ("litdata", write_litdata, read_litdata),
    "grain": ("grain", write_bushel, read_grain),
}


def memory_of_tree() -> float:
    """Proportional set size of this process and all below it, in MiB; nan where the system does not tell."""
    try:
        import psutil

        whole = psutil.Process()
        return sum(one.memory_full_info().pss for one in (whole, *whole.children(recursive=True))) / 2**20
    except (ImportError, AttributeError):
        return float("nan")


def run(name: str, folder: Path, records: int) -> dict[str, Any]:
    """Two epochs, of which the second counts, and a resumed one."""
    read = RIVALS[name][2]
    for _ in range(2):
        begin, images, memory = time.perf_counter(), 0, 0.0
        for number, batch in enumerate(read(folder, 0)):
            images += len(batch[0])
            if number == records // BATCH // 2:
                memory = memory_of_tree()
        taken = time.perf_counter() - begin
    begin = time.perf_counter()
    next(read(folder, records // BATCH // 2))
    return {"images": images, "rate": images / taken, "resumes": time.perf_counter() - begin, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4096)
    parser.add_argument("--only", choices=RIVALS, action="append")
    parser.add_argument("--quick", action="store_true", help="so small that the figures say nothing")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    records = 256 if given.quick else given.records
    if given.run:
        print(json.dumps(run(given.run[0], Path(given.run[1]), records)))
        return
    rows: dict[str, dict[str, Any]] = {}
    for name in given.only or RIVALS:
        package, write, _ = RIVALS[name]
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = "" if name != "bushel" else "0"
        if not version:
            print(f"{name} is left out: {package} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), records)
            command = [sys.executable, __file__, "--run", name, folder, "--records", str(records)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name} {version} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            continue
        rows[f"{name} {version}"] = json.loads(done.stdout.strip().splitlines()[-1])
    ours = next((row["rate"] for name, row in rows.items() if name.startswith("bushel ")), 0.0)
    print(f"\n{CORES} cores, {records:,} JPEGs of {STORED} px\n")
    print(f"{'loader':28}{'images/s':>10}{'ours is':>10}{'resumes':>10}{'memory':>11}")
    for name, row in rows.items():
        ratio = f"{ours / row['rate']:.1f} x"
        print(f"{name:28}{row['rate']:>10,.0f}{ratio:>10}{row['resumes']:>8.2f} s{row['memory']:>7,.0f} MiB")


if __name__ == "__main__":
    main()
