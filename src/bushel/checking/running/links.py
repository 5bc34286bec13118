"""Every link of every `tf.data` pipeline, with its arguments, its input and the user's line."""

from __future__ import annotations

import functools
import inspect
import os
import random
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bushel.checking.running.replacements import paths
from bushel.checking.running.user_code import Place, is_user_file, seen, user_place, user_places

LINKS = (
    "apply", "batch", "bucket_by_sequence_length", "cache", "concatenate", "enumerate", "filter", "flat_map",
    "group_by_window", "ignore_errors", "interleave", "map", "padded_batch", "prefetch", "ragged_batch", "rebatch",
    "rejection_resample", "repeat", "scan", "shard", "shuffle", "skip", "snapshot", "sparse_batch", "take",
    "take_while", "unbatch", "unique", "window", "with_options",
)  # fmt: skip
MAKERS = (
    "choose_from_datasets", "counter", "from_generator", "from_tensor_slices", "from_tensors", "list_files", "load",
    "random", "range", "sample_from_datasets", "zip",
)  # fmt: skip
_NUMBERS = {
    "batch": ("batch_size", "drop_remainder"),
    "padded_batch": ("batch_size", "padded_shapes", "padding_values", "drop_remainder"),
    "shuffle": ("buffer_size", "seed", "reshuffle_each_iteration"),
    "repeat": ("count",),
    "take": ("count",),
    "skip": ("count",),
    "shard": ("num_shards", "index"),
    "cache": ("filename",),
    "prefetch": ("buffer_size",),
    "map": ("map_func", "num_parallel_calls"),
    "filter": ("predicate",),
    "list_files": ("file_pattern", "shuffle", "seed"),
    "interleave": ("map_func", "cycle_length", "block_length"),
    "TFRecordDataset": ("filenames", "compression_type", "buffer_size", "num_parallel_reads"),
}
RANDOM = ("RandomUniform", "RandomStandardNormal", "StatelessRandom", "StatefulUniform", "TruncatedNormal",
           "StatefulStandardNormal", "RandomUniformInt", "RandomShuffle", "SampleDistorted", "StatefulRandom",
           "StatelessSample")  # fmt: skip


@dataclass
class Link:
    """One link of a pipeline."""

    id: int
    name: str
    place: Place
    inputs: list[Link]
    arguments: dict[str, Any]
    dataset: Any
    function: Callable[..., Any] | None = None
    files: list[str] = field(default_factory=list)
    uses: list[str] = field(default_factory=list)
    random: str | None = None  # "each time", "always the same"
    wraps: list[Place] = field(default_factory=list)  # lines that subtract from unsigned integers
    callers: list[Place] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """What rules read."""
        return {
            "id": self.id,
            "name": self.name,
            "place": self.place,
            "inputs": [link.id for link in self.inputs],
            "arguments": {name: _short(value) for name, value in self.arguments.items()},
            "function": function_place(self.function),
            "files": [os.path.realpath(name) for name in self.files[:2000]],
            "random": self.random,
            "wraps": self.wraps,
            "callers": self.callers[:6],
            "parts": _parts(self.dataset),
        }


_by_id: dict[int, Link] = {}
_quiet = 0
original_iter: Callable[[Any], Any]
on_iteration: list[Callable[[Any], None]] = []  # asked when the user's code begins to iterate over a dataset
on_iterator: list[Callable[[Any, Any], None]] = []  # given the dataset and the iterator that was made


class quietly:  # noqa: N801
    """What is done inside is done by bushel itself."""

    def __enter__(self) -> None:
        global _quiet
        _quiet += 1

    def __exit__(self, *_: object) -> None:
        global _quiet
        _quiet -= 1


def is_quiet() -> bool:
    """Whether bushel itself is at work."""
    return _quiet > 0


def link_of(dataset: Any) -> Link | None:
    """The link that made a dataset."""
    return _by_id.get(id(dataset))


def chain_of(dataset: Any) -> list[Link]:
    """All links that lead to a dataset, sources first."""
    last = link_of(dataset)
    found: dict[int, Link] = {}

    def walk(link: Link) -> None:
        for before in link.inputs:
            walk(before)
        found[link.id] = link

    if last is not None:
        walk(last)
    return list(found.values())


BATCHING = {"batch", "padded_batch", "ragged_batch", "sparse_batch"}


def is_batched(dataset: Any) -> bool:
    """Whether an element of a dataset is a batch."""
    return any(link.name in BATCHING for link in chain_of(dataset))


