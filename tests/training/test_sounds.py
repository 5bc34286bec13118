"""Sound is trained on as log-mel features, whole files and clips, samples and bytes."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel import sources
from bushel.cli import cli
from bushel.training import Options, train

pytest.importorskip("keras")
pytest.importorskip("tensorflow")
pytest.importorskip("av")


def write_tones(folder: Path, count: int = 48) -> Path:
    noise = np.random.default_rng(0)
    for number in range(count):
        place = folder / ("low" if number % 2 == 0 else "high")
        place.mkdir(parents=True, exist_ok=True)
        pitch = (300, 2000)[number % 2] * noise.uniform(0.95, 1.05)
        time = np.arange(1600 + 400 * (number % 5)) / 8000
        samples = 0.3 * np.sin(2 * np.pi * pitch * time) + 0.02 * noise.normal(size=len(time))
        with wave.open(str(place / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((samples * 32767).astype("<i2").tobytes())
    return folder


@pytest.mark.parametrize("settings", [{"seconds": 0.2}, {"store": "bytes"}], ids=["clips", "files"])
def test_tones_are_told_apart_by_their_pitch(settings: dict[str, Any], tmp_path: Path) -> None:
    source = sources.audio(write_tones(tmp_path / "tones"), **settings)
    bushel.build(source, tmp_path / "data", split="70/30", exact=True)
    trained = train(tmp_path / "data", Options(epochs=6, batch_size=8, tensorboard=False), out=tmp_path / "run")
    assert trained.metrics["val"]["accuracy"] > 0.8


def test_notes_on_sounds_speak_of_sounds(tmp_path: Path) -> None:
    bushel.build(sources.audio(write_tones(tmp_path / "tones")), tmp_path / "data", split="70/30")
    done = CliRunner().invoke(cli, ["train", str(tmp_path / "data"), "--epochs", "1", "--out", str(tmp_path / "run")])
    assert "inputs: 'audio' as sounds, in 64 mel bands x " in done.output
    assert "there are few sounds, so their mel features are changed at random in training: shift" in done.output
    assert "image" not in done.output
