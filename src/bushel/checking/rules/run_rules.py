"""RUN: what was recorded while a model was trained, and the likely cause where nothing was learned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.checking.rules.probe_rules import TrainingProbe

FLAT = 0.03  # share by which a loss must fall not to be flat
LEAST_STEPS = 30  # before which a loss may be flat
WAITING = 0.10  # share of the time that may be spent waiting for data
LEAST_SECONDS = 5.0
FEW_CLASSES = 0.6  # of the classes that a batch of a random order would have
NEARLY_NOTHING = 0.02  # the largest value of inputs that were scaled twice
MOVED_LITTLE, MOVED_FAR = 0.01, 3.0  # relative change of weights that is too small, or too large, to learn from
FEW_STEPS = 100  # after which a loss that still falls says that training was too short
HEAVY_DROPOUT = 0.9
HEAVY_DECAY = 1.0
WEAK_REWARD = 0.9  # of the loss of guessing, from which a loss hardly tells right answers from guesses
MOVED_ALONE = 1e-3  # of the largest output
LOPSIDED = 0.98  # share of the loss of one class that is no such share of the records
WRONG = 0.1  # share of records with a wrong label that is worth a warning
HEAVY_PENALTY = 10.0  # times the loss of guessing
DRIFTED = 0.8  # area under the ROC curve of telling two splits apart, above which they differ
CONTRADICTING = 0.25  # share of records
FEW_RECORDS = 50  # of train; and as many for each class as the next says
FEW_OF_A_CLASS = 10
DOMINANT = 0.75  # share of the largest class above which the others are rare
MOSTLY = 0.9  # share of predictions of one class above which the others are lost
LOST = 0.5  # share of the values of an input
NEAR = 0.8  # share of what a linear model gains over guessing


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
    is_unclear: bool = False  # whether too few records judge it
    is_worse: bool = False  # whether it is worse than always predicting the most common answer
    steps: int = 0
    records: int = 0  # of train
    is_improving: bool = False  # whether its last epoch was its best
    gradients: dict[str, float | None] | None = None  # norms by weight, before the first step; None: there is none
    moved: float | None = None  # the largest change of a matrix of weights, relative to what it was
    dropout: float = 0.0  # the largest share of units that a layer drops
    penalty: float = 0.0  # what regularisers add to the loss
    cut: dict[str, float] = field(default_factory=dict)  # share of the values that an input loses
    drift: float | None = None  # how well a linear model tells train from the records that judge
    contradicting: float = 0.0  # share of records of train whose inputs another has with another label
    held_low: float | None = None  # advantage of a linear model on records of train that it did not see
    neighbours_low: float | None = None  # advantage of the nearest records of train over guessing
    neighbours_score: float | None = None
    reward: float | None = None  # the loss of right answers, as a share of that of guessing
    alone: float | None = None  # how far a prediction moves when its record is fed without the others of its batch
    decay: float = 0.0  # of the weights, by the optimiser
    weighed: tuple[str, float, float] | None = None  # the class that weighs most: its share of the loss, of records
    noise: float | None = None  # share of records with a wrong label, by records that the model is sure of
    noise_low: float = 0.0
    suspects: list[str] = field(default_factory=list)  # the records whose labels are least likely
    metric: str = "accuracy"
    probe: TrainingProbe | None = None

    @property
    def linear_learns(self) -> bool:
        """Whether a linear model beats always predicting the most common answer."""
        return self.linear_low is not None and self.linear_low > 0

    @property
    def holds_within_train(self) -> bool:
        """Whether what a linear model learns from some records of train holds for others of train."""
        return self.held_low is not None and self.held_low > 0

    @property
    def data_learns(self) -> bool:
        """Whether a simple model finds something to learn, by the records that judge or others of train."""
        return self.linear_learns or self.holds_within_train or self.neighbours_learn

    @property
    def neighbours_learn(self) -> bool:
        """Whether the nearest records of train predict better than guessing."""
        return self.neighbours_low is not None and self.neighbours_low > 0

    @property
    def has_failed(self) -> bool:
        """Whether it is known that the model did not learn."""
        return self.is_learned is False and not self.is_unclear

    @property
    def is_stuck(self) -> bool:
        """Whether an input was the same in all records that were looked at."""
        return self.looked_at > 0 and any(count >= self.looked_at for count in self.constant.values())

    @property
    def memorises(self) -> bool:
        """Whether the model can memorise records."""
        learned = self.probe is not None and self.probe.is_decided
        by_batch = learned and self.probe is not None and self.probe.final_loss < 0.5 * self.probe.initial_loss
        by_split = self.train_score is not None and self.score is not None and self.train_score > self.score
        return by_batch or by_split


def _label(run: RunFacts) -> list[Location]:
    return [Location(feature=run.label)]


@rule("RUN001", "loss-is-nan", needs="run", rank=100, when=("during",))
def loss_is_no_number(run: RunFacts) -> Iterator[Finding]:
    """A loss that became NaN or infinite: nothing is learned from there on.

    Why: one NaN in a weight makes every later one NaN.
    Example: a learning rate of 10; NaN in a column; the logarithm of 0 in a custom loss.
    Fix: look for NaN in the data (`bushel check`), lower the learning rate, clip gradients.
    Ignore: never.
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
    """
    total = sum(run.counts)
    largest = max(run.counts, default=0) / total if total else 1.0
    if run.predicted is not None and run.share > 0.98 and largest < 0.9 and len(run.classes) > 1:
        yield Finding(
            f"{run.share:.0%} of the predictions are one class, and the largest has {largest:.0%} of the records",
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
    """
    present = [name for name, count in zip(run.classes, run.counts, strict=True) if count]
    if len(present) == 1:
        yield Finding(
            f"all {sum(run.counts):,} records of train have the label {present[0]!r}",
            locations=_label(run),
            evidence={"measured": 1, "expected": max(2, len(run.classes))},
            help=["split again: bushel build DATA OUT --split 80/20 --stratify LABEL"],
        )


