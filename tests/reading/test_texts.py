"""Text transforms at reading time: by batch in the core, with the results of each sample alone and of a build."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import Order, Run, Workers
from bushel import transforms as t
from bushel.data.columns import BytesColumn, Ragged
from bushel.transforms import Draw

TEXTS = ["The cat", "ÉCOLE the dog  the", "", "one", "a_b 12 the cat", "Ωmega The", "dog", "the CAT the dog"] * 4


class Alone:
    """A transform that has no way for columns."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def apply(self, sample: Any, draw: Draw) -> Any:
        return self.step.apply(sample, draw)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Raw texts, and the same built with transforms."""
    folder = tmp_path_factory.mktemp("texts")
    rows = {"text": TEXTS, "number": np.arange(len(TEXTS)), "list": [[n] * (n % 3) for n in range(len(TEXTS))]}
    settings: dict[str, Any] = {"order": "source", "run": Run(workers=1)}
    bushel.build(dict(rows), folder / "raw", **settings)
    chain = [t.clean(lower=True), t.tfidf(out="tfidf"), t.tokenise(min_count=2)]
    bushel.build(dict(rows), folder / "built", transforms=chain, **settings)
    return {"raw": folder / "raw", "built": folder / "built"}


def batches(path: Path, transforms: Any, **settings: Any) -> list[Any]:
    return list(bushel.batches(bushel.open(path)["train"], batch_size=5, transforms=transforms, **settings))


def plain(column: Any) -> list[Any]:
    rows = [row.to_dense() if hasattr(row, "to_dense") else row for row in column]
    return [row.tolist() if isinstance(row, np.ndarray | np.generic) else row for row in rows]


CHAINS = {
    "ragged": [t.clean(lower=True), t.tokenise(unit="byte")],
    "length": [t.clean(form="NFKD", strip_accents=True), t.tokenise(unit="byte", length=4, out="ids")],
    "hashed": [t.hash_ngrams(size=64, ngrams=(1, 2))],
    "clean": [t.clean(lower=True)],
    "mixed": [t.clean(lower=True), Alone(t.tokenise(unit="byte", length=3)), t.jitter("number", std=0.5)],
    "short": [t.tokenise(unit="byte", length=1), t.jitter("number", std=0.5)],
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("processes", [0, 2])
def test_texts_of_a_batch_are_transformed_as_each_alone(data: dict[str, Path], name: str, processes: int) -> None:
    settings = {"order": Order(shuffle=True, seed=4), "workers": Workers(processes=processes)}
    together = batches(data["raw"], CHAINS[name], **settings)
    alone = batches(data["raw"], [Alone(step) for step in CHAINS[name]], order=settings["order"])
    for one, other in zip(together, alone, strict=True):
        assert list(one) == list(other)
        for feature in one:
            assert plain(one[feature]) == plain(other[feature])
            if isinstance(one[feature], np.ndarray):
                assert one[feature].dtype == other[feature].dtype


def test_ids_and_vectors_are_those_that_a_build_writes(data: dict[str, Path]) -> None:
    read = batches(data["raw"], bushel.open(data["built"]).transforms())
    written = batches(data["built"], ())
    for one, other in zip(read, written, strict=True):
        assert list(one["number"]) == list(other["number"])
        assert plain(one["text"]) == plain(other["text"])
        assert plain(one["tfidf"]) == plain(other["tfidf"])
        assert type(one["text"]) is type(other["text"]) is Ragged


def test_the_core_is_asked_once_a_batch(data: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = t.tokenise._ids

    def ids(self: Any, texts: BytesColumn, counted: Any) -> Any:
        asked.append(len(texts))
        return real(self, texts, counted)

    monkeypatch.setattr(t.tokenise, "_ids", ids)
    batches(data["raw"], [t.clean(), t.tokenise(unit="byte")])
    assert sorted(asked) == [2, 5, 5, 5, 5, 5, 5]


def test_a_text_that_is_none_is_the_fault_of_its_record(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tfrecord", schema=bushel.Schema.of(text=bushel.Feature(dtype="bytes"))) as writer:
        for text in (b"one", b"\xff\xfe", b"three"):
            writer.write({"text": text})
    split = bushel.open(tmp_path / "x.tfrecord")["all"]
    chain = [t.clean(lower=True), t.tokenise(unit="byte")]
    with pytest.raises(bushel.SchemaMismatch, match="the text is not UTF-8 - at text"):
        list(bushel.batches(split, batch_size=3, transforms=chain))
    (batch,) = bushel.batches(split, batch_size=3, transforms=chain, on_fault="skip")
    assert [bytes((row - 2).tolist()) for row in batch["text"]] == [b"one", b"three"]
