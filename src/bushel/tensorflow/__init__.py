"""Datasets as `tf.data` pipelines, and what it takes to write one by hand. TensorFlow is loaded when first used."""

from __future__ import annotations

from bushel.tensorflow.parsing import parse_fn, parse_spec

__all__ = ["parse_fn", "parse_spec"]
