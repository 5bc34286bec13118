"""Files of bushel's own, changed at random: each is read as it was meant, or refused in words; nothing else happens.

python tests/test_hostile_files.py TARGET SECONDS        fuzzes one target for so long; `make fuzz` does it for all
"""

import contextlib
import csv
import io
import json
import os
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import bushel
from bushel import contract
from bushel import transforms as t
from bushel._native import crc32c
from bushel.records.index import index_path
from bushel.sources.tables.delimited import _cut_rows

RECORDS = 12


@dataclass(frozen=True)
class Place:
    """A small dataset and the contract of a model that was trained on it."""

    folder: Path

    @property
    def shard(self) -> Path:
        (path,) = self.folder.glob("*.tfrecord")
        return path

    def read(self) -> list[int] | None:
        """The numbers in its records, past what is damaged; None if it is refused."""
        try:
            feed = bushel.batches(bushel.open(self.folder)["train"], batch_size=5, on_fault="skip")
            return sorted(number for batch in feed if "number" in batch for number in batch["number"].tolist())
        except bushel.BushelError:
            return None


@cache
def place() -> Place:
    folder = Path(tempfile.mkdtemp(prefix="bushel-hostile-"))
    rows = [{"number": n, "text": "ab " * n, "label": "xyz"[n % 3]} for n in range(RECORDS)]
    tokens = [t.tokenise("text", unit="word")]
    bushel.build(rows, folder / "data", transforms=tokens, run=bushel.Run(workers=1))
    data = bushel.open(folder / "data")
    made = contract.make(data, contract.Preparation(features=("number", "text"), layout=(bushel.Pad("text", 4),)))
    contract.write(made, folder / "contract.json")
    return Place(folder / "data")


