"""Use a trained model: on raw files (`predict`), or on the records of a dataset (`evaluate`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.contract import Contract, arrange, prepare, read
from bushel.contract.raw_samples import RawSample, raw_rows, read_raw
from bushel.data.samples import Sample
from bushel.data.splits import ALL, TEST, VAL
from bushel.errors import BushelError, FileProblem, MissingName, SchemaMismatch, quantity
from bushel.feeding.preparation import Input, prepare_samples
from bushel.feeding.trees import Trees, load_trees
from bushel.keras import as_array, as_tensors, load_model
from bushel.printing import html_table
from bushel.reading import Dataset
from bushel.reading.dataset import open as open_dataset
from bushel.storage import AnyPath, as_path
from bushel.training.inputs.splits import feed_of
from bushel.training.options import Options
from bushel.training.predictions import Predictor
from bushel.training.run_folder import MODEL, TREES
from bushel.training.verdict.intervals import score_interval
from bushel.training.verdict.metrics import cell, class_table, metric_words, metrics, primary
from bushel.transforms import decode_image, resize

__all__ = [
    "NOT_A_NUMBER",
    "Evaluation",
    "Prediction",
    "TrainedModel",
    "evaluate",
    "open_run",
    "predict",
    "predict_raw",
    "predict_rows",
]

NOT_A_NUMBER = "the model's output is not a number"
_LIKELY = 0.5  # the probability from which a label of several is predicted


class Prediction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prediction for one sample, or why there is none."""

    name: str
    label: str | list[str] | None = None  # the most likely class; all likely ones if a sample may have several
    probability: float | None = None  # of that class
    scores: dict[str, float] = {}  # by class, the most likely first
    value: float | list[float] | None = None  # of a regression
    note: str | None = None  # what was done to make the sample fit
    why: str | None = None

    def __repr__(self) -> str:
        answer = self.why if self.why is not None else cell(self.value if self.value is not None else self.label)
        shown = "" if self.probability is None else f" ({self.probability:.3f})"
        return f"Prediction({self.name}: {answer}{shown})"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How good a model is on the records of one split."""

    split: str
    records: int
    metric: str
    score: dict[str, float]  # value, low and high of 95 %
    metrics: dict[str, float]
    classes: list[dict[str, Any]]

    @property
    def summary(self) -> str:
        """The score in one line."""
        value, low, high = (f"{self.score[name]:.4g}" for name in ("value", "low", "high"))
        records = f"{self.records:,} record{'' if self.records == 1 else 's'}"
        return f"{self.split}: {metric_words(self.metric)} {value} ({low} to {high}) on {records}"

    def __repr__(self) -> str:
        return f"Evaluation({self.summary})"

    def _repr_html_(self) -> str:
        rows = [[metric_words(name), cell(value)] for name, value in self.metrics.items()]
        return html_table(["metric", self.split], rows)


class TrainedModel:
    """A trained model, loaded when first used, and its contract."""

    def __init__(self, contract: Contract, path: Path) -> None:
        self.contract = contract
        self.path = path

    @cached_property
    def model(self) -> Any:
        """The model itself."""
        return load_trees(self.path) if self.path.name == TREES else load_model(self.path, purpose="bushel predict")

    @cached_property
    def predictor(self) -> Predictor:
        """The model, with how it is fed and what its outputs mean."""
        return Predictor(self._call, self.contract.problem, self.contract.output_kind)

    def _call(self, x: Any) -> NDArray[Any]:
        try:
            outputs = self.model(x) if isinstance(self.model, Trees) else self.model(as_tensors(x), training=False)
        except (ValueError, TypeError) as error:
            why = str(error).splitlines()[0][:200]
            raise SchemaMismatch(
                f"the model does not take the inputs of its contract: {why}", at=str(self.path)
            ) from None
        if isinstance(outputs, dict | list | tuple):
            raise SchemaMismatch("the model has several outputs, so it does not predict one class", at=str(self.path))
        return outputs if isinstance(outputs, np.ndarray) else as_array(outputs)


def open_run(run: AnyPath) -> TrainedModel:
    """Open a run: the folder with its contract.json and its model.keras."""
    contract = read(run)
    path = as_path(run)
    folder = path if path.is_dir() else path.parent
    found = next((folder / name for name in (MODEL, TREES) if (folder / name).is_file()), None)
    if found is None:
        raise FileProblem(folder, f"there is no {MODEL} in this folder, so this is not a finished run")
    return TrainedModel(contract, found)


def predict(
    run: TrainedModel | AnyPath,
    paths: AnyPath | Iterable[AnyPath],
    *,
    split: str | None = None,
    lines: bool | None = None,
    batch_size: int = 32,
) -> Iterator[Prediction]:
    """Run a model on files: images, texts, rows of tables, or records, one prediction each, in order.

    They are prepared as in training, from the run's contract alone. `split` chooses one of a dataset; `lines` says
    whether a text file holds one sample per line. A sample that cannot be used has a prediction that says why.

    >>> for prediction in bushel.predict("runs/cats", "photos/*.jpg"):
    ...     print(prediction.name, prediction.label, prediction.probability)
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    opened = run if isinstance(run, TrainedModel) else open_run(run)
    return predict_raw(opened, read_raw(opened.contract, paths, split=split, lines=lines), batch_size)


def predict_rows(run: TrainedModel | AnyPath, rows: Sequence[Any]) -> list[Prediction]:
    """Run a model on rows: dicts of values by the names of the source, with `{"base64": ...}` for bytes.

    >>> bushel.predict_rows("runs/flowers", [{"petal": 1.4, "sepal": 5.1}])
    """
    opened = run if isinstance(run, TrainedModel) else open_run(run)
    return list(predict_raw(opened, raw_rows(opened.contract, rows)))


