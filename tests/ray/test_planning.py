"""Plans made on a real cluster, from files that nodes look through together."""

import io
from pathlib import Path

import numpy as np
import pytest
from making import digests

import bushel.ray
from bushel import Recipe, Run, build_recipe
from bushel.errors import BushelError, FileProblem


def images(folder: Path) -> Path:
    from PIL import Image

    for number in range(60):
        place = folder / f"class{number % 3}" / f"part{number % 2}" / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(buffer, "png")
        place.write_bytes(buffer.getvalue())
    (folder / "class0" / "broken.png").write_bytes(b"no image")
    return folder


def tables(folder: Path) -> str:
    folder.mkdir()
    for number in range(4):
        lines = [f"{number * 100 + row},c{row % 3}" for row in range(100)]
        (folder / f"{number}.csv").write_text("\n".join(["x,label", *lines]))
    return str(folder / "*.csv")


@pytest.mark.parametrize("make", [images, tables])
def test_files_are_listed_and_read_by_all_nodes_to_the_same_bytes(tmp_path, cluster, make):
    recipe = Recipe(source={"path": str(make(tmp_path / "raw"))}, split="80/20", stratify="label", shards=3)
    build_recipe(recipe, tmp_path / "local", run=Run(workers=1))
    build_recipe(recipe, tmp_path / "ray", run=Run(engine=bushel.ray.engine(cluster.address)))
    assert digests(tmp_path / "ray") == digests(tmp_path / "local")
    for name in ("dataset.json", "_quarantine.jsonl", "recipe.toml"):
        assert (tmp_path / "ray" / name).read_text() == (tmp_path / "local" / name).read_text()


def test_a_node_that_does_not_see_source_or_output_is_named_at_the_start(tmp_path, cluster, odd_node):
    source, out = tmp_path / "raw", tmp_path / "out"
    recipe = Recipe(source={"path": tables(source)}, shards=2)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    odd_node(before=f"mount -t tmpfs none {source}; mount -t tmpfs none {hidden}; ")
    with pytest.raises(FileProblem, match=r"raw/0\.csv: node odd \(.+\) does not see it"):
        build_recipe(recipe, out, run=Run(engine=bushel.ray.engine(cluster.address)))
    assert not out.exists()
    arrays = {"x": np.arange(10), "label": np.arange(10) % 2}
    with pytest.raises(FileProblem, match=r"hidden/out: node odd \(.+\) cannot write here"):
        bushel.build(arrays, hidden / "out", run=Run(engine=bushel.ray.engine(cluster.address)))


def test_a_node_with_another_bushel_is_named_at_the_start(tmp_path, cluster, odd_node):
    other = "import sys, types\nsys.modules['bushel'] = module = types.ModuleType('bushel')\nmodule.__version__ = '9.9'"
    (tmp_path / "sitecustomize.py").write_text(other)  # what is installed is found before what stands on the path
    odd_node(environment={"PYTHONPATH": str(tmp_path)})
    with pytest.raises(BushelError, match=r"node odd \(.+\) has bushel 9\.9, and here is "):
        bushel.build({"x": np.arange(10)}, tmp_path / "out", run=Run(engine=bushel.ray.engine(cluster.address)))
    assert not (tmp_path / "out" / "dataset.json").exists()
