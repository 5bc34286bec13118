"""Records in a form that people can look at: those with the largest losses, and some as the model is fed them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.data.samples import sample_at
from bushel.errors import BushelError
from bushel.feeding.preparation import Input, Problem, Target
from bushel.reading import Split
from bushel.training.inputs.splits import rows_of
from bushel.training.predictions import Predictions
from bushel.training.setup import Setup

__all__ = ["Fed", "Mistake", "fed_samples", "worst_mistakes"]

_SHOWN, _SHOWN_AS_TEXT = 24, 10
_SIDE = 112
_TEXT = 240
_VALUES = 8
_FED = 8  # samples to show as they are fed


@dataclass(frozen=True)
class Mistake:
    """One record: where it is, its label, the prediction, and a picture or text."""

    where: str
    truth: str
    predicted: str
    loss: float
    picture: str | None = None  # a data URI
    text: str = ""


@dataclass(frozen=True)
class Fed:
    """A record of train as the model is fed it: a picture, and one after augmentation; else text."""

    label: str
    picture: str | None = None
    changed: str | None = None
    text: str = ""


def fed_samples(setup: Setup) -> list[Fed]:
    """Some records of train, as the model is fed them; none if one of them is damaged."""
    try:
        return _fed(setup)
    except BushelError:
        return []


def _fed(setup: Setup) -> list[Fed]:
    problem, target = setup.problem, setup.problem.target
    arrays, labels = rows_of(setup.splits.train, problem, setup.options, most=_FED)
    image = next((given for given in problem.inputs if given.kind == "image"), None)
    if image is None:
        rows = [{name: array[at] for name, array in arrays.items()} for at in range(len(labels))]
        return [
            Fed(_label(target, label), text=_text(list(arrays), row)) for label, row in zip(labels, rows, strict=True)
        ]
    pixels, changed = arrays[image.name], None
    if setup.augmentation:
        again, _ = rows_of(setup.splits.train, problem, setup.options, most=_FED, augmentation=setup.augmentation)
        changed = again[image.name]
    return [
        Fed(
            _label(target, label),
            _picture(_bytes_of(image, pixels[at])),
            None if changed is None else _picture(_bytes_of(image, changed[at])),
        )
        for at, label in enumerate(labels)
    ]


def _bytes_of(image: Input, pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Pixels in the range of bytes, from whatever range they are fed in."""
    if pixels.dtype == np.uint8:
        return pixels
    low = image.min if image.min is not None else float(pixels.min())
    high = image.max if image.max is not None else float(pixels.max())
    return np.clip(np.nan_to_num((pixels - low) / ((high - low) or 1.0) * 255), 0, 255).astype(np.uint8)


def _label(target: Target, label: Any) -> str:
    if target.kind == "regression":
        return _numbers(label)
    if target.kind == "multi_label":
        return ", ".join(name for name, value in zip(target.classes, label, strict=True) if value > 0.5) or "none"
    return target.classes[int(label)]


def worst_mistakes(split: Split, problem: Problem, found: Predictions) -> list[Mistake]:
    """The records with the largest loss; for classes, only those that are wrong."""
    order = np.argsort(-found.losses, kind="stable")
    if problem.target.is_classes:
        order = order[found.outputs[order].argmax(axis=1) != found.labels[order]]
    is_pictures = any(given.kind == "image" for given in problem.inputs)
    return [_mistake(split, problem, found, int(at)) for at in order[: _SHOWN if is_pictures else _SHOWN_AS_TEXT]]


def _mistake(split: Split, problem: Problem, found: Predictions, at: int) -> Mistake:
    row, preparation = int(found.rows[at]), problem.preparation
    names = [*preparation.features, *(["key"] if "key" in split.schema else [])]
    sample = sample_at(split.read(np.array([row], np.int64), names), split.schema.features, 0)
    shard, record = split.shards.locate(row)
    where = str(sample.get("key") or f"{shard.path.name}: record {record}")
    truth, predicted = _words(problem.target, found, at)
    image = next((given.name for given in preparation.inputs if given.kind == "image"), None)
    picture = _picture(sample.get(image)) if image is not None else None
    return Mistake(
        where,
        truth,
        predicted,
        float(found.losses[at]),
        picture,
        "" if picture else _text(preparation.features, sample),
    )


def _words(target: Target, found: Predictions, at: int) -> tuple[str, str]:
    label, output = found.labels[at], found.outputs[at]
    if not target.is_classes:
        return _label(target, label), _label(target, output)
    best = int(output.argmax())
    return _label(target, label), f"{target.classes[best]} ({output[best]:.0%})"


def _numbers(values: Any) -> str:
    return ", ".join(f"{value:.4g}" for value in np.ravel(values)[:4])


def _picture(value: Any) -> str | None:
    """A small PNG inside the page."""
    from PIL import Image

    try:
        if isinstance(value, bytes):
            with Image.open(io.BytesIO(value)) as opened:
                image = opened.convert("RGB")
        elif isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype == np.uint8:
            image = Image.fromarray(value[..., 0] if value.shape[2] < 3 else value[..., :3]).convert("RGB")
        else:
            return None
    except (OSError, ValueError, SyntaxError, BushelError):
        return None
    scale = _SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    image = image.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR)
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _text(names: Sequence[str], sample: dict[str, Any]) -> str:
    parts = []
    for name in names:
        value = sample.get(name)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, np.ndarray | list):
            flat = np.ravel(np.asarray(value))
            value = ", ".join(f"{item:.4g}" if flat.dtype.kind == "f" else str(item) for item in flat[:_VALUES])
            value += " …" if len(flat) > _VALUES else ""
        elif isinstance(value, float):
            value = f"{value:.4g}"
        alone = len(names) == 1
        parts.append(str(value) if alone else f"{name}: {'missing' if value is None else value}")
    text = "; ".join(parts)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
