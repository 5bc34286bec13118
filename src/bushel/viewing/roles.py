"""What a feature is to somebody who looks at it, guessed from its name, its type and some of its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from bushel.data.schema import IMAGE_ENCODINGS, Feature, Schema
from bushel.storage.file_kinds import kind_of_bytes

__all__ = ["ROLES", "Role", "box_sides", "guess_roles", "parse_roles"]

Role: TypeAlias = Literal[
    "image",
    "frames",
    "mask",
    "boxes",
    "keypoints",
    "label",
    "text",
    "tokens",
    "audio",
    "series",
    "embedding",
    "array",
    "number",
    "bytes",
]
ROLES: tuple[str, ...] = get_args(Role)

_LABELS = ("label", "labels", "image/class/label", "class", "target", "y", "category", "class_id", "label_id")
_MASK = re.compile(r"mask|segment|annotation", re.IGNORECASE)
_BOXES = re.compile(r"bbox|boxes|(?:^|[/_])box$", re.IGNORECASE)
_SIDE = re.compile(r"^(?P<before>.*?)(?P<side>[xy]m(?:in|ax))$", re.IGNORECASE)
_KEYPOINTS = re.compile(r"keypoint|landmark", re.IGNORECASE)
_TOKENS = re.compile(r"token|input_ids|word_ids|(?:^|[/_])ids$", re.IGNORECASE)
_AUDIO = re.compile(r"audio|sound|wave|speech|samples$", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed|vector|latent|tfidf|hash", re.IGNORECASE)
_SOUND_KINDS = (b"RIFF", b"fLaC", b"OggS", b"ID3")
_PIXELS = 8  # on a side, from which numbers are pixels
_PLOTTED = 4  # values, from which a list is a line


def guess_roles(schema: Schema, samples: Iterable[Mapping[str, Any]], label: str | None = None) -> dict[str, str]:
    """The role of each feature."""
    seen: dict[str, list[Any]] = {name: [] for name in schema.features}
    for sample in samples:
        for name, value in sample.items():
            seen.setdefault(name, []).append(value)
    return {name: _role(name, schema.features.get(name), seen[name], label) for name in seen}


def parse_roles(text: str, known: Mapping[str, str]) -> dict[str, str]:
    """Roles with those of `name:role,…` in place of the guessed ones; what is unknown is left out."""
    asked = dict(pair.rsplit(":", 1) for pair in text.split(",") if ":" in pair)
    return {**known, **{name: role for name, role in asked.items() if name in known and role in ROLES}}


def box_sides(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Features that hold the sides of boxes in four lists, by what is before `xmin` in their names."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _SIDE.match(name):
            found.setdefault(match["before"], {})[match["side"].lower()] = name
    return {before: sides for before, sides in found.items() if len(sides) == 4}


def _role(name: str, feature: Feature | None, values: list[Any], label: str | None) -> str:
    first: Any = next((value for value in values if value is not None and np.size(value)), None)
    if (name == label or name in _LABELS) and (np.ndim(first) == 0 or np.size(first) == 1):
        return "label"
    if _SIDE.match(name) or (_BOXES.search(name) and _last_side(first) == 4):
        return "boxes"
    if isinstance(first, bytes) or (isinstance(first, list) and first and isinstance(first[0], bytes | list)):
        return _role_of_bytes(name, feature, first)
    if isinstance(first, str) or (isinstance(first, list) and first and isinstance(first[0], str)):
        return "text"
    return _role_of_numbers(name, feature, first)


def _last_side(value: Any) -> int:
    shape = np.shape(value)
    return shape[-1] if shape else 0


def _role_of_bytes(name: str, feature: Feature | None, first: Any) -> str:
    inner = first
    while isinstance(inner, list) and inner:
        inner = inner[0]
    if not isinstance(inner, bytes):
        return _role_of_numbers(name, feature, first)
    kind = kind_of_bytes(inner)
    is_image = kind is not None and kind.name in IMAGE_ENCODINGS
    if is_image or (feature is not None and feature.encoding in IMAGE_ENCODINGS):
        return "frames" if isinstance(first, list) else "mask" if _MASK.search(name) else "image"
    if inner.startswith(_SOUND_KINDS):
        return "audio"
    return "bytes"


def _role_of_numbers(name: str, feature: Feature | None, first: Any) -> str:
    if isinstance(first, dict):
        return "embedding"
    is_list = isinstance(first, list)
    shape: tuple[int, ...] = (len(first), *np.shape(first[0] if first else ())) if is_list else np.shape(first)
    if _KEYPOINTS.search(name) and (shape or name.endswith(("/x", "/y", "_x", "_y"))):
        return "keypoints"
    if not shape:
        return "number"
    is_bytes = feature is not None and feature.dtype == "uint8"
    if len(shape) == 4 and shape[3] in (1, 3, 4) and is_bytes:
        return "frames"
    if len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= _PIXELS:
        return "mask" if _MASK.search(name) else "image"
    if len(shape) == 2 and min(shape) >= _PIXELS and (is_bytes or _MASK.search(name)):
        return "mask" if _MASK.search(name) else "image"
    return _role_of_list(name, shape, first)


def _role_of_list(name: str, shape: tuple[int, ...], first: Any) -> str:
    is_whole = np.asarray(first).dtype.kind in "iu" if not isinstance(first, list) else False
    if len(shape) == 1 and is_whole and _TOKENS.search(name):
        return "tokens"
    if len(shape) <= 2 and _AUDIO.search(name) and shape[0] >= 1000:
        return "audio"
    if len(shape) == 1 and _EMBEDDING.search(name) and shape[0] >= _PIXELS:
        return "embedding"
    if len(shape) == 1:
        return "series" if shape[0] >= _PLOTTED else "array"
    if len(shape) == 2 and shape[1] <= 8 <= shape[0]:
        return "series"
    return "array"
