"""Commands on files: `info`, `cat`, `schema`, `view` and `report` to look at them, `index`, `repair` and `bench`."""

from __future__ import annotations

import base64
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bushel.cli.flags import Grouped, flag, json_flag, parse_size, paths_argument, print_timings, trust_flag
from bushel.cli.output import say, say_data

if TYPE_CHECKING:
    from bushel.building import Repaired
    from bushel.data.roles import Account
    from bushel.data.schema import Feature
    from bushel.records.survey import Costs, Info
from bushel.cli.flags import ProgressState, show_progress

__all__ = ["bench", "cat", "index", "info", "print_savings", "repair", "report", "schema", "view"]


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

    Writes _index/FILE.idx next to each FILE, or into the user's cache if that folder cannot be written.

    Exit: 0 indexed, 2 unreadable or damaged.
    """
    import bushel
    from bushel.records.index import build_index, to_text
    from bushel.storage import list_files, write_whole

    if text:
        written = []
        for path in list_files(paths):
            written.append(path.with_name(path.name + ".idx"))
            with write_whole(written[-1]) as file:  # beside it, then renamed: a link there is replaced, not followed
                file.write(to_text(build_index(path)).encode())
    else:
        written = bushel.write_index(paths, label=label, key=key, values=values, lengths=lengths)
    if as_json:
        say_data(json.dumps({"written": [str(path) for path in written]}))
        return
    for path in written:
        say(str(path))


@click.command(cls=Grouped)
@click.argument("paths", nargs=-1, required=True, metavar="PATH… OUT")
@json_flag
def repair(paths: tuple[str, ...], as_json: bool) -> None:
    """Keep every intact record of damaged files.

    \b
      bushel repair train-00003.tfrecord train-00003.repaired
      bushel repair 'train-*.tfrecord' repaired/

    OUT is a file if there is one PATH, otherwise a folder. The original files are never changed, and nothing is
    overwritten. Damaged data is skipped exactly; after a damaged header, reading resumes at the next place where both
    checksums match.

    Exit: 0 nothing was lost, 1 something was lost (by byte range), 2 unreadable.
    """
    import bushel

    if len(paths) < 2:
        raise click.UsageError("give at least one file, and OUT last")
    repaired = bushel.repair(paths[:-1], paths[-1])
    if as_json:
        import msgspec

        say_data(msgspec.json.format(msgspec.json.encode(repaired), indent=2))
    else:
        for file in repaired:
            _print_repaired(file)
    sys.exit(1 if any(file.lost for file in repaired) else 0)


def _print_repaired(file: Repaired) -> None:
    from bushel.errors import fault_words, quantity

    say(f"{file.path}: {quantity(file.kept, 'record')} kept in {file.out}, {quantity(file.bytes_lost, 'byte')} lost")
    for lost in file.lost:
        say(f"  bytes {lost.begin} to {lost.end}, from record {lost.record} on: {fault_words(lost.fault)}")


@click.command(cls=Grouped)
@paths_argument
@flag("--split", metavar="NAME", help="Split to read  [default: the first]")
@flag("--batch-size", type=click.IntRange(1), default=256, metavar="N", help="Records per batch  [default: 256]")
@flag("--column", "columns", multiple=True, metavar="COL", help="Feature to read; repeatable  [default: all]")
@flag("--in-order", is_flag=True, help="Read in file order instead of shuffled")
@flag("--block", type=click.IntRange(1), metavar="N", help="Shuffle blocks of N neighbouring records")
@flag("--seconds", type=click.FloatRange(0, min_open=True), default=5.0, help="How long to read  [default: 5]")
@flag("--threads", type=click.IntRange(1), metavar="N", help="Number of reader threads  [default: cores]")
@flag(
    "--processes",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Number of reader processes  [default: none]",
)
@flag("--recipe", metavar="FILE", help="Apply the [[transform]] tables of this file to each record")
@trust_flag
@flag("--timings", is_flag=True, help="Show how long each stage took, and how many cores it kept busy")
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
    processes: int,
    recipe: str | None,
    timings: bool,
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

    from bushel.building.recipe import read_recipe
    from bushel.reading import Order, Workers, measure
    from bushel.transforms.by_name import make_transforms

    report = measure(
        list(paths),
        split=split,
        batch_size=batch_size,
        columns=columns or None,
        order=Order(shuffle=not in_order, block=block),
        seconds=seconds,
        transforms=make_transforms(read_recipe(recipe).transforms) if recipe is not None else (),
        workers=Workers(threads=threads, processes=processes),
    )
    if as_json:
        facts = {**msgspec.to_builtins(report), "slowest": report.slowest, "advice": report.advice}
        say_data(msgspec.json.encode(facts).decode())
    else:
        say(str(report))
        if timings:
            print_timings(report.timings)
    if report.damaged:
        raise SystemExit(1)


@click.command(cls=Grouped)
@paths_argument
@flag("--read-at", metavar="HEIGHTxWIDTH", help="Size at which a model reads images, to find those that are too large")
@flag("--pbtxt", "as_pbtxt", is_flag=True, help="Print statistics of each split for TensorFlow Data Validation")
@json_flag
def info(paths: tuple[str, ...], read_at: str | None, as_pbtxt: bool, as_json: bool) -> None:
    """Show what files hold: records, types, shapes, sizes, damage, and what could take less space.

    \b
      bushel info data/
      bushel info 'train-*.tfrecord.gz' --json
      bushel info data/ --pbtxt > stats.pbtxt

    PATH is a TFRecord file, a folder of them, or a pattern; plain, gzip or zlib, whatever its suffix.
    Every record is read, and its checksums are verified.

    Exit: 0 intact, 1 damaged or not as the manifest says, 2 unreadable.
    """
    import bushel
    from bushel.storage import as_path

    found = bushel.info(paths)
    if as_pbtxt:
        from bushel.viewing.statistics import statistics_pbtxt

        _say_damage(found)
        say_data(statistics_pbtxt(paths), nl=False)
        sys.exit(1 if found.faults else 0)
    size = parse_size(read_at, "read-at") if read_at else None
    spent = bushel.costs(paths, schema=found.schema, read_at=size) if found.schema.features else None
    if as_json:
        import msgspec

        from bushel.data.schema import json_text

        say_data(json_text({**msgspec.structs.asdict(found), "costs": spent}), nl=False)
    else:
        _print_info(found)
        if spent is not None:
            print_savings(spent)
        for path in paths:
            _print_splits(as_path(path), found)
    sys.exit(1 if found.faults or found.disagreements else 0)


def print_savings(spent: Costs) -> None:
    """Print possible savings, one line each."""
    from bushel.errors import readable_size

    for number, saving in enumerate(spent.savings):
        say(
            ("\n" * (number == 0)) + f"tip: {_printable(saving.feature)} is {saving.what}; "
            f"{saving.how} saves about {readable_size(saving.bytes)} per record ({saving.share:.0%})"
        )


def _print_splits(folder: Path, found: Any) -> None:
    from bushel.errors import quantity
    from bushel.records.manifest import has_manifest, read_manifest

    if not has_manifest(folder):
        return
    manifest = read_manifest(folder)
    say()
    for stated in found.disagreements[:5]:
        say(_printable(stated))
    if found.disagreements:
        left = len(found.disagreements) - 5
        say((f"and {left:,} more. " if left > 0 else "") + "The files are not those that the manifest is about:")
    for name, feature in manifest.schema.features.items():
        if feature.encoding == "sparse":
            shown = _printable(name)
            say(f"{shown} is sparse, {feature.shape[0]:,} values per record: {shown}/indices, {shown}/values")
    for name, split in manifest.splits.items():
        counts = ", ".join(f"{_printable(label)} {count:,}" for label, count in list(split.label_counts.items())[:12])
        more = f" and {len(split.label_counts) - 12} classes more" if len(split.label_counts) > 12 else ""
        say(
            ("by the manifest, " if found.disagreements else "")
            + f"{_printable(name)}: {quantity(split.records, 'record')} in {quantity(len(split.shards), 'shard')}"
            + (f": {counts}{more}" if counts else "")
        )
    if manifest.refused:
        say(f"refused when it was built: {manifest.refused:,}, each named in {folder / '_quarantine.jsonl'}")


def _print_info(found: Any) -> None:
    from bushel.errors import CorruptRecord, quantity, readable_size
    from bushel.records.files import not_examples
    from bushel.storage import as_path

    kinds = {"example": "Example", "sequence_example": "SequenceExample", "bytes": "other bytes than Examples"}
    compressions = sorted({file.compression or "not compressed" for file in found.files})
    held = f"{quantity(found.records, 'record')} in {quantity(len(found.files), 'file')}"
    say(f"{held}, {readable_size(found.bytes)}, {', '.join(compressions)}")
    said = kinds[found.schema.record]
    if found.records and (what := not_examples(as_path(found.files[0].path))) is not None:
        said = f"not Examples but {what}"
    say(f"records are {said}")
    if found.schema.features:
        say()
        _print_features(found.schema)
    _print_account(found.account)
    for fault in found.faults[:5]:
        error = CorruptRecord(fault.path, record=fault.record, offset=fault.offset, fault=fault.fault)
        say(f"\ndamage: {error.message}", nl=False)
    if found.faults:
        more = len(found.faults) - 5
        say(f"\n{f'and {more:,} more places. ' if more > 0 else ''}To keep the rest: bushel repair PATH… OUT")


def _print_account(account: Account | None) -> None:
    """What the features are taken for, and why."""
    for number, line in enumerate(account.describe() if account is not None else ()):
        say(("\n" * (number == 0)) + _printable(line))


def _say_damage(found: Any) -> None:
    """Report damage on stderr, since the schema goes to stdout; an error if no record is intact."""
    from bushel.errors import CorruptRecord, quantity

    if not found.faults:
        return
    first = found.faults[0]
    error = CorruptRecord(first.path, record=first.record, offset=first.offset, fault=first.fault)
    if not found.records:
        raise error
    places = quantity(len(found.faults), "damaged place")
    say(f"bushel: {places} skipped, the first: {error.message}", err=True)


def _print_features(schema: Any) -> None:
    from bushel.errors import readable_size
    from bushel.printing import text_table

    rows = [("feature", "type", "in records", "values", "bytes/record", "share")]
    total = sum(seen.bytes_per_record for seen in schema.statistics.values()) or 1.0
    for name, feature in schema.features.items():
        seen = schema.statistics[name]
        share = "all" if seen.records == seen.of else f"{seen.presence:.2%}"
        cost = (readable_size(seen.bytes_per_record), f"{seen.bytes_per_record / total:.1%}")
        rows.append((_printable(name), feature.describe(), share, _range(seen, feature), *cost))
    for line in text_table(rows[0], rows[1:], numbers=False):
        say(line)


def _range(seen: Any, feature: Feature) -> str:
    from bushel.data.dates import written_date

    parts = []
    if seen.min is not None and feature.meaning == "date":
        parts.append(f"{written_date(seen.min)} to {written_date(seen.max)}")
    elif seen.min is not None:
        parts.append(
            f"{seen.min:.6g} to {seen.max:.6g}" if isinstance(seen.min, float) else f"{seen.min} to {seen.max}"
        )
    if seen.min_size is not None:
        sizes = str(seen.max_size) if seen.min_size == seen.max_size else f"{seen.min_size} to {seen.max_size}"
        parts.append(f"{sizes} bytes")
    if seen.min_length != seen.max_length:
        parts.append(f"{seen.min_length} to {seen.max_length} values")
    if seen.min_steps is not None:
        parts.append(f"{seen.min_steps} to {seen.max_steps} steps")
    parts.extend(f"{count:,} {what}" for what, count in (("NaN", seen.nans), ("infinite", seen.infinities)) if count)
    if len(seen.kinds) > 1:
        parts.append("mixed: " + ", ".join(f"{count:,} {kind}" for kind, count in seen.kinds.items()))
    return ", ".join(parts)


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)


@click.command(cls=Grouped)
@paths_argument
@flag("-n", "--count", type=click.IntRange(min=0), metavar="N", help="Number of records  [default: all]")
@flag("--columns", metavar="A,B", help="Features to print  [default: all]")
@flag("--full/--short", default=None, help="Print long values whole, or cut  [default: cut on a terminal]")
@flag("--skip-bad", is_flag=True, help="Skip damaged records")
@flag("--record", metavar="SPLIT:N", help="One record, with the file and row that it came from")
def cat(
    paths: tuple[str, ...],
    count: int | None,
    columns: str | None,
    full: bool | None,
    skip_bad: bool,
    record: str | None,
) -> None:
    """Print records as JSON lines.

    \b
      bushel cat a.tfrecord -n 5
      bushel cat 'train-*' --columns label,name | head
      bushel cat data/ --record train:1041

    Text prints as text, any other bytes as base64.

    Exit: 0 printed, 2 unreadable.
    """
    is_short = sys.stdout.isatty() if full is None else not full
    if record is not None:
        say(_with_provenance(paths, record, is_short=not full))
        return
    for line in itertools.islice(_lines(list(paths), columns, "skip" if skip_bad else "raise", is_short), count):
        say(line)


def _with_provenance(paths: tuple[str, ...], record: str, *, is_short: bool) -> str:
    import msgspec

    import bushel
    from bushel.records.manifest import MANIFEST_NAME
    from bushel.storage import as_path

    split, colon, number = record.rpartition(":")
    if not colon or not number.isdecimal():
        raise click.UsageError(f"--record must be like train:1041, got {record!r}")
    if len(paths) == 1 and (as_path(paths[0]) / MANIFEST_NAME).is_file():
        found = bushel.provenance(paths[0], split, int(number))
        facts = {name: getattr(found, name) for name in msgspec.structs.asdict(found) if name != "sample"}
        sample = found.sample
    else:
        facts, sample = _foreign_record(paths, split, int(number))
    plain = {name: _plain(value, is_short) for name, value in sample.items()}
    return json.dumps({**facts, "sample": plain}, ensure_ascii=False)


def _foreign_record(paths: tuple[str, ...], split: str, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record of files that bushel did not write: where it is, and what it holds; its source is not known."""
    import bushel

    chosen = bushel.open(list(paths))[split]
    if number >= len(chosen):
        raise ValueError(f"record must be from 0 to {len(chosen) - 1}, got {number}")
    shards = chosen.shards
    at = int(shards.first.searchsorted(number, side="right")) - 1
    row = number - int(shards.first[at])
    shard = shards.shards[at]
    place = {"shard": str(shard.path), "record_in_shard": row, "byte": int(shard.index.offsets[row])}
    return {"split": split, "record": number, **place}, chosen[number]


