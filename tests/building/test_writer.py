import gzip
import hashlib
import os
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import example, frame, sequence_example

import bushel
from bushel import BytesColumn, Feature, Ragged, Schema, Writer
from bushel.building import NarrowedValues
from bushel.data.encoding import Stored
from bushel.data.schema import sidecar_path
from bushel.errors import FileProblem, MissingName, SchemaMismatch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.tfrecord"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, *samples: dict[Any, Any], schema: Schema | None = None) -> bytes:
    with Writer(path, schema=schema) as writer:
        for sample in samples:
            writer.write(sample)
    return path.read_bytes()


def refusal(path: Path, *samples: dict[Any, Any], schema: Schema | None = None) -> list[str]:
    with pytest.raises((SchemaMismatch, MissingName)) as caught:
        write(path, *samples, schema=schema)
    assert names_in(path.parent) == []
    return str(caught.value).splitlines()


def batch_refusal(path: Path, columns: dict[str, Any], schema: Schema | None = None) -> list[str]:
    with pytest.raises((SchemaMismatch, MissingName)) as caught, Writer(path, schema=schema) as writer:
        writer.write_batch(columns)
    assert names_in(path.parent) == []
    assert str(path) in str(caught.value).splitlines()[0]
    return str(caught.value).replace(f"{path}: ", "").splitlines()


def test_a_sample_is_these_bytes(path: Path) -> None:
    assert write(path, {"x": [1.0, 2.0], "label": 3, "name": "é"}) == frame(
        example({"label": [3], "name": ["é".encode()], "x": [1.0, 2.0]})
    )


def test_samples_and_a_batch_of_them_are_the_same_bytes(path: Path, tmp_path: Path) -> None:
    one = write(path, *({"x": [i / 2, 1.0], "n": i, "b": b"%d" % i} for i in range(9)))
    columns = {"b": [b"%d" % i for i in range(9)], "n": np.arange(9), "x": [[i / 2, 1.0] for i in range(9)]}
    with Writer(tmp_path / "b") as writer:
        writer.write_batch(columns)
    assert (tmp_path / "b").read_bytes() == one


def test_features_are_ordered_bytewise_whatever_the_order_given(path: Path) -> None:
    names = ["é", "a", "Z", "aa", "", "b/c", "b"]
    data = write(path, dict.fromkeys(names, 1))
    assert data == frame(example({name: [1] for name in sorted(names, key=str.encode)}))
    assert write(path, dict.fromkeys(reversed(names), 1)) == data


_WRITE_AGAIN = """
import sys, numpy as np, bushel
names = {"b", "a", "c", "image", "label", "text", "x/y"}  # a set: its order differs between processes
with bushel.Writer(sys.argv[1], compression=sys.argv[2] or None) as writer:
    for i in range(20):
        writer.write({name: [i, 2 * i] for name in names})
    writer.write_batch({name: np.arange(6).reshape(3, 2) for name in names})
"""


@pytest.mark.parametrize("compression", ["", "gzip", "zlib"])
def test_the_same_samples_are_the_same_bytes_in_every_process(tmp_path: Path, compression: str) -> None:
    digests = set()
    for seed in ("0", "1", "2"):
        out = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", _WRITE_AGAIN, out, compression], check=True, env=environment)
        digests.add(hashlib.sha256(out.read_bytes()).hexdigest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("compression", "unpack"), [(None, bytes), ("gzip", gzip.decompress), ("zlib", zlib.decompress)]
)
def test_compression_is_around_the_same_records(path: Path, compression: Any, unpack: Callable[[bytes], bytes]) -> None:
    with Writer(path, compression=compression) as writer:
        writer.write({"x": 1})
        writer.write_batch({"x": [2, 3]})
    assert unpack(path.read_bytes()) == b"".join(frame(example({"x": [i]})) for i in (1, 2, 3))


