"""Builds on a real cluster of two nodes: the same bytes, whatever is lost on the way."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import cloudpickle
import msgspec
import pytest
from making import Numbers, digests

import bushel.ray
from bushel import Run, build
from bushel.building.engines import BuildProgress, LocalEngine
from bushel.errors import BushelError, FileProblem
from bushel.ray.cluster import ClusterNote
from bushel.records.manifest import read_manifest

KINDS = ["random", "sequence"]

# Workers do not find the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Watched(Numbers):
    """Says on which node each partition is read, and takes its time, most of it for all partitions but the first.

    A task waits until as many nodes as given have begun to read: on a busy machine one may start seconds later.
    """

    rest = 0.0
    nodes = 1

    def read(self, partition, rows):
        import ray

        name = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "local"
        with self.log.open("a") as file:
            file.write(f"on-{name}\n")
        if ray.is_initialized() and ray.get_runtime_context().get_task_id():
            self._wait_for_nodes()
        for block in super().read(partition, rows):
            time.sleep(0.02)
            yield block
        time.sleep(self.rest if partition else 0)

    def _wait_for_nodes(self):
        deadline = time.monotonic() + 30
        while len(nodes_in(self.log)) < self.nodes and time.monotonic() < deadline:
            time.sleep(0.02)


def nodes_in(log: Path) -> set[str]:
    return {line for line in log.read_text().split() if line.startswith("on-")}


def watched(tmp_path: Path, reads: str) -> Watched:
    return Watched(3000, reads, 6, frozenset({5, 2000}), log=tmp_path / "log")


def built(source: Numbers, out: Path, **options: object) -> bushel.Built:
    return build(source, out, split="80/10/10", shard_size=45_000, run=Run(**options))


def everything(folder: Path) -> dict[str, object]:
    """Shards, indexes, quarantine and manifest of a dataset, but for what differs from one build to the next."""
    beside = {path.name: path.read_bytes() for path in sorted((folder / "_index").iterdir())}
    manifest = msgspec.to_builtins(read_manifest(folder))
    return {
        "shards": digests(folder),
        "indexes": beside,
        "quarantine": (folder / "_quarantine.jsonl").read_text(),
        "manifest": manifest,
    }


def end_of(told: list[BuildProgress]) -> BuildProgress:
    """The last report, without time. Slow samples are merged from parts, where no refusal is left to count."""
    last = told[-1]
    return dataclasses.replace(last, seconds=0, samples=last.samples - last.refused, refused=0)


@pytest.mark.parametrize("reads", KINDS)
def test_two_nodes_write_what_one_machine_writes(tmp_path, cluster, reads):
    source = watched(tmp_path, reads)
    expected: list[BuildProgress] = []
    built(source, tmp_path / "local", workers=1, progress=expected.append)
    source.log.write_text("")
    source.nodes = 2
    told: list[BuildProgress] = []
    made = built(source, tmp_path / "ray", engine=bushel.ray.engine(cluster.address), progress=told.append)
    assert everything(tmp_path / "ray") == everything(tmp_path / "local")
    assert len(nodes_in(source.log)) == 2  # both nodes read
    assert made.refused == 2
    assert end_of(told) == end_of(expected)
    assert not (tmp_path / "ray" / "_journal").exists()


def test_one_node_that_is_started_for_the_build_writes_the_same(tmp_path):
    source = Numbers(1000)
    build(source, tmp_path / "local", shards=4, run=Run(workers=1))
    command = [sys.executable, "-c", _ON_THIS_MACHINE.format(tests=str(Path(__file__).parent.parent / "building"))]
    done = subprocess.run([*command, str(tmp_path / "ray")], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000\n", "")
    assert digests(tmp_path / "ray") == digests(tmp_path / "local")


_ON_THIS_MACHINE = """
import sys
sys.path.insert(0, {tests!r})
from making import Numbers
import bushel, bushel.ray
made = bushel.build(Numbers(1000), sys.argv[1], shards=4, run=bushel.Run(engine=bushel.ray.engine("local", workers=1)))
print(made.records)
"""


@pytest.mark.parametrize("reads", KINDS)
def test_a_node_that_is_killed_in_the_middle_changes_no_byte(tmp_path, cluster, reads):
    source = watched(tmp_path, reads)
    built(source, tmp_path / "local", workers=1)
    source.log.write_text("")
    source.nodes = 2
    lost = cluster.second.node_id
    killing = threading.Thread(target=_kill_when_it_reads, args=(cluster, source.log, lost))
    killing.start()
    built(source, tmp_path / "ray", engine=bushel.ray.engine(cluster.address))
    killing.join(60)
    assert cluster.second is None  # it was killed, after it had begun to read and before the build was done
    assert lost in source.log.read_text()
    assert everything(tmp_path / "ray") == everything(tmp_path / "local")
    assert not list((tmp_path / "ray").rglob("*.partial"))


def _kill_when_it_reads(cluster, log: Path, node: str) -> None:
    deadline = time.monotonic() + 60
    while node not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    cluster.kill_second()


DRIVER = """
import sys
sys.path.insert(0, {tests!r})
sys.path.insert(0, {writing!r})
import pickle, pathlib, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
import bushel, bushel.ray
from bushel import Run
source = pickle.loads(pathlib.Path({source!r}).read_bytes())
bushel.build(source, {out!r}, split="80/10/10", shard_size=45_000, run=Run(engine=bushel.ray.engine({address!r})))
"""


def driver_of(tmp_path: Path, address: str) -> str:
    """A program that builds from what lies in `source`, as a script."""
    return DRIVER.format(
        tests=str(Path(__file__).parent),
        writing=str(Path(__file__).parent.parent / "building"),
        source=str(tmp_path / "source"),
        out=str(tmp_path / "ray"),
        address=address,
    )


def test_a_driver_that_is_killed_is_started_again_and_continues(tmp_path, cluster):
    source = watched(tmp_path, "sequence")
    built(source, tmp_path / "local", workers=1)
    (tmp_path / "source").write_bytes(cloudpickle.dumps(source))
    script = driver_of(tmp_path, cluster.address)
    driver = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    try:
        done = tmp_path / "ray" / "_journal" / "done"
        while driver.poll() is None and not (done.exists() and list(done.glob("partition-*.json"))):
            time.sleep(0.02)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert not (tmp_path / "ray" / "dataset.json").exists()
    again = built(source, tmp_path / "ray", engine=bushel.ray.engine(cluster.address))
    assert again.resumed > 0
    assert everything(tmp_path / "ray") == everything(tmp_path / "local")


def test_a_task_that_is_done_twice_at_once_writes_the_same_bytes(tmp_path):
    class Twice(LocalEngine):
        def run(self, work, tasks, *, memory=0):
            found = {}
            for outcome in super().run(work, [task for task in tasks for _ in range(2)]):
                assert found.setdefault(outcome.task, outcome) == outcome
            return iter(found.values())

    for reads in KINDS:
        source = Numbers(4000, reads, refuse=frozenset({7}))
        build(source, tmp_path / f"{reads}-once", shards=3, run=Run(workers=1))
        build(source, tmp_path / f"{reads}-twice", shards=3, run=Run(engine=Twice(2)))
        assert everything(tmp_path / f"{reads}-twice") == everything(tmp_path / f"{reads}-once")
        assert not list((tmp_path / f"{reads}-twice").rglob(".*"))


def test_arrays_in_memory_reach_other_nodes(tmp_path, cluster, monkeypatch):
    import numpy as np

    arrays = {"x": np.arange(4000, dtype=np.float32), "label": np.arange(4000) % 3}
    build(arrays, tmp_path / "local", shards=6, run=Run(workers=1))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "no-such-folder"))  # what is spooled there, nobody sees
    build(arrays, tmp_path / "ray", shards=6, run=Run(engine=bushel.ray.engine(cluster.address)))
    assert digests(tmp_path / "ray") == digests(tmp_path / "local")


@pytest.mark.parametrize("reads", KINDS)
def test_transforms_learn_from_all_nodes_to_the_last_bit(tmp_path, cluster, reads):
    from bushel import transforms as t

    source, options = Numbers(3000, reads, 9), {"split": "80/20", "shards": 3, "transforms": [t.standardise("x")]}
    build(source, tmp_path / "local", **options, run=Run(workers=1))
    build(source, tmp_path / "ray", **options, run=Run(engine=bushel.ray.engine(cluster.address)))
    assert everything(tmp_path / "ray") == everything(tmp_path / "local")


def test_errors_of_workers_are_raised_as_they_are_with_the_node(tmp_path, cluster):
    driver = os.getpid()

    class Breaks(Numbers):
        def read(self, partition, rows):
            if os.getpid() != driver:
                raise FileProblem("cable", "was pulled")
            yield from super().read(partition, rows)

    with pytest.raises(FileProblem, match="cable: was pulled\n  On node "):
        build(Breaks(1000), tmp_path / "out", shards=8, run=Run(engine=bushel.ray.engine(cluster.address)))
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_task_larger_than_every_node_is_refused(cluster):
    engine = bushel.ray.engine(cluster.address)
    try:
        with pytest.raises(BushelError, match=r"a task takes about 1024\.0 TiB, and the largest node gives "):
            list(engine.run(abs, [1], memory=1 << 50))
    finally:
        engine.close()


def test_many_small_tasks_are_given_together_and_each_is_done_once(cluster):
    engine = bushel.ray.engine(cluster.address)
    try:
        assert sorted(engine.run(abs, list(range(-300, 0)))) == list(range(1, 301))
        assert list(engine.run(abs, [])) == []
    finally:
        engine.close()


def test_a_program_that_uses_ray_keeps_its_connection(cluster):
    import ray

    engine = bushel.ray.engine()
    assert list(engine.run(abs, [-1])) == [1]
    engine.close()
    assert ray.is_initialized()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_a_build_that_is_interrupted_ends_cleanly_and_is_continued(tmp_path, cluster, number, code):
    source = watched(tmp_path, "sequence")
    source.rest = 1.0
    (tmp_path / "source").write_bytes(cloudpickle.dumps(source))
    driver = subprocess.Popen(
        [sys.executable, "-c", driver_of(tmp_path, cluster.address)], stderr=subprocess.PIPE, text=True
    )
    done = tmp_path / "ray" / "_journal" / "done"
    while driver.poll() is None and not (done.exists() and list(done.glob("partition-*.json"))):
        time.sleep(0.02)
    driver.send_signal(number)
    said = driver.communicate(timeout=120)[1]
    assert driver.returncode == code, said
    last = said.splitlines()[-1:]
    kept = "KeyboardInterrupt: ; what is done is kept, and the same command continues"
    assert last == ([kept] if number == signal.SIGINT else [])
    assert built(source, tmp_path / "ray", engine=bushel.ray.engine(cluster.address)).resumed > 0


def engine_module():
    assert callable(bushel.ray.engine)  # which loads the module of the same name
    return sys.modules["bushel.ray.engine"]


def test_a_build_says_that_it_waits_for_the_cpus_of_others(tmp_path, cluster, monkeypatch):
    import ray

    monkeypatch.setattr(engine_module(), "_LONG", 0.5)
    held = tmp_path / "held"
    held.touch()

    @ray.remote(num_cpus=1)
    def hold(path):
        while Path(path).exists():
            time.sleep(0.05)

    def let_go():
        end = time.monotonic() + 60
        while not noted and time.monotonic() < end:
            time.sleep(0.05)
        held.unlink()

    holding = [hold.remote(str(held)) for _ in range(2)]
    while ray.available_resources().get("CPU", 0) >= 1:
        time.sleep(0.05)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        threading.Thread(target=let_go).start()
        assert sorted(bushel.ray.engine(cluster.address).run(str, [1, 2, 3])) == ["1", "2", "3"]
    said = [str(note.message) for note in noted if note.category is ClusterNote]
    assert said == [
        "0 of the 2 CPUs of the Ray cluster are free: 3 tasks of this program wait for other programs to end "
        "(`ray status` shows more)"
    ]
    ray.get(holding)


def test_tasks_that_take_long_are_not_said_to_wait(cluster, monkeypatch, recwarn):
    import ray

    for _ in range(200):  # what ran before may hold a CPU for a moment
        if ray.available_resources().get("CPU", 0) >= 2:
            break
        time.sleep(0.05)
    monkeypatch.setattr(engine_module(), "_LONG", 0.5)
    assert list(bushel.ray.engine(cluster.address).run(time.sleep, [2.0])) == [None]
    assert not recwarn.list


def test_a_node_that_died_a_moment_ago_does_not_stop_a_build(tmp_path, cluster, monkeypatch):
    from bushel.ray import cluster as joined

    before = joined.nodes()
    cluster.kill_second()
    monkeypatch.setattr(joined, "_NOTICED", 0.1)
    monkeypatch.setattr(joined, "nodes", lambda: before)  # Ray may take half a minute to notice
    source = watched(tmp_path, "random")
    built(source, tmp_path / "local", workers=1)
    with pytest.warns(ClusterNote, match="node two .* does not answer, and is left out: the others do its tasks"):
        built(source, tmp_path / "ray", engine=bushel.ray.engine(cluster.address))
    assert everything(tmp_path / "ray") == everything(tmp_path / "local")
