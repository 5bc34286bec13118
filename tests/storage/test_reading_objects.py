"""Records of object stores are read as those of files are: the same ones, in the same order, damage included."""

import gzip
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from storage_server import forget_clients

import bushel
from bushel.errors import CorruptRecord
from bushel.reading import Workers, pipeline
from bushel.reading import shards as reading
from bushel.reading.dataset import open_shards
from bushel.records.index import StaleIndex, load_index
from bushel.storage import as_path, cache, stores, write_whole
from bushel.storage.cache import ArrayInStore
from bushel.storage.objects import ObjectPath

ROWS = 700


def upload(folder: Path, url: str) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            target = as_path(f"{url}/{file.relative_to(folder).as_posix()}")
            assert isinstance(target, ObjectPath)
            target.put(file)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    columns = {"x": rng.normal(size=(ROWS, 300)).astype(np.float32), "label": rng.integers(0, 5, ROWS)}
    bushel.build(columns, tmp_path / "data", shard_size="200K")
    return tmp_path / "data"


@pytest.fixture
def remote(built: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(cache, "BLOCK_BYTES", 64 << 10)  # so that a small dataset has many
    upload(built, f"{bucket}/data")
    return f"{bucket}/data"


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(np.asarray(one[name]), np.asarray(other[name])) for name in one)


@pytest.mark.parametrize(
    "order",
    [
        bushel.Order(),
        bushel.Order(shuffle=True, seed=3),
        bushel.Order(shuffle=True, seed=3, block=16, window=8),
        bushel.Order(balance="label", shuffle=True),
    ],
    ids=["in order", "shuffled", "in blocks", "balanced"],
)
def test_batches_are_those_of_the_local_files(built: Path, remote: str, order: bushel.Order) -> None:
    here, there = bushel.open(built)["train"], bushel.open(remote)["train"]
    pairs = zip(
        bushel.batches(here, batch_size=64, order=order),
        bushel.batches(there, batch_size=64, order=order),
        strict=True,
    )
    assert all(same(one, other) for one, other in pairs)


def test_batches_of_a_process_are_the_same(built: Path, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = bushel.open(built)["train"], bushel.open(remote)["train"]
    workers = Workers(processes=1)
    pairs = zip(
        bushel.batches(here, batch_size=100), bushel.batches(there, batch_size=100, workers=workers), strict=True
    )
    assert all(same(one, other) for one, other in pairs)


def test_each_block_is_fetched_once_for_two_readers(remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int]] = []
    real = stores.get

    def get(key: Any, start: int, stop: int, etag: str = "") -> Any:
        asked.append((key.name, start, stop))
        return real(key, start, stop, etag)

    monkeypatch.setattr(cache, "get", get)
    for seed in range(2):
        feed = bushel.batches(bushel.open(remote)["train"], batch_size=64, order=bushel.Order(shuffle=True, seed=seed))
        assert sum(len(batch.rows) for batch in feed) == ROWS
    covered = sorted(asked)
    assert sum(stop - start for _, start, stop in covered) == sum(
        file.stat().st_size for file in bushel.open(remote)["train"].paths
    )


