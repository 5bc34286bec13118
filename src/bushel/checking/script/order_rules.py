"""PIP001 to PIP019: the order of operations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bushel.checking.findings import Finding
from bushel.checking.order import MIXED, Mixing, encode_labels, measure_mixing, smallest_buffer
from bushel.checking.rules import rule
from bushel.checking.script.matching import matched_files, records_of
from bushel.checking.script.trace import Trace, at_link, at_node, link_location, link_text, wrapped
from bushel.checking.script.values import Const, Dataset, Link, Model

__all__: list[str] = []


def _once(trace: Trace, name: str) -> Iterator[tuple[Dataset, int, Link]]:
    """Each link of a name once, in the longest chain that it is part of."""
    seen: set[int] = set()
    for dataset in trace.chains():
        for i, link in enumerate(dataset.links):
            if link.name == name and id(link.node) not in seen:
                seen.add(id(link.node))
                yield dataset, i, link


def _moved(link: Link, *, before: Link) -> str:
    """The line with a link moved before another, if both stand in it."""
    code, mine, other = link_location(link)[1], link_text(link), link_text(before)
    if mine in code and other in code:
        return code.replace(mine, "", 1).replace(other, mine + other, 1)
    return f"{mine}{other}"


def _names(links: tuple[Link, ...]) -> list[str]:
    return [link.name for link in links]


@rule("PIP001", "shuffle-after-batch", needs="script")
def shuffle_after_batch(trace: Trace) -> Iterator[Finding]:
    """`shuffle` behind `batch`: batches change places, their records never do.

    Why: every epoch has the same batches. A textbook had it like that for years.
    Example: `ds.batch(32).shuffle(1000)`
    Fix: `ds.shuffle(1000).batch(32)`
    Ignore: where records were shuffled before the batch too.
    Reports: https://github.com/d2l-ai/d2l-en/pull/2700 https://github.com/tensorflow/models/pull/2569
    """
    for dataset, i, link in _once(trace, "shuffle"):
        names = _names(dataset.links[:i])
        if "batch" not in names or "unbatch" in names:
            continue
        batch = max(j for j, name in enumerate(names) if name == "batch")
        cached = max((j for j, name in enumerate(names[:batch]) if name == "cache"), default=-1)
        if "shuffle" not in names[cached + 1 : batch]:
            other = dataset.links[batch]
            yield at_link(
                link,
                "batches are shuffled, the records in them are not",
                corrected=f"{link_text(link)}{link_text(other)}",
                replaces=f"{link_text(other)}{link_text(link)}",
                batch_at=str(link_location(other)[0]),
            )


@rule("PIP002", "repeat-before-shuffle", severity="warning", needs="script")
def repeat_before_shuffle(trace: Trace) -> Iterator[Finding]:
    """`repeat` before `shuffle`: epochs blend into each other.

    Why: some records come twice before others have come at all, and an "epoch" is none.
    Example: `ds.repeat().shuffle(1000)`
    Fix: `ds.shuffle(1000).repeat()`
    Ignore: where the blend is wanted for throughput, and steps are counted instead of epochs.
    Reports: https://github.com/tensorflow/models/pull/2706/files
    """
    for dataset, i, link in _once(trace, "shuffle"):
        before = [other for other in dataset.links[:i] if other.name == "repeat" and other.number(0, "count") != 1]
        if before:
            yield at_link(
                link,
                "records of two epochs are mixed",
                corrected=f"{link_text(link)}{link_text(before[-1])}",
                replaces=f"{link_text(before[-1])}{link_text(link)}",
            )


@rule("PIP003", "shuffle-then-split", needs="script")
def shuffle_then_split(trace: Trace) -> Iterator[Finding]:
    """`take` and `skip` behind a `shuffle` that shuffles anew in every epoch.

    Why: the parts are cut anew too: what was validation in one epoch is train in the next, and the score is too good.
    Example: `ds = ds.shuffle(1000); val = ds.take(100); train = ds.skip(100)`
    Fix: `ds.shuffle(1000, reshuffle_each_iteration=False)`, or split before shuffling.
    Ignore: where only one of the two parts is used.
    Reports: https://github.com/tensorflow/tensorflow/issues/59279 https://github.com/tensorflow/tensorflow/pull/62782
    """
    after: dict[int, tuple[Link, set[str]]] = {}
    for dataset in trace.datasets:
        for i, link in enumerate(dataset.links):
            if link.name == "shuffle" and link.flag("reshuffle_each_iteration") is not False:
                found = after.setdefault(id(link.node), (link, set()))[1]
                found |= {name for name in _names(dataset.links[i + 1 : i + 2]) if name in ("take", "skip")}
    for link, names in after.values():
        if names == {"take", "skip"}:
            inner = link_text(link)[:-1]
            yield at_link(
                link,
                "train and validation are cut anew from another order in every epoch",
                corrected=f"{inner}, reshuffle_each_iteration=False)",
            )


@rule("PIP004", "random-map-before-cache", needs="script")
def random_map_before_cache(trace: Trace) -> Iterator[Finding]:
    """`cache` behind a random `map`: the first epoch's augmentation is kept for ever.

    Why: every epoch sees the same pictures; augmentation does nothing.
    Example: `ds.map(augment).cache()`
    Fix: `ds.cache().map(augment)`
    Ignore: where one fixed draw is wanted.
    Reports: https://github.com/tensorflow/tensorflow/issues/47755 https://github.com/tensorflow/docs/pull/1097
    """
    for dataset, i, link in _once(trace, "map"):
        caches = [other for other in dataset.links[i + 1 :] if other.name == "cache"]
        if "random" in link.effects and caches:
            yield at_link(
                caches[0],
                "what is random is drawn once and cached",
                corrected=f".cache(){link_text(link)}",
                replaces=f"{link_text(link)}{link_text(caches[0])}",
                random_map_at=str(link_location(link)[0]),
            )


@rule("PIP005", "shuffle-before-cache", severity="warning", needs="script")
def shuffle_before_cache(trace: Trace) -> Iterator[Finding]:
    """`cache` behind `shuffle`, and no shuffle behind it: the order of the first epoch is kept.

    Why: every epoch comes in the same order, in the same batches.
    Example: `ds.shuffle(1000).batch(32).cache().repeat()`
    Fix: `ds.cache().shuffle(1000).batch(32).repeat()`
    Ignore: where the same order is wanted.
    Reports: https://github.com/sql-machine-learning/sqlflow/issues/2143
    """
    for dataset, i, link in _once(trace, "cache"):
        shuffles = [other for other in dataset.links[:i] if other.name == "shuffle"]
        fixed = all(other.flag("reshuffle_each_iteration") is False for other in shuffles)
        if shuffles and not fixed and "shuffle" not in _names(dataset.links[i + 1 :]):
            yield at_link(
                link,
                "the shuffled order is cached with the records",
                line=_moved(link, before=shuffles[-1]),
            )


@rule("PIP006", "shuffled-prediction", needs="script")
def shuffled_prediction(trace: Trace) -> Iterator[Finding]:
    """`predict` on a dataset that is shuffled, or read in an order that may change.

    Why: predictions come in one order and labels in another: `evaluate` is good, the confusion matrix is random.
    Example: `model.predict(test.shuffle(500))` beside labels that were gathered before.
    Fix: no shuffle where predictions are compared; `list_files(..., shuffle=False)`; `deterministic=True`.
    Ignore: where labels come out of the same pass.
    Reports: https://github.com/ck37/coral-ordinal/issues/6 https://github.com/neuronets/nobrainer/issues/174
    """
    for use, dataset in trace.used("predict"):
        for link in dataset.links:
            unordered = link.name in ("map", "interleave") and link.flag("deterministic") is False
            if (link.name == "shuffle" and link.flag("reshuffle_each_iteration") is not False) or unordered:
                yield at_link(
                    link,
                    "what is predicted comes in an order that the labels do not have",
                    corrected="" if link.name == "shuffle" else link_text(link).replace("=False", "=True"),
                    predicted_at=str(use.source.location(use.node)),
                )
        files = dataset.files.node if dataset.files else None
        if isinstance(files, ast.Call) and isinstance(files.func, ast.Attribute) and files.func.attr == "list_files":
            said = next((k.value for k in files.keywords if k.arg == "shuffle"), None)
            several = len(matched_files(trace, dataset.files)) > 1 if dataset.files else False
            if said is None and several and dataset.files:
                yield at_node(
                    files, dataset.files.source, "list_files shuffles the files, and predictions with them",
                    corrected=f"{dataset.files.source.segment(files)[:-1]}, shuffle=False)",
                )  # fmt: skip


@rule("PIP007", "augmented-evaluation", severity="warning", needs="script")
def augmented_evaluation(trace: Trace) -> Iterator[Finding]:
    """Random operations in a pipeline that is only evaluated.

    Why: the metric is of other pictures each time: noisy, and worse than the model is.
    Example: one `preprocess` function with `random_flip` for train and validation.
    Fix: two functions, or `if training:` around what is random.
    Ignore: for test-time augmentation that is averaged.
    Reports: https://github.com/davidsandberg/facenet/issues/277 https://github.com/Borda/keras-yolo3/issues/3
    """
    trained = {id(link.node) for _, dataset in trace.used("train") for link in dataset.links}
    seen: set[int] = set()
    for use, dataset in trace.used("eval", "predict"):
        for link in dataset.links:
            if link.name == "map" and "random" in link.effects and id(link.node) not in seen:
                seen.add(id(link.node))
                shared = " (the same call feeds training)" if id(link.node) in trained else ""
                yield at_link(
                    link,
                    f"validation is augmented at random{shared}",
                    help=["map a function without random operations here"],
                    evaluated_at=str(use.source.location(use.node)),
                )


@rule("PIP008", "batched-twice", needs="script")
def batched_twice(trace: Trace) -> Iterator[Finding]:
    """`batch` behind `batch`.

    Why: `found shape=(32, None, 224, 224, 3)`: a batch of batches.
    Example: `image_dataset_from_directory(...).batch(32)`, which is batched already.
    Fix: remove one.
    Ignore: where windows of batches are wanted.
    Reports: https://github.com/tensorflow/tensorflow/issues/78621
    """
    seen: set[int] = set()
    for dataset in trace.datasets:
        link = dataset.links[-1] if dataset.links else None
        if link is None or link.name != "batch" or dataset.batched < 2 or id(link.node) in seen:
            continue
        seen.add(id(link.node))
        first = next((other for other in dataset.links if other.name == "batch"), link)
        yield at_link(
            link,
            "batches are batched again",
            corrected="",
            first_batch_at=str(link_location(first)[0]),
        )


@rule("PIP009", "never-batched", needs="script")
def never_batched(trace: Trace) -> Iterator[Finding]:
    """A dataset that reaches the model without `batch`.

    Why: `expected ndim=4, found ndim=3`, at validation only if it was forgotten there.
    Example: `val = ds.map(parse)`
    Fix: `val = ds.map(parse).batch(32)`
    Ignore: where the records themselves hold batches.
    Reports: https://github.com/tensorflow/tensorflow/issues/44250
    """
    for use in trace.uses:
        options = use.options()
        if options and all(d.batched == 0 and not d.is_opaque for d in options):
            what = {"train": "training", "eval": "validation", "predict": "prediction"}[use.role]
            yield at_node(
                use.node,
                use.source,
                f"the dataset for {what} is never batched",
                corrected=wrapped(use, ".batch(32)"),
            )


@rule("PIP010", "result-thrown-away", needs="script")
def result_thrown_away(trace: Trace) -> Iterator[Finding]:
    """A dataset's method whose result nothing takes.

    Why: datasets do not change: `ds.shuffle(n)` alone does nothing. TensorFlow's own Object Detection API had it.
    Example: `ds.shuffle(1000)`
    Fix: `ds = ds.shuffle(1000)`
    Ignore: never.
    Reports: https://github.com/tensorflow/models/issues/4215 https://github.com/tensorflow/tensorflow/issues/22862
    """
    for event in trace.of("thrown-away"):
        link = event.info["dataset"].links[-1]
        if link.name in ("take", "skip", "enumerate") and trace.source.cells:
            continue
        if event.info["dataset"].is_opaque and link.name in ("repeat", "cache"):
            continue  # arrays repeat too
        text = event.source.segment(event.node)
        name = text.split(".")[0]
        yield at_link(link, f"the result of .{link.name}(...) is thrown away", line=f"{name} = {text}")


@rule("PIP011", "batch-of-one", severity="warning", needs="script")
def batch_of_one(trace: Trace) -> Iterator[Finding]:
    """Training on batches of one record.

    Why: BatchNormalization then normalises each sample by itself: 0.88 in training, 0.54 on the same data afterwards.
    Example: `ds.batch(1)`
    Fix: a larger batch, or GroupNormalization.
    Ignore: where samples are huge and the model has no BatchNormalization.
    Reports: https://github.com/keras-team/keras/issues/8837 https://github.com/tensorflow/tensorflow/issues/36446
    """
    for use, dataset in trace.used("train"):
        for link in dataset.links:
            if link.name == "batch" and link.number(0, "batch_size") == 1:
                layers = use.model.layers if isinstance(use.model, Model) else []
                has_norm = any(getattr(layer, "kind", "") == "BatchNormalization" for layer in layers)
                yield at_link(
                    link,
                    "each step sees one record" + (", and the model normalises by batch" if has_norm else ""),
                    severity="error" if has_norm else None,
                    corrected=".batch(32)",
                )


@rule("PIP012", "never-shuffled", severity="warning", needs="script")
def never_shuffled(trace: Trace) -> Iterator[Finding]:
    """Training data that is read in the order of the files, always the same.

    Why: where the files are sorted, each step pulls to one class; where they are not, batches never change.
    Example: `TFRecordDataset(files).map(parse).batch(32)`
    Fix: `.shuffle(n)` before `.batch`, with n as large as the data or as memory allows.
    Ignore: where the records were written in random order and one pass is made.
    Reports: https://github.com/auroua/InsightFace_TF/issues/80 https://github.com/google/flax/pull/1268
    """
    for use in trace.uses:
        options = use.options()
        if use.role != "train" or not options or any(d.is_opaque or d.has("shuffle") for d in options):
            continue
        mixing = _mixing(trace, options[0], 1)
        is_sorted = mixing is not None and mixing.ratio < MIXED
        yield at_node(
            use.node,
            use.source,
            "the data for training is never shuffled" + (", and it is sorted by label" if is_sorted else ""),
            severity="error" if is_sorted else None,
            help=[f"add .shuffle({_safe_buffer(trace) or 10_000}) before .batch(...)"],
            measured=f"{mixing.classes:.2f} classes a batch, expected {mixing.expected:.2f}" if mixing else None,
        )


def _mixing(trace: Trace, dataset: Dataset, buffer: int) -> Mixing | None:
    if trace.data is None or trace.data.train is None or trace.data.label is None or dataset.has("interleave"):
        return None
    codes, classes = encode_labels(trace.data.train.labels)
    batches = [link.number(0, "batch_size") for link in dataset.links if link.name == "batch"]
    batch = next((size for size in batches if size), None) or 32
    if classes < 2 or len(codes) < 4 * batch or classes * 2 > len(codes):
        return None
    return measure_mixing(codes, classes, buffer=buffer, batch=batch)


def _safe_buffer(trace: Trace) -> int | None:
    if trace.data is None or trace.data.train is None or trace.data.label is None:
        return None
    codes, classes = encode_labels(trace.data.train.labels)
    return smallest_buffer(codes, classes, batch=32) if classes > 1 else None


@rule("PIP013", "buffer-too-small", needs="script")
def buffer_too_small(trace: Trace) -> Iterator[Finding]:
    """A shuffle buffer that cannot mix this data, by simulation on its labels; and a buffer of 1, which mixes nothing.

    Why: a buffer of n mixes over n records. Where a class runs longer than that, batches hold one class.
    Example: `shuffle(1000)` over 50,000 records that are sorted by label.
    Fix: the buffer that is named, or records written in random order: `bushel build data/ out/`.
    Ignore: where records are in random order already.
    Reports: https://github.com/auroua/InsightFace_TF/issues/80 https://github.com/tensorflow/tensorflow/issues/61238
    """
    seen: set[int] = set()
    for _, _, link in _once(trace, "shuffle"):
        if link.number(0, "buffer_size") in (0, 1):
            seen.add(id(link.node))
            usual = _safe_buffer(trace) or 10_000
            yield at_link(
                link, "a buffer of 1 leaves the order as it is", corrected=f".shuffle({usual})", clean_from=usual
            )
    for _, dataset in trace.used("train"):
        shuffles = [link for link in dataset.links if link.name == "shuffle"]
        sizes = [link.number(0, "buffer_size") for link in shuffles]
        if not shuffles or None in sizes or id(shuffles[-1].node) in seen:
            continue
        largest = max(size for size in sizes if size is not None)
        link = shuffles[sizes.index(largest)]
        mixing = _mixing(trace, dataset, largest)
        if mixing is not None and mixing.ratio < MIXED and id(link.node) not in seen:
            seen.add(id(link.node))
            safe = _safe_buffer(trace)
            yield at_link(
                link,
                f"a buffer of {largest:,} cannot mix this data: {mixing.classes:.1f} classes a batch",
                severity="error" if mixing.ratio < 0.6 else "warning",
                corrected=f".shuffle({safe})",
                measured=round(mixing.classes, 2),
                expected=round(mixing.expected, 2),
                clean_from=safe,
            )


@rule("PIP014", "fewer-records-than-a-batch", needs="script")
def fewer_records_than_a_batch(trace: Trace) -> Iterator[Finding]:
    """`drop_remainder=True` with a batch that is larger than the data.

    Why: no batch is ever full, so there is none: `Expect x to be a non-empty array or dataset`.
    Example: 200 records and `batch(256, drop_remainder=True)`
    Fix: a smaller batch, or no `drop_remainder`.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/48708 https://github.com/keras-team/keras/issues/16202
    """
    for _, dataset in trace.used("train", "eval"):
        records = records_of(trace, dataset.files)
        for link in dataset.links:
            size = link.number(0, "batch_size")
            drops = link.flag("drop_remainder") or (len(link.args) > 1 and link.args[1] == Const(True))
            endless = any(other.name == "repeat" for other in dataset.links)
            if link.name == "batch" and drops and size and records and size > records and not endless:
                yield at_link(
                    link,
                    f"{records:,} records never fill a batch of {size:,}, and the rest is dropped",
                    corrected=f".batch({min(32, records)})",
                    measured=records,
                    expected=f"at least {size:,}",
                )


@rule("PIP015", "partial-validation", severity="warning", needs="script")
def partial_validation(trace: Trace) -> Iterator[Finding]:
    """`validation_steps` that cover a part of the validation data.

    Why: each epoch is scored on the same first part, or on another part each time, and the two cannot be compared.
    Example: `model.fit(train, validation_data=val, validation_steps=1)`
    Fix: leave `validation_steps` out: a finite dataset is read to its end.
    Ignore: where a full pass is too expensive, and the part is a random one.
    Reports: https://github.com/tensorflow/tensorflow/issues/25254 https://github.com/tensorflow/tensorflow/issues/59039
    """
    for use, dataset in trace.used("eval"):
        steps = use.keywords.get("validation_steps")
        if not isinstance(steps, Const) or not isinstance(steps.value, int):
            continue
        records = records_of(trace, dataset.files)
        sizes = [link.number(0, "batch_size") for link in dataset.links if link.name == "batch"]
        seen = steps.value * sizes[-1] if sizes and sizes[-1] else None
        if seen is not None and records and seen >= records:
            continue
        keyword = next((k for k in getattr(use.node, "keywords", []) if k.arg == "validation_steps"), None)
        known = f"{seen:,} of {records:,} records" if seen is not None and records else f"{steps.value} batches"
        yield at_node(
            keyword.value if keyword is not None else use.node,
            use.source,
            f"validation reads {known}",
            confidence="proven" if seen is not None and records else "likely",
            line=re.sub(r",?\s*validation_steps=\w+", "", use.source.line(keyword.value.lineno)) if keyword else None,
        )


@rule("PIP016", "partly-read-cache", severity="warning", needs="script")
def partly_read_cache(trace: Trace) -> Iterator[Finding]:
    """`take` behind `cache(file)`: a cache that is not read to its end is thrown away.

    Why: the file is written anew in every epoch, and nothing is gained.
    Example: `ds.cache("cache").take(100)`
    Fix: `ds.take(100).cache("cache")`
    Ignore: where another reader goes through to the end first.
    Reports: https://github.com/tensorflow/tensorflow/issues/50952 https://github.com/tensorflow/tensorflow/issues/45609
    """
    for dataset, i, link in _once(trace, "take"):
        caches = [other for other in dataset.links[:i] if other.name == "cache" and (other.args or other.keywords)]
        if caches:
            yield at_link(
                link,
                "the cache is never read to its end, and so never kept",
                line=_moved(link, before=caches[-1]),
            )


@rule("PIP017", "pairs-shuffled-apart", needs="script")
def pairs_shuffled_apart(trace: Trace) -> Iterator[Finding]:
    """Two datasets that are shuffled each by itself and then zipped.

    Why: images get the labels of others.
    Example: `tf.data.Dataset.zip((images.shuffle(100), labels.shuffle(100)))`
    Fix: zip first, then shuffle the pairs.
    Ignore: where the two have nothing to do with each other.
    Reports: https://github.com/tensorflow/tensorflow/issues/12851 https://github.com/tensorflow/tensorflow/issues/41334
    """
    for event in trace.of("zip-of-shuffled"):
        yield at_node(
            event.node,
            event.source,
            "pairs are put together after each side was shuffled by itself",
            help=["zip first, and shuffle the pairs"],
        )
