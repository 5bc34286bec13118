"""Every sample is checked against schema and constraints before it is written."""

from dataclasses import dataclass

import numpy as np
import pytest
from making import Numbers, digests, numbers_in

import bushel
from bushel import Constraint, Feature, Run, build
from bushel import transforms as t
from bushel.building.output.journal import read_quarantine
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.schema import Schema
from bushel.errors import BushelError, FileProblem, MissingName


def reasons(source, out, **options):
    """Why samples were refused, by key."""
    build(source, out, run=Run(workers=1), **options)
    return {entry.key: (entry.stage, entry.reason) for entry in read_quarantine(out / "_quarantine.jsonl")}


def with_x(values) -> Numbers:
    return Numbers(len(values), changes={"x": np.asarray(values)})


def test_numbers_that_are_not_finite_are_refused_unless_allowed(tmp_path):
    values = np.zeros((30, 2), np.float32)
    values[4, 1] = np.nan
    values[9, 0] = -np.inf
    help = "(constraints.x.finite = false allows it)"
    assert reasons(with_x(values), tmp_path / "refused") == {
        "n4": ("schema", f"x is nan {help}"),
        "n9": ("schema", f"x is -inf {help}"),
    }
    assert reasons(with_x(values), tmp_path / "allowed", constraints={"x": Constraint(finite=False)}) == {}


def test_numbers_out_of_range_are_refused(tmp_path):
    found = reasons(Numbers(20), tmp_path / "out", constraints={"number": Constraint(min=1, max=18)})
    assert found == {"n0": ("schema", "number is 0, below 1"), "n19": ("schema", "number is 19, above 18")}


def test_values_that_are_not_in_the_vocabulary_are_refused(tmp_path):
    words = Numbers(20, changes={"word": BytesColumn.of(["yes", "no"] * 9 + ["maybe", "no"])})
    found = reasons(words, tmp_path / "text", constraints={"word": Constraint(values=["yes", "no"])})
    assert found == {"n18": ("schema", "word is 'maybe', which is none of the values allowed")}
    found = reasons(Numbers(12), tmp_path / "int", constraints={"number": Constraint(values=list(range(11)))})
    assert found == {"n11": ("schema", "number is 11, which is none of the values allowed")}


def test_empty_text_is_refused_where_it_may_not_be(tmp_path):
    found = reasons(Numbers(60), tmp_path / "out", constraints={"text": Constraint(non_empty=True)})
    assert found == {"n0": ("schema", "text is empty"), "n50": ("schema", "text is empty")}


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    texts = [b"fine"] * 10
    texts[3], texts[4], texts[5] = b"\xff", "é".encode()[:1], "é".encode()[1:]
    found = reasons(Numbers(10, changes={"text": BytesColumn.of(texts)}), tmp_path / "out")
    assert found == {f"n{n}": ("schema", "text is not UTF-8") for n in (3, 4, 5)}


def test_integers_that_do_not_fit_are_refused_by_row(tmp_path):
    values = np.arange(40, dtype=np.uint64)
    values[[7, 33]] = 2**63
    found = reasons(Numbers(40, changes={"number": values}), tmp_path / "out")
    assert {key: stage for key, (stage, _) in found.items()} == {"n7": "schema", "n33": "schema"}
    assert found["n7"][1] == "9223372036854775808 does not fit int64 - at number[0]"
    assert sorted(numbers_in(tmp_path / "out")) == sorted({*range(40)} - {7, 33})


def test_a_row_of_another_shape_is_refused(tmp_path):
    lengths = np.full(20, 2)
    lengths[11] = 3
    splits = np.concatenate([[0], np.cumsum(lengths)])
    found = reasons(Numbers(20, changes={"x": Ragged(np.zeros(41, np.float32), splits)}), tmp_path / "out")
    assert found == {"n11": ("schema", "expected 2 values, got 3 - at x[0]")}


def test_a_required_feature_that_is_missing_is_refused(tmp_path):
    present = np.ones(20, bool)
    present[5] = False
    values = Ragged(np.arange(19), np.concatenate([[0], np.cumsum(present)]), present)
    found = reasons(Numbers(20, changes={"number": values}), tmp_path / "out")
    assert list(found) == ["n5"]
    assert found["n5"][1].startswith("the feature is required but the record does not have it")


def test_an_empty_image_is_refused(tmp_path):
    class Images(Numbers):
        def schema(self):
            return Schema(features=super().schema().features | {"text": Feature(dtype="bytes", encoding="jpeg")})

    found = reasons(Images(60), tmp_path / "out")
    assert found == {"n0": ("schema", "text is empty"), "n50": ("schema", "text is empty")}


def test_a_record_that_no_reader_could_take_is_refused_and_the_others_are_not():
    from bushel.building.record_encoding import BlockEncoder
    from bushel.sources import Block

    schema = Schema(features={"x": Feature(dtype="bytes")})
    ends = np.array([0, 5, 5 + (1 << 31), 10 + (1 << 31)])
    block = Block(np.arange(3), {"x": BytesColumn(ends, np.zeros(ends[-1], np.uint8))})
    records, refused, *_ = BlockEncoder(schema, schema).encode(block, np.zeros(3, np.uint64), np.ones(3, bool))
    assert records is not None
    assert records.rows.tolist() == [0, 2]
    assert [(bad.row, bad.stage, bad.reason) for bad in refused] == [(1, "schema", "the record is larger than 2 GiB")]


def test_a_constraint_on_a_feature_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(MissingName, match="no feature 'numbr'; did you mean 'number'"):
        build(Numbers(20), tmp_path / "out", constraints={"numbr": Constraint(min=1)})


