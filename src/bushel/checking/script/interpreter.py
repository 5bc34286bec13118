"""Follows a script over what is known of its values: assignments, calls, branches, classes, modules beside it.

Nothing of the script is run. What is not known is UNKNOWN, and nothing is concluded from it.
"""

from __future__ import annotations

import ast

from bushel.checking.script import dataset_calls, keras_calls, tensorflow_calls
from bushel.checking.script.expressions import Expressions
from bushel.checking.script.known_values import (
    UNKNOWN,
    Alternatives,
    Class,
    Const,
    Dataset,
    Function,
    Instance,
    Layer,
    Local,
    Loss,
    Model,
    Module,
    Scope,
    Seq,
    Tensor,
    Value,
    Writer,
    join,
    let_go,
)
from bushel.checking.script.source import Source, read_source
from bushel.checking.script.trace import Trace, Use
from bushel.errors import FileProblem

__all__ = ["Interpreter", "Scope"]

MAX_DEPTH = 24
MAX_CALLS = 4000
MAX_ITEMS = 8


class _Return(Exception):
    pass


class Interpreter(Expressions):
    """Follows one script, and the modules beside it that it imports."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.depth = 0
        self.calls = 0
        self.effects: list[set[str]] = [set()]
        self.tapes = 0  # gradient tapes around what is followed now
        self.loops: list[set[str]] = []  # what happened in each loop around it
        self.mapped = 0  # functions of `map` around it
        self.modules: dict[str, Scope] = {}
        self.called: set[int] = set()
        self.returned: list[Value] = []
        self.source = trace.source
        self.globals: dict[int, Scope] = {}

    # Modules

    def run(self, source: Source) -> Scope:
        """Follow a whole file, and then the functions that nothing in it calls."""
        scope = Scope()
        scope.names["__name__"] = Const("__main__" if source is self.trace.source else source.path.stem)
        outer, self.source = self.source, source
        try:
            self.block(source.tree.body, scope)
        except _Return:
            self.trace.note(source.tree.body[0], source, "what comes after a raise at the top level")
        if source is self.trace.source:
            self._follow_uncalled(source, scope)
        self.source = outer
        return scope

    def _follow_uncalled(self, source: Source, scope: Scope) -> None:
        for value in list(scope.names.values()):
            if isinstance(value, Function) and value.source is source and id(value.node) not in self.called:
                self.apply(value, [], {})
            elif isinstance(value, Class) and value.source is source and id(value.node) not in self.called:
                instance = self.instantiate(value, [], {})
                for item in value.node.body:
                    if isinstance(item, ast.FunctionDef) and id(item) not in self.called:
                        self.apply(Function(item, value.scope, source, [instance]), [], {})

    def import_module(self, name: str) -> Value:
        """A module beside the script is followed too; any other is known by its name."""
        if name in self.modules:
            return Local(self.modules[name])
        path = self.trace.source.path.parent.joinpath(*name.split(".")).with_suffix(".py")
        if not path.is_file() or self.depth > MAX_DEPTH:
            return Module(tensorflow_calls.canonical(name))
        self.modules[name] = Scope()
        try:
            source = read_source(path)
        except FileProblem as problem:
            self.trace.not_followed.append(str(problem).split("\n", maxsplit=1)[0])
            return UNKNOWN
        self.depth += 1
        self.modules[name] = self.run(source)
        self.depth -= 1
        return Local(self.modules[name])

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
        module = self.import_module(node.module or "")
        for alias in node.names:
            if alias.name == "*":
                if isinstance(module, Local):
                    scope.names.update(module.scope.names)
                continue
            scope.names[alias.asname or alias.name] = self.attribute(module, alias.name)

    def do_FunctionDef(self, node: ast.FunctionDef, scope: Scope) -> None:
        scope.names[node.name] = Function(node, scope, self.source)

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        bases = [self.evaluate(base, scope) for base in node.bases]
        inner = Scope(scope)
        scope.names[node.name] = Class(node, inner, self.source, bases)
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
        if isinstance(value, Dataset) and isinstance(node.value, ast.Call) and value.links:
            self.trace.add("thrown-away", node.value, self.source, dataset=value)

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
        ends = self._branch(node.body, scope)
        after, scope.names = scope.names, dict(before)
        other_ends = self._branch(node.orelse, scope)
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
            self.loops.append(set())
            try:
                self.block(node.body, scope)
            except _Return:
                self.loops[-1].add("return")
            happened = self.loops.pop()
            if self.loops:
                self.loops[-1] |= happened
            if dataset is not None and "step" in happened:
                self.trace.uses.append(Use("train", dataset, node, self.source))
            elif dataset is not None and "model" in happened:
                self.trace.uses.append(Use("eval", dataset, node, self.source))
        self.block(node.orelse, scope)

    do_AsyncFor = do_For

    def _iterated(self, node: ast.expr, scope: Scope, value: Value) -> Value | None:
        """The dataset that a loop goes over, through enumerate and the like."""
        while isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
            node = node.args[0]
            value = self.evaluate(node, scope)
        return value if isinstance(value, Dataset | Alternatives) else None

    def do_While(self, node: ast.While, scope: Scope) -> None:
        self.evaluate(node.test, scope)
        self.loops.append(set())
        self._branch(node.body, scope)
        happened = self.loops.pop()
        if self.loops:
            self.loops[-1] |= happened

    def do_With(self, node: ast.With, scope: Scope) -> None:
        tapes = 0
        for item in node.items:
            value = self.evaluate(item.context_expr, scope)
            if isinstance(value, Module) and value.name == "tensorflow.GradientTape()":
                tapes += 1
            if isinstance(value, Writer):
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

    def see_Call(self, node: ast.Call, scope: Scope) -> Value:
        args = [self.evaluate(arg, scope) for arg in node.args]
        keywords = {k.arg: self.evaluate(k.value, scope) for k in node.keywords if k.arg is not None}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.evaluate(keyword.value, scope)
        if isinstance(node.func, ast.Attribute):
            receiver = self.evaluate(node.func.value, scope)
            return self.method(receiver, node.func.attr, node, args, keywords)
        return self.call(self.evaluate(node.func, scope), node, args, keywords)

    def method(
        self, receiver: Value, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        if isinstance(receiver, Alternatives):
            found = [self.method(option, name, node, args, keywords) for option in receiver.options]
            return Alternatives(found) if all(isinstance(f, Dataset) for f in found) else UNKNOWN
        if isinstance(receiver, Dataset):
            return dataset_calls.dataset_method(self, receiver, name, node, args, keywords)
        if isinstance(receiver, Model | Layer | Writer) or keras_calls.is_model(receiver):
            if isinstance(receiver, Instance) and (name in receiver.attributes or self._method_of(receiver, name)):
                return self.call(self.attribute(receiver, name), node, args, keywords)
            return keras_calls.object_method(self, receiver, name, node, args, keywords)
        if isinstance(receiver, Instance):
            return self.call(self.attribute(receiver, name), node, args, keywords)
        if isinstance(receiver, Module | Local):
            dataset_calls.watch(self, name, node, args)
            return self.call(self.attribute(receiver, name), node, args, keywords)
        return dataset_calls.other_method(self, receiver, name, node, args, keywords)

    def call(self, function: Value, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
        if isinstance(function, Function):
            return self.apply(function, args, keywords)
        if isinstance(function, Class):
            return self.instantiate(function, args, keywords)
        if isinstance(function, Layer | Model) or keras_calls.is_model(function):
            return keras_calls.apply_layers(self, function, node, args, keywords)
        if isinstance(function, Module):
            return tensorflow_calls.call_by_name(self, function.name, node, args, keywords)
        if isinstance(function, Loss) and len(args) > 1:
            self.trace.add("loss-call", node, self.source, loss=function, label=args[0], output=args[1])
            return UNKNOWN
        if isinstance(function, Const | Tensor):
            return UNKNOWN
        for value in (*args, *keywords.values()):
            let_go(value)
        return UNKNOWN

    def apply(self, function: Function, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Follow a call of a function of the script; parameters that are not given are not known."""
        self.called.add(id(function.node))
        self.calls += 1
        if self.depth >= MAX_DEPTH or self.calls > MAX_CALLS:
            self.trace.note(function.node, function.source, "calls are nested too deeply, or too many")
            return UNKNOWN
        scope = Scope(function.scope)
        self._bind_parameters(function, [*function.bound, *args], {**function.keywords, **keywords}, scope)
        outer, self.source = self.source, function.source
        self.depth += 1
        returned, self.returned = self.returned, []
        try:
            if isinstance(function.node, ast.Lambda):
                return self.evaluate(function.node.body, scope)
            self.block(function.node.body, scope)
        except _Return:
            pass
        finally:
            self.depth -= 1
            self.source = outer
            mine, self.returned = self.returned, returned
        result: Value = mine[0] if mine else Const(None)
        for other in mine[1:]:
            result = join(result, other)
        return result

    def _bind_parameters(self, function: Function, args: list[Value], keywords: dict[str, Value], scope: Scope) -> None:
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

    def instantiate(self, of: Class, args: list[Value], keywords: dict[str, Value]) -> Value:
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
        classes: list[Value] = [instance.of]
        while classes:
            of = classes.pop(0)
            if isinstance(of, Class):
                for item in of.node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == name:
                        is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in item.decorator_list)
                        return Function(item, of.scope.parent or of.scope, of.source, [] if is_static else [instance])
                classes += of.bases
        return None

    def attribute(self, value: Value, name: str) -> Value:
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
            found: Value = value.scope.names.get(name, UNKNOWN)
            return found
        return UNKNOWN
