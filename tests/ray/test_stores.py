"""Builds of a cluster from a store into a store; nodes find the store by their own environment."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from making import Numbers, digests
from storage_server import SECRET

import bushel
import bushel.ray
from bushel import Run
from bushel.errors import FileProblem
from bushel.records.manifest import read_manifest
from bushel.storage import as_path
from bushel.storage.objects import ObjectPath

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not find the modules of tests


def stored_digests(url: str) -> dict[str, str]:
    return {shard.path: shard.sha256 for split in read_manifest(url).splits.values() for shard in split.shards}


def put_tables(url: str, folder: Path) -> None:
    folder.mkdir()
    for number in range(4):
        text = "x,label\n" + "".join(f"{number * 300 + row},c{row % 3}\n" for row in range(300))
        (folder / f"{number}.csv").write_text(text)
        as_path(f"{url}/{number}.csv").write_text(text)


def test_two_nodes_build_from_a_store_into_a_store_the_bytes_of_one_machine(tmp_path, cluster, bucket, monkeypatch):
    put_tables(f"{bucket}/raw", tmp_path / "raw")
    monkeypatch.setenv("BUSHEL_WORK", str(tmp_path / "work"))
    bushel.build(str(tmp_path / "raw" / "*.csv"), tmp_path / "here", split="80/20", shards=6, run=Run(workers=1))
    engine = bushel.ray.engine(cluster.address)
    made = bushel.build(f"{bucket}/raw/*.csv", f"{bucket}/there", split="80/20", shards=6, run=Run(engine=engine))
    assert made.records == 1200
    assert stored_digests(f"{bucket}/there") == stored_digests(tmp_path / "here")
    root = as_path(f"{bucket}/there")
    assert isinstance(root, ObjectPath)
    assert {path.name: path.known.size for path in root.iterdir() if path.known and ".tfrecord" in path.name} == {
        path.name: path.stat().st_size for path in (tmp_path / "here").glob("*.tfrecord")
    }
    assert not any("_journal" in str(path) for path in root.below())
    assert not list(bushel.check(f"{bucket}/there", engine=bushel.ray.engine(cluster.address)))


@dataclass(frozen=True)
class Noted(Numbers):
    """Notes in the store on which node it is read. All others wait until the node `alone` has begun."""

    seen: str = ""
    alone: str = ""

    def read(self, partition, rows):
        import ray

        if ray.is_initialized() and ray.get_runtime_context().get_task_id():  # not in the program that builds
            node = ray.get_runtime_context().get_node_id()
            (as_path(self.seen) / node).write_bytes(b"")
            # A few short tasks are done by workers that are there, before one has started on a new node.
            wait_until(lambda: node == self.alone or (as_path(self.seen) / self.alone).is_file())
        for block in super().read(partition, rows):
            time.sleep(0.05)
            yield block


BUILD = """
import sys, cloudpickle, bushel, bushel.ray
source = cloudpickle.loads(open(sys.argv[1], "rb").read())
engine = bushel.ray.engine(sys.argv[3])
bushel.build(source, sys.argv[2], split="80/20", shards=20, run=bushel.Run(engine=engine))
"""


@pytest.mark.slow
def test_nodes_that_share_nothing_but_the_store_build_the_bytes_of_one_machine_killed_and_resumed(
    tmp_path, cluster, bucket, odd_node
):
    import ray

    own = {"TMPDIR": f"{tmp_path}/tmp", "BUSHEL_CACHE": f"{tmp_path}/cache", "HOME": f"{tmp_path}/tmp"}
    hide = f"mount -t tmpfs none {tmp_path}; mkdir {tmp_path}/tmp; cd {tmp_path}/tmp; "
    odd_node(before=hide, environment={**own, "AWS_ENDPOINT_URL": cluster.store})
    alone = next(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeName"] == "odd")
    for reads in ("sequence", "random"):
        source = Noted(1200, reads, 12, frozenset({5, 700}), seen=f"{bucket}/seen-{reads}", alone=alone)
        bushel.build(Numbers(1200, reads, 12, frozenset({5, 700})), tmp_path / reads, split="80/20", shards=20)
        (tmp_path / "source").write_bytes(cloudpickle.dumps(source))
        out = f"{bucket}/{reads}"
        driver = subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path / "source"), out, cluster.address], cwd=tmp_path
        )
        wait_until(lambda out=out: any(as_path(f"{out}/_index").iterdir()))
        driver.kill()
        driver.wait()
        assert not as_path(f"{out}/dataset.json").is_file()
        engine = bushel.ray.engine(cluster.address)
        made = bushel.build(source, out, split="80/20", shards=20, run=Run(engine=engine))
        assert made.resumed > 0
        assert made.refused == 2
        assert stored_digests(out) == stored_digests(tmp_path / reads)
        quarantines = [as_path(f"{folder}/_quarantine.jsonl").read_bytes() for folder in (out, tmp_path / reads)]
        assert quarantines[0] == quarantines[1]
        assert alone in {path.name for path in as_path(source.seen).iterdir()}
        assert not any("_journal" in str(path) for path in as_path(out).below())


def wait_until(is_so) -> None:
    deadline = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.1)


def test_a_node_that_has_no_bucket_or_no_shared_folder_is_named_at_the_start(
    tmp_path, cluster, bucket, odd_node, monkeypatch
):
    put_tables(f"{bucket}/raw", tmp_path / "raw")
    hidden = tmp_path / "home-cache" / "bushel" / "builds"
    hidden.mkdir(parents=True)
    monkeypatch.setenv("BUSHEL_WORK", str(hidden))
    odd_node(before=f"mount -t tmpfs none {hidden}; ", environment={"AWS_ENDPOINT_URL": cluster.store})
    arrays = {"x": np.arange(10), "label": np.arange(10) % 2}
    with pytest.raises(FileProblem) as caught:
        bushel.build(arrays, f"{bucket}/there", run=Run(engine=bushel.ray.engine(cluster.address)))
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{hidden}: node odd (")
    assert first.endswith(") cannot write here: no such file or directory")
    assert second == "  BUSHEL_WORK must name a folder that all nodes share, at the same path."
    assert not list(as_path(f"{bucket}/there").iterdir())


def test_a_node_without_credentials_is_named_at_the_start(tmp_path, cluster, bucket, odd_node, monkeypatch):
    put_tables(f"{bucket}/raw", tmp_path / "raw")
    monkeypatch.setenv("BUSHEL_WORK", str(tmp_path / "work"))
    odd_node(environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    for source in (f"{bucket}/raw/*.csv", str(tmp_path / "raw")):
        with pytest.raises(FileProblem, match=r"node odd \(.+\) .+: the store cannot be reached") as caught:
            bushel.build(source, f"{bucket}/there", run=Run(engine=bushel.ray.engine(cluster.address)))
        assert SECRET not in str(caught.value)


def test_a_client_from_outside_builds_with_relative_paths(tmp_path, cluster):
    (tmp_path / "rows.csv").write_text("x,label\n" + "".join(f"{i},c{i % 3}\n" for i in range(900)))
    command = [sys.executable, "-m", "bushel", "build", "rows.csv", "out", "--shards", "4", "--engine", "ray"]
    for _ in range(3):  # on a machine that is busy, Ray's server for a client may not be there when Ray looks for it
        done = subprocess.run(
            [*command, "--address", f"ray://127.0.0.1:{cluster.client_port}"],
            cwd=tmp_path,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if "Starting Ray client server failed" not in done.stderr:
            break
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    bushel.build(tmp_path / "rows.csv", tmp_path / "here", shards=4, run=Run(workers=1))
    assert digests(tmp_path / "out") == digests(tmp_path / "here")
