"""xlsx, read back by another library: cells that are what they should be, marks that are formats, nothing that runs."""

from __future__ import annotations

import io
import random
import re
import shutil
import subprocess
import tracemalloc
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape

from pipeline import contracts, export
from pipeline.contracts import ViewColumn
from pipeline.errors import ConfigError, ExportError
from pipeline.export import Options, Rows, xlsx
from tests.unit.test_export_views import ARROW

NO_OPTIONS = Options()
Columns = Sequence[ViewColumn]


def book_of(batch: pa.RecordBatch, columns: Columns = (), options: Options = NO_OPTIONS) -> bytes:
    stream = io.BytesIO()
    made = tuple(columns) or export.columns_of(batch.schema)
    export.write("xlsx", Rows("rows", made, [batch]), stream, options)
    return stream.getvalue()


def opened(book: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(book))


def sheet_of(batch: pa.RecordBatch, columns: Columns = (), options: Options = NO_OPTIONS) -> Any:
    return opened(book_of(batch, columns, options))["rows"]


def column_of(values: list[Any], kind: pa.DataType | None = None) -> list[Any]:
    """The cells that one column becomes, without its heading."""
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["x"])
    sheet = sheet_of(batch)
    return [sheet.cell(i, 1) for i in range(2, len(values) + 2)]


def test_the_mark_of_an_estimate_is_its_cells_format() -> None:
    columns = (
        ViewColumn("requests", "BIGINT", "", measured="always"),
        ViewColumn("load", "BIGINT", "", unit="tokens", measured="load_measured"),
        ViewColumn("added", "BIGINT", "", unit="tokens", measured="never"),
        ViewColumn("measured_usd", "DOUBLE", "", unit="USD", measured="always"),
        ViewColumn("estimated_usd", "DOUBLE", "", unit="USD", measured="never"),
        ViewColumn("load_measured", "BOOLEAN", ""),
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "requests": [1, None, 3],
            "load": [1234, 5, None],
            "added": [-7, None, 8],
            "measured_usd": [1.5, None, 0.0],
            "estimated_usd": [0.0034, -2.0, float("nan")],
            "load_measured": pa.array([True, None, True]),
        }
    )
    sheet = sheet_of(batch, columns)
    rows = [[(cell.value, cell.number_format) for cell in row] for row in sheet.iter_rows(min_row=2)]
    count, estimate, empty = "#,##0", '"~"#,##0;"~-"#,##0', (None, "General")
    dollars = '"$"#,##0.00;"-$"#,##0.00'
    assert rows == [
        [
            (1, count),
            (1234, count),
            (-7, estimate),
            (1.5, dollars),
            (0.0034, '"~$"#,##0.00######;"~-$"#,##0.00######'),
            (True, "General"),
        ],
        [empty, (5, estimate), empty, empty, (-2, '"~$"#,##0.00;"~-$"#,##0.00'), (False, "General")],
        [(3, count), empty, (8, estimate), (0, dollars), empty, (True, "General")],
    ]


def test_every_digit_of_a_price_counts() -> None:
    price = ViewColumn("input_usd_per_mtok", "DOUBLE", "", unit="USD per million tokens", measured="always")
    batch = pa.RecordBatch.from_pydict({price.name: [0.075, 3.0]})
    cells = [row[0] for row in sheet_of(batch, [price]).iter_rows(min_row=2)]
    assert [cell.value for cell in cells] == [0.075, 3]
    assert {cell.number_format for cell in cells} == {'"$"#,##0.00######;"-$"#,##0.00######'}


def test_a_header_that_stays_and_filters() -> None:
    batch = pa.RecordBatch.from_pydict({"a_long_heading": [1, 2], "path": ["x" * 40, "y" * 500]})
    sheet = sheet_of(batch, options=Options(rename={"path": "where"}))
    assert [cell.value for cell in sheet[1]] == ["a_long_heading", "where"]
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref == "A1:B3"
    assert sheet.column_dimensions["A"].width >= len("a_long_heading") + 2
    assert 55 <= sheet.column_dimensions["B"].width <= 65


def test_no_rows_are_a_header() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([], pa.int64())})
    assert [[cell.value for cell in row] for row in sheet_of(batch).iter_rows()] == [["a"]]


def test_times_are_those_of_utc() -> None:
    moments = [datetime(2026, 3, 1, 9, 0, 0, 120000, UTC), datetime(2026, 3, 29, 1, 30, tzinfo=UTC), None]
    first, second, none = column_of(moments, pa.timestamp("us", "America/New_York"))
    assert first.value == datetime(2026, 3, 1, 9, 0, 0, 120000)  # noqa: DTZ001 - the format has no zones
    assert second.value == datetime(2026, 3, 29, 1, 30)  # noqa: DTZ001
    assert (first.is_date, first.number_format) == (True, "yyyy-mm-dd hh:mm:ss")
    assert none.value is None
    (seconds,) = column_of([datetime(2026, 3, 1, 9)], pa.timestamp("s"))  # noqa: DTZ001
    assert seconds.value == datetime(2026, 3, 1, 9)  # noqa: DTZ001


