"""`train`: a dataset to an evaluated model, with a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from bushel.cli.headings import Headed
from bushel.cli.look import json_option

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
    from bushel.training.framework import load_quietly

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
    from bushel.checking import terminal

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

    from bushel.training.folder import plain

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

    from bushel.checking import terminal
    from bushel.training.folder import plain
    from bushel.training.summary import json_of, metric_lines

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
