"""Every option that a message names exists, in the form that the caller can use."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

import bushel
from bushel import reading, sources, transforms
from bushel.cli import cli
from bushel.errors import CorruptRecord, Fault, FileProblem, in_python
from bushel.sources.opening import SOURCES
from bushel.sources.protocol import options_of

PACKAGE = Path(bushel.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
COMMAND = re.compile(r"\bbushel ([a-z]+) ([^`;\n]*)")
LONG = ("pages.py",)  # a page of many commands
OF_OTHERS = {"--upgrade", "--head", "--version"}  # of pip, of ray, and of no command
KEYWORD = re.compile(r"(?<![\w.`{-])([a-z][a-z_]*)=(?=[\"'\[({\d]|True|False|None)")


def options() -> dict[str, set[str]]:
    context = click.Context(cli)
    return {
        name: {opt for one in command.params for opt in (*one.opts, *one.secondary_opts)} | {"--help", "--help-all"}
        for name in cli.list_commands(context)
        if (command := cli.get_command(context, name)) is not None
    }


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name not in LONG]
    return [(path, ast.parse(path.read_text())) for path in paths]


def texts(tree: ast.AST) -> Iterator[str]:
    """All texts of a module but its docstrings; what is filled in is a pair of braces."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    left_out = inside | prose
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


@cache
def spoken() -> list[tuple[str, str]]:
    """The texts of all modules with their names; styles of HTML have names like options."""
    return [(path.name, text) for path, tree in modules() for text in texts(tree) if ":root {" not in text]


def hints(tree: ast.AST) -> Iterator[str]:
    """The texts of what is raised, and of help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
            yield from texts(node)


def keywords() -> set[str]:
    """The names of what calls in Python take: functions, sources, transforms, and values such as `Run`."""
    found = {name for make in SOURCES.values() for name in options_of(make)}
    for place in (bushel, sources, transforms, reading, bushel.building, bushel.training):
        for one in vars(place).values():
            if callable(one):
                try:
                    found |= set(inspect.signature(one).parameters)
                except (TypeError, ValueError):
                    continue
    return found


def test_every_option_that_a_message_names_is_one_of_a_command() -> None:
    known = set().union(*options().values()) | OF_OTHERS
    named = {(module, found) for module, text in spoken() for found in OPTION.findall(text)}
    assert len(named) > 100
    assert {pair for pair in named if pair[1] not in known} == set()


def test_every_command_that_a_message_names_has_the_options_it_is_given() -> None:
    known = options()
    wrong = [
        (module, command[0])
        for module, text in spoken()
        for command in COMMAND.finditer(text)
        if command[1] in known and not set(OPTION.findall(command[2])) <= known[command[1]]
    ]
    assert wrong == []


def test_every_option_of_a_source_that_a_message_sets_exists() -> None:
    known = {name for make in SOURCES.values() for name in options_of(make)}
    named = {
        found for _, tree in modules() for text in texts(tree) for found in re.findall(r"--set ([a-z_]+)[.=]", text)
    }
    assert len(named) > 5
    assert named - known == set()


FRAMEWORKS = ("tensorflow", "torch", "jax.py", "keras.py", "contract", "checking", "training", "grain.py", "ray")


def test_hints_that_reach_the_command_line_name_no_keyword_of_a_call() -> None:
    """Rooms whose errors a command prints write options as a command takes them; `str` translates them for Python."""
    rooms = [(path, tree) for path, tree in modules() if path.relative_to(PACKAGE).parts[0] == "sources"]
    found = [
        (path.name, text)
        for path, tree in rooms
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "help"
        for text in texts(node)
        if KEYWORD.search(text.replace("--set ", "--set-"))
    ]
    assert found == []


def test_every_keyword_that_a_message_names_is_one_of_a_call() -> None:
    own = {"a", "b", "train", "val", "rotate"}  # shares of splits, and an augmentation with its amount
    known = keywords() | own
    named = {
        found
        for path, tree in modules()
        if path.relative_to(PACKAGE).parts[0] not in FRAMEWORKS
        for text in hints(tree)
        for found in KEYWORD.findall(text)
    }
    assert named - known == set()


@pytest.mark.parametrize(
    ("hint", "call"),
    [
        ("Name it: --set label_column=COLUMN", "Name it: label_column=COLUMN"),
        ("Name it: --set columns.class=COLUMN", 'Name it: columns={"class": COLUMN}'),
        ("Keep those: --columns A,B", "Keep those: columns=[A, B]"),
        ('Choose rows: --set query="SELECT * FROM t"', 'Choose rows: query="SELECT * FROM t"'),
        ("Use --set labels=FILE.csv.", 'Use labels="FILE.csv".'),
        ("--set private=true allows it", "private=True allows it"),
        ("--set rate=16000 or --split 80/20", 'rate=16000 or split="80/20"'),
    ],
)
def test_a_hint_has_the_form_of_the_caller(hint: str, call: str) -> None:
    problem = FileProblem("x.csv", "is odd", help=[hint])
    assert problem.on_command_line == f"x.csv: is odd\n  {hint}"
    assert str(problem) == f"x.csv: is odd\n  {call}"
    assert in_python(hint) == call


@pytest.mark.parametrize("fault", [Fault.LENGTH_CRC, Fault.DATA_CRC, Fault.TOO_LARGE, Fault.MALFORMED])
def test_a_command_that_has_no_option_to_skip_damage_does_not_name_one(fault: Fault) -> None:
    error = CorruptRecord("x.tfrecord", record=3, offset=90, fault=fault)
    assert "on_fault" in str(error)
    assert "on_fault" not in error.on_command_line
    assert "\n  \n" not in error.on_command_line
