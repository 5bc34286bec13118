"""Windows of sensor series, against what a plain loop gives."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from gather import keys_of, listed, read_all
from making import digests

import bushel
from bushel import sources
from bushel.cli import cli
from bushel.errors import BushelError, FileProblem, MissingName


def write(path: Path, rows: list[Any], header: str = "id,t,x,y,what") -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def steady(series: str, count: int, *, start: float = 0.0, step: float = 1.0) -> list[Any]:
    return [(series, start + n * step, n, -n, "up" if n % 7 < 4 else "down") for n in range(count)]


def test_windows_are_those_of_a_plain_loop_and_keep_their_order(tmp_path: Path) -> None:
    rows = [*steady("a", 50), *steady("b", 33, start=5)]
    mixed = np.random.default_rng(0).permutation(len(rows)).tolist()
    source = sources.series(
        write(tmp_path / "x.csv", [rows[n] for n in mixed]), time="t", series="id", length=8, stride=5, label="what"
    )
    columns, refused = read_all(source)
    assert not refused
    wanted = {}
    for name, count, start in (("a", 50, 0.0), ("b", 33, 5.0)):
        for first in range(0, count - 8 + 1, 5):
            part = range(first, first + 8)
            wanted[f"{name}@{start + first}"] = ([[n, -n] for n in part], "up" if part[-1] % 7 < 4 else "down")
    found = dict(zip(keys_of(source), zip(columns["values"], columns["what"], strict=True), strict=True))
    assert {key: (values, label.decode()) for key, (values, label) in found.items()} == wanted
    counted = source.list(0, []).counted
    assert counted["rows at the end of a stretch that fill no window"] == 50 - 48 + 33 - 33
    assert counted["rows out of order, put in order"] == _out_of_order([rows[n] for n in mixed])


def _out_of_order(rows: list[Any]) -> int:
    latest: dict[str, float] = {}
    found = 0
    for name, time, *_ in rows:
        found += time < latest.get(name, -1e9)
        latest[name] = max(time, latest.get(name, -1e9))
    return found


def test_a_shuffled_build_keeps_the_order_inside_windows_for_any_number_of_workers(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [row for name in "abcdef" for row in steady(name, 200)])
    found = []
    for workers in (1, 2, 5):
        source = sources.series(path, time="t", series="id", length=16, stride=4, label="what")
        out = tmp_path / f"out{workers}"
        bushel.build(source, out, split="70/30", shards=3, run=bushel.Run(workers=workers))
        found.append(digests(out))
    assert found[0] == found[1] == found[2]
    for split in ("train", "val"):
        for shard in (tmp_path / "out1").glob(f"{split}-*.tfrecord"):
            values = bushel.read(shard, ["values"])["values"]
            assert (np.diff(np.asarray(values).reshape(-1, 16, 2)[:, :, 0], axis=1) == 1).all()


def test_shares_are_drawn_by_series_and_never_by_window(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [row for n in range(40) for row in steady(f"s{n}", 40)])
    source = sources.series(path, time="t", series="id", length=10, stride=5, label="what")
    bushel.build(source, tmp_path / "out", split="60/40")
    series = {}
    for split in ("train", "val"):
        (shard,) = (tmp_path / "out").glob(f"{split}-*.tfrecord")
        series[split] = {key.split(b"@")[0] for key in bushel.read(shard, ["key"])["key"]}
    assert series["train"]
    assert series["val"]
    assert not series["train"] & series["val"]
    with pytest.raises(bushel.BushelError, match="40 of 40 groups of 'series' hold several classes of 'what'"):
        bushel.build(source, tmp_path / "other", split="60/40", stratify="what")


@pytest.mark.parametrize("time_split", ["60/20/20", {"train": "60", "val": "80", "test": ""}])
def test_splits_by_time_share_no_row(tmp_path: Path, time_split: Any) -> None:
    path = write(tmp_path / "x.csv", [row for name in "ab" for row in steady(name, 100)])
    source = sources.series(path, time="t", series="id", length=10, stride=2, label="what", time_split=time_split)
    splits = listed(source, "split")
    values = read_all(source)[0]["values"]
    seen: dict[bytes, set[float]] = {}
    for split, window in zip(splits, values, strict=True):
        seen.setdefault(split, set()).update(row[0] for row in window)
    assert set(seen) == {b"train", b"val", b"test"}
    assert max(seen[b"train"]) < min(seen[b"val"]) <= max(seen[b"val"]) < min(seen[b"test"])
    assert source.list(0, []).counted["windows that would be in two splits, left out"] > 0


def test_a_column_that_says_the_split_is_kept(tmp_path: Path) -> None:
    rows = [(*row, "train" if row[1] < 20 else "valid") for row in steady("a", 40)]
    source = sources.series(write(tmp_path / "x.csv", rows, "id,t,x,y,what,split"), time="t", series="id", length=8)
    assert source.split == "split"
    assert listed(source, "split") == [b"train", b"train", b"val", b"val"]


def test_no_window_spans_a_gap(tmp_path: Path) -> None:
    rows = [*steady("a", 20), *steady("a", 20, start=60)]
    source = sources.series(write(tmp_path / "x.csv", rows), time="t", series="id", length=8)
    assert keys_of(source) == ["a@0.0", "a@8.0", "a@60.0", "a@68.0"]
    assert source.list(0, []).counted["gaps, which no window spans"] == 1
    assert len(keys_of(sources.series(tmp_path / "x.csv", time="t", series="id", length=8, gap="none"))) == 5
    assert len(keys_of(sources.series(tmp_path / "x.csv", time="t", series="id", length=8, gap=100))) == 5


@pytest.mark.parametrize(("duplicates", "value"), [("first", 3), ("last", 9), ("mean", 6)])
def test_rows_with_one_time_are_counted_and_one_is_taken(tmp_path: Path, duplicates: Any, value: int) -> None:
    rows = steady("a", 8)
    rows.insert(4, ("a", 3.0, 9, -9, "up"))
    path = write(tmp_path / "x.csv", rows)
    source = sources.series(path, time="t", series="id", length=8, duplicates=duplicates)
    assert read_all(source)[0]["values"][0][3] == [value, -value]
    what = f"rows with the time of another, of which the {duplicates} is taken"
    assert source.list(0, []).counted[what] == 1


@pytest.mark.parametrize(("missing", "value"), [("previous", 3), ("linear", 4), (-7.0, -7)])
def test_missing_values_refuse_their_windows_or_are_filled(tmp_path: Path, missing: Any, value: float) -> None:
    rows = steady("a", 16)
    rows[4] = ("a", 4.0, "", -4, "up")
    path = write(tmp_path / "x.csv", rows)
    columns, refused = read_all(sources.series(path, time="t", series="id", length=8))
    assert [(bad.row, bad.stage, bad.reason) for bad in refused] == [(0, "schema", "x is missing at 4.0")]
    assert len(columns["values"]) == 1
    source = sources.series(path, time="t", series="id", length=8, missing=missing)
    columns, refused = read_all(source)
    assert not refused
    assert columns["values"][0][4] == [value, -4]
    assert source.list(0, []).counted == {"missing values of x": 1}


def test_a_sensor_that_a_series_lacks_is_found(tmp_path: Path) -> None:
    rows = [*steady("a", 8), *((name, time, "", y, what) for name, time, _, y, what in steady("b", 8))]
    source = sources.series(write(tmp_path / "x.csv", rows), time="t", series="id", length=8)
    _, refused = read_all(source)
    assert [bad.reason for bad in refused] == ["x is missing at 0.0"]
    assert source.list(0, []).counted == {"missing values of x": 8, "series without any x": 1}


@pytest.mark.parametrize(("outside", "value"), [("clip", 10.0), ("missing", None), ("refuse", None)])
def test_values_outside_their_range(tmp_path: Path, outside: Any, value: float | None) -> None:
    rows = steady("a", 8)
    rows[2] = ("a", 2.0, 900, -2, "up")
    path = write(tmp_path / "x.csv", rows)
    source = sources.series(path, time="t", series="id", length=8, ranges={"x": [-10, 10]}, outside=outside)
    columns, refused = read_all(source)
    if value is not None:
        assert columns["values"][0][2] == [value, -2]
    else:
        why = "x is 900 at 2.0, outside -10 to 10" if outside == "refuse" else "x is missing at 2.0"
        assert [bad.reason for bad in refused] == [why]
    assert source.list(0, []).counted["values of x outside -10 to 10"] == 1


def test_resampling_agrees_with_numpy_and_pandas(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    times = np.sort(draw.uniform(0, 100, 400))
    values = draw.normal(size=400)
    rows = [("a", repr(t), repr(v), 0, "up") for t, v in zip(times.tolist(), values.tolist(), strict=True)]
    path = write(tmp_path / "x.csv", rows)
    how = {"time": "t", "series": "id", "length": 150, "every": 0.5, "gap": "none", "columns": ["x"]}
    grid = np.arange(np.ceil(times[0] / 0.5), np.floor(times[-1] / 0.5) + 1) * 0.5
    linear = read_all(sources.series(path, **how))[0]["values"][0]
    assert np.ravel(linear) == pytest.approx(np.interp(grid, times, values)[:150], abs=1e-6)
    means = pd.Series(values).groupby(np.floor(times / 0.5) * 0.5).mean()
    found = np.ravel(read_all(sources.series(path, **how, resample="mean"))[0]["values"][0])
    for moment, value in zip(grid[:150].tolist(), found.tolist(), strict=True):
        held = values[np.searchsorted(times, moment) - 1]  # nothing came from this time to the next
        assert value == pytest.approx(means.get(moment, held), abs=1e-5)
    held = np.ravel(read_all(sources.series(path, **how, resample="previous"))[0]["values"][0])
    assert held == pytest.approx(values[np.searchsorted(times, grid, "right") - 1][:150], abs=1e-6)


def test_dates_files_as_series_and_times_that_are_stored(tmp_path: Path) -> None:
    for name, day in (("one", 1), ("two", 2)):
        rows = [(f"2024-03-0{day}T00:00:{second:02d}", second, -second) for second in range(10)]
        write(tmp_path / f"{name}.csv", rows, "t,x,y")
    source = sources.series(str(tmp_path / "*.csv"), time="t", length=5, times=True)
    assert keys_of(source) == [
        f"{name}@2024-03-0{day}T00:00:0{n}" for name, day in (("one", 1), ("two", 2)) for n in (0, 5)
    ]
    columns, _ = read_all(source)
    assert np.diff(columns["time"][0]).tolist() == [1_000_000] * 4
    assert listed(source, "series") == [b"one", b"one", b"two", b"two"]


def test_labels_by_majority_and_by_mean(tmp_path: Path) -> None:
    rows = [("a", n, n, 0, what) for n, what in enumerate(["up", "down", "down", "", "up", "up", "", ""])]
    path = write(tmp_path / "x.csv", rows)
    how = {"time": "t", "series": "id", "length": 4, "label": "what"}
    assert listed(sources.series(path, **how, label_from="majority"), "what") == [b"down", b"up"]
    assert listed(sources.series(path, **how), "what") == [None, None]
    mean = sources.series(path, time="t", series="id", length=4, label="x", columns=["y"], label_from="mean")
    assert listed(mean, "x") == [1.5, 5.5]
    with pytest.raises(ValueError, match="label_from must be 'last' or 'majority': the label is text"):
        keys_of(sources.series(path, **how, label_from="mean"))


def test_rows_without_a_time_or_a_series_are_counted(tmp_path: Path) -> None:
    rows = [*steady("a", 8), ("a", "", 1, 1, "up"), ("", 3.5, 1, 1, "up")]
    source = sources.series(write(tmp_path / "x.csv", rows), time="t", series="id", length=8)
    assert len(keys_of(source)) == 1
    assert source.list(0, []).counted == {"rows without a time": 1, "rows without a series": 1}


def test_pickles_recipes_and_separate_features(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", steady("a", 40))
    source = sources.series(path, time="t", series="id", length=8, label="what", stack=False, ranges={"x": (0, 100)})
    again = pickle.loads(pickle.dumps(source))
    opened = sources.open_source(source.describe())
    assert read_all(again) == read_all(source) == read_all(opened)
    assert set(source.schema()) == {"x", "y", "what", "key"}
    assert again.fingerprint() == source.fingerprint() == opened.fingerprint()


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"time": "tt"}, MissingName, "no column 'tt'; did you mean 't'?"),
        ({"length": 0}, ValueError, "length must be at least 1, got 0"),
        ({"length": 500}, BushelError, "no window of 500 rows fits: the longest stretch without a gap has 20"),
        ({"time": "what"}, FileProblem, "the time column 'what' holds no dates such as 2024-03-01T12:00:00, got 'up'"),
        ({"ranges": {"z": [0, 1]}}, MissingName, "no sensor 'z'"),
        ({"ranges": {"x": [1, 0]}}, ValueError, "must be the lowest and the highest value"),
        ({"every": -1}, ValueError, "every must be above 0, got -1"),
        ({"gap": "often"}, ValueError, "gap must be a number, or one of auto, none; got 'often'"),
        ({"columns": ["what"]}, FileProblem, "windows are made of numbers, and the column 'what' does not"),
        ({"missing": "guess"}, ValueError, "missing must be a number, or one of refuse, previous, linear; got 'guess'"),
        ({"horizon": 0}, ValueError, "horizon must be at least 1, got 0"),
        ({"horizon": 2}, FileProblem, "horizon needs the column to forecast, and there are 2: x, y"),
        ({"horizon": 20, "label": "x"}, BushelError, "no window of 28 rows (8 and a horizon of 20) fits"),
        ({"label_from": "all"}, ValueError, "'last', 'majority' or 'mean' without horizon, got 'all'"),
        ({"horizon": 2, "label": "what", "label_from": "all"}, ValueError, "'last' or 'majority': the label is text"),
        ({"time_split": "80/30"}, ValueError, "time_split must sum to 100, got '80/30', which sums to 110"),
        ({"time_split": "a/b"}, ValueError, "time_split must be as 80/10/10 or train=0.8,val=0.2; got 'a/b'"),
    ],
)
def test_wrong_options_are_one_clear_line(tmp_path: Path, options: dict[str, Any], kind: type, why: str) -> None:
    path = write(tmp_path / "x.csv", steady("a", 20))
    with pytest.raises(kind) as caught:
        keys_of(sources.series(path, **({"time": "t", "series": "id", "length": 8} | options)))
    assert why in str(caught.value)


@pytest.mark.parametrize(("how", "value"), [("last", 12), ("mean", 11), ("all", [10, 11, 12])])
def test_a_forecast_is_of_rows_after_the_window(how: Any, value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", steady("a", 30))
    source = sources.series(path, time="t", series="id", length=10, label="x", horizon=3, label_from=how)
    columns, refused = read_all(source)
    assert not refused
    assert source.label == "x/ahead"
    assert columns["x/ahead"][0] == value
    assert columns["values"][0] == [[n, -n] for n in range(10)]
    assert [key.partition("@")[2] for key in keys_of(source)] == ["0.0", "10.0"]


def test_the_only_series_is_its_own_target_and_a_class_is_forecast_too(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [(n, n * n, "up" if n % 7 < 4 else "down") for n in range(20)], "t,x,what")
    columns, _ = read_all(sources.series(path, time="t", length=4, stride=1, horizon=2))
    assert columns["x/ahead"] == [(first + 5) ** 2 for first in range(20 - 4 - 2 + 1)]
    columns, _ = read_all(sources.series(path, time="t", length=4, stride=1, horizon=2, label="what"))
    assert columns["what/ahead"][0] == b"down"
    assert np.shape(columns["values"]) == (15, 4, 1)


def test_a_forecast_of_a_value_that_is_missing_is_refused(tmp_path: Path) -> None:
    rows = [(n, "" if n == 9 else n) for n in range(20)]
    source = sources.series(write(tmp_path / "x.csv", rows, "t,x"), time="t", length=4, stride=1, horizon=2)
    built = bushel.build(source, tmp_path / "data", run=bushel.Run(max_bad=20))
    left = {row["x/ahead"] for row in bushel.scan(tmp_path / "data")}
    # The windows that hold row 9, and the one whose forecast it is.
    assert left == {5, 6, 7, 8, 10, 15, 16, 17, 18, 19}
    assert built.refused == 5


def test_forecasts_are_split_by_time_and_no_split_sees_the_target_of_another(tmp_path: Path) -> None:
    rows = [(n, n) for n in range(200)]
    path = write(tmp_path / "x.csv", rows, "t,x")
    options = ["--windows", "8", "--stride", "1", "--time", "t", "--horizon", "5", "--split", "80/20"]
    done = CliRunner().invoke(cli, ["build", str(path), str(tmp_path / "out"), *options])
    assert done.exit_code == 0, done.output
    assert "windows whose label is 'x' 5 rows later" in done.stdout
    data = bushel.open(tmp_path / "out")
    train, test = ([data[name][row] for row in range(len(data[name]))] for name in ("train", "val"))
    assert max(row["x/ahead"] for row in train) < min(row["values"].min() for row in test)
    assert len(train) + len(test) == 200 - 13 + 1 - 12


def test_a_horizon_without_windows_says_what_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [(1, 2)], "t,x")
    done = CliRunner().invoke(cli, ["build", str(path), str(tmp_path / "out"), "--horizon", "2"])
    assert done.exit_code == 2
    assert "--horizon needs --windows N, the rows that a forecast is made from, and --time COL" in done.output
