"""What data is: which feature is the label and of what task, and what each feature stands for.

This is the only place that decides it. Every answer comes with its reason. A name is a hint: it chooses between
readings that the values allow, and never against them. What a user or a manifest says wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np

from bushel.data.categories import are_classes
from bushel.data.schema import IMAGE_ENCODINGS, Feature, Schema
from bushel.storage.file_kinds import kind_of_bytes

__all__ = ["KINDS", "LABEL_NAMES", "Account", "Kind", "Role", "box_sides", "find_label", "likely_label", "take_account"]

Kind: TypeAlias = Literal[
    "image",
    "frames",
    "mask",
    "boxes",
    "keypoints",
    "sound",
    "tokens",
    "text",
    "category",
    "number",
    "count",
    "date or time",
    "id",
    "row number",
    "address",
    "constant",
    "key",
    "group",
    "label",
    "name of the label",
    "split",
    "about an image",
    "series",
    "embedding",
    "array",
    "bytes",
    "empty",
]
KINDS: tuple[str, ...] = get_args(Kind)

# In this order. A column of one of these names is taken for the label if nobody says otherwise.
LABEL_NAMES = (
    *("label", "labels", "image/class/label", "class", "target", "targets", "y", "category", "species"),
    *("class_id", "label_id"),
)
# Names that are only suggested.
_LIKELY = (
    "classes",
    "outcome",
    "output",
    "diagnosis",
    "sentiment",
    "survived",
    "churn",
    "default",
    "quality",
    "rating",
)
_MORE_LIKELY = ("answer", "price")
_NOT_LABELS = ("id", "key", "name", "path", "file", "filename", "text", "url", "date", "time", "timestamp", "index")

_LABEL_LIKE = re.compile(r"label|class|target", re.IGNORECASE)
_GROUP = re.compile(
    r"(?:^|[/_.-])(?:patient|subject|user|group|speaker|session|video|author|site|customer|household)(?:[_/-]?id)?$",
    re.IGNORECASE,
)
_ID = re.compile(
    r"(?:^|[/_.-])(?:id|key|name|filename|file|path|url|uuid|guid|sha256|index|timestamp|time|date)$|[a-z]Id$|_id$",
    re.I,
)
_TIME = re.compile(r"(?:^|[/_.-])(?:date|time|timestamp|datetime|when|created|updated)(?:_?at)?$", re.IGNORECASE)
_MASK = re.compile(r"mask|segment|annotation", re.IGNORECASE)
_BOXES = re.compile(r"bbox|boxes|(?:^|[/_])box$", re.IGNORECASE)
_SIDE = re.compile(r"^(?P<before>.*?)(?P<side>[xy]m(?:in|ax))$", re.IGNORECASE)
_KEYPOINTS = re.compile(r"keypoint|landmark", re.IGNORECASE)
_BESIDE_TOKENS = re.compile(r"mask|segment|type|position", re.IGNORECASE)  # as BERT has beside its tokens
_TOKENS = re.compile(r"token|input_ids|word_ids|(?:^|[/_])ids$", re.IGNORECASE)
_SOUND = re.compile(r"audio|sound|wave|speech|samples$", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed|vector|latent|tfidf|hash", re.IGNORECASE)
_SOUND_BYTES = (b"RIFF", b"fLaC", b"OggS", b"ID3")
_ABOUT_IMAGES = ("height", "width", "channels", "format", "colorspace", "filename", "key", "source_id")
_ADDRESS = re.compile(
    r"(?:https?|ftp|s3|gs|az)://\S+|[\w.+-]+@[\w-]+\.[\w.]+|(?:[\w.~ -]*/)+[\w. -]+\.\w{2,5}|[\w-]+\.[a-z]\w{2,4}"
)
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
)
_OPAQUE = re.compile(r"[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*|\w*\d\w*")
_SPLIT = re.compile(r"split|subset|fold|partition|^set$|usage", re.IGNORECASE)
_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"}
_NEVER_LABELS: tuple[Kind, ...] = (
    *("image", "frames", "mask", "boxes", "keypoints", "sound", "embedding", "bytes", "empty"),
)
_PIXELS = 8  # on a side, from which numbers are pixels
_PLOTTED = 4  # values, from which a list is a line
_ENOUGH = 20  # values, from which it means something that all are the same, or that all differ
_FEW = 20  # distinct values up to which integers are a category
_FEW_LEVELS = 32  # that a mask has at most
_NEARLY_ALL = 0.95
_LONG = 64  # characters, from which text is not a category


class Role(msgspec.Struct, frozen=True):
    """What a feature is, and why that is thought."""

    kind: Kind
    why: str

    def __str__(self) -> str:
        return f"{self.kind} ({self.why})"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the features of a dataset are."""

    roles: dict[str, Role]
    label: str | None = None
    why: str = ""  # that is the label
    is_guess: bool = False  # whether only its name says that it is the label
    task: str | None = None

    def of(self, *kinds: Kind) -> list[str]:
        """The features of these kinds."""
        return [name for name, role in self.roles.items() if role.kind in kinds]

    def kind_of(self, name: str) -> Kind | None:
        """What a feature is; None if it is unknown."""
        return self.roles[name].kind if name in self.roles else None

    def describe(self) -> list[str]:
        """The account in lines for people: the label first, then the features of each kind, with the first reason."""
        label = f"{self.label!r} ({self.why}; --label COL names another)" if self.label else f"none ({self.why})"
        lines = [f"label: {label}" + (f", {self.task.replace('_', '-')}" if self.task else "")]
        for kind in KINDS:
            names = [name for name, role in self.roles.items() if role.kind == kind]
            if names and kind != "label":
                more = f" and {len(names) - 6} more" if len(names) > 6 else ""
                lines.append(f"{kind}: {', '.join(map(repr, names[:6]))}{more} ({self.roles[names[0]].why})")
        return lines


