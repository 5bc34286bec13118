"""Known records, followed through a pipeline of the script: changed one feature and one record at a time."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking.program.account import CodePlace
from bushel.checking.program.traced import (
    AbsentFeature,
    LabelPair,
    Slot,
    TracedDifference,
    TracedFeature,
    TracedLabel,
    TracedPart,
    TracedUse,
)
from bushel.checking.running import links
from bushel.checking.running.batches import Look, digests, flat, inputs_and_labels, looks
from bushel.checking.running.known_records import Row, Source, feature_of, is_bytes, value_of
from bushel.checking.running.links import Link
from bushel.checking.running.replay import NotFollowed, Replay
from bushel.checking.running.user_code import Place, is_user_file, seen

SLOTS: tuple[Slot, ...] = ("input", "target", "weight")
SECONDS = 1.5  # of processor time for the features of one pipeline
MOST_USES = 5
MOST_FEATURES = 200
MOST_LABELS = 200
MANY_SAMPLES = 20_000
MOST_MISSING = 4
SHARED = 0.5  # of the samples of a pipeline that are those of an array
SOME = 64
Parts = dict[tuple[Slot, str], NDArray[Any]]


@dataclass
class _Traced:
    """A pipeline that was followed, and what it gave for the known records."""

    use: TracedUse
    parts: Parts


@dataclass
class _Tracer:
    """What is known from one use to the next."""

    sources: dict[tuple[str, ...], Source] = field(default_factory=dict)
    by_dataset: dict[int, _Traced | str] = field(default_factory=dict)
    trained: dict[int | None, _Traced] = field(default_factory=dict)  # by model


_tracer = _Tracer()


def trace(look: Look | None, role: Any, model: int | None, place: Place | None) -> None:
    """Follow known records to where a dataset is used, and write down what arrives."""
    look = _origin(look) if look is not None and look.facts.get("arrays") else look
    dataset = look.dataset if look is not None else None
    link = links.link_of(dataset)
    if look is None or link is None or look.facts.get("failed"):
        return
    known = _tracer.by_dataset.get(id(dataset))
    if known is None and len(_tracer.by_dataset) < MOST_USES:
        with links.quietly(), _undisturbed():
            known = _follow(look)
        _tracer.by_dataset[id(dataset)] = known
    where = CodePlace(*place) if place else None
    if not isinstance(known, _Traced):
        use = TracedUse(role=role, model=model, place=where, problem=known or "there are many pipelines")
    else:
        before = _tracer.trained.get(model) if role != "train" else None
        found = list(_differences(before, known)) if before is not None else []
        use = msgspec.structs.replace(known.use, role=role, model=model, place=where, differences=found)
        if role == "train":
            _tracer.trained[model] = known
    seen.tell("traced", use=msgspec.to_builtins(use))


def _origin(look: Look) -> Look | None:
    """The pipeline that arrays were read from: one that the script drew, and that gave the same samples."""
    for other in looks():
        if other is not look and links.link_of(other.dataset) is not None:
            drawn = _samples(other)
            if sum(one in look.digests for one in drawn) > SHARED * len(drawn) > 0:
                return other
    return None


def _samples(look: Look) -> set[bytes]:
    """Some samples of a dataset, also of one that is not batched."""
    if links.is_batched(look.dataset):
        return set(look.digests)
    with links.quietly():
        elements = [flat(inputs_and_labels(one)[0]) for one in links.original_iter(look.dataset.take(SOME))]
    return {one for parts in elements for one in digests({name: array[None] for name, array in parts.items()})}


def _follow(look: Look) -> _Traced | str:
    """One pipeline; a sentence that says why not, if it cannot be followed."""
    link = links.link_of(look.dataset)
    assert link is not None
    problem = ""
    for sources in (_tracer.sources, {}):  # with the records of the pipelines before, or with its own
        try:
            return _followed(look, Replay(link, known=sources))
        except NotFollowed as error:
            return str(error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    return problem


def _followed(look: Look, replay: Replay) -> _Traced:
    link = links.link_of(look.dataset)
    assert link is not None
    rows = _rows_of(replay.sources)
    first, again = _draw(replay), _draw(replay)
    drawn = {key for key in first if key not in again or not _is_same(first[key], again[key])}
    augmented = drawn | _augmented(link, replay, first)
    count = max((len(array) for array in first.values()), default=0)
    effects = _effects(replay, rows, first, drawn)
    features = [
        TracedFeature(
            name=name,
            values=len({_plain(row.get(name)) for row in rows}),
            is_bytes=any(is_bytes(row.get(name)) for row in rows[:4]),
            reaches=[slot for slot in SLOTS if any(key[0] == slot for key in reached)],
        )
        for name, reached in effects.items()
    ]
    parts = [_part(key, array, key in augmented, effects, look.dataset) for key, array in first.items()]
    is_near = len(rows) - MOST_MISSING <= count <= len(rows)  # a `skip` in one half of a zip takes a row away
    misplaced, is_mixed = _moved(replay, rows, first, augmented) if is_near else (0, False)
    strangers, reordered_at = _strangers(look, link) if count != len(rows) and not augmented else (0.0, None)
    use = TracedUse(
        role="train",
        model=None,
        place=None,
        places=[CodePlace(*one.place) for one in links.chain_of(look.dataset)[::-1]],
        records=len(rows),
        rows=count,
        features=features,
        absent=list(_absent(look.dataset, replay, rows, first)),
        parts=parts,
        label=_label(rows, first, effects) if count == len(rows) and not misplaced else None,
        misplaced=misplaced,
        is_mixed=is_mixed,
        strangers=strangers,
        reordered_at=reordered_at,
    )
    return _Traced(use, first)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Draw the same random numbers in each pass, and leave those of the script as they would have been."""
    from tensorflow.python.eager import context

    here = context.context()
    kept = (here._seed, getattr(here, "_rng", None), random.getstate(), np.random.get_state())
    here._set_global_seed(1)
    try:
        yield
    finally:
        here._seed, here._rng = kept[0], kept[1]
        random.setstate(kept[2])
        np.random.set_state(kept[3])


