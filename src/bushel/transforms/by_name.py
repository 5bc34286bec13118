"""Transforms by name, as recipes hold them: tables of a name and the values of its fields."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bushel.errors import BushelError, nearest
from bushel.plugins import load_plugin, plugins
from bushel.spellings import british
from bushel.storage import why_not_inside
from bushel.transforms import (
    augment,
    calendar_parts,
    classes,
    encoded,
    fill_and_scale,
    image,
    numbers,
    sound,
    text_vectors,
    texts,
)
from bushel.transforms.interface import BatchTransform, Kept, Transform, allow_file, declared, doubt_file

NAME = "transform"
_MODULES = (augment, calendar_parts, classes, encoded, fill_and_scale, image, numbers, sound, text_vectors, texts)


def _tag_of(kind: Any) -> str | None:
    tag = getattr(getattr(kind, "__struct_config__", None), "tag", None)
    return tag if isinstance(tag, str) else None


# bushel's own transforms by name: each class has its name as its tag.
BUILT_IN: dict[str, type] = {
    tag: kind for module in _MODULES for kind in vars(module).values() if (tag := _tag_of(kind))
}


# Custom classes that may be made by name. Data files name classes too, and must not decide what runs.
_TRUSTED: dict[str, type] = {}
_TRUST = "BUSHEL_TRUST"  # names, quoted as a shell does, for the processes that this one starts
_FILES = ("file", "words")  # fields of transforms that name a file


def trust(*names: str) -> None:
    """Let datasets, recipes and contracts use custom transforms by their names, each `module:Class`, and read files.

    Modules are imported, which runs them. Transforms that the program itself made need no permission.
    """
    for name in names:
        if Path(name).is_file():
            allow_file(name)
        else:
            _TRUSTED[name] = _imported(name)
        os.environ[_TRUST] = shlex.join(dict.fromkeys([*_trusted_before(), name]))


def _trusted_before() -> list[str]:
    return shlex.split(os.environ.get(_TRUST, ""))


def _imported(name: str) -> type:
    module, colon, kind = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), kind) if colon else None
    except (ImportError, AttributeError, ValueError):
        found = None
    if not isinstance(found, type) or not any(callable(getattr(found, way, None)) for way in ("apply", "apply_batch")):
        raise ValueError(f"{name}: there is no such transform; it must be module:Class of one that can be imported")
    return found


def describe_transforms(given: Sequence[Transform | BatchTransform]) -> list[dict[str, Any]]:
    """Transforms in the form of recipes and contracts: the name of the class, and the values of its fields."""
    return [_describe_transform(transform) for transform in given]


def _describe_transform(transform: Transform | BatchTransform) -> dict[str, Any]:
    kind = type(transform)
    _TRUSTED.setdefault(name_of(kind), kind)  # the program itself made it
    if isinstance(transform, msgspec.Struct):
        fields = {name: _plain(value) for name, value in msgspec.structs.asdict(transform).items()}
    else:
        known: Sequence[Any] = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        fields = {field.name: _plain(getattr(transform, field.name)) for field in known}
    if isinstance(transform, Kept) and declared(transform).is_given:
        fields.pop("fitted", None)  # it comes from a file, which is named
    return {NAME: name_of(kind), **{name: value for name, value in fields.items() if value is not None}}


def _plain(value: Any) -> Any:
    """In the form that is read back from a file, where tuples are lists."""
    value = msgspec.to_builtins(value, builtin_types=(bytes,))
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def name_of(kind: type) -> str:
    """The name of a transform in a recipe: for bushel's own and plug-ins their name, else the module and class."""
    tag = _tag_of(kind)
    if tag is not None and BUILT_IN.get(tag) is kind:
        return tag
    place = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, plugin in plugins("transforms").items() if plugin.entry.value == place), place)


def make_transforms(tables: Sequence[Mapping[str, Any]]) -> list[Transform]:
    """The transforms of a recipe. A list of features means one transform per feature."""
    return [_make(table) for given in tables for table in _one_feature_each(given)]


def make_from_data(tables: Sequence[Mapping[str, Any]], folder: Path | None = None) -> list[Transform]:
    """The transforms that a dataset or a contract names. They read no file that is not in the folder of the data."""
    return make_transforms([_confined(table, folder) for table in tables])


def _confined(table: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """The table; a file that it names is in the folder, or is not read unless it is trusted."""
    fields = dict(table)
    for name in _FILES:
        file = fields.get(name)
        if not isinstance(file, str):
            continue
        if (
            folder is not None
            and not Path(file).is_absolute()
            and (folder / file).is_file()
            and why_not_inside(folder, file) is None
        ):
            fields[name] = str(folder / file)
        else:
            doubt_file(file)
    return fields


def _one_feature_each(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    features = table.get("feature")
    if not isinstance(features, list | tuple):
        return [dict(table)]
    return [{**table, "feature": feature} for feature in features]


def _make(table: Mapping[str, Any]) -> Transform:
    fields = dict(table)
    name = str(fields.pop(NAME, ""))
    kind = _kind_named(name)
    try:
        if not issubclass(kind, msgspec.Struct):
            return kind(**fields)  # type: ignore[no-any-return]
        _check_fields(fields, kind)
        made: Transform = msgspec.convert(fields, kind)
        return made
    except (TypeError, ValueError) as error:  # msgspec's are ValueErrors
        raise ValueError(f"transform {name}: {_in_words(str(error))}") from None


def _check_fields(fields: Mapping[str, Any], kind: type[msgspec.Struct]) -> None:
    for field in fields:
        if field not in kind.__struct_fields__:
            close = nearest(field, kind.__struct_fields__)
            hint = f"did you mean {close!r}?" if close else f"there are {', '.join(kind.__struct_fields__)}"
            raise ValueError(f"there is no field {field!r}; {hint}")
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]
        kinds = field.type.types if isinstance(field.type, msgspec.inspect.UnionType) else (field.type,)
        if not isinstance(kinds[0], msgspec.inspect.LiteralType) or fields.get(field.name) is None:
            continue
        if fields[field.name] not in kinds[0].values:
            choices = ", ".join(map(str, kinds[0].values))
            raise ValueError(f"{field.name} must be one of {choices}; got {fields[field.name]!r}")


def _in_words(message: str) -> str:
    found = re.fullmatch(r"Object missing required field `(.+)`", message)
    if found:
        return f"{found[1]} is missing"
    found = re.fullmatch(r"(.+) - at `\$\.?(.*)`", message)
    if found:
        what = found[1].replace("`", "")
        return f"{found[2]}: {what[0].lower()}{what[1:]}"
    return message


def _kind_named(name: str) -> Any:
    if british(name) in BUILT_IN:
        return BUILT_IN[british(name)]
    if name in _TRUSTED:
        return _TRUSTED[name]
    if (added := load_plugin("transforms", name)) is not None:
        return added
    if ":" not in name:
        close = nearest(name, BUILT_IN)
        hint = f"; did you mean {close!r}?" if close else ""
        raise ValueError(f"transform must be the name of one that bushel has, or module:Class; got {name!r}{hint}")
    if name in _trusted_before():
        trust(name)
        return _TRUSTED[name]
    raise UntrustedTransform(name)


class UntrustedTransform(BushelError, ValueError):
    """A file names a transform that is not one of bushel's, and nobody has allowed it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"transform {name!r} is not one of bushel's: a file may not run it unless you allow it",
            help=[
                f"If you know what it does: bushel.transforms.trust({name!r})",
                f"On the command line: bushel build --trust {name} ..., and so for train, predict, check and bench",
            ],
        )