def predict_raw(run: TrainedModel, raw: Iterable[RawSample], batch_size: int = 32) -> Iterator[Prediction]:
    """One prediction for each sample that was read."""
    return (prediction for some in _some(iter(raw), batch_size) for prediction in _batch(run, some))


def _some(raw: Iterator[RawSample], size: int) -> Iterator[list[RawSample]]:
    while some := list(islice(raw, size)):
        yield some


def _batch(run: TrainedModel, raw: list[RawSample]) -> Iterator[Prediction]:
    samples = [(at, one.sample) for at, one in enumerate(raw) if one.sample is not None]
    if samples:
        _ = run.model  # a model that cannot be loaded is not the fault of a sample
    answers = _answers(run, samples)
    for at, one in enumerate(raw):
        answer = answers.get(at, one.why)
        if isinstance(answer, str):
            yield Prediction(name=one.name, why=answer)
        else:
            yield _prediction(run.contract, one.name, answer)


class _Answer(NamedTuple):
    row: NDArray[Any]
    note: str | None = None


def _answers(run: TrainedModel, samples: list[tuple[int, Sample]]) -> dict[int, _Answer | str]:
    """The model's output for each sample by position, or why there is none; a bad sample does not affect the others."""
    if not samples:
        return {}
    try:
        columns, note = _fitting(run.contract, [sample for _, sample in samples])
        rows = run.predictor.ask(arrange(run.contract, columns))
    except BushelError as error:
        if len(samples) == 1:
            return {samples[0][0]: error.message}
        alone = (_answers(run, [one]) for one in samples)
        return {at: answer for answers in alone for at, answer in answers.items()}
    return {
        at: _Answer(row, note) if np.isfinite(row).all() else NOT_A_NUMBER
        for (at, _), row in zip(samples, rows, strict=True)
    }


def _fitting(contract: Contract, samples: list[Sample]) -> tuple[dict[str, Any], str | None]:
    """Samples as the model takes them; an image of another size than those of training is resized, with a note."""
    columns = prepare(contract, samples, built=True)
    other = [given for given in contract.preparation.inputs if not _is_of_shape(columns.get(given.name), given)]
    if not other:
        return columns, None
    decoded = {step.feature for step in contract.preparation.steps if isinstance(step, decode_image)}
    for given in other:
        if given.name not in decoded or len(given.shape) != 3:
            raise SchemaMismatch(
                f"the model takes {list(given.shape)}, and the sample has another shape", at=given.name
            )
    if len(samples) > 1:
        raise SchemaMismatch("the images of a batch differ in size", at=other[0].name)  # then each is predicted alone
    steps = [more for step in contract.preparation.transforms for more in (step, *_resizes(step, other))]
    resizing = msgspec.structs.replace(contract.preparation, transforms=tuple(steps))
    sizes = ", ".join(f"{given.shape[0]} x {given.shape[1]}" for given in other)
    return prepare_samples(resizing, contract.schema, samples), f"resized to {sizes}, the size of training"


def _is_of_shape(column: Any, given: Input) -> bool:
    is_known = isinstance(column, np.ndarray) and column.ndim == len(given.shape) + 1
    return is_known and all(size in (None, there) for size, there in zip(given.shape, column.shape[1:], strict=True))


def _resizes(step: Any, others: list[Input]) -> list[Any]:
    """What follows a step that decodes one of these images."""
    if not isinstance(step, decode_image):
        return []
    return [resize(given.name, *given.shape[:2]) for given in others if given.name == step.feature]  # type: ignore[arg-type]


def _prediction(contract: Contract, name: str, answer: _Answer) -> Prediction:
    target, (row, note) = contract.target, answer
    if target.kind == "regression":
        values = [float(value) for value in row.reshape(-1)]
        return Prediction(name=name, value=values[0] if len(values) == 1 else values, note=note)
    classes = target.classes or [str(code) for code in range(len(row))]
    if len(classes) != len(row):
        raise SchemaMismatch(
            f"the model gives {len(row)} numbers per sample, and the contract names {len(classes)} classes", at=MODEL
        )
    order = np.argsort(-row, kind="stable")
    scores = {classes[code]: round(float(row[code]), 6) for code in order}
    if target.kind == "multi_label":
        likely = [classes[code] for code in order if row[code] >= _LIKELY]
        return Prediction(name=name, label=likely, scores=scores, note=note)
    best = int(order[0])
    return Prediction(name=name, label=classes[best], probability=float(row[best]), scores=scores, note=note)


def evaluate(
    run: AnyPath, data: AnyPath | Iterable[AnyPath] | Dataset, *, split: str | None = None, batch_size: int = 64
) -> Evaluation:
    """Measure the model of a run; by default on the split test, or val, or the only one.

    >>> bushel.evaluate("runs/1", "new-data").metrics["accuracy"]
    """
    opened = open_run(run)
    target = opened.contract.target
    dataset = data if isinstance(data, Dataset) else open_dataset(data)
    chosen = dataset.choose(split, TEST, VAL, ALL)
    if target.label not in chosen.schema:
        raise MissingName("feature", target.label, chosen.schema, where=chosen.paths[0])
    found = opened.predictor.over(feed_of(chosen, opened.contract.problem, Options(batch_size=batch_size)))
    if wrong := int((~np.isfinite(found.outputs.reshape(len(found), -1)).all(axis=1)).sum()):
        raise BushelError(f"{opened.path}: {NOT_A_NUMBER} for {wrong:,} of {quantity(len(found), 'record')}")
    metric = primary(target)
    score = score_interval(metric, found.labels, found.outputs)
    return Evaluation(
        split=chosen.name,
        records=len(found),
        metric=metric.name,
        score=score.to_json(),
        metrics=metrics(target, found),
        classes=class_table(target, found),
    )
