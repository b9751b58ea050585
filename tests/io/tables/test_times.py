"""A column of a node table as times."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from h2gcn.exceptions import InputError
from h2gcn.io import find_node_table, read_times


def table(folder: Path, *cells: str) -> Path:
    """Write a node table with a column `t`."""
    path = folder / "nodes.csv"
    rows = [f"{i},{cell}" for i, cell in enumerate(cells)]
    path.write_text("\n".join(["id,t", *rows]))
    return path


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("2024-03-01", "", "1969-12-31"), ["2024-03-01", "NaT", "1969-12-31"]),
        (
            ("2024-03-01 12:30:00", "2024-03-01T13:00:00", "2024-03-02"),
            ["2024-03-01T12:30", "2024-03-01T13", "2024-03-02"],
        ),
        (
            ("2024-03-01T12:30:00Z", "2024-03-01T12:30:00+02:00"),
            ["2024-03-01T12:30", "2024-03-01T10:30"],
        ),
    ],
)
def test_dates(tmp_path: Path, cells: tuple[str, ...], expected: list[str]) -> None:
    found = read_times(table(tmp_path, *cells), "t")
    np.testing.assert_array_equal(found, np.array(expected, dtype="datetime64[ms]"))


def test_numbers(tmp_path: Path) -> None:
    found = read_times(table(tmp_path, "1718000000", "", "2"), "t")
    np.testing.assert_array_equal(found, [1718000000.0, np.nan, 2.0])
    assert read_times(table(tmp_path, "0.5", "2"), "t").tolist() == [0.5, 2.0]


def test_dates_of_parquet(tmp_path: Path) -> None:
    days = np.array(["2024-01-01", "2025-01-01"], dtype="datetime64[D]")
    path = tmp_path / "nodes.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "t": pa.array(days)}), path)
    np.testing.assert_array_equal(read_times(path, "t"), days)


@pytest.mark.parametrize(
    ("cells", "got"),
    [
        (("yesterday", "2024-01-01"), ", got 'yesterday' at line 2"),
        (("2024-01-01", "31.12.2024"), ", got '31.12.2024' at line 3"),
        (("", ""), r"\. It holds nothing"),
        (("true", "false"), ", got 'true' at line 2"),
    ],
)
def test_what_is_no_time(tmp_path: Path, cells: tuple[str, ...], got: str) -> None:
    told = rf"nodes.csv: column 't' must hold dates, such as .*, or numbers{got}"
    with pytest.raises(InputError, match=told):
        read_times(table(tmp_path, *cells), "t")


def test_which_table_has_the_nodes(tmp_path: Path) -> None:
    path = table(tmp_path, "1")
    assert find_node_table(tmp_path) == path
    assert find_node_table(None, path) == path
    with pytest.raises(InputError, match="'texas' has no node table to take a column"):
        find_node_table("texas")
    path.unlink()
    with pytest.raises(InputError, match="It has none"):
        find_node_table(tmp_path)
