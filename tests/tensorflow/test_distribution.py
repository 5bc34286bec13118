"""Several replicas, several workers, tf.data service, and a graph that is used where bushel is not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel import Order, Pad
from bushel import transforms as t
from bushel.tensorflow import dataset

tf = pytest.importorskip("tensorflow")

WITHOUT_BUSHEL = """
import sys
import tensorflow as tf

sys.modules["bushel"] = None
module = tf.saved_model.load(sys.argv[1])
print(*module.total().numpy().tolist())
"""


# In a process of its own: devices can only be set before TensorFlow is first used.
REPLICAS = """
import sys
import tensorflow as tf
from bushel import Order
from bushel.tensorflow import dataset

devices = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(devices[0], [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

def check(batches):
    labels = [strategy.experimental_local_results(label) for _, label in batches]
    assert [[len(part) for part in parts] for parts in labels] == [[10, 10]] * 5, labels
    assert sorted(int(value) for parts in labels for part in parts for value in part) == list(range(100))

for engine in ("native", "graph"):
    def of_worker(context):
        order = Order(shuffle=True, seed=1, rank=context.input_pipeline_id, world=context.num_input_pipelines)
        return dataset(sys.argv[1], batch_size=context.get_per_replica_batch_size(20), order=order, engine=engine)

    whole = dataset(sys.argv[1], batch_size=20, order=Order(shuffle=True, seed=1), engine=engine)
    check(strategy.experimental_distribute_dataset(whole))
    check(strategy.distribute_datasets_from_function(of_worker))
print("shared")
"""


def test_replicas_share_the_epoch(floats: Path) -> None:
    done = subprocess.run([sys.executable, "-c", REPLICAS, str(floats)], capture_output=True, text=True, check=False)
    assert done.stdout == "shared\n", done.stderr


@pytest.mark.parametrize("engine", ["native", "graph"])
def test_shuffled_ranks_read_every_sample_once_in_equal_steps(floats: Path, engine: str) -> None:
    ranks = [
        dataset(floats, batch_size=5, order=Order(shuffle=True, seed=2, rank=rank, world=4), engine=engine)
        for rank in range(4)
    ]
    for _ in range(2):  # epochs
        labels = [[label.numpy().tolist() for _, label in rank] for rank in ranks]
        assert [len(steps) for steps in labels] == [5] * 4
        assert sorted(value for steps in labels for batch in steps for value in batch) == list(range(100))


def test_the_graph_runs_in_a_tf_data_service(floats: Path) -> None:
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    made = dataset(floats, batch_size=20, order=Order(shuffle=True), engine="graph")
    served = made.apply(service.distribute(service.ShardingPolicy.OFF, dispatcher.target))
    assert sorted(int(value) for _, label in served for value in label) == list(range(100))
    del worker


def test_the_graph_is_saved_and_used_without_bushel(photos: Path, mixed: Path, tmp_path: Path) -> None:
    """A SavedModel that reads, parses, pads and decodes; its process cannot import bushel."""
    make = tf.autograph.experimental.do_not_convert(dataset)
    steps = [t.decode_image("image"), t.resize("image", 8, 8, dtype="float32"), t.random_flip("image")]

    class Reader(tf.Module):
        @tf.function(input_signature=[])
        def total(self) -> Any:
            sums = tf.zeros([2], tf.float64)
            for x, _ in make(photos, batch_size=8, transforms=steps, order=Order(shuffle=True), engine="graph"):
                sums += tf.cast([tf.reduce_sum(x), 0], tf.float64)
            for x in make(mixed, batch_size=8, columns=["tokens"], layout=[Pad("tokens", mask=False)], engine="graph"):
                sums += tf.cast([0, tf.reduce_sum(x)], tf.float64)
            return sums

    reader = Reader()
    expected = reader.total().numpy()
    tf.saved_model.save(reader, str(tmp_path / "reader"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_BUSHEL, str(tmp_path / "reader")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose([float(number) for number in done.stdout.split()], expected, rtol=1e-5)
    assert expected.min() > 0
