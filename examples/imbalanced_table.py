"""A CSV whose classes are uneven to a classifier with class weights.

python examples/imbalanced_table.py        needs: pip install "bushel[tables,tensorflow]" scikit-learn
"""

import csv
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

import bushel
from bushel.training import Options


def write_rows(path: Path) -> None:
    """All benign tumours and every fourth malignant one: seven to one."""
    cancer = load_breast_cancer()
    malignant = np.flatnonzero(cancer.target == 0)[::4]
    rows = np.sort(np.concatenate([np.flatnonzero(cancer.target == 1), malignant]))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(name.replace(" ", "_") for name in cancer.feature_names[:10]), "diagnosis"])
        for row in rows:
            writer.writerow([*cancer.data[row, :10], cancer.target_names[cancer.target[row]]])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-rows-") as name:
        folder = Path(name)
        write_rows(folder / "rows.csv")
        bushel.build(str(folder / "rows.csv"), folder / "data", label="diagnosis", split="70/30", stratify="diagnosis")
        options = Options(epochs=15, class_weights="balanced")
        trained = bushel.train(folder / "data", options, out=folder / "run")
        print(trained.verdict.summary)
        print((folder / "run" / "classes.csv").read_text())
        assert trained.verdict.metric == "balanced_accuracy"
        assert trained.metrics["val"]["balanced_accuracy"] > 0.8


if __name__ == "__main__":
    main()
