"""Cleaning text, and turning it into ids: tokens, looked up in a vocabulary that is learned from the train split."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, splits_of
from bushel.data.samples import Sample
from bushel.data.schema import Feature
from bushel.errors import BushelError, FileProblem, MissingName, SchemaMismatch, missing_package
from bushel.transforms.interface import DeclaredTransform, Draw, Fit, check_may_read, may_read, note, value_of

# Control characters except whitespace, whose removal would join words.
CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
_CONTROL = re.compile(f"[{CONTROL}]")
_IS_CONTROL = np.array([byte < 9 or 14 <= byte < 28 or byte == 127 for byte in range(256)])


class Clean(DeclaredTransform, msgspec.Struct, frozen=True, tag="clean"):
    """Text in one Unicode form; on request in lower case, and without accents or control characters.

    `form="none"` leaves the form as it is. Whitespace stays, including control characters such as tabs and
    newlines. Without accents means without the marks that a letter decomposes into: é becomes e, but ø stays.
    """

    in_core: ClassVar[bool] = True
    feature: str = "text"
    form: Literal["NFC", "NFD", "NFKC", "NFKD", "none"] = "NFC"
    lower: bool = False
    strip_accents: bool = False
    strip_control: bool = False

    def __post_init__(self) -> None:
        if self.form not in ("NFC", "NFD", "NFKC", "NFKD", "none"):
            raise ValueError(f"form must be one of NFC, NFD, NFKC, NFKD, none; got {self.form!r}")

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Clean the text."""
        return {**sample, self.feature: self.clean_text(text_of(sample, self.feature))}

    def clean_text(self, text: str) -> str:
        """One text, cleaned."""
        if self.strip_control:
            text = _CONTROL.sub("", text)
        text = self._in_form(text)
        if self.lower:
            text = self._in_form(text.lower())
        if self.strip_accents:
            parts = unicodedata.normalize("NFKD" if self.form in ("NFKC", "NFKD") else "NFD", text)
            bare = "".join(char for char in parts if unicodedata.category(char) != "Mn")
            text = unicodedata.normalize("NFC" if self.form == "none" else self.form, bare)
        return text

    def _in_form(self, text: str) -> str:
        return text if self.form == "none" else unicodedata.normalize(self.form, text)

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Clean all texts, with a fast path for ASCII, which most text is."""
        column = texts_of(columns, self.feature)
        lowered, others = _native.lower_ascii(column.offsets, column.data)
        data = lowered if self.lower else column.data
        slow = np.flatnonzero(others)
        if self.strip_control and (marks := np.flatnonzero(_IS_CONTROL[column.data])).size:
            slow = np.union1d(slow, np.searchsorted(column.offsets, marks, side="right") - 1)
        cleaned = BytesColumn(column.offsets, data)
        if slow.size:
            cleaned = _replaced(cleaned, slow, [self.clean_text(column[row].decode()) for row in slow.tolist()])
        return {**columns, self.feature: cleaned}


def _replaced(column: BytesColumn, rows: Any, texts: list[str]) -> BytesColumn:
    """A column with other texts in some rows."""
    encoded = [text.encode() for text in texts]
    lengths = column.lengths
    lengths[rows] = [len(text) for text in encoded]
    pieces: list[Any] = []
    begin = 0
    for row, text in zip(rows.tolist(), encoded, strict=True):
        pieces += [column.data[column.offsets[begin] : column.offsets[row]], text]
        begin = row + 1
    pieces.append(column.data[column.offsets[begin] : column.offsets[-1]])
    return BytesColumn(splits_of(lengths), np.frombuffer(b"".join(pieces), np.uint8))


def text_of(sample: Sample, feature: str) -> str:
    """The value of a feature that must be text."""
    value = value_of(sample, feature)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise SchemaMismatch("the text is not UTF-8", at=feature) from None
    if not isinstance(value, str):
        raise SchemaMismatch(f"expected text, got {type(value).__name__}", at=feature)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SchemaMismatch("the text holds characters that UTF-8 cannot encode", at=feature) from None
    return value


def texts_of(columns: dict[str, Column], feature: str) -> BytesColumn:
    """The column of a feature that must be text in every row."""
    if feature not in columns:
        raise MissingName("feature", feature, columns, where="transform")
    column = columns[feature]
    if not isinstance(column, BytesColumn):
        raise SchemaMismatch("expected one text per row", at=feature)
    column = BytesColumn(np.ascontiguousarray(column.offsets, np.int64), np.ascontiguousarray(column.data))
    if (row := _native.first_not_utf8(column.offsets, column.data)) < len(column):
        raise SchemaMismatch("the text is not UTF-8", at=f"{feature}[{row}]")
    return column


def learnt_texts(columns: dict[str, Column], feature: str) -> BytesColumn:
    """The texts of a column to learn from, without rows that have none, which a build refuses."""
    column = columns.get(feature)
    if isinstance(column, Ragged) and isinstance(column.values, BytesColumn):
        column = column.values.take(column.row_splits[:-1][column.lengths == 1])
    if not isinstance(column, BytesColumn):
        return BytesColumn.of([])
    column = BytesColumn(np.ascontiguousarray(column.offsets, np.int64), np.ascontiguousarray(column.data))
    if _native.first_not_utf8(column.offsets, column.data) == len(column):
        return column
    return BytesColumn.of([text for text in column if _is_utf8(text)])


def sample_texts(samples: Sequence[Sample], feature: str) -> BytesColumn:
    """The texts of samples to learn from, without values that are not text, which a build refuses."""
    found = []
    for sample in samples:
        try:
            found.append(text_of(sample, feature))
        except BushelError:
            continue
    return BytesColumn.of(found)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


clean = Clean


PAD, UNKNOWN, RESERVED = 0, 1, 2
Unit: TypeAlias = Literal["word", "whitespace", "character", "byte"]
UNITS = ("word", "whitespace", "character", "byte")
_VOCABULARY_FILE = "vocabulary.json"


class Vocabulary(msgspec.Struct, frozen=True, dict=True):
    """Tokens by id minus 2, and how often each occurred: the most frequent first, then by code point.

    0 is padding, 1 is any other token. These two are only numbers, so no text can be mistaken for them.
    """

    tokens: tuple[str, ...]
    counts: tuple[int, ...]
    count: int | None = None  # number of all tokens

    def __len__(self) -> int:
        return RESERVED + len(self.tokens)

    @cached_property
    def lookup(self) -> _native.Vocabulary:
        """The lookup of ids."""
        column = BytesColumn.of(self.tokens)
        return _native.Vocabulary(column.offsets, column.data)

    @classmethod
    def from_json(cls, data: bytes, name: str = _VOCABULARY_FILE) -> Vocabulary:
        """Read what `to_json` wrote."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise BushelError(f"{name}: not a vocabulary: {error}") from None

    def to_json(self) -> bytes:
        """As JSON, which FORMAT.md describes."""
        return msgspec.json.encode(self)


