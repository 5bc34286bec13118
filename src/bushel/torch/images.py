"""Images decoded on a GPU, and changed there in one pass, with the draws that they would have on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import torch

from bushel._native import Change, Kernel
from bushel.data.columns import BytesColumn
from bushel.errors import missing_package
from bushel.pixels.headers import NativeCodec, read_headers
from bushel.reading import Batch
from bushel.reading.pipeline import FeedSettings
from bushel.transforms import BatchTransform
from bushel.transforms.canvas import Canvas, PaintJob
from bushel.transforms.image import DecodeImage
from bushel.transforms.interface import DeclaredTransform, Draws, PaintedTransform, declared

__all__ = ["DeviceImages", "Left", "divide"]

_DONE_HERE = (Change.FLIP, Change.BRIGHTNESS, Change.CONTRAST, Change.SATURATION, Change.HUE)
_COLUMNS = 11  # of the table that tells the kernel about an image
_PIXELS = 1024  # of one program of the kernel
_GREY = (0.299, 0.587, 0.114)


class Left(DeclaredTransform, msgspec.Struct, frozen=True):
    """Stands for a transform that runs on the GPU later, so that the others keep their numbers, and their draws."""

    feature: str
    in_core = True

    def apply(self, sample: dict[str, Any], draw: Any) -> dict[str, Any]:  # noqa: ARG002
        """The sample itself."""
        return sample

    def apply_columns(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns themselves."""
        return columns


def divide(settings: FeedSettings) -> tuple[FeedSettings, DeviceImages]:
    """The settings for what the CPU does, and the rest: decoding images, and all that is done to their pixels."""
    steps = list(enumerate(settings.transforms))
    decoding = next((step for _, step in steps if isinstance(step, DecodeImage)), None)
    if decoding is None:
        raise ValueError('decode="cuda" must come with transforms=[decode_image(...), ...], got none that decodes')
    own = [(number, step) for number, step in steps if declared(step).feature == decoding.feature]
    for _, step in steps:
        if isinstance(step, BatchTransform):
            raise ValueError(f'decode="cuda" must not come with transforms of whole batches, got {step!r}')
    for _, step in own:
        if not isinstance(step, PaintedTransform):
            raise ValueError(f'decode="cuda" does what the core does with images, and not {step!r}: use decode="cpu"')
    rest = tuple(Left(decoding.feature) if step in own else step[1] for step in steps)
    rest = () if all(isinstance(step, Left) for step in rest) else rest
    return msgspec.structs.replace(settings, transforms=rest), DeviceImages(decoding.feature, own, settings.order.seed)


class DeviceImages:
    """Turns the encoded images of a batch into pixels on a GPU. To be used from one thread."""

    def __init__(self, feature: str, steps: Sequence[tuple[int, Any]], seed: int) -> None:
        self.feature = feature
        # Decoding at a fraction of the size is an economy of the CPU: the GPU decodes all pixels.
        self._steps = [
            (n, msgspec.structs.replace(s, at_least=None) if isinstance(s, DecodeImage) else s) for n, s in steps
        ]
        self._seed = seed
        self._decoder: Any = None
        self.fallbacks = 0  # images that the GPU could not decode

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decoder": None}

    def paint(self, batch: Batch, device: Any, held: list[Any]) -> tuple[Any, dict[int, Exception]]:
        """The pixels, on the current stream of the device, and the rows that no decoder knows, with their errors.

        What must not be freed before the stream has come that far is added to `held`.
        """
        canvas = self._plan_for(batch)
        places, strides = self._decode(batch[self.feature], canvas, device, held)
        return paint(places, strides, canvas.plan, device, held), canvas.refused

    def _plan_for(self, batch: Batch) -> Canvas:
        canvas = Canvas(batch[self.feature], self.feature)
        for number, step in self._steps:
            if not step.paint(canvas, Draws(self._seed, batch.epoch, batch.rows, number)):
                raise ValueError(f'decode="cuda" cannot do this step after those before it: {step!r}; use decode="cpu"')
        if canvas.size is None:
            raise ValueError(
                f'decode="cuda" must give all images of {self.feature!r} one size, as resize and random_resized_crop do'
            )
        _check(canvas.plan)
        return canvas

    def _decode(self, column: BytesColumn, canvas: Canvas, device: Any, held: list[Any]) -> tuple[list[int], list[int]]:
        """Where the pixels of each image are on the device, and how many bytes a row of them takes."""
        sizes = canvas.original_sizes.tolist()
        strides = [width * canvas.channels for _, width in sizes]
        places = [0] * len(column)
        rows = np.flatnonzero(read_headers(column).codec == NativeCodec.JPEG).tolist()
        images = self._decode_jpegs([column[row] for row in rows], canvas, device)
        for row, image in zip(rows, images, strict=True):
            if image is not None and [image.height, image.width] == sizes[row]:
                held.append(image)
                places[row], strides[row] = _address(image, device), image.strides[0]
        for row in (row for row, place in enumerate(places) if place == 0 and row not in canvas.refused):
            self.fallbacks += 1
            if (pixels := canvas.decode_row(row)) is not None:
                places[row] = _upload(torch.from_numpy(pixels), device, held).data_ptr()
        nothing = torch.zeros(8, dtype=torch.uint8, device=device)  # one pixel, for images that are refused
        held.append(nothing)
        for row in canvas.refused:
            places[row] = nothing.data_ptr()
        return places, strides

    def _decode_jpegs(self, images: list[bytes], canvas: Canvas, device: Any) -> list[Any]:
        """The images that the decoder knows; None for the others."""
        if not images or canvas.channels == 4:
            return [None] * len(images)
        codec, upright = _load_codec(), canvas.plan.settings["upright"]
        colours = codec.ColorSpec.GRAY if canvas.channels == 1 else codec.ColorSpec.SRGB
        params = codec.DecodeParams(apply_exif_orientation=upright, color_spec=colours)
        if self._decoder is None:
            self._decoder = _decoder(device)
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        return list(self._decoder.decode(images, params=params, cuda_stream=stream))


