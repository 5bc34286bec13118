"""EXE: a script run for a few batches in a copy of its folder; running finds, reading places."""

from bushel.checking.running.execution import Execution, ExecutionLimits, run_script

__all__ = ["Execution", "ExecutionLimits", "run_script"]
