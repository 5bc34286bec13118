"""One batch of records as a model is fed them, for the probes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import contract as contracts
from bushel.checking.collect.facts import Data
from bushel.checking.rules.model_rules import ModelFacts, size_of
from bushel.contract import Contract
from bushel.errors import BushelError
from bushel.records.scan import Sample, scan
from bushel.transforms import Draw, decode_image, resize

__all__ = ["Fed", "first_batch"]

ROWS = 64
_USUAL_SIDE = 160  # of images for a model that takes any size
_DRAW = Draw(0, 0, 0)


@dataclass(frozen=True)
class Fed:
    """Inputs and labels, and in words how they came to be."""

    x: Any
    y: NDArray[Any]
    how: str


def first_batch(facts: ModelFacts, data: Data, contract: Contract | None) -> Fed | str:
    """Some records of the train split, from all over it; or in words why there are none to feed."""
    split = data.train
    files = [file.path for file in data.files_of(split.name) if file.problem is None] if split else []
    files = [file for file in files if file.exists()]
    if split is None or not files:
        return "records in memory are not kept; give the files"
    if data.label is None:
        return "no feature is the label; give it with --label"
    try:
        if contract is not None:
            return _by_contract(contract, _spread(files, split.records, contract.preparation.features, data.label))
        return _by_shape(facts, data, files, split.records)
    except BushelError as error:
        return error.message.splitlines()[0]


def _spread(files: list[Any], records: int, features: Any, label: str, schema: Any = None) -> Iterator[Sample]:
    step = max(records // ROWS, 1)
    wanted = list(dict.fromkeys([*features, label]))
    taken = 0
    for number, sample in enumerate(scan(files, wanted, schema=schema, on_fault="skip")):
        if number % step == 0 and label in sample:
            yield sample
            taken += 1
            if taken == ROWS:
                return


def _by_contract(contract: Contract, samples: Iterator[Sample]) -> Fed | str:
    rows = list(samples)
    if not rows:
        return "no record has a label"
    label = contract.label or "label"
    x = contracts.arrange(contract, contracts.prepare(contract, rows))
    return Fed(x, np.array([row[label] for row in rows]), "prepared as its contract says")


def _by_shape(facts: ModelFacts, data: Data, files: list[Any], records: int) -> Fed | str:
    assert data.label is not None
    shape = facts.input_shape
    if shape is None:
        return "the model has no single input; a contract beside it would say how it is fed"
    feature, image = facts.input_feature(), next((f.name for f in data.features.values() if f.is_image), None)
    if feature is not None and size_of(shape) == feature.length:
        rows = list(_spread(files, records, [feature.name], data.label))
        inner = [size or 1 for size in shape[1:]]
        x = np.stack([np.asarray(row[feature.name], np.float32).reshape(inner) for row in rows])
        return Fed(x, _labels(rows, data.label), f"{feature.name!r} as it is stored")
    if image is not None and len(shape) == 4:
        rows = list(_spread(files, records, [image], data.label))
        return _images(facts, rows, image, data.label) if rows else "no record has a label"
    return f"the model takes {list(shape[1:])}, and no feature holds that many values"


def _labels(rows: list[Sample], label: str) -> NDArray[Any]:
    return np.array([row[label] for row in rows])


def _images(facts: ModelFacts, rows: list[Sample], image: str, label: str) -> Fed:
    """Encoded images decoded and resized; in the range that the model says, or else 0..1."""
    assert facts.input_shape is not None
    _, height, width, channels = facts.input_shape
    height, width = height or _USUAL_SIDE, width or _USUAL_SIDE
    steps = (
        decode_image(image, channels=1 if channels == 1 else 3),
        resize(image, height, width, antialias=True, dtype="float32"),
    )
    pixels = []
    for row in rows:
        sample = {image: row[image]}
        for step in steps:
            sample = step.apply(sample, _DRAW)
        pixels.append(sample[image])
    span = facts.expects or "0..1"
    scale, shift = {"0..255": (1.0, 0.0), "-1..1": (127.5, -1.0)}.get(span, (255.0, 0.0))
    x = np.stack(pixels) / np.float32(scale) + np.float32(shift)
    return Fed(x, _labels(rows, label), f"{image!r} decoded, resized to {height} x {width}, {span}")
