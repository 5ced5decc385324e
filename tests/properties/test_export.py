"""Laws of the exports: what goes into a CSV comes out of it."""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline import export
from pipeline.export import Options, Rows
from pipeline.export.marks import dollars

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
TEXTS = (
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text("=+-@ 0123456789.eE'\",\r\n\t")
)
INTEGERS = st.none() | st.integers(-(2**63), 2**63 - 1)
FLOATS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
BOOLEANS = st.none() | st.booleans()
RECORDS = st.lists(st.tuples(TEXTS, INTEGERS, FLOATS, BOOLEANS), min_size=1)
SCHEMA = pa.schema([("text", pa.string()), ("n", pa.int64()), ("usd", pa.float64()), ("yes", pa.bool_())])


def written(name: str, records: list[Any], options: Options) -> str:
    columns = zip(*records, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    rows = Rows("rows", export.columns_of(SCHEMA), [pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)])
    stream = io.BytesIO()
    export.write(name, rows, stream, options)
    return stream.getvalue().decode()


@given(RECORDS, st.sampled_from(["\n", "\r\n"]))
@example([("=1", 1, 1e-7, True), ("x\r", 2**62, 1e300, None), ("", None, 5e-324, False), (None, 0, -0.0, None)], "\n")
def test_csv_round_trip(records: list[Any], newline: Literal["\n", "\r\n"]) -> None:
    header, *rows = csv.reader(io.StringIO(written("csv", records, Options(newline=newline)), newline=""))
    assert header == SCHEMA.names
    assert len(rows) == len(records)
    for (text, n, usd, yes), cells in zip(records, rows, strict=True):
        expected = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text or "")
        assert cells[0] in {expected, f"'{expected}"}
        assert not re.match(r"\s*[=+\-@]", cells[0])
        assert cells[1] == ("" if n is None else str(n))
        assert (float(cells[2]) if cells[2] else None) == (None if usd is None else float(f"{usd:.15g}"))
        assert "e" not in cells[2].lower()
        assert cells[3] == {True: "true", False: "false", None: ""}[yes]


@given(RECORDS)
def test_a_number_that_a_text_holds_is_kept_or_marked(records: list[Any]) -> None:
    """A text which a spreadsheet would take for a number and write back otherwise does not stand there bare."""
    for cells in list(csv.reader(io.StringIO(written("csv", records, Options()), newline="")))[1:]:
        if re.fullmatch(r"[0-9.eE]*[0-9][0-9.eE]*", cells[0]):
            try:
                number = Decimal(cells[0])
            except ArithmeticError:
                continue
            assert "e" not in cells[0].lower()
            assert len(number.as_tuple().digits) <= 15 or number == 0 or "." in cells[0]
            assert not re.match(r"0\d", cells[0])


@given(RECORDS)
def test_json_round_trip(records: list[Any]) -> None:
    assert json.loads(written("json", records, Options())) == [
        dict(zip(SCHEMA.names, record, strict=True)) for record in records
    ]


@given(RECORDS, st.none() | st.integers(1, 120), st.booleans())
def test_a_table_is_one_line_a_row_and_harmless(records: list[Any], width: int | None, compact: bool) -> None:
    text = written("table", records, Options(width=width, compact=compact))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    lines = text.split("\n")
    rule = next(i for i, line in enumerate(lines) if line and set(line) <= {"─", " "})
    shown = lines[rule + 1 : rule + 1 + len(records)]
    assert len(shown) == len(records)


@given(st.floats(0.01, 1e12))
def test_dollars_are_exact_to_the_cent(value: float) -> None:
    assert abs(amount(dollars(value)) - Decimal(value)) <= Decimal("0.005")


@given(st.floats(1e-12, 0.01))
@example(0.00999)
def test_less_than_a_cent_keeps_two_digits(value: float) -> None:
    assert abs(amount(dollars(value)) / Decimal(value) - 1) <= Decimal("0.051")


def amount(shown: str) -> Decimal:
    return Decimal(shown.removeprefix("$").replace(",", ""))
