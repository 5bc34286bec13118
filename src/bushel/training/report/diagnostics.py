"""What predictions look like: errors of numbers, thresholds, calibration, and which classes are confused."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel.feeding.preparation import Target
from bushel.printing import Series, chart, html_table
from bushel.training.inputs.splits import spread
from bushel.training.predictions import Predictions
from bushel.training.verdict.metrics import auc, cell, class_table, confusion

__all__ = ["class_sections", "prediction_sections"]

Array = NDArray[Any]

_DOTS = 800  # in a chart
_CURVE = 200  # points of a curve
_COLUMNS = 3  # numbers of a regression to draw
_MOST_CLASSES = 30  # up to which the whole table of confusions is shown
_PAIRS = 12
_BINS = 10
_ROWS = 20_000  # records to try thresholds on
_LABELS = 30  # labels to show a threshold for
_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def prediction_sections(target: Target, found: Predictions) -> Iterator[str]:
    """Charts of what was predicted for the records that judge the model."""
    if target.kind == "regression":
        yield "<h2>Predictions</h2>"
        yield f'<div class="charts">{"".join(_errors(target, found))}</div>'
        return
    if target.kind == "binary" and found.outputs.shape[1] == 2 and 0 < found.labels.sum() < len(found):
        yield "<h2>Thresholds</h2>"
        yield from _thresholds(target, found)
    if target.kind == "multi_label":
        yield "<h2>Thresholds</h2>"
        yield _label_thresholds(target, found)
    if target.is_classes:
        yield "<h2>Calibration</h2>"
        yield f'<div class="charts">{_calibration(found)}</div>'


def _errors(target: Target, found: Predictions) -> Iterator[str]:
    """Predicted against true, and what is left over it."""
    rows = spread(len(found), _DOTS)
    for column in range(min(target.width, _COLUMNS)):
        name = target.label if target.width == 1 else f"{target.label}[{column}]"
        truth, predicted = (part[rows, column].astype(float) for part in (found.labels, found.outputs))
        both = np.concatenate([truth, predicted])
        ends = [(float(both.min()), float(both.min())), (float(both.max()), float(both.max()))]
        close = float(np.corrcoef(truth, predicted)[0, 1]) if truth.std() and predicted.std() else float("nan")
        yield chart(
            f"predicted against true {name}",
            [
                Series("records", list(zip(truth.tolist(), predicted.tolist(), strict=True)), "dots"),
                Series("equal", ends, "reference"),
            ],
            x=f"true {name}",
            y="predicted",
            said=f"predicted against true {name} of {len(rows):,} records: correlation {cell(close)}",
        )
        errors = predicted - truth
        across = [(float(predicted.min()), 0.0), (float(predicted.max()), 0.0)]
        yield chart(
            f"residuals of {name}",
            [
                Series("records", list(zip(predicted.tolist(), errors.tolist(), strict=True)), "dots"),
                Series("no error", across, "reference"),
            ],
            x=f"predicted {name}",
            y="predicted - true",
            said=f"residuals of {name}: mean {cell(float(errors.mean()))}, deviation {cell(float(errors.std()))}",
        )


def _thresholds(target: Target, found: Predictions) -> Iterator[str]:
    """ROC and precision by recall, and a table to choose a threshold from."""
    code = int(np.argmin(target.counts)) if len(target.counts) == 2 else 1  # the rarer class is what one looks for
    rows = spread(len(found), _ROWS)
    truth, scores = found.labels[rows] == code, found.outputs[rows, code].astype(float)
    positive = target.classes[code]
    points = _by_threshold(truth, scores)
    best = points[int(np.argmax([point["F1"] for point in points]))]
    yield f"<p>The positive class is <strong>{escape(positive)}</strong>. Each threshold is the least probability "
    yield f"that counts as {escape(positive)}; F1 is best at {best['threshold']:.3g}.</p>"
    area = auc(truth, scores)
    roc = [(1.0, 1.0), *((point["false alarms"], point["recall"]) for point in points), (0.0, 0.0)]
    curve = [(point["recall"], point["precision"]) for point in points]
    share = float(truth.mean())
    yield '<div class="charts">'
    yield chart(
        f"ROC, area {area:.3f}",
        [Series("model", _thin(roc)), Series("guessing", [(0, 0), (1, 1)], "reference")],
        x="share of negatives with an alarm",
        y="recall",
        said=f"ROC curve of {positive}: area {area:.3f}",
    )
    yield chart(
        "precision by recall",
        [Series("model", _thin(curve)), Series("guessing", [(0, share), (1, share)], "reference")],
        x="recall",
        y="precision",
        said=f"precision by recall of {positive}; guessing has a precision of {share:.3f}",
    )
    yield "</div>"
    chosen = [_at(truth, scores, threshold) for threshold in sorted({*_THRESHOLDS, best["threshold"]})]
    names = ["threshold", "recall", "precision", "F1", "false alarms"]
    table = [[cell(point[name]) for name in names] for point in chosen]
    for row, point in zip(table, chosen, strict=True):
        row[0] += " (best F1)" if point["threshold"] == best["threshold"] else ""
    yield html_table(names, table)


def _by_threshold(truth: Array, scores: Array) -> list[dict[str, float]]:
    """The points of the curves, from the lowest threshold to the highest."""
    known = np.unique(scores)
    return [_at(truth, scores, float(value)) for value in known[spread(len(known), _CURVE)]]


def _at(truth: Array, scores: Array, threshold: float) -> dict[str, float]:
    chosen = scores >= threshold
    right, taken, real = int((chosen & truth).sum()), int(chosen.sum()), int(truth.sum())
    return {
        "threshold": threshold,
        "recall": right / max(1, real),
        "precision": right / taken if taken else float("nan"),
        "F1": 2 * right / max(1, real + taken),
        "false alarms": (taken - right) / max(1, len(truth) - real),
    }


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [points[at] for at in spread(len(points), _CURVE)]


def _label_thresholds(target: Target, found: Predictions) -> str:
    """For each label, the threshold with the best F1."""
    rows, some = [], spread(len(found), _ROWS)
    for number, name in enumerate(target.classes[:_LABELS]):
        truth, scores = found.labels[some, number] > 0.5, found.outputs[some, number].astype(float)
        if not truth.any():
            continue
        best = max(_by_threshold(truth, scores), key=lambda point: point["F1"])
        rows.append([name, *(cell(best[key]) for key in ("threshold", "F1", "recall", "precision"))])
    return html_table(["label", "best threshold", "F1", "recall", "precision"], rows)


def _calibration(found: Predictions) -> str:
    """How often the predicted class is right, by its probability."""
    sure = found.outputs.max(axis=1).astype(float)
    right = found.outputs.argmax(axis=1) == found.labels
    order = np.argsort(sure, kind="stable")
    bins = [part for part in np.array_split(order, min(_BINS, max(1, len(order) // 10))) if len(part)]
    points = [(float(sure[part].mean()), float(right[part].mean())) for part in bins]
    away = sum(len(part) * abs(a - b) for part, (a, b) in zip(bins, points, strict=True)) / len(order)
    low = min(min(point) for point in points)
    return chart(
        f"how sure, and how often right (off by {away:.3f})",
        [Series("model", points), Series("calibrated", [(low, low), (1, 1)], "reference")],
        x="probability of the predicted class",
        y="share that is right",
        said=f"calibration: probabilities differ from the share that is right by {away:.3f} on average",
    )


def class_sections(target: Target, found: Predictions) -> Iterator[str]:
    """Recall and precision of each class, and which are taken for which."""
    table = class_table(target, found)
    if not table:
        return
    yield "<h2>Classes</h2>"
    head = ["class", "records", "recall", "95 % from", "to", "precision", "F1"]
    keys = ("class", "records", "recall", "recall_low", "recall_high", "precision", "f1")
    yield html_table(head, [[cell(row[key]) for key in keys] for row in table])
    if not target.is_classes:
        return
    counts = confusion(target, found)
    if len(target.classes) <= _MOST_CLASSES:
        yield "<h2>Confusion</h2><p class=quiet>Rows: the label. Columns: the prediction.</p>"
        yield _confusion(target, counts)
    if len(target.classes) > 2:
        yield from _worst_pairs(target, counts)


def _confusion(target: Target, counts: Array) -> str:
    totals = np.maximum(1, counts.sum(axis=1))
    rows = []
    for name, row, total in zip(target.classes, counts, totals, strict=True):
        cells = []
        for code, count in enumerate(row.tolist()):
            share = count / total
            colour = "46,125,50" if target.classes[code] == name else "179,38,30"
            cells.append(f'<td style="background:rgba({colour},{0.75 * share:.2f})">{count or ""}</td>')
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in target.classes)
    return f'<table class="confusion"><tr><th></th>{head}</tr>{"".join(rows)}</table>'


def _worst_pairs(target: Target, counts: Array) -> Iterator[str]:
    """The most frequent confusions."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_PAIRS]
    rows = []
    for label, taken in zip(*np.unravel_index(order, wrong.shape), strict=True):
        count = int(wrong[label, taken])
        if count:
            share = count / int(counts[label].sum())
            rows.append([target.classes[label], target.classes[taken], f"{count:,}", f"{share:.0%}"])
    if rows:
        yield "<h2>Most frequent confusions</h2>"
        yield html_table(["label", "predicted", "records", "of this label"], rows)
