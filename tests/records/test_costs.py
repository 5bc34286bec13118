"""What features cost, and what would be saved: each kind of waste is told, and what is well stored is not."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import write_records

import bushel
from bushel import Feature, Schema, Writer, costs
from bushel import transforms as t
from bushel.data.columns import BytesColumn
from bushel.errors import SchemaMismatch

GENERATOR = np.random.default_rng(0)


def write(path: Path, columns: dict, **features: Feature) -> Path:
    with Writer(path, schema=Schema(features=features) if features else None) as writer:
        writer.write_batch(columns)
    return path


def normal(*shape: int) -> np.ndarray:
    return GENERATOR.normal(size=shape).astype(np.float32)


def advice(path: Path, **options: object) -> dict[str, str]:
    return {saving.feature: saving.what for saving in costs(path, **options).savings}


def test_each_feature_has_its_bytes_and_its_share(tmp_path):
    path = write(tmp_path / "a.tfrecord", {"x": normal(50, 100), "n": np.arange(50)})
    found = costs(path)
    by_name = {cost.feature: cost for cost in found.features}
    assert [cost.feature for cost in found.features] == ["x", "n"]
    assert 400 < by_name["x"].bytes < 420
    assert by_name["x"].share + by_name["n"].share == pytest.approx(1)
    assert found.savings == []
    exact = costs(path, schema=bushel.info(path).schema)
    assert exact.features == found.features


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_that_are_really_bytes_are_told(tmp_path, dtype):
    pixels = GENERATOR.integers(0, 256, (40, 8, 8)).astype(dtype)
    build = {"image": pixels, "scaled": pixels / np.array(255, dtype), "real": normal(40, 64)}
    bushel.build({**build, "label": np.arange(40) % 2}, tmp_path / "out")
    found = costs(tmp_path / "out")
    said = {saving.feature: saving for saving in found.savings}
    assert said["image"].what == "float32 that are whole numbers of 0 to 255"
    assert said["scaled"].what == "float32 that are uint8 divided by 255"
    assert "real" not in said
    spent = {cost.feature: cost.bytes for cost in found.features}
    assert said["image"].bytes == pytest.approx(spent["image"] - 64)


def test_raw_float64_pixels_are_told(tmp_path):
    pixels = GENERATOR.integers(0, 256, (40, 8, 8)).astype(np.float64)
    feature = Feature(dtype="float64", shape=(8, 8), encoding="raw")
    path = write(tmp_path / "a.tfrecord", {"image": pixels}, image=feature)
    assert advice(path) == {"image": "float64 that are whole numbers of 0 to 255"}
    assert costs(path).savings[0].bytes == pytest.approx(7 * 64, abs=30)


def test_vectors_that_are_mostly_zeros_are_told(tmp_path):
    dense = np.where(GENERATOR.random((60, 200)) < 0.03, normal(60, 200), np.float32(0))
    path = write(tmp_path / "a.tfrecord", {"terms": dense, "other": normal(60, 20)})
    found = costs(path).savings
    assert [saving.feature for saving in found] == ["terms"]
    assert found[0].what == "97% of its values are 0"
    assert 700 < found[0].bytes < 800


def test_a_vector_stored_sparse_is_as_small_as_was_said_and_reads_the_same(tmp_path):
    dense = np.where(GENERATOR.random((200, 300)) < 0.03, normal(200, 300), np.float32(0))
    source = {"terms": dense, "number": np.arange(200)}
    for name, chain in (("dense", []), ("sparse", [t.sparse("terms")])):
        bushel.build(bushel.sources.arrays(source), tmp_path / name, transforms=chain)
    before, after = costs(tmp_path / "dense"), costs(tmp_path / "sparse")
    assert before.bytes - after.bytes == pytest.approx(before.savings[0].bytes, rel=0.1)
    assert after.savings == []
    columns = bushel.open(tmp_path / "sparse")["train"][:]
    np.testing.assert_array_equal(columns["terms"].to_dense(), dense[columns["number"]])


def test_vectors_become_sparse_by_sample_as_by_column():
    dense = np.array([[0, 0, 2.5], [0, 0, 0], [1, np.nan, 0]], np.float32)
    column = t.sparse("x").apply_columns({"x": dense})["x"]
    rows = [t.sparse("x").apply({"x": row}, t.Draw(0, 0, 0))["x"] for row in dense]
    for one, other in zip(column, rows, strict=True):
        np.testing.assert_array_equal(one.to_dense(), other.to_dense())
    with pytest.raises(SchemaMismatch, match=r"expected a vector, got an array of shape \(2, 2\) - at x"):
        t.sparse("x").apply({"x": np.eye(2)}, t.Draw(0, 0, 0))


def test_a_feature_that_is_the_same_everywhere_is_told(tmp_path):
    columns = {
        "camera": BytesColumn.of(["a long name of one camera"] * 30),
        "size": np.full((30, 4), 7),
        "x": normal(30),
    }
    path = write(tmp_path / "a.tfrecord", columns)
    assert advice(path) == dict.fromkeys(["camera", "size"], "constant")


def test_sizes_that_a_build_writes_beside_an_image_are_not_advised_against(tmp_path):
    import io

    from PIL import Image

    data = io.BytesIO()
    Image.new("RGB", (16, 16)).save(data, "PNG")
    rows = [{"image": data.getvalue(), "image/height": 16, "image/width": 16, "x": [float(n)]} for n in range(30)]
    path = tmp_path / "a.tfrecord"
    with bushel.Writer(path) as writer:
        for row in rows:
            writer.write(row)
    assert not {"image/height", "image/width"} & set(advice(path))


def test_integers_that_fit_fewer_bytes_are_told(tmp_path):
    columns = {
        "bytes": GENERATOR.integers(0, 256, (30, 100)),
        "negative": GENERATOR.integers(-100, 100, (30, 100)),
        "small": GENERATOR.integers(0, 100, (30, 100)),
        "few": GENERATOR.integers(-5, 5, 30),
    }
    path = write(tmp_path / "a.tfrecord", columns)
    assert set(advice(path)) == {"bytes", "negative"}
    assert advice(path)["bytes"] == "int64 of 0 to 255, at 1.7 bytes each"  # the name and lengths included
    found = {saving.feature: saving for saving in costs(path).savings}
    assert found["bytes"].how == "transforms.cast(..., 'uint8')"
    assert found["negative"].how == "transforms.cast(..., 'int8')"
    assert found["negative"].bytes > 400  # a negative number takes ten bytes


def test_images_far_larger_than_they_are_read_are_told(tmp_path):
    def jpeg(side: int) -> bytes:
        out = io.BytesIO()
        Image.fromarray(GENERATOR.integers(0, 256, (side, side, 3)).astype(np.uint8)).save(out, "JPEG")
        return out.getvalue()

    path = write(tmp_path / "a.tfrecord", {"image": BytesColumn.of([jpeg(256) for _ in range(6)])})
    assert costs(path).savings == []
    found = costs(path, read_at=(64, 64)).savings[0]
    assert found.what == "images of 256 x 256, and read at 64 x 64"
    assert found.how == "--resize 64x64"
    assert found.share == pytest.approx(1 - 1 / 16)
    large = write(tmp_path / "b.tfrecord", {"image": BytesColumn.of([jpeg(1200) for _ in range(2)])})
    assert "--read-at says" in costs(large).savings[0].what


def test_damage_and_other_bytes_are_no_hindrance(tmp_path):
    path = write(tmp_path / "a.tfrecord", {"x": normal(50, 100)})
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(bytes(data))
    assert costs(path).looked_at == 49
    write_records(tmp_path / "b.tfrecord", [b"\xff no example"])
    assert costs(tmp_path / "b.tfrecord").features == []
