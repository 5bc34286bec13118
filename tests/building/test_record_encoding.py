"""Blocks of samples to records."""

import numpy as np

from bushel import Schema
from bushel.building.record_encoding import BlockEncoder
from bushel.data.columns import BytesColumn
from bushel.data.schema import Feature
from bushel.sources.protocol import Block


def block_of(rows: int) -> Block:
    return Block(np.arange(rows) + 10, {"x": np.arange(rows), "text": BytesColumn.of([b"%d" % i for i in range(rows)])})


def test_rows_that_are_not_wanted_are_left_out_of_the_records_of_a_block():
    schema = Schema(features={"x": Feature(dtype="int64"), "text": Feature(dtype="bytes")})
    encoder = BlockEncoder(schema, schema)
    hashes = np.zeros(100, np.uint64)
    whole, *_ = encoder.encode(block_of(100), hashes, np.ones(100, bool))
    wanted = np.arange(100) % 3 == 1
    some, refused, *_ = encoder.encode(block_of(100), hashes, wanted)
    assert not refused
    assert whole is not None
    assert some is not None
    assert some.rows.tolist() == (np.flatnonzero(wanted) + 10).tolist()
    ends = np.concatenate([[0], np.cumsum(whole.lengths)])
    records = [bytes(whole.data[ends[i] : ends[i + 1]]) for i in np.flatnonzero(wanted)]
    assert bytes(some.data) == b"".join(records)
    assert some.lengths.tolist() == [len(record) for record in records]
