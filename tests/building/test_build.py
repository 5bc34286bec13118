"""A build: whatever is in the source is in the dataset, once, in the same bytes however it is done."""

import json
import os
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
from making import CLASSES, Numbers, digests, numbers_in
from pictures import encode_image, photo

import bushel
from bushel import Run, _native, build
from bushel import transforms as t
from bushel.building import run as building_run
from bushel.building.engines import LocalEngine
from bushel.building.output.journal import read_quarantine
from bushel.building.planning import plan, probe
from bushel.building.planning.plan import Plan, PlanFacts, ShardPlan
from bushel.building.tasks import give_back_memory
from bushel.data.columns import BytesColumn, Ragged
from bushel.errors import BushelError, BushelWarning, FileProblem, MissingName, TooManyRefused
from bushel.parallel import available_cores
from bushel.records.index import load_keys
from bushel.sources.image_folder import ImageSource

KINDS = ["random", "sequence"]


def records_of(folder: Path) -> dict[str, str]:
    splits = bushel.read_manifest(folder).splits.values()
    return {shard.path: shard.digest for split in splits for shard in split.shards}


@pytest.mark.parametrize("reads", KINDS)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_one_two_seven_and_sixteen_workers_write_the_same_bytes(tmp_path, reads, compression):
    source = Numbers(2000, reads, parts=20)
    numbers = (1, 2, 7, 16)
    for workers in numbers:
        build(
            source,
            tmp_path / str(workers),
            split="80/10/10",
            stratify="label",
            shard_size=20_000,
            compression=compression,
            run=Run(workers=workers),
        )
    # The records first, so that a compressor which is at fault is told from a build which is.
    for found_in in (records_of, digests):
        one, *others = (found_in(tmp_path / str(workers)) for workers in numbers)
        assert len(one) > 5
        assert others == [one] * 3


def test_both_kinds_of_source_write_the_same_bytes(tmp_path):
    for reads in KINDS:
        build(Numbers(1000, reads), tmp_path / reads, split="80/20", shards=1, run=Run(workers=1))
    assert digests(tmp_path / "random") == digests(tmp_path / "sequence")


def test_the_number_of_partitions_does_not_change_the_bytes_of_shards_in_one_order(tmp_path):
    for parts in (1, 7):
        build(Numbers(500, "sequence", parts), tmp_path / str(parts), shards=3, run=Run(workers=1))
    assert sorted(numbers_in(tmp_path / "1")) == sorted(numbers_in(tmp_path / "7")) == list(range(500))


@pytest.mark.parametrize("reads", KINDS)
def test_every_sample_is_there_once_and_shuffled(tmp_path, reads):
    build(Numbers(1000, reads), tmp_path / "out", split="70/30", run=Run(workers=1))
    found = numbers_in(tmp_path / "out")
    assert sorted(found) == list(range(1000))
    assert found != sorted(found)


@pytest.mark.parametrize("reads", KINDS)
def test_source_order_is_kept_when_asked_for(tmp_path, reads):
    build(Numbers(1000, reads), tmp_path / "out", order="source", shard_size=10_000, run=Run(workers=1))
    assert numbers_in(tmp_path / "out") == list(range(1000))
    assert len(digests(tmp_path / "out")) > 3


def test_another_seed_gives_another_order_and_another_split(tmp_path):
    for seed in (0, 1):
        build(Numbers(1000), tmp_path / str(seed), split="80/20", seed=seed, run=Run(workers=1))
    assert numbers_in(tmp_path / "0", "train") != numbers_in(tmp_path / "1", "train")
    assert set(numbers_in(tmp_path / "0", "val")) != set(numbers_in(tmp_path / "1", "val"))


def test_partitions_of_a_sequence_are_read_once_beside_the_probe(tmp_path):
    log = tmp_path / "log"
    build(Numbers(1000, "sequence", 6, log=log), tmp_path / "out", run=Run(workers=1))
    read = [int(line) for line in log.read_text().split()]
    assert sorted(read[-6:]) == list(range(6))
    assert len(read) <= 6 + 4


