"""Samples that come again for balance, each changed in its own way. Encoded images are decoded, and encoded again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bushel.pixels.depth import is_wide
from bushel.records.scan import Sample
from bushel.transforms.encoded import EncodeImage, own_form
from bushel.transforms.image import decoded
from bushel.transforms.protocol import Draw, Transform

__all__ = ["vary"]


def vary(sample: Sample, transforms: Sequence[Transform], draw: Draw) -> Sample:
    """The sample behind transforms, with images encoded as they were; `draw` is the first step's."""
    forms: dict[str, Any] = {}
    for number, transform in enumerate(transforms):
        feature = getattr(transform, "feature", None)
        if isinstance(feature, str) and isinstance(data := sample.get(feature), bytes):
            forms[feature] = own_form(data, feature)
            sample = {**sample, feature: decoded(data, feature, "uint16" if is_wide(data) else "uint8")}
        sample = transform.apply(sample, replace(draw, step=draw.step + number))
    for feature, form in forms.items():
        sample = EncodeImage(feature, form).apply(sample, draw)
    return sample
