"""Raw files to TFRecord datasets that train well, at memory speed.

import bushel

with bushel.Writer("a.tfrecord") as writer:
writer.write({"x": [1.0, 2.0], "label": 3})
bushel.read("a.tfrecord")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Loaded when first used, so that `import bushel` stays fast and reading never loads what writes.
_HOMES = {
    "Batch": "bushel.reading",
    "Bucket": "bushel.reading",
    "BushelError": "bushel.errors",
    "Balance": "bushel.writing",
    "Built": "bushel.writing",
    "BytesColumn": "bushel.columns",
    "Constraint": "bushel.writing",
    "CorruptRecord": "bushel.errors",
    "Dataset": "bushel.reading",
    "Dense": "bushel.reading",
    "Fault": "bushel.errors",
    "Feature": "bushel.schema",
    "Feed": "bushel.reading",
    "FileProblem": "bushel.errors",
    "FormatError": "bushel.errors",
    "Index": "bushel.index",
    "Manifest": "bushel.manifest",
    "MissingName": "bushel.errors",
    "Order": "bushel.reading",
    "Pack": "bushel.reading",
    "Pad": "bushel.reading",
    "Ragged": "bushel.columns",
    "Recipe": "bushel.writing",
    "Report": "bushel.reading",
    "Run": "bushel.writing",
    "Schema": "bushel.schema",
    "SchemaMismatch": "bushel.errors",
    "Sparse": "bushel.reading",
    "SparseColumn": "bushel.columns",
    "SparseRow": "bushel.columns",
    "Split": "bushel.reading",
    "TooManyRefused": "bushel.errors",
    "Workers": "bushel.reading",
    "Writer": "bushel.writing",
    "batches": "bushel.reading",
    "build": "bushel.writing",
    "build_recipe": "bushel.writing",
    "check": "bushel.checking",
    "explain": "bushel.checking",
    "infer_schema": "bushel.survey",
    "costs": "bushel.economy",
    "info": "bushel.survey",
    "load_index": "bushel.index",
    "measure": "bushel.reading",
    "mix": "bushel.reading",
    "open": "bushel.reading",
    "payloads": "bushel.records",
    "plan": "bushel.writing",
    "predict": "bushel.training",
    "provenance": "bushel.writing",
    "read": "bushel.records",
    "read_manifest": "bushel.manifest",
    "repair": "bushel.writing",
    "scan": "bushel.records",
    "evaluate": "bushel.training",
    "train": "bushel.training",
    "write_index": "bushel.index",
}

_ROOMS = ("contract",)  # whole modules that are used by their own names, as in bushel.contract.verify

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 (names of strings, all)


def __getattr__(name: str) -> object:
    import importlib

    if name in _ROOMS:
        return importlib.import_module(f"bushel.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'bushel' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from bushel import contract as contract
    from bushel.checking import check as check
    from bushel.checking import explain as explain
    from bushel.columns import BytesColumn as BytesColumn
    from bushel.columns import Ragged as Ragged
    from bushel.columns import SparseColumn as SparseColumn
    from bushel.columns import SparseRow as SparseRow
    from bushel.economy import costs as costs
    from bushel.errors import BushelError as BushelError
    from bushel.errors import CorruptRecord as CorruptRecord
    from bushel.errors import Fault as Fault
    from bushel.errors import FileProblem as FileProblem
    from bushel.errors import FormatError as FormatError
    from bushel.errors import MissingName as MissingName
    from bushel.errors import SchemaMismatch as SchemaMismatch
    from bushel.errors import TooManyRefused as TooManyRefused
    from bushel.index import Index as Index
    from bushel.index import load_index as load_index
    from bushel.index import write_index as write_index
    from bushel.manifest import Manifest as Manifest
    from bushel.manifest import read_manifest as read_manifest
    from bushel.reading import Batch as Batch
    from bushel.reading import Bucket as Bucket
    from bushel.reading import Dataset as Dataset
    from bushel.reading import Dense as Dense
    from bushel.reading import Feed as Feed
    from bushel.reading import Order as Order
    from bushel.reading import Pack as Pack
    from bushel.reading import Pad as Pad
    from bushel.reading import Report as Report
    from bushel.reading import Sparse as Sparse
    from bushel.reading import Split as Split
    from bushel.reading import Workers as Workers
    from bushel.reading import batches as batches
    from bushel.reading import measure as measure
    from bushel.reading import mix as mix
    from bushel.reading import open as open
    from bushel.records import payloads as payloads
    from bushel.records import read as read
    from bushel.records import scan as scan
    from bushel.schema import Feature as Feature
    from bushel.schema import Schema as Schema
    from bushel.survey import infer_schema as infer_schema
    from bushel.survey import info as info
    from bushel.training import evaluate as evaluate
    from bushel.training import predict as predict
    from bushel.training import train as train
    from bushel.writing import Balance as Balance
    from bushel.writing import Built as Built
    from bushel.writing import Constraint as Constraint
    from bushel.writing import Recipe as Recipe
    from bushel.writing import Run as Run
    from bushel.writing import Writer as Writer
    from bushel.writing import build as build
    from bushel.writing import build_recipe as build_recipe
    from bushel.writing import plan as plan
    from bushel.writing import provenance as provenance
    from bushel.writing import repair as repair
