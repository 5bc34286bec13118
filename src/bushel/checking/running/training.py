"""`fit`, `evaluate` and `predict` under observation: cut short, looked at, and written down."""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bushel.checking.running import links, watched_steps
from bushel.checking.running.batches import Look, array_facts, label_facts, overlap
from bushel.checking.running.carriers import Carried, carry, deliver
from bushel.checking.running.failures import tell_failure
from bushel.checking.running.tracing import trace
from bushel.checking.running.user_code import seen, steps, user_place
from bushel.checking.running.watched_models import model_facts, number_of, probe
from bushel.checking.running.watched_steps import loops

FIT_BATCHES = 8
EVALUATE_BATCHES = 8
PREDICT_SECONDS = 8.0
MOST_PROBES = 2
MANY_LAYERS = 60


def install() -> None:
    """Patch Keras, tapes and optimizers."""
    import keras
    import tensorflow as tf
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
    from keras.src.trainers.trainer import Trainer

    tf.get_logger().setLevel("ERROR")
    _install_places(keras)
    _install_compile(Trainer)
    _wrap(TensorFlowTrainer, "fit", _fit)
    _wrap(TensorFlowTrainer, "evaluate", _evaluate)
    _wrap(TensorFlowTrainer, "predict", _predict)
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
        _wrap(TensorFlowTrainer, name, _on_batch)
    watched_steps.install()


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if links.is_quiet() or loops.in_keras or user_place() is None:
            return original(self, *args, **kwargs)
        try:
            given = dict(signature.bind(self, *args, **kwargs).arguments)
        except TypeError:
            return original(self, *args, **kwargs)
        for extra in ("kwargs", "self"):
            given.update(given.pop(extra) if extra == "kwargs" and extra in given else {})
        given.pop("self", None)
        loops.in_keras += 1
        try:
            return around(functools.partial(original, self), self, given)
        finally:
            loops.in_keras -= 1
            steps.ended += around in (_fit, _evaluate)

    setattr(owner, name, wrapped)


def _install_places(keras: Any) -> None:
    """Layers, losses, optimizers, schedules, callbacks and metrics know the line that made them."""
    kinds = (
        keras.layers.Layer,
        keras.losses.Loss,
        keras.optimizers.Optimizer,
        keras.optimizers.schedules.LearningRateSchedule,
        keras.callbacks.Callback,
        keras.metrics.Metric,
    )
    for kind in kinds:
        _remember_place(kind)
    _remember_freezing(keras.layers.Layer)


def _remember_freezing(kind: Any) -> None:
    known = kind.trainable

    def freeze(self: Any, value: Any) -> None:
        if not links.is_quiet() and not loops.in_keras:
            loops.changed_at = user_place()
            self.__dict__["_bushel_frozen"] = None if value else loops.changed_at
        known.fset(self, value)

    kind.trainable = property(known.fget, freeze)


def _remember_place(kind: Any) -> None:
    make = kind.__new__

    @functools.wraps(make)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = make(cls) if make is object.__new__ else make(cls, *args, **kwargs)
        place = user_place()
        if place is not None and hasattr(made, "__dict__"):
            made.__dict__["_bushel_place"] = place
            if kind.__name__ == "Layer" and not links.is_quiet():
                loops.layers.append(made)
            if kind.__name__ == "Optimizer" and not loops.in_keras and not links.is_quiet():
                loops.made[place[:2]] = loops.made.get(place[:2], 0) + 1
        return made

    kind.__new__ = __new__


def _install_compile(trainer: Any) -> None:
    original = trainer.compile
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        del given["self"]
        # Compiling for a run of a few batches takes longer than the run.
        given |= {"jit_compile": False}
        given.pop("steps_per_execution", None)
        result = original(self, **given)
        self.__dict__["_bushel_compiled"] = place = user_place()
        loops.compiled.append((number_of(self), place, loops.fits))
        self.__dict__.pop("_bushel_trainable", None)
        metrics = given.get("metrics")
        self.__dict__["_bushel_metrics"] = (
            [_metric_name(m) for m in metrics] if isinstance(metrics, list | tuple) else None
        )
        return result

    trainer.compile = compiled


def _metric_name(metric: Any) -> str:
    if isinstance(metric, str):
        return metric
    name = str(getattr(metric, "__name__", type(metric).__name__))
    if getattr(metric, "_from_logits", False) or _threshold(metric) != USUAL_THRESHOLD:
        return f"{name} of logits"
    return f"{name} of rows" if getattr(metric, "sparse_y_pred", True) is False else name


USUAL_THRESHOLD = 0.5


def _threshold(metric: Any) -> float:
    """Where a metric cuts probabilities; of one that cuts at many places, the usual."""
    given = getattr(metric, "threshold", getattr(metric, "thresholds", USUAL_THRESHOLD))
    values = list(given) if isinstance(given, list | tuple) else [given]
    return float(values[0]) if len(values) == 1 and isinstance(values[0], int | float) else USUAL_THRESHOLD


