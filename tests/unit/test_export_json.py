"""JSON: objects of counts that say whether they are measured."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pipeline import export
from pipeline.contracts import ViewColumn
from pipeline.export import Options, Rows

NO_OPTIONS = Options()


def json_of(batch: pa.RecordBatch, columns: Sequence[ViewColumn] = (), options: Options = NO_OPTIONS) -> bytes:
    stream = io.BytesIO()
    made = tuple(columns) or export.columns_of(batch.schema)
    export.write("json", Rows("rows", made, [batch]), stream, options)
    return stream.getvalue()


def test_counts_say_whether_they_are_measured() -> None:
    columns = (
        ViewColumn("skill", "VARCHAR", ""),
        ViewColumn("requests", "BIGINT", "", measured="always"),
        ViewColumn("load", "BIGINT", "", unit="tokens", measured="load_measured"),
        ViewColumn("added", "BIGINT", "", unit="tokens", measured="never"),
        ViewColumn("overhead_usd", "DOUBLE", "", unit="USD", measured="never"),
        ViewColumn("load_measured", "BOOLEAN", ""),
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "skill": ["größe", "b", None],
            "requests": [1, None, 3],
            "load": [1234, 5, None],
            "added": [7, None, 8],
            "overhead_usd": [0.5, None, float("nan")],
            "load_measured": pa.array([True, None, True]),
        }
    )
    assert json_of(batch, columns).decode() == (
        "[\n"
        '{"skill":"größe","requests":1,"load":{"count":1234,"measured":true},'
        '"added":{"count":7,"measured":false},"overhead_usd":0.5},\n'
        '{"skill":"b","requests":null,"load":{"count":5,"measured":false},'
        '"added":{"count":null,"measured":false},"overhead_usd":null},\n'
        '{"skill":null,"requests":3,"load":{"count":null,"measured":false},'
        '"added":{"count":8,"measured":false},"overhead_usd":null}\n'
        "]\n"
    )


def test_times_days_and_lists() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "ts": pa.array(
                [
                    datetime(2026, 3, 1, 9, tzinfo=UTC),
                    datetime(2026, 3, 1, 9, 0, 0, 120000, UTC),
                    datetime(2026, 3, 1, 9, 0, 0, 7, UTC),
                    None,
                ],
                pa.timestamp("us", "UTC"),
            ),
            "local": pa.array([datetime(2026, 3, 1, 9)] * 4, pa.timestamp("s")),  # noqa: DTZ001 - that is the case
            "day": [date(2026, 3, 1), None, None, None],
            "list": [["a", None], [], None, None],
        }
    )
    rows = json.loads(json_of(batch))
    assert [row["ts"] for row in rows] == [
        "2026-03-01T09:00:00Z",
        "2026-03-01T09:00:00.120Z",
        "2026-03-01T09:00:00.000007Z",
        None,
    ]
    assert rows[0] == {
        "ts": "2026-03-01T09:00:00Z",
        "local": "2026-03-01T09:00:00",
        "day": "2026-03-01",
        "list": ["a", None],
    }
    assert [row["list"] for row in rows] == [["a", None], [], None, None]


def test_what_only_other_peoples_sql_returns() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "big": [Decimal(10) ** 30],
            "object": [{"a": [1, None]}],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "bytes": [b"\xff"],
            "kind": pa.array(["x"]).dictionary_encode(),
            "deep": [[datetime(2026, 3, 1, tzinfo=UTC)]],
        }
    )
    assert json.loads(json_of(batch)) == [
        {
            "big": 10**30,
            "object": {"a": [1, None]},
            "map": {"k": 1},
            "bytes": "ff",
            "kind": "x",
            "deep": ["2026-03-01T00:00:00Z"],
        }
    ]


def test_a_line_break_in_a_text_breaks_nothing() -> None:
    assert json_of(pa.RecordBatch.from_pydict({"t": ["a\nb\u2028", "\x00"]})) == (
        b'[\n{"t":"a\\nb\xe2\x80\xa8"},\n{"t":"\\u0000"}\n]\n'
    )


def test_no_rows() -> None:
    assert json_of(pa.RecordBatch.from_pydict({"t": pa.array([], pa.string())})) == b"[]\n"


def test_names_given_twice() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([i]) for i in range(4)], names=["a", "a", "a_1", "a"])
    assert json.loads(json_of(batch)) == [{"a": 0, "a_2": 1, "a_1": 2, "a_3": 3}]


def test_renames_a_limit_and_several_batches() -> None:
    schema = pa.schema([("day", pa.int64())])
    batches: list[Any] = [pa.RecordBatch.from_pydict({"day": [n, n + 1]}, schema) for n in (0, 2, 4)]
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    stream = io.BytesIO()
    export.write("json", Rows("n", export.columns_of(schema), reader), stream, Options(limit=3, rename={"day": "week"}))
    assert stream.getvalue() == b'[\n{"week":0},\n{"week":1},\n{"week":2}\n]\n'
