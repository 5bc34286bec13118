"""Datasets for JAX: batches as arrays over all devices, and `Batch` as a pytree. Needs JAX.

import bushel.jax

for image, label, mask in bushel.jax.loader("data", "train", batch_size=256):
    ...
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.errors import BushelWarning, SchemaMismatch, missing_package
from bushel.feeding.adapters import Data, Loops, Request, open_split, request_of
from bushel.feeding.preparation import arrange, as_array
from bushel.parallel import iterate_ahead
from bushel.reading import Batch, Feed, Order, Report, Workers
from bushel.reading.batch import OnFault
from bushel.reading.layout import Layout
from bushel.reading.pipeline import FeedSettings
from bushel.transforms import BatchTransform, Transform

try:
    import jax
except ImportError:
    raise missing_package("JAX", extra="jax", purpose="bushel.jax") from None

__all__ = ["Loader", "loader", "to_jax"]

Batch()  # makes JAX know it, so that trees of batches can be walked from now on


def loader(
    data: Data,
    split: str | None = None,
    *,
    batch_size: int,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    order: Order | None = None,
    transforms: Sequence[Transform | BatchTransform] = (),
    layout: Sequence[Layout] = (),
    epochs: int | None = 1,
    drop_last: bool = False,
    on_fault: OnFault = "raise",
    workers: Workers | None = None,
    ahead: int = 2,
    sharding: Any = None,
) -> Loader:
    """Records as arrays: `(feature, label, mask)`, or `(dict of features, label, mask)` if there are several.

    Takes what `bushel.batches` takes, but `batch_size` counts the rows of all processes together: each process of JAX
    reads its own share. Every batch has the same shape, so nothing is compiled twice: rows that fill up the last one
    are False in `mask`, and with `drop_last` there is no such batch and no mask. `sharding` lays out the rows, one for
    all columns or a dict by name (default: over all devices). Arrays are made `ahead` of need.

    >>> rows = NamedSharding(mesh, PartitionSpec("data"))
    >>> for image, label, mask in bushel.jax.loader("data", "train", batch_size=1024, sharding=rows):
    ...     state = step(state, image, label, mask)
    """
    processes = jax.process_count()
    if batch_size < 1 or batch_size % processes:
        raise ValueError(f"batch_size must be a multiple of the {processes} processes, got {batch_size}")
    if sharding is None:
        devices = len(jax.devices())
        if batch_size % devices:
            raise ValueError(
                f"batch_size must be a multiple of the {devices} devices that each array is laid out over, got "
                f"{batch_size}: give it a multiple of {devices}, or sharding=..."
            )
    if on_fault == "skip":
        raise ValueError("on_fault must be one of raise, replace where every batch has one shape; got 'skip'")
    if ahead < 1:
        raise ValueError(f"ahead must be at least 1, got {ahead}")
    settings = FeedSettings(
        batch_size=batch_size // processes,
        columns=columns,
        order=order or Order(),
        transforms=tuple(transforms),
        epochs=epochs,
        layout=tuple(layout),
        drop_last=True,
        on_fault="raise",
        workers=workers or Workers(),
    )
    request = request_of(open_split(data, split), settings, label)
    share = replace(settings.order, uneven="drop" if drop_last else "pad")
    if share.world == 1:
        share = replace(share, rank=jax.process_index(), world=processes)
    settings = msgspec.structs.replace(request.settings, order=share, on_fault=on_fault)
    return Loader(replace(request, settings=settings), sharding or _over_all_devices(), ahead)


def _over_all_devices() -> Any:
    devices = np.array(jax.devices())
    return jax.sharding.NamedSharding(jax.sharding.Mesh(devices, ("rows",)), jax.sharding.PartitionSpec("rows"))


class Loader:
    """Batches as arrays; what `loader` returns. One loop over it runs at a time."""

    def __init__(self, request: Request, sharding: Any, ahead: int) -> None:
        self._request = request
        self._sharding = sharding
        self._ahead = ahead
        self._feed = Feed(request.split, request.settings)
        self._loops = Loops(request.split, request.settings.epochs)

    def __len__(self) -> int:
        """How many batches one loop gives."""
        if self._request.settings.epochs is None:
            raise TypeError("a loader without an end has no length: give it epochs=...")
        return len(self._feed) * self._request.settings.epochs

    def __iter__(self) -> Iterator[Any]:
        feed = self._feed
        self._loops.begin(feed)
        with feed, closing(iterate_ahead(self._made(feed), self._ahead)) as batches:
            for batch, state in batches:
                self._loops.note(state)
                yield batch
        self._loops.end()

    def _made(self, feed: Feed) -> Generator[tuple[Any, dict[str, int]]]:
        for batch in feed:
            yield self._arranged(batch), self._loops.state_of(feed)

    def _arranged(self, batch: Batch) -> Any:
        arrays = {name: self._array(name, as_array(name, column)) for name, column in batch.items()}
        label = self._request.label
        found = [arrange({name: array for name, array in arrays.items() if name != label})]
        if label is not None:
            found.append(arrays[label])
        if self._request.is_weighted:
            real = np.ones(len(batch.rows), bool) if batch.real is None else batch.real
            found.append(self._array("mask", real))
        return tuple(found) if len(found) > 1 else found[0]

    def _array(self, name: str, column: Any) -> Any:
        """The rows of this process as its part of an array of all."""
        array = _canonical(name, column)
        sharding = self._sharding[name] if isinstance(self._sharding, Mapping) else self._sharding
        shape = (len(array) * self._request.settings.order.world, *array.shape[1:])
        return jax.make_array_from_process_local_data(sharding, array, shape)

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, unless a state inside of it was restored."""
        self._loops.set_epoch(epoch)

    def state(self) -> dict[str, int]:
        """Where reading stands after the last batch returned: a tree of integers, the same in all processes."""
        return self._loops.state(self._feed)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken, with any number of processes."""
        self._loops.load(self._feed, state)

    def report(self) -> Report:
        """Where the time went so far, and what was skipped."""
        return self._feed.report()


def to_jax(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a batch as arrays on the default device.

    Integers that JAX would cut are an error, and so is what is no array: rows of different lengths, and text.
    """
    return {name: jax.device_put(_canonical(name, as_array(name, column))) for name, column in batch.items()}


def _canonical(name: str, column: Any) -> NDArray[Any]:
    """A column in a type that JAX has; integers that do not fit are refused."""
    if not isinstance(column, np.ndarray):
        help = [f"Give its rows one length: layout=[Pad({name!r})]; or leave it out: columns=[...]"]
        raise SchemaMismatch("JAX takes arrays, and the rows of this differ in length", at=name, help=help)
    if column.dtype == object:
        help = ["Turn it into numbers when building, or leave it out: columns=[...]"]
        raise SchemaMismatch("JAX takes numbers, and this is text or bytes", at=name, help=help)
    dtype = jax.dtypes.canonicalize_dtype(column.dtype)
    if dtype == column.dtype:
        return column
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        for value in column.reshape(-1)[((column < bounds.min) | (column > bounds.max)).reshape(-1)].tolist():
            help = ['Let JAX keep all bits: jax.config.update("jax_enable_x64", True)']
            raise SchemaMismatch(f"{value} does not fit {dtype.name}", at=name, help=help)
    else:
        _say_narrowed(name, column.dtype.name, dtype.name)
    return column.astype(dtype)


@cache
def _say_narrowed(name: str, wide: str, narrow: str) -> None:
    message = f'{name}: {wide} becomes {narrow}; jax.config.update("jax_enable_x64", True) keeps all bits'
    warnings.warn(message, BushelWarning, stacklevel=4)
