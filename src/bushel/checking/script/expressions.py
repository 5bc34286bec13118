"""What an expression stands for, and what a name is bound to."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from bushel.checking.script import tensorflow_calls
from bushel.checking.script.dataset_calls import Call
from bushel.checking.script.known_values import (
    UNKNOWN,
    Const,
    Dataset,
    Files,
    Function,
    Instance,
    Made,
    Mapping,
    Model,
    Module,
    Scope,
    Seq,
    Tensor,
    Text,
    Value,
    join,
    let_go,
    text_of,
)
from bushel.checking.script.shapes import indexed
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Trace

if TYPE_CHECKING:
    from bushel.checking.script.interpreter import Interpreter

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def _is_text(value: Value) -> bool:
    return isinstance(value, Text) or (isinstance(value, Const) and isinstance(value.value, str))


class Expressions:
    """The half of the interpreter that evaluates expressions; the other half handles attributes and calls."""

    source: Source
    trace: Trace

    def attribute(self, value: Value, name: str) -> Value:
        """What `value.name` stands for."""
        raise NotImplementedError

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        follow = getattr(self, f"see_{type(node).__name__}", None)
        if follow is not None:
            value: Value = follow(node, scope)
            return value
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, scope)
        return UNKNOWN

    def see_Constant(self, node: ast.Constant, scope: Scope) -> Value:  # noqa: ARG002
        return Const(node.value)

    def see_Name(self, node: ast.Name, scope: Scope) -> Value:
        return scope.get(node.id)

    def see_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        self.bind(node.target, value, scope)
        return value

    def see_Attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        return self.attribute(self.evaluate(node.value, scope), node.attr)

    def see_Lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        return Function(node, scope, self.source)

    def see_List(self, node: ast.List, scope: Scope) -> Value:
        return self._items(node.elts, scope, is_tuple=False)

    def see_Tuple(self, node: ast.Tuple, scope: Scope) -> Value:
        return self._items(node.elts, scope, is_tuple=True)

    def _items(self, nodes: list[ast.expr], scope: Scope, *, is_tuple: bool) -> Value:
        """A list or tuple, with the items of those that are unpacked in it."""
        items: list[Value] = []
        for node in nodes:
            value = self.evaluate(node.value if isinstance(node, ast.Starred) else node, scope)
            if isinstance(node, ast.Starred) and not isinstance(value, Seq):
                return UNKNOWN
            items += value.items if isinstance(node, ast.Starred) and isinstance(value, Seq) else [value]
        return Seq(items, is_tuple)

    def see_Dict(self, node: ast.Dict, scope: Scope) -> Value:
        mapping = Mapping({}, {}, self.source)
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.evaluate(item, scope)
            if key is None:
                if isinstance(value, Mapping):
                    mapping.items |= value.items
                    mapping.nodes |= value.nodes
                mapping.is_whole &= isinstance(value, Mapping) and value.is_whole
                continue
            name = self.evaluate(key, scope)
            mapping.is_whole &= isinstance(name, Const)
            if isinstance(name, Const):
                mapping.items[name.value], mapping.nodes[name.value] = value, key
        return mapping

    def see_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Value:
        return text_of(*(self.evaluate(part, scope) for part in node.values))

    def see_FormattedValue(self, node: ast.FormattedValue, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        if isinstance(value, Text) and node.conversion == -1 and node.format_spec is None:
            return value
        if not isinstance(value, Const) or node.conversion != -1:
            return UNKNOWN
        form = self.evaluate(node.format_spec, scope) if node.format_spec is not None else Const("")
        try:
            return Const(format(value.value, form.value)) if isinstance(form, Const) else UNKNOWN
        except (ValueError, TypeError):
            return UNKNOWN

    def see_BinOp(self, node: ast.BinOp, scope: Scope) -> Value:
        return self.binary(node, node.op, self.evaluate(node.left, scope), self.evaluate(node.right, scope))

    def binary(self, node: ast.AST, operator: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(operator, ast.Add | ast.Div) and _is_text(right) and (_is_text(left) or left is UNKNOWN):
            between = [Const("/")] if isinstance(operator, ast.Div) else []  # of a path and a name
            return text_of(left, *between, right)
        if isinstance(left, Const) and isinstance(right, Const) and type(operator) in _OPERATORS:
            try:
                if isinstance(left.value, str) and isinstance(operator, ast.Mult):
                    return UNKNOWN
                return Const(_OPERATORS[type(operator)](left.value, right.value))
            except (TypeError, ValueError, ArithmeticError):
                return UNKNOWN
        if isinstance(left, Seq) and isinstance(right, Seq) and isinstance(operator, ast.Add):
            return Seq(left.items + right.items, left.is_tuple)
        call = Call("", cast("ast.Call", node), self.source, run=cast("Interpreter", self))
        return tensorflow_calls.arithmetic(call, operator, left, right)

    def see_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            known = self.truth(value)
            return UNKNOWN if known is None else Const(not known)
        if isinstance(node.op, ast.USub) and isinstance(value, Const) and isinstance(value.value, int | float):
            return Const(-value.value)
        return UNKNOWN

    def see_BoolOp(self, node: ast.BoolOp, scope: Scope) -> Value:
        values = [self.evaluate(value, scope) for value in node.values]
        truths = [self.truth(value) for value in values]
        ends = not isinstance(node.op, ast.And)  # the truth at which it stops
        if ends is False and False in truths:
            return Const(False)
        for value, truth in zip(values, truths, strict=True):
            if truth is None:
                return UNKNOWN
            if truth is ends:
                return value
        return values[-1]

    def see_Compare(self, node: ast.Compare, scope: Scope) -> Value:
        left = self.evaluate(node.left, scope)
        right = self.evaluate(node.comparators[0], scope)
        if len(node.ops) == 1 and isinstance(left, Const) and isinstance(right, Const):
            if isinstance(node.ops[0], ast.Eq | ast.Is):
                return Const(left.value == right.value)
            if isinstance(node.ops[0], ast.NotEq | ast.IsNot):
                return Const(left.value != right.value)
        is_there = isinstance(left, Dataset | Function | Module | Made | Model | Instance | Tensor)
        if is_there and isinstance(right, Const) and right.value is None:
            return Const(isinstance(node.ops[0], ast.IsNot | ast.NotEq))
        return UNKNOWN

    def see_IfExp(self, node: ast.IfExp, scope: Scope) -> Value:
        known = self.truth(self.evaluate(node.test, scope))
        if known is not None:
            return self.evaluate(node.body if known else node.orelse, scope)
        return join(self.evaluate(node.body, scope), self.evaluate(node.orelse, scope))

    def see_Subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        key = self.evaluate(node.slice, scope)
        if isinstance(value, Mapping) and isinstance(key, Const):
            return value.items.get(key.value, UNKNOWN)
        if isinstance(value, Seq) and isinstance(key, Const) and isinstance(key.value, int):
            return value.items[key.value] if -len(value.items) <= key.value < len(value.items) else UNKNOWN
        if isinstance(value, Seq) and isinstance(node.slice, ast.Slice):
            ends = [node.slice.lower, node.slice.upper]
            known = [self.evaluate(end, scope) if end is not None else Const(None) for end in ends]
            if node.slice.step is None and all(isinstance(end, Const) for end in known):
                return Seq(value.items[slice(*(end.value for end in known if isinstance(end, Const)))], value.is_tuple)
        return value.but(shape=indexed(value.shape, node.slice)) if isinstance(value, Tensor) else UNKNOWN

    def see_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope) -> Value:
        inner = Scope(scope)
        for generator in node.generators:
            iterable = self.evaluate(generator.iter, inner)
            self.bind(generator.target, self.item_of(iterable, generator.iter, inner), inner)
        element = self.evaluate(node.elt, inner)
        if isinstance(node, ast.SetComp):
            return Module("builtins.set()")
        if isinstance(element, Text):  # names that differ in what is not known
            return Files([element.pattern], node, self.source, is_guessed=True)
        return UNKNOWN

    see_SetComp = see_GeneratorExp = see_ListComp

    def see_Set(self, node: ast.Set, scope: Scope) -> Value:  # noqa: ARG002
        return Module("builtins.set()")

    def see_DictComp(self, node: ast.DictComp, scope: Scope) -> Value:
        inner = Scope(scope)
        for generator in node.generators:
            iterable = self.evaluate(generator.iter, inner)
            self.bind(generator.target, self.item_of(iterable, generator.iter, inner), inner)
        self.evaluate(node.key, inner)
        self.evaluate(node.value, inner)
        return self._each_key(node, scope) if len(node.generators) == 1 else UNKNOWN

    def _each_key(self, node: ast.DictComp, scope: Scope) -> Value:
        """A dict made in a loop over values that are all known."""
        iterable, mapping = self.evaluate(node.generators[0].iter, scope), Mapping({}, {}, self.source)
        if not isinstance(iterable, Seq) or node.generators[0].ifs:
            return UNKNOWN
        for item in iterable.items:
            inner = Scope(scope)
            self.bind(node.generators[0].target, item, inner)
            key = self.evaluate(node.key, inner)
            if not isinstance(key, Const):
                return UNKNOWN
            mapping.items[key.value], mapping.nodes[key.value] = self.evaluate(node.value, inner), node.key
        return mapping

    def see_Await(self, node: ast.Await, scope: Scope) -> Value:
        return self.evaluate(node.value, scope)

    def see_Starred(self, node: ast.Starred, scope: Scope) -> Value:
        self.evaluate(node.value, scope)
        return UNKNOWN

    def bind(self, target: ast.expr, value: Value, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items if isinstance(value, Seq) and len(value.items) == len(target.elts) else None
            for i, element in enumerate(target.elts):
                self.bind(element, items[i] if items is not None else UNKNOWN, scope)
        elif isinstance(target, ast.Attribute):
            holder = self.evaluate(target.value, scope)
            if isinstance(holder, Instance):
                holder.attributes[target.attr] = value
            if target.attr == "trainable" and isinstance(holder, Made | Model | Instance) and isinstance(value, Const):
                holder.notes.add("changed")
                holder.notes.discard("frozen")
                holder.notes.update(() if value.value else {"frozen"})
                self.trace.add("trainable", target, self.source, of=holder, value=value.value)
            let_go(value)
        elif isinstance(target, ast.Subscript):
            holder, key = self.evaluate(target.value, scope), self.evaluate(target.slice, scope)
            if isinstance(holder, Mapping) and isinstance(key, Const):
                holder.items[key.value], holder.nodes[key.value] = value, target
            let_go(value)

    def item_of(self, iterable: Value, node: ast.expr, scope: Scope) -> Value:
        """What one step of a loop gives."""
        if isinstance(iterable, Dataset):
            self.trace.add("iterated", node, self.source, dataset=iterable)
            return iterable.element
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            inner = self.item_of(self.evaluate(node.args[0], scope), node.args[0], scope)
            if node.func.id == "enumerate":
                return Seq([UNKNOWN, inner], is_tuple=True)
            if node.func.id in ("tqdm", "iter", "list"):
                return inner
            if node.func.id == "zip":
                return Seq([self.item_of(self.evaluate(arg, scope), arg, scope) for arg in node.args], is_tuple=True)
        if isinstance(iterable, Seq) and iterable.items:
            return iterable.items[0]
        return UNKNOWN

    def truth(self, value: Value) -> bool | None:
        """Whether a value is true, if that is known."""
        if isinstance(value, Const):
            return bool(value.value)
        if isinstance(value, Function | Dataset | Made | Model):
            return True
        return None