def _augmented(link: Link, replay: Replay, first: Parts) -> set[tuple[Slot, str]]:
    """The parts that another seed changes, or that random numbers take part in."""
    from tensorflow.python.eager import context

    drawing = [one for one in links.chain_of(link.dataset) if one.random]
    if not drawing:
        return set()
    slots = {slot for one in drawing for slot in _drawn_slots(one)}
    context.context()._set_global_seed(2)
    try:
        other = _draw(Replay(link, known=replay.known))
    finally:
        context.context()._set_global_seed(1)
    return {key for key in first if key[0] in slots or key not in other or not _is_same(first[key], other[key])}


def _drawn_slots(link: Link) -> set[Slot]:
    """The slots into which random numbers of a link go; all of them if its graph does not show it.

    Numbers that are drawn for each record by its place in the file are the same whatever the seed is.
    """
    made = _outputs_of(link)
    found: set[Slot] = set()
    for slot, value in zip(SLOTS, inputs_and_labels(made), strict=True):
        if any(operation.type.startswith(links.RANDOM) for operation in _before(flat_tensors(value))):
            found.add(slot)
    return found or set(SLOTS)


def _rows_of(sources: list[Source]) -> list[Row]:
    """The known records of all sources, side by side."""
    count = min(len(source.rows) for source in sources)
    if count < 2:
        raise NotFollowed("fewer than two records")
    named = [(f"{number}: " if len(sources) > 1 else "", source) for number, source in enumerate(sources)]
    return [{f"{mark}{name}": value for mark, source in named for name, value in source.rows[i].items()}
            for i in range(count)]  # fmt: skip


def _show(sources: list[Source], rows: list[Row]) -> None:
    for number, source in enumerate(sources):
        mark = f"{number}: " if len(sources) > 1 else ""
        source.show([{n[len(mark) :]: value for n, value in row.items() if n.startswith(mark)} for row in rows])


