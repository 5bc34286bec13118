"""Which of the files that were read a script means."""

from __future__ import annotations

import fnmatch
import glob
from pathlib import Path, PurePosixPath

from bushel.checking.collect.facts import FileFacts
from bushel.checking.script.trace import Trace
from bushel.checking.script.values import Files

__all__ = ["exists_on_disk", "matched_files", "records_of"]


def matched_files(trace: Trace, files: Files | None) -> list[FileFacts]:
    """The files of the data whose names the script's patterns match."""
    if trace.data is None or files is None or not files.patterns:
        return []
    names = {PurePosixPath(pattern.replace("\\", "/")).name for pattern in files.patterns}
    return [file for file in trace.data.files if any(fnmatch.fnmatchcase(file.path.name, name) for name in names)]


def exists_on_disk(trace: Trace, pattern: str) -> bool:
    """Whether a pattern names something from here, or from the script's folder."""
    if "://" in pattern:
        return True
    places = [Path(), trace.source.path.parent]
    return any(glob.glob(str(place / pattern)) for place in places)


def records_of(trace: Trace, files: Files | None) -> int | None:
    """How many records the files hold; None if that is not known."""
    matched = matched_files(trace, files)
    if files is not None and files.is_guessed and len({file.split for file in matched}) > 1:
        return None  # which of the splits is meant is what is not known
    return sum(file.records for file in matched) if matched else None
