"""Every code block and command in README and docs runs as it stands, page by page, on small data."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import traceback
from glob import glob
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))

from pages import NEEDS, PAGES, ROOT, Block, blocks_of
from small_data import SMALL_DATA, nothing

RUN = ("python", "console", "toml")
COMMANDS = ("$ ", "bushel build ", "bushel check ", "bushel train ")
SHOWN = ("", "text", "json", "cpp", "html")


# These train networks.
SLOW = {f"docs/tutorials/{kind}.md" for kind in ("audio", "images", "series", "text", "video")}


def _with_its_mark(page: str) -> object:
    return pytest.param(page, marks=pytest.mark.slow) if page in SLOW else page


def run_python(block: Block, names: dict[str, object]) -> None:
    padding = "\n" * block.line  # so that a traceback names the line of the page
    exec(compile(padding + block.text, block.page, "exec"), names)


def run_console(block: Block) -> None:
    for command in block.commands:
        code, said = run_here(command) if is_heavy(command) else run_apart(command)
        # 1 says that something was found or refused: an answer, not a failure of the command
        assert code in (0, 1), f"{block.page}:{block.line}: {command}\n{said}"
        assert "Traceback" not in said, said


def is_heavy(command: str) -> bool:
    """Whether a command loads TensorFlow, which takes seconds in a process of its own, and needs no shell."""
    words = command.split()
    return words[0] == "bushel" and words[1] in ("train", "predict", "export") and not set(command) & set("|<>;&$")


def run_here(command: str) -> tuple[int, str]:
    from bushel.cli import cli

    words = [path for word in shlex.split(command)[1:] for path in sorted(glob(word)) or [word]]
    done = CliRunner().invoke(cli, words)
    is_broken = done.exc_info is not None and not isinstance(done.exception, SystemExit | None)
    return done.exit_code, done.output + ("".join(traceback.format_exception(done.exception)) if is_broken else "")


def run_apart(command: str) -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Threads of OpenMP wait for each other without sleeping: beside other tests, one is four times as fast as two.
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run_toml(block: Block) -> None:
    """Settings of `check`, or a recipe."""
    from bushel.building.recipe import read_recipe

    if block.text.startswith("[check]"):
        assert set(tomllib.loads(block.text)) == {"check"}
        return

    Path("recipe.toml").write_text(block.text)
    read_recipe(Path("recipe.toml"))


@pytest.mark.parametrize(
    "page", [_with_its_mark(page) for page in PAGES if any(b.language in RUN for b in blocks_of(page))]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SMALL_DATA.get(page, nothing)()
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        if not block.can_run:
            continue
        if block.language == "python":
            run_python(block, names)
        elif block.language == "console":
            run_console(block)
        elif block.language == "toml":
            run_toml(block)


@pytest.mark.parametrize("page", PAGES)
def test_a_block_says_what_it_is(page: str) -> None:
    for block in blocks_of(page):
        assert block.language in RUN + SHOWN + ("bash",), f"{page}:{block.line}: language {block.language!r}"
        assert block.needs is None or block.needs in NEEDS, f"{page}:{block.line}: needs {block.needs!r}"
        if block.language == "console":
            assert block.commands, f"{page}:{block.line}: a console block without a command"


@pytest.mark.parametrize("page", PAGES)
def test_no_command_hides_in_a_block_that_does_not_run(page: str) -> None:
    for block in blocks_of(page):
        if block.language in SHOWN:
            hidden = [line for line in block.text.splitlines() if line.startswith(COMMANDS)]
            assert not hidden, f"{page}:{block.line}: {hidden[0]}"


def test_every_command_that_the_readme_names_exists() -> None:
    from bushel.cli import cli

    named = set(re.findall(r"`bushel (\w+)", (ROOT / "README.md").read_text()))
    assert named
    assert named <= set(cli.list_commands(None))
