"""`view` and `report`."""

from __future__ import annotations

import click

from bushel.cli.flags import Grouped, flag, paths_argument

__all__ = ["view"]


@click.command(cls=Grouped)
@paths_argument
@flag(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Port of the page; 0 takes any  [default: 8757, or next]"
)
@flag("--no-browser", is_flag=True, help="Print the link, and do not open a browser")
@flag(
    "--token",
    metavar="TEXT",
    envvar="BUSHEL_VIEW_TOKEN",
    help="Secret in the link, to keep it for bookmarks",
    rare=True,
)
def view(paths: tuple[str, ...], port: int | None, no_browser: bool, token: str | None) -> None:
    """Look at datasets in the browser.

    \b
      bushel view data/
      bushel view 'train-*.tfrecord'
      bushel view old/ new/ --no-browser

    PATH is a dataset, TFRecord files, a folder of them or a pattern. The page is served to this machine only, and the
    link holds a secret. Nothing is written into a dataset. Thumbnails are kept in the user's cache, up to 256 MiB.

    Exit: 0 stopped with Ctrl-C, 2 wrong arguments or unreadable input.
    """
    from bushel.viewing.server import PORT, require_server, serve

    require_server()
    from bushel.viewing.opened import open_all
    from bushel.viewing.viewer import Viewer

    served = serve(Viewer(open_all(paths)).start(), port=PORT if port is None else port, token=token)
    click.echo(served.link)
    click.echo(f"On a remote machine, first run on yours: ssh -L {served.port}:127.0.0.1:{served.port} HOST", err=True)
    click.echo("Stop with Ctrl-C.", err=True)
    if not no_browser:
        import webbrowser

        webbrowser.open(served.link)
    served.run()
