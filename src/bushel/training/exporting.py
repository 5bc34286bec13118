"""A trained model for other programs: a SavedModel, ONNX or LiteRT, with its preparation inside, and verified.

What a format cannot hold is reported in a line. A process without bushel then answers the golden inputs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.contract import Contract
from bushel.contract.document import load_array, load_sample
from bushel.data.samples import Sample
from bushel.data.schema import BYTES_KIND, Feature, Schema
from bushel.errors import BushelError, FileProblem, SchemaMismatch, missing_package
from bushel.feeding.preparation import Input, Preparation, prepare_samples, probabilities
from bushel.feeding.trees import Trees
from bushel.keras import load_keras
from bushel.storage import AnyPath
from bushel.tensorflow.datasets import lay_out
from bushel.tensorflow.operations import Table, chains_of, transform_batch
from bushel.tensorflow.tensors import load_tensorflow, parse_fn, value_dtype
from bushel.training.predicting import TrainedModel, open_run
from bushel.transforms import cast, decode_image, normalise, resize
from bushel.transforms.interface import declared

__all__ = ["FORMATS", "ExportedModel", "export_run"]

Format: TypeAlias = Literal["savedmodel", "onnx", "litert"]
FORMATS: tuple[Format, ...] = get_args(Format)
_FILES = {"savedmodel": "", "onnx": "model.onnx", "litert": "model.tflite"}
_ABOUT = "export.json"
_OPSET = 18
_CLOSE = 1e-3  # how far outputs may differ from those of training, relative to the largest
_VERIFYING = 600  # seconds

Tensors: TypeAlias = dict[str, Any]
Function: TypeAlias = Callable[[Tensors], Tensors]


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """One way to call the exported model: `inputs` are dtype and shape by argument, for a batch of rows."""

    name: str
    inputs: dict[str, str]
    outputs: list[str]
    is_verified: bool = False


class ExportedModel(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported: where it is, how it is called, and what its format could not hold."""

    path: str
    format: Format
    signatures: list[Signature]
    classes: list[str]
    notes: list[str]


class _Entry(msgspec.Struct, frozen=True):
    """A signature in the making: TensorFlow's specs of its arguments, what it does, and arguments that are golden."""

    name: str
    specs: dict[str, Any]
    run: Function
    golden: dict[str, Any] | None