def _draw(replay: Replay) -> Parts:
    """One pass: each part over all rows, sequences of different lengths filled up with zeros."""
    found: dict[tuple[Slot, str], list[NDArray[Any]]] = {}
    for element in links.original_iter(replay.dataset):
        for slot, value in zip(SLOTS, inputs_and_labels(element), strict=True):
            for name, array in flat(value).items():
                found.setdefault((slot, name), []).append(array if replay.is_batched and array.ndim else array[None])
    return {key: np.concatenate(_filled(arrays)) for key, arrays in found.items()}


def _filled(arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    ranks = {array.ndim for array in arrays}
    if len(ranks) != 1:
        raise NotFollowed("parts of different rank")
    sizes = [max(array.shape[axis] for array in arrays) for axis in range(1, ranks.pop())]
    if any(array.dtype.kind not in "fiub" and list(array.shape[1:]) != sizes for array in arrays):
        raise NotFollowed("texts of different shape")
    return [np.pad(a, [(0, 0), *((0, size - a.shape[i + 1]) for i, size in enumerate(sizes))])
            if list(a.shape[1:]) != sizes else a for a in arrays]  # fmt: skip


def _is_same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.shape != other.shape:
        return False
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _changed_rows(one: NDArray[Any], other: NDArray[Any]) -> set[int]:
    """The rows that differ; of arrays of other widths, by what both have."""
    sizes = tuple(slice(min(a, b)) for a, b in zip(one.shape, other.shape, strict=True))
    one, other = one[sizes], other[sizes]
    differs = one != other
    if one.dtype.kind == other.dtype.kind == "f":
        differs &= ~(np.isnan(one) & np.isnan(other))
    return set(np.flatnonzero(differs.reshape(len(one), -1).any(axis=1)).tolist())


def _effects(replay: Replay, rows: list[Row], first: Parts, drawn: set[Any]) -> dict[str, set[tuple[Slot, str]]]:
    """By feature: the parts that change when each record gets it from the record before."""
    names = sorted({name for row in rows for name in row}, key=lambda name: sum(_length(row.get(name)) for row in rows))
    found: dict[str, set[tuple[Slot, str]]] = {}
    begun = time.process_time()
    for name in names[:MOST_FEATURES]:
        if len({_plain(row.get(name)) for row in rows}) < 2:
            continue
        if time.process_time() - begun > SECONDS:
            break
        rolled = [_given(row, name, rows[number - 1]) for number, row in enumerate(rows)]
        with contextlib.suppress(Exception):  # a feature that others depend on, such as the size of an image
            parts = _shown(replay, rolled, lambda: _draw(replay))
            found[name] = {k for k in first if k not in drawn and (k not in parts or not _is_same(first[k], parts[k]))}
    return found


def _given(row: Row, name: str, other: Row) -> Row:
    without = {key: value for key, value in row.items() if key != name}
    return without | ({name: other[name]} if name in other else {})


def _shown(replay: Replay, rows: list[Row], draw: Callable[[], Parts]) -> Parts:
    """A pass over other records; afterwards the known ones are back."""
    known = _rows_of(replay.sources)
    try:
        _show(replay.sources, rows)
        return draw()
    finally:
        _show(replay.sources, known)


def _plain(value: Any) -> Any:
    return value if isinstance(value, bytes | type(None)) else repr(value)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, bytes) else int(getattr(value, "nbytes", 1))


