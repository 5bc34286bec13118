"""What a transform is, and where its randomness comes from."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import Column
from bushel.data.samples import Sample
from bushel.data.schema import Feature
from bushel.errors import FileProblem, MissingName, SchemaMismatch
from bushel.transforms.canvas import Canvas

_WORD = 2**64 - 1

# What runs a transform of images: Python by the sample, the core by the batch (pixels, or encoded images), the ops of
# TensorFlow, and a GPU by torch.
Engine: TypeAlias = Literal["sample", "core", "encoded", "tensorflow", "cuda"]
EVERY_ENGINE: tuple[Engine, ...] = ("sample", "core", "tensorflow", "cuda")  # those of pixels


def note(counted: Counter[str] | None, what: str, count: int = 1) -> None:
    """Count a change that loses something; does nothing if nobody counts."""
    if counted is not None and count:
        counted[what] += count


@dataclass(frozen=True, init=False)
class Draw:
    """The source of randomness for one sample, and the place to count what is lost.

    A transform that draws from it changes the same record in the same epoch in the same way, for any number of threads
    or workers. `step` is the number of the transform.
    """

    seed: int
    epoch: int
    record: int  # its number, or the hash of its key
    step: int = 0
    counted: Counter[str] | None = field(default=None, compare=False, repr=False)

    def __init__(self, seed: int, epoch: int, record: int, step: int = 0, counted: Counter[str] | None = None) -> None:
        # One is made per transform and sample, and the usual way of frozen dataclasses takes three times as long.
        self.__dict__.update(seed=seed, epoch=epoch, record=record, step=step, counted=counted)

    def note(self, what: str, count: int = 1) -> None:
        """Count what a transform cut, left out or did not know."""
        note(self.counted, what, count)

    def generator(self, salt: int = 0) -> np.random.Generator:
        """Make a generator for this draw."""
        key = (self.seed & _WORD) | ((self.record & _WORD) << 64)
        return np.random.Generator(np.random.Philox(key=key, counter=[0, self.step, salt, self.epoch]))

    def uniforms(self, count: int) -> list[float]:
        """A few numbers from 0 to 1, much cheaper than those of a generator."""
        values = (self.seed, self.epoch, self.record, self.step)
        key = struct.pack("<4Q", *(value & _WORD for value in values))
        return [(_native.xxh64(key, number) >> 11) / 2.0**53 for number in range(count)]

    def between(self, low: float, high: float) -> float:
        """One number from `low` to `high`."""
        return low + (high - low) * self.uniforms(1)[0]


@dataclass(frozen=True)
class Draws:
    """The draws of many records for one step: each row has the numbers of its own `Draw`."""

    seed: int
    epoch: int
    records: NDArray[np.int64]
    step: int = 0

    def uniforms(self, count: int) -> NDArray[np.float64]:
        """A few numbers from 0 to 1 per record."""
        own = self.records.astype(np.uint64)[:, None]
        seed, epoch, step = (np.uint64(value & _WORD) for value in (self.seed, self.epoch, self.step))
        with np.errstate(over="ignore"):
            return np.asarray((_xxh64((seed, epoch, own, step), np.arange(count, dtype=np.uint64)) >> _BITS) / 2.0**53)

    def between(self, low: float, high: float) -> NDArray[np.float64]:
        """One number from `low` to `high` per record."""
        return low + (high - low) * self.uniforms(1)[:, 0]


_BITS = np.uint64(11)
_PRIMES = [np.uint64(p) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63)]


def _xxh64(words: tuple[Any, Any, Any, Any], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """XXH64 of four words, for many at once; the same as `_native.xxh64` for each."""
    one, two, three, four = _PRIMES
    lanes = [seeds + one + two, seeds + two, seeds, seeds - one]
    lanes = [_turn(lane + word * two, 31) * one for lane, word in zip(lanes, words, strict=True)]
    rests = [_turn(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)]
    value = rests[0] + rests[1] + rests[2] + rests[3]
    for lane in lanes:
        value = (value ^ _turn(lane * two, 31) * one) * one + four
    value = value + np.uint64(32)
    for shift, prime in ((33, two), (29, three)):
        value = (value ^ value >> np.uint64(shift)) * prime
    return np.asarray(value ^ value >> np.uint64(32))


def _turn(value: Any, by: int) -> Any:
    return value << np.uint64(by) | value >> np.uint64(64 - by)


class Transform(Protocol):
    """A value, picklable and comparable, that changes samples."""

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Return the changed sample; the original stays as it was."""
        ...