def flipped(data: bytes, draw: random.Random) -> bytes:
    """Bytes flipped, overwritten, cut out, doubled."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(5):
            case 0:
                changed[at:at] = draw.randbytes(draw.randrange(1, 9))
            case 1:
                del changed[at : at + draw.randrange(1, 9)]
            case 2:
                changed[at : at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x80"])
            case _ if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
    return bytes(changed[: draw.choice([len(changed)] * 9 + [draw.randrange(len(changed) + 1)])])


_VALUES = [None, True, -1, 0, 1, 2**31, 2**63, 2**70, 1e308, 0.5, "", "/etc/passwd", "../x", "a\0b", "\x1b[2J", [], {}]
_VALUES += [[[]], [1, "a"], {"a": {}}, "float32", "bytes", "object", ">M8[ns]", "V4", "x" * 300]


def changed_tree(tree: Any, draw: random.Random) -> Any:
    """JSON in which a value somewhere is another, missing, or at another place."""
    tree = json.loads(json.dumps(tree))
    for _ in range(draw.choice([1, 1, 2, 3])):
        parent, key = _some_place(tree, draw)
        match draw.randrange(4):
            case 0:
                del parent[key]
            case 1:
                other, where = _some_place(tree, draw)
                parent[key] = json.loads(json.dumps(other[where]))
            case _:
                parent[key] = json.loads(json.dumps(draw.choice(_VALUES)))
        if not tree:
            break
    return tree


def _some_place(tree: Any, draw: random.Random) -> tuple[Any, Any]:
    parent, key = tree, draw.choice(list(tree))
    while (inner := parent[key]) and isinstance(inner, dict | list) and draw.random() < 0.85:
        parent, key = inner, draw.choice(list(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
    return parent, key


def check_index(draw: random.Random) -> None:
    """An index never changes what is read, whether its checksum is right or not."""
    path = index_path(place().shard)
    whole, times = path.read_bytes(), path.stat()
    data = flipped(whole, draw)
    if draw.random() < 0.6 and len(data) > 4:
        data = data[:-4] + crc32c(data[:-4]).to_bytes(4, "little")
    try:
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert place().read() in (list(range(RECORDS)), None)
    finally:
        path.write_bytes(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def check_manifest(draw: random.Random) -> None:
    """A manifest that is not as it was is refused, or what is read is what was written."""
    path = place().folder / "dataset.json"
    whole = path.read_bytes()
    is_tree = draw.random() < 0.7
    try:
        path.write_bytes(
            json.dumps(changed_tree(json.loads(whole), draw)).encode() if is_tree else flipped(whole, draw)
        )
        numbers = place().read()
        assert numbers is None or set(numbers) <= set(range(RECORDS))
        _refused(lambda: bushel.open(place().folder).transforms())
        _refused(lambda: bushel.info(place().folder))
    finally:
        path.write_bytes(whole)


def check_contract(draw: random.Random) -> None:
    """A contract is understood and can be used, or it is refused."""
    path = place().folder.parent / "contract.json"
    whole = path.read_bytes()
    is_tree = draw.random() < 0.7
    try:
        path.write_bytes(
            json.dumps(changed_tree(json.loads(whole), draw)).encode() if is_tree else flipped(whole, draw)
        )
        made = _refused(lambda: contract.read(path))
        if made is not None and made.golden:
            _refused(lambda: contract.prepare(made, made.samples()))
    finally:
        path.write_bytes(whole)


def _refused(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except bushel.BushelError:
        return None


def check_csv(draw: random.Random) -> None:
    """A CSV that is cut after its last whole row has the same rows, wherever the piece ended."""
    cells = [
        "",
        "a",
        "1.5",
        "two words",
        'a "quoted" word',
        "line\nbreak",
        "cr\r\nlf",
        ",",
        '"',
        "é☃",
        '""',
        "'",
        " x ",
    ]
    rows = [[draw.choice(cells) for _ in range(3)] for _ in range(draw.randrange(1, 12))]
    written = io.StringIO()
    ends = draw.choice(["\n", "\r\n"])
    csv.writer(written, lineterminator=ends, quoting=draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])).writerows(rows)
    data = written.getvalue().encode()
    piece = data[: draw.randrange(len(data) + 1)]
    at = _cut_rows(piece, ",")
    assert 0 <= at <= len(piece)
    assert _rows(data[:at]) + _rows(data[at:]) == rows


def _rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


_CELLS = ["", "a", "1", "-7", "007", "1.5", "1e9", "9" * 17, "9" * 25, "NaN", "nan", "null", "true", "2020-01-02"]
_CELLS += ["two words", "é☃", "'", "\x01", "a;b", "a\tb", "=1+1", "\u202e"]


def check_table(draw: random.Random) -> None:
    """Text of a CSV is what Arrow's parser and Python's find in it, whichever way bushel reads it."""
    width, quotes = draw.randrange(1, 5), draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    few = draw.sample(_CELLS, draw.randrange(1, 6))
    awkward = ['a "b"', "line\nbreak", ","] if draw.random() < 0.3 else []
    rows = [[draw.choice([*few, *awkward]) for _ in range(width)] for _ in range(draw.randrange(1, 30))]
    written = io.StringIO()
    names = [f"c{n}" for n in range(width)]
    csv.writer(written, lineterminator="\n", quoting=quotes).writerows([names, *rows])
    path = place().folder.parent / "rows.csv"
    path.write_text(written.getvalue(), newline="")
    types = dict.fromkeys(names, "str")
    try:
        source = bushel.sources.table(path, types=types, delimiter=",")
        blocks = [block for part in range(source.partitions()) for block in source.read(part, None)]
    except bushel.BushelError:
        blocks = None
    expected = [row for row in csv.reader(io.StringIO(written.getvalue(), newline="")) if row][1:]
    if blocks is not None:
        assert not any(block.refused for block in blocks)
        found = [list(row) for block in blocks for row in zip(*(_texts(block.columns[n]) for n in names), strict=True)]
        assert found == expected
        assert found == _by_arrow(written.getvalue().encode(), names)


def _texts(column: Any) -> list[str]:
    values = getattr(column, "values", None)
    if values is None:
        return [value.decode() for value in column]
    ends = column.row_splits.tolist()
    return ["".join(value.decode() for value in values[a:b]) for a, b in pairwise(ends)]


def _by_arrow(data: bytes, names: list[str]) -> list[list[str]]:
    convert = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    parse = pacsv.ParseOptions(newlines_in_values=True)
    table = pacsv.read_csv(io.BytesIO(data), parse_options=parse, convert_options=convert)
    return [list(row.values()) for row in table.to_pylist()]


def check_json(draw: random.Random) -> None:
    """JSON lines are what Python's parser finds in them, whichever way bushel reads them."""
    names = draw.sample(["a", "b", "é", 'q"', "x/y", "long name"], draw.randrange(1, 4))
    words = ["", "a", "é☃", '"', "\\", "line\nbreak", "\u0001", "\U0001f600", "null", "5"]
    kinds = {name: draw.choice(["text", "number", "float"]) for name in names}
    make = {
        "text": lambda: draw.choice(words),
        "number": lambda: draw.choice([0, -1, 7, 10**17, -(10**18) + 1, 2**53 + 1]),
        "float": lambda: draw.choice([0.5, -1e-9, 1e30, 3.0]),
    }
    rows = [{name: make[kinds[name]]() for name in names} for _ in range(draw.randrange(1, 20))]
    dump = {"ensure_ascii": draw.random() < 0.5, "separators": draw.choice([(",", ":"), (", ", ": ")])}
    path = place().folder.parent / "rows.jsonl"
    path.write_text("".join(json.dumps(row, **dump) + "\n" for row in rows))
    texts = {name: "str" for name, kind in kinds.items() if kind == "text"}
    source = bushel.sources.table(path, types=texts)
    blocks = [block for part in range(source.partitions()) for block in source.read(part, None)]
    assert not any(block.refused for block in blocks)
    for name, kind in kinds.items():
        found = [value for block in blocks for value in block.columns[name]]
        if kind == "text":
            assert [value.decode() for value in found] == [row[name] for row in rows]
        else:
            assert [float(np.float32(value)) for value in found] == [float(np.float32(row[name])) for row in rows]


