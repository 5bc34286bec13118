"""Names of files: different texts are different files on every file system."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel
from bushel.storage.file_names import FileNames, is_plain_name, name_each, plain_name

FILE_SYSTEMS: dict[str, Callable[[str], str]] = {
    "ext4": lambda name: name,
    "ext4 with casefold": lambda name: unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold()),
    "APFS": lambda name: unicodedata.normalize("NFD", name.casefold()),
    "HFS+": lambda name: unicodedata.normalize("NFD", name).lower(),
    "NTFS": lambda name: name.upper().rstrip(". "),
    "NFKC, as some shares": lambda name: unicodedata.normalize("NFKC", name).lower(),
}

PAIRS = [
    ("x/y", "x__y"),
    ("x/y", "x_y"),
    ("q", " q"),
    ("q", "q."),
    ("q", "Q"),
    ("straße", "STRASSE"),
    ("é", "e\u0301"),
    ("ﬁ", "fi"),
    ("a\u200db", "ab"),
    ("a", "a~0"),
    ("a~1", "a\uff5e1"),
    ("\u0131", "i"),
    ("x" * 300, "x" * 301),
    ("..", "."),
    ("", "_"),
    ("con", "_con"),
    ("a\0b", "a\nb"),
]
texts = st.one_of(
    st.text(max_size=8),
    st.text("aAäÄ\uff41~0\uff111./ _", max_size=5),
    st.sampled_from([text for pair in PAIRS for text in pair]),
    st.text(min_size=100, max_size=400),
)


def assert_apart(names: list[str]) -> None:
    for system, seen_as in FILE_SYSTEMS.items():
        assert len({seen_as(name) for name in names}) == len(names), (system, names)


def assert_fits(name: str) -> None:
    assert "/" not in name
    assert "\0" not in name
    assert not name.startswith(".")
    assert name == name.strip()
    assert 0 < len(name.encode()) <= 255
    assert len(unicodedata.normalize("NFD", name)) <= 255


@pytest.mark.parametrize("pair", PAIRS)
def test_two_texts_that_some_system_takes_for_one_are_two_files(pair):
    assert_apart(list(name_each(pair).values()))


@given(st.lists(texts, max_size=12, unique=True))
def test_different_texts_are_different_files_on_every_file_system(given):
    names = list(name_each(given).values())
    assert_apart(names)
    for name in names:
        assert_fits(name)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), texts, st.sampled_from([".png", ".txt", ".JPG"])), max_size=12))
def test_even_equal_texts_are_different_files(given):
    names = FileNames((folder, text) for folder, text, _ in given)
    made = [
        f"{folder}/{names.name(text, number, folder=folder, suffix=suffix)}"
        for number, (folder, text, suffix) in enumerate(given)
    ]
    assert_apart(made)


@given(texts)
def test_a_plain_name_stays_as_it_is(text):
    assert plain_name(plain_name(text)) == plain_name(text)


def test_names_that_meet_nothing_are_kept():
    names = ["IMG_0001", "Setosa", "wild dog", "éclair", "v1.2", "日本"]
    assert list(name_each(names).values()) == names
    assert all(map(is_plain_name, names))


def test_names_that_the_folder_has_already_are_not_given():
    assert name_each(["_Exporting", "a"], taken=["_exporting"]) == {"_Exporting": "_Exporting~0", "a": "a"}


@pytest.mark.parametrize(
    "name", ["../up", "/abs", "a/b", "", ".", "..", "a\\b", "a\n", "\u202e", "x" * 200, "nul", "a\0"]
)
def test_what_cannot_be_the_name_of_a_file_is_not_plain(name):
    assert not is_plain_name(name)


@pytest.mark.parametrize("other", ["Train", "TRAIN", "train."])
def test_splits_whose_shards_would_be_one_file_are_refused(tmp_path, other):
    (tmp_path / "rows.csv").write_text(f"x,part\n1,train\n2,{other}\n3,val\n")
    with pytest.raises(bushel.BushelError, match=r"the splits '.*' and '.*' would have the same files where upper"):
        bushel.build(tmp_path / "rows.csv", tmp_path / "out", split="part")
    assert not (tmp_path / "out").exists()
