"""Every failure of files and records that was collected is found: one dataset for each row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_faults import CASES, Case, rows, write

import bushel
from bushel.checking import ReadingPlan, all_rules


@pytest.mark.parametrize(("row", "rule", "case"), CASES, ids=[f"{rule}-{case.__name__}" for _, rule, case in CASES])
def test_the_failure_is_found_with_evidence_and_a_place(row: str, rule: str, case: Case, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    report = bushel.check(**case(tmp_path))
    found = [finding for finding in report if finding.rule == rule]
    assert found, f"{row}: {[f.rule for f in report]}"
    for finding in found:
        assert finding.message
        assert finding.help or finding.severity == "info"
        assert finding.locations or finding.evidence


def test_a_read_that_differs_twice_is_hardware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "train.tfrecord", rows())
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    import os

    read = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: whole[at : at + size] if size else read(fd, size, at))
    assert [finding.rule for finding in bushel.check(path)] == ["FIL007"]


def test_every_rule_about_data_has_a_case_that_shows_it() -> None:
    shown = {rule for _, rule, _ in CASES} | {"FIL007"}
    others = ("ACM", "TFX")  # custom rules, and those of test_schema_rules.py
    assert {rule.id for rule in all_rules() if rule.subject == "data" and rule.id[:3] not in others} == shown


def test_clean_data_gives_no_error_and_no_warning(corpus: Path) -> None:
    for name in ("photos", "digits", "reviews"):
        assert [f.rule for f in bushel.check(corpus / name) if f.severity != "info"] == []


def test_what_is_told_of_boxes_may_be_the_same_in_every_record(tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    def sample(number: int) -> dict[str, Any]:
        boxes = 1 + number % 3
        told = {name: [0] * boxes for name in ("is_crowd", "difficult", "truncated", "group_of")}
        return {
            **{f"image/object/bbox/{name}": random.uniform(0.1, 0.4, boxes).astype("f4") for name in ("xmin", "ymin")},
            **{f"image/object/bbox/{name}": random.uniform(0.6, 0.9, boxes).astype("f4") for name in ("xmax", "ymax")},
            **{f"image/object/{name}": values for name, values in told.items()},
            "image/object/class/label": [1] * boxes,
            "image/quality": [3] * boxes,
        }

    def constant(samples: list[dict[str, Any]]) -> list[str]:
        found = bushel.check(write(tmp_path / "train.tfrecord", samples))
        return [str(finding.locations[0].feature) for finding in found if finding.rule == "VAL002"]

    samples = [sample(number) for number in range(40)]
    assert constant(samples) == ["image/quality"]  # of the image, so an input
    for row in samples:
        row["image/object/bbox/xmin"] = [0.0] * len(row["image/object/bbox/xmin"])
    assert constant(samples) == ["image/object/bbox/xmin", "image/quality"]  # where boxes are is news
    without = [{name: values for name, values in row.items() if "bbox" not in name} for row in samples]
    assert "image/object/is_crowd" in constant(without)


def test_a_full_shuffle_over_sorted_data_is_clean(corpus: Path) -> None:
    report = bushel.check(corpus / "sensors", plan=ReadingPlan(batch_size=32, shuffle_buffer=2000))
    assert [f.rule for f in report if f.severity != "info"] == []


def test_some_positions_that_never_change_are_no_alarm_and_most_of_them_are(tmp_path: Path) -> None:
    def severities(constant: int) -> list[str]:
        random = np.random.default_rng(1)
        samples = [
            {"x": np.where(np.arange(16) < constant, 0, random.uniform(1, 16, 16)).astype("f4"), "label": number % 2}
            for number in range(60)
        ]
        report = bushel.check(write(tmp_path / "train.tfrecord", samples))
        return [finding.severity for finding in report if finding.rule == "VAL002"]

    assert severities(3) == ["info"]  # as the borders of handwritten digits
    assert severities(12) == ["warning"]
