"""PIP031, PIP039, PIP045, PIP053 to PIP058 and PIP075: how a model is trained, by `fit` or by a custom loop."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator

from bushel.checking.findings import Finding, Severity, rule
from bushel.checking.rules.keras_expectations import better_direction
from bushel.checking.script.followed_script import At, Event, Script, Trace, at, placed, with_keyword
from bushel.checking.script.known_values import (
    Const,
    Instance,
    KerasObject,
    KnownValue,
    Mapping,
    Model,
    Seq,
    Tensor,
    flat_layers,
    layers_of,
)
from bushel.checking.script_rules.amount_rules import batches_of
from bushel.errors import nearest

_GIVEN = {*dir(builtins), "__file__", "__name__", "__doc__", "__spec__", "__path__", "__builtins__", "__package__"}
_GIVEN |= {"display", "get_ipython", "In", "Out", "_", "__class__", "__annotations__"}  # the last ones of notebooks
_EVALUATES = re.compile(r"eval|valid|(^|_)val(_|$)|test|predict|infer")
_BEHAVING = ("Dropout", "BatchNormalization", "SpatialDropout", "GaussianNoise", "AlphaDropout")
_WEIGHTED = ("Dense", "Conv2D", "Conv1D", "Conv2DTranspose", "LSTM", "GRU", "Embedding")
_APPLIES = ("apply_gradients", "apply", "minimize", "assign", "assign_sub", "assign_add", "update_step")


@rule("PIP031", "undefined-name", needs="script")
def undefined_name(trace: Trace) -> Iterator[Finding]:
    """A name that nothing defines.

    Why: `NameError: name 'BATCH' is not defined`, perhaps after an hour, when the line is reached.
    Example: `features["x"]` in a function whose parameter is called `feature`
    Fix: the nearest name is given.
    Ignore: where the name comes from a notebook's own magic.
    """
    for script in trace.scripts:
        known, used = _names(script)
        meant = {name: nearest(name, known) for name in used}
        is_part = _is_part(script) or sum(close is None for close in meant.values()) > 1
        for name, nodes in used.items():
            close = meant[name]
            stated = f"{name!r} is not defined anywhere" + (f"; did you mean {close!r}?" if close else "")
            severity: Severity | None = "info" if is_part and close is None else None
            yield at(At(nodes[0], script), stated, help="define it before it is used", severity=severity)


def _is_part(script: Script) -> bool:
    """Whether a script is a part of one, as people show it: with bodies left out, or `...` in place of values."""
    values = [node for node in ast.walk(script.tree) if isinstance(node, ast.Assign | ast.Call)]
    given = [one for node in values for one in (node.args if isinstance(node, ast.Call) else [node.value])]
    return script.is_fragment or any(isinstance(one, ast.Constant) and one.value is ... for one in given)


def _names(script: Script) -> tuple[set[str], dict[str, list[ast.Name]]]:
    """The names of a module, and those that are used in it and defined nowhere."""
    has_star = any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in ast.walk(script.tree))
    if has_star or re.search(r"\b(globals|locals|exec|vars)\(", script.text):
        return set(), {}
    top = symtable.symtable(script.text, str(script.path), "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    missing: set[str] = set()
    pending = [top]
    while pending:
        table = pending.pop()
        pending += table.get_children()
        for symbol in table.get_symbols():
            is_outer = symbol.is_global() or table is top
            if symbol.is_declared_global() and symbol.is_assigned():
                defined.add(symbol.get_name())
            elif symbol.is_referenced() and is_outer and not (table is top and symbol.get_name() in defined):
                missing.add(symbol.get_name())
    missing -= defined | _GIVEN
    used: dict[str, list[ast.Name]] = {}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing:
            used.setdefault(node.id, []).append(node)
    return defined, used


@rule("PIP039", "not-followed", severity="info", needs="script", rank=0)
def not_followed(trace: Trace) -> Iterator[Finding]:
    """Data for training that could not be followed to where it comes from.

    Why: what was not followed was not checked: no finding says nothing about it.
    Example: `model.fit(load(), epochs=3)` with a `load` of another package
    Fix: run it for a few batches: `bushel check DATA --script train.py --run`
    Ignore: where the script is checked with `--run` as well.
    """
    for event in trace.of("not-followed"):
        yield at(event, "what fit is given could not be followed, so it was not checked", help="check it with --run")


@rule("PIP045", "step-without-training", severity="warning", needs="script", rank=60)
def step_without_training(trace: Trace) -> Iterator[Finding]:
    """`model(x)` inside a gradient tape without `training=True`, or with it where a model is evaluated.

    Why: Dropout and BatchNormalization then behave as at inference: no regularisation, and statistics never move.
    Example: `with tf.GradientTape() as tape: logits = model(x)`
    Fix: `model(x, training=True)`
    Ignore: for models without such layers, or frozen ones.
    """
    for event in trace.of("step-without-training"):
        fix = [with_keyword(event.script, event.node, "training", "True")] if isinstance(event.node, ast.Call) else []
        message = "the model is called in a training step as if at inference"
        behaves = _behaves(event.info["model"])
        yield at(event, message, *fix, severity=None if behaves else "info", help="call it with training=True")
    for event in trace.of("training-outside-step"):
        if _EVALUATES.search(event.info["function"]) and _behaves(event.info["model"]):
            yield at(event, "the model is evaluated as if in training", help="call it with training=False")


def _behaves(model: KnownValue) -> bool:
    """Whether a model has layers that do something else in training."""
    layers = layers_of(model)
    if isinstance(model, Instance):
        layers = [value for value in model.attributes.values() if isinstance(value, KerasObject)]
        layers += [layer for value in model.attributes.values() for layer in layers_of(value)]
    return any(layer.kind.startswith(_BEHAVING) for layer in layers)


def _optimizers(trace: Trace) -> Iterator[tuple[KerasObject, int | None, int]]:
    """Optimizers of models with the steps that they make, where that is known, and how many layers they train."""
    for event in trace.of("compile"):
        optimizer, model = event.info["call"].get(0, "optimizer"), event.info["model"]
        if isinstance(optimizer, KerasObject):
            weighted = sum(layer.kind in ("Dense", "Conv2D", "Conv1D", "LSTM", "GRU") for layer in layers_of(model))
            yield optimizer, _steps(trace, model), weighted


def _steps(trace: Trace, model: KnownValue) -> int | None:
    for use, dataset in trace.used("train"):
        epochs = use.keywords.get("epochs", Const(1))
        given = use.keywords.get("steps_per_epoch")
        steps = given.value if isinstance(given, Const) else batches_of(trace, dataset) if given is None else None
        if use.model is model and isinstance(epochs, Const) and isinstance(steps, int):
            return int(steps * epochs.value) if isinstance(epochs.value, int) else None
    return None


@rule("PIP053", "learning-rate-unsuitable", severity="warning", needs="script", rank=60)
def learning_rate(trace: Trace) -> Iterator[Finding]:
    """A learning rate that cannot work, or a schedule that ends it long before training ends.

    Why: too high a rate makes the loss jump; too low a rate learns nothing.
    Example: `Adam(learning_rate=1.0)`; `ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)`
    Fix: 1e-3 for Adam and 1e-2 for SGD are good starting points; schedules count steps, not epochs.
    Ignore: where the rate was found by search.
    """
    for optimizer, steps, weighted in _optimizers(trace):
        rate = optimizer.get(0, "learning_rate")
        place = At(optimizer.value_node(0, "learning_rate"), optimizer.script)
        most = 1.0 if optimizer.kind in ("SGD", "Adadelta", "Adagrad", "Ftrl") else 0.1
        if isinstance(rate, Const) and isinstance(rate.value, int | float) and not isinstance(rate.value, bool):
            is_wild = rate.value >= most * 3 or rate.value <= 0
            if is_wild or (rate.value >= most and weighted > 2) or rate.value < 1e-7:
                help = "begin with 1e-3 for Adam, 1e-2 for SGD"
                message = f"a learning rate of {rate.value:g} for {optimizer.kind}"
                yield at(place, message, help=help, severity="error" if is_wild else None)
        elif isinstance(rate, KerasObject) and rate.kind.endswith("Decay"):
            yield from _decayed(rate, steps)


def _decayed(schedule: KerasObject, steps: int | None) -> Iterator[Finding]:
    every, factor = schedule.number(1, "decay_steps"), schedule.constant(2, "decay_rate")
    if not every:
        return
    help = "decay_steps counts batches, not epochs"
    if schedule.kind == "ExponentialDecay" and isinstance(factor, float) and 0 < factor < 1:
        left = factor ** ((steps or 1000) / 2 / every)
        if left < 1e-3 and (steps is not None or every <= 50):
            yield at(schedule, f"half-way, the learning rate is {left:.1g} of what it was", help=help)
    elif schedule.kind == "CosineDecay" and steps is not None and every < 0.5 * steps:
        yield at(schedule, f"the learning rate is at its end after {every:,} of {steps:,} steps", help=help)


@rule("PIP054", "callback-watches-nothing", measured_by="PIP054", severity="warning", needs="script", rank=60)
def callback_watches_nothing(trace: Trace) -> Iterator[Finding]:
    """A callback that monitors what fit does not measure, or watches it in the wrong direction.

    Why: early stopping never stops, or stops at the worst epoch; the best model is not saved.
    Example: `EarlyStopping(monitor="val_acc")`; `mode="min"` for an accuracy
    Fix: a name from the history, and the direction that is better.
    Ignore: never.
    """
    for use in trace.uses:
        callbacks = use.keywords.get("callbacks")
        items = callbacks.items if isinstance(callbacks, Seq) else [callbacks]
        names = _measured(use.model)
        held_out = {"validation_data", "validation_split", "**"} & set(use.keywords)
        written = [n.value for s in trace.scripts for n in ast.walk(s.tree) if isinstance(n, ast.Constant)]
        for callback in items if use.role == "train" else []:
            if isinstance(callback, KerasObject) and callback.kind in (
                "EarlyStopping",
                "ModelCheckpoint",
                "ReduceLROnPlateau",
            ):
                logged = written.count(callback.constant(0, "monitor")) > 1  # a callback may add it to the logs
                yield from _watched(callback, None if logged else names, bool(held_out))


def _measured(model: KnownValue | None) -> set[str] | None:
    """The names that fit measures; None where they are not known."""
    compiled = model.compiled if isinstance(model, Model | Instance) else None
    own = {getattr(item, "name", "") for item in model.of.node.body} if isinstance(model, Instance) else set()
    has_several = isinstance(getattr(model, "output", None), Seq | Mapping)  # names begin with those of the outputs
    if compiled is None or {"weighted_metrics", "**"} & {*compiled.keywords} or own & {"train_step", "metrics"}:
        return None
    if has_several:
        return None
    metrics = compiled.get(-1, "metrics")
    found = {"loss", "lr", "learning_rate"}
    for metric in metrics.items if isinstance(metrics, Seq) else [metrics] if metrics is not None else []:
        if isinstance(metric, Const) and isinstance(metric.value, str):
            found.add(metric.value)
        elif isinstance(metric, KerasObject):
            named = metric.constant(-1, "name")
            found.add(named or re.sub(r"(?<=[a-z])([A-Z])", r"_\1", metric.kind).lower())
            found |= {"auc", "iou"} if named is None and metric.kind in ("AUC", "IoU") else set()
        elif not isinstance(metric, Const):
            return None
    return found


def _watched(callback: KerasObject, names: set[str] | None, has_validation: bool) -> Iterator[Finding]:
    is_first = callback.kind != "ModelCheckpoint"
    monitor, mode = callback.constant(0 if is_first else 1, "monitor") or "val_loss", callback.constant(-1, "mode")
    place = At(callback.value_node(0 if is_first else 1, "monitor"), callback.script)
    if not is_first and not callback.flag("save_best_only"):
        return
    plain = monitor.removeprefix("val_")
    if monitor.startswith("val_") and not has_validation:
        yield at(place, f"{callback.kind} monitors {monitor!r}, but fit is given no validation data",
                 help="give fit validation_data, or monitor 'loss'")  # fmt: skip
    elif names is not None and plain not in names:
        yield at(place, f"{callback.kind} monitors {monitor!r}, but fit measures {', '.join(sorted(names - {'lr'}))}",
                 help="monitor one that is measured")  # fmt: skip
    better = better_direction(plain)
    if mode in ("min", "max") and better and mode != better:
        yield at(At(callback.value_node(-1, "mode"), callback.script),
                 f"{callback.kind} treats a {'lower' if mode == 'min' else 'higher'} {monitor} as better",
                 help=f'use mode="{better}"', severity="error")  # fmt: skip


@rule("PIP055", "gradients-lost", needs="script")
def gradients_lost(trace: Trace) -> Iterator[Finding]:
    """Gradients that are never applied, applied to other weights, or cannot be computed.

    Why: the loss is printed, and no weight changes.
    Example: `logits = model(x)` before the tape; `tf.argmax` in the loss; no `apply_gradients`
    Fix: outputs and loss inside the tape, and `optimizer.apply_gradients(zip(grads, model.trainable_variables))`.
    Ignore: where gradients are only looked at.
    """
    taken = list(trace.of("gradient"))
    calls = {n.attr for s in trace.scripts for n in ast.walk(s.tree) if isinstance(n, ast.Attribute)}
    for event in taken:
        target = event.info["target"]
        if _is_of_weights(event) and not calls & set(_APPLIES):
            yield at(event, "gradients are computed and never applied",
                     help="optimizer.apply_gradients(zip(gradients, model.trainable_variables))")  # fmt: skip
        if isinstance(target, Tensor) and "outside the tape" in target.marks and _is_of_weights(event):
            made = placed(trace.scripts, target.made_by) or event
            yield at(made, "this is computed outside the tape, so there is no gradient", also=event,
                     help="compute outputs and loss inside the with block of the tape")  # fmt: skip
        for flat in trace.of("no-derivative"):
            if isinstance(target, Tensor) and flat.info["name"] in target.marks:
                yield at(flat, f"{flat.info['name']} has no derivative: the loss gives no gradient", also=event,
                         help="compute the loss of the outputs as they are")  # fmt: skip
    fitted = [model for event in trace.of("fit") if isinstance(model := event.info["model"], Model)]
    trained = [*fitted, *(model for event in taken for model in _models(event.info["of"]))]
    covered = {id(layer) for model in trained for layer in layers_of(model)}
    covered |= {id(layer) for event in trace.of("trainable") for layer in _layers_in(event.info["of"])}
    for event in taken:
        target, models = event.info["target"], _models(event.info["of"])
        left = [one for one in flat_layers(list(getattr(target, "layers", ()))) if one.kind in _WEIGHTED]
        left = [one for one in left if id(one) not in covered]
        if models and left and all(isinstance(model, Model) for model in models):
            message = f"no gradient is ever taken for {left[-1].kind} and {len(left) - 1} other layers before the loss"
            yield at(event, message,
                     help="take it for the variables of all models", also=left[-1])  # fmt: skip
    for event in trace.of("apply_gradients"):
        first = next((ast.unparse(n.args[0]) for n in _zips(event) if n.args), "")
        if re.search(r"trainable_(variables|weights)$", first):
            yield at(event, "zip is given the variables first and the gradients second",
                     help="optimizer.apply_gradients(zip(gradients, variables))")  # fmt: skip
            continue
        other = _other_weights(event, taken)
        if other is not None:
            yield at(event, "gradients of some weights are applied to others", also=other,
                     help="use the variables for which the gradients were computed")  # fmt: skip


def _layers_in(value: KnownValue) -> list[KerasObject]:
    return [value] if isinstance(value, KerasObject) else layers_of(value)


def _models(sources: KnownValue | None) -> list[KnownValue]:
    """The models whose variables a gradient is taken for; none where that is not known."""
    known = sources.items if isinstance(sources, Seq) else []
    return list(known) if all(isinstance(one, Model | Instance) for one in known) else []


def _is_of_weights(event: Event) -> bool:
    return bool(re.search(r"variables|weights|params|\bvars\b", ast.unparse(event.info["sources"])))


def _zips(event: Event) -> list[ast.Call]:
    return [n for n in ast.walk(event.node) if isinstance(n, ast.Call) and ast.unparse(n.func) == "zip"]


def _other_weights(applied: Event, taken: list[Event]) -> Event | None:
    """The only gradient of the same function, if it was taken for the weights of another model."""
    zipped = next(iter(_zips(applied)), None)
    near = [event for event in taken if _function_at(event) is _function_at(applied)]
    if zipped is None or len(zipped.args) < 2 or len(near) != 1:
        return None
    pattern = re.compile(r"^([\w.\[\]'\"-]+)\.trainable_(variables|weights)$")
    texts = [pattern.match(ast.unparse(node)) for node in (zipped.args[1], near[0].info["sources"])]
    owners = [found[1] for found in texts if found is not None]
    return near[0] if len(owners) == 2 and owners[0] != owners[1] else None


def _function_at(event: Event) -> ast.AST | None:
    line = event.node.lineno  # type: ignore[attr-defined]
    around = [
        node
        for node in ast.walk(event.script.tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


@rule("PIP056", "metric-never-reset", severity="warning", needs="script", rank=60)
def metric_never_reset(trace: Trace) -> Iterator[Finding]:
    """A metric of a custom loop that carries over from one epoch to the next.

    Why: what is printed for the tenth epoch is the mean over all ten.
    Example: `metric.update_state(...)` in each step, and no `reset_state()` per epoch
    Fix: `metric.reset_state()` at the beginning of each epoch.
    Ignore: where one number over the whole of training is meant.
    """
    kinds = ("reset_state", "reset_states", "reset_metrics")
    followed = {id(event.node) for kind in kinds for event in trace.of(kind)}
    if any(_method(node) in kinds and id(node) not in followed for s in trace.scripts for node in ast.walk(s.tree)):
        return  # something is reset, and what could not be followed
    shown = {id(event.info["receiver"]): event for event in trace.of("result") if event.info["loops"]}
    for event in trace.of("update_state"):
        metric, depth = event.info["receiver"], event.info["loops"]
        is_kept = "in a loop" not in metric.notes and not any((kind, id(metric.node)) in trace.done for kind in kinds)
        is_shown = id(metric) in shown and shown[id(metric)].info["loops"] < depth
        if depth > 1 and is_shown and is_kept and ".metrics." in metric.name:
            message = f"this {metric.kind} is never reset: each epoch is added to those before"
            yield at(shown[id(metric)], message, also=event,
                     help="call reset_state() at the beginning of each epoch")  # fmt: skip


def _method(node: ast.AST) -> str | None:
    """The name of the method that a node calls."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