def check_gzip(draw: random.Random) -> None:
    """Of a damaged gzip file, the records that are given are the first ones; all of them if zlib finds no damage."""
    raw = place().shard.read_bytes()
    cuts = sorted(draw.sample(range(1, len(raw)), draw.choice([0, 0, 1, 3])))  # several members are one file
    parts = [raw[begin:end] for begin, end in pairwise([0, *cuts, len(raw)])]
    data = b"".join(zlib.compress(part, draw.randrange(10), wbits=31) for part in parts)
    path = place().folder.parent / "x.tfrecord.gz"
    path.write_bytes(data if draw.random() < 0.1 else flipped(data, draw))
    given: list[int] = []
    with contextlib.suppress(bushel.BushelError):
        given.extend(int(sample["number"]) for sample in bushel.scan(path, columns=["number"]))
    expected = [int(sample["number"]) for sample in bushel.scan(place().shard)]
    assert given == expected[: len(given)]
    assert len(given) == RECORDS or _inflated(path.read_bytes()) != raw


def _inflated(data: bytes) -> bytes:
    found = b""
    while data:
        stream = zlib.decompressobj(wbits=31)
        try:
            found += stream.decompress(data)
        except zlib.error:
            return b"damaged"
        data = stream.unused_data
        if not stream.eof:
            return b"damaged"
    return found


TARGETS = {"index": check_index, "manifest": check_manifest, "contract": check_contract, "csv": check_csv}
TARGETS |= {"table": check_table, "json": check_json, "gzip": check_gzip}


@pytest.mark.parametrize("target", TARGETS)
def test_files_that_were_changed_are_read_as_meant_or_refused(target: str) -> None:
    for seed in range({"csv": 2000}.get(target, 120)):
        TARGETS[target](random.Random(f"{target}-{seed}"))


def fuzz(target: str, seconds: float) -> int:
    """Try one seed after another; those that fail are printed."""
    end, tried, failed = time.monotonic() + seconds, 0, 0
    seed = int(time.time())
    while time.monotonic() < end:
        try:
            TARGETS[target](random.Random(f"{target}-{seed}"))
        except Exception as error:
            failed += 1
            sys.stdout.write(f"{target}-{seed}: {type(error).__name__}: {error}\n")
        tried, seed = tried + 1, seed + 1
    sys.stdout.write(f"{target}: {tried:,} inputs, {failed:,} failed\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(fuzz(sys.argv[1], float(sys.argv[2])))
