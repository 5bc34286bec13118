"""Where the work of a command is done: `--engine` and `--address`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bushel.ray.engines import RayEngine

__all__ = ["engine_options", "make_engine"]

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
