"""What a run predicts, and from which features: as asked for, else chosen from the manifest and the data."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.categories import are_classes
from bushel.data.columns import BytesColumn, Ragged
from bushel.data.samples import sample_at
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, IMAGE_ENCODINGS, Feature, Schema
from bushel.errors import MissingName, SchemaMismatch
from bushel.feeding.adapters import is_metadata
from bushel.feeding.preparation import (
    Input,
    InputKind,
    Preparation,
    Target,
    TargetKind,
    encode_labels,
    flat_labels,
    text,
)
from bushel.reading import Pad, Sparse, Split
from bushel.records.index import load_index, load_keys
from bushel.records.record_roles import account_of
from bushel.training.inputs.splits import Splits, sampled
from bushel.training.options import Options, TaskName
from bushel.transforms import apply_all, date_parts, decode_audio, decode_image, fit_audio, mel, resize

__all__ = ["choose_inputs", "choose_target", "describe_inputs", "describe_target", "find_target", "sound_inputs"]

MOST_CLASSES = 10_000
_DOUBTFUL = 10  # classes beyond which the other choice is offered
LOOKED_AT = 5000  # records to sample for choosing kinds and fitting statistics
_IMAGES_LOOKED_AT = 64
_MOST_VALUES = 1000  # distinct values of a category
_SCRIPTS_LOOKED_AT = 1000  # texts whose letters say whether words have spaces between them
_FEW = 20  # distinct integers up to which they are categories, not amounts
_LONGEST = 2048  # words of a text, tokens of a sequence, steps of a series
_CUT = 0.01  # share of all words, tokens or steps that may be cut off without being asked for
_MOST_TOKENS = 1_000_000  # the largest vocabulary of an embedding
_LARGEST = 256  # side up to which an image is not resized
_USUAL_SIDE = 160
_NAMED = 6  # similar inputs to list by name
_IN_MEMORY = ("arrays", "iterable")  # sources of which a recipe does not name the key
_KEYS_COMPARED = 20
_WIDEST = 100_000  # width up to which a sparse row is fed as a dense one


def find_target(splits: Splits, asked: str | None) -> str:
    """The feature that is the label."""
    split, schema, manifest = splits.train, splits.train.schema, splits.data.manifest
    if asked is not None and asked not in schema:
        raise MissingName("feature", asked, schema, where=split.paths[0])
    own = split.label if split.label in schema else None
    account = account_of(split.paths, schema, manifest, label=asked, declared=own)
    if account.label is None:
        missing = MissingName("label", split.label, schema, where=split.paths[0])
        missing.help = (f"{account.why[0].upper()}{account.why[1:]}.", *missing.help)[:2]
        raise missing
    return account.label


def choose_target(splits: Splits, *, label: str | None = None, task: TaskName | None = None) -> Target:
    """The target that the manifest declares, or else the one that the labels suggest."""
    schema, manifest = splits.train.schema, splits.data.manifest
    name = find_target(splits, label)
    declared = manifest.label if manifest is not None and manifest.label and manifest.label.feature == name else None
    names = list(declared.names) if declared is not None else []
    # A build calls all integers classes; if they have no names, only their values can tell.
    # It calls all lists labels, too, and lists of any floats are numbers.
    is_known = declared is not None and (declared.task == "regression" or bool(names))
    kind = task or (declared.task if declared is not None and is_known else _guess(splits.train, schema, name))
    if kind == "regression":
        width = int(np.prod([size or 1 for size in schema[name].shape])) or 1
        return Target(kind="regression", label=name, width=width)
    made = _multi_label(splits, name, names) if kind == "multi_label" else _classes(splits, name, names)
    return msgspec.structs.replace(made, counts=_count(made, splits.train))


def _guess(split: Split, schema: Schema, name: str) -> TaskName:
    feature = schema[name]
    if feature.is_ragged or feature.sequence:
        return "multi_label"
    if feature.kind == FLOAT_KIND or feature.dtype.startswith("float"):
        return "regression" if not _is_hot(split, name) else "multi_label"
    if feature.shape not in ((), (1,)):
        return "multi_label"
    values = split.values(name)
    if isinstance(values, BytesColumn):
        return "classification"
    seen, counts = np.unique(flat_labels(name, values), return_counts=True)
    return "classification" if are_classes(seen, counts) else "regression"


def describe_target(target: Target, split: Split) -> str:
    """The task in a few words, and how to choose another one if the labels are ambiguous."""
    if target.kind == "regression":
        values = np.asarray(flat_labels(target.label, split.values(target.label)))
        numbers = f"{target.width} numbers" if target.width > 1 else "numbers"
        words = f"regression of {target.label!r} ({numbers} from {np.nanmin(values):.6g} to {np.nanmax(values):.6g})"
        return f"{words}; for classes: --task classification" if values.dtype.kind in "iu" else words
    words = f"{target.words}, {len(target.classes):,} classes of {target.label!r}"
    is_doubtful = target.is_classes and len(target.classes) > _DOUBTFUL and target.classes[0].lstrip("-").isdigit()
    return f"{words}; if they are numbers: --task regression" if is_doubtful else words


def _is_hot(split: Split, name: str) -> bool:
    """Whether labels are rows of zeros and ones."""
    if split.schema[name].shape in ((), (1,)):
        return False
    values = split.values(name)
    return isinstance(values, np.ndarray) and bool(np.isin(values, (0, 1)).all())


def _classes(splits: Splits, name: str, names: list[str]) -> Target:
    seen = _distinct(splits, name)
    if isinstance(seen, list):
        return Target(kind=_kind(len(seen)), label=name, classes=seen, values=list(seen))
    if names:
        return Target(kind=_kind(len(names)), label=name, classes=names)
    low, high = int(seen.min()), int(seen.max())
    if low >= 0 and high < max(2, 2 * len(seen)):
        return Target(kind=_kind(high + 1), label=name, classes=[str(code) for code in range(max(2, high + 1))])
    values = seen.tolist()
    return Target(kind=_kind(len(values)), label=name, classes=[str(value) for value in values], values=values)


def _kind(classes: int) -> TargetKind:
    return "binary" if classes <= 2 else "multi_class"


def _distinct(splits: Splits, name: str) -> NDArray[np.int64] | list[str]:
    each = [split for split in (splits.train, splits.val, splits.test) if split is not None]
    columns = [flat_labels(name, split.values(name)) for split in each]
    found: NDArray[np.int64] | list[str]
    if isinstance(columns[0], BytesColumn):
        found = sorted({text(value) for column in columns for value in column})
    else:
        found = np.unique(np.concatenate(columns)).astype(np.int64)
    if len(found) > MOST_CLASSES:
        raise SchemaMismatch(
            f"{len(found):,} different labels are too many to be classes",
            at=name,
            help=["To predict numbers: --task regression"],
        )
    if not len(found):
        raise SchemaMismatch("no record has a label", at=name)
    return found


def _multi_label(splits: Splits, name: str, names: list[str]) -> Target:
    feature = splits.train.schema[name]
    if not feature.is_ragged and feature.shape not in ((), (1,)) and _is_hot(splits.train, name):
        width = int(np.prod([size or 1 for size in feature.shape]))
        return Target(kind="multi_label", label=name, classes=names or [str(code) for code in range(width)])
    seen = _distinct(splits, name)
    if isinstance(seen, list):
        return Target(kind="multi_label", label=name, classes=seen, values=list(seen))
    return Target(kind="multi_label", label=name, classes=names or [str(code) for code in range(int(seen.max()) + 1)])


def _count(target: Target, split: Split) -> list[int]:
    labels = encode_labels(target, split.values(target.label))
    if target.kind == "multi_label":
        return [int(count) for count in labels.sum(axis=0)]
    return [int(count) for count in np.bincount(labels, minlength=len(target.classes))]


class _Choice:
    """The choices so far, feature by feature."""

    def __init__(self, splits: Splits, options: Options) -> None:
        self.splits = splits
        self.split = splits.train
        self.options = options
        self.kinds = dict(options.kinds or {})
        self.tokenised = _tokenised(splits)
        self.key = _key_of(splits)
        self.inputs: list[Input] = []
        self.features: list[str] = []
        self.transforms: list[Any] = []
        self.layout: list[Any] = []
        self.notes: list[str] = []

    def read(self, *names: str, most: int = LOOKED_AT) -> dict[str, Any]:
        return sampled(self.split, list(names), most)

    def leave_out(self, name: str, why: str) -> None:
        self.notes.append(f"{name!r} is left out: {why}")

    def length_for(self, lengths: NDArray[Any]) -> int:
        """How much of each row is fed: as asked for, or so much that hardly anything of all rows is cut off."""
        longest = max(1, int(lengths.max(initial=1)))
        if self.options.max_length is not None:
            return min(self.options.max_length, longest)
        tried, rows = np.unique(np.append(lengths, 1), return_counts=True)
        beyond = np.cumsum((tried * rows)[::-1])[::-1] - tried * np.cumsum(rows[::-1])[::-1]
        enough = tried[beyond <= _CUT * max(1, int(lengths.sum()))]
        return min(_LONGEST, int(enough[0]))

    def note_cut(self, name: str, what: str, lengths: NDArray[Any], limit: int, *, of: str = "records") -> float:
        """Report how many rows are longer than what is fed; returns the share of values that are cut off."""
        if cut := int((lengths > limit).sum()):
            rest = f"{cut:,} of {len(lengths):,} {of} have more than {limit:,} {what} and are cut"
            self.notes.append(f"{name!r}: {rest}; the longest has {int(lengths.max()):,} (--max-length)")
        return float(np.maximum(lengths - limit, 0).sum() / max(1, lengths.sum()))

    def add(self, given: Input, *, transforms: tuple[Any, ...] = (), layout: tuple[Any, ...] = ()) -> None:
        self.inputs.append(given)
        self.transforms.extend(transforms)
        self.layout.extend(layout)


def choose_inputs(splits: Splits, label: str, options: Options) -> tuple[Preparation, list[str]]:
    """Choose the inputs: the features named, or all but the label and those that only describe a record.

    Comes with notes on what was left out or changed.
    """
    split, columns = splits.train, options.columns
    schema = split.schema
    choice = _Choice(splits, options)
    for name in (*(columns or ()), *choice.kinds):
        if name not in schema and f"{name}/indices" not in schema:
            raise MissingName("feature", name, schema, where=split.paths[0])
    sparse = {name.removesuffix("/indices") for name in schema if name.endswith("/indices")}
    sparse = {name for name in sparse if f"{name}/values" in schema}
    for name in _candidates(schema, label, sparse, columns):
        if columns is None and name == choice.key:
            choice.leave_out(name, "it is the key of the records (--columns feeds it)")
            continue
        _add_sparse(choice, name) if name in sparse else _add(choice, name, schema[name], asked=columns is not None)
    if not choice.inputs:
        why = f" ({'; '.join(choice.notes)})" if choice.notes else ""
        raise SchemaMismatch(f"there is no feature to learn from{why}", at=str(split.paths[0]))
    for given in choice.inputs:
        if (wanted := choice.kinds.get(given.name)) not in (None, given.kind):
            raise SchemaMismatch(f"cannot be fed as {wanted}, only as {given.kind}", at=given.name)
    preparation = Preparation(
        tuple(choice.features), tuple(choice.transforms), tuple(choice.layout), inputs=tuple(choice.inputs)
    )
    return preparation, choice.notes


def _tokenised(splits: Splits) -> set[str]:
    """Features that the build tokenised, so they hold ids of a vocabulary."""
    recipe = splits.data.manifest.recipe if splits.data.manifest is not None else {}
    made = [table for table in recipe.get("transforms", ()) if str(table.get("transform", "")).startswith("tokenise")]
    return {str(table.get("out") or table.get("feature", "text")) for table in made}


def _key_of(splits: Splits) -> str | None:
    """The column that the build took for the key of each sample, by its name in the records."""
    source = splits.data.manifest.recipe.get("source", {}) if splits.data.manifest is not None else {}
    if source.get("kind") in _IN_MEMORY:
        return _column_of_keys(next(iter(splits.data.splits.values())))
    key = source.get("key")
    found: str | None = source.get("rename", {}).get(key, key)
    return found


def _column_of_keys(split: Split) -> str | None:
    """The column whose values are the keys of the first shard's first records.

    Keys that only number the samples are not compared: a column of the same numbers may be a time.
    """
    index, keys = load_index(split.paths[0]), load_keys(split.paths[0])
    if index is None or keys is None or split.rows is not None:
        return None
    count = min(len(keys), len(split), _KEYS_COMPARED)
    wanted, numbers = list(keys[:count]), index.values.get("source/row", np.zeros(0))
    if wanted == [_as_key(number) for number in numbers[:count].tolist()]:
        return None
    features = split.schema.features
    names = [name for name, feature in features.items() if not feature.shape and feature.kind != FLOAT_KIND]
    found = split.read(np.arange(count), names)
    return next((name for name in names if [_as_key(value) for value in found[name]] == wanted), None)


def _as_key(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def describe_inputs(preparation: Preparation) -> str:
    """How each input is fed, in a few words; similar inputs are listed together."""
    alike: dict[str, list[str]] = {}
    sounds = sound_inputs(preparation)
    for given in preparation.inputs:
        words = _described_sound(given) if given.name in sounds else _described(given)
        alike.setdefault(words, []).append(given.name)
    return "; ".join(f"{_listed(names)} as {words}" for words, names in alike.items())


def sound_inputs(preparation: Preparation) -> set[str]:
    """The inputs that were sounds: a model is fed their mel features as an image."""
    return {step.feature for step in preparation.transforms if isinstance(step, mel)}


def _described_sound(given: Input) -> str:
    bands, frames = given.shape[:2]
    return f"sounds, in {bands} mel bands x {frames} frames"


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED:,} more"


def _described(given: Input) -> str:
    sizes = " x ".join(str(size) for size in given.shape)
    if given.kind == "number":
        return f"{sizes} numbers" if given.shape and given.shape != (1,) else "a number"
    if given.kind == "category":
        return f"a category of {len(given.values):,} values"
    if given.kind == "tokens":
        return f"tokens, up to {given.shape[0]:,} of {given.size:,} ids"
    if given.kind == "text":
        return f"text, up to {given.length:,} {given.unit}s"
    if given.kind == "sparse":
        return f"a sparse row of {sizes}"
    return f"{given.kind} of {sizes}" if given.kind == "series" else f"{given.kind}s of {sizes}"


def _candidates(schema: Schema, label: str, sparse: set[str], columns: tuple[str, ...] | None) -> Iterator[str]:
    if columns is not None:
        yield from (name for name in columns if name != label)
        return
    parts = {f"{name}/{part}" for name in sparse for part in ("indices", "values")}
    names = [*(name for name in schema if name not in parts), *sparse]
    beside = label.rsplit("/", 1)[0] + "/" if "/" in label else None  # image/class/text beside image/class/label
    for name in sorted(names):
        if name != label and not is_metadata(name, schema) and not (beside and name.startswith(beside)):
            yield name


def _add(choice: _Choice, name: str, feature: Feature, *, asked: bool) -> None:
    before = len(choice.inputs)
    if feature.encoding in IMAGE_ENCODINGS:
        _add_image(choice, name, feature)
    elif feature.encoding == "sparse":
        _add_sparse_feature(choice, name, feature)
    elif _is_sound(choice, name, feature):
        _add_sound(choice, name, feature)
    elif feature.kind == BYTES_KIND and feature.encoding == "list":
        _add_text(choice, name, feature)
    elif feature.encoding == "raw" and len(feature.shape) in (3, 4) and feature.dtype == "uint8":
        kind: InputKind = "image" if len(feature.shape) == 3 else "clip"
        choice.add(Input(name=name, kind=kind, shape=feature.shape, dtype="uint8"))
    elif feature.sequence or feature.is_ragged:
        _add_lists(choice, name)
    elif feature.meaning == "date" and feature.shape == () and choice.kinds.get(name) is None:
        _add_date(choice, name, feature)
    else:
        _add_numbers(choice, name, feature)
    if len(choice.inputs) > before:
        choice.features.append(name)
    elif asked:
        raise SchemaMismatch(f"cannot be fed to a model: {choice.notes[-1]}", at=name)


def _add_image(choice: _Choice, name: str, feature: Feature) -> None:
    if feature.sequence or feature.shape not in ((), (1,)):
        _add_frames(choice, name)
        return
    sizes, channels = _look_at_images(choice.read(name, most=_IMAGES_LOOKED_AT)[name])
    known = _stored_sizes(choice.splits, name)
    sides = np.array(sizes) if known is None else known
    is_one_size = (sides == sides[0]).all()
    if choice.options.image_size is not None:
        height, width = choice.options.image_size
    elif is_one_size and sides.max() <= _LARGEST:
        height, width = (int(side) for side in sides[0])
    else:
        side = min(_USUAL_SIDE, max(8, round(float(np.median(sides)) / 8) * 8))
        height = width = side
        choice.notes.append(f"{name!r}: images of different or large sizes are resized to {side} x {side}")
    steps: list[Any] = [decode_image(name, channels=channels)]
    # If not all sizes are known, an image that was not sampled may differ.
    if known is None or not is_one_size or tuple(sides[0]) != (height, width):
        steps.append(resize(name, height, width))
    given = Input(name=name, kind="image", shape=(height, width, channels), dtype="uint8", min=0.0, max=255.0)
    choice.add(given, transforms=tuple(steps))


def _is_sound(choice: _Choice, name: str, feature: Feature) -> bool:
    """Whether a feature is sound, with its rate next to it, as a build stores it."""
    is_samples = feature.encoding == "raw" and feature.dtype in ("int16", "float32") and len(feature.shape) in (1, 2)
    is_file = feature.kind == BYTES_KIND and feature.encoding == "list" and feature.shape == ()
    return f"{name}/rate" in choice.split.schema and (is_samples or is_file) and not choice.kinds.get(name)


def _add_sound(choice: _Choice, name: str, feature: Feature) -> None:
    """Log-mel features, as an image of bands x frames."""
    rates = np.unique(np.asarray(choice.read(f"{name}/rate")[f"{name}/rate"]))
    is_file = feature.kind == BYTES_KIND and feature.encoding == "list"
    if len(rates) > 1 and not is_file:
        choice.leave_out(name, f"its sounds have {len(rates)} rates; resample them in the build")
        return
    rate = int(rates[0]) if len(rates) == 1 else _SOUND_RATE
    column = choice.read(name, most=_SOUNDS_LOOKED_AT)[name]
    length = feature.shape[0] if feature.shape and not is_file else None
    steps: list[Any] = []
    if length is None:
        seconds = np.asarray(choice.read(f"{name}/seconds")[f"{name}/seconds"], np.float64)
        length = max(1, round(rate * min(_LONGEST_SOUND, float(seconds.max(initial=1.0)))))
        choice.notes.append(f"{name!r}: sounds are cut or padded to {length / rate:.1f} s")
        steps.append(decode_audio(name, rate=rate, length=length) if is_file else fit_audio(name, length))
    hop = max(_MEL_HOP, length // _MEL_FRAMES)
    steps.append(mel(name, rate, bands=_MEL_BANDS, hop=hop, as_image=True))
    features = {name: feature}
    found = [apply_all(steps, sample_at({name: column}, features, row))[name] for row in range(len(column))]
    mean, std = _moments(np.stack(found).reshape(-1, 1))
    choice.add(Input(name=name, kind="image", shape=found[0].shape, mean=mean, std=std), transforms=tuple(steps))


_SOUND_RATE = 16_000  # of files with several rates
_SOUNDS_LOOKED_AT = 64
_LONGEST_SOUND = 10.0  # seconds
_MEL_BANDS, _MEL_HOP, _MEL_FRAMES = 64, 128, 96


def _stored_sizes(splits: Splits, name: str) -> NDArray[np.int64] | None:
    """Height and width of every image in all splits, if the records store them as features."""
    names = [f"{name.removesuffix('/encoded')}/{part}" for part in ("height", "width")]
    features = [splits.train.schema.features.get(part) for part in names]
    if any(feature is None or feature.dtype != "int64" or not feature.required for feature in features):
        return None
    each = [split for split in (splits.train, splits.val, splits.test) if split is not None]
    columns = [[np.asarray(split.values(part)).reshape(-1) for part in names] for split in each]
    return np.concatenate([np.stack(pair, axis=1) for pair in columns])


def _add_frames(choice: _Choice, name: str) -> None:
    """Clips of encoded frames; all must have the same number of frames and one size."""
    column = choice.read(name, most=_IMAGES_LOOKED_AT)[name]
    if not isinstance(column, Ragged) or len(set(column.lengths.tolist())) != 1:
        choice.leave_out(name, "its clips differ in their number of frames")
        return
    sizes, channels = _look_at_images(column.values)
    if len(set(sizes)) != 1 or max(sizes[0]) > _LARGEST:
        choice.leave_out(name, "its frames are large or differ in size; resize them in the build")
        return
    shape = (int(column.lengths[0]), *sizes[0], channels)
    given = Input(name=name, kind="clip", shape=shape, dtype="uint8", min=0.0, max=255.0)
    choice.add(given, transforms=(decode_image(name, channels=channels),))


def _look_at_images(column: Any) -> tuple[list[tuple[int, int]], Literal[1, 3]]:
    from PIL import Image

    sizes, is_grey = [], True
    for data in column:
        try:
            with Image.open(io.BytesIO(data)) as image:
                sizes.append((image.height, image.width))
                is_grey &= image.mode in ("1", "L", "I;16")
        except (OSError, SyntaxError, ValueError):
            continue  # reading finds it again, and on_fault decides
    if not sizes:
        raise SchemaMismatch("none of the first images can be opened", at="image")
    return sizes, 1 if is_grey else 3


def _add_text(choice: _Choice, name: str, feature: Feature) -> None:
    column = choice.read(name)[name]
    texts = column.values if isinstance(column, Ragged) else column
    if feature.sequence or feature.shape not in ((), (1,)) or not isinstance(texts, BytesColumn):
        choice.leave_out(name, "it holds lists of text; turn them into tokens in the build")
        return
    if feature.dtype == "bytes" and not _is_text(texts):
        choice.leave_out(name, "it holds bytes that are neither text nor known to be images")
        return
    counts: dict[bytes, int] = {}
    for value in texts:
        counts[value] = counts.get(value, 0) + 1
    words = float(np.mean([len(value.split()) for value in counts])) if counts else 0.0
    asked = choice.kinds.get(name)
    if len(counts) == 1 and asked is None:
        choice.leave_out(name, f"it is {_text_of(next(iter(counts)))!r} in every record of train")
        return
    is_category = len(counts) <= min(_MOST_VALUES, max(2, len(texts) // 2)) and words < 8
    if asked == "category" or (is_category and asked is None):
        values = [value.decode(errors="replace") for value in sorted(counts, key=lambda v: (-counts[v], v))]
        choice.add(Input(name=name, kind="category", dtype="string", values=values))
    elif (unit := _unit_of(list(counts), words)) is not None or asked == "text":
        unit = unit or "word"
        lengths = np.array([len(value.split()) if unit == "word" else len(_text(value)) for value in texts])
        length = choice.length_for(lengths)
        cut = choice.note_cut(name, f"{unit}s", lengths, length, of="texts looked at")
        choice.add(Input(name=name, kind="text", dtype="string", unit=unit, length=length, cut=cut))
    else:
        choice.leave_out(name, f"{len(counts):,} of {len(texts):,} values are different, as with names and ids")


def _unit_of(texts: list[bytes], words: float) -> Literal["word", "character"] | None:
    """What texts are cut into: characters where most of them are of a script without spaces; None for no texts."""
    joined = "".join(map(_text, texts[:_SCRIPTS_LOOKED_AT]))
    letters = sum(letter.isalpha() for letter in joined)
    if letters and len(_UNSPACED.findall(joined)) > letters / 2:
        return "character" if letters >= 2 * min(len(texts), _SCRIPTS_LOOKED_AT) else None
    return "word" if words >= 2 else None


# Scripts that are written without spaces: Thai, Lao, Myanmar, Khmer, kana and Chinese characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _text_of(value: bytes) -> str:
    return value[:40].decode("utf-8", "backslashreplace")


def _is_text(values: BytesColumn) -> bool:
    try:
        for value in values:
            value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _add_lists(choice: _Choice, name: str) -> None:
    """Rows of different lengths: tokens if they are integers, else a series."""
    feature = choice.split.schema[name]
    is_ids = feature.dtype.startswith(("int", "uint")) and choice.kinds.get(name) != "series"
    column = choice.split.values(name) if is_ids else choice.read(name)[name]
    if not isinstance(column, Ragged) or not isinstance(column.values, np.ndarray):
        choice.leave_out(name, "lists of lists cannot be fed")
        return
    longest = choice.length_for(column.lengths)
    cut = choice.note_cut(name, "values", column.lengths, longest, of="records" if is_ids else "records looked at")
    inner = tuple(int(size) for size in column.values.shape[1:])
    if is_ids and not inner:
        _add_tokens(choice, name, column.values, longest, cut=cut)
        return
    channels = inner or (1,)
    mean, std = _moments(column.values.reshape(-1, *channels).reshape(-1, channels[-1]))
    given = Input(name=name, kind="series", shape=(longest, *inner), mean=mean, std=std, cut=cut)
    choice.add(given, layout=(Pad(name, length=longest, mask=False),))


def _add_tokens(choice: _Choice, name: str, ids: NDArray[Any], length: int, *, cut: float | None = None) -> None:
    """Ids for an embedding. Padding is 0 if no record uses that id, else a number below all ids.

    `cut` is given for rows of different lengths.
    """
    is_ragged = cut is not None
    low, high = int(ids.min(initial=0)), int(ids.max(initial=1))
    if high >= _MOST_TOKENS:
        choice.leave_out(
            name, f"its ids go up to {high:,}, too many for an embedding; give them smaller ids in the build"
        )
        return
    if low < 0:
        rest = f"{int((ids < 0).sum()):,} of {ids.size:,} ids are below 0, and are fed as unknown"
        choice.notes.append(f"{name!r}: {rest} (--kind {name}={'series' if is_ragged else 'number'} feeds numbers)")
    is_zero_real = bool((ids == 0).any()) if is_ragged else not _is_padding(ids)
    pad = min(low, 0) - 1 if is_zero_real else 0
    if is_zero_real and not choice.options.is_ready:
        choice.notes.append(f"{name!r}: the id 0 occurs in records, and shorter rows are filled up with 0 too")
        pad = 0
    given = Input(name=name, kind="tokens", shape=(length,), dtype="int64", size=high + 1, pad=pad, cut=cut or 0.0)
    choice.add(given, layout=(Pad(name, length=length, fill=pad, mask=False),) if is_ragged else ())


def _is_padding(ids: NDArray[Any]) -> bool:
    """Whether 0 is padding: it never comes before another id."""
    return not bool(((ids[:, :-1] == 0) & (ids[:, 1:] != 0)).any())


def _add_numbers(choice: _Choice, name: str, feature: Feature) -> None:
    column = choice.read(name)[name]
    values = column.values if isinstance(column, Ragged) else column
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        choice.leave_out(name, f"{feature.describe()} is not a number")
        return
    is_scalar = feature.shape in ((), (1,))
    is_integer = values.dtype.kind in "iub" and feature.encoding == "list"
    asked = choice.kinds.get(name)
    is_whole = len(values) == min(LOOKED_AT, len(choice.split))  # no record lacks it
    if is_scalar and is_whole and len(values) > 1 and (values == values.flat[0]).all() and asked is None:
        choice.leave_out(name, f"it is {values.flat[0]:g} in every record of train")
        return
    if is_integer and is_scalar and asked in (None, "category"):
        found, counts = np.unique(values, return_counts=True)
        is_category = len(found) <= _FEW and len(found) * 2 <= len(values)
        if is_category or (asked == "category" and len(found) <= _MOST_VALUES):
            by_count = found[np.lexsort((found, -counts))].tolist()
            choice.add(Input(name=name, kind="category", dtype="int64", values=by_count))
            return
    is_ids = asked == "tokens" or (asked is None and name in choice.tokenised)
    if is_integer and len(feature.shape) == 1 and not is_scalar and is_ids:
        ids = choice.split.values(name)
        assert isinstance(ids, np.ndarray)
        _add_tokens(choice, name, ids, _known(feature)[0])
        return
    shape = () if is_scalar and feature.shape == () else _known(feature)
    kind: InputKind = "number" if len(shape) <= 1 else "series" if len(shape) == 2 else "image"
    if len(shape) > 3:
        kind = "clip"
    mean, std = _moments(values.reshape(len(values), -1) if kind == "number" else values.reshape(-1, shape[-1]))
    missing = not feature.required or bool(np.isnan(values.astype(np.float32)).any())
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    choice.add(Input(name=name, kind=kind, shape=shape, mean=mean, std=std, min=low, max=high, has_missing=missing))


_WHOLE_YEAR, _WHOLE_WEEK = 300, 7  # days that dates must span for a cycle to show


def _add_date(choice: _Choice, name: str, feature: Feature) -> None:
    """A date as numbers and cycles: those that differ between the records of train."""
    column = choice.read(name)[name]
    stamps = np.asarray(column.values if isinstance(column, Ragged) else column, np.int64).reshape(-1)
    if not len(stamps) or (stamps == stamps[0]).all():
        choice.leave_out(name, "it is the same date in every record of train")
        return
    every: tuple[Any, ...] = ("days", "year", "month", "weekday", "hour")
    first = str(np.datetime64(int(stamps.min()), "us").astype("datetime64[D]"))
    values = date_parts(name, parts=every, since=first).apply_columns({name: stamps})[name]
    assert isinstance(values, np.ndarray)
    parts = tuple(part for part, one in zip(every, values.T, strict=True) if (one != one[0]).any())
    span = float(np.ptp(values[:, 0]))
    spans = {"year": span >= _WHOLE_YEAR, "week": span >= _WHOLE_WEEK and "weekday" in parts, "day": "hour" in parts}
    cycles: tuple[Any, ...] = tuple(cycle for cycle, shows in spans.items() if shows)
    step = date_parts(name, parts=parts, cycles=cycles, since=first, fill_nan=not feature.required)
    made = step.apply_columns({name: stamps})[name]
    assert isinstance(made, np.ndarray)
    said = [f"days since {first}" if part == "days" else part for part in parts]
    said += [f"the cycle of the {cycle}" for cycle in cycles]
    choice.notes.append(f"{name!r} is a date, and is fed as {', '.join(said)} (--columns leaves it out)")
    mean, std = _moments(made)
    shape, is_optional = (made.shape[1],), not feature.required
    given = Input(name=name, kind="number", shape=shape, mean=mean, std=std, has_missing=is_optional)
    choice.add(given, transforms=(step,))


def _known(feature: Feature) -> tuple[int, ...]:
    return tuple(size or 1 for size in feature.shape)


def _moments(values: NDArray[Any]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of the finite values of each column; 1 for a constant column."""
    finite = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    with np.errstate(all="ignore"):
        mean = np.nan_to_num(np.nanmean(finite, axis=0)) if finite.size else np.zeros(finite.shape[1:])
        std = np.nan_to_num(np.nanstd(finite, axis=0)) if finite.size else np.ones(finite.shape[1:])
    std[std < 1e-7 * np.maximum(1.0, np.abs(mean))] = 1.0
    return [float(value) for value in mean], [float(value) for value in std]


