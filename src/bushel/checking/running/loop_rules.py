"""EXE050 to EXE059: custom loops."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.checking.report.findings import Finding
from bushel.checking.rules.registry import rule
from bushel.checking.running.execution import Execution

__all__: list[str] = []


@rule("EXE050", "gradients-not-applied", needs="execution", rank=40)
def gradients_not_applied(run: Execution) -> Iterator[Finding]:
    """A loop that computes gradients and never applies them.

    Why: the loss is printed, and no weight changes.
    Example: `tape.gradient(...)` without `optimizer.apply_gradients(...)`
    Fix: `optimizer.apply_gradients(zip(gradients, model.trainable_variables))`
    Ignore: where gradients are only looked at.
    Reports: none collected.
    """
    if run.loop is None or run.loop["applied"] or run.failure is not None or run.stopped:
        return
    if any(True for _ in run.of("assigned")):
        return
    taken = [event for event in run.of("gradient") if event["variables"] and not event["in_keras"] and event["all"]]
    if taken:
        yield run.found(
            "gradients are computed and never applied",
            taken[0]["place"],
            help="optimizer.apply_gradients(zip(gradients, model.trainable_variables))",
        )


@rule("EXE051", "step-without-training", severity="warning", needs="execution", rank=60, silences=("PIP045",))
def step_without_training(run: Execution) -> Iterator[Finding]:
    """A training step that calls the model without `training=True`, or an evaluation with it.

    Why: dropout, augmentation and batch statistics are switched off while training, or on while measuring.
    Example: `model(x)` inside of a tape, with `Dropout` in the model
    Fix: `model(x, training=True)` in the step, `training=False` in the evaluation.
    Ignore: where frozen statistics are meant.
    Reports: none collected.
    """
    for event in run.of("call"):
        layers = ", ".join(event["random_layers"])
        if not layers:
            continue
        if (
            event["tape"]
            and event["training"] in (None, False, "not given")
            and run.loop is not None
            and run.loop["applied"]
        ):
            yield run.found(
                f"the model is called without training=True in a training step: {layers} do nothing",
                event["place"],
                help="model(x, training=True)",
            )
        elif not event["tape"] and event["training"] is True:
            yield run.found(
                f"the model is called with training=True where nothing is trained: {layers} change the outputs",
                event["place"],
                help="model(x, training=False)",
            )


@rule("EXE052", "metric-never-reset", severity="warning", needs="execution", rank=60)
def metric_never_reset(run: Execution) -> Iterator[Finding]:
    """A metric that goes on from one epoch to the next.

    Why: what is printed for the tenth epoch is the mean over all ten.
    Example: `metric.update_state(...)` in each step, and no `reset_state()` per epoch
    Fix: `metric.reset_state()` at the beginning of each epoch.
    Ignore: where one number over the whole of training is meant.
    Reports: none collected.
    """
    for event in run.of("metrics"):
        for metric in event["metrics"]:
            rounds = {round for _, round in metric["results"]}
            if metric["updates"] and not metric["resets"] and len(rounds) > 1:
                yield run.found(
                    f"this {metric['class']} is never reset: each epoch is added to the ones before",
                    metric.get("updated_at"),
                    metric["results"][0][0],
                    metric["place"],
                    help="call reset_state() at the beginning of each epoch",
                )
