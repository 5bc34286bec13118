import os
import time
from functools import partial
from pathlib import Path

import pytest

from bushel import storage
from bushel.errors import FileProblem
from bushel.storage import as_path, list_files, natural_order, write_whole


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


@pytest.fixture(params=["disk", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of either kind, in which every operation means the same."""
    if request.param == "disk":
        (tmp_path / "there").mkdir()
        return tmp_path / "there"
    return as_path(f"{request.getfixturevalue('bucket')}/there")


def test_a_file_that_may_be_missing_is_read_or_none(place: Path) -> None:
    assert storage.read_if_there(place / "a") is None
    (place / "a").write_bytes(b"abc")
    assert storage.read_if_there(place / "a") == b"abc"


def test_reads_come_in_order_and_their_errors_are_raised(place: Path) -> None:
    for number in range(40):
        (place / str(number)).write_bytes(b"%d" % number)
    names = [str(number) for number in range(40)]
    assert list(storage.map_reads(lambda name: (place / name).read_bytes(), names, place)) == [
        n.encode() for n in names
    ]
    with pytest.raises(FileNotFoundError):
        list(storage.map_reads(lambda name: (place / name).read_bytes(), ["0", "missing"], place))


def test_parts_of_files_are_found_on_this_machine(place: Path, tmp_path: Path) -> None:
    (place / "a").write_bytes(bytes(range(100)))
    (place / "b").write_bytes(b"z" * 10)
    extents = [(place / "a", 10, 5), (place / "b", 0, 10), (place / "a", 99, 1)]
    here = storage.fetch_extents(extents, tmp_path / "fetched")
    found = [path.read_bytes()[start : start + size] for (path, start), (_, _, size) in zip(here, extents, strict=True)]
    assert found == [bytes(range(10, 15)), b"z" * 10, b"c"]


def test_a_new_folder_is_another_each_time_and_takes_files(place: Path) -> None:
    one, other = storage.new_folder(place), storage.new_folder(place)
    assert one != other
    assert one.parent == other.parent == place
    with storage.write_whole(one / "x") as file:
        file.write(b"1")
    assert (one / "x").read_bytes() == b"1"


def test_a_machine_that_sees_the_same_files_reports_no_fault(place: Path) -> None:
    (place / "a.csv").write_bytes(b"abc")
    seen = storage.witnesses([place, place / "*.csv"])
    assert {storage.fault_of_witness(witness) for witness in seen} == {""}
    missing = storage.Witness(str(place / "b.csv"), seen[0].facts)
    assert storage.fault_of_witness(missing).startswith("does not see it")


def test_another_file_in_the_same_place_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (witness,) = storage.witnesses([tmp_path / "a"])
    (tmp_path / "a").write_bytes(b"abcd")
    assert storage.fault_of_witness(witness) == "sees another file there"


def test_what_is_newer_may_have_changed_and_a_store_always_may(place: Path, tmp_path: Path) -> None:
    (place / "rows.csv").write_bytes(b"abc")
    (tmp_path / "made").write_bytes(b"later")
    os.utime(tmp_path / "made", (time.time() + 60, time.time() + 60))
    is_stored = storage.is_in_store(place)
    assert storage.may_have_changed([place], since=tmp_path / "made") == is_stored
    os.utime(tmp_path / "made", (1, 1))
    assert storage.may_have_changed([place], since=tmp_path / "made")


def test_what_is_found_out_of_an_object_is_kept_while_it_is_the_same(place: Path) -> None:
    (place / "a").write_bytes(b"abc")
    found = [bytes(storage.kept_bytes(place / "a", "upper", partial(bytes, text))) for text in (b"ABC", b"other")]
    assert found == [b"ABC", b"ABC" if storage.is_in_store(place) else b"other"]


def test_a_path_that_must_be_on_this_machine_is_refused_in_a_store(place: Path) -> None:
    if storage.is_in_store(place):
        with pytest.raises(ValueError, match=r"^out must be here$"):
            storage.on_disk(place, otherwise="out must be here")
        assert storage.local_name(place) == "there"
    else:
        assert storage.on_disk(str(place), otherwise="") == place
        assert storage.local_name(f"{place}/") == f"{place}/"