@rule("PIP057", "freezing-has-no-effect", needs="script")
def frozen_in_vain(trace: Trace) -> Iterator[Finding]:
    """`trainable` changed after `compile`, or switched off for the whole model.

    Why: what is trained is decided by `compile`: a later change has no effect; a frozen model learns nothing.
    Example: `model.compile(...); base.trainable = True; model.fit(...)`
    Fix: change `trainable` first, then compile; freeze the base alone.
    Ignore: never.
    """
    for event in trace.of("trainable"):
        base = event.info["of"]
        is_random = (
            isinstance(base, KerasObject) and "weights" in base.keywords and base.constant(-1, "weights") is None
        )
        if event.info["value"] is False and is_random and isinstance(base.keywords["weights"], Const):
            message = f"{base.kind.partition(':')[2]} is frozen with random weights"
            help = 'use weights="imagenet", or train it'
            yield at(event, message, also=base, severity="warning", help=help)
    for event in trace.of("fit"):
        changes = [e for e in trace.of("trainable") if e.node.lineno <= event.node.lineno]  # type: ignore[attr-defined]
        if "frozen" in event.info["notes"] and changes:
            own = [e for e in changes if e.info["of"] is event.info["model"]]
            yield at((own or changes)[-1], "the whole model is frozen: nothing is trained", also=event,
                     help="freeze the base alone, and compile again")  # fmt: skip
        elif "changed" in event.info["notes"] and changes:
            yield at(changes[-1], "trainable is changed after compile, and has no effect", also=event,
                     severity="warning", help="call compile again after trainable has changed")  # fmt: skip


