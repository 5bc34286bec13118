"""Batches that are made in several processes: the same as in threads, whatever becomes of the processes."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import Order, Workers
from tests.reading.conftest import flip


@dataclass(frozen=True)
class Slow:
    """Holds the interpreter's lock for a while, and draws."""

    rounds: int = 2000

    def apply(self, sample: dict[str, Any], draw: Any) -> dict[str, Any]:
        total = sum(number % 7 for number in range(self.rounds))
        noise = draw.generator().normal()
        return {**sample, "x": sample["x"] + noise, "total": total, "pid": os.getpid()}


@dataclass(frozen=True)
class Fails:
    """Fails on one number."""

    number: int

    def apply(self, sample: dict[str, Any], _: Any) -> dict[str, Any]:
        if sample["number"] == self.number:
            raise ValueError(f"number {self.number} cannot be used")
        return sample


def feed(path: Path, *transforms: Any, **changes: Any) -> Any:
    settings = {"batch_size": 4, "order": Order(shuffle=True, seed=5), "transforms": transforms}
    return bushel.batches(bushel.open(path)["train"], **{**settings, **changes})


def values(batch: Any) -> tuple[Any, ...]:
    return batch.rows.tolist(), batch["x"].tolist(), batch["total"].tolist()


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_transform_that_holds_the_lock_gives_the_same_in_processes(numbered: Path, processes: int) -> None:
    alone = [values(batch) for batch in feed(numbered, Slow(), epochs=2)]
    made = list(feed(numbered, Slow(), epochs=2, workers=Workers(processes=processes)))
    assert [values(batch) for batch in made] == alone
    pids = {int(pid) for batch in made for pid in batch["pid"]}
    assert len(pids) == processes
    assert os.getpid() not in pids


def test_reading_in_processes_goes_on_where_it_stood_with_another_number_of_them(numbered: Path) -> None:
    alone = [values(batch) for batch in feed(numbered, Slow(10), epochs=2)]
    begun = feed(numbered, Slow(10), epochs=2, workers=Workers(processes=3))
    first = [values(next(begun)) for _ in range(7)]
    state = begun.state()
    begun.close()
    for workers in (Workers(processes=2), Workers(threads=2)):
        rest = feed(numbered, Slow(10), epochs=2, workers=workers)
        rest.restore(state)
        assert first + [values(batch) for batch in rest] == alone


@pytest.mark.parametrize("processes", [0, 2])
def test_an_error_comes_after_the_batches_before_it(numbered: Path, processes: int) -> None:
    reading = feed(numbered, Fails(41), order=Order(), workers=Workers(processes=processes))
    seen = []
    with pytest.raises(ValueError, match="^number 41 cannot be used") as caught:
        for batch in reading:
            seen += batch["number"].tolist()
    assert seen == list(range(40))
    assert [note for note in caught.value.__notes__ if note.startswith("It is record")]


def test_damage_is_passed_over_and_counted_in_processes_as_in_threads(numbered: Path) -> None:
    flip(numbered / "train-00001-of-00004.tfrecord", at=40)
    reports = []
    for workers in (Workers(), Workers(processes=2)):
        reading = feed(numbered, Slow(1), on_fault="skip", workers=workers)
        rows = [values(batch) for batch in reading]
        reports.append((rows, reading.report().damaged, reading.report().faults))
    assert reports[0] == reports[1]
    assert reports[0][1] == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_killed_process_is_one_clear_error_and_ends_the_others(numbered: Path) -> None:
    reading = feed(numbered, Slow(), epochs=None, workers=Workers(processes=2, ahead=2))
    next(reading)
    one, other = (worker.process for worker in reading._pipeline.workers)
    os.kill(one.pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(bushel.BushelError, match="a worker was killed, most likely because memory ran out") as caught:
        for _ in reading:
            assert time.monotonic() - began < 60
    assert "Workers(ahead=...)" in caught.value.help[0]
    assert other.poll() is not None
    assert len(next(reading).rows) == 4  # it can go on where it stood
    reading.close()


def test_the_old_name_says_the_new_one() -> None:
    for given in (True, False):
        with pytest.raises(ValueError, match=r"process is gone: Workers\(processes=1\)"):
            Workers(process=given)
    with pytest.raises(ValueError, match="processes must be at least 0, got -1"):
        Workers(processes=-1)


def test_transforms_in_python_are_named_with_what_they_cost(numbered: Path) -> None:
    reading = feed(numbered, Slow(20_000), Fails(-1), batch_size=20, workers=Workers(threads=2))
    assert sum(len(batch.rows) for batch in reading) == 103
    report = reading.report()
    assert report.in_python.keys() == {"Slow", "Fails"}
    assert report.in_python["Slow"] > 10 * report.in_python["Fails"]
    assert "in Python, row by row: Slow " in str(report)


@pytest.mark.parametrize(
    ("threads", "processes", "in_python", "waited", "advice"),
    [
        (4, 0, 9.5, 28.0, "Workers(processes=4)"),
        (4, 0, 9.5, 1.0, "Workers(threads=...)"),  # they did not wait
        (4, 0, 38.0, 2.0, "Workers(threads=...)"),  # they ran at the same time
        (4, 4, 38.0, 1.0, "Workers(threads=...)"),
        (4, 2, 19.0, 19.0, "Workers(processes=4)"),
        (4, 0, 1.0, 3.0, "Workers(threads=...)"),  # most of the time goes elsewhere
    ],
)
def test_processes_are_recommended_where_threads_wait_for_python(
    threads: int, processes: int, in_python: float, waited: float, advice: str
) -> None:
    report = bushel.Report(
        seconds=10.0,
        waited=9.0,
        transform=38.0,
        threads=threads,
        processes=processes,
        in_python={"Slow": in_python},
        waited_for_python=waited,
    )
    assert advice in report.advice


def test_numbers_of_a_batch_from_a_process_can_be_changed(numbered: Path) -> None:
    kept = list(feed(numbered, Slow(1), workers=Workers(processes=2)))
    for batch in kept:
        batch["x"] += np.float32(1)