def test_a_batch_of_many_megabytes_is_written_in_pieces_and_comes_back(path: Path) -> None:
    rng = np.random.default_rng(0)
    x, tokens = rng.random((30_000, 100), np.float32), Ragged(rng.integers(0, 2**40, 90_000), np.arange(30_001) * 3)
    with Writer(path) as writer:
        writer.write_batch({"x": x, "t": tokens})
        assert writer.records == 30_000
    columns = bushel.read(path)
    assert np.array_equal(columns["x"], x)
    assert np.array_equal(columns["t"].reshape(-1), tokens.values)


def test_every_type_of_number_that_fits_is_taken(path: Path) -> None:
    values = {
        "bool": True,
        "int": -(2**63),
        "np.int8": np.int8(-5),
        "np.uint64": np.uint64(2**63 - 1),
        "tuple": (3, 4),
        "array": np.array([5, 6], ">i4"),
        "strided": np.arange(10)[::3],
        "half": np.float16(0.5),
        "bools": np.array([True, False]),
    }
    write(path, values)
    found = {name: np.asarray(value).tolist() for name, value in next(iter(bushel.scan(path))).items()}
    assert found == {
        "bool": 1,
        "int": -(2**63),
        "np.int8": -5,
        "np.uint64": 2**63 - 1,
        "tuple": [3, 4],
        "array": [5, 6],
        "strided": [0, 3, 6, 9],
        "half": 0.5,
        "bools": [1, 0],
    }


def test_every_type_of_text_is_taken(path: Path) -> None:
    texts = {"s": "é", "b": b"\xff", "a": bytearray(b"x"), "m": memoryview(b"y"), "l": ["a", b"b"]}
    write(path, {**texts, "n": np.array(["u", "v"])})
    assert next(iter(bushel.scan(path))) == {
        "a": b"x",
        "b": b"\xff",
        "l": [b"a", b"b"],
        "m": b"y",
        "n": [b"u", b"v"],
        "s": "é".encode(),
    }


def test_narrowing_is_said_once_with_the_largest_error_of_each_column(path: Path) -> None:
    with pytest.warns(NarrowedValues) as said:
        write(path, {"x": 0.1, "y": 0.5}, {"x": 1e9 + 0.3, "y": 0.25}, {"x": 0.2, "y": 1.0})
    assert [str(warning.message) for warning in said] == [
        f"{path}: floats narrowed to float32: x (by up to 0.3, at 1000000000.3)"
    ]
    with pytest.warns(NarrowedValues, match=r"x \(by up to 1.49e-09, at 0.1\)$") as said, Writer(path) as writer:
        writer.write_batch({"x": [0.5, 0.1], "y": [1.0, 2.0]})
    assert len(said) == 1


def test_exact_floats_and_special_values_are_not_narrowed(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(path, {"x": [0.5, float("inf"), float("-inf"), float("nan"), -0.0]})
        with Writer(path) as writer:
            writer.write_batch({"x": np.array([0.5, np.inf, np.nan])})


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, [1, 2**63], np.uint64(2**63), np.array([0, 2**64 - 1], np.uint64)], ids=repr
)
def test_an_integer_beyond_int64_is_refused_with_its_feature_and_value(path: Path, value: Any) -> None:
    first = refusal(path, {"n": value})[0]
    assert f"{path}: sample 0/n" in first
    assert f"{np.asarray(value, object).reshape(-1)[-1]} does not fit int64" in first


def test_an_integer_beyond_int64_in_a_batch_is_refused_with_its_place(path: Path) -> None:
    assert batch_refusal(path, {"n": np.array([[1, 2], [3, 2**63]], np.uint64)})[0] == (
        "9223372036854775808 does not fit int64 - at n[1][1]"
    )


def test_a_float_beyond_float32_is_refused(path: Path) -> None:
    assert refusal(path, {"x": 1.0}, {"x": 1e39})[0] == f"1e+39 does not fit float32 - at {path}: sample 1/x"
    assert refusal(path, {"x": [0.0, -1e300]})[0] == f"-1e+300 does not fit float32 - at {path}: sample 0/x[1]"
    assert batch_refusal(path, {"x": [0.5, 1e39]})[0] == "1e+39 does not fit float32 - at x[1]"


