"""A table that lies in many files: a folder of them, a pattern of names, a list."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from h2gcn.exceptions import InputError
from h2gcn.io.files import cannot_read, usable_path
from h2gcn.io.mistakes import excerpt, listed
from h2gcn.io.tables.columns import (
    TABLE_SUFFIXES,
    InputTable,
    Origin,
    TableFile,
    open_table,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BoundedFile", "PartedTable", "open_parts", "part_files"]

_PATTERN = re.compile(r"[*?\[]")
_OF = re.compile(r"^(.*?)(\d+)(-of-)(\d+)(.*)$")
"""Names that say how many parts there are, such as part-00001-of-00008.parquet."""


class BoundedFile(TableFile):
    """A file of which some columns fit into memory, though all of it does not.

    Arrow finds the types of a text file's columns, and keeps the whole file in memory
    for it. Here columns are read as text, and their types found one by one, in the same
    way, by Arrow.
    """

    def _read_csv(self, wanted: list[str], text: list[str]) -> pa.Table:
        import pyarrow as pa

        batches = list(self._stream_csv(wanted, 0))
        if not batches:  # a header alone
            return super()._read_csv(wanted, text)
        table = pa.Table.from_batches(batches).select(wanted)
        del batches
        columns = [
            table[name] if name in text else _with_type(table[name]) for name in wanted
        ]
        return pa.table(columns, names=wanted)


def _with_type(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return cells of text in the type that a text file with them would have."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    sink = pa.BufferOutputStream()
    # Else a line without a cell would be none.
    style = pacsv.WriteOptions(include_header=False, quoting_style="all_valid")
    pacsv.write_csv(pa.table({"cells": column}), sink, style)
    found = pacsv.read_csv(
        pa.BufferReader(sink.getvalue()),
        pacsv.ReadOptions(column_names=["cells"], block_size=1 << 23),
        pacsv.ParseOptions(newlines_in_values=True),
    )
    assert found.num_rows == len(column)
    return found["cells"]


@dataclass(frozen=True)
class PartedTable(InputTable):
    """Files of the same columns, the rows of one after those of another.

    Parameters
    ----------
    parts
        The files, in order.
    """

    parts: tuple[TableFile, ...] = field(kw_only=True)
    _sizes: list[int] = field(default_factory=list, kw_only=True, repr=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the parts, each once."""
        return tuple(dict.fromkeys(note for part in self.parts for note in part.notes))

    @property
    def n_rows(self) -> int | None:
        """How many rows it has; None of text files, where nobody knows."""
        sizes = [part.n_rows for part in self.parts]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def types(self) -> dict[str, pa.DataType]:
        """Return the type of each column, of the first part; of text files, none."""
        return self.parts[0].types()

    def load(self, wanted: list[str], text: list[str]) -> pa.Table:
        """Read columns of all parts."""
        import pyarrow as pa

        tables = []
        for part in self.parts:
            raw = dict(zip(part.columns, part.raw_columns, strict=True))
            read = [raw[name] for name in wanted]
            found = part.load(read, [raw[name] for name in text])
            tables.append(found.rename_columns(wanted))
        self._sizes[:] = [table.num_rows for table in tables]
        columns = {}
        again = []
        for name in wanted:
            cells = [table[name] for table in tables]
            alike = self._alike(name, cells)
            if alike is None:
                again.append(name)
            columns[name] = alike
        if again:  # a number here and a word there: text, as of one file
            columns |= {name: self.load([name], [name])[name] for name in again}
        return pa.table([columns[name] for name in wanted], names=wanted)

    def _alike(self, name: str, cells: list[pa.ChunkedArray]) -> pa.ChunkedArray | None:
        """Return one column of those of all parts; None where it must be text."""
        import pyarrow as pa

        kinds = {column.type for column in cells} - {pa.null()}
        kind = next(iter(kinds), pa.null())
        if len(kinds) > 1:
            words = {kind_word(one) for one in kinds}
            numbers = {"integers", "numbers"}
            if self.delimiter is None:
                numbers.add("true or false")
            if words == {"text"}:
                kind = pa.large_string()
            elif words <= numbers:
                kind = pa.float64()
            elif self.delimiter is not None:
                return None
            else:
                self.check_type(name)
                raise InputError(
                    f"column {excerpt(name)} is of different types: "
                    f"{listed(sorted(map(str, kinds)))}; write it alike in all parts.",
                    where=str(self.path),
                )
        chunks = [
            chunk for column in cells for chunk in _cast(column, kind).chunks if chunk
        ]
        return pa.chunked_array(chunks, kind)

    def check_type(self, name: str) -> None:
        """Raise where a column is text in one part and numbers in another."""
        first: tuple[str, TableFile] | None = None
        for part in self.parts:
            kind = part.types().get(name)
            if kind is None or str(kind) == "null":
                continue
            word = kind_word(kind)
            if first is None:
                first = word, part
            elif word != first[0]:
                raise InputError(
                    f"column {excerpt(name)} holds {word}, but in "
                    f"{first[1].path.name} it holds {first[0]}; write it alike in all "
                    "parts.",
                    where=str(part.path),
                )

    def batches(self, only: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield columns in order, as `TableFile.batches` does."""
        self._sizes[:] = [0] * len(self.parts)
        for number, part in enumerate(self.parts):
            for batch in part.batches(only, rows):
                self._sizes[number] += batch.num_rows
                yield batch

    def place(self, row: int) -> str:
        """Return where a row (from 0) is, and in which part."""
        ends = list(accumulate(self._sizes))
        number = min(bisect_right(ends, row), len(self.parts) - 1)
        before = ends[number - 1] if number else 0
        part = self.parts[number]
        return f"{part.place(row - before)} of {part.path.name}"


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_boolean(column.type) and kind == pa.float64():
        column = column.cast(pa.uint8())
    return column if column.type == kind else column.cast(kind)


def kind_word(kind: pa.DataType) -> str:
    """Return what a column of a type holds, in words."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "integers"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_boolean(kind):
        return "true or false"
    texts = (pa.types.is_string, pa.types.is_large_string)
    if any(is_text(kind) for is_text in texts) or kind == pa.string_view():
        return "text"
    return "dates or times" if pa.types.is_temporal(kind) else f"values of type {kind}"


def open_parts(given: str | Path) -> TableFile | PartedTable:
    """Return a table of which only headers have been read.

    Parameters
    ----------
    given
        A file; a folder, of which all tables are taken, by their names; a pattern such
        as `data/part-*.parquet`; or several of these with commas between them.
    """
    files = part_files(given)
    if len(files) == 1:
        return _open(files[0])
    suffixes = {file.suffix.lower() for file in files}
    if len(suffixes) > 1:
        raise InputError(
            f"the parts of a table must be files of one kind, got "
            f"{listed(sorted(suffixes))}.",
            where=str(given),
        )
    parts = tuple(_open(file) for file in files)
    first = parts[0]
    for part in parts[1:]:
        if set(part.columns) != first.known:
            lacks = sorted(first.known - part.known)
            more = sorted(part.known - first.known)
            what = f"lacks the column {excerpt((lacks or more)[0])}, which"
            if not lacks:
                what = f"has a column {excerpt(more[0])}, which no column of"
            told = "has" if lacks else "is"
            raise InputError(
                f"{what} {first.path.name} {told}; all parts of a table "
                "have the same columns.",
                where=str(part.path),
            )
        if part.delimiter != first.delimiter:
            raise InputError(
                f"its cells are separated otherwise than those of {first.path.name}.",
                where=str(part.path),
            )
    return PartedTable(
        Origin(f"{given} ({len(parts)} parts)", _title(files)),
        first.columns,
        first.columns,
        first.delimiter,
        parts=parts,
    )


def _open(path: Path) -> TableFile:
    file = open_table(path)
    return BoundedFile(file.path, file.columns, file.raw_columns, file.delimiter)


def _title(files: Sequence[Path]) -> str:
    """Return what a graph is called whose nodes are in these files."""
    folder = files[0].resolve().parent
    return folder.parent.name if folder.name.lower() == "nodes" else folder.name


def part_files(given: str | Path) -> list[Path]:
    """Return the files of a table, in order, or raise where there is none.

    Parameters
    ----------
    given
        As of `open_parts`.
    """
    path = usable_path(given)
    if path.is_dir():
        found = _in_folder(path)
        if not found:
            raise InputError(
                f"no part of a table is in this folder: no file that ends in "
                f"{', '.join(TABLE_SUFFIXES)}.",
                where=str(path),
            )
    elif path.exists():
        return [path]
    elif "," in str(given):
        names = [name.strip() for name in str(given).split(",")]
        found = [file for name in names if name for file in part_files(name)]
    elif _PATTERN.search(str(given)):
        found = _matching(path)
        if not found:
            raise InputError("no file has a name of this pattern.", where=str(path))
    else:
        return [path]  # what opens it says that it is not there
    _check_all_there(found)
    return found


def _is_part(file: Path) -> bool:
    # Programs that write parts leave notes beside them: _SUCCESS, .part-0.crc.
    hidden = file.name.startswith(("_", "."))
    return not hidden and file.suffix.lower() in TABLE_SUFFIXES and file.is_file()


def _in_folder(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if _is_part(file))
    except OSError as error:
        raise cannot_read(folder, error) from None


def _matching(path: Path) -> list[Path]:
    anchor = Path(path.anchor or ".")
    pattern = str(path.relative_to(path.anchor)) if path.anchor else str(path)
    return sorted(file for file in anchor.glob(pattern) if _is_part(file))


def _check_all_there(files: Sequence[Path]) -> None:
    """Raise where names say how many parts there are, and one is missing."""
    for file in files:
        said = _OF.match(file.name)
        if said is None:
            continue
        before, number, of, total, after = said.groups()
        names = {one.name for one in files}
        # They count from 0 or from 1, which the last of them tells.
        last = f"{before}{int(total):0{len(number)}}{of}{total}{after}"
        first = 1 if last in names else 0
        for one in range(first, first + int(total)):
            name = f"{before}{one:0{len(number)}}{of}{total}{after}"
            if name not in names:
                raise InputError(
                    f"{file.with_name(name)}: this part is missing, and {file.name} "
                    f"says that there are {int(total)}."
                )
        return
