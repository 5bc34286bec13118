"""Custom models: a function in a file, a saved model, a name of keras.applications, or a Keras model."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bushel.errors import BushelError, FileProblem, SchemaMismatch, nearest
from bushel.feeding.preparation import Problem
from bushel.keras import load_keras, load_model

__all__ = ["custom_model"]


def custom_model(given: Any, problem: Problem, weights: str | None = None) -> Any:
    """The model from `FILE.py:FUNCTION`, a saved `.keras`, a name of `keras.applications`, a function or a model."""
    keras = load_keras()
    if isinstance(given, keras.Model):
        return given
    if callable(given):
        return _checked(_call(given, problem, getattr(given, "__name__", "model")), "model")
    text = str(given)
    if text in _applications(keras):
        return _application(keras, text, problem, weights)
    path, colon, function = text.rpartition(":")
    if colon and path.endswith(".py"):
        return _checked(_call(_function(Path(path), function), problem, text), text)
    if text.endswith(".py"):
        return custom_model(f"{text}:build_model", problem)
    return _load(Path(text))


def _applications(keras: Any) -> list[str]:
    """The networks of `keras.applications`, by name."""
    return [
        name for name in dir(keras.applications) if name[0].isupper() and callable(getattr(keras.applications, name))
    ]


def _application(keras: Any, name: str, problem: Problem, weights: str | None) -> Any:
    """A network of `keras.applications` with a head for the target; it scales pixels itself.

    With weights from a file, its body is frozen at first, and only the head is trained.
    """
    images = [given for given in problem.inputs if given.kind == "image"]
    if len(problem.inputs) != 1 or not images:
        raise SchemaMismatch("this model takes a single image", at=name, help=["Choose it with columns."])
    if weights is not None and not Path(weights).is_file():
        raise FileProblem(weights, "there is no such file")
    make = getattr(keras.applications, name)
    module = sys.modules[make.__module__]
    height, width, channels = images[0].shape
    inputs = x = keras.Input(images[0].shape)
    if channels == 1:
        x = keras.layers.Concatenate()([x, x, x])
    try:
        body = make(include_top=False, weights=weights, input_shape=(height, width, 3))
    except (ValueError, OSError) as error:
        raise FileProblem(name, f"it failed: {str(error).splitlines()[0]}") from None
    body.trainable = weights is None
    x = body(module.preprocess_input(x), training=False) if weights is not None else body(module.preprocess_input(x))
    x = keras.layers.Dropout(0.2)(keras.layers.GlobalAveragePooling2D()(x))
    activation = {"multi_class": "softmax", "regression": None}.get(problem.target.kind, "sigmoid")
    return keras.Model(inputs, keras.layers.Dense(problem.outputs, activation, dtype="float32")(x), name=name.lower())


def _checked(model: Any, where: str) -> Any:
    if not isinstance(model, load_keras().Model):
        raise FileProblem(where, f"it must return a Keras model, got {type(model).__name__}")
    return model


def _load(path: Path) -> Any:
    if not path.exists():
        close = nearest(str(path), _applications(load_keras()))
        meant = f"; did you mean {close!r}?" if close else ""
        raise FileProblem(
            path,
            f"there is no such model{meant}",
            help=["Give FILE.py:FUNCTION, a saved FILE.keras, or a name of keras.applications."],
        )
    if path.suffix == ".keras" and not (path.is_dir() or zipfile.is_zipfile(path)):
        raise FileProblem(path, "this is not a model saved by Keras")
    with warnings.catch_warnings():
        # A model that was saved before its first step has an optimiser without state, and needs none.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
        return load_model(path, purpose="bushel train", compile=True)


def _function(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise FileProblem(path, "there is no such file")
    spec = importlib.util.spec_from_file_location(f"bushel_model_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its classes can be saved and loaded
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
    """Call the function, with the problem if it takes a parameter."""
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
