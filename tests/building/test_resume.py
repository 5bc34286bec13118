"""A build that is stopped at any moment, however, and started again gives the same bytes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from making import Numbers, digests, numbers_in

import bushel
from bushel import Run, build
from bushel.building.engines import BuildProgress, LocalEngine
from bushel.building.shard_files import SortedRunWriter
from bushel.errors import FileProblem

# A whole program, without a guard for __main__: what a user's script looks like.
SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from making import Numbers
import time
import bushel

class Slow(Numbers):
    def read(self, partition, rows):
        for block in super().read(partition, rows):
            time.sleep(0.01)
            yield block

bushel.build(
    Slow(6000, {reads!r}, 6, frozenset({{5, 4000}})),
    {out!r},
    split="80/10/10",
    shard_size=30_000,
    run=bushel.Run(workers={workers}),
)
"""


def script(tmp_path: Path, reads: str, out: str, workers: int) -> list[str]:
    path = tmp_path / f"{out}-{workers}.py"
    text = SCRIPT.format(tests=str(Path(__file__).parent), reads=reads, out=str(tmp_path / out), workers=workers)
    path.write_text(text)
    return [sys.executable, str(path)]


def kill_after(command: list[str], seconds: float) -> bool:
    """Start a program and kill all of its processes after so long; whether it was still there."""
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def kill_often(tmp_path: Path, reads: str, moments: random.Random, longest: float) -> int:
    """Start a build up to ten times and kill it; how often that was before it was done."""
    kills = 0
    for _ in range(10):
        command = script(tmp_path, reads, "killed", moments.choice([1, 2, 7, 16]))
        kills += kill_after(command, moments.uniform(0.2, longest))
        if (tmp_path / "killed" / "dataset.json").exists():
            break
    return kills


@pytest.mark.parametrize("reads", ["random", "sequence"])
def test_a_build_killed_at_ten_random_moments_gives_the_same_bytes(tmp_path, reads):
    begun = time.monotonic()
    subprocess.run(script(tmp_path, reads, "whole", 2), check=True)
    duration = time.monotonic() - begun
    moments = random.Random(reads)
    while not kill_often(tmp_path, reads, moments, duration / 2):
        shutil.rmtree(tmp_path / "killed")  # it was done before the first moment came
        duration /= 2
    if not (tmp_path / "killed" / "dataset.json").exists():
        subprocess.run(script(tmp_path, reads, "killed", 2), check=True)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")
    quarantines = [(tmp_path / name / "_quarantine.jsonl").read_text() for name in ("killed", "whole")]
    assert quarantines[0] == quarantines[1]
    assert len(quarantines[0].splitlines()) == 2
    assert not list((tmp_path / "killed").rglob("*.partial"))


