"""PIP020 to PIP039: what the code says of the data, beside what the data really holds."""

from __future__ import annotations

import ast
import glob
import math
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from bushel.checking.facts import FeatureFacts
from bushel.checking.findings import Finding
from bushel.checking.rules import rule
from bushel.checking.script.matching import exists_on_disk, matched_files
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Trace, at_node
from bushel.checking.script.values import Mapping, Spec
from bushel.errors import nearest

__all__: list[str] = []

DTYPES = {"string": "bytes", "int64": "int64", "float32": "float32"}
TF_NAMES = {"bytes": "tf.string", "int64": "tf.int64", "float32": "tf.float32"}
NAMED_BY_RATIO = {2: "tf.int16 or tf.float16", 4: "tf.float32 or tf.int32", 8: "tf.float64 or tf.int64"}


@rule("PIP020", "pattern-handed-to-reader", needs="script")
def pattern_handed_to_reader(trace: Trace) -> Iterator[Finding]:
    """A pattern with `*` handed to `TFRecordDataset`, which does not expand it.

    Why: `NotFoundError: train-*.tfrecord; No such file or directory`.
    Example: `tf.data.TFRecordDataset("train-*.tfrecord")`
    Fix: `tf.data.TFRecordDataset(tf.io.gfile.glob("train-*.tfrecord"))`, or `list_files`.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/33048
    """
    for event in trace.of("reads"):
        files = event.info["files"]
        magic = [p for p in files.patterns or () if glob.has_magic(p)]
        if magic and not files.is_expanded:
            text = event.source.segment(event.node)
            argument = event.source.segment(event.node.args[0]) if getattr(event.node, "args", None) else repr(magic[0])  # type: ignore[attr-defined]
            yield at_node(
                event.node,
                event.source,
                f"TFRecordDataset does not expand {magic[0]!r}",
                corrected=text.replace(argument, f"tf.io.gfile.glob({argument})", 1),
            )


@rule("PIP021", "pattern-matches-nothing", needs="script")
def pattern_matches_nothing(trace: Trace) -> Iterator[Finding]:
    """A file name or pattern that none of the files matches.

    Why: an empty list of files is an empty dataset: `OutOfRangeError: End of sequence`, and no other hint.
    Example: a space behind `=` in a flag, `trian-*.tfrecord`.
    Fix: the nearest name is given; stop when the list is empty.
    Ignore: where the script is meant for files that are elsewhere.
    Reports: https://github.com/tensorflow/tensorflow/issues/26038 https://github.com/google/automl/issues/308
    """
    seen: set[str] = set()
    for event in [*trace.of("lists"), *trace.of("reads")]:
        files = event.info["files"]
        if files.patterns == []:
            yield at_node(
                event.node, event.source, "the list of files is empty", help=["stop when it is: if not files: raise"]
            )
        if trace.data is None:
            continue
        for pattern in files.patterns or ():
            if pattern in seen or matched_files(trace, files) or exists_on_disk(trace, pattern):
                continue
            seen.add(pattern)
            name = PurePosixPath(pattern).name
            close = _nearest_pattern(name, [file.path.name for file in trace.data.files])
            if files.is_guessed and not close:
                continue  # what is not known of the name may be anything
            yield at_node(
                event.node,
                event.source,
                f"no file matches {pattern!r}" + (f"; did you mean {close!r}?" if close else ""),
                severity=None if close else "info",
                confidence="proven" if close else "hint",
                help=[f"there is {close}" if close else "these files are not among those that were checked"],
                measured=0,
            )


def _nearest_pattern(pattern: str, names: list[str]) -> str | None:
    """A name that the pattern was probably meant to match."""
    stem = pattern.split("*", maxsplit=1)[0] or pattern
    heads = {name[: len(stem)]: name for name in names}
    close = nearest(stem, heads)
    return heads[close] if close else nearest(pattern, names)


