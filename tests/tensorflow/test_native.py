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


def test_shapes_are_known_where_all_batches_are_whole(rows):
    x, y = dataset(rows, label="label", batch_size=7).element_spec
    assert (x.shape.as_list(), y.shape.as_list()) == ([7, WIDTH], [7])
    x, y = dataset(rows, label="label", batch_size=4).element_spec
    assert (x.shape.as_list(), y.shape.as_list()) == ([None, WIDTH], [None])
