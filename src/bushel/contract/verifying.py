"""Whether a serving process prepares its inputs as training did: golden inputs prepared again, and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.contract.document import (
    Contract,
    Golden,
    StoredValue,
    arrange,
    is_same,
    load_array,
    load_sample,
    prepare,
    read,
    row_value,
)
from bushel.data.samples import Sample
from bushel.errors import BushelError
from bushel.feeding.preparation import prepare_samples
from bushel.feeding.trees import load_trees
from bushel.keras import as_array, as_tensors, load_keras, load_model
from bushel.storage import AnyPath, as_path
from bushel.transforms import Draw, Transform, resize

_CLOSE = 1e-3  # relative to the spread of the values: how near a tensor must be to count as the explanation
_ROUNDING = 0.02  # relative to the spread: the difference that another decoder or order of sums may make


def compare_values(expected: Any, got: Any, others: Mapping[str, Any] | None = None) -> str | None:
    """What is different in one row of an input; None if nothing is. `others` are made in known wrong ways."""
    if isinstance(expected, np.ndarray):
        try:
            array = np.asarray(got)
        except ValueError as error:
            return f"is not an array: {error}"
        return compare_arrays(expected, array, others or {})
    if isinstance(got, np.ndarray):
        got = got.tolist()
    if isinstance(got, str):
        got = got.encode()
    return None if got == expected else f"is {_short(got)}; the model saw {_short(expected)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def compare_arrays(expected: NDArray[Any], got: NDArray[Any], others: Mapping[str, Any]) -> str | None:
    """What is different between two arrays; None if they are the same bit for bit."""
    if got.ndim == expected.ndim + 1 and got.shape[0] == 1:
        got = got[0]  # a batch of one
    if got.dtype.kind not in "biuf":
        return f"holds {got.dtype}; the model saw {expected.dtype}"
    if got.shape != expected.shape:
        return _other_shape(expected, got)
    if got.dtype == expected.dtype and got.tobytes() == expected.tobytes():
        return None
    values = np.array_equal(got, expected, equal_nan=expected.dtype.kind == "f" and got.dtype.kind == "f")
    if values and got.dtype == expected.dtype:
        return "differs only in the sign of zeros or in the bits of NaN"
    if values:
        return f"is {got.dtype}; the model saw the same values as {expected.dtype}"
    cause = next(_causes(expected.astype(np.float64), got.astype(np.float64), others), None)
    return cause or _unexplained(expected, got)


def _other_shape(expected: NDArray[Any], got: NDArray[Any]) -> str:
    text = f"has shape {list(got.shape)}; the model saw {list(expected.shape)}"
    if got.ndim == expected.ndim == 3:
        for axes, words in (((1, 2, 0), "channels come first"), ((1, 0, 2), "height and width are swapped")):
            if got.transpose(axes).shape == expected.shape:
                return f"{text}: {words}"
    if got.ndim == expected.ndim == 1:
        shared = min(len(got), len(expected))
        if np.array_equal(got[:shared], expected[:shared]):
            return f"{text}: it is {'cut' if len(got) < shared + 1 else 'padded'} to another length"
    if got.size == expected.size:
        return f"{text}: the same number of values in another shape"
    return text


def _causes(expected: NDArray[Any], got: NDArray[Any], others: Mapping[str, Any]) -> Iterator[str]:
    """Explanations, the simplest first."""
    if not np.isfinite(got).all() and np.isfinite(expected).all():
        yield f"has {int((~np.isfinite(got)).sum())} values that are NaN or infinite; the model saw none"
    scale = _spread(expected)
    for words, turned in _turned(expected):
        if _is_near(got, turned, scale):
            yield words
    for words, turned in [("", expected), *_turned(expected)]:
        if (line := _line(turned, got)) is not None:
            yield line + (f", and {words}" if words else "")
    yield from _nearest_other(expected, got, others)
    if expected.ndim <= 1:
        yield from _other_tokens(expected, got)


def _turned(expected: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The same picture, channels or rows in another order."""
    if expected.ndim != 3:
        return
    if expected.shape[2] in (3, 4):
        swapped = expected[..., [2, 1, 0, *range(3, expected.shape[2])]]
        yield "the channels are in the order BGR; the model saw RGB", swapped
    yield "the image is upside down", expected[::-1]
    yield "the image is mirrored, left to right", expected[:, ::-1]
    if expected.shape[0] == expected.shape[1]:
        for turns, words in ((1, "a quarter turn anticlockwise"), (2, "half a turn"), (3, "a quarter turn clockwise")):
            yield f"the image is turned by {words}: is its EXIF rotation applied?", np.rot90(expected, turns)
        yield "height and width are swapped", expected.transpose(1, 0, 2)


