"""Custom loops under observation: calls of models, tapes, optimizers, losses and metrics, and their results."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from bushel.checking.running import links
from bushel.checking.running.batches import Look, inputs_and_labels, label_facts, look_at, overlap, tell_look
from bushel.checking.running.keras_replacements import replace_everywhere
from bushel.checking.running.tracing import trace
from bushel.checking.running.user_code import Place, active, is_user_file, seen, steps, user_place
from bushel.checking.running.watched_models import (
    behaving_layers,
    describe_loss,
    model_facts,
    number_of,
    outputs_of,
    sums_of,
)

AGAIN = 6  # times that one line begins to iterate over a dataset; epochs are two at most
_BETWEEN = ("traceback_utils", "/autograph/", "/util/dispatch", "/checking/running/", "functools", "contextlib")


class CustomLoops:
    """What custom loops did."""

    def __init__(self) -> None:
        self.tapes = 0
        self.current: Any = None  # the dataset that is being iterated over
        self.iterations: dict[int, int] = {}
        self.trained_on: dict[int, Any] = {}
        self.evaluated_on: dict[int, Any] = {}
        self.met: set[tuple[int, int]] = set()  # models, by number, and the datasets that they were called on
        self.models: dict[int, Any] = {}
        self.gradients = self.applied = 0
        self.losses: dict[str, Any] = {}
        self.metrics: list[dict[str, Any]] = []
        self.fits = self.probes = 0
        self.in_keras = 0
        self.optimizers: dict[int, Any] = {}
        self.trained: set[int] = set()  # weights
        self.made: dict[tuple[str, int], int] = {}  # optimizers, by line
        self.begun: dict[tuple[str, int], tuple[Any, int]] = {}  # the last iterator of a line, and how many
        self.kept: list[Any] = []  # so that no other object gets their ids
        self.taped: dict[int, tuple[Any, Place | None]] = {}  # variables that took part in a loss, and where
        self.updated: set[int] = set()  # variables that an optimizer was given
        self.layers: list[Any] = []  # of the user's making
        self.assigned: dict[int, tuple[Any, set[str], Place | None]] = {}  # variables, and how they were changed
        self.compiled: list[tuple[int, Place | None, int]] = []  # models, where, and after how many fits
        self.changed_at: Place | None = None  # where `trainable` was last set
        self.scaled = 0  # losses, for float16
        self.last_input: Any = None  # that the user's code called a model on


loops = CustomLoops()


def called_directly() -> bool:
    """Whether the user's code itself called what asks, not Keras on its behalf."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if "__autograph_generated_file" in name or is_user_file(name):
            return True
        if not any(part in name for part in _BETWEEN):
            return False
        frame = frame.f_back
    return False


def _is_distributed() -> bool:
    """Whether a strategy iterates: its devices share one iterator, so that looking ahead takes their batches away."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if f"{os.sep}distribute{os.sep}" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def look_at_iterated(dataset: Any) -> None:
    """The user's code begins to iterate over a dataset."""
    if loops.in_keras or _is_distributed():
        return
    links.note_use(dataset, "loop")
    if links.link_of(dataset) is None:
        return
    loops.current = dataset
    loops.iterations[id(dataset)] = loops.iterations.get(id(dataset), 0) + 1
    look = look_at(dataset, "loop", seconds=2.0)
    tell_look(look)


def note_iterator(dataset: Any, iterator: Any) -> None:
    """The user's code holds an iterator: what it asks of it, against what there is."""
    place, link = user_place(), links.link_of(dataset)
    if loops.in_keras or link is None or place is None or _is_distributed():
        return
    before, count = loops.begun.get(place[:2], (None, 0))
    is_short = before is not None and before.__dict__.get("_bushel_draws", 0) == 1
    loops.begun[place[:2]] = (iterator, count + 1 if is_short else 0)
    if count + 1 == AGAIN and is_short:
        seen.tell("begun_again", place=place, link=link.id)
    look = look_at(dataset, "loop")
    if look.facts.get("complete"):
        iterator.__dict__["_bushel"] = (look.facts["batches"], len(active), user_place())


