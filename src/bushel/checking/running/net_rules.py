"""What reaches the model against what it is made for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bushel.checking.findings import Finding, rule, seen
from bushel.checking.rules.keras_expectations import BINARY, CROSSENTROPIES, Pair, loss_called, misfits, network_range
from bushel.checking.running.execution import Event, Execution, Spot

SCALING = ("Rescaling", "Normalization", "BatchNormalization", "LayerNormalization", "Lambda")
LAYERS_AHEAD = 6
FARTHER = 12.0  # times as far as pixels of one image differ
LARGEST, SMALLEST = 1e6, 1e-20  # of values that a model is given


def _fits(run: Execution) -> Iterator[Event]:
    """Fits of which the model and the data are known."""
    return (fit for fit in run.fits if fit.get("train") and not fit["train"].get("failed"))


def _labels(look: Event) -> Event | None:
    found = list((look.get("labels") or {}).values())
    return found[0] if len(found) == 1 else None


def loss_spot(run: Execution, model: Event) -> Spot:
    """Where a model got its loss."""
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
    return [*lines[:2], *spots[:2]] or [link["place"] for link in run.chain(look)[:1]]


@rule("EXE030", "input-range", severity="warning", needs="execution", rank=60, silences=("EXE041",))
def input_range(run: Execution) -> Iterator[Finding]:
    """Pixels of 0 to 255 into a model that does not scale them, or none where it does.

    Why: weights are made for inputs of about 1; with 255 times as much training is slow or diverges.
    Example: `decode_jpeg` and `resize` without `/ 255`; an EfficientNet given 0..1
    Fix: scale once, in the pipeline or in the model.
    Ignore: where the first layers are made for the range.
    """
    for fit in _fits(run):
        yield from _ranges(run, fit["model"], fit["train"])
    if run.loop is not None and run.loop["models"]:
        for look in run.loop["train"][:1]:
            yield from _ranges(run, run.loop["models"][0], look)


def _ranges(run: Execution, model: Event, look: Event) -> Iterator[Finding]:
    scaling = _scaling_layers(model)
    names = [model["name"], *(layer["name"] for layer in model["layers"][:LAYERS_AHEAD] if layer["is_model"])]
    scales_itself = any(network_range(name) == "0..255" for name in names)
    custom = [layer for layer in _ahead(model) if not layer["builtin"]]
    rescaling = [layer for layer in scaling if layer["class"] == "Rescaling" and (layer.get("scale") or 1) < 0.02]
    weighted = [layer["class"] for layer in model["layers"] if layer["weights"] and not layer["is_model"]]
    is_pretrained = any(True for _ in run.of("weights"))  # its statistics are those of another range
    normalises = "BatchNormalization" in weighted[:2] and not is_pretrained
    applications = [event["name"] for event in run.of("weights") if network_range(event["name"])]
    frozen = sum(not layer["trainable"] for layer in model["layers"])
    drawing = [link for link in run.chain(look) if link["random"] == "each time"]
    for _, facts in _images(look):
        low, high = facts["min"], facts["max"]
        if drawing and 0 < facts.get("spread", 0.0) * FARTHER < high - low:
            yield run.found(
                f"images are of {facts['spread']:.3g} from dark to bright, and are moved at random between {low:.3g} "
                f"and {high:.3g}",
                *[spot for link in drawing for spot in run.lines_in(link["function"], "brightness|uniform|normal")],
                drawing[-1]["place"],
                help="give the random change the scale of the pixels: max_delta=0.1 for pixels of 0..1",
            )
            continue
        if not rescaling and scales_itself and low >= 0 and 0 < high <= 1.0:
            yield run.found(
                f"images of {low:.2g} to {high:.2g} go into {names[-1]}, which takes 0 to 255 and scales them itself",
                *_map_spots(run, look, SCALES),
                help="leave the scaling out",
            )
        elif not scaling and not scales_itself and not custom and not normalises and low >= 0 and high > 100:
            yield run.found(
                f"images of {low:.3g} to {high:.3g} reach the first layer, but nothing scales them",
                *_map_spots(run, look, DECODES),
                help="divide by 255, or begin the model with Rescaling(1 / 255)",
                confidence="likely",
            )
        elif len(applications) == 1 and not scaling and not custom and _is_far(applications[0], low, high):
            yield run.found(
                f"images of {low:.3g} to {high:.3g} go into {applications[0]}, which is made for "
                f"{network_range(applications[0])}",
                *_map_spots(run, look, SCALES),
                *run.lines_of(r"import.*preprocess_input"),
                help="use the preprocess_input of its own module",
                severity=None if frozen * 2 > len(model["layers"]) else "info",  # weights may learn another range
            )


def _is_far(name: str, low: float, high: float) -> bool:
    """Whether images are in another range than the one for which a network was trained."""
    size = max(abs(low), abs(high))
    return {"-1..1": size > 2.5, "the means of ImageNet taken off": size < 5, "standardised": size > 10}.get(
        network_range(name) or "", False
    )


@seen("PIP041")
def scaled_twice(run: Execution) -> Iterator[Finding]:
    """Inputs that were divided by 255 twice."""
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
                    f"images range from {low:.2g} to {high:.2g}: they were scaled twice", *spots, help="scale once"
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


@rule("EXE032", "inputs-constant", needs="execution", rank=60)
def inputs_say_nothing(run: Execution) -> Iterator[Finding]:
    """Inputs that are the same for every record.

    Why: there is nothing to learn from.
    Example: 0..1 floats cast to integers: all black
    Fix: look at the conversion that the finding names.
    Ignore: where an input is a constant on purpose.
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


