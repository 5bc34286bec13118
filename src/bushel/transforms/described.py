"""Transforms as plain tables, which JSON and TOML can hold, and back."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bushel import transforms
from bushel.errors import nearest
from bushel.transforms.protocol import BatchTransform, Transform

__all__ = ["describe_transforms", "make_transforms"]


def describe_transforms(given: Sequence[Transform | BatchTransform]) -> list[dict[str, Any]]:
    """Transforms as a recipe or a contract holds them: where their class is, and the values of its fields."""
    return [_describe_transform(transform) for transform in given]


def _describe_transform(transform: Transform | BatchTransform) -> dict[str, Any]:
    kind = type(transform)
    if isinstance(transform, msgspec.Struct):
        fields = msgspec.to_builtins(msgspec.structs.asdict(transform))
    else:
        declared: Sequence[Any] = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        fields = {field.name: getattr(transform, field.name) for field in declared}
    return {"transform": _name_of(kind), **{name: value for name, value in fields.items() if value is not None}}


def _name_of(kind: type) -> str:
    """What a description calls a transform: one of bushel's by its name, any other by its module and class."""
    tag = getattr(getattr(kind, "__struct_config__", None), "tag", None)
    if isinstance(tag, str) and getattr(transforms, tag, None) is kind:
        return tag
    return f"{kind.__module__}:{kind.__qualname__}"


def make_transforms(tables: Sequence[Mapping[str, Any]]) -> list[Transform]:
    """The transforms that a description names, equal to those that were described."""
    made: list[Transform] = []
    for table in tables:
        fields = dict(table)
        name = str(fields.pop("transform", ""))
        try:
            made.append(_made(_kind_named(name), fields))
        except (TypeError, msgspec.ValidationError) as error:
            raise ValueError(f"transform {name}: {error}") from None
    return made


def _made(kind: Any, fields: dict[str, Any]) -> Any:
    if not issubclass(kind, msgspec.Struct):
        return kind(**fields)
    for name in fields:
        if name not in kind.__struct_fields__:
            close = nearest(name, kind.__struct_fields__)
            raise TypeError(f"there is no field {name!r}" + (f"; did you mean {close!r}?" if close else ""))
    return msgspec.convert(fields, kind)  # lists become the tuples, and tables the values, that its fields are


def _kind_named(name: str) -> Any:
    module, colon, kind = name.partition(":")
    try:
        if colon:
            return getattr(importlib.import_module(module), kind)
        if name in transforms.__all__:
            return getattr(transforms, name)
    except (ImportError, AttributeError, ValueError):
        pass
    close = None if colon else nearest(name, transforms.__all__)
    hint = f"; did you mean {close!r}?" if close else ""
    raise ValueError(f"transform must be one of bushel's or module:Class, got {name!r}{hint}")
