"""VAL009 and VAL010: values, and files, that are far from all others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bushel.checking.collect.facts import Data, FeatureFacts
from bushel.checking.report.findings import Finding, Location, count_of_things
from bushel.checking.rules.registry import rule

__all__: list[str] = []

MIN_VALUES = 50  # of which the tail can be judged
CHANCE = 1e-4  # that a value is met which goes as far
MIN_IN_FILE = 30  # values of a file that give its scale
SCALE = 5.0  # times larger or smaller: another scale


@rule("VAL009", "outlier", severity="warning", needs=("values", "rows"))
def outlier(data: Data) -> Iterator[Finding]:
    """A value that lies far beyond all others, also for a feature whose values have a long tail.

    How fast values become rarer is measured among the outer 2 % and extrapolated. A value that would be met once in ten
    thousand datasets of this size is an outlier.

    Why: one such value dominates the mean, the deviation and the scale of all others, and the gradient of its batch.
    Example: a height of 170 among heights in metres; a price with two zeros too many.
    Fix: look at the record that is named; correct it, leave it out, or clip the feature.
    Ignore: where such values are real and the model is made for them.
    Reports: none collected; the idea is Data Linter's (tailed distribution).
    """
    for feature in data.features.values():
        if not feature.is_number or feature.name in data.identity or (feature.length == 1 and _is_code(feature)):
            continue
        for name, values, low, high in _distributions(data, feature):
            limits = _limits(values, feature.total)
            for value in (low, high) if limits is not None else ():
                assert limits is not None
                if np.isfinite(value) and not limits[0] <= value <= limits[1]:
                    least, most = np.nanquantile(values, (0.01, 0.99))
                    yield Finding(
                        f"{name!r} is {value:.4g} in one place; 98 % of its values are {least:.4g} to {most:.4g}",
                        confidence="likely",
                        locations=[_place_of(data, feature, value)],
                        evidence={
                            "measured": value,
                            "expected": [round(limit, 4) for limit in limits],
                            "examined": data.examined(),
                            "subject": name,
                        },
                        help=["look at the record named; correct it, leave it out, or clip the feature"],
                    )


def _is_code(feature: FeatureFacts) -> bool:
    """Whether a feature has so few values that they are codes."""
    return feature.distinct is not None and len(feature.distinct) <= 10


def _distributions(data: Data, feature: FeatureFacts) -> Iterator[tuple[str, NDArray[np.float64], float, float]]:
    """Some values, the smallest and the largest: of a feature, or of each position of a short vector."""
    columns = [i for i, name in enumerate(data.rows.features) if name == feature.name] if data.rows is not None else []
    lows, highs = feature.seen["position_min"], feature.seen["position_max"]
    if len(columns) > 1 and len(lows) == len(columns):
        for at, column in enumerate(columns):
            yield data.rows.name(column), data.rows.values[:, column], float(lows[at]), float(highs[at])
    else:
        yield feature.name, feature.seen["sample"], feature.min, feature.max


def _limits(values: NDArray[np.float64], total: int) -> tuple[float, float] | None:
    """How far values may go, judged by how fast they become rarer."""
    values = values[np.isfinite(values)]
    if len(values) < MIN_VALUES:
        return None
    centre = float(np.median(values))
    distances = np.sort(np.abs(values - centre))
    tail = max(10, len(distances) // 50)
    begins = distances[-tail - 1]
    if begins <= 0:
        return None  # nearly all values are the same: there is no scale to judge by
    # The median does not mind outliers in the tail itself; ties must not make it look as if it ended at once.
    growth = max(float(np.median(np.log(distances[-tail:] / begins))), 0.14) / np.log(2)
    reach = begins * (total * tail / len(distances) / CHANCE) ** growth
    return centre - reach, centre + reach


def _place_of(data: Data, feature: FeatureFacts, value: float) -> Location:
    for extreme, place in ((feature.min, "min_place"), (feature.max, "max_place")):
        if extreme == value:
            return data.location(tuple(feature.seen[place]), feature.name)
    rows, columns = np.nonzero(data.rows.values == value) if data.rows is not None else ((), ())
    found = next((row for row, at in zip(rows, columns, strict=True) if data.rows.features[at] == feature.name), None)
    return data.location(data.rows.place(found), feature.name) if found is not None else Location(feature=feature.name)


@rule("VAL010", "shard-of-another-scale", severity="warning", needs="values", silences=("VAL009",))
def shard_of_another_scale(data: Data) -> Iterator[Finding]:
    """A file in which a feature is many times larger or smaller than in all other files, which agree.

    Why: a unit or a scaling was changed for a part of the data, and the model is given two features under one name.
    Example: one shard in centimetres or in 0..255, the others in metres or in 0..1.
    Fix: write the file again with the function that wrote the others.
    Ignore: where a file really holds another kind of record.
    Reports: https://github.com/tensorflow/data-validation/issues/95
    """
    for name in sorted({name for file in data.files for name in file.quantiles}):
        known = [file for file in data.files if file.quantiles.get(name, (0, 0, 0))[2] >= MIN_IN_FILE]
        if name in data.identity or len(known) < 3:
            continue
        for at in (0, 1):  # the median, or for values that are mostly 0 what 90 % lie below
            sizes = np.array([file.quantiles[name][at] for file in known])
            if (sizes > 0).all():
                break
        else:
            continue
        odd = int(np.argmax(np.abs(np.log(sizes / np.median(sizes)))))
        others = np.delete(sizes, odd)
        factor = sizes[odd] / float(np.median(others))
        upper = known[odd].quantiles[name][1] / float(
            np.median([f.quantiles[name][1] for f in known if f is not known[odd]])
        )
        if others.max() < 2 * others.min() and not 1 / SCALE < factor < SCALE and 0.5 < upper / factor < 2:
            times = f"{factor:.3g} times larger" if factor > 1 else f"{1 / factor:.3g} times smaller"
            yield Finding(
                f"{name!r} is {times} in {known[odd].path.name} than in the {len(others):,} other files",
                confidence="likely",
                locations=[Location(file=str(known[odd].path), feature=name)],
                evidence={
                    "measured": round(float(sizes[odd]), 4),
                    "expected": [round(float(others.min()), 4), round(float(others.max()), 4)],
                    "examined": count_of_things(len(known), "file"),
                    "subject": known[odd].path.name,
                },
                help=["write this file again with the function that wrote the others"],
            )