def note_use(dataset: Any, use: str) -> None:
    """A dataset is consumed."""
    link = link_of(dataset)
    if link is not None and not is_quiet():
        link.uses.append(use)
        seen.tell_once("use", link=link.id, use=use, place=user_place())


def _short(value: Any) -> Any:
    import numpy as np

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "numpy") and getattr(value, "shape", None) is not None:
        try:
            array = value.numpy()
            return array.item() if array.size == 1 else f"{array.shape}"
        except Exception:
            return None
    if isinstance(value, list | tuple) and len(value) <= 8 and all(isinstance(v, int | float | str) for v in value):
        return list(value)
    return f"<{type(value).__name__}>"


def _parts(dataset: Any) -> int | None:
    """How many parts an element has; 0 for a single tensor."""
    spec = getattr(dataset, "element_spec", None)
    return len(spec) if isinstance(spec, tuple | dict | list) else 0


def function_place(function: Any) -> list[Any] | None:
    """Where the code of a function begins."""
    function = inspect.unwrap(getattr(function, "python_function", None) or function) if function else None
    while isinstance(function, functools.partial):
        function = function.func
    if function is not None and not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return [code.co_filename, code.co_firstlineno, code.co_name] if code is not None else None


def _remember(name: str, dataset: Any, inputs: list[Any], arguments: dict[str, Any], place: Place) -> Link:
    known = [link for link in (link_of(one) for one in inputs) if link is not None]
    function = next((v for v in arguments.values() if callable(v) and not isinstance(v, type)), None)
    link = Link(len(_by_id) + 1, name, place, known, arguments, dataset, function)
    if function is not None:
        link.random, link.wraps = _randomness(dataset), _wrapping(dataset)
    link.callers = user_places()[1:]
    _by_id[id(dataset)] = link
    return link


def remember_source(name: str, dataset: Any, function: Any) -> None:
    """Write down a dataset that is made of batches of the user's own, and the function that makes them."""
    place = user_place()
    if place is not None:
        link = Link(len(_by_id) + 1, name, place, [], {}, dataset, function)
        _by_id[id(dataset)] = link
        seen.tell("link", **link.facts())


def graph_of(dataset: Any) -> Any:
    """The graph of the function that a link calls for each element; None if it has none."""
    return getattr(getattr(getattr(dataset, "_map_func", None), "function", None), "graph", None)


def _randomness(dataset: Any) -> str | None:
    """Whether the function of a link draws random numbers, by the operations of its graph."""
    graph = graph_of(dataset)
    if graph is None:
        return None
    try:
        definition = graph.as_graph_def()
    except Exception:
        return None
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    drawing = [node for node in nodes if node.op.startswith(RANDOM)]
    if not drawing:
        return None
    stateless = [node for node in drawing if node.op.startswith("Stateless")]
    if len(stateless) == len(drawing):
        # Seeds come into the graph from what the records or a counter say, or they are constants of the code.
        fed = {node.name for node in definition.node if node.op == "Const"}
        by_name = {node.name: node for node in definition.node}
        if all(_comes_from_constants(node, by_name, fed) for node in stateless if node.name in by_name):
            return "always the same"
    return "each time"


def _wrapping(dataset: Any) -> list[Place]:
    """Lines that take something off unsigned integers: 3 - 5 is 254 there. Class numbers are only moved by 1."""
    import numpy as np
    import tensorflow as tf

    graph = graph_of(dataset)
    found = []
    for operation in graph.get_operations() if graph is not None else ():
        if operation.type != "Sub" or not operation.outputs[0].dtype.is_unsigned or not operation.outputs[0].shape.rank:
            continue
        first, second = (tf.get_static_value(one) for one in operation.inputs)
        if first is None and (second is None or np.max(second) > LARGEST_SHIFT):
            found += [(f.filename, f.lineno, f.name) for f in operation.traceback if is_user_file(f.filename)][-1:]
    return found


LARGEST_SHIFT = 2


def _comes_from_constants(node: Any, by_name: dict[str, Any], constants: set[str]) -> bool:
    """Whether the seed of a stateless operation is a constant."""
    if len(node.input) < 2:
        return False
    pending, checked = [node.input[1]], 0
    while pending and checked < 50:
        checked += 1
        name = pending.pop().split(":")[0].lstrip("^")
        source = by_name.get(name)
        if source is None or source.op in ("Placeholder", "Arg"):
            return False
        if name not in constants:
            if not source.input:
                return False
            pending.extend(source.input)
    return True


