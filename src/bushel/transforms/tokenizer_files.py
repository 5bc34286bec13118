"""Text to the ids of a tokenizer of Hugging Face: any `tokenizer.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.columns import Column, Ragged
from bushel.errors import FileProblem, missing_package
from bushel.records import Sample
from bushel.schema import Feature
from bushel.transforms.counting import note
from bushel.transforms.protocol import Draw, Fit
from bushel.transforms.texts import text_of, texts_of

__all__ = ["digest_of", "tokenise_file"]

_FILE = "tokenizer.json"


class TokeniseFile(msgspec.Struct, frozen=True, tag="tokenise_file"):
    """Text to the int64 ids that a `tokenizers` file gives, of one length or ragged.

    The file becomes an artifact of the dataset, so that it is not needed again. `special` adds the tokens that the file
    puts around a text. Rows are filled up with its own pad token, or with `pad`.
    """

    feature: str = "text"
    file: str = _FILE
    length: int | None = None
    special: bool = False
    pad: int | None = None
    out: str | None = None
    sha256: str | None = None
    fitted: str | None = None  # what the file holds

    def __post_init__(self) -> None:
        if self.length is not None and self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")
        if self.fitted is None and Path(self.file).is_file():
            data = Path(self.file).read_bytes()
            msgspec.structs.force_setattr(self, "sha256", digest_of(self.file, data, self.sha256))
            msgspec.structs.force_setattr(self, "fitted", data.decode(errors="replace"))

    @property
    def is_given(self) -> bool:
        """There is nothing to learn."""
        return True

    @property
    def touches(self) -> tuple[str, ...]:
        """What it reads and writes."""
        return (self.feature, self.out or self.feature)

    def makes(self) -> dict[str, Feature]:
        """What the ids are stored as."""
        return {self.out or self.feature: Feature(dtype="int64", shape=(self.length,))}

    def begin_fit(self) -> Fit:
        """Nothing is learnt; the file must be there."""
        raise FileProblem(self.file, "there is no such tokenizer file")

    def save_fitted(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The file itself."""
        return {"sha256": self.sha256}, {_FILE: self._content().encode()}

    def load_fitted(self, values: Mapping[str, Any], files: Mapping[str, bytes]) -> TokeniseFile:  # noqa: ARG002
        """With the file that was kept."""
        return msgspec.structs.replace(self, fitted=files[_FILE].decode())

    def apply(self, sample: Sample, draw: Draw) -> Sample:  # noqa: ARG002
        """Tokenise the text."""
        ids = self._ids([text_of(sample, self.feature)])[0]
        return {**sample, self.out or self.feature: ids}

    def apply_columns(self, columns: dict[str, Column]) -> dict[str, Column]:
        """Tokenise all texts."""
        rows = self._ids([text.decode() for text in texts_of(columns, self.feature)])
        made: Column = Ragged.of(rows, np.int64)
        if self.length is not None:
            made = np.array(rows, np.int64).reshape(len(rows), self.length)
        return {**columns, self.out or self.feature: made}

    def _ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
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
            note(f"texts cut to {self.length} tokens ({self.feature})", cut)
            note(f"tokens cut off ({self.feature})", lost)
        note(f"tokens not in the vocabulary ({self.feature})", missed)
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
    """The SHA-256 of a file, which must be the one that was noted."""
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
