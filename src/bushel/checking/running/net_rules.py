"""EXE030 to EXE049: what reaches the model against what it is made for, and whether it learns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bushel.checking.report.findings import Finding
from bushel.checking.rules.pairing import Pair, loss_called, misfits
from bushel.checking.rules.registry import rule
from bushel.checking.running.execution import Event, Execution, Spot

__all__: list[str] = []

SPARSE = ("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy")
CATEGORICAL = ("categorical_crossentropy", "CategoricalCrossentropy", "CategoricalFocalCrossentropy")
BINARY = ("binary_crossentropy", "BinaryCrossentropy", "BinaryFocalCrossentropy")
SQUARED = (
    "mse",
    "mae",
    "mean_squared_error",
    "MeanSquaredError",
    "mean_absolute_error",
    "MeanAbsoluteError",
    "Huber",
    "huber",
)
SCALING = ("Rescaling", "Normalization", "BatchNormalization", "LayerNormalization", "Lambda")
# Models of keras.applications that scale 0..255 themselves.
SCALE_THEMSELVES = (
    "efficientnet",
    "mobilenetv3",
    "mobilenet_v3",
    "MobilenetV3",
    "convnext",
    "regnet",
    "resnet-rs",
    "resnet_rs",
)
LAYERS_AHEAD = 6


def _fits(run: Execution) -> Iterator[Event]:
    """Fits of which the model and the data are known."""
    return (fit for fit in run.fits if fit.get("train") and not fit["train"].get("failed"))


def _labels(look: Event) -> Event | None:
    found = list((look.get("labels") or {}).values())
    return found[0] if len(found) == 1 else None


def _loss_spot(run: Execution, model: Event) -> Spot:
    loss = model.get("loss") or {}
    return loss.get("place") or run.keyword(model.get("compiled_at"), "loss") or model.get("place")


def _units(model: Event) -> int | None:
    shape = model.get("output_shape")
    return shape[-1] if isinstance(shape, list) and shape and isinstance(shape[-1], int) else None


def _last_spot(model: Event) -> Spot:
    last = model.get("last") or {}
    place: Spot = last.get("place")
    return place


def _ahead(model: Event) -> Iterator[Event]:
    """Layers that come before the first weighted one."""
    for layer in model["layers"]:
        if layer["weights"] and layer["builtin"] and layer["class"] not in SCALING and not layer["is_model"]:
            return
        yield layer


def _scaling_layers(model: Event) -> list[Event]:
    """Layers ahead of the first weighted one that change the range."""
    ahead = []
    for layer in model["layers"]:
        if layer["class"] in SCALING or layer["class"] in (
            "TFOpLambda",
            "Multiply",
            "Divide",
            "Subtract",
            "TrueDivide",
        ):
            ahead.append(layer)
        elif layer["weights"] and not layer["is_model"]:
            break
    return ahead


def _images(look: Event) -> Iterator[tuple[str, Event]]:
    for name, facts in (look.get("inputs") or {}).items():
        shape = facts.get("shape") or []
        if len(shape) == 4 and shape[-1] in (1, 3, 4) and min(shape[1:3]) >= 8 and "max" in facts:
            yield name, facts


SCALES = r"255|127\.5|convert_image_dtype|preprocess_input|Rescaling|per_image_standardization"
DECODES = r"decode_(image|jpe?g|png|raw|bmp)|\bcast\(|resize"
CONVERTS = r"//|\bcast\(|convert_|astype|zeros|clip|\* ?0\b"
NO_DERIVATIVE = r"\b(argmax|round|floor|ceil|sign|equal|greater|less|stop_gradient|numpy|constant)\("
DIVIDES = r"/|\blog\(|sqrt\(|pow\(|rsqrt|divide"


def _map_spots(run: Execution, look: Event, pattern: str = "") -> list[Spot]:
    """Lines of the functions that make the inputs, those that match first; and the links that call them."""
    maps = [link for link in run.chain(look) if link["name"] == "map"]
    lines: list[Spot] = []
    spots: list[Spot] = []
    for link in maps[::-1]:
        found = run.lines_in(link["function"], pattern) if pattern and link["function"] else []
        lines += found[::-1]
        spots += [spot for spot in (link["function"], link["place"]) if spot]
    return [*lines[:2], *spots[:2]]


@rule("EXE030", "input-range", severity="warning", needs="execution", rank=60)
def input_range(run: Execution) -> Iterator[Finding]:
    """Pixels of 0 to 255 into a model that does not scale them, or none where it does.

    Why: weights are made for inputs of about 1; with 255 times as much training is slow or diverges.
    Example: `decode_jpeg` and `resize` without `/ 255`; an EfficientNet given 0..1
    Fix: scale once, in the pipeline or in the model.
    Ignore: where the first layers are made for the range.
    Reports: none collected.
    """
    for fit in _fits(run):
        yield from _ranges(run, fit["model"], fit["train"])
    if run.loop is not None and run.loop["models"]:
        for look in run.loop["train"][:1]:
            yield from _ranges(run, run.loop["models"][0], look)


def _ranges(run: Execution, model: Event, look: Event) -> Iterator[Finding]:
    scaling = _scaling_layers(model)
    names = [model["name"], *(layer["name"] for layer in model["layers"][:LAYERS_AHEAD] if layer["is_model"])]
    scales_itself = any(name.lower().startswith(SCALE_THEMSELVES) for name in names)
    custom = [layer for layer in _ahead(model) if not layer["builtin"]]
    rescaling = [layer for layer in scaling if layer["class"] == "Rescaling" and (layer.get("scale") or 1) < 0.02]
    for _, facts in _images(look):
        low, high = facts["min"], facts["max"]
        if not rescaling and scales_itself and low >= 0 and 0 < high <= 1.0:
            yield run.found(
                f"images of {low:.2g} to {high:.2g} go into {names[-1]}, which takes 0 to 255 and scales them itself",
                *_map_spots(run, look, SCALES),
                help="leave the scaling out",
            )
        elif not scaling and not scales_itself and not custom and low >= 0 and high > 100:
            yield run.found(
                f"images of {low:.3g} to {high:.3g} reach the first layer, and nothing scales them",
                *_map_spots(run, look, DECODES),
                help="divide by 255, or begin the model with Rescaling(1 / 255)",
                confidence="likely",
            )


@rule("EXE031", "scaled-twice", needs="execution", rank=60)
def scaled_twice(run: Execution) -> Iterator[Finding]:
    """Inputs that were divided by 255 twice.

    Why: all images are nearly black to the model.
    Example: `convert_image_dtype` and then `/ 255`; `/ 255` and a `Rescaling` layer
    Fix: scale once.
    Ignore: never.
    Reports: none collected.
    """
    looks = [(fit["model"], fit["train"]) for fit in _fits(run)]
    if run.loop is not None and run.loop["models"]:
        looks += [(run.loop["models"][0], look) for look in run.loop["train"][:1]]
    for model, look in looks:
        rescaling = [
            layer
            for layer in _scaling_layers(model)
            if layer["class"] == "Rescaling" and (layer.get("scale") or 1) < 0.02
        ]
        spots = _map_spots(run, look, SCALES)
        for _, facts in _images(look):
            low, high = facts["min"], facts["max"]
            if low >= 0 and 0 < high <= 0.02:
                yield run.found(
                    f"images reach from {low:.2g} to {high:.2g}: they were scaled twice", *spots, help="scale once"
                )
            elif rescaling and low >= -1 and 0 < high <= 1.0:
                yield run.found(
                    f"images of {low:.2g} to {high:.2g} go into a Rescaling by {rescaling[0]['scale']:.4g}: they "
                    "are scaled twice",
                    *spots[:1],
                    rescaling[0]["place"],
                    *spots[1:],
                    help="scale once: in the pipeline, or in the model",
                )


@rule("EXE032", "inputs-say-nothing", needs="execution", rank=60)
def inputs_say_nothing(run: Execution) -> Iterator[Finding]:
    """Inputs that are the same for every record.

    Why: there is nothing to learn from.
    Example: 0..1 floats cast to integers: all black
    Fix: look at the conversion that the finding names.
    Ignore: where an input is a constant on purpose.
    Reports: none collected.
    """
    for _, look in run.data_of("train"):
        inputs = look.get("inputs") or {}
        for name, facts in inputs.items():
            if facts.get("rows_differ") is False and facts["shape"][0] >= 8 and len(facts["shape"]) >= 2:
                what = f"input {name!r}" if name else "the input"
                yield run.found(
                    f"{what} is the same for all {facts['shape'][0]} records that were looked at "
                    f"({facts.get('min'):.4g} to {facts.get('max'):.4g})",
                    *_map_spots(run, look, CONVERTS),
                    help="look at what the map function does with it",
                    severity="error" if len(inputs) == 1 else "warning",
                )


@rule("EXE033", "not-a-number", needs="execution", rank=40)
def not_a_number(run: Execution) -> Iterator[Finding]:
    """NaN or infinite values in batches.

    Why: one of them makes the loss and then all weights NaN.
    Example: a division by a deviation that is 0; a logarithm of 0
    Fix: repair the values, or the arithmetic.
    Ignore: where the model masks them.
    Reports: none collected.
    """
    for role, look in run.data_of("train", "val"):
        parts = [*(look.get("inputs") or {}).items(), *(look.get("labels") or {}).items()]
        for name, facts in parts:
            bad = (facts.get("nan") or 0) + (facts.get("inf") or 0)
            if bad:
                yield run.found(
                    f"{bad:,} values of {name or 'a tensor'} are NaN or infinite in the first batches of {role}",
                    *(_map_spots(run, look, DIVIDES) or run.lines_of(r"/.*std|\blog\(|sqrt\(")),
                    *(run.lines_of(r"\[\[?.*\]\]?|read_csv|\.values|to_numpy") if look.get("arrays") else ()),
                    help="look at divisions and logarithms in the map function, and at the data with bushel check",
                )
                break


@rule("EXE034", "labels-do-not-fit-head", needs="execution", rank=30)
def labels_do_not_fit_head(run: Execution) -> Iterator[Finding]:
    """Labels that the last layer has no output for, or one kind of label under the loss for another.

    Why: an error on some machines, NaN or silent nonsense on others.
    Example: labels 1 to 10 and `Dense(10)`; class numbers under `binary_crossentropy`
    Fix: as many outputs as classes, labels from 0, and the loss that takes them as they are.
    Ignore: never.
    Reports: none collected.
    """
    for fit in _fits(run):
        model = fit["model"]
        for misfit in misfits(pair_of(fit)):
            spots = [_last_spot(model), _loss_spot(run, model)]
            spots = spots if misfit.kind == "head" else spots[::-1]
            if misfit.kind != "logits":  # EXE035 looks at what the model really gives
                yield run.found(misfit.message, *spots, *_label_spots(run, fit["train"]), help=misfit.help,
                                severity=misfit.severity, confidence=misfit.confidence)  # fmt: skip


def pair_of(fit: Event) -> Pair:
    """The loss of a training, the outputs and the labels that it is given."""
    model, labels = fit["model"], _labels(fit["train"])
    loss, last = model.get("loss") or {}, model.get("last") or {}
    activation = "softmax" if last.get("class") == "Softmax" else last.get("activation")
    known = labels_seen(labels or {}, fit["train"].get("label_counts"))
    if loss.get("ignores") is not None:
        known |= {"low": None, "high": None}
    return Pair(
        loss_called(loss.get("name") or ""),
        loss.get("from_logits"),
        None if last.get("guessed") else "none" if activation == "linear" else activation,
        _units(model),
        **known,
    )


def labels_seen(labels: Event, counts: Event | None = None) -> dict[str, Any]:
    """Labels by what batches hold of them."""
    shape = labels.get("shape") or []
    if "min" not in labels or not shape:
        return {}
    if labels.get("one_hot"):
        return {"labels": "one_hot", "depth": shape[-1]}
    is_row = len(shape) == 2 and shape[-1] > 1
    if is_row and labels.get("integers") and labels["min"] >= 0 and labels["max"] <= 1:
        return {"labels": "rows", "depth": shape[-1]}
    values = [float(value) for value in counts or ()] or [labels["min"], labels["max"]]
    if is_row or len(shape) > 2:
        return {}
    return {"labels": "numbers" if labels.get("integers") else "amounts", "low": min(values), "high": max(values)}


def _label_spots(run: Execution, look: Event) -> list[Spot]:
    """Lines that make labels: one-hot rows, and arithmetic with what is called label or class."""
    return _map_spots(run, look, r"one_hot|to_categorical|(label|class|target)\S* [-+] 1")[:1]


@rule("EXE035", "logits-and-probabilities", needs="execution", rank=35)
def logits_and_probabilities(run: Execution) -> Iterator[Finding]:
    """Probabilities under a loss that takes logits, or the other way round.

    Why: softmax over softmax can hardly learn; logits taken for probabilities make a loss of nonsense or NaN.
    Example: `Dense(10)` and `loss="sparse_categorical_crossentropy"`; `Dense(10, "softmax")` and `from_logits=True`
    Fix: no activation and `from_logits=True`, or softmax and `from_logits=False`.
    Ignore: never.
    Reports: none collected.
    """
    for fit in _fits(run):
        model, outputs = fit["model"], (fit.get("probe") or {}).get("outputs") or {}
        loss = model.get("loss") or {}
        if "min" not in outputs or loss.get("name") not in SPARSE + CATEGORICAL + BINARY:
            continue
        yield from _logits(run, loss, outputs, [_loss_spot(run, model), _last_spot(model)], model.get("last") or {})
    for event in run.of("loss"):
        yield from _loss_call(run, event)


def _logits(run: Execution, loss: Event, outputs: Event, spots: list[Spot], last: Event) -> Iterator[Finding]:
    is_binary = loss["name"] in BINARY
    inside = outputs["min"] >= 0 and outputs["max"] <= 1
    looks_like_probabilities = inside and (
        bool(outputs.get("sums_to_one")) if not is_binary else last.get("activation") == "sigmoid"
    )
    has_several = (outputs.get("shape") or [0])[-1] != 1
    ends_in_sigmoid = is_binary and last.get("activation") == "sigmoid"
    if loss.get("from_logits") and ((looks_like_probabilities and has_several) or ends_in_sigmoid):
        yield run.found(
            "the outputs are probabilities already, and the loss has from_logits=True",
            *spots,
            help="leave from_logits out, or the last activation",
        )
    elif not loss.get("from_logits") and not inside:
        yield run.found(
            f"outputs of {outputs['min']:.3g} to {outputs['max']:.3g} are no probabilities, and the loss takes "
            "them for such",
            *spots,
            help="give the loss from_logits=True, or end the model with softmax (or sigmoid)",
        )


def _loss_call(run: Execution, event: Event) -> Iterator[Finding]:
    """The same for a loss that the user's code calls."""
    loss, outputs, labels = event["loss"], event["outputs"], event["labels"]
    name = str(loss.get("name", ""))
    known = name in SPARSE + CATEGORICAL + BINARY or name.endswith("_with_logits")
    if not known:
        return
    spots: list[Spot] = [loss.get("place"), event["place"]] if loss.get("place") else [event["place"]]
    operations = outputs.get("operations") or []
    ends_in = operations[-1] if operations else None
    is_probability = outputs.get("sums_to_one") if "min" in outputs else ends_in in ("Softmax", "Sigmoid")
    has_several = (outputs.get("shape") or [0])[-1] != 1
    if loss.get("from_logits") and ((is_probability and has_several) or ends_in == "Sigmoid"):
        yield run.found(
            "the outputs are probabilities already, and the loss takes logits",
            *spots,
            help="leave from_logits out, or the last activation",
        )
    elif (
        not loss.get("from_logits")
        and "min" in outputs
        and (outputs["min"] < 0 or outputs["max"] > 1)
        and not _is_swapped(outputs, labels)
    ):
        yield run.found(
            f"outputs of {outputs['min']:.3g} to {outputs['max']:.3g} are no probabilities, and the loss takes "
            "them for such",
            *spots,
            help="give the loss from_logits=True, or end the model with softmax (or sigmoid)",
        )
    elif not loss.get("from_logits") and ends_in in ("BiasAdd", "MatMul", "AddV2") and not _is_swapped(outputs, labels):
        yield run.found(
            "the outputs are logits, and the loss takes them for probabilities",
            *spots,
            help="give the loss from_logits=True",
        )
    if _is_swapped(outputs, labels):
        yield run.found(
            "the loss is given the outputs first and the labels second",
            event["place"],
            help="call it with (y_true, y_pred)",
        )


