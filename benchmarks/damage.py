"""What comes out of damaged files: records recovered, wrong and silently lost, of tf.data and of bushel.

Small datasets are copied, and in each copy one file is damaged as disks and networks do it: bits flipped, a few bytes
overwritten or zeroed, the end cut off. It is a shard of plain records, a shard of gzip, an index or a manifest. All
readers read the same copies.

  intact     records that stand whole in the damaged file, with both checksums; of gzip, in what can be inflated of it
  recovered  intact records that came out
  wrong      records that came out and were never written, or came out twice
  silent     records that did not come out of a file of which no error, warning or count told

tf.data stops at the first error; `ignore_errors` is what people add to go on. It knows neither index nor manifest and
reads the shards beside them. bushel reads with on_fault="skip"; where a manifest cannot be used, the error says how to
read the shards without it, and that is done. Exit code 1 if bushel gave anything wrong or silent.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from table import settings, share, show

import bushel
from bushel import _native

RECORDS, BASES = 24, 6
SHARES = {"records": 0.4, "gzip": 0.3, "index": 0.15, "manifest": 0.15}
NEVER_WRITTEN = b"?"


@dataclass(frozen=True)
class Base:
    """A dataset before it is damaged: its payloads in the order of its one shard."""

    folder: Path
    shard: str
    payloads: list[bytes]

    @property
    def is_compressed(self) -> bool:
        """Whether the shard is gzip."""
        return self.shard.endswith(".gz")


@dataclass(frozen=True)
class Outcome:
    """What a reader gave of one copy."""

    payloads: list[bytes]
    is_told: bool  # that something is wrong


def make_base(folder: Path, seed: int, compression: str | None) -> Base:
    """Build a dataset of records of several sizes."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(97, 123, rng.integers(1, 400)).astype(np.uint8).tobytes() for _ in range(RECORDS)]
    samples = {"number": np.arange(RECORDS) + 1000 * seed, "data": texts, "x": rng.normal(size=(RECORDS, 3))}
    bushel.build(samples, folder, compression=compression, run=bushel.Run(workers=1))  # type: ignore[arg-type]
    (shard,) = (path.name for path in folder.glob("*.tfrecord*"))
    return Base(folder, shard, list(bushel.payloads(folder / shard)))


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Some bytes after a mishap."""
    changed = bytearray(data)
    what = draw.choice(["flip", "flip", "overwrite", "zero", "cut", "cut and flip"])
    if "flip" in what:
        for _ in range(draw.choice([1, 1, 2, 5])):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    if what in ("overwrite", "zero"):
        at, size = draw.randrange(len(changed)), draw.randrange(1, 600)
        size = min(size, len(changed) - at)
        changed[at : at + size] = draw.randbytes(size) if what == "overwrite" else bytes(size)
    if "cut" in what:
        del changed[draw.randrange(1, len(changed)) :]
    return bytes(changed)


def inflated(data: bytes) -> bytes:
    """All that can be inflated of a gzip file before its damage."""
    inflate, out = zlib.decompressobj(wbits=-15), bytearray()
    for at in range(10, len(data)):
        try:
            out += inflate.decompress(data[at : at + 1])
        except zlib.error:
            break
    return bytes(out)


def intact(base: Base, data: bytes) -> Counter[bytes]:
    """The payloads that stand whole in a damaged shard."""
    content = inflated(data) if base.is_compressed else data
    return Counter(payload for payload in base.payloads if bytes(_native.frame(payload)) in content)


def by_bushel(base: Base, folder: Path) -> Outcome:
    """Read a copy as a dataset, past what is damaged."""
    for paths in (folder, folder / "*.tfrecord*"):
        try:
            outcome = _read(base, bushel.open(paths))
            return Outcome(outcome.payloads, is_told=outcome.is_told or paths != folder)
        except bushel.BushelError:  # nothing can be read, or not with this manifest
            continue
    return Outcome([], is_told=True)


def _read(base: Base, data: bushel.Dataset) -> Outcome:
    feed = bushel.batches(data["train"], batch_size=5, on_fault="skip")
    known = {_values(payload): payload for payload in base.payloads}
    found: list[bytes] = []
    for batch in feed:
        rows = zip(batch["number"].tolist(), batch["data"], batch["x"], strict=True)
        found += [known.get((number, bytes(text), x.tobytes()), NEVER_WRITTEN) for number, text, x in rows]
    return Outcome(found, is_told=feed.report().damaged > 0)


def _values(payload: bytes) -> tuple[int, bytes, bytes]:
    """The values of a record, parsed alone."""
    parsed = _native.parse(payload)
    assert parsed is not None
    features = parsed[0]
    return int(features["number"][0]), features["data"][0], features["x"].tobytes()


def by_tensorflow(*, ignores: bool) -> Callable[[Base, Path], Outcome]:
    """Read the shard of a copy with tf.data."""
    import tensorflow as tf

    def read(base: Base, folder: Path) -> Outcome:
        data = tf.data.TFRecordDataset(str(folder / base.shard), "GZIP" if base.is_compressed else "")
        found: list[bytes] = []
        try:
            found.extend((data.ignore_errors() if ignores else data).as_numpy_iterator())
        except (tf.errors.OpError, ValueError):
            return Outcome(found, is_told=True)
        return Outcome(found, is_told=False)

    return read


def judge(base: Base, whole: Counter[bytes], outcome: Outcome) -> dict[str, int]:
    """Count what came out of one copy."""
    came, written = Counter(outcome.payloads), Counter(base.payloads)
    missing = sum((written - came).values())
    return {
        "recovered": sum((whole & came).values()),
        "wrong": sum((came - written).values()),
        "silent": 0 if outcome.is_told else missing,
    }


def target_of(kind: str, base: Base, folder: Path) -> Path:
    """The file of a copy that is damaged."""
    if kind == "manifest":
        return folder / "dataset.json"
    return folder / "_index" / f"{base.shard}.idx" if kind == "index" else folder / base.shard


Readers = dict[str, Callable[[Base, Path], Outcome]]


def run(kind: str, bases: list[Base], files: int, readers: Readers, seed: int) -> dict[str, object]:
    """One line of the table."""
    draw = random.Random(f"{kind}-{seed}")
    totals: Counter[str] = Counter()
    for number in range(files):
        base = bases[number % len(bases)]
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top) / "data"
            shutil.copytree(base.folder, folder)
            path = target_of(kind, base, folder)
            times = path.stat()
            path.write_bytes(damaged(path.read_bytes(), draw))
            if draw.random() < 0.5:  # as a failing disk does
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            whole = intact(base, (folder / base.shard).read_bytes())
            totals["intact"] += sum(whole.values())
            for name, read in readers.items():
                totals.update({f"{name} {what}": n for what, n in judge(base, whole, read(base, folder)).items()})
    row: dict[str, object] = {"damaged": kind, "files": files, "intact": totals["intact"]}
    for name in readers:
        row[name] = share(totals[f"{name} recovered"] / max(1, totals["intact"]))
        row |= {f"{name} {what}": totals[f"{name} {what}"] for what in ("wrong", "silent")}
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=3000, metavar="N", help="damaged files in all [default: 3000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SHARES, action="append", help="this kind of file only")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    readers = {
        "bushel": by_bushel,
        "tf.data": by_tensorflow(ignores=False),
        "ignore_errors": by_tensorflow(ignores=True),
    }
    with tempfile.TemporaryDirectory() as top:
        bases = {
            compression: [make_base(Path(top) / f"{compression}-{n}", n, compression) for n in range(BASES)]
            for compression in (None, "gzip")
        }
        rows = [
            run(
                kind,
                bases["gzip" if kind == "gzip" else None],
                max(1, int(options.files * part)),
                readers,
                options.seed,
            )
            for kind, part in SHARES.items()
            if not options.only or kind in options.only
        ]
    show("Damaged files", settings(files=options.files, seed=options.seed), rows, json_path=options.json)
    return int(any(row["bushel wrong"] or row["bushel silent"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
