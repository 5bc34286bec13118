"""How a model is trained, by `fit` or a custom loop, and whether it learns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import msgspec

from bushel.checking.findings import Finding, rule, seen
from bushel.checking.program import TriedOptimizer
from bushel.checking.rules.keras_expectations import CROSSENTROPIES, better_direction, loss_called
from bushel.checking.running.execution import Event, Execution, Spot
from bushel.checking.running.failure_rules import NO_DERIVATIVE
from bushel.checking.running.net_rules import loss_spot

FEW_PARAMETERS = 32  # too few to memorise a batch


@seen("PIP054")
def callback_watches_nothing(run: Execution) -> Iterator[Finding]:
    """A callback that monitors what fit does not measure, or in the wrong direction."""
    for fit in run.fits:
        names = set(fit.get("logs") or ())
        for callback in fit["arguments"]["callbacks"]:
            monitor = callback.get("monitor")
            if not monitor or not names:
                continue
            spot = callback["place"] or fit["place"]
            if monitor not in names and callback["class"] in ("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau"):
                if callback["class"] == "ModelCheckpoint" and not callback.get("save_best_only"):
                    continue
                yield run.found(
                    f"{callback['class']} monitors {monitor!r}, but fit measures {', '.join(sorted(names))}",
                    run.keyword(spot, "monitor"),
                    help="monitor one of these, and give fit validation_data for those that begin with val_",
                )
                continue
            wants = callback.get("mode") if callback.get("mode") in ("min", "max") else callback.get("wants")
            better = better_direction(monitor)
            if wants and better and wants != better:
                yield run.found(
                    f"{callback['class']} treats a {'lower' if wants == 'min' else 'higher'} {monitor} as better",
                    run.keyword(spot, "mode"),
                    help=f'use mode="{better}"',
                    severity="error",
                )


@seen("PIP053")
def learning_rate(run: Execution) -> Iterator[Finding]:
    """A learning rate that cannot work, or a schedule that ends it at once."""
    seen: set[str] = set()
    for fit in run.fits:
        optimizer = fit["model"].get("optimizer") or {}
        rate = optimizer.get("rate")
        spot = (
            optimizer.get("schedule_place")
            or optimizer.get("place")
            or run.keyword(fit["model"].get("compiled_at"), "optimizer")
        )
        key = f"{spot}"
        if rate is None or key in seen:
            continue
        seen.add(key)
        most = 5.0 if optimizer["class"] in ("SGD", "Adadelta", "Adagrad") else 0.3
        rates = optimizer.get("rates") or []
        if rate < 0 or (rate == 0 and (not rates or max(rates) == 0)):
            yield run.found(f"the learning rate is {rate:g}", spot, severity="error")
        elif rate >= most:
            yield run.found(
                f"a learning rate of {rate:g} is far too large for {optimizer['class']}",
                spot,
                help="begin with 1e-3 for Adam, 1e-2 for SGD",
                severity="error",
            )
        elif 0 < rate < 1e-7 and not rates:
            yield run.found(
                f"with a learning rate of {rate:g} nothing is learned",
                spot,
                help="begin with 1e-3 for Adam, 1e-2 for SGD",
            )
        elif len(rates) == 4 and rates[1] <= 0 and max(rates) > 0 and optimizer["schedule_steps"] >= 20:
            yield run.found(
                f"the learning rate is still {rates[1]:.2g} after a tenth of {optimizer['schedule_steps']:,} steps",
                *optimizer.get("schedule_lines", ()),
                spot,
                help="let a warm-up rise from step to step: divide with /, not //",
            )
        elif len(rates) == 4 and rates[0] > 0 and (rates[1] < rates[0] * 1e-2 or rates[2] < rates[0] * 1e-4):
            yield run.found(
                f"of {optimizer['schedule_steps']:,} steps, after a tenth the learning rate is {rates[1]:.2g}, "
                "after half "
                f"{rates[2]:.2g}, "
                f"of {rates[0]:.2g} at first",
                spot,
                run.keyword(spot, "decay_steps"),
                help="decay_steps counts batches, not epochs",
            )
        for callback in fit["arguments"]["callbacks"]:
            planned = callback.get("rates") or []
            if len(planned) > 3 and planned[0] > 0 and planned[len(planned) // 2] < planned[0] * 1e-4:
                yield run.found(
                    f"after {len(planned) // 2} of {len(planned)} epochs the learning rate is "
                    f"{planned[len(planned) // 2]:.2g}, of {planned[0]:.2g} at first",
                    *run.lines_in(callback.get("function"), r"\breturn\b|lambda"),
                    callback["place"],
                    help="multiply the rate of the epoch before by one factor, or the first rate by a power of it",
                )
            if planned and (max(planned) > most or min(planned) < 0):
                yield run.found(
                    f"the schedule sets learning rates of up to {max(planned):.3g}", callback["place"], severity="error"
                )


@rule("EXE039", "gradient-missing", needs="execution", rank=55)
def gradient_missing(run: Execution) -> Iterator[Finding]:
    """Weights that get no gradient.

    Why: they stay what they were at the beginning.
    Example: `tf.argmax`, `tf.round` or `.numpy()` on the way from the outputs to the loss; a layer that is not used
    Fix: leave out what has no derivative, and what is not used.
    Ignore: where layers are only used at inference.
    """
    yield from _without_gradient(run)
    yield from _left_out(run)
    yield from _without_gradient_in_loops(run)


def _without_gradient(run: Execution) -> Iterator[Finding]:
    """Of models that are fitted."""
    for fit in run.fits:
        found = (fit.get("probe") or {}).get("gradients")
        model = fit["model"]
        if not found or not found["all"]:
            continue
        if found.get("strangers"):
            yield run.found(
                f"{len(found['strangers'])} variables take part in the loss and are not weights of the model: nothing "
                "ever updates them",
                *run.lines_of(r"tf\.Variable\("),
                *[layer["place"] for layer in model["layers"] if not layer["builtin"]][:2],
                help="make them with self.add_weight, as attributes of a layer",
            )
        nothing = [*found["missing"], *found["zero"]]
        if len(nothing) == found["all"] and found.get("loss") not in (0.0, None):
            yield run.found(
                f"none of {found['all']} trainable weights gets a gradient from the loss",
                *run.lines_in((model.get("loss") or {}).get("function"), NO_DERIVATIVE)[:1],
                loss_spot(run, model),
                help="look for steps without a derivative between the outputs and the loss: argmax, round, cast, numpy",
            )
        elif found["missing"] and len(found["missing"]) < found["all"]:
            layers = sorted({path.rpartition("/")[0] for path in found["missing"]})
            spots = [
                layer["place"]
                for layer in model["layers"]
                if any(layer["name"] in path.split("/") for path in found["missing"])
            ]
            yield run.found(
                f"{len(found['missing'])} of {found['all']} trainable weights have no part in the loss: "
                f"{', '.join(layers[:4])}",
                *spots[:2],
                severity="warning",
            )


def _left_out(run: Execution) -> Iterator[Finding]:
    """Of models that take part in a custom loop, and that nothing updates."""
    pretrained = [event["place"] for event in run.of("weights")]
    left = [event for event in run.of("left_out") if event["made_at"] not in pretrained]
    if left and not any(True for _ in run.of("assigned")):
        names = sorted({event["class"] for event in left})
        yield run.found(
            f"{', '.join(names)} take part in the loss, but nothing ever updates their weights",
            left[0]["place"],
            left[0]["made_at"],
            *[call["place"] for call in run.of("call") if call["model"] in {event["name"] for event in left}][:2],
            help="take the gradient for the variables of all models, and apply it to all of them",
        )


def _without_gradient_in_loops(run: Execution) -> Iterator[Finding]:
    """Of variables whose gradient a custom loop takes."""
    for event in run.of("gradient"):
        if event["all"] == 0:
            yield run.found(
                "a gradient is taken with respect to no variables",
                event["place"],
                help="take it for model.trainable_variables",
            )
        elif event["missing"] and event["variables"] and len(event["missing"]) == event["all"]:
            yield run.found(
                f"none of {event['all']} variables gets a gradient: the loss does not depend on them, or was "
                "computed outside the tape",
                *run.around(event["place"], NO_DERIVATIVE)[-1:],
                event["place"],
                help="compute outputs and loss inside the tape, with operations that have a derivative",
            )
        elif event["missing"] and event["variables"] and len(event["missing"]) * 2 >= event["all"]:
            yield run.found(
                f"{len(event['missing'])} of {event['all']} variables get no gradient: "
                f"{', '.join(event['missing'][:3])}",
                event["place"],
                severity="warning",
            )


@rule("EXE040", "no-trainable-weights", needs="execution", rank=55)
def nothing_to_train(run: Execution) -> Iterator[Finding]:
    """A model without trainable weights, or whose weights do not move.

    Why: training runs, and changes nothing.
    Example: `model.trainable = False` for the whole model
    Fix: freeze the base alone.
    Ignore: never.
    """
    for event in run.of("on_batch"):
        if event["name"] == "train_on_batch" and event.get("trainable") == 0:
            yield run.found("no weight of the model that is trained here is trainable", event.get("frozen_at"),
                            event["place"], help="set trainable = True before it is trained")  # fmt: skip
    for fit in run.fits:
        model, probe = fit["model"], fit.get("probe") or {}
        if fit.get("failed"):
            continue
        if model["weights"] and not model["trainable"]:
            yield run.found(
                "no weight of the model is trainable",
                model.get("frozen_at"),
                *[layer["frozen_at"] for layer in model["layers"][::-1] if layer["frozen_at"]][:1],
                model.get("compiled_at"),
                fit["place"],
                help="freeze the base alone, not the whole model",
            )
        elif (
            probe.get("unmoved")
            and len(probe["unmoved"]) == model["trainable"]
            and (model.get("optimizer") or {}).get("rate") != 0
        ):
            losses = probe.get("losses") or []
            gradients = probe.get("gradients") or {}
            if len(gradients.get("missing", ())) + len(gradients.get("zero", ())) == gradients.get("all"):
                continue  # EXE039 says it
            if losses and all(math.isfinite(loss) for loss in losses):
                yield run.found(
                    f"no weight moved in {len(losses)} steps",
                    model.get("compiled_at"),
                    fit["place"],
                    help="look at the learning rate, and at train_step",
                )


@rule("EXE041", "does-not-learn", severity="warning", needs="execution", rank=70)
def does_not_learn(run: Execution) -> Iterator[Finding]:
    """A model that cannot memorise eight records, or diverges on them.

    Why: what cannot learn one small batch cannot learn the data.
    Example: a learning rate of 10; outputs that do not depend on the inputs; a loss with the wrong sign
    Fix: look at the learning rate first, then at the last layer and the loss.
    Ignore: where heavy regularisation keeps it from doing so.
    """
    for fit in run.fits:
        model, probe = fit["model"], fit.get("probe") or {}
        losses = probe.get("losses") or []
        negative = [
            name for name, values in (fit.get("logs") or {}).items() if _is_divergence(name) and min(values) < -1e-3
        ]
        if negative or _falls_without_end(losses):
            yield run.found(
                f"{negative[0]} is negative, which a divergence never is: its sign is wrong"
                if negative
                else f"the loss of one small batch falls below 0, faster and faster, to {losses[-1]:.3g}",
                *run.lines_of(r"\b\w*(kl|KL)\w*\s*=|\bloss\s*="),
                fit["place"],
                help="look at the signs of the parts of the loss",
                severity="error" if negative else None,
            )
            continue
        spot = (
            (model.get("optimizer") or {}).get("place")
            or run.keyword(model.get("compiled_at"), "optimizer")
            or fit["place"]
        )
        if not losses:
            continue
        if not math.isfinite(losses[-1]):
            at = "from the first step" if len(losses) == 1 else f"after {len(losses)} steps"
            yield run.found(
                f"the loss of one small batch is {losses[-1]} {at}",
                spot,
                loss_spot(run, model),
                (model.get("last") or {}).get("place"),
                fit["place"],
                severity="error",
            )
        elif len(losses) >= 20 and losses[0] > 0 and min(losses[-5:]) > 3 * losses[0] and min(losses[-5:]) > 1:
            yield run.found(
                f"the loss of one small batch rises from {losses[0]:.3g} to {losses[-1]:.3g} in {len(losses)} steps",
                spot,
                help="lower the learning rate",
                severity="error",
            )
        elif (
            len(losses) >= 5
            and min(losses) < 0
            and loss_called((model.get("loss") or {}).get("name") or "") in CROSSENTROPIES
        ):
            yield run.found(
                f"the loss falls below 0, to {min(losses):.3g}: labels are not what it takes",
                loss_spot(run, model),
                severity="error",
            )
        elif (slow := _behind_reference(run, fit, spot)) is not None:
            yield slow
        elif len(losses) >= 40:
            yield from _flat(run, fit, losses, probe.get("losses_with_adam") or [], spot)


def _behind_reference(run: Execution, fit: Event, spot: Spot) -> Finding | None:
    """The optimizer of the script beside Adam, on the same batches from the same weights."""
    model, tried = fit["model"], (fit.get("probe") or {}).get("tried")
    optimizer = model.get("optimizer") or {}
    rates = optimizer.get("rates") or []
    is_warming_up = len(rates) > 1 and rates[1] > 2 * rates[0]
    is_tuned = any(True for _ in run.of("weights")) or len(run.fits) > 1  # random weights stand in, or it is trained
    if tried is None or is_warming_up or model["trainable_parameters"] < FEW_PARAMETERS:
        return None
    found = msgspec.convert(tried, TriedOptimizer)
    learns = found.end_with_adam < FALLEN * found.begin and found.begin > 1e-3
    is_worse = not found.end < 1.5 * found.begin
    if not learns or not (is_worse or (found.end > STAYED * found.begin and not is_tuned)):
        return None
    rate = f" at {optimizer['rate']:g}" if optimizer.get("rate") is not None else ""
    return run.found(
        f"in {found.steps} steps on real batches the loss goes from {found.begin:.3g} to {found.end:.3g} with "
        f"{optimizer.get('class', 'this optimizer')}{rate}, and to {found.end_with_adam:.3g} with Adam",
        spot,
        fit["place"],
        help="lower the learning rate" if is_worse else "raise the learning rate, or use Adam at 1e-3",
        confidence="likely",
        severity="error" if is_worse else "warning",
    )


FALLEN, STAYED = 0.8, 0.98  # of the loss at the beginning


def _is_divergence(name: str) -> bool:
    return re.search(r"(^|_)kl(d|_|$)|divergence", name.lower()) is not None


def _falls_without_end(losses: list[float]) -> bool:
    """Whether a loss is below 0 and falls more in each third than in the one before."""
    if len(losses) < 45 or not all(math.isfinite(loss) for loss in losses) or losses[-1] > -abs(losses[0]):
        return False
    third = len(losses) // 3
    falls = [losses[i * third] - losses[(i + 1) * third - 1] for i in range(3)]
    return falls[2] > 1.5 * falls[1] > 2 * falls[0] > 0


def _flat(run: Execution, fit: Event, losses: list[float], adam: list[float], spot: Spot) -> Iterator[Finding]:
    model = fit["model"]
    nothing = fit["model"]["trainable_parameters"] < FEW_PARAMETERS  # such as one temperature
    gradients = (fit.get("probe") or {}).get("gradients") or {}
    dead = (
        gradients.get("all") and len(gradients.get("missing", ())) + len(gradients.get("zero", ())) == gradients["all"]
    )
    if nothing or dead or len(adam) < 40 or losses[0] < 1e-3:
        return
    fell = min(losses[-5:]) < losses[0] * 0.98
    if fell:
        return
    if min(adam[-5:]) > adam[0] * 0.97:
        yield run.found(
            f"the loss of one batch of 8 stays at {losses[-1]:.4g} for {len(losses)} steps, with Adam as well",
            loss_spot(run, model),
            fit["place"],
            help="look at the last layer, the loss and the labels",
            confidence="likely",
        )
    elif min(adam[-5:]) < adam[0] * 0.7 and min(losses[-5:]) > losses[0] * 1.05:
        yield run.found(
            f"the loss of one small batch rises from {losses[0]:.3g} to {losses[-1]:.3g}; with Adam it "
            f"falls to {adam[-1]:.3g}",
            spot,
            help="lower the learning rate",
        )


@rule("EXE042", "random-at-inference", severity="warning", needs="execution", rank=60)
def random_at_inference(run: Execution) -> Iterator[Finding]:
    """A model that gives different outputs for the same batch with `training=False`.

    Why: dropout or noise stays switched on when the model is used.
    Example: `self.dropout(x, training=True)` in the `call` of a layer
    Fix: leave `training=True` out of the model.
    Ignore: where it is there to measure uncertainty.
    """
    for fit in run.fits:
        outputs = (fit.get("probe") or {}).get("outputs") or {}
        if outputs.get("repeats") is False and not outputs.get("nan"):
            layers = [
                layer["place"]
                for layer in fit["model"]["layers"]
                if layer["class"].endswith("Dropout") or layer["class"].startswith(("Random", "Gaussian"))
            ]
            yield run.found(
                "the same batch gives other outputs each time, with training=False",
                *layers[:2],
                help="leave training=True out of the model",
                severity=None if layers and not run.draws_on_purpose else "info",  # custom layers may draw as well
            )


@seen("PIP048")
def never_adapted(run: Execution) -> Iterator[Finding]:
    """A Normalization layer without statistics."""
    reported: set[str] = set()
    for fit in run.fits:
        for layer in fit["model"]["layers"]:
            is_empty = layer["class"] == "Normalization" and layer.get("adapted") is False
            is_own = "Normalization" in (run.code(layer["place"]) or "")  # not one of a network that Keras makes
            if is_empty and is_own and layer["name"] not in reported:
                reported.add(layer["name"])
                yield run.found(
                    "this Normalization was never adapted: it changes nothing",
                    layer["place"],
                    help="call adapt on the training inputs first",
                )


@rule("EXE044", "split-by-order", needs="execution", rank=30)
def split_by_order(run: Execution) -> Iterator[Finding]:
    """`validation_split` over rows that are sorted by class.

    Why: it takes the last rows, before anything is shuffled: classes of validation were never trained on.
    Example: `fit(x, y, validation_split=0.2)` with `y` sorted
    Fix: shuffle the arrays first, or split them with stratification.
    Ignore: never.
    """
    for fit in run.fits:
        split = fit.get("split")
        if not split:
            continue
        train, val = set(split["train"].get("values") or ()), set(split["val"].get("values") or ())
        if (
            val
            and train
            and (val - train or (len(train) > 1 and len(val) < min(len(train), 3) and len(val) == 1))
            and len(train | val) < 40
        ):
            yield run.found(
                f"validation_split takes the last rows: they hold the classes {_listed(val)}, and training "
                f"{_listed(train)}",
                run.keyword(fit["place"], "validation_split"),
                help="shuffle the arrays together first",
            )


def _listed(values: set[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(values)[:6])


@rule("EXE050", "gradients-not-applied", needs="execution", rank=40)
def gradients_not_applied(run: Execution) -> Iterator[Finding]:
    """A loop that computes gradients and never applies them.

    Why: the loss is printed, and no weight changes.
    Example: `tape.gradient(...)` without `optimizer.apply_gradients(...)`
    Fix: `optimizer.apply_gradients(zip(gradients, model.trainable_variables))`
    Ignore: where gradients are only looked at.
    """
    if run.loop is None or run.loop["applied"] or run.failure is not None or run.stopped:
        return
    if any(True for _ in run.of("assigned")):
        return
    taken = [event for event in run.of("gradient") if event["variables"] and not event["in_keras"] and event["all"]]
    if taken:
        yield run.found(
            "gradients are computed and never applied",
            taken[0]["place"],
            help="optimizer.apply_gradients(zip(gradients, model.trainable_variables))",
        )


@rule("EXE053", "layer-not-used", severity="warning", needs="execution", rank=60)
def layer_not_used(run: Execution) -> Iterator[Finding]:
    """A layer that is called, and whose result no model uses; or one that a model has and never calls.

    Why: the model is smaller than it looks: one line went on from the wrong variable.
    Example: `x = Conv2D(16, 3)(inputs); x = Conv2D(32, 3)(inputs)`
    Fix: go on from the result of the layer before.
    Ignore: where a layer is only used after training.
    """
    if not run.is_whole:
        return
    spots = [event["place"] for event in run.of("unused_layer")]
    if spots:
        yield run.found(
            f"{len(spots)} layers are called here, but no model uses what they give",
            *spots[:4],
            help="go on from the result of the layer before",
        )
    reported: set[str] = set()
    for fit in run.fits:
        for layer in fit["model"]["layers"]:
            is_own = layer["class"] in (run.code(layer["place"]) or "")  # not one that another layer is made of
            if layer.get("uncalled") and is_own and f"{layer['place']}" not in reported:
                reported.add(f"{layer['place']}")
                yield run.found(f"this {layer['class']} is part of the model, and is never called", layer["place"])


@rule("EXE054", "accumulator-never-cleared", needs="execution", rank=40)
def accumulator_never_cleared(run: Execution) -> Iterator[Finding]:
    """Gradients that are added up and applied again and again.

    Why: each step applies all gradients since the beginning: the steps grow until training diverges.
    Example: `total.assign_add(gradient)` and `apply_gradients`, without `total.assign(tf.zeros_like(total))`
    Fix: set the sums to zero after they were applied.
    Ignore: never.
    """
    for event in list(run.of("never_cleared"))[:1]:
        applied = next((one["place"] for one in run.of("applied")), None)
        yield run.found(
            "gradients are added up here, and the sums are never set back to zero",
            event["place"],
            applied,
            help="assign zeros after apply_gradients",
        )


@rule("EXE055", "float16-not-scaled", severity="warning", needs="execution", rank=60)
def float16_not_scaled(run: Execution) -> Iterator[Finding]:
    """Gradients in mixed_float16 without a scaled loss.

    Why: small gradients are 0 in float16: parts of the model learn nothing. `fit` scales the loss, custom steps must.
    Example: `keras.mixed_precision.set_global_policy("mixed_float16")` and `tape.gradient(loss, variables)`
    Fix: `LossScaleOptimizer(optimizer)`, and the gradient of `optimizer.scale_loss(loss)`; or mixed_bfloat16.
    Ignore: never.
    """
    for event in list(run.of("not_scaled"))[:1]:
        yield run.found(
            "gradients are computed in float16 from a loss that is not scaled",
            event["place"],
            *run.lines_of(r"mixed_float16"),
            help="take the gradient of optimizer.scale_loss(loss), with a LossScaleOptimizer",
        )


@seen("PIP045")
def step_without_training(run: Execution) -> Iterator[Finding]:
    """A training step that calls the model without `training=True`, or an evaluation with it."""
    for event in run.of("call"):
        layers = ", ".join(event["random_layers"])
        if not layers:
            continue
        if (
            event["tape"]
            and event["training"] in (None, False, "not given")
            and run.loop is not None
            and run.loop["applied"]
        ):
            yield run.found(
                f"the model is called without training=True in a training step: {layers} do nothing",
                event["place"],
                help="model(x, training=True)",
            )
        elif not event["tape"] and event["training"] is True:
            yield run.found(
                f"the model is called with training=True where nothing is trained: {layers} change the outputs",
                event["place"],
                help="model(x, training=False)",
                severity="info" if run.draws_on_purpose else None,
            )


@seen("PIP056")
def metric_never_reset(run: Execution) -> Iterator[Finding]:
    """A metric that carries over from one epoch to the next."""
    for event in run.of("metrics"):
        for metric in event["metrics"]:
            rounds = {round for _, round in metric["results"]}
            if metric.get("mixed_at") and metric["resets"]:
                yield run.found(
                    f"this {metric['class']} goes on from training to validation: what it gives is a mix of both",
                    metric["mixed_at"],
                    metric["place"],
                    help="reset it in between, or use a separate metric for validation",
                )
            if metric["updates"] and not metric["resets"] and len(rounds) > 1:
                yield run.found(
                    f"this {metric['class']} is never reset: each epoch is added to the ones before",
                    metric.get("updated_at"),
                    metric["results"][0][0],
                    metric["place"],
                    help="call reset_state() at the beginning of each epoch",
                )
