"""Shapes of tensors through operations and layers. What is not known of a shape is None, and fits everything."""

from __future__ import annotations

import ast
import math

from bushel.checking.script.known_values import Const, Made, Model, Seq, Shape, Tensor, Value, count_of, flat_layers

RANKS = {
    **{f"{name}{n}D": n + 2 for n in (1, 2, 3) for name in ("Conv", "MaxPooling", "AveragePooling", "UpSampling")},
    **{f"Global{name}Pooling{n}D": n + 2 for n in (1, 2, 3) for name in ("Average", "Max")},
    "Conv2DTranspose": 4,
    "SeparableConv2D": 4,
    "DepthwiseConv2D": 4,
    "SeparableConv1D": 3,
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "Bidirectional", "ConvLSTM1D"), 3),
}
KEEPING = (
    *("Dropout", "BatchNormalization", "LayerNormalization", "Activation", "ReLU", "LeakyReLU", "PReLU", "ELU"),
    *(
        "Softmax",
        "Rescaling",
        "Normalization",
        "GaussianNoise",
        "SpatialDropout1D",
        "SpatialDropout2D",
        "UnitNormalization",
    ),
    *(
        "Masking",
        "RandomFlip",
        "RandomRotation",
        "RandomZoom",
        "RandomContrast",
        "RandomBrightness",
        "RandomTranslation",
    ),
    *("GroupNormalization", "ActivityRegularization"),
)


def sizes_of(value: Value | None) -> Shape | None:
    """A shape as the script writes it: sizes that are not known are None; one number is a shape too."""
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return (value.value,)
    if isinstance(value, Seq):
        known = [item.value if isinstance(item, Const) else None for item in value.items]
        return tuple(size if isinstance(size, int) else None for size in known)
    return None


