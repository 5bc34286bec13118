"""The page of a run: predictions and their errors, the records that were hardest, and what the model is fed."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking import Finding
from bushel.data.samples import sample_at
from bushel.errors import BushelError
from bushel.feeding.preparation import Input, Problem, Target
from bushel.printing import Series, bars, chart, escape, html_page, html_table, lines
from bushel.reading import Split
from bushel.training.inputs.splits import rows_of, spread
from bushel.training.models import Compiled
from bushel.training.predictions import Predictions
from bushel.training.run_folder import RunFile, Trained
from bushel.training.setup import Setup
from bushel.training.verdict.baselines import baseline_words
from bushel.training.verdict.metrics import METRICS, auc, cell, class_table, confusion, metric_table, metric_words

__all__ = ["FedRecord", "ReportContents", "fed_samples", "report_page", "worst_mistakes"]

_SHOWN, _SHOWN_AS_TEXT = 24, 10
_SIDE = 112
_TEXT = 240
_VALUES = 8
_FED = 8  # samples to show as they are fed
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


@dataclass(frozen=True)
class _Mistake:
    """One record: where it is, its label, the prediction, and a picture or text."""

    where: str
    truth: str
    predicted: str
    loss: float
    picture: str | None = None  # a data URI
    text: str = ""


@dataclass(frozen=True)
class FedRecord:
    """A record of train as the model is fed it: a picture, and one after augmentation; else text."""

    label: str
    picture: str | None = None
    changed: str | None = None
    text: str = ""


def fed_samples(setup: Setup) -> list[FedRecord]:
    """Some records of train, as the model is fed them; none if one of them is damaged."""
    try:
        return _fed(setup)
    except BushelError:
        return []


def _fed(setup: Setup) -> list[FedRecord]:
    problem, target = setup.problem, setup.problem.target
    arrays, labels = rows_of(setup.splits.train, problem, setup.options, most=_FED)
    image = next((given for given in problem.inputs if given.kind == "image"), None)
    if image is None:
        rows = [{name: array[at] for name, array in arrays.items()} for at in range(len(labels))]
        return [
            FedRecord(_label(target, label), text=_text(list(arrays), row))
            for label, row in zip(labels, rows, strict=True)
        ]
    pixels, changed = arrays[image.name], None
    if setup.augmentation:
        again, _ = rows_of(setup.splits.train, problem, setup.options, most=_FED, augmentation=setup.augmentation)
        changed = again[image.name]
    return [
        FedRecord(
            _label(target, label),
            _picture(_bytes_of(image, pixels[at])),
            None if changed is None else _picture(_bytes_of(image, changed[at])),
        )
        for at, label in enumerate(labels)
    ]


def _bytes_of(image: Input, pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Pixels in the range of bytes, from whatever range they are fed in."""
    if pixels.dtype == np.uint8:
        return pixels
    low = image.min if image.min is not None else float(pixels.min())
    high = image.max if image.max is not None else float(pixels.max())
    return np.clip(np.nan_to_num((pixels - low) / ((high - low) or 1.0) * 255), 0, 255).astype(np.uint8)


def _label(target: Target, label: Any) -> str:
    if target.kind == "regression":
        return _numbers(label)
    if target.kind == "multi_label":
        return ", ".join(name for name, value in zip(target.classes, label, strict=True) if value > 0.5) or "none"
    return target.classes[int(label)]


def worst_mistakes(split: Split, problem: Problem, found: Predictions) -> list[_Mistake]:
    """The records with the largest loss; for classes, only those that are wrong."""
    order = np.argsort(-found.losses, kind="stable")
    if problem.target.is_classes:
        order = order[found.outputs[order].argmax(axis=1) != found.labels[order]]
    is_pictures = any(given.kind == "image" for given in problem.inputs)
    return [_mistake(split, problem, found, int(at)) for at in order[: _SHOWN if is_pictures else _SHOWN_AS_TEXT]]


def _mistake(split: Split, problem: Problem, found: Predictions, at: int) -> _Mistake:
    row, preparation = int(found.rows[at]), problem.preparation
    names = [*preparation.features, *(["key"] if "key" in split.schema else [])]
    sample = sample_at(split.read(np.array([row], np.int64), names), split.schema.features, 0)
    shard, record = split.shards.locate(row)
    where = str(sample.get("key") or f"{shard.path.name}: record {record}")
    truth, predicted = _words(problem.target, found, at)
    image = next((given.name for given in preparation.inputs if given.kind == "image"), None)
    picture = _picture(sample.get(image)) if image is not None else None
    return _Mistake(
        where,
        truth,
        predicted,
        float(found.losses[at]),
        picture,
        "" if picture else _text(preparation.features, sample),
    )


