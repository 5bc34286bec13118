"""PIP040 to PIP042: the range of values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.script.source import Source
from bushel.checking.script.trace import Trace, at_node
from bushel.checking.script.values import Const, Dataset, Mapping, Seq, Tensor, layers_of

__all__: list[str] = []


# Applications that scale 0..255 themselves.
SCALES_ITSELF = ("EfficientNet", "MobileNetV3", "ConvNeXt", "RegNet", "ResNetRS")


@rule("PIP040", "conversion-does-nothing", needs="script")
def conversion_does_nothing(trace: Trace) -> Iterator[Finding]:
    """`convert_image_dtype` behind `resize`, which has made floats of the pixels already.

    Why: from float to float it scales nothing: values stay at 0..255.
    Example: `image = tf.image.resize(image, size); image = tf.image.convert_image_dtype(image, tf.float32)`
    Fix: convert before resizing, or divide by 255.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/1763 https://github.com/tensorflow/tensorflow/issues/39595
    """
    for event in trace.of("no-op-conversion"):
        yield at_node(
            event.node,
            event.source,
            "the pixels are floats already, and stay at 0..255",
            corrected=_scaled(event.node, event.source),
            measured="0..255",
            expected="0..1",
        )


def _scaled(node: ast.AST, source: Source) -> str | None:
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return f"{source.segment(first)} / 255.0" if first is not None else None


def _input_of(dataset: Dataset) -> Tensor | None:
    element = dataset.element
    if isinstance(element, Seq) and element.items:
        element = element.items[0]
    if isinstance(element, Mapping):
        element = next((v for v in element.items.values() if isinstance(v, Tensor) and v.form == "image"), element)
    return element if isinstance(element, Tensor) else None


@rule("PIP041", "scaled-twice", needs="script")
def scaled_twice(trace: Trace) -> Iterator[Finding]:
    """Pixels that are divided by 255 twice: in the code, or once in the code and once in the model.

    Why: the input is nearly black, and the model stays near chance. `convert_image_dtype` scales too.
    Example: `tf.image.convert_image_dtype(image, tf.float32) / 255.0`; `/ 255` before a model with `Rescaling(1/255)`.
    Fix: remove one of the two.
    Ignore: never.
    Reports: https://github.com/mindee/doctr/pull/375 https://github.com/keras-team/keras-io/issues/1549
    """
    for event in trace.of("scaled-twice"):
        left = event.node.left if isinstance(event.node, ast.BinOp) else None
        yield at_node(
            event.node,
            event.source,
            f"pixels of {event.info['span']} are scaled once more",
            corrected=event.source.segment(left) if left is not None else None,
            help=None if left is not None else ["remove one of the two"],
        )
    for use, dataset in trace.used("train"):
        tensor = _input_of(dataset)
        for layer in layers_of(use.model)[:3]:
            itself = layer.kind.startswith(tuple(f"application:{name}" for name in SCALES_ITSELF))
            scale = layer.argument(0, "scale")
            is_scaling = layer.kind == "Rescaling" and isinstance(scale, Const) and scale.value < 0.02
            if tensor is not None and tensor.span in ("0..1", "-1..1") and (itself or is_scaling):
                yield at_node(
                    layer.node,
                    layer.source,
                    f"the model scales pixels, and the data is {tensor.span} already",
                    help=["feed 0..255, or take this layer out"],
                    measured=tensor.span,
                    expected="0..255",
                )


@rule("PIP042", "float64-images", severity="warning", needs="script")
def float64_images(trace: Trace) -> Iterator[Finding]:
    """Images as float64.

    Why: eight times the bytes of uint8 and twice those of float32, and most layers cast them back.
    Example: `tf.cast(image, tf.float64)`, `np.array(image, float).tobytes()`
    Fix: `tf.float32`; store uint8.
    Ignore: where the precision is needed.
    Reports: https://github.com/tensorflow/tensorflow/issues/42088
    """
    for event in trace.of("float64"):
        text = event.source.segment(event.node)
        yield at_node(event.node, event.source, "images are made float64", corrected=text.replace("float64", "float32"))
