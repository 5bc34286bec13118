"""SCH and TFX: what records hold, against each other, the schema of the dataset, and a `schema.pbtxt` of TFX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bushel.checking.collect.facts import KIND_NAMES, Data, FeatureFacts, SplitFacts
from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.data.columns import count_of
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, INT_KIND
from bushel.data.tf_descriptions import Declared
from bushel.errors import nearest
from bushel.records.files import ELWC, not_examples
from bushel.storage import as_path

RARE_LENGTH = 0.05  # other lengths in fewer records than this are a mistake, not a ragged feature
MOSTLY = 0.5

ITEM_SIZES = {2: "int16 or float16", 4: "float32 or int32", 8: "float64 or int64"}


@rule("SCH001", "feature-missing", needs="records")
def feature_missing(data: Data) -> Iterator[Finding]:
    """Features that the schema declares and no record has, and features that one split has and another lacks.

    Why: parsing fails with `Feature: X is required but could not be found`, or a default fills in for all of them.
    Example: train was written with `label`, validation with `labels`.
    Fix: write both splits with one function; rename the feature in the code or in the data.
    Ignore: for a test split without labels.
    """
    if data.schema is not None:
        extra = [name for name in data.features if name not in data.schema]
        for name, feature in data.schema.features.items():
            stored = [name] if feature.encoding != "sparse" else [f"{name}/indices", f"{name}/values"]
            if data.records and feature.required and not any(part in data.features for part in stored):
                yield _missing(
                    f"no record has feature {name!r}, which the schema declares", name, extra, subject="no record"
                )
        for name in extra:
            if not any(name.startswith(f"{known}/") for known in data.schema):
                yield Finding(
                    f"{name!r} is in records, but the schema does not declare it",
                    severity="info",
                    locations=[Location(feature=name)],
                    evidence={"measured": data.features[name].records, "expected": 0, "subject": name},
                )
    splits = [split for split in data.splits.values() if split.records]
    for name in sorted({name for split in splits for name in split.features}):
        lacking = [split for split in splits if name not in split.features]
        if lacking:
            known = {name for split in splits if split not in lacking for name in split.features}
            own = sorted(set.intersection(*(set(split.features) for split in lacking)) - known)
            yield _missing(_who_lacks(name, splits, lacking), name, own, subject=lacking[0].name)


def _who_lacks(name: str, splits: list[SplitFacts], lacking: list[SplitFacts]) -> str:
    having = [split.name for split in splits if split not in lacking]
    if len(lacking) == 1:
        return f"split {lacking[0].name} has no feature {name!r}, and other splits do"
    return f"only split {', '.join(having)} has feature {name!r}: {', '.join(split.name for split in lacking)} do not"


def _missing(what: str, name: str, extra: list[str], *, subject: str) -> Finding:
    close = nearest(name, extra)
    return Finding(
        what + (f"; was it renamed to {close!r}?" if close else ""),
        severity="error" if close or "schema" in what else "warning",
        locations=[Location(feature=name)],
        evidence={"expected": name, "measured": extra or "no other feature", "subject": subject},
        help=[f"rename {close!r} to {name!r} where it is written"] if close else ["write it in every record"],
    )


@rule("SCH002", "list-type-mismatch", needs="records")
def list_type_mismatch(data: Data) -> Iterator[Finding]:
    """A feature whose values are of one type in some records and of another in others, or not of the declared type.

    Why: `Key: X. Data types don't match. Expected type: int64, Actual type: float`, at whichever record comes first.
    Example: one blank cell turned an integer column into floats, in one file of ten.
    Fix: convert to one type where it is written: `int(value)` into int64_list, `float(value)` into float_list.
    Ignore: never; no parse specification reads both.
    """
    for feature in data.features.values():
        kinds = {KIND_NAMES[kind]: feature.seen["kinds"][kind] for kind in KIND_NAMES if feature.seen["kinds"][kind]}
        declared = data.schema.features.get(feature.name) if data.schema else None
        rare = min(kinds, key=lambda name: kinds[name])
        kind = next(kind for kind, name in KIND_NAMES.items() if name == rare)
        if len(kinds) > 1:
            yield Finding(
                f"{feature.name!r} is {feature.dtype} in most records and {rare} in {kinds[rare]:,}",
                locations=data.locations(feature.seen["kind_places"][kind], feature.name),
                evidence={"measured": kinds, "expected": feature.dtype, "examined": data.examined()},
                help=[f"write every value of {feature.name!r} as {feature.dtype}"],
            )
        elif declared is not None and declared.encoding == "list" and declared.kind != feature.kind:
            yield Finding(
                f"{feature.name!r} is {feature.dtype}, but the schema says {declared.dtype}",
                locations=data.locations(feature.seen["kind_places"][feature.kind], feature.name),
                evidence={"measured": feature.dtype, "expected": declared.dtype, "examined": data.examined()},
                help=[f"declare it as {feature.dtype}, or write it as {declared.dtype}"],
            )


@rule("SCH003", "value-count-mismatch", needs="records")
def value_count_mismatch(data: Data) -> Iterator[Finding]:
    """A feature with a different number of values in a few records than in the rest, or than is declared.

    Why: `Number of int64 values != expected. Values size: 2 but output shape: [3]`, when such a record comes up.
    Example: `shape` is `[h, w, 3]` for colour images and `[h, w]` for the grey ones.
    Fix: write the same number always, or read the feature as `VarLenFeature` or `RaggedFeature`.
    Ignore: where the feature is meant to vary, as boxes or tokens do.
    """
    for feature in data.features.values():
        lengths = feature.lengths
        declared = data.schema.features.get(feature.name) if data.schema else None
        is_fixed = declared is not None and not declared.is_ragged and not declared.sequence
        if declared is not None and is_fixed and declared.encoding not in ("raw", "sparse"):
            expected = count_of(declared.shape)
            if other := {length: count for length, count in lengths.items() if length != expected}:
                yield _odd_lengths(data, feature, expected, other, f"the schema says {declared.describe()}")
        elif 1 < len(lengths) <= 4 and not feature.is_list:
            usual = max(lengths, key=lambda length: lengths[length])
            other = {length: count for length, count in lengths.items() if length != usual}
            if usual > 0 and sum(other.values()) <= RARE_LENGTH * feature.records:
                yield _odd_lengths(data, feature, usual, other, "nearly all records agree")


def _odd_lengths(data: Data, feature: FeatureFacts, expected: int, other: dict[int, int], why: str) -> Finding:
    seen = feature.seen["lengths"][0]
    places = [(seen[length][1], seen[length][2]) for length in sorted(other)[:5]]
    count = sum(other.values())
    return Finding(
        f"{feature.name!r} holds {count_of_things(expected, 'value')}, "
        f"and in {count_of_things(count, 'record')} another number",
        severity="error" if "schema" in why else "warning",
        confidence="proven" if "schema" in why else "likely",
        locations=[data.location(place, feature.name) for place in places],
        evidence={"measured": feature.lengths, "expected": f"{expected} ({why})", "examined": data.examined()},
        help=[f"always write {count_of_things(expected, 'value')}, or read {feature.name!r} as VarLenFeature"],
    )


@rule("SCH004", "raw-dtype-mismatch", needs="records")
def raw_dtype_mismatch(data: Data) -> Iterator[Finding]:
    """Raw tensors whose number of bytes does not fit the dtype and shape that are declared.

    Why: `Input to reshape is a tensor with 1123632 values, but the requested shape has 280908`: exactly four times as
    many, because float32 was written and uint8 is read. With another shape it silently reads garbage.
    Example: `image.astype(float).tobytes()` read with `tf.io.decode_raw(image, tf.uint8)`.
    Fix: declare the dtype that was written; the ratio of bytes to values names its size.
    Ignore: never.
    """
    for name, declared in (data.schema.features if data.schema else {}).items():
        feature = data.features.get(name)
        if feature is None or declared.encoding != "raw" or feature.kind != BYTES_KIND or declared.is_ragged:
            continue
        import numpy as np

        values = count_of(declared.shape)
        expected = values * np.dtype(declared.dtype).itemsize
        wrong = {size: count for size, count in feature.sizes.items() if size != expected}
        if not wrong:
            continue
        size = max(wrong, key=lambda size: wrong[size])
        guess = ITEM_SIZES.get(size // values) if values and size % values == 0 else None
        image = next((name for name in feature.formats if name != "other"), None)
        said = f": this is {image.upper()}" if image else f": that is {guess}" if guess else ""
        yield Finding(
            f"{name!r} holds {size:,} bytes where {declared.describe()} takes {expected:,}{said}",
            locations=[data.location(feature.seen["sizes"][0][size][1:], name)],
            evidence={"measured": wrong, "expected": expected, "examined": data.examined()},
            help=[f"declare {name!r} as {guess}" if guess else f"write {name!r} again as {declared.describe()}"],
        )


@rule("SCH005", "mostly-absent-feature", severity="warning", needs="records")
def mostly_absent_feature(data: Data) -> Iterator[Finding]:
    """A feature that fewer than half of the records have.

    Why: a `default_value`, the usual advice against `required but could not be found`, makes it a constant for the
    rest, and the model learns the constant.
    Example: `rating` is in 3 % of the records and read with `default_value=0`.
    Fix: drop the feature, or give the model a second feature that says whether it was there.
    Ignore: for a feature that is meant to be rare, and is read as such.
    """
    for feature in data.features.values():
        share = feature.records / max(feature.total, 1)
        declared = data.schema.features.get(feature.name) if data.schema else None
        if declared is not None and declared.required and feature.records < feature.total:
            yield Finding(
                f"{feature.name!r} is required by the schema, and {feature.total - feature.records:,} records lack it",
                severity="error",
                locations=[Location(feature=feature.name)],
                evidence={"measured": share, "expected": 1.0, "examined": data.examined()},
                help=["write it in every record, or declare it with required=False"],
            )
        elif declared is None and share < MOSTLY:
            yield Finding(
                f"{feature.name!r} is in {share:.1%} of the records",
                locations=[Location(feature=feature.name)],
                evidence={"measured": feature.records, "expected": feature.total, "examined": data.examined()},
                help=["drop it, or add a feature that says whether it is there; a default would be a constant"],
            )


@rule("SCH006", "other-records-mixed-in", severity="warning", needs="records")
def other_records_mixed_in(data: Data) -> Iterator[Finding]:
    """A few records whose features are quite different from the rest.

    Why: they come from another dataset or another version of the writer, and end training when their turn comes.
    Example: the shards of a detection set and of a classification set in one folder.
    Fix: keep the two apart; `bushel info` on each file shows which is which.
    Ignore: where features are optional and differ by one or two.
    """
    for split in data.splits.values():
        (counts, full), names = split.signatures
        if full or len(counts) < 2 or not data.features:  # SCH007 says what the records are
            continue
        usual = max(counts, key=lambda signature: counts[signature][0])
        for signature, (count, file, record) in counts.items():
            mine, theirs = set(names.get(usual, ())), set(names.get(signature, ()))
            if signature == usual or len(mine & theirs) * 2 >= len(mine | theirs) or not mine:
                continue
            if theirs and _are_met_together(mine - theirs, theirs - mine, map(set, names.values())):
                continue
            yield Finding(
                f"{count_of_things(count, 'record')} of split {split.name} hold{'s' * (count == 1)} other features",
                locations=[data.location((file, record))],
                evidence={
                    "measured": sorted(theirs) or "no feature",
                    "expected": sorted(mine),
                    "subject": str(sorted(theirs)),
                },
                help=["keep records of two kinds in files of two names"],
            )


def _are_met_together(some: set[str], others: set[str], signatures: Iterable[set[str]]) -> bool:
    """Whether features are optional, and not of two kinds of records: some record has one of each."""
    return not some or not others or any(some & names and others & names for names in signatures)


@rule("SCH007", "not-an-example", needs="records")
def not_an_example(data: Data) -> Iterator[Finding]:
    """Records whose data is not an Example or SequenceExample.

    Why: `Could not parse example input, value: '<binary>'`, with the bytes of a record and not its place.
    Example: serialized tensors (`tf.io.serialize_tensor`), or another protobuf message.
    Fix: read them with the library that wrote them; `bushel info` says what they are.
    Ignore: where the records are meant to be other bytes.
    """
    for split in data.splits.values():
        count = split.malformed[0]
        what = None if data.features or not data.files else not_examples(as_path(data.files[0].path))
        if what is not None:
            yield Finding(
                f"all {count_of_things(count + split.records, 'record')} in {split.name} are not Examples but {what}",
                # Text, files and bytes may be meant to be; messages of other programs are files of another kind.
                severity="info" if what in ("text", "other bytes") or what.startswith("files") else "error",
                locations=data.locations(split.malformed),
                evidence={"measured": count + split.records, "expected": 0, "subject": split.name},
                help=[
                    "make Examples of them: bushel build FILES OUT"
                    if what == ELWC
                    else "tf.io.parse_example cannot read them: use the library that wrote them"
                ],
            )
        elif count:
            yield Finding(
                f"{count_of_things(count, 'record')} of {count + split.records:,} in {split.name} are not Examples",
                locations=data.locations(split.malformed),
                evidence={"measured": count, "expected": 0, "examined": data.examined(), "subject": split.name},
                help=["tf.io.parse_example cannot read them: use the library that wrote them"],
            )


@rule("SCH008", "type-drift-between-splits", needs="records", silences=("SCH002",))
def type_drift_between_splits(data: Data) -> Iterator[Finding]:
    """A feature whose type differs between splits.

    Why: training works and validation fails, or worse, a cast makes both work and mean different things.
    Example: `age` is int64 in train and float in validation, because validation has a blank.
    Fix: convert to one type before writing, with one function for all splits.
    Ignore: never.
    """
    for name in sorted(data.features):
        kinds = {s.name: s.features[name].dtype for s in data.splits.values() if name in s.features}
        if len(set(kinds.values())) > 1:
            yield Finding(
                f"{name!r} is {' and '.join(f'{dtype} in {split}' for split, dtype in kinds.items())}",
                locations=[Location(feature=name)],
                evidence={"measured": kinds, "expected": "one type"},
                help=[f"write {name!r} as {_wider(set(kinds.values()))} in every split"],
            )


def _wider(kinds: set[str]) -> str:
    return next(
        name for name in (KIND_NAMES[BYTES_KIND], KIND_NAMES[FLOAT_KIND], KIND_NAMES[INT_KIND]) if name in kinds
    )


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
    """
    for declared, feature in _pairs(data):
        least, most = feature.seen["min_count"], feature.seen["max_count"]
        is_low = declared.least is not None and least < declared.least
        is_high = declared.most is not None and most > declared.most
        if declared.sequence or not (is_low or is_high):
            continue
        seen = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        odd = least if is_low else most
        _, file, record = feature.seen["lengths"][0].get(odd, (0, None, None))
        yield Finding(
            f"{feature.name!r} holds {seen} values in a record, and the schema allows "
            f"{_allowed(declared.least, declared.most)}",
            locations=[Location(feature=feature.name) if file is None else data.location((file, record), feature.name)],
            evidence={"measured": [least, most], "expected": [declared.least, declared.most]},
            help=["write as many values as the schema says, or correct its shape or value_count"],
        )


def _allowed(least: int | None, most: int | None) -> str:
    if least is None or most is None:
        return f"at most {most:,}" if most is not None else f"at least {least:,}"
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


@rule("TFX005", "value-outside-domain", needs="values")
def value_outside_domain(data: Data) -> Iterator[Finding]:
    """Values outside the domain that `schema.pbtxt` declares: too small, too large, unknown texts, NaN.

    Why: the model never learns what to do with them, and codes past the end fail in an embedding.
    Example: `int_domain { min: 0 max: 9 }`, and a new class has the code 10.
    Fix: correct the values where they are written, or widen the domain in the schema.
    Ignore: where the domain was only inferred from an older sample.
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
                yield f"holds {count_of_things(count, f'{word} value')}, and the schema allows none", None, count
    if feature.kind == BYTES_KIND and declared.texts is not None and feature.distinct is not None:
        unknown = {text: count for text, count in feature.distinct.items() if text not in declared.texts}
        if unknown:
            first = ", ".join(repr(text) for text in list(unknown)[:5])
            texts = count_of_things(len(unknown), "text")
            yield f"holds {texts} that the schema does not know: {first}", None, unknown
