"""Files that sources name: ordinary ones are read; devices, pipes, addresses and mere claims are refused."""

import json
import os
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import bushel
from bushel import sources
from bushel.errors import BushelWarning, FileProblem

ONE = bushel.Run(workers=1, max_bad=10)


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6)).save(path)
    return path


def refused(out: Path) -> list[str]:
    return [json.loads(line)["reason"] for line in (out / "_quarantine.jsonl").read_text().splitlines()]


@pytest.fixture
def special(tmp_path):
    """Names of what is not an ordinary file, and of one that is."""
    os.mkfifo(tmp_path / "pipe.png")
    picture(tmp_path / "good.png")
    return ["/dev/zero", "pipe.png", "/dev/stdin", ".", "missing.png", "good.png"]


def test_a_table_that_names_devices_and_pipes_is_built_without_them(tmp_path, special):
    (tmp_path / "rows.csv").write_text("path\n" + "".join(f"{name}\n" for name in special))
    built = bushel.build(sources.table(tmp_path / "rows.csv", image_column="path"), tmp_path / "out", run=ONE)
    assert (built.records, built.refused) == (1, 5)
    reasons = " ".join(refused(tmp_path / "out"))
    assert "/dev/zero: is a device, which bushel does not read" in reasons
    assert "pipe.png: is a pipe, which bushel does not read" in reasons


def test_annotations_that_name_devices_and_pipes_are_built_without_them(tmp_path, special):
    images = [{"id": n, "file_name": name, "width": 8, "height": 6} for n, name in enumerate(special)]
    boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 3, 3]} for n in range(len(special))]
    known = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    (tmp_path / "boxes.json").write_text(json.dumps(known))
    built = bushel.build(sources.coco(tmp_path / "boxes.json", images=tmp_path), tmp_path / "out", run=ONE)
    assert (built.records, built.refused) == (1, 5)


