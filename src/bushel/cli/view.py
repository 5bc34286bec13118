"""`view` and `report`."""

from __future__ import annotations

import click

from bushel.cli.flags import Grouped, ProgressState, flag, paths_argument, show_progress

__all__ = ["report", "view"]


@click.command(cls=Grouped)
@paths_argument
@flag(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Port of the page; 0 takes any  [default: 8757, or next]"
)
@flag("--marks", metavar="FILE", help="File for marks on records, for bushel build --marks  [default: none]")
@flag("--no-browser", is_flag=True, help="Print the link, and do not open a browser")
@flag(
    "--token",
    metavar="TEXT",
    envvar="BUSHEL_VIEW_TOKEN",
    help="Secret in the link, to keep it for bookmarks",
    rare=True,
)
def view(paths: tuple[str, ...], port: int | None, marks: str | None, no_browser: bool, token: str | None) -> None:
    """Look at datasets in the browser.

    \b
      bushel view data/
      bushel view 'train-*.tfrecord'
      bushel view old/ new/ --no-browser
      bushel view data/ runs/1 runs/2 --marks marks.jsonl

    PATH is a dataset, TFRecord files, a folder of them, a pattern, or the folder of a run. The page is served to this
    machine only, and the link holds a secret. Nothing is written into a dataset. Thumbnails are kept in the user's
    cache, up to 256 MiB.

    Exit: 0 stopped with Ctrl-C, 2 wrong arguments or unreadable input.
    """
    from bushel.viewing.server import PORT, require_server, serve

    require_server()
    from bushel.viewing.viewer import open_viewer

    served = serve(open_viewer(paths, marks=marks).start(), port=PORT if port is None else port, token=token)
    click.echo(served.link)
    click.echo(f"On a remote machine, first run on yours: ssh -L {served.port}:127.0.0.1:{served.port} HOST", err=True)
    click.echo("Stop with Ctrl-C.", err=True)
    if not no_browser:
        import webbrowser

        webbrowser.open(served.link)
    served.run()


@click.command(cls=Grouped)
@paths_argument
@flag(
    "-o",
    "--output",
    default="report.html",
    metavar="FILE",
    help="File to write; .md for Markdown  [default: report.html]",
)
@flag("--sample", type=click.IntRange(1), metavar="N", help="Look at about N records of each split  [default: all]")
@flag("--no-check", is_flag=True, help="Leave out the findings of bushel check")
def report(paths: tuple[str, ...], output: str, sample: int | None, no_check: bool) -> None:
    """Write a report on datasets or runs: one file that needs no network.

    \b
      bushel report data/ -o report.html
      bushel report data/ -o report.md
      bushel report runs/1 runs/2 -o runs.html

    PATH is a dataset, TFRecord files, a pattern, or the folder of a run. Of datasets it shows splits, classes, features
    with distributions, findings and sample records; of runs the verdicts, metrics, curves and options that differ.
    The HTML stays below 5 MB.

    Exit: 0 written, 2 wrong arguments or unreadable input.
    """
    from bushel.viewing.report import write_report

    with show_progress(_step) as progress:
        written = write_report(paths, output, most=sample, checks=not no_check, progress=progress)
    click.echo(str(written))


def _step(split: str, done: int, of: int) -> ProgressState:
    return ProgressState("reading", done, of, f"{split}: {done:,} of {of:,} records")
