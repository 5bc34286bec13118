"""TRN: a few steps of training on one batch, where they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bushel import contract as contracts
from bushel.checking.collect.facts import Data
from bushel.checking.findings import Finding, rule
from bushel.checking.rules.model_rules import ModelFacts, model_place, size_of
from bushel.contract import Contract
from bushel.data.samples import Sample
from bushel.errors import BushelError
from bushel.records.scan import scan
from bushel.transforms import apply_all, decode_image, resize

ROWS = 64
_USUAL_SIDE = 160  # of images for a model that takes any size
_SPANS = {  # pixels divided by the first and moved by the second
    "0..255": (1.0, 0.0),
    "-1..1": (127.5, -1.0),
    "around 0, up to 151": (1.0, -114.0),
    "standardised": (58.0, -2.0),
}
PROBE_STEPS = 120
LEAST_STEPS = 60  # of large models; fewer say nothing of what a model cannot do
LEAST_ROWS = 8
OWN_STEPS = 20
_FAR = 100  # times the loss of answering 0, from which a first loss is far off
RATES = (1e-2, 1e-3, 1e-1)  # of the probe's own optimiser; a model that learns with one of them can learn
MOST_PRODUCTS = 5e10  # multiplications of one probe, by rows and steps: some seconds on two cores


@dataclass
class TrainingProbe:
    """What a few steps of training on one batch showed."""

    facts: ModelFacts
    rows: int
    classes: int
    initial_loss: float
    final_loss: float
    blind_loss: float  # of the same steps on inputs that say nothing
    inference_loss: float
    steps: int = PROBE_STEPS
    guess_loss: float | None = None  # of answering 0, where numbers are predicted
    least_loss: float = 0.0  # that rows with equal inputs and different labels allow
    fed: str = ""  # in words, how the inputs came to be
    error: str | None = None  # why the model cannot be trained
    peak_loss: float | None = None  # of some steps with the optimiser that the model was compiled with

    @property
    def reached(self) -> float:
        """The loss that was reached: dropout makes that of training larger, moving averages that of inference."""
        return min(self.final_loss, self.inference_loss)

    @property
    def goal(self) -> float:
        """What a model that can memorise gets below: half way from the first loss to what the labels allow."""
        return _goal(self.initial_loss, self.blind_loss, self.least_loss)

    @property
    def is_decided(self) -> bool:
        """Whether there were steps enough, and labels clear enough, to tell what a model can learn."""
        return self.steps >= LEAST_STEPS and self.least_loss < 0.8 * max(self.initial_loss, self.blind_loss)


def _goal(initial: float, blind: float, least: float) -> float:
    return least + 0.5 * (max(initial, blind) - least)


def run_probes(facts: ModelFacts, data: Data, contract: Contract | None = None) -> TrainingProbe | str:
    """Train a copy of the model on one batch, and once more on a batch whose inputs are all the same.

    In words why not, where that cannot be done.
    """
    if facts.loss is None:
        return "the model is not compiled with a loss"
    fed = first_batch(facts, data, contract)
    if isinstance(fed, str):
        return fed
    try:
        probe = probe_batch(facts, fed.x, fed.y, classes=len(np.unique(fed.y)))
        probe.peak_loss = _peak_loss(facts, fed.x, fed.y)
    except Exception as error:  # whatever Keras says of inputs that do not fit
        nan = math.nan
        probe = TrainingProbe(facts, len(fed.y), 0, nan, nan, nan, nan, steps=0, error=_first_words(error))
    probe.fed = fed.how
    return probe


def _first_words(error: Exception) -> str:
    """The sentence of an error that says what is wrong, without the traces that Keras and TensorFlow put around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [
        line for line in lines if not line.startswith(("Exception encountered", "Arguments received", "Detected"))
    ]
    return f"{type(error).__name__}: {(telling or lines or [''])[0]}"


def _peak_loss(facts: ModelFacts, x: Any, y: NDArray[Any]) -> float | None:
    """The largest loss in some steps with the model's own optimiser; None if that is not known."""
    import keras

    if facts.optimizer is None:
        return None
    copy = keras.models.clone_model(facts.model)
    copy.set_weights(facts.model.get_weights())
    copy.compile(optimizer=keras.optimizers.deserialize(facts.optimizer), loss=facts.model.loss, jit_compile=False)
    losses = _trainer(copy)(x, y, OWN_STEPS)
    return float(losses.max()) if np.isfinite(losses).all() else math.inf


