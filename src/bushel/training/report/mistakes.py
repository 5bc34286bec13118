"""The records with the largest losses, in a form that people can look at."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel.data.samples import sample_at
from bushel.errors import BushelError
from bushel.feeding.preparation import Preparation, Problem, Target
from bushel.reading import Split
from bushel.training.predictions import Predictions

__all__ = ["Mistake", "worst_mistakes"]

_SHOWN = 24
_SIDE = 112
_TEXT = 240
_VALUES = 8


@dataclass(frozen=True)
class Mistake:
    """One record: where it is, its label, the prediction, and a picture or text."""

    where: str
    truth: str
    predicted: str
    loss: float
    picture: str | None = None  # a data URI
    text: str = ""


def worst_mistakes(split: Split, problem: Problem, found: Predictions) -> list[Mistake]:
    """The records with the largest loss; for classes, only those that are wrong."""
    order = np.argsort(-found.losses, kind="stable")
    if problem.target.is_classes:
        order = order[found.outputs[order].argmax(axis=1) != found.labels[order]]
    return [_mistake(split, problem, found, int(at)) for at in order[:_SHOWN]]


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
        where, truth, predicted, float(found.losses[at]), picture, "" if picture else _text(preparation, sample)
    )


def _words(target: Target, found: Predictions, at: int) -> tuple[str, str]:
    label, output = found.labels[at], found.outputs[at]
    if target.kind == "regression":
        return _numbers(label), _numbers(output)
    if target.kind == "multi_label":
        named = [[name for name, value in zip(target.classes, part, strict=True) if value > 0.5]
                 for part in (label, output)]  # fmt: skip
        return ", ".join(named[0]) or "none", ", ".join(named[1]) or "none"
    best = int(output.argmax())
    return target.classes[int(label)], f"{target.classes[best]} ({output[best]:.0%})"


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
            image = Image.fromarray(value[..., 0] if value.shape[2] == 1 else value[..., :3]).convert("RGB")
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


def _text(preparation: Preparation, sample: dict[str, Any]) -> str:
    parts = []
    for name in preparation.features:
        value = sample.get(name)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, np.ndarray | list):
            flat = np.ravel(np.asarray(value))
            value = ", ".join(f"{item:.4g}" if flat.dtype.kind == "f" else str(item) for item in flat[:_VALUES])
            value += " …" if len(flat) > _VALUES else ""
        elif isinstance(value, float):
            value = f"{value:.4g}"
        alone = len(preparation.features) == 1
        parts.append(str(value) if alone else f"{name}: {'missing' if value is None else value}")
    text = "; ".join(parts)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
