"""`--engine ray` on the command line: the same output, and one clear line for what is wrong."""

import json
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner
from making import Numbers, digests

from bushel import Run, build
from bushel.cli import cli


def bushel(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bushel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def test_build_and_check_say_and_write_what_they_do_on_one_machine(tmp_path, cluster):
    (tmp_path / "rows.csv").write_text("\n".join(["x,label", *(f"{row},c{row % 3}" for row in range(300)), "9,"]))
    options = ("--split", "80/20", "--shards", 2, "--json")
    local = bushel("build", tmp_path / "rows.csv", tmp_path / "local", *options)
    ray = bushel(
        "build", tmp_path / "rows.csv", tmp_path / "ray", *options, "--engine", "ray", "--address", cluster.address
    )
    assert (ray.returncode, ray.stderr) == (local.returncode, local.stderr) == (1, "")  # a sample was refused
    said, expected = json.loads(ray.stdout), json.loads(local.stdout)
    changing = ("path", "seconds", "timings")
    assert {k: v for k, v in said.items() if k not in changing} == {
        k: v for k, v in expected.items() if k not in changing
    }
    assert digests(tmp_path / "ray") == digests(tmp_path / "local")
    checks = ["check", str(tmp_path / "ray"), "--json"]
    one = CliRunner().invoke(cli, checks)
    many = CliRunner().invoke(cli, [*checks, "--engine", "ray"])  # of the cluster that this process is in
    assert (many.exit_code, many.stdout) == (one.exit_code, one.stdout)


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    build(Numbers(10), tmp_path / "data", run=Run(workers=1))
    for command in (["build", str(tmp_path / "data"), str(tmp_path / "out")], ["check", str(tmp_path / "data")]):
        done = CliRunner().invoke(cli, [*command, "--engine", "ray"])
        assert done.exit_code == 2
        assert done.stderr == 'bushel: --engine ray needs Ray: pip install "bushel[ray]"\n'


@pytest.mark.parametrize("address", ["{free}", "ray://{free}", "nonsense", "no-such-host.invalid:1"])
def test_an_address_without_a_cluster_is_one_clear_line(tmp_path, address):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{server.getsockname()[1]}"  # nobody listens there
        build(Numbers(10), tmp_path / "data", run=Run(workers=1))
        address = address.format(free=free)
        done = bushel("check", tmp_path / "data", "--engine", "ray", "--address", address)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith(f"bushel: there is no Ray cluster at {address}: ")
    assert second.strip() == "Start one with `ray start --head`, or leave out --address to use this machine alone."


def test_an_address_without_the_engine_is_refused(tmp_path):
    done = CliRunner().invoke(cli, ["check", str(tmp_path), "--address", "auto"])
    assert done.exit_code == 2
    assert "--address needs --engine ray" in done.stderr


def test_another_version_of_ray_is_said_in_one_line():
    from bushel.ray.cluster import _no_connection

    # As Ray words it (ray._private.utils.check_version_info).
    told = "\n".join(
        [
            "Version mismatch: The cluster was started with:",
            "    Ray: 2.44.0",
            "    Python: 3.12.1",
            "This process on 10.0.0.1 was started with:",
            "    Ray: 2.60.0",
            "    Python: 3.11.7",
        ]
    )
    error = _no_connection("head:6379", RuntimeError(told))
    assert str(error).splitlines() == [
        "the cluster has Ray 2.44.0, Python 3.12.1, and here is Ray 2.60.0, Python 3.11.7",
        "  Install the same versions.",
    ]
