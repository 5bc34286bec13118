"""What comes out of damaged files: records recovered, wrong and silently lost, of tf.data and of bushel.

Small datasets are copied, and in each copy one file is damaged as disks and networks do it: bits flipped, a few bytes
overwritten or zeroed, the end cut off. It is a shard of plain records, a shard of gzip, an index or a manifest. All
readers read the same copies.

  intact     records that stand whole in the damaged file, with both checksums; of gzip, in what can be inflated of it
  recovered  intact records that came out
  wrong      records that came out and were never written, or came out twice
  silent     records that did not come out of a file of which no error, warning or count told

tf.data stops at the first error; `ignore_errors` is what people add to go on. It knows neither index nor manifest and
reads the shards beside them. bushel reads with on_fault="skip", every other copy shuffled; where a manifest cannot be
used, the error says how to read the shards without it, and that is done. `raise` is bushel with on_fault="raise", which
stops at the first error. Exit code 1 if bushel gave anything wrong or silent.

Each library reads in a process of its own, and what came out of a copy is written down at once: with --folder a run
that was stopped goes on where it was.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from table import settings, share, show

import bushel
from bushel import _native
from bushel.reading.order import BufferedShuffle

RECORDS, BASES = 24, 6
SHARES = {"records": 0.4, "gzip": 0.3, "index": 0.15, "manifest": 0.15}
SIDES = {"bushel": ("bushel", "raise"), "tf.data": ("tf.data", "ignore_errors")}
NEVER_WRITTEN = -1


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
class Copy:
    """A damaged copy of a dataset."""

    number: int
    kind: str
    base: Base
    folder: Path


@dataclass(frozen=True)
class Outcome:
    """What a reader gave of one copy."""

    records: list[int]  # which of the payloads of its base
    is_told: bool  # that something is wrong


Reader = Callable[[Copy], Outcome]


def make_base(folder: Path, seed: int, compression: str | None) -> None:
    """Build a dataset of records of several sizes."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(97, 123, rng.integers(1, 400)).astype(np.uint8).tobytes() for _ in range(RECORDS)]
    samples = {"number": np.arange(RECORDS) + 1000 * seed, "data": texts, "x": rng.normal(size=(RECORDS, 3))}
    bushel.build(samples, folder, compression=compression, run=bushel.Run(workers=1))  # type: ignore[arg-type]


def open_base(folder: Path) -> Base:
    """A dataset that `make_base` built."""
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


def intact(copy: Copy) -> Counter[int]:
    """The records that stand whole in the shard of a copy."""
    data = (copy.folder / copy.base.shard).read_bytes()
    content = inflated(data) if copy.base.is_compressed else data
    payloads = enumerate(copy.base.payloads)
    return Counter(number for number, payload in payloads if bytes(_native.frame(payload)) in content)


def by_bushel(copy: Copy) -> Outcome:
    """Read a copy as a dataset, past what is damaged."""
    for paths in (copy.folder, copy.folder / "*.tfrecord*"):
        try:
            outcome = _read(copy, bushel.open(paths), "skip")
            return Outcome(outcome.records, is_told=outcome.is_told or paths != copy.folder)
        except bushel.BushelError:  # nothing can be read, or not with this manifest
            continue
    return Outcome([], is_told=True)


def by_bushel_raising(copy: Copy) -> Outcome:
    """Read a copy as a dataset, up to what is damaged; what came before it is not counted."""
    try:
        return _read(copy, bushel.open(copy.folder), "raise")
    except bushel.BushelError:
        return Outcome([], is_told=True)


def _read(copy: Copy, data: bushel.Dataset, on_fault: bushel.reading.batch.OnFault) -> Outcome:
    order = bushel.Order(shuffle=copy.number % 2 == 1)
    feed = bushel.batches(data["train"], batch_size=5, on_fault=on_fault, order=order)
    known = {_values(payload): number for number, payload in enumerate(copy.base.payloads)}
    found: list[int] = []
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


