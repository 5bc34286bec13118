"""What the names of files and folders tell: the split that they are of."""

from __future__ import annotations

import re

__all__ = ["SPLITS", "split_named", "split_of_shard"]

SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "eval": "val",
    "evaluation": "val",
}
# What may follow a split in a shard's name: numbers of shards and generations, endings, the hash of a file of the Hub.
_NO_SPLIT = re.compile(r"g?\d+|of|tfrecords?|tfrec|parquet|arrow|gz|gzip|zlib|[0-9a-f]{12,}")


def split_of_shard(name: str) -> str | None:
    """The split that a shard's name tells: `train-00000-of-00008.tfrecord`, `x-val.tfrecord-00000-of-00008`.

    Only the last word tells it: `train_extra-00000-of-00001` is not of `train`.
    """
    words = [word for word in re.split(r"[-_.]", name.lower()) if word and not _NO_SPLIT.fullmatch(word)]
    return _split_of_word(words[-1]) if words else None


def split_named(name: str) -> str | None:
    """The first split that a name holds as a word: `instances_train2017.json`, `val-annotations.json`."""
    found = map(_split_of_word, re.split(r"[^a-z\d]+", name.lower()))
    return next((split for split in found if split), None)


def _split_of_word(word: str) -> str | None:
    return SPLITS.get(word.rstrip("0123456789"))
