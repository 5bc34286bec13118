"""How TensorFlow's tools describe datasets, read and written without their packages.

TFX and TensorFlow Data Validation have `schema.pbtxt`; TensorFlow Datasets has `dataset_info.json` and `features.json`.
They may come from anybody: sizes, depths and counts are bounded, and what they name is checked before it is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import msgspec

from bushel.data.categories import Label
from bushel.data.columns import count_of
from bushel.data.schema import BYTES_KIND, FLOAT_KIND, IMAGE_ENCODINGS, INT_KIND, RAW_DTYPES, Feature, Schema, Shape
from bushel.errors import FileProblem, FormatError, printable, understood
from bushel.storage import TFDS_FEATURES, TFDS_INFO, AnyPath, as_path, read_inside, read_named

Node: TypeAlias = dict[str, Any]

TEMPLATE = "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}"  # which names of bushel's shards fit
_DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_MOST_BYTES = 1 << 26  # in a file
_DEEPEST = 32
_MOST_FEATURES = 1 << 16
_MOST_SHARDS = 1 << 20
_MOST_VALUES = 1 << 40  # in a tensor

# How a kind of feature is called in files of older versions, by the end of its class.
_OLD_KINDS = {
    "FeaturesDict": "featuresDict",
    "Sequence": "sequence",
    "Dataset": "sequence",
    "Tensor": "tensor",
    "Scalar": "tensor",
    "Image": "image",
    "LabeledImage": "image",
    "Video": "video",
    "Audio": "audio",
    "BBoxFeature": "boundingBox",
    "Text": "text",
    "ClassLabel": "classLabel",
    "Translation": "translation",
    "TranslationVariableLanguages": "variableTranslation",
}
_NEW_KINDS = {kind for kind in _OLD_KINDS.values() if kind != "variableTranslation"}


@dataclass(frozen=True)
class Described:
    """What the two files say: the features of a record, the label, and the records of each shard by split."""

    schema: Schema
    label: Label | None
    splits: dict[str, dict[str, int]]  # by split, and by the path of a shard in the folder
    unknown: list[str] = field(default_factory=list)  # features of kinds that only other code knows


def read_described(folder: Path) -> Described:
    """Read what describes a dataset of TensorFlow Datasets."""
    info = _read_json(folder / TFDS_INFO)
    with understood(folder / TFDS_INFO, "not a description by TensorFlow Datasets"):
        splits = _splits(info)
    kind = str(info.get("fileFormat") or "tfrecord")
    if kind != "tfrecord":
        raise FileProblem(
            folder,
            f"its records are in files of format {printable(kind)}, not in TFRecords",
            help=["Write them as TFRecord files with tensorflow_datasets, then open that folder."],
        )
    features = _Features()
    with understood(folder / TFDS_FEATURES, "not the features of TensorFlow Datasets"):
        features.add("", _read_json(folder / TFDS_FEATURES), (), "")
        if not features.found:
            raise ValueError("there are none that bushel knows")
        label = _label(folder, features, _supervised(info))
    return Described(Schema(features=dict(sorted(features.found.items()))), label, splits, features.unknown)


def _read_json(path: Path) -> Node:
    if path.stat().st_size > _MOST_BYTES:
        raise FileProblem(path, f"is larger than {_MOST_BYTES >> 20} MiB, and only describes a dataset")
    try:
        found = msgspec.json.decode(read_named(path))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(path, f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise FormatError(path, "not a description by TensorFlow Datasets")
    return found


def _splits(info: Node) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for split in info.get("splits", []):
        name, lengths = split["name"], [int(length) for length in split.get("shardLengths", [])]
        if len(lengths) + sum(map(len, found.values())) > _MOST_SHARDS:
            raise ValueError(f"there are more than {_MOST_SHARDS:,} shards")
        if not isinstance(name, str) or not name or name in found:
            raise ValueError(f"the name of a split must be text that occurs once, got {name!r}")
        template = split.get("filepathTemplate") or _DEFAULT_TEMPLATE
        stated = {"DATASET": info.get("name", ""), "SPLIT": name, "FILEFORMAT": "tfrecord"}
        found[name] = {_shard_name(template, stated, at, len(lengths)): length for at, length in enumerate(lengths)}
        if len(found[name]) != len(lengths):
            raise ValueError(f"several shards of {name!r} have the same name: {template!r}")
    if not any(found.values()):
        raise ValueError("no split has a shard")
    return {name: shards for name, shards in found.items() if shards}


def _shard_name(template: str, stated: Mapping[str, str], at: int, of: int) -> str:
    digits = max(5, len(str(of)))
    index, count = f"{at:0{digits}d}", f"{of:0{digits}d}"
    values = {**stated, "SHARD_INDEX": index, "NUM_SHARDS": count, "SHARD_X_OF_Y": f"{index}-of-{count}"}
    # Not str.format, which reaches into the attributes of values.
    return re.sub(r"\{(\w+)\}", lambda found: str(values[found[1]]), template.partition("%")[0])


def _supervised(info: Node) -> str | None:
    """The feature that is to be predicted, if one is named."""
    keys = info.get("supervisedKeys") or {}
    items = (keys.get("tuple") or {}).get("items") or []
    output = items[1].get("featureKey") if len(items) > 1 else keys.get("output")
    return output if isinstance(output, str) else None


class _Features:
    """Collects the features that records hold, as they are called there."""

    def __init__(self) -> None:
        self.found: dict[str, Feature] = {}
        self.classes: dict[str, str] = {}  # the file with the names of each feature of classes
        self.unknown: list[str] = []

    def add(self, name: str, node: Any, lead: tuple[int | None, ...], path: str) -> None:
        """Add a feature and those inside it; `lead` are the lengths of the sequences that it is in."""
        if name.count("/") + len(lead) > _DEEPEST:
            raise ValueError("features are nested too deeply")
        if len(self.found) > _MOST_FEATURES:
            raise ValueError(f"there are more than {_MOST_FEATURES:,} features")
        kind, content = _kind_of(node)
        if kind == "featuresDict":
            inside = content.get("features", content) if "pythonClassName" in node else content
            for child, below in inside.items():
                file = "-".join(part for part in (path, child.replace("/", ".")) if part)
                self.add(f"{name}/{child}" if name else child, below, lead, file)
        elif kind == "sequence":
            length = int(_of(content, "length", default=-1) or -1)
            self.add(name, content["feature"], (*lead, None if length < 0 else length), path)
        elif kind in ("translation", "variableTranslation"):
            is_list = kind == "variableTranslation"
            languages = ("language", "translation") if is_list else content["languages"]
            for language in languages:
                self._put(f"{name}/{language}", Feature(dtype="str"), (*lead, None) if is_list else lead)
        elif kind is None:
            self.unknown.append(name)
        else:
            self._add_leaf(name, kind, content, lead, path)

    def _add_leaf(self, name: str, kind: str, content: Node, lead: tuple[int | None, ...], path: str) -> None:
        shape = _shape(_of(content, "shape", default=()))
        if kind == "classLabel":
            self.classes[name] = path
            self._put(name, Feature(dtype="int64"), lead)
        elif kind == "text":
            self._put(name, Feature(dtype="str"), lead)
        elif kind == "image":
            self._put(name, _image(content, shape), lead)
        elif kind == "video":
            self._put(name, _image(content, shape[1:]), (*lead, shape[0] if shape else None))
        elif kind == "boundingBox":
            self._put(name, _numbers(content.get("dtype") or "float32", shape or (4,)), lead)
        elif kind == "audio" and _of(content, "lazy_decode", "lazyDecode"):
            self._put(name, Feature(dtype="bytes"), lead)
        else:
            self._add_tensor(name, content, shape, lead)

    def _add_tensor(self, name: str, content: Node, shape: Shape, lead: tuple[int | None, ...]) -> None:
        dtype, required = content["dtype"], not content.get("optional")
        encoding = str(content.get("encoding") or "none").lower()
        is_dynamic = shape.count(None) > 1
        if encoding == "none":
            feature = _numbers(dtype, shape)
        elif encoding == "bytes" and not lead and dtype in RAW_DTYPES and None not in shape[1:]:
            feature = Feature(dtype=dtype, shape=shape, encoding="raw")
        elif encoding == "bytes" and not lead and dtype in RAW_DTYPES and is_dynamic:
            feature = Feature(dtype=dtype, shape=(None,), encoding="raw")
        else:
            feature = Feature(dtype="bytes")
        if is_dynamic:
            self._put(f"{name}/shape", _numbers("int32", (len(shape),)), lead, required=required)
            name = f"{name}/value"
        self._put(name, feature, lead, required=required)

    def _put(self, name: str, feature: Feature, lead: tuple[int | None, ...], *, required: bool = True) -> None:
        if len(lead) > 1:
            for level in range(len(lead) - 1):
                self.found[f"{name}/ragged_row_lengths_{level}"] = Feature(dtype="int64", shape=(None,))
            name, lead = f"{name}/ragged_flat_values", (None,)
        shape = _storable((*lead, *feature.shape)) if lead else feature.shape
        if name in self.found:
            raise ValueError(f"there are two features {name!r}")
        self.found[name] = msgspec.structs.replace(feature, shape=shape, required=required)


def _kind_of(node: Any) -> tuple[str | None, Node]:
    """The kind of a feature and its description, whichever version of TensorFlow Datasets wrote it."""
    if "type" in node and isinstance(node["type"], str):
        content = node.get("content") or {}
        if isinstance(content, str):
            content = msgspec.json.decode(content)
        return _OLD_KINDS.get(node["type"].rpartition(".")[2]), content
    for kind in _NEW_KINDS:
        if kind in node:
            is_variable = str(node.get("pythonClassName", "")).endswith("TranslationVariableLanguages")
            return "variableTranslation" if is_variable else kind, node[kind]
    return None, {}


def _of(content: Node, *names: str, default: Any = None) -> Any:
    return next((content[name] for name in names if name in content), default)


def _shape(given: Any) -> Shape:
    sizes = given.get("dimensions", ()) if isinstance(given, dict) else given
    shape = tuple(None if size is None or int(size) < 0 else int(size) for size in sizes)
    if len(shape) > _DEEPEST or count_of(tuple(size for size in shape if size is not None)) > _MOST_VALUES:
        raise ValueError(f"a shape is too large: {shape}")
    return shape


def _storable(shape: Shape) -> Shape:
    """The shape, or a flat list if sizes vary that only other fields would tell."""
    return shape if None not in shape[1:] else (None,)


def _numbers(dtype: str, shape: Shape) -> Feature:
    """A tensor in a list: whole numbers and truth values are stored as int64, floats as float32."""
    if dtype in ("string", "object", "str", "bytes"):
        return Feature(dtype="bytes", shape=_storable(shape))
    stored = "float32" if "float" in dtype else "int64"
    known = dtype in RAW_DTYPES and not dtype.startswith("complex")
    if not known and dtype != "bfloat16":
        raise ValueError(f"there is no such dtype: {dtype!r}")
    reads_as = dtype if known and dtype != stored else ""
    return Feature(dtype=stored, shape=_storable(shape), reads_as=reads_as)


def _image(content: Node, shape: Shape) -> Feature:
    encoding = _of(content, "encoding_format", "encodingFormat") or "image"
    if content.get("dtype") == "float32" or encoding not in IMAGE_ENCODINGS:
        return Feature(dtype="bytes")  # floats in the four channels of a PNG: decoded, they would be other pixels
    return Feature(dtype="bytes", encoding=encoding, pixels=shape)


def _label(folder: Path, features: _Features, supervised: str | None) -> Label | None:
    """The feature to predict: the one that is named, or the only one of classes outside of sequences."""
    single = [name for name in features.classes if features.found.get(name, _NONE).shape == ()]
    chosen = supervised if supervised in features.found else "label" if "label" in single else None
    chosen = chosen or (single[0] if len(single) == 1 else None)
    if chosen is None:
        return None
    if chosen not in features.classes:
        feature = features.found[chosen]
        is_number = feature.dtype == "float32" and feature.shape == ()
        return Label(feature=chosen, task="regression") if is_number else None
    task: Any = "classification" if chosen in single else "multi_label"
    return Label(feature=chosen, task=task, names=_names(folder / labels_name(features.classes[chosen])))


_NONE = Feature(dtype="bytes", shape=(None,))


def labels_name(feature: str) -> str:
    """The file with the names of the classes of a feature."""
    return f"{feature.replace('/', '.')}.labels.txt"


def _names(path: Path) -> list[str]:
    if "/" in path.name or "\\" in path.name or not path.name.isprintable() or not path.is_file():
        return []
    if path.stat().st_size > _MOST_BYTES:
        raise FileProblem(path, f"is larger than {_MOST_BYTES >> 20} MiB, and only names classes")
    try:
        lines = [line.strip() for line in read_inside(path.parent, path.name).decode().split("\n")]
    except UnicodeDecodeError:
        raise FileProblem(path, "is not text in UTF-8") from None
    return [line for line in lines if line]


# How bushel's features are written.

_CLASS = "tensorflow_datasets.core.features."
_IN_TENSORFLOW = ("jpeg", "png", "gif", "bmp", "image")  # formats that its one decoder reads


_NOT_DECODED = ("uint32", "complex64", "complex128")  # from the bytes of a tensor


def why_no_form(schema: Schema) -> str | None:
    """Why TensorFlow Datasets cannot read such records, in words; None if it can."""
    if schema.record != "example":
        return "records are SequenceExamples" if schema.record == "sequence_example" else "records are not Examples"
    for name, feature in schema.features.items():
        if feature.encoding == "sparse":
            return f"{printable(name)!r} is sparse"
        if feature.encoding in IMAGE_ENCODINGS and not feature.required:
            return f"some records lack the image {printable(name)!r}"
        if None in feature.shape[1:] or feature.dtype in _NOT_DECODED:
            return f"{printable(name)!r} is {feature.describe()}"
    return None


def features_json(schema: Schema, label: Label | None) -> bytes:
    """The content of `features.json`. Names keep their slashes: one feature may be `image`, another `image/width`."""
    inside = {name: _node(name, feature, label) for name, feature in schema.features.items()}
    return _text({"pythonClassName": f"{_CLASS}features_dict.FeaturesDict", "featuresDict": {"features": inside}})


def _node(name: str, feature: Feature, label: Label | None) -> Node:
    if label is not None and label.names and name == label.feature:
        leaf = {
            "pythonClassName": f"{_CLASS}class_label_feature.ClassLabel",
            "classLabel": {"numClasses": str(len(label.names))},
        }
    elif feature.encoding in _IN_TENSORFLOW:
        leaf = {"pythonClassName": f"{_CLASS}image_feature.Image", "image": _image_node(feature)}
    elif feature.dtype == "str" and feature.shape in ((), (None,)) and feature.required:
        leaf = {"pythonClassName": f"{_CLASS}text_feature.Text", "text": {}}
    else:
        return _tensor_node(feature)
    for size in feature.shape:
        length = str(-1 if size is None else size)
        leaf = {
            "pythonClassName": f"{_CLASS}sequence_feature.Sequence",
            "sequence": {"feature": leaf, "length": length},
        }
    return leaf


def _image_node(feature: Feature) -> Node:
    node: Node = {"dtype": "uint8", "shape": _dimensions(feature.pixels or (None, None, 3))}
    return node | ({"encodingFormat": feature.encoding} if feature.encoding in ("jpeg", "png") else {})


def _tensor_node(feature: Feature) -> Node:
    is_text = feature.dtype in ("bytes", "str")
    tensor: Node = {
        "dtype": "string" if is_text else feature.reads_as or feature.dtype,
        "encoding": "bytes" if feature.encoding == "raw" else "none",
        "shape": _dimensions(feature.shape),
    }
    if not feature.required:
        tensor["optional"] = True
    return {"pythonClassName": f"{_CLASS}tensor_feature.Tensor", "tensor": tensor}


def _dimensions(shape: Shape) -> Node:
    return {"dimensions": [str(-1 if size is None else size) for size in shape]} if shape else {}


def info_json(shards: Mapping[str, Sequence[tuple[int, int]]], keys: tuple[str, str] | None) -> bytes:
    """The content of `dataset_info.json`: records and bytes of each shard by split, and what predicts what."""
    splits = [
        {
            "name": name,
            "filepathTemplate": TEMPLATE,
            "shardLengths": [str(records) for records, _ in parts],
            "numBytes": str(sum(size for _, size in parts)),
        }
        for name, parts in shards.items()
    ]
    info: Node = {"name": "dataset", "version": "1.0.0", "fileFormat": "tfrecord", "splits": splits}
    if keys is not None:
        info["supervisedKeys"] = {"tuple": {"items": [{"featureKey": key} for key in keys]}}
    return _text(info)


def supervised_keys(schema: Schema, label: Label | None) -> tuple[str, str] | None:
    """What `as_supervised=True` gives: the only image or text, and the label."""
    if label is None:
        return None
    inputs = [
        name
        for name, feature in schema.features.items()
        if feature.shape == () and (feature.encoding in _IN_TENSORFLOW or name == "text")
    ]
    return (inputs[0], label.feature) if len(inputs) == 1 else None


def _text(value: Node) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n"


def names_text(label: Label) -> bytes | None:
    """The content of the file that names the classes; None if a name would not come back from it."""
    is_plain = all(name.strip() == name and name and "\n" not in name for name in label.names)
    return "".join(f"{name}\n" for name in label.names).encode() if is_plain else None


def tfds_files(
    schema: Schema, label: Label | None, shards: Mapping[str, Sequence[tuple[int, int]]]
) -> Iterator[tuple[str, bytes]]:
    """The name and content of each file that makes a folder of shards one that TensorFlow Datasets reads."""
    yield TFDS_FEATURES, features_json(schema, label)
    if label is not None and label.names and (names := names_text(label)) is not None:
        yield labels_name(label.feature), names
    yield TFDS_INFO, info_json(shards, supervised_keys(schema, label))


Message: TypeAlias = dict[str, list[Any]]  # the values of each field, in their order

TYPES = {"BYTES": BYTES_KIND, "INT": INT_KIND, "FLOAT": FLOAT_KIND}
_NAMES = {kind: name for name, kind in TYPES.items()}
_SEQUENCE = "##SEQUENCE##"  # the feature below which TFX puts those of a SequenceExample's steps
_NOT_EXPECTED = ("PLANNED", "ALPHA", "DEBUG_ONLY", "DEPRECATED", "DISABLED")  # stages whose features may be absent
_DEEPEST_BLOCK = 64
_MOST = 1 << 24  # characters

_TOKEN = re.compile(
    r"""\s+ | \#[^\n]* | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*') | (?P<mark>[{}<>\[\]:;,])
      | (?P<word>[-+.\w/]+) | (?P<other>.)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True)
