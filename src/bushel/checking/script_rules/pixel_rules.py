"""PIP032 to PIP036, PIP040 to PIP042, PIP059, PIP067 and PIP069: what is done to pixels before the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bushel.checking.findings import Finding, rule
from bushel.checking.rules.keras_expectations import network_range
from bushel.checking.script.followed_script import At, Edit, Script, Trace, at, placed, replaced, with_keyword
from bushel.checking.script.known_values import (
    KerasObject,
    Mapping,
    Model,
    ScriptDataset,
    Seq,
    Tensor,
    layers_of,
    tensors_in,
)


def inputs_of(dataset: ScriptDataset) -> Tensor | None:
    """The tensor that a model is fed: of several, the image."""
    element = dataset.element
    if isinstance(element, Seq) and element.items:
        element = element.items[0]
    if isinstance(element, Mapping):
        element = next((v for v in element.items.values() if isinstance(v, Tensor) and v.form == "image"), element)
    return element if isinstance(element, Tensor) else None


def labels_of(dataset: ScriptDataset) -> list[Tensor]:
    """The tensors that a model is to give."""
    element = dataset.element
    return tensors_in(element.items[1]) if isinstance(element, Seq) and len(element.items) > 1 else []


@rule("PIP032", "random-of-python-in-map", needs="script")
def random_of_python_in_map(trace: Trace) -> Iterator[Finding]:
    """Random numbers of Python or NumPy inside a function that `map` calls.

    Why: the function is traced once, so one number is drawn for all records and all epochs.
    Example: `ds.map(lambda x, y: (x + np.random.uniform(), y))`
    Fix: `tf.random.uniform([])`
    Ignore: never.
    """
    for event in trace.of("python-random"):
        yield at(event, f"{event.info['name']} draws one number for all records", help="draw it with tf.random.uniform")


@rule("PIP033", "image-and-mask-augmented-separately", needs="script")
def moved_apart(trace: Trace) -> Iterator[Finding]:
    """A random flip or crop of an image whose mask stays as it is, or is moved by another draw.

    Why: the mask no longer lies over what it marks.
    Example: `return tf.image.random_flip_left_right(image), mask`
    Fix: stack both, change them once, and take them apart: `tf.concat([image, mask], axis=-1)`.
    Ignore: where the second image is not a mask.
    """
    for event in trace.of("moved-apart"):
        names = " and ".join(sorted({repr(name) for name in event.info["features"]}))
        moved = next(iter(trace.of("moved")), event)
        help = "concatenate them, change them once, split them again; change boxes with the image"
        yield at(moved, f"{names} are not moved together", help=help, also=event)


@rule("PIP035", "pixels-cast-to-zero", needs="script")
def rounded_to_nothing(trace: Trace) -> Iterator[Finding]:
    """Pixels of 0..1 made integers, or divided by 255 as integers.

    Why: all that is left is 0, and here and there a 1: every picture is black.
    Example: `tf.cast(image / 255, tf.uint8)`, `image // 255`
    Fix: cast to float first, then divide.
    Ignore: never.
    """
    for event in trace.of("rounded-to-nothing"):
        yield at(event, f"pixels of {event.info['span']} become 0", help="use tf.cast(image, tf.float32) / 255.0")


@rule("PIP036", "classes-blended", needs="script")
def classes_blended(trace: Trace) -> Iterator[Finding]:
    """A mask of class numbers that is resized by interpolation.

    Why: between class 0 and class 2 it puts class 1, at every border.
    Example: `mask = tf.image.resize(mask, (128, 128))`
    Fix: `tf.image.resize(mask, (128, 128), method="nearest")`
    Ignore: where the mask is one of grey values.
    """
    pairs = [(inputs_of(dataset), one) for _, dataset in trace.used("train") for one in labels_of(dataset)]
    # Two views of one image are not an image and its mask.
    labels = [one for x, one in pairs if one.form == "image" and (x is None or x.feature != one.feature)]
    losses = [event.info["call"].get(1, "loss") for event in trace.of("compile")]
    losses += [event.info["loss"] for event in trace.of("loss-call")]
    texts = [getattr(loss, "name", None) or str(getattr(loss, "value", "")) for loss in losses]
    has_classes = any("sparse" in text.lower() for text in texts)
    has_classes |= any((one.dtype or "").startswith(("int", "uint")) for one in labels)
    for event in trace.of("blended"):
        if any("blended" in one.marks and one.feature == event.info["feature"] for one in labels):
            fix = with_keyword(event.script, event.node, "method", '"nearest"')  # type: ignore[arg-type]
            message = f"{event.info['feature']!r} holds class numbers, and resize blends them"
            yield at(event, message, fix, severity=None if has_classes else "info")


@rule("PIP067", "prepared-in-two-ways", needs="script", rank=35)
def prepared_in_two_ways(trace: Trace) -> Iterator[Finding]:
    """Inputs in one range for training and in another for validation, or for two calls of one model.

    Why: the model is measured on inputs that it was never shown; a discriminator tells images apart by their range.
    Example: `/ 255` in the function for training alone; a generator that ends in tanh, and real images of 0..1
    Fix: one function for both; only random changes belong to training alone.
    Ignore: never.
    """
    for event in trace.of("two-ranges"):
        one, other = event.info["spans"]
        made = placed(trace.scripts, event.info["made_by"] or event.info["other"])
        yield at(event, f"the model is given {one} at one place and {other} here", help="use one range", also=made)
    trained = {id(use.node): inputs_of(dataset) for use, dataset in trace.used("train")}
    for use, dataset in trace.used("eval"):
        held, train = inputs_of(dataset), trained.get(id(use.node))
        if held is not None and train is not None and held.span and train.span and held.span != train.span:
            message = f"pixels are {train.span} in training and {held.span} in validation"
            place = placed(trace.scripts, held.made_by)
            yield at(place or use, message, help="prepare both with the same function", also=use)


@rule("PIP040", "conversion-does-nothing", needs="script")
def conversion_does_nothing(trace: Trace) -> Iterator[Finding]:
    """`convert_image_dtype` after `resize`, which has made floats of the pixels already.

    Why: from float to float it scales nothing: values stay at 0..255.
    Example: `image = tf.image.resize(image, size); image = tf.image.convert_image_dtype(image, tf.float32)`
    Fix: convert before resizing, or divide by 255.
    Ignore: never.
    """
    for event in trace.of("no-op-conversion"):
        message = "the pixels are floats already, and stay at 0..255"
        fix = _scaled(event.node, event.script)
        yield at(event, message, *fix, help="divide by 255 instead", measured="0..255", expected="0..1")


def _scaled(node: ast.AST, script: Script) -> list[Edit]:
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return [replaced(script, node, f"{script.code_of(first)} / 255.0")] if first is not None else []


@rule("PIP041", "scaled-twice", needs="script", rank=60)
def scaled_twice(trace: Trace) -> Iterator[Finding]:
    """Pixels that are divided by 255 twice: in the code, or once in the code and once in the model.

    Why: the input is nearly black, and the model stays near chance. `convert_image_dtype` scales too.
    Example: `tf.image.convert_image_dtype(image, tf.float32) / 255.0`; `/ 255` before a model with `Rescaling(1/255)`.
    Fix: remove one of the two.
    Ignore: never.
    """
    for event in trace.of("scaled-twice"):
        left = event.node.left if isinstance(event.node, ast.BinOp) else None
        fix = [replaced(event.script, event.node, event.script.code_of(left))] if left is not None else []
        yield at(event, f"pixels of {event.info['span']} are scaled once more", *fix, help="remove one of the two")
    for use, dataset in trace.used("train"):
        tensor = inputs_of(dataset)
        for layer in layers_of(use.model)[:3]:
            itself = layer.kind.startswith("application:") and network_range(layer.kind.partition(":")[2]) == "0..255"
            is_scaling = layer.kind == "Rescaling" and (layer.constant(0, "scale") or 1) < 0.02
            if tensor is not None and tensor.span in ("0..1", "-1..1") and (itself or is_scaling):
                yield at(
                    layer,
                    f"the model scales pixels, but the data is {tensor.span} already",
                    help="feed 0..255, or take this layer out",
                    also=placed(trace.scripts, tensor.made_by),
                    measured=tensor.span,
                    expected="0..255",
                )


@rule("PIP042", "float64-images", severity="info", needs="script")
def float64_images(trace: Trace) -> Iterator[Finding]:
    """Images as float64.

    Why: eight times the bytes of uint8 and twice those of float32, and most layers cast them back.
    Example: `tf.cast(image, tf.float64)`, `np.array(image, float).tobytes()`
    Fix: `tf.float32`; store uint8.
    Ignore: where the precision is needed.
    """
    for event in trace.of("float64"):
        text = event.script.code_of(event.node)
        fix = replaced(event.script, event.node, text.replace("float64", "float32"))
        yield at(event, "images are made float64", fix)


@rule("PIP059", "range-of-another-network", severity="warning", needs="script", measured_by="EXE030")
def range_of_another_network(trace: Trace) -> Iterator[Finding]:
    """Pixels prepared for another pretrained network than the one that is given them.

    Why: its weights were trained on one range; in another, features are close to noise.
    Example: `vgg16.preprocess_input` before `MobileNetV2`; pixels of 0..255 into a network for -1..1
    Fix: the `preprocess_input` of the network's own module.
    Ignore: where all of its weights are trained again.
    """
    for use, dataset in trace.used("train"):
        tensor = inputs_of(dataset)
        span = tensor.span if tensor is not None else None
        for layer in layers_of(use.model):
            if layer.kind == "preprocess_input":
                span = f"preprocessed:{_module_of(layer)}"
            elif layer.kind.startswith("application:"):
                yield from _other_range(layer, span, placed(trace.scripts, tensor.made_by if tensor else None))
                break
            elif not layer.kind.startswith("Random"):
                break


@rule("PIP069", "never-scaled", severity="warning", needs="script", measured_by="EXE030")
def never_scaled(trace: Trace) -> Iterator[Finding]:
    """Pixels of 0..255 that reach the first layer with weights, but nothing scales them.

    Why: weights are made for inputs of about 1; with 255 times as much training is slow or diverges.
    Example: `decode_jpeg` and `resize` without `/ 255`, and `Conv2D` as the first layer
    Fix: divide by 255, or begin the model with `Rescaling(1 / 255)`.
    Ignore: where the first layers are made for the range.
    """
    for use, dataset in trace.used("train"):
        tensor = inputs_of(dataset)
        layers = [one for one in layers_of(use.model) if one.kind not in ("Flatten", "Reshape", "InputLayer")]
        first = layers[0] if layers else None
        is_one = isinstance(use.model, Model) and not isinstance(use.model.inputs, Seq | Mapping)
        normalises = any(one.kind == "BatchNormalization" for one in layers[1:3])
        is_plain = first is not None and first.kind in ("Conv2D", "Dense") and is_one and not normalises
        if tensor is not None and tensor.form == "image" and tensor.span == "0..255" and is_plain:
            place = placed(trace.scripts, tensor.made_by)
            yield at(place or use, "pixels of 0..255 reach the first layer, but nothing scales them", also=first,
                     help="divide by 255, or begin the model with Rescaling(1 / 255)", confidence="likely")  # fmt: skip
            return


def _module_of(layer: KerasObject) -> str:
    text = ast.unparse(layer.node.func)
    return text.split(".")[-2] if "." in text else ""


def _other_range(layer: KerasObject, span: str | None, made: At | None) -> Iterator[Finding]:
    name = layer.kind.partition(":")[2]
    wanted, weights = network_range(name), layer.get(1, "weights")
    given = network_range(span.partition(":")[2]) if span and span.startswith("preprocessed:") else span
    if wanted is None or given is None or (weights is not None and layer.constant(1, "weights") is None):
        return
    is_near = {given, wanted} in ({"0..1", "-1..1"}, {"0..255", "the means of ImageNet taken off"})
    if given != wanted and (wanted != "0..255" or given not in ("0..1", "-1..1")):  # that is PIP041's
        yield at(layer, f"{name} is made for pixels of {wanted}, but is given {given}", also=made,
                 severity="info" if is_near else None, help="use the preprocess_input of its own module")  # fmt: skip
