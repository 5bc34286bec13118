"""TensorFlow, loaded when a run starts; settings for the duration of a run; logs for TensorBoard."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bushel.keras import load_keras, quietly
from bushel.tensorflow.tensors import load_tensorflow
from bushel.training.options import Options

__all__ = [
    "Logs",
    "generator_state",
    "is_tensorflow",
    "load_quietly",
    "restore_generator",
    "settings_for",
    "strategy_of",
]

_LOGGED_EVERY = 10  # steps
_PURPOSE = "bushel train"


def load_quietly() -> None:
    """Load the frameworks without the notes on the CPU that they print."""
    with quietly():
        if is_tensorflow():
            tf = load_tensorflow(_PURPOSE)
            tf.linalg.matmul(tf.zeros([1, 1]), tf.zeros([1, 1]))  # the last of them appear with the first operation


def is_tensorflow() -> bool:
    """Whether Keras runs on TensorFlow, which allows compiled steps and TensorBoard logs."""
    return str(load_keras().backend.backend()) == "tensorflow"


_GENERATOR = "generator"


def generator_state() -> dict[str, NDArray[Any]]:
    """The generators of torch, from which layers such as Dropout draw there; other backends have them in the model."""
    if load_keras().backend.backend() != "torch":
        return {}
    import torch

    states = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
    return {f"{_GENERATOR}/{i}": state.numpy() for i, state in enumerate(states)}


def restore_generator(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put the generators back to where `generator_state` found them."""
    if f"{_GENERATOR}/0" not in arrays or load_keras().backend.backend() != "torch":
        return
    import torch

    states = [torch.from_numpy(arrays[f"{_GENERATOR}/{i}"]) for i in range(1 + torch.cuda.device_count())]
    torch.set_rng_state(states[0])
    torch.cuda.set_rng_state_all(states[1:])


@contextlib.contextmanager
def settings_for(options: Options) -> Iterator[None]:
    """Set seed, precision and determinism for a run; all but the seed are restored afterwards."""
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
    load_tensorflow(_PURPOSE)
    from tensorflow.python.framework import config  # the public module can only enable it

    before = config.is_op_determinism_enabled()
    config.enable_op_determinism()
    try:
        yield
    finally:
        if not before:
            config.disable_op_determinism()


def strategy_of(options: Options) -> Any:
    """How to spread the model over devices; None if it is not."""
    if options.strategy is None:
        return None
    if not is_tensorflow():
        raise ValueError(f"strategy needs Keras on TensorFlow, and it runs on {load_keras().backend.backend()}")
    tf = load_tensorflow(_PURPOSE)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    if options.batch_size % strategy.num_replicas_in_sync:
        raise ValueError(
            f"batch_size must be a multiple of the {strategy.num_replicas_in_sync} devices, got {options.batch_size}"
        )
    return strategy


class Logs:
    """Scalars of steps and epochs for TensorBoard; does nothing without a folder or without TensorFlow."""

    def __init__(self, folder: Path | None) -> None:
        self._writer: Any = None
        if folder is not None and is_tensorflow():
            self._writer = load_tensorflow(_PURPOSE).summary.create_file_writer(str(folder))

    def step(self, step: int, values: dict[str, float]) -> None:
        """Log the loss and the metric of a batch."""
        if step % _LOGGED_EVERY == 0:
            self._write(step, {f"batch/{name}": value for name, value in values.items()})

    def epoch(self, step: int, values: dict[str, Any]) -> None:
        """Log the results of an epoch."""
        self._write(step, {f"epoch/{name}": value for name, value in values.items() if name not in ("epoch", "step")})

    def _write(self, step: int, values: dict[str, Any]) -> None:
        if self._writer is None:
            return
        tf = load_tensorflow(_PURPOSE)
        kind = tf.compat.v1.SummaryMetadata()
        kind.plugin_data.plugin_name = "scalars"
        with self._writer.as_default():
            for name, value in values.items():  # what tf.summary.scalar writes, which needs TensorBoard to be installed
                tf.summary.write(name, tf.constant(value, tf.float32), step=step, metadata=kind)

    def close(self) -> None:
        """Flush and close the file."""
        if self._writer is not None:
            self._writer.close()
