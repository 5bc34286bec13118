"""Names and what they stand for, of a function, of a module, of a module beside the script."""

from __future__ import annotations

from bushel.checking.script.values import Module, Seq, Value, Writer

__all__ = ["Local", "Scope", "let_go"]


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
