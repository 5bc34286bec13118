"""Replacements for what is not here or does harm: paths, plots, sleep, input, downloads, packages that only report."""

from __future__ import annotations

import argparse
import builtins
import fnmatch
import functools
import glob as glob_module
import importlib.abc
import importlib.machinery
import io
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from unittest.mock import MagicMock

from bushel.checking.running.user_code import is_user_file, seen, user_place
from bushel.data.splits import split_named

# Packages that show or report; nothing a script computes depends on them.
HARMLESS = {
    "matplotlib", "seaborn", "plotly", "wandb", "mlflow", "neptune", "comet_ml", "clearml", "tensorboard", "IPython",
    "tqdm", "rich", "colorama", "termcolor", "google.colab", "kaggle_datasets", "kaggle", "pynvml", "psutil",
    "tabulate", "tensorboard_plugin_profile", "livelossplot", "visualkeras", "pydot", "graphviz", "dotenv", "loguru",
}  # fmt: skip
LONGEST_SLEEP = 0.01
_DATA_SUFFIX = re.compile(r"\.(tf_?records?|tfrec)(s?)([-.]\d|\.gz|\.zlib|$)|tfrec|-of-\d{3,}", re.IGNORECASE)
_DATA_NAME = re.compile(r"data|input|records|shard|train|valid|\bval\b|test", re.IGNORECASE)


class Paths:
    """Which files stand for a path of the script."""

    def __init__(self) -> None:
        self.top = self.copy = self.root = self.cwd = ""
        self.files: list[dict[str, Any]] = []
        self.folders: list[str] = []  # that were given as the data
        self.reported: dict[str, list[str]] = {}
        self.meant: dict[str, set[str]] = {}  # of a file of the data: the paths that it stood for
        self.exists = os.path.exists
        self.glob = glob_module.glob

    def begin(self, job: dict[str, Any]) -> None:
        """Take what the job says."""
        self.top, self.copy, self.root, self.cwd = job["top"], job["copy"], job["root"], job["cwd"]
        self.files = job["files"]
        self.folders = job.get("folders", [])

    def shadow(self, path: str) -> str:
        """Where a file outside the copy is written instead."""
        return f"{self.top}/shadow/{os.path.abspath(path).lstrip('/').replace('://', '/')}"

    def is_inside(self, path: str) -> bool:
        """Whether a path may be written to."""
        return os.path.realpath(path).startswith(self.top) or path.startswith("/dev/")

    def for_writing(self, path: Any) -> Any:
        """The path to write to."""
        text = _text(path)
        if text is None or self.is_inside(text):
            return path
        target = self.shadow(text)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return target

    def for_reading(self, path: Any) -> Any:
        """The path to read from; of several files of the data the first."""
        text = _text(path)
        if text is None or self.exists(text) or not is_of_user(text):
            return path
        found = self.elsewhere(text)
        if found is not None:
            return found
        by = self.of_data(text) if looks_like_data(text) else []
        return by[0] if by else path

    def elsewhere(self, text: str) -> str | None:
        """The same file, written by the script itself, or seen from the folder in which `check` runs."""
        if "://" in text:
            shadow = self.shadow(text)
            return shadow if self.exists(shadow) else None
        for place in (self.shadow(text), os.path.join(self.cwd, text), os.path.join(self.root, text)):
            if self.exists(place):
                return place
        if text.startswith(self.copy):  # an absolute path that was made from where the copy is
            outside = self.root + text[len(self.copy) :]
            return outside if self.exists(outside) else None
        return self.in_data(text)

    def in_data(self, text: str) -> str | None:
        """The entry of the data's folder with the last names of a path: `train/cats`, `train.csv`."""
        parts = [part for part in re.split(r"[/\\]", text) if part not in ("", ".", "..")]
        if _DATA_SUFFIX.search(text) or any(glob_module.has_magic(part) for part in parts):
            return None
        for folder in self.folders:
            for count in range(min(4, len(parts)), 0, -1):
                place = os.path.join(folder, *parts[-count:])
                if self.exists(place):
                    self._tell(text, [place])
                    return place
        return None

    def of_data(self, pattern: str) -> list[str]:
        """The files of the data that a path or pattern most likely means."""
        if not self.files:
            return []
        found = self._matching(pattern)
        if found:
            self._tell(pattern, found)
            for path in found:
                self.meant.setdefault(path, set()).add(pattern)
        return found

    def _matching(self, pattern: str) -> list[str]:
        name = os.path.basename(pattern.rstrip("/"))
        split = split_hint(pattern)
        by_name = [f for f in self.files if name and fnmatch.fnmatchcase(os.path.basename(f["path"]), name)]
        of_split = [f for f in by_name if split is not None and same_split(f["split"], split)]
        if by_name:
            return [f["path"] for f in of_split or by_name]
        if split is not None:
            return [f["path"] for f in self.files if same_split(f["split"], split)] or self._other_than_train(split)
        return [f["path"] for f in self.files]

    def _other_than_train(self, split: str) -> list[str]:
        if split == "train":
            return [f["path"] for f in self.files]
        held_out = [f["path"] for f in self.files if not same_split(f["split"], "train")]
        return held_out or [f["path"] for f in self.files]

    def _tell(self, was: str, by: list[str]) -> None:
        if was not in self.reported:
            self.reported[was] = by
            seen.tell("replaced", was=was, by=by[:8], count=len(by), place=user_place())

    def files_for(self, path: str) -> list[str]:
        """All files to read for one path that a reader was given."""
        if self.exists(path):
            return [path]
        found = self.elsewhere(path)
        if found is not None:
            return [found]
        return self.of_data(path) or [path]

    def matches(self, pattern: str, found: list[str]) -> list[str]:
        """What a pattern matches, given what it matches here."""
        if found or not looks_like_data(pattern):
            return found
        for base in (self.cwd, self.root):
            there = self.glob(os.path.join(base, pattern)) if not os.path.isabs(pattern) else []
            if there:
                return sorted(there)
        if self._is_folder_of_data(pattern):
            names = sorted(os.path.basename(file["path"]) for file in self.files)
            seen.tell_once("unmatched", pattern=pattern, names=names[:6], place=user_place())
            return []
        there = self.glob(self.shadow(pattern))
        for folder in self.folders if not there else ():
            parts = [part for part in pattern.split("/") if part not in ("", ".", "..")]
            for count in range(min(3, len(parts)), 1, -1):
                found = sorted(self.glob(os.path.join(folder, *parts[-count:])))
                if found:
                    self._tell(pattern, found)
                    return found
        return sorted(there) or self.of_data(pattern)

    def _is_folder_of_data(self, pattern: str) -> bool:
        """Whether the folder of a pattern is the one in which the data is: then the pattern is wrong."""
        folder = os.path.dirname(pattern)
        here = {os.path.dirname(file["path"]) for file in self.files}
        return not glob_module.has_magic(folder) and any(
            os.path.realpath(os.path.join(base, folder)) in here for base in (os.getcwd(), self.cwd, self.root)
        )