@rule("PIP075", "mean-of-each-replica", severity="warning", needs="script")
def mean_of_each_replica(trace: Trace) -> Iterator[Finding]:
    """A loss that each replica averages over its own records, where gradients of all replicas are summed.

    Why: gradients are larger by the number of replicas: two devices train with twice the learning rate.
    Example: `tf.reduce_mean(per_example)` in a function that `strategy.run` calls
    Fix: `tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)`
    Ignore: if you train on a single replica.
    """
    for event in trace.of("gradient"):
        target = event.info["target"]
        if isinstance(target, Tensor) and "mean of a replica" in target.marks:
            yield at(placed(trace.scripts, target.made_by) or event,
                     "each replica takes the mean of its own records, and the gradients are summed", also=event,
                     help="divide by the global batch size: tf.nn.compute_average_loss")  # fmt: skip


@rule("PIP058", "made-in-every-step", severity="warning", needs="script", rank=60)
def made_in_every_step(trace: Trace) -> Iterator[Finding]:
    """An optimizer that is made inside the training step, or an iterator that is made again in each.

    Why: the optimizer forgets its momentum each time, or tf.function refuses to make its variables.
    Example: `def train_step(x, y): optimizer = keras.optimizers.Adam() ...`
    Fix: make it once, before the loop.
    Ignore: never.
    """
    for event in trace.of("made-in-step"):
        yield at(event, "the optimizer is made again in every step", help="make it once, before the loop")
