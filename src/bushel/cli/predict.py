"""`bushel predict`."""

from __future__ import annotations

import sys

import click
import msgspec

__all__ = ["predict"]


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