def _spread(values: NDArray[Any]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.ptp(finite)) or 1.0 if finite.size else 1.0


def _is_near(got: NDArray[Any], other: NDArray[Any], scale: float, *, within: float = _CLOSE) -> bool:
    return got.shape == other.shape and bool(np.nanmax(np.abs(got - other), initial=0) <= within * scale)


def _line(expected: NDArray[Any], got: NDArray[Any]) -> str | None:
    """Whether the values are a linear function of the expected ones, overall or per channel."""
    if expected.size < 2 or not (np.isfinite(expected).all() and np.isfinite(got).all()):
        return None
    fitted = _fit(expected.reshape(-1), got.reshape(-1))
    if fitted is not None:
        return _line_words([fitted], expected, got)
    channels = expected.shape[-1] if expected.ndim else 0
    if expected.ndim < 2 or not 2 <= channels <= 16:
        return None
    each = [_fit(expected[..., c].reshape(-1), got[..., c].reshape(-1)) for c in range(channels)]
    return None if any(fit is None for fit in each) else _line_words([fit for fit in each if fit], expected, got)


def _fit(expected: NDArray[Any], got: NDArray[Any]) -> tuple[float, float] | None:
    spread = float(np.ptp(expected))
    if spread == 0 or np.ptp(got) == 0:
        return None
    factor, shift = np.polyfit(expected, got, 1)
    is_line = np.abs(got - (factor * expected + shift)).max() <= _CLOSE * np.ptp(got)
    if abs(factor - 1) <= _CLOSE and abs(shift) <= _CLOSE * spread:
        return None  # the values are the same except for noise, which no factor explains
    return (float(factor), float(shift)) if is_line else None


def _line_words(lines: list[tuple[float, float]], expected: NDArray[Any], got: NDArray[Any]) -> str:
    ranges = (
        f"the range is {got.min():.4g} to {got.max():.4g}; the model saw {expected.min():.4g} to {expected.max():.4g}"
    )
    parts = [
        f"times {factor:.4g}" + (f" {'+' if shift > 0 else '-'} {abs(shift):.4g}" if abs(shift) > 1e-6 else "")
        for factor, shift in lines
    ]
    parts = list(dict.fromkeys(parts))
    each = " (one for each channel)" if len(parts) > 1 else ""
    return f"{ranges} (its values are those {', '.join(parts)}{each})"


def _nearest_other(expected: NDArray[Any], got: NDArray[Any], others: Mapping[str, Any]) -> Iterator[str]:
    """The known wrong way whose result is this tensor, or much nearer to it than the right one."""
    away = float(np.abs(got - expected).mean())
    best, name = away / 5, None
    for words, other in others.items():
        if np.shape(other) != got.shape:
            continue
        distance = float(np.abs(got - np.asarray(other, np.float64)).mean())
        if distance < best:
            best, name = distance, words
    if name is not None:
        yield f"{name}: values differ by {away:.3g} on average, and by {best:.2g} from those made so"


def _other_tokens(expected: NDArray[Any], got: NDArray[Any]) -> Iterator[str]:
    """Sequences of whole numbers: padded or cut on the other side, or from another vocabulary."""
    if expected.ndim == 0 or not (_is_whole(expected) and _is_whole(got)):
        return
    fill = expected[-1]
    trimmed = np.trim_zeros(expected - fill, "b") + fill
    if len(trimmed) < len(expected) and np.array_equal(got[len(got) - len(trimmed) :], trimmed):
        yield "the padding comes before the values; the model saw it after them"
    if len(trimmed) and len(trimmed) < len(expected) and np.array_equal(got[: len(trimmed)], trimmed):
        yield f"it is padded with {got[-1]:g}; the model saw {fill:g}"
    real = slice(0, len(trimmed))
    if len(set(zip(expected[real], got[real], strict=True))) == len(set(expected[real])) == len(set(got[real])) > 1:
        first = int(np.flatnonzero(expected != got)[0])
        yield (
            "every number stands for another, as with another vocabulary: "
            f"where the model saw {expected[first]:g} there is {got[first]:g}"
        )


def _is_whole(values: NDArray[Any]) -> bool:
    return bool(np.isfinite(values).all() and np.array_equal(values, np.rint(values)))


def _unexplained(expected: NDArray[Any], got: NDArray[Any]) -> str:
    wide, now = expected.astype(np.float64), got.astype(np.float64)
    away = np.abs(now - wide)
    differing = int((now != wide).sum())
    largest = float(np.nanmax(away, initial=0))
    text = f"{differing:,} of {expected.size:,} values differ, by up to {largest:.3g}"
    if largest <= _ROUNDING * _spread(wide):
        text += ": as small as another decoder, kernel or rounding makes it"
    if got.dtype != expected.dtype:
        text += f"; it is {got.dtype}, and the model saw {expected.dtype}"
    return text


