"""A rule about waves."""

from collections.abc import Iterator
from typing import Any

import bushel


@bushel.rule("WAV001", "few-waves", severity="warning")
def few_waves(data: Any) -> Iterator[bushel.Finding]:
    """There are fewer than ten waves.

    Why: nobody learns from so few.
    Fix: make more of them.
    """
    if "wave" in data.features and data.records < 10:
        yield bushel.Finding(f"there are {data.records} waves")
