"""EXE010 to EXE019: how many batches and records there are, and what is lost of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.running.execution import Event, Execution

__all__: list[str] = []

MOST_DROPPED = 0.2  # of the records
FEW_BATCHES = 0.5  # of those that there are


def _named(chain: list[Event], *names: str) -> list[Event]:
    return [link for link in chain if link["name"] in names]


@rule("EXE010", "no-batches", needs="execution", rank=2)
def no_batches(run: Execution) -> Iterator[Finding]:
    """A dataset that gives no batch at all.

    Why: training ends at once, with a message that speaks of something else.
    Example: `drop_remainder=True` with fewer records than one batch; a pattern that matches nothing; a filter that
    lets nothing pass; `skip` of everything.
    Fix: look at the first link that gives nothing, which is the one that the finding names.
    Ignore: never.
    Reports: none collected.
    """
    for role, look in run.data_of("train", "val", "evaluate"):
        if look.get("batches") or look.get("failed"):
            continue
        chain = run.chain(look)
        suspects = _named(chain, "filter", "skip", "take", "shard", "batch", "padded_batch")
        dropping = [link for link in suspects if link["arguments"].get("drop_remainder")]
        hiding = [i for i, link in enumerate(chain) if link["name"] == "ignore_errors"]
        chosen = (dropping or suspects or chain)[:1]
        spots = [link["place"] for link in chosen]
        for i in hiding[:1]:  # whatever fails before it is dropped in silence
            failing = [link["function"] for link in chain[:i] if link["function"]]
            decoding = [
                spot for one in failing[::-1] for spot in run.lines_in(one, r"decode_|reshape|parse_|set_shape")
            ]
            spots = [chain[i]["place"], *decoding[:3], *spots]
        yield run.found(
            f"the dataset for {_words(role)} gives no batch", *spots, help="look at what is left after each link"
        )


@rule("EXE011", "never-ends", needs="execution", rank=2)
def never_ends(run: Execution) -> Iterator[Finding]:
    """An endless dataset without a number of steps.

    Why: the first epoch, or the first validation, never ends.
    Example: `ds.repeat()` and `fit(ds)` without `steps_per_epoch`
    Fix: drop `repeat()`, or give `steps_per_epoch` and `validation_steps`.
    Ignore: never.
    Reports: none collected.
    """
    for fit in run.fits:
        asked = {"train": fit["arguments"]["steps_per_epoch"], "val": fit["arguments"]["validation_steps"]}
        for role, steps in asked.items():
            look = fit.get(role)
            if look and look.get("infinite") and not steps:
                name = "steps_per_epoch" if role == "train" else "validation_steps"
                repeats = [link["place"] for link in _named(run.chain(look), "repeat")]
                yield run.found(
                    f"the dataset for {_words(role)} repeats forever, but fit is given no {name}",
                    *repeats[-1:],
                    fit["place"],
                    help=f"drop repeat(), or give {name}",
                )
    for event in run.of("evaluate", "predict"):
        look = event.get("data")
        if look and look.get("infinite") and not event.get("steps"):
            repeats = [link["place"] for link in _named(run.chain(look), "repeat")]
            yield run.found(
                f"the dataset repeats forever, and {event['kind']} is given no steps",
                *repeats[-1:],
                event["place"],
                help="drop repeat() for data that is evaluated",
            )


@rule("EXE012", "runs-out-of-data", severity="warning", needs="execution", rank=60)
def runs_out_of_data(run: Execution) -> Iterator[Finding]:
    """More steps are asked for than the dataset has batches.

    Why: Keras warns that the input ran out of data, and ends training early.
    Example: `fit(ds, steps_per_epoch=1000, epochs=10)` where `ds` has 200 batches and is not repeated
    Fix: leave `steps_per_epoch` out, or repeat the dataset.
    Ignore: where one epoch is meant to be part of the data, and the dataset is repeated.
    Reports: none collected.
    """
    for event in run.of("used_up"):
        if not re.search(r"StopIteration|OutOfRangeError|\bnext\([^()]*,", run.source.text):
            yield run.found(
                f"{event['asked']:,} batches are asked of an iterator that has {event['batches']:,}"
                if event["asked"]
                else "the loop goes on with an iterator that the epoch before has used up",
                event["made_at"],
                event["place"],
                help="repeat the dataset, or make the iterator again in each epoch",
                severity="error",
            )
    for fit in run.fits:
        look, given = fit.get("train"), fit["arguments"]
        steps, epochs = given["steps_per_epoch"], given["epochs"] or 1
        if look and look.get("complete") and steps and steps * epochs > look["batches"] and not look.get("arrays"):
            yield run.found(
                f"{steps * epochs:,.0f} steps are asked for, but the dataset has {look['batches']:,} batches and "
                "is not repeated",
                run.keyword(fit["place"], "steps_per_epoch"),
                help="leave steps_per_epoch out, or repeat the dataset",
                severity="error" if steps > look["batches"] else None,
            )
        val, asked = fit.get("val"), given["validation_steps"]
        if val and val.get("complete") and asked and asked > val["batches"]:
            yield run.found(
                f"validation asks for {asked:,.0f} batches, but its dataset has {val['batches']:,}",
                run.keyword(fit["place"], "validation_steps"),
                help="leave validation_steps out",
            )
        if val and val.get("complete") and asked and asked < val["batches"] * FEW_BATCHES:
            yield run.found(
                f"validation sees {asked:,.0f} of {val['batches']:,} batches",
                run.keyword(fit["place"], "validation_steps"),
                help="leave validation_steps out",
                severity="info",  # it may be meant
            )


@rule("EXE013", "records-dropped", severity="warning", needs="execution", rank=60)
def records_dropped(run: Execution) -> Iterator[Finding]:
    """Many records never reach the model.

    Why: what is dropped is neither learned from nor measured on.
    Example: `drop_remainder=True` with batches of 512 and 700 records; a `take(10)` that was left in.
    Fix: drop no remainder of data that is evaluated, and remove what was there to try things out.
    Ignore: where a part is meant to be left out.
    Reports: none collected.
    """
    if run.data is None:
        return
    by_name = {str(file.path.resolve()): file.records for file in run.data.files}
    for role, look in run.data_of("train", "val"):
        chain = run.chain(look)
        files = {name for link in chain for name in link["files"]}
        total = sum(by_name.get(name, 0) for name in files)
        if not look.get("complete") or not total or any(name not in by_name for name in files):
            continue
        share = 1 - look["records"] / total
        if share <= MOST_DROPPED or look["batches"] == 0:
            continue
        # Parts that are split off on purpose come as pairs, and filters have their reasons.
        if _named(
            chain, "filter", "window", "group_by_window", "flat_map", "unique", "bucket_by_sequence_length", "shard"
        ):
            continue
        takes = _named(chain, "take")
        skips = [link for link in run.of("link") if link["name"] == "skip"]
        batches = [link for link in _named(chain, "batch", "padded_batch") if link["arguments"].get("drop_remainder")]
        if role == "train" and takes and not skips and (share > 0.5 or not batches):
            yield run.found(
                f"only {look['records']:,} of {total:,} records are used for {_words(role)}",
                takes[-1]["place"],
                help="remove take, or split the data with take and skip",
                confidence="likely",
            )
        elif batches and not takes and not _named(chain, "skip"):
            yield run.found(
                f"{total - look['records']:,} of {total:,} records are dropped for {_words(role)}: they do not "
                "fill a batch",
                run.keyword(batches[-1]["place"], "drop_remainder"),
                help="leave drop_remainder out, or use smaller batches",
            )


@rule("EXE015", "records-overwritten", needs="execution", rank=20)
def records_overwritten(run: Execution) -> Iterator[Finding]:
    """A file of records that is opened again in each iteration of a loop.

    Why: opening a file for writing empties it: only the records of the last iteration are left.
    Example: `for image in images: with tf.io.TFRecordWriter("train.tfrecord") as writer: ...`
    Fix: open the writer once, before the loop.
    Ignore: where each file is read before the next one is written.
    Reports: none collected.
    """
    opened: dict[tuple[str, int], bool] = {}  # by path and line: whether records were written
    for event in run.of("writer", "written", "link"):
        if event["kind"] == "link":
            read = {name.rpartition("/")[2] for name in event["files"]}
            opened = {key: has for key, has in opened.items() if key[0].rpartition("/")[2] not in read}
            continue
        key = (event["path"], event["place"][1] if event["place"] else 0)
        if event["kind"] == "written":
            opened[key] = True
        elif opened.get(key):
            yield run.found(
                f"{event['path']!r} is opened again, and the records that were written to it are lost",
                event["place"],
                help="open the writer once, before the loop",
            )
            return


@rule("EXE016", "pattern-matches-nothing", needs="execution", rank=2)
def pattern_matches_nothing(run: Execution) -> Iterator[Finding]:
    """A pattern that matches no file of the folder in which the data is.

    Why: an empty list of files is an empty dataset, or an error that speaks of something else.
    Example: `glob("data/*.tfrecords")` where files end in `.tfrecord`
    Fix: use the names that the files have.
    Ignore: never.
    Reports: none collected.
    """
    looks = [look for _, look in run.data_of("train")]
    if looks and all(look.get("batches") for look in looks) and run.failure is None:
        return  # another pattern did
    for event in run.of("unmatched"):
        names = ", ".join(event["names"][:3])
        yield run.found(f"no file matches {event['pattern']!r}; there are {names}", event["place"],
                        help="use the names that the files have")  # fmt: skip


@rule("EXE014", "result-discarded", needs="execution", rank=20)
def result_discarded(run: Execution) -> Iterator[Finding]:
    """A link of a pipeline whose result is thrown away.

    Why: datasets do not change in place; `ds.shuffle(1000)` on a line of its own does nothing.
    Example: `ds.map(augment)` without `ds =`
    Fix: assign the result.
    Ignore: never.
    Reports: none collected.
    """
    used = {link for link in run.links.values() for link in link["inputs"]} | {event["link"] for event in run.of("use")}
    told: set[tuple[str, int]] = set()
    for link in run.links.values():
        place = link["place"]
        if link["id"] in used or link["name"] in ("take", "enumerate") or (place[0], place[1]) in told:
            continue
        statement = next(run.nodes(place), None)
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            continue
        call = statement.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == link["name"]:
            told.add((place[0], place[1]))
            yield run.found(
                f"the result of {link['name']} is thrown away: datasets do not change in place",
                place,
                help=f"assign it: ds = ds.{link['name']}(...)",
            )


def _words(role: str) -> str:
    return {"train": "training", "val": "validation", "evaluate": "evaluation"}[role]
