"""Paths of objects: listing, reading, writing, and what is said when that cannot be done."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from flaky_proxy import FlakyProxy
from storage_server import SECRET, forget_clients, put_many

from bushel.cli.train import _default_folder
from bushel.errors import FileProblem
from bushel.storage import as_path, list_files, write_whole
from bushel.storage.objects import ObjectPath
from bushel.training import train


def put(url: str, data: bytes) -> ObjectPath:
    path = as_path(url)
    assert isinstance(path, ObjectPath)
    path.write_bytes(data)
    return path


def bushel(*arguments: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    """Run the command; a variable that is None is not set."""
    return subprocess.run(
        [sys.executable, "-m", "bushel", *arguments],
        capture_output=True,
        text=True,
        env={name: value for name, value in {**os.environ, **environment}.items() if value is not None},
        timeout=120,
        check=False,
    )


def test_a_path_of_a_store_is_told_by_its_scheme() -> None:
    assert isinstance(as_path("s3://bucket/a/b"), ObjectPath)
    assert not isinstance(as_path("data/s3/x"), ObjectPath)
    assert not isinstance(as_path("s3:/odd/folder"), ObjectPath)
    assert str(as_path(Path("s3://bucket/a"))) == "s3://bucket/a"  # Path takes one slash away


def test_parts_of_a_path_stay_paths_of_the_store() -> None:
    path = as_path("gs://bucket/a/b.tfrecord")
    assert str(path.parent / "_index" / f"{path.name}.idx") == "gs://bucket/a/_index/b.tfrecord.idx"
    assert os.fspath(path.with_suffix(".keys")) == "gs://bucket/a/b.keys"
    assert str(pickle.loads(pickle.dumps(path))) == str(path)


def test_folders_come_in_the_order_of_numbers_and_without_files_of_bushels_own(bucket: str) -> None:
    for name in ("part-10", "part-9", "dataset.json", "_quarantine.jsonl", "below/part-1"):
        put(f"{bucket}/data/{name}", b"x")
    assert [path.name for path in list_files(f"{bucket}/data")] == ["part-9", "part-10"]


def test_patterns_match_within_a_folder_and_over_folders(bucket: str) -> None:
    for name in ("a/x-1.bin", "a/x-2.txt", "a/b/x-3.bin", "x-4.bin"):
        put(f"{bucket}/{name}", b"x")
    assert [path.name for path in list_files(f"{bucket}/a/*.bin")] == ["x-1.bin"]
    assert [path.name for path in list_files(f"{bucket}/**/*.bin")] == ["x-3.bin", "x-1.bin", "x-4.bin"]
    assert [path.name for path in list_files(f"{bucket}/a/x-[12].*")] == ["x-1.bin", "x-2.txt"]


def test_a_listing_tells_sizes_without_a_request_for_each(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel.storage import stores

    put_many(as_path(f"{bucket}/many"), 1100)  # more than one page
    monkeypatch.setattr(stores, "head", lambda key: pytest.fail(f"{key} was asked for"))
    files = list_files(f"{bucket}/many")
    assert [file.stat().st_size for file in files] == [number % 7 for number in range(1100)]


def test_a_file_is_read_from_any_place_on(bucket: str) -> None:
    data = os.urandom(3_000_000)
    path = put(f"{bucket}/x", data)
    with path.open("rb") as file:
        assert file.read(10) == data[:10]
        assert file.seek(-5, os.SEEK_END) == len(data) - 5
        assert file.read() == data[-5:]
        file.seek(1_234_567)
        assert file.read(1_000_000) == data[1_234_567:2_234_567]
        assert file.read() == data[2_234_567:]


def test_an_object_appears_whole_or_not_at_all(bucket: str) -> None:
    path = as_path(f"{bucket}/x")
    with pytest.raises(RuntimeError), write_whole(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert not path.exists()
    with write_whole(path) as file:
        file.write(b"whole")
        assert not as_path(f"{bucket}/x").exists()
    assert as_path(f"{bucket}/x").read_bytes() == b"whole"


def test_a_large_file_is_uploaded_in_parts(bucket: str, tmp_path: Path) -> None:
    data = os.urandom(40 << 20)
    (tmp_path / "large").write_bytes(data)
    path = as_path(f"{bucket}/large")
    assert isinstance(path, ObjectPath)
    status = path.put(tmp_path / "large")
    assert status.etag.strip('"').endswith("-3")  # what S3 calls an object of three parts
    assert path.read_bytes() == data


def test_an_object_that_changes_while_it_is_read_is_an_error(bucket: str) -> None:
    path = put(f"{bucket}/x", b"a" * 2_000_000)
    with path.open("rb", buffering=0) as file:
        file.read(10)
        put(f"{bucket}/x", b"b" * 2_000_000)
        file.seek(1_500_000)
        with pytest.raises(FileProblem, match="has changed while it was read"):
            file.read(10)


def test_a_missing_object_offers_the_nearest(bucket: str) -> None:
    put(f"{bucket}/data/train.tfrecord", b"x")
    with pytest.raises(FileProblem) as caught:
        list_files(f"{bucket}/data/trian.tfrecord")
    assert str(caught.value).splitlines() == [
        f"{bucket}/data/trian.tfrecord: there is no such object",
        f"  Did you mean {bucket}/data/train.tfrecord?",
    ]


@pytest.mark.slow
def test_a_listing_of_twenty_thousand_objects_is_a_request_for_each_thousand(
    bucket: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = as_path(f"{bucket}/many")
    put_many(root, 20_000)
    with FlakyProxy(int(store.rpartition(":")[2]), share=0) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        forget_clients()
        found = list_files(f"{bucket}/many/*")
        assert sum(path.stat().st_size for path in found) == sum(number % 7 for number in range(20_000))
        assert len(found) == 20_000
        assert proxy.requests <= 21
    forget_clients()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("s3://key:kQ7-this-is-the-secret-9fZ@bucket/x", "a path must not hold credentials; got s3://…@bucket"),
        (
            "s3://bucket/x?X-Amz-Algorithm=a&X-Amz-Signature=kQ7-this-is-the-secret-9fZ",
            "a path must not hold credentials; got s3://bucket/x?…",
        ),
        (
            "az://box/x?sv=1&sig=kQ7-this-is-the-secret-9fZ",
            "a path must not hold credentials; got az://box/x?…",
        ),
        (
            "https://key:kQ7-this-is-the-secret-9fZ@bucket.s3.amazonaws.com/x",
            "a path must not hold credentials; got https://…@bucket.s3.amazonaws.com",
        ),
        (
            "hdfs://node/x",
            "a path must be on this machine or begin with one of s3://, gs://, az://, http://, https://; got hdfs://…",
        ),
        ("s3:///x", "a path must name a bucket, as in s3://bucket/name; got 's3:///x'"),
        ("s3://buck*/x", "a path must name a bucket, as in s3://bucket/name; got 's3://buck*/x'"),
        ("file:///x", "a file on this machine is named by its path alone, without file://; got 'file:///x'"),
    ],
)
def test_a_path_that_cannot_be_is_refused_in_one_line(path: str, words: str) -> None:
    with pytest.raises(ValueError, match="path|file") as caught:
        as_path(path)
    assert str(caught.value) == words


def test_a_missing_bucket_is_named_and_ends_with_two(store: str) -> None:
    done = bushel("info", "s3://no-such-bucket/data")
    assert done.returncode == 2
    assert done.stderr == (
        "bushel: s3://no-such-bucket/data: there is no bucket 'no-such-bucket'\n"
        f"  Is its name right; AWS_ENDPOINT_URL is {store}?\n"
    )


def test_an_endpoint_that_does_not_answer_is_said_at_once(bucket: str) -> None:
    done = bushel("info", f"{bucket}/data", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"bushel: {bucket}/data: the store cannot be reached".replace("/data", "")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"http://AKIAEXAMPLE:{SECRET}@127.0.0.1:9", "http://127.0.0.1:9"),
        ("nonsense", "no address, as https://host:port is one"),
    ],
    ids=["with a secret", "no address"],
)
def test_an_endpoint_is_shown_without_what_is_secret_in_it(bucket: str, address: str, shown: str) -> None:
    done = bushel("info", f"{bucket}/data", AWS_ENDPOINT_URL=address)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == f"  Is its name right; AWS_ENDPOINT_URL is {shown}?"
    assert SECRET not in done.stderr + done.stdout


def test_no_secret_is_in_what_fails_or_in_what_was_left(bucket: str, tmp_path: Path) -> None:
    """Keys of the environment, of the client's own errors and of its log, for commands that fail on the way."""
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    noisy = {"RUST_LOG": "trace", "RUST_BACKTRACE": "full", "PYTHONFAULTHANDLER": "1"}
    commands = [
        ("build", str(tmp_path / "rows.csv"), "s3://no-such-bucket/data"),
        ("build", f"{bucket}/nothing", str(tmp_path / "out")),
        ("check", f"{bucket}/nothing"),
        ("cat", f"{bucket}/nothing"),
        ("info", "s3://no-such-bucket/data"),
    ]
    for command in commands:
        done = bushel(*command, AWS_SESSION_TOKEN=f"token-{SECRET}", **noisy)
        assert done.returncode == 2, command
        told = done.stdout + done.stderr
        assert "Traceback" not in told
        assert SECRET not in told
        assert "AKIAEXAMPLE" not in told
    left = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in data for data in left)


