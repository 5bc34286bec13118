"""Records that are not Examples: every command gives the same verdict, and ExampleListWithContext is read."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import flip, sequence_example, write_records

import bushel
from bushel.cli import cli
from bushel.errors import BushelError, FileProblem
from bushel.records.files import ELWC, not_examples, parse_elwc


def field(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def example(**features: list[float] | list[int]) -> bytes:
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], float):
            held = field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            held = field(3, field(1, bytes(values)))  # type: ignore[arg-type]
        entries += field(1, field(1, name.encode()) + field(2, held))
    return field(1, entries)


def ranked(number: int) -> bytes:
    context = field(2, example(query=[number], size=[1.0, 2.0]))
    return b"".join(field(1, example(score=[0.5 * n], rel=[n])) for n in range(1 + number % 3)) + context


EVENT = b"\x09" + struct.pack("<d", 1.5) + field(3, b"brain.Event:2")
KINDS = {
    "TensorBoard events": [EVENT, b"\x09" + struct.pack("<d", 2.5) + b"\x10\x01"],
    "ExampleListWithContext messages": [ranked(number) for number in range(6)],
    "serving logs (PredictionLog)": [field(1, field(1, b"m")) + field(6, field(1, field(1, b"m")))] * 3,
    "text": [b"hello world", b"a second line"],
    "other bytes": [bytes([255, 254, 253, number]) for number in range(5)],
    "files: a PNG image each": [b"\x89PNG\r\n\x1a\n" + bytes(20)] * 3,
}


@pytest.mark.parametrize("what", KINDS)
def test_every_command_gives_one_verdict(tmp_path: Path, what: str) -> None:
    path = write_records(tmp_path / "x.tfrecord", KINDS[what])
    assert not_examples(path) == what
    said = f"its records are not Examples but {what}"
    for command in (["schema"], ["schema", "--tf"], ["schema", "--json"], ["bench"]):
        result = CliRunner().invoke(cli, [*command, str(path)])
        assert (result.exit_code, said in result.output) == (2, True), command
    assert f"records are not Examples but {what}" in CliRunner().invoke(cli, ["info", str(path)]).output
    checked = CliRunner().invoke(cli, ["check", str(path)])
    is_meant = what in ("text", "other bytes") or what.startswith("files")
    assert (checked.exit_code, f"are not Examples but {what}" in checked.output) == (0 if is_meant else 1, True)
    assert re.findall(r"\[(\w+)\]", checked.output) == ["SCH007"]
    assert ("bushel build FILES OUT" in checked.output) == (what == ELWC)
    printed = CliRunner().invoke(cli, ["cat", str(path)]).output.splitlines()
    assert len(printed) == len(KINDS[what])
    assert all(line.startswith('{"record": ') for line in printed)
    assert CliRunner().invoke(cli, ["index", str(path)]).exit_code == 0  # which needs only framing
    if what != ELWC:
        with pytest.raises(FileProblem, match=r"its records are not Examples but"):
            next(iter(bushel.batches(bushel.open(path), batch_size=2)))


def test_lists_of_examples_are_opened_with_their_context(tmp_path: Path) -> None:
    path = write_records(tmp_path / "ranking.tfrecord", KINDS[ELWC])
    train = bushel.open(path)["train"].sort("query")
    assert train[:]["query"].tolist() == list(range(6))
    assert [len(train[number]["rel"]) for number in range(6)] == [1, 2, 3, 1, 2, 3]
    assert sum(len(batch.rows) for batch in bushel.batches(path, batch_size=4)) == 6


def test_examples_are_examples(tmp_path: Path) -> None:
    for name, records in {"some": [example(x=[1.0])], "empty": [b""]}.items():
        assert not_examples(write_records(tmp_path / name, records)) is None
    assert parse_elwc(example(x=[1.0], label=[1])) is None


def test_lists_with_context_become_examples(tmp_path: Path) -> None:
    path = write_records(tmp_path / "ranking.tfrecord", KINDS["ExampleListWithContext messages"])
    built = bushel.build(path, tmp_path / "out", order="source")
    schema = built.manifest.schema
    assert {name: schema[name].describe() for name in schema} == {
        "query": "int64",
        "rel": "int64[?]",
        "score": "float32[?]",
        "size": "float32[2]",
    }
    rows: list[Any] = list(bushel.open(tmp_path / "out")["train"])
    assert [row["query"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert rows[2]["score"].tolist() == [0.0, 0.5, 1.0]
    assert bushel.build(path, tmp_path / "out", order="source").records == 0  # the same recipe: nothing to do


def test_examples_of_a_list_may_lack_a_feature_or_have_several_values(tmp_path: Path) -> None:
    lists = [
        [{"rel": [1], "tokens": [3, 4]}, {"rel": [2]}, {"rel": [3], "tokens": [5]}],
        [{"rel": [4]}],
        [{"rel": [5], "tokens": [6, 7, 8]}],
    ]
    records = [
        b"".join(field(1, example(**one)) for one in own) + field(2, example(query=[number]))
        for number, own in enumerate(lists)
    ]
    path = write_records(tmp_path / "ranking.tfrecord", records)
    rows = sorted(bushel.open(path)["train"], key=lambda row: row["query"])
    assert [row["rel"].tolist() for row in rows] == [[1, 2, 3], [4], [5]]
    assert [row["tokens"].tolist() for row in rows] == [[3, 4, 5], [], [6, 7, 8]]
    assert [row["tokens/lengths"].tolist() for row in rows] == [[2, 0, 1], [0], [3]]


def test_records_without_a_feature_are_an_error_when_they_are_opened(tmp_path: Path) -> None:
    path = write_records(tmp_path / "x.tfrecord", [b"", b""])
    with pytest.raises(FileProblem, match="no feature was found in its records"):
        _ = bushel.open(path)["all"].schema
    path = write_records(tmp_path / "ranking.tfrecord", [field(1, b"") + field(2, b"")] * 3)
    with pytest.raises(BushelError, match="no feature was found in its records"):
        bushel.sources.elwc(path)


def test_a_context_and_a_feature_list_may_share_a_name(tmp_path: Path) -> None:
    steps = [sequence_example({"x": [7 + n], "id": [n]}, {"x": [[1, 2], [n]]}) for n in range(4)]
    path = write_records(tmp_path / "x.tfrecord", steps)
    rows = list(bushel.scan(path))
    assert [row["x (context)"] for row in rows] == [7, 8, 9, 10]
    assert [[step.tolist() for step in row["x"]] for row in rows] == [[[1, 2], [n]] for n in range(4)]
    assert bushel.read(path, ["x (context)"])["x (context)"].tolist() == [7, 8, 9, 10]
    opened = bushel.open(path)["all"]
    assert set(opened.schema.features) == {"id", "x", "x (context)"}
    (batch,) = bushel.batches(opened, batch_size=4)
    assert batch["x (context)"].tolist() == [7, 8, 9, 10]
    assert bushel.check(path).findings == []
    bushel.build(path, tmp_path / "out", order="source")
    again = list(bushel.scan(tmp_path / "out"))
    assert [(row["x (context)"], row["x"][1].tolist()) for row in again] == [(7 + n, [n]) for n in range(4)]


@pytest.mark.parametrize("epochs", [1, None])
def test_an_epoch_without_an_intact_record_is_an_error(tmp_path: Path, epochs: int | None) -> None:
    path = tmp_path / "x.tfrecord"
    with bushel.Writer(path) as writer:
        writer.write({"x": 1.0})
    schema = bushel.infer_schema(path)
    flip(path, at=16)
    feed = bushel.batches(bushel.open(path, schema=schema), batch_size=1, epochs=epochs, on_fault="skip")
    with pytest.raises(BushelError, match="an epoch has no intact record"):
        list(feed)


def test_folders_of_tfx_are_splits(tmp_path: Path) -> None:
    for split, count in (("train", 3), ("eval", 2)):
        folder = tmp_path / "examples" / f"Split-{split}"
        folder.mkdir(parents=True)
        write_records(folder / "data_tfrecord-00000-of-00001", [example(x=[float(n)]) for n in range(count)])
    data = bushel.open(tmp_path / "examples")
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 3, "val": 2}


def test_notes_beside_records_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "mnist" / "3.0.1"
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        write_records(folder / f"mnist-{split}.tfrecord-00000-of-00001", [example(x=[1.0])])
    (folder / "notes.json").write_text("{}")
    assert set(bushel.open(folder).splits) == {"train", "test"}


def test_a_feature_that_a_late_record_lacks_is_named_with_the_line_that_helps(tmp_path: Path) -> None:
    path = write_records(
        tmp_path / "x.tfrecord", [example(x=[1.0], y=[1]) if n != 2925 else example(y=[1]) for n in range(3000)]
    )
    with pytest.raises(BushelError) as caught:
        list(bushel.batches(bushel.open(path), batch_size=64))
    line = str(caught.value).rpartition("looks at all: ")[2]
    data = eval(line, {"bushel": bushel})
    assert sum(len(batch["y"]) for batch in bushel.batches(data, batch_size=64)) == 3000


def test_files_that_were_not_named_are_not_missing(tmp_path: Path) -> None:
    for number in range(3):
        write_records(tmp_path / f"a.tfrecord-{number:05d}-of-00003", [example(x=[1.0 * number])])
    found = bushel.check(tmp_path / "a.tfrecord-00000-of-00003", select=["FIL006"])
    assert found.findings == []


def test_the_number_of_a_shard_may_follow_its_compression() -> None:
    from bushel.storage.file_kinds import compression_named

    assert compression_named("x.tfrecord.gz-00000-of-00003") == "gzip"
    assert compression_named("x.tfrecord-00000-of-00003") is None