def test_shards_are_named_by_split_and_count_and_balanced_in_bytes(tmp_path):
    source = Numbers(2000, changes={"text": BytesColumn.of(["x" * (n % 400) for n in range(2000)])})
    build(source, tmp_path / "out", shards=8, run=Run(workers=1))
    shards = bushel.read_manifest(tmp_path / "out").splits["train"].shards
    assert [shard.path for shard in shards] == [f"train-{i:05d}-of-00008.tfrecord" for i in range(8)]
    sizes = [shard.bytes for shard in shards]
    assert max(sizes) < 1.2 * min(sizes)


def test_a_shard_expects_at_least_eight_samples(tmp_path):
    build(Numbers(40), tmp_path / "out", shards=100, run=Run(workers=1))
    assert len(digests(tmp_path / "out")) == 5


def test_labels_that_are_text_become_codes_of_sorted_names(tmp_path):
    built = build(Numbers(300), tmp_path / "out", run=Run(workers=1))
    label = built.manifest.label
    assert (label.feature, label.task, label.names) == ("label", "classification", CLASSES)
    counts = built.manifest.splits["train"].label_counts
    assert sum(counts.values()) == 300
    assert label.class_weights["cat"] == pytest.approx(300 / (3 * counts["cat"]))
    samples = bushel.scan(sorted((tmp_path / "out").glob("*.tfrecord")))
    assert all(sample["label"] == sample["number"] * 7 % 11 % 3 for sample in samples)
    assert json.loads((tmp_path / "out" / "_artifacts" / "label.json").read_text()) == CLASSES


def test_labels_that_are_integers_stay_and_are_counted(tmp_path):
    source = Numbers(90, changes={"label": np.arange(90) % 3 + 10})
    manifest = build(source, tmp_path / "out", run=Run(workers=1)).manifest
    assert manifest.label.names == []
    assert manifest.splits["train"].label_counts == {"10": 30, "11": 30, "12": 30}


def test_labels_that_are_floats_mean_regression(tmp_path):
    source = Numbers(50, changes={"label": np.linspace(0, 1, 50, dtype=np.float32)})
    manifest = build(source, tmp_path / "out", run=Run(workers=1)).manifest
    assert manifest.label.task == "regression"
    assert manifest.label.class_weights == {}


def test_labels_that_are_lists_mean_several_classes_a_sample(tmp_path):
    rows = [CLASSES[: n % 3] for n in range(60)]
    splits = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    source = Numbers(60, changes={"label": Ragged(BytesColumn.of([name for row in rows for name in row]), splits)})
    manifest = build(source, tmp_path / "out", run=Run(workers=1)).manifest
    assert manifest.label.task == "multi_label"
    assert manifest.splits["train"].label_counts == {"bird": 40, "cat": 20}


def test_the_index_carries_key_hash_label_and_where_each_record_came_from(tmp_path):
    build(Numbers(100), tmp_path / "out", run=Run(workers=1))
    (path,) = (tmp_path / "out").glob("*.tfrecord")
    index = bushel.load_index(path)
    samples = list(bushel.scan(path))
    assert index.values["label"].tolist() == [sample["label"] for sample in samples]
    keys = load_keys(path).to_list()
    assert keys == [f"n{sample['number']}".encode() for sample in samples]
    assert index.values["key"].tolist() == [bushel._native.xxh64(key) for key in keys]
    rows = zip(index.values["source/partition"].tolist(), index.values["source/row"].tolist(), strict=True)
    assert [Numbers(100).locate(*row) for row in rows] == [f"numbers: {sample['number']}" for sample in samples]


