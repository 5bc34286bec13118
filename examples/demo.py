"""The main job in small: a folder of images becomes a dataset, is checked, and trains a model that is judged.

The images are the handwritten digits that scikit-learn carries, so nothing is downloaded.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def make_photos(folder: Path) -> None:
    """Make a folder with a sub-folder a class, and one file that is broken, as there always is."""
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        place = folder / str(label)
        place.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((pixels * 15).astype(np.uint8)).resize((32, 32), Image.Resampling.BICUBIC)
        image.save(place / f"{number:04}.png")
    whole = (folder / "0" / "0000.png").read_bytes()
    (folder / "0" / "broken.png").write_bytes(whole[: len(whole) // 2])


def run(*command: str) -> int:
    """Run a command as a user would."""
    print(f"\n$ bushel {' '.join(command)}", flush=True)
    return subprocess.run([sys.executable, "-m", "bushel", *command], check=False).returncode


def main() -> None:
    """Build, look, check, train, and ask the model."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="bushel-demo-"))
    photos, data, trained = (str(out / name) for name in ("photos", "data", "run"))
    make_photos(Path(photos))
    run("build", photos, data, "--split", "80/10/10", "--stratify", "label")
    run("info", data)
    run("check", data)
    code = run("train", data, "--out", trained, "--epochs", "6", "--augment", "rotate=10")
    run("predict", trained, f"{photos}/7/0007.png", f"{photos}/0/broken.png")
    print(f"\nthe report: {trained}/report.html")
    sys.exit(code)


if __name__ == "__main__":
    main()
