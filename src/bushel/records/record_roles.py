"""What a dataset of TFRecords is: the account that every command takes of it, from its first records."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from bushel.data.roles import LABEL_NAMES, Account, take_account
from bushel.data.schema import Schema
from bushel.data.splits import split_of_file, train_first
from bushel.errors import BushelError
from bushel.records.files import open_file
from bushel.records.manifest import Manifest
from bushel.records.scan import scan

__all__ = ["account_of", "count_levels", "first_samples", "key_feature"]

LOOKED_AT = 256  # records
_MOST_BYTES = 16 << 20  # of them
_LARGEST = 4 << 20  # pixels of an image that is decoded to count its levels


def account_of(
    paths: Iterable[Path],
    schema: Schema | None = None,
    manifest: Manifest | None = None,
    *,
    label: str | None = None,
    group: str | None = None,
    declared: str | None = None,
) -> Account:
    """What the features of records are. It is the same for every command, because all look at the same records.

    A build that was given no label has said that there is none: then no name is taken for one. `declared` is the label
    of data without a manifest.
    """
    samples = first_samples(paths, schema)
    if manifest is not None and manifest.label is not None:
        declared = manifest.label.feature
    source: Mapping[str, Any] = manifest.recipe.get("source", {}) if manifest is not None else {}
    return take_account(
        schema or Schema(features={}),
        samples,
        label=label,
        declared=declared,
        key=key_feature(source) if manifest is not None else None,
        group=group,
        names=() if source else LABEL_NAMES,
        levels_of=count_levels,
    )


def key_feature(source: Mapping[str, Any]) -> str:
    """The feature that is the key of what is built from a source, by the table of that source."""
    key = source.get("key")
    return str(source.get("rename", {}).get(key, key)) if key else "key"


def first_samples(paths: Iterable[Path], schema: Schema | None = None) -> list[dict[str, Any]]:
    """The first records of the train split that can be read, in the order of its file."""
    for path in sorted(paths, key=lambda path: train_first(split_of_file(path) or "train")):
        for how in (schema, None):  # records that do not fit their schema are looked at as they are
            try:
                found = _read_some(path, how)
            except (BushelError, OSError, ValueError):
                continue
            if found:
                return found
    return []


def _read_some(path: Path, schema: Schema | None) -> list[dict[str, Any]]:
    size = next(iter(open_file(path).chunks(on_fault=lambda _: None)), None)
    if size is None or not len(size.extents):
        return []
    ends = size.extents[:, 1].cumsum()
    most = max(1, min(LOOKED_AT, int((ends <= _MOST_BYTES).sum())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [dict(sample) for sample in islice(scan(path, schema=schema, on_fault="skip"), most)]


def count_levels(data: bytes) -> int | None:
    """How many levels of grey or indexes of a palette an image has; more than 256 if it is in colour."""
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > _LARGEST:
                return None
            return 257 if image.mode not in ("1", "L", "P") else len(image.getcolors(256) or ())
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
