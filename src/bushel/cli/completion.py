"""`completion`: the script that completes commands in a shell."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      bushel completion bash >> ~/.bashrc
      bushel completion zsh >> ~/.zshrc
      bushel completion fish > ~/.config/fish/completions/bushel.fish
    """
    from click.shell_completion import get_completion_class

    from bushel.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "bushel", "_BUSHEL_COMPLETE").source())
