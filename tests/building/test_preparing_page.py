"""The code of docs/preparing.md that is about tables, balance and size runs, one block behind the other."""

import re
from pathlib import Path

import pytest

import bushel
from bushel import transforms as t
from bushel.building.recipe import read_recipe

PAGE = (Path(__file__).parents[2] / "docs" / "preparing.md").read_text()
OURS = ("Preparing samples", "What is learnt, and from what", "At reading time instead", "Size")


def blocks(language: str, sections: tuple[str, ...]) -> list[str]:
    parts = re.split(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)
    bodies = [body for title, body in zip(parts[1::2], parts[2::2], strict=True) if title in sections]
    return [block for body in bodies for block in re.findall(rf"```{language}\n(.*?)```", body, re.DOTALL)]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"{'' if n % 7 == 0 else 20 + n % 50},{['Oslo', 'Rome'][n % 2]},{int(n % 9 == 0)}" for n in range(300)]
    (tmp_path / "people.csv").write_text("\n".join(["age,city,bought", *rows]))
    return tmp_path


def test_the_python_runs(people):
    found = blocks("python", OURS)
    assert len(found) == 4
    names: dict[str, object] = {}
    for block in found:
        exec(compile(block, "docs/preparing.md", "exec"), names)
    data = bushel.open("data")
    sample = t.apply_all(data.transforms(), {"age": 41.0, "city": "Oslo"})
    assert sample["city"].tolist() == [1, 0]


def test_the_recipes_are_read(people):
    found = blocks("toml", ("Preparing samples", "Balance"))
    assert len(found) == 2
    for number, block in enumerate(found):
        path = people / f"{number}.toml"
        path.write_text(block)
        recipe = read_recipe(path)
    assert recipe.balance is not None
    built = bushel.build_recipe(people / "0.toml", "again", run=bushel.Run(workers=1))
    assert [table["transform"] for table in built.manifest.recipe["transforms"]] == ["fill", "standardise", "one_hot"]
