import gzip
import io
import os
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import DATA, example, frame, golden, header, run, write_records

import bushel
from bushel.errors import CorruptRecord, Fault, FileProblem
from bushel.records.files import open_file

RECORDS = [example({"x": [i]}) for i in range(3)]
STREAM = b"".join(frame(record) for record in RECORDS)


def zip_of(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", data)
    return out.getvalue()


def tar_of(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("a")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(3))
    return out.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 12345\n"

OTHERS = {
    "a JPEG image": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(50),
    "a PNG image": b"\x89PNG\r\n\x1a\n" + bytes(50),
    "a GIF image": b"GIF89a" + bytes(50),
    "a WebP image": b"RIFF\x24\x00\x00\x00WEBPVP8 " + bytes(50),
    "a zip archive": zip_of(b"x"),
    "a tar archive": tar_of(b"x"),
    "a Parquet file": b"PAR1" + bytes(50) + b"PAR1",
    "an Arrow file": b"ARROW1\x00\x00" + bytes(50),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(50),
    "a NumPy file": npy(),
    "a bzip2 stream": b"BZh91AY&SY" + bytes(50),
    "an xz stream": b"\xfd7zXZ\x00" + bytes(50),
    "a zstd stream": b"\x28\xb5\x2f\xfd" + bytes(50),
    "an lz4 stream": b"\x04\x22\x4d\x18" + bytes(50),
    "an SQLite database": b"SQLite format 3\x00" + bytes(50),
    "a PDF document": b"%PDF-1.7\n" + bytes(50),
    "a program": b"\x7fELF" + bytes(50),
    "a Python pickle": b"\x80\x04\x95" + bytes(50),
    "a Git LFS pointer": LFS,
    "an HTML page": b"<!DOCTYPE html>\n<html><body>404</body></html>",
    "an XML document": b"<?xml version='1.0'?><a/>",
    "JSON text": b'{"label": 3, "name": "x"}\n',
    "plain text": b"label,name\n3,x\n4,y\n",
}


@pytest.mark.parametrize("suffix", ["", ".tfrecord", ".tfrecord.gz", ".jpg", ".zlib"])
@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_compression_is_told_by_the_bytes_whatever_the_suffix(
    tmp_path: Path, compression: str | None, suffix: str
) -> None:
    pack = {None: bytes, "gzip": gzip.compress, "zlib": zlib.compress}[compression]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(STREAM))
    assert open_file(path).compression == compression
    assert bushel.read(path)["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("level", range(10))
def test_every_level_of_zlib_is_told(tmp_path: Path, level: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(zlib.compress(STREAM, level))
    assert bushel.read(path)["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["zlib_like.tfrecord", "zlib_like_default.tfrecord", "gzip_like.tfrecord"])
def test_a_plain_record_may_begin_like_a_compressed_stream(name: str) -> None:
    path = DATA / name
    assert path.read_bytes()[:2] in (b"\x78\x01", b"\x78\x9c", b"\x1f\x8b")
    assert open_file(path).compression is None
    assert [len(data) for data in bushel.payloads(path)] == [r["length"] for r in golden()[name]["records"]]


def test_a_gzip_file_of_several_members_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"".join(gzip.compress(frame(record)) for record in RECORDS))
    assert bushel.read(path)["x"].tolist() == [0, 1, 2]
    halves = gzip.compress(STREAM[:20]) + gzip.compress(b"") + gzip.compress(STREAM[20:])
    path.write_bytes(halves)
    assert bushel.read(path)["x"].tolist() == [0, 1, 2]


def test_gzip_padded_with_zeros_is_read_as_gzip_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(STREAM) + bytes(512))
    assert bushel.read(path)["x"].tolist() == [0, 1, 2]


def test_records_that_cross_the_pieces_of_a_compressed_file_are_whole(tmp_path: Path) -> None:
    records = [bytes([i % 256]) * (i * 7 % 1000) for i in range(300)]
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"".join(frame(record) for record in records)))
    for max_bytes in (1, 13, 100, 4096):
        chunks = list(open_file(path).chunks(max_bytes=max_bytes))
        found = [bytes(chunk.payload(row)) for chunk in chunks for row in range(len(chunk.extents))]
        assert found == records
        offsets = [chunk.offset(row) for chunk in chunks for row in range(len(chunk.extents))]
        assert offsets == [sum(len(r) + 16 for r in records[:i]) for i in range(300)]


