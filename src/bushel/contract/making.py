"""The contract of a run, made from the data that its model was trained on."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from bushel import __version__
from bushel.contract.document import (
    Contract,
    Golden,
    StoredArray,
    StoredValue,
    arrange,
    row_value,
    store_array,
    store_bytes,
    store_preparation,
    store_sample,
)
from bushel.data.samples import sample_at
from bushel.data.schema import Schema
from bushel.errors import MissingName
from bushel.feeding.preparation import Input, OutputKind, Preparation, Resizing, Target, as_array
from bushel.reading import Dataset, Split, Workers, batches
from bushel.records.manifest import ARTIFACTS_NAME, MANIFEST_NAME, Manifest
from bushel.storage import as_path
from bushel.transforms import Draw, decode_image, resize

_COLOURS = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_CODECS = ("numpy", "pillow", "simplejpeg")
_LOOKED_AT = 100_000  # labels to search for golden inputs of several classes


def make(
    data: Dataset,
    preparation: Preparation,
    *,
    split: str = "train",
    label: str | None = None,
    golden: int = 4,
    outputs: Callable[[Any], Any] | None = None,
    target: Target | None = None,
    gives: OutputKind | None = None,
) -> Contract:
    """Make the contract of a model that was trained on `data` with this preparation.

    The golden inputs are read by `batches`, as in training, from records of as many classes as possible. `outputs` is
    called with the model's input of one row, and its result is stored too; `gives` says whether these are logits,
    probabilities or numbers. `target` is what the model predicts; by default the label of the manifest.
    """
    chosen = data[split]
    label = target.label if target else label or (chosen.label if chosen.label in chosen.schema else None)
    for name in (*preparation.features, *([label] if label else ())):
        if name not in chosen.schema:
            raise MissingName("feature", name, chosen.schema, where=data.where)
    _refuse_chance(preparation, chosen)
    rows = _golden_rows(chosen, label, golden)
    columns = [name for name in (*preparation.features, label) if name is not None]
    feed = batches(
        chosen if chosen.is_sequential else chosen.select(rows),
        batch_size=1,
        columns=list(dict.fromkeys(columns)),
        transforms=preparation.steps,
        layout=preparation.layout,
        workers=Workers(threads=1, ahead=1),
    )
    with feed:
        seen = [{name: as_array(name, column) for name, column in batch.items()} for batch in islice(feed, len(rows))]
    contract = _described(data, preparation, chosen.schema.select(list(dict.fromkeys(columns))), label)
    inputs = _inputs(preparation, seen, label)
    contract = msgspec.structs.replace(contract, inputs=inputs, gives=gives)
    if target is not None:
        contract = msgspec.structs.replace(
            contract,
            task=target.kind,
            classes=target.classes,
            label_values=target.values,
            label_counts=target.counts,
            label_width=target.width,
        )
    goldens = [_golden(contract, chosen, row, batch, outputs) for row, batch in zip(rows.tolist(), seen, strict=True)]
    return msgspec.structs.replace(contract, golden=goldens)


class _NoChance(Draw):
    """Refuses any draw: a random transform would make a different tensor of the same bytes each time."""

    def generator(self, salt: int = 0) -> np.random.Generator:  # noqa: ARG002
        raise _Drawn

    def uniforms(self, count: int) -> list[float]:  # noqa: ARG002
        raise _Drawn


class _Drawn(Exception):
    pass


def _refuse_chance(preparation: Preparation, split: Split) -> None:
    sample = sample_at(split[:1], split.schema.features, 0)
    for number, step in enumerate(preparation.steps):
        try:
            sample = step.apply(sample, _NoChance(0, 0, 0, number))
        except _Drawn:
            raise ValueError(f"transforms of a contract must not change samples at random, got {step!r}") from None


def _golden_rows(split: Split, label: str | None, count: int) -> Any:
    """Records spread over the split, one of each class before a second of any."""
    count = min(max(count, 1), len(split))
    if split.is_sequential:  # compressed shards are read from their beginning
        return np.arange(count)
    spread = np.linspace(0, len(split) - 1, count).astype(np.int64)
    feature = split.schema.features.get(label) if label else None
    if feature is None or feature.dtype != "int64" or feature.shape != ():
        return spread
    values = np.asarray(split.select(np.arange(min(len(split), _LOOKED_AT))).values(str(label)))
    _, first = np.unique(values, return_index=True)
    rows = np.concatenate([first[np.linspace(0, len(first) - 1, min(len(first), count)).astype(np.int64)], spread])
    return np.array(list(dict.fromkeys(rows.tolist()))[:count], np.int64)


def _described(data: Dataset, preparation: Preparation, schema: Schema, label: str | None) -> Contract:
    """Everything except the inputs and the golden inputs."""
    manifest = data.manifest
    known = manifest.label if manifest and manifest.label and manifest.label.feature == label else None
    described = store_preparation(preparation)
    return Contract(
        schema=msgspec.structs.replace(schema, statistics={}),
        inputs={},
        prepared_by=described,
        label=label,
        task=known.task if known else None,
        classes=list(known.names) if known else [],
        raw=manifest.raw if manifest else None,
        statistics=dict(manifest.statistics) if manifest else {},
        files=_files(data),
        vocabularies={**_artifacts(data), **_word_lists(described)},
        build=dict(manifest.recipe) if manifest else {},
        data=_digest_of(data),
        versions={"bushel": __version__, **_versions(), **_codecs(manifest)},
    )


def _codecs(manifest: Manifest | None) -> dict[str, str]:
    return {f"build/{name}": version for name, version in manifest.versions.items()} if manifest else {}


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in _CODECS}


def _digest_of(data: Dataset) -> str:
    path = as_path(data.where) / MANIFEST_NAME
    return hashlib.sha256(path.read_bytes()).hexdigest() if data.manifest and path.is_file() else ""


def _artifacts(data: Dataset) -> dict[str, str]:
    """The digest of every file that fitting left next to the data."""
    folder = as_path(data.where) / ARTIFACTS_NAME
    if data.manifest is None or not folder.is_dir():
        return {}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def fingerprints_of(statistics: Mapping[str, Any]) -> dict[str, str]:
    """A digest of what each transform learned, including its files, by the transform's id."""
    return {name: hashlib.sha256(_canonical(entry)).hexdigest() for name, entry in statistics.items()}


