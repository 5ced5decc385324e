"""Tables for people: the marks, the totals, and what happens in a narrow terminal."""

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
from pipeline.errors import ConfigError
from pipeline.export import Course, Options, Rows, marks
from pipeline.export.courses import sparkline
from pipeline.export.table import cell_width, shortened

NO_OPTIONS = Options()
ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}
CONTEXT = (
    ViewColumn("client", "VARCHAR", ""),
    ViewColumn("item", "VARCHAR", ""),
    ViewColumn("requests", "BIGINT", "", unit="requests", measured="always"),
    ViewColumn("overhead_tokens", "BIGINT", "", unit="tokens", measured="overhead_measured", total=True),
    ViewColumn("overhead_usd", "DOUBLE", "", unit="USD", measured="never", total=True),
    ViewColumn("overhead_measured", "BOOLEAN", ""),
)
USAGE = (
    ViewColumn("day", "VARCHAR", ""),
    ViewColumn("input_tokens", "BIGINT", "", unit="tokens", measured="always", total=True),
    ViewColumn("measured_usd", "DOUBLE", "", unit="USD", measured="always", total=True),
    ViewColumn("estimated_usd", "DOUBLE", "", unit="USD", measured="never", total=True),
)


def rows_of(columns: tuple[ViewColumn, ...], records: Sequence[Sequence[Any]], **facts: Any) -> Rows:
    schema = pa.schema([(column.name, ARROW[column.type]) for column in columns])
    arrays = [pa.array([record[i] for record in records], field.type) for i, field in enumerate(schema)]
    return Rows("rows", columns, [pa.RecordBatch.from_arrays(arrays, schema=schema)], **facts)


def lines_of(rows: Rows, options: Options = NO_OPTIONS) -> list[str]:
    stream = io.BytesIO()
    export.write("table", rows, stream, options)
    text = stream.getvalue().decode()
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


def table_of(columns: Mapping[str, Any], options: Options = NO_OPTIONS) -> list[str]:
    """The table of columns that no contract describes."""
    batch = pa.RecordBatch.from_pydict(dict(columns))
    return lines_of(Rows("rows", export.columns_of(batch.schema), [batch]), options)


def test_marks_and_totals() -> None:
    records = [
        ("codex", "pdf-forms", 1234, 148080, 0.0034, False),
        ("codex", "CLAUDE.md", 12, 1480800, 3.5, True),
        ("codex", "Bash", 7, None, None, None),
    ]
    assert lines_of(rows_of(CONTEXT, records)) == [
        "client  item       requests  overhead tokens  overhead usd",
        "──────  ─────────  ────────  ───────────────  ────────────",
        "codex   pdf-forms     1,234         ~148,080      ~$0.0034",
        "codex   CLAUDE.md        12        1,480,800        ~$3.50",
        "codex   Bash              7              n/a           n/a",
        "──────  ─────────  ────────  ───────────────  ────────────",
        "total                             ~1,628,880        ~$3.50",
        "",
        "~ estimated, n/a not recorded, or there is none",
    ]


def test_a_flag_that_is_null_is_not_measured() -> None:
    assert "~5" in lines_of(rows_of(CONTEXT, [("codex", "a", 1, 5, None, None)]))[2]


def test_a_sum_is_measured_only_if_every_part_is() -> None:
    both = [("codex", "a", 1, 1000, 1.0, True), ("codex", "b", 1, 500, 1.0, True)]
    assert lines_of(rows_of(CONTEXT, both))[-3].split() == ["total", "1,500", "~$2.00"]
    one = [*both, ("codex", "c", 1, None, 1.0, False)]
    assert lines_of(rows_of(CONTEXT, one))[-3].split() == ["total", "~1,500", "~$3.00"]
    none = [("codex", "a", 1, None, None, True), ("codex", "b", 1, None, None, False)]
    assert lines_of(rows_of(CONTEXT, none))[-3].split() == ["total", "n/a", "n/a"]


