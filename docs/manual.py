"""The pages of all commands, from the commands themselves: `python docs/manual.py` writes both."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from bushel import __version__
from bushel.cli import cli

HERE = Path(__file__).parent
FILES = {
    "dataset.json": "The manifest of a dataset, written last: if it is there, the dataset is complete.",
    "_quarantine.jsonl": "Every refused sample of a build: where it came from, and why it was refused.",
    "bushel.toml": "In the working folder: findings of check that are accepted, and custom rules.",
}
ENVIRONMENT = {
    "BUSHEL_CACHE": "Folder for blocks that were read from object stores.",
    "BUSHEL_CACHE_SIZE": "Its largest size, such as 200G; 0 keeps nothing.",
    "BUSHEL_DEBUG": "If set, errors are shown with a traceback.",
    "KERAS_BACKEND": "The backend that train uses: tensorflow, jax or torch.",
}


def manual() -> str:
    """The man page, in roff."""
    lines = [
        f'.TH BUSHEL 1 "" "bushel {__version__}" "User Commands"',
        *(".SH NAME", r"bushel \- turn raw files into TFRecord datasets that train well"),
        *(".SH SYNOPSIS", ".B bushel", ".I COMMAND", "[OPTIONS] ARGUMENTS"),
        *(".SH DESCRIPTION", *_roff_text(cli.help or "")),
        ".SH COMMANDS",
    ]
    for context in _commands():
        lines += [f'.SS "{_roff(_usage(context))}"', *_roff_text(context.command.help or "")]
        for group, options in _options(context).items():
            lines += [".PP", f".B {_roff(group)}"]
            for names, help in options:
                lines += [".TP", f".B {_roff(names)}", _roff(help)]
    for title, entries in (("FILES", FILES), ("ENVIRONMENT", ENVIRONMENT)):
        lines.append(f".SH {title}")
        for name, help in entries.items():
            lines += [".TP", f".B {_roff(name)}", _roff(help)]
    return "\n".join([*lines, ".SH EXIT STATUS", *_roff_text((cli.epilog or "").removeprefix("Exit: "))]) + "\n"


def page() -> str:
    """The same as a page of the site."""
    lines = [
        "# Commands",
        "",
        "Generated from the commands by `python docs/manual.py`; `man bushel` shows the same.",
        "",
    ]
    for context in _commands():
        lines += [f"## {context.info_name}", "", "```bash", _usage(context), "```", ""]
        for text, is_shown_as_it_is in _paragraphs(context.command.help or ""):
            lines += ["```bash", text, "```", ""] if is_shown_as_it_is else [_escaped(text), ""]
        for group, options in _options(context).items():
            lines += [f"| {group} | |", "|---|---|"]
            lines += [_row(names, help) for names, help in options] + [""]
    return "\n".join(lines)


def _commands() -> Iterator[click.Context]:
    root = click.Context(cli, info_name="bushel")
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        yield click.Context(command, info_name=name, parent=root)


def _usage(context: click.Context) -> str:
    return f"{context.command_path} {' '.join(context.command.collect_usage_pieces(context))}"


def _options(context: click.Context) -> dict[str, list[tuple[str, str]]]:
    """All options, also those that only --help-all shows, by their groups."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in context.command.params:
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        group = getattr(parameter, "group", "Options")
        if record and group != "Help":
            groups.setdefault(group, []).append(record)
    return groups


def _paragraphs(text: str) -> Iterator[tuple[str, bool]]:
    """The paragraphs of a help text, and whether their lines stay as they are."""
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        if paragraph.lstrip().startswith("\b"):
            yield textwrap.dedent(paragraph.lstrip().removeprefix("\b\n")).rstrip(), True
        else:
            yield re.sub(r"\s+", " ", paragraph).strip(), False


def _roff_text(text: str) -> list[str]:
    lines = []
    for paragraph, is_shown_as_it_is in _paragraphs(text):
        around = ([".PP", ".nf"], [".fi"]) if is_shown_as_it_is else ([".PP"], [])
        lines += [*around[0], *map(_roff, paragraph.splitlines()), *around[1]]
    return lines


def _roff(line: str) -> str:
    line = line.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("…", "...").replace("→", "->")
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _row(names: str, help: str) -> str:
    names = names.replace("|", r"\|")
    return f"| `{names}` | {_escaped(help)} |"


def _escaped(text: str) -> str:
    """Text in Markdown, whose stars, bars and angles are themselves."""
    return re.sub(r"([*|<>_\[\]])", r"\\\1", text)


if __name__ == "__main__":
    (HERE / "bushel.1").write_text(manual())
    (HERE / "reference" / "commands.md").write_text(page())
