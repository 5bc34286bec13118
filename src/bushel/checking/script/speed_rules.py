"""PIP070 to PIP079: what makes a pipeline slow."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.script.fixes import at, moved, with_keyword
from bushel.checking.script.known_values import Link, Spec
from bushel.checking.script.link_order_rules import after_dataset
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Trace

WORK = {"decode", "decode_raw", "resize", "parse_single", "parse", "random", "layer", "arithmetic"}
DECODING = {"decode", "decode_raw", "resize"}


def _used_links(trace: Trace) -> Iterator[tuple[tuple[Link, ...], int, Link]]:
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
    Reports: https://github.com/tensorflow/tensorflow/issues/61238
    """
    for _, _, link in _used_links(trace):
        if (
            link.name == "map"
            and "num_parallel_calls" not in link.keywords
            and len(link.args) < 2
            and link.effects & WORK
        ):
            fix = with_keyword(link.source, link.node, "num_parallel_calls", _autotune(link.source))
            yield at(link, "this function runs on one core", fix)


@rule("PIP071", "not-prefetched", severity="info", needs="script")
def not_prefetched(trace: Trace) -> Iterator[Finding]:
    """Training on a dataset without `prefetch`.

    Why: the model waits while a batch is made, and the pipeline waits while it is trained on.
    Example: `ds.batch(32)`
    Fix: `ds.batch(32).prefetch(tf.data.AUTOTUNE)`
    Ignore: where batches cost nothing.
    Reports: https://github.com/tensorflow/tensorflow/issues/61238
    """
    for use in trace.uses:
        options = [d for d in use.options() if d.links]
        unclear = any(d.is_opaque and d.links[-1].name != "map" for d in options)
        if use.role == "train" and options and not unclear and not any(d.has("prefetch") for d in options):
            edits = after_dataset(use, f".prefetch({_autotune(use.source)})")
            yield at(use, "the dataset for training is not prefetched", *edits, help="prefetch it")


def _autotune(source: Source) -> str:
    return f"{source.imported_as('tensorflow', 'tf')}.data.AUTOTUNE"


@rule("PIP072", "parsed-before-batching", severity="info", needs="script")
def parsed_before_batching(trace: Trace) -> Iterator[Finding]:
    """`parse_single_example` for records of plain numbers.

    Why: a call for each record costs more than the parsing; `parse_example` on a batch is several times faster.
    Example: `ds.map(parse_one).batch(64)`
    Fix: `ds.batch(64).map(parse_many)` with `tf.io.parse_example`
    Ignore: where each record is decoded further, as images are.
    Reports: https://github.com/tensorflow/tensorflow/issues/61238
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
    Reports: https://github.com/tensorflow/tensorflow/issues/32376 https://github.com/tensorflow/tensor2tensor/issues/1210
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
