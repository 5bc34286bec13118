"""What features become, and what is said of it before training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.feeding.preparation import Input, Preparation, Problem
from bushel.training import Listener, Options
from bushel.training.inputs.augmentation import augmentation_of, usual_augmentation
from bushel.training.inputs.choose import choose_inputs, choose_target, describe_target
from bushel.training.inputs.splits import open_splits
from bushel.training.inputs.splits import rows_of as fed_rows
from bushel.transforms import tokenise
from bushel.transforms.interface import Draw

GENERATOR = np.random.default_rng(0)


def build(folder: Path, rows: list[dict[str, Any]], **more: Any) -> Path:
    bushel.build(iter(rows), folder, split="70/30", **more)
    return folder


def chosen(data: Path, **options: Any) -> tuple[dict[str, Input], list[str]]:
    preparation, notes = choose_inputs(open_splits(data, seed=0), "label", Options(**options))
    return {given.name: given for given in preparation.inputs}, notes


def task_of(data: Path, label: str = "label", **options: Any) -> str:
    splits = open_splits(data, seed=0)
    return describe_target(choose_target(splits, label=label, **options), splits.train)


def rows_of(ids: list[Any]) -> list[dict[str, Any]]:
    return [{"ids": row, "label": "ab"[number % 2]} for number, row in enumerate(ids)]


def test_integer_vectors_are_numbers_unless_the_user_says_tokens(tmp_path: Path) -> None:
    data = build(tmp_path / "data", rows_of([GENERATOR.integers(0, 17, 16) for _ in range(60)]))
    inputs, notes = chosen(data)
    assert (inputs["ids"].kind, inputs["ids"].shape, notes) == ("number", (16,), [])
    inputs, _ = chosen(data, kinds={"ids": "tokens"})
    assert (inputs["ids"].kind, inputs["ids"].size) == ("tokens", 17)


def test_integer_vectors_that_a_build_made_of_text_are_tokens(tmp_path: Path) -> None:
    rows = [{"text": f"some words {'good' if n % 2 else 'bad'}", "label": "ab"[n % 2]} for n in range(60)]
    data = build(tmp_path / "data", rows, transforms=[tokenise("text", length=8)])
    inputs, _ = chosen(data)
    assert (inputs["text"].kind, inputs["text"].pad) == ("tokens", 0)


def test_lists_of_integers_of_different_lengths_are_tokens_and_0_is_one_of_them(tmp_path: Path) -> None:
    data = build(tmp_path / "data", rows_of([GENERATOR.integers(0, 9, 2 + n % 5) for n in range(60)]))
    inputs, _ = chosen(data)
    assert (inputs["ids"].kind, inputs["ids"].pad, inputs["ids"].size) == ("tokens", -1, 9)
    without_zero = build(tmp_path / "other", rows_of([GENERATOR.integers(1, 9, 2 + n % 5) for n in range(60)]))
    assert chosen(without_zero)[0]["ids"].pad == 0


def test_long_rows_are_counted_and_the_limit_is_an_option(tmp_path: Path) -> None:
    ids = [GENERATOR.integers(1, 9, 600 if n % 10 == 0 else 20) for n in range(100)]
    data = build(tmp_path / "data", rows_of(ids))
    inputs, notes = chosen(data, max_length=512)
    assert inputs["ids"].shape == (512,)
    assert len(notes) == 1
    assert notes[0].endswith("have more than 512 values and are cut; the longest has 600 (--max-length)")
    inputs, notes = chosen(data)
    assert (inputs["ids"].shape, notes) == ((600,), [])


def test_rows_are_cut_by_default_only_where_that_costs_nearly_nothing_or_they_are_huge(tmp_path: Path) -> None:
    rare = [GENERATOR.integers(1, 9, 300 if n % 100 == 7 else 200) for n in range(400)]
    inputs, notes = chosen(build(tmp_path / "rare", rows_of(rare)))
    assert inputs["ids"].shape == (200,)
    assert inputs["ids"].cut < 0.01
    assert "records have more than 200 values and are cut; the longest has 300" in notes[0]
    huge = [GENERATOR.integers(1, 9, 5000) for _ in range(30)]
    assert chosen(build(tmp_path / "huge", rows_of([*huge, huge[0][:9]])))[0]["ids"].shape == (2048,)


def test_long_texts_are_counted(tmp_path: Path) -> None:
    rows = [{"text": f"{n} " + "word " * (300 if n == 5 else 9), "label": "ab"[n % 2]} for n in range(40)]
    _, notes = chosen(build(tmp_path / "data", rows), max_length=200)
    assert notes == [] or "have more than 200 words and are cut" in notes[0]
    every = [{"text": f"{n} " + "word " * 300, "label": "ab"[n % 2]} for n in range(40)]
    inputs, notes = chosen(build(tmp_path / "every", every))
    assert (inputs["text"].length, notes) == (301, [])


def test_negative_ids_are_counted(tmp_path: Path) -> None:
    data = build(tmp_path / "data", rows_of([np.arange(-1, 2 + n % 4) for n in range(60)]))
    inputs, notes = chosen(data)
    assert inputs["ids"].pad == -2
    assert "ids are below 0, and are fed as unknown (--kind ids=series feeds numbers)" in notes[0]
    assert chosen(data, kinds={"ids": "series"})[0]["ids"].kind == "series"


@pytest.mark.parametrize("low", [0, -3])
def test_tokens_train_and_predict_whatever_their_ids(tmp_path: Path, low: int) -> None:
    pytest.importorskip("tensorflow")
    ids = [GENERATOR.integers(low, 6, 3 + n % 5) + (6 - low) * (n % 2) for n in range(120)]
    data = build(tmp_path / "data", rows_of(ids))
    lines: list[str] = []
    listener = Listener(choice=lines.append)
    options = Options(epochs=6, batch_size=8, learning_rate=0.01, tensorboard=False)
    trained = bushel.train(data, options, out=tmp_path / "run", listener=listener)
    assert trained.verdict.learned
    assert lines[0] == "task: binary, 2 classes of 'label'"
    assert lines[1].startswith("inputs: 'ids' as tokens, up to 7 of ")
    again = bushel.evaluate(tmp_path / "run", data, split="val")
    assert again.metrics == pytest.approx(trained.metrics["val"], rel=1e-4)


def test_what_is_the_same_in_all_of_train_is_left_out_so_that_another_value_elsewhere_does_no_harm(
    tmp_path: Path,
) -> None:
    parts = ["train"] * 60 + ["val"] * 20
    rows = [{"x": float(n), "part": part, "year": 7, "label": "ab"[n % 2]} for n, part in enumerate(parts)]
    bushel.build(iter(rows), tmp_path / "data", split="part")
    inputs, notes = chosen(tmp_path / "data")
    assert list(inputs) == ["x"]
    assert notes == [
        "'part' is left out: it is 'train' in every record of train",
        "'year' is left out: it is 7 in every record of train",
    ]


def test_a_kind_that_a_feature_cannot_have_is_one_clear_line(tmp_path: Path) -> None:
    data = build(tmp_path / "data", [{"x": float(n), "label": "ab"[n % 2]} for n in range(60)])
    with pytest.raises(bushel.SchemaMismatch, match="cannot be fed as tokens, only as number"):
        chosen(data, kinds={"x": "tokens"})
    with pytest.raises(bushel.MissingName, match="'y'"):
        chosen(data, kinds={"y": "tokens"})


def numbered(folder: Path, labels: Any) -> Path:
    return build(folder, [{"x": float(n), "label": int(label)} for n, label in enumerate(labels)], label="label")


def test_ages_are_numbers_and_the_other_choice_is_offered(tmp_path: Path) -> None:
    ages = np.clip(np.round(GENERATOR.normal(45, 12, 600)), 12, 86)
    data = numbered(tmp_path / "ages", ages)
    assert task_of(data).startswith("regression of 'label' (numbers from 12 to ")
    assert task_of(data).endswith("; for classes: --task classification")
    assert task_of(data, task="classification").startswith("multi-class, ")


def test_counts_with_the_shape_of_a_measurement_are_numbers_and_codes_are_classes(tmp_path: Path) -> None:
    rings = np.clip(np.round(GENERATOR.gamma(9, 1.1, 2000)), 1, 29)
    assert task_of(numbered(tmp_path / "rings", rings)).startswith("regression")
    codes = np.arange(1000) % 50
    assert task_of(numbered(tmp_path / "codes", codes)) == (
        "multi-class, 50 classes of 'label'; if they are numbers: --task regression"
    )
    assert task_of(numbered(tmp_path / "few", np.arange(100) % 3)) == "multi-class, 3 classes of 'label'"


def test_integers_that_are_numbers_train_though_some_are_only_in_val(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    ages = np.clip(np.round(GENERATOR.normal(45, 12, 300)), 12, 86)
    rows = [{"x": float(age + GENERATOR.normal()), "age": int(age)} for age in ages]
    bushel.build(iter(rows), tmp_path / "data", split="70/30", label="age")
    trained = bushel.train(tmp_path / "data", Options(epochs=2), out=tmp_path / "run")
    assert trained.history, trained.verdict.summary


def test_sparse_rows_are_as_wide_as_the_largest_index_of_any_split(tmp_path: Path) -> None:
    for split, high in (("train", 5), ("val", 9)):
        with bushel.Writer(tmp_path / f"{split}.tfrecord") as writer:
            for n in range(40):
                writer.write({"x/indices": [n % high], "x/values": [1.0], "label": n % 2})
    assert chosen(tmp_path)[0]["x"].shape == (9,)
    assert chosen(tmp_path, sparse_width=100)[0]["x"].shape == (100,)
    with pytest.raises(ValueError, match="sparse_width must be above the largest index of 'x', 8; got 4"):
        chosen(tmp_path, sparse_width=4)


def test_an_image_of_another_size_in_a_split_is_resized(tmp_path: Path) -> None:
    from PIL import Image

    for n in range(40):
        place = tmp_path / "images" / "ab"[n % 2]
        place.mkdir(parents=True, exist_ok=True)
        side = 12 if n == 21 else 16
        Image.fromarray(np.full((side, 16, 3), 100 * (n % 2) + n, np.uint8)).save(place / f"{n}.png")
    bushel.build(str(tmp_path / "images"), tmp_path / "data", split="70/30")
    inputs, notes = chosen(tmp_path / "data")
    assert inputs["image"].shape == (16, 16, 3)
    assert notes == ["'image': images of different or large sizes are resized to 16 x 16"]


def augmented(folder: Path, images: Any, text: str) -> tuple[Any, Any]:
    """Images as they are fed, and as they are fed in training."""
    bushel.build({"image": images, "label": np.arange(len(images)) % 2}, folder, split="70/30", label="label")
    splits, options = open_splits(folder, seed=0), Options(augment=text)
    preparation, _ = choose_inputs(splits, "label", options)
    problem = Problem(preparation, choose_target(splits, label="label", task=None))
    changes = augmentation_of(text, preparation)
    plain, _ = fed_rows(splits.train, problem, options, most=16)
    changed, _ = fed_rows(splits.train, problem, options, most=16, augmentation=changes)
    return plain["image"], changed["image"]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int64", "float32", "bool"])
@pytest.mark.parametrize("shape", [(9, 8, 1), (9, 8, 4), (3, 9, 8, 3)])
def test_images_and_clips_of_every_stored_type_are_augmented(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    images = GENERATOR.integers(0, 2 if dtype == "bool" else 256, (24, *shape)).astype(dtype)
    images = images / np.float32(255) if dtype == "float32" else images
    plain, changed = augmented(tmp_path / "data", images, "flips,crop=0.9,rotate=5,cutout=3,brightness,contrast")
    assert changed.shape == plain.shape
    assert 0 < np.abs(changed - plain).mean() < 0.6 * images.max()  # changed, and still of the same range
    assert changed.min() >= 0
    assert changed.max() <= plain.max() * 1.01


def test_a_brighter_image_of_0_to_1_is_brighter_by_a_share_of_1(tmp_path: Path) -> None:
    images = GENERATOR.uniform(0.3, 0.7, (24, 6, 6, 1)).astype(np.float32)
    images[:, 0, 0] = [[0.0]]
    images[:, 0, 1] = [[1.0]]
    plain, changed = augmented(tmp_path / "data", images, "brightness=0.1")
    moved = (changed - plain)[:, 1:]
    assert np.abs(moved).max() <= 0.1 + 1e-5
    assert np.ptp(moved, axis=(1, 2, 3)).max() < 1e-5  # all pixels of an image by the same amount


def test_flips_move_all_frames_of_a_clip_alike(tmp_path: Path) -> None:
    plain, changed = augmented(tmp_path / "data", GENERATOR.integers(0, 256, (24, 3, 6, 6, 3)), "flip")
    mirrored = [np.array_equal(new, old[:, :, ::-1]) for new, old in zip(changed, plain, strict=True)]
    same = [np.array_equal(new, old) for new, old in zip(changed, plain, strict=True)]
    assert all(one or other for one, other in zip(mirrored, same, strict=True))
    assert any(mirrored)
    assert any(same)


def test_changes_of_colours_are_refused_before_the_run_where_there_are_no_three_channels(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"augment 'hue' does not fit the inputs: image \(image, channels: 4\)"):
        augmented(tmp_path / "data", GENERATOR.integers(0, 256, (24, 6, 6, 4)), "hue")


@pytest.mark.parametrize("rename", [{}, {"id": "number"}], ids=["as it is", "renamed"])
def test_the_column_that_the_build_took_for_the_key_is_not_fed_unless_it_is_asked_for(
    tmp_path: Path, rename: dict[str, str]
) -> None:
    rows = [f"{1000 + 7 * n},{n % 5}.5,{'ab'[n % 2]}" for n in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,size,label", *rows]))
    data = tmp_path / "data"
    bushel.build(bushel.sources.table(tmp_path / "rows.csv", key="id", rename=rename), data, split="70/30")
    name = rename.get("id", "id")
    inputs, notes = chosen(data)
    assert list(inputs) == ["size"]
    assert notes == [f"{name!r} is left out: it is the key of the records (--columns feeds it)"]
    assert list(chosen(data, columns=(name, "size"))[0]) == [name, "size"]


@pytest.mark.parametrize("kind", ["arrays", "rows"])
def test_the_key_of_samples_in_memory_is_not_fed_either(tmp_path: Path, kind: str) -> None:
    columns = {"id": np.arange(500, 560), "size": np.arange(60) % 5 + 0.5, "label": np.arange(60) % 2}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    source = (
        bushel.sources.arrays(columns, key="id")
        if kind == "arrays"
        else bushel.sources.iterable(lambda: iter(rows), key="id")
    )
    bushel.build(source, tmp_path / "data", split="70/30", label="label")
    assert list(chosen(tmp_path / "data")[0]) == ["size"]


def test_few_images_are_moved_in_training_unless_they_are_tiny_or_many_or_the_user_says_otherwise(
    tmp_path: Path,
) -> None:
    def image(side: int) -> Preparation:
        given = Input(name="image", kind="image", shape=(side, side, 3), dtype="uint8", min=0.0, max=255.0)
        return Preparation(("image",), inputs=(given,))

    usual = [usual_augmentation(records, image(side)) for records, side in ((100, 16), (100, 12), (9000, 64))]
    assert usual == ["shift", None, None]
    assert augmentation_of("none", image(16)) == ()
    (shift,) = augmentation_of("shift", image(16))
    pixels = np.arange(16 * 16 * 3, dtype=np.uint16).reshape(16, 16, 3)
    moved = [shift.apply({"image": pixels}, Draw(0, 0, record))["image"] for record in range(40)]
    assert {picture.shape for picture in moved} == {(16, 16, 3)}
    places = {tuple(np.argwhere(picture[..., 0] == pixels[8, 8, 0])[0] - 8) for picture in moved}
    assert len(places) > 8
    assert all(abs(down) <= 2 and abs(across) <= 2 for down, across in places)


def test_dates_are_fed_as_numbers_and_cycles_and_that_is_said(tmp_path: Path) -> None:
    days = np.arange("2021-01-01", "2022-12-31", dtype="datetime64[D]")
    rows = [f"{'?' if at % 50 == 7 else day},{at % 2}" for at, day in enumerate(days)]
    (tmp_path / "rows.csv").write_text("\n".join(["day,label", *rows]))
    bushel.build(tmp_path / "rows.csv", tmp_path / "data", split="80/20")
    inputs, notes = chosen(tmp_path / "data")
    assert notes == [
        "'day' is a date, and is fed as days since 2021-01-01, year, month, weekday, the cycle of the year, "
        "the cycle of the week (--columns leaves it out)"
    ]
    assert (inputs["day"].kind, inputs["day"].shape, inputs["day"].has_missing) == ("number", (8,), True)
