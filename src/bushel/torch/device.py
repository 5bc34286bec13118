"""Batches as tensors on a device: copied from pinned memory on a stream of their own, ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from bushel.data.columns import aligned, aligned_empty
from bushel.feeding.adapters import row_weights
from bushel.reading import Batch
from bushel.torch.images import DeviceImages
from bushel.torch.tensors import Form, parts_of, tensor_of

__all__ = ["WEIGHT", "PinnedPool", "Sent", "Transfer"]

_WORTH_IT = 1 << 18  # bytes; less is copied by the thread that sends it

WEIGHT = "bushel/weight"  # the column that holds the weight of each row

# Takes a batch and the errors of the rows that no decoder knows; gives the batch without them, and the rows it is of.
Resolve: TypeAlias = Callable[[Batch, dict[int, Exception]], tuple[Batch, NDArray[np.int64]]]


class PinnedPool:
    """Memory that a GPU reads by itself. Torch pins each block once, and lends it again when nothing holds it."""

    def empty(self, size: int) -> Any:
        """As many uninitialised bytes."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()

    def place(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array in such memory. Called by the threads that make batches: the one that sends them is alone."""
        if array.nbytes < _WORTH_IT or array.dtype.kind not in "biuf" or _is_pinned(array):
            return aligned(array)
        out = aligned_empty(array.shape, array.dtype, self)  # type: ignore[arg-type]
        np.copyto(out, array)
        return out


def _is_pinned(array: NDArray[Any]) -> bool:
    return array.flags.writeable and bool(torch.from_numpy(array).is_pinned())


@dataclass
class Sent:
    """Columns on a device, all tensors that they consist of, and when they have arrived."""

    columns: dict[str, Any] = field(default_factory=dict)
    tensors: list[Any] = field(default_factory=list)
    arrived: Any = None

    def receive(self) -> dict[str, Any]:
        """The columns, for use on the current stream."""
        if self.arrived is not None and self.tensors:
            stream = torch.cuda.current_stream(self.tensors[0].device)
            stream.wait_event(self.arrived)
            for tensor in self.tensors:
                tensor.record_stream(stream)  # their memory belongs to the stream that copies
        return self.columns


@dataclass
class Transfer:
    """Turns batches into tensors, on a device if there is one. To be used from one thread."""

    device: Any  # None: where they are
    form: Form
    is_weighted: bool
    images: DeviceImages | None
    resolve: Resolve

    def __post_init__(self) -> None:
        self.device = None if self.device is None else torch.device(self.device)
        self._stream: Any = None
        self._leaving: deque[tuple[Any, list[Any]]] = deque()  # memory that the device still reads
        if self.is_cuda:
            self.device = torch.device(
                "cuda", torch.cuda.current_device() if self.device.index is None else self.device.index
            )
            self._stream = torch.cuda.Stream(self.device)

    @property
    def is_cuda(self) -> bool:
        """Whether copies are made by the device itself, later."""
        return self.device is not None and self.device.type == "cuda"

    def __call__(self, batch: Batch) -> Sent:
        """The tensors of a batch, which may still be on their way."""
        if self._stream is None:
            return self._send(batch, [])
        while self._leaving and self._leaving[0][0].query():
            self._leaving.popleft()
        held: list[Any] = []
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            sent = self._send(batch, held)
            sent.arrived = torch.cuda.Event()
            sent.arrived.record(self._stream)
        self._leaving.append((sent.arrived, held))
        return sent

    def _send(self, batch: Batch, held: list[Any]) -> Sent:
        sent = Sent()
        if self.images is not None:
            batch = self._send_images(self.images, batch, sent, held)
        columns = {**batch, WEIGHT: row_weights(batch)} if self.is_weighted else batch
        for name, column in columns.items():
            if name in sent.columns:
                continue
            parts = parts_of(name, column, self.form)
            tensors = [self._copy(tensor_of(array), held) for array in parts.arrays]
            sent.columns[name] = parts.build(tensors)
            sent.tensors += tensors
        return sent

    def _send_images(self, images: DeviceImages, batch: Batch, sent: Sent, held: list[Any]) -> Batch:
        pixels, refused = images.paint(batch, self.device, held)
        if refused:
            batch, rows = self.resolve(batch, refused)
            pixels = pixels[torch.from_numpy(rows).to(self.device)]
        sent.columns[images.feature] = self.form.apply(pixels)
        sent.tensors.append(pixels)
        return batch

    def _copy(self, tensor: Any, held: list[Any]) -> Any:
        if self.device is None:
            return tensor
        if self.is_cuda and not tensor.is_pinned():
            tensor = torch.empty_like(tensor, pin_memory=True).copy_(tensor)
        held.append(tensor)
        return tensor.to(self.device, non_blocking=self.is_cuda)
