"""Fitted transforms: which can learn next, and how what they learned is stored with a dataset."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bushel.errors import BushelError, FileProblem, MissingName
from bushel.records.manifest import ARTIFACTS_NAME, Manifest
from bushel.storage import AnyPath, as_path, leaves, open_to_read
from bushel.transforms.by_name import name_of
from bushel.transforms.protocol import Fit, Fittable, Kept, Transform

__all__ = [
    "Keepsakes",
    "Layer",
    "check_features",
    "keep",
    "merge_in_order",
    "needs_fit",
    "next_layer",
    "restore",
    "restore_all",
    "touched",
]


def needs_fit(transform: Transform) -> bool:
    """Whether it still has to learn."""
    return isinstance(transform, Fittable) and transform.fitted is None and not getattr(transform, "is_given", False)


class Layer(NamedTuple):
    """One pass over the train split: the transforms, by place, that run in it, and those that learn from it."""

    runs: frozenset[int]
    fits: tuple[int, ...]


def next_layer(transforms: Sequence[Transform]) -> Layer:
    """What the next pass can fit: every transform whose features are not changed by an unfitted one before it.

    A transform that touches a feature of an unfitted transform waits for a later pass, too.
    """
    runs: list[int] = []
    fits: list[int] = []
    waiting: set[str] | None = set()  # features whose values are not known yet; None: all
    for place, transform in enumerate(transforms):
        touches = touched(transform)
        waits = waiting is None or (bool(waiting) and (touches is None or _overlap(touches, waiting)))
        if not waits:
            (fits if needs_fit(transform) else runs).append(place)
        if waits or needs_fit(transform):
            waiting = None if waiting is None or touches is None else waiting | touches
    last = max(fits, default=-1)
    return Layer(frozenset(place for place in runs if place < last), tuple(fits))


def check_features(transforms: Sequence[Transform], known: Iterable[str]) -> None:
    """Refuse a transform of a feature that neither the source nor a transform before it has."""
    names = set(known)
    for transform in transforms:
        touches = touched(transform)
        if touches is None:  # it may make any feature
            return
        feature = getattr(transform, "feature", None)
        if isinstance(feature, str) and feature not in names and not _overlap({feature}, names):
            raise MissingName("feature", feature, sorted(names), where=f"transform {name_of(type(transform))}")
        names |= touches


def touched(transform: Transform) -> set[str] | None:
    """The features that a transform reads or writes; None if unknown."""
    declared = getattr(transform, "touches", None)
    if declared is not None:
        return set(declared)
    feature = getattr(transform, "feature", None)
    return {feature} if isinstance(feature, str) else None


def _overlap(some: set[str], others: set[str]) -> bool:
    """Whether two sets of features have one in common; `image/height` belongs to `image`."""
    pairs = ((one, other) for one in some for other in others)
    return any(one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/") for one, other in pairs)


def merge_in_order(fits: Iterable[Fit]) -> Fit:
    """Merge as a tree, neighbours first, so that rounding does not depend on which fit came first."""
    heights: list[tuple[int, Fit]] = []
    for fit in fits:
        height, merged = 0, fit
        while heights and heights[-1][0] == height:
            merged = heights.pop()[1].merge(merged)
            height += 1
        heights.append((height, merged))
    if not heights:
        raise ValueError("fits must hold at least one, got none")
    merged = heights.pop()[1]
    while heights:
        merged = heights.pop()[1].merge(merged)
    return merged


class Keepsakes(msgspec.Struct, frozen=True):
    """What a chain of transforms learned: plain values by the transform's id, and their files."""

    statistics: dict[str, dict[str, Any]]
    files: dict[str, bytes]


def identity_of(place: int, transform: Transform) -> str:
    """The id of a transform in a manifest: its place in the chain and its name."""
    return f"{place}:{name_of(type(transform))}"


def keep(transforms: Sequence[Transform]) -> Keepsakes:
    """What to store of fitted transforms."""
    found = Keepsakes({}, {})
    for place, transform in enumerate(transforms):
        if not isinstance(transform, Fittable) or transform.fitted is None:
            continue
        values, files = _saved(transform)
        named = {f"{place}-{name_of(type(transform)).rpartition(':')[2]}-{name}": data for name, data in files.items()}
        found.files.update(named)
        entry: dict[str, Any] = {"fitted": values}
        feature = getattr(transform, "feature", None)
        entry |= {"feature": feature} if isinstance(feature, str) else {}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in named.items()}
        entry |= {"artifacts": digests} if digests else {}
        found.statistics[identity_of(place, transform)] = entry
    return found


def _saved(transform: Any) -> tuple[Any, dict[str, bytes]]:
    if isinstance(transform, Kept):
        return transform.save_fitted()
    return msgspec.to_builtins(transform.fitted), {}


def restore(
    transforms: Sequence[Transform], statistics: Mapping[str, Mapping[str, Any]], read: Callable[[str], bytes]
) -> list[Transform]:
    """Transforms with what they learned; `read` returns the bytes of a stored file."""
    found: list[Transform] = []
    for place, transform in enumerate(transforms):
        entry = statistics.get(identity_of(place, transform))
        found.append(transform if entry is None else _restored(transform, place, entry, read))
    return found


def restore_all(transforms: Sequence[Transform], manifest: Manifest, folder: AnyPath) -> list[Transform]:
    """Transforms with what they learned when the dataset in a folder was built."""
    return restore(transforms, manifest.statistics, lambda name: _read_artifact(as_path(folder) / ARTIFACTS_NAME, name))


def _read_artifact(folder: Path, name: str) -> bytes:
    """A file that a manifest names, which may come from anybody."""
    if not name or "/" in name or not name.isprintable() or leaves(folder, name):
        raise FileProblem(folder, f"an artifact must be a file in this folder, got {name!r}")
    with open_to_read(folder / name) as file:
        return file.read()


def _restored(transform: Transform, place: int, entry: Mapping[str, Any], read: Callable[[str], bytes]) -> Transform:
    digests: Mapping[str, str] = entry.get("artifacts", {})
    if not isinstance(transform, Kept):
        return _with_fitted(transform, entry["fitted"])
    prefix = f"{place}-{name_of(type(transform)).rpartition(':')[2]}-"
    files = {}
    for name, digest in digests.items():
        data = read(name)
        if hashlib.sha256(data).hexdigest() != digest:
            raise BushelError(f"{name}: the file is not the one that was fitted: its SHA-256 is another")
        files[name.removeprefix(prefix)] = data
    return transform.load_fitted(entry["fitted"], files)


def _with_fitted(transform: Any, fitted: Any) -> Transform:
    if isinstance(transform, msgspec.Struct):
        kind = type(transform)
        values = {**msgspec.structs.asdict(transform), "fitted": fitted}
        made: Any = msgspec.convert(values, kind, from_attributes=True)
        return made  # type: ignore[no-any-return]
    changed: Transform = dataclasses.replace(transform, fitted=fitted)
    return changed
