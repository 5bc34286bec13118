"""Cleaning and tokenising: the same as plain Python, by column and by sample."""

import pickle
import re
import unicodedata
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from corpus import ODD, documents
from hypothesis import given
from hypothesis import strategies as st

import bushel
from bushel import _native
from bushel import transforms as t
from bushel.data.columns import BytesColumn, Ragged
from bushel.transforms import Draw

DRAW = Draw(0, 0, 0)
TEXTS = list(documents())


def is_word(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def split(text: str, unit: str) -> list[Any]:
    """As plain Python cuts text."""
    if unit == "byte":
        return list(text.encode())
    if unit == "character":
        return list(text)
    if unit == "whitespace":
        return text.split()
    return "".join(char if is_word(char) else " " for char in text).split(" ")


def tokens(text: str, unit: str) -> list[Any]:
    return [token for token in split(text, unit) if token != ""]


def fitted(transform: Any, texts: list[str]) -> Any:
    if transform.is_given:
        return transform
    fit = transform.begin_fit()
    fit.add_columns({"text": BytesColumn.of(texts)})
    return fit.finish()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"form": "NFKC", "lower": True},
        {"form": "none", "lower": True, "strip_control": True},
        {"form": "NFD"},
        {"form": "NFKD", "strip_accents": True, "lower": True, "strip_control": True},
        {"strip_accents": True},
    ],
)
def test_columns_are_cleaned_as_samples_are(settings: dict[str, Any]) -> None:
    clean = t.clean(**settings)
    together = clean.apply_columns({"text": BytesColumn.of(TEXTS)})["text"]
    alone = [clean.apply({"text": text}, DRAW)["text"] for text in TEXTS]
    assert [text.decode() for text in together] == alone  # type: ignore[union-attr]


def test_cleaning_does_what_it_says() -> None:
    def clean(text: str, **settings: Any) -> str:
        return t.clean(**settings).apply({"text": text}, DRAW)["text"]  # type: ignore[no-any-return]

    assert clean("e\u0301") == "\u00e9"
    assert clean("\u00e9", form="NFD") == "e\u0301"
    assert clean("ﬁ ½ \uff21", form="NFKC") == "fi 1\u20442 A"
    assert clean("ﬁ", form="none") == "ﬁ"
    assert clean("ÉCOLE ΣΊΣΥΦΟΣ", lower=True) == "école σίσυφος"
    assert clean("℻", form="NFKC", lower=True) == "fax"
    assert clean("Éø ñ", strip_accents=True) == "Eø n"
    assert clean("a\x00b\x0cc\x85d\x9be\tf", strip_control=True) == "ab\x0cc\x85de\tf"
    with pytest.raises(ValueError, match=r"^form must be one of NFC, NFD, NFKC, NFKD, none; got 'nfc'$"):
        t.clean(form="nfc")


@pytest.mark.parametrize("unit", ["word", "whitespace", "character", "byte"])
@pytest.mark.parametrize("length", [None, 20])
def test_ids_are_those_that_plain_python_finds(unit: Any, length: int | None) -> None:
    transform = fitted(t.tokenise(unit=unit, size=500, length=length), TEXTS)
    counts = Counter(token for text in TEXTS for token in tokens(text, unit))
    ranked = sorted(counts, key=lambda token: (-counts[token], token))[:498]
    ids = {token: number + 2 for number, token in enumerate(ranked)}
    if unit == "byte":
        ids = {byte: byte + 2 for byte in range(256)}
    else:
        assert list(transform.fitted.tokens) == ranked
        assert list(transform.fitted.counts) == [counts[token] for token in ranked]
    expected = [[ids.get(token, 1) for token in tokens(text, unit)] for text in TEXTS]
    counted: Counter[str] = Counter()
    column = transform.apply_counted({"text": BytesColumn.of(TEXTS)}, counted)["text"]
    if length is None:
        assert column.to_list() == expected
    else:
        assert column.tolist() == [(row + [0] * length)[:length] for row in expected]
        assert counted["texts cut to 20 tokens (text)"] == sum(len(row) > length for row in expected)
        assert counted["tokens cut off (text)"] == sum(max(0, len(row) - length) for row in expected)
    kept = [row if length is None else row[:length] for row in expected]
    assert counted["tokens not in the vocabulary (text)"] == sum(row.count(1) for row in kept)
    alone = [transform.apply({"text": text}, DRAW)["text"] for text in TEXTS[-20:]]
    assert [row.tolist() for row in alone] == [row.tolist() for row in list(column)[-20:]]


@given(st.text())
def test_any_text_is_cut_as_plain_python_cuts_it(text: str) -> None:
    # Characters that this Python knows and the table does not, or the other way round, are left out.
    text = "".join(char for char in text if unicodedata.ucd_3_2_0.category(char) not in ("Cn", "Cs"))
    column = BytesColumn.of([text])
    for unit in ("word", "whitespace", "character"):
        counter = _native.TermCounter(unit)
        counter.add(column.offsets, column.data)
        offsets, data, counts, _ = counter.ranked()
        found = dict(zip((word.decode() for word in BytesColumn(offsets, data)), counts.tolist(), strict=True))
        assert found == Counter(tokens(text, unit))