@rule("PIP022", "compression-not-as-read", needs="script")
def compression_not_as_read(trace: Trace) -> Iterator[Finding]:
    """`compression_type` that is not what the files have.

    Why: TensorFlow does not look; either way it says `corrupted record at 0`.
    Example: `TFRecordDataset("train.tfrecord.gz")` without `compression_type="GZIP"`.
    Fix: say what the files are, or read them with bushel, which looks.
    Ignore: never.
    Reports: https://github.com/hassan-mahmood/TIES_DataGeneration/issues/11 https://github.com/tensorflow/minigo/issues/433
    """
    for event in trace.of("reads"):
        said = event.info["compression"]
        if said == "?":
            continue
        for file in matched_files(trace, event.info["files"]):
            real = (file.compression or "").upper()
            if real == (said or "") or file.problem is not None:
                continue
            text = event.source.segment(event.node)
            corrected = (
                f'{text[:-1]}, compression_type="{real}")' if real and not said else f'compression_type="{real}"'
            )
            yield at_node(
                event.node,
                event.source,
                f"{file.path.name} is {file.compression or 'not compressed'}, and read as {said or 'not compressed'}",
                corrected=corrected if real else "without compression_type",
                measured=file.compression or "not compressed",
                expected=said or "not compressed",
            )
            break


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


def _facts(trace: Trace, name: str | None) -> FeatureFacts | None:
    return trace.data.features.get(name) if trace.data is not None and name is not None else None


@rule("PIP028", "raw-dtype-mismatch", needs="script")
def raw_dtype_mismatch(trace: Trace) -> Iterator[Finding]:
    """`decode_raw` with a dtype that is not the one that was written.

    Why: `Input to reshape is a tensor with 1123632 values, but the requested shape has 280908`; exactly 2, 4 or 8 times
    too many or too few names the size of the real dtype. Without a reshape it is garbage without a word.
    Example: `decode_raw(x, tf.uint8)` of float32.
    Fix: the dtype that the number of bytes gives.
    Ignore: never.
    Reports: https://github.com/kalaspuffar/tensorflow-data/issues/4 https://github.com/tensorflow/tensorflow/issues/18262
    """
    from bushel.checking.script.tensors import ITEM

    for event in trace.of("reshape"):
        tensor, shape = event.info["tensor"], event.info["shape"]
        ratio = _ratio(tensor.count, shape)
        decoded = tensor.made_by if _is_decode_raw(tensor.made_by) else _decode_node(trace, tensor.feature)
        if ratio in (2, 4, 8, 0.5, 0.25, 0.125) and decoded is not None:
            item = int(ITEM.get(tensor.dtype or "", 1) * ratio)
            real = {1: "tf.uint8", **NAMED_BY_RATIO}.get(item, f"{item} bytes a value")
            yield at_node(
                decoded,
                event.source,
                f"{tensor.feature!r} gives {tensor.count:,} {tensor.dtype}, and {math.prod(shape):,} wanted: {real}",
                corrected=_with_argument(decoded, event.source, 1, real.split(" or ")[0]),
                measured=tensor.count,
                expected=math.prod(shape),
            )
    for event in trace.of("decode-raw"):
        facts, step = _facts(trace, event.info["feature"]), ITEM.get(event.info["dtype"] or "")
        if facts is not None and step and not facts.is_image and any(size % step for size in facts.sizes):
            size = next(size for size in facts.sizes if size % step)
            yield at_node(
                event.node,
                event.source,
                f"{facts.name!r} holds {size:,} bytes, which are no whole number of {event.info['dtype']}",
                help=["use the dtype that was written"],
                measured=size,
                expected=f"a multiple of {step}",
            )


def _with_argument(node: ast.AST, source: Source, position: int, text: str) -> str:
    """A call with another argument."""
    arguments = node.args if isinstance(node, ast.Call) else []
    if len(arguments) <= position:
        return text
    return text.join(source.segment(node).rsplit(source.segment(arguments[position]), 1))


