"""Conditions on records, as in `width >= 64 and label == 'cat'`: parsed, never run as Python.

    condition   or and not ( )
    comparison  == != < <= > >=  ·  x in [1, 2]  ·  x not in ['a']  ·  x is missing  ·  x is not missing
    values      numbers, 'text', true, false, names of features, length(name), + - * / %

A name with unusual characters stands in backquotes. Division needs blanks around it, because names may hold a slash.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bushel.data.categories import hash_values
from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn
from bushel.errors import BushelError, nearest

__all__ = ["Expression", "ExpressionError", "one_of", "parse"]

Mask: TypeAlias = NDArray[np.bool_]


class ExpressionError(BushelError, ValueError):
    """A condition that cannot be understood; the help shows the position in it."""


def _error(text: str, at: int, what: str, *more: str) -> ExpressionError:
    return ExpressionError(f"position {at + 1} of the expression: {what}", help=[f"{text}\n  {' ' * at}^", *more])


class RecordValues(NamedTuple):
    """One value per record: an array, texts, or a constant; and which records have it (None: all)."""

    values: Any
    present: Mask | None = None

    @property
    def is_text(self) -> bool:
        """Whether it is text."""
        return isinstance(self.values, BytesColumn | str)


class Token(NamedTuple):
    """One word of an expression."""

    kind: str  # number, text, name, word, sign, end
    value: Any
    at: int


_TOKENS = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |`(?P<quoted>[^`]+)`
    |(?P<name>[^\W\d]\w*(?:[/.][^\W\d]\w*)*)
    |(?P<sign>==|!=|<=|>=|<>|&&|\|\||[-=<>()\[\],+*/%&|!~]))""",
    re.VERBOSE,
)
_WORDS = ("and", "or", "not", "in", "is", "missing", "true", "false")
_INSTEAD = {"=": "==", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "~": "not", "<>": "!="}


