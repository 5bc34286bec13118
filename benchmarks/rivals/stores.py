"""Reading samples of a store with MosaicML streaming and with webdataset, by a Python that has them.

    python stores.py make KIND X.npy FOLDER             write the samples of an array as KIND (mosaic, webdataset)
    python stores.py read KIND ADDRESS LOCAL 0|1        read them from a server, in order or shuffled (bushel too);
                                                        prints how many, the seconds, and those of the processor

LOCAL is the folder that keeps what was downloaded: empty for a cold run, as the last run left it for a warm one.
"""

import io
import os
import resource
import sys
import tarfile
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

SHARD_BYTES = 64 << 20
BATCH = 64


UNUSED = {  # what streaming imports for samples of kinds that are not measured here
    "torchvision": (),
    "torchvision.datasets": ("VisionDataset",),
    "torchvision.transforms": (),
    "torchvision.transforms.functional": ("to_tensor",),
    "transformers": (),
    "transformers.feature_extraction_utils": ("BatchFeature",),
    "transformers.tokenization_utils_base": ("BatchEncoding",),
    "transformers.models": (),
    "transformers.models.auto": (),
    "transformers.models.auto.tokenization_auto": ("AutoTokenizer",),
}


def without_unused() -> None:
    """Stand in for packages that are large, and not used."""
    for name, members in UNUSED.items():
        module = ModuleType(name)
        module.__path__, module.__spec__ = [], ModuleSpec(name, None)
        for member in members:
            setattr(module, member, type(member, (), {}))
        sys.modules.setdefault(name, module)


def make(kind: str, x: Any, folder: Path) -> None:
    if kind == "mosaic":
        without_unused()
        from streaming import MDSWriter

        columns = {"x": f"ndarray:float32:{x.shape[1]}", "label": "int"}
        with MDSWriter(out=str(folder), columns=columns, size_limit=SHARD_BYTES) as writer:
            for number, row in enumerate(x):
                writer.write({"x": row, "label": number})
        return
    folder.mkdir(parents=True)
    step = SHARD_BYTES // x[0].nbytes
    for shard, begin in enumerate(range(0, len(x), step)):
        with tarfile.open(folder / f"{shard:05d}.tar", "w") as tar:
            for number in range(begin, min(begin + step, len(x))):
                for name, data in ((f"{number:08d}.x.npy", npy(x[number])), (f"{number:08d}.cls", b"%d" % number)):
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def npy(row: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, row)
    return buffer.getvalue()


def mosaic(address: str, local: str, shuffle: bool) -> Iterator[int]:
    without_unused()
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    os.environ["S3_ENDPOINT_URL"] = address
    where = {"remote": "s3://bucket/mosaic", "local": local}
    dataset = StreamingDataset(**where, shuffle=shuffle, batch_size=BATCH, num_canonical_nodes=1)
    for batch in DataLoader(dataset, batch_size=BATCH, num_workers=2):
        yield len(batch["x"])


def webdataset(address: str, local: str, shuffle: bool) -> Iterator[int]:
    import webdataset as wds
    from torch.utils.data import DataLoader

    names = os.environ["SHARDS"].split(",")
    urls = [f"pipe:curl -s {address}/bucket/webdataset/{name}" for name in names]
    kept = {"cache_dir": local} if local else {}
    dataset = wds.WebDataset(urls, shardshuffle=len(urls) if shuffle else False, empty_check=False, **kept)
    dataset = dataset.shuffle(1000) if shuffle else dataset
    dataset = dataset.decode().to_tuple("x.npy", "cls").batched(BATCH)
    for batch in DataLoader(dataset, batch_size=None, num_workers=2):
        yield len(batch[0])


def ours(address: str, local: str, shuffle: bool) -> Iterator[int]:
    os.environ.update({"AWS_ENDPOINT_URL": address, "BUSHEL_CACHE": local})
    import bushel

    split = bushel.open("s3://bucket/bushel")["train"]
    for batch in bushel.batches(split, batch_size=BATCH, order=bushel.Order(shuffle=shuffle, seed=1)):
        yield len(batch["x"])


def main() -> None:
    action, kind, *given = sys.argv[1:]
    if action == "make":
        make(kind, np.load(given[0], mmap_mode="r"), Path(given[1]))
    else:
        reader = {"bushel": ours, "mosaic": mosaic, "webdataset": webdataset}[kind]
        import torch  # noqa: F401  is loaded before the clock runs

        begin, busy = time.perf_counter(), processor_seconds()
        read = sum(reader(given[0], given[1], given[2] == "1"))
        print(read, time.perf_counter() - begin, processor_seconds() - busy)


def processor_seconds() -> float:
    """Of this process, and of its workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