def _is_decode_raw(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decode_raw"


def _decode_node(trace: Trace, feature: str | None) -> ast.AST | None:
    return next((event.node for event in trace.of("decode-raw") if event.info["feature"] == feature), None)


def _ratio(count: int | None, shape: tuple[int, ...]) -> float | None:
    """Wanted bytes against those that are there, as how many times larger the item really is."""
    wanted = math.prod(shape)
    if count is None or wanted <= 0 or -1 in shape or count == wanted:
        return None
    return count / wanted


@rule("PIP029", "reshape-does-not-fit", needs="script")
def reshape_does_not_fit(trace: Trace) -> Iterator[Finding]:
    """A `reshape` to a size that the records do not have.

    Why: `Input to reshape is a tensor with 784 values, but the requested shape has 1024`, in the first step or at the
    first image of another size.
    Example: `tf.reshape(image, [32, 32])` of 28 x 28 pixels.
    Fix: the size that the bytes give; height and width stored with the image where they vary.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/18262 https://github.com/MaybeShewill-CV/bisenetv2-tensorflow/issues/12
    """
    for event in trace.of("reshape"):
        tensor, shape = event.info["tensor"], event.info["shape"]
        facts = _facts(trace, tensor.feature)
        if facts is not None and _is_varying_raw(trace, facts) and -1 not in shape:
            yield at_node(
                event.node,
                event.source,
                f"{tensor.feature!r} holds values of {len(facts.sizes)} sizes, and all are reshaped to {list(shape)}",
                help=["store height and width with each image, and reshape to those"],
                measured=facts.sizes,
                expected=math.prod(shape),
            )
        ratio = _ratio(tensor.count, shape)
        is_batch = ratio is not None and ratio < 1 / 9 and (1 / ratio).is_integer()
        if ratio is None or ratio in (2, 4, 8, 0.5, 0.25, 0.125) or is_batch:
            continue
        side = math.isqrt(tensor.count)
        fits = f"[{side}, {side}]" if side * side == tensor.count else f"[{tensor.count}]"
        yield at_node(
            event.node,
            event.source,
            f"{tensor.feature!r} holds {tensor.count:,} values, and {list(shape)} takes {math.prod(shape):,}",
            corrected=_with_argument(event.node, event.source, 1, fits),
            measured=tensor.count,
            expected=math.prod(shape),
        )


def _is_varying_raw(trace: Trace, facts: FeatureFacts) -> bool:
    raw = any(event.info["feature"] == facts.name for event in trace.of("decode-raw"))
    return raw and facts.size is None and not facts.is_image


@rule("PIP030", "not-that-encoding", needs="script")
def not_that_encoding(trace: Trace) -> Iterator[Finding]:
    """`decode_jpeg` on bytes that are no image, and `decode_raw` on bytes that are one.

    Why: `4889 values, but the requested shape has 4800`: the size of a JPEG varies; or "Unknown image format".
    Example: `tf.io.decode_raw(image, tf.uint8)` of JPEG.
    Fix: `tf.io.decode_jpeg` for images, `tf.io.decode_raw` for raw bytes.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/2048 https://github.com/tensorflow/tensorflow/issues/9786
    """
    for event in trace.of("decode-image"):
        facts = _facts(trace, event.info["feature"])
        if facts is not None and facts.dtype == "bytes" and not facts.is_image:
            size = f"{facts.size:,} bytes each" if facts.size is not None else "of several sizes"
            yield at_node(
                event.node,
                event.source,
                f"{facts.name!r} holds no images: raw bytes, {size}",
                corrected=_replaced(event, "tf.io.decode_raw({}, tf.uint8)"),
                measured=facts.formats,
            )
    for event in trace.of("decode-raw"):
        facts = _facts(trace, event.info["feature"])
        if facts is not None and facts.is_image:
            kind = next(name for name in facts.formats if name != "other")
            yield at_node(
                event.node,
                event.source,
                f"{facts.name!r} holds {kind.upper()} images, not raw values",
                corrected=_replaced(
                    event, "tf.io.decode_jpeg({}, channels=3)" if kind == "jpeg" else "tf.io.decode_image({})"
                ),
                measured=facts.formats,
            )


def _replaced(event: Any, form: str) -> str:
    arguments = event.node.args
    return form.format(event.source.segment(arguments[0]) if arguments else "...")
