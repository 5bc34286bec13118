"""Bytes to files."""

import random
import zlib
from itertools import pairwise

from bushel.building.output.writer import compressor


def test_compressed_bytes_do_not_depend_on_how_they_were_handed_over() -> None:
    rng = random.Random(0)
    data = rng.randbytes(1_500_000) + b"again and again " * 100_000
    made = set()
    for cuts in (0, 1, 3, 50):
        places = [0, *sorted(rng.sample(range(len(data)), cuts)), len(data)]
        stream = compressor("gzip")
        assert stream is not None
        pieces = [stream.compress(data[begin:end]) for begin, end in pairwise(places)]
        made.add(b"".join(pieces) + stream.flush())
    assert len(made) == 1
    assert zlib.decompress(made.pop(), 31) == data