def _is_swapped(outputs: Event, labels: Event) -> bool:
    return str(outputs.get("dtype", "")).startswith(("int", "uint")) and str(labels.get("dtype", "")).startswith(
        "float"
    )


@rule("EXE036", "class-weight", severity="warning", needs="execution", rank=60)
def class_weight(run: Execution) -> Iterator[Finding]:
    """Keys of `class_weight` that are not the classes of the data.

    Why: classes without a weight count as 1 or raise, and weights without a class do nothing.
    Example: keys 1 to 5 for labels 0 to 4; names in place of numbers
    Fix: one key per class number.
    Ignore: where classes are missing from a part of the data.
    Reports: none collected.
    """
    for fit in _fits(run):
        weights, counts = fit["arguments"].get("class_weight"), fit["train"].get("label_counts")
        spot = run.keyword(fit["place"], "class_weight")
        if not weights or not counts:
            continue
        kinds = fit["arguments"].get("class_weight_keys") or []
        if "str" in kinds:
            yield run.found("class_weight has names for keys: it takes class numbers", spot, severity="error")
            continue
        keys = {float(key) for key in weights}
        heavy = max(counts, key=lambda label: counts[label])
        rare = min(counts, key=lambda label: counts[label])
        heaviest, lightest = (_weight(weights, label) for label in (heavy, rare))
        if counts[heavy] > 1.5 * counts[rare] and heaviest is not None and lightest is not None and heaviest > lightest:
            yield run.found(
                f"class {heavy} has {counts[heavy]:,} records and a weight of {heaviest:.3g}, class {rare} has "
                f"{counts[rare]:,} and {lightest:.3g}: the rarer class counts even less",
                spot,
                *run.around(spot, "weight")[:1],
                help="weigh by total / (classes * count)",
                confidence="likely",
            )
        missing = sorted(set(map(float, counts)) - keys)
        if missing:
            yield run.found(
                f"class_weight has no key for {', '.join(f'{m:g}' for m in missing[:5])}",
                spot,
                help="give one key per class number",
            )