def _fit(run: Callable[..., Any], model: Any, given: dict[str, Any]) -> Any:

    place = user_place()
    loops.fits += 1
    seen.tell("stage", doing="fit", place=place)
    x, y, batch_size = given.get("x"), given.get("y"), given.get("batch_size")
    carried = carry(x, y, batch_size, "train")
    train = carried.look if carried is not None else None
    validation = given.get("validation_data")
    val_x, val_y = (validation, None)
    if isinstance(validation, tuple | list):
        val_x, val_y = validation[0], validation[1] if len(validation) > 1 else None
    held_out = carry(val_x, val_y, given.get("validation_batch_size") or batch_size, "val")
    val = held_out.look if held_out is not None else None
    facts = {
        "place": place,
        "compiled": _compiled_again(model),
        "unfrozen": _is_unfrozen(model),
        "changed_at": loops.changed_at,
        "arguments": _fit_arguments(given),
        "train": train.facts if train else None,
        "val": val.facts if val else None,
        "same": val is not None and val is train,
        "overlap": overlap(train, val) if train and val and train is not val else None,
        "before": _trained_before(model, val) if val is not train else None,
        "split": _split_facts(given),
        "delivery": deliver(carried, "train", place) if carried is not None else None,
    }
    total = _total_steps(given, train)
    trace(train, "train", number_of(model), place)
    trace(val, "val", number_of(model), place)
    if train is not None and train.facts["batches"] == 0:
        seen.tell("fit", **facts, model=model_facts(model, steps=total), failed="no batches", probe=None)
        raise SystemExit(0)
    capped = _cut_short(given, carried, held_out)
    try:
        history = run(**capped)
    except Exception as error:
        seen.tell("fit", **facts, model=model_facts(model, steps=total), failed=f"{type(error).__name__}", probe=None)
        tell_failure(error, doing="fit", place=place)
        raise
    described = model_facts(model, steps=total)
    _note_trained(model)
    kept = _history(model)
    kept["train"] |= set(train.digests) if train is not None else set()
    kept["val"] |= set(val.digests) if val is not None else set()
    probed = None
    if train is not None and train.batches and _is_to_be_probed(described):
        seen.tell("stage", doing="probe", place=place)
        try:
            probed = probe(model, train.batches[0], train.dataset, set(watched_steps.owners()))
        except Exception as error:
            probed = {"problem": f"{type(error).__name__}: {error}"[:500]}
    logs = {name: [float(v) for v in values if np.ndim(v) == 0] for name, values in history.history.items()}
    seen.tell("fit", **facts, model=described, failed=None, probe=probed, logs=logs)
    return history


def _cut_short(given: dict[str, Any], carried: Carried | None, held_out: Carried | None) -> dict[str, Any]:
    """The arguments of `fit` for one epoch of a few batches."""
    import tensorflow as tf

    x, y, batch_size = given.get("x"), given.get("y"), given.get("batch_size")
    begun, validation = given.get("initial_epoch") or 0, given.get("validation_data")
    capped = given | {"epochs": begun + 1, "verbose": 0, "initial_epoch": begun}
    capped["callbacks"] = [c for c in _listed(given.get("callbacks")) if type(c).__name__ != "TensorBoard"] or None
    if isinstance(x, tf.data.Dataset):
        with links.quietly():
            capped["x"] = x.take(FIT_BATCHES)
        capped["steps_per_epoch"] = None
    elif carried is not None and carried.carrier in ("PyDataset", "generator"):
        capped |= carried.fewer | {"steps_per_epoch": min(given.get("steps_per_epoch") or FIT_BATCHES, FIT_BATCHES)}
    elif carried is not None and not given.get("validation_split"):
        capped |= _fewer_rows(tf, x, y, FIT_BATCHES * (batch_size or 32), given)
    if isinstance(validation, tf.data.Dataset):
        with links.quietly():
            capped["validation_data"] = validation.take(FIT_BATCHES)
        capped["validation_steps"] = None
    elif held_out is not None and held_out.carrier in ("PyDataset", "generator"):
        capped["validation_data"] = held_out.fewer.get("x", validation)
        capped["validation_steps"] = min(given.get("validation_steps") or FIT_BATCHES, FIT_BATCHES)
    return capped


def _is_unfrozen(model: Any) -> list[int] | None:
    """How many weights were trainable when the model was last trained and are now, if nobody compiled it since."""
    before = model.__dict__.get("_bushel_trainable")
    now = len(model.trainable_weights)
    return [before, now] if before is not None and before != now else None


