"""Builds started from a notebook: there is no file, and what cells define is in no module."""

from pathlib import Path

import pytest
from making import numbers_in

import bushel

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

DEFINE = """
import numpy as np
from dataclasses import dataclass
import bushel

OFFSET = 5

def shifted(number):
    return number + OFFSET

@dataclass(frozen=True)
class Shift:
    feature: str = "number"

    def apply(self, sample, draw):
        return {**sample, self.feature: shifted(sample[self.feature])}
"""

BUILD = """
built = bushel.build(
    {{"number": np.arange(400)}}, {out!r}, shards=4, transforms=[Shift()], run=bushel.Run(workers=2)
)
built.records
"""


def test_a_build_with_a_transform_of_a_cell_runs_on_two_workers_in_a_real_kernel(tmp_path: Path) -> None:
    out = tmp_path / "out"
    cells = [DEFINE, BUILD.format(out=str(out))]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={}).execute(cwd=str(tmp_path))
    (output,) = notebook.cells[1].outputs
    assert output["data"]["text/plain"] == "400"
    assert sorted(numbers_in(out)) == list(range(5, 405))
    assert sum(shard.records for shard in bushel.read_manifest(out).splits["train"].shards) == 400
