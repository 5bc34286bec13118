"""Errors that the user's code raised: the lines, and the link of a pipeline, that they come from."""

from __future__ import annotations

import re
import time
import traceback
from typing import Any

from bushel.checking.running import links
from bushel.checking.running.user_code import Place, is_user_file, seen

_IN_USER_CODE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_PASSED_ON = re.compile(r"\b(original|run|begin|call|enter|leave|gradient|make|exec|function|next|_original)\(")
LONGEST_MESSAGE = 3000
SEARCH_SECONDS = 6.0
MOST_ELEMENTS = 3000


def frames_of(error: BaseException) -> list[Place]:
    """The user's lines, outermost first, those in the message of an error in traced code included."""
    found: list[Place] = []
    for frame in traceback.extract_tb(error.__traceback__):
        if is_user_file(frame.filename):
            found.append((frame.filename, frame.lineno or 0, frame.name))
    for name, line, function in _IN_USER_CODE.findall(str(error)):
        place = (name, int(line), function)
        if is_user_file(name) and place not in found:
            found.append(place)
    return found


def _is_ours(error: BaseException) -> bool:
    """Whether the checker raised it, and not the script."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    if not last or "/bushel/checking/running/" not in last[0].filename or isinstance(error, OSError):
        return False
    # Keras leaves its own frames out of tracebacks: the last one is then the call that was passed on.
    return _PASSED_ON.search(last[0].line or "") is None


def _ends(message: str) -> str:
    """A message, without the middle of a long one: errors in graphs quote a whole stack before the reason."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[: LONGEST_MESSAGE // 3]}\n...\n{message[-LONGEST_MESSAGE * 2 // 3 :]}"


def mark_told(error: BaseException) -> None:
    """An error is written down; it may travel on through the user's code."""
    error.__dict__["_bushel_told"] = True


def is_told(error: BaseException) -> bool:
    """Whether an error, or the one it came from, is written down."""
    known: BaseException | None = error
    while known is not None:
        if "_bushel_told" in getattr(known, "__dict__", {}):
            return True
        known = known.__cause__ or known.__context__
    return False


def tell_failure(error: BaseException, *, doing: str = "script", **facts: Any) -> None:
    """Write an error down once."""
    if is_told(error):
        return
    mark_told(error)
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
    seen.tell(
        "error",
        type=type(error).__name__,
        bases=[base.__name__ for base in type(error).__mro__[1:-1]],
        message=_ends(str(error)),
        cause=None if cause is None else _ends(f"{type(cause).__name__}: {cause}"),
        frames=frames_of(error),
        ours=_is_ours(error),
        doing=doing,
        name=getattr(error, "name", None) if isinstance(error, (ImportError, NameError, AttributeError)) else None,
        filename=str(error.filename) if isinstance(error, OSError) and error.filename else None,
        **facts,
    )


def tell_pipeline_failure(dataset: Any, error: BaseException, consumer: Place | None) -> None:
    """Write down an error that drawing raised, with the link and the line that raise it."""
    mark_told(error)
    frames = frames_of(error)
    link, message = None, str(error)
    if not frames or type(error).__module__.startswith("tensorflow"):
        link = _failing_link(dataset)
        if link is not None and link.function is not None:
            found = _called_again(link)
            if found is not None:
                frames = [frame for frame in frames_of(found) if frame[0] != ""] or frames
                message = f"{found}" if len(str(found)) > 3 else message
    seen.tell(
        "error",
        type=type(error).__name__,
        bases=[base.__name__ for base in type(error).__mro__[1:-1]],
        message=_ends(str(error)),
        again=_ends(message),
        cause=None,
        frames=frames,
        doing="drawing",
        link=None if link is None else link.facts(),
        consumer=consumer,
        chain=[one.id for one in links.chain_of(dataset)],
        name=None,
        filename=None,
    )


def _failing_link(dataset: Any) -> links.Link | None:
    """The first link of the chain from which nothing can be drawn."""
    begun = time.process_time()
    for link in links.chain_of(dataset):
        if not hasattr(link.dataset, "_variant_tensor") or not hasattr(link.dataset._variant_tensor, "numpy"):
            continue  # made inside of a function
        if link.name in ("repeat", "prefetch", "with_options") and link.inputs:
            continue
        try:
            for count, _ in enumerate(links.original_iter(link.dataset)):
                if count > MOST_ELEMENTS or time.process_time() - begun > SEARCH_SECONDS:
                    break
        except Exception:
            return link
    return None


def _called_again(link: links.Link) -> BaseException | None:
    """What a link's function raises when it is called as plain Python."""
    import tensorflow as tf

    if not link.inputs or link.function is None or link.name not in ("map", "filter", "flat_map", "interleave"):
        return None
    begun = time.process_time()
    was_eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        for count, element in enumerate(links.original_iter(link.inputs[0].dataset)):
            if count > MOST_ELEMENTS or time.process_time() - begun > SEARCH_SECONDS:
                break
            try:
                result = link.function(*element) if isinstance(element, tuple) else link.function(element)
                if link.name in ("flat_map", "interleave"):
                    for inner, _ in enumerate(links.original_iter(result)):
                        if inner > 100:
                            break
            except Exception as error:
                return error
    except Exception:
        return None
    finally:
        tf.config.run_functions_eagerly(was_eager)
    return None