@pytest.mark.parametrize("reads", KINDS)
def test_tensorflow_reads_the_same_samples(tmp_path, reads):
    import tensorflow as tf

    build(Numbers(200, reads), tmp_path / "out", split="80/20", run=Run(workers=1))
    spec = {
        "number": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "text": tf.io.FixedLenFeature([], tf.string),
    }
    paths = sorted(str(path) for path in (tmp_path / "out").glob("*.tfrecord"))
    seen = set()
    for record in tf.data.TFRecordDataset(paths):
        sample = tf.io.parse_single_example(record, spec)
        number = int(sample["number"])
        seen.add(number)
        assert sample["x"].numpy().tolist() == [number, number * 0.5]
        assert int(sample["label"]) == number * 7 % 11 % 3
        assert sample["text"].numpy().decode() == "é" * (number % 50)
    assert seen == set(range(200))


@pytest.mark.parametrize("reads", KINDS)
def test_samples_that_cannot_be_used_are_in_quarantine_with_where_and_why(tmp_path, reads):
    source = Numbers(500, reads, refuse=frozenset({7, 300}))
    built = build(source, tmp_path / "out", run=Run(workers=1))
    assert (built.refused, built.records, built.is_acceptable) == (2, 498, False)
    entries = sorted(read_quarantine(tmp_path / "out" / "_quarantine.jsonl"), key=lambda entry: entry.key)
    assert [(entry.source, entry.key, entry.stage, entry.reason) for entry in entries] == [
        ("numbers: 300", "n300", "read", "cannot be read"),
        ("numbers: 7", "n7", "read", "cannot be read"),
    ]
    assert built.manifest.refused == 2
    assert sorted(numbers_in(tmp_path / "out")) == sorted({*range(500)} - {7, 300})


def write_photos(folder: Path, count: int) -> Path:
    for number in range(count):
        place = folder / CLASSES[number % len(CLASSES)]
        place.mkdir(parents=True, exist_ok=True)
        kind = ("jpeg", "png")[number % 7 == 0]
        (place / f"{number}.{kind}").write_bytes(encode_image(photo(number, 20, 24), kind))
    return folder


RESIZED = [t.resize_encoded("image", 8, 8, form="jpeg")]


def test_images_that_are_resized_are_decoded_once(tmp_path, monkeypatch):
    verified: list[int] = []
    verify = _native.verify_images

    def watched(offsets, data, rows, *more):
        verified.extend(rows.tolist())
        return verify(offsets, data, rows, *more)

    monkeypatch.setattr(_native, "verify_images", watched)
    photos = write_photos(tmp_path / "photos", 60)
    for name, transforms in (("resized", RESIZED), ("as_they_are", [])):
        verified.clear()
        build(photos, tmp_path / name, transforms=transforms, run=Run(workers=1))
        assert len(verified) == (60 if transforms else 120)  # probed, and read if nobody decodes them later


def test_images_that_are_probed_together_are_what_they_are_one_by_one(tmp_path, monkeypatch):
    photos = write_photos(tmp_path / "photos", 40)
    threads: set[int] = set()
    read = ImageSource.read

    def watched(self, *given):
        threads.add(threading.get_ident())
        return read(self, *given)

    monkeypatch.setattr(ImageSource, "read", watched)
    build(photos, tmp_path / "together", transforms=RESIZED, run=Run(workers=1))
    assert threads - {threading.get_ident()} or available_cores() == 1
    together = bushel.read_manifest(tmp_path / "together").schema
    monkeypatch.setattr(probe, "_resized", lambda *_: None)  # then each is transformed on its own
    build(photos, tmp_path / "one_by_one", transforms=RESIZED, run=Run(workers=1))
    assert bushel.read_manifest(tmp_path / "one_by_one").schema == together
    assert records_of(tmp_path / "together") == records_of(tmp_path / "one_by_one")


