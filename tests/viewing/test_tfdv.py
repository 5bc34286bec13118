"""Statistics that TensorFlow Data Validation loads, read back with the messages of tensorflow-metadata."""

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from support import example, run, sequence_example, write_records
from tensorflow_metadata.proto.v0 import statistics_pb2

import bushel
from bushel.viewing.statistics import statistics_pbtxt

ROWS = 600


def parsed(text: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    found = text_format.Parse(text, statistics_pb2.DatasetFeatureStatisticsList())
    return {dataset.name: dataset for dataset in found.datasets}


def features(dataset: statistics_pb2.DatasetFeatureStatistics) -> dict[str, statistics_pb2.FeatureNameStatistics]:
    return {feature.path.step[0]: feature for feature in dataset.features}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (ROWS, 3)).astype(np.float32)
    x[::5] = 0
    rows = {
        "x": x,
        "n": np.arange(ROWS) % 7,
        "words": [["a", "b", "c"][: number % 4] for number in range(ROWS)],
        "text": [None if number % 3 == 0 else ["one", 'two "2"', "drei"][number % 2] for number in range(ROWS)],
        "long": [f"{'same beginning ' * 5}{number}" for number in range(ROWS)],
        "data": [bytes([255, 254]) * (1 + number % 2) for number in range(ROWS)],
    }
    folder = tmp_path_factory.mktemp("tfdv") / "data"
    bushel.build(rows, folder, split="80/20", run=bushel.Run(workers=1))
    return folder


def test_numbers_have_the_statistics_that_numpy_finds(data: Path) -> None:
    found = parsed(statistics_pbtxt([data]))
    assert list(found) == ["train", "val"]
    for name, dataset in found.items():
        split = bushel.open(data)[name]
        x = np.stack([split[row]["x"] for row in range(len(split))]).astype(np.float64)
        feature = features(dataset)["x"]
        numbers, common = feature.num_stats, feature.num_stats.common_stats
        assert dataset.num_examples == len(split)
        assert feature.type == statistics_pb2.FeatureNameStatistics.FLOAT
        assert (common.num_non_missing, common.num_missing, common.tot_num_values) == (len(x), 0, x.size)
        assert (common.min_num_values, common.max_num_values, common.avg_num_values) == (3, 3, 3)
        assert numbers.num_zeros == (x == 0).sum()
        assert (numbers.min, numbers.max, numbers.median) == (x.min(), x.max(), np.median(x))
        assert (numbers.mean, numbers.std_dev) == (pytest.approx(x.mean()), pytest.approx(x.std()))
        equal, quantiles = numbers.histograms
        assert equal.type == statistics_pb2.Histogram.STANDARD
        assert [round(bucket.sample_count) for bucket in equal.buckets] == np.histogram(x, len(equal.buckets))[
            0
        ].tolist()
        assert quantiles.type == statistics_pb2.Histogram.QUANTILES
        assert [bucket.high_value for bucket in quantiles.buckets] == pytest.approx(
            np.quantile(x, np.arange(1, 11) / 10)
        )


def test_texts_have_their_most_frequent_values_only_if_all_were_counted(data: Path) -> None:
    train = bushel.open(data)["train"]
    values = [row["text"] for row in (train[number] for number in range(len(train))) if "text" in row]
    found = features(parsed(statistics_pbtxt([data]))["train"])
    text = found["text"].string_stats
    assert found["text"].type == statistics_pb2.FeatureNameStatistics.STRING
    assert (text.common_stats.num_non_missing, text.common_stats.num_missing) == (len(values), len(train) - len(values))
    assert {one.value: one.frequency for one in text.top_values} == {one: values.count(one) for one in set(values)}
    assert (text.unique, len(text.rank_histogram.buckets)) == (2, 2)
    assert text.avg_length == pytest.approx(np.mean([len(value) for value in values]))
    assert (found["long"].string_stats.unique, len(found["long"].string_stats.top_values)) == (0, 0)
    assert found["words"].string_stats.common_stats.max_num_values == 3
    sizes = found["data"].bytes_stats
    assert found["data"].type == statistics_pb2.FeatureNameStatistics.BYTES
    assert (sizes.min_num_bytes, sizes.max_num_bytes, sizes.max_num_bytes_int) == (2, 4, 4)


def test_files_of_others_have_nans_and_gaps_counted(tmp_path: Path) -> None:
    path = tmp_path / "all.tfrecord"
    rows = [{"x": [1.0, float("nan")]}, {"x": [float("inf")]}, {"other": [5]}]
    write_records(path, map(example, rows))
    done = run("info", path, "--pbtxt")
    assert (done.returncode, done.stderr) == (0, "")
    found = features(parsed(done.stdout)["all"])
    numbers = found["x"].num_stats
    assert (numbers.common_stats.num_non_missing, numbers.common_stats.num_missing) == (2, 1)
    assert (numbers.common_stats.min_num_values, numbers.common_stats.max_num_values) == (1, 2)
    assert (numbers.min, numbers.max, numbers.histograms[0].num_nan) == (1, 1, 1)
    assert found["other"].num_stats.mean == 5


def test_records_that_are_not_examples_have_no_such_statistics(tmp_path: Path) -> None:
    write_records(tmp_path / "a.tfrecord", [sequence_example({}, {"steps": [[1], [2]]})])
    with pytest.raises(bushel.BushelError, match="^all: statistics of TensorFlow Data Validation are written for Ex"):
        statistics_pbtxt([tmp_path / "a.tfrecord"])
