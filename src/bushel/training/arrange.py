"""Columns of a batch as the arrays that a model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import contract
from bushel.errors import SchemaMismatch

__all__ = ["arrange", "as_array"]


def arrange(names: Sequence[str], columns: Mapping[str, Any]) -> Any:
    """The one feature, or a dict of all."""
    arrays = {name: as_array(name, columns[name]) for name in names}
    return arrays[names[0]] if len(names) == 1 else arrays


def as_array(name: str, column: Any) -> NDArray[Any]:
    """A column as the contract says that the model is fed; rows of different lengths are refused."""
    array = contract.as_array(name, column)
    if not isinstance(array, np.ndarray):
        what = type(column).__name__.lower()
        raise SchemaMismatch(f"a model takes arrays, and this is {what}", at=name, help=["Leave it out: --columns"])
    return array