def probe_size(model: Any, rows: int) -> tuple[int, int]:
    """How many rows and steps a probe takes: fewer for large models, and none for very large ones.

    Both follow from the model alone, so that a slow machine finds what a fast one does.
    """
    each = max(_products(model), 1)
    for steps in (PROBE_STEPS, LEAST_STEPS):
        affordable = int(MOST_PRODUCTS / each / steps)
        if affordable >= min(rows, LEAST_ROWS):
            return min(rows, affordable), steps
    return rows, 0


def _products(model: Any) -> float:
    """About how many multiplications one row takes: the weights of each layer at every place of its output."""
    total = 0.0
    for layer in getattr(model, "layers", []):
        if hasattr(layer, "layers"):
            total += _products(layer)
        elif type(layer).__name__ != "Embedding" and layer.weights:
            try:
                places = math.prod(size or 1 for size in layer.output.shape[1:-1])
            except (AttributeError, ValueError, TypeError):  # it is called several times, or not in this way
                places = 1
            total += places * float(layer.count_params())
    return total


def probe_batch(facts: ModelFacts, x: Any, y: NDArray[Any], *, classes: int, steps: int = PROBE_STEPS) -> TrainingProbe:
    """The same for one batch at hand: an array, or a dict of arrays, and labels as the model's loss takes them.

    The model's own optimiser, its rate and its schedule have no part in it: what is asked is what it can learn at all.
    """
    import keras

    initial, least = _loss_of(facts.model, x, y), _least_loss(facts.loss or "", x, y)
    copy = keras.models.clone_model(facts.model)
    # A copy of a compiled model has its optimiser too.
    copy.compile(optimizer=keras.optimizers.Adam(RATES[0]), loss=facts.model.loss, jit_compile=False)
    train = _trainer(copy)
    best, blind = (math.inf, math.inf), math.inf
    for rate in RATES:
        _begin_again(copy, facts.model, rate)
        blind = min(blind, _finite(float(train(_blind(x), y, steps)[-1])))
        _begin_again(copy, facts.model, rate)
        final = float(train(x, y, steps)[-1])
        found = (final, _loss_of(copy, x, y))
        best = min(best, found, key=lambda losses: min(_finite(loss) for loss in losses))
        if min(_finite(loss) for loss in best) < _goal(initial, blind, least):
            break
    return TrainingProbe(facts, len(y), classes, initial, best[0], blind, best[1], steps, _zero_loss(facts, y), least)


def _zero_loss(facts: ModelFacts, y: NDArray[Any]) -> float | None:
    """The loss of a model that answers 0, where its loss is the mean of squares."""
    is_squares = (facts.loss or "").startswith("mean_squared") or facts.loss == "mse"
    return float((np.asarray(y, np.float64) ** 2).mean()) if is_squares else None


