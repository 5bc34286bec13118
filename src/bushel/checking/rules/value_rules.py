"""VAL: values that no model should be given, and values and files that are far from all others."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bushel.checking.collect.facts import Data, FeatureFacts
from bushel.checking.findings import Finding, Location, count_of_things, rule

SENTINELS = (-999.0, -9999.0, -99999.0, -99.0, 999.0, 9999.0, 99999.0, -32768.0, 2147483647.0, -2147483648.0)
MIN_RECORDS = 20  # below it a constant is no news
_BOX = re.compile(r"^(.*?)(?:/|_)?(x|y)(min|max)$")


@rule("VAL001", "not-finite", needs="values")
def not_finite(data: Data) -> Iterator[Finding]:
    """NaN or infinite values.

    Why: one of them makes the loss NaN, and every weight after it.
    Example: a mean over an empty group, a log of 0, a blank cell of a CSV file.
    Fix: leave such samples out, or fill the value and add a feature that says so.
    Ignore: where NaN marks a missing value that the model masks.
    """
    for feature in data.features.values():
        nans, infinities = feature.seen["nans"][0], feature.seen["infinities"][0]
        if nans or infinities:
            places = data.locations(feature.seen["nans"], feature.name)
            yield Finding(
                f"{feature.name!r}: {nans:,} NaN and {infinities:,} infinite among {feature.seen['values']:,} values",
                locations=(places + data.locations(feature.seen["infinities"], feature.name))[:5],
                evidence={
                    "measured": {"NaN": nans, "infinite": infinities},
                    "expected": 0,
                    "examined": data.examined(),
                },
                help=[f"drop these records, or fill in {feature.name!r} and mark that in a separate feature"],
            )


@rule("VAL002", "constant-feature", severity="warning", needs="values")
def constant_feature(data: Data) -> Iterator[Finding]:
    """A feature, or positions of a vector, with the same value in every record.

    Why: a model learns nothing from it, and a Normalization layer divides by its variance of zero: values of 1e10 at
    test time, where it is not quite constant.
    Example: border pixels that are always black; a column that is filled with a default.
    Fix: drop it, or guard the division.
    Ignore: for features that describe the file, such as the number of channels. Properties of boxes other than
    their corners (`image/object/is_crowd`, `difficult`, their only class) are not inputs, and are passed over.
    """
    of_boxes = tuple(f"{group}/" for group in _groups_of_boxes(data))
    for feature in data.features.values():
        if (
            feature.total < MIN_RECORDS
            or not feature.is_number
            or re.search(r"height|width|channels|depth|segment|token_type|audio/rate|sample_rate", feature.name)
            or (feature.name.startswith(of_boxes) and not _BOX.match(feature.name))
        ):
            continue
        if feature.min == feature.max and feature.name != data.label:
            yield Finding(
                f"{feature.name!r} is {feature.min:g} in every record",
                severity="info" if feature.length == 1 else None,
                locations=[Location(feature=feature.name)],
                evidence={"measured": f"{feature.min:g} to {feature.max:g}", "examined": data.examined()},
                help=[f"drop {feature.name!r}: a constant tells a model nothing"],
            )
            continue
        low, high = feature.seen["position_min"], feature.seen["position_max"]
        constant = np.flatnonzero(low == high)
        if len(constant) and feature.seen["kinds"][2] and feature.length == len(low):
            yield Finding(
                f"{len(constant):,} of {len(low):,} positions of {feature.name!r} never change",
                severity="info" if 2 * len(constant) < len(low) else None,  # as the borders of pictures
                locations=[Location(feature=feature.name)],
                evidence={"measured": constant[:8].tolist(), "examined": data.examined()},
                help=["drop these positions, or do not divide by their deviation of 0"],
            )


def _groups_of_boxes(data: Data) -> set[str]:
    """What the names of features begin with that tell of boxes: `image/object` of `image/object/bbox/xmin`."""
    places = {found[1] for name in data.features if (found := _BOX.match(name))}
    return {group for place in places if (group := re.sub(r"(^|/)(bbox|box)(es)?$", "", place))}


@rule("VAL003", "sentinel-value", severity="warning", needs="values", silences=("VAL009",))
def sentinel_value(data: Data) -> Iterator[Finding]:
    """A number that stands for "not known", such as -999, among real values.

    Why: it is far from all others, so it dominates the mean, the deviation and the gradient.
    Example: temperatures from -20 to 40, and 300 times -999.
    Fix: leave such samples out, or fill the value and add a feature that says so.
    Ignore: where the number is a real value.
    """
    for feature in data.features.values():
        if not feature.is_number or feature.name == data.label:
            continue
        for value, count, place in (
            (feature.min, feature.seen["at_min"], feature.seen["min_place"]),
            (feature.max, feature.seen["at_max"], feature.seen["max_place"]),
        ):
            others = feature.seen["sample"][feature.seen["sample"] != value]
            if value not in SENTINELS or count < 2 or not len(others):
                continue
            spread = float(np.quantile(others, 0.99) - np.quantile(others, 0.01)) or 1.0
            nearest = float(others.min() if value == feature.min else others.max())
            if abs(nearest - value) > spread:
                yield Finding(
                    f"{feature.name!r} is {value:g} in {count:,} places; the next value is {nearest:g}",
                    confidence="likely",
                    locations=[data.location(tuple(place), feature.name)],
                    evidence={"measured": count, "expected": 0, "next_value": nearest, "examined": data.examined()},
                    help=[f"drop records with {value:g}, or fill them in and mark that in a separate feature"],
                )


@rule("VAL004", "out-of-declared-range", needs="values")
def out_of_declared_range(data: Data) -> Iterator[Finding]:
    """Values outside the range that the schema's statistics give.

    Why: the data has changed since the schema was made, or a unit did.
    Example: heights in metres, and from one file on in centimetres.
    Fix: find the files that differ (`bushel info FILE`) and write them again.
    Ignore: when the schema was inferred from a part of the data; infer it again then.
    """
    for name, declared in (data.schema.statistics if data.schema else {}).items():
        feature = data.features.get(name)
        if feature is None or not feature.is_number or declared.min is None or declared.max is None:
            continue
        if feature.min < declared.min or feature.max > declared.max:
            place = feature.seen["min_place"] if feature.min < declared.min else feature.seen["max_place"]
            yield Finding(
                f"{name!r} goes from {feature.min:g} to {feature.max:g}, not {declared.min:g} to {declared.max:g}",
                locations=[data.location(tuple(place), name)],
                evidence={
                    "measured": [feature.min, feature.max],
                    "expected": [declared.min, declared.max],
                    "examined": data.examined(),
                },
                help=["look at the record named: another unit, or a schema that is too old?"],
            )


@rule("VAL005", "number-as-text", severity="warning", needs=("values", "texts"))
def number_as_text(data: Data) -> Iterator[Finding]:
    """Text that is a number in nearly every record.

    Why: a number in text cannot be scaled or compared, and as a category it has no order.
    Example: `"12.5"` from a CSV file whose column was read as text.
    Fix: convert it where it is written: `float(value)`.
    Ignore: for identifiers, postal codes and telephone numbers.
    """
    for name, look in data.looks.items():
        is_identifier = re.search(r"id$|key|code|zip|phone|name|path|date|time|year|version", name, re.IGNORECASE)
        if look.looked_at >= MIN_RECORDS and look.numbers >= 0.95 * look.looked_at and not is_identifier:
            how = 'with float(value.replace(",", "."))' if 2 * look.commas > look.numbers else "with float(value)"
            yield Finding(
                f"{name!r} is text, and {look.numbers:,} of {look.looked_at:,} values looked at are numbers",
                confidence="likely",
                locations=[Location(feature=name)],
                evidence={"measured": look.numbers, "examined": f"{look.looked_at:,} values"},
                help=[f"store {name!r} as a number: convert it where it is written, {how}"],
            )


@rule("VAL006", "spaces-around-text", severity="warning", needs="values")
def spaces_around_text(data: Data) -> Iterator[Finding]:
    """Short text, such as class names, with spaces or line ends around it in some records.

    Why: `"cat"` and `"cat\\n"` are two classes, or one that the lookup table does not know: -1, and a NaN loss.
    Example: names that were read with `file.readlines()`.
    Fix: `.strip()` where it is written.
    Ignore: for running text.
    """
    for feature in data.features.values():
        count = feature.seen["padded"][0]
        if not count or feature.seen["max_size"] > 64:
            continue
        distinct = feature.distinct or {}
        twins = [
            name for name in distinct if isinstance(name, str) and name != name.strip() and name.strip() in distinct
        ]
        yield Finding(
            f"{feature.name!r}: {count_of_things(count, 'value has', 'values have')} spaces or line ends around it"
            + (f"; {twins[0]!r} and {twins[0].strip()!r} are two values" if twins else ""),
            severity="error" if twins else None,
            locations=data.locations(feature.seen["padded"], feature.name),
            evidence={"measured": count, "expected": 0, "examined": data.examined()},
            help=["strip it where it is written"],
        )


@rule("VAL007", "impossible-box", needs="values")
def impossible_box(data: Data) -> Iterator[Finding]:
    """Boxes whose minimum is not below their maximum, or that lie outside the image.

    Why: a width below 0 has no logarithm: the loss becomes NaN at the step that meets it.
    Example: `xmin` and `xmax` swapped; pixels where shares of the width are expected; EXIF rotation not applied.
    Fix: leave the box out, or swap its corners; divide by the image's size after rotating it.
    Ignore: never.
    """
    groups: dict[str, dict[str, FeatureFacts]] = {}
    for feature in data.features.values():
        if (found := _BOX.match(feature.name)) and feature.is_number:
            groups.setdefault(f"{found[1]}{found[2]}", {})[found[3]] = feature
    for pair in groups.values():
        for feature in pair.values():
            is_share = feature.max <= 2.0 or _share_of(feature, 1.0) > 0.9
            if is_share and (feature.min < 0.0 or feature.max > 1.0 + 1e-6):
                place = feature.seen["min_place"] if feature.min < 0 else feature.seen["max_place"]
                yield Finding(
                    f"{feature.name!r} goes from {feature.min:g} to {feature.max:g}, and boxes lie within 0 and 1",
                    locations=[data.location(tuple(place), feature.name)],
                    evidence={"measured": [feature.min, feature.max], "expected": [0, 1], "examined": data.examined()},
                    help=["clip boxes to the image, and divide pixels by its size"],
                )
        low, high = pair.get("min"), pair.get("max")
        if low is not None and high is not None and low.mean > high.mean:
            yield Finding(
                f"{low.name!r} is above {high.name!r} on average: corners are swapped",
                locations=[Location(feature=low.name)],
                evidence={"measured": [low.mean, high.mean], "examined": data.examined()},
                help=["swap the two features where they are written"],
            )
    if data.boxes.count:
        yield Finding(
            f"{count_of_things(data.boxes.count, 'box has', 'boxes have')} a minimum that is not below the maximum",
            locations=[data.location(place, name) for place, name in data.boxes.places],
            evidence={"measured": data.boxes.count, "expected": 0, "examined": f"{data.boxes.examined:,} boxes"},
            help=["leave such boxes out, or swap their corners"],
        )


def _share_of(feature: FeatureFacts, limit: float) -> float:
    sample = feature.seen["sample"]
    return float((np.abs(sample) <= limit).mean()) if len(sample) else 0.0


@rule("VAL008", "scales-side-by-side", severity="info", needs="values")
def scales_side_by_side(data: Data) -> Iterator[Finding]:
    """Positions of one vector, or numbers of one record, of which some are normalised and others are in the thousands.

    Why: the large ones dominate the gradient until the model has compensated for them.
    Example: age scaled to 0..1, and an income in cents.
    Fix: normalise all of them by statistics of the train split; `bushel build` keeps those with the dataset.
    Ignore: for models that do not mind, such as trees, or where a Normalization layer comes first.
    """
    for feature in data.features.values():
        low, high = feature.seen["position_min"], feature.seen["position_max"]
        if feature.total < MIN_RECORDS or len(low) < 2 or not feature.seen["kinds"][2]:
            continue
        scale = np.maximum(np.abs(low), np.abs(high))
        small, large = np.flatnonzero((scale > 0) & (scale <= 3)), np.flatnonzero(scale >= 1000)
        if len(small) and len(large):
            yield Finding(
                f"{feature.name!r}: {len(small):,} positions stay within 3, {len(large):,} go beyond 1,000",
                confidence="likely",
                locations=[Location(feature=feature.name)],
                evidence={
                    "measured": {"small": small[:8].tolist(), "large": large[:8].tolist()},
                    "examined": data.examined(),
                },
                help=["normalise every position with statistics of the train split"],
            )


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