def _install_iterators() -> None:
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    for name in ("__next__", "get_next"):
        setattr(OwnedIterator, name, _counted_draw(getattr(OwnedIterator, name)))


def _counted_draw(original: Any) -> Any:
    @functools.wraps(original)
    def draw(self: Any, *args: Any) -> Any:
        batches, depth, made_at = self.__dict__.get("_bushel") or (0, 0, None)
        self.__dict__["_bushel_draws"] = self.__dict__.get("_bushel_draws", 0) + 1
        if made_at is not None and not links.is_quiet():
            totals = [watch.total for watch in active[depth:]]
            asked = math.prod(total for total in totals if total is not None)
            if totals and None not in totals and asked > batches:
                seen.tell_once("used_up", place=user_place(), made_at=made_at, asked=asked, batches=batches)
        return original(self, *args)

    return draw


def install() -> None:
    """Patch calls of models, tapes, optimizers, losses and metrics."""
    import keras
    import tensorflow as tf

    _install_calls(keras, tf)
    _install_tapes(tf)
    _install_optimizers()
    _install_assignments()
    _install_losses(keras, tf)
    _install_softmax(tf)
    _install_arithmetic(tf)
    _install_metrics(keras)
    _install_distribution(tf)
    _install_iterators()
    links.on_iteration.append(look_at_iterated)
    links.on_iterator.append(note_iterator)


def _observe(owner: Any, name: str, note: Callable[..., None], *, in_keras: bool = False) -> Any:
    """Show calls by the user's own code to `note`; with `in_keras`, also those while Keras trains."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not links.is_quiet() and (in_keras or not loops.in_keras) and called_directly():
            with contextlib.suppress(Exception):
                note(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, call)
    return call


def _install_calls(keras: Any, tf: Any) -> None:
    """Calls of models by the user's code, with what `training` was; and of compiled functions, which are steps."""
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    _observe(keras.Model, "__call__", lambda self, *args, **kwargs: _note_call(keras, tf, self, args, kwargs))
    _observe(polymorphic_function.Function, "__call__", lambda *_args, **_kwargs: steps.take())


