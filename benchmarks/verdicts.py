"""Does the verdict name what is wrong? python benchmarks/verdicts.py [--seeds 5] [--out benchmarks/verdicts.md].

Each fault on each dataset with each seed, and as many clean runs, each a real run of `bushel train` with a small model
as users write it. A row of the table is what was wrong, a column what the first finding blames; clean runs must
have learned and blame nothing. Time is CPU time, all in one process.
"""

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import bushel
from bushel import Writer
from bushel.training import Options, Trained, train

Arrays = tuple[np.ndarray, np.ndarray]


def digits(seed: int) -> Arrays:
    from sklearn.datasets import load_digits

    found = load_digits()
    chosen = np.random.default_rng(seed).permutation(len(found.target))[:900]
    return (found.data[chosen] / 16).astype(np.float32), found.target[chosen].astype(np.int64)


def cancer(seed: int) -> Arrays:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    order = np.random.default_rng(seed).permutation(len(found.target))
    x = (found.data - found.data.mean(axis=0)) / found.data.std(axis=0)
    return x[order].astype(np.float32), found.target[order].astype(np.int64)


def waves(seed: int) -> Arrays:
    """Three kinds of oscillation with noise, as a sensor would give them, in windows of 32 steps."""
    generator = np.random.default_rng(seed)
    label = np.arange(600) % 3
    steps, phase = np.arange(32), generator.uniform(0, 6.28, (600, 1))
    clean = np.sin(steps * np.array([0.2, 0.5, 1.1])[label][:, None] + phase)
    order = generator.permutation(600)
    x = (clean + generator.normal(0, 0.3, clean.shape)).astype(np.float32)
    features = np.abs(np.fft.rfft(x, axis=1)).astype(np.float32) / 8
    return features[order], label[order].astype(np.int64)


DATASETS: dict[str, Callable[[int], Arrays]] = {"digits": digits, "cancer": cancer, "waves": waves}


def build_model(problem: Any, *, wrong_loss: bool = False) -> Any:
    """What a user writes: no scaling inside, and the loss that goes with the head, or not."""
    x = inputs = keras.Input(problem.input_shape)
    x = keras.layers.Dense(32, "relu")(x)
    outputs = max(2, problem.outputs)
    model = keras.Model(inputs, keras.layers.Dense(outputs, None if wrong_loss else "softmax")(x))
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    return model


def with_wrong_loss(problem: Any) -> Any:
    """Logits taken for probabilities."""
    return build_model(problem, wrong_loss=True)


def write(folder: Path, x: np.ndarray, y: np.ndarray, *, compression: Any = None, by_class: bool = False) -> None:
    cut = int(0.75 * len(y))
    order = np.argsort(y[:cut], kind="stable") if by_class else np.arange(cut)
    folder.mkdir(parents=True)
    for split, rows in (("train", order), ("val", np.arange(cut, len(y)))):
        with Writer(folder / f"{split}-00000-of-00001.tfrecord", compression=compression) as writer:
            writer.write_batch({"x": x[rows], "label": y[rows]})


def clean(folder: Path, x: np.ndarray, y: np.ndarray, _: int) -> dict[str, Any]:
    write(folder, x, y)
    return {}


