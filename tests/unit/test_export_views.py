"""Every public view can be written in every format, also a row of which nothing but the grain is known."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest

from pipeline import contracts, export
from pipeline.export import Options, Rows

ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "VARCHAR[]": pa.list_(pa.string()),
}


def unknown_row(view: str, format_name: str) -> str:
    """A row without any value, as a file."""
    contract = contracts.load(view)
    schema = pa.schema([(column.name, ARROW[column.type]) for column in contract.columns])
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    stream = io.BytesIO()
    export.write(format_name, Rows(view, contract.columns, [batch], keys=contract.grain), stream, Options(width=80))
    return stream.getvalue().decode()


@pytest.mark.parametrize("view", contracts.public_names())
def test_csv_has_the_columns_of_the_contract_and_flags_that_are_false(view: str) -> None:
    contract = contracts.load(view)
    header, row = csv.reader(io.StringIO(unknown_row(view, "csv"), newline=""))
    assert header == [column.name for column in contract.columns]
    assert row == ["false" if column.is_flag else "" for column in contract.columns]


@pytest.mark.parametrize("view", contracts.public_names())
def test_json_has_no_flags_and_no_number_that_nobody_knows(view: str) -> None:
    contract = contracts.load(view)
    (row,) = json.loads(unknown_row(view, "json"))
    assert list(row) == [column.name for column in contract.columns if not column.is_flag]
    counts = {column.name for column in contract.columns if column.measured in contract.flags}
    assert all(row[name] == {"count": None, "measured": False} for name in counts)
    assert all(value is None or value == {"count": None, "measured": False} for value in row.values())


@pytest.mark.parametrize("view", contracts.public_names())
def test_a_table_shows_no_number_that_nobody_knows(view: str) -> None:
    shown = unknown_row(view, "table").split("n/a not recorded")[0]
    assert set(shown.split("─")[-1].split()) == {"n/a"}
