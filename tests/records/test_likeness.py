"""Which records are the same, and whose label neighbours contradict: the same by `check` and on the page."""

import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.data.roles import Account, Role
from bushel.pixels.codecs import encode_pixels
from bushel.records.likeness import numbers_of, scaled
from bushel.viewing.finding_views import DuplicateJob, SuspectJob
from bushel.viewing.opened import open_all

WORDS = (("rain", "wind", "cloud", "storm", "sun"), ("goal", "team", "match", "score", "coach"))


def picture(kind: int, draw: np.random.Generator) -> dict[str, Any]:
    pixels = np.clip(draw.normal(90, 30, (16, 16, 3)), 0, 255)
    pixels[:, :8] += 90 * kind
    pixels[:, 8:] += 90 * (1 - kind)
    return {"photo": encode_pixels(np.clip(pixels, 0, 255).astype(np.uint8), "png")}


def text(kind: int, draw: np.random.Generator) -> dict[str, Any]:
    return {"words": " ".join(draw.choice(WORDS[kind], 12)) + f" {draw.integers(10**6)} report"}


def tone(kind: int, draw: np.random.Generator) -> dict[str, Any]:
    samples = np.sin(np.arange(4000) * (0.05 + 0.2 * kind) + draw.random()) + draw.normal(0, 0.2, 4000)
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1), sound.setsampwidth(2), sound.setframerate(8000)
        sound.writeframes((samples * 8000).astype("<i2").tobytes())
    return {"clip": file.getvalue()}


def table(kind: int, draw: np.random.Generator) -> dict[str, Any]:
    return {"a": np.float32(draw.normal(9 * kind)), "b": np.float32(draw.normal(-8 * kind)), "c": int(draw.integers(9))}


KINDS: list[Callable[[int, np.random.Generator], dict[str, Any]]] = [picture, text, tone, table]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with bushel.Writer(path) as writer:
        for row in rows:
            writer.write(row)
    return path


def records(make: Any, count: int, seed: int = 0) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    return [{**make(row % 2, draw), "label": row % 2} for row in range(count)]


def found(folder: Path, *rules: str) -> list[Any]:
    return [finding for finding in bushel.check(folder) if finding.rule in rules]


@pytest.mark.parametrize("make", KINDS)
def test_check_and_the_page_suspect_the_same_labels(make: Any, tmp_path: Path) -> None:
    rows = records(make, 200)
    for number in range(0, 200, 25):
        rows[number]["label"] = 1 - rows[number]["label"]
    write(tmp_path / "train.tfrecord", rows)
    (finding,) = found(tmp_path, "LBL010")
    opened = open_all([tmp_path])[0]
    opened.count()
    job = SuspectJob(opened)
    job.work()
    swapped = {one["row"] for one in job.suspects}
    assert swapped == set(range(0, 200, 25))
    assert finding.message.startswith("8 records of 200 whose neighbours contradict their label")
    assert {place.record for place in finding.locations} <= swapped
    assert (finding.severity, finding.confidence) == ("warning", "likely")


@pytest.mark.parametrize("make", KINDS)
def test_a_shard_whose_labels_were_shifted_is_found(make: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    for shard in range(3):
        rows = records(make, 120, seed=shard)
        draw.shuffle(rows)
        if shard == 1:
            labels = [row["label"] for row in rows]
            rows = [{**row, "label": label} for row, label in zip(rows, [labels[-1], *labels[:-1]], strict=True)]
        write(tmp_path / f"train-{shard}.tfrecord", rows)
    (finding,) = found(tmp_path, "LBL011")
    assert "train-1.tfrecord" in finding.message


@pytest.mark.parametrize("make", KINDS)
def test_healthy_labels_are_not_suspected(make: Any, tmp_path: Path) -> None:
    for shard in range(2):
        write(tmp_path / f"train-{shard}.tfrecord", records(make, 100, seed=shard))
    assert found(tmp_path, "LBL010", "LBL011") == []


@pytest.mark.parametrize(
    ("column", "values"),
    [("subset", ("train", "test")), ("part_of", (1, 2)), ("when_added", ("monday", "tuesday"))],
)
def test_a_column_that_only_says_the_split_hides_no_copies(column: str, values: Any, tmp_path: Path) -> None:
    rows = records(picture, 60)
    write(tmp_path / "train.tfrecord", [{**row, column: values[0]} for row in rows])
    write(tmp_path / "test.tfrecord", [{**row, column: values[1]} for row in rows[:30]])
    (finding,) = found(tmp_path, "SPL001")
    assert finding.message == f"30 of 30 records of test are in train too (100.0%); compared without {column!r} (split)"
    assert finding.confidence == "likely"
    opened = open_all([tmp_path])[0]
    opened.count()
    job = DuplicateJob(opened)
    job.work()
    assert (job.count, job.extra) == (30, 30)
    assert column in opened.content.left_out


def test_a_column_that_tells_the_label_by_being_there_is_a_likely_leak(tmp_path: Path) -> None:
    rows, draw = records(table, 300), np.random.default_rng(1)
    for row in rows:
        row["a"] = row["b"] = np.float32(draw.normal())
        if row["label"]:
            row["boat"] = 3
    write(tmp_path / "train.tfrecord", rows)
    (finding,) = found(tmp_path, "LBL009")
    assert finding.message == (
        "'boat' alone predicts all labels (the largest class has 50%): whether it is there or missing says it"
    )
    assert (finding.severity, finding.confidence, finding.evidence["by"]) == ("warning", "likely", "presence")


def test_a_word_and_a_mark_in_pictures_are_likely_leaks(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    texts, pictures = [], []
    for row in range(200):
        words = " ".join(draw.choice([*WORDS[0], *WORDS[1]], 12))
        texts.append({"text": words + (" unsubscribe" if row % 2 else " hello"), "label": row % 2})
        pixels = draw.integers(0, 256, (24, 24, 3)).astype(np.uint8)
        pixels[:3, :3] = 255 * (row % 2)
        pictures.append({"image": encode_pixels(pixels, "png"), "label": row % 2})
    (tmp_path / "texts").mkdir(), (tmp_path / "pictures").mkdir()
    write(tmp_path / "texts" / "train.tfrecord", texts)
    write(tmp_path / "pictures" / "train.tfrecord", pictures)
    (finding,) = found(tmp_path / "texts", "LBL009")
    assert finding.evidence["subject"] in ("text, the word unsubscribe", "text, the word hello")
    (finding,) = found(tmp_path / "pictures", "LBL009")
    assert finding.message.startswith("'image, 0% from the top and 0% from the left' alone predicts")
    assert finding.severity == "warning"


@pytest.mark.parametrize("shape", [(0, 0, 3), (4, 0), (3,), (2, 2, 2, 2)])
def test_pixels_that_are_no_image_are_left_out(shape: tuple[int, ...]) -> None:
    account = Account(roles={"image": Role("image", "it was said")})
    assert numbers_of({"image": np.zeros(shape, np.uint8)}, ["image"], account) == {}


def test_numbers_whose_square_is_beyond_their_type_are_compared() -> None:
    far = np.array([[1e30], [-1e30], [2e30]], np.float32)
    assert np.isfinite(scaled([far])).all()
