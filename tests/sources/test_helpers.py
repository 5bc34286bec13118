"""Sources that are looked through by many are the same as those that one looks through."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bushel import sources
from bushel.errors import FileProblem
from bushel.parallel import Nearby, do_all
from bushel.sources.folders import walk


class Elsewhere:
    """Does tasks last first, as pickles, as another machine would; and counts them."""

    def __init__(self):
        self.done = 0

    def __call__(self, work, tasks):
        for task in reversed(tasks):
            self.done += 1
            yield pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task)))))


def test_results_are_in_the_order_of_the_parts():
    elsewhere = Elsewhere()
    assert do_all(elsewhere, abs, [-3, -1, -2]) == [3, 1, 2]
    assert elsewhere.done == 3
    assert do_all(elsewhere, abs, [-3]) == [3]


def leave_out(name):
    return "texts" if name.endswith(b".txt") else None


def test_folders_are_walked_in_parts_to_the_same_list(tmp_path):
    for number in range(90):
        folder = tmp_path / f"{number % 3}" / f"{number % 7}" / f"{number % 5}" / "deep"
        folder.mkdir(parents=True, exist_ok=True)
        for place in (folder, folder.parent, folder.parent.parent, tmp_path):
            (place / f"{number}.bin").write_bytes(bytes(number))
        (folder / f"{number}.txt").touch()
    (tmp_path / "0" / "back").symlink_to(tmp_path)
    alone = walk(tmp_path, leave_out)
    elsewhere = Elsewhere()
    together = walk(tmp_path, leave_out, elsewhere)
    assert elsewhere.done > 10
    assert together.counted == alone.counted
    assert together.counted["links back to a folder above"] == 1
    for name, column in alone.columns().items():
        other = together.columns()[name]
        assert np.array_equal(column, other) if isinstance(column, np.ndarray) else column == other


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_of_a_table_are_looked_through_in_parts(tmp_path, suffix):
    for number in range(5):
        rows = {"x": list(range(number, number + 20)), "label": [f"c{i % number if number else 0}" for i in range(20)]}
        if suffix == "parquet":
            pq.write_table(pa.table(rows), tmp_path / f"{number}.parquet")
        else:
            lines = [f"{x},{label}" for x, label in zip(*rows.values(), strict=True)]
            (tmp_path / f"{number}.csv").write_text("\n".join(["x,label", *lines]))
    alone = sources.table(tmp_path / f"*.{suffix}")
    elsewhere = Elsewhere()
    together = sources.open_source(tmp_path / f"*.{suffix}", helpers=elsewhere)
    assert elsewhere.done == 5
    assert together.schema() == alone.schema()
    assert together.parts == alone.parts
    assert together.knows(["label"]) == alone.knows(["label"])
    assert together.knows([])
    assert together.list(3, ["label"]).columns["label"] == alone.list(3, ["label"]).columns["label"]


@pytest.fixture
def large_files(monkeypatch):
    """Files of some kilobytes count as large, and are looked through in small spans."""
    monkeypatch.setattr("bushel.sources.text_files.LARGE_FILE", 1000)
    monkeypatch.setattr("bushel.sources.tables.table.LARGE_FILE", 1000)
    monkeypatch.setattr("bushel.sources.text_files._SPAN_BYTES", 1 << 20)


def test_one_large_file_is_looked_through_in_spans(tmp_path, large_files):
    quoted = '"two\nlines, one ""value"""'
    lines = [f"{number},c{number % 3},{quoted if number % 7 == 0 else 'plain'}" for number in range(400_000)]
    lines[350_000] = "0.5,c1,late"  # one value far from the start decides the type
    (tmp_path / "rows.csv").write_text("\n".join(["x,label,text", *lines]) + "\n")
    alone = sources.table(tmp_path / "rows.csv")
    elsewhere = Elsewhere()
    together = sources.open_source(tmp_path / "rows.csv", helpers=elsewhere)
    assert elsewhere.done > 2
    assert together.schema() == alone.schema()
    assert together.parts == alone.parts
    assert together.list(0, ["label"]).columns["label"] == alone.list(0, ["label"]).columns["label"]


def test_a_bad_byte_in_a_large_file_is_found_at_its_line(tmp_path, large_files):
    lines = [b"%d,plain" % number for number in range(400_000)]
    lines[390_000] = b"1,caf\xe9"
    (tmp_path / "rows.csv").write_bytes(b"\n".join([b"x,text", *lines]) + b"\n")
    with pytest.raises(FileProblem, match="line 390002: byte 0xe9 is not UTF-8"):
        sources.open_source(tmp_path / "rows.csv", helpers=Elsewhere())


def test_a_large_file_of_json_lines_is_looked_through_in_spans(tmp_path, large_files):
    text = "".join(f'{{"x": {number}, "label": "c{number % 3}"}}\n' for number in range(150_000))
    (tmp_path / "rows.jsonl").write_text(text)
    alone = sources.table(tmp_path / "rows.jsonl")
    elsewhere = Elsewhere()
    together = sources.open_source(tmp_path / "rows.jsonl", helpers=elsewhere)
    assert elsewhere.done > 2
    assert together.schema() == alone.schema()
    assert together.parts == alone.parts


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_simple_rows_are_looked_through_here_and_the_rest_by_helpers_of_this_machine(tmp_path, large_files, suffix):
    form = '{{"x": {}, "label": "{}"}}' if suffix == "jsonl" else "{},{}"
    rows = [form.format(number, f"c{number % 3}") for number in range(250_000)]
    head = ["x,label"] if suffix == "csv" else []
    simple, mixed = tmp_path / f"simple.{suffix}", tmp_path / f"mixed.{suffix}"
    simple.write_text("\n".join([*head, *rows]))
    rows[200_000] = form.format("true", "c9")  # which is no number
    mixed.write_text("\n".join([*head, *rows]))
    for path, is_simple in ((simple, True), (mixed, False)):
        # Helpers of other machines look at each block by itself.
        alone = sources.open_source(path, helpers=Elsewhere())
        elsewhere = Elsewhere()
        together = sources.open_source(path, helpers=Nearby(elsewhere))
        assert (elsewhere.done == 0) is is_simple
        assert together.schema() == alone.schema()
        assert together.schema().features["x"].dtype == ("int64" if is_simple else "str")
        assert together.parts == alone.parts
        assert together.knows(["label"]) == alone.knows(["label"])
        assert together.list(0, ["label"]).columns["label"] == alone.list(0, ["label"]).columns["label"]


def test_spans_are_cut_into_the_same_blocks_by_the_core(tmp_path, large_files, monkeypatch):
    monkeypatch.setattr("bushel.sources.text_files.BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("bushel.sources.tables.table_files._LEAST_BYTES", 1 << 12)
    words = [f'{{"t": "{"x" * (number * 37 % 5000)}", "n": {number % 7}}}' for number in range(400)]
    for end in ("", "\n", "\n\n  \n"):  # the last line may lack its end
        (tmp_path / "rows.jsonl").write_text("\n".join(words) + end)
        elsewhere = Elsewhere()
        together = sources.open_source(tmp_path / "rows.jsonl", helpers=Nearby(elsewhere))
        assert elsewhere.done == 0
        with monkeypatch.context() as patched:
            patched.setattr("bushel.sources.tables.json_lines.survey_span", lambda *_: None)
            alone = sources.table(tmp_path / "rows.jsonl")
        assert together.parts == alone.parts
        assert len(alone.parts) > 10
        for number, (_, part) in enumerate(alone.parts):
            assert len(together.list(number, ["n"]).columns["n"]) == part.rows