def by_tensorflow(*, ignores: bool) -> Reader:
    """Read the shard of a copy with tf.data: one graph for all copies, as tracing it takes longer than reading."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.string)])
    def dataset(path: object, compression: object) -> object:
        data = tf.data.TFRecordDataset(path, compression)
        return tf.data.experimental.to_variant(data.ignore_errors() if ignores else data)

    def read(copy: Copy) -> Outcome:
        known = {payload: number for number, payload in enumerate(copy.base.payloads)}
        found: list[int] = []
        try:
            variant = dataset(str(copy.folder / copy.base.shard), "GZIP" if copy.base.is_compressed else "")
            data = tf.data.experimental.from_variant(variant, tf.TensorSpec((), tf.string))
            found.extend(known.get(payload, NEVER_WRITTEN) for payload in data.take(2 * RECORDS).as_numpy_iterator())
        except (tf.errors.OpError, ValueError):
            return Outcome(found, is_told=True)
        return Outcome(found, is_told=False)

    return read


def reader_of(name: str) -> Reader:
    """The reader that a column of the table is about."""
    if name in SIDES["tf.data"]:
        return by_tensorflow(ignores=name == "ignore_errors")
    return by_bushel if name == "bushel" else by_bushel_raising


def judge(whole: Counter[int], outcome: Outcome) -> dict[str, int]:
    """Count what came out of one copy."""
    came, written = Counter(outcome.records), Counter(range(RECORDS))
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


def make_copies(top: Path, files: dict[str, int], seed: int) -> None:
    """Copy datasets and damage one file in each; `copies.json`, written last, says which."""
    for compression in (None, "gzip"):
        for number in range(BASES):
            make_base(top / f"{compression}-{number}", number, compression)
    copies: list[tuple[str, str]] = []
    for kind, count in files.items():
        draw = random.Random(f"{kind}-{seed}")
        bases = [open_base(top / f"{'gzip' if kind == 'gzip' else None}-{number}") for number in range(BASES)]
        for number in range(count):
            base = bases[number % BASES]
            folder = top / "copies" / str(len(copies))
            shutil.copytree(base.folder, folder, dirs_exist_ok=True)
            path = target_of(kind, base, folder)
            times = path.stat()
            path.write_bytes(damaged(path.read_bytes(), draw))
            if draw.random() < 0.5:  # as a failing disk does
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            copies.append((kind, base.folder.name))
    (top / "copies.json").write_text(json.dumps(copies))


def copies_in(top: Path) -> Iterator[Copy]:
    """The copies that `make_copies` made."""
    bases: dict[str, Base] = {}
    for number, (kind, name) in enumerate(json.loads((top / "copies.json").read_text())):
        if name not in bases:
            bases[name] = open_base(top / name)
        yield Copy(number, kind, bases[name], top / "copies" / str(number))


def read_copies(top: Path, side: str) -> None:
    """Read all copies with one library, a line per copy; those that have a line already are not read again."""
    warnings.simplefilter("ignore", BufferedShuffle)  # of each gzip copy
    readers = {name: reader_of(name) for name in SIDES[side]}
    results = top / f"{side}.jsonl"
    done = len(results.read_bytes().splitlines()) if results.exists() else 0
    with results.open("a") as lines:
        for copy in copies_in(top):
            if copy.number < done:
                continue
            outcomes = {name: read(copy) for name, read in readers.items()}
            row = {name: [outcome.records, outcome.is_told] for name, outcome in outcomes.items()}
            lines.write(json.dumps(row) + "\n")
            lines.flush()


def table_of(top: Path) -> list[dict[str, object]]:
    """One row per kind of file."""
    totals: dict[str, Counter[str]] = {}
    results = [(top / f"{side}.jsonl").read_text().splitlines() for side in SIDES]
    for copy, *lines in zip(copies_in(top), *results, strict=True):
        total, whole = totals.setdefault(copy.kind, Counter()), intact(copy)
        total.update(files=1, intact=sum(whole.values()))
        for line in lines:
            for name, (records, is_told) in json.loads(line).items():
                judged = judge(whole, Outcome(records, is_told))
                total.update({f"{name} {what}": count for what, count in judged.items()})
    return [_row(kind, total) for kind, total in totals.items()]


def _row(kind: str, total: Counter[str]) -> dict[str, object]:
    row: dict[str, object] = {"damaged": kind, "files": total["files"], "intact": total["intact"]}
    for name in (name for names in SIDES.values() for name in names):
        if name != "raise":
            recovered = total[f"{name} recovered"]
            row[name] = "all" if recovered == total["intact"] else share(recovered / total["intact"])
        row |= {f"{name} {what}": total[f"{name} {what}"] for what in ("wrong", "silent")}
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=3000, metavar="N", help="damaged files in all [default: 3000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SHARES, action="append", help="this kind of file only")
    parser.add_argument("--folder", type=Path, help="keep copies and results here, and go on with those that are there")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if options.side:
        read_copies(options.folder, options.side)
        return 0
    kinds = options.only or SHARES
    files = {kind: max(1, int(options.files * part)) for kind, part in SHARES.items() if kind in kinds}
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as top:
        if not (Path(top) / "copies.json").exists():
            make_copies(Path(top), files, options.seed)
        for side in SIDES:
            subprocess.run([sys.executable, __file__, "--folder", str(top), "--side", side], check=True)
        rows = table_of(Path(top))
    show("Damaged files", settings(files=options.files, seed=options.seed), rows, json_path=options.json)
    ours = [f"{name} {what}" for name in SIDES["bushel"] for what in ("wrong", "silent")]
    return int(any(row[column] for row in rows for column in ours))


if __name__ == "__main__":
    sys.exit(main())
