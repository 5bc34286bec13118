"""Options of a command under headings, where there are too many for one list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

__all__ = ["Headed"]


class Headed(click.Command):
    """A command whose `--help` has a heading before each option that `headings` names."""

    def __init__(self, *args: Any, headings: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.headings = headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, in their order."""
        parts: dict[str, list[tuple[str, str]]] = {}
        heading = "Options"
        for option in self.get_params(ctx):
            heading = self.headings.get(option.name or "", heading)
            row = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if row is not None:
                parts.setdefault(heading, []).append(row)
        for heading, rows in parts.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
