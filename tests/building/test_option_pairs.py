"""Options of `build` in combination: users give two at once, and each must still do what it does alone."""

import json
import re
import traceback
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from making import digests
from PIL import Image

import bushel
from bushel.building.engines import LocalEngine
from bushel.cli import build as build_command
from bushel.cli import cli
from bushel.errors import BushelError

ROWS = 36
CLASSES = ("bird", "cat", "cat", "dog", "dog", "dog")  # unequal, so that balance has something to do


def _rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"r{row:02d}",
            "age": 20 + row % 7,
            "height": 1.5 + row / 50,
            "colour": ("red", "green", "blue")[row % 3],
            "owner": f"owner{row % 8}",
            "text": f"the {CLASSES[row % 6]} number {row} ran home",
            "label": CLASSES[row % 6],
        }
        for row in range(ROWS)
    ]


def make_images(folder: Path) -> Path:
    for row in range(ROWS):
        path = folder / "photos" / CLASSES[row % 6] / f"{row:02d}.{'png' if row % 5 == 0 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(row).integers(0, 255, (20 + row % 3, 24, 3), np.uint8)
        Image.fromarray(pixels).save(path)
    return folder / "photos"


def make_csv(folder: Path) -> Path:
    lines = [",".join(map(str, row.values())) for row in _rows()]
    (folder / "rows.csv").write_text("\n".join([",".join(_rows()[0]), *lines]) + "\n")
    return folder / "rows.csv"


def make_json_lines(folder: Path) -> Path:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows()))
    return folder / "rows.jsonl"


def make_parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(_rows()), folder / "rows.parquet", row_group_size=10)
    return folder / "rows.parquet"


def make_arrays(folder: Path) -> Path:
    rows = _rows()
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    np.savez(folder / "rows.npz", **columns)
    return folder / "rows.npz"


def make_records(folder: Path) -> Path:
    with bushel.Writer(folder / "rows.tfrecord") as writer:
        for row in _rows():
            writer.write({**row, "height": np.float32(row["height"])})
    return folder / "rows.tfrecord"


def make_sounds(folder: Path) -> Path:
    for row in range(ROWS):
        path = folder / "sounds" / CLASSES[row % 6] / f"{row:02d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            samples = 9000 * np.sin(np.arange(800 + row) * (1 + row) / 40)
            file.writeframes(samples.astype("<i2").tobytes())
    return folder / "sounds"


SOURCES = {
    "images": make_images,
    "csv": make_csv,
    "parquet": make_parquet,
    "jsonl": make_json_lines,
    "arrays": make_arrays,
    "records": make_records,
    "sounds": make_sounds,
}

# A flag that is refused alone on a source is left out of its pairs. Capital words are names that sources have.
OPTIONS: dict[str, list[str]] = {
    "--label": ["--label", "COLOUR"],
    "--key": ["--key", "id"],
    "--columns": ["--columns", "AGE,HEIGHT,label,text,COLOUR"],
    "--type": ["--type", "AGE=float32"],
    "--rename": ["--rename", "HEIGHT=tall"],
    "--limit": ["--limit", "29"],
    "--marks": ["--marks", "MARKS"],
    "--constrain": ["--constrain", "AGE:max=25"],
    "--split": ["--split", "60/40"],
    "--split column": ["--split", "COLOUR"],
    "--stratify": ["--split", "60/40", "--stratify", "label", "--exact"],
    "--group": ["--split", "60/40", "--group", "OWNER"],
    "--resplit": ["--split", "50/50", "--resplit"],
    "--seed": ["--seed", "7"],
    "--shard-size": ["--shard-size", "1K"],
    "--shards": ["--shards", "3"],
    "--compression": ["--compression", "gzip"],
    "--order": ["--order", "source"],
    "--fill": ["--fill", "AGE=mean"],
    "--standardise": ["--standardise", "HEIGHT"],
    "--encode": ["--encode", "COLOUR"],
    "--transform": ["--transform", "clip:HEIGHT,low=1.6"],
    "--require": ["--require", "AGE"],
    "--log": ["--log", "AGE"],
    "--min-max": ["--min-max", "AGE"],
    "--robust-scale": ["--robust-scale", "HEIGHT"],
    "--one-hot": ["--one-hot", "COLOUR"],
    "--tokenise": ["--tokenise", "word", "--vocabulary", "9", "--length", "4"],
    "--clean": ["--clean", "nfc,lower"],
    "--tfidf": ["--tfidf", "8"],
    "--hash-ngrams": ["--hash-ngrams", "16"],
    "--resize": ["--resize", "8x8"],
    "--fit": ["--resize", "9x7", "--fit", "crop", "--scaled"],
    "--image-format": ["--image-format", "png"],
    "--background": ["--background", "white"],
    "--verify": ["--verify", "none"],
    "--keep-bytes": ["--keep-bytes"],
    "--tiles": ["--tiles", "8x8"],
    "--windows": ["--windows", "4", "--time", "age"],
    "--balance": ["--balance", "oversample"],
    "--balance undersample": ["--balance", "undersample"],
    "--balance smote": ["--balance", "smotenc"],
    "--strict": ["--strict"],
    "--max-bad": ["--max-bad", "50%"],
    "--no-check": ["--no-check"],
}


