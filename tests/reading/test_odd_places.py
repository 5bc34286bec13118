"""Feeds used where they were not made: in other threads, in forked children, pickled, and with transforms that fail."""

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import bushel
from bushel import Workers


def flat(feed: Any) -> list[int]:
    return [number for batch in feed for number in batch["number"].tolist()]


def test_several_threads_share_one_feed(numbered: Path) -> None:
    feed = iter(bushel.batches(bushel.open(numbered)["train"], batch_size=2))
    seen: list[int] = []

    def read() -> None:
        while (batch := next(feed, None)) is not None:
            seen.extend(batch["number"].tolist())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(103))


@pytest.mark.parametrize("processes", [0, 1])
def test_a_forked_child_goes_on_where_the_feed_stands(numbered: Path, processes: int) -> None:
    train = bushel.open(numbered)["train"]
    feed = iter(bushel.batches(train, batch_size=10, workers=Workers(threads=2, processes=processes)))
    assert next(feed)["number"].tolist() == list(range(10))
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writer, repr(flat(feed)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == repr(list(range(10, 103)))
    os.waitpid(child, 0)
    assert flat(feed) == list(range(10, 103))


def test_a_pickled_feed_goes_on_where_the_feed_stands(numbered: Path) -> None:
    feed = iter(bushel.batches(bushel.open(numbered)["train"], batch_size=10))
    next(feed)
    assert flat(pickle.loads(pickle.dumps(feed))) == list(range(10, 103))
    assert flat(feed) == list(range(10, 103))


OUTLIVES = """
import sys, threading, time
import bushel
feed = bushel.batches(bushel.open(sys.argv[1])["train"], batch_size=1, workers=bushel.Workers(threads=1, ahead=1))

def read():
    threading.main_thread().join()
    time.sleep(0.5)
    try:
        print(sum(len(batch["number"]) for batch in feed))
    except bushel.BushelError as error:
        print(error)

threading.Thread(target=read).start()
"""


def test_a_thread_that_outlives_the_main_thread_is_told_what_to_do(numbered: Path) -> None:
    command = [sys.executable, "-c", OUTLIVES, str(numbered)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "nothing more is made ahead once the program's main thread has ended",
        "  Wait for the thread that reads at the end of the program: thread.join()",
    ]


class Fails:
    """A transform of a user's that has a mistake in it."""

    def apply(self, sample: Any, draw: Any) -> Any:
        if sample["number"] == 57:
            raise KeyError("nmber")
        return sample


def test_an_exception_in_a_custom_transform_names_the_record_and_its_file(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    with pytest.raises(KeyError) as caught:
        flat(bushel.batches(train, batch_size=10, transforms=[Fails()]))
    shard = numbered / "train-00002-of-00004.tfrecord"
    assert caught.value.__notes__ == [f"It is record 5 of {shard}."]