def shuffled_labels(folder: Path, x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    write(folder, x, np.random.default_rng(seed + 100).permutation(y))
    return {}


def scaled_twice(folder: Path, x: np.ndarray, y: np.ndarray, _: int) -> dict[str, Any]:
    write(folder, x / 255 / 4, y)
    return {}


def sorted_shards(folder: Path, x: np.ndarray, y: np.ndarray, _: int) -> dict[str, Any]:
    write(folder, x, y, compression="gzip", by_class=True)
    return {"shuffle_buffer": 16, "preflight": False}


def wrong_loss(folder: Path, x: np.ndarray, y: np.ndarray, _: int) -> dict[str, Any]:
    write(folder, x, y)
    return {"model": with_wrong_loss}


def constant_input(folder: Path, x: np.ndarray, y: np.ndarray, _: int) -> dict[str, Any]:
    write(folder, np.repeat(x[:1], len(x), axis=0), y)
    return {"preflight": False}


def destructive_augmentation(folder: Path, x: np.ndarray, y: np.ndarray, _: int) -> dict[str, Any]:
    write(folder, x, y)
    return {"augment": "jitter=100"}


def one_class(folder: Path, x: np.ndarray, y: np.ndarray, _: int) -> dict[str, Any]:
    cut = int(0.75 * len(y))
    y = y.copy()
    y[:cut] = y[0]
    write(folder, x, y)
    return {"preflight": False}


FAULTS: dict[str, Callable[[Path, np.ndarray, np.ndarray, int], dict[str, Any]]] = {
    "labels shuffled": shuffled_labels,
    "inputs scaled twice": scaled_twice,
    "sorted shards, tiny buffer": sorted_shards,
    "wrong loss": wrong_loss,
    "constant input": constant_input,
    "destructive augmentation": destructive_augmentation,
    "one class": one_class,
}
# Which findings blame which fault.
BLAMES = {
    "RUN010": "labels shuffled",
    "RUN008": "inputs scaled twice",
    "MDL001": "inputs scaled twice",
    "RUN005": "sorted shards, tiny buffer",
    "ORD001": "sorted shards, tiny buffer",
    "MDL002": "wrong loss",
    "TRN001": "wrong loss",
    "TRN002": "wrong loss",
    "RUN011": "wrong loss",
    "RUN004": "constant input",
    "VAL002": "constant input",
    "RUN009": "destructive augmentation",
    "RUN007": "one class",
    "LBL": "one class",
}
LEARNED, NOTHING, OTHER = "learned, nothing blamed", "did not learn, nothing blamed", "something else blamed"


def blamed(trained: Trained) -> str:
    """The fault that the first finding names; findings that stop nothing count as much as those that do."""
    told = ("error",) if trained.verdict.learned else ("error", "warning")  # a model that learned is blamed for errors
    found = [finding.rule for finding in trained.findings if finding.severity in told]
    if not found:
        return LEARNED if trained.verdict.learned else NOTHING
    return next((fault for start, fault in BLAMES.items() if found[0].startswith(start)), f"{OTHER}: {found[0]}")


def run_once(make: Any, dataset: str, seed: int, folder: Path) -> tuple[str, Trained]:
    x, y = DATASETS[dataset](seed)
    told = {"model": build_model, **make(folder / "data", x, y, seed)}
    options = Options(epochs=8, seed=seed, tensorboard=False, deterministic=False, task="classification", **told)
    trained = train(folder / "data", options, out=folder / "run")
    keras.backend.clear_session()
    return blamed(trained), trained


def measure(seeds: int, folder: Path, out: Path | None) -> None:
    table: dict[str, Counter[str]] = {name: Counter() for name in ("clean", *FAULTS)}
    misses: list[str] = []
    runs = 0
    for seed in range(seeds):
        for dataset in DATASETS:
            for number, (fault, make) in enumerate(FAULTS.items()):
                for name, way, own in ((fault, make, seed), ("clean", clean, seed + 1000 * (number + 1))):
                    answer, trained = run_once(way, dataset, own, folder / f"{runs}")
                    table[name][answer] += 1
                    if answer != (LEARNED if name == "clean" else name):
                        misses.append(f"{name}, {dataset}, seed {own}: {answer}. {trained.verdict.summary}")
                    shutil.rmtree(folder / f"{runs}")
                    runs += 1
        text = page(table, runs, misses, time.process_time())
        print(text, flush=True)
        if out:
            out.write_text(text)


def page(table: dict[str, Counter[str]], runs: int, misses: list[str], seconds: float) -> str:
    answers = [LEARNED, *FAULTS, *sorted({a for row in table.values() for a in row} - {LEARNED, *FAULTS})]
    lines = [
        "# Does the verdict name what is wrong?",
        "",
        "Written by `python benchmarks/verdicts.py`: down what was wrong, across what the first finding blames.",
        f"{runs} runs in {seconds:.0f} s of CPU time: seven faults and as many clean runs, three datasets.",
        "",
        f"| | {' | '.join(answers)} |",
        f"|---{'|---:' * len(answers)}|",
    ]
    for name, row in table.items():
        lines.append(f"| **{name}** | {' | '.join(str(row[answer] or '') for answer in answers)} |")
    faulty = {name: row for name, row in table.items() if name != "clean"}
    right = sum(row[name] for name, row in faulty.items())
    noticed = sum(sum(row.values()) - row[LEARNED] for row in faulty.values())
    total = sum(sum(row.values()) for row in faulty.values())
    fine, all_clean = table["clean"][LEARNED], sum(table["clean"].values())
    lines += ["", f"Faults named: {right} of {total}; noticed at all: {noticed} of {total}. "
                  f"Clean runs without an alarm: {fine} of {all_clean}."]  # fmt: skip
    lines += ["", "Missed:", "", *(f"* {miss}" for miss in misses)] if misses else []
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", bushel.reading.order.BufferedShuffle)
    with tempfile.TemporaryDirectory(prefix="bushel-verdicts-") as name:
        measure(given.seeds, Path(name), given.out)


if __name__ == "__main__":
    main()
