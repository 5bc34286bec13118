"""Random changes of the train split only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bushel.errors import nearest
from bushel.feeding.preparation import Input, Preparation
from bushel.transforms import (
    brightness,
    contrast,
    cutout,
    hue,
    jitter,
    random_flip,
    random_resized_crop,
    rotate,
    saturation,
    scale,
)

__all__ = ["augmentation_of"]

_LIGHT = "flip,brightness=0.1,contrast=0.1"


def _crop(given: Input, area: float) -> Any:
    height, width = given.shape[0], given.shape[1]
    assert height is not None
    assert width is not None
    return random_resized_crop(given.name, height, width, area=(area, 1.0))


_OF_IMAGES: dict[str, tuple[float, Callable[[Input, float], Any]]] = {
    "flip": (0, lambda given, _: random_flip(given.name)),
    "flips": (0, lambda given, _: random_flip(given.name, vertical=True)),
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


def augmentation_of(text: str | None, preparation: Preparation) -> tuple[Any, ...]:
    """The transforms that a list such as `flip,rotate=15` names, for every input that they fit."""
    if not text:
        return ()
    steps: list[Any] = []
    for part in (_LIGHT if text == "light" else text).split(","):
        name, _, amount = part.strip().partition("=")
        table = _OF_IMAGES if name in _OF_IMAGES else _OF_NUMBERS
        if name not in table:
            known = [*_OF_IMAGES, *_OF_NUMBERS]
            close = nearest(name, known)
            hint = f"; did you mean {close!r}?" if close else ""
            raise ValueError(f"augment must be light, or a list of {', '.join(known)}; got {name!r}{hint}")
        default, make = table[name]
        kinds = ("image",) if table is _OF_IMAGES else ("series", "number")
        fitting = [given for given in preparation.inputs if given.kind in kinds and given.shape]
        if not fitting:
            raise ValueError(f"augment {name!r} does not fit the inputs: {_kinds(preparation)}")
        steps += [make(given, _amount(part, amount, default)) for given in fitting]
    return tuple(steps)


def _amount(part: str, text: str, default: float) -> float:
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"augment must look like rotate=15, got {part!r}") from None


def _kinds(preparation: Preparation) -> str:
    return ", ".join(f"{given.name} ({given.kind})" for given in preparation.inputs)
