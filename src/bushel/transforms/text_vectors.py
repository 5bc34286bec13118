"""Text to vectors: TF-IDF and hashed n-grams, which are sparse, and vectors of words from a file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, SparseColumn, SparseRow, splits_of
from bushel.data.samples import Sample
from bushel.data.schema import Feature
from bushel.errors import BushelError, FileProblem, SchemaMismatch
from bushel.transforms.interface import DeclaredTransform, Draw, array_of, check_may_read, may_read, note
from bushel.transforms.numbers import numbers_column
from bushel.transforms.texts import (
    RESERVED,
    UNKNOWN,
    TermFit,
    TextTransform,
    Unit,
    Vocabulary,
    check_sizes,
    text_of,
    texts_of,
)

Norm: TypeAlias = Literal["l1", "l2", "none"]
_FILE = "terms.json"


class Terms(msgspec.Struct, frozen=True, dict=True):
    """The terms of a vector by place, how many texts of the train split contain each, and the number of texts."""

    terms: tuple[str, ...]
    texts: tuple[int, ...]
    count: int

    @cached_property
    def lookup(self) -> _native.Vocabulary:
        """The lookup of places."""
        column = BytesColumn.of(self.terms)
        return _native.Vocabulary(column.offsets, column.data)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """ln((1 + texts) / (1 + texts with the term)) + 1, as scikit-learn weighs terms by default."""
        found: NDArray[np.float64] = np.log((1 + self.count) / (1 + np.array(self.texts, np.float64))) + 1
        return found


class _TermVector(TextTransform, frozen=True):
    """Text to a sparse vector of its terms; `_vectors` makes those of many texts."""

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Make the vector of the text."""
        transform: Any = self
        vectors = transform._vectors(BytesColumn.of([text_of(sample, transform.feature)]))
        return {**sample, transform.out or transform.feature: vectors[0]}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Make the vectors of all texts."""
        transform: Any = self
        vectors = transform._vectors(texts_of(columns, transform.feature))
        return {**columns, transform.out or transform.feature: vectors}


class Tfidf(_TermVector, frozen=True, tag="tfidf"):
    """Text to a sparse vector: how often each term occurs, times how rare it is in the train split.

    The terms are runs of `ngrams` tokens: the `size` most frequent of those in at least `min_texts` texts. They are
    ordered by code point, and weighted like scikit-learn's TfidfVectorizer with `token_pattern=r"\\w+"` and
    `lowercase=False`; to lower text, use `clean` first.
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

    def begin_fit(self) -> TermsFit:
        """Begin to count terms."""
        return TermsFit(self)

    def save_fitted(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The terms and their weights, as a file."""
        terms = self._terms()
        return {"size": len(terms.terms), "count": terms.count}, {_FILE: msgspec.json.encode(terms)}

    def load_fitted(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> Tfidf:  # noqa: ARG002
        """With the terms of a file."""
        try:
            terms = msgspec.json.decode(files[_FILE], type=Terms)
        except msgspec.MsgspecError as error:
            raise BushelError(f"{_FILE}: not a list of terms: {error}") from None
        return msgspec.structs.replace(self, fitted=terms)

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


class TermsFit(TermFit):
    """Terms counted so far."""

    def finish(self) -> Tfidf:
        """The most frequent terms that are in enough texts, ordered by code point."""
        offsets, data, _, texts = self.counts.ranked()
        kept = np.flatnonzero(texts >= self.transform.min_texts)[: self.transform.size]
        terms = BytesColumn(offsets, data).take(kept)
        # UTF-8 sorts in the order of code points.
        by_term = sorted(zip(terms.to_list(), texts[kept].tolist(), strict=True))
        fitted = Terms(
            terms=tuple(term.decode() for term, _ in by_term),
            texts=tuple(number for _, number in by_term),
            count=self.counts.texts if len(kept) else 0,  # 0: there is nothing to weigh
        )
        made: Tfidf = msgspec.structs.replace(self.transform, fitted=fitted)
        return made


class HashNgrams(_TermVector, frozen=True, tag="hash_ngrams"):
    """Text to a sparse vector of `size`: how often terms occur, at the place of their hash. Nothing is learned.

    As scikit-learn's HashingVectorizer (MurmurHash3) with `token_pattern=r"\\w+"` and `lowercase=False`. With
    `signed`, half of the terms count negatively, so that collisions cancel out on average.
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

    def makes(self) -> dict[str, Feature]:
        """What the vectors are stored as."""
        return {self.out or self.feature: Feature(dtype="float32", shape=(self.size,), encoding="sparse")}

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


class Sparse(DeclaredTransform, msgspec.Struct, frozen=True, tag="sparse"):
    """A vector as the places and values that are not 0 (NaN is not). All samples must have vectors of one size."""

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


Floats = Literal["float16", "float32"]


class Embed(TextTransform, frozen=True, tag="embed"):
    """Text to the vectors of its words, one per word (of one length or ragged), or their mean: raw tensors.

    `file` is text as GloVe and word2vec write it (a word and its numbers per line), or `.npy` with the words of its
    rows in `words` (one per line, or bushel's own `vocabulary.json`, whose first two rows are pad and unknown). Words
    that the file does not have are counted, and become zeros, are left out, or are refused.
    """

    feature: str = "text"
    file: str = ""
    words: str | None = None
    unit: Unit = "word"
    length: int | None = None
    pool: Literal["none", "mean"] = "none"
    dtype: Floats = "float32"
    unknown: Literal["zeros", "leave_out", "refuse"] = "zeros"
    out: str | None = None
    sha256: str | None = None  # of the file

    def __post_init__(self) -> None:
        check_sizes(self)
        choices = {"pool": ("none", "mean"), "dtype": ("float16", "float32")}
        for name, known in {**choices, "unknown": ("zeros", "leave_out", "refuse")}.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}")
        if self.unit == "byte":
            raise ValueError("unit must be one of word, whitespace, character; got 'byte'")
        if not self.file:
            raise ValueError("file must be a file of word vectors, got none")
        if self.sha256 is None and may_read(self.file) and Path(self.file).is_file():
            msgspec.structs.force_setattr(self, "sha256", _digest(self.file))

    def makes(self) -> dict[str, Feature]:
        """What the vectors are stored as."""
        width = self._vectors().matrix.shape[1]
        shape = (width,) if self.pool == "mean" else (self.length, width)
        return {self.out or self.feature: Feature(dtype=self.dtype, shape=shape, encoding="raw")}

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Look up the words of the text."""
        rows = self._rows(BytesColumn.of([text_of(sample, self.feature)]), draw.counted)
        return {**sample, self.out or self.feature: rows[0]}

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """The same, counting what is cut or unknown."""
        rows = self._rows(texts_of(columns, self.feature), counted)
        made: Column
        if self.pool == "mean" or self.length is not None:
            made = np.stack(rows) if rows else np.empty((0, *self._shape()), self.dtype)
        else:
            flat = np.concatenate(rows) if rows else np.empty((0, *self._shape()), self.dtype)
            made = Ragged(flat, splits_of([len(row) for row in rows]))
        return {**columns, self.out or self.feature: made}

    def _shape(self) -> tuple[int, ...]:
        width = self._vectors().matrix.shape[1]
        return (self.length, width) if self.pool == "none" and self.length is not None else (width,)

    def _rows(self, texts: BytesColumn, counted: Counter[str] | None) -> list[NDArray[Any]]:
        vectors = self._vectors()
        found = _native.tokenise(texts.offsets, texts.data, self.unit, vectors.lookup, -1)
        ids, splits, (tokens, unknown, _, _) = found
        if unknown:
            if self.unknown == "refuse":
                raise SchemaMismatch(f"{unknown} of {tokens} words have no vector", at=self.feature)
            note(counted, f"words without a vector in {Path(self.file).name} ({self.feature})", unknown)
        return [self._row(ids[begin:end], vectors.matrix, counted) for begin, end in pairwise(splits)]

    def _row(self, ids: NDArray[np.int64], matrix: NDArray[np.float32], counted: Counter[str] | None) -> NDArray[Any]:
        known = ids != UNKNOWN
        if self.unknown == "leave_out" or self.pool == "mean":
            ids, known = ids[known], known[known]
        found = np.zeros((len(ids), matrix.shape[1]), np.float32)
        found[known] = matrix[ids[known] - RESERVED]
        if self.pool == "mean":
            return (found.mean(axis=0) if len(found) else np.zeros(matrix.shape[1])).astype(self.dtype)
        if self.length is not None:
            if len(found) > self.length:
                note(counted, f"texts cut to {self.length} tokens ({self.feature})")
                note(counted, f"tokens cut off ({self.feature})", len(found) - self.length)
            found = np.concatenate([found, np.zeros((self.length, matrix.shape[1]), np.float32)])[: self.length]
        return found.astype(self.dtype)

    def _vectors(self) -> Vectors:
        for file in (self.file, self.words or self.file):
            check_may_read(file)
        return _read(self.file, self.words, self.sha256)


class Vectors(NamedTuple):
    """Words and their vectors."""

    lookup: Any
    matrix: NDArray[np.float32]


@lru_cache(maxsize=2)
def _read(file: str, words: str | None, sha256: str | None) -> Vectors:
    path = Path(file)
    if not path.is_file():
        raise FileProblem(file, "there is no such file of word vectors")
    if sha256 is not None and (found := _digest(file)) != sha256:
        raise FileProblem(file, f"is not the file that was noted: its SHA-256 is {found}")
    names, matrix = _read_npy(path, words) if path.suffix == ".npy" else _read_text(path)
    if len(names) != len(matrix):
        raise FileProblem(file, f"has {len(matrix)} vectors for {len(names)} words")
    if not np.isfinite(matrix).all():
        raise FileProblem(file, "holds numbers that are not finite")
    column = BytesColumn.of(names)
    return Vectors(_native.Vocabulary(column.offsets, column.data), matrix)


@lru_cache(maxsize=8)
def _digest(file: str) -> str:
    with Path(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _read_npy(path: Path, words: str | None) -> tuple[list[bytes], NDArray[np.float32]]:
    if words is None:
        raise ValueError(f"words must name the file of the words of {path}, got none")
    try:
        matrix = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise FileProblem(path, f"not an array: {error}") from None
    if matrix.ndim != 2 or matrix.dtype.kind != "f":
        raise FileProblem(path, f"must hold rows of floats, got {matrix.dtype}{list(matrix.shape)}")
    matrix = matrix.astype(np.float32)
    data = Path(words).read_bytes()
    if words.endswith(".json"):
        tokens = [token.encode() for token in Vocabulary.from_json(data, words).tokens]
        return tokens, matrix[RESERVED:]
    return data.decode().encode().splitlines(), matrix


def _read_text(path: Path) -> tuple[list[bytes], NDArray[np.float32]]:
    """Lines of a word and its numbers; a first line of two numbers, as word2vec writes it, is skipped."""
    lines = path.read_bytes().splitlines()
    if lines and len(head := lines[0].split()) == 2 and all(part.isdigit() for part in head):
        lines = lines[1:]
    if not lines:
        raise FileProblem(path, "holds no word vectors")
    width = len(lines[0].split(b" ")) - 1
    names, numbers = [], []
    for number, line in enumerate(lines):
        parts = line.rstrip().rsplit(b" ", width)
        if len(parts) != width + 1:
            raise FileProblem(path, f"line {number + 1} has {len(parts) - 1} numbers, and the first has {width}")
        names.append(parts[0])
        numbers += parts[1:]
    try:
        return names, np.array(numbers, np.float32).reshape(len(names), width)
    except ValueError as error:
        raise FileProblem(path, f"not a file of word vectors: {error}") from None


class Raw(DeclaredTransform, msgspec.Struct, frozen=True, tag="raw"):
    """Ready-made vectors, such as embeddings, as raw tensors of float32 or float16, which takes half the space."""

    feature: str
    dtype: Floats = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in ("float16", "float32"):
            raise ValueError(f"dtype must be one of float16, float32; got {self.dtype!r}")

    @property
    def encodes(self) -> dict[str, str]:
        """The dtype of features that are stored raw, whatever their shape."""
        return {self.feature: self.dtype}

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Cast the values."""
        return {**sample, self.feature: self._cast(array_of(sample, self.feature), draw.counted)}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Cast the values of many samples."""
        return self.apply_counted(columns, None)

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """The same, counting what is rounded."""
        column = columns.get(self.feature)
        if isinstance(column, Ragged) and isinstance(column.values, np.ndarray) and column.present is None:
            return {**columns, self.feature: Ragged(self._cast(column.values, counted), column.row_splits)}
        if not isinstance(column, np.ndarray):
            raise SchemaMismatch("expected numbers", at=self.feature)
        return {**columns, self.feature: self._cast(column, counted)}

    def _cast(self, values: NDArray[Any], counted: Counter[str] | None) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            made = values.astype(self.dtype)
        if (np.isinf(made) & ~np.isinf(values)).any():
            raise SchemaMismatch(f"a value does not fit {self.dtype}", at=self.feature)
        note(counted, f"values rounded to {self.dtype} ({self.feature})", int((made != values).sum()))
        return made


embed, raw = Embed, Raw