def test_neighbouring_blocks_come_with_one_request(remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = stores.get

    def get(key: Any, start: int, stop: int, etag: str = "") -> Any:
        asked.append(stop - start)
        return real(key, start, stop, etag)

    monkeypatch.setattr(cache, "get", get)
    split = bushel.open(remote)["train"]
    split[0:150]
    assert len(asked) < sum(-(-path.stat().st_size // cache.BLOCK_BYTES) for path in split.paths[:1])


def test_opening_a_dataset_asks_for_no_shard(remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "head", lambda key: pytest.fail(f"{key} was asked for, and the listing says it all"))
    monkeypatch.setattr(stores, "get", lambda key, *_: pytest.fail(f"{key} was read"))
    real, read = stores.get_all, []
    monkeypatch.setattr(stores, "get_all", lambda key: read.append(key.name) or real(key))
    assert len(bushel.open(remote)["train"]) == ROWS
    assert [name.rpartition("/")[2] for name in read] == ["dataset.json"]


def test_an_index_that_the_manifest_vouches_for_is_not_compared_with_its_object(
    remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = stores.get
    monkeypatch.setattr(stores, "get", lambda key, *extent: asked.append(key.name) or real(key, *extent))
    split = bushel.open(remote)["train"]
    assert split.shards._located(np.arange(0, ROWS, 50)).owners.size
    assert all(shard.is_located for shard in split.shards.shards)
    assert asked == []


def test_an_object_with_records_of_other_lengths_under_the_same_index_is_read_as_it_is(
    tmp_path: Path, bucket: str
) -> None:
    bushel.build({"text": ["a" * n for n in range(40)]}, tmp_path / "data", shards=1, run=bushel.Run(workers=1))
    upload(tmp_path / "data", f"{bucket}/texts")
    train = bushel.open(tmp_path / "data")["train"]
    framed = [train.shards.framed(row) for row in range(40)]
    (as_path(f"{bucket}/texts") / train.paths[0].name).write_bytes(b"".join(framed[::-1]))  # of the same size
    there = bushel.open(f"{bucket}/texts")["train"]
    assert [there[row]["text"] for row in range(40)] == [train[row]["text"] for row in range(39, -1, -1)]


def test_records_by_number_slices_and_values(built: Path, remote: str) -> None:
    here, there = bushel.open(built)["train"], bushel.open(remote)["train"]
    assert same(here[[5, 600, 3]], there[[5, 600, 3]])
    assert same(here[690:], there[690:])
    assert len(there.where("label", 3)) == len(here.where("label", 3))
    with pytest.raises(IndexError):
        there[ROWS]


def test_foreign_files_are_scanned_and_their_index_is_kept_on_this_machine(
    built: Path, bucket: str, tmp_path: Path
) -> None:
    target = as_path(f"{bucket}/foreign/a.tfrecord")
    assert isinstance(target, ObjectPath)
    first = sorted(built.glob("*.tfrecord"))[0]
    target.put(first)
    found = bushel.open(f"{bucket}/foreign")["all"]
    assert same(found[:], bushel.open(first)["train"][:])
    assert [path.name for path in as_path(f"{bucket}/foreign").iterdir()] == ["a.tfrecord"]
    assert list((tmp_path / "home-cache").rglob("a.tfrecord.idx"))


def test_compressed_shards_are_streamed(tmp_path: Path, bucket: str) -> None:
    columns = {"x": np.arange(500, dtype=np.int64)}
    bushel.build(columns, tmp_path / "data", compression="gzip", shards=3)
    upload(tmp_path / "data", f"{bucket}/data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feed = bushel.batches(
            bushel.open(f"{bucket}/data")["train"], batch_size=50, order=bushel.Order(shuffle=True, seed=1)
        )
        assert sorted(int(value) for batch in feed for value in batch["x"]) == list(range(500))


def test_an_index_is_tied_by_size_and_entity_tag(built: Path, remote: str) -> None:
    path = as_path(remote) / sorted(built.glob("*.tfrecord"))[0].name
    bushel.write_index(path)
    assert load_index(path) is not None
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StaleIndex):
        load_index(path)


def test_an_object_with_other_labels_under_the_same_index_is_read_as_it_is(built: Path, remote: str) -> None:
    train = bushel.open(built)["train"]
    shard, labels = train.paths[0], train.values("label")
    data, index = bytearray(shard.read_bytes()), load_index(shard)
    assert index is not None
    other = next(n for n in range(6, len(index) - 1) if labels[n] != labels[5])
    starts = index.offsets.astype(int)
    data[starts[other] : starts[other + 1]] = data[starts[5] : starts[6]]  # neither size nor ends change
    (as_path(remote) / shard.name).write_bytes(bytes(data))
    again = bushel.open(remote)["train"]
    assert again.values("label")[other] == again[other]["label"] == labels[5]


def test_whole_files_are_read_surveyed_and_checked(built: Path, remote: str) -> None:
    assert same(bushel.read(built), bushel.read(remote))
    assert bushel.info(remote).records == ROWS
    assert sum(1 for _ in bushel.scan(remote)) == ROWS
    assert bushel.infer_schema(remote) == bushel.infer_schema(built)
    assert not list(bushel.check(remote))
    assert not list(bushel.check(built))


def test_check_compares_with_the_manifest_of_the_store(built: Path, remote: str) -> None:
    names = [path.name for path in sorted(built.glob("*.tfrecord"))]
    (as_path(remote) / names[0]).write_bytes((built / names[1]).read_bytes())
    assert "FIL009" in {finding.rule for finding in bushel.check(remote)}


def test_repair_takes_and_makes_objects(built: Path, remote: str, bucket: str) -> None:
    first = sorted(built.glob("*.tfrecord"))[0]
    damaged = bytearray(first.read_bytes())
    damaged[40] ^= 1
    as_path(f"{bucket}/bad/a.tfrecord").write_bytes(bytes(damaged))
    (repaired,) = bushel.repair(f"{bucket}/bad/a.tfrecord", f"{bucket}/good/a.tfrecord")
    assert repaired.out == f"{bucket}/good/a.tfrecord"
    assert bushel.info(f"{bucket}/good/a.tfrecord").records == repaired.kept == bushel.info(first).records - 1


def test_a_record_leads_back_to_its_key(built: Path, remote: str) -> None:
    here, there = bushel.provenance(built, "train", 7), bushel.provenance(remote, "train", 7)
    assert (here.key, here.byte, here.shard) == (there.key, there.byte, there.shard)


def flipping(monkeypatch: pytest.MonkeyPatch, module: Any, at: int, times: int) -> list[int]:
    """Let a store give one byte wrong, so many times; returns where that was."""
    real, flipped = stores.get, []

    def get(key: Any, start: int, stop: int, etag: str = "") -> memoryview:
        data = real(key, start, stop, etag)
        if start <= at < stop and len(flipped) < times and ".tfrecord" in key.name and "_index" not in key.name:
            flipped.append(start)
            wrong = bytearray(data)
            wrong[at - start] ^= 0x40
            return memoryview(bytes(wrong))
        return data

    monkeypatch.setattr(module, "get", get)
    return flipped


@pytest.mark.parametrize("at", [5, 10, 60], ids=["length", "checksum of the length", "data"])
def test_bytes_that_came_wrong_once_are_read_again(
    built: Path, remote: str, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    flipped = flipping(monkeypatch, stores, at, times=1)
    first = as_path(remote) / sorted(built.glob("*.tfrecord"))[0].name
    assert bushel.info(first).records == bushel.info(built / first.name).records
    assert flipped


def test_records_at_random_that_came_wrong_once_are_read_again(
    built: Path, remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flipped = flipping(monkeypatch, cache, 60, times=1)
    assert same(bushel.open(remote)["train"][:5], bushel.open(built)["train"][:5])
    assert flipped


def test_bytes_that_stay_wrong_are_reported_with_file_and_record(remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flipped = flipping(monkeypatch, cache, 60, times=100)
    split = bushel.open(remote)["train"]
    with pytest.raises(CorruptRecord) as caught:
        split[:5]
    assert str(caught.value).startswith(f"{split.paths[0]}: record 0 at byte 0: checksum of the data does not match")
    assert len(flipped) == 3  # once, once again, and once without the index


def test_a_compressed_object_that_came_wrong_once_is_read_again(
    built: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sorted(built.glob("*.tfrecord"))[0]
    packed = gzip.compress(first.read_bytes())
    as_path(f"{bucket}/a.tfrecord.gz").write_bytes(packed)
    path = as_path(f"{bucket}/a.tfrecord.gz")
    file = bushel.records.files.RecordFile(path, "gzip", len(packed))
    flipped = flipping(monkeypatch, stores, len(packed) // 2, times=1)
    assert sum(len(chunk.extents) for chunk in file.chunks()) == bushel.info(first).records
    assert flipped


def test_a_shuffle_through_a_cache_that_is_too_small_is_said(remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "100K")
    forget_clients()
    split = bushel.open(remote)["train"]
    with pytest.warns(reading.StoreShuffle, match="more than the cache of 100.0 KiB holds, so each"):
        bushel.batches(split, batch_size=10, order=bushel.Order(shuffle=True)).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bushel.batches(split, batch_size=10, order=bushel.Order(shuffle=True, block=16, window=4)).close()
        bushel.batches(split, batch_size=10).close()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is fetched from shards."""
    sizes: list[int] = []
    real = stores.get

    def get(key: Any, start: int, stop: int, etag: str = "") -> Any:
        sizes.append(stop - start)
        return real(key, start, stop, etag)

    monkeypatch.setattr(cache, "get", get)
    return sizes


@pytest.mark.parametrize("order", [bushel.Order(), bushel.Order(shuffle=True, seed=2)], ids=["in order", "shuffled"])
def test_every_byte_is_fetched_about_once_with_or_without_a_cache(
    built: Path, remote: str, order: bushel.Order, fetched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(path.stat().st_size for path in bushel.open(built)["train"].paths)
    for limit, most in (
        ("1G", 1.01),
        ("0", 1.5 if order.shuffle else 1.01),
    ):  # gaps between near records are fetched too
        monkeypatch.setenv("BUSHEL_CACHE_SIZE", limit)
        forget_clients()
        here, there = (bushel.open(place)["train"] for place in (built, remote))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", reading.StoreShuffle)
            feeds = [bushel.batches(split, batch_size=32, order=order) for split in (here, there)]
        assert all(same(one, other) for one, other in zip(*feeds, strict=True))
        assert size <= sum(fetched) <= most * size
        fetched.clear()


@pytest.fixture
def many(tmp_path: Path, bucket: str) -> str:
    """A dataset of 60 shards that was built in the store."""
    bushel.build({"x": np.arange(6000)}, f"{bucket}/many", shards=60, run=bushel.Run(workers=1))
    return f"{bucket}/many"


def test_the_first_batch_of_a_shuffle_needs_the_indexes_of_its_own_shards_and_of_these_the_beginning(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = stores.get_head

    def get_head(key: Any, most: int) -> bytes:
        asked.append(key.name)
        return real(key, most)

    monkeypatch.setattr(stores, "get_head", get_head)
    monkeypatch.setattr(pipeline, "_FETCHED_RECORDS", 4)
    split = bushel.open(many)["train"]
    monkeypatch.setattr(stores, "get_all", lambda key: pytest.fail(f"all of {key} was fetched"))
    order = bushel.Order(shuffle=True)
    feed = bushel.batches(split, batch_size=4, order=order, workers=Workers(threads=2))
    next(iter(feed))
    feed.close()
    assert 0 < len(asked) <= 16  # of the groups that threads have begun, and not of shards after them
    found = [x for batch in bushel.batches(split, batch_size=64, order=order) for x in batch["x"]]
    assert sorted(found) == list(range(6000))
    assert len(set(asked)) == len(asked) == 60
    asked.clear()
    shards = open_shards(split.paths, split.promised)  # as another process: the lengths are in the cache of the machine
    shards._locate(range(60))
    assert asked == []


def test_many_shards_are_listed_several_pages_at_a_time(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[str, str]] = []
    real = stores.list_all

    def list_all(key: Any, after: str = "", until: str | None = None) -> Any:
        parts.append((after.rpartition("/")[2], (until or "").rpartition("/")[2]))
        return real(key, after, until)

    monkeypatch.setattr(stores, "PAGE", 25)
    monkeypatch.setattr(stores, "list_all", list_all)
    monkeypatch.setattr(stores, "head", lambda key: pytest.fail(f"{key} was asked for, and the listing says it all"))
    split = bushel.open(many)["train"]
    assert sum(path.stat().st_size for path in split.paths) == sum(shard.bytes for shard in split.promised)
    assert [until for _, until in sorted(parts)] == [f"train-{last:05d}-of-00060.tfrecord" for last in (24, 49, 59)]


def test_places_of_records_take_four_bytes_each(many: str) -> None:
    lengths = np.random.default_rng(0).integers(0, 3000, 1000).astype(np.uint32)
    ends = np.cumsum(lengths.astype(np.int64) + 16)
    places = reading.Places(lengths)
    for records in (np.arange(1000), np.array([999, 0, 64, 63, 65, 500]), np.empty(0, np.int64), np.array([128])):
        offsets, sizes = places.of(records)
        assert np.array_equal(offsets, (ends - lengths - 16)[records])
        assert np.array_equal(sizes, lengths[records].astype(np.int64) + 16)
    assert places.lengths.nbytes + places._firsts.nbytes < 4.2 * 1000
    split = bushel.open(many)["train"]
    assert split[[5999, 0, 3000]]["x"].shape == (3,)
    assert not any(shard.is_indexed for shard in split.shards.shards)


@pytest.mark.parametrize("rows", [0, 3, 50_000])
def test_an_array_in_a_store_is_indexed_as_one_in_memory_is(bucket: str, rows: int) -> None:
    array = np.random.default_rng(0).integers(0, 1 << 60, rows)
    path = as_path(f"{bucket}/array.npy")
    with write_whole(path) as file:
        np.save(file, array)
    stored = ArrayInStore(path)  # type: ignore[arg-type]
    assert len(stored) == rows
    assert np.array_equal(np.asarray(stored), array)
    assert np.array_equal(stored[2:40_000:3], array[2:40_000:3])
    assert np.array_equal(stored[40_000:2], array[40_000:2])
    if rows:
        chosen = np.random.default_rng(1).integers(0, rows, 200)
        assert np.array_equal(stored[chosen], array[chosen])
        assert np.array_equal(stored[array % 2 == 0], array[array % 2 == 0])
        assert stored[rows - 1] == array[-1]


def test_one_pass_in_order_is_not_kept_and_what_is_read_again_is(remote: str) -> None:
    kept = Path(os.environ["BUSHEL_CACHE"])
    assert sum(len(batch.rows) for batch in bushel.batches(bushel.open(remote)["train"], batch_size=64)) == ROWS
    assert not list(kept.glob("*.[0-9]*"))
    feed = bushel.batches(bushel.open(remote)["train"], batch_size=64, epochs=2)
    assert sum(len(batch.rows) for batch in feed) == 2 * ROWS
    assert list(kept.glob("*.[0-9]*"))


def test_records_fetched_alone_that_came_wrong_once_are_read_again(
    built: Path, remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, wrong = stores.get, [3]

    def get(key: Any, start: int, stop: int, etag: str = "") -> Any:
        data = bytearray(real(key, start, stop, etag))
        wrong[0] -= 1
        if wrong[0] == 0:
            data[20] ^= 1
        return memoryview(bytes(data))

    monkeypatch.setattr(cache, "get", get)
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "0")
    forget_clients()
    with pytest.warns(reading.StoreShuffle):
        feed = bushel.batches(bushel.open(remote)["train"], batch_size=32, order=bushel.Order(shuffle=True))
    assert sum(len(batch.rows) for batch in feed) == ROWS
    assert wrong[0] < 0


def test_without_a_cache_blocks_come_from_memory(built: Path, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "0")
    forget_clients()
    order = bushel.Order(shuffle=True, seed=2, block=16, window=4)
    here, there = bushel.open(built)["train"], bushel.open(remote)["train"]
    pairs = zip(
        bushel.batches(here, batch_size=32, order=order), bushel.batches(there, batch_size=32, order=order), strict=True
    )
    assert all(same(one, other) for one, other in pairs)
    assert not (Path(os.environ["BUSHEL_CACHE"])).exists()


def test_tensorflow_reads_a_store_with_the_native_engine(built: Path, remote: str) -> None:
    pytest.importorskip("tensorflow")
    import bushel.tensorflow as bt

    fed = bt.dataset(remote, split="train", batch_size=100, engine="native")
    found = [label.numpy() for _, label in fed]
    expected = [batch["label"] for batch in bushel.batches(bushel.open(built)["train"], batch_size=100)]
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    with pytest.raises(ValueError, match='engine="graph" reads files of this machine'):
        list(bt.dataset(remote, split="train", batch_size=100, engine="graph"))


def test_a_folder_of_tensorflow_datasets_opens_by_its_description(built: Path, bucket: str, tmp_path: Path) -> None:
    bushel.export_dataset(built, tmp_path / "tfds", format="tfds")
    upload(tmp_path / "tfds", f"{bucket}/tfds")
    train = bushel.open(f"{bucket}/tfds")["train"]
    assert len(train) == ROWS
    assert train[7]["x"].tolist() == bushel.open(built)["train"][7]["x"].tolist()
    assert bushel.info(f"{bucket}/tfds").disagreements == []


def test_a_dataset_in_a_store_can_be_looked_at(bucket: str) -> None:
    from bushel.viewing.viewer import open_viewer

    rows = [{"x": float(number), "label": number % 2} for number in range(50)]
    bushel.build(iter(rows), f"{bucket}/data")
    viewer = open_viewer([f"{bucket}/data"])
    assert viewer.records({"where": "x > 40"})["total"] == 9
    found = viewer.record({"row": "3"})
    assert found["place"]["shard"].startswith(f"{bucket}/data/train-")
    assert found["key"]
