"""A real cluster of two nodes on this machine, stopped for sure."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
        from ray.cluster_utils import Cluster

        head = {**_NODE, "include_dashboard": False, "node_name": "one", "_system_config": _SYSTEM}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args={**head, "temp_dir": str(folder)})
        self.second: Any = None
        self.start_second()

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def start_second(self) -> None:
        if self.second is None:
            self.second = self.cluster.add_node(**_NODE, node_name="two")

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
