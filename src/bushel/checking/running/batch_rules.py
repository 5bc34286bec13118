"""How many batches and records there are, in which order they come, and what is lost or shared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bushel.checking.findings import Finding, rule, seen
from bushel.checking.running.execution import Event, Execution, Spot
from bushel.data.splits import split_named

BATCHING = ("batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length")
SEPARATING = ("take", "skip", "shard", "filter", "take_while")
SAME_SHARE = 0.5  # of validation that is in training
COPIED_SHARE = 0.05
LEAST_RECORDS = 8
MOST_DROPPED = 0.2  # of the records
FEW_BATCHES = 0.5  # of those that there are


def _named(chain: list[Event], *names: str) -> list[Event]:
    return [link for link in chain if link["name"] in names]


@rule("EXE010", "no-batches", needs="execution", rank=2)
def no_batches(run: Execution) -> Iterator[Finding]:
    """A dataset that gives no batch at all.

    Why: training ends at once, with a message about something else.
    Example: `drop_remainder=True` with fewer records than one batch; a pattern that matches nothing; a filter that
    lets nothing through; `skip` of everything.
    Fix: look at the first link that gives nothing, which is the one that the finding names.
    Ignore: never.
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


@seen("PIP019")
def never_ends(run: Execution) -> Iterator[Finding]:
    """An endless dataset without a number of steps."""
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


