"""Parquet: the columns and types of the contract, and what it says of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import contracts, export
from pipeline.contracts import ViewColumn
from pipeline.export import Options, Rows, parquet
from tests.unit.test_export_views import ARROW

NO_OPTIONS = Options()


def file_of(
    batches: Iterable[pa.RecordBatch], columns: Sequence[ViewColumn], options: Options = NO_OPTIONS
) -> io.BytesIO:
    stream = io.BytesIO()
    export.write("parquet", Rows("rows", tuple(columns), batches, "One row a x.", "Mind it.", ("x",)), stream, options)
    stream.seek(0)
    return stream


def file_of_query(batch: pa.RecordBatch) -> io.BytesIO:
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch] if batch.num_rows else [])
    return file_of(reader, export.columns_of(batch.schema))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("view", contracts.public_names())
def test_every_view_has_its_contracts_columns_and_types(view: str, n: int) -> None:
    contract = contracts.load(view)
    kinds = [ARROW[column.type] for column in contract.columns]
    names = [column.name for column in contract.columns]
    batch = pa.RecordBatch.from_arrays([pa.nulls(n, kind) for kind in kinds], names)
    table = pq.read_table(file_of([batch] if n else [], contract.columns))
    assert (table.schema.names, table.schema.types, table.num_rows) == (names, kinds, n)
    for row in table.to_pylist():
        assert row == {column.name: False if column.is_flag else None for column in contract.columns}


def test_a_column_says_what_it_is() -> None:
    columns = (
        ViewColumn("x", "BIGINT", "größe of it", unit="tokens", measured="x_measured", null="not known"),
        ViewColumn("x_measured", "BOOLEAN", "is x measured?"),
    )
    batch = pa.RecordBatch.from_arrays([pa.array([1, None]), pa.array([True, None])], ["x", "x_measured"])
    file = pq.ParquetFile(file_of([batch], columns, Options(rename={"x": "y"})))
    schema = file.schema_arrow
    assert schema.names == ["y", "x_measured"]
    said = {key.decode(): value.decode() for key, value in schema.field("y").metadata.items()}
    assert said == {"doc": "größe of it", "unit": "tokens", "measured": "x_measured", "null": "not known"} | {
        key: value for key, value in said.items() if key.startswith("PARQUET:")
    }
    assert schema.metadata[b"agentlens.rows"] == b"One row a x."
    assert schema.metadata[b"agentlens.notes"] == b"Mind it."
    assert json.loads(schema.metadata[b"agentlens.keys"]) == ["x"]
    assert file.read().to_pydict() == {"y": [1, None], "x_measured": [True, False]}
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_values_are_what_they_were() -> None:
    row: dict[str, Any] = {
        "text": "=1+1\x00",
        "number": 2**62,
        "moment": datetime(2026, 3, 1, 9, 0, 0, 7, UTC),
        "day": date(1, 1, 1),
        "list": ["a", None],
        "structure": {"a": 1},
    }
    assert pl.read_parquet(file_of_query(pa.RecordBatch.from_pylist([row]))).to_dicts() == [row]


@pytest.mark.parametrize("n", [0, 1])
def test_what_parquet_does_not_know_is_text(n: int) -> None:
    span = pa.array([pa.MonthDayNano([1, 2, 3_000_000_000])] * n, pa.month_day_nano_interval())
    table = pq.read_table(file_of_query(pa.RecordBatch.from_arrays([span], ["span"])))
    assert [str(value) for value in table["span"].to_pylist()] == ["P1M2DT3S"] * n


def test_two_columns_of_one_name_are_told_apart() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    assert pl.read_parquet(file_of_query(batch)).to_dicts() == [{"a": 1, "a_1": 2}]


def test_row_groups_are_large_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 40_000)
    batches = [pa.RecordBatch.from_pydict({"x": list(range(i, i + 10_000))}) for i in range(0, 100_000, 10_000)]
    columns = export.columns_of(batches[0].schema)
    file = pq.ParquetFile(file_of(batches, columns, Options(limit=95_000)))
    assert [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)] == [
        40_000,
        40_000,
        15_000,
    ]
    assert file.read()["x"].to_pylist() == list(range(95_000))


def test_a_pipe_does() -> None:
    """A stream that cannot tell where it is."""
    written: list[bytes] = []

    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            written.append(bytes(data))
            return len(data)

        def tell(self) -> int:
            raise OSError("a pipe")

    batch = pa.RecordBatch.from_pydict({"x": [1]})
    rows = Rows("rows", export.columns_of(batch.schema), [batch])
    export.write("parquet", rows, Pipe(), NO_OPTIONS)  # type: ignore[arg-type]
    assert pl.read_parquet(b"".join(written)).to_dicts() == [{"x": 1}]
