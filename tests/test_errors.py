import pickle

import pytest

from bushel.errors import (
    BushelError,
    CorruptRecord,
    Fault,
    FileProblem,
    FormatError,
    MissingName,
    SchemaMismatch,
    fault_words,
    missing_package,
    nearest,
    readable_size,
)
from bushel.records.index import StaleIndex

ERRORS = [
    BushelError("what is wrong", help=["do this", "or that"]),
    CorruptRecord("a.tfrecord", record=3, offset=99, fault=Fault.DATA_CRC),
    CorruptRecord("a.tfrecord", record=3, offset=99, fault=Fault.WRONG_KIND, feature="x"),
    FileProblem("a.tfrecord", "is empty: 0 bytes", help=["Was its writer closed?"]),
    FormatError("dataset.json", "not a manifest"),
    SchemaMismatch("expected int64, got float32", at="img/boxes[2]"),
    MissingName("feature", "lable", ["label", "x"], where="a.tfrecord"),
    StaleIndex("a.tfrecord", "has changed since it was indexed"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_comes_through_pickle_as_it_was(error: BushelError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
    assert isinstance(again, BushelError)


def test_a_corrupt_record_says_file_record_byte_and_what() -> None:
    error = CorruptRecord("train-00003-of-00016.tfrecord", record=1041, offset=73_400_320, fault=Fault.DATA_CRC)
    assert str(error).splitlines() == [
        "train-00003-of-00016.tfrecord: record 1041 at byte 73400320: checksum of the data does not match",
        '  The 1041 records before it are intact, and so is its length: on_fault="skip" reads past it.',
        "  To keep every intact record: bushel repair train-00003-of-00016.tfrecord OUT",
    ]
    assert (error.path, error.record, error.offset, error.fault) == (
        "train-00003-of-00016.tfrecord",
        1041,
        73_400_320,
        Fault.DATA_CRC,
    )


def test_the_records_before_a_corrupt_one_are_counted_as_people_count() -> None:
    help = [CorruptRecord("f", record=record, offset=9, fault=Fault.TRUNCATED_DATA).help[0] for record in (0, 1, 2)]
    assert help == [
        "Was the writer closed?",
        "The record before it is intact. Was the writer closed?",
        "The 2 records before it are intact. Was the writer closed?",
    ]


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE])
def test_every_fault_has_words_of_its_own_and_at_most_two_lines_of_help(fault: Fault) -> None:
    lines = str(CorruptRecord("f", record=0, offset=0, fault=fault)).splitlines()
    assert lines[0] == f"f: record 0 at byte 0: {fault_words(fault)}"
    assert 2 <= len(lines) <= 3
    assert all(line.startswith("  ") for line in lines[1:])
    assert [other for other in Fault if fault_words(other) == fault_words(fault)] == [fault]


def test_a_fault_of_one_feature_names_it() -> None:
    error = CorruptRecord("f", record=2, offset=30, fault=Fault.WRONG_KIND, feature="x")
    assert error.message == (
        "f: record 2 at byte 30: feature 'x': holds another kind of values than the records before it"
    )
    assert error.feature == "x"


def test_a_schema_mismatch_says_the_way_to_the_value() -> None:
    error = SchemaMismatch("expected int64, got float32", at="img_000731/boxes[2]")
    assert str(error) == "expected int64, got float32 - at img_000731/boxes[2]"
    assert isinstance(error, ValueError)
    assert error.at == "img_000731/boxes[2]"


def test_a_missing_name_offers_the_nearest_one_and_lists_a_dozen() -> None:
    error = MissingName("feature", "lable", ["label", *(f"x{i}" for i in range(20))], where="a.tfrecord")
    assert str(error).splitlines()[0] == "a.tfrecord: no feature 'lable'; did you mean 'label'?"
    assert str(error).endswith("and 9 more")
    assert isinstance(error, LookupError)
    assert "There is no split at all." in str(MissingName("split", "train", [], where="d"))


def test_help_never_has_more_than_two_lines() -> None:
    assert str(BushelError("wrong", help=["one", "two", "three"])) == "wrong\n  one\n  two"


def test_file_problems_are_os_errors_and_format_errors_are_value_errors() -> None:
    assert isinstance(FileProblem("f", "gone"), OSError)
    assert isinstance(FormatError("f", "bad"), ValueError)
    assert str(FileProblem("f", "gone")) == "f: gone"


def test_a_missing_package_comes_with_the_command_that_installs_it() -> None:
    error = missing_package("PyAV", extra="video", purpose="reading video")
    assert str(error) == 'reading video needs PyAV: pip install "bushel[video]"'


def test_nearest_finds_typing_errors_and_nothing_far_off() -> None:
    assert nearest("labl", ["label", "image"]) == "label"
    assert nearest("zzz", ["label", "image"]) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (2**31, "2.0 GiB"),
        (2**52, "4096.0 TiB"),
    ],
)
def test_sizes_read_as_people_write_them(size: int, text: str) -> None:
    assert readable_size(size) == text


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("To replace it: --overwrite", "To replace it: run=Run(overwrite=True)"),
        ("Leave it out (--columns A,B)", "Leave it out (columns=[A, B])"),
        ("Split by it: --split 80/10/10 --group p", 'Split by it: split="80/10/10", group="p"'),
        ("With a larger --max-bad it continues.", "With a larger max_bad of Run it continues."),
        ("Start one with `ray start --head`.", "Start one with `ray start --head`."),
        ("bushel index x --label y", "bushel index x --label y"),
    ],
)
def test_hints_name_options_as_python_has_them(hint: str, said: str) -> None:
    assert str(BushelError("wrong", help=[hint])) == f"wrong\n  {said}"
    assert BushelError("wrong", help=[hint]).on_command_line == f"wrong\n  {hint}"


def test_the_image_itself_is_offered_for_image_and_not_its_width() -> None:
    names = ["image/encoded", "image/format", "image/height", "image/width", "label"]
    assert "did you mean 'image/encoded'?" in str(MissingName("feature", "image", names, where="data"))
    assert "did you mean 'image/width'?" in str(MissingName("feature", "image/widht", names, where="data"))
