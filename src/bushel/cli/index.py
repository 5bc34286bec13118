"""`index`: random access for any TFRecord."""

from __future__ import annotations

from pathlib import Path

import click

from bushel.cli.info import json_option, paths_argument


@click.command()
@paths_argument
@click.option("--label", help="Scalar feature to carry as the label.")
@click.option("--key", help="Feature whose hash is the record's key.")
@click.option("--value", "values", multiple=True, help="Another scalar feature to carry; may be repeated.")
@click.option("--length", "lengths", multiple=True, help="Feature whose number of values to carry; may be repeated.")
@click.option("--text", is_flag=True, help="Write FILE.idx as text instead, as DALI's tfrecord2idx does.")
@json_option
def index(
    paths: tuple[str, ...],
    label: str | None,
    key: str | None,
    values: tuple[str, ...],
    lengths: tuple[str, ...],
    text: bool,
    as_json: bool,
) -> None:
    """Index files for random access.

    \b
      bushel index 'train-*.tfrecord' --label label

    Writes _index/FILE.idx beside each FILE, or into the user's cache where that cannot be written.

    Exit: 0 indexed, 2 unreadable or damaged.
    """
    import bushel
    from bushel.records.index import build_index, to_text
    from bushel.storage import list_files

    if text:
        written = []
        for path in list_files(paths):
            written.append(path.with_name(path.name + ".idx"))
            written[-1].write_text(to_text(build_index(path)))
    else:
        written = bushel.write_index(paths, label=label, key=key, values=values, lengths=lengths)
    _report(written, as_json=as_json)


def _report(written: list[Path], *, as_json: bool) -> None:
    import json

    if as_json:
        click.echo(json.dumps({"written": [str(path) for path in written]}))
        return
    for path in written:
        click.echo(str(path))
