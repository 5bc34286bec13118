"""The flags of `build`, and their effect on a recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import click
import msgspec

from bushel.building.recipe import Balance, Constraint, Method, Order
from bushel.cli.flags import flag, flags, option_flag, parse_size, settings, toml_value
from bushel.data.schema import IMAGE_ENCODINGS
from bushel.errors import nearest
from bushel.pixels.codecs import Fit, Kernel
from bushel.pixels.headers import FORMATS
from bushel.records.manifest import list_shards
from bushel.records.survey import probe_schema
from bushel.sources.opening import SOURCES, kind_of, open_source
from bushel.sources.protocol import options_of, paths_named
from bushel.storage.file_kinds import SHARD_CODECS

__all__ = ["BUILD_FLAGS", "changes_of", "help_on_sources", "paths_given", "why_missing"]


def _source(group: str, kind: str, *names: str, rare: bool = True, **more: Any) -> list[Any]:
    """The flags for options of a source."""
    options = options_of(SOURCES[kind])
    return [option_flag(options[name], group=group, rare=rare, **more) for name in names]


_BALANCES = (*get_args(Method), "none")
BUILD_FLAGS = [
    *flags(
        "What to read",
        {
            "--label COL": "Column to predict, or name:PATTERN for the names of files  [default: label]",
            "--key COL": "Column that identifies a sample  [default: path or row number]",
            "--columns A,B": "Columns to keep  [default: all]",
            "--type COL=DTYPE...": "Type of a column",
            "--kind KIND": "Kind of source, if the path does not show it: coco, text, table, …",
            "--set NAME=VALUE...": "Any option of the source (--help-all lists them)",
            "--limit N": "Read only N samples, for a trial",
        },
        rare={
            "--rename OLD=NEW...": "Rename a column",
            "--missing A,B": "Values that mean missing  [default: ?, -, n/a and such, where all others are numbers]",
            "--marks FILE": "Leave out and relabel samples as marked in bushel view",
            "--constrain COL:min=0,max=9...": "Refuse samples with other values",
        },
    ),
    *flags(
        "Splits",
        {
            "--split 80/10/10": "Shares of train, val and test, or a column that holds the split  [default: all train]",
            "--stratify COL": "Give each class of COL the same shares",
            "--group COL": "Keep samples with the same COL, or name:PATTERN, in one split",
            "--seed N": "Random seed for splits and order  [default: 0]",
        },
        rare={
            "--resplit": "Divide all samples by --split, even those of a test split that the source has",
            "--exact": "Exact counts per split; samples added later may then move others",
        },
    ),
    *flags(
        "Shards",
        {
            "--shard-size 128M": "Approximate size of a shard  [default: 128M]",
            f"--compression {'|'.join(SHARD_CODECS)}": "Compress shards  [default: no]",
        },
        rare={
            "--shards N": "Number of shards of the largest split, instead of --shard-size",
            f"--order {'|'.join(get_args(Order))}": "Order of records in shards  [default: shuffled]",
        },
    ),
    *flags(
        "Numbers and categories",
        {
            "--fill COL=VALUE...": "Fill missing values; also =mean, =median, =most_frequent",
            "--standardise A,B": "Scale to mean 0 and deviation 1, by the train split",
            "--encode A,B": "Replace categories by codes, by the train split",
            "--transform NAME:COL,KEY=VALUE...": "Any other transform, such as clip:age,low=0",
        },
        rare={
            "--require A,B": "Refuse samples that lack one of these",
            "--log A,B": "Take the logarithm of 1 + value",
            "--min-max A,B": "Scale to 0 to 1, by the train split",
            "--robust-scale A,B": "Scale by median and quartiles of the train split",
            "--one-hot A,B": "Replace categories by vectors of 0 and 1, by the train split",
        },
    ),
    *flags(
        "Text",
        {
            "--tokenise UNIT|FILE": "Replace text by token ids: word, whitespace, character, byte, or a tokenizer.json",
        },
        rare={
            "--text COL": "Text column for the other text options  [default: text]",
            "--clean A,B": "Clean text: nfc, nfkc, nfd or nfkd, lower, and accents or control to strip them",
            "--vocabulary N": "Largest number of token ids  [default: all]",
            "--min-count N": "Leave out tokens that occur fewer than N times in train  [default: 1]",
            "--length N": "Cut or pad texts to N tokens  [default: as they are]",
            "--tfidf N": "Sparse TF-IDF of the N most frequent terms",
            "--hash-ngrams N": "Sparse counts of terms, hashed to N places",
            "--ngrams 1-2": "Number of tokens in a term of --tfidf or --hash-ngrams  [default: 1-1]",
            "--embed FILE": "Replace words by vectors from a GloVe or word2vec file",
        },
    ),
    *flags(
        "Images",
        {
            "--resize HEIGHTxWIDTH": "Resize images, and encode them again",
            "--image-format FORMAT": "Store images as jpeg:90, webp:80, png or raw; png:16 and raw:16 keep 16 bits "
            "per channel  [default: their own format]",
        },
        rare={
            f"--fit {'|'.join(get_args(Fit))}": "How --resize fits images  [default: stretch]",
            f"--kernel {'|'.join(get_args(Kernel))}": "How --resize interpolates  [default: bilinear]",
            "--background COLOUR": "Put transparent images on a colour: white, black, #ff8800 or 255,136,0  "
            "[default: keep their alpha; white in JPEGs]",
            "--scaled": "Decode JPEGs at a smaller scale where --resize allows it: faster, not quite the same pixels",
        },
    ),
    *_source("Images", "images", "verify", rare=False),
    *_source("Images", "images", "keep_bytes"),
    *_source(_MEDIA := "Boxes, tiles, series and video", "coco", "images", rare=False, metavar="DIR"),
    *_source(_MEDIA, "coco", "bad_boxes", "masks"),
    *flags(
        _MEDIA,
        {
            "--tiles HEIGHTxWIDTH": "Cut large images into tiles",
            "--windows N": "Cut a table into windows of N rows, by --time",
        },
        rare={"--split-by series|time": "Split windows by series or by time  [default: series; time with --horizon]"},
    ),
    *_source(_MEDIA, "series", "time", rare=False, metavar="COL"),
    *_source(_MEDIA, "series", "series", metavar="COL"),
    *_source(_MEDIA, "series", "every", "gap", metavar="SECONDS"),
    *_source(_MEDIA, "series", "horizon", "stride", "label_from"),
    *_source(_MEDIA, "tiles", "overlap"),
    *_source(_MEDIA, "video", "frames", "fps"),
    flag(
        "--balance",
        type=click.Choice(_BALANCES),
        metavar="METHOD",
        help=f"Resample the train split: {', '.join(_BALANCES)}",
        group="Class balance",
    ),
    *flags(
        "Class balance",
        rare={
            "--balance-ratio R": "Smallest class over largest after --balance  [default: 1]",
            "--balance-categories A,B": "Whole numbers that smotenc treats as categories, besides text",
            "--augment NAME:COL,KEY=VALUE...": "Transform for samples that --balance repeats",
        },
    ),
    *flags(
        "Run",
        {
            "--workers N": "Number of processes  [default: cores]",
            "--max-bad 0.1%|N": "Stop if more samples than this are refused  [default: keep going, exit 1]",
            "--append": "Add the samples whose keys are not in the dataset OUT yet",
            "--overwrite": "Replace the dataset OUT once all is built",
        },
        rare={"--strict": "Stop at the first sample that is refused"},
    ),
]


def help_on_sources() -> dict[str, str]:
    """The options that `--set` reaches, by kind of source."""
    return {kind: ", ".join(options_of(make)) for kind, make in sorted(SOURCES.items())}


def changes_of(given: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """The fields of a recipe that flags change; `source` is its source table, which is changed in place."""
    _refuse_together(given)
    source |= _source_table(given)
    changes: dict[str, Any] = {}
    if tables := [*_image_tables(given, source), *_column_tables(given), *text_tables(given)]:
        changes["transforms"] = tables
    if "constrain" in given:
        changes["constraints"] = dict(map(_constraint, given["constrain"]))
    return changes


_AS_GIVEN = (
    *("kind", "key", "verify", "keep_bytes", "images", "bad_boxes", "masks", "overlap", "stride", "time", "series"),
    *("every", "gap", "label_from", "horizon", "frames", "fps", "marks"),
)


def _source_table(given: dict[str, Any]) -> dict[str, Any]:
    """The flags as entries of the `[source]` table of a recipe."""
    table = {name: given[name] for name in _AS_GIVEN if name in given}
    if "columns" in given:
        table["columns"] = given["columns"].split(",")
    if "missing" in given:
        table["missing_values"] = [mark.strip() for mark in given["missing"].split(",") if mark.strip()]
    if "rename" in given:
        table["rename"] = dict(_pair(text, "--rename must be OLD=NEW") for text in given["rename"])
    if "type" in given:
        table["types"] = dict(_pair(text, "--type must be COL=DTYPE") for text in given["type"])
    if "windows" in given:
        table |= _windows(given)
    elif "horizon" in given and table.get("kind") != "series":
        raise click.UsageError("--horizon needs --windows N, the rows that a forecast is made from, and --time COL")
    elif "split_by" in given and table.get("kind") != "series":
        raise click.UsageError("--split-by needs --windows")
    if "tiles" in given:
        height, width = parse_size(given["tiles"], "tiles")
        table |= {"kind": "tiles", "height": height, "width": width}
    return table | {name: _as_taken(name, value) for name, value in settings(given.get("set", ())).items()}


def paths_given(given: dict[str, Any]) -> list[str]:
    """The files and folders that options name."""
    files = [path for table in text_tables(given) for path in paths_named(table, ("file",))]
    return [str(path) for path in (*paths_named(_source_table(given)), *files)]


_CHOOSES = {"windows": "series", "tiles": "tiles"}  # flags that choose a kind of source
_MADE = {
    "series": "windows have key, label, values and their times",
    "tiles": "tiles have an image, its place and size",
}


def _refuse_together(given: dict[str, Any]) -> None:
    """Refuse a flag for another kind of source than the one that `--windows` or `--tiles` chooses."""
    for chooser, kind in _CHOOSES.items():
        options = options_of(SOURCES[kind])
        others = [name for name in (*_AS_GIVEN, "columns", "rename", "type", "missing") if name in given]
        names = {"type": "types", "missing": "missing_values"}
        if chooser in given and (left := [name for name in others if names.get(name, name) not in options]):
            flag = left[0].replace("_", "-")
            raise click.UsageError(f"--{flag} cannot go with --{chooser}: the source {kind} has no such option")


def why_missing(name: str, source: dict[str, Any]) -> str:
    """Which flag took a column away that another one names; empty if none did."""
    renamed = {old: new for old, new in dict(source.get("rename", {})).items() if old == name}
    if renamed:
        return f"--rename {name}={renamed[name]} gave it another name, which later options use."
    for chooser, kind in _CHOOSES.items():
        if source.get("kind") == kind:
            return f"--{chooser} makes other samples of what was read: {_MADE[kind]}."
    if source.get("verify") == "none" and name.rpartition("/")[2] in ("height", "width", "channels"):
        return "--verify none does not look at images, so their sizes are unknown."
    if source.get("columns") and name not in source["columns"]:
        return f"--columns {','.join(source['columns'])} leaves it out."
    return ""


def _as_taken(name: str, value: Any) -> Any:
    """`A,B` as a list and `3` as text, if that is what the options of this name take."""
    options = [options_of(make)[name] for make in SOURCES.values() if name in options_of(make)]
    if isinstance(value, str) and any(option.is_list for option in options):
        return value.split(",")
    is_text = bool(options) and all(option.is_text for option in options)
    return str(value) if is_text and isinstance(value, int | float) else value


def _pair(text: str, wanted: str) -> tuple[str, str]:
    before, equals, after = text.partition("=")
    if not equals:
        raise click.UsageError(f"{wanted}, got {text!r}")
    return before, after


def _windows(given: dict[str, Any]) -> dict[str, Any]:
    if "time" not in given:
        raise click.UsageError("--windows needs --time COL, the column of times")
    table = {"kind": "series", "length": given["windows"]}
    if "label" in given:
        # A forecast has another name than the column.
        table["label"] = given.pop("label") if "horizon" in given else given["label"]
    is_by_time = given.get("split_by", "time" if "horizon" in given and "split" in given else "series") == "time"
    if is_by_time:
        if "split" not in given:
            raise click.UsageError("--split-by time needs --split, such as 80/10/10")
        table["time_split"] = given.pop("split")
    return table


def _constraint(text: str) -> tuple[str, Any]:
    name, _, rules = text.rpartition(":")
    fields: dict[str, Any] = {}
    for rule in rules.split(","):
        key, _, value = rule.partition("=")
        if key not in Constraint.__struct_fields__:
            close = nearest(key, Constraint.__struct_fields__)
            hint = f"; did you mean {close!r}?" if close else f" ({', '.join(Constraint.__struct_fields__)})"
            raise click.UsageError(f"--constrain {text}: there is no rule {key!r}{hint}")
        fields[key] = value.split("|") if key == "values" else value
    try:
        return name, msgspec.convert(fields, Constraint, strict=False)
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"--constrain {text}: {error}") from None


_BOXED = ("annotated", "coco", "voc", "yolo", "boxes")


_NAMED_IMAGE = ("images", "masks", "tiles", "video", "webdataset")


def _image_feature(source: dict[str, Any], kind: str) -> str:
    """The feature that holds the image: `image`, or the only picture there is, whatever its name."""
    if kind in _BOXED:
        return "image/encoded"
    if kind in _NAMED_IMAGE:
        return "image"
    if source.get("image_column"):
        return str(source["image_column"])
    if kind == "records":
        features = probe_schema(next(iter(list_shards(source["path"])[0]))).features
    else:
        features = open_source(dict(source)).schema().features
    pictures = [name for name, one in features.items() if one.encoding in IMAGE_ENCODINGS]
    if "image" in features or len(pictures) != 1:
        return "image"
    click.echo(f"note: {pictures[0]!r} is the only picture, so --resize and its like are about it", err=True)
    return pictures[0]


def _image_tables(given: dict[str, Any], source: dict[str, Any]) -> list[dict[str, Any]]:
    """The transforms for the image flags; the source then need not decode images to check them."""
    for name in ("fit", "kernel", "scaled"):
        if name in given and "resize" not in given:
            raise click.UsageError(f"--{name} needs --resize")
    if not given.keys() & {"resize", "image_format", "background"}:
        return []
    kind = str(source.get("kind") or kind_of(source["path"]))
    feature = _image_feature(source, kind)
    first: list[dict[str, Any]] = []
    if "background" in given:
        if kind in ("video", "tiles"):
            raise click.UsageError(f"--background cannot go with {kind}")
        first = [{"transform": "on_background", "feature": feature, "background": _colour(given["background"])}]
        if "resize" not in given and "image_format" not in given:
            return first
    if kind == "tiles" and "resize" in given:
        raise click.UsageError("--resize cannot go with --tiles: tiles have the size that they are cut to")
    fields: dict[str, Any] = {name: given[name] for name in ("fit", "kernel", "scaled") if name in given}
    if "resize" in given:
        fields["height"], fields["width"] = parse_size(given["resize"], "resize")
    form = _image_format(given["image_format"]) if "image_format" in given else {}
    if kind in ("video", "tiles"):  # the source resizes and encodes
        source |= {name: value for name, value in fields.items() if name != "scaled"} | form
        if kind == "video" and "dtype" in source:
            raise click.UsageError("--image-format png:16 cannot go with video: its frames have 8 bits per channel")
        return []
    if kind in (*_BOXED, "images"):
        source.setdefault("verify", "headers")
        if "dtype" in form:
            source.setdefault("allow", ["16-bit"])
    size: dict[str, Any] = {name: fields.pop(name) for name in ("height", "width") if name in fields}
    transform = "resize_encoded" if size else "reencode"
    return [*first, {"transform": transform, "feature": feature, **size, **fields, **form}]


_COLOURS = {"white": "#ffffff", "black": "#000000", "grey": "#808080", "gray": "#808080"}


def _colour(text: str) -> list[int]:
    """Red, green and blue, from a name, as HTML has them, or as three numbers."""
    code = _COLOURS.get(text.lower(), text)
    if re.fullmatch(r"#[0-9a-fA-F]{6}", code):
        return list(bytes.fromhex(code[1:]))
    numbers = [int(part) for part in code.split(",") if part.strip().isdecimal()]
    if len(numbers) == len(code.split(",")) == 3 and max(numbers) <= 255:
        return numbers
    raise click.UsageError(f"--background must be a colour such as white, #ff8800 or 255,136,0; got {text!r}")


def _image_format(text: str) -> dict[str, Any]:
    """Parse text such as jpeg:90: after the colon is the quality, or the bits for formats without quality."""
    form, colon, number = text.partition(":")
    form = {"jpg": "jpeg"}.get(form, form)
    is_written = form in FORMATS and FORMATS[form].is_written
    if is_written and FORMATS[form].has_quality and (not colon or number.isdecimal()):
        return {"form": form} | ({"quality": int(number)} if colon else {})
    if form in ("png", "raw") and (not colon or number in ("8", "16")):
        return {"form": form} | ({"dtype": "uint16"} if number == "16" else {})
    raise click.UsageError(f"--image-format must be like jpeg:90, webp:80, png, raw, png:16 or raw:16; got {text!r}")


_OF_COLUMNS = ("require", "log", "standardise", "min_max", "robust_scale", "encode", "one_hot")  # in this order
_STATISTICS = ("mean", "median", "most_frequent")
_BETWEEN = re.compile(r",(?![^\[]*\])")  # commas, except inside a list


def _column_tables(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The recipe tables for the column flags; filling comes first, `--transform` last."""
    found = [_filling(text) for text in given.get("fill", ())]
    for name in _OF_COLUMNS:
        found += [{"transform": name, "feature": column} for column in _columns(given.get(name, ""), name)]
    return found + [_any_transform(text) for text in given.get("transform", ())]


