"""Custom models: a function in a file, a saved model, or a model that is there already."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bushel.errors import BushelError, FileProblem, nearest
from bushel.feeding.preparation import Problem
from bushel.keras import load_keras, load_model

__all__ = ["custom_model"]


def custom_model(given: Any, problem: Problem) -> Any:
    """The model that `FILE.py:FUNCTION`, a saved `.keras` or a function gives; or the model itself."""
    keras = load_keras()
    if isinstance(given, keras.Model):
        return given
    if callable(given):
        return _checked(_call(given, problem, getattr(given, "__name__", "model")), "model")
    text = str(given)
    path, colon, function = text.rpartition(":")
    if colon and path.endswith(".py"):
        return _checked(_call(_function(Path(path), function), problem, text), text)
    if text.endswith(".py"):
        return custom_model(f"{text}:build_model", problem)
    return _load(Path(text))


def _checked(model: Any, where: str) -> Any:
    if not isinstance(model, load_keras().Model):
        raise FileProblem(where, f"it must return a Keras model, got {type(model).__name__}")
    return model


def _load(path: Path) -> Any:
    if not path.exists():
        raise FileProblem(path, "there is no such model", help=["Give FILE.py:FUNCTION or a saved FILE.keras."])
    if path.suffix == ".keras" and not (path.is_dir() or zipfile.is_zipfile(path)):
        raise FileProblem(path, "this is not a model saved by Keras")
    with warnings.catch_warnings():
        # A model that was saved before its first step has an optimiser without numbers, and needs none.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
        return load_model(path, purpose="bushel train", compile=True)


def _function(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise FileProblem(path, "there is no such file")
    spec = importlib.util.spec_from_file_location(f"bushel_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that classes of it can be saved and loaded
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FileProblem(path, f"it cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        functions = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        close = nearest(name, functions)
        raise FileProblem(path, f"there is no function {name!r}" + (f"; did you mean {close!r}?" if close else ""))
    function: Callable[..., Any] = found
    return function


def _call(function: Callable[..., Any], problem: Problem, where: str) -> Any:
    """Call it with the problem if it takes a parameter, else without."""
    takes = any(
        parameter.default is parameter.empty and parameter.kind in (0, 1)
        for parameter in inspect.signature(function).parameters.values()
    )
    try:
        return function(problem) if takes else function()
    except BushelError:
        raise
    except Exception as error:
        raise FileProblem(where, f"it failed: {type(error).__name__}: {error}") from error
