"""Writing one file: records per second of tf.train.Example, vahidk's tfrecord, and bushel.

The rivals write the first records, from samples that are ready in memory; bushel writes all records from columns, or
the same samples one by one. Every file is read back with tf.data and compared with what was to be written.
`tf` hands NumPy arrays to protobuf, as is usual; `tf, lists` is given lists, which protobuf takes much faster.
The time ends when the writer is closed, whether or not it waited for the disk. `others` is the share of the
cores that other processes took: a row with more than a few percent says little.
"""

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import runs
from columns import Sample, samples
from data import DATA_SETS, DataSet
from rivals.reading import READERS, check
from rivals.writing import (
    to_bushel,
    write_bushel_batches,
    write_bushel_samples,
    write_tf_samples,
    write_vahidk_samples,
)
from table import Target, settings, share, show


@dataclass(frozen=True)
class Row:
    """One line of the table; `few` is how many records are written one by one."""

    name: str
    data_set: DataSet
    few: int
    from_columns: bool
    target: Target


ROWS = [
    Row("floats", DATA_SETS["floats"], 20_000, True, Target(40, 100)),
    Row("wide", DATA_SETS["wide"], 1_000, True, Target(80, 200)),
    Row("floats, samples", DATA_SETS["floats"], 20_000, False, Target(5, 10)),
]


def measure(row: Row, records: int, *, directory: Path, rounds: int) -> dict[str, object]:
    """Measure one line of the table."""
    few = min(row.few, records)
    counts = {"tf": few, "tf, lists": few, "vahidk": few, "bushel": records if row.from_columns else few}
    paths = {name: directory / f"{name}.written" for name in counts}
    calls = {name: partial(call, paths[name]) for name, call in writers(row, few, records).items()}
    for name, call in calls.items():
        runs.say(f"{row.name}: comparing what {name} writes")
        call()
        check(READERS["tf.data"], paths[name], row.data_set.features, row.data_set.chunks(counts[name]))
    runs.say(f"{row.name}: {rounds} rounds")
    seconds, others = runs.race(calls, rounds=rounds, between=partial(remove, paths.values()))
    remove(paths.values())
    rates = {name: counts[name] / seconds[name] for name in calls}
    ratio = rates["bushel"] / rates["tf"]
    return {
        "records/s": row.name,
        "records": counts["bushel"],
        **rates,
        "bushel/tf, lists": rates["bushel"] / rates["tf, lists"],
        "bushel/tf": ratio,
        **row.target.judge(ratio),
        "others": share(others),
    }


def writers(row: Row, few: int, records: int) -> dict[str, Callable[[Path], None]]:
    """Prepare what is timed for each rival: a call that takes the path to write."""
    features = row.data_set.features
    rows = [sample for chunk in row.data_set.chunks(few) for sample in samples(chunk, features)]
    calls = {
        "tf": partial(write_tf_samples, rows=rows, features=features),
        "tf, lists": partial(write_tf_samples, rows=[with_lists(sample) for sample in rows], features=features),
        "vahidk": partial(write_vahidk_samples, rows=rows, features=features),
    }
    if not row.from_columns:
        return calls | {"bushel": partial(write_bushel_samples, rows=rows)}
    batches = [to_bushel(chunk, features) for chunk in row.data_set.chunks(records)]
    return calls | {"bushel": partial(write_bushel_batches, batches=batches)}


def with_lists(sample: Sample) -> Sample:
    """Put lists for arrays."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in sample.items()}


def remove(paths: Iterable[Path]) -> None:
    """Free the disk, so that no rival waits for what another wrote."""
    for path in paths:
        path.unlink(missing_ok=True)
    gc.collect()


def main() -> None:
    options = runs.arguments(__doc__, "dir", "scale", "rounds", "json").parse_args()
    with runs.directory(options.dir) as directory:
        run = partial(measure, directory=directory, rounds=options.rounds)
        lines = [run(row, runs.scaled(row.data_set.records, options.scale)) for row in ROWS]
    facts = settings(scale=options.scale, rounds=options.rounds)
    show("Writing one file, records per second", facts, lines, json_path=options.json)


if __name__ == "__main__":
    main()