def fits(one: Shape | None, other: Shape | None) -> bool:
    """Whether two shapes can be the same."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True))


def reshaped(shape: Shape | None, wanted: Shape) -> tuple[Shape, bool]:
    """The shape after a reshape, and whether the values fit into it."""
    if shape is not None and wanted[:1] in ((-1,), (None,)) and shape[:1] == (None,):  # of a batch
        inner, is_right = reshaped(shape[1:], wanted[1:]) if len(wanted) > 1 else ((), True)
        return (None, *inner), is_right
    count = count_of(shape)
    rest = math.prod(size for size in wanted if size not in (None, -1))
    if count is None or None in wanted:
        return tuple(None if size == -1 else size for size in wanted), True
    if -1 not in wanted:
        return wanted, rest == count
    is_right = bool(rest) and count % rest == 0
    return tuple((count // rest if is_right else None) if size == -1 else size for size in wanted), is_right


def indexed(shape: Shape | None, key: ast.expr) -> Shape | None:
    """The shape of `tensor[key]`."""
    if shape is None:
        return None
    keys = key.elts if isinstance(key, ast.Tuple) else [key]
    new = [one for one in keys if _is_new_axis(one)]
    dots = next((i for i, one in enumerate(keys) if isinstance(one, ast.Constant) and one.value is ...), None)
    if dots is not None:
        missing = len(shape) - (len(keys) - 1 - len(new))
        keys = [*keys[:dots], *[ast.Slice()] * missing, *keys[dots + 1 :]]
    sizes = list(shape)
    out: list[int | None] = []
    for one in keys:
        if _is_new_axis(one):
            out.append(1)
        elif not sizes:
            return None
        elif isinstance(one, ast.Slice):
            size = sizes.pop(0)
            out.append(size if one.lower is None and one.upper is None and one.step is None else None)
        else:
            sizes.pop(0)
    return (*out, *sizes)


def _is_new_axis(node: ast.expr) -> bool:
    is_named = isinstance(node, ast.Attribute) and node.attr == "newaxis"
    return is_named or (isinstance(node, ast.Constant) and node.value is None)


def declared(layers: list[Made], inputs: Value | None = None) -> tuple[Shape | None, Tensor | Made | None]:
    """The shape of batches that a model says it takes, and what says so."""
    if isinstance(inputs, Tensor) and inputs.shape is not None:
        return inputs.shape, inputs
    first = next((layer for layer in layers if layer.kind != "InputLayer" or layer.keywords), None)
    if first is None:
        return None, None
    for name in ("shape", "input_shape"):
        sizes = sizes_of(first.keywords.get(name))
        if sizes is not None:
            return (None, *sizes), first
    width = first.number(-1, "input_dim")
    return ((None, width), first) if width is not None and first.kind == "Dense" else (None, None)


def layer_shape(layer: Made, shape: Shape | None) -> tuple[Shape | None, str | None]:
    """What a layer makes of a shape, and what is wrong with it."""
    if shape is None:
        return None, None
    kind, rank = layer.kind, RANKS.get(layer.kind)
    if rank is not None and len(shape) != rank:
        return None, f"{kind} takes {rank} dimensions with that of the batch, but is given {shown(shape)}"
    if kind in KEEPING:
        return shape, None
    if kind == "Dense":
        return (*shape[:-1], layer.number(0, "units")), None
    if kind == "Flatten":
        return (shape[0], count_of(shape[1:])), None
    if kind == "Embedding":
        return (*shape, layer.number(1, "output_dim")), None
    if kind == "Reshape":
        return _reshape(layer, shape)
    if kind == "Resizing":
        return (*shape[:-3], layer.number(0, "height"), layer.number(1, "width"), shape[-1]), None
    if kind.startswith("Global"):
        return (shape[0], shape[-1]), None
    if kind in ("LSTM", "GRU", "SimpleRNN"):
        units = layer.number(0, "units")
        return ((*shape[:2], units) if layer.flag("return_sequences") else (shape[0], units)), None
    if rank is not None and kind.startswith(("Conv", "MaxPooling", "AveragePooling")) and "Transpose" not in kind:
        return _convolved(layer, shape)
    if kind.startswith("application:"):
        return _application(layer, shape)
    return None, None


def _reshape(layer: Made, shape: Shape) -> tuple[Shape | None, str | None]:
    target = sizes_of(layer.get(0, "target_shape"))
    if target is None:
        return None, None
    made, is_right = reshaped(shape[1:], target)
    return (shape[0], *made), None if is_right else f"Reshape to {shown(target)} is given {shown(shape[1:])}"


def _convolved(layer: Made, shape: Shape) -> tuple[Shape | None, str | None]:
    """The sizes after a convolution or pooling; None where they are not known."""
    is_pooling = "Pooling" in layer.kind
    kernel = sizes_of(layer.get(0, "pool_size") if is_pooling else layer.get(1, "kernel_size"))
    kernel = kernel or ((2,) if is_pooling else None)
    strides = sizes_of(layer.get(1 if is_pooling else 2, "strides")) or (kernel if is_pooling else (1,))
    padding = layer.constant(2 if is_pooling else 3, "padding") or "valid"
    channels = shape[-1] if is_pooling else layer.number(0, "filters")
    sizes: list[int | None] = []
    for i, size in enumerate(shape[1:-1]):
        width, step = _at(kernel, i), _at(strides, i)
        if size is None or width is None or not step or "dilation_rate" in layer.keywords:
            sizes.append(None)
        else:
            sizes.append(-(-size // step) if padding == "same" else (size - width) // step + 1)
    if any(size is not None and size < 1 for size in sizes):
        return None, f"{layer.kind} is given {shown(shape)}, and nothing is left of it"
    return (shape[0], *sizes, channels), None


def _at(sizes: Shape | None, i: int) -> int | None:
    return None if sizes is None else sizes[i] if i < len(sizes) else sizes[0]


def _application(layer: Made, shape: Shape) -> tuple[Shape | None, str | None]:
    wanted = sizes_of(layer.keywords.get("input_shape"))
    has_top = layer.flag("include_top", 0) is not False
    wanted = wanted or ((None, None, 3) if not has_top else None)
    if wanted is not None and not fits(shape, (None, *wanted)):
        return None, f"{layer.kind.partition(':')[2]} takes {shown((None, *wanted))}, but is given {shown(shape)}"
    if has_top:
        return (shape[0], layer.number(-1, "classes") or 1000), None
    return ((shape[0], None) if layer.constant(-1, "pooling") else (shape[0], None, None, None)), None


def followed(layers: list[Made | Model], shape: Shape | None) -> tuple[Shape | None, Made | None, str | None]:
    """The shape after some layers; the first layer that cannot take what it is given, and why."""
    for layer in flat_layers(list(layers)):
        shape, problem = layer_shape(layer, shape)
        if problem is not None:
            return None, layer, problem
    return shape, None, None


def shape_of(value: Value | None) -> Shape | None:
    """The shape of a tensor."""
    return value.shape if isinstance(value, Tensor) else None


def shown(shape: Shape) -> str:
    """A shape as Python writes it."""
    return f"({', '.join('?' if size is None else str(size) for size in shape)}{',' if len(shape) == 1 else ''})"