@rule("RUN008", "inputs-close-to-zero", needs="run", rank=90, when=("before",))
def inputs_nearly_nothing(run: RunFacts) -> Iterator[Finding]:
    """Inputs so close to 0 that they were probably scaled twice, for a model that does not scale them up.

    Why: weights are made for values of about 1; 0.004 at most gives gradients that are 255 times too small.
    Example: pixels divided by 255 when they were written, and once more when they are read.
    Fix: scale once; or begin the model with Normalization.
    Ignore: where the unit of a feature makes it small, and the model is made for it.
    """
    if run.normalises or not run.spans:
        return
    small = {name: span for name, span in run.spans.items() if 0 < max(abs(span[0]), abs(span[1])) < NEARLY_NOTHING}
    if small and len(small) == len(run.spans):
        name, (low, high) = next(iter(small.items()))
        yield Finding(
            f"the inputs are {low:.2g} to {high:.2g}, but the model does not scale them",
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


@rule("RUN010", "labels-not-predictable", needs="run", rank=150)
def labels_say_nothing(run: RunFacts) -> Iterator[Finding]:
    """Records can be memorised, and neither the model nor a linear one predicts others: labels do not fit inputs.

    Why: if labels were given to the wrong records, nothing that is learned of one holds for another.
    Example: images listed in one order and labels in another; two shuffles with two seeds.
    Fix: compare a few records with their sources: `bushel cat DATA --record train:0`.
    Ignore: where the inputs really do not determine the label.
    """
    is_other_cause = run.is_stuck or run.data_learns or run.contradicting > CONTRADICTING
    if not run.has_failed or run.linear_score is None or is_other_cause or not run.memorises:
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
    """
    if run.has_failed and run.linear_learns and run.data_learns:
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
    """
    if run.is_learned and run.is_below_linear and run.score is not None and run.linear_score is not None:
        gain = run.linear_score - run.constant_score
        is_near = gain > 0 and run.score - run.constant_score > NEAR * gain
        yield Finding(
            f"{run.metric} is {_shown(run, run.score)}, and that of a linear model {_shown(run, run.linear_score)}",
            severity="info" if is_near else None,
            evidence={"model": run.score, "linear": run.linear_score, "guessing": run.constant_score},
            help=["try more --epochs, or another --learning-rate"],
        )


def _shown(run: RunFacts, score: float | None) -> str:
    value: Any = abs(score) if score is not None and run.task == "regression" else score
    return f"{value:.4g}"


@rule("RUN014", "no-gradient", needs="run", rank=82, when=("before",))
def no_gradient(run: RunFacts) -> Iterator[Finding]:
    """No gradient of the loss reaches any weight of the model.

    Why: no weight can change, and the model ends as it began.
    Example: `stop_gradient`, `argmax` or rounding before the output; a loss that does not use the predictions.
    Fix: keep everything between weights and loss differentiable.
    Ignore: never.
    """
    if run.gradients and all(norm is None for norm in run.gradients.values()):
        yield Finding(
            "no gradient of the loss reaches any weight",
            evidence={"weights": len(run.gradients)},
            help=["look for stop_gradient, argmax or rounding between the weights and the loss"],
        )


@rule("RUN015", "dead-units", needs="run", rank=84, when=("before",))
def dead_units(run: RunFacts) -> Iterator[Finding]:
    """The gradient of every matrix of weights is 0 for the first records.

    Why: units that give 0 for every record pass no gradient on, and stay so.
    Example: kernels that begin with zeros before a ReLU; a bias of -1000; a ReLU after unscaled negative values.
    Fix: leave initialisers as they are by default; scale the inputs; LeakyReLU.
    Ignore: never.
    """
    kernels = [norm for path, norm in (run.gradients or {}).items() if not path.endswith(_BIASES)]
    if any(norm == 0 for norm in kernels) and not any(kernels):
        yield Finding(
            "the gradient of every matrix of weights is 0 for the first records",
            confidence="likely",
            evidence={"measured": 0.0, "matrices": len(kernels)},
            help=["look at initialisers and activations: units that give 0 for every record cannot learn"],
        )


_BIASES = ("bias", "beta", "gamma")


@rule("RUN016", "learning-rate-too-low", needs="run", rank=96)
def rate_too_low(run: RunFacts) -> Iterator[Finding]:
    """The weights hardly changed, though gradients reach them.

    Why: each step is so short that the model ends where it began.
    Example: a rate of 1e-8; a schedule that falls to 0 at once.
    Fix: a learning rate that is ten to a thousand times larger.
    Ignore: where the weights were trained before.
    """
    is_little = run.moved is not None and run.moved < MOVED_LITTLE
    if run.has_failed and is_little and run.steps >= LEAST_STEPS and run.gradients:
        yield Finding(
            f"in {count_of_things(run.steps, 'step')} the weights changed by at most {run.moved:.2g} of their size",
            confidence="likely",
            evidence={"measured": run.moved, "expected": f"above {MOVED_LITTLE}"},
            help=["raise --learning-rate a hundredfold"],
        )


@rule("RUN017", "learning-rate-too-high", needs="run", rank=112)
def rate_too_high(run: RunFacts) -> Iterator[Finding]:
    """Training threw the weights far from where they began, and nothing was learned.

    Why: each step goes too far: the weights grow until nothing can be learned from them.
    Example: `Adam(3.0)`; a rate for SGD taken over to Adam.
    Fix: a learning rate that is ten to a thousand times smaller.
    Ignore: where the weights began at nearly 0 on purpose.
    """
    if run.has_failed and run.moved is not None and not run.moved <= MOVED_FAR:
        yield Finding(
            f"a matrix of weights changed by {run.moved:.3g} times its size in {count_of_things(run.steps, 'step')}",
            confidence="likely",
            evidence={"measured": run.moved, "expected": f"below {MOVED_FAR}"},
            help=["lower --learning-rate a hundredfold"],
        )


@rule("RUN018", "regularised-away", needs="run", rank=104)
def regularised_away(run: RunFacts) -> Iterator[Finding]:
    """Dropout, a penalty or a decay that leaves the model nothing to learn with.

    Why: with nearly all units dropped, or a penalty far above the loss, the smallest loss is that of guessing. A decay
    of 1 or more pulls weights to 0 faster than gradients move them.
    Example: `Dropout(0.99)`, where the share to keep was meant; `L2(100)`; `AdamW(weight_decay=10)`.
    Fix: `rate` is the share that is dropped: 0.1 to 0.5; penalties of 1e-5 to 1e-2; a decay of 0.001 to 0.1.
    Ignore: where the model learns all the same.
    """
    if not run.has_failed:
        return
    if run.dropout >= HEAVY_DROPOUT:
        yield Finding(
            f"a layer drops {run.dropout:.0%} of its units",
            confidence="likely",
            evidence={"measured": run.dropout, "expected": "0.1 to 0.5"},
            help=["rate is the share that is dropped, not the one that is kept"],
        )
    if run.decay >= HEAVY_DECAY:
        yield Finding(
            f"the optimiser has a weight decay of {run.decay:g}",
            confidence="likely",
            evidence={"measured": run.decay, "expected": "0.001 to 0.1"},
            help=["use a weight_decay of 0.001 to 0.1, or leave it out"],
        )
    started = max(run.penalty, (run.losses[0] if run.losses else 0.0) - 3 * (run.guess_loss or 1.0))
    if run.penalty > 0 and started > HEAVY_PENALTY * max(1.0, run.guess_loss or 1.0):
        yield Finding(
            f"regularisers added {started:.3g} to the loss, and guessing has {run.guess_loss or 1.0:.3g}",
            confidence="likely",
            evidence={"measured": started},
            help=["use a penalty of 1e-5 to 1e-2"],
        )


@rule("RUN019", "too-few-steps", needs="run", rank=116)
def too_few_steps(run: RunFacts) -> Iterator[Finding]:
    """Few steps, and the validation loss was still falling at the end.

    Why: nothing is wrong yet; the model has hardly begun.
    Example: one epoch of a small dataset with a large batch: three steps.
    Fix: more `--epochs`, smaller batches, or a higher `--learning-rate`.
    Ignore: never.
    """
    if run.has_failed and run.is_improving and 0 < run.steps < FEW_STEPS:
        yield Finding(
            f"training ended after {count_of_things(run.steps, 'step')}, and the validation loss was still falling",
            confidence="likely",
            evidence={"measured": run.steps, "expected": f"{FEW_STEPS} or more"},
            help=["train for more --epochs (with --resume, from where it stands), or with a smaller --batch-size"],
        )


@rule("RUN020", "splits-differ", needs="run", rank=124)
def splits_differ(run: RunFacts) -> Iterator[Finding]:
    """A linear model tells train from validation records, and what is learned on one fails on the other.

    Why: the model is asked about inputs that it never saw: another scale, another camera, another year.
    Example: a test split that was not normalised; images of another source.
    Fix: prepare all splits alike, and split at random: `bushel check` names the features that differ (`SPL006`).
    Ignore: where the other split is meant to differ.
    """
    if run.has_failed and run.drift is not None and run.drift > DRIFTED:
        yield Finding(
            f"the records that judge the model differ from those of train: a linear model tells them apart "
            f"(AUC {run.drift:.2f})",
            confidence="likely",
            evidence={"measured": round(run.drift, 3), "expected": 0.5},
            help=["compare the splits: bushel check names the features that differ"],
        )


@rule("RUN021", "labels-of-splits-differ", needs="run", rank=126)
def labels_of_splits_differ(run: RunFacts) -> Iterator[Finding]:
    """What holds within train fails on the validation records, though their inputs look alike.

    Why: the labels of the two splits mean different things.
    Example: classes numbered in another order in the test split; labels that were negated or shuffled there.
    Fix: compare records of both with their sources: `bushel cat DATA --record val:0`.
    Ignore: where the two splits are meant to differ.
    """
    is_apart = run.drift is not None and run.drift > DRIFTED
    if run.has_failed and run.holds_within_train and not run.linear_learns and not is_apart:
        worse = ", and the model is worse than guessing there" if run.is_worse else ""
        yield Finding(
            f"what a linear model learns of train holds for other records of train, not for those that judge{worse}",
            confidence="likely",
            locations=_label(run),
            evidence={"linear": run.linear_score, "guessing": run.constant_score, "model": run.score},
            help=["compare labels of both splits with their sources: bushel cat DATA --record val:0"],
        )


@rule("RUN022", "same-inputs-other-labels", needs="run", rank=122)
def same_inputs_other_labels(run: RunFacts) -> Iterator[Finding]:
    """Many records of train have the inputs of another one, and another label.

    Why: no model can be right about both.
    Example: a table joined twice; images copied into two folders; inputs of which the telling feature was left out.
    Fix: decide between the labels; look for the feature that makes the difference.
    Ignore: where inputs do not determine the label, and its probability is what is wanted.
    """
    if run.has_failed and run.contradicting > CONTRADICTING and not run.is_stuck:
        yield Finding(
            f"{run.contradicting:.0%} of the train records have the same inputs as a record with another label",
            confidence="likely",
            locations=_label(run),
            evidence={"measured": round(run.contradicting, 3), "expected": 0},
            help=["see which: bushel check DATA --select LBL006"],
        )


@rule("RUN023", "few-records-to-learn-from", needs="run", rank=115)
def few_records(run: RunFacts) -> Iterator[Finding]:
    """Too few records of train to learn from.

    Why: a dozen records can be memorised, and say nothing of others.
    Example: the first 20 rows of a table, kept for a quick try.
    Fix: more records; a model that was trained before; augmentation.
    Ignore: never.
    """
    least = max(FEW_RECORDS, FEW_OF_A_CLASS * sum(count > 0 for count in run.counts))
    if run.has_failed and 0 < run.records < least:
        yield Finding(
            f"only {count_of_things(run.records, 'record')} to learn from",
            evidence={"measured": run.records, "expected": f"{least} or more"},
            help=["gather more records"],
        )


@rule("RUN024", "rare-classes-lost", needs="run", rank=118)
def rare_classes_lost(run: RunFacts) -> Iterator[Finding]:
    """Most records are of one class, and hardly any other is predicted, or the others have very few records.

    Why: always predicting it has a small loss already, and the others have few records to change that.
    Example: 99 records of one class for each of the other.
    Fix: `--class-weights balanced`, or `--balance` when building.
    Ignore: where the rare classes do not matter.
    """
    total, by_count = sum(run.counts), sorted(run.counts, reverse=True)
    largest = by_count[0] / total if total else 0.0
    is_few = len(by_count) > 1 and 0 < by_count[1] < FEW_OF_A_CLASS
    if run.has_failed and largest >= DOMINANT and (run.share > MOSTLY or is_few):
        few = f"no other class has more than {count_of_things(by_count[1], 'record')}" if is_few else ""
        yield Finding(
            f"{largest:.0%} of the records are of one class, and {few or f'{run.share:.0%} of the predictions'}",
            confidence="likely",
            locations=_label(run),
            evidence={"measured": run.share, "records": min(count for count in run.counts if count)},
            help=["gather more of the others, or try --class-weights balanced"],
        )


@rule("RUN025", "inputs-are-cut", needs="run", rank=119)
def inputs_are_cut(run: RunFacts) -> Iterator[Finding]:
    """Most of the values of an input are cut away.

    Why: what determines the label may be in the part that the model never sees.
    Example: `--max-length 16` for documents of a thousand words.
    Fix: a larger `--max-length`.
    Ignore: where the beginning is what matters.
    """
    for name, share in run.cut.items():
        if run.has_failed and share > LOST:
            yield Finding(
                f"{share:.0%} of the values of {name!r} are cut away",
                confidence="likely",
                locations=[Location(feature=name)],
                evidence={"measured": round(share, 3)},
                help=["raise --max-length"],
            )


@rule("RUN026", "model-too-weak", needs="run", rank=94)
def model_too_weak(run: RunFacts) -> Iterator[Finding]:
    """The nearest records predict the label, and the model does not even fit those that it learns from.

    Why: the inputs determine the label, and the model cannot express how: it is linear, or far too small.
    Example: a single `Dense` layer for classes that alternate like the fields of a chess board.
    Fix: hidden layers with activations between them, or more units; or `--model network` and `--model trees`.
    Ignore: never.
    """
    if not run.has_failed or not run.neighbours_learn or run.linear_learns or run.train_score is None:
        return
    assert run.neighbours_score is not None
    gain, fitted = run.neighbours_score - run.constant_score, run.train_score - run.constant_score
    has_moved = run.moved is None or run.moved >= MOVED_LITTLE
    if fitted < 0.5 * gain and has_moved:
        yield Finding(
            f"the nearest records of train predict it ({run.metric} {_shown(run, run.neighbours_score)}), and the "
            f"model does not fit train itself ({_shown(run, run.train_score)})",
            confidence="likely",
            evidence={"model": run.score, "neighbours": run.neighbours_score, "guessing": run.constant_score},
            help=["the model is too weak: add hidden layers and units, or try --model network or --model trees"],
        )


@rule("RUN027", "labels-are-noisy", severity="warning", needs="run", rank=128)
def labels_are_noisy(run: RunFacts) -> Iterator[Finding]:
    """Records that the model is most sure of have as many wrong labels as the others.

    Predictions are made for records that were not learned from. Where classes overlap, what a model is sure of is
    nearly always right. Where labels were given by mistake, it is wrong as often as labels are.

    Why: the score has a ceiling that no model can pass, and the score itself is measured with wrong labels.
    Example: a third of the labels typed into the wrong row; a folder that was sorted in haste.
    Fix: look at the records that the report lists, and correct their labels.
    Ignore: where the label is a matter of chance, such as who clicks.
    """
    if run.noise is not None and run.noise_low > WRONG:
        yield Finding(
            f"about {run.noise:.0%} of the labels seem to be wrong: so many contradict what the model is surest of",
            confidence="likely",
            locations=_label(run),
            evidence={"measured": round(run.noise, 3), "least": round(run.noise_low, 3), "records": run.suspects[:8]},
            help=["look at the records that the report lists, and correct their labels"],
        )


@rule("RUN028", "prediction-depends-on-batch", needs="run", rank=78, when=("before",))
def prediction_depends_on_batch(run: RunFacts) -> Iterator[Finding]:
    """A record is predicted otherwise when it is fed alone.

    Why: the model mixes the rows of a batch, so what it learns of one depends on which others came with it.
    Example: `softmax(axis=0)`; a mean over the first axis; BatchNormalization called with `training=True`.
    Fix: compute along the last axis, and leave the first, which counts the records, alone.
    Ignore: never.
    """
    if run.alone is not None and run.alone > MOVED_ALONE:
        yield Finding(
            "the model predicts a record otherwise when it is fed alone: it mixes the rows of a batch",
            confidence="likely",
            evidence={"measured": run.alone, "expected": 0},
            help=["look for axis=0 in softmax, mean and the like, and for BatchNormalization with training=True"],
        )


@rule("RUN029", "loss-does-not-reward", needs="run", rank=80, when=("before",))
def loss_does_not_reward(run: RunFacts) -> Iterator[Finding]:
    """The loss of right answers is hardly below that of guessing, or above it.

    Why: training lowers the loss, and the lowest loss is that of a model which answers nothing.
    Example: `label_smoothing=0.99`, where 0.01 was meant; a loss with its sign changed.
    Fix: a label smoothing of at most 0.2; a loss that is lowest for right answers.
    Ignore: never.
    """
    if run.reward is not None and run.reward > WEAK_REWARD:
        yield Finding(
            f"the loss of right answers is {run.reward:.2f} times that of guessing",
            confidence="likely",
            evidence={"measured": round(run.reward, 3), "expected": f"below {WEAK_REWARD}"},
            help=["look at the loss: a label_smoothing near 1 makes all answers alike"],
        )


@rule("RUN030", "class-weights-lopsided", needs="run", rank=92)
def class_weights_lopsided(run: RunFacts) -> Iterator[Finding]:
    """The weights of classes give nearly the whole loss to one of them.

    Why: the others hardly count, and the model answers this class whatever it is fed.
    Example: weights of 1000 and 1 for classes that are equally common.
    Fix: `--class-weights balanced`, or weights that differ less.
    Ignore: where the model learns all the same.
    """
    if run.has_failed and run.weighed is not None:
        name, of_loss, of_records = run.weighed
        if of_loss >= LOPSIDED > of_records + 0.05:
            yield Finding(
                f"{name!r} has {of_loss:.1%} of the weight in training, and {of_records:.0%} of the records",
                confidence="likely",
                locations=_label(run),
                evidence={"measured": round(of_loss, 4), "records": round(of_records, 4)},
                help=["leave --class-weights out, or use --class-weights balanced"],
            )