@pytest.mark.parametrize(("what", "data"), OTHERS.items(), ids=OTHERS)
def test_a_file_that_is_something_else_is_named_in_one_line_and_the_command_ends_with_2(
    tmp_path: Path, what: str, data: bytes
) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data)
    with pytest.raises(FileProblem) as caught:
        bushel.read(path)
    assert str(caught.value).splitlines()[0] == f"{path}: is not a TFRecord file: it is {what}"


@pytest.mark.parametrize(
    "what", ["a JPEG image", "a Git LFS pointer", "a zip archive", "a Parquet file", "an HTML page"]
)
def test_the_command_says_what_a_file_is_and_ends_with_2(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(OTHERS[what])
    done = run("info", path)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == f"bushel: {path}: is not a TFRecord file: it is {what}"
    assert len(lines) <= 2


def test_an_lfs_pointer_comes_with_the_command_that_fetches_it(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(LFS)
    with pytest.raises(FileProblem, match="git lfs pull"):
        bushel.info(path)


def test_something_else_inside_gzip_is_named_too(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(OTHERS["a tar archive"]))
    with pytest.raises(FileProblem, match="it is a tar archive, compressed with gzip"):
        bushel.read(path)


def bad_inputs(folder: Path) -> dict[str, tuple[Path, str]]:
    (folder / "empty").write_bytes(b"")
    (folder / "folder").mkdir()
    return {
        "missing": (folder / "missing", "there is no such file"),
        "empty": (folder / "empty", "is empty: 0 bytes"),
        "folder": (folder / "folder", "there are no files in this folder"),
        "pattern": (folder / "*.nothing", "no file matches this pattern"),
    }


@pytest.mark.parametrize("case", ["missing", "empty", "folder", "pattern"])
@pytest.mark.parametrize("command", ["info", "cat", "schema", "index"])
def test_bad_input_is_one_clear_line_and_exit_2(tmp_path: Path, command: str, case: str) -> None:
    path, what = bad_inputs(tmp_path)[case]
    done = run(command, path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == f"bushel: {path}: {what}"


def no_permission(path: Path) -> bool:
    try:
        path.open("rb").close()
    except PermissionError:
        return True
    return False


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_records(tmp_path / "a", RECORDS)
    path.chmod(0)
    if not no_permission(path):  # as root everything may be read
        real = os.open

        def refuse(name: Any, *arguments: Any, **options: Any) -> int:
            if str(name) == str(path):
                raise PermissionError(13, "Permission denied", str(path))
            return real(name, *arguments, **options)

        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileProblem, match="there is no permission to read this file"):
        bushel.read(path)


def test_a_header_alone_is_a_fault_of_record_0(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(header(100))
    with pytest.raises(CorruptRecord) as caught:
        bushel.read(path)
    assert (caught.value.fault, caught.value.record, caught.value.offset) == (Fault.TRUNCATED_DATA, 0, 0)


def test_a_record_above_two_gib_is_reported_and_passed_over(tmp_path: Path) -> None:
    # A sparse file: the 2 GiB take no room on the disk.
    path = tmp_path / "a"
    size = 1 << 31
    with path.open("wb") as file:
        file.write(frame(RECORDS[0]) + header(size))
        file.seek(size + 4, os.SEEK_CUR)
        file.write(frame(RECORDS[1]))
    with pytest.raises(CorruptRecord) as caught:
        list(bushel.payloads(path))
    assert (caught.value.fault, caught.value.record, caught.value.offset) == (Fault.TOO_LARGE, 1, 30)
    with pytest.warns(
        UserWarning, match="1 record skipped; the first: .*record 1 at byte 30: the record is larger than"
    ):
        assert list(bushel.payloads(path, on_fault="skip")) == RECORDS[:2]


_COLLECT_WHILE_LOCKED = """
import concurrent.futures.thread, contextlib, gc, sys, threading
import bushel

def leave(iterator):  # in a cycle, so that only the collector ends it
    next(iterator)
    cycle = [iterator]
    cycle.append(cycle)

gc.disable()
leave(bushel.scan(sys.argv[1]))
leave(bushel.payloads(sys.argv[1]))
writer = bushel.Writer(sys.argv[1] + ".new")
writer.write({"x": bytes(1 << 21)})
writer.cycle = writer
del writer
locks = [getattr(threading, "_shutdown_locks_lock", None), concurrent.futures.thread._global_shutdown_lock]
with contextlib.ExitStack() as held:
    for lock in filter(None, locks):  # Python 3.13 has no more than the second
        held.enter_context(lock)
    gc.collect()
print("done")
"""


def test_an_iterator_or_writer_that_was_left_never_hangs_the_garbage_collector(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(STREAM))
    command = [sys.executable, "-c", _COLLECT_WHILE_LOCKED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "done\n", done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["a.gz"]


def test_bytes_that_are_nothing_known_are_a_fault_of_record_0(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(128, 256)))
    with pytest.raises(CorruptRecord) as caught:
        bushel.read(path)
    assert (caught.value.fault, caught.value.record, caught.value.offset) == (Fault.LENGTH_CRC, 0, 0)


@pytest.mark.parametrize("empty", ["part-3.tfrecord", "part-2-of-3.tfrec", "part-00001", "x-07.tfrec"])
def test_shards_of_0_bytes_hold_nothing_unless_something_promises_records(tmp_path: Path, empty: str) -> None:
    import tensorflow as tf

    names = ["part-00000.tfrecord", empty, "part-00002.tfrecord"]
    for name in (names[0], names[2]):
        with bushel.Writer(tmp_path / name) as writer:
            for number in range(10):
                writer.write({"x": float(number)})
    (tmp_path / names[1]).write_bytes(b"")
    paths = [tmp_path / name for name in names]
    assert len(list(tf.data.TFRecordDataset([str(path) for path in paths]))) == 20
    assert len(list(bushel.open(paths)["all"])) == len(list(bushel.scan(paths))) == 20
    assert sum(len(batch["x"]) for batch in bushel.batches(paths, batch_size=8)) == 20
    assert [file.records for file in bushel.info(paths).files] == [10, 0, 10]
    assert bushel.build(bushel.sources.records(paths), tmp_path / "out").records == 20
    assert [finding.severity for finding in bushel.check(paths, select=["FIL006"])] == ["warning"]
    with pytest.raises(FileProblem, match="is empty: 0 bytes"):
        list(bushel.open(paths[1])["all"])


def test_a_shard_of_0_bytes_that_an_index_or_its_name_promises_records_in_is_an_error(tmp_path: Path) -> None:
    paths = [tmp_path / f"flowers-{number:02d}-2.tfrec" for number in range(2)]
    for path in paths:
        with bushel.Writer(path) as writer:
            writer.write({"x": 1.0})
            writer.write({"x": 2.0})
    paths[1].write_bytes(b"")
    with pytest.raises(FileProblem, match="is empty: 0 bytes, and its name says that it holds 2 records"):
        list(bushel.scan(paths))
    plain = [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]
    for path in plain:
        path.write_bytes(paths[0].read_bytes())
    bushel.write_index(plain)
    plain[1].write_bytes(b"")
    with pytest.raises(FileProblem, match="is empty: 0 bytes, and its index says that it holds 2 records"):
        list(bushel.scan(plain))
    assert [finding.severity for finding in bushel.check(plain, select=["FIL006"])] == ["error"]
