"""Options of sources. Each is declared once, in the signature of the function that opens the source.

    def images(folder: AnyPath, *, verify: Annotated[Verify, "How images are checked"] = "decode") -> ImageSource:

Name, type, default and help come from there: for recipes, `describe()`, the command line, its "did you mean" and docs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from os import PathLike
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from bushel.errors import nearest

__all__ = ["Option", "check_names", "check_values", "options_of", "recipe_table"]


class Option(NamedTuple):
    """One option of a source."""

    name: str
    type: Any
    default: Any
    help: str

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words; empty if it is not a choice of words."""
        kinds = [self.type, *get_args(self.type)]
        if str in kinds:
            return ()
        return tuple(word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind))

    @property
    def plain_type(self) -> type:
        """The type as a command line reads it: bool, int, float or str."""
        kinds = [kind for kind in (self.type, *get_args(self.type)) if kind is not NoneType]
        return next((kind for kind in (bool, int, float) if kind in kinds), str)

    @property
    def is_list(self) -> bool:
        """Whether it takes several values, and not one alone."""
        return self._takes(list, tuple, Sequence)

    @property
    def is_text(self) -> bool:
        """Whether it takes text and nothing else."""
        return set(get_args(self.type) or (self.type,)) in ({str}, {str, NoneType})

    def _takes(self, *kinds: Any) -> bool:
        own = (self.type, *get_args(self.type))
        return str not in own and any(get_origin(kind) in kinds for kind in own)

    def refuse(self, value: Any) -> None:
        """Raise a ValueError if a value is of another type."""
        if isinstance(value, str) and self.choices and value not in self.choices:
            close = nearest(value, self.choices)
            meant = f"; did you mean {close!r}?" if close else ""
            number = "a number, or " if self.plain_type in (int, float) else ""
            raise ValueError(f"{self.name} must be {number}one of {', '.join(self.choices)}; got {value!r}{meant}")
        if isinstance(value, str) and self.is_list:
            raise ValueError(f"{self.name} must be a list, got {value!r}")
        if isinstance(value, str) and self._takes(dict, Mapping):
            raise ValueError(f"{self.name} must be a value by name, such as {self.name}.NAME=VALUE; got {value!r}")
        if isinstance(value, int | float) and self.is_text:
            raise ValueError(f"{self.name} must be text, got {value!r}")
        is_word = isinstance(value, str) and value not in self.choices and str not in (self.type, *get_args(self.type))
        if is_word and self.plain_type is not str:
            wanted = "True or False" if self.plain_type is bool else "a number"
            raise ValueError(f"{self.name} must be {wanted}, got {value!r}")
        if isinstance(value, float) and self.plain_type is int and float not in get_args(self.type):
            raise ValueError(f"{self.name} must be a whole number, got {value!r}")


@cache
def options_of(make: Callable[..., Any]) -> dict[str, Option]:
    """The options of a source by name, in the order of its signature, without the path."""
    hints = get_type_hints(make, include_extras=True)
    _, *parameters = inspect.signature(make).parameters.values()
    found = {}
    for parameter in parameters:
        if parameter.name == "helpers":  # it changes no sample, so no recipe has it
            continue
        hint, help = hints[parameter.name], ""
        if get_origin(hint) is Annotated:
            hint, help = get_args(hint)
        found[parameter.name] = Option(parameter.name, hint, parameter.default, help)
    return found


# How to give on the command line what a source needs, if not with --set.
_AS_FLAGS = {
    "series": "; on the command line: --windows N --time COL",
    "tiles": "; on the command line: --tiles 256x256",
}


def check_names(make: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse unknown options, and report required ones that are missing."""
    options = options_of(make)
    for name in given:
        if name not in options:
            close = nearest(name, options)
            meant = f"; did you mean {close!r}?" if close else ""
            raise ValueError(f"{make.__name__} has no option {name!r}{meant} (there are: {', '.join(options)})")
    missing = [option for option in options.values() if option.is_required and option.name not in given]
    if missing:
        needed = ", ".join(f"{option.name} ({option.help.lower()})" for option in missing)
        raise ValueError(f"{make.__name__} needs {needed}{_AS_FLAGS.get(make.__name__, '')}")


def check_values(make: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse words and types that an option does not allow. `given` may be `locals()` at the start of the function."""
    for name, option in options_of(make).items():
        option.refuse(given[name])


def recipe_table(
    make: Callable[..., Any],
    path: Any,
    given: Mapping[str, Any],
    *,
    first: Sequence[str] = (),
    always: Sequence[str] = (),
) -> dict[str, Any]:
    """The `[source]` table of a recipe: kind, path, and the options that differ from their defaults.

    Those in `first` and `always` are included anyway, unless they are None; those in `first` come first.
    """
    options = options_of(make)
    table: dict[str, Any] = {"kind": make.__name__, "path": path}
    for name in (*first, *(name for name in options if name not in first)):
        value, default = _plain(given[name]), _plain(options[name].default)
        if value is not None and value != {} and (value != default or name in first or name in always):
            table[name] = value
    return table


def _plain(value: Any) -> Any:
    """As TOML and JSON can hold it."""
    if isinstance(value, PathLike):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(inner) for inner in value]
    return value