def test_the_two_money_columns_are_one_and_never_added() -> None:
    records = [("2026-03-01", 1000, 1.5, None), ("2026-03-02", 20, 0.25, 2.0), ("2026-03-03", 3, None, 0.001)]
    assert lines_of(rows_of(USAGE, records), Options(rename={"day": "week"})) == [
        "week        input tokens            cost",
        "──────────  ────────────  ──────────────",
        "2026-03-01         1,000           $1.50",
        "2026-03-02            20  $0.25 + ~$2.00",
        "2026-03-03             3        ~$0.0010",
        "──────────  ────────────  ──────────────",
        "total              1,023  $1.75 + ~$2.00",
        "",
        "~ estimated",
    ]


def test_a_sum_of_costs_with_an_unknown_one_is_not_measured() -> None:
    records = [("a", 1, 1.5, None), ("b", 2, None, None)]
    assert lines_of(rows_of(USAGE, records))[-3].split() == ["total", "3", "~$1.50"]


def test_measured_costs_alone_are_plain_and_need_no_legend() -> None:
    lines = lines_of(rows_of(USAGE, [("a", 1, 0.0, None), ("b", 2, 1234.5, None)]))
    assert [line.split()[-1] for line in lines[2:]] == ["$0.00", "$1,234.50", "─────────", "$1,234.50"]


def test_totals_can_be_switched_off_and_one_row_has_none() -> None:
    records = [("a", 1, 1.0, None), ("b", 2, 1.0, None)]
    assert len(lines_of(rows_of(USAGE, records), Options(totals=False))) == 4
    assert len(lines_of(rows_of(USAGE, records[:1]))) == 3


def test_a_total_of_the_first_column_stands_in_it() -> None:
    assert lines_of(rows_of(USAGE[1:], [(1, 1.0, None), (2, 1.0, None)]))[-1].split() == ["3", "$2.00"]


def test_a_limit_shows_the_first_rows_and_counts_all() -> None:
    batch = [("a", 1, 1.0, None), ("b", 20, 1.0, None), ("c", 300, 1.0, None)]
    assert lines_of(rows_of(USAGE, batch), Options(limit=2))[2:] == [
        "a                 1  $1.00",
        "b                20  $1.00",
        "─────  ────────────  ─────",
        "total           321  $3.00",
        "",
        "2 of 3 rows; the totals are of all",
    ]
    assert lines_of(rows_of(USAGE, batch), Options(limit=1, totals=False))[-1] == "1 of 3 rows"


def test_no_rows() -> None:
    assert lines_of(rows_of(USAGE, [], help="One row a day.", notes="Days are local.")) == ["no rows", "One row a day."]
    assert lines_of(rows_of(USAGE, [])) == ["no rows"]


def test_notes_stand_below() -> None:
    lines = lines_of(rows_of(USAGE, [("a", 1, 1.0, None)], notes="Days are local."), Options(width=40))
    assert lines[-2:] == ["", "Days are local."]


def test_kinds_of_values() -> None:
    moment = datetime(2026, 3, 1, 23, 30, 59, tzinfo=UTC)
    lines = table_of(
        {
            "ts": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "local": pa.array([datetime(2026, 3, 1, 9), None], pa.timestamp("us")),  # noqa: DTZ001 - that is the case
            "day": [date(2026, 3, 1), None],
            "yes": [True, False],
            "no": pa.array([None, None], pa.bool_()),
            "size": [1234567, None],
            "ms": [1234.5, 0.0012345],
            "list": [["a", "b"], None],
            "big": [Decimal(10) ** 14, None],
        },
        Options(timezone="Asia/Tokyo"),
    )
    assert lines[2:4] == [
        "2026-03-02 08:30  2026-03-01 09:00  2026-03-01  yes  n/a  1,234,567  1,234.5  a; b  100,000,000,000,000",
        "n/a               n/a               n/a         no   n/a        n/a  0.00123  n/a                   n/a",
    ]


def test_times_beyond_the_calendar() -> None:
    ends = pa.array([2**63 - 1, -(2**63) + 1], pa.timestamp("us", "UTC"))
    assert table_of({"ts": ends})[2:] == ["infinity", "-infinity"]


