import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest
from support import DATA, example, feature, field, flip, frame, golden, sequence_example, write_records

import bushel
from bushel import BytesColumn, Feature, Ragged, Schema
from bushel.errors import CorruptRecord, Fault, MissingName, SchemaMismatch
from bushel.records.scan import SkippedRecords


@pytest.fixture
def two_files(tmp_path: Path) -> list[Path]:
    first = write_records(tmp_path / "a-0", [example({"x": [i], "y": [float(i)]}) for i in range(3)])
    second = write_records(tmp_path / "a-1", [example({"x": [i], "z": [b"late"]}) for i in range(3, 5)])
    return [first, second]


def test_one_value_a_record_is_a_column_of_shape_rows(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"i": [i], "f": [i / 2], "b": [b"%d" % i]}) for i in range(3)])
    columns = bushel.read(path)
    assert list(columns) == ["i", "f", "b"]
    assert (columns["i"].dtype, columns["i"].tolist()) == (np.int64, [0, 1, 2])
    assert (columns["f"].dtype, columns["f"].tolist()) == (np.float32, [0.0, 0.5, 1.0])
    assert isinstance(columns["b"], BytesColumn)
    assert columns["b"].to_list() == [b"0", b"1", b"2"]


def test_the_same_number_of_values_is_dense_and_different_ones_are_ragged(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"d": [i, -i], "r": [1] * i, "s": [b"x"] * 2}) for i in range(3)])
    columns = bushel.read(path)
    assert columns["d"].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert columns["r"].to_list() == [[], [1], [1, 1]]
    assert columns["s"].to_list() == [[b"x", b"x"]] * 3


def test_columns_picks_and_orders_features(two_files: list[Path]) -> None:
    columns = bushel.read(two_files[0], columns=["y", "x"])
    assert list(columns) == ["y", "x"]


def test_a_feature_that_comes_late_is_found_and_absent_before(two_files: list[Path]) -> None:
    columns = bushel.read(two_files)
    assert columns["x"].tolist() == [0, 1, 2, 3, 4]
    assert columns["y"].to_list() == [[0.0], [1.0], [2.0], None, None]
    assert columns["z"].to_list() == [None, None, None, [b"late"], [b"late"]]


def test_a_feature_that_comes_behind_the_probe_of_one_file_is_found(tmp_path: Path) -> None:
    records = [example({"x": [i]}) for i in range(1500)] + [example({"x": [1500], "late": [7]})]
    columns = bushel.read(write_records(tmp_path / "a", records))
    assert columns["late"].to_list() == [None] * 1500 + [[7]]
    assert bushel.read(tmp_path / "a", columns=["late"])["late"].to_list()[-2:] == [None, [7]]


def test_a_late_feature_beside_a_bad_record_counts_it_once(tmp_path: Path) -> None:
    records = [example({"x": [i]}) for i in range(1500)] + [example({"x": [1500], "late": [7]})]
    path = write_records(tmp_path / "a", records)
    flip(path, 13)
    with pytest.warns(
        SkippedRecords, match="^1 record skipped; the first: .*a: record 0 at byte 0: checksum of the data"
    ):
        columns = bushel.read(path, on_fault="skip")
    assert len(columns["x"]) == len(columns["late"]) == 1500


def test_a_fault_of_a_late_feature_names_it(tmp_path: Path) -> None:
    records = [example({"x": [i]}) for i in range(1500)] + [example({"late": [7]}), example({"late": [b"text"]})]
    path = write_records(tmp_path / "a", records)
    with pytest.raises(CorruptRecord) as caught:
        bushel.read(path)
    assert (caught.value.record, caught.value.feature, caught.value.fault) == (1501, "late", Fault.WRONG_KIND)


def test_skipping_a_record_leaves_feature_lists_feature_lists(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [sequence_example({"x": [i]}, {"s": [[i]]}) for i in range(3)])
    flip(path, 13)
    with pytest.warns(SkippedRecords):
        columns = bushel.read(path, on_fault="skip")
    assert columns["s"].to_list() == [[1], [2]]
    assert columns["x"].tolist() == [1, 2]


def test_a_feature_that_is_nowhere_is_named_with_the_nearest(two_files: list[Path]) -> None:
    with pytest.raises(MissingName) as caught:
        bushel.read(two_files[0], columns=["xx", "x"])
    assert str(caught.value).splitlines()[0].startswith(f"{two_files[0]}: no feature 'xx'")


def test_columns_must_be_a_list(two_files: list[Path]) -> None:
    with pytest.raises(ValueError, match="columns must be a list of names, got the string 'x'"):
        bushel.read(two_files, columns="x")


