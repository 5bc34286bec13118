"""How good are models by default? python benchmarks/defaults.py [--splits 10] [--only NAME] [--out FILE].

Each set is split into train, val and test by seed. `bushel train` runs with default options; beside it are simple
models of scikit-learn on the same records, of which the best on val is measured on test. Half of the sets were put
aside before anything was tuned, and both halves are reported. What is in the file of results is not run again.
"""

import argparse
import gzip
import io
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import bushel
from bushel.training import Options, train


class Set(NamedTuple):
    """Columns for bushel, rows of numbers (or texts) for scikit-learn, labels, and the metric."""

    columns: dict[str, Any]
    rows: Any
    labels: Any
    metric: str  # accuracy, balanced_accuracy, mae or auc


def _loaded(name: str) -> Set:
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    x = found.data.astype(np.float32)
    if name == "diabetes":
        return Set({"x": x}, x, found.target.astype(np.float32), "mae")
    return Set({"x": x}, x, found.target.astype(np.int64), "accuracy")


def digit_images() -> Set:
    from sklearn.datasets import load_digits

    found = load_digits()
    x = (found.images[:900] * 15).astype(np.uint8)[..., None]
    return Set({"image": x}, x.reshape(len(x), -1) / 255, found.target[:900].astype(np.int64), "accuracy")


def shapes() -> Set:
    """Eight kinds of figures in colour, 24 x 24, of any place, size and colour: forty pictures of each."""
    generator = np.random.default_rng(7)
    label = np.arange(320) % 8
    grid = np.stack(np.meshgrid(np.arange(24), np.arange(24), indexing="ij"), axis=-1)
    pictures = []
    for kind in label:
        middle, size = generator.uniform(8, 16, 2), generator.uniform(4, 7)
        near = np.abs(grid - middle)
        far, round_ = near.max(axis=-1), np.hypot(*np.moveaxis(near, -1, 0))
        inside = (
            far < size,
            round_ < size,
            (near.min(axis=-1) < 1.5) & (far < size),
            near.sum(axis=-1) < size,
            (far < size) & (far > size - 2),
            (round_ < size) & (round_ > size - 2),
            (near[..., 0] < 2) & (near[..., 1] < size),
            (near[..., 1] < 2) & (near[..., 0] < size),
        )[kind]
        picture = np.where(inside[..., None], generator.uniform(0, 255, 3), generator.uniform(0, 255, 3))
        pictures.append(np.clip(picture + generator.normal(0, 20, picture.shape), 0, 255))
    x = np.stack(pictures).astype(np.uint8)
    return Set({"image": x}, x.reshape(320, -1) / 255, label, "accuracy")


def windows() -> Set:
    """Three sensors in windows of 64 steps; six activities that differ in frequency and in which sensor moves."""
    generator = np.random.default_rng(3)
    label = np.arange(720) % 6
    steps, phase = np.arange(64), generator.uniform(0, 6.28, (720, 1, 3))
    speed = np.array([0.15, 0.3, 0.6])[label % 3][:, None, None]
    strength = np.where(label < 3, 1.0, 0.4)[:, None, None] * np.array([1.0, 0.6, 0.3])
    x = strength * np.sin(speed * steps[None, :, None] * generator.uniform(0.8, 1.2, (720, 1, 1)) + phase)
    x = (x + generator.normal(0, 0.5, x.shape)).astype(np.float32)
    return Set({"x": x}, x.reshape(720, -1), label, "accuracy")


def imbalanced() -> Set:
    from sklearn.datasets import make_classification

    x, y = make_classification(4000, 12, n_informative=5, weights=[0.98], class_sep=1.0, flip_y=0.005, random_state=5)
    return Set({"x": x.astype(np.float32)}, x, y.astype(np.int64), "balanced_accuracy")


def friedman() -> Set:
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(800, 10, noise=1.0, random_state=2)
    return Set({"x": x.astype(np.float32)}, x, y.astype(np.float32), "mae")


def several_labels() -> Set:
    from sklearn.datasets import make_multilabel_classification

    x, y = make_multilabel_classification(900, 20, n_classes=5, random_state=1)
    return Set({"x": x.astype(np.float32)}, x, y.astype(np.float32), "auc")


