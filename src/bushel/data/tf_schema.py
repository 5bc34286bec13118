"""`schema.pbtxt`, the schema of TFX and TensorFlow Data Validation, read and written as text without their packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from bushel.data.columns import count_of
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, IMAGE_ENCODINGS, INT_KIND, Feature, Schema
from bushel.errors import FileProblem
from bushel.storage import AnyPath, as_path

Message: TypeAlias = dict[str, list[Any]]  # the values of each field, in their order

TYPES = {"BYTES": BYTES_KIND, "INT": INT_KIND, "FLOAT": FLOAT_KIND}
_NAMES = {kind: name for name, kind in TYPES.items()}
_SEQUENCE = "##SEQUENCE##"  # the feature below which TFX puts those of a SequenceExample's steps
_NOT_EXPECTED = ("PLANNED", "ALPHA", "DEBUG_ONLY", "DEPRECATED", "DISABLED")  # stages whose features may be absent
_DEEPEST = 64
_MOST = 1 << 24  # characters

_TOKEN = re.compile(
    r"""\s+ | \#[^\n]* | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*') | (?P<mark>[{}<>\[\]:;,])
      | (?P<word>[-+.\w/]+) | (?P<other>.)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True)
class Declared:
    """What a schema demands of one feature; None where it demands nothing."""

    name: str
    kind: int | None = None
    min_fraction: float = 0.0  # of records that have it
    min_count: int = 0  # of such records
    least: int | None = None  # values in a record
    most: int | None = None
    low: float | None = None  # of numbers
    high: float | None = None
    allows_nan: bool = True
    allows_infinity: bool = True
    texts: frozenset[str] | None = None
    is_expected: bool = True  # whether records should have it at all
    sequence: bool = False


@dataclass
class _Reader:
    """Parses the text form of any protocol buffer: fields with values or with messages."""

    tokens: list[tuple[str, str, int]]
    path: str
    at: int = 0
    depth: int = 0

    def message(self, end: str | None = None) -> Message:
        found: Message = {}
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail("messages are nested too deeply")
        while (token := self._next()) is not None and token[1] != end:
            if token[1] in (",", ";"):
                continue
            if token[0] != "word":
                self._fail(f"expected the name of a field, found {token[1]!r}")
            has_colon = self._take(":")
            values = found.setdefault(token[1], [])
            if self._take("["):
                while not self._take("]"):
                    values.append(self._value(has_colon=True))
                    self._take(",")
            else:
                values.append(self._value(has_colon))
        if token is None and end is not None:
            self._fail(f"{end!r} is missing at the end")
        self.depth -= 1
        return found

    def _value(self, has_colon: bool) -> Any:
        token = self._next()
        if token is None:
            self._fail("a value is missing at the end")
        kind, text, _ = token
        if text in ("{", "<") and kind == "mark":
            return self.message("}" if text == "{" else ">")
        if not has_colon or kind in ("mark", "other"):
            self._fail(f"expected a value, found {text!r}")
        if kind != "text":
            return text
        parts = [text]
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "text":
            parts.append(self.tokens[self.at][1])
            self.at += 1
        return "".join(_unescaped(part) for part in parts)

    def _next(self) -> tuple[str, str, int] | None:
        if self.at == len(self.tokens):
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def _take(self, mark: str) -> bool:
        is_there = self.at < len(self.tokens) and self.tokens[self.at][:2] == ("mark", mark)
        self.at += is_there
        return is_there

    def _fail(self, why: str) -> NoReturn:
        line = self.tokens[min(self.at, len(self.tokens)) - 1][2] if self.tokens else 1
        raise FileProblem(as_path(self.path), f"line {line}: {why}", help=["A schema.pbtxt is expected, as text."])


