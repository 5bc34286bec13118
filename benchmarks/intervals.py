"""Do 95 % intervals hold the truth 95 times of 100? python benchmarks/intervals.py [--draws 2000].

Each case draws samples of a population whose score is known, and counts how often the interval of a verdict holds it.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bushel.training.verdict.intervals import score_interval
from bushel.training.verdict.metrics import METRICS

Generator = np.random.Generator
Sample = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # labels, outputs, groups


class Case(NamedTuple):
    """A population: the metric, its true value, and how to draw from it."""

    metric: str
    truth: float
    draw: Callable[[Generator], Sample]


def _answers(labels: np.ndarray, hits: np.ndarray) -> np.ndarray:
    return np.eye(2)[np.where(hits, labels, 1 - labels)]


def independent(share: float, records: int) -> Case:
    def draw(generator: Generator) -> Sample:
        labels = np.arange(records) % 2
        return labels, _answers(labels, generator.random(records) < share), None

    return Case("accuracy", share, draw)


def grouped(groups: int, each: int, apart: float) -> Case:
    """Shares of groups that vary by a Beta distribution with a mean of 0.8."""

    def draw(generator: Generator) -> Sample:
        shares = generator.beta(0.8 * apart, 0.2 * apart, groups)
        labels = np.arange(groups * each) % 2
        hits = generator.random(groups * each) < np.repeat(shares, each)
        return labels, _answers(labels, hits), np.repeat(np.arange(groups), each)

    return Case("accuracy", 0.8, draw)


def rare(records: int, few: int, shares: tuple[float, float]) -> Case:
    def draw(generator: Generator) -> Sample:
        labels = (np.arange(records) < few).astype(int)
        return labels, _answers(labels, generator.random(records) < np.array(shares)[labels]), None

    return Case("balanced_accuracy", sum(shares) / 2, draw)


def errors(records: int, sigma: float) -> Case:
    """Errors with a lognormal size."""

    def draw(generator: Generator) -> Sample:
        found = np.exp(generator.normal(0, sigma, (records, 1)))
        return np.zeros((records, 1)), found, None

    return Case("mae", float(np.exp(sigma**2 / 2)), draw)


def grouped_errors(groups: int, each: int) -> Case:
    def draw(generator: Generator) -> Sample:
        sizes = np.repeat(np.exp(generator.normal(0, 0.7, groups)), each)
        found = np.abs(generator.normal(0, 1, groups * each)) * sizes
        return np.zeros((groups * each, 1)), found[:, None], np.repeat(np.arange(groups), each)

    return Case("mae", float(np.exp(0.7**2 / 2) * np.sqrt(2 / np.pi)), draw)


def area(records: int, few: int, apart: float) -> Case:
    """Scores of two normal distributions."""
    from math import erf

    def draw(generator: Generator) -> Sample:
        labels = (np.arange(records) < few).astype(int)
        scores = generator.normal(0, 1, records) + apart * labels
        return labels, np.stack([-scores, scores], axis=1), None

    return Case("auc", 0.5 * (1 + erf(apart / 2)), draw)


CASES: dict[str, Case] = {
    "independent, 0.85 of 200": independent(0.85, 200),
    "independent, 0.99 of 100": independent(0.99, 100),
    "grouped, 20 groups of 25": grouped(20, 25, 4.0),
    "grouped, 10 groups of 50": grouped(10, 50, 8.0),
    "grouped, 50 groups of 6": grouped(50, 6, 2.0),
    "rare class, 10 of 300": rare(300, 10, (0.95, 0.7)),
    "rare class, 8 of 1000": rare(1000, 8, (0.99, 0.9)),
    "MAE, 200 lognormal of 0.7": errors(200, 0.7),
    "heavy tails, 200 lognormal of 1.5": errors(200, 1.5),
    "heavy tails, 100 lognormal of 1.2": errors(100, 1.2),
    "MAE, 20 groups of 25": grouped_errors(20, 25),
    "AUC 0.9, 40 of 200": area(200, 40, 1.812),
    "AUC 0.998, 30 of 200": area(200, 30, 4.07),
}


def coverage(case: Case, draws: int) -> dict[str, Any]:
    """How often the interval holds the truth, and how wide it is."""
    generator = np.random.default_rng(0)
    metric = next(metric for metric in METRICS if metric.name == case.metric)
    held, width = 0, 0.0
    for number in range(draws):
        labels, outputs, groups = case.draw(generator)
        found = score_interval(metric, labels, outputs, groups=groups, seed=number)
        held += found.low <= case.truth <= found.high
        width += found.high - found.low
    return {"coverage": held / draws, "width": width / draws}


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    draws = parser.parse_args().draws
    for name, case in CASES.items():
        found = coverage(case, draws)
        print(f"{name:36} {found['coverage']:.1%} of {draws:,} intervals hold the truth, width {found['width']:.3f}")


if __name__ == "__main__":
    main()