@pytest.mark.parametrize("workers", [1, 2])
def test_damaged_images_are_refused_alike_whether_they_are_resized_or_not(tmp_path, monkeypatch, workers):
    photos = write_photos(tmp_path / "photos", 40)
    whole = encode_image(photo(1, 90, 90), "jpeg")
    png = bytearray(encode_image(photo(2, 90, 90), "png"))
    png[len(png) // 2] ^= 0xFF
    bad = {
        "cut.jpg": whole[: len(whole) // 2] + b"\xff\xd9",
        "flipped.png": bytes(png),
        "header.jpg": whole[:150],
        "empty.jpg": b"",
        "text.png": b"no image",
    }
    for name, data in bad.items():
        (photos / CLASSES[0] / name).write_bytes(data)
    run = Run(workers=workers, max_bad=10)
    build(photos, tmp_path / "as_they_are", run=run)
    build(photos, tmp_path / "resized", transforms=RESIZED, run=run)
    monkeypatch.delattr(ImageSource, "read_undecoded")  # all are decoded before they are resized then
    build(photos, tmp_path / "decoded_twice", transforms=RESIZED, run=Run(workers=1, max_bad=10))
    found = [
        sorted(
            (entry.key, entry.stage, entry.reason) for entry in read_quarantine(tmp_path / out / "_quarantine.jsonl")
        )
        for out in ("as_they_are", "resized", "decoded_twice")
    ]
    assert found[0] == found[1] == found[2]
    assert [Path(key).name for key, _, _ in found[0]] == sorted(bad)
    assert {stage for _, stage, _ in found[0]} == {"decode"}
    assert records_of(tmp_path / "resized") == records_of(tmp_path / "decoded_twice")


def test_a_missing_label_is_refused_not_guessed(tmp_path):
    present = np.ones(100, bool)
    present[[3, 50]] = False
    splits = np.concatenate([[0], np.cumsum(present)])
    source = Numbers(100, changes={"label": Ragged(BytesColumn.of(["cat"] * 98), splits, present)})
    built = build(source, tmp_path / "out", run=Run(workers=1))
    reasons = {entry.reason for entry in read_quarantine(tmp_path / "out" / "_quarantine.jsonl")}
    assert (built.refused, reasons) == (2, {"label is missing"})
    assert "2 samples have no 'label' and will be refused" in built.problems


def test_within_max_bad_the_build_is_acceptable_and_beyond_it_stops(tmp_path):
    source = Numbers(1000, refuse=frozenset(range(5)))
    assert build(source, tmp_path / "within", run=Run(workers=1, max_bad="0.5%")).is_acceptable
    with pytest.raises(TooManyRefused) as caught:
        build(source, tmp_path / "beyond", run=Run(workers=1, max_bad=4))
    assert str(caught.value).splitlines()[0] == (
        f"{tmp_path / 'beyond'}: 5 samples refused, more than the 4 allowed; the build stopped"
    )
    assert not (tmp_path / "beyond" / "dataset.json").exists()
    assert len(list(read_quarantine(tmp_path / "beyond" / "_quarantine.jsonl"))) == 5
    assert build(source, tmp_path / "beyond", run=Run(workers=1, max_bad=5)).refused == 5


def test_strict_stops_at_the_first_refusal(tmp_path):
    source = Numbers(1000, refuse=frozenset({1, 2, 3}))
    with pytest.raises(TooManyRefused, match="1 sample refused, and none is allowed"):
        build(source, tmp_path / "out", run=Run(workers=1, strict=True))


def test_a_shard_whose_samples_are_all_refused_is_recorded_as_empty(tmp_path):
    source = Numbers(64, refuse=frozenset(range(1, 64)))
    shards = (
        build(source, tmp_path / "out", order="source", shards=8, run=Run(workers=1)).manifest.splits["train"].shards
    )
    assert [(shard.records, shard.refused) for shard in shards] == [(1, 7)] + [(0, 8)] * 7
    assert all((tmp_path / "out" / shard.path).exists() for shard in shards)


def test_a_source_whose_probed_samples_are_all_refused_is_an_error(tmp_path):
    with pytest.raises(BushelError, match=r"every sample that was probed \(10\) was refused"):
        build(Numbers(10, refuse=frozenset(range(10))), tmp_path / "out", run=Run(workers=1))


def test_an_empty_source_is_an_error(tmp_path):
    with pytest.raises(BushelError, match="the source has no samples"):
        build(Numbers(0), tmp_path / "out")


def test_a_column_that_is_not_there_is_named_with_the_nearest(tmp_path):
    with pytest.raises(MissingName, match="no column 'labell'; did you mean 'label'"):
        build(Numbers(10), tmp_path / "out", label="labell")


def test_a_limit_builds_from_so_many_samples(tmp_path):
    for reads in KINDS:
        built = build(Numbers(1000, reads), tmp_path / reads, limit=50, run=Run(workers=1))
        assert built.records == 50
        assert len(set(numbers_in(tmp_path / reads))) == 50
    assert sorted(numbers_in(tmp_path / "sequence")) == list(range(50))


def test_a_finished_dataset_is_never_overwritten_unless_asked(tmp_path):
    build(Numbers(100), tmp_path / "out", run=Run(workers=1))
    before = digests(tmp_path / "out")
    with pytest.raises(FileProblem, match="is a finished dataset already"):
        build(Numbers(50), tmp_path / "out")
    assert digests(tmp_path / "out") == before
    build(Numbers(50), tmp_path / "out", shards=5, run=Run(workers=1, overwrite=True))
    assert sorted(numbers_in(tmp_path / "out")) == list(range(50))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert len(digests(tmp_path / "out")) == 5


def test_a_folder_with_files_of_others_is_refused_even_to_overwrite(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for run in (Run(), Run(overwrite=True)):
        with pytest.raises(FileProblem, match=r"holds 'thesis\.tex', which no build wrote"):
            build(Numbers(50), tmp_path, run=run)
    assert (tmp_path / "thesis.tex").exists()


def test_a_dataset_inside_its_own_source_is_refused(tmp_path):
    (tmp_path / "texts" / "a").mkdir(parents=True)
    (tmp_path / "texts" / "a" / "1.txt").write_text("one")
    with pytest.raises(FileProblem, match="is inside its own source"):
        build(tmp_path / "texts", tmp_path / "texts" / "data")
    assert not (tmp_path / "texts" / "data").exists()


def test_a_plan_that_failed_does_not_hinder_the_next_try(tmp_path):
    for _ in range(2):
        with pytest.raises(MissingName, match="no column"):
            build(Numbers(10), tmp_path / "out", label="nothing")
    assert not (tmp_path / "out").exists()
    assert build(Numbers(10), tmp_path / "out", run=Run(workers=1)).records == 10


def test_a_dataset_can_be_rebuilt_in_its_own_place(tmp_path):
    build(Numbers(200), tmp_path / "out", run=Run(workers=1))
    build(tmp_path / "out", tmp_path / "out", compression="gzip", run=Run(workers=1, overwrite=True))
    manifest = bushel.read_manifest(tmp_path / "out")
    assert manifest.compression == "gzip"
    assert sorted(numbers_in(tmp_path / "out")) == list(range(200))


@pytest.mark.parametrize(
    ("milliseconds", "shards", "workers", "is_cut"),
    [
        (0.2, 8, 16, False),
        (5.0, 8, 16, True),
        (5.0, 8, 8, False),
        (0.2, 2, 16, True),
        (0.2, 2, 2, False),
        (5.0, 16, 64, False),
        (0.01, 2, 16, False),
    ],
)
def test_shards_are_cut_into_parts_where_that_costs_less_than_idle_workers(
    tmp_path, milliseconds, shards, workers, is_cut
):
    size, samples = 100_000, 16_000
    cut = [
        ShardPlan(split="train", number=n, of=shards, first=0, end=samples // shards, bytes=size * samples // shards)
        for n in range(shards)
    ]
    cut[-1] = msgspec.structs.replace(cut[-1], end=samples)
    schema = bushel.Schema.of(x=bushel.Feature(dtype="int64"))
    facts = PlanFacts(
        partition_rows=[samples],
        planned=[samples],
        shards=cut,
        sample_bytes=size,
        sample_seconds=milliseconds / 1000,
        schema=schema,
    )
    assert bool(building_run._rows_of_part(Plan(tmp_path, facts), workers)) == is_cut


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_shards_that_are_few_are_cut_into_parts_and_are_the_same(tmp_path, monkeypatch, compression):
    def make(name, **settings):
        made = build(
            Numbers(500, "random", refuse=frozenset({7, 130, 131, 499})),
            tmp_path / name,
            split="80/20",
            shards=2,
            compression=compression,
            run=Run(max_bad=10, **settings),
        )
        assert made.refused == 4
        quarantine = (tmp_path / name / "_quarantine.jsonl").read_text().splitlines()
        return digests(tmp_path / name), sorted(quarantine)

    whole = make("whole", workers=1)
    monkeypatch.setattr("bushel.building.run._rows_of_part", lambda made, workers: 40)
    for workers in (1, 2, 5):
        assert make(f"parts-{workers}", workers=workers) == whole
    assert len(whole[0]) == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_samples_that_python_yields_are_built_once_each(tmp_path, workers):
    samples = ({"number": n, "label": "odd" if n % 2 else "even"} for n in range(500))
    built = build(samples, tmp_path / "out", split="80/20", run=Run(workers=workers))
    assert built.manifest.label.names == ["even", "odd"]
    assert sorted(numbers_in(tmp_path / "out")) == list(range(500))


def test_a_damaged_shard_is_found_when_it_is_read_back(tmp_path):
    from bushel.building.shard_files import read_back

    build(Numbers(50), tmp_path / "out", run=Run(workers=1))
    (path,) = (tmp_path / "out").glob("*.tfrecord")
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileProblem, match="record 0 is not as it was written"):
        read_back(path, 50)


def test_a_build_that_needs_more_than_the_disk_has_is_refused_before_it_starts(tmp_path, monkeypatch):
    import shutil

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(FileProblem, match=r"needs about .* KiB, and 1000 B are free"):
        build(Numbers(1000), tmp_path / "out", run=Run(workers=1))
    assert not (tmp_path / "out").exists()


def test_progress_is_told_up_to_the_last_sample(tmp_path):
    seen = []
    build(Numbers(1000, "sequence"), tmp_path / "out", run=Run(workers=1, progress=seen.append))
    assert list(dict.fromkeys(progress.stage for progress in seen)) == ["plan", "read", "write"]
    assert (seen[-1].samples, seen[-1].of) == (1000, 1000)


@pytest.mark.parametrize("reads", ["sequence", "random"])
def test_the_last_progress_has_every_refusal_also_where_shards_are_merged_from_parts(tmp_path, monkeypatch, reads):
    from bushel.building import run as building

    monkeypatch.setattr(building, "_rows_of_part", lambda made, workers: 100)
    seen = []
    source = Numbers(1000, reads, refuse=frozenset({3, 500, 777}))
    build(source, tmp_path / "out", run=Run(workers=1, progress=seen.append))
    assert seen[-1].stage == "write"
    assert {progress.stage for progress in seen} == {"plan", "read", "write"}
    assert (seen[-1].samples, seen[-1].refused) == (1000, 3)


@pytest.mark.parametrize("reads", ["sequence", "random"])
def test_a_source_of_users_is_read_in_one_thread(tmp_path, reads):
    import threading

    threads = set()

    class OfOneThread(Numbers):  # as a connection to SQLite is
        def read(self, partition, rows):
            for block in super().read(partition, rows):
                threads.add(threading.get_ident())
                yield block

        def __reduce__(self):
            raise TypeError("cannot pickle")

    build(OfOneThread(500, reads), tmp_path / "out")
    assert threads == {threading.get_ident()}


def test_a_source_that_does_not_pickle_is_read_in_this_process(tmp_path):
    class Generated(Numbers):
        def __reduce__(self):
            raise TypeError("cannot pickle 'generator' object")

    build(Generated(500, "sequence", 1), tmp_path / "out", run=Run(workers=2))
    assert sorted(numbers_in(tmp_path / "out")) == list(range(500))


def test_many_partitions_do_not_open_too_many_files(tmp_path):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 40, limits[1]))
    try:
        for reads in KINDS:
            build(Numbers(3000, reads, 120), tmp_path / reads, shards=5, run=Run(workers=1))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert sorted(numbers_in(tmp_path / "sequence")) == sorted(numbers_in(tmp_path / "random")) == list(range(3000))


def test_runs_larger_than_a_window_are_merged_in_planned_order(tmp_path, monkeypatch):
    from bushel.building import shard_files as runs

    build(Numbers(3000, "sequence"), tmp_path / "whole", shards=3, run=Run(workers=1))
    monkeypatch.setattr(runs, "RUN_BYTES", 20_000)
    monkeypatch.setattr(runs, "WINDOW_BYTES", 7_000)
    build(Numbers(3000, "sequence"), tmp_path / "cut", shards=3, run=Run(workers=1))
    assert digests(tmp_path / "whole") == digests(tmp_path / "cut")


def test_another_engine_writes_the_same_bytes(tmp_path):
    class Backwards(LocalEngine):
        def run(self, work, tasks, *, memory=0):
            return map(work, reversed(tasks))

    for reads in KINDS:
        build(Numbers(1000, reads), tmp_path / f"{reads}-1", shards=4, run=Run(workers=1))
        build(Numbers(1000, reads), tmp_path / f"{reads}-2", shards=4, run=Run(engine=Backwards(1)))
        assert digests(tmp_path / f"{reads}-1") == digests(tmp_path / f"{reads}-2")


def test_a_build_leaves_nothing_behind_but_the_dataset(tmp_path: Path):
    build(Numbers(100), tmp_path / "out", run=Run(workers=2))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "_artifacts",
        "_index",
        "_quarantine.jsonl",
        "dataset.json",
        "dataset_info.json",
        "features.json",
        "label.labels.txt",
        "recipe.toml",
        "train-00000-of-00001.tfrecord",
    ]


