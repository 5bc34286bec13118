"""What a model sees: images after decoding, resizing, augmentation and scaling, as it is fed them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import BushelError
from bushel.feeding.preparation import Input, Preparation
from bushel.reading import Order, Split, Workers, batches
from bushel.training.inputs.augmentation import augmentation_of
from bushel.transforms import Transform, decode_image, normalise, resize
from bushel.viewing.opened import Part

__all__ = ["LIGHT", "RANGES", "Fed", "feed_images"]

LIGHT = "flip,brightness=0.1,contrast=0.1"
RANGES = {"0..255": (0.0, 1.0), "0..1": (0.0, 255.0), "-1..1": (127.5, 127.5)}
_MOST = 24


@dataclass(frozen=True)
class Fed:
    """Some records without augmentation and with it, and the values that a model gets."""

    rows: list[int]
    plain: NDArray[Any]
    changed: NDArray[Any]
    values: NDArray[Any]

    def to_json(self) -> dict[str, Any]:
        """What is shown beside the pictures."""
        return {
            "rows": self.rows,
            "shape": list(self.values.shape),
            "dtype": str(self.values.dtype),
            "low": float(self.values.min()),
            "high": float(self.values.max()),
            "mean": float(self.values.mean()),
            "deviation": float(self.values.std()),
        }


def feed_images(part: Part, image: str, given: Mapping[str, str]) -> Fed:
    """Feed records from `start` on as a training would; `size`, `augment`, `range` and `seed` say how."""
    side, seed, start = (_number(given, name, default) for name, default in (("size", 96), ("seed", 0), ("start", 0)))
    if not 8 <= side <= 512:
        raise ValueError(f"size must be from 8 to 512, got {side}")
    kind = given.get("range") or "0..1"
    if kind not in RANGES:
        raise ValueError(f"range must be one of {', '.join(RANGES)}; got {kind!r}")
    number, record = part.locate(start)
    shard, first = part.shard(number), int(part.first[number])
    chosen = shard.select(shard.usable(np.arange(record, min(record + _MOST, len(shard.shards)), dtype=np.int64)))
    stored = part.schema[image]
    steps: list[Transform] = [resize(image, side, side)]
    if stored.encoding != "raw":
        steps = [decode_image(image), *steps]
    dtype = stored.dtype if stored.encoding == "raw" else "uint8"
    told = Input(name=image, kind="image", shape=(side, side, 3), dtype=dtype, min=0.0, max=255.0)
    inputs = Preparation(features=(image,), inputs=(told,))
    changes = augmentation_of(given.get("augment", LIGHT), inputs)
    mean, std = RANGES[kind]
    rows, plain = _batch(chosen, image, steps, seed)
    _, changed = _batch(chosen, image, [*steps, *changes], seed)
    _, values = _batch(chosen, image, [*steps, *changes, normalise(image, mean, std)], seed)
    return Fed([first + row for row in rows], plain, changed, values)


def _batch(split: Split, image: str, steps: list[Transform], seed: int) -> tuple[list[int], NDArray[Any]]:
    feed = batches(
        split,
        batch_size=_MOST,
        columns=[image],
        order=Order(seed=seed),
        transforms=steps,
        on_fault="skip",
        workers=Workers(threads=1),
    )
    with closing(feed):
        for batch in feed:
            return [int(row) for row in batch.rows], np.asarray(batch[image])
    raise BushelError("none of these images can be decoded")


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name) or str(default)
    if not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{name} must be a whole number of at least 0, got {text[:40]!r}")
    return int(text)
