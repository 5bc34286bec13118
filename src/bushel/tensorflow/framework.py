"""TensorFlow itself, loaded when it is needed, and its names for the types of features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bushel.errors import missing_package
from bushel.schema import BYTES_KIND, FLOAT_KIND, INT_KIND, Feature

__all__ = ["as_graph", "load", "stored_dtype", "value_dtype"]

_STORED = {BYTES_KIND: "string", FLOAT_KIND: "float32", INT_KIND: "int64"}


def load() -> Any:
    """The module `tensorflow`."""
    try:
        import tensorflow
    except ImportError:
        raise missing_package("TensorFlow", extra="tensorflow", purpose="bushel.tensorflow") from None
    return tensorflow


def as_graph(function: Callable[..., Any]) -> Any:
    """A function for `Dataset.map` that is made of ops already, so that no time goes into rewriting its source."""
    return load().autograph.experimental.do_not_convert(function)


def stored_dtype(feature: Feature) -> Any:
    """The type of the list that holds a feature in a record."""
    return load().dtypes.as_dtype(_STORED[feature.kind])


def value_dtype(feature: Feature) -> Any:
    """The type of a feature's values once they are parsed: that of raw tensors is their own."""
    tf = load()
    if feature.encoding == "sparse":
        return tf.dtypes.as_dtype(feature.dtype)
    return tf.dtypes.as_dtype(feature.dtype) if feature.encoding == "raw" else stored_dtype(feature)
