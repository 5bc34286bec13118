import numpy as np
import pytest

import bushel
from bushel import Order
from bushel.tensorflow import dataset

RECORDS, WIDTH = 210, 5


@pytest.fixture
def rows(tmp_path):
    """A file of small rows, so that several batches are handed over as one."""
    generator = np.random.default_rng(0)
    schema = bushel.Schema.of(x=bushel.Feature(dtype="float32", shape=(WIDTH,)), label=bushel.Feature(dtype="int64"))
    with bushel.Writer(tmp_path / "rows.tfrecord", schema=schema) as writer:
        for number in range(RECORDS):
            writer.write({"x": generator.random(WIDTH, np.float32), "label": number})
    return bushel.open(tmp_path / "rows.tfrecord")


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [4, 7, 32, 300])
@pytest.mark.parametrize("order", [Order(), Order(shuffle="global", seed=3)], ids=["in order", "shuffled"])
def test_batches_are_those_of_the_feed_whatever_is_handed_over_at_once(rows, order, batch_size, drop_last):
    split = next(iter(rows.splits.values()))
    told = {"batch_size": batch_size, "order": order, "epochs": 2, "drop_last": drop_last}
    with bushel.batches(split, columns=["x", "label"], **told) as feed:
        expected = [(batch["x"].tolist(), batch["label"].tolist()) for batch in feed]
    made = dataset(split, label="label", **told)
    assert [(x.numpy().tolist(), y.numpy().tolist()) for x, y in made] == expected
    assert made.cardinality().numpy() == len(expected)


def test_rows_that_were_read_are_skipped_to_the_batch(rows):
    whole = [y.numpy().tolist() for _, y in dataset(rows, label="label", batch_size=4)]
    rest = [y.numpy().tolist() for _, y in dataset(rows, label="label", batch_size=4, skip=5)]
    assert rest == whole[5:]


@pytest.mark.parametrize("epochs", [1, 3])
def test_what_is_left_after_skipping_is_counted(rows, epochs):
    steps = len(dataset(rows, label="label", batch_size=4))
    for skip in (0, 1, steps - 1, steps, steps * epochs + 2):
        made = dataset(rows, label="label", batch_size=4, skip=skip, epochs=epochs)
        assert len(made) == made.cardinality().numpy() == steps * epochs - skip % (steps * epochs)
        assert sum(1 for _ in made) == len(made)
    endless = dataset(rows, label="label", batch_size=4, skip=5, epochs=None)
    assert endless.cardinality().numpy() == -1  # infinite


def test_the_rest_of_an_epoch_is_fitted_without_complaint(rows, recwarn):
    keras = pytest.importorskip("keras")
    rest = dataset(rows, label="label", batch_size=4, skip=5)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    counted = []
    model.fit(rest, shuffle=False, verbose=0, callbacks=[keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: counted.append(batch))])  # fmt: skip
    assert len(counted) == len(rest)
    assert not [warning for warning in recwarn if "ran out of data" in str(warning.message)]


def test_shapes_are_known_where_all_batches_are_whole(rows):
    x, y = dataset(rows, label="label", batch_size=7).element_spec
    assert (x.shape.as_list(), y.shape.as_list()) == ([7, WIDTH], [7])
    x, y = dataset(rows, label="label", batch_size=4).element_spec
    assert (x.shape.as_list(), y.shape.as_list()) == ([None, WIDTH], [None])


def test_raw_files_are_a_dataset_without_a_build(tmp_path):
    lines = [f"{n},{n / 8},{('oak', 'elm')[n % 2]}" for n in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,y,label", *lines]))
    bushel.build(tmp_path / "rows.csv", tmp_path / "built")
    settings = {"batch_size": 8, "order": Order(shuffle=True, seed=1), "epochs": 2}
    built, raw = (dataset(path, **settings) for path in (tmp_path / "built", tmp_path / "rows.csv"))
    assert raw.element_spec == built.element_spec
    for (x, y), (raw_x, raw_y) in zip(built, raw, strict=True):
        assert {name: one.numpy().tolist() for name, one in x.items()} == {
            name: one.numpy().tolist() for name, one in raw_x.items()
        }
        assert y.numpy().tolist() == raw_y.numpy().tolist()
    with pytest.raises(ValueError, match='engine must be "native" for a selection of records'):
        dataset(tmp_path / "rows.csv", batch_size=8, engine="graph")
