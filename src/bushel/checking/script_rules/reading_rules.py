"""PIP020 to PIP030 and PIP068: files, features and encodings that the code names, against what the data holds."""

from __future__ import annotations

import ast
import glob
import math
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from bushel.checking.collect.facts import FeatureFacts
from bushel.checking.findings import Finding, rule
from bushel.checking.script.followed_script import (
    At,
    Edit,
    Event,
    Script,
    Trace,
    at,
    exists_on_disk,
    facts_of,
    is_of_data,
    known_of,
    matched_files,
    replaced,
    with_argument,
    with_keyword,
    without_keyword,
)
from bushel.checking.script.known_values import Const, Mapping, Seq, Shape, Spec, Tensor, count_of, shown, tensors_in
from bushel.checking.script.tensorflow_calls import ITEM
from bushel.checking.script_rules.pixel_rules import labels_of
from bushel.errors import nearest


@rule("PIP020", "pattern-handed-to-reader", needs="script")
def pattern_handed_to_reader(trace: Trace) -> Iterator[Finding]:
    """A pattern with `*` handed to `TFRecordDataset`, which does not expand it.

    Why: `NotFoundError: train-*.tfrecord; No such file or directory`.
    Example: `tf.data.TFRecordDataset("train-*.tfrecord")`
    Fix: `tf.data.TFRecordDataset(tf.io.gfile.glob("train-*.tfrecord"))`, or `list_files`.
    Ignore: never.
    """
    for event in trace.of("reads"):
        files = event.info["files"]
        magic = [p for p in files.patterns or () if glob.has_magic(p)]
        if magic and not files.is_expanded:
            given = event.node.args[0] if isinstance(event.node, ast.Call) and event.node.args else None
            name = event.script.imported_as("tensorflow", "tf")
            expanded = f"{name}.io.gfile.glob({event.script.code_of(given)})" if given is not None else ""
            yield at(
                event,
                f"TFRecordDataset does not expand {magic[0]!r}",
                *([replaced(event.script, given, expanded)] if given is not None else []),
                help=f"expand it first: {name}.io.gfile.glob(pattern)",
            )


@rule("PIP021", "pattern-matches-nothing", needs="script", rank=2)
def pattern_matches_nothing(trace: Trace) -> Iterator[Finding]:
    """A file name or pattern that none of the files matches.

    Why: an empty list of files is an empty dataset: `OutOfRangeError: End of sequence`, and no other hint.
    Example: a space after `=` in a flag, `trian-*.tfrecord`.
    Fix: the nearest name is given; stop when the list is empty.
    Ignore: where the script is meant for files that are elsewhere.
    """
    seen: set[str] = set()
    for event in [*trace.of("lists"), *trace.of("reads")]:
        files = event.info["files"]
        if files.patterns == []:
            yield at(event, "the list of files is empty", help="stop when it is: if not files: raise")
        if trace.data is None:
            continue
        for pattern in files.patterns or ():
            if pattern in seen or matched_files(trace, files) or exists_on_disk(trace, pattern):
                continue
            seen.add(pattern)
            name = PurePosixPath(pattern).name
            close = _nearest_pattern(name, [file.path.name for file in trace.data.files])
            if (files.is_guessed and not close) or trace.writers:
                continue  # what is not known of the name may be anything
            yield at(
                event,
                f"no file matches {pattern!r}" + (f"; did you mean {close!r}?" if close else ""),
                severity=None if close else "info",
                confidence="proven" if close else "hint",
                help=f"there is {close}" if close else "these files are not among those that were checked",
                measured=0,
            )


def _nearest_pattern(pattern: str, names: list[str]) -> str | None:
    """A name that the pattern was probably meant to match."""
    stem = pattern.split("*", maxsplit=1)[0] or pattern
    heads = {name[: len(stem)]: name for name in names}
    close = nearest(stem, heads)
    return heads[close] if close else nearest(pattern, names)