class Counts:
    """How often each term occurs, and in how many texts; it can be pickled and merged."""

    def __init__(self, unit: Unit, ngrams: tuple[int, int] = (1, 1)) -> None:
        self.unit: Unit = unit
        self.ngrams = ngrams
        self.texts = 0
        self._counter = _native.TermCounter(unit, *ngrams)

    def add(self, column: BytesColumn) -> None:
        """Count the terms of more texts."""
        self._counter.add(column.offsets, column.data)
        self.texts += len(column)

    def merge(self, other: Counts) -> None:
        """Add what was counted elsewhere."""
        self._counter.add_counts(*other._counter.counted())
        self.texts += other.texts

    def ranked(self) -> tuple[Any, Any, Any, Any]:
        """Offsets and data of the terms, their counts and in how many texts they are; the most frequent first."""
        return self._counter.ranked()

    def __getstate__(self) -> dict[str, Any]:
        return {"unit": self.unit, "ngrams": self.ngrams, "texts": self.texts, "counted": self._counter.counted()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["unit"], state["ngrams"])  # type: ignore[misc]
        self.texts = state["texts"]
        self._counter.add_counts(*state["counted"])


class TextTransform(DeclaredTransform, msgspec.Struct, frozen=True):
    """A transform of text, under the same name or as the feature `out`."""

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Change all texts."""
        transform: Any = self
        made: dict[str, Column] = transform.apply_counted(columns, None)
        return made


class TermFit:
    """What a transform of text has counted so far; `finish` is its own."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform
        self.counts = Counts(transform.unit, getattr(transform, "ngrams", (1, 1)))

    def add(self, samples: Sequence[Sample]) -> None:
        """Count the terms of more samples."""
        self.counts.add(sample_texts(samples, self.transform.feature))

    def add_columns(self, columns: dict[str, Column]) -> None:
        """Count the terms of more texts."""
        self.counts.add(learnt_texts(columns, self.transform.feature))

    def merge(self, other: Any) -> Any:
        """What both have counted."""
        self.counts.merge(other.counts)
        return self


