import msgspec
import pytest

from bushel.data.samples import feature_of
from bushel.data.schema import Feature, Schema, needs_sidecar, read_sidecar, sidecar_path, write_sidecar
from bushel.errors import FormatError, SchemaMismatch

SCHEMA = Schema.of(
    x=Feature(dtype="float32", shape=(2, 3)),
    ids=Feature(dtype="int64", shape=(None,), required=False),
    raw=Feature(dtype="uint8", shape=(4,)),
    steps=Feature(dtype="bytes", sequence=True),
    cast=Feature(dtype="int64", cast=True),
)


def test_a_schema_comes_through_json_as_it_was() -> None:
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA


def test_json_names_its_format() -> None:
    assert msgspec.json.decode(SCHEMA.to_json())["format"] == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "not a schema: Input data was truncated"),
        (b"[]", "not a schema: Expected `object`, got `array`"),
        (b"{}", "schema of format None; this bushel reads format 1"),
        (b'{"format": 2, "features": {}}', "schema of format 2; this bushel reads format 1"),
        (b'{"format": 1}', "not a schema: Object missing required field `features`"),
        (
            b'{"format": 1, "features": {"x": {"dtype": "int64", "shape": ["y"]}}}',
            "not a schema: Expected `int | null`, got `str` - at `$.features[...].shape[0]`",
        ),
        (
            b'{"format": 1, "features": {"x": {"dtype": "int63"}}}',
            "not a schema: dtype must be one of bytes, str, bool, int8",
        ),
    ],
    ids=["empty", "array", "no format", "format 2", "no features", "bad shape", "bad dtype"],
)
def test_bad_json_is_an_error_that_names_the_file_and_the_place(text: bytes, what: str) -> None:
    with pytest.raises(FormatError) as caught:
        Schema.from_json(text, path="a.schema.json")
    assert str(caught.value).startswith(f"a.schema.json: {what}")


def test_other_dtypes_than_those_of_lists_are_stored_raw() -> None:
    assert Feature(dtype="float64").encoding == "raw"
    assert Feature(dtype="float32").encoding == "list"
    assert Feature(dtype="float32", encoding="raw").encoding == "raw"


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"dtype": "int63"}, "dtype must be one of bytes, str, bool, int8"),
        ({"dtype": "bytes", "encoding": "raw"}, "dtype of a raw feature must be one of bool"),
        ({"dtype": "int64", "shape": (-1,)}, "shape must not have sizes below 0, got \\(-1,\\)"),
        ({"dtype": "int64", "shape": (None, None)}, "more than one size that varies"),
    ],
)
def test_a_feature_that_cannot_be_is_refused(fields: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Feature(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        (Feature(dtype="float32", shape=(64,)), "float32[64]"),
        (Feature(dtype="int64"), "int64"),
        (Feature(dtype="int64", shape=(None, 2), required=False), "int64[?,2], optional"),
        (Feature(dtype="bytes", encoding="jpeg"), "bytes (jpeg)"),
        (Feature(dtype="bytes", sequence=True), "sequence of bytes"),
        (Feature(dtype="float64", shape=(3,)), "float64[3] (raw)"),
    ],
)
def test_a_feature_describes_itself(feature: Feature, words: str) -> None:
    assert feature.describe() == words


def test_differences_explain_each_change_and_guess_at_a_new_name() -> None:
    one = Schema.of(label=Feature(dtype="int64"), x=Feature(dtype="float32", shape=(2,)))
    other = Schema.of(labels=Feature(dtype="int64"), x=Feature(dtype="float32", shape=(3,), required=False))
    assert [str(difference) for difference in one.differences(other)] == [
        "label: is missing; renamed to 'labels'?",
        "labels: is extra; renamed from 'label'?",
        "x: shape is (2,), the other's is (3,)",
        "x: required is True, the other's is False",
    ]
    assert one.differences(one) == []


def test_a_difference_in_the_message_is_told() -> None:
    one = Schema.of(s=Feature(dtype="int64", sequence=True))
    other = Schema.of(s=Feature(dtype="int64"))
    assert str(one.differences(other)[0]) == "(record): is sequence_example, the other is example"


def test_selecting_keeps_only_what_is_named() -> None:
    assert list(SCHEMA.select(["ids", "x"])) == ["ids", "x"]


def test_a_sidecar_is_found_beside_its_file(tmp_path) -> None:
    path = tmp_path / "a.tfrecord"
    assert read_sidecar(path) is None
    write_sidecar(path, SCHEMA)
    assert sidecar_path(path).name == "a.tfrecord.schema.json"
    assert read_sidecar(path) == SCHEMA


def test_only_what_a_plain_file_cannot_tell_needs_a_sidecar() -> None:
    assert not needs_sidecar(Schema.of(x=Feature(dtype="int64", shape=(None,)), y=Feature(dtype="float32", shape=(5,))))
    assert needs_sidecar(Schema.of(x=Feature(dtype="int64", shape=(2, 2))))
    assert needs_sidecar(Schema.of(x=Feature(dtype="float64")))


def test_a_first_value_makes_its_feature() -> None:
    assert feature_of(3, name="x") == Feature(dtype="int64")
    assert feature_of([1.0, 2.0], name="x") == Feature(dtype="float32", shape=(2,))
    assert feature_of("é", name="x") == Feature(dtype="str")
    assert feature_of([b"a", b"b"], name="x") == Feature(dtype="bytes", shape=(2,))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "None cannot be stored - at x"),
        (["a", 1], "text and numbers are mixed in one list - at x"),
        (1j, "values of dtype complex128 cannot be stored - at x"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named(value: object, what: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        feature_of(value, name="x")
    assert str(caught.value).splitlines()[0] == what