def test_an_integer_that_float32_skips_is_refused_and_one_that_it_holds_is_taken(path: Path) -> None:
    schema = Schema.of(x=Feature(dtype="float32"))
    assert refusal(path, {"x": 2**24 + 1}, schema=schema) == [
        f"16777217 is beyond 2^24, where float32 skips integers - at {path}: sample 0/x",
        "  To cast it on purpose: Feature(dtype=..., cast=True) in the schema.",
    ]
    assert batch_refusal(path, {"x": [1, -(2**24) - 1]}, schema)[0] == (
        "-16777217 is beyond 2^24, where float32 skips integers - at x[1]"
    )
    write(path, {"x": 2**24}, {"x": -(2**24)}, schema=schema)
    assert bushel.read(path)["x"].tolist() == [2.0**24, -(2.0**24)]


REFUSED = {
    "None": (None, "None cannot be stored"),
    "None in a list": ([1, None], "None cannot be stored"),
    "int and str": ([1, "a"], "text and numbers are mixed in one list"),
    "str and int": (["a", 1], "text and numbers are mixed in one list"),
    "bytes and float": ([b"a", 1.0], "text and numbers are mixed in one list"),
    "complex": (1j, "values of dtype complex128 cannot be stored"),
    "datetime": (np.datetime64("2020-01-01"), "values of dtype datetime64[D] cannot be stored"),
    "dict": ({"a": 1}, "a value of type dict cannot be stored"),
    "surrogate": ("\ud800", "the text holds characters that UTF-8 cannot encode"),
    "ragged list": ([[1, 2], [3]], "lists of different lengths are not one array"),
}


