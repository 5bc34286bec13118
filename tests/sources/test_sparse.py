"""Sparse matrices of SciPy's stay sparse: as a source, in records, read back, and as a source again."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

import bushel
from bushel import Run, SparseColumn
from bushel import transforms as t
from bushel.cli import cli
from bushel.errors import FileProblem, SchemaMismatch
from bushel.sources import arrays

SIZE = 2000


def matrix(rows: int = 60, dtype: Any = np.float32) -> Any:
    dense = np.random.default_rng(0).integers(-9900, 100, (rows, SIZE)).clip(0)  # 1 in 100
    dense[7] = 0  # a row of zeros alone
    return sparse.csr_matrix(dense.astype(dtype))


def back(column: Any) -> Any:
    assert isinstance(column, SparseColumn)
    return sparse.csr_array((column.values, column.places, column.row_splits), column.shape)


def same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and (sparse.csr_array(one) != sparse.csr_array(other)).nnz == 0


def build(source: Any, out: Path, workers: int = 1, **settings: Any) -> Any:
    return bushel.build(source, out, run=Run(workers=workers), **{"order": "source", **settings})


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_a_matrix_of_any_form_comes_back_as_it_was(tmp_path: Path, form: str, dtype: Any) -> None:
    given = matrix(dtype=dtype)
    built = build({"x": given.asformat(form), "n": np.arange(60)}, tmp_path / "out").manifest
    assert built.schema["x"].describe() == f"{'float32' if dtype == np.float32 else 'int64'}[{SIZE}] (sparse)"
    assert same(back(bushel.open(tmp_path / "out")["train"][:]["x"]), given)
    (batch,) = bushel.batches(bushel.open(tmp_path / "out")["train"], batch_size=60)
    assert same(back(batch["x"]), given)
    record = next(iter(bushel.payloads(tmp_path / "out" / "train-00000-of-00001.tfrecord")))
    assert len(record) < SIZE / 4  # bytes; a dense one has 4 a value


def test_a_matrix_alone_and_a_pair_are_sources_on_any_number_of_workers(tmp_path: Path) -> None:
    label = np.arange(60) % 2
    for workers in (1, 2):
        build(
            (matrix(), label), tmp_path / str(workers), workers, split="80/20", order="shuffled", balance="oversample"
        )
    one, two = (bushel.read_manifest(tmp_path / str(workers)) for workers in (1, 2))
    assert one.splits == two.splits
    build(matrix(), tmp_path / "alone")
    assert same(back(bushel.open(tmp_path / "alone")["train"][:]["x"]), matrix())


def test_a_source_of_it_pickles_and_tells_matrices_apart() -> None:
    source, other = arrays({"x": matrix()}), arrays({"x": matrix() * 2})
    copy = pickle.loads(pickle.dumps(source))
    assert same(back(copy.columns["x"]), matrix())
    assert copy.fingerprint() == source.fingerprint() != other.fingerprint()


def test_places_that_come_twice_are_summed_and_zeros_left_out() -> None:
    given = sparse.coo_array(([1.0, 2.0, 0.0, 4.0], ([0, 0, 0, 1], [5, 5, 2, 0])), shape=(2, 9))
    column: Any = arrays({"x": given}).columns["x"]
    assert (column.places.tolist(), column.values.tolist(), column.row_splits.tolist()) == (
        [5, 0],
        [3.0, 4.0],
        [0, 1, 2],
    )
    unsorted = sparse.csr_array((np.ones(2), np.array([3, 1]), np.array([0, 2])), shape=(1, 4))
    assert arrays({"x": unsorted}).columns["x"].places.tolist() == [1, 3]  # type: ignore[union-attr]
    assert unsorted.indices.tolist() == [3, 1]  # what was given is left as it was


def test_transforms_of_other_features_leave_it_sparse(tmp_path: Path) -> None:
    class Plain:
        def apply(self, sample: Any, draw: Any) -> Any:
            return {**sample, "n": sample["n"] + 1}

    for name, chain in (("columns", [t.standardise("n")]), ("samples", [Plain()])):
        build({"x": matrix(), "n": np.arange(60)}, tmp_path / name, transforms=chain)
        assert same(back(bushel.open(tmp_path / name)["train"][:]["x"]), matrix())


def test_a_sparse_label_is_made_dense_where_it_is_known_to_be_one(tmp_path: Path) -> None:
    codes = sparse.csr_array(np.eye(3, dtype=np.int64)[np.arange(60) % 3])
    assert build((matrix(), codes), tmp_path / "out").manifest.schema["label"].describe() == "int64[3]"
    with pytest.raises(SchemaMismatch, match="a sparse feature cannot be a label, a split or a group - at y"):
        build({"x": matrix(), "y": codes}, tmp_path / "y", label="y")


def test_files_of_save_npz_are_sources(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "terms.npz", matrix())
    np.save(tmp_path / "y.npy", np.arange(60))
    source = arrays({"terms": tmp_path / "terms.npz", "label": tmp_path / "y.npy"})
    build(source, tmp_path / "out")
    assert same(back(bushel.open(tmp_path / "out")["train"][:]["terms"]), matrix())
    done = CliRunner().invoke(cli, ["info", str(tmp_path / "out")])
    assert done.exit_code == 0
    shown = CliRunner().invoke(cli, ["cat", str(tmp_path / "out"), "--record", "train:3", "--full"])
    row = matrix()[3]
    printed = {"indices": row.indices.tolist(), "values": row.data.tolist(), "size": SIZE}
    assert json.loads(shown.stdout)["sample"]["terms"] == printed
    assert "terms is sparse, 2,000 values per record: terms/indices, terms/values" in done.stdout.splitlines()


def test_files_that_are_no_csr_matrix_are_named(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "csc.npz", matrix().tocsc())
    with pytest.raises(FileProblem, match=r"csc\.npz: holds a sparse matrix in the form csc, and CSR is read"):
        arrays(tmp_path / "csc.npz")
    whole = {"format": b"csr", "shape": np.array([2, 9]), "data": np.ones(2)}
    broken = [
        {"indices": np.array([0, 1]), "indptr": np.array([0, 5, 2])},
        {"indices": np.array([0]), "indptr": np.array([0, 1, 2])},
        {"indices": np.array([0.5, 1]), "indptr": np.array([0, 1, 2])},
    ]
    for parts in broken:
        np.savez(tmp_path / "broken.npz", **whole, **parts)
        with pytest.raises(FileProblem, match="holds a sparse matrix whose parts do not fit together"):
            arrays(tmp_path / "broken.npz")
    np.savez(tmp_path / "beyond.npz", **whole, indices=np.array([0, 9]), indptr=np.array([0, 1, 2]))
    with pytest.raises(SchemaMismatch, match="indices must be at least 0 and below 9 - at record 1/beyond/indices"):
        arrays(tmp_path / "beyond.npz")


def test_what_cannot_be_sparse_is_said() -> None:
    with pytest.raises(SchemaMismatch, match="values of dtype complex64 cannot be stored - at x"):
        arrays({"x": matrix().astype(np.complex64)})
    with pytest.raises(SchemaMismatch, match="sparse float32 cannot be taken as uint8 - at x"):
        arrays({"x": matrix()}, types={"x": "uint8"})
    with pytest.raises(SchemaMismatch, match="a sparse array must have rows of one size - at x"):
        arrays({"x": sparse.coo_array(np.ones(4))})


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_dataset_with_it_is_a_source_again(tmp_path: Path, compression: Any) -> None:
    build({"x": matrix(), "n": np.arange(60)}, tmp_path / "first", compression=compression)
    build(tmp_path / "first", tmp_path / "second")
    assert same(back(bushel.open(tmp_path / "second")["train"][:]["x"]), matrix())


def test_a_record_that_is_no_sparse_vector_is_refused_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with bushel.Writer(path) as writer:
        for places, values in (([0, 3], [1.0, 2.0]), ([9], [1.0]), ([1, 2], [1.0]), ([], []), ([4, 2], [4.0, 2.0])):
            writer.write({"x/indices": np.array(places, np.int64), "x/values": np.array(values, np.float32)})
    feature = bushel.Feature(dtype="float32", shape=(5,), encoding="sparse")
    bushel.data.schema.write_sidecar(path, bushel.Schema.of(x=feature))
    (block,) = bushel.sources.records(path).read(0, None)
    assert block.rows.tolist() == [0, 3, 4]
    assert back(block.columns["x"]).toarray().tolist() == [[1, 0, 0, 2, 0], [0] * 5, [0, 0, 2, 0, 4]]
    assert [(bad.row, bad.reason) for bad in block.refused] == [
        (1, "x: indices must be at least 0 and below 5"),
        (2, "x: a record must have as many indices as values"),
    ]
