"""Samples from text."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from gather import keys_of, listed, read_all

from bushel.errors import FileProblem
from bushel.sources import text, text_files
from bushel.sources.tables import table_files as surveys


def save(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_files_in_class_folders(tmp_path: Path) -> None:
    save(tmp_path / "pos" / "1.txt", "g\u00fct\nsehr".encode())
    save(tmp_path / "neg" / "2.txt", b"bad")
    save(tmp_path / "neg" / "10321", b"no suffix")
    save(tmp_path / "neg" / "page.html", b"<p>")
    save(tmp_path / "neg" / ".DS_Store", b"x")
    source = text(tmp_path)
    assert source.reads == "random"
    assert keys_of(source) == ["neg/10321", "neg/2.txt", "pos/1.txt"]
    assert listed(source, "label") == [b"neg", b"neg", b"pos"]
    assert source.list(0, []).counted == {"files that are not text": 1, "hidden files": 1}
    columns, refused = read_all(source)
    assert columns["text"] == [b"no suffix", b"bad", "g\u00fct\nsehr".encode()]
    assert not refused
    (block,) = source.read(0, np.array([2, 0]))
    assert block.columns["key"].to_list() == [b"pos/1.txt", b"neg/10321"]


def test_split_folders(tmp_path: Path) -> None:
    save(tmp_path / "train" / "pos" / "1.txt", b"a")
    save(tmp_path / "test" / "neg" / "1.txt", b"b")
    source = text(tmp_path)
    assert source.split == "split"
    assert listed(source, "split") == [b"test", b"train"]
    assert listed(source, "label") == [b"neg", b"pos"]


def test_a_file_that_is_not_text_is_refused_with_its_line(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.txt", b"one\ntwo\ncaf\xe9\n")
    save(tmp_path / "a" / "2.txt", "\ufeffmarked".encode())
    save(tmp_path / "a" / "3.txt", "wide \u00e9".encode("utf-16"))
    source = text(tmp_path)
    columns, refused = read_all(source)
    assert columns["text"] == [b"marked", "wide \u00e9".encode()]
    assert refused == [(0, "decode", "line 3: byte 0xe9 is not UTF-8")]
    assert source.locate(0, 0) == str(tmp_path / "a" / "1.txt")
    declared, _ = read_all(text(tmp_path, encoding="cp1252"))
    assert declared["text"][0] == "one\ntwo\ncaf\u00e9\n".encode()


def test_a_line_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files.TextFile.blocks, "__defaults__", (0, None, 64))
    monkeypatch.setattr(surveys, "PART_BYTES", 256)
    lines = [f"line {i} \u00e9" for i in range(100)]
    source = text(save(tmp_path / "a.txt", "\r\n".join(lines).encode()))
    assert source.reads == "sequence"
    assert source.partitions() > 2
    assert keys_of(source) == [str(i) for i in range(100)]
    columns, refused = read_all(source)
    assert columns["text"] == [line.encode() for line in lines]
    assert not refused
    assert source.locate(1, 0).startswith(f"{tmp_path / 'a.txt'}: line ")


def test_lines_that_are_no_text_are_refused_with_their_number(tmp_path: Path) -> None:
    source = text(save(tmp_path / "a.txt", b"one\n\ncaf\xe9\nfour\n"))
    columns, refused = read_all(source)
    assert columns["text"] == [b"one", b"four"]
    assert refused == [(1, "read", "the line is empty"), (2, "decode", "line 3: byte 0xe9 is not UTF-8")]
    latin = text(tmp_path / "a.txt", encoding="latin-1")
    assert read_all(latin)[0]["text"] == [b"one", "caf\u00e9".encode(), b"four"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_encodings_are_told_by_their_mark(tmp_path: Path, encoding: str) -> None:
    source = text(save(tmp_path / "a.txt", "\u00e9in\nzwei\n".encode(encoding)))
    assert read_all(source)[0]["text"] == ["\u00e9in".encode(), b"zwei"]


def test_compressed_lines(tmp_path: Path) -> None:
    assert read_all(text(save(tmp_path / "a.txt.gz", gzip.compress(b"a\nb\n"))))[0]["text"] == [b"a", b"b"]


def test_nothing_to_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="is empty: there is no line in it"):
        text(save(tmp_path / "a.txt", b""))
    save(tmp_path / "f" / "x.jpg", b"")
    with pytest.raises(FileProblem, match="there are no text files in this folder"):
        text(tmp_path / "f")
    with pytest.raises(ValueError, match="encoding must be one that Python knows"):
        text(save(tmp_path / "b.txt", b"x"), encoding="utf8x")
    with pytest.raises(FileProblem, match="there is no such file"):
        text(tmp_path / "gone.txt")


def test_pickles_and_fingerprints(tmp_path: Path) -> None:
    save(tmp_path / "d" / "a" / "1.txt", b"x")
    lines = save(tmp_path / "l.txt", b"x\ny\n")
    for source in (text(tmp_path / "d"), text(lines)):
        again = pickle.loads(pickle.dumps(source))
        assert read_all(again) == read_all(source)
        assert again.fingerprint() == source.fingerprint()
