"""What the README shows, works."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_code_in_the_readme_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


def test_every_command_in_the_readme_exists() -> None:
    from bushel.cli import cli

    named = set(re.findall(r"`bushel (\w+)", README))
    assert named
    assert named <= set(cli.list_commands(None))
