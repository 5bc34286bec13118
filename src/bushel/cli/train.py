"""`train`: a dataset to an evaluated model, with a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from bushel.cli.info import json_option
from bushel.cli.options import Headed

__all__ = ["predict"]


if TYPE_CHECKING:
    from bushel.checking import Finding
    from bushel.training import Evaluation, Options, Progress, Trained

_PLAIN = (
    *("label", "task", "loss", "epochs", "batch_size", "learning_rate", "schedule", "warmup", "optimiser", "augment"),
    *("early_stopping", "checkpoint_every", "seed", "strategy", "range", "shuffle_buffer", "threads", "on_fault"),
    *("model", "deterministic", "tensorboard", "shuffle", "preflight"),
)
_PRECISIONS = {"float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}
_SHOWN = 5  # causes


_HEADINGS = {
    "label": "Data",
    "model": "Model",
    "epochs": "Training",
    "image_size": "Reading",
    "out": "The run",
}


@click.command(cls=Headed, headings=_HEADINGS)
@click.argument("data", nargs=-1, required=True, metavar="DATA…")
@click.option("--label", metavar="COL", help="What is to be predicted.  [default: the manifest's]")
@click.option(
    "--task", type=click.Choice(["classification", "multi_label", "regression"]), help="[default: told from the label]"
)
@click.option("--columns", metavar="A,B", help="Learn from these features only.")
@click.option("--split", metavar="NAME", help="With --evaluate: the split to measure on.  [default: test, or val]")
@click.option("--ignore", multiple=True, metavar="IDS", help="Rules that shall not stop the run.")
@click.option(
    "--no-preflight", "preflight", is_flag=True, default=True, flag_value=False, help="Begin without looking."
)
@click.option("--model", metavar="FILE.py:FUNCTION|FILE.keras", help="A model of your own.  [default: one that fits]")
@click.option("--loss", metavar="NAME", help="A loss of Keras, by name.  [default: one that fits]")
@click.option(
    "--epochs", type=click.IntRange(min=1), default=10, show_default=True, help="Passes over the train split."
)
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True, help="Records in one step.")
@click.option("--learning-rate", type=float, metavar="RATE", help="[default: one that fits the optimiser]")
@click.option(
    "--schedule",
    type=click.Choice(["constant", "cosine", "exponential", "plateau"]),
    default="constant",
    show_default=True,
    help="Of the learning rate.",
)
@click.option("--warmup", type=float, default=0.0, metavar="SHARE", help="Share of the steps in which the rate rises.")
@click.option(
    "--optimiser",
    "--optimizer",
    type=click.Choice(["adam", "adamw", "sgd", "rmsprop", "nadam", "lion"]),
    default="adam",
    show_default=True,
)
@click.option("--mixed-precision", type=click.Choice(["float16", "bfloat16"]), help="Compute in half precision.")
@click.option("--augment", metavar="flip,rotate=15", help="Change inputs of train at random; or light.")
@click.option("--class-weights", metavar="balanced|CAT=2,DOG=1", help="Weigh classes.")
@click.option(
    "--early-stopping", type=click.IntRange(min=1), metavar="N", help="Stop after N epochs without a better loss."
)
@click.option("--strategy", type=click.Choice(["mirrored"]), help="Spread each batch over the devices of this machine.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of weights, order and augmentation.")
@click.option(
    "--not-deterministic",
    "deterministic",
    is_flag=True,
    default=True,
    flag_value=False,
    help="Allow faster ops that vary.",
)
@click.option("--image-size", metavar="HEIGHTxWIDTH", help="Resize images.  [default: their own, or 160x160]")
@click.option("--range", type=click.Choice(["0..255", "0..1", "-1..1"]), help="Of pixels that the model is fed.")
@click.option(
    "--shuffle/--no-shuffle", default=True, help="Read train in another order each epoch.  [default: shuffle]"
)
@click.option(
    "--shuffle-buffer", type=click.IntRange(min=1), default=10_000, show_default=True, help="Of compressed shards."
)
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="That make batches.  [default: cores]")
@click.option(
    "--on-fault",
    type=click.Choice(["raise", "skip", "replace"]),
    default="raise",
    show_default=True,
    help="Damaged records.",
)
@click.option("--out", metavar="RUN", help="The folder of the run.  [default: DATA-run]")
@click.option("--evaluate", "run", metavar="RUN", help="Train nothing: measure the model of RUN on DATA.")
@click.option("--resume", is_flag=True, help="Go on with the run that was stopped in --out.")
@click.option("--overwrite", is_flag=True, help="Replace the run in --out.")
@click.option(
    "--checkpoint-every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Steps between checkpoints.  [default: each epoch]",
)
@click.option("--no-tensorboard", "tensorboard", is_flag=True, default=True, flag_value=False, help="Write no logs.")
@json_option
def train(
    data: tuple[str, ...],
    out: str | None,
    run: str | None,
    split: str | None,
    as_json: bool,
    resume: bool,
    overwrite: bool,
    **given: Any,
) -> None:
    """Train a model on a dataset, and say whether it learned.

    \b
      bushel train data/
      bushel train data/ --epochs 20 --augment flip,rotate=10 --class-weights balanced --out runs/1
      bushel train data/ --model my.py:build_model --learning-rate 0.0003 --schedule cosine
      bushel train data/ --out runs/1 --resume
      bushel train --evaluate runs/1 other/

    DATA is a dataset, TFRecord files, or patterns; nothing is written into it. Before the first epoch, data and model
    are looked at for seconds. The verdict compares the model with the commonest answer and with a linear model.

    Writes RUN: model.keras, metrics and history (JSON and CSV), logs for TensorBoard, report.html, contract.json.

    Exit: 0 it learned, 1 it did not, or what was found stopped it, 2 wrong arguments or unreadable input.
    """
    import bushel
    from bushel.training import Listener
    from bushel.training.loop.framework import load_quietly

    load_quietly()
    if run is not None:
        _show_evaluation(bushel.evaluate(run, list(data), split=split), as_json=as_json)
        return
    options = _options(given)
    folder = out or f"{str(data[0]).rstrip('/').removesuffix('.tfrecord')}-run"
    with _progress() as progress:
        listener = Listener(progress=progress, finding=_say, note=lambda note: click.echo(f"note: {note}", err=True))
        try:
            trained = bushel.train(
                list(data), options, out=folder, resume=resume, overwrite=overwrite, listener=listener
            )
        except KeyboardInterrupt:
            click.echo("bushel: stopped; --resume goes on from the last checkpoint", err=True)
            sys.exit(130)
    _show(trained, as_json=as_json)
    sys.exit(0 if trained.verdict.learned else 1)


def _options(given: dict[str, Any]) -> Options:
    from bushel.training import Options

    fields = {name: given[name] for name in _PLAIN}
    if given["columns"]:
        fields["columns"] = tuple(given["columns"].split(","))
    if given["mixed_precision"]:
        fields["precision"] = _PRECISIONS[given["mixed_precision"]]
    if given["image_size"]:
        fields["image_size"] = _size(given["image_size"])
    fields["class_weights"] = _weights(given["class_weights"])
    fields["ignore"] = tuple(id.strip() for text in given["ignore"] for id in text.split(",") if id.strip())
    return Options(**fields)


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    if not height.isdecimal() or not width.isdecimal() or not int(height) or not int(width):
        raise click.UsageError(f"--image-size must be as 160x160, got {text!r}")
    return int(height), int(width)


def _weights(text: str | None) -> Any:
    if text is None or text == "balanced":
        return text
    weights = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        try:
            weights[name] = float(value)
        except ValueError:
            raise click.UsageError(f"--class-weights must be balanced, or as CAT=2,DOG=1; got {part!r}") from None
    return weights


def _say(finding: Finding) -> None:
    from bushel.checking.report import formats as terminal

    for line in terminal.finding_lines(finding, colour=sys.stderr.isatty()):
        click.echo(line, err=True)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; in a log a line for each epoch, and now and then one between."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=None, said="")

        def show(progress: Progress) -> None:
            done = (progress.epoch - 1) * progress.steps + progress.step
            title = f"epoch {progress.epoch}/{progress.epochs}"
            bar.update(
                task, description=title, completed=done, total=progress.epochs * progress.steps, said=_said(progress)
            )
            if progress.is_end_of_epoch:
                bar.console.print(f"{title}  {_said(progress)}", highlight=False)

        yield show


class _Lines:
    """Plain lines, one at the end of each epoch and one every ten seconds."""

    def __init__(self) -> None:
        self.said = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if progress.is_end_of_epoch or time.monotonic() - self.said > 10:
            self.said = time.monotonic()
            place = "" if progress.is_end_of_epoch else f", step {progress.step:,} of {progress.steps:,}"
            click.echo(f"epoch {progress.epoch}/{progress.epochs}{place}: {_said(progress)}", err=True)


def _said(progress: Progress) -> str:
    shown = ("loss", "accuracy", "mae", "val_loss", "val_accuracy", "val_auc", "val_mae")
    values = [f"{name} {progress.values[name]:.4g}" for name in shown if name in progress.values]
    return f"{', '.join(values)}, {progress.samples_per_second:,.0f} samples/s, waiting {progress.waiting:.0%}"


def _show_evaluation(found: Evaluation, *, as_json: bool) -> None:
    import json

    import msgspec

    from bushel.training.run_folder import plain

    if as_json:
        click.echo(json.dumps(plain(msgspec.to_builtins(found)), indent=2))
        return
    for name, value in found.metrics.items():
        click.echo(f"{name.replace('_', ' '):20} {value:.4g}")
    score, name = found.score, found.metric.replace("_", " ")
    click.echo(
        f"{found.split}: {name} {score['value']:.4g} ({score['low']:.4g} to {score['high']:.4g}) "
        f"on {found.records:,} records"
    )


def _show(trained: Trained, *, as_json: bool) -> None:
    import json

    from bushel.checking.report import formats as terminal
    from bushel.training.report.summary import json_of, metric_lines
    from bushel.training.run_folder import plain

    if as_json:
        click.echo(json.dumps(plain(json_of(trained)), indent=2))
        return
    for line in metric_lines(trained):
        click.echo(line)
    click.echo(trained.verdict.summary)
    if not trained.verdict.learned:
        causes = trained.findings[:_SHOWN]
        for number, finding in enumerate(causes, 1):
            click.echo(f"\nlikely cause {number}:")
            for line in terminal.finding_lines(finding, colour=sys.stdout.isatty()):
                click.echo(line)
    click.echo(f"\nrun: {trained.folder}")


@click.command(short_help="Say what a trained model makes of files.")
@click.argument("run")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--split", help="Which split of a dataset.")
@click.option("--lines/--whole", default=None, help="A text file holds a sample a line, or one.  [default: as built]")
@click.option("--top", default=1, show_default=True, metavar="K", type=click.IntRange(1), help="Classes to print.")
@click.option(
    "--batch-size", default=32, show_default=True, metavar="N", type=click.IntRange(1), help="Samples at once."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a sample, with the scores of all classes.")
def predict(
    run: str, paths: tuple[str, ...], split: str | None, lines: bool | None, top: int, batch_size: int, as_json: bool
) -> None:
    """Say what a trained model makes of files, prepared exactly as in training.

    \b
      bushel predict runs/cats photos/*.jpg          one line an image
      bushel predict runs/reviews new.csv --json     one row a sample
      bushel predict runs/cats data/ --split test    records of a dataset

    RUN is the folder that `bushel train` made: its model.keras and its contract.json are all that is needed.

    FILE is an image, a text, a table (.csv, .tsv, .jsonl, .parquet, .arrow), a TFRecord file or dataset, or a folder.

    Exit: 0 all predicted, 1 some could not be (said on stderr), 2 wrong arguments or unreadable input.
    """
    from bushel.training.predicting import predict as predict_files

    refused = done = 0
    for prediction in predict_files(run, paths, split=split, lines=lines, batch_size=batch_size):
        if prediction.why is not None:
            refused += 1
            click.echo(f"bushel: {prediction.name}: {prediction.why}", err=True)
            continue
        done += 1
        click.echo(msgspec.json.encode(prediction).decode() if as_json else _line(prediction, top))
    if refused:
        click.echo(f"{refused:,} of {refused + done:,} could not be predicted", err=True)
        sys.exit(1 if done else 2)


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