def languages() -> Set:
    """Lines of the system's manual pages, by language."""
    texts: list[str] = []
    labels: list[str] = []
    for language in ("de", "fr", "es", "it", "pl", "nl", "da"):
        lines: list[str] = []
        for path in sorted(Path("/usr/share/man", language).glob("man*/*.gz"))[:200]:
            text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            lines += [line for line in text.splitlines() if len(line.split()) >= 6 and not line.startswith((".", "'"))]
        texts += lines[:150]
        labels += [language] * len(lines[:150])
    return Set({"text": texts}, texts, np.array(labels), "accuracy")


def stamps() -> Set:
    """Pictures that come with Debian's tuxpaint-stamps-default, by folder: 16 uneven classes, of many sizes."""
    files = sorted(Path("/usr/share/tuxpaint/stamps").glob("*/**/*.png"))
    names = [path.relative_to("/usr/share/tuxpaint/stamps").parts[0] for path in files]
    small = [np.asarray(_on_white(path).resize((16, 16)), np.float32).reshape(-1) / 255 for path in files]
    pictures = [_png(_on_white(path)) for path in files]
    return Set({"image": pictures}, np.stack(small), np.array(names), "balanced_accuracy")


def _on_white(path: Path) -> Any:
    """A picture of at most 64 x 64, without its alpha channel."""
    from PIL import Image

    with Image.open(path) as file:
        picture = file.convert("RGBA")
    picture.thumbnail((64, 64))
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture).convert("RGB")


