"""The options of `build` that belong to one kind of source or one transform."""

from __future__ import annotations

import re
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


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bushel.building.recipe import Balance


_BETWEEN = re.compile(r",(?![^\[]*\])")  # commas, but for those inside of a list
_STATISTICS = ("mean", "median", "most_frequent")
_OF_COLUMNS = ("require", "log", "standardise", "min_max", "robust_scale", "encode", "one_hot")  # in this order
_OPTIONS_preparing = [
    click.option("--require", metavar="A,B", help="Refuse samples that lack one of these."),
    click.option(
        "--fill", metavar="COL=VALUE", multiple=True, help="Fill missing values; also =mean, =median, =most_frequent."
    ),
    click.option("--log", metavar="A,B", help="The logarithm of 1 + value."),
    click.option("--standardise", metavar="A,B", help="Mean 0 and deviation 1, by the train split."),
    click.option("--min-max", metavar="A,B", help="0 to 1, by the train split."),
    click.option("--robust-scale", metavar="A,B", help="By median and quartiles of the train split."),
    click.option("--encode", metavar="A,B", help="Categories as codes, by the train split."),
    click.option("--one-hot", metavar="A,B", help="Categories as vectors of 0 and 1, by the train split."),
    click.option(
        "--transform",
        "transform",
        metavar="NAME:COL,KEY=VALUE",
        multiple=True,
        help="Any other transform: clip:age,low=0; may be repeated.",
    ),
]


_BALANCE = ("oversample", "undersample", "smote", "smotenc", "borderline_smote", "adasyn", "none")
_OPTIONS_preparing += [
    click.option("--balance", type=click.Choice(_BALANCE), help="Bring the classes of train closer.  [none]"),
    click.option("--balance-ratio", type=float, metavar="R", help="Of the smallest class to the largest.  [1]"),
    click.option(
        "--balance-categories", metavar="A,B", help="Whole numbers that smotenc takes as categories, as it does text."
    ),
    click.option(
        "--augment", metavar="NAME:COL,KEY=VALUE", multiple=True, help="Change what --balance repeats; may be repeated."
    ),
]


def preparing_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS_preparing):
        command = option(command)
    return command


