"""Calls of datasets: the links of a chain, where data comes from, files, and methods of plain values."""

from __future__ import annotations

import glob
import posixpath
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bushel.checking.script.followed_script import Use
from bushel.checking.script.known_values import (
    UNKNOWN,
    Arguments,
    ChainCall,
    Const,
    Files,
    Function,
    Instance,
    KerasObject,
    KnownValue,
    Local,
    Mapping,
    Model,
    Module,
    Scope,
    ScriptDataset,
    ScriptWriter,
    Seq,
    Shape,
    Tensor,
    Text,
    each_tensor,
    sizes_of,
    tensors_in,
    text_of,
)

if TYPE_CHECKING:
    from bushel.checking.script.interpreter import Interpreter

# What gives a dataset again.
LINKS = {
    *("map", "batch", "padded_batch", "ragged_batch", "unbatch", "shuffle", "repeat", "cache", "prefetch", "take"),
    *("skip", "filter", "interleave", "flat_map", "with_options", "enumerate", "apply", "ignore_errors", "shard"),
    *("concatenate", "rebatch", "window", "take_while", "snapshot", "scan", "assert_cardinality", "group_by_window"),
    *("bucket_by_sequence_length", "rejection_resample", "unique", "sparse_batch"),
}
BATCHES = {"batch", "padded_batch", "ragged_batch", "bucket_by_sequence_length"}


@dataclass(frozen=True)
class Call(Arguments):
    """A call that is being followed, and who follows it."""

    reader: Interpreter = None  # type: ignore[assignment]

    @property
    def last(self) -> str:
        """The name without its module."""
        return self.name.rsplit(".", maxsplit=1)[-1]

    def add(self, kind: str, **info: Any) -> None:
        """Note an event here."""
        self.reader.trace.add(kind, self.node, self.script, **info)

    def made(self, name: str | None = None) -> KerasObject:
        """The object that the call makes."""
        return KerasObject(name or self.name, self.node, self.script, self.args, self.keywords)

    def tensor(self, position: int = 0, name: str = "") -> Tensor | None:
        """The tensor that it is given."""
        value = self.get(position, name)
        if value is None and not self.args:
            value = next((v for v in self.keywords.values() if isinstance(v, Tensor)), None)
        return value if isinstance(value, Tensor) else None


def dataset_method(call: Call, dataset: ScriptDataset) -> KnownValue:
    """One more call on a dataset."""
    name, element, effects, batched = call.name, dataset.element, frozenset[str](), dataset.batched
    if name == "as_numpy_iterator":
        return dataset
    if name not in LINKS:
        return UNKNOWN
    files, links, is_opaque = dataset.files, dataset.links, dataset.is_opaque
    if name in ("map", "filter"):
        mapped, effects = _mapped(call, element)
        element = mapped if name == "map" else element
    elif name in ("interleave", "flat_map"):
        inner = _flattened(call, dataset)
        element, files, is_opaque = inner.element, inner.files, inner.is_opaque
        batched = 0 if is_opaque else inner.batched
        kept = [link for link in inner.links if link.name in ("map", "filter", "take", "skip", "shard")]
        links = (*(replace(link, name=f"files.{link.name}") for link in links), *kept)
    elif name in BATCHES:
        batched += 1
        size = call.number(0, "batch_size") if call.flag("drop_remainder", 1) else None
        element = each_tensor(element, lambda one: one.but(shape=_prefixed(size, one.shape)))
    elif name == "unbatch":
        batched = max(0, batched - 1)
        element = each_tensor(element, lambda one: one.but(shape=one.shape[1:] if one.shape else None))
    elif name in ("enumerate", "rejection_resample"):  # a number, or the class, and what was there
        element = Seq([UNKNOWN, element], is_tuple=True)
    elif name == "apply":
        applied = call_function(call, call.get(0, "transformation_func"), [dataset])
        if isinstance(applied, ScriptDataset):
            return applied
        element, is_opaque = UNKNOWN, True
    elif name in ("window", "scan", "group_by_window", "rebatch"):
        element, is_opaque = UNKNOWN, True
    elif name == "concatenate":
        other = call.get(0, "dataset")
        files = _both(files, other.files) if isinstance(other, ScriptDataset) else None
    link = ChainCall(name, call.node, call.script, call.args, call.keywords, effects)
    made = ScriptDataset((*links, link), element, batched, files, is_opaque)
    call.reader.trace.datasets.append(made)
    return made


