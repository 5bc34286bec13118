"""Tables: CSV, TSV, JSON lines, Parquet, Arrow and Feather, one sample per row; Hugging Face datasets are such."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from bushel.data.columns import BytesColumn, Column, Ragged, concatenate, need_arrow, take, with_missing
from bushel.data.dates import is_date_type
from bushel.data.samples import feature_of_column
from bushel.data.schema import Feature, Schema
from bushel.data.splits import split_of_file, splits_in_names
from bushel.errors import FileProblem, MissingName, understood
from bushel.parallel import Helpers, do_all
from bushel.records.index import sha256_of
from bushel.sources.image_checks import Allow, HowVerified, ImageCheck, ImageColumn, KeepBytes, allowed
from bushel.sources.in_memory import number_keys, typed
from bushel.sources.protocol import (
    Block,
    Listing,
    Reads,
    Refused,
    Source,
    as_given,
    check_values,
    fingerprint_of,
    recipe_table,
)
from bushel.sources.tables import arrow
from bushel.sources.tables.arrow import cast_array
from bushel.sources.tables.date_columns import to_dates
from bushel.sources.tables.delimited import DelimitedFile
from bushel.sources.tables.dialect import TO_BE_FOUND, Layout
from bushel.sources.tables.json_lines import JsonLinesFile
from bushel.sources.tables.readings import (
    ColumnWitness,
    MissingValues,
    Reading,
    check_date_type,
    is_text,
    mixed_note,
    nested_note,
)
from bushel.sources.tables.table_files import (
    BINARY_FILES,
    ArrowBlock,
    Field,
    Part,
    Survey,
    TableFile,
    as_text,
    common_type,
    joined,
    named,
    present_rows,
)
from bushel.sources.text_files import LARGE_FILE
from bushel.storage import (
    AnyPath,
    as_path,
    list_files,
    local_copy,
    natural_order,
    open_to_read,
    read_named,
    why_not_inside,
)
from bushel.storage.downloads import Downloads
from bushel.storage.file_kinds import kind_of_bytes, kind_of_name, suffixes_of, what_is

__all__ = ["TableSource", "huggingface", "table"]


# How files of text are opened, with options of the source; for others, `BINARY_FILES` needs the path alone.
_OPENERS: dict[str, Callable[[Path, TableSource], TableFile]] = {
    "csv": lambda path, source: source.delimited(path),
    "tsv": lambda path, source: source.delimited(path, "\t"),
    "jsonl": lambda path, source: JsonLinesFile(path, source.encoding, source.text_columns),
}
if TYPE_CHECKING:
    Format: TypeAlias = str
else:
    Format = Literal[(*_OPENERS, *BINARY_FILES)]
Decimal: TypeAlias = Literal[".", ","]
_UNTYPED = ("csv", "tsv", "excel")  # formats in which a list can only be text
_MANY_FILES = 16  # files that helpers share whole, even if each is large
_ARROW_STREAM = b"\xff\xff\xff\xff"
_TEXTS = ("plain text", "JSON text")
_LOOKED_AT = 100  # rows of a column of bytes


def table(
    paths: AnyPath | Iterable[AnyPath],
    *,
    columns: Annotated[Sequence[str] | None, "Columns to keep (default: all)"] = None,
    rename: Annotated[Mapping[str, str] | None, "New names of columns, by their old names"] = None,
    types: Annotated[Mapping[str, str] | None, 'Types of columns, such as zip = "str"'] = None,
    key: Annotated[str | None, "Column that identifies a sample (default: the row number)"] = None,
    format: Annotated[Format | None, "Format of the files (default: found from their bytes and names)"] = None,
    encoding: Annotated[str | None, "Text encoding (default: UTF-8, or as the byte order mark says)"] = None,
    delimiter: Annotated[str | None, "Character between values; a blank is any number of them (default: found)"] = None,
    header: Annotated[bool | None, "Whether the first row holds the names of columns (default: found)"] = None,
    names: Annotated[Sequence[str] | None, "Names of the columns, if no row holds them"] = None,
    decimal: Annotated[Decimal | None, "Character before decimals (default: found)"] = None,
    missing_values: MissingValues = None,
    image_column: Annotated[str | None, "Column of images, or of paths to images"] = None,
    image_root: Annotated[AnyPath | None, "Folder that image paths are relative to (default: the table's)"] = None,
    verify: HowVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
    downloads: Annotated[AnyPath | None, "Folder to keep downloaded images in (default: they are not kept)"] = None,
    private: Annotated[bool, "Download from private addresses and this machine too"] = False,
    helpers: Helpers = None,
) -> TableSource:
    """Take a sample from each row of one table, in one file or several.

    Types are inferred from whole files; a blank or null is a missing value and changes no type. `columns` chooses,
    `rename` maps old names to new, `types` sets types (`{"zip": "str", "age": "float32"}`), all by the names in the
    file. `key` names a column of unique keys; without it rows are numbered. Compressed text is read as it is.
    `missing_values` are texts and numbers that mean missing, in every column.

    `image_column` names a column of images, of paths to them below `image_root` (the table's folder, if not given), or
    of http(s):// addresses; they are loaded, and checked as `images` does. `downloads` is a folder that keeps what was
    downloaded, so that a build that is stopped and continued downloads nothing twice.
    """
    arguments = locals()
    need_arrow("reading tables")
    check_values(table, arguments)
    given = as_given(paths)
    files = tuple(str(path) for path in list_files(given))
    format = format or _one_format([as_path(file) for file in files])
    source = TableSource(
        files=files,
        format=format,
        recipe={},
        columns=None if columns is None else tuple(columns),
        rename=dict(rename or {}),
        types=dict(types or {}),
        key=key,
        encoding=encoding,
        layout=Layout(delimiter, header, None if names is None else tuple(names)),
        decimal=decimal,
        missing_values=None if missing_values is None else tuple(missing_values),
    )
    source.look(helpers)
    image_column = image_column or _image_struct(source.all_fields)
    image = None
    resolved: dict[str, Any] = {"format": format, "verify": None, "keep_bytes": None, "allow": None}
    if image_column is not None:
        root = str(image_root or as_path(files[0]).parent)
        fetch = Downloads(private=private, folder=None if downloads is None else str(downloads))
        image = ImageColumn(image_column, root, ImageCheck(verify, keep_bytes, allowed(allow)), fetch)
        resolved |= {"image_column": image_column, "image_root": root, "verify": verify}
        resolved |= {"keep_bytes": keep_bytes, "allow": image.check.allow}
    recipe = recipe_table(table, given, arguments | resolved, first=("format",), always=("verify",))
    known = {"surveys": source.surveys, "readings": source.readings}
    splits = () if source.split else splits_in_names(files)
    source = replace(source, image=image, recipe=recipe, splits=splits)
    source.__dict__.update(known)
    source.check()
    return source


def _image_struct(fields: Mapping[str, Field]) -> str | None:
    """The first column of images as Hugging Face writes them to Parquet: a struct of bytes and a path."""
    found = (name.removesuffix("/bytes") for name in fields if name.endswith("/bytes"))
    return next((name for name in found if f"{name}/path" in fields), None)


def _one_format(files: list[Path]) -> Format:
    formats = {format_of(file) for file in files}
    if len(formats) > 1:
        raise FileProblem(files[0], f"files of one table must be of one format, got {', '.join(sorted(formats))}")
    return formats.pop()


def format_of(path: Path) -> Format:
    """Find the format of a table by its first bytes, then by its name."""
    with open_to_read(path) as file:
        head = file.read(512)
    if head[:4] == _ARROW_STREAM:
        return "arrow"
    by_bytes, by_name = kind_of_bytes(head), kind_of_name(path.name)
    if by_bytes is not None and by_bytes.source == "table":
        return by_bytes.name
    if by_name is not None and by_name.source == "table" and not by_name.magic:  # text may begin with anything
        return by_name.name
    what = what_is(head) or "something unknown"
    if what in _TEXTS:
        return "jsonl" if what == "JSON text" else "csv"
    known = ", ".join(suffixes_of("table"))
    raise FileProblem(path, f"is not a table that bushel reads: it is {what}", help=[f"Tables end in {known}"])


@dataclass(frozen=True)
class TableSource(Source):
    """Samples from the rows of a table; reads in sequence, a part of a file at a time."""

    files: tuple[str, ...]
    format: Format
    recipe: dict[str, Any]
    columns: tuple[str, ...] | None = None
    rename: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    encoding: str | None = None
    layout: Layout = TO_BE_FOUND
    decimal: str | None = None
    missing_values: tuple[str, ...] | None = None  # None: the usual marks, where that makes numbers of a column
    image: ImageColumn | None = None
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # names of codes, by column
    splits: tuple[str, ...] = ()  # split of each file, if files have splits
    printed: str | None = None  # changes when the source does, if its files do not
    reads: Reads = "sequence"
    any_thread: ClassVar[bool] = True

    @property
    def split(self) -> str | None:
        """`split`, if there is such a column, or if files have splits."""
        if self.splits:
            return "split"
        return "split" if "split" in (self.rename.get(name, name) for name in self.all_fields) else None

    @property
    def numbers_rows(self) -> bool:
        """Whether keys are row numbers, which cannot be the same."""
        return self.key is None and len(set(self.files)) == len(self.files)

    def _open(self, file: int) -> TableFile:
        path = as_path(self.files[file])
        return BINARY_FILES[self.format](path) if self.format in BINARY_FILES else _OPENERS[self.format](path, self)

    def delimited(self, path: Path, delimiter: str | None = None) -> DelimitedFile:
        """A file of delimited text, opened with the options."""
        layout = self.layout._replace(delimiter=self.layout.delimiter or delimiter)
        return DelimitedFile(path, self.encoding, layout, self.decimal, self.text_columns)

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns to keep as text, whatever they look like."""
        return frozenset(name for name, dtype in self.types.items() if dtype in ("str", "bytes"))

    @cached_property
    def surveys(self) -> tuple[Survey, ...]:
        """Each file, scanned once."""
        return tuple(map(_survey, map(self._open, range(len(self.files)))))

    def look(self, helpers: Helpers) -> None:
        """Scan the files now, together with helpers."""
        files = [self._open(file) for file in range(len(self.files))]
        if len(files) < _MANY_FILES and all(as_path(file).stat().st_size >= LARGE_FILE for file in self.files):
            self.__dict__["surveys"] = tuple(file.survey(helpers) for file in files)
        else:
            self.__dict__["surveys"] = tuple(do_all(helpers, _survey, files))

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """What columns are read as that hold marks for missing values, as all of their rows show it."""
        names = list(dict.fromkeys(name for survey in self.surveys for name in survey.fields if name != self.key))
        witnesses = self._witnesses(names, first_rows=True)  # where most columns show that they are just text
        witnesses = self._witnesses([name for name, one in witnesses.items() if not one.is_settled], first_rows=False)
        readings = {name: one.reading() for name, one in witnesses.items()} | self._nested()
        return {name: reading for name, reading in readings.items() if reading != Reading()}

    def _nested(self) -> dict[str, Reading]:
        """Columns that no feature can hold as they are."""
        found: dict[str, Reading] = {}
        for survey in self.surveys:
            for name, kind in survey.fields.items():
                if not arrow.is_storable(kind.type):
                    found[name] = Reading("JSON text", rows=sum(part.rows for part in survey.parts))
        return found

    def _witnesses(self, names: Sequence[str], *, first_rows: bool) -> dict[str, ColumnWitness]:
        """What columns that may hold marks can be."""
        found: dict[str, ColumnWitness] = {}
        for file, survey in enumerate(self.surveys):
            own = [name for name in names if name in survey.fields and self._may_hold_marks(name, survey)]
            for name in own:
                made = ColumnWitness(self.missing_values, self.types.get(name), self.format in _UNTYPED)
                found.setdefault(name, made)
                for few in (few for blocks in survey.captured.get(name, ()) for few in blocks):
                    found[name].add(few.to_arrow())
            own = [name for name in own if name not in survey.captured]
            for part in survey.parts[: 1 if first_rows else None] if own else ():
                for arrows in islice(self._open(file).read(survey, part, own), 1 if first_rows else None):
                    for name in own:
                        found[name].add(arrows.arrays[name])
        return found

    def _may_hold_marks(self, name: str, survey: Survey) -> bool:
        import pyarrow.types as t

        kind = survey.fields[name].type
        if self.missing_values is not None:
            return is_text(kind) or t.is_integer(kind) or t.is_floating(kind)
        return is_text(kind) and self.types.get(name) not in ("str", "bytes")

    @cached_property
    def all_fields(self) -> dict[str, Field]:
        """All columns by their names in the files, with types that fit all files."""
        found: dict[str, Field] = {}
        for number, survey in enumerate(self.surveys):
            for name, kind in self._fields_as_read(survey).items():
                seen = found.get(name)
                if seen is None:
                    found[name] = kind._replace(has_missing=kind.has_missing or number > 0)
                else:
                    found[name] = Field(
                        common_type(seen.type, kind.type, f"{self.files[number]}: {name}"),
                        seen.has_missing or kind.has_missing,
                    )
            for name in set(found) - set(survey.fields):
                found[name] = found[name]._replace(has_missing=True)
        return found

    def _fields_as_read(self, survey: Survey) -> dict[str, Field]:
        import pyarrow as pa

        found = dict(survey.fields)
        if self.key in found and arrow.is_date(found[self.key].type):
            found[self.key] = found[self.key]._replace(type=pa.string())
        for name, one in self.readings.items():
            if name in found:
                kind = found[name]
                found[name] = Field(one.type_of(kind.type), kind.has_missing or one.marked > 0)
        return found

    @property
    def fields(self) -> dict[str, Field]:
        """The chosen columns."""
        found = self.all_fields
        if self.columns is None:
            indexes = {survey.details.get("index") for survey in self.surveys}
            named = {*self.rename, *self.types}
            return {name: kind for name, kind in found.items() if name not in indexes or name in named}
        images = self.image.made_of(found) if self.image else []
        return {name: found[name] for name in found if name in (*self.columns, *images)}

    @cached_property
    def features(self) -> dict[str, Feature]:
        """The features, by their names in the file."""
        found = {
            name: arrow.feature_of(kind.type, name=name, required=not kind.has_missing)
            for name, kind in self.fields.items()
        }
        found |= {name: Feature(dtype="str", shape=found[name].shape, required=False) for name in self.names}
        for name, feature in found.items():
            if feature.dtype == "bytes" and name not in self.types and self._holds_images(name):
                found[name] = msgspec.structs.replace(feature, encoding="image")
        return typed(found, {name: dtype for name, dtype in self.types.items() if name in found})

    def _holds_images(self, name: str) -> bool:
        """Whether the first values of a column of bytes are all encoded images."""
        file, part = next((file, part) for file, part in self.parts if part.rows)
        block = next(iter(self._arrow_blocks(file, part, [name])))
        column = arrow.to_column(block.arrays[name].slice(0, _LOOKED_AT), {})
        return feature_of_column(column, name=name).encoding == "image"

    def check(self) -> None:
        """Raise an error if names or types are wrong, before anything is built."""
        if not any(part.rows for _, part in self.parts):
            raise FileProblem(self.files[0], "there are no rows in it")
        for name in (*(self.columns or ()), *self.rename, *self.types, *([self.key] if self.key is not None else [])):
            if name not in self.all_fields and not (self.image and name == self.image.name):
                raise MissingName("column", name, self.all_fields, where=self.files[0])
        if self.image and not self.image.made_of(self.all_fields):
            raise MissingName("column", self.image.name, self.all_fields, where=self.files[0])
        for name, dtype in self.types.items():
            if name in self.all_fields and is_date_type(dtype):
                check_date_type(name, dtype, self.all_fields[name].type, self.readings.get(name, Reading()))
        renamed = [self.rename.get(name, name) for name in self.features]
        if len(set(renamed)) < len(renamed):
            twice = next(name for name in renamed if renamed.count(name) > 1)
            raise ValueError(f"rename must not give two columns the name {twice!r}")

    @cached_property
    def parts(self) -> list[tuple[int, Part]]:
        """File and part of each partition."""
        return [(file, part) for file, survey in enumerate(self.surveys) for part in survey.parts]

    def partitions(self) -> int:
        """Parts of up to about 64 MB: row groups, batches, or ranges of bytes."""
        return len(self.parts)

    def schema(self) -> Schema:
        """Names and types of the chosen columns."""
        features = self.image.replace_features(self.features) if self.image else self.features
        return Schema(features={self._new_name(name): feature for name, feature in features.items()})

    def _new_name(self, name: str) -> str:
        """The name of a column in records; what is derived from an image follows the image's name."""
        image = self.image.name if self.image else None
        if image in self.rename and name.startswith(f"{image}/"):
            return self.rename[image] + name.removeprefix(image)
        return self.rename.get(name, name)

    def list(self, partition: int, columns: Sequence[str]) -> Listing:
        """Keys, and the requested columns by their new names; others are not converted."""
        file, part = self.parts[partition]
        old_names = {self.rename.get(name, name): name for name in self.all_fields}
        wanted = [old_names[name] for name in columns if name in old_names]
        splits: dict[str, Column] = {}
        if self.splits and "split" in columns:
            splits = {"split": BytesColumn.of([self.splits[file]]).take(np.zeros(part.rows, np.int64))}
        counted = self._counted(file) if part is self.surveys[file].parts[0] else {}
        if not wanted and self.key is None:
            return Listing(self._number_keys(file, part), splits, counted=counted)
        names = list_of(wanted, self.key)
        found = self._captured(file, part, names)
        if found is None:
            blocks = [self._whole_rows(arrows) for arrows in self._arrow_blocks(file, part, names)]
            found = {name: concatenate([columns[name] for columns in blocks]) for name in names}
        listed = {self.rename.get(name, name): found[name] for name in wanted}
        keys = self._number_keys(file, part) if self.key is None else self._keys(found[self.key], file, part)
        return Listing(keys, splits | listed, counted=counted)

    def _counted(self, file: int) -> dict[str, int]:
        survey = self.surveys[file]
        signs = {
            f"values of {name!r} with signs of money or percent, as text (numbers: --type {quote(name)}=float32)": count
            for name, count in survey.details.get("signs", {}).items()
            if count and name in self.fields and name not in self.types
        }
        mixed = {
            mixed_note(name, count): count
            for name, count in survey.details.get("mixed", {}).items()
            if count and name in self.fields and name not in self.types and not self._is_read(name)
        }
        nested = survey.details.get("nested", {})
        mixed |= {nested_note(name, count): count for name, count in nested.items() if count and name in self.fields}
        said = [one.notes(name) for name, one in self.readings.items() if file == 0 and name in self.fields]
        return survey.counted | signs | mixed | {note: count for notes in said for note, count in notes.items()}

    def _is_read(self, name: str) -> bool:
        """Whether a column is read as something else than it is."""
        return name in self.readings and self.readings[name].kind != "as it is"

    def knows(self, columns: Sequence[str]) -> bool:
        """Whether listing these columns reads nothing, because they were kept when the files were scanned."""
        old_names = {self.rename.get(name, name): name for name in self.all_fields}
        names = list_of([old_names[name] for name in columns if name in old_names], self.key)
        return all(self._is_captured(name, survey) for survey in self.surveys for name in names)

    def _is_captured(self, name: str, survey: Survey) -> bool:
        """Whether a column was kept, and is not to be cast."""
        import pyarrow as pa

        if name not in survey.captured or name in self.names or name in self.readings:
            return False
        if self.all_fields[name].type != survey.fields[name].type:
            return False
        is_text = pa.types.is_string(survey.fields[name].type)
        return name not in self.types or is_text == (self.types[name] == "str")

    def _number_keys(self, file: int, part: Part) -> BytesColumn:
        prefix = f"{self._short_names[file]}:" if len(self.files) > 1 else ""
        return number_keys(part.first_row, part.rows, prefix)

    @cached_property
    def _short_names(self) -> tuple[str, ...]:
        """The names of the files, with as many folders as are needed to distinguish them."""
        paths = [as_path(file).parts for file in self.files]
        for count in range(1, max(len(parts) for parts in paths)):
            names = tuple("/".join(parts[-count:]) for parts in paths)
            if len(set(names)) == len(names):
                return names
        return self.files

    def _keys(self, column: Column, file: int, part: Part) -> BytesColumn:
        """The key column; rows without a key get their number, and are refused when read."""
        rows = self._number_keys(file, part)
        if isinstance(column, BytesColumn):
            return column
        if isinstance(column, Ragged):
            named = iter(as_text(column.values))
            return BytesColumn.of(
                [next(named) if there else rows[row] for row, there in enumerate(present_rows(column))]
            )
        return as_text(column)

    def _captured(self, file: int, part: Part, names: Sequence[str]) -> dict[str, Column] | None:
        """The columns that were kept when the file was scanned, if all of them were kept for every row."""
        survey = self.surveys[file]
        found: dict[str, Column] = {}
        for name in names:
            if not self._is_captured(name, survey):
                return None
            blocks = survey.captured[name][survey.parts.index(part)]
            if sum(len(block.codes) for block in blocks) < part.rows:
                return None
            found[name] = joined(blocks)
        return found

    def _whole_rows(self, arrows: ArrowBlock) -> dict[str, Column]:
        """Columns with a value for every row of the part; those of refused rows are missing."""
        bad: arrow.BadRows = {}
        columns = {name: self._column(name, array, bad) for name, array in arrows.arrays.items()}
        if not arrows.refused:
            return columns
        rows = np.concatenate([arrows.rows, [refused.row for refused in arrows.refused]]).astype(np.int64)
        there = np.zeros(len(rows), bool)
        there[arrows.rows - rows.min()] = True
        return {name: with_missing(column, there) for name, column in columns.items()}

    def _arrow_blocks(self, file: int, part: Part, names: Sequence[str]) -> Iterator[ArrowBlock]:
        """Arrays as in the file, cast to the requested types."""
        import pyarrow as pa

        survey = self.surveys[file]
        there = [name for name in names if name in survey.fields]
        for arrows in self._open(file).read(survey, part, there):
            arrays = dict(arrows.arrays)
            for name in names:
                if name in self.readings and name in arrays:
                    arrays[name] = self.readings[name].apply(arrays[name])
                if name not in arrays:
                    arrays[name] = pa.nulls(len(arrows.rows), self.all_fields[name].type)
                elif self.all_fields[name].type not in (arrays[name].type, pa.null()):
                    arrays[name] = arrays[name].cast(self.all_fields[name].type)
            yield ArrowBlock({name: arrays[name] for name in names}, arrows.rows, arrows.refused)

    def read(self, partition: int, rows: NDArray[np.int64] | None) -> Iterator[Block]:
        """All rows of a part, in order."""
        if rows is not None:
            raise ValueError("rows must be None: a table is read in sequence")
        file, part = self.parts[partition]
        names = list_of(self.fields, self.key)
        for arrows in self._arrow_blocks(file, part, names):
            block = self._block(arrows)
            for loaded in [block] if self.image is None else self.image.load(block, self._holds_paths()):
                columns = {self._new_name(name): column for name, column in loaded.columns.items()}
                yield Block(loaded.rows, columns, loaded.refused, loaded.counted)

    def kept_inside(self) -> TableSource:
        """The same table, which refuses images outside the folder that it names them in."""
        if self.image is None:
            return self
        kept = replace(self, image=replace(self.image, is_inside=True))
        kept.__dict__["surveys"] = self.surveys
        return kept

    def _holds_paths(self) -> bool:
        return self.image is not None and getattr(self.features.get(self.image.name), "dtype", "") == "str"

    def _block(self, arrows: ArrowBlock) -> Block:
        refused: dict[int, tuple[str, str]] = {}
        columns: dict[str, Column] = {}
        for name, array in arrows.arrays.items():
            bad: arrow.BadRows = {}
            column = self._column(name, array, bad)
            if name == self.key and isinstance(column, Ragged):
                bad |= dict.fromkeys(np.flatnonzero(~present_rows(column)).tolist(), "the key is missing")
            refused = {row: ("schema", f"{name}: {reason}") for row, reason in bad.items()} | refused
            if name in self.features:
                columns[name] = column
        numbers = arrows.rows
        left = [Refused(int(numbers[row]), *why) for row, why in refused.items()]
        if refused:
            kept = np.setdiff1d(np.arange(len(numbers)), list(refused))
            columns = {name: take(column, kept) for name, column in columns.items()}
            numbers = numbers[kept]
        return Block(numbers, columns, sorted([*arrows.refused, *left]))

    def _column(self, name: str, array: Any, bad: arrow.BadRows) -> Column:
        dtype = self.types.get(name)
        if dtype is not None and is_date_type(dtype):
            array = to_dates(array, dtype if ":" in dtype else f"date:{self.readings[name].notation}", bad)
        elif dtype is not None:
            array = cast_array(array, dtype, bad)
        column = arrow.to_column(array, bad)
        return named(column, self.names[name]) if name in self.names else column

    def locate(self, partition: int, row: int) -> str:
        """File and number of the row in it, counted from 0, without the header."""
        file, part = self.parts[partition]
        return f"{self.files[file]}: row {part.first_row + row}"

    def fingerprint(self) -> str:
        """Names, sizes and times of the files, and the options."""
        return fingerprint_of(self.files if self.printed is None else [], self.describe(), self.printed or "")

    def describe(self) -> dict[str, Any]:
        """The paths and options."""
        return dict(self.recipe)

    def __getstate__(self) -> dict[str, Any]:
        # What was kept for listing stays in this process.
        surveys = tuple(replace(survey, captured={}) for survey in self.surveys)
        return self.__dict__ | {"surveys": surveys}


def _survey(file: TableFile) -> Survey:
    return file.survey()


def list_of(names: Iterable[str], key: str | None) -> list[str]:
    """The names, and that of the key if it is not among them."""
    return list(dict.fromkeys([*names, *([key] if key else [])]))


def huggingface(
    path: AnyPath,
    *,
    columns: Annotated[Sequence[str] | None, "Columns to keep (default: all)"] = None,
    key: Annotated[str | None, "Column that identifies a sample (default: the row number)"] = None,
    verify: HowVerified = "decode",
    keep_bytes: KeepBytes = False,
    allow: Allow = (),
) -> TableSource:
    """Take samples from a dataset that `datasets` saved to disk, or from the Parquet files of one.

    Splits are kept, class labels become their names, and images are loaded and checked as `images` does.
    """
    arguments = locals()
    need_arrow("reading datasets of Hugging Face")
    check_values(huggingface, arguments)
    folder = as_path(path)
    files, splits = _files_of(folder)
    format: Format = "arrow" if files[0].suffix == ".arrow" else "parquet"
    stated = _features_of(files[0], format)
    names = {name: tuple(feature["names"]) for name, feature in stated.items() if feature.get("_type") == "ClassLabel"}
    images = [name for name, feature in stated.items() if feature.get("_type") == "Image"]
    sounds = [name for name, feature in stated.items() if feature.get("_type") == "Audio"]
    check = ImageCheck(verify, keep_bytes, allowed(allow))
    chosen = None if columns is None else set(columns)
    source = TableSource(
        files=tuple(str(file) for file in files),
        format=format,
        recipe=recipe_table(huggingface, str(path), arguments | {"allow": check.allow}, always=("verify",)),
        columns=None if columns is None else tuple(columns),
        key=key,
        rename={f"{name}/bytes": name for name in sounds if chosen is None},
        names={name: found for name, found in names.items() if chosen is None or name in chosen},
        image=ImageColumn(images[0], str(folder), check, is_inside=True)
        if images and (not chosen or images[0] in chosen)
        else None,
        splits=tuple(splits) if any(splits) else (),
    )
    source.check()
    return source


def from_datasets(data: Any) -> TableSource:
    """Take samples from a Hugging Face `Dataset` or `DatasetDict`, written to a temporary folder and read from there.

    Memory is bounded, since `datasets` writes what it maps; splits, names of classes and images are as `huggingface`
    has them.
    """
    folder = tempfile.mkdtemp(prefix="bushel-datasets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data.save_to_disk(folder)
    parts = data.values() if isinstance(data, Mapping) else [data]
    prints = [str(getattr(part, "_fingerprint", "")) for part in parts]
    source = huggingface(folder)
    if source.image is not None:  # the paths are those of the running program
        source = replace(source, image=replace(source.image, is_inside=False))
    return replace(source, recipe={"kind": "huggingface", "fingerprints": prints}, printed="\n".join(prints))


def from_stream(data: Any) -> TableSource:
    """Take samples from a stream of Arrow, written to a temporary file, so that memory is bounded."""
    pa = need_arrow("reading a stream of Arrow")
    folder = tempfile.mkdtemp(prefix="bushel-stream-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "stream.arrow")
    reader = pa.RecordBatchReader.from_stream(data)
    # A file of Arrow has one dictionary for all batches, and a stream may have several.
    plain = pa.schema([field.with_type(_without_codes(field.type)) for field in reader.schema])
    with pa.ipc.new_file(str(path), plain) as writer:
        for batch in reader:
            writer.write_batch(batch.cast(plain))
    return replace(table(path), recipe={"kind": "table", "name": type(data).__name__}, printed=sha256_of(path))


def _without_codes(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_dataset_folder(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (folder / "dataset_dict.json").exists() or (folder / "state.json").exists()


def _files_of(folder: Path) -> tuple[list[Path], list[str]]:
    """Data files, and the split of each; empty if it has none."""
    if (folder / "dataset_dict.json").exists():
        with understood(folder / "dataset_dict.json", "is not what `save_to_disk` writes"):
            names = [str(name) for name in json.loads(read_named(folder / "dataset_dict.json").decode())["splits"]]
        if outside := [name for name in names if name in ("", "..") or "/" in name or why_not_inside(folder, name)]:
            raise FileProblem(folder / "dataset_dict.json", f"names a split that has no folder: {outside[0]!r}")
        found = [(file, split) for split in names for file in _saved_files(folder / split)]
    elif (folder / "state.json").exists():
        found = [(file, "") for file in _saved_files(folder)]
    elif folder.is_dir():
        files = sorted((*folder.rglob("*.parquet"), *folder.rglob("*.arrow")), key=natural_order)
        found = [(file, split_of_file(file) or "") for file in files]
    else:
        raise FileProblem(folder, "there is no such folder" if not folder.exists() else "is a file, not a folder")
    if not found:
        raise FileProblem(folder, "there is no Hugging Face dataset in this folder")
    return [file for file, _ in found], [split for _, split in found]


def _saved_files(folder: Path) -> list[Path]:
    state = folder / "state.json"
    if not state.exists():
        raise FileProblem(state, "there is no such file", help=["Was the dataset saved whole?"])
    with understood(state, "is not what `save_to_disk` writes"):
        names = [str(data["filename"]) for data in json.loads(read_named(state).decode())["_data_files"]]
    if outside := [name for name in names if why_not_inside(folder, name)]:
        raise FileProblem(state, f"names a file outside its folder: {outside[0]!r}")
    return [folder / name for name in names]


def _features_of(file: Path, format: Format) -> dict[str, dict[str, Any]]:
    """The features that `datasets` wrote into the schema of the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.exists():
        raise FileProblem(file, "there is no such file", help=["Was the dataset saved whole?"])
    try:
        if format == "parquet":
            schema = pq.read_schema(local_copy(file))
        else:
            with pa.memory_map(str(local_copy(file))) as source:
                schema = pa.ipc.open_stream(source).schema
    except pa.ArrowException as error:
        raise FileProblem(file, f"cannot be read as {format}: {error}") from None
    metadata = (schema.metadata or {}).get(b"huggingface")
    if metadata is None:
        return {}
    features = json.loads(metadata).get("info", {}).get("features") or {}
    return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
