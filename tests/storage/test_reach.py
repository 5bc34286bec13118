"""Links and names that lead out of a source are followed and counted; a run that stays inside refuses them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel import sources
from bushel.cli import cli
from bushel.errors import FileProblem
from bushel.storage import LINKS_OUT, NAMED_OUT

INSIDE = bushel.Run(workers=1, inside=True)


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (len(str(path)), 7, 9)).save(path)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Photos of two classes, one of them elsewhere; a link to a file elsewhere, and one to a file inside."""
    monkeypatch.chdir(tmp_path)
    for n in range(3):
        picture(tmp_path / "photos" / "cat" / f"{n}.png")
        picture(tmp_path / "elsewhere" / "dog" / f"{n}.png")
    (tmp_path / "photos" / "dog").symlink_to(tmp_path / "elsewhere" / "dog")
    (tmp_path / "photos" / "cat" / "out.png").symlink_to("../../elsewhere/dog/0.png")
    (tmp_path / "photos" / "cat" / "in.png").symlink_to("0.png")
    return tmp_path


@pytest.fixture
def table(folder):
    names = ["cat/0.png", f"{folder}/elsewhere/dog/1.png", "cat/out.png", "../elsewhere/dog/2.png", "cat/in.png"]
    path = folder / "photos" / "rows.csv"
    path.write_text("image,label\n" + "".join(f"{name},{n % 2}\n" for n, name in enumerate(names)))
    return path


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*map(str, arguments)])
    return done.exit_code, done.output


def test_links_out_of_a_folder_are_followed_and_counted_in_one_line(folder):
    built = bushel.build("photos", "out")
    assert (built.records, built.manifest.counted) == (8, {LINKS_OUT: 2})
    code, said = run("build", "photos", "again")
    line = "\nnote: 2 links that lead out of the folder of the source and were followed (--inside refuses them)\n"
    assert (code, line in said) == (0, True)


def test_a_build_that_stays_inside_refuses_a_link_that_leads_out_and_makes_nothing(folder):
    with pytest.raises(FileProblem, match=r"photos/dog: is a link that leads out of photos, and --inside refuses"):
        bushel.build("photos", "out", run=INSIDE)
    (folder / "photos" / "dog").unlink()
    code, said = run("build", "photos", "out", "--inside")
    assert (code, said.splitlines()[0]) == (
        2,
        "bushel: photos/cat/out.png: is a link that leads out of photos, and --inside refuses those",
    )
    assert run("build", "photos", "out", "--inside", "--plan")[0] == 2
    assert not (folder / "out").exists()
    (folder / "photos" / "cat" / "out.png").unlink()
    assert bushel.build("photos", "out", run=INSIDE).records == 4  # the link to another place inside is followed


def test_images_that_a_table_names_outside_are_counted_or_refused_by_row(table, tmp_path):
    built = bushel.build(sources.table(table, image_column="image"), "out")
    assert (built.records, built.manifest.counted) == (5, {NAMED_OUT: 3})
    with pytest.warns(bushel.BushelWarning):
        built = bushel.build(sources.table(table, image_column="image"), "kept", run=INSIDE)
    assert (built.records, built.refused, built.manifest.counted) == (2, 3, {})
    lines = (tmp_path / "kept" / "_quarantine.jsonl").read_text().splitlines()
    reasons = " ".join(json.loads(line)["reason"] for line in lines)
    assert "elsewhere/dog/1.png' is not in the folder" in reasons
    assert "cat/out.png: is a link that leaves the folder" in reasons
    assert "'../elsewhere/dog/2.png' is not in the folder" in reasons


def test_a_dataset_with_images_from_outside_is_not_finished_for_a_build_that_stays_inside(table):
    options = ("build", "photos/rows.csv", "out", "--set", "image_column=image")
    assert run(*options)[0] == 0
    code, said = run(*options, "--inside")
    assert code == 2
    assert "out: was built without --inside, and holds 3 images from outside the folder of the source" in said
    assert run(*options, "--inside", "--overwrite")[0] == 1
    assert run(*options, "--inside") == (0, said_nothing_to_do := run(*options, "--inside")[1])
    assert "nothing to do" in said_nothing_to_do


def test_images_of_annotations_outside_are_counted_or_refused(folder):
    boxes = [{"id": 1, "image_id": n, "category_id": 1, "bbox": [0, 0, 4, 4]} for n in (1, 2)]
    names = ["cat/0.png", "../elsewhere/dog/0.png"]
    images = [{"id": n, "file_name": name, "width": 8, "height": 6} for n, name in enumerate(names, 1)]
    coco = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    (folder / "a.json").write_text(json.dumps(coco))
    source = sources.coco("a.json", "photos")
    assert bushel.build(source, "out").manifest.counted == {NAMED_OUT: 1}
    with pytest.warns(bushel.BushelWarning):
        built = bushel.build(source, "kept", run=bushel.Run(workers=1, inside=["a.json", "photos"]))
    assert (built.records, built.refused) == (1, 1)


def test_a_recipe_is_kept_in_the_working_folder_and_cannot_say_otherwise(folder, monkeypatch):
    recipe = folder / "recipe.toml"
    recipe.write_text(f'[source]\npath = "{folder}/elsewhere"\n')
    assert run("build", "recipe.toml", "out", "--inside")[0] == 0
    monkeypatch.chdir(folder / "photos")
    code, said = run("build", "../recipe.toml", "../other", "--inside")
    assert (code, said.splitlines()[0]) == (
        2,
        f"bushel: {folder}/elsewhere: is outside of the working folder, and --inside refuses that",
    )
    with pytest.raises(FileProblem, match="is outside of the working folder"):
        bushel.build_recipe("../recipe.toml", "../other", run=INSIDE)
    for line in ("inside = false\n[source]\n", "[source]\ninside = false\n"):
        recipe.write_text(f'{line}path = "{folder}/elsewhere"\n')
        assert run("build", "../recipe.toml", "../other", "--inside")[0] == 2
    assert not (folder / "other").exists()


def test_what_options_name_is_inside_because_the_user_named_it(folder, monkeypatch):
    (folder / "labels.csv").write_text("file,label\ncat/0.png,a\ncat/1.png,b\ncat/2.png,a\n")
    for link in ("dog", "cat/out.png", "cat/in.png"):
        (folder / "photos" / link).unlink()
    assert run("build", "photos", "out", "--inside", "--set", "labels=labels.csv")[0] == 0
    recipe = folder / "photos" / "recipe.toml"
    recipe.write_text('[source]\nkind = "images"\npath = "."\nlabels = "../labels.csv"\n')
    monkeypatch.chdir(folder / "photos")
    assert run("build", "recipe.toml", "../other", "--inside")[0] == 2
    assert run("build", "recipe.toml", "../other", "--inside", "--set", "labels=../labels.csv")[0] == 0


def test_a_pattern_and_a_folder_of_tables_are_looked_at_too(folder):
    (folder / "real.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "tables").mkdir()
    (folder / "tables" / "x.csv").symlink_to(folder / "real.csv")
    for named in ("tables", "tables/*.csv"):
        assert bushel.build(named, folder / "out", run=bushel.Run(overwrite=True)).manifest.counted == {LINKS_OUT: 1}
        with pytest.raises(FileProblem, match="x.csv: is a link that leads out"):
            bushel.build(named, folder / "kept", run=INSIDE)
    assert bushel.build("tables/x.csv", folder / "kept", run=INSIDE).records == 2  # named by the user