def _weight(weights: Event, label: str) -> float | None:
    return next((float(weight) for key, weight in weights.items() if float(key) == float(label)), None)


@rule("EXE037", "callback-watches-nothing", severity="warning", needs="execution", rank=60)
def callback_watches_nothing(run: Execution) -> Iterator[Finding]:
    """A callback that monitors what fit does not measure, or in the wrong direction.

    Why: early stopping never stops, or stops at the worst epoch; the best model is not saved.
    Example: `EarlyStopping(monitor="val_acc")`; `mode="min"` for an accuracy
    Fix: a name from the history, and the direction that is better.
    Ignore: never.
    Reports: none collected.
    """
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
                    f"{callback['class']} monitors {monitor!r}, and fit measures {', '.join(sorted(names))}",
                    run.keyword(spot, "monitor"),
                    help="monitor one of these, and give fit validation_data for those that begin with val_",
                )
                continue
            wants = callback.get("mode") if callback.get("mode") in ("min", "max") else callback.get("wants")
            better = (
                "min"
                if monitor.endswith("loss") or "error" in monitor
                else "max"
                if "acc" in monitor or "auc" in monitor
                else None
            )
            if wants and better and wants != better:
                yield run.found(
                    f"{callback['class']} takes {'lower' if wants == 'min' else 'higher'} {monitor} for better",
                    run.keyword(spot, "mode"),
                    help=f'use mode="{better}"',
                    severity="error",
                )