@pytest.mark.parametrize(("value", "what"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_stored_is_refused_by_name(path: Path, value: Any, what: str) -> None:
    first = refusal(path, {"ok": 1, "x": value})[0]
    assert first.startswith(what)
    assert f"{path}: sample 0/x" in first


@pytest.mark.parametrize(("value", "what"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_stored_is_refused_in_a_batch_too(path: Path, value: Any, what: str) -> None:
    assert batch_refusal(path, {"ok": [1], "x": [value]})


def test_ints_and_floats_in_one_list_are_floats(path: Path) -> None:
    write(path, {"x": [1, 2.5]})
    assert bushel.read(path)["x"].tolist() == [[1.0, 2.5]]


def test_another_type_than_the_first_sample_had_is_refused(path: Path) -> None:
    assert refusal(path, {"x": 1}, {"x": 1.5}) == [
        f"expected int64, got float - at {path}: sample 1/x",
        "  To cast it on purpose: Feature(dtype=..., cast=True) in the schema.",
    ]
    assert refusal(path, {"x": "a"}, {"x": 1})[0] == f"expected str, got int - at {path}: sample 1/x"
    assert refusal(path, {"x": 1}, {"x": ["a"]})[0] == f"expected int64, got a list of str - at {path}: sample 1/x"


def test_a_cast_that_was_asked_for_is_done(path: Path) -> None:
    schema = Schema.of(i=Feature(dtype="int64", cast=True), f=Feature(dtype="float32", cast=True))
    write(path, {"i": 1.9, "f": 2**24 + 1}, {"i": -1.9, "f": 0.1}, schema=schema)
    columns = bushel.read(path)
    assert columns["i"].tolist() == [1, -1]
    assert columns["f"].tolist() == [float(2**24), float(np.float32(0.1))]


def test_lists_may_vary_in_length_and_features_may_come_and_go_without_a_schema(path: Path) -> None:
    write(path, {"x": [1, 2], "y": 1}, {"x": [3]}, {"x": [], "z": b"late"}, {"x": 5})
    columns = bushel.read(path)
    assert columns["x"].to_list() == [[1, 2], [3], [], [5]]
    assert columns["y"].to_list() == [[1], None, None, None]
    assert columns["z"].to_list() == [None, None, [b"late"], None]


def test_a_schema_is_held_to(path: Path) -> None:
    schema = Schema.of(x=Feature(dtype="int64", shape=(2,)), o=Feature(dtype="bytes", required=False))
    required = "the feature is required but the"
    assert refusal(path, {"x": [1]}, schema=schema)[0] == f"expected int64[2], got shape (1,) - at {path}: sample 0/x"
    assert refusal(path, {"o": b""}, schema=schema)[0] == f"{required} sample does not have it - at {path}: sample 0/x"
    assert refusal(path, {"x": [1, 2], "xx": 1}, schema=schema)[0].startswith(f"{path}: sample 0/xx: no feature 'xx'")
    assert batch_refusal(path, {"o": [b""]}, schema)[0].startswith(f"{required} samples do not have it")
    assert (
        batch_refusal(path, {"x": np.zeros((2, 3), int)}, schema)[0] == "expected rows of shape (2,), got (3,) - at x"
    )
    write(path, {"x": [1, 2]}, {"x": [3, 4], "o": b"o"}, schema=schema)


def test_a_batch_must_have_one_number_of_rows(path: Path) -> None:
    assert batch_refusal(path, {"x": [1, 2], "y": [1]})[0] == (
        f"columns must have the same number of rows, got x 2, y 1 - at {path}"
    )


def test_a_batch_may_have_rows_that_lack_a_feature(path: Path) -> None:
    column = Ragged(np.array([1, 2, 3]), np.array([0, 2, 2, 2, 3]), np.array([True, False, True, True]))
    with Writer(path) as writer:
        writer.write_batch({"x": column})
    assert bushel.read(path)["x"].to_list() == [[1, 2], None, [], [3]]


def test_an_empty_batch_writes_nothing(path: Path) -> None:
    with Writer(path) as writer:
        writer.write_batch({"x": np.empty((0, 3), np.float32)})
        writer.write_batch({})
    assert path.read_bytes() == b""


def test_an_empty_list_is_a_list(path: Path) -> None:
    assert write(path, {"x": [1]}, {"x": []}) == frame(example({"x": [1]})) + frame(example({"x": []}))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "uint64", "float16", "float64", "complex64", "complex128"])
def test_every_numpy_dtype_is_stored_raw_and_comes_back_with_the_schema_beside(path: Path, dtype: str) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    with Writer(path, schema=Schema.of(x=Feature(dtype=dtype, shape=(3,)))) as writer:
        writer.write_batch({"x": values})
        writer.write({"x": values[0]})
    assert sidecar_path(path).exists()
    column = bushel.read(path)["x"]
    assert column.dtype == np.dtype(dtype)
    assert np.array_equal(column, [*values, values[0]])
    assert np.array_equal(list(bushel.scan(path))[1]["x"], values[1])
    assert next(bushel.payloads(path)) == example({"x": [values[0].tobytes()]})


def test_big_endian_values_are_stored_little_endian(path: Path) -> None:
    with Writer(path, schema=Schema.of(x=Feature(dtype="float64", shape=(2,)))) as writer:
        writer.write_batch({"x": np.array([[1.0, 2.0]], ">f8")})
    assert next(bushel.payloads(path)) == example({"x": [np.array([1.0, 2.0], "<f8").tobytes()]})


def test_a_raw_feature_refuses_what_it_would_lose(path: Path) -> None:
    schema = Schema.of(x=Feature(dtype="uint8", shape=(2,)))
    assert batch_refusal(path, {"x": [[1, 300]]}, schema)[0] == "300 does not fit uint8 - at x[0][1]"
    assert batch_refusal(path, {"x": [[1, 2, 3]]}, schema)[0] == "expected rows of shape (2,), got (3,) - at x"
    assert batch_refusal(path, {"x": [[b"a", b"b"]]}, schema)[0] == "expected uint8, got text - at x"


def test_ragged_raw_tensors_come_back(path: Path) -> None:
    with Writer(path, schema=Schema.of(x=Feature(dtype="float64", shape=(None, 2)))) as writer:
        writer.write_batch({"x": Ragged(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1, 3]))})
    assert [row.tolist() for row in bushel.read(path)["x"]] == [[[0.0, 1.0]], [], [[2.0, 3.0], [4.0, 5.0]]]


