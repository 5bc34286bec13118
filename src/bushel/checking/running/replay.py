"""Which link of a pipeline fails, and at which line: its function is called once more, record by record."""

from __future__ import annotations

import time
from typing import Any

from bushel.checking.running import links
from bushel.checking.running.failures import frames_of, mark_told
from bushel.checking.running.places import Place, seen

__all__ = ["tell_pipeline_failure"]

SEARCH_SECONDS = 6.0
MOST_ELEMENTS = 3000
LONGEST_MESSAGE = 3000


def tell_pipeline_failure(dataset: Any, error: BaseException, consumer: Place | None) -> None:
    """Write down an error met while drawing, with the link and the line that raise it."""
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
        message=str(error)[:LONGEST_MESSAGE],
        again=message[:LONGEST_MESSAGE],
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
    begun = time.monotonic()
    for link in links.chain_of(dataset):
        if not hasattr(link.dataset, "_variant_tensor") or not hasattr(link.dataset._variant_tensor, "numpy"):
            continue  # made inside of a function
        if link.name in ("repeat", "prefetch", "with_options") and link.inputs:
            continue
        try:
            for count, _ in enumerate(links.original_iter(link.dataset)):
                if count > MOST_ELEMENTS or time.monotonic() - begun > SEARCH_SECONDS:
                    break
        except Exception:
            return link
    return None


def _called_again(link: links.Link) -> BaseException | None:
    """What a link's function raises when it is called as plain Python."""
    import tensorflow as tf

    if not link.inputs or link.function is None or link.name not in ("map", "filter", "flat_map", "interleave"):
        return None
    begun = time.monotonic()
    was_eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        for count, element in enumerate(links.original_iter(link.inputs[0].dataset)):
            if count > MOST_ELEMENTS or time.monotonic() - begun > SEARCH_SECONDS:
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