paths = Paths()


def _text(path: Any) -> str | None:
    if isinstance(path, bytes):
        return path.decode(errors="replace")
    if isinstance(path, str):
        return str(path)
    return str(path) if isinstance(path, os.PathLike) else None


def looks_like_data(path: str) -> bool:
    """Whether a path may be one of records: by its suffix, or a pattern in a folder of data."""
    name = os.path.basename(path.rstrip("/"))
    if _DATA_SUFFIX.search(path):
        return True
    return (
        "*" in path
        and ("." not in name or name.endswith((".*", ".record", ".records", ".gz")))
        and bool(_DATA_NAME.search(path))
    )


def split_hint(path: str) -> str | None:
    """The split that a path speaks of; the file's own name counts before its folders."""
    for part in reversed(re.split(r"[/\\]", path)):
        found = re.findall(r"train|trn|valid|val|dev|eval|test|holdout", part.lower())
        if found:
            word = str(found[-1])
            return {"trn": "train", "valid": "val", "dev": "val", "eval": "val", "holdout": "test"}.get(word, word)
    return None


def same_split(name: str, split: str) -> bool:
    """Whether a split of the data is what a hint means."""
    known = {"valid": "val", "validation": "val", "eval": "val", "dev": "val", "training": "train"}
    return known.get(name, name) == split or split_named(name) == split


def _patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return
    setattr(owner, name, functools.wraps(original)(make(original)) if callable(original) else make(original))


def install_plain(job: dict[str, Any]) -> None:
    """Replace what plain Python offers."""
    paths.begin(job)
    _install_files()
    _patch(time, "sleep", lambda original: lambda seconds: original(min(seconds, LONGEST_SLEEP)))
    builtins.input = lambda *_: "y"
    builtins.display = lambda *_, **__: None  # type: ignore[attr-defined]
    builtins.get_ipython = MagicMock  # type: ignore[attr-defined]
    _patch(argparse.ArgumentParser, "parse_known_args", _with_defaults)
    sys.meta_path.append(_Harmless())
    _install_no_network()


