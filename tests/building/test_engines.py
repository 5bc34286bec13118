"""Workers: processes that do tasks, say what became of them, and never outlive the build."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import bushel
from bushel.building.engines import LocalEngine
from bushel.errors import BushelError, FileProblem
from bushel.parallel import Stopwatch, Template


@pytest.fixture
def engine():
    engine = LocalEngine(2)
    yield engine
    engine.close()


def test_every_task_is_done_once_in_other_processes(engine):
    found = list(engine.run(lambda task: (task, os.getpid()), range(20)))
    assert sorted(task for task, _ in found) == list(range(20))
    assert os.getpid() not in {process for _, process in found}


def test_threads_do_every_task_once_and_stop_at_the_first_error():
    engine = LocalEngine(2, in_threads=True)
    found = list(engine.run(lambda task: (task, os.getpid()), range(20)))
    assert sorted(found) == [(task, os.getpid()) for task in range(20)]
    done = []

    def fail_at_two(task):
        done.append(task)
        time.sleep(0.01)
        if task == 2:
            raise FileProblem("a.csv", "is gone")

    with pytest.raises(FileProblem, match="is gone"):
        list(engine.run(fail_at_two, range(1000)))
    assert len(done) < 1000


def test_workers_that_were_started_early_do_the_work(engine):
    engine.start(after=0.01)
    while not engine.is_started:
        time.sleep(0.01)
    started = {worker.process.pid for worker in engine._crew.workers}
    assert set(engine.run(lambda _: os.getpid(), range(20))) <= started


def test_one_task_is_done_here(engine):
    assert list(engine.run(lambda _: os.getpid(), [0])) == [os.getpid()]
    assert not engine.is_started


def test_another_kind_of_work_follows_the_first(engine):
    assert sorted(engine.run(lambda task: task + 1, range(4))) == [1, 2, 3, 4]
    assert sorted(engine.run(lambda task: task * 2, range(4))) == [0, 2, 4, 6]


def test_answers_to_work_that_was_given_up_are_not_taken_for_others(engine):
    tasks = engine.run(lambda task: f"given up {task}", range(9))
    next(tasks)
    tasks.close()
    assert sorted(engine.run(lambda task: task, range(4))) == [0, 1, 2, 3]


def test_an_error_keeps_its_class_and_says_where_in_the_worker_it_was_raised(engine):
    def pull(task):
        raise FileProblem("cable", f"was pulled at {task}")

    with pytest.raises(FileProblem, match="cable: was pulled at") as caught:
        list(engine.run(pull, [1, 2]))
    assert "in pull" in str(caught.value.__cause__)


def test_an_error_that_cannot_be_sent_is_told_in_words(engine):
    def fail(_):
        class Odd(Exception):
            def __init__(self, one, two):
                super().__init__("odd things")

        raise Odd(1, 2)

    with pytest.raises(RuntimeError, match="Odd: odd things"):
        list(engine.run(fail, [1, 2]))


def test_work_that_cannot_be_loaded_in_a_worker_is_an_error_and_no_hang(engine, tmp_path, monkeypatch):
    (tmp_path / "fleeting.py").write_text("def work(task):\n    return task\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import fleeting  # type: ignore[import-not-found]

    (tmp_path / "fleeting.py").unlink()
    with pytest.raises(ModuleNotFoundError, match="fleeting"):
        list(engine.run(fleeting.work, [1, 2]))


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, "a worker was killed, most likely because memory ran out"),
        (signal.SIGSEGV, "by signal SIGSEGV"),
    ],
)
def test_a_worker_that_dies_is_told_with_how(engine, number, said):
    def die(_):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), number)

    with pytest.raises(BushelError, match=said) as caught:
        list(engine.run(die, [1, 2]))
    assert "Run the same command again" in str(caught.value)


def test_workers_in_the_midst_of_a_task_end_when_the_engine_is_closed():
    engine = LocalEngine(2)
    tasks = engine.run(time.sleep, [0, 60, 60])
    next(tasks)
    processes = [worker.process for worker in engine._crew.workers]
    begun = time.monotonic()
    engine.close()
    assert time.monotonic() - begun < 30
    assert all(process.returncode is not None for process in processes)


def test_a_file_in_the_current_folder_does_not_stand_in_for_a_module_of_python(tmp_path):
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong queue')\n")
    program = tmp_path / "programs" / "program.py"
    program.parent.mkdir()
    program.write_text(
        "from bushel.building.engines import LocalEngine\n"
        "engine = LocalEngine(2)\n"
        "print(sorted(engine.run(abs, [-1, -2])))\n"
        "engine.close()\n"
    )
    run = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("[1, 2]\n", "")


def test_workers_share_what_was_imported_before_they_were_forked(engine):
    if not Template.can_fork:
        pytest.skip("this system does not fork")
    parents = set(engine.run(lambda _: os.getppid(), range(20)))
    assert len(parents) == 1
    assert parents != {os.getpid()}


def test_a_worker_leaves_the_other_cores_to_the_others(engine):
    def cores(_):
        from bushel.parallel import available_cores

        return available_cores()

    assert set(engine.run(cores, range(4))) == {1}


def test_the_time_of_workers_is_counted(engine):
    def work(_):
        begun = time.process_time()
        while time.process_time() - begun < 0.2:
            pass

    before = engine.cpu_seconds()
    list(engine.run(work, range(4)))
    assert engine.cpu_seconds() - before >= 0.8
    engine.close()
    assert engine.cpu_seconds() - before >= 0.8


def test_a_stage_that_comes_again_adds_to_its_time():
    watch = Stopwatch()
    for _ in range(2):
        with watch.stage("plan"):
            time.sleep(0.02)
    with watch.stage("write"):
        begun = time.process_time()
        while time.process_time() - begun < 0.1:
            pass
    watch.add("read back", of="write", seconds=0.05)
    found = watch.timings()
    assert list(found) == ["plan", "write", "read back"]
    assert found["plan"].seconds >= 0.04
    assert found["read back"].seconds > 0
    assert found["plan"].cores is not None


def test_cores_are_not_told_where_workers_are_elsewhere():
    watch = Stopwatch(lambda: None)
    with watch.stage("plan"):
        pass
    assert watch.timings()["plan"].cores is None


def test_a_short_build_starts_no_workers_while_it_writes(tmp_path, monkeypatch):
    monkeypatch.setattr("bushel.building.engines._LONG_PLAN", 1000)
    bushel.build([{"x": number} for number in range(9)], tmp_path / "out", transforms=[Looking(str(tmp_path / "seen"))])
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen[0] == "starts"  # while it plans
    assert seen[-9:] == ["does not start"] * 9  # while it writes


@dataclass
class Looking:
    """Writes down whether workers are about to start; in a file, because a build unpickles what it runs."""

    seen: str

    def apply(self, sample, draw):
        is_waiting = any(thread.name == "bushel-starter" for thread in threading.enumerate())
        with Path(self.seen).open("a") as file:
            file.write("starts\n" if is_waiting else "does not start\n")
        return sample


def test_modules_that_workers_import_early_are_there():
    from bushel.building import engines

    for name in (*engines._IMPORTED_LATE, *engines._IMPORTS):
        module, _, function = name.partition(":")
        if module.startswith("bushel."):
            assert not function or callable(getattr(importlib.import_module(module), function))
            importlib.import_module(module)
