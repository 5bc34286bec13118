"""Values as the page shows them: JSON, pictures and sound. Data is untrusted: what is broken is an error."""

from __future__ import annotations

import hashlib
import io
import math
import os
import threading
import wave
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.roles import box_sides
from bushel.errors import BushelError, MissingName, reason_of
from bushel.parallel import Ahead
from bushel.pixels.codecs import decode_pixels, to_channels
from bushel.pixels.headers import BadImage, parse_header
from bushel.storage import status_of
from bushel.storage.cache import Cache
from bushel.viewing.opened import Opened, OpenedSplit

__all__ = [
    "CannotShow",
    "Wanted",
    "boxes_of",
    "make_picture",
    "make_pictures",
    "make_sound",
    "picture_of",
    "shown_field",
    "shown_value",
    "thumbnail",
]

MOST_PIXELS = 64_000_000  # of an image that is decoded for a thumbnail
_TEXT = 2_000  # characters of a text on a page of many records
_POINTS = 512  # of a line
_VALUES = 64  # of a list that is written out
_HEX = 64  # bytes
_CELLS = 96  # on a side of a heat map
_LARGEST_SHARE = 2.0  # up to which sides of boxes are shares of the image, not pixels
_CACHE_BYTES = 256 << 20
_SOUND = {b"RIFF": "audio/wav", b"fLaC": "audio/flac", b"OggS": "audio/ogg", b"ID3": "audio/mpeg"}
_RATE = 16_000  # of samples whose rate nothing says
_LOUDEST = 30 * 192_000  # samples of a sound that is played
# Colours of classes in masks, readable on light and dark.
_PALETTE = np.array(
    [
        [0, 0, 0, 0],
        [230, 97, 1, 150],
        [94, 60, 153, 150],
        [27, 158, 119, 150],
        [231, 41, 138, 150],
        [55, 126, 184, 150],
        [166, 118, 29, 150],
        [228, 26, 28, 150],
        [77, 175, 74, 150],
    ],
    np.uint8,
)
_SENT_AT_ONCE = 1 << 16  # bytes of pictures
_DECODED_AT_ONCE = 4  # images: each may be large
_DECODING = threading.Semaphore(_DECODED_AT_ONCE)


class CannotShow(BushelError):
    """Why a value cannot be shown as what it is taken for."""


def shown_value(value: Any, role: str, *, is_short: bool = True, names: Sequence[str] = ()) -> dict[str, Any]:
    """One value as JSON: what it is, in words, and what is drawn of it."""
    if role in ("image", "mask", "frames"):
        return _shown_image(value, role)
    if role == "label" and names and isinstance(value, int) and 0 <= value < len(names):
        return {"kind": "text", "text": names[value], "code": value}
    if isinstance(value, str | bytes):
        return _shown_text(value, is_short=is_short)
    if isinstance(value, dict):
        return {"kind": "list", "text": _listed(value.get("values", ())), "count": len(value.get("values", ()))}
    if role == "audio":
        return {"kind": "audio", **_line(value)}
    if isinstance(value, list):
        return _shown_list(value, role)
    if isinstance(value, np.ndarray):
        return _shown_array(value, role)
    return {"kind": "number", "text": _number(value)}


def _shown_image(value: Any, role: str) -> dict[str, Any]:
    if isinstance(value, bytes):
        try:
            header = parse_header(value)
        except (BadImage, ValueError, IndexError, OverflowError) as error:
            return {"kind": "broken", "text": str(error), "bytes": len(value)}
        said = f"{header.width} x {header.height} {header.format}"
        return {"kind": role, "width": header.width, "height": header.height, "text": said, "bytes": len(value)}
    if isinstance(value, list):
        return {"kind": "frames", "count": len(value), "text": f"{len(value):,} frame{'s'[: len(value) != 1]}"}
    shape = np.shape(value)
    if role == "frames" and len(shape) == 4:
        return {"kind": "frames", "count": shape[0], "text": " x ".join(map(str, shape))}
    if len(shape) >= 2:
        return {"kind": role, "width": shape[1], "height": shape[0], "text": " x ".join(map(str, shape))}
    return {"kind": "broken", "text": "it is not an image"}