@rule("PIP022", "compression-not-as-read", needs="script", measured_by="EXE003")
def compression_not_as_read(trace: Trace) -> Iterator[Finding]:
    """`compression_type` that is not what the files have.

    Why: TensorFlow does not detect it; either way it says `corrupted record at 0`.
    Example: `TFRecordDataset("train.tfrecord.gz")` without `compression_type="GZIP"`.
    Fix: pass the right `compression_type`, or read the files with bushel, which detects it.
    Ignore: never.
    """
    for event in trace.of("reads"):
        said = event.info["compression"]
        if said == "?":
            continue
        for file in matched_files(trace, event.info["files"]):
            real = (file.compression or "").upper()
            if real == (said or "") or file.problem is not None:
                continue
            yield at(
                event,
                f"{file.path.name} is {file.compression or 'not compressed'}, but read as {said or 'not compressed'}",
                *_with_compression(event, real),
                help=f'pass compression_type="{real}" to TFRecordDataset',
                known=known_of(event.info["files"]),
                measured=file.compression or "not compressed",
                expected=said or "not compressed",
            )
            break


def _with_compression(event: Event, real: str) -> list[Edit]:
    """The call that reads with the compression that the files have."""
    call = event.node
    if not isinstance(call, ast.Call) or "TFRecordDataset" not in event.script.code_of(call.func):
        return []
    if len(call.args) > 1:
        return [replaced(event.script, call.args[1], f'"{real}"')]
    if not real:
        return without_keyword(event.script, call, "compression_type")
    return [with_keyword(event.script, call, "compression_type", f'"{real}"')]


DTYPES = {"string": "bytes", "int64": "int64", "float32": "float32"}


def _specs(trace: Trace) -> Iterator[tuple[str, Spec, ast.AST, Script, FeatureFacts | None]]:
    """Each feature of each description that is used, with what the data holds of it."""
    seen: set[int] = set()
    for event in trace.of("parse"):
        if not is_of_data(trace, event.info["files"]):
            continue
        specs: Mapping = event.info["specs"]
        for name, spec in specs.items.items():
            if not isinstance(spec, Spec) or id(spec.node) in seen or trace.data is None or not trace.data.records:
                continue
            seen.add(id(spec.node))
            node = specs.nodes.get(name, spec.node)
            yield str(name), spec, node, specs.script or spec.script, trace.data.features.get(str(name))


def _described(key: ast.AST, spec: Spec, script: Script, facts: FeatureFacts) -> list[Edit]:
    """The description as the records hold the feature, under the name that it has there."""
    tf = spec.script.imported_as("tensorflow", "tf")
    shape = "[]" if facts.length == 1 else f"[{facts.length}]" if facts.length is not None else None
    kind = {"bytes": "string"}.get(facts.dtype, facts.dtype)
    form = f"FixedLenFeature({shape}, " if shape is not None and facts.records == facts.total else "RaggedFeature("
    edits = [replaced(spec.script, spec.node, f"{tf}.io.{form}{tf}.{kind})")]
    is_renamed = isinstance(key, ast.Constant) and key.value != facts.name
    if is_renamed and script is not spec.script:
        return []
    return [*edits, replaced(script, key, f'"{facts.name}"')] if is_renamed else edits


