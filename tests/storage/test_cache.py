"""The cache on disk: shared by processes that race, never larger than it may be, the longest unused leave first."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from storage_server import forget_clients
from support import run

import bushel
from bushel.storage import as_path
from bushel.storage.cache import Cache, local_copy, the_cache
from bushel.storage.objects import ObjectPath


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir() if not path.name.startswith("lock-")}


def test_what_was_used_longest_ago_leaves_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000)
    for at, name in enumerate(("a", "b", "c")):
        cache.add(name, b"x" * 300)
        os.utime(tmp_path / name, (at, at))
    assert bytes(cache.find("a")) == b"x" * 300  # used now
    cache.evict(room=400)
    assert set(sizes(tmp_path)) == {"a", "c"}


def test_the_limit_holds_however_much_is_added(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 100_000)
    for number in range(300):
        cache.add(str(number), bytes(4000))
        assert sum(sizes(tmp_path).values()) <= 100_000
    assert len(sizes(tmp_path)) > 10


def test_what_is_mapped_stays_readable_when_it_is_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000)
    cache.add("a", b"y" * 500)
    mapped = cache.find("a")
    cache.evict(room=1000)
    assert cache.find("a") is None
    assert bytes(mapped) == b"y" * 500


def test_nothing_larger_than_the_cache_is_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "none", 0)
    cache.add("a", b"x")
    assert cache.find("a") is None


def test_a_disk_that_cannot_be_written_only_means_that_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "below", 1000)
    cache.add("a", b"x")
    assert not (tmp_path / "file").is_dir()


def test_what_a_killed_process_left_is_removed_in_time(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000)
    (tmp_path / "new-old").write_bytes(bytes(900))
    (tmp_path / "new-young").write_bytes(bytes(10))
    os.utime(tmp_path / "new-old", (1, 1))
    cache.evict(room=500)
    assert set(sizes(tmp_path)) == {"new-young"}


@pytest.mark.parametrize(("text", "size"), [("20G", 20 << 30), ("1.5 MiB", 3 << 19), ("0", 0), ("", 16 << 30)])
def test_a_size_is_read_as_people_write_it(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", text)
    the_cache.cache_clear()
    assert the_cache().limit == size
    the_cache.cache_clear()


@pytest.mark.parametrize("command", ["info", "check", "bench", "cat"])
def test_a_size_that_is_none_is_one_line_wherever_a_store_is_used(bucket: str, command: str) -> None:
    bushel.build({"x": [1.0, 2.0]}, f"{bucket}/data")
    done = run(command, f"{bucket}/data", BUSHEL_CACHE_SIZE="lots")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bushel: BUSHEL_CACHE_SIZE must be a size such as 20G, or 0; got 'lots'\n"


def test_a_cache_of_size_0_is_not_read_either(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bushel.build({"x": np.arange(100.0)}, f"{bucket}/data")
    whole = as_path(f"{bucket}/whole")
    whole.write_bytes(b"as it is")
    for size in ("1M", "0"):
        monkeypatch.setenv("BUSHEL_CACHE_SIZE", size)
        forget_clients()
        feed = bushel.batches(bushel.open(f"{bucket}/data")["train"], batch_size=10)
        assert sorted(np.concatenate([batch["x"] for batch in feed]).tolist()) == list(range(100))
        assert local_copy(as_path(f"{bucket}/whole")).read_bytes() == b"as it is"
        for file in (tmp_path / "cache").iterdir():  # whatever is read from here again is wrong
            file.write_bytes(b"\0" * file.stat().st_size)


def test_another_version_of_an_object_is_another_file(bucket: str) -> None:
    path = as_path(f"{bucket}/x")
    path.write_bytes(b"one")
    assert local_copy(as_path(f"{bucket}/x")).read_bytes() == b"one"
    path.write_bytes(b"two")
    assert local_copy(as_path(f"{bucket}/x")).read_bytes() == b"two"


def test_a_copy_in_use_is_not_removed(bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "1M")
    forget_clients()
    as_path(f"{bucket}/x").write_bytes(bytes(900_000))
    copy = local_copy(as_path(f"{bucket}/x"))
    evict = "from bushel.storage.cache import the_cache; the_cache().evict(room=1 << 20)"
    subprocess.run([sys.executable, "-c", evict], check=True)
    assert copy.stat().st_size == 900_000


RACING = """
import hashlib, random, sys
from bushel.storage import as_path
from bushel.storage.cache import local_copy
rng = random.Random(int(sys.argv[2]))
for turn in range(60):
    name = rng.randrange(8)
    copy = local_copy(as_path(f"{sys.argv[1]}/{name}"))
    found = hashlib.sha256(copy.read_bytes()).hexdigest()
    print(name, found)
"""


def test_processes_that_race_for_a_small_cache_all_read_the_right_bytes(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = {}
    for name in range(8):
        data = os.urandom(200_000)
        as_path(f"{bucket}/{name}").write_bytes(data)
        expected[str(name)] = hashlib.sha256(data).hexdigest()
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "700K")  # for three and a half of eight
    racers = [
        subprocess.Popen([sys.executable, "-c", RACING, bucket, str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(4)
    ]
    for racer in racers:
        out, _ = racer.communicate(timeout=120)
        assert racer.returncode == 0
        lines = [line.split() for line in out.splitlines()]
        assert len(lines) == 60
        assert all(expected[name] == found for name, found in lines)
    forget_clients()
    the_cache().evict()
    assert sum(sizes(tmp_path / "cache").values()) <= 700 << 10


READING = """
import sys
import numpy as np
import bushel
from bushel.storage import cache
cache.BLOCK_BYTES = 64 << 10
order = bushel.Order(shuffle=True, seed=int(sys.argv[2]), block=50, window=8)
feed = bushel.batches(bushel.open(sys.argv[1])["train"], batch_size=50, order=order, epochs=2)
seen = np.concatenate([batch["x"][:, 0] for batch in feed])
assert np.array_equal(np.sort(seen), np.repeat(np.arange(1000), 2)), "lost or doubled"
"""


def test_readers_that_race_for_a_small_cache_lose_and_double_nothing(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = np.zeros((1000, 300), np.float32)
    x[:, 0] = np.arange(1000)
    bushel.build({"x": x}, f"{bucket}/data", shards=4)
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "600K")  # for half of it
    racers = [subprocess.Popen([sys.executable, "-c", READING, f"{bucket}/data", str(seed)]) for seed in range(3)]
    begun = time.monotonic()
    assert [racer.wait(timeout=120) for racer in racers] == [0, 0, 0]
    assert time.monotonic() - begun < 120
    assert isinstance(as_path(bucket), ObjectPath)
    kept = [path.stat().st_size for path in (tmp_path / "cache").iterdir() if not path.name.startswith("lock-")]
    assert sum(kept) <= 600 << 10
