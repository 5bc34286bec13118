"""A shuffle is judged by numbers, not by its name."""

import numpy as np
import pytest

from bushel.reading.order import permute, shuffle_quality

SIZE = 50_000


@pytest.mark.parametrize("seed", range(5))
def test_a_global_shuffle_is_as_good_as_chance(seed: int) -> None:
    quality = shuffle_quality(permute(np.arange(SIZE), SIZE, seed, 0), permute(np.arange(SIZE), SIZE, seed, 1))
    chance = 5 / SIZE**0.5
    assert quality.coverage == 1
    assert abs(quality.rank_correlation) < chance
    assert abs(quality.epoch_correlation) < chance
    assert quality.displacement == pytest.approx(1, abs=0.03)
    assert quality.labels == pytest.approx(1, abs=0.02)
    assert quality.neighbours < 3 * 2 * 256 / SIZE


def test_a_buffer_is_seen_through() -> None:
    generator = np.random.default_rng(0)
    read = np.concatenate([generator.permutation(np.arange(at, at + 500)) for at in range(0, SIZE, 500)])
    quality = shuffle_quality(read, read)
    assert quality.rank_correlation > 0.99
    assert quality.displacement < 0.05
    assert quality.labels < 0.1
    assert quality.epoch_correlation > 0.99


def test_places_of_a_permutation_are_uniform() -> None:
    """Chi-squared over which tenth of the order each tenth of the files goes to, for many keys."""
    counts = np.zeros((10, 10))
    for seed in range(200):
        places = permute(np.arange(1000), 1000, seed)
        np.add.at(counts, (np.arange(1000) // 100, places // 100), 1)
    expected = 200 * 1000 / 100
    assert ((counts - expected) ** 2 / expected).sum() < 81 + 4 * (2 * 81) ** 0.5


@pytest.mark.parametrize("size", [3, 4, 5, 7])
def test_small_permutations_come_equally_often(size: int) -> None:
    draws = 400 * np.prod(np.arange(1, size + 1)) if size < 6 else 60_000
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(int(draws)):
        order = tuple(permute(np.arange(size), size, seed).tolist())
        seen[order] = seen.get(order, 0) + 1
    total = int(np.prod(np.arange(1, size + 1)))
    expected = draws / total
    assert len(seen) == total
    chi = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi < total + 5 * (2 * total) ** 0.5


def test_ranks_of_one_step_read_records_from_all_over() -> None:
    places = permute(np.arange(8 * 256), 1_000_000, 3, 0).reshape(8, 256)
    means = places.mean(axis=1) / 1_000_000
    assert np.abs(means - 0.5).max() < 5 * (1 / 12 / 256) ** 0.5
    assert np.abs(np.corrcoef(places) - np.eye(8)).max() < 5 / 256**0.5