@rule("EXE045", "bytes-of-another-type", severity="warning", needs="execution", rank=40)
def bytes_of_another_type(run: Execution) -> Iterator[Finding]:
    """Raw bytes that are decoded as a type in which their values make no sense.

    Why: the bits of a float read as an integer are around 1,000,000,000, and those of an integer read as a float are
    nearly 0: the shape is right, and the values are noise.
    Example: `tf.io.decode_raw(row["x"], tf.int32)` of what was written as float32
    Fix: use the dtype with which the values were written.
    Ignore: where values are really that large, as times in seconds are.
    """
    for _, look in run.data_of("train"):
        decoded = [spot for link in run.chain(look) for spot in run.lines_in(link["function"], r"decode_raw\(")]
        for facts in [*(look.get("inputs") or {}).values(), *(look.get("labels") or {}).values()]:
            largest = max(abs(facts.get("min", 1.0)), abs(facts.get("max", 1.0)))
            if decoded and (largest > LARGEST or 0 < largest < SMALLEST):
                yield run.found(
                    f"decode_raw gives values of {facts['min']:.3g} to {facts['max']:.3g}: bytes of another type",
                    *decoded[:2],
                    help="use the dtype with which the values were written",
                    confidence="likely",
                )
                return


@rule("EXE046", "integers-wrap-around", needs="execution", rank=35)
def integers_wrap_around(run: Execution) -> Iterator[Finding]:
    """Something is taken off unsigned integers, such as the mean off pixels.

    Why: they have no negative values: in uint8, 3 - 5 is 254, and dark pixels become the brightest.
    Example: `tf.io.decode_jpeg(data) - 127`
    Fix: `tf.cast(image, tf.float32) - 127`
    Ignore: where values are known to be larger than what is taken off.
    """
    reported: set[tuple[str, int]] = set()
    for link in run.links.values():
        for place in link.get("wraps") or ():
            if (place[0], place[1]) not in reported:
                reported.add((place[0], place[1]))
                yield run.found(
                    "this is taken off unsigned integers, which wrap around below 0",
                    place,
                    link["place"],
                    help="cast to tf.float32 first",
                )


