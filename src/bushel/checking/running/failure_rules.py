"""EXE001 to EXE003: scripts that cannot be run, do not end, or raise: errors in words, and where to correct them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bushel.checking.findings import Finding, rule
from bushel.checking.running.execution import Event, Execution, Spot

NO_DERIVATIVE = r"\b(argmax|round|floor|ceil|sign|equal|greater|less|stop_gradient|numpy|constant)\("
MISSING_HERE = ("ModuleNotFoundError", "NotDownloaded", "URLError", "gaierror", "ConnectionError", "HTTPError")


def is_of_this_machine(run: Execution, error: Event) -> bool:
    """Whether an error says more about where the script is checked than about the script."""
    if error.get("ours"):
        return True
    if error["type"] in MISSING_HERE or "no network while a script is checked" in error["message"]:
        return not _is_own_module(run, error)
    if error["type"] in ("FileNotFoundError", "NotFoundError", "NotADirectoryError"):
        return True
    if error["type"] in ("PermissionError", "PermissionDeniedError") or "Permission denied" in error["message"]:
        return True
    if any(event["invented"] for event in run.of("argument")):
        return True  # a value that nobody gave
    return error["doing"] == "script" and (any(True for _ in run.of("cut")) or _is_own_verdict(run, error))


def _is_own_verdict(run: Execution, error: Event) -> bool:
    """Whether the script itself judges what came of a training that was cut short: by `assert`, or by `raise`."""
    last = (error["frames"] or [None])[-1]
    return run.has_trained and isinstance(next(run.nodes(last), None), ast.Assert | ast.Raise)


def _is_own_module(run: Execution, error: Event) -> bool:
    name = (error.get("name") or "").split(".")[0]
    return error["type"] == "ModuleNotFoundError" and (run.root / f"{name}.py").exists()


@rule("EXE001", "could-not-be-run", severity="info", needs="execution", rank=0)
def could_not_be_run(run: Execution) -> Iterator[Finding]:
    """The script did not get as far as training.

    Why: what was not run was not checked.
    Example: a package that is not installed, an argument that is missing, a file that is not here.
    Fix: install what is missing, give arguments with `--run-args`, or check where the files are.
    Ignore: where the script is to be checked by reading alone: leave `--run` out.
    """
    error = run.failure
    if error is not None and is_of_this_machine(run, error):
        first = error["message"].strip().splitlines()[0] if error["message"].strip() else error["type"]
        is_verdict = error["doing"] == "script" and _is_own_verdict(run, error)
        yield run.found(
            f"the script's own check fails after a few batches of training: {error['type']}: {first}"
            if is_verdict
            else f"the script could not be run further: {error['type']}: {first}",
            *error["frames"][::-1][:2],
            help="nothing need be wrong: it was trained for a few batches only"
            if is_verdict
            else "install or provide what is missing here, or give other arguments with --run-args",
        )
    for event in run.of("exit"):
        yield run.found(
            f"the script ended itself with exit code {event['code']}",
            event["place"],
            help='give the arguments that it needs with --run-args "…"',
            output=run.output[-300:].strip() or None,
        )
    if not any(True for _ in run.of("ready")) and not run.stopped:
        yield run.found("TensorFlow could not be started", output=run.output[-500:].strip() or None)
    elif run.ended.code not in (0, None) and not run.stopped and error is None:
        yield run.found(
            f"the process that ran the script was killed or crashed (exit {run.ended.code})",
            _last_stage(run),
            output=run.output[-300:].strip() or None,
        )


@rule("EXE002", "stopped-at-limit", severity="info", needs="execution", rank=0)
def stopped_at_limit(run: Execution) -> Iterator[Finding]:
    """The script was ended because it took too long or too much memory.

    Why: what came after was not checked.
    Example: a cache or shuffle buffer that holds all of a large dataset.
    Fix: check it with a part of the data, or make what it does before training smaller.
    Ignore: where preparation takes long and is known to.
    """
    if run.stopped is None:
        return
    at = next((event["place"] for event in run.of("stopped")), None) or _last_stage(run)
    limit = {
        "time": f"{run.limits.seconds:g} s of processor time",
        "memory": f"{run.limits.bytes / 2**30:.0f} GB of memory",
        "idle": f"{run.limits.idle:g} s in which it computed nothing",
    }[run.stopped]
    yield run.found(
        f"the script was stopped at the limit of {limit}: what comes after this line was not checked",
        at,
        help="give it a part of the data, look at what takes long, or give it more time with --run-limit SECONDS",
    )


def _last_stage(run: Execution) -> Spot:
    last = [event for event in run.of("stage", "link") if event.get("place")]
    return last[-1]["place"] if last else None


@rule("EXE003", "raises", needs="execution", rank=1)
def raises(run: Execution) -> Iterator[Finding]:
    """The script raises an error within its first batches.

    Why: training ends before it has begun.
    Example: a feature that the records do not hold; a reshape to another number of values.
    Fix: follow the finding; it points at the line in your code that raised the error.
    Ignore: where the error is that of an environment that is not the one in which training runs.
    """
    error = run.failure
    if error is None or is_of_this_machine(run, error):
        return
    cause = cause_of(run, error)
    yield run.found(
        cause.message,
        *cause.spots,
        help=cause.help,
        error=f"{error['type']}: {_one_line(_essence(error['message']))}"[:300],
    )


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@dataclass
class Cause:
    """Why something was raised."""

    message: str
    spots: list[Spot] = field(default_factory=list)
    help: str = ""


Reader = Callable[[Execution, Event, "re.Match[str]"], Cause | None]
_READERS: list[tuple[tuple[str, ...], Reader]] = []  # in the order in which they are asked


def _reads(*patterns: str) -> Callable[[Reader], Reader]:
    """Make a function the reader of errors in whose text, which begins with the type, one of these is found."""

    def register(reader: Reader) -> Reader:
        _READERS.append((patterns, reader))
        return reader

    return register


def cause_of(run: Execution, error: Event) -> Cause:
    """An error in words; as it is, where no words are known."""
    text = f"{error['type']}\n{error['message']}\n{error.get('again') or ''}\n{error.get('cause') or ''}"
    spots = _spots(error)
    if error["doing"] in ("fit", "evaluate", "predict"):
        spots += [model.get(part) for model in _models(run)[:1] for part in ("place", "compiled_at")]
    for patterns, reader in _READERS:
        found = next((match for pattern in patterns if (match := re.search(pattern, text))), None)
        cause = reader(run, error, found) if found is not None else None
        if cause is not None:
            cause.spots = [*cause.spots, *spots]
            return cause
    first = _essence(error["message"]) or error["type"]
    return Cause(f"{error['type']}: {first}", spots)


def _spots(error: Event) -> list[Spot]:
    """Where it was raised, innermost first; the link; and who asked for a batch."""
    frames = [frame for frame in error["frames"] if frame]
    link = error.get("link")
    spots: list[Spot] = []
    if error["doing"] == "drawing":
        inner = [frame for frame in frames if frame != error.get("consumer")]
        spots += inner[::-1][:2]
        if link:
            spots.append(link["place"])
        spots.append(error.get("consumer"))
    else:
        spots += [*frames[::-1][:3], error.get("place")]
    return [spot for spot in spots if spot]


def _essence(message: str) -> str:
    """The first sentence of a long message; of an error in a graph, what comes after the stack that it quotes."""
    text = re.sub(r"in user code:\s*", "", message)
    if text.lstrip().startswith("Graph execution error"):
        text = re.split(r'File "[^"]*", line \d+, in .*|\.\.\.\n', text)[-1].strip() or text
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("File ")]
    reported = [line for line in lines if re.match(r"[A-Z]\w*(Error|Exception):", line)]
    chosen = reported[0].partition(":")[2].strip() if reported else (lines[0] if lines else "")
    chosen = re.sub(r"\{\{.*?\}\}\s*", "", chosen)
    chosen = re.sub(r"\[\[.*?\]\]|\[Op:\w+\].*", "", chosen).strip()
    return chosen[:300]


def _feature_spot(run: Execution, error: Event, name: str) -> list[Spot]:
    """The line of a feature in the spec that parses it."""
    found: list[Spot] = []
    files = {str(run.entry), *(frame[0] for frame in error["frames"])}
    link = error.get("link") or {}
    files |= {link["place"][0]} if link.get("place") else set()
    files |= {link["function"][0]} if link.get("function") else set()
    files |= {event["place"][0] for event in run.of("link") if event.get("place")}
    for file in sorted(files):
        source = run.script_of(file)
        for node in ast.walk(source.tree) if source else ():
            if not isinstance(node, ast.Dict):
                continue
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name and "Feature" in ast.dump(value):
                    found.append((file, key.lineno, ""))
    return found


def _known_features(run: Execution) -> str:
    names = sorted(run.data.features) if run.data is not None and hasattr(run.data, "features") else []
    return f"; the records hold {', '.join(names[:12])}" if names else ""


@_reads(
    r"Feature(?: list)?:? '?(\S+?)'? (?:\(data type: (\w+)\) )?is required but could not be found",
    r"[Nn]ame: [^,]*, (?:Context f|F)eature(?: list)? '?(\S+?)'? (?:\(data type: (\w+)\) )?is required",
)
def _missing_feature(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    return Cause(
        f"feature {found[1]!r} is not in the records{_known_features(run)}",
        _feature_spot(run, error, found[1]),
        "use the name that the records hold, or give the feature a default_value",
    )


@_reads(
    r"Feature: (\S+)\.? ?Data types don't match\. Expected type: (\w+), Feature is: (\w+)?",
    r"Key: (\S+?)\. +Data types don't match\. (?:Expected type|Data type): (\w+)[ ,].*?: ?(\w+)",
    r"Key: (\S+?)\.\s+Data types don't match\.(.*)",
)
def _other_dtype(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    what = f"is parsed as {found[2]}, but the records hold another type"
    if found.re.groups == 2:
        what = f"is of another type in the records than the spec says:{found[2][:120]}"
    return Cause(
        f"feature {found[1]!r} {what}",
        _feature_spot(run, error, found[1]),
        "parse it with the type that was written, and cast afterwards",
    )


@_reads(
    r"Key: (\S+?)\.\s+Number of \w+ values != expected\.\s+Values? size:? ?(\d+) but output shape: ?(\[[^\]]*\])",
    r"(?s)Key: (\S+?)[,.].*?[Vv]alues size: ?(\d+).*?shape: ?(\[[^\]]*\])",
)
def _other_length(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    return Cause(
        f"feature {found[1]!r} holds {found[2]} values, but the spec says shape {found[3]}",
        _feature_spot(run, error, found[1]),
        "give FixedLenFeature the shape that was written, or use VarLenFeature",
    )


@_reads(r"\ADataLossError\n|corrupted record|inflate")
def _damaged(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    sources = [link for link in run.of("link") if link["name"] == "TFRecordDataset"]
    chain = set(error.get("chain") or ())
    source = next((link for link in sources if link["id"] in chain), sources[-1] if sources else None)
    given = ((source or {}).get("arguments") or {}).get("compression_type") or ""
    known = {str(file.path.resolve()): file.compression or "" for file in (run.data.files if run.data else ())}
    real = {known.get(name, "") for name in (source or {}).get("files", ())}
    spots = [source["place"]] if source else []
    if (given and "" in real) or (not given and any(real)):
        was = next(iter(real - {""}), "") or "not compressed"
        return Cause(
            f"the files are {was if was == 'not compressed' else was.upper() + ' compressed'}, but are read "
            f"{f'as {given}' if given else 'as if they were not'}",
            [run.keyword(spots[0], "compression_type") if spots else None],
            "give TFRecordDataset the compression_type with which the files were written",
        )
    return Cause(
        "the records cannot be read: the file is damaged, or compressed and read without compression_type "
        "(or the other way round)",
        spots,
        "check the files with bushel check DATA, and compression_type against how they were written",
    )


@_reads(r"Received a label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)")
def _label_range(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    model: Event = next((model for model in _models(run) if model.get("last")), {})
    spot = (model.get("last") or {}).get("place")
    return Cause(
        f"a label is {found[1]}, but the last layer has {found[2]} outputs: labels must be 0 to {int(found[2]) - 1}",
        [spot, model.get("place"), *run.definitions(spot)],
        "give the last layer as many outputs as there are classes, or number the labels from 0",
    )


def _models(run: Execution) -> list[Event]:
    """The models that were trained, the last one first."""
    found = [fit["model"] for fit in run.fits[::-1]]
    return found + [model for event in run.of("loops") for model in event["models"]]


@_reads(r"indices\[[^\]]*\] = (-?\d+) is not in \[0, (\d+)\)")
def _embedding(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    spots = [
        layer["place"]
        for model in _models(run)
        for layer in model["layers"]
        if layer["class"] == "Embedding" and layer.get("input_dim") == int(found[2])
    ]
    spots = [*(spots[:1] or run.lines_of(r"\bEmbedding\(")), *run.lines_of(r"TextVectorization\(|Lookup\(|Tokenizer\(")]
    return Cause(
        f"index {found[1]} is looked up in a table of {found[2]} rows",
        [*spots, *(line for spot in spots for line in run.definitions(spot))],
        "give the table (input_dim of an Embedding) one row more than the largest index",
    )


def _last_compiled(run: Execution) -> Spot:
    return next((fit["model"]["compiled_at"] for fit in run.fits[::-1] if fit["model"].get("compiled_at")), None)


@_reads(r"target\.shape=(\([^)]*\)), output\.shape=(\([^)]*\))")
def _loss_shapes(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    fit = next(iter(run.fits[::-1]), None)
    loss = ((fit or {}).get("model") or {}).get("loss") or {}
    compiled = _last_compiled(run)
    last = ((fit or {}).get("model") or {}).get("last") or {}
    return Cause(
        f"labels of shape {found[1]} do not fit outputs of shape {found[2]} under {loss.get('name', 'the loss')}",
        [loss.get("place") or run.keyword(compiled, "loss"), last.get("place"), *_sequences(fit, found[1], found[2])],
        "sparse_categorical_crossentropy takes class numbers, categorical_crossentropy one-hot rows; "
        "the last layer needs one output per class",
    )


def _sequences(fit: Event | None, labels: str, outputs: str) -> list[Spot]:
    """The last layer that gives a whole sequence, where outputs have one axis more than labels."""
    layers = ((fit or {}).get("model") or {}).get("layers") or []
    found = [layer["place"] for layer in layers if layer.get("return_sequences")]
    return found[-1:] if outputs.count(",") > labels.count(",") else []


@_reads(
    r"Input to reshape is a tensor with (\d+) values, but the requested shape has (\d+)",
    r"Cannot reshape a tensor with (\d+) elements to shape \S+ \((\d+) elements\)",
)
def _reshape(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    return Cause(
        f"a tensor of {found[1]} values is reshaped to a shape of {found[2]}",
        [],
        "use the shape and the dtype with which the values were written",
    )


@_reads(r"(?s)Cannot (?:batch tensors with different shapes|add tensor to the batch)(.*)")
def _unbatchable(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    shapes = re.search(r"(\[[^\]]*\]).*?(\[[^\]]*\])", found[0])
    chain = [link for link in run.of("link") if link["id"] in set(error.get("chain") or ())]
    batch = next((link for link in reversed(chain) if link["name"] == "batch"), None)
    maps = [link for link in chain if link["name"] == "map"]
    spots = [batch["place"]] if batch else []
    spots += [maps[-1]["function"]] if maps and maps[-1].get("function") else []
    return Cause(
        f"records of different shapes are batched{f': {shapes[1]} and {shapes[2]}' if shapes else ''}",
        spots,
        "resize or pad them to one shape before batch, or use padded_batch",
    )


@_reads(
    r"Input \d+.*? of layer ['\"]?(\w+)['\"]? is incompatible with the layer: (.*)",
    r"Invalid input shape for input (.*)",
)
def _input_shape(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    name = found[1] if found.lastindex and found.lastindex > 1 else ""
    spots = [
        layer["place"]
        for fit in run.fits[::-1]
        for layer in fit["model"]["layers"]
        if layer["name"] == name and layer["place"]
    ]
    spots += [
        layer["place"]
        for fit in run.fits[::-1]
        for layer in fit["model"]["layers"][:1]
        if layer["class"] == "InputLayer"
    ]
    reported = (found[2] if found.lastindex and found.lastindex > 1 else found[1]).strip()
    in_model = [spot for spot in spots if spot][:1]
    in_model += [spot for frame in error["frames"][-1:] for spot in run.made_before(frame)[:1]]
    return Cause(
        f"the batches do not have the shape that the model takes: {reported[:200]}",
        in_model,
        "make the Input and the pipeline's resize, reshape and batch agree",
    )


@_reads(r"(\w+) callback received monitor=(\S+?),")
def _monitor(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    callbacks = [one for fit in run.fits for one in fit["arguments"]["callbacks"] if one.get("monitor") == found[2]]
    metrics = next((fit["model"].get("metrics") for fit in run.fits[::-1] if fit["model"].get("metrics")), None)
    return Cause(
        f"{found[1]} monitors {found[2]!r}, but fit measures {', '.join(['loss', *(metrics or [])])} (and val_… "
        "of them)",
        [run.keyword(one["place"], "monitor") for one in callbacks[:1]],
        "monitor one that is measured",
    )


@_reads(r"\A(?:NameError|UnboundLocalError)\n")
def _name_error(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    return Cause(f"{_essence(error['message'])}")


@_reads(r"(?:\AKeyError\n|KeyError: )['\"](.+?)['\"]")
def _missing_key(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    """A name that is taken out of parsed features, and that no description of them has."""
    spots: list[Spot] = []
    for file in sorted({frame[0] for frame in error["frames"]}):
        source = run.script_of(file)
        for node in ast.walk(source.tree) if source else ():
            if isinstance(node, ast.Dict) and any("Feature" in ast.dump(value) for value in node.values):
                spots.append((file, node.lineno, ""))
    if not spots:
        return None
    frames = [frame for frame in error["frames"][-1:] if frame]
    return Cause(f"{found[1]!r} is not among the features that are parsed", [*frames, *spots[:3]],
                 "use the name under which the feature is parsed")  # fmt: skip


@_reads(
    r"Missing data for input|expects \d+ input|expected \d+ input|[Ss]tructures? (?:of|do|don't|did)|same structure|"
    r"does not correspond to any model output|Expected keys|[Uu]nexpected keys|must be a (?:dict|list)|"
    r"y_true and y_pred|inputs? \(?but|when the model has|KeyError: ",
)
def _other_structure(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    """Batches that do not have the parts that a model takes or gives."""
    model: Event = next(iter(_models(run)), {})
    if error["doing"] not in ("fit", "evaluate", "predict") or not model:
        return None
    fit: Event = next(iter(run.fits[::-1]), {})
    maps = [link for link in run.chain(fit.get("train")) if link["name"] == "map" and link["function"]]
    returns = [spot for link in maps[::-1] for spot in run.lines_in(link["function"], r"\breturn\b|lambda")]
    inputs = [layer["place"] for layer in model["layers"] if layer["class"] == "InputLayer"]
    last = (model.get("last") or {}).get("place")
    return Cause(
        f"the batch structure does not match the model's inputs and outputs: {_essence(error['message'])[:200]}",
        [model.get("place"), *returns[:2], *inputs[:2], last, model.get("compiled_at")],
        "use the same names and the same order in the dataset, in the model and in compile",
    )


@_reads("No gradients provided for any variable")
def _no_gradient(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    functions = [(model.get("loss") or {}).get("function") for model in _models(run)]
    spots = [spot for function in functions if function for spot in run.lines_in(function, NO_DERIVATIVE)]
    spots += [spot for frame in error["frames"][::-1] for spot in run.around(frame, NO_DERIVATIVE)]
    return Cause(
        "the loss gives no gradient for any weight",
        spots[:1],
        "leave out of the loss what has no derivative: argmax, round, cast to integers, numpy",
    )


@_reads(r"unknown TensorShape|unknown rank|shape .*(is|must be) .*(unknown|defined)|<unknown>")
def _unknown_shape(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    pattern = r"py_function|numpy_function|decode_image\("
    functions = [link["function"] for link in run.of("link") if link["function"]]
    spots = [spot for function in functions for spot in run.lines_in(function, pattern)] or run.lines_of(pattern)
    if not spots:
        return None
    return Cause("a tensor has no shape when the model is built", spots[:2], "give it one with set_shape")


@_reads(r"Cast string to|string.*not (supported|allowed)|dtype.*string|: string")
def _strings(run: Execution, error: Event, found: re.Match[str]) -> Cause | None:
    """Labels or inputs that are text where numbers are needed."""
    looks = [fit["train"] for fit in run.fits[::-1] if fit.get("train")] + list(run.of("look"))
    for look in looks:
        for part in ("labels", "inputs"):
            names = [name for name, facts in (look.get(part) or {}).items() if facts.get("dtype") == "string"]
            if names:
                what = "labels" if part == "labels" else f"input {names[0]!r}" if names[0] else "inputs"
                maps = [link["function"] for link in run.chain(look) if link["name"] == "map" and link["function"]]
                pattern = r"\breturn\b|lambda" if part == "labels" else re.escape(names[0] or "return")
                spots = [spot for one in maps[::-1] for spot in run.lines_in(one, pattern)[::-1]]
                spots += run.lines_of(r"tf\.string") if not spots else []
                return Cause(f"{what} are text, but the model takes numbers", spots[:2],
                             "give names numbers, with StringLookup or a table")  # fmt: skip
    return None
