"""All that a run needs to continue as if it had not been stopped, in one file that is whole or not there."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.errors import FormatError
from bushel.storage import write_whole

__all__ = ["CHECKPOINT", "State", "load_checkpoint", "save_checkpoint"]

CHECKPOINT = "checkpoint.npz"


class State(msgspec.Struct, kw_only=True):
    """Where a run stands, but for the numbers of model and optimiser."""

    epoch: int = 0
    step: int = 0  # of all epochs
    feed: dict[str, int] = {}  # after the last batch that was learned
    sums: dict[str, float] = {}  # of the epoch so far
    history: list[dict[str, Any]] = []
    best_loss: float | None = None
    best_epoch: int = 0
    stale: int = 0  # epochs since the best
    seconds: dict[str, float] = {}
    watched: dict[str, Any] = {}
    stopped: str | None = None  # why, if it ended before its last epoch
    is_over: bool = False


def save_checkpoint(folder: Path, model: Any, state: State, best: list[NDArray[Any]] | None) -> None:
    """Write weights, seeds of random layers, the optimiser, the best weights and the state."""
    arrays = {f"model/{i}": np.asarray(variable) for i, variable in enumerate(model.variables)}
    arrays |= {f"optimiser/{i}": np.asarray(variable) for i, variable in enumerate(model.optimizer.variables)}
    arrays |= {f"best/{i}": array for i, array in enumerate(best or [])}
    arrays["state"] = np.frombuffer(msgspec.json.encode(state), np.uint8)
    with write_whole(folder / CHECKPOINT) as file:
        np.savez(cast("Any", file), **cast("Any", arrays))


def load_checkpoint(folder: Path, model: Any) -> tuple[State, list[NDArray[Any]] | None]:
    """Put model and optimiser back to where a checkpoint was taken."""
    path = folder / CHECKPOINT
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            arrays = {name: file[name] for name in file.files}
        state = msgspec.json.decode(arrays["state"].tobytes(), type=State)
    except (OSError, ValueError, LookupError, ArithmeticError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise FormatError(path, f"not a checkpoint: {error}") from None
    for kind, variables in (("model", model.variables), ("optimiser", model.optimizer.variables)):
        _assign(path, kind, variables, arrays)
    best = [arrays[f"best/{i}"] for i in range(len(model.weights))] if "best/0" in arrays else None
    return state, best


def _assign(path: Path, kind: str, variables: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
    stored = sum(name.startswith(f"{kind}/") for name in arrays)
    if stored != len(variables):
        raise FormatError(path, f"it belongs to another {kind}: {stored} variables, and this one has {len(variables)}")
    for i, variable in enumerate(variables):
        array = arrays[f"{kind}/{i}"]
        if tuple(array.shape) != tuple(variable.shape):
            raise FormatError(
                path, f"it belongs to another {kind}: {variable.path} is {tuple(variable.shape)}, and was {array.shape}"
            )
        variable.assign(array)