@rule("PIP023", "feature-not-in-data", needs="script", measured_by="EXE003")
def feature_not_in_data(trace: Trace) -> Iterator[Finding]:
    """A feature that the code asks for and the records do not have, or not all of them.

    Why: `Feature: X (data type: string) is required but could not be found.`
    Example: `"labels"` where the file says `"label"`.
    Fix: the nearest name in the data is given.
    Ignore: never.
    """
    for name, spec, node, script, facts in _specs(trace):
        assert trace.data is not None
        if facts is not None and spec.is_context is not None and spec.is_context == facts.is_list:
            there = "a list of the sequence" if facts.is_list else "in the context"
            yield at(At(node, script), f"{name!r} is {there}, but is looked for in the other part",
                     help=f"describe it in {'sequence' if facts.is_list else 'context'}_features",
                     known="computed")  # fmt: skip
            continue
        if spec.has_default or not (spec.kind == "FixedLenFeature" or spec.is_context is False):
            continue
        if facts is None:
            close = nearest(name, trace.data.features)
            yield at(
                At(node, script),
                f"no record has {name!r}" + (f"; did you mean {close!r}?" if close else ""),
                *(_described(node, spec, script, trace.data.features[close]) if close else []),
                help=None if close else "leave it out, or use the name that the records have",
                known="computed",
                measured=sorted(trace.data.features),
                expected=name,
            )
        elif facts.records < facts.total and _is_read_in_part(trace, name):
            yield at(
                At(node, script),
                f"{facts.total - facts.records:,} of {facts.total:,} records have no {name!r}",
                *_described(node, spec, script, facts),
                known="computed",
                measured=facts.records,
                expected=facts.total,
            )


def _is_read_in_part(trace: Trace, name: str) -> bool:
    """Whether train lacks a feature, or a split has it in a part: a test split may have no labels at all."""
    splits = list(trace.data.splits.values()) if trace.data is not None else []
    train = trace.data.train if trace.data is not None else None
    held = [(split.features[name].records if name in split.features else 0, split) for split in splits]
    return any(0 < count < split.records or (count == 0 and split is train) for count, split in held)


@rule("PIP024", "feature-of-another-type", needs="script", measured_by="EXE003")
def feature_of_another_type(trace: Trace) -> Iterator[Finding]:
    """A feature that the code reads as one type and the records hold as another.

    Why: `Key: X. Data types don't match. Expected type: int64, Actual type: float`.
    Example: `FixedLenFeature([], tf.int64)` for what was written as float_list.
    Fix: the type that the records hold is given.
    Ignore: never.
    """
    for name, spec, node, script, facts in _specs(trace):
        if facts is not None and spec.dtype in DTYPES and DTYPES[spec.dtype] != facts.dtype:
            yield at(
                At(node, script),
                f"{name!r} is read as tf.{spec.dtype}, but the records hold {facts.dtype}",
                *_described(node, spec, script, facts),
                known="computed",
                measured=facts.dtype,
                expected=spec.dtype,
            )


