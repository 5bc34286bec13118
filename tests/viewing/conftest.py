"""Datasets to look at."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from looking import EVIL, bomb, run_folder
from pictures import encode_image, photo

import bushel


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ninety pictures of three classes in three splits, the last of which is a picture twice."""
    folder = tmp_path_factory.mktemp("images")
    for number in range(90):
        place = folder / "photos" / ("cat", "dog", "owl")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        picture = photo(number if number < 87 else number - 60, 24 + number % 5, 32)
        (place / f"{number:03}.png").write_bytes(encode_image(picture, "png"))
    bushel.build(folder / "photos", folder / "data", split="70/15/15", shards=2)
    return folder / "data"


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A foreign file with a value of each kind, text that tries to be script, a broken picture and a bomb."""
    path = tmp_path_factory.mktemp("everything") / "mixed.tfrecord"
    generator = np.random.default_rng(0)
    with bushel.Writer(path) as writer:
        for number in range(12):
            broken = {3: b"\x89PNG\r\n\x1a\n" + b"\0" * 40, 4: bomb()}
            writer.write(
                {
                    "image": broken.get(number, encode_image(photo(number, 20, 30), "png")),
                    "image/object/bbox/xmin": np.array([0.1, 0.8], np.float32),
                    "image/object/bbox/ymin": np.array([0.1, 0.2], np.float32),
                    "image/object/bbox/xmax": np.array([0.5, 0.4], np.float32),
                    "image/object/bbox/ymax": np.array([0.6, 0.9], np.float32),
                    "image/object/class/text": ["cat", EVIL],
                    "label": number % 2,
                    "text": EVIL if number in (0, 5) else f"sentence {number}",
                    "tokens": np.arange(number, number + 10),
                    "series": generator.normal(size=600).astype(np.float32),
                    "audio": np.sin(np.arange(4000) / 9).astype(np.float32),
                    "blob": bytes(range(256)),
                }
            )
    return path


@pytest.fixture
def judged(images: Path, tmp_path: Path) -> Path:
    """A run that was judged by the test split, and took every other record for a cat."""
    run = run_folder(tmp_path / "run")
    test = bushel.open(images)["test"]
    first = test.shards.first
    rows = np.arange(len(test))
    shard = np.searchsorted(first, rows, side="right") - 1
    label = np.array([test[int(row)]["label"] for row in rows])
    about = {"split": "test", "shards": [str(one.path) for one in test.shards.shards]}
    np.savez(
        run / "predictions.npz",
        shard=shard,
        record=rows - first[shard],
        loss=rows.astype(float),
        label=label,
        predicted=np.where(rows % 2, label, 0),
        probability=np.full(len(rows), 0.8),
        about=np.frombuffer(msgspec.json.encode(about), np.uint8),
    )
    facts = json.loads((run / "run.json").read_text())
    facts["data"], facts["task"]["classes"] = [str(images)], ["cat", "dog", "owl"]
    (run / "run.json").write_text(json.dumps(facts))
    return run
