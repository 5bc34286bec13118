"""Which mutants change nothing: scripts are run, and what they feed to a model is compared.

`fit` does not train here: it reads two epochs of what it is given and keeps a digest, with the loss that was compiled.
A script that ends in an error, or does not end, has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import linecache
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mutation_operators as faults

MAX_BATCHES = 40
MAX_SECONDS = 30
NOT_RUN = ("write_text_vectors.py", "sensors_parts.py")  # need packages or are no scripts


def equivalent(root: Path, scripts: Path, mutants: list[tuple[Path, faults.Mutant]]) -> set[int]:
    """Numbers of the mutants that give the same batches as the script they come from."""
    seen_when_run = {operator.name for operator in faults.OPERATORS if operator.seen_when_run}
    sources: dict[Path, str] = {}
    same = set()
    with feeding_only():
        for number, (path, mutant) in enumerate(mutants):
            if mutant.operator not in seen_when_run or path.name in NOT_RUN:
                continue
            if path not in sources:
                original = _as_python(path)
                sources[path] = digest(original, root, scripts)
            if digest(_without_magic(mutant.source), root, scripts) == sources[path]:
                same.add(number)
                print(f"changes nothing: {mutant.operator} in {path.name}", file=sys.stderr)
    return same


def _as_python(path: Path) -> str:
    from bushel.checking.script import parse

    return _without_magic(parse(path).text)


def _without_magic(source: str) -> str:
    return "\n".join("" if line.startswith(("%", "!")) else line for line in source.split("\n"))


def digest(source: str, root: Path, scripts: Path) -> str:
    """Of all that a script prints and feeds."""
    import keras

    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    printed = io.StringIO()
    sys.modules.pop("sensors_parts", None)
    before, path = Path.cwd(), list(sys.path)
    sys.path.insert(0, str(scripts))
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(MAX_SECONDS)
    try:
        os.chdir(root)
        with contextlib.redirect_stdout(printed), tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script.py"  # a file, so that AutoGraph finds the source of its functions
            script.write_text(source)
            linecache.clearcache()
            runpy.run_path(str(script), run_name="__main__")
    except Exception as error:
        printed.write(f"ended with {type(error).__name__}")
    finally:
        signal.alarm(0)
        os.chdir(before)
        sys.path[:] = path
    return hashlib.sha256(printed.getvalue().encode()).hexdigest()


def _too_long(*_: object) -> None:
    raise TimeoutError


@contextlib.contextmanager
def feeding_only() -> Iterator[None]:
    """Let `fit` read its data and print a digest instead of training."""
    import keras

    real = keras.Model.fit

    def fit(self: Any, x: Any = None, validation_data: Any = None, **_: Any) -> Any:
        for epoch, data in itertools.product(range(2), (x, validation_data)):
            if data is not None:
                print(epoch, _digest_of(data))
        return type("History", (), {"history": {}})()

    keras.Model.fit = fit
    try:
        yield
    finally:
        keras.Model.fit = real


def _digest_of(data: Any) -> str:
    import tensorflow as tf

    total = hashlib.sha256()
    batches = 0
    for element in itertools.islice(data, MAX_BATCHES):
        batches += 1
        for tensor in tf.nest.flatten(element):
            array = tensor.numpy() if hasattr(tensor, "numpy") else str(tensor)
            total.update(str(getattr(array, "shape", "")).encode() + str(getattr(array, "dtype", "")).encode())
            total.update(array.tobytes() if hasattr(array, "tobytes") else str(array).encode())
    if batches == 0:
        raise ValueError("no batch")
    return total.hexdigest()
