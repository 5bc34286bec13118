"""Functions of TensorFlow and others, by name: what they give for what is known of their arguments."""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Callable
from typing import Any

from bushel.checking.script import keras_calls
from bushel.checking.script.dataset_calls import Call, add_argument, data_call, glob_files, join_path
from bushel.checking.script.followed_script import facts_of
from bushel.checking.script.known_values import (
    UNKNOWN,
    Const,
    Files,
    Function,
    KerasObject,
    KnownValue,
    Local,
    Mapping,
    Module,
    Scope,
    ScriptWriter,
    Seq,
    Shape,
    Spec,
    Tensor,
    Text,
    reshaped,
    sizes_of,
    tensors_in,
)
from bushel.errors import FileProblem
from bushel.storage import read_named

_SPECS = ("FixedLenFeature", "VarLenFeature", "RaggedFeature", "FixedLenSequenceFeature", "SparseFeature")
_RANDOM = re.compile(
    r"(^|\.)(random_|stateless_random_|sample_distorted)|\.random\.(uniform|normal|truncated_normal|shuffle)$"
)
_PYTHON_RANDOM = re.compile(
    r"^(random|numpy\.random)\.(random|uniform|randint|choice|rand|randn|normal|gauss|shuffle)$"
)
_KEEPS = ("ensure_shape", "identity", "clip_by_value", "flip_left_right", "flip_up_down", "per_image_standardization")
_FLAT = ("argmax", "argmin", "round", "floor", "ceil", "sign", "equal", "greater", "less", "stop_gradient")
_RECOLOURING = re.compile(r"random_(flip|brightness|contrast|hue|saturation|jpeg)")  # shapes stay
_MOVING = ("random_flip_left_right", "random_flip_up_down", "random_crop")
_LOSSES = {
    "sparse_softmax_cross_entropy_with_logits": "SparseCategoricalCrossentropy",
    "softmax_cross_entropy_with_logits": "CategoricalCrossentropy",
    "sigmoid_cross_entropy_with_logits": "BinaryCrossentropy",
}
_FOLDED: dict[str, Callable[..., Any]] = {
    **{f"builtins.{f.__name__}": f for f in (int, float, round, max, min, abs)},
    **{f"{module}.{f.__name__}": f for module in ("math", "numpy") for f in (math.ceil, math.floor)},
}
ITEM = {"uint8": 1, "int8": 1, "bool": 1, "int16": 2, "uint16": 2, "float16": 2, "int32": 4, "uint32": 4, "float32": 4}
ITEM |= {"int64": 8, "uint64": 8, "float64": 8, "double": 8}
FLOATS = ("float16", "float32", "float64", "bfloat16")


def canonical(name: str) -> str:
    """One name for what is imported under several."""
    name = re.sub(r"^tensorflow\.(compat\.v[12]\.|python\.)?", "tensorflow.", name)
    name = re.sub(r"^tensorflow\.keras\b", "keras", name)
    name = re.sub(r"^(keras)\.(src|api|_tf_keras\.keras)\b", r"\1", name)
    return re.sub(r"^tensorflow\.(python_io|io)\.TFRecordWriter", "tensorflow.io.TFRecordWriter", name)


def call_by_name(call: Call) -> KnownValue:
    """The result of a call to something in a module."""
    name, last = call.name, call.last
    if name.startswith("keras.") or (name.startswith("tensorflow.") and last == "Sequential"):
        return keras_calls.make(call)
    if name.startswith("tensorflow.data.") or last in ("TensorSpec", "RaggedTensorSpec"):
        return data_call(call)
    if last in _SPECS:
        return _spec(call)
    if last in ("parse_single_example", "parse_example"):
        return _parse(call)
    if last in ("parse_sequence_example", "parse_single_sequence_example"):
        return _parse_sequence(call)
    if name.startswith("tensorflow."):
        return _tensor_call(call)
    return _python_call(call)


# Parsing


def dtype_of(value: KnownValue | None) -> str | None:
    """A dtype by its name."""
    if isinstance(value, Module):
        last = value.name.rsplit(".", maxsplit=1)[-1]
        return {"double": "float64", "str": "string", "float": "float32", "int": "int32"}.get(last, last)
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def _spec(call: Call) -> Spec:
    kind = call.last
    is_fixed = kind in ("FixedLenFeature", "FixedLenSequenceFeature")
    shape = sizes_of(call.get(0, "shape")) if is_fixed else None
    known = tuple(size for size in shape if size is not None) if shape is not None and None not in shape else None
    default = call.get(2 if kind == "FixedLenFeature" else -1, "default_value")
    has_default = default is not None and not (isinstance(default, Const) and default.value is None)
    has_default |= bool(call.flag("allow_missing", 2) if kind == "FixedLenSequenceFeature" else False)
    return Spec(kind, known, dtype_of(call.get(1 if is_fixed else 0, "dtype")), has_default, call.node, call.script)


