"""Methods of datasets, files and plain values."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING

from bushel.checking.script.known_values import (
    UNKNOWN,
    Const,
    Dataset,
    Files,
    Function,
    Instance,
    Layer,
    Link,
    Mapping,
    Model,
    Module,
    Seq,
    Tensor,
    Value,
    Writer,
    text_of,
)
from bushel.checking.script.trace import Use

if TYPE_CHECKING:
    from bushel.checking.script.interpreter import Interpreter

__all__ = ["dataset_method", "other_method"]

# What gives a dataset again.
LINKS = {
    *("map", "batch", "padded_batch", "ragged_batch", "unbatch", "shuffle", "repeat", "cache", "prefetch", "take"),
    *("skip", "filter", "interleave", "flat_map", "with_options", "enumerate", "apply", "ignore_errors", "shard"),
    *("concatenate", "rebatch", "window", "take_while", "snapshot", "scan", "assert_cardinality", "group_by_window"),
    *("bucket_by_sequence_length", "rejection_resample", "unique", "sparse_batch"),
}
BATCHES = {"batch", "padded_batch", "ragged_batch", "bucket_by_sequence_length"}


def dataset_method(
    run: Interpreter, dataset: Dataset, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """One more call on a dataset."""
    if name not in LINKS:
        return UNKNOWN
    element, effects, batched = dataset.element, frozenset[str](), dataset.batched
    files, links, is_opaque = dataset.files, dataset.links, dataset.is_opaque
    if name in ("map", "filter"):
        element, effects = _mapped(run, dataset, node, args, keywords)
    elif name in ("interleave", "flat_map"):
        element, files, is_opaque = _flattened(run, dataset, node, args, keywords)
        links = tuple(Link(f"files.{link.name}", link.node, link.source) for link in links)
    elif name in BATCHES:
        batched += 1
    elif name == "unbatch":
        batched = max(0, batched - 1)
    elif name == "enumerate":
        element = Seq([UNKNOWN, element], is_tuple=True)
    elif name in ("apply", "window", "scan", "group_by_window", "rebatch"):
        element, is_opaque = UNKNOWN, True
    link = Link(name, node, run.source, tuple(args), keywords, effects)
    made = Dataset((*links, link), element, batched, files, is_opaque)
    run.trace.datasets.append(made)
    return made


def _mapped(
    run: Interpreter, dataset: Dataset, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> tuple[Value, frozenset[str]]:
    function = keywords.get("map_func", args[0] if args else UNKNOWN)
    element = dataset.element
    spread = element.items if isinstance(element, Seq) and element.is_tuple else [element]
    run.effects.append(set())
    run.mapped += 1
    result = call_function(run, function, spread, node)
    run.mapped -= 1
    effects = frozenset(run.effects.pop())
    is_filter = isinstance(node.func, ast.Attribute) and node.func.attr == "filter"
    return (element if is_filter else result), effects


def call_function(run: Interpreter, function: Value, args: list[Value], node: ast.Call) -> Value:
    """Follow a function that is handed over, whatever it is."""
    if isinstance(function, Function):
        return run.apply(function, args, {})
    if isinstance(function, Module | Instance | Layer | Model):
        return run.call(function, node, args, {"training": UNKNOWN})
    return UNKNOWN


def _flattened(
    run: Interpreter, dataset: Dataset, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> tuple[Value, Files | None, bool]:
    function = keywords.get("map_func", args[0] if args else UNKNOWN)
    if isinstance(function, Module) and function.name == "tensorflow.data.TFRecordDataset":
        if dataset.files is not None:
            run.trace.add("reads", dataset.files.node, dataset.files.source, files=dataset.files, compression=None)
        return Tensor(form="record"), dataset.files, dataset.is_opaque
    spread = dataset.element.items if isinstance(dataset.element, Seq) else [dataset.element]
    inner = call_function(run, function, spread, node)
    if isinstance(inner, Dataset):
        return inner.element, dataset.files or inner.files, dataset.is_opaque and inner.is_opaque
    return UNKNOWN, dataset.files, True


def other_method(
    run: Interpreter, receiver: Value, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """Methods of constants, sequences, files and of what is not known."""
    if isinstance(receiver, Const) and isinstance(receiver.value, str):
        return _text_method(receiver.value, name, args, keywords)
    if isinstance(receiver, Seq) and name in ("append", "extend") and args:
        receiver.items += [args[0]] if name == "append" else args[0].items if isinstance(args[0], Seq) else []
        return Const(None)
    if isinstance(receiver, Mapping) and name in ("get", "pop") and args and isinstance(args[0], Const):
        return receiver.items.get(args[0].value, args[1] if len(args) > 1 else UNKNOWN)
    if isinstance(receiver, Mapping) and name in ("values", "items", "keys"):
        if name == "items":
            return Seq([Seq([Const(key), value], is_tuple=True) for key, value in receiver.items.items()])
        return Seq([Const(k) for k in receiver.items] if name == "keys" else list(receiver.items.values()))
    if isinstance(receiver, Tensor):
        return receiver if name in ("set_shape", "numpy") else UNKNOWN
    watch(run, name, node, args)
    for value in args:
        if isinstance(value, Writer):
            value.escapes = True  # an ExitStack, or whoever has it now, closes it
    if name in ("batch", "prefetch", "cache", "repeat") or (name == "shuffle" and _is_buffered(args, keywords)):
        opaque = Dataset((), UNKNOWN, 0, None, is_opaque=True)
        run.trace.note(node, run.source, f"where the dataset of .{name}(...) comes from")
        return dataset_method(run, opaque, name, node, args, keywords)
    if name == "map" and "num_parallel_calls" in keywords:
        return dataset_method(run, Dataset((), UNKNOWN, 0, None, is_opaque=True), name, node, args, keywords)
    return UNKNOWN


def _is_buffered(args: list[Value], keywords: dict[str, Value]) -> bool:
    """Whether a shuffle is that of a dataset: generators of random numbers shuffle lists in place."""
    is_number = bool(args) and isinstance(args[0], Const) and isinstance(args[0].value, int)
    return is_number or bool({"buffer_size", "seed", "reshuffle_each_iteration"} & set(keywords))


def watch(run: Interpreter, name: str, node: ast.Call, args: list[Value]) -> None:
    """Calls that matter whatever they are called on."""
    add = run.trace.add
    if name in ("fit_transform", "fit_resample", "fit_sample"):
        add(name.replace("fit_sample", "fit_resample"), node, run.source, order=len(run.trace.events))
    elif name == "toarray":
        add("toarray", node, run.source)
    elif name == "apply_gradients" and run.loops:
        run.loops[-1].add("step")
    elif name in ("fit_generator", "evaluate_generator", "predict_generator"):
        add("removed", node, run.source, name=name)
    elif name in ("fit", "evaluate", "predict") and args and isinstance(args[0], Dataset):
        role = {"fit": "train", "evaluate": "eval", "predict": "predict"}[name]
        run.trace.uses.append(Use(role, args[0], node, run.source))


def _text_method(text: str, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    known = [arg.value for arg in args if isinstance(arg, Const)]
    named = {key: value.value for key, value in keywords.items() if isinstance(value, Const)}
    if len(known) != len(args) or len(named) != len(keywords):
        return UNKNOWN
    simple = ("format", "replace", "lower", "upper", "strip", "rstrip", "lstrip", "removesuffix", "removeprefix")
    if name in simple:
        try:
            return Const(getattr(text, name)(*known, **named))
        except (TypeError, ValueError, IndexError, KeyError, AttributeError):
            return UNKNOWN
    return UNKNOWN


def join_path(parts: list[Value]) -> Value:
    """A path of pieces of which some are known."""
    known = [part.value for part in parts if isinstance(part, Const) and isinstance(part.value, str)]
    if len(known) == len(parts) and known:
        return Const(posixpath.join(*known))
    return text_of(*(piece for part in parts for piece in (Const("/"), part))) if known else UNKNOWN
