"""Keras: layers, models, losses, and what is done with them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from bushel.checking.script.known_values import (
    UNKNOWN,
    Alternatives,
    Class,
    Const,
    Dataset,
    Function,
    Instance,
    Layer,
    Loss,
    Model,
    Module,
    Seq,
    Tensor,
    Value,
    Writer,
)
from bushel.checking.script.trace import Use

if TYPE_CHECKING:
    from bushel.checking.script.interpreter import Interpreter

__all__ = ["apply_layers", "is_model", "make", "object_method"]

REMOVED_NAMES = {
    "ImageDataGenerator": "keras.utils.image_dataset_from_directory and random layers",
    "KerasClassifier": "scikeras.wrappers.KerasClassifier",
    "KerasRegressor": "scikeras.wrappers.KerasRegressor",
    "CuDNNLSTM": "keras.layers.LSTM",
    "CuDNNGRU": "keras.layers.GRU",
    "multi_gpu_model": "tf.distribute.MirroredStrategy",
    "DenseFeatures": "keras.utils.FeatureSpace",
}
# Layers that know nothing until they are adapted, and the arguments that adapt them.
FITTED = {
    "Normalization": ("mean", "variance"),
    "TextVectorization": ("vocabulary",),
    "StringLookup": ("vocabulary",),
    "IntegerLookup": ("vocabulary",),
    "Discretization": ("bin_boundaries",),
}
# What the dataset that a Keras utility makes holds.
_UTILITIES = ("image_dataset_from_directory", "text_dataset_from_directory", "timeseries_dataset_from_array")


def make(run: Interpreter, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value:
    """An object of Keras by the name of what makes it."""
    last = name.rsplit(".", maxsplit=1)[-1]
    if last in REMOVED_NAMES:
        run.trace.add("removed", node, run.source, name=last)
    if ".optimizers." in name:
        for keyword in node.keywords:
            if keyword.arg in ("lr", "decay"):
                run.trace.add("removed", keyword, run.source, name=keyword.arg)
        return Module(name)
    if ".losses." in name and last[:1].isupper():
        from_logits = keywords.get("from_logits", args[0] if args else Const(False))
        known = from_logits.value if isinstance(from_logits, Const) else None
        return Loss(last, known if isinstance(known, bool) else None, node, run.source)
    if last == "Sequential":
        given = args[0] if args else keywords.get("layers", Seq([]))
        layers = given.items if isinstance(given, Seq) else []
        return Model([layer for layer in layers if isinstance(layer, Layer | Model)], node, run.source)
    if last == "Model" and (args or keywords):
        outputs = keywords.get("outputs", args[1] if len(args) > 1 else UNKNOWN)
        chain = list(outputs.layers) if isinstance(outputs, Tensor) else []
        return Model(chain, node, run.source, kind="functional")
    if last in ("Input", "InputLayer"):
        return Tensor(form="input")
    if last in _UTILITIES:
        return _utility(run, last, node, keywords)
    if ".applications." in name:
        return _application(name, last, node, args, keywords, run)
    if ".layers." in name and last[:1].isupper():
        layer = Layer(last, args, keywords, node, run.source)
        if last in FITTED:
            run.trace.add("fitted-layer", node, run.source, layer=layer)
        return layer
    if last == "to_categorical":
        return Tensor(form="one_hot")
    return UNKNOWN


def _utility(run: Interpreter, last: str, node: ast.Call, keywords: dict[str, Value]) -> Dataset:
    shuffle = keywords.get("shuffle", Const(True))
    mode = keywords.get("label_mode", Const("int"))
    label = Tensor(form="one_hot") if isinstance(mode, Const) and mode.value == "categorical" else Tensor(dtype="int32")
    batch = keywords.get("batch_size", Const(32))
    is_batched = not (isinstance(batch, Const) and batch.value is None)
    image = Tensor(dtype="float32", form="image", span="0..255") if last.startswith("image") else UNKNOWN
    made = Dataset((), Seq([image, label], is_tuple=True), int(is_batched), None, is_opaque=True)
    if isinstance(shuffle, Const) and shuffle.value is True and "validation_split" in keywords:
        seed = keywords.get("seed")
        if seed is None or (isinstance(seed, Const) and seed.value is None):
            run.trace.add("unseeded-split", node, run.source)
    return made


def _application(
    name: str, last: str, node: ast.Call, args: list[Value], keywords: dict[str, Value], run: Interpreter
) -> Value:
    if last == "preprocess_input":
        family = name.split(".")[-2]
        tensor = args[0] if args else UNKNOWN
        run.trace.add("preprocess", node, run.source, family=family)
        if isinstance(tensor, Tensor):
            marker = Layer("preprocess_input", [Const(family)], {}, node, run.source)
            return tensor.but(span=f"preprocessed:{family}", layers=(*tensor.layers, marker))
        return UNKNOWN
    if last[:1].isupper():
        return Layer(f"application:{last}", args, keywords, node, run.source)
    return UNKNOWN


def is_model(value: Value) -> bool:
    """Whether an object is of a class that is a Keras model."""
    if not isinstance(value, Instance):
        return False
    classes: list[Value] = [*value.of.bases]
    while classes:
        of = classes.pop()
        if isinstance(of, Module) and of.name in ("keras.Model", "keras.models.Model", "keras.Sequential"):
            return True
        if isinstance(of, Class):
            classes += of.bases
    return False


def is_random(value: Value) -> bool:
    """Whether a layer, or one in a model, augments at random."""
    if isinstance(value, Layer):
        return value.kind.startswith("Random") or value.kind in ("MixUp", "CutMix", "AugMix", "RandAugment")
    return isinstance(value, Model) and any(is_random(layer) for layer in value.layers)


def apply_layers(
    run: Interpreter, value: Value, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """Call a layer or a model on a tensor."""
    training = keywords.get("training")
    if is_random(value):
        run.effects[-1].add("random")
        if run.mapped and training is None:
            run.trace.add("random-layer-in-map", node, run.source)
    is_trained = isinstance(value, Model) or is_model(value)
    if is_trained and run.tapes and training is None and not is_random(value):
        run.trace.add("step-without-training", node, run.source, model=value)
    if is_trained and run.loops:
        run.loops[-1].add("model")
        if run.tapes:
            run.loops[-1].add("step")
    run.effects[-1].add("layer")
    tensor = args[0] if args else UNKNOWN
    layers = tensor.layers if isinstance(tensor, Tensor) else ()
    if isinstance(tensor, Seq):
        layers = next((t.layers for t in tensor.items if isinstance(t, Tensor)), ())
    base = tensor if isinstance(tensor, Tensor) else Tensor()
    added = tuple(value.layers) if isinstance(value, Model) else (value,) if isinstance(value, Layer) else ()
    if isinstance(value, Layer) and value.kind == "Rescaling":
        scale = value.argument(0, "scale")
        if isinstance(scale, Const) and isinstance(scale.value, float) and scale.value < 0.02 and run.mapped:
            if base.span in ("0..1", "-1..1"):
                run.trace.add("scaled-twice", node, run.source, span=base.span)
            return base.but(layers=layers + added, span="0..1")
    keeps = is_random(value)
    return base.but(layers=layers + added, span=base.span if keeps else None, form=base.form if keeps else None)


def object_method(
    run: Interpreter, receiver: Value, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """Methods of models, layers and writers."""
    if isinstance(receiver, Writer):
        if name in ("close", "__exit__"):
            receiver.is_closed = True
        return UNKNOWN
    if name == "add" and isinstance(receiver, Model) and args and isinstance(args[0], Layer | Model):
        receiver.layers.append(args[0])
    elif name == "compile" and isinstance(receiver, Model | Instance):
        loss = keywords.get("loss", args[1] if len(args) > 1 else None)
        receiver.loss = loss
        receiver.loss_node = node
        run.trace.add("compile", node, run.source, model=receiver, loss=loss, layers=_output_layers(run, receiver))
    elif name in ("fit", "evaluate", "predict"):
        _use(run, receiver, name, node, args, keywords)
    elif name == "adapt" and isinstance(receiver, Layer):
        receiver.is_adapted = True
        kind = "adapt-in-map" if run.mapped else "adapt"
        run.trace.add(kind, node, run.source, layer=receiver, data=args[0] if args else UNKNOWN)
    elif name in ("set_vocabulary", "set_weights", "load_assets", "load_own_variables") and isinstance(receiver, Layer):
        receiver.is_adapted = True
    elif name in ("train_on_batch", "train_step") and run.loops:
        run.loops[-1].add("step")
    elif name in ("fit_generator", "evaluate_generator", "predict_generator", "predict_classes", "predict_proba"):
        run.trace.add("removed", node, run.source, name=name)
        if name == "fit_generator":
            _use(run, receiver, "fit", node, args, keywords)
    return UNKNOWN


def _output_layers(run: Interpreter, model: Model | Instance) -> list[Value]:
    """The layers on the way to the output; of a class, those that its `call` goes through."""
    if isinstance(model, Model):
        return list(model.layers)
    call = run.attribute(model, "call")
    output = run.apply(call, [Tensor()], {}) if isinstance(call, Function) else UNKNOWN
    return list(output.layers) if isinstance(output, Tensor) else []


def _use(
    run: Interpreter, model: Value, name: str, node: ast.Call, args: list[Value], keywords: dict[str, Value]
) -> None:
    role = {"fit": "train", "evaluate": "eval", "predict": "predict"}[name]
    data = args[0] if args else keywords.get("x", UNKNOWN)
    if run.loops:
        run.loops[-1].add("step" if role == "train" else "model")
    if isinstance(data, Dataset | Alternatives):
        run.trace.uses.append(Use(role, data, node, run.source, model, keywords))
    elif role == "train":
        run.trace.note(node, run.source, "what model.fit is given")
    validation = keywords.get("validation_data")
    if isinstance(validation, Dataset | Alternatives):
        run.trace.uses.append(Use("eval", validation, node, run.source, model, keywords))