def _unescaped(quoted: str) -> str:
    def replace(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return bytes([int(found[1], 16)])
        if found[2]:
            return bytes([int(found[2], 8) & 255])
        return _ESCAPES.get(found[3], found[3])

    return _ESCAPE.sub(replace, quoted[1:-1].encode()).decode(errors="replace")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    line = 1
    for found in _TOKEN.finditer(text):
        if found.lastgroup is not None:
            yield found.lastgroup, found[0], line
        line += found[0].count("\n")


def read_pbtxt(path: AnyPath) -> list[Declared]:
    """What a `schema.pbtxt` demands of each feature."""
    file = as_path(path)
    data = file.read_bytes()
    if len(data) > _MOST:
        raise FileProblem(file, f"is larger than {_MOST >> 20} MiB: is it a schema.pbtxt?")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FileProblem(file, "is not text", help=["A schema.pbtxt is expected, not a binary schema."]) from None
    reader = _Reader(list(_tokens(text)), str(file))
    schema = reader.message()
    try:
        domains = {one["name"][-1]: one for kind in _DOMAINS for one in schema.get(kind, []) if "name" in one}
        return list(_declared(schema, domains))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileProblem(file, f"is not a schema of TFX: {error}") from None


_DOMAINS = ("string_domain", "int_domain", "float_domain")


def _declared(schema: Message, domains: Mapping[str, Message], *, sequence: bool = False) -> Iterator[Declared]:
    for feature in schema.get("feature", []):
        if _last(feature, "type", "") == "STRUCT":
            yield from _declared(_last(feature, "struct_domain", {}), domains, sequence=True)
        else:
            yield _declared_feature(feature, domains, sequence=sequence)


def _last(message: Message, name: str, default: Any) -> Any:
    return message[name][-1] if message.get(name) else default


def _declared_feature(feature: Message, domains: Mapping[str, Message], *, sequence: bool) -> Declared:
    presence = _last(feature, "presence", {})
    least, most = _value_counts(feature)
    named = domains.get(_last(feature, "domain", ""), {})
    numbers = _last(feature, "int_domain", None) or _last(feature, "float_domain", None) or named
    texts = _last(feature, "string_domain", None) or named
    low, high = (_number(_last(numbers, side, None)) for side in ("min", "max"))
    stage = _last(feature, "lifecycle_stage", "")
    return Declared(
        name=_last(feature, "name", ""),
        kind=TYPES.get(_last(feature, "type", "")),
        min_fraction=_number(_last(presence, "min_fraction", "0")) or 0.0,
        min_count=int(_number(_last(presence, "min_count", "0")) or 0),
        least=least,
        most=most,
        low=low,
        high=high,
        allows_nan=_last(numbers, "disallow_nan", "false") not in ("true", "1", "True", "t"),
        allows_infinity=_last(numbers, "disallow_inf", "false") not in ("true", "1", "True", "t"),
        texts=frozenset(texts["value"]) if texts.get("value") else None,
        is_expected=_last(feature, "deprecated", "false") != "true" and stage not in _NOT_EXPECTED,
        sequence=sequence,
    )


def _number(text: str | None) -> float | None:
    return None if text is None else float(text.removesuffix("f"))


def _value_counts(feature: Message) -> tuple[int | None, int | None]:
    if "shape" in feature:
        sizes = [int(_last(dim, "size", "-1")) for dim in _last(feature, "shape", {}).get("dim", [])]
        count = count_of(tuple(sizes)) if min(sizes, default=1) >= 0 else None
        return count, count
    counts = _last(feature, "value_count", {})
    least, most = (_number(_last(counts, side, None)) for side in ("min", "max"))
    return None if least is None else int(least), None if most is None else int(most)


def to_pbtxt(schema: Schema, classes: Mapping[str, int] = {}) -> str:
    """A schema as TFX's text. `classes` are the features that are codes of so many classes."""
    steps = {name: feature for name, feature in schema.features.items() if feature.sequence}
    lines = ["# Written by bushel: bushel schema --pbtxt"]
    for name, feature in schema.features.items():
        if not feature.sequence:
            lines += _feature_lines(name, feature, schema, classes)
    if steps:
        inner = [line for name, feature in steps.items() for line in _feature_lines(name, feature, schema, classes)]
        lines += block("feature", [f'name: "{_SEQUENCE}"', "type: STRUCT", *block("struct_domain", inner)])
    return "\n".join(lines) + "\n"


def block(name: str, lines: Iterable[str]) -> list[str]:
    """A message inside another one, as text."""
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def quoted(text: str) -> str:
    """A string as the text form of protocol buffers has it."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\{ord(found[0]):03o}", plain) + '"'


def _feature_lines(name: str, feature: Feature, schema: Schema, classes: Mapping[str, int]) -> list[str]:
    if feature.encoding == "sparse":
        return _sparse_lines(name, feature)
    lines = [f"name: {quoted(name)}", f"type: {_NAMES[feature.kind]}"]
    if feature.required:
        lines += block("presence", ["min_fraction: 1.0", "min_count: 1"])
    sizes = (1,) if feature.is_one_value else feature.shape
    if None in sizes:
        seen = schema.statistics.get(name)
        lines += block("value_count", [f"min: {seen.min_length if seen else 0}"])
    else:
        lines += block("shape", [f"dim {{ size: {size} }}" for size in sizes])
    if name in classes:
        lines += block("int_domain", ["min: 0", f"max: {classes[name] - 1}", "is_categorical: true"])
    elif feature.encoding in IMAGE_ENCODINGS:
        lines.append("image_domain { }")
    return block("feature", lines)


def _sparse_lines(name: str, feature: Feature) -> list[str]:
    kind = {"float32": "FLOAT", "int64": "INT"}[feature.dtype]
    indices, values = f"{name}/indices", f"{name}/values"
    return [
        *block("feature", [f"name: {quoted(indices)}", "type: INT", *block("value_count", ["min: 0"])]),
        *block("feature", [f"name: {quoted(values)}", f"type: {kind}", *block("value_count", ["min: 0"])]),
        *block(
            "sparse_feature",
            [
                f"name: {quoted(name)}",
                f"index_feature {{ name: {quoted(indices)} }}",
                f"value_feature {{ name: {quoted(values)} }}",
                f"dense_shape {{ dim {{ size: {feature.shape[0]} }} }}",
            ],
        ),
    ]
