import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from bushel.training.loop.framework import Logs


def test_scalars_are_written_without_tensorboard_and_read_by_it(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tensorboard.summary.v2", None)  # as where it is not installed
        logs = Logs(tmp_path)
        for step in range(0, 21, 5):
            logs.step(step, {"loss": step / 2})
        logs.epoch(21, {"epoch": 1, "step": 21, "val_accuracy": 0.75})
        logs.close()
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    read = {
        tag: [(e.step, float(make_ndarray(e.tensor_proto))) for e in found.Tensors(tag)]
        for tag in found.Tags()["tensors"]
    }
    assert read == {"batch/loss": [(0, 0.0), (10, 5.0), (20, 10.0)], "epoch/val_accuracy": [(21, 0.75)]}
    assert set(found.PluginTagToContent("scalars")) == set(read)