def _tokens(text: str) -> list[Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKENS.match(text, at)
        begin = at + len(text[at:]) - len(text[at:].lstrip())
        if match is None:
            quote = text[begin] in "'\"`"
            what = f"a {text[begin]} is never closed" if quote else f"{text[begin]!r} is not understood"
            raise _error(text, begin, what)
        found.append(_token(text, match, begin))
        at = match.end()
    return [*found, Token("end", "", len(text))]


def _token(text: str, match: re.Match[str], at: int) -> Token:
    if (number := match["number"]) is not None:
        return Token("number", int(number) if number.isdigit() else float(number), at)
    if match["text"] is not None:
        return Token("text", re.sub(r"\\(.)", r"\1", match["text"][1:-1]), at)
    if match["quoted"] is not None:
        return Token("name", match["quoted"], at)
    if (name := match["name"]) is not None:
        return Token("word" if name.lower() in _WORDS else "name", name.lower() if name.lower() in _WORDS else name, at)
    if match["sign"] in _INSTEAD:
        raise _error(text, at, f"{match['sign']!r} is not understood; write {_INSTEAD[match['sign']]!r}")
    return Token("sign", match["sign"], at)


Columns: TypeAlias = Mapping[str, RecordValues]
Node: TypeAlias = Callable[[Columns], RecordValues]


@dataclass(frozen=True)
class Expression:
    """A condition, the features whose values it needs, and those of which only the length."""

    text: str
    node: Node
    names: tuple[str, ...]
    lengths: tuple[str, ...]

    def __call__(self, columns: Mapping[str, Column], lengths: Mapping[str, NDArray[Any]], count: int) -> Mask:
        """Which of `count` records meet the condition."""
        given = {name: _value(name, column) for name, column in columns.items()}
        given |= {f"length({name})": RecordValues(counts) for name, counts in lengths.items()}
        return np.broadcast_to(np.asarray(self.node(given).values, bool), count)


def _value(name: str, column: Column | SparseColumn) -> RecordValues:
    """A column as one value per record."""
    if isinstance(column, Ragged):
        if column.present is None or (column.lengths > 1).any():
            what = f"{name} has lists of values, and a condition needs one value per record"
            raise ExpressionError(what, help=[f"length({name}) is the number of values."])
        present = np.asarray(column.lengths == 1)
        if isinstance(column.values, BytesColumn):
            rows = np.cumsum(present) - 1
            return RecordValues(BytesColumn.of([b"", *column.values]).take(np.where(present, rows + 1, 0)), present)
        values = np.zeros(len(present), np.asarray(column.values).dtype)
        values[present] = np.asarray(column.values).reshape(-1)
        return RecordValues(values, present)
    if isinstance(column, SparseColumn) or (isinstance(column, np.ndarray) and column.ndim > 1):
        raise ExpressionError(f"{name} has several values per record, and a condition needs one")
    return RecordValues(column)


def parse(text: str, known: Collection[str], codes: Mapping[str, Sequence[str]] | None = None) -> Expression:
    """Parse a condition on the known features; `codes` are the class names of features that hold codes."""
    return _Parser(text, known, codes or {}).expression()


def one_of(name: str, value: Any) -> Expression:
    """The condition that a feature has this value, or one of these values."""
    is_one = isinstance(value, str | bytes) or not isinstance(value, Iterable)
    values = [value] if is_one else list(value)
    return Expression(f"{name} in {values}", lambda columns: _is_in(columns[name], values), (name,), ())


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {"*": operator.mul, "/": np.divide, "%": np.mod}


class _Parser:
    def __init__(self, text: str, known: Collection[str], codes: Mapping[str, Sequence[str]]) -> None:
        self.text = text
        self.known = known
        self.codes = codes
        self.tokens = _tokens(text)
        self.at = 0
        self.names: dict[str, None] = {}
        self.lengths: dict[str, None] = {}

    def expression(self) -> Expression:
        if self.next.kind == "end":
            raise _error(self.text, 0, "the expression is empty", f"The features: {', '.join(self.known)}")
        node = self._or()
        if self.next.kind != "end":
            raise self._unexpected("and, or, or the end")
        if not isinstance(node, _Condition):
            raise _error(self.text, 0, "this is a value, not a condition: compare it with another")
        return Expression(self.text, node, tuple(self.names), tuple(self.lengths))

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def _take(self, *values: str) -> Token | None:
        """The next token, if it is one of these words or signs."""
        token = self.next
        if token.kind not in ("word", "sign") or token.value not in values:
            return None
        self.at += 1
        return token

    def _need(self, value: str) -> None:
        if self._take(value) is None:
            raise self._unexpected(repr(value))

    def _unexpected(self, wanted: str) -> ExpressionError:
        token = self.next
        found = "the expression ends" if token.kind == "end" else f"got {self.text[token.at :].split()[0]!r}"
        return _error(self.text, token.at, f"expected {wanted}; {found}")

    def _or(self) -> Node:
        node = self._and()
        while (token := self._take("or")) is not None:
            node = _Condition(_both(np.logical_or, self._checked(node, token), self._checked(self._and(), token)))
        return node

    def _and(self) -> Node:
        node = self._not()
        while (token := self._take("and")) is not None:
            node = _Condition(_both(np.logical_and, self._checked(node, token), self._checked(self._not(), token)))
        return node

    def _not(self) -> Node:
        if (token := self._take("not")) is None:
            return self._comparison()
        inner = self._checked(self._not(), token)
        return _Condition(lambda columns: RecordValues(~np.asarray(inner(columns).values, bool)))

    def _checked(self, node: Node, token: Token) -> Node:
        if not isinstance(node, _Condition):
            raise _error(self.text, token.at, f"{token.value!r} joins conditions; one side of it is a value")
        return node

    def _comparison(self) -> Node:
        begin = self.next.at
        left = self._sum()
        if (token := self._take(*_COMPARISONS)) is not None:
            right = self._sum()
            left, right = self._as_codes(left, right), self._as_codes(right, left)
            return _Condition(self._compared(token, left, right))
        if self._take("is") is not None:
            is_not = self._take("not") is not None
            self._need("missing")
            return _Condition(_missing(left, is_not=is_not))
        is_not = self._take("not") is not None
        if self._take("in") is not None:
            values = [_constant(self._as_codes(value, left)) for value in self._list()]
            found: Node = lambda columns: _is_in(left(columns), values)  # noqa: E731
            return _Condition(lambda columns: RecordValues(~found(columns).values)) if is_not else _Condition(found)
        if is_not:
            raise self._unexpected("in")
        if isinstance(left, _Feature) and left.name.lower() in ("none", "null", "nan"):
            raise _error(self.text, begin, f"{left.name} is not a value; write 'x is missing'")
        return left

    def _compared(self, token: Token, left: Node, right: Node) -> Node:
        def compare(columns: Columns) -> RecordValues:
            one, other = left(columns), right(columns)
            if one.is_text != other.is_text:
                raise _error(self.text, token.at, "one side is text, the other a number")
            found = _compare(token.value, one, other)
            for present in (one.present, other.present):
                found = found if present is None else found & present
            return RecordValues(found)

        return compare

    def _list(self) -> list[Node]:
        closing = ")" if self._take("(") is not None else "]"
        if closing == "]":
            self._need("[")
        values: list[Node] = []
        while self._take(closing) is None:
            begin = self.next.at
            value = self._sum()
            if not isinstance(value, _Constant):
                raise _error(self.text, begin, "a list holds numbers or texts")
            values.append(value)
            if self._take(",") is None:
                self._need(closing)
                break
        return values

    def _as_codes(self, node: Node, other: Node) -> Node:
        """A class name as its code, if it is compared with a feature that holds codes."""
        if not isinstance(node, _Constant) or not isinstance(node.value, str) or not isinstance(other, _Feature):
            return node
        names = self.codes.get(other.name)
        if not names:
            return node
        if node.value not in names:
            close = nearest(node.value, names)
            more = f"did you mean {close!r}?" if close else f"the classes are {', '.join(map(str, names[:10]))}"
            raise _error(self.text, node.at, f"{other.name} has no class {node.value!r}; {more}")
        return _Constant(list(names).index(node.value), node.at)

    def _sum(self) -> Node:
        return self._calculated(self._product, _SUMS)

    def _product(self) -> Node:
        return self._calculated(self._signed, _PRODUCTS)

    def _calculated(self, part: Callable[[], Node], signs: Mapping[str, Callable[[Any, Any], Any]]) -> Node:
        node = part()
        while (token := self._take(*signs)) is not None:
            node = self._number(token, signs[token.value], node, part())
        return node

    def _number(self, token: Token, calculate: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
        def value(columns: Columns) -> RecordValues:
            one, other = left(columns), right(columns)
            if one.is_text or other.is_text:
                raise _error(self.text, token.at, f"{token.value!r} calculates with numbers, not with text")
            present = [part for part in (one.present, other.present) if part is not None]
            with np.errstate(all="ignore"):
                found = calculate(np.asarray(one.values), np.asarray(other.values))
            return RecordValues(found, np.logical_and.reduce(present) if present else None)

        return value

    def _signed(self) -> Node:
        if (token := self._take("-")) is None:
            return self._atom()
        inner = self._signed()
        if isinstance(inner, _Constant) and not isinstance(inner.value, str):
            return _Constant(-inner.value, token.at)
        return self._number(token, operator.sub, _Constant(0, token.at), inner)

    def _atom(self) -> Node:
        token = self.next
        if token.kind in ("number", "text"):
            self.at += 1
            return _Constant(token.value, token.at)
        if self._take("true", "false") is not None:
            return _Constant(int(token.value == "true"), token.at)
        if self._take("(") is not None:
            node = self._or()
            self._need(")")
            return node
        if token.kind != "name":
            raise self._unexpected("a value or a name")
        self.at += 1
        if token.value == "length" and self._take("(") is not None:
            return self._length()
        if self._take("(") is not None:
            raise _error(self.text, token.at, f"there is no function {token.value!r}; there is length(name)")
        name = self._resolved(token)
        self.names[name] = None
        return _Feature(name)

    def _length(self) -> Node:
        token = self.next
        if token.kind != "name":
            raise self._unexpected("the name of a feature")
        self.at += 1
        name = self._resolved(token)
        self._need(")")
        self.lengths[name] = None
        return lambda columns: columns[f"length({name})"]

    def _resolved(self, token: Token) -> str:
        """A feature by its name, or by the last part of it: `width` may be `image/width`."""
        name: str = token.value
        if name in self.known:
            return name
        ends = [known for known in self.known if known.rpartition("/")[2] == name]
        if len(ends) == 1:
            return ends[0]
        if len(ends) > 1:
            raise _error(self.text, token.at, f"{name!r} may be {' or '.join(ends)}")
        if "/" in name and all(part in self.known for part in name.split("/")):
            raise _error(self.text, token.at, f"there is no feature {name!r}; a division needs blanks around the slash")
        close = nearest(name, self.known)
        meant = f"; did you mean {close!r}?" if close else ""
        known = f"The features: {', '.join(self.known)}"
        raise _error(self.text, token.at, f"there is no feature {name!r}{meant}", known)


class _Condition:
    """A node that is true or false."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __call__(self, columns: Columns) -> RecordValues:
        return self.node(columns)


class _Feature:
    """A node that is a feature."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, columns: Columns) -> RecordValues:
        return columns[self.name]


class _Constant:
    """A node that is a number or text."""

    def __init__(self, value: Any, at: int) -> None:
        self.value = value
        self.at = at

    def __call__(self, columns: Columns) -> RecordValues:  # noqa: ARG002
        return RecordValues(self.value)


def _constant(node: Node) -> Any:
    assert isinstance(node, _Constant)
    return node.value


def _both(join: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
    return lambda columns: RecordValues(join(left(columns).values, right(columns).values))


def _missing(node: Node, *, is_not: bool) -> Node:
    def missing(columns: Columns) -> RecordValues:
        value = node(columns)
        found = np.zeros((), bool) if value.present is None else ~value.present
        return RecordValues(~found if is_not else found)

    return missing


def _is_in(value: RecordValues, wanted: Sequence[Any]) -> RecordValues:
    """Which records have one of the wanted values."""
    if isinstance(value.values, BytesColumn):
        texts = [one for one in wanted if isinstance(one, str | bytes)]
        found = np.isin(hash_values(value.values), hash_values(BytesColumn.of(texts)))
    else:
        numbers = [one for one in wanted if not isinstance(one, str | bytes)]
        found = np.isin(value.values, np.asarray(numbers) if numbers else np.empty(0))
    return RecordValues(found if value.present is None else found & value.present)


def _compare(sign: str, one: RecordValues, other: RecordValues) -> Mask:
    if not one.is_text:
        with np.errstate(invalid="ignore"):
            return np.asarray(_COMPARISONS[sign](np.asarray(one.values), np.asarray(other.values)))
    if sign in ("==", "!="):
        found = _hashes(one) == _hashes(other)
        return np.asarray(found if sign == "==" else ~found)
    return np.asarray(_COMPARISONS[sign](_objects(one), _objects(other)), bool)


def _hashes(value: RecordValues) -> Any:
    texts = value.values
    return hash_values(BytesColumn.of([texts]) if isinstance(texts, str) else texts)


def _objects(value: RecordValues) -> Any:
    texts = value.values
    return texts.encode() if isinstance(texts, str) else np.array([*texts.to_list(), None], object)[:-1]
