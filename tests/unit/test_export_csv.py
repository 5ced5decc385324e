"""CSV, byte for byte: what a spreadsheet opens and a program reads by position."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pipeline import export
from pipeline.contracts import ViewColumn
from pipeline.errors import ConfigError, ExportError, QueryError
from pipeline.export import Options, Rows

NO_OPTIONS = Options()


def column(name: str, kind: str = "BIGINT", **facts: Any) -> ViewColumn:
    return ViewColumn(name=name, type=kind, doc="", **facts)


def csv_of(columns: Mapping[str, Sequence[Any] | pa.Array], options: Options = NO_OPTIONS) -> bytes:
    """The CSV of columns that no contract describes."""
    batch = pa.RecordBatch.from_pydict(dict(columns))
    stream = io.BytesIO()
    export.write("csv", Rows("rows", export.columns_of(batch.schema), [batch]), stream, options)
    return stream.getvalue()


def texts(*values: str | None) -> list[str]:
    """Text cells as they stand in the file, beside a second column."""
    data = csv_of({"text": pa.array(values, pa.string()), "n": [1] * len(values)})
    return [line.removesuffix(",1") for line in data.decode().removeprefix("text,n\n").removesuffix("\n").split("\n")]


def test_a_view_with_flags() -> None:
    columns = (
        column("item", "VARCHAR"),
        column("tokens", measured="tokens_measured"),
        column("requests", measured="always"),
        column("used_at", "TIMESTAMP WITH TIME ZONE"),
        column("tokens_measured", "BOOLEAN"),
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "item": ["pdf, forms", 'say "hi"', None],
            "tokens": [1234567, 0, None],
            "requests": [1, 2, 3],
            "used_at": pa.array([datetime(2026, 3, 1, 9, 0, 0, 123999, UTC), None, None], pa.timestamp("us", "UTC")),
            "tokens_measured": pa.array([True, False, None]),
        }
    )
    stream = io.BytesIO()
    export.write("csv", Rows("context", columns, [batch]), stream, Options())
    assert stream.getvalue() == (
        b"item,tokens,requests,used_at,tokens_measured\n"
        b'"pdf, forms",1234567,1,2026-03-01 09:00:00.123,true\n'
        b'"say ""hi""",0,2,,false\n'
        b",,3,,false\n"
    )


def test_flags_must_be_last() -> None:
    columns = (column("tokens_measured", "BOOLEAN"), column("tokens", measured="tokens_measured"))
    batch = pa.RecordBatch.from_pydict({"tokens_measured": [True], "tokens": [1]})
    with pytest.raises(ExportError, match="flags are not the last"):
        export.write("csv", Rows("odd", columns, [batch]), io.BytesIO(), Options())


def test_line_ends_renames_and_a_limit() -> None:
    options = Options(newline="\r\n", rename={"day": "week"}, limit=2)
    assert csv_of({"day": ["a"], "n": [1]}, options) == b"week,n\r\na,1\r\n"
    assert csv_of({"day": ["a", "b", "c"], "n": [1, 2, 3]}, options) == b"week,n\r\na,1\r\nb,2\r\n"


@pytest.mark.parametrize("limit", [0, None])
def test_no_rows_leave_the_header(limit: int | None) -> None:
    rows: list[str] = [] if limit is None else ["a"]
    assert csv_of({"text": pa.array(rows, pa.string())}, Options(limit=limit)) == b"text\n"


def test_a_limit_reads_no_further() -> None:
    schema = pa.schema([("n", pa.int64())])

    def batches() -> Any:
        yield pa.RecordBatch.from_pydict({"n": [1, 2]}, schema)
        yield pa.RecordBatch.from_pydict({"n": [3, 4]}, schema)
        pytest.fail("read too far")

    stream = io.BytesIO()
    export.write("csv", Rows("n", export.columns_of(schema), batches()), stream, Options(limit=3))
    assert stream.getvalue() == b"n\n1\n2\n3\n"


def test_rows_of_large_batches_are_written_in_pieces() -> None:
    n = export.BATCH_ROWS * 2 + 1
    expected = "n\n" + "".join(f"{i}\n" for i in range(n))
    assert csv_of({"n": pa.array(range(n))}) == expected.encode()


def test_numbers_are_plain() -> None:
    """No exponent, and the 15 significant digits that a spreadsheet keeps."""
    data = csv_of(
        {
            "count": [9007199254740993, -5],
            "usd": [0.0000001, 1234567890123.5],
            "float": [0.1 + 0.2, float("nan")],
            "whole": [3.0, float("inf")],
            "decimal": [Decimal("0.00000015"), Decimal("12.50000000")],
        }
    )
    assert data == (
        b"count,usd,float,whole,decimal\n"
        b"9007199254740993,0.0000001,0.3,3,0.00000015\n"
        b"-5,1234567890123.5,,,12.50000000\n"
    )


