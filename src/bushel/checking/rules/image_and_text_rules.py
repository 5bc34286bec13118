"""IMG and TXT: images, text and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bushel.checking.collect.facts import Data
from bushel.checking.collect.image_facts import Kinds, Pictures
from bushel.checking.findings import Finding, Location, count_of_things
from bushel.checking.rules.registry import rule
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
    Reports: https://github.com/tensorflow/models/issues/5912 https://github.com/tensorflow/models/issues/9424
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
    Reports: https://github.com/tensorflow/tensorflow/issues/9786 https://github.com/tensorflow/datasets/pull/590
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
    Reports: https://github.com/tensorflow/tensorflow/issues/49834 https://github.com/tensorflow/datasets/issues/3202
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
    Reports: https://github.com/MaybeShewill-CV/bisenetv2-tensorflow/issues/12
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
    Reports: https://github.com/ZJULearning/pixel_link/issues/9 https://github.com/tensorflow/datasets/pull/590
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
            help=[
                'convert them where they are written: image.convert("RGB")'
                + ("" if lossy else "; or decode with channels=3, which leaves alpha out")
            ],
        )


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
    Reports: none collected.
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
    Reports: https://github.com/PatBall1/detectree2/issues/197
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
    Reports: https://github.com/tensorflow/models/issues/8655 https://github.com/IBM/tensorflow-hangul-recognition/issues/39
    """
    for feature in data.features.values():
        count, look = feature.seen["not_text"][0], data.looks.get(feature.name)
        is_text = feature.is_text or (look is not None and look.not_utf8 >= 0.5 * min(count, look.looked_at))
        if count and is_text and feature.kind == BYTES_KIND and not feature.is_image:
            yield Finding(
                f"{feature.name!r}: {count:,} of {count_of_things(feature.seen['values'], 'value')} "
                f"{'is' if count == 1 else 'are'} not UTF-8 text",
                locations=data.locations(feature.seen["not_text"], feature.name),
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
    Reports: none collected; the idea is Data Linter's (empty example).
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
    Reports: https://github.com/tensorflow/skflow/issues/135
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
    Reports: none collected.
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
    Reports: https://github.com/tensorflow/docs/pull/2260
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
    Reports: none collected.
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