@rule("EXE038", "learning-rate", severity="warning", needs="execution", rank=60)
def learning_rate(run: Execution) -> Iterator[Finding]:
    """A learning rate that cannot be, or a schedule that ends it at once.

    Why: with too large a rate the loss jumps, with too small a one nothing happens.
    Example: `Adam(learning_rate=1.0)`; `ExponentialDecay(0.1, decay_steps=1, decay_rate=0.5)`
    Fix: 1e-3 for Adam and 1e-2 for SGD are where to begin; count schedules in steps, not epochs.
    Ignore: where the rate was found by search.
    Reports: none collected.
    """
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
                help="decay_steps counts batches, not epochs",
            )
        for callback in fit["arguments"]["callbacks"]:
            planned = callback.get("rates") or []
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
    Reports: none collected.
    """
    for fit in run.fits:
        found = (fit.get("probe") or {}).get("gradients")
        model = fit["model"]
        if not found or not found["all"]:
            continue
        nothing = [*found["missing"], *found["zero"]]
        if len(nothing) == found["all"] and found.get("loss") not in (0.0, None):
            yield run.found(
                f"none of {found['all']} trainable weights gets a gradient from the loss",
                _loss_spot(run, model),
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
    for event in run.of("gradient"):
        if event["all"] == 0:
            yield run.found(
                "a gradient is taken for no variables at all",
                event["place"],
                help="take it for model.trainable_variables",
            )
        elif event["missing"] and event["variables"] and len(event["missing"]) == event["all"]:
            yield run.found(
                f"none of {event['all']} variables gets a gradient: the loss does not depend on them, or was "
                "computed outside of the tape",
                *run.around(event["place"], NO_DERIVATIVE)[-1:],
                event["place"],
                help="compute outputs and loss inside of the tape, with operations that have a derivative",
            )
        elif event["missing"] and event["variables"] and len(event["missing"]) * 2 >= event["all"]:
            yield run.found(
                f"{len(event['missing'])} of {event['all']} variables get no gradient: "
                f"{', '.join(event['missing'][:3])}",
                event["place"],
                severity="warning",
            )


@rule("EXE040", "nothing-to-train", needs="execution", rank=55)
def nothing_to_train(run: Execution) -> Iterator[Finding]:
    """A model without trainable weights, or whose weights do not move.

    Why: training runs, and changes nothing.
    Example: `model.trainable = False` for the whole model
    Fix: freeze the base alone.
    Ignore: never.
    Reports: none collected.
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
    """A model that cannot learn eight records by heart, or diverges on them.

    Why: what cannot learn one small batch cannot learn the data.
    Example: a learning rate of 10; outputs that do not depend on the inputs; a loss with the wrong sign
    Fix: look at the learning rate first, then at the last layer and the loss.
    Ignore: where heavy regularisation keeps it from doing so.
    Reports: none collected.
    """
    for fit in run.fits:
        model, probe = fit["model"], fit.get("probe") or {}
        losses = probe.get("losses") or []
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
                _loss_spot(run, model),
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
            and (model.get("loss") or {}).get("name") in SPARSE + CATEGORICAL + BINARY
        ):
            yield run.found(
                f"the loss falls below 0, to {min(losses):.3g}: labels are not what it takes",
                _loss_spot(run, model),
                severity="error",
            )
        elif len(losses) >= 40:
            yield from _flat(run, fit, losses, probe.get("losses_with_adam") or [], spot)