def _parse(call: Call) -> KnownValue:
    is_single, record = "single" in call.last, call.tensor(0, "serialized")
    call.reader.effects[-1].add("parse_single" if is_single else "parse")
    specs = call.get(1, "features")
    prefix = record.shape if record is not None and record.form == "record" else None
    if is_single and prefix:
        call.add("single-of-batch")
    return _parsed(call, specs, prefix, call.node, record)


def _parse_sequence(call: Call) -> KnownValue:
    call.reader.effects[-1].add("parse_single" if "single" in call.last else "parse")
    parts: list[KnownValue] = []
    for position, name in ((1, "context_features"), (2, "sequence_features")):
        specs = call.get(position, name)
        if specs is None or (isinstance(specs, Const) and specs.value is None):
            parts.append(Mapping({}))
            continue
        if isinstance(specs, Mapping):
            for spec in specs.items.values():
                if isinstance(spec, Spec):
                    spec.is_context = position == 1
        node, prefix = call.value_node(position, name), () if position == 1 else (None,)
        parts.append(_parsed(call, specs, prefix, node, call.tensor(0, "serialized")))
    return Seq(parts, is_tuple=True)


def _parsed(
    call: Call, specs: KnownValue | None, prefix: Shape | None, node: ast.AST, record: Tensor | None
) -> KnownValue:
    """The tensors of a parsed record, whose batch has this shape."""
    if not isinstance(specs, Mapping):
        call.reader.trace.note(call.node, call.script, f"the feature description of {call.last}")
        return _as_written(call, record)
    files = record.files if record is not None else None
    call.reader.trace.add("parse", node, call.script, specs=specs, files=files, key=id(files))
    parsed: dict[Any, KnownValue] = {}
    for name, spec in specs.items.items():
        if not isinstance(spec, Spec):
            parsed[name] = UNKNOWN
            continue
        is_dense = spec.kind == "FixedLenFeature" or (spec.is_context is False and spec.kind.startswith("FixedLen"))
        shape = (*prefix, *spec.shape) if is_dense and prefix is not None and spec.shape is not None else None
        form = "sparse" if spec.kind == "VarLenFeature" else None
        parsed[name] = Tensor(str(name), spec.dtype, shape, form, made_by=spec.node, files=files)
    return Mapping(parsed)


def _as_written(call: Call, record: Tensor | None) -> KnownValue:
    """A record whose description is not known: under the names that the data has, with nothing known of them."""
    data, files = call.reader.trace.data, record.files if record is not None else None
    if data is None:
        return UNKNOWN
    return Mapping({name: Tensor(name, made_by=call.node, files=files) for name in data.features}, is_whole=False)


# Tensors


