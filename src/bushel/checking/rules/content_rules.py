"""IMG, TXT and AUD: images, texts and sounds that do not decode, say nothing, are cut off, or differ from others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bushel.checking.collect.facts import Data
from bushel.checking.collect.image_and_sound_facts import Kinds, Pictures, Sounds
from bushel.checking.findings import Finding, Location, count_of_things, rule
from bushel.data.schema import BYTES_KIND
from bushel.data.splits import ALL, TRAIN, find


def _examined(pictures: Pictures) -> str:
    return f"{pictures.examined:,} of {pictures.examined:,} images decoded"


def _share(pictures: Pictures, count: int) -> str:
    return f"{count:,} of {count_of_things(pictures.examined, 'image')}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _places(data: Data, kinds: Kinds, what: object) -> list[Location]:
    return [data.location(place) for place in kinds.places[what]]


@rule("IMG001", "undecodable-image", needs="images")
def undecodable_image(data: Data) -> Iterator[Finding]:
    """Images that cannot be decoded.

    Why: `Invalid JPEG data or crop window` ends training at some step, and names neither file nor record.
    Example: a JPEG that a download cut short; an error page saved as `.jpg`.
    Fix: leave these records out (`bushel build` decodes every image and sets such aside), or fetch them again.
    Ignore: never.
    """
    if data.pictures is None:
        return
    if not data.pictures.is_decoded:
        yield Finding("images were not decoded: Pillow is not installed", severity="info", help=["pip install pillow"])
    reasons = data.pictures.undecodable.counts
    if reasons:
        yield Finding(
            f"{_share(data.pictures, sum(reasons.values()))} cannot be decoded: {', '.join(reasons)}",
            locations=[place for what in reasons for place in _places(data, data.pictures.undecodable, what)],
            evidence={"measured": reasons, "expected": 0, "examined": _examined(data.pictures)},
            help=["leave these records out, or write them again from intact files"],
        )


@rule("IMG002", "other-image-format", severity="warning", needs="images")
def other_image_format(data: Data) -> Iterator[Finding]:
    """Images of another format than the others, or than the record says.

    Why: `decode_jpeg` takes PNG and GIF too, `decode_png` in graph mode as well, but DALI, OpenCV paths and
    `decode_jpeg` on WebP do not: "Not a JPEG file: starts with 0x89 0x50".
    Example: a PNG that is named `.jpg`, a GIF among JPEGs.
    Fix: convert it where it is written, or read with `tf.io.decode_image(..., expand_animations=False)`.
    Ignore: when the reader uses `decode_image`.
    """
    if data.pictures is None:
        return
    formats = data.pictures.formats
    usual = max(formats.counts, key=lambda name: formats.counts[name], default=None)
    others = [name for name in formats.counts if name != usual]
    if others:
        count = sum(formats.counts[name] for name in others)
        yield Finding(
            f"{_share(data.pictures, count)} {_is(count)} {' or '.join(name.upper() for name in others)}, "
            f"the others {str(usual).upper()}",
            locations=[place for name in others for place in _places(data, formats, name)],
            evidence={"measured": formats.counts, "expected": usual},
            help=["convert them where they are written, or read with tf.io.decode_image(..., expand_animations=False)"],
        )
    said = data.features.get("image/format") or data.features.get("image/encoding")
    for name in (said.distinct or {}) if said is not None else {}:
        real = {"jpg": "jpeg"}.get(str(name).lower(), str(name).lower())
        if real not in formats.counts and formats.counts:
            yield Finding(
                f"{said.name if said else ''!r} says {name!r}, but the images are {str(usual).upper()}",
                locations=[Location(feature=said.name if said else None)],
                evidence={"measured": formats.counts, "expected": name},
                help=["write the format that the bytes have"],
            )


@rule("IMG003", "pending-exif-rotation", severity="warning", needs="images")
def pending_exif_rotation(data: Data) -> Iterator[Finding]:
    """Images whose EXIF data asks for a rotation before they are shown.

    Why: annotation tools rotate, `tf.io.decode_jpeg` does not: boxes are misplaced, height and width swapped.
    Example: photos from a phone that was held upright.
    Fix: rotate when writing; `bushel build` does so by default.
    Ignore: for whole-image labels where either orientation will do.
    """
    if data.pictures is None or not data.pictures.orientations.counts:
        return
    kinds = data.pictures.orientations
    total = sum(kinds.counts.values())
    yield Finding(
        f"{_share(data.pictures, total)} {'has' if total == 1 else 'have'} an EXIF rotation pending",
        locations=[data.location(place) for places in kinds.places.values() for place in places][:5],
        evidence={
            "measured": {f"orientation {k}": n for k, n in kinds.counts.items()},
            "examined": _examined(data.pictures),
        },
        help=["rotate the pixels when writing: PIL.ImageOps.exif_transpose(image), or bushel build"],
    )


@rule("IMG004", "mixed-image-sizes", severity="info", needs="images")
def mixed_image_sizes(data: Data) -> Iterator[Finding]:
    """Images of different sizes.

    Why: `batch` cannot stack them, and a fixed `reshape` fails at some of them.
    Example: 640 x 480 and 480 x 640.
    Fix: resize before batching: `tf.image.resize`, or `bushel build --resize 224x224`.
    Ignore: when the pipeline resizes, which a script that is given shows.
    """
    if data.pictures is None or len(data.pictures.sizes.counts) < 2:
        return
    sizes = data.pictures.sizes.counts
    usual = sorted(sizes, key=lambda size: -sizes[size])
    rare = usual[-1]
    yield Finding(
        f"images have {len(sizes):,} different sizes",
        locations=_places(data, data.pictures.sizes, rare)[:1],
        evidence={"measured": {f"{w}x{h}": sizes[w, h] for w, h in usual[:8]}, "examined": _examined(data.pictures)},
        help=["resize before batching: tf.image.resize(image, [height, width])"],
    )


@rule("IMG005", "mixed-channels", severity="warning", needs="images")
def mixed_channels(data: Data) -> Iterator[Finding]:
    """Grey, transparent, palette, CMYK or 16-bit images among others.

    Why: `decode_jpeg` without `channels=3` gives another number of channels for each; CMYK comes out in wrong colours,
    and 16 bits are cut to 8.
    Example: 12 grey images among 10,000 in colour.
    Fix: convert to RGB when writing, or `tf.io.decode_jpeg(data, channels=3)`. Where the drawing is in alpha, paste it
    onto a background first: without alpha nothing is left of it.
    Ignore: when the reader sets `channels`, except for CMYK, 16 bits and drawings in alpha.
    """
    if data.pictures is None:
        return
    modes, hidden = data.pictures.modes, data.pictures.in_alpha
    usual = max(modes.counts, key=lambda name: modes.counts[name], default="")
    lossy = {mode for mode in modes.counts if mode in ("CMYK", "I;16", "I;16B", "I", "F")}
    odd = [mode for mode in modes.counts if mode != usual or mode in lossy]
    count, examined = sum(modes.counts[mode] for mode in odd), data.pictures.examined
    if hidden.counts:
        drawn = sum(hidden.counts.values())
        yield Finding(
            f"{_share(data.pictures, drawn)} {_is(drawn)} drawn in the alpha channel alone, which decoders drop",
            locations=[place for mode in hidden.counts for place in _places(data, hidden, mode)],
            evidence={"measured": drawn, "examined": _examined(data.pictures), "subject": "alpha"},
            help=[
                "paste each onto a background where it is written (bushel build photos/ out/ --background white): "
                'Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")'
            ],
        )
    if odd and not set(odd) <= set(hidden.counts):
        rest = f", the others {_mode(usual)}" if usual not in odd else ""
        yield Finding(
            f"{_share(data.pictures, count)} {_is(count)} {' or '.join(map(_mode, odd))}{rest}",
            severity="warning" if lossy or count < examined * 0.2 else "info",
            locations=[place for mode in odd for place in _places(data, modes, mode)],
            evidence={"measured": modes.counts, "examined": _examined(data.pictures)},
            help=[_how_to_convert(lossy)],
        )


def _how_to_convert(lossy: set[str]) -> str:
    if lossy - {"CMYK"}:  # Pillow cuts them off at 255
        return (
            "keep their bits (bushel build photos/ out/ --image-format png:16, and tf.io.decode_png with tf.uint16), "
            "or scale them to 8 bits by the range of your data before they are written"
        )
    more = "" if lossy else "; or decode with channels=3, which leaves alpha out"
    return f'convert them where they are written: image.convert("RGB"){more}'


def _mode(mode: str) -> str:
    names = {"L": "grey", "RGB": "RGB", "RGBA": "RGB with alpha", "P": "palette", "CMYK": "CMYK", "1": "1 bit"}
    return names.get(mode, f"16 or 32 bits ({mode})" if mode.startswith(("I", "F")) else mode)


@rule("IMG006", "image-shows-nothing", severity="warning", needs="images")
def image_shows_nothing(data: Data) -> Iterator[Finding]:
    """Images that are blank, dark, tiny or far too large.

    Why: nothing can be learned from the first three, and the last costs seconds and gigabytes to decode.
    Example: a placeholder of one colour that a download server gave instead of the photo.
    Fix: leave them out; resize the large ones when writing.
    Ignore: where empty images are a class.
    """
    if data.pictures is None:
        return
    for look, count in data.pictures.looks.counts.items():
        yield Finding(
            f"{_share(data.pictures, count)} {_is(count)} {look}",
            severity="info" if count < 0.01 * data.pictures.examined else None,
            confidence="likely",
            locations=_places(data, data.pictures.looks, look),
            evidence={"measured": count, "examined": _examined(data.pictures), "subject": look},
            help=["leave them out" if look != "far too large" else "resize them when writing"],
        )


@rule("IMG007", "channels-swapped-between-splits", severity="warning", needs="images")
def channels_swapped_between_splits(data: Data) -> Iterator[Finding]:
    """Red and blue are swapped between two splits.

    Why: one path read with OpenCV (BGR), the other with PIL or TensorFlow (RGB): validation is quietly worse.
    Example: `cv2.imread` for train, `tf.io.decode_jpeg` for validation.
    Fix: one decoder for all; `cv2.cvtColor(image, cv2.COLOR_BGR2RGB)`.
    Ignore: where the splits really differ in colour.
    """
    if data.pictures is None:
        return
    means = {split: colours.mean(axis=0) for split, colours in data.pictures.colours().items() if len(colours) >= 20}
    first = find(means, TRAIN, ALL)
    for split, colour in means.items() if first is not None else ():
        red, _, blue = means[first]
        swapped = abs(colour[0] - blue) + abs(colour[2] - red)
        straight = abs(colour[0] - red) + abs(colour[2] - blue)
        if split != first and abs(red - blue) > 8 and swapped < 0.25 * straight:
            yield Finding(
                f"red and blue of {split} are blue and red of {first}",
                confidence="likely",
                locations=[Location(file=str(file.path)) for file in data.files_of(split)[:1]],
                evidence={"measured": {s: [round(float(c), 1) for c in m] for s, m in means.items()}, "subject": split},
                help=["decode both splits with one function; OpenCV gives BGR"],
            )


@rule("TXT001", "bad-utf8", needs=("values", "texts"))
def bad_utf8(data: Data) -> Iterator[Finding]:
    """Text that is not UTF-8, in some records or in all.

    Why: `UnicodeDecodeError` in the middle of a run, or replacement characters that the vocabulary does not know.
    Example: one file in Latin-1 among files in UTF-8.
    Fix: decode it with its own encoding when writing, and encode it as UTF-8.
    Ignore: for bytes that are not text.
    """
    for feature in data.features.values():
        count, look = feature.seen["not_utf8"][0], data.looks.get(feature.name)
        is_text = feature.is_text or (look is not None and look.not_utf8 >= 0.5 * min(count, look.looked_at))
        if count and is_text and feature.kind == BYTES_KIND and not feature.is_image:
            yield Finding(
                f"{feature.name!r}: {count:,} of {count_of_things(feature.seen['values'], 'value')} "
                f"{'is' if count == 1 else 'are'} not UTF-8 text",
                locations=data.locations(feature.seen["not_utf8"], feature.name),
                evidence={
                    "measured": count,
                    "expected": 0,
                    "as_latin_1": look.example if look is not None and look.example else None,
                    "examined": data.examined(),
                },
                help=["decode these values with their own encoding where they are written, and encode them as UTF-8"],
            )


@rule("TXT002", "empty-text", severity="warning", needs="values")
def empty_text(data: Data) -> Iterator[Finding]:
    """Text without a character in some records.

    Why: a label without an input: the model learns to guess the label of nothing.
    Example: reviews whose body was only an image.
    Fix: leave such samples out.
    Ignore: for features that may be empty, such as a title.
    """
    for feature in data.features.values():
        count = feature.seen["empty"][0]
        if feature.is_text and count:
            yield Finding(
                f"{feature.name!r} is empty in {count_of_things(count, 'record')}",
                severity="info" if count < 0.001 * feature.total else None,
                locations=data.locations(feature.seen["empty"], feature.name),
                evidence={"measured": count, "expected": 0, "examined": data.examined()},
                help=["leave these records out"],
            )


def _of_tokens(name: str, seen: dict[str, Any], measured: str, message: str, help: str) -> Finding:
    examined = f"{seen['rows']:,} sequences"
    evidence = {"measured": seen[measured], "examined": examined, "subject": name}
    return Finding(message, confidence="likely", evidence=evidence, help=[help])


@rule("TXT003", "all-unknown-tokens", severity="warning", needs="values")
def all_unknown_tokens(data: Data) -> Iterator[Finding]:
    """Sequences in which every token is the same one: the one for unknown words.

    Why: the vocabulary was fitted to something else (another language, another case), and nothing of the text is left.
    Example: a vocabulary of lower-case words applied to capitals: all 1.
    Fix: fit the vocabulary on the train split, after the same clean-up.
    Ignore: where single sequences are really foreign.
    """
    for name, seen in data.tokens.items():
        if seen["all_same"] > 0.01 * seen["rows"]:
            message = (
                f"{name!r}: {seen['all_same']:,} of {seen['rows']:,} sequences hold only token {seen['same_token']}"
            )
            yield _of_tokens(name, seen, "all_same", message, "fit the vocabulary on the train split of this very text")


@rule("TXT004", "sequences-cut-off", severity="info", needs="values")
def sequences_cut_off(data: Data) -> Iterator[Finding]:
    """How many sequences are as long as the longest, and so were probably cut.

    Why: what comes after the cut is never seen; if most are cut, the length is too short.
    Example: a maximum of 128 tokens for texts of 500.
    Fix: a larger maximum, or pieces of each text.
    Ignore: where the beginning says enough.
    """
    for name, seen in data.tokens.items():
        if seen["full"] > 0.2 * seen["rows"] and seen["padded"] + seen["shorter"] > 0:
            message = f"{name!r}: {seen['full'] / seen['rows']:.0%} of the sequences fill all {seen['width']} places"
            yield _of_tokens(name, seen, "full", message, "use a larger maximum length, or cut texts into pieces")


@rule("TXT005", "padding-is-a-token", severity="warning", needs="values")
def padding_is_a_token(data: Data) -> Iterator[Finding]:
    """The number that pads sequences also stands for a token inside them.

    Why: a mask hides the real token, and a model without one takes padding for words. Index arithmetic with lookup
    tables does this: the unknown token gets the number of the first word.
    Example: `StaticVocabularyTable` ids, and `padded_batch`, which pads with 0.
    Fix: put the padding and the unknown token into the vocabulary, at 0 and 1.
    Ignore: where 0 is a separator that is meant to be masked.
    """
    for name, seen in data.tokens.items():
        if seen["padded"] > 0 and seen["inner_zeros"] > 0.01 * seen["rows"]:
            message = f"{name!r}: 0 pads {seen['padded']:,} sequences and is a token inside {seen['inner_zeros']:,}"
            yield _of_tokens(
                name, seen, "inner_zeros", message, "keep 0 for padding: put [PAD] and [UNK] into the vocabulary"
            )


@rule("TXT006", "misread-text", severity="warning", needs="texts")
def misread_text(data: Data) -> Iterator[Finding]:
    """Text that was decoded with the wrong encoding and written as UTF-8, or that has lost characters.

    Some of the texts of every file are looked at. Text counts as misread if it can be turned back.

    Why: words with an accent become rare nonsense that no vocabulary knows, and no error says so.
    Example: `caf\u00c3\u00a9` for `caf\u00e9`: UTF-8 that was read as Latin-1.
    Fix: read the source with its own encoding: `open(path, encoding="utf-8")`.
    Ignore: for texts about encodings.
    """
    for name, look in data.looks.items():
        if look.misread:
            shown = "; ".join(f"{found!r} for {meant!r}" for found, meant in look.misread_as[:3])
            yield Finding(
                f"{name!r}: {look.misread:,} of {count_of_things(look.looked_at, 'text')} misread: {shown}",
                severity="info" if look.misread < max(2, 0.001 * look.looked_at) else None,
                confidence="likely",
                locations=[data.location(place, name) for place in look.misread_places],
                evidence={"measured": look.misread, "expected": 0, "examined": f"{look.looked_at:,} texts"},
                help=['read the source with encoding="utf-8", and write it again'],
            )


__all__: list[str] = []

_FEW = 0.01  # below this share, what is odd about sounds is information
_SHORT = 0.025  # seconds; the usual window of a spectrogram
_LONG = 10  # times the median


def _listened_to(sounds: Sounds) -> str:
    return f"{sounds.examined:,} of {count_of_things(sounds.examined, 'sound')} listened to"


def _of_sounds(sounds: Sounds, count: int) -> str:
    return f"{count:,} of {count_of_things(sounds.examined, 'sound')}"


def _all_places(data: Data, kinds: Kinds) -> list[Location]:
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
            f"{_of_sounds(sounds, sum(reasons.values()))} cannot be decoded: {', '.join(reasons)}",
            locations=_all_places(data, sounds.undecodable),
            evidence={"measured": reasons, "expected": 0, "examined": _listened_to(sounds)},
            help=["leave these records out, or write them again from intact files"],
        )


@rule("AUD002", "silent-sound", severity="warning", needs="sounds")
def silent_sound(data: Data) -> Iterator[Finding]:
    """Sounds in which there is nothing to hear: no sample is above 1/10,000 of the range (-80 dB).

    Why: nothing can be learned from them, and a class of silence is learned instead of its sound.
    Example: a microphone that was not plugged in; the last clip of a recording, which is padding.
    Fix: leave them out; `edge="drop"` leaves out clips that end after their file.
    Ignore: where silence is a class.
    """
    sounds: Sounds | None = data.sounds
    if sounds is None or not sounds.silent.counts:
        return
    count = sum(sounds.silent.counts.values())
    yield Finding(
        f"{_of_sounds(sounds, count)} {_is(count)} silent",
        severity="info" if count < _FEW * sounds.examined else None,
        locations=_all_places(data, sounds.silent),
        evidence={"measured": count, "expected": 0, "examined": _listened_to(sounds)},
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
    """
    sounds: Sounds | None = data.sounds
    if sounds is None or not sounds.clipped.counts:
        return
    count = sum(sounds.clipped.counts.values())
    yield Finding(
        f"{_of_sounds(sounds, count)} {_is(count)} clipped: peaks are cut off at the end of the range",
        severity="info" if count < _FEW * sounds.examined else None,
        confidence="likely",
        locations=_all_places(data, sounds.clipped),
        evidence={"measured": count, "expected": 0, "examined": _listened_to(sounds)},
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
    """
    sounds: Sounds | None = data.sounds
    if sounds is None:
        return
    if sounds.contradicted.counts:
        count = sum(sounds.contradicted.counts.values())
        (heard, said), _ = max(sounds.contradicted.counts.items(), key=lambda item: item[1])
        yield Finding(
            f"{_of_sounds(sounds, count)} {'has' if count == 1 else 'have'} another sample rate than the record says: "
            f"{heard:,} Hz instead of {said:,} Hz",
            severity="error",
            locations=_all_places(data, sounds.contradicted),
            evidence={"measured": heard, "expected": said, "examined": _listened_to(sounds)},
            help=["write the rate of the file next to it"],
        )
    rates = sounds.rates.counts
    if len(rates) > 1:
        usual = sorted(rates, key=lambda rate: (-rates[rate], rate))
        yield Finding(
            f"sounds have {len(rates):,} sample rates: {', '.join(f'{rates[r]:,} of {r:,} Hz' for r in usual[:4])}"
            + (", …" if len(rates) > 4 else ""),
            locations=_places_but_usual(data, sounds.rates),
            evidence={"measured": {str(rate): rates[rate] for rate in usual[:16]}, "examined": _listened_to(sounds)},
            help=[f"resample them to one rate: bushel build sounds/ out/ --set rate={usual[0]}"],
        )


@rule("AUD005", "mixed-sound-channels", severity="warning", needs="sounds")
def mixed_sound_channels(data: Data) -> Iterator[Finding]:
    """Mono and stereo sounds in one dataset.

    Why: `batch` cannot stack them, and a reader that takes the first channel loses the other.
    Example: three stereo recordings among a thousand in mono.
    Fix: mix where the data is written (`bushel build sounds/ out/ --set channels=1`).
    Ignore: when the reader mixes.
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
        evidence={"measured": {str(n): counts[n] for n in usual}, "examined": _listened_to(sounds)},
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
            f"{_of_sounds(sounds, count)} {_is(count)} shorter than 25 ms"
            if sounds.is_timed
            else f"{_of_sounds(sounds, count)} {'has' if count == 1 else 'have'} no samples",
            severity="warning",
            locations=[data.location(place) for length, place in sounds.shortest if length < least],
            evidence={"measured": measured, "examined": _listened_to(sounds), "subject": "short"},
            help=["leave them out, or join them with what follows"],
        )
    count = int((lengths > _LONG * middle).sum())
    if count and middle:
        yield Finding(
            f"{_of_sounds(sounds, count)} {_is(count)} more than {_LONG} times as long as most: "
            f"up to {longest:.4g}{unit}, where half are below {middle:.4g}{unit}",
            locations=[data.location(place) for length, place in sounds.longest if length > _LONG * middle],
            evidence={"measured": measured, "examined": _listened_to(sounds), "subject": "long"},
            help=["cut sounds into clips of one length: bushel build sounds/ out/ --set seconds=2.0"],
        )
