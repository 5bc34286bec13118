"""Which source a path is."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import bushel
from bushel.errors import FileProblem
from bushel.sources import open_source


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, "JPEG")
    return out.getvalue()


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    for name in ("photos/cat", "photos/dog", "texts/a", "tables"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "photos/cat/1.jpg").write_bytes(jpeg())
    (tmp_path / "photos/dog/1.jpg").write_bytes(jpeg())
    (tmp_path / "photos/notes.txt").write_text("x")
    (tmp_path / "texts/a/1.txt").write_text("x")
    (tmp_path / "tables/a.csv").write_text("x\n1\n")
    (tmp_path / "tables/b.csv").write_text("x\n2\n")
    (tmp_path / "rows.csv").write_text("x\n1\n")
    (tmp_path / "rows.tsv.gz").write_bytes(gzip.compress(b"x\ty\n1\t2\n"))
    (tmp_path / "rows.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "lines.txt").write_text("a\nb\n")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "rows.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "rows")
    np.save(tmp_path / "x.npy", np.arange(3))
    with bushel.Writer(tmp_path / "a.tfrecord-00000-of-00001") as writer:
        writer.write({"x": 1})
    with bushel.Writer(tmp_path / "unnamed") as writer:
        writer.write({"x": 1})
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("0.jpg")
        info.size = len(jpeg())
        archive.addfile(info, io.BytesIO(jpeg()))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("photos", "images"),
        ("texts", "text"),
        ("tables", "table"),
        ("rows.csv", "table"),
        ("tables/*.csv", "table"),
        ("rows.tsv.gz", "table"),
        ("rows.jsonl", "table"),
        ("rows.parquet", "table"),
        ("rows", "table"),
        ("lines.txt", "text"),
        ("x.npy", "arrays"),
        ("a.tfrecord-00000-of-00001", "records"),
        ("unnamed", "records"),
        ("a.tar", "webdataset"),
    ],
)
def test_a_path_tells_what_it_is_and_opens_again_from_its_table(zoo: Path, name: str, kind: str) -> None:
    source = open_source(zoo / name)
    told = source.describe()
    assert told["kind"] == kind
    assert told["path"] == str(zoo / name)
    again = open_source(told)
    assert again.describe() == told
    assert again.fingerprint() == source.fingerprint()
    assert again.schema() == source.schema()


def test_options_go_to_the_source(zoo: Path) -> None:
    source = open_source(zoo / "photos", verify="none", label="label")
    assert source.describe()["verify"] == "none"
    assert "image/height" not in source.schema()


def test_a_misspelt_option_is_offered_the_nearest(zoo: Path) -> None:
    with pytest.raises(ValueError, match=r"images has no option 'verfy'; did you mean 'verify'\?"):
        open_source(zoo / "photos", verfy="none")
    with pytest.raises(ValueError, match=r"kind must be one of .*; got 'imags'; did you mean 'images'\?"):
        open_source({"kind": "imags", "path": "x"})


def test_what_was_in_memory_cannot_be_opened_again() -> None:
    with pytest.raises(ValueError, match="what was in memory cannot be opened from a recipe"):
        open_source(bushel.sources.arrays({"x": [1]}).describe())
    with pytest.raises(ValueError, match="what Python code made cannot be opened from a recipe"):
        open_source(bushel.sources.iterable([{"x": 1}]).describe())


def test_nothing_to_open_is_told(zoo: Path) -> None:
    with pytest.raises(FileProblem, match=r"photo: there is no such file\n  Did you mean .*photos\?"):
        open_source(zoo / "photo")
    (zoo / "empty").mkdir()
    with pytest.raises(FileProblem, match="empty: there are no files in this folder"):
        open_source(zoo / "empty")
    (zoo / "odd").mkdir()
    (zoo / "odd" / "a.xyz").write_text("x")
    with pytest.raises(FileProblem, match=r"odd: there is nothing in this folder whose suffix bushel knows: \.xyz is"):
        open_source(zoo / "odd")
    (zoo / "photos.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(FileProblem, match=r"it is a zip archive\n  Unpack it, .*: `unzip .*photos\.zip -d photos`"):
        open_source(zoo / "photos.zip")
    (zoo / "paper.pdf").write_text("%PDF-1.4")
    with pytest.raises(
        FileProblem, match=r"paper\.pdf: cannot be read: it is a PDF document\n  bushel reads folders of images"
    ):
        open_source(zoo / "paper.pdf")
    with pytest.raises(FileProblem, match="no file matches this pattern"):
        open_source(zoo / "*.nothing")


def test_captions_beside_images_and_one_table_of_labels_are_not_the_data(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg())
        (tmp_path / f"{number}.txt").write_text("a caption")
    (tmp_path / "labels.csv").write_text("file,label\n0.jpg,a\n1.jpg,b\n2.jpg,a\n")
    source = open_source(tmp_path)
    assert source.describe()["kind"] == "images"
    assert source.list(0, ["label"]).columns["label"].to_list() == [b"a", b"b", b"a"]  # type: ignore[union-attr]


def test_text_of_no_known_suffix_is_refused_with_the_options_that_open_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.data"
    path.write_text("a first note\nthe second\n")
    with pytest.raises(FileProblem) as caught:
        open_source(path)
    assert str(caught.value).splitlines() == [
        f"{path}: cannot tell what this is (plain text)",
        '  If it is a table: kind="table", format="csv"',
        '  If each line is a sample: kind="text"',
    ]
    assert "--kind table --set format=csv" in caught.value.on_command_line
    assert [*open_source(path, kind="table", format="csv").schema()] == ["a first note"]
