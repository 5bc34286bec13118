"""Sound files in class folders become samples of one rate, whole or in clips."""

import sys
import wave
from pathlib import Path
from typing import Any

import gather
import numpy as np
import pytest
from gather import keys_of, listed

import bushel
from bushel import sources
from bushel.data.sound_decoding import BadSound, as_floats, decode_sound, load_av, sound_header

av = pytest.importorskip("av")


def read_all(source: Any) -> tuple[dict[str, Any], list[sources.Refused]]:
    """All columns, with keys and labels as text."""
    columns, refused = gather.read_all(source)
    for name in ("key", "label"):
        columns[name] = [value.decode() for value in columns[name]]
    return columns, refused


def tone(seconds: float, rate: int, *, pitch: float = 440.0, channels: int = 1) -> np.ndarray:
    wave_ = 0.5 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate)
    return np.stack([wave_ * (1 - 0.5 * number) for number in range(channels)], axis=1).astype(np.float32)


def write_wav(path: Path, samples: np.ndarray, rate: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((samples.shape[1], 2, rate, 0, "NONE", ""))
        file.writeframes(np.rint(samples * 32767).astype("<i2").tobytes())
    return path


def write_encoded(path: Path, samples: np.ndarray, rate: int, codec: str) -> Path:
    """A file by ffmpeg, as people have them: FLAC, MP3 or Opus in Ogg."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.layout = "mono" if samples.shape[1] == 1 else "stereo"
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout=stream.layout.name)
        frame.rate = rate
        resampler = av.AudioResampler(format=stream.format.name, layout=stream.layout.name, rate=rate)
        for part in resampler.resample(frame):
            for packet in stream.encode(part):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    return path


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    folder = tmp_path / "sounds"
    write_wav(folder / "low" / "a.wav", tone(1.0, 16000), 16000)
    write_wav(folder / "low" / "b.wav", tone(0.25, 8000, channels=2), 8000)
    write_encoded(folder / "high" / "c.flac", tone(2.5, 44100, pitch=900), 44100, "flac")
    write_encoded(folder / "high" / "d.mp3", tone(1.5, 44100, pitch=900, channels=2), 44100, "mp3")
    write_encoded(folder / "high" / "e.ogg", tone(0.7, 48000, pitch=900), 48000, "libopus")
    (folder / "high" / "notes.txt").write_text("recorded at home")
    return folder


def test_files_are_resampled_and_mixed_with_classes_from_folders(sounds: Path) -> None:
    source = sources.audio(sounds, rate=16000)
    columns, refused = read_all(source)
    assert refused == []
    assert columns["key"] == ["high/c.flac", "high/d.mp3", "high/e.ogg", "low/a.wav", "low/b.wav"]
    assert columns["label"] == ["high", "high", "high", "low", "low"]
    lengths = [len(sound) / 16000 for sound in columns["audio"]]
    np.testing.assert_allclose(lengths, [2.5, 1.5, 0.7, 1.0, 0.25], atol=0.08)  # MP3 pads its frames
    np.testing.assert_allclose(columns["audio/seconds"], lengths, atol=1e-6)
    assert source.list(0, []).counted == {"files that are not sound": 1}


def test_a_wav_of_the_same_rate_keeps_its_samples_to_the_bit(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-32768, 32768, (4000, 1))
    path = tmp_path / "sounds" / "x" / "a.wav"
    write_wav(path, np.zeros((1, 1)), 8000)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(samples.astype("<i2").tobytes())
    columns, _ = read_all(sources.audio(tmp_path / "sounds"))
    assert columns["audio"][0] == samples[:, 0].tolist()
    assert columns["audio/rate"] == [8000]


def test_resampling_keeps_the_pitch_and_the_loudness(sounds: Path) -> None:
    columns, _ = read_all(sources.audio(sounds, rate=16000, store="float32"))
    sound = np.array(columns["audio"][0])  # FLAC of 44,100 Hz, 900 Hz tone
    spectrum = np.abs(np.fft.rfft(sound))
    assert abs(np.argmax(spectrum) / 2.5 - 900) < 2
    assert abs(np.sqrt(np.mean(sound[800:-800] ** 2)) - 0.5 / np.sqrt(2)) < 0.005


def test_clips_have_one_length_and_the_last_one_is_padded(sounds: Path) -> None:
    source = sources.audio(sounds, rate=16000, seconds=1.0)
    columns, refused = read_all(source)
    assert refused == []
    assert {len(sound) for sound in columns["audio"]} == {16000}
    assert columns["key"][:3] == ["high/c.flac@0.000", "high/c.flac@1.000", "high/c.flac@2.000"]
    assert columns["key"] == keys_of(source)
    assert columns["audio"][2][8500:] == [0] * 7500
    assert listed(source, "audio")[:3] == [b"high/c.flac"] * 3  # clips of one file stay in one split
    dropped = sources.audio(sounds, rate=16000, seconds=1.0, edge="drop")
    assert [key for key in keys_of(dropped) if "c.flac" in key] == ["high/c.flac@0.000", "high/c.flac@1.000"]
    assert "low/b.wav@0.000" in keys_of(dropped)  # a file shorter than a clip is padded


def test_clips_may_overlap_and_keep_two_channels(sounds: Path) -> None:
    source = sources.audio(sounds, rate=8000, channels=2, seconds=0.5, stride=0.25)
    columns, _ = read_all(source)
    assert np.array(columns["audio"]).shape[1:] == (4000, 2)
    of_a = [np.array(sound) for sound, key in zip(columns["audio"], columns["key"], strict=True) if "a.wav" in key]
    np.testing.assert_array_equal(of_a[0][2000:], of_a[1][:2000])


def test_bytes_are_kept_as_they_are_and_decoded_when_read(sounds: Path, tmp_path: Path) -> None:
    bushel.build(sources.audio(sounds, store="bytes"), tmp_path / "data")
    split = bushel.open(tmp_path / "data")["train"].sort("key")
    assert split[0]["audio"] == (sounds / "high" / "c.flac").read_bytes()
    steps = [bushel.transforms.decode_audio("audio", rate=16000, length=8000)]
    batch = next(bushel.batches(split, batch_size=5, transforms=steps))
    assert batch["audio"].shape == (5, 8000)
    expected = decode_sound(sounds / "high" / "c.flac", rate=16000, channels=1).samples[:8000, 0]
    np.testing.assert_array_equal(batch["audio"][0], expected)


def test_damaged_empty_and_silent_files_are_refused_one_by_one(sounds: Path) -> None:
    (sounds / "low" / "broken.wav").write_bytes(b"RIFF....WAVEnot really")
    (sounds / "low" / "empty.mp3").write_bytes(b"")
    (sounds / "low" / "missing.mp3").write_text("<html>404</html>")
    write_wav(sounds / "low" / "nothing.wav", np.zeros((0, 1)), 8000)
    (sounds / "loose.wav").write_bytes((sounds / "low" / "a.wav").read_bytes())
    columns, refused = read_all(sources.audio(sounds, rate=16000))
    assert len(columns["key"]) == 5
    assert [(one.stage, one.reason.split(":")[0]) for one in refused] == [
        ("read", "it is not in a class folder"),
        ("decode", "it cannot be opened"),
        ("decode", "the file is empty"),
        ("decode", "it is an HTML page, not sound"),
        ("decode", "there are no samples in it"),
    ]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"channels": 3}, "channels must be 1 or 2, got 3"),
        ({"rate": 0}, "rate must be above 0, got 0"),
        ({"stride": 1.0}, "stride must come with seconds"),
        ({"store": "bytes", "seconds": 1.0}, "seconds must not be given with store='bytes'"),
        ({"store": "int32"}, "store must be one of int16, float32, bytes; got 'int32'"),
    ],
)
def test_wrong_options_are_named(sounds: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        sources.audio(sounds, **options)


def test_a_build_finds_sounds_by_itself_and_any_number_of_workers_gives_the_same_bytes(
    sounds: Path, tmp_path: Path
) -> None:
    bushel.build(sounds, tmp_path / "one", run=bushel.Run(workers=1))
    bushel.build(sounds, tmp_path / "two", run=bushel.Run(workers=2))
    [one], [two] = (sorted((tmp_path / name).glob("*.tfrecord")) for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert bushel.open(tmp_path / "one").manifest.recipe["source"]["kind"] == "audio"  # type: ignore[union-attr]
    again = bushel.build_recipe(tmp_path / "one" / "recipe.toml", tmp_path / "three")
    assert again.records == 5


def test_clips_are_built_with_the_same_bytes_for_any_number_of_workers(sounds: Path, tmp_path: Path) -> None:
    source = sources.audio(sounds, rate=8000, seconds=0.5)
    for workers in (1, 2):
        bushel.build(source, tmp_path / f"{workers}", split="80/20", exact=True, run=bushel.Run(workers=workers))
    files = [sorted((tmp_path / f"{workers}").glob("*.tfrecord")) for workers in (1, 2)]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_whole_files_are_split_with_stratification_and_clips_of_one_file_stay_together(tmp_path: Path) -> None:
    for name in ("low", "high"):
        for number in range(10):
            write_wav(tmp_path / "sounds" / name / f"{number}.wav", tone(0.05, 8000, pitch=300 + number), 8000)
    whole = bushel.build(str(tmp_path / "sounds"), tmp_path / "whole", split="80/20", stratify="label", exact=True)
    assert {name: split.label_counts for name, split in whole.manifest.splits.items()} == {
        "train": {"high": 8, "low": 8},
        "val": {"high": 2, "low": 2},
    }
    clips = sources.audio(tmp_path / "sounds", seconds=0.02)
    cut = bushel.build(clips, tmp_path / "clips", split="80/20", stratify="label", exact=True)
    assert {name: split.label_counts for name, split in cut.manifest.splits.items()} == {
        "train": {"high": 24, "low": 24},
        "val": {"high": 6, "low": 6},
    }
    shards = {name: next((tmp_path / "clips").glob(f"{name}-*.tfrecord")) for name in ("train", "val")}
    files = {
        name: {key.rpartition(b"@")[0] for key in bushel.read(shard, ["key"])["key"]} for name, shard in shards.items()
    }
    assert {name: len(found) for name, found in files.items()} == {"train": 16, "val": 4}
    assert not files["train"] & files["val"]


def test_the_error_without_pyav_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(ImportError, match=r'reading audio needs PyAV: pip install "bushel\[audio\]"'):
        load_av()


def test_silent_and_overdriven_files_are_counted(tmp_path: Path) -> None:
    write_wav(tmp_path / "s" / "x" / "quiet.wav", np.zeros((800, 1)), 8000)
    write_wav(tmp_path / "s" / "x" / "loud.wav", np.clip(5 * tone(0.1, 8000), -1, 1), 8000)
    write_wav(tmp_path / "s" / "x" / "good.wav", tone(0.1, 8000), 8000)
    built = bushel.build(tmp_path / "s", tmp_path / "data", run=bushel.Run(workers=1))
    assert built.manifest.counted == {"silent files": 1, "files recorded too loud, whose peaks are cut off": 1}


LOSSLESS = {
    "WAV": ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "IMA_ADPCM"),
    "WAVEX": ("PCM_16", "FLOAT"),
    "RF64": ("PCM_16",),
    "AIFF": ("PCM_16",),
    "FLAC": ("PCM_S8", "PCM_16", "PCM_24"),
}


@pytest.mark.parametrize("form", LOSSLESS)
@pytest.mark.parametrize("channels", [1, 2])
def test_samples_are_exactly_those_of_soundfile(form: str, channels: int, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    samples = np.random.default_rng(0).normal(size=(3000, channels)) * 0.2
    for subtype in LOSSLESS[form]:
        path = tmp_path / f"{subtype}.{form.lower()}"
        soundfile.write(path, samples, 16000, format=form, subtype=subtype)
        wanted, rate = soundfile.read(path, dtype="float32", always_2d=True)
        for data in (path, path.read_bytes()):
            found = decode_sound(data)
            np.testing.assert_array_equal(as_floats(found.samples), wanted)
            assert (found.rate, found.file_rate, found.file_channels) == (rate, rate, channels)
            if subtype != "IMA_ADPCM":  # whose last block is filled up
                assert sound_header(data).seconds == pytest.approx(3000 / 16000)


def test_flac_has_the_same_samples_without_soundfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_encoded(tmp_path / "a.flac", tone(0.5, 16000, channels=2), 16000, "flac")
    found = decode_sound(path).samples
    monkeypatch.setitem(sys.modules, "soundfile", None)
    np.testing.assert_array_equal(decode_sound(path).samples, found)


@pytest.mark.parametrize("cut", [0, 11, 20, 43, 44, 45, 1000])
def test_a_wav_file_that_ends_early_is_read_as_far_as_it_goes_or_refused(cut: int, tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", tone(0.5, 16000), 16000)
    path.write_bytes(path.read_bytes()[:cut])
    if cut == 1000:
        assert len(decode_sound(path).samples) == (1000 - 44) // 2
    else:
        with pytest.raises(BadSound):
            decode_sound(path)


@pytest.mark.parametrize("at", [20, 22, 24, 32, 34, 40])
def test_a_wav_file_whose_header_lies_does_no_harm(at: int, tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", tone(0.1, 16000), 16000)
    for lie in (0, 1, 0xFFFF):
        data = bytearray(path.read_bytes())
        data[at : at + 2] = lie.to_bytes(2, "little")
        try:
            found = decode_sound(bytes(data))
        except BadSound:
            continue
        assert found.rate > 0
        assert 0 < found.samples.size <= 16000


def test_files_beside_class_folders_are_refused_with_the_way_out_and_taken_without_classes(tmp_path: Path) -> None:
    for name in ("hello.wav", "digits/1.wav", "digits/2.wav"):
        write_wav(tmp_path / "sounds" / name, tone(0.1, 8000), 8000)
    built = bushel.build(tmp_path / "sounds", tmp_path / "out")
    assert (built.records, built.refused) == (2, 1)
    assert built.problems[0] == (
        "1 sample has no 'label' and will be refused; --set class_folder=none takes all, without classes"
    )
    built = bushel.build(sources.audio(tmp_path / "sounds", class_folder="none"), tmp_path / "all")
    assert (built.records, built.refused, built.manifest.label) == (3, 0, None)


def test_a_short_gsm_file_without_a_header_is_sound(tmp_path: Path) -> None:
    (tmp_path / "beep.gsm").write_bytes((b"\xd3" + bytes(32)) * 10)  # as those of Asterisk
    found = decode_sound(tmp_path / "beep.gsm")
    assert (found.rate, found.samples.shape) == (8000, (1600, 1))
    (tmp_path / "text.gsm").write_text("no sound at all")
    with pytest.raises(BadSound):
        decode_sound(tmp_path / "text.gsm")


@pytest.mark.parametrize("clip", [None, 0.1])
def test_many_files_of_all_kinds_give_the_same_on_one_core_and_on_several(
    clip: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sounds"
    for number in range(150):
        write_wav(folder / f"{'ab'[number % 2]}" / f"{number:03d}.wav", tone(0.05 + number / 500, 8000), 8000)
    write_wav(folder / "a" / "stereo.wav", tone(0.3, 8000, channels=2), 8000)
    write_wav(folder / "a" / "fast.WAV", tone(0.3, 22050), 22050)
    write_encoded(folder / "b" / "other.flac", tone(0.3, 8000), 8000, "flac")
    (folder / "b" / "200.wav").write_bytes(b"RIFF, but no more")
    gone = write_wav(folder / "b" / "201.wav", tone(0.3, 8000), 8000)
    found = []
    for cores in (1, 4):
        monkeypatch.setattr("bushel.parallel.available_cores", lambda cores=cores: cores)
        source = sources.audio(folder, rate=8000, seconds=clip)
        gone.unlink(missing_ok=True)
        columns, refused = read_all(source)
        found.append(({name: list(map(repr, column)) for name, column in columns.items()}, refused))
        write_wav(gone, tone(0.3, 8000), 8000)
    assert found[0] == found[1]
    assert len(found[0][1]) == 2
    assert "no such file" in found[0][1][1].reason


@pytest.mark.parametrize(("rate", "count"), [(44100, 44100), (16000, 12345), (22050, 100)])
def test_ogg_vorbis_has_every_sample_that_was_written(rate: int, count: int, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "a.ogg"
    noise = np.random.default_rng(0).normal(0, 0.1, count).astype(np.float32)
    soundfile.write(path, noise, rate, format="OGG", subtype="VORBIS")
    wanted = soundfile.read(path, dtype="float32")[0]
    for data in (path, path.read_bytes()):
        assert np.array_equal(decode_sound(data).samples[:, 0], wanted)
    assert decode_sound(path, rate=rate // 2).samples.shape == (-(-count // 2), 1)
    assert decode_sound(path, channels=2).samples.shape == (count, 2)


def test_ogg_vorbis_without_soundfile_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.ogg", np.zeros(800, np.float32), 8000, format="OGG", subtype="VORBIS")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    monkeypatch.setattr("bushel.data.sound_decoding.has_soundfile", lambda: False)
    with pytest.raises(ImportError, match=r"reading Ogg Vorbis needs soundfile: pip install .*bushel\[audio\]"):
        decode_sound(tmp_path / "a.ogg")