def test_on_fault_must_be_known(two_files: list[Path]) -> None:
    with pytest.raises(ValueError, match="on_fault must be 'raise' or 'skip', got 'ignore'"):
        bushel.read(two_files, on_fault="ignore")


def test_another_kind_than_before_is_a_fault_of_that_record_alone(tmp_path: Path) -> None:
    records = [example({"x": [1]}), example({"x": [1.5]}), example({"x": [3]})]
    path = write_records(tmp_path / "a", records)
    with pytest.raises(CorruptRecord) as caught:
        bushel.read(path)
    assert caught.value.message == (
        f"{path}: record 1 at byte 30: feature 'x': holds another kind of values than the records before it"
    )
    with pytest.warns(SkippedRecords, match="1 record skipped"):
        assert bushel.read(path, on_fault="skip")["x"].tolist() == [1, 3]


def test_a_kind_of_the_first_file_holds_for_the_second(tmp_path: Path) -> None:
    first = write_records(tmp_path / "a", [example({"x": [1]})])
    second = write_records(tmp_path / "b", [example({"x": [1.5]})])
    with pytest.raises(CorruptRecord) as caught:
        bushel.read([first, second])
    assert (caught.value.path, caught.value.record, caught.value.feature) == (str(second), 0, "x")


def test_a_malformed_record_fails_alone(tmp_path: Path) -> None:
    records = [example({"x": [1]}), b"\x0a\x05", example({"x": [3]})]
    path = write_records(tmp_path / "a", records)
    with pytest.raises(CorruptRecord) as caught:
        bushel.read(path)
    assert (caught.value.fault, caught.value.record, caught.value.offset) == (Fault.MALFORMED, 1, 30)
    with pytest.warns(SkippedRecords, match="1 record skipped"):
        assert bushel.read(path, on_fault="skip")["x"].tolist() == [1, 3]
    with pytest.warns(SkippedRecords, match="1 record skipped"):
        assert list(bushel.scan(path, on_fault="skip")) == [{"x": 1}, {"x": 3}]


def test_nothing_is_warned_about_intact_files(two_files: list[Path]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bushel.read(two_files, on_fault="skip")
        list(bushel.scan(two_files, on_fault="skip"))


def test_scan_gives_scalars_for_features_that_hold_one_value(tmp_path: Path) -> None:
    path = write_records(
        tmp_path / "a", [example({"one": [i], "two": [i, i], "text": [b"x"], "f": [0.5]}) for i in range(2)]
    )
    samples = list(bushel.scan(path))
    assert samples[1]["one"] == 1
    assert type(samples[1]["one"]) is int
    assert samples[1]["two"].tolist() == [1, 1]
    assert samples[1]["text"] == b"x"
    assert type(samples[1]["f"]) is float


def test_scan_leaves_out_what_a_record_lacks(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"x": [1]}), example({}), b"", example({"x": [], "y": [2]})])
    samples = list(bushel.scan(path))
    assert [sorted(sample) for sample in samples] == [["x"], [], [], ["x", "y"]]
    assert samples[3]["x"].tolist() == []


def test_scan_picks_columns(two_files: list[Path]) -> None:
    assert list(bushel.scan(two_files, ["z"])) == [{}, {}, {}, {"z": b"late"}, {"z": b"late"}]


def test_a_damaged_record_does_not_change_how_others_are_scanned(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"x": [i, i]}) for i in range(4)])
    size = path.stat().st_size // 4
    clean = [sample["x"].tolist() for sample in bushel.scan(path)]
    original = path.read_bytes()
    for at in range(12, size):
        for bits in (1, 2, 0x80):
            path.write_bytes(original)
            flip(path, at, bits)
            with pytest.warns(SkippedRecords):
                found = list(bushel.scan(path, on_fault="skip"))
            assert [sample["x"].tolist() for sample in found] == clean[1:]


def test_feature_lists_are_ragged_over_their_steps(tmp_path: Path) -> None:
    path = write_records(
        tmp_path / "a",
        [
            sequence_example({"id": [1]}, {"one": [[1], [2]], "many": [[b"a", b"b"], [b""]]}),
            sequence_example({"id": [2]}, {"one": [], "many": [[b"c"]]}),
        ],
    )
    columns = bushel.read(path)
    assert columns["id"].tolist() == [1, 2]
    assert isinstance(columns["one"], Ragged)
    assert columns["one"].to_list() == [[1, 2], []]
    assert [row.to_list() for row in columns["many"]] == [[[b"a", b"b"], [b""]], [[b"c"]]]
    samples = list(bushel.scan(path))
    assert samples[0]["one"] == [1, 2]
    assert samples[1]["one"] == []