def find_label(
    could: Iterable[str],
    *,
    asked: str | None = None,
    declared: str | None = None,
    declared_by: str = "the dataset says so",
    names: Sequence[str] = LABEL_NAMES,
) -> tuple[str | None, str]:
    """The label among features that may be one, and why it is. `names` are those that are taken for labels."""
    if asked is not None:
        return asked, "it was asked for"
    if declared is not None:
        return declared, declared_by
    held = set(could)
    for usual in names:
        if usual in held:
            return usual, "its name is usual for labels"
    if not names:
        return None, "the dataset was built without one; --label COL names it"
    usual = f"is called {names[0]!r}" if len(names) == 1 else "has a name that is usual for labels"
    return None, f"no column {usual}; --label COL names it"


def likely_label(features: Mapping[str, Feature]) -> str | None:
    """The column that is probably to be predicted, by its name; otherwise the last one of single values."""
    single = [name for name, one in features.items() if one.shape == () and one.encoding == "list" and "/" not in name]
    by_name = {name.strip().lower(): name for name in reversed(single)}
    for usual in (*LABEL_NAMES, *_LIKELY, *_MORE_LIKELY):
        if usual in by_name:
            return by_name[usual]
    could = [name for name in single if name.lower() not in _NOT_LABELS and not features[name].meaning]
    fit = [name for name in could if features[name].dtype in ("str", "int64")]
    return fit[-1] if fit and len(features) > 1 else None