@pytest.mark.parametrize("reads", KINDS)
def test_a_plan_made_by_many_is_the_plan_of_one(tmp_path, reads):
    class Afar(LocalEngine):
        is_remote = True

        def run(self, work, tasks, *, memory=0):
            return map(work, reversed(tasks))

    options = {"split": "80/10/10", "stratify": "label", "shards": 4}
    source = Numbers(1000, reads, 7, refuse=frozenset({3}))
    build(source, tmp_path / "one", **options, run=Run(workers=1))
    build(source, tmp_path / "many", **options, run=Run(engine=Afar(1)))
    assert digests(tmp_path / "one") == digests(tmp_path / "many")
    one, many = ((tmp_path / name / "dataset.json").read_text() for name in ("one", "many"))
    assert one == many
    build(Numbers(60, reads, 3), tmp_path / "many", run=Run(engine=Afar(1), overwrite=True))  # workers that remember
    assert sorted(numbers_in(tmp_path / "many")) == list(range(60))


def test_what_many_learnt_is_merged_in_groups_to_the_last_bit(tmp_path):
    from bushel import transforms as t
    from bushel.building import record_encoding as fitting

    values = np.random.default_rng(0).normal(size=77) * 10.0 ** np.arange(77).clip(0, 30)
    paths = []
    for number, value in enumerate(values.tolist()):
        fit = t.standardise("x").begin_fit()
        fit.add([{"x": np.float32(value)}, {"x": np.float32(value / 3)}])
        paths.append(tmp_path / f"{number}")
        fitting.save_fits(paths[-1], [fit], durable=False)
    layer = fitting.next_layer([t.standardise("x")])
    alone = fitting.merge_layer([t.standardise("x")], layer, fitting.load_merged(paths))
    grouped = list(fitting.load_merged(paths, lambda work, tasks: map(work, reversed(tasks))))
    assert len(grouped) == 3
    assert fitting.merge_layer([t.standardise("x")], layer, iter(grouped)) == alone