def test_other_kinds() -> None:
    data = csv_of(
        {
            "yes": [True, None],
            "day": [date(2026, 3, 1), None],
            "list": [["a", "b, c"], []],
            "holes": [["a", None, "b"], None],
            "numbers": [[1, 2], None],
            "object": [{"a": 1}, None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "bytes": [b"\x00\xff", None],
            "interval": pa.array([pa.MonthDayNano([1, 2, 1_500_000_000]), None]),
            "kind": pa.array(["=a", None]).dictionary_encode(),
            "none": pa.nulls(2),
            "local": pa.array([datetime(2026, 3, 1, 9), None], pa.timestamp("us")),  # noqa: DTZ001 - that is the case
        }
    )
    assert data.decode().split("\n") == [
        "yes,day,list,holes,numbers,object,map,bytes,interval,kind,none,local",
        'true,2026-03-01,"a; b, c",a; b,1; 2,"{""a"":1}","{""k"":1}",00ff,P1M2DT1.5S,\'=a,,2026-03-01 09:00:00.000',
        ',,"",,,,,,,,,',
        "",
    ]


def test_times_are_utc_whatever_zone_they_carry() -> None:
    moment = datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert csv_of({"ts": pa.array([moment], pa.timestamp("us", "Europe/Berlin"))}) == b"ts\n2026-03-01 09:00:00.000\n"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+49", "'+49"),
        ("-x", "'-x"),
        ("@scope/name", "'@scope/name"),
        ("\tx", "'\tx"),
        (" =1", "' =1"),
        ("\N{NO-BREAK SPACE}=1", "'\N{NO-BREAK SPACE}=1"),
        ("\N{FULLWIDTH EQUALS SIGN}1", "'\N{FULLWIDTH EQUALS SIGN}1"),
        ('=HYPERLINK("http://x","y")', '"\'=HYPERLINK(""http://x"",""y"")"'),
        ("a=1", "a=1"),
        ("'=1", "'=1"),
    ],
)
def test_formulas_are_defused(text: str, cell: str) -> None:
    assert texts(text) == [cell]


def test_a_carriage_return_in_front_is_defused() -> None:
    assert csv_of({"text": ["\r=1"]}) == b'text\n"\'\r=1"\n'


def test_a_heading_that_is_a_formula_is_defused() -> None:
    assert csv_of({"=cmd": [1]}) == b"'=cmd\n1\n"


@pytest.mark.parametrize("text", ["1234567890123456", "007", "00", "1e5", "12345e678", "1E-3", "1.10", "0.0", ".5e3"])
def test_ids_that_look_like_numbers_survive(text: str) -> None:
    assert texts(text) == [f"'{text}"]


@pytest.mark.parametrize(
    "text", ["123456789012345", "0", "42", "1.5", "1.10.0", "e5", "2026-03-01", "v1.10", "0x1f", "-"]
)
def test_other_texts_stay(text: str) -> None:
    assert texts(text) == [text if text != "-" else "'-"]


def test_control_characters_are_replaced() -> None:
    assert texts("a\x00b\x1b[31m\x7f\x85c") == ["a�b�[31m��c"]


def test_line_breaks_and_the_empty_text_are_quoted() -> None:
    assert csv_of({"a": ["x\ny", "x\r\ny", "", None], "n": [1, 2, 3, 4]}) == (b'a,n\n"x\ny",1\n"x\r\ny",2\n"",3\n,4\n')


def test_a_lone_na_is_no_empty_line() -> None:
    assert csv_of({"n": [1, None, 3]}) == b'n\n1\n""\n3\n'


def test_texts_are_utf_8() -> None:
    assert texts("schön 日本") == ["schön 日本"]


# --- what all formats share ------------------------------------------------------------------------------------------


def test_an_unknown_format() -> None:
    with pytest.raises(ConfigError, match="known formats: table, csv, json"):
        export.write("xml", Rows("n", (), []), io.BytesIO(), Options())


@pytest.mark.parametrize("name", export.FORMATS)
def test_other_columns_than_announced(name: str) -> None:
    batch = pa.RecordBatch.from_pydict({"b": [1]})
    with pytest.raises(ExportError, match="have columns"):
        export.write(name, Rows("n", (column("a"),), [batch]), io.BytesIO(), Options())


@pytest.mark.parametrize("name", export.FORMATS)
def test_a_query_that_fails_while_its_rows_are_read(name: str) -> None:
    def batches() -> Any:
        yield pa.RecordBatch.from_pydict({"a": [1]})
        raise OSError("Out of Range Error: no such number\n\nLINE 1")

    with pytest.raises(QueryError, match=r"rows of n cannot be read: Out of Range Error: no such number$"):
        export.write(name, Rows("n", (column("a"),), batches()), io.BytesIO(), Options())


@pytest.mark.parametrize("name", export.FORMATS)
def test_an_error_of_the_stream_passes(name: str) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise BrokenPipeError

    batch = pa.RecordBatch.from_pydict({"a": [1]})
    with pytest.raises(BrokenPipeError):
        export.write(name, Rows("n", (column("a"),), [batch]), Full(), Options())


def test_a_flag_that_is_no_truth_value() -> None:
    columns = (column("n", measured="n_measured"), column("n_measured"))
    batch = pa.RecordBatch.from_pydict({"n": [1], "n_measured": [2]})
    with pytest.raises(ExportError, match="cannot write odd as csv"):
        export.write("csv", Rows("odd", columns, [batch]), io.BytesIO(), Options())


def test_columns_of_a_query() -> None:
    schema = pa.schema(
        [
            ("a", pa.string()),
            ("b", pa.int64()),
            ("c", pa.float64()),
            ("d", pa.bool_()),
            ("e", pa.date32()),
            ("f", pa.timestamp("us", "UTC")),
            ("g", pa.timestamp("us")),
            ("h", pa.list_(pa.string())),
            ("i", pa.int8()),
        ]
    )
    made = export.columns_of(schema)
    assert [c.type for c in made] == [
        "VARCHAR",
        "BIGINT",
        "DOUBLE",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP WITH TIME ZONE",
        "TIMESTAMP",
        "VARCHAR[]",
        "INT8",
    ]
    assert {(c.measured, c.total) for c in made} == {(None, False)}
