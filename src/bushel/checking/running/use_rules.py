"""Parts of a script that do not go together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Literal

from bushel.checking.findings import Finding, rule, seen
from bushel.checking.rules.keras_expectations import MetricMisfit, Pair, loss_called, metric_misfit
from bushel.checking.running.execution import Event, Execution, Spot

TIMES_LARGER = 20.0
MOSTLY_PADDED = 0.3
RECURRENT = ("LSTM", "GRU", "SimpleRNN", "Bidirectional", "RNN")


def _map_places(run: Execution, look: Event) -> list[Spot]:
    chain = run.chain(look)
    maps = [link for link in chain if link["name"] == "map"] or chain[:1]
    return [spot for link in maps[::-1] for spot in (link["place"], link["function"]) if spot][:3]


def _lines_in_maps(run: Execution, look: Event, pattern: str) -> list[Spot]:
    """Lines of the functions that make the batches, the last one first."""
    functions = [link["function"] for link in run.chain(look) if link["name"] == "map" and link["function"]]
    return [spot for function in functions[::-1] for spot in run.lines_in(function, pattern)][:2]


@seen("PIP067")
def prepared_in_two_ways(run: Execution) -> Iterator[Finding]:
    """Validation or test data in another range, shape or type than training data."""
    reported: set[str] = set()
    for role, train, look, _, event in run.comparisons():
        if train.get("standard") and look.get("standard") and train["records"] != look["records"]:
            yield run.found(
                "training and validation data both have mean 0 and deviation 1 in every column: each was scaled by "
                "its own statistics",
                *run.lines_of(r"\.mean\(|\.std\(|fit_transform|moments\(|reduce_std|\.adapt\("),
                help="scale both by the statistics of the training data",
                severity="warning",
            )
            return
        for message in _differences(train, look):
            if message not in reported:
                reported.add(message)
                filters = [link["place"] for link in run.chain(train) if link["name"] == "filter"]
                given = [event["place"]] if event is not None and look.get("arrays") and role != "val" else []
                yield run.found(
                    f"training data has {message} in {_MEASURED[role]}",
                    *(filters[:1] if "label" in message else ()),
                    *_map_places(run, look),
                    *[spot for place in given for spot in (*run.made_before(place, given=True)[:2], place)],
                    help="prepare both with the same function",
                )


_MEASURED = {"val": "validation", "evaluate": "evaluation", "predict": "prediction"}


def _differences(train: Event, other: Event) -> Iterator[str]:
    for name, facts in (train.get("inputs") or {}).items():
        there = (other.get("inputs") or {}).get(name)
        if there is None or "max" not in facts or "max" not in there:
            continue
        sizes = [max(abs(one["min"]), abs(one["max"])) for one in (facts, there)]
        spreads = [one.get("std") or 0.0 for one in (facts, there)]
        if min(sizes) > 0 and min(spreads) > 0:
            is_larger = min(max(sizes) / min(sizes), max(spreads) / min(spreads)) > TIMES_LARGER
            if is_larger or {_is_signed(facts), _is_signed(there)} == {True, False}:
                yield (
                    f"inputs of {facts['min']:.3g} to {facts['max']:.3g}, and they are {there['min']:.3g} to "
                    f"{there['max']:.3g}"
                )
    counts, others = train.get("label_counts"), other.get("label_counts")
    if counts and others and train.get("complete") and len(counts) <= 100:
        new = {float(one) for one in others} - {float(one) for one in counts}
        share = sum(n for one, n in others.items() if float(one) in new) / max(sum(others.values()), 1)
        whole = all(float(one) == round(float(one)) for one in counts)
        if new and share > 0.05 and whole and len(counts) < 0.2 * sum(counts.values()):
            yield f"no label {', '.join(f'{one:g}' for one in sorted(new)[:4])}, and it is there"


def _is_signed(facts: Event) -> bool | None:
    """Whether pixels lie on both sides of 0, or all on one; None if that is not clear, or if they are not pixels."""
    size = max(abs(facts["min"]), abs(facts["max"]))
    if len(facts.get("shape") or ()) != 4 or not size:
        return None
    if facts["min"] < -0.3 * size and abs(facts["mean"]) < 0.15 * size:
        return True
    return False if facts["min"] >= 0 and facts["mean"] > 0.15 * size else None


@rule("EXE061", "label-among-inputs", needs="execution", rank=35)
def label_among_inputs(run: Execution) -> Iterator[Finding]:
    """The label is part of the inputs.

    Why: the model learns to copy it, and has nothing to copy when it is used.
    Example: a dict of all features given as inputs; targets of a language model that are not shifted
    Fix: take the label out of the inputs; shift targets by one.
    Ignore: where the model should return its inputs, as an autoencoder does.
    """
    yield from _decided_by_label(run)
    for fit in run.fits:
        look, loss = fit.get("train"), ((fit["model"].get("loss") or {}).get("name") or "")
        if not look or not look.get("label_in"):
            continue
        labels: Event = next(iter((look.get("labels") or {}).values()), {})
        is_copy = look["label_in"].startswith(("input", "the input")) and len(labels.get("shape") or []) > 1
        if is_copy and "ategorical" not in loss and "categorical" not in loss:
            continue
        yield run.found(
            f"{look['label_in']} is the label itself",
            *(_map_places(run, look) or [fit["place"]]),
            *_lines_in_maps(run, look, r"\b(stack|concat)\("),
            *_lines_in_maps(run, look, r"\breturn\b"),
            *[spot for origin in _origins(run, fit) for spot in run.made_before(origin)[:2]],
            *(run.lines_of(rf"[\"']{re.escape(run.data.label)}[\"']") if run.data and run.data.label else ()),
            help="take it out of the inputs" if not is_copy else "shift the targets by one",
        )


def _decided_by_label(run: Execution) -> Iterator[Finding]:
    """Inputs that change with the feature that is the label, and with others: it is mixed into them."""
    for use in run.traced:
        for part in use.parts if use.role == "train" and use.label is not None else ():
            others = [name for name in part.features if use.label is not None and name != use.label.feature]
            if use.label is not None and part.slot == "input" and others and len(others) < len(part.features):
                yield run.found(
                    f"{use.label.feature!r} decides the label, and is mixed into "
                    f"{f'input {part.name!r}' if part.name else 'the input'} with {', '.join(others[:4])}",
                    *[(place.file, place.line, place.function) for place in (*part.places, *use.places)],
                    help="take it out of the inputs",
                )
                return


def _origins(run: Execution, fit: Event) -> list[Spot]:
    """Where arrays become a dataset, or are given to `fit` as they are."""
    chain = run.chain(fit["train"])
    made = [link["place"] for link in chain[:1] if link["name"].startswith("from_tensor")]
    return made if chain else [fit["place"]]


@seen("PIP037")
def metric_does_not_fit(run: Execution) -> Iterator[Finding]:
    """A metric that does not measure what it seems to."""
    for fit in run.fits:
        look, model = fit.get("train") or {}, fit["model"]
        labels = list((look.get("labels") or {}).values())
        outputs = (fit.get("probe") or {}).get("outputs") or {}
        shape = outputs.get("shape") or []
        if len(labels) != 1 or not shape or "min" not in labels[0]:
            continue
        is_amount = labels[0].get("integers") is False and len(labels[0]["shape"]) < 3 and not look.get("label_in")
        loss = loss_called((model.get("loss") or {}).get("name") or "")
        for name in model.get("metrics") or []:
            why = _misfit(name, labels[0], outputs, loss if is_amount else "", is_logit=_gives_logits(model, outputs))
            if why:
                yield run.found(why.message, run.keyword(model.get("compiled_at"), "metrics"), help=why.help)
    for event in run.of("metrics"):
        for metric in event["metrics"]:
            if metric.get("labels") and metric.get("outputs"):
                why = _misfit(metric["class"], metric["labels"], metric["outputs"])
                if why:
                    yield run.found(why.message, metric["place"], metric.get("updated_at"), help=why.help)


def _gives_logits(model: Event, outputs: Event) -> bool:
    """Whether the loss takes logits, and is given what cannot be probabilities."""
    is_beyond = "min" in outputs and (outputs["min"] < 0 or outputs["max"] > 1)
    return bool((model.get("loss") or {}).get("from_logits")) and is_beyond


def _misfit(name: str, labels: Event, outputs: Event, loss: str = "", *, is_logit: bool = False) -> MetricMisfit | None:
    """What is wrong with a metric; `loss` is that of a model which predicts amounts."""
    shape, of_labels = outputs.get("shape") or [], labels.get("shape") or []
    classes = shape[-1] if len(shape) > 1 else 1
    is_number = len(of_labels) == 1 or (of_labels and of_labels[-1] == 1)
    is_float = str(outputs.get("dtype", "")).startswith("float")
    is_binary = labels.get("integers") and labels.get("max") == 1 and labels.get("min") == 0
    is_rows = is_binary and not labels.get("one_hot") and len(shape) == 2 and of_labels[1:] == shape[1:]
    if name in ("MeanIoU", "IoU") and is_float and outputs.get("integers") is not True:
        message = f"{name} takes class numbers, and makes integers of probabilities: all are 0"
        return MetricMisfit(message, "use OneHotMeanIoU or BinaryIoU, or give it the argmax of the outputs")
    if not is_float:
        return None
    activation = None if outputs.get("integers") is True else "softmax" if outputs.get("sums_to_one") else "none"
    kind: Literal["numbers", "one_hot", "rows", "amounts"] | None = "numbers" if is_number else None
    kind = "amounts" if loss else "one_hot" if labels.get("one_hot") else "rows" if is_rows and classes > 1 else kind
    return metric_misfit(name, Pair(loss, is_logit, activation, classes, kind))


@seen("PIP057", severity="warning")
def unfrozen_without_compile(run: Execution) -> Iterator[Finding]:
    """Layers frozen or unfrozen between two trainings without `compile`."""
    for fit in run.fits:
        if fit.get("unfrozen"):
            before, now = fit["unfrozen"]
            yield run.found(
                f"{now} weights are trainable where {before} were when the model was last trained, and it was not "
                "compiled since",
                fit["place"],
                fit.get("changed_at"),
                help="call compile again after trainable has changed",
            )


@rule("EXE064", "nothing-is-trained", needs="execution", rank=30)
def nothing_is_trained(run: Execution) -> Iterator[Finding]:
    """No epoch is run, all sample weights are 0, or another model is evaluated than was trained.

    Why: what is measured was never trained.
    Example: `fit(epochs=5, initial_epoch=5)`; a model that is built again before `evaluate`
    Fix: epochs counts from 0, `initial_epoch` included; evaluate the model that was trained.
    Ignore: where an untrained model is a baseline.
    """
    for fit in run.fits:
        given = fit["arguments"]
        if given.get("initial_epoch") and given["initial_epoch"] >= (given.get("epochs") or 1):
            yield run.found(
                f"fit is to run from epoch {given['initial_epoch']:g} to {given['epochs']:g}: no epoch",
                run.keyword(fit["place"], "initial_epoch"),
                help="epochs is the number of the last epoch, not how many are added",
            )
        for facts in ((fit.get("train") or {}).get("weights") or {}).values():
            if facts.get("max") == 0 and facts.get("min") == 0:
                yield run.found("all sample weights are 0", *_map_places(run, fit["train"]))
            elif (facts.get("min") or 0) < 0:
                yield run.found(
                    f"sample weights reach down to {facts['min']:.3g}: labels may have taken their place",
                    *_map_places(run, fit["train"]),
                    *_lines_in_maps(run, fit["train"], r"\breturn\b"),
                )
    for event in run.of("evaluate", "predict"):
        if event.get("untrained"):
            yield run.found(
                f"{event['kind']} uses a model that was neither trained nor loaded, while another one was trained",
                event["place"],
                severity="warning",
            )


@rule("EXE065", "cache-shared", needs="execution", rank=40)
def cache_shared(run: Execution) -> Iterator[Finding]:
    """Two datasets that are cached in one file.

    Why: the second one reads what the first has written: validation is training data.
    Example: `train.cache("cache")` and `val.cache("cache")`
    Fix: a file for each.
    Ignore: never.
    """
    seen: dict[str, Event] = {}
    for link in run.links.values():
        name = link["arguments"].get("filename") if link["name"] == "cache" else None
        if not isinstance(name, str) or not name:
            continue
        other = seen.setdefault(name, link)
        if other is not link and other["inputs"] != link["inputs"] and _roots(run, other) != _roots(run, link):
            own = [
                spot for spot in (link["place"], *link["callers"]) if spot not in (other["place"], *other["callers"])
            ]
            yield run.found(f"two datasets are cached in one file, {name!r}", link["place"], *own[:1], other["place"])


def _roots(run: Execution, link: Event) -> set[str]:
    files: set[str] = set(link["files"])
    for id in link["inputs"]:
        if id in run.links:
            files |= _roots(run, run.links[id])
    return files


@seen("PIP017")
def pairs_shuffled_apart(run: Execution) -> Iterator[Finding]:
    """Inputs and labels that are shuffled separately and then zipped."""
    for link in run.links.values():
        if link["name"] != "zip" or len(link["inputs"]) < 2:
            continue
        branches = [run.links[id] for id in link["inputs"] if id in run.links]
        if any(branch.get("parts") for branch in branches):
            continue  # pairs of whole records are mixed on purpose
        shuffles = [_own_shuffles(run, branch) for branch in branches]
        seeds = {tuple(one["arguments"].get("seed") for one in found) for found in shuffles}
        if any(shuffles) and (len(seeds) > 1 or any(None in seed for seed in seeds)):
            ids = [{one["id"] for one in found} for found in shuffles]
            if len({frozenset(one) for one in ids}) > 1:
                spot = next(found[-1]["place"] for found in shuffles if found)
                yield run.found(
                    "inputs and labels are shuffled apart before they are zipped",
                    spot,
                    link["place"],
                    help="zip first, then shuffle",
                )


def _own_shuffles(run: Execution, link: Event) -> list[Event]:
    found = [link] if link["name"] == "shuffle" else []
    for id in link["inputs"]:
        if id in run.links:
            found = _own_shuffles(run, run.links[id]) + found
    return found


@seen("PIP058")
def made_in_every_step(run: Execution) -> Iterator[Finding]:
    """An optimizer or an iterator that is made again in every step."""
    for event in run.of("made_again"):
        yield run.found(
            f"the optimizer is made again in every step ({event['count']} times): it forgets its momentum",
            event["place"],
            help="make it once, before the loop",
        )
    for before, fit in itertools.pairwise(run.fits):
        is_same = all(before[part] == fit[part] for part in ("place", "arguments"))
        rates = [(one["model"].get("optimizer") or {}).get("rate") for one in (before, fit)]
        is_same &= before["model"]["number"] == fit["model"]["number"] and rates[0] == rates[1]
        if fit.get("compiled") and is_same and before["model"]["trainable"] == fit["model"]["trainable"]:
            yield run.found(
                "the model is compiled again before every fit: the optimizer forgets its momentum",
                fit["model"].get("compiled_at"),
                fit["place"],
                help="compile once, before the loop",
            )
            break
    for event in run.of("begun_again"):
        link = run.links.get(event["link"])
        if link is not None and not _own_shuffles(run, link) and run.loop is not None:
            yield run.found(
                "the iterator is made again in every step: it gives the first batch each time",
                event["place"],
                help="make it once, before the loop",
                severity="error",
            )


@rule("EXE068", "padding-in-loss", severity="warning", needs="execution", rank=60)
def padding_not_masked(run: Execution) -> Iterator[Finding]:
    """Padded sequences into a recurrent layer without a mask.

    Why: the last state is that after all the padding; short sequences look alike.
    Example: `padded_batch` and `Embedding(n, 16)`, `LSTM(32)`
    Fix: `Embedding(n, 16, mask_zero=True)`
    Ignore: where 0 is a token, and rows are of one length.
    """
    for fit in run.fits:
        look, layers = fit.get("train") or {}, fit["model"]["layers"]
        masks = any(layer["class"] == "Masking" or layer.get("mask_zero") for layer in layers) or look.get("weights")
        if look.get("padded_labels") and not masks and (fit["model"].get("loss") or {}).get("ignores") is None:
            padding = [link["place"] for link in run.chain(look) if link["name"] == "padded_batch"]
            yield run.found(
                "labels are padded with 0, which is a real label: padding counts as right answers",
                *[layer["place"] for layer in layers if layer["class"] == "Embedding"][:1],
                *padding[:1],
                help="mask it: mask_zero=True, sample weights, or ignore_class",
            )
            continue
        padded = any(share >= MOSTLY_PADDED for share in (look.get("padding") or {}).values())
        embeddings = [layer for layer in layers if layer["class"] == "Embedding"]
        recurrent = [layer for layer in layers if layer["class"] in RECURRENT]
        masking = any(layer["class"] == "Masking" or layer.get("mask_zero") for layer in layers)
        if padded and embeddings and recurrent and not masking:
            yield run.found(
                "sequences end in padding, and no mask keeps it from the recurrent layer",
                embeddings[0]["place"],
                help="give the Embedding mask_zero=True",
                confidence="likely",
                severity="info",  # 0 may be a token, and a model may learn to leave it out
            )
