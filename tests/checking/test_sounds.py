"""Sounds are listened to, encoded or as samples: silence, clipping, rates, channels and lengths."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_faults import sounds, speech, wav, write

import bushel
from bushel import Feature, Schema, sources
from bushel.checking import Finding
from bushel.data.sound_decoding import Loudness

pytest.importorskip("av")
soundfile = pytest.importorskip("soundfile")
RANDOM = np.random.default_rng(11)


def heard(data: Any, **more: Any) -> list[Finding]:
    return bushel.check(data, select=("AUD",), **more).findings


def flac(samples: np.ndarray[Any, Any], rate: int = 16000) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format="FLAC", subtype="PCM_16")
    return out.getvalue()


def music(seconds: float = 0.5, rate: int = 22050) -> np.ndarray[Any, Any]:
    """A chord that decays, scaled until its loudest sample is the end of the range."""
    time = np.arange(round(seconds * rate)) / rate
    chord = sum(np.sin(2 * np.pi * pitch * time) * np.exp(-3 * time) for pitch in (130.8, 164.8, 196.0, 261.6))
    return np.asarray(chord / np.abs(chord).max(), np.float32)


@pytest.mark.parametrize("encode", [wav, flac])
def test_good_speech_and_music_are_quiet(encode: Any, tmp_path: Path) -> None:
    rows = [{"audio": encode(speech(RANDOM)), "label": 0} for _ in range(20)]
    rows += [{"audio": encode(music(rate=16000)), "label": 1} for _ in range(20)]
    assert heard(write(tmp_path / "a.tfrecord", rows)) == []


@pytest.mark.parametrize("pitch", [20, 100, 440, 4000])
def test_a_tone_that_just_fills_the_range_is_not_clipped_and_a_louder_one_is(pitch: int) -> None:
    tone = np.sin(2 * np.pi * pitch * np.arange(44100) / 44100 + 0.1).astype(np.float32)
    for gain, is_clipped in ((0.5, False), (1.0, False), (1.3, True), (4.0, True)):
        loudness = Loudness()
        loudness.add(np.clip(gain * tone, -1, 1)[:, None])
        assert loudness.is_clipped == is_clipped, gain


@pytest.mark.parametrize("store", ["int16", "float32", "bytes"])
def test_a_build_from_files_is_judged_alike_however_it_is_stored(store: str, tmp_path: Path) -> None:
    folder = tmp_path / "sounds" / "words"
    folder.mkdir(parents=True)
    for number in range(12):
        soundfile.write(folder / f"{number}.flac", 0.9 * speech(RANDOM), 16000)
    soundfile.write(folder / "silent.wav", np.zeros(4000), 16000)
    soundfile.write(folder / "loud.wav", np.clip(5 * speech(RANDOM), -1, 1), 16000)
    soundfile.write(folder / "short.wav", speech(RANDOM, seconds=0.01), 16000)
    built = bushel.build(sources.audio(folder.parent, store=store), tmp_path / "data")  # type: ignore[arg-type]
    found = {f.rule: f for f in heard(built.path)}
    assert sorted(found) == ["AUD002", "AUD003", "AUD006"]
    assert found["AUD002"].message == "1 of 15 sounds is silent"
    assert found["AUD003"].message == "1 of 15 sounds is clipped: peaks are cut off at the end of the range"
    assert found["AUD006"].message == "1 of 15 sounds is shorter than 25 ms"
    keys = [bushel.open(built.path)["train"][int(f.locations[0].record or 0)]["key"] for f in found.values()]
    assert sorted(keys) == ["words/loud.wav", "words/short.wav", "words/silent.wav"]


def test_a_rate_that_contradicts_the_file_is_an_error_with_both_rates(tmp_path: Path) -> None:
    rows = sounds()
    rows[4]["audio/rate"] = 44100
    (finding,) = heard(write(tmp_path / "a.tfrecord", rows))
    assert (finding.rule, finding.severity) == ("AUD004", "error")
    assert finding.message == (
        "1 of 40 sounds has another sample rate than the record says: 16,000 Hz instead of 44,100 Hz"
    )
    assert [place.record for place in finding.locations] == [4]


@pytest.mark.parametrize("kind", ["floats", "integers", "24-bit integers", "floats of 16 bits"])
def test_lists_of_samples_as_others_write_them_are_sounds(kind: str, tmp_path: Path) -> None:
    scale = {"floats": 1.0, "24-bit integers": 2.0**23 - 1}.get(kind, 32767.0)

    def stored(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        scaled = np.clip(samples, -1, 1) * scale
        return scaled if kind == "floats" else np.rint(scaled).astype(np.int64 if "integers" in kind else np.float32)

    rows = [{"speech": stored(0.8 * speech(RANDOM)), "sample_rate": 16000, "label": i % 2} for i in range(20)]
    assert heard(write(tmp_path / "good.tfrecord", rows)) == []
    rows[2]["speech"] = stored(np.zeros(4000, np.float32))
    rows[3]["speech"] = stored(4 * speech(RANDOM))
    rows[4]["sample_rate"] = 8000
    bad = heard(write(tmp_path / "bad.tfrecord", rows))
    assert {f.rule: [place.record for place in f.locations] for f in bad} == {
        "AUD002": [2],
        "AUD003": [3],
        "AUD004": [4],
    }


def test_what_is_no_sound_is_not_listened_to(tmp_path: Path) -> None:
    schema = Schema.of(audio=Feature(dtype="float32", shape=(64, 32), encoding="raw"))
    mels = [{"audio": np.zeros((64, 32), np.float32)} for _ in range(20)]
    assert heard(write(tmp_path / "mels.tfrecord", mels, schema=schema)) == []
    noise = [{"vector": RANDOM.bytes(512), "x": np.zeros(999), "audio_embedding": np.zeros(999)} for _ in range(20)]
    assert heard(write(tmp_path / "noise.tfrecord", noise)) == []