NAMES = {"AGE": "age", "HEIGHT": "height", "COLOUR": "colour", "OWNER": "owner"}
OTHER_NAMES = {
    "images": {"AGE": "image/height", "HEIGHT": "image/width", "COLOUR": "label", "OWNER": "key"},
    "sounds": {"AGE": "audio/length", "HEIGHT": "audio/rate", "COLOUR": "label", "OWNER": "key"},
}


class _Kept(LocalEngine):
    """Workers that one build leaves for the next."""

    def close(self) -> None:
        pass

    def shrink(self, workers: int) -> None:
        pass

    def end(self) -> None:
        super().close()


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    said: str
    error: BaseException | None = None


@dataclass
class Bench:
    """A source of each kind, made once, and workers that stay."""

    folder: Path
    crew: _Kept
    patch: pytest.MonkeyPatch
    number: int = 0

    def source(self, kind: str) -> Path:
        home = self.folder / kind
        if not home.exists():
            home.mkdir()
            path = SOURCES[kind](home)
            marks = [{"mark": "drop", "key": key} for key in keys_of(path)[:3]]
            (home / "marks.jsonl").write_text("".join(json.dumps(mark) + "\n" for mark in marks))
        return next(path for path in home.iterdir() if path.name != "marks.jsonl")

    def build(self, kind: str, flags: list[str], workers: int) -> tuple[Outcome, Path]:
        self.number += 1
        source, out = self.source(kind), self.folder / f"out{self.number}"
        crew = self.crew if workers > 1 else None
        self.patch.setattr(build_command, "make_engine", lambda *_: crew)
        given = self.flags(kind, flags)
        more = [] if {"--shards", "--shard-size"} & set(given) else ["--shards", "2"]
        return self.call("build", source, out, *given, *more, "--json"), out

    def flags(self, kind: str, flags: list[str]) -> list[str]:
        """Flags with the names that a source has."""
        words = {**NAMES, **OTHER_NAMES.get(kind, {}), "MARKS": str(self.source(kind).parent / "marks.jsonl")}
        return [re.sub("|".join(words), lambda found: words[found[0]], flag) for flag in flags]

    def call(self, *arguments: object) -> Outcome:
        done = CliRunner().invoke(cli, [*map(str, arguments)], env={"BUSHEL_DEBUG": "1"})
        error = None if isinstance(done.exception, SystemExit) else done.exception
        said = str(error) if error is not None else done.output
        return Outcome(2 if error is not None else done.exit_code, said, error)


def keys_of(path: Path) -> list[str]:
    from bushel.sources.opening import open_source

    return [key.decode() for key in open_source(path).list(0, []).keys]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    crew = _Kept(2)
    with pytest.MonkeyPatch.context() as patch:
        yield Bench(tmp_path_factory.mktemp("pairs"), crew, patch)
    crew.end()


def is_own(error: BaseException) -> bool:
    """Whether an error was raised on purpose: by a line of bushel that raises it."""
    if isinstance(error, BushelError | click.ClickException):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    return isinstance(error, ValueError) and "/bushel/" in last.filename and "raise" in (last.line or "")


def names(said: str, option: str) -> bool:
    """Whether a refusal names an option: as a flag, as Python spells it, or by the column it was given."""
    flags = [word for word in OPTIONS[option] if word.startswith("--")]
    columns = [NAMES[word] for word in OPTIONS[option] if word in NAMES]
    spelled = [flag.removeprefix("--").replace("-", "_") for flag in flags]
    return any(word in said for word in (*flags, *spelled, *columns))


