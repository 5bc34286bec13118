"""PIP028 to PIP039: how the code decodes bytes, beside what they are."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import Any

from bushel.checking.collect.facts import FeatureFacts
from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Trace, at_node

__all__: list[str] = []


NAMED_BY_RATIO = {2: "tf.int16 or tf.float16", 4: "tf.float32 or tf.int32", 8: "tf.float64 or tf.int64"}


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
