"""Parquet for programs: the columns and types of the contract, each with what the contract says of it as metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contracts import ViewColumn
from pipeline.export import Options, Rows, distinct, headings
from pipeline.export.cells import text

_GROUP_ROWS = 131_072  # of a row group: what is held in memory
_TYPES = {
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}


def write(rows: Rows, stream: BinaryIO, options: Options) -> None:
    """Write rows as Parquet, zstd. n/a is NULL; a flag that is NULL is false, as what is not known is not measured."""
    flags = set(rows.flag_positions().values())
    names = distinct(headings(rows.columns, options))
    writer: pq.ParquetWriter | None = None
    try:
        for group in _groups(rows, options.limit):
            columns = [
                _column(array, column, is_flag=i in flags)
                for i, (array, column) in enumerate(zip(group.columns, rows.columns, strict=True))
            ]
            if writer is None:
                kinds = [column.type for column in columns]
                schema = _schema(rows, names, kinds)
                writer = pq.ParquetWriter(stream, schema, compression="zstd")
            writer.write_table(pa.Table.from_arrays(columns, schema=writer.schema))
        if writer is None:
            kinds = [_kind(rows, i) for i in range(len(names))]
            writer = pq.ParquetWriter(stream, _schema(rows, names, kinds), compression="zstd")
    finally:
        if writer is not None:
            writer.close()


def _groups(rows: Rows, limit: int | None) -> Iterator[pa.Table]:
    """The rows in pieces of a row group each."""
    held: list[pa.RecordBatch] = []
    n = 0
    for batch in rows.first(limit):
        if held and n + batch.num_rows > _GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held, n = [], 0
        held.append(batch)
        n += batch.num_rows
    if n:
        yield pa.Table.from_batches(held)


def _column(array: pa.ChunkedArray, column: ViewColumn, *, is_flag: bool) -> pa.ChunkedArray:
    """A column in the type of its contract; one of a kind that Parquet does not know, as text."""
    if is_flag:
        array = array.fill_null(False)
    if pa.types.is_interval(array.type):
        return pa.chunked_array([text(chunk) for chunk in array.chunks], pa.large_string())
    kind = _TYPES.get(column.type)
    return array if kind is None or array.type == kind else array.cast(kind)


def _kind(rows: Rows, position: int) -> pa.DataType:
    """The type of a column of which there are no values."""
    kind = _TYPES.get(rows.columns[position].type)
    if kind is None and isinstance(rows.batches, pa.RecordBatchReader):
        kind = rows.batches.schema.field(position).type
    return pa.string() if kind is None or pa.types.is_interval(kind) else kind


def _schema(rows: Rows, names: list[str], kinds: list[pa.DataType]) -> pa.Schema:
    fields = [
        pa.field(name, kind, metadata=_said(column))
        for name, kind, column in zip(names, kinds, rows.columns, strict=True)
    ]
    about = {"name": rows.name, "rows": rows.help, "notes": rows.notes, "keys": json.dumps(list(rows.keys))}
    known = {f"agentlens.{key}": value for key, value in about.items() if value and value != "[]"}
    return pa.schema(fields, metadata=known)


def _said(column: ViewColumn) -> dict[str, str]:
    """What the contract says of a column. `measured` is always, never, or the name of the flag column."""
    facts = {"doc": column.doc, "unit": column.unit, "measured": column.measured, "null": column.null}
    return {key: value for key, value in facts.items() if value}
