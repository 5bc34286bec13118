import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from support import example, flip, frame, write_records

import bushel
from bushel import _native
from bushel.errors import BushelError, CorruptRecord, FileProblem, FormatError, MissingName
from bushel.records.index import StaleIndex, build_index, cached_index_path, index_path, load_keys, to_text

RECORDS = [
    example({"label": [i % 3], "weight": [i / 2], "key": [b"k%d" % i], "number": [i], "list": [1] * i})
    for i in range(5)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_records(tmp_path / "a.tfrecord", RECORDS)


def write_all(path: Path) -> Path:
    (place,) = bushel.write_index(path, label="label", key="key", values=["weight"], lengths=["list"])
    return place


def test_an_index_says_where_every_record_is(path: Path) -> None:
    bushel.write_index(path)
    index = bushel.load_index(path)
    data = path.read_bytes()
    assert len(index) == 5
    for offset, length, record in zip(index.offsets, index.lengths, RECORDS, strict=True):
        assert data[int(offset) + 12 : int(offset) + 12 + int(length)] == record
    columns, faults, _ = _native.decode(data, index.extents, [("number", False, 0)])
    assert (columns[0]["numbers"].tolist(), faults) == ([0, 1, 2, 3, 4], [])


def test_an_index_carries_label_key_values_and_lengths(path: Path) -> None:
    assert write_all(path) == index_path(path) == path.parent / "_index" / "a.tfrecord.idx"
    index = bushel.load_index(path)
    assert index.values["label"].tolist() == [0, 1, 2, 0, 1]
    assert index.values["weight"].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert index.values["length/list"].tolist() == [0, 1, 2, 3, 4]
    assert index.values["key"].tolist() == [_native.xxh64(b"k%d" % i) for i in range(5)]
    assert index.hashed == {"key"}


def test_an_integer_key_is_hashed_by_its_digits(path: Path) -> None:
    assert build_index(path, key="number").values["key"].tolist() == [_native.xxh64(b"%d" % i) for i in range(5)]
    with pytest.raises(BushelError, match="weight: a key must be one text or integer per record"):
        build_index(path, key="weight")


def test_an_index_is_mapped_and_aligned(path: Path) -> None:
    data = write_all(path).read_bytes()
    assert data[:8] == b"BUSHELIX"
    assert len(data) % 64 == 4  # the checksum of all before it
    index = bushel.load_index(path)
    assert isinstance(index.offsets.base, np.memmap | np.ndarray)
    assert all(array.ctypes.data % 64 == 0 for array in (index.offsets, index.lengths, *index.values.values()))


def test_offsets_of_a_compressed_file_count_in_what_it_inflates_to(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"".join(map(frame, RECORDS))))
    bushel.write_index(path)
    index = bushel.load_index(path)
    assert index.compression == "gzip"
    assert index.offsets.tolist() == [sum(len(r) + 16 for r in RECORDS[:i]) for i in range(5)]


def test_a_file_without_index_has_none(path: Path) -> None:
    assert bushel.load_index(path) is None


def test_an_index_of_a_changed_file_is_stale_and_says_what_to_do(path: Path) -> None:
    write_all(path)
    write_records(path, RECORDS[:4])
    with pytest.raises(StaleIndex) as caught:
        bushel.load_index(path)
    assert str(caught.value).splitlines() == [
        f"{path}: has changed since it was indexed",
        f"  Index it again: bushel index {path}",
    ]


def test_an_index_of_a_copy_with_another_time_still_holds(path: Path) -> None:
    write_all(path)
    os.utime(path, (1, 1))
    assert len(bushel.load_index(path)) == 5
    flip(path, 3)
    with pytest.raises(StaleIndex):
        bushel.load_index(path)


def test_a_damaged_record_is_an_error_that_says_where(path: Path) -> None:
    flip(path, 16 + len(RECORDS[0]) + 12)
    with pytest.raises(CorruptRecord, match=f"record 1 at byte {16 + len(RECORDS[0])}: checksum of the data"):
        build_index(path)