@rule("PIP025", "feature-of-another-shape", needs="script", measured_by="EXE003")
def feature_of_another_shape(trace: Trace) -> Iterator[Finding]:
    """A fixed shape that does not fit the number of values in the records.

    Why: `Key: X. Number of int64 values != expected. Values size: 2 but output shape: [3]`.
    Example: `FixedLenFeature([3], tf.int64)` where grey images hold two sizes.
    Fix: the shape that fits, or `RaggedFeature` where it varies.
    Ignore: never.
    """
    for name, spec, node, script, facts in _specs(trace):
        if facts is None or spec.kind != "FixedLenFeature" or spec.shape is None or not facts.values_known:
            continue
        expected = math.prod(spec.shape)
        wrong = {length: count for length, count in facts.lengths.items() if length != expected}
        if wrong and expected >= 0:
            yield at(
                At(node, script),
                f"{name!r} is read as {list(spec.shape)}, and {sum(wrong.values()):,} records hold {min(wrong)} values",
                *_described(node, spec, script, facts),
                known="computed",
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
    """
    labels = {one.feature for _, dataset in trace.used("train") for one in labels_of(dataset)}
    for name, spec, node, script, facts in _specs(trace):
        assert trace.data is not None
        optional = spec.has_default or spec.kind != "FixedLenFeature"
        present = facts.records if facts is not None else 0
        total = trace.data.records
        is_label = spec.has_default and name in labels and _is_read_in_part(trace, name)
        if optional and (present < 0.5 * total or is_label):
            close = nearest(name, trace.data.features) if facts is None else None
            filled = "the default" if spec.has_default else "nothing"
            yield at(
                At(node, script),
                f"{name!r} is {filled} in {1 - present / total:.0%} of the records"
                + (f"; did you mean {close!r}?" if close else ""),
                *(_described(node, spec, script, trace.data.features[close]) if close else []),
                severity="error" if close else None if is_label else "info",
                help=None if close else "leave it out, or use the name that the records have",
                known="computed",
                measured=present,
                expected=total,
            )


@rule("PIP027", "sparse-where-dense", severity="warning", needs="script", measured_by="EXE003")
def sparse_where_dense(trace: Trace) -> Iterator[Finding]:
    """`VarLenFeature` for a feature that always holds the same number of values, and no `to_dense`.

    Why: it gives a SparseTensor, which most layers refuse or turn dense at a price.
    Example: `VarLenFeature(tf.float32)` for vectors of 64.
    Fix: `FixedLenFeature([64], tf.float32)`
    Ignore: where a SparseTensor is wanted.
    """
    dense = {event.info["feature"] for event in trace.of("to-dense")}
    fed = [tensor for dataset in trace.datasets for tensor in tensors_in(dataset.element) if tensor.form == "sparse"]
    for name, spec, node, script, facts in _specs(trace):
        if (
            facts is not None
            and spec.kind == "VarLenFeature"
            and facts.length
            and name not in dense
            and facts.length > 1
        ):
            yield at(
                At(node, script),
                f"{name!r} is read as a SparseTensor, and always holds {facts.length} values",
                *_described(node, spec, script, facts),
                severity=None if any(tensor.feature == name for tensor in fed) else "info",
                measured=facts.length,
            )


NAMED_BY_RATIO = {2: "tf.int16 or tf.float16", 4: "tf.float32 or tf.int32", 8: "tf.float64 or tf.int64"}


@rule("PIP028", "decode-raw-dtype-mismatch", needs="script")
def raw_dtype_mismatch(trace: Trace) -> Iterator[Finding]:
    """`decode_raw` with a dtype that is not the one that was written.

    Why: `Input to reshape is a tensor with 1123632 values, but the requested shape has 280908`; exactly 2, 4 or 8 times
    too many or too few names the size of the real dtype. Without a reshape it silently gives garbage.
    Example: `decode_raw(x, tf.uint8)` of float32.
    Fix: the dtype that the number of bytes gives.
    Ignore: never.
    """
    for event in trace.of("reshape"):
        tensor, (held, wanted) = event.info["tensor"], _counts(event.info["tensor"], event.info["shape"])
        decoded = tensor.made_by if _is_decode_raw(tensor.made_by) else _decode_node(trace, tensor.feature)
        if held is not None and wanted is not None and _is_other_dtype(trace, tensor, held, wanted):
            item = int(ITEM.get(tensor.dtype or "", 1) * held / wanted)
            real = {1: "tf.uint8", **NAMED_BY_RATIO}.get(item, f"{item} bytes per value")
            yield at(
                At(decoded, event.script),
                f"{tensor.feature!r} decodes to {held:,} {tensor.dtype} values, but the reshape expects {wanted:,}: "
                f"decode it as {real}",
                with_argument(event.script, decoded, 1, "out_type", real.split(" or ")[0]),
                also=event,
                measured=held,
                expected=wanted,
            )
    for event in trace.of("decode-raw"):
        facts, step = event.info["facts"], ITEM.get(event.info["dtype"] or "")
        if facts is not None and step and not facts.is_image and any(size % step for size in facts.sizes):
            size = next(size for size in facts.sizes if size % step)
            yield at(
                event,
                f"{facts.name!r} holds {size:,} bytes, which is not a whole number of {event.info['dtype']}",
                help="use the dtype that was written",
                known="computed",
                measured=size,
                expected=f"a multiple of {step}",
            )


def _is_decode_raw(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decode_raw"


def _decode_node(trace: Trace, feature: str | None) -> Any:
    return next((event.node for event in trace.of("decode-raw") if event.info["feature"] == feature), None)


def _counts(tensor: Tensor, shape: Shape) -> tuple[int | None, int | None]:
    """How many values a record holds, and how many a reshape wants; None where that is not known."""
    held = tensor.shape
    if held is not None and held[:1] == (None,) and shape[:1] in ((-1,), (None,)):
        held, shape = held[1:], shape[1:]
    return count_of(held), count_of(tuple(None if size == -1 else size for size in shape))


def _is_other_dtype(trace: Trace, tensor: Tensor, held: int, wanted: int | None) -> bool:
    """Whether the values are exactly 2, 4 or 8 times too many or too few: bytes read as another type."""
    is_raw = _is_decode_raw(tensor.made_by) or _decode_node(trace, tensor.feature) is not None
    return bool(wanted) and is_raw and held / (wanted or 1) in (2, 4, 8, 0.5, 0.25, 0.125)


@rule("PIP029", "reshape-does-not-fit", needs="script", measured_by="EXE003")
def reshape_does_not_fit(trace: Trace) -> Iterator[Finding]:
    """A `reshape` to a size that the records do not have.

    Why: `Input to reshape is a tensor with 784 values, but the requested shape has 1024`, in the first step or at the
    first image of another size.
    Example: `tf.reshape(image, [32, 32])` of 28 x 28 pixels.
    Fix: the size that the bytes give; height and width stored with the image where they vary.
    Ignore: never.
    """
    for event in trace.of("reshape"):
        tensor, shape = event.info["tensor"], event.info["shape"]
        facts, (held, wanted) = facts_of(trace, tensor), _counts(tensor, shape)
        if facts is not None and _is_varying_raw(trace, facts) and wanted is not None:
            yield at(
                event,
                f"{tensor.feature!r} holds values of {len(facts.sizes)} sizes, and all are reshaped to {shown(shape)}",
                help="store height and width with each image, and reshape to those",
                known="computed",
                measured=facts.sizes,
                expected=wanted,
            )
        sizes = _other_sizes(trace, tensor, facts, shape)
        if sizes:
            yield at(
                event,
                f"{sum(sizes.values()):,} images of {tensor.feature!r} have another size than {shown(shape)}, such as "
                f"{next(iter(sizes))}",
                help=f"resize them: tf.image.resize(image, {list(shape[:2])})",
                known="computed",
                measured=sizes,
            )
        if event.info["fits"] or held is None or _is_other_dtype(trace, tensor, held, wanted):
            continue
        side = math.isqrt(held)
        fits = f"[{side}, {side}]" if side * side == held else f"[{held}]"
        is_call = isinstance(event.node, ast.Call) and wanted is not None
        message = f"{tensor.feature!r} holds {held:,} values, which do not fit into {shown(shape)}"
        fix = [with_argument(event.script, event.node, 1, "shape", fits)] if is_call else []  # type: ignore[arg-type]
        yield at(event, message, *fix, help="use the shape that was written", also=_made(event, tensor), measured=held)


def _other_sizes(trace: Trace, tensor: Tensor, facts: FeatureFacts | None, shape: Shape) -> dict[str, int]:
    """How many images have so many pixels that a reshape as they were decoded does not fit, by their size."""
    pictures = trace.data.pictures if trace.data is not None else None
    is_decoded = tensor.form == "image" and tensor.shape is not None and tensor.shape[:2] == (None, None)
    if pictures is None or facts is None or not facts.is_image or not is_decoded or len(shape) != 3:
        return {}
    images = [one for one in trace.data.features.values() if one.is_image] if trace.data is not None else []
    wanted = count_of(tuple(None if size == -1 else size for size in shape[:2]))
    if len(images) != 1 or wanted is None:
        return {}
    found = {f"{w} x {h}": count for (w, h), count in pictures.sizes.counts.items() if w * h != wanted}
    return dict(sorted(found.items(), key=lambda one: -one[1])[:8])


def _made(event: Event, tensor: Tensor) -> At | None:
    return At(tensor.made_by, event.script) if tensor.made_by is not None else None


def _is_varying_raw(trace: Trace, facts: FeatureFacts) -> bool:
    raw = any(event.info["feature"] == facts.name for event in trace.of("decode-raw"))
    return raw and facts.size is None and not facts.is_image


@rule("PIP068", "not-in-vocabulary", needs="script")
def not_in_vocabulary(trace: Trace) -> Iterator[Finding]:
    """Names in the records that the vocabulary of a lookup does not have.

    Why: they all become one number, the one for what is not known.
    Example: `StringLookup(vocabulary=["Moehre"])` where the records say "Möhre"
    Fix: the names as the records hold them.
    Ignore: where rare names are left out on purpose.
    """
    for event in trace.of("lookup"):
        facts, given = event.info["facts"], event.info["vocabulary"]
        held = facts.distinct if facts is not None and facts.dtype == "bytes" else None
        known = {item.value for item in given.items if isinstance(item, Const)} if isinstance(given, Seq) else None
        if held is None or not known or known != {name for name in known if isinstance(name, str)}:
            continue
        names = {name.decode() if isinstance(name, bytes) else str(name): count for name, count in held.items()}
        missing = [name for name in names if name not in known]
        if missing and sum(names[name] for name in missing) > 0.05 * sum(names.values()):
            message = f"{', '.join(map(repr, missing[:3]))} of {facts.name!r} are not in the vocabulary"
            is_misspelt = any(nearest(name, known) for name in missing)  # others may be left out on purpose
            yield at(event, message, help="use the names that the records hold", also=event.info["layer"],
                     severity=None if is_misspelt else "info")  # fmt: skip


@rule("PIP030", "not-that-encoding", needs="script", measured_by="EXE003")
def not_that_encoding(trace: Trace) -> Iterator[Finding]:
    """`decode_jpeg` on bytes that are not an image, and `decode_raw` on bytes that are.

    Why: `4889 values, but the requested shape has 4800`: the size of a JPEG varies; or "Unknown image format".
    Example: `tf.io.decode_raw(image, tf.uint8)` of JPEG.
    Fix: `tf.io.decode_jpeg` for images, `tf.io.decode_raw` for raw bytes.
    Ignore: never.
    """
    for event in trace.of("decode-image"):
        facts = event.info["facts"]
        if facts is not None and facts.dtype == "bytes" and not facts.is_image:
            size = f"{facts.size:,} bytes each" if facts.size is not None else "of several sizes"
            yield at(
                event,
                f"{facts.name!r} holds no images: raw bytes, {size}",
                *_decoded(event, "{tf}.io.decode_raw({bytes}, {tf}.uint8)"),
                known="computed",
                measured=facts.formats,
            )
    for event in trace.of("decode-raw"):
        facts = event.info["facts"]
        if facts is not None and facts.is_image:
            kind = next(name for name in facts.formats if name != "other")
            form = "decode_jpeg({bytes}, channels=3)" if kind == "jpeg" else "decode_image({bytes})"
            yield at(
                event,
                f"{facts.name!r} holds {kind.upper()} images, not raw values",
                *_decoded(event, "{tf}.io." + form),
                known="computed",
                measured=facts.formats,
            )


def _decoded(event: Event, form: str) -> list[Edit]:
    """The bytes that a call decodes, decoded in another way."""
    if not isinstance(event.node, ast.Call) or not event.node.args:
        return []
    names = {"tf": event.script.imported_as("tensorflow", "tf"), "bytes": event.script.code_of(event.node.args[0])}
    return [replaced(event.script, event.node, form.format(**names))]