def _prefixed(size: int | None, shape: Shape | None) -> Shape | None:
    return None if shape is None else (size, *shape)


def _both(one: Files | None, other: Files | None) -> Files | None:
    if one is None or other is None or one.patterns is None or other.patterns is None:
        return None
    patterns = [*one.patterns, *other.patterns]
    return Files(patterns, one.node, one.script, one.is_expanded, one.is_guessed or other.is_guessed)


def _mapped(call: Call, element: KnownValue) -> tuple[KnownValue, frozenset[str]]:
    reader, function = call.reader, call.get(0, "map_func")
    spread = element.items if isinstance(element, Seq) and element.is_tuple else [element]
    reader.effects.append(set())
    reader.mapped += 1
    result = call_function(call, function, spread)
    reader.mapped -= 1
    _watch_pairs(call, result)
    return result, frozenset(reader.effects.pop())


def _watch_pairs(call: Call, result: KnownValue) -> None:
    """An image and its mask or boxes that are not flipped and cropped together."""
    tensors = tensors_in(result)
    if isinstance(result, Seq) and len(result.items) > 1 and not tensors_in(Seq(result.items[1:])):
        return  # two inputs need not go together
    images = [one for one in tensors if one.form == "image" and one.feature is not None]
    boxes = [one for one in tensors if one.form is None and re.search("box|xmin", one.feature or "") and one.shift == 0]
    moved = [one for one in images if one.marks & {"moved", "flipped"}]
    others = [one for one in (*images, *boxes) if one.feature not in {image.feature for image in moved}]
    is_twice = len({one.feature for one in moved if "moved" in one.marks}) > 1
    if moved and (others or is_twice):
        call.add("moved-apart", features=[one.feature for one in (*moved, *others)])


def call_function(call: Call, function: KnownValue | None, args: list[KnownValue]) -> KnownValue:
    """Follow a function that is handed over, whatever it is."""
    if isinstance(function, Function):
        return call.reader.apply(function, args, {})
    if isinstance(function, Module | Instance | KerasObject | Model):
        name = function.name if isinstance(function, Module) else ""
        inner = Call(name, call.node, call.script, tuple(args), {"training": UNKNOWN}, call.reader)
        return call.reader.call(function, inner)
    return UNKNOWN


def _flattened(call: Call, dataset: ScriptDataset) -> ScriptDataset:
    """What a function that makes a dataset of each element gives."""
    element = dataset.element
    spread = element.items if isinstance(element, Seq) and element.is_tuple else [element]
    function = call.get(0, "map_func")
    if isinstance(function, Module) and function.name.endswith("TFRecordDataset") and dataset.files is not None:
        call.reader.trace.add("reads", dataset.files.node, dataset.files.script, files=dataset.files, compression=None)
        return ScriptDataset(
            (), Tensor(form="record", shape=(), files=dataset.files), 0, dataset.files, dataset.is_opaque
        )
    inner = call_function(call, function, spread)
    if isinstance(inner, ScriptDataset):
        is_opaque = inner.is_opaque and dataset.is_opaque
        return ScriptDataset(inner.links, inner.element, inner.batched, dataset.files or inner.files, is_opaque)
    return ScriptDataset((), UNKNOWN, 0, dataset.files, is_opaque=True)


# Where data comes from


