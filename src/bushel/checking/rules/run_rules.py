"""RUN: what was recorded while a model was trained, and the likely cause where nothing was learned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bushel.checking.report.findings import Finding, Location, count_of_things
from bushel.checking.rules.probe_rules import Probe
from bushel.checking.rules.registry import rule

__all__ = ["RunFacts"]

FLAT = 0.03  # share by which a loss must fall not to be flat
LEAST_STEPS = 30  # before which a loss may be flat
WAITING = 0.10  # share of the time that may be spent waiting for data
LEAST_SECONDS = 5.0
FEW_CLASSES = 0.6  # of the classes that a batch of a random order would have
NEARLY_NOTHING = 0.02  # the largest value of inputs that were scaled twice


@dataclass
class RunFacts:
    """What a run was, and what was noted of it; scores are so that more is better."""

    task: str
    label: str
    classes: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # of each class in the train split
    batch_size: int = 1
    batches: int = 0
    classes_per_batch: float | None = None  # the mean
    losses: list[float] = field(default_factory=list)  # of steps
    guess_loss: float | None = None  # of saying the shares of the labels
    looked_at: int = 0
    constant: dict[str, int] = field(default_factory=dict)  # batches in which an input was the same in all rows
    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    normalises: bool = False  # whether the model's first layers scale
    predicted: int | None = None  # classes that were predicted at the end
    share: float = 0.0  # of the most common prediction
    waiting: float = 0.0
    seconds: float = 0.0
    slowest: str = ""
    advice: str = ""
    augmentation: str | None = None
    score: float | None = None
    score_low: float | None = None
    train_score: float | None = None
    constant_score: float = 0.0  # of always predicting the most common answer
    linear_score: float | None = None
    linear_low: float | None = None  # of its advantage over that
    augmented_score: float | None = None  # of a linear model that learns from augmented inputs
    is_learned: bool | None = None
    is_below_linear: bool = False
    metric: str = "accuracy"
    probe: Probe | None = None

    @property
    def linear_learns(self) -> bool:
        """Whether a linear model beats always predicting the most common answer."""
        return self.linear_low is not None and self.linear_low > 0

    @property
    def memorises(self) -> bool:
        """Whether the model can memorise records."""
        learned = self.probe is not None and self.probe.is_decided
        by_batch = learned and self.probe is not None and self.probe.final_loss < 0.5 * self.probe.initial_loss
        by_split = self.train_score is not None and self.score is not None and self.train_score > self.score
        return by_batch or by_split


def _label(run: RunFacts) -> list[Location]:
    return [Location(feature=run.label)]


@rule("RUN001", "loss-is-no-number", needs="run", rank=100, when=("during",))
def loss_is_no_number(run: RunFacts) -> Iterator[Finding]:
    """A loss that became NaN or infinite: nothing is learned from there on.

    Why: one NaN in a weight makes every later one NaN.
    Example: a learning rate of 10; NaN in a column; the logarithm of 0 in a custom loss.
    Fix: look for NaN in the data (`bushel check`), lower the learning rate, clip gradients.
    Ignore: never.
    Reports: https://github.com/zzh8829/yolov3-tf2/issues/233 https://github.com/tensorflow/models/issues/1881
    """
    bad = next((step for step, loss in enumerate(run.losses) if not math.isfinite(loss)), None)
    if bad is not None:
        before = run.losses[max(0, bad - 3) : bad]
        yield Finding(
            f"the loss is {run.losses[bad]} at step {bad + 1}",
            evidence={"before": [round(loss, 4) for loss in before], "expected": "a number"},
            help=["look for NaN in the data: bushel check; then lower --learning-rate tenfold"],
        )


@rule("RUN002", "loss-is-flat", severity="warning", needs="run", rank=190)
def loss_is_flat(run: RunFacts) -> Iterator[Finding]:
    """A loss that ends where it began, near that of guessing.

    Why: no gradient reaches the weights, or the inputs do not determine the labels.
    Example: accuracy stays at 1/K from the first epoch to the last.
    Fix: the other findings say which; else the learning rate.
    Ignore: for a model that was trained already.
    Reports: https://github.com/tensorflow/docs/pull/2102
    """
    finite = [loss for loss in run.losses if math.isfinite(loss)]
    if len(finite) < LEAST_STEPS or run.is_learned:
        return
    part = max(5, len(finite) // 10)
    first, last = float(np.mean(finite[:part])), float(np.mean(finite[-part:]))
    is_guessing = run.guess_loss is None or last > 0.9 * run.guess_loss
    if last > (1 - FLAT) * first and is_guessing:
        yield Finding(
            f"the loss went from {first:.3f} to {last:.3f} in {count_of_things(len(finite), 'step')}",
            confidence="likely",
            evidence={"measured": round(last, 4), "guessing": run.guess_loss, "steps": len(finite)},
            help=["see the other findings; else change --learning-rate by a factor of 10, up or down"],
        )


@rule("RUN003", "predictions-collapsed", severity="warning", needs="run", rank=180)
def predictions_collapsed(run: RunFacts) -> Iterator[Finding]:
    """One class is predicted for nearly every record.

    Why: the most common class is the cheapest answer when inputs carry no information, or when the learning rate is too
    high.
    Example: "cat" for all of 10,000 images; accuracy is the share of cats.
    Fix: balance the classes (`--class-weights balanced`), and see the other findings.
    Ignore: where nearly all records are of one class.
    Reports: https://github.com/keras-team/keras-io/issues/1549
    """
    total = sum(run.counts)
    commonest = max(run.counts, default=0) / total if total else 1.0
    if run.predicted is not None and run.share > 0.98 and commonest < 0.9 and len(run.classes) > 1:
        yield Finding(
            f"{run.share:.0%} of the predictions are one class, and the largest has {commonest:.0%} of the records",
            locations=_label(run),
            evidence={"measured": run.predicted, "expected": sum(count > 0 for count in run.counts)},
            help=["try --class-weights balanced, and a lower --learning-rate"],
        )


@rule("RUN004", "inputs-are-constant", needs="run", rank=40, when=("before", "during"))
def inputs_are_constant(run: RunFacts) -> Iterator[Finding]:
    """An input that is the same in every row of every batch that was looked at.

    Why: the model can only learn how frequent the labels are.
    Example: images that are all black after a wrong scaling; a column whose parsing gives the default.
    Fix: look at the records (`bushel cat`), then at each transform.
    Ignore: where one of many inputs is a constant on purpose.
    Reports: https://github.com/tensorflow/ranking/issues/125 https://github.com/mindee/doctr/pull/375
    """
    if run.looked_at < 2 or not run.spans:
        return
    stuck = [name for name, count in run.constant.items() if count >= run.looked_at]
    for name in stuck:
        yield Finding(
            f"{name or 'the input'!r} is the same in all rows of {count_of_things(run.looked_at, 'batch', 'batches')}",
            severity="error" if len(stuck) == len(run.spans) else "warning",
            locations=[Location(feature=name or None)],
            evidence={"measured": list(run.spans[name]), "batches": run.looked_at},
            help=["look at the records with bushel cat, then at the transforms"],
        )


@rule("RUN005", "few-classes-per-batch", needs="run", rank=70, when=("during",))
def few_classes_per_batch(run: RunFacts) -> Iterator[Finding]:
    """Batches that hold far fewer classes than those of a random order would.

    Why: each step unlearns what the one before it learned; BatchNormalization sees one class at a time.
    Example: records sorted by class, read through a shuffle buffer of 100.
    Fix: build the dataset again, which shuffles it, or use a buffer larger than a class.
    Ignore: where batches are balanced or grouped on purpose.
    Reports: https://github.com/auroua/InsightFace_TF/issues/80 https://github.com/tensorflow/tfjs/issues/5976
    """
    total = sum(run.counts)
    if run.classes_per_batch is None or run.batches < 5 or not total or run.batch_size < 4:
        return
    shares = np.array(run.counts) / total
    expected = float((1 - (1 - shares) ** run.batch_size).sum())
    if expected > 1.5 and run.classes_per_batch < FEW_CLASSES * expected:
        yield Finding(
            f"a batch of {run.batch_size} holds {run.classes_per_batch:.1f} classes; in a random order {expected:.1f}",
            locations=_label(run),
            evidence={"measured": round(run.classes_per_batch, 2), "expected": round(expected, 2)},
            help=["build the dataset again, which shuffles it: bushel build DATA OUT; or a larger --shuffle-buffer"],
        )


@rule("RUN006", "waiting-for-data", severity="warning", needs="run", rank=220, when=("during",))
def waiting_for_data(run: RunFacts) -> Iterator[Finding]:
    """More than a tenth of the time was spent waiting for data.

    Why: the processor that trains stands still, and is paid for.
    Example: large JPEG images decoded by two cores for a fast GPU.
    Fix: what the evidence names: more threads, smaller images when building, a faster disk.
    Ignore: for runs of a few seconds.
    Reports: https://github.com/tensorflow/tensorflow/issues/61238
    """
    if run.seconds >= LEAST_SECONDS and run.waiting > WAITING:
        yield Finding(
            f"{run.waiting:.0%} of the time was spent waiting for data",
            evidence={"measured": round(run.waiting, 3), "expected": f"at most {WAITING:.0%}", "slowest": run.slowest},
            help=[run.advice],
        )


@rule("RUN007", "one-class-in-train", needs="run", rank=20, when=("before", "during"))
def one_class_in_train(run: RunFacts) -> Iterator[Finding]:
    """All records of the train split have the same label.

    Why: there is nothing to learn: any model is right in train, and as right elsewhere as that class is common.
    Example: a dataset sorted by class, of which the first part became train.
    Fix: split again: `bushel build DATA OUT --split 80/20 --stratify label`.
    Ignore: never.
    Reports: https://github.com/zalandoresearch/fashion-mnist/pull/5
    """
    present = [name for name, count in zip(run.classes, run.counts, strict=True) if count]
    if len(present) == 1:
        yield Finding(
            f"all {sum(run.counts):,} records of train have the label {present[0]!r}",
            locations=_label(run),
            evidence={"measured": 1, "expected": max(2, len(run.classes))},
            help=["split again: bushel build DATA OUT --split 80/20 --stratify LABEL"],
        )


@rule("RUN008", "inputs-nearly-nothing", needs="run", rank=90, when=("before",))
def inputs_nearly_nothing(run: RunFacts) -> Iterator[Finding]:
    """Inputs so close to 0 that they were probably scaled twice, for a model that does not scale them up.

    Why: weights are made for values of about 1; 0.004 at most gives gradients that are 255 times too small.
    Example: pixels divided by 255 when they were written, and once more when they are read.
    Fix: scale once; or begin the model with Normalization.
    Ignore: where the unit of a feature makes it small, and the model is made for it.
    Reports: https://github.com/keras-team/keras-io/issues/1549 https://github.com/tensorflow/tensorflow/issues/42506
    """
    if run.normalises or not run.spans:
        return
    small = {name: span for name, span in run.spans.items() if 0 < max(abs(span[0]), abs(span[1])) < NEARLY_NOTHING}
    if small and len(small) == len(run.spans):
        name, (low, high) = next(iter(small.items()))
        yield Finding(
            f"the inputs are {low:.2g} to {high:.2g}, and the model does not scale them",
            confidence="likely",
            locations=[Location(feature=name or None)],
            evidence={"measured": [low, high], "expected": "values of about 1", "times 255": high * 255},
            help=["scale once: leave out the second division, or begin the model with Normalization"],
        )


@rule("RUN009", "augmentation-destroys", needs="run", rank=120)
def augmentation_destroys(run: RunFacts) -> Iterator[Finding]:
    """Augmentation that takes away what a linear model learns without it.

    Why: the train split becomes noise, and the model learns how frequent the labels are.
    Example: `cutout` as large as the image; noise of ten times the deviation; vertical flips of digits.
    Fix: weaken it, and look at a batch.
    Ignore: where the model beats the baselines all the same.
    Reports: https://github.com/davidsandberg/facenet/issues/277
    """
    if run.augmentation is None or run.augmented_score is None or run.linear_score is None or run.score is None:
        return
    gain = run.linear_score - run.constant_score
    kept, own = run.augmented_score - run.constant_score, run.score - run.constant_score
    if run.linear_learns and kept < 0.5 * gain and own < 0.5 * gain:
        yield Finding(
            f"with {run.augmentation!r} a linear model keeps {max(0.0, kept) / gain:.0%} of what it learns without it",
            confidence="likely",
            evidence={"measured": run.augmented_score, "without": run.linear_score, "guessing": run.constant_score},
            help=["leave --augment out, or weaken it"],
        )


@rule("RUN010", "labels-say-nothing", needs="run", rank=150)
def labels_say_nothing(run: RunFacts) -> Iterator[Finding]:
    """Records can be memorised, and neither the model nor a linear one predicts others: labels do not fit inputs.

    Why: if labels were given to the wrong records, nothing that is learned of one holds for another.
    Example: images listed in one order and labels in another; two shuffles with two seeds.
    Fix: compare a few records with their sources: `bushel cat DATA --record train:0`.
    Ignore: where the inputs really do not determine the label.
    Reports: https://github.com/tensorflow/tensorflow/issues/12851 https://github.com/tensorflow/tensorflow/issues/41334
    """
    is_stuck = any(count >= run.looked_at for count in run.constant.values()) and run.looked_at > 0
    if run.is_learned is not False or run.linear_score is None or run.linear_learns or is_stuck or not run.memorises:
        return
    yield Finding(
        f"neither the model nor a linear one is better than guessing ({run.metric}), though records can be memorised",
        confidence="likely",
        locations=_label(run),
        evidence={"model": run.score, "linear": run.linear_score, "guessing": run.constant_score},
        help=["compare records with their sources: bushel cat DATA --record train:0"],
    )


@rule("RUN011", "model-does-not-learn", needs="run", rank=160)
def model_does_not_learn(run: RunFacts) -> Iterator[Finding]:
    """A linear model learns from the same inputs, and this one does not.

    Why: the data is not the cause; loss, learning rate, scaling or the number of steps is.
    Example: a loss that takes logits for probabilities; a learning rate of 1; one epoch of ten steps.
    Fix: loss and activation first, then the learning rate, then more epochs.
    Ignore: never.
    Reports: https://github.com/tensorflow/docs/pull/2102 https://github.com/tensorflow/tensorflow/issues/62460
    """
    if run.is_learned is False and run.linear_learns:
        yield Finding(
            f"a linear model learns from these inputs ({run.metric}), and this model does not",
            confidence="likely",
            evidence={"model": run.score, "linear": run.linear_score, "guessing": run.constant_score},
            help=["check loss and activation, then --learning-rate, then --epochs"],
        )


@rule("RUN012", "memorised", severity="warning", needs="run", rank=170)
def memorised(run: RunFacts) -> Iterator[Finding]:
    """Far better on the train split than on the records it is evaluated on.

    Why: the model has learned records, not what they have in common; or the two splits differ.
    Example: a network of a million weights on 500 records.
    Fix: more data, augmentation, a smaller model, early stopping; compare the splits with `bushel check`.
    Ignore: where the other split is good enough.
    Reports: https://github.com/keras-team/keras/issues/8837
    """
    if run.train_score is None or run.score is None or run.is_learned or run.task == "regression":
        return
    gain, kept = run.train_score - run.constant_score, run.score - run.constant_score
    if gain > 0.3 and kept < 0.3 * gain:
        yield Finding(
            f"{run.metric} is {run.train_score:.3f} on records of train, and {run.score:.3f} on others",
            confidence="likely",
            evidence={"train": run.train_score, "others": run.score, "guessing": run.constant_score},
            help=["try --augment, --early-stopping and a smaller model; compare the splits: bushel check"],
        )


@rule("RUN013", "worse-than-linear", severity="warning", needs="run", rank=200)
def worse_than_linear(run: RunFacts) -> Iterator[Finding]:
    """Better than guessing, and worse than a linear model.

    Why: the network is not worth its cost yet: it was trained too short, or too fast.
    Example: three epochs of a deep network on a table that a line separates.
    Fix: more epochs, another learning rate, a model that fits the inputs.
    Ignore: where the linear model was fitted to far more records than the network has seen.
    Reports: https://github.com/keras-team/keras-io/issues/1549
    """
    if run.is_learned and run.is_below_linear:
        yield Finding(
            f"{run.metric} is {_shown(run, run.score)}, and that of a linear model {_shown(run, run.linear_score)}",
            evidence={"model": run.score, "linear": run.linear_score, "guessing": run.constant_score},
            help=["try more --epochs, or another --learning-rate"],
        )


def _shown(run: RunFacts, score: float | None) -> str:
    value: Any = abs(score) if score is not None and run.task == "regression" else score
    return f"{value:.4g}"