def take_account(
    schema: Schema,
    samples: Sequence[Mapping[str, Any]],
    *,
    label: str | None = None,
    declared: str | None = None,
    declared_by: str = "the dataset says so",
    key: str | None = None,
    group: str | None = None,
    names: Sequence[str] = LABEL_NAMES,
    levels_of: Callable[[bytes], int | None] = lambda _: None,
) -> Account:
    """What features are, as some samples show it.

    `label` and `group` were asked for, `declared` and `key` are what the dataset says. `levels_of` counts the levels of
    grey that an encoded image has, or returns None.
    """
    seen: dict[str, list[Any]] = {name: [] for name in schema.features}
    for sample in samples:
        for name, value in sample.items():
            if value is not None:
                seen.setdefault(name, []).append(value)
    roles = {name: _role(name, schema.features.get(name), values) for name, values in seen.items()}
    could = [name for name, values in seen.items() if roles[name].kind not in _NEVER_LABELS and _is_flat(values)]
    is_guess = label is None and declared is None
    label, why = find_label(could, asked=label, declared=declared, declared_by=declared_by, names=names)
    roles |= _parts(seen, roles)
    roles |= _masks(roles, seen, levels_of)
    for name in (name for name, role in roles.items() if role.kind in ("category", "count", "text", "id")):
        values = seen[name]
        if _GROUP.search(name) and len(set(map(_plain, values))) < len(values):
            roles[name] = Role("group", "its name is usual for groups, and values repeat")
    if key is not None and key in roles:
        roles[key] = Role("key", "the build took it for the key")
    if group is not None and group in roles:
        roles[group] = Role("group", "it was asked for")
    task = None
    if label is not None and label in roles:
        roles |= _names_of_label(label, seen, roles)
        roles[label] = Role("label", why)
        task = _task(schema.features.get(label), seen[label])
    return Account(roles=roles, label=label, why=why, is_guess=is_guess, task=task)