class Declared:
    """What a schema demands of one feature; None where it demands nothing."""

    name: str
    kind: int | None = None
    min_fraction: float = 0.0  # of records that have it
    min_count: int = 0  # of such records
    least: int | None = None  # values in a record
    most: int | None = None
    low: float | None = None  # of numbers
    high: float | None = None
    allows_nan: bool = True
    allows_infinity: bool = True
    texts: frozenset[str] | None = None
    is_expected: bool = True  # whether records should have it at all
    sequence: bool = False


@dataclass
class _Reader:
    """Parses the text form of any protocol buffer: fields with values or with messages."""

    tokens: list[tuple[str, str, int]]
    path: str
    at: int = 0
    depth: int = 0

    def message(self, end: str | None = None) -> Message:
        found: Message = {}
        self.depth += 1
        if self.depth > _DEEPEST_BLOCK:
            self._fail("messages are nested too deeply")
        while (token := self._next()) is not None and token[1] != end:
            if token[1] in (",", ";"):
                continue
            if token[0] != "word":
                self._fail(f"expected the name of a field, found {token[1]!r}")
            has_colon = self._take(":")
            values = found.setdefault(token[1], [])
            if self._take("["):
                while not self._take("]"):
                    values.append(self._value(has_colon=True))
                    self._take(",")
            else:
                values.append(self._value(has_colon))
        if token is None and end is not None:
            self._fail(f"{end!r} is missing at the end")
        self.depth -= 1
        return found

    def _value(self, has_colon: bool) -> Any:
        token = self._next()
        if token is None:
            self._fail("a value is missing at the end")
        kind, text, _ = token
        if text in ("{", "<") and kind == "mark":
            return self.message("}" if text == "{" else ">")
        if not has_colon or kind in ("mark", "other"):
            self._fail(f"expected a value, found {text!r}")
        if kind != "text":
            return text
        parts = [text]
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "text":
            parts.append(self.tokens[self.at][1])
            self.at += 1
        return "".join(_unescaped(part) for part in parts)

    def _next(self) -> tuple[str, str, int] | None:
        if self.at == len(self.tokens):
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def _take(self, mark: str) -> bool:
        is_there = self.at < len(self.tokens) and self.tokens[self.at][:2] == ("mark", mark)
        self.at += is_there
        return is_there

    def _fail(self, why: str) -> NoReturn:
        line = self.tokens[min(self.at, len(self.tokens)) - 1][2] if self.tokens else 1
        raise FileProblem(as_path(self.path), f"line {line}: {why}", help=["A schema.pbtxt is expected, as text."])