def test_days_and_what_no_calendar_of_a_spreadsheet_has() -> None:
    cells = column_of([date(2026, 3, 1), date(1900, 2, 28), date(9999, 12, 31), None], pa.date32())
    assert [cell.value for cell in cells] == [
        datetime(2026, 3, 1),  # noqa: DTZ001
        "1900-02-28",
        datetime(9999, 12, 31),  # noqa: DTZ001
        None,
    ]
    assert cells[0].number_format == "yyyy-mm-dd"
    (infinite,) = column_of([2**63 - 1], pa.timestamp("us", "UTC"))
    assert isinstance(infinite.value, str)


def test_long_numbers_stay_whole() -> None:
    cells = column_of([10**15 - 1, 10**15, -(2**53) - 1, None])
    assert [cell.value for cell in cells] == [999_999_999_999_999, "1000000000000000", "-9007199254740993", None]
    cells = column_of([Decimal(2**70), Decimal("1.25")], pa.decimal128(38, 2))
    assert [cell.value for cell in cells] == ["1180591620717411303424.00", 1.25]
    assert [cell.value for cell in column_of([float("inf"), float("-inf"), 1e300])] == [None, None, 1e300]
    assert [cell.value for cell in column_of(["0012", "1e5", "12345678901234567890"])] == [
        "0012",
        "1e5",
        "12345678901234567890",
    ]


HARMLESS = (
    "=1+1",
    "{=1+1}",
    "+1",
    "@SUM(A1)",
    "https://example.test/x",
    "mailto:a@example.test",
    "internal:Sheet!A1",
    "file://c",
    "",
    " blank ",
    "a\tb\nc",
    "größe 🙂",
    "<b>&amp;</b>",
    "<r>x</r>",
    "<r><t>a & b</t></r>",
    "_x0041_",
    "TRUE",
    "#N/A",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_a_text_is_the_same_text(text: str) -> None:
    book = book_of(pa.RecordBatch.from_pydict({text: [text]}))
    (heading,), (cell,) = opened(book)["rows"].iter_rows()
    assert (unescape(heading.value), unescape(cell.value)) == (text, text)  # openpyxl leaves _x0041_ as it is written
    assert cell.data_type in {"s", "inlineStr"}
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "<hyperlink" not in sheet


def test_what_a_cell_cannot_hold_is_seen_to_be_changed() -> None:
    control, long, wide = (cell.value for cell in column_of(["a\x00b\x1bc\x7f\ufffe", "x" * 40_000, "🙂" * 20_000]))
    assert control == "a\ufffdb\ufffdc\ufffd\ufffd"
    assert len(long) == 32_767
    assert long.endswith("x [cut: too long for a cell]")
    assert len(wide.encode("utf-16-le")) // 2 <= 32_767
    assert wide.endswith("🙂 [cut: too long for a cell]")


def test_kinds_that_only_a_query_returns() -> None:
    assert [cell.value for cell in column_of([["a", "b"], [], None])] == ["a; b", "", None]
    assert [cell.value for cell in column_of([{"a": 1}])] == ['{"a":1}']
    assert [cell.value for cell in column_of([b"\x01\xff"])] == ["01ff"]
    assert [cell.value for cell in column_of([True, None, False])] == [True, None, False]
    coded = pa.RecordBatch.from_arrays([pa.array([5, 5]).dictionary_encode()], ["x"])
    assert [row[0].value for row in sheet_of(coded).iter_rows(min_row=2)] == [5, 5]


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=40)
@given(st.lists(st.tuples(text, st.integers(-(10**15) + 1, 10**15 - 1) | st.none()), max_size=5))
@example([("a\r\nb\rc", 1), ("_x000D_", None)])
def test_round_trip(records: list[tuple[str, int | None]]) -> None:
    kind = pa.schema([("text", pa.string()), ("number", pa.int64())])
    batch = pa.RecordBatch.from_pylist([{"text": t, "number": n} for t, n in records], kind)
    found = [tuple(cell.value for cell in row) for row in sheet_of(batch).iter_rows(min_row=2)]
    control = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
    expected = [(control.sub("\ufffd", t).replace("\r\n", "\n").replace("\r", "\n"), n) for t, n in records]
    assert [(unescape(t), n) for t, n in found] == expected


# --- books ---------------------------------------------------------------------------------------------------------


def numbers(name: str, n: int = 1) -> Rows:
    batch = pa.RecordBatch.from_pydict({"n": list(range(n))})
    return Rows(
        name, (ViewColumn("n", "BIGINT", "what it is", unit="tokens", measured="never"),), [batch], "One row a n."
    )


def write_book(results: Iterable[Rows], options: Options = NO_OPTIONS) -> bytes:
    stream = io.BytesIO()
    export.write_all("xlsx", results, stream, options)
    return stream.getvalue()


