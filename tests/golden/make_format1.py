"""Write `format1`: a dataset, its indexes, two files of a Writer and the state of a reader, and what is in them.

    PYTHONPATH=tests python tests/golden/make_format1.py FOLDER

It was run once. What it wrote is never written again: it stands for all files of format 1 that users have.
"""

import json
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

from frozen_builds import ANIMALS, WORDS, fill_lines, write_every_kind
from test_frozen_bytes import plain, plain_records

import bushel
from bushel import Constraint, Run, sources
from bushel import transforms as t


def rows(numbers: range) -> list[dict[str, Any]]:
    return [{"n": n, "x": n / 4, "tags": WORDS[: n % 4], "label": ANIMALS[n * 7 % 11 % 3]} for n in numbers]


def write_dataset() -> None:
    first = sources.table(fill_lines("rows.jsonl", rows(range(30))), key="n")
    bushel.build(
        first,
        "dataset",
        transforms=[t.standardise("x")],
        split="75/25",
        shards=2,
        constraints={"n": Constraint(min=2)},
        run=Run(workers=1),
    )
    more = sources.table(fill_lines("more.jsonl", rows(range(30, 40))), key="n")
    bushel.build(more, "dataset", run=Run(workers=1, append=True))
    for name in ("rows.jsonl", "more.jsonl"):
        Path(name).unlink()


def write_files() -> None:
    write_every_kind(Path("every.tfrecord"))
    write_every_kind(Path("every.tfrecord.gz"), compression="gzip")
    bushel.write_index("every.tfrecord", label="label", key="name", lengths=["boxes"])


def read_on() -> list[list[int]]:
    """Save where a reader stands after its third batch, and return what it reads from there."""
    train = bushel.open("dataset")["train"]
    with bushel.batches(train, batch_size=4, order=bushel.Order(shuffle=True, seed=7), epochs=2) as feed:
        for _ in range(3):
            next(feed)
        Path("state.json").write_text(json.dumps(feed.state(), indent=1) + "\n")
        return [batch["n"].tolist() for batch in feed]


def records_of(split: bushel.Split) -> list[dict[str, Any]]:
    return plain_records(split[n] for n in range(len(split)))


def expected() -> dict[str, Any]:
    dataset = bushel.open("dataset")
    files = [*sorted(Path("dataset").glob("*.tfrecord")), Path("every.tfrecord")]
    return {
        "dataset": {name: records_of(split) for name, split in dataset.splits.items()},
        "prepared": plain(t.apply_all(dataset.transforms(), {"x": 5.0})["x"]),
        "indexes": {str(f): {k: v.tolist() for k, v in bushel.load_index(f).values.items()} for f in files},
        "file": records_of(bushel.open("every.tfrecord")["all"]),
        "batches": read_on(),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir()  # an error if it is there: old files stay as they are
    with chdir(folder):
        write_dataset()
        write_files()
        Path("expected.json").write_text(json.dumps(expected(), ensure_ascii=False) + "\n", encoding="utf-8")