def _tensor_call(call: Call) -> KnownValue:
    last, name = call.last, call.name
    first = next((a for a in (*call.args, *call.keywords.values()) if isinstance(a, Tensor)), None)
    if last.startswith("decode_") and last not in ("decode_csv", "decode_base64", "decode_json_example"):
        return _decode(call)
    if last in _LOSSES and call.get(0, "labels") is not None:
        loss = KerasObject(f"keras.losses.{_LOSSES[last]}", call.node, call.script, (), {"from_logits": Const(True)})
        return keras_calls.loss_call(call, loss, call.get(0, "labels"), call.get(1, "logits"))
    if last == "TFRecordWriter":
        return _writer(call)
    if last == "glob":
        return glob_files(call)
    if last == "GradientTape":
        return call.made()
    if last == "function":
        return call.args[0] if call.args and isinstance(call.args[0], Function) else UNKNOWN
    if _RANDOM.search(name):
        call.reader.effects[-1] |= {"random", "augment"} if ".image." in name else {"random"}
        return _random(call, first)
    if last in ("stack", "concat"):
        if any("symbolic" in one.marks for arg in call.args[:1] for one in tensors_in(arg)):
            call.add("tf-on-keras", name=name.replace("tensorflow", "tf"))
        return _stacked(call)
    if first is None:
        return UNKNOWN
    if "symbolic" in first.marks:
        call.add("tf-on-keras", name=name.replace("tensorflow", "tf"))
    if last in _TENSORS:
        return _TENSORS[last](call, first)
    if last in _FLAT:
        axis = call.get(1, "axis")
        if last == "argmax" and first.layers and axis in (None, Const(0)) and len(first.shape or ()) == 2:
            call.add("argmax-of-records")
        if first.layers and call.reader.tapes:
            call.add("no-derivative", name=f"tf.{last}")
        return first.marked(f"tf.{last}").but(made_by=call.node, shape=None)
    if last == "softmax" and call.number(1, "axis") not in (None, -1):
        call.add("softmax-axis", shape=first.shape, axis=call.number(1, "axis"))
    if last in ("softmax", "sigmoid", "relu", "tanh", "log_softmax") and first.layers:
        return keras_calls.activated(call, first, last)
    if last in ("divide", "truediv", "multiply", "subtract", "add") and len(call.args) > 1:
        operators: dict[str, ast.operator] = {"add": ast.Add(), "multiply": ast.Mult(), "subtract": ast.Sub()}
        return arithmetic(call, operators.get(last, ast.Div()), call.args[0], call.args[1])
    if last in _KEEPS:
        cleared = first.marks
        if last.startswith("flip_"):
            call.reader.effects[-1].add("flip")
            call.add("moved")
            cleared = cleared | {"flipped"}
        return first.but(marks=cleared, span=None if last.startswith("per_") else first.span)
    if last == "reduce_mean" and first.layers and call.reader.replicas:
        return first.marked("mean of a replica").but(shape=None, span=None, made_by=call.node)
    is_loss = first.layers and (last.startswith("reduce_") or last in ("square", "abs", "exp", "log", "sqrt"))
    return first.but(shape=None if last.startswith("reduce_") else first.shape, span=None) if is_loss else UNKNOWN


def _random(call: Call, first: Tensor | None) -> KnownValue:
    if first is None:
        return Tensor()
    marks = ["moved"] if call.last in _MOVING else []
    for mark in marks:
        call.add(mark)
    is_crop = call.last.endswith("random_crop")
    shape = sizes_of(call.get(1, "size")) if is_crop else first.shape if _RECOLOURING.search(call.last) else None
    return first.marked(*marks).but(made_by=call.node, shape=shape)


def _decode(call: Call) -> KnownValue:
    last, tensor = call.last, call.tensor()
    call.reader.effects[-1].add("decode" if last != "decode_raw" else "decode_raw")
    feature = tensor.feature if tensor is not None else None
    facts = facts_of(call.reader.trace, tensor)
    files = tensor.files if tensor is not None else None
    if last == "decode_raw":
        dtype = dtype_of(call.get(1, "out_type"))
        call.add("decode-raw", feature=feature, dtype=dtype, facts=facts, key=facts is None)
        size, item = facts.size if facts is not None else None, ITEM.get(dtype or "")
        count = size // item if size is not None and item and size % item == 0 else None
        prefix = tensor.shape if tensor is not None and tensor.shape is not None else ()
        form, span = ("image", "0..255") if dtype == "uint8" else (None, None)
        return Tensor(feature, dtype, (*prefix, count), form, span, made_by=call.node, files=files)
    call.add("decode-image", feature=feature, function=last, facts=facts, key=facts is None)
    pixel = dtype_of(call.get(-1, "dtype")) or "uint8"
    channels = call.number(1, "channels") or None
    is_shapeless = last == "decode_image" and call.flag("expand_animations") is not False
    shape = None if is_shapeless else (None, None, channels)
    span = {"uint8": "0..255", "float32": "0..1"}.get(pixel)
    marks = frozenset({"no shape"} if is_shapeless else ())
    return Tensor(feature, pixel, shape, "image", span, marks=marks, made_by=call.node, files=files)


def _reshape(call: Call, tensor: Tensor) -> KnownValue:
    wanted = sizes_of(call.get(1, "shape"))
    if wanted is None:
        return tensor.but(shape=None)
    shape, is_right = reshaped(tensor.shape, wanted)
    if tensor.feature is not None:
        call.add("reshape", tensor=tensor, shape=wanted, fits=is_right)
    return tensor.but(shape=shape)


def _set_shape(call: Call, tensor: Tensor) -> KnownValue:
    return tensor.but(shape=sizes_of(call.get(1, "shape")) or tensor.shape, marks=tensor.marks - {"no shape"})


