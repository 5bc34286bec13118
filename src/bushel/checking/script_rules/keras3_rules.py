"""KER and PIP050: what Keras 3 removed or moved, found by reading; a run meets it too, later and in other words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from bushel.checking.findings import Finding, rule
from bushel.checking.script.followed_script import At, Edit, Event, Script, Trace, at, replaced
from bushel.checking.script.keras_calls import REMOVED_NAMES
from bushel.checking.script.known_values import Const, KerasObject, Mapping, Seq, Text

METHODS = {
    "reset_states": "reset_state (of a metric), or reset_state of each stateful layer",
    "predict_classes": "predict(x).argmax(axis=-1)",
    "predict_proba": "predict",
    "predict_generator": "predict",
    "evaluate_generator": "evaluate",
    "to_yaml": "to_json",
}
NAMES = {
    "keras.layers.experimental": "keras.layers",
    "keras.utils.np_utils": "keras.utils",
    "keras.experimental": "keras",
    "keras.engine": "keras",
    "keras.utils.data_utils": "keras.utils",
    "keras.mixed_precision.experimental": "keras.mixed_precision",
    "keras.backend.set_session": "nothing: there are no sessions",
    "keras.backend.get_session": "nothing: there are no sessions",
    "keras.backend.learning_phase": "the training argument of a layer's call",
    "keras.backend.set_learning_phase": "the training argument of a layer's call",
    "keras.backend.function": "keras.Model",
    "keras.backend.set_value": "variable.assign(value)",
    "keras.backend.get_value": "float(variable)",
    "keras.backend.placeholder": "keras.Input",
    "keras.callbacks.experimental": "keras.callbacks",
    "keras.estimator": "keras.Model",
    "keras.layers.LocallyConnected1D": "keras.layers.Conv1D",
    "keras.layers.LocallyConnected2D": "keras.layers.Conv2D",
    "keras.utils.multi_gpu_model": "tf.distribute.MirroredStrategy",
}
_OPTIMIZER = re.compile(r"^(?!(args|cfg|conf|config|flags|hp|hparams|params|settings)\b)(.*\.)?_?opt(imizer)?$", re.I)
FIT_KEYWORDS = ("workers", "use_multiprocessing", "max_queue_size")
LAYER_KEYWORDS = {"batch_input_shape": "an Input with batch_shape", "time_major": "tf.transpose", "fused": "nothing"}


@rule("KER001", "gone-in-keras-3", needs="script", rank=3)
def gone_in_keras_3(trace: Trace) -> Iterator[Finding]:
    """Names and arguments that Keras 3 no longer has.

    Why: an `AttributeError` or `TypeError`, often only after the first epoch.
    Example: `metric.reset_states()`, `fit(..., workers=4)`, `keras.layers.experimental.preprocessing.Rescaling`
    Fix: the name that took its place.
    Ignore: where Keras 2 is pinned, or `tf_keras` imported in its place.
    """
    if not _is_keras_3(trace.script):
        return
    for script in trace.scripts:
        yield from _names(script)
    for event in trace.of("tf-on-keras"):
        message = f"{event.info['name']} is given a tensor of keras.Input, which TensorFlow's functions do not take"
        yield at(event, message, help="use keras.ops, or a layer")
    for event in trace.of("add-loss"):
        yield at(
            event,
            "add_loss of a model takes no loss of its symbolic tensors in Keras 3",
            help="call add_loss inside a layer, or write a train_step",
        )
    for event in trace.of("compile"):
        outputs, metrics = getattr(event.info["model"], "output", None), event.info["call"].get(-1, "metrics")
        count = len(outputs.items) if isinstance(outputs, Seq | Mapping) else 1
        is_flat = isinstance(metrics, Seq) and all(isinstance(one, Const | KerasObject) for one in metrics.items)
        if count > 1 and isinstance(metrics, Seq) and is_flat and len(metrics.items) != count:
            node = event.info["call"].value_node(-1, "metrics")
            yield at(
                At(node, event.script),
                f"the model has {count} outputs, but metrics is one flat list",
                help="give a dict or a list of one list per output",
            )


def _names(script: Script) -> Iterator[Finding]:
    """Names in one file that are gone."""
    names = _imported(script.tree)
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call):
            yield from _call(script, node)
        if isinstance(node, ast.Attribute):
            whole = _dotted(node, names)
            if not (whole.startswith("tensorflow") and whole.endswith(("backend.get_value", "backend.set_value"))):
                yield from _name(script, node, _short(whole))  # tf.keras has these two still
            if node.attr == "lr" and _OPTIMIZER.search(ast.unparse(node.value)):
                yield at(At(node, script), "optimizers of Keras 3 have no lr", help="use learning_rate")
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield from _name(script, node, _short(f"{node.module}.{alias.name}"))


@rule("KER002", "third-argument-of-compile", needs="script", rank=3)
def third_argument_of_compile(trace: Trace) -> Iterator[Finding]:
    """Metrics as the third argument of `compile`.

    Why: in Keras 3 the third place is `loss_weights`; training fails with a message about weights, or weighs the loss.
    Example: `model.compile("adam", "mse", ["mae"])`
    Fix: `model.compile("adam", "mse", metrics=["mae"])`
    Ignore: where Keras 2 is pinned.
    """
    if not _is_keras_3(trace.script):
        return
    for node in ast.walk(trace.script.tree):
        is_compile = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "compile"
        if not is_compile or not isinstance(node, ast.Call) or len(node.args) < 3:
            continue
        third = node.args[2]
        if not _is_number_list(third):
            yield at(
                At(third, trace.script),
                "the third argument of compile is loss_weights in Keras 3, but this looks like metrics",
                help="name it: metrics=[...]",
            )


@rule("KER003", "file-name-that-keras-3-refuses", needs="script", rank=3)
def file_name_refused(trace: Trace) -> Iterator[Finding]:
    """A file name that Keras 3 refuses to save to.

    Why: the error comes when the model is saved, after training.
    Example: `model.save("saved_model")`, `model.save_weights("checkpoint")`
    Fix: `.keras` for models, `.weights.h5` for weights, `model.export` for a SavedModel.
    Ignore: where Keras 2 is pinned.
    """
    if not _is_keras_3(trace.script):
        return
    for kind in ("save", "save_weights", "ModelCheckpoint"):
        for event in trace.of(kind):
            made = event.info.get("made")
            path = _ending(made.get(0, "filepath") if made is not None else event.info["path"])
            wanted = _wanted(kind, path, bool(made is not None and made.flag("save_weights_only"))) if path else None
            if wanted is not None:
                message = f"Keras 3 saves to names that end in {wanted}, but this is {path!r}"
                yield at(event, message, help=f"end it in {wanted}")


def _ending(path: Any) -> str | None:
    """The end of a path, as far as the code says it."""
    text = path.value if isinstance(path, Const) else path.fragments[-1] if isinstance(path, Text) else None
    return text if isinstance(text, str) and text else None


def _wanted(kind: str, path: str, only_weights: bool) -> str | None:
    """The suffix that Keras 3 asks for, where the name has another."""
    if kind == "save_weights" or only_weights:
        return None if path.endswith(".weights.h5") else ".weights.h5"
    return None if path.endswith((".keras", ".h5", ".hdf5")[: 3 if kind == "save" else 2]) else ".keras"


def _is_keras_3(script: Script) -> bool:
    """Whether a script uses Keras, and not a Keras 2 of its own."""
    return (
        bool(re.search(r"\bkeras\b", script.text))
        and "tf_keras" not in script.text
        and "TF_USE_LEGACY_KERAS" not in script.text
    )


def _is_number_list(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.List | ast.Tuple):
        return all(isinstance(one, ast.Constant) and isinstance(one.value, int | float) for one in node.elts)
    return not isinstance(node, ast.Call)


def _call(script: Script, node: ast.Call) -> Iterator[Finding]:
    if not isinstance(node.func, ast.Attribute):
        return
    name = node.func.attr
    if name in METHODS and not _defines(script, name) and not _is_of_layers(script, name):
        yield at(At(node, script), f"Keras 3 has no {name}", help=f"use {METHODS[name]}")
    if name in ("fit", "evaluate", "predict"):
        for keyword in node.keywords:
            if keyword.arg in FIT_KEYWORDS:
                yield at(
                    At(keyword.value, script),
                    f"{name} of Keras 3 has no {keyword.arg}",
                    help="give it to the PyDataset",
                )
    for keyword in node.keywords:
        if keyword.arg in LAYER_KEYWORDS and name[:1].isupper():
            yield at(
                At(keyword.value, script),
                f"layers of Keras 3 take no {keyword.arg}",
                help=f"use {LAYER_KEYWORDS[keyword.arg]}",
            )
        if keyword.arg == "period" and name == "ModelCheckpoint":
            yield at(At(keyword.value, script), "ModelCheckpoint of Keras 3 takes no period", help="use save_freq")


def _is_of_layers(script: Script, name: str) -> bool:
    """Whether `reset_states` may be that of recurrent layers, which have it still."""
    return name == "reset_states" and ("stateful" in script.text or '"reset_states"' in script.text)


def _defines(script: Script, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in ast.walk(script.tree))


def _name(script: Script, node: ast.AST, name: str) -> Iterator[Finding]:
    is_import = isinstance(node, ast.ImportFrom)
    for gone, instead in NAMES.items():
        if name == gone or (is_import and name.startswith(f"{gone}.")):
            yield at(At(node, script), f"Keras 3 has no {gone}", help=f"use {instead}")


def _imported(tree: ast.AST) -> dict[str, str]:
    """What names of a script stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _dotted(node: ast.Attribute, names: dict[str, str]) -> str:
    text = ast.unparse(node)
    head, _, rest = text.partition(".")
    return f"{names.get(head, head)}.{rest}"


