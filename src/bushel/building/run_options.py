"""How a build runs: on which workers, and what it may refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bushel.building.engines import Engine, LocalEngine, ProgressHandler
from bushel.building.output.journal import versions
from bushel.building.output.output_folder import OutputFolder
from bushel.building.planning.plan import Plan
from bushel.building.recipe import Recipe, code_of
from bushel.data.categories import hash_values
from bushel.errors import FileProblem, understood
from bushel.parallel import Helpers, available_cores
from bushel.records.manifest import MANIFEST_NAME, Manifest, read_manifest
from bushel.sources.protocol import Source
from bushel.storage import AnyPath, as_path, may_have_changed
from bushel.storage.file_kinds import suffixes_of
from bushel.transforms import Transform
from bushel.transforms.by_name import make_from_data
from bushel.transforms.interface import is_in_core

__all__ = ["Run", "built_before", "check_outside", "check_schema", "helpers_of", "paths_in", "same_recipe"]


_TABLES, _TEXTS = frozenset(suffixes_of("table")), frozenset(suffixes_of("text"))
# What workers that read tables import; no code of users that could need pandas runs in them.
_IMPORTS = ("bushel.building.tasks", "pyarrow.csv", "pyarrow.parquet", "bushel.sources.tables.arrow:spare_pandas")
_SMALL_TABLE = 48 << 20  # bytes that can be read before processes would have started
# Seconds after which workers start: once the source is open, or once the build turns out not to be short.
_OPENED, _LONG_PLAN = 0.05, 0.3


@dataclass(frozen=True, kw_only=True)
class Run:
    """How to build. Nothing here changes a byte of the dataset."""

    workers: int | None = None
    max_bad: int | str | None = None
    strict: bool = False
    check: bool = True
    append: bool = False
    overwrite: bool = False
    engine: Engine | None = None
    progress: ProgressHandler | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        self.allowed(0)

    @contextmanager
    def hired(
        self, source: Mapping[str, Any] | AnyPath | None, transforms: Sequence[Transform] = ()
    ) -> Iterator[Engine]:
        """The engine, for opening the source and everything after; its workers end with the context.

        Local workers, as many as requested or one per core, start while the source is opened and the plan is made; a
        little later if the build may be short. They are threads if a table is small and the core does all of
        `transforms`. On a cluster, a source is opened once all nodes see it, and all of them look through its files.
        """
        engine = self.engine or self._local(_tables_in(source), in_core=all(map(is_in_core, transforms)))
        try:
            if engine.is_remote:
                engine.look(paths_in(source if isinstance(source, Mapping) else {"path": source}), (), versions())
            yield engine
        finally:
            engine.close()

    def _local(self, tables: list[Path], *, in_core: bool) -> LocalEngine:
        table_bytes = sum(path.stat().st_size for path in tables)
        in_threads = in_core and 0 < table_bytes < _SMALL_TABLE
        imports = _IMPORTS if in_core and any(path.suffix.lower() in _TABLES for path in tables) else ()
        engine = LocalEngine(self.workers or available_cores(), in_threads=in_threads, imports=imports)
        later = _OPENED if self.workers else _LONG_PLAN
        engine.start(after=0 if table_bytes >= _SMALL_TABLE else later)
        return engine

    def allowed(self, samples: int) -> int | None:
        """How many of `samples` may be refused before the build stops; None if all may."""
        if self.strict or self.max_bad is None:
            return 0 if self.strict else None
        text = str(self.max_bad).strip()
        try:
            share = float(text[:-1]) / 100 * samples if text.endswith("%") else int(text)
        except ValueError:
            share = -1
        if share < 0:
            raise ValueError(f"max_bad must be a count or a share such as 0.1%, got {self.max_bad!r}")
        return int(share)


def _tables_in(source: Mapping[str, Any] | AnyPath | None) -> list[Path]:
    """The files of text or tables that a source names; none if it names others."""
    if isinstance(source, Mapping):
        source = source.get("path") if "image_column" not in source else None
    paths = [as_path(source)] if isinstance(source, str | PathLike) else []
    return [path for path in paths if path.suffix.lower() in _TABLES | _TEXTS and path.is_file()]


def helpers_of(engine: Engine) -> Helpers:
    """Helpers for looking through many files and rows: a cluster, or workers of this machine that have started."""
    return engine.run if engine.is_remote or (isinstance(engine, LocalEngine) and engine.has_processes) else None


def paths_in(table: Mapping[str, Any]) -> list[Path]:
    """The files, folders and patterns that the table of a source names."""
    named = [table.get(name) for name in ("path", "labels", "image_root")]
    texts = [text for given in named for text in (given if isinstance(given, list | tuple) else [given])]
    return [as_path(text) for text in texts if isinstance(text, str | PathLike)]


def check_outside(source: Source, out: Path) -> None:
    """Refuse to write into the source: the dataset would become part of it."""
    path = source.describe().get("path")
    if not isinstance(path, str | PathLike) or not as_path(path).is_dir():
        return
    inside, folder = out.resolve(), as_path(path).resolve()
    if inside != folder and inside.is_relative_to(folder):
        raise FileProblem(out, f"is inside its own source, {path}", help=["Choose a folder outside of it."])


_KEY_HELP = "The key shows which samples the dataset has already: --key COL"


def same_recipe(output: OutputFolder, recipe: Recipe, source: dict[str, Any]) -> Recipe:
    """The recipe with its source; for an addition, the recipe of the dataset, which it must not contradict."""
    if output.manifest is None:
        return msgspec.structs.replace(recipe, source=source)
    with understood(output.out / MANIFEST_NAME, "its recipe cannot be read"):
        make_from_data(output.manifest.recipe.get("transforms", ()), output.out)  # before files that it names are read
        before = msgspec.convert(output.manifest.recipe, Recipe)
    default = Recipe()
    if source.get("key") != before.source.get("key"):
        raise FileProblem(
            output.out,
            f"was built with key {before.source.get('key')!r}, and what is added must be too",
            help=[_KEY_HELP],
        )
    for name in Recipe.__struct_fields__:
        mine, theirs = getattr(recipe, name), getattr(before, name)
        if name not in ("source", "out", "limit") and mine not in (getattr(default, name), theirs):
            raise FileProblem(
                output.out, f"was built with {name} {theirs!r}, and what is added must be too; got {mine!r}"
            )
    return msgspec.structs.replace(before, source=source, limit=recipe.limit)


def built_before(out: Path, recipe: Recipe, source: Source, transforms: Sequence[Transform]) -> Manifest | None:
    """The manifest of a dataset at `out` that this build would only make again, as far as shows without reading.

    So it is if the recipe is the same, no file of the source is newer, and the source has no other keys.
    """
    described = source.describe()
    if "path" not in described or code_of(transforms) or not (as_path(out) / MANIFEST_NAME).exists():
        return None
    manifest = read_manifest(out)
    same = msgspec.structs.replace(recipe, source=described, out=None)
    if manifest.generation or manifest.versions != versions() or manifest.recipe != msgspec.to_builtins(same):
        return None
    if may_have_changed(paths_in(described), since=as_path(out) / MANIFEST_NAME):
        return None
    is_whole = all((out / s.path).exists() for split in manifest.splits.values() for s in split.shards)
    return manifest if is_whole and (recipe.balance or recipe.limit or _has_same_keys(out, manifest, source)) else None


def _has_same_keys(out: Path, manifest: Manifest, source: Source) -> bool:
    """Whether the dataset has all samples of the source, but for those that were refused."""
    try:
        known = OutputFolder(out, out, manifest).known_keys()
    except FileProblem:
        return False
    keys = np.concatenate([hash_values(source.list(number, []).keys) for number in range(source.partitions())])
    if known is None or len(keys) - len(known) != manifest.refused:
        return False
    return int(np.isin(keys, known).sum()) == len(known)


def check_schema(output: OutputFolder, made: Plan) -> None:
    """Refuse an addition whose features differ from those of the dataset."""
    if output.manifest is None:
        return
    if found := output.manifest.schema.differences(made.facts.schema):
        raise FileProblem(
            output.out,
            f"the samples to add differ from those in the dataset: {found[0]}",
            help=[str(difference) for difference in found[1:3]],
        )
