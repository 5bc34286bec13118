"""Ordinary data gives nothing above info: long tails, counts, categories, noise, keys, series, boxes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

Columns = dict[str, Any]
MAKERS: list[Callable[[np.random.Generator, int], Columns]] = []


def healthy(make: Callable[[np.random.Generator, int], Columns]) -> Callable[[np.random.Generator, int], Columns]:
    MAKERS.append(make)
    return make


@healthy
def prices(random: np.random.Generator, n: int) -> Columns:
    return {
        "price": np.exp(random.normal(4, 1.5, n)),
        "area": random.gamma(4, 20, n),
        "pareto": random.pareto(1.5, n) + 1,
        "label": random.integers(0, 2, n),
    }


@healthy
def counts(random: np.random.Generator, n: int) -> Columns:
    return {
        "visits": random.zipf(1.8, n).clip(max=10**6),
        "purchases": random.negative_binomial(0.3, 0.05, n),
        "age": random.integers(18, 90, n),
        "label": (random.random(n) < 0.2).astype(int),
    }


@healthy
def one_hot(random: np.random.Generator, n: int) -> Columns:
    codes = random.integers(0, 5, (n, 4))
    return {"x": np.eye(5, dtype=np.float32)[codes].reshape(n, 20), "label": (codes[:, 0] + codes[:, 1]) % 3}


@healthy
def customers(random: np.random.Generator, n: int) -> Columns:
    return {
        "customer_id": random.integers(0, 10**12, n),
        "tenure": random.integers(0, 72, n),
        "monthly": random.normal(65, 30, n).round(2),
        "city": random.choice(["Köln", "Paris", "Łódź"], n),
        "label": (random.random(n) < 0.26).astype(int),
    }


@healthy
def noisy_classes(random: np.random.Generator, n: int) -> Columns:
    x = random.normal(size=(n, 6))
    return {"x": x, "label": (x[:, 0] + 0.5 * x[:, 1] + random.normal(size=n) > 0).astype(int)}


@healthy
def returns(random: np.random.Generator, n: int) -> Columns:
    return {
        "time": np.arange(n),
        "ret": random.standard_t(3, n) * 0.01,
        "volume": np.exp(random.normal(12, 1, n)).astype(int),
        "label": random.integers(0, 2, n),
    }


@healthy
def series(random: np.random.Generator, n: int) -> Columns:
    kinds = random.integers(0, 4, n)
    phase = random.random(n)[:, None] * 6
    waves = np.sin(np.arange(50)[None, :] * (kinds[:, None] + 1) / 8 + phase)
    return {"signal": waves + random.normal(0, 0.3, (n, 50)), "label": kinds}


@healthy
def separate_classes(random: np.random.Generator, n: int) -> Columns:
    centres = np.random.default_rng(5).normal(0, 3, (4, 8))
    kinds = random.integers(0, 4, n)
    return {"x": centres[kinds] + random.normal(size=(n, 8)), "label": kinds}


def stored(column: np.ndarray[Any, Any]) -> Any:
    if column.dtype.kind == "U":
        return column.tolist()
    return column.astype(np.float32) if column.dtype.kind == "f" else column


@pytest.mark.parametrize("count", [150, 1_000, 6_000])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_nothing_above_info_is_found(
    make: Callable[[np.random.Generator, int], Columns], count: int, tmp_path: Path
) -> None:
    for split, seed in (("train-0", 1), ("train-1", 2), ("train-2", 3), ("val", 4)):
        columns = make(np.random.default_rng(seed * count), count if split != "val" else count // 4)
        with bushel.Writer(tmp_path / f"{split}.tfrecord") as writer:
            writer.write_batch({name: stored(column) for name, column in columns.items()})
    assert [(f.rule, f.message) for f in bushel.check(tmp_path) if f.severity != "info"] == []


def test_iris_wine_and_cancer_give_nothing_above_info(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    for kind in ("iris", "wine", "breast_cancer"):
        loaded = getattr(datasets, f"load_{kind}")()
        names = loaded.target_names[loaded.target]
        lines = [",".join([*map(str, row), name]) for row, name in zip(loaded.data, names, strict=True)]
        header = ",".join([*(f"f{i}" for i in range(loaded.data.shape[1])), "label"])
        (tmp_path / f"{kind}.csv").write_text("\n".join([header, *lines]) + "\n")
        bushel.build(tmp_path / f"{kind}.csv", tmp_path / kind, split="80/20", shards=3)
        assert [(f.rule, f.message) for f in bushel.check(tmp_path / kind) if f.severity != "info"] == []


NUMBERS = {
    "ages": lambda random, n: np.clip(random.gamma(4, 10, n).round(), 3, 110),
    "ages of adults": lambda random, n: np.clip(random.normal(45, 12, n).round(), 18, 90),
    "prices": lambda random, n: random.lognormal(12, 0.5, n).round(),
    "prices in thousands": lambda random, n: (random.lognormal(12, 0.5, n) / 1000).round(),
    "balances": lambda random, n: random.normal(0, 20_000, n).round(),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("count", [300, 3_000])
def test_integers_to_predict_are_not_taken_for_classes(name: str, count: int, tmp_path: Path) -> None:
    random = np.random.default_rng(count)
    target = NUMBERS[name](random, count).astype(int)
    rows = {"x": random.normal(size=(count, 3)).astype(np.float32), "target": target}
    built = bushel.build(rows, tmp_path / "data", label="target", split="80/10/10")
    assert built.problems == []
    assert [(f.rule, f.message) for f in bushel.check(tmp_path / "data")] == []


CODES = {
    "begin at 100": np.arange(100, 160),
    "every tenth": np.arange(0, 600, 10),
    "with unknown ones": np.arange(-1, 59),
}


@pytest.mark.parametrize("name", CODES)
def test_codes_of_classes_that_are_wrong_are_still_reported(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = {"x": random.normal(size=(3_000, 3)).astype(np.float32), "label": random.choice(CODES[name], 3_000)}
    bushel.build(rows, tmp_path / "data", label="label", split="80/10/10")
    found = {f.rule for f in bushel.check(tmp_path / "data") if f.severity != "info"}
    assert found == {"LBL001" if CODES[name][0] < 0 else "LBL002"}
