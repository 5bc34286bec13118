"""PIP001 to PIP010, PIP016, PIP017 and PIP070 to PIP073: the order of links, and what makes them slow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bushel.checking.findings import Finding, rule
from bushel.checking.script.followed_script import (
    At,
    Edit,
    Script,
    Trace,
    Use,
    appended,
    at,
    matched_files,
    moved,
    place_text,
    removed,
    replaced,
    with_keyword,
)
from bushel.checking.script.known_values import (
    ChainCall,
    Const,
    KnownValue,
    Mapping,
    ScriptDataset,
    Seq,
    Spec,
    Tensor,
    tensors_in,
)


def _names(links: tuple[ChainCall, ...]) -> list[str]:
    return [link.name for link in links]


@rule("PIP001", "shuffle-after-batch", measured_by="PIP001", needs="script", rank=45)
def shuffle_after_batch(trace: Trace) -> Iterator[Finding]:
    """`shuffle` after `batch`: batches change places, their records never do.

    Why: every epoch has the same batches. A textbook had it like that for years.
    Example: `ds.batch(32).shuffle(1000)`
    Fix: `ds.shuffle(1000).batch(32)`
    Ignore: where records were shuffled before the batch too.
    """
    for dataset, i, link in trace.links("shuffle"):
        names = _names(dataset.links[:i])
        if "batch" not in names or "unbatch" in names or "batch" in _names(dataset.links[i + 1 :]):
            continue  # batches that are batched again are windows
        batch = max(j for j, name in enumerate(names) if name == "batch")
        cached = max((j for j, name in enumerate(names[:batch]) if name == "cache"), default=-1)
        if "shuffle" not in names[cached + 1 : batch]:
            other = dataset.links[batch]
            yield at(
                link,
                "batches are shuffled, the records in them are not",
                *moved(link, before=other),
                help="shuffle before batching",
                batch_at=place_text(other),
            )


@rule("PIP002", "repeat-before-shuffle", severity="info", needs="script")
def repeat_before_shuffle(trace: Trace) -> Iterator[Finding]:
    """`repeat` before `shuffle`: epochs blend into each other.

    Why: some records come twice before others have come at all, so an "epoch" is not one.
    Example: `ds.repeat().shuffle(1000)`
    Fix: `ds.shuffle(1000).repeat()`
    Ignore: where the blend is wanted for throughput, and steps are counted instead of epochs.
    """
    for dataset, i, link in trace.links("shuffle"):
        before = [other for other in dataset.links[:i] if other.name == "repeat" and other.number(0, "count") != 1]
        if before:
            edits = moved(link, before=before[0])
            yield at(link, "records of two epochs are mixed", *edits, help="shuffle before repeating")


@rule("PIP003", "shuffle-then-split", needs="script", rank=25)
def shuffle_then_split(trace: Trace) -> Iterator[Finding]:
    """`take` and `skip` after a `shuffle` that gives a new order in every epoch.

    Why: the parts are cut again too: what was validation in one epoch is train in the next, and the score is too good.
    Example: `ds = ds.shuffle(1000); val = ds.take(100); train = ds.skip(100)`
    Fix: `ds.shuffle(1000, reshuffle_each_iteration=False)`, or split before shuffling.
    Ignore: where only one of the two parts is used.
    """
    for dataset in trace.datasets:
        node = dataset.files.node if dataset.files is not None else None
        cut = [link for link in dataset.links[:1] if link.name in ("take", "skip", "files.take", "files.skip")]
        is_listed = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("list_files")
        if cut and is_listed and isinstance(node, ast.Call) and dataset.files is not None:
            said = next((k.value for k in node.keywords if k.arg == "shuffle"), None)
            if said is None and not any(k.arg == "seed" for k in node.keywords) and len(node.args) < 2:
                yield at(At(node, dataset.files.script), "the files come in a new order each time, and are split by it",
                         with_keyword(dataset.files.script, node, "shuffle", "False"), also=cut[0])  # fmt: skip
                break
    yield from _copies_split(trace)
    after: dict[int, tuple[ChainCall, set[str]]] = {}
    for dataset in trace.datasets:
        for i, link in enumerate(dataset.links):
            if link.name == "shuffle" and link.flag("reshuffle_each_iteration") is not False:
                found = after.setdefault(id(link.node), (link, set()))[1]
                found |= {name for name in _names(dataset.links[i + 1 : i + 2]) if name in ("take", "skip")}
    for link, names in after.values():
        if names == {"take", "skip"}:
            yield at(
                link,
                "train and validation are cut from a new order in every epoch",
                with_keyword(link.script, link.node, "reshuffle_each_iteration", "False"),
            )


def _copies_split(trace: Trace) -> Iterator[Finding]:
    """Records that are repeated, and the split after it: copies of one record are on both sides."""
    cut: dict[int, set[str]] = {}
    for dataset in trace.datasets:
        for i, link in enumerate(dataset.links):
            more = [one for one in link.args if isinstance(one, ScriptDataset) and one.has("repeat")]
            is_copied = link.name == "repeat" and (link.number(0, "count") or 0) > 1
            if (link.name == "concatenate" and more) or is_copied:
                found = cut.setdefault(id(link.node), set())
                found |= {other.name for other in dataset.links[i + 1 :] if other.name in ("take", "skip")}
                if found == {"take", "skip"}:
                    yield at(link, "records are repeated before they are split: copies are on both sides",
                             help="split first, and repeat the train part")  # fmt: skip
                    return


@rule("PIP004", "random-map-before-cache", needs="script")
def random_map_before_cache(trace: Trace) -> Iterator[Finding]:
    """`cache` after a random `map`: the augmentation of the first epoch is kept for all others.

    Why: every epoch sees the same pictures; augmentation does nothing.
    Example: `ds.map(augment).cache()`
    Fix: `ds.cache().map(augment)`
    Ignore: where one fixed draw is wanted.
    """
    used = {id(link.node) for _, dataset in trace.used("train") for link in dataset.links}
    for dataset, i, link in trace.links("map"):
        caches = [other for other in dataset.links[i + 1 :] if other.name == "cache"]
        if "random" in link.effects and caches and not (used and id(link.node) not in used):
            yield at(
                caches[0],
                "random values are drawn once and cached",
                *moved(caches[0], before=link),
                help="cache before the random map",
                random_map_at=place_text(link),
            )


@rule("PIP005", "shuffle-before-cache", severity="info", needs="script")
def shuffle_before_cache(trace: Trace) -> Iterator[Finding]:
    """`cache` after `shuffle`, and no shuffle after it: the order of the first epoch is kept.

    Why: every epoch comes in the same order, in the same batches.
    Example: `ds.shuffle(1000).batch(32).cache().repeat()`
    Fix: `ds.cache().shuffle(1000).batch(32).repeat()`
    Ignore: where the same order is wanted.
    """
    for dataset, i, link in trace.links("cache"):
        shuffles = [other for other in dataset.links[:i] if other.name == "shuffle"]
        fixed = all(other.flag("reshuffle_each_iteration") is False for other in shuffles)
        if shuffles and not fixed and "shuffle" not in _names(dataset.links[i + 1 :]):
            edits = moved(link, before=shuffles[0])
            yield at(link, "the shuffled order is cached with the records", *edits, help="cache before shuffling")


@rule("PIP006", "shuffled-prediction", measured_by="PIP006", needs="script", rank=50)
def shuffled_prediction(trace: Trace) -> Iterator[Finding]:
    """`predict` on a dataset that is shuffled, or read in an order that may change.

    Why: predictions come in one order and labels in another: `evaluate` is good, the confusion matrix is random.
    Example: `model.predict(test.shuffle(500))`, compared with labels that were gathered before.
    Fix: no shuffle where predictions are compared with labels; `list_files(..., shuffle=False)`; `deterministic=True`.
    Ignore: where labels come out of the same pass.
    """
    for use, dataset in trace.used("predict"):
        looped = {id(link.node) for event in trace.of("iterated") for link in event.info["dataset"].links}
        for link in dataset.links:
            unordered = link.name in ("map", "interleave") and link.flag("deterministic") is False
            if (link.name == "shuffle" and link.flag("reshuffle_each_iteration") is not False) or unordered:
                fix = removed(link) if not unordered else with_keyword(link.script, link.node, "deterministic", "True")
                message = "predictions come in a different order from the labels"
                yield at(link, message, fix, predicted_at=place_text(use),
                         severity=None if id(link.node) in looped else "info")  # fmt: skip
        files = dataset.files.node if dataset.files else None
        if isinstance(files, ast.Call) and isinstance(files.func, ast.Attribute) and files.func.attr == "list_files":
            said = next((k.value for k in files.keywords if k.arg == "shuffle"), None)
            several = len(matched_files(trace, dataset.files)) > 1 if dataset.files else False
            if said is None and several and dataset.files:
                script = dataset.files.script
                fix = with_keyword(script, files, "shuffle", "False")
                yield at(At(files, script), "list_files shuffles the files, and the predictions with them", fix)


@rule("PIP007", "augmented-validation", measured_by="PIP007", severity="warning", needs="script", rank=50)
def augmented_evaluation(trace: Trace) -> Iterator[Finding]:
    """Random operations in a pipeline that is only evaluated.

    Why: the metric is measured on different pictures each time: it is noisy, and worse than the model.
    Example: one `preprocess` function with `random_flip` for train and validation.
    Fix: two functions, or `if training:` around what is random.
    Ignore: for test-time augmentation that is averaged.
    """
    trained = [dataset for _, dataset in trace.used("train")]
    links = {id(link.node) for dataset in trained for link in dataset.links}
    seen: set[int] = set()
    for use, dataset in trace.used("eval", "predict"):
        if any(dataset is one for one in trained):
            continue  # how well the training data itself is known
        for link in dataset.links:
            if link.name == "map" and "random" in link.effects and id(link.node) not in seen:
                seen.add(id(link.node))
                shared = " (the same call feeds training)" if id(link.node) in links else ""
                is_proven = use.role == "eval" and _is_augmenting(link, dataset)
                yield at(
                    link,
                    f"validation is augmented at random{shared}",
                    help="map a function without random operations here",
                    severity=None if is_proven else "info",
                    evaluated_at=place_text(use),
                )


def _is_augmenting(link: ChainCall, dataset: ScriptDataset) -> bool:
    """Whether pictures are changed, and the changed ones are not what the model is to undo."""
    element = dataset.element
    labels = tensors_in(element.items[1]) if isinstance(element, Seq) and len(element.items) > 1 else []
    is_of_pictures = "augment" in link.effects or {"random", "flip"} <= link.effects
    return is_of_pictures and not any(one.form == "image" for one in labels)


@rule("PIP008", "batched-twice", measured_by="PIP008", needs="script", rank=30)
def batched_twice(trace: Trace) -> Iterator[Finding]:
    """`batch` after `batch`.

    Why: `found shape=(32, None, 224, 224, 3)`: a batch of batches.
    Example: `image_dataset_from_directory(...).batch(32)`, which is batched already.
    Fix: remove one.
    Ignore: where windows of batches are wanted.
    """
    seen: set[int] = set()
    for dataset in trace.datasets:
        link = dataset.links[-1] if dataset.links else None
        if link is None or link.name != "batch" or dataset.batched < 2 or id(link.node) in seen:
            continue
        seen.add(id(link.node))
        first = next((other for other in dataset.links if other.name == "batch"), link)
        is_window = first is not link and first.flag("drop_remainder", 1) is True  # rows of one length, to be batched
        yield at(link, "batches are batched again", removed(link), first_batch_at=place_text(first),
                 severity="info" if is_window else None)  # fmt: skip


@rule("PIP009", "never-batched", needs="script", measured_by="EXE003")
def never_batched(trace: Trace) -> Iterator[Finding]:
    """A dataset that reaches the model without `batch`.

    Why: `expected ndim=4, found ndim=3`, at validation only if it was forgotten there.
    Example: `val = ds.map(parse)`
    Fix: `val = ds.map(parse).batch(32)`
    Ignore: where the records themselves hold batches.
    """
    for use in trace.uses:
        options = use.options()
        if options and all(d.batched == 0 and not d.is_opaque for d in options):
            what = {"train": "training", "eval": "validation", "predict": "prediction"}[use.role]
            yield at(
                use, f"the dataset for {what} is never batched", *after_dataset(use, ".batch(32)"), help="batch it"
            )


def after_dataset(use: Use, link: str) -> list[Edit]:
    """One more call after the dataset that a model is given."""
    if not isinstance(use.node, ast.Call):
        return []
    given = next((k.value for k in use.node.keywords if k.arg == "validation_data"), None)
    if use.role != "eval" or given is None:
        given = use.node.args[0] if use.node.args else None
    return [appended(use.script, given, link)] if given is not None else []


@rule("PIP010", "result-thrown-away", needs="script", rank=20)
def result_thrown_away(trace: Trace) -> Iterator[Finding]:
    """A method of a dataset whose result is not used.

    Why: datasets do not change: `ds.shuffle(n)` alone does nothing. TensorFlow's own Object Detection API had it.
    Example: `ds.shuffle(1000)`
    Fix: `ds = ds.shuffle(1000)`
    Ignore: never.
    """
    for event in trace.of("thrown-away"):
        link = event.info["dataset"].links[-1]
        if link.name in ("take", "skip", "enumerate") and trace.script.cells:
            continue
        if event.info["dataset"].is_opaque and link.name in ("repeat", "cache"):
            continue  # arrays repeat too
        receiver: ast.AST = event.node
        while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
            receiver = receiver.func.value
        kept = f"{event.script.code_of(receiver)} = {event.script.code_of(event.node)}"
        yield at(
            link,
            f"the result of .{link.name}(...) is thrown away",
            *([replaced(event.script, event.node, kept)] if isinstance(receiver, ast.Name | ast.Attribute) else []),
            help="assign it to a name",
        )


@rule("PIP016", "partly-read-cache", severity="warning", needs="script")
def partly_read_cache(trace: Trace) -> Iterator[Finding]:
    """`take` after `cache(file)`: a cache that is not read to its end is thrown away.

    Why: the file is written again in every epoch, and nothing is gained.
    Example: `ds.cache("cache").take(100)`
    Fix: `ds.take(100).cache("cache")`
    Ignore: where another reader reads to the end first.
    """
    used = {id(link.node) for _, dataset in trace.used("train", "eval") for link in dataset.links}
    for dataset, i, link in trace.links("take"):
        caches = [other for other in dataset.links[:i] if other.name == "cache" and (other.args or other.keywords)]
        if caches and (id(link.node) in used or not trace.uses):
            yield at(
                link,
                "the cache is never read to its end, and so never kept",
                *moved(link, before=caches[-1]),
                help="take before caching",
            )


@rule("PIP017", "pairs-shuffled-apart", measured_by="PIP017", needs="script", rank=30)
def pairs_shuffled_apart(trace: Trace) -> Iterator[Finding]:
    """Two datasets that are shuffled separately and then zipped.

    Why: images get the labels of others.
    Example: `tf.data.Dataset.zip((images.shuffle(100), labels.shuffle(100)))`
    Fix: zip first, then shuffle the pairs.
    Ignore: where the two have nothing to do with each other.
    """
    for event in trace.of("zip-of-shuffled"):
        parts = event.info["parts"]
        seeds = [one.get(1, "seed") for part in parts for one in part.links if one.name == "shuffle"]
        if any(isinstance(part.element, Seq | Mapping) for part in parts) or _are_the_same(seeds):
            continue  # whole records are paired, as for mixup; or both sides have one order
        is_known = all(isinstance(part.element, Tensor) for part in parts)
        yield at(event, "each side was shuffled by itself before they were paired", help="zip first, then shuffle",
                 severity=None if is_known else "info")  # fmt: skip


def _are_the_same(seeds: list[KnownValue | None]) -> bool:
    """Whether shuffles are given one seed, which is known."""
    return len({seed.value for seed in seeds if isinstance(seed, Const)}) == 1 and None not in seeds


WORK = {"decode", "decode_raw", "resize", "parse_single", "parse", "random", "layer", "arithmetic"}
DECODING = {"decode", "decode_raw", "resize"}


def _used_links(trace: Trace) -> Iterator[tuple[tuple[ChainCall, ...], int, ChainCall]]:
    seen: set[int] = set()
    used = [dataset for _, dataset in trace.used("train", "eval", "predict")]
    for dataset in used or trace.chains():  # a module that only makes datasets hands them on
        for i, link in enumerate(dataset.links):
            if id(link.node) not in seen:
                seen.add(id(link.node))
                yield dataset.links, i, link


@rule("PIP070", "map-not-parallel", severity="info", needs="script")
def map_not_parallel(trace: Trace) -> Iterator[Finding]:
    """`map` without `num_parallel_calls`.

    Why: one core does all the decoding while the others wait, and so does the model.
    Example: `ds.map(parse)`
    Fix: `ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)`
    Ignore: where the function does next to nothing.
    """
    for _, _, link in _used_links(trace):
        if (
            link.name == "map"
            and "num_parallel_calls" not in link.keywords
            and len(link.args) < 2
            and link.effects & WORK
        ):
            fix = with_keyword(link.script, link.node, "num_parallel_calls", _autotune(link.script))
            yield at(link, "this function runs on one core", fix)


@rule("PIP071", "not-prefetched", severity="info", needs="script")
def not_prefetched(trace: Trace) -> Iterator[Finding]:
    """Training on a dataset without `prefetch`.

    Why: the model waits while a batch is made, and the pipeline waits while it is trained on.
    Example: `ds.batch(32)`
    Fix: `ds.batch(32).prefetch(tf.data.AUTOTUNE)`
    Ignore: where batches cost nothing.
    """
    for use in trace.uses:
        options = [d for d in use.options() if d.links]
        unclear = any(d.is_opaque and d.links[-1].name != "map" for d in options)
        if use.role == "train" and options and not unclear and not any(d.has("prefetch") for d in options):
            edits = after_dataset(use, f".prefetch({_autotune(use.script)})")
            yield at(use, "the dataset for training is not prefetched", *edits, help="prefetch it")


def _autotune(script: Script) -> str:
    return f"{script.imported_as('tensorflow', 'tf')}.data.AUTOTUNE"


@rule("PIP072", "parsed-before-batching", severity="info", needs="script")
def parsed_before_batching(trace: Trace) -> Iterator[Finding]:
    """`parse_single_example` for records of plain numbers.

    Why: a call for each record costs more than the parsing; `parse_example` on a batch is several times faster.
    Example: `ds.map(parse_one).batch(64)`
    Fix: `ds.batch(64).map(parse_many)` with `tf.io.parse_example`
    Ignore: where each record is decoded further, as images are.
    """
    plain = all(
        isinstance(spec, Spec) and spec.dtype in ("float32", "int64") and spec.kind == "FixedLenFeature"
        for event in trace.of("parse")
        for spec in event.info["specs"].items.values()
    )
    for links, i, link in _used_links(trace):
        others = {effect for other in links for effect in other.effects}
        batches = [other for other in links[i + 1 :] if other.name == "batch"]
        is_parsing = link.name == "map" and "parse_single" in link.effects
        if is_parsing and plain and batches and not others & DECODING:
            yield at(
                link,
                "records are parsed one by one before they are batched",
                help="batch first, and parse whole batches with tf.io.parse_example",
            )


@rule("PIP073", "decoded-before-shuffling", severity="info", needs="script")
def decoded_before_shuffling(trace: Trace) -> Iterator[Finding]:
    """Images that are decoded before they are shuffled.

    Why: the buffer holds pixels instead of JPEG, ten times the memory; large buffers end in an out-of-memory kill.
    Example: `ds.map(decode).shuffle(10_000)`
    Fix: `ds.shuffle(10_000).map(decode)`
    Ignore: where the decoded images are cached, or small.
    """
    for links, i, link in _used_links(trace):
        if link.name != "shuffle":
            continue
        cached = max((j for j, other in enumerate(links[:i]) if other.name == "cache"), default=-1)
        before = [other for other in links[cached + 1 : i] if other.effects & (DECODING | {"parse_single"})]
        shuffled = any(other.name == "shuffle" for other in links[:i])
        if before and cached < 0 and not shuffled:
            first = before[0]
            edits = moved(link, before=first)
            yield at(link, "the buffer holds decoded records", *edits, help="shuffle before decoding")
