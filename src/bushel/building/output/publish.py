"""Publishing finished shards as a dataset: the manifest comes last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from bushel.building.output.journal import QUARANTINE_NAME, Outcome, join_quarantines, versions
from bushel.building.output.output_folder import BOUNDS_NAME, DESCRIPTION, OutputFolder
from bushel.building.planning.plan import Plan
from bushel.building.recipe import RECIPE_NAME, Recipe, write_recipe
from bushel.building.record_encoding import BlockEncoder
from bushel.data.categories import Labels
from bushel.data.schema import Schema
from bushel.data.splits import TRAIN, find
from bushel.errors import FileProblem
from bushel.records.manifest import (
    ARTIFACTS_NAME,
    Balanced,
    Manifest,
    ShardEntry,
    SplitEntry,
    described_files,
    write_manifest,
)
from bushel.storage import sizes_in, write_whole
from bushel.transforms.fitted import keep

__all__ = ["publish"]


def publish(
    output: OutputFolder, recipe: Recipe, plan: Plan, encoder: BlockEncoder, outcomes: Sequence[Outcome]
) -> Manifest:
    """Write everything that is not a shard, and the manifest last."""
    shards = {outcome.path: outcome for outcome in outcomes if outcome.path}
    _check_shards(output, shards.values())
    tasks = [outcome.task for outcome in outcomes if outcome.refused]
    join_quarantines(
        [output.journal.refused_path(task) for task in tasks],
        output.folder / QUARANTINE_NAME,
        keep=output.manifest is not None,
    )
    learnt = keep(encoder.transforms)
    manifest = msgspec.structs.replace(
        _manifest(output, recipe, plan, encoder.schema, encoder.labels, outcomes),
        statistics=learnt.statistics,
        raw=_raw_schema(encoder),
    )
    _write_artifacts(output, plan, manifest, learnt.files)
    if output.manifest is None:
        write_recipe(output.folder / RECIPE_NAME, recipe)
    _describe(output, manifest)
    write_manifest(output.folder, manifest)
    return manifest


def _describe(output: OutputFolder, manifest: Manifest) -> None:
    """Let TensorFlow Datasets read the dataset too. Descriptions of it before samples were appended are removed."""
    files = described_files(manifest)
    if not files and output.manifest is not None:
        for name in filter(DESCRIPTION.fullmatch, sizes_in(output.target)):
            (output.target / name).unlink()
    for name, data in files.items():
        with write_whole(output.folder / name) as file:
            file.write(data)


def _raw_schema(encoder: BlockEncoder) -> Schema | None:
    """The schema of raw samples, for preparing more like these later."""
    raw = msgspec.structs.replace(encoder.source_schema, statistics={})
    return None if raw.features == encoder.schema.features else raw


def _check_shards(output: OutputFolder, outcomes: Any) -> None:
    sizes = sizes_in(output.target)
    for outcome in outcomes:
        if sizes.get(outcome.path) != outcome.bytes:
            raise FileProblem(
                output.out / outcome.path, "has changed since it was written", help=["Build it again with --overwrite."]
            )


def _manifest(
    output: OutputFolder, recipe: Recipe, plan: Plan, schema: Schema, labels: Labels | None, outcomes: Sequence[Outcome]
) -> Manifest:
    before = output.manifest
    splits = dict(before.splits) if before else {}
    by_path = {outcome.path: outcome for outcome in outcomes if outcome.path}
    for name in dict.fromkeys(shard.split for shard in plan.facts.shards):
        written = [by_path[shard.file_name(recipe.compression)] for shard in plan.facts.shards if shard.split == name]
        splits[name] = _split(splits.get(name), written, plan.facts.shards[0].generation, labels)
    counted = Counter(plan.facts.counted)
    for outcome in outcomes:
        counted.update(outcome.counted)
    train = find(splits, TRAIN)
    return Manifest(
        splits=splits,
        schema=schema,
        label=labels.described(dict(splits[train].label_counts) if train else {}) if labels else None,
        compression=recipe.compression,
        recipe=before.recipe if before else msgspec.to_builtins(recipe),
        seed=recipe.seed,
        balance=_balance(before.balance if before else None, plan.facts.balance),
        refused=sum(outcome.refused for outcome in by_path.values()) + (before.refused if before else 0),
        counted=dict(counted + Counter(before.counted if before else {})),
        narrowed=largest_narrowings(outcomes, before.narrowed if before else {}),
        appended=[*before.appended, recipe.source] if before else [],
        versions=versions(),
        generation=plan.facts.shards[0].generation,
    )


def _balance(before: Balanced | None, added: Balanced | None) -> Balanced | None:
    """What was done to the classes of train, in all generations."""
    if before is None or added is None:
        return before or added
    counts = [dict(Counter(getattr(before, name)) + Counter(getattr(added, name))) for name in ("before", "after")]
    return msgspec.structs.replace(before, before=counts[0], after=counts[1])


def _split(before: SplitEntry | None, written: Sequence[Outcome], generation: int, labels: Labels | None) -> SplitEntry:
    shards = [
        ShardEntry(
            path=outcome.path,
            records=outcome.records,
            bytes=outcome.bytes,
            sha256=outcome.sha256,
            digest=outcome.digest,
            refused=outcome.refused,
            generation=generation,
        )
        for outcome in written
    ]
    counts: Counter[str] = Counter(before.label_counts if before else {})
    for outcome in written:
        counts.update(outcome.label_counts)
    return SplitEntry(shards=[*(before.shards if before else []), *shards], label_counts=_in_order(counts, labels))


def _in_order(counts: Counter[str], labels: Labels | None) -> dict[str, int]:
    if labels is not None and labels.names:
        return {name: counts[name] for name in labels.names if counts[name]}
    return {name: counts[name] for name in sorted(counts, key=int)}


def largest_narrowings(outcomes: Sequence[Outcome], before: dict[str, float]) -> dict[str, float]:
    """The largest narrowing of each feature over all tasks."""
    found = dict(before)
    for outcome in outcomes:
        for name, (by, _) in outcome.narrowed.items():
            found[name] = max(by, found.get(name, 0.0))
    return dict(sorted(found.items()))


def _write_artifacts(output: OutputFolder, plan: Plan, manifest: Manifest, files: dict[str, bytes]) -> None:
    kept: dict[str, Any] = {}
    if plan.facts.bounds:
        kept[BOUNDS_NAME] = plan.facts.bounds
    if manifest.label is not None and manifest.label.names:
        kept["label.json"] = manifest.label.names
    encoded = {name: msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n" for name, value in kept.items()}
    for name, data in {**encoded, **files}.items():
        (output.folder / ARTIFACTS_NAME).mkdir(exist_ok=True)
        with write_whole(output.folder / ARTIFACTS_NAME / name) as file:
            file.write(data)
