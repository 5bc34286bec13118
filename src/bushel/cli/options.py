"""Options that several commands share, and how --help groups them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

__all__ = ["Headed", "engine_options", "make_engine"]


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


if TYPE_CHECKING:
    from bushel.ray.engine import RayEngine


Command = TypeVar("Command", bound=Callable[..., Any])


def engine_options(command: Command) -> Command:
    """The options of commands that a cluster can do."""
    engine = click.option(
        "--engine", type=click.Choice(["local", "ray"]), default="local", help="This machine, or a cluster.  [local]"
    )
    address = click.option(
        "--address",
        metavar="ADDR",
        help="Of the Ray cluster: auto, HOST:PORT, ray://HOST:10001, local.  [one that runs here, else local]",
    )
    return engine(address(command))


def make_engine(engine: str, address: str | None, workers: int | None = None) -> RayEngine | None:
    """The engine that the options name; None: the usual one."""
    if engine == "local":
        if address is not None:
            raise click.UsageError("--address is for --engine ray")
        return None
    import bushel.ray
    from bushel.ray.cluster import require_ray

    require_ray("--engine ray")
    return bushel.ray.engine(address, workers=workers)