def _flat(run: Execution, fit: Event, losses: list[float], adam: list[float], spot: Spot) -> Iterator[Finding]:
    model = fit["model"]
    nothing = fit["model"]["trainable"] == 0
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
            f"the loss of one batch of 8 stays at {losses[-1]:.4g} for {len(losses)} steps, with Adam(0.001) as well",
            _loss_spot(run, model),
            fit["place"],
            help="look at the last layer, the loss and the labels",
            confidence="likely",
        )
    elif min(adam[-5:]) < adam[0] * 0.7 and min(losses[-5:]) > losses[0] * 1.05:
        yield run.found(
            f"the loss of one small batch rises from {losses[0]:.3g} to {losses[-1]:.3g}; with Adam(0.001) it "
            f"falls to {adam[-1]:.3g}",
            spot,
            help="lower the learning rate",
        )


@rule("EXE042", "random-at-inference", severity="warning", needs="execution", rank=60)
def random_at_inference(run: Execution) -> Iterator[Finding]:
    """A model that gives other outputs for the same batch with `training=False`.

    Why: dropout or noise stays switched on when the model is used.
    Example: `Dropout(0.5)(x, training=True)`
    Fix: leave `training=True` out of the model.
    Ignore: where it is there to measure uncertainty.
    Reports: none collected.
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
            )


@rule("EXE043", "never-adapted", needs="execution", rank=60)
def never_adapted(run: Execution) -> Iterator[Finding]:
    """A Normalization layer without statistics.

    Why: it passes everything on as it is.
    Example: `keras.layers.Normalization()` without `adapt`
    Fix: `layer.adapt(train.map(lambda x, y: x))` before training.
    Ignore: never.
    Reports: none collected.
    """
    told: set[str] = set()
    for fit in run.fits:
        for layer in fit["model"]["layers"]:
            if layer["class"] == "Normalization" and layer.get("adapted") is False and layer["name"] not in told:
                told.add(layer["name"])
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
    Reports: none collected.
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
