"""Samples from arrays: files of NumPy's and what is in memory."""

import mmap
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from gather import keys_of, listed, read_all
from pictures import encode_image, photo

from bushel.data.columns import Ragged
from bushel.errors import FileProblem, MissingName, SchemaMismatch
from bushel.sources import arrays


def test_arrays_by_name_are_columns_and_rows_are_numbered() -> None:
    source = arrays({"x": np.arange(6.0).reshape(3, 2), "label": ["b", "a", "b"]})
    assert source.reads == "random"
    assert source.partitions() == 1
    assert keys_of(source) == ["0", "1", "2"]
    assert listed(source, "label") == [b"b", b"a", b"b"]
    schema = source.schema()
    assert {name: schema[name].describe() for name in schema} == {"x": "float32[2]", "label": "str"}


def test_rows_come_in_the_order_asked_for() -> None:
    source = arrays({"x": np.arange(100)})
    (block,) = source.read(0, np.array([7, 3, 99]))
    assert block.rows.tolist() == block.columns["x"].tolist() == [7, 3, 99]


def test_npy_and_npz_are_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "pixels.npy", np.arange(12, dtype=np.uint8).reshape(3, 4))
    np.savez(tmp_path / "both.npz", x=np.arange(3.0), label=np.array(["p", "q", "r"]), empty=np.empty((3, 0)))
    np.savez_compressed(tmp_path / "small.npz", x=np.arange(3))
    assert read_all(arrays(tmp_path / "pixels.npy"))[0]["pixels"][1] == [4, 5, 6, 7]
    both = arrays(tmp_path / "both.npz", columns=["x", "label"], rename={"x": "value"})
    assert read_all(both)[0] == {"value": [0.0, 1.0, 2.0], "label": [b"p", b"q", b"r"]}
    assert isinstance(arrays(tmp_path / "both.npz", columns=["x"]).columns["x"].base, np.memmap)
    assert read_all(arrays(tmp_path / "small.npz"))[0] == {"x": [0, 1, 2]}


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}, None], object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "objects.npz", x=objects)
    for name in ("objects.npy", "objects.npz"):
        with pytest.raises(FileProblem, match="holds pickled Python objects, which can run code when they are loaded"):
            arrays(tmp_path / name)


def test_a_file_that_is_no_array_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"hello")
    with pytest.raises(FileProblem, match=r"x\.npy: is neither an \.npy, an \.npz nor an HDF5 file"):
        arrays(tmp_path / "x.npy")


def test_a_truncated_npy_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:500])
    with pytest.raises(FileProblem, match=r"x\.npy: cannot be read as an array"):
        arrays(tmp_path / "x.npy")


def test_data_frame_with_missing_values() -> None:
    frame = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64"), "s": ["a", None, "c"], "f": [0.5, 1.5, 2.5]})
    source = arrays(frame)
    assert source.schema()["n"].describe() == "int64, optional"
    assert source.schema()["s"].describe() == "str, optional"
    assert read_all(source)[0] == {"n": [1, None, 3], "s": [b"a", None, b"c"], "f": [0.5, 1.5, 2.5]}


def test_categories_of_pandas_are_their_names() -> None:
    source = arrays(pd.DataFrame({"label": pd.Categorical(["x", "y", "x"])}))
    assert listed(source, "label") == [b"x", b"y", b"x"]


def test_scikit_learns_data() -> None:
    from sklearn.datasets import load_iris

    source = arrays(load_iris())
    assert source.schema()["x"].describe() == "float32[4]"
    assert listed(source, "label")[:2] == [b"setosa", b"setosa"]
    framed = arrays(load_iris(as_frame=True))
    assert framed.schema()["sepal length (cm)"].describe() == "float32"
    assert arrays(load_iris(return_X_y=True)).rows == 150


def test_lists_of_different_lengths_are_ragged() -> None:
    source = arrays({"tokens": [[1, 2], [], [3]], "words": [["a"], ["b", "c"], []]})
    assert source.schema()["tokens"].describe() == "int64[?]"
    assert source.schema()["words"].describe() == "str[?]"
    assert read_all(source)[0] == {"tokens": [[1, 2], [], [3]], "words": [[b"a"], [b"b", b"c"], []]}


def test_numbers_among_text_are_text_and_that_is_said() -> None:
    source = arrays({"film": [300, "Alien", None, 8.5]})
    assert read_all(source)[0] == {"film": [b"300", b"Alien", None, b"8.5"]}
    (note,) = source.list(0, []).counted
    assert note.startswith("values of 'film' that are not text, kept as text like the others (--type film=float32")


def test_single_values_among_lists_are_an_error_that_names_the_column() -> None:
    with pytest.raises(SchemaMismatch, match=r"its values are not of one type: .* - at x"):
        arrays({"x": [1, ["a"], None]})