def _columns(text: str, name: str) -> Iterator[str]:
    for column in text.split(",") if text else ():
        if not column.strip():
            raise click.UsageError(f"--{name.replace('_', '-')} must be names such as A,B; got {text!r}")
        yield column.strip()


def _filling(text: str) -> dict[str, Any]:
    column, equals, value = text.partition("=")
    if not equals or not column or not value:
        raise click.UsageError(f"--fill must be COL=VALUE, got {text!r}")
    how = {"by": value} if value in _STATISTICS else {"value": toml_value(value)}
    return {"transform": "fill", "feature": column, **how}


def _any_transform(text: str, option: str = "transform") -> dict[str, Any]:
    name, colon, rest = text.partition(":")
    column, *fields = _BETWEEN.split(rest)
    if not colon or not column or not all("=" in field for field in fields):
        raise click.UsageError(f"--{option} must be NAME:COL,KEY=VALUE; got {text!r}")
    pairs = (field.partition("=") for field in fields)
    return {"transform": name, "feature": column, **{key: toml_value(value) for key, _, value in pairs}}


def balance_of(given: dict[str, Any], before: Balance | None) -> Balance | None:
    """The balance from the flags, over that of a recipe."""
    fields = {} if before is None else msgspec.structs.asdict(before)
    if given.get("balance") == "none":
        return None
    fields |= {"method": given["balance"]} if "balance" in given else {}
    fields |= {"ratio": given["balance_ratio"]} if "balance_ratio" in given else {}
    if "balance_categories" in given:
        fields["categories"] = list(_columns(given["balance_categories"], "balance_categories"))
    if "augment" in given:
        fields["augment"] = [_any_transform(text, "augment") for text in given["augment"]]
    if fields and "method" not in fields:
        raise click.UsageError("--balance-ratio, --balance-categories and --augment need --balance")
    return Balance(**fields) if fields else None