def test_workers_end_when_the_build_is_killed_alone(tmp_path):
    process = subprocess.Popen(script(tmp_path, "sequence", "out", 2), start_new_session=True)
    workers: list[int] = []
    while len(workers) < 3 and process.poll() is None:
        time.sleep(0.05)
        workers = [worker for template in children(process.pid) for worker in (template, *children(template))]
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while any(is_running(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(workers) == 3
    assert not [worker for worker in workers if is_running(worker)]


def children(parent: int) -> list[int]:
    return [int(line.split()[0]) for line in ps("pid=,args=", "--ppid", parent) if "getattr(parallel, main)" in line]


def is_running(process: int) -> bool:
    return any(state.strip() != "Z" for state in ps("stat=", "-p", process))


def ps(columns: str, *what: object) -> list[str]:
    command = ["ps", "-ww", "-o", columns, *map(str, what)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.parametrize("reads", ["random", "sequence"])
def test_tasks_that_are_done_are_not_done_again(tmp_path, reads):
    class Breaks(Numbers):
        def read(self, partition, rows):
            for block in super().read(partition, rows):
                if (tmp_path / "broken").exists() and partition == 3 and block.rows[0] >= 100:
                    raise FileProblem("cable", "was pulled")
                yield block

    log = tmp_path / "log"
    (tmp_path / "broken").touch()
    source = Breaks(1600, reads, 4, log=log)
    with pytest.raises(FileProblem, match="cable"):
        build(source, tmp_path / "out", order="source", shards=8, run=Run(workers=1))
    assert not (tmp_path / "out" / "dataset.json").exists()
    (tmp_path / "broken").unlink()
    log.write_text("")
    built = build(source, tmp_path / "out", order="source", shards=8, run=Run(workers=1))
    assert built.resumed > 0
    assert set(log.read_text().split()) == {"3"}
    assert numbers_in(tmp_path / "out") == list(range(1600))


@pytest.mark.parametrize("reads", ["random", "sequence"])
def test_after_a_power_cut_what_was_not_on_disk_is_made_again_and_the_shards_stay(tmp_path, reads, monkeypatch):
    source = Numbers(600, reads, 4)
    build(source, tmp_path / "whole", shards=4, run=Run(workers=1))
    out = tmp_path / "cut"
    with monkeypatch.context() as patched, pytest.raises(FileProblem, match="power failed"):
        patched.setattr("bushel.building.run.publish", _fail)
        build(source, out, shards=4, run=Run(workers=1))
    (out / "_journal" / "done" / "shard-000002.json").unlink()
    for path in [*(out / "_journal" / "plan").glob("*.npy"), *(out / "_journal" / "runs").iterdir()]:
        path.write_bytes(bytes(path.stat().st_size))  # as a file system leaves them: their sizes, and zeros
    (out / "_journal" / "boot").write_text("before the power failed")
    shards = {path: path.stat().st_mtime_ns for path in out.glob("*.tfrecord") if "00002-of" not in path.name}
    assert build(source, out, shards=4, run=Run(workers=1)).resumed == len(shards) == 3
    assert digests(out) == digests(tmp_path / "whole")
    assert {path: path.stat().st_mtime_ns for path in shards} == shards


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on the build's machine", "on another"])
def test_runs_are_synced_where_a_machine_can_fail_without_the_build(tmp_path, monkeypatch, elsewhere):
    class Far(LocalEngine):
        """Workers of another machine: it was not started when the build's was."""

        def run(self, work, tasks, *, memory=0):
            with monkeypatch.context() as patched:
                if elsewhere:
                    patched.setattr("bushel.building.output.journal.boot_of_machine", lambda: "another")
                yield from super().run(work, tasks, memory=memory)

    synced = []
    real = SortedRunWriter.__exit__
    monkeypatch.setattr(
        SortedRunWriter, "__exit__", lambda self, *error: synced.append(self.durable) or real(self, *error)
    )
    build(Numbers(600, "sequence", 4), tmp_path / "out", shards=4, run=Run(workers=1, engine=Far(1)))
    assert synced == [elsewhere] * 4


def _fail(*_: object) -> None:
    raise FileProblem("machine", "the power failed")


def test_a_program_that_is_no_file_can_build(tmp_path):
    text = Path(script(tmp_path, "sequence", "out", 2)[1]).read_text()
    subprocess.run([sys.executable, "-"], input=text.replace("6000", "600"), text=True, check=True)
    assert len(numbers_in(tmp_path / "out")) == 599


def stopped(tmp_path: Path, source: Numbers) -> Path:
    """A build of which everything is done but its end."""
    out = tmp_path / "out"
    with pytest.raises(FileProblem, match="stop"):
        build(source, out, seed=3, run=Run(workers=1, progress=_stop))
    return out


def _stop(progress: BuildProgress) -> None:
    if progress.stage != "plan":
        raise FileProblem("progress", "stop")


def test_another_seed_or_option_is_refused_with_what_changed(tmp_path):
    out = stopped(tmp_path, Numbers(100))
    with pytest.raises(FileProblem) as caught:
        build(Numbers(100), out, seed=4, shards=3)
    assert str(caught.value).splitlines() == [
        f"{out}: another build was started here and did not finish: seed is 4, was 3; shards is 3, was None",
        "  Run it as it was to continue it, or with run=Run(overwrite=True) to start over.",
    ]


def test_a_source_that_changed_is_refused(tmp_path):
    out = stopped(tmp_path, Numbers(100))
    with pytest.raises(FileProblem, match="the files of the source have changed"):
        build(Numbers(101), out, seed=3)


def test_another_version_of_a_codec_is_refused(tmp_path, monkeypatch):
    from bushel.building import run as building

    out = stopped(tmp_path, Numbers(100))
    monkeypatch.setattr(building, "versions", lambda: {"bushel": "9.9"})
    with pytest.raises(FileProblem, match=r"bushel is version 9\.9, was 0\.1\.0"):
        build(Numbers(100), out, seed=3)


def test_overwrite_begins_anew_where_another_build_was_stopped(tmp_path):
    out = stopped(tmp_path, Numbers(100))
    build(Numbers(60), out, run=Run(workers=1, overwrite=True))
    assert sorted(numbers_in(out)) == list(range(60))


def test_two_builds_into_one_folder_at_a_time_are_refused(tmp_path):
    from bushel.building.output.journal import Journal

    with Journal(tmp_path / "out").lock(), pytest.raises(FileProblem, match="another build is writing here right now"):
        build(Numbers(100), tmp_path / "out")


def test_a_swap_that_was_cut_short_is_finished(tmp_path):
    build(Numbers(100), tmp_path / "out", run=Run(workers=1))
    build(Numbers(50), tmp_path / ".out.new", run=Run(workers=1))
    (tmp_path / "out").rename(tmp_path / ".out.replaced")
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        build(Numbers(50), tmp_path / "out")
    assert len(numbers_in(tmp_path / "out")) == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from making import Numbers
import bushel
from bushel.storage import whole_folders as swap

def die(*_):
    os._exit(9)

{patch}
bushel.build(Numbers(50), {out!r}, run=bushel.Run(workers=1, overwrite=True))
"""

MOMENTS = {
    "before the exchange": "swap._exchange = die",
    "after the exchange": "swap.sync_folder = die",
    "between two renames": "swap._exchange = lambda *_: False; swap.finish_move = die",
    "after two renames": "swap._exchange = lambda *_: False; swap.sync_folder = die",
}


def killed_while_it_replaces(out: Path, moment: str) -> None:
    """Build 100 numbers, then replace them by 50, and die."""
    build(Numbers(100), out, run=Run(workers=1))
    program = KILLED.format(tests=str(Path(__file__).parent), out=str(out), patch=MOMENTS[moment])
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_dataset_can_be_read_whenever_the_build_that_replaces_it_is_killed(tmp_path, moment):
    out = tmp_path / "out"
    killed_while_it_replaces(out, moment)
    assert out.is_dir() == (moment != "between two renames")
    with bushel.batches(bushel.open(out), batch_size=10) as feed:  # what a reader does; it finishes what it must
        read = sum(len(batch["number"]) for batch in feed)
    assert read == (100 if moment == "before the exchange" else 50)
    assert len(list(bushel.scan(out))) == read


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_next_build_finishes_what_a_killed_one_had_left_to_do(tmp_path, moment):
    out = tmp_path / "out"
    killed_while_it_replaces(out, moment)
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        build(Numbers(50), out)
    assert sorted(numbers_in(out)) == list(range(50))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert not (out / "_journal").exists()
    build(Numbers(70), out, run=Run(workers=1, overwrite=True))
    assert sorted(numbers_in(out)) == list(range(70))


def test_there_is_a_manifest_at_every_moment_while_a_dataset_is_replaced(tmp_path):
    manifest = tmp_path / "out" / "dataset.json"
    build(Numbers(20), tmp_path / "out", run=Run(workers=1))
    looks, is_over = [], threading.Event()

    def look() -> None:
        while not is_over.is_set():
            looks.append(manifest.exists())

    thread = threading.Thread(target=look)
    thread.start()
    for rows in range(21, 31):
        build(Numbers(rows), tmp_path / "out", run=Run(workers=1, overwrite=True))
    is_over.set()
    thread.join()
    assert len(looks) > 1000
    assert all(looks)


def test_an_addition_that_was_stopped_does_not_hinder_replacing(tmp_path):
    out = tmp_path / "out"
    build(Numbers(20), out, run=Run(workers=1))
    with pytest.raises(FileProblem, match="stop"):
        build(Numbers(30), out, run=Run(workers=1, append=True, progress=_stop))
    assert (out / "_journal" / "build.json").exists()
    killed = KILLED.format(tests=str(Path(__file__).parent), out=str(out), patch=MOMENTS["after the exchange"])
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
    build(Numbers(60), out, run=Run(workers=1, overwrite=True))
    assert sorted(numbers_in(out)) == list(range(60))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_link_to_a_dataset_stays_a_link_when_the_dataset_is_replaced(tmp_path):
    build(Numbers(20), tmp_path / "real" / "out", run=Run(workers=1))
    (tmp_path / "link").symlink_to(tmp_path / "real" / "out")
    build(Numbers(30), tmp_path / "link", run=Run(workers=1, overwrite=True))
    assert (tmp_path / "link").is_symlink()
    assert len(numbers_in(tmp_path / "real" / "out")) == 30
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["out"]


def test_a_full_disk_leaves_what_is_done_and_one_clear_line(small_disk):
    source = Numbers(30_000, "random", 4)
    with pytest.raises(FileProblem) as caught:
        build(source, small_disk / "out", shards=20, run=Run(workers=2))
    said = f"{small_disk / 'out'}: the disk is full; what is done is kept, and the same command continues"
    assert str(caught.value).splitlines()[0] == said
    assert (small_disk / "out" / "_journal" / "build.json").exists()
    (small_disk / "ballast").unlink()
    built = build(source, small_disk / "out", shards=20, run=Run(workers=2))
    assert built.resumed > 0
    assert sorted(numbers_in(small_disk / "out")) == list(range(30_000))


@pytest.mark.parametrize("reads", ["random", "sequence"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_build_that_a_disk_cannot_hold_is_refused_before_it_writes_and_any_other_succeeds(
    tmp_path, reads, compression
):
    outcomes = []
    for size in range(3, 14):
        with mounted(tmp_path / f"{size}", size << 20) as folder:
            try:
                build(Numbers(30_000, reads), folder / "out", compression=compression, shards=4, run=Run(workers=1))
                outcomes.append("built")
            except FileProblem as problem:
                outcomes.append(problem.message.partition(": ")[2].partition(" about")[0])
                outcomes += ["left"] * (folder / "out").exists()
    assert list(dict.fromkeys(outcomes)) == ["the build needs", "built"]


def test_nothing_is_said_to_be_kept_where_the_disk_was_full_before_anything_was_done(tmp_path, monkeypatch):
    with mounted(tmp_path / "small", 200 << 10) as folder:
        usage = shutil.disk_usage(folder)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 40))
        with pytest.raises(FileProblem) as caught:
            build(Numbers(30_000), folder / "out", run=Run(workers=1))
        assert str(caught.value).splitlines()[0] == f"{folder / 'out'}: the disk is full"
        assert not (folder / "out").exists()


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[Path]:
    """A file system of this many bytes."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a file may still be mapped


@pytest.fixture
def small_disk(tmp_path, monkeypatch):
    """A file system of 16 MiB that is nearly full, though a build may think otherwise."""
    with mounted(tmp_path / "small", 16 << 20) as folder:
        (folder / "ballast").write_bytes(bytes(12 << 20))
        usage = shutil.disk_usage(folder)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 40))
        yield folder


TRANSFORM = """
SCALE = {scale}

def scaled(number):
    return number * {scale}  # {comment}

class Scale:
    def apply(self, sample, draw):
        return {{**sample, "number": scaled(sample["number"])}}
"""


def transform_of(tmp_path: Path, name: str, **values: object) -> object:
    path = tmp_path / f"{name}.py"
    path.write_text(TRANSFORM.format(**values))
    space: dict[str, object] = {"__name__": "mine"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["Scale"]()  # type: ignore[operator]


def test_a_transform_whose_code_changed_is_refused_but_not_one_with_another_comment(tmp_path, monkeypatch):
    source, out = Numbers(100), tmp_path / "out"
    monkeypatch.setitem(sys.modules, "mine", sys)  # where workers and recipes look for it

    def start(transform: object) -> None:
        build(source, out, transforms=[transform], run=Run(workers=1))

    with monkeypatch.context() as patched, pytest.raises(FileProblem, match="power failed"):
        patched.setattr("bushel.building.run.publish", _fail)
        start(transform_of(tmp_path, "first", scale=2, comment="twice"))
    with pytest.raises(FileProblem, match=r"did not finish: the code of mine:Scale has changed"):
        start(transform_of(tmp_path, "second", scale=3, comment="twice"))
    start(transform_of(tmp_path, "third", scale=2, comment="another comment"))
    assert sorted(numbers_in(out)) == list(range(0, 200, 2))


def test_a_build_that_is_killed_leaves_nothing_outside_of_its_folder(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, numpy as np, bushel\n"
        "BUILD = os.getpid()\n"
        "class Kill:\n"
        "    def apply(self, sample, draw):\n"
        "        if os.getpid() != BUILD: os.kill(BUILD, signal.SIGKILL)\n"
        "        return sample\n"
        f"bushel.build({{'x': np.arange(2000)}}, {str(tmp_path / 'out')!r}, transforms=[Kill()],"
        " shards=4, run=bushel.Run(workers=2))\n"
    )
    shared = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").is_dir() else set()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    run = subprocess.run([sys.executable, str(program)], env=environment, cwd=tmp_path, check=False)
    assert run.returncode == -signal.SIGKILL
    assert list(temporary.iterdir()) == []
    if shared:
        assert not [path for path in set(Path("/dev/shm").iterdir()) - shared if "sem" in path.name]


def test_a_build_killed_just_before_its_manifest_continues(tmp_path, monkeypatch):
    """Descriptions for TensorFlow Datasets are there before it, and were taken for it: the journal was thrown away."""
    (tmp_path / "rows.csv").write_text("x,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(50)))
    build(tmp_path / "rows.csv", tmp_path / "whole")

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr("bushel.building.output.output_folder.write_manifest", killed)
        build(tmp_path / "rows.csv", tmp_path / "out")
    assert (tmp_path / "out" / "dataset_info.json").exists()
    built = build(tmp_path / "rows.csv", tmp_path / "out")
    assert built.resumed > 0
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_the_journal_of_a_build_killed_after_its_manifest_goes_when_there_is_nothing_to_do(tmp_path):
    (tmp_path / "rows.csv").write_text("x,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(50)))
    build(tmp_path / "rows.csv", tmp_path / "out")
    (tmp_path / "out" / "_journal" / "done").mkdir(parents=True)  # half removed
    assert build(tmp_path / "rows.csv", tmp_path / "out").samples == 0
    assert not (tmp_path / "out" / "_journal").exists()