def _moved(replay: Replay, rows: list[Row], first: Parts, drawn: set[Any]) -> tuple[int, bool]:
    """How far the label of a record arrives from its input, and whether a change of one record changes others."""
    steady = {key: array for key, array in first.items() if key not in drawn}
    middle = len(rows) // 2
    targets = [array for key, array in steady.items() if key[0] == "target"]
    others = [
        i
        for i in range(min(map(len, targets), default=0))
        if all(not _is_same(a[i : i + 1], a[middle : middle + 1]) for a in targets)
    ]
    if not others or not any(key[0] == "input" for key in steady):
        return 0, False
    parts = _shown(
        replay, [rows[others[0]] if i == middle else row for i, row in enumerate(rows)], lambda: _draw(replay)
    )
    changed = {
        slot: set().union(*(_changed_rows(array, parts[key]) for key, array in steady.items() if key[0] == slot))
        for slot in ("input", "target")
    }
    if len(changed["input"]) == len(changed["target"]) == 1:
        return changed["target"].pop() - changed["input"].pop(), False
    return 0, len(changed["input"] | changed["target"]) > 1 and len(next(iter(steady.values()))) == len(rows)


def _part(
    key: tuple[Slot, str], array: NDArray[Any], is_random: bool, effects: dict[str, set[Any]], dataset: Any
) -> TracedPart:
    slot, name = key
    return TracedPart(
        slot=slot,
        name=name,
        shape=list(array.shape),
        dtype="string" if array.dtype.kind in "OSU" else str(array.dtype),
        differing=len(set(digests({"": array}))),
        is_random=is_random,
        features=[feature for feature, reached in effects.items() if key in reached],
        commonest=_commonest(array),
        smoother=_smoother(array),
        places=_lines_making(slot, dataset),
    )


MOST_LINES = 8


def _lines_making(slot: Slot, dataset: Any) -> list[CodePlace]:
    """The user's lines that compute a part, by the operations of the pipeline's functions, the last one first."""
    found: dict[tuple[str, int], CodePlace] = {}
    calls = {place[:2] for link in links.chain_of(dataset) for place in (link.place, *link.callers)}
    for link in links.chain_of(dataset)[::-1]:
        made = _outputs_of(link)
        if not isinstance(made, tuple) and slot != "input":
            continue
        for operation in _before(flat_tensors(inputs_and_labels(made)[SLOTS.index(slot)])):
            lines = [f for f in operation.traceback if is_user_file(f.filename)]
            for line in lines[-1:]:
                found.setdefault((line.filename, line.lineno), CodePlace(line.filename, line.lineno, line.name))
    # What a link itself adds to a graph is made where it is called, which is seldom where the part is computed.
    return sorted(found.values(), key=lambda place: (place.file, place.line) in calls)[:MOST_LINES]


def _outputs_of(link: Link) -> Any:
    """What the function of a link gives, as tensors of its graph; None if it has none, or gives datasets."""
    import tensorflow as tf

    graph, spec = links.graph_of(link.dataset), getattr(link.dataset, "element_spec", None)
    if graph is None or len(tf.nest.flatten(spec)) != len(graph.outputs):
        return None
    return tf.nest.pack_sequence_as(spec, graph.outputs)


def flat_tensors(value: Any) -> list[Any]:
    """The tensors of a graph in a structure."""
    import tensorflow as tf

    return [one for one in tf.nest.flatten(value, expand_composites=True) if hasattr(one, "op")]


def _before(tensors: list[Any]) -> Iterator[Any]:
    """The operations that tensors are made by, the last ones first."""
    pending = [tensor.op for tensor in tensors]
    known: set[str] = set()
    while pending and len(known) < 300:
        operation = pending.pop(0)
        if operation.name not in known:
            known.add(operation.name)
            yield operation
            pending += [tensor.op for tensor in operation.inputs]


def _commonest(array: NDArray[Any]) -> float:
    """Of rows of whole numbers, the share of the most frequent one; 0 is what fills rows up."""
    if array.ndim < 2 or array.dtype.kind not in "iu":
        return 0.0
    counts = np.unique(array[array != 0], return_counts=True)[1]
    return float(counts.max() / counts.sum()) if counts.sum() > 4 * len(array) else 0.0


SMOOTH = 0.5  # neighbouring pixels of a picture differ by less than this, in deviations
SMOOTHER = 0.6


