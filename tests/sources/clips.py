"""Real small clips, made with PyAV."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np


def shade(number: int, size: tuple[int, int] = (48, 64)) -> Any:
    """A frame whose number can be read back: its left half tells it, its top right quarter is white."""
    pixels = np.zeros((*size, 3), np.uint8)
    pixels[:, : size[1] // 2] = number * 4 % 256
    pixels[: size[0] // 2, size[1] // 2 :] = 255
    return pixels


def number_of(pixels: Any) -> int:
    """The number of a frame, from its pixels."""
    left = pixels[:, : pixels.shape[1] // 2]
    return round(float(left[left.shape[0] // 4 : -left.shape[0] // 4, 1 : left.shape[1] // 2].mean()) / 4)


def make_clip(
    path: Path,
    frames: int,
    *,
    fps: int = 10,
    size: tuple[int, int] = (48, 64),
    times: list[float] | None = None,
    codec: str = "mpeg4",
    audio: bool = False,
) -> Path:
    """A clip of numbered frames; `times`, in seconds, make its rate vary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=fps)
        stream.width, stream.height, stream.pix_fmt = size[1], size[0], "yuv420p"
        stream.bit_rate = 2_000_000
        base = Fraction(1, 1000)
        if times is not None:
            stream.codec_context.time_base = base
        if audio:
            add_sound(container)
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(shade(number, size), format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = round(times[number] * 1000), base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def add_sound(container: Any, seconds: float = 1.0) -> None:
    stream = container.add_stream("aac", rate=8000)
    for start in range(0, int(8000 * seconds), 1024):
        wave = np.sin(np.arange(start, start + 1024) / 8).astype(np.float32)[None]
        frame = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 8000, start
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def make_sound(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        add_sound(container)
    return path


def turn(path: Path) -> None:
    """Have an MP4 say that it is to be shown turned by 90 degrees clockwise, as phones do."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 4 + 4 * 5 + 8 + 8  # version 0: the matrix is behind times, ids and layers
    turned = [0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30]
    data[at : at + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in turned)
    path.write_bytes(data)
