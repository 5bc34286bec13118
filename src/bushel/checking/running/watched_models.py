"""What a model is, what it gives for a real batch, and whether it can memorise that batch."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from typing import Any

import msgspec
import numpy as np

from bushel.checking.program import TriedOptimizer
from bushel.checking.running import links
from bushel.checking.running.batches import array_facts, inputs_and_labels
from bushel.checking.running.links import function_place
from bushel.checking.running.user_code import Place, is_user_file

MOST_LAYERS = 500
PROBE_STEPS = 60
PROBE_ROWS = 8
PROBE_SECONDS = 5.0
LARGE = 3_000_000  # weights; fewer steps above
DEEP = 60  # layers; no gradients without a graph above


def place_of(thing: Any) -> Place | None:
    """Where the user's code made something."""
    found: Place | None = getattr(thing, "__dict__", {}).get("_bushel_place")
    return found


def _layers(model: Any) -> list[Any]:
    found: list[Any] = []

    def walk(layer: Any) -> None:
        inner = getattr(layer, "layers", None) or getattr(layer, "_layers", [])
        if layer is not model:
            found.append(layer)
        for one in inner:
            if one is not layer and one not in found and len(found) < MOST_LAYERS:
                walk(one)

    walk(model)
    return found


def _operations(model: Any) -> list[Any]:
    """The layers of a model, and the plain operations between them: `x / 127.5 - 1` before a backbone."""
    found: list[Any] = []
    for one in getattr(model, "operations", None) or getattr(model, "layers", None) or getattr(model, "_layers", []):
        if one is not model and one not in found and len(found) < MOST_LAYERS:
            found += [one, *(_operations(one) if hasattr(one, "layers") or getattr(one, "_layers", None) else [])]
    return found


def _activation(layer: Any) -> str | None:
    function = getattr(layer, "activation", None)
    return getattr(function, "__name__", type(function).__name__) if function is not None else None


def _layer_facts(layer: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "class": type(layer).__name__,
        "name": layer.name,
        "place": place_of(layer),
        "frozen_at": getattr(layer, "__dict__", {}).get("_bushel_frozen"),
        "trainable": bool(getattr(layer, "trainable", True)),
        "weights": len(getattr(layer, "weights", [])),
        "activation": _activation(layer),
        "is_model": hasattr(layer, "layers"),
        "builtin": type(layer).__module__.startswith("keras"),
        "uncalled": not getattr(layer, "built", True),
    }
    for name in (
        "units",
        "filters",
        "rate",
        "scale",
        "offset",
        "input_dim",
        "output_dim",
        "mask_zero",
        "return_sequences",
        "stateful",
    ):
        value = getattr(layer, name, None)
        if isinstance(value, bool | int | float | np.number):
            facts[name] = value.item() if isinstance(value, np.number) else value
    if type(layer).__name__ == "Normalization":
        facts["adapted"] = bool(getattr(layer, "mean", None) is not None) and not _is_unadapted(layer)
    return facts


def _is_unadapted(layer: Any) -> bool:
    with contextlib.suppress(Exception):
        if getattr(layer, "input_mean", None) is not None:
            return False
        return bool(np.all(np.asarray(layer.adapt_mean) == 0) and np.all(np.asarray(layer.adapt_variance) == 1))
    return False


def describe_loss(loss: Any) -> dict[str, Any] | None:
    """A loss by name, and whether it takes logits."""
    if loss is None or isinstance(loss, dict | list | tuple):
        return None if loss is None else {"name": "several", "from_logits": None, "place": None}
    if isinstance(loss, str):
        return {"name": loss, "from_logits": False, "place": None}
    kwargs = getattr(loss, "_fn_kwargs", {}) or {}
    from_logits = getattr(loss, "from_logits", kwargs.get("from_logits", False))
    name = type(loss).__name__ if not hasattr(loss, "__name__") else loss.__name__
    function = getattr(loss, "fn", loss) if not isinstance(loss, type) else None
    return {
        "name": name,
        "function": function_place(function),
        "from_logits": bool(from_logits),
        "place": place_of(loss),
        "reduction": getattr(loss, "reduction", None),
        "ignores": getattr(loss, "ignore_class", None) or kwargs.get("ignore_class"),
    }