def _lines(paths: list[str], columns: str | None, on_fault: Any, is_short: bool) -> Any:
    import bushel
    from bushel.records.files import not_examples
    from bushel.records.manifest import list_shards

    names = columns.split(",") if columns else None
    files, _ = list_shards(paths)
    if not_examples(files[0]) is not None:
        yield from (_dump({"record": data}, is_short) for data in bushel.payloads(paths, on_fault=on_fault))
        return
    _check_names(files, names or [])
    for sample in bushel.scan(paths, names, on_fault=on_fault):
        yield _dump(sample, is_short)


def _check_names(files: list[Path], names: list[str]) -> None:
    """Refuse names that no record has; all records are read only if the first ones lack a name."""
    from bushel.errors import MissingName
    from bushel.records.survey import infer_schema, probe_schema

    if set(names) <= set(probe_schema(files[0])):
        return
    known = infer_schema(files)
    for name in names:
        if name not in known:
            raise MissingName("feature", name, known, where=files[0])


def _dump(sample: dict[str, Any], is_short: bool) -> str:
    plain = {name: _plain(value, is_short) for name, value in sample.items()}
    # Names that are not UTF-8 can only be printed as escapes.
    is_unicode = all(name.isascii() or _is_unicode(name) for name in plain)
    return json.dumps(plain, ensure_ascii=not is_unicode)


