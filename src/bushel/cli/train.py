"""`train`, `predict`, `serve` and `export`: from a dataset to a model with a verdict, and from files to answers."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

import click
import msgspec

from bushel.cli.flags import (
    Grouped,
    ProgressState,
    flag,
    given_flags,
    json_flag,
    option_flag,
    parse_size,
    settings,
    show_progress,
    trust_flag,
)
from bushel.cli.output import say, say_data
from bushel.errors import nearest
from bushel.plugins import plugins
from bushel.sources.protocol import Option
from bushel.spellings import british
from bushel.training.options import KINDS, Options

if TYPE_CHECKING:
    from bushel.checking import Finding
    from bushel.training import Evaluation, Progress, Trained
from pathlib import Path
from typing import NamedTuple

__all__ = ["export", "predict", "serve", "train"]


_PRECISIONS = {"float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}
_SHOWN = 5  # causes
_DATA, _MODEL, _TRAINING, _READING, _RUN = "Data", "Model", "Training", "Reading", "Run"
_TYPES = get_type_hints(Options)
_DEFAULTS = msgspec.structs.asdict(Options())


def _option(name: str, help: str, group: str, **more: Any) -> Callable[[Any], Any]:
    """The flag for a field of the training options, with its type, choices and default."""
    return option_flag(Option(name, _TYPES[name], _DEFAULTS[name], help), group=group, **more)


def _switch(flag_name: str, name: str, help: str, group: str, *, rare: bool = True) -> Callable[[Any], Any]:
    """A flag that turns off what is on by default."""
    return flag(flag_name, name, is_flag=True, default=True, flag_value=False, help=help, group=group, rare=rare)


@click.command(cls=Grouped)
@click.argument("data", nargs=-1, metavar="DATA…")
@trust_flag
@_option("label", "Feature to predict  [default: the manifest's]", _DATA, metavar="COL")
@_option("task", "Kind of task  [default: from the label]", _DATA)
@flag("--columns", metavar="A,B", help="Learn from these features only  [default: all]", group=_DATA)
@flag(
    "--kind",
    multiple=True,
    metavar="COL=KIND",
    help="Feed a feature as number, category, tokens, text or series",
    group=_DATA,
    rare=True,
)
@_option(
    "max_length", "Maximum tokens, words or steps per record  [default: by the data, up to 2,048]", _DATA, rare=True
)
@_option(
    "group",
    "Feature whose records belong together, for intervals; `none` for no groups",
    _DATA,
    rare=True,
    metavar="COL",
)
@_option("sparse_width", "Width of sparse rows  [default: largest index + 1]", _DATA, rare=True)
@_option(
    "model",
    "Your own model, or one of bushel's  [default: the best of bushel's on val]",
    _MODEL,
    metavar="FILE.py:FUNCTION|FILE.keras|NAME|network|linear|trees",
)
@_option(
    "weights",
    "Weights for a NAME of keras.applications; then only its head is trained",
    _MODEL,
    rare=True,
    metavar="FILE",
)
@_option("loss", "Keras loss, by name  [default: one that fits]", _MODEL, rare=True)
@_option("epochs", "Passes over the train split  [default: enough for 1,000 steps]", _TRAINING)
@_option("batch_size", "Records per step", _TRAINING)
@_option("learning_rate", "Learning rate  [default: one that fits the optimiser]", _TRAINING, metavar="RATE")
@_option("schedule", "Schedule of the learning rate  [default: cosine; constant with --epochs or --model]", _TRAINING)
@_option("warmup", "Share of steps in which the learning rate rises", _TRAINING, metavar="SHARE", rare=True)
@_option("optimiser", "Optimiser", _TRAINING)
@flag("--mixed-precision", type=click.Choice([*_PRECISIONS]), help="Compute in half precision", group=_TRAINING)
@_option("augment", "Random changes of train inputs; `light` for a usual set", _TRAINING, metavar="flip,rotate=15")
@flag(
    "--class-weights",
    metavar="balanced|none|CAT=2,DOG=1",
    help="Weight of each class in the loss  [default: balanced if uneven]",
    group=_TRAINING,
)
@_option("early_stopping", "Stop after N epochs without a better score or loss on the validation split", _TRAINING)
@_option("seed", "Random seed for weights, order and augmentation", _TRAINING)
@_option("strategy", "Spread each batch over the devices of this machine", _TRAINING, rare=True)
@_switch("--not-deterministic", "deterministic", "Allow faster operations whose results vary", _TRAINING)
@flag("--image-size", metavar="HEIGHTxWIDTH", help="Resize images  [default: their own, or 160x160]", group=_READING)
@_option("range", "Range of pixels that the model is fed", _READING, rare=True)
@flag("--shuffle/--no-shuffle", default=True, help="Read train in another order each epoch", group=_READING, rare=True)
@_option("shuffle_buffer", "Records to shuffle among, for compressed shards", _READING, rare=True)
@_option("threads", "Number of reader threads  [default: cores]", _READING, rare=True)
@_option("on_fault", "What to do with damaged records", _READING, rare=True)
@flag("--out", metavar="RUN", help="Folder of the run  [default: DATA-run]", group=_RUN)
@flag("--resume", is_flag=True, help="Continue the run in --out", group=_RUN)
@flag("--overwrite", is_flag=True, help="Replace the run in --out", group=_RUN)
@flag("--evaluate", "run", metavar="RUN", help="Do not train: evaluate the model of RUN on DATA", group=_RUN)
@flag("--split", metavar="NAME", help="Split for --evaluate  [default: test, or val]", group=_RUN)
@_option("checkpoint_every", "Steps between checkpoints  [default: one epoch]", _RUN, rare=True)
@flag("--ignore", multiple=True, metavar="IDS", help="Rules that may not stop the run", group=_RUN, rare=True)
@_switch("--no-preflight", "preflight", "Skip the checks before training", _RUN, rare=False)
@_switch("--no-tensorboard", "tensorboard", "Write no logs for TensorBoard", _RUN)
@flag("--set", "set_", metavar="NAME=VALUE", multiple=True, help="Any option of training; repeatable", group=_RUN)
@json_flag
@click.pass_context
def train(
    ctx: click.Context,
    /,
    data: tuple[str, ...],
    out: str | None,
    run: str | None,
    split: str | None,
    as_json: bool,
    resume: bool,
    overwrite: bool,
    **_: Any,
) -> None:
    """Train a model on a dataset, and report whether it learned.

    \b
      bushel train data/
      bushel train data/ --epochs 20 --augment flip,rotate=10 --class-weights balanced --out runs/1
      bushel train data/ --model my.py:build_model --learning-rate 0.0003 --schedule cosine
      bushel train table/ --model trees
      bushel train --out runs/1 --resume --epochs 40
      bushel train --evaluate runs/1 other/

    DATA is a dataset, TFRecord files, or patterns; nothing is written into it. Before the first epoch, data and model
    are checked for a few seconds. The verdict compares the model with always predicting the most common class, and
    with a linear model.

    Writes RUN: model.keras, metrics and history (JSON and CSV), logs for TensorBoard, report.html, contract.json.

    With --resume, DATA and all options are those of the run; --epochs may be larger.

    Exit: 0 it learned, 1 it did not, or a check stopped it, 2 wrong arguments or unreadable input, 3 there are
    too few records to tell.
    """
    import bushel
    from bushel.training import Listener
    from bushel.training.loop.framework import load_quietly

    if not data and not (resume and out):
        raise click.UsageError("DATA is missing: a dataset, or TFRecord files")
    given = given_flags(ctx)
    options = _options(given, _begun(out, given.get("model")) if resume and out else Options())
    if not options.is_trees:
        load_quietly()
    if run is not None:
        _show_evaluation(bushel.evaluate(run, list(data), split=split), as_json=as_json)
        return
    folder = out or _default_folder(data[0])
    said: set[str] = set()
    with show_progress(_step) as progress:
        listener = Listener(
            progress=progress,
            finding=partial(_say, said),
            note=lambda note: say(_fitted(f"note: {note}", sys.stderr), err=True),
            choice=lambda line: say(_fitted(line, sys.stderr), err=True),
        )
        try:
            trained = bushel.train(
                list(data) or None, options, out=folder, resume=resume, overwrite=overwrite, listener=listener
            )
        except KeyboardInterrupt:
            say("bushel: stopped; --resume continues from the last checkpoint", err=True)
            sys.exit(130)
    _show(trained, said, as_json=as_json)
    sys.exit(0 if trained.verdict.learned else 3 if trained.verdict.unclear else 1)


def _default_folder(data: str) -> str:
    """Next to the data; here, if that is in a store."""
    from bushel.storage import local_name

    return f"{local_name(data).rstrip('/').removesuffix('.tfrecord')}-run"


def _begun(out: str, model: str | None) -> Options:
    """The options of the run to resume; `model` is what the command line names."""
    from pathlib import Path

    from bushel.training.run_folder import options_of, read_run

    return options_of(read_run(Path(out)), Path(out), model=model)


def _options(given: dict[str, Any], base: Options) -> Options:
    """The given training options; the others are defaults, or those that the run began with."""
    fields = {name: given[name] for name in Options.__struct_fields__ if name in given}
    if "columns" in given:
        fields["columns"] = tuple(given["columns"].split(","))
    if "mixed_precision" in given:
        fields["precision"] = _PRECISIONS[given["mixed_precision"]]
    if "image_size" in given:
        fields["image_size"] = parse_size(given["image_size"], "image-size")
    if "class_weights" in given:
        fields["class_weights"] = _weights(given["class_weights"])
    if "ignore" in given:
        fields["ignore"] = tuple(id.strip() for text in given["ignore"] for id in text.split(",") if id.strip())
    if "kind" in given:
        fields["kinds"] = _kinds(given["kind"])
    for name, value in settings(given.get("set_", ())).items():
        fields[british(name)] = _set(british(name), value)
    return msgspec.structs.replace(base, **fields)


def _kinds(given: tuple[str, ...]) -> dict[str, Any]:
    kinds = {}
    for part in (part.strip() for text in given for part in text.split(",")):
        name, _, kind = part.rpartition("=")
        if not name or kind not in KINDS:
            raise click.UsageError(f"--kind must be like COL=tokens, with one of {', '.join(KINDS)}; got {part!r}")
        kinds[name] = kind
    return kinds


def _set(name: str, value: Any) -> Any:
    """The value of one field of the options, as `--set` gives it."""
    if name not in _TYPES:
        close = nearest(name, _TYPES)
        meant = f"; did you mean {close!r}?" if close else ""
        raise click.UsageError(f"--set: training has no option {name!r}{meant} (there are: {', '.join(_TYPES)})")
    choices = Option(name, _TYPES[name], None, "").choices
    if isinstance(value, str) and choices and value not in choices:
        raise click.UsageError(f"--set {name}: must be one of {', '.join(choices)}; got {value!r}")
    try:
        return msgspec.convert(value, _TYPES[name], strict=False)
    except msgspec.ValidationError as error:
        why = str(error).replace(" | null", "")
        raise click.UsageError(f"--set {name}: {why[0].lower()}{why[1:]}") from None


def _weights(text: str) -> Any:
    if text in ("balanced", "none"):
        return text
    weights = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        try:
            weights[name] = float(value)
        except ValueError:
            raise click.UsageError(
                f"--class-weights must be balanced, none, or like CAT=2,DOG=1; got {part!r}"
            ) from None
    return weights


def _step(progress: Progress) -> ProgressState:
    epoch = f"epoch {progress.epoch}/{progress.epochs}"
    done = (progress.epoch - 1) * progress.steps + progress.step
    place = "" if progress.is_end_of_epoch else f", step {progress.step:,} of {progress.steps:,}"
    line = f"{epoch}{place}: {_said(progress)}"
    text = f"{epoch}: {_briefly(progress)}"
    return ProgressState(
        "training", done, progress.epochs * progress.steps, text, line, is_end=progress.is_end_of_epoch
    )


def _fitted(text: str, stream: Any) -> str:
    """Text in lines that fit the terminal; as it is where there is none."""
    if not stream.isatty():
        return text
    width = max(20, shutil.get_terminal_size().columns)
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _say(said: set[str], finding: Finding) -> None:
    from bushel.checking.finding_formats import finding_lines

    said.add(finding.rule)
    for line in finding_lines(finding, colour=sys.stderr.isatty()):
        say(line, err=True)


def _said(progress: Progress) -> str:
    shown = ("loss", "accuracy", "mae", "val_loss", "val_accuracy", "val_auc", "val_mae")
    values = [f"{name} {progress.values[name]:.4g}" for name in shown if name in progress.values]
    return f"{', '.join(values)}, {progress.samples_per_second:,.0f} samples/s, waiting {progress.waiting:.0%}"


def _briefly(progress: Progress) -> str:
    """What fits beside a bar: the loss, and the first measure of the validation split."""
    shown = ("val_accuracy", "val_mae", "val_auc", "accuracy", "mae")
    best = next((name for name in shown if name in progress.values), None)
    names = ["loss"] if best is None else ["loss", best]
    return ", ".join(f"{name} {progress.values[name]:.4g}" for name in names if name in progress.values)


def _show_evaluation(found: Evaluation, *, as_json: bool) -> None:
    import json

    from bushel.printing import text_table
    from bushel.training.run_folder import plain
    from bushel.training.verdict.metrics import metric_table

    if as_json:
        say_data(json.dumps(plain(msgspec.to_builtins(found)), indent=2))
        return
    for line in text_table(*metric_table({found.split: found.metrics})):
        say(line)
    say(f"\n{found.summary}")


def _show(trained: Trained, said: set[str], *, as_json: bool) -> None:
    """Print metrics, verdict and likely causes; of findings that were printed in training, the first line."""
    import json

    from bushel.checking.finding_formats import finding_lines
    from bushel.printing import text_table
    from bushel.training.run_folder import plain
    from bushel.training.verdict.metrics import metric_table

    if as_json:
        say_data(json.dumps(plain(trained.to_json()), indent=2))
        return
    if trained.metrics:
        for line in text_table(*metric_table(trained.metrics)):
            say(line)
        say("")
    say(_fitted(trained.verdict.summary, sys.stdout))
    if not trained.verdict.learned:
        causes = trained.findings[:_SHOWN]
        for number, finding in enumerate(causes, 1):
            say(f"\nlikely cause {number}:")
            lines = list(finding_lines(finding, colour=sys.stdout.isatty()))
            for line in lines[:1] if finding.rule in said else lines:
                say(line)
    say(f"\nrun: {trained.folder}")


@click.command(cls=Grouped)
@click.argument("run")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@trust_flag
@flag("--split", metavar="NAME", help="Split of a dataset")
@flag("--lines/--whole", default=None, help="Text files hold one sample per line, or one each  [default: as built]")
@flag("--top", default=1, metavar="K", type=click.IntRange(1), help="Classes to print  [default: 1]")
@flag("--batch-size", default=32, metavar="N", type=click.IntRange(1), help="Samples per batch  [default: 32]")
@flag("--json", "as_json", is_flag=True, help="Print one JSON object per sample, with the scores of all classes")
def predict(
    run: str, paths: tuple[str, ...], split: str | None, lines: bool | None, top: int, batch_size: int, as_json: bool
) -> None:
    """Run a trained model on files, prepared exactly as in training.

    \b
      bushel predict runs/cats photos/*.jpg          one line per image
      bushel predict runs/reviews new.csv --json     one sample per row
      bushel predict runs/cats data/ --split test    records of a dataset

    RUN is the folder that `bushel train` made: its model and its contract.json are all that is needed.

    FILE is an image, a text, a table (.csv, .tsv, .jsonl, .parquet, .arrow), a TFRecord file or dataset, or a folder.

    Exit: 0 all predicted, 1 some could not be or have no finite score (reported on stderr), 2 wrong arguments or
    unreadable input.
    """
    from bushel.training.predicting import NOT_A_NUMBER
    from bushel.training.predicting import predict as predict_files

    refused = done = broken = 0
    for prediction in predict_files(run, paths, split=split, lines=lines, batch_size=batch_size):
        if prediction.why is not None:
            refused += 1
            broken += prediction.why == NOT_A_NUMBER
            say(f"bushel: {prediction.name}: {prediction.why}", err=True)
            continue
        done += 1
        if prediction.note is not None:
            say(f"note: {prediction.name}: {prediction.note}", err=True)
        say_data(msgspec.json.encode(prediction)) if as_json else say(_line(prediction, top))
    if refused:
        say(f"{refused:,} of {refused + done:,} could not be predicted", err=True)
        sys.exit(1 if done or broken else 2)


@click.command(cls=Grouped)
@click.argument("run")
@trust_flag
@flag("--host", default="127.0.0.1", metavar="ADDR", help="Address  [default: 127.0.0.1, for this machine only]")
@flag("--port", type=click.IntRange(0, 65535), metavar="N", help="Port; 0 takes any that is free  [default: 8758]")
@flag("--max-rows", type=click.IntRange(1), metavar="N", help="Rows of one request  [default: 1000]")
@flag("--max-size", type=click.IntRange(1), metavar="MIB", help="Size of one request in MiB  [default: 16]")
@flag("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="Seconds for a request  [default: 30]")
def serve(
    run: str, host: str, port: int | None, max_rows: int | None, max_size: int | None, timeout: float | None
) -> None:
    """Answer requests with a trained model, over HTTP.

    \b
      bushel serve runs/flowers
      curl -H 'content-type: application/json' -d '[{"petal": 1.4, "sepal": 5.1}]' http://127.0.0.1:8758/predict
      curl -H 'content-type: image/png' --data-binary @7.png http://127.0.0.1:8758/predict
      curl http://127.0.0.1:8758/health

    RUN is the folder that `bushel train` made. Rows hold values by the names of the source, and bytes such as images as
    {"base64": "..."}. Every row is checked and prepared by the contract of the run. /health counts requests, and rows
    that are unlike those of training. There is no password: whoever reaches ADDR can ask.

    Exit: 0 stopped with Ctrl-C, 2 wrong arguments or unreadable input.
    """
    from bushel.training.serving import PORT, Limits
    from bushel.training.serving import serve as serve_run

    size = None if max_size is None else max_size << 20
    given: dict[str, Any] = {"rows": max_rows, "bytes": size, "seconds": timeout}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    served = serve_run(run, host=host, port=PORT if port is None else port, limits=limits)
    for difference in served.differences:
        say(f"note: this machine prepares inputs differently from training: {difference}", err=True)
    say(served.link)
    say("Stop with Ctrl-C.", err=True)
    served.run()


def _line(prediction: object, top: int) -> str:
    from bushel.training.predicting import Prediction

    assert isinstance(prediction, Prediction)
    if prediction.value is not None:
        values = prediction.value if isinstance(prediction.value, list) else [prediction.value]
        return "\t".join([prediction.name, *(f"{value:.6g}" for value in values)])
    if isinstance(prediction.label, list):
        likely = [f"{label} {prediction.scores[label]:.3f}" for label in prediction.label]
        return "\t".join([prediction.name, *(likely or ["(none)"])])
    best = list(prediction.scores.items())[:top]
    return "\t".join([prediction.name, *(f"{label} {score:.3f}" for label, score in best)])


class Asked(NamedTuple):
    """What the command was asked for."""

    source: str
    out: str
    format: str
    verify: bool
    split: str | None
    condition: str | None
    skip_damaged: bool
    overwrite: bool
    as_json: bool
    label: str | None


def _export_run(asked: Asked) -> int:
    """Export the model of a run; returns the exit code."""
    from bushel.training.exporting import export_run

    format: Any = asked.format
    exported = export_run(asked.source, asked.out, format=format, verify=asked.verify, overwrite=asked.overwrite)
    for note in exported.notes:
        say(f"note: {note}", err=True)
    if asked.as_json:
        say((Path(asked.out) / "export.json").read_text().rstrip())
        return 0
    for signature in exported.signatures:
        arguments = ", ".join(f"{name}: {what}" for name, what in signature.inputs.items())
        verified = "verified" if signature.is_verified else "not verified"
        say(f"{signature.name}({arguments}) -> {', '.join(signature.outputs)}  [{verified}]")
    say(f"\nexported: {asked.out}")
    return 0


def _export_dataset(asked: Asked) -> int:
    """Export a dataset, one of its splits, or some of its records; returns the exit code."""
    import msgspec

    import bushel
    from bushel.exporting import summary_of

    opened: Any = bushel.open(asked.source)
    if asked.split is not None or asked.condition is not None:
        opened = opened.choose(asked.split)
        opened = opened.filter(asked.condition) if asked.condition else opened
    format: Any = asked.format
    with show_progress(_export_step) as show:
        exported = bushel.export_dataset(
            opened,
            asked.out,
            format=format,
            label=asked.label,
            overwrite=asked.overwrite,
            on_fault="skip" if asked.skip_damaged else "raise",
            progress=show,
        )
    if asked.as_json:
        say_data(msgspec.json.format(msgspec.json.encode(exported), indent=2))
    else:
        for line in summary_of(exported):
            say(line)
        say(f"\nexported: {exported.path}")
    return 1 if exported.skipped else 0


def _export_step(done: int, total: int) -> ProgressState:
    return ProgressState("export", done, total, f"{done:,} of {total:,} records", is_end=done == total)


# What exports each format of a run and of a dataset, the default first.
_RUN_FORMATS: dict[str, Callable[[Asked], int]] = dict.fromkeys(("savedmodel", "onnx", "litert"), _export_run)
_DATASET_FORMATS: dict[str, Callable[[Asked], int]] = dict.fromkeys(
    ("parquet", "webdataset", "jsonl", "folder", "tfds"), _export_dataset
)


@click.command(cls=Grouped)
@click.argument("source", metavar="RUN|DATA")
@click.argument("out")
@flag(
    "--format",
    "format_",
    metavar="NAME",
    help="For a run: savedmodel, onnx, litert; for a dataset: parquet, webdataset, jsonl, folder, tfds  "
    "[default: the first]",
)
@flag("--overwrite", is_flag=True, help="Replace OUT")
@json_flag
@trust_flag
@flag(
    "--no-verify",
    "verify",
    is_flag=True,
    default=True,
    flag_value=False,
    group="For a run",
    help="Skip the check with golden inputs",
)
@flag("--split", metavar="NAME", group="For a dataset", help="Export only this split")
@flag(
    "--where",
    "condition",
    metavar="CONDITION",
    group="For a dataset",
    help="Export only records of one split that meet a condition",
)
@flag("--label", metavar="COL", group="For a dataset", help="Feature whose values are the classes")
@flag("--skip-damaged", is_flag=True, group="For a dataset", help="Leave out damaged records and count them")
def export(
    source: str,
    out: str,
    format_: str | None,
    overwrite: bool,
    as_json: bool,
    verify: bool,
    split: str | None,
    condition: str | None,
    skip_damaged: bool,
    label: str | None,
) -> None:
    """Export a trained model, or a dataset, for programs without bushel.

    \b
      bushel export runs/cats serving/cats/1
      bushel export runs/cats cats-onnx --format onnx
      bushel export data/ tables/
      bushel export data/ cats/ --format folder --split train --where "label == 'cat' and width >= 64"

    RUN is the folder that `bushel train` made. A savedmodel has signatures for raw samples (bytes of images, texts,
    columns), for serialised Examples and for tensors. ONNX and LiteRT take decoded and resized images, and no text.
    A process without bushel then answers the golden inputs of the contract, and must give what training gave.
    Writes OUT: the model, and export.json with its signatures and classes.

    DATA is a dataset, TFRecord files, or raw data that build takes. Labels are written by class name. An export that
    was stopped continues when the same command is run again. Writes OUT: a file per shard, or files in SPLIT/CLASS for
    a folder, and _export.json last.

    Exit: 0 exported, 1 damaged records were left out, 2 wrong arguments, unreadable input, a model that the format
    cannot hold, or one that answers differently.
    """
    is_run = (Path(source) / "run.json").is_file()
    known = _RUN_FORMATS if is_run else _DATASET_FORMATS | dict.fromkeys(plugins("exports"), _export_dataset)
    chosen = format_ or next(iter(known))
    if chosen not in known:
        kind = "run" if is_run else "dataset"
        raise click.UsageError(f"--format of a {kind} must be one of {', '.join(known)}; got {chosen!r}")
    asked = Asked(source, out, chosen, verify, split, condition, skip_damaged, overwrite, as_json, label)
    sys.exit(known[chosen](asked))
