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
    "BushelError": "bushel.errors",
    "BytesColumn": "bushel.columns",
    "CorruptRecord": "bushel.errors",
    "Fault": "bushel.errors",
    "Feature": "bushel.schema",
    "FileProblem": "bushel.errors",
    "FormatError": "bushel.errors",
    "Index": "bushel.index",
    "Manifest": "bushel.manifest",
    "MissingName": "bushel.errors",
    "Ragged": "bushel.columns",
    "Schema": "bushel.schema",
    "SchemaMismatch": "bushel.errors",
    "Writer": "bushel.writing",
    "check": "bushel.checking",
    "explain": "bushel.checking",
    "infer_schema": "bushel.survey",
    "info": "bushel.survey",
    "load_index": "bushel.index",
    "payloads": "bushel.records",
    "read": "bushel.records",
    "read_manifest": "bushel.manifest",
    "repair": "bushel.writing",
    "scan": "bushel.records",
    "write_index": "bushel.index",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 (names of strings, all)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bushel' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from bushel.checking import check as check
    from bushel.checking import explain as explain
    from bushel.columns import BytesColumn as BytesColumn
    from bushel.columns import Ragged as Ragged
    from bushel.errors import BushelError as BushelError
    from bushel.errors import CorruptRecord as CorruptRecord
    from bushel.errors import Fault as Fault
    from bushel.errors import FileProblem as FileProblem
    from bushel.errors import FormatError as FormatError
    from bushel.errors import MissingName as MissingName
    from bushel.errors import SchemaMismatch as SchemaMismatch
    from bushel.index import Index as Index
    from bushel.index import load_index as load_index
    from bushel.index import write_index as write_index
    from bushel.manifest import Manifest as Manifest
    from bushel.manifest import read_manifest as read_manifest
    from bushel.records import payloads as payloads
    from bushel.records import read as read
    from bushel.records import scan as scan
    from bushel.schema import Feature as Feature
    from bushel.schema import Schema as Schema
    from bushel.survey import infer_schema as infer_schema
    from bushel.survey import info as info
    from bushel.writing import Writer as Writer
    from bushel.writing import repair as repair
