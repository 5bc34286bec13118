"""IMG: images that do not decode, or not to what they should."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.checking.collect.facts import Data
from bushel.checking.collect.image_facts import Kinds, Pictures
from bushel.checking.report.findings import Finding, Location, count_of_things
from bushel.checking.rules.registry import rule
from bushel.data.splits import ALL, TRAIN, find

__all__: list[str] = []


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
    """Images whose EXIF data says that they are to be rotated before they are shown.

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
                "paste each onto a background where it is written: "
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
    """Red and blue change places between two splits.

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
