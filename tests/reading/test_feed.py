"""Batches: the same whatever makes them, and resumable after any of them."""

import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import bushel
from bushel import Bucket, Order, Pack, Pad, Workers
from bushel import transforms as t
from tests.reading.conftest import flip, write_numbered


def numbers(feed: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in feed]


def flat(feed: Any) -> list[int]:
    return [number for batch in numbers(feed) for number in batch]


def test_batches_come_in_file_order_and_the_last_is_smaller(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    feed = bushel.batches(train, batch_size=40)
    assert len(feed) == 3
    assert [len(batch) for batch in numbers(feed)] == [40, 40, 23]
    assert flat(bushel.batches(train, batch_size=40)) == list(range(103))
    assert flat(bushel.batches(train, batch_size=40, drop_last=True)) == list(range(80))


def test_columns_are_what_their_features_are(numbered: Path) -> None:
    batch = next(iter(bushel.batches(bushel.open(numbered)["train"], batch_size=3)))
    assert batch["x"].shape == (3, 8)
    assert batch["x"].dtype == np.float32
    assert batch["tokens"].to_list() == [[0], [0, 1], [0, 1, 2]]
    assert batch["text"].to_list() == [b"record 0", b"record 1", b"record 2"]
    assert batch.rows.tolist() == [0, 1, 2]
    assert batch.real is None


def test_only_the_columns_asked_for_are_read(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    assert list(next(bushel.batches(train, batch_size=3, columns=["label", "x"]))) == ["label", "x"]
    with pytest.raises(bushel.MissingName, match="no feature 'lable'; did you mean 'label'"):
        bushel.batches(train, batch_size=3, columns=["lable"])
    with pytest.raises(ValueError, match="columns must be a list of names, got the string 'label'"):
        bushel.batches(train, batch_size=3, columns="label")


@pytest.mark.parametrize("batch_size", [1, 3, 7, 64])
def test_arrays_begin_at_multiples_of_64_bytes(numbered: Path, batch_size: int) -> None:
    for batch in bushel.batches(bushel.open(numbered)["train"], batch_size=batch_size):
        assert batch["x"].ctypes.data % 64 == 0
        assert batch["number"].ctypes.data % 64 == 0


def test_a_kept_batch_does_not_change(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    kept = list(bushel.batches(train, batch_size=10, epochs=2, order=Order(shuffle=True)))
    copies = [batch["x"].copy() for batch in kept]
    list(bushel.batches(train, batch_size=10, epochs=5))
    assert all(np.array_equal(batch["x"], copy) for batch, copy in zip(kept, copies, strict=True))
    assert all(batch["x"][:, 0].astype(int).tolist() == batch["number"].tolist() for batch in kept)


SETTINGS: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"order": Order(shuffle=True, seed=5)},
    "block": {"order": Order(shuffle=True, block=8, window=2)},
    "balanced": {"order": Order(shuffle=True, balance="label")},
    "padded": {"order": Order(shuffle=True), "layout": [Pad("tokens")]},
    "bucketed": {"order": Order(shuffle=True), "layout": [Bucket("tokens", window=3), Pad("tokens")]},
    "packed": {"order": Order(shuffle=True), "layout": [Pack("tokens", 9, window=30)], "batch_size": 4},
}


def signature(batch: Any) -> Any:
    return {name: c.tolist() if isinstance(c, np.ndarray) else c.to_list() for name, c in batch.items()}


def make(folder: Path, name: str, **changes: Any) -> Any:
    return bushel.batches(bushel.open(folder)["train"], **{"batch_size": 10, "epochs": 2, **SETTINGS[name], **changes})


@pytest.mark.parametrize("name", SETTINGS)
def test_batches_are_the_same_for_any_number_of_threads(numbered: Path, name: str) -> None:
    alone = [signature(batch) for batch in make(numbered, name, workers=Workers(threads=1, ahead=1))]
    for threads in (2, 8):
        assert [signature(batch) for batch in make(numbered, name, workers=Workers(threads=threads))] == alone


@pytest.mark.parametrize("name", SETTINGS)
def test_resume_behind_any_batch_equals_no_stop(numbered: Path, name: str) -> None:
    feed = make(numbered, name)
    whole, states = [], [feed.state()]
    for batch in feed:
        whole.append(signature(batch))
        states.append(feed.state())
    assert all(isinstance(value, int) for state in states for value in state.values())
    for at, state in enumerate(states):
        resumed = make(numbered, name)
        resumed.restore(state)
        assert [signature(batch) for batch in resumed] == whole[at:]


@pytest.mark.parametrize("name", ["in order", "shuffled", "block", "bucketed"])
@pytest.mark.parametrize("worlds", [(1, 3), (4, 2), (3, 1)])
def test_another_world_reads_the_rest_exactly_once(numbered: Path, name: str, worlds: tuple[int, int]) -> None:
    before, after = worlds
    seen: list[int] = []
    for rank in range(before):
        feed = ranked(numbered, name, rank, before)
        for _ in range(2):
            seen += next(feed)["number"].tolist()
        state = feed.state()
    for rank in range(after):
        feed = ranked(numbered, name, rank, after)
        feed.restore(state)
        for batch in feed:
            seen += batch["number"][slice(None) if batch.real is None else batch.real].tolist()
    assert sorted(seen) == list(range(103))


def ranked(folder: Path, name: str, rank: int, world: int, uneven: str = "pad") -> Any:
    order = SETTINGS[name].get("order", Order())
    fields = {field: getattr(order, field) for field in order.__dataclass_fields__}
    changed = Order(**{**fields, "rank": rank, "world": world, "uneven": uneven})
    return make(folder, name, order=changed, epochs=1)


def test_packed_records_of_another_world_come_exactly_once(numbered: Path) -> None:
    seen = []
    for rank in range(2):
        feed = ranked(numbered, "packed", rank, 2)
        seen += next(feed)["number"].to_list()
        state = feed.state()
    for rank in range(3):
        feed = ranked(numbered, "packed", rank, 3)
        feed.restore(state)
        for batch in feed:
            rows = batch["number"].to_list()
            seen += rows if batch.real is None else [row for row, real in zip(rows, batch.real, strict=True) if real]
    assert sorted(number for row in seen for number in row) == list(range(103))


def test_each_epoch_is_another_order_and_iterating_again_goes_on(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    both = numbers(bushel.batches(train, batch_size=103, order=Order(shuffle=True), epochs=2))
    feed = bushel.batches(train, batch_size=103, order=Order(shuffle=True))
    assert numbers(feed) == both[:1]
    assert numbers(feed) == both[1:]
    assert next(feed, None) is None


def test_a_state_of_another_dataset_is_refused(numbered: Path, tmp_path: Path) -> None:
    state = bushel.batches(bushel.open(numbered)["train"], batch_size=3).state()
    other = bushel.open(write_numbered(tmp_path / "other", records=50))["train"]
    with pytest.raises(ValueError, match="state must be of a feed with records 50, got 103"):
        bushel.batches(other, batch_size=3).restore(state)


def test_a_closed_feed_leaves_no_thread(numbered: Path) -> None:
    before = threading.active_count()
    feed = bushel.batches(bushel.open(numbered)["train"], batch_size=3, epochs=None)
    next(feed)
    assert threading.active_count() > before
    feed.close()
    assert threading.active_count() == before


def test_a_dropped_feed_leaves_no_thread(numbered: Path) -> None:
    before = threading.active_count()
    train = bushel.open(numbered)["train"]
    for _ in range(20):
        next(bushel.batches(train, batch_size=3, epochs=None))
    for thread in threading.enumerate():
        if thread.name.startswith("bushel"):
            thread.join(5)
    assert threading.active_count() == before


def test_an_empty_selection_gives_no_batch(numbered: Path) -> None:
    assert list(bushel.batches(bushel.open(numbered)["train"].where("label", 99), batch_size=3, epochs=None)) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"epochs": 0}, "epochs must be at least 1 or None, got 0"),
        ({"on_fault": "ignore"}, "on_fault must be one of raise, skip, replace; got 'ignore'"),
        ({"layout": [Bucket("tokens"), Pack("tokens", 4)]}, "layout must hold at most one Bucket or Pack"),
    ],
)
def test_wrong_arguments_are_refused(numbered: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bushel.batches(bushel.open(numbered)["train"], **{"batch_size": 3, **arguments})


def test_several_splits_are_not_one(tmp_path: Path) -> None:
    for name in ("train", "val"):
        with bushel.Writer(tmp_path / f"{name}.tfrecord") as writer:
            writer.write({"number": 1})
    with pytest.raises(ValueError, match="data must be one split of the splits train, val"):
        bushel.batches(bushel.open(tmp_path), batch_size=1)


@pytest.mark.filterwarnings("ignore::bushel.reading.order.BufferedShuffle")
def test_gzip_shards_are_shuffled_by_shard_and_buffer(tmp_path: Path) -> None:
    train = bushel.open(write_numbered(tmp_path / "gz", suffix=".gz"))["train"]
    assert train[77]["number"] == 77
    assert flat(bushel.batches(train, batch_size=10)) == list(range(103))
    order = Order(shuffle=True, buffer=20)
    shuffled = flat(bushel.batches(train, batch_size=10, order=order))
    assert sorted(shuffled) == list(range(103))
    assert shuffled != flat(bushel.batches(train, batch_size=10, order=Order(shuffle=True, seed=1, buffer=20)))
    feed = bushel.batches(train, batch_size=10, order=order)
    for _ in range(4):
        next(feed)
    resumed = bushel.batches(train, batch_size=10, order=order)
    resumed.restore(feed.state())
    assert flat(resumed) == shuffled[40:]
    with pytest.raises(ValueError, match="compressed shards cannot be read at random"):
        bushel.batches(train, batch_size=10, order=Order(balance="label"))


@pytest.mark.parametrize("name", ["shuffled", "bucketed", "packed"])
def test_a_helper_process_makes_the_same_batches(numbered: Path, name: str) -> None:
    here = [signature(batch) for batch in make(numbered, name)]
    feed = make(numbered, name, workers=Workers(processes=1))
    kept = list(feed)
    assert [signature(batch) for batch in kept] == here
    assert all(batch["number"].flags.writeable for batch in kept if isinstance(batch["number"], np.ndarray))


def test_a_helper_process_ends_with_its_feed(numbered: Path) -> None:
    feed = make(numbered, "shuffled", workers=Workers(processes=1), epochs=None)
    next(feed)
    child = feed._pipeline.workers[0].process
    feed.close()
    assert child.returncode is not None


def test_an_error_in_a_helper_process_is_raised_here(numbered: Path) -> None:
    flip(numbered / "train-00001-of-00004.tfrecord", at=40)
    with pytest.raises(bushel.CorruptRecord, match="record 0 at byte 0: checksum of the data does not match"):
        list(make(numbered, "in order", workers=Workers(processes=1)))


def test_a_shuffle_of_compressed_shards_says_what_it_is(tmp_path: Path) -> None:
    train = bushel.open(write_numbered(tmp_path / "gz", suffix=".gz"))["train"]
    with pytest.warns(UserWarning, match="shuffled by shard, and in a buffer of 20 records"):
        bushel.batches(train, batch_size=10, order=Order(shuffle=True, buffer=20))


def test_a_bucketed_state_is_of_its_batch_size(numbered: Path) -> None:
    state = make(numbered, "bucketed").state()
    with pytest.raises(ValueError, match="state must be of a feed with bucket 20, got 10"):
        make(numbered, "bucketed", batch_size=20).restore(state)


MEMORY = """
import sys, bushel
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
train = bushel.open(sys.argv[1])["train"]
feed = bushel.batches(train, batch_size=64, order=bushel.Order(shuffle=True), epochs=None,
                      workers=bushel.Workers(threads=2, ahead=8))
for number, batch in enumerate(feed):
    if number == 50:
        early = anonymous()
    if number == 1500:
        print(anonymous() - early)
        break
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_memory_does_not_grow_with_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with bushel.Writer(tmp_path / "data" / "train.tfrecord") as writer:
        writer.write_batch({"x": np.zeros((20_000, 1024), np.float32)})  # 80 MB, each record read about five times
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "data")]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert grown < 16 << 10


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_state_taken_behind_a_pass_goes_on_with_the_next(numbered: Path, epochs: int) -> None:
    def make() -> bushel.Feed:
        order = Order(shuffle=True, seed=3)
        return bushel.batches(bushel.open(numbered)["train"], batch_size=40, order=order, epochs=epochs)

    feed = make()
    passes, states = [], []
    for _ in range(3):
        passes.append(flat(feed))
        states.append(feed.state())
    for number, state in enumerate(states[:2]):
        resumed = make()
        resumed.restore(state)
        assert flat(resumed) == passes[number + 1]


def test_a_state_taken_at_the_last_batch_of_a_pass_first_ends_that_pass(numbered: Path) -> None:
    feed = bushel.batches(bushel.open(numbered)["train"], batch_size=40, epochs=1)
    states = [feed.state() for _ in feed]
    resumed = bushel.batches(bushel.open(numbered)["train"], batch_size=40, epochs=1)
    resumed.restore(states[-1])
    assert flat(resumed) == []
    assert flat(resumed) == list(range(103))


def test_an_image_resized_into_its_batch_is_the_image_resized(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    images = [generator.integers(0, 255, (40, 30, 3), dtype=np.uint8) for _ in range(9)]
    schema = bushel.Schema.of(image=bushel.Feature(dtype="uint8", shape=(40, 30, 3), encoding="raw"))
    with bushel.Writer(tmp_path / "x.tfrecord", schema=schema) as writer:
        for image in images:
            writer.write({"image": image})
    for dtype in ("uint8", "float32"):
        step = t.resize("image", 64, 48, dtype=dtype)
        last = [step, t.cast("image", dtype)]  # resized on its own, and copied into the batch
        split = bushel.open(tmp_path / "x.tfrecord")["all"]
        placed = bushel.batches(split, batch_size=4, transforms=[step])
        copied = bushel.batches(split, batch_size=4, transforms=last)
        for a, b in zip(placed, copied, strict=True):
            np.testing.assert_array_equal(a["image"], b["image"])
            assert a["image"].ctypes.data % 64 == 0


def test_a_batch_can_be_rebuilt_from_its_columns_alone(numbered: Path) -> None:
    batch = next(bushel.batches(bushel.open(numbered)["train"], batch_size=3))
    doubled = type(batch)({name: column for name, column in batch.items() if name == "number"})
    assert isinstance(doubled, bushel.Batch)
    assert doubled["number"].tolist() == [0, 1, 2]
    assert (doubled.rows.tolist(), doubled.real, doubled.epoch) == ([], None, 0)


def test_asking_a_feed_for_a_batch_by_number_says_what_to_use(numbered: Path) -> None:
    feed = bushel.batches(bushel.open(numbered)["train"], batch_size=3)
    with pytest.raises(TypeError, match=r"batches in order, not by number: .* use bushel.torch.loader"):
        feed[0]


def test_ranks_of_a_launcher_that_all_read_everything_are_warned(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = bushel.open(numbered)["train"]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.warns(bushel.BushelWarning, match=r"this is rank 1 of 4 .* rank=1, world=4"):
        bushel.batches(train, batch_size=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bushel.batches(train, batch_size=3, order=Order(rank=1, world=4))
        monkeypatch.setenv("WORLD_SIZE", "1")
        bushel.batches(train, batch_size=3)


@pytest.mark.parametrize("layout", [[], [Bucket("tokens"), Pad("tokens")], [Pack("tokens", 8)]])
@pytest.mark.parametrize("workers", [Workers(), Workers(threads=1, ahead=1), Workers(processes=2)])
def test_processes_that_take_turns_share_the_batches_of_a_rank(numbered: Path, layout: Any, workers: Workers) -> None:
    columns = ["tokens"] if layout and isinstance(layout[0], Pack) else None

    def feed(turn: int, turns: int) -> bushel.Feed:
        whole = bushel.batches(
            bushel.open(numbered)["train"],
            batch_size=4,
            columns=columns,
            layout=layout,
            epochs=2,
            order=Order(shuffle=True, rank=1, world=2),
            workers=workers,
        )
        with whole:
            return bushel.Feed(whole.split, msgspec.structs.replace(whole.settings, turn=turn, turns=turns))

    alone = [batch.rows.tolist() for batch in feed(0, 1)]
    shares = [[batch.rows.tolist() for batch in feed(turn, 3)] for turn in range(3)]
    assert [shares[number % 3][number // 3] for number in range(len(alone))] == alone
    assert sum(map(len, shares)) == len(alone)

    second = feed(1, 3)
    begun = [next(second).rows.tolist(), next(second).rows.tolist()]
    second.close()
    assert begun + [batch.rows.tolist() for batch in second] == shares[1]
