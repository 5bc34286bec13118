"""Reports as one file: of datasets and of runs, as HTML and as Markdown, whatever the data holds."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from looking import EVIL, run_folder
from support import flip

import bushel
from bushel.cli import cli
from bushel.viewing import report_page as report
from bushel.viewing.opened import open_all
from bushel.viewing.report_page import make_report
from bushel.viewing.statistics import Numbers, summarise


def test_a_report_is_one_small_file_without_scripts_or_links(images: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["report", str(images), "-o", str(tmp_path / "report.html")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    assert done.stdout.strip() == str(tmp_path / "report.html")
    assert len(page) < report.MOST_BYTES
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", page)
    assert page.count('<img src="data:image/') > 20
    for words in ("Splits", "Classes (3)", "Findings", "Features of train", "Records of test", "owl"):
        assert words in page


def test_the_same_report_as_markdown(images: Path, tmp_path: Path) -> None:
    path = bushel.write_report([images], tmp_path / "report.md", checks=False)
    text = path.read_text()
    assert text.startswith("# data\n")
    assert "| split | records | shards | bytes | read | damaged |" in text
    assert "Findings" not in text
    assert "<" not in text.replace("&lt;", "")


@pytest.mark.parametrize("markdown", [True, False])
def test_text_of_the_data_stays_text(everything: Path, markdown: bool) -> None:
    text = make_report([everything], markdown=markdown, checks=False)
    assert "<script>window" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;" in text
    assert not markdown or "\n".join(line for line in text.splitlines() if line.startswith("|")).count("](") == 0


def test_damage_is_counted_and_the_rest_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with bushel.Writer(path) as writer:
        for number in range(9):
            writer.write({"x": number, "label": number % 3})
    flip(path, at=path.stat().st_size // 2)
    text = make_report([path], markdown=True, checks=False)
    assert "| all | 9 | 1 |" in text
    assert re.search(r"\| all \| 9 \|.*\| all \| 1 \|", text)


def test_a_report_is_never_written_into_a_dataset(images: Path) -> None:
    done = CliRunner().invoke(cli, ["report", str(images), "-o", str(images / "report.html")])
    assert done.exit_code == 2
    assert "is inside the dataset" in done.output


def test_pictures_are_left_out_of_a_page_that_would_be_too_large(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_BYTES", 30_000)
    assert "<img" not in make_report([images], checks=False)


def test_numbers_of_parts_add_up_to_those_of_the_whole() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(3.0, 2.0, 9_000)
    parts = [Numbers.of(part, draw) for part in np.array_split(np.append(values, [np.nan, np.inf]), 7)]
    total = sum(parts[1:], parts[0])
    assert total.count == 9_000
    assert total.odd == 2
    assert np.isclose(total.mean, values.mean())
    assert np.isclose(total.deviation, values.std())
    assert (total.low, total.high) == (values.min(), values.max())
    assert len(total.kept) == 4096
    assert abs(np.median(total.kept) - np.median(values)) < 0.15


def test_statistics_are_the_same_for_any_number_of_shards(tmp_path: Path) -> None:
    rows = [{"x": float(n), "text": f"t{n % 5}", "label": n % 4} for n in range(400)]
    for shards in (1, 3):
        bushel.build(iter(rows), tmp_path / str(shards), shards=shards)
    found = [summarise(open_all([tmp_path / str(shards)])[0].part("train")) for shards in (1, 3)]
    for name in ("x", "text", "label"):
        one, other = (summary.features[name] for summary in found)
        assert one.counts == other.counts
        assert one.present == other.present == 400
        assert np.isclose(one.values.mean, other.values.mean)
        assert np.isclose(one.values.deviation, other.values.deviation)


def test_a_sample_is_spread_over_the_whole_split(tmp_path: Path) -> None:
    bushel.build({"x": np.arange(5_000.0, dtype=np.float32)}, tmp_path / "data", shards=3, order="source")
    found = summarise(open_all([tmp_path / "data"])[0].part("train"), 320)
    assert found.records == 320
    numbers = found.features["x"].values
    assert numbers.low < 100
    assert numbers.high > 4_700


def test_runs_are_compared(tmp_path: Path) -> None:
    one = run_folder(tmp_path / "one", epochs=4, seed=0)
    two = run_folder(tmp_path / "two", epochs=4, seed=1)
    page = make_report([one, two])
    assert "2 runs" in page
    assert "Options that differ" in page
    assert "<td>seed</td>" in page
    assert "<td>epochs</td>" not in page
    assert "loss by epoch" in page
    assert "<b>one</b>" not in page
    text = make_report([one, two], markdown=True)
    assert "| val accuracy | 0.9 | 0.9 |" in text


def test_a_run_that_is_damaged_is_named(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "one")
    (run / "run.json").write_text("{")
    done = CliRunner().invoke(cli, ["report", str(run), "-o", str(tmp_path / "x.html")])
    assert done.exit_code == 2
    assert "run.json: not JSON" in done.output
    assert not (tmp_path / "x.html").exists()


def test_evil_names_of_features_stay_text(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tfrecord") as writer:
        writer.write({EVIL: 1})
    assert "<script>" not in make_report([tmp_path / "x.tfrecord"], checks=False)


def test_texts_are_shown_by_their_most_frequent_values_not_by_their_lengths(tmp_path: Path) -> None:
    towns = ["Bern"] * 5 + ["Basel"] * 4 + ["Chur"] * 2 + ["Thun", "Zug\x1b[31m", "Biel"]
    names = [f"Frau Nummer {number}, mit einem sehr langen Namen" for number in range(len(towns))]
    bushel.build({"town": towns, "name": names, "size": np.arange(14.0)}, tmp_path / "data", shards=1)
    text = make_report([tmp_path / "data"], markdown=True, checks=False)
    assert "Bern: 5, Basel: 4, Chur: 2, " in text
    assert ": 1 and 2 other values |" in text
    assert "| 14 different values, such as 'Frau Nummer " in text
    assert "\x1b" not in text
    assert " bytes, mean" not in text


def test_many_texts_are_said_to_be_many(tmp_path: Path) -> None:
    bushel.build({"id": [f"id {number}" for number in range(3000)]}, tmp_path / "data")
    assert "more than 1,000 different values, such as 'id " in make_report(
        [tmp_path / "data"], checks=False, markdown=True
    )
