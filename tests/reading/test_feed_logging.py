"""The logger `bushel` gets what a feed has done, without a word by default."""

import logging
from pathlib import Path

import numpy as np
import pytest

import bushel


def test_a_feed_is_silent_unless_someone_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bushel.build([{"x": np.zeros(2, np.float32), "label": n % 2} for n in range(20)], tmp_path / "data")
    split = bushel.open(tmp_path / "data")["train"]
    with caplog.at_level(logging.INFO, logger="bushel"):
        for _ in bushel.batches(split, batch_size=8):
            pass
    assert any("record" in message and "batch" in message for message in caplog.messages)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="bushel"):  # the default of Python; other tests may have lowered it
        for _ in bushel.batches(split, batch_size=8):
            pass
    assert not caplog.messages
