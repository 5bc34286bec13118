"""The pages that are made from the code (commands, rules, options of sources): `python docs/manual.py` writes them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from bushel import __version__
from bushel.checking.findings import FAMILIES, Rule, all_rules
from bushel.cli import cli
from bushel.sources.opening import SOURCES
from bushel.sources.protocol import Option, options_of

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
CHECKS = """\
```console
$ bushel check data/                                  # a dataset, or anyone's TFRecords
$ bushel check 'data/train-*.tfrecord' --against 'data/val-*.tfrecord'
$ bushel check data/ --script train.py                # the pipeline code, read
$ bushel check data/ --script train.py --run          # and run for a few batches: see check-scripts.md
$ bushel check data/ --model run/model.keras --probe
$ bushel check data/ --contract run                   # prepared as the model was trained?
$ bushel schema data/ --pbtxt > schema.pbtxt          # as TFX and TensorFlow Data Validation write it
$ bushel check data/ --schema schema.pbtxt            # does the data follow it?
$ bushel check data/ --batch-size 32 --shuffle-buffer 1000
```

Every finding has evidence, a confidence (proven, likely or hint), a place and a fix. Exit codes: 0 for nothing at
`--fail-on` (default: error) or above, 1 for findings, 2 if the check could not run. `--select` and `--ignore` take rule
ids or their beginnings. `--json`, `--sarif`, `--junit` and `--github` print for programs.

Accept known findings, with a reason, in the `bushel.toml` of the working folder (and, with
`--trust-settings`, of the dataset):

```toml
[check]
ignore = ["IMG004"]
rules = ["our_rules.py"]          # custom rules: functions decorated with bushel.checking.rule
baseline = "check-baseline.json"  # old findings, written by --write-baseline

[[check.suppress]]
rule = "LBL005"
where = "train-*"                 # pattern of files or features; all, if left out
reason = "these classes really are this rare"
```
"""
SOURCE_OPTIONS = """# Options of sources

Made from the signatures of the sources: `python docs/manual.py`. Give them as
keywords in Python, in the `[source]` table of a recipe, or as `--set NAME=VALUE` to `bushel build`.
"""


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


def commands_page() -> str:
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


def rules_page() -> str:
    """All rules by family."""
    lines = [
        "# Checks",
        "",
        "Generated from the docstrings of the rules by `python docs/manual.py`.",
        "",
        CHECKS,
    ]
    rules = [rule for rule in all_rules() if rule.id[:3] in FAMILIES]
    for name, family in FAMILIES.items():
        lines += [f"## {name}: {family.title}", ""]
        for rule in rules:
            if rule.id.startswith(name):
                lines += [*_rule_lines(rule), ""]
    return "\n".join(lines) + "\n"


def _rule_lines(rule: Rule) -> list[str]:
    page = rule.page
    lines = [f"### {rule.id} {rule.name}", "", f"*{rule.severity}.* {page.what}", ""]
    for name, body in page.sections.items():
        text = re.sub(r"(https?://\S+)", r"<\1>", body)
        lines.append(f"* **{name}**: {text}")
    return lines


def options_page() -> str:
    """All options as Markdown."""
    return "\n".join([SOURCE_OPTIONS, *(line for kind in sorted(SOURCES) for line in _source_section(kind))])


def _source_section(kind: str) -> Iterator[str]:
    make = SOURCES[kind]
    yield f"## {kind}\n\n{(make.__doc__ or '').splitlines()[0]}\n"
    yield "| option | what it is | default |\n|---|---|---|"
    for option in options_of(make).values():
        help, default = _help_and_default(option)
        words = f" ({', '.join(f'`{word}`' for word in option.choices)})" if option.choices else ""
        yield f"| `{option.name}` | {help}{words} | {default} |"
    yield ""


def _help_and_default(option: Option) -> tuple[str, str]:
    """The help without the default, and the default."""
    found = re.fullmatch(r"(.*?) \(default: (.*)\)", option.help)
    if found is not None:
        return found[1], found[2]
    return option.help, "must be given" if option.is_required else _shown(option.default)


def _shown(default: Any) -> str:
    if default in (None, ()):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


PAGES = {
    "bushel.1": manual,
    "reference/commands.md": commands_page,
    "checks.md": rules_page,
    "source-options.md": options_page,
}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (HERE / name).write_text(make())
