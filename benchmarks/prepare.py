"""A table prepared while it is built: by whole columns, sample by sample, and by scikit-learn in memory beforehand.

    python benchmarks/prepare.py [--rows 200000] [--json FILE]

CPU seconds of this process, in one process and with one worker, so that other programs do not matter much. What the
three make is compared: the scaled columns must be equal.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from table import settings, show

import bushel
from bushel import transforms as t
from bushel.transforms.chain import Chain

COLUMNS = [f"x{number}" for number in range(8)]
CHAIN = [*(t.standardise(name) for name in COLUMNS), t.one_hot("city")]


def table(rows: int) -> dict[str, Any]:
    """Make eight columns of numbers, a category and a label."""
    generator = np.random.default_rng(0)
    numbers = {name: generator.normal(5, 3, rows).astype(np.float32) for name in COLUMNS}
    cities = np.array([f"city{number}" for number in range(20)], object)
    return {**numbers, "city": cities[generator.integers(0, 20, rows)], "label": generator.integers(0, 2, rows)}


def measure(work: Any, folder: Path) -> float:
    """CPU seconds that a build takes."""
    begun = time.process_time()
    work(folder)
    return time.process_time() - begun


def by_column(columns: dict[str, Any]) -> Any:
    """Prepare while building."""
    source = bushel.sources.arrays(columns)
    return lambda folder: bushel.build(source, folder, transforms=CHAIN, run=bushel.Run(workers=1))


def by_sample(columns: dict[str, Any]) -> Any:
    """Prepare while building, as a chain does that holds a transform of single samples."""

    def work(folder: Path) -> None:
        whole = Chain.apply_columns
        Chain.apply_columns = lambda *_: None  # type: ignore[method-assign,assignment]
        try:
            by_column(columns)(folder)
        finally:
            Chain.apply_columns = whole  # type: ignore[method-assign]

    return work


def beforehand(columns: dict[str, Any]) -> Any:
    """Prepare in memory with scikit-learn, then build."""

    def work(folder: Path) -> None:
        numbers = StandardScaler().fit_transform(np.stack([columns[name] for name in COLUMNS], axis=1))
        cities = OneHotEncoder(sparse_output=False, dtype=np.int64).fit_transform(columns["city"][:, None])
        made = {name: numbers[:, place].astype(np.float32) for place, name in enumerate(COLUMNS)}
        source = bushel.sources.arrays({**made, "city": cities, "label": columns["label"]})
        bushel.build(source, folder, run=bushel.Run(workers=1))

    return work


def main() -> None:
    """Measure each, compare what they made, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    columns = table(options.rows)
    ways = {"by column": by_column, "by sample": by_sample, "scikit-learn beforehand": beforehand}
    with tempfile.TemporaryDirectory(prefix="bushel-bench-") as made:
        seconds = {name: measure(way(columns), Path(made) / name) for name, way in ways.items()}
        read = {name: bushel.read(next((Path(made) / name).glob("train-*.tfrecord"))) for name in ways}
    for name in ways:
        for column in (*COLUMNS, "city"):
            np.testing.assert_allclose(read[name][column], read["by column"][column], atol=1e-5)
    rows = [
        {"way": name, "CPU seconds": round(spent, 2), "times": round(spent / seconds["by column"], 2)}
        for name, spent in seconds.items()
    ]
    title = f"{options.rows:,} rows, 8 numbers standardised and a category one-hot"
    show(title, settings(rows=options.rows), rows, json_path=options.json)


if __name__ == "__main__":
    main()