def _add_sparse(choice: _Choice, name: str) -> None:
    """A row as wide as asked for, or as the largest index of any split: val and test may go beyond train."""
    highest = -1
    for split in (choice.splits.train, choice.splits.val, choice.splits.test):
        column = split.values(f"{name}/indices") if split is not None else np.empty(0, np.int64)
        highest = max(
            highest, int(np.max(np.asarray(column.values if isinstance(column, Ragged) else column), initial=-1))
        )
    width = choice.options.sparse_width or highest + 1
    if highest >= width:
        raise ValueError(f"sparse_width must be above the largest index of {name!r}, {highest:,}; got {width:,}")
    _add_wide(choice, name, width, layout=(Sparse(name, width),), columns=(f"{name}/indices", f"{name}/values"))


def _add_sparse_feature(choice: _Choice, name: str, feature: Feature) -> None:
    width = feature.shape[-1] or 0
    _add_wide(choice, name, width, layout=(), columns=())


def _add_wide(choice: _Choice, name: str, width: int, *, layout: tuple[Any, ...], columns: tuple[str, ...]) -> None:
    if width > _WIDEST:
        choice.leave_out(name, f"rows of {width:,} values are too wide to be fed as dense ones")
        return
    choice.add(Input(name=name, kind="sparse", shape=(width,)), layout=layout)
    choice.features.extend(columns)
