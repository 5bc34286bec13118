"""Text through a build: a vocabulary of the train split alone, and the same bytes for any number of workers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import documents
from making import digests

import bushel
from bushel import Run, SparseColumn
from bushel import transforms as t
from bushel.building.engines import LocalEngine
from bushel.sources import text_files
from bushel.sources.tables import table_files as surveys

TEXTS = list(documents())
CHAIN = [t.clean(lower=True), t.tfidf(out="tfidf", min_texts=2), t.tokenise(size=200, length=24)]


def write_rows(path: Path, texts: list[str], split: list[str] | None = None) -> Path:
    with path.open("w") as file:
        for number, text in enumerate(texts):
            row = {"id": f"{number:05}", "text": text, **({"split": split[number]} if split else {})}
            file.write(json.dumps(row) + "\n")
    return path


def in_memory(texts: list[str]) -> Any:
    return bushel.sources.arrays({"text": texts, "id": [f"{number:05}" for number in range(len(texts))]}, key="id")


@pytest.mark.parametrize("reads", ["random", "sequence"])
def test_one_two_seven_and_sixteen_workers_write_the_same_bytes(tmp_path: Path, reads: str, monkeypatch) -> None:
    monkeypatch.setattr("bushel.building.record_encoding._TASK_ROWS", 100)
    given: Any = in_memory(TEXTS)
    if reads == "sequence":
        given = bushel.sources.open_source({"path": str(write_rows(tmp_path / "rows.jsonl", TEXTS)), "key": "id"})
    numbers = (1, 2, 7, 16)
    for workers in numbers:
        out = tmp_path / str(workers)
        bushel.build(given, out, transforms=CHAIN, split="80/10/10", shards=3, run=Run(workers=workers))
    assert len({str(digests(tmp_path / str(workers))) for workers in numbers}) == 1
    files = [sorted((tmp_path / str(workers) / "_artifacts").iterdir()) for workers in numbers]
    assert [file.name for file in files[0]] == ["1-tfidf-terms.json", "2-tokenise-vocabulary.json"]
    for same in zip(*files, strict=True):
        assert len({file.read_bytes() for file in same}) == 1
    one, *others = (bushel.read_manifest(tmp_path / str(workers)).counted for workers in numbers)
    assert others == [one] * 3


def test_threads_write_the_same_bytes_as_processes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(text_files.TextFile.blocks, "__defaults__", (0, None, 4096))
    monkeypatch.setattr(surveys, "PART_BYTES", 8192)
    rows = str(write_rows(tmp_path / "rows.jsonl", TEXTS))
    assert bushel.sources.open_source(rows).partitions() > 5
    ways = {"one": Run(workers=1), "two": Run(workers=2), "five": Run(workers=5), "all": Run()}
    ways["processes"] = Run(engine=LocalEngine(2))
    for name, run in ways.items():
        with run.hired(rows, CHAIN) as engine:
            assert isinstance(engine, LocalEngine)
            assert engine.in_threads == (name != "processes")
        bushel.build(rows, tmp_path / name, transforms=CHAIN, split="80/10/10", shards=3, run=run)
    assert len({str(digests(tmp_path / name)) for name in ways}) == 1
    manifests = [bushel.read_manifest(tmp_path / name) for name in ways]
    assert all(manifest.counted == manifests[0].counted for manifest in manifests)


def test_workers_are_processes_where_python_does_the_work(tmp_path: Path) -> None:
    rows = str(write_rows(tmp_path / "rows.jsonl", TEXTS))
    for source, chain in ((rows, [*CHAIN, t.resize("image", 8, 8)]), (None, CHAIN), (str(tmp_path), CHAIN)):
        with Run(workers=2).hired(source, chain) as engine:
            assert isinstance(engine, LocalEngine)
            assert not engine.in_threads


def test_words_of_other_splits_never_enter_the_vocabulary(tmp_path: Path) -> None:
    names = ["train", "train", "train", "val", "test"]
    texts = [f"common word{number // 5 % 20}" + " poison poison" * (number % 5 > 2) for number in range(500)]
    rows = write_rows(tmp_path / "rows.jsonl", texts, [names[number % 5] for number in range(500)])
    chain = [t.tfidf(out="tfidf"), t.tokenise(length=4)]
    bushel.build(str(rows), tmp_path / "out", transforms=chain, split="split")
    data = bushel.open(tmp_path / "out")
    tfidf, tokenise = data.transforms()
    assert "poison" not in tokenise.fitted.tokens
    assert "poison" not in tfidf.fitted.terms
    assert tfidf.fitted.count == len(data["train"]) == 300
    assert (data["val"][:]["text"] == 1).sum() == 2 * len(data["val"])
    assert (data["train"][:]["text"] == 1).sum() == 0
    assert data.manifest.counted["tokens not in the vocabulary (text)"] == 400


def test_what_was_stored_is_what_the_transforms_make_of_raw_text(tmp_path: Path) -> None:
    built = bushel.build(in_memory(TEXTS), tmp_path / "out", transforms=CHAIN, split="80/20")
    data = bushel.open(tmp_path / "out")
    chain = data.transforms()
    by_key = {f"{number:05}": text for number, text in enumerate(TEXTS)}
    for split in data.splits.values():
        columns = split[:]
        assert isinstance(columns["tfidf"], SparseColumn)
        for row, key in enumerate(columns["id"].to_list()):
            again = t.apply_all(chain, {"text": by_key[key.decode()]})
            assert np.array_equal(again["text"], columns["text"][row])
            assert again["tfidf"] == columns["tfidf"][row]
    assert built.manifest.counted["texts cut to 24 tokens (text)"] == sum(
        len(t.apply_all([chain[0], t.tokenise(unit="word", fitted=chain[2].fitted)], {"text": text})["text"]) > 24
        for text in TEXTS
    )


def test_lists_are_ragged_even_where_all_texts_probed_have_one_length(tmp_path: Path) -> None:
    texts = ["one two three"] * 600 + ["four"]
    bushel.build(in_memory(texts), tmp_path / "out", transforms=[t.tokenise()], order="source")
    data = bushel.open(tmp_path / "out")["train"]
    assert data.schema["text"].shape == (None,)
    assert len(data) == 601
    assert data[600]["text"].tolist() == [5]


def test_an_addition_keeps_the_vocabulary(tmp_path: Path) -> None:
    bushel.build(in_memory(TEXTS[:300]), tmp_path / "out", transforms=CHAIN)
    before = {file.name: file.read_bytes() for file in (tmp_path / "out" / "_artifacts").iterdir()}
    built = bushel.build(in_memory([*TEXTS[:300], "entirelynewword the"]), tmp_path / "out", run=Run(append=True))
    assert built.records == 1
    assert {file.name: file.read_bytes() for file in (tmp_path / "out" / "_artifacts").iterdir()} == before
    chain = bushel.open(tmp_path / "out").transforms()
    the = chain[2].fitted.tokens.index("the") + 2
    ids = [row for row in bushel.open(tmp_path / "out")["train"][:]["text"].tolist() if row[:3] == [1, the, 0]]
    assert len(ids) == 1


def test_texts_that_are_not_utf8_are_refused_and_the_rest_written(tmp_path: Path) -> None:
    texts = [b"good text", b"bad \xff text", b"more good text"] * 10
    given = {"text": np.array(texts, object), "number": np.arange(30)}
    built = bushel.build(given, tmp_path / "out", transforms=[t.tokenise(length=3)], run=Run(max_bad=10))
    assert (built.records, built.refused) == (20, 10)
    reasons = (tmp_path / "out" / "_quarantine.jsonl").read_text()
    assert reasons.count("the text is not UTF-8") == 10
    assert bushel.open(tmp_path / "out").transforms()[0].fitted.tokens == ("good", "text", "more")


def test_a_train_split_without_a_word_is_refused(tmp_path: Path) -> None:
    for transform in (t.tokenise(), t.tfidf(), t.tfidf(min_texts=1000)):
        texts = ["..."] * 20 if transform != t.tfidf(min_texts=1000) else ["a b"] * 20
        with pytest.raises(bushel.BushelError, match="has no value in the train split to learn from"):
            bushel.build(in_memory(texts), tmp_path / "out", transforms=[transform])
        assert not (tmp_path / "out").exists()


def test_bytes_need_nothing_to_be_learnt(tmp_path: Path) -> None:
    bushel.build(in_memory(["é!", "x"]), tmp_path / "out", transforms=[t.tokenise(unit="byte")], order="source")
    rows = bushel.open(tmp_path / "out")["train"][:]["text"].to_list()
    assert rows == [[0xC3 + 2, 0xA9 + 2, ord("!") + 2], [ord("x") + 2]]


def test_a_recipe_builds_the_same_again(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    bushel.build(str(rows), tmp_path / "one", transforms=CHAIN, split="80/20")
    bushel.build_recipe(tmp_path / "one" / "recipe.toml", tmp_path / "two")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_sparse_vectors_take_a_fraction_of_dense_ones(tmp_path: Path) -> None:
    built = bushel.build(in_memory(TEXTS), tmp_path / "out", transforms=[t.hash_ngrams(size=10_000)])
    assert built.bytes < len(TEXTS) * 10_000 * 4 / 10