def _note_call(keras: Any, tf: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    values = tf.nest.flatten((args, kwargs))
    if any(isinstance(value, keras.KerasTensor) for value in values):
        return
    if tf.executing_eagerly():
        steps.take()
    loops.models[id(model)] = model
    if args and args[0] is loops.last_input and not loops.tapes:
        seen.tell_once("called_again", place=user_place())
    loops.last_input = args[0] if args else None
    training = kwargs.get("training", "not given")
    if training == "not given" and len(args) > 1:
        names = list(inspect.signature(model.call).parameters)
        if "training" in names and names.index("training") < len(args):
            training = args[names.index("training")]
    if loops.current is not None:
        loops.met.add((number_of(model), id(loops.current)))
    if loops.tapes and loops.current is not None:
        loops.trained_on[id(loops.current)] = loops.current
    elif loops.current is not None:
        loops.evaluated_on[id(loops.current)] = loops.current
    seen.tell_once(
        "call",
        place=user_place(),
        model=model.name,
        training=training if isinstance(training, bool | int | str) or training is None else "tensor",
        tape=loops.tapes > 0,
        random_layers=behaving_layers(model),
    )


def _install_tapes(tf: Any) -> None:
    kind = tf.GradientTape
    enter, leave, gradient = kind.__enter__, kind.__exit__, kind.gradient

    def __enter__(self: Any) -> Any:
        loops.tapes += 1
        return enter(self)

    def __exit__(self: Any, *args: Any) -> Any:
        loops.tapes -= 1
        return leave(self, *args)

    @functools.wraps(gradient)
    def wrapped(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        if not links.is_quiet() and called_directly():
            with contextlib.suppress(Exception):
                place = user_place()
                loops.taped |= {id(one): (one, place) for one in self.watched_variables() if id(one) not in loops.taped}
        result = gradient(self, target, sources, *args, **kwargs)
        if not links.is_quiet() and called_directly():
            loops.gradients += 1
            if tf.executing_eagerly():
                steps.take()
            with contextlib.suppress(Exception):
                _note_gradient(target, sources, result)
        return result

    kind.__enter__, kind.__exit__, kind.gradient = __enter__, __exit__, wrapped


def _note_gradient(target: Any, sources: Any, result: Any) -> None:
    if loops.current is not None:
        loops.trained_on[id(loops.current)] = loops.current
    flat_sources = list(sources) if isinstance(sources, list | tuple) else [sources]
    found = list(result) if isinstance(result, list | tuple) else [result]
    missing = [
        getattr(s, "path", getattr(s, "name", "?")) for s, g in zip(flat_sources, found, strict=False) if g is None
    ]
    first = target[0] if isinstance(target, list | tuple) and target else target
    if _is_half() and not loops.scaled:
        seen.tell_once("not_scaled", place=user_place())
    seen.tell_once(
        "gradient",
        place=user_place(),
        all=len(flat_sources),
        missing=missing,
        in_keras=bool(loops.in_keras),
        variables=all(hasattr(s, "assign") for s in flat_sources),
        shape=list(first.shape) if hasattr(first, "shape") else None,
    )


def _is_half() -> bool:
    import keras

    return str(keras.config.dtype_policy().name) == "mixed_float16"


def _note_scaled(*_args: Any, **_kwargs: Any) -> None:
    loops.scaled += 1


def _install_optimizers() -> None:
    import keras
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    for kind in (BaseOptimizer, keras.optimizers.LossScaleOptimizer):
        _observe(kind, "scale_loss", _note_scaled, in_keras=True)

    for name in ("apply_gradients", "apply"):
        original = getattr(BaseOptimizer, name)

        def make(original: Any) -> Any:
            @functools.wraps(original)
            def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
                if not links.is_quiet() and not loops.in_keras and original.__name__ == "apply":
                    given = args[1] if len(args) > 1 else kwargs.get("trainable_variables")
                    loops.updated |= {id(_plain(one)) for one in given or self.variables}
                if not links.is_quiet() and called_directly():
                    loops.applied += 1
                    loops.optimizers[id(self)] = self
                    seen.tell_once("applied", place=user_place(), optimizer=type(self).__name__)
                return original(self, *args, **kwargs)

            return apply

        setattr(BaseOptimizer, name, make(original))


def _plain(variable: Any) -> Any:
    """The variable of TensorFlow in one of Keras."""
    return getattr(variable, "_value", variable)


def owners() -> dict[int, tuple[Any, Any]]:
    """The weights of all layers that the user's code made, by the variable of TensorFlow."""
    return {id(_plain(weight)): (weight, layer) for layer in loops.layers for weight in layer.weights}


def _left_out() -> list[dict[str, Any]]:
    """Weights that took part in a loss and that nothing ever updates, with the place of the gradient."""
    known = owners()
    found: dict[str, dict[str, Any]] = {}
    for key, (_, place) in loops.taped.items():
        weight, layer = known.get(key, (None, None))
        is_known = weight is not None and weight.trainable and id(weight) not in loops.trained
        if is_known and key not in loops.updated and "_bushel_loaded" not in layer.__dict__:
            facts = {"place": place, "class": type(layer).__name__, "name": layer.name}
            facts["made_at"] = layer.__dict__.get("_bushel_place")
            found.setdefault(f"{facts}", facts)
    return list(found.values())


def _unused() -> list[Place]:
    """Where layers were made that were called on the way to an output, and are part of no model."""
    within = {id(inner) for layer in loops.layers for inner in layer._flatten_layers(include_self=False)}
    within |= {id(operation) for layer in loops.layers for operation in getattr(layer, "operations", ())}
    left = [
        layer for layer in loops.layers
        if id(layer) not in within and layer._inbound_nodes and not hasattr(layer, "layers")
        and type(layer).__name__ != "InputLayer"
    ]  # fmt: skip
    has_model = any(hasattr(layer, "layers") for layer in loops.layers)
    return [layer.__dict__["_bushel_place"] for layer in left if has_model]


def _install_assignments() -> None:
    """Weights that the user's code changes by hand."""
    import keras
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    for kind in (BaseResourceVariable, ResourceVariable, keras.Variable):
        for name in {"assign", "assign_add", "assign_sub"} & {*kind.__dict__}:
            _observe(kind, name, functools.partial(_note_assigned, name))


def _note_assigned(name: str, variable: Any, *_args: Any, **_kwargs: Any) -> None:
    place = user_place()
    _, done, _ = loops.assigned.setdefault(id(variable), (variable, set(), place))
    done.add(name)
    seen.tell_once("assigned", place=place)


def _install_losses(keras: Any, tf: Any) -> None:
    def note(self: Any, y_true: Any, y_pred: Any, *_args: Any, **_kwargs: Any) -> None:
        _note_loss(tf, describe_loss(self) or {}, y_true, y_pred)

    _observe(keras.losses.Loss, "__call__", note, in_keras=True)
    kinds = ("sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy", "mean_squared_error")
    for name in kinds:
        original = getattr(keras.losses, name)
        replace_everywhere(original, _observe(keras.losses, name, _loss_function(tf, name), in_keras=True))
    for name in ("sparse_softmax", "softmax", "sigmoid"):
        whole = f"{name}_cross_entropy_with_logits"
        _observe(tf.nn, whole, _loss_function(tf, whole, logits=True), in_keras=True)


def _install_softmax(tf: Any) -> None:
    """Softmax and argmax along an axis that has one value: the answer is always the same."""
    import keras

    original = tf.nn.softmax

    @functools.wraps(original)
    def softmax(logits: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        shape, along = getattr(logits, "shape", ()), -1 if axis is None else axis
        is_known = isinstance(along, int) and not links.is_quiet() and len(shape) > 1
        if is_known and shape[along] == 1 and not _is_within("multi_head_attention", "/layers/core/dense"):
            seen.tell_once("of_one", name="softmax", axis=along, place=user_place())
        return original(logits, axis, *args, **kwargs)

    tf.nn.softmax = softmax
    for owner in (np, tf, tf.math, keras.ops):
        name = f"{owner.__name__.split('.')[0]}.argmax"
        _observe(owner, "argmax", functools.partial(_note_argmax, name), in_keras=True)


SPREADING = ("sub", "squared_difference", "mul", "equal", "real_div")


def _install_arithmetic(tf: Any) -> None:
    """Arithmetic with one value per record that makes one for each pair of records."""
    from tensorflow.python.ops import gen_math_ops

    for name in SPREADING:
        setattr(gen_math_ops, name, _watched_pair(tf, getattr(gen_math_ops, name), name))


def _watched_pair(tf: Any, original: Any, name: str) -> Any:
    @functools.wraps(original)
    def compute(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        ranks = [len(one.shape) if getattr(one, "shape", None) is not None and one.shape.rank is not None else 0
                 for one in (x, y) if tf.is_tensor(one)]  # fmt: skip
        if sorted(ranks) == [1, 2] and not links.is_quiet():
            column, row = (x, y) if ranks[0] == 2 else (y, x)
            with contextlib.suppress(Exception):
                if column.shape[1] == 1 and column.shape[0] == row.shape[0] != 1 and not _is_pairing(column, row):
                    _note_spread(name, column, row)
        return original(x, y, *args, **kwargs)

    return compute


def _is_pairing(column: Any, row: Any) -> bool:
    """Whether a column was made of the row itself, to compare all records with each other."""
    if hasattr(column, "numpy"):
        return bool(np.array_equal(np.asarray(column)[:, 0], np.asarray(row)))
    return bool(column.op.inputs) and column.op.inputs[0] is row


def _note_spread(name: str, column: Any, row: Any) -> None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and any(part in frame.f_code.co_filename for part in _LIBRARY):
        frame = frame.f_back
    name_of_file = frame.f_code.co_filename if frame is not None else ""
    if is_user_file(name_of_file) or "__autograph_generated_file" in name_of_file:
        size = column.shape[0]
        seen.tell_once("spread", operation=name, size=size, place=user_place())


_LIBRARY = ("/tensorflow/python/", "/checking/running/", "/keras/src/ops/", "/keras/src/backend/")


def _note_argmax(name: str, values: Any, axis: Any = None, *_args: Any, **_kwargs: Any) -> None:
    if isinstance(axis, int) and len(values.shape) > 1 and values.shape[axis] == 1:
        seen.tell_once("of_one", name=name, axis=axis, place=user_place())


def _is_within(*names: str) -> bool:
    """Whether one of these modules is at work."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if any(name in frame.f_code.co_filename for name in names):
            return True
        frame = frame.f_back
    return False


def _loss_function(tf: Any, name: str, *, logits: bool = False) -> Callable[..., None]:
    """What notes a call of a function that is a loss."""

    def note(*args: Any, **kwargs: Any) -> None:
        pair = [kwargs.get("labels", kwargs.get("y_true")), kwargs.get("logits", kwargs.get("y_pred"))]
        pair[: len(args[:2])] = args[:2]
        from_logits = logits or bool(kwargs.get("from_logits", False))
        _note_loss(tf, {"name": name, "from_logits": from_logits, "place": None}, *pair)

    return note


def _note_loss(tf: Any, loss: dict[str, Any], y_true: Any, y_pred: Any) -> None:
    place = user_place()
    key = f"{place}"
    if key in loops.losses:
        return
    loops.losses[key] = True
    seen.tell(
        "loss",
        place=place,
        loss=loss,
        labels=_value_facts(tf, y_true),
        outputs=_value_facts(tf, y_pred),
        tape=loops.tapes > 0,
    )


def _value_facts(tf: Any, value: Any) -> dict[str, Any]:
    if hasattr(value, "numpy") and tf.executing_eagerly():
        array = np.asarray(value.numpy())
        facts = label_facts(array)
        return facts | sums_of(array)
    if isinstance(value, np.ndarray | list | int | float):
        return label_facts(np.asarray(value))
    facts = {"shape": value.shape.as_list() if value.shape.rank is not None else None, "dtype": value.dtype.name}
    return facts | {"operations": _operations(value)}


def _operations(tensor: Any) -> list[str]:
    """The operations that made a tensor of a graph, the last one first."""
    found, pending = [], [tensor.op]
    for operation in itertools.islice(iter(lambda: pending.pop() if pending else None, None), 4):
        found.append(operation.type)
        if operation.type in ("Identity", "Cast", "Squeeze", "Reshape") and operation.inputs:
            pending.append(operation.inputs[0].op)
    return found


def _install_metrics(keras: Any) -> None:
    kind = keras.metrics.Metric
    begin = kind.__init__

    @functools.wraps(begin)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if links.is_quiet() or loops.in_keras or user_place() is None:
            return
        facts: dict[str, Any] = {
            "class": type(self).__name__,
            "place": self.__dict__.get("_bushel_place"),
            "updates": 0,
            "resets": 0,
            "results": [],
        }
        loops.metrics.append(facts)
        for name in ("update_state", "reset_state", "result"):
            self.__dict__[name] = _counted(getattr(self, name), name, facts)

    kind.__init__ = __init__


def _counted(original: Any, name: str, facts: dict[str, Any]) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not links.is_quiet() and not loops.in_keras and called_directly():
            if name == "update_state":
                facts["updates"] += 1
                facts["on"] = facts.get("on", set()) | {id(loops.current)}
                if len(facts["on"]) > 1 and facts["on"] & set(loops.trained_on):
                    facts["mixed_at"] = user_place()
                if facts["updates"] == 1:
                    _note_metric(facts, args)
                facts["updated_at"] = user_place()
            elif name == "reset_state":
                facts["resets"] += 1
                facts["on"] = set()
            else:
                facts["results"].append([user_place(), max(loops.iterations.values(), default=0)])
        return original(*args, **kwargs)

    return call


def _note_metric(facts: dict[str, Any], args: tuple[Any, ...]) -> None:
    import tensorflow as tf

    with contextlib.suppress(Exception):
        if len(args) >= 2:
            facts["labels"], facts["outputs"] = _value_facts(tf, args[0]), _value_facts(tf, args[1])


def _install_distribution(tf: Any) -> None:
    original = tf.distribute.Strategy.experimental_distribute_dataset

    @functools.wraps(original)
    def distribute(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        if not links.is_quiet() and user_place() is not None:
            look_at_iterated(dataset)
        with links.quietly():
            return original(self, dataset, *args, **kwargs)

    tf.distribute.Strategy.experimental_distribute_dataset = distribute


MANY_OPTIMIZERS = 4  # made by one line; loops over folds and epochs end after two rounds


def tell_end() -> None:
    """Write down what custom loops did."""
    seen.tell("metrics", metrics=loops.metrics)
    links.tell_open_writers()
    with contextlib.suppress(Exception):
        for place in _unused():
            seen.tell("unused_layer", place=place)
    for variable, done, at in loops.assigned.values():
        if done == {"assign_add"} and loops.applied and variable.shape.rank:
            seen.tell("never_cleared", place=at)
    for (file, line), count in loops.made.items():
        if count > MANY_OPTIMIZERS and loops.applied:
            seen.tell("made_again", place=(file, line, ""), count=count)
    if not loops.models and not loops.gradients:
        return
    if loops.applied and not loops.fits:
        with contextlib.suppress(Exception):
            for facts in _left_out():
                seen.tell("left_out", **facts)
    train = _looks(loops.trained_on)
    held_out = [look for look in _looks(loops.evaluated_on) if look.dataset not in loops.trained_on.values()]
    for role, looks in (("train", train), ("val", held_out)):
        for look in looks:
            models = [number for number, dataset in loops.met if dataset == id(look.dataset)]
            trace(look, role, models[0] if models else None, None)
    seen.tell(
        "loops",
        gradients=loops.gradients,
        applied=loops.applied,
        fits=loops.fits,
        train=[look.facts for look in train],
        val=[look.facts for look in held_out],
        pairs=[
            [i, j, overlap(a, b)] for i, a in enumerate(train) for j, b in enumerate(held_out[:3]) if _is_of_one(a, b)
        ],
        models=[_described(model, train) for model in list(loops.models.values())[:4]],
    )


def _is_of_one(train: Look, held_out: Look) -> bool:
    """Whether one model was called on both."""
    models = [{number for number, dataset in loops.met if dataset == id(look.dataset)} for look in (train, held_out)]
    return bool(models[0] & models[1]) or not all(models)


def _looks(datasets: dict[int, Any]) -> list[Look]:
    found = []
    for dataset in datasets.values():
        with contextlib.suppress(Exception):
            found.append(look_at(dataset, "loop"))
    return found


def _described(model: Any, train: list[Look]) -> dict[str, Any]:
    facts = model_facts(model)
    with contextlib.suppress(Exception), links.quietly():
        x, _, _ = inputs_and_labels(train[0].batches[0])
        facts["outputs"] = outputs_of(model, x)
    return facts
