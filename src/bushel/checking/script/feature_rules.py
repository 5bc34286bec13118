"""PIP023 to PIP027: what the code says of features, beside what the data really holds."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from bushel.checking.collect.facts import FeatureFacts
from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Trace, at_node
from bushel.checking.script.values import Mapping, Spec
from bushel.errors import nearest

__all__: list[str] = []


DTYPES = {"string": "bytes", "int64": "int64", "float32": "float32"}
TF_NAMES = {"bytes": "tf.string", "int64": "tf.int64", "float32": "tf.float32"}


def _specs(trace: Trace) -> Iterator[tuple[str, Spec, ast.AST, Source, FeatureFacts | None]]:
    """Each feature of each description that is used, with what the data holds of it."""
    seen: set[int] = set()
    for event in trace.of("parse"):
        specs: Mapping = event.info["specs"]
        for name, spec in specs.items.items():
            if not isinstance(spec, Spec) or id(spec.node) in seen or trace.data is None or not trace.data.records:
                continue
            seen.add(id(spec.node))
            node = specs.nodes.get(name, spec.node)
            yield str(name), spec, node, specs.source or spec.source, trace.data.features.get(str(name))


def _spec_text(name: str, facts: FeatureFacts) -> str:
    shape = "[]" if facts.length == 1 else f"[{facts.length}]" if facts.length is not None else None
    dtype = TF_NAMES[facts.dtype]
    if shape is None or facts.records < facts.total:
        return f'"{name}": tf.io.RaggedFeature({dtype})'
    return f'"{name}": tf.io.FixedLenFeature({shape}, {dtype})'


def _spec_source(node: ast.AST, spec: Spec, source: Source) -> str:
    return f"{source.segment(node)}: {spec.source.segment(spec.node)}"


@rule("PIP023", "feature-not-in-data", needs="script")
def feature_not_in_data(trace: Trace) -> Iterator[Finding]:
    """A feature that the code asks for and the records do not have, or not all of them.

    Why: `Feature: X (data type: string) is required but could not be found.`
    Example: `"labels"` where the file says `"label"`.
    Fix: the nearest name in the data is given.
    Ignore: never.
    Reports: https://github.com/google/earthengine-api/issues/177 https://github.com/google-research/google-research/issues/1887
    """
    for name, spec, node, source, facts in _specs(trace):
        assert trace.data is not None
        if spec.has_default or spec.kind != "FixedLenFeature":
            continue
        if facts is None:
            close = nearest(name, trace.data.features)
            yield at_node(
                node,
                source,
                f"no record has {name!r}" + (f"; did you mean {close!r}?" if close else ""),
                corrected=_spec_text(close, trace.data.features[close]) if close else None,
                replaces=_spec_source(node, spec, source),
                measured=sorted(trace.data.features),
                expected=name,
            )
        elif facts.records < facts.total:
            yield at_node(
                node,
                source,
                f"{facts.total - facts.records:,} of {facts.total:,} records have no {name!r}",
                corrected=_spec_text(name, facts),
                replaces=_spec_source(node, spec, source),
                measured=facts.records,
                expected=facts.total,
            )


@rule("PIP024", "feature-of-another-type", needs="script")
def feature_of_another_type(trace: Trace) -> Iterator[Finding]:
    """A feature that the code reads as one type and the records hold as another.

    Why: `Key: X. Data types don't match. Expected type: int64, Actual type: float`.
    Example: `FixedLenFeature([], tf.int64)` for what was written as float_list.
    Fix: the type that the records hold is given.
    Ignore: never.
    Reports: https://github.com/ethanyanjiali/deep-vision/issues/13 https://github.com/tensorflow/models/issues/5582
    """
    for name, spec, node, source, facts in _specs(trace):
        if facts is not None and spec.dtype in DTYPES and DTYPES[spec.dtype] != facts.dtype:
            yield at_node(
                node,
                source,
                f"{name!r} is read as tf.{spec.dtype}, and the records hold {facts.dtype}",
                corrected=_spec_text(name, facts),
                replaces=_spec_source(node, spec, source),
                measured=facts.dtype,
                expected=spec.dtype,
            )


@rule("PIP025", "feature-of-another-shape", needs="script")
def feature_of_another_shape(trace: Trace) -> Iterator[Finding]:
    """A fixed shape that does not fit the number of values in the records.

    Why: `Key: X. Number of int64 values != expected. Values size: 2 but output shape: [3]`.
    Example: `FixedLenFeature([3], tf.int64)` where grey images hold two sizes.
    Fix: the shape that fits, or `RaggedFeature` where it varies.
    Ignore: never.
    Reports: https://github.com/ZJULearning/pixel_link/issues/9 https://github.com/johnsmithm/handwritten-tf-1.0/issues/6
    """
    for name, spec, node, source, facts in _specs(trace):
        if facts is None or spec.kind != "FixedLenFeature" or spec.shape is None or not facts.values_known:
            continue
        expected = math.prod(spec.shape)
        wrong = {length: count for length, count in facts.lengths.items() if length != expected}
        if wrong and expected >= 0:
            yield at_node(
                node,
                source,
                f"{name!r} is read as {list(spec.shape)}, and {sum(wrong.values()):,} records hold {min(wrong)} values",
                corrected=_spec_text(name, facts),
                replaces=_spec_source(node, spec, source),
                measured=facts.lengths,
                expected=expected,
            )


@rule("PIP026", "default-hides-absence", severity="warning", needs="script")
def default_hides_absence(trace: Trace) -> Iterator[Finding]:
    """A `default_value` for a feature that many or all records lack.

    Why: the default silences "required but could not be found", and the model is given a constant.
    Example: `FixedLenFeature([], tf.int64, default_value=0)` for a misspelt name.
    Fix: the right name, or no such feature.
    Ignore: where absence is rare and means the default.
    Reports: https://github.com/tensorflow/ranking/issues/125 https://github.com/tensorflow/ranking/issues/227
    """
    for name, spec, node, source, facts in _specs(trace):
        assert trace.data is not None
        optional = spec.has_default or spec.kind != "FixedLenFeature"
        present = facts.records if facts is not None else 0
        total = trace.data.records
        if optional and present < 0.5 * total:
            close = nearest(name, trace.data.features) if facts is None else None
            filled = "the default" if spec.has_default else "nothing"
            yield at_node(
                node,
                source,
                f"{name!r} is {filled} in {1 - present / total:.0%} of the records"
                + (f"; did you mean {close!r}?" if close else ""),
                severity="error" if facts is None else "warning",
                corrected=_spec_text(close, trace.data.features[close]) if close else None,
                replaces=_spec_source(node, spec, source),
                measured=present,
                expected=total,
            )


@rule("PIP027", "sparse-where-dense", severity="warning", needs="script")
def sparse_where_dense(trace: Trace) -> Iterator[Finding]:
    """`VarLenFeature` for a feature that always holds the same number of values, and no `to_dense`.

    Why: it gives a SparseTensor, which most layers refuse or turn dense at a price.
    Example: `VarLenFeature(tf.float32)` for vectors of 64.
    Fix: `FixedLenFeature([64], tf.float32)`
    Ignore: where a SparseTensor is wanted.
    Reports: https://github.com/tensorflow/tensorflow/issues/976
    """
    dense = {event.info["feature"] for event in trace.of("to-dense")}
    for name, spec, node, source, facts in _specs(trace):
        if (
            facts is not None
            and spec.kind == "VarLenFeature"
            and facts.length
            and name not in dense
            and facts.length > 1
        ):
            yield at_node(
                node,
                source,
                f"{name!r} is read as a SparseTensor, and always holds {facts.length} values",
                corrected=_spec_text(name, facts),
                replaces=_spec_source(node, spec, source),
                measured=facts.length,
            )
