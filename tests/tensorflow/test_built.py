"""From a folder of images, through a build, to tensors that are the pictures."""

from pathlib import Path

import numpy as np
import pytest
from pictures import encode_image, photo

import bushel
from bushel import sources
from bushel import transforms as t
from bushel.tensorflow import dataset

pytest.importorskip("tensorflow")


@pytest.mark.parametrize("engine", ["native", "graph"])
def test_pictures_of_a_folder_come_back_with_their_class(tmp_path: Path, engine: str) -> None:
    pictures = {}
    for number in range(12):
        name = ("cat", "dog", "emu")[number % 3]
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        pictures[f"{name}/{number}.png"] = photo(number, 20, 24)
        path = tmp_path / "photos" / name / f"{number}.png"
        path.write_bytes(encode_image(pictures[f"{name}/{number}.png"], "PNG"))
    bushel.build(sources.images(tmp_path / "photos"), tmp_path / "data")

    made = dataset(tmp_path / "data", "train", batch_size=4, transforms=[t.decode_image("image")], engine=engine)
    assert [spec.shape.as_list() for spec in made.element_spec] == [[4, 20, 24, 3], [4]]
    with_keys = dataset(
        tmp_path / "data",
        "train",
        batch_size=4,
        columns=["image", "key", "label"],
        transforms=[t.decode_image("image")],
        engine=engine,
    )
    seen = 0
    for x, label in with_keys:
        for image, key, code in zip(x["image"], x["key"].numpy(), label.numpy(), strict=True):
            np.testing.assert_array_equal(image, pictures[key.decode()])
            assert ("cat", "dog", "emu")[code] == key.decode().split("/")[0]
            seen += 1
    assert seen == 12
