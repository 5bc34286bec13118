"""Datasets of Ray Data, and batches in the workers of Ray Train, on a real cluster."""

from pathlib import Path

import numpy as np
import pytest
from making import Numbers

import bushel
import bushel.ray
from bushel import BushelError, MissingName, Run, build
from bushel.data.columns import Ragged

# Ray Data and Ray Train warn about themselves.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("DeprecationWarning", "FutureWarning", "PendingDeprecationWarning", "ResourceWarning", "UserWarning")
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "numbers"
    build(Numbers(2000), folder, split="90/10", shards=3, run=Run(workers=1))
    return folder


def test_a_dataset_has_every_record_once_with_its_values(data, cluster):
    rows = bushel.ray.dataset(data, "train", override_num_blocks=5).to_pandas().sort_values("number")
    train = bushel.open(data)["train"]
    expected = train[:]
    by_number = np.argsort(expected["number"])
    assert rows["number"].tolist() == expected["number"][by_number].tolist()
    assert np.array_equal(np.stack(rows["x"].to_list()), expected["x"][by_number])
    assert [text.encode() for text in rows["text"]] == expected["text"].take(by_number).to_list()


def test_columns_are_chosen_and_names_that_are_not_there_are_said(data, cluster):
    assert bushel.ray.dataset(data, "val", columns=["label"]).schema().names == ["label"]
    with pytest.raises(MissingName, match="no feature 'lable'; did you mean 'label'"):
        bushel.ray.dataset(data, "val", columns=["lable"])
    with pytest.raises(ValueError, match="split must be one of train, val; got None"):
        bushel.ray.dataset(data)


def test_compressed_shards_selections_and_lists_that_may_be_missing_are_read(tmp_path, cluster):
    lists = Ragged.of([[1, 2], [], [3], [4, 5, 6]] * 50, np.int64)
    present = np.tile([True, False, True, True], 50)
    arrays = {"n": np.arange(200), "tokens": Ragged(lists.values, lists.row_splits, present)}
    build(arrays, tmp_path / "gz", shards=2, compression="gzip", run=Run(workers=1))
    rows = bushel.ray.dataset(tmp_path / "gz", override_num_blocks=4).take_all()
    assert sorted(row["n"] for row in rows) == list(range(200))
    by_number = {row["n"]: row["tokens"] for row in rows}
    assert by_number[1] is None
    assert list(by_number[3]) == [4, 5, 6]
    build(arrays, tmp_path / "plain", shards=2, run=Run(workers=1))
    chosen = bushel.open(tmp_path / "plain")["train"].where("n", [7, 100, 3])
    assert sorted(row["n"] for row in bushel.ray.dataset(chosen, override_num_blocks=2).take_all()) == [3, 7, 100]


def test_every_rank_of_ray_train_has_as_many_steps_and_all_records_are_read_once(data, cluster, tmp_path):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def loop(config):
        import numpy as np
        from ray import train

        import bushel
        import bushel.ray

        feed = bushel.ray.batches(
            bushel.open(config["data"])["train"],
            batch_size=64,
            order=bushel.Order(shuffle=True, seed=3, uneven="pad"),
            columns=["number"],
        )
        seen = [batch["number"] if batch.real is None else batch["number"][batch.real] for batch in feed]
        rank = train.get_context().get_world_rank()
        np.save(f"{config['out']}/{rank}.npy", np.concatenate(seen))
        with open(f"{config['out']}/{rank}.steps", "w") as file:  # noqa: PTH123
            file.write(str(len(seen)))

    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"data": str(data), "out": str(tmp_path)},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(storage_path=str(tmp_path / "runs"), name="run"),
    )
    trainer.fit()
    steps = {(tmp_path / f"{rank}.steps").read_text() for rank in range(2)}
    assert len(steps) == 1
    ranks = [np.load(tmp_path / f"{rank}.npy") for rank in range(2)]
    assert not np.intersect1d(*ranks).size
    assert sorted(np.concatenate(ranks).tolist()) == sorted(bushel.open(data)["train"].values("number").tolist())


def test_batches_outside_of_ray_train_say_so(data):
    with pytest.raises(BushelError, match=r"in a worker of Ray Train; elsewhere: bushel\.batches"):
        bushel.ray.batches(bushel.open(data)["train"], batch_size=8)