def test_a_shape_of_more_than_one_size_is_kept_by_the_schema_beside(path: Path) -> None:
    write(path, {"m": np.arange(6).reshape(2, 3)})
    assert bushel.read(path)["m"].shape == (1, 2, 3)
    write(path, {"m": [1, 2]})  # over it: what was beside must not stay
    assert not sidecar_path(path).exists()
    assert bushel.read(path)["m"].shape == (1, 2)


def test_sequences_are_sequence_examples(path: Path) -> None:
    schema = Schema.of(
        id=Feature(dtype="int64"),
        s=Feature(dtype="int64", shape=(2,), sequence=True),
        t=Feature(dtype="bytes", sequence=True),
    )
    data = write(path, {"id": 1, "s": [[1, 2], [3, 4]], "t": [b"a", b"b"]}, schema=schema)
    assert data == frame(sequence_example({"id": [1]}, {"s": [[1, 2], [3, 4]], "t": [[b"a"], [b"b"]]}))
    steps = Ragged(np.arange(6).reshape(3, 2), np.array([0, 1, 3]))
    with Writer(path, schema=schema) as writer:
        writer.write_batch({"id": [1, 2], "s": steps, "t": Ragged(BytesColumn.of([b"x"]), np.array([0, 1, 1]))})
    columns = bushel.read(path)
    assert [row.tolist() for row in columns["s"]] == [[[0, 1]], [[2, 3], [4, 5]]]
    assert columns["t"].to_list() == [[b"x"], []]


def test_bytes_in_lists_keep_the_zeros_at_their_end(path: Path) -> None:
    with Writer(path) as writer:
        writer.write({"x": [b"a\0", b"\0"]})
        writer.write_batch({"x": [[b"b\0", b"c"], [b"\0\0", b""]]})
    assert bushel.read(path)["x"].to_list() == [[b"a\0", b"\0"], [b"b\0", b"c"], [b"\0\0", b""]]


def test_steps_of_several_texts_stay_steps(path: Path) -> None:
    schema = Schema.of(s=Feature(dtype="bytes", shape=(2,), sequence=True))
    data = write(path, {"s": [[b"a", b"b"], [b"c", b"d"]]}, {"s": []}, schema=schema)
    assert data == frame(sequence_example({}, {"s": [[b"a", b"b"], [b"c", b"d"]]})) + frame(
        sequence_example({}, {"s": []})
    )


def test_rows_of_nothing_are_rows(path: Path) -> None:
    with Writer(path) as writer:
        writer.write_batch({"x": np.empty((3, 0), np.float32), "n": [1, 2, 3]})
    assert bushel.read(path)["n"].tolist() == [1, 2, 3]
    assert bushel.read(path)["x"].shape == (3, 0)


@pytest.mark.parametrize(
    "column",
    [
        Ragged(np.arange(3), np.array([0, 100])),
        Ragged(np.arange(3), np.array([0, 3, 1])),
        Ragged(np.arange(3), np.array([-1, 3])),
        BytesColumn(np.array([0, 100]), np.zeros(3, np.uint8)),
        Ragged(BytesColumn.of([b"a"]), np.array([0, 2])),
    ],
    ids=["beyond", "backwards", "negative", "bytes beyond", "texts beyond"],
)
def test_splits_that_lead_out_of_memory_are_refused(path: Path, column: Any) -> None:
    assert "do not fit the" in batch_refusal(path, {"x": column})[0]


def test_the_file_is_there_when_it_is_closed_and_not_before(path: Path) -> None:
    writer = Writer(path)
    writer.write({"x": 1})
    assert not path.exists()
    writer.close()
    assert names_in(path.parent) == [path.name]
    writer.close()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write({"x": 2})


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_nothing_and_what_was_there_stays(path: Path, error: type[BaseException]) -> None:
    path.write_bytes(b"before")
    with pytest.raises(error), Writer(path) as writer:
        writer.write({"x": 1})
        raise error
    assert path.read_bytes() == b"before"
    assert names_in(path.parent) == [path.name]


