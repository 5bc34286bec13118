"""Processes of `torch.distributed` that read together: equal steps, each record once, and no wrong epoch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Reads batches together with other ranks, and notes the records and the state of each step.
RANK = """
import json, os, sys
import torch.distributed as dist
import bushel, bushel.torch

rank, world, given = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
dist.init_process_group("gloo", init_method="file://" + given["meet"], rank=rank, world_size=world)
order = bushel.Order(**{"shuffle": True, "seed": 5, **given.get(f"order{rank}", {})})
batch_size = given.get(f"batch_size{rank}", 4)
loader = bushel.torch.loader(given["data"], "train", batch_size=batch_size, columns=["number"], order=order)
if "state" in given:
    loader.load_state_dict(given["state"])
with open(f"{given['out']}/{rank}.jsonl", "w") as out:
    for step, numbers in enumerate(loader):
        dist.barrier()  # as a step of training is
        print(json.dumps([numbers.tolist(), loader.state_dict()]), file=out, flush=True)
        dist.barrier()
        if step == given.get("kill"):
            os.kill(os.getpid(), 9)
"""


def run(folder: Path, data: Path, world: int, **given: Any) -> tuple[list[int], list[list[Any]], list[str]]:
    """The exit codes, the steps of each rank, and what each said."""
    folder.mkdir()
    asked = json.dumps({"meet": str(folder / "meet"), "data": str(data), "out": str(folder), **given})
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(world), asked], stderr=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    said = [process.communicate(timeout=300)[1] for process in ranks]
    files = [folder / f"{rank}.jsonl" for rank in range(world)]
    steps = [[json.loads(line) for line in file.read_text().splitlines()] if file.exists() else [] for file in files]
    return [process.returncode for process in ranks], steps, said


def test_two_ranks_take_equal_steps_and_no_record_twice(numbered: Path, tmp_path: Path) -> None:
    codes, steps, said = run(tmp_path / "two", numbered, 2)
    assert codes == [0, 0], said
    assert len(steps[0]) == len(steps[1]) == 13
    assert [len(numbers) for numbers, _ in steps[0]] == [len(numbers) for numbers, _ in steps[1]]
    seen = [number for rank in steps for numbers, _ in rank for number in numbers]
    assert len(seen) == len(set(seen)) == 102
    assert [state for _, state in steps[0]] == [state for _, state in steps[1]]


def test_a_run_of_two_that_was_killed_goes_on_with_three(numbered: Path, tmp_path: Path) -> None:
    codes, before, _ = run(tmp_path / "two", numbered, 2, kill=4)
    assert codes == [-9, -9]
    state = before[0][4][1]
    codes, after, said = run(tmp_path / "three", numbered, 3, state=state)
    assert codes == [0, 0, 0], said
    assert len({len(rank) for rank in after}) == 1
    seen = [number for rank in (*before, *after) for numbers, _ in rank for number in numbers]
    assert len(seen) == len(set(seen))
    assert 103 - len(seen) < 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"order1": {"seed": 6}}, "seed is 5 on rank 0 and 6 on rank 1"),
        ({"batch_size1": 8}, "batch_size is 4 on rank 0 and 8 on rank 1"),
        (
            {"order0": {"rank": 1, "world": 2}, "order1": {"rank": 1, "world": 2}},
            "each rank must read its own share, got the ranks 1, 1",
        ),
    ],
)
def test_ranks_that_differ_all_stop_before_the_first_step(
    numbered: Path, tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    codes, steps, said = run(tmp_path / "two", numbered, 2, **given)
    assert all(codes)
    assert steps == [[], []]
    assert all(words in one for one in said), said