def _array_spots(run: Execution, look: Event) -> list[Spot]:
    """The lines that make or change the arrays of a training, the last one first, and the call that it is given to."""
    fits = [fit["place"] for fit in run.fits if look.get("arrays") and look in (fit.get("train"), fit.get("val"))]
    return [spot for place in fits[:1] for spot in (*run.made_before(place, given=True)[:3], place)]


@rule("EXE033", "not-a-number", needs="execution", rank=40)
def not_a_number(run: Execution) -> Iterator[Finding]:
    """NaN or infinite values in batches.

    Why: one of them makes the loss and then all weights NaN.
    Example: a division by a deviation that is 0; a logarithm of 0
    Fix: repair the values, or the arithmetic.
    Ignore: where the model masks them.
    """
    for role, look in run.data_of("train", "val"):
        parts = [*(look.get("inputs") or {}).items(), *(look.get("labels") or {}).items()]
        for name, facts in parts:
            bad = (facts.get("nan") or 0) + (facts.get("inf") or 0)
            if bad:
                losses = [loss for fit in run.fits for loss in (fit.get("probe") or {}).get("losses") or ()]
                is_masked = bool(losses) and all(math.isfinite(loss) for loss in losses)
                yield run.found(
                    f"{bad:,} values of {name or 'a tensor'} are NaN or infinite in the first batches of {role}",
                    *(_map_spots(run, look, DIVIDES) or run.lines_of(r"/.*std|\blog\(|sqrt\(")),
                    *_array_spots(run, look),
                    help="look at divisions and logarithms in the map function, and at the data with bushel check",
                    severity="info" if is_masked else None,
                )
                break


@seen("PIP043")
def labels_seen_under_loss(run: Execution) -> Iterator[Finding]:
    """One kind of label under the loss for another."""
    return _misfits(run, "labels")


@seen("PIP051")
def labels_seen_without_output(run: Execution) -> Iterator[Finding]:
    """Labels that the last layer has no output for."""
    return _misfits(run, "head")


def _misfits(run: Execution, kind: str) -> Iterator[Finding]:
    for fit in _fits(run):
        model = fit["model"]
        for misfit in misfits(pair_of(fit)):
            spots = [_last_spot(model), loss_spot(run, model)]
            spots = spots if kind == "head" else spots[::-1]
            if misfit.kind == kind:
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
    if labels.get("empty_rows"):
        return {"labels": "one_hot", "depth": shape[-1], "empty": labels["empty_rows"]}
    is_row = len(shape) == 2 and shape[-1] > 1
    if is_row and labels.get("integers") and labels["min"] >= 0 and labels["max"] <= 1:
        return {"labels": "rows", "depth": shape[-1]}
    values = [float(value) for value in counts or ()] or [labels["min"], labels["max"]]
    if is_row or len(shape) > 2:
        is_float = str(labels.get("dtype", "")).startswith("float")
        return {"labels": "amounts", "low": labels["min"], "high": labels["max"]} if is_float else {}
    return {"labels": "numbers" if labels.get("integers") else "amounts", "low": min(values), "high": max(values)}


def _label_spots(run: Execution, look: Event) -> list[Spot]:
    """Lines that make labels: one-hot rows, and arithmetic with what is called label or class."""
    return _map_spots(run, look, r"one_hot|to_categorical|(label|class|target)\S* [-+] 1")[:1]


@seen("PIP044")
def logits_and_probabilities(run: Execution) -> Iterator[Finding]:
    """Probabilities under a loss that takes logits, or the other way round."""
    for fit in _fits(run):
        model, outputs = fit["model"], (fit.get("probe") or {}).get("outputs") or {}
        loss = model.get("loss") or {}
        if "min" not in outputs or loss_called(loss.get("name") or "") not in CROSSENTROPIES:
            continue
        yield from _logits(run, loss, outputs, [loss_spot(run, model), _last_spot(model)], model.get("last") or {})
    for event in run.of("loss"):
        yield from _loss_call(run, event)
    heads = [(fit["model"], (fit.get("probe") or {}).get("outputs") or {}) for fit in _fits(run)]
    heads += [(model, model.get("outputs") or {}) for model in (run.loop or {}).get("models", ())]
    for model, outputs in heads:
        if outputs.get("sums_along") is not None:
            yield run.found(
                f"outputs of shape {outputs['shape']} sum to 1 along axis {outputs['sums_along']}, not along the last",
                _last_spot(model),
                *run.lines_of(r"softmax\(.*axis|Softmax\("),
                help="take the softmax along the last axis, that of the classes",
            )


