"""Does the verdict name what is wrong? python benchmarks/verdicts.py [--seeds 5] [--results FILE.jsonl] [--out FILE].

Every fault on every kind of data with every seed, and healthy runs of twenty kinds: each a real run of `bushel train`,
all in one process. What was run before is in the file of results and is not run again. A row of the table is what was
wrong; beside it how often its cause was named first, how often inputs or labels were blamed that are innocent, and
what was named instead. The faults, the kinds and the cause that each fault must be given were written before the rules
that name them; BLAMES alone follows the rules.
"""

import argparse
import io
import json
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from PIL import Image

import bushel
from bushel import Writer
from bushel.training import Options, train


class Data(NamedTuple):
    """Inputs, labels, and how many numbers a model gives; tokens are lists of different lengths."""

    x: Any
    y: np.ndarray
    classes: int  # 0: labels are numbers
    kind: str = "numbers"


# Kinds of data that faults are put into.


def table(seed: int) -> Data:
    """Four classes in twenty columns, half of them noise."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        600, 20, n_informative=8, n_redundant=2, n_classes=4, class_sep=2.0, flip_y=0.0, random_state=seed
    )
    return Data((x / x.std(axis=0)).astype(np.float32), y.astype(np.int64), 4)


def shapes(seed: int) -> Data:
    """Squares, crosses and frames in grey pictures of 12 x 12, somewhere, with noise; 0..255."""
    generator = np.random.default_rng(seed)
    x, y = generator.normal(40, 12, (600, 12, 12, 1)), np.arange(600) % 3
    for picture, kind in zip(x, y, strict=True):
        top, left = generator.integers(0, 5, 2)
        part = picture[top : top + 7, left : left + 7, 0]
        if kind == 0:
            part += 120
        elif kind == 1:
            part[3] += 150
            part[:, 3] += 150
        else:
            part[[0, -1]] += 140
            part[1:-1, [0, -1]] += 140
    order = generator.permutation(600)
    return Data(np.clip(x[order], 0, 255).astype(np.uint8), y[order].astype(np.int64), 3, "images")


def sentences(seed: int) -> Data:
    """Lists of 8 to 30 ids; two classes, each with ten ids of its own among fifty common ones, spread over the list."""
    generator = np.random.default_rng(seed)
    y = np.arange(600) % 2
    rows = []
    for label in y:
        row = generator.integers(1, 51, generator.integers(8, 31))
        own = generator.random(len(row)) < 0.3
        row[own] = 51 + 10 * label + generator.integers(0, 10, own.sum())
        rows.append(row.astype(np.int64))
    order = generator.permutation(600)
    return Data([rows[number] for number in order], y[order].astype(np.int64), 2, "tokens")


def friedman(seed: int) -> Data:
    """Numbers that follow from five of ten columns, not all of them in a straight line."""
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(600, 10, noise=0.5, random_state=seed)
    return Data((4 * x - 2).astype(np.float32), (y / y.std()).astype(np.float32), 0)


KINDS: dict[str, Callable[[int], Data]] = {
    "table": table,
    "shapes": shapes,
    "sentences": sentences,
    "friedman": friedman,
}


class Fault(NamedTuple):
    """A fault of the data or of the model: which cause is right, where it can occur, and what makes it."""

    cause: str
    make: Callable[..., Any]
    kinds: tuple[str, ...] = tuple(KINDS)
    options: dict[str, Any] = {}  # noqa: RUF012
    innocent: bool = True  # whether neither inputs nor labels are to blame
    always: bool = False  # whether it must be named though the model learned


Splits = dict[str, Data]


def take(data: Data, rows: Any) -> Data:
    """Some records, by number."""
    x = [data.x[row] for row in rows] if isinstance(data.x, list) else data.x[rows]
    return data._replace(x=x, y=data.y[rows])


def split(data: Data) -> Splits:
    """The first seven tenths to learn from, the others to judge by."""
    cut = int(0.7 * len(data.y))
    return {"train": take(data, np.arange(cut)), "val": take(data, np.arange(cut, len(data.y)))}


def each(splits: Splits, change: Callable[[Data], Data], only: str | None = None) -> Splits:
    return {name: change(part) if only in (None, name) else part for name, part in splits.items()}


def write(folder: Path, splits: Splits, *, compression: Any = None) -> None:
    folder.mkdir(parents=True)
    for name, part in splits.items():
        with Writer(folder / f"{name}-00000-of-00001.tfrecord", compression=compression) as writer:
            for x, y in zip(part.x, part.y, strict=True):
                writer.write({"x": png(x) if part.kind == "images" else x, "label": y})


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0]).save(file, "PNG")
    return file.getvalue()


# Models as users write them.


def encoded(problem: Any, x: Any) -> Any:
    """What a user puts before the dense layers."""
    given = problem.inputs[0]
    if given.kind == "tokens":
        x = keras.layers.Embedding(given.size + 1, 16, mask_zero=True)(keras.ops.minimum(x, given.size))
        return keras.layers.GlobalAveragePooling1D()(x)
    if len(given.shape) == 3:
        x = keras.layers.Conv2D(8, 3, activation="relu")(keras.layers.Rescaling(1 / 255)(x))
        return keras.layers.Flatten()(keras.layers.MaxPooling2D(2)(x))
    return x


def units(problem: Any) -> int:
    return 1 if problem.task.kind == "regression" else max(2, problem.outputs)


def finish(problem: Any, inputs: Any, x: Any, *, rate: float = 0.01, loss: Any = None, activation: Any = "fit") -> Any:
    is_number = problem.task.kind == "regression"
    kind = (None if is_number else "softmax") if activation == "fit" else activation
    model = keras.Model(inputs, keras.layers.Dense(units(problem), kind)(x))
    usual = "mean_squared_error" if is_number else "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(rate), loss or usual)
    return model


def start(problem: Any) -> tuple[Any, Any]:
    given = problem.inputs[0]
    inputs = keras.Input(given.shape, dtype="int64" if given.kind == "tokens" else "float32")
    return inputs, encoded(problem, inputs)


def usual(problem: Any, **more: Any) -> Any:
    inputs, x = start(problem)
    return finish(problem, inputs, keras.layers.Dense(32, "relu")(x), **more)


def with_rate(rate: float) -> Callable[[Any], Any]:
    return lambda problem: usual(problem, rate=rate)


def logits_as_probabilities(problem: Any) -> Any:
    return usual(problem, activation=None)


def probabilities_as_logits(problem: Any) -> Any:
    return usual(problem, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def softmax_twice(problem: Any) -> Any:
    inputs, x = start(problem)
    x = keras.layers.Dense(units(problem), "softmax")(keras.layers.Dense(32, "relu")(x))
    model = keras.Model(inputs, keras.layers.Softmax()(x))
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    return model


def relu_head(problem: Any) -> Any:
    return usual(problem, activation="relu")


def all_frozen(problem: Any) -> Any:
    model = usual(problem)
    model.trainable = False
    return model


def gradient_stopped(problem: Any) -> Any:
    inputs, x = start(problem)
    hidden = keras.layers.Dense(32, "relu")(x)
    outputs = keras.layers.Dense(units(problem))(hidden)
    outputs = keras.ops.stop_gradient(outputs)
    is_number = problem.task.kind == "regression"
    model = keras.Model(inputs, outputs if is_number else keras.ops.softmax(outputs))
    model.compile("adam", "mean_squared_error" if is_number else "sparse_categorical_crossentropy")
    return model


def zero_start(problem: Any) -> Any:
    inputs, x = start(problem)
    x = keras.layers.Dense(32, "relu", kernel_initializer="zeros")(x)
    x = keras.layers.Dense(32, "relu", kernel_initializer="zeros")(x)
    return finish(problem, inputs, x)


def dead_units(problem: Any) -> Any:
    inputs, x = start(problem)
    x = keras.layers.Dense(32, "relu", bias_initializer=keras.initializers.Constant(-1000.0))(x)
    return finish(problem, inputs, x)


def heavy_dropout(problem: Any) -> Any:
    inputs, x = start(problem)
    x = keras.layers.Dropout(0.99)(keras.layers.Dense(32, "relu")(x))
    return finish(problem, inputs, keras.layers.Dropout(0.99)(keras.layers.Dense(32, "relu")(x)))


def heavy_penalty(problem: Any) -> Any:
    inputs, x = start(problem)
    x = keras.layers.Dense(32, "relu", kernel_regularizer=keras.regularizers.L2(100.0))(x)
    return finish(problem, inputs, x)


def few_units(problem: Any) -> Any:
    """One unit less than there are codes: all that a user sees are classes 1 to K."""
    inputs, x = start(problem)
    x = keras.layers.Dense(32, "relu")(x)
    model = keras.Model(inputs, keras.layers.Dense(max(2, len(problem.classes) - 1), "softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def log_of_zero(problem: Any) -> Any:
    def loss(truth: Any, said: Any) -> Any:
        return keras.ops.mean(keras.ops.log(keras.ops.relu(said - keras.ops.cast(truth, said.dtype))))

    return usual(problem, loss=loss)


def numbers_loss_for_classes(problem: Any) -> Any:
    return usual(problem, loss="mean_squared_error")


def sigmoid_for_numbers(problem: Any) -> Any:
    return usual(problem, activation="sigmoid")


# Faults of the data.

NUMERIC = ("table", "friedman")
CLASSES = ("table", "shapes", "sentences")


def shuffled_labels(splits: Splits, seed: int) -> Splits:
    generator = np.random.default_rng(seed + 100)
    return each(splits, lambda part: part._replace(y=generator.permutation(part.y)))


def shuffled_train_labels(splits: Splits, seed: int) -> Splits:
    generator = np.random.default_rng(seed + 200)
    return each(splits, lambda part: part._replace(y=generator.permutation(part.y)), "train")


def other_codes_in_val(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(y=(part.y + 1) % part.classes), "val")


def negated_in_val(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(y=2 * part.y.mean() - part.y), "val")


def noise(splits: Splits, seed: int) -> Splits:
    """Inputs of other records: whatever was read, it was not what the labels are about."""
    generator = np.random.default_rng(seed + 300)
    return each(splits, lambda part: part._replace(x=take(part, generator.permutation(len(part.y))).x))


def moved_val(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(x=(part.x + 6).astype(np.float32)), "val")


def scaled_val(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(x=(part.x * 100).astype(np.float32)), "val")


def dark_val(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(x=(part.x // 16).astype(np.uint8)), "val")


def copies_in_val(splits: Splits, _: int) -> Splits:
    """Half of val was copied to train."""
    val = splits["val"]
    half = take(val, np.arange(len(val.y) // 2))
    train = splits["train"]
    joined = [*train.x, *half.x] if isinstance(train.x, list) else np.concatenate([train.x, half.x])
    return {"train": train._replace(x=joined, y=np.concatenate([train.y, half.y])), "val": val}


def label_among_inputs(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(x=np.concatenate([part.x, part.y[:, None]], 1).astype(np.float32)))


def scaled_twice(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(x=(part.x / 255 / 4).astype(np.float32)))


def unscaled(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(x=(part.x * 5000 + 20000).astype(np.float32)))


def constant(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(x=[part.x[0]] * len(part.y)))


def one_class(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(y=np.zeros_like(part.y)), "train")


def class_missing(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: take(part, np.flatnonzero(part.y != part.classes - 1)), "train")


def labels_from_one(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: part._replace(y=part.y + 1))


def some_nan(splits: Splits, seed: int) -> Splits:
    def spoil(part: Data) -> Data:
        x = part.x.copy()
        x[np.random.default_rng(seed).random(x.shape) < 0.02] = np.nan
        return part._replace(x=x)

    return each(splits, spoil)


def seven_in_val(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: take(part, np.arange(7)), "val")


def twelve_in_train(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: take(part, np.arange(12)), "train")


def rare_class(splits: Splits, _: int) -> Splits:
    """One in a hundred of all but the first class is left."""

    def thin(part: Data) -> Data:
        rare = np.flatnonzero(part.y != 0)
        return take(part, np.sort(np.concatenate([np.flatnonzero(part.y == 0), rare[:: max(1, len(rare) // 4)]])))

    return each(splits, thin, "train")


def contradictions(splits: Splits, seed: int) -> Splits:
    """Every record of train is there once more with another label."""
    part = splits["train"]
    other = (part.y + 1 + np.random.default_rng(seed).integers(0, part.classes - 1, len(part.y))) % part.classes
    x = [*part.x, *part.x] if isinstance(part.x, list) else np.concatenate([part.x, part.x])
    return {**splits, "train": part._replace(x=x, y=np.concatenate([part.y, other]))}


def by_class(splits: Splits, _: int) -> Splits:
    return each(splits, lambda part: take(part, np.argsort(part.y, kind="stable")), "train")


def same(splits: Splits, _: int) -> Splits:
    return splits


def model(build: Callable[[Any], Any]) -> dict[str, Any]:
    return {"model": build}


FAULTS: dict[str, Fault] = {
    # of the data
    "labels shuffled": Fault("labels", shuffled_labels, innocent=False),
    "labels of train shuffled": Fault("labels", shuffled_train_labels, innocent=False),
    "inputs of other records": Fault("labels", noise, innocent=False),
    "classes of val have other codes": Fault("labels of val", other_codes_in_val, CLASSES, innocent=False),
    "numbers of val have another sign": Fault("labels of val", negated_in_val, ("friedman",), innocent=False),
    "val moved": Fault("drift", moved_val, NUMERIC, innocent=False),
    "val scaled": Fault("drift", scaled_val, NUMERIC, innocent=False),
    "val darker": Fault("drift", dark_val, ("shapes",), innocent=False),
    "half of val is in train": Fault("copies", copies_in_val, always=True),
    "label among the inputs": Fault("leak", label_among_inputs, ("table",), always=True),
    "inputs scaled twice": Fault("scale", scaled_twice, NUMERIC, innocent=False),
    "inputs not scaled": Fault("scale", unscaled, NUMERIC, innocent=False),
    "constant input": Fault("constant", constant, innocent=False),
    "one class in train": Fault("one class", one_class, CLASSES, innocent=False),
    "a class missing from train": Fault("missing class", class_missing, ("table", "shapes"), innocent=False),
    "labels from one": Fault("head", labels_from_one, CLASSES, model(few_units)),
    "NaN among the inputs": Fault("NaN", some_nan, NUMERIC, innocent=False),
    "seven records in val": Fault("few records", seven_in_val),
    "twelve records in train": Fault("few records", twelve_in_train),
    "rare classes": Fault("imbalance", rare_class, ("table", "shapes")),
    "every record twice, with two labels": Fault("contradictions", contradictions, CLASSES, innocent=False),
    "sorted, tiny buffer": Fault("order", by_class, CLASSES, {"shuffle_buffer": 8}),
    # of the model and its options
    "logits taken for probabilities": Fault("loss", same, CLASSES, model(logits_as_probabilities)),
    "probabilities taken for logits": Fault("loss", same, CLASSES, model(probabilities_as_logits)),
    "softmax twice": Fault("loss", same, CLASSES, model(softmax_twice)),
    "ReLU head": Fault("loss", same, CLASSES, model(relu_head)),
    "loss of numbers for classes": Fault("loss", same, CLASSES, model(numbers_loss_for_classes)),
    "sigmoid for numbers": Fault("loss", same, ("friedman",), model(sigmoid_for_numbers)),
    "log of 0": Fault("NaN", same, options=model(log_of_zero)),
    "too few units": Fault("head", same, ("table", "shapes"), model(few_units)),
    "all weights frozen": Fault("no update", same, options=model(all_frozen)),
    "gradient stopped": Fault("no update", same, options=model(gradient_stopped)),
    "zero initialisation": Fault("dead units", same, options=model(zero_start)),
    "dead units": Fault("dead units", same, options=model(dead_units)),
    "rate of 1e-8": Fault("rate too low", same, options=model(with_rate(1e-8))),
    "rate of 3": Fault("rate too high", same, options=model(with_rate(3.0))),
    "dropout 0.99": Fault("regularisation", same, options=model(heavy_dropout)),
    "penalty of 100": Fault("regularisation", same, NUMERIC, model(heavy_penalty)),
    "three steps": Fault("too short", same, options={"epochs": 1, "batch_size": 160, "model": with_rate(1e-4)}),
    "destructive augmentation": Fault("augmentation", same, NUMERIC, {"augment": "jitter=200"}),
    "tokens cut to one": Fault("cut", same, ("sentences",), {"max_length": 1}),
}
DATA_CAUSES = ("labels", "labels of val", "constant", "drift", "contradictions")  # that blame inputs or labels

# Which findings name which cause: the only part that follows the rules.
BLAMES = {
    "RUN010": "labels",
    "RUN021": "labels of val",
    "LBL003": "labels of val",
    "RUN020": "drift",
    "SPL005": "drift",
    "SPL006": "drift",
    "SPL007": "drift",
    "SPL001": "copies",
    "LBL009": "leak",
    "RUN008": "scale",
    "MDL001": "scale",
    "TRN001": "scale",
    "RUN004": "constant",
    "VAL002": "constant",
    "TRN003": "constant",
    "RUN007": "one class",
    "LBL004": "missing class",
    "LBL001": "head",
    "MDL003": "head",
    "VAL001": "NaN",
    "RUN001": "NaN",
    "RUN023": "few records",
    "RUN024": "imbalance",
    "RUN022": "contradictions",
    "LBL006": "contradictions",
    "RUN005": "order",
    "ORD001": "order",
    "MDL002": "loss",
    "RUN014": "no update",
    "MDL008": "no update",
    "RUN015": "dead units",
    "RUN016": "rate too low",
    "RUN017": "rate too high",
    "TRN005": "rate too high",
    "RUN018": "regularisation",
    "RUN019": "too short",
    "RUN009": "augmentation",
    "RUN025": "cut",
}
LEARNED, NOTHING = "learned, nothing named", "did not learn, nothing named"


# Healthy runs: twenty kinds, with default options and the ready model.


def _sklearn(name: str, seed: int) -> dict[str, Any]:
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    order = np.random.default_rng(seed).permutation(len(found.target))
    label = found.target[order]
    label = label.astype(np.float32) if name == "diabetes" else label.astype(np.int64)
    return {"x": found.data[order].astype(np.float32), "label": label}


def _made(seed: int, count: int = 600, width: int = 8) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, width)).astype(np.float32)
    return generator, x, x[:, 0] + x[:, 1] - x[:, 2]


def healthy_kinds() -> dict[str, Callable[[int], Any]]:
    """Columns, or rows, by kind."""

    def binary(seed: int) -> Any:
        _, x, signal = _made(seed)
        return {"x": x, "label": (signal > 0).astype(np.int64)}

    def noisy(seed: int) -> Any:
        generator, x, signal = _made(seed)
        return {"x": x, "label": (signal + generator.normal(size=600) > 0).astype(np.int64)}

    def uneven(seed: int) -> Any:
        _, x, signal = _made(seed, 900)
        return {"x": x, "label": (signal > 1.5).astype(np.int64)}

    def large_units(seed: int) -> Any:
        _, x, signal = _made(seed)
        return {"x": (x * 1e6 + 3e6).astype(np.float32), "label": (signal > 0).astype(np.int64)}

    def numbers(seed: int) -> Any:
        generator, x, signal = _made(seed)
        return {"x": x, "label": (signal + 0.3 * generator.normal(size=600)).astype(np.float32)}

    def prices(seed: int) -> Any:
        generator, x, signal = _made(seed)
        return {"x": x, "label": (200_000 + 50_000 * signal + 9_000 * generator.normal(size=600)).astype(np.float32)}

    def ages(seed: int) -> Any:
        generator, x, signal = _made(seed)
        return {"x": x, "label": np.clip(np.round(45 + 8 * signal + generator.normal(size=600)), 12, 86).astype(int)}

    def missing(seed: int) -> Any:
        generator, x, signal = _made(seed)
        gaps = generator.random(600) < 0.2
        return [
            {"a": float(row[0]), "b": float(row[1]), "label": int(s > 0)} | ({} if gap else {"c": float(row[2])})
            for row, s, gap in zip(x, signal, gaps, strict=True)
        ]

    def categories(seed: int) -> Any:
        generator, x, _ = _made(seed)
        colour = generator.choice(["red", "green", "blue", "grey"], 600)
        return [
            {
                "colour": str(c),
                "size": float(row[0]),
                "label": "yes" if (c in ("red", "blue")) == (row[0] > 0) else "no",
            }
            for c, row in zip(colour, x, strict=True)
        ]

    def counts(seed: int) -> Any:
        generator = np.random.default_rng(seed)
        label = np.arange(600) % 4
        rates = np.random.default_rng(1).gamma(2.0, 2.0, (4, 12))
        return {"x": generator.poisson(rates[label]).astype(np.int64), "label": label}

    def several(seed: int) -> Any:
        _, x, _ = _made(seed)
        return [{"x": row, "label": [n for n, v in zip("abc", row, strict=False) if v > 0] or ["none"]} for row in x]

    def windows(seed: int) -> Any:
        generator = np.random.default_rng(seed)
        label, phase = np.arange(450) % 3, generator.uniform(0, 6.28, (450, 1))
        x = np.sin(np.arange(48) * np.array([0.2, 0.5, 1.1])[label][:, None] + phase)
        return {"x": (x + generator.normal(0, 0.3, x.shape))[..., None].astype(np.float32), "label": label}

    def colours(seed: int) -> Any:
        generator = np.random.default_rng(seed)
        label = np.arange(450) % 3
        mean = np.array([[180, 60, 60], [60, 180, 60], [60, 60, 180]])[label]
        x = generator.normal(mean[:, None, None], 50, (450, 16, 16, 3))
        return {"x": np.clip(x, 0, 255).astype(np.uint8), "label": label}

    def pictures(seed: int) -> Any:
        made = shapes(seed)
        return {"x": made.x, "label": made.y}

    def ids(seed: int) -> Any:
        made = sentences(seed)
        return [{"ids": x, "label": int(y)} for x, y in zip(made.x, made.y, strict=True)]

    def texts(seed: int) -> Any:
        generator = np.random.default_rng(seed)
        words = ["the", "a", "film", "was", "and", "with", "of", "story", "plot", "scene"]
        rows = []
        for number in range(500):
            own = ["good", "great", "fine"] if number % 2 else ["bad", "poor", "dull"]
            chosen = [*generator.choice(words, 10), *generator.choice(own, 2)]
            rows.append({"text": " ".join(generator.permutation(chosen)), "label": "pos" if number % 2 else "neg"})
        return rows

    return {
        **{name: lambda seed, name=name: _sklearn(name, seed) for name in ("iris", "wine", "breast_cancer", "digits")},
        "diabetes": lambda seed: _sklearn("diabetes", seed),
        "binary": binary,
        "noisy labels": noisy,
        "one in eight": uneven,
        "large units": large_units,
        "numbers": numbers,
        "prices": prices,
        "ages": ages,
        "missing values": missing,
        "categories": categories,
        "counts": counts,
        "several labels": several,
        "windows": windows,
        "colours": colours,
        "pictures": pictures,
        "ids": ids,
        "texts": texts,
    }


HEALTHY = healthy_kinds()


class Job(NamedTuple):
    """One run, by name."""

    what: str  # the fault, or healthy
    kind: str
    seed: int


def jobs(seeds: int) -> Iterator[Job]:
    for seed in range(seeds):
        yield from (Job(fault, kind, seed) for fault in FAULTS for kind in FAULTS[fault].kinds)
        yield from (Job("healthy", kind, seed) for kind in HEALTHY)


def run(job: Job, folder: Path) -> dict[str, Any]:
    """Train as a user does, and note what was said."""
    more: dict[str, Any] = {"seed": job.seed, "tensorboard": False, "deterministic": False}
    if job.what == "healthy":
        found = HEALTHY[job.kind](job.seed)
        source = iter(found) if isinstance(found, list) else found
        bushel.build(source, folder / "data", split="70/30", label="label", seed=job.seed)
    else:
        fault = FAULTS[job.what]
        splits = fault.make(split(KINDS[job.kind](job.seed)), job.seed)
        write(folder / "data", splits, compression="gzip" if job.what.startswith("sorted") else None)
        more |= {"model": usual, "epochs": 8, "task": "classification" if KINDS[job.kind](0).classes else "regression"}
        more |= fault.options
    try:
        trained = train(folder / "data", Options(**more), out=folder / "run")
    except Exception as error:  # a refusal, or a traceback that a user would see
        return {**job._asdict(), "summary": f"error: {error}", "learned": False, "rules": []}
    rules = [[finding.rule, finding.severity] for finding in trained.findings]
    verdict = trained.verdict
    said = {"learned": verdict.learned, "unclear": verdict.unclear, "summary": verdict.summary}
    return {**job._asdict(), **said, "rules": rules}


CLEAN = Fault("nothing", same)


def named(result: dict[str, Any]) -> str:
    """The cause that is named first: of a model that learned, the first error; by the rules as they are mapped now."""
    if result.get("unclear"):
        return "few records"
    is_quiet = result["learned"] and not FAULTS.get(result["what"], CLEAN).always
    told = ("error",) if is_quiet else ("error", "warning")
    found = [rule for rule, severity in result["rules"] if severity in told]
    if not found and result["summary"].startswith("error:"):
        return "refused"
    if not found:
        return LEARNED if result["learned"] else NOTHING
    return next((cause for start, cause in BLAMES.items() if found[0].startswith(start)), found[0])


def page(results: list[dict[str, Any]]) -> str:
    lines = [
        "# Does the verdict name what is wrong?",
        "",
        "Written by `python benchmarks/verdicts.py`. Of the runs with each fault: in how many the model learned all",
        "the same, how many of the others name its cause first, how many name a fault of inputs or labels that are",
        "innocent, and what else is named first. Copies and leaks must be named though the model learned.",
        "",
        "| fault | its cause | runs | learned | named first | innocent blamed | named instead |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    right = total = wronged = innocent = 0
    for what, fault in FAULTS.items():
        every = [result for result in results if result["what"] == what]
        runs = [result for result in every if fault.always or not result["learned"]]
        if not every:
            continue
        said = Counter(named(result) for result in runs)
        blamed = sum(count for cause, count in said.items() if cause in DATA_CAUSES) if fault.innocent else 0
        others = ", ".join(f"{cause} {count}" for cause, count in said.most_common() if cause != fault.cause)
        counts = [len(every), len(every) - len(runs), said[fault.cause], blamed]
        lines.append(f"| {what} | {fault.cause} | {' | '.join(str(count or '') for count in counts)} | {others} |")
        right, total = right + said[fault.cause], total + len(runs)
        wronged, innocent = wronged + blamed, innocent + (len(runs) if fault.innocent else 0)
    clean = [result for result in results if result["what"] == "healthy"]
    alarmed = [r for r in clean if not r["learned"] or any(severity != "info" for _, severity in r["rules"])]
    share = f"{right / total:.0%}" if total else "-"
    fine = len(clean) - len(alarmed)
    lines += ["", f"Cause named first: {right} of {total} ({share}). Innocent blamed: {wronged} of {innocent}."]
    lines += [f"Healthy runs that learned without a finding above info: {fine} of {len(clean)}."]
    lines += ["", "Healthy runs with an alarm:", ""] if alarmed else []
    for result in alarmed:
        rules = ", ".join(rule for rule, _ in result["rules"]) or result["summary"]
        lines.append(f"* {result['kind']}, seed {result['seed']}: {rules}")
    return "\n".join(lines) + "\n"


def measure(seeds: int, store: Path, out: Path | None, only: str | None) -> None:
    done = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    known = {(result["what"], result["kind"], result["seed"]) for result in done}
    for job in jobs(seeds):
        if tuple(job) in known or (only is not None and only not in job.what):
            continue
        with tempfile.TemporaryDirectory(prefix="bushel-verdicts-") as name:
            result = run(job, Path(name))
        keras.backend.clear_session()
        done.append(result)
        with store.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{job.what}, {job.kind}, {job.seed}: {named(result)}", flush=True)
    text = page(done)
    print(text)
    if out:
        out.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "bushel-verdicts.jsonl")
    parser.add_argument("--only", help="faults whose name holds this; `healthy` for the healthy runs")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", bushel.reading.order.BufferedShuffle)
    warnings.simplefilter("ignore", bushel.BushelWarning)
    measure(given.seeds, given.results, given.out, given.only)


if __name__ == "__main__":
    main()
