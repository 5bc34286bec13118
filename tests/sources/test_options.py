"""Options of sources come from the signatures of the functions that open them."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from click.testing import CliRunner

import bushel
from bushel import sources
from bushel.cli import cli
from bushel.sources.opening import SOURCES
from bushel.sources.protocol import check_names, check_values, options_of, recipe_table


def sounds(
    path: str,
    *,
    rate: Annotated[int, "Samples per second"],
    channel: Annotated[Literal["left", "right"] | None, "Channel to take (default: both)"] = None,
    gain: Annotated[float | Literal["auto"], "Factor of the volume"] = "auto",
) -> str:
    """Take a sample from each sound."""
    check_values(sounds, locals())
    return f"{path} at {rate}"


def test_the_signature_declares_type_default_and_help() -> None:
    rate, channel, gain = options_of(sounds).values()
    assert (rate.is_required, rate.plain_type, rate.help) == (True, int, "Samples per second")
    assert (channel.is_required, channel.choices) == (False, ("left", "right"))
    assert (gain.plain_type, gain.choices) == (float, ("auto",))


def test_wrong_names_and_words_offer_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"sounds has no option 'chanel'; did you mean 'channel'\? \(there are: rate, "
    ):
        check_names(sounds, {"rate": 1, "chanel": "left"})
    with pytest.raises(ValueError, match=r"sounds needs rate \(samples per second\)"):
        check_names(sounds, {})
    with pytest.raises(ValueError, match="channel must be one of left, right; got 'lef'; did you mean 'left'?"):
        sounds("a", rate=1, channel="lef")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gain must be a number, or one of auto; got 'loud'"):
        sounds("a", rate=1, gain="loud")  # type: ignore[arg-type]


def test_a_recipe_holds_what_is_not_as_by_default() -> None:
    given = {"rate": 8000, "channel": None, "gain": "auto"}
    assert recipe_table(sounds, "a", given) == {"kind": "sounds", "path": "a", "rate": 8000}
    assert [*recipe_table(sounds, "a", given, first=("gain",))] == ["kind", "path", "gain", "rate"]


def test_every_option_of_a_source_has_help() -> None:
    without = [(kind, name) for kind, make in SOURCES.items() for name, o in options_of(make).items() if not o.help]
    assert without == []


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("columns", "a,b", "columns must be a list, got 'a,b'"),
        ("types", "str", "types must be a value by name, such as types.NAME=VALUE; got 'str'"),
        ("key", 3, "key must be text, got 3"),
        ("header", "maybe", "header must be True or False, got 'maybe'"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(option: str, value: Any, why: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=re.escape(why)):
        sources.table(tmp_path / "t.csv", **{option: value})


def test_an_option_of_whole_numbers_refuses_a_fraction(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rate must be a whole number, got 1\.5"):
        sources.audio(tmp_path, rate=1.5)  # type: ignore[arg-type]


def test_the_command_takes_lists_with_commas_and_numbers_as_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,3,label\n1,k,x\n2,l,y\n")
    arguments = ["build", str(tmp_path / "t.csv"), str(tmp_path / "out")]
    done = CliRunner().invoke(cli, [*arguments, "--set", "columns=a,label", "--set", "key=3"])
    assert done.exit_code == 0, done.output
    assert sorted(bushel.open(tmp_path / "out")["train"][0]) == ["a", "label"]
