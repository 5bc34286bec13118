"""Charts as SVG inside a page: no script, nothing fetched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["bars", "lines"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 460, 220, 52, 28, 26, 12
COLOURS = ("#2563a8", "#c2571a", "#3f7d3a", "#7b4aa0")


def lines(title: str, series: Mapping[str, Sequence[float | None]], *, first: int = 1) -> str:
    """Curves over epochs; values that are not numbers are left out."""
    finite = [value for values in series.values() for value in values if _is_number(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)  # type: ignore[type-var]
    assert low is not None
    assert high is not None
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    count = max(len(values) for values in series.values())
    parts = [_frame(title), *_levels(low, high), *_epochs(count, first)]
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(_x(i, count), _y(v, low, high)) for i, v in enumerate(values) if v is not None and _is_number(v)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
        at = LEFT + 8 + 110 * number
        parts.append(f'<rect x="{at}" y="{TOP + 2}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{at + 14}" y="{TOP + 11}">{escape(name)}</text>')
    return "".join((*parts, "</svg>"))


def bars(title: str, shares: dict[str, float], unit: str = "s") -> str:
    """One bar for each name, as long as its value."""
    if not shares:
        return ""
    most = max(shares.values()) or 1.0
    height = TOP + 24 * len(shares) + 8
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f'<text x="8" y="16" class="title">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(shares.items()):
        y, long = TOP + 24 * number, max(1.0, 240 * value / most)
        parts.append(f'<text x="8" y="{y + 14}">{escape(name)}</text>')
        parts.append(f'<rect x="110" y="{y + 3}" width="{long:.1f}" height="14" fill="{COLOURS[0]}"/>')
        parts.append(f'<text x="{116 + long:.1f}" y="{y + 14}">{value:.3g} {escape(unit)}</text>')
    return "".join((*parts, "</svg>"))


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _frame(title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'<text x="{LEFT}" y="16" class="title">{escape(title)}</text>'
    )


def _levels(low: float, high: float) -> list[str]:
    parts = []
    for step in range(5):
        value = low + (high - low) * step / 4
        y = _y(value, low, high)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_level(value)}</text>')
    return parts


def _level(value: float) -> str:
    """Three digits that count, without an exponent where people would write none, and short enough for the margin."""
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-4:
        return f"{value:.2g}"
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _epochs(count: int, first: int) -> list[str]:
    every = max(1, count // 8)
    return [
        f'<text x="{_x(i, count):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{first + i}</text>'
        for i in range(0, count, every)
    ]


def _x(number: int, count: int) -> float:
    return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (number / (count - 1) if count > 1 else 0.5)


def _y(value: float, low: float, high: float) -> float:
    room = HEIGHT - BOTTOM - TOP - 20
    return HEIGHT - BOTTOM - room * (value - low) / (high - low)
