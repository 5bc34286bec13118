"""AUD: sounds that do not decode, say nothing, are cut off, or differ in what they should share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bushel.checking.collect.facts import Data
from bushel.checking.collect.image_facts import Kinds
from bushel.checking.collect.sound_facts import Sounds
from bushel.checking.findings import Finding, Location, count_of_things
from bushel.checking.rules.registry import rule

__all__: list[str] = []

_FEW = 0.01  # below this share, what is odd about sounds is information
_SHORT = 0.025  # seconds; the usual window of a spectrogram
_LONG = 10  # times the median


def _examined(sounds: Sounds) -> str:
    return f"{sounds.examined:,} of {count_of_things(sounds.examined, 'sound')} listened to"


def _share(sounds: Sounds, count: int) -> str:
    return f"{count:,} of {count_of_things(sounds.examined, 'sound')}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _places(data: Data, kinds: Kinds) -> list[Location]:
    return [data.location(place) for places in kinds.places.values() for place in places]


def _places_but_usual(data: Data, kinds: Kinds) -> list[Location]:
    usual = max(kinds.counts, key=lambda what: kinds.counts[what])
    return [data.location(place) for what, places in kinds.places.items() if what != usual for place in places]


@rule("AUD001", "undecodable-sound", needs="sounds")
def undecodable_sound(data: Data) -> Iterator[Finding]:
    """Sound files in records that cannot be decoded.

    Why: `tf.audio.decode_wav` and torchaudio end training at some step, and name neither file nor record.
    Example: a FLAC file that a download cut short; an error page saved as `.wav`.
    Fix: leave these records out (`bushel build` decodes every sound and sets such aside), or fetch them again.
    Ignore: never.
    Reports: none collected.
    """
    sounds: Sounds | None = data.sounds
    if sounds is None:
        return
    if not sounds.is_decoded:
        what = "encoded sounds were not listened to: PyAV is not installed"
        yield Finding(what, severity="info", help=['pip install "bushel[audio]"'])
    reasons = sounds.undecodable.counts
    if reasons:
        yield Finding(
            f"{_share(sounds, sum(reasons.values()))} cannot be decoded: {', '.join(reasons)}",
            locations=_places(data, sounds.undecodable),
            evidence={"measured": reasons, "expected": 0, "examined": _examined(sounds)},
            help=["leave these records out, or write them again from intact files"],
        )


@rule("AUD002", "silent-sound", severity="warning", needs="sounds")
def silent_sound(data: Data) -> Iterator[Finding]:
    """Sounds in which there is nothing to hear: no sample is above 1/10,000 of the range (-80 dB).

    Why: nothing can be learned from them, and a class of silence is learned instead of its sound.
    Example: a microphone that was not plugged in; the last clip of a recording, which is padding.
    Fix: leave them out; `edge="drop"` leaves out clips that end after their file.
    Ignore: where silence is a class.
    Reports: none collected.
    """
    sounds: Sounds | None = data.sounds
    if sounds is None or not sounds.silent.counts:
        return
    count = sum(sounds.silent.counts.values())
    yield Finding(
        f"{_share(sounds, count)} {_is(count)} silent",
        severity="info" if count < _FEW * sounds.examined else None,
        locations=_places(data, sounds.silent),
        evidence={"measured": count, "expected": 0, "examined": _examined(sounds)},
        help=["leave them out, unless silence is one of the classes"],
    )


@rule("AUD003", "clipped-sound", severity="warning", needs="sounds")
def clipped_sound(data: Data) -> Iterator[Finding]:
    """Sounds that were recorded too loud: their peaks are cut off flat at the end of the range.

    A peak that only reaches the end of the range is not cut off: at least three must be flat, and one in a thousand
    samples must lie in such.

    Why: clipping adds frequencies that the source did not have; a model learns the microphone instead of the sound.
    Example: float samples above 1 that were written as 16-bit integers; a gain that was set too high.
    Fix: record or scale with less gain before converting; leave the worst out.
    Ignore: for synthetic square waves, and music that was mastered so.
    Reports: none collected.
    """
    sounds: Sounds | None = data.sounds
    if sounds is None or not sounds.clipped.counts:
        return
    count = sum(sounds.clipped.counts.values())
    yield Finding(
        f"{_share(sounds, count)} {_is(count)} clipped: peaks are cut off at the end of the range",
        severity="info" if count < _FEW * sounds.examined else None,
        confidence="likely",
        locations=_places(data, sounds.clipped),
        evidence={"measured": count, "expected": 0, "examined": _examined(sounds)},
        help=["scale them down before converting to 16 bits, record with less gain, or leave them out"],
    )


@rule("AUD004", "mixed-sample-rates", severity="warning", needs="sounds")
def mixed_sample_rates(data: Data) -> Iterator[Finding]:
    """Sounds of different sample rates, or of another rate than the record says.

    Why: a model that is given samples hears those of another rate too high or too low, and too fast or too slow.
    Example: 44,100 Hz from a recorder among 16,000 Hz from a corpus.
    Fix: resample where the data is written (`bushel build sounds/ out/ --set rate=16000`), or when it is read
    (`t.decode_audio("audio", rate=16000)`).
    Ignore: when the reader resamples.
    Reports: none collected.
    """
    sounds: Sounds | None = data.sounds
    if sounds is None:
        return
    if sounds.contradicted.counts:
        count = sum(sounds.contradicted.counts.values())
        (heard, said), _ = max(sounds.contradicted.counts.items(), key=lambda item: item[1])
        yield Finding(
            f"{_share(sounds, count)} {'has' if count == 1 else 'have'} another sample rate than the record says: "
            f"{heard:,} Hz instead of {said:,} Hz",
            severity="error",
            locations=_places(data, sounds.contradicted),
            evidence={"measured": heard, "expected": said, "examined": _examined(sounds)},
            help=["write the rate of the file next to it"],
        )
    rates = sounds.rates.counts
    if len(rates) > 1:
        usual = sorted(rates, key=lambda rate: (-rates[rate], rate))
        yield Finding(
            f"sounds have {len(rates):,} sample rates: {', '.join(f'{rates[r]:,} of {r:,} Hz' for r in usual[:4])}"
            + (", …" if len(rates) > 4 else ""),
            locations=_places_but_usual(data, sounds.rates),
            evidence={"measured": {str(rate): rates[rate] for rate in usual[:16]}, "examined": _examined(sounds)},
            help=[f"resample them to one rate: bushel build sounds/ out/ --set rate={usual[0]}"],
        )


@rule("AUD005", "mixed-sound-channels", severity="warning", needs="sounds")
def mixed_sound_channels(data: Data) -> Iterator[Finding]:
    """Mono and stereo sounds in one dataset.

    Why: `batch` cannot stack them, and a reader that takes the first channel loses the other.
    Example: three stereo recordings among a thousand in mono.
    Fix: mix where the data is written (`bushel build sounds/ out/ --set channels=1`).
    Ignore: when the reader mixes.
    Reports: none collected.
    """
    sounds: Sounds | None = data.sounds
    if sounds is None or len(sounds.channels.counts) < 2:
        return
    counts = sounds.channels.counts
    usual = sorted(counts, key=lambda channels: (-counts[channels], channels))
    words = {1: "mono", 2: "stereo"}
    yield Finding(
        "sounds differ in channels: "
        + ", ".join(f"{counts[n]:,} {_is(counts[n])} {words.get(n, f'of {n} channels')}" for n in usual),
        locations=_places_but_usual(data, sounds.channels),
        evidence={"measured": {str(n): counts[n] for n in usual}, "examined": _examined(sounds)},
        help=["mix them to one channel: bushel build sounds/ out/ --set channels=1"],
    )


@rule("AUD006", "odd-sound-length", severity="info", needs="sounds")
def odd_sound_length(data: Data) -> Iterator[Finding]:
    """Sounds that are too short to hold a window of a spectrogram, or far longer than most.

    Why: a sound of less than 25 ms gives an empty spectrogram, or one of padding. A batch is padded to its longest
    sound: one recording of ten minutes among words of one second makes a batch 600 times as large.
    Example: a click that a cutting tool left; an unedited recording in a folder of clips.
    Fix: leave out the short ones, cut the long ones (`bushel build sounds/ out/ --set seconds=2.0`), or batch sounds
    of similar length.
    Ignore: when the reader cuts or pads to one length.
    Reports: none collected.
    """
    sounds: Sounds | None = data.sounds
    if sounds is None or not sounds.lengths:
        return
    lengths = np.array(sounds.lengths)
    least = _SHORT if sounds.is_timed else 1
    unit = " s" if sounds.is_timed else " samples"
    middle, longest = float(np.median(lengths)), float(sounds.longest[0][0])
    measured = {"shortest": float(sounds.shortest[0][0]), "median": middle, "longest": longest}
    if count := int((lengths < least).sum()):
        yield Finding(
            f"{_share(sounds, count)} {_is(count)} shorter than 25 ms"
            if sounds.is_timed
            else f"{_share(sounds, count)} {'has' if count == 1 else 'have'} no samples",
            severity="warning",
            locations=[data.location(place) for length, place in sounds.shortest if length < least],
            evidence={"measured": measured, "examined": _examined(sounds), "subject": "short"},
            help=["leave them out, or join them with what follows"],
        )
    count = int((lengths > _LONG * middle).sum())
    if count and middle:
        yield Finding(
            f"{_share(sounds, count)} {_is(count)} more than {_LONG} times as long as most: "
            f"up to {longest:.4g}{unit}, where half are below {middle:.4g}{unit}",
            locations=[data.location(place) for length, place in sounds.longest if length > _LONG * middle],
            evidence={"measured": measured, "examined": _examined(sounds), "subject": "long"},
            help=["cut sounds into clips of one length: bushel build sounds/ out/ --set seconds=2.0"],
        )
