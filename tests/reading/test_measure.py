"""Where reading time goes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import bushel
from bushel import Order
from tests.reading.conftest import flip


@pytest.mark.parametrize(
    ("seconds", "slowest", "advice"),
    [
        ({"waited": 0.9, "consumer": 9.1, "transform": 20.0}, "consumer", "nothing to change"),
        ({"waited": 9.0, "consumer": 1.0, "transform": 9.0, "decode": 3.0}, "transform", "Workers(threads=...)"),
        ({"waited": 9.0, "storage": 9.0, "decode": 3.0}, "storage", "block=1024"),
        ({"waited": 9.0, "decode": 3.0}, "decode", "fewer columns"),
        ({"waited": 9.0, "layout": 3.0}, "layout", "Bucket(feature)"),
    ],
)
def test_the_slowest_stage_is_named_with_the_setting_to_change(
    seconds: dict[str, float], slowest: str, advice: str
) -> None:
    report = bushel.Report(seconds=10.0, records=100, batches=10, **seconds)
    assert report.slowest == slowest
    assert advice in report.advice
    assert f"slowest: {slowest}. " in str(report)
    assert "100 records in 10 batches, 10.00 s: 10 records/s" in str(report)


def test_a_feed_counts_what_it_gave_and_where_its_time_went(numbered: Path) -> None:
    feed = bushel.batches(bushel.open(numbered)["train"], batch_size=10)
    assert feed.report().seconds == 0
    assert sum(len(batch["number"]) for batch in feed) == 103
    report = feed.report()
    assert (report.records, report.batches, report.damaged) == (103, 11, 0)
    assert min(report.seconds, report.decode, report.waited, report.consumer) > 0


def test_rows_that_are_cut_are_counted(numbered: Path) -> None:
    feed = bushel.batches(bushel.open(numbered)["train"], batch_size=10, layout=[bushel.Pad("tokens", length=6)])
    assert all(batch["tokens"].shape[1] == 6 for batch in feed)
    assert feed.report().truncated == sum(number % 7 == 6 for number in range(103))


def test_a_dataset_is_measured(numbered: Path) -> None:
    report = bushel.measure(numbered, batch_size=10, order=Order(), seconds=0.05)
    assert report.records >= 10
    assert report.records_per_second > 0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bushel", "bench", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command_prints_a_report_and_json(numbered: Path) -> None:
    said = run(str(numbered), "--seconds", "0.05", "--column", "x")
    assert said.returncode == 0, said.stderr
    assert "records/s" in said.stdout
    assert "slowest: " in said.stdout
    facts = json.loads(run(str(numbered), "--seconds", "0.05", "--json", "--in-order").stdout)
    assert facts["records"] > 0
    assert facts["slowest"] in ("consumer", "storage", "decode", "transform", "layout")


def test_the_command_ends_with_1_where_records_are_damaged(numbered: Path) -> None:
    flip(numbered / "train-00001-of-00004.tfrecord", at=40)
    said = run(str(numbered), "--seconds", "0.3", "--batch-size", "103")
    assert said.returncode == 1
    assert "record 0 at byte 0: checksum of the data does not match" in said.stdout


@pytest.mark.parametrize("arguments", [("--split", "tran"), ("--column", "lable")])
def test_wrong_names_end_with_2(numbered: Path, arguments: tuple[str, str]) -> None:
    said = run(str(numbered), *arguments)
    assert said.returncode == 2
    assert "did you mean" in said.stderr


@pytest.mark.parametrize(
    "arguments", [("--batch-size", "0"), ("--seconds", "0"), ("--threads", "0"), ("--block", "-1")]
)
def test_numbers_that_cannot_be_end_with_2(numbered: Path, arguments: tuple[str, str]) -> None:
    said = run(str(numbered), *arguments)
    assert said.returncode == 2
    assert arguments[0] in said.stderr


def test_a_measurement_takes_some_time(numbered: Path) -> None:
    with pytest.raises(ValueError, match="seconds must be more than 0, got 0"):
        bushel.measure(numbered, seconds=0)


def test_encoded_images_are_measured_in_batches(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = [encode(rng.integers(0, 256, (12 + number % 3, 16, 3), np.uint8)) for number in range(20)]
    bushel.build([{"image": image} for image in images], tmp_path / "data")
    report = bushel.measure(tmp_path / "data", batch_size=20, seconds=0.05)
    assert report.records == 20 * report.batches


def encode(pixels: np.ndarray) -> bytes:
    return bytes(simplejpeg.encode_jpeg(pixels, colorspace="RGB"))


def test_bench_shows_its_stages_and_the_cores_they_kept_busy(numbered: Path) -> None:
    command = [sys.executable, "-m", "bushel", "bench", str(numbered), "--seconds", "0.2", "--timings"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    stages = [line for line in lines if line.endswith(" cores busy")]
    assert [line[:12].strip() for line in stages] == ["open", "first batch", "read"]
    assert float(stages[2].split()[1]) >= 0.2
    timings = bushel.measure(numbered, seconds=0.1, workers=bushel.Workers(processes=1)).timings
    assert [timing.cores for timing in timings.values()] == [None, None, None]