def data_call(call: Call) -> KnownValue:
    """A function of tf.data that makes a dataset."""
    last = call.last
    if last == "TFRecordDataset":
        return read_records(call)
    if last == "list_files":
        files = files_of(call, call.get(0, "file_pattern"))
        files.is_expanded = True
        call.add("lists", files=files)
        return ScriptDataset((), Tensor(form="path", shape=(), files=files), 0, files, is_opaque=False)
    if last == "zip":
        given = call.args[0] if call.args else UNKNOWN
        parts = given.items if isinstance(given, Seq) else list(call.args)
        if sum(isinstance(p, ScriptDataset) and p.has("shuffle") for p in parts) > 1:
            call.add("zip-of-shuffled", parts=[part for part in parts if isinstance(part, ScriptDataset)])
        elements = [part.element if isinstance(part, ScriptDataset) else UNKNOWN for part in parts]
        return ScriptDataset((), Seq(elements, is_tuple=True), 0, None, is_opaque=True)
    if last == "from_generator":
        return ScriptDataset((), call.get(-1, "output_signature") or UNKNOWN, 0, None, is_opaque=True)
    if last in ("from_tensor_slices", "from_tensors", "range", "sample_from_datasets"):
        given = call.args[0] if call.args else UNKNOWN
        named = files_of(call, given) if isinstance(given, Files | Seq) else None
        if named is not None and named.patterns:
            return ScriptDataset((), Tensor(form="path", shape=(), files=named), 0, named, is_opaque=True)
        is_pair = last == "from_tensor_slices" and isinstance(given, Seq) and given.is_tuple
        return ScriptDataset(
            (), Seq([UNKNOWN, UNKNOWN], is_tuple=True) if is_pair else UNKNOWN, 0, None, is_opaque=True
        )
    if last in ("TensorSpec", "RaggedTensorSpec"):
        dtype = call.get(1, "dtype")
        return Tensor(dtype=dtype.name.rsplit(".")[-1] if isinstance(dtype, Module) else None,
                      shape=sizes_of(call.get(0, "shape")))  # fmt: skip
    return UNKNOWN


def read_records(call: Call) -> ScriptDataset:
    """A reader of records."""
    given, compression = call.get(0, "filenames"), call.get(1, "compression_type") or Const(None)
    files = given.files if isinstance(given, ScriptDataset | Tensor) else None
    files = files if files is not None else files_of(call, given)
    said = compression.value if isinstance(compression, Const) else "?"
    call.add("reads", files=files, compression=said)
    if files.patterns is None:
        call.reader.trace.note(call.node, call.script, "which files TFRecordDataset reads")
    made = ScriptDataset((), Tensor(form="record", shape=(), files=files), 0, files, is_opaque=False)
    call.reader.trace.datasets.append(made)
    return made


def files_of(call: Call, value: KnownValue | None) -> Files:
    """The files that a value names."""
    node, script = call.node, call.script
    if isinstance(value, Files):
        return value
    if isinstance(value, Const) and isinstance(value.value, str):
        return Files([value.value], node, script, is_expanded=False)
    if isinstance(value, Text):
        has_pattern = any(glob.has_magic(fragment) for fragment in value.fragments if fragment)
        return Files([value.pattern], node, script, is_expanded=not has_pattern, is_guessed=True)
    if not isinstance(value, Seq):
        return Files(None, node, script)
    patterns: list[str] = []
    is_guessed = False
    for item in value.items:
        found = files_of(call, item)
        if found.patterns is None:
            return Files(None, node, script)
        patterns += found.patterns
        is_guessed |= found.is_guessed
    return Files(patterns, node, script, is_expanded=is_guessed, is_guessed=is_guessed)


def glob_files(call: Call) -> Files:
    """Files that a pattern is expanded to."""
    files = files_of(call, call.get(0, "pathname"))
    files = Files(files.patterns, call.node, call.script, is_guessed=files.is_guessed)
    call.add("lists", files=files)
    return files


def join_path(parts: tuple[KnownValue, ...]) -> KnownValue:
    """A path of fragments of which some are known."""
    known = [part.value for part in parts if isinstance(part, Const) and isinstance(part.value, str)]
    if len(known) == len(parts) and known:
        return Const(posixpath.join(*known))
    return text_of(*(fragment for part in parts for fragment in (Const("/"), part))) if known else UNKNOWN


# Methods of other values


