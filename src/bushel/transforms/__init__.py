"""Sample to sample, the same at build time and at reading time. Each is a value; several run in the order given.

from bushel import transforms as t

bushel.batches(train, batch_size=64, transforms=[t.decode_image("image"), t.resize("image", 224, 224)])
"""

from __future__ import annotations

from bushel.transforms.augment import (
    brightness,
    contrast,
    cutout,
    hue,
    random_crop,
    random_flip,
    random_resized_crop,
    rotate,
    saturation,
)
from bushel.transforms.encoded import resize_encoded
from bushel.transforms.fitted import apply_all
from bushel.transforms.image import center_crop, decode_image, resize
from bushel.transforms.mixing import cutmix, mixup
from bushel.transforms.numeric import cast, jitter, normalise, scale, window
from bushel.transforms.protocol import BatchTransform, ColumnTransform, Draw, Fit, Fittable, PlacedTransform, Transform

__all__ = [
    "BatchTransform",
    "ColumnTransform",
    "Draw",
    "Fit",
    "Fittable",
    "PlacedTransform",
    "Transform",
    "apply_all",
    "brightness",
    "cast",
    "center_crop",
    "contrast",
    "cutmix",
    "cutout",
    "decode_image",
    "hue",
    "jitter",
    "mixup",
    "normalise",
    "random_crop",
    "random_flip",
    "random_resized_crop",
    "resize",
    "resize_encoded",
    "rotate",
    "saturation",
    "scale",
    "window",
]