def _install_files() -> None:
    opened = builtins.open

    @functools.wraps(opened)
    def open_here(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        file = paths.for_writing(file) if set(mode) & set("wax+") else paths.for_reading(file)
        return opened(file, mode, *args, **kwargs)

    builtins.open = open_here
    io.open = open_here
    for owner, name in (
        (os, "makedirs"),
        (os, "mkdir"),
        (os, "remove"),
        (os, "unlink"),
        (os, "rmdir"),
        (shutil, "rmtree"),
    ):
        _patch(owner, name, _on_writable)
    for owner, name in ((os, "rename"), (os, "replace"), (shutil, "move"), (shutil, "copy"), (shutil, "copyfile")):
        _patch(
            owner,
            name,
            lambda original: lambda a, b, *r, **k: original(paths.for_reading(a), paths.for_writing(b), *r, **k),
        )
    for name in ("glob", "iglob"):
        _patch(glob_module, name, _globbing)
    _patch(os, "listdir", _listing)
    for name in ("exists", "isfile", "isdir"):
        _patch(os.path, name, _existing)
    _patch(Path, "glob", lambda original: lambda self, pattern, **k: _path_glob(original, self, pattern, **k))
    _patch(Path, "rglob", lambda original: lambda self, pattern, **k: _path_glob(original, self, pattern, **k))
    _patch(Path, "exists", lambda original: lambda self, **k: original(self, **k) or _is_replaced(str(self)))


def _on_writable(original: Any) -> Any:
    return lambda path, *args, **kwargs: original(
        paths.for_writing(path) if "dir_fd" not in kwargs else path, *args, **kwargs
    )


def _globbing(original: Any) -> Any:
    def find(pattern: Any, *args: Any, **kwargs: Any) -> Any:
        found = list(original(pattern, *args, **kwargs))
        text = _text(pattern)
        return _told(text, paths.matches(text, found)) if text and is_called_by_user() else found

    return find


def _told(pattern: str, found: list[str]) -> list[str]:
    """Files that a pattern of the script's matches, written down."""
    if found and looks_like_data(found[0]):
        real = [os.path.realpath(name) for name in found[:500]]
        seen.tell_once("glob", pattern=pattern, files=real, place=user_place())
    return found


def _path_glob(original: Any, folder: Path, pattern: str, **kwargs: Any) -> Any:
    found = list(original(folder, pattern, **kwargs))
    text = f"{folder}/{pattern}"
    if user_place() is None:
        return found
    return [Path(name) for name in _told(text, paths.matches(text, [str(f) for f in found]))]


def _listing(original: Any) -> Any:
    def listed(path: Any = ".") -> Any:
        text = _text(path)
        if text is None or paths.exists(text) or not is_called_by_user():
            return original(path)
        elsewhere = paths.elsewhere(text)
        if elsewhere is not None:
            return original(elsewhere)
        found = paths.of_data(text) if _DATA_NAME.search(text) else []
        return [os.path.basename(name) for name in found] or original(path)

    return listed


def _existing(original: Any) -> Any:
    def exists(path: Any) -> bool:
        if original(path):
            return True
        text = _text(path)
        return text is not None and is_called_by_user() and _is_replaced(text)

    return exists


def is_called_by_user() -> bool:
    """Whether the caller of the function that asks is the user's code itself."""
    return is_user_file(sys._getframe(2).f_code.co_filename)


# Folders in which libraries look for files of their own.
_OF_LIBRARIES = tuple(
    f"{os.path.realpath(folder)}{os.sep}"
    for folder in (sys.prefix, sys.base_prefix, "/usr/lib", "/usr/share", "/etc", "/proc", "/sys", "/lib")
)


def is_of_user(text: str) -> bool:
    """Whether a path is one that the user's code reads, and not one that a library which it imports probes for."""
    if os.path.isabs(text) and os.path.realpath(text).startswith(_OF_LIBRARIES):
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return False
        frame = frame.f_back
    return frame is not None


def _is_replaced(text: str) -> bool:
    if not paths.files or not is_of_user(text):
        return False
    if paths.elsewhere(text) is not None:
        return True
    if looks_like_data(text):
        return bool(paths.of_data(text))
    folders = {os.path.basename(os.path.dirname(file["path"])) for file in paths.files}
    name = os.path.basename(text.rstrip("/"))
    return "." not in name and (name in folders or name.lower() in {"data", "tfrecords", "records", "dataset", "input"})


def _with_defaults(original: Any) -> Any:
    """Arguments that must be given and were not: stand-ins, so that the script runs."""

    def parse(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        for action in self._actions:
            if not action.required or any(option in given for option in action.option_strings):
                continue
            if not action.option_strings and given:
                continue
            action.required = False
            action.default = _stand_in(action)
            if not action.option_strings:
                action.nargs = "?" if action.nargs is None else "*"
            is_path = isinstance(action.default, str) and os.path.exists(os.path.dirname(action.default) or "-")
            seen.tell(
                "argument",
                name=action.dest,
                value=str(action.default),
                invented=not is_path and not action.choices,
                place=user_place(),
            )
        return original(self, args, namespace)

    return parse


def _stand_in(action: argparse.Action) -> Any:
    if action.choices:
        return next(iter(action.choices))
    if action.type in (int, float):
        return action.type(1)
    name = action.dest.lower()
    if re.search(r"out|save|log|ckpt|checkpoint|export|dest", name):
        return f"{paths.top}/tmp/{action.dest}"
    split = split_hint(name)
    files = [f["path"] for f in paths.files if split is None or same_split(f["split"], split)]
    if not files:
        return "data"
    value: Any = os.path.dirname(files[0])
    if re.search(r"file|record|pattern|glob|path", name) and "dir" not in name:
        value = files[0] if len(files) == 1 else f"{os.path.dirname(files[0])}/*{os.path.splitext(files[0])[1]}"
    value = [value] if action.nargs in ("+", "*") else value
    return action.type(value) if callable(action.type) and isinstance(value, str) else value


class _Stub(ModuleType):
    """A package that shows or reports, and is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__.startswith("tqdm") and name in ("tqdm", "trange", "notebook", "auto"):
            value: Any = {"tqdm": _plain_bar, "trange": range}.get(name, self)
        else:
            value = MagicMock(name=f"{self.__name__}.{name}")
            value.subplots.side_effect = _subplots
        if name == "subplots":
            value = _subplots
        setattr(self, name, value)
        return value


def _plain_bar(iterable: Iterable[Any] = (), *_: Any, **__: Any) -> Any:
    return iterable


def _subplots(rows: int = 1, columns: int = 1, *_: Any, **__: Any) -> tuple[Any, Any]:
    import numpy as np

    axes = np.empty((rows, columns), dtype=object)
    for place in np.ndindex(axes.shape):
        axes[place] = MagicMock()
    squeezed = axes.squeeze()
    return MagicMock(), squeezed if squeezed.shape else squeezed.item()


class _Harmless(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, _path: Any, _target: Any = None) -> Any:
        if name.split(".", maxsplit=1)[0] in HARMLESS or ".".join(name.split(".")[:2]) in HARMLESS:
            if user_place() is None:  # a package that is optional to another one stays missing
                return None
            seen.tell_once("note", text=f"{name.split('.', maxsplit=1)[0]} is not installed here: its calls do nothing")
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _install_no_network() -> None:
    """Where the kernel could not take the network away, and to be quick where it did."""
    import socket

    def refuse(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple):
            raise OSError(101, f"no network while a script is checked: {address[0]}")
        return connect(self, address)

    connect = socket.socket.connect
    socket.socket.connect = refuse  # type: ignore[method-assign, assignment]

    def resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host in ("localhost", "127.0.0.1", None, ""):
            return resolved(host, *args, **kwargs)
        raise socket.gaierror(-3, f"no network while a script is checked: {host}")

    resolved = socket.getaddrinfo
    socket.getaddrinfo = resolve


def install_tensorflow() -> None:
    """Replace what TensorFlow reads from and writes to."""
    import tensorflow as tf

    gfile = tf.io.gfile
    _patch(gfile, "glob", _gfile_glob)
    _patch(gfile, "exists", lambda original: lambda path: original(path) or _is_replaced(_text(path) or ""))
    _patch(gfile, "isdir", lambda original: lambda path: original(path) or _is_replaced(_text(path) or ""))
    _patch(gfile, "listdir", _listing)
    for name in ("makedirs", "mkdir", "remove", "rmtree"):
        _patch(gfile, name, _on_writable)
    for owner in (tf.train.Checkpoint,):
        for name in ("save", "write"):
            _patch(owner, name, _method_writing)
        for name in ("restore", "read"):
            _patch(owner, name, _method_reading)


def _method_writing(original: Any) -> Any:
    return lambda self, file_prefix, *args, **kwargs: original(self, paths.for_writing(file_prefix), *args, **kwargs)


def _method_reading(original: Any) -> Any:
    def read(self: Any, save_path: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, save_path and paths.for_reading(save_path), *args, **kwargs)

    return read


def _gfile_glob(original: Any) -> Any:
    def find(pattern: Any) -> Any:
        patterns = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
        found: list[str] = []
        for one in patterns:
            text = _text(one) or ""
            try:
                here = original(text)
            except Exception:  # a store that cannot be reached
                here = []
            found += _told(text, paths.matches(text, here))
        return list(dict.fromkeys(found))

    return find
