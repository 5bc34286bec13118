"""Recipes: all that decides the bytes, in a file that makes them again."""

import pytest
from making import Numbers

from bushel import Constraint, Recipe, Run, build
from bushel.errors import FormatError
from bushel.writing.recipe import parse_size, read_recipe, write_recipe


def test_a_recipe_is_read_back_as_it_was_written(tmp_path):
    recipe = Recipe(
        source={"kind": "table", "path": "rows.csv"},
        split={"train": 0.8, "val": 0.2},
        stratify="species",
        seed=7,
        shard_size=1 << 20,
        compression="gzip",
        constraints={"age": Constraint(min=0, max=120)},
    )
    write_recipe(tmp_path / "recipe.toml", recipe)
    assert read_recipe(tmp_path / "recipe.toml") == recipe


def test_a_build_writes_its_recipe_into_the_dataset(tmp_path):
    build(Numbers(50), tmp_path / "out", seed=3, shards=2, run=Run(workers=1))
    recipe = read_recipe(tmp_path / "out" / "recipe.toml")
    assert recipe == Recipe(source={"kind": "numbers"}, seed=3, shards=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shardsize = 5", "no key 'shardsize'; did you mean 'shard_size'?"),
        ("[constraints.age]\nminn = 5", "no key 'minn' in [constraints.*]; did you mean 'min'?"),
        ("seed = 'x'", "not a recipe: expected `int`, got `str` - at `$.seed`"),
        ("seed = -1", "not a recipe: seed must be from 0 to 2^63 - 1, got -1"),
        ("shards = 0", "not a recipe: shards must be at least 1, got 0"),
        ("shard_size = 'large'", "shard_size must be a number of bytes such as 128M or 1G, got 'large'"),
        (
            "stratify = 'a'\ngroup = 'b'",
            "not a recipe: stratify and group cannot both be given: a group has no class of its own",
        ),
    ],
)
def test_a_recipe_that_is_wrong_says_where_and_what(tmp_path, text, message):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_recipe(path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("text", "size"), [("128M", 128 << 20), ("1.5GiB", 3 << 29), ("100", 100), ("2kb", 2048), (77, 77)]
)
def test_sizes_are_understood_as_people_write_them(text, size):
    assert parse_size(text) == size


def test_max_bad_is_a_count_or_a_share():
    assert Run(max_bad="0.5%").allowed(1000) == 5
    assert Run(max_bad=3).allowed(1000) == 3
    assert Run(max_bad=None).allowed(1000) is None
    assert Run(strict=True, max_bad=3).allowed(1000) == 0
    with pytest.raises(ValueError, match=r"max_bad must be a count or a share such as 0\.1%, got 'few'"):
        Run(max_bad="few")
