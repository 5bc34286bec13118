"""`bench`: where reading time goes."""

from __future__ import annotations

import click

from bushel.cli.info import json_option, paths_argument


@click.command()
@paths_argument
@click.option("--split", help="Which split to read.  [default: the first]")
@click.option("--batch-size", type=click.IntRange(1), default=256, show_default=True, help="Records in one batch.")
@click.option("--column", "columns", multiple=True, help="Feature to read; may be repeated.  [default: all]")
@click.option("--in-order", is_flag=True, help="Read in file order instead of shuffled.")
@click.option(
    "--block", type=click.IntRange(1), help="Shuffle blocks of so many neighbouring records instead of all records."
)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=5.0, show_default=True, help="How long to read."
)
@click.option("--threads", type=click.IntRange(1), help="Threads that make batches.  [default: cores]")
@click.option("--process", is_flag=True, help="Make batches in a helper process.")
@json_option
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
    """Say where reading time goes, how fast a dataset is read here, and what to change.

    \b
      bushel bench data/
      bushel bench data/ --in-order --column label

    Reads in a loop for some seconds, decodes encoded images, and names the slowest stage. Writes nothing but an index
    where one is missing.

    Exit: 0 measured, 1 damaged records were met, 2 wrong arguments or unreadable input.
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
