"""A real cluster of two nodes on this machine, stopped for sure."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from storage_server import environment, forget_clients, free_port, new_bucket, serving

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"  # no token is left in the home of whoever runs the tests

_NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}
# A lost node is noticed in two seconds rather than half a minute.
_SYSTEM = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}


class TwoNodes:
    """The nodes `one` (the head) and `two`, each with one CPU."""

    def __init__(self, folder: Path) -> None:
        from ray._common.utils import get_default_ray_temp_dir, try_to_create_directory
        from ray.cluster_utils import Cluster

        # Ray notes the address in its own folder whatever `temp_dir` says, and does not make that folder.
        try_to_create_directory(get_default_ray_temp_dir())
        self.folder = folder
        self.client_port = free_port()
        self.store = f"http://127.0.0.1:{free_port()}"  # nodes have the environment of somebody who uses it
        head = {**_NODE, "include_dashboard": False, "node_name": "one", "_system_config": _SYSTEM}
        head["ray_client_server_port"] = self.client_port
        with self.with_store():
            self.cluster: Any = Cluster(initialize_head=True, head_node_args={**head, "temp_dir": str(folder)})
        self.second: Any = None
        self.start_second()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def start_second(self) -> None:
        if self.second is None:
            with self.with_store():
                self.second = self.cluster.add_node(**_NODE, node_name="two")

    @contextmanager
    def with_store(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment(self.store, str(self.folder)).items():
                patch.setenv(name, value)
            yield

    def kill_second(self) -> None:
        """Kill the raylet and its workers; nobody says goodbye."""
        raylet = self.second.all_processes["raylet"][0].process.pid
        workers = descendants(raylet)
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = None
        for worker in workers:
            subprocess.run(["kill", "-9", str(worker)], capture_output=True, check=False)


def descendants(process: int) -> list[int]:
    """The processes below one."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.splitlines())}
    found = [pid for pid, parent in parents.items() if parent == process]
    return [*found, *(deeper for child in found for deeper in descendants(child))]


@pytest.fixture(scope="session")
def cluster_of_session() -> Iterator[TwoNodes]:
    import ray

    from bushel.ray.cluster import _quieten

    folder = Path(tempfile.mkdtemp(prefix="bushel-ray-", dir="/tmp"))  # paths of sockets must be short
    started = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # Ray leaves the logs of its client's server to be closed
            started = TwoNodes(folder)
        # One connection for all tests: the workers of another one would be started anew.
        ray.init(address=started.address, log_to_driver=False, configure_logging=False)
        _quieten(enabled=False)  # Ray tells of killed nodes on stdout
        yield started
    finally:
        ray.shutdown()
        if started is not None:
            started.cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(cluster_of_session: TwoNodes) -> TwoNodes:
    cluster_of_session.start_second()
    return cluster_of_session


@pytest.fixture
def bucket(cluster: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new bucket, as s3://name, of a store that this process and all nodes know."""
    forget_clients()
    for name, value in environment(cluster.store, str(tmp_path)).items():
        monkeypatch.setenv(name, value)
    with serving(int(cluster.store.rpartition(":")[2])) as endpoint:
        yield new_bucket(endpoint)
    forget_clients()


def start_node(address: str, *, before: str = "", environment: dict[str, str] | None = None) -> subprocess.Popen:
    """A node in a file system of its own, with what a shell does there before."""
    start = f"{sys.executable} -m ray.scripts.scripts start --address={address} --num-cpus=1 --node-name=odd --block"
    command = f"{before}exec {start} --disable-usage-stats"
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", f"{command} --object-store-memory=90000000"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )


def wait_for_node(name: str, *, alive: bool) -> None:
    import ray

    deadline = time.monotonic() + 90
    while any(node["Alive"] and node["NodeName"] == name for node in ray.nodes()) != alive:
        assert time.monotonic() < deadline, f"node {name} is not {'there' if alive else 'gone'}"
        time.sleep(0.2)


@pytest.fixture
def odd_node(cluster):
    """Starts one more node; it is gone when the test is over."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("a file system of its own needs root")
    started = []

    def start(**options):
        started.append(start_node(cluster.address, **options))
        wait_for_node("odd", alive=True)

    try:
        yield start
    finally:
        for process in started:
            os.killpg(process.pid, 15)
            process.wait(30)
        wait_for_node("odd", alive=False)
