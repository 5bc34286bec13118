"""What is stored in the records against what arrives at the model and the loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bushel.checking.findings import Finding, rule, seen
from bushel.checking.program import CodePlace, TracedDifference, TracedLabel, TracedPart, TracedUse
from bushel.checking.rules.keras_expectations import CROSSENTROPIES, SQUARED, loss_called
from bushel.checking.running.execution import Event, Execution, Spot
from bushel.errors import nearest

MOST_ALIKE = 0.9  # of words that are the same number
LEAST_VALUES = 8
MOST_CLASSES = 12  # values of a label among the known records
KEPT = 4  # at least one in so many different values must arrive as a different one
MOST_STRANGERS = 0.5
_FOR = {"train": "training", "val": "validation", "evaluate": "evaluation", "predict": "prediction"}


def _spots(places: Iterable[CodePlace | None]) -> list[Spot]:
    return [(place.file, place.line, place.function) for place in places if place is not None]


def _uses(run: Execution, *roles: str) -> Iterator[TracedUse]:
    """Uses that were followed, each pipeline once per role."""
    reported: set[str] = set()
    for use in run.traced:
        key = f"{use.role}{use.places}"
        if use.role in roles and not use.problem and key not in reported:
            reported.add(key)
            yield use


def _model(run: Execution, use: TracedUse) -> Event:
    """The model that is given the data, as far as it is known."""
    found = [fit["model"] for fit in run.fits if fit["model"]["number"] == use.model]
    return found[-1] if found else {}


def _units(model: Event) -> int | None:
    shape = model.get("output_shape")
    return shape[-1] if isinstance(shape, list) and shape and isinstance(shape[-1], int) else None


def _listed(values: Iterable[str]) -> str:
    found = sorted(values)
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")


@rule("EXE073", "labels-not-as-stored", needs="execution", rank=25, silences=("EXE041",))
def labels_not_as_stored(run: Execution) -> Iterator[Finding]:
    """What the loss gets for a label is not what the file says, or not always, or not in every split.

    Why: the model learns other answers than those in the records, and is measured by yet other ones.
    Example: a label that is parsed under a wrong name with `default_value=0`; class numbers that are made for each
    batch or split; labels that are a row away from their inputs.
    Fix: look at the lines that make the label; the finding says what arrives for which label of the file.
    Ignore: where classes are joined on purpose.
    """
    reported: set[str] = set()
    for use in _uses(run, "train", "val", "evaluate"):
        target = use.part("target")
        if target is None or target.is_random:
            continue
        for message in _label_faults(run, use, target):
            if message in reported:
                continue  # of another split that is prepared in the same way
            reported.add(message)
            yield run.found(
                f"{message} (known from {use.records} records, in {_FOR[use.role]})",
                *_spots(target.places),
                *_spots(use.places),
                help="look at the lines that make the label",
                arrives={pair.stored: pair.arrives for pair in use.label.pairs[:12]} if use.label else None,
            )
    yield from _different_meanings(run)


def _label_faults(run: Execution, use: TracedUse, target: TracedPart) -> Iterator[str]:
    label, model = use.label, _model(run, use)
    few = [one for one in use.features if one.name in target.features and one.values <= MOST_CLASSES]
    if use.misplaced:
        if few:  # amounts of a later time are what a forecast is about
            where = "after" if use.misplaced > 0 else "before"
            yield f"the label of a record arrives {abs(use.misplaced)} rows {where} its input"
        return
    if label is None:
        yield from _decided_by_nothing(use, target, model)
        return
    several = sorted(label.stored() - set(label.meanings()))
    if several:
        first = [pair.arrives for pair in label.pairs if pair.stored == several[0]]
        yield f"label {several[0]} of {label.feature!r} arrives as {_listed(first)}, depending on the other records"
    elif len(label.stored()) > 1 and len(label.arriving()) == 1:
        yield f"{len(label.stored())} different labels of {label.feature!r} all arrive as {_listed(label.arriving())}"
    elif (merged := _merged(label, _units(model))) is not None:
        yield merged


def _decided_by_nothing(use: TracedUse, target: TracedPart, model: Event) -> Iterator[str]:
    """Labels that are the same for every record, under a loss that compares them with answers."""
    loss = loss_called((model.get("loss") or {}).get("name") or "")
    if target.differing == 1 and not target.features and use.rows > 1 and loss in (*CROSSENTROPIES, *SQUARED):
        unused = [one.name for one in use.features if not one.reaches]
        missing = [one.name for one in use.absent if "target" in one.reaches]
        why = f"no record has {missing[0]!r}" if missing else f"nothing reads {_listed(unused)}" if unused else ""
        yield "every record arrives with the same label" + (f": {why}" if why else "")


def _merged(label: TracedLabel, units: int | None) -> str | None:
    """Labels that arrive as one, while the model has an output for each."""
    if units is None or units < 3 or not len(label.arriving()) < len(label.stored()) <= units:
        return None
    by_class: dict[str, set[str]] = {}
    for pair in label.pairs:
        by_class.setdefault(pair.arrives, set()).add(pair.stored)
    arrives, stored = max(by_class.items(), key=lambda item: len(item[1]))
    return (
        f"labels {_listed(stored)} of {label.feature!r} arrive as the same class, {arrives}, and the model has "
        f"{units} outputs for {len(label.stored())} labels"
    )


def _different_meanings(run: Execution) -> Iterator[Finding]:
    """Labels that training and validation take for different classes."""
    trained = {use.model: use for use in _uses(run, "train") if use.label is not None}
    for use in _uses(run, "val", "evaluate"):
        before = trained.get(use.model)
        target = use.part("target")
        if before is None or before.label is None or use.label is None or target is None:
            continue
        there, here = before.label.meanings(), use.label.meanings()
        changed = [stored for stored in there if stored in here and there[stored] != here[stored]]
        if changed and before.label.feature == use.label.feature:
            stored = changed[0]
            yield run.found(
                f"label {stored} of {use.label.feature!r} is class {there[stored]} in training and {here[stored]} in "
                f"{_FOR[use.role]}: {len(changed)} of {len(there)} labels differ",
                *_own(before, use, target),
                help="number the classes once, for all splits",
            )


def _own(before: TracedUse, use: TracedUse, part: TracedPart) -> list[Spot]:
    """The lines that only one of two pipelines has, before those that both have."""
    other = [place for one in before.parts for place in one.places] + before.places
    lines = [*part.places, *use.places]
    alone = [place for place in lines if place not in other]
    elsewhere = [place for one in before.parts if one.slot == part.slot for place in one.places]
    there = [place for place in (*elsewhere, *before.places) if place not in lines]
    return _spots([*alone, *there, *lines])


@rule("EXE074", "inputs-not-as-stored", severity="warning", needs="execution", rank=35, silences=("EXE041",))
def inputs_not_as_stored(run: Execution) -> Iterator[Finding]:
    """What the records hold is lost or taken apart on the way to the model.

    Why: the model cannot learn from what does not arrive, and nothing fails.
    Example: words of which none is in the vocabulary; raw pixels that are reshaped to (width, height).
    Fix: look at the lines that make the input; the finding says which feature is lost, and how.
    Ignore: where little of a feature is meant to be kept.
    """
    reported: set[str] = set()
    for use in _uses(run, "train", "val", "evaluate", "predict"):
        for message, spots in _lost(use):
            if message not in reported:
                reported.add(message)
                yield run.found(
                    message,
                    *spots,
                    *_spots(use.places),
                    help="compare what arrives with what bushel cat shows of the records",
                    confidence="likely" if "smoother" in message else "proven",
                )


@seen("PIP026")
def default_stands_in(run: Execution) -> Iterator[Finding]:
    """A feature that no record has, and whose default reaches the model or the loss."""
    held = set(run.data.features) if run.data is not None else set()
    absent = {one.name: one for use in _uses(run, "train", "val", "evaluate", "predict") for one in use.absent}
    for asked in absent.values():
        if asked.reaches and asked.name not in held:
            close = nearest(asked.name, held)
            yield run.found(
                f"no record has {asked.name!r}: every one gets {asked.default}, the default, as part of the "
                f"{' and the '.join(asked.reaches)}" + (f"; did you mean {close!r}?" if close else ""),
                *run.naming(asked.name, *_spots([asked.place])),
                *_spots([asked.place]),
                severity="error" if close or "target" in asked.reaches else None,
                help="use the name that the records have",
            )


def _lost(use: TracedUse) -> Iterator[tuple[str, list[Spot]]]:
    """Inputs that hold less than the features that they are made of."""
    inputs = [part for part in use.parts if part.slot == "input" and not part.is_random]
    features = {feature.name: feature for feature in use.features}
    telling = {name for part in inputs if part.commonest < MOST_ALIKE for name in part.features}
    for part in inputs:
        name = f"input {part.name!r}" if part.name else "the input"
        known = [features[one] for one in part.features]
        texts = [one for one in known if one.is_bytes]
        rich = [one for one in known if one.values >= LEAST_VALUES]
        if part.commonest >= MOST_ALIKE and texts and texts[0].name not in telling:
            yield (
                f"{part.commonest:.0%} of the words of {texts[0].name!r} arrive as the same number: they are not in "
                "the vocabulary",
                _spots(part.places),
            )
        elif rich and use.is_row_per_record and len(part.shape) > 1 and part.differing * KEPT < rich[0].values:
            yield (
                f"{rich[0].values} different values of {rich[0].name!r} arrive as {part.differing} different rows of "
                f"{name}",
                _spots(part.places),
            )
        if part.smoother is not None:
            here, there = (", ".join(map(str, shape[1:])) for shape in (part.shape, part.smoother))
            yield (
                f"the pixels of {name} make smoother images as ({there}) than as ({here}): their axes are in another "
                "order",
                _spots(part.places),
            )


@seen("PIP067")
def same_record_prepared_in_two_ways(run: Execution) -> Iterator[Finding]:
    """The same records arrive otherwise in validation, evaluation or prediction than in training."""
    trained = {use.model: use for use in _uses(run, "train")}
    for use in _uses(run, "val", "evaluate", "predict"):
        before = trained.get(use.model)
        for one in use.differences if before is not None else ():
            words = _difference_words(one, use)
            part = next(part for part in use.parts if (part.slot, part.name) == (one.slot, one.name))
            is_only = use.part(one.slot) is not None  # of several, one may be left empty on purpose
            if before is not None and words and (is_only or one.change != "values"):
                yield run.found(
                    f"the same records arrive in training {words} {_FOR[use.role]}: {one.example[0]:.4g} is "
                    f"{one.example[1]:.4g} there",
                    *_own(before, use, part),
                    help="prepare both with the same function",
                    severity="info" if one.change == "values" else "error",  # training may be augmented
                )


def _difference_words(one: TracedDifference, use: TracedUse) -> str:
    if one.slot != "input" or (one.change == "values" and use.role == "predict"):
        return ""
    if one.change == "scale":
        return (
            f"as {one.factor:.4g} times what they are{f' and {one.offset:+.4g}' if abs(one.offset) > 1e-6 else ''} in"
        )
    return {
        "scale of records": "on another scale for each record than in",
        "scale of columns": "on another scale for each column than in",
        "channels": "with their channels in the other order than in",
        "axes": "with rows and columns swapped from",
        "values": "with other values than in",
    }[one.change]


@rule("EXE075", "window-not-of-neighbours", needs="execution", rank=35)
def window_not_of_neighbours(run: Execution) -> Iterator[Finding]:
    """Samples that are made of several records, which are not those that follow each other in the file.

    Why: a window over a series holds values of other times: there is nothing in it to learn from.
    Example: `ds.shuffle(1000).window(24)`; files that are interleaved before `window`
    Fix: cut into windows first, then shuffle the windows.
    Ignore: where records that meet in a sample are meant to be drawn at random.
    """
    for use in _uses(run, "train", "val", "evaluate", "predict"):
        if use.strangers > MOST_STRANGERS and run.failure is None:
            yield run.found(
                f"{use.strangers:.0%} of the samples for {_FOR[use.role]} are made of records that do not follow each "
                "other in the files",
                *_spots([use.reordered_at]),
                help="cut into windows first, then shuffle the windows",
            )
            return
