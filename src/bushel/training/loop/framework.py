"""Keras and TensorFlow, loaded when a run begins, and what is set in them for its time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from bushel.errors import missing_package
from bushel.training.options import Options

__all__ = ["is_tensorflow", "load_keras", "load_quietly", "load_tensorflow", "settings_for", "strategy_of"]


def load_keras() -> Any:
    """The module `keras`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # its notes on the CPU are no findings
    try:
        import keras
    except ImportError:
        raise missing_package("Keras", extra="tensorflow", purpose="bushel train") from None
    return keras


def load_quietly() -> None:
    """Load the frameworks without the notes on the processor that they print from C++, whatever they are told."""
    null, kept = os.open(os.devnull, os.O_WRONLY), os.dup(2)
    os.dup2(null, 2)
    try:
        if is_tensorflow():
            tf = load_tensorflow()
            tf.linalg.matmul(tf.zeros([1, 1]), tf.zeros([1, 1]))  # the last of them come with the first operation
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def load_tensorflow() -> Any:
    """The module `tensorflow`."""
    try:
        import tensorflow
    except ImportError:
        raise missing_package("TensorFlow", extra="tensorflow", purpose="bushel train") from None
    return tensorflow


def is_tensorflow() -> bool:
    """Whether Keras runs on TensorFlow, whose steps can be compiled here and logged for TensorBoard."""
    return str(load_keras().backend.backend()) == "tensorflow"


@contextlib.contextmanager
def settings_for(options: Options) -> Iterator[None]:
    """Seed, precision and determinism for the time of a run; afterwards as they were, but for the seed."""
    keras = load_keras()
    keras.utils.set_random_seed(options.seed)
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(options.precision)
    with _determinism() if options.deterministic and is_tensorflow() else contextlib.nullcontext():
        try:
            yield
        finally:
            keras.mixed_precision.set_dtype_policy(policy)


@contextlib.contextmanager
def _determinism() -> Iterator[None]:
    load_tensorflow()
    from tensorflow.python.framework import config  # the public module can only enable it

    before = config.is_op_determinism_enabled()
    config.enable_op_determinism()
    try:
        yield
    finally:
        if not before:
            config.disable_op_determinism()


def strategy_of(options: Options) -> Any:
    """How the model is spread over devices; None: not at all."""
    if options.strategy is None:
        return None
    if not is_tensorflow():
        raise ValueError(f"strategy must be left out on the backend {load_keras().backend.backend()}, got 'mirrored'")
    tf = load_tensorflow()
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    if options.batch_size % strategy.num_replicas_in_sync:
        raise ValueError(
            f"batch_size must be a multiple of the {strategy.num_replicas_in_sync} devices, got {options.batch_size}"
        )
    return strategy
