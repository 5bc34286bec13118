"""Which feature is the label, and what to predict: from the manifest, or from the labels."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn
from bushel.data.schema import FLOAT_KIND, Schema
from bushel.errors import MissingName, SchemaMismatch
from bushel.feeding.preparation import Target, TargetKind, encode_labels, flat_labels, text
from bushel.reading import Split
from bushel.records.manifest import Manifest
from bushel.training.inputs.splits import Splits
from bushel.training.options import TaskName

__all__ = ["choose_target", "describe_target"]

MOST_CLASSES = 10_000
_FEW = 20  # distinct integers up to which they are classes
_DOUBTFUL = 10  # and beyond which the other choice is offered
_USUAL = ("label", "image/class/label", "class", "target", "y")


def _label_of(schema: Schema, split: Split, manifest: Manifest | None, asked: str | None) -> str:
    """The feature that is the label."""
    if asked is not None:
        if asked not in schema:
            raise MissingName("feature", asked, schema, where=split.paths[0])
        return asked
    if manifest is not None and manifest.label is not None:
        return manifest.label.feature
    found = next((name for name in (split.label, *_USUAL) if name in schema), None)
    if found is None:
        raise MissingName("label", split.label, schema, where=split.paths[0])
    return found


def choose_target(splits: Splits, *, label: str | None = None, task: TaskName | None = None) -> Target:
    """The target that the manifest declares, or else the one that the labels suggest."""
    schema, manifest = splits.train.schema, splits.data.manifest
    name = _label_of(schema, splits.train, manifest, label)
    declared = manifest.label if manifest is not None and manifest.label and manifest.label.feature == name else None
    names = list(declared.names) if declared is not None else []
    # A build calls all integers classes; if they have no names, only their values can tell.
    # It calls all lists labels, too, and lists of any floats are numbers.
    is_known = declared is not None and (declared.task == "regression" or bool(names))
    kind = task or (declared.task if declared is not None and is_known else _guess(splits.train, schema, name))
    if kind == "regression":
        width = int(np.prod([size or 1 for size in schema[name].shape])) or 1
        return Target(kind="regression", label=name, width=width)
    made = _multi_label(splits, name, names) if kind == "multi_label" else _classes(splits, name, names)
    return msgspec.structs.replace(made, counts=_count(made, splits.train))


def _guess(split: Split, schema: Schema, name: str) -> TaskName:
    feature = schema[name]
    if feature.is_ragged or feature.sequence:
        return "multi_label"
    if feature.kind == FLOAT_KIND or feature.dtype.startswith("float"):
        return "regression" if not _is_hot(split, name) else "multi_label"
    if feature.shape not in ((), (1,)):
        return "multi_label"
    values = split.values(name)
    if isinstance(values, BytesColumn):
        return "classification"
    return "classification" if _are_classes(flat_labels(name, values)) else "regression"


def _are_classes(values: NDArray[Any]) -> bool:
    """Whether integers are class codes: few, or dense from 0 or 1 and not distributed like a measurement."""
    seen, counts = np.unique(values, return_counts=True)
    if len(seen) <= _FEW:
        return True
    is_dense = seen[0] in (0, 1) and len(seen) >= 0.8 * (seen[-1] - seen[0] + 1)
    return bool(is_dense and len(seen) <= len(values) // 4 and not _is_hill(counts))


def _is_hill(counts: NDArray[Any]) -> bool:
    """Whether neighbouring values are similarly frequent, and those in the middle most, as with ages."""
    smooth = np.convolve(counts, np.ones(3) / 3, mode="valid")
    top = float(smooth.max())
    is_uneven = counts.std() > 0.5 * counts.mean()
    is_inner = smooth[0] < 0.5 * top and smooth[-1] < 0.5 * top
    return bool(is_uneven and is_inner and np.corrcoef(counts[:-1], counts[1:])[0, 1] > 0.5)


def describe_target(target: Target, split: Split) -> str:
    """The task in a few words, and how to choose another one if the labels are ambiguous."""
    if target.kind == "regression":
        values = np.asarray(flat_labels(target.label, split.values(target.label)))
        numbers = f"{target.width} numbers" if target.width > 1 else "numbers"
        words = f"regression of {target.label!r} ({numbers} from {np.nanmin(values):.6g} to {np.nanmax(values):.6g})"
        return f"{words}; for classes: --task classification" if values.dtype.kind in "iu" else words
    words = f"{target.words}, {len(target.classes):,} classes of {target.label!r}"
    is_doubtful = target.is_classes and len(target.classes) > _DOUBTFUL and target.classes[0].lstrip("-").isdigit()
    return f"{words}; if they are numbers: --task regression" if is_doubtful else words


def _is_hot(split: Split, name: str) -> bool:
    """Whether labels are rows of zeros and ones."""
    if split.schema[name].shape in ((), (1,)):
        return False
    values = split.values(name)
    return isinstance(values, np.ndarray) and bool(np.isin(values, (0, 1)).all())


def _classes(splits: Splits, name: str, names: list[str]) -> Target:
    seen = _distinct(splits, name)
    if isinstance(seen, list):
        return Target(kind=_kind(len(seen)), label=name, classes=seen, values=list(seen))
    if names:
        return Target(kind=_kind(len(names)), label=name, classes=names)
    low, high = int(seen.min()), int(seen.max())
    if low >= 0 and high < max(2, 2 * len(seen)):
        return Target(kind=_kind(high + 1), label=name, classes=[str(code) for code in range(max(2, high + 1))])
    values = seen.tolist()
    return Target(kind=_kind(len(values)), label=name, classes=[str(value) for value in values], values=values)


def _kind(classes: int) -> TargetKind:
    return "binary" if classes <= 2 else "multi_class"


def _distinct(splits: Splits, name: str) -> NDArray[np.int64] | list[str]:
    each = [split for split in (splits.train, splits.val, splits.test) if split is not None]
    columns = [flat_labels(name, split.values(name)) for split in each]
    found: NDArray[np.int64] | list[str]
    if isinstance(columns[0], BytesColumn):
        found = sorted({text(value) for column in columns for value in column})
    else:
        found = np.unique(np.concatenate(columns)).astype(np.int64)
    if len(found) > MOST_CLASSES:
        raise SchemaMismatch(
            f"{len(found):,} different labels are too many to be classes",
            at=name,
            help=["To predict numbers: --task regression"],
        )
    if not len(found):
        raise SchemaMismatch("no record has a label", at=name)
    return found


def _multi_label(splits: Splits, name: str, names: list[str]) -> Target:
    feature = splits.train.schema[name]
    if not feature.is_ragged and feature.shape not in ((), (1,)) and _is_hot(splits.train, name):
        width = int(np.prod([size or 1 for size in feature.shape]))
        return Target(kind="multi_label", label=name, classes=names or [str(code) for code in range(width)])
    seen = _distinct(splits, name)
    if isinstance(seen, list):
        return Target(kind="multi_label", label=name, classes=seen, values=list(seen))
    return Target(kind="multi_label", label=name, classes=names or [str(code) for code in range(int(seen.max()) + 1)])


def _count(target: Target, split: Split) -> list[int]:
    labels = encode_labels(target, split.values(target.label))
    if target.kind == "multi_label":
        return [int(count) for count in labels.sum(axis=0)]
    return [int(count) for count in np.bincount(labels, minlength=len(target.classes))]