def _shown_text(value: str | bytes, *, is_short: bool) -> dict[str, Any]:
    if isinstance(value, bytes):
        for signature, kind in _SOUND.items():
            if value.startswith(signature):
                return {"kind": "audio", "text": f"{kind}, {len(value):,} bytes", "bytes": len(value)}
        data = value
        try:
            value = data.decode()
        except UnicodeDecodeError:
            return {"kind": "bytes", "text": data[:_HEX].hex(" "), "bytes": len(data)}
    cut = value[:_TEXT] if is_short else value
    return {"kind": "text", "text": cut, "cut": len(value) - len(cut)}


def _shown_list(value: list[Any], role: str) -> dict[str, Any]:
    if value and all(isinstance(item, str | bytes) for item in value):
        texts = [_shown_text(item, is_short=True)["text"] for item in value[:_VALUES]]
        more = len(value) - len(texts)
        return {"kind": "texts", "texts": texts, "text": " · ".join(texts), "count": len(value), "more": more}
    try:
        return _shown_array(np.asarray(value), role)
    except ValueError:
        return {"kind": "list", "text": f"{len(value):,} steps of different lengths", "count": len(value)}


def _shown_array(value: NDArray[Any], role: str) -> dict[str, Any]:
    facts = {"shape": list(value.shape), "text": _listed(value), "count": int(value.size)}
    if value.dtype.kind not in "iufb" or not value.size:
        return {"kind": "list", **facts}
    if role in ("series", "embedding") or (value.ndim == 1 and value.size >= 8 and role != "tokens"):
        return {"kind": "line", **facts, **_line(value)}
    if value.ndim >= 2 and min(value.shape[:2]) > 1:
        return {"kind": "heat", **facts, **_heat(value)}
    return {"kind": "list", **facts}


def _line(value: Any) -> dict[str, Any]:
    """At most `_POINTS` points of each channel; of more, the lowest and highest of each stretch."""
    array = np.asarray(value, np.float64)
    array = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    channels = []
    for channel in array.T[:8]:
        channels.append([_finite(point) for point in _thinned(channel)])
    found = array[np.isfinite(array)]
    low, high = (float(found.min()), float(found.max())) if found.size else (0.0, 0.0)
    return {"lines": channels, "low": low, "high": high, "steps": len(array)}


