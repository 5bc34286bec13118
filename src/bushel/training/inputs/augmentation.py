"""Random changes of the train split only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from bushel.data.samples import Sample
from bushel.errors import nearest
from bushel.feeding.preparation import Input, Preparation
from bushel.transforms import (
    brightness,
    contrast,
    cutout,
    hue,
    jitter,
    normalise,
    random_flip,
    random_resized_crop,
    random_shift,
    rotate,
    saturation,
    scale,
)
from bushel.transforms.interface import Draw

__all__ = ["FEW_IMAGES", "LEAST_SIDE", "augmentation_of", "usual_augmentation"]

_LIGHT = "flip,brightness=0.1,contrast=0.1"
_USUAL = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0), (0.0, 65535.0))  # from black to white
FEW_IMAGES = 5000  # of train, below which they are changed in training by default
LEAST_SIDE = 16  # side of an image that can be moved without losing much of it
_COLOURS = 3  # channels that saturation and hue need


class EachFrame(msgspec.Struct, frozen=True):
    """A change of images that changes every frame of a clip alike."""

    feature: str
    step: Any

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Change the frames, each with the same draw."""
        frames = [self.step.apply({self.feature: frame}, draw)[self.feature] for frame in sample[self.feature]]
        return {**sample, self.feature: np.stack(frames)}


def _crop(given: Input, area: float) -> Any:
    height, width = (size or 1 for size in given.shape[-3:-1])
    return random_resized_crop(given.name, height, width, area=(area, 1.0))


_OF_IMAGES: dict[str, tuple[float, Callable[[Input, float], Any]]] = {
    "flip": (0, lambda given, _: random_flip(given.name)),
    "flips": (0, lambda given, _: random_flip(given.name, vertical=True)),
    "shift": (0.125, lambda given, share: random_shift(given.name, share)),
    "crop": (0.6, _crop),
    "rotate": (15, lambda given, most: rotate(given.name, most)),
    "brightness": (0.2, lambda given, most: brightness(given.name, most)),
    "contrast": (0.2, lambda given, most: contrast(given.name, most)),
    "saturation": (0.2, lambda given, most: saturation(given.name, most)),
    "hue": (0.05, lambda given, most: hue(given.name, most)),
    "cutout": (8, lambda given, side: cutout(given.name, int(side))),
}
_OF_NUMBERS: dict[str, tuple[float, Callable[[Input, float], Any]]] = {
    "jitter": (0.05, lambda given, std: jitter(given.name, std)),
    "scale": (0.1, lambda given, most: scale(given.name, most)),
}


def usual_augmentation(records: int, preparation: Preparation) -> str | None:
    """What to change where nobody says: few images are moved a little, which hardly ever changes what they show."""
    images = [given for given in preparation.inputs if given.kind == "image"]
    is_large = all(min(size or 0 for size in given.shape[:2]) >= LEAST_SIDE for given in images)
    return "shift" if images and is_large and records < FEW_IMAGES else None


def augmentation_of(text: str | None, preparation: Preparation) -> tuple[Any, ...]:
    """The transforms that a list such as `flip,rotate=15` names, for every input that they fit."""
    if not text or text == "none":
        return ()
    steps: dict[str, list[Any]] = {}
    for part in (_LIGHT if text == "light" else text).split(","):
        name, _, amount = part.strip().partition("=")
        table = _OF_IMAGES if name in _OF_IMAGES else _OF_NUMBERS
        if name not in table:
            known = [*_OF_IMAGES, *_OF_NUMBERS]
            close = nearest(name, known)
            hint = f"; did you mean {close!r}?" if close else ""
            raise ValueError(f"augment must be none, light, or a list of {', '.join(known)}; got {name!r}{hint}")
        default, make = table[name]
        fitting = [given for given in preparation.inputs if _fits(name, given)]
        if not fitting:
            raise ValueError(f"augment {name!r} does not fit the inputs: {_kinds(preparation)}")
        for given in fitting:
            step = make(given, _amount(part, amount, default))
            steps.setdefault(given.name, []).append(EachFrame(given.name, step) if given.kind == "clip" else step)
    return tuple(step for given in preparation.inputs for step in _as_pixels(given, steps.get(given.name, [])))


def _fits(name: str, given: Input) -> bool:
    if name in _OF_NUMBERS:
        is_whole = bool(given.shape) or not given.has_missing
        return given.kind in ("series", "number") and is_whole
    is_coloured = name not in ("saturation", "hue") or given.shape[-1] == _COLOURS
    return given.kind in ("image", "clip") and is_coloured


def _as_pixels(given: Input, steps: list[Any]) -> list[Any]:
    """Changes of an input; images that are stored as numbers are changed as pixels of 0 to 255 and scaled back."""
    if not steps or given.kind not in ("image", "clip") or given.dtype == "uint8":
        return steps
    low, high = _black_and_white(given)
    unit = (high - low) / 255
    return [normalise(given.name, low, unit), *steps, normalise(given.name, -low / unit, 1 / unit)]


def _black_and_white(given: Input) -> tuple[float, float]:
    """What black and white are: the usual values if the data fills at least half of their range, else its extremes."""
    if given.min is None or given.max is None:  # of sounds, only mean and deviation are known
        low, high = min(given.mean) - 4 * max(given.std), max(given.mean) + 4 * max(given.std)
        return low, high
    low, high = given.min, given.max
    for black, white in _USUAL:
        if black <= low and high <= white and 2 * (high - low) >= white - black:
            return black, white
    return (low, high) if low < high else (low, low + 1)


def _amount(part: str, text: str, default: float) -> float:
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"augment must look like rotate=15, got {part!r}") from None


def _kinds(preparation: Preparation) -> str:
    return ", ".join(f"{given.name} ({given.kind}{_channels(given)})" for given in preparation.inputs)


def _channels(given: Input) -> str:
    return f", channels: {given.shape[-1]}" if given.kind in ("image", "clip") else ""