def compare_classes(expected: list[str], got: list[str]) -> str | None:
    """What is different between two lists of classes; None if nothing is."""
    if got == expected:
        return None
    if sorted(got) == sorted(expected):
        at = next(number for number, (one, other) in enumerate(zip(expected, got, strict=True)) if one != other)
        how = "sorted" if got == sorted(got) else "in another order"
        return f"the same {len(expected)} classes {how}: {at} is {got[at]!r}, and was {expected[at]!r} in training"
    missing, extra = [n for n in expected if n not in got], [n for n in got if n not in expected]
    if not missing and got[-len(expected) :] == expected:
        return f"every code is moved by {len(extra)}: {_names(extra)} comes first, and was not there in training"
    parts = [f"lacks {_names(missing)}"] * bool(missing) + [f"has {_names(extra)} that training had not"] * bool(extra)
    return (
        " and ".join(parts) if parts else f"has {len(got)} classes with some named twice; training had {len(expected)}"
    )


def _names(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


Prepare: TypeAlias = Callable[[Sample], Any]
_SAME_OUTPUT = 1e-3  # how far outputs of a model may differ between machines, relative to the largest


class ServingDifference(msgspec.Struct, frozen=True):
    """One way in which serving differs from training."""

    at: str  # the input and the golden record, or `classes`
    what: str

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


def verify(
    contract: Contract | AnyPath,
    prepare: Prepare | None = None,
    *,
    classes: Sequence[str] | None = None,
    model: Any = None,
) -> list[ServingDifference]:
    """Prepare the golden inputs again, and return what differs: an empty list if all is the same, bit for bit.

    `prepare` is the function of the server: it takes one sample (a dict of features as they are stored: the bytes of an
    image, text, numbers) and returns the model's input of one row, alone or in a dict, with or without a batch axis.
    Without it, bushel's own preparation runs, which shows whether this machine's decoders agree. With `model`, the path
    of a Keras model or anything that can be called with a batch, outputs are compared too, if they were stored.

    >>> assert not bushel.contract.verify("runs/cats", my_prepare, classes=my_classes)
    """
    known = contract if isinstance(contract, Contract) else read(contract)
    found = []
    if classes is not None and (what := compare_classes(known.classes, list(classes))):
        found.append(ServingDifference("classes", what))
    for golden in known.golden:
        found.extend(_input_differences(known, golden, prepare))
    if model is not None:
        found.extend(_output_differences(known, _callable(model)))
    return found


def _input_differences(contract: Contract, golden: Golden, own: Prepare | None) -> Iterator[ServingDifference]:
    sample = load_sample(golden.sample)
    try:
        got = _prepared(contract, sample, own)
    except BushelError as error:
        yield ServingDifference(golden.record, f"cannot be prepared: {error.message}")
        return
    for name in golden.inputs:
        if name not in got:
            yield ServingDifference(f"{name} of {golden.record}", f"is missing; there is {', '.join(got) or 'nothing'}")
        elif what := _difference(contract, golden, sample, name, got[name], is_own=own is not None):
            yield ServingDifference(f"{name} of {golden.record}", what)


def _prepared(contract: Contract, sample: Sample, own: Prepare | None) -> dict[str, Any]:
    if own is None:
        columns = prepare(contract, [sample], built=True)
        return {name: row_value(columns[name], 0) for name in contract.inputs if name in columns}
    made = own(dict(sample))
    if isinstance(made, Mapping):
        return dict(made)
    if isinstance(made, tuple | list) and len(made) == len(contract.inputs) > 1:
        return dict(zip(contract.inputs, made, strict=True))
    return {next(iter(contract.inputs)): made}


def _difference(contract: Contract, golden: Golden, sample: Sample, name: str, got: Any, *, is_own: bool) -> str | None:
    stored = golden.inputs[name]
    if stored.array is not None:
        array = np.asarray(got)
        if is_same(array[0] if array.ndim == len(stored.array.shape) + 1 and len(array) == 1 else array, stored.array):
            return None
    expected = _expected(contract, stored, sample, name)
    if expected is None:
        return "is not the tensor whose digest was kept, which was too large to be kept itself"
    others = dict(_wrong_ways(contract, sample, name)) if is_own and isinstance(expected, np.ndarray) else {}
    return compare_values(expected, got, others)


def _expected(contract: Contract, stored: StoredValue, sample: Sample, name: str) -> Any:
    """The tensor that was stored, or made again if only its digest was."""
    if stored.array is None:
        return load_sample({name: stored})[name]
    array = load_array(stored.array)
    if array is not None:
        return array
    again = row_value(prepare(contract, [sample], built=True)[name], 0)
    return again if is_same(again, stored.array) else None


class _OtherKernel:
    """Resizes like another program."""

    def __init__(self, step: Any, kernel: str) -> None:
        self.step = step
        self.kernel = kernel

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        from PIL import Image

        step, pixels = self.step, np.asarray(sample[self.step.feature])
        method = Image.Resampling[self.kernel]
        planes = [
            Image.fromarray(pixels[..., channel]).resize((step.width, step.height), method)
            for channel in range(pixels.shape[2])
        ]
        resized = np.stack([np.asarray(plane) for plane in planes], axis=2)
        return {**sample, step.feature: resized.astype(step.dtype or pixels.dtype)}


_FITS = {
    "stretch": "stretched to its size",
    "pad": "padded to its size",
    "crop": "cut to its shape",
}


def _wrong_ways(contract: Contract, sample: Sample, name: str) -> Iterator[tuple[str, Any]]:
    """The tensor with another kernel or fit, so that a wrong one can be named."""
    for number, step in enumerate(contract.preparation.transforms):
        if not isinstance(step, resize) or step.feature != name:
            continue
        used = _kernel_words(step.kernel, antialias=step.antialias)
        for words, other in _other_kernels(step):
            difference = f"the kernel is {words}; the model saw {used}"
            yield from _made_with(contract, sample, name, (number, other), difference)
        for fit, words in _FITS.items():
            if fit != step.fit and step.fit in _FITS:
                changed = msgspec.structs.replace(step, fit=fit)
                difference = f"the image is {words}; the model saw it {_FITS[step.fit]}"
                yield from _made_with(contract, sample, name, (number, changed), difference)


def _other_kernels(step: Any) -> Iterator[tuple[str, Any]]:
    for kernel in ("bilinear", "bicubic", "area"):
        for antialias in (False, True):
            if (kernel, antialias) != (step.kernel, step.antialias) and not (kernel == "area" and antialias):
                changed = msgspec.structs.replace(step, kernel=kernel, antialias=antialias)
                yield _kernel_words(kernel, antialias=antialias), changed
    if step.fit == "stretch":
        for kernel in ("NEAREST", "BOX", "BILINEAR", "BICUBIC", "LANCZOS"):
            yield f"Pillow's {kernel.lower()}", _OtherKernel(step, kernel)


def _kernel_words(kernel: str, *, antialias: bool) -> str:
    return kernel if kernel == "area" else f"{kernel} {'with' if antialias else 'without'} antialias"


def _made_with(
    contract: Contract, sample: Sample, name: str, change: tuple[int, Any], words: str
) -> Iterator[tuple[str, Any]]:
    number, step = change
    steps: list[Transform] = list(contract.preparation.transforms)
    steps[number] = step
    changed = msgspec.structs.replace(contract.preparation, transforms=tuple(steps))
    try:
        yield words, row_value(prepare_samples(changed, contract.schema, [sample])[name], 0)
    except (BushelError, ValueError, TypeError):
        return  # these pixels cannot be prepared this way


def _callable(model: Any) -> Callable[[Any], Any]:
    if callable(model) and not hasattr(model, "layers"):
        return model  # type: ignore[no-any-return]
    if not callable(model) and as_path(model).suffix == ".npz":
        return load_trees(model)
    loaded = model if callable(model) else load_model(model, purpose="running a model")
    return lambda batch: load_keras().tree.map_structure(as_array, loaded(as_tensors(batch), training=False))


def _output_differences(contract: Contract, model: Callable[[Any], Any]) -> Iterator[ServingDifference]:
    for golden in contract.golden:
        if not golden.outputs:
            continue
        made = model(arrange(contract, prepare(contract, [load_sample(golden.sample)], built=True)))
        named: Mapping[str, Any] = made if isinstance(made, Mapping) else {"output": made}
        for name, stored in golden.outputs.items():
            expected = load_array(stored)
            if expected is None:
                continue
            got = np.asarray(named[name])[0] if name in named else np.empty(0)
            if what := _output_difference(expected, got):
                yield ServingDifference(f"{name} of {golden.record}", what)


def _output_difference(expected: Any, got: Any) -> str | None:
    if got.shape != expected.shape:
        return f"has shape {list(got.shape)}; it was {list(expected.shape)} in training"
    away = float(np.abs(got.astype(np.float64) - expected).max(initial=0))
    if away <= _SAME_OUTPUT * max(1.0, float(np.abs(expected).max(initial=0))):
        return None
    return f"the model's output differs by up to {away:.3g} from that of training: is it the same model?"
