"""Teach the reader of docstrings what bushel does: `resize, crop = Resize, Crop`, structs of msgspec, and doctests."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe


class Structs(griffe.Extension):
    """Names that are given to classes in one assignment, and structs that are made from their fields."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Show a doctest as code: in Markdown its prompt would be a quotation."""
        if obj.docstring:
            obj.docstring.value = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)

    def on_module_members(self, *, node: ast.AST | Any, mod: griffe.Module, **kwargs: Any) -> None:
        """Make `resize` another name of `Resize`."""
        for statement in getattr(node, "body", []):
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                for name, value in _pairs(statement.targets[0], statement.value):
                    # What is imported cannot be looked at yet: its module is not loaded.
                    if isinstance(mod.members.get(value), griffe.Class):
                        mod.set_member(name, griffe.Alias(name, f"{mod.path}.{value}", parent=mod))

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Give a struct the parameters that its fields are."""
        if not any(str(base).endswith("Struct") for base in cls.bases) or "__init__" in cls.members:
            return
        only = griffe.ParameterKind.keyword_only
        kind = only if cls.keywords.get("kw_only") else griffe.ParameterKind.positional_or_keyword
        fields = [field for field in cls.attributes.values() if "class-attribute" in field.labels or field.annotation]
        parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
        for field in fields:
            parameters.append(griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value))
        made = griffe.Function("__init__", lineno=0, endlineno=0, parent=cls, parameters=griffe.Parameters(*parameters))
        cls.set_member("__init__", made)


_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, str]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [pair for one, other in zip(target.elts, value.elts, strict=True) for pair in _pairs(one, other)]
    if isinstance(target, ast.Name) and isinstance(value, ast.Name):
        return [(target.id, value.id)]
    return []
