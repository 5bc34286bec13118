"""Keras: layers, models, losses, and what is done with them."""

from __future__ import annotations

from bushel.checking.script.dataset_calls import Call
from bushel.checking.script.followed_script import Use, facts_of
from bushel.checking.script.known_values import (
    UNKNOWN,
    Alternatives,
    Class,
    Const,
    Function,
    Instance,
    KerasObject,
    KnownValue,
    Model,
    Module,
    ScriptDataset,
    ScriptWriter,
    Seq,
    Tensor,
    each_tensor,
    followed,
    layer_shape,
    layers_of,
    shape_of,
    sizes_of,
    tensors_in,
)

REMOVED_NAMES = {
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
MADE = (".layers.", ".losses.", ".optimizers.", ".callbacks.", ".metrics.", ".applications.", ".schedules.")
# What the dataset that a Keras utility makes holds.
_UTILITIES = ("image_dataset_from_directory", "text_dataset_from_directory", "timeseries_dataset_from_array")


def make(call: Call) -> KnownValue:
    """An object of Keras by the name of what makes it."""
    name, last = call.name, call.last
    if last in REMOVED_NAMES:
        call.add("removed", name=last)
    if ".optimizers." in name:
        for keyword in call.node.keywords:
            if keyword.arg in ("lr", "decay"):
                call.reader.trace.add("removed", keyword, call.script, name=keyword.arg)
        if call.reader.tapes or call.reader.in_step:
            call.add("made-in-step")
    if last == "Sequential":
        return _sequential(call)
    if last == "Model" and (call.args or call.keywords):
        inputs, outputs = call.get(0, "inputs") or UNKNOWN, call.get(1, "outputs") or UNKNOWN
        chain = list(outputs.layers) if isinstance(outputs, Tensor) else []
        return Model(chain, call.node, call.script, "functional", inputs=inputs, output=outputs)
    if last == "Input":
        sizes, batch = sizes_of(call.get(0, "shape")), sizes_of(call.get(-1, "batch_shape"))
        shape = batch if batch is not None else (None, *sizes) if sizes is not None else None
        marks = frozenset({"symbolic"})
        return Tensor(call.constant(-1, "name"), None, shape, "input", marks=marks, made_by=call.node)
    if last in _UTILITIES:
        return _utility(call)
    if last == "preprocess_input":
        return _preprocessed(call)
    if any(room in name for room in MADE) and last[:1].isupper():
        made = call.made()
        if last in FITTED:
            call.add("fitted-layer", layer=made)
        if call.reader.loops:
            made.notes.add("in a loop")
        if last in ("ModelCheckpoint", "Dropout"):
            call.add(last, made=made)
        return made
    if ".losses." in name and len(call.args) > 1:
        flag = call.get(-1, "from_logits") or Const(False)
        loss = KerasObject(name, call.node, call.script, (), {"from_logits": flag})
        return loss_call(call, loss, call.args[0], call.args[1])
    if ".activations." in name and (tensor := call.tensor()) is not None:
        return activated(call, tensor, last)
    return Tensor(form="one_hot") if last == "to_categorical" else UNKNOWN


def _sequential(call: Call) -> Model:
    given = call.get(0, "layers")
    model = Model([], call.node, call.script)
    for layer in given.items if isinstance(given, Seq) else []:
        add_layer(model, layer)
    words = None
    for layer in layers_of(model):
        words = layer if layer.kind == "TextVectorization" else words
        if layer.kind == "Embedding" and words is not None:
            call.reader.trace.add("embedding", layer.node, layer.script, layer=layer, tensor=Tensor(), words=words)
    return model


def add_layer(model: Model, layer: KnownValue) -> None:
    """One more layer of a Sequential; what is no layer that is known makes the rest unknown."""
    if isinstance(layer, Tensor) and layer.form == "input":
        model.inputs = layer
    elif isinstance(layer, KerasObject | Model):
        model.layers.append(layer)
    else:
        model.layers.append(KerasObject("unknown", model.node, model.script))  # type: ignore[arg-type]


def _utility(call: Call) -> ScriptDataset:
    mode, last = call.constant(-1, "label_mode") or "int", call.last
    label = Tensor(form="one_hot") if mode == "categorical" else Tensor(dtype="int32", shape=(None,))
    batch = call.get(-1, "batch_size")
    is_batched = not (isinstance(batch, Const) and batch.value is None)
    usual = Seq([Const(256), Const(256)]) if "**" not in call.keywords else UNKNOWN
    size = sizes_of(call.get(-1, "image_size") or usual) or (None, None)
    channels = {"grayscale": 1, "rgba": 4}.get(call.constant(-1, "color_mode"), 3)
    shape = (None, *size, channels) if is_batched else (*size, channels)
    image = Tensor(None, "float32", shape, "image", "0..255") if last.startswith("image") else UNKNOWN
    is_shuffled = call.constant(-1, "shuffle") in (None, True)
    is_seeded = call.get(-1, "seed") not in (None, Const(None)) or "**" in call.keywords
    if is_shuffled and "validation_split" in call.keywords and not is_seeded:
        call.add("unseeded-split")
    return ScriptDataset((), Seq([image, label], is_tuple=True), int(is_batched), None, is_opaque=True)


def _preprocessed(call: Call) -> KnownValue:
    tensor, family = call.tensor(), call.name.split(".")[-2]
    if tensor is None:
        return UNKNOWN
    if tensor.span in ("0..1", "-1..1") or (tensor.span or "").startswith("preprocessed"):
        call.add("scaled-twice", span=tensor.span)
    marker = call.made("keras.layers.preprocess_input")
    return tensor.but(span=f"preprocessed:{family}", layers=(*tensor.layers, marker), made_by=call.node)


def activated(call: Call, tensor: Tensor, name: str) -> Tensor:
    """A tensor of a model after a function that is an activation."""
    marker = KerasObject("keras.layers.Activation", call.node, call.script, (Const(name),))
    return tensor.but(layers=(*tensor.layers, marker), form=name)


def is_model(value: KnownValue, *names: str) -> bool:
    """Whether an object is of a class that is a Keras model, or another class of Keras."""
    if not isinstance(value, Instance):
        return False
    wanted = names or ("keras.Model", "keras.models.Model", "keras.Sequential")
    classes: list[KnownValue] = [*value.of.bases]
    while classes:
        of = classes.pop()
        if isinstance(of, Module) and of.name in wanted:
            return True
        if isinstance(of, Class):
            classes += of.bases
    return False


def is_random(value: KnownValue) -> bool:
    """Whether a layer, or one in a model, augments at random."""
    if isinstance(value, KerasObject):
        return value.is_layer and (value.kind.startswith("Random") or value.kind in ("MixUp", "CutMix", "RandAugment"))
    return isinstance(value, Model) and any(is_random(layer) for layer in value.layers)


def apply_layers(call: Call, value: KnownValue) -> KnownValue:
    """Call a layer or a model on a tensor."""
    reader, training = call.reader, call.get(-1, "training")
    first = call.args[0] if call.args else call.get(0, "inputs") or UNKNOWN
    tensor = first if isinstance(first, Tensor) else next(iter(tensors_in(first)), None)
    if is_random(value):
        reader.effects[-1] |= {"random", "augment"}
    if (isinstance(value, Model) or is_model(value)) and (tensor is None or tensor.form != "input"):
        _step(call, value, training)
    reader.effects[-1].add("layer")
    base = tensor if tensor is not None else Tensor()
    if isinstance(value, Instance):
        return _called(call, value, base)
    if (
        isinstance(value, KerasObject)
        and value.kind == "Rescaling"
        and reader.mapped
        and (value.constant(0, "scale") or 1) < 0.02
    ):
        if base.span in ("0..1", "-1..1"):
            call.add("scaled-twice", span=base.span)
        return base.but(layers=(*base.layers, value), span="0..1")
    if isinstance(value, KerasObject) and value.kind == "Softmax" and value.number(0, "axis") not in (None, -1):
        call.add("softmax-axis", shape=base.shape, axis=value.number(0, "axis"))
    shape, problem = (
        layer_shape(value, base.shape) if isinstance(value, KerasObject) and base is first else (None, None)
    )
    if isinstance(value, Model) and value.kind == "Sequential":
        shape = followed(value.layers, shape_of(value.inputs) or base.shape)[0]
    elif isinstance(value, Model):
        shape = shape_of(value.output)
    if problem is not None:
        call.add("layer-misfit", problem=problem)
    if isinstance(value, Model) and base.form != "input":
        _watch_range(call, value, base)
    if isinstance(value, KerasObject) and value.kind == "Embedding":
        words = next((one for one in reversed(base.layers) if one.kind == "TextVectorization"), None)
        call.add("embedding", layer=value, tensor=base, words=words)
    if isinstance(value, KerasObject) and value.kind == "StringLookup" and base.feature is not None:
        facts = facts_of(call.reader.trace, base)
        call.add("lookup", facts=facts, vocabulary=value.get(-1, "vocabulary"), layer=value, key=facts is None)
    added = tuple(value.layers) if isinstance(value, Model) else (value,)
    keeps = is_random(value)
    made = base.but(layers=(*base.layers, *added), shape=shape, made_by=call.node, feature=None)
    made = made.but(span=base.span if keeps else None, form=base.form if keeps else None)
    return _taped(call, made) if isinstance(value, Model) else made


def _watch_range(call: Call, model: Model, given: Tensor) -> None:
    """A model that is given values of one range here and of another there."""
    last = given.layers[-1] if given.layers else None
    activation = last.constant(-1, "activation") if isinstance(last, KerasObject) else None
    span = {"tanh": "-1..1", "sigmoid": "0..1"}.get(str(activation), given.span if last is None else None)
    known = call.reader.ranges.setdefault(id(model), (span, call.node)) if span is not None else (span, call.node)
    if span is not None and known[0] != span:
        call.add("two-ranges", spans=(known[0], span), other=known[1], made_by=last.node if last is not None else None)


def _taped(call: Call, made: Tensor) -> Tensor:
    """The output of a model, or a loss, marked if a step computes it where its tape does not see it."""
    if call.reader.tapes:
        return made.but(marks=made.marks - {"outside the tape"})
    return made.marked("outside the tape") if call.reader.in_step else made


def _step(call: Call, value: KnownValue, training: KnownValue | None) -> None:
    """A model is called by the script's own loop."""
    reader = call.reader
    if reader.tapes and not is_random(value) and (training is None or training == Const(False)):
        call.add("step-without-training", model=value)
    if not reader.tapes and training == Const(True):
        call.add("training-outside-step", model=value, function=reader.function)
    if reader.loops:
        reader.loops[-1] |= {"model", "step"} if reader.tapes else {"model"}


def _called(call: Call, value: Instance, base: Tensor) -> KnownValue:
    """An object of a class: what its `call` or `__call__` gives."""
    args = [each_tensor(arg, lambda one: one.but(marks=one.marks - {"symbolic"})) for arg in call.args]
    for name in ("call", "__call__"):
        method = call.reader.attribute(value, name)
        if isinstance(method, Function):
            made = call.reader.apply(method, args, dict(call.keywords))
            made = each_tensor(made, lambda one: one.but(marks=one.marks | (base.marks & {"symbolic"})))
            return _taped(call, made) if is_model(value) and isinstance(made, Tensor) else made
    return base.but(layers=(), shape=None, span=None, form=None)


def loss_call(call: Call, loss: KerasObject, label: KnownValue | None, output: KnownValue | None) -> KnownValue:
    """A loss of labels and outputs, called by the script."""
    call.add("loss-call", loss=loss, label=label, output=output)
    made = output.but(shape=None, form="loss", made_by=call.node) if isinstance(output, Tensor) else Tensor(form="loss")
    reduction = loss.get(-1, "reduction")
    how = str(getattr(reduction, "value", None) or getattr(reduction, "name", None) or "mean").lower()
    if call.reader.replicas and loss.kind[:1].isupper() and not how.endswith(("none", "sum")):
        made = made.marked("mean of a replica")
    return made if call.reader.tapes else _taped(call, made)


def made_method(call: Call, receiver: KerasObject) -> KnownValue:
    """Methods of layers, tapes, optimizers and metrics."""
    name, reader = call.name, call.reader
    reader.trace.done.add((name, id(receiver.node)))
    if name == "adapt":
        data = call.args[0] if call.args else UNKNOWN
        key = str(data.files.patterns) if isinstance(data, ScriptDataset) and data.files is not None else ""
        call.add("adapt-in-map" if reader.mapped else "adapt", layer=receiver, data=data, key=key,
                 unsure=reader.unsure)  # fmt: skip
    elif name == "gradient":
        sources = call.get(1, "sources")
        call.add("gradient", target=call.get(0, "target"), of=sources, sources=call.value_node(1, "sources"))
    elif name in ("apply_gradients", "apply", "minimize", "update_state", "reset_state", "reset_states", "result"):
        call.add(name, receiver=receiver, loops=len(reader.loops))
        if name in ("apply_gradients", "minimize") and reader.loops:
            reader.loops[-1].add("step")
    return UNKNOWN


def object_method(call: Call, receiver: KnownValue) -> KnownValue:
    """Methods of models and writers."""
    name, reader = call.name, call.reader
    if isinstance(receiver, ScriptWriter):
        receiver.is_closed |= name in ("close", "__exit__")
    elif name == "add" and isinstance(receiver, Model) and call.args:
        add_layer(receiver, call.args[0])
    elif name == "compile" and isinstance(receiver, Model | Instance):
        receiver.compiled = call
        receiver.notes.discard("changed")
        if isinstance(receiver, Instance):
            receiver.layers = _output_layers(call, receiver)
        for layer in layers_of(receiver):
            layer.notes.discard("changed")
        call.add("compile", model=receiver, call=call, layers=list(receiver.layers))
    elif name in ("fit", "evaluate", "predict"):
        _use(call, receiver)
    elif name in ("train_on_batch", "train_step") and reader.loops:
        reader.loops[-1].add("step")
    elif name in ("save", "save_weights") and call.args:
        call.add(name, path=call.args[0])
    elif name == "add_loss" and isinstance(receiver, Model):
        call.add("add-loss")
    elif name in ("fit_generator", "evaluate_generator", "predict_generator", "predict_classes", "predict_proba"):
        call.add("removed", name=name)
        if name == "fit_generator":
            _use(call, receiver)
    return UNKNOWN


def _output_layers(call: Call, model: Instance) -> list[KerasObject | Model]:
    """The layers that the `call` of a class goes through on the way to its output."""
    method = call.reader.attribute(model, "call")
    output = call.reader.apply(method, [Tensor(form="input")], {}) if isinstance(method, Function) else UNKNOWN
    return list(output.layers) if isinstance(output, Tensor) else []


def _use(call: Call, model: KnownValue) -> None:
    role = {"evaluate": "eval", "predict": "predict"}.get(call.name, "train")
    data = call.get(0, "x") or UNKNOWN
    if call.reader.loops:
        call.reader.loops[-1].add("step" if role == "train" else "model")
    if role == "train":
        call.add("fit", model=model, notes={*getattr(model, "notes", ()), *_changed(model)})
    if isinstance(model, Instance) and isinstance(data, ScriptDataset):
        _follow_steps(call, model, role, data.element)
    if isinstance(data, ScriptDataset | Alternatives):
        call.reader.trace.uses.append(Use(role, data, call.node, call.script, model, call.keywords))
    elif role == "train":
        call.add("not-followed")
    validation = call.keywords.get("validation_data")
    if isinstance(validation, ScriptDataset | Alternatives):
        call.reader.trace.uses.append(Use("eval", validation, call.node, call.script, model, call.keywords))
        if isinstance(model, Instance) and isinstance(validation, ScriptDataset):
            _follow_steps(call, model, "eval", validation.element)


def _follow_steps(call: Call, model: Instance, role: str, element: KnownValue) -> None:
    """What Keras calls of a class that is a model: its own step, or its `call`."""
    inputs = element.items[0] if isinstance(element, Seq) and element.is_tuple and element.items else element
    for name, given in (("train_step" if role == "train" else "test_step", element), ("call", inputs)):
        method = call.reader.attribute(model, name)
        if isinstance(method, Function):
            call.reader.apply(method, [given], {})


def _changed(model: KnownValue) -> set[str]:
    return {"changed"} if any("changed" in layer.notes for layer in layers_of(model)) else set()