def test_a_time_zone_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match="no time zone 'Mars/Olympus'"):
        table_of({"a": [1]}, Options(timezone="Mars/Olympus"))


def test_prices_keep_every_digit() -> None:
    columns = (ViewColumn("input_usd_per_mtok", "DOUBLE", "", unit="USD per million tokens"),)
    assert [line.strip() for line in lines_of(rows_of(columns, [(0.075,), (3.0,), (None,), (1250.0,)]))[2:6]] == [
        "$0.075",
        "$3.00",
        "n/a",
        "$1,250.00",
    ]


def test_a_unit_that_the_name_does_not_say() -> None:
    columns = (
        ViewColumn("load", "BIGINT", "", unit="tokens", measured="always"),
        ViewColumn("size_bytes", "BIGINT", "", unit="bytes", measured="always"),
        ViewColumn("errors", "BIGINT", "", unit="calls", measured="always"),
    )
    assert lines_of(rows_of(columns, [(1, 2, 3)]))[0] == "load (tokens)  size bytes  errors"


def test_estimated_money_of_a_query() -> None:
    assert table_of({"estimated_usd": [1.0]})[2] == "       ~$1.00"


def test_texts_are_harmless() -> None:
    lines = table_of({"text": ["a\x1b[31mb\nc\td\u202ee", "[bold]x[/]"], "n": [1, 2]})
    assert lines[2:] == ["a[31mb c de  1", "[bold]x[/]   2"]


def test_colours_only_when_asked_for() -> None:
    records = [("codex", "pdf", 1, 5, None, False)]
    plain = lines_of(rows_of(CONTEXT, records))
    coloured = lines_of(rows_of(CONTEXT, records), Options(color=True))
    assert "\x1b[33m~5\x1b[0m" in coloured[2]
    assert "\x1b[2mn/a\x1b[0m" in coloured[2]
    assert coloured[0].startswith("\x1b[1mclient\x1b[0m  ")
    assert "\x1b" not in "".join(plain)
    for code in ("\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"):
        coloured = [line.replace(code, "") for line in coloured]
    assert coloured == plain


def test_a_name_that_begins_with_the_mark_is_no_estimate() -> None:
    records = [("codex", "~/skills/pdf", 1, 5, 6, False)]
    (line,) = [line for line in lines_of(rows_of(CONTEXT, records), Options(color=True)) if "~/skills/pdf" in line]
    assert "\x1b[33m~5\x1b[0m" in line
    assert "\x1b[33m~/skills/pdf" not in line


# --- narrow terminals ------------------------------------------------------------------------------------------------

NARROW = [
    ("codex", "/home/ann/work/harbor-web/SKILL.md", 1234, 148080, None, False),
    ("codex", "/home/ann/work/ledger/AGENTS.md", 12, 0, None, True),
]


def test_first_headings_are_broken() -> None:
    assert lines_of(rows_of(CONTEXT, NARROW), Options(width=74))[:4] == [
        "                                                      overhead  overhead",
        "client  item                                requests    tokens       usd",
        "──────  ──────────────────────────────────  ────────  ────────  ────────",
        "codex   /home/ann/work/harbor-web/SKILL.md     1,234  ~148,080       n/a",
    ]


def test_then_columns_that_say_nothing_are_named_below() -> None:
    assert lines_of(rows_of(CONTEXT, NARROW), Options(width=60)) == [
        "                                              overhead",
        "item                                requests    tokens",
        "──────────────────────────────────  ────────  ────────",
        "/home/ann/work/harbor-web/SKILL.md     1,234  ~148,080",
        "/home/ann/work/ledger/AGENTS.md           12         0",
        "──────────────────────────────────  ────────  ────────",
        "total                                         ~148,080",
        "",
        "~ estimated, n/a not recorded, or there is none",
        "in every row: client codex; n/a: overhead usd",
    ]


def test_then_texts_are_cut_in_their_middle() -> None:
    lines = lines_of(rows_of(CONTEXT, NARROW), Options(width=40))
    assert lines[3:5] == [
        "/home/ann…b/SKILL.md     1,234  ~148,080",
        "/home/ann…/AGENTS.md        12         0",
    ]
    assert max(map(len, lines)) <= 40


