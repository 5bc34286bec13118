"""What to build: everything that decides the bytes, as a value and as a `recipe.toml`."""

from __future__ import annotations

import hashlib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from bushel.data.encoding import Constraint
from bushel.errors import BushelWarning, FormatError, nearest
from bushel.records.files import Compression
from bushel.sources.protocol import paths_named
from bushel.storage import AnyPath, as_path, check_inside, read_named, write_whole
from bushel.transforms.by_name import make_transforms

__all__ = [
    "RECIPE_NAME",
    "Balance",
    "Constraint",
    "Recipe",
    "changed_code",
    "code_of",
    "parse_size",
    "read_recipe",
    "write_recipe",
]


RECIPE_NAME = "recipe.toml"
SHARD_SIZE = 128 << 20
Order: TypeAlias = Literal["shuffled", "source"]


Method: TypeAlias = Literal["oversample", "undersample", "smote", "smotenc", "borderline_smote", "adasyn"]


class Balance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How the classes of the train split are balanced, after the split."""

    method: Method
    ratio: float = 1.0  # of the smallest class to the largest
    augment: list[dict[str, Any]] = []  # transforms of repeated samples, after all others
    neighbours: int = 5  # of SMOTE and its relatives
    categories: list[str] = []  # for SMOTENC, besides text and what a transform encodes

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            close = nearest(self.method, get_args(Method))
            hint = f"; did you mean {close!r}?" if close else ""
            raise ValueError(f"balance must be one of {', '.join(get_args(Method))}; got {self.method!r}{hint}")
        if not 0 < self.ratio <= 1:
            raise ValueError(f"the ratio of balance must be above 0 and at most 1, got {self.ratio}")
        if self.neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {self.neighbours}")
        if self.augment and self.method != "oversample":
            raise ValueError(f"augment is for repeated samples, so for oversample; got {self.method}")
        if self.categories and self.method != "smotenc":
            raise ValueError(f"categories of balance are for smotenc; got {self.method}")
        make_transforms(self.augment)


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything that decides the bytes of a dataset, besides the files of its source."""

    source: dict[str, Any] = {}
    out: str | None = None  # the folder to write, if the command does not say
    split: dict[str, float] | str | None = None  # shares by name, or the column that holds it; None: all train
    resplit: bool = False  # divide all samples, those of a test split that the source has included
    exact: bool = False  # exact counts; samples added later may then move others
    stratify: str | None = None
    group: str | None = None
    label: str | None = None
    seed: int = 0
    order: Order = "shuffled"
    shard_size: int = SHARD_SIZE
    shards: int | None = None  # of the largest split; the others in proportion
    compression: Compression | None = None
    limit: int | None = None
    constraints: dict[str, Constraint] = {}
    transforms: list[dict[str, Any]] = []
    balance: Balance | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be from 0 to 2^63 - 1, got {self.seed}")
        for name in ("shard_size", "shards", "limit"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")


_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(size: int | str) -> int:
    """A number of bytes, or text such as 128M or 1.5GiB."""
    if isinstance(size, int):
        return size
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", size.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(f"shard_size must be a number of bytes such as 128M or 1G, got {size!r}")
    return int(float(found[1]) * _SIZES[found[2].upper()])


def read_recipe(path: AnyPath, *, within: Sequence[AnyPath] = ()) -> Recipe:
    """Read a recipe; an unknown key is an error that suggests the nearest one.

    With `within`, files of transforms that are not in these folders are refused before they are opened.
    """
    try:
        fields = msgspec.toml.decode(_text_of(path), type=dict[str, Any])
        if within:
            check_inside(_files_of_transforms(fields), [as_path(folder) for folder in within])
        if isinstance(fields.get("shard_size"), str):
            fields["shard_size"] = parse_size(fields["shard_size"])
        _check_transforms(fields)
        return msgspec.convert(_only_reading(fields, path), Recipe)
    except msgspec.MsgspecError as error:
        raise FormatError(path, *_in_words(str(error))) from None
    except ValueError as error:
        raise FormatError(path, str(error)) from None


def _text_of(path: AnyPath) -> str:
    """The text of a recipe. Python's parser takes the square of the parts of a name, in time and in memory."""
    text = read_named(as_path(path)).decode()
    if any(line.partition("=")[0].count(".") > _MOST_PARTS for line in text.splitlines()):
        raise ValueError(f"a name has more than {_MOST_PARTS} parts")
    return text


def _files_of_transforms(fields: dict[str, Any]) -> list[Path]:
    tables = [table for name in ("transform", "transforms", "augment") for table in fields.get(name) or ()]
    return [path for table in tables if isinstance(table, dict) for path in paths_named(table, ("file",))]


_MOST_PARTS = 100
_FOR_CALLERS = {  # what decides more than what is read, and how to say it oneself
    "private": "--set private=true",
    "downloads": "--set downloads=FOLDER",
    "unlimited": "--set unlimited=true",
}


def _only_reading(fields: dict[str, Any], path: AnyPath) -> dict[str, Any]:
    """A recipe without what only the caller decides: where is written, and whether private addresses are asked."""
    left = dict(fields)
    if left.pop("out", None) is not None:
        said = "out is left out: a recipe does not decide where a dataset is written. Name the folder after the recipe"
        warnings.warn(f"{path}: {said}", BushelWarning, stacklevel=4)
    if isinstance(left.get("source"), dict):
        left["source"] = {name: value for name, value in left["source"].items() if name not in _FOR_CALLERS}
        for name in sorted(fields["source"].keys() & _FOR_CALLERS.keys()):
            said = f"source.{name} is left out, because only you decide that: {_FOR_CALLERS[name]}"
            warnings.warn(f"{path}: {said}", BushelWarning, stacklevel=4)
    return left


def _check_transforms(fields: dict[str, Any]) -> None:
    """Move the `[[transform]]` tables to their field, and refuse a transform that cannot be made."""
    if "transform" in fields:
        if "transforms" in fields:
            raise ValueError("[[transform]] and transforms cannot both be given")
        fields["transforms"] = fields.pop("transform")
    tables = fields.get("transforms", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("a transform must be a table: [[transform]]")
    make_transforms(tables)


_CHOICES = {"balance.method": get_args(Method), "order": get_args(Order), "compression": get_args(Compression)}


def _in_words(message: str) -> tuple[str]:
    found = re.fullmatch(r"Invalid enum value '(.*)' - at `\$\.(.*)`", message)
    if found is not None and found[2] in _CHOICES:
        close = nearest(found[1], _CHOICES[found[2]])
        hint = f"; did you mean {close!r}?" if close else ""
        return (f"{found[2]} must be one of {', '.join(_CHOICES[found[2]])}; got {found[1]!r}{hint}",)
    found = re.search(r"unknown field `([^`]+)`(?: - at `\$\.?([^`]*)`)?", message)
    if found is None:
        return (f"not a recipe: {message[0].lower()}{message[1:]}",)
    kinds = {"constraints": Constraint, "balance": Balance}
    kind = kinds.get((found[2] or "").split(".")[0].split("[")[0], Recipe)
    close = nearest(found[1], kind.__struct_fields__)
    place = f" in [{found[2].replace('[...]', '.*')}]" if found[2] else ""
    return (f"no key {found[1]!r}{place}" + (f"; did you mean {close!r}?" if close else ""),)


def write_recipe(path: Path, recipe: Recipe) -> None:
    """Write a recipe that rebuilds the same dataset."""
    import tomli_w

    fields = msgspec.to_builtins(msgspec.structs.replace(recipe, out=None))
    tables = fields.pop("transforms", [])
    text = tomli_w.dumps(_without_none(fields))
    for table in tables:
        settings = "".join(f"{name} = {_inline(value)}\n" for name, value in _without_none(table).items())
        text += f"\n[[transform]]\n{settings}"
    with write_whole(path) as file:
        file.write(text.encode())


def _inline(value: Any) -> str:
    """A value as TOML has it after an equals sign; a table in braces."""
    import tomli_w

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_quoted(name)} = {_inline(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return str(tomli_w.dumps({"value": value})).removeprefix("value = ").strip()


def _quoted(name: str) -> str:
    import tomli_w

    return str(tomli_w.dumps({name: 0})).removesuffix(" = 0\n")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_none(inner) for inner in value]
    return value


def code_of(objects: Iterable[Any]) -> dict[str, str]:
    """By class name, a digest of its methods and of the functions of its module that they call.

    Bushel's own classes are covered by its version. Comments and layout do not count.
    """
    found = {}
    for kind in {type(given) for given in objects}:
        if kind.__module__.split(".")[0] != "bushel":
            digest = hashlib.blake2b(digest_size=16)
            for part in _parts_of(kind):
                digest.update(part + b"\0")
            # Each Python version compiles to different code: only digests of the same version can be compared.
            found[f"{kind.__module__}:{kind.__qualname__}"] = f"{sys.implementation.cache_tag} {digest.hexdigest()}"
    return found


def changed_code(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The names of classes whose code has changed."""
    return [
        name
        for name in sorted(before.keys() & now.keys())
        if before[name].split()[0] == now[name].split()[0] and before[name] != now[name]
    ]


def _parts_of(kind: type) -> Iterator[bytes]:
    seen: set[CodeType] = set()
    for above in kind.__mro__:
        if above is object or above.__module__.split(".")[0] in ("bushel", "msgspec", "typing"):
            continue
        for name, value in sorted(vars(above).items()):
            if name.startswith("__") and name.endswith("__") and name != "__call__":
                continue  # generated from the fields, which the recipe holds
            yield name.encode()
            yield from _of_value(value, seen)


def _of_value(value: Any, seen: set[CodeType]) -> Iterator[bytes]:
    function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    if isinstance(function, FunctionType):
        yield from _of_function(function, seen)
    elif isinstance(value, int | float | str | bytes | tuple | frozenset | None):
        yield _repr_of(value)


def _repr_of(value: Any) -> bytes:
    """A representation that is the same in every process, unlike the order of a set."""
    if isinstance(value, frozenset):
        return b"{" + b",".join(sorted(map(_repr_of, value))) + b"}"
    if isinstance(value, tuple | list):
        return b"(" + b",".join(map(_repr_of, value)) + b")"
    return repr(value).encode()


def _of_function(function: FunctionType, seen: set[CodeType]) -> Iterator[bytes]:
    if function.__code__ in seen:
        return
    seen.add(function.__code__)
    for code in _codes_in(function.__code__):
        yield code.co_code
        yield repr((code.co_names, code.co_varnames)).encode()
        yield _repr_of([const for const in code.co_consts if not isinstance(const, CodeType)])
        for name in code.co_names:
            called = function.__globals__.get(name)
            if isinstance(called, FunctionType) and called.__module__ == function.__module__:
                yield from _of_function(called, seen)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes_in(const)
