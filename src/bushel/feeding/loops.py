"""Where each loop over a loader begins, and what its state is: the same for all frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bushel import _native
from bushel.errors import quantity
from bushel.reading import Feed, Split

__all__ = ["Loops", "digest_of"]


def digest_of(split: Split) -> int:
    """A number that tells the records of a split from those of another, wherever its files are."""
    files = (
        [(Path(shard.path).name, shard.bytes, shard.sha256) for shard in split.promised]
        if split.promised is not None
        else [(shard.path.name, shard.size, "") for shard in split.shards.shards]
    )
    chosen = b"" if split.rows is None else split.rows.tobytes()
    return _native.xxh64(repr(files).encode() + chosen) >> 33  # 31 bits, which every framework stores


class Loops:
    """Loops over a split, one after the other: each reads the next epochs, or goes on where a state was taken."""

    def __init__(self, split: Split, epochs: int | None) -> None:
        self._split = split
        self._epochs = epochs
        self._digest = digest_of(split)
        self._next_epoch = 0  # where the next loop begins, unless a state was loaded
        self._loaded: dict[str, int] | None = None
        self._is_resumed = False  # inside the loop that the state was taken in, even if nothing is left of it
        self._state: dict[str, int] | None = None  # after the last batch returned

    @property
    def turn(self) -> int | None:
        """Whose turn it is after the state that was loaded, if several processes took turns."""
        return self._loaded["turn"] if self._loaded and self._loaded["turns"] > 1 else None

    def begin(self, feed: Feed) -> None:
        """Go where the next loop begins."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None and self._is_through(loaded) and not self._is_resumed:
            self._next_epoch, loaded = loaded["epoch"], None
        if loaded is not None and loaded["turns"] not in (1, feed.settings.turns):
            workers = quantity(feed.settings.turns, "worker")
            raise ValueError(f"state must be of a DataLoader with {workers}, got one with {loaded['turns']}")
        feed.restore(self._beginning(feed) if loaded is None else loaded)
        self._state = self.state_of(feed)
        began = self._state["epoch"] + 1 if self._epochs is None else self._state["pass"] + self._epochs
        self._next_epoch = began

    def end(self) -> None:
        """Note that a loop came to its end."""
        self._state = None

    def note(self, state: dict[str, int]) -> None:
        """Note where reading stands after the batch that is returned now."""
        self._state = state

    def state_of(self, feed: Feed) -> dict[str, int]:
        """Where a feed stands."""
        return {**feed.state(), "turn": feed.turn, "turns": feed.settings.turns, "dataset": self._digest}

    def state(self, feed: Feed) -> dict[str, int]:
        """Where reading stands after the last batch returned."""
        begin = {**self.state_of(feed), **self._beginning(feed), "turn": feed.settings.turn}
        return dict(self._loaded or self._state or begin)

    def load(self, feed: Feed, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; refuses one of another dataset."""
        given = {name: int(value) for name, value in state.items()}
        if (found := given.get("dataset")) != self._digest:
            where = f"{self._split.paths[0].parent} ({self._split.name})"
            raise ValueError(
                f"state must be of the dataset that is read, {where}; it is of another: "
                f"digest {found}, not {self._digest}"
            )
        feed.restore(given)
        self._loaded, self._state, self._is_resumed = given, None, False

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, unless a state inside of it was loaded."""
        if epoch < 0:
            raise ValueError(f"epoch must be at least 0, got {epoch}")
        self._next_epoch = epoch * (self._epochs or 1)
        loaded = self._loaded
        if loaded is not None:
            self._is_resumed = self._next_epoch == loaded["pass"]
            self._loaded = loaded if self._next_epoch in (loaded["pass"], loaded["epoch"]) else None

    def _beginning(self, feed: Feed) -> dict[str, int]:
        epoch = self._next_epoch
        return {**feed.state(), "epoch": epoch, "position": 0, "bin": 0, "pass": epoch}

    def _is_through(self, state: dict[str, int]) -> bool:
        return self._epochs is not None and state["epoch"] >= state["pass"] + self._epochs