def test_at_last_columns_are_left_out_and_numbers_are_never_cut() -> None:
    lines = lines_of(rows_of(CONTEXT, NARROW, keys=("client", "item")), Options(width=26))
    assert lines[3] == "/home/a…SKILL.md  ~148,080"
    assert lines[-1] == "too narrow for: requests"
    tiny = lines_of(rows_of(CONTEXT, NARROW, keys=("client", "item")), Options(width=5))
    assert tiny[1].startswith("────")


def test_ids_are_left_out_before_facts_and_facts_before_sums() -> None:
    columns = (
        ViewColumn("session_id", "VARCHAR", ""),
        ViewColumn("request_id", "VARCHAR", ""),
        ViewColumn("model", "VARCHAR", ""),
        *USAGE[1:],
    )
    records = [("s1", "r1", "opus-4-6", 1, 1.0, None), ("s2", "r2", "opus-4-7", 2, 2.0, None)]
    headings = []
    for width in (60, 40, 25, 15, 10):
        lines = lines_of(rows_of(columns, records, keys=("session_id",)), Options(width=width, totals=False))
        rule = next(i for i, line in enumerate(lines) if line.startswith("─"))
        headings.append(" ".join(" ".join(lines[:rule]).split()))
    assert headings == [
        "session id request id model input tokens cost",
        "session input id model tokens cost",
        "session input id tokens cost",
        "session id cost",
        "session id",
    ]


def test_compact_leaves_out_what_says_nothing() -> None:
    lines = lines_of(rows_of(CONTEXT, NARROW), Options(compact=True))
    assert lines[0].split("  ")[0] == "item"
    assert lines[-1] == "in every row: client codex; n/a: overhead usd"


def test_compact_keeps_a_column_where_all_are_the_same() -> None:
    assert table_of({"a": [1, 1], "b": [None, None]}, Options(compact=True)) == [
        "a",
        "─",
        "1",
        "1",
        "",
        "n/a not recorded, or there is none",
        "in every row: n/a: b",
    ]


def test_compact_keeps_sums_but_those_of_zeros() -> None:
    columns = (USAGE[0], USAGE[1], ViewColumn("unpriced_requests", "BIGINT", "", measured="always", total=True))
    lines = lines_of(rows_of(columns, [("a", 5, 0), ("b", 5, 0)]), Options(compact=True))
    assert lines[0] == "day    input tokens"
    assert lines[-1] == "in every row: unpriced requests 0"
    limited = lines_of(rows_of(columns, [("a", 5, 0), ("b", 5, 0), ("c", 1, 7)]), Options(compact=True, limit=2))
    assert limited[0] == "day    input tokens  unpriced requests"


def test_what_is_the_same_in_the_rows_shown_need_not_be_so_in_all() -> None:
    lines = table_of({"a": ["x", "x", "y"], "n": [1, 2, 3]}, Options(compact=True, limit=2))
    assert lines[-1] == "in every row shown: a x"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghijk", 10, "abcd…ghijk"),
        ("日本語のテキスト", 9, "日本…スト"),
        ("日本語のテキスト", 8, "日…スト"),
        ("abcdef日本語", 7, "abc…語"),
    ],
)
def test_texts_are_cut_by_what_they_take_on_the_screen(text: str, width: int, expected: str) -> None:
    assert shortened(text, width) == expected
    assert cell_width(expected) <= width


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (-1234, "-1,234"),
        (1234.0, "1,234"),
        (1234.567, "1,234.57"),
        (2.5, "2.5"),
        (0.12345, "0.123"),
        (0.00001, "0.00001"),
        (float("nan"), "n/a"),
        (None, "n/a"),
    ],
)
def test_counts(value: float | None, expected: str) -> None:
    assert marks.count(value, measured=True) == expected
    assert marks.count(value, measured=False) == (expected if expected == "n/a" else f"~{expected}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.019, "$0.02"),
        (0.0034, "$0.0034"),
        (0.00999, "$0.01"),
        (0.00000123, "$0.0000012"),
        (-1.5, "-$1.50"),
        (Decimal("0.10"), "$0.10"),
        (None, "n/a"),
    ],
)
def test_money(value: float | None, expected: str) -> None:
    assert marks.money(value, measured=True) == expected


