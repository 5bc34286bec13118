"""The main job in small: a folder of images becomes a dataset, is looked at, checked, and read in shuffled batches."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import bushel
from bushel import transforms as t

SHAPES = ("circle", "square", "triangle")


def draw(shape: str, rng: np.random.Generator) -> Image.Image:
    """Draw one shape of random size, place and colour."""
    image = Image.new("RGB", (96, 96), tuple(rng.integers(160, 256, 3).tolist()))
    colour = tuple(rng.integers(0, 128, 3).tolist())
    x, y, size = (int(n) for n in (*rng.integers(10, 40, 2), rng.integers(24, 48)))
    pen = ImageDraw.Draw(image)
    if shape == "circle":
        pen.ellipse((x, y, x + size, y + size), fill=colour)
    elif shape == "square":
        pen.rectangle((x, y, x + size, y + size), fill=colour)
    else:
        pen.polygon(((x, y + size), (x + size, y + size), (x + size // 2, y)), fill=colour)
    return image


def make_photos(folder: Path) -> None:
    """Make a folder with a sub-folder a class, and one file that is broken, as there always is."""
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True)
        for i in range(200):
            draw(shape, rng).save(folder / shape / f"{i:03}.jpg", quality=90)
    whole = (folder / "circle" / "000.jpg").read_bytes()
    (folder / "circle" / "broken.jpg").write_bytes(whole[: len(whole) // 2])


def run(*command: str) -> None:
    """Run a command as a user would."""
    print(f"\n$ bushel {' '.join(command)}", flush=True)
    subprocess.run([sys.executable, "-m", "bushel", *command], check=False)


def main() -> None:
    """Build, look, check, read."""
    with tempfile.TemporaryDirectory(prefix="bushel-demo-") as made:
        folder = Path(made)
        photos, data = str(folder / "photos"), str(folder / "data")
        make_photos(Path(photos))
        run("build", photos, data, "--split", "80/10/10", "--stratify", "label")
        run("info", data)
        run("check", data)

        print("\nread it in batches, shuffled over the whole split, decoded and resized in threads:")
        train = bushel.open(data)["train"]
        order = bushel.Order(shuffle=True, seed=7)
        steps = [t.decode_image("image"), t.resize("image", 64, 64)]
        for batch in bushel.batches(train, batch_size=128, order=order, transforms=steps):
            print(f"  image {batch['image'].shape} {batch['image'].dtype}, labels {np.bincount(batch['label'])}")


if __name__ == "__main__":
    main()