@pytest.fixture
def asked():
    """A server on this machine, and what it was asked for."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, seen
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "name", ["clip.mp4", "sound.mp3", "sound.wav", "photo.png", "rows.parquet", "rows.csv", "a.tfrecord"]
)
def test_a_folder_that_is_called_like_an_address_is_a_folder(tmp_path, monkeypatch, asked, name):
    pytest.importorskip("av")
    port, seen = asked
    folder = tmp_path / "in" / "http:" / f"127.0.0.1:{port}"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"not what it says")
    monkeypatch.chdir(tmp_path / "in")
    for source in (".", f"http:/127.0.0.1:{port}/{name}"):
        with pytest.raises((bushel.BushelError, ValueError)):
            bushel.build(source, tmp_path / "out", run=bushel.Run(workers=1))
    assert seen == []


def test_images_of_a_hugging_face_dataset_outside_its_folder_are_refused(tmp_path):
    inside, outside = picture(tmp_path / "hf" / "a.png"), picture(tmp_path / "secret.png")
    (tmp_path / "hf" / "link.png").symlink_to(outside)
    os.mkfifo(tmp_path / "hf" / "pipe.png")
    paths = [str(outside), "../secret.png", "link.png", "pipe.png", inside.name]
    table = pa.table({"image": pa.array([{"bytes": None, "path": path} for path in paths])})
    told = json.dumps({"info": {"features": {"image": {"_type": "Image"}}}})
    pq.write_table(table.replace_schema_metadata({"huggingface": told}), tmp_path / "hf" / "rows.parquet")
    built = bushel.build(sources.huggingface(tmp_path / "hf"), tmp_path / "out", run=ONE)
    assert (built.records, built.refused) == (1, 4)
    assert any("is a link that leaves the folder" in reason for reason in refused(tmp_path / "out"))


@pytest.mark.parametrize("detour", ["inner.h5:x", "inner.h5:link", "inner.h5:soft", ".:link", "inner.h5:group/link"])
def test_hdf5_values_in_other_files_are_refused_through_every_detour(tmp_path, detour):
    (tmp_path / "secret.bin").write_bytes(np.arange(10, dtype="<f4").tobytes())
    name, _, member = detour.partition(":")
    for path in ("inner.h5", "outer.h5", "third.h5"):
        with h5py.File(tmp_path / path, "w") as file:
            if path == "inner.h5":
                file.create_dataset("x", (10,), "<f4", external=[(str(tmp_path / "secret.bin"), 0, 40)])
            file["link"] = h5py.ExternalLink("third.h5", "/y")
            file["soft"] = h5py.SoftLink("/link")
            file.create_group("group")["link"] = h5py.ExternalLink("third.h5", "/y")
            file["y"] = np.arange(10, dtype="<f4")
    layout = h5py.VirtualLayout((10,), "<f4")
    layout[:] = h5py.VirtualSource(name, member, (10,))
    with h5py.File(tmp_path / "outer.h5", "a") as file:
        file.create_virtual_dataset("x", layout)
    with pytest.raises(FileProblem, match=r"takes its values from another file|is a link to"):
        bushel.build(sources.arrays(tmp_path / "outer.h5", columns=["x"]), tmp_path / "out", run=ONE)


def test_a_virtual_dataset_of_a_file_next_to_it_is_built(tmp_path):
    layout = h5py.VirtualLayout((10,), "<f4")
    layout[:] = h5py.VirtualSource("inner.h5", "y", (10,))
    with h5py.File(tmp_path / "inner.h5", "w") as file:
        file["y"] = np.arange(10, dtype="<f4")
    with h5py.File(tmp_path / "outer.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    bushel.build(tmp_path / "outer.h5", tmp_path / "out", order="source", run=ONE)
    np.testing.assert_array_equal(bushel.read(tmp_path / "out")["x"], np.arange(10))


@pytest.mark.parametrize("kind", ["chunked", "not written", "text"])
def test_an_hdf5_file_that_claims_more_than_it_holds_is_refused(tmp_path, kind):
    with h5py.File(tmp_path / "claims.h5", "w") as file:
        if kind == "chunked":
            file.create_dataset("x", (8 << 30,), "<f4", chunks=(1 << 20,), compression="gzip")
        elif kind == "not written":
            file.create_dataset("x", (8 << 30,), "<f4")
        else:
            file.create_dataset("x", (1 << 40,), h5py.string_dtype(), chunks=(1 << 20,))
    with pytest.raises(FileProblem, match="says that it has .* bytes, and the file holds"):
        bushel.build(tmp_path / "claims.h5", tmp_path / "out", run=ONE)


def test_an_hdf5_file_of_zeros_that_are_compressed_is_built(tmp_path):
    with h5py.File(tmp_path / "zeros.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((200, 100), "<f4"), compression="gzip")
    assert bushel.build(tmp_path / "zeros.h5", tmp_path / "out", run=ONE).records == 200


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (x INTEGER, name TEXT)")
        connection.executemany("INSERT INTO rows VALUES (?, ?)", [(n, f"n{n}") for n in range(20)])
    connection.close()
    return tmp_path / "rows.db"


def test_rows_that_a_database_computes_without_end_are_refused(database, tmp_path):
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE rows ADD COLUMN z AS (zeroblob(900000000))")
    connection.close()
    with pytest.raises((FileProblem, ValueError), match="string or blob too big"):
        bushel.build(database, tmp_path / "out", run=ONE)
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE rows DROP COLUMN z")
        connection.execute("ALTER TABLE rows ADD COLUMN y AS (zeroblob(900000))")
        connection.executemany("INSERT INTO rows (x) VALUES (?)", [(n,) for n in range(1000)])
    connection.close()
    with pytest.raises(FileProblem, match="and the file .*: they are computed"):
        bushel.build(database, tmp_path / "out", run=ONE)


@pytest.mark.parametrize(
    "query",
    [
        "VACUUM INTO '{0}/written'",
        "ATTACH '{0}/written' AS other",
        " /* SELECT */ -- WITH\n VACUUM main INTO '{0}/written'",
        "PRAGMA journal_mode = WAL",
        "WITH a AS (SELECT 1) INSERT INTO rows SELECT 1, 'a'",
        "SELECT load_extension('{0}/evil.so')",
        "SELECT writefile('{0}/written', 'a')",
        "SELECT * FROM pragma_database_list",
    ],
)
def test_the_query_of_a_recipe_only_reads(database, tmp_path, query):
    before = database.read_bytes()
    text = query.format(tmp_path).replace("\n", "\\n").replace('"', '\\"')
    (tmp_path / "recipe.toml").write_text(f'[source]\nkind = "sql"\npath = "{database}"\nquery = "{text}"\n')
    with pytest.raises(
        (bushel.BushelError, ValueError), match=r"query must begin with|not authorized|no such function"
    ):
        bushel.build_recipe(tmp_path / "recipe.toml", tmp_path / "out", run=ONE)
    assert not (tmp_path / "written").exists()
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    "query", ["SELECT x, upper(name) AS n FROM rows", "WITH a AS (SELECT * FROM rows) SELECT * FROM a"]
)
def test_a_query_that_reads_is_answered(database, tmp_path, query):
    assert bushel.build(sources.sql(database, query=query), tmp_path / "out", run=ONE).records == 20


def test_a_recipe_decides_what_is_read_and_nothing_else(tmp_path, asked):
    port, seen = asked
    (tmp_path / "rows.csv").write_text(f"path\nhttp://127.0.0.1:{port}/a.png\n")
    (tmp_path / "recipe.toml").write_text(
        f'out = "{tmp_path}/chosen"\n[source]\nkind = "table"\npath = "{tmp_path}/rows.csv"\n'
        f'image_column = "path"\nprivate = true\ndownloads = "{tmp_path}/kept"\n'
    )
    with pytest.warns(BushelWarning) as said, pytest.raises((bushel.BushelError, ValueError)):
        bushel.build_recipe(tmp_path / "recipe.toml", tmp_path / "out", run=bushel.Run(workers=1))
    text = " ".join(str(one.message) for one in said)
    assert "out is left out: a recipe does not decide where a dataset is written" in text
    assert "source.private is left out, because only you decide that: --set private=true" in text
    with pytest.warns(BushelWarning), pytest.raises(ValueError, match="names no out"):
        bushel.build_recipe(tmp_path / "recipe.toml")
    assert seen == []
    assert not (tmp_path / "kept").exists()
    assert not (tmp_path / "chosen").exists()


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x) AS n FROM c",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT * FROM c WHERE x < 0",
        "SELECT zeroblob(2000000000) AS n FROM rows",
    ],
)
def test_a_query_of_a_recipe_that_computes_without_end_is_ended(database, tmp_path, query):
    (tmp_path / "recipe.toml").write_text(
        f'[source]\nkind = "sql"\npath = "{database}"\nquery = "{query}"\nunlimited = true\n'
    )
    with (
        pytest.warns(BushelWarning, match="source.unlimited is left out, because only you decide that"),
        pytest.raises(FileProblem, match="the query computes far more than the file holds, and was ended"),
    ):
        bushel.build_recipe(tmp_path / "recipe.toml", tmp_path / "out", run=ONE)


def test_a_caller_may_let_a_query_compute_for_long(database):
    numbers = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9000000)"
    query = f"{numbers} SELECT max(x) AS n FROM c"
    with pytest.raises(FileProblem, match=r"unlimited=True"):
        sources.sql(database, query=query).schema()
    assert sources.sql(database, query=query, unlimited=True).schema().features.keys() == {"n"}
