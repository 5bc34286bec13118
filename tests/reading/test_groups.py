"""Small images are made several batches at a time: the batches are those that are made one by one."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel
from bushel import Order, Workers
from bushel import transforms as t

ONE_BY_ONE = Workers(threads=2, ahead=3)


def write(path: Path, sizes: list[tuple[int, int]], broken: tuple[int, ...] = ()) -> Path:
    with bushel.Writer(path) as writer:
        for number, (height, width) in enumerate(sizes):
            pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)
            data = io.BytesIO()
            Image.fromarray(pixels).save(data, "PNG")
            image = b"none" if number in broken else data.getvalue()
            writer.write({"image": image, "label": number % 3, "number": number, "tokens": list(range(1 + number % 4))})
    return path


def feed(path: Path, steps: list[Any], **changes: Any) -> Any:
    settings: dict[str, Any] = {"columns": ["image", "label", "number"], "order": Order(shuffle=True, seed=1)}
    return bushel.batches(bushel.open(path)["all"], batch_size=8, transforms=steps, **{**settings, **changes})


def facts(batch: Any) -> tuple[Any, ...]:
    real = None if batch.real is None else batch.real.tolist()
    columns = {name: np.asarray(column).tolist() for name, column in batch.items() if not hasattr(column, "row_splits")}
    return batch.rows.tolist(), real, batch.epoch, columns, sorted(batch), batch["image"].dtype


def most_at_once(reading: Any) -> int:
    """How many batches were ready at a time."""
    most = 0
    for _ in reading:
        most = max(most, len(reading._ready) + 1)
    return most


STEPS = [t.decode_image("image"), t.random_flip("image"), t.normalise("image", 127.5, 127.5)]


@pytest.mark.parametrize(
    "steps", [STEPS, [*STEPS, t.mixup("image", "label", 3)], [*STEPS, t.cutmix("image", "label", 3)], STEPS[:1]]
)
def test_batches_made_together_are_those_made_one_by_one(tmp_path: Path, steps: list[Any]) -> None:
    path = write(tmp_path / "a.tfrecord", [(9, 7)] * 101)
    assert most_at_once(feed(path, steps)) > 1
    assert most_at_once(feed(path, steps, workers=ONE_BY_ONE)) == 1
    alone = [facts(batch) for batch in feed(path, steps, epochs=2, workers=ONE_BY_ONE)]
    assert [facts(batch) for batch in feed(path, steps, epochs=2)] == alone
    begun = feed(path, steps, epochs=2)
    first = [facts(next(begun)) for _ in range(3)]
    rest = feed(path, steps, epochs=2)
    rest.restore(begun.state())
    assert first + [facts(batch) for batch in rest] == alone


@pytest.mark.parametrize("on_fault", ["skip", "replace"])
def test_images_that_cannot_be_decoded_are_passed_over_in_their_own_batch(tmp_path: Path, on_fault: str) -> None:
    path = write(tmp_path / "a.tfrecord", [(9, 7)] * 101, broken=(3, 40, 41))
    together, alone = feed(path, STEPS, on_fault=on_fault), feed(path, STEPS, on_fault=on_fault, workers=ONE_BY_ONE)
    assert [facts(batch) for batch in together] == [facts(batch) for batch in alone]
    assert together.report().damaged == alone.report().damaged == 3


def test_all_batches_before_an_image_that_cannot_be_decoded_are_delivered(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", [(9, 7)] * 101, broken=(60,))
    seen = []
    with pytest.raises(bushel.SchemaMismatch, match="the image cannot be decoded") as caught:
        for batch in feed(path, STEPS, order=Order()):
            seen += batch["number"].tolist()
    assert seen == list(range(56))
    assert caught.value.help[-1] == f"It is record 60 of {path}."


def test_images_of_several_sizes_come_as_they_do_one_batch_at_a_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", [(9, 7)] * 40 + [(5, 7), (9, 7)] * 8 + [(4, 4)] * 40)
    kinds = [
        [type(batch["image"]).__name__ for batch in feed(path, STEPS[:1], order=Order(), workers=workers)]
        for workers in (None, ONE_BY_ONE)
    ]
    assert kinds[0] == kinds[1]
    assert len(set(kinds[0])) == 2


def test_columns_that_are_not_dense_are_left_to_single_batches(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", [(9, 7)] * 50)
    columns = ["image", "tokens"]
    batches = [
        [facts(batch) + tuple(batch["tokens"][n].tolist() for n in range(8)) for batch in made]
        for made in (
            feed(path, STEPS, columns=columns, drop_last=True),
            feed(path, STEPS, columns=columns, drop_last=True, workers=ONE_BY_ONE),
        )
    ]
    assert batches[0] == batches[1]


class _FailsOnBatch:
    """Mixes nothing, and fails where a batch holds a number."""

    def apply_batch(self, columns: dict[str, Any], _: Any) -> dict[str, Any]:
        if 33 in columns["number"]:
            raise ValueError("33 is here")
        return columns


def test_an_error_in_one_of_several_batches_comes_after_those_before_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", [(9, 7)] * 101)
    seen = []
    with pytest.raises(ValueError, match="33 is here"):
        for batch in feed(path, [*STEPS, _FailsOnBatch()], order=Order()):
            seen += batch["number"].tolist()
    assert seen == list(range(32))