def _thinned(channel: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(channel) <= _POINTS:
        return channel
    stretches = np.array_split(channel, _POINTS // 2)
    return np.array([point for part in stretches for point in (part.min(), part.max())])


def _heat(value: NDArray[Any]) -> dict[str, Any]:
    flat = np.asarray(value, np.float64).reshape(value.shape[0], value.shape[1], -1).mean(axis=2)
    rows = flat[np.linspace(0, len(flat) - 1, min(_CELLS, len(flat))).astype(int)]
    cells = rows[:, np.linspace(0, rows.shape[1] - 1, min(_CELLS, rows.shape[1])).astype(int)]
    found = cells[np.isfinite(cells)]
    low, high = (float(found.min()), float(found.max())) if found.size else (0.0, 0.0)
    scaled = np.nan_to_num((cells - low) / ((high - low) or 1.0), nan=0.0, posinf=1.0, neginf=0.0)
    return {"cells": np.rint(scaled * 255).astype(int).tolist(), "low": low, "high": high}


def _finite(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _listed(values: Any) -> str:
    flat = np.ravel(np.asarray(values))
    return ", ".join(map(_number, flat[:_VALUES].tolist())) + (" …" if len(flat) > _VALUES else "")


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shown_field(opened: Opened, name: str, value: Any, role: str, *, is_short: bool) -> dict[str, Any]:
    """One value of a dataset as JSON: labels by the names of their classes, tokens as the words that they stand for."""
    names = opened.classes if name == opened.label else ()
    shown = shown_value(value, role, is_short=is_short, names=names)
    if role == "tokens" and (words := _detokenisers(opened).get(name)) is not None:
        try:
            return {"kind": "text", "text": words(np.ravel(np.asarray(value, np.int64)).tolist()), "ids": shown["text"]}
        except (ValueError, TypeError, OverflowError, KeyError):
            return shown
    return shown


@lru_cache(maxsize=64)
def _detokenisers(opened: Opened) -> dict[str, Callable[[list[int]], str]]:
    """What turns tokens into text, by the features of the dataset that hold tokens which its build made."""
    try:
        transforms = opened.dataset.transforms()
    except (BushelError, ValueError, ImportError, OSError):
        return {}
    found = {}
    for transform in transforms:
        words = detokeniser_of(transform)
        if words is not None:
            found[transform.touches[-1]] = words  # type: ignore[attr-defined]
    return found


def boxes_of(values: Mapping[str, Any], roles: Mapping[str, str]) -> list[dict[str, Any]]:
    """The boxes of a record, in shares of width and height or in pixels; impossible ones are marked."""
    found: list[NDArray[np.float64]] = []
    for sides in box_sides(values).values():
        lists = [np.ravel(np.asarray(values[sides[side]], np.float64)) for side in ("xmin", "ymin", "xmax", "ymax")]
        if len({len(one) for one in lists}) == 1:
            found.append(np.stack(lists, axis=1))
    for name, value in values.items():
        if roles.get(name) == "boxes" and np.ndim(value) >= 1 and np.shape(value)[-1] == 4:
            # TensorFlow Datasets has ymin, xmin, ymax, xmax.
            found.append(np.asarray(value, np.float64).reshape(-1, 4)[:, [1, 0, 3, 2]])
    names = _box_names(values)
    return [
        _box(corners, names[number] if number < len(names) else "", limits)
        for boxes in found
        for limits in [_limits(boxes, values, roles)]
        for number, corners in enumerate(boxes.tolist()[:200])
    ]


def _limits(
    boxes: NDArray[np.float64], values: Mapping[str, Any], roles: Mapping[str, str]
) -> tuple[float, float] | None:
    """The largest x and y of boxes: 1 if they are shares, and the size of the image, if it is known, of pixels."""
    finite = np.abs(boxes[np.isfinite(boxes)])
    if not finite.size or finite.max() <= _LARGEST_SHARE:
        return 1.0, 1.0
    name = next((name for name, role in roles.items() if role == "image" and name in values), None)
    shown = _shown_image(values[name], "image") if name is not None else {}
    return (float(shown["width"]), float(shown["height"])) if "width" in shown else None


def _box(corners: list[float], name: str, limits: tuple[float, float] | None) -> dict[str, Any]:
    left, top, right, bottom = corners
    is_finite = all(map(math.isfinite, corners))
    why = "" if is_finite else "not a number"
    if is_finite and (left >= right or top >= bottom):
        why = "its sides are swapped"
    elif is_finite and (min(corners) < 0 or (limits and (right > 1.001 * limits[0] or bottom > 1.001 * limits[1]))):
        why = "it is out of range"
    return {"at": [value if math.isfinite(value) else 0.0 for value in corners], "name": name, "bad": why}


def points_of(values: Mapping[str, Any], roles: Mapping[str, str]) -> list[list[float]]:
    """Keypoints of a record: pairs of lists `…/x` and `…/y`, or rows of two or three numbers, x first."""
    found: list[list[float]] = []
    for name in [name for name, role in roles.items() if role == "keypoints" and name in values]:
        value = np.asarray(values[name], np.float64) if not isinstance(values[name], list | dict) else np.empty(0)
        other = values.get(f"{name[:-1]}y") if name.endswith(("/x", "_x")) else None
        if other is not None and np.size(other) == value.size:
            found += np.stack([value.ravel(), np.ravel(np.asarray(other, np.float64))], axis=1).tolist()
        elif value.ndim == 2 and value.shape[1] in (2, 3):
            found += value[:, :2].tolist()
    return [point for point in found[:500] if all(map(math.isfinite, point))]


def detokeniser_of(transform: Any) -> Callable[[list[int]], str] | None:
    """What turns the tokens of a transform into text again, if it has its vocabulary."""
    fitted = getattr(transform, "fitted", None)
    if getattr(transform, "unit", None) == "byte":
        return lambda ids: bytes(one - 2 for one in ids if 2 <= one < 258).decode("utf-8", "replace")
    if (tokens := getattr(fitted, "tokens", None)) is not None:
        known = dict(enumerate(tokens, 2))
        return lambda ids: " ".join(known.get(one, "\N{REPLACEMENT CHARACTER}") for one in ids if one)
    if isinstance(fitted, str) and find_spec("tokenizers"):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(fitted)
        return lambda ids: str(tokenizer.decode([one for one in ids if one >= 0]))
    return None


def _box_names(values: Mapping[str, Any]) -> list[str]:
    for name, value in values.items():
        if name.endswith(("class/text", "object/class", "objects/label", "class/label", "bbox/label")):
            items = value if isinstance(value, list) else np.ravel(value).tolist()
            return [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in items]
    return []


def picture_of(value: Any, role: str, frame: int = 0, side: int | None = 256) -> NDArray[np.uint8]:
    """A value as pixels: an encoded image, pixels of any type, one frame of several, or classes of a mask."""
    if isinstance(value, list | np.ndarray) and role == "frames":
        if not 0 <= frame < len(value):
            raise CannotShow(f"there is no frame {frame}")
        value = value[frame]
        while isinstance(value, list) and len(value) == 1:
            value = value[0]
    if isinstance(value, bytes):
        pixels = _decoded(value, side)
        return _coloured(pixels[..., 0]) if role == "mask" and pixels.shape[2] == 1 else pixels
    array = np.asarray(value)
    if array.ndim not in (2, 3) or array.dtype.kind not in "iufb" or not array.size:
        raise CannotShow("it is not an image")
    if array.size > MOST_PIXELS * 4:
        raise CannotShow(f"it has more than {MOST_PIXELS:,} pixels")
    if role == "mask" and (array.ndim == 2 or array.shape[2] == 1):
        return _coloured(array.reshape(array.shape[:2]))
    array = array[..., None] if array.ndim == 2 else array
    return _as_bytes(array[..., :3] if array.shape[2] not in (1, 3, 4) else array)


def _decoded(data: bytes, side: int | None) -> NDArray[np.uint8]:
    try:
        header = parse_header(data)
        if header.width * header.height > MOST_PIXELS:
            raise CannotShow(f"{header.width} x {header.height} is more than {MOST_PIXELS:,} pixels")
        return decode_pixels(data, at_least=(side, side) if side else None, most_pixels=MOST_PIXELS)
    except BadImage as error:
        raise CannotShow(str(error)) from None
    except (ValueError, OSError, SyntaxError, IndexError, OverflowError, MemoryError) as error:
        raise CannotShow(f"it cannot be decoded: {str(error).splitlines()[0] if str(error) else 'damaged'}") from None


def _coloured(classes: NDArray[Any]) -> NDArray[np.uint8]:
    codes = np.asarray(np.nan_to_num(classes.astype(np.float64)), np.int64)
    kept: NDArray[np.uint8] = _PALETTE[np.where(codes <= 0, 0, (codes - 1) % (len(_PALETTE) - 1) + 1)]
    return kept


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Pixels in the range of bytes, from whatever range they are in."""
    if array.dtype == np.uint8:
        return array
    values = np.asarray(array, np.float64)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0
    scaled = np.nan_to_num((values - low) / ((high - low) or 1.0) * 255)
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def encoded(pixels: NDArray[np.uint8], side: int | None) -> tuple[bytes, str]:
    """Pixels as a file for the browser, no larger than `side`; small ones are left as they are."""
    from PIL import Image

    has_alpha = pixels.shape[2] == 4
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else np.ascontiguousarray(pixels))
    if side is not None and max(image.size) > side:
        scale = side / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.NEAREST if has_alpha else Image.Resampling.BILINEAR)
    file = io.BytesIO()
    if has_alpha or image.width * image.height <= 4096:
        image.save(file, "PNG")
        return file.getvalue(), "image/png"
    image.save(file, "JPEG", quality=82)
    return file.getvalue(), "image/jpeg"


@lru_cache(maxsize=1)
def thumbnails() -> Cache:
    """Where thumbnails are kept: in the user's cache, up to a limit."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "bushel" / "thumbnails"
    folder.mkdir(parents=True, exist_ok=True)
    return Cache(folder, _CACHE_BYTES)


def thumbnail(value_of: Callable[[], Any], role: str, side: int | None, frame: int, identity: str) -> tuple[bytes, str]:
    """A picture of a value as a file: from the cache if it is there, where `identity` is the name of the value."""
    kept = hashlib.sha256(f"1\0{identity}\0{role}\0{side}\0{frame}".encode("utf-8", "replace")).hexdigest()[:40]
    if (found := thumbnails().find(kept)) is not None:
        data = bytes(found)
        return data, "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"
    made, kind = encoded(picture_of(value_of(), role, frame, side), side)
    thumbnails().add(kept, made)
    return made, kind


def brightness(value: Any, role: str) -> float:
    """How bright an image is, from 0 to 255."""
    pixels = picture_of(value, role)
    return float(to_channels(pixels, 1).mean()) if pixels.shape[2] in (1, 3, 4) else float(pixels.mean())


def _audio_of(value: Any, rate: int | None = None) -> tuple[bytes, str]:
    """A sound as a file that a browser plays."""
    if isinstance(value, bytes):
        for signature, kind in _SOUND.items():
            if value.startswith(signature):
                return value, kind
        raise CannotShow("it is not a sound that a browser plays")
    samples = np.asarray(value)
    samples = samples.reshape(len(samples), -1) if samples.ndim else samples.reshape(1, 1)
    if samples.size > _LOUDEST or samples.dtype.kind not in "iuf" or samples.shape[1] > 2:
        raise CannotShow("it is not a sound that a browser plays")
    if samples.dtype.kind == "f":
        loudest = float(np.nanmax(np.abs(samples), initial=0.0))
        samples = np.nan_to_num(samples) / max(1.0, loudest) * 32767
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((samples.shape[1], 2, rate or _RATE, 0, "NONE", ""))
        sound.writeframes(np.clip(samples, -32768, 32767).astype("<i2").tobytes())
    return file.getvalue(), "audio/wav"


@dataclass(frozen=True)
class Wanted:
    """Which picture of a record: of one feature, as what it is taken for, and no larger than a side."""

    feature: str
    role: str
    side: int | None
    frame: int = 0


def make_picture(part: OpenedSplit, row: int, wanted: Wanted) -> tuple[bytes, str]:
    """A picture of one feature of a record, and its media type."""
    place = part.place(row)
    status = status_of(part.paths[part.locate(row)[0]])
    identity = f"{place.shard}\0{status.size}\0{status.mtime_ns}\0{status.etag}\0{place.record}\0{wanted.feature}"
    with _DECODING:
        return thumbnail(lambda: _value(part, row, wanted.feature), wanted.role, wanted.side, wanted.frame, identity)


def make_pictures(part: OpenedSplit, rows: Iterable[int], wanted: Wanted) -> Iterator[bytes]:
    """The same of many records: a line of JSON for each, as soon as it is ready."""

    def line(row: int) -> bytes:
        try:
            data, kind = make_picture(part, row, wanted)
        except Exception as error:  # data is untrusted: whatever it breaks is shown
            why = error.message if isinstance(error, BushelError) else reason_of(error)
            return msgspec.json.encode({"row": row, "error": why}) + b"\n"
        return b'{"row":%d,"picture":"data:%s;base64,%s"}\n' % (row, kind.encode(), b64encode(data))

    with Ahead(line, rows, threads=_DECODED_AT_ONCE, ahead=_DECODED_AT_ONCE) as lines:
        piece = b""
        for one in lines:
            piece += one
            if len(piece) >= _SENT_AT_ONCE:
                yield piece
                piece = b""
        yield piece


def make_sound(part: OpenedSplit, row: int, feature: str) -> tuple[bytes, str]:
    """The sound of a feature, and its media type."""
    values = part.record(row).values
    rates = [int(value) for key, value in values.items() if key.endswith("rate") and isinstance(value, int)]
    rate = rates[0] if rates and 1000 <= rates[0] <= 384_000 else None
    return _audio_of(_value(part, row, feature), rate)


def _value(part: OpenedSplit, row: int, name: str) -> Any:
    record = part.record(row)
    if record.problem is not None:
        raise CannotShow(record.problem)
    if name not in record.values:
        raise MissingName("feature", name, record.values, where=f"record {row} of {part.name}")
    return record.values[name]