def _smoother(array: NDArray[Any]) -> list[int] | None:
    """The shape in which the pixels of images, in their order, make smoother ones than in that which they have."""
    if (
        array.ndim != 4
        or array.dtype.kind not in "fiu"
        or array.shape[-1] not in (1, 3, 4)
        or min(array.shape[1:3]) < 8
    ):
        return None
    count, height, width, channels = array.shape
    images = array[:16].astype(np.float64)
    here = _roughness(images)
    shapes = {(width, height, channels): (1, 2), (channels, height, width): (2, 3), (channels, width, height): (2, 3)}
    for shape, axes in shapes.items():
        if shape != (height, width, channels):
            there = _roughness(images.reshape(len(images), *shape), axes)
            if there < SMOOTH and there < SMOOTHER * here:
                return [count, *shape]
    return None


def _roughness(images: NDArray[np.float64], axes: tuple[int, ...] = (1, 2)) -> float:
    """How much neighbours differ, in deviations: about 1.1 for noise."""
    size = float(images.std()) or 1.0
    return float(np.mean([np.abs(np.diff(images, axis=axis)).mean() for axis in axes]) / size)


def _label(rows: list[Row], first: Parts, effects: dict[str, set[Any]]) -> TracedLabel | None:
    """What arrives for each label in the file, where one feature alone decides it."""
    targets = [key for key in first if key[0] == "target"]
    sources = [name for name, reached in effects.items() if targets and targets[0] in reached]
    if len(targets) != 1 or len(sources) != 1:
        return None
    stored = [value_of(row[sources[0]]) if sources[0] in row else None for row in rows]
    if None in stored or len(set(stored)) > MOST_LABELS:
        return None
    arriving = _classes(first[targets[0]])
    counts = Counter(zip(stored, arriving, strict=True))
    return TracedLabel(feature=sources[0], pairs=[LabelPair(str(a), b, n) for (a, b), n in sorted(counts.items())])


def _classes(array: NDArray[Any]) -> list[str]:
    """Each target as text: the class of a row with one largest value, a number, or all of it."""
    rows = array.reshape(len(array), -1)
    if array.ndim == 2 and rows.shape[1] > 1 and rows.dtype.kind in "fiub" and np.allclose(rows.sum(axis=1), 1):
        return [f"{number}" for number in rows.argmax(axis=1)]
    if rows.shape[1] == 1:
        return [f"{value:g}" if rows.dtype.kind in "fiub" else _text(value) for (value,) in rows]
    return [repr(row.tolist())[:200] for row in rows]


def _text(value: Any) -> str:
    return value.decode(errors="replace")[:60] if isinstance(value, bytes) else str(value)[:60]


def _differences(train: _Traced, other: _Traced) -> Iterator[TracedDifference]:
    """Parts that the same records became in training and here, and that are not the same."""
    if train is other or not (train.use.is_row_per_record and other.use.is_row_per_record):
        return
    drawn = {(part.slot, part.name) for use in (train.use, other.use) for part in use.parts if part.is_random}
    for key, here in other.parts.items():
        there = train.parts.get(key)
        if there is not None and there.shape == here.shape and here.dtype.kind in "fiub" and key not in drawn:
            found = _compared(key, there.astype(np.float64), here.astype(np.float64))
            if found is not None:
                yield found


NEAR = 1e-3  # of the deviation


