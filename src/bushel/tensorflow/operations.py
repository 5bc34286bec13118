"""Transforms as TensorFlow's ops: the same arithmetic, for the engine that does without bushel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from bushel.schema import Schema
from bushel.tensorflow.framework import load
from bushel.tensorflow.pixels import PIXEL_OPS, decode
from bushel.tensorflow.strings import STRING_OPS
from bushel.transforms import cast, center_crop, decode_image, jitter, normalise, resize, scale, window

__all__ = ["is_by_row", "is_random", "transform_batch", "transform_row"]

Operation: TypeAlias = Callable[[Any, Any, Any], Any]  # transform, one sample's value, a few numbers of 0 to 1

_UNIFORMS = 4  # that a transform may draw for one sample


def transform_batch(
    transforms: Sequence[Any], schema: Schema, specs: dict[str, Any]
) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """A function that applies all transforms to a parsed batch; `seed` says what is drawn for it.

    Each transform changes one feature, so the chain of each feature is applied on its own.
    """
    chains = chains_of(transforms)

    def apply(columns: dict[str, Any], seed: Any) -> dict[str, Any]:
        for number, (source, target, chain) in enumerate(chains):
            change = _make_chain(chain, schema, source)
            columns = {**columns, target: change(columns[source], specs.get(target), (seed[0], seed[1] + number))}
        return columns

    return apply


def transform_row(transforms: Sequence[Any], schema: Schema) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """A function that applies all transforms to one parsed row."""
    chains = chains_of(transforms)

    def apply(row: dict[str, Any], seed: Any) -> dict[str, Any]:
        tf = load()
        for number, (source, target, chain) in enumerate(chains):
            drawn = tf.random.stateless_uniform([len(chain), _UNIFORMS], tf.stack([seed[0], seed[1] + number]))
            encoding = schema[source].encoding if source in schema else "list"
            row = {**row, target: _apply_chain(chain, row[source], drawn, encoding)}
        return row

    return apply


class Chain(NamedTuple):
    """Transforms that run one behind the other on one feature, and what they make of it."""

    source: str
    target: str
    steps: list[Any]


def chains_of(transforms: Sequence[Any]) -> list[Chain]:
    """The transforms of each feature; refuses those that there are no ops for."""
    chains: list[Chain] = []
    for step in transforms:
        if not (type(step) is decode_image or type(step) in _OPERATIONS):
            raise ValueError(f'engine must be "native" for {type(step).__name__}: there are no TensorFlow ops for it')
        target = getattr(step, "out", None) or step.feature
        last = next((chain for chain in reversed(chains) if step.feature in (chain.source, chain.target)), None)
        if last is not None and last.source == last.target == step.feature == target:
            last.steps.append(step)
        else:
            chains.append(Chain(step.feature, target, [step]))
    return chains


def is_by_row(transforms: Sequence[Any]) -> bool:
    """Whether any changes one row at a time, as decoding must: rows may have any size until they are resized."""
    return any(type(step) not in _ELEMENTWISE for step in transforms)


def is_random(transforms: Sequence[Any]) -> bool:
    """Whether any of them draws."""
    return any(type(step) not in _FIXED for step in transforms)


def _make_chain(chain: list[Any], schema: Schema, name: str) -> Callable[[Any, Any, Any], Any]:
    if all(type(step) in _ELEMENTWISE for step in chain):
        return lambda value, _, __: _map_values(chain, value)

    def change(value: Any, spec: Any, seed: Any) -> Any:
        """Each row on its own, because decoded rows may have any size until they are resized."""
        tf = load()
        rows = value.nrows() if isinstance(value, tf.RaggedTensor) else tf.shape(value)[0]
        drawn = tf.random.stateless_uniform([rows, len(chain), _UNIFORMS], tf.stack(seed))

        def one(row: tuple[Any, Any]) -> Any:
            return _apply_chain(chain, *row, schema[name].encoding)

        shape = spec.shape[1:]
        if isinstance(spec, tf.RaggedTensorSpec):
            row_spec = tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank - 1, tf.int64)
        else:
            row_spec = tf.TensorSpec(shape, spec.dtype)
        return tf.map_fn(lambda row: tf.cast(one(row), spec.dtype), (value, drawn), fn_output_signature=row_spec)

    return change


def _apply_chain(chain: list[Any], value: Any, uniforms: Any, encoding: str) -> Any:
    for number, step in enumerate(chain):
        if type(step) is decode_image:
            value = decode(step, value, encoding)
        else:
            value = _OPERATIONS[type(step)](step, value, uniforms[number])
    return value


def _map_values(chain: list[Any], value: Any) -> Any:
    tf = load()
    if isinstance(value, tf.RaggedTensor):
        return value.with_flat_values(_map_values(chain, value.flat_values))
    for step in chain:
        value = _OPERATIONS[type(step)](step, value, None)
    return value


def _cast(step: Any, value: Any, _: Any) -> Any:
    return load().cast(value, step.dtype)


def _normalise(step: Any, value: Any, _: Any) -> Any:
    tf = load()
    mean, std = tf.constant(step.mean, tf.float32), tf.constant(step.std, tf.float32)
    return (tf.cast(value, tf.float32) - mean) / std


def _scale(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load()
    return tf.cast(value, tf.float32) * (1 - step.most + 2 * step.most * uniforms[0])


def _jitter(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load()
    seed = tf.cast(uniforms[:2] * 2.0**31, tf.int64)
    noise = tf.random.stateless_normal(tf.shape(value), seed, stddev=step.std)
    return tf.cast(value, tf.float32) + noise


def _window(step: Any, value: Any, uniforms: Any) -> Any:
    tf = load()
    room = tf.shape(value)[0] - step.length
    message = f"{step.feature}: the series has fewer than {step.length} steps"
    with tf.control_dependencies([tf.debugging.assert_non_negative(room, message)]):
        at = uniforms[0] if step.random else 0.5
        start = tf.minimum(tf.cast(at * tf.cast(room + 1, tf.float32), tf.int32), room)
    return value[start : start + step.length]


_ELEMENTWISE: dict[type, Operation] = {cast: _cast, normalise: _normalise, **STRING_OPS}
_FIXED = (*_ELEMENTWISE, decode_image, resize, center_crop)  # draw nothing
_OPERATIONS: dict[type, Operation] = {
    **_ELEMENTWISE,
    **PIXEL_OPS,
    scale: _scale,
    jitter: _jitter,
    window: _window,
}
