"""Building into object stores and out of them: the same bytes as on this machine, whole or not at all, continued."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from storage_server import SECRET

import bushel
from bushel.building import Run
from bushel.errors import FileProblem, TooManyRefused
from bushel.records.index import load_keys
from bushel.records.manifest import read_manifest
from bushel.storage import as_path, copy_file, stores
from bushel.storage import whole_folders as claims
from bushel.storage.objects import ObjectPath
from bushel.transforms.chain import restore_all


def columns(rows: int = 2000, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, 50)).astype(np.float32), "label": rng.integers(0, 4, rows)}


def digests(folder: Any) -> dict[str, str]:
    """SHA-256 of each shard, of the bytes that are really there."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(as_path(folder).iterdir())
        if ".tfrecord" in path.name
    }


def names_below(url: str) -> set[str]:
    root = as_path(url)
    assert isinstance(root, ObjectPath)
    return {"/".join(path.parts[len(root.parts) :]) for path in root.below()}


def test_a_build_into_a_store_has_the_bytes_of_a_local_one(bucket: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"split": "80/20", "stratify": "label", "shard_size": "50K"}
    bushel.build(columns(), tmp_path / "here", **options)
    bushel.build(columns(), f"{bucket}/there", **options)
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")
    here, there = read_manifest(tmp_path / "here"), read_manifest(f"{bucket}/there")
    assert here == there
    assert names_below(f"{bucket}/there") == {
        path.relative_to(tmp_path / "here").as_posix()
        for path in (tmp_path / "here").rglob("*")
        if path.is_file() and path.suffix != ".keys"  # which are in the indexes there
    }
    for name in digests(tmp_path / "here"):
        kept, local = (load_keys(as_path(folder) / name) for folder in (f"{bucket}/there", tmp_path / "here"))
        assert kept is not None
        assert local is not None
        assert kept.to_list() == local.to_list()
    assert not list(bushel.check(f"{bucket}/there"))
    assert not list((tmp_path / "home-cache" / "bushel" / "builds").iterdir())


