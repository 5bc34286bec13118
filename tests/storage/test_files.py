import os
from pathlib import Path

import pytest

from bushel.errors import FileProblem
from bushel.storage import list_files, natural_order, write_whole


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"x")


def test_files_of_a_pattern_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    touch(tmp_path, "part-10", "part-9", "part-1")
    found = list_files(str(tmp_path / "part-*"))
    assert [path.name for path in found] == ["part-1", "part-9", "part-10"]


def test_a_folder_gives_its_data_and_not_what_stands_beside_it(tmp_path: Path) -> None:
    touch(tmp_path, "b", "a", "a.schema.json", "dataset.json", ".hidden", "_quarantine.jsonl")
    (tmp_path / "_index").mkdir()
    assert [path.name for path in list_files(tmp_path)] == ["a", "b"]


def test_paths_keep_the_order_given(tmp_path: Path) -> None:
    touch(tmp_path, "a", "b")
    assert [path.name for path in list_files([tmp_path / "b", str(tmp_path / "a")])] == ["b", "a"]


def test_a_file_whose_name_looks_like_a_pattern_is_found_by_its_name(tmp_path: Path) -> None:
    touch(tmp_path, "x[1].tfrecord")
    assert list_files(tmp_path / "x[1].tfrecord") == [tmp_path / "x[1].tfrecord"]


def test_a_missing_file_offers_one_with_a_like_name(tmp_path: Path) -> None:
    touch(tmp_path, "train.tfrecord")
    with pytest.raises(FileProblem) as caught:
        list_files(tmp_path / "trian.tfrecord")
    assert str(caught.value).splitlines() == [
        f"{tmp_path / 'trian.tfrecord'}: there is no such file",
        f"  Did you mean {tmp_path / 'train.tfrecord'}?",
    ]


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="There is no folder .*nowhere either"):
        list_files(tmp_path / "nowhere" / "a.tfrecord")


def test_a_pattern_that_matches_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="no file matches this pattern"):
        list_files(tmp_path / "*.tfrecord")


def test_an_empty_folder_and_one_of_folders_say_so(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="there are no files in this folder$"):
        list_files(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(FileProblem, match="there are no files in this folder, only folders: cat\n  Raw data becomes"):
        list_files(tmp_path)


def test_no_paths_are_a_wrong_argument() -> None:
    with pytest.raises(ValueError, match="paths must name at least one file, got none"):
        list_files([])


def test_natural_order_compares_numbers_as_numbers() -> None:
    names = ["s-2-of-10", "s-10-of-10", "s-1-of-10"]
    assert sorted(map(Path, names), key=natural_order) == [Path("s-1-of-10"), Path("s-2-of-10"), Path("s-10-of-10")]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError), write_whole(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"before"
    with write_whole(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert os.listdir(tmp_path) == ["a"]  # noqa: PTH208


def test_two_writers_of_one_file_do_not_share_a_temporary_one(tmp_path):
    from bushel.storage import temporary_path, write_whole

    with write_whole(tmp_path / "a") as one:
        with write_whole(tmp_path / "a") as other:  # a task that runs twice, on two machines with equal process ids
            other.write(b"whole")
        one.write(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert temporary_path(tmp_path / "a") != temporary_path(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