class Tokenise(TextTransform, frozen=True, tag="tokenise"):
    """Text to int64 ids, of one length or ragged, under the same name or as the feature `out`.

    `word` is a run of letters, marks, digits and underscores of any script; `whitespace` splits at whitespace. At most
    `size` ids, including pad and unknown, stand for tokens that occur at least `min_count` times in the train split.
    The id of a byte is its value plus 2, without a vocabulary.
    """

    in_core: ClassVar[bool] = True
    feature: str = "text"
    unit: Unit = "word"
    size: int | None = None
    min_count: int = 1
    length: int | None = None
    out: str | None = None
    fitted: Vocabulary | None = None

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.size is not None and self.size <= RESERVED:
            raise ValueError(f"size must be above 2, which are pad and unknown; got {self.size}")

    @property
    def is_given(self) -> bool:
        """Whether tokens are bytes, so that there is nothing to learn."""
        return self.unit == "byte"

    def makes(self) -> dict[str, Feature]:
        """What the ids are stored as."""
        return {self.out or self.feature: Feature(dtype="int64", shape=(self.length,))}

    def begin_fit(self) -> VocabularyFit:
        """Begin to count tokens."""
        return VocabularyFit(self)

    def save_fitted(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The vocabulary as a file."""
        vocabulary = self.vocabulary
        return {"size": len(vocabulary), "count": vocabulary.count}, {_VOCABULARY_FILE: vocabulary.to_json()}

    def load_fitted(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenise:  # noqa: ARG002
        """With the vocabulary of a file."""
        return msgspec.structs.replace(self, fitted=Vocabulary.from_json(files[_VOCABULARY_FILE]))

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Split the text and look up its tokens."""
        ids, _ = self._ids(BytesColumn.of([text_of(sample, self.feature)]), draw.counted)
        return {**sample, self.out or self.feature: ids}

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """The same, counting what is cut or unknown."""
        column = texts_of(columns, self.feature)
        ids, splits = self._ids(column, counted)
        made = Ragged(ids, splits) if splits is not None else ids.reshape(len(column), self.length or 0)
        return {**columns, self.out or self.feature: made}

    def _ids(
        self, texts: BytesColumn, counted: Counter[str] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        length = -1 if self.length is None else self.length
        lookup = None if self.unit == "byte" else self.vocabulary.lookup
        ids, splits, (_, unknown, cut, lost) = _native.tokenise(texts.offsets, texts.data, self.unit, lookup, length)
        if cut:
            note(counted, f"texts cut to {self.length} tokens ({self.feature})", cut)
            note(counted, f"tokens cut off ({self.feature})", lost)
        note(counted, f"tokens not in the vocabulary ({self.feature})", unknown)
        return ids, splits

    @property
    def vocabulary(self) -> Vocabulary:
        """What was learned; an error if nothing was."""
        if self.fitted is None:
            raise BushelError(
                f"tokenise({self.feature!r}) has no vocabulary yet",
                help=["A build fits it; of a dataset that was built: bushel.open(PATH).transforms()"],
            )
        return self.fitted


class VocabularyFit(TermFit):
    """Tokens counted so far."""

    def finish(self) -> Tokenise:
        """The tokens that are frequent enough, up to the largest number."""
        offsets, data, counts, _ = self.counts.ranked()
        most = len(counts) if self.transform.size is None else self.transform.size - RESERVED
        kept = min(most, int((counts >= self.transform.min_count).sum()))
        ends, joined = offsets[: kept + 1].tolist(), data.tobytes()
        vocabulary = Vocabulary(
            tokens=tuple(joined[begin:end].decode() for begin, end in pairwise(ends)),
            counts=tuple(counts[:kept].tolist()),
            count=int(counts.sum()),
        )
        made: Tokenise = msgspec.structs.replace(self.transform, fitted=vocabulary)
        return made


def check_sizes(transform: Any) -> None:
    """Refuse settings of text transforms that make no sense."""
    if transform.unit not in UNITS:
        raise ValueError(f"unit must be one of {', '.join(UNITS)}; got {transform.unit!r}")
    for name in ("size", "min_count", "length"):
        if (value := getattr(transform, name, None)) is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


tokenise = Tokenise


_TOKENIZER_FILE = "tokenizer.json"


class TokeniseFile(TextTransform, frozen=True, tag="tokenise_file"):
    """Text to the int64 ids that a `tokenizers` file gives, of one length or ragged.

    The file becomes an artifact of the dataset, so it is not needed again. `special` adds the tokens that the file puts
    around a text. Rows are padded with its pad token, or with `pad`.
    """

    feature: str = "text"
    file: str = _TOKENIZER_FILE
    length: int | None = None
    special: bool = False
    pad: int | None = None
    out: str | None = None
    sha256: str | None = None
    fitted: str | None = None  # what the file holds

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")
        if self.fitted is None and may_read(self.file) and Path(self.file).is_file():
            data = Path(self.file).read_bytes()
            msgspec.structs.force_setattr(self, "sha256", digest_of(self.file, data, self.sha256))
            msgspec.structs.force_setattr(self, "fitted", data.decode(errors="replace"))

    @property
    def is_given(self) -> bool:
        """There is nothing to learn."""
        return True

    def makes(self) -> dict[str, Feature]:
        """What the ids are stored as."""
        return {self.out or self.feature: Feature(dtype="int64", shape=(self.length,))}

    def begin_fit(self) -> Fit:
        """Nothing is learnt; the file must be there."""
        check_may_read(self.file)
        raise FileProblem(self.file, "there is no such tokenizer file")

    def save_fitted(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The file itself."""
        return {"sha256": self.sha256}, {_TOKENIZER_FILE: self._content().encode()}

    def load_fitted(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> TokeniseFile:  # noqa: ARG002
        """With the file that was kept."""
        return msgspec.structs.replace(self, fitted=files[_TOKENIZER_FILE].decode())

    def apply(self, sample: Sample, draw: Draw) -> Sample:
        """Tokenise the text."""
        ids = self._ids([text_of(sample, self.feature)], draw.counted)[0]
        return {**sample, self.out or self.feature: ids}

    def apply_counted(self, columns: dict[str, Column], counted: Counter[str] | None) -> dict[str, Column]:
        """The same, counting what is cut or unknown."""
        rows = self._ids([text.decode() for text in texts_of(columns, self.feature)], counted)
        made: Column = Ragged.of(rows, np.int64)
        if self.length is not None:
            made = np.array(rows, np.int64).reshape(len(rows), self.length)
        return {**columns, self.out or self.feature: made}

    def _ids(self, texts: Sequence[str], counted: Counter[str] | None) -> list[NDArray[np.int64]]:
        tokenizer = _load(self._content(), self.file)
        pad = self._pad_id(tokenizer) if self.length is not None else 0
        unknown = _unknown_id(tokenizer)
        found, cut, lost, missed = [], 0, 0, 0
        for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=self.special):
            ids = np.array(encoding.ids, np.int64)
            if self.length is not None:
                cut += len(ids) > self.length
                lost += max(0, len(ids) - self.length)
                ids = np.concatenate([ids[: self.length], np.full(max(0, self.length - len(ids)), pad, np.int64)])
            missed += 0 if unknown is None else int((ids == unknown).sum())
            found.append(ids)
        if cut:
            note(counted, f"texts cut to {self.length} tokens ({self.feature})", cut)
            note(counted, f"tokens cut off ({self.feature})", lost)
        note(counted, f"tokens not in the vocabulary ({self.feature})", missed)
        return found

    def _pad_id(self, tokenizer: Any) -> int:
        if self.pad is not None:
            return self.pad
        for name in ("[PAD]", "<pad>", "<|padding|>"):
            if (found := tokenizer.token_to_id(name)) is not None:
                return int(found)
        raise ValueError(f"pad must be given: {self.file} has no pad token to fill rows up with")

    def _content(self) -> str:
        if self.fitted is None:
            raise FileProblem(self.file, "there is no such tokenizer file")
        return self.fitted


def digest_of(path: str, data: bytes, expected: str | None) -> str:
    """The SHA-256 of a file, which must be the recorded one."""
    found = hashlib.sha256(data).hexdigest()
    if expected is not None and found != expected:
        raise ValueError(f"sha256 of {path} must be {expected}, got {found}: the file was changed")
    return found


def _unknown_id(tokenizer: Any) -> int | None:
    name = getattr(tokenizer.model, "unk_token", None)
    return None if name is None else tokenizer.token_to_id(name)


@lru_cache(maxsize=4)
def _load(content: str, path: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise missing_package("tokenizers", extra="text", purpose="tokenise_file") from None
    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # the package raises bare Exceptions
        raise FileProblem(path, f"not a tokenizer file: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


tokenise_file = TokeniseFile