def _short(name: str) -> str:
    return re.sub(r"^(tensorflow|tf)(\.python)?\.keras\b", "keras", name)


REMOVED_METHODS = {
    "fit_generator": "fit",
    "evaluate_generator": "evaluate",
    "predict_generator": "predict",
    "predict_classes": "predict(...).argmax(axis=-1)",
    "predict_proba": "predict",
    "lr": "learning_rate",
    "decay": "a learning-rate schedule",
}


@rule("PIP050", "removed-from-keras-3", needs="script")
def removed_from_keras_3(trace: Trace) -> Iterator[Finding]:
    """Calls and arguments that Keras 3 no longer has.

    Why: `AttributeError` or `ValueError` on the first run with a current Keras.
    Example: `model.fit_generator(...)`, `Adam(lr=0.001)`
    Fix: the name that took its place.
    Ignore: where Keras 2 is pinned.
    """
    for event in trace.of("removed"):
        name = event.info["name"]
        instead = REMOVED_METHODS.get(name) or REMOVED_NAMES.get(name, "")
        yield at(event, f"Keras 3 has no {name}; use {instead}", *_renamed(event, name, instead), help=f"use {instead}")


def _renamed(event: Event, name: str, instead: str) -> list[Edit]:
    """The call or keyword with the name that took the place of the old one."""
    node, script = event.node, event.script
    if name not in REMOVED_METHODS or not instead.isidentifier():
        return []
    if isinstance(node, ast.keyword):
        return [replaced(script, node, f"{instead}={script.code_of(node.value)}")]
    function = node.func if isinstance(node, ast.Call) else node
    if not isinstance(function, ast.Attribute) or function.attr != name:
        return []
    return [replaced(script, function, f"{script.code_of(function.value)}.{instead}")]
