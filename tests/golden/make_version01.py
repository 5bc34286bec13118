"""Write `version01`: a dataset, its indexes, two runs and the state of a reader, and what is in them, by bushel 0.1.

    PYTHONPATH=tests python tests/golden/make_version01.py FOLDER

It was run once. What it wrote is never written again: later versions read it.
"""

import json
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from test_frozen_bytes import plain, plain_records

import bushel
from bushel import Run, predict
from bushel import transforms as t
from bushel.training import Options


def write_dataset() -> None:
    """Images, numbers, a category that is sometimes missing, and three classes."""
    noise = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for n in range(60):
        kind = n % 3
        pixels = np.full((3, 3, 3), 40 * kind, np.uint8) + noise.integers(0, 40, (3, 3, 3), np.uint8)
        row = {"n": n, "x": noise.normal(kind, 0.3, 4).astype(np.float32), "label": ["ant", "bee", "cat"][kind]}
        row["thumb"] = pixels
        rows.append(row | ({"colour": "red" if n % 2 else "blue"} if n % 5 else {}))
    bushel.build(iter(rows), "dataset", transforms=[t.standardise("x")], split="70/30", shards=3, run=Run(workers=1))


def train(name: str, **options: Any) -> list[list[Any]]:
    """Train, keep what reading needs, and return what the model predicts for the validation split."""
    bushel.train("dataset", Options(epochs=2, columns=("x", "colour"), tensorboard=False, **options), out=name)
    for beside in ("logs", "report.html"):
        path = Path(name) / beside
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    run = Path(name) / "run.json"
    run.write_text(run.read_text().replace(str(Path("dataset").resolve()), "dataset"))
    return predicted(name)


def predicted(run: str) -> list[list[Any]]:
    return [[found.label, round(float(found.probability), 4)] for found in predict(run, "dataset", split="val")]


def read_on() -> list[list[int]]:
    """Save where a reader stands after its third batch, and return what it reads from there."""
    train = bushel.open("dataset")["train"]
    with bushel.batches(train, batch_size=4, order=bushel.Order(shuffle=True, seed=7), epochs=2) as feed:
        for _ in range(3):
            next(feed)
        Path("state.json").write_text(json.dumps(feed.state(), indent=1) + "\n")
        return [batch["n"].tolist() for batch in feed]


def expected() -> dict[str, Any]:
    dataset = bushel.open("dataset")
    shards = sorted(str(path) for path in Path("dataset").glob("*.tfrecord"))
    return {
        "dataset": {name: plain_records(split[n] for n in range(len(split))) for name, split in dataset.splits.items()},
        "indexes": {f: {k: plain(v) for k, v in bushel.load_index(f).values.items()} for f in shards},
        "trees": train("trees", model="trees"),
        "network": train("network"),
        "batches": read_on(),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir()  # an error if it is there: old files stay as they are
    with chdir(folder):
        write_dataset()
        Path("expected.json").write_text(json.dumps(expected()) + "\n")
