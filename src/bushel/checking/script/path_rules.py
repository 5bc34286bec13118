"""PIP020 to PIP022: the files that the code reads, beside those that there are."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import PurePosixPath

from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.script.matching import exists_on_disk, matched_files
from bushel.checking.script.trace import Trace, at_node
from bushel.errors import nearest

__all__: list[str] = []


@rule("PIP020", "pattern-handed-to-reader", needs="script")
def pattern_handed_to_reader(trace: Trace) -> Iterator[Finding]:
    """A pattern with `*` handed to `TFRecordDataset`, which does not expand it.

    Why: `NotFoundError: train-*.tfrecord; No such file or directory`.
    Example: `tf.data.TFRecordDataset("train-*.tfrecord")`
    Fix: `tf.data.TFRecordDataset(tf.io.gfile.glob("train-*.tfrecord"))`, or `list_files`.
    Ignore: never.
    Reports: https://github.com/tensorflow/tensorflow/issues/33048
    """
    for event in trace.of("reads"):
        files = event.info["files"]
        magic = [p for p in files.patterns or () if glob.has_magic(p)]
        if magic and not files.is_expanded:
            text = event.source.segment(event.node)
            argument = event.source.segment(event.node.args[0]) if getattr(event.node, "args", None) else repr(magic[0])  # type: ignore[attr-defined]
            yield at_node(
                event.node,
                event.source,
                f"TFRecordDataset does not expand {magic[0]!r}",
                corrected=text.replace(argument, f"tf.io.gfile.glob({argument})", 1),
            )


@rule("PIP021", "pattern-matches-nothing", needs="script")
def pattern_matches_nothing(trace: Trace) -> Iterator[Finding]:
    """A file name or pattern that none of the files matches.

    Why: an empty list of files is an empty dataset: `OutOfRangeError: End of sequence`, and no other hint.
    Example: a space behind `=` in a flag, `trian-*.tfrecord`.
    Fix: the nearest name is given; stop when the list is empty.
    Ignore: where the script is meant for files that are elsewhere.
    Reports: https://github.com/tensorflow/tensorflow/issues/26038 https://github.com/google/automl/issues/308
    """
    seen: set[str] = set()
    for event in [*trace.of("lists"), *trace.of("reads")]:
        files = event.info["files"]
        if files.patterns == []:
            yield at_node(
                event.node, event.source, "the list of files is empty", help=["stop when it is: if not files: raise"]
            )
        if trace.data is None:
            continue
        for pattern in files.patterns or ():
            if pattern in seen or matched_files(trace, files) or exists_on_disk(trace, pattern):
                continue
            seen.add(pattern)
            name = PurePosixPath(pattern).name
            close = _nearest_pattern(name, [file.path.name for file in trace.data.files])
            if files.is_guessed and not close:
                continue  # what is not known of the name may be anything
            yield at_node(
                event.node,
                event.source,
                f"no file matches {pattern!r}" + (f"; did you mean {close!r}?" if close else ""),
                severity=None if close else "info",
                confidence="proven" if close else "hint",
                help=[f"there is {close}" if close else "these files are not among those that were checked"],
                measured=0,
            )


def _nearest_pattern(pattern: str, names: list[str]) -> str | None:
    """A name that the pattern was probably meant to match."""
    stem = pattern.split("*", maxsplit=1)[0] or pattern
    heads = {name[: len(stem)]: name for name in names}
    close = nearest(stem, heads)
    return heads[close] if close else nearest(pattern, names)


@rule("PIP022", "compression-not-as-read", needs="script")
def compression_not_as_read(trace: Trace) -> Iterator[Finding]:
    """`compression_type` that is not what the files have.

    Why: TensorFlow does not look; either way it says `corrupted record at 0`.
    Example: `TFRecordDataset("train.tfrecord.gz")` without `compression_type="GZIP"`.
    Fix: say what the files are, or read them with bushel, which looks.
    Ignore: never.
    Reports: https://github.com/hassan-mahmood/TIES_DataGeneration/issues/11 https://github.com/tensorflow/minigo/issues/433
    """
    for event in trace.of("reads"):
        said = event.info["compression"]
        if said == "?":
            continue
        for file in matched_files(trace, event.info["files"]):
            real = (file.compression or "").upper()
            if real == (said or "") or file.problem is not None:
                continue
            text = event.source.segment(event.node)
            corrected = (
                f'{text[:-1]}, compression_type="{real}")' if real and not said else f'compression_type="{real}"'
            )
            yield at_node(
                event.node,
                event.source,
                f"{file.path.name} is {file.compression or 'not compressed'}, and read as {said or 'not compressed'}",
                corrected=corrected if real else "without compression_type",
                measured=file.compression or "not compressed",
                expected=said or "not compressed",
            )
            break