def _compared(key: tuple[Slot, str], there: NDArray[Any], here: NDArray[Any]) -> TracedDifference | None:
    size = float(max(there.std(), here.std()))
    if not np.isfinite(there).all() or not np.isfinite(here).all() or np.allclose(there, here, atol=NEAR * size):
        return None
    at = int(np.abs(there - here).argmax())
    example = [float(there.reshape(-1)[at]), float(here.reshape(-1)[at])]
    slot, name = key
    if here.std() > 0:
        factor, offset = (float(one) for one in np.polyfit(here.reshape(-1), there.reshape(-1), 1))
        if np.allclose(factor * here + offset, there, atol=NEAR * size):
            return TracedDifference(slot=slot, name=name, change="scale", factor=factor, offset=offset, example=example)
    change: Any = "values"
    if _is_scaled(there.reshape(len(there), -1).T, here.reshape(len(here), -1).T):
        change = "scale of records"
    elif here.ndim == 2 and _is_scaled(there, here):
        change = "scale of columns"
    elif here.ndim == 4 and here.shape[-1] == 3 and np.allclose(here[..., ::-1], there, atol=NEAR * size):
        change = "channels"
    elif (
        here.ndim == 4 and here.shape[1] == here.shape[2] and np.allclose(here.swapaxes(1, 2), there, atol=NEAR * size)
    ):
        change = "axes"
    return TracedDifference(slot=slot, name=name, change=change, example=example)


def _is_scaled(there: NDArray[Any], here: NDArray[Any]) -> bool:
    """Whether each column is the other one, moved and scaled: all of them correlate fully."""
    if len(here) < 4 or not (np.ptp(here, axis=0).all() and np.ptp(there, axis=0).all()):
        return False
    one, other = (array - array.mean(axis=0) for array in (there, here))
    sizes = np.sqrt((one**2).sum(axis=0) * (other**2).sum(axis=0))
    return bool(np.all((one * other).sum(axis=0) > (1 - 1e-6) * sizes))


def _strangers(look: Look, link: Link) -> tuple[float, CodePlace | None]:
    """The share of samples, of those that the script draws, that its pipeline does not make without a shuffle."""
    mixing = [one for one in links.chain_of(look.dataset) if one.name in ("shuffle", "interleave", "list_files")]
    if not mixing or not look.digests or len(look.digests) > MANY_SAMPLES:
        return 0.0, None
    with contextlib.suppress(Exception):
        ordered = Replay(link, known={}, whole=True)
        made = {one for element in links.original_iter(ordered.dataset)
                for one in digests(flat(inputs_and_labels(element)[0]))}  # fmt: skip
        share = sum(one not in made for one in look.digests) / len(look.digests)
        return share, CodePlace(*mixing[0].place)
    return 0.0, None


def _absent(dataset: Any, replay: Replay, rows: list[Row], first: Parts) -> Iterator[AbsentFeature]:
    """The features that a pipeline parses and no record has, and where one would show if the records had it."""
    held = {name for source in replay.sources for name in source.names}
    for name, default, place in _parsed_with_default(dataset):
        if name in held:
            continue
        added = [row | {name: feature_of(default, number)} for number, row in enumerate(rows)]
        with contextlib.suppress(Exception):
            parts = _shown(replay, added, lambda: _draw(replay))
            reached = {key[0] for key, array in first.items() if key not in parts or not _is_same(array, parts[key])}
            text = _text(default.reshape(-1)[0]) if default.dtype.kind in "OSU" else f"{default.reshape(-1)[0]:g}"
            yield AbsentFeature(name=name, default=text, reaches=[s for s in SLOTS if s in reached], place=place)


def _parsed_with_default(dataset: Any) -> Iterator[tuple[str, NDArray[Any], CodePlace | None]]:
    """The features for which a pipeline has a default, by the operations of its functions."""
    import tensorflow as tf

    for link in links.chain_of(dataset):
        graph = links.graph_of(link.dataset)
        for operation in graph.get_operations() if graph is not None else ():
            if operation.type != "ParseExampleV2":
                continue
            keys = tf.get_static_value(operation.inputs[3])  # of features that have one shape
            lines = [CodePlace(f.filename, f.lineno, f.name) for f in operation.traceback if is_user_file(f.filename)]
            for number, key in enumerate(() if keys is None else keys):
                given = operation.inputs[5 + number]
                given = given.op.inputs[0] if given.op.type == "Reshape" else given
                default = tf.get_static_value(given)  # empty for a feature that every record must have
                if default is not None and np.size(default):
                    yield _text(key), np.asarray(default), lines[-1] if lines else None
