"""Batches on a device: copied from pinned memory on a stream of its own, a few ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from bushel.torch.tensors import Form, parts_of, tensor_of

__all__ = ["PinnedPool", "Sent", "Transfer"]


class PinnedPool:
    """Memory that a GPU reads by itself. Torch pins each block once and lends it again when nothing holds it."""

    def empty(self, size: int) -> Any:
        """As many uninitialised bytes."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


@dataclass
class Sent:
    """Columns on a device, all tensors that they consist of, and when they have arrived."""

    columns: dict[str, Any] = field(default_factory=dict)
    tensors: list[Any] = field(default_factory=list)
    arrived: Any = None

    def receive(self) -> dict[str, Any]:
        """The columns, for use on the current stream."""
        if self.arrived is not None:
            stream = torch.cuda.current_stream(self.tensors[0].device)
            stream.wait_event(self.arrived)
            for tensor in self.tensors:
                tensor.record_stream(stream)  # their memory was allocated on the stream that copies
        return self.columns


class Transfer:
    """Turns batches into tensors, on a device if there is one. To be used from one thread."""

    def __init__(self, device: Any, form: Form) -> None:
        self.device: Any = None if device is None else torch.device(device)
        self.form = form
        self.is_cuda = self.device is not None and self.device.type == "cuda"
        if self.is_cuda and torch.device(device).index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._stream = torch.cuda.Stream(self.device) if self.is_cuda else None
        self._leaving: deque[tuple[Any, list[Any]]] = deque()  # memory that copies still read

    def __call__(self, columns: Mapping[str, Any]) -> Sent:
        """Start copying the columns of a batch."""
        if self._stream is None:
            return self._send(columns, [])
        while self._leaving and self._leaving[0][0].query():
            self._leaving.popleft()
        sources: list[Any] = []
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            sent = self._send(columns, sources)
            event = torch.cuda.Event()
            event.record(self._stream)
        self._leaving.append((event, sources))
        sent.arrived = event if sent.tensors else None
        return sent

    def _send(self, columns: Mapping[str, Any], sources: list[Any]) -> Sent:
        sent = Sent()
        for name, column in columns.items():
            parts = parts_of(name, column, self.form)
            tensors = [self._copy(tensor_of(array), sources) for array in parts.arrays]
            sent.columns[name] = parts.build(tensors)
            sent.tensors += tensors
        return sent

    def _copy(self, tensor: Any, sources: list[Any]) -> Any:
        if self.device is None:
            return tensor
        if self.is_cuda and not tensor.is_pinned():
            tensor = torch.empty_like(tensor, pin_memory=True).copy_(tensor)
        sources.append(tensor)
        return tensor.to(self.device, non_blocking=self.is_cuda)
