"""What a model sees: records after decoding, resizing, augmentation and scaling, as a training would feed them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.errors import BushelError
from bushel.feeding.preparation import Input, Preparation, inputs_of
from bushel.reading import Order, Split, Workers, batches
from bushel.training.inputs.augmentation import augmentation_of
from bushel.training.inputs.choose import choose_inputs, describe_inputs
from bushel.training.inputs.splits import Splits
from bushel.training.options import Options
from bushel.transforms import Transform, normalise
from bushel.viewing.opened import Opened, OpenedSplit
from bushel.viewing.showing import CannotShow, encoded, picture_of, shown_field, shown_value

__all__ = ["feed"]

_LIGHT = "flip,brightness=0.1,contrast=0.1"
_RANGES = {"0..255": (0.0, 1.0), "0..1": (0.0, 255.0), "-1..1": (127.5, 127.5)}
_MOST = 24  # records of a page
_FRAMES = 6  # of a clip
_DECODED = 32  # pixels on a side of an image that is tried
_LOOKED_AT = 256  # records that are tried, where not all are sound
_FEW_SHARDS = 16  # of which all are looked at, to choose how records are fed
_ROLES = {"tokens": "tokens", "series": "series", "sparse": "embedding", "number": "array"}


def feed(opened: Opened, part: OpenedSplit, given: Mapping[str, str]) -> dict[str, Any]:
    """Records from `start` on, as stored and as fed; `size`, `augment`, `range` and `seed` say how."""
    preparation, notes = _prepared(opened, part, given)
    are_pixels = [one for one in preparation.inputs if one.kind in ("image", "clip")]
    text = given.get("augment", _LIGHT if any(one.dtype == "uint8" for one in are_pixels) else "")
    kind = given.get("range") or "0..1"
    if kind not in _RANGES:
        raise ValueError(f"range must be one of {', '.join(_RANGES)}; got {kind!r}")
    changes = augmentation_of(text, preparation)
    scaling = [normalise(one.name, *_RANGES[kind]) for one in are_pixels if one.dtype == "uint8"]
    seed, start = _number(given, "seed", 0), _number(given, "start", 0)
    number, record = part.locate(start)
    shard, first = part.shard(number), int(part.first[number])
    chosen = _sound(opened, part, number, range(record, min(record + _MOST, len(shard.shards))))
    rows, plain = _arrays(chosen, preparation, [], seed)
    _, changed = _arrays(chosen, preparation, changes, seed)
    _, values = _arrays(chosen, preparation, [*changes, *scaling], seed)
    side = given.get("size") or next((str(one.shape[-3]) for one in are_pixels if one.dtype == "uint8"), "")
    return {
        "inputs": [_summary(one, values[one.name]) for one in preparation.inputs],
        "records": [
            {
                "row": first + row,
                "cells": {
                    one.name: _cell(opened, part, first + row, one, (plain[one.name][at], changed[one.name][at]))
                    for one in preparation.inputs
                },
            }
            for at, row in enumerate(rows)
        ],
        "notes": notes,
        "options": {"size": side, "augment": text, "range": kind, "seed": str(seed), "start": str(start)},
        "ranges": list(_RANGES) if scaling else [],
    }


def _prepared(opened: Opened, part: OpenedSplit, given: Mapping[str, str]) -> tuple[Preparation, list[str]]:
    """How `bushel train` would feed the records; what it would leave out is in the notes."""
    side = _number(given, "size", 0)
    if side and not 8 <= side <= 512:
        raise ValueError(f"size must be from 8 to 512, got {side}")
    train = opened.parts.get("train", part)
    options = Options(image_size=(side, side) if side else None)
    if train.is_whole and len(train.paths) <= _FEW_SHARDS:
        try:
            return _chosen(opened, train.split, options)
        except Exception:  # data is untrusted: the records that are sound are enough
            pass
    first = next((first for first, _ in train.each_shard()), None)
    if first is None:
        raise BushelError("there are no records yet")
    number = train.locate(first)[0]
    most = min(_LOOKED_AT, len(train.shard(number).shards))
    return _chosen(opened, _sound(opened, train, number, range(most)), options)


def _sound(opened: Opened, part: OpenedSplit, number: int, records: range) -> Split:
    """Those of some records of a shard that are intact, and whose images can be decoded."""
    shard, first = part.shard(number), int(part.first[number])
    images = [name for name, role in opened.roles.items() if role == "image"]
    usable = shard.usable(np.array(records, np.int64)).tolist()
    rows = [row for row in usable if not any(_is_broken(part.record(first + row).values.get(name)) for name in images)]
    if not rows:
        raise BushelError("none of these records can be fed")
    return shard.select(np.array(rows, np.int64))


def _is_broken(value: Any) -> bool:
    try:
        if isinstance(value, bytes):
            picture_of(value, "image", side=_DECODED)
    except CannotShow:
        return True
    return False


def _chosen(opened: Opened, split: Split, options: Options) -> tuple[Preparation, list[str]]:
    return choose_inputs(Splits(opened.dataset, split, split, None), opened.label, options)


def _arrays(
    split: Split, preparation: Preparation, changes: list[Transform] | tuple[Any, ...], seed: int
) -> tuple[list[int], dict[str, NDArray[Any]]]:
    feed = batches(
        split,
        batch_size=_MOST,
        columns=list(preparation.features),
        order=Order(seed=seed),
        transforms=[*preparation.transforms, *changes],
        layout=preparation.layout,
        on_fault="skip",
        workers=Workers(threads=1),
    )
    with closing(feed):
        for batch in feed:
            return [int(row) for row in batch.rows], inputs_of(preparation, batch)
    raise BushelError("none of these records can be fed")


def _summary(given: Input, values: NDArray[Any]) -> dict[str, Any]:
    """One input of the batch: how it is fed, its shape, and the range of its values."""
    words = describe_inputs(Preparation((given.name,), inputs=(given,))).removeprefix(f"{given.name!r} as ")
    found: dict[str, Any] = {"name": given.name, "kind": given.kind, "words": words, "shape": list(values.shape)}
    if values.dtype.kind not in "iufb":
        return {**found, "dtype": "text"}
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    found |= {"dtype": str(values.dtype), "missing": int(numbers.size - finite.size)}
    if not finite.size:
        return found
    facts = {"low": finite.min(), "high": finite.max(), "mean": finite.mean(), "deviation": finite.std()}
    return {**found, **{name: float(value) for name, value in facts.items()}}


def _cell(
    opened: Opened, part: OpenedSplit, row: int, given: Input, arrays: tuple[NDArray[Any], NDArray[Any]]
) -> dict[str, Any]:
    """One value as it is stored, or an image before augmentation, and as it is fed."""
    plain, changed = arrays
    stored = part.record(row).values.get(given.name)
    role = opened.roles.get(given.name, "bytes")
    if given.kind in ("image", "clip") and role in ("image", "frames"):
        return {"stored": _pictures(plain, given), "fed": _pictures(changed, given)}
    shown = {} if stored is None else shown_field(opened, given.name, stored, role, is_short=True)
    if given.kind in ("image", "clip"):
        return {"stored": shown, "fed": _pictures(changed, given)}
    return {"stored": shown, "fed": shown_value(_plain(changed), _ROLES.get(given.kind or "", "array"))}


def _plain(value: Any) -> Any:
    """A value of one row, as one of a sample."""
    return value.item() if isinstance(value, np.ndarray | np.generic) and not np.ndim(value) else value


def _pictures(pixels: NDArray[Any], given: Input) -> dict[str, Any]:
    frames = [pixels]
    if given.kind == "clip":
        frames = [pixels[at] for at in np.unique(np.linspace(0, len(pixels) - 1, _FRAMES).astype(int))]
    files = [encoded(picture_of(frame, "image"), None) for frame in frames]
    return {"kind": "pictures", "pictures": [f"data:{kind};base64,{b64encode(data).decode()}" for data, kind in files]}


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name) or str(default)
    if not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{name} must be a whole number of at least 0, got {text[:40]!r}")
    return int(text)
