"""What is known of the values of a script without running it, and of shapes through operations and layers."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from bushel.checking.script.followed_script import Script

Shape: TypeAlias = tuple[int | None, ...]  # None: any size


class KnownValue:
    """Anything that a name can stand for."""


class Unknown(KnownValue):
    """Nothing is known."""


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Const(KnownValue):
    """A constant of Python."""

    value: Any


@dataclass(frozen=True)
class Text(KnownValue):
    """Text of which only some fragments are known; None stands for the others."""

    fragments: tuple[str | None, ...]

    @property
    def pattern(self) -> str:
        """With `*` for what is not known."""
        return "".join("*" if fragment is None else fragment for fragment in self.fragments)


def text_of(*parts: KnownValue) -> KnownValue:
    """The parts joined: a constant where all are known, nothing where none is."""
    fragments: list[str | None] = []
    for part in parts:
        if isinstance(part, Text):
            fragments += part.fragments
        else:
            fragments.append(str(part.value) if isinstance(part, Const) else None)
    if None not in fragments:
        return Const("".join(fragment for fragment in fragments if fragment is not None))
    return Text(tuple(fragments)) if any(fragments) else UNKNOWN


@dataclass
class Seq(KnownValue):
    """A list or tuple whose items are known."""

    items: list[KnownValue]
    is_tuple: bool = False


@dataclass
class Mapping(KnownValue):
    """A dict; keys that are no constants are left out."""

    items: dict[Any, KnownValue]
    nodes: dict[Any, ast.AST] = field(default_factory=dict)
    script: Script | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class Module(KnownValue):
    """A module or anything in one, by its dotted name."""

    name: str


@dataclass
class Function(KnownValue):
    """A function or lambda of the script, with what was bound to it."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Any
    script: Script
    bound: list[KnownValue] = field(default_factory=list)
    keywords: dict[str, KnownValue] = field(default_factory=dict)


@dataclass
class Class(KnownValue):
    """A class of the script."""

    node: ast.ClassDef
    scope: Any
    script: Script
    bases: list[KnownValue] = field(default_factory=list)


@dataclass
class Files(KnownValue):
    """Files by a pattern or by name."""

    patterns: list[str] | None  # None: not known
    node: ast.AST
    script: Script
    is_expanded: bool = True  # False: a pattern that nobody has expanded
    is_guessed: bool = False  # `*` stands for what the script does not say


@dataclass
class Spec(KnownValue):
    """One feature of a parse specification."""

    kind: str  # FixedLenFeature, VarLenFeature, ...
    shape: tuple[int, ...] | None
    dtype: str | None
    has_default: bool
    node: ast.Call
    script: Script
    is_context: bool | None = None  # of a SequenceExample: in its context, or in its lists


@dataclass(frozen=True)
class Tensor(KnownValue):
    """A tensor inside a pipeline or a model."""

    feature: str | None = None
    dtype: str | None = None
    shape: Shape | None = None
    form: str | None = None  # record, path, image, one_hot, sparse, input
    span: str | None = None  # 0..255, 0..1, -1..1
    layers: tuple[Any, ...] = ()
    depth: int | None = None  # of one_hot
    shift: int | None = 0  # what was added to a label; None: something else was done with it
    marks: frozenset[str] = frozenset()  # what happened to it on the way
    made_by: ast.AST | None = None
    files: Files | None = None  # of a path, or of the record that it was in

    def but(self, **changes: Any) -> Tensor:
        """The same tensor with something else about it."""
        return replace(self, **changes)

    def marked(self, *marks: str) -> Tensor:
        """The same tensor after something happened to it."""
        return replace(self, marks=self.marks | set(marks))


def count_of(shape: Shape | None) -> int | None:
    """How many values a shape holds, if that is known."""
    return math.prod(n for n in shape if n is not None) if shape is not None and None not in shape else None