_UNITS = ("word", "whitespace", "character", "byte")
_FORMS = {"nfc": "NFC", "nfd": "NFD", "nfkc": "NFKC", "nfkd": "NFKD"}
_CLEANED = {"lower": "lower", "accents": "strip_accents", "control": "strip_control"}
_NEEDS = {
    "vocabulary": ("tokenise",),
    "min_count": ("tokenise",),
    "length": ("tokenise", "embed"),
    "ngrams": ("tfidf", "hash_ngrams"),
    "text": ("tokenise", "tfidf", "hash_ngrams", "embed", "clean"),
}


def text_tables(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The recipe tables for the text flags: cleaning first, ids last."""
    for name, users in _NEEDS.items():
        if name in given and not set(users) & set(given):
            wanted = " or ".join(f"--{user.replace('_', '-')}" for user in users)
            raise click.UsageError(f"--{name.replace('_', '-')} needs {wanted}")
    column = given.get("text", "text")
    found: list[dict[str, Any]] = [_cleaning(given["clean"], column)] if "clean" in given else []
    kinds = [name for name in ("tfidf", "hash_ngrams", "embed", "tokenise") if name in given]
    for name in kinds:
        # The last one replaces the text; the others are stored next to it.
        beside = {} if name == kinds[-1] else {"out": f"{column}/{name}"}
        found.append({"feature": column, **beside, **_text_table(name, given)})
    return found


def _text_table(name: str, given: dict[str, Any]) -> dict[str, Any]:
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


def _cleaning(text: str, column: str) -> dict[str, Any]:
    table: dict[str, Any] = {"transform": "clean", "feature": column, "form": "none"}
    for part in (part.strip() for part in text.split(",")):
        if part in _FORMS:
            table["form"] = _FORMS[part]
        elif part in _CLEANED:
            table[_CLEANED[part]] = True
        else:
            raise click.UsageError(f"--clean must be among {', '.join([*_FORMS, *_CLEANED])}; got {part!r}")
    return table


def _ngrams(text: str) -> list[int]:
    shortest, _, longest = text.partition("-")
    if not shortest.isdecimal() or not (longest or shortest).isdecimal():
        raise click.UsageError(f"--ngrams must be like 1-2, got {text!r}")
    return [int(shortest), int(longest or shortest)]
