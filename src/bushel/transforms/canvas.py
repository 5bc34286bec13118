"""Images of a batch, and the changes to them: collected step by step, then painted by the core in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel._native import Change, Painting
from bushel.data.columns import BytesColumn, aligned_empty
from bushel.errors import SchemaMismatch
from bushel.pixels.codecs import KERNELS, Kernel
from bushel.pixels.headers import Headers, NativeCodec, read_headers

Ints: TypeAlias = NDArray[np.int64]
Images: TypeAlias = BytesColumn | NDArray[Any] | list[Any]
Decode: TypeAlias = Callable[[bytes], NDArray[np.uint8]]

_BLOCK = 8  # pixels of a JPEG block: a JPEG can be decoded at n eighths of its size
_SOURCES, _RESULTS = ("uint8", "float32"), ("uint8", "float32", "float16")
# How far a canvas has come. A step must not need an earlier stage than those before it.
_MOVED, _CHANGED, _SCALED = 1, 2, 3


@dataclass(frozen=True)
class PaintJob:
    """What remains to be done with decoded images, for whoever paints them somewhere else."""

    size: tuple[int, int]
    channels: int
    dtype: np.dtype[Any]
    moves: NDArray[np.int32]  # per image: top, left, height and width of its part, its new size, and where it goes
    flips: NDArray[np.uint8]  # per image: 1 for left to right, 2 for upside down
    changes: list[tuple[Change, NDArray[np.float64]]]
    settings: dict[str, Any]  # of `Painting`


class Canvas:
    """Images of one feature, and how they are decoded, cropped, resized, flipped, changed, scaled and cast.

    A method returns False, and changes nothing, if the core cannot do this in the same pass as the steps before.
    Images that a step cannot use are refused; the content of their rows is undefined.
    """

    def __init__(self, images: Images, feature: str) -> None:
        self.feature = feature
        self.refused: dict[int, Exception] = {}
        self._images = images
        self._decode: Decode | None = None  # for images that the core does not know
        self._decoded: dict[int, NDArray[np.uint8]] = {}
        self._painting: dict[str, Any] = {}
        self._steps: list[tuple[Change, NDArray[np.float64]]] = []
        self._stage = 0
        self._is_resized = False
        self.is_open = False
        self.is_sized = False  # whether sizes may have changed
        if not isinstance(images, BytesColumn):
            self.is_open = self._open_pixels(images)

    def __len__(self) -> int:
        return len(self._images)

    def _open_pixels(self, images: NDArray[Any] | list[Any]) -> bool:
        if isinstance(images, np.ndarray):
            if images.ndim != 4 or images.dtype.name not in _SOURCES or 0 in images.shape:
                return False
            self._open(np.tile(images.shape[1:3], (len(images), 1)), images.shape[3], images.dtype)
            return True
        kinds = {(v.ndim, v.dtype, v.shape[-1:]) if isinstance(v, np.ndarray) else None for v in images}
        if len(kinds) != 1 or (kind := kinds.pop()) is None or kind[0] != 3 or kind[1].name not in _SOURCES:
            return False
        sizes = np.array([image.shape[:2] for image in images])
        if not sizes.all():
            return False
        self._open(sizes, kind[2][0], kind[1])
        return True

    def _open(self, sizes: Ints, channels: int, dtype: np.dtype[Any]) -> None:
        self.channels, self.dtype = channels, dtype
        self._of = self._size = self.sizes = sizes.astype(np.int64)  # of the image, of what it is resized to, of all
        self._part = np.concatenate([np.zeros_like(self.sizes), self.sizes], axis=1)
        self._at = np.zeros_like(self.sizes)
        self._flips = np.zeros(len(sizes), np.uint8)
        self.is_open = True

    @property
    def is_coloured(self) -> bool:
        """Whether there are pixels of three channels."""
        return self.is_open and self.channels == 3

    def decode(self, channels: int, decode: Decode, *, upright: bool, at_least: tuple[int, int] | None) -> bool:
        """Decode images to uint8 pixels; `decode` is for those that the core does not know."""
        if self.is_open or not isinstance(self._images, BytesColumn):
            return False
        self._decode = decode
        self._painting = {"upright": upright, "at_least": at_least or (0, 0)}
        headers = read_headers(self._images)
        sizes = decoded_sizes(headers, upright=upright, at_least=at_least)
        for row in np.flatnonzero(~headers.is_known).tolist():
            pixels = self.decode_row(row)
            sizes[row] = (1, 1) if pixels is None else pixels.shape[:2]
        self._open(sizes, channels, np.dtype(np.uint8))
        self.is_sized = True
        return True

    def decode_row(self, row: int) -> NDArray[np.uint8] | None:
        """One image, decoded without the core; None if it is refused."""
        assert self._decode is not None
        if row not in self._decoded and row not in self.refused:
            try:
                self._decoded[row] = np.ascontiguousarray(self._decode(self._images[row]))
            except Exception as error:  # whatever it is, it only concerns this row
                self.refused[row] = error
        return self._decoded.get(row)

    def refuse(self, is_refused: NDArray[np.bool_], error: Callable[[int], Exception]) -> None:
        """Refuse images, each with its own error."""
        for row in np.flatnonzero(is_refused).tolist():
            self.refused.setdefault(row, error(row))

    def crop(self, part: Ints) -> bool:
        """Crop each image to a part: top, left, height and width."""
        if not self.is_open or self._stage > _MOVED:
            return False
        self._stage, self.is_sized = _MOVED, True
        corner, size = part[:, :2], part[:, 2:]
        if self._is_resized or self._at.any() or self._flips.any() or (self._size != self.sizes).any():
            self._at = self._at - corner
        else:
            self._part = np.concatenate([self._part[:, :2] + corner, size], axis=1)
            self._size = size
        self.sizes = size
        return True

    def resize(
        self,
        sizes: Ints,
        *,
        part: Ints | None = None,
        dtype: str | None = None,
        kernel: Kernel = "bilinear",
        antialias: bool = False,
        at: Ints | None = None,
        into: tuple[int, int] | None = None,
        fill: int = 0,
    ) -> bool:
        """Resize each image, or a part of it, to this size, and place it in an image of size `into`."""
        is_placed = self.is_open and (self._at.any() or (self._size != self.sizes).any())
        if not self.is_open or self._stage > _MOVED or self._is_resized or is_placed:
            return False
        wanted = np.dtype(dtype or self.dtype)
        if wanted not in (self.dtype, np.float32) or (part is not None and self._flips.any()):
            return False
        if part is not None:
            self.crop(part)
        self._stage, self._is_resized, self.is_sized = _MOVED, True, True
        self._painting |= {"rounds": wanted == np.uint8, "kernel": KERNELS[kernel], "antialias": antialias}
        self._painting["fill"] = float(fill)
        self._size = self.sizes = sizes
        self.dtype = wanted
        if at is not None and into is not None:
            self._at, self.sizes = at, np.broadcast_to(np.array(into), sizes.shape)
        return True

    def flip(self, down: NDArray[np.bool_], across: NDArray[np.bool_]) -> bool:
        """Flip images vertically or horizontally where these say so."""
        flips = np.stack([down, across], axis=1)
        if not self.is_open or self._stage == _CHANGED:
            return self.is_open and self.change(Change.FLIP, flips)
        if self._stage > _CHANGED:
            return False
        self._stage = _MOVED
        self._at = np.where(flips, self.sizes - self._at - self._size, self._at)
        self._flips = self._flips ^ (across | down.astype(np.uint8) << 1).astype(np.uint8)
        return True

    def change(self, change: Change, numbers: NDArray[Any]) -> bool:
        """Change images, with these numbers for each."""
        if not self.is_open or self._stage > _CHANGED:
            return False
        self._stage = _CHANGED
        self._steps.append((change, np.ascontiguousarray(numbers, np.float64).reshape(len(self), -1)))
        return True

    def normalise(self, mean: Any, std: Any) -> bool:
        """Scale to (value - mean) / std, float32; one number, or one per channel."""
        if not self.is_open or "mean" in self._painting or self.dtype.name not in _SOURCES:
            return False
        numbers = [np.asarray(values, np.float32).reshape(-1) for values in (mean, std)]
        if any(len(values) not in (1, self.channels) for values in numbers):
            return False
        self._stage = _SCALED
        for name, values in zip(("mean", "std"), numbers, strict=True):
            self._painting[name] = np.broadcast_to(values, self.channels).tolist()
        self.dtype = np.dtype(np.float32)
        return True

    def cast(self, dtype: str) -> bool:
        """Cast values to floats; the core does not do other casts, which would truncate."""
        wanted = np.dtype(dtype)
        if not self.is_open or wanted.name not in _RESULTS or (wanted.kind != "f" and wanted != self.dtype):
            return False
        if wanted != self.dtype:
            self._stage = _SCALED
        self.dtype = wanted
        return True

    @property
    def size(self) -> tuple[int, int] | None:
        """The height and width of all images now; None if they differ."""
        sizes = self.sizes
        if self.refused:
            sizes = sizes[np.setdiff1d(np.arange(len(self)), list(self.refused))]
        if not len(sizes) or (sizes != sizes[0]).any():
            return None
        return int(sizes[0, 0]), int(sizes[0, 1])

    @property
    def plan(self) -> PaintJob:
        """What `paint` would do, where all images have one size now."""
        size = self.size
        assert size is not None
        return PaintJob(
            size, self.channels, self.dtype, self._all_moves(), self._flips, self._steps, dict(self._painting)
        )

    @property
    def original_sizes(self) -> Ints:
        """Height and width of the images as they are decoded."""
        return self._of

    def paint(self, pool: Any) -> NDArray[Any]:
        """All images, in memory from the pool; the rows of refused ones are undefined."""
        size = self.size
        assert size is not None
        out = aligned_empty((len(self), *size, self.channels), self.dtype, pool)
        painting = Painting(**self._painting)
        moves, flips = self._moves(), self._flips if self._flips.any() else None
        if not isinstance(self._images, BytesColumn):
            _native.paint_images(_writable(self._images), out, painting, moves, flips, self._steps)
            return out
        refusals = _native.decode_images(
            self._images.offsets, self._images.data, out, painting, moves, flips, self._steps
        )
        self._paint_others([row for row, _, _ in refusals], out, painting, moves, flips)
        return out

    def _paint_others(self, rows: Sequence[int], out: NDArray[Any], painting: Painting, moves: Any, flips: Any) -> None:
        """Images that the core did not decode; if no decoder can, the message of the other one is the error."""
        found = [(row, pixels) for row in rows if (pixels := self.decode_row(row)) is not None]
        if not found:
            return
        at = np.array([row for row, _ in found])
        place = out if len(at) == len(out) else aligned_empty((len(at), *out.shape[1:]), out.dtype)
        refusals = _native.paint_images(
            [pixels for _, pixels in found],
            place,
            painting,
            None if moves is None else np.ascontiguousarray(moves[at]),
            None if flips is None else flips[at],
            [(change, np.ascontiguousarray(numbers[at])) for change, numbers in self._steps],
        )
        for row, _, _ in refusals:
            self.refused[int(at[row])] = SchemaMismatch("the image has not the size that it says", at=self.feature)
        if place is not out:
            out[at] = place

    def _moves(self) -> NDArray[np.int32] | None:
        """The moves for the core; None if each whole image fills its place."""
        is_whole = (self._part[:, 2:] == self._of).all() and not self._at.any() and (self._size == self.sizes).all()
        return None if is_whole else self._all_moves()

    def _all_moves(self) -> NDArray[np.int32]:
        moves = np.concatenate([self._part, self._size, self._at], axis=1).astype(np.int32)
        if self.refused:
            moves[list(self.refused)] = (0, 0, 1, 1, 1, 1, 0, 0)
        return moves


def decoded_sizes(headers: Headers, *, upright: bool, at_least: tuple[int, int] | None) -> Ints:
    """Height and width of images as the core decodes them."""
    sizes = headers.sizes
    is_lying = headers.orientation >= 5
    sizes[is_lying] = sizes[is_lying, ::-1]
    if at_least:
        _scale(sizes, headers.codec == NativeCodec.JPEG, at_least)
    if upright:
        sizes[is_lying] = sizes[is_lying, ::-1]
    return sizes


def _scale(sizes: Ints, is_jpeg: NDArray[np.bool_], at_least: tuple[int, int]) -> None:
    """The size at which JPEGs are decoded: the smallest number of eighths, up to a half, that is large enough."""
    least = np.minimum(sizes, at_least)
    is_left = is_jpeg.copy()
    whole = sizes.copy()
    for eighths in range(1, _BLOCK // 2 + 1):
        scaled = (whole * eighths + _BLOCK - 1) // _BLOCK
        fits = is_left & (scaled >= least).all(axis=1)
        sizes[fits] = scaled[fits]
        is_left &= ~fits


def _writable(images: NDArray[Any] | list[Any]) -> list[NDArray[Any]]:
    """Images as the core takes them."""
    return [np.require(image, requirements=["C", "W"]) for image in images]
