"""A vocabulary as a Keras layer, which gives the ids of the dataset inside a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from bushel.errors import missing_package
from bushel.tensorflow.framework import load
from bushel.tensorflow.strings import between_spaces, clean_texts
from bushel.transforms import Transform, clean, tokenise
from bushel.transforms.texts import Clean
from bushel.transforms.tokens import Tokenise

__all__ = ["keras_objects", "text_vectorization"]


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
    """What Keras must know to load a model that holds such a layer."""
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
