"""A store that fails one time in twenty: nothing is lost, nothing is doubled, and the run ends."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flaky_proxy import FAULTS, REFUSALS, FlakyProxy
from storage_server import SECRET, forget_clients, put_many
from test_building_objects import digests, names_below

import bushel
from bushel.errors import FileProblem
from bushel.storage import as_path, cache, stores
from bushel.storage import objects as ahead
from bushel.storage.objects import ObjectPath


@pytest.fixture
def flaky(bucket: str, store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlakyProxy]:
    with FlakyProxy(int(store.rpartition(":")[2]), share=0.05) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        forget_clients()
        yield proxy
    forget_clients()


def columns(rows: int) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(rows, 200)).astype(np.float32)
    x[:, 0] = np.arange(rows)
    return {"x": x, "label": np.arange(rows) % 3}


def test_a_build_through_a_failing_store_has_the_same_bytes(bucket: str, flaky: FlakyProxy, tmp_path: Path) -> None:
    bushel.build(columns(3000), tmp_path / "here", shards=25)
    bushel.build(columns(3000), f"{bucket}/there", shards=25)
    assert flaky.requests > 75
    assert sum(flaky.done[fault] for fault in FAULTS) > 4
    flaky.share = 0
    assert digests(f"{bucket}/there") == digests(tmp_path / "here")
    here = {path.relative_to(tmp_path / "here").as_posix() for path in (tmp_path / "here").rglob("*") if path.is_file()}
    assert names_below(f"{bucket}/there") == {
        name for name in here if not name.endswith(".keys")
    }  # those are in the index


def test_reading_through_a_failing_store_loses_and_doubles_nothing(
    bucket: str, flaky: FlakyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "BLOCK_BYTES", 16 << 10)
    monkeypatch.setattr(ahead, "REQUEST_BYTES", 16 << 10)
    monkeypatch.setattr(ahead, "SMALL_BYTES", 0)
    flaky.share = 0
    bushel.build(columns(3000), f"{bucket}/data", shards=4)
    flaky.share, flaky.requests = 0.05, 0
    for order in (bushel.Order(), bushel.Order(shuffle=True, seed=1)):
        feed = bushel.batches(bushel.open(f"{bucket}/data")["train"], batch_size=100, order=order)
        assert sorted(np.concatenate([batch["x"][:, 0] for batch in feed]).tolist()) == list(range(3000))
    assert sorted(int(sample["x"][0]) for sample in bushel.scan(f"{bucket}/data")) == list(range(3000))
    assert bushel.info(f"{bucket}/data").records == 3000
    assert flaky.requests > 200
    assert {fault for fault in FAULTS if flaky.done[fault]} == set(FAULTS)


def test_a_wrong_tag_is_asked_about_again_before_it_is_believed(
    bucket: str, flaky: FlakyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "BLOCK_BYTES", 16 << 10)
    flaky.share = 0
    bushel.build(columns(2000), f"{bucket}/data", shards=2)
    flaky.share, flaky.faults = 0.1, ("tag",)
    feed = bushel.batches(bushel.open(f"{bucket}/data")["train"], batch_size=100)
    assert sorted(np.concatenate([batch["x"][:, 0] for batch in feed]).tolist()) == list(range(2000))
    assert sorted(int(sample["x"][0]) for sample in bushel.scan(f"{bucket}/data")) == list(range(2000))
    assert flaky.done["tags"] > 3


def test_a_large_upload_in_parts_survives(bucket: str, flaky: FlakyProxy, tmp_path: Path) -> None:
    data = os.urandom(70 << 20)
    (tmp_path / "large").write_bytes(data)
    flaky.share = 0.3
    path = as_path(f"{bucket}/large")
    assert isinstance(path, ObjectPath)
    path.put(tmp_path / "large")
    flaky.share = 0
    assert as_path(f"{bucket}/large").read_bytes() == data


def test_a_listing_of_several_pages_through_a_failing_store_is_whole(bucket: str, flaky: FlakyProxy) -> None:
    flaky.share = 0
    root = as_path(f"{bucket}/many")
    assert isinstance(root, ObjectPath)
    put_many(root, 1100)
    flaky.share = 0.5
    assert [path.name for path in root.below()] == [f"{number:05d}" for number in range(1100)]


def test_a_store_that_always_fails_ends_the_run_with_words(
    bucket: str, flaky: FlakyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_ATTEMPTS", 2)
    monkeypatch.setitem(stores._RETRIES, "max_retries", 1)
    forget_clients()
    flaky.share = 1.0
    flaky.faults = ("500",)
    with pytest.raises(FileProblem) as caught:
        as_path(f"{bucket}/x").read_bytes()
    assert str(caught.value).splitlines()[0] == f"{bucket}/x: the store answered 500, 2 times"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDenied", "there is no permission for this in bucket {bucket!r}"),
        ("InvalidAccessKeyId", "the credentials are not accepted for bucket {bucket!r}"),
        ("SignatureDoesNotMatch", "the credentials are not accepted for bucket {bucket!r}"),
        ("ExpiredToken", "the credentials are not accepted for bucket {bucket!r}"),
        ("PermanentRedirect", "bucket {bucket!r} is in another region"),
        ("AuthorizationHeaderMalformed", "bucket {bucket!r} is in another region"),
    ],
)
def test_a_store_that_refuses_is_said_in_one_line_and_at_once(
    bucket: str, flaky: FlakyProxy, code: str, words: str
) -> None:
    flaky.share, flaky.faults = 1.0, (code,)
    for verb in (lambda: as_path(f"{bucket}/x").read_bytes(), lambda: list(as_path(f"{bucket}/x").iterdir())):
        with pytest.raises(FileProblem) as caught:
            verb()
        said = "" if code == "PermanentRedirect" else f" ({code}: {REFUSALS[code][1].rstrip('.')})"
        assert str(caught.value).splitlines()[0] == f"{bucket}/x: {words.format(bucket=bucket[5:])}{said}"
        assert SECRET not in str(caught.value)
    assert flaky.requests == 2  # nothing was tried again