def test_a_schema_shapes_what_is_read(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"m": [1, 2, 3, 4, 5, 6], "r": [1.0, 2.0] * i}) for i in range(1, 3)])
    schema = Schema.of(m=Feature(dtype="int64", shape=(2, 3)), r=Feature(dtype="float32", shape=(None, 2)))
    columns = bushel.read(path, schema=schema)
    assert columns["m"].shape == (2, 2, 3)
    assert [row.shape for row in columns["r"]] == [(1, 2), (2, 2)]
    sample = next(iter(bushel.scan(path, schema=schema)))
    assert sample["m"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_record_that_is_not_as_the_schema_says_is_named(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"x": [1, 2]}), example({"x": [1]})])
    with pytest.raises(SchemaMismatch, match=r"the record does not hold int64\[2\] - at record 1/x"):
        bushel.read(path, schema=Schema.of(x=Feature(dtype="int64", shape=(2,))))
    with pytest.raises(MissingName, match="no feature 'y'"):
        bushel.read(path, ["y"], schema=Schema.of(x=Feature(dtype="int64", shape=(2,))))


def test_a_required_feature_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"x": [1]}), example({})])
    with pytest.raises(SchemaMismatch, match="the feature is required but the record does not have it - at record 1/x"):
        bushel.read(path, schema=Schema.of(x=Feature(dtype="int64")))
    optional = bushel.read(path, schema=Schema.of(x=Feature(dtype="int64", required=False)))
    assert optional["x"].to_list() == [[1], None]


def test_files_without_records_read_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b""))
    assert bushel.read(path) == {}
    assert list(bushel.scan(path)) == []
    schema = Schema.of(x=Feature(dtype="int64"), s=Feature(dtype="bytes"), r=Feature(dtype="float32", shape=(None,)))
    assert {name: len(column) for name, column in bushel.read(path, schema=schema).items()} == {"x": 0, "s": 0, "r": 0}


def test_records_of_no_bytes_are_records(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [b"", example({"x": [1]}), b""])
    assert bushel.read(path)["x"].to_list() == [None, [1], None]
    assert list(bushel.payloads(path)) == [b"", example({"x": [1]}), b""]


def test_keys_that_are_not_utf8_keep_their_bytes(tmp_path: Path) -> None:
    record = field(1, field(1, field(1, b"\xff\x00") + field(2, feature([5]))))
    path = write_records(tmp_path / "a", [record])
    assert bushel.read(path)["\udcff\0"].tolist() == [5]
    assert next(iter(bushel.scan(path))) == {"\udcff\0": 5}


def test_large_files_are_read_in_threads_as_in_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    records = [example({"x": rng.integers(-(2**40), 2**40, i % 7).tolist(), "b": [b"%d" % i]}) for i in range(40_000)]
    path = tmp_path / "a"
    from bushel import _native

    path.write_bytes(b"".join(_native.frame(record) for record in records))
    assert path.stat().st_size > 1 << 20
    one, three = bushel.read(path, threads=1), bushel.read(path, threads=3)
    assert np.array_equal(one["x"].values, three["x"].values)
    assert np.array_equal(one["x"].row_splits, three["x"].row_splits)
    assert one["b"] == three["b"]


def test_what_was_read_outlives_its_file(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a", [example({"x": [b"kept"]})])
    column = bushel.read(path)["x"]
    path.unlink()
    assert column.to_list() == [b"kept"]


@pytest.mark.parametrize("name", [name for name, file in golden().items() if file["message"] != "raw"])
def test_golden_files_hold_what_tensorflow_wrote(name: str) -> None:
    expected = golden()[name]
    path = DATA / name
    found = [dict(sample) for sample in bushel.scan(path)]
    assert len(found) == len(expected["records"])
    for sample, record in zip(found, expected["records"], strict=True):
        value = record["value"]
        held = {key: f for key, f in value.get("features", value.get("context")).items() if f[0] is not None}
        keys = {*held, *value.get("lists", {})}
        assert {key.encode().hex() for key in sample} == keys


@pytest.mark.parametrize("name", [name for name, file in golden().items() if file["size"]])
def test_payloads_are_those_that_tensorflow_wrote(name: str) -> None:
    import hashlib

    for data, record in zip(bushel.payloads(DATA / name), golden()[name]["records"], strict=True):
        assert len(data) == record["length"]
        assert data.hex() == record.get("hex", data.hex())
        assert hashlib.sha256(data).hexdigest() == record.get("sha256", hashlib.sha256(data).hexdigest())


def test_trailing_bytes_behind_the_last_record_are_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(frame(example({"x": [1]})) + b"\0" * 5)
    with pytest.raises(CorruptRecord) as caught:
        bushel.read(path)
    assert (caught.value.fault, caught.value.record, caught.value.offset) == (Fault.TRUNCATED_HEADER, 1, 30)
