"""Where reading time goes, and what was passed over."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bushel.errors import fault_words, quantity
from bushel.reading.shards import Shard
from bushel.records.files import Skipped

__all__ = ["Passed", "Report", "Tally"]

_KEPT = 1000  # places of faults that are kept; all are counted


class Passed(msgspec.Struct, frozen=True):
    """A record that was passed over, and why."""

    path: str
    record: int
    offset: int
    why: str

    @classmethod
    def of(cls, skipped: Skipped, why: str | None = None) -> Passed:
        """What became of a record at fault."""
        return cls(skipped.path, skipped.record, skipped.offset, why or fault_words(skipped.fault))


class Tally(msgspec.Struct):
    """What one piece of work took, and what happened in it."""

    storage: float = 0.0
    decode: float = 0.0
    transform: float = 0.0
    layout: float = 0.0
    passed: list[Passed] = []
    truncated: int = 0


class Report(msgspec.Struct, kw_only=True):
    """How a feed has fared so far. Seconds of storage, decode, transform and layout are summed over threads."""

    batches: int = 0
    records: int = 0
    filled: int = 0  # rows that only fill up a step, or stand in for a damaged record
    seconds: float = 0.0  # from the first batch asked for
    storage: float = 0.0
    decode: float = 0.0
    transform: float = 0.0
    layout: float = 0.0
    waited: float = 0.0  # by the consumer for the feed
    consumer: float = 0.0  # by the feed for the consumer
    threads: int = 1
    damaged: int = 0
    truncated: int = 0  # rows that were cut to a length
    faults: list[Passed] = []  # the first thousand of the damaged

    def add(self, tally: Tally) -> None:
        """Count in one piece of work."""
        self.storage += tally.storage
        self.decode += tally.decode
        self.transform += tally.transform
        self.layout += tally.layout
        self.truncated += tally.truncated
        self.damaged += len(tally.passed)
        self.faults.extend(tally.passed[: max(0, _KEPT - len(self.faults))])

    def add_missing(self, shards: Iterable[Shard]) -> None:
        """Count what shards lack of what their manifest says."""
        for shard in shards:
            if shard.problem is None:
                continue
            self.damaged += shard.missing or not shard.damage
            lost = f"; {quantity(shard.missing, 'record')} missing" if shard.missing else ""
            self.faults.append(Passed(str(shard.path), len(shard.index), shard.size, shard.problem + lost))

    @property
    def records_per_second(self) -> float:
        """How fast records came, the consumer's own time included."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def slowest(self) -> str:
        """The stage that sets the pace: consumer, storage, decode, transform or layout."""
        if self.waited <= 0.1 * self.seconds:
            return "consumer"
        stages = {name: getattr(self, name) for name in ("storage", "decode", "transform", "layout")}
        return max(stages, key=lambda name: stages[name])

    @property
    def advice(self) -> str:
        """The setting to change."""
        return _ADVICE[self.slowest]

    def __str__(self) -> str:
        share = 100 / max(self.seconds, 1e-9)
        work = ", ".join(f"{name} {getattr(self, name):.2f} s" for name in ("storage", "decode", "transform", "layout"))
        read = f"{quantity(self.records, 'record')} in {self.batches:,} batch{'es' * (self.batches != 1)}"
        lines = [
            f"{read}, {self.seconds:.2f} s: {self.records_per_second:,.0f} records/s",
            f"work in {self.threads} thread{'s' * (self.threads > 1)}: {work}",
            f"the model waited for data {self.waited:.2f} s ({self.waited * share:.0f}%); "
            f"data waited for the model {self.consumer:.2f} s ({self.consumer * share:.0f}%)",
            f"slowest: {self.slowest}. {self.advice}",
        ]
        if self.damaged:
            first = self.faults[0]
            place = f"{first.path}: record {first.record} at byte {first.offset}"
            lines.append(f"{self.damaged} damaged, the first: {place}: {first.why}")
        return "\n".join(lines)


_ADVICE = {
    "consumer": "Reading keeps up: nothing to change here.",
    "storage": "Read neighbouring records together: Order(shuffle=True, block=1024); or use a faster disk.",
    "decode": "Ask for fewer columns, or give more threads: Workers(threads=...).",
    "transform": "Give more threads: Workers(threads=...); or do what is fixed (decode, resize) once, when building.",
    "layout": "Bucket by length so that less is filled: Bucket(feature); or give more threads.",
}