def test_python_is_warned_of_what_was_refused_and_of_problems(tmp_path):
    rows = [{"x": float(number), "label": "a" if number < 60 else "b"} for number in range(63)]
    rows[5]["x"] = float("nan")
    with pytest.warns(BushelWarning) as warned:
        built = build(rows, tmp_path / "out")
    said = [str(warning.message) for warning in warned]
    assert any("class 'a' has 60 samples in train" in text and "see balance, or class weights" in text for text in said)
    assert f"{tmp_path}/out: 1 sample of 63 refused: {tmp_path}/out/_quarantine.jsonl says why" in said
    assert warned[0].filename == __file__
    assert repr(built).startswith(f"Built('{tmp_path}/out': train 62, 1 refused; ")
    assert "<td>train</td><td>62</td>" in built._repr_html_()


def test_a_hint_names_options_as_python_has_them(tmp_path):
    build(Numbers(20), tmp_path / "out")
    with pytest.raises(FileProblem) as caught:
        build(Numbers(20), tmp_path / "out")
    assert "To replace it: run=Run(overwrite=True)" in str(caught.value)
    assert "To replace it: --overwrite" in caught.value.on_command_line


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's memory")
def test_memory_of_one_stage_is_not_kept_for_the_next():
    def held() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    words = np.arange(8 << 20, dtype=np.uint64)
    hashes = _native.hash_words(words)
    with_them = held()
    del hashes
    give_back_memory()
    assert with_them - held() > 60_000  # kilobytes of the 64 MiB