@seen("PIP019", severity="warning")
def runs_out_of_data(run: Execution) -> Iterator[Finding]:
    """More steps are asked for than the dataset has batches."""
    for event in run.of("used_up"):
        if not re.search(r"StopIteration|OutOfRangeError|\bnext\([^()]*,", run.script.text):
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
        total = _records_in(run, look)
        if look and look.get("infinite") and steps and steps == total and _named(run.chain(look), *BATCHING):
            yield run.found(
                f"steps_per_epoch is the number of records, {total:,}: it counts batches",
                run.keyword(fit["place"], "steps_per_epoch"),
                help="divide it by the size of a batch",
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


def _records_in(run: Execution, look: Event | None) -> int:
    """How many records the files of a dataset hold; 0 if that is not known of all of them."""
    by_name = {str(file.path.resolve()): file.records for file in (run.data.files if run.data is not None else ())}
    files = {name for link in run.chain(look) for name in link["files"]}
    return sum(by_name[name] for name in files) if files <= set(by_name) else 0


@rule("EXE013", "records-dropped", severity="warning", needs="execution", rank=60)
def records_dropped(run: Execution) -> Iterator[Finding]:
    """Many records never reach the model.

    Why: what is dropped is neither learned from nor measured on.
    Example: `drop_remainder=True` with batches of 512 and 700 records; a `take(10)` that was left in.
    Fix: do not drop the remainder of data that is evaluated, and remove what was there for a quick try.
    Ignore: where a part is meant to be left out.
    """
    yield from _files_not_read(run)
    for role, look in run.data_of("train", "val"):
        chain, total = run.chain(look), _records_in(run, look)
        if not look.get("complete") or not total:
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


def _files_not_read(run: Execution) -> Iterator[Finding]:
    """Files of a split of which others are read, and that no pipeline names."""
    by_name = {str(file.path.resolve()): file for file in (run.data.files if run.data is not None else ())}
    readers = [link for link in run.links.values() if set(link["files"]) & set(by_name)]
    read = {name for link in readers for name in link["files"]} & set(by_name)
    if not run.is_whole or run.has_stand_ins or not read:
        return
    for split in sorted({by_name[name].split for name in read}):
        names = [name for name, file in by_name.items() if file.split == split and file.records]
        left = [name for name in names if name not in read]
        lost = sum(by_name[name].records for name in left)
        if lost > MOST_DROPPED * sum(by_name[name].records for name in names):
            own = [link for link in readers if any(name in link["files"] for name in names)]
            yield run.found(
                f"{len(left)} of {len(names)} files of {split} are never read, with {lost:,} records",
                *[spot for link in own for spot in (link["place"], *link["callers"])][:4],
                *_globs(run, read),
                help="read all of them: give the reader a pattern that matches every file",
                confidence="likely",
            )


@seen("PIP066", severity="error")
def records_overwritten(run: Execution) -> Iterator[Finding]:
    """A file of records that is opened again after records were written to it."""
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


@seen("PIP021")
def pattern_matches_nothing(run: Execution) -> Iterator[Finding]:
    """A pattern that matches no file of the folder in which the data is."""
    looks = [look for _, look in run.data_of("train")]
    if looks and all(look.get("batches") for look in looks) and run.failure is None:
        return  # another pattern did
    for event in run.of("unmatched"):
        names = ", ".join(event["names"][:3])
        yield run.found(f"no file matches {event['pattern']!r}; there are {names}", event["place"],
                        help="use the names that the files have")  # fmt: skip


@seen("PIP060")
def writer_left_open(run: Execution) -> Iterator[Finding]:
    """A writer of records that is still open when the script ends."""
    reported: set[str] = set()
    for event in run.of("left_open"):
        if f"{event['place']}" not in reported:
            reported.add(f"{event['place']}")
            yield run.found(
                f"{event['path']!r} is never closed: {event['records']:,} records were written to it",
                event["place"],
                help="open it in a with block",
            )


@seen("PIP010")
def result_discarded(run: Execution) -> Iterator[Finding]:
    """A link of a pipeline whose result is thrown away."""
    used = {link for link in run.links.values() for link in link["inputs"]} | {event["link"] for event in run.of("use")}
    reported: set[tuple[str, int]] = set()
    for link in run.links.values():
        place = link["place"]
        if link["id"] in used or link["name"] in ("take", "enumerate") or (place[0], place[1]) in reported:
            continue
        statement = next(run.nodes(place), None)
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            continue
        call = statement.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == link["name"]:
            reported.add((place[0], place[1]))
            yield run.found(
                f"the result of {link['name']} is thrown away: datasets do not change in place",
                place,
                help=f"assign it: ds = ds.{link['name']}(...)",
            )


def _words(role: str) -> str:
    return {"train": "training", "val": "validation", "evaluate": "evaluation"}[role]


def _place_in(chain: list[Event], *names: str) -> list[int]:
    return [number for number, link in enumerate(chain) if link["name"] in names]


@rule("EXE020", "one-class-per-batch", severity="warning", needs="execution", rank=40)
def one_class_per_batch(run: Execution) -> Iterator[Finding]:
    """Batches for training that hold one class each, or nearly.

    Why: each step teaches the model to answer with one class; it forgets the one before.
    Example: records sorted by class, and a `shuffle` after `batch`, or with a small buffer.
    Fix: shuffle before batching, with a buffer as large as the dataset.
    Ignore: where one batch per class is meant, as in some metric learning.
    """
    for _, look in run.data_of("train"):
        counts, classes = look.get("classes_per_batch") or [], look.get("label_counts") or {}
        chain = run.chain(look)
        sizes = [int(size) for size in look.get("sizes", {})]
        if look.get("arrays") or len(counts) < 4 or not 2 <= len(classes) <= 200 or max(sizes, default=0) < 4:
            continue
        if any(fit["train"] == look and fit["model"]["trainable_parameters"] < len(classes) for fit in run.fits):
            continue  # a temperature, or a threshold, has no classes to forget
        drawn = sum(classes.values())
        expected = sum(1 - (1 - n / drawn) ** max(sizes) for n in classes.values())
        mean = sum(counts) / len(counts)
        if mean > max(1.35, expected * 0.45):
            continue
        shuffles = [link for link in chain if link["name"] == "shuffle"]
        batches = _place_in(chain, *BATCHING)
        late = [chain[i]["place"] for i in _place_in(chain, "shuffle") if batches and i > batches[0]]
        small = [
            f"a buffer of {link['arguments'].get('buffer_size'):,} records"
            for link in shuffles
            if isinstance(link["arguments"].get("buffer_size"), int)
        ]
        mixed = _place_in(chain, "shuffle")
        joined = [chain[i]["place"] for i in _place_in(chain, "concatenate") if mixed and i > mixed[-1]]
        why = (
            "parts are joined after they were shuffled"
            if joined
            else "shuffle comes after batch"
            if late
            else f"shuffle has {small[0]}"
            if small
            else "the data is not shuffled"
        )
        spot = (
            joined[-1]
            if joined
            else late[-1]
            if late
            else shuffles[-1]["place"]
            if shuffles
            else chain[batches[0]]["place"]
            if batches
            else None
        )
        yield run.found(
            f"training batches contain {mean:.1f} of {len(classes)} classes on average (expected {expected:.1f}): "
            f"{why}",
            spot,
            help="shuffle before batching, with a buffer as large as the dataset",
            severity="error" if mean < 1.35 else None,
        )


@seen("PIP001", severity="warning")
def shuffle_after_batch(run: Execution) -> Iterator[Finding]:
    """`shuffle` after `batch`."""
    for _, look in run.data_of("train"):
        chain = run.chain(look)
        batches = _place_in(chain, *BATCHING)
        shuffles = _place_in(chain, "shuffle")
        unbatched = _place_in(chain, "unbatch")
        early = [i for i in shuffles if not batches or i < batches[0]] or _shuffled_files(chain)
        late = [i for i in shuffles if batches and i > batches[0] and not any(batches[0] < u < i for u in unbatched)]
        late = [i for i in late if not batches[-1] > i]  # batches that are batched again are windows
        if late and not early:
            link = chain[late[0]]
            buffer = link["arguments"].get("buffer_size")
            yield run.found(
                f"shuffle comes after batch: its buffer holds {buffer if isinstance(buffer, int) else 'whole'} "
                "batches, "
                "and records stay together",
                link["place"],
                help="shuffle before batching",
            )


def _shuffled_files(chain: list[Event]) -> list[Event]:
    return [link for link in chain if link["name"] == "interleave"] and [
        link for link in chain if link["name"] == "list_files" and link["arguments"].get("shuffle") is not False
    ]


@seen("PIP008")
def batched_twice(run: Execution) -> Iterator[Finding]:
    """A dataset that is batched twice."""
    for _, look in run.data_of("train", "val"):
        shapes = [facts["shape"] for facts in look.get("inputs", {}).values()]
        pairs = [(link, early) for link in run.chain(look) if (early := _batched_before(run, link)) is not None]
        for link, early in pairs[-1:]:
            yield run.found(
                "the dataset is batched twice" + (f": an input has shape {shapes[0]}" if shapes else ""),
                link["place"],
                early["place"],
                help="remove one of the two",
                severity=None if run.failure is not None else "info",  # a model that takes it is made for it
            )


def _batched_before(run: Execution, link: Event) -> Event | None:
    """The batch whose batches another one batches as they are."""
    keeps = ("shuffle", "repeat", "cache", "prefetch", "take", "skip", "filter", "with_options")
    before = link if link["name"] in BATCHING else None
    while before is not None:
        before = run.links.get(before["inputs"][0]) if len(before["inputs"]) == 1 else None
        if before is not None and before["name"] in BATCHING:
            return before
        before = before if before is not None and before["name"] in keeps else None
    return None


@rule("EXE023", "augmentation-frozen", severity="warning", needs="execution", rank=50)
def augmentation_frozen(run: Execution) -> Iterator[Finding]:
    """Random changes that are the same in every epoch, or for every record.

    Why: what is meant to be new each time is drawn once and kept.
    Example: `ds.map(augment).cache()`; `np.random.uniform()` inside `map`; a stateless operation with a fixed seed
    Fix: cache first, then augment; draw with `tf.random`, and with a seed of its own for each record.
    Ignore: where fixed changes are meant.
    """
    for _, look in run.data_of("train"):
        chain = run.chain(look)
        for number, link in enumerate(chain):
            caches = [other for other in chain[number + 1 :] if other["name"] in ("cache", "snapshot")]
            if link["random"] == "each time" and caches:
                yield run.found(
                    "random changes are made before cache: every epoch sees those of the first",
                    caches[0]["place"],
                    link["place"],
                    help="cache first, then augment",
                )
            elif link["random"] == "always the same" and link["name"] == "map":
                yield run.found(
                    "random changes are drawn from a fixed seed: they are the same for every record and epoch",
                    link["function"] or link["place"],
                    link["place"],
                    help="draw a new seed for each record, as with a counter zipped to the records",
                    confidence="likely",
                )
    in_maps = any(link["function"] for link in run.links.values())
    for event in run.of("python_random"):
        if in_maps:
            yield run.found(
                f"{event['name']} runs once, when the function is traced: all records get the same number",
                event["place"],
                help="draw with tf.random.uniform",
            )


@seen("PIP007")
def augmented_validation(run: Execution) -> Iterator[Finding]:
    """Validation data that changes from pass to pass."""
    reported: set[tuple[str, int]] = set()
    for _, look in run.data_of("val", "evaluate"):
        again = look.get("again")
        chain = run.chain(look)
        drawing = [link for link in chain if link["random"] == "each time"]
        if not drawing or not again or not (again["complete"] or not _place_in(chain, "shuffle")):
            continue
        changes = again["same"] <= 0.7 * again["records"]
        caches = _place_in(chain, "cache", "snapshot")
        is_kept = look.get("seeded") or any(chain.index(link) < cache for link in drawing for cache in caches)
        if not changes and not is_kept:
            continue
        place = drawing[-1]["place"]
        if (place[0], place[1]) in reported:
            continue
        reported.add((place[0], place[1]))
        told_of = again["records"] - again["same"]
        shapes = [[facts["shape"] for facts in look.get(part, {}).values()] for part in ("inputs", "labels")]
        is_task = any(shape in shapes[0] for shape in shapes[1] if len(shape) > 2)  # to take the noise out again
        yield run.found(
            f"{told_of:,} of {again['records']:,} validation records differ in a second pass: they are augmented"
            if changes
            else "validation data is changed at random",
            place,
            drawing[-1]["function"],
            *run.lines_in(drawing[-1]["function"], r"random|noise|jitter")[:3],
            *(drawing[-1].get("callers") or ())[:2],
            help="augment the training data alone",
            confidence="proven" if changes else "likely",
            severity="info" if is_task else None,
        )


@seen("PIP003")
def reshuffled_split(run: Execution) -> Iterator[Finding]:
    """`take` and `skip` on a dataset that is shuffled again in each pass."""
    takes = [link for link in run.links.values() if link["name"] == "take"]
    skips = [link for link in run.links.values() if link["name"] == "skip"]
    used = {id for role, look in run.data_of("train", "val", "evaluate") for id in look.get("chain", ())}
    for take in takes:
        for skip in skips:
            if take["inputs"] != skip["inputs"] or not {take["id"], skip["id"]} <= used:
                continue
            before = _upstream(run, take)
            shuffles = [
                link
                for link in before
                if (link["name"] == "shuffle" and link["arguments"].get("reshuffle_each_iteration") is not False)
                or (link["name"] == "list_files" and link["arguments"].get("shuffle") is not False)
            ]
            caches = [link for link in before if link["name"] in ("cache", "snapshot")]
            shuffles = [link for link in shuffles if not any(cache["id"] > link["id"] for cache in caches)]
            if shuffles:
                yield run.found(
                    "train and validation are taken from a dataset that is shuffled again in every pass: their "
                    "records mix",
                    shuffles[-1]["place"],
                    take["place"],
                    skip["place"],
                    help="shuffle with reshuffle_each_iteration=False, or split before shuffling",
                )
                return


def _upstream(run: Execution, link: Event) -> list[Event]:
    found: dict[int, Event] = {}
    pending = list(link["inputs"])
    while pending:
        id = pending.pop()
        if id in run.links and id not in found:
            found[id] = run.links[id]
            pending += run.links[id]["inputs"]
    return sorted(found.values(), key=lambda one: one["id"])


@seen("PIP018")
def validation_in_training(run: Execution) -> Iterator[Finding]:
    """Validation data that the model is trained on."""
    for role, train, val, overlap, fit in run.comparisons():
        if role == "val" and fit is not None and fit["same"]:
            yield run.found(
                "fit validates on the dataset that it trains on",
                run.keyword(fit["place"], "validation_data"),
                help="give validation_data records that are not trained on",
            )
        elif role == "val":
            yield from _shared(run, train, val, overlap, fit)
    yield from _trained_before(run)
    yield from _trained_on_held_out(run)


def _trained_on_held_out(run: Execution) -> Iterator[Finding]:
    """Training that reads no file of the train split, and those of another one."""
    splits = {str(file.path.resolve()): file.split for file in (run.data.files if run.data is not None else ())}
    # Which dataset a custom loop trains on is not known for certain: a strategy draws several at once.
    looks = [fit["train"] for fit in run.fits if fit.get("train") and run.loop is None]
    files = [{name for link in run.chain(look) for name in link["files"]} for look in looks]
    read = {splits.get(name) for names in files for name in names}
    known = {split for split in read if split is not None and split_named(split) in ("val", "test")}
    if known and known == read and "train" in {split_named(split) for split in splits.values()}:
        readers = [link for link in run.chain(looks[0]) if link["files"]]
        yield run.found(
            f"training reads the files of {' and '.join(sorted(known))}, and nothing trains on those of train",
            *[spot for link in readers for spot in (link["place"], *link["callers"])][:4],
            *_globs(run, files[0]),
            help="give training the files of train",
        )


def _trained_before(run: Execution) -> Iterator[Finding]:
    """Records that an earlier `fit` of the same model was given."""
    for event in run.of("fit", "evaluate"):
        shared, count = event.get("before") or (0, 0)
        if count > LEAST_RECORDS and shared > SAME_SHARE * count and not run.has_stand_ins:
            fits = [fit for fit in run.fits if event["kind"] == "fit" or fit["model"]["number"] == event["model"]]
            made = fits[-1]["model"] if fits else {}
            yield run.found(
                f"{shared:,} of {count:,} records that the model is measured on were trained on by an earlier fit",
                event["place"],
                *(fit["place"] for fit in fits[-1:]),
                made.get("place"),
                made.get("compiled_at"),
                help="make a new model for each fold, and measure on records that no fit has seen",
            )
            return


def _shared(run: Execution, train: Event, val: Event, overlap: Event | None, fit: Event | None) -> Iterator[Finding]:
    train_chain, val_chain = run.chain(train), run.chain(val)
    if run.has_stand_ins:
        return
    files = [{name for link in chain for name in link["files"]} for chain in (train_chain, val_chain)]
    common = files[0] & files[1]
    only_train = [link for link in train_chain if link not in val_chain]
    only_val = [link for link in val_chain if link not in train_chain]
    separating = [link for link in (*only_train, *only_val) if link["name"] in SEPARATING]
    readers = _own_lines(train_chain, val_chain)
    by_replacement = _is_by_replacement(run, common)
    place = fit["place"] if fit else None
    share = overlap["shared"] / overlap["val"] if overlap and overlap["val"] >= LEAST_RECORDS else 0.0
    if common and not separating and not by_replacement:
        spot = readers[-1] if readers else None
        if share > SAME_SHARE or _is_augmented(train_chain):
            yield run.found(
                f"train and validation read the same {'file' if len(common) == 1 else f'{len(common)} files'}",
                spot
                or (
                    run.keyword(place, "validation_data") if place else (val_chain[-1]["place"] if val_chain else None)
                ),
                *readers[-1:],
                *_globs(run, common),
                help="use separate files for validation, or split with take and skip",
                shared=sorted(common)[:3],
            )
            return
    if overlap and overlap["windows"] > SAME_SHARE * overlap["val"] > LEAST_RECORDS * SAME_SHARE:
        yield run.found(
            f"{overlap['windows']:,} of {overlap['val']:,} windows of validation overlap with windows of training",
            *run.lines_of(r"shuffle|permutation|train_test_split"),
            run.keyword(place, "validation_data") if place else None,
            help="split by time first, then cut into windows",
        )
        return
    copies = train.get("records", 0) > 1.1 * (train.get("distinct") or 1) and _is_continuous(train)
    if overlap and share > COPIED_SHARE and copies and not by_replacement:
        yield run.found(
            f"{overlap['shared']:,} of {overlap['val']:,} records of validation are also trained on: records were "
            "repeated before they were split",
            *run.lines_of(r"repeat|choice|resample|concat|tile|SMOTE|OverSampler"),
            *(run.made_before(place, given=True)[:2] if train.get("arrays") else ()),
            run.keyword(place, "validation_data") if place else None,
            help="split first, and repeat records of the train part alone",
        )
        return
    if share > SAME_SHARE and overlap and not by_replacement and overlap["val"] > LEAST_RECORDS:
        reshuffling = any(
            link["name"] == "shuffle" and link["arguments"].get("reshuffle_each_iteration") is not False
            for link in train_chain
            if link in val_chain
        )
        if reshuffling and separating:
            return  # that is another rule's
        spots = [link["place"] for link in separating[-2:]] or readers[-1:]
        yield run.found(
            f"{overlap['shared']:,} of {overlap['val']:,} records of validation are also trained on",
            *spots,
            run.keyword(place, "validation_data") if place else None,
            help="give validation records that are not trained on",
        )


def _is_continuous(look: Event) -> bool:
    """Whether two records are hardly the same by chance."""
    inputs = [facts for facts in (look.get("inputs") or {}).values() if facts.get("integers") is False]
    return any(len(facts["shape"]) > 1 and facts["shape"][-1] > 1 for facts in inputs)


def _own_lines(train: list[Event], val: list[Event]) -> list[Spot]:
    """Where validation data is read: of a function that both use, the line that calls it for validation."""
    names = ("TFRecordDataset", "list_files", "from_tensor_slices")
    stacks = [[link["place"], *link["callers"]] for link in train if link["name"] in names]
    lines = {(spot[0], spot[1]) for stack in stacks for spot in stack}
    found: list[Spot] = []
    for link in val:
        if link["name"] in names:
            own = [spot for spot in (link["place"], *link["callers"]) if (spot[0], spot[1]) not in lines]
            found += own[:1]
    return found


def _globs(run: Execution, common: set[str]) -> list[Spot]:
    """The patterns that match files which train and validation share, those that match most first."""
    found = [event for event in run.of("glob") if common & set(event["files"])]
    return [event["place"] for event in sorted(found, key=lambda event: -len(event["files"]))][:2]


def _is_augmented(chain: list[Event]) -> bool:
    return any(link["random"] for link in chain)


def _is_by_replacement(run: Execution, common: set[str]) -> bool:
    """Whether files are common only because different paths of the script were replaced by the same files."""
    meant = [(event["was"], set(event["by"])) for event in run.of("replaced")]
    return bool(common) and sum(bool(by & common) for _, by in meant) > 1


@seen("PIP006", severity="warning")
def shuffled_prediction(run: Execution) -> Iterator[Finding]:
    """Predictions and labels from two passes over a dataset that is shuffled."""
    loops = [event["link"] for event in run.of("use") if event["use"] in ("loop", "reduce")]
    for event in run.of("predict"):
        look = event.get("data")
        chain = run.chain(look)
        again = (look or {}).get("again")
        shuffles = [
            link
            for link in chain
            if link["name"] == "shuffle" and link["arguments"].get("reshuffle_each_iteration") is not False
        ]
        if not shuffles or not again or again["same_order"]:
            continue
        also = [
            id
            for id in loops
            if any(link["id"] == shuffles[-1]["id"] for link in (*_upstream(run, run.links[id]), run.links[id]))
        ]
        if also:
            yield run.found(
                "predict and the loop that collects labels see the records in a different order: the dataset is "
                "shuffled in each pass",
                shuffles[-1]["place"],
                event["place"],
                help="do not shuffle data that is evaluated",
            )