def _logits(run: Execution, loss: Event, outputs: Event, spots: list[Spot], last: Event) -> Iterator[Finding]:
    is_binary = loss_called(loss["name"]) in BINARY
    inside = outputs["min"] >= 0 and outputs["max"] <= 1
    looks_like_probabilities = inside and (
        bool(outputs.get("sums_to_one")) if not is_binary else last.get("activation") == "sigmoid"
    )
    has_several = (outputs.get("shape") or [0])[-1] != 1
    ends_in_sigmoid = is_binary and last.get("activation") == "sigmoid"
    if loss.get("from_logits") and ((looks_like_probabilities and has_several) or ends_in_sigmoid):
        yield run.found(
            "the outputs are probabilities already, but the loss has from_logits=True",
            *spots,
            help="leave from_logits out, or the last activation",
        )
    elif not loss.get("from_logits") and not inside:
        yield run.found(
            f"outputs of {outputs['min']:.3g} to {outputs['max']:.3g} are not probabilities, but the loss takes "
            "them for such",
            *spots,
            help="give the loss from_logits=True, or end the model with softmax (or sigmoid)",
        )


def _loss_call(run: Execution, event: Event) -> Iterator[Finding]:
    """The same for a loss that the user's code calls."""
    loss, outputs, labels = event["loss"], event["outputs"], event["labels"]
    name = str(loss.get("name", ""))
    known = loss_called(name) in CROSSENTROPIES or name.endswith("_with_logits")
    if not known:
        return
    spots: list[Spot] = [loss.get("place"), event["place"]] if loss.get("place") else [event["place"]]
    operations = outputs.get("operations") or []
    ends_in = operations[-1] if operations else None
    is_probability = outputs.get("sums_to_one") if "min" in outputs else ends_in in ("Softmax", "Sigmoid")
    has_several = (outputs.get("shape") or [0])[-1] != 1
    if loss.get("from_logits") and ((is_probability and has_several) or ends_in == "Sigmoid"):
        yield run.found(
            "the outputs are probabilities already, but the loss takes logits",
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
            f"outputs of {outputs['min']:.3g} to {outputs['max']:.3g} are not probabilities, but the loss takes "
            "them for such",
            *spots,
            help="give the loss from_logits=True, or end the model with softmax (or sigmoid)",
        )
    elif not loss.get("from_logits") and ends_in in ("BiasAdd", "MatMul", "AddV2") and not _is_swapped(outputs, labels):
        yield run.found(
            "the outputs are logits, but the loss takes them for probabilities",
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


@rule("EXE048", "softmax-over-one-value", needs="execution", rank=35)
def largest_of_one(run: Execution) -> Iterator[Finding]:
    """Softmax or argmax along an axis that has a single value.

    Why: softmax gives 1 and argmax gives 0, whatever the value is: attention attends to everything alike, and every
    record is of class 0.
    Example: `softmax(scores, axis=-1)` of scores of shape (batch, time, 1); `np.argmax(p, axis=1)` of one sigmoid
    Fix: the axis of time, or of classes; `p > 0.5` for one sigmoid.
    Ignore: never.
    """
    reported: set[str] = set()
    for event in run.of("of_one"):
        if f"{event['place'][:2]}" not in reported:
            reported.add(f"{event['place'][:2]}")
            is_argmax = "argmax" in event["name"]
            yield run.found(
                f"axis {event['axis']} has one value, of which {event['name']} is always {0 if is_argmax else 1}",
                event["place"],
                *run.lines_of("argmax" if is_argmax else r"[sS]oftmax\("),
                help="compare one sigmoid with 0.5" if is_argmax else "take it along the axis of what is compared",
            )


@rule("EXE049", "records-mixed", severity="warning", needs="execution", rank=40, silences=("EXE041",))
def records_mixed(run: Execution) -> Iterator[Finding]:
    """A model whose answer for one record depends on the other records of the batch, with `training=False`.

    Why: each record is judged by what happens to be beside it; served one by one, the model answers otherwise.
    Example: a mean or a softmax along axis 0, which is that of the records; outputs of shape (32, 1) less labels of
    shape (32,), which gives (32, 32)
    Fix: leave axis 0 alone in layers; give outputs and labels one shape.
    Ignore: where a batch is one sample, such as a graph.
    """
    yield from _compared_with_all(run)
    models = [(fit["model"], (fit.get("probe") or {}).get("outputs") or {}) for fit in _fits(run)]
    models += [(model, model.get("outputs") or {}) for model in (run.loop or {}).get("models", ())]
    for model, outputs in models:
        if outputs.get("mixes"):
            custom = [layer["place"] for layer in model["layers"] if not layer["builtin"]]
            yield run.found(
                "outputs for the same records change with the other records of the batch",
                *run.lines_of(r"axis\s*=\s*\(?0\b"),
                *custom[:2],
                model.get("place"),
                help="leave axis 0, that of the records, alone",
            )


def _compared_with_all(run: Execution) -> Iterator[Finding]:
    """Values of each record that meet those of all others: a column and a row in one operation."""
    for event in run.of("spread"):
        size = event["size"] or "n"
        yield run.found(
            f"shapes ({size}, 1) and ({size},) give ({size}, {size}) here: each record meets all others of the batch",
            event["place"],
            help="give both one shape: tf.squeeze(outputs, -1), or labels[:, None]",
            severity="error",
        )


@rule("EXE047", "loss-prefers-wrong-answers", needs="execution", rank=30)
def loss_prefers_wrong_answers(run: Execution) -> Iterator[Finding]:
    """A custom loss that is larger for right answers than for wrong ones.

    Why: training makes a loss small: here it teaches the model to answer wrongly.
    Example: a Dice coefficient or an IoU that is returned as it is
    Fix: return `1 - dice`, or its negative.
    Ignore: never.
    """
    for fit in run.fits:
        judged = (fit.get("probe") or {}).get("judged") or []
        shape = ((fit.get("probe") or {}).get("outputs") or {}).get("shape") or []
        # One output that is no probability may be a distance, which is small for what is alike.
        is_answer = (
            (fit["model"].get("last") or {}).get("activation") == "sigmoid" or len(shape) > 2 or shape[-1:] > [1]
        )
        is_known = is_answer and len(judged) == 2 and all(math.isfinite(one) for one in judged)
        if is_known and judged[0] > judged[1] + 1e-3 * abs(judged[1]):
            loss = fit["model"].get("loss") or {}
            returns = run.lines_in(loss.get("function"), r"\breturn\b")
            yield run.found(
                f"the loss is {judged[0]:.3g} for right answers and {judged[1]:.3g} for wrong ones",
                *returns[-1:],
                loss_spot(run, fit["model"]),
                help="return 1 minus it, or its negative",
            )


@rule("EXE036", "class-weight", severity="warning", needs="execution", rank=60)
def class_weight(run: Execution) -> Iterator[Finding]:
    """Keys of `class_weight` that are not the classes of the data.

    Why: classes without a weight count as 1 or raise, and weights without a class do nothing.
    Example: keys 1 to 5 for labels 0 to 4; names in place of numbers
    Fix: one key per class number.
    Ignore: where classes are missing from a part of the data.
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