def _unescaped(quoted: str) -> str:
    def replace(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return bytes([int(found[1], 16)])
        if found[2]:
            return bytes([int(found[2], 8) & 255])
        return _ESCAPES.get(found[3], found[3])

    return _ESCAPE.sub(replace, quoted[1:-1].encode()).decode(errors="replace")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    line = 1
    for found in _TOKEN.finditer(text):
        if found.lastgroup is not None:
            yield found.lastgroup, found[0], line
        line += found[0].count("\n")


def read_pbtxt(path: AnyPath) -> list[Declared]:
    """What a `schema.pbtxt` demands of each feature."""
    file = as_path(path)
    data = read_named(file)
    if len(data) > _MOST:
        raise FileProblem(file, f"is larger than {_MOST >> 20} MiB: is it a schema.pbtxt?")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FileProblem(file, "is not text", help=["A schema.pbtxt is expected, not a binary schema."]) from None
    reader = _Reader(list(_tokens(text)), str(file))
    schema = reader.message()
    try:
        domains = {one["name"][-1]: one for kind in _DOMAINS for one in schema.get(kind, []) if "name" in one}
        return list(_declared(schema, domains))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileProblem(file, f"is not a schema of TFX: {error}") from None


_DOMAINS = ("string_domain", "int_domain", "float_domain")


def _declared(schema: Message, domains: Mapping[str, Message], *, sequence: bool = False) -> Iterator[Declared]:
    for feature in schema.get("feature", []):
        if _last(feature, "type", "") == "STRUCT":
            yield from _declared(_last(feature, "struct_domain", {}), domains, sequence=True)
        else:
            yield _declared_feature(feature, domains, sequence=sequence)


def _last(message: Message, name: str, default: Any) -> Any:
    return message[name][-1] if message.get(name) else default


def _declared_feature(feature: Message, domains: Mapping[str, Message], *, sequence: bool) -> Declared:
    presence = _last(feature, "presence", {})
    least, most = _value_counts(feature)
    named = domains.get(_last(feature, "domain", ""), {})
    numbers = _last(feature, "int_domain", None) or _last(feature, "float_domain", None) or named
    texts = _last(feature, "string_domain", None) or named
    low, high = (_number(_last(numbers, side, None)) for side in ("min", "max"))
    stage = _last(feature, "lifecycle_stage", "")
    return Declared(
        name=_last(feature, "name", ""),
        kind=TYPES.get(_last(feature, "type", "")),
        min_fraction=_number(_last(presence, "min_fraction", "0")) or 0.0,
        min_count=int(_number(_last(presence, "min_count", "0")) or 0),
        least=least,
        most=most,
        low=low,
        high=high,
        allows_nan=_last(numbers, "disallow_nan", "false") not in ("true", "1", "True", "t"),
        allows_infinity=_last(numbers, "disallow_inf", "false") not in ("true", "1", "True", "t"),
        texts=frozenset(texts["value"]) if texts.get("value") else None,
        is_expected=_last(feature, "deprecated", "false") != "true" and stage not in _NOT_EXPECTED,
        sequence=sequence,
    )


def _number(text: str | None) -> float | None:
    return None if text is None else float(text.removesuffix("f"))


def _value_counts(feature: Message) -> tuple[int | None, int | None]:
    if "shape" in feature:
        sizes = [int(_last(dim, "size", "-1")) for dim in _last(feature, "shape", {}).get("dim", [])]
        count = count_of(tuple(sizes)) if min(sizes, default=1) >= 0 else None
        return count, count
    counts = _last(feature, "value_count", {})
    least, most = (_number(_last(counts, side, None)) for side in ("min", "max"))
    return None if least is None else int(least), None if most is None else int(most)


def to_pbtxt(schema: Schema, classes: Mapping[str, int | None] = {}) -> str:
    """A schema as TFX's text. `classes` are the features that are codes of so many classes, or of an unknown number."""
    steps = {name: feature for name, feature in schema.features.items() if feature.sequence}
    lines = ["# Written by bushel: bushel schema --pbtxt"]
    for name, feature in schema.features.items():
        if not feature.sequence:
            lines += _feature_lines(name, feature, schema, classes)
    if steps:
        inner = [line for name, feature in steps.items() for line in _feature_lines(name, feature, schema, classes)]
        lines += block("feature", [f'name: "{_SEQUENCE}"', "type: STRUCT", *block("struct_domain", inner)])
    return "\n".join(lines) + "\n"


def block(name: str, lines: Iterable[str]) -> list[str]:
    """A message inside another one, as text."""
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def quoted(text: str) -> str:
    """A string as the text form of protocol buffers has it."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\{ord(found[0]):03o}", plain) + '"'


def _feature_lines(name: str, feature: Feature, schema: Schema, classes: Mapping[str, int | None]) -> list[str]:
    if feature.encoding == "sparse":
        return _sparse_lines(name, feature)
    lines = [f"name: {quoted(name)}", f"type: {_NAMES[feature.kind]}"]
    if feature.required:
        lines += block("presence", ["min_fraction: 1.0", "min_count: 1"])
    sizes = (1,) if feature.is_one_value else feature.shape
    if None in sizes:
        seen = schema.statistics.get(name)
        lines += block("value_count", [f"min: {seen.min_length if seen else 0}"])
    else:
        lines += block("shape", [f"dim {{ size: {size} }}" for size in sizes])
    if name in classes:
        count = classes[name]
        limits = [] if count is None else ["min: 0", f"max: {count - 1}"]
        lines += block("int_domain", [*limits, "is_categorical: true"])
    elif feature.encoding in IMAGE_ENCODINGS:
        lines.append("image_domain { }")
    return block("feature", lines)


def _sparse_lines(name: str, feature: Feature) -> list[str]:
    kind = {"float32": "FLOAT", "int64": "INT"}[feature.dtype]
    indices, values = f"{name}/indices", f"{name}/values"
    return [
        *block("feature", [f"name: {quoted(indices)}", "type: INT", *block("value_count", ["min: 0"])]),
        *block("feature", [f"name: {quoted(values)}", f"type: {kind}", *block("value_count", ["min: 0"])]),
        *block(
            "sparse_feature",
            [
                f"name: {quoted(name)}",
                f"index_feature {{ name: {quoted(indices)} }}",
                f"value_feature {{ name: {quoted(values)} }}",
                f"dense_shape {{ dim {{ size: {feature.shape[0]} }} }}",
            ],
        ),
    ]
