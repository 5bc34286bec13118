"""SRV: the contract of a trained model against the data that it is to see, and against this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bushel import contract as contracts
from bushel.checking.collect.facts import Data
from bushel.checking.findings import Finding, Location, rule
from bushel.contract import Contract, Golden, ServingDifference
from bushel.contract.document import CONTRACT_NAME, fingerprints_of, load_array
from bushel.contract.verifying import compare_classes
from bushel.data.schema import Feature
from bushel.errors import BushelError
from bushel.records.scan import scan
from bushel.storage import AnyPath, as_path

_ROWS = 32  # records that are prepared to see their range
_FEWEST = 8  # values of a row from which on each row has a scale of its own
_OTHER_SCALE = 8.0  # times larger or smaller than golden inputs: another scale, not another picture


@dataclass
class ServingFacts:
    """A contract, and what it is compared with."""

    contract: Contract
    path: str
    data: Data | None
    model: Any = None  # that can be called

    @property
    def place(self) -> list[Location]:
        """The contract's file."""
        return [Location(file=self.path)]

    @cached_property
    def prepared(self) -> dict[str, list[Any]] | BushelError | None:
        """Some records prepared as in training, row by row; the error if they cannot be; None without records."""
        there = self.data.files if self.data is not None else []
        files = [file.path for file in there if file.problem is None and file.records and file.path.exists()]
        if not files:
            return None
        features = list(self.contract.preparation.features)
        schema = self.contract.schema.select(features)
        each = max(1, _ROWS // len(files))
        try:  # read, not opened: that would write an index beside the data
            some = [islice(scan(file, features, schema=schema, on_fault="skip"), each) for file in files[:_ROWS]]
            rows = [contracts.prepare(self.contract, [sample], built=True) for samples in some for sample in samples]
        except BushelError as error:
            return error
        return {name: [row[name] for row in rows if name in row] for name in self.contract.inputs}


def contract_beside(model: Any) -> Path | None:
    """The contract in the folder of a saved model, if there is one."""
    if not isinstance(model, str | Path):
        return None
    found = as_path(model).parent / CONTRACT_NAME
    return found if found.is_file() else None


def look_at_contract(path: AnyPath, data: Data | None, model: Any) -> ServingFacts:
    """Read a contract; `path` is its file, or the folder of a run."""
    found = as_path(path)
    return ServingFacts(contracts.read(path), str(found / CONTRACT_NAME if found.is_dir() else found), data, model)


@rule("SRV001", "golden-inputs-differ", needs="contract")
def golden_inputs_differ(facts: ServingFacts) -> Iterator[Finding]:
    """Golden inputs that come out differently here than in training.

    Why: the model is fed something that it never saw, and answers all the same, only worse. Two resize kernels, or two
    decoders, differ in most bits.
    Example: another version of Pillow or of libjpeg on the serving machine.
    Fix: the versions that the contract names; or `bushel.contract.verify(run, prepare)` with your own function, until
    it finds nothing.
    Ignore: where the largest difference that is named is far below what the model can tell.
    """
    found = contracts.verify(facts.contract)
    if found:
        yield _differing(facts, found, f"of {len(facts.contract.golden)} golden inputs", _versions_help(facts))


def _differing(facts: ServingFacts, found: list[ServingDifference], of: str, help: list[str]) -> Finding:
    return Finding(
        f"{len(found)} {of} differ from training: {found[0]}",
        locations=facts.place,
        evidence={"measured": [str(difference) for difference in found[:5]], "expected": "the same, bit for bit"},
        help=help,
    )


def _versions_help(facts: ServingFacts) -> list[str]:
    import importlib.metadata

    other = []
    for name, version in facts.contract.versions.items():
        if "/" in name or name == "bushel":
            continue
        try:
            here = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            here = "not installed"
        if here != version:
            other.append(f"{name} is {here} here, and was {version} in training")
    return other or ["the versions are those of training: look at the machine and at bushel itself"]


@rule("SRV002", "classes-of-another-order", needs="contract")
def classes_of_another_order(facts: ServingFacts) -> Iterator[Finding]:
    """Data whose class list is not the one that the model was trained with.

    Why: the model's output is a number; under another list it means another class. Accuracy near 0 that says nothing
    of the model.
    Example: a class folder that is missing in the new data, so that all codes after it move by one.
    Fix: build the data with the class list of training: `bushel build --append`, or the names of the contract.
    Ignore: never.
    """
    manifest = facts.data.manifest if facts.data is not None else None
    known, named = facts.contract.classes, list(manifest.label.names) if manifest and manifest.label else []
    if known and named and (what := compare_classes(known, named)):
        yield Finding(
            f"the classes of the data are not those of training: {what}",
            locations=[*facts.place, *_manifest_place(facts)],
            evidence={"measured": named[:20], "expected": known[:20]},
            help=["build the data with the classes of the contract, in their order"],
        )


def _manifest_place(facts: ServingFacts) -> list[Location]:
    assert facts.data is not None
    return [Location(file=str(facts.data.files[0].path.parent / "dataset.json"))] if facts.data.files else []


@rule("SRV003", "features-not-those-of-training", needs="contract")
def features_not_those_of_training(facts: ServingFacts) -> Iterator[Finding]:
    """Data that lacks a feature which the model reads, or holds it in another form.

    Why: it cannot be prepared, or is prepared into something else.
    Example: images stored as raw pixels, where training read JPEGs.
    Fix: build the data with the recipe of the training data, which the contract holds.
    Ignore: where the data is not meant for this model.
    """
    if facts.data is None or not facts.data.records:
        return
    broken = False
    for name in facts.contract.preparation.features:
        expected, found = facts.contract.schema[name], facts.data.features.get(name)
        declared = facts.data.schema.features.get(name) if facts.data.schema is not None else None
        what = _other_feature(expected, found, declared)
        if what is not None:
            broken = True
            yield Finding(
                f"{name!r} {what}; the model was trained on {expected.describe()}",
                locations=[*facts.place, Location(feature=name)],
                evidence={"measured": what, "expected": expected.describe(), "subject": name},
                help=["build the data with the recipe of the training data (`build` in the contract)"],
            )
    if not broken and isinstance(facts.prepared, BushelError):
        yield Finding(
            f"records cannot be prepared as in training: {facts.prepared.message}",
            locations=facts.place,
            evidence={"measured": facts.prepared.message},
            help=["build the data with the recipe of the training data (`build` in the contract)"],
        )


def _other_feature(expected: Feature, found: Any, declared: Feature | None) -> str | None:
    if found is None:
        return "is missing" if expected.required else None
    if found.kind != expected.kind:
        return f"holds {found.dtype}"
    if declared is not None and (declared.encoding == "raw") != (expected.encoding == "raw"):
        return f"is {declared.describe()}"
    return None


@rule("SRV004", "fitted-again", needs="contract")
def fitted_again(facts: ServingFacts) -> Iterator[Finding]:
    """Data whose vocabulary or statistics were fitted again, and differ from those of training.

    Why: token 17 is another word, and a normalised 0 another value: 80 % in training, 35 % after reload.
    Example: the test set built on its own, with a mean and a vocabulary of its own.
    Fix: build all splits in one build, or give the build the fitted values of training.
    Ignore: never.
    """
    manifest = facts.data.manifest if facts.data is not None else None
    if manifest is None or facts.data is None:
        return
    before = fingerprints_of(facts.contract.statistics)
    for name, digest in fingerprints_of(manifest.statistics).items():
        if name in before and before[name] != digest:
            feature = manifest.statistics[name].get("feature")
            yield Finding(
                f"what {name.partition(':')[2] or name} learnt of {feature!r} is not what it learnt in training",
                locations=[*facts.place, *_manifest_place(facts)],
                evidence={"measured": digest[:16], "expected": before[name][:16], "subject": name},
                help=["build the data with what was fitted in training, in one build with the train split"],
            )


@rule("SRV005", "inputs-of-another-range", severity="warning", needs="contract")
def inputs_of_another_range(facts: ServingFacts) -> Iterator[Finding]:
    """Records whose prepared inputs are many times larger or smaller than those of training.

    Inputs of many values are compared with the golden inputs row by row, single numbers with the contract's range.

    Why: the data was scaled before it was stored, or was in training and is not here.
    Example: pixels stored as 0..1, prepared by dividing by 255 once more: nearly black.
    Fix: store what the training data stored.
    Ignore: where values of this feature really span several scales.
    """
    found = list(_other_ranges(facts))
    if not found:
        return
    name, measured, expected = found[0]
    more = f"; {len(found) - 1} more of {len(facts.contract.inputs)} inputs also differ" if len(found) > 1 else ""
    yield Finding(
        f"{name!r} prepared from this data goes up to {measured:.4g}, and in training up to {expected:.4g}{more}",
        confidence="likely",
        locations=[*facts.place, *(Location(feature=name) for name, _, _ in found)],
        evidence={
            "measured": {name: measured for name, measured, _ in found},
            "expected": {name: expected for name, _, expected in found},
            "subject": name,
        },
        help=["look at whether the data was scaled before it was stored"],
    )


def _other_ranges(facts: ServingFacts) -> Iterator[tuple[str, float, float]]:
    """Inputs by name, with how large they are here and were in training, where these are of another scale."""
    prepared = facts.prepared
    for name, rows in prepared.items() if isinstance(prepared, dict) else ():
        golden = [_size(array) for g in facts.contract.golden if (array := _array_of(g, name)) is not None]
        here = [_size(row) for row in rows]
        known = facts.contract.inputs[name]
        is_short = all(np.asarray(row).size < _FEWEST for row in rows)
        if not golden or not here or 0.0 in (expected := float(np.median(golden)), measured := float(np.median(here))):
            continue
        if is_short:  # rows differ in scale: only what no row of training came near to is news
            expected = max(abs(known.min or 0.0), abs(known.max or 0.0))
            measured = measured if measured > expected else max(here)
        if expected and not 1 / _OTHER_SCALE < measured / expected < _OTHER_SCALE:
            yield name, measured, expected


def _array_of(golden: Golden, name: str) -> Any:
    stored = golden.inputs.get(name)
    return load_array(stored.array) if stored is not None and stored.array is not None else None


def _size(values: Any) -> float:
    """The largest finite value of a vector or an image, without its sign; 0 for what has no scale of its own."""
    array = np.asarray(values)
    if array.dtype.kind != "f" and array.dtype != np.uint8:
        return 0.0
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


@rule("SRV006", "outputs-differ", needs="contract")
def outputs_differ(facts: ServingFacts) -> Iterator[Finding]:
    """A model that answers the golden inputs differently from the trained one.

    Why: it is another model, or was changed in export: what was evaluated is not what is served.
    Example: weights of an earlier epoch, and the contract of the last.
    Fix: serve the model from the folder of the contract.
    Ignore: for a model that was trained further on purpose.
    """
    if facts.model is None or not any(golden.outputs for golden in facts.contract.golden):
        return
    before = {str(difference) for difference in contracts.verify(facts.contract)}
    found = [d for d in contracts.verify(facts.contract, model=facts.model) if str(d) not in before]
    if found:
        help = ["serve the model from the folder of the contract"]
        yield _differing(facts, found, "outputs of golden inputs", help)
