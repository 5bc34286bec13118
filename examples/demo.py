"""The main job in small: write a dataset, read it back, look at it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import bushel


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bushel-demo-"))
    path = folder / "numbers.tfrecord"
    rng = np.random.default_rng(0)
    x, label = rng.random((10_000, 64), np.float32), rng.integers(0, 10, 10_000)

    print(f"write 10,000 samples to {path}")
    with bushel.Writer(path) as writer:
        writer.write_batch({"x": x, "label": label, "id": [f"sample {i}" for i in range(10_000)]})

    columns = bushel.read(path)
    assert (columns["x"] == x).all()
    assert (columns["label"] == label).all()
    print("read them back: equal\n")

    command = [sys.executable, "-m", "bushel", "info", str(path)]
    print(f"$ bushel info {path}", flush=True)
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