def test_the_table_of_letters_is_that_of_pythons_word_characters_and_marks() -> None:
    ranges = _native.word_ranges()
    codes = {code for first, last in ranges for code in range(first, last + 1)}
    for code in range(0x3000):  # older than any Unicode that a supported Python has
        char = chr(code)
        if unicodedata.ucd_3_2_0.category(char) != "Cn":
            is_mark = unicodedata.category(char).startswith("M")
            assert (code in codes) == (bool(re.match(r"\w", char)) or is_mark), hex(code)
    spaces = {code for first, last in _native.space_ranges() for code in range(first, last + 1)}
    assert spaces == {code for code in range(0x110000) if chr(code).isspace()}


def test_pad_and_unknown_are_no_texts() -> None:
    transform = fitted(t.tokenise(unit="whitespace", length=5), ["[UNK] [PAD] <unk> 0 1"])
    assert transform.apply({"text": "[UNK] [PAD] <unk> 0 other"}, DRAW)["text"].tolist() == [6, 5, 4, 2, 1]


def test_ties_are_broken_by_code_point_and_rare_tokens_left_out() -> None:
    transform = fitted(t.tokenise(min_count=2), ["b a 😀x é b a z é 日 日 Z"])
    assert transform.fitted.tokens == ("a", "b", "é", "日")
    assert transform.fitted.counts == (2, 2, 2, 2)


def test_what_was_counted_apart_is_the_same_as_counted_together() -> None:
    transform = t.tokenise(size=300)
    parts = [transform.begin_fit() for _ in range(3)]
    for number, part in enumerate(parts):
        part.add([{"text": text} for text in TEXTS[number::3]])
    merged = pickle.loads(pickle.dumps(parts[2])).merge(parts[0]).merge(pickle.loads(pickle.dumps(parts[1])))
    assert merged.finish() == fitted(transform, TEXTS)


def test_a_fitted_value_is_a_value() -> None:
    transform = fitted(t.tokenise(size=300), TEXTS)
    again = pickle.loads(pickle.dumps(transform))
    assert again == transform
    assert (
        again.apply({"text": "the value"}, DRAW)["text"].tolist()
        == transform.apply({"text": "the value"}, DRAW)["text"].tolist()
    )
    values, files = transform.save_fitted()
    assert values == {"size": 300, "count": transform.fitted.count}
    assert t.tokenise(size=300).load_fitted(values, files) == transform
    assert msgspec.structs.replace(transform, fitted=None) == t.tokenise(size=300)


def test_what_is_no_text_is_said() -> None:
    transform = fitted(t.tokenise(), ["a"])
    with pytest.raises(bushel.SchemaMismatch, match="^the text is not UTF-8 - at text$"):
        transform.apply({"text": b"\xff"}, DRAW)
    with pytest.raises(bushel.SchemaMismatch, match=r"^the text is not UTF-8 - at text\[1\]$"):
        transform.apply_columns({"text": BytesColumn.of([b"a", b"\xff"])})
    with pytest.raises(bushel.SchemaMismatch, match="^expected text, got int - at text$"):
        transform.apply({"text": 3}, DRAW)
    with pytest.raises(bushel.SchemaMismatch, match="UTF-8 cannot encode"):
        transform.apply({"text": "\ud800"}, DRAW)
    with pytest.raises(bushel.SchemaMismatch, match="^expected one text per row - at text$"):
        transform.apply_columns({"text": Ragged.of([["a", "b"]])})
    with pytest.raises(bushel.MissingName):
        transform.apply_columns({"other": BytesColumn.of(["a"])})
    with pytest.raises(bushel.BushelError, match=r"^tokenise\('text'\) has no vocabulary yet"):
        t.tokenise().apply({"text": "a"}, DRAW)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"unit": "words"}, "unit must be one of word, whitespace, character, byte; got 'words'"),
        ({"size": 2}, "size must be above 2, which are pad and unknown; got 2"),
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
        ({"length": 0}, "length must be at least 1, got 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(what)}$"):
        t.tokenise(**settings)


def test_odd_texts_stay_whole_when_nothing_is_asked() -> None:
    column = t.clean(form="none").apply_columns({"text": BytesColumn.of(ODD)})["text"]
    assert [text.decode() for text in column] == ODD  # type: ignore[union-attr]
    empty = t.clean(lower=True).apply_columns({"text": BytesColumn.of([])})["text"]
    assert len(empty) == 0
    assert fitted(t.tokenise(length=3), ["a"]).apply_columns({"text": BytesColumn.of([])})["text"].shape == (0, 3)
    assert np.array_equal(fitted(t.tokenise(), ["a"]).apply({"text": ""}, DRAW)["text"], np.empty(0, np.int64))