def _finite(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


def _begin_again(copy: Any, model: Any, rate: float) -> None:
    """Give a copy the weights of the model, and an optimiser that has not begun."""
    copy.set_weights(model.get_weights())
    for variable in copy.optimizer.variables:
        if variable is not copy.optimizer.learning_rate:
            variable.assign(np.zeros(variable.shape, variable.dtype))
    copy.optimizer.learning_rate = rate


def _trainer(model: Any) -> Callable[[Any, NDArray[Any], int], NDArray[Any]]:
    """What takes some steps on one batch and returns the loss of each; on TensorFlow, all in one graph."""
    import keras

    if keras.config.backend() != "tensorflow":
        return lambda x, y, steps: np.array([_step(model, x, y) for _ in range(steps)])
    import tensorflow as tf

    model.optimizer.build(model.trainable_variables)

    def step(x: Any, y: Any) -> Any:
        model.reset_metrics()  # else what comes back is the mean over all steps so far
        return tf.cast(next(iter(model.train_step((x, y)).values())), tf.float32)

    def all_steps(x: Any, y: Any, steps: Any) -> Any:
        losses = tf.TensorArray(tf.float32, steps)
        body = lambda number, found: (number + 1, found.write(number, step(x, y)))  # noqa: E731
        return tf.while_loop(lambda number, _: number < steps, body, (0, losses))[1].stack()

    traced = tf.function(all_steps, autograph=False)
    return lambda x, y, steps: np.asarray(traced(x, y, tf.constant(steps)))


def _step(model: Any, x: Any, y: NDArray[Any]) -> float:
    model.reset_metrics()
    return float(np.asarray(model.train_on_batch(x, y)).reshape(-1)[0])


def _least_loss(loss: str, x: Any, y: NDArray[Any]) -> float:
    """The loss of a perfect memory: more than 0 where rows with equal inputs have different labels."""
    arrays = list(x.values()) if isinstance(x, dict) else [x]
    groups: dict[bytes, list[int]] = {}
    for row in range(len(y)):
        groups.setdefault(b"|".join(_row_bytes(array[row]) for array in arrays), []).append(row)
    total = 0.0
    for rows in groups.values():
        if len(rows) > 1:
            total += len(rows) * _spread_of(loss, np.asarray(y[rows], np.float64).reshape(len(rows), -1))
    return total / max(1, len(y))


def _row_bytes(row: Any) -> bytes:
    return row.tobytes() if isinstance(row, np.ndarray) and row.dtype != object else repr(row).encode()


def _spread_of(loss: str, labels: NDArray[np.float64]) -> float:
    """What the best single answer for several labels leaves of the loss."""
    if loss.startswith("mean_squared") or loss == "mse":
        return float(((labels - labels.mean(axis=0)) ** 2).mean())
    if loss.startswith("mean_absolute") or loss == "mae":
        return float(np.abs(labels - np.median(labels, axis=0)).mean())
    if "binary" in loss:
        shares = labels.mean(axis=0)
        both = np.stack([shares, 1 - shares])
        return float(-np.where(both > 0, both * np.log(np.where(both > 0, both, 1.0)), 0.0).sum(axis=0).mean())
    if "crossentropy" not in loss:
        return 0.0
    _, counts = np.unique(labels, axis=0, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _loss_of(model: Any, x: Any, y: NDArray[Any]) -> float:
    import keras

    # Calling it is much cheaper than test_on_batch, which compiles a function first.
    return float(keras.ops.convert_to_numpy(model.compute_loss(x=x, y=y, y_pred=model(x, training=False))))


def _blind(x: Any) -> Any:
    """Inputs of which all rows are the same."""
    if isinstance(x, dict):
        return {name: _blind(part) for name, part in x.items()}
    one = x.mean(axis=0, keepdims=True, dtype=np.float64).astype(x.dtype) if x.dtype.kind in "fiub" else x[:1]
    return np.repeat(one, len(x), axis=0)


@dataclass(frozen=True)
class FedBatch:
    """Inputs and labels, and in words how they came to be."""

    x: Any
    y: NDArray[Any]
    how: str


def first_batch(facts: ModelFacts, data: Data, contract: Contract | None) -> FedBatch | str:
    """Some records of the train split, from all over it; or in words why there are none to feed."""
    split = data.train
    files = [file.path for file in data.files_of(split.name) if file.problem is None] if split else []
    files = [file for file in files if file.exists()]
    if split is None or not files:
        return "records in memory are not kept; give the files"
    if data.label is None:
        return "no feature is the label; give it with --label"
    try:
        if contract is not None:
            return _by_contract(contract, _spread(files, split.records, contract.preparation.features, data.label))
        return _by_shape(facts, data, files, split.records)
    except BushelError as error:
        return error.message.splitlines()[0]


def _spread(files: list[Any], records: int, features: Any, label: str, schema: Any = None) -> Iterator[Sample]:
    step = max(records // ROWS, 1)
    wanted = list(dict.fromkeys([*features, label]))
    taken = 0
    for number, sample in enumerate(scan(files, wanted, schema=schema, on_fault="skip")):
        if number % step == 0 and label in sample:
            yield sample
            taken += 1
            if taken == ROWS:
                return


def _by_contract(contract: Contract, samples: Iterator[Sample]) -> FedBatch | str:
    rows = list(samples)
    if not rows:
        return "no record has a label"
    label = contract.label or "label"
    x = contracts.arrange(contract, contracts.prepare(contract, rows, built=True))
    return FedBatch(x, np.array([row[label] for row in rows]), "prepared as its contract says")


def _by_shape(facts: ModelFacts, data: Data, files: list[Any], records: int) -> FedBatch | str:
    assert data.label is not None
    shape = facts.input_shape
    if shape is None and not getattr(facts.model, "built", True):
        return "the model has not been built: begin it with keras.Input, or call it once"
    if shape is None:
        return "the model has several inputs, and without a contract next to it bushel cannot know how they are fed"
    feature, image = facts.input_feature(), next((f.name for f in data.features.values() if f.is_image), None)
    if feature is not None and size_of(shape) == feature.length:
        rows = list(_spread(files, records, [feature.name], data.label))
        inner = [size or 1 for size in shape[1:]]
        x = np.stack([np.asarray(row[feature.name], np.float32).reshape(inner) for row in rows])
        return FedBatch(x, _labels(rows, data.label), f"{feature.name!r} as it is stored")
    if image is not None and len(shape) == 4:
        rows = list(_spread(files, records, [image], data.label))
        return _images(facts, rows, image, data.label) if rows else "no record has a label"
    return f"the model takes {list(shape[1:])}, but no feature holds that many values"


def _labels(rows: list[Sample], label: str) -> NDArray[Any]:
    return np.array([row[label] for row in rows])


def _images(facts: ModelFacts, rows: list[Sample], image: str, label: str) -> FedBatch:
    """Encoded images decoded and resized; in the range that the model says, or else 0..1."""
    assert facts.input_shape is not None
    _, height, width, channels = facts.input_shape
    height, width = height or _USUAL_SIDE, width or _USUAL_SIDE
    steps = (
        decode_image(image, channels=1 if channels == 1 else 3),
        resize(image, height, width, antialias=True, dtype="float32"),
    )
    pixels = [apply_all(steps, {image: row[image]})[image] for row in rows]
    span = facts.expects or "0..1"
    scale, shift = _SPANS.get(span, (255.0, 0.0))
    x = np.stack(pixels) / np.float32(scale) + np.float32(shift)
    return FedBatch(x, _labels(rows, label), f"{image!r} decoded, resized to {height} x {width}, {span}")


@rule("TRN001", "loss-at-initialisation", severity="warning", needs="probe", rank=110)
def loss_at_initialisation(probe: TrainingProbe) -> Iterator[Finding]:
    """A first loss that is far from that of guessing.

    Why: an untrained classifier of K classes has a loss near ln K. Far above it, inputs are not scaled or labels do not
    fit; far below, the model has seen the data.
    Example: a loss of 40 for 10 classes, on inputs of 0..255.
    Fix: scale the inputs; look at the loss and its `from_logits`.
    Ignore: for a model that is trained already.
    """
    expected = math.log(max(probe.facts.classes or probe.classes, 2))
    is_far = "crossentropy" in (probe.facts.loss or "") and probe.initial_loss > 3 * expected + 1
    if probe.guess_loss is not None and probe.initial_loss > _FAR * probe.guess_loss:
        expected, is_far = probe.guess_loss, True
    if is_far:
        yield Finding(
            f"the first loss is {probe.initial_loss:.2f}, and guessing has {expected:.2f}",
            locations=model_place(probe.facts),
            evidence={
                "measured": round(probe.initial_loss, 3),
                "expected": round(expected, 3),
                "rows": probe.rows,
                **({"fed": probe.fed} if probe.fed else {}),
            },
            help=["scale the inputs, and look at from_logits"],
        )


@rule("TRN002", "cannot-overfit-one-batch", needs="probe", rank=140)
def cannot_overfit_one_batch(probe: TrainingProbe) -> Iterator[Finding]:
    """A model that cannot memorise one small batch.

    Why: what cannot learn 64 records cannot learn 64,000: a wrong loss, dead units, inputs without information.
    Example: `Dense(10)` logits taken for probabilities.
    Fix: loss, activation and range of inputs first; learning rate after that.
    Ignore: for a model with heavy regularisation.
    """
    if probe.is_decided and not probe.reached < probe.goal:
        yield Finding(
            f"after {probe.steps} steps on {probe.rows} records the loss is still {probe.reached:.3f}",
            confidence="likely",
            locations=model_place(probe.facts),
            evidence={"measured": probe.reached, "expected": f"below {probe.goal:.3f}"},
            help=["check loss, activation and range of inputs"],
        )


@rule("TRN003", "inputs-not-informative", severity="warning", needs="probe", rank=130)
def inputs_tell_nothing(probe: TrainingProbe) -> Iterator[Finding]:
    """The model does as well on inputs that are all the same.

    Why: then it learns how frequent the labels are, and nothing of the inputs: they are constant, black or shuffled.
    Example: pixels that were divided by 255 twice.
    Fix: look at what the model is really fed.
    Ignore: never.
    """
    is_blind = probe.reached - probe.least_loss > 0.9 * (probe.blind_loss - probe.least_loss)
    if probe.is_decided and probe.classes > 1 and is_blind:
        yield Finding(
            f"the loss is {probe.final_loss:.3f}, and {probe.blind_loss:.3f} on inputs that are all the same",
            confidence="likely",
            locations=model_place(probe.facts),
            evidence={"measured": probe.final_loss, "expected": f"well below {probe.blind_loss:.3f}"},
            help=["look at the batch that the model is fed: is anything left of the inputs?"],
        )


@rule("TRN004", "worse-at-inference", severity="warning", needs="probe", rank=210)
def worse_at_inference(probe: TrainingProbe) -> Iterator[Finding]:
    """On the very batch that was learned, the loss at inference is far above that of training.

    Why: BatchNormalization's moving statistics have not caught up, or the batch is too small for them.
    Example: batches of one record.
    Fix: larger batches, a lower momentum, or GroupNormalization.
    Ignore: for short probes of large momentum.
    """
    has_norm = any(type(layer).__name__ == "BatchNormalization" for layer in probe.facts.layers)
    if has_norm and probe.inference_loss > 5 * probe.final_loss + 0.5:
        yield Finding(
            f"the loss on one batch is {probe.final_loss:.3f} in training, {probe.inference_loss:.3f} at inference",
            confidence="hint",
            locations=model_place(probe.facts),
            evidence={"measured": probe.inference_loss, "expected": probe.final_loss},
            help=["use larger batches or GroupNormalization"],
        )


@rule("TRN005", "learning-rate-diverges", needs="probe", rank=105)
def learning_rate_too_high(probe: TrainingProbe) -> Iterator[Finding]:
    """A loss that grows, or is no longer a number, after a few steps with the model's own optimiser.

    Why: each step goes too far: the weights grow until nothing can be learned from them.
    Example: `Adam(10.0)`; `SGD(1.0)` on inputs of 0..255.
    Fix: a learning rate that is ten to a thousand times smaller.
    Ignore: where a schedule begins with a warm-up that the probe does not see.
    """
    peak, rate = probe.peak_loss, probe.facts.learning_rate
    if peak is None or not math.isfinite(probe.initial_loss):
        return
    if peak > 10 * max(probe.initial_loss, probe.blind_loss):
        said = f" of {rate:g}" if rate is not None else ""
        yield Finding(
            f"a learning rate{said} takes the loss from {probe.initial_loss:.4g} to {peak:.4g} in {OWN_STEPS} steps",
            locations=model_place(probe.facts),
            evidence={"measured": peak, "expected": f"below {probe.initial_loss:.4g}", "learning_rate": rate},
            help=["lower the learning rate tenfold, and again until the loss falls; 0.001 is usual for Adam"],
        )


@rule("TRN006", "cannot-be-trained", needs="probe", rank=75)
def cannot_be_trained(probe: TrainingProbe) -> Iterator[Finding]:
    """A model that ends with an error on its first batch.

    Why: training will end with it too.
    Example: an input of another shape than the records give; labels that the loss does not take.
    Fix: what the error says, which Keras raised for the batch that is described.
    Ignore: where the records reach the model in another way than the probe fed them.
    """
    if probe.error is not None:
        yield Finding(
            f"the model fails on its first batch: {probe.error}",
            locations=model_place(probe.facts),
            evidence={"fed": probe.fed, "rows": probe.rows},
            help=["change the input, the labels or the loss so that one batch can be trained on"],
        )
