"""The report of a run: a single HTML page without scripts or links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

from bushel.checking import Finding
from bushel.feeding.preparation import Target
from bushel.printing import bars, html_page, html_table, lines
from bushel.training.predictions import Predictions
from bushel.training.report.diagnostics import class_sections, prediction_sections
from bushel.training.report.mistakes import Fed, Mistake
from bushel.training.run_folder import RunFile, Trained
from bushel.training.verdict.baselines import baseline_words
from bushel.training.verdict.metrics import METRICS, cell, metric_table, metric_words

__all__ = ["Shown", "report_page"]


@dataclass(frozen=True)
class Shown:
    """What a report shows beside the results: predictions, records, the model, and notes. A stopped run has fewer."""

    found: Predictions | None = None
    mistakes: list[Mistake] = field(default_factory=list)
    fed: list[Fed] = field(default_factory=list)
    best_epoch: int | None = None
    model: str = ""
    notes: list[str] = field(default_factory=list)


def report_page(trained: Trained, run: RunFile, shown: Shown) -> str:
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
        *_curves(trained, target, shown.best_epoch),
        *(["<h2>Metrics</h2>", html_table(*metric_table(trained.metrics))] if trained.metrics else []),
        *(prediction_sections(target, found) if found is not None else []),
        *(class_sections(target, found) if found is not None else []),
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
    compiled = f"{run.compiled['optimiser']} at {run.compiled['learning_rate']:g}, {run.compiled['loss']}"
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
    for name, words in (("learning_rate", "learning rate"), ("gradient_norm", "gradient norm")):
        values = [row.get(name) for row in history]
        if any(value is not None for value in values):
            yield lines(f"{words} by epoch", {"train": values}, y=words, mark=mark)
    yield lines("samples/s by epoch", {"train": [row.get("samples_per_second") for row in history]}, y="samples/s")
    yield "</div>"


def _samples(fed: list[Fed]) -> Iterator[str]:
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


def _mistakes(target: Target, mistakes: list[Mistake]) -> Iterator[str]:
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
