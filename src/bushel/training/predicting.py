"""What a trained model says of raw files and records, prepared exactly as in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.contract import Contract, arrange, prepare, read
from bushel.contract.models import as_tensors, load_model
from bushel.contract.raw import Raw, read_raw
from bushel.data.samples import Sample
from bushel.errors import BushelError, FileProblem, SchemaMismatch
from bushel.storage import AnyPath, as_path

__all__ = ["MODEL_NAME", "Prediction", "Run", "open_run", "predict", "probabilities"]

MODEL_NAME = "model.keras"
_LIKELY = 0.5  # probability from which one of several labels is given


class Prediction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model says of one sample; or why it could not be asked."""

    name: str
    label: str | list[str] | None = None  # the likeliest class; all likely ones where there may be several
    probability: float | None = None  # of that class
    scores: dict[str, float] = {}  # by class, the likeliest first
    value: float | list[float] | None = None  # of a regression
    why: str | None = None


class Run:
    """A trained model, loaded when it is first asked, and its contract."""

    def __init__(self, contract: Contract, path: Path) -> None:
        self.contract = contract
        self.path = path

    @cached_property
    def model(self) -> Any:
        """The model itself."""
        return load_model(self.path, purpose="bushel predict")

    def outputs(self, columns: Any) -> NDArray[Any]:
        """What the model gives for the columns of a batch, one row a sample."""
        try:
            made = self.model(as_tensors(arrange(self.contract, columns)), training=False)
        except (ValueError, TypeError) as error:
            why = str(error).splitlines()[0][:200]
            raise SchemaMismatch(
                f"the model does not take the inputs of its contract: {why}", at=str(self.path)
            ) from None
        if isinstance(made, dict | list | tuple):
            raise SchemaMismatch("a model with several outputs cannot be asked for one class", at=str(self.path))
        return np.asarray(made)


def open_run(run: AnyPath) -> Run:
    """Open a run: the folder with its contract.json and its model.keras."""
    contract = read(run)
    path = as_path(run)
    folder = path if path.is_dir() else path.parent
    if not (folder / MODEL_NAME).is_file():
        raise FileProblem(folder, f"there is no {MODEL_NAME} in this folder, so it is no finished run")
    return Run(contract, folder / MODEL_NAME)


def predict(
    run: Run | AnyPath,
    paths: AnyPath | Iterable[AnyPath],
    *,
    split: str | None = None,
    lines: bool | None = None,
    batch_size: int = 32,
) -> Iterator[Prediction]:
    """Say what a model makes of files: images, texts, rows of tables, or records, one prediction each, in order.

    They are prepared from the run's contract alone, as in training. `split` chooses one of a dataset; `lines` says
    whether a text file holds a sample a line. A sample that cannot be used has a prediction that says why.

    >>> for prediction in bushel.predict("runs/cats", "photos/*.jpg"):
    ...     print(prediction.name, prediction.label, prediction.probability)
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    opened = run if isinstance(run, Run) else open_run(run)
    raw = read_raw(opened.contract, paths, split=split, lines=lines)
    return _predictions(opened, raw, batch_size)


def _predictions(run: Run, raw: Iterator[Raw], batch_size: int) -> Iterator[Prediction]:
    while some := list(islice(raw, batch_size)):
        yield from _batch(run, some)


def _batch(run: Run, raw: list[Raw]) -> Iterator[Prediction]:
    usable = [(at, one.sample) for at, one in enumerate(raw) if one.sample is not None]
    said = _said(run, usable)
    for at, one in enumerate(raw):
        answer = said.get(at, one.why)
        if isinstance(answer, str):
            yield Prediction(name=one.name, why=answer)
        else:
            yield _words(run.contract, one.name, answer)


def _said(run: Run, samples: list[tuple[int, Sample]]) -> dict[int, NDArray[Any] | str]:
    """The model's answer for each sample by its place, or why it has none; one bad sample spoils no other."""
    if not samples:
        return {}
    try:
        columns = prepare(run.contract, [sample for _, sample in samples])
    except BushelError as error:
        if len(samples) == 1:
            return {samples[0][0]: error.message}
        alone = (_said(run, [one]) for one in samples)
        return {at: answer for answers in alone for at, answer in answers.items()}
    rows = probabilities(run.contract.task, run.outputs(columns))
    return {at: row for (at, _), row in zip(samples, rows, strict=True)}


def _words(contract: Contract, name: str, row: NDArray[Any]) -> Prediction:
    if contract.task == "regression" or (contract.task is None and not contract.classes):
        values = [float(value) for value in row.reshape(-1)]
        return Prediction(name=name, value=values[0] if len(values) == 1 else values)
    classes = contract.classes or [str(code) for code in range(len(row))]
    if len(classes) != len(row):
        raise SchemaMismatch(
            f"the model gives {len(row)} numbers a sample, and the contract names {len(classes)} classes", at=MODEL_NAME
        )
    order = np.argsort(-row, kind="stable")
    scores = {classes[code]: round(float(row[code]), 6) for code in order}
    if contract.task == "multi_label":
        return Prediction(name=name, label=[classes[code] for code in order if row[code] >= _LIKELY], scores=scores)
    best = int(order[0])
    return Prediction(name=name, label=classes[best], probability=float(row[best]), scores=scores)


def probabilities(task: str | None, raw: NDArray[Any]) -> NDArray[Any]:
    """Outputs of a model as probabilities by class, whether it gives those or logits; numbers as they are."""
    raw = np.asarray(raw, np.float32).reshape(len(raw), -1)
    if task in (None, "regression"):
        return raw
    is_inside = bool(raw.size == 0 or (raw.min() >= 0 and raw.max() <= 1 + 1e-3))
    if task == "multi_label" or raw.shape[1] == 1:
        shares = raw if is_inside else 1 / (1 + np.exp(-np.clip(raw, -60, 60)))
        return np.asarray(shares if task == "multi_label" else np.concatenate([1 - shares, shares], axis=1))
    if is_inside and np.allclose(raw.sum(axis=1), 1, atol=1e-2):
        return raw
    shifted = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
