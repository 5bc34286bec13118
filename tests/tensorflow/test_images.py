"""Images: both engines decode and resize alike, and augment within the same bounds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode_image, photo

import bushel
from bushel import Feature, Order, Schema
from bushel import transforms as t
from bushel.records.survey import tf_description
from bushel.tensorflow import dataset
from bushel.tensorflow.operations import PIXEL_OPS

tf = pytest.importorskip("tensorflow")

DECODED = [t.decode_image("image"), t.resize("image", 32, 32)]


def images(path: Path, transforms: list[Any], engine: str, **arguments: Any) -> Any:
    made = dataset(path, batch_size=8, transforms=transforms, engine=engine, **arguments)
    return np.concatenate([np.asarray(image) for image, _ in made])


@pytest.mark.parametrize(
    "steps",
    [
        [t.resize("image", 32, 32)],
        [t.resize("image", 32, 32, dtype="float32")],
        [t.resize("image", 20, 16, antialias=True)],
        [t.resize("image", 90, 80, dtype="float32")],
        [t.center_crop("image", 31, 30)],
        [t.resize("image", 32, 32), t.normalise("image", (120.0, 110.0, 100.0), (60.0, 61.0, 62.0))],
        [t.center_crop("image", 33, 32), t.cast("image", "float32")],
    ],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps),
)
def test_engines_agree_within_one_of_255(photos: Path, steps: list[Any]) -> None:
    steps = [t.decode_image("image"), *steps]
    native, graph = (dataset(photos, batch_size=8, transforms=steps, engine=engine) for engine in ("native", "graph"))
    assert native.element_spec == graph.element_spec
    assert native.element_spec[0].shape.is_fully_defined()
    scale = 60.0 if any(type(step) is t.normalise for step in steps) else 1.0
    for (ours, label), (theirs, same_label) in zip(native, graph, strict=True):
        np.testing.assert_array_equal(label, same_label)
        difference = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64))
        assert difference.max() * scale <= 1.0 + 1e-4  # normalised in float32


def test_values_are_those_of_tf_image(photos: Path) -> None:
    steps = [t.decode_image("image"), t.resize("image", 32, 32, dtype="float32")]
    for engine in ("native", "graph"):
        for image, sample in zip(images(photos, steps, engine), bushel.scan(photos), strict=True):
            decoded = tf.io.decode_jpeg(sample["image"], 3, dct_method="INTEGER_ACCURATE")
            assert np.abs(image - tf.image.resize(decoded, [32, 32]).numpy()).max() <= 1.0


@pytest.mark.parametrize("kind", ["png", "gif", "bmp"])
def test_other_formats_are_decoded_to_the_same_pixels(tmp_path: Path, kind: str) -> None:
    schema = Schema.of(image=Feature(dtype="bytes", encoding=kind), label=Feature(dtype="int64"))
    with bushel.Writer(tmp_path / "a.tfrecord", schema=schema) as writer:
        for number in range(8):
            writer.write({"image": encode_image(photo(number, 20, 24), kind.upper()), "label": number})
    native, graph = (images(tmp_path / "a.tfrecord", [t.decode_image("image")], e) for e in ("native", "graph"))
    np.testing.assert_array_equal(native, graph)


AUGMENTATIONS = [
    t.random_flip("image", vertical=True),
    t.random_crop("image", 24, 20),
    t.random_resized_crop("image", 16, 16),
    t.random_shift("image", 0.2),
    t.brightness("image", 0.3),
    t.contrast("image", 0.3),
    t.saturation("image", 0.5),
    t.hue("image", 0.1),
    t.cutout("image", 8),
]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("step", AUGMENTATIONS, ids=lambda step: type(step).__name__)
def test_the_same_draw_changes_an_image_the_same_way(step: Any, dtype: str) -> None:
    for number in range(5):
        image = photo(number, 40, 30).astype(dtype)
        draw = t.Draw(seed=1, epoch=2, record=number)
        expected = step.apply({"image": image}, draw)["image"]
        uniforms = tf.constant(draw.uniforms(4), tf.float32)
        made = PIXEL_OPS[type(step)](step, tf.constant(image), uniforms).numpy()
        assert made.dtype == expected.dtype
        assert np.abs(made.astype(np.float64) - expected).max() <= 1.0


@pytest.mark.parametrize("step", AUGMENTATIONS[:3], ids=lambda step: type(step).__name__)
def test_augmentation_by_the_graph_repeats_with_the_seed_and_differs_by_epoch(photos: Path, step: Any) -> None:
    made = [
        dataset(photos, batch_size=8, transforms=[*DECODED, step], engine="graph", order=Order(seed=5))
        for _ in range(2)
    ]
    first, second = ([np.concatenate([np.asarray(x) for x, _ in one]) for _ in range(2)] for one in made)
    np.testing.assert_array_equal(first, second)
    assert (first[0] != first[1]).any()
    assert first[0].shape == images(photos, [*DECODED, step], "native").shape


def test_series_are_cut_scaled_and_normalised_by_both(mixed: Path) -> None:
    steps = [t.normalise("grid", 0.5, 2.0), t.scale("raw", 0.0), t.jitter("tokens", 0.0)]
    columns = ["grid", "raw", "tokens", "label"]
    native, graph = (
        dataset(mixed, batch_size=25, columns=columns, transforms=steps, engine=e) for e in ("native", "graph")
    )
    assert native.element_spec == graph.element_spec
    for (ours, _), (theirs, _) in zip(native, graph, strict=True):
        np.testing.assert_allclose(ours["grid"], theirs["grid"], rtol=1e-6)
        np.testing.assert_allclose(ours["raw"], theirs["raw"], rtol=1e-6)
        assert ours["tokens"].to_list() == theirs["tokens"].to_list()


def test_windows_of_series_are_cut_by_both(floats: Path) -> None:
    steps = [t.window("x", 2, random=False)]
    native, graph = (dataset(floats, batch_size=25, transforms=steps, engine=e) for e in ("native", "graph"))
    assert native.element_spec == graph.element_spec
    for (ours, _), (theirs, _) in zip(native, graph, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("lengths", [(3, 3, 3, 3), (1, 3, 2, 4)], ids=["same", "ragged"])
def test_lists_of_encoded_images_parse_build_and_feed(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    frames = [[encode_image(photo(number, 8, 8), "PNG") for number in range(count)] for count in lengths]
    source = tmp_path / "episodes.tfrecord"
    with bushel.Writer(source) as writer:
        for number, some in enumerate(frames):
            writer.write({"frames": some, "label": number % 2})
    described: dict[str, Any] = {}
    exec(tf_description(bushel.infer_schema(source)), {"tf": tf}, described)
    parsed = tf.io.parse_single_example(next(iter(bushel.payloads(source))), described["feature_description"])
    assert list(np.asarray(parsed["frames"])) == frames[0]
    built = bushel.build(source, tmp_path / "out", order="source")
    assert (built.records, built.refused) == (4, 0)
    data = bushel.open(tmp_path / "out")["train"]
    assert [data[row]["frames"] for row in range(4)] == frames
    for engine in ("native", "graph"):
        found = next(iter(dataset(data, batch_size=4, engine=engine)))[0]
        assert [
            list(row) for row in (found.to_list() if isinstance(found, tf.RaggedTensor) else found.numpy())
        ] == frames
