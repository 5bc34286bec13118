"""How close training comes to the speed of the GPU alone: python benchmarks/gpu.py [--only images] [--quick].

Needs torch, a CUDA device and bushel, and nvImageCodec for the rows that decode on the GPU. Makes its own TFRecords.

A model is trained on batches that lie on the device already (synthetic), then on batches that bushel feeds, in one
process and in turns. *Share* is fed over synthetic. *Device waits* is the share of the time in which the stream of the
model had nothing to do, and *beside it* the same for synthetic batches. Where images are decoded on the GPU, training
shares it with the decoder: *of shared* is fed over synthetic training while batches are decoded and dropped.
"""

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import bushel
import bushel.torch
from bushel import Order, Pack
from bushel import transforms as t

MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
SHUFFLED = Order(shuffle=True, seed=0)
SHARDS = 8


@dataclass(frozen=True)
class Scale:
    """How large everything is, and how long each run takes."""

    device: str
    seconds: float
    batch: int
    side: int  # of the images that the model takes
    images: int
    distinct: int
    rows: int  # of the table
    table_batch: int
    tokens: int  # records
    length: int  # of a row of tokens
    token_batch: int
    layers: int
    blocks: tuple[int, ...]


FULL = Scale("cuda", 10.0, 256, 224, 16_384, 1024, 2_000_000, 65_536, 40_000, 1024, 32, 12, (3, 4, 6, 3))
QUICK = Scale("cuda", 2.0, 256, 224, 2048, 128, 400_000, 65_536, 4000, 1024, 32, 4, (3, 4, 6, 3))
WITHOUT_GPU = Scale("cpu", 0.5, 4, 32, 64, 8, 4000, 512, 200, 64, 4, 1, (1, 1, 1, 1))