def _compiled_again(model: Any) -> bool:
    """Whether the same line compiles this model before each `fit`."""
    own = [(place, fits) for number, place, fits in loops.compiled if number == number_of(model)]
    is_trained = bool(_history(model)["train"])  # and not set back to other weights
    return is_trained and len(own) > 1 and own[-1][0] == own[-2][0] and own[-1][1] > own[-2][1]


def _note_trained(model: Any) -> None:
    model.__dict__["_bushel_trainable"] = len(model.trainable_weights)
    loops.trained |= {id(weight) for weight in model.weights}
    loops.kept.append(list(model.weights))


def _history(model: Any) -> dict[str, set[bytes]]:
    """The records that a model was trained and validated on since its weights were made or loaded."""
    known: dict[str, set[bytes]] = model.__dict__.setdefault("_bushel_history", {"train": set(), "val": set()})
    return known


def _trained_before(model: Any, look: Look | None) -> list[int] | None:
    """How many of the records in a dataset earlier calls of `fit` have trained on, and how many there are."""
    before = _history(model)["train"]
    return [sum(one in before for one in look.digests), len(look.digests)] if look is not None and before else None


def _is_untrained(model: Any) -> bool:
    """Whether another model was trained, and this one neither trained nor loaded."""
    if not loops.trained or any("_bushel_loaded" in layer.__dict__ for layer in model._flatten_layers()):
        return False
    return bool(model.weights) and not any(id(weight) in loops.trained for weight in model.weights)


def _is_to_be_probed(model: dict[str, Any]) -> bool:
    """The first models of a script; of large ones the first alone."""
    loops.probes += 1
    return loops.probes <= MOST_PROBES and (loops.probes == 1 or len(model["layers"]) <= MANY_LAYERS)


def _listed(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]


