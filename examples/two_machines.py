"""The two stages run by different people: one builds, the other has only the folder, and trains on it.

python examples/two_machines.py        needs: pip install "bushel[tensorflow]"

The second machine is played by a copy in another place and a process in which nothing that writes records is loaded.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import bushel

TRAIN = """
import sys
import bushel
from bushel.training import Options

data, run = sys.argv[1:]
assert not bushel.check(data).fails()          # is it what they say it is?
trained = bushel.train(data, Options(epochs=10), out=run)
assert not [name for name in sys.modules if name.startswith("bushel.building")]
print(trained.verdict.summary)
sys.exit(not trained.verdict.learned)
"""


def build(folder: Path) -> Path:
    """On the first machine: measurements to a dataset. It needs no TensorFlow."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1200, 6)).astype(np.float32)
    species = np.array(["setosa", "virginica", "versicolor"])[(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)]
    rows = {"measurements": x, "label": [str(name) for name in species]}
    bushel.build(rows, folder / "data", split="70/15/15", stratify="label")
    return folder / "data"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bushel-one-") as one, tempfile.TemporaryDirectory(prefix="two-") as two:
        shutil.copytree(build(Path(one)), Path(two) / "received")
        command = [sys.executable, "-c", TRAIN, str(Path(two) / "received"), str(Path(two) / "run")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(done.stdout)
        assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main()
