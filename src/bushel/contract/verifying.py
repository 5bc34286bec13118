"""Whether a serving process prepares its inputs as training did: golden inputs prepared again, and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from bushel.contract.comparing import compare_classes, compare_values
from bushel.contract.document import Contract, Golden, arrange, prepare, read, row_value
from bushel.contract.stored import StoredValue, is_same, load_array, load_sample
from bushel.data.samples import Sample
from bushel.errors import BushelError
from bushel.feeding.preparation import prepare_samples
from bushel.keras import as_tensors, load_model
from bushel.storage import AnyPath
from bushel.transforms import Draw, Transform, resize

__all__ = ["Difference", "verify"]

Prepare: TypeAlias = Callable[[Sample], Any]
_SAME_OUTPUT = 1e-3  # how far outputs of the same model may be apart on another machine, of their largest value


class Difference(msgspec.Struct, frozen=True):
    """One way in which serving is not what training was."""

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
) -> list[Difference]:
    """Prepare the golden inputs again, and return what is different: nothing where all is as it was, bit for bit.

    `prepare` is the serving process's own: it takes one sample (a dict of features as they are stored: the bytes of an
    image, text, numbers) and gives the model's input of one row, bare or a dict, with or without a batch's axis.
    Without it, bushel's own is run, which tells whether this machine's decoders still agree. `model`, the path of
    a Keras model or anything that can be called with a batch, is compared by its outputs where those were kept.

    >>> assert not bushel.contract.verify("runs/cats", my_prepare, classes=my_classes)
    """
    known = contract if isinstance(contract, Contract) else read(contract)
    found = []
    if classes is not None and (what := compare_classes(known.classes, list(classes))):
        found.append(Difference("classes", what))
    for golden in known.golden:
        found.extend(_input_differences(known, golden, prepare))
    if model is not None:
        found.extend(_output_differences(known, _callable(model)))
    return found


def _input_differences(contract: Contract, golden: Golden, own: Prepare | None) -> Iterator[Difference]:
    sample = load_sample(golden.sample)
    try:
        got = _prepared(contract, sample, own)
    except BushelError as error:
        yield Difference(golden.record, f"cannot be prepared: {error.message}")
        return
    for name in golden.inputs:
        if name not in got:
            yield Difference(f"{name} of {golden.record}", f"is missing; there is {', '.join(got) or 'nothing'}")
        elif what := _difference(contract, golden, sample, name, got[name], is_own=own is not None):
            yield Difference(f"{name} of {golden.record}", what)


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
    """The tensor that was kept, or made again where only its digest was."""
    if stored.array is None:
        return load_sample({name: stored})[name]
    array = load_array(stored.array)
    if array is not None:
        return array
    again = row_value(prepare(contract, [sample], built=True)[name], 0)
    return again if is_same(again, stored.array) else None


class _OtherKernel:
    """Resizes as another program would."""

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
    """The tensor as it would be with another kernel or another way to fit, so that the one used can be named."""
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
    loaded = model if callable(model) else load_model(model, purpose="running a model")
    return lambda batch: loaded(as_tensors(batch), training=False)


def _output_differences(contract: Contract, model: Callable[[Any], Any]) -> Iterator[Difference]:
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
                yield Difference(f"{name} of {golden.record}", what)


def _output_difference(expected: Any, got: Any) -> str | None:
    if got.shape != expected.shape:
        return f"has shape {list(got.shape)}; it was {list(expected.shape)} in training"
    away = float(np.abs(got.astype(np.float64) - expected).max(initial=0))
    if away <= _SAME_OUTPUT * max(1.0, float(np.abs(expected).max(initial=0))):
        return None
    return f"the model's output differs by up to {away:.3g} from that of training: is it the same model?"
