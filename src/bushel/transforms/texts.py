"""Text made uniform, and what all transforms of text ask of a sample."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from bushel import _native
from bushel.data.columns import BytesColumn, Column, Ragged, splits_of
from bushel.data.samples import Sample
from bushel.errors import BushelError, MissingName, SchemaMismatch
from bushel.transforms.protocol import Draw, value_of

__all__ = ["clean", "learnt_texts", "sample_texts", "text_of", "texts_of"]

# Control characters that are not whitespace: those would join the words on both sides.
CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
_CONTROL = re.compile(f"[{CONTROL}]")
_IS_CONTROL = np.array([byte < 9 or 14 <= byte < 28 or byte == 127 for byte in range(256)])


class Clean(msgspec.Struct, frozen=True, tag="clean"):
    """Text in one Unicode form; small letters, without accents or control characters where that is asked for.

    `form="none"` leaves the form as it is. Whitespace stays, that of the control characters (tabs, line ends, form
    feeds) too. Without accents means without the marks that a letter decomposes into: é to e, but ø stays.
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
        """Clean all texts; ASCII needs no Unicode, and is most of most text."""
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
    """The texts of a column to learn from: without the rows that hold none, which a build refuses."""
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
    """The texts of samples to learn from: without those that are none, which a build refuses."""
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
