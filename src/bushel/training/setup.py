"""Everything that a run needs before its first step: data, problem, model and weights."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.checking.rules.model_rules import look_at_model
from bushel.data.schema import IMAGE_ENCODINGS
from bushel.errors import SchemaMismatch, quantity
from bushel.feeding.preparation import Input, Preparation, Problem, Target, arrange
from bushel.keras import as_array, load_keras
from bushel.reading import Dataset
from bushel.records.record_roles import account_of
from bushel.storage import AnyPath
from bushel.training.inputs.augmentation import augmentation_of, usual_augmentation
from bushel.training.inputs.choose import (
    choose_inputs,
    choose_target,
    describe_inputs,
    describe_target,
    find_target,
    sound_inputs,
)
from bushel.training.inputs.splits import Splits, open_splits, rows_of
from bushel.training.linear_models import linear_options
from bushel.training.loop.framework import is_tensorflow, strategy_of
from bushel.training.loop.learner import Learner, label_form
from bushel.training.models import compile_model, custom_model, head_problem, ready_model
from bushel.training.options import Options
from bushel.training.tree_models import KINDS, ROUNDS, Booster, tree_options
from bushel.training.verdict.metrics import primary
from bushel.transforms import cast, normalise

__all__ = ["Setup", "set_up", "unfreeze"]

_RANGES = {"0..1": (0.0, 255.0), "-1..1": (127.5, 127.5)}
_STEPS = 1000  # the least that training takes, unless its length is given
_LEAST_EPOCHS, _MOST_EPOCHS = 10, 200
_LEAST_PATIENCE = 5  # epochs
_PATIENCE = 300  # steps: the few records that judge a small set give scores that rise and fall from epoch to epoch
_FIRST_ROWS = 32  # records that a model is called with once
_FROZEN = 3  # the share of epochs, as 1 of so many, in which only the head of a pretrained model is trained
_FEW = 8  # records that each class is taken to have besides its own, where the weights of classes are chosen
_SLOWER = 0.05  # the rate after that, as a share of the rate before


@dataclass(frozen=True)
class Setup:
    """The data, problem, model and options of a run."""

    splits: Splits
    problem: Problem
    learner: Learner
    options: Options
    augmentation: tuple[Any, ...] = ()
    class_weights: NDArray[np.float32] | None = None
    notes: list[str] = field(default_factory=list)

    def describe(self) -> list[str]:
        """What was chosen: a line each for the task, the inputs, the records and the model."""
        splits = self.splits
        named = {"train": splits.train, "val": splits.val, "test": splits.test}
        records = ", ".join(f"{name} {len(split):,}" for name, split in named.items() if split is not None)
        return [
            f"task: {describe_target(self.target, splits.train)}",
            f"inputs: {describe_inputs(self.problem.preparation)}",
            f"records: {records}",
            f"model: {self._model_words()}; {self.learner.compiled.words}",
            f"length: {quantity(self.epochs, 'epoch')} of {self._epoch_words()}{_early(self.options)}",
        ]

    def _model_words(self) -> str:
        if self.options.is_trees:
            return "gradient-boosted trees"
        name = "the default" if self.options.model in (None, "network") else _name(self.options)
        return f"{name}, {self.learner.model.count_params():,} parameters"

    def _epoch_words(self) -> str:
        if self.options.is_trees:
            return f"{ROUNDS} rounds"
        if self.options.is_linear:
            return "one penalty"
        return quantity(-(-len(self.splits.train) // self.options.batch_size), "step")

    @property
    def epochs(self) -> int:
        """The most passes over the train split."""
        assert self.options.epochs is not None
        return self.options.epochs

    @property
    def target(self) -> Target:
        """What is to be predicted."""
        return self.problem.target

    @property
    def frozen_epochs(self) -> int:
        """How many epochs the layers with pretrained weights stay as they are, at most."""
        return max(1, self.epochs // _FROZEN) if self.learner.frozen else 0


def _refuse_unique_labels(target: Target) -> None:
    """Refuse classes of one record each: they are names of records, and the next record has another."""
    if target.is_classes and len(target.classes) > 2 and max(target.counts, default=0) <= 1:
        raise SchemaMismatch(
            "the label is different in every record of train, so there is nothing to learn",
            at=target.label,
            help=["Choose another label: --label COL", "If it is an amount: --task regression"],
        )


def _refuse_places(splits: Splits, label: str) -> None:
    """Refuse labels that say where things are in an image: bushel has no model that answers with places."""
    feature = splits.train.schema[label]
    account = account_of(splits.train.paths, splits.train.schema)
    boxes = account.of("boxes")
    is_image = feature.encoding in IMAGE_ENCODINGS or account.kind_of(label) in ("image", "mask")
    is_list = feature.is_ragged or feature.sequence
    if is_image:
        what = "the label is a mask or another image, and bushel has no model for segmentation"
    elif label in boxes or (boxes and is_list):
        what = f"the records hold boxes ({', '.join(map(repr, boxes[:4]))}), and bushel has no detector"
    else:
        return
    help = "bushel.tensorflow.dataset and bushel.torch.loader feed the records to a model of yours or of a library."
    raise SchemaMismatch(what, at=label, help=[help, "To predict something else: --label COL"])


def _but_what_trees_take(
    splits: Splits, target: Target, options: Options, chosen: tuple[Preparation, list[str]]
) -> tuple[Preparation, list[str]]:
    """Inputs without texts and whatever else is no column of a table, unless the user named them or nothing is left."""
    inputs = chosen[0].inputs
    fitting = tuple(given.name for given in inputs if given.kind in KINDS)
    if options.columns is not None or len(fitting) in (0, len(inputs)):
        return chosen
    preparation, _ = choose_inputs(splits, target.label, msgspec.structs.replace(options, columns=fitting))
    others = {given.name: given.kind for given in inputs if given.kind not in KINDS}
    left = [f"{name!r} is left out: trees do not take {kind}" for name, kind in others.items()]
    # The notes of the first choice: the second one was given its columns, and so left nothing out.
    return preparation, [*left, *(note for note in chosen[1] if not note.startswith(tuple(map(repr, others))))]


def set_up(data: AnyPath | Iterable[AnyPath] | Dataset, options: Options) -> Setup:
    """Open the data, choose inputs and target, and make the model."""
    splits = open_splits(data, seed=options.seed)
    options = _with_length(options, len(splits.train))
    _refuse_places(splits, find_target(splits, options.label))
    target = choose_target(splits, label=options.label, task=options.task)
    _refuse_unique_labels(target)
    preparation, notes = choose_inputs(splits, target.label, options)
    if options.is_trees:
        preparation, notes = _but_what_trees_take(splits, target, options, (preparation, notes))
    augmentation = _augmentation(splits, preparation, options, notes)
    weights = _class_weights(target, options, notes)
    problem = Problem(preparation, target)
    if options.is_trees:
        booster = Booster(problem, options, records=len(splits.train))
        return Setup(splits, problem, booster, options, (), weights, [*splits.notes, *notes])
    strategy = strategy_of(options)
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = (
            ready_model(problem, splits.train, is_linear=options.is_linear)
            if options.is_ready
            else custom_model(options.model, problem, options.weights)
        )
        if not options.is_ready or options.range is not None:
            problem = Problem(_scaled(preparation, model, options, notes), target)
        x, labels = _first_rows(splits, problem, options)
        outputs = _called(model, x, options)
        compiled = compile_model(model, target, options, steps=_steps(options, splits), outputs=outputs)
        model.optimizer.build(model.trainable_variables)
        if options.is_linear:  # it is solved, and takes no steps
            pass
        elif head_problem(model, target) is None:
            _build_metrics(model, x, label_form(compiled.form, target, labels))
        elif not options.preflight:
            raise SchemaMismatch(str(head_problem(model, target)), at=_name(options))
    frozen = () if options.weights is None else tuple(layer for layer in model.layers if hasattr(layer, "layers"))
    learner = Learner(model, problem, compiled, strategy, frozen)
    setup = Setup(splits, problem, learner, options, augmentation, weights, [*splits.notes, *notes])
    if frozen and setup.epochs > setup.frozen_epochs:
        setup.notes.append(
            f"the pretrained layers are frozen for {setup.frozen_epochs} of {setup.epochs} epochs, "
            f"then they are trained with a rate of {compiled.learning_rate * _SLOWER:.4g}"
        )
    return setup


def unfreeze(setup: Setup) -> None:
    """Train the layers with pretrained weights too, with a smaller rate and an optimiser that knows nothing yet."""
    learner, model, options = setup.learner, setup.learner.model, setup.options
    slower = msgspec.structs.replace(options, learning_rate=learner.compiled.learning_rate * _SLOWER, warmup=0.0)
    with learner.strategy.scope() if learner.strategy is not None else contextlib.nullcontext():
        for layer in learner.frozen:
            layer.trainable = True
        x, labels = _first_rows(setup.splits, setup.problem, options)
        compile_model(
            model, setup.target, slower, steps=_steps(options, setup.splits), outputs=_called(model, x, options)
        )
        model.optimizer.build(model.trainable_variables)
        _build_metrics(model, x, label_form(learner.compiled.form, setup.target, labels))
    learner.frozen = ()
    learner.retrace()


def _steps(options: Options, splits: Splits) -> int:
    """The most steps of a run."""
    return -(-len(splits.train) // options.batch_size) * (options.epochs or 1)


def _early(options: Options) -> str:
    patience = options.early_stopping
    return "" if patience is None else f", or until {patience} epochs in a row bring no better score or loss"


def _with_length(options: Options, records: int) -> Options:
    """Options with a number of epochs and a schedule.

    If no number is given, there are enough epochs for a thousand steps, with early stopping. The rate of a default
    model then falls to nearly nothing: its last epochs differ little, so it matters little which of them is kept.
    """
    if options.is_trees or options.is_linear:
        return tree_options(options) if options.is_trees else linear_options(options)
    if options.epochs is not None:
        return msgspec.structs.replace(options, schedule=options.schedule or "constant")
    each = max(1, -(-records // options.batch_size))
    epochs = min(_MOST_EPOCHS, max(_LEAST_EPOCHS, -(-_STEPS // each)))
    patience = options.early_stopping or max(_LEAST_PATIENCE, -(-_PATIENCE // each))
    schedule = options.schedule or ("cosine" if options.is_ready else "constant")
    return msgspec.structs.replace(options, epochs=epochs, early_stopping=patience, schedule=schedule)


def _augmentation(splits: Splits, preparation: Preparation, options: Options, notes: list[str]) -> tuple[Any, ...]:
    """The changes asked for; for a default model, those that are usual."""
    usual = None if not options.is_ready or options.is_linear else usual_augmentation(len(splits.train), preparation)
    if options.augment is None and usual is not None:
        are_sounds = sound_inputs(preparation) >= {given.name for given in preparation.inputs if given.kind == "image"}
        what = "sounds, so their mel features" if are_sounds else "images, so they"
        notes.append(f"there are few {what} are changed at random in training: {usual} (--augment none turns this off)")
    return augmentation_of(options.augment or usual, preparation)


def _scaled(preparation: Preparation, model: Any, options: Options, notes: list[str]) -> Preparation:
    """Scale pixels to the range that the model's first layers expect, or 0..1 if they do not say."""
    expected = look_at_model(model, None).expects
    wanted = options.range or expected or "0..1"
    if ".." not in wanted:
        notes.append(f"the model is made for pixels {wanted}: call its preprocess_input inside the model")
        wanted = "0..255"
    low, high = (float(end) for end in wanted.split(".."))
    steps: list[Any] = []
    inputs: list[Input] = []
    for given in preparation.inputs:
        if given.kind not in ("image", "clip") or given.dtype != "uint8":
            inputs.append(given)
            continue
        scaling = _RANGES.get(wanted)
        steps.append(normalise(given.name, *scaling) if scaling else cast(given.name, "float32"))
        inputs.append(msgspec.structs.replace(given, dtype="float32", min=low, max=high))
        notes.append(f"{given.name!r} is fed as {wanted}")
    return msgspec.structs.replace(preparation, inputs=tuple(inputs), scaling=tuple(steps))


