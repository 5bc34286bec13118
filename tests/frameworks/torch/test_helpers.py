"""The trainers that people use: they take a loader as it is, and resume it."""

import warnings
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import bushel
import bushel.torch
from bushel import Order

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def loader_of(path: Path, **options: Any) -> bushel.torch.Loader:
    options = {"batch_size": 16, "order": Order(shuffle=True, seed=1), **options}
    return bushel.torch.loader(path, "train", **options)


class Linear(lightning.LightningModule):
    """A model of one layer that notes what it is fed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.seen: list[Any] = []
        self.losses: list[float] = []

    def training_step(self, batch: Any, _: int) -> Any:
        x, label = batch
        self.seen.append(x[:, 0].tolist())
        loss = torch.nn.functional.cross_entropy(self.layer(x), label)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.layer.parameters(), lr=0.5)


def trainer_of(folder: Path, **options: Any) -> lightning.Trainer:
    options = {"enable_checkpointing": False, "enable_progress_bar": False, "logger": False, **options}
    return lightning.Trainer(accelerator="cpu", default_root_dir=folder, enable_model_summary=False, **options)


def test_lightning_trains_on_a_loader(classes: Path, tmp_path: Path) -> None:
    model = Linear()
    trainer_of(tmp_path, max_epochs=3).fit(model, loader_of(classes))
    assert len(model.seen) == 48
    assert sorted(sum(len(batch) for batch in model.seen[at : at + 16]) for at in (0, 16, 32)) == [256] * 3
    assert model.seen[0] != model.seen[16]  # shuffled again
    assert model.losses[-1] < model.losses[0]


def test_lightning_resumes_inside_an_epoch(classes: Path, tmp_path: Path) -> None:
    whole = Linear()
    kept = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path / "kept", every_n_train_steps=7, save_top_k=-1)
    trainer_of(tmp_path, max_epochs=2, enable_checkpointing=True, callbacks=[kept]).fit(whole, loader_of(classes))
    resumed = Linear()
    half = tmp_path / "kept" / "epoch=1-step=21.ckpt"
    trainer_of(tmp_path, max_epochs=2).fit(resumed, loader_of(classes), ckpt_path=half)
    assert resumed.seen == whole.seen[21:]


def test_accelerate_trains_on_a_loader(classes: Path) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    layer = torch.nn.Linear(4, 2)
    model, optimiser = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.5))
    losses = []
    loader = loader_of(classes, device=accelerator.device)
    for _ in range(3):
        for x, label in loader:
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), label)
            accelerator.backward(loss)
            optimiser.step()
            losses.append(loss.item())
    assert len(losses) == 48
    assert losses[-1] < losses[0]


def test_a_hugging_face_trainer_trains_on_a_loader(classes: Path, tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)
            self.seen = 0

        def forward(self, x: Any, labels: Any) -> Any:
            self.seen += len(x)
            logits = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class OfBushel(Trainer):
        def get_train_dataloader(self) -> Any:
            return Named(loader_of(classes))

    class Named:
        """The names that the model's forward has."""

        def __init__(self, loader: bushel.torch.Loader) -> None:
            self.loader = loader
            self.set_epoch = loader.set_epoch

        def __len__(self) -> int:
            return len(self.loader)

        def __iter__(self) -> Any:
            return ({"x": x, "labels": label} for x, label in self.loader)

    arguments = TrainingArguments(
        tmp_path / "run", num_train_epochs=2, report_to=[], use_cpu=True, logging_strategy="no", save_strategy="no"
    )
    model = Model()
    found = OfBushel(model=model, args=arguments).train()
    assert found.global_step == 32
    assert model.seen == 512


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_resumes_inside_an_epoch(classes: Path, workers: int) -> None:
    def stateful() -> StatefulDataLoader:
        return StatefulDataLoader(loader_of(classes), batch_size=None, num_workers=workers)

    whole = [x[:, 0].tolist() for x, _ in stateful()]
    begun = stateful()
    seen = []
    for x, _ in begun:
        seen.append(x[:, 0].tolist())
        if len(seen) == 7:
            state = begun.state_dict()
            break
    resumed = stateful()
    resumed.load_state_dict(state)
    assert seen + [x[:, 0].tolist() for x, _ in resumed] == whole


def test_a_state_of_other_workers_is_refused(classes: Path) -> None:
    state = {**loader_of(classes).state_dict(), "turn": 1, "turns": 2}
    loader = loader_of(classes)
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="state must be of a DataLoader with 1 worker, got one with 2"):
        next(iter(loader))


def test_warnings_of_the_loader_are_none_in_the_usual_case(classes: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader_of(classes, device="cpu"))) == 16
