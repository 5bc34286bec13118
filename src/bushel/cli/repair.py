"""`repair`: keeping what is intact."""

from __future__ import annotations

import sys

import click

from bushel.cli.info import json_option


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH… OUT")
@json_option
def repair(paths: tuple[str, ...], as_json: bool) -> None:
    """Keep every intact record of damaged files.

    \b
      bushel repair train-00003.tfrecord train-00003.repaired
      bushel repair 'train-*.tfrecord' repaired/

    OUT is a file for one file, else a folder. Files are never changed, and nothing is overwritten. Past bad
    data exactly, past a bad header to the next place where both checksums hold.

    Exit: 0 nothing was lost, 1 something was lost (by byte range), 2 unreadable.
    """
    import bushel

    if len(paths) < 2:
        raise click.UsageError("give at least one file, and OUT last")
    repaired = bushel.repair(paths[:-1], paths[-1])
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(repaired), indent=2))
    else:
        for file in repaired:
            _print_repaired(file)
    sys.exit(1 if any(file.lost for file in repaired) else 0)


def _print_repaired(file: object) -> None:
    from bushel.building import Repaired
    from bushel.errors import fault_words, quantity

    assert isinstance(file, Repaired)
    click.echo(
        f"{file.path}: {quantity(file.kept, 'record')} kept in {file.out}, {quantity(file.bytes_lost, 'byte')} lost"
    )
    for lost in file.lost:
        click.echo(f"  bytes {lost.begin} to {lost.end}, from record {lost.record} on: {fault_words(lost.fault)}")