def _words(target: Target, found: Predictions, at: int) -> tuple[str, str]:
    label, output = found.labels[at], found.outputs[at]
    if not target.is_classes:
        return _label(target, label), _label(target, output)
    best = int(output.argmax())
    return _label(target, label), f"{target.classes[best]} ({output[best]:.0%})"


def _numbers(values: Any) -> str:
    return ", ".join(f"{value:.4g}" for value in np.ravel(values)[:4])


def _picture(value: Any) -> str | None:
    """A small PNG inside the page."""
    from PIL import Image

    try:
        if isinstance(value, bytes):
            with Image.open(io.BytesIO(value)) as opened:
                image = opened.convert("RGB")
        elif isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype == np.uint8:
            image = Image.fromarray(value[..., 0] if value.shape[2] < 3 else value[..., :3]).convert("RGB")
        else:
            return None
    except (OSError, ValueError, SyntaxError, BushelError):
        return None
    scale = _SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    image = image.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR)
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _text(names: Sequence[str], sample: dict[str, Any]) -> str:
    parts = []
    for name in names:
        value = sample.get(name)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, np.ndarray | list):
            flat = np.ravel(np.asarray(value))
            value = ", ".join(f"{item:.4g}" if flat.dtype.kind == "f" else str(item) for item in flat[:_VALUES])
            value += " …" if len(flat) > _VALUES else ""
        elif isinstance(value, float):
            value = f"{value:.4g}"
        alone = len(names) == 1
        parts.append(str(value) if alone else f"{name}: {'missing' if value is None else value}")
    text = "; ".join(parts)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"


def _prediction_sections(target: Target, found: Predictions) -> Iterator[str]:
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


def _class_sections(target: Target, found: Predictions) -> Iterator[str]:
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


@dataclass(frozen=True)
class ReportContents:
    """What a report shows beside the results: predictions, records, the model, and notes. A stopped run has fewer."""

    found: Predictions | None = None
    mistakes: list[_Mistake] = field(default_factory=list)
    fed: list[FedRecord] = field(default_factory=list)
    best_epoch: int | None = None
    model: str = ""
    notes: list[str] = field(default_factory=list)
    suspects: list[tuple[str, str, str, float]] = field(default_factory=list)  # labels that are least likely
    candidates: tuple[list[str], list[list[str]]] | None = None  # the models that were compared, as a table


def report_page(trained: Trained, run: RunFile, shown: ReportContents) -> str:
    """The page as HTML."""
    target, found = run.task, shown.found
    more = f" and {len(run.data) - 1:,} more" if len(run.data) > 1 else ""
    task = f"{target.words} classification" if target.is_classes else target.words
    title = f"{run.data[0]}{more}: {task} of {target.label}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet">{escape(_facts(run))}</p>',
        *_verdict(trained, target),
        *_findings(trained.findings),
        *(["<h2>Models compared</h2>", html_table(*shown.candidates)] if shown.candidates else []),
        *_curves(trained, target, shown.best_epoch),
        *(["<h2>Metrics</h2>", html_table(*metric_table(trained.metrics))] if trained.metrics else []),
        *(_prediction_sections(target, found) if found is not None else []),
        *(_class_sections(target, found) if found is not None else []),
        *_suspects(shown.suspects),
        *_mistakes(target, shown.mistakes),
        *_samples(shown.fed),
        *([f"<h2>Model</h2><pre>{escape(shown.model)}</pre>"] if shown.model else []),
        "<h2>Where the time went</h2>",
        f'<div class="charts">{bars("seconds", trained.seconds)}</div>',
        "<h2>Options</h2>",
        html_table(
            ["option", "value"], [[name, cell(value)] for name, value in run.options.items() if value is not None]
        ),
        *(f'<p class="quiet">{escape(note)}</p>' for note in shown.notes),
    ]
    return html_page(title, body)


def _facts(run: RunFile) -> str:
    records = ", ".join(f"{name} {count:,}" for name, count in run.records.items())
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    compiled = msgspec.convert(run.compiled, Compiled).words
    return f"Records: {records}. {compiled}. {versions}."


def _verdict(trained: Trained, target: Target) -> Iterator[str]:
    verdict = trained.verdict
    kind = "verdict learned" if verdict.learned else "verdict"
    yield f'<div class="{kind}"><strong>{escape(verdict.summary)}</strong></div>'
    if not verdict.metric:
        return
    rows = [["model", *_interval(verdict.score)]]
    rows += [[baseline_words(name, target), *_interval(score)] for name, score in verdict.baselines.items()]
    rows += [
        [f"advantage over {baseline_words(name, target)}", *_interval(gain, signed=True)]
        for name, gain in verdict.advantages.items()
    ]
    yield html_table([metric_words(verdict.metric), "value", "95 % from", "to"], rows)


