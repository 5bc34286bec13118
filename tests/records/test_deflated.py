"""Compressed files in groups of records: an ordinary stream for everybody, and places to start from."""

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bushel
from bushel.errors import FormatError
from bushel.records.deflated import Compressor, find_starts, inflate_group
from bushel.records.index import build_index, index_path, load_index, save_index
from bushel.records.scan import SkippedRecords


def framed(sizes: list[int], seed: int = 0) -> list[bytes]:
    generator = np.random.default_rng(seed)
    payloads = [generator.integers(0, 7, size).astype(np.uint8).tobytes() for size in sizes]
    return [_frame(payload) for payload in payloads]


def _frame(payload: bytes) -> bytes:
    from bushel import _native

    def masked(data: bytes) -> bytes:
        crc = _native.crc32c(data)
        return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")

    length = len(payload).to_bytes(8, "little")
    return length + masked(length) + payload + masked(payload)


def compressed(records: list[bytes], *, cut: int, compression: Any = "gzip") -> tuple[bytes, np.ndarray]:
    compressor, whole = Compressor(compression), b"".join(records)
    pieces = [compressor.compress(whole[at : at + cut]) for at in range(0, len(whole), cut)]
    return b"".join([*pieces, compressor.flush()]), compressor.starts


SIZES = st.lists(st.integers(0, 70_000), min_size=0, max_size=60)


@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, cut=st.integers(1, 3_000_000), compression=st.sampled_from(["gzip", "zlib"]))
def test_the_stream_is_ordinary_and_does_not_depend_on_how_it_was_handed_over(
    sizes: list[int], cut: int, compression: str
) -> None:
    records = framed(sizes)
    cut = max(cut, sum(map(len, records)) // 50 + 1)
    data, starts = compressed(records, cut=cut, compression=compression)
    inflate = gzip.decompress if compression == "gzip" else zlib.decompress
    assert inflate(data) == b"".join(records)
    again, same = compressed(records, cut=1 << 22, compression=compression)
    assert again == data
    assert np.array_equal(starts, same)


@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, compression=st.sampled_from(["gzip", "zlib"]))
def test_every_group_is_inflated_without_what_is_before_it(sizes: list[int], compression: Any) -> None:
    records = framed(sizes)
    whole = b"".join(records)
    data, starts = compressed(records, cut=1 << 20, compression=compression)
    ends = [*starts[1:].tolist(), [len(whole), len(data)]] if len(starts) else []
    for (inflated, begin), (next_inflated, end) in zip(starts.tolist(), ends, strict=True):
        group = inflate_group(data[begin:end], next_inflated - inflated)
        assert group == whole[inflated:next_inflated]
    offsets = np.cumsum([0, *map(len, records)])[:-1].astype(np.uint64)
    found = find_starts(data, compression, offsets)
    assert (found is None and len(starts) < 2) or np.array_equal(found, starts)


def test_groups_are_small_where_records_do_not_compress_and_larger_where_they_do() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 4000)).astype(np.uint8)
    _, of_noise = compressed([_frame(row.tobytes()) for row in noise], cut=1 << 20)
    _, of_zeros = compressed([_frame(bytes(4000))] * 200, cut=1 << 20)
    assert 12_000 < np.diff(of_noise[:, 0].astype(int)).mean() < 17_000
    assert 100_000 < np.diff(of_zeros[1:, 0].astype(int)).mean() < 132_000


def test_a_record_larger_than_what_is_collected_is_a_group() -> None:
    records = framed([10, 3_000_000, 10, 20])
    data, starts = compressed(records, cut=100_000)
    assert gzip.decompress(data) == b"".join(records)
    assert starts[:, 0].tolist() == [0, len(records[0]), len(records[0]) + len(records[1])]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "a.tfrecord.gz"
    with bushel.Writer(path, compression="gzip") as writer:
        for number in range(500):
            writer.write({"x": np.random.default_rng(number).bytes(2000), "label": number})
    return path


def test_a_file_without_an_index_has_its_groups_found(shard: Path) -> None:
    index = build_index(shard)
    assert index.starts is not None
    assert len(index.starts) > 50


def test_a_file_of_another_writer_has_no_groups_and_an_index_as_before(shard: Path) -> None:
    shard.write_bytes(gzip.compress(gzip.decompress(shard.read_bytes())))
    bushel.write_index(shard)
    place = index_path(shard)
    assert load_index(shard).starts is None  # type: ignore[union-attr]
    assert place.read_bytes()[8] == 2


def test_the_starts_are_kept_in_the_index(shard: Path) -> None:
    bushel.write_index(shard, label="label")
    kept, made = load_index(shard), build_index(shard)
    assert kept is not None
    assert index_path(shard).read_bytes()[8] == 3
    assert np.array_equal(kept.starts, made.starts)  # type: ignore[arg-type]
    assert kept.values["label"].tolist() == list(range(500))


@pytest.mark.parametrize("change", ["shifted", "beyond", "descending", "not from the beginning"])
def test_starts_where_no_record_begins_are_refused(shard: Path, change: str) -> None:
    from dataclasses import replace

    index = build_index(shard)
    assert index.starts is not None
    starts = np.array(index.starts)
    if change == "shifted":
        starts[3, 0] += 1
    elif change == "beyond":
        starts[-1, 1] = 1 << 40
    elif change == "descending":
        starts[[2, 3]] = starts[[3, 2]]
    else:
        starts = starts[1:]
    save_index(shard, replace(index, starts=starts))
    with pytest.raises(FormatError, match="its groups do not begin where records do"):
        load_index(shard)


def damage(shard: Path, at: int) -> None:
    """Flip bits of a byte, as a failing disk does: the time of the file stays."""
    status, data = shard.stat(), bytearray(shard.read_bytes())
    data[at] ^= 0xFF
    shard.write_bytes(data)
    os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_what_follows_the_next_flush_is_read_after_damage(shard: Path) -> None:
    index = build_index(shard)
    assert index.starts is not None
    group = len(index.starts) // 2
    first, after = (int(np.searchsorted(index.offsets, index.starts[at, 0])) for at in (group, group + 1))
    damage(shard, int(index.starts[group, 1]) + 300)
    with pytest.warns(SkippedRecords):
        read = [int(sample["label"]) for sample in bushel.scan(shard, on_fault="skip")]
    lost = set(range(500)) - set(read)
    assert read == sorted(set(read))
    assert lost <= set(range(first, after))
    assert lost


def test_repair_keeps_what_follows_the_next_flush(shard: Path, tmp_path: Path) -> None:
    index = build_index(shard)
    assert index.starts is not None
    for group in (5, 6, 40):
        damage(shard, int(index.starts[group, 1]) + 100)
    bushel.repair(shard, tmp_path / "whole.tfrecord")
    kept = [int(sample["label"]) for sample in bushel.scan(tmp_path / "whole.tfrecord")]
    assert kept == sorted(set(kept))
    assert 500 - len(kept) <= 3 * 8
