"""Functions of TensorFlow and others, by name: what they give for what is known of their arguments."""

from __future__ import annotations

import ast
import glob
import re
from typing import TYPE_CHECKING, Any

from bushel.checking.script import dataset_calls, keras_calls
from bushel.checking.script.known_values import (
    UNKNOWN,
    Const,
    Dataset,
    Files,
    Function,
    Mapping,
    Module,
    Seq,
    Spec,
    Tensor,
    Text,
    Value,
    Writer,
)

if TYPE_CHECKING:
    from bushel.checking.script.interpreter import Interpreter

__all__ = ["arithmetic", "call_by_name", "canonical"]

_SPECS = ("FixedLenFeature", "VarLenFeature", "RaggedFeature", "FixedLenSequenceFeature", "SparseFeature")
_DECODERS = (
    "decode_jpeg",
    "decode_png",
    "decode_image",
    "decode_gif",
    "decode_bmp",
    "decode_and_crop_jpeg",
    "decode_webp",
)
_RANDOM = re.compile(
    r"(^|\.)(random_|stateless_random_|sample_distorted)|\.random\.(uniform|normal|truncated_normal|shuffle)$"
)
_KEEPS = (
    "ensure_shape",
    "identity",
    "squeeze",
    "expand_dims",
    "transpose",
    "clip_by_value",
    "flip_left_right",
    "central_crop",
)
ITEM = {"uint8": 1, "int8": 1, "bool": 1, "int16": 2, "uint16": 2, "float16": 2, "int32": 4, "uint32": 4, "float32": 4}
ITEM |= {"int64": 8, "uint64": 8, "float64": 8, "double": 8}


def canonical(name: str) -> str:
    """One name for what is imported under several."""
    name = re.sub(r"^tensorflow\.(compat\.v[12]\.|python\.)?", "tensorflow.", name)
    name = re.sub(r"^tensorflow\.keras\b", "keras", name)
    name = re.sub(r"^(keras)\.(src|api|_tf_keras\.keras)\b", r"\1", name)
    return re.sub(r"^tensorflow\.(python_io|io)\.TFRecordWriter", "tensorflow.io.TFRecordWriter", name)


