"""Tables and charts for people: as text on a terminal, as HTML in a notebook or a page, as SVG inside a page."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bushel.errors import printable

__all__ = [
    "Series",
    "bars",
    "chart",
    "escape",
    "html_page",
    "html_table",
    "lines",
    "markdown_text",
    "text_table",
    "ticks",
]

Row = Sequence[str]


def escape(text: str, quote: bool = True) -> str:
    """Text that data brought as HTML: neither tags, nor characters that reverse or hide what is around them."""
    return html.escape(printable(text), quote)


def markdown_text(text: str) -> str:
    """Text that stays text in Markdown: no HTML, no links, no new cells or lines."""
    shown = html.escape(printable(text.replace("\n", " ").replace("\r", " "), form="line"), quote=False)
    return re.sub(r"[\\|*_`\[\]#!]", r"\\\g<0>", shown)


def text_table(head: Row, rows: Sequence[Row], *, numbers: bool = True) -> Iterator[str]:
    """Lines of a table. The first column is aligned to the left, the others to the right if they hold numbers."""
    table = [[printable(text, form="line") for text in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    for row in table:
        first, *rest = zip(row, widths, strict=True)
        aligned = [text.rjust(width) if numbers else text.ljust(width) for text, width in rest]
        yield "  ".join([first[0].ljust(first[1]), *aligned]).rstrip()


def html_table(head: Row, rows: Sequence[Row], *, title: str = "") -> str:
    """The same for a notebook. All text is escaped: it may come from data."""
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #2e7d32; --bad: #b3261e; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.verdict { border-left: 5px solid var(--bad); padding: .5rem 1rem; background: var(--soft); margin: 1rem 0; }
.verdict.learned { border-color: var(--good); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; }
svg { width: 100%; max-width: 32rem; height: auto; background: var(--soft); }
svg text { font-size: 11px; fill: currentColor; }
svg .title { font-size: 13px; font-weight: 600; } svg .grid { stroke: var(--line); }
svg .mark { stroke: var(--good); stroke-dasharray: 3 3; }
pre { overflow-x: auto; background: var(--soft); padding: .6rem; font-size: .8rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } .confusion td { text-align: center; min-width: 2rem; }
.finding { border-left: 4px solid var(--line); padding-left: .8rem; margin: .8rem 0; }
.finding.error { border-color: var(--bad); } .finding.warning { border-color: #c98a00; }
.mistakes { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: .8rem; }
.mistakes.text { grid-template-columns: 1fr; }
.mistakes figure { margin: 0; padding: .5rem; background: var(--soft); font-size: .82rem; overflow-wrap: anywhere; }
.mistakes img { display: block; margin: 0 auto .4rem; } .quiet { opacity: .7; font-size: .85rem; }
.small { width: 120px; height: 28px; background: none; } .small rect { fill: #2563a8; }
""".strip()


def html_page(title: str, body: Sequence[str]) -> str:
    """A whole page without scripts or links, for a report that is one file. The parts of the body are HTML already."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return f"<!doctype html><html lang=en><head>{head}<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"


# Charts: no script, nothing fetched, and a text for those who cannot see them.
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 460, 240, 62, 42, 26, 14
_LEGEND = 16
COLOURS = ("#2563a8", "#c2571a", "#3f7d3a", "#7b4aa0")
_TICKS = 5
_DOTTED_UP_TO = 40  # points of a line that are marked one by one


@dataclass(frozen=True)
class Series:
    """Points of one colour: a line through them, or dots."""

    name: str
    points: Sequence[tuple[float, float]]
    form: Literal["line", "dots", "reference"] = "line"


@dataclass(frozen=True)
class _Scale:
    """From values to places on the page."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - TOP - _LEGEND
        return LEFT + width * across, HEIGHT - BOTTOM - height * up


def chart(
    title: str, series: Sequence[Series], *, x: str, y: str, mark: tuple[float, str] | None = None, said: str = ""
) -> str:
    """Series over round ticks; `mark` is a place on the x axis with its name, and `said` the text instead."""
    finite = [(a, b) for one in series for a, b in one.points if math.isfinite(a) and math.isfinite(b)]
    if not finite:
        return ""
    across, up = ticks([a for a, _ in finite], whole=x == "epoch"), ticks([b for _, b in finite])
    scale = _Scale((across[0], across[-1]), (up[0], up[-1]))
    parts = [_frame(title, said or f"{title}: {y} over {x}"), *_axes(scale, across, up, x, y)]
    for number, one in enumerate(series):
        colour = "currentColor" if one.form == "reference" else COLOURS[number % len(COLOURS)]
        points = [scale.at(a, b) for a, b in one.points if math.isfinite(a) and math.isfinite(b)]
        parts += _drawn(one.form, points, colour)
        if one.name:
            at = LEFT + 8 + 124 * number
            parts.append(f'<rect x="{at}" y="{TOP}" width="10" height="10" fill="{colour}"/>')
            parts.append(f'<text x="{at + 14}" y="{TOP + 9}">{escape(one.name)}</text>')
    if mark is not None and scale.x[0] <= mark[0] <= scale.x[1]:
        parts += _marked(scale, *mark)
    return "".join((*parts, "</svg>"))