def test_cost() -> None:
    assert marks.cost(None, None) == "n/a"
    assert marks.cost(0.0, None) == "$0.00"
    assert marks.cost(None, 2) == "~$2.00"
    assert marks.cost(1.5, 2) == "$1.50 + ~$2.00"
    assert marks.cost(1.5, 2, complete=False) == "~$1.50 + ~$2.00"


def test_rate() -> None:
    assert [marks.rate(v) for v in (3, 0.075, -1.0, Decimal("0.10"))] == ["$3.00", "$0.075", "-$1.00", "$0.10"]


# --- courses ---------------------------------------------------------------------------------------------------------

FLOW = (
    ViewColumn("client", "VARCHAR", ""),
    ViewColumn("session_id", "VARCHAR", ""),
    ViewColumn("seq", "BIGINT", ""),
    ViewColumn("context_tokens", "BIGINT", "", unit="tokens", measured="always", null="not recorded"),
)
COURSE = Course("context_tokens", ("client", "session_id"), "seq")


@pytest.mark.parametrize(
    ("values", "each", "bars", "plain"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 1, "▁▂▃▄▅▆▇█", "_.-=+*%#"),
        ([10, None, 17], 1, "▁ █", "_ #"),  # n/a is a gap, not the least
        ([5, 5, None], 1, "▁▁ ", "__ "),
        ([None, None], 1, "  ", "  "),
        ([], 1, "", ""),
        ([0, 7, 1, None, None, None, 3], 2, "█▂ ▄", "#. ="),  # the largest of two
    ],
)
def test_bars(values: list[int | None], each: int, bars: str, plain: str) -> None:
    assert sparkline(values, each) == bars
    assert sparkline(values, each, is_ascii=True) == plain


def test_a_course_is_in_its_own_order_and_whole_whatever_is_shown() -> None:
    records = [("codex", "a", 2, 17), ("codex", "b", 0, None), ("codex", "a", 0, 10), ("codex", "a", 1, None)]
    lines = lines_of(rows_of(FLOW, records, course=COURSE), Options(limit=1))
    assert "codex a  ▁ █  10 to 17" in lines
    assert not [line for line in lines if line.startswith("codex b")]
    lines = lines_of(rows_of(FLOW, records, course=COURSE))
    assert lines[-4:] == ["codex a  ▁ █  10 to 17", "codex b       n/a", "", "n/a not recorded, or there is none"]


def test_a_long_course_is_merged_to_fit() -> None:
    records = [("codex", "a", n, n) for n in range(1000)]
    lines = lines_of(rows_of(FLOW, records, course=COURSE), Options(limit=1, width=60))
    (line,) = (line for line in lines if line.startswith("codex a"))
    assert len(line) <= 60
    assert any("largest of" in line for line in lines)
    assert line.endswith("█  0 to 999")


def test_ids_are_cut_where_they_differ_and_many_courses_are_counted() -> None:
    records = [("codex", f"0123456789-{n:02d}", 0, n) for n in range(25)]
    lines = lines_of(rows_of(FLOW, records, course=COURSE))
    assert any(line.startswith("codex 0123456789-00 ") for line in lines)
    assert "and 5 more sessions; choose one with --session" in lines


def test_no_rows_have_no_course() -> None:
    assert lines_of(rows_of(FLOW, [], course=COURSE)) == ["no rows"]


def test_a_terminal_that_has_no_bars_and_no_such_letters() -> None:
    stream = io.BytesIO()
    records = [("codex", "ä-sitzung-mit-langem-namen", n, n) for n in range(3)]
    export.write("table", rows_of(FLOW, records, course=COURSE), stream, Options(encoding="ascii", width=40))
    text = stream.getvalue().decode("ascii")
    assert "?" in text
    assert "---" in text
    assert "_+#" in text
