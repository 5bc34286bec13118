"""What is known of the values of a script without running it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from bushel.checking.script.source import Source

Shape: TypeAlias = tuple[int | None, ...]  # None: any size


class Value:
    """Anything that a name can stand for."""


class Unknown(Value):
    """Nothing is known."""


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Const(Value):
    """A constant of Python."""

    value: Any


@dataclass(frozen=True)
class Text(Value):
    """Text of which only some pieces are known; None stands for the others."""

    pieces: tuple[str | None, ...]

    @property
    def pattern(self) -> str:
        """With `*` for what is not known."""
        return "".join("*" if piece is None else piece for piece in self.pieces)


def text_of(*parts: Value) -> Value:
    """The parts joined: a constant where all are known, nothing where none is."""
    pieces: list[str | None] = []
    for part in parts:
        if isinstance(part, Text):
            pieces += part.pieces
        else:
            pieces.append(str(part.value) if isinstance(part, Const) else None)
    if None not in pieces:
        return Const("".join(piece for piece in pieces if piece is not None))
    return Text(tuple(pieces)) if any(pieces) else UNKNOWN


@dataclass
class Seq(Value):
    """A list or tuple whose items are known."""

    items: list[Value]
    is_tuple: bool = False


@dataclass
class Mapping(Value):
    """A dict; keys that are no constants are left out."""

    items: dict[Any, Value]
    nodes: dict[Any, ast.AST] = field(default_factory=dict)
    source: Source | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class Module(Value):
    """A module or anything in one, by its dotted name."""

    name: str


@dataclass
class Function(Value):
    """A function or lambda of the script, with what was bound to it."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Any
    source: Source
    bound: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)


@dataclass
class Class(Value):
    """A class of the script."""

    node: ast.ClassDef
    scope: Any
    source: Source
    bases: list[Value] = field(default_factory=list)


@dataclass
class Files(Value):
    """Files by a pattern or by name."""

    patterns: list[str] | None  # None: not known
    node: ast.AST
    source: Source
    is_expanded: bool = True  # False: a pattern that nobody has expanded
    is_guessed: bool = False  # `*` stands for what the script does not say


@dataclass
class Spec(Value):
    """One feature of a parse specification."""

    kind: str  # FixedLenFeature, VarLenFeature, ...
    shape: tuple[int, ...] | None
    dtype: str | None
    has_default: bool
    node: ast.Call
    source: Source
    is_context: bool | None = None  # of a SequenceExample: in its context, or in its lists


@dataclass(frozen=True)
class Tensor(Value):
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
    files: Files | None = None  # of a path

    def but(self, **changes: Any) -> Tensor:
        """The same tensor with something else about it."""
        return replace(self, **changes)

    def marked(self, *marks: str) -> Tensor:
        """The same tensor after something happened to it."""
        return replace(self, marks=self.marks | set(marks))


def count_of(shape: Shape | None) -> int | None:
    """How many values a shape holds, if that is known."""
    return math.prod(n for n in shape if n is not None) if shape is not None and None not in shape else None


def each_tensor(value: Value, change: Callable[[Tensor], Value]) -> Value:
    """A structure with something done to each of its tensors."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Seq):
        return Seq([each_tensor(item, change) for item in value.items], value.is_tuple)
    if isinstance(value, Mapping):
        return replace(value, items={key: each_tensor(item, change) for key, item in value.items.items()})
    return value


def tensors_in(value: Value) -> list[Tensor]:
    """The tensors of a structure."""
    if isinstance(value, Tensor):
        return [value]
    items = value.items if isinstance(value, Seq) else list(value.items.values()) if isinstance(value, Mapping) else []
    return [tensor for item in items for tensor in tensors_in(item)]


@dataclass(frozen=True)
class Arguments(Value):
    """A call of the script, with what it is given."""

    name: str
    node: ast.Call
    source: Source
    args: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)

    def get(self, position: int, name: str) -> Value | None:
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
class Link(Arguments):
    """One call of a chain."""

    effects: frozenset[str] = frozenset()


@dataclass
class Dataset(Value):
    """A tf.data pipeline: its calls in order, and what one element of it is."""

    links: tuple[Link, ...]
    element: Value = UNKNOWN
    batched: int = 0
    files: Files | None = None
    is_opaque: bool = False  # where it comes from is not known

    def has(self, *names: str) -> bool:
        """Whether one of these calls is in the chain, on records or on files."""
        return any(link.name.removeprefix("files.") in names for link in self.links)


@dataclass(frozen=True, eq=False)
class Made(Arguments):
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
class Model(Value):
    """A Keras model: its layers in order, as far as they are known."""

    layers: list[Made | Model]
    node: ast.AST
    source: Source
    kind: str = "Sequential"
    compiled: Arguments | None = None
    inputs: Value = UNKNOWN
    output: Value = UNKNOWN
    notes: set[str] = field(default_factory=set)


@dataclass
class Instance(Value):
    """An object of a class of the script."""

    of: Class
    attributes: dict[str, Value] = field(default_factory=dict)
    layers: list[Made | Model] = field(default_factory=list)  # of a model: those that its `call` goes through
    compiled: Arguments | None = None
    notes: set[str] = field(default_factory=set)


@dataclass
class Writer(Value):
    """A TFRecordWriter."""

    node: ast.AST
    source: Source
    is_closed: bool = False
    escapes: bool = False  # returned or handed on, and so closed by somebody else


@dataclass
class Alternatives(Value):
    """One of several, by a condition that is not known."""

    options: list[Value]


def join(one: Value, other: Value) -> Value:
    """What is known if it is either of two."""
    if one is other or one == other:
        return one
    options: list[Value] = []
    for value in (one, other):
        options += value.options if isinstance(value, Alternatives) else [value]
    if all(isinstance(option, Dataset) for option in options):
        return Alternatives(options[:4])
    if all(isinstance(option, Tensor) for option in options):
        return _common(*options[:2])  # type: ignore[arg-type]
    return UNKNOWN


def _common(one: Tensor, other: Tensor) -> Tensor:
    """What two tensors share."""
    differing = [name for name in Tensor.__dataclass_fields__ if getattr(one, name) != getattr(other, name)]
    plain: dict[str, Any] = dict.fromkeys(differing) | {"layers": (), "marks": one.marks | other.marks}
    return one.but(**{name: plain[name] for name in {*differing, "marks"}})


def layers_of(model: Value | None) -> list[Made]:
    """The layers of a model in order, those of models inside it among them."""
    return flat_layers(list(model.layers)) if isinstance(model, Model | Instance) else []


def flat_layers(layers: list[Any]) -> list[Made]:
    """Layers in order, where some are models of their own."""
    flat: list[Made] = []
    for layer in layers:
        flat += flat_layers(list(layer.layers)) if isinstance(layer, Model) else [layer]
    return flat


class Scope:
    """Names of one function or module."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.names: dict[str, Value] = {}
        self.parent = parent

    def get(self, name: str) -> Value:
        """What a name stands for."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return Module(f"builtins.{name}")


@dataclass
class Local(Value):
    """A module beside the script, or anything else with attributes that are known: parsed arguments."""

    scope: Scope


def let_go(value: Value) -> None:
    """Note that a writer is handed on, so that somebody else may close it."""
    for part in value.items if isinstance(value, Seq) else [value]:
        if isinstance(part, Writer):
            part.escapes = True
