"""`evaluate`: a finished run measured on other records, prepared from its contract alone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import msgspec
import numpy as np

from bushel import contract
from bushel.contract.models import as_tensors
from bushel.errors import MissingName
from bushel.reading import Dataset, Split, batches
from bushel.reading import open as open_dataset
from bushel.storage import AnyPath, as_path
from bushel.training.inputs.inputs import arrange, as_array
from bushel.training.inputs.task import Task, encode_labels
from bushel.training.predicting import open_run, probabilities
from bushel.training.run_folder import read_run
from bushel.training.verdict.scores import Predictions, bootstrap, class_table, losses_of, measure_of, metrics, primary

__all__ = ["Evaluation", "evaluate"]


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How good a model is on the records of one split."""

    split: str
    records: int
    metric: str
    score: dict[str, float]  # value, low and high of 95 %
    metrics: dict[str, float]
    classes: list[dict[str, Any]]


def evaluate(
    run: AnyPath, data: AnyPath | Iterable[AnyPath] | Dataset, *, split: str | None = None, batch_size: int = 64
) -> Evaluation:
    """Measure the model of a run; by default on the split test, or val, or the only one.

    >>> bushel.evaluate("runs/1", "new-data").metrics["accuracy"]
    """
    opened = open_run(run)
    task = read_run(as_path(run)).task
    chosen = _split(data if isinstance(data, Dataset) else open_dataset(data), split)
    if task.label not in chosen.schema:
        raise MissingName("feature", task.label, chosen.schema, where=chosen.paths[0])
    found = _predictions(opened.contract, opened.model, task, chosen, batch_size)
    measured = measure_of(task, found.labels, found.outputs)
    return Evaluation(
        split=chosen.name,
        records=len(found),
        metric=primary(task)[0],
        score=bootstrap(measured, len(found), draws=100 if task.kind == "multi_label" else 400).to_json(),
        metrics=metrics(task, found),
        classes=class_table(task, found),
    )


def _split(data: Dataset, asked: str | None) -> Split:
    if asked is not None:
        return data[asked]
    found = next((data[name] for name in ("test", "val", "all") if name in data), None)
    if found is not None:
        return found
    if len(data) != 1:
        raise ValueError(f"split must be one of {', '.join(data)}; got None")
    return next(iter(data.splits.values()))


def _predictions(made: contract.Contract, model: Any, task: Task, split: Split, batch_size: int) -> Predictions:
    preparation = made.preparation
    names = list(made.inputs)
    labels, outputs, rows = [], [], []
    feed = batches(
        split,
        batch_size=batch_size,
        columns=list(dict.fromkeys([*preparation.features, task.label])),
        transforms=preparation.transforms,
        layout=preparation.layout,
    )
    with closing(feed):
        for batch in feed:
            labels.append(encode_labels(task, batch[task.label]))
            arrays = {name: as_array(name, batch[name]) for name in names}
            outputs.append(np.asarray(model(as_tensors(arrange(arrays)), training=False)))
            rows.append(batch.rows)
    truth = np.concatenate(labels)
    said = probabilities(task.kind, np.concatenate(outputs))
    return Predictions(truth, said, losses_of(task, truth, said), np.concatenate(rows))