def test_narrowing_to_float32_is_said_with_the_largest_error(tmp_path):
    values = np.zeros((20, 2))
    values[3, 0] = 0.1
    built = build(with_x(values), tmp_path / "out", run=Run(workers=1))
    assert built.narrowed == {"x": pytest.approx(abs(0.1 - float(np.float32(0.1))))}
    assert built.manifest.narrowed == built.narrowed


@dataclass(frozen=True)
class AddNoise:
    """A transform that draws, makes a new feature, and fails on some samples."""

    fails_on: int = -1

    def apply(self, sample, draw):
        if sample["number"] == self.fails_on:
            raise ZeroDivisionError("cannot do this one")
        noise = draw.generator().normal(size=3).astype(np.float32)
        kept = {name: value for name, value in sample.items() if name != "text"}
        return {**kept, "x": sample["x"] * 2, "noise": noise, "words": ["a", "b"] * (sample["number"] % 3)}


@pytest.mark.parametrize("reads", ["random", "sequence"])
def test_transforms_change_samples_the_same_way_on_any_number_of_workers(tmp_path, reads):
    for workers in (1, 2):
        build(
            Numbers(600, reads, 3),
            tmp_path / str(workers),
            transforms=[AddNoise()],
            shards=5,
            run=Run(workers=workers),
        )
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    manifest = bushel.read_manifest(tmp_path / "1")
    assert {name: feature.describe() for name, feature in manifest.schema.features.items()} == {
        "label": "int64",
        "noise": "float32[3]",
        "number": "int64",
        "words": "str[?]",
        "x": "float32[2]",
    }
    for sample in bushel.scan(sorted((tmp_path / "1").glob("*.tfrecord")), schema=manifest.schema):
        assert sample["x"].tolist() == [sample["number"] * 2, sample["number"]]
        assert list(sample["words"]) == ["a", "b"] * (sample["number"] % 3)


def test_a_sample_that_a_transform_fails_on_is_refused(tmp_path):
    found = reasons(Numbers(100), tmp_path / "out", transforms=[AddNoise(fails_on=42)])
    assert found == {"n42": ("transform", "ZeroDivisionError: cannot do this one")}


def test_a_refusal_is_one_line_in_the_words_of_the_error(tmp_path):
    rows = [{"text": "a b", "n": n} if n else {"n": n} for n in range(30)]
    found = reasons(rows, tmp_path / "out", transforms=[t.tokenise(length=2)])
    assert list(found.values()) == [("transform", "transform: no feature 'text'")]


def test_a_file_that_transforms_lack_is_named_by_itself(tmp_path):
    with pytest.raises(FileProblem, match=r"^nope.txt: there is no such file of word vectors"):
        build([{"text": "a"}] * 30, tmp_path / "out", transforms=[t.embed(file="nope.txt")])


def test_a_transform_that_fails_on_every_sample_is_an_error(tmp_path):
    class Broken:
        def apply(self, sample, draw):
            raise KeyError("nope")

    with pytest.raises(BushelError, match="transforms fail on every sample probed: KeyError: 'nope'"):
        build(Numbers(100), tmp_path / "out", transforms=[Broken()])


def test_pixels_that_a_transform_makes_are_stored_raw_and_the_recipe_makes_them_again(tmp_path):
    from PIL import Image

    from bushel import transforms as t

    rng = np.random.default_rng(0)
    for number in range(20):
        path = tmp_path / "photos" / f"class-{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (16 + number, 20, 3), np.uint8)).save(path)
    steps = [t.decode_image("image"), t.resize("image", 8, 8)]
    built = build(tmp_path / "photos", tmp_path / "out", transforms=steps, run=Run(workers=1))
    assert built.manifest.schema["image"].describe() == "uint8[8,8,3] (raw)"
    bushel.build_recipe(tmp_path / "out" / "recipe.toml", tmp_path / "again", run=Run(workers=2))
    assert digests(tmp_path / "again") == digests(tmp_path / "out")


def test_images_are_resized_and_encoded_again_in_their_own_format(tmp_path):
    import io

    from PIL import Image

    from bushel import transforms as t

    rng = np.random.default_rng(0)
    for name, mode, shape in (("a.jpg", "RGB", (40, 30, 3)), ("b.png", "L", (20, 20)), ("c.png", "RGBA", (9, 50, 4))):
        path = tmp_path / "photos" / "class" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, shape, np.uint8), mode).save(path)
    steps = [t.resize_encoded("image", 12, 10)]
    build(tmp_path / "photos", tmp_path / "out", transforms=steps, run=Run(workers=1))
    found = {}
    for sample in bushel.scan(sorted((tmp_path / "out").glob("*.tfrecord"))):
        image = Image.open(io.BytesIO(sample["image"]))
        found[sample["key"].decode()] = (image.format, image.mode, image.size)
        assert (sample["image/height"], sample["image/width"]) == (12, 10)
    assert found == {
        "class/a.jpg": ("JPEG", "RGB", (10, 12)),
        "class/b.png": ("PNG", "L", (10, 12)),
        "class/c.png": ("PNG", "RGBA", (10, 12)),
    }


def test_pixels_of_several_colour_modes_are_told_and_one_mode_is_built(tmp_path):
    @dataclass
    class Pixels:
        def apply(self, sample, draw):
            return {**sample, "image": np.zeros((4, 4, 1 + 2 * (sample["number"] % 2)), np.uint8)}

    said = r"rows may differ in their first size only, got \[4, 4, 1\] and \[4, 4, 3\] - at image"
    with pytest.raises(BushelError, match=said):
        build(Numbers(30), tmp_path / "a", transforms=[Pixels()], run=Run(workers=1))
    build(Numbers(30), tmp_path / "b", transforms=[Pixels(), t.convert_colour("image", 3)], run=Run(workers=1))
    assert bushel.open(tmp_path / "b")["train"][0]["image"].shape == (4, 4, 3)