class DeclaredTransform:
    """What a transform may state about itself. bushel's own derive from it, and a class of yours may.

    Each default is what is assumed of a transform that states nothing.
    """

    __slots__ = ()

    feature: str = ""  # the feature that it changes, if it is one
    out: str | None = None  # the feature that it writes, if that is another one
    masks: tuple[str, ...] = ()  # features that move with the image
    engines: ClassVar[tuple[Engine, ...]] = ("sample",)  # what can run it, with the same result

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Return the changed sample; the original stays as it was."""
        raise TypeError(f"{type(self).__name__} changes whole batches, not single samples")

    @property
    def touches(self) -> tuple[str, ...] | None:
        """The features that it reads or writes; None if it may be any."""
        return (self.feature, self.out or self.feature) if self.feature else None

    @property
    def in_core(self) -> bool:
        """Whether it changes columns with almost nothing done in Python, so that threads are good enough."""
        return False

    @property
    def is_given(self) -> bool:
        """Whether there is nothing to learn, because the user gave it."""
        return False

    @property
    def decodes(self) -> str:
        """The feature whose images it decodes to the last pixel, so that damage is found on the way."""
        return ""

    @property
    def always(self) -> tuple[str, ...]:
        """The features that every sample has after it."""
        return ()

    @property
    def encodes(self) -> Mapping[str, str]:
        """The features that it stores as raw bytes, and the type of their values."""
        return {}


class _Undeclared(DeclaredTransform):
    """A transform of another class, of which no more than its feature is known."""

    __slots__ = ("feature",)

    def __init__(self, transform: Any) -> None:
        found = getattr(transform, "feature", None)
        self.feature = found if isinstance(found, str) else ""


def declared(transform: Any) -> DeclaredTransform:
    """What a transform states about itself."""
    return transform if isinstance(transform, DeclaredTransform) else _Undeclared(transform)


@runtime_checkable
class PaintedTransform(Protocol):
    """A transform of images that the core can also apply to a whole batch, together with others, with the same result.

    Values may be up to 1/255 apart.
    """

    feature: str

    def paint(self, canvas: Canvas, draws: Draws) -> bool:
        """Ask the canvas for what `apply` does to each image; False if the core cannot do it here."""
        ...


@runtime_checkable
class BatchTransform(Protocol):
    """A transform of whole batches, which mixes their rows. It runs after those of samples."""

    def apply_batch(self, columns: dict[str, Column], draw: Draw) -> dict[str, Column]:
        """Return the changed columns; the originals stay as they were."""
        ...


@runtime_checkable
class ColumnTransform(Protocol):
    """A transform that can also change many samples at once, as columns, with the same result.

    It is not random. If it raises an error, `apply` finds the sample at fault.
    """

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Return the changed columns; the originals stay as they were."""
        ...


@runtime_checkable
class CountingTransform(Protocol):
    """A `ColumnTransform` that counts what it cuts, leaves out or does not know, as `apply` does with `Draw.note`."""

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """Return the same as `apply_columns`."""
        ...


@runtime_checkable
class Declaring(Protocol):
    """A transform that declares its features, since the probed samples may not show all of them."""

    def makes(self) -> Mapping[str, Feature]:
        """The features that it makes, as they are stored."""
        ...


@runtime_checkable
class Fittable(Protocol):
    """A transform that learns from the train split. `fitted` is what it learned; None before that.

    Transforms that touch different features (`DeclaredTransform.touches`) are fitted in the same pass. What was
    learned is stored in the manifest, as plain values; see also `Kept`.
    """

    fitted: Any

    def begin_fit(self) -> Fit:
        """Begin to learn."""
        ...


class Fit(Protocol):
    """What was learned from some samples. It can be pickled, since workers return it.

    Fits are merged in an order that does not depend on the number of workers, so floating-point sums do not either.
    """

    def add(self, samples: Sequence[Sample]) -> None:
        """Learn from more samples."""
        ...

    def merge(self, other: Self) -> Self:
        """What both have learned; `other` saw later samples. Either may be modified."""
        ...

    def finish(self) -> Transform:
        """The transform with `fitted` set."""
        ...


@runtime_checkable
class ColumnFit(Protocol):
    """A `Fit` that can also learn from columns, with the same result."""

    def add_columns(self, columns: dict[str, Column]) -> None:
        """Learn from more samples."""
        ...


@runtime_checkable
class Kept(Protocol):
    """A fitted transform that stores more than a manifest should hold, such as vocabularies and matrices."""

    def save_fitted(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What goes into the manifest, and files by name (`vocabulary.txt`)."""
        ...

    def load_fitted(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> Transform:
        """The fitted transform, restored."""
        ...


_PIXELS = "BHf"  # uint8, uint16 and float32, as NumPy abbreviates them


def value_of(sample: Sample, feature: str) -> Any:
    """The value of a feature that must be there."""
    if feature not in sample:
        raise MissingName("feature", feature, sample, where="transform")
    return sample[feature]


def array_of(sample: Sample, feature: str) -> NDArray[Any]:
    """The value of a feature that must be numbers."""
    array = np.asarray(value_of(sample, feature))
    if array.dtype.kind not in "biuf":
        raise SchemaMismatch(f"expected numbers, got {type(sample[feature]).__name__}", at=feature)
    return array


def image_of(sample: Sample, feature: str) -> NDArray[Any]:
    """The value of a feature that must be pixels: height x width x channels, uint8, uint16 or float32."""
    value = value_of(sample, feature)
    if not isinstance(value, np.ndarray) or value.ndim != 3 or value.dtype.char not in _PIXELS:
        got = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
        help = [f"Decode it first: transforms.decode_image({feature!r})"] if isinstance(value, bytes) else []
        raise SchemaMismatch(f"expected pixels (height, width, channels), got {got}", at=feature, help=help)
    return value


# Files that data names, a dataset or a contract, and those of them that may be read: data must not decide what is read.
_doubted: set[Path] = set()
_allowed: set[Path] = set()


def doubt_file(file: str) -> None:
    """Note that data names a file which is no part of it."""
    _doubted.add(Path(file).absolute())


def allow_file(file: str) -> None:
    """Let transforms read a file, whoever names it."""
    _allowed.add(Path(file).absolute())


def may_read(file: str) -> bool:
    """Whether a transform may read a file."""
    return Path(file).absolute() in _allowed or Path(file).absolute() not in _doubted


def check_may_read(file: str) -> None:
    """Refuse a file that only data names."""
    if not may_read(file):
        help = [f"If it may be read: bushel.transforms.trust({file!r})", f"On the command line: --trust {file}"]
        raise FileProblem(file, "is named by data but lies outside it, so it is read only if you allow it", help=help)