def _optimizer_facts(optimizer: Any, steps: int | None) -> dict[str, Any] | None:
    if optimizer is None:
        return None
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
    rate = getattr(optimizer, "_learning_rate", None)
    facts: dict[str, Any] = {"class": type(optimizer).__name__, "place": place_of(optimizer)}
    if callable(rate) and not hasattr(rate, "numpy"):
        with contextlib.suppress(Exception):
            facts["schedule"] = type(rate).__name__
            facts["schedule_place"] = place_of(rate)
            code = getattr(type(rate).__call__, "__code__", None)
            if code is not None and is_user_file(code.co_filename):
                facts["schedule_lines"] = [(code.co_filename, n, "") for n in _lines_of(code)]
            total = steps or 1000
            facts["rates"] = [float(rate(step)) for step in (0, total // 10, total // 2, max(total - 1, 0))]
            facts["schedule_steps"] = total
            facts["rate"] = facts["rates"][0]
    else:
        with contextlib.suppress(Exception):
            facts["rate"] = float(np.asarray(rate))
    with contextlib.suppress(Exception):
        facts["iterations"] = int(np.asarray(optimizer.iterations))
    return facts


def _lines_of(code: Any) -> list[int]:
    """The lines of a function that divide: where a schedule goes wrong."""
    import linecache

    lines = sorted({line for _, _, line in code.co_lines() if line is not None})
    return [line for line in lines if "//" in linecache.getline(code.co_filename, line)][:2]


def behaving_layers(model: Any) -> list[str]:
    """Layers that do something else in training than afterwards."""
    kinds = ("Dropout", "BatchNormalization", "SpatialDropout", "GaussianNoise", "Random", "AlphaDropout")
    found = [type(layer).__name__ for layer in _layers(model) if type(layer).__name__.startswith(kinds)]
    return sorted(set(found))


_numbered = itertools.count(1)


def number_of(model: Any) -> int:
    """A number by which a model is known from one use to the next."""
    return int(model.__dict__.setdefault("_bushel_number", next(_numbered)))


def model_facts(model: Any, *, steps: int | None = None) -> dict[str, Any]:
    """What rules read of a model."""
    layers = _layers(model)
    metrics = getattr(model, "_bushel_metrics", None)
    return {
        "name": model.name,
        "number": number_of(model),
        "class": type(model).__name__,
        "place": place_of(model),
        "frozen_at": model.__dict__.get("_bushel_frozen"),
        "compiled_at": model.__dict__.get("_bushel_compiled"),
        "layers": [_layer_facts(layer) for layer in _operations(model)],
        "trainable": len(model.trainable_weights),
        "weights": len(model.weights),
        "trainable_parameters": int(sum(int(np.prod(w.shape)) for w in model.trainable_weights)),
        "loss": describe_loss(getattr(model, "loss", None)),
        "optimizer": _optimizer_facts(getattr(model, "optimizer", None), steps),
        "metrics": metrics,
        "custom_step": _is_custom(model, "train_step"),
        "input_shape": _shape(model, "input_shape"),
        "output_shape": _shape(model, "output_shape"),
        "last": _last_layer(model, layers),
    }


def _is_custom(model: Any, name: str) -> bool:
    import keras

    return getattr(type(model), name, None) is not getattr(keras.Model, name, None)


def _shape(model: Any, name: str) -> Any:
    with contextlib.suppress(Exception):
        return getattr(model, name)
    return None


def _last_layer(model: Any, layers: list[Any]) -> dict[str, Any] | None:
    """The layer that gives a model's only output."""
    with contextlib.suppress(Exception):
        outputs = model.outputs
        if len(outputs) == 1:
            last = outputs[0]._keras_history.operation
            while hasattr(last, "outputs") and hasattr(last, "layers") and len(last.outputs) == 1:
                last = last.outputs[0]._keras_history.operation
            return _layer_facts(last) if hasattr(last, "weights") else {"class": type(last).__name__, "place": None}
    weighted = [layer for layer in layers if getattr(layer, "weights", None) and not hasattr(layer, "layers")]
    return _layer_facts(weighted[-1]) | {"guessed": True} if weighted else None


def _rows(value: Any, count: int) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(lambda part: part[:count] if part.shape.rank else part, value)


def _among_copies(value: Any, count: int) -> Any:
    """The first rows of a batch, with copies of the first one in place of the others."""
    import tensorflow as tf

    def change(part: Any) -> Any:
        return tf.concat([part[:count], tf.repeat(part[:1], part.shape[0] - count, axis=0)], axis=0)

    return tf.nest.map_structure(lambda part: change(part) if part.shape.rank else part, value)


def outputs_of(model: Any, x: Any) -> dict[str, Any]:
    """What a model gives for one batch, twice."""
    import tensorflow as tf

    first, second = model(x, training=False), model(x, training=False)
    parts = tf.nest.flatten(first)
    if len(parts) != 1:
        return {"several": len(parts), "shapes": [list(p.shape) for p in parts]}
    array, again = np.asarray(parts[0]), np.asarray(tf.nest.flatten(second)[0])
    facts = array_facts(array)
    facts["repeats"] = bool(np.allclose(array, again, atol=1e-4, equal_nan=True))
    half = len(array) // 2 if array.ndim else 0
    if half and facts["repeats"] and not facts.get("nan"):
        with contextlib.suppress(Exception):
            among_others = np.asarray(tf.nest.flatten(model(_among_copies(x, half), training=False))[0])[:half]
            facts["mixes"] = not np.allclose(among_others, array[:half], rtol=1e-4, atol=0.02 * float(np.ptp(array)))
    return facts | sums_of(array)


def sums_of(array: Any) -> dict[str, Any]:
    """Whether outputs sum to 1, as probabilities do; and the axis along which they do, if it is not the last."""
    if array.ndim < 2 or array.dtype.kind != "f":
        return {}
    whole = array.astype(np.float64)
    along = [axis for axis in range(array.ndim) if np.allclose(whole.sum(axis=axis), 1, atol=1e-3)]
    is_last = array.ndim - 1 in along
    other = along[0] if along and not is_last and array.shape[-1] > 1 and whole.min() >= 0 else None
    return {"sums_to_one": is_last, "sums_along": other}


def probe(model: Any, batch: Any, dataset: Any, owned: set[int]) -> dict[str, Any]:
    """Gradients, and steps on one small batch, on weights that are put back afterwards.

    `owned` are the ids of variables that belong to a layer, of this model or of another one.
    """
    import tensorflow as tf

    x, y, weights = inputs_and_labels(_rows(batch, PROBE_ROWS))
    is_deep = len(_layers(model)) > DEEP
    facts: dict[str, Any] = {}
    with links.quietly():
        begun = time.process_time()
        facts["outputs"] = outputs_of(model, x)
        if time.process_time() - begun > PROBE_SECONDS:
            return facts
        if not getattr(model, "compiled", False) or y is None:
            return facts
        if not _is_custom(model, "train_step") and not is_deep:
            facts["gradients"] = _gradients(tf, model, (x, y, weights), owned)
        if time.process_time() - begun > PROBE_SECONDS * 1.5:
            return facts
        with contextlib.suppress(Exception):
            facts["judged"] = _judged(tf, model.loss, y, facts["outputs"])
        steps = PROBE_STEPS if model.count_params() < LARGE else PROBE_STEPS // 6
        with _weights_kept(model):
            before = [np.array(w) for w in model.trainable_weights]
            facts["losses"] = _train(model, _one_batch(tf, dataset), steps)
            facts["unmoved"] = [
                w.path
                for w, old in zip(model.trainable_weights, before, strict=True)
                if np.array_equal(np.asarray(w), old)
            ]
        if not _is_custom(model, "train_step") and not is_deep:
            if _does_not_fall(facts["losses"]):
                facts["losses_with_adam"] = _learned_with_adam(tf, model, [(x, y, weights)], steps)
            if model.count_params() < LARGE:
                facts["tried"] = msgspec.to_builtins(_try_optimizer(tf, model, dataset))
    return facts


TRIED_BATCHES = 6
TRIED_STEPS = 180
TRIED_SECONDS = 1.0
LEARNED = 0.97  # of the loss that is left after it


def _try_optimizer(tf: Any, model: Any, dataset: Any) -> TriedOptimizer | None:
    """Some hundred steps on real batches with the optimizer of the script; if it learns nothing, also with Adam."""
    kept = dataset.take(TRIED_BATCHES).cache()
    batches = [inputs_and_labels(batch) for batch in links.original_iter(kept)]
    with _weights_kept(model):
        own = _train(model, kept.repeat(), TRIED_STEPS, TRIED_SECONDS)
    begin, end = _ends(own, len(batches))
    if len(own) < 4 * len(batches) or end < LEARNED * begin:
        return None
    adam = _learned_with_adam(tf, model, batches, len(own))
    return TriedOptimizer(
        steps=len(own), begin=begin, end=end, end_with_adam=_ends(adam, len(batches))[1], rate_with_adam=1e-3
    )


def _ends(losses: list[float], count: int) -> tuple[float, float]:
    """The mean loss of the first pass over some batches, and of the last one."""
    return float(np.mean(losses[:count])), float(np.mean(losses[-count:]))


def _learned_with_adam(tf: Any, model: Any, batches: list[Any], steps: int) -> list[float]:
    """The losses with Adam; small inputs need the larger of two rates."""
    losses: list[float] = []
    for rate in (1e-3, 1e-2):
        with _weights_kept(model):
            losses = _train_with_adam(tf, model, batches, steps, rate)
        if not _does_not_fall(losses):
            break
    return losses


def _judged(tf: Any, loss: Any, y: Any, outputs: dict[str, Any]) -> list[float] | None:
    """What a loss of the user's own says of right answers, and of wrong ones."""
    function = getattr(loss, "fn", loss)
    code = getattr(function, "__code__", None) or getattr(getattr(type(loss), "call", None), "__code__", None)
    labels, shape = np.asarray(y), outputs.get("shape") or []
    if code is None or not is_user_file(code.co_filename) or labels.dtype.kind not in "fiub" or "min" not in outputs:
        return None
    is_index = labels.ndim < len(shape) and shape[-1] > 1 and labels.dtype.kind in "iu"
    if is_index:
        right, wrong = (np.eye(shape[-1])[(labels.reshape(shape[:-1]) + k) % shape[-1]] for k in (0, 1))
    elif labels.size == math.prod(shape) and np.isin(labels, (0, 1)).all():
        right, wrong = labels.reshape(shape), 1 - labels.reshape(shape)
    else:
        return None
    is_probability = outputs["min"] >= 0 and outputs["max"] <= 1
    answers = [one * 0.998 + 0.001 if is_probability else one * 20.0 - 10.0 for one in (right, wrong)]
    return [float(np.mean(np.asarray(loss(y, tf.constant(one, tf.float32))))) for one in answers]


def _does_not_fall(losses: list[float]) -> bool:
    return len(losses) >= 5 and not min(losses[-5:]) < losses[0] * 0.98


class _weights_kept:  # noqa: N801
    def __init__(self, model: Any) -> None:
        optimizer = model.optimizer
        self.variables = [*model.weights, *(optimizer.variables if optimizer is not None else [])]

    def __enter__(self) -> None:
        self.values = [np.array(v) for v in self.variables]

    def __exit__(self, *_: object) -> None:
        for variable, value in zip(self.variables, self.values, strict=True):
            with contextlib.suppress(Exception):
                variable.assign(value)


def _one_batch(tf: Any, dataset: Any) -> Any:
    """The first batch again and again, cut to a few rows, of the type for which the model was traced already."""
    one = dataset.take(1)
    specs = tf.nest.flatten(dataset.element_spec)
    if all(isinstance(spec, tf.TensorSpec) and spec.shape.rank and spec.shape[0] is None for spec in specs):
        one = one.map(lambda *parts: tf.nest.map_structure(lambda part: part[:PROBE_ROWS], _only(parts)))
    return one.cache().repeat()


def _only(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else parts


def _train(model: Any, batches: Any, steps: int, seconds: float = PROBE_SECONDS) -> list[float]:
    losses: list[float] = []
    begun = time.process_time()
    iterator = links.original_iter(batches)
    model.make_train_function()
    for _ in range(steps):
        model.reset_metrics()
        logs = model.train_function(iterator)
        value = logs.get("loss", next(iter(logs.values()), math.nan))
        losses.append(float(np.asarray(value).reshape(-1)[0]))
        if not math.isfinite(losses[-1]) or time.process_time() - begun > seconds:
            break
    return losses


def _gradients(tf: Any, model: Any, batch: tuple[Any, Any, Any], owned: set[int]) -> dict[str, Any]:
    x, y, weights = batch
    with tf.GradientTape() as tape:
        predicted = model(x, training=True)
        loss = model.compute_loss(x=x, y=y, y_pred=predicted, sample_weight=weights, training=True)
    variables = model.trainable_weights
    values = [getattr(weight, "_value", weight) for weight in model.weights]
    copies = [copy for value in values for copy in getattr(value, "values", ())]  # one on each device of a strategy
    known = owned | {id(value) for value in (*values, *copies)}
    strangers = [list(one.shape) for one in tape.watched_variables() if id(one) not in known]
    found = tape.gradient(loss, [v.value for v in variables])
    missing, zero = [], []
    largest = 0.0
    for variable, gradient in zip(variables, found, strict=True):
        if gradient is None:
            missing.append(variable.path)
            continue
        size = float(tf.reduce_max(tf.abs(tf.convert_to_tensor(gradient)))) if np.prod(variable.shape) else 0.0
        largest = max(largest, size) if math.isfinite(size) else math.inf
        if size == 0.0:
            zero.append(variable.path)
    value = float(np.asarray(loss).reshape(-1)[0])
    found = {"loss": value, "missing": missing, "zero": zero, "all": len(variables), "largest": largest}
    return found | {"strangers": strangers}


def _train_with_adam(tf: Any, model: Any, batches: list[Any], steps: int, rate: float) -> list[float]:
    """The same steps with an optimizer that suits nearly everything."""
    import keras

    optimizer = keras.optimizers.Adam(rate)
    variables = model.trainable_weights

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def step(x: Any, y: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            predicted = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=predicted, sample_weight=weights, training=True)
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    optimizer.build(variables)
    losses: list[float] = []
    begun = time.process_time()
    for number in range(steps):
        losses.append(float(np.asarray(step(*batches[number % len(batches)])).reshape(-1)[0]))
        if not math.isfinite(losses[-1]) or time.process_time() - begun > PROBE_SECONDS:
            break
    return losses