def box_sides(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Features that hold the sides of boxes in four lists, by what is before `xmin` in their names."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _SIDE.match(name):
            found.setdefault(match["before"], {})[match["side"].lower()] = name
    return {before: sides for before, sides in found.items() if len(sides) == 4}


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of a value; of lists whose items differ, that of the first."""
    if isinstance(value, list):
        return (len(value), *(_shape(value[0]) if value else ()))
    return np.shape(value) if isinstance(value, np.ndarray) else ()


def _is_one(value: Any) -> bool:
    return all(size == 1 for size in _shape(value))


def _is_flat(values: list[Any]) -> bool:
    """Whether values are single ones, or plain lists of them."""
    return all(len(_shape(value)) <= 1 or _is_one(value) for value in values[:_ENOUGH])


def _plain(value: Any) -> Any:
    """A single value that can be compared and hashed."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[:64].tolist()
    if isinstance(value, list):
        value = _plain(value[0]) if len(value) == 1 else repr(value[:64])
    value = value.item() if isinstance(value, np.generic) else value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _task(feature: Feature | None, values: list[Any]) -> str | None:
    if any(not _is_one(value) for value in values) or (feature is not None and feature.is_ragged):
        numbers = [value for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
        return "multi_label" if all(np.isin(value, (0, 1)).all() for value in numbers) else "regression"
    plain = [_plain(value) for value in values]
    if not plain:
        return None
    if isinstance(plain[0], float):
        return "regression"
    if isinstance(plain[0], str):
        return "classification"
    found, counts = np.unique(np.array(plain, np.int64), return_counts=True)
    return "classification" if are_classes(found, counts) else "regression"


def _names_of_label(label: str, seen: Mapping[str, list[Any]], roles: Mapping[str, Role]) -> dict[str, Role]:
    """The text that names the class whose code is the label: each code has one name, and each name one code."""
    codes = [_plain(value) for value in seen[label]]
    if not codes or not isinstance(codes[0], int):
        return {}
    for name, role in roles.items():
        values = [_plain(value) for value in seen[name]]
        if role.kind not in ("category", "text", "constant") or len(values) != len(codes) or name == label:
            continue
        pairs = set(zip(codes, values, strict=True))
        is_same = len(pairs) == len(set(codes)) == len(set(values)) > 1
        # Without the hint of its name, a column that goes with the label may give the answer away.
        if is_same and isinstance(values[0], str) and _LABEL_LIKE.search(name):
            return {name: Role("name of the label", f"each value of {label!r} has one of these texts, and its name")}
    return {}


def _parts(seen: Mapping[str, list[Any]], roles: Mapping[str, Role]) -> dict[str, Role]:
    """Features that describe an image beside it, and the sides of boxes."""
    found = {}
    shown = ("image", "frames", "mask")
    pictures = {name.removesuffix("/encoded") for name, role in roles.items() if role.kind in shown}
    for name in seen:
        before, _, last = name.rpartition("/")
        if before in pictures and last in _ABOUT_IMAGES:
            found[name] = Role("about an image", f"it stands beside {before!r}")
    for sides in box_sides(seen).values():
        found |= dict.fromkeys(sides.values(), Role("boxes", "four lists are named as the sides of boxes"))
    return found


def _masks(
    roles: Mapping[str, Role], seen: Mapping[str, list[Any]], levels_of: Callable[[bytes], int | None]
) -> dict[str, Role]:
    """Images of few levels beside others of many: what is where, and not how it looks."""
    images = [name for name, role in roles.items() if role.kind in ("image", "mask")]
    levels: dict[str, list[int]] = {}
    for name in images:
        first = [value for value in seen[name][:4] if isinstance(value, bytes)]
        levels[name] = [count for count in map(levels_of, first) if count is not None]
    found = {}
    for name in images:
        others = [count for other in images if other != name for count in levels[other]]
        if levels[name] and max(levels[name]) <= _FEW_LEVELS and others and min(others) > _FEW_LEVELS:
            found[name] = Role("mask", f"its images have at most {max(levels[name])} levels, beside others")
    return found


def _role(name: str, feature: Feature | None, values: list[Any]) -> Role:
    first: Any = next((value for value in values if 0 not in _shape(value)), None)
    if first is None:
        return Role("empty", "no value was seen")
    if feature is not None and feature.meaning == "date":
        return Role("date or time", "the schema says so")
    if _BOXES.search(name) and _last_side(first) == 4:
        return Role("boxes", "four numbers each, and its name")
    inner = first
    while isinstance(inner, list) and inner:
        inner = inner[0]
    if isinstance(inner, bytes) and (found := _role_of_bytes(name, feature, first, inner)) is not None:
        return found
    if isinstance(inner, str | bytes):
        return _role_of_text(name, values) if _is_one(first) else Role("text", "lists of text")
    return _role_of_numbers(name, feature, first, values)


def _last_side(value: Any) -> int:
    shape = _shape(value)
    return shape[-1] if shape else 0


def _role_of_bytes(name: str, feature: Feature | None, first: Any, inner: bytes) -> Role | None:
    kind = kind_of_bytes(inner)
    is_image = kind is not None and kind.name in IMAGE_ENCODINGS
    if is_image or (feature is not None and feature.encoding in IMAGE_ENCODINGS):
        if isinstance(first, list):
            return Role("frames", "lists of encoded images")
        return Role("mask", "encoded images, and its name") if _MASK.search(name) else Role("image", "encoded images")
    if inner.startswith(_SOUND_BYTES):
        return Role("sound", "encoded sounds")
    try:
        inner.decode()
    except UnicodeDecodeError:
        return Role("bytes", "bytes of an unknown kind")
    return None


def _role_of_text(name: str, values: list[Any]) -> Role:
    texts = [str(_plain(value)) for value in values]
    count, distinct = len(texts), len(set(texts))
    if _SPLIT.search(name) and {text.lower() for text in texts} <= _SPLITS:
        return Role("split", "values are names of splits")
    if distinct == 1 and count >= _ENOUGH:
        return Role("constant", f"all of {count} values are the same")
    if _share(_DATE, texts) >= _NEARLY_ALL:
        return Role("date or time", "values are written as dates or times")
    is_told_apart = distinct == count >= _ENOUGH
    if _share(_ADDRESS, texts) >= _NEARLY_ALL and distinct * 2 > count:
        return Role("address", "values are written as paths, links or mail addresses")
    if is_told_apart and _share(_OPAQUE, texts) >= _NEARLY_ALL:
        return Role("id", "all values differ, and they are codes rather than words")
    if distinct == count and _ID.search(name) and not any(" " in text for text in texts):
        return Role("id", "all values differ, and its name")
    mean = sum(map(len, texts)) / count
    if mean < _LONG and (distinct * 2 <= count or (count < _ENOUGH and mean < _LONG / 2)):
        return Role("category", f"{distinct} different values in {count} records")
    return Role("text", f"{distinct} different values in {count} records")


def _share(pattern: re.Pattern[str], texts: list[str]) -> float:
    return sum(pattern.fullmatch(text.strip()) is not None for text in texts) / len(texts)


def _role_of_numbers(name: str, feature: Feature | None, first: Any, values: list[Any]) -> Role:
    if not isinstance(first, int | float | np.generic | np.ndarray | list):
        return Role("embedding", "sparse numbers")
    shape = _shape(first)
    if _KEYPOINTS.search(name) and (shape or name.endswith(("/x", "/y", "_x", "_y"))):
        return Role("keypoints", "numbers, and its name")
    if not shape or (shape == (1,) and all(_is_one(value) for value in values)):
        return _role_of_one_number(name, [_plain(value) for value in values])
    is_bytes = feature is not None and feature.dtype == "uint8"
    is_mask = _MASK.search(name) is not None
    if len(shape) == 4 and shape[3] in (1, 3, 4) and is_bytes:
        return Role("frames", "four axes, the last of colours")
    if len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= _PIXELS:
        return Role("mask" if is_mask else "image", "three axes, the last of colours" + ", and its name" * is_mask)
    if len(shape) == 2 and min(shape) >= _PIXELS and (is_bytes or is_mask):
        return Role("mask" if is_mask else "image", "two axes of pixels" + ", and its name" * is_mask)
    return _role_of_list(name, shape, first)


def _role_of_one_number(name: str, values: list[Any]) -> Role:
    count, distinct = len(values), len(set(values))
    if distinct == 1 and count >= _ENOUGH:
        return Role("constant", f"all of {count} values are the same")
    if any(isinstance(value, float) for value in values):
        return Role("number", "numbers with a fraction")
    low, high = min(values), max(values)
    is_told_apart = distinct == count >= _ENOUGH
    if _TIME.search(name) and (10**8 < abs(high) < 10**10 or 10**11 < abs(high) < 10**19):
        return Role("date or time", "numbers of the size of times since 1970, and its name")
    if is_told_apart and high - low + 1 == count and all(b - a == 1 for a, b in pairwise(values)):
        return Role("row number", "each value is one more than the one before")
    if distinct == count and _ID.search(name):
        return Role("id", "all values differ, and its name")
    if distinct <= _FEW and (distinct * 2 <= count or count < _ENOUGH):
        return Role("category", f"{distinct} different whole numbers in {count} records")
    return Role("count", "whole numbers from 0") if low >= 0 else Role("number", "whole numbers")


def _role_of_list(name: str, shape: tuple[int, ...], first: Any) -> Role:
    is_whole = isinstance(first, np.ndarray) and first.dtype.kind in "iu"
    if len(shape) == 1 and is_whole and _TOKENS.search(name) and not _BESIDE_TOKENS.search(name):
        return Role("tokens", "lists of whole numbers, and its name")
    if len(shape) <= 2 and _SOUND.search(name) and shape[0] >= 1000:
        return Role("sound", "long lists of numbers, and its name")
    if len(shape) == 1 and _EMBEDDING.search(name) and shape[0] >= _PIXELS:
        return Role("embedding", "lists of numbers, and its name")
    if (len(shape) == 1 and shape[0] >= _PLOTTED) or (len(shape) == 2 and shape[1] <= 8 <= shape[0]):
        return Role("series", "lists of numbers")
    return Role("array", "numbers of a fixed shape")