def lines(
    title: str, series: Mapping[str, Sequence[float | None]], *, y: str = "", mark: tuple[float, str] | None = None
) -> str:
    """Curves over epochs; values that are not numbers are left out."""
    made = [
        Series(name, [(epoch, value) for epoch, value in enumerate(values, 1) if value is not None])
        for name, values in series.items()
    ]
    ends = [f"{one.name} from {_level(one.points[0][1])} to {_level(one.points[-1][1])}" for one in made if one.points]
    return chart(title, made, x="epoch", y=y, mark=mark, said=f"{title}: {', '.join(ends)}")


def bars(title: str, shares: Mapping[str, float], unit: str = "s") -> str:
    """One bar for each name, as long as its value."""
    if not shares:
        return ""
    most = max(shares.values()) or 1.0
    height = TOP + 24 * len(shares) + 8
    said = ", ".join(f"{name} {value:.3g} {unit}" for name, value in shares.items())
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(f"{title}: {said}")}">',
        f'<text x="8" y="16" class="title">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(shares.items()):
        top, long = TOP + 24 * number, max(1.0, 240 * value / most)
        parts.append(f'<text x="8" y="{top + 14}">{escape(name)}</text>')
        parts.append(f'<rect x="110" y="{top + 3}" width="{long:.1f}" height="14" fill="{COLOURS[0]}"/>')
        parts.append(f'<text x="{116 + long:.1f}" y="{top + 14}">{value:.3g} {escape(unit)}</text>')
    return "".join((*parts, "</svg>"))


def ticks(values: Sequence[float], *, whole: bool = False) -> list[float]:
    """Round numbers around the values: multiples of 1, 2 or 5 times a power of ten; whole ones if asked for."""
    low, high = min(values), max(values)
    if high - low < 1e-12 * max(1.0, abs(high)):
        half = abs(low) / 2 or 0.5
        low, high = low - half, high + half
    rough = max((high - low) / _TICKS, 1.0 if whole else 0.0)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) if step > 1e-9 else number * step for number in range(first, last + 1)]


def _frame(title: str, said: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said)}">'
        f'<text x="{LEFT}" y="16" class="title">{escape(title)}</text>'
    )


def _axes(scale: _Scale, across: list[float], up: list[float], x: str, y: str) -> list[str]:
    parts, labels = [], {**_labels(across), **_labels(up)}
    for value in up:
        place = scale.at(across[0], value)[1]
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{labels[value]}</text>')
    for value in across:
        place = scale.at(value, up[0])[0]
        parts.append(f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{labels[value]}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>')
    parts.append(f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{escape(y)}</text>')
    return parts


def _labels(values: list[float]) -> dict[float, str]:
    """What stands at each tick: with as many digits as tell them apart."""
    found = {value: _level(value) for value in values}
    return found if len(set(found.values())) == len(found) else {value: f"{value:.7g}" for value in values}


def _drawn(form: str, points: list[tuple[float, float]], colour: str) -> list[str]:
    if form == "dots":
        return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}" fill-opacity=".45"/>' for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = 'stroke-dasharray="4 4" stroke-opacity=".5"' if form == "reference" else 'stroke-width="2"'
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" {style}/>']
    if form == "line" and len(points) <= _DOTTED_UP_TO:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
    return parts


def _marked(scale: _Scale, at: float, name: str) -> list[str]:
    place = scale.at(at, scale.y[0])[0]
    side = "end" if place > WIDTH - 110 else "start"
    shift = -4 if side == "end" else 4
    return [
        f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{TOP + _LEGEND}" y2="{HEIGHT - BOTTOM}" class="mark"/>',
        f'<text x="{place + shift:.1f}" y="{TOP + _LEGEND + 10}" text-anchor="{side}">{escape(name)}</text>',
    ]


def _level(value: float) -> str:
    """Three digits that count, without an exponent where people would write none, and short enough for the margin."""
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-4:
        return f"{value:.2g}"
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
