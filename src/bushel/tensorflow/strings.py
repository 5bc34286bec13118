"""Text and categories to numbers by TensorFlow's ops: the ids that bushel's own transforms give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from bushel import _native
from bushel.errors import missing_package
from bushel.tensorflow.specs import load
from bushel.transforms import Transform, clean, encode, one_hot, tokenise
from bushel.transforms.texts import Clean
from bushel.transforms.tokens import Tokenise

__all__ = ["STRING_OPS", "clean_texts", "keras_objects", "split_texts", "text_vectorization"]


_BUCKETS = (1 << 63) - 1  # of hashes: as many as there can be
# What `transforms.texts` takes out, as RE2 writes it.
_CONTROL = r"[\x00-\x08\x0e-\x1b\x7f\x{80}-\x{84}\x{86}-\x{9f}]"


def clean_texts(texts: Any, *, lower: bool, strip_control: bool) -> Any:
    """What of cleaning there are ops for."""
    tf = load()
    if strip_control:
        texts = tf.strings.regex_replace(texts, _CONTROL, "")
    if not lower:
        return texts
    # tf.strings.lower ends a text at its first NUL; this character is none, and in no text.
    held = tf.strings.regex_replace(texts, r"\x00", "\ufdd0")
    return tf.strings.regex_replace(tf.strings.lower(held, encoding="utf-8"), "\ufdd0", "\x00")


def split_texts(texts: Any, unit: str) -> Any:
    """The tokens of a vector of texts, ragged."""
    tf = load()
    if unit == "byte":
        return tf.strings.bytes_split(texts)
    if unit == "character":
        return tf.strings.unicode_split(texts, "UTF-8")
    return tf.strings.split(between_spaces(texts, unit))


def between_spaces(texts: Any, unit: str) -> Any:
    """Texts with one space wherever a token ends."""
    return load().strings.regex_replace(texts, _gaps(unit), " ")


@lru_cache
def _gaps(unit: str) -> str:
    """What lies between tokens, as RE2 writes it: characters by number, so that its own Unicode does not matter."""
    ranges = _native.word_ranges() if unit == "word" else _native.space_ranges()
    body = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)
    return f"[{'^' if unit == 'word' else ''}{body}]+"


class Table:
    """Finds the place of each of a list of texts, by ops alone: a table of TensorFlow's would not serialise."""

    def __init__(self, names: Sequence[str]) -> None:
        tf = load()
        with tf.init_scope():
            hashes = tf.strings.to_hash_bucket_fast(tf.constant(list(names), tf.string), _BUCKETS).numpy()
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._order = hashes[order], order
        self._names = [names[place] for place in order.tolist()]
        if (np.diff(self._hashes) == 0).any():
            raise ValueError("vocabulary must not hold two texts of the same 63-bit hash")

    def places(self, texts: Any) -> Any:
        """The place of each text of a vector; the number of names where it is none of them."""
        tf = load()
        count = len(self._names)
        if not count:
            return tf.zeros_like(texts, tf.int64)
        hashes = tf.strings.to_hash_bucket_fast(texts, _BUCKETS)
        at = tf.minimum(tf.searchsorted(tf.constant(self._hashes), hashes), count - 1)
        is_known = tf.gather(tf.constant(self._names, tf.string), at) == texts
        return tf.where(is_known, tf.gather(tf.constant(self._order), at), np.int64(count))


@lru_cache(maxsize=8)
def _table_of(names: tuple[str, ...]) -> Table:
    return Table(names)


