"""What is known of the values of a script without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Any

from bushel.checking.script.source import Source


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
class Instance(Value):
    """An object of a class of the script."""

    of: Class
    attributes: dict[str, Value] = field(default_factory=dict)
    loss: Value | None = None
    loss_node: ast.AST | None = None


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


@dataclass(frozen=True)
class Tensor(Value):
    """A tensor inside a pipeline."""

    feature: str | None = None
    dtype: str | None = None
    count: int | None = None  # values in it, where the data says so
    form: str | None = None  # record, image, one_hot, sparse, ids
    span: str | None = None  # 0..255, 0..1, -1..1
    layers: tuple[Any, ...] = ()
    depth: int | None = None  # of one_hot
    made_by: ast.AST | None = None

    def but(self, **changes: Any) -> Tensor:
        """The same tensor with something else about it."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Link:
    """One call of a chain."""

    name: str
    node: ast.Call
    source: Source
    args: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    effects: frozenset[str] = frozenset()

    def number(self, position: int, name: str) -> int | None:
        """An argument that is a known integer."""
        value = self.keywords.get(name, self.args[position] if len(self.args) > position else None)
        is_number = isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool)
        return value.value if isinstance(value, Const) and is_number else None

    def flag(self, name: str) -> bool | None:
        """A keyword that is a known boolean."""
        value = self.keywords.get(name)
        return value.value if isinstance(value, Const) and isinstance(value.value, bool) else None


@dataclass
class Dataset(Value):
    """A tf.data pipeline: its calls in order, and what one element of it is."""

    links: tuple[Link, ...]
    element: Value = UNKNOWN
    batched: int = 0
    files: Files | None = None
    is_opaque: bool = False  # where it comes from is not known

    def has(self, *names: str) -> bool:
        """Whether one of these calls is in the chain."""
        return any(link.name in names for link in self.links)


@dataclass
class Layer(Value):
    """A Keras layer."""

    kind: str
    args: list[Value]
    keywords: dict[str, Value]
    node: ast.Call
    source: Source
    is_adapted: bool = False

    def argument(self, position: int, name: str) -> Value | None:
        """One argument of its constructor."""
        return self.keywords.get(name, self.args[position] if len(self.args) > position else None)


@dataclass
class Model(Value):
    """A Keras model: its layers in order, as far as they are known."""

    layers: list[Layer | Model]
    node: ast.AST
    source: Source
    kind: str = "Sequential"
    loss: Value | None = None
    loss_node: ast.AST | None = None


@dataclass
class Loss(Value):
    """A loss of Keras."""

    name: str
    from_logits: bool | None
    node: ast.AST
    source: Source


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
    return UNKNOWN


def layers_of(model: Value | None) -> list[Layer]:
    """The layers of a model in order, those of models inside it among them."""
    return flat_layers(list(model.layers)) if isinstance(model, Model) else []


def flat_layers(layers: list[Any]) -> list[Layer]:
    """Layers in order, where some are models of their own."""
    flat: list[Layer] = []
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


class Local(Value):
    """A module beside the script."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope


def let_go(value: Value) -> None:
    """Note that a writer is handed on, so that somebody else may close it."""
    for part in value.items if isinstance(value, Seq) else [value]:
        if isinstance(part, Writer):
            part.escapes = True
