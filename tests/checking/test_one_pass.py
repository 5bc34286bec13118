"""A check on many workers finds what a check in one process finds."""

import io
import os
import time

import cloudpickle
import numpy as np
import pytest

import bushel
import bushel.records.files
import bushel.records.index
from bushel import _native
from bushel.checking import checker
from bushel.checking.collect import facts, one_pass
from bushel.checking.finding_formats import to_json
from bushel.parallel import Crew

hire = Crew.hire


class Elsewhere:
    """Looks at files last first, and gives back pickles, as another machine would."""

    def __init__(self):
        self.done = 0

    def look(self, reads, writes, versions):
        assert reads

    def run(self, work, tasks, *, memory=0):
        for task in reversed(tasks):
            self.done += 1
            yield cloudpickle.loads(cloudpickle.dumps(cloudpickle.loads(cloudpickle.dumps(work))(task)))

    def cpu_seconds(self):
        return None

    def close(self):
        self.done = -self.done


def image(value: int) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    picture = np.random.default_rng(value // 2).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(picture).save(buffer, "jpeg", quality=90 - value % 2)
    return buffer.getvalue()


def sample(split: str, number: int) -> dict[str, object]:
    words = " ".join(f"word{(number + i) % 40}" for i in range(12))
    return {
        "image": image(number) if number % 9 else b"no image",
        "text": f"{words} {split}" if number % 3 else words,
        "label": number % 3,
        "patient": number % 11,
        "x": np.float32(number if number % 7 else np.nan),
        "bbox/xmin": np.float32([0.5, 0.2]),
        "bbox/xmax": np.float32([0.4, 0.3]),
        "speech": (np.sin(np.arange(300)) * (number % 8 > 0)).astype(np.float32),
        "sample_rate": 16000 if number % 6 else 8000,
        "token_ids": np.array([5, 6, 7, 0, 0, 0, 0, 0][: 8 if number % 2 else 7]),
    }


@pytest.fixture
def dataset(tmp_path):
    for split, shards in (("train", 3), ("val", 2)):
        for shard in range(shards):
            with bushel.Writer(tmp_path / f"{split}-{shard:05d}-of-{shards:05d}.tfrecord") as writer:
                for number in range(shard, 40, 2):
                    writer.write(sample(split, number))
    damaged = tmp_path / "train-00001-of-00003.tfrecord"
    data = bytearray(damaged.read_bytes())
    data[40] ^= 1
    damaged.write_bytes(data)
    (tmp_path / "val-00001-of-00002.tfrecord").write_bytes(b"no records at all, only text")
    return tmp_path


def test_processes_that_share_out_a_large_dataset_find_the_same(dataset, monkeypatch):
    alone = bushel.check(dataset)
    hired = []
    monkeypatch.setattr("bushel.checking.checker._LARGE", 1)
    monkeypatch.setattr("bushel.checking.checker.available_cores", lambda: 2)
    monkeypatch.setattr(Crew, "hire", lambda crew, wanted, modules: hired.append(wanted) or hire(crew, wanted, modules))
    shared = bushel.check(dataset)
    assert hired == [0, 2]  # first what they are forked from
    assert shared.timings["read"].cores is not None
    assert list(shared.timings) == ["read", "rules"]
    assert to_json(shared.findings, shared.checked) == to_json(alone.findings, alone.checked)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A built dataset of numbers and words, in parts of a few hundred records each."""
    rng = np.random.default_rng(0)
    columns = {f"f{i}": rng.standard_normal(6000).astype(np.float32) for i in range(4)}
    columns |= {"i": rng.integers(0, 9, 6000), "word": [f"w{n % 7}" for n in range(6000)], "label": np.arange(6000) % 3}
    for column in columns.values():
        column[5000:5040] = column[100:140]  # copies
    columns["i"][17::900] = -999  # a sentinel
    bushel.build(columns, tmp_path / "data", shards=3, run=bushel.Run(workers=1))
    monkeypatch.setattr(one_pass, "PART_BYTES", 20_000)
    return tmp_path / "data"


@pytest.mark.parametrize("cores", [1, 3, 100])
def test_threads_that_share_out_a_large_table_find_the_same(table, monkeypatch, cores):
    alone = bushel.check(table)
    tasks = []
    run = checker._Threads.run
    monkeypatch.setattr(
        checker._Threads, "run", lambda self, work, some, **k: tasks.extend(some) or run(self, work, some, **k)
    )
    monkeypatch.setattr(checker, "_LARGE", 1)
    monkeypatch.setattr(checker, "available_cores", lambda: cores)
    monkeypatch.setattr(Crew, "hire", lambda *_: pytest.fail("a table needs no processes"))
    shared = bushel.check(table)
    assert len(tasks) > 3 * 3
    assert {finding.rule for finding in shared} >= {"VAL003", "SPL008"}
    assert to_json(shared.findings, shared.checked) == to_json(alone.findings, alone.checked)


def test_findings_and_counts_are_those_of_one_process(dataset):
    alone = bushel.check(dataset)
    engine, told = Elsewhere(), []
    parts = bushel.check(dataset, engine=engine, progress=lambda *now: told.append(now))
    assert engine.done == -5  # every file, and it was closed
    assert told[-1][0] == told[-1][1] > 0
    assert {finding.rule for finding in alone} >= {"FIL003", "SPL001", "IMG001", "VAL001", "SPL003", "AUD002", "AUD004"}
    assert to_json(parts.findings, parts.checked) == to_json(alone.findings, alone.checked)


def test_one_core_finds_what_two_find(tmp_path, monkeypatch):
    values = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    values[7] = 1e9
    with bushel.Writer(tmp_path / "train.tfrecord") as writer:
        writer.write_batch({"x": values})
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        report = bushel.check(tmp_path)
        found.append(to_json(report.findings, report.checked))
    assert "outlier" in {finding.name for finding in report}
    assert found[0] == found[1]


def test_digests_that_are_not_needed_any_more_are_not_made(table, monkeypatch):
    class Stopped(Exception):
        pass

    def stop(checks):
        digests.update(checks.data.digests)
        raise Stopped

    digests = {}
    monkeypatch.setattr(checker, "_LARGE", 1)
    monkeypatch.setattr(checker, "available_cores", lambda: 1)
    monkeypatch.setattr(facts.FileFacts, "digest", lambda file: time.sleep(0.2) or "")
    monkeypatch.setattr(checker._Checks, "apply", stop)
    with pytest.raises(Stopped):
        bushel.check(table)
    assert len(digests) > 2
    assert any(digest.cancelled() for digest in digests.values())


def test_a_stale_index_is_found_by_other_workers_too(dataset):
    path = dataset / "train-00000-of-00003.tfrecord"
    bushel.write_index(path)
    path.write_bytes(2 * path.read_bytes())
    alone, shared = bushel.check(dataset), bushel.check(dataset, engine=Elsewhere())
    assert "stale-index" in {finding.name for finding in alone}
    assert to_json(shared.findings, shared.checked) == to_json(alone.findings, alone.checked)


@pytest.fixture
def cuttable(dataset, monkeypatch):
    """Files with indexes, in parts of a few records each."""
    for file in sorted(dataset.glob("*.tfrecord")):
        file.unlink()
    for split, shards in (("train", 3), ("val", 2)):
        for shard in range(shards):
            path = dataset / f"{split}-{shard:05d}-of-{shards:05d}.tfrecord"
            with bushel.Writer(path) as writer:
                for number in range(shard, 400, 2):
                    kept = {name: value for name, value in sample(split, number).items() if name != "token_ids"}
                    writer.write({**kept, "y": np.float32(number * (100 if shard == 2 else 1) + 1)})
            bushel.write_index(path)
    monkeypatch.setattr(one_pass, "PART_BYTES", 40_000)
    return dataset


def damage(path, at):
    """Change a byte of a file whose index stays fresh."""
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def looked_at(dataset, parts):
    """What an engine finds, which notes the parts that it is given."""
    engine = Elsewhere()
    run = engine.run
    engine.run = lambda work, tasks, memory=0: parts.append(list(tasks)) or run(work, tasks, memory=memory)
    return bushel.check(dataset, engine=engine)


def test_parts_of_files_are_looked_at_as_whole_files_are(cuttable):
    alone, runs = bushel.check(cuttable), []
    cut = looked_at(cuttable, runs)
    (parts,) = runs
    assert len(parts) > 3 * 5
    assert all(sum(part.size for part in parts if part.file.number == file) > 80_000 for file in range(5))
    assert {finding.rule for finding in alone} >= {"VAL001", "SPL001", "VAL010"}
    assert to_json(cut.findings, cut.checked) == to_json(alone.findings, alone.checked)


@pytest.mark.parametrize(("record", "byte"), [(0, 3), (100, 3), (199, 9), (100, 40)])
def test_a_file_with_a_damaged_header_is_looked_at_as_a_whole(cuttable, record, byte):
    path = cuttable / "train-00001-of-00003.tfrecord"
    damage(path, int(bushel.records.index.load_index(path).offsets[record]) + byte)
    alone, runs = bushel.check(cuttable), []
    cut = looked_at(cuttable, runs)
    again = [[(part.file.path.name, part.end) for part in run] for run in runs[1:]]
    assert again == ([[(path.name, None)]] if byte < 12 else [])
    assert any(finding.rule.startswith("FIL") for finding in alone)
    assert to_json(cut.findings, cut.checked) == to_json(alone.findings, alone.checked)


def test_a_profile_that_was_saved_is_merged_as_the_profile_is(dataset):
    path = dataset / "train-00000-of-00003.tfrecord"
    chunk = next(iter(bushel.records.files.open_file(path).chunks()))

    def seen():
        profile = _native.Profile(["label"], [], True, True, True)
        profile.add(chunk.memory, chunk.extents, 3, 0)
        return profile

    one, other = seen(), seen()
    one.merge(seen())
    other.merge_saved(seen().save())
    assert one.save() == other.save()
    empty = _native.Profile([], [], False, False, False)
    saved = one.save()
    empty.merge_saved(saved)
    assert empty.result()["records"] == 40
    for broken in (b"", saved[:-1], saved + b"\0", saved[: len(saved) // 2], b"\xff" * 64):
        with pytest.raises(ValueError, match="saved must be what a profile saved"):
            empty.merge_saved(broken)
