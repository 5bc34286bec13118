"""What a run followed of a program, step by step, and what it did not understand."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.checking.program import FollowedStep
from bushel.checking.rules.keras_expectations import CROSSENTROPIES, SQUARED, loss_called
from bushel.checking.running.execution import Event, Execution

_DATA = {
    "train": "training data",
    "val": "validation data",
    "evaluate": "data that is evaluated",
    "predict": "data that is predicted",
}


def steps_of(run: Execution) -> list[FollowedStep]:
    """Every use of data, every model and every loss; and what never came to pass."""
    found = [step for fit in run.fits for step in _of_fit(run, fit)]
    for event in run.of("evaluate", "predict"):
        found.append(_of_data(run, event["kind"], event["data"], event))
    found += _of_loop(run)
    if not run.has_trained:
        found.append(FollowedStep(what="training", problem="the run came to none"))
    if run.failure is not None or run.stopped is not None:
        why = "it ended with an error" if run.stopped is None else "it ended at a limit"
        found.append(FollowedStep(what="the rest of the script", problem=why))
    return list(dict.fromkeys(found))


def _line(event: Event) -> int | None:
    place = event.get("place")
    return int(place[1]) if place else None


def _of_data(run: Execution, role: str, look: Event | None, event: Event) -> FollowedStep:
    model = event["model"]["number"] if isinstance(event["model"], dict) else event["model"]
    line = _line(event)
    if look is None:
        return FollowedStep(what=_DATA[role], line=line, problem="of a kind that is not known")
    traced = [use for use in run.traced if use.role == role and use.model == model and use.place is not None]
    own = [use for use in traced if use.place is not None and use.place.line == line]
    if own:
        return FollowedStep(what=_DATA[role], line=line, problem=own[-1].problem)
    if look.get("arrays") or look.get("failed"):
        why = "" if run.data is None or look.get("failed") else "arrays; how they were made of the records is not known"
    else:
        why = "batches that Python makes"
    return FollowedStep(what=_DATA[role], line=line, problem=why)


def _of_fit(run: Execution, fit: Event) -> Iterator[FollowedStep]:
    line, probe = _line(fit), fit.get("probe") or {}
    yield _of_data(run, "train", fit["train"], fit)
    if fit["arguments"]["has_validation"]:
        yield _of_data(run, "val", fit["val"], fit)
    is_seen = "outputs" in probe or fit.get("failed")
    why = str(probe.get("problem") or "it was not called on a batch")
    yield FollowedStep(what="the model that is fitted", line=line, problem="" if is_seen else why)
    loss = fit["model"].get("loss") or {}
    is_known = loss_called(loss.get("name") or "") in (*CROSSENTROPIES, *SQUARED) or probe.get("judged")
    is_own = fit["model"]["custom_step"] and not loss
    why = "train_step computes it" if is_own else f"{loss.get('name') or 'none'} is not one that is known"
    yield FollowedStep(what="the loss", line=line, problem="" if is_known else why)


def _of_loop(run: Execution) -> Iterator[FollowedStep]:
    if run.loop is None:
        return
    lines = [_line(event) for event in run.of("gradient")]
    line = lines[0] if lines else None
    uses = [use for use in run.traced if use.place is None]
    if not uses:
        yield FollowedStep(what="the data of the loop", line=line, problem="it iterates over no pipeline")
    yield from (FollowedStep(what=_DATA[use.role], line=line, problem=use.problem) for use in uses)
    is_called = any(True for _ in run.of("loss", "on_batch"))
    yield FollowedStep(what="the loss of the loop", line=line, problem="" if is_called else "it is none of Keras")
