"""A log of sensors to windows, and windows to a classifier of what was going on.

python examples/sensor_windows.py        needs: pip install "bushel[tables,tensorflow]"
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

import bushel
from bushel import sources
from bushel.training import Options

ACTIVITIES = {"rest": (0.0, 0.1), "walk": (0.25, 1.0), "run": (0.7, 2.0)}  # frequency, strength


def write_log(path: Path) -> None:
    """Twelve people, each at rest, walking and running for a while; an accelerometer of three axes."""
    generator = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "t", "ax", "ay", "az", "activity"])
        for person in range(12):
            for number, (activity, (frequency, strength)) in enumerate(ACTIVITIES.items()):
                steps = np.arange(320)
                phases = generator.uniform(0, 6.28, 3)
                axes = strength * np.sin(frequency * steps[:, None] + phases) + generator.normal(0, 0.2, (320, 3))
                for step, row in zip(steps, axes, strict=True):
                    writer.writerow([f"{person}-{number}", step, *(f"{value:.4f}" for value in row), activity])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-sensors-") as name:
        folder = Path(name)
        write_log(folder / "log.csv")
        windows = sources.series(
            str(folder / "log.csv"), time="t", series="person", length=64, stride=32, label="activity"
        )
        bushel.build(windows, folder / "data", split="70/30")
        trained = bushel.train(folder / "data", Options(epochs=10, augment="jitter=0.05"), out=folder / "run")
        print(trained.verdict.summary)
        assert trained.metrics["val"]["accuracy"] > 0.9


if __name__ == "__main__":
    main()