def transform_tables(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables of a recipe that the options stand for; filling comes first, `--transform` last."""
    found = [_filling(text) for text in given.get("fill", ())]
    for name in _OF_COLUMNS:
        found += [{"transform": name, "feature": column} for column in _columns(given.get(name, ""), name)]
    return found + [_any_transform(text) for text in given.get("transform", ())]


def balance_of(given: dict[str, Any], before: Balance | None) -> Balance | None:
    """The balance that the options ask for, over that of a recipe."""
    from bushel.building.recipe import Balance

    fields: dict[str, Any] = {}
    if before is not None:
        fields = {name: getattr(before, name) for name in Balance.__struct_fields__}
    if "balance" in given:
        if given["balance"] == "none":
            return None
        fields["method"] = given["balance"]
    if "balance_ratio" in given:
        fields["ratio"] = given["balance_ratio"]
    if "balance_categories" in given:
        fields["categories"] = list(_columns(given["balance_categories"], "balance_categories"))
    if "augment" in given:
        fields["augment"] = [_any_transform(text, "augment") for text in given["augment"]]
    if fields and "method" not in fields:
        raise click.UsageError("--balance-ratio, --balance-categories and --augment need --balance")
    return Balance(**fields) if fields else None


def _columns(text: str, name: str) -> Iterator[str]:
    for column in text.split(",") if text else ():
        if not column.strip():
            raise click.UsageError(f"--{name.replace('_', '-')} must be names such as A,B; got {text!r}")
        yield column.strip()


def _filling(text: str) -> dict[str, Any]:
    column, equals, value = text.partition("=")
    if not equals or not column or not value:
        raise click.UsageError(f"--fill must be as COL=VALUE, got {text!r}")
    how = {"by": value} if value in _STATISTICS else {"value": toml_value(value)}
    return {"transform": "fill", "feature": column, **how}


def _any_transform(text: str, option: str = "transform") -> dict[str, Any]:
    name, colon, rest = text.partition(":")
    column, *settings = _BETWEEN.split(rest)
    if not colon or not column or not all("=" in setting for setting in settings):
        raise click.UsageError(f"--{option} must be as NAME:COL,KEY=VALUE; got {text!r}")
    fields = (setting.partition("=") for setting in settings)
    return {"transform": name, "feature": column, **{key: toml_value(value) for key, _, value in fields}}


def toml_value(text: str) -> Any:
    """A value as TOML has it, or else as text."""
    import msgspec

    try:
        return msgspec.toml.decode(f"value = {text}")["value"]
    except msgspec.DecodeError:
        return text


if TYPE_CHECKING:
    from collections.abc import Callable


_UNITS = ("word", "whitespace", "character", "byte")
_FORMS = {"nfc": "NFC", "nfd": "NFD", "nfkc": "NFKC", "nfkd": "NFKD"}
_CLEANED = {"lower": "lower", "accents": "strip_accents", "control": "strip_control"}
_OPTIONS_texts = [
    click.option("--text", metavar="COL", help="The column that the options below are about.  [text]"),
    click.option("--clean", metavar="A,B", help="Of text: nfc, nfkc, nfd, nfkd; lower; without accents, control."),
    click.option("--tokenise", metavar="UNIT|FILE", help="word, whitespace, character, byte, or a tokenizer.json."),
    click.option("--vocabulary", type=int, metavar="N", help="At most N ids, pad and unknown among them.  [all]"),
    click.option("--min-count", type=int, metavar="N", help="Only tokens that train has N times or more.  [1]"),
    click.option("--length", type=int, metavar="N", help="Cut texts, or fill them up, to N tokens.  [ragged]"),
    click.option("--tfidf", type=int, metavar="N", help="Sparse TF-IDF of the N most frequent terms of train."),
    click.option("--hash-ngrams", type=int, metavar="N", help="Sparse counts of terms hashed to N places."),
    click.option("--ngrams", metavar="1-2", help="Tokens in a term of these two.  [1-1]"),
    click.option("--embed", metavar="FILE", help="Vectors of words, from GloVe or word2vec text."),
]


def text_options(command: _Command) -> _Command:
    """Add the options to a command."""
    for option in reversed(_OPTIONS_texts):
        command = option(command)
    return command


def text_tables(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables of a recipe that the options stand for: cleaning first, ids last."""
    column = given.get("text", "text")
    found: list[dict[str, Any]] = [_cleaning(given["clean"], column)] if "clean" in given else []
    kinds: list[str] = [name for name in ("tfidf", "hash_ngrams", "embed", "tokenise") if name in given]
    for name in kinds:
        # The last takes the place of the text; the others stand beside it.
        table: dict[str, Any] = {"feature": column, **({} if name == kinds[-1] else {"out": f"{column}/{name}"})}
        found.append({**table, **_table(name, given)})
    _check(given, kinds)
    return found


def _table(name: str, given: dict[str, Any]) -> dict[str, Any]:
    length = {"length": given["length"]} if "length" in given else {}
    if name == "embed":
        return {"transform": "embed", "file": given["embed"], **length}
    if name in ("tfidf", "hash_ngrams"):
        ngrams = {"ngrams": _ngrams(given["ngrams"])} if "ngrams" in given else {}
        return {"transform": name, "size": given[name], **ngrams}
    unit = given["tokenise"]
    if unit not in _UNITS:
        if not unit.endswith(".json"):
            raise click.UsageError(f"--tokenise must be one of {', '.join(_UNITS)}, or a tokenizer.json; got {unit!r}")
        return {"transform": "tokenise_file", "file": unit, **length}
    names = {"vocabulary": "size", "min_count": "min_count"}
    return {"transform": "tokenise", "unit": unit, **length, **{names[n]: given[n] for n in names if n in given}}


def _check(given: dict[str, Any], kinds: list[str]) -> None:
    """Refuse options that nothing takes."""
    takes = {
        "vocabulary": ["tokenise"],
        "min_count": ["tokenise"],
        "length": ["tokenise", "embed"],
        "ngrams": ["tfidf", "hash_ngrams"],
        "text": ["tokenise", "tfidf", "hash_ngrams", "embed", "clean"],
    }
    for name, users in takes.items():
        if name in given and not any(user in kinds or (user == "clean" and "clean" in given) for user in users):
            wanted = " or ".join(f"--{user.replace('_', '-')}" for user in users)
            raise click.UsageError(f"--{name.replace('_', '-')} needs {wanted}")


def _cleaning(text: str, column: str) -> dict[str, Any]:
    table: dict[str, Any] = {"transform": "clean", "feature": column, "form": "none"}
    for part in (part.strip() for part in text.split(",")):
        if part in _FORMS:
            table["form"] = _FORMS[part]
        elif part in _CLEANED:
            table[_CLEANED[part]] = True
        else:
            known = ", ".join([*_FORMS, *_CLEANED])
            raise click.UsageError(f"--clean must be of {known}; got {part!r}")
    return table


def _ngrams(text: str) -> list[int]:
    shortest, _, longest = text.partition("-")
    if not shortest.isdecimal() or not (longest or shortest).isdecimal():
        raise click.UsageError(f"--ngrams must be as 1-2, got {text!r}")
    return [int(shortest), int(longest or shortest)]