def test_a_shard_takes_two_objects_and_its_records_lead_back_to_their_source(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[str] = []
    real = stores.put

    def counted(key: Any, data: Any) -> Any:
        put.append(key.name)
        return real(key, data)

    monkeypatch.setattr(stores, "put", counted)
    source = tmp_path / "rows.csv"
    source.write_text("a,b\n" + "".join(f"{i},{i / 3}\n" for i in range(400)))
    bushel.build(source, f"{bucket}/data", shards=8, run=Run(workers=1))
    shards = [name for name in put if ".tfrecord" in name]
    assert len(digests(f"{bucket}/data")) == 8
    assert len(shards) == 16
    assert len(set(put)) == len(put)
    assert len(put) - len(shards) < 8  # what there is once for the dataset
    bushel.build(source, tmp_path / "here", shards=8, run=Run(workers=1))
    there, here = (bushel.provenance(folder, "train", 123) for folder in (f"{bucket}/data", tmp_path / "here"))
    assert (there.key, there.source) == (here.key, here.source)
    bushel.write_index(f"{bucket}/data")  # keeps what only the build knows
    assert bushel.provenance(f"{bucket}/data", "train", 123).key == here.key


def test_indexes_of_a_build_are_tied_to_their_objects(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel.records import index
    from bushel.storage import list_files

    bushel.build(columns(300), f"{bucket}/data", shards=3)
    files = list_files(f"{bucket}/data")
    monkeypatch.setattr(index, "_ends", lambda path, size: pytest.fail(f"the ends of {path} were read"))
    assert sum(len(index.load_index(file) or ()) for file in files) == 300


KILLED = """
import sys, os, signal, threading, time
import numpy as np
import bushel
from bushel.building import Run
from bushel.building import tasks
out, after = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
columns = {"x": rng.normal(size=(2000, 50)).astype(np.float32), "label": rng.integers(0, 4, 2000)}
taken, real = [], tasks.deliver
def deliver(*given):
    if len(taken) == after:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*given)
    taken.append(given)
tasks.deliver = deliver
bushel.build(columns, out, shard_size="50K", run=Run(workers=1))
"""


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this machine", "on another"])
def test_a_build_that_was_killed_continues_from_what_the_store_holds(
    bucket: str, tmp_path: Path, elsewhere: bool
) -> None:
    bushel.build(columns(), tmp_path / "here", shard_size="50K")
    done = subprocess.run([sys.executable, "-c", KILLED, f"{bucket}/there", "4"], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert "dataset.json" not in names_below(f"{bucket}/there")
    assert sum(name.startswith("_index/") for name in names_below(f"{bucket}/there")) == 4
    if elsewhere:
        shutil.rmtree(tmp_path / "home-cache")
    built = bushel.build(columns(), f"{bucket}/there", shard_size="50K")
    assert built.resumed == 4
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")
    assert not any(name.startswith("_journal") for name in names_below(f"{bucket}/there"))


def test_a_shard_that_the_journal_names_but_the_store_lacks_is_made_again(bucket: str, tmp_path: Path) -> None:
    bushel.build(columns(), tmp_path / "here", shard_size="50K")
    subprocess.run([sys.executable, "-c", KILLED, f"{bucket}/there", "4"], timeout=120, check=False)
    next(path for path in as_path(f"{bucket}/there").iterdir() if ".tfrecord" in path.name).unlink()
    assert bushel.build(columns(), f"{bucket}/there", shard_size="50K").resumed == 3
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")


def test_another_build_is_not_continued(bucket: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED, f"{bucket}/there", "1"], timeout=120, check=False)
    with pytest.raises(FileProblem, match="another build was started here and did not finish: seed is 5"):
        bushel.build(columns(), f"{bucket}/there", shard_size="50K", seed=5)
    bushel.build(columns(), f"{bucket}/there", shard_size="50K", seed=5, run=Run(overwrite=True))
    assert read_manifest(f"{bucket}/there").seed == 5


def test_a_finished_dataset_is_kept_until_its_successor_is_whole(bucket: str, tmp_path: Path) -> None:
    url = f"{bucket}/data"
    bushel.build(columns(seed=1), url, shards=3)
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        bushel.build(columns(seed=2), url, shards=2)
    with pytest.raises(LookupError, match="no column 'bad_feature'"):
        bushel.build(columns(seed=2), url, stratify="bad_feature", split="50/50", run=Run(overwrite=True))
    assert read_manifest(url).splits["train"].records == 2000
    bushel.build(columns(1000, seed=2), url, shards=2, run=Run(overwrite=True))
    bushel.build(columns(1000, seed=2), tmp_path / "here", shards=2)
    assert digests(url) == digests(tmp_path / "here")
    assert not any(path.name.startswith(".") for path in as_path(bucket).iterdir())


class Refused(FileProblem):
    """What a store says to a request that it refuses."""


def refuse_after(requests: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a store refuse every change after some; what was asked of it by name, as it comes."""
    asked: list[str] = []

    def limited(name: str) -> None:
        real = getattr(stores, name)

        def change(key: Any, *given: Any) -> Any:
            if len(asked) >= requests and not key.name.endswith("claim.json"):
                raise Refused(str(key), "access denied")
            asked.append(name)
            return real(key, *given)

        monkeypatch.setattr(stores, name, change)

    for name in ("put", "copy", "delete"):
        limited(name)
    return asked


def test_a_dataset_can_be_read_at_every_moment_while_another_takes_its_place(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store refuses from the first, the second … the last change on: there is always a whole dataset, old or new."""
    url, run = as_path(f"{bucket}/data"), Run(overwrite=True, workers=1)
    tokenise = bushel.transforms.tokenise("text", size=10)

    def texts(rows: int) -> dict[str, Any]:
        return {"text": [f"word{i % 7} of {rows}" for i in range(rows)], "x": np.arange(rows)}

    bushel.build(texts(50), url, transforms=[tokenise], shards=3)
    rows, seen = 50, set()
    for requests in range(100):
        before, rows = rows, 51 + requests
        with monkeypatch.context() as patch:
            refuse_after(requests, patch)
            try:
                bushel.build(texts(rows), url, transforms=[tokenise], shards=2, run=run)
            except FileProblem as error:
                problem: str | None = str(error)
            else:
                problem = None
        dataset = bushel.open(url)
        there = [int(row["x"]) for row in dataset["train"]]
        assert sorted(there) in (list(range(before)), list(range(rows)))
        assert dataset.manifest is not None
        restore_all([tokenise], dataset.manifest, url)  # its files are those that it was built with
        is_new = len(there) == rows
        seen.add((problem is None, is_new))
        assert is_new == (problem is None or "the new dataset is complete and can be read" in problem)
        rows = len(there)
        if problem is None:
            break
        with suppress(FileProblem):  # finishes a copy, and says that there is a dataset
            bushel.build(texts(rows), url, transforms=[tokenise])
    assert seen == {(False, False), (False, True), (True, True)}
    assert not any(name.startswith("_new") for name in names_below(str(url)))


def test_a_swap_that_was_stopped_is_finished_by_the_next_build(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = as_path(f"{bucket}/data")
    bushel.build(columns(500, seed=1), url, shards=3)
    real = ObjectPath.copy_to

    def stop(self: ObjectPath, other: ObjectPath) -> None:
        if "_index" not in other.parts:
            raise KeyboardInterrupt
        real(self, other)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectPath, "copy_to", stop)
        with pytest.raises(KeyboardInterrupt):
            bushel.build(columns(700, seed=2), url, shards=2, run=Run(overwrite=True))
    assert len(list(bushel.open(url)["train"])) == 700
    assert "_new/dataset.json" in names_below(str(url))
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        bushel.build(columns(700, seed=2), url, shards=2)
    assert len(list(bushel.open(url)["train"])) == 700
    assert not any(name.startswith(("_new", "_journal")) for name in names_below(str(url)))


def test_a_swap_that_another_build_is_making_is_left_to_it(bucket: str) -> None:
    url = as_path(f"{bucket}/data")
    bushel.build(columns(100), url)
    as_path(f"{bucket}/data/_new/dataset.json").write_bytes((url / "dataset.json").read_bytes())
    path = as_path(f"{bucket}/data/_new/_journal/claim.json")
    with claims.hold(path, url), pytest.raises(FileProblem, match="another build is writing here right now"):
        bushel.build(columns(100), url, run=Run(overwrite=True))
    assert len(list(bushel.open(url)["train"])) == 100


def test_an_object_that_is_too_large_for_one_request_is_copied_in_parts(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.random.default_rng(0).bytes((5 << 20) + 3)
    one, other = as_path(f"{bucket}/one"), as_path(f"{bucket}/other")
    one.write_bytes(data)
    monkeypatch.setattr(stores, "COPIED_BYTES", 5 << 20)
    monkeypatch.setattr(stores, "PART_BYTES", 5 << 20)
    copy_file(one.fresh() if isinstance(one, ObjectPath) else one, other)
    assert other.read_bytes() == data


def test_samples_are_added_as_they_are_locally(bucket: str, tmp_path: Path) -> None:
    first, more = tmp_path / "first.csv", tmp_path / "more.csv"
    first.write_text("id,x\n" + "".join(f"a{i},{i}\n" for i in range(100)))
    more.write_text("id,x\n" + "".join(f"a{i},{i}\n" for i in range(150)))
    for out in (tmp_path / "here", f"{bucket}/there"):
        for source, append in ((first, False), (more, True)):
            bushel.build(bushel.sources.table(source, key="id"), out, run=Run(append=append))
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")
    assert read_manifest(f"{bucket}/there").splits["train"].records == 150
    assert not names_below(f"{bucket}/there") & {"dataset_info.json", "features.json"}  # they know no generations


def test_refusals_are_written_into_the_store(bucket: str, tmp_path: Path) -> None:
    rows = "".join(f"{i},{'x' if i == 7 else i}\n" for i in range(50))
    (tmp_path / "rows.csv").write_text("id,value\n" + rows)
    source = bushel.sources.table(tmp_path / "rows.csv", types={"value": "int64"})
    built = bushel.build(source, f"{bucket}/data")
    assert built.refused == 1
    assert b'"key":"7"' in as_path(f"{bucket}/data/_quarantine.jsonl").read_bytes()
    with pytest.raises(TooManyRefused) as caught:
        bushel.build(source, f"{bucket}/strict", run=Run(strict=True))
    assert str(caught.value).startswith(f"{bucket}/strict: 1 sample refused")
    assert as_path(f"{bucket}/strict/_quarantine.jsonl").is_file()


def test_a_folder_with_other_objects_is_refused(bucket: str) -> None:
    as_path(f"{bucket}/mine/notes.txt").write_bytes(b"x")
    with pytest.raises(FileProblem, match="holds 'notes.txt', which no build wrote"):
        bushel.build(columns(10), f"{bucket}/mine")
    with pytest.raises(FileProblem, match="is a bucket"):
        bushel.build(columns(10), bucket)


def test_two_builds_into_one_folder_do_not_meet(bucket: str, tmp_path: Path) -> None:
    waiting = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "time.sleep(60)")
    other = subprocess.Popen([sys.executable, "-c", waiting, f"{bucket}/there", "1"])
    try:
        for _ in range(200):
            if any(name.startswith("_index/") for name in names_below(f"{bucket}/there")):
                break
            time.sleep(0.1)
        with pytest.raises(FileProblem, match="another build is writing here right now"):
            bushel.build(columns(), f"{bucket}/there", shard_size="50K")
    finally:
        other.kill()
        other.wait()


def test_a_plan_that_fails_elsewhere_leaves_what_was_delivered(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bushel.building import run as building

    subprocess.run([sys.executable, "-c", KILLED, f"{bucket}/there", "4"], timeout=120, check=False)
    shutil.rmtree(tmp_path / "home-cache")
    with monkeypatch.context() as patch:
        patch.setattr(building, "plan_build", lambda *_: (_ for _ in ()).throw(FileProblem("source", "is away")))
        with pytest.raises(FileProblem, match="is away"):
            bushel.build(columns(), f"{bucket}/there", shard_size="50K")
    assert bushel.build(columns(), f"{bucket}/there", shard_size="50K").resumed == 4


def other_machine(bucket: str, after: str = "1") -> subprocess.Popen[bytes]:
    """A build into the same folder that waits when it has delivered a shard, with a folder of its own to work in."""
    waiting = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "time.sleep(60)")
    home = Path(os.environ["XDG_CACHE_HOME"]).with_name("other-home")
    other = subprocess.Popen(
        [sys.executable, "-c", waiting, f"{bucket}/there", after], env={**os.environ, "XDG_CACHE_HOME": str(home)}
    )
    for _ in range(200):
        if any(name.startswith("_index/") for name in names_below(f"{bucket}/there")):
            return other
        time.sleep(0.1)
    other.kill()
    pytest.fail("the other build delivers nothing")


def test_two_builds_of_two_machines_into_one_folder_do_not_meet(bucket: str, tmp_path: Path) -> None:
    other = other_machine(bucket)
    try:
        with pytest.raises(FileProblem, match="another build is writing here right now, on "):
            bushel.build(columns(), f"{bucket}/there", shard_size="50K")
    finally:
        other.kill()
        other.wait()
    bushel.build(columns(), tmp_path / "here", shard_size="50K")
    bushel.build(columns(), f"{bucket}/there", shard_size="50K")  # the other one is dead: this machine can tell
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")
    assert not any(name.startswith("_journal") for name in names_below(f"{bucket}/there"))


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known here of the processes of others."""
    monkeypatch.setattr(claims, "boot_of_machine", lambda: "another")
    monkeypatch.setattr(claims, "PATIENCE", 2.0)


def test_a_claim_that_lives_is_told_from_one_that_was_left_without_looking_at_clocks(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_path(f"{bucket}/claim.json")
    assert isinstance(path, ObjectPath)
    monkeypatch.setattr(claims, "BEAT", 0.2)
    with claims.hold(path, path.parent) as first:
        elsewhere(monkeypatch)
        with pytest.raises(FileProblem, match="another build is writing here right now"), claims.hold(path, path):
            pass
        first._is_over.set()  # it is killed
        with claims.hold(path, path.parent) as second:
            second.check()
            with pytest.raises(FileProblem, match="another build took this folder over"):
                first.check()
            first.release()
            second.check()  # the first one took nothing away that is not its own
    assert not path.fresh().is_file()


def can_unshare() -> bool:
    given = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return (
        shutil.which("unshare") is not None and subprocess.run(given, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_unshare(), reason="this machine makes no namespaces for processes")
def test_a_build_killed_as_process_1_of_a_container_is_continued_by_process_1_of_the_next(
    bucket: str, tmp_path: Path
) -> None:
    """On one machine: with the same host name, the same boot, and the same number of the process."""
    bushel.build(columns(), tmp_path / "here", shard_size="50K")
    script = "from bushel.storage import whole_folders\nwhole_folders.PATIENCE = 2.0\n" + KILLED
    script = script.replace("os.kill(os.getpid(), signal.SIGKILL)", "print(os.getpid(), flush=True); time.sleep(60)")
    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", script]
    with subprocess.Popen([*container, f"{bucket}/there", "3"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "1\n"
        first.kill()
    done = subprocess.run(
        [*container, f"{bucket}/there", "99"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "has claimed this folder: waiting up to 2 s for a sign of life" in done.stderr
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")


def test_a_number_that_another_process_has_by_now_does_not_lock_a_folder(bucket: str) -> None:
    path = as_path(f"{bucket}/claim.json")
    assert isinstance(path, ObjectPath)
    left = msgspec.structs.replace(claims.Claim.own(), token="of a process that was killed", started="1")
    path.write_bytes(msgspec.json.encode(left))
    with claims.hold(path, path.parent) as mine:
        mine.check()


def test_a_claim_that_the_store_does_not_let_go_does_not_lock_the_folder(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_path(f"{bucket}/data/_journal/claim.json")

    def refuse(self: Path) -> None:
        raise FileProblem(self, "the store refuses that")

    with monkeypatch.context() as patched:
        patched.setattr(type(path), "unlink", refuse)
        with claims.hold(path, path.parent):
            pass
    assert msgspec.json.decode(path.read_bytes())["boot"] == ""  # for other processes, which wait for a beat
    with claims.hold(path, path.parent):
        pass
    assert not path.fresh().exists()


def test_the_error_names_the_object_that_locks_a_folder(bucket: str) -> None:
    path = as_path(f"{bucket}/claim.json")
    assert isinstance(path, ObjectPath)
    with claims.hold(path, path.parent), pytest.raises(FileProblem) as caught, claims.hold(path, path.parent):
        pass
    assert f"If no build is running there, delete {path} and run this again." in str(caught.value)


def test_of_builds_that_claim_at_once_one_is_let_in(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_path(f"{bucket}/claim.json")
    assert isinstance(path, ObjectPath)

    def claim(_: int) -> claims.Holding | None:
        try:
            return claims.Holding(path, path.parent)
        except FileProblem:
            return None

    with ThreadPoolExecutor(8) as pool:
        held = [found for found in pool.map(claim, range(8)) if found is not None]
    assert len(held) == 1
    held[0].release()


def test_a_build_that_lost_its_folder_publishes_nothing(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = claims.Holding.check

    def taken_over(self: claims.Holding) -> None:
        self.path.write_bytes(b'{"token": "another", "host": "far", "boot": "x", "process": 1}')
        real(self)

    monkeypatch.setattr(claims.Holding, "check", taken_over)
    with pytest.raises(FileProblem, match="another build took this folder over because this one was silent"):
        bushel.build(columns(), f"{bucket}/there", shards=2)
    assert "dataset.json" not in names_below(f"{bucket}/there")


def test_a_build_from_a_store_into_a_store_that_was_killed_continues(bucket: str, tmp_path: Path) -> None:
    script = KILLED.replace("bushel.build(columns, out,", f"bushel.build('{bucket}/raw/*.csv', out,")
    (tmp_path / "raw").mkdir()
    for part in range(4):
        lines = "".join(f"{part * 500 + i},{i / 3}\n" for i in range(500))
        (tmp_path / "raw" / f"{part}.csv").write_text("a,b\n" + lines)
        as_path(f"{bucket}/raw/{part}.csv").write_bytes((tmp_path / "raw" / f"{part}.csv").read_bytes())
    bushel.build(str(tmp_path / "raw" / "*.csv"), tmp_path / "here", shard_size="10K")
    assert len(digests(tmp_path / "here")) > 4
    done = subprocess.run(
        [sys.executable, "-c", script.replace('"50K"', '"10K"'), f"{bucket}/there", "3"], timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert sum(name.startswith("_index/") for name in names_below(f"{bucket}/there")) == 3
    shutil.rmtree(tmp_path / "home-cache")  # as from another machine
    built = bushel.build(f"{bucket}/raw/*.csv", f"{bucket}/there", shard_size="10K")
    assert built.resumed == 3
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")


def test_no_secret_is_in_anything_that_was_written(bucket: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bushel", "build", str(make_csv(tmp_path)), f"{bucket}/data"],
        capture_output=True,
        env={**os.environ, "RUST_LOG": "trace"},
        timeout=120,
        check=True,
    )
    root = as_path(f"{bucket}/data")
    assert isinstance(root, ObjectPath)
    told = [run.stdout, run.stderr, *(path.read_bytes() for path in root.below())]
    told += [path.read_bytes() for path in (tmp_path / "home-cache").rglob("*") if path.is_file()]
    told += [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(told) > 5
    for text in told:
        assert SECRET.encode() not in text
        assert b"AKIAEXAMPLE" not in text


def make_csv(folder: Path) -> Path:
    path = folder / "rows.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i / 3}\n" for i in range(200)))
    return path