def test_a_feature_that_is_not_there_or_not_scalar_is_named(path: Path) -> None:
    with pytest.raises(MissingName, match="no feature 'lable'; did you mean 'label'"):
        build_index(path, label="lable")
    with pytest.raises(FileProblem, match="feature 'list' does not hold one value in each record"):
        build_index(path, values=["list"])


def test_every_cut_of_an_index_is_refused_and_none_crashes(path: Path) -> None:
    place = write_all(path)
    whole = place.read_bytes()
    last = max(i for i, byte in enumerate(whole) if byte)  # behind it there is only padding
    for size in range(0, last, 7):
        place.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            bushel.load_index(path)


def test_a_flip_anywhere_in_an_index_is_noticed(path: Path) -> None:
    place = write_all(path)
    whole = bytearray(place.read_bytes())
    for at in range(len(whole)):
        whole[at] ^= 1 << at % 8
        place.write_bytes(whole)
        whole[at] ^= 1 << at % 8
        with pytest.raises(FormatError):
            bushel.load_index(path)


def test_a_damaged_index_is_made_again_and_costs_no_record(path: Path) -> None:
    place = write_all(path)
    flip(place, len(place.read_bytes()) - 80)
    split = bushel.open(path)["all"]
    assert [sample["label"] for sample in (split[n] for n in range(5))] == [0, 1, 2, 0, 1]
    assert len(bushel.load_index(path)) == 5


def test_a_file_that_was_relabelled_in_place_does_not_keep_its_index(path: Path) -> None:
    write_all(path)
    data = path.read_bytes()
    offset = 16 + len(RECORDS[0])
    changed = frame(example({"label": [2], "weight": [0.5], "key": [b"k1"], "number": [1], "list": [1]}))
    path.write_bytes(data[:offset] + changed + data[offset + len(changed) :])
    assert (path.stat().st_size, path.read_bytes()[:64], path.read_bytes()[-64:]) == (len(data), data[:64], data[-64:])
    with pytest.raises(StaleIndex):
        bushel.load_index(path)


def test_a_type_that_the_format_does_not_have_is_refused(path: Path) -> None:
    place = write_all(path)
    data = place.read_bytes().replace(b'"<i8"', b'"<i2"', 1)[:-4]
    place.write_bytes(data + _native.crc32c(data).to_bytes(4, "little"))
    with pytest.raises(FormatError, match="is of type '<i2', which it cannot be"):
        bushel.load_index(path)


def test_indexing_again_adds_columns_and_loses_none(path: Path) -> None:
    bushel.write_index(path, key="label")
    bushel.write_index(path, label="label")
    assert sorted(bushel.load_index(path).values) == ["key", "label"]


def test_another_format_is_refused(path: Path) -> None:
    place = write_all(path)
    flip(place, 8, 0x06)
    with pytest.raises(FormatError, match="index of format 4; this bushel reads formats up to 3"):
        bushel.load_index(path)


def test_where_nothing_can_be_written_beside_it_the_index_goes_to_the_cache(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = Path.mkdir

    def refuse(self: Path, *arguments: object, **options: object) -> None:
        if self.name == "_index":
            raise PermissionError(13, "Permission denied", str(self))
        real(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert write_all(path) == cached_index_path(path)
    assert len(bushel.load_index(path)) == 5


def test_the_text_form_is_that_of_dali(path: Path) -> None:
    lines = to_text(build_index(path)).splitlines()
    assert lines[1] == f"{len(RECORDS[0]) + 16} {len(RECORDS[1]) + 16}"
    assert len(lines) == 5


def test_a_file_without_records_has_an_index_without_records(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b""))
    bushel.write_index(path)
    assert len(bushel.load_index(path)) == 0


def test_an_index_or_keys_that_lead_elsewhere_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    bushel.build([{"key": f"k{n}", "x": n} for n in range(4)], tmp_path / "data")
    (tmp_path / "secret").write_text("not an index")
    shard = next((tmp_path / "data").glob("*.tfrecord"))
    for beside in (tmp_path / "data" / "_index").iterdir():
        beside.unlink()
        beside.symlink_to(tmp_path / "secret")
    assert bushel.load_index(shard) is None
    assert load_keys(shard) is None
    assert len(bushel.open(tmp_path / "data")["train"][:]["x"]) == 4
