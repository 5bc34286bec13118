"""Every engine that a transform of images declares gives what `apply` gives, and no engine is left undeclared."""

from typing import Any

import numpy as np
import pytest
from pictures import encode_image, photo

from bushel import transforms as t
from bushel.data.columns import BytesColumn
from bushel.tensorflow.operations import PIXEL_OPS
from bushel.transforms.by_name import BUILT_IN
from bushel.transforms.chain import Chain, Spent
from bushel.transforms.interface import ColumnTransform, Draw, PaintedTransform


def fitted(step: Any) -> Any:
    fit = step.begin_fit()
    fit.add([{"image": photo(number, 30, 40)} for number in range(3)])
    return fit.finish()


ONE_SIZE = t.resize("image", 40, 36)  # the core paints batches of one size
PADDED = t.resize("image", 21, 50, fit="pad", fill=9)

STEPS: list[Any] = [
    t.decode_image("image", channels=1),
    t.resize("image", 30, 44),
    PADDED,
    t.center_crop("image", 31, 30),
    t.random_flip("image", vertical=True),
    t.random_crop("image", 24, 20),
    t.random_shift("image", 0.2),
    t.random_resized_crop("image", 24, 28),
    t.brightness("image", 0.3),
    t.contrast("image", 0.3),
    t.saturation("image", 0.5),
    t.hue("image", 0.1),
    t.rotate("image", 25, fill=3),
    t.cutout("image", 8),
    t.cast("image", "float32"),
    t.normalise("image", (120.0, 110.0, 100.0), (58.0, 57.0, 56.0)),
    fitted(t.standardise("image", each=False)),
    t.resize_encoded("image", 20, 24, form="png"),
    t.reencode("image", form="png"),
    t.on_background("image"),
]


def files(kind: str = "PNG") -> list[bytes]:
    return [encode_image(photo(number, 50 + number, 60 - number), kind) for number in range(5)]


def of_engine(engine: str) -> list[Any]:
    return [step for step in STEPS if engine in step.engines]


def named(step: Any) -> str:
    return type(step).__name__


def of_samples(steps: list[Any], images: list[Any]) -> list[Any]:
    chain = Chain.of(steps, seed=3)
    return [chain.apply({"image": image}, record=row)["image"] for row, image in enumerate(images)]


def furthest(one: Any, other: Any) -> float:
    assert np.shape(one) == np.shape(other)
    return float(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)).max())


def test_every_transform_of_images_that_has_a_second_engine_is_in_the_table() -> None:
    several = {kind for kind in BUILT_IN.values() if len(kind.engines) > 1}
    assert several == {type(step) for step in STEPS}


@pytest.mark.parametrize("kind", BUILT_IN.values(), ids=lambda kind: kind.__name__)
def test_a_transform_declares_the_engines_that_it_has(kind: Any) -> None:
    assert ("core" in kind.engines) == hasattr(kind, "paint")
    assert ("tensorflow" in kind.engines) == (kind in PIXEL_OPS or kind in (t.decode_image, t.cast, t.normalise))
    if "encoded" in kind.engines:
        assert hasattr(kind, "apply_columns")


@pytest.mark.parametrize("step", of_engine("core"), ids=named)
def test_the_core_paints_what_apply_makes(step: Any) -> None:
    assert isinstance(step, PaintedTransform)
    steps = [step, ONE_SIZE] if isinstance(step, t.decode_image) else [t.decode_image("image"), ONE_SIZE, step]
    images = files("JPEG")
    spent = Spent({})
    rows = Chain.of(steps, seed=3).apply_rows({"image": BytesColumn.of(images)}, {}, range(5), spent=spent)
    assert spent.by_name == {}  # nothing ran in Python
    scale = 56.0 if isinstance(step, t.normalise | t.standardise) else 1.0
    for one, other in zip(rows.columns["image"], of_samples(steps, images), strict=True):
        assert one.dtype == other.dtype
        assert furthest(one, other) * scale <= 1.0 + 1e-3


BY_OPS = [step for step in of_engine("tensorflow") if type(step) in PIXEL_OPS and step != PADDED]  # the ops stretch


@pytest.mark.parametrize("step", BY_OPS, ids=named)
def test_the_ops_of_tensorflow_make_what_apply_makes_of_the_same_draws(step: Any) -> None:
    pixels, draw = photo(1, 40, 36), Draw(3, 0, 7)
    made = PIXEL_OPS[type(step)](step, pixels, np.array(draw.uniforms(4), np.float32))
    assert furthest(made, step.apply({"image": pixels}, draw)["image"]) <= 1.0


@pytest.mark.parametrize("step", of_engine("encoded"), ids=named)
def test_the_core_remakes_encoded_images_as_apply_does(step: Any) -> None:
    assert isinstance(step, ColumnTransform)
    images = files()
    made = step.apply_columns({"image": BytesColumn.of(images)})["image"]
    assert [bytes(image) for image in made.to_list()] == of_samples([step], images)
