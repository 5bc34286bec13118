"""What rules about data once got wrong: missed, said the wrong way round, or found where nothing was."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.checking import Finding
from bushel.checking.collect.facts import MISSING, encode_labels


def write(path: Path, samples: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with bushel.Writer(path) as writer:
        for sample in samples:
            writer.write(sample)
    return path


def found(data: Any, *rules: str, **more: Any) -> list[Finding]:
    return bushel.check(data, select=rules, **more).findings


def scalars(count: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [
        {**{f"c{i}": v for i, v in enumerate(row)}, "label": int(row[0] > 0)}
        for row in random.normal(size=(count, 12)).astype(np.float32)
    ]


def vectors(count: int, width: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [{"x": row.astype(np.float32), "label": i % 2} for i, row in enumerate(random.normal(size=(count, width)))]


def splits(tmp: Path, train: list[dict[str, Any]], val: list[dict[str, Any]]) -> Path:
    write(tmp / "train.tfrecord", train)
    write(tmp / "val.tfrecord", val)
    return tmp


def test_rows_of_a_table_that_are_there_three_times_are_found_within_and_across_splits(tmp_path: Path) -> None:
    every = [row for row in scalars(200) for _ in range(3)]
    order = np.random.default_rng(1).permutation(len(every))
    mixed = [every[i] for i in order]
    assert {f.rule for f in found(splits(tmp_path, mixed[:480], mixed[480:]), "SPL001", "SPL008")} == {
        "SPL001",
        "SPL008",
    }


@pytest.mark.parametrize("width", [2, 3, 6])
def test_short_vectors_of_val_that_are_in_train_are_found(width: int, tmp_path: Path) -> None:
    train = vectors(400, width)
    (finding,) = found(splits(tmp_path, train, train[:80]), "SPL001")
    assert finding.message == "80 of 80 records of val are in train too (100.0%)"


def test_categories_and_rounded_numbers_that_repeat_by_chance_are_no_duplicates(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    columns = (random.integers(18, 60, 900), random.integers(0, 4, 900), random.integers(20, 80, 900))
    rows = [{"age": a, "kind": k, "score": np.float32(s / 8), "label": k % 2} for a, k, s in zip(*columns, strict=True)]
    assert found(splits(tmp_path, rows[:700], rows[700:]), "SPL001", "SPL008", "LBL006") == []


def test_one_hot_records_that_repeat_by_chance_are_no_duplicates(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 4, (600, 3))
    rows = [{"x": np.eye(4, dtype=np.float32)[row].reshape(-1), "label": int(row[0])} for row in codes]
    assert found(splits(tmp_path, rows[:500], rows[500:]), "SPL001") == []


def test_a_split_that_lacks_a_feature_is_said_to_lack_it(tmp_path: Path) -> None:
    train = [{"feats": [1.0, 2.0], "label": 1}] * 3
    (finding,) = found(splits(tmp_path, train, [{"label": 1}] * 3), "SCH001")
    assert finding.message == "split val has no feature 'feats', and other splits do"


@pytest.mark.parametrize("share", [2, 5, 1])
def test_texts_that_are_not_utf_8_are_an_error_however_many_they_are(share: int, tmp_path: Path) -> None:
    rows = [
        {"text": f"das schöne Café Nummer {i}".encode("latin-1" if i % share == 0 else "utf-8")} for i in range(100)
    ]
    (finding,) = found(write(tmp_path / "a.tfrecord", rows), "TXT001")
    assert (finding.severity, finding.evidence["measured"]) == ("error", 100 // share)


def test_raw_bytes_are_not_taken_for_text_in_another_encoding(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = [
        {"raw": random.integers(0, 256, 64, dtype=np.uint8).tobytes(), "f": random.normal(size=16).tobytes()}
        for _ in range(60)
    ]
    assert found(write(tmp_path / "a.tfrecord", rows), "TXT") == []


def test_masks_and_segments_beside_tokens_are_no_tokens(tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    def row() -> dict[str, Any]:
        filled = (np.arange(32) < random.integers(10, 33)).astype(int)
        return {
            "input_ids": random.integers(5, 999, 32) * filled,
            "input_mask": filled,
            "segment_ids": filled * (np.arange(32) > 6),
            "token_type_ids": filled * (np.arange(32) > 6),
            "position_ids": np.arange(32),
        }

    data = write(tmp_path / "a.tfrecord", [row() for _ in range(60)])
    assert found(data, "TXT003", "TXT005") == []
    single = write(tmp_path / "single.tfrecord", [row() | {"segment_ids": np.zeros(32, int)} for _ in range(60)])
    assert found(single, "VAL002") == []


def test_one_longer_record_does_not_make_its_positions_constant(tmp_path: Path) -> None:
    rows = [{"fare": np.array([number / 2], np.float32)} for number in range(60)]
    data = write(tmp_path / "a.tfrecord", [*rows, {"fare": np.array([1, 2], np.float32)}])
    assert found(data, "VAL002") == []


@pytest.mark.parametrize(
    ("form", "is_number"),
    [
        (lambda i: f"{i % 28 + 1:02}.03.2024", False),
        (lambda i: f"2024-03-{i % 28 + 1:02}", False),
        (lambda i: f"1.{i}.3", False),
        (lambda i: f"10:{i % 60:02}", False),
        (lambda i: f"{i},3", True),
        (lambda i: f"1.{i % 900 + 100},50", True),
        (lambda i: f"-{i}.5e-3", True),
    ],
)
def test_numbers_as_text_are_told_from_dates_and_versions(
    form: Callable[[int], str], is_number: bool, tmp_path: Path
) -> None:
    data = write(tmp_path / "a.tfrecord", [{"amount": form(i)} for i in range(60)])
    assert [f.rule for f in found(data, "VAL005")] == ["VAL005"] * is_number


def test_a_counter_of_rows_is_no_drift(tmp_path: Path) -> None:
    train = [{**row, "row": np.float32(i)} for i, row in enumerate(scalars(800))]
    val = [{**row, "row": np.float32(i)} for i, row in enumerate(scalars(200, seed=1))]
    assert found(splits(tmp_path, train, val), "SPL006") == []


def test_a_feature_that_is_the_label_is_named(tmp_path: Path) -> None:
    rows = [{**row, "outcome": 10 + 5 * row["label"]} for row in scalars(200)]
    (finding,) = [f for f in found(write(tmp_path / "a.tfrecord", rows), "LBL009") if f.severity == "warning"]
    assert finding.message == "'outcome' is the label under another name"


def test_the_place_of_an_outlier_is_named(tmp_path: Path) -> None:
    rows = vectors(300, 4)
    rows[77]["x"][2] = 900
    (finding,) = found(write(tmp_path / "a.tfrecord", rows), "VAL009")
    assert finding.locations[0].record == 77
    assert finding.message.startswith("'x[2]' is 900 in one place; 98 % of its values are ")


def test_a_shard_with_other_class_numbers_is_named_with_its_map(tmp_path: Path) -> None:
    centres = np.random.default_rng(11).normal(0, 4, (3, 5))
    for shard in range(3):
        random = np.random.default_rng(shard)
        rows = [{"x": (centres[i % 3] + random.normal(size=5)).astype(np.float32),
                 "label": (i + (shard == 1)) % 3} for i in range(120)]  # fmt: skip
        write(tmp_path / f"train-{shard}.tfrecord", rows)
    (finding,) = found(tmp_path, "LBL010", "LBL011")
    assert finding.rule == "LBL011"
    assert finding.locations[0].file == str(tmp_path / "train-1.tfrecord")
    assert "1 here is 0 elsewhere" in finding.message


def test_classes_are_named_where_their_names_are_known(tmp_path: Path) -> None:
    rows = "\n".join(f"{i}.5,{'rare' if i == 3 else 'usual' if i % 2 else 'other'}" for i in range(80))
    (tmp_path / "rows.csv").write_text(f"x,label\n{rows}\n")
    bushel.build(tmp_path / "rows.csv", tmp_path / "data")
    (finding,) = found(tmp_path / "data", "LBL008")
    assert finding.message == "1 class has fewer than 5 records in train: 'rare'"
    assert finding.evidence["measured"] == {"rare": 1}


def test_one_fault_in_many_shards_is_one_finding(tmp_path: Path) -> None:
    for shard in range(3):
        with bushel.Writer(tmp_path / f"train-{shard}.tfrecord", compression="gzip") as writer:
            writer.write({"x": 1.0})
    (finding,) = found(tmp_path, "FIL")
    assert finding.message == "3 files are gzip, and their name says not compressed"
    assert len(finding.locations) == 3


def test_images_of_several_odd_modes_are_one_finding(tmp_path: Path) -> None:
    import io

    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)

    def encoded(mode: str) -> bytes:
        out = io.BytesIO()
        pixels = random.integers(0, 256, (6, 6, 3)).astype(np.uint8)
        image.fromarray(pixels).resize((32, 32)).convert(mode).save(out, "PNG")
        return out.getvalue()

    modes = ["RGB"] * 40 + ["L"] * 2 + ["RGBA"]
    (finding,) = found(write(tmp_path / "a.tfrecord", [{"image": encoded(mode)} for mode in modes]), "IMG005")
    assert finding.message == "3 of 43 images are grey or RGB with alpha, the others RGB"


def test_a_report_is_short_in_a_console_and_a_table_in_a_notebook(tmp_path: Path) -> None:
    report = bushel.check(write(tmp_path / "a.tfrecord", [{"x": [float("nan")]}] * 3))
    assert repr(report) == "<Report: 1 error in 3 records, 1 file>"
    assert "<td>VAL001 not-finite</td>" in report._repr_html_()
    assert "<script>" not in bushel.checking.Report([Finding("<script>", "error")])._repr_html_()


@pytest.mark.parametrize(
    ("labels", "codes", "values"),
    [
        ([], [], []),
        ([MISSING], [], []),
        ([3, 3], [0, 0], [3]),
        ([2, 0, MISSING, 1, 2], [2, 0, 1, 2], [0, 1, 2]),
        ([7, -2, 7, 100], [1, 0, 1, 2], [-2, 7, 100]),
        ([1 << 62, MISSING + 1, 5, 5], [2, 0, 1, 1], [MISSING + 1, 5, 1 << 62]),
    ],
)
def test_labels_are_encoded_in_their_order_whatever_their_spread(labels, codes, values):
    found, meant = encode_labels(np.array(labels, np.int64))
    assert (found.dtype, found.tolist(), meant.tolist()) == (np.int32, codes, values)