def test_a_refused_sample_leaves_the_writer_usable(path: Path) -> None:
    with Writer(path) as writer:
        writer.write({"x": 1})
        with pytest.raises(SchemaMismatch):
            writer.write({"x": "text"})
        with pytest.raises(SchemaMismatch):
            writer.write_batch({"x": [1.5, 2.5]})
        writer.write({"x": 2})
        assert writer.records == 2
    assert bushel.read(path)["x"].tolist() == [1, 2]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="no such file or directory"):
        Writer(tmp_path / "nowhere" / "a")


def test_an_unknown_compression_is_a_wrong_argument(path: Path) -> None:
    with pytest.raises(ValueError, match="compression must be None, 'gzip' or 'zlib'; got 'bz2'"):
        Writer(path, compression="bz2")  # type: ignore[arg-type]


def test_names_must_be_text(path: Path) -> None:
    assert refusal(path, {1: 2})[0].startswith("names of features must be str, got int")


def test_names_that_are_not_utf8_are_written_as_they_were_read(path: Path, tmp_path: Path) -> None:
    write(path, {"\udcff": 5})
    assert next(bushel.payloads(path)) == example({"\udcff": [5]})
    with Writer(tmp_path / "b") as writer:
        writer.write_batch(bushel.read(path))
    assert (tmp_path / "b").read_bytes() == path.read_bytes()


def test_a_record_above_two_gib_is_refused(path: Path) -> None:
    # The size is told by the offsets alone, before a byte is copied: no 2 GiB are needed to try it.
    offsets = np.array([0, 1, 2**31 + 1])
    stored = Stored("x", False, 1, None, offsets, np.zeros(1, np.uint8), None, 1, None, None)
    with pytest.raises(SchemaMismatch) as caught, Writer(path, schema=Schema.of(x=Feature(dtype="bytes"))) as writer:
        writer._write_stored([stored], 2)
    assert str(caught.value) == (
        f"the record would be larger than 2 GiB, which no reader accepts - at {path}: sample 1"
    )
    assert names_in(path.parent) == []


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "bytes": st.binary(max_size=8),
}


@st.composite
def schemas_and_samples(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    features: dict[str, Feature] = {}
    values: dict[str, st.SearchStrategy[Any]] = {}
    for name in draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), unique=True, max_size=4)):
        dtype = draw(st.sampled_from(sorted(SCALARS)))
        size = draw(st.sampled_from(["one", 0, 2, None]))
        sequence = draw(st.booleans())
        shape = () if size == "one" else (size,)
        features[name] = Feature(dtype=dtype, shape=shape, sequence=sequence, required=sequence or draw(st.booleans()))
        value = SCALARS[dtype]
        if size != "one":
            value = st.lists(value, min_size=size or 0, max_size=4 if size is None else size)
        values[name] = st.lists(value, max_size=3) if sequence else value
    samples = [
        {name: draw(value) for name, value in values.items() if features[name].required or draw(st.booleans())}
        for _ in range(draw(st.integers(1, 5)))
    ]
    return Schema.of(**features), samples


def comparable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Ragged | BytesColumn):
        return [comparable(row) for row in value]
    return [comparable(item) for item in value] if isinstance(value, list) else value


@given(case=schemas_and_samples(), compression=st.sampled_from([None, "gzip", "zlib"]))
def test_any_schema_and_samples_come_back_as_they_were(case: Any, compression: Any, tmp_path: Path) -> None:
    schema, samples = case
    path = tmp_path / "any"
    with Writer(path, compression=compression, schema=schema) as writer:
        for sample in samples:
            writer.write(sample)
    found = [{name: comparable(value) for name, value in sample.items()} for sample in bushel.scan(path, schema=schema)]
    assert found == samples
    columns = bushel.read(path, schema=schema)
    for name in schema:
        if all(name in sample for sample in samples):
            assert [comparable(row) for row in columns[name]] == [sample[name] for sample in samples]