def test_a_run_that_ends_early_is_reported_with_its_name(tmp_path: Path):
    from bushel.building import shard_files

    (tmp_path / "run").write_bytes(b"12345")
    memory = np.empty(9, np.uint8)
    offsets, sizes = np.array([0, 3]), np.array([4, 5])
    with pytest.raises(FileProblem, match="run: ends early: is the disk failing"):
        shard_files._read_window([os.fsencode(tmp_path / "run")] * 2, offsets, sizes, memory)
    with pytest.raises(FileNotFoundError, match="gone"):
        shard_files._read_window([os.fsencode(tmp_path / "gone")] * 2, offsets, sizes, memory)


@pytest.mark.parametrize(
    ("keys", "is_short"),
    [
        ([b"%d" % number for number in range(1200)], True),
        ([b"rows.csv:%d" % number for number in range(998, 1003)], True),
        ([b"img%03d" % number for number in range(20)], False),
        ([b"1", b"9", b"3"], False),
        ([b"\xff1", b"\xff2"], False),
        ([b"9" * 30], False),
        ([b"x", b""], False),
        ([], False),
    ],
)
def test_keys_of_a_plan_come_back_and_row_numbers_take_no_room(tmp_path, keys, is_short):
    plan.save_keys(tmp_path, 3, BytesColumn.of(keys))
    assert plan.load_keys(tmp_path, 3).to_list() == keys
    rows = np.arange(len(keys))[::-1].copy()
    assert plan.load_keys_of(tmp_path, 3, rows).to_list() == keys[::-1]
    assert (len(list(tmp_path.iterdir())) == 1) == is_short
    plan.save_keys(tmp_path, 3, BytesColumn.of([b"a", b"b"]))  # as when some are repeated for balance
    assert plan.load_keys(tmp_path, 3).to_list() == [b"a", b"b"]