def other_method(call: Call, receiver: KnownValue) -> KnownValue:
    """Methods of constants, sequences, files and of what is not known."""
    name, first = call.name, call.args[0] if call.args else UNKNOWN
    if isinstance(receiver, Const) and isinstance(receiver.value, str):
        return _text_method(receiver.value, call)
    if isinstance(receiver, Seq) and name in ("append", "extend") and call.args:
        receiver.items += [first] if name == "append" else first.items if isinstance(first, Seq) else []
        return Const(None)
    if isinstance(receiver, Mapping):
        return _mapping_method(receiver, call)
    if isinstance(receiver, Tensor):
        return receiver if name in ("set_shape", "numpy") else UNKNOWN
    if name == "run" and isinstance(first, Function):  # of a strategy
        given = call.get(1, "args")
        call.reader.replicas += 1
        made = call.reader.apply(first, list(given.items) if isinstance(given, Seq) else [], {})
        call.reader.replicas -= 1
        return made
    watch(call)
    for value in call.args:
        if isinstance(value, ScriptWriter):
            value.escapes = True  # an ExitStack, or whoever has it now, closes it
    if name in ("batch", "prefetch", "cache", "repeat") or (name == "shuffle" and _is_buffered(call)):
        call.reader.trace.note(call.node, call.script, f"where the dataset of .{name}(...) comes from")
        return dataset_method(call, ScriptDataset((), UNKNOWN, 0, None, is_opaque=True))
    if name == "map" and "num_parallel_calls" in call.keywords:
        return dataset_method(call, ScriptDataset((), UNKNOWN, 0, None, is_opaque=True))
    return UNKNOWN


def _mapping_method(receiver: Mapping, call: Call) -> KnownValue:
    key = call.args[0] if call.args else None
    if call.name in ("get", "pop") and isinstance(key, Const):
        default = call.args[1] if len(call.args) > 1 else UNKNOWN
        found = receiver.items.get(key.value, default)
        if call.name == "pop":
            receiver.items = {name: value for name, value in receiver.items.items() if name != key.value}
        return found
    if call.name == "items":
        return Seq([Seq([Const(name), value], is_tuple=True) for name, value in receiver.items.items()])
    if call.name in ("keys", "values"):
        return Seq([Const(k) for k in receiver.items] if call.name == "keys" else list(receiver.items.values()))
    return UNKNOWN


def _is_buffered(call: Call) -> bool:
    """Whether a shuffle is that of a dataset: generators of random numbers shuffle lists in place."""
    is_number = call.number(0, "buffer_size") is not None
    return is_number or bool({"buffer_size", "seed", "reshuffle_each_iteration"} & set(call.keywords))


def watch(call: Call) -> None:
    """Calls that matter whatever they are called on."""
    name, reader = call.name, call.reader
    if name in ("fit_transform", "fit_resample", "fit_sample"):
        call.add(name.replace("fit_sample", "fit_resample"))
    elif name in ("apply_gradients", "minimize") and reader.loops:
        reader.loops[-1].add("step")
    elif name in ("fit_generator", "evaluate_generator", "predict_generator"):
        call.add("removed", name=name)
    elif name in ("fit", "evaluate", "predict") and call.args and isinstance(call.args[0], ScriptDataset):
        role = {"fit": "train", "evaluate": "eval", "predict": "predict"}[name]
        reader.trace.uses.append(Use(role, call.args[0], call.node, call.script, keywords=call.keywords))
        validation = call.keywords.get("validation_data")
        if isinstance(validation, ScriptDataset):
            reader.trace.uses.append(Use("eval", validation, call.node, call.script, keywords=call.keywords))
    elif name == "fit" and "epochs" in call.keywords:
        call.add("not-followed")


def _text_method(text: str, call: Call) -> KnownValue:
    known = [arg.value for arg in call.args if isinstance(arg, Const)]
    named = {key: value.value for key, value in call.keywords.items() if isinstance(value, Const)}
    simple = ("format", "replace", "lower", "upper", "strip", "rstrip", "lstrip", "removesuffix", "removeprefix")
    if len(known) != len(call.args) or len(named) != len(call.keywords) or call.name not in simple:
        return UNKNOWN
    try:
        return Const(getattr(text, call.name)(*known, **named))
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        return UNKNOWN


def add_argument(call: Call, receiver: KerasObject) -> KnownValue:
    """Arguments of the command line: their defaults, under the names that they get."""
    names = [arg.value for arg in call.args if isinstance(arg, Const) and isinstance(arg.value, str)]
    target = call.constant(-1, "dest") or next((n for n in names if n.startswith("--")), names[0] if names else "")
    default = call.keywords.get("default", Const(False if call.constant(-1, "action") == "store_true" else None))
    is_given = not isinstance(default, Const) or default.value is not None
    name = str(target).lstrip("-").replace("-", "_")
    parsed = receiver.keywords.setdefault("parsed", Local(Scope()))
    if isinstance(parsed, Local):
        parsed.scope.names[name] = default if is_given else UNKNOWN
    return UNKNOWN
