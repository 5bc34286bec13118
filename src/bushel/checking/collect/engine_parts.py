"""A pass over the data in parts: each file is looked at by some worker, and what was seen is put together in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from bushel.checking.collect.boxes_and_tokens import ListReader
from bushel.checking.collect.facts import FileFacts
from bushel.checking.collect.image_facts import Pictures
from bushel.checking.collect.row_sample import RowReader
from bushel.checking.collect.texts import Signatures, TextLooks

__all__ = ["Engine", "FilePart", "look_everywhere"]


class Engine(Protocol):
    """Where files are looked at; `bushel.ray.engine` gives one."""

    def look(self, reads: Sequence[Path], writes: Sequence[Path], versions: Mapping[str, str]) -> None:
        """Refuse, by the node's name, workers that do not see these files."""
        ...

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any], *, memory: int = 0) -> Iterator[Any]:
        """Do `work` on every task; yield each result as it is there."""
        ...

    def cpu_seconds(self) -> float | None:
        """What the workers' processors have been busy for; None if that is not known."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


@dataclass(frozen=True)
class FilePart:
    """All that was seen of one file, as it travels."""

    file: FileFacts
    profile: bytes
    labels: list[NDArray[Any]]
    groups: dict[str, list[NDArray[Any]]]
    pairs: set[tuple[int, int]]
    contents: list[NDArray[Any]]  # hashes, to be joined
    pictures: tuple[Pictures, list[bytes], list[tuple[int, int]]] | None
    texts: Signatures | None
    rows: RowReader
    looks: TextLooks
    lists: ListReader


_MEMORY = 512 << 20  # that looking at one file takes, about


def look_everywhere(
    engine: Engine,
    files: Sequence[FileFacts],
    read: Callable[[FileFacts], FilePart],
    progress: Callable[[int, int], None] | None,
) -> tuple[list[FilePart], bool]:
    """Look at every file on the engine; the parts in the order of the files, and whether it was interrupted."""
    total, done = sum(file.size for file in files), 0
    parts: list[FilePart] = []
    stopped = False
    try:
        # The largest first: so no worker is left alone with one at the end.
        tasks = sorted(files, key=lambda file: -file.size)
        for part in engine.run(partial(_read, read), tasks, memory=_MEMORY):
            parts.append(part)
            done += part.file.size
            if progress is not None:
                progress(min(done, total), total)
    except KeyboardInterrupt:
        stopped = True
    return sorted(parts, key=lambda part: part.file.number), stopped


def _read(read: Callable[[FileFacts], FilePart], file: FileFacts) -> FilePart:
    return read(file)


def take_over(files: list[FileFacts], parts: Iterable[FilePart]) -> None:
    """Put what was seen of files into those that were listed here."""
    for part in parts:
        files[part.file.number].__dict__.update(part.file.__dict__)
