"""Text to ids in TFRecords, beside the same in plain Python with tf.train.Example; and what sparse TF-IDF saves.

Both read the same JSON lines, lower them, learn a vocabulary of 20,000 ids from all of them, cut or fill to 128 tokens
and write the ids. The plain way is what people write, and as fast as it gets with one process: `str.split` or
`re.findall`, `Counter`, a dict. bushel also checks that the text is UTF-8, indexes what it writes, reads it back and
verifies every checksum. Before anything is timed both write once, and the ids of every record are compared.
"""

import argparse
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from runs import arguments, directory, race, scaled, warm
from table import Limit, Target, settings, share, show

import bushel
from bushel import Run
from bushel import transforms as t

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SIZE, LENGTH = 20_000, 128
UNITS = ("whitespace", "word")
WORDS = re.compile(r"\w+")
TARGET = Target(least=10, aim=15)


def write_corpus(path: Path, documents: int, *, seed: int = 0) -> None:
    """English-like text: words by Zipf's law, with capitals and punctuation, 20 to 300 of them a document."""
    generator = np.random.default_rng(seed)
    letters = generator.integers(97, 123, (60_000, 12), dtype=np.uint8)
    sizes = np.clip(generator.poisson(6, 60_000), 2, 12)
    words = [bytes(row[:size]).decode() for row, size in zip(letters, sizes, strict=True)]
    shares = 1 / np.arange(1, len(words) + 1) ** 1.05
    with path.open("w") as file:
        for _ in range(documents):
            picked = generator.choice(len(words), int(generator.integers(20, 300)), p=shares / shares.sum())
            text = " ".join(words[place] for place in picked).capitalize() + "."
            file.write(json.dumps({"text": text}) + "\n")


def plain_python(source: Path, out: Path, unit: str) -> None:
    """What people write: two passes, a Counter, a dict, tf.train.Example and TFRecordWriter."""
    import tensorflow as tf

    def texts():
        with source.open() as file:
            for line in file:
                yield json.loads(line)["text"].lower()

    split = str.split if unit == "whitespace" else WORDS.findall
    counts = Counter()
    for text in texts():
        counts.update(split(text))
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[: SIZE - 2]
    ids = {word: number + 2 for number, (word, _) in enumerate(ranked)}
    with tf.io.TFRecordWriter(str(out)) as writer:
        for text in texts():
            row = [ids.get(word, 1) for word in split(text)[:LENGTH]]
            row += [0] * (LENGTH - len(row))
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=row))
            example = tf.train.Example(features=tf.train.Features(feature={"text": feature}))
            writer.write(example.SerializeToString())


def with_bushel(source: Path, out: Path, unit: str, workers: int) -> None:
    """The same by a build."""
    shutil.rmtree(out, ignore_errors=True)
    chain = [t.clean(form="none", lower=True), t.tokenise(unit=unit, size=SIZE, length=LENGTH)]
    bushel.build(str(source), out, transforms=chain, order="source", run=Run(workers=workers))


def compare(source: Path, folder: Path, unit: str) -> None:
    """Both must write the same ids."""
    plain_python(source, folder / "plain.tfrecord", unit)
    with_bushel(source, folder / "built", unit, 1)
    theirs = bushel.read(folder / "plain.tfrecord", ["text"])["text"]
    ours = bushel.read([str(path) for path in sorted((folder / "built").glob("*.tfrecord"))], ["text"])["text"]
    if not np.array_equal(theirs, ours):
        sys.exit(f"{unit}: bushel and plain Python wrote different ids")


def time_ids(
    source: Path, folder: Path, rounds: int, units: Sequence[str]
) -> tuple[list[dict[str, object]], float | None]:
    """One row a unit and number of workers."""
    rows, busy = [], None
    for unit in units:
        compare(source, folder, unit)
        calls = {
            "plain": lambda unit=unit: plain_python(source, folder / "plain.tfrecord", unit),
            "one": lambda unit=unit: with_bushel(source, folder / "built", unit, 1),
            "two": lambda unit=unit: with_bushel(source, folder / "built", unit, 2),
        }
        seconds, busy = race(calls, rounds=rounds)
        for name, workers in (("one", 1), ("two", 2)):
            ratio = seconds["plain"] / seconds[name]
            rows.append(
                {
                    "tokens": unit,
                    "workers": workers,
                    "plain s": round(seconds["plain"], 2),
                    "bushel s": round(seconds[name], 2),
                    "ratio": round(ratio, 1),
                    **(TARGET.judge(ratio) if workers == 2 else {}),
                }
            )
    return rows, busy


def sparse_size(folder: Path, documents: int) -> dict[str, object]:
    """The bytes of a dataset of TF-IDF vectors, as a share of the same as dense float32."""
    source = folder / "many.jsonl"
    write_corpus(source, documents, seed=1)
    out = folder / "tfidf"
    shutil.rmtree(out, ignore_errors=True)
    built = bushel.build(str(source), out, transforms=[t.tfidf(size=SIZE)])
    width = built.manifest.schema["text"].shape[0]
    part = built.bytes / (documents * width * 4)
    facts = {"documents": documents, "terms": width, "bytes": built.bytes, "of dense": f"{part:.2%}"}
    return {**facts, **Limit(0.1).judge(part)}


def main() -> None:
    """Run it and print both tables."""
    parser = arguments(__doc__, "dir", "scale", "rounds", "json")
    parser.add_argument("--only", choices=("ids", "tfidf"), help="one of the two tables [default: both]")
    parser.add_argument("--unit", choices=UNITS, action="append", help="tokens of this kind alone [default: all]")
    options = parser.parse_args()
    with directory(options.dir) as folder:
        if options.only != "tfidf":
            compare_times(folder, options)
        if options.only != "ids":
            size = sparse_size(folder, scaled(100_000, options.scale))
            show("TF-IDF stored sparse", settings(), [size], json_path=None)


def compare_times(folder: Path, options: argparse.Namespace) -> None:
    """Time all ways of writing ids, and print the table."""
    documents = scaled(200_000, options.scale)
    source = folder / f"texts-{documents}.jsonl"
    if not source.exists():
        write_corpus(source, documents)
    warm(source)
    rows, busy = time_ids(source, folder, options.rounds, options.unit or UNITS)
    facts = settings(documents=documents, megabytes=source.stat().st_size >> 20, others=share(busy))
    show("Tokenise and write text", facts, rows, json_path=options.json)
    print(flush=True)


if __name__ == "__main__":
    main()