def _decoder(device: Any) -> Any:
    codec = _load_codec()
    # Chroma is interpolated as libjpeg does, so that values are those of the CPU but for rounding.
    options = ":fancy_upsampling=1"
    if device.type == "cuda":
        return codec.Decoder(device_id=device.index, options=options)
    cpu = [codec.Backend(codec.BackendKind.CPU_ONLY)]
    return codec.Decoder(device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY, backends=cpu, options=options)


def _address(image: Any, device: Any) -> int:
    shown = image.__cuda_array_interface__ if device.type == "cuda" else image.__array_interface__
    return int(shown["data"][0])


def _check(plan: PaintJob) -> None:
    settings = plan.settings
    if settings.get("kernel", Kernel.BILINEAR) != Kernel.BILINEAR or settings.get("antialias", False):
        raise ValueError('decode="cuda" resizes with kernel="bilinear" and antialias=False only: use decode="cpu"')
    for change, _ in plan.changes:
        if change not in _DONE_HERE:
            raise ValueError(f'decode="cuda" has no {change.name.lower()}: use decode="cpu"')
    if plan.changes and not settings.get("rounds", True):
        raise ValueError('decode="cuda" changes the colours of uint8 images only: use decode="cpu"')


@cache
def _load_codec() -> Any:
    try:
        from nvidia import nvimgcodec
    except ImportError:
        raise missing_package("nvImageCodec", extra="cuda13", purpose='decode="cuda"') from None
    return nvimgcodec


def _upload(tensor: Any, device: Any, held: list[Any]) -> Any:
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    moved = tensor.to(device, non_blocking=device.type == "cuda")
    held += [tensor, moved]
    return moved


def paint(images: list[int], strides: list[int], plan: PaintJob, device: Any, held: list[Any]) -> Any:
    """Crop, resize, flip, change, scale and cast images, which are given by where their pixels are on the device."""
    table = np.concatenate(
        [
            np.array([images, strides], np.int64).T,
            plan.moves.astype(np.int64),
            plan.flips.astype(np.int64)[:, None],
        ],
        axis=1,
    )
    mean, std = plan.settings.get("mean"), plan.settings.get("std")
    is_direct = not plan.changes
    dtype = getattr(torch, plan.dtype.name) if is_direct else torch.float32
    out = torch.empty((len(images), *plan.size, plan.channels), dtype=dtype, device=device)
    scale = torch.tensor([mean, std] if mean else [[0.0] * plan.channels, [1.0] * plan.channels], dtype=torch.float32)
    on_device = [_upload(torch.from_numpy(table), device, held), _upload(scale, device, held)]
    pixels = plan.size[0] * plan.size[1]
    _kernel()[(len(images), -(-pixels // _PIXELS))](
        out,
        *on_device,
        *plan.size,
        float(plan.settings.get("fill", 0.0)),
        CHANNELS=plan.channels,
        COLUMNS=_COLUMNS,
        IS_ROUNDED=bool(plan.settings.get("rounds", True)),
        IS_SCALED=bool(mean) and is_direct,
        BLOCK=_PIXELS,
    )
    if is_direct:
        return out
    for change, numbers in plan.changes:
        given = _upload(torch.from_numpy(numbers.astype(np.float32)), device, held)
        out = _CHANGES[change](out, given).add_(0.5).floor_().clamp_(0, 255)
    if mean:
        out = (out - on_device[1][0]) / on_device[1][1]
    return out.to(getattr(torch, plan.dtype.name))


def _factor(numbers: Any) -> Any:
    return numbers.view(-1, 1, 1, 1)


def _flip(out: Any, numbers: Any) -> Any:
    for axis, flags in enumerate(numbers.unbind(1), 1):
        out = torch.where(_factor(flags) > 0, out.flip(axis), out)
    return out


def _contrast(out: Any, numbers: Any) -> Any:
    mean = out.mean(dim=(1, 2), keepdim=True)
    return (out - mean) * _factor(numbers) + mean


def _saturation(out: Any, numbers: Any) -> Any:
    grey = (out @ out.new_tensor(_GREY)).unsqueeze(-1)
    return (out - grey) * _factor(numbers) + grey


def _hue(out: Any, numbers: Any) -> Any:
    rows = out.reshape(len(out), -1, 3)
    return torch.bmm(rows, numbers.view(-1, 3, 3).transpose(1, 2)).reshape(out.shape)


_CHANGES: dict[Change, Callable[[Any, Any], Any]] = {
    Change.FLIP: _flip,
    Change.BRIGHTNESS: lambda out, numbers: out + _factor(numbers),
    Change.CONTRAST: _contrast,
    Change.SATURATION: _saturation,
    Change.HUE: _hue,
}


@cache
def _kernel() -> Any:
    """The kernel: one program paints some pixels of one image."""
    from bushel.torch.kernel import paint_images

    return paint_images