def see_that_it_holds(bench: Bench, kind: str, options: tuple[str, ...]) -> Outcome:
    """Build with one worker and with two, and see that both are the same and what was announced."""
    flags = [flag for option in options for flag in OPTIONS[option]]
    one, out = bench.build(kind, flags, workers=1)
    assert one.error is None or is_own(one.error), "".join(traceback.format_exception(one.error))
    two, again = bench.build(kind, flags, workers=2)
    assert one.code == two.code, (one.said, two.said)
    if one.code == 2:
        return one
    assert digests(out) == digests(again)
    built = json.loads(one.said) if one.said.startswith("{") else None
    if built is None:
        assert one.code == 1, one.said
        assert "refused" in one.said
        return one
    records = sum(shard["records"] for split in built["manifest"]["splits"].values() for shard in split["shards"])
    assert built["samples"] - built["refused"] == built["records"] == records
    plan = bench.call("build", bench.source(kind), "--plan", "--json", *bench.flags(kind, flags))
    assert json.loads(plan.said)["samples"] == built["samples"]
    return one


def flags_in(option: str) -> set[str]:
    return {word for word in OPTIONS[option] if word.startswith("--")}


def taken_alone(bench: Bench, kind: str) -> list[str]:
    """The options that a source takes, each on its own."""
    found = []
    for option, flags in OPTIONS.items():
        done, _ = bench.build(kind, flags, workers=1)
        assert done.error is None or is_own(done.error), "".join(traceback.format_exception(done.error))
        found += [option] if done.code != 2 else []
    return found


# What changes or refuses so much that other options find nothing to do; the pairs of all of them are `slow`.
_SWEEPING = ("--windows", "--tiles", "--split column", "--strict", "--verify")


def may_meet(one: str, other: str) -> bool:
    """Whether two options can be in one command: of a flag that is given twice the last counts."""
    is_renamed = "--rename" in (one, other) and any("HEIGHT" in word for word in (*OPTIONS[one], *OPTIONS[other])[2:])
    both = " ".join(word for option in (one, other) for word in OPTIONS[option])
    return not flags_in(one) & flags_in(other) and not (is_renamed and both.count("HEIGHT") > 1)


def cover(options: list[str], *, together: int = 9) -> Iterator[tuple[str, ...]]:
    """Few commands with many options each, in which every two options that may meet do so."""
    left = {pair for pair in combinations(options, 2) if may_meet(*pair)}
    while left:
        row = [*sorted(left)[0]]
        for option in sorted(options, key=lambda one: -sum(one in pair for pair in left)):
            if len(row) < together and option not in row and all(may_meet(option, one) for one in row):
                row.append(option)
        row.sort(key=options.index)
        left -= set(combinations(row, 2))
        yield tuple(row)


@pytest.mark.parametrize("kind", ["images", "records"])
def test_many_options_at_once_give_what_was_announced_with_any_workers(bench: Bench, kind: str) -> None:
    options = [option for option in taken_alone(bench, kind) if option not in _SWEEPING]
    for row in cover(options):
        done = see_that_it_holds(bench, kind, row)
        assert done.code in (0, 1), f"{kind} {' '.join(row)}: {done.said}"


def test_marks_drop_their_samples_whatever_is_done_to_the_images(bench: Bench) -> None:
    """A source that reads images in another way once gave the rows that marks drop, and left out others."""
    kept = set(keys_of(bench.source("images"))[3:])
    for more in (["--resize", "8x8"], ["--image-format", "png"], []):
        _, out = bench.build("images", ["--marks", "MARKS", *more], workers=1)
        assert {sample["key"] for sample in bushel.scan(out)} == {key.encode() for key in kept}


def test_an_option_that_takes_a_column_away_is_named_with_the_one_that_wants_it(bench: Bench) -> None:
    for pair, why in {
        ("--rename", "--standardise"): "--rename height=tall gave it another name",
        ("--windows", "--log"): "--windows makes other samples",
        ("--windows", "--key"): "--key cannot go with --windows",
        (
            "--split column",
            "--encode",
        ): "encode learns from the split 'train', and there is none; the splits of 'colour'",
    }.items():
        done, _ = bench.build("csv", [flag for option in pair for flag in OPTIONS[option]], workers=1)
        assert done.code == 2
        assert why in getattr(done.error, "on_command_line", done.said)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_every_two_options_work_together_or_are_refused_by_name(bench: Bench, kind: str) -> None:
    wrong = []
    for pair in combinations(taken_alone(bench, kind), 2):
        if not flags_in(pair[0]) & flags_in(pair[1]):
            done = see_that_it_holds(bench, kind, pair)
            if done.code == 2 and not all(names(done.said, option) for option in pair):
                wrong.append((pair, done.said))
    assert not wrong