def test_names_of_sheets_are_short_and_of_one_only() -> None:
    names = ["a" * 40, "a" * 50, "A" * 31, "Notes", "history", "a/b[c]:d", "'x'", "", "''"]
    titles = opened(write_book(map(numbers, names))).sheetnames
    assert titles == [
        "a" * 31,
        f"{'a' * 27} (2)",
        f"{'A' * 27} (3)",
        "Notes (2)",
        "history (2)",
        "a_b_c__d",
        "x",
        "rows",
        "rows (2)",
        "Notes",
    ]


def test_results_are_asked_for_one_after_another() -> None:
    read: list[str] = []

    def results() -> Iterator[Rows]:
        for name in ("first", "second"):
            rows = numbers(name)
            yield Rows(rows.name, rows.columns, noted(name, rows.batches))
            read.append(f"{name} is done")

    def noted(name: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read.append(name)
        yield from batches

    write_book(results())
    assert read == ["first", "first is done", "second", "second is done"]


def test_notes_say_what_everything_means() -> None:
    sheet = opened(write_book([numbers("a"), numbers("b")], Options(timezone="Europe/Berlin")))["Notes"]
    rows = [tuple(cell.value for cell in row) for row in sheet.iter_rows()]
    said = " ".join(str(row[1]) for row in rows)
    assert "all times are UTC" in said
    assert "Europe/Berlin" in said
    assert ("a", "n", "tokens", "estimated", "what it is", None) in rows
    assert ("b", "(a row)", None, None, "One row a n.", None) in rows


def test_the_same_rows_are_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_book([numbers("a", 5000)])
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert write_book([numbers("a", 5000)]) == first


def test_more_rows_than_a_sheet_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "_MOST_ROWS", 5001)
    assert opened(write_book([numbers("a", 5000)]))["a"].max_row == 5001
    with pytest.raises(ExportError, match=r"a has more rows than the 5,000 that a sheet holds; .*--since"):
        write_book([numbers("a", 5001)])


def test_more_columns_than_a_sheet_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "_MOST_COLUMNS", 1)
    with pytest.raises(ExportError, match="2 columns"):
        book_of(pa.RecordBatch.from_pydict({"a": [1], "b": [1]}))


def test_what_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": list(range(10_000))})
        raise OSError("the disk is gone")

    with pytest.raises(Exception, match="the disk is gone"):
        write_book([Rows("a", numbers("a").columns, broken())])
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_stream_passes() -> None:
    class Gone(io.BytesIO):
        def write(self, data: Any) -> int:
            raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        export.write("xlsx", numbers("a"), Gone(), NO_OPTIONS)
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        export.write("parquet", numbers("a"), Gone(), NO_OPTIONS)


def test_a_format_of_one_result_a_file() -> None:
    with pytest.raises(ConfigError, match="one result"):
        export.write_all("csv", [numbers("a")], io.BytesIO(), NO_OPTIONS)


def test_memory_is_that_of_a_batch() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 20_000, 5_000):
            yield pa.RecordBatch.from_pydict({"n": list(range(start, start + 5_000))})

    tracemalloc.start()
    try:
        with open("/dev/null", "wb") as nowhere:
            export.write("xlsx", Rows("a", numbers("a").columns, batches()), nowhere, NO_OPTIONS)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("view", contracts.public_names())
def test_every_view_also_a_row_of_which_nothing_is_known(view: str) -> None:
    contract = contracts.load(view)
    schema = pa.schema([(column.name, ARROW[column.type]) for column in contract.columns])
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    sheet = opened(write_book([Rows(view, contract.columns, [batch])]))[view]
    header, *rows = ([cell.value for cell in row] for row in sheet.iter_rows())
    assert header == [column.name for column in contract.columns]
    assert rows in ([], [[False if column.is_flag else None for column in contract.columns]])


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not here")
def test_libreoffice_opens_it_and_adds_up_the_same(tmp_path: Path) -> None:
    rng = random.Random(1)
    columns = (
        ViewColumn("tokens", "BIGINT", "", measured="tokens_measured"),
        ViewColumn("estimated_usd", "DOUBLE", "", unit="USD", measured="never"),
        ViewColumn("tokens_measured", "BOOLEAN", ""),
    )
    tokens = [rng.randrange(10**12) for _ in range(500)]
    dollars = [rng.random() for _ in tokens]
    flags = [rng.random() < 0.5 for _ in tokens]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(tokens), pa.array(dollars), pa.array(flags)], [c.name for c in columns]
    )
    (tmp_path / "book.xlsx").write_bytes(book_of(batch, columns))
    # Every sheet, cells as they are and not as they are shown.
    to_csv = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1"
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = ["soffice", profile, "--headless", "--convert-to", to_csv, "--outdir", str(tmp_path)]
    subprocess.run([*command, str(tmp_path / "book.xlsx")], check=True, capture_output=True, timeout=120)
    _, *rows = (tmp_path / "book-rows.csv").read_text(encoding="utf-8").splitlines()
    cells = [row.split(",") for row in rows]
    assert sum(int(row[0]) for row in cells) == sum(tokens)
    assert sum(float(row[1]) for row in cells) == pytest.approx(sum(dollars), rel=1e-12)
    assert [row[2] == "TRUE" for row in cells] == flags