def _first_rows(splits: Splits, problem: Problem, options: Options) -> tuple[Any, NDArray[Any]]:
    arrays, labels = rows_of(splits.train, problem, options, most=_FIRST_ROWS)
    return arrange(arrays), labels


def _called(model: Any, x: Any, options: Options) -> NDArray[Any]:
    """Call the model once, to create its weights, and to report a wrong shape before training starts."""
    arrays = x if isinstance(x, dict) else {"the input": x}
    _check_backend(arrays)
    try:
        with _without_warnings():
            outputs = model(x, training=False)
    except Exception as error:
        shapes = ", ".join(f"{name} {array.dtype}{list(array.shape[1:])}" for name, array in arrays.items())
        raise SchemaMismatch(f"the model does not take {shapes}: {_why(error)}", at=_name(options)) from None
    if isinstance(outputs, dict | list | tuple):
        raise SchemaMismatch(f"the model has {len(outputs)} outputs; bushel trains models with one", at=_name(options))
    return as_array(outputs)


def _check_backend(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse text where Keras cannot take it."""
    texts = [name for name, array in arrays.items() if array.dtype.kind in "OSU"]
    if not texts or is_tensorflow():
        return
    raise SchemaMismatch(
        f"Keras on {load_keras().backend.backend()} takes numbers, and {', '.join(map(repr, texts))} "
        f"{'is' if len(texts) == 1 else 'are'} text",
        at="model",
        help=[
            f"Encode categories when you build: --encode {','.join(texts)}; or texts: --tokenise",
            "Keras on TensorFlow takes text: KERAS_BACKEND=tensorflow",
        ],
    )


def _name(options: Options) -> str:
    model = options.model
    return str(model if isinstance(model, str) else getattr(model, "__name__", None) or "model")


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide warnings of Keras, such as a softmax over one unit: they become findings later."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _why(error: Exception) -> str:
    """The first informative line, without terminal colours."""
    lines = [re.sub(r"\x1b\[\d*m", "", line).strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith("Exception encountered when calling")]
    return next(iter(telling), type(error).__name__)


def _build_metrics(model: Any, x: Any, y: Any) -> None:
    """Create the variables of metrics, so that compiled steps can reset them."""
    try:
        with _without_warnings():
            model.test_on_batch(x, y)
    except Exception as error:  # frameworks raise errors of their own
        raise SchemaMismatch(f"the loss does not take the labels: {_why(error)}", at="loss") from None


def _class_weights(target: Target, options: Options, notes: list[str]) -> NDArray[np.float32] | None:
    """The given class weights; if classes are so uneven that accuracy is misleading, nearly balanced ones.

    Nearly: a record of a class that has three would weigh like a hundred others, and its noise too.
    """
    given, few = options.class_weights, 0
    if given is None and target.is_classes and primary(target).name == "balanced_accuracy":
        notes.append(
            "the classes are uneven, so rare ones weigh more in training (--class-weights none turns this off)"
        )
        given, few = "balanced", _FEW
    if given is None or given == "none":
        return None
    if not target.is_classes:
        raise ValueError(f"class_weights are for classification; this is {target.words}")
    counts = np.array(target.counts, np.float32)
    if given == "balanced":
        weights = np.where(counts > 0, 1 / np.maximum(counts + few, 1), 0.0)
        return np.asarray(weights * counts.sum() / max(1e-9, float(weights @ counts)), np.float32)
    unknown = [name for name in given if name not in target.classes]
    if unknown:
        raise ValueError(f"class_weights must name classes ({', '.join(target.classes[:8])}), got {unknown[0]!r}")
    return np.array([given.get(name, 1.0) for name in target.classes], np.float32)