def _bound(name: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = _NUMBERS.get(name)
    if names is None:
        try:
            names = tuple(p for p in inspect.signature(original).parameters if p != "self")
        except (TypeError, ValueError):
            names = ()
    found = dict(zip(names, args, strict=False))
    found.update(kwargs)
    return found


def _wrap_link(owner: Any, name: str) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = None if is_quiet() else user_place()
        if place is None or _is_nested():
            return original(self, *args, **kwargs)
        if name in ("cache", "snapshot"):
            args, kwargs = _elsewhere(args, kwargs)
        with _nested():
            result = original(self, *args, **kwargs)
        if name == "apply" and link_of(result) is not None:
            return result
        arguments = _bound(name, original, args, kwargs)
        inputs = [self, *(v for v in arguments.values() if link_of(v) is not None)]
        if name in ("interleave", "flat_map"):
            inputs += list(_inner_sources)
            _inner_sources.clear()
        link = _remember(name, result, inputs, arguments, place)
        seen.tell("link", **link.facts())
        return result

    setattr(owner, name, make)


_depth = 0
_inner_sources: list[Any] = []


class _nested:  # noqa: N801
    def __enter__(self) -> None:
        global _depth
        _depth += 1

    def __exit__(self, *_: object) -> None:
        global _depth
        _depth -= 1


def _is_nested() -> bool:
    """Inside of another link's making: TensorFlow at work, unless a function of the user's is being traced there."""
    import tensorflow as tf

    return _depth > 0 and not tf.inside_function()


def _elsewhere(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of `cache`, with a file that may be written."""
    if args and isinstance(args[0], str) and args[0]:
        args = (paths.for_writing(args[0]), *args[1:])
    for name in ("filename", "path"):
        if isinstance(kwargs.get(name), str) and kwargs[name]:
            kwargs[name] = paths.for_writing(kwargs[name])
    return args, kwargs


def _wrap_maker(owner: Any, name: str) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        place = None if is_quiet() else user_place()
        if place is None or _is_nested():
            return original(*args, **kwargs)
        arguments = _bound(name, original, args, kwargs)
        files: list[str] = []
        if name in ("list_files", "from_tensor_slices") and args:
            files, replaced = _replaced_files(name, args[0])
            args = (replaced, *args[1:])
        elif name == "list_files" and "file_pattern" in kwargs:
            files, kwargs["file_pattern"] = _replaced_files(name, kwargs["file_pattern"])
        with _nested():
            result = original(*args, **kwargs)
        inputs = [one for value in arguments.values() for one in datasets_in(value)]
        link = _remember(name, result, inputs, arguments, place)
        link.files = files
        seen.tell("link", **link.facts())
        return result

    setattr(owner, name, staticmethod(make))


def datasets_in(value: Any) -> Iterator[Any]:
    """The datasets of the user's making in a structure."""
    if link_of(value) is not None:
        yield value
    elif isinstance(value, dict):
        yield from (found for item in value.values() for found in datasets_in(item))
    elif isinstance(value, list | tuple):
        yield from (found for item in value for found in datasets_in(item))


def _strings(value: Any) -> list[str] | None:
    """A path or several, as strings; None if it is something else."""
    import os

    import numpy as np

    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, bytes):
        return [value.decode(errors="replace")]
    if hasattr(value, "numpy") and getattr(value, "dtype", None) is not None and value.dtype.name == "string":
        try:
            value = value.numpy()
        except (NotImplementedError, AttributeError):  # inside a graph
            return None
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    if isinstance(value, bytes):
        return [value.decode(errors="replace")]
    if isinstance(value, list | tuple) and value and all(isinstance(v, str | bytes | os.PathLike) for v in value):
        return [found for item in value for found in _strings(item) or []]
    return None


def _replaced_files(name: str, value: Any) -> tuple[list[str], Any]:
    """Files, with those of the data in place of those that are not here."""
    from bushel.checking.running.replacements import looks_like_data

    given = _strings(value)
    if given is None:
        return [], value
    if name == "list_files":
        found = [match for pattern in given for match in paths.matches(pattern, sorted(paths.glob(pattern)))]
        return found, (list(dict.fromkeys(found)) or value)
    if not all(looks_like_data(text) for text in given):
        return [], value
    found = list(dict.fromkeys(match for text in given for match in paths.files_for(text)))
    return found, found if found != given else value


def _wrap_reader(kind: Any, name: str) -> None:
    begin = kind.__init__

    @functools.wraps(begin)
    def __init__(self: Any, filenames: Any = None, *args: Any, **kwargs: Any) -> None:
        place = None if is_quiet() else user_place()
        if place is None or filenames is None:
            begin(self, filenames, *args, **kwargs)
            return
        given = _strings(filenames)
        files = [] if given is None else _unique([f for text in given for f in paths.files_for(text)], given)
        with _nested():
            begin(self, files if given is not None else filenames, *args, **kwargs)
        arguments = _bound(name, begin, (filenames, *args), kwargs)
        inputs = [filenames] if link_of(filenames) is not None else []
        link = _remember(name, self, inputs, arguments, place)
        link.files = files
        import tensorflow as tf

        if tf.inside_function():
            _inner_sources.append(self)
        seen.tell("link", given=given[:2000] if given else None, **link.facts())

    kind.__init__ = __init__


def _unique(files: list[str], given: list[str]) -> list[str]:
    """Files once, unless the script itself names one of them twice."""
    return files if len(set(given)) < len(given) else list(dict.fromkeys(files))


def install() -> None:
    """Patch `tf.data`."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    global original_iter
    kind = dataset_ops.DatasetV2
    for name in LINKS:
        _wrap_link(kind, name)
    for name in MAKERS:
        _wrap_maker(kind, name)
    for name in ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset"):
        _wrap_reader(getattr(tf.data, name), name)
    original_iter = kind.__iter__

    def __iter__(self: Any) -> Any:
        if is_quiet() or user_place() is None:
            return original_iter(self)
        for look in on_iteration:
            look(self)
        iterator = original_iter(self)
        for note in on_iterator:
            note(self, iterator)
        return iterator

    kind.__iter__ = __iter__
    reduce = kind.reduce

    @functools.wraps(reduce)
    def reduced(self: Any, *args: Any, **kwargs: Any) -> Any:
        note_use(self, "reduce")
        return reduce(self, *args, **kwargs)

    kind.reduce = reduced
    _watch_python_random(tf, np)
    _watch_writers(tf)


def _watch_python_random(tf: Any, np: Any) -> None:
    """Numbers that Python draws while a function is traced are constants from then on."""

    def watched(original: Any, name: str) -> Any:
        @functools.wraps(original)
        def draw(*args: Any, **kwargs: Any) -> Any:
            if not is_quiet() and tf.inside_function():
                places = user_places()
                if places and _is_direct(places):
                    seen.tell_once("python_random", name=name, place=places[0], outer=places[-1])
            return original(*args, **kwargs)

        return draw

    for owner, prefix in ((random, "random"), (np.random, "np.random")):
        for name in ("random", "uniform", "randint", "choice", "rand", "randn", "normal", "shuffle", "gauss"):
            original = getattr(owner, name, None)
            if original is not None:
                setattr(owner, name, watched(original, f"{prefix}.{name}"))


def _is_direct(places: Iterable[Place]) -> bool:
    """Whether the user's own code draws, not a package that it calls."""
    import sys

    frame = sys._getframe(3)
    name = frame.f_code.co_filename
    return "__autograph_generated_file" in name or any(name == place[0] for place in places) or "autograph" in name


def _watch_writers(tf: Any) -> None:
    kind = tf.io.TFRecordWriter
    begin, write, close, leave = kind.__init__, kind.write, kind.close, kind.__exit__

    def __init__(self: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        place = None if is_quiet() else user_place()
        target = paths.for_writing(path)
        begin(self, target, *args, **kwargs)
        self.__dict__["_bushel"] = {"path": str(path), "place": place, "records": 0}
        if place is not None:
            _open_writers[id(self)] = weakref.ref(self)
            seen.tell("writer", path=str(path), place=place)

    def counted(self: Any, record: Any) -> Any:
        facts = getattr(self, "_bushel", None)
        if facts is not None:
            facts["records"] += 1
            if facts["records"] == 1:
                seen.tell("written", path=facts["path"], place=facts["place"])
        return write(self, record)

    def closed(self: Any) -> Any:
        _open_writers.pop(id(self), None)
        return close(self)

    def __exit__(self: Any, *args: Any) -> Any:
        _open_writers.pop(id(self), None)
        return leave(self, *args)

    kind.__init__, kind.write, kind.close, kind.__exit__ = __init__, counted, closed, __exit__


_open_writers: dict[int, weakref.ref[Any]] = {}


def tell_open_writers() -> None:
    """Write down the writers that nobody has closed; one that is gone has closed its file itself."""
    for writer in [kept() for kept in _open_writers.values()]:
        if writer is not None and writer._bushel["records"]:
            seen.tell("left_open", **writer._bushel)
