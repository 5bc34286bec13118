"""Two processes of JAX that read together: global arrays, equal steps, each record once."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

PROCESS = """
import json, sys
import jax
jax.distributed.initialize(f"localhost:{sys.argv[2]}", 2, int(sys.argv[1]))
import numpy as np
import bushel, bushel.jax

order = bushel.Order(shuffle=True, seed=3)
loader = bushel.jax.loader(sys.argv[3], "train", batch_size=8, columns=["number"], order=order)
steps = []
for number, mask in loader:
    assert number.shape == mask.shape == (8,)
    rows, real = (np.concatenate([shard.data for shard in array.addressable_shards]) for array in (number, mask))
    steps.append(rows[real].tolist())
print(json.dumps(steps))
"""


def test_two_processes_read_each_record_once(numbered: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, rank, port, str(numbered)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in "01"
    ]
    answers = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    steps = [json.loads(out.splitlines()[-1]) for out, _ in answers]
    assert len(steps[0]) == len(steps[1]) == 13
    assert sorted(number for rank in steps for step in rank for number in step) == list(range(103))
