"""Recipes: all that decides the bytes, in a file that makes them again."""

import msgspec
import pytest
from making import Numbers

from bushel import Constraint, Recipe, Run, build
from bushel import transforms as t
from bushel.building.recipe import parse_size, read_recipe, write_recipe
from bushel.errors import FormatError
from bushel.transforms.by_name import describe_transforms, make_transforms
from bushel.transforms.fill_and_scale import Moments


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
        (
            "[balance]\nmethod = 'oversampl'",
            "balance.method must be one of oversample, undersample, smote, smotenc, "
            "borderline_smote, adasyn; got 'oversampl'; did you mean 'oversample'?",
        ),
        ("[balance]\nmethd = 'oversample'", "no key 'methd' in [balance]; did you mean 'method'?"),
        ("order = 'sorted'", "order must be one of shuffled, source; got 'sorted'; did you mean 'source'?"),
        ("seed = -1", "not a recipe: seed must be from 0 to 2^63 - 1, got -1"),
        ("shards = 0", "not a recipe: shards must be at least 1, got 0"),
        ("shard_size = 'large'", "shard_size must be a number of bytes such as 128M or 1G, got 'large'"),
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


def test_transforms_are_tables_of_their_own_and_are_read_back(tmp_path):
    given = [
        t.fill("age", value='not "told"\nat all', indicator=True),
        t.standardise("x", fitted=msgspec.convert({"count": 3, "mean": [1.5], "std": [2.0]}, Moments)),
        t.one_hot("city", classes=("a", "b ]] c")),
    ]
    recipe = Recipe(source={"kind": "table", "path": "rows.csv"}, transforms=describe_transforms(given))
    write_recipe(tmp_path / "recipe.toml", recipe)
    assert (tmp_path / "recipe.toml").read_text().count("\n[[transform]]\n") == 3
    assert read_recipe(tmp_path / "recipe.toml") == recipe
    assert make_transforms(recipe.transforms) == given


def test_a_list_of_features_stands_for_one_transform_each():
    tables = [{"transform": "standardise", "feature": ["a", "b"]}]
    assert make_transforms(tables) == [t.standardise("a"), t.standardise("b")]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("transform = 'standardist'", "got 'standardist'; did you mean 'standardise'?"),
        ("transform = 'clip'\nfeature = 'x'\nlo = 1", "transform clip: there is no field 'lo'; did you mean 'low'?"),
        ("transform = 'clip'\nfeature = 'x'\nlow = 'a'", "transform clip: low: expected float | null, got str"),
        ("transform = 'clip'\nlow = 1", "transform clip: feature is missing"),
        ("transform = 'clip'\nfeature = 'x'", "transform clip: low or high must be given"),
        ("feature = 'x'", "transform must be the name of one that bushel has, or module:Class; got ''"),
    ],
)
def test_a_transform_that_is_wrong_says_where_and_what(tmp_path, table, message):
    path = tmp_path / "recipe.toml"
    path.write_text(f"[[transform]]\n{table}\n")
    with pytest.raises(FormatError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith(message)


def test_a_recipe_from_a_dataset_makes_it_again(tmp_path):
    build(Numbers(100), tmp_path / "out", transforms=[t.standardise("x")], run=Run(workers=1))
    recipe = read_recipe(tmp_path / "out" / "recipe.toml")
    assert recipe.transforms == [{"transform": "standardise", "feature": "x", "each": True}]
