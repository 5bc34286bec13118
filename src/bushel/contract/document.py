"""`contract.json`: its fields, and reading and writing it. FORMAT.md names every one."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from bushel.contract.preparation import Preparation
from bushel.contract.stored import StoredArray, StoredValue, load_bytes, load_sample
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.samples import Sample
from bushel.data.schema import Schema
from bushel.errors import BushelError, FileProblem, FormatError
from bushel.storage import AnyPath, as_path, open_to_read, write_whole
from bushel.transforms import Transform
from bushel.transforms.by_name import make_transforms
from bushel.transforms.fitted import restore

__all__ = ["CONTRACT_NAME", "Contract", "Golden", "Input", "read", "row_value", "write"]

FORMAT = 1
CONTRACT_NAME = "contract.json"


class Resizing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an image came to its size."""

    height: int
    width: int
    kernel: str = "bilinear"
    antialias: bool = False
    fit: str = "stretch"


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor that the model takes; the range is that of the golden inputs."""

    dtype: str
    shape: tuple[int | None, ...]  # of one row; None is a size that varies
    min: float | None = None
    max: float | None = None
    channels: str | None = None  # order of the last axis of an image: RGB, RGBA or GRAY
    resize: Resizing | None = None


class Golden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record, and exactly what the model saw of it."""

    record: str  # SPLIT:NUMBER
    sample: dict[str, StoredValue]  # the features that are read
    inputs: dict[str, StoredValue]  # one row, without the batch's axis
    label: StoredValue | None = None
    outputs: dict[str, StoredArray] = {}  # of the model, one row


class Contract(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What a model was trained on, and how its inputs came to be."""

    schema: Schema  # of the features that are read, the label included
    inputs: dict[str, Input]  # in the order in which a model that is called with a dict has them
    prepared_by: dict[str, Any]  # a `Preparation`, described
    golden: list[Golden] = []
    label: str | None = None
    task: str | None = None
    classes: list[str] = []  # by code
    raw: Schema | None = None  # what the source of the dataset held, before its transforms
    statistics: dict[str, Any] = {}  # what the transforms of the build learnt, by their id
    files: dict[str, StoredArray] = {}  # that go with them
    vocabularies: dict[str, str] = {}  # SHA-256 by the file in _artifacts, or by the number and field of a transform
    build: dict[str, Any] = {}  # the recipe of the dataset: how raw files became samples
    data: str = ""  # digest of the dataset's manifest
    versions: dict[str, str] = {}
    format: int = FORMAT

    @cached_property
    def preparation(self) -> Preparation:
        """The steps from a sample to the model's input."""
        return Preparation.made(self.prepared_by)

    @cached_property
    def build_transforms(self) -> list[Transform]:
        """The transforms that made records of raw samples, with what they learnt."""
        made = make_transforms(self.build.get("transforms", ()))
        return restore(made, self.statistics, lambda name: load_bytes(self.files[name]))

    def samples(self) -> list[Sample]:
        """The samples of the golden inputs."""
        return [load_sample(golden.sample) for golden in self.golden]


def read(path: AnyPath) -> Contract:
    """Read the contract of a run: its folder, or the file itself."""
    path = as_path(path)
    if path.is_dir():
        if not (path / CONTRACT_NAME).is_file():
            raise FileProblem(path, f"there is no {CONTRACT_NAME} in this folder, so it is no finished run")
        path = path / CONTRACT_NAME
    with open_to_read(path) as file:
        text = file.read()
    try:
        version = msgspec.json.decode(text, type=_Version).format
        if version != FORMAT:
            raise FormatError(
                path,
                f"contract of format {version}; this bushel reads format {FORMAT}",
                help=["Install the bushel that wrote it, or a later one."],
            )
        contract = msgspec.json.decode(text, type=Contract)
        # Made now, so that what is wrong with them is said with the file's name.
        _ = contract.preparation, contract.build_transforms, contract.samples()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(path, f"not a contract: {error}") from None
    except FormatError:
        raise
    except (BushelError, ValueError, KeyError) as error:
        raise FormatError(path, f"not a contract: {error}") from None
    return contract


class _Version(msgspec.Struct):
    format: int


def write(contract: Contract, path: AnyPath) -> None:
    """Write a contract: whole, or not at all."""
    fields = {"format": FORMAT, **msgspec.to_builtins(contract)}
    with write_whole(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(fields), indent=1) + b"\n")


def row_value(column: Any, row: int) -> Any:
    """One row of what a model takes: an array, bytes, or a list of them."""
    value = column[row]
    if isinstance(value, BytesColumn | Ragged):
        return value.to_list()
    return np.asarray(value) if not isinstance(value, bytes | list) else value
