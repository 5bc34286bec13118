"""TFX: what records hold, against a `schema.pbtxt` of TFX or TensorFlow Data Validation."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.checking.collect.facts import KIND_NAMES, Data, FeatureFacts
from bushel.checking.report.findings import Finding, Location, count_of_things
from bushel.checking.rules.registry import rule
from bushel.data.schema import BYTES_KIND, FLOAT_KIND
from bushel.data.tf_schema import Declared

__all__: list[str] = []


def _pairs(data: Data) -> Iterator[tuple[Declared, FeatureFacts]]:
    """What the schema declares, with what was seen of it."""
    for declared in data.declared or ():
        if declared.name in data.features:
            yield declared, data.features[declared.name]


@rule("TFX001", "feature-not-in-schema", severity="warning", needs="records")
def feature_not_in_schema(data: Data) -> Iterator[Finding]:
    """A feature of the records that `schema.pbtxt` does not declare.

    Why: components that follow the schema do not read it, and TensorFlow Data Validation calls it an anomaly.
    Example: a new column was added where records are written, and the schema was not.
    Fix: declare it; `bushel schema DATA --pbtxt` prints how. Or stop writing it.
    Ignore: for features that only other programs read.
    Reports: none collected.
    """
    if data.declared is None:
        return
    known = {declared.name for declared in data.declared}
    for name, feature in data.features.items():
        if name not in known:
            yield Finding(
                f"{name!r} is in {count_of_things(feature.records, 'record')}, and the schema does not declare it",
                locations=[Location(feature=name)],
                evidence={"measured": name, "expected": sorted(known)[:20], "examined": data.examined()},
                help=["declare it: bushel schema DATA --pbtxt prints how"],
            )


@rule("TFX002", "declared-feature-absent", needs="records")
def declared_feature_absent(data: Data) -> Iterator[Finding]:
    """A feature that fewer records have than `schema.pbtxt` demands by `presence`.

    Why: parsing fails, or a default fills in for what is missing, and the model learns that.
    Example: the schema demands `min_fraction: 1.0`, and one file was written before the feature was there.
    Fix: write it in every record, or lower `presence.min_fraction` and `min_count` in the schema.
    Ignore: for data without labels, where the schema declares the label.
    Reports: none collected.
    """
    for declared in data.declared or ():
        feature = data.features.get(declared.name)
        have = feature.records if feature is not None else 0
        needed = max(declared.min_count, -int(-declared.min_fraction * data.records // 1))
        if declared.is_expected and data.records and have < needed:
            yield Finding(
                f"{declared.name!r} is in {have:,} of {count_of_things(data.records, 'record')}, "
                f"and the schema demands {needed:,}",
                locations=[Location(feature=declared.name)],
                evidence={"measured": have, "expected": needed, "examined": data.examined()},
                help=["write it in every record, or lower its presence in the schema"],
            )


@rule("TFX003", "declared-type-differs", needs="records")
def declared_type_differs(data: Data) -> Iterator[Finding]:
    """A feature whose values are of another type than `schema.pbtxt` declares.

    Why: `Data types don't match`, as soon as such a record is parsed by the schema.
    Example: the schema says INT, and a blank cell made the column FLOAT.
    Fix: write the declared type, or correct `type` in the schema.
    Ignore: never; what follows the schema cannot read it.
    Reports: none collected.
    """
    for declared, feature in _pairs(data):
        if declared.kind is not None and declared.kind != feature.kind:
            expected = KIND_NAMES[declared.kind]
            yield Finding(
                f"{feature.name!r} is {feature.dtype}, and the schema says {expected}",
                locations=data.locations(feature.seen["kind_places"][feature.kind], feature.name),
                evidence={"measured": feature.dtype, "expected": expected, "examined": data.examined()},
                help=[f"write it as {expected}, or correct its type in the schema"],
            )


@rule("TFX004", "declared-count-differs", needs="records")
def declared_count_differs(data: Data) -> Iterator[Finding]:
    """Records that hold fewer or more values of a feature than `schema.pbtxt` allows by `shape` or `value_count`.

    Why: a fixed shape does not parse, and a count that is allowed to vary breaks the model that expects it not to.
    Example: `shape { dim { size: 3 } }`, and some records hold four values.
    Fix: write as many values as the schema says, or correct the schema.
    Ignore: never; what follows the schema cannot read it.
    Reports: none collected.
    """
    for declared, feature in _pairs(data):
        least, most = feature.seen["min_count"], feature.seen["max_count"]
        is_low = declared.least is not None and least < declared.least
        is_high = declared.most is not None and most > declared.most
        if declared.sequence or not (is_low or is_high):
            continue
        seen = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        wanted = " to ".join("any number" if side is None else f"{side:,}" for side in (declared.least, declared.most))
        odd = least if is_low else most
        _, file, record = feature.seen["lengths"][0].get(odd, (0, None, None))
        yield Finding(
            f"{feature.name!r} holds {seen} values in a record, and the schema allows {wanted}",
            locations=[Location(feature=feature.name) if file is None else data.location((file, record), feature.name)],
            evidence={"measured": [least, most], "expected": [declared.least, declared.most]},
            help=["write as many values as the schema says, or correct its shape or value_count"],
        )


@rule("TFX005", "value-outside-domain", needs="values")
def value_outside_domain(data: Data) -> Iterator[Finding]:
    """Values outside the domain that `schema.pbtxt` declares: too small, too large, unknown texts, NaN.

    Why: the model never learns what to do with them, and codes past the end fail in an embedding.
    Example: `int_domain { min: 0 max: 9 }`, and a new class has the code 10.
    Fix: correct the values where they are written, or widen the domain in the schema.
    Ignore: where the domain was only inferred from an older sample.
    Reports: none collected.
    """
    for declared, feature in _pairs(data):
        if declared.texts is not None and feature.kind == BYTES_KIND and feature.distinct is None:
            yield Finding(
                f"{feature.name!r} has several texts in a record, or more than 64 in all; its domain was not compared",
                severity="info",
                locations=[Location(feature=feature.name)],
                evidence={"measured": "not compared", "expected": sorted(declared.texts)[:20]},
            )
        for what, place, measured in _outside(declared, feature):
            yield Finding(
                f"{feature.name!r} {what}",
                locations=[data.location(place, feature.name) if place else Location(feature=feature.name)],
                evidence={
                    "measured": measured,
                    "expected": [declared.low, declared.high]
                    if declared.texts is None
                    else sorted(declared.texts)[:20],
                    "examined": data.examined(),
                },
                help=["correct the values, or widen the domain in the schema"],
            )


def _outside(declared: Declared, feature: FeatureFacts) -> Iterator[tuple[str, tuple[int, int] | None, object]]:
    seen = feature.seen
    if feature.is_number and declared.low is not None and feature.min < declared.low:
        yield f"goes down to {feature.min:g}, and the schema ends at {declared.low:g}", seen["min_place"], feature.min
    if feature.is_number and declared.high is not None and feature.max > declared.high:
        yield f"goes up to {feature.max:g}, and the schema ends at {declared.high:g}", seen["max_place"], feature.max
    if feature.kind == FLOAT_KIND:
        for name, is_allowed in (("nans", declared.allows_nan), ("infinities", declared.allows_infinity)):
            if not is_allowed and (count := seen[name][0]):
                word = "NaN" if name == "nans" else "infinite"
                yield f"holds {count:,} {word} values, and the schema allows none", None, count
    if feature.kind == BYTES_KIND and declared.texts is not None and feature.distinct is not None:
        unknown = {text: count for text, count in feature.distinct.items() if text not in declared.texts}
        if unknown:
            first = ", ".join(repr(text) for text in list(unknown)[:5])
            yield f"holds {len(unknown):,} texts that the schema does not know: {first}", None, unknown