def _is_unicode(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)


_SHORT = 48


def _plain(value: Any, is_short: bool) -> Any:
    if isinstance(value, bytes | str):
        return _plain_text(value, is_short)
    if hasattr(value, "places"):  # a sparse row
        parts = {"indices": value.places, "values": value.values}
        return {name: _plain(part, is_short) for name, part in parts.items()} | {"size": value.size}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        shown = value[:8] if is_short else value
        more = [f"… {len(value) - 8:,} more"] if is_short and len(value) > 8 else []
        return [_plain(item, is_short) for item in shown] + more
    return value


def _plain_text(value: bytes | str, is_short: bool) -> str:
    text = value if isinstance(value, str) else _decoded(value)
    size = len(value)
    if text is None:
        assert isinstance(value, bytes)
        text = base64.b64encode(value[:_SHORT] if is_short else value).decode()
        return f"{text}… {size:,} bytes" if is_short and size > _SHORT else text
    return f"{text[:_SHORT]}… {size:,} long" if is_short and len(text) > 2 * _SHORT else text


def _decoded(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\t\n\r" for char in text) else None


def _classes(paths: tuple[str, ...], looked_at: Info) -> dict[str, int | None]:
    """Whole numbers that are codes, and how many classes the label has if that is stated."""
    from bushel.records.manifest import has_manifest, read_manifest

    account, features = looked_at.account, looked_at.schema.features
    codes = account.of("category", "group") if account is not None else []
    if account is not None and account.label is not None and account.task == "classification":
        codes.append(account.label)
    whole = [name for name in codes if name in features and features[name].dtype == "int64"]
    found: dict[str, int | None] = dict.fromkeys(whole)
    labels = [read_manifest(path).label for path in paths if has_manifest(path)]
    return found | {label.feature: len(label.names) for label in labels if label is not None and label.names}


@click.command(cls=Grouped)
@paths_argument
@flag("--tf", "as_tf", is_flag=True, help="Print a feature_description for tf.io.parse_example, ready to paste")
@flag("--pbtxt", "as_pbtxt", is_flag=True, help="Print a schema.pbtxt for TFX and TensorFlow Data Validation")
@json_flag
def schema(paths: tuple[str, ...], as_tf: bool, as_pbtxt: bool, as_json: bool) -> None:
    """Infer and print the schema of files, from all their records.

    \b
      bushel schema 'train-*.tfrecord'
      bushel schema 'train-*.tfrecord' --tf
      bushel schema data/ --pbtxt > schema.pbtxt

    Exit: 0 printed, 2 unreadable, or no record is intact.
    """
    import bushel
    from bushel.records.files import refuse_others
    from bushel.records.survey import tf_description
    from bushel.storage import as_path

    looked_at = bushel.info(paths)
    _say_damage(looked_at)
    found = looked_at.schema
    if looked_at.records:
        refuse_others(as_path(looked_at.files[0].path))
    if as_tf:
        say_data(tf_description(found), nl=False)
    elif as_pbtxt:
        from bushel.data.tf_descriptions import to_pbtxt

        say_data(to_pbtxt(found, _classes(paths, looked_at)), nl=False)
    elif as_json:
        say_data(found.to_json(), nl=False)
    else:
        _print_features(found)
        _print_account(looked_at.account)


@click.command(cls=Grouped)
@paths_argument
@flag(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Port of the page; 0 takes any  [default: 8757, or next]"
)
@flag("--marks", metavar="FILE", help="File for marks on records, for bushel build --marks  [default: none]")
@flag("--no-browser", is_flag=True, help="Print the link, and do not open a browser")
@flag(
    "--token",
    metavar="TEXT",
    envvar="BUSHEL_VIEW_TOKEN",
    help="Secret in the link, to keep it for bookmarks",
    rare=True,
)
def view(paths: tuple[str, ...], port: int | None, marks: str | None, no_browser: bool, token: str | None) -> None:
    """Look at datasets in the browser.

    \b
      bushel view data/
      bushel view 'train-*.tfrecord'
      bushel view old/ new/ --no-browser
      bushel view data/ runs/1 runs/2 --marks marks.jsonl

    PATH is a dataset, TFRecord files, a folder of them, a pattern, or the folder of a run. The page is served to this
    machine only, and the link holds a secret. Nothing is written into a dataset. Thumbnails are kept in the user's
    cache, up to 256 MiB.

    Exit: 0 stopped with Ctrl-C, 2 wrong arguments or unreadable input.
    """
    from bushel.viewing.server import PORT, require_server, serve

    require_server()
    from bushel.viewing.viewer import open_viewer

    served = serve(open_viewer(paths, marks=marks).start(), port=PORT if port is None else port, token=token)
    say(served.link)
    say(f"On a remote machine, first run on yours: ssh -L {served.port}:127.0.0.1:{served.port} HOST", err=True)
    say("Stop with Ctrl-C.", err=True)
    if not no_browser:
        import webbrowser

        webbrowser.open(served.link)
    served.run()


@click.command(cls=Grouped)
@paths_argument
@flag(
    "-o",
    "--output",
    default="report.html",
    metavar="FILE",
    help="File to write; .md for Markdown  [default: report.html]",
)
@flag("--sample", type=click.IntRange(1), metavar="N", help="Look at about N records of each split  [default: all]")
@flag("--no-check", is_flag=True, help="Leave out the findings of bushel check")
def report(paths: tuple[str, ...], output: str, sample: int | None, no_check: bool) -> None:
    """Write a report on datasets or runs: one file that needs no network.

    \b
      bushel report data/ -o report.html
      bushel report data/ -o report.md
      bushel report runs/1 runs/2 -o runs.html

    PATH is a dataset, TFRecord files, a pattern, or the folder of a run. Of datasets it shows splits, classes, features
    with distributions, findings and sample records; of runs the verdicts, metrics, curves and options that differ.
    The HTML stays below 5 MB.

    Exit: 0 written, 2 wrong arguments or unreadable input.
    """
    from bushel.viewing.report_page import write_report

    with show_progress(_step) as progress:
        written = write_report(paths, output, most=sample, checks=not no_check, progress=progress)
    say(str(written))


def _step(split: str, done: int, of: int) -> ProgressState:
    return ProgressState("reading", done, of, f"{split}: {done:,} of {of:,} records")
