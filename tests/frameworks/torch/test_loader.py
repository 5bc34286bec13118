"""A loader: tensors in the order of batches, resumable after any of them, each record once."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

import bushel
import bushel.torch
from bushel import Order
from bushel import transforms as t
from bushel.torch.loading import Transfer
from bushel.torch.tensors import Form
from tests.pictures import encode_image, photo
from tests.reading.conftest import flip, write_numbered


def numbers(loader: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in loader]


def flat(loader: Any) -> list[int]:
    return [number for batch in numbers(loader) for number in batch]


def only_numbers(path: Path, **options: Any) -> bushel.torch.Loader:
    options = {"batch_size": 8, "order": Order(shuffle=True, seed=3), **options}
    return bushel.torch.loader(path, "train", columns=["number", "x"], **options)


def test_batches_are_features_and_the_label(numbered: Path) -> None:
    loader = bushel.torch.loader(numbered, "train", batch_size=4, columns=["x", "label"])
    x, label = next(iter(loader))
    assert x.shape == (4, 8)
    assert label.tolist() == [0, 1, 2, 3]
    features, label = next(iter(bushel.torch.loader(numbered, "train", batch_size=4)))
    assert set(features) == {"number", "text", "tokens", "x"}
    assert label.dtype == torch.int64


def test_batches_are_those_of_bushel_batches(numbered: Path) -> None:
    feed = bushel.batches(bushel.open(numbered)["train"], batch_size=8, order=Order(shuffle=True, seed=3))
    assert numbers(only_numbers(numbered)) == [batch["number"].tolist() for batch in feed]


def test_each_loop_reads_the_next_epoch_and_set_epoch_chooses(numbered: Path) -> None:
    loader = only_numbers(numbered)
    first, second = numbers(loader), numbers(loader)
    assert first != second
    assert len({number for batch in first for number in batch}) == 103
    loader.set_epoch(0)
    assert numbers(loader) == first
    assert numbers(loader) == second
    with pytest.raises(ValueError, match="epoch must be at least 0, got -1"):
        loader.set_epoch(-1)


def test_a_loop_that_was_left_is_followed_by_the_next_epoch(numbered: Path) -> None:
    loader = only_numbers(numbered)
    first, second = numbers(loader), numbers(loader)
    again = only_numbers(numbered)
    for _ in again:
        break
    assert numbers(again) == second
    assert first != second


def test_the_length_is_that_of_one_loop(numbered: Path) -> None:
    assert len(only_numbers(numbered)) == 13
    assert len(only_numbers(numbered, drop_last=True, epochs=2)) == 24
    assert len(only_numbers(numbered, order=Order(rank=0, world=2))) == 7
    with pytest.raises(TypeError, match="without an end has no length"):
        len(only_numbers(numbered, epochs=None))


@pytest.mark.parametrize("stop", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_state_continues_after_any_batch(numbered: Path, stop: int, device: str | None) -> None:
    loader = only_numbers(numbered, device=device)
    whole = numbers(loader) + numbers(loader)
    begun = only_numbers(numbered, device=device)
    seen = []
    for batch in begun:
        if len(seen) == stop:
            break
        seen.append(batch["number"].tolist())
        state = begun.state_dict()
    if not seen:
        state = only_numbers(numbered).state_dict()
    resumed = only_numbers(numbered, device=device)
    resumed.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert all(isinstance(value, int) for value in state.values())
    rest = numbers(resumed)
    if stop == 13:  # nothing is left of that loop, so the next one begins
        assert seen + rest == whole
    else:
        assert seen + rest + numbers(resumed) == whole


def test_an_epoch_that_is_done_gives_nothing_more_if_the_loop_names_it(numbered: Path) -> None:
    loader = only_numbers(numbered)
    batches = iter(loader)
    for _ in range(13):
        next(batches)
    resumed = only_numbers(numbered)
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(0)
    assert numbers(resumed) == []
    resumed.set_epoch(1)
    assert len(numbers(resumed)) == 13


def test_a_loop_that_names_its_epoch_keeps_the_place_within_it(numbered: Path) -> None:
    loader = only_numbers(numbered)
    whole = [numbers(loader), numbers(loader)]
    loader.set_epoch(1)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    resumed = only_numbers(numbered)
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(1)
    assert numbers(resumed) == whole[1][4:]


def test_a_state_of_another_dataset_is_refused(numbered: Path, tmp_path: Path) -> None:
    state = only_numbers(write_numbered(tmp_path / "other", records=103, shards=3)).state_dict()
    with pytest.raises(
        ValueError, match=r"state must be of the dataset that is read, .*data \(train\); it is of another"
    ):
        only_numbers(numbered).load_state_dict(state)
    own = only_numbers(numbered, order=Order(shuffle=True, seed=4)).state_dict()
    with pytest.raises(ValueError, match="state must be of a feed with seed 3, got 4"):
        only_numbers(numbered).load_state_dict(own)


def test_the_rank_comes_from_the_launcher(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    seen = []
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        seen.append(flat(only_numbers(numbered)))
    assert len(seen[0]) == len(seen[1]) == 51
    assert len({*seen[0], *seen[1]}) == 102


def test_an_order_with_a_rank_is_taken_as_it_is(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert len(only_numbers(numbered, order=Order(rank=3, world=4))) == 4


def test_a_loader_on_a_device_gives_the_same(numbered: Path) -> None:
    plain = bushel.torch.loader(numbered, "train", batch_size=8)
    moved = bushel.torch.loader(numbered, "train", batch_size=8, device="cpu", ahead=3)
    for (one, label), (other, same) in zip(plain, moved, strict=True):
        assert label.tolist() == same.tolist()
        assert one["text"] == other["text"]
        assert one["tokens"].values().tolist() == other["tokens"].values().tolist()
    assert moved.report().records == 103


def test_rows_that_fill_up_a_step_have_no_weight(numbered: Path) -> None:
    order = Order(rank=1, world=2, uneven="pad")
    loader = bushel.torch.loader(numbered, "train", batch_size=8, columns=["x", "label"], order=order)
    weights = [weight.tolist() for _, _, weight in loader]
    assert sum(sum(weight) for weight in weights) == 51
    assert len(weights[-1]) == 4
    assert weights[-1][-1] == 0


def test_damage_is_skipped_and_counted(numbered: Path) -> None:
    shard = sorted(numbered.glob("*.tfrecord"))[0]
    flip(shard, at=40)
    with pytest.raises(bushel.CorruptRecord, match="record 0 at byte 0"):
        numbers(only_numbers(numbered, order=Order()))
    loader = only_numbers(numbered, order=Order(), on_fault="skip", device="cpu")
    assert flat(loader) == list(range(1, 103))
    assert loader.report().damaged == 1


def test_images_are_decoded_to_channels_first(tmp_path: Path) -> None:
    images = [encode_image(photo(number, 20, 30), "jpeg") for number in range(6)]
    bushel.build({"image": images, "label": np.arange(6)}, tmp_path / "data")
    loader = bushel.torch.loader(
        tmp_path / "data",
        "train",
        batch_size=3,
        transforms=[t.decode_image("image"), t.resize("image", 8, 6), t.random_flip("image")],
        memory_format=torch.channels_last,
    )
    image, label = next(iter(loader))
    assert image.shape == (3, 3, 8, 6)
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert len(label) == 3


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_data_loader_give_each_batch_once_and_in_order(numbered: Path, method: str) -> None:
    loader = only_numbers(numbered)
    alone = numbers(only_numbers(numbered))
    shared = DataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context=method)
    assert numbers(shared) == alone
    assert len(shared) == 13


def test_workers_read_the_epoch_that_is_set(numbered: Path) -> None:
    loader = only_numbers(numbered)
    alone = only_numbers(numbered)
    numbers(alone)
    shared = DataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context="fork")
    loader.set_epoch(1)
    assert numbers(shared) == numbers(alone)


def test_workers_of_ranks_share_the_positions_of_their_rank(numbered: Path) -> None:
    seen = []
    for rank in range(2):
        loader = only_numbers(numbered, order=Order(shuffle=True, rank=rank, world=2))
        seen += flat(DataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context="fork"))
    assert len(seen) == len(set(seen)) == 102


def test_a_worker_does_not_copy_to_a_device(numbered: Path) -> None:
    loader = only_numbers(numbered, device="cpu")
    shared = DataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(bushel.BushelError, match="a worker of a DataLoader cannot copy to cpu"):
        next(iter(shared))


class Around(IterableDataset):
    """What people write around `bushel.batches`, and what it was warned of."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(bushel.batches(bushel.open(self.path)["train"], batch_size=8, columns=["number"]))
        return iter([str(warning.message) for warning in caught])


