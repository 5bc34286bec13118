"""Weights, datasets and files that would be downloaded, and models that would be saved or loaded elsewhere."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from bushel.checking.running.replacements import paths
from bushel.checking.running.user_code import seen, user_place

random_weights: list[str] = []  # what stands in for weights that are not here


def install() -> None:
    """Patch the functions that download, save and load."""
    import keras
    import tensorflow as tf

    for name in dir(keras.applications):
        build = getattr(keras.applications, name)
        if callable(build) and name[:1].isupper():
            replace_everywhere(build, _without_download(build, name))
    for owner in {keras.Model, keras.Sequential}:
        for name in ("save", "save_weights", "export"):
            _writing(owner, name, paths)
    _loading_weights(keras.Model, paths)
    save, load = keras.models.save_model, keras.models.load_model
    replace_everywhere(save, lambda model, path, *a, **k: save(model, paths.for_writing(path), *a, **k))
    replace_everywhere(load, lambda path, *a, **k: _loaded(load(paths.for_reading(path), *a, **k)))
    replace_everywhere(keras.utils.get_file, _refuse_download(keras.utils.get_file))
    for name in ("image_dataset_from_directory", "text_dataset_from_directory"):
        replace_everywhere(getattr(keras.utils, name), _from_folder(getattr(keras.utils, name)))
    _small_datasets(keras)
    callbacks = keras.callbacks
    for name in ("ModelCheckpoint", "CSVLogger", "BackupAndRestore", "TensorBoard"):
        _callback(getattr(callbacks, name, None), paths)
    original = tf.summary.create_file_writer
    tf.summary.create_file_writer = lambda logdir, *a, **k: original(paths.for_writing(logdir), *a, **k)
    manager = tf.train.CheckpointManager
    begin = manager.__init__
    manager.__init__ = lambda self, checkpoint, directory, *a, **k: begin(
        self, checkpoint, paths.for_writing(directory), *a, **k
    )
    latest = tf.train.latest_checkpoint
    tf.train.latest_checkpoint = lambda folder, *a, **k: latest(paths.for_writing(folder), *a, **k)


def _from_folder(original: Any) -> Any:
    @functools.wraps(original)
    def make(directory: Any, *args: Any, **kwargs: Any) -> Any:
        return original(paths.for_reading(directory), *args, **kwargs)

    return make


def _loaded(model: Any) -> Any:
    for layer in model._flatten_layers():  # other models may be made of them
        layer.__dict__["_bushel_loaded"] = True
        layer.__dict__.pop("_bushel_history", None)
    return model


@functools.cache
def _homes() -> dict[int, list[tuple[Any, str]]]:
    """The modules and names under which Keras offers each of its functions, looked up once."""
    found: dict[int, list[tuple[Any, str]]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("keras", "tensorflow.keras")):
            for attribute, value in list(vars(module).items()):
                if callable(value):
                    found.setdefault(id(value), []).append((module, attribute))
    return found


def replace_everywhere(original: Any, new: Any) -> None:
    """Keras offers one function under many names."""
    for module, attribute in _homes().get(id(original), []):
        if getattr(module, attribute) is original:
            setattr(module, attribute, new)


def _without_download(original: Any, name: str) -> Any:
    @functools.wraps(original)
    def build(*args: Any, **kwargs: Any) -> Any:
        weights = kwargs.get("weights", "imagenet")
        is_positional = len(args) > 1
        if is_positional:
            weights = args[1]
        if weights is not None and not os.path.exists(str(weights)):
            random_weights.append(name)
            seen.tell_once("weights", name=name, place=user_place())
            if is_positional:
                args = (args[0], None, *args[2:])
            else:
                kwargs["weights"] = None
            if kwargs.get("include_top", args[0] if args else True):
                kwargs.setdefault("classes", 1000)
        return original(*args, **kwargs)

    return build


def _writing(owner: Any, name: str, paths: Any) -> None:
    original = getattr(owner, name, None)
    if original is None or (name not in owner.__dict__ and owner.__name__ != "Model"):
        return

    @functools.wraps(original)
    def write(self: Any, filepath: Any = None, *args: Any, **kwargs: Any) -> Any:
        if filepath is None:
            return original(self, *args, **kwargs)
        return original(self, paths.for_writing(filepath), *args, **kwargs)

    setattr(owner, name, write)


def _loading_weights(owner: Any, paths: Any) -> None:
    original = owner.load_weights

    @functools.wraps(original)
    def load(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        found = paths.for_reading(filepath)
        if not os.path.exists(str(found)) and not os.path.exists(f"{found}.index"):
            random_weights.append(str(filepath))
            seen.tell_once("weights", name=str(filepath), place=user_place())
            _loaded(self)
            return None
        _loaded(self)
        return original(self, found, *args, **kwargs)

    owner.load_weights = load
    assign = owner.set_weights

    @functools.wraps(assign)
    def set_weights(self: Any, weights: Any) -> Any:
        _loaded(self)
        return assign(self, weights)

    owner.set_weights = set_weights


def _refuse_download(original: Any) -> Any:
    @functools.wraps(original)
    def get(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception as error:
            raise NetworkFile(f"{args[0] if args else kwargs.get('fname')} cannot be downloaded") from error

    return get


class NetworkFile(OSError):
    """A file that only the network has."""


def _small_datasets(keras: Any) -> None:
    """Stand-ins of the right shapes for the datasets that Keras downloads."""
    import numpy as np

    def images(*shape: int, classes: int) -> Any:
        def load(*_: Any, **__: Any) -> Any:
            seen.tell_once("note", text="a dataset of keras.datasets is replaced by random images: it is not here")
            seen.tell_once("stand_in", place=user_place())
            draw = np.random.default_rng(0)

            def part(count: int) -> Any:
                labels = draw.integers(0, classes, count).astype("uint8")
                return draw.integers(0, 256, (count, *shape), "uint8"), labels if len(shape) == 2 else labels[:, None]

            return part(1024), part(256)

        return load

    for name, shape, classes in (
        ("mnist", (28, 28), 10),
        ("fashion_mnist", (28, 28), 10),
        ("cifar10", (32, 32, 3), 10),
        ("cifar100", (32, 32, 3), 100),
    ):
        getattr(keras.datasets, name).load_data = images(*shape, classes=classes)


def _callback(kind: Any, paths: Any) -> None:
    if kind is None:
        return
    begin = kind.__init__

    @functools.wraps(begin)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if args:
            args = (paths.for_writing(args[0]), *args[1:])
        for name in ("filepath", "filename", "backup_dir", "log_dir"):
            if name in kwargs:
                kwargs[name] = paths.for_writing(kwargs[name])
        begin(self, *args, **kwargs)

    kind.__init__ = __init__
