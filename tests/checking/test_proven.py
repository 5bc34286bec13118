"""A finding is called proven only if it was computed over all records, and no name decided it."""

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image
from support import write_records

import bushel
from bushel import Writer


def write(folder: Path, **splits) -> Path:
    folder.mkdir(exist_ok=True)
    for split, samples in splits.items():
        with Writer(folder / f"{split}.tfrecord") as writer:
            for sample in samples:
                writer.write(sample)
    return folder


def found(path: Path, rule: str, **options):
    return [one for one in bushel.check(path, **options).findings if one.rule == rule]


def passenger(row: int, **more):
    return {"label": row * 7 % 2, "class": ("First", "Second", "Third")[row % 3], "age": row, "fare": row * 3, **more}


def test_a_column_called_class_that_is_not_the_label_makes_no_class_map(tmp_path):
    folder = write(tmp_path / "a", train=map(passenger, range(90)), test=map(passenger, range(90, 150)))
    assert not found(folder, "LBL003")


def test_names_of_classes_whose_numbers_differ_are_proven_only_if_somebody_says_which_is_the_label(tmp_path):
    names = ("ant", "bee", "cow")
    train = [{"label": row % 3, "class": names[row % 3], "x": row} for row in range(60)]
    test = [{"label": row % 3, "class": names[(row + 1) % 3], "x": 100 + row} for row in range(60)]
    folder = write(tmp_path / "a", train=train, test=test)
    (one,) = found(folder, "LBL003")
    assert one.confidence == "likely"
    (one,) = [finding for finding in bushel.check(folder, label="label") if finding.rule == "LBL003"]
    assert one.confidence == "proven"


def test_copies_are_reported_with_the_features_that_were_not_compared(tmp_path):
    text = "a long text that two siblings share, as they live in one house"
    train = [{"text": f"{text} {row}", "name": f"Anna {row}", "label": row % 2} for row in range(40)]
    test = [{"text": f"{text} {row}", "name": f"Bert {row}", "label": row % 2} for row in range(20)]
    for one in found(write(tmp_path / "a", train=train, test=test), "SPL001"):
        assert one.confidence == "likely"
        assert "compared without 'name'" in one.message


def test_control_characters_are_utf8(tmp_path):
    samples = [{"text": f"line {row} of the log", "label": row % 2} for row in range(40)]
    samples[7]["text"] = "ab\bc"
    assert not found(write(tmp_path / "a", train=samples), "TXT001")
    samples[7]["text"] = "caf\xe9".encode("latin-1")
    (one,) = found(write(tmp_path / "b", train=samples), "TXT001")
    assert "1 of 40 values is not UTF-8" in one.message


def test_records_that_lack_many_features_are_not_of_another_kind(tmp_path):
    whole = [dict.fromkeys("abcdef", row) for row in range(50)]
    sparse = [{"a": 1, "g": 2}, {"b": 3, "g": 1}, {"g": 7}]  # `g` is met with the others elsewhere
    both = [dict.fromkeys("abcdefg", row) for row in range(5)]
    assert not found(write(tmp_path / "a", train=[*whole, *sparse, *both]), "SCH006")
    other = [{"x": 1.0, "y": 2.0, "z": 3.0}]
    assert found(write(tmp_path / "b", train=[*whole, *other]), "SCH006")


def png(pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_sixteen_bits_are_neither_blank_nor_dark_and_are_not_converted_to_rgb(tmp_path):
    draw = np.random.default_rng(0)
    samples = [
        {"image": png(draw.integers(300, 4000, (24, 24)).astype(np.uint16)), "label": row % 2} for row in range(30)
    ]
    folder = write(tmp_path / "a", train=samples)
    assert not found(folder, "IMG006")
    (one,) = found(folder, "IMG005")
    assert "convert" not in one.help[0]
    assert "png:16" in one.help[0]
    samples[3]["image"] = png(np.full((24, 24), 700, np.uint16))
    (blank,) = found(write(tmp_path / "b", train=samples), "IMG006")
    assert "blank" in blank.message


def test_files_of_other_kinds_beside_shards_are_not_read_as_records(tmp_path):
    folder = write(tmp_path / "a", train=map(passenger, range(20)))
    np.savez(folder / "statistics.npz", mean=np.zeros(3))
    (folder / "labels.csv").write_text("a,b\n1,2\n")
    (one,) = found(folder, "FIL001")
    assert (one.severity, one.message) == ("info", "labels.csv, statistics.npz lie beside the shards and are not read")
    assert sum(1 for _ in bushel.scan(folder)) == 20
    (folder / "lost.tfrecord").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert {one.severity for one in found(folder, "FIL001")} == {"info", "error"}


def test_records_of_other_bytes_are_told_and_do_not_fail(tmp_path):
    path = write_records(tmp_path / "train.tfrecord", [json.dumps({"row": row}).encode() for row in range(20)])
    (one,) = found(path, "SCH007")
    assert one.severity == "info"


def test_a_column_that_only_one_split_has_is_one_finding(tmp_path):
    parts = {"train": range(60), "val": range(60, 90), "test": range(90, 120)}
    splits = {name: [passenger(row) for row in rows] for name, rows in parts.items()}
    splits["test"] = [{**one, "score": 0.5} for one in splits["test"]]
    (one,) = found(write(tmp_path / "a", **splits), "SCH001")
    assert one.message == "only split test has feature 'score': train, val do not"
