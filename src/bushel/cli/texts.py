"""The options of `build` that are about text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")

_UNITS = ("word", "whitespace", "character", "byte")
_FORMS = {"nfc": "NFC", "nfd": "NFD", "nfkc": "NFKC", "nfkd": "NFKD"}
_CLEANED = {"lower": "lower", "accents": "strip_accents", "control": "strip_control"}
_OPTIONS = [
    click.option("--text", metavar="COL", help="The column that the options below are about.  [text]"),
    click.option("--clean", metavar="A,B", help="Of text: nfc, nfkc, nfd, nfkd; lower; without accents, control."),
    click.option("--tokenise", metavar="UNIT|FILE", help="word, whitespace, character, byte, or a tokenizer.json."),
    click.option("--vocabulary", type=int, metavar="N", help="At most N ids, pad and unknown among them.  [all]"),
    click.option("--min-count", type=int, metavar="N", help="Only tokens that train has N times or more.  [1]"),
    click.option("--length", type=int, metavar="N", help="Cut texts, or fill them up, to N tokens.  [ragged]"),
    click.option("--tfidf", type=int, metavar="N", help="Sparse TF-IDF of the N most frequent terms of train."),
    click.option("--hash-ngrams", type=int, metavar="N", help="Sparse counts of terms hashed to N places."),
    click.option("--ngrams", metavar="1-2", help="Tokens in a term of these two.  [1-1]"),
    click.option("--embed", metavar="FILE", help="Vectors of words, from GloVe or word2vec text."),
]


def text_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def text_tables(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables of a recipe that the options stand for: cleaning first, ids last."""
    column = given.get("text", "text")
    found: list[dict[str, Any]] = [_cleaning(given["clean"], column)] if "clean" in given else []
    kinds: list[str] = [name for name in ("tfidf", "hash_ngrams", "embed", "tokenise") if name in given]
    for name in kinds:
        # The last takes the place of the text; the others stand beside it.
        table: dict[str, Any] = {"feature": column, **({} if name == kinds[-1] else {"out": f"{column}/{name}"})}
        found.append({**table, **_table(name, given)})
    _check(given, kinds)
    return found


def _table(name: str, given: dict[str, Any]) -> dict[str, Any]:
    length = {"length": given["length"]} if "length" in given else {}
    if name == "embed":
        return {"transform": "embed", "file": given["embed"], **length}
    if name in ("tfidf", "hash_ngrams"):
        ngrams = {"ngrams": _ngrams(given["ngrams"])} if "ngrams" in given else {}
        return {"transform": name, "size": given[name], **ngrams}
    unit = given["tokenise"]
    if unit not in _UNITS:
        if not unit.endswith(".json"):
            raise click.UsageError(f"--tokenise must be one of {', '.join(_UNITS)}, or a tokenizer.json; got {unit!r}")
        return {"transform": "tokenise_file", "file": unit, **length}
    names = {"vocabulary": "size", "min_count": "min_count"}
    return {"transform": "tokenise", "unit": unit, **length, **{names[n]: given[n] for n in names if n in given}}


def _check(given: dict[str, Any], kinds: list[str]) -> None:
    """Refuse options that nothing takes."""
    takes = {
        "vocabulary": ["tokenise"],
        "min_count": ["tokenise"],
        "length": ["tokenise", "embed"],
        "ngrams": ["tfidf", "hash_ngrams"],
        "text": ["tokenise", "tfidf", "hash_ngrams", "embed", "clean"],
    }
    for name, users in takes.items():
        if name in given and not any(user in kinds or (user == "clean" and "clean" in given) for user in users):
            wanted = " or ".join(f"--{user.replace('_', '-')}" for user in users)
            raise click.UsageError(f"--{name.replace('_', '-')} needs {wanted}")


def _cleaning(text: str, column: str) -> dict[str, Any]:
    table: dict[str, Any] = {"transform": "clean", "feature": column, "form": "none"}
    for part in (part.strip() for part in text.split(",")):
        if part in _FORMS:
            table["form"] = _FORMS[part]
        elif part in _CLEANED:
            table[_CLEANED[part]] = True
        else:
            known = ", ".join([*_FORMS, *_CLEANED])
            raise click.UsageError(f"--clean must be of {known}; got {part!r}")
    return table


def _ngrams(text: str) -> list[int]:
    shortest, _, longest = text.partition("-")
    if not shortest.isdecimal() or not (longest or shortest).isdecimal():
        raise click.UsageError(f"--ngrams must be as 1-2, got {text!r}")
    return [int(shortest), int(longest or shortest)]
