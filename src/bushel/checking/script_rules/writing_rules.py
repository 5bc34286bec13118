"""PIP060 to PIP066: code that writes records."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from bushel.checking.findings import Finding, rule
from bushel.checking.script.followed_script import Edit, Event, Script, Trace, appended, at, replaced
from bushel.checking.script.known_values import Function, ScriptWriter

_ENCODER = re.compile(r"Label|Encoder|Binarizer|Tokenizer")  # which give names numbers, and learn nothing else


@rule("PIP060", "writer-never-closed", measured_by="PIP060", needs="script", rank=20)
def writer_never_closed(trace: Trace) -> Iterator[Finding]:
    """A `TFRecordWriter` that nothing closes.

    Why: what is still buffered is lost: `truncated record` hours into training, or a shard of 0 bytes.
    Example: `writer = tf.io.TFRecordWriter(path)` and no `writer.close()`
    Fix: `with tf.io.TFRecordWriter(path) as writer:`
    Ignore: never.
    """
    seen: set[tuple[int, int]] = set()
    closed = {(w.node.lineno, w.node.col_offset) for w in trace.writers if w.is_closed or w.escapes}  # type: ignore[attr-defined]
    for writer in trace.writers:
        place = (writer.node.lineno, writer.node.col_offset)  # type: ignore[attr-defined]
        fix = _closed(writer)
        is_kept = not fix and ".close(" in writer.script.text  # in a list or a dict, and closed when it is taken out
        if place not in seen and place not in closed and not is_kept:
            seen.add(place)
            yield at(writer, "the writer is never closed", *fix, help="open it in a with block")


def _closed(writer: ScriptWriter) -> list[Edit]:
    """The block in which the writer got its name, with a `close()` after the last statement that uses it."""
    for block in ast.walk(writer.script.tree):
        for name in ("body", "orelse", "finalbody"):
            statements: Any = getattr(block, name, None)
            for made in statements if isinstance(statements, list) else ():
                if isinstance(made, ast.Assign) and made.value is writer.node and isinstance(made.targets[0], ast.Name):
                    using = [s for s in statements if _names_in(s) & {made.targets[0].id}]
                    line = f"\n{' ' * made.col_offset}{made.targets[0].id}.close()"
                    start = writer.script.span(using[-1])[0]
                    return [Edit(writer.script, start, start), appended(writer.script, using[-1], line)]
    return []


def _names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@rule("PIP061", "copy-shuffled", needs="script")
def copy_shuffled(trace: Trace) -> Iterator[Finding]:
    """`random.shuffle` of a list that is made for it and thrown away.

    Why: the real list stays sorted, and so do the shards: ImageNet "simply doesn't work".
    Example: `random.shuffle(list(range(n)))`
    Fix: give the list a name, shuffle it, and use it.
    Ignore: never.
    """
    for event in trace.of("copy-shuffled"):
        argument = event.node.args[0]  # type: ignore[attr-defined]
        inner = argument.args[0] if isinstance(argument, ast.Call) and argument.args else None
        text = f"order = {event.script.code_of(argument)}; random.shuffle(order)"
        if isinstance(inner, ast.Name):
            text = f"random.shuffle({inner.id})"
        fix = replaced(event.script, event.node, text)
        yield at(event, "a copy is shuffled and thrown away", fix)


@rule("PIP062", "classes-in-any-order", needs="script")
def classes_in_any_order(trace: Trace) -> Iterator[Finding]:
    """Class numbers taken from a set or from `os.listdir`, whose order is not the same everywhere.

    Why: each run, split or machine numbers the classes differently: validation near 0 with a model that is right.
    Example: `{name: i for i, name in enumerate(set(names))}`
    Fix: `enumerate(sorted(set(names)))`, once, and keep it.
    Ignore: never.
    """
    for event in trace.of("any-order"):
        what = {"builtins.set()": "a set"}.get(event.info["of"], event.info["of"])
        inner = event.script.code_of(event.node.args[0])  # type: ignore[attr-defined]
        yield at(
            event,
            f"classes are numbered in the order of {what}",
            replaced(event.script, event.node.args[0], f"sorted({inner})"),  # type: ignore[attr-defined]
        )


@rule("PIP063", "all-results-in-memory", severity="warning", needs="script")
def all_results_in_memory(trace: Trace) -> Iterator[Finding]:
    """`pool.map` of a function that returns the records to write.

    Why: the list of all results is held before the first is written: the process is killed for memory.
    Example: `examples = pool.map(load_image, paths)`
    Fix: `pool.imap`, or let each worker write a shard of its own; `bushel build` does.
    Ignore: where all results together are small.
    """
    for event in trace.of("pool-map"):
        function = event.info["function"]
        if not trace.writers or not isinstance(function, Function) or _writes(function):
            continue
        returns = [n for n in ast.walk(function.node) if isinstance(n, ast.Return) and n.value is not None]
        if returns or isinstance(function.node, ast.Lambda):
            call = event.node.func if isinstance(event.node, ast.Call) else None
            one_by_one = (
                [replaced(event.script, call, f"{event.script.code_of(call.value)}.imap")]
                if isinstance(call, ast.Attribute) and call.attr == "map"
                else []
            )
            yield at(
                event,
                "all results are held in memory before the first is written",
                *one_by_one,
                help="take results one by one with imap",
            )


def _writes(function: Function) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "TFRecordWriter" for n in ast.walk(function.node))


@rule("PIP064", "fitted-before-split", needs="script")
def fitted_before_split(trace: Trace) -> Iterator[Finding]:
    """`fit_transform` or oversampling on all data, and the split after it.

    Why: test data takes part in the fit, and copies of one sample are on both sides: the score is too good.
    Example: `x = vectorizer.fit_transform(texts); train, test = train_test_split(x)`
    Fix: split first; fit and balance the train part, and only `transform` the rest.
    Ignore: for label encoders.
    """
    splits = list(trace.of("split"))
    for event in [*trace.of("fit_transform"), *trace.of("fit_resample"), *trace.of("oversampled"), *_scalings(trace)]:
        names = _assigned(event.script, event.node)
        receiver = _with_makers(event)
        for split in splits:
            is_later = split.node.lineno > event.node.lineno  # type: ignore[attr-defined]
            if names & _names_in(split.node) and is_later and not _ENCODER.search(receiver):
                what = "balanced" if event.kind in ("fit_resample", "oversampled") else "fitted"
                yield at(
                    event,
                    f"data is {what} before it is split",
                    help="call train_test_split first, and fit on its train part only",
                    split_at=str(split.script.location(split.node)),
                )
                break


def _with_makers(event: Event) -> str:
    """The text of a call, and what the names in it are assigned."""
    names = _names_in(event.node)
    made = [
        ast.unparse(node.value)
        for node in ast.walk(event.script.tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names
    ]
    return " ".join([event.script.code_of(event.node), *made])


def _scalings(trace: Trace) -> Iterator[Event]:
    """Statements that scale a whole array by its own mean or deviation: `x = (x - x.mean()) / x.std()`."""
    for script in trace.scripts:
        for node in ast.walk(script.tree):
            text = ast.unparse(node.value) if isinstance(node, ast.Assign) else ""
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = re.escape(node.targets[0].id)
                is_scaled = re.search(rf"\b(\w+) - \1\.mean\(|/ (\w+)\.std\(|\b{name} - {name}\.mean\(", text)
                if is_scaled:
                    yield Event("scaled", node.value, script)


def _assigned(script: Script, call: ast.AST) -> set[str]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and call in ast.walk(node.value):
            return {name for target in node.targets for name in _names_in(target)}
    return set()


@rule("PIP066", "records-overwritten", severity="warning", needs="script", rank=20)
def records_overwritten(trace: Trace) -> Iterator[Finding]:
    """A file of records that is opened again in each iteration of a loop, or written while a model is trained.

    Why: opening a file for writing empties it: only the records of the last iteration are left.
    Example: `for image in images: with tf.io.TFRecordWriter("train.tfrecord") as writer: ...`
    Fix: open the writer once, before the loop; write a dataset before training.
    Ignore: where each file is read before the next one is written.
    """
    for event in trace.of("writer-in-loop"):
        happened = set().union(*event.info["loops"])
        path = event.info["path"]
        if happened & {"step", "epoch"}:
            yield at(event, "records are written inside the training loop", help="write them before training")
        elif isinstance(path, ast.Constant):
            yield at(event, f"every iteration of the loop overwrites {path.value!r}", severity="error",
                     help="open the writer once, before the loop")  # fmt: skip
