"""Datasets as `tf.data` pipelines, and helpers to write one by hand. TensorFlow is loaded when first used.

from bushel.tensorflow import dataset

model.fit(dataset("data", "train", batch_size=64, order=bushel.Order(shuffle=True)))
"""

from __future__ import annotations

from bushel.keras import py_dataset
from bushel.tensorflow.datasets import dataset
from bushel.tensorflow.operations import keras_objects, text_vectorization
from bushel.tensorflow.tensors import parse_fn, parse_spec

__all__ = ["dataset", "keras_objects", "parse_fn", "parse_spec", "py_dataset", "text_vectorization"]
