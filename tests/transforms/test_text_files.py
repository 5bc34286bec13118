"""Files that text is prepared with: tokenizers of Hugging Face, vectors of words."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import documents

import bushel
from bushel import transforms as t
from bushel.data.columns import BytesColumn
from bushel.transforms import Draw

DRAW = Draw(0, 0, 0)
TEXTS = list(documents())


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["[UNK]", "[PAD]", "[CLS]"], show_progress=False)
    tokenizer.train_from_iterator(TEXTS[:100], trainer)
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A", None, [("[CLS]", 2)])
    tokenizer.enable_truncation(5)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("length", [None, 16])
def test_ids_are_those_of_the_tokenizer(tokenizer_file: Path, special: bool, length: int | None) -> None:
    from tokenizers import Tokenizer

    theirs = Tokenizer.from_file(str(tokenizer_file))
    theirs.no_truncation()
    expected = [encoding.ids for encoding in theirs.encode_batch(TEXTS, add_special_tokens=special)]
    transform = t.tokenise_file(file=str(tokenizer_file), special=special, length=length)
    counted: Counter[str] = Counter()
    column: Any = transform.apply_counted({"text": BytesColumn.of(TEXTS)}, counted)["text"]
    if length is None:
        assert column.to_list() == expected
    else:
        assert column.tolist() == [(ids + [1] * length)[:length] for ids in expected]
        assert counted["texts cut to 16 tokens (text)"] == sum(len(ids) > 16 for ids in expected)
    kept = [ids[:length] for ids in expected]
    assert counted["tokens not in the vocabulary (text)"] == sum(ids.count(0) for ids in kept)
    assert transform.apply({"text": TEXTS[3]}, DRAW)["text"].tolist() == column[3].tolist()


def test_the_tokenizer_is_an_artifact_of_the_dataset(tokenizer_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    copy.write_bytes(tokenizer_file.read_bytes())
    rows = {"text": TEXTS[:40]}
    bushel.build(rows, tmp_path / "out", transforms=[t.tokenise_file(file=str(copy), length=8)], order="source")
    copy.unlink()
    data = bushel.open(tmp_path / "out")
    kept = tmp_path / "out" / "_artifacts" / "0-tokenise_file-tokenizer.json"
    assert kept.read_bytes() == tokenizer_file.read_bytes()
    assert len((tmp_path / "out" / "recipe.toml").read_text()) < 1000
    again = t.apply_all(data.transforms(), {"text": TEXTS[7]})["text"]
    assert np.array_equal(again, data["train"][7]["text"])


def test_tokenizer_files_that_cannot_be_used_are_said(tokenizer_file: Path, tmp_path: Path) -> None:
    with pytest.raises(bushel.FileProblem, match="there is no such tokenizer file"):
        t.tokenise_file(file="missing.json").apply({"text": "a"}, DRAW)
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(bushel.FileProblem, match="not a tokenizer file: "):
        t.tokenise_file(file=str(bad)).apply({"text": "a"}, DRAW)
    with pytest.raises(ValueError, match="the file was changed"):
        t.tokenise_file(file=str(tokenizer_file), sha256="0" * 64)
    bad.write_text(tokenizer_file.read_text().replace("[PAD]", "[FILL]"))
    with pytest.raises(ValueError, match="pad must be given"):
        t.tokenise_file(file=str(bad), length=3).apply({"text": "a"}, DRAW)
    assert t.tokenise_file(file=str(bad), length=3, pad=9).apply({"text": ""}, DRAW)["text"].tolist() == [9, 9, 9]


GLOVE = "the 1 2 3\ncat 0.5 -1 2\n. . 9 9 9\n"


@pytest.fixture
def glove(tmp_path: Path) -> str:
    (tmp_path / "glove.txt").write_text(GLOVE)
    return str(tmp_path / "glove.txt")


def test_words_become_vectors_and_those_without_are_counted(glove: str) -> None:
    counted: Counter[str] = Counter()
    found = t.embed(file=glove).apply({"text": "the dog, the cat"}, replace(DRAW, counted=counted))["text"]
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 2, 3], [0, 0, 0], [1, 2, 3], [0.5, -1, 2]]
    assert counted == {"words without a vector in glove.txt (text)": 1}
    left = t.embed(file=glove, unknown="leave_out").apply({"text": "the dog"}, DRAW)["text"]
    assert left.tolist() == [[1, 2, 3]]
    mean = t.embed(file=glove, pool="mean").apply({"text": "the dog cat"}, DRAW)["text"]
    assert mean.tolist() == [0.75, 0.5, 2.5]
    assert t.embed(file=glove, pool="mean").apply({"text": ""}, DRAW)["text"].tolist() == [0, 0, 0]
    with pytest.raises(bushel.SchemaMismatch, match="^1 of 2 words have no vector - at text$"):
        t.embed(file=glove, unknown="refuse").apply({"text": "the dog"}, DRAW)
    cut = t.embed(file=glove, length=2).apply({"text": "cat"}, DRAW)["text"]
    assert cut.tolist() == [[0.5, -1, 2], [0, 0, 0]]


@pytest.mark.parametrize("settings", [{}, {"length": 2}, {"pool": "mean"}, {"dtype": "float16", "length": 3}])
def test_vectors_by_column_and_by_sample_are_the_same(glove: str, settings: dict[str, Any]) -> None:
    transform = t.embed(file=glove, **settings)
    texts = ["the cat", "", "the cat the cat", "dog"]
    together: Any = transform.apply_columns({"text": BytesColumn.of(texts)})["text"]
    for row, text in enumerate(texts):
        assert np.array_equal(transform.apply({"text": text}, DRAW)["text"], together[row])
    feature = transform.makes()["text"]
    assert (feature.encoding, feature.dtype) == ("raw", settings.get("dtype", "float32"))


def test_files_of_vectors_in_all_forms_are_the_same(glove: str, tmp_path: Path) -> None:
    (tmp_path / "w2v.txt").write_text("3 3\n" + GLOVE)
    np.save(tmp_path / "v.npy", np.array([[1, 2, 3], [0.5, -1, 2]], np.float64))
    (tmp_path / "words.txt").write_text("the\ncat\n")
    transform = t.tokenise()
    fit = transform.begin_fit()
    fit.add([{"text": "the the cat"}])
    (tmp_path / "vocabulary.json").write_bytes(fit.finish().fitted.to_json())
    np.save(tmp_path / "all.npy", np.array([[0, 0, 0], [7, 7, 7], [1, 2, 3], [0.5, -1, 2]], np.float32))
    files = [
        {"file": glove},
        {"file": str(tmp_path / "w2v.txt")},
        {"file": str(tmp_path / "v.npy"), "words": str(tmp_path / "words.txt")},
        {"file": str(tmp_path / "all.npy"), "words": str(tmp_path / "vocabulary.json")},
    ]
    for given in files:
        assert t.embed(**given).apply({"text": "cat the"}, DRAW)["text"].tolist() == [[0.5, -1, 2], [1, 2, 3]]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("a 1 2\nb 1\n", "line 2 has 1 numbers, and the first has 2"),
        ("a 1 x\n", "not a file of word vectors"),
        ("", "holds no word vectors"),
        ("a 1 nan\n", "holds numbers that are not finite"),
    ],
)
def test_files_that_hold_no_vectors_are_said(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "bad.txt").write_text(content)
    with pytest.raises(bushel.FileProblem, match=what):
        t.embed(file=str(tmp_path / "bad.txt")).apply({"text": "a"}, DRAW)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_vectors_are_stored_raw_and_come_back(glove: str, tmp_path: Path, dtype: Any) -> None:
    ready = np.random.default_rng(0).random((30, 8), np.float32)
    rows = {"text": ["the cat"] * 15 + ["cat"] * 15, "ready": ready}
    chain = [t.embed(file=glove, dtype=dtype), t.raw("ready", dtype=dtype)]
    built = bushel.build(rows, tmp_path / "out", transforms=chain, order="source")
    schema = built.manifest.schema
    assert (schema["ready"].dtype, schema["ready"].encoding, schema["ready"].shape) == (dtype, "raw", (8,))
    assert (schema["text"].dtype, schema["text"].encoding, schema["text"].shape) == (dtype, "raw", (None, 3))
    columns = bushel.open(tmp_path / "out")["train"][:]
    assert np.array_equal(columns["ready"], ready.astype(dtype))
    assert columns["text"][20].tolist() == [[0.5, -1, 2]]
    rounded = built.manifest.counted.get("values rounded to float16 (ready)", 0)
    assert rounded == (int((ready.astype(np.float16) != ready).sum()) if dtype == "float16" else 0)


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(bushel.SchemaMismatch, match="^a value does not fit float16 - at x$"):
        t.raw("x", dtype="float16").apply({"x": np.array([1e6], np.float32)}, DRAW)
