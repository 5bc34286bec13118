"""PIP001 to PIP010, PIP016 and PIP017: the order of operations."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.script.matching import matched_files
from bushel.checking.script.trace import Trace, at_link, at_node, link_location, link_text, wrapped
from bushel.checking.script.values import Link

__all__: list[str] = []


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
    for dataset, i, link in trace.links("shuffle"):
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
    for dataset, i, link in trace.links("shuffle"):
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
    for dataset, i, link in trace.links("map"):
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
    for dataset, i, link in trace.links("cache"):
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


@rule("PIP016", "partly-read-cache", severity="warning", needs="script")
def partly_read_cache(trace: Trace) -> Iterator[Finding]:
    """`take` behind `cache(file)`: a cache that is not read to its end is thrown away.

    Why: the file is written anew in every epoch, and nothing is gained.
    Example: `ds.cache("cache").take(100)`
    Fix: `ds.take(100).cache("cache")`
    Ignore: where another reader goes through to the end first.
    Reports: https://github.com/tensorflow/tensorflow/issues/50952 https://github.com/tensorflow/tensorflow/issues/45609
    """
    for dataset, i, link in trace.links("take"):
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