def test_workers_that_all_read_everything_are_warned(numbered: Path) -> None:
    shared = DataLoader(Around(numbered), batch_size=None, num_workers=2, multiprocessing_context="fork")
    said = list(shared)
    assert len(said) == 2
    assert all("each of the 2 workers of this DataLoader reads all records: use" in one for one in said)
    assert list(DataLoader(Around(numbered), batch_size=None, num_workers=1, multiprocessing_context="fork")) == []


def test_a_feed_in_a_data_loader_says_what_to_use(numbered: Path) -> None:
    feed = bushel.batches(bushel.open(numbered)["train"], batch_size=8)
    with pytest.raises(TypeError, match="use bushel.torch.loader"):
        next(iter(DataLoader(feed, batch_size=None)))


@pytest.mark.parametrize("arguments", [{"decode": "gpu"}, {"ahead": 0}, {"batch_size": 0}, {"epochs": 0}])
def test_settings_that_make_no_sense_are_refused(numbered: Path, arguments: dict[str, Any]) -> None:
    name = next(iter(arguments))
    with pytest.raises(ValueError, match=f"{name} must be"):
        only_numbers(numbered, **arguments)


class TestRecords:
    """The map-style dataset."""

    def test_samples_are_read_by_number(self, numbered: Path) -> None:
        records = bushel.torch.dataset(numbered, "train", columns=["x", "label"])
        assert len(records) == 103
        x, label = records[101]
        assert x.tolist() == list(range(101, 109))
        assert label == 1
        assert records[-1][0][0] == 102
        with pytest.raises(IndexError, match="record must be below 103, got 103"):
            records[103]

    @pytest.mark.parametrize("workers", [{}, {"num_workers": 2, "multiprocessing_context": "fork"}])
    def test_a_data_loader_shuffles_them(self, numbered: Path, workers: dict[str, Any]) -> None:
        records = bushel.torch.dataset(numbered, "train", columns=["number", "tokens"])
        shuffled = DataLoader(records, 16, shuffle=True, collate_fn=bushel.torch.collate, **workers)
        assert sorted(number for batch in shuffled for number in batch["number"].tolist()) == list(range(103))
        tokens = next(iter(shuffled))["tokens"]
        assert tokens.layout == torch.jagged

    def test_torch_collates_them_too(self, numbered: Path) -> None:
        records = bushel.torch.dataset(numbered, "train", columns=["x", "label"])
        x, label = next(iter(DataLoader(records, 4)))
        assert x.shape == (4, 8)
        assert label.tolist() == [0, 1, 2, 3]

    def test_they_open_again_in_spawned_workers(self, numbered: Path) -> None:
        records = pickle.loads(pickle.dumps(bushel.torch.dataset(numbered, "train", columns=["number"])))
        loaded = DataLoader(
            records, 50, collate_fn=bushel.torch.collate, num_workers=2, multiprocessing_context="spawn"
        )
        assert torch.cat(list(loaded)).tolist() == list(range(103))

    def test_transforms_draw_anew_for_each_epoch(self, numbered: Path) -> None:
        records = bushel.torch.dataset(numbered, "train", columns=["x"], transforms=[t.jitter("x", 1.0)])
        first = records[5]
        assert (records[5] == first).all()
        records.set_epoch(1)
        assert (records[5] != first).any()


def test_a_transfer_ends_only_after_the_device_has_read_the_memory_of_its_batches() -> None:
    class Copy:
        is_done = False

        def synchronize(self) -> None:
            self.is_done = True

    transfer = Transfer("cpu", Form(), is_weighted=False, images=None, resolve=None)  # type: ignore[arg-type]
    copies = [Copy(), Copy()]
    transfer._leaving.extend((copy, [np.zeros(3)]) for copy in copies)
    transfer.close()
    assert all(copy.is_done for copy in copies)
    assert not transfer._leaving