def test_an_integer_beyond_int64_is_refused_alone() -> None:
    source = arrays({"hash": np.array([1, 2**64 - 1, 3], np.uint64)})
    columns, refused = read_all(source)
    assert columns == {"hash": [1, 3]}
    assert refused == [(1, "schema", "hash: 18446744073709551615 does not fit int64")]


def test_types_ask_for_raw_storage() -> None:
    source = arrays({"image": np.zeros((2, 4, 4), np.uint8)}, types={"image": "uint8"})
    assert source.schema()["image"].describe() == "uint8[4,4] (raw)"
    with pytest.raises(ValueError, match=r"types\['image'\] must be one of .*; got 'u8'"):
        arrays({"image": np.zeros((2, 4))}, types={"image": "u8"})


def test_columns_of_different_lengths_are_told() -> None:
    with pytest.raises(SchemaMismatch, match="must have the same number of rows, got one 3, two 2"):
        arrays({"one": np.arange(3), "two": np.arange(2)})


def test_a_misspelt_column_is_offered_the_nearest() -> None:
    with pytest.raises(MissingName, match="no column 'lable'; did you mean 'label'"):
        arrays({"x": [1], "label": [2]}, columns=["x", "lable"])


def test_keys_from_a_column() -> None:
    assert keys_of(arrays({"id": [10, 20], "x": [1, 2]}, key="id")) == ["10", "20"]
    with pytest.raises(SchemaMismatch, match=r"a key must not be missing - at id\[1\]"):
        arrays({"id": ["a", None]}, key="id").list(0, [])


@pytest.mark.parametrize("from_file", [True, False])
def test_pickles_cheaply_and_reads_the_same(tmp_path: Path, from_file: bool) -> None:
    big = np.random.default_rng(0).random((1000, 100))
    if from_file:
        np.savez(tmp_path / "a.npz", x=big)
    source = arrays(tmp_path / "a.npz" if from_file else {"x": big, "t": ["a"] * 1000, "r": Ragged.of([[1]] * 1000)})
    data = pickle.dumps(source)
    assert len(data) < 2000
    again = pickle.loads(data)
    assert read_all(again) == read_all(source)
    assert again.fingerprint() == source.fingerprint()


def test_the_fingerprint_changes_with_the_values() -> None:
    assert arrays({"x": [1, 2]}).fingerprint() != arrays({"x": [1, 3]}).fingerprint()
    assert arrays({"x": [1, 2]}).fingerprint() != arrays({"y": [1, 2]}).fingerprint()


def test_what_is_no_column_is_told() -> None:
    with pytest.raises(SchemaMismatch, match="a column must have one value per row, got int - at x"):
        arrays({"x": 5})
    with pytest.raises(ValueError, match="data must hold at least one row, got none"):
        arrays({"x": []})
    with pytest.raises(ValueError, match="data must be a path, a dict of arrays"):
        arrays([1, 2])


def test_float64_is_left_for_the_writer_to_narrow_and_report() -> None:
    (block,) = arrays({"x": np.array([0.1])}).read(0, np.array([0]))
    assert block.columns["x"].dtype == np.float64


def test_encoded_images_are_images_by_their_bytes() -> None:
    pictures = [encode_image(photo(number, 8, 8), "PNG") for number in range(3)]
    assert arrays({"image": pictures, "label": [0, 1, 0]}).schema()["image"].describe() == "bytes (image)"
    assert arrays({"image": [*pictures, None]}).schema()["image"].describe() == "bytes (image), optional"
    assert arrays({"image": [*pictures, b"\x00\x01"]}).schema()["image"].describe() == "bytes"


@pytest.mark.parametrize("form", ["npz", "npz in Fortran's order", "hdf5"])
def test_a_large_compressed_array_is_unpacked_to_a_file_and_not_kept_in_memory(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bushel.sources.array_source._HELD", 1000)
    monkeypatch.setattr("bushel.sources.array_source._PIECE", 4096)
    x, y = np.random.default_rng(0).integers(0, 256, (500, 7, 3), dtype=np.uint8), np.arange(500)
    if form == "hdf5":
        with pytest.importorskip("h5py").File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("x", data=x, chunks=(64, 7, 3), compression="gzip")
            file.create_dataset("y", data=y, chunks=(64,), compression="gzip")
        path = tmp_path / "a.h5"
    else:
        path = tmp_path / "a.npz"
        np.savez_compressed(path, x=np.asfortranarray(x) if "Fortran" in form else x, y=y)
    source = arrays(path, types={"x": "uint8"})
    (block,) = source.read(0, np.array([3, 499, 0]))
    np.testing.assert_array_equal(block.columns["x"], x[[3, 499, 0]])
    np.testing.assert_array_equal(block.columns["y"], [3, 499, 0])
    bases = [source.columns["x"]]
    while getattr(bases[-1], "base", None) is not None:
        bases.append(bases[-1].base)
    assert any(isinstance(base, np.memmap | mmap.mmap) for base in bases)
