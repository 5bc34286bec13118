"""Logs for TensorBoard, where Keras runs on TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bushel.training.loop.framework import is_tensorflow, load_tensorflow

__all__ = ["Logs"]

_EVERY = 10  # steps


class Logs:
    """Scalars of steps and epochs; nothing, if they are not wanted."""

    def __init__(self, folder: Path | None) -> None:
        self._writer: Any = None
        if folder is not None and is_tensorflow():
            self._writer = load_tensorflow().summary.create_file_writer(str(folder))

    def step(self, step: int, values: dict[str, float]) -> None:
        """Note the loss and the metric of a batch."""
        if step % _EVERY == 0:
            self._write(step, {f"batch/{name}": value for name, value in values.items()})

    def epoch(self, step: int, values: dict[str, Any]) -> None:
        """Note what an epoch gave."""
        self._write(step, {f"epoch/{name}": value for name, value in values.items() if name not in ("epoch", "step")})

    def _write(self, step: int, values: dict[str, Any]) -> None:
        if self._writer is None:
            return
        tf = load_tensorflow()
        kind = tf.compat.v1.SummaryMetadata()
        kind.plugin_data.plugin_name = "scalars"
        with self._writer.as_default():
            for name, value in values.items():  # what tf.summary.scalar writes, which needs TensorBoard to be installed
                tf.summary.write(name, tf.constant(value, tf.float32), step=step, metadata=kind)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
