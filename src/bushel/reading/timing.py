"""`measure`: how fast a dataset is read here, and which stage sets the pace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter

from bushel.data.schema import IMAGE_ENCODINGS
from bushel.errors import MissingName
from bushel.reading.dataset import Split, open
from bushel.reading.feed import batches
from bushel.reading.order import Order
from bushel.reading.prepare import Workers
from bushel.reading.report import Report
from bushel.storage import AnyPath
from bushel.transforms import decode_image

__all__ = ["measure"]


def measure(
    paths: AnyPath | Iterable[AnyPath],
    *,
    split: str | None = None,
    batch_size: int = 256,
    columns: Sequence[str] | None = None,
    order: Order | None = None,
    seconds: float = 5.0,
    decode_images: bool = True,
    workers: Workers | None = None,
) -> Report:
    """Read a dataset for some seconds, from the first split unless one is named, and report where time went.

    Encoded images are decoded, as training would.
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be more than 0, got {seconds}")
    data = open(paths)
    chosen = data[split] if split is not None else next(iter(data.splits.values()))
    images = _images(chosen, columns) if decode_images else []
    feed = batches(
        chosen,
        batch_size=batch_size,
        columns=columns,
        order=order or Order(shuffle=True),
        transforms=[decode_image(name) for name in images],
        epochs=None,
        on_fault="skip",
        workers=workers,
    )
    end = perf_counter() + seconds
    with feed:
        for _ in feed:
            if perf_counter() >= end:
                break
        return feed.report()


def _images(split: Split, columns: Sequence[str] | None) -> list[str]:
    for name in columns or ():
        if name not in split.schema:
            raise MissingName("feature", name, split.schema, where=split.paths[0])
    names = list(split.schema if columns is None else columns)
    return [name for name in names if split.schema[name].encoding in IMAGE_ENCODINGS]
