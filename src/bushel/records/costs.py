"""What each feature costs in the records, and what would be saved if it were stored otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.samples import Sample
from bushel.data.schema import BYTES_KIND, IMAGE_ENCODINGS, Feature, FeatureStatistics, Schema, read_sidecar
from bushel.pixels.headers import BadImage, parse_header
from bushel.records.files import open_file
from bushel.records.manifest import MANIFEST_NAME, read_manifest
from bushel.records.scan import scan
from bushel.records.survey import schema_of
from bushel.storage import AnyPath, as_path, list_files

__all__ = ["Cost", "Costs", "Saving", "costs"]

_FILES, _RECORDS = 8, 128  # looked at, of each
_MANY = 16  # values from which on it pays to store them otherwise
_ZEROS = 0.9
_ENOUGH = 10  # records of which it means something that they are the same
_WORTH = 0.1, 0.02  # of what the feature costs, and of what all do
_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32")
_READ_AT = (512, 512)  # where nobody says how large images are read


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of one feature."""

    feature: str
    bytes: float  # in a record
    share: float  # of all features


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """What one feature could do without."""

    feature: str
    what: str
    how: str
    bytes: float  # of a record, estimated
    share: float  # of all features


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Of all features, the dearest first."""

    looked_at: int  # records whose values were looked at
    bytes: float  # of all features, in a record
    features: list[Cost]
    savings: list[Saving]


def costs(
    paths: AnyPath | Iterable[AnyPath], *, schema: Schema | None = None, read_at: tuple[int, int] | None = None
) -> Costs:
    """Tell what each feature of a dataset costs, and what would be saved, from a look at some of its records.

    A `schema` with statistics makes costs exact; `read_at` is the height and width that a model reads images at.
    """
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    files = list_files(given)
    declared = _declared(given) or read_sidecar(files[0])
    picked = files[:: max(1, -(-len(files) // _FILES))]
    known = schema if schema is not None and schema.statistics else _surveyed(picked)
    features = declared.features if declared else known.features
    spent = {name: sum(known.statistics[wire].bytes_per_record for wire in _wires(name, known)) for name in features}
    total = sum(spent.values()) or 1.0
    samples = _samples(picked, declared or known) if features else []
    savings = []
    for name, feature in features.items():
        if _describes_image(name, features):  # a build writes it for readers who do not decode
            continue
        values = [sample[name] for sample in samples if name in sample]
        found = _saving(feature, known.statistics.get(name), values, len(samples), spent[name], read_at)
        if found is not None and found[2] >= max(_WORTH[0] * spent[name], _WORTH[1] * total):
            what, how, saved = found
            savings.append(Saving(feature=name, what=what, how=how, bytes=saved, share=saved / total))
    by_cost = sorted(spent, key=lambda name: -spent[name])
    return Costs(
        looked_at=len(samples),
        bytes=sum(spent.values()),
        features=[Cost(feature=name, bytes=spent[name], share=spent[name] / total) for name in by_cost],
        savings=sorted(savings, key=lambda saving: -saving.bytes),
    )


def _declared(given: Sequence[AnyPath]) -> Schema | None:
    """The schema of a manifest: it knows raw tensors and sparse features, which cannot be seen from the bytes."""
    if len(given) != 1 or not (as_path(given[0]) / MANIFEST_NAME).is_file():
        return None
    return read_manifest(given[0]).schema


def _surveyed(files: Sequence[Path]) -> Schema:
    survey = _native.Survey()
    for path in files:
        for chunk in open_file(path).chunks(on_fault=lambda _: None):
            survey.add(chunk.memory, chunk.extents[: 8 * _RECORDS], True)
            break
    return schema_of(survey.result(), other_bytes=0)


def _wires(name: str, known: Schema) -> list[str]:
    """The names that a feature has in the records: its own, or those of the parts of a sparse one."""
    return [wire for wire in (name, f"{name}/indices", f"{name}/values") if wire in known.statistics]


def _samples(files: Sequence[Path], schema: Schema) -> list[Sample]:
    found: list[Sample] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damage is reported elsewhere
        for path in files:
            found += islice(scan(path, schema=schema, on_fault="skip"), _RECORDS)
    return found


def _describes_image(name: str, features: Mapping[str, Feature]) -> bool:
    image, _, what = name.rpartition("/")
    is_image = any(f in features and features[f].encoding in IMAGE_ENCODINGS for f in (image, f"{image}/encoded"))
    return is_image and what in ("channels", "format", "height", "width")


Found = tuple[str, str, float] | None


def _saving(
    feature: Feature,
    seen: FeatureStatistics | None,
    values: list[Any],
    samples: int,
    spent: float,
    read_at: tuple[int, int] | None,
) -> Found:
    """What is dear about a feature, what to do about it, and the bytes of a record that it would save."""
    if not values:
        return None
    if len(values) == samples >= _ENOUGH and _is_constant(values, seen):
        return "constant", "dropping it", spent
    if feature.encoding in IMAGE_ENCODINGS:
        return _large_images(values, spent, read_at)
    if feature.kind == BYTES_KIND and feature.encoding != "raw":
        return None
    numbers = [np.asarray(value).reshape(-1) for value in values if isinstance(value, np.ndarray)]
    count = float(np.mean([array.size for array in numbers])) if numbers else 0.0
    if count < _MANY or feature.encoding == "sparse":
        return None
    flat = np.concatenate(numbers)
    return _zeros(flat, count, spent) or _pixels(flat, count, spent) or _narrow(flat, feature, count, spent)


def _is_constant(values: list[Any], seen: FeatureStatistics | None) -> bool:
    if seen is not None and seen.min is not None and seen.min != seen.max:
        return False
    first = values[0]
    return all(type(value) is type(first) and np.array_equal(value, first) for value in values[1:])


def _large_images(values: list[Any], spent: float, read_at: tuple[int, int] | None) -> Found:
    sizes = []
    frames = (data for value in values[:64] for data in ([value] if isinstance(value, bytes) else value))
    for data in islice(frames, 64):
        try:
            header = parse_header(data)
        except BadImage:
            continue
        sizes.append((header.height, header.width))
    if not sizes:
        return None
    height, width = (int(np.median([size[axis] for size in sizes])) for axis in (0, 1))
    tall, wide = read_at or _READ_AT
    left = tall * wide / max(1, height * width)
    if left > 0.25:
        return None
    said = f"read at {tall} x {wide}" if read_at else f"models seldom read more than {tall} x {wide}; --read-at says"
    return f"images of {height} x {width}, and {said}", f"--resize {tall}x{wide}", spent * (1 - left)


def _zeros(flat: NDArray[Any], count: float, spent: float) -> Found:
    share = float((flat == 0).mean())
    if share < _ZEROS:
        return None
    # An index takes about two bytes, and a value what it took.
    sparse = count * (1 - share) * (2 + spent / count)
    return f"{share:.0%} of its values are 0", "transforms.sparse(...)", spent - sparse


def _pixels(flat: NDArray[Any], count: float, spent: float) -> Found:
    """Floats that are whole numbers of 0 to 255, or those divided by 255."""
    if flat.dtype.kind != "f" or not flat.size or not np.isfinite(flat).all():
        return None
    low, high = float(flat.min()), float(flat.max())
    if low < 0 or high > 255:
        return None
    if (flat == np.rint(flat)).all() and high > 1:
        return f"{flat.dtype} that are whole numbers of 0 to 255", "transforms.cast(..., 'uint8')", spent - count
    scaled = flat.astype(np.float64) * 255
    if high <= 1 and np.abs(scaled - np.rint(scaled)).max() < 1e-3 and len(np.unique(np.rint(scaled))) > 2:
        how = "store uint8, and divide when reading: transforms.normalise"
        return f"{flat.dtype} that are uint8 divided by 255", how, spent - count
    return None


def _narrow(flat: NDArray[Any], feature: Feature, count: float, spent: float) -> Found:
    """Integers whose range fits fewer bytes than they take."""
    if flat.dtype.kind not in "iu":
        return None
    low, high = int(flat.min()), int(flat.max())
    fitting = (name for name in _INTEGERS if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    dtype = np.dtype(next(fitting, "int64"))
    what = f"{feature.dtype} of {low} to {high}, at {spent / count:.1f} bytes each"
    return what, f"transforms.cast(..., '{dtype.name}')", spent - count * dtype.itemsize
