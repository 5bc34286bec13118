"""Batches as tensors, copied to a device ahead of the consumer."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset as MapDataset
from torch.utils.data import IterableDataset, get_worker_info

from bushel import _native
from bushel.data.columns import aligned, aligned_empty, take
from bushel.data.samples import sample_at
from bushel.data.schema import Feature
from bushel.errors import BushelError
from bushel.feeding.adapters import Data, Fields, Loops, Request, fields_of, open_split, request_of, row_weights
from bushel.parallel import available_cores, iterate_ahead
from bushel.reading import Batch, Feed, Order, Report, Workers
from bushel.reading.batch import Group, Maker, OnFault, Passed, Place, PlannedBatch, Tally
from bushel.reading.layout import Layout
from bushel.reading.order import launched_share
from bushel.reading.pipeline import FeedSettings, prepare
from bushel.torch.images import DeviceImages, divide
from bushel.torch.tensors import Form, parts_of, tensor_of, to_torch
from bushel.transforms import BatchTransform, Transform

__all__ = ["Loader", "Records", "Transfer", "dataset", "loader"]

_WORTH_IT = 1 << 18  # bytes; less is copied by the thread that sends it
_MOST_PINNED = 4 << 30  # bytes of the core's memory; batches beyond them are copied into torch's
_WEIGHT = "bushel/weight"  # the column that holds the weight of each row
# Takes a batch and the errors of the rows that no decoder knows; gives the batch without them, and the rows it is of.
Resolve: TypeAlias = Callable[[Batch, dict[int, Exception]], tuple[Batch, NDArray[np.int64]]]


@dataclass(frozen=True)
class _PinnedPool:
    """Memory that a GPU reads by itself: the core's, once it is registered with the driver, and torch's."""

    device: str

    def empty(self, size: int) -> Any:
        """As many uninitialised bytes. Torch pins each block once, and lends it again when nothing holds it."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()

    def place(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array in such memory. Called by the threads that make batches: the one that sends them is alone."""
        array = aligned(array)
        if array.nbytes < _WORTH_IT or array.dtype.kind not in "biuf":
            return array
        if array.flags.writeable and (torch.from_numpy(array).is_pinned() or _pins.pin(array, self.device)):
            return array
        out = aligned_empty(array.shape, array.dtype, self)  # type: ignore[arg-type]
        np.copyto(out, array)
        return out


class _Pins:
    """The large blocks of the core that are pinned. It uses them again and again, and never gives them back."""

    def __init__(self) -> None:
        self._bytes = 0
        self._lock = threading.Lock()

    def pin(self, array: NDArray[Any], device: str) -> bool:
        """Pin the block that an array lies in; False where that is not possible."""
        with self._lock, torch.cuda.device(device):  # or the driver would take memory of the first GPU, too
            if self._bytes > _MOST_PINNED:
                return False
            block: Any = _native.keep_block(array)
            if block is None:
                return False
            if int(torch.cuda.cudart().cudaHostRegister(*block, 0)):
                self._bytes = _MOST_PINNED + 1  # no more memory may be locked, for example
                with suppress(RuntimeError):
                    torch.zeros(1, device=device)  # the next call would report the error of this one
                return False
            self._bytes += block[1]
            return True


_pins = _Pins()


@dataclass
class _Sent:
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

    def __call__(self, batch: Batch) -> _Sent:
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

    def close(self) -> None:
        """Wait until the device has read all memory that it was given: others may write to it afterwards."""
        while self._leaving:
            self._leaving.popleft()[0].synchronize()

    def _send(self, batch: Batch, held: list[Any]) -> _Sent:
        sent = _Sent()
        if self.images is not None:
            batch = self._send_images(self.images, batch, sent, held)
        columns = {**batch, _WEIGHT: row_weights(batch)} if self.is_weighted else batch
        for name, column in columns.items():
            if name in sent.columns:
                continue
            parts = parts_of(name, column, self.form)
            tensors = [self._copy(tensor_of(array), held) for array in parts.arrays]
            sent.columns[name] = parts.build(tensors)
            sent.tensors += tensors
        return sent

    def _send_images(self, images: DeviceImages, batch: Batch, sent: _Sent, held: list[Any]) -> Batch:
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
    device: Any = None,
    ahead: int = 2,
    memory_format: Any = None,
    dtype: Any = None,
    decode: Literal["cpu", "cuda"] = "cpu",
    group: Any = None,
) -> Loader:
    """Records as tensors: `(feature, label)`, or `(dict of features, label)` if there are several.

    Takes what `bushel.batches` takes. Without a `rank` in `order`, each process reads its own share: by
    `torch.distributed` (of `group`), or by RANK and WORLD_SIZE. With a `device`, batches are copied there on a stream
    of their own, `ahead` of them in advance. `memory_format=torch.channels_last` gives images as channels x height x
    width, without a copy; `dtype` is for floats. `decode="cuda"` decodes and changes images on the GPU.

    Each loop reads the next `epochs` epochs. `state_dict` says where it stands, after the last batch returned.

    >>> train = bushel.torch.loader("data", "train", batch_size=64, order=bushel.Order(shuffle=True), device="cuda")
    >>> for image, label in train:
    ...     loss = criterion(model(image), label)
    """
    if decode not in ("cpu", "cuda"):
        raise ValueError(f"decode must be one of cpu, cuda; got {decode!r}")
    if ahead < 1:
        raise ValueError(f"ahead must be at least 1, got {ahead}")
    settings = FeedSettings(
        batch_size=batch_size,
        columns=columns,
        order=order or Order(),
        transforms=tuple(transforms),
        epochs=epochs,
        layout=tuple(layout),
        drop_last=drop_last,
        on_fault=on_fault,
        workers=workers or Workers(),
    )
    images = None
    if decode == "cuda":
        if device is None or torch.device(device).type != "cuda":
            raise ValueError(f'decode="cuda" must come with a device that is a GPU, got device={device!r}')
        settings, images = divide(settings)
    request = request_of(open_split(data, split), settings, label)
    where = None if device is None else str(device)
    return Loader(request, Delivery(Form(memory_format, dtype), where, ahead, images), group)


@dataclass(frozen=True)
class Delivery:
    """What tensors become, where they go, how many in advance, and what happens to images there."""

    form: Form
    device: str | None
    ahead: int
    images: DeviceImages | None


class Loader(IterableDataset):  # type: ignore[misc]
    """Batches as tensors; what `loader` returns.

    Loop over it directly, which is fastest, or make it the dataset of a `DataLoader(..., batch_size=None)`, whose
    workers then share its batches; there, `set_epoch` must say which epoch comes. One loop over it runs at a time.
    """

    def __init__(self, request: Request, target: Delivery, group: Any = None) -> None:
        super().__init__()
        self._request = request
        self._target = target
        self._group = group
        self._loops = Loops(request.split, request.settings.epochs)
        self._waited = 0.0
        self._passed: list[Passed] = []  # images that no decoder knows
        self._feed: Feed | None = None
        self._process = 0
        self._feed_here()  # refuses at once what cannot be read

    def __getstate__(self) -> dict[str, Any]:
        settings = msgspec.structs.replace(self._request.settings, order=self._order())
        request = replace(self._request, settings=settings)
        return {**self.__dict__, "_request": request, "_feed": None, "_group": None}

    def __len__(self) -> int:
        """How many batches one loop gives."""
        epochs = self._request.settings.epochs
        if epochs is None:
            raise TypeError("a loader without an end has no length: give it epochs=...")
        return len(self._feed_here()) * epochs

    def __iter__(self) -> Iterator[Any]:
        feed = self._feed_here()
        self._loops.begin(feed)
        self._compare_ranks(feed)
        fields: Fields | None = None
        with closing(self._sent(feed)) as items:
            for batch, sent, state in items:
                columns = sent.receive()
                weight = columns.pop(_WEIGHT, None)
                fields = fields or fields_of(self._request, batch)
                self._loops.note(state)
                yield fields.arrange(columns, weight)
        self._loops.end()

    def _sent(self, feed: Feed) -> Generator[tuple[Batch, _Sent, dict[str, int]]]:
        """Batches, their tensors where they are wanted, and where reading stands after each."""
        target = self._target
        resolve = partial(self._resolve, feed)
        transfer = Transfer(target.device, target.form, self._request.is_weighted, target.images, resolve)

        def send() -> Generator[tuple[Batch, _Sent, dict[str, int]]]:
            for batch in feed:
                yield batch, transfer(batch), self._loops.state_of(feed)

        made = send()
        ahead = made if target.device is None else iterate_ahead(made, target.ahead)
        with closing(transfer), feed, closing(ahead) as items:
            asked = perf_counter()
            for item in items:
                self._waited += perf_counter() - asked
                yield item
                asked = perf_counter()

    def _resolve(self, feed: Feed, batch: Batch, refused: dict[int, Exception]) -> tuple[Batch, NDArray[np.int64]]:
        """A batch without the rows whose images no decoder knows: raised, left out or replaced, as the caller said."""
        policy = feed.settings.on_fault
        kept = np.setdiff1d(np.arange(len(batch.rows)), list(refused))
        for row, error in refused.items():
            place = feed.split.shards.skipped(int(batch.rows[row]), 0)
            if policy == "raise" or not isinstance(error, BushelError) or not len(kept):
                error.add_note(f"It is record {place.record} of {place.path}.")
                raise error
            self._passed.append(Passed.of(place, error.message))
        chosen, real = kept, batch.real
        if policy == "replace":
            chosen = kept[np.searchsorted(kept, np.arange(len(batch.rows))) % len(kept)]
            stands = chosen == np.arange(len(batch.rows))
            real = stands if real is None else real & stands
        elif real is not None:
            real = real[kept]
        columns = {name: take(column, chosen) for name, column in batch.items()}
        return Batch(columns, batch.rows[chosen], real, batch.epoch), chosen

    def _feed_here(self) -> Feed:
        """The feed of this process: of its rank, and of its turn if it is a worker of a DataLoader."""
        order, worker, feed = self._order(), get_worker_info(), self._feed
        if feed is not None and self._process == os.getpid() and worker is None:
            own = feed.settings.order
            if (own.rank, own.world) == (order.rank, order.world):
                return feed
        settings = msgspec.structs.replace(self._request.settings, order=order)
        if worker is not None:
            settings = self._of_worker(settings, worker)
        device = self._target.device
        pool = _PinnedPool(device) if device is not None and torch.device(device).type == "cuda" else None
        self._process = os.getpid()
        self._feed = Feed(copy(self._request.split), settings, pool)
        return self._feed

    def _order(self) -> Order:
        """The order, with the share of this process if the caller left that open."""
        order = self._request.settings.order
        if order.world > 1:
            return order
        rank, world = _share_of_process(self._group)
        return replace(order, rank=rank, world=world)

    def _of_worker(self, settings: FeedSettings, worker: Any) -> FeedSettings:
        """The settings of one of several workers, which take turns: their batches come in the order without workers."""
        if self._target.device is not None:
            raise BushelError(
                f"a worker of a DataLoader cannot copy to {self._target.device}",
                help=["Loop over the loader itself, which needs no workers; or leave out device=..."],
            )
        turn = self._loops.turn
        threads = settings.workers.threads or max(1, available_cores() // worker.num_workers)
        return msgspec.structs.replace(
            settings,
            turn=worker.id if turn is None else turn,
            turns=worker.num_workers,
            workers=msgspec.structs.replace(settings.workers, threads=threads),
        )

    def _compare_ranks(self, feed: Feed) -> None:
        """Refuse, on all ranks, to begin an epoch that they do not share."""
        order, distributed = feed.settings.order, torch.distributed
        if get_worker_info() is not None or order.world == 1 or not _is_distributed():
            return
        if distributed.get_world_size(self._group) != order.world:  # the caller's own ranks: some may share data
            return
        own = {
            **self._loops.state_of(feed),
            "world": order.world,
            "batch_size": feed.settings.batch_size,
            "rank": order.rank,
        }
        found: list[Any] = [None] * order.world
        distributed.all_gather_object(found, own, group=self._group)
        ranks = [one.pop("rank") for one in found]
        if sorted(ranks) != list(range(order.world)):
            raise BushelError(f"each rank must read its own share, got the ranks {', '.join(map(str, ranks))}")
        for rank, one in zip(ranks, found, strict=True):
            for name, value in one.items():
                if value != found[0][name]:
                    raise BushelError(
                        f"ranks must read the same records in the same order: {name} is {found[0][name]} on rank "
                        f"{ranks[0]} and {value} on rank {rank}"
                    )

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, unless a state inside of it was loaded.

        If a loop reads several epochs, it is the number of the loop.
        """
        self._loops.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """Where reading stands after the last batch returned: integers, the same on all ranks."""
        return self._loops.state(self._feed_here())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. With another number of ranks, the remaining records are read once each."""
        self._loops.load(self._feed_here(), state)

    def report(self) -> Report:
        """Where the time went so far, and what was skipped."""
        report = self._feed_here().report()
        report.add(Tally(passed=self._passed))
        if self._target.images is not None:
            report.fallbacks = self._target.images.fallbacks
        if self._target.device is not None:
            report.waited = self._waited  # not the thread that copies, but who takes what it copied
        return report


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _share_of_process(group: Any) -> tuple[int, int]:
    """The rank of this process, and how many there are."""
    if _is_distributed():
        return torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
    return launched_share() or (0, 1)


def dataset(
    data: Data,
    split: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    transforms: Sequence[Transform] = (),
    seed: int = 0,
) -> Records:
    """Records by number, for a `DataLoader` that shuffles and batches them itself.

    A sample is what a batch of `loader` is, for one record and as NumPy: `(feature, label)`, or
    `(dict of features, label)`. Whole batches are read at once; `collate` makes tensors of them.

    >>> DataLoader(bushel.torch.dataset("data", "train"), 64, shuffle=True, collate_fn=bushel.torch.collate)
    """
    settings = FeedSettings(
        batch_size=1,
        columns=columns,
        order=Order(seed=seed),
        transforms=tuple(transforms),
        epochs=1,
        layout=(),
        drop_last=False,
        on_fault="raise",
        workers=Workers(),
    )
    return Records(request_of(open_split(data, split), settings, label))


class Records(MapDataset):  # type: ignore[misc]
    """Records by number; what `dataset` returns. It can be pickled, and opens its files again in another process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._epoch = 0
        self._maker: tuple[int, Maker] | None = None
        self._maker_here()  # refuses at once what cannot be read

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maker": None}

    def _maker_here(self) -> Maker:
        if self._maker is None or self._maker[0] != os.getpid():
            self._maker = os.getpid(), prepare(copy(self._request.split), self._request.settings)[0]
        return self._maker[1]

    def __len__(self) -> int:
        return len(self._request.split)

    def set_epoch(self, epoch: int) -> None:
        """Draw what is random in the transforms for this epoch."""
        self._epoch = epoch

    def __getitem__(self, number: int) -> Any:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> Taken:
        """Several samples, read at once."""
        count = len(self)
        positions = np.asarray(numbers, np.int64)
        for number in positions[(positions < -count) | (positions >= count)].tolist():
            raise IndexError(f"record must be below {count}, got {number}")
        planned = PlannedBatch(positions % max(count, 1), None, Place())
        made = self._maker_here()(Group(self._epoch, [planned]))
        if made.error is not None:
            raise made.error
        batch = made.batches[0][0]
        return Taken(batch, fields_of(self._request, batch), self._request.split.schema.features)


@dataclass(frozen=True)
class Taken(Sequence[Any]):
    """Samples that were read together, and are still one batch."""

    batch: Batch
    fields: Fields
    features: Mapping[str, Feature]

    def __len__(self) -> int:
        return len(self.batch.rows)

    def __getitem__(self, at: Any) -> Any:
        if not 0 <= at < len(self):
            raise IndexError(f"sample must be below {len(self)}, got {at}")
        return self.fields.arrange(dict.fromkeys(self.batch) | sample_at(self.batch, self.features, at))

    def as_batch(self) -> Any:
        """All of them as tensors."""
        return self.fields.arrange(to_torch(self.batch))