def _cast(call: Call, tensor: Tensor) -> KnownValue:
    dtype = dtype_of(call.get(1, "dtype"))
    if dtype == "float64" and tensor.form == "image":
        call.add("float64")
    is_whole = (dtype or "").startswith(("int", "uint"))
    if call.last == "cast":
        if is_whole and tensor.span in ("0..1", "-1..1") and tensor.dtype in FLOATS and tensor.form == "image":
            call.add("rounded-to-nothing", span=tensor.span)
        is_cut = is_whole and bool(tensor.layers) and call.reader.tapes > 0
        if is_cut:
            call.add("no-derivative", name="tf.cast")
        marked = tensor.marked("tf.cast") if is_cut else tensor
        return marked.but(dtype=dtype, made_by=call.node)
    if tensor.dtype in FLOATS and tensor.span == "0..255":
        call.add("no-op-conversion", made_by=tensor.made_by)
        return tensor.but(dtype=dtype, made_by=call.node)
    span = "0..1" if tensor.span == "0..255" and dtype in FLOATS else tensor.span
    return tensor.but(dtype=dtype, span=span, made_by=call.node)


def _resize(call: Call, tensor: Tensor) -> KnownValue:
    call.reader.effects[-1].add("resize")
    if "no shape" in tensor.marks:
        call.add("resize-without-shape", made_by=tensor.made_by)
    is_crop = call.last == "resize_with_crop_or_pad"
    sizes = sizes_of(call.get(1, "size")) if call.last in ("resize", "resize_images") else None
    sizes = sizes or (call.number(1, "target_height"), call.number(2, "target_width"))
    shape = (*tensor.shape[:-3], *sizes, tensor.shape[-1]) if tensor.shape is not None and len(sizes) == 2 else None
    method = call.get(2, "method")
    kind = method.value if isinstance(method, Const) else getattr(method, "name", "bilinear") if method else "bilinear"
    is_nearest = is_crop or "nearest" in str(kind).lower()
    if not is_nearest:
        call.add("blended", feature=tensor.feature)
    made = tensor if is_nearest else tensor.marked("blended")
    return made.but(dtype=tensor.dtype if is_nearest else "float32", shape=shape, made_by=call.node)


def _one_hot(call: Call, tensor: Tensor) -> KnownValue:
    depth = call.number(1, "depth")
    shape = (*tensor.shape, depth) if tensor.shape is not None else None
    return Tensor(tensor.feature, "float32", shape, "one_hot", depth=depth, shift=tensor.shift, made_by=call.node)


def _expand(call: Call, tensor: Tensor) -> KnownValue:
    axis, shape = call.number(1, "axis"), tensor.shape
    if shape is None or axis is None or not -len(shape) - 1 <= axis <= len(shape):
        return tensor.but(shape=None)
    place = axis if axis >= 0 else len(shape) + 1 + axis
    return tensor.but(shape=(*shape[:place], 1, *shape[place:]))


def _channels(call: Call, tensor: Tensor) -> KnownValue:
    count = 1 if call.last == "rgb_to_grayscale" else 3
    return tensor.but(shape=(*tensor.shape[:-1], count) if tensor.shape else None)


def _dense(call: Call, tensor: Tensor) -> KnownValue:
    call.add("to-dense", feature=tensor.feature)
    return tensor.but(form=None, shape=None)


def _reordered(_: Call, tensor: Tensor) -> KnownValue:
    return tensor.but(shape=None)


def _cropped(_: Call, tensor: Tensor) -> KnownValue:
    """The middle of an image, or a part of it: sizes are not known, channels are."""
    return tensor.but(shape=(None, None, tensor.shape[-1]) if tensor.shape and len(tensor.shape) == 3 else None)


def _raw_tensor(call: Call, tensor: Tensor) -> KnownValue:
    call.reader.effects[-1].add("decode_raw")
    return Tensor(tensor.feature, dtype_of(call.get(1, "out_type")), made_by=call.node)


_TENSORS: dict[str, Callable[[Call, Tensor], KnownValue]] = {
    "reshape": _reshape,
    "ensure_shape": _set_shape,
    "cast": _cast,
    "convert_image_dtype": _cast,
    **dict.fromkeys(("resize", "resize_with_pad", "resize_with_crop_or_pad", "resize_images"), _resize),
    "one_hot": _one_hot,
    "expand_dims": _expand,
    **dict.fromkeys(("rgb_to_grayscale", "grayscale_to_rgb"), _channels),
    "to_dense": _dense,
    **dict.fromkeys(("squeeze", "transpose", "rot90"), _reordered),
    **dict.fromkeys(("central_crop", "crop_to_bounding_box", "pad_to_bounding_box"), _cropped),
    "parse_tensor": _raw_tensor,
}