def _whole_batches(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """An operation on a vector, for one value too."""

    def operation(step: Any, value: Any, _: Any) -> Any:
        if value.shape.rank == 0:
            return change(step, value[None])[0]
        return change(step, value)

    return operation


def _clean(step: Any, texts: Any, _: Any) -> Any:
    if step.form != "none" or step.strip_accents:
        asked = f"form={step.form!r}" if step.form != "none" else "strip_accents=True"
        raise ValueError(f'engine must be "native" for clean({asked}): TensorFlow has no ops for Unicode forms')
    return clean_texts(texts, lower=step.lower, strip_control=step.strip_control)


def _tokenise(step: Any, texts: Any) -> Any:
    tf = load()
    tokens = split_texts(texts, step.unit)
    if step.unit == "byte":
        flat = tf.cast(tf.io.decode_raw(tokens.values, tf.uint8), tf.int64)[:, 0] + 2
    else:
        known = step.vocabulary.tokens
        places = _table_of(known).places(tokens.values)
        flat = tf.where(places == len(known), np.int64(1), places + 2)
    ids = tf.RaggedTensor.from_row_splits(flat, tf.cast(tokens.row_splits, tf.int64), validate=False)
    if step.length is None:
        return ids
    return ids[:, : step.length].to_tensor(np.int64(0), shape=[None, step.length])


def _codes(step: Any, values: Any) -> Any:
    """The code of each category; the number of classes where it is none."""
    tf = load()
    names, count = step.names, len(step.names)
    if values.dtype == tf.string:
        codes = _table_of(tuple(str(name) for name in names)).places(values)
    else:
        order = np.argsort(np.array(names, np.int64))
        ordered = tf.constant(np.array(names, np.int64)[order])
        values = tf.cast(values, tf.int64)
        at = tf.minimum(tf.searchsorted(ordered, values), count - 1)
        codes = tf.where(tf.gather(ordered, at) == values, tf.gather(tf.constant(order), at), np.int64(count))
    if step.unknown != "refuse":
        return codes
    message = f"{step.feature}: a value is not a class of the train split"
    with tf.control_dependencies([tf.debugging.assert_less(codes, np.int64(count), message)]):
        return tf.identity(codes)


def _one_hot(step: Any, values: Any) -> Any:
    return load().one_hot(_codes(step, values), len(step.names), dtype="int64")


STRING_OPS: dict[type, Callable[[Any, Any, Any], Any]] = {
    clean: _clean,
    tokenise: _whole_batches(_tokenise),
    encode: _whole_batches(_codes),
    one_hot: _whole_batches(_one_hot),
}


def text_vectorization(transforms: Transform | Sequence[Transform], feature: str = "text") -> Any:
    """The `keras.layers.TextVectorization` that gives the ids of `tokenise`, and cleans as `clean` before it does.

    `transforms` are those of a dataset, or the one alone. A model that holds the layer is loaded with
    `keras.models.load_model(path, custom_objects=bushel.tensorflow.keras_objects())`.

    >>> layer = text_vectorization(bushel.open("data").transforms())
    """
    keras = _keras()
    given = list(transforms) if isinstance(transforms, Sequence) else [transforms]
    cleaning, tokens = _of_feature(given, feature)
    if tokens.unit == "byte":
        raise ValueError("unit must be one of word, whitespace, character for a Keras layer; got 'byte'")
    if any(token.endswith("\0") for token in tokens.vocabulary.tokens):
        raise ValueError("vocabulary must hold no token that ends with NUL for a Keras layer; clean with strip_control")
    lower = cleaning is not None and cleaning.lower
    strip_control = cleaning is not None and cleaning.strip_control
    is_plain = tokens.unit == "character" and not lower and not strip_control
    standardise = _standardise()(unit=tokens.unit, lower=lower, strip_control=strip_control)
    return keras.layers.TextVectorization(
        standardize=None if is_plain else standardise,
        split="character" if tokens.unit == "character" else "whitespace",
        output_sequence_length=tokens.length,
        ragged=tokens.length is None,
        vocabulary=list(tokens.vocabulary.tokens),
    )


def keras_objects() -> dict[str, Any]:
    """What Keras needs to load a model that holds this layer."""
    return {"bushel>Standardise": _standardise()}


def _of_feature(transforms: list[Any], feature: str) -> tuple[Clean | None, Tokenise]:
    """What cleans the feature, and what cuts it into tokens."""
    cleaning: Clean | None = None
    for step in transforms:
        if getattr(step, "feature", None) != feature:
            continue
        if isinstance(step, clean):
            if cleaning is not None or step.form != "none" or step.strip_accents:
                raise ValueError(
                    'transforms must clean once, with form="none" and no strip_accents, for a Keras layer: '
                    f"TensorFlow has no ops for Unicode forms; got {step}"
                )
            cleaning = step
        elif isinstance(step, tokenise):
            return cleaning, step
        elif getattr(step, "out", None) is None:
            raise ValueError(f"transforms must only clean before they tokenise, for a Keras layer; got {step}")
    raise ValueError(f"transforms must hold a tokenise of {feature!r}, got {transforms}")


def _keras() -> Any:
    try:
        import keras
    except ImportError:
        raise missing_package("Keras", extra="tensorflow", purpose="bushel.tensorflow.text_vectorization") from None
    return keras


@cache
def _standardise() -> Any:
    @_keras().saving.register_keras_serializable(package="bushel")
    class Standardise:
        """Texts cleaned, with one space between tokens."""

        def __init__(self, unit: str, lower: bool, strip_control: bool) -> None:
            self.unit, self.lower, self.strip_control = unit, lower, strip_control

        def __call__(self, texts: Any) -> Any:
            texts = load().convert_to_tensor(texts, "string")
            texts = clean_texts(texts, lower=self.lower, strip_control=self.strip_control)
            return texts if self.unit == "character" else between_spaces(texts, self.unit)

        def get_config(self) -> dict[str, Any]:
            return {"unit": self.unit, "lower": self.lower, "strip_control": self.strip_control}

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Standardise:
            return cls(**config)

    return Standardise
