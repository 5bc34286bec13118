"""Raw files to TFRecord datasets that train well, at memory speed.

    import bushel

    bushel.build("photos/", "data", split="80/10/10")
    train = bushel.open("data")["train"]
    for batch in bushel.batches(train, batch_size=64, order=bushel.Order(shuffle=True, seed=0)):
        batch["image"], batch["label"]

`bushel --help` shows the same as commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Loaded when first used, so that `import bushel` stays fast and reading never loads what writes.
_HOMES = {
    "Batch": "bushel.reading",
    "Bucket": "bushel.reading",
    "BushelError": "bushel.errors",
    "BushelWarning": "bushel.errors",
    "Balance": "bushel.building",
    "Built": "bushel.building",
    "BytesColumn": "bushel.data.columns",
    "Constraint": "bushel.building",
    "CorruptRecord": "bushel.errors",
    "Dataset": "bushel.reading",
    "Dense": "bushel.reading",
    "Engine": "bushel.building.engines",
    "Fault": "bushel.errors",
    "Feature": "bushel.data.schema",
    "Feed": "bushel.reading",
    "FileProblem": "bushel.errors",
    "Finding": "bushel.checking.findings",
    "FormatError": "bushel.errors",
    "Index": "bushel.records.index",
    "Location": "bushel.checking.findings",
    "Listener": "bushel.training.run",
    "Manifest": "bushel.records.manifest",
    "MissingName": "bushel.errors",
    "Options": "bushel.training",
    "Order": "bushel.reading",
    "Pack": "bushel.reading",
    "Pad": "bushel.reading",
    "Ragged": "bushel.data.columns",
    "Recipe": "bushel.building",
    "Report": "bushel.reading",
    "Run": "bushel.building",
    "Schema": "bushel.data.schema",
    "Source": "bushel.sources",
    "SchemaMismatch": "bushel.errors",
    "Sparse": "bushel.reading",
    "SparseColumn": "bushel.data.columns",
    "SparseRow": "bushel.data.columns",
    "Split": "bushel.reading",
    "TooManyRefused": "bushel.errors",
    "Verdict": "bushel.training.verdict.verdict",
    "Transform": "bushel.transforms",
    "Trained": "bushel.training.run_folder",
    "Workers": "bushel.reading",
    "Writer": "bushel.building",
    "batches": "bushel.reading",
    "build": "bushel.building",
    "build_recipe": "bushel.building",
    "check": "bushel.checking",
    "explain": "bushel.checking",
    "export_run": "bushel.training.exporting",
    "Exported": "bushel.exporting",
    "export_dataset": "bushel.exporting",
    "infer_schema": "bushel.records.survey",
    "costs": "bushel.records.survey",
    "info": "bushel.records.survey",
    "join": "bushel.reading",
    "load_index": "bushel.records.index",
    "measure": "bushel.reading",
    "mix": "bushel.reading",
    "open": "bushel.reading",
    "open_raw": "bushel.reading",
    "payloads": "bushel.records.scan",
    "plan": "bushel.building",
    "predict": "bushel.training",
    "predict_rows": "bushel.training.predicting",
    "provenance": "bushel.building",
    "read": "bushel.records.scan",
    "read_manifest": "bushel.records.manifest",
    "repair": "bushel.building",
    "rule": "bushel.checking",
    "scan": "bushel.records.scan",
    "evaluate": "bushel.training",
    "serve": "bushel.training.serving",
    "train": "bushel.training",
    "view": "bushel.viewing.server",
    "write_index": "bushel.records.index",
    "write_report": "bushel.viewing.report_page",
}

# Modules that are used by name, as in bushel.transforms.resize or bushel.tensorflow.dataset.
_MODULES = ("contract", "grain", "jax", "keras", "ray", "sources", "tensorflow", "torch", "transforms")

# Modules of earlier versions, and where their content is now.
_MOVED = {
    "columns": "bushel.data.columns",
    "economy": "bushel.records.survey",
    "files": "bushel.records.files",
    "index": "bushel.records.index",
    "manifest": "bushel.records.manifest",
    "names": "bushel.data.splits",
    "schema": "bushel.data.schema",
    "survey": "bushel.records.survey",
    "writing": "bushel.building",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 (names of strings, all)


def __getattr__(name: str) -> object:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"bushel.{name}")
    if name in _MOVED:
        raise AttributeError(f"bushel.{name} is now {_MOVED[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'bushel' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if TYPE_CHECKING:
    from bushel import contract as contract
    from bushel import grain as grain
    from bushel import jax as jax
    from bushel import keras as keras
    from bushel import ray as ray
    from bushel import sources as sources
    from bushel import tensorflow as tensorflow
    from bushel import torch as torch
    from bushel import transforms as transforms
    from bushel.building import Balance as Balance
    from bushel.building import Built as Built
    from bushel.building import Constraint as Constraint
    from bushel.building import Recipe as Recipe
    from bushel.building import Run as Run
    from bushel.building import Writer as Writer
    from bushel.building import build as build
    from bushel.building import build_recipe as build_recipe
    from bushel.building import plan as plan
    from bushel.building import provenance as provenance
    from bushel.building import repair as repair
    from bushel.building.engines import Engine as Engine
    from bushel.checking import check as check
    from bushel.checking import explain as explain
    from bushel.checking import rule as rule
    from bushel.checking.findings import Finding as Finding
    from bushel.checking.findings import Location as Location
    from bushel.data.columns import BytesColumn as BytesColumn
    from bushel.data.columns import Ragged as Ragged
    from bushel.data.columns import SparseColumn as SparseColumn
    from bushel.data.columns import SparseRow as SparseRow
    from bushel.data.schema import Feature as Feature
    from bushel.data.schema import Schema as Schema
    from bushel.errors import BushelError as BushelError
    from bushel.errors import BushelWarning as BushelWarning
    from bushel.errors import CorruptRecord as CorruptRecord
    from bushel.errors import Fault as Fault
    from bushel.errors import FileProblem as FileProblem
    from bushel.errors import FormatError as FormatError
    from bushel.errors import MissingName as MissingName
    from bushel.errors import SchemaMismatch as SchemaMismatch
    from bushel.errors import TooManyRefused as TooManyRefused
    from bushel.exporting import Exported as Exported
    from bushel.exporting import export_dataset as export_dataset
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
    from bushel.reading import join as join
    from bushel.reading import measure as measure
    from bushel.reading import mix as mix
    from bushel.reading import open as open
    from bushel.reading import open_raw as open_raw
    from bushel.records.index import Index as Index
    from bushel.records.index import load_index as load_index
    from bushel.records.index import write_index as write_index
    from bushel.records.manifest import Manifest as Manifest
    from bushel.records.manifest import read_manifest as read_manifest
    from bushel.records.scan import payloads as payloads
    from bushel.records.scan import read as read
    from bushel.records.scan import scan as scan
    from bushel.records.survey import costs as costs
    from bushel.records.survey import infer_schema as infer_schema
    from bushel.records.survey import info as info
    from bushel.sources import Source as Source
    from bushel.training import Options as Options
    from bushel.training import evaluate as evaluate
    from bushel.training import predict as predict
    from bushel.training import train as train
    from bushel.training.exporting import export_run as export_run
    from bushel.training.predicting import predict_rows as predict_rows
    from bushel.training.run import Listener as Listener
    from bushel.training.run_folder import Trained as Trained
    from bushel.training.serving import serve as serve
    from bushel.training.verdict.verdict import Verdict as Verdict
    from bushel.transforms import Transform as Transform
    from bushel.viewing.report_page import write_report as write_report
    from bushel.viewing.server import view as view
