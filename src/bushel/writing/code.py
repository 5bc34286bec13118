"""What a user's own class does, as a digest: a build must not go on with half of its samples made by other code."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

__all__ = ["changed_code", "code_of"]


def code_of(objects: Iterable[Any]) -> dict[str, str]:
    """By name of the class, a digest of its methods and of the functions of its module that they call.

    Bushel's own classes are told by its version. What comments and layout change is not part of it.
    """
    found = {}
    for kind in {type(given) for given in objects}:
        if kind.__module__.split(".")[0] != "bushel":
            digest = hashlib.blake2b(digest_size=16)
            for part in _parts_of(kind):
                digest.update(part + b"\0")
            # Each Python compiles to code of its own: only digests of one can be compared.
            found[f"{kind.__module__}:{kind.__qualname__}"] = f"{sys.implementation.cache_tag} {digest.hexdigest()}"
    return found


def changed_code(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The names of classes whose code is another one now."""
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
                continue  # what dataclasses and the like make of the fields, which the recipe holds
            yield name.encode()
            yield from _of_value(value, seen)


def _of_value(value: Any, seen: set[CodeType]) -> Iterator[bytes]:
    function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    if isinstance(function, FunctionType):
        yield from _of_function(function, seen)
    elif isinstance(value, int | float | str | bytes | tuple | frozenset | None):
        yield _told(value)


def _told(value: Any) -> bytes:
    """The same in every process, which the order of a set is not."""
    if isinstance(value, frozenset):
        return b"{" + b",".join(sorted(map(_told, value))) + b"}"
    if isinstance(value, tuple | list):
        return b"(" + b",".join(map(_told, value)) + b")"
    return repr(value).encode()


def _of_function(function: FunctionType, seen: set[CodeType]) -> Iterator[bytes]:
    if function.__code__ in seen:
        return
    seen.add(function.__code__)
    for code in _codes_in(function.__code__):
        yield code.co_code
        yield repr((code.co_names, code.co_varnames)).encode()
        yield _told([const for const in code.co_consts if not isinstance(const, CodeType)])
        for name in code.co_names:
            called = function.__globals__.get(name)
            if isinstance(called, FunctionType) and called.__module__ == function.__module__:
                yield from _of_function(called, seen)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes_in(const)
