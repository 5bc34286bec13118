"""EXE: a script run for a few batches in a copy of its folder; running finds, reading places."""

from bushel.checking.running.execution import Execution, run_script, warm_runs
from bushel.checking.running.processes import ExecutionLimits

__all__ = ["Execution", "ExecutionLimits", "run_script", "warm_runs"]