def call_by_name(run: Interpreter, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    """The result of a call to something in a module."""
    last = name.rsplit(".", maxsplit=1)[-1]
    if name.startswith("keras.") or (name.startswith("tensorflow.") and last in ("Sequential",)):
        return keras_calls.make(run, name, node, args, keywords)
    if name.startswith("tensorflow.data."):
        return _data_call(run, name, node, args, keywords)
    if last in _SPECS:
        return _spec(run, last, node, args, keywords)
    if last in ("parse_single_example", "parse_example", "parse_sequence_example", "parse_single_sequence_example"):
        return _parse(run, last, node, args, keywords)
    if name.startswith("tensorflow."):
        return _tensor_call(run, name, last, node, args, keywords)
    return _python_call(run, name, last, node, args, keywords)


# Where data comes from


def _data_call(run: Interpreter, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    last = name.rsplit(".", maxsplit=1)[-1]
    if last == "TFRecordDataset":
        return _read_records(run, node, args, keywords)
    if last == "list_files":
        files = _files(run, keywords.get("file_pattern", args[0] if args else UNKNOWN), node)
        files.is_expanded = True
        run.trace.add("lists", node, run.source, files=files)
        return Dataset((), Tensor(form="path"), 0, files, is_opaque=False)
    if last == "zip":
        parts = args[0].items if args and isinstance(args[0], Seq) else args
        if sum(isinstance(p, Dataset) and p.has("shuffle") for p in parts) > 1:
            run.trace.add("zip-of-shuffled", node, run.source)
        elements = [part.element if isinstance(part, Dataset) else UNKNOWN for part in parts]
        return Dataset((), Seq(elements, is_tuple=True), 0, None, is_opaque=True)
    if last in ("from_tensor_slices", "from_tensors", "from_generator", "range", "sample_from_datasets"):
        named = _files(run, args[0], node) if args and isinstance(args[0], Files | Seq) else None
        return Dataset((), UNKNOWN, 0, named if named is not None and named.patterns else None, is_opaque=True)
    return UNKNOWN


def _read_records(run: Interpreter, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    given = keywords.get("filenames", args[0] if args else UNKNOWN)
    compression = keywords.get("compression_type", args[1] if len(args) > 1 else Const(None))
    files = given.files if isinstance(given, Dataset) else None
    if files is None:
        files = _files(run, given, node)
    said = compression.value if isinstance(compression, Const) else "?"
    run.trace.add("reads", node, run.source, files=files, compression=said)
    if files.patterns is None:
        run.trace.note(node, run.source, "which files TFRecordDataset reads")
    made = Dataset((), Tensor(form="record"), 0, files, is_opaque=False)
    run.trace.datasets.append(made)
    return made


def _files(run: Interpreter, value: Value, node: ast.AST) -> Files:
    if isinstance(value, Files):
        return value
    if isinstance(value, Const) and isinstance(value.value, str):
        return Files([value.value], node, run.source, is_expanded=False)
    if isinstance(value, Text):
        has_pattern = any(glob.has_magic(piece) for piece in value.pieces if piece)
        return Files([value.pattern], node, run.source, is_expanded=not has_pattern, is_guessed=True)
    if isinstance(value, Seq) and value.items:
        patterns: list[str] = []
        is_guessed = False
        for item in value.items:
            if isinstance(item, Const) and isinstance(item.value, str):
                patterns.append(item.value)
            elif isinstance(item, Text):
                patterns.append(item.pattern)
                is_guessed = True
            elif isinstance(item, Files) and item.patterns:
                patterns += item.patterns
                is_guessed |= item.is_guessed
            else:
                return Files(None, node, run.source)
        return Files(patterns, node, run.source, is_expanded=is_guessed, is_guessed=is_guessed)
    if isinstance(value, Seq):
        return Files([], node, run.source, is_expanded=False)
    return Files(None, node, run.source)


# Parsing


def _dtype(value: Value | None) -> str | None:
    if isinstance(value, Module):
        return {"double": "float64", "str": "string", "float": "float32"}.get(
            value.name.split(".")[-1], value.name.split(".")[-1]
        )
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def numbers_of(value: Value | None) -> tuple[int, ...] | None:
    """A shape whose sizes are all known; one number is a shape too."""
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return (value.value,)
    if isinstance(value, Seq) and all(isinstance(i, Const) and isinstance(i.value, int) for i in value.items):
        return tuple(item.value for item in value.items if isinstance(item, Const))
    return None


def _spec(run: Interpreter, kind: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Spec:
    is_fixed = kind in ("FixedLenFeature", "FixedLenSequenceFeature")
    dtype = keywords.get("dtype", args[1 if is_fixed else 0] if len(args) > (1 if is_fixed else 0) else None)
    shape = keywords.get("shape", args[0] if is_fixed and args else None)
    default = keywords.get("default_value", args[2] if is_fixed and len(args) > 2 else None)
    has_default = default is not None and not (isinstance(default, Const) and default.value is None)
    return Spec(kind, numbers_of(shape) if is_fixed else None, _dtype(dtype), has_default, node, run.source)


def _parse(run: Interpreter, last: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    run.effects[-1].add("parse_single" if "single" in last else "parse")
    specs = keywords.get("features", args[1] if len(args) > 1 else UNKNOWN)
    if "sequence" in last:
        return UNKNOWN
    if not isinstance(specs, Mapping):
        run.trace.note(node, run.source, f"the feature description of {last}")
        return UNKNOWN
    run.trace.add("parse", node, run.source, specs=specs)
    parsed: dict[Any, Value] = {}
    for name, spec in specs.items.items():
        if not isinstance(spec, Spec):
            parsed[name] = UNKNOWN
            continue
        is_sparse = spec.kind == "VarLenFeature"
        parsed[name] = Tensor(
            feature=str(name), dtype=spec.dtype, form="sparse" if is_sparse else None, made_by=spec.node
        )
    return Mapping(parsed)


# Tensors


def _tensor_call(
    run: Interpreter, name: str, last: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> Value:
    first = next((a for a in (*args, *keywords.values()) if isinstance(a, Tensor)), None)
    if _RANDOM.search(name):
        run.effects[-1].add("random")
        return first.but(made_by=node) if first is not None else Tensor()
    if last in _DECODERS or last == "decode_raw":
        return _decode(run, last, node, args, keywords)
    if last == "reshape":
        return _reshape(run, node, args, keywords)
    if last in ("cast", "convert_image_dtype"):
        return _cast(run, last, node, args, keywords)
    if last in ("resize", "resize_with_pad", "resize_with_crop_or_pad", "resize_images") and first is not None:
        run.effects[-1].add("resize")
        keeps = last == "resize_with_crop_or_pad"
        return first.but(dtype=first.dtype if keeps else "float32", made_by=node, count=None)
    if last == "one_hot":
        depth = keywords.get("depth", args[1] if len(args) > 1 else None)
        known = depth.value if isinstance(depth, Const) and isinstance(depth.value, int) else None
        feature = first.feature if first is not None else None
        return Tensor(feature=feature, form="one_hot", dtype="float32", depth=known, made_by=node)
    if last == "to_dense":
        run.trace.add("to-dense", node, run.source, feature=first.feature if first else None)
        return first.but(form=None) if first is not None else UNKNOWN
    if last == "glob":
        return _glob(run, node, args)
    if last == "TFRecordWriter":
        return _writer(run, node)
    if last == "GradientTape":
        return Module("tensorflow.GradientTape()")
    if last in ("py_function", "numpy_function", "function"):
        return args[0] if last == "function" and args and isinstance(args[0], Function) else UNKNOWN
    if last in ("divide", "truediv", "multiply", "subtract", "add") and len(args) > 1:
        operators: dict[str, ast.operator] = {"divide": ast.Div(), "truediv": ast.Div(), "multiply": ast.Mult()}
        return arithmetic(run, node, operators.get(last, ast.Sub()), args[0], args[1])
    if last in ("softmax", "sigmoid") and first is not None:
        return first.but(form=last)
    if last in _KEEPS and first is not None:
        return first
    return UNKNOWN


def _decode(run: Interpreter, last: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    run.effects[-1].add("decode" if last != "decode_raw" else "decode_raw")
    tensor = args[0] if args else next(iter(keywords.values()), UNKNOWN)
    feature = tensor.feature if isinstance(tensor, Tensor) else None
    facts = run.trace.data.features.get(feature) if run.trace.data is not None and feature is not None else None
    if last != "decode_raw":
        run.trace.add("decode-image", node, run.source, feature=feature, function=last)
        pixel = _dtype(keywords.get("dtype")) or "uint8"
        span = "0..255" if pixel == "uint8" else None
        return Tensor(feature=feature, dtype=pixel, form="image", span=span, made_by=node)
    dtype = _dtype(keywords.get("out_type", args[1] if len(args) > 1 else None))
    run.trace.add("decode-raw", node, run.source, feature=feature, dtype=dtype)
    size = facts.size if facts is not None else None
    item = ITEM.get(dtype or "")
    count = size // item if size is not None and item and size % item == 0 else None
    span = "0..255" if dtype == "uint8" else None
    return Tensor(feature=feature, dtype=dtype, count=count, form="image" if span else None, span=span, made_by=node)


def _reshape(run: Interpreter, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    tensor = keywords.get("tensor", args[0] if args else UNKNOWN)
    shape = numbers_of(keywords.get("shape", args[1] if len(args) > 1 else None))
    if not isinstance(tensor, Tensor):
        return UNKNOWN
    if shape is not None and tensor.feature is not None:
        run.trace.add("reshape", node, run.source, tensor=tensor, shape=shape, is_mapped=run.mapped > 0)
    return tensor


def _cast(run: Interpreter, last: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    tensor = args[0] if args else next(iter(keywords.values()), UNKNOWN)
    dtype = _dtype(keywords.get("dtype", args[1] if len(args) > 1 else None))
    if not isinstance(tensor, Tensor):
        return UNKNOWN
    if dtype == "float64" and tensor.form == "image":
        run.trace.add("float64", node, run.source)
    if last == "cast":
        return tensor.but(dtype=dtype, made_by=node)
    is_float = tensor.dtype in ("float16", "float32", "float64")
    if is_float and tensor.span == "0..255":
        run.trace.add("no-op-conversion", node, run.source, made_by=tensor.made_by)
        return tensor.but(dtype=dtype, made_by=node)
    span = "0..1" if tensor.span == "0..255" and dtype in ("float16", "float32", "float64") else tensor.span
    return tensor.but(dtype=dtype, span=span, made_by=node)


def arithmetic(run: Interpreter, node: ast.AST, operator: ast.operator, left: Value, right: Value) -> Value:
    """Scaling of pixels: what range they have then, and whether it was done before."""
    tensor = left if isinstance(left, Tensor) else right if isinstance(right, Tensor) else None
    run.effects[-1].add("arithmetic")
    if tensor is None:
        return UNKNOWN
    number = right.value if isinstance(right, Const) and isinstance(right.value, int | float) else None
    if tensor is not left or number is None:
        return tensor.but(span=None, form=tensor.form if tensor.form == "image" else None)
    is_scaling = (isinstance(operator, ast.Div) and number in (127.5, 128, 255, 256)) or (
        isinstance(operator, ast.Mult) and abs(number * 255 - 1) < 0.02
    )
    if is_scaling and tensor.span in ("0..1", "-1..1"):
        run.trace.add("scaled-twice", node, run.source, span=tensor.span)
    if is_scaling and tensor.span == "0..255":
        return tensor.but(
            dtype="float32" if tensor.dtype == "uint8" else tensor.dtype,
            span="0..2" if number < 200 else "0..1",
            made_by=node,
        )
    if isinstance(operator, ast.Sub) and number == 1 and tensor.span == "0..2":
        return tensor.but(span="-1..1", made_by=node)
    return tensor.but(span=None, made_by=node)


# Python and its libraries


def _glob(run: Interpreter, node: ast.AST, args: list[Value]) -> Files:
    files = _files(run, args[0] if args else UNKNOWN, node)
    files = Files(files.patterns, node, run.source, is_guessed=files.is_guessed)
    run.trace.add("lists", node, run.source, files=files)
    return files


def _writer(run: Interpreter, node: ast.Call) -> Writer:
    writer = Writer(node, run.source)
    run.trace.writers.append(writer)
    if run.loops:
        run.trace.add("writer-in-loop", node, run.source, loops=list(run.loops))
    return writer


def _python_call(
    run: Interpreter, name: str, last: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> Value:
    if name == "builtins.super":
        return UNKNOWN
    if name in (
        "builtins.sorted",
        "builtins.list",
        "builtins.tuple",
        "builtins.str",
        "builtins.reversed",
        "pathlib.Path",
    ):
        if args and isinstance(args[0], Files | Seq | Const | Text):
            return args[0]
        return Module("builtins.sorted()") if last == "sorted" else UNKNOWN
    if name in ("glob.glob", "glob.iglob"):
        return _glob(run, node, args)
    if name == "os.path.join":
        return dataset_calls.join_path(args)
    if name in ("builtins.set", "os.listdir", "os.scandir"):
        return Module("builtins.set()" if last == "set" else f"os.{last}()")
    if name == "builtins.enumerate":
        if args and isinstance(args[0], Module) and args[0].name in ("builtins.set()", "os.listdir()", "os.scandir()"):
            run.trace.add("any-order", node, run.source, of=args[0].name)
        return UNKNOWN
    if name in ("random.shuffle", "numpy.random.shuffle"):
        if node.args and isinstance(node.args[0], ast.Call | ast.ListComp):
            run.trace.add("copy-shuffled", node, run.source)
        return Const(None)
    if name == "functools.partial" and args and isinstance(args[0], Function):
        inner = args[0]
        return Function(
            inner.node, inner.scope, inner.source, [*inner.bound, *args[1:]], {**inner.keywords, **keywords}
        )
    if last in ("train_test_split",):
        run.trace.add("split", node, run.source)
        return UNKNOWN
    if last in ("Pool", "ThreadPool", "ProcessPoolExecutor", "ThreadPoolExecutor"):
        return Module(f"{name}()Pool")
    if last in ("map", "starmap") and "Pool" in name:
        run.trace.add("pool-map", node, run.source, function=args[0] if args else UNKNOWN)
        if args and isinstance(args[0], Function):
            run.apply(args[0], [], {})
        return UNKNOWN
    if last == "len" and args and isinstance(args[0], Seq):
        return Const(len(args[0].items))
    if last in ("int", "float") and args and isinstance(args[0], Const):
        try:
            return Const(int(args[0].value) if last == "int" else float(args[0].value))
        except (TypeError, ValueError):
            return UNKNOWN
    for value in (*args, *keywords.values()):
        if isinstance(value, Writer):
            value.escapes = True
    return UNKNOWN
