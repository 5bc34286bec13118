"""Compressed shards that bushel wrote are read at random, as plain ones are."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import bushel
from bushel import Order
from bushel.reading import shards as shards_module
from bushel.reading.order import BufferedShuffle

ROWS = 600


@pytest.fixture
def data(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    texts = [" ".join(map(str, generator.integers(0, 99, 1000).tolist())) for _ in range(ROWS)]
    bushel.build({"text": texts, "label": np.arange(ROWS) % 3, "number": np.arange(ROWS)}, tmp_path / "data",
                 label="label", compression="gzip", shards=3, split={"train": 1.0})  # fmt: skip
    return tmp_path / "data"


def numbers(source: Any, **arguments: Any) -> list[int]:
    feed = bushel.batches(source, batch_size=16, epochs=1, **arguments)
    return [int(value) for batch in feed for value in batch["number"]]


def test_every_other_reader_reads_the_same_records(data: Path) -> None:
    train = bushel.open(data)["train"]
    ours = [train.shards.framed(row)[12:-4] for row in range(len(train))]
    names = [str(path) for path in train.paths]
    assert [bytes(record.numpy()) for record in tf.data.TFRecordDataset(names, compression_type="GZIP")] == ours
    assert all(gzip.decompress(path.read_bytes()) for path in train.paths)


def test_records_are_read_by_number_and_selected(data: Path) -> None:
    train = bushel.open(data)["train"]
    assert not train.is_sequential
    first = train[5]["number"]
    assert train[[5, 90, 5]]["number"].tolist() == [first, train[90]["number"], first]
    chosen = train.where("label", 2)
    assert sorted(numbers(chosen)) == [number for number in range(ROWS) if number % 3 == 2]


def test_a_shuffle_is_over_all_records_and_needs_no_buffer(data: Path, recwarn: pytest.WarningsRecorder) -> None:
    shuffled = numbers(bushel.open(data)["train"], order=Order(shuffle=True, seed=1))
    plain = numbers(bushel.open(data)["train"])
    assert sorted(shuffled) == sorted(plain) == list(range(ROWS))
    place = {number: at for at, number in enumerate(plain)}
    moved = [abs(at - place[number]) for at, number in enumerate(shuffled)]
    assert 0.25 * ROWS < np.mean(moved) < 0.42 * ROWS  # a third, in a random order
    assert not [warning for warning in recwarn if issubclass(warning.category, BufferedShuffle)]


def test_weights_balance_and_mixtures_work(data: Path) -> None:
    train = bushel.open(data)["train"]
    assert len(numbers(train, order=Order(shuffle=True, balance="label"))) == ROWS
    assert len(numbers(bushel.mix([train, train.where("label", 0)], [0.5, 0.5]), order=Order(shuffle=True))) > 0


def test_ranks_share_the_records_and_have_equal_steps(data: Path) -> None:
    train = bushel.open(data)["train"]
    shares = [numbers(train, order=Order(shuffle=True, seed=3, rank=rank, world=3)) for rank in range(3)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(number for share in shares for number in share) == list(range(ROWS))


def test_reading_goes_on_at_the_record_where_it_stopped(data: Path) -> None:
    order = Order(shuffle=True, seed=5)
    whole = numbers(bushel.open(data)["train"], order=order)
    feed = bushel.batches(bushel.open(data)["train"], batch_size=16, epochs=1, order=order)
    begun = [int(value) for _ in range(7) for value in next(feed)["number"]]
    again = bushel.batches(bushel.open(data)["train"], batch_size=16, epochs=1, order=order)
    again.restore(feed.state())
    assert begun + [int(value) for batch in again for value in batch["number"]] == whole


def test_plain_shards_beside_a_compressed_one_are_read_at_random(data: Path, tmp_path: Path) -> None:
    paths = list(bushel.open(data)["train"].paths)
    plain = tmp_path / "plain.tfrecord"
    plain.write_bytes(gzip.decompress(paths[1].read_bytes()))
    split = bushel.open([paths[0], plain, paths[2]])["all"]
    assert not split.is_sequential
    assert sorted(numbers(split, order=Order(shuffle=True))) == list(range(ROWS))
    assert split[len(split) - 1]["number"] == bushel.open(data)["train"][ROWS - 1]["number"]


def test_damage_costs_one_group_of_records_and_no_other(data: Path) -> None:
    train = bushel.open(data)["train"]
    path, index = train.paths[1], train.shards.shards[1].index
    assert index.starts is not None
    content = bytearray(path.read_bytes())
    content[int(index.starts[2, 1]) + 200] ^= 0xFF
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    first, after = np.searchsorted(index.offsets, index.starts[[2, 3], 0]).tolist()
    feed = bushel.batches(
        bushel.open(data)["train"], batch_size=16, epochs=1, on_fault="skip", order=Order(shuffle=True)
    )
    read = [int(value) for batch in feed for value in batch["number"]]
    assert 0 < ROWS - len(read) <= after - first
    with pytest.raises(bushel.CorruptRecord):
        numbers(bushel.open(data)["train"])


def test_many_small_records_are_shuffled_in_groups_if_they_cannot_be_kept(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "_HELD_SHUFFLED", 1000)
    train = bushel.open(data)["train"]
    with pytest.warns(BufferedShuffle, match=r"blocks of .* are shuffled.*Order\(block=1\)"):
        assert sorted(numbers(train, order=Order(shuffle=True))) == list(range(ROWS))
    assert sorted(numbers(train, order=Order(shuffle=True, block=1))) == list(range(ROWS))