def _png(picture: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


TUNED: dict[str, Callable[[], Set]] = {
    "iris": lambda: _loaded("iris"),
    "digits": lambda: _loaded("digits"),
    "shapes": shapes,
    "stamps": stamps,
    "windows": windows,
    "imbalanced": imbalanced,
    "friedman": friedman,
}
ASIDE: dict[str, Callable[[], Set]] = {
    "wine": lambda: _loaded("wine"),
    "cancer": lambda: _loaded("breast_cancer"),
    "diabetes": lambda: _loaded("diabetes"),
    "digit images": digit_images,
    "several labels": several_labels,
    "languages": languages,
}


def score(metric: str, truth: Any, said: Any) -> float:
    """Of predicted classes, of numbers, or of probabilities by label; less is better for mae."""
    from sklearn import metrics

    if metric == "mae":
        return float(np.abs(np.asarray(said).reshape(-1) - truth).mean())
    if metric == "auc":
        return float(metrics.roc_auc_score(truth, said, average="macro"))
    if metric == "balanced_accuracy":
        return float(metrics.balanced_accuracy_score(truth, said))
    return float(metrics.accuracy_score(truth, said))


def simple_models(metric: str, is_text: bool, seed: int) -> list[Any]:
    from sklearn import ensemble, linear_model, multiclass, neighbors, pipeline, preprocessing, svm
    from sklearn.feature_extraction.text import TfidfVectorizer

    scaled = preprocessing.StandardScaler
    if metric == "mae":
        return [
            pipeline.make_pipeline(scaled(), linear_model.RidgeCV()),
            ensemble.RandomForestRegressor(200, random_state=seed),
            ensemble.HistGradientBoostingRegressor(random_state=seed),
        ]
    if is_text:
        return [pipeline.make_pipeline(TfidfVectorizer(), linear_model.LogisticRegression(max_iter=500))]
    weight = "balanced" if metric == "balanced_accuracy" else None
    logistic = linear_model.LogisticRegression(max_iter=500, class_weight=weight)
    if metric == "auc":
        return [pipeline.make_pipeline(scaled(), multiclass.OneVsRestClassifier(logistic))]
    return [
        pipeline.make_pipeline(scaled(), logistic),
        pipeline.make_pipeline(scaled(), svm.SVC(class_weight=weight)),
        pipeline.make_pipeline(scaled(), neighbors.KNeighborsClassifier()),
        ensemble.RandomForestClassifier(200, class_weight=weight, random_state=seed),
        ensemble.HistGradientBoostingClassifier(class_weight=weight, random_state=seed),
    ]


def simple(data: Set, parts: dict[str, Any], seed: int) -> float:
    """The score on test of the simple model that is best on val.

    They have one thread: those that wait for each other take minutes on busy cores.
    """
    from threadpoolctl import threadpool_limits

    def rows(part: Any) -> Any:
        return [data.rows[row] for row in part] if isinstance(data.rows, list) else data.rows[part]

    def said(model: Any, part: Any) -> Any:
        return model.predict_proba(rows(part)) if data.metric == "auc" else model.predict(rows(part))

    sign = -1 if data.metric == "mae" else 1
    best, kept = -np.inf, None
    for model in simple_models(data.metric, isinstance(data.rows, list), seed):
        with threadpool_limits(1):
            model.fit(rows(parts["train"]), data.labels[parts["train"]])
        found = sign * score(data.metric, data.labels[parts["val"]], said(model, parts["val"]))
        if found > best:
            best, kept = found, model
    return score(data.metric, data.labels[parts["test"]], said(kept, parts["test"]))


def by_bushel(data: Set, parts: dict[str, Any], seed: int, folder: Path) -> tuple[float, str]:
    """The score on test of what `bushel train` makes by default, and what it says of it."""
    order = np.concatenate(list(parts.values()))
    names = np.repeat(list(parts), [len(part) for part in parts.values()])
    columns = {name: values if isinstance(values, list) else list(values) for name, values in data.columns.items()}
    rows = (
        {**{name: values[row] for name, values in columns.items()}, "label": data.labels[row].tolist()
         if data.labels.ndim > 1 else data.labels[row].item(), "part": str(part)}
        for row, part in zip(order, names, strict=True)
    )  # fmt: skip
    bushel.build(rows, folder / "data", split="part", label="label")
    trained = train(folder / "data", Options(seed=seed, tensorboard=False, deterministic=False), out=folder / "run")
    return trained.metrics["test"][data.metric], f"{len(trained.history)} epochs; {trained.verdict.summary}"


def measure(names: list[str], splits: int, store: Path) -> list[dict[str, Any]]:
    done = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    known = {(result["set"], result["split"]) for result in done}
    for seed in range(splits):
        for name in names:
            if (name, seed) in known:
                continue
            data = {**TUNED, **ASIDE}[name]()
            order = np.random.default_rng(seed).permutation(len(data.labels))
            cuts = np.array([0.6, 0.8]) * len(order)
            parts = dict(zip(("train", "val", "test"), np.split(order, cuts.astype(int)), strict=True))
            with tempfile.TemporaryDirectory(prefix="bushel-defaults-") as folder:
                own, said = by_bushel(data, parts, seed, Path(folder))
            keras.backend.clear_session()
            result = {
                "set": name,
                "split": seed,
                "metric": data.metric,
                "bushel": own,
                "simple": simple(data, parts, seed),
            }
            print(f"{name}, split {seed}: {own:.3f} beside {result['simple']:.3f} ({said[:90]})", flush=True)
            done.append(result)
            with store.open("a") as file:
                file.write(json.dumps(result) + "\n")
    return done


def page(results: list[dict[str, Any]]) -> str:
    """A row per set: means over splits, and how far bushel is ahead of the simple model in its worst and best split."""
    header = ["set", "metric", "splits", "bushel", "best simple model", "worst split", "best split", "put aside"]
    lines = [
        "# How good are models by default?",
        "",
        "Written by `python benchmarks/defaults.py --out benchmarks/defaults.md`: `bushel train` with default options",
        "beside the simple model of scikit-learn that is best on the validation split, both measured on the test",
        "split. Worst and best split: how far bushel is ahead there. Of mae, less is better. The sets that were put",
        "aside were never used to choose anything.",
        "",
        f"| {' | '.join(header)} |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for name in (*TUNED, *ASIDE):
        found = [result for result in results if result["set"] == name]
        if found:
            own, other = (np.array([result[who] for result in found]) for who in ("bushel", "simple"))
            ahead = other - own if found[0]["metric"] == "mae" else own - other
            cells = [name, found[0]["metric"], str(len(found)), f"{own.mean():.3f}", f"{other.mean():.3f}"]
            cells += [f"{ahead.min():+.3f}", f"{ahead.max():+.3f}", "yes" if name in ASIDE else ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", action="append")
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "bushel-defaults.jsonl")
    parser.add_argument("--out", type=Path, help="write the page there, too")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    text = page(measure(given.only or [*TUNED, *ASIDE], given.splits, given.results))
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
