"""From a source to its plan, and the outline of a plan for people."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bushel.building.encode.record_encoding import BlockEncoder
from bushel.building.planning.balancing import balance
from bushel.building.planning.draft import Draft, Frozen, list_source, load_source, make_plan, pickled_source
from bushel.building.planning.plan import Plan
from bushel.building.planning.probe import NothingProbed, PartitionRows, Probe, ReadRows, probe, read_rows
from bushel.building.planning.synthesis import balanced_source
from bushel.building.recipe import Recipe
from bushel.errors import BushelError, MissingName
from bushel.parallel import Helpers, Stopwatch, available_cores, do_all
from bushel.sources.opening import open_any, open_source
from bushel.sources.protocol import Block, Source
from bushel.transforms import Transform
from bushel.transforms.by_name import make_transforms
from bushel.transforms.fitted import check_features, needs_fit

__all__ = ["NothingToAdd", "Outline", "encoder_of", "plan", "plan_build"]


class NothingToAdd(BushelError):
    """An addition whose samples are all in the dataset."""


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a build would make."""

    splits: dict[str, dict[str, int]]  # samples, shards and estimated bytes of each
    classes: dict[str, dict[str, int]]  # samples by split and class
    samples: int
    bytes: int  # estimated
    seconds: float  # estimated
    problems: list[str]
    counted: dict[str, int]


def plan(source: Any, recipe: Recipe | None = None, *, workers: int | None = None) -> Outline:
    """Find out what a recipe would build from a source, reading at most 256 samples.

    `source` is what `build` takes, or None for the source of the recipe.
    """
    recipe = recipe or Recipe()
    source = open_source(recipe.source) if source is None else open_any(source)
    with tempfile.TemporaryDirectory(prefix="bushel-plan-") as folder:
        encoder = encoder_of(source, recipe, make_transforms(recipe.transforms))
        made = plan_build(source, recipe, encoder, Path(folder))
    splits: dict[str, dict[str, int]] = {}
    for shard in made.facts.shards:
        facts = splits.setdefault(shard.split, {"samples": 0, "shards": 0, "bytes": 0})
        for name, count in (("samples", shard.samples), ("shards", 1), ("bytes", shard.bytes)):
            facts[name] += count
    return Outline(
        splits=splits,
        classes=made.facts.label_counts,
        samples=made.samples,
        bytes=made.bytes,
        seconds=made.facts.sample_seconds * made.samples / (workers or available_cores()),
        problems=made.facts.problems,
        counted=made.facts.counted,
    )


def encoder_of(source: Source, recipe: Recipe, transforms: Sequence[Transform]) -> BlockEncoder:
    """The encoder for blocks of the source; a plan adds labels and the schema of records."""
    schema = source.schema()
    augment = make_transforms(recipe.balance.augment) if recipe.balance else []
    check_features([*transforms, *augment], schema.features)
    for name in recipe.constraints:
        if name not in schema and not transforms:
            raise MissingName("feature", name, schema, where="constraints")
    return BlockEncoder(schema, schema, None, dict(recipe.constraints), transforms, recipe.seed, augment)


def plan_build(
    source: Source,
    recipe: Recipe,
    encoder: BlockEncoder,
    folder: Path,
    addition: tuple[Frozen, Any] | None = None,
    helpers: Helpers = None,
    stopwatch: Stopwatch | None = None,
) -> Plan:
    """List the source, decide where each sample goes, probe a few for their size, and write the plan to `folder`."""
    frozen, known = addition or (None, None)
    stage = (stopwatch or Stopwatch()).stage
    with stage("list"):
        listed = list_source(source, recipe, folder, frozen, helpers)
    with stage("plan"):
        draft = make_plan(source, recipe, listed, frozen, known)
        encoder = replace(encoder, labels=listed.labels)
        if not draft.samples():
            raise NothingToAdd("every sample of the source is in the dataset already")
        if recipe.balance is not None:
            balance(draft, folder)
            draft.source = balanced_source(source, folder, draft.originals)
        draft.note_imbalance()
    with stage("probe"):
        looked = _probed(draft, encoder, frozen, _reading(draft.source, folder, helpers))
    with stage("plan"):
        return draft.finish(folder, looked, is_fitted=not any(map(needs_fit, encoder.transforms)))


def _reading(source: Source, folder: Path, helpers: Helpers) -> ReadRows | None:
    """How helpers read rows: images are slow to look at. None without helpers, or for a source that does not pickle."""
    if helpers is None or source.reads != "random" or (pickled := pickled_source(source, folder)) is None:
        return None

    def read(wanted: Sequence[PartitionRows]) -> list[tuple[list[Block], float]]:
        found = do_all(helpers, partial(_read_elsewhere, pickled), wanted)
        pickled.unlink()
        return found

    return read


def _read_elsewhere(pickled: Path, wanted: PartitionRows) -> tuple[list[Block], float]:
    return read_rows(load_source(pickled), wanted)


def _probed(draft: Draft, encoder: BlockEncoder, frozen: Frozen | None, read: ReadRows | None) -> Probe:
    try:
        return probe(draft.to_probe(), encoder, read)
    except NothingProbed:
        if frozen is None:
            raise
    return Probe(frozen.schema, np.ones(len(draft.listed.hashes), np.int64), 0.0)  # the dataset exists without them
