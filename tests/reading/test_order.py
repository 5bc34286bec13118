"""Which record stands at which position, and who reads it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bushel
from bushel import Order
from bushel.reading.order import permute, sampler_of
from bushel.reading.pipeline import Steps


@given(size=st.integers(1, 5000), seed=st.integers(-(2**63), 2**63 - 1), epoch=st.integers(0, 2**31))
def test_a_permutation_takes_every_place_once(size: int, seed: int, epoch: int) -> None:
    places = permute(np.arange(size), size, seed, epoch)
    assert np.array_equal(np.sort(places), np.arange(size))


@given(size=st.integers(1, 2**62), data=st.data())
def test_any_position_of_any_size_is_computed_on_its_own(size: int, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20, unique=True))
    together = permute(np.array(positions), size, 7)
    alone = [int(permute(np.array([position]), size, 7)[0]) for position in positions]
    assert together.tolist() == alone
    assert len(set(alone)) == len(alone)
    assert all(0 <= place < size for place in alone)


def test_these_are_the_first_places_for_ever() -> None:
    assert permute(np.arange(8), 1_000_000, 7, 3).tolist() == permute(np.arange(100), 1_000_000, 7, 3)[:8].tolist()


def test_positions_outside_are_refused() -> None:
    with pytest.raises(IndexError, match="positions must be at least 0 and below size"):
        permute(np.array([10]), 10, 0)
    with pytest.raises(IndexError):
        permute(np.array([-1]), 10, 0)


def walk(steps: Steps, consumed: int = 0) -> Iterator[tuple[list[int], list[bool]]]:
    while (step := steps.at(consumed)) is not None:
        real = [True] * len(step.positions) if step.real is None else step.real.tolist()
        yield list(step.positions), real
        consumed = step.after


@settings(max_examples=200)
@given(
    size=st.integers(1, 200),
    batch_size=st.integers(1, 20),
    world=st.integers(1, 7),
    uneven=st.sampled_from(["drop", "pad", "wrap"]),
    drop_last=st.booleans(),
    consumed=st.integers(0, 200),
)
def test_ranks_share_an_epoch_as_the_policy_states(
    size: int, batch_size: int, world: int, uneven: str, drop_last: bool, consumed: int
) -> None:
    consumed = min(consumed, size)
    ranks = []
    for rank in range(world):
        order = Order(rank=rank, world=world, uneven=uneven)  # type: ignore[arg-type]
        steps = Steps(size, batch_size, order, drop_last)
        ranks.append(list(walk(steps, consumed)))
        assert steps.count(consumed) == len(ranks[-1])
    assert len({tuple(len(positions) for positions, _ in steps) for steps in ranks}) == 1  # the same steps for all
    read = [
        p for steps in ranks for positions, real in steps for p, is_real in zip(positions, real, strict=True) if is_real
    ]
    assert len(set(read)) == len(read)
    missed = set(range(consumed, size)) - set(read)
    if uneven != "drop":
        assert not missed
    elif drop_last:
        assert len(missed) < world * batch_size
    else:
        assert len(missed) < world
    assert set(read) <= set(range(consumed, size))
    if drop_last:
        assert all(len(positions) == batch_size for steps in ranks for positions, _ in steps)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"world": 0}, "world must be at least 1, got 0"),
        ({"rank": 2, "world": 2}, r"rank must be at least 0 and below world \(2\), got 2"),
        ({"uneven": "crop"}, "uneven must be one of drop, pad, wrap; got 'crop'"),
        ({"block": 0, "shuffle": True}, "block must be at least 1, got 0"),
        ({"block": 4}, "block must come with shuffle=True, got 4"),
        ({"weights": "w", "balance": "label"}, "balance must not come with weights"),
    ],
)
def test_wrong_orders_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Order(**arguments)  # type: ignore[arg-type]


def rows(folder: Path, order: Order, epoch: int = 0) -> list[int]:
    sampler = sampler_of(bushel.open(folder)["train"], order)
    return sampler.rows(epoch, np.arange(sampler.size)).tolist()


@pytest.mark.parametrize("block", [None, 1, 7, 10, 50, 103, 1000])
def test_a_shuffle_takes_every_record_once_and_each_epoch_anew(numbered: Path, block: int | None) -> None:
    order = Order(shuffle=True, seed=3, block=block, window=2)
    first, second = rows(numbered, order), rows(numbered, order, epoch=1)
    assert sorted(first) == sorted(second) == list(range(103))
    assert first != second != list(range(103))
    assert first == rows(numbered, order)
    assert first != rows(numbered, Order(shuffle=True, seed=4, block=block, window=2))


def test_a_block_shuffle_reads_few_blocks_at_a_time(numbered: Path) -> None:
    order = Order(shuffle=True, block=10, window=2)
    for region in np.array(rows(numbered, order)[:100]).reshape(5, 20):
        runs = 1 + int((np.diff(np.sort(region)) > 1).sum())
        assert runs <= 4  # two blocks, one of which the shift may wrap round the end


def test_balance_draws_every_class_equally_often(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    few = train.select([n for n in range(103) if n % 5 or n < 10])
    sampler = sampler_of(few, Order(shuffle=True, balance="label"))
    counts = np.bincount(sampler.rows(0, np.arange(sampler.size)) % 5)
    assert counts.max() - counts.min() <= 2


def test_weights_draw_in_proportion(numbered: Path) -> None:
    weights = np.where(np.arange(103) < 50, 1.0, 0.0)
    weights[0] = 50.0
    drawn = np.bincount(rows(numbered, Order(shuffle=True, weights=weights)), minlength=103)
    assert drawn[50:].sum() == 0
    assert abs(drawn[0] - 103 * 50 / 99) <= 2
    with pytest.raises(ValueError, match=r"weights must be 103 numbers, one per record; got shape \(3,\)"):
        rows(numbered, Order(weights=np.ones(3)))


def test_a_mixture_draws_from_each_by_weight_and_reads_each_through(numbered: Path) -> None:
    train = bushel.open(numbered)["train"]
    mixed = bushel.mix([train.select(range(40)), train.select(range(40, 103))], [3, 1])
    sampler = sampler_of(mixed, Order(shuffle=True))
    drawn = np.concatenate([sampler.rows(epoch, np.arange(sampler.size)) for epoch in range(40)])
    from_first = np.bincount(drawn[drawn < 103], minlength=103)[:40]
    assert len(drawn) == 40 * 103
    assert from_first.sum() == 40 * 77
    assert from_first.max() - from_first.min() <= 1
