"""Keras models beside the data, and a few steps of training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode_image, photo

import bushel
from bushel.checking import ReadingPlan, all_rules

keras = pytest.importorskip("keras")


def data(span: str = "0..1", rows: int = 120) -> dict[str, Any]:
    random = np.random.default_rng(0)
    x = random.random((rows, 8)).astype(np.float32) * (255 if span == "0..255" else 1)
    return {"x": x, "label": np.arange(rows) % 4}


def model(*layers: Any, loss: Any = None) -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((8,)), *layers])
    if loss is not None:
        made.compile(optimizer="adam", loss=loss)
    return made


def rules(report: bushel.checking.Report) -> set[str]:
    return {finding.rule for finding in report if finding.severity != "info"}


def softmax(units: int = 4) -> Any:
    return keras.layers.Dense(units, activation="softmax")


def test_a_model_that_fits_gives_nothing() -> None:
    fitting = model(keras.layers.Dense(16, "relu"), softmax(), loss="sparse_categorical_crossentropy")
    assert rules(bushel.check(data(), model=fitting)) == set()


def test_mdl001_a_model_that_rescales_and_data_of_0_to_1() -> None:
    scaling = model(keras.layers.Rescaling(1 / 255), softmax())
    assert "MDL001" in rules(bushel.check(data(), model=scaling))
    assert "MDL001" not in rules(bushel.check(data("0..255"), model=scaling))


@pytest.mark.parametrize(
    ("head", "loss"),
    [
        (lambda: keras.layers.Dense(4), keras.losses.SparseCategoricalCrossentropy),
        (softmax, lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
        (softmax, lambda: "categorical_crossentropy"),
    ],
)
def test_mdl002_a_loss_that_does_not_fit_the_output(head: Any, loss: Any) -> None:
    assert "MDL002" in rules(bushel.check(data(), model=model(head(), loss=loss())))


def test_mdl003_a_head_that_is_too_small_and_lbl001_with_it() -> None:
    assert {"MDL003", "LBL001"} <= rules(bushel.check(data(), model=model(softmax(3))))


def test_mdl004_an_input_of_another_size() -> None:
    other = keras.Sequential([keras.Input((9,)), softmax()])
    assert "MDL004" in rules(bushel.check(data(), model=other))


def test_mdl005_a_normalization_that_was_never_adapted() -> None:
    fresh = keras.layers.Normalization()
    assert "MDL005" in rules(bushel.check(data(), model=model(fresh, softmax())))
    adapted = keras.layers.Normalization()
    adapted.adapt(data()["x"])
    assert "MDL005" not in rules(bushel.check(data(), model=model(adapted, softmax())))


def test_mdl006_batch_norm_on_batches_of_one() -> None:
    normed = model(keras.layers.BatchNormalization(), softmax())
    assert "MDL006" in rules(bushel.check(data(), model=normed, plan=ReadingPlan(batch_size=1)))


def test_mdl007_padding_that_is_not_masked() -> None:
    tokens = np.tile(np.array([5, 6, 7, 8, 0, 0, 0, 0]), (60, 1))
    tokens[:, 0] = np.arange(60) + 3
    tagger = keras.Sequential([keras.Input((8,)), keras.layers.Embedding(100, 4), keras.layers.Flatten(), softmax(2)])
    assert "MDL007" in rules(bushel.check({"tokens": tokens, "label": np.arange(60) % 2}, model=tagger))


def written(tmp: Path, scale: float, offset: float = 0.0) -> Path:
    random = np.random.default_rng(0)
    with bushel.Writer(tmp / "train.tfrecord") as writer:
        for i in range(128):
            x = random.normal(size=8) + 3 * (np.arange(8) == i % 4) + offset
            writer.write({"x": (x * scale).astype(np.float32), "label": i % 4})
    return tmp


def test_probes_pass_where_a_model_learns(tmp_path: Path) -> None:
    learner = model(keras.layers.Dense(32, "relu"), softmax(), loss="sparse_categorical_crossentropy")
    report = bushel.check(written(tmp_path, 1.0), model=learner, probe=True)
    assert {rule for rule in rules(report) if rule.startswith("TRN")} == set()


def test_trn001_a_first_loss_far_from_guessing(tmp_path: Path) -> None:
    plain = model(keras.layers.Dense(32, "relu"), softmax(), loss="sparse_categorical_crossentropy")
    assert "TRN001" in rules(bushel.check(written(tmp_path, 1000.0), model=plain, probe=True))


def test_trn002_and_trn003_a_model_that_its_inputs_do_not_reach(tmp_path: Path) -> None:
    dead = model(keras.layers.Rescaling(0.0), softmax(), loss="sparse_categorical_crossentropy")
    assert {"TRN002", "TRN003"} <= rules(bushel.check(written(tmp_path, 1.0), model=dead, probe=True))


def test_trn004_statistics_that_have_not_caught_up(tmp_path: Path) -> None:
    slow = model(
        keras.layers.BatchNormalization(momentum=0.9999),
        keras.layers.Dense(32, "relu"),
        softmax(),
        loss="sparse_categorical_crossentropy",
    )
    assert "TRN004" in rules(bushel.check(written(tmp_path, 1.0, offset=100.0), model=slow, probe=True))


def photos(tmp: Path) -> Path:
    """Light and dark JPEGs of two sizes."""
    with bushel.Writer(tmp / "train.tfrecord") as writer:
        for i in range(64):
            pixels = photo(i, 20 + 4 * (i % 2), 30) // 4 + 180 * (i % 2)
            writer.write({"image": encode_image(pixels.astype(np.uint8), "jpeg"), "label": i % 2})
    return tmp


def image_model(*layers: Any) -> Any:
    keras.utils.set_random_seed(0)
    pooled = [keras.layers.AveragePooling2D(8), keras.layers.Flatten(), keras.layers.Dense(16, "relu"), softmax(2)]
    made = keras.Sequential([keras.Input((16, 16, 3)), *layers, *pooled])
    made.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    return made


def test_probes_decode_images_that_are_stored_encoded(tmp_path: Path) -> None:
    data = photos(tmp_path)
    learns = bushel.check(data, model=image_model(), probe=True)
    assert {rule for rule in rules(learns) if rule.startswith("TRN")} == set()
    assert "not_probed" not in learns.checked
    scales = bushel.check(data, model=image_model(keras.layers.Rescaling(1 / 255)), probe=True)
    assert {rule for rule in rules(scales) if rule.startswith("TRN")} == set()
    dead = bushel.check(data, model=image_model(keras.layers.Rescaling(0.0)), probe=True)
    assert {"TRN002", "TRN003"} <= rules(dead)


def test_probes_feed_a_model_as_its_contract_says(tmp_path: Path) -> None:
    from bushel import contract
    from bushel import transforms as t

    (tmp_path / "data").mkdir()
    (tmp_path / "run").mkdir()
    data = photos(tmp_path / "data")
    steps = (t.decode_image("image"), t.resize("image", 16, 16, dtype="float32"), t.normalise("image", std=1e6))
    made = contract.make(bushel.open(data), contract.Preparation(("image",), steps))
    contract.write(made, tmp_path / "run" / "contract.json")
    image_model().save(tmp_path / "run" / "model.keras")
    report = bushel.check(data, model=tmp_path / "run" / "model.keras", probe=True)
    assert "TRN002" in rules(report)  # fed a millionth of the pixels, it cannot memorise them


def test_what_cannot_be_probed_is_said(tmp_path: Path) -> None:
    plain = model(softmax(), loss="sparse_categorical_crossentropy")
    assert bushel.check(data(), model=plain, probe=True).checked["not_probed"].startswith("records in memory")
    report = bushel.check(photos(tmp_path), model=plain, probe=True)
    assert report.checked["not_probed"] == "the model takes [8], but no feature holds that many values"
    assert bushel.check(tmp_path, model=image_model(), probe=True, label="label").checked.get("not_probed") is None
    uncompiled = bushel.check(tmp_path, model=model(softmax()), probe=True)
    assert uncompiled.checked["not_probed"] == "the model is not compiled with a loss"


def binary(rows: int = 120) -> dict[str, Any]:
    return {**data(rows=rows), "label": np.arange(rows) % 2}


def test_one_sigmoid_tells_two_classes() -> None:
    head = keras.layers.Dense(1, activation="sigmoid")
    assert rules(bushel.check(binary(), model=model(head, loss="binary_crossentropy"))) == set()
    assert "LBL001" in rules(bushel.check(data(), model=model(head, loss="binary_crossentropy")))


def test_one_number_as_output_has_no_classes() -> None:
    counts = {**data(), "label": np.arange(120) % 30}
    assert rules(bushel.check(counts, model=model(keras.layers.Dense(1), loss="mse"))) == set()


@pytest.mark.parametrize(
    ("activation", "units", "loss"),
    [
        ("softmax", 4, "binary_crossentropy"),
        ("sigmoid", 4, "sparse_categorical_crossentropy"),
        ("relu", 4, "sparse_categorical_crossentropy"),
        ("softmax", 4, "mse"),
        ("sigmoid", 1, "mse"),
    ],
)
def test_mdl002_a_loss_that_does_not_go_with_the_activation(activation: str, units: int, loss: str) -> None:
    fed = {**data(), "label": np.linspace(0, 50, 120).astype(np.float32)} if units == 1 else data()
    head = keras.layers.Dense(units, activation=activation)
    assert "MDL002" in rules(bushel.check(fed, model=model(head, loss=loss), label="label"))


@pytest.mark.parametrize(("name", "span"), [("resnet50", "around 0, up to 151"), ("resnet-rs-50", "0..255")])
def test_mdl001_a_backbone_that_is_not_made_for_pixels_of_0_to_1(name: str, span: str) -> None:
    backbone = keras.Sequential([keras.Input((2, 2, 2)), keras.layers.Flatten(), keras.layers.Dense(3)], name=name)
    whole = keras.Sequential([keras.Input((2, 2, 2)), backbone, softmax()])
    (finding,) = [f for f in bushel.check(data(), model=whole) if f.rule == "MDL001"]
    assert finding.message == f"the model is made for {span}, and 'x' is 0..1"


def test_mdl004_pictures_of_another_size_or_colour_than_the_input(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "train.tfrecord") as writer:
        for i in range(20):
            writer.write({"image": encode_image(photo(i, 28, 28), "png"), "label": i % 2})

    def said(*shape: int) -> list[str]:
        taking = keras.Sequential([keras.Input(shape), keras.layers.Flatten(), softmax(2)])
        return [f.message for f in bushel.check(tmp_path, model=taking) if f.rule == "MDL004"]

    assert said(28, 28, 3) == []
    assert said(32, 32, 3) == ["the model takes pictures of 32 x 32, but the data holds pictures of 28 x 28"]
    assert said(28, 28, 1) == ["the model takes pictures of 1 channel, and all are in colour"]


def test_mdl008_a_model_without_a_weight_to_train() -> None:
    frozen = model(softmax(), loss="sparse_categorical_crossentropy")
    frozen.trainable = False
    assert "MDL008" in rules(bushel.check(data(), model=frozen))


def test_trn005_a_learning_rate_of_10(tmp_path: Path) -> None:
    fast = model(keras.layers.Dense(32, "relu"), softmax())
    fast.compile(optimizer=keras.optimizers.Adam(10.0), loss="sparse_categorical_crossentropy")
    (tmp_path / "data").mkdir()
    records = written(tmp_path / "data", 1.0)
    for given in (fast, tmp_path / "model.keras"):
        if isinstance(given, Path):
            fast.save(given)
        (finding,) = [f for f in bushel.check(records, model=given, probe=True) if f.rule == "TRN005"]
        assert finding.message.startswith("a learning rate of 10 takes the loss from ")
    fast.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy")
    assert "TRN005" not in rules(bushel.check(records, model=fast, probe=True))


def test_trn006_an_error_in_the_first_batch_is_the_finding(tmp_path: Path) -> None:
    broken = model(keras.layers.Dense(16, "relu"), softmax(3), loss="categorical_crossentropy")
    report = bushel.check(written(tmp_path, 1.0), model=broken, probe=True)
    assert "TRN006" in rules(report)
    assert report.fails()
    assert "not_probed" not in report.checked


def test_a_model_that_was_compiled_and_never_trained_keeps_its_loss_when_it_is_loaded(tmp_path: Path) -> None:
    model(keras.layers.Dense(4), loss=keras.losses.SparseCategoricalCrossentropy()).save(tmp_path / "model.keras")
    assert "MDL002" in rules(bushel.check(data(), model=tmp_path / "model.keras"))


def test_a_saved_model_is_loaded_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    model(softmax(3)).save(path)
    assert "MDL003" in rules(bushel.check(data(), model=path))
    with pytest.raises(bushel.FileProblem, match="there is no such model"):
        bushel.check(data(), model=tmp_path / "none.keras")


def test_a_tf_dataset_is_checked_like_a_file() -> None:
    tf = pytest.importorskip("tensorflow")
    columns = data()
    columns["x"][5, 1] = np.inf
    dataset = tf.data.Dataset.from_tensor_slices((columns["x"], columns["label"]))
    assert rules(bushel.check(dataset)) == {"VAL001"}
    assert rules(bushel.check(dataset.batch(32))) == {"VAL001"}


def test_every_rule_about_models_has_a_test_named_after_it() -> None:
    named = {
        name.split("_")[i].upper()
        for name in globals()
        for i in (1, 3)
        if name.startswith("test_") and len(name.split("_")) > 3
    }
    assert {rule.id for rule in all_rules() if rule.subject in ("model", "probe")} <= named