def _interval(values: dict[str, float], *, signed: bool = False) -> list[str]:
    form = "+.4g" if signed else ".4g"
    return [f"{values[name]:{form}}" for name in ("value", "low", "high")]


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    shown = list(findings)
    if not shown:
        return
    yield "<h2>Findings, the most likely cause first</h2>"
    for finding in shown:
        evidence = "; ".join(f"{name}: {cell(value)}" for name, value in finding.evidence.items())
        help = "".join(f"<div>{escape(line)}</div>" for line in finding.help)
        yield (
            f'<div class="finding {finding.severity}"><strong>{escape(finding.rule)} {escape(finding.name)}</strong>: '
            f'{escape(finding.message)}<div class="quiet">{escape(evidence)} ({finding.confidence})</div>{help}</div>'
        )


def _curves(trained: Trained, target: Target, best: int | None) -> Iterator[str]:
    history = trained.history
    if not history:
        return
    yield '<h2>Curves</h2><div class="charts">'
    mark = (float(best), f"best: {best}") if best else None
    followed = [metric.name for metric in METRICS if metric.is_followed and target.kind in metric.kinds]
    for name in ("loss", *followed):
        series = {
            label: [row.get(key) for row in history] for label, key in (("train", name), ("validation", f"val_{name}"))
        }
        known = {label: values for label, values in series.items() if any(value is not None for value in values)}
        yield lines(f"{metric_words(name)} by epoch", known, y=metric_words(name), mark=mark)
    paces = (("learning_rate", "learning rate"), ("penalty", "penalty"), ("gradient_norm", "gradient norm"))
    for name, words in paces:
        values = [row.get(name) for row in history]
        if any(value is not None for value in values):
            yield lines(f"{words} by epoch", {"train": values}, y=words, mark=mark)
    yield lines("samples/s by epoch", {"train": [row.get("samples_per_second") for row in history]}, y="samples/s")
    yield "</div>"


def _samples(fed: list[FedRecord]) -> Iterator[str]:
    """Some records of train as the model is fed them, before and after augmentation."""
    if not fed:
        return
    yield "<h2>Samples as they are fed</h2>"
    if any(one.changed for one in fed):
        yield "<p class=quiet>Each record without augmentation, and with it.</p>"
    figures = []
    for one in fed:
        if one.picture:
            parts = f'<img src="{one.picture}" alt="{escape(one.label)}, as it is fed">'
            if one.changed:
                parts += f'<img src="{one.changed}" alt="{escape(one.label)}, augmented">'
        else:
            parts = f"<p>{escape(one.text)}</p>"
        figures.append(f"<figure>{parts}<figcaption>{escape(one.label)}</figcaption></figure>")
    kind = "mistakes" if fed[0].picture else "mistakes text"
    yield f'<div class="{kind}">{"".join(figures)}</div>'


def _suspects(suspects: list[tuple[str, str, str, float]]) -> Iterator[str]:
    """The labels that models which did not learn from them find least likely."""
    if suspects:
        yield "<h2>Labels that are least likely</h2><p class=quiet>By models that did not learn from these records.</p>"
        rows = [[where, label, predicted, f"{chance:.3f}"] for where, label, predicted, chance in suspects]
        yield html_table(["record", "label", "predicted", "probability of the label"], rows)


def _mistakes(target: Target, mistakes: list[_Mistake]) -> Iterator[str]:
    if not mistakes:
        return
    yield f"<h2>{'Largest errors' if target.kind == 'regression' else 'Worst mistakes'}</h2>"
    kind = "mistakes" if mistakes[0].picture else "mistakes text"
    figures = []
    for mistake in mistakes:
        said = escape(f"{mistake.where}: {mistake.truth}, predicted {mistake.predicted}")
        picture = f'<img src="{mistake.picture}" alt="{said}">' if mistake.picture else f"<p>{escape(mistake.text)}</p>"
        answer = f"<strong>{escape(mistake.truth)}</strong>, predicted {escape(mistake.predicted)}"
        where = f'<div class="quiet">{escape(mistake.where)}, loss {mistake.loss:.3g}</div>'
        figures.append(f"<figure>{picture}{answer}{where}</figure>")
    yield f'<div class="{kind}">{"".join(figures)}</div>'