def _canonical(entry: Any) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(entry), order="deterministic")


def _files(data: Dataset) -> dict[str, StoredArray]:
    """The files that go with what the build's transforms learned."""
    learned = data.manifest.statistics if data.manifest else {}
    names = [name for entry in learned.values() for name in entry.get("artifacts", {})]
    return {name: store_bytes((as_path(data.where) / ARTIFACTS_NAME / name).read_bytes()) for name in names}


def _word_lists(described: Mapping[str, Any]) -> dict[str, str]:
    """The digest of every list of words that a transform carries."""
    found: dict[str, str] = {}
    for number, table in enumerate(described["transforms"]):
        for field, value in _fields_within(table):
            if isinstance(value, list | tuple) and len(value) > 1 and all(isinstance(word, str) for word in value):
                text = "\n".join(value).encode()
                found[f"{number}:{table['transform']}.{field}"] = hashlib.sha256(text).hexdigest()
    return found


def _fields_within(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        found += (
            _fields_within(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
        )
    return found


def _inputs(preparation: Preparation, seen: list[dict[str, Any]], label: str | None) -> dict[str, Input]:
    names = dict.fromkeys(name for batch in seen for name in batch if name != label)  # a row may lack a feature
    chosen = {given.name: given for given in preparation.inputs}
    return {
        name: _measured(
            chosen.get(name, Input(name=name)),
            [row_value(batch[name], 0) for batch in seen if name in batch],
            preparation,
        )
        for name in names
        if not chosen or name in chosen
    }


def _measured(given: Input, values: list[Any], preparation: Preparation) -> Input:
    """An input, with what its golden rows show."""
    if not all(isinstance(value, np.ndarray) for value in values):
        is_one = all(isinstance(value, bytes) for value in values)
        return msgspec.structs.replace(given, dtype="string", shape=() if is_one else (None,))
    shapes = [value.shape for value in values]
    rank = len(shapes[0])
    shape = tuple(shapes[0][axis] if len({shape[axis] for shape in shapes}) == 1 else None for axis in range(rank))
    filled = [value for value in values if value.size]
    channels, resized = _image_facts(given.name, preparation)
    return msgspec.structs.replace(
        given,
        dtype=values[0].dtype.name,
        shape=shape,
        min=min((float(value.min()) for value in filled), default=None),
        max=max((float(value.max()) for value in filled), default=None),
        channels=channels if rank == 3 else None,
        resize=resized,
    )


def _image_facts(name: str, preparation: Preparation) -> tuple[str | None, Resizing | None]:
    """The colours of an image, and the kernel it was resized with, by its transforms."""
    channels = resized = None
    for step in preparation.steps:
        if getattr(step, "feature", None) != name:
            continue
        if isinstance(step, decode_image):
            channels = _COLOURS[step.channels]
        if isinstance(step, resize):
            resized = Resizing(
                height=step.height, width=step.width, kernel=step.kernel, antialias=step.antialias, fit=step.fit
            )
    return channels, resized


def _golden(
    contract: Contract, split: Split, row: int, batch: dict[str, Any], outputs: Callable[[Any], Any] | None
) -> Golden:
    sample = split[row]
    kept = {name: sample[name] for name in contract.preparation.features if name in sample}
    inputs = {name: row_value(batch[name], 0) for name in contract.inputs if name in batch}
    label = None if contract.label is None else batch.get(contract.label)
    return Golden(
        record=f"{split.name}:{row}",
        sample=store_sample(kept),
        inputs={name: _store_input(value) for name, value in inputs.items()},
        label=None if label is None else _store_input(row_value(label, 0)),
        outputs={} if outputs is None else _store_outputs(outputs(arrange(contract, batch))),
    )


def _store_input(value: Any) -> StoredValue:
    if isinstance(value, np.ndarray):
        return StoredValue(array=store_array(value))
    return store_sample({"": value})[""]


def _store_outputs(outputs: Any) -> dict[str, Any]:
    named = outputs if isinstance(outputs, Mapping) else {"output": outputs}
    return {name: store_array(np.asarray(value)[0]) for name, value in named.items()}
