"""What the command line prints: names and texts that data brought are shown, never sent to a terminal as they are."""

from __future__ import annotations

import click

from bushel.errors import printable

__all__ = ["say", "say_coloured", "say_data"]


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text for people. It may hold whatever data brought."""
    click.echo(printable(text), err=err, nl=nl)


def say_data(text: str | bytes, *, nl: bool = True) -> None:
    """Print JSON, or another form for programs, in which a backslash and `u` stand for a character, too."""
    given = text.decode() if isinstance(text, bytes) else text
    click.echo(printable(given, form="json"), nl=nl)


def say_coloured(text: str) -> None:
    """Print text with colours of bushel's own; what is from data in it was escaped before they were added."""
    click.echo(text)
