"""The options of a run: one value, stored in the run's folder."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

__all__ = ["KINDS", "OPTIMISERS", "SCHEDULES", "Options"]

Optimiser: TypeAlias = Literal["adam", "adamw", "sgd", "rmsprop", "nadam", "lion"]
Schedule: TypeAlias = Literal["constant", "cosine", "exponential", "plateau"]
Precision: TypeAlias = Literal["float32", "mixed_float16", "mixed_bfloat16"]
TaskName: TypeAlias = Literal["classification", "multi_label", "regression"]
Kind: TypeAlias = Literal["number", "category", "tokens", "text", "series"]
Range: TypeAlias = Literal["0..255", "0..1", "-1..1"]

OPTIMISERS = get_args(Optimiser)
SCHEDULES = get_args(Schedule)
KINDS = get_args(Kind)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to train. An option that is None is chosen from the data, and the choice is reported.

    `model` is a function that makes a model, `FILE.py:FUNCTION`, a saved `.keras`, a name of `keras.applications`,
    `trees` for gradient-boosted trees, `linear`, or `network`, which fits the inputs. Without it, a table gets the best
    of these three on the validation split, unless `epochs` or another option of networks is given.
    `kinds` overrides how features are fed. `class_weights` is `balanced`, `none` or the weight of each class by name.
    `augment` is a list such as `flip,rotate=15`, `light` or `none`. `early_stopping` is how many epochs may pass
    without a better score or loss on the validation split. Without `epochs`, there are enough for a thousand steps,
    training stops early, and the `schedule` of a default model is cosine, otherwise constant. `checkpoint_every` counts
    steps; there is always a checkpoint at the end of an epoch.
    """

    label: str | None = None
    task: TaskName | None = None
    columns: tuple[str, ...] | None = None
    kinds: dict[str, Kind] | None = None
    max_length: int | None = None  # tokens of a row, words of a text, steps of a series
    sparse_width: int | None = None  # width of rows that are stored as indices and values
    group: str | None = None  # feature whose records belong together, for intervals; "none" for no groups
    model: Any = None
    weights: str | None = None  # a file with weights for a model of keras.applications
    loss: str | None = None
    epochs: int | None = None
    batch_size: int = 32
    learning_rate: float | None = None
    schedule: Schedule | None = None
    warmup: float = 0.0  # share of all steps in which the learning rate rises from 0
    optimiser: Optimiser = "adam"
    precision: Precision = "float32"
    augment: str | None = None
    class_weights: Literal["balanced", "none"] | dict[str, float] | None = None
    early_stopping: int | None = None
    checkpoint_every: int | None = None
    seed: int = 0
    deterministic: bool = True
    tensorboard: bool = True
    strategy: Literal["mirrored"] | None = None
    image_size: tuple[int, int] | None = None
    range: Range | None = None
    shuffle: bool = True
    shuffle_buffer: int = 10_000
    threads: int | None = None
    preflight: bool = True
    ignore: tuple[str, ...] = ()  # rules that must not stop the run
    on_fault: Literal["raise", "skip", "replace"] = "raise"

    @property
    def is_ready(self) -> bool:
        """Whether bushel makes the model, and it is a network (a linear model is one without hidden layers)."""
        return self.model is None or (isinstance(self.model, str) and self.model in ("network", "linear"))

    @property
    def is_linear(self) -> bool:
        """Whether the model is linear."""
        return isinstance(self.model, str) and self.model == "linear"

    @property
    def is_trees(self) -> bool:
        """Whether the model is gradient-boosted trees, not a network."""
        return isinstance(self.model, str) and self.model == "trees"

    def __post_init__(self) -> None:
        for name in (
            "epochs",
            "batch_size",
            "early_stopping",
            "checkpoint_every",
            "threads",
            "shuffle_buffer",
            "max_length",
            "sparse_width",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate}")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup must be at least 0 and below 1, got {self.warmup}")
        chosen = (("optimiser", self.optimiser, OPTIMISERS), ("schedule", self.schedule or "constant", SCHEDULES))
        for name, value, known in chosen:
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
        if self.warmup and self.schedule == "plateau":
            raise ValueError("warmup must be 0 with schedule plateau, which sets the rate itself")
