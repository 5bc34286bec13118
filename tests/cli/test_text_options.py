"""The options of `bushel build` for text, as a user types them."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from corpus import documents

import bushel
from bushel.cli.build import build
from bushel.cli.build_flags import text_tables


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": text, "label": number % 2}) for number, text in enumerate(documents()[:120])]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_texts_are_cleaned_and_tokenised(rows: Path) -> None:
    options = ["--clean", "lower,nfkc", "--tokenise", "word", "--vocabulary", "200", "--length", "16", "--workers", "1"]
    done = CliRunner().invoke(build, ["rows.jsonl", "data", "--split", "80/20", *options])
    assert done.exit_code == 0, done.output
    assert "texts cut to 16 tokens (text)" in done.output
    assert "tokens not in the vocabulary (text)" in done.output
    clean, tokenise = bushel.open("data").transforms()
    assert (clean.form, clean.lower) == ("NFKC", True)
    assert len(tokenise.fitted) == 200
    assert bushel.open("data")["val"][0]["text"].shape == (16,)


def test_options_become_tables_of_a_recipe() -> None:
    given = {"text": "body", "clean": "lower", "tfidf": 500, "ngrams": "1-2", "tokenise": "byte"}
    assert text_tables(given) == [
        {"transform": "clean", "feature": "body", "form": "none", "lower": True},
        {"transform": "tfidf", "feature": "body", "out": "body/tfidf", "size": 500, "ngrams": [1, 2]},
        {"transform": "tokenise", "feature": "body", "unit": "byte"},
    ]
    assert text_tables({"tokenise": "tok.json", "length": 9}) == [
        {"transform": "tokenise_file", "feature": "text", "file": "tok.json", "length": 9}
    ]
    assert text_tables({"embed": "glove.txt"}) == [{"transform": "embed", "feature": "text", "file": "glove.txt"}]
    assert text_tables({}) == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"tokenise": "words"}, "--tokenise must be one of word, whitespace, character, byte, or a tokenizer.json"),
        ({"length": 3}, "--length needs --tokenise or --embed"),
        ({"vocabulary": 3, "tfidf": 9}, "--vocabulary needs --tokenise"),
        ({"ngrams": "1-2"}, "--ngrams needs --tfidf or --hash-ngrams"),
        ({"ngrams": "a", "tfidf": 9}, "--ngrams must be like 1-2, got 'a'"),
        ({"clean": "upper"}, "--clean must be among nfc, nfd, nfkc, nfkd, lower, accents, control; got 'upper'"),
    ],
)
def test_options_that_mean_nothing_are_refused(given: dict[str, object], what: str) -> None:
    with pytest.raises(click.UsageError, match=what):
        text_tables(given)