def test_azure_without_an_account_is_said_with_the_names_of_variables(bucket: str) -> None:
    done = bushel("info", "az://box/data")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "bushel: az://box: there are no credentials for container 'box'"


def test_missing_credentials_are_said_with_their_names(bucket: str) -> None:
    done = bushel("info", f"{bucket}/data", AWS_ACCESS_KEY_ID=None, AWS_SECRET_ACCESS_KEY=None)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith(f"there are no credentials for bucket '{bucket[5:]}'")
    assert "AWS_ACCESS_KEY_ID" in done.stderr


def test_a_missing_client_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "obstore.py").write_text("raise ImportError('not here')")
    done = bushel("info", "gs://bucket/x", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == 'bushel: gs:// needs obstore: pip install "bushel[stores]"\n'


def test_credentials_of_a_profile_are_used(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(f"{bucket}/x", b"abc")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        value = os.environ[name]
        monkeypatch.delenv(name)
        monkeypatch.setenv(f"WAS_{name}", value)
    (tmp_path / "config").write_text(
        f"[profile work]\nregion = us-east-1\nendpoint_url = {os.environ['WAS_AWS_ENDPOINT_URL']}\n"
    )
    (tmp_path / "credentials").write_text(f"[work]\naws_access_key_id = A\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    forget_clients()
    assert as_path(f"{bucket}/x").read_bytes() == b"abc"


def test_a_run_on_the_data_of_a_store_is_a_folder_of_this_machine() -> None:
    assert _default_folder("s3://box/photos/data/") == "data-run"
    assert _default_folder("photos/data/") == "photos/data-run"
    with pytest.raises(ValueError, match="out must be a folder of this machine, got 's3://box/run'"):
        train("s3://box/data", out="s3://box/run")
