"""Keras models loaded from files, and the framework, which is loaded when first needed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from bushel.errors import FileProblem, missing_package
from bushel.storage import AnyPath, as_path

__all__ = ["as_tensors", "load_keras", "load_model"]


def load_keras(purpose: str) -> Any:
    """The module `keras`."""
    if "keras" in sys.modules:
        return sys.modules["keras"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _without_notes():
        try:
            import keras
        except ImportError:
            raise missing_package("Keras", extra="tensorflow", purpose=purpose) from None
    return keras


def load_model(path: AnyPath, *, purpose: str, compile: bool = False) -> Any:
    """A model that was saved, ready to be called."""
    path = as_path(path)
    if not path.exists():
        raise FileProblem(path, "there is no such model")
    keras = load_keras(purpose)
    try:
        return keras.saving.load_model(path, compile=compile)
    except (ValueError, OSError, TypeError, KeyError) as error:
        raise FileProblem(path, f"Keras cannot load this model: {str(error).splitlines()[0]}") from None


def as_tensors(inputs: Any) -> Any:
    """Inputs as a Keras model takes them: where one is text, all as tensors of TensorFlow's, which alone has text."""
    parts = inputs.values() if isinstance(inputs, dict) else [inputs]
    if not any(isinstance(part, np.ndarray) and part.dtype == object for part in parts):
        return inputs
    import tensorflow as tf

    if isinstance(inputs, dict):
        return {name: tf.convert_to_tensor(part) for name, part in inputs.items()}
    return tf.convert_to_tensor(inputs)


@contextlib.contextmanager
def _without_notes() -> Iterator[None]:
    """Nothing on the terminal from TensorFlow's C++ while it loads: its notes on the CPU come before any setting holds.

    What goes wrong is an exception all the same.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
