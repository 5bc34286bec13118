"""Spectrograms and mel features have the values of librosa."""

from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel import transforms as t
from bushel.transforms import Draw

GOLDEN = Path(__file__).parents[1] / "golden" / "sound" / "librosa.npz"
STEPS = {
    "mel": t.mel("audio", 16000, scale="power"),
    "db": t.mel("audio", 16000),
    "narrow": t.mel("audio", 16000, bands=40, window=512, hop=200, low=80, high=7000, scale="power"),
    "power": t.spectrogram("audio", 256, 256),
}


def chirp(rate: int = 16000, seconds: float = 0.7) -> np.ndarray:
    """The sound of tests/golden/sound/make.py."""
    time = np.arange(int(rate * seconds)) / rate
    noise = np.random.default_rng(0).normal(size=len(time))
    return (0.4 * np.sin(2 * np.pi * (200 + 1500 * time) * time) + 0.02 * noise).astype(np.float32)


@pytest.mark.parametrize("name", STEPS)
def test_values_are_those_of_librosa(name: str) -> None:
    expected = np.load(GOLDEN)[name]
    found = STEPS[name].apply({"audio": chirp()}, Draw(0, 0, 0))["audio"]
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(expected).max()) / 100))


@pytest.mark.parametrize("name", STEPS)
def test_many_sounds_at_once_give_what_each_gives_alone(name: str) -> None:
    sounds = np.stack([chirp(), -0.5 * chirp(), chirp()[::-1]])
    together = STEPS[name].apply_columns({"audio": sounds})["audio"]
    for row, sound in enumerate(sounds):
        alone = STEPS[name].apply({"audio": sound}, Draw(0, 0, 0))["audio"]
        np.testing.assert_allclose(together[row], alone, rtol=1e-5, atol=1e-5)


def test_integers_and_floats_and_two_channels_are_the_same_sound() -> None:
    sound = chirp()
    whole = (sound * 32768).astype(np.int16)
    stereo = np.stack([whole, whole], axis=1)
    one, two = (STEPS["db"].apply({"audio": value}, Draw(0, 0, 0))["audio"] for value in (whole, stereo))
    np.testing.assert_allclose(one, two, atol=1e-3)


def test_features_are_made_when_building_or_when_reading(tmp_path: Path) -> None:
    sounds = {"audio": np.stack([chirp() * (number + 1) / 8 for number in range(8)])}
    bushel.build(sounds, tmp_path / "built", transforms=[STEPS["db"]], order="source")
    bushel.build(sounds, tmp_path / "plain", order="source")
    built = next(bushel.batches(tmp_path / "built", batch_size=8))["audio"]
    read = next(bushel.batches(tmp_path / "plain", batch_size=8, transforms=[STEPS["db"]]))["audio"]
    assert built.shape == (8, 64, 44)
    np.testing.assert_allclose(read, built, atol=1e-4)


def test_a_sound_is_cut_or_padded_to_a_length() -> None:
    for length in (3, 8):
        found = t.fit_audio("a", length).apply({"a": np.arange(5, dtype=np.int16)}, Draw(0, 0, 0))["a"]
        assert found.tolist() == [0, 1, 2, 3, 4, 0, 0, 0][:length]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="low and high must be within 0 and 4000, got 0.0 and 5000"):
        t.mel("a", 8000, high=5000)
    with pytest.raises(ValueError, match="scale must be one of power, log, db; got 'mel'"):
        t.spectrogram("a", scale="mel")  # type: ignore[arg-type]
    with pytest.raises(bushel.SchemaMismatch, match="expected samples of a sound"):
        t.spectrogram("a").apply({"a": np.zeros((4, 4, 3))}, Draw(0, 0, 0))