def _stacked(call: Call) -> KnownValue:
    given = call.get(0, "values")
    tensors = [item for item in given.items if isinstance(item, Tensor)] if isinstance(given, Seq) else []
    if not tensors or not isinstance(given, Seq) or len(tensors) != len(given.items):
        return UNKNOWN
    axis, shapes = call.constant(1, "axis") or 0, {tensor.shape for tensor in tensors}
    base = Tensor(dtype=tensors[0].dtype, shift=None, marks=frozenset().union(*(t.marks for t in tensors)))
    shape = next(iter(shapes))
    if len(shapes) > 1 or shape is None or axis not in (0, -1):
        return base
    if call.last == "stack":
        return base.but(shape=(len(tensors), *shape) if axis == 0 else (*shape, len(tensors)))
    if not shape or (axis == 0 and len(shape) > 1):
        return base
    return base.but(shape=(*shape[:-1], shape[-1] * len(tensors) if shape[-1] is not None else None))


def arithmetic(call: Any, operator: ast.operator, left: KnownValue, right: KnownValue) -> KnownValue:
    """What arithmetic gives; what is divided or multiplied is no plain mean any more."""
    made = _computed(call, operator, left, right)
    is_scaled = isinstance(made, Tensor) and isinstance(operator, ast.Div | ast.Mult)
    return made.but(marks=made.marks - {"mean of a replica"}) if isinstance(made, Tensor) and is_scaled else made


def _computed(call: Any, operator: ast.operator, left: KnownValue, right: KnownValue) -> KnownValue:
    """The range that pixels have after arithmetic, and whether they were scaled before."""
    tensor = left if isinstance(left, Tensor) else right if isinstance(right, Tensor) else None
    call.reader.effects[-1].add("arithmetic")
    if tensor is None:
        return UNKNOWN
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        shape = left.shape if left.shape == right.shape else None
        if _is_spread(left, right) or _is_spread(right, left):
            call.add("broadcast", shapes=(left.shape, right.shape))
        main = left if left.layers or not right.layers else right
        return main.but(span=None, shape=shape, shift=None, marks=left.marks | right.marks)
    number = right.value if isinstance(right, Const) and isinstance(right.value, int | float) else None
    if tensor is not left or number is None:
        return tensor.but(span=None, form=tensor.form if tensor.form == "image" else None, shift=None)
    if isinstance(operator, ast.FloorDiv) and tensor.span == "0..255" and number in (255, 256):
        call.add("rounded-to-nothing", span="0..255")
    is_scaling = (isinstance(operator, ast.Div) and number in (127.5, 128, 255, 256)) or (
        isinstance(operator, ast.Mult) and abs(number * 255 - 1) < 0.02
    )
    if is_scaling and tensor.span in ("0..1", "-1..1"):
        call.add("scaled-twice", span=tensor.span)
    if is_scaling and tensor.span == "0..255":
        dtype = "float32" if tensor.dtype == "uint8" else tensor.dtype
        return tensor.but(dtype=dtype, span="0..2" if number < 200 else "0..1", made_by=call.node)
    if isinstance(operator, ast.Sub) and number == 1 and tensor.span == "0..2":
        return tensor.but(span="-1..1", made_by=call.node)
    if isinstance(operator, ast.Add | ast.Sub) and isinstance(number, int) and tensor.shift is not None:
        moved = tensor.shift + (number if isinstance(operator, ast.Add) else -number)
        return tensor.but(span=None, shift=moved, made_by=call.node)
    return tensor.but(span=None, shift=None, made_by=call.node)


def _is_spread(column: Tensor, row: Tensor) -> bool:
    """Whether a column of a model's outputs is set against a row of labels, each with each."""
    known = column.shape is not None and row.shape is not None and bool(column.layers) and not row.layers
    return known and len(column.shape or ()) == 2 and (column.shape or ())[1] == 1 and len(row.shape or ()) == 1


# Python and its libraries


def _writer(call: Call) -> ScriptWriter:
    writer = ScriptWriter(call.node, call.script)
    call.reader.trace.writers.append(writer)
    if call.reader.loops:
        call.add("writer-in-loop", loops=list(call.reader.loops), path=call.value_node(0, "path"))
    return writer


