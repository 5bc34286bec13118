"""Follows a script over what is known of its values: assignments, calls, branches, classes, modules beside it.

Nothing of the script is run. What is not known is UNKNOWN, and nothing is concluded from it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bushel.checking.script import keras_calls, tensorflow_calls
from bushel.checking.script.dataset_calls import Call, dataset_method, other_method, watch
from bushel.checking.script.followed_script import Script, Trace, Use, read_script
from bushel.checking.script.known_values import (
    UNKNOWN,
    Alternatives,
    Class,
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
    Tensor,
    Text,
    indexed,
    join,
    let_go,
    sizes_of,
    text_of,
)
from bushel.errors import FileProblem

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def _is_text(value: KnownValue) -> bool:
    return isinstance(value, Text) or (isinstance(value, Const) and isinstance(value.value, str))


MAX_DEPTH = 24
MAX_CALLS = 4000
MAX_ITEMS = 8


class _Return(Exception):
    pass


def _opens_tape(statements: list[ast.stmt]) -> bool:
    """Whether statements open a gradient tape themselves, not in a loop or function inside of them."""
    for statement in statements:
        if isinstance(statement, ast.With) and "GradientTape" in ast.dump(statement.items[0]):
            return True
        inner = statement.body if isinstance(statement, ast.With | ast.If | ast.Try) else []
        if _opens_tape(inner):
            return True
    return False


class Interpreter:
    """Follows one script, and the modules beside it that it imports."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.depth = 0
        self.calls = 0
        self.effects: list[set[str]] = [set()]
        self.tapes = 0  # gradient tapes around what is followed now
        self.loops: list[set[str]] = []  # what happened in each loop around it
        self.mapped = 0  # functions of `map` around it
        self.replicas = 0  # functions of `strategy.run` around it
        self.unsure = 0  # branches around it of which nobody knows whether they are taken
        self.in_step = 0  # functions and loops around it whose own statements open a tape
        self.ranges: dict[int, tuple[str | None, ast.AST]] = {}  # of what models are given, and where
        self.function = ""  # the name of the function that is followed
        self.modules: dict[str, Scope] = {}
        self.called: set[int] = set()
        self.returned: list[KnownValue] = []
        self.script = trace.script
        self.globals: dict[int, Scope] = {}

    # Modules

    def run(self, script: Script) -> Scope:
        """Follow a whole file, and then the functions that nothing in it calls."""
        scope = Scope()
        self.trace.scripts.append(script)
        scope.names["__file__"] = Const(str(script.path.absolute()))
        scope.names["__name__"] = Const("__main__" if script is self.trace.script else script.path.stem)
        outer, self.script = self.script, script
        try:
            self.block(script.tree.body, scope)
        except _Return:
            self.trace.note(script.tree.body[0], script, "what comes after a raise at the top level")
        if script is self.trace.script:
            self._follow_uncalled(script, scope)
        self.script = outer
        return scope

    def _follow_uncalled(self, script: Script, scope: Scope) -> None:
        for value in list(scope.names.values()):
            if isinstance(value, Function) and value.script is script and id(value.node) not in self.called:
                self.apply(value, [], {})
            elif isinstance(value, Class) and value.script is script and id(value.node) not in self.called:
                instance = self.instantiate(value, [], {})
                for item in value.node.body:
                    if isinstance(item, ast.FunctionDef) and id(item) not in self.called:
                        self.apply(Function(item, value.scope, script, [instance]), [], {})

    def import_module(self, name: str) -> KnownValue:
        """A module beside the script is followed too; any other is known by its name."""
        if name in self.modules:
            return Local(self.modules[name])
        path = self._file_of(name)
        if path is None or self.depth > MAX_DEPTH:
            return Module(tensorflow_calls.canonical(name))
        self.modules[name] = Scope()
        try:
            script = read_script(path)
        except FileProblem as problem:
            self.trace.not_followed.append(str(problem).split("\n", maxsplit=1)[0])
            return UNKNOWN
        self.depth += 1
        self.modules[name] = self.run(script)
        self.depth -= 1
        return Local(self.modules[name])

    def _file_of(self, name: str) -> Path | None:
        """The file of a module beside the script, or of one of the packages that it is in."""
        folder = self.trace.script.path.parent
        folders = [folder, *(folder.parents[:2] if (folder / "__init__.py").exists() else ())]
        if name.startswith("."):
            plain = name.lstrip(".")
            folders = [self.script.path.parents[len(name) - len(plain) - 1]]
            name = plain
        for place in folders:
            path = place.joinpath(*name.split(".")) if name else place
            for found in (path.with_suffix(".py"), path / "__init__.py"):
                if found.is_file() and found != self.trace.script.path:
                    return found
        return None

    # Statements

    def block(self, statements: list[ast.stmt], scope: Scope) -> None:
        for statement in statements:
            self.statement(statement, scope)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        follow = getattr(self, f"do_{type(node).__name__}", None)
        if follow is not None:
            follow(node, scope)

    def do_Import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            if alias.asname:
                scope.names[alias.asname] = self.import_module(alias.name)
            else:
                first = alias.name.split(".")[0]
                scope.names[first] = self.import_module(first)

    def do_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        name = "." * node.level + (node.module or "")
        module = self.import_module(name)
        for alias in node.names:
            if alias.name == "*":
                if isinstance(module, Local):
                    scope.names.update(module.scope.names)
                continue
            inner = f"{name}.{alias.name}" if name.strip(".") else f"{name}{alias.name}"
            is_file = self._file_of(inner) is not None
            found = self.import_module(inner) if is_file else self.attribute(module, alias.name)
            scope.names[alias.asname or alias.name] = found

    def do_FunctionDef(self, node: ast.FunctionDef, scope: Scope) -> None:
        scope.names[node.name] = Function(node, scope, self.script)

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        bases = [self.evaluate(base, scope) for base in node.bases]
        inner = Scope(scope)
        scope.names[node.name] = Class(node, inner, self.script, bases)
        for item in node.body:
            if isinstance(item, ast.Assign | ast.AnnAssign):
                self.statement(item, inner)

    def do_Assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.evaluate(node.value, scope)
        for target in node.targets:
            self.bind(target, value, scope)

    def do_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.bind(node.target, self.evaluate(node.value, scope), scope)

    def do_AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:
        value = self.binary(node, node.op, self.evaluate(node.target, scope), self.evaluate(node.value, scope))
        self.bind(node.target, value, scope)

    def do_Expr(self, node: ast.Expr, scope: Scope) -> None:
        value = self.evaluate(node.value, scope)
        call: Any = node.value
        is_method = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if isinstance(value, ScriptDataset) and is_method and value.links and call.func.attr == value.links[-1].name:
            self.trace.add("thrown-away", call, self.script, dataset=value)
        if isinstance(value, Tensor) and is_method and call.args and call.func.attr == "set_shape":  # in place
            shape = sizes_of(self.evaluate(call.args[0], scope)) or value.shape
            self.bind(call.func.value, value.but(shape=shape, marks=value.marks - {"no shape"}), scope)

    def do_Return(self, node: ast.Return, scope: Scope) -> None:
        value = self.evaluate(node.value, scope) if node.value is not None else Const(None)
        let_go(value)
        self.returned.append(value)
        raise _Return

    def do_Raise(self, node: ast.Raise, scope: Scope) -> None:  # noqa: ARG002
        raise _Return

    def do_If(self, node: ast.If, scope: Scope) -> None:
        known = self.truth(self.evaluate(node.test, scope))
        if known is not None:
            self.block(node.body if known else node.orelse, scope)
            return
        before = dict(scope.names)
        self.unsure += 1
        ends = self._branch(node.body, scope)
        after, scope.names = scope.names, dict(before)
        other_ends = self._branch(node.orelse, scope)
        self.unsure -= 1
        if ends and other_ends:
            raise _Return
        if ends:
            return
        if other_ends:
            scope.names = after
            return
        for name in {*after, *scope.names}:
            one, two = after.get(name, before.get(name, UNKNOWN)), scope.names.get(name, UNKNOWN)
            scope.names[name] = join(one, two)

    def _branch(self, statements: list[ast.stmt], scope: Scope) -> bool:
        """True if the branch leaves the function."""
        try:
            self.block(statements, scope)
        except _Return:
            return True
        return False

    def do_For(self, node: ast.For, scope: Scope) -> None:
        iterable = self.evaluate(node.iter, scope)
        items = iterable.items[:MAX_ITEMS] if isinstance(iterable, Seq) else [self.item_of(iterable, node.iter, scope)]
        dataset = self._iterated(node.iter, scope, iterable)
        for item in items:
            self.bind(node.target, item, scope)
            happened = self._round(node, scope)
            if dataset is not None and "step" in happened:
                self.trace.uses.append(Use("train", dataset, node, self.script))
            elif dataset is not None and "model" in happened:
                self.trace.uses.append(Use("eval", dataset, node, self.script))
        self.block(node.orelse, scope)

    do_AsyncFor = do_For

    def _round(self, node: ast.For | ast.AsyncFor | ast.While, scope: Scope) -> set[str]:
        """What happens in one round of a loop."""
        names = ast.unparse(node.target) if isinstance(node, ast.For | ast.AsyncFor) else ""
        self.loops.append({"epoch"} if "epoch" in names else set())
        is_step = _opens_tape(node.body)
        self.in_step += is_step
        if self._branch(node.body, scope):
            self.loops[-1].add("return")
        self.in_step -= is_step
        happened = self.loops.pop()
        if self.loops:
            self.loops[-1] |= happened
        return happened

    def _iterated(self, node: ast.expr, scope: Scope, value: KnownValue) -> KnownValue | None:
        """The dataset that a loop goes over, through enumerate and the like."""
        while isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
            node = node.args[0]
            value = self.evaluate(node, scope)
        return value if isinstance(value, ScriptDataset | Alternatives) else None

    def do_While(self, node: ast.While, scope: Scope) -> None:
        self.evaluate(node.test, scope)
        self._round(node, scope)

    def do_With(self, node: ast.With, scope: Scope) -> None:
        tapes = 0
        for item in node.items:
            value = self.evaluate(item.context_expr, scope)
            tapes += isinstance(value, KerasObject) and value.kind == "GradientTape"
            if isinstance(value, ScriptWriter):
                value.is_closed = True
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, scope)
        self.tapes += tapes
        try:
            self.block(node.body, scope)
        finally:
            self.tapes -= tapes

    do_AsyncWith = do_With

    def do_Try(self, node: ast.Try, scope: Scope) -> None:
        self.block(node.body, scope)
        for handler in node.handlers:
            self._branch(handler.body, scope)
        self.block(node.orelse, scope)
        self.block(node.finalbody, scope)

    # Calls

    def see_Call(self, node: ast.Call, scope: Scope) -> KnownValue:
        given = self._items(node.args, scope, is_tuple=True)
        args = tuple(given.items) if isinstance(given, Seq) else ()
        keywords = {k.arg: self.evaluate(k.value, scope) for k in node.keywords if k.arg is not None}
        for keyword in node.keywords:
            more = self.evaluate(keyword.value, scope) if keyword.arg is None else None
            if isinstance(more, Mapping):
                keywords |= {name: value for name, value in more.items.items() if isinstance(name, str)}
            elif more is not None:
                keywords["**"] = UNKNOWN
        if isinstance(node.func, ast.Attribute):
            receiver = self.evaluate(node.func.value, scope)
            return self.method(receiver, Call(node.func.attr, node, self.script, args, keywords, self))
        return self.call(self.evaluate(node.func, scope), Call("", node, self.script, args, keywords, self))

    def method(self, receiver: KnownValue, call: Call) -> KnownValue:
        """Call a method of something, by the call's name."""
        if isinstance(receiver, Alternatives):
            found = [self.method(option, call) for option in receiver.options]
            return Alternatives(found) if all(isinstance(f, ScriptDataset) for f in found) else UNKNOWN
        if isinstance(receiver, ScriptDataset):
            return dataset_method(call, receiver)
        if isinstance(receiver, KerasObject):
            return tensorflow_calls.made_method(call, receiver)
        if isinstance(receiver, Instance) and (
            call.name in receiver.attributes or self._method_of(receiver, call.name)
        ):
            return self.call(self.attribute(receiver, call.name), call)
        if isinstance(receiver, Model | ScriptWriter) or keras_calls.is_model(receiver):
            return keras_calls.object_method(call, receiver)
        if isinstance(receiver, Module | Local):
            watch(call)
            return self.call(self.attribute(receiver, call.name), call)
        return other_method(call, receiver)

    def call(self, function: KnownValue, call: Call) -> KnownValue:
        """Call a value."""
        if isinstance(function, Function):
            return self.apply(function, list(call.args), call.keywords)
        if isinstance(function, Class):
            return self.instantiate(function, list(call.args), call.keywords)
        if isinstance(function, Model | Instance) or (isinstance(function, KerasObject) and function.is_layer):
            return keras_calls.apply_layers(call, function)
        if isinstance(function, Module):
            return tensorflow_calls.call_by_name(replace(call, name=function.name))
        if isinstance(function, KerasObject) and ".losses." in function.name and len(call.args) > 1:
            return keras_calls.loss_call(call, function, call.args[0], call.args[1])
        if isinstance(function, KerasObject) and ".metrics." in function.name:
            return keras_calls.made_method(replace(call, name="update_state"), function)
        if not isinstance(function, Const | Tensor | KerasObject):
            for value in (*call.args, *call.keywords.values()):
                let_go(value)
        return UNKNOWN

    def apply(self, function: Function, args: list[KnownValue], keywords: dict[str, KnownValue]) -> KnownValue:
        """Follow a call of a function of the script; parameters that are not given are not known."""
        self.called.add(id(function.node))
        self.calls += 1
        if self.depth >= MAX_DEPTH or self.calls > MAX_CALLS:
            self.trace.note(function.node, function.script, "calls are nested too deeply, or too many")
            return UNKNOWN
        scope = Scope(function.scope)
        self._bind_parameters(function, [*function.bound, *args], {**function.keywords, **keywords}, scope)
        kept = self.script, self.function, self.returned, self.in_step, self.loops
        self.script, self.function, self.returned = function.script, getattr(function.node, "name", ""), []
        self.depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.evaluate(function.node.body, scope)
            self.in_step += _opens_tape(function.node.body)
            self.block(function.node.body, scope)
        except _Return:
            pass
        finally:
            self.depth -= 1
            mine = self.returned
            self.script, self.function, self.returned, self.in_step, self.loops = kept
        result: KnownValue = mine[0] if mine else Const(None)
        for other in mine[1:]:
            result = join(result, other)
        return result

    def _bind_parameters(
        self, function: Function, args: list[KnownValue], keywords: dict[str, KnownValue], scope: Scope
    ) -> None:
        parameters = function.node.args
        names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        defaults = dict(zip(names[len(names) - len(parameters.defaults) :], parameters.defaults, strict=True))
        for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            names.append(parameter.arg)
            if default is not None:
                defaults[parameter.arg] = default
        positional = len(names) - len(parameters.kwonlyargs)
        for i, name in enumerate(names):
            if i < len(args) and i < positional:
                scope.names[name] = args[i]
            elif name in keywords:
                scope.names[name] = keywords[name]
            elif name in defaults:
                scope.names[name] = self.evaluate(defaults[name], function.scope)
            else:
                scope.names[name] = UNKNOWN
        for rest in (parameters.vararg, parameters.kwarg):
            if rest is not None:
                scope.names[rest.arg] = UNKNOWN

    def instantiate(self, of: Class, args: list[KnownValue], keywords: dict[str, KnownValue]) -> KnownValue:
        self.called.add(id(of.node))
        instance = Instance(of, dict(of.scope.names))
        if (made := self._method_of(instance, "__init__")) is not None:
            self.apply(made, args, keywords)
        elif any(isinstance(item, ast.AnnAssign) for item in of.node.body):
            names = [
                item.target.id
                for item in of.node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
            instance.attributes |= dict(zip(names, args, strict=False)) | keywords
        return instance

    def _method_of(self, instance: Instance, name: str) -> Function | None:
        classes: list[KnownValue] = [instance.of]
        while classes:
            of = classes.pop(0)
            if isinstance(of, Class):
                for item in of.node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == name:
                        is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in item.decorator_list)
                        return Function(item, of.scope.parent or of.scope, of.script, [] if is_static else [instance])
                classes += of.bases
        return None

    def attribute(self, value: KnownValue, name: str) -> KnownValue:
        if isinstance(value, Model) and name in ("layers", "output", "input"):
            return Seq(list(value.layers)) if name == "layers" else value.output if name == "output" else value.inputs
        if name in ("trainable_variables", "trainable_weights") and isinstance(value, KerasObject | Model | Instance):
            return Seq([value])
        if isinstance(value, Module):
            return Module(tensorflow_calls.canonical(f"{value.name}.{name}"))
        if isinstance(value, Local):
            return value.scope.names.get(name, UNKNOWN)
        if isinstance(value, Instance):
            if name in value.attributes:
                return value.attributes[name]
            method = self._method_of(value, name)
            decorators = getattr(method.node, "decorator_list", []) if method is not None else []
            if method is not None and any(isinstance(d, ast.Name) and d.id == "property" for d in decorators):
                return self.apply(method, [], {})
            return method if method is not None else UNKNOWN
        if isinstance(value, Class):
            found: KnownValue = value.scope.names.get(name, UNKNOWN)
            return found
        return UNKNOWN

    # Expressions

    def evaluate(self, node: ast.expr, scope: Scope) -> KnownValue:
        follow = getattr(self, f"see_{type(node).__name__}", None)
        if follow is not None:
            value: KnownValue = follow(node, scope)
            return value
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, scope)
        return UNKNOWN

    def see_Constant(self, node: ast.Constant, scope: Scope) -> KnownValue:  # noqa: ARG002
        return Const(node.value)

    def see_Name(self, node: ast.Name, scope: Scope) -> KnownValue:
        return scope.get(node.id)

    def see_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> KnownValue:
        value = self.evaluate(node.value, scope)
        self.bind(node.target, value, scope)
        return value

    def see_Attribute(self, node: ast.Attribute, scope: Scope) -> KnownValue:
        return self.attribute(self.evaluate(node.value, scope), node.attr)

    def see_Lambda(self, node: ast.Lambda, scope: Scope) -> KnownValue:
        return Function(node, scope, self.script)

    def see_List(self, node: ast.List, scope: Scope) -> KnownValue:
        return self._items(node.elts, scope, is_tuple=False)

    def see_Tuple(self, node: ast.Tuple, scope: Scope) -> KnownValue:
        return self._items(node.elts, scope, is_tuple=True)

    def _items(self, nodes: list[ast.expr], scope: Scope, *, is_tuple: bool) -> KnownValue:
        """A list or tuple, with the items of those that are unpacked in it."""
        items: list[KnownValue] = []
        for node in nodes:
            value = self.evaluate(node.value if isinstance(node, ast.Starred) else node, scope)
            if isinstance(node, ast.Starred) and not isinstance(value, Seq):
                return UNKNOWN
            items += value.items if isinstance(node, ast.Starred) and isinstance(value, Seq) else [value]
        return Seq(items, is_tuple)

    def see_Dict(self, node: ast.Dict, scope: Scope) -> KnownValue:
        mapping = Mapping({}, {}, self.script)
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

    def see_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> KnownValue:
        return text_of(*(self.evaluate(part, scope) for part in node.values))

    def see_FormattedValue(self, node: ast.FormattedValue, scope: Scope) -> KnownValue:
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

    def see_BinOp(self, node: ast.BinOp, scope: Scope) -> KnownValue:
        return self.binary(node, node.op, self.evaluate(node.left, scope), self.evaluate(node.right, scope))

    def binary(self, node: ast.AST, operator: ast.operator, left: KnownValue, right: KnownValue) -> KnownValue:
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
        call = Call("", cast("ast.Call", node), self.script, reader=self)
        return tensorflow_calls.arithmetic(call, operator, left, right)

    def see_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> KnownValue:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            known = self.truth(value)
            return UNKNOWN if known is None else Const(not known)
        if isinstance(node.op, ast.USub) and isinstance(value, Const) and isinstance(value.value, int | float):
            return Const(-value.value)
        return UNKNOWN

    def see_BoolOp(self, node: ast.BoolOp, scope: Scope) -> KnownValue:
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

    def see_Compare(self, node: ast.Compare, scope: Scope) -> KnownValue:
        left = self.evaluate(node.left, scope)
        right = self.evaluate(node.comparators[0], scope)
        if len(node.ops) == 1 and isinstance(left, Const) and isinstance(right, Const):
            if isinstance(node.ops[0], ast.Eq | ast.Is):
                return Const(left.value == right.value)
            if isinstance(node.ops[0], ast.NotEq | ast.IsNot):
                return Const(left.value != right.value)
        is_there = isinstance(left, ScriptDataset | Function | Module | KerasObject | Model | Instance | Tensor)
        if is_there and isinstance(right, Const) and right.value is None:
            return Const(isinstance(node.ops[0], ast.IsNot | ast.NotEq))
        return UNKNOWN

    def see_IfExp(self, node: ast.IfExp, scope: Scope) -> KnownValue:
        known = self.truth(self.evaluate(node.test, scope))
        if known is not None:
            return self.evaluate(node.body if known else node.orelse, scope)
        return join(self.evaluate(node.body, scope), self.evaluate(node.orelse, scope))

    def see_Subscript(self, node: ast.Subscript, scope: Scope) -> KnownValue:
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

    def see_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope) -> KnownValue:
        inner = Scope(scope)
        for generator in node.generators:
            iterable = self.evaluate(generator.iter, inner)
            self.bind(generator.target, self.item_of(iterable, generator.iter, inner), inner)
        element = self.evaluate(node.elt, inner)
        if isinstance(node, ast.SetComp):
            return Module("builtins.set()")
        if isinstance(element, Text):  # names that differ in what is not known
            return Files([element.pattern], node, self.script, is_guessed=True)
        return UNKNOWN

    see_SetComp = see_GeneratorExp = see_ListComp

    def see_Set(self, node: ast.Set, scope: Scope) -> KnownValue:  # noqa: ARG002
        return Module("builtins.set()")

    def see_DictComp(self, node: ast.DictComp, scope: Scope) -> KnownValue:
        inner = Scope(scope)
        for generator in node.generators:
            iterable = self.evaluate(generator.iter, inner)
            self.bind(generator.target, self.item_of(iterable, generator.iter, inner), inner)
        self.evaluate(node.key, inner)
        self.evaluate(node.value, inner)
        return self._each_key(node, scope) if len(node.generators) == 1 else UNKNOWN

    def _each_key(self, node: ast.DictComp, scope: Scope) -> KnownValue:
        """A dict made in a loop over values that are all known."""
        iterable, mapping = self.evaluate(node.generators[0].iter, scope), Mapping({}, {}, self.script)
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

    def see_Await(self, node: ast.Await, scope: Scope) -> KnownValue:
        return self.evaluate(node.value, scope)

    def see_Starred(self, node: ast.Starred, scope: Scope) -> KnownValue:
        self.evaluate(node.value, scope)
        return UNKNOWN

    def bind(self, target: ast.expr, value: KnownValue, scope: Scope) -> None:
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
            if (
                target.attr == "trainable"
                and isinstance(holder, KerasObject | Model | Instance)
                and isinstance(value, Const)
            ):
                holder.notes.add("changed")
                holder.notes.discard("frozen")
                holder.notes.update(() if value.value else {"frozen"})
                self.trace.add("trainable", target, self.script, of=holder, value=value.value)
            let_go(value)
        elif isinstance(target, ast.Subscript):
            holder, key = self.evaluate(target.value, scope), self.evaluate(target.slice, scope)
            if isinstance(holder, Mapping) and isinstance(key, Const):
                holder.items[key.value], holder.nodes[key.value] = value, target
            let_go(value)

    def item_of(self, iterable: KnownValue, node: ast.expr, scope: Scope) -> KnownValue:
        """What one step of a loop gives."""
        if isinstance(iterable, ScriptDataset):
            self.trace.add("iterated", node, self.script, dataset=iterable)
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

    def truth(self, value: KnownValue) -> bool | None:
        """Whether a value is true, if that is known."""
        if isinstance(value, Const):
            return bool(value.value)
        if isinstance(value, Function | ScriptDataset | KerasObject | Model):
            return True
        return None
