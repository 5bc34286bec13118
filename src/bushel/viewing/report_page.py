"""One page on datasets and runs that needs nothing else: HTML in one file, or Markdown for a pull request."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bushel.checking import Finding, check
from bushel.errors import BushelError, quantity, readable_size
from bushel.printing import bars, escape, html_page, html_table, lines, markdown_text
from bushel.storage import AnyPath, as_path, refuse_in_dataset, write_whole
from bushel.viewing.opened import Opened, OpenedSplit, open_all
from bushel.viewing.runs import LoadedRun, differing_options, is_run, load_run
from bushel.viewing.showing import CannotShow, encoded, picture_of, shown_value
from bushel.viewing.statistics import FeatureSummary, Summary, class_counts, summarise

__all__ = ["make_report", "write_report"]

MOST_BYTES = 5_000_000
_PICTURES = 24
_SIDE = 112
_FEATURES = 300  # rows of the table
_CLASSES = 30  # bars
_FINDINGS = 60
_TEXT = 160

Row = tuple[str, ...]


@dataclass
class _Section:
    """A part of a report: tables and texts for both forms, charts and pictures for HTML alone."""

    title: str
    level: int = 2
    text: str = ""
    head: Row = ()
    rows: Sequence[Row] = ()
    html: list[str] = field(default_factory=list)  # instead of the table, in HTML
    markdown: list[str] = field(default_factory=list)  # instead of the table, in Markdown

    def in_html(self) -> Iterator[str]:
        yield f"<h{self.level}>{escape(self.title)}</h{self.level}>"
        if self.text:
            yield f'<p class="quiet">{escape(self.text)}</p>'
        if self.html:
            yield from self.html
        elif self.rows:
            yield html_table(self.head, self.rows)

    def in_markdown(self) -> Iterator[str]:
        yield f"{'#' * self.level} {markdown_text(self.title)}\n"
        if self.text:
            yield f"{markdown_text(self.text)}\n"
        if self.markdown:
            yield "\n".join(self.markdown) + "\n"
        elif self.rows:
            yield "\n".join(_markdown_table(self.head, self.rows)) + "\n"


def make_report(
    paths: Sequence[AnyPath],
    *,
    markdown: bool = False,
    most: int | None = None,
    checks: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
) -> str:
    """A report on datasets and on runs, as HTML or Markdown. `most` is how many records of a split to look at."""
    runs = [load_run(path) for path in paths if is_run(path)]
    others = [path for path in paths if not is_run(path)]
    sections: list[_Section] = []
    for opened in open_all(others) if others else []:
        opened.count()
        sections += _dataset(opened, most, checks, progress)
    if runs:
        sections += _runs(runs)
    title = ", ".join([*(section.title for section in sections if section.level == 1)])
    if markdown:
        return "\n".join(line for section in sections for line in section.in_markdown())
    return _small_enough(title, sections)


def write_report(paths: Sequence[AnyPath], out: AnyPath, **options: Any) -> Path:
    """Write a report to a file: Markdown if its name ends in `.md`, otherwise HTML. Never into a dataset."""
    place = as_path(out)
    refuse_in_dataset(place, [path for path in paths if not is_run(as_path(path))])
    text = make_report(paths, markdown=place.suffix.lower() == ".md", **options)
    with write_whole(place, sync=False) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return place


def _small_enough(title: str, sections: list[_Section]) -> str:
    """The page; without pictures if it would be too large with them."""
    page = html_page(title, [part for section in sections for part in section.in_html()])
    if len(page.encode("utf-8", "backslashreplace")) > MOST_BYTES:
        kept = [section for section in sections if not section.title.startswith("Records")]
        page = html_page(title, [part for section in kept for part in section.in_html()])
    return page


def _dataset(
    opened: Opened, most: int | None, checks: bool, progress: Callable[[str, int, int], None] | None
) -> Iterator[_Section]:
    summaries = {
        name: summarise(part, most, (lambda done, of, name=name: progress(name, done, of)) if progress else None)  # type: ignore[misc]
        for name, part in opened.parts.items()
    }
    yield _Section(opened.name, 1, opened.where)
    yield _splits(opened, summaries)
    yield from _classes(opened, summaries)
    if checks:
        yield _findings(opened)
    for name, summary in summaries.items():
        yield _features(opened, opened.parts[name], summary)
    yield from _pictures(opened)


def _splits(opened: Opened, summaries: dict[str, Summary]) -> _Section:
    rows = []
    for name, part in opened.parts.items():
        found = summaries[name]
        seen = "all" if found.records + found.damaged >= len(part) else f"{found.records:,}"
        rows.append(
            (name, f"{len(part):,}", f"{len(part.paths):,}", readable_size(part.size), seen, f"{found.damaged:,}")
        )
    problems = [problem for part in opened.parts.values() for problem in part.problems]
    text = " ".join(problems)
    return _Section("Splits", text=text, head=("split", "records", "shards", "bytes", "read", "damaged"), rows=rows)


def _classes(opened: Opened, summaries: dict[str, Summary]) -> Iterator[_Section]:
    counts = {name: class_counts(opened, opened.parts[name], summary) for name, summary in summaries.items()}
    names = list(dict.fromkeys(name for found in counts.values() for name in found))
    if not names:
        return
    rows = [
        (_cut(name), *(_share(found.get(name, 0), sum(found.values())) for found in counts.values())) for name in names
    ]
    charts = [
        bars(f"{split}: records by class", {_cut(name, 14): float(found[name]) for name in list(found)[:_CLASSES]}, "")
        for split, found in counts.items()
        if found
    ]
    section = _Section(f"Classes ({len(names):,})", head=("class", *counts), rows=rows[:_CLASSES])
    section.html = [f'<div class="charts">{"".join(charts)}</div>']
    if len(rows) > _CLASSES:
        section.text = f"The first {_CLASSES} of {len(rows):,}."
    yield section


def _share(count: int, total: int) -> str:
    return f"{count:,} ({count / total:.1%})" if total else "0"


def _findings(opened: Opened) -> _Section:
    paths = [opened.where] if opened.manifest else [str(path) for part in opened.parts.values() for path in part.paths]
    try:
        found: list[Finding] = check(paths).findings
    except (BushelError, ValueError) as error:
        return _Section("Findings", text=f"The check could not be run: {str(error).splitlines()[0]}")
    if not found:
        return _Section("Findings", text="bushel check found nothing.")
    section = _Section(f"Findings ({len(found):,})", text="By bushel check, the worst first.")
    for one in found[:_FINDINGS]:
        where = str(one.locations[0]) if one.locations else ""
        help = "".join(f"<div>{escape(line)}</div>" for line in one.help)
        section.html.append(
            f'<div class="finding {one.severity}"><strong>{escape(one.rule)} {escape(one.name)}</strong>: '
            f'{escape(one.message)}<div class="quiet">{escape(where)} ({one.confidence})</div>{help}</div>'
        )
        section.markdown.append(f"* **{one.severity}** `{one.rule}` {markdown_text(one.message)}")
    return section


def _features(opened: Opened, part: OpenedSplit, summary: Summary) -> _Section:
    total = sum(feature.bytes for feature in summary.features.values()) or 1
    head = ("feature", "type", "taken for", "present", "of the bytes", "values")
    rows, html = [], []
    for name, feature in list(summary.features.items())[:_FEATURES]:
        declared = part.schema.features.get(name)
        row = (
            _cut(name),
            declared.describe() if declared else "",
            opened.account.kind_of(name) or "",
            f"{feature.present / max(1, summary.records):.1%}",
            f"{feature.bytes / total:.1%}",
            _values(feature),
        )
        rows.append(row)
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        html.append(f"<tr>{cells}<td>{_histogram(feature)}</td></tr>")
    section = _Section(f"Features of {part.name}", head=head, rows=rows)
    top = "".join(f"<th>{escape(text)}</th>" for text in (*head, "distribution"))
    section.html = [f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(html)}</tbody></table>"] if html else []
    if len(summary.features) > _FEATURES:
        section.text = f"The first {_FEATURES} of {len(summary.features):,}."
    return section


def _values(feature: FeatureSummary) -> str:
    if feature.widths.count:
        wide, high = feature.widths, feature.heights
        return f"{wide.low:.0f} to {wide.high:.0f} wide, {high.low:.0f} to {high.high:.0f} high"
    if feature.texts:
        return feature.texts
    if feature.is_open and 0 < len(feature.counts) <= 12:
        return ", ".join(f"{_cut(value, 20) or '(empty)'}: {count:,}" for value, count in feature.counts.most_common(4))
    for numbers, unit in ((feature.values, ""), (feature.lengths, " bytes")):
        if numbers.count:
            odd = f", {numbers.odd:,} not finite" if numbers.odd else ""
            return f"{numbers.low:.5g} to {numbers.high:.5g}{unit}, mean {numbers.mean:.5g}{odd}"
    return ""


def _histogram(feature: FeatureSummary) -> str:
    if feature.texts or (feature.is_open and 0 < len(feature.counts) <= 12):
        shares = [float(count) for _, count in feature.counts.most_common(20)]
    else:
        found = next((n for n in (feature.widths, feature.values, feature.lengths) if n.count), None)
        shares = found.histogram() if found is not None else []
    if len(shares) < 2:
        return ""
    most, step = max(shares) or 1.0, 120 / len(shares)
    rects = "".join(
        f'<rect x="{at * step:.1f}" y="{28 - 28 * share / most:.1f}" width="{max(0.5, step - 0.5):.1f}" '
        f'height="{28 * share / most:.1f}"/>'
        for at, share in enumerate(shares)
    )
    said = escape(_values(feature))
    return f'<svg class="small" viewBox="0 0 120 28" role="img" aria-label="{said}">{rects}</svg>'


def _pictures(opened: Opened) -> Iterator[_Section]:
    for part in opened.parts.values():
        roles = opened.roles_of(part)
        rows = np.unique(np.linspace(0, max(0, len(part) - 1), min(_PICTURES, len(part))).astype(int)).tolist()
        figures = [_figure(opened, part, row, roles) for row in rows]
        if not figures:
            continue
        has_images = any("<img" in figure for figure in figures)
        section = _Section(f"Records of {part.name}", text=f"{quantity(len(figures), 'record')} at equal distances.")
        section.html = [f'<div class="mistakes{"" if has_images else " text"}">{"".join(figures)}</div>']
        section.markdown = ["Pictures are in the HTML report."] if has_images else []
        if not has_images:
            texts = [_sentence(part.record(row).values, roles, opened) for row in rows[:6]]
            section.markdown = [f"* {row}: {markdown_text(text)}" for row, text in zip(rows, texts, strict=False)]
        yield section


def _figure(opened: Opened, part: OpenedSplit, row: int, roles: dict[str, str]) -> str:
    record = part.record(row)
    caption = f"{row:,}"
    label = next((name for name, role in roles.items() if role == "label" and name in record.values), None)
    if label is not None:
        names = opened.classes if label == opened.label else ()
        caption += f": {_cut(shown_value(record.values[label], 'label', names=names)['text'], 40)}"
    image = next((name for name, role in roles.items() if role == "image" and name in record.values), None)
    if record.problem is not None:
        inner = f"<p>{escape(record.problem)}</p>"
    elif image is not None:
        try:
            data, kind = encoded(picture_of(record.values[image], "image", side=_SIDE), _SIDE)
            source = base64.b64encode(data).decode()
            inner = f'<img src="data:{kind};base64,{source}" alt="{escape(f"record {caption}")}">'
        except CannotShow as error:
            inner = f"<p>{escape(error.message)}</p>"
    else:
        inner = f"<p>{escape(_sentence(record.values, roles, opened))}</p>"
    return f"<figure>{inner}<figcaption>{escape(caption)}</figcaption></figure>"


def _sentence(values: dict[str, Any], roles: dict[str, str], opened: Opened) -> str:
    parts = []
    for name, value in values.items():
        names = opened.classes if name == opened.label else ()
        parts.append(
            f"{name}: {_cut(str(shown_value(value, roles.get(name, 'bytes'), names=names).get('text', '')), 60)}"
        )
    return _cut("; ".join(parts), 2 * _TEXT)


def _runs(runs: list[LoadedRun]) -> Iterator[_Section]:
    yield _Section(
        runs[0].name if len(runs) == 1 else f"{len(runs)} runs", 1, ", ".join(str(run.folder) for run in runs)
    )
    yield _Section("Verdicts", head=("run", "verdict"), rows=[(run.name, run.summary) for run in runs])
    metrics = list(
        dict.fromkeys((split, name) for run in runs for split, found in _measured(run).items() for name in found)
    )
    rows = [
        (f"{split} {name}", *(_figure_of(_measured(run).get(split, {}).get(name)) for run in runs))
        for split, name in metrics
    ]
    yield _Section("Metrics", head=("metric", *(run.name for run in runs)), rows=rows)
    differing = differing_options(runs) if len(runs) > 1 else runs[0].facts.get("options", {})
    shown = [
        (name, *(_cut(json.dumps(value, default=str), 60) for value in (values if len(runs) > 1 else [values])))
        for name, values in differing.items()
        if len(runs) > 1 or values is not None
    ]
    title = "Options that differ" if len(runs) > 1 else "Options"
    text = "All options are the same." if not shown else ""
    yield _Section(title, text=text, head=("option", *(run.name for run in runs)), rows=shown)
    yield from _curves(runs)
    for run in runs:
        if findings := run.metrics.get("findings"):
            found = [(str(one.get("rule")), str(one.get("severity")), str(one.get("message"))) for one in findings]
            yield _Section(f"Findings of {run.name}", head=("rule", "severity", "message"), rows=found)


def _measured(run: LoadedRun) -> dict[str, dict[str, Any]]:
    found = run.metrics.get("metrics", {})
    return {split: values for split, values in found.items() if isinstance(values, dict)}


def _curves(runs: list[LoadedRun]) -> Iterator[_Section]:
    names = dict.fromkeys(name for run in runs for row in run.history for name in row)
    charts = []
    for name in names:
        series = {run.name: [_number(row.get(name)) for row in run.history] for run in runs}
        known = {label: values for label, values in series.items() if any(value is not None for value in values)}
        if known and name not in ("epoch", "step"):
            charts.append(lines(f"{name.replace('_', ' ')} by epoch", known, y=name.replace("_", " ")))
    if charts:
        section = _Section("Curves")
        section.html = [f'<div class="charts">{"".join(charts)}</div>']
        section.markdown = ["Charts are in the HTML report."]
        yield section


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _figure_of(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-" if value is None else str(value)


def _cut(text: str, most: int = _TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _markdown_table(head: Row, rows: Sequence[Row]) -> Iterator[str]:
    yield f"| {' | '.join(map(markdown_text, head))} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(markdown_text, row))} |"