def _python_call(call: Call) -> KnownValue:
    name, last, args = call.name, call.last, call.args
    first = args[0] if args else UNKNOWN
    if name in _FOLDED and args and all(isinstance(arg, Const) for arg in args) and not call.keywords:
        try:
            return Const(_FOLDED[name](*(arg.value for arg in args if isinstance(arg, Const))))
        except (TypeError, ValueError, OverflowError):
            return UNKNOWN
    if last in ("sorted", "list", "tuple", "str", "reversed", "Path", "fspath"):
        if isinstance(first, Files | Seq | Const | Text):
            return first
        return Module("builtins.sorted()") if last == "sorted" else UNKNOWN
    if name in ("glob.glob", "glob.iglob"):
        return glob_files(call)
    if name == "os.path.join":
        return join_path(args)
    if name in ("builtins.set", "os.listdir", "os.scandir"):
        return Module("builtins.set()" if last == "set" else f"os.{last}()")
    if name == "builtins.enumerate":
        if isinstance(first, Module) and first.name in ("builtins.set()", "os.listdir()", "os.scandir()"):
            call.add("any-order", of=first.name)
        return UNKNOWN
    if _PYTHON_RANDOM.search(name):
        return _python_random(call)
    if name == "functools.partial" and isinstance(first, Function):
        return Function(
            first.node, first.scope, first.script, [*first.bound, *args[1:]], {**first.keywords, **call.keywords}
        )
    if name == "builtins.open":
        return call.made()
    if name == "json.load" and isinstance(first, KerasObject):
        return _loaded(call, first)
    if name in ("os.path.dirname", "os.path.abspath", "os.path.realpath") and isinstance(first, Const):
        return Const(getattr(os.path, last)(str(first.value)))
    if last == "ArgumentParser":
        return KerasObject("argparse.ArgumentParser", call.node, call.script, (), {"parsed": Local(Scope())})
    if name == "builtins.dict" and not args:
        return Mapping(dict(call.keywords), is_whole="**" not in call.keywords)
    if last == "vars" and isinstance(first, Local):
        return Mapping(dict(first.scope.names), is_whole=False)
    if last == "train_test_split":
        call.add("split")
    elif last in ("resample",) or name in ("numpy.repeat", "numpy.tile"):
        call.add("oversampled")
    if last in ("Pool", "ThreadPool", "ProcessPoolExecutor", "ThreadPoolExecutor"):
        return Module(f"{name}()Pool")
    if last in ("map", "starmap") and "Pool" in name:
        call.add("pool-map", function=first)
        if isinstance(first, Function):
            call.reader.apply(first, [], {})
    if last == "len" and isinstance(first, Seq):
        return Const(len(first.items))
    for value in (*args, *call.keywords.values()):
        if isinstance(value, ScriptWriter):
            value.escapes = True
    return UNKNOWN


def _loaded(call: Call, opened: KerasObject) -> KnownValue:
    """What a file of settings beside the script holds."""
    named = opened.constant(0, "file")
    path = call.reader.trace.script.path.parent / named if isinstance(named, str) else None
    try:
        is_small = path is not None and path.stat().st_size < 1 << 20
        return _known(json.loads(read_named(path))) if path is not None and is_small else UNKNOWN
    except (OSError, ValueError, RecursionError, FileProblem):
        return UNKNOWN


def _known(value: Any) -> KnownValue:
    if isinstance(value, dict):
        return Mapping({key: _known(item) for key, item in value.items()})
    return Seq([_known(item) for item in value]) if isinstance(value, list) else Const(value)


def _python_random(call: Call) -> KnownValue:
    if call.reader.mapped:
        call.add("python-random", name=call.name)
    if call.last == "shuffle" and call.node.args and isinstance(call.node.args[0], ast.Call | ast.ListComp):
        call.add("copy-shuffled")
    return UNKNOWN


def made_method(call: Call, receiver: KerasObject) -> KnownValue:
    """Methods of what is neither a layer nor a model: parsers of arguments, tapes, optimizers, metrics."""
    if call.name == "add_argument":
        return add_argument(call, receiver)
    if call.name == "add_argument_group":
        return receiver
    if call.name in ("parse_args", "parse_known_args"):
        parsed = receiver.keywords.get("parsed", UNKNOWN)
        return parsed if call.name == "parse_args" else Seq([parsed, UNKNOWN], is_tuple=True)
    return keras_calls.made_method(call, receiver)