def export_run(
    run: AnyPath, out: AnyPath, *, format: Format = "savedmodel", verify: bool = True, overwrite: bool = False
) -> ExportedModel:
    """Export the model of a run to the folder `out`, and verify it with the golden inputs of its contract.

    A `savedmodel` has up to three signatures: `serving_default` takes raw samples (bytes of images, texts, columns),
    `examples` serialised Examples, and `tensors` the model's own inputs. `onnx` and `litert` take the inputs after
    images were decoded and resized; scaling is inside.

    >>> bushel.export_run("runs/cats", "serving/cats/1").signatures
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}; got {format!r}")
    folder = Path(out)
    if folder.exists() and not (overwrite and folder.is_dir()) and (not folder.is_dir() or any(folder.iterdir())):
        raise FileProblem(folder, "there is something already", help=["Use overwrite to replace it."])
    opened = open_run(run)
    _demand_tensorflow()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place, _quiet():
        made = Path(place) / "made"
        made.mkdir()
        server = _Server(opened)
        entries = server.entries() if format == "savedmodel" else [server.plain_entry(format)]
        _WRITERS[format](server, entries, made / _FILES[format])
        verified = _verify(opened.contract, entries, made, format, server.notes) if verify else set()
        signatures = [_described(entry, opened.contract, entry.name in verified) for entry in entries]
        exported = ExportedModel(
            path=str(folder),
            format=format,
            signatures=signatures,
            classes=opened.contract.target.classes,
            notes=server.notes,
        )
        (made / _ABOUT).write_bytes(msgspec.json.format(msgspec.json.encode(exported), indent=2) + b"\n")
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    return exported


def _demand_tensorflow() -> None:
    load_tensorflow()
    backend = load_keras("bushel export").backend.backend()
    if backend != "tensorflow":
        raise ValueError(f"bushel export needs Keras on TensorFlow, and it runs on {backend}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Converters warn of what is tested here."""
    levels = {name: logging.getLogger(name).level for name in ("absl", "tensorflow", "tf2onnx")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


class _Server:
    """The model of a run as functions of tensors."""

    def __init__(self, opened: TrainedModel) -> None:
        self.opened = opened
        self.contract: Contract = opened.contract
        self.preparation: Preparation = opened.contract.preparation
        self.notes: list[str] = []
        self.samples: list[Sample] = [load_sample(golden.sample) for golden in self.contract.golden]
        self.model = _trees_function(opened.model) if isinstance(opened.model, Trees) else _network(opened.model)

    def entries(self) -> list[_Entry]:
        """All signatures that TensorFlow's ops can make."""
        found = []
        for make in (self._raw_entry, self._example_entry):
            try:
                found.append(make())
            except (BushelError, ValueError) as error:
                what = "raw samples" if make == self._raw_entry else "serialised Examples"
                why = str(error).splitlines()[0].replace('engine must be "native" for ', "there are no ops for ")
                self.notes.append(f"no signature takes {what}: {why}")
        tensors = self._tensor_entry()
        if not any(entry.name == "serving_default" for entry in found):
            tensors = msgspec.structs.replace(tensors, name="serving_default")
        return [*found, tensors]

    def _tensor_entry(self) -> _Entry:
        golden = self._prepared(self.preparation) if self.samples else None
        return _Entry("tensors", {given.name: _spec(given) for given in self.preparation.inputs}, self._answer, golden)

    def _example_entry(self) -> _Entry:
        tf = load_tensorflow()
        schema, features = self.contract.schema, list(self.preparation.features)
        parse = parse_fn(schema, features)
        chains_of(self.preparation.steps)

        def run(given: Tensors) -> Tensors:
            return self._from_records(parse(given["examples"]))

        golden = None
        if schema.record == "example" and self.samples:
            golden = {"examples": np.array([_example(sample, schema, features) for sample in self.samples], object)}
        return _Entry("examples", {"examples": tf.TensorSpec([None], tf.string, name="examples")}, run, golden)

    def _raw_entry(self) -> _Entry:
        """Columns of raw samples: those of the source, taken through the transforms of the build."""
        steps = [step for step in self.preparation.build if declared(step).feature != self.contract.label]
        schema = self.contract.raw if steps and self.contract.raw is not None else self.contract.schema
        chains = chains_of(steps)
        made = {chain.target for chain in chains}
        names = dict.fromkeys([name for name in self.preparation.features if name not in made])
        names |= dict.fromkeys(chain.source for chain in chains if chain.source in schema)
        specs = {name: _raw_spec(name, schema[name]) for name in names}
        transform = transform_batch(steps, schema, specs)
        images = [given.name for given in self.preparation.inputs if given.kind == "image"]
        if images:
            self.notes.append("raw images are used as they are stored: turn photos upright before they are sent")

        def run(given: Tensors) -> Tensors:
            return self._from_records(transform(given, (0, 0)) if steps else given)

        golden = (
            None if steps or not self.samples else {name: _column(self.samples, name, specs[name]) for name in names}
        )
        return _Entry("serving_default", specs, run, golden)

    def plain_entry(self, format: Format) -> _Entry:
        """The inputs before they are scaled, for formats that cannot decode images or know no text."""
        tf = load_tensorflow()
        for given in self.preparation.inputs:
            if given.dtype == "string":
                raise SchemaMismatch(
                    f"{_WORDS[format]} has no operations for text, and this is fed as {given.kind}",
                    at=given.name,
                    help=["Export a savedmodel, which holds the whole preparation."],
                )
        unscaled = msgspec.structs.replace(self.preparation, scaling=(), transforms=_unscaled(self.preparation))
        golden = self._prepared(unscaled)
        specs = {
            name: tf.TensorSpec([None, *array.shape[1:]], array.dtype, name=_argument(name))
            for name, array in golden.items()
        }
        scaling = [step for step in self.preparation.steps if step not in unscaled.transforms]
        transform = transform_batch(scaling, self.contract.schema, {})
        before = [_STEPS.get(type(step), type(step).__name__) for step in unscaled.transforms]
        before += ["padding"] * bool(unscaled.layout)
        if before:
            steps = " and ".join(dict.fromkeys(before))
            self.notes.append(f"{_WORDS[format]} cannot hold {steps}: do this before you call the model")
        return _Entry("serving_default", specs, lambda given: self._answer(transform(given, (0, 0))), golden)

    def _prepared(self, preparation: Preparation) -> dict[str, Any]:
        columns = prepare_samples(preparation, self.contract.schema, self.samples)
        return {given.name: columns[given.name] for given in preparation.inputs}

    def _from_records(self, columns: Tensors) -> Tensors:
        """Records to answers: transforms, layout, and missing values as the model is fed them."""
        tf = load_tensorflow()
        specs = {given.name: _spec(given) for given in self.preparation.inputs}
        columns = transform_batch(self.preparation.steps, self.contract.schema, specs)(columns, (0, 0))
        columns = lay_out(self.preparation.layout, columns)
        inputs = {}
        for given in self.preparation.inputs:
            value = _dense(columns[given.name], given)
            value = value if given.dtype == "string" else tf.cast(value, given.dtype)
            inputs[given.name] = tf.reshape(value, [-1, *(size if size is not None else -1 for size in given.shape)])
        return self._answer(inputs)

    def _answer(self, inputs: Tensors) -> Tensors:
        """The model's outputs, as probabilities by class or as numbers."""
        tf, target = load_tensorflow(), self.contract.target
        outputs = tf.cast(self.model({given.name: inputs[given.name] for given in self.preparation.inputs}), tf.float32)
        if target.kind == "regression":
            return {"value": outputs[:, 0] if target.width == 1 else outputs}
        is_logits = self.contract.output_kind == "logits"
        if target.kind == "multi_label" or outputs.shape[-1] == 1:
            shares = tf.sigmoid(outputs) if is_logits else outputs
            shares = shares if target.kind == "multi_label" else tf.concat([1 - shares, shares], 1)
        else:
            shares = tf.nn.softmax(outputs) if is_logits else outputs
        return {"probabilities": shares}

    def with_labels(self, answers: Tensors) -> Tensors:
        """The names of the classes too, which only TensorFlow's own format holds."""
        tf, target = load_tensorflow(), self.contract.target
        if not target.is_classes or answers["probabilities"].shape[-1] != len(target.classes):
            return answers
        best = tf.argmax(answers["probabilities"], axis=1)
        return {**answers, "label": tf.gather(tf.constant(target.classes), best)}


_WORDS = {"onnx": "ONNX", "litert": "LiteRT"}
_STEPS: dict[Any, str] = {decode_image: "decoding of images", resize: "resizing"}


def _unscaled(preparation: Preparation) -> tuple[Any, ...]:
    """The transforms without those at their end that only change numbers, which every format can hold."""
    steps = list(preparation.steps)
    while steps and isinstance(steps[-1], normalise | cast):
        steps.pop()
    return tuple(steps)


def _network(model: Any) -> Callable[[Tensors], Any]:
    def call(inputs: Tensors) -> Any:
        return model(next(iter(inputs.values())) if len(inputs) == 1 else inputs, training=False)

    return call


def _trees_function(trees: Trees) -> Callable[[Tensors], Any]:
    """The same trees as ops: all rows go down all trees together, as many times as the deepest tree has levels."""
    tf, forest = load_tensorflow(), trees.forest
    feature, left, right = (np.asarray(part, np.int32) for part in (forest.feature, forest.left, forest.right))
    # The largest float32 that is at most the threshold: float32 values compare with it in the same way.
    threshold = forest.threshold.astype(np.float32)
    threshold = np.where(threshold > forest.threshold, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    bits = (forest.level_sets[:, np.arange(256) >> 5] >> (np.arange(256) & 31).astype(np.uint32)) & 1
    columns = np.eye(len(forest.base), dtype=np.float32)[forest.column]
    has_levels = bool((forest.levels >= 0).any())

    def call(inputs: Tensors) -> Any:
        rows = _table(trees, inputs)
        at = tf.tile(tf.constant(forest.roots)[None], [tf.shape(rows)[0], 1])
        for _ in range(_depth(trees)):
            column = tf.gather(feature, at)
            values = tf.gather(rows, tf.maximum(column, 0), axis=1, batch_dims=1)
            is_missing = tf.math.is_nan(values)
            goes_left = values <= tf.gather(threshold, at)
            if has_levels:
                sets = tf.gather(np.asarray(forest.levels, np.int32), at)
                codes = tf.cast(tf.where(is_missing, tf.zeros_like(values), tf.clip_by_value(values, 0, 255)), tf.int32)
                is_in = tf.gather(bits.astype(np.float32).reshape(-1), tf.maximum(sets, 0) * 256 + codes) > 0.5
                goes_left = tf.where(sets >= 0, is_in, goes_left)
            goes_left = tf.where(is_missing, tf.gather(forest.missing_left, at), goes_left)
            at = tf.where(column >= 0, tf.where(goes_left, tf.gather(left, at), tf.gather(right, at)), at)
        return tf.matmul(tf.gather(forest.value.astype(np.float32), at), columns) + forest.base.astype(np.float32)

    return call


def _depth(trees: Trees) -> int:
    """How many levels the deepest tree has."""
    forest = trees.forest
    depth = np.zeros(len(forest.feature), np.int64)
    for node in np.flatnonzero(forest.feature >= 0):
        depth[forest.left[node]] = depth[forest.right[node]] = depth[node] + 1
    return int(depth.max(initial=0))


def _table(trees: Trees, inputs: Tensors) -> Any:
    tf, parts = load_tensorflow(), []
    for given in trees.inputs:
        value = inputs[given.name]
        if given.levels is None:
            parts.append(tf.reshape(tf.cast(value, tf.float32), [-1, given.width]))
            continue
        if value.dtype == tf.string:
            codes = Table([str(level) for level in given.levels]).places(tf.reshape(value, [-1]))
        else:
            levels = tf.constant(np.array(given.levels, np.int64))
            hits = tf.cast(tf.reshape(value, [-1, 1]), tf.int64) == levels[None]
            codes = tf.where(tf.reduce_any(hits, 1), tf.argmax(tf.cast(hits, tf.int32), 1), len(given.levels))
        codes = tf.cast(codes, tf.float32)
        parts.append(tf.where(codes < len(given.levels), codes, np.float32(np.nan))[:, None])
    return tf.concat(parts, 1)


def _spec(given: Input) -> Any:
    return load_tensorflow().TensorSpec([None, *given.shape], given.dtype, name=_argument(given.name))


def _argument(name: str) -> str:
    """A name that every format takes for an argument."""
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
    return plain if plain[:1].isalpha() else f"x_{plain}"


def _raw_spec(name: str, feature: Feature) -> Any:
    tf = load_tensorflow()
    if feature.sequence or feature.is_ragged or feature.encoding == "sparse":
        raise SchemaMismatch("lists of different lengths cannot be expressed in a signature", at=name)
    if feature.kind == BYTES_KIND and feature.encoding != "raw":
        return tf.TensorSpec([None], tf.string, name=_argument(name))
    dtype = value_dtype(feature) if feature.required else tf.float32  # NaN is a missing value
    return tf.TensorSpec([None, *feature.shape], dtype, name=_argument(name))


def _dense(value: Any, given: Input) -> Any:
    tf = load_tensorflow()
    if isinstance(value, tf.SparseTensor):
        return tf.sparse.to_dense(value)
    if not isinstance(value, tf.RaggedTensor):
        return value
    if given.dtype == "string":
        return value.to_tensor("", shape=[None, 1])
    return tf.cast(value, tf.float32).to_tensor(np.float32(np.nan), shape=[None, 1])


def _example(sample: Sample, schema: Schema, names: list[str]) -> bytes:
    """A sample as a serialised Example."""
    tf = load_tensorflow()
    features = {name: _feature(sample[name], schema[name]) for name in names if sample.get(name) is not None}
    sparse = [name for name in features if schema[name].encoding == "sparse"]
    for name in sparse:
        row = sample[name]
        features |= {
            f"{name}/indices": tf.train.Feature(int64_list=tf.train.Int64List(value=row.places)),
            f"{name}/values": tf.train.Feature(float_list=tf.train.FloatList(value=row.values)),
        }
        del features[name]
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _feature(value: Any, feature: Feature) -> Any:
    train = load_tensorflow().train
    if feature.encoding == "sparse":
        return train.Feature()
    if feature.kind == BYTES_KIND and feature.encoding == "raw":
        stored = np.ascontiguousarray(value, np.dtype(feature.dtype).newbyteorder("<")).tobytes()
        return train.Feature(bytes_list=train.BytesList(value=[stored]))
    if feature.kind == BYTES_KIND:
        values = value if isinstance(value, list) else [value]
        texts = [text.encode() if isinstance(text, str) else bytes(text) for text in values]
        return train.Feature(bytes_list=train.BytesList(value=texts))
    flat = np.ravel(np.asarray(value))
    if flat.dtype.kind == "f":
        return train.Feature(float_list=train.FloatList(value=flat))
    return train.Feature(int64_list=train.Int64List(value=flat.astype(np.int64)))


def _column(samples: list[Sample], name: str, spec: Any) -> NDArray[Any]:
    """One feature of samples as an argument: missing values are NaN or empty."""
    values = [sample.get(name) for sample in samples]
    if spec.dtype == "string":
        texts = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
        return np.array(texts, object)
    return np.array([np.nan if value is None else value for value in values], spec.dtype.as_numpy_dtype)


def _concrete(server: _Server, entry: _Entry) -> Any:
    """A traced function whose arguments have the names of the signature."""
    tf = load_tensorflow()
    names = {_argument(name): name for name in entry.specs}

    def run(**given: Any) -> Tensors:
        answers = entry.run({names[argument]: value for argument, value in given.items()})
        return server.with_labels(answers)

    specs = {_argument(name): spec for name, spec in entry.specs.items()}
    return tf.function(tf.autograph.experimental.do_not_convert(run)).get_concrete_function(**specs)


def _frozen(entry: _Entry) -> Any:
    """A function without variables: converters lose what a function holds beside its arguments."""
    tf = load_tensorflow()
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    specs, names = list(entry.specs.values()), []

    def run(*given: Any) -> Any:
        ((name, answer),) = entry.run(dict(zip(entry.specs, given, strict=True))).items()
        names.append(name)
        return answer

    plain = tf.autograph.experimental.do_not_convert
    constant = convert_variables_to_constants_v2(tf.function(plain(run), input_signature=specs).get_concrete_function())
    if len(constant.inputs) != len(specs):
        raise ValueError("it holds lookup tables, and only a savedmodel can hold them")
    arguments = [tensor.name.partition(":")[0] for tensor in constant.inputs]
    places = [arguments.index(spec.name) if spec.name in arguments else number for number, spec in enumerate(specs)]

    def call(*given: Any) -> Tensors:
        ordered = [given[place] for place in np.argsort(places)]
        answer = constant(*ordered)
        return {names[0]: answer[0] if isinstance(answer, list | tuple) else answer}

    return tf.function(plain(call), input_signature=specs)


def _write_savedmodel(server: _Server, entries: list[_Entry], path: Path) -> None:
    tf = load_tensorflow()
    module = tf.Module()
    if not isinstance(server.opened.model, Trees):
        module.model = server.opened.model  # with its variables and tables
    signatures = {entry.name: _concrete(server, entry) for entry in entries}
    tf.saved_model.save(module, str(path), signatures=signatures)


def _write_onnx(_: _Server, entries: list[_Entry], path: Path) -> None:
    try:
        import onnx  # noqa: F401
        import tf2onnx
        from keras.src.export.tf2onnx_lib import patch_tf2onnx
    except ImportError:
        raise missing_package("tf2onnx and onnx", extra="onnx", purpose="export --format onnx") from None
    patch_tf2onnx()  # for NumPy 2
    with _refusing("ONNX"):
        function = _frozen(entries[0])
        tf2onnx.convert.from_function(function, function.input_signature, opset=_OPSET, output_path=str(path))


def _write_litert(_: _Server, entries: list[_Entry], path: Path) -> None:
    tf = load_tensorflow()
    with tempfile.TemporaryDirectory() as folder, _refusing("LiteRT"):
        tf.saved_model.save(tf.Module(), folder, signatures={"serving_default": _frozen(entries[0])})
        path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(folder).convert())


@contextlib.contextmanager
def _refusing(words: str) -> Iterator[None]:
    """One line for a model that a converter cannot convert."""
    try:
        yield
    except (BushelError, ImportError, KeyboardInterrupt):
        raise
    except Exception as error:  # converters raise errors of their own
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = (lines or [type(error).__name__])[0][:200]
        raise FileProblem(words, f"the model cannot be converted: {why}") from None


_WRITERS: dict[Format, Callable[[_Server, list[_Entry], Path], None]] = {
    "savedmodel": _write_savedmodel,
    "onnx": _write_onnx,
    "litert": _write_litert,
}

# Runs in a process of its own, which knows the exported files and the arguments, and nothing of bushel.
_ASK = """
import base64, json, sys
import numpy as np

def array(stored):
    if stored["dtype"] == "object":
        return np.array([base64.b64decode(text) for text in stored["data"]], object)
    return np.frombuffer(base64.b64decode(stored["data"]), stored["dtype"]).reshape(stored["shape"])

path, format = sys.argv[1:3]
cases = {name: {key: array(value) for key, value in given.items()} for name, given in json.load(sys.stdin).items()}
found = {}
if format == "savedmodel":
    import tensorflow as tf
    loaded = tf.saved_model.load(path)
    for name, given in cases.items():
        answers = loaded.signatures[name](**{key: tf.constant(value) for key, value in given.items()})
        found[name] = {key: value.numpy() for key, value in answers.items()}
elif format == "onnx":
    import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for name, given in cases.items():
        found[name] = dict(zip(names, session.run(None, given)))
else:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        import tensorflow as tf
        Interpreter = tf.lite.Interpreter
    runner = Interpreter(model_path=path).get_signature_runner("serving_default")
    for name, given in cases.items():
        found[name] = {key: np.array(value) for key, value in runner(**given).items()}
assert not any(name.split(".")[0] == "bushel" for name in sys.modules)
numbers = {name: {k: v.tolist() for k, v in given.items() if v.dtype.kind == "f"} for name, given in found.items()}
print(json.dumps(numbers))
"""


def _verify(contract: Contract, entries: list[_Entry], made: Path, format: Format, notes: list[str]) -> set[str]:
    """Ask a process without bushel about the golden inputs; returns the signatures that answer as in training."""
    expected = _expected(contract)
    cases = {entry.name: _stored(entry) for entry in entries if entry.golden is not None}
    if expected is None or not cases:
        notes.append("nothing was verified, because the contract has no golden outputs")
        return set()
    path = made / _FILES[format]
    done = subprocess.run(
        [sys.executable, "-P", "-c", _ASK, str(path), format],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=_VERIFYING,
        check=False,
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1][:200]
        if format == "onnx" and "onnxruntime" in why and "No module" in why:
            notes.append('nothing was verified, because onnxruntime is missing: pip install "bushel[onnx]"')
            return set()
        raise FileProblem(path.name or made.name, f"what was exported does not run: {why}")
    answers = json.loads(done.stdout.splitlines()[-1])
    for name, given in answers.items():
        got = np.array(next(iter(given.values())), np.float64).reshape(len(expected), -1)
        away = float(np.abs(got - expected).max(initial=0)) if got.shape == expected.shape else np.inf
        if not away <= _CLOSE * max(1.0, float(np.abs(expected).max(initial=0))):
            raise FileProblem(
                path.name or made.name,
                f"{name} answers the golden inputs with up to {away:.3g} more or less than in training",
                help=["Nothing was exported."],
            )
    for entry in entries:
        if entry.golden is None:
            notes.append(f"{entry.name} was not verified: golden inputs are records, after the build's transforms")
    return set(answers)


def _expected(contract: Contract) -> NDArray[np.float64] | None:
    rows = [load_array(array) for golden in contract.golden for array in golden.outputs.values()]
    kept = [row.reshape(1, -1) for row in rows if row is not None]
    if not kept or len(kept) < len(contract.golden):
        return None
    answers = probabilities(contract.target.kind, np.concatenate(kept), contract.output_kind)
    return answers.astype(np.float64)


def _stored(entry: _Entry) -> dict[str, Any]:
    return {_argument(name): _stored_array(np.asarray(value)) for name, value in (entry.golden or {}).items()}


def _stored_array(array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype == object:
        texts = [base64.b64encode(value).decode() for value in array.reshape(-1)]
        return {"dtype": "object", "data": texts}
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def _described(entry: _Entry, contract: Contract, is_verified: bool) -> Signature:
    words = {
        _argument(name): f"{spec.dtype.name} {[size or 'N' for size in spec.shape.as_list()]}"
        for name, spec in entry.specs.items()
    }
    outputs = ["value"] if contract.target.kind == "regression" else ["probabilities"]
    return Signature(name=entry.name, inputs=words, outputs=outputs, is_verified=is_verified)
