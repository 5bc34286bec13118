"""PIP011 to PIP015, PIP018 and PIP019: sizes of batches, buffers and steps, against what the data holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bushel.checking.findings import Finding, rule
from bushel.checking.rules.split_rules import MIXED, Mixing, measure_mixing, smallest_buffer
from bushel.checking.script.followed_script import (
    At,
    Trace,
    at,
    inserted_before,
    known_of,
    matched_files,
    records_of,
    with_argument,
    without_keyword,
)
from bushel.checking.script.known_values import ChainCall, Const, ScriptDataset, layers_of

# Links after which there are as many records as before.
ONE_TO_ONE = ("map", "shuffle", "batch", "padded_batch", "cache", "prefetch", "with_options", "enumerate")
FEW = 8  # records in a batch
ONE_SIDED = 0.6  # of the classes that a batch in random order would hold


@rule("PIP011", "batch-of-one", severity="warning", needs="script")
def batch_of_one(trace: Trace) -> Iterator[Finding]:
    """Training on batches of one record.

    Why: BatchNormalization then normalises each sample by itself: 0.88 in training, 0.54 on the same data afterwards.
    Example: `ds.batch(1)`
    Fix: a larger batch, or GroupNormalization.
    Ignore: where samples are huge and the model has no BatchNormalization.
    """
    for use, dataset in trace.used("train"):
        for link in dataset.links:
            if link.name == "batch" and link.number(0, "batch_size") == 1:
                has_norm = any(layer.kind == "BatchNormalization" for layer in layers_of(use.model))
                yield at(
                    link,
                    "each step sees one record" + (", and the model normalises by batch" if has_norm else ""),
                    with_argument(link.script, link.node, 0, "batch_size", "32"),
                    severity="error" if has_norm else "info",
                )


def batches_of(trace: Trace, dataset: ScriptDataset) -> int | None:
    """How many batches a dataset has, if its records and links say so."""
    records = records_of(trace, dataset.files)
    sizes = [link.number(0, "batch_size") for link in dataset.links if link.name in ("batch", "padded_batch")]
    if records is None or len(sizes) != 1 or not sizes[0] or dataset.is_opaque:
        return None
    if any(link.name not in ONE_TO_ONE for link in dataset.links):
        return None
    drops = any(link.flag("drop_remainder", 1) for link in dataset.links if link.name in ("batch", "padded_batch"))
    return records // sizes[0] if drops else -(-records // sizes[0])


@rule("PIP018", "validation-in-training", needs="script", rank=25)
def validation_is_training(trace: Trace) -> Iterator[Finding]:
    """Validation data that is read from the files that are trained on.

    Why: validation measures what was memorised: it looks good while the model learns nothing that generalises.
    Example: `validation_data=train_ds`; the pattern of train for both
    Fix: give validation records of its own.
    Ignore: where the data is only there for a quick try.
    """
    seen: set[int] = set()
    for use, held in trace.used("eval"):
        for other, train in trace.used("train"):
            if other.model is not use.model or id(held) in seen or other.node is not use.node:
                continue
            if held is not train and (_is_split(train, held) or not _same_files(trace, train, held)):
                continue
            seen.add(id(held))
            call = use.node if isinstance(use.node, ast.Call) else None
            given = next((k.value for k in call.keywords if k.arg == "validation_data"), None) if call else None
            files = At(held.files.node, held.files.script) if held.files is not None and held is not train else None
            parts = [link for link in (*held.links, *train.links) if link.name in ("take", "skip")]
            where = At(given, use.script) if given is not None else use
            help = "use separate files for it, or split with take and skip"
            yield at(where, "validation reads what is trained on", help=help, also=parts[0] if parts else files)


def _is_split(train: ScriptDataset, held: ScriptDataset) -> bool:
    """Whether links keep two readers of the same files apart: where one of the two reads all, nothing does."""
    apart = ("take", "skip", "shard", "filter", "take_while", "window", "flat_map")
    return train.has(*apart) and held.has(*apart)


def _same_files(trace: Trace, one: ScriptDataset, other: ScriptDataset) -> bool:
    files = [dataset.files for dataset in (one, other)]
    known = [file for file in files if file is not None and file.patterns and not file.is_guessed]
    if len(known) < 2:
        return False
    found = [{str(file.path) for file in matched_files(trace, one)} for one in known]
    return bool(set(known[0].patterns or ()) & set(known[1].patterns or ())) or bool(found[0] & found[1])


@rule("PIP019", "steps-do-not-fit", needs="script", rank=2)
def steps_do_not_fit(trace: Trace) -> Iterator[Finding]:
    """An endless dataset without a number of steps, or more steps than the data has batches.

    Why: the first epoch never ends; or training stops early, with "your input ran out of data".
    Example: `fit(ds.repeat())` without `steps_per_epoch`; `steps_per_epoch=len(records)` of batches
    Fix: leave `steps_per_epoch` out for data that ends, and give it for data that repeats.
    Ignore: never.
    """
    seen: set[tuple[int, str]] = set()
    for use, dataset in trace.used("train", "eval", "predict"):
        is_held_out = use.role == "eval" and "validation_data" in use.keywords
        name = "steps_per_epoch" if use.role == "train" else "validation_steps" if is_held_out else "steps"
        given, place = use.keywords.get(name), (id(use.node), use.role)
        if place in seen or not isinstance(use.node, ast.Call):
            continue
        endless = _endless(dataset)
        if endless is not None and (given is None or given == Const(None)):
            seen.add(place)
            yield at(endless, f"the dataset repeats forever, but the model is given no {name}", also=use,
                     help=f"drop repeat(), or give {name}")  # fmt: skip
        batches, epochs = batches_of(trace, dataset), use.keywords.get("epochs", Const(1))
        if use.role != "train" or not isinstance(given, Const) or not isinstance(epochs, Const) or batches is None:
            continue
        asked = given.value * epochs.value if isinstance(given.value, int) and isinstance(epochs.value, int) else 0
        if asked > batches:
            keyword = next((k.value for k in use.node.keywords if k.arg == name), use.node)
            yield at(At(keyword, use.script), f"{asked:,} steps are asked for, but the data has {batches:,} batches",
                     help=f"leave {name} out, or repeat the dataset", known=known_of(dataset.files),
                     severity="error" if given.value > batches else "warning")  # fmt: skip


def _endless(dataset: ScriptDataset) -> ChainCall | None:
    """The link that repeats forever, if nothing ends it afterwards."""
    found = None
    for link in dataset.links:
        if link.name == "repeat" and (link.get(0, "count") in (None, Const(None), Const(-1))):
            found = link
        elif link.name in ("take", "take_while", "apply"):
            found = None
    return found


@rule("PIP012", "never-shuffled", severity="warning", needs="script")
def never_shuffled(trace: Trace) -> Iterator[Finding]:
    """Training data that is read in the order of the files, always the same.

    Why: where the files are sorted, each step pulls to one class; where they are not, batches never change.
    Example: `TFRecordDataset(files).map(parse).batch(32)`
    Fix: `.shuffle(n)` before `.batch`, with n as large as the data or as memory allows.
    Ignore: where the records were written in random order and one pass is made.
    """
    for use in trace.uses:
        options = use.options()
        if use.role != "train" or not options or any(d.is_opaque or d.has("shuffle") for d in options):
            continue
        mixing = _mixing(trace, options[0], 1)
        keeps_state = any(layer.flag("stateful") for layer in layers_of(use.model))  # from one record to the next
        is_sorted = mixing is not None and mixing.ratio < MIXED and not keeps_state
        buffer = _safe_buffer(trace) or 10_000
        batch = next((link for link in options[0].links if link.name == "batch"), None)
        here = batch is not None and batch.script is use.script
        yield at(
            use,
            "the data for training is never shuffled" + (", and it is sorted by label" if is_sorted else ""),
            *([inserted_before(batch, f".shuffle({buffer})")] if batch is not None and here else []),
            severity="error" if is_sorted else "info",  # files may have been written in random order
            help=f"add .shuffle({buffer}) before .batch(...)",
            measured=f"{mixing.classes:.2f} classes per batch, expected {mixing.expected:.2f}" if mixing else None,
        )


def _mixing(trace: Trace, dataset: ScriptDataset, buffer: int) -> Mixing | None:
    """How the classes of the data mix, where the records reach the buffer as the files hold them."""
    if trace.data is None or trace.data.train is None or trace.data.label is None or not _is_in_order(trace, dataset):
        return None
    codes, values = trace.data.train.coded_labels
    classes = len(values)
    batches = [link.number(0, "batch_size") for link in dataset.links if link.name == "batch"]
    batch = next((size for size in batches if size), None) or 32
    batch = batch if batch >= FEW else 32  # of a few records, those that come after one another count
    if classes < 2 or len(codes) < 4 * batch or classes * 2 > len(codes):
        return None
    return measure_mixing(codes, classes, buffer=buffer, batch=batch)


def _is_in_order(trace: Trace, dataset: ScriptDataset) -> bool:
    """Whether a dataset reads all of train, and nothing but a buffer changes its order."""
    files = dataset.files
    plain = ("map", "shuffle", "batch", "padded_batch", "repeat", "cache", "prefetch", "with_options", "ignore_errors")
    if files is None or files.is_guessed or any(link.name not in plain for link in dataset.links):
        return False
    text = files.script.code_of(files.node)
    mixed = any("num_parallel_reads" in one.text for one in trace.scripts) or "list_files" in text
    matched = matched_files(trace, files)
    data = trace.data
    train = [file for file in data.files if file.split == data.train.name] if data is not None and data.train else []
    return {file.number for file in matched} == {file.number for file in train} and (not mixed or len(matched) == 1)


def _safe_buffer(trace: Trace) -> int | None:
    if trace.data is None or trace.data.train is None or trace.data.label is None:
        return None
    codes, values = trace.data.train.coded_labels
    classes = len(values)
    return smallest_buffer(codes, classes, batch=32) if classes > 1 else None


@rule("PIP013", "buffer-too-small", needs="script", measured_by="EXE020")
def buffer_too_small(trace: Trace) -> Iterator[Finding]:
    """A shuffle buffer that cannot mix this data, by simulation on its labels; and a buffer of 1, which mixes nothing.

    Why: a buffer of n mixes over n records. Where a class runs longer than that, batches hold one class.
    Example: `shuffle(1000)` over 50,000 records that are sorted by label.
    Fix: the buffer that is named, or records written in random order: `bushel build data/ out/`.
    Ignore: where records are in random order already.
    """
    seen: set[int] = set()
    for _, _, link in trace.links("shuffle"):
        if link.number(0, "buffer_size") in (0, 1):
            seen.add(id(link.node))
            usual = _safe_buffer(trace) or 10_000
            fix = with_argument(link.script, link.node, 0, "buffer_size", str(usual))
            yield at(link, "a buffer of 1 leaves the order as it is", fix, clean_from=usual)
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
            yield at(
                link,
                f"a buffer of {largest:,} cannot mix this data: {mixing.classes:.1f} classes per batch",
                with_argument(link.script, link.node, 0, "buffer_size", str(safe)),
                severity="error" if mixing.ratio < ONE_SIDED else "info",  # a little less mixed harms nobody
                measured=round(mixing.classes, 2),
                expected=round(mixing.expected, 2),
                clean_from=safe,
            )


@rule("PIP014", "fewer-records-than-a-batch", needs="script", measured_by="EXE010")
def fewer_records_than_a_batch(trace: Trace) -> Iterator[Finding]:
    """`drop_remainder=True` with a batch that is larger than the data.

    Why: no batch is ever full, so there is none: `Expect x to be a non-empty array or dataset`.
    Example: 200 records and `batch(256, drop_remainder=True)`
    Fix: a smaller batch, or no `drop_remainder`.
    Ignore: never.
    """
    for _, dataset in trace.used("train", "eval"):
        records = records_of(trace, dataset.files)
        for link in dataset.links:
            size = link.number(0, "batch_size")
            drops = link.flag("drop_remainder", 1)
            endless = any(other.name == "repeat" for other in dataset.links)
            if link.name == "batch" and drops and size and records and size > records and not endless:
                yield at(
                    link,
                    f"{records:,} records never fill a batch of {size:,}, and what does not fill one is dropped",
                    with_argument(link.script, link.node, 0, "batch_size", str(min(32, records))),
                    known=known_of(dataset.files),
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
        known = f"{seen:,} of {records:,} records" if seen is not None and records else f"{steps.value} batches"
        call = use.node if isinstance(use.node, ast.Call) else None
        keyword = next((k for k in call.keywords if k.arg == "validation_steps"), None) if call is not None else None
        yield at(
            At(keyword.value, use.script) if keyword is not None else use,
            f"validation reads {known}",
            *(without_keyword(use.script, call, "validation_steps") if call is not None else []),
            known=known_of(dataset.files) if seen is not None and records else None,
            severity=None if seen is not None and records and seen < 0.5 * records else "info",
            help="leave validation_steps out",
        )
