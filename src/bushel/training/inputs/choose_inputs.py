"""Which features go into the model and how: chosen from the schema and a sample of the train split."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import BYTES_KIND, IMAGE_ENCODINGS, Feature, Schema
from bushel.errors import MissingName, SchemaMismatch
from bushel.feeding.preparation import Input, InputKind, Preparation
from bushel.feeding.request import is_metadata
from bushel.reading import Pad, Sparse, Split
from bushel.training.inputs.splits import spread
from bushel.transforms import decode_image, resize

__all__ = ["choose_inputs"]


LOOKED_AT = 5000  # records whose values are looked at to choose kinds and to fit what models need
_IMAGES_LOOKED_AT = 64
_MOST_VALUES = 1000  # of a category
_FEW = 20  # different integers that are categories, not amounts
_LONGEST = 512  # steps of a series, tokens of a sequence
_LARGEST = 256  # side of an image that is fed as it is
_USUAL_SIDE = 160
_WIDEST = 100_000  # places of a sparse row that are fed as a dense one


class _Choice:
    """What is chosen, feature by feature."""

    def __init__(self, split: Split, image_size: tuple[int, int] | None) -> None:
        self.split = split
        self.image_size = image_size
        self.rows = spread(split, LOOKED_AT)
        self.inputs: list[Input] = []
        self.features: list[str] = []
        self.transforms: list[Any] = []
        self.layout: list[Any] = []
        self.notes: list[str] = []

    def read(self, *names: str, most: int = LOOKED_AT) -> dict[str, Any]:
        return self.split.read(self.rows[:: max(1, len(self.rows) // most)], list(names))

    def leave_out(self, name: str, why: str) -> None:
        self.notes.append(f"{name!r} is left out: {why}")

    def add(self, given: Input, *, transforms: tuple[Any, ...] = (), layout: tuple[Any, ...] = ()) -> None:
        self.inputs.append(given)
        self.transforms.extend(transforms)
        self.layout.extend(layout)


def choose_inputs(
    split: Split, label: str, *, columns: tuple[str, ...] | None = None, image_size: tuple[int, int] | None = None
) -> tuple[Preparation, list[str]]:
    """Choose the inputs: the features named, or all but the label and those that only describe a record.

    Comes with notes on what was left out or changed.
    """
    schema = split.schema
    choice = _Choice(split, image_size)
    for name in columns or ():
        if name not in schema and f"{name}/indices" not in schema:
            raise MissingName("feature", name, schema, where=split.paths[0])
    sparse = {name.removesuffix("/indices") for name in schema if name.endswith("/indices")}
    sparse = {name for name in sparse if f"{name}/values" in schema}
    for name in _candidates(schema, label, sparse, columns):
        _add_sparse(choice, name) if name in sparse else _add(choice, name, schema[name], asked=columns is not None)
    if not choice.inputs:
        why = f" ({'; '.join(choice.notes)})" if choice.notes else ""
        raise SchemaMismatch(f"there is no feature to learn from{why}", at=str(split.paths[0]))
    preparation = Preparation(
        tuple(choice.features), tuple(choice.transforms), tuple(choice.layout), inputs=tuple(choice.inputs)
    )
    return preparation, choice.notes


def _candidates(schema: Schema, label: str, sparse: set[str], columns: tuple[str, ...] | None) -> Iterator[str]:
    if columns is not None:
        yield from (name for name in columns if name != label)
        return
    parts = {f"{name}/{part}" for name in sparse for part in ("indices", "values")}
    names = [*(name for name in schema if name not in parts), *sparse]
    beside = label.rsplit("/", 1)[0] + "/" if "/" in label else None  # image/class/text beside image/class/label
    for name in sorted(names):
        if name != label and not is_metadata(name, schema) and not (beside and name.startswith(beside)):
            yield name


def _add(choice: _Choice, name: str, feature: Feature, *, asked: bool) -> None:
    before = len(choice.inputs)
    if feature.encoding in IMAGE_ENCODINGS:
        _add_image(choice, name, feature)
    elif feature.encoding == "sparse":
        _add_sparse_feature(choice, name, feature)
    elif feature.kind == BYTES_KIND and feature.encoding == "list":
        _add_text(choice, name, feature)
    elif feature.encoding == "raw" and len(feature.shape) in (3, 4) and feature.dtype == "uint8":
        kind: InputKind = "image" if len(feature.shape) == 3 else "clip"
        choice.add(Input(name=name, kind=kind, shape=feature.shape, dtype="uint8"))
    elif feature.sequence or feature.is_ragged:
        _add_lists(choice, name)
    else:
        _add_numbers(choice, name, feature)
    if len(choice.inputs) > before:
        choice.features.append(name)
    elif asked:
        raise SchemaMismatch(f"cannot be fed to a model: {choice.notes[-1]}", at=name)


def _add_image(choice: _Choice, name: str, feature: Feature) -> None:
    if feature.sequence or feature.shape not in ((), (1,)):
        _add_frames(choice, name)
        return
    sizes, channels = _look_at_images(choice.read(name, most=_IMAGES_LOOKED_AT)[name])
    sides = np.array(sizes)
    is_one_size = (sides == sides[0]).all()
    if choice.image_size is not None:
        height, width = choice.image_size
    elif is_one_size and sides.max() <= _LARGEST:
        height, width = (int(side) for side in sides[0])
    else:
        side = min(_USUAL_SIDE, max(8, round(float(np.median(sides)) / 8) * 8))
        height = width = side
        choice.notes.append(f"{name!r}: images of different or large sizes are resized to {side} x {side}")
    steps: list[Any] = [decode_image(name, channels=channels)]
    if not is_one_size or tuple(sides[0]) != (height, width):
        steps.append(resize(name, height, width))
    given = Input(name=name, kind="image", shape=(height, width, channels), dtype="uint8", min=0.0, max=255.0)
    choice.add(given, transforms=tuple(steps))


def _add_frames(choice: _Choice, name: str) -> None:
    """Clips of encoded frames: as many in each, of one size."""
    column = choice.read(name, most=_IMAGES_LOOKED_AT)[name]
    if not isinstance(column, Ragged) or len(set(column.lengths.tolist())) != 1:
        choice.leave_out(name, "its clips differ in their number of frames")
        return
    sizes, channels = _look_at_images(column.values)
    if len(set(sizes)) != 1 or max(sizes[0]) > _LARGEST:
        choice.leave_out(name, "its frames are large or differ in size; resize them in the build")
        return
    shape = (int(column.lengths[0]), *sizes[0], channels)
    given = Input(name=name, kind="clip", shape=shape, dtype="uint8", min=0.0, max=255.0)
    choice.add(given, transforms=(decode_image(name, channels=channels),))


def _look_at_images(column: Any) -> tuple[list[tuple[int, int]], Literal[1, 3]]:
    from PIL import Image

    sizes, is_grey = [], True
    for data in column:
        try:
            with Image.open(io.BytesIO(data)) as image:
                sizes.append((image.height, image.width))
                is_grey &= image.mode in ("1", "L", "I;16")
        except (OSError, SyntaxError, ValueError):
            continue  # it is found again when it is read, and on_fault decides
    if not sizes:
        raise SchemaMismatch("none of the first images can be opened", at="image")
    return sizes, 1 if is_grey else 3


def _add_text(choice: _Choice, name: str, feature: Feature) -> None:
    column = choice.read(name)[name]
    texts = column.values if isinstance(column, Ragged) else column
    if feature.sequence or feature.shape not in ((), (1,)) or not isinstance(texts, BytesColumn):
        choice.leave_out(name, "it holds lists of text; turn them into tokens in the build")
        return
    if feature.dtype == "bytes" and not _is_text(texts):
        choice.leave_out(name, "it holds bytes that are neither text nor known to be images")
        return
    counts: dict[bytes, int] = {}
    for value in texts:
        counts[value] = counts.get(value, 0) + 1
    words = np.mean([len(value.split()) for value in counts]) if counts else 0.0
    if len(counts) <= min(_MOST_VALUES, max(2, len(texts) // 2)) and words < 8:
        values = [value.decode(errors="replace") for value in sorted(counts, key=lambda v: (-counts[v], v))]
        choice.add(Input(name=name, kind="category", dtype="string", values=values))
    elif words >= 2:
        choice.add(Input(name=name, kind="text", dtype="string"))
    else:
        choice.leave_out(name, f"{len(counts):,} of {len(texts):,} values are different, as with names and ids")


def _is_text(values: BytesColumn) -> bool:
    try:
        for value in values:
            value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _add_lists(choice: _Choice, name: str) -> None:
    """Rows of different lengths: tokens if they are integers, else a series."""
    column = choice.read(name)[name]
    if not isinstance(column, Ragged) or not isinstance(column.values, np.ndarray):
        choice.leave_out(name, "lists of lists cannot be fed")
        return
    longest = min(_LONGEST, max(1, int(column.lengths.max(initial=1))))
    inner = tuple(int(size) for size in column.values.shape[1:])
    if column.values.dtype.kind in "iu" and not inner:
        size = _vocabulary(choice.split, name)
        choice.add(
            Input(name=name, kind="tokens", shape=(longest,), dtype="int64", size=size),
            layout=(Pad(name, length=longest, mask=False),),
        )
        return
    channels = inner or (1,)
    mean, std = _moments(column.values.reshape(-1, *channels).reshape(-1, channels[-1]))
    given = Input(name=name, kind="series", shape=(longest, *inner), mean=mean, std=std)
    choice.add(given, layout=(Pad(name, length=longest, mask=False),))


def _vocabulary(split: Split, name: str) -> int:
    """One more than the largest token of the split."""
    values = split.values(name)
    flat = values.values if isinstance(values, Ragged) else values
    return int(np.max(np.asarray(flat), initial=1)) + 1


def _add_numbers(choice: _Choice, name: str, feature: Feature) -> None:
    column = choice.read(name)[name]
    values = column.values if isinstance(column, Ragged) else column
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        choice.leave_out(name, f"{feature.describe()} is not a number")
        return
    is_scalar = feature.shape in ((), (1,))
    is_integer = values.dtype.kind in "iub" and feature.encoding == "list"
    if is_integer and is_scalar:
        found, counts = np.unique(values, return_counts=True)
        if len(found) <= _FEW and len(found) * 2 <= len(values):
            by_count = found[np.lexsort((found, -counts))].tolist()
            choice.add(Input(name=name, kind="category", dtype="int64", values=by_count))
            return
    if is_integer and len(feature.shape) == 1 and not is_scalar and values.min(initial=0) >= 0 and values.max() > 1:
        size = _vocabulary(choice.split, name)
        choice.add(Input(name=name, kind="tokens", shape=_known(feature), dtype="int64", size=size))
        return
    shape = () if is_scalar and feature.shape == () else _known(feature)
    kind: InputKind = "number" if len(shape) <= 1 else "series" if len(shape) == 2 else "image"
    if len(shape) > 3:
        kind = "clip"
    mean, std = _moments(values.reshape(len(values), -1) if kind == "number" else values.reshape(-1, shape[-1]))
    missing = not feature.required or bool(np.isnan(values.astype(np.float32)).any())
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    choice.add(Input(name=name, kind=kind, shape=shape, mean=mean, std=std, min=low, max=high, has_missing=missing))


def _known(feature: Feature) -> tuple[int, ...]:
    return tuple(size or 1 for size in feature.shape)


def _moments(values: NDArray[Any]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each column, of the finite values; a constant one has 1."""
    finite = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    with np.errstate(all="ignore"):
        mean = np.nan_to_num(np.nanmean(finite, axis=0)) if finite.size else np.zeros(finite.shape[1:])
        std = np.nan_to_num(np.nanstd(finite, axis=0)) if finite.size else np.ones(finite.shape[1:])
    std[std < 1e-7 * np.maximum(1.0, np.abs(mean))] = 1.0
    return [float(value) for value in mean], [float(value) for value in std]


def _add_sparse(choice: _Choice, name: str) -> None:
    column = choice.split.values(f"{name}/indices")
    flat = np.asarray(column.values if isinstance(column, Ragged) else column)
    width = int(np.max(flat, initial=0)) + 1
    _add_wide(choice, name, width, layout=(Sparse(name, width),), columns=(f"{name}/indices", f"{name}/values"))


def _add_sparse_feature(choice: _Choice, name: str, feature: Feature) -> None:
    width = feature.shape[-1] or 0
    _add_wide(choice, name, width, layout=(), columns=())


def _add_wide(choice: _Choice, name: str, width: int, *, layout: tuple[Any, ...], columns: tuple[str, ...]) -> None:
    if width > _WIDEST:
        choice.leave_out(name, f"rows of {width:,} values are too wide to be fed as dense ones")
        return
    choice.add(Input(name=name, kind="sparse", shape=(width,)), layout=layout)
    choice.features.extend(columns)
