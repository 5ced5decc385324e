"""JSON for programs: an array of objects, one a line; a count that can be an estimate says which it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from pipeline.contracts import ViewColumn
from pipeline.export import NEVER, Options, Rows, distinct, headings
from pipeline.export.cells import plain

if TYPE_CHECKING:
    import pyarrow as pa


def write(rows: Rows, stream: BinaryIO, options: Options) -> None:
    """Write rows as an array of objects.

    A count with a flag is `{"count": 1234, "measured": false}`, and its flag is not repeated. n/a is null.
    """
    flags = rows.flag_positions()
    kept = [i for i in range(len(rows.columns)) if i not in set(flags.values())]
    names = distinct([headings(rows.columns, options)[i] for i in kept])
    encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)
    before = b"["
    for batch in rows.first(options.limit):
        values = [_values(batch, i, rows.columns[i], flags.get(i)) for i in kept]
        objects = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
        # No text holds a bare line break, so each of them ends an object.
        stream.write(before + b"\n" + encoder.encode_lines(objects)[:-1].replace(b"\n", b",\n"))
        before = b","
    stream.write(b"[]\n" if before == b"[" else b"\n]\n")


def _values(batch: pa.RecordBatch, position: int, column: ViewColumn, flag: int | None) -> list[Any]:
    values = plain(batch.column(position))
    if flag is not None:
        pairs = zip(values, batch.column(flag).to_pylist(), strict=True)
        return [{"count": value, "measured": value is not None and measured is True} for value, measured in pairs]
    if column.measured == NEVER and column.unit != "USD":
        return [{"count": value, "measured": False} for value in values]
    return values
