"""Clips of real small videos."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clips import make_clip, make_sound, number_of, turn
from gather import blocks_of, keys_of, listed
from making import digests

import bushel
from bushel import sources, transforms
from bushel.errors import FileProblem
from bushel.pixels.codecs import decode_pixels
from bushel.sources.opening import kind_of


def clips_of(source: Any) -> tuple[list[list[int]], list[list[int]], list[Any]]:
    """The numbers of the frames of each clip, their times, and what was refused."""
    numbers, times, refused = [], [], []
    for block in blocks_of(source):
        refused += block.refused
        images, stamps = block.columns["image"], block.columns["image/timestamp"]
        for row in range(len(block.rows)):
            frames = images[row] if not isinstance(images[row], bytes) else [images[row]]
            numbers.append([number_of(decode_pixels(frame)) for frame in frames])
            times.append(np.ravel(stamps[row]).tolist())
    return numbers, times, refused


def test_clips_of_all_frames_with_stride_and_time_stamps(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mp4", 30)
    source = sources.video(path, frames=8, stride=6)
    assert kind_of(path) == "video"
    numbers, times, refused = clips_of(source)
    assert not refused
    assert numbers == [list(range(start, start + 8)) for start in (0, 6, 12, 18)]
    assert times == [[n * 100_000 for n in clip] for clip in numbers]
    assert keys_of(source) == ["a.mp4@0.000", "a.mp4@0.600", "a.mp4@1.200", "a.mp4@1.800"]
    assert source.schema().record == "sequence_example"


def test_frames_at_a_rate_and_at_a_count(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mp4", 40)
    assert clips_of(sources.video(path, fps=5, frames=4, stride=8))[0] == [
        [0, 2, 4, 6],
        [16, 18, 20, 22],
        [32, 34, 36, 38],
    ]
    assert clips_of(sources.video(path, fps=20, frames=4))[0][0] == [0, 0, 1, 1]
    assert clips_of(sources.video(path, count=4))[0] == [[5, 15, 25, 35]]
    assert keys_of(sources.video(path, count=4)) == ["a.mp4"]


def test_a_clip_of_one_frame_is_an_image(tmp_path: Path) -> None:
    source = sources.video(make_clip(tmp_path / "a.mp4", 20), fps=1, frames=1)
    assert source.schema()["image"].describe() == "bytes (image)"
    numbers, times, _ = clips_of(source)
    assert numbers == [[0], [10]]
    assert times == [[0], [1_000_000]]


def test_a_rate_that_varies_is_followed_by_time_not_by_count(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.2, 0.3, 0.4, 1.4, 2.4, 2.5, 2.6, 2.7]
    path = make_clip(tmp_path / "a.mkv", 10, times=times)
    numbers, stamps, _ = clips_of(sources.video(path, fps=2, frames=5))
    assert numbers == [[0, 4, 4, 5, 5]]
    assert stamps == [[0, 400_000, 400_000, 1_400_000, 1_400_000]]


def test_frames_are_resized_and_encoded_as_asked(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mp4", 8)
    source = sources.video(path, frames=4, height=24, width=24, fit="pad", form="png")
    (block,) = blocks_of(source)
    frame = block.columns["image"][0][0]
    assert frame.startswith(b"\x89PNG")
    pixels = decode_pixels(frame)
    assert pixels.shape == (24, 24, 3)
    assert not pixels[:2].any()
    assert block.columns["image/height"].tolist() == [24, 24]


def test_a_video_from_a_phone_is_turned_upright(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mp4", 4)
    before = decode_pixels(blocks_of(sources.video(path, frames=4))[0].columns["image"][0][0])
    turn(path)
    (block,) = blocks_of(sources.video(path, frames=4))
    after = decode_pixels(block.columns["image"][0][0])
    assert (block.columns["image/height"][0], block.columns["image/width"][0]) == (64, 48)
    assert np.abs(after.astype(int) - np.rot90(before, -1)).max() <= 12


def test_labels_splits_and_groups_are_folders_and_files(tmp_path: Path) -> None:
    for name in ("train/run/a.mp4", "train/walk/b.mp4", "val/run/c.mp4"):
        make_clip(tmp_path / name, 10)
    (tmp_path / "notes.md").touch()
    source = sources.video(tmp_path, frames=5)
    assert listed(source, "label") == [b"run", b"run", b"walk", b"walk", b"run", b"run"]
    assert listed(source, "split") == [b"train"] * 4 + [b"val"] * 2
    assert listed(source, "video")[0] == b"train/run/a.mp4"
    assert source.list(0, []).counted == {"files that are not videos": 1}
    assert kind_of(tmp_path) == "video"


def test_clips_of_one_file_stay_in_one_split_and_tensorflow_reads_them(tmp_path: Path) -> None:
    import tensorflow as tf

    for n in range(8):
        make_clip(tmp_path / "in" / f"{n}.mp4", 20)
    found = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        bushel.build(sources.video(tmp_path / "in", frames=4), out, split="50/50", run=bushel.Run(workers=workers))
        found.append(digests(out))
    assert found[0] == found[1]
    names = {}
    for split in ("train", "val"):
        (shard,) = (tmp_path / "out1").glob(f"{split}-*")
        names[split] = {key.split(b"@")[0] for key in bushel.read(shard, ["key"])["key"]}
    assert not names["train"] & names["val"]
    record = next(iter(tf.data.TFRecordDataset(str(shard))))
    context, steps = tf.io.parse_single_sequence_example(
        record,
        {"image/height": tf.io.FixedLenFeature((), tf.int64)},
        {
            "image": tf.io.FixedLenSequenceFeature((), tf.string),
            "image/timestamp": tf.io.FixedLenSequenceFeature((), tf.int64),
        },
    )
    assert context["image/height"] == 48
    assert [tf.io.decode_jpeg(frame).shape.as_list() for frame in steps["image"]] == [[48, 64, 3]] * 4
    assert np.diff(steps["image/timestamp"].numpy()).tolist() == [100_000] * 3


def test_transforms_leave_the_steps_of_a_clip_as_they_are(tmp_path: Path) -> None:
    source = sources.video(make_clip(tmp_path / "a.mp4", 12), frames=4)
    bushel.build(source, tmp_path / "plain", order="source")
    steps = [transforms.cast("image/height", "int64")]
    built = bushel.build(source, tmp_path / "changed", order="source", transforms=steps)
    assert built.refused == 0
    assert digests(tmp_path / "plain") == digests(tmp_path / "changed")


def test_one_example_a_clip_if_asked(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.mp4", 12)
    bushel.build(sources.video(path, frames=4, sequence=False), tmp_path / "out", order="source")
    columns = bushel.read(tmp_path / "out" / "train-00000-of-00001.tfrecord")
    assert np.asarray(columns["image/timestamp"]).shape == (3, 4)
    assert [number_of(decode_pixels(frame)) for frame in columns["image"][1]] == [4, 5, 6, 7]


def test_what_is_no_video_is_refused_alone(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    make_clip(folder / "a.mp4", 8, audio=True)
    make_sound(folder / "b.mp4")
    (folder / "c.mp4").write_bytes(b"this is no video")
    (folder / "d.mp4").touch()
    make_clip(folder / "e.mp4", 3)
    numbers, _, refused = clips_of(sources.video(folder, frames=8))
    assert numbers == [list(range(8))]
    assert [bad.stage for bad in refused] == ["decode"] * 4
    assert refused[0].reason == "there is no video in it, only audio"
    assert refused[1].reason.startswith("it cannot be opened: ")
    assert refused[2].reason.startswith("it cannot be opened: ")
    assert refused[3].reason == "it has 3 frames, fewer than the 8 of a clip"
    built = bushel.build(sources.video(folder, frames=8), tmp_path / "out", run=bushel.Run(max_bad=4))
    assert (built.records, built.refused) == (1, 4)


@pytest.mark.parametrize("suffix", ["mkv", "ts", "avi"])
def test_a_broken_tail_leaves_what_is_before_it(tmp_path: Path, suffix: str) -> None:
    path = make_clip(tmp_path / f"a.{suffix}", 60)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    numbers, _, refused = clips_of(sources.video(path, frames=5))
    assert 3 <= len(numbers) < 12
    assert numbers[:3] == [list(range(start, start + 5)) for start in (0, 5, 10)]
    assert all("cannot be decoded" in bad.reason for bad in refused)


def test_garbage_inside_refuses_clips_not_the_file(tmp_path: Path) -> None:
    path = make_clip(tmp_path / "a.ts", 60)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = np.random.default_rng(0).integers(0, 256, 3000, np.uint8).tobytes()
    path.write_bytes(data)
    numbers, _, _ = clips_of(sources.video(path, frames=5))
    assert numbers[0] == [0, 1, 2, 3, 4]
    assert len(numbers) >= 6


def test_pickles_recipes_and_options(tmp_path: Path) -> None:
    make_clip(tmp_path / "in" / "a.mp4", 10)
    source = sources.video(tmp_path / "in", frames=4, stride=2, height=16, width=16, quality=80)
    again = pickle.loads(pickle.dumps(source))
    opened = sources.open_source(source.describe())
    assert clips_of(again) == clips_of(source) == clips_of(opened)
    assert again.fingerprint() == source.fingerprint() == opened.fingerprint()
    for options, why in (
        ({"frames": 0}, "frames must be at least 1, got 0"),
        ({"stride": 0}, "stride must be at least 1, got 0"),
        ({"fps": 0}, "fps must be above 0, got 0"),
        ({"fps": 1, "count": 2}, "fps and count cannot both be given"),
        ({"height": 3}, "height and width must be given both, or neither"),
        ({"form": "gif"}, "form must be one of jpeg, png, webp; got 'gif'"),
    ):
        with pytest.raises(ValueError, match=why):
            sources.video(tmp_path / "in", **options)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileProblem, match="there are no videos in this folder"):
        sources.video(tmp_path / "empty")


def test_what_frames_cost_is_told_and_whether_they_are_too_large(tmp_path: Path) -> None:
    make_clip(tmp_path / "in" / "a.mp4", 10)
    bushel.build(sources.video(tmp_path / "in", frames=4), tmp_path / "out")
    found = bushel.costs(tmp_path / "out", read_at=(8, 8))
    assert found.features[0].feature == "image"
    assert [saving.how for saving in found.savings if saving.feature == "image"] == ["--resize 8x8"]


MEASURE = """
import sys
from bushel import sources

def anonymous():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024

source = sources.video(sys.argv[1], frames=8, stride=4, fps=10)
before, most, clips = None, 0, 0
for block in source.read(0, None):
    clips += len(block.rows)
    before = before or anonymous()
    most = max(most, anonymous())
print(clips, before, most)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")
def test_a_long_video_never_sits_in_memory(tmp_path: Path) -> None:
    """6,000 frames of 240 x 320 are 1.3 GB of pixels; what is held is a few clips."""
    path = make_clip(tmp_path / "long.mp4", 6000, size=(240, 320), fps=30)
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    clips, before, most = map(int, done.stdout.split())
    assert clips == (2000 - 8) // 4 + 1
    assert most - before < 60 << 20