def photo(number: int, height: int, width: int) -> bytes:
    """Smooth shapes and some noise: about as many bytes as a photograph has at quality 85."""
    from PIL import Image

    generator = np.random.default_rng(number)
    small = generator.integers(0, 255, (height // 10, width // 10, 3), dtype=np.uint8)
    image = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    image = np.clip(image + generator.integers(-20, 20, image.shape, dtype=np.int16), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=85)
    return file.getvalue()


def shard_paths(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}-train-{shard:05d}-of-{SHARDS:05d}.tfrecord" for shard in range(SHARDS)]


def write_images(folder: Path, height: int, width: int, scale: Scale) -> list[Path]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pictures = list(pool.map(lambda number: photo(number, height, width), range(scale.distinct)))
    paths = shard_paths(folder, f"photos{width}")
    for shard, path in enumerate(paths):
        with bushel.Writer(path) as writer:
            for number in range(shard, scale.images, SHARDS):
                writer.write({"image": pictures[number % len(pictures)], "label": number % 1000})
    return paths


def write_table(folder: Path, scale: Scale) -> list[Path]:
    generator = np.random.default_rng(0)
    paths = shard_paths(folder, "floats")
    for path in paths:
        x = generator.standard_normal((scale.rows // SHARDS, 64), np.float32)
        with bushel.Writer(path) as writer:
            writer.write_batch({"x": x, "label": (x[:, 0] > 0).astype(np.int64)})
    return paths


def write_tokens(folder: Path, scale: Scale) -> list[Path]:
    generator = np.random.default_rng(0)
    paths = shard_paths(folder, "tokens")
    for path in paths:
        with bushel.Writer(path) as writer:
            for _ in range(scale.tokens // SHARDS):
                size = int(generator.integers(scale.length // 8, scale.length + 1))
                writer.write({"tokens": generator.integers(0, 32_000, size)})
    return paths


class Bottleneck(nn.Module):
    def __init__(self, inner: int, narrow: int, stride: int) -> None:
        super().__init__()
        wide = 4 * narrow
        self.path = nn.Sequential(
            nn.Conv2d(inner, narrow, 1, bias=False),
            nn.BatchNorm2d(narrow),
            nn.ReLU(inplace=True),
            nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False),
            nn.BatchNorm2d(narrow),
            nn.ReLU(inplace=True),
            nn.Conv2d(narrow, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        )
        self.beside: nn.Module = nn.Identity()
        if stride != 1 or inner != wide:
            self.beside = nn.Sequential(nn.Conv2d(inner, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.path(x) + self.beside(x), inplace=True)


class ResNet(nn.Module):
    """Takes bytes: what is fed crosses the bus as it was decoded, and is scaled on the device."""

    def __init__(self, counts: tuple[int, ...]) -> None:
        super().__init__()
        blocks: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        inner = 64
        for narrow, count, stride in zip((64, 128, 256, 512), counts, (1, 2, 2, 2), strict=True):
            for number in range(count):
                blocks.append(Bottleneck(inner, narrow, stride if number == 0 else 1))
                inner = 4 * narrow
        self.body = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1))

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        x = (image.float() - self.mean) / self.std
        return functional.cross_entropy(self.body(x), label)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        q, k, v = self.into(self.norm(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.wide(self.after(x))


class Transformer(nn.Module):
    """A decoder as wide as GPT-2's smallest."""

    def __init__(self, layers: int, length: int, width: int = 768, vocabulary: int = 32_000) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.body = nn.Sequential(*(Attention(width, 12) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.body(self.tokens(tokens) + self.places(places))
        return functional.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.body(x), label)


@dataclass
class Timed:
    """What a run of some seconds did."""

    rows: float  # in a second
    device_waits: float  # share of the time
    host_waits: float


class Trainer:
    """Steps of one model, and how long they take."""

    def __init__(self, model: nn.Module, scale: Scale, rate: float = 0.01) -> None:
        self.scale = scale
        self.is_cuda = scale.device == "cuda"
        model = model.to(scale.device, memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(model.parameters(), rate, momentum=0.9, fused=self.is_cuda)
        self.loss = torch.compile(model) if self.is_cuda else model

    def step(self, batch: tuple[torch.Tensor, ...]) -> None:
        with torch.autocast(self.scale.device, torch.bfloat16, enabled=self.is_cuda):
            loss = self.loss(*batch)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def run(self, batches: Iterator[tuple[torch.Tensor, ...]], seconds: float | None = None, warm: int = 5) -> Timed:
        """Train for some seconds, after some steps that do not count."""
        for _ in range(warm):
            self.step(next(batches))
        self.wait()
        marks: list[tuple[Any, Any]] = []
        rows, waited = 0, 0.0
        begin = time.perf_counter()
        while time.perf_counter() - begin < (seconds or self.scale.seconds):
            asked = time.perf_counter()
            batch = next(batches)
            waited += time.perf_counter() - asked
            begun, ended = self.mark(), None
            self.step(batch)
            ended = self.mark()
            marks.append((begun, ended))
            rows += len(batch[0])
            if len(marks) % 4 == 0 and self.is_cuda and len(marks) > 8:
                marks[-8][1].synchronize()  # not more than a few steps ahead of the device, as a log of losses would
        self.wait()
        taken = time.perf_counter() - begin
        gaps = sum(before[1].elapsed_time(after[0]) for before, after in pairwise(marks)) / 1000
        return Timed(rows / taken, gaps / taken, waited / taken)

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True) if self.is_cuda else HostEvent()
        event.record()
        return event

    def wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()


class ReplayedTrainer(Trainer):
    """Steps that are recorded once and replayed by the device: in Python they would take longer than the model."""

    def __init__(self, model: nn.Module, scale: Scale) -> None:
        super().__init__(model, scale)
        self.graph: Any = None
        self.inputs: tuple[torch.Tensor, ...] = ()

    def step(self, batch: tuple[torch.Tensor, ...]) -> None:
        if not self.is_cuda:
            return super().step(batch)
        if self.graph is None:
            self.record(batch)
        for own, given in zip(self.inputs, batch, strict=True):
            own.copy_(given, non_blocking=True)
        self.graph.replay()
        return None

    def record(self, batch: tuple[torch.Tensor, ...]) -> None:
        self.inputs = tuple(tensor.clone() for tensor in batch)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                super().step(self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            super().step(self.inputs)


class HostEvent:
    """Stands for an event of the device where there is none."""

    def record(self) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, later: "HostEvent") -> float:
        return 1000 * (later.at - self.at)


def as_tuples(loader: Any) -> Iterator[tuple[torch.Tensor, ...]]:
    """Batches without an end."""
    while True:
        for batch in loader:
            yield batch if isinstance(batch, tuple) else (batch,)


def beside(batches: Iterator[Any], others: Iterator[Any]) -> Iterator[Any]:
    """The other batches, one for each of these, which are dropped when they have arrived."""
    for _ in batches:
        yield next(others)


def measure(
    trainer: Trainer, synthetic: list[tuple[torch.Tensor, ...]], feed: Callable[[], Any], *, is_shared: bool = False
) -> dict[str, Any]:
    """Synthetic, fed, and synthetic again; the mean of the two is what counts."""
    first = trainer.run(cycle(synthetic))
    loader = feed()
    source = as_tuples(loader)
    fed = trainer.run(source, warm=10)
    report = loader.report()
    row: dict[str, Any] = {}
    if is_shared:
        shared = trainer.run(beside(source, cycle(synthetic)), warm=10)
        row = {"shared": shared.rows, "of shared": fed.rows / shared.rows, "fallbacks": report.fallbacks}
    source.close()
    second = trainer.run(cycle(synthetic), warm=3)
    alone = (first.rows + second.rows) / 2
    work = {
        name: getattr(report, name) / max(report.records, 1) * 1e6
        for name in ("storage", "decode", "transform", "layout")
    }
    return {
        "synthetic": alone,
        "fed": fed.rows,
        "share": fed.rows / alone,
        "device waits": fed.device_waits,
        "beside it": (first.device_waits + second.device_waits) / 2,
        "host waits": fed.host_waits,
        **row,
        **{f"{name} µs": cost for name, cost in work.items()},
    }


def image_rows(folder: Path, scale: Scale) -> Iterator[dict[str, Any]]:
    trainer = Trainer(ResNet(scale.blocks), scale)
    shape = (scale.batch, scale.side, scale.side, 3)
    synthetic = [
        (
            torch.randint(0, 255, shape, dtype=torch.uint8, device=scale.device).permute(0, 3, 1, 2),
            torch.randint(0, 1000, (scale.batch,), device=scale.device),
        )
        for _ in range(3)
    ]
    chain = [
        t.decode_image("image"),
        t.random_resized_crop("image", scale.side, scale.side),
        t.random_flip("image"),
    ]
    for height, width in ((256, 256), (375, 500)):
        paths = write_images(folder, height, width, scale)
        for decode in ("cpu", "cuda"):
            if decode == "cuda" and not has_codec(scale):
                print(f"no row for {width} px decoded on the GPU: nvImageCodec or the GPU is missing")
                continue

            def feed(paths: list[Path] = paths, decode: Any = decode) -> Any:
                return bushel.torch.loader(
                    paths,
                    "train",
                    batch_size=scale.batch,
                    order=SHUFFLED,
                    transforms=chain,
                    label="label",
                    epochs=None,
                    drop_last=True,
                    device=scale.device,
                    memory_format=torch.channels_last,
                    decode=decode,
                    ahead=3,
                )

            what = {"what": f"ResNet-50, {width} x {height} JPEG", "decoded on": decode}
            try:
                apart = pixels_apart(feed) if decode == "cuda" else {}
                yield {**what, **measure(trainer, synthetic, feed, is_shared=decode == "cuda"), **apart}
            except Exception as error:  # the other rows are worth having
                print(f"{what['what']}, decoded on {decode}: {type(error).__name__}: {error}", flush=True)
        for path in paths:
            path.unlink()


def pixels_apart(feed: Callable[..., Any]) -> dict[str, float]:
    """How far the pixels of one batch are from those of the CPU, of 255."""
    first, other = (next(iter(feed(decode=decode)))[0].float() for decode in ("cpu", "cuda"))
    apart = (first - other).abs()
    return {"mean apart": apart.mean().item(), "most apart": apart.max().item()}


def has_codec(scale: Scale) -> bool:
    try:
        from nvidia import nvimgcodec  # noqa: F401
    except ImportError:
        return False
    return scale.device == "cuda"


def token_rows(folder: Path, scale: Scale) -> Iterator[dict[str, Any]]:
    paths = write_tokens(folder, scale)
    trainer = Trainer(Transformer(scale.layers, scale.length), scale)
    synthetic = [(torch.randint(0, 32_000, (scale.token_batch, scale.length), device=scale.device),) for _ in range(3)]

    class Tokens:
        """Only the tokens of packed rows."""

        def __init__(self) -> None:
            self.loader = bushel.torch.loader(
                paths,
                "train",
                batch_size=scale.token_batch,
                order=SHUFFLED,
                layout=[Pack("tokens", scale.length)],
                epochs=None,
                drop_last=True,
                device=scale.device,
            )
            self.report = self.loader.report

        def __iter__(self) -> Iterator[Any]:
            return (batch["tokens"] for batch in self.loader)

    yield {"what": f"transformer, rows of {scale.length} tokens", **measure(trainer, synthetic, Tokens)}


def table_rows(folder: Path, scale: Scale) -> Iterator[dict[str, Any]]:
    paths = write_table(folder, scale)
    trainer = ReplayedTrainer(Perceptron(), scale)
    split = bushel.open(paths)["train"]
    synthetic = [
        (
            torch.randn((scale.table_batch, 64), device=scale.device),
            torch.randint(0, 2, (scale.table_batch,), device=scale.device),
        )
        for _ in range(3)
    ]
    for name, order in (("in order", Order()), ("shuffled", SHUFFLED)):
        options: dict[str, Any] = {
            "batch_size": scale.table_batch,
            "columns": ["x", "label"],
            "order": order,
            "epochs": None,
            "drop_last": True,
        }

        def feed(options: dict[str, Any] = options) -> Any:
            return bushel.torch.loader(split, label="label", device=scale.device, ahead=4, **options)

        before = rate_of_batches(split, options, scale.seconds)
        found = measure(trainer, synthetic, feed)
        alone = (before + rate_of_batches(split, options, scale.seconds)) / 2
        yield {"what": f"perceptron, 64 floats, {name}", **found, "batches": alone, "of batches": found["fed"] / alone}


def rate_of_batches(split: Any, options: dict[str, Any], seconds: float) -> float:
    """Rows in a second that `bushel.batches` gives to nobody."""
    rows = 0
    with bushel.batches(split, **options) as feed:
        for _ in range(3):
            next(feed)
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            rows += len(next(feed).rows)
        return rows / (time.perf_counter() - begin)


KINDS = {"images": image_rows, "tokens": token_rows, "table": table_rows}
SHARES = ("share", "device waits", "beside it", "host waits", "of shared", "of batches")
ORDER = (
    "what",
    "decoded on",
    "synthetic",
    "fed",
    "share",
    "of shared",
    "batches",
    "of batches",
    "device waits",
    "beside it",
    "host waits",
    "fallbacks",
    "mean apart",
    "most apart",
    "storage µs",
    "decode µs",
    "transform µs",
    "layout µs",
)


def cell(name: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    if name in SHARES:
        return f"{value:.1%}"
    if name.endswith("apart"):
        return f"{value:.2f}"
    return f"{value:.1f}" if name.endswith("µs") else f"{value:,.0f}"


def show(rows: list[dict[str, Any]]) -> None:
    names = [name for name in ORDER if any(name in row for row in rows)]
    print("| " + " | ".join(names) + " |")
    print("|---" + "|---:" * (len(names) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(cell(name, row.get(name)) for name in names) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=KINDS, action="append", help="measure only this; may be given several times")
    parser.add_argument("--quick", action="store_true", help="so small that the figures say little")
    parser.add_argument("--seconds", type=float, help="that each run takes")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--dir", type=Path, help="where to make the TFRecords [default: a temporary folder]")
    given = parser.parse_args()
    scale = QUICK if given.quick else FULL
    if not torch.cuda.is_available():
        print("there is no GPU here: everything runs on the CPU, and is so small that the figures say nothing")
        scale = WITHOUT_GPU
    if given.seconds:
        scale = Scale(**{**scale.__dict__, "seconds": given.seconds})
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(1 if scale.device == "cpu" else torch.get_num_threads())
    torch.set_float32_matmul_precision("high")
    name = torch.cuda.get_device_name() if scale.device == "cuda" else "no GPU"
    machine = f"{name}, {os.cpu_count()} cores, torch {torch.__version__}"
    print(f"{machine}, batches of {scale.batch} images, {scale.seconds} s each")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        for kind in given.only or KINDS:
            for row in KINDS[kind](Path(folder), scale):
                rows.append(row)
                print(json.dumps(row), flush=True)
                if given.json:
                    given.json.write_text(json.dumps(rows, indent=1))
            torch._dynamo.reset()
    show(rows)


if __name__ == "__main__":
    main()
