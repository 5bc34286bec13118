"""The options of `build` that are about images with boxes, tiles, video and series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")

_PLAIN = (
    *("kind", "images", "bad_boxes", "masks", "stride", "time", "series", "every", "gap", "label_from"),
    *("frames", "fps", "overlap"),
)
_MOST_PIXELS = 100_000_000  # an image of 300 MB; beyond it, somebody typed a digit too many
_DETECTION = ("coco", "voc", "yolo", "boxes")
_OF_SOURCE = [
    click.option("--kind", metavar="KIND", help="What the source is, where its path does not tell: coco, voc, yolo, …"),
    click.option("--set", "source_set", metavar="NAME=VALUE", multiple=True, help="Any other option of the source."),
]
_OPTIONS = [
    click.option("--verify", type=click.Choice(["decode", "headers", "none"]), help="How they are checked.  [decode]"),
    click.option("--keep-bytes", is_flag=True, help="Do not turn images upright that say they are not."),
    click.option("--resize", metavar="HEIGHTxWIDTH", help="Resize images, and encode them again.  [as they are]"),
    click.option("--fit", type=click.Choice(["stretch", "fit", "pad", "crop"]), help="Of --resize.  [stretch]"),
    click.option("--kernel", type=click.Choice(["bilinear", "area", "bicubic"]), help="Of --resize.  [bilinear]"),
    click.option(
        "--image-format",
        metavar="jpeg:90|png|webp:80|raw",
        help="How images are stored; png:16 and raw:16 keep 16 bits a channel.  [in their own format]",
    ),
    click.option("--scaled", is_flag=True, help="Decode JPEGs at a smaller scale where --resize allows: faster."),
    click.option("--images", metavar="DIR", help="Where the images are that annotations name.  [near them]"),
    click.option("--bad-boxes", type=click.Choice(["refuse", "clip"]), help="What is done about them.  [refuse]"),
    click.option("--masks", is_flag=True, help="Store COCO's segmentations too, as PNGs."),
    click.option("--tiles", metavar="HEIGHTxWIDTH", help="Cut images, however large, into tiles."),
    click.option("--overlap", type=int, metavar="N", help="Pixels by which tiles overlap.  [0]"),
    click.option("--windows", type=int, metavar="N", help="Cut a table into windows of N rows, by time."),
    click.option("--stride", type=int, metavar="N", help="From one window or clip to the next.  [its length]"),
    click.option("--time", metavar="COL", help="The column of times of --windows."),
    click.option("--series", metavar="COL", help="The column that tells series apart.  [a file is one]"),
    click.option("--every", type=float, metavar="SECONDS", help="Resample to even times.  [as they are]"),
    click.option("--gap", type=float, metavar="SECONDS", help="No window spans a longer step.  [10 times the median]"),
    click.option("--label-from", type=click.Choice(["last", "majority", "mean"]), help="Of a window's rows.  [last]"),
    click.option("--split-by", type=click.Choice(["series", "time"]), help="How windows are split.  [series]"),
    click.option("--frames", type=int, metavar="N", help="Frames in a clip of a video.  [16]"),
    click.option("--fps", type=float, metavar="N", help="Frames a second of a video.  [all]"),
]


def source_options(command: _Command) -> _Command:
    """Add the options that any source has to a command."""
    for option in reversed(_OF_SOURCE):
        command = option(command)
    return command


def media_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def image_transforms(given: dict[str, Any], table: dict[str, Any]) -> list[dict[str, Any]]:
    """The transforms that the options about images ask for; the source then need not decode images to check them."""
    for name in ("fit", "kernel", "scaled"):
        if name in given and "resize" not in given:
            raise click.UsageError(f"--{name} needs --resize")
    if "resize" not in given and "image_format" not in given:
        return []
    kind = _kind(table)
    if kind == "tiles" and "resize" in given:
        raise click.UsageError("--resize cannot go with --tiles: tiles have the size that they are cut to")
    if kind in ("video", "tiles"):
        table |= _frames(given)
        if kind == "video" and "dtype" in table:
            raise click.UsageError("--image-format png:16 cannot go with video: its frames have 8 bits a channel")
        return []
    feature = "image/encoded" if kind in _DETECTION else "image"
    if kind in (*_DETECTION, "images"):
        table.setdefault("verify", "headers")
    how = _encoding(given["image_format"]) if "image_format" in given else {}
    if "dtype" in how and kind in (*_DETECTION, "images"):
        table.setdefault("allow", ["16-bit"])
    made: dict[str, Any] = {"transform": "reencode", "feature": feature}
    if "resize" in given:
        height, width = _size(given["resize"])
        made = {"transform": "resize_encoded", "feature": feature, "height": height, "width": width}
        made |= {name: given[name] for name in ("fit", "kernel", "scaled") if name in given}
    return [made | how]


def _frames(given: dict[str, Any]) -> dict[str, Any]:
    """What becomes of the frames of videos and of tiles, which the source does."""
    found: dict[str, Any] = {name: given[name] for name in ("fit", "kernel") if name in given}
    if "resize" in given:
        found["height"], found["width"] = _size(given["resize"])
    if "image_format" in given:
        found |= _encoding(given["image_format"])
    return found


def _kind(table: dict[str, Any]) -> str:
    from bushel.sources.opening import kind_of

    return str(table.get("kind") or kind_of(table["path"]))


def _size(text: str, name: str = "resize") -> tuple[int, int]:
    height, _, width = text.partition("x")
    if not height.isdecimal() or not width.isdecimal():
        raise click.UsageError(f"--{name} must be as 224x224, got {text!r}")
    if int(height) * int(width) > _MOST_PIXELS:
        raise click.UsageError(f"--{name} must be of at most {_MOST_PIXELS:,} pixels, got {text!r}")
    return int(height), int(width)


def _encoding(text: str) -> dict[str, Any]:
    """What an option as jpeg:90 says: of JPEG and WebP the quality stands behind the colon, of others the bits."""
    form, colon, number = text.partition(":")
    form = {"jpg": "jpeg"}.get(form, form)
    if form in ("jpeg", "webp") and (not colon or number.isdecimal()):
        return {"form": form} | ({"quality": int(number)} if colon else {})
    if form in ("png", "raw") and (not colon or number in ("8", "16")):
        return {"form": form} | ({"dtype": "uint16"} if number == "16" else {})
    raise click.UsageError(f"--image-format must be as jpeg:90, webp:80, png, raw, png:16 or raw:16; got {text!r}")


def source_table(given: dict[str, Any]) -> dict[str, Any]:
    """What the options that were given say in the `[source]` table of a recipe."""
    table = {name: given[name] for name in _PLAIN if name in given}
    if "windows" in given:
        table |= _windows(given)
    elif "split_by" in given and table.get("kind") != "series":
        raise click.UsageError("--split-by needs --windows")
    if "tiles" in given:
        height, width = _size(given["tiles"], "tiles")
        table |= {"kind": "tiles", "height": height, "width": width}
    for text in given.get("source_set", ()):
        name, value = _setting(text)
        place = table
        *outer, last = name.split(".")
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return table


def _windows(given: dict[str, Any]) -> dict[str, Any]:
    if "time" not in given:
        raise click.UsageError("--windows needs --time COL, the column of times")
    table = {"kind": "series", "length": given["windows"]}
    if "label" in given:
        table["label"] = given["label"]
    if "columns" in given:
        table["columns"] = given["columns"].split(",")
    if given.get("split_by") == "time":
        if "split" not in given:
            raise click.UsageError("--split-by time needs --split, such as 80/10/10")
        table["time_split"] = given.pop("split")
    return table


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE; the value as TOML has it, or as text."""
    import msgspec

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set must be as NAME=VALUE, got {text!r}")
    try:
        return name, msgspec.toml.decode(f"value = {value}")["value"]
    except msgspec.DecodeError:
        return name, value
