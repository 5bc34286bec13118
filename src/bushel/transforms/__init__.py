"""Sample to sample, the same at build time and at reading time. Each is a value; several run in the order given.

from bushel import transforms as t

bushel.batches(train, batch_size=64, transforms=[t.decode_image("image"), t.resize("image", 224, 224)])
"""

from __future__ import annotations

from bushel.transforms.augment import (
    brightness,
    contrast,
    cutmix,
    cutout,
    hue,
    mixup,
    noise,
    random_crop,
    random_flip,
    random_resized_crop,
    rotate,
    saturation,
)
from bushel.transforms.chain import apply_all
from bushel.transforms.classes import encode, multi_hot, one_hot
from bushel.transforms.embeddings import embed, raw
from bushel.transforms.encoded import encode_image, reencode, resize_encoded
from bushel.transforms.image import center_crop, convert_colour, decode_image, resize
from bushel.transforms.missing import fill, require
from bushel.transforms.numbers import bucketise, cast, clip, jitter, log, normalise, scale, window
from bushel.transforms.protocol import BatchTransform, ColumnTransform, Draw, Fit, Fittable, PaintedTransform, Transform
from bushel.transforms.scaling import min_max, robust_scale, standardise
from bushel.transforms.terms import hash_ngrams, sparse, tfidf
from bushel.transforms.texts import clean
from bushel.transforms.tokens import tokenise, tokenise_file

__all__ = [
    "BatchTransform",
    "ColumnTransform",
    "Draw",
    "Fit",
    "Fittable",
    "PaintedTransform",
    "Transform",
    "apply_all",
    "brightness",
    "bucketise",
    "cast",
    "center_crop",
    "clean",
    "clip",
    "contrast",
    "convert_colour",
    "cutmix",
    "cutout",
    "decode_image",
    "embed",
    "encode",
    "encode_image",
    "fill",
    "hash_ngrams",
    "hue",
    "jitter",
    "log",
    "min_max",
    "mixup",
    "multi_hot",
    "noise",
    "normalise",
    "one_hot",
    "random_crop",
    "random_flip",
    "random_resized_crop",
    "raw",
    "reencode",
    "require",
    "resize",
    "resize_encoded",
    "robust_scale",
    "rotate",
    "saturation",
    "scale",
    "sparse",
    "standardise",
    "tfidf",
    "tokenise",
    "tokenise_file",
    "trust",
    "window",
]


from bushel.transforms.by_name import trust
