"""Text to sparse vectors: TF-IDF, whose terms and weights are learnt from the train split, and hashed n-grams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, SparseColumn, SparseRow, splits_of
from bushel.data.samples import Sample
from bushel.data.schema import Feature
from bushel.errors import BushelError, SchemaMismatch
from bushel.transforms.numbers import numbers_column
from bushel.transforms.protocol import Draw, array_of
from bushel.transforms.texts import learnt_texts, sample_texts, text_of, texts_of
from bushel.transforms.tokens import Counts, Unit, check_sizes

__all__ = ["Terms", "hash_ngrams", "sparse", "tfidf"]


Norm: TypeAlias = Literal["l1", "l2", "none"]
_FILE = "terms.json"


class Terms(msgspec.Struct, frozen=True, dict=True):
    """The terms of a vector by their place, in how many texts of the train split each is, and of how many."""

    terms: tuple[str, ...]
    texts: tuple[int, ...]
    count: int

    @cached_property
    def lookup(self) -> _native.Vocabulary:
        """What finds places."""
        column = BytesColumn.of(self.terms)
        return _native.Vocabulary(column.offsets, column.data)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """ln((1 + texts) / (1 + texts with the term)) + 1, as scikit-learn weighs terms by default."""
        found: NDArray[np.float64] = np.log((1 + self.count) / (1 + np.array(self.texts, np.float64))) + 1
        return found


class Tfidf(msgspec.Struct, frozen=True, tag="tfidf"):
    """Text to a sparse vector: how often each term occurs, times how rare it is in the train split.

    The terms are runs of `ngrams` tokens: the `size` most frequent of those that `min_texts` texts have. They are
    ordered by code point, and weighed as scikit-learn's TfidfVectorizer does with `token_pattern=r"\\w+"` and
    `lowercase=False`; lower with `clean` before.
    """

    in_core: ClassVar[bool] = True
    feature: str = "text"
    unit: Unit = "word"
    ngrams: tuple[int, int] = (1, 1)
    size: int | None = None
    min_texts: int = 1
    sublinear: bool = False  # 1 + ln(count) instead of the count
    norm: Norm = "l2"
    out: str | None = None
    fitted: Terms | None = None

    def __post_init__(self) -> None:
        check_sizes(self)
        _check_terms(self)
        if self.unit == "byte":
            raise ValueError("unit must be one of word, whitespace, character; got 'byte'")  # their terms are not text
        if self.min_texts < 1:
            raise ValueError(f"min_texts must be at least 1, got {self.min_texts}")

    @property
    def touches(self) -> tuple[str, ...]:
        """What it reads and writes."""
        return (self.feature, self.out or self.feature)

    def begin_fit(self) -> TermsFit:
        """Begin to count terms."""
        return TermsFit(self)

    def save_fitted(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The terms and their weights as a file."""
        terms = self._terms()
        return {"size": len(terms.terms), "count": terms.count}, {_FILE: msgspec.json.encode(terms)}

    def load_fitted(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> Tfidf:  # noqa: ARG002
        """With the terms of a file."""
        try:
            terms = msgspec.json.decode(files[_FILE], type=Terms)
        except msgspec.MsgspecError as error:
            raise BushelError(f"{_FILE}: not a list of terms: {error}") from None
        return msgspec.structs.replace(self, fitted=terms)

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Weigh the terms of the text."""
        return {**sample, self.out or self.feature: self._vectors(BytesColumn.of([text_of(sample, self.feature)]))[0]}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Weigh the terms of all texts."""
        made: Any = self._vectors(texts_of(columns, self.feature))
        return {**columns, self.out or self.feature: made}

    def _vectors(self, texts: BytesColumn) -> SparseColumn:
        terms = self._terms()
        places, values, splits = _native.weigh_terms(
            texts.offsets,
            texts.data,
            self.unit,
            self.ngrams,
            terms.lookup,
            terms.weights,
            self.norm,
            self.sublinear,
            False,
        )
        return SparseColumn(places, values, splits, len(terms.terms))

    def _terms(self) -> Terms:
        if self.fitted is None:
            raise BushelError(
                f"tfidf({self.feature!r}) knows no terms yet",
                help=["A build fits it; of a dataset that was built: bushel.open(PATH).transforms()"],
            )
        return self.fitted


class TermsFit:
    """Terms counted so far."""

    def __init__(self, transform: Tfidf) -> None:
        self.transform = transform
        self.counts = Counts(transform.unit, transform.ngrams)

    def add(self, samples: Sequence[Sample]) -> None:
        """Count the terms of more samples."""
        self.counts.add(sample_texts(samples, self.transform.feature))

    def add_columns(self, columns: dict[str, Column]) -> None:
        """Count the terms of more texts."""
        self.counts.add(learnt_texts(columns, self.transform.feature))

    def merge(self, other: TermsFit) -> TermsFit:
        """What both have counted."""
        self.counts.merge(other.counts)
        return self

    def finish(self) -> Tfidf:
        """The terms that are in enough texts, the most frequent of them, by code point."""
        offsets, data, _, texts = self.counts.ranked()
        kept = np.flatnonzero(texts >= self.transform.min_texts)[: self.transform.size]
        terms = BytesColumn(offsets, data).take(kept)
        # UTF-8 sorts as the characters that it encodes do.
        by_term = sorted(zip(terms.to_list(), texts[kept].tolist(), strict=True))
        fitted = Terms(
            terms=tuple(term.decode() for term, _ in by_term),
            texts=tuple(number for _, number in by_term),
            count=self.counts.texts if len(kept) else 0,  # 0: there is nothing to weigh
        )
        return msgspec.structs.replace(self.transform, fitted=fitted)


class HashNgrams(msgspec.Struct, frozen=True, tag="hash_ngrams"):
    """Text to a sparse vector of `size`: how often terms occur whose hash is that place. Nothing is learnt.

    As scikit-learn's HashingVectorizer (MurmurHash3) with `token_pattern=r"\\w+"` and `lowercase=False`. With
    `signed`, half of the terms count downwards, so that those that meet in one place cancel out on average.
    """

    in_core: ClassVar[bool] = True
    feature: str = "text"
    size: int = 1 << 18
    unit: Unit = "word"
    ngrams: tuple[int, int] = (1, 1)
    signed: bool = True
    binary: bool = False
    norm: Norm = "l2"
    out: str | None = None

    def __post_init__(self) -> None:
        check_sizes(self)
        _check_terms(self)
        if self.size >= 1 << 31:
            raise ValueError(f"size must be below 2^31, got {self.size}")

    @property
    def touches(self) -> tuple[str, ...]:
        """What it reads and writes."""
        return (self.feature, self.out or self.feature)

    def makes(self) -> dict[str, Feature]:
        """What the vectors are stored as."""
        return {self.out or self.feature: Feature(dtype="float32", shape=(self.size,), encoding="sparse")}

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Hash the terms of the text."""
        return {**sample, self.out or self.feature: self._vectors(BytesColumn.of([text_of(sample, self.feature)]))[0]}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Hash the terms of all texts."""
        made: Any = self._vectors(texts_of(columns, self.feature))
        return {**columns, self.out or self.feature: made}

    def _vectors(self, texts: BytesColumn) -> SparseColumn:
        places, values, splits = _native.hash_terms(
            texts.offsets, texts.data, self.unit, self.ngrams, self.size, self.signed, self.norm, self.binary
        )
        return SparseColumn(places, values, splits, self.size)


def _check_terms(transform: Any) -> None:
    shortest, longest = transform.ngrams
    if not 1 <= shortest <= longest:
        raise ValueError(f"ngrams must be the least and the most tokens of a term, got {transform.ngrams}")
    if transform.norm not in ("l1", "l2", "none"):
        raise ValueError(f"norm must be one of l1, l2, none; got {transform.norm!r}")


tfidf, hash_ngrams = Tfidf, HashNgrams


class Sparse(msgspec.Struct, frozen=True, tag="sparse"):
    """A vector as the places and values that are not 0; NaN is not 0. All samples must have vectors of one size."""

    feature: str

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Keep what is not 0."""
        if self.feature not in sample:
            return sample
        values = array_of(sample, self.feature)
        if values.ndim != 1:
            raise SchemaMismatch(f"expected a vector, got an array of shape {values.shape}", at=self.feature)
        places = np.flatnonzero(values)
        return {**sample, self.feature: SparseRow(places, _stored(values[places]), len(values))}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Keep what is not 0 of many samples."""
        column = numbers_column(columns, self.feature)
        if not isinstance(column, np.ndarray) or column.ndim != 2:
            raise SchemaMismatch("expected vectors of one size", at=self.feature)
        rows, places = np.nonzero(column)
        splits = splits_of(np.bincount(rows, minlength=len(column)))
        made: Any = SparseColumn(places.astype(np.int64), _stored(column[rows, places]), splits, column.shape[1])
        return {**columns, self.feature: made}


def _stored(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int64)


sparse = Sparse