def each_tensor(value: KnownValue, change: Callable[[Tensor], KnownValue]) -> KnownValue:
    """A structure with something done to each of its tensors."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Seq):
        return Seq([each_tensor(item, change) for item in value.items], value.is_tuple)
    if isinstance(value, Mapping):
        return replace(value, items={key: each_tensor(item, change) for key, item in value.items.items()})
    return value


def tensors_in(value: KnownValue) -> list[Tensor]:
    """The tensors of a structure."""
    if isinstance(value, Tensor):
        return [value]
    items = value.items if isinstance(value, Seq) else list(value.items.values()) if isinstance(value, Mapping) else []
    return [tensor for item in items for tensor in tensors_in(item)]


@dataclass(frozen=True)
class Arguments(KnownValue):
    """A call of the script, with what it is given."""

    name: str
    node: ast.Call
    script: Script
    args: tuple[KnownValue, ...] = ()
    keywords: dict[str, KnownValue] = field(default_factory=dict)

    def get(self, position: int, name: str) -> KnownValue | None:
        """An argument by its place or its name; None if it is not given."""
        return self.keywords.get(name, self.args[position] if 0 <= position < len(self.args) else None)

    def constant(self, position: int, name: str) -> Any:
        """An argument that is a known constant; None if it is not given or not known."""
        value = self.get(position, name)
        return value.value if isinstance(value, Const) else None

    def number(self, position: int, name: str) -> int | None:
        """An argument that is a known integer."""
        value = self.constant(position, name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, name: str, position: int = -1) -> bool | None:
        """An argument that is a known boolean."""
        value = self.constant(position, name)
        return value if isinstance(value, bool) else None

    def value_node(self, position: int, name: str) -> ast.AST:
        """The expression of an argument; the call where it is not given."""
        named = next((keyword.value for keyword in self.node.keywords if keyword.arg == name), None)
        return named or (self.node.args[position] if 0 <= position < len(self.node.args) else self.node)


@dataclass(frozen=True)
class ChainCall(Arguments):
    """One call of a chain."""

    effects: frozenset[str] = frozenset()


@dataclass
class ScriptDataset(KnownValue):
    """A tf.data pipeline: its calls in order, and what one element of it is."""

    links: tuple[ChainCall, ...]
    element: KnownValue = UNKNOWN
    batched: int = 0
    files: Files | None = None
    is_opaque: bool = False  # where it comes from is not known

    def has(self, *names: str) -> bool:
        """Whether one of these calls is in the chain, on records or on files."""
        return any(link.name.removeprefix("files.") in names for link in self.links)


@dataclass(frozen=True, eq=False)
class KerasObject(Arguments):
    """Anything of Keras that is made by a call: a layer, loss, optimizer, schedule, callback, metric."""

    notes: set[str] = field(default_factory=set)  # what was done with it: changed, frozen

    @property
    def kind(self) -> str:
        """The name of its class; of an application, with that word before it."""
        last = self.name.rsplit(".", maxsplit=1)[-1]
        return f"application:{last}" if ".applications." in self.name else last

    @property
    def is_layer(self) -> bool:
        """Whether it can be called on a tensor."""
        return ".layers." in self.name or ".applications." in self.name


@dataclass
class Model(KnownValue):
    """A Keras model: its layers in order, as far as they are known."""

    layers: list[KerasObject | Model]
    node: ast.AST
    script: Script
    kind: str = "Sequential"
    compiled: Arguments | None = None
    inputs: KnownValue = UNKNOWN
    output: KnownValue = UNKNOWN
    notes: set[str] = field(default_factory=set)


@dataclass
class Instance(KnownValue):
    """An object of a class of the script."""

    of: Class
    attributes: dict[str, KnownValue] = field(default_factory=dict)
    layers: list[KerasObject | Model] = field(default_factory=list)  # of a model: those that its `call` goes through
    compiled: Arguments | None = None
    notes: set[str] = field(default_factory=set)


@dataclass
class ScriptWriter(KnownValue):
    """A TFRecordWriter."""

    node: ast.AST
    script: Script
    is_closed: bool = False
    escapes: bool = False  # returned or handed on, and so closed by somebody else


@dataclass
class Alternatives(KnownValue):
    """One of several, by a condition that is not known."""

    options: list[KnownValue]


def join(one: KnownValue, other: KnownValue) -> KnownValue:
    """What is known if it is either of two."""
    if one is other or one == other:
        return one
    options: list[KnownValue] = []
    for value in (one, other):
        options += value.options if isinstance(value, Alternatives) else [value]
    if all(isinstance(option, ScriptDataset) for option in options):
        return Alternatives(options[:4])
    if all(isinstance(option, Tensor) for option in options):
        return _common(*options[:2])  # type: ignore[arg-type]
    return UNKNOWN


def _common(one: Tensor, other: Tensor) -> Tensor:
    """What two tensors share."""
    differing = [name for name in Tensor.__dataclass_fields__ if getattr(one, name) != getattr(other, name)]
    plain: dict[str, Any] = dict.fromkeys(differing) | {"layers": (), "marks": one.marks | other.marks}
    return one.but(**{name: plain[name] for name in {*differing, "marks"}})


def layers_of(model: KnownValue | None) -> list[KerasObject]:
    """The layers of a model in order, those of models inside it among them."""
    return flat_layers(list(model.layers)) if isinstance(model, Model | Instance) else []


def flat_layers(layers: list[Any]) -> list[KerasObject]:
    """Layers in order, where some are models of their own."""
    flat: list[KerasObject] = []
    for layer in layers:
        flat += flat_layers(list(layer.layers)) if isinstance(layer, Model) else [layer]
    return flat


class Scope:
    """Names of one function or module."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.names: dict[str, KnownValue] = {}
        self.parent = parent

    def get(self, name: str) -> KnownValue:
        """What a name stands for."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return Module(f"builtins.{name}")


@dataclass
class Local(KnownValue):
    """A module beside the script, or anything else with attributes that are known: parsed arguments."""

    scope: Scope


def let_go(value: KnownValue) -> None:
    """Note that a writer is handed on, so that somebody else may close it."""
    for part in value.items if isinstance(value, Seq) else [value]:
        if isinstance(part, ScriptWriter):
            part.escapes = True


RANKS = {
    **{f"{name}{n}D": n + 2 for n in (1, 2, 3) for name in ("Conv", "MaxPooling", "AveragePooling", "UpSampling")},
    **{f"Global{name}Pooling{n}D": n + 2 for n in (1, 2, 3) for name in ("Average", "Max")},
    "Conv2DTranspose": 4,
    "SeparableConv2D": 4,
    "DepthwiseConv2D": 4,
    "SeparableConv1D": 3,
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "Bidirectional", "ConvLSTM1D"), 3),
}
KEEPING = {
    *("Dropout", "BatchNormalization", "LayerNormalization", "Activation", "ReLU", "LeakyReLU", "PReLU", "ELU"),
    *("Softmax", "Rescaling", "Normalization", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "Masking"),
    *("RandomFlip", "RandomRotation", "RandomZoom", "RandomContrast", "RandomBrightness", "RandomTranslation"),
    *("UnitNormalization", "GroupNormalization", "ActivityRegularization"),
}


def sizes_of(value: KnownValue | None) -> Shape | None:
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


def declared(
    layers: list[KerasObject], inputs: KnownValue | None = None
) -> tuple[Shape | None, Tensor | KerasObject | None]:
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


def layer_shape(layer: KerasObject, shape: Shape | None) -> tuple[Shape | None, str | None]:
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


def _reshape(layer: KerasObject, shape: Shape) -> tuple[Shape | None, str | None]:
    target = sizes_of(layer.get(0, "target_shape"))
    if target is None:
        return None, None
    made, is_right = reshaped(shape[1:], target)
    return (shape[0], *made), None if is_right else f"Reshape to {shown(target)} is given {shown(shape[1:])}"


def _convolved(layer: KerasObject, shape: Shape) -> tuple[Shape | None, str | None]:
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


def _application(layer: KerasObject, shape: Shape) -> tuple[Shape | None, str | None]:
    wanted = sizes_of(layer.keywords.get("input_shape"))
    has_top = layer.flag("include_top", 0) is not False
    wanted = wanted or ((None, None, 3) if not has_top else None)
    if wanted is not None and not fits(shape, (None, *wanted)):
        return None, f"{layer.kind.partition(':')[2]} takes {shown((None, *wanted))}, but is given {shown(shape)}"
    if has_top:
        return (shape[0], layer.number(-1, "classes") or 1000), None
    return ((shape[0], None) if layer.constant(-1, "pooling") else (shape[0], None, None, None)), None


def followed(
    layers: list[KerasObject | Model], shape: Shape | None
) -> tuple[Shape | None, KerasObject | None, str | None]:
    """The shape after some layers; the first layer that cannot take what it is given, and why."""
    for layer in flat_layers(list(layers)):
        shape, problem = layer_shape(layer, shape)
        if problem is not None:
            return None, layer, problem
    return shape, None, None


def shape_of(value: KnownValue | None) -> Shape | None:
    """The shape of a tensor."""
    return value.shape if isinstance(value, Tensor) else None


def shown(shape: Shape) -> str:
    """A shape as Python writes it."""
    return f"({', '.join('?' if size is None else str(size) for size in shape)}{',' if len(shape) == 1 else ''})"
