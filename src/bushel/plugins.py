"""What other packages add: sources, transforms, rules, engines and exports, found by their entry points.

An installed package is trusted, as every package is. Nothing is found in the working folder or in data: only where
Python itself looks for packages. A plug-in is imported when its name is asked for; rules, before a check.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from bushel.errors import BushelError

__all__ = ["Group", "Plugin", "all_plugins", "is_address", "load_all", "load_plugin", "plugins"]

Group: TypeAlias = Literal["sources", "transforms", "rules", "engines", "exports"]


class Plugin(NamedTuple):
    """One thing that a package adds."""

    group: Group
    name: str
    package: str
    version: str
    entry: EntryPoint

    def load(self) -> Any:
        """Import it. A package that cannot be imported is named."""
        try:
            return self.entry.load()
        except Exception as error:  # whatever the package raises when it is imported
            what = f"the plug-in {self.name!r} of {self.package} {self.version} cannot be loaded: {error}"
            raise BushelError(what, help=[f"To do without it: pip uninstall {self.package}"]) from error


def _package_folders() -> list[str]:
    """The folders of packages, and those that `PYTHONPATH` names; never the working folder."""
    known = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("purelib")]
    named = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    here = Path.cwd().resolve()
    wanted = {Path(folder).resolve() for folder in [*known, *named]} - {here}
    # What an editable install or a .pth file adds counts too, as long as packages are known to be installed there.
    return [folder for folder in sys.path if folder and Path(folder).resolve() in wanted]


@cache
def all_plugins() -> tuple[Plugin, ...]:
    """All plug-ins, by group and name. Of two with one name, the one that Python finds first."""
    found: dict[tuple[Group, str], Plugin] = {}
    for distribution in distributions(path=_package_folders()):
        for entry in distribution.entry_points:
            if not entry.group.startswith("bushel."):
                continue
            group: Any = entry.group.removeprefix("bushel.")
            if group in get_args(Group):
                package = distribution.metadata["Name"]
                found.setdefault((group, entry.name), Plugin(group, entry.name, package, distribution.version, entry))
    return tuple(found[key] for key in sorted(found))


def plugins(group: Group) -> dict[str, Plugin]:
    """The plug-ins of a group, by name."""
    return {plugin.name: plugin for plugin in all_plugins() if plugin.group == group}


def load_plugin(group: Group, name: str) -> Any | None:
    """What a plug-in of this name is; None if there is none."""
    found = plugins(group).get(name)
    return None if found is None else found.load()


def is_address(text: object) -> bool:
    """Whether a text is what only a plug-in understands, such as `waves://100`, and no path."""
    protocol, is_one, _ = text.partition("://") if isinstance(text, str) else ("", "", "")
    return bool(is_one) and protocol in plugins("sources")


def load_all(group: Group) -> Iterator[Any]:
    """All of a group."""
    return (plugin.load() for plugin in plugins(group).values())
