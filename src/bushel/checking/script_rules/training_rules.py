"""PIP037, PIP043, PIP044, PIP048, PIP049, PIP051, PIP052 and PIP074: shapes, labels, losses, and fitted layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bushel.checking.collect.facts import split_of
from bushel.checking.findings import Finding, rule
from bushel.checking.rules.keras_expectations import Misfit, Pair, loss_called, metric_misfit, misfits
from bushel.checking.script.followed_script import (
    At,
    Script,
    Trace,
    Use,
    at,
    facts_of,
    placed,
    replaced,
    with_argument,
    with_keyword,
)
from bushel.checking.script.keras_calls import FITTED
from bushel.checking.script.known_values import (
    Const,
    KerasObject,
    KnownValue,
    Mapping,
    Model,
    Module,
    ScriptDataset,
    Seq,
    Shape,
    Tensor,
    declared,
    fits,
    flat_layers,
    followed,
    layers_of,
    shown,
)
from bushel.checking.script_rules.pixel_rules import inputs_of


@dataclass(frozen=True)
class Site:
    """A loss with the output and the labels that it is given, and where they are."""

    pair: Pair
    loss: At
    head: KerasObject | None
    label: Tensor | None
    place: ast.AST | None = None  # the argument of compile


def _part(value: KnownValue | None, key: Any) -> KnownValue | None:
    """One of several outputs, losses or labels, by its name or its place; the value itself where there is one."""
    if isinstance(value, Mapping):
        return value.items.get(key)
    if isinstance(value, Seq):
        return value.items[key] if isinstance(key, int) and key < len(value.items) else None
    return value if key is None else None


def sites(trace: Trace) -> Iterator[Site]:
    """Each loss with the layers before it and the labels that it is given."""
    for event in trace.of("compile"):
        compiled, model = event.info["call"], event.info["model"]
        fed = [d.element for use, d in trace.used("train") if use.model is model and not d.has("filter")]
        labels = next((e.items[1] for e in fed if isinstance(e, Seq) and len(e.items) > 1), None)
        loss, output, place = compiled.get(1, "loss"), getattr(model, "output", None), compiled.value_node(1, "loss")
        keys: list[Any] = list(loss.items) if isinstance(loss, Mapping) else [None]
        keys = list(range(len(loss.items))) if isinstance(loss, Seq) else keys
        for key in keys:
            label, made = _part(labels, key), _part(output, key)
            layers = flat_layers(event.info["layers"]) if key is None else list(getattr(made, "layers", ()))
            node = loss.nodes.get(key, place) if isinstance(loss, Mapping) else place
            known = label if isinstance(label, Tensor) else None
            yield from _site(trace, _part(loss, key), At(node, event.script), layers, known)
    for event in trace.of("loss-call"):
        loss, output, label = event.info["loss"], event.info["output"], event.info["label"]
        layers = list(output.layers) if isinstance(output, Tensor) else []
        yield from _site(trace, loss, At(loss.node, loss.script), layers, label if isinstance(label, Tensor) else None)


def _site(
    trace: Trace, loss: KnownValue | None, place: At, layers: list[KerasObject], label: Tensor | None
) -> Iterator[Site]:
    name, from_logits = _loss(loss)
    if name is None:
        return
    head, activation = _head(layers)
    units = head.number(0, "units" if head.kind == "Dense" else "filters") if head is not None else None
    pair = Pair(name, from_logits, activation, units, **_labels(trace, label))
    yield Site(pair, At(loss.node, loss.script) if isinstance(loss, KerasObject) else place, head, label, place.node)


def _loss(loss: KnownValue | None) -> tuple[str | None, bool | None]:
    if isinstance(loss, KerasObject) and ".losses." in loss.name:
        given = loss.get(0, "from_logits")
        known = False if given is None else loss.flag("from_logits", 0)
        return loss_called(loss.kind), known
    if isinstance(loss, Const) and isinstance(loss.value, str):
        return loss_called(loss.value), False
    if isinstance(loss, Module) and ".losses." in loss.name:
        return loss_called(loss.name.rsplit(".", maxsplit=1)[-1]), False
    return None, None


def _head(layers: list[KerasObject]) -> tuple[KerasObject | None, str | None]:
    """The last layer with units and the activation of the output; None where it is not known."""
    activation: str | None = "none"
    for layer in reversed(layers):
        if layer.kind in ("Dropout", "Flatten", "Reshape"):
            continue
        if layer.kind == "Softmax":
            activation = "softmax"
        elif layer.kind == "Activation":
            activation = _activation(layer.get(0, "activation"))
        elif layer.kind in ("Dense", "Conv2D", "Conv1D"):
            own = _activation(layer.get(1 if layer.kind == "Dense" else -1, "activation"))
            return layer, own if activation == "none" else activation
        else:
            return None, None
    return None, None


def _activation(value: KnownValue | None) -> str | None:
    if value is None or (isinstance(value, Const) and value.value is None):
        return "none"
    if isinstance(value, Const) and isinstance(value.value, str):
        return "none" if value.value == "linear" else value.value
    name = getattr(value, "name", None)
    return name.rsplit(".", maxsplit=1)[-1] if isinstance(name, str) else None


def _labels(trace: Trace, label: Tensor | None) -> dict[str, Any]:
    """What is known of labels: their form, and from where to where they go."""
    if label is None:
        return {}
    facts = facts_of(trace, label)
    if label.form == "one_hot":
        known = facts is not None and facts.is_number and facts.length == 1 and label.shift is not None
        high = facts.max + (label.shift or 0) if facts is not None and known else None
        return {"labels": "one_hot", "depth": label.depth, "high": high}
    is_whole = facts.dtype == "int64" if facts is not None else (label.dtype or "").startswith(("int", "uint"))
    is_one = label.shape is None or len(label.shape) <= 1 or label.shape[1:] == (1,)
    if label.form is not None or not is_one or (facts is not None and not (facts.length == 1 and facts.is_number)):
        return {}
    if facts is None or trace.data is None or label.shift is None:
        return {"labels": "numbers" if is_whole and label.shift is not None else None}
    counts = trace.data.train.label_counts if trace.data.train and label.feature == trace.data.label else {}
    low, high = (min(counts), max(counts)) if counts and is_whole else (facts.min, facts.max)
    kind = "numbers" if is_whole else "amounts"
    return {"labels": kind, "low": low + label.shift, "high": high + label.shift}


def _misfits(trace: Trace, kind: str) -> Iterator[tuple[Site, Misfit]]:
    seen: set[tuple[int, str]] = set()
    for site in sites(trace):
        for misfit in misfits(site.pair):
            key = (id(site.loss.node), misfit.message)
            if misfit.kind == kind and key not in seen:
                seen.add(key)
                yield site, misfit


@rule("PIP043", "loss-for-other-labels", needs="script", rank=30, causes="EXE003", silences=("EXE039", "EXE041"))
def loss_for_other_labels(trace: Trace) -> Iterator[Finding]:
    """A loss for one-hot labels where labels are numbers, or the other way round.

    Why: shapes differ and training stops; where broadcasting saves them, it learns nothing.
    Example: integer labels with `categorical_crossentropy`.
    Fix: `sparse_categorical_crossentropy` for integers, `categorical_crossentropy` for one-hot.
    Ignore: never.
    """
    for event in trace.of("loss-call"):
        label, output = event.info["label"], event.info["output"]
        if isinstance(label, Tensor) and isinstance(output, Tensor) and label.layers and not output.layers:
            yield at(event, "the loss is given the outputs first and the labels second",
                     help="call it with (y_true, y_pred)")  # fmt: skip
    for site, misfit in _misfits(trace, "labels"):
        text, node, script = site.loss.script.code_of(site.loss.node), site.loss.node, site.loss.script
        other = text
        if site.pair.labels == "one_hot":
            other = text.replace("sparse_c", "c").replace("SparseC", "C")
        elif "inary" not in text and "ean" not in text:
            other = text.replace("categorical_c", "sparse_categorical_c").replace("Categ", "SparseCateg")
        edits = [replaced(script, node, other)] if other != text else []
        label = placed(trace.scripts, site.label.made_by) if site.label is not None else None
        yield at(site.loss, misfit.message, *edits, help=misfit.help, also=label, confidence=misfit.confidence)


def _keras(script: Script) -> str:
    found = script.imported_as("keras", "") or script.imported_as("tensorflow.keras", "")
    return found or f"{script.imported_as('tensorflow', 'tf')}.keras"


@rule("PIP044", "logits-and-probabilities", needs="script", rank=35, silences=("EXE039", "EXE041"))
def logits_and_probabilities(trace: Trace) -> Iterator[Finding]:
    """A loss that expects probabilities from a model that gives logits, or logits from one that gives probabilities.

    Why: accuracy stays near chance (0.3 of 4 classes in TensorFlow's own tutorial), or learning is slow for no reason.
    Example: `Dense(10)` and `SparseCategoricalCrossentropy()`
    Fix: `from_logits=True`, or `activation="softmax"`; not both.
    Ignore: never.
    """
    for site, misfit in _misfits(trace, "logits"):
        node, script, gives = site.loss.node, site.loss.script, site.pair.activation
        wanted = str(gives == "none")
        title = "".join(part.title() for part in site.pair.loss.split("_"))
        whole = f"{_keras(script)}.losses.{title}(from_logits=True)"
        is_class = isinstance(node, ast.Call) and not ast.unparse(node.func).endswith("_with_logits")
        fix = [with_keyword(script, node, "from_logits", wanted)] if is_class and isinstance(node, ast.Call) else []
        if not isinstance(node, ast.Call) and wanted == "True":
            fix = [replaced(script, node, whole)]
        expected = f"from_logits={wanted}"
        yield at(site.loss, misfit.message, *fix, help=misfit.help, also=site.head, measured=gives, expected=expected)


@rule("PIP051", "labels-do-not-fit-head", needs="script", rank=30, causes="EXE003", silences=("EXE039", "EXE041"))
def head_does_not_fit_labels(trace: Trace) -> Iterator[Finding]:
    """A last layer with fewer classes than the data has, or an activation that the loss does not take.

    Why: `Received a label value of 10 outside the valid range of [0, 10)`, or silence and a wrong loss on a GPU.
    Example: labels 0 to 10 and `Dense(10)`
    Fix: one unit for each class.
    Ignore: where some labels are filtered out.
    """
    for site, misfit in _misfits(trace, "head"):
        head, pair = site.head, site.pair
        if head is None:
            continue
        is_short = pair.labels == "numbers" and pair.high is not None and pair.units is not None
        fix = []
        if is_short and pair.high is not None and pair.high >= (pair.units or 0) > 1 and head.kind == "Dense":
            fix = [with_argument(head.script, head.node, 0, "units", str(int(pair.high) + 1))]
        also: At | None = site.loss
        if site.label is not None and (pair.depth is not None or site.label.shift):
            also = placed(trace.scripts, site.label.made_by)
        classes = int(pair.high) + 1 if is_short and pair.high is not None else None
        yield at(head, misfit.message, *fix, help=misfit.help, also=also, severity=misfit.severity,
                 measured=pair.units, expected=classes)  # fmt: skip


@rule("PIP037", "metric-does-not-fit", severity="warning", needs="script", rank=60)
def metric_does_not_fit(trace: Trace) -> Iterator[Finding]:
    """A metric that does not measure what it seems to.

    Why: numbers that are always near 0 or near 1, while the model learns well or not at all.
    Example: `metrics.Accuracy()` on probabilities; `Precision()` on logits
    Fix: `"accuracy"`, which Keras turns into the right one; thresholds for logits.
    Ignore: never.
    """
    compiled = {id(event.info["call"].value_node(1, "loss")): event for event in trace.of("compile")}
    for site in sites(trace):
        event = compiled.get(id(site.place))
        metrics = event.info["call"].get(-1, "metrics") if event is not None else None
        for metric in metrics.items if isinstance(metrics, Seq) and event is not None else []:
            name = (
                metric.kind if isinstance(metric, KerasObject) else metric.value if isinstance(metric, Const) else None
            )
            given = bool(
                isinstance(metric, KerasObject) and ({"thresholds", "threshold", "from_logits"} & {*metric.keywords})
            )
            why = metric_misfit(str(name), site.pair) if not given else None
            if why is not None and event is not None:
                node = metric.node if isinstance(metric, KerasObject) else event.info["call"].value_node(-1, "metrics")
                yield at(At(node, event.script), why.message, help=why.help, also=site.head)


@rule("PIP048", "never-adapted", measured_by="PIP048", needs="script", rank=60)
def never_adapted(trace: Trace) -> Iterator[Finding]:
    """A Normalization or vocabulary layer that is never adapted and given no statistics.

    Why: Normalization then changes nothing, and a vocabulary knows no word.
    Example: `keras.layers.Normalization()` in a model, and no `adapt`.
    Fix: `layer.adapt(train.map(lambda x, y: x))` before the model is built.
    Ignore: where its weights are loaded.
    """
    followed = {id(event.node) for event in [*trace.of("adapt"), *trace.of("adapt-in-map")]}
    for script in trace.scripts:
        for node in ast.walk(script.tree):
            name = node.attr if isinstance(node, ast.Attribute) else None
            if name in ("load_weights", "load_model", "set_weights", "from_config"):
                return  # what was adapted may be loaded
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "adapt" and id(node) not in followed:
                return  # something is adapted, and which layer could not be followed
    for event in trace.of("fitted-layer"):
        layer: KerasObject = event.info["layer"]
        given = layer.args[0:1] if layer.kind.endswith("Lookup") else ()
        is_adapted = any((name, id(layer.node)) in trace.done for name in ("adapt", "set_vocabulary", "set_weights"))
        if not is_adapted and not {"**", *FITTED[layer.kind]} & {*layer.keywords} and not given:
            yield at(event, f"{layer.kind} is never adapted", help="call .adapt(...) with the train split first")


@rule("PIP049", "fitted-on-evaluation", severity="error", needs="script")
def fitted_on_evaluation(trace: Trace) -> Iterator[Finding]:
    """A layer that is adapted to validation or test data.

    Why: statistics of the evaluation data leak into the model, and differ from those of train.
    Example: `normalise.adapt(test)`
    Fix: adapt to the train split.
    Ignore: never.
    """
    for event in trace.of("adapt"):
        data = event.info["data"]
        patterns = data.files.patterns if isinstance(data, ScriptDataset) and data.files else None
        splits = {split_of(pattern) for pattern in patterns or ()}
        if splits and splits <= {"val", "test"} and not event.info["unsure"]:
            message = f"{event.info['layer'].kind} is adapted to {' and '.join(sorted(splits))}"
            yield at(event, message, help="adapt it to the train split")


@rule("PIP052", "shapes-do-not-fit", needs="script", measured_by="EXE003")
def shapes_do_not_fit(trace: Trace) -> Iterator[Finding]:
    """Batches of another shape than the model takes, or a layer that cannot take what the one before it gives.

    Why: `expected shape=(None, 224, 224, 3), found shape=(None, 128, 128, 3)`, when training begins.
    Example: `resize(image, [128, 128])` and `Input((224, 224, 3))`
    Fix: one size for both, in one name.
    Ignore: never.
    """
    for event in trace.of("layer-misfit"):
        yield at(event, event.info["problem"], help="make the layers agree")
    yield from _small_tables(trace)
    for event in trace.of("single-of-batch"):
        yield at(event, "parse_single_example is given a batch of records", help="use tf.io.parse_example")
    for event in trace.of("resize-without-shape"):
        yield at(event, "decode_image gives a tensor without a shape, which resize refuses",
                 help="decode with expand_animations=False", also=At(event.info["made_by"], event.script))  # fmt: skip
    seen: set[int] = set()
    for use, dataset in trace.used("train", "eval", "predict"):
        if not isinstance(use.model, Model) or id(use.model) in seen:
            continue
        found = list(_misfit_inputs(trace, use, use.model, dataset))
        seen |= {id(use.model)} if found else set()
        yield from found


@rule("PIP074", "wrong-axis", needs="script")
def wrong_axis(trace: Trace) -> Iterator[Finding]:
    """Outputs and labels whose axes do not correspond, and functions of classes that are taken along another axis.

    Why: nothing fails: shapes broadcast, and the loss compares each output with the labels of all records.
    Example: `y_pred - y_true` of shapes (32, 1) and (32,); `tf.nn.softmax(logits, axis=0)`
    Fix: squeeze the outputs or expand the labels, and take softmax and argmax along the last axis.
    Ignore: never.
    """
    for event in trace.of("broadcast"):
        shapes = " and ".join(map(shown, event.info["shapes"]))
        message = f"{shapes} broadcast against each other: every output meets every label"
        yield at(event, message, help="squeeze the outputs, or give the labels a last axis")
    for event in trace.of("argmax-of-records"):
        yield at(event, "argmax is taken over the records of the batch", help="use axis=-1")
    for event in trace.of("softmax-axis"):
        shape, axis = event.info["shape"], event.info["axis"]
        if shape is not None and axis != len(shape) - 1 and shape[-1] != 1:
            yield at(event, f"softmax is taken along axis {axis} of {shown(shape)}", help="take it along the last axis")


def _small_tables(trace: Trace) -> Iterator[Finding]:
    """Embeddings with fewer rows than there are tokens."""
    for event in trace.of("embedding"):
        layer, tensor, words = event.info["layer"], event.info["tensor"], event.info["words"]
        rows, facts = layer.number(0, "input_dim"), facts_of(trace, tensor)
        is_plain = facts is not None and facts.dtype == "int64" and tensor.shift is not None
        most = int(facts.max) + (tensor.shift or 0) if facts is not None and is_plain else None
        most = words.number(0, "max_tokens") - 1 if words is not None and words.number(0, "max_tokens") else most
        if rows is not None and most is not None and most >= rows:
            yield at(layer, f"the table has {rows:,} rows, but tokens go up to {most:,}",
                     with_argument(layer.script, layer.node, 0, "input_dim", str(most + 1)), also=words)  # fmt: skip


def _misfit_inputs(trace: Trace, use: Use, model: Model, dataset: ScriptDataset) -> Iterator[Finding]:
    element = (
        dataset.element.items[0] if isinstance(dataset.element, Seq) and dataset.element.items else dataset.element
    )
    if isinstance(element, Mapping):
        yield from _missing_inputs(use, model, element)
        return
    tensor, layers = inputs_of(dataset), layers_of(model)
    wanted, said_by = declared(layers, model.inputs)
    if tensor is None or tensor.shape is None or dataset.batched != 1 or tensor.form == "sparse":
        return
    made = placed(trace.scripts, tensor.made_by)
    if wanted is not None and said_by is not None and not _fits_input(tensor.shape, wanted):
        place = placed(trace.scripts, said_by.made_by) if isinstance(said_by, Tensor) else said_by
        message = f"the model takes {shown(wanted)}, but is given {shown(tensor.shape)}"
        yield at(place or use, message, help="use one size for both", also=made, measured=shown(tensor.shape))
    elif model.kind == "Sequential":
        _, layer, problem = followed(model.layers, wanted or tensor.shape)
        if layer is not None and problem is not None:
            yield at(layer, problem, help="make the layers and the data agree", also=made)


def _fits_input(shape: Shape, wanted: Shape) -> bool:
    """Keras adds or drops a last axis of 1 by itself."""
    return fits(shape, wanted) or fits((*shape, 1), wanted) or (shape[-1:] == (1,) and fits(shape[:-1], wanted))


def _missing_inputs(use: Use, model: Model, given: Mapping) -> Iterator[Finding]:
    inputs = [model.inputs]
    if isinstance(model.inputs, Seq | Mapping):
        inputs = list(model.inputs.items.values() if isinstance(model.inputs, Mapping) else model.inputs.items)
    names = [tensor.feature for tensor in inputs if isinstance(tensor, Tensor)]
    missing = [name for name in names if name is not None and name not in given.items]
    if missing and given.is_whole and len(names) == len(inputs) and None not in names:
        places = [t.made_by for t in inputs if isinstance(t, Tensor) and t.feature == missing[0]]
        message = f"the model has an input {missing[0]!r}, but the data gives {', '.join(map(repr, given.items))}"
        yield at(At(places[0], model.script), message, help="use the same names for both", also=use)
