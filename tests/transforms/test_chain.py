"""Chains of transforms: the same by sample, by columns and by rows of a batch."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

import bushel
from bushel import transforms as t
from bushel.data.columns import BytesColumn
from bushel.data.samples import sample_at
from bushel.data.schema import Feature
from bushel.pixels.codecs import encode_pixels
from bushel.spellings import AMERICAN
from bushel.transforms.by_name import BUILT_IN
from bushel.transforms.chain import Chain, Spent

FEATURES = {"x": Feature(dtype="float32", shape=(3,)), "text": Feature(dtype="str")}
COLUMNS = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "text": BytesColumn.of(["A b", "c", "D", "e f g"])}


@dataclass(frozen=True)
class Fails:
    """Fails on the rows whose first number is given."""

    on: tuple[int, ...]

    def apply(self, sample, draw):
        if sample["x"][0] in self.on:
            raise ValueError("cannot be used")
        return sample


def test_a_part_of_a_chain_draws_what_the_whole_draws():
    jitters = [t.jitter("x", 0.1), t.jitter("y", 0.1), t.jitter("x", 0.2)]
    sample = {"x": np.ones(3, np.float32), "y": np.ones(2, np.float32)}
    chain = Chain.of(jitters, seed=3)
    whole = chain.apply(sample, record=7)
    assert np.array_equal(chain.only({0, 2}).apply(sample, record=7)["x"], whole["x"])
    assert np.array_equal(chain.without("x").apply(sample, record=7)["y"], whole["y"])
    assert not np.array_equal(chain.apply(sample, record=8)["x"], whole["x"])


def test_rows_of_a_batch_are_what_each_sample_becomes():
    chain = Chain.of([t.clean(), t.tokenise(unit="byte", length=4), t.jitter("x", 0.1)], seed=1)
    rows = chain.apply_rows(COLUMNS, FEATURES, [5, 6, 7, 8], epoch=2)
    assert rows.kept.tolist() == [0, 1, 2, 3]
    for at, record in enumerate((5, 6, 7, 8)):
        alone = chain.apply(sample_at(COLUMNS, FEATURES, at), record=record, epoch=2)
        for name, value in alone.items():
            assert np.array_equal(rows.columns[name][at], value)


def test_columns_are_changed_at_once_or_not_at_all():
    chain = Chain.of([t.clean(), t.tokenise(unit="byte", length=2)])
    counted: Counter[str] = Counter()
    assert chain.apply_columns(COLUMNS, counted)["text"].shape == (4, 2)
    assert counted == {"texts cut to 2 tokens (text)": 2, "tokens cut off (text)": 4}
    before = Counter(counted)
    assert Chain.of([t.tokenise(unit="byte", length=2), t.clean()]).apply_columns(COLUMNS, counted) is None
    assert Chain.of([t.jitter("x", 0.1)]).apply_columns(COLUMNS, counted) is None
    assert counted == before


def test_what_is_cut_of_one_sample_is_counted_where_somebody_asks():
    chain = Chain.of([t.tokenise(unit="byte", length=2)])
    counted: Counter[str] = Counter()
    chain.apply({"text": "abcd"}, counted=counted)
    chain.apply({"text": "abcd"})
    assert counted == {"texts cut to 2 tokens (text)": 1, "tokens cut off (text)": 2}


def test_a_row_that_fails_raises_or_is_left_out():
    chain = Chain.of([Fails((3, 9))])
    with pytest.raises(ValueError, match="^cannot be used$"):
        chain.apply_rows(COLUMNS, FEATURES, range(4))
    refused = []
    rows = chain.apply_rows(COLUMNS, FEATURES, range(4), refuse=lambda at, error: refused.append((at, str(error))))
    assert refused == [(1, "cannot be used"), (3, "cannot be used")]
    assert rows.kept.tolist() == [0, 2]
    assert rows.columns["x"][:, 0].tolist() == [0, 6]


def test_an_error_of_a_custom_transform_names_the_record_and_its_file(tmp_path):
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write_batch({"x": COLUMNS["x"]})
    feed = bushel.batches(bushel.open(tmp_path / "a.tfrecord"), batch_size=2, transforms=[Fails((6,))])
    with pytest.raises(ValueError, match="^cannot be used") as caught, feed:
        list(feed)
    assert caught.value.__notes__ == [f"It is record 2 of {tmp_path / 'a.tfrecord'}."]


def test_every_transform_that_is_offered_has_a_name_in_recipes():
    offered = {name for name in dir(t) if name.islower() and isinstance(getattr(t, name), type)}
    assert offered - AMERICAN.keys() == BUILT_IN.keys()
    assert all(getattr(t, name) is kind for name, kind in BUILT_IN.items())


@dataclass(frozen=True)
class Inverted:
    """A custom transform of an image."""

    feature: str = "image"

    def apply(self, sample, draw):
        return {**sample, self.feature: 255 - sample[self.feature]}


def test_a_custom_transform_in_the_middle_is_the_only_one_that_runs_in_python():
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 6, 3), np.uint8)
    steps = [t.random_flip("image"), Inverted(), t.brightness("image"), t.center_crop("image", 4, 4)]
    spent = Spent({})
    rows = Chain.of(steps, seed=2).apply_rows({"image": images}, {}, range(5), spent=spent)
    assert spent.by_name.keys() == {"Inverted"}
    for at in range(5):
        alone = Chain.of(steps, seed=2).apply({"image": images[at]}, record=at)["image"]
        assert np.abs(rows.columns["image"][at].astype(int) - alone).max() <= 1


@dataclass(frozen=True)
class Adds:
    """Adds a number to a feature, in Python."""

    to: str
    number: int

    def apply(self, sample, draw):
        return {**sample, self.to: sample[self.to] + self.number}


DECLARED = {"age": "int32", "shade": "uint8", "weight": "float64", "hash": "uint64", "half": "float16"}


@pytest.mark.parametrize(
    "steps", [[t.decode_image("image")], [Adds("shade", 0)], [t.decode_image("image"), Adds("age", 1)]]
)
def test_a_transform_leaves_the_types_of_other_numbers_alone(steps):
    kinds = {name: "float32" if dtype.startswith("float") else "int64" for name, dtype in DECLARED.items()}
    features = {name: Feature(dtype=kinds[name], reads_as=dtype) for name, dtype in DECLARED.items()}
    columns = {name: np.array([1, 2, 3], dtype) for name, dtype in DECLARED.items()}
    images = [encode_pixels(np.full((4, 4, 3), shade, np.uint8), "png") for shade in (1, 2, 3)]
    columns["image"] = BytesColumn.of(images)
    features["image"] = Feature(dtype="bytes", encoding="png")
    found = Chain.of(steps).apply_rows(columns, features, range(3)).columns
    assert {name: str(found[name].dtype) for name in DECLARED} == DECLARED


def test_a_number_that_no_longer_fits_its_type_keeps_its_value():
    features = {"shade": Feature(dtype="int64", reads_as="uint8")}
    found = Chain.of([Adds("shade", 255)]).apply_rows({"shade": np.array([1, 2], np.uint8)}, features, range(2))
    assert found.columns["shade"].tolist() == [256, 257]
