"""What features are for: which is the label, which hold groups, what tells records apart, what is content."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bushel.checking.collect.boxes_and_tokens import find_lists
from bushel.checking.collect.row_sample import sampled_features
from bushel.data.schema import BYTES_KIND, INT_KIND

__all__ = ["LABEL_NAMES", "Found", "found_in"]

LABEL_NAMES = ("label", "labels", "image/class/label", "class", "target", "y", "category", "class_id", "label_id")
_IDENTITY = re.compile(
    r"(?:^|[/_.-])(?:id|key|name|filename|file|path|url|source_id|uuid|guid|sha256|index|timestamp|time|date)$", re.I
)
_LABEL_LIKE = re.compile(r"label|class|target", re.IGNORECASE)
_GROUP = re.compile(
    r"(?:^|[/_.-])(?:patient|subject|user|group|speaker|session|video|author|site|customer|household)(?:[_/-]?id)?$",
    re.IGNORECASE,
)


@dataclass
class Found:
    """What the first records show."""

    label: str | None
    label_is_integer: bool
    label_text: str | None
    groups: list[str]
    identity: list[str]
    has_content: bool  # whether anything is left that could be the same in two records
    is_telling: bool  # whether two records that agree are hardly so by chance
    rows: dict[str, int]  # what rows of numbers are made of
    images: list[str]
    texts: list[str]
    looks: list[str]  # bytes that may be text
    boxes: list[tuple[str, str]]
    tokens: list[str]


def found_in(facts: list[dict[str, Any]], label: str | None, group: str | None) -> Found:
    """Tell it from names and a survey of the first records; what was asked for wins."""
    by_name = {fact["name"]: fact for fact in facts if not fact["sequence"]}
    one_value = {name for name, fact in by_name.items() if fact["min_count"] == fact["max_count"] == 1}
    if label is None:
        label = next((n for n in LABEL_NAMES if n in one_value and not by_name[n]["kinds"][2]), None)
    if label is not None and label not in one_value:
        label = None
    groups = (
        [group] if group is not None and group in one_value else [name for name in one_value if _GROUP.search(name)]
    )
    boxes, tokens = find_lists(facts)
    rows = sampled_features(facts, label)
    identity = [name for name in by_name if name == label or _IDENTITY.search(name) or _LABEL_LIKE.search(name)]
    content = [fact for name, fact in by_name.items() if name not in identity and name not in groups]
    lists = [fact for fact in facts if fact["sequence"]]
    return Found(
        label=label,
        label_is_integer=label is not None and by_name[label]["kinds"][INT_KIND] > 0,
        label_text=_label_text(label, by_name, one_value),
        groups=sorted(groups),
        identity=[*identity, *groups],
        has_content=bool(content or lists),
        is_telling=any(_is_telling(fact) for fact in [*content, *lists] if fact["name"] not in rows),
        rows=rows,
        images=[name for name, fact in by_name.items() if sum(fact["formats"][1:]) > fact["formats"][0]],
        texts=[
            n
            for n, f in by_name.items()
            if f["kinds"][BYTES_KIND] and f["text"] and f["max_size"] >= 24 and n not in identity
        ],
        looks=[n for n, f in by_name.items() if f["kinds"][BYTES_KIND] and sum(f["formats"][1:]) <= f["formats"][0]],
        boxes=boxes,
        tokens=tokens,
    )


def _label_text(label: str | None, by_name: dict[str, Any], one_value: set[str]) -> str | None:
    """The feature that holds the name of the class whose code is the label."""
    if label is None or not by_name[label]["kinds"][INT_KIND]:
        return None
    texts = [n for n in sorted(one_value) if n != label and by_name[n]["kinds"][BYTES_KIND] and by_name[n]["text"]]
    return next((name for name in texts if _LABEL_LIKE.search(name)), None)


def _is_telling(fact: dict[str, Any]) -> bool:
    """Whether two records that agree in this feature are hardly so by chance."""
    if fact["kinds"][BYTES_KIND]:
        return bool(fact["max_size"] >= 16)
    return bool(fact["max_count"] >= 8 or (fact["sequence"] and fact["max_steps"] >= 8))