def _fewer_rows(tf: Any, x: Any, y: Any, count: int, given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        found["x"] = tf.nest.map_structure(lambda part: part[:count], x)
        if y is not None:
            found["y"] = tf.nest.map_structure(lambda part: part[:count], y)
        if given.get("sample_weight") is not None:
            found["sample_weight"] = given["sample_weight"][:count]
        if given.get("steps_per_epoch"):
            found["steps_per_epoch"] = min(given["steps_per_epoch"], FIT_BATCHES)
        return found
    return {}


def _total_steps(given: dict[str, Any], train: Look | None) -> int | None:
    per_epoch = given.get("steps_per_epoch")
    if per_epoch is None and train is not None and train.facts.get("complete"):
        per_epoch = train.facts["batches"]
    return int(per_epoch) * int(given.get("epochs") or 1) if per_epoch else None


def _fit_arguments(given: dict[str, Any]) -> dict[str, Any]:
    weights = given.get("class_weight")
    return {
        "epochs": _number(given.get("epochs", 1)),
        "steps_per_epoch": _number(given.get("steps_per_epoch")),
        "validation_steps": _number(given.get("validation_steps")),
        "batch_size": _number(given.get("batch_size")),
        "initial_epoch": _number(given.get("initial_epoch")),
        "validation_split": _number(given.get("validation_split")),
        "shuffle": given.get("shuffle", True) if isinstance(given.get("shuffle", True), bool) else None,
        "has_validation": given.get("validation_data") is not None,
        "class_weight": {str(k): float(v) for k, v in weights.items()} if isinstance(weights, dict) else None,
        "class_weight_keys": sorted({type(k).__name__ for k in weights}) if isinstance(weights, dict) else None,
        "callbacks": [_callback_facts(c, given) for c in _listed(given.get("callbacks"))],
    }


def _number(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    with contextlib.suppress(Exception):
        return float(np.asarray(value))
    return None


def _callback_facts(callback: Any, given: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"class": type(callback).__name__, "place": callback.__dict__.get("_bushel_place")}
    for name in ("monitor", "mode", "patience", "min_delta", "factor", "save_best_only", "restore_best_weights"):
        value = getattr(callback, name, None)
        if isinstance(value, str | int | float | bool):
            facts[name] = value
    monitor = getattr(callback, "monitor_op", None)
    if monitor is not None:
        facts["wants"] = {"less": "min", "greater": "max"}.get(getattr(monitor, "__name__", ""))
    if facts["class"] == "LearningRateScheduler":
        with contextlib.suppress(Exception):
            facts["function"] = links.function_place(callback.schedule)
            facts["rates"] = _scheduled(callback.schedule, int(given.get("epochs") or 1))
    return facts


def _scheduled(schedule: Any, epochs: int) -> list[float]:
    rate, rates = 1e-3, []
    for epoch in range(min(epochs, 100)):
        try:
            rate = float(schedule(epoch, rate))
        except TypeError:
            rate = float(schedule(epoch))
        rates.append(rate)
    return rates


def _split_facts(given: dict[str, Any]) -> dict[str, Any] | None:
    """The labels on both sides of `validation_split`, which takes the last rows."""
    share, y = given.get("validation_split"), given.get("y")
    if not share or y is None:
        return None
    with contextlib.suppress(Exception):
        array = np.asarray(y)
        if array.ndim == 2 and array.shape[1] > 1:
            array = array.argmax(axis=1)
        cut = int(len(array) * (1 - share))
        if array.dtype.kind in "iu" or np.all(array == np.round(array)):
            return {"train": label_facts(array[:cut].reshape(-1)), "val": label_facts(array[cut:].reshape(-1))}
    return None


def _evaluate(run: Callable[..., Any], model: Any, given: dict[str, Any]) -> Any:
    import tensorflow as tf

    place, x = user_place(), given.get("x")
    seen.tell("stage", doing="evaluate", place=place)
    carried = carry(x, given.get("y"), given.get("batch_size"), "evaluate")
    look = carried.look if carried is not None else None
    if carried is not None and carried.carrier in ("PyDataset", "generator"):
        steps_asked = given.get("steps")
        given |= carried.fewer | {"steps": min(steps_asked or EVALUATE_BATCHES, EVALUATE_BATCHES)}
    elif isinstance(x, tf.data.Dataset):
        with links.quietly():
            given["x"] = x.take(EVALUATE_BATCHES)
        steps_asked = given.pop("steps", None)
    else:
        steps_asked = given.get("steps")
    given["verbose"] = 0
    trace(look, "evaluate", number_of(model), place)
    seen.tell(
        "evaluate",
        place=place,
        model=number_of(model),
        data=look.facts if look else None,
        steps=_number(steps_asked),
        untrained=_is_untrained(model),
        before=_trained_before(model, look) if look and set(look.digests) & _history(model)["val"] else None,
    )
    try:
        return run(**given)
    except Exception as error:
        tell_failure(error, doing="evaluate", place=place)
        raise


def _predict(run: Callable[..., Any], model: Any, given: dict[str, Any]) -> Any:
    import tensorflow as tf

    place, x = user_place(), given.get("x")
    seen.tell("stage", doing="predict", place=place)
    carried = carry(x, None, given.get("batch_size"), "predict")
    look = carried.look if carried is not None else None
    given |= carried.fewer if carried is not None else {}
    given["verbose"] = 0
    trace(look, "predict", number_of(model), place)
    seen.tell(
        "predict",
        place=place,
        model=number_of(model),
        data=look.facts if look else None,
        steps=_number(given.get("steps")),
        untrained=_is_untrained(model),
    )
    try:
        if isinstance(x, tf.data.Dataset) and look is not None and look.batches:
            given = given | _predicted_rows(run, x, look, given)
        return run(**given)
    except Exception as error:
        tell_failure(error, doing="predict", place=place)
        raise


def _predicted_rows(run: Callable[..., Any], x: Any, look: Look, given: dict[str, Any]) -> dict[str, Any]:
    """Everything, unless that takes too long: what comes back may be compared with all labels."""
    begun = time.process_time()
    with links.quietly():
        run(**given | {"x": x.take(1), "steps": None})
        run(**given | {"x": x.take(1), "steps": None}) if time.process_time() - begun < 1 else None
        spent = (time.process_time() - begun) / 2
        count = given.get("steps") or (look.facts["batches"] if look.facts["complete"] else 10**6)
        if spent * count < PREDICT_SECONDS and not look.facts["infinite"]:
            return {}
        seen.tell("note", text="predict was cut short: it takes too long on all of the data")
        seen.tell("cut", place=user_place())
        return {"x": x.take(4), "steps": None}


def _on_batch(run: Callable[..., Any], model: Any, given: dict[str, Any]) -> Any:
    steps.take()
    place = user_place()
    loops.models[id(model)] = model
    x, y = given.get("x"), given.get("y")
    with contextlib.suppress(Exception):
        name = getattr(run.func, "__name__", "")  # type: ignore[attr-defined]
        if name == "train_on_batch":
            loops.applied += 1
            loops.gradients += 1
            if loops.current is not None:
                loops.trained_on[id(loops.current)] = loops.current
                loops.met.add((number_of(model), id(loops.current)))
        if place is not None:
            key = f"batch:{place}"
            if key not in loops.losses:
                loops.losses[key] = True
                seen.tell(
                    "on_batch",
                    name=name,
                    place=place,
                    inputs=array_facts(np.asarray(x)) if not isinstance(x, dict | list | tuple) else None,
                    labels=label_facts(np.asarray(y)) if y is not None and not isinstance(y, dict | list) else None,
                    trainable=len(model.trainable_weights) if model.weights else None,
                    frozen_at=model.__dict__.get("_bushel_frozen"),
                )
    try:
        result = run(**given)
    except Exception as error:
        tell_failure(error, doing="fit", place=place)
        raise
    return result
