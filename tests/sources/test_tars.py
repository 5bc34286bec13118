"""Samples from WebDataset's tar files."""

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gather import keys_of, listed, read_all
from PIL import Image

from bushel.errors import FileProblem
from bushel.sources import webdataset
from bushel.sources.tars import _files_in


def jpeg(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (20, 10), (shade, 0, 0)).save(out, "JPEG")
    return out.getvalue()


def npy(values: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


def pack(path: Path, files: dict[str, bytes], mode: Any = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def sample(key: str, number: int) -> dict[str, bytes]:
    meta = {"width": 20, "where": {"city": "x"}, "boxes": [{"a": 1}], "none": None}
    return {
        f"{key}.jpg": jpeg(number),
        f"{key}.cls": str(number).encode(),
        f"{key}.txt": f"caption {number}".encode(),
        f"{key}.json": json.dumps(meta).encode(),
        f"{key}.emb.npy": npy(np.arange(3.0) + number),
    }


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_files_of_one_name_are_one_sample(tmp_path: Path, mode: str) -> None:
    path = pack(tmp_path / "a.tar", sample("d/000", 1) | sample("d/001", 2), mode)
    source = webdataset(path)
    assert source.reads == "sequence"
    assert keys_of(source) == ["d/000", "d/001"]
    assert listed(source, "label") == [1, 2]
    columns, refused = read_all(source)
    assert not refused
    assert (
        set(columns)
        == set(source.schema())
        == {
            *("image", "image/height", "image/width", "image/channels"),
            *("label", "text", "width", "where/city", "emb", "key"),
        }
    )
    assert columns["image"] == [jpeg(1), jpeg(2)]
    assert columns["text"] == [b"caption 1", b"caption 2"]
    assert columns["emb"] == [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    assert columns["where/city"] == [b"x", b"x"]
    (block,) = source.read(0, None)
    assert block.counted == {"values in json that no feature can hold": 2}


def test_a_partition_a_tar_and_keys_that_repeat_get_its_name(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        pack(tmp_path / name, sample("000", 1))
    source = webdataset([tmp_path / "a.tar", tmp_path / "b.tar"])
    assert source.partitions() == 2
    assert keys_of(source) == ["a.tar/000", "b.tar/000"]
    assert read_all(source)[0]["key"] == [b"a.tar/000", b"b.tar/000"]
    assert source.locate(1, 0) == f"{tmp_path / 'b.tar'}: b.tar/000"


def test_bad_samples_are_refused_one_by_one(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    for number in range(6):
        files |= sample(f"{number:03}", number)
    files["001.jpg"] = jpeg(1)[:200]
    files["002.cls"] = b"cat"
    files["003.json"] = b"{"
    files["004.emb.npy"] = b"\x93NUMPY"
    del files["005.jpg"]
    source = webdataset(pack(tmp_path / "a.tar", files))
    columns, refused = read_all(source)
    assert columns["key"] == [b"000"]
    assert [(r.row, r.stage) for r in refused] == [
        (1, "decode"),
        (2, "schema"),
        (3, "schema"),
        (4, "schema"),
        (5, "schema"),
    ]
    assert refused[1].reason.startswith("cls: invalid literal")
    assert refused[4].reason == "image: there is no image"
    assert len(keys_of(source)) == 6


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}], object), allow_pickle=True)
    source = webdataset(pack(tmp_path / "a.tar", {"0.npy": npy([1]), "1.npy": out.getvalue()}))
    (refused,) = read_all(source)[1]
    assert refused.row == 1
    assert "allow_pickle=False" in refused.reason


def test_several_images_are_named_by_their_extensions(tmp_path: Path) -> None:
    files = {"0.left.jpg": jpeg(1), "0.right.jpg": jpeg(2), "1.left.jpg": jpeg(3), "1.right.jpg": b"x"}
    columns, refused = read_all(webdataset(pack(tmp_path / "a.tar", files)))
    assert columns["left"] == [jpeg(1)]
    assert columns["right"] == [jpeg(2)]
    assert [r.row for r in refused] == [1]


def test_damaged_and_empty_archives_are_named(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.tar", sample("000", 1))
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(FileProblem, match=r"a\.tar: cannot be read as a tar archive: unexpected end of data"):
        webdataset(path)
    (tmp_path / "b.tar").write_bytes(b"hello" * 200)
    with pytest.raises(FileProblem, match=r"b\.tar: cannot be read as a tar archive"):
        webdataset(tmp_path / "b.tar")
    with pytest.raises(FileProblem, match=r"c\.tar: there are no samples in it"):
        webdataset(pack(tmp_path / "c.tar", {}))


def test_pickles_with_what_was_learnt(tmp_path: Path) -> None:
    source = webdataset(pack(tmp_path / "a.tar", sample("000", 1)))
    assert read_all(pickle.loads(pickle.dumps(source))) == read_all(source)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_those_that_tarfile_finds(form: int, tmp_path: Path) -> None:
    names = ["0.txt", "a/b/1.txt", "é/2.txt", f"{'long' * 20}/{'name' * 12}.txt", "folder", "4.txt"]
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as tar:
        for number, name in enumerate(names):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = (
                300 * number,
                1.5 if form == tarfile.PAX_FORMAT else 1,
            )  # as webdataset writes it
            if name == "folder":
                member.type, member.size = tarfile.DIRTYPE, 0
            tar.addfile(member, io.BytesIO(b"x" * member.size))
        link = tarfile.TarInfo("9.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "0.txt"
        tar.addfile(link)
    with tarfile.open(tmp_path / "a.tar") as tar:
        wanted = [(member.name, member.size) for member in tar if member.isfile()]
    assert [(file.name, len(file.read())) for file in _files_in(tmp_path / "a.tar")] == wanted
    assert [(file.name, file.size) for file in _files_in(tmp_path / "a.tar")] == wanted


def test_a_tar_with_a_flipped_byte_or_a_lie_about_a_size_ends_in_one_line(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 4
            tar.addfile(member, io.BytesIO(b"text"))
    whole = (tmp_path / "a.tar").read_bytes()
    for at in (0, 124, 130, 150, 156, 1024 + 3, 1024 + 130):
        changed = bytearray(whole)
        changed[at] ^= 0x35
        (tmp_path / "a.tar").write_bytes(changed)
        with pytest.raises(FileProblem, match="cannot be read as a tar archive: "):
            list(_files_in(tmp_path / "a.tar"))
