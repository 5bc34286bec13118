"""Doors: what data, manifests and folders of others name is opened below its root, or refused."""

import os
import socket
from pathlib import Path

import pytest

import bushel
from bushel.errors import FileProblem
from bushel.storage import doors


@pytest.fixture(params=["by the kernel", "by hand"])
def door(request, monkeypatch):
    """Both ways to follow a name; they must mean the same."""
    if request.param == "by hand":
        monkeypatch.setattr(doors, "_open_beneath", lambda *_: None)
    return doors.open_inside


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    return root


def test_a_name_below_the_root_is_opened(door, root):
    with door(root, "sub/file") as file:
        assert file.read() == b"inside"


@pytest.mark.parametrize("target", ["sub/file", "sub/../sub/file", "{root}/sub/file"])
def test_a_link_to_another_place_inside_is_followed(door, root, target):
    (root / "link").symlink_to(target.format(root=root))
    with door(root, "link") as file:
        assert file.read() == b"inside"
    assert doors.why_not_inside(root, "link") is None


@pytest.mark.parametrize("where", ["link", "sub/link", "folder/secret", "chain"])
def test_a_link_that_leaves_the_root_is_refused_at_every_level(door, root, where):
    (root / "link").symlink_to("../secret")
    (root / "sub" / "link").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to("..")
    (root / "chain").symlink_to("link")
    with pytest.raises(FileProblem, match="is a link that leaves the folder"):
        door(root, where)
    assert doors.why_not_inside(root, where) == "is a link that leaves the folder"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../secret", "is not in the folder"),
        ("sub/../../secret", "is not in the folder"),
        ("/etc/passwd", "is not in the folder"),
        ("", "is not the name of a file"),
        ("a\\b", "is not the name of a file"),
        ("a\0b", "is not the name of a file"),
        ("x" * 256, "is not the name of a file"),
        ("http://127.0.0.1:8000/a", "is an address, not a file"),
        ("http:/127.0.0.1:8000", "is an address, not a file"),
        ("file:/etc/passwd", "is an address, not a file"),
        ("concat:a|b", None),
    ],
)
def test_what_is_not_the_name_of_a_file_inside_is_refused(root, name, why):
    assert doors.why_not_inside(root, name) == why
    if why is not None:
        with pytest.raises(FileProblem, match=why):
            doors.open_inside(root, name)


def test_pipes_sockets_and_devices_are_refused_without_waiting(door, root):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for name in ("pipe", "socket", "sub"):
            with pytest.raises((FileProblem, OSError)):
                door(root, name)
    with pytest.raises(FileProblem, match="is a device"):
        doors.refuse_special(Path("/dev/zero"))


OWN = ["_journal", "_journal/runs", "_journal/done", "_index", "_artifacts", "_quarantine.jsonl"]


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    (folder / "below").mkdir(parents=True)
    (folder / "precious.txt").write_text("mine")
    (folder / "below" / "more.txt").write_text("mine too")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("own", [*OWN, ".new", ".replaced"])
@pytest.mark.parametrize("how", ["append", "overwrite", "plain"])
def test_a_build_refuses_links_among_its_own_files_and_touches_nothing(tmp_path, elsewhere, own, how):
    table = tmp_path / "rows.csv"
    table.write_text("key,x\n" + "".join(f"{n},{n}\n" for n in range(20)))
    out = tmp_path / "data"
    bushel.build(bushel.sources.table(table, key="key"), out, run=bushel.Run(workers=1))
    if how == "plain":
        (out / "dataset.json").unlink()
    link = out.with_name(f".data{own}") if own.startswith(".") else out / own
    if link.is_dir():
        link.rename(tmp_path / "aside")
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(elsewhere / "precious.txt" if own.endswith(".jsonl") else elsewhere)
    before = contents(elsewhere), contents(out)
    with pytest.raises(FileProblem, match="is a link, and bushel follows none among its own files"):
        bushel.build(
            bushel.sources.table(table, key="key"),
            out,
            run=bushel.Run(workers=1, append=how == "append", overwrite=how == "overwrite"),
        )
    assert (contents(elsewhere), contents(out)) == before


def test_an_index_is_not_written_through_a_link(tmp_path, elsewhere, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "shards" / "a.tfrecord"
    path.parent.mkdir()
    with bushel.Writer(path) as writer:
        writer.write({"x": 1})
    (path.parent / "_index").symlink_to(elsewhere)
    before = contents(elsewhere)
    bushel.write_index(path)
    assert contents(elsewhere) == before


def test_an_export_refuses_a_journal_that_is_a_link(tmp_path, elsewhere):
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write({"text": "a"})
    out = tmp_path / "out"
    out.mkdir()
    (out / "_exporting").symlink_to(elsewhere)
    before = contents(elsewhere)
    for overwrite in (False, True):
        with pytest.raises(FileProblem):
            bushel.export_dataset(tmp_path / "a.tfrecord", out, format="jsonl", overwrite=overwrite)
    assert contents(elsewhere) == before


def test_overwriting_a_named_link_empties_the_folder_but_no_link_in_it(tmp_path, elsewhere):
    with bushel.Writer(tmp_path / "a.tfrecord") as writer:
        writer.write({"text": "a"})
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old").symlink_to(elsewhere)
    (tmp_path / "out").symlink_to("real")
    before = contents(elsewhere)
    bushel.export_dataset(tmp_path / "a.tfrecord", tmp_path / "out", format="jsonl", overwrite=True)
    assert contents(elsewhere) == before
    assert not (tmp_path / "real" / "old").is_symlink()
    assert list((tmp_path / "real").glob("*.jsonl"))


def test_the_index_of_an_empty_shard_that_is_a_pipe_or_a_link_out_is_not_read(tmp_path):
    (tmp_path / "data" / "_index").mkdir(parents=True)
    shard = tmp_path / "data" / "a.tfrecord"
    shard.write_bytes(b"")
    os.mkfifo(tmp_path / "data" / "_index" / "a.tfrecord.idx")
    with pytest.raises(FileProblem, match="is empty: 0 bytes"):
        list(bushel.scan(shard))


def test_lines_of_a_file_inside_are_read_in_pieces(root):
    long = b"x" * (3 << 20)
    (root / "lines").write_bytes(b"one\n" + long + b"\ntwo")
    first, middle, last = doors.lines_inside(root, "lines")
    assert (first, last) == (b"one", b"two")
    assert len(middle) < len(long)
    (root / "link").symlink_to("../secret")
    with pytest.raises(FileProblem, match="is a link that leaves the folder"):
        list(doors.lines_inside(root, "link"))
