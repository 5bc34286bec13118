"""Reading whole files: records per second of tf.data, vahidk's tfrecord, protobuf in Python, and bushel.

tf.data and bushel read all records. The two that yield one sample after another are slow, and read a file of the
first records. All results are compared with the values that were written. bushel, tf.data and protobuf verify the
checksums, vahidk's tfrecord does not. The files are in the page cache. `others` is the share of the cores that other
processes took: a row with more than a few percent says little.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import runs
from columns import Features
from data import DATA_SETS, WIDE, DataSet, make
from rivals.reading import READERS, Reader, check
from table import Target, settings, share, show


@dataclass(frozen=True)
class Row:
    """One line of the table; `few` is how many records the slow rivals read."""

    name: str
    data_set: DataSet
    features: Features
    few: int
    target: Target


TWELVE = dict(list(WIDE.items())[7::15])
ROWS = [
    Row("floats", DATA_SETS["floats"], DATA_SETS["floats"].features, 20_000, Target(8, 15)),
    Row("tokens", DATA_SETS["tokens"], DATA_SETS["tokens"].features, 10_000, Target(4, 8)),
    Row("wide", DATA_SETS["wide"], WIDE, 2_000, Target(6, 12)),
    Row("wide12", DATA_SETS["wide"], TWELVE, 2_000, Target(6, 12)),
    Row("images", DATA_SETS["images"], DATA_SETS["images"].features, 10_000, Target(2.5, 4)),
    Row("gzip", DATA_SETS["floats_gz"], DATA_SETS["floats_gz"].features, 20_000, Target(1.5, 2.5)),
]


def measure(row: Row, records: int, *, directory: Path, writer: str, rounds: int) -> dict[str, object]:
    """Measure one line of the table."""
    counts = {name: min(row.few, records) if reader.is_slow else records for name, reader in READERS.items()}
    calls = {}
    for name, reader in READERS.items():
        path = make(row.data_set, counts[name], directory=directory, writer=writer)
        runs.say(f"{row.name}: comparing what {name} reads")
        check(reader, path, row.features, row.data_set.chunks(counts[name]))
        runs.warm(path)
        calls[name] = timed(reader, path, row.features)
    runs.say(f"{row.name}: {rounds} rounds")
    seconds, others = runs.race(calls, rounds=rounds)
    rates = {name: counts[name] / seconds[name] for name in calls}
    ratio = rates["bushel"] / rates["tf.data"]
    return {
        "records/s": row.name,
        "records": records,
        **rates,
        "bushel/tf.data": ratio,
        **row.target.judge(ratio),
        "others": share(others),
    }


def timed(reader: Reader, path: Path, features: Features) -> Callable[[], None]:
    """Prepare reading `path` to its end."""
    read: Callable[[], Iterable] = reader.prepare(path, features)
    return lambda: runs.drain(read())


def main() -> None:
    parser = runs.arguments(__doc__, "dir", "scale", "rounds", "writer", "json")
    parser.add_argument("--rows", nargs="+", choices=[row.name for row in ROWS], help="only these [default: all]")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.rows or row.name in options.rows]
    with runs.directory(options.dir) as directory:
        run = partial(measure, directory=directory, writer=options.writer, rounds=options.rounds)
        lines = [run(row, runs.scaled(row.data_set.records, options.scale)) for row in rows]
    facts = settings(scale=options.scale, rounds=options.rounds, writer=options.writer)
    show("Reading whole files, records per second", facts, lines, json_path=options.json)


if __name__ == "__main__":
    main()
