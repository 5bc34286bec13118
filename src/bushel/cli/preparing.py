"""The options of `build` that say how samples are prepared: each is a transform, or several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bushel.writing.recipe import Balance

_Command = TypeVar("_Command", bound="Callable[..., Any]")

_BETWEEN = re.compile(r",(?![^\[]*\])")  # commas, but for those inside of a list
_STATISTICS = ("mean", "median", "most_frequent")
_OF_COLUMNS = ("require", "log", "standardise", "min_max", "robust_scale", "encode", "one_hot")  # in this order
_OPTIONS = [
    click.option("--require", metavar="A,B", help="Refuse samples that lack one of these."),
    click.option(
        "--fill", metavar="COL=VALUE", multiple=True, help="Fill missing values; also =mean, =median, =most_frequent."
    ),
    click.option("--log", metavar="A,B", help="The logarithm of 1 + value."),
    click.option("--standardise", metavar="A,B", help="Mean 0 and deviation 1, by the train split."),
    click.option("--min-max", metavar="A,B", help="0 to 1, by the train split."),
    click.option("--robust-scale", metavar="A,B", help="By median and quartiles of the train split."),
    click.option("--encode", metavar="A,B", help="Categories as codes, by the train split."),
    click.option("--one-hot", metavar="A,B", help="Categories as vectors of 0 and 1, by the train split."),
    click.option(
        "--transform",
        "transform",
        metavar="NAME:COL,KEY=VALUE",
        multiple=True,
        help="Any other transform: clip:age,low=0; may be repeated.",
    ),
]


_BALANCE = ("oversample", "undersample", "smote", "smotenc", "borderline_smote", "adasyn", "none")
_OPTIONS += [
    click.option("--balance", type=click.Choice(_BALANCE), help="Bring the classes of train closer.  [none]"),
    click.option("--balance-ratio", type=float, metavar="R", help="Of the smallest class to the largest.  [1]"),
    click.option(
        "--balance-categories", metavar="A,B", help="Whole numbers that smotenc takes as categories, as it does text."
    ),
    click.option(
        "--augment", metavar="NAME:COL,KEY=VALUE", multiple=True, help="Change what --balance repeats; may be repeated."
    ),
]


def preparing_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def transform_tables(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables of a recipe that the options stand for; filling comes first, `--transform` last."""
    found = [_filling(text) for text in given.get("fill", ())]
    for name in _OF_COLUMNS:
        found += [{"transform": name, "feature": column} for column in _columns(given.get(name, ""), name)]
    return found + [_any_transform(text) for text in given.get("transform", ())]


def balance_of(given: dict[str, Any], before: Balance | None) -> Balance | None:
    """The balance that the options ask for, over that of a recipe."""
    from bushel.writing.recipe import Balance

    fields: dict[str, Any] = {}
    if before is not None:
        fields = {name: getattr(before, name) for name in Balance.__struct_fields__}
    if "balance" in given:
        if given["balance"] == "none":
            return None
        fields["method"] = given["balance"]
    if "balance_ratio" in given:
        fields["ratio"] = given["balance_ratio"]
    if "balance_categories" in given:
        fields["categories"] = list(_columns(given["balance_categories"], "balance_categories"))
    if "augment" in given:
        fields["augment"] = [_any_transform(text, "augment") for text in given["augment"]]
    if fields and "method" not in fields:
        raise click.UsageError("--balance-ratio, --balance-categories and --augment need --balance")
    return Balance(**fields) if fields else None


def _columns(text: str, name: str) -> Iterator[str]:
    for column in text.split(",") if text else ():
        if not column.strip():
            raise click.UsageError(f"--{name.replace('_', '-')} must be names such as A,B; got {text!r}")
        yield column.strip()


def _filling(text: str) -> dict[str, Any]:
    column, equals, value = text.partition("=")
    if not equals or not column or not value:
        raise click.UsageError(f"--fill must be as COL=VALUE, got {text!r}")
    how = {"by": value} if value in _STATISTICS else {"value": toml_value(value)}
    return {"transform": "fill", "feature": column, **how}


def _any_transform(text: str, option: str = "transform") -> dict[str, Any]:
    name, colon, rest = text.partition(":")
    column, *settings = _BETWEEN.split(rest)
    if not colon or not column or not all("=" in setting for setting in settings):
        raise click.UsageError(f"--{option} must be as NAME:COL,KEY=VALUE; got {text!r}")
    fields = (setting.partition("=") for setting in settings)
    return {"transform": name, "feature": column, **{key: toml_value(value) for key, _, value in fields}}


def toml_value(text: str) -> Any:
    """A value as TOML has it, or else as text."""
    import msgspec

    try:
        return msgspec.toml.decode(f"value = {text}")["value"]
    except msgspec.DecodeError:
        return text
