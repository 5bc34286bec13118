"""What is data in a call: its folders, however they are named; the working folder, only if it is in them."""

from pathlib import Path

import pytest

from bushel.storage import data_folders, is_data


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ds/sub/a.tfrecord", "ds/dataset.json", "loose/b.tfrecord", "project/bushel.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("ds")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "given",
    [
        "ds",
        "ds/",
        "ds/sub",
        "ds/sub/a.tfrecord",
        "ds/*/*.tfrecord",
        "ds/sub/*",
        "ds/dataset.json",
        "link",
        "link/sub/a*",
    ],
)
def test_a_dataset_is_data_however_it_is_named(place: Path, given: str) -> None:
    for folder in ("ds", "ds/sub", "link"):
        assert is_data(place / folder, data_folders([given]))
        assert is_data(place / folder, data_folders([place / given]))
    assert not is_data(place / "project", data_folders([given]))
    assert not is_data(place, data_folders([given]))


@pytest.mark.parametrize("given", ["loose/b.tfrecord", "loose/*.tfrecord", "l*/b.tfrecord", Path("loose")])
def test_the_folder_of_a_file_is_data(place: Path, given: str) -> None:
    assert data_folders([given]) == [place / "loose"]


def test_a_folder_with_a_manifest_is_data_although_nobody_names_it(place: Path) -> None:
    assert is_data(place / "ds" / "sub", [])
    assert not is_data(place / "loose", [])


def test_what_is_in_memory_or_in_a_store_has_no_folder_here(place: Path) -> None:
    assert data_folders([None, {"x": 1}, "s3://bucket/data", 3]) == []
