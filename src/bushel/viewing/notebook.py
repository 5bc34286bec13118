"""A page in the cell of a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from os import PathLike

from bushel.errors import BushelError
from bushel.reading.dataset import Split
from bushel.storage import AnyPath
from bushel.viewing.opened import open_splits
from bushel.viewing.server import Served, require_server, serve
from bushel.viewing.viewer import Viewer, open_viewer


class Shown:
    """A split that is being shown: notebooks display the page, and other places the link to it."""

    def __init__(self, served: Served, height: int) -> None:
        self._served = served
        self._height = height

    @property
    def link(self) -> str:
        """The address of the page, with its token."""
        return self._served.link

    def stop(self) -> None:
        """End it."""
        self._served.stop()

    def __repr__(self) -> str:
        return self.link

    def _repr_html_(self) -> str:
        link = escape(self.link + "browse")
        return (
            f'<iframe src="{link}" width="100%" height="{self._height}" style="border:1px solid #8884" title="records">'
            f'</iframe><p><a href="{link}" target="_blank" rel="noopener">Open in a tab</a></p>'
        )


def view(data: Split | AnyPath | Iterable[AnyPath], *, marks: AnyPath | None = None, height: int = 640) -> Shown:
    """Show a split, a selection of its records, or whatever paths name, in the cell of a notebook.

    It is served in the background, to this machine only, until `stop` is called or the process ends.

    >>> bushel.view(train.filter("label == 'cat'"))
    """
    require_server()
    if isinstance(data, Split):
        if data.is_raw:
            raise BushelError("raw data cannot be viewed: build it first (bushel.build)")
        viewer = Viewer([open_splits([data], str(data.paths[0].parent))], marks=marks)
    else:
        viewer = open_viewer([data] if isinstance(data, str | PathLike) else list(data), marks=marks)
    return Shown(serve(viewer.start(), port=0, in_frames=True).start(), height)
