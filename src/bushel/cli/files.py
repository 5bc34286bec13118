"""`index`, `repair` and `bench`: random access to files, what is intact of them, and how fast they are read."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from bushel.cli.flags import Grouped, flag, json_flag, paths_argument

if TYPE_CHECKING:
    from bushel.building import Repaired

__all__ = ["bench", "index", "repair"]


@click.command(cls=Grouped)
@paths_argument
@flag("--label", metavar="COL", help="Scalar feature to keep as the label")
@flag("--key", metavar="COL", help="Feature whose hash is the key of a record")
@flag("--value", "values", metavar="COL", multiple=True, help="Another scalar feature to keep; repeatable")
@flag("--length", "lengths", metavar="COL", multiple=True, help="Feature whose number of values to keep; repeatable")
@flag("--text", is_flag=True, help="Write FILE.idx as text instead, as DALI's tfrecord2idx does")
@json_flag
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

    Writes _index/FILE.idx beside each FILE, or into the user's cache if that folder cannot be written.

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
    if as_json:
        click.echo(json.dumps({"written": [str(path) for path in written]}))
        return
    for path in written:
        click.echo(str(path))


@click.command(cls=Grouped)
@click.argument("paths", nargs=-1, required=True, metavar="PATH… OUT")
@json_flag
def repair(paths: tuple[str, ...], as_json: bool) -> None:
    """Keep every intact record of damaged files.

    \b
      bushel repair train-00003.tfrecord train-00003.repaired
      bushel repair 'train-*.tfrecord' repaired/

    OUT is a file if there is one PATH, else a folder. The files themselves are never changed, and nothing is
    overwritten. Damaged data is skipped exactly; after a damaged header, reading resumes at the next place where both
    checksums hold.

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


def _print_repaired(file: Repaired) -> None:
    from bushel.errors import fault_words, quantity

    click.echo(
        f"{file.path}: {quantity(file.kept, 'record')} kept in {file.out}, {quantity(file.bytes_lost, 'byte')} lost"
    )
    for lost in file.lost:
        click.echo(f"  bytes {lost.begin} to {lost.end}, from record {lost.record} on: {fault_words(lost.fault)}")


@click.command(cls=Grouped)
@paths_argument
@flag("--split", metavar="NAME", help="Split to read  [default: the first]")
@flag("--batch-size", type=click.IntRange(1), default=256, metavar="N", help="Records per batch  [default: 256]")
@flag("--column", "columns", multiple=True, metavar="COL", help="Feature to read; repeatable  [default: all]")
@flag("--in-order", is_flag=True, help="Read in file order instead of shuffled")
@flag("--block", type=click.IntRange(1), metavar="N", help="Shuffle blocks of N neighbouring records")
@flag("--seconds", type=click.FloatRange(0, min_open=True), default=5.0, help="How long to read  [default: 5]")
@flag("--threads", type=click.IntRange(1), metavar="N", help="Number of reader threads  [default: cores]")
@flag("--process", is_flag=True, help="Make batches in a helper process")
@json_flag
def bench(
    paths: tuple[str, ...],
    split: str | None,
    batch_size: int,
    columns: tuple[str, ...],
    in_order: bool,
    block: int | None,
    seconds: float,
    threads: int | None,
    process: bool,
    as_json: bool,
) -> None:
    """Measure how fast a dataset is read, and where the time goes.

    \b
      bushel bench data/
      bushel bench data/ --in-order --column label

    Reads in a loop for some seconds, decodes encoded images, names the slowest stage, and suggests what to change.
    Writes nothing but an index if there is none.

    Exit: 0 measured, 1 there are damaged records, 2 wrong arguments or unreadable input.
    """
    import msgspec

    from bushel.reading import Order, Workers, measure

    report = measure(
        list(paths),
        split=split,
        batch_size=batch_size,
        columns=columns or None,
        order=Order(shuffle=not in_order, block=block),
        seconds=seconds,
        workers=Workers(threads=threads, process=process),
    )
    if as_json:
        facts = {**msgspec.to_builtins(report), "slowest": report.slowest, "advice": report.advice}
        click.echo(msgspec.json.encode(facts).decode())
    else:
        click.echo(str(report))
    if report.damaged:
        raise SystemExit(1)
